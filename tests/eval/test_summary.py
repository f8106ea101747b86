"""Means over queries: what counts, what is left out, and that order never shows."""

import math
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.metrics.summary import summarise, summarise_by_type
from eval.schema import PER_QUERY
from recall.errors import InputError

untimed = settings(deadline=None)
values = st.lists(st.none() | st.floats(0, 1), max_size=20)


def scores_of(values_of):
    rows = [(f"q{n}", metric, value) for metric, row in values_of.items() for n, value in enumerate(row)]
    return pl.DataFrame(rows, schema=PER_QUERY, orient="row")


def queries_of(types):
    return pl.DataFrame(
        {"query_id": [f"q{n}" for n in range(len(types))], "type": types}, schema_overrides={"type": pl.String}
    )


def test_a_mean_leaves_null_out_of_the_value_and_of_n():
    found = summarise(scores_of({"context_precision": [0.5, None, 0.25]}))
    assert found == {"context_precision": {"value": 0.375, "n": 2}}


def test_a_metric_without_any_value_is_null_not_zero():
    assert summarise(scores_of({"evidence_recall": [None, None]})) == {"evidence_recall": {"value": None, "n": 0}}


def test_metrics_come_in_alphabetical_order():
    assert list(summarise(scores_of({"mrr": [1.0], "hit_at_1": [1.0], "map": [1.0]}))) == ["hit_at_1", "map", "mrr"]


def test_no_scores_give_no_metrics():
    assert summarise(PER_QUERY.to_frame()) == {}


@untimed
@given(values.filter(lambda row: any(value is not None for value in row)))
def test_the_mean_is_the_exact_sum_rounded_once_then_divided(row):
    known = [value for value in row if value is not None]
    expected = float(sum(map(Fraction, known))) / len(known)
    assert summarise(scores_of({"map": row}))["map"] == {"value": expected, "n": len(known)}


@untimed
@given(values, st.integers(0, 2**32 - 1))
def test_the_order_of_rows_never_changes_a_byte(row, seed):
    scores = scores_of({"map": row, "mrr": row[::-1]})
    assert repr(summarise(scores.sample(fraction=1, shuffle=True, seed=seed))) == repr(summarise(scores))


def test_a_sum_that_loses_small_terms_in_plain_addition_keeps_them():
    # Plain addition gives 1e16 + 1 + 1 - 1e16 = 0; exactly it is 2.
    assert summarise(scores_of({"context_tokens": [1e16, 1.0, 1.0, -1e16]}))["context_tokens"]["value"] == 0.5
    assert 1e16 + 1.0 + 1.0 - 1e16 != 2


def test_each_type_has_the_mean_of_its_own_queries():
    found = summarise_by_type(scores_of({"mrr": [1.0, 0.5, 0.0]}), queries_of(["시간 ⏰", "single", "single"]))
    assert found == {"single": {"mrr": {"value": 0.25, "n": 2}}, "시간 ⏰": {"mrr": {"value": 1.0, "n": 1}}}


def test_every_type_has_every_metric_in_alphabetical_order():
    scores = scores_of({"mrr": [1.0], "evidence_recall": [1.0, None]})
    found = summarise_by_type(scores, queries_of(["a", "unanswerable", "never scored"]))
    nothing = {"evidence_recall": {"value": None, "n": 0}, "mrr": {"value": None, "n": 0}}
    assert list(found) == ["a", "never scored", "unanswerable"]
    assert found["unanswerable"] == found["never scored"] == nothing
    assert list(found["a"]) == list(nothing)


@untimed
@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1)), min_size=1, max_size=20))
def test_the_types_together_make_the_whole(rows):
    scores = scores_of({"map": [value for _, value in rows]})
    parts = summarise_by_type(scores, queries_of([kind for kind, _ in rows])).values()
    whole = summarise(scores)["map"]
    assert sum(part["map"]["n"] for part in parts) == whole["n"]
    assert math.isclose(sum(part["map"]["value"] * part["map"]["n"] for part in parts), whole["value"] * whole["n"])


def test_a_score_of_an_unknown_query_is_named():
    with pytest.raises(InputError, match="the collection lacks: 1, first 'q1'"):
        summarise_by_type(scores_of({"mrr": [1.0, 0.5]}), queries_of(["a"]))
