"""The Pareto front and the best within a budget, against the literal definition of dominance."""

import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.choice import best_within, pareto_front
from recall.errors import InputError

SCHEMA = pl.Schema(
    {
        "scope": pl.String,
        "top_k": pl.Int32,
        "before": pl.Int32,
        "after": pl.Int32,
        "threshold": pl.Float64,
        "evidence_recall": pl.Float64,
        "context_tokens": pl.Float64,
    }
)
untimed = settings(deadline=None)
# Few distinct values make ties and duplicates common.
unusable = st.sampled_from([None, math.nan, math.inf])
rows = st.tuples(
    st.sampled_from(["resource", "thread"]),
    st.integers(1, 3),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([None, 0.2, 0.5]),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]) | unusable,
    st.sampled_from([0.0, 10.0, 20.0, 30.0]) | unusable,
)
frames = st.lists(rows, max_size=12)


def frame_of(configurations):
    return pl.DataFrame(configurations, schema=SCHEMA, orient="row")


def is_usable(row):
    return all(value is not None and math.isfinite(value) for value in row[5:])


def beats(other, row):
    """Whether other is at least as good in both, and better in one."""
    return other[5] >= row[5] and other[6] <= row[6] and other[5:] != row[5:]


def simplest(equal):
    """The row a tie leaves: small top_k, few neighbours, no threshold, then the other columns."""
    return min(equal, key=lambda r: (r[1], r[2] + r[3], r[2], r[3], r[4] is not None, r[4] or 0, r[0]))


def literal_front(configurations):
    usable = [row for row in configurations if is_usable(row)]
    front = [row for row in usable if not any(beats(other, row) for other in usable)]
    return [simplest([r for r in front if r[5:] == point]) for point in sorted({r[5:] for r in front})]


@untimed
@given(frames)
def test_the_front_is_what_no_row_beats_one_row_per_point(configurations):
    assert pareto_front(frame_of(configurations)).rows() == literal_front(configurations)


@untimed
@given(frames)
def test_the_front_rises_strictly_in_cost_and_in_quality(configurations):
    front = pareto_front(frame_of(configurations))
    for column in ("context_tokens", "evidence_recall"):
        assert (front[column].diff().drop_nulls() > 0).all()


@untimed
@given(frames, st.integers(0, 2**32 - 1))
def test_the_order_of_the_rows_changes_nothing(configurations, seed):
    frame = frame_of(configurations)
    assert pareto_front(frame.sample(fraction=1, shuffle=True, seed=seed)).equals(pareto_front(frame))


@untimed
@given(frames)
def test_the_front_of_a_front_is_itself(configurations):
    front = pareto_front(frame_of(configurations))
    assert pareto_front(front).equals(front)


def test_a_hand_drawn_front_keeps_three_of_five():
    # (.5, 10) (.6, 20) (.9, 40) stay; (.6, 25) costs more than an equal, (.4, 30) is worse and dearer.
    points = [(0.9, 40.0), (0.6, 25.0), (0.5, 10.0), (0.4, 30.0), (0.6, 20.0)]
    front = pareto_front(pl.DataFrame(points, schema=["evidence_recall", "context_tokens"], orient="row"))
    assert front.rows() == [(0.5, 10.0), (0.6, 20.0), (0.9, 40.0)]


def test_other_columns_can_be_quality_and_cost():
    frame = pl.DataFrame({"map": [0.1, 0.2, 0.2], "ms": [1, 3, 2], "system_id": ["a", "b", "c"]})
    assert pareto_front(frame, quality="map", cost="ms")["system_id"].to_list() == ["a", "c"]


@untimed
@given(frames, st.sampled_from([0.0, 5.0, 10.0, 25.0, 30.0, math.inf]))
def test_the_best_within_a_budget_is_the_literal_maximum(configurations, budget):
    usable = [row for row in configurations if is_usable(row)]
    affordable = [row for row in usable if row[6] <= budget]
    if usable and not affordable:
        with pytest.raises(InputError, match="no configuration costs"):
            best_within(frame_of(configurations), budget)
        return
    best = best_within(frame_of(configurations), budget)
    top = max((r[5] for r in affordable), default=None)
    cheapest = min((r[6] for r in affordable if r[5] == top), default=None)
    expected = simplest([r for r in affordable if r[5:] == (top, cheapest)]) if affordable else None
    assert (best and tuple(best.values())) == expected


def test_a_budget_met_exactly_is_met():
    frame = frame_of([("resource", 4, 1, 1, None, 0.5, 361.0), ("resource", 1, 0, 0, None, 0.2, 40.0)])
    assert best_within(frame, 361)["top_k"] == 4


def test_of_equal_quality_the_cheaper_is_best():
    frame = frame_of([("resource", 1, 0, 0, None, 0.5, 300.0), ("resource", 9, 2, 2, 0.5, 0.5, 200.0)])
    assert best_within(frame, 1000)["top_k"] == 9


@pytest.mark.parametrize(
    ("simple", "complicated"),
    [
        (("thread", 2, 9, 9, 0.5), ("resource", 3, 0, 0, None)),
        (("thread", 2, 1, 0, 0.5), ("resource", 2, 0, 3, None)),
        (("thread", 2, 0, 2, 0.5), ("resource", 2, 1, 1, None)),
        (("thread", 2, 1, 1, None), ("resource", 2, 1, 1, 0.1)),
        (("thread", 2, 1, 1, 0.1), ("resource", 2, 1, 1, 0.5)),
        (("resource", 2, 1, 1, 0.1), ("thread", 2, 1, 1, 0.1)),
    ],
    ids=["top_k", "neighbours", "before", "no threshold", "lower threshold", "other columns"],
)
def test_of_equal_quality_and_cost_the_simplest_is_best(simple, complicated):
    frame = frame_of([(*complicated, 0.5, 100.0), (*simple, 0.5, 100.0)])
    assert best_within(frame, 100) == dict(zip(SCHEMA, (*simple, 0.5, 100.0), strict=True))


def test_no_usable_row_gives_no_choice():
    assert best_within(frame_of([("resource", 1, 0, 0, None, None, 10.0)]), 100) is None
    assert pareto_front(frame_of([])).schema == SCHEMA


def test_a_budget_below_the_cheapest_names_the_cheapest_configuration():
    frame = frame_of([("스코프", 1, 0, 0, None, 0.2, 40.5), ("resource", 4, 1, 1, None, 0.5, 361.0)])
    expected = (
        r"costs 40 context_tokens or less; .* scope=스코프, top_k=1, before=0, after=0, threshold=null with 40\.5"
    )
    with pytest.raises(InputError, match=expected):
        best_within(frame, 40)


def test_a_budget_that_is_not_a_number_is_refused():
    with pytest.raises(InputError, match="the budget for context_tokens is nan"):
        best_within(frame_of([]), math.nan)


def test_a_missing_column_is_named_beside_those_there_are():
    with pytest.raises(InputError, match=r"no column evidence_recal to choose by; the table has scope, top_k"):
        pareto_front(frame_of([]), quality="evidence_recal")
