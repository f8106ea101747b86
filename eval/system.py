"""A system: embedder, index, retriever and store, assembled and identified."""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from eval.errors import ConfigError
from eval.saved_run import SavedRun
from eval.schema import TestCollection
from recall.embedders.cached import CachedEmbedder
from recall.engine import RecallEngine
from recall.errors import OptionsError
from recall.options import MAX_RANGE
from recall.protocols import Embedder, Retriever, Store, VectorIndex
from recall.retrievers.narrowed import NarrowedRetriever
from recall.retrievers.recency_weighted import RecencyWeightedRetriever
from recall.schema import Message

HOME_VARIABLE = "RECALL_HOME"
Progress = Callable[[int, int], None]


def home() -> Path:
    """Where caches and the tracking store live: $RECALL_HOME, or `.recall` in the current folder."""
    return Path(os.environ.get(HOME_VARIABLE) or ".recall").absolute()


@dataclass(frozen=True)
class System:
    """What answers queries, fully configured.

    Attributes:
        retriever: Ranks messages.
        store: Holds messages.
        engine: Both, behind `recall`.
        cache: The embedder's cache.
        identity: What makes this system the one it is; plain data.
        query_messages: The query and the user's messages before it that are searched with, together.
    """

    retriever: Retriever
    store: Store
    engine: RecallEngine
    cache: CachedEmbedder
    identity: dict[str, Any]
    query_messages: int = 1
    index: VectorIndex | None = None

    @property
    def index_bytes(self) -> int | None:
        """Memory of vectors and graphs; None for a retriever that has none."""
        return None if self.index is None else self.index.nbytes

    @property
    def system_id(self) -> str:
        """A short digest of the identity."""
        canonical = json.dumps(self.identity, sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    def ingest(self, collection: TestCollection) -> None:
        """Make every message of a collection retrievable.

        Raises:
            ConfigError: The store holds other messages too, which would be found as well; nothing is stored.
        """
        others = len(self.store) - len(self.store.get(collection.messages["message_id"].to_list()))
        if others:
            raise ConfigError(
                f"the store holds {others} messages that are not of collection {collection.name!r}, expected those of "
                "the collection alone; give store.path a file of its own"
            )
        self.engine.ingest(messages_of(collection))
        for resource_id in collection.messages["resource_id"].unique().sort():
            self.engine.catch_up(resource_id)


@dataclass(frozen=True)
class Surroundings:
    """What is searched and with what words, whatever the retriever.

    Attributes:
        roles: Only messages of these roles can be hits; None for all.
        since: Only messages created at this time or later, ISO 8601 with a zone.
        until: Only messages created before this time.
        half_life_days: Scores halve with every half-life of a message's age; None is off.
        query_messages: The query and the user's messages before it in its thread, together so many.
    """

    roles: Sequence[str] | None = None
    since: str | None = None
    until: str | None = None
    half_life_days: float | None = None
    query_messages: int = 1

    def around(self, retriever: Retriever) -> Retriever:
        """The retriever within these surroundings.

        Raises:
            OptionsError: A setting that cannot be used.
        """
        try:
            return self._around(retriever)
        except OptionsError as error:
            raise OptionsError(f"retrieval.{error.field}", error.value, error.allowed) from None

    def _around(self, retriever: Retriever) -> Retriever:
        if not 1 <= self.query_messages <= MAX_RANGE:
            raise OptionsError("query_messages", self.query_messages, f"an integer from 1 to {MAX_RANGE}")
        since, until = _moment("since", self.since), _moment("until", self.until)
        if (self.roles, since, until) != (None, None, None):
            retriever = NarrowedRetriever(retriever, roles=self.roles, since=since, until=until)
        if self.half_life_days is not None:
            retriever = RecencyWeightedRetriever(retriever, half_life_days=self.half_life_days)
        return retriever


PLAIN = Surroundings()


def _moment(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise OptionsError(name, text, "a time such as 2024-05-31T00:00:00Z") from error


@dataclass(frozen=True)
class Parts:
    """Makers of the four parts; each takes what the program supplies."""

    embedder: Callable[[], Embedder]
    index: Callable[[], Any]
    retriever: Callable[[Embedder, Any], Retriever]
    store: Callable[[], Store]


def assemble(
    parts: Parts,
    settings: dict[str, Any],
    *,
    depth: int,
    surroundings: Surroundings = PLAIN,
    progress: Progress | None = None,
) -> System:
    """The system that `parts` make, with its embedder behind the cache under `home()`.

    Args:
        parts: Makers of embedder, index, retriever and store.
        settings: The groups' settings, for the identity.
        depth: Hits fetched per query, whatever top_k.
        surroundings: What is searched and with what words.
        progress: Told (done, total) while texts are embedded.
    """
    cache = CachedEmbedder(parts.embedder(), directory=home() / "embeddings", progress=progress)
    index = parts.index()
    inner = parts.retriever(cache, index)
    retriever = surroundings.around(inner)
    store = parts.store()
    identity: dict[str, Any] = {"retriever": settings["retriever"], "depth": depth}
    if inner.space is not None:
        passage, query = cache.identity("passage"), cache.identity("query")
        identity |= {"embedder": {"passage": passage, "query": query}, "index": settings["index"]}
    if isinstance(inner, SavedRun):
        identity["run_sha256"] = inner.identity
    if surroundings != PLAIN:
        identity["retrieval"] = asdict(surroundings)
    engine = RecallEngine(retriever, store, depth=depth)
    held = None if inner.space is None else index
    return System(retriever, store, engine, cache, identity, surroundings.query_messages, held)


def messages_of(collection: TestCollection, resource_id: str | None = None) -> list[Message]:
    """The messages of a collection, or of one of its resources, as the engine's records, in the order of its rows."""
    rows = collection.messages
    if resource_id is not None:
        rows = rows.filter(pl.col("resource_id") == resource_id)
    return [Message(**row) for row in rows.iter_rows(named=True)]
