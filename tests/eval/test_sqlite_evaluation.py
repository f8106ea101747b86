"""An evaluation through the SQLite store gives what the one in memory gives."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from eval.cli import main
from recall.stores.sqlite import SQLiteStore


def comparable(document: dict) -> dict:
    """A results document without timings and without the manifest, which names the store."""
    return {name: value for name, value in document.items() if name not in ("timings_ms", "cost", "manifest")}


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., dict]:
    def call(*words: str) -> dict:
        capsys.readouterr()
        assert main([*words, "tracking=off", f"runs_dir={tmp_path / 'runs'}", "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return call


@pytest.mark.parametrize("command", ["eval", "sweep"])
def test_the_store_makes_no_difference(run, command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    small = ("collection=tiny", "embedder=hashing")
    kept = ("store=sqlite", f"store.path={tmp_path / 'chat.db'}")
    expected = comparable(run(command, *small, "store=memory"))
    assert comparable(run(command, *small, "store=sqlite")) == expected
    for _ in range(2):  # into a new file, and from the file as it is
        assert comparable(run(command, *small, *kept)) == expected


def test_a_store_with_other_messages_is_refused(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would be found as well; and somebody's chat must not be filled with a collection."""
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    kept = ("store=sqlite", f"store.path={tmp_path / 'chat.db'}", "embedder=hashing", "tracking=off")
    run("eval", "collection=tiny", *kept[:3])
    held = len(SQLiteStore(tmp_path / "chat.db"))
    assert main(["eval", "collection=tiny", "collection.name=other", "collection.seed=9", *kept]) == 2
    assert "give store.path a file of its own" in capsys.readouterr().err
    assert len(SQLiteStore(tmp_path / "chat.db")) == held


@pytest.mark.slow
@pytest.mark.usefixtures("shared_cache")
@pytest.mark.parametrize("index", ["exact", "hnsw"])
def test_real_conversations_give_the_same_figures_through_either_store(run, locomo_path: Path, index: str) -> None:
    source = ("collection=locomo", f"collection.path={locomo_path}", f"index={index}")
    memory, sqlite = (comparable(run("eval", *source, f"store={store}")) for store in ("memory", "sqlite"))
    assert sqlite == memory
    assert memory["metrics"]["evidence_recall"]["n"] == 760
