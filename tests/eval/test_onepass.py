"""The one pass against plain sets, one configuration and one query at a time."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.errors import ConfigError
from eval.onepass import CONTEXT_METRICS, Configuration, Grid, Judged, OnePass
from eval.schema import MESSAGES, QRELS, QUERIES, RUN, TIMINGS, Run, TestCollection

START = datetime(2024, 1, 1, tzinfo=UTC)
SCORES = (0.9, 0.8, 0.8, 0.5, 0.5, 0.2)  # ties, and values thresholds will equal
THRESHOLDS = (None, 0.2, 0.5, 0.6, 0.8, 0.95)


@st.composite
def scored_runs(draw: st.DrawFn) -> tuple[TestCollection, Run, np.ndarray]:
    """A collection of one or two resources, a run on it, and token counts."""
    threads = draw(st.lists(st.integers(1, 7), min_size=1, max_size=4))
    rows = [
        (f"r{t % 2}", f"t{t}", p)
        for t, length in sorted(enumerate(threads), key=lambda x: x[0] % 2)
        for p in range(length)
    ]
    messages = pl.DataFrame(
        [
            (f"m{n}", resource, thread, p, "user", None, "x", START + timedelta(seconds=p // 2), None)
            for n, (resource, thread, p) in enumerate(rows)
        ],
        schema=MESSAGES,
        orient="row",
    )
    queries, qrels, hits = [], [], []
    for q in range(draw(st.integers(1, 4))):
        resource = draw(st.sampled_from(sorted({row[0] for row in rows})))
        asked = draw(st.one_of(st.none(), st.integers(0, 4).map(lambda s: START + timedelta(seconds=s))))
        queries.append((f"q{q}", resource, None, asked, "?", "kind", True, resource, "dev"))
        visible = messages.filter(pl.col("resource_id") == resource)
        if asked is not None:
            visible = visible.filter(pl.col("created_at") < asked)
        order = draw(st.permutations(visible["message_id"].to_list()))
        hits += [(f"q{q}", rank, m, SCORES[rank - 1]) for rank, m in enumerate(order[: len(SCORES)], start=1)]
        judged = draw(st.lists(st.sampled_from(messages["message_id"].to_list()), unique=True, max_size=3))
        qrels += [(f"q{q}", m, draw(st.integers(0, 2))) for m in judged]
    collection = TestCollection(
        messages, pl.DataFrame(queries, schema=QUERIES, orient="row"), pl.DataFrame(qrels, schema=QRELS, orient="row")
    )
    run = Run(pl.DataFrame(hits, schema=RUN, orient="row"), pl.DataFrame(schema=TIMINGS), "resource", len(SCORES))
    tokens = np.array(draw(st.lists(st.integers(0, 30), min_size=len(rows), max_size=len(rows))), dtype=np.int32)
    return collection, run, tokens


def context_by_definition(collection: TestCollection, run: Run, query_id: str, knobs: Configuration) -> set[str]:
    """Ids of the union of windows, from the words of the contract alone."""
    asked = collection.queries.row(by_predicate=pl.col("query_id") == query_id, named=True)["asked_at"]
    rows = list(collection.messages.iter_rows(named=True))
    by_id = {row["message_id"]: row for row in rows}
    kept = [
        by_id[message_id]
        for q, rank, message_id, score in run.hits.iter_rows()
        if q == query_id and rank <= knobs.top_k and (knobs.threshold is None or score >= np.float32(knobs.threshold))
    ]
    return {
        row["message_id"]
        for row in rows
        for hit in kept
        if row["thread_id"] == hit["thread_id"]
        and hit["position"] - knobs.before <= row["position"] <= hit["position"] + knobs.after
        and (asked is None or row["created_at"] < asked)
    }


def metrics_by_definition(context: set[str], relevant: set[str], tokens: dict[str, int]) -> dict[str, float | None]:
    """The six context metrics of one query."""
    found = len(context & relevant)
    return {
        "evidence_recall": found / len(relevant) if relevant else None,
        "evidence_all": float(relevant <= context) if relevant else None,
        "evidence_any": float(found > 0) if relevant else None,
        "context_precision": found / len(context) if context and relevant else None,
        "context_messages": float(len(context)),
        "context_tokens": float(sum(tokens[m] for m in context)),
    }


def expected_values(
    collection: TestCollection, run: Run, tokens: np.ndarray, knobs: Configuration
) -> dict[str, dict[str, float | None]]:
    counts = dict(zip(collection.messages["message_id"], tokens.tolist(), strict=True))
    values = {}
    for query_id in collection.queries["query_id"]:
        judged = collection.qrels.filter((pl.col("query_id") == query_id) & (pl.col("relevance") >= 1))
        context = context_by_definition(collection, run, query_id, knobs)
        values[query_id] = metrics_by_definition(context, set(judged["message_id"]), counts)
    return values


CONFIGURATIONS = st.builds(
    Configuration,
    scope=st.just("resource"),
    top_k=st.integers(1, len(SCORES)),
    before=st.integers(0, 3),
    after=st.integers(0, 3),
    threshold=st.sampled_from(THRESHOLDS),
)


@given(scored_runs(), CONFIGURATIONS)
@settings(deadline=None, max_examples=300)
def test_every_query_has_the_metrics_of_its_definition(
    case: tuple[TestCollection, Run, np.ndarray], knobs: Configuration
) -> None:
    collection, run, tokens = case
    scored = OnePass(Judged(collection, tokens), run, [(knobs.before, knobs.after)]).per_query(knobs)
    expected = expected_values(collection, run, tokens, knobs)
    for query_id, metric, value in scored.iter_rows():
        assert value == pytest.approx(expected[query_id][metric], abs=1e-12), (query_id, metric)


@given(scored_runs())
@settings(deadline=None, max_examples=50)
def test_the_table_holds_the_means_of_every_configuration(case: tuple[TestCollection, Run, np.ndarray]) -> None:
    collection, run, tokens = case
    grid = Grid([1, 3, 6], [(0, 0), (2, 1), (0, 3)], [None, 0.5, 0.95])
    judged = Judged(collection, tokens)
    table = OnePass(judged, run, grid.ranges).table(grid)
    assert table.height == 27
    has_evidence = [q for q, n in zip(judged.query_ids, judged.relevant_count, strict=True) if n]
    for row in table.iter_rows(named=True):
        knobs = Configuration(*(row[name] for name in Configuration._fields))
        expected = expected_values(collection, run, tokens, knobs)
        for metric in CONTEXT_METRICS:
            assert row[metric] == pytest.approx(mean([expected[q][metric] for q in has_evidence]), abs=1e-12)


def mean(values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return sum(defined) / len(defined) if defined else None


@given(scored_runs())
@settings(deadline=None, max_examples=50)
def test_a_wider_layout_changes_nothing(case: tuple[TestCollection, Run, np.ndarray]) -> None:
    collection, run, tokens = case
    judged = Judged(collection, tokens)
    knobs = Configuration("resource", 3, 1, 1, None)
    narrow = OnePass(judged, run, [(1, 1)]).per_query(knobs)
    wide = OnePass(judged, run, [(1, 1), (3, 0), (0, 3)]).per_query(knobs)
    assert narrow.equals(wide)


def test_a_run_shallower_than_the_grid_is_refused() -> None:
    collection, run, tokens = one_message_case()
    with pytest.raises(ConfigError, match="holds 6 hits per query and the grid asks for top_k 7; set depth=7"):
        OnePass(Judged(collection, tokens), run, [(0, 0)]).table(Grid([7], [(0, 0)], [None]))


def test_a_run_without_hits_scores_zero_and_costs_nothing() -> None:
    collection, run, tokens = one_message_case()
    empty = Run(run.hits.clear(), run.timings, "resource", run.depth)
    row = OnePass(Judged(collection, tokens), empty, [(1, 1)]).table(Grid([4], [(1, 1)], [None])).row(0, named=True)
    assert (row["evidence_recall"], row["context_messages"], row["context_tokens"]) == (0.0, 0.0, 0.0)
    assert row["context_precision"] is None


def one_message_case() -> tuple[TestCollection, Run, np.ndarray]:
    messages = pl.DataFrame([("m", "r", "t", 0, "user", None, "안녕 👋", START, None)], schema=MESSAGES, orient="row")
    queries = pl.DataFrame([("q", "r", None, None, "누구?", "kind", True, "r", "dev")], schema=QUERIES, orient="row")
    qrels = pl.DataFrame([("q", "m", 1)], schema=QRELS, orient="row")
    hits = pl.DataFrame([("q", 1, "m", 0.5)], schema=RUN, orient="row")
    run = Run(hits, pl.DataFrame(schema=TIMINGS), "resource", len(SCORES))
    return TestCollection(messages, queries, qrels), run, np.array([3], dtype=np.int32)
