"""Would an approximate index serve a search within one project? pgvector's HNSW and halfvec beside exact search.

    python -m benchmarks.approximate [--vectors 20000] [--questions 30]

The vectors are synthetic, 384 dimensions around 500 centres, so that neighbours have something in common as texts
have. They belong to projects of different size in one table, as in ours. Of each way: its time, and how many of the
300 that exact search finds. PostgreSQL is the wheel's own server, on this machine.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import psycopg

from tests import postgres_server

DIMENSIONS, CENTRES, WANTED = 384, 500, 300
SHARES = {1: 0.88, 2: 0.10, 3: 0.02}  # project -> of all vectors
EXACT = "SET LOCAL enable_indexscan = off"
BY_INDEX = f"SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL hnsw.ef_search = {WANTED}"
WAYS = {  # the type of the column, and the settings
    "exact, float32": ("vector", EXACT),
    "exact, halfvec": ("halfvec", EXACT),
    "HNSW": ("vector", BY_INDEX),
    "HNSW that goes on until it has enough": ("vector", f"{BY_INDEX}; SET LOCAL hnsw.iterative_scan = strict_order"),
}

Vectors = npt.NDArray[np.float32]


def drawn(count: int, random: np.random.Generator, centres: Vectors) -> Vectors:
    noise = random.standard_normal((count, DIMENSIONS)).astype(np.float32)
    vectors: Vectors = centres[random.integers(0, CENTRES, count)] + noise
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def literal(vector: Vectors) -> str:
    return f"[{','.join(map(str, vector.tolist()))}]"


def fill(connection: psycopg.Connection, vectors: Vectors, projects: Sequence[int]) -> None:
    connection.execute("CREATE EXTENSION vector")
    for kind in ("vector", "halfvec"):
        columns = f"project int, id int, near {kind}({DIMENSIONS}), PRIMARY KEY (project, id)"
        connection.execute(f"CREATE TABLE sample_{kind} ({columns})".encode())
        with connection.cursor().copy(f"COPY sample_{kind} FROM STDIN".encode()) as copy:
            for number, (project, vector) in enumerate(zip(projects, vectors, strict=True)):
                copy.write_row((project, number, literal(vector)))
    connection.commit()
    connection.autocommit = True
    connection.execute("VACUUM ANALYZE")
    connection.autocommit = False


def ask(connection: psycopg.Connection, way: str, project: int, question: Vectors) -> tuple[float, list[int]]:
    kind, settings = WAYS[way]
    connection.execute(settings.encode())
    sql = f"SELECT id FROM sample_{kind} WHERE project = %s ORDER BY near <#> %s::{kind} LIMIT {WANTED}"
    start = time.perf_counter()
    rows = connection.execute(sql.encode(), (project, literal(question))).fetchall()
    took = 1000 * (time.perf_counter() - start)
    connection.rollback()
    return took, [row[0] for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--vectors", type=int, default=20_000)
    parser.add_argument("--questions", type=int, default=30)
    arguments = parser.parse_args()
    random = np.random.default_rng(5)
    centres = random.standard_normal((CENTRES, DIMENSIONS)).astype(np.float32)
    vectors, questions = drawn(arguments.vectors, random, centres), drawn(arguments.questions, random, centres)
    projects = random.choice(list(SHARES), size=arguments.vectors, p=list(SHARES.values())).tolist()
    server = postgres_server.started()
    try:
        with psycopg.connect(server.url()) as connection:
            fill(connection, vectors, projects)
            start = time.perf_counter()
            connection.execute("SET maintenance_work_mem = '1GB'")
            connection.execute("CREATE INDEX nearest ON sample_vector USING hnsw (near vector_ip_ops)")
            connection.commit()
            built = time.perf_counter() - start
            sizes = connection.execute(
                "SELECT pg_relation_size('nearest'), pg_table_size('sample_vector'), pg_table_size('sample_halfvec')"
            ).fetchone()
            assert sizes is not None
            print(f"{arguments.vectors:,} vectors: HNSW built in {built:.0f} s, {sizes[0] / 1e6:.0f} MB")
            print(f"the table {sizes[1] / 1e6:.0f} MB, with halfvec {sizes[2] / 1e6:.0f} MB\n", flush=True)
            print(f"| | project with | p50, ms | found of the {WANTED} nearest |\n|---|---|---|---|")
            for project, share in SHARES.items():
                exact = [set(ask(connection, "exact, float32", project, question)[1]) for question in questions]
                for way in WAYS:
                    answers = [ask(connection, way, project, question) for question in questions]
                    right = [len(best.intersection(ids)) for best, (_, ids) in zip(exact, answers, strict=True)]
                    took = statistics.median(ms for ms, _ in answers)
                    print(
                        f"| {way} | {share:.0%} of the vectors | {took:.1f} | {statistics.mean(right):.0f} |",
                        flush=True,
                    )
    finally:
        postgres_server.ended(server)


if __name__ == "__main__":
    main()
