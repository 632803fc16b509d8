"""How long does it take to match 10,000 trigger phrases, and to get ready for it in a fresh process?

    python -m benchmarks.triggers

Phrases of one to four words are drawn from a vocabulary of 6,000 made-up words; the prompt has 10,000
characters of the same vocabulary with some of the phrases in it. Then the same with phrases of two to five Chinese
characters, of 3,000. Processor time, in milliseconds.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable

from spec_kit_memory.core.triggers import Matcher

PHRASES = 10_000
CHARACTERS = 10_000


def milliseconds(run: Callable[[], object], times: int) -> tuple[float, float]:
    """Median and 95th percentile."""
    taken = []
    for _ in range(times):
        started = time.process_time()
        run()
        taken.append(1000 * (time.process_time() - started))
    return statistics.median(taken), statistics.quantiles(taken, n=20)[-1]


def main() -> None:
    chance = random.Random(7)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(3, 10))) for _ in range(6_000)]
    phrases = [
        (number % 3_000, " ".join(chance.sample(words, chance.choice((1, 2, 2, 3, 3, 4))))) for number in range(PHRASES)
    ]
    prompt = ""
    while len(prompt) < CHARACTERS:
        prompt += " " + (chance.choice(phrases)[1] if chance.random() < 0.01 else chance.choice(words))
    prompt = prompt[:CHARACTERS]
    matcher = Matcher(phrases)
    results = matcher.match(prompt, limit=50)
    build = milliseconds(lambda: Matcher(phrases), 20)
    fresh = itertools.count()  # a prompt that was just read is remembered
    match = milliseconds(lambda: matcher.match(f"{prompt} {next(fresh)}", limit=50), 200)
    short = milliseconds(lambda: matcher.match(f"{prompt[:200]} {next(fresh)}", limit=50), 200)
    print(
        f"{len(matcher)} phrases, a prompt of {len(prompt)} characters, {len(results)} of at most 50 memories returned"
    )
    print(f"getting ready  {build[0]:6.2f} ms (95 %: {build[1]:.2f})")
    print(f"matching       {match[0]:6.2f} ms (95 %: {match[1]:.2f})")
    print(f"a short prompt {short[0]:6.2f} ms (95 %: {short[1]:.2f})")
    characters = [chr(0x4E00 + number) for number in range(3_000)]
    unspaced = [
        (number % 3_000, "".join(chance.choices(characters, k=chance.choice((2, 2, 3, 4, 4, 5)))))
        for number in range(PHRASES)
    ]
    chinese = "".join(
        chance.choice(unspaced)[1] if chance.random() < 0.01 else chance.choice(characters) for _ in range(CHARACTERS)
    )[:CHARACTERS]
    matcher = Matcher(unspaced)
    match = milliseconds(lambda: matcher.match(f"{chinese} {next(fresh)}", limit=50), 200)
    print(f"Chinese        {match[0]:6.2f} ms (95 %: {match[1]:.2f})")


if __name__ == "__main__":
    main()
