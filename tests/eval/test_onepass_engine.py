"""The one pass against the real engine: configuration by configuration, query by query, over random collections."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.grid import Configuration, Grid
from eval.judged import Judged
from eval.onepass import OnePass
from eval.runner import Query, encode, queries_of, retrieve
from eval.schema import MESSAGES, QRELS, QUERIES, TestCollection
from eval.system import messages_of
from recall.embedders.hashing import HashingEmbedder
from recall.engine import RecallEngine
from recall.history import MessageHistory
from recall.indexes.exact import ExactIndex
from recall.indexes.hnsw import HnswIndex
from recall.options import RecallOptions
from recall.processor import SemanticRecall
from recall.protocols import Retriever
from recall.retrievers.bm25 import Bm25Retriever
from recall.retrievers.dense import DenseRetriever
from recall.retrievers.hybrid import HybridRetriever
from recall.retrievers.recency import RecencyRetriever
from recall.schema import Message, RequestContext
from recall.stores.memory import InMemoryStore

START = datetime(2024, 1, 1, tzinfo=UTC)
WORDS = ("whale", "tea", "고래", "sings", "…", "whale whale", "green tea")
DEPTH = 30
NEW_THREAD = "a thread that nobody has"


def dense(index=ExactIndex) -> DenseRetriever:
    return DenseRetriever(HashingEmbedder(dim=8), index())


RETRIEVERS = {
    "dense": dense,
    "graph": lambda: dense(HnswIndex),
    "bm25": Bm25Retriever,
    "hybrid": lambda: HybridRetriever(dense(), Bm25Retriever()),
    "recency": RecencyRetriever,
}


@st.composite
def collections(draw: st.DrawFn) -> TestCollection:
    """Two resources that share a thread id, equal texts and times, and queries at any time and place."""
    rows = []
    for resource in ("ana", "ben"):
        for thread in ("t0", "t1"):
            times = sorted(draw(st.lists(st.integers(0, 6), max_size=6)))
            for position, at in enumerate(times):
                said = (draw(st.sampled_from(["user", "assistant"])), None, draw(st.sampled_from(WORDS)))
                moment = START + timedelta(hours=at)
                rows.append((f"{resource}-{thread}-{position}", resource, thread, position, *said, moment, None))
    ids = [row[0] for row in rows]
    queries, qrels = [], []
    for number in range(draw(st.integers(1, 3))):
        owner = draw(st.sampled_from(["ana", "ben"]))
        asked = draw(st.none() | st.integers(0, 7).map(lambda at: START + timedelta(hours=at)))
        thread = draw(st.sampled_from([None, "t0", "t1"]))
        text = draw(st.sampled_from(WORDS))
        queries.append((f"q{number}", owner, thread, asked, text, "kind", True, owner, "dev"))
        relevant = draw(st.lists(st.sampled_from(ids), unique=True, max_size=3)) if ids else []
        qrels += [(f"q{number}", message_id, 1) for message_id in relevant if message_id.startswith(owner)]
    return TestCollection(
        pl.DataFrame(rows, schema=MESSAGES, orient="row"),
        pl.DataFrame(queries, schema=QUERIES, orient="row"),
        pl.DataFrame(qrels, schema=QRELS, orient="row"),
    )


CONFIGURATIONS = st.lists(
    st.builds(
        Configuration,
        scope=st.sampled_from(["resource", "thread"]),
        top_k=st.integers(1, DEPTH),
        before=st.integers(0, 3),
        after=st.integers(0, 3),
        threshold=st.none() | st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0]),
        last_messages=st.sampled_from([0, 1, 3, 10]),
    ),
    min_size=1,
    max_size=4,
)


def engine_over(retriever: Retriever, messages: list[Message]) -> RecallEngine:
    engine = RecallEngine(retriever, InMemoryStore(), depth=DEPTH)
    engine.ingest(messages)
    return engine


def options_of(knobs: Configuration) -> RecallOptions:
    window = {"before": knobs.before, "after": knobs.after}
    return RecallOptions(knobs.top_k, message_range=window, scope=knobs.scope, threshold=knobs.threshold)


def history_of(messages: list[Message], query: Query, last_messages: int) -> set[str]:
    own = [m for m in messages if (m.resource_id, m.thread_id) == (query.resource_id, query.thread_id)]
    seen = [m.message_id for m in own if query.asked_at is None or m.created_at < query.asked_at]
    return set(seen[-last_messages:]) if last_messages else set()


@given(collection=collections(), configurations=CONFIGURATIONS)
@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("name", RETRIEVERS)
def test_contexts_are_those_of_the_engine(name, collection, configurations) -> None:
    messages = messages_of(collection)
    engine = engine_over(RETRIEVERS[name](), messages)
    judged = Judged(collection, np.ones(len(messages), dtype=np.int64))
    low, high = engine.score_range
    # A retriever of its own: it must not matter what was asked before.
    retriever = RETRIEVERS[name]()
    other = engine_over(retriever, messages)
    for resource_id in ("ana", "ben"):
        other.catch_up(resource_id)
    encoded = encode(collection, retriever)
    for knobs in configurations:
        if knobs.threshold is not None and not low <= knobs.threshold <= high:
            knobs = knobs._replace(threshold=None)
        run = retrieve(collection, retriever, encoded, scope=knobs.scope, depth=DEPTH).run
        found = OnePass(judged, run, Grid.of(knobs)).contexts(knobs)
        for query in queries_of(collection):
            context = RequestContext(query.thread_id or NEW_THREAD, query.resource_id)
            result = engine.recall(query.text, options_of(knobs), context, before=query.asked_at)
            recalled = {entry.message.message_id for entry in result.context}
            assert found[query.query_id] == recalled | history_of(messages, query, knobs.last_messages), knobs


@given(collection=collections(), configurations=CONFIGURATIONS)
@settings(deadline=None, max_examples=60)
def test_a_history_counts_as_when_message_history_runs_first(collection, configurations) -> None:
    """At the time of the question, with the two processors as an application has them."""
    retriever = dense()
    messages = messages_of(collection)
    whole = engine_over(retriever, messages)
    for resource_id in ("ana", "ben"):
        whole.catch_up(resource_id)
    judged = Judged(collection, np.ones(len(messages), dtype=np.int64))
    encoded = encode(collection, retriever)
    for query in queries_of(collection):
        then = engine_over(dense(), [m for m in messages if query.asked_at is None or m.created_at < query.asked_at])
        context = RequestContext(query.thread_id or NEW_THREAD, query.resource_id)
        asked = Message("the question", context.thread_id, query.resource_id, "user", query.text, START)
        for knobs in configurations:
            run = retrieve(collection, retriever, encoded, scope=knobs.scope, depth=DEPTH).run
            scores = OnePass(judged, run, Grid.of(knobs))
            turn = MessageHistory(then.store, knobs.last_messages).process_input([asked], context)
            recalled = SemanticRecall(then, options_of(knobs)).recall(turn, context)
            history = {m.message_id for m in turn} - {"the question"}
            added = {entry.message.message_id for entry in recalled.context}
            assert scores.contexts(knobs)[query.query_id] == history | added
            values = dict(
                scores.per_query(knobs)
                .filter(pl.col("query_id") == query.query_id)
                .select("metric", "value")
                .iter_rows()
            )
            assert values["added_messages"] == len(added)
            assert values["context_messages"] == len(history) + len(added)
