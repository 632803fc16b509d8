"""How did one turn go? A short transcript of what a host sent to its model, and of what the scripted model answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tools.scripted_model import FINAL, Call, Request

__all__ = ["excerpt", "transcript"]

HOST, MODEL = "host   ", "model  "
LONGEST = 150  # characters of a quoted text


def transcript(turns: Sequence[Request], plan: Sequence[Call], *, prompt: str, hooks: Sequence[str], tools: int) -> str:
    """The turn, line by line; `hooks` are the beginnings of our hooks' texts, `tools` is how many of ours are offered.

    A host may repeat a request, so each is found by the number of results that it already has.
    """
    requests = {len(request.results): request for request in reversed(turns)}
    if not requests or min(requests) > 0:
        return ""
    lines = [f"{HOST}offers {tools} tools of ours"]
    lines += [f"{HOST}{_short(text)}" for hook in hooks if (text := excerpt(requests[0].body, hook))]
    lines.append(f"{HOST}{_short(prompt)}")
    for place, call in enumerate(plan):
        before, after = requests.get(place), requests.get(place + 1)
        if before is None or after is None:
            break
        arguments = json.dumps(call.filled(before), ensure_ascii=False)
        result = after.results[place]
        lines.append(f"{MODEL}{before.find_tool(call.tool)} {arguments}")
        lines.append(f"{HOST}{_short(result)} ({len(result.encode()) // 4:,} tokens)")
    else:
        lines.append(f"{MODEL}{FINAL}")
    return "\n".join(lines)


def excerpt(value: object, beginning: str) -> str:
    """The first text anywhere in a request that contains `beginning`, from there to its end; else empty."""
    if isinstance(value, str):
        return value[value.index(beginning) :] if beginning in value else ""
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return next(filter(None, (excerpt(part, beginning) for part in parts)), "")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST].rstrip()}…"
