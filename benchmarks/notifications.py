"""What would a notification (NOTIFY) with every write cost? Commits of writers of different projects, with and without.

    python -m benchmarks.notifications [--writers 16] [--seconds 5] [--rounds 3]

PostgreSQL lets one transaction at a time commit that has notified, so writers of different projects, which otherwise
do not wait for each other, would. The server is the wheel's own with its defaults: commits are synced.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time

import psycopg

from tests import postgres_server

WAYS = {
    "without": "BEGIN; UPDATE row SET count = count + 1 WHERE id = {id}; COMMIT",
    "with NOTIFY": "BEGIN; UPDATE row SET count = count + 1 WHERE id = {id}; NOTIFY changed, '{id}'; COMMIT",
}


def commits(server: postgres_server.Server, statement: str, writers: int, seconds: float) -> list[float]:
    """The milliseconds of every commit, of writers that each change a row of their own."""
    taken: list[float] = []
    begin = threading.Barrier(writers)

    def write(number: int) -> None:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            begin.wait()
            end = time.perf_counter() + seconds
            while (start := time.perf_counter()) < end:
                connection.execute(statement.format(id=number).encode())
                taken.append(1000 * (time.perf_counter() - start))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3, help="of both, alternating")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    server = postgres_server.started(settings=postgres_server.DEFAULTS)
    try:
        server.execute("CREATE TABLE row (id INT PRIMARY KEY, count INT NOT NULL DEFAULT 0)")
        server.execute(f"INSERT INTO row SELECT generate_series(0, {arguments.writers - 1})")
        taken: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(arguments.rounds):
            for name, statement in WAYS.items():
                taken[name] += commits(server, statement, arguments.writers, arguments.seconds)
    finally:
        postgres_server.ended(server)
    print(f"| {arguments.writers} writers, each of its own project | commits a second | p50, ms | p95, ms |")
    print("|---|---|---|---|")
    for name, times in taken.items():
        each = len(times) / (arguments.rounds * arguments.seconds)
        print(
            f"| {name} | {each:,.0f} | {statistics.median(times):.1f} | {statistics.quantiles(times, n=20)[18]:.1f} |"
        )
    print(f"\nload before {load:.1f}, after {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
