"""Korean and emoji text comes through the whole path unharmed: import, evaluate, search, block, JSON, tables."""

import json
from pathlib import Path

import polars as pl
import pytest

from eval.cli import main

FACT = "민아는 지난달에 부산으로 이사했어 🏖️ 바다가 보이는 집이래"
CONVERSATION = {
    "sample_id": "대화-1 👩‍👩‍👧",
    "conversation": {
        "speaker_a": "지수",
        "speaker_b": "하늘 ☁️",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "지수", "dia_id": "D1:1", "text": "요즘 어떻게 지내?"},
            {"speaker": "하늘 ☁️", "dia_id": "D1:2", "text": FACT},
            {"speaker": "지수", "dia_id": "D1:3", "text": "와, 좋겠다! 🎉", "blip_caption": "해변의 사진"},
        ],
    },
    "qa": [{"question": "민아는 어디로 이사했어?", "answer": "부산", "evidence": ["D1:2"], "category": 4}],
}
FAST = ("embedder=hashing", "tracking=off")


@pytest.fixture
def imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    """A folder made from a Korean conversation by `recall collection import`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    Path("대화.json").write_text(json.dumps([CONVERSATION], ensure_ascii=False), encoding="utf-8")
    assert main(["collection", "import", "locomo", "대화.json", "--out", "모음"]) == 0
    capsys.readouterr()
    return "모음"


def test_the_tables_hold_the_text_as_it_was(imported: str) -> None:
    messages = pl.read_parquet(f"{imported}/messages.parquet")
    assert messages["text"].to_list() == ["요즘 어떻게 지내?", FACT, "와, 좋겠다! 🎉 [image: 해변의 사진]"]
    assert messages["name"].to_list() == ["지수", "하늘 ☁️", "지수"]


def test_the_question_finds_its_evidence(imported: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = ("collection=saved", f"collection.path={imported}")
    assert main(["eval", *source, *FAST, "recall.top_k=1", "recall.message_range=0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["metrics"]["evidence_recall"] == {"value": 1.0, "n": 1}
    assert document["metrics"]["context_tokens"]["value"] > 0


@pytest.mark.parametrize("as_json", [True, False], ids=["json", "table"])
def test_search_shows_the_text(imported: str, capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    settings = [f"--set={setting}" for setting in ("collection=saved", f"collection.path={imported}", *FAST)]
    assert main(["search", "민아는 어디로 이사했어?", *settings, *(["--json"] if as_json else [])]) == 0
    out = capsys.readouterr().out
    block = json.loads(out)["block"] if as_json else out
    assert "부산으로 이사했어 🏖️" in block
    assert "하늘 ☁️" in block


def test_generated_korean_conversations_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    size = ("collection.resources=3", "collection.queries_per_resource=10", "collection.threads_per_resource=4")
    assert main(["sweep", "collection=synthetic_ko", *size, *FAST, "sweep=coarse", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["best"]["metrics"]["evidence_recall"] > 0
