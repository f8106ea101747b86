"""A system: embedder, index, retriever and store, assembled and identified."""

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from eval.errors import ConfigError
from eval.schema import TestCollection
from recall.embedders.cached import CachedEmbedder
from recall.engine import RecallEngine
from recall.protocols import Embedder, Retriever, Store
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
    """

    retriever: Retriever
    store: Store
    engine: RecallEngine
    cache: CachedEmbedder
    identity: dict[str, Any]

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
class Parts:
    """Makers of the four parts; each takes what the program supplies."""

    embedder: Callable[[], Embedder]
    index: Callable[[], Any]
    retriever: Callable[[Embedder, Any], Retriever]
    store: Callable[[], Store]


def assemble(parts: Parts, settings: dict[str, Any], *, depth: int, progress: Progress | None = None) -> System:
    """The system that `parts` make, with its embedder behind the cache under `home()`.

    Args:
        parts: Makers of embedder, index, retriever and store.
        settings: The groups' settings, for the identity.
        depth: Hits fetched per query, whatever top_k.
        progress: Told (done, total) while texts are embedded.
    """
    cache = CachedEmbedder(parts.embedder(), directory=home() / "embeddings", progress=progress)
    retriever = parts.retriever(cache, parts.index())
    store = parts.store()
    identity = {
        "embedder": {"passage": cache.identity("passage"), "query": cache.identity("query")},
        "index": settings["index"],
        "retriever": settings["retriever"],
        "depth": depth,
    }
    return System(retriever, store, RecallEngine(retriever, store, depth=depth), cache, identity)


def messages_of(collection: TestCollection, resource_id: str | None = None) -> list[Message]:
    """The messages of a collection, or of one of its resources, as the engine's records, in the order of its rows."""
    rows = collection.messages
    if resource_id is not None:
        rows = rows.filter(pl.col("resource_id") == resource_id)
    return [Message(**row) for row in rows.iter_rows(named=True)]
