"""A turn of a live engine over each store, on a thread of 10,000 messages with vectors of 384 numbers."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recall.protocols import Embeddings, IndexKey, VectorSpace
from recall.schema import Message, SearchScope, utc
from recall.stores.memory import InMemoryStore
from recall.stores.sqlite import SQLiteStore

ROWS, DIM = 10_000, 384
START = utc(2024, 3, 5)
KEY = IndexKey("index", VectorSpace("random", "1"))
THREAD = SearchScope("ann", "t")


def say(number: int) -> Message:
    return Message(f"m{number}", "t", "ann", "user", f"message {number}", START + timedelta(minutes=number))


def embedded(messages: list[Message]) -> Embeddings:
    rows = np.random.default_rng(0).normal(size=(len(messages), DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return Embeddings(KEY, dict(zip((m.message_id for m in messages), rows, strict=True)))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    held = InMemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "messages.db")
    messages = [say(number) for number in range(ROWS)]
    held.add(messages, embedded(messages))
    yield held
    held.close()


@pytest.mark.benchmark(group="store: add a turn of two messages")
def test_add_a_turn(store: Any, benchmark: Callable[..., Any]) -> None:
    numbers = count(ROWS)

    def turn() -> tuple[tuple[Any, ...], dict[str, Any]]:
        messages = [say(next(numbers)), say(next(numbers))]
        return (messages, embedded(messages)), {}

    benchmark.pedantic(store.add, setup=turn, rounds=50)  # type: ignore[attr-defined]


@pytest.mark.benchmark(group="store: nothing has changed")
def test_look_for_changes(store: Any, benchmark: Callable[..., Any]) -> None:
    revision = store.changes("ann", 0, KEY).revision
    benchmark(store.changes, "ann", revision, KEY)


@pytest.mark.benchmark(group="store: everything, for a new process")
def test_read_everything(store: Any, benchmark: Callable[..., Any]) -> None:
    assert len(benchmark(store.changes, "ann", 0, KEY).changed) == ROWS


@pytest.mark.benchmark(group="store: a window in the middle")
def test_read_a_window(store: Any, benchmark: Callable[..., Any]) -> None:
    assert len(benchmark(store.span, THREAD, ROWS // 2, ROWS // 2 + 3)) == 3
