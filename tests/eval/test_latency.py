"""Percentiles of latency: hand-calculated values, what is left out, and properties."""

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.metrics.efficiency import latency
from eval.schema import TIMINGS

untimed = settings(deadline=None)
milliseconds = st.floats(0, 1e6, allow_nan=False)


def timings_of(ms_of):
    rows = [(f"q{n}", stage, ms) for stage, values in ms_of.items() for n, ms in enumerate(values)]
    return pl.DataFrame(rows, schema=TIMINGS, orient="row")


def literal_percentile(values, percent):
    """Hyndman & Fan's type 7: the value at place (n - 1) p, linear between its neighbours."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def test_percentiles_between_two_measurements_are_interpolated_linearly():
    # Places (5 - 1) p = 2, 3.8, 3.96 of 10 20 30 40 50: 30, 40 + .8 * 10, 40 + .96 * 10.
    found = latency(timings_of({"search": [50.0, 10.0, 30.0, 20.0, 40.0]}))
    assert found == {"search": pytest.approx({"p50": 30.0, "p95": 48.0, "p99": 49.6})}


@untimed
@given(st.lists(milliseconds, min_size=1, max_size=30))
def test_percentiles_equal_the_literal_definition(values):
    found = latency(timings_of({"embed": values}))["embed"]
    expected = {f"p{percent}": literal_percentile(values, percent) for percent in (50, 95, 99)}
    assert found == pytest.approx(expected, rel=1e-12, abs=1e-9)


@untimed
@given(st.lists(milliseconds, min_size=1, max_size=30))
def test_percentiles_never_decrease_and_stay_among_the_measurements(values):
    found = latency(timings_of({"window": values}))["window"]
    assert min(values) <= found["p50"] <= found["p95"] <= found["p99"] <= max(values)


def test_one_measurement_is_every_percentile():
    assert latency(timings_of({"search": [7.5]})) == {"search": {"p50": 7.5, "p95": 7.5, "p99": 7.5}}


@pytest.mark.parametrize("unknown", [None, float("nan")])
def test_a_query_without_a_measurement_is_left_out(unknown):
    assert latency(timings_of({"embed": [unknown, 2.0, unknown]})) == {"embed": {"p50": 2.0, "p95": 2.0, "p99": 2.0}}


def test_a_stage_that_was_never_measured_is_null_not_zero():
    assert latency(timings_of({"embed": [None, None]})) == {"embed": {"p50": None, "p95": None, "p99": None}}


def test_stages_come_in_alphabetical_order_each_with_its_own_numbers():
    found = latency(timings_of({"window": [3.0], "embed": [1.0], "search": [2.0]}))
    assert [(stage, row["p50"]) for stage, row in found.items()] == [("embed", 1.0), ("search", 2.0), ("window", 3.0)]


def test_no_timings_give_no_stage():
    assert latency(timings_of({})) == {}
