"""The sweep's numbers are those of the engine, run configuration by configuration."""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from eval.evaluation import Prepared, evaluate, prepare, sweep
from eval.grid import Grid
from eval.loaders.locomo import load_locomo
from eval.metrics.catalogue import context_metrics
from eval.metrics.context.base import Seen
from eval.runner import contexts, queries_of, relevant_ids
from eval.system import Parts, assemble
from recall.embedders.sentence_transformer import SentenceTransformerEmbedder
from recall.indexes.hnsw import HnswIndex
from recall.options import RecallOptions
from recall.protocols import Embedder, VectorIndex
from recall.retrievers.bm25 import Bm25Retriever
from recall.retrievers.dense import DenseRetriever
from recall.retrievers.hybrid import HybridRetriever
from recall.schema import RequestContext
from recall.stores.memory import InMemoryStore

GRID = Grid([1, 2, 3, 5, 8, 20, 50], list(itertools.product(range(4), range(4))), [None, 0.05, 0.2, 0.3, 0.5])
SCOPES = ("resource", "thread")
CONFIGURATIONS = 60
COMPARED = (
    "evidence_recall",
    "evidence_all",
    "evidence_any",
    "context_precision",
    "context_messages",
    "context_tokens",
)


def sample_of(table: pl.DataFrame, seed: int, size: int = CONFIGURATIONS) -> list[dict]:
    """Random rows of a sweep."""
    chosen = np.random.default_rng(seed).choice(table.height, size, replace=False)
    return [table.row(int(number), named=True) for number in chosen]


def options_of(row: dict) -> RecallOptions:
    window = {"before": row["before"], "after": row["after"]}
    return RecallOptions(row["top_k"], message_range=window, scope=row["scope"], threshold=row["threshold"])


def means_by_engine(prepared: Prepared, options: RecallOptions) -> dict[str, float | None]:
    """The context metrics of one configuration, from one `recall` of the engine for every query."""
    found_by_query = {}
    for query in queries_of(prepared.collection):
        context = RequestContext(thread_id=query.thread_id, resource_id=query.resource_id)
        found = prepared.system.engine.recall(query.text, options, context, before=query.asked_at)
        found_by_query[query.query_id] = [item.message.message_id for item in found.context]
    return means_of(prepared, found_by_query)


def means_of(prepared: Prepared, seen: dict[str, list[str]]) -> dict[str, float | None]:
    """The mean of the metrics that the context alone decides, over the queries with evidence."""
    tokens = dict(zip(prepared.judged.message_ids, prepared.judged.tokens.tolist(), strict=True))
    relevant = {query_id: ids for query_id, ids in relevant_ids(prepared.collection).items() if ids}
    shown = [Seen({}, set(seen[query_id]), ids, tokens) for query_id, ids in relevant.items()]
    found = {}
    for name in COMPARED:
        values = [context_metrics()[name].of_query(each) for each in shown]
        defined = [value for value in values if value is not None]
        found[name] = sum(defined) / len(defined) if defined else None
    return found


@pytest.mark.parametrize("index", ["exact", "hnsw"])
def test_sixty_random_configurations_on_a_small_collection(prepared: Callable[[str], Prepared], index: str) -> None:
    held = prepared(index)
    table = sweep(held, GRID, SCOPES, max_tokens=500).tables["sweep"]
    for row in sample_of(table, seed=1):
        expected = means_by_engine(held, options_of(row))
        for metric in COMPARED:
            assert row[metric] == pytest.approx(expected[metric], abs=1e-12), (row, metric)


@pytest.mark.parametrize("index", ["exact", "hnsw"])
def test_eval_prints_what_the_sweep_prints(prepared: Callable[[str], Prepared], index: str) -> None:
    held = prepared(index)
    found = sweep(held, GRID, SCOPES, max_tokens=500)
    for row in sample_of(found.tables["sweep"], seed=2)[:20]:
        metrics = evaluate(held, options_of(row)).body["metrics"]
        for metric in COMPARED:
            assert row[metric] == pytest.approx(metrics[metric]["value"], abs=1e-12)


def test_the_chosen_row_has_the_metrics_of_its_own_evaluation(prepared: Callable[[str], Prepared]) -> None:
    held = prepared("exact")
    body = sweep(held, GRID, SCOPES, max_tokens=300).body
    knobs = body["configuration"]
    alone = evaluate(
        held,
        RecallOptions(
            knobs["top_k"],
            message_range=knobs["message_range"],
            scope=knobs["scope"],
            threshold=knobs["threshold"],
        ),
    ).body
    assert body["metrics"].keys() == alone["metrics"].keys()
    for name, entry in alone["metrics"].items():
        assert body["metrics"][name] == {"value": pytest.approx(entry["value"], abs=1e-12), "n": entry["n"]}
    assert body["by_type"].keys() == alone["by_type"].keys()


def dense_retriever(embedder: Embedder, index: VectorIndex) -> DenseRetriever:
    return DenseRetriever(embedder, index)


RETRIEVERS = {
    "dense": dense_retriever,
    "bm25": lambda embedder, index: Bm25Retriever(),
    "hybrid": lambda embedder, index: HybridRetriever(DenseRetriever(embedder, index), Bm25Retriever()),
}


@pytest.mark.slow
@pytest.mark.usefixtures("shared_cache")
@pytest.mark.parametrize("name", RETRIEVERS)
def test_a_hundred_random_configurations_on_real_conversations(locomo_path: Path, name: str) -> None:
    """Of each of three retrievers, windows and histories as the engine makes them."""
    collection = load_locomo(str(locomo_path))
    parts = Parts(SentenceTransformerEmbedder, HnswIndex, RETRIEVERS[name], InMemoryStore)
    system = assemble(parts, {"index": "hnsw", "retriever": name}, depth=60)
    system.ingest(collection)
    held = prepare(collection, system, depth=60)
    levels = [None] if system.retriever.score_range[0] > 1 else [None, 0.05, 0.2, 0.3, 0.5]
    grid = Grid(GRID.top_ks, GRID.ranges, levels, [0, 5, 20])
    table = sweep(held, grid, SCOPES, max_tokens=5000).tables["sweep"]
    runs = {scope: held.retrieve(scope).run for scope in SCOPES}
    for row in sample_of(table, seed=3, size=100):
        options = options_of(row)
        seen = contexts(collection, system.store, runs[options.scope], options, row["last_messages"])
        expected = means_of(held, seen.message_ids)
        for metric in COMPARED:
            assert row[metric] == pytest.approx(expected[metric], abs=1e-12), row


def test_the_cache_of_the_tests_lies_apart(prepared: Callable[[str], Prepared], tmp_path: Path) -> None:
    prepared("exact")
    assert list((tmp_path / "embeddings").glob("*.sqlite"))
