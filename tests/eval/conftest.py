"""A small collection held by a system without a model, for tests of the harness."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eval.evaluation import Prepared, prepare
from eval.schema import TestCollection
from eval.synthetic.generate import generate
from eval.system import Parts, System, assemble
from recall.embedders.hashing import HashingEmbedder
from recall.indexes.exact import ExactIndex
from recall.indexes.hnsw import HnswIndex
from recall.retrievers.dense import DenseRetriever
from recall.stores.memory import InMemoryStore

DEPTH = 60
INDEXES = {"exact": ExactIndex, "hnsw": HnswIndex}


@pytest.fixture(scope="session")
def tiny() -> TestCollection:
    return generate(
        resources=3, threads_per_resource=4, messages_per_thread=12, queries_per_resource=10, seed=5, name="tiny-test"
    )


def hashed_system(index: str) -> System:
    """A system of real parts, but for the embedder."""
    parts = Parts(
        embedder=HashingEmbedder,
        index=INDEXES[index],
        retriever=lambda embedder, held: DenseRetriever(embedder, held),
        store=InMemoryStore,
    )
    return assemble(parts, {"index": index, "retriever": "dense"}, depth=DEPTH)


@pytest.fixture
def prepared(tiny: TestCollection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Prepared]:
    """A maker of the tiny collection, ingested and encoded, by the name of an index."""
    monkeypatch.setenv("RECALL_HOME", str(tmp_path))

    def make(index: str) -> Prepared:
        system = hashed_system(index)
        system.ingest(tiny)
        return prepare(tiny, system, depth=DEPTH)

    return make
