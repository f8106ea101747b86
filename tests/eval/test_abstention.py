"""Abstention, freshness and what the graph loses, against values worked out by hand and other people's code."""

from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from eval.collection import build_collection
from eval.document import Price
from eval.errors import CollectionError
from eval.foreign_queries import with_foreign_queries
from eval.metrics.abstention import abstention, auroc
from eval.metrics.ann import ann_body, gold_loss
from eval.metrics.freshness import freshness
from eval.schema import MESSAGES, PER_QUERY, QRELS, QUERIES, RUN, TIMINGS, Run, TestCollection

START = datetime(2024, 1, 1, tzinfo=UTC)
SCORES = st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.9]), min_size=1, max_size=30)


@given(positives=SCORES, negatives=SCORES)
def test_auroc_is_the_mann_whitney_statistic(positives, negatives):
    expected = mannwhitneyu(positives, negatives).statistic / len(positives) / len(negatives)
    assert auroc(np.array(positives), np.array(negatives)) == pytest.approx(expected)


def test_auroc_counts_pairs_and_half_of_ties():
    assert auroc(np.array([0.9, 0.5]), np.array([0.5, 0.1])) == (1 + 1 + 0.5 + 1) / 4
    assert auroc(np.array([0.9]), np.array([])) is None


def made(scores: dict[str, list[float]], clusters: int = 6) -> tuple[TestCollection, Run]:
    """Queries by type with the score of their best hit; None has no hit. Type "asked" has answers."""
    messages = pl.DataFrame([("m", "r", "t", 0, "user", None, "x", START, None)], schema=MESSAGES, orient="row")
    queries, hits = [], []
    for kind, values in scores.items():
        for number, value in enumerate(values):
            query_id = f"{kind}-{number}"
            cluster = f"c{number % clusters}"
            queries.append((query_id, "r", None, None, "?", kind, kind == "asked", cluster, "dev"))
            if value is not None:
                hits += [(query_id, 1, "m", value), (query_id, 2, "n", -1.0)]
    collection = TestCollection(messages, pl.DataFrame(queries, schema=QUERIES, orient="row"), QRELS.to_frame())
    return collection, Run(pl.DataFrame(hits, schema=RUN, orient="row"), TIMINGS.to_frame(), "resource", 10)


def scored(scores: dict[str, list[float]], *, found: bool = True, has_scale: bool = True, clusters: int = 6):
    collection, run = made(scores, clusters)
    ids = collection.queries.filter("answerable")["query_id"]
    return abstention(run, collection, dict.fromkeys(ids, found), has_scale=has_scale)


SPREAD = [number / 20 for number in range(20)]


def test_each_class_is_told_apart_on_its_own():
    found = scored({"asked": [0.5 + value for value in SPREAD], "easy": [0.1] * 12, "hard": [1.2] * 12})
    assert found["easy"]["auroc"]["value"] == 1.0
    assert found["hard"]["auroc"]["value"] == pytest.approx(5.5 / 20 + 0.025 - 0.025, abs=0.03)
    assert found["easy"]["verdict"].startswith("a threshold separates them: at 0.55")
    assert found["hard"]["verdict"].startswith("no threshold separates them")
    assert (found["easy"]["false_recall_rate"], found["hard"]["false_recall_rate"]) == (0.0, 1.0)
    assert list(found) == ["easy", "hard"]


def test_a_query_without_hits_scores_below_every_other():
    found = scored({"asked": SPREAD, "silent": [None] * 12})
    assert found["silent"]["auroc"]["value"] == 1.0
    assert found["silent"]["false_recall_rate"] == 0.0


def test_the_interval_leaves_out_one_cluster_at_a_time():
    rng = np.random.default_rng(3)
    area = scored({"asked": rng.normal(0.3, 0.1, 60).tolist(), "none": rng.normal(0.2, 0.1, 60).tolist()})["none"][
        "auroc"
    ]
    assert area["low"] < area["value"] < area["high"]
    assert (area["positives"], area["negatives"], area["clusters"]) == (60, 60, 6)


def test_under_five_clusters_there_is_no_interval():
    area = scored({"asked": SPREAD, "none": SPREAD}, clusters=4)["none"]["auroc"]
    assert (area["value"], area["low"], area["high"]) == (0.5, None, None)


def test_nothing_is_said_of_few_queries_or_of_scores_without_a_scale():
    few = scored({"asked": SPREAD, "none": [0.1] * 9})["none"]
    fused = scored({"asked": SPREAD, "none": [0.1] * 12}, has_scale=False)["none"]
    for found in (few, fused):
        assert [found[name] for name in ("auroc", "threshold", "false_recall_rate", "curve")] == [None] * 4
    assert few["verdict"].startswith("fewer than 10 queries")
    assert "cannot be compared" in fused["verdict"]


