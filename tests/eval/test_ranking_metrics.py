"""Ranking metrics against hand-calculated values, literal definitions and ir-measures itself."""

import json
import math
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import ir_measures
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.metrics.ranking import DEFAULT_CUTOFFS, METRICS, ranking_scores
from eval.schema import PER_QUERY, QRELS, RUN
from recall.errors import InputError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "metrics" / "ranking.json").read_text(encoding="utf-8"))
QUERY_IDS = ["q1", "질문", "🎯", "q 4"]
MESSAGE_IDS = [*(f"m{number}" for number in range(9)), "메시지", "🎉", "m m"]

rankings = st.dictionaries(st.sampled_from(QUERY_IDS), st.lists(st.sampled_from(MESSAGE_IDS), unique=True))
judgements = st.dictionaries(
    st.sampled_from(QUERY_IDS), st.dictionaries(st.sampled_from(MESSAGE_IDS), st.integers(0, 3), max_size=6)
)
thorough = settings(deadline=None, max_examples=80)


def run_of(ranking_of):
    rows = [(q, rank, m, -float(rank)) for q, ids in ranking_of.items() for rank, m in enumerate(ids, start=1)]
    return pl.DataFrame(rows, schema=RUN, orient="row")


def qrels_of(grades_of):
    rows = [(q, m, grade) for q, grades in grades_of.items() for m, grade in grades.items()]
    return pl.DataFrame(rows, schema=QRELS, orient="row")


def by_query(scores):
    found = defaultdict(dict)
    for query_id, metric, value in scores.iter_rows():
        found[query_id][metric] = value
    return dict(found)


def literal(ranking, grades, cutoffs=DEFAULT_CUTOFFS):
    """Every metric of one query, written as in its definition."""
    relevant = {m for m, grade in grades.items() if grade >= 1}
    gains = sorted((grade for grade in grades.values() if grade >= 1), reverse=True)[:10]
    ideal = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
    gained = sum(grades.get(m, 0) / math.log2(rank + 1) for rank, m in enumerate(ranking[:10], start=1))
    places = [rank for rank, m in enumerate(ranking, start=1) if m in relevant]
    precisions = [sum(other <= rank for other in places) / rank for rank in places]
    scores = {"ndcg_at_10": gained / ideal, "mrr": 1 / min(places) if places else 0.0}
    scores["map"] = sum(precisions) / len(relevant)
    for k in cutoffs:
        first = relevant & set(ranking[:k])
        scores[f"recall_at_{k}"] = len(first) / len(relevant)
        scores[f"precision_at_{k}"] = len(first) / k
        scores[f"hit_at_{k}"] = float(bool(first))
        scores[f"all_at_{k}"] = float(first == relevant)
    return scores


def test_the_golden_table_is_reproduced_to_the_last_digits():
    qrels = pl.DataFrame(GOLDEN["qrels"], schema=QRELS, orient="row")
    expected = {q: {name: float(Fraction(v)) for name, v in row.items()} for q, row in GOLDEN["expected"].items()}
    found = by_query(ranking_scores(run_of(GOLDEN["run"]), qrels))
    assert found.keys() == expected.keys()
    for query_id, row in expected.items():
        assert found[query_id] == pytest.approx(row, rel=1e-12, abs=0)


@thorough
@given(rankings, judgements)
def test_every_metric_equals_its_literal_definition(ranking_of, grades_of):
    judged = {q: grades for q, grades in grades_of.items() if any(grade >= 1 for grade in grades.values())}
    found = by_query(ranking_scores(run_of(ranking_of), qrels_of(grades_of)))
    assert found.keys() == judged.keys()
    for query_id, grades in judged.items():
        assert found[query_id] == pytest.approx(literal(ranking_of.get(query_id, []), grades), rel=1e-12, abs=1e-15)


def test_a_deep_run_scores_as_ir_measures_scores_the_plain_ids():
    rng = np.random.default_rng(7)
    ranking_of = {f"q{n}": [f"m{m}" for m in rng.permutation(300)[:100]] for n in range(40)}
    grades_of = {f"q{n}": {f"m{m}": int(rng.integers(0, 4)) for m in rng.permutation(300)[:12]} for n in range(44)}
    plain_run = {q: {m: 1.0 / rank for rank, m in enumerate(ids, start=1)} for q, ids in ranking_of.items()}
    named = {"nDCG@10": "ndcg_at_10", "RR": "mrr", "AP": "map"}
    for ours, theirs in (("recall", "R"), ("precision", "P"), ("hit", "Success")):
        named |= {f"{theirs}@{k}": f"{ours}_at_{k}" for k in DEFAULT_CUTOFFS}
    measures = [ir_measures.parse_measure(name) for name in named]
    expected = {
        (m.query_id, named[str(m.measure)]): m.value for m in ir_measures.iter_calc(measures, grades_of, plain_run)
    }
    found = ranking_scores(run_of(ranking_of), qrels_of(grades_of)).filter(~pl.col("metric").str.starts_with("all_"))
    assert {(q, metric): value for q, metric, value in found.iter_rows()} == pytest.approx(expected, rel=1e-12)


@thorough
@given(rankings, judgements)
def test_every_value_lies_between_zero_and_one(ranking_of, grades_of):
    values = ranking_scores(run_of(ranking_of), qrels_of(grades_of))["value"]
    assert values.null_count() == 0
    assert values.is_between(0, 1).all()


