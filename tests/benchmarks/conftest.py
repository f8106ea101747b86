"""Seeded data of the sizes the benchmarks compare; ratios within one run are what counts."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from eval.judged import Judged
from eval.schema import MESSAGES, QRELS, QUERIES, RUN, TIMINGS, Run, TestCollection
from recall.protocols import IndexEntry
from recall.schema import Message, Vectors

DIM = 384
THREAD_LENGTH = 25
START = datetime(2024, 1, 1, tzinfo=UTC)


def unit_rows(count: int, seed: int = 0) -> Vectors:
    rows = np.random.default_rng(seed).standard_normal((count, DIM)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def index_entries(count: int) -> list[IndexEntry]:
    return [
        IndexEntry(f"m{n}", "r", f"t{n // THREAD_LENGTH}", START + timedelta(seconds=n), n % THREAD_LENGTH)
        for n in range(count)
    ]


def stored_messages(count: int) -> list[Message]:
    return [
        Message(e.message_id, e.thread_id, e.resource_id, "user", "text", e.created_at) for e in index_entries(count)
    ]


@pytest.fixture(scope="session")
def bench_data() -> SimpleNamespace:
    """The makers of rows, entries and messages."""
    return SimpleNamespace(unit_rows=unit_rows, index_entries=index_entries, stored_messages=stored_messages)


def made_sweep_case(queries: int, depth: int) -> tuple[Judged, Run]:
    """Queries over 20 resources of 500 messages in threads of 25; three relevant messages each."""
    resources, size = 20, 500
    generator = np.random.default_rng(7)
    rows = [
        (f"r{r}-m{n}", f"r{r}", f"r{r}-t{n // THREAD_LENGTH}", n % THREAD_LENGTH, "user", None, f"{r} {n}", START, None)
        for r in range(resources)
        for n in range(size)
    ]
    asked, qrels, hits = [], [], []
    for q in range(queries):
        owner = q % resources
        asked.append((f"q{q}", f"r{owner}", None, None, "?", "kind", True, f"r{owner}", "dev"))
        order = generator.permutation(size)
        scores = np.sort(generator.uniform(-0.2, 0.9, depth))[::-1]
        qrels += [(f"q{q}", f"r{owner}-m{n}", 1) for n in order[:300:100]]
        hits += [(f"q{q}", rank + 1, f"r{owner}-m{order[rank]}", float(scores[rank])) for rank in range(depth)]
    collection = TestCollection(
        pl.DataFrame(rows, schema=MESSAGES, orient="row"),
        pl.DataFrame(asked, schema=QUERIES, orient="row"),
        pl.DataFrame(qrels, schema=QRELS, orient="row"),
    )
    run = Run(pl.DataFrame(hits, schema=RUN, orient="row"), pl.DataFrame(schema=TIMINGS), "resource", depth)
    tokens = generator.integers(5, 80, resources * size).astype(np.int32)
    return Judged(collection, tokens), run


@pytest.fixture(scope="session")
def sweep_case() -> Callable[[int, int], tuple[Judged, Run]]:
    """A maker of a judged collection and a run, by number of queries and depth; each made once."""
    return cache(made_sweep_case)