def test_risk_falls_from_everything_to_the_surest_answers():
    curve = scored({"asked": [0.5 + value for value in SPREAD], "none": [0.1] * 20})["none"]["curve"]
    assert curve[0] == {"threshold": pytest.approx(0.1), "coverage": 1.0, "risk": 0.5}
    assert curve[-1]["risk"] == 0.0
    assert curve[-1]["coverage"] == pytest.approx(1 / 40)
    wrong = scored({"asked": SPREAD, "none": [0.1] * 20}, found=False)["none"]["curve"]
    assert {point["risk"] for point in wrong} == {1.0}


def versions(*ranks: int | None, grades: tuple[int, ...]) -> list[float]:
    """newest_first of one query whose messages, oldest first, have these ranks and grades."""
    messages = pl.DataFrame(
        [(f"m{n}", "r", "t", n, "user", None, "x", START + timedelta(hours=n), None) for n in range(len(ranks))],
        schema=MESSAGES,
        orient="row",
    )
    qrels = pl.DataFrame([("q", f"m{n}", grade) for n, grade in enumerate(grades)], schema=QRELS, orient="row")
    hits = pl.DataFrame([("q", r, f"m{n}", 0.5) for n, r in enumerate(ranks) if r], schema=RUN, orient="row")
    found = freshness(
        Run(hits, TIMINGS.to_frame(), "resource", 10), TestCollection(messages, QUERIES.to_frame(), qrels)
    )
    assert found.schema == PER_QUERY
    return found["value"].to_list()


@pytest.mark.parametrize(
    ("ranks", "grades", "expected"),
    [
        ((2, 1), (0, 1), [1.0]),
        ((1, 2), (0, 1), [0.0]),
        ((None, 3), (0, 1), [1.0]),
        ((3, None), (0, 1), [0.0]),
        ((None, None), (0, 1), [0.0]),
        ((5, 1, 2), (0, 0, 1), [0.0]),
        ((1, 2), (1, 0), []),  # what is judged not relevant is newer: no version that was replaced
        ((1, 2), (1, 1), []),
        ((1, 2), (0, 0), []),
    ],
)
def test_the_newest_version_comes_first(ranks, grades, expected):
    assert versions(*ranks, grades=grades) == expected


def test_what_the_graph_loses_in_gold():
    assert gold_loss(["a", "x"], ["a", "b"], {"a", "b"}) == 0.5
    assert gold_loss(["b"], ["a"], {"b"}) == -1.0
    assert gold_loss(["a"], ["a"], set()) is None


def test_the_graph_in_three_figures():
    rows = [(f"q{n}", "ann_recall_at_10", 1.0 if n else 0.5) for n in range(20)] + [("q0", "ann_gold_loss_at_10", 0.5)]
    body = ann_body(pl.DataFrame(rows, schema=PER_QUERY, orient="row"))
    assert body == {
        "recall_at_10_mean": pytest.approx(0.975),
        "recall_at_10_p5": pytest.approx(np.percentile([0.5] + [1.0] * 19, 5)),
        "gold_recall_loss_at_10": 0.5,
    }
    assert set(ann_body(PER_QUERY.to_frame()).values()) == {None}


def test_a_month_costs_its_turns():
    cost = Price(per_million_tokens=3.0, turns_per_month=1000).of(500.0)
    assert (cost["per_turn"], cost["per_month"]) == (pytest.approx(0.0015), pytest.approx(1.5))
    assert Price().of(None)["per_month"] is None


def test_foreign_queries_are_asked_of_others_and_have_no_answer(tiny):
    asked = with_foreign_queries(tiny, 12)
    added = asked.queries.filter(pl.col("type") == "foreign")
    assert added.height == 12
    assert asked.queries.height == tiny.queries.height + 12
    assert not added["answerable"].any()
    assert added["thread_id"].null_count() == added["asked_at"].null_count() == 12
    owners = dict(tiny.queries.select("text", "resource_id").iter_rows())
    assert all(owners[row["text"]] != row["resource_id"] == row["cluster_id"] for row in added.iter_rows(named=True))
    assert asked.sha256 != tiny.sha256
    assert asked.queries.equals(with_foreign_queries(tiny, 12).queries)
    assert set(with_foreign_queries(tiny, 5).queries["query_id"]) < set(asked.queries["query_id"])


def test_foreign_queries_need_somebody_else(tiny):
    one = tiny.messages["resource_id"][0]
    alone = build_collection(
        tiny.messages.filter(pl.col("resource_id") == one),
        tiny.queries.filter(pl.col("resource_id") == one),
        tiny.qrels.join(tiny.queries.filter(pl.col("resource_id") == one), on="query_id", how="semi"),
        tiny.manifest,
    )
    assert with_foreign_queries(alone, 0) is alone
    with pytest.raises(CollectionError, match="need at least two resources"):
        with_foreign_queries(alone, 3)
