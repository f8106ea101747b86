"""Context metrics against hand-calculated values and literal counting."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.metrics.context import METRICS, context_scores, context_tokens, score_context
from eval.schema import PER_QUERY
from recall.errors import InputError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics" / "context.json").read_text(encoding="utf-8"))
TOKENS = {"m1": 3, "m2": 5, "m3": 0, "메시지": 7, "🎉": 1}
COSTS = {"context_messages", "context_tokens"}

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
    found = context_scores(GOLDEN["contexts"], GOLDEN["relevant"], GOLDEN["tokens"])
    expected = {
        (query_id, name): None if value is None else float(Fraction(value))
        for query_id, row in GOLDEN["expected"].items()
        for name, value in row.items()
    }
    assert {(query_id, name): value for query_id, name, value in found.iter_rows()} == expected


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


@untimed
@given(st.lists(st.sampled_from(sorted(TOKENS))), message_sets)
def test_order_and_repetition_of_messages_change_nothing(context, relevant):
    assert score_context(context[::-1] * 2, relevant, TOKENS) == score_context(set(context), relevant, TOKENS)


def test_a_query_of_either_side_alone_is_scored_with_every_metric():
    found = context_scores({"only a context": ["m1"]}, {"only judged": ["m1"]}, TOKENS)
    names = sorted(metric.name for metric in METRICS)
    assert found.schema == PER_QUERY
    assert found["query_id"].to_list() == ["only a context"] * 6 + ["only judged"] * 6
    assert found["metric"].to_list() == names * 2


def test_no_query_gives_an_empty_table_of_the_right_schema():
    assert context_scores({}, {}, {}).equals(PER_QUERY.to_frame())


def test_a_message_without_a_token_count_is_named():
    with pytest.raises(InputError, match="without a token count: 1, first 'lost'"):
        context_tokens({"m1", "lost"}, TOKENS)
