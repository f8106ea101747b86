"""Collection and system to run: every query's ranked hits to a depth, with timings."""

import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from time import perf_counter_ns
from typing import NamedTuple, Protocol, runtime_checkable

import polars as pl

from eval.metrics.ann import ann_recall, gold_loss
from eval.query_text import query_texts
from eval.schema import PER_QUERY, RUN, TIMINGS, Run, TestCollection
from recall.options import RecallOptions
from recall.protocols import EncodedQuery, MessageReader, Retriever
from recall.schema import Hit, Ranking, ScopeName, SearchScope
from recall.scoring import display, passes
from recall.windows import build_context

ANN_DEPTH = 10


class Query(NamedTuple):
    """One row of the queries table, as the runner needs it."""

    query_id: str
    resource_id: str
    thread_id: str | None
    asked_at: datetime | None
    text: str


@runtime_checkable
class RunMaker(Protocol):
    """A retriever that makes its run with knowledge of the collection: of the answers, or of a saved run."""

    def make_run(self, run: Run, collection: TestCollection) -> Run:
        """The run to score, of the run it retrieved."""
        ...


class Retrieval(NamedTuple):
    """One run, and how well an approximate index did on it.

    Attributes:
        run: The ranked hits.
        ann: PER_QUERY rows of ann_recall_at_10 and ann_gold_loss_at_10; empty where no graph answered.
        build_seconds: What the first search of each scope took, which builds what is needed.
    """

    run: Run
    ann: pl.DataFrame
    build_seconds: float = 0.0


def queries_of(collection: TestCollection) -> list[Query]:
    """The collection's queries in the order of its rows."""
    return [Query(*row) for row in collection.queries.select(Query._fields).iter_rows()]


def relevant_ids(collection: TestCollection) -> dict[str, set[str]]:
    """query_id to its relevant messages, for every query of the collection."""
    found: dict[str, set[str]] = {query_id: set() for query_id in collection.queries["query_id"]}
    relevant = collection.qrels.filter(pl.col("relevance") >= 1)
    for query_id, message_id in relevant.select("query_id", "message_id").iter_rows():
        found[query_id].add(message_id)
    return found


def encode(
    collection: TestCollection,
    retriever: Retriever,
    progress: Callable[[int, int], None] | None = None,
    *,
    query_messages: int = 1,
) -> dict[str, EncodedQuery]:
    """Every query in the retriever's form, one at a time as an assistant would; independent of the scope.

    Args:
        collection: What is asked.
        retriever: What answers.
        progress: Told (done, total) queries.
        query_messages: The query and the user's messages before it in its thread, together so many.
    """
    encoded = {}
    queries = queries_of(collection)
    texts = query_texts(collection, query_messages)
    for number, query in enumerate(queries, start=1):
        encoded[query.query_id] = retriever.encode(texts[query.query_id])
        if progress:
            progress(number, len(queries))
    return encoded