@thorough
@given(st.dictionaries(st.sampled_from(MESSAGE_IDS), st.integers(1, 3), min_size=1))
def test_the_ideal_order_scores_one_in_ndcg_mrr_and_map(grades):
    ideal = sorted(grades, key=grades.__getitem__, reverse=True)
    found = by_query(ranking_scores(run_of({"q": ideal}), qrels_of({"q": grades})))["q"]
    assert (found["ndcg_at_10"], found["mrr"], found["map"]) == pytest.approx((1, 1, 1))


@thorough
@given(st.lists(st.sampled_from(MESSAGE_IDS), unique=True, min_size=1), st.integers(0, 80))
def test_irrelevant_messages_appended_at_the_end_change_nothing(ranking, extra):
    qrels = qrels_of({"q": {ranking[0]: 1, MESSAGE_IDS[0]: 2}})
    longer = [*ranking, *(f"irrelevant {number}" for number in range(extra))]
    assert ranking_scores(run_of({"q": longer}), qrels).equals(ranking_scores(run_of({"q": ranking}), qrels))


@thorough
@given(rankings, judgements, st.integers(0, 2**32 - 1))
def test_the_order_of_rows_changes_nothing(ranking_of, grades_of, seed):
    run, qrels = run_of(ranking_of), qrels_of(grades_of)
    shuffled = run.sample(fraction=1, shuffle=True, seed=seed), qrels.sample(fraction=1, shuffle=True, seed=seed)
    assert ranking_scores(*shuffled).equals(ranking_scores(run, qrels))


@pytest.mark.parametrize("scores", [[0.5, 0.5, 0.5], [0.1, 0.2, 0.3], [-1.0, float("nan"), 0.0]])
def test_hits_are_ordered_by_rank_whatever_their_scores_say(scores):
    run = pl.DataFrame({"query_id": ["q"] * 3, "rank": [1, 2, 3], "message_id": ["z", "m", "a"], "score": scores})
    found = by_query(ranking_scores(run.cast(RUN), qrels_of({"q": {"m": 1}})))["q"]
    assert found["mrr"] == 0.5


def test_ranks_with_gaps_count_as_places():
    run = pl.DataFrame([("q", 4, "b", 0.0), ("q", 9, "a", 0.0)], schema=RUN, orient="row")
    assert by_query(ranking_scores(run, qrels_of({"q": {"a": 1}})))["q"]["mrr"] == 0.5


def test_a_judged_query_without_hits_scores_zero_everywhere():
    found = ranking_scores(run_of({}), qrels_of({"질문": {"메시지": 1}}))
    assert found["value"].to_list() == [0.0] * len(METRICS)


def test_a_query_without_a_relevant_message_has_no_row():
    found = ranking_scores(
        run_of({"judged 0": ["a"], "unjudged": ["a"], "q": ["a"]}), qrels_of({"judged 0": {"a": 0}, "q": {"a": 1}})
    )
    assert found["query_id"].unique().to_list() == ["q"]


def test_nothing_judged_gives_an_empty_table_of_the_right_schema():
    assert ranking_scores(run_of({"q": ["a"]}), qrels_of({})).equals(PER_QUERY.to_frame())


def test_the_table_has_every_described_metric_sorted_and_in_schema():
    found = ranking_scores(run_of({"b": ["x"], "a": ["x"]}), qrels_of({"b": {"x": 1}, "a": {"x": 1}}))
    names = sorted(metric.name for metric in METRICS)
    assert found.schema == PER_QUERY
    assert found["query_id"].to_list() == ["a"] * len(names) + ["b"] * len(names)
    assert found["metric"].to_list() == names * 2


def test_other_cutoffs_give_other_names():
    found = ranking_scores(run_of({"q": ["a"]}), qrels_of({"q": {"a": 1}}), cutoffs=(7,))
    assert set(found["metric"]) == {"recall_at_7", "hit_at_7", "all_at_7", "precision_at_7", "ndcg_at_10", "mrr", "map"}


def test_ids_that_differ_only_after_a_nul_character_stay_apart():
    """Names reach C strings in pytrec_eval; with these it would abort the process."""
    found = ranking_scores(
        run_of({"q\0a": ["m\0a"], "q\0b": ["m\0a"]}), qrels_of({"q\0a": {"m\0a": 1}, "q\0b": {"m\0b": 1}})
    )
    assert found.filter(metric="mrr")["value"].to_list() == [1.0, 0.0]


def test_a_message_ranked_twice_for_one_query_is_refused():
    with pytest.raises(InputError, match=r"'message_id': 'a'.* more than once in the run"):
        ranking_scores(run_of({"q": ["a", "b", "a"]}), qrels_of({"q": {"a": 1}}))


def test_a_rank_given_twice_for_one_query_is_refused():
    run = pl.DataFrame([("q", 1, "a", 0.0), ("q", 1, "b", 0.0)], schema=RUN, orient="row")
    with pytest.raises(InputError, match=r"'rank': 1.* more than once in the run"):
        ranking_scores(run, qrels_of({"q": {"a": 1}}))


def test_a_pair_judged_twice_is_refused():
    qrels = pl.DataFrame([("q", "a", 0), ("q", "a", 1)], schema=QRELS, orient="row")
    with pytest.raises(InputError, match="more than once in the qrels"):
        ranking_scores(run_of({"q": ["a"]}), qrels)


@pytest.mark.parametrize("cutoff", [0, -1])
def test_a_cutoff_under_one_is_refused(cutoff):
    with pytest.raises(InputError, match=f"cut-off is {cutoff}, expected 1 or more"):
        ranking_scores(run_of({}), qrels_of({}), cutoffs=(5, cutoff))
