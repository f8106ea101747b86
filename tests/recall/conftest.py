"""Messages in one line, and an engine over a retriever that hashes words instead of loading a model."""

import zlib
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from recall.engine import RecallEngine
from recall.protocols import Changes, Embedded, EncodedQuery, VectorSpace
from recall.schema import Message, Ranking, SearchScope, Vector, utc
from recall.scoring import best_first, score
from recall.stores.memory import InMemoryStore

START = utc(2024, 3, 5, 9)
BROKEN = "💥"


class WordHashRetriever:
    """Exact cosine over hashed words; refuses texts with 💥, and knows what it was asked to do."""

    score_range = (-1.0, 1.0)
    space = VectorSpace("words", "crc32 of words")

    def __init__(self, ms: float | None = None) -> None:
        self.held: dict[str, Message] = {}
        self.embedded: list[list[str]] = []
        self.followed: list[list[str]] = []
        self.depths: list[int] = []
        self.ms = ms

    def embed(self, messages: Sequence[Message]) -> Embedded:
        self.embedded.append([message.message_id for message in messages])
        failures = {message.message_id: "the model broke" for message in messages if BROKEN in message.text}
        return Embedded({m.message_id: _vector(m.text) for m in messages if m.text and BROKEN not in m.text}, failures)

    def follow(self, changes: Changes) -> None:
        self.followed.append([entry.message.message_id for entry in changes.changed])
        for message_id in [*changes.removed, *self.followed[-1]]:
            self.held.pop(message_id, None)
        for message, vector, _ in changes.changed:
            if vector is not None:
                self.held[message.message_id] = message

    def encode(self, text: str) -> EncodedQuery:
        return EncodedQuery(_vector(text), self.ms)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        self.depths.append(depth)
        seen = sorted(
            (m for m in self.held.values() if _is_seen(m, scope, before)),
            key=lambda m: (m.created_at, m.position, m.message_id),
        )
        if not seen:
            return Ranking((), np.zeros(0, np.float32))
        scores = score(query.value, np.stack([_vector(m.text) for m in seen]))
        best = best_first(scores, np.arange(len(seen)))[:depth]
        return Ranking(tuple(seen[i].message_id for i in best), scores[best])


def _is_seen(message: Message, scope: SearchScope, before: datetime | None) -> bool:
    return scope.admits(message.resource_id, message.thread_id) and (before is None or message.created_at < before)


def _vector(text: str) -> Vector:
    vector = np.zeros(256, np.float32)
    for word in text.lower().split() or [""]:
        vector[zlib.crc32(word.encode("utf-8", "surrogatepass")) % 256] += 1
    return vector / np.float32(np.linalg.norm(vector))


def _say(message_id: str, text: str = "…", *, at: float = 0, thread: str = "t", **fields: Any) -> Message:
    """A message of resource "ann" created `at` seconds after the start."""
    fields = {"role": "user", "resource_id": "ann", **fields}
    return Message(message_id, thread, text=text, created_at=START + timedelta(seconds=at), **fields)


@pytest.fixture(scope="session")
def say() -> Callable[..., Message]:
    return _say


@pytest.fixture
def retriever() -> WordHashRetriever:
    return WordHashRetriever()


@pytest.fixture
def store() -> InMemoryStore:
    return InMemoryStore()


@pytest.fixture
def engine(retriever: WordHashRetriever, store: InMemoryStore) -> RecallEngine:
    return RecallEngine(retriever, store)


@pytest.fixture(scope="session")
def build() -> Callable[..., tuple[RecallEngine, WordHashRetriever, InMemoryStore]]:
    """A fresh engine with its parts, for properties that need one per example."""

    def fresh(ms: float | None = None) -> tuple[RecallEngine, WordHashRetriever, InMemoryStore]:
        parts = WordHashRetriever(ms), InMemoryStore()
        return RecallEngine(*parts), *parts

    return fresh
