"""The one pass against the definition of every metric, one configuration and one query at a time."""

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from eval.errors import ConfigError
from eval.grid import Configuration, Grid
from eval.judged import Judged
from eval.metrics.catalogue import context_metrics
from eval.metrics.context.base import Seen
from eval.metrics.ranking import ranking_scores
from eval.onepass import FALSE_RECALL, TURN_TOKENS, OnePass
from eval.schema import MESSAGES, PER_QUERY, QRELS, QUERIES, RUN, TIMINGS, Run, TestCollection

START = datetime(2024, 1, 1, tzinfo=UTC)
SCORES = (0.9, 0.8, 0.8, 0.5, 0.5, 0.2)  # ties, and values thresholds will equal
THRESHOLDS = (None, 0.2, 0.5, 0.6, 0.8, 0.95)
TEXTS = ("x", "X!", "서울", "y", "", "…")
Case = tuple[TestCollection, Run, np.ndarray]


@st.composite
def scored_runs(draw: st.DrawFn, *, leaks: bool = False) -> Case:
    """A collection of one or two resources that share thread ids, a run on it, and token counts."""
    threads = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    rows = [
        (f"r{t % 2}", f"t{t // 2}", p)
        for t, length in sorted(enumerate(threads), key=lambda x: x[0] % 2)
        for p in range(length)
    ]
    texts = draw(st.lists(st.sampled_from(TEXTS), min_size=len(rows), max_size=len(rows)))
    messages = pl.DataFrame(
        [
            (f"m{n}", resource, thread, p, "user", None, texts[n], START + timedelta(seconds=p // 2), None)
            for n, (resource, thread, p) in enumerate(rows)
        ],
        schema=MESSAGES,
        orient="row",
    )
    queries, qrels, hits = [], [], []
    for q in range(draw(st.integers(1, 4))):
        resource = draw(st.sampled_from(sorted({row[0] for row in rows})))
        thread = draw(st.sampled_from([None, "t0", "t1", "new"]))
        asked = draw(st.one_of(st.none(), st.integers(0, 4).map(lambda s: START + timedelta(seconds=s))))
        answerable = draw(st.booleans())
        queries.append((f"q{q}", resource, thread, asked, "?", "kind", answerable, resource, "dev"))
        visible = messages if leaks else messages.filter(pl.col("resource_id") == resource)
        if asked is not None:
            visible = visible.filter(pl.col("created_at") < asked)
        order = draw(st.permutations(visible["message_id"].to_list()))[: draw(st.integers(0, len(SCORES)))]
        hits += [(f"q{q}", rank, m, SCORES[rank - 1]) for rank, m in enumerate(order, start=1)]
        judged = draw(st.lists(st.sampled_from(messages["message_id"].to_list()), unique=True, max_size=3))
        qrels += [(f"q{q}", m, draw(st.integers(0, 2))) for m in judged]
    collection = TestCollection(
        messages, pl.DataFrame(queries, schema=QUERIES, orient="row"), pl.DataFrame(qrels, schema=QRELS, orient="row")
    )
    run = Run(pl.DataFrame(hits, schema=RUN, orient="row"), pl.DataFrame(schema=TIMINGS), "resource", len(SCORES))
    tokens = np.array(draw(st.lists(st.integers(0, 200), min_size=len(rows), max_size=len(rows))), dtype=np.int32)
    return collection, run, tokens


def seen_by(case: Case, query_id: str, knobs: Configuration) -> Seen:
    """What a query was shown, from the words of the contract alone."""
    collection, run, tokens = case
    query = collection.queries.row(by_predicate=pl.col("query_id") == query_id, named=True)
    rows = list(collection.messages.iter_rows(named=True))
    by_id = {row["message_id"]: row for row in rows}
    visible = [row for row in rows if query["asked_at"] is None or row["created_at"] < query["asked_at"]]
    hits = [
        message_id
        for q, rank, message_id, score in run.hits.iter_rows()
        if q == query_id and rank <= knobs.top_k and (knobs.threshold is None or score >= np.float32(knobs.threshold))
    ]
    own = [
        row["message_id"]
        for row in visible
        if (row["resource_id"], row["thread_id"]) == (query["resource_id"], query["thread_id"])
    ]
    judged = collection.qrels.filter((pl.col("query_id") == query_id) & (pl.col("relevance") >= 1))
    return Seen(
        windows={hit: {row["message_id"] for row in visible if is_near(row, by_id[hit], knobs)} for hit in hits},
        history=set(own[-knobs.last_messages :] if knobs.last_messages else []),
        relevant=set(judged["message_id"]),
        tokens=dict(zip(by_id, tokens.tolist(), strict=True)),
        copies={row["message_id"]: said_by(row) for row in rows},
        strangers={row["message_id"] for row in rows if row["resource_id"] != query["resource_id"]},
    )


def is_near(row: dict, hit: dict, knobs: Configuration) -> bool:
    return (row["resource_id"], row["thread_id"]) == (hit["resource_id"], hit["thread_id"]) and (
        hit["position"] - knobs.before <= row["position"] <= hit["position"] + knobs.after
    )


def said_by(row: dict) -> tuple:
    letters = "".join(char for char in unicodedata.normalize("NFKC", row["text"]).lower() if char.isalnum())
    return (row["resource_id"], letters, None if letters else row["message_id"])


CONFIGURATIONS = st.builds(
    Configuration,
    scope=st.just("resource"),
    top_k=st.integers(1, len(SCORES)),
    before=st.integers(0, 3),
    after=st.integers(0, 3),
    threshold=st.sampled_from(THRESHOLDS),
    last_messages=st.sampled_from([0, 0, 1, 3, 20]),
)


@given(scored_runs() | scored_runs(leaks=True), CONFIGURATIONS)
@settings(deadline=None, max_examples=400)
def test_every_metric_of_every_query_is_its_definition(case: Case, knobs: Configuration) -> None:
    collection, run, tokens = case
    scored = OnePass(Judged(collection, tokens), run, Grid.of(knobs)).per_query(knobs)
    assert scored.schema == PER_QUERY
    assert scored.height == collection.queries.height * len(context_metrics())
    for query_id, name, value in scored.iter_rows():
        expected = context_metrics()[name].of_query(seen_by(case, query_id, knobs))
        assert value == pytest.approx(expected, abs=1e-12), (query_id, name)


@given(scored_runs(), CONFIGURATIONS)
@settings(deadline=None, max_examples=100)
def test_every_context_is_that_of_its_definition(case: Case, knobs: Configuration) -> None:
    collection, run, tokens = case
    found = OnePass(Judged(collection, tokens), run, Grid.of(knobs)).contexts(knobs)
    assert found == {query_id: seen_by(case, query_id, knobs).context for query_id in collection.queries["query_id"]}


GRID = Grid([1, 3, 6], [(0, 0), (2, 1), (0, 3)], [None, 0.5, 0.95, 0.5], [0, 2])


@given(scored_runs())
@settings(deadline=None, max_examples=60)
def test_the_table_holds_the_means_of_every_configuration(case: Case) -> None:
    collection, run, tokens = case
    judged = Judged(collection, tokens)
    table = OnePass(judged, run, GRID).table(GRID)
    assert table.height == len(GRID) == 72
    query_ids = collection.queries["query_id"].to_list()
    has_evidence = [q for q, n in zip(judged.query_ids, judged.relevant_count, strict=True) if n]
    unanswerable = collection.queries.filter(~pl.col("answerable"))["query_id"].to_list()
    for row in table.iter_rows(named=True):
        knobs = Configuration(*(row[name] for name in Configuration._fields))
        seen = {query_id: seen_by(case, query_id, knobs) for query_id in query_ids}
        for name, metric in context_metrics().items():
            assert row[name] == pytest.approx(mean([metric.of_query(seen[q]) for q in has_evidence]), abs=1e-12), name
        assert row[TURN_TOKENS] == pytest.approx(mean([each.cost(each.context) for each in seen.values()]), abs=1e-9)
        assert row[FALSE_RECALL] == pytest.approx(mean([float(bool(seen[q].windows)) for q in unanswerable]), abs=1e-12)


@given(scored_runs())
@settings(deadline=None, max_examples=60)
def test_ranking_metrics_are_those_of_ir_measures_for_the_hits_that_are_kept(case: Case) -> None:
    collection, run, tokens = case
    table = OnePass(Judged(collection, tokens), run, GRID).table(GRID)
    for row in table.filter((pl.col("before") == 0) & (pl.col("last_messages") == 0)).iter_rows(named=True):
        level = -1 if row["threshold"] is None else row["threshold"]
        kept = run.hits.filter((pl.col("rank") <= row["top_k"]) & (pl.col("score") >= pl.lit(level, dtype=pl.Float32)))
        scores = ranking_scores(kept, collection.qrels).group_by("metric").agg(pl.col("value").mean())
        for name, value in scores.iter_rows():
            assert row[name] == pytest.approx(value, abs=1e-12), name


def mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


@given(scored_runs())
@settings(deadline=None, max_examples=50)
def test_a_wider_layout_changes_nothing(case: Case) -> None:
    collection, run, tokens = case
    judged = Judged(collection, tokens)
    knobs = Configuration("resource", 3, 1, 1, None)
    narrow = OnePass(judged, run, Grid.of(knobs)).per_query(knobs)
    wide = OnePass(judged, run, Grid([6], [(1, 1), (3, 0), (0, 3)], [None], [0, 9])).per_query(knobs)
    assert narrow.equals(wide)


@given(scored_runs(), st.integers(1, 3))
@settings(deadline=None, max_examples=30)
def test_how_many_queries_are_taken_at_once_changes_nothing(case: Case, at_once: int) -> None:
    collection, run, tokens = case
    judged = Judged(collection, tokens)
    whole, parts = OnePass(judged, run, GRID), OnePass(judged, run, GRID, queries_at_once=at_once)
    assert_frame_equal(whole.table(GRID), parts.table(GRID), abs_tol=1e-12)
    knobs = Configuration("resource", 3, 2, 1, 0.5, 2)
    order = ["query_id", "metric"]
    assert whole.per_query(knobs).sort(order).equals(parts.per_query(knobs).sort(order))
    assert whole.contexts(knobs) == parts.contexts(knobs)


def test_named_columns_are_all_there_is() -> None:
    collection, run, tokens = one_message_case()
    grid = Grid([1], [(0, 0)], [None])
    table = OnePass(Judged(collection, tokens), run, grid).table(grid, metrics=["context_tokens", "mrr"])
    assert table.columns == [*Configuration._fields, "context_tokens", "mrr"]


def test_a_run_shallower_than_the_grid_is_refused() -> None:
    collection, run, tokens = one_message_case()
    with pytest.raises(ConfigError, match="holds 6 hits per query and the grid asks for top_k 7; set depth=7"):
        OnePass(Judged(collection, tokens), run, Grid([7], [(0, 0)], [None]))


def test_a_run_without_hits_scores_zero_and_costs_nothing() -> None:
    collection, run, tokens = one_message_case()
    empty = Run(run.hits.clear(), run.timings, "resource", run.depth)
    grid = Grid([4], [(1, 1)], [None])
    row = OnePass(Judged(collection, tokens), empty, grid).table(grid).row(0, named=True)
    assert (row["evidence_recall"], row["context_messages"], row["context_tokens"], row["mrr"]) == (0, 0, 0, 0)
    assert row["context_precision"] is None
    assert row["false_recall"] is None


def one_message_case() -> Case:
    messages = pl.DataFrame([("m", "r", "t", 0, "user", None, "안녕 👋", START, None)], schema=MESSAGES, orient="row")
    queries = pl.DataFrame([("q", "r", None, None, "누구?", "kind", True, "r", "dev")], schema=QUERIES, orient="row")
    qrels = pl.DataFrame([("q", "m", 1)], schema=QRELS, orient="row")
    hits = pl.DataFrame([("q", 1, "m", 0.5)], schema=RUN, orient="row")
    run = Run(hits, pl.DataFrame(schema=TIMINGS), "resource", len(SCORES))
    return TestCollection(messages, queries, qrels), run, np.array([3], dtype=np.int32)
