"""Context metrics against hand-calculated values and literal counting."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.metrics.catalogue import context_metrics
from eval.metrics.context.base import Seen

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics" / "context.json").read_text(encoding="utf-8"))
TOKENS = {"m1": 3, "m2": 5, "m3": 0, "메시지": 7, "🎉": 1}
COSTS = {"context_messages", "context_tokens"}
BASIC = ("evidence_recall", "evidence_all", "evidence_any", "context_precision", *sorted(COSTS))


def scores(seen: Seen, names: tuple[str, ...] = BASIC) -> dict[str, float | None]:
    return {name: context_metrics()[name].of_query(seen) for name in names}


def score_context(context, relevant, tokens=TOKENS):
    """The basic metrics of a context in which every message is a hit."""
    return scores(Seen({message: {message} for message in context}, frozenset(), frozenset(relevant), tokens))


untimed = settings(deadline=None)
message_sets = st.frozensets(st.sampled_from(sorted(TOKENS)))


def literal(context, relevant):
    """Every metric of one query, by counting messages one at a time."""
    found = sum(1 for message in context if message in relevant)
    return {
        "evidence_recall": found / len(relevant) if relevant else None,
        "evidence_all": (1.0 if found == len(relevant) else 0.0) if relevant else None,
        "evidence_any": (1.0 if found > 0 else 0.0) if relevant else None,
        "context_precision": found / len(context) if relevant and context else None,
        "context_messages": float(len(context)),
        "context_tokens": float(sum(TOKENS[message] for message in context)),
    }


def test_the_golden_table_is_reproduced_exactly():
    for query_id, row in GOLDEN["expected"].items():
        context, relevant = GOLDEN["contexts"].get(query_id, ()), GOLDEN["relevant"].get(query_id, ())
        expected = {name: None if value is None else float(Fraction(value)) for name, value in row.items()}
        assert score_context(context, relevant, GOLDEN["tokens"]) == expected, query_id


@untimed
@given(message_sets, message_sets)
def test_every_metric_equals_literal_counting(context, relevant):
    assert score_context(context, relevant, TOKENS) == literal(context, relevant)


@untimed
@given(message_sets, message_sets)
def test_shares_lie_between_zero_and_one_and_agree_with_each_other(context, relevant):
    scores = score_context(context, relevant, TOKENS)
    shares = [value for name, value in scores.items() if name not in COSTS and value is not None]
    assert all(0 <= share <= 1 for share in shares)
    if relevant:
        assert scores["evidence_all"] <= scores["evidence_recall"] <= scores["evidence_any"]


@untimed
@given(message_sets, message_sets, message_sets)
def test_a_larger_context_never_has_less_evidence_nor_a_lower_cost(context, more, relevant):
    small, large = score_context(context, relevant, TOKENS), score_context(context | more, relevant, TOKENS)
    for name in small.keys() - {"context_precision"}:
        assert small[name] is None or small[name] <= large[name]


def told(**changes):
    """Two hits with a window each, of a query with three relevant messages; one of them is in the history."""
    seen = {
        "windows": {"b": {"a", "b", "c"}, "d": {"c", "d", "e"}},
        "history": {"e", "f"},
        "relevant": {"b", "c", "f"},
        "tokens": {"a": 10, "b": 20, "c": 30, "d": 40, "e": 50, "f": 60},
        "copies": {"a": 0, "b": 1, "c": 2, "d": 0, "e": 4, "f": 4},
    }
    return Seen(**(seen | changes))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("evidence_recall", 1.0),
        ("history_recall", 1 / 3),
        ("added_recall", 2 / 3),
        ("added_messages", 4.0),
        ("added_tokens", 100.0),
        ("context_messages", 6.0),
        ("context_tokens", 210.0),
        ("rescue_rate", 1 / 3),  # c; b is a hit, and f is history
        ("window_overlap", 1 / 6),  # c stands in both windows
        ("copy_waste", 2 / 6),  # d says what a says, f what e says
        ("evidence_recall_within_250", 1.0),
        ("leaked_messages", 0.0),
    ],
)
def test_a_context_counted_by_hand(name, value):
    assert context_metrics()[name].of_query(told()) == pytest.approx(value)


def test_a_budget_takes_whole_windows_in_the_order_of_ranks():
    within = context_metrics()["evidence_recall_within_250"].of_query
    cheap = told().tokens
    assert within(told(tokens=cheap | {"d": 80})) == 1.0  # 250
    assert within(told(tokens=cheap | {"d": 81})) == 1.0  # only the second window is left out, and it brings nothing
    assert within(told(tokens=cheap | {"a": 91})) == 1 / 3  # the first does not fit: the history is what is left
    assert within(told(tokens=cheap | {"f": 1000})) == 1 / 3  # nor does the history, which is there all the same


def test_messages_of_other_resources_are_counted():
    assert context_metrics()["leaked_messages"].of_query(told(strangers={"a", "f", "z"})) == 2.0


def test_nothing_seen_is_null_or_nothing():
    nothing = told(windows={}, history=set(), relevant=set())
    values = {name: metric.of_query(nothing) for name, metric in context_metrics().items()}
    assert {name for name, value in values.items() if value is not None} == {
        "context_messages",
        "context_tokens",
        "added_messages",
        "added_tokens",
        "leaked_messages",
    }
    assert not any(values.values())
