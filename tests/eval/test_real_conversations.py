"""LoCoMo's published conversations give the figures measured on them before this code was written."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eval.cli import main

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_cache")]

# MiniLM, exact search over the whole conversation, text "speaker: text [image: caption]".
AT_K = {1: 0.170, 3: 0.316, 5: 0.401, 10: 0.493, 20: 0.603, 50: 0.720}
# top_k 4 by range: evidence recall, messages, tokens where measured.
CONTEXTS = {0: (0.362, 4.0, None), 1: (0.448, 10.9, 361), 2: (0.536, 17.2, None)}

Evaluate = Callable[..., dict]


@pytest.fixture
def evaluate(locomo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Evaluate:
    """Runs `recall eval` on LoCoMo and returns its document."""

    def run(*overrides: str) -> dict:
        source = ("collection=locomo", f"collection.path={locomo_path}", "tracking=off", f"runs_dir={tmp_path}")
        assert main(["eval", *source, *overrides, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def value(document: dict, metric: str) -> float:
    assert document["metrics"][metric]["n"] == 760
    return document["metrics"][metric]["value"]


def test_exact_search_gives_the_published_ranking_figures(evaluate: Evaluate) -> None:
    document = evaluate("index=exact", "recall.top_k=50", "recall.message_range=0")
    for k, expected in AT_K.items():
        assert value(document, f"recall_at_{k}") == pytest.approx(expected, abs=0.002)
    assert value(document, "ndcg_at_10") == pytest.approx(0.332, abs=0.002)
    assert value(document, "mrr") == pytest.approx(0.314, abs=0.002)


@pytest.mark.parametrize("reach", CONTEXTS)
def test_ranges_buy_and_cost_what_was_measured(evaluate: Evaluate, reach: int) -> None:
    document = evaluate("index=exact", "recall.top_k=4", f"recall.message_range={reach}")
    recall, messages, tokens = CONTEXTS[reach]
    assert value(document, "evidence_recall") == pytest.approx(recall, abs=0.002)
    assert value(document, "context_messages") == pytest.approx(messages, abs=0.1)
    if tokens is not None:
        assert value(document, "context_tokens") == pytest.approx(tokens, abs=2)


def test_the_graph_answers_every_query_nearly_as_well(evaluate: Evaluate) -> None:
    document = evaluate("index=hnsw", "recall.top_k=50", "recall.message_range=0")
    assert document["counts"]["queries_by_graph"] == document["collection"]["queries"] == 999
    assert 0.9 < document["metrics"]["ann_recall_at_10"]["value"] <= 1
    for k, expected in AT_K.items():
        assert value(document, f"recall_at_{k}") == pytest.approx(expected, abs=0.01)


def test_questions_without_an_answer_have_no_evidence_and_are_not_scored(evaluate: Evaluate) -> None:
    document = evaluate("index=exact")
    adversarial = document["by_type"]["adversarial"]
    assert adversarial["evidence_recall"] == {"value": None, "n": 0}
    assert adversarial["context_messages"]["n"] == document["counts"]["unanswerable_queries"] == 237


@pytest.mark.parametrize(
    ("retriever", "at_k"),
    [
        ("bm25", {1: 0.291, 5: 0.487, 10: 0.569, 50: 0.733}),
        ("hybrid", {1: 0.311, 5: 0.542, 10: 0.640, 50: 0.816}),
    ],
)
def test_words_and_fusion_give_the_published_figures(evaluate: Evaluate, retriever: str, at_k: dict) -> None:
    document = evaluate("index=exact", f"retriever={retriever}")
    for k, expected in at_k.items():
        assert value(document, f"recall_at_{k}") == pytest.approx(expected, abs=0.01)


def test_a_threshold_tells_questions_of_other_conversations_and_not_those_of_the_other_speaker(
    evaluate: Evaluate,
) -> None:
    found = evaluate("index=exact", "collection.foreign_queries=300")["abstention"]
    assert found["adversarial"]["auroc"]["value"] == pytest.approx(0.55, abs=0.02)
    assert found["adversarial"]["verdict"].startswith("no threshold separates them")
    assert found["foreign"]["auroc"]["value"] == pytest.approx(0.99, abs=0.015)
    assert found["foreign"]["verdict"].startswith("a threshold separates them")