def retrieve(
    collection: TestCollection,
    retriever: Retriever,
    encoded: Mapping[str, EncodedQuery],
    *,
    scope: ScopeName,
    depth: int,
) -> Retrieval:
    """Rank every query of a collection in one scope.

    A query asked in a new thread has nothing in thread scope: no hits, counted as `new_thread_queries`.
    """
    hits: list[tuple[str, int, str, float]] = []
    timings: list[tuple[str, str, float | None]] = []
    ann: list[tuple[str, str, float | None]] = []
    counts = {"queries": 0, "queries_by_graph": 0, "queries_by_exact": 0, "new_thread_queries": 0}
    warm: set[SearchScope] = set()
    relevant = relevant_ids(collection)
    build_ms = 0.0
    for query in queries_of(collection):
        counts["queries"] += 1
        where = search_scope(query, scope)
        if where is None:
            counts["new_thread_queries"] += 1
            continue
        form = encoded[query.query_id]
        if where not in warm:
            # A graph is built at the first search of a scope; that is no part of a search.
            started = perf_counter_ns()
            retriever.rank(form, where, depth)
            build_ms += _ms_since(started)
            warm.add(where)
        started = perf_counter_ns()
        ranking = retriever.rank(form, where, depth, before=query.asked_at)
        timings.append((query.query_id, "search", _ms_since(started)))
        timings.append((query.query_id, "embed", form.ms))
        counts[f"queries_by_{ranking.searched_by}"] += 1
        hits.extend(_rows(query.query_id, ranking))
        if ranking.searched_by == "graph":
            exact = retriever.rank(form, where, ANN_DEPTH, before=query.asked_at, exact=True)
            found = ann_recall(ranking.scores[:ANN_DEPTH], exact.scores, ANN_DEPTH)
            ann.append((query.query_id, f"ann_recall_at_{ANN_DEPTH}", found))
            lost = gold_loss(ranking.message_ids[:ANN_DEPTH], exact.message_ids, relevant.get(query.query_id, set()))
            ann.append((query.query_id, f"ann_gold_loss_at_{ANN_DEPTH}", lost))
    run = Run(
        hits=pl.DataFrame(hits, schema=RUN, orient="row"),
        timings=pl.DataFrame(timings, schema=TIMINGS, orient="row"),
        scope=scope,
        depth=depth,
        counts=counts,
    )
    return Retrieval(run, pl.DataFrame(ann, schema=PER_QUERY, orient="row"), build_ms / 1000)


class Contexts(NamedTuple):
    """What the model would see for every query, under one configuration.

    Attributes:
        message_ids: query_id to the ids of its history and context; empty where there are neither.
        timings: TIMINGS rows of the stage "window".
    """

    message_ids: dict[str, list[str]]
    timings: pl.DataFrame


def contexts(
    collection: TestCollection, store: MessageReader, run: Run, options: RecallOptions, last_messages: int = 0
) -> Contexts:
    """Threshold and windows by the engine's own code, query by query, beside the last messages of the thread."""
    kept = run.hits.filter(pl.col("rank") <= options.top_k)
    kept = kept.filter(passes(kept["score"].to_numpy(), options.threshold))
    hits_of: dict[str, list[Hit]] = {}
    for query_id, rank, message_id, score in kept.iter_rows():
        hits_of.setdefault(query_id, []).append(Hit(message_id, display(score), rank))
    message_ids: dict[str, list[str]] = {}
    timings = []
    for query in queries_of(collection):
        started = perf_counter_ns()
        found = build_context(
            hits_of.get(query.query_id, []),
            store,
            message_range=options.message_range,
            scope=SearchScope(query.resource_id),
            before=query.asked_at,
        )
        timings.append((query.query_id, "window", _ms_since(started)))
        seen = [*_history(query, store, last_messages), *(item.message.message_id for item in found)]
        message_ids[query.query_id] = list(dict.fromkeys(seen))
    return Contexts(message_ids, pl.DataFrame(timings, schema=TIMINGS, orient="row"))


def _history(query: Query, store: MessageReader, last_messages: int) -> list[str]:
    """The last messages of the query's thread when it was asked."""
    if not last_messages or query.thread_id is None:
        return []
    thread = store.span(SearchScope(query.resource_id, query.thread_id), 0, sys.maxsize)
    said = [m.message_id for m in thread if query.asked_at is None or m.created_at < query.asked_at]
    return said[-last_messages:]


def search_scope(query: Query, scope: ScopeName) -> SearchScope | None:
    """Where a query looks; None for thread scope in a new thread."""
    if scope == "resource":
        return SearchScope(query.resource_id)
    return SearchScope(query.resource_id, query.thread_id) if query.thread_id else None


def _rows(query_id: str, ranking: Ranking) -> list[tuple[str, int, str, float]]:
    pairs = zip(ranking.message_ids, ranking.scores.tolist(), strict=True)
    return [(query_id, rank, message_id, score) for rank, (message_id, score) in enumerate(pairs, start=1)]


def _ms_since(started_ns: int) -> float:
    return (perf_counter_ns() - started_ns) / 1e6
