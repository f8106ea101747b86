"""An engine in one line: over a file that lasts, or in memory, with the default parts."""

from functools import cache
from pathlib import Path

from recall.embedders.cached import CachedEmbedder
from recall.embedders.sentence_transformer import SentenceTransformerEmbedder
from recall.engine import RecallEngine
from recall.indexes.hnsw import HnswIndex
from recall.protocols import Embedder, Store
from recall.retrievers.dense import DenseRetriever
from recall.stores.memory import InMemoryStore
from recall.stores.sqlite import SQLiteStore

SWITCH_ROWS = 10_000
"""Resources with more messages than this are searched by a graph; up to it an exact scan is as fast."""


def open_engine(
    store: Store | Path | str | None = None, *, embedder: Embedder | None = None, index_name: str | None = None
) -> RecallEngine:
    """An engine over a store, with MiniLM and exact search (a graph for resources over 10,000 messages).

    Args:
        store: A store, or the path of an SQLite file, made where it is missing; None keeps everything in memory.
        embedder: MiniLM by default, loaded at the first text and shared, with its cache, by all engines of the process.
        index_name: Of the index in the store; by default from the name of the embedder's model.
    """
    if store is None or isinstance(store, Path | str):
        store = InMemoryStore() if store is None else SQLiteStore(store)
    index = HnswIndex(switch_rows=SWITCH_ROWS)
    return RecallEngine(DenseRetriever(embedder or _shared_minilm(), index), store, index_name=index_name)


@cache
def _shared_minilm() -> Embedder:
    # Built anew for every request, engines would embed every question again.
    return CachedEmbedder(SentenceTransformerEmbedder(), directory=None, timed=False)
