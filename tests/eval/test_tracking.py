"""MLflow: refused before anything is measured where it cannot be written, and complete where it can."""

from pathlib import Path

import pytest

from eval.errors import OutputError
from eval.tracking import MlflowTracker, NoTracker

RESULTS = {
    "command": "eval",
    "metrics": {"recall_at_5": {"value": 0.5, "n": 2}, "map": {"value": None, "n": 0}},
    "timings_ms": {"search": {"p50": 1.0, "p95": 2.0, "p99": None}},
    "configuration": {"top_k": 4, "message_range": {"before": 1, "after": 1}},
    "collection": {"name": "대화", "sha256": "0" * 64, "messages": 3, "queries": 2},
    "system": {"system_id": "abc"},
    "manifest": {"settings": {"depth": 100, "note": "🎉" * 600}},
}


@pytest.mark.parametrize(
    ("uri", "sentence"),
    [
        ("sqlite:////proc/none/mlflow.db", "no folder /proc/none"),
        ("http://127.0.0.1:9", "refused"),
        ("runs/mlruns", "expected a database or a server"),
        ("file:///tmp/mlruns", "expected a database or a server"),
    ],
)
def test_a_store_that_cannot_be_written_is_told_at_once(uri: str, sentence: str) -> None:
    with pytest.raises(OutputError, match=sentence) as raised:
        MlflowTracker(uri).check()
    assert uri in str(raised.value)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(OutputError) as raised:
        MlflowTracker("http://mina:geheim@127.0.0.1:9").check()
    assert "geheim" not in str(raised.value)
    assert "http://***@127.0.0.1:9" in str(raised.value)


def test_the_default_store_is_absolute_and_under_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECALL_HOME", "state")
    tracker = MlflowTracker()
    tracker.check()
    assert tracker.uri == f"sqlite:///{tmp_path / 'state' / 'mlflow.db'}"


def test_the_environment_names_another_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracker.example:5000")
    assert MlflowTracker().uri == "http://tracker.example:5000"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own, about its libraries
def test_what_has_a_value_is_logged_and_what_has_none_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "results.json").write_text("{}")
    tracker = MlflowTracker(experiment="재현")
    tracker.check()
    assert tracker.log(RESULTS, folder).endswith(f"mlflow ui --backend-store-uri {tracker.uri}")
    client = MlflowClient(tracker.uri)
    (run,) = client.search_runs([client.get_experiment_by_name("재현").experiment_id])
    assert run.data.metrics == {"recall_at_5": 0.5, "search_ms_p50": 1.0, "search_ms_p95": 2.0}
    assert run.data.params["collection.name"] == "대화"
    assert run.data.params["configuration.message_range.before"] == "1"
    assert [file.path for file in client.list_artifacts(run.info.run_id)] == ["results.json"]
    assert run.info.status == "FINISHED"


def test_tracking_off_records_nothing(tmp_path: Path) -> None:
    tracker = NoTracker()
    tracker.check()
    assert tracker.log(RESULTS, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own, about its libraries
def test_a_database_that_was_left_half_made_does_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path))
    (tmp_path / "mlflow.new").write_bytes(b"half")
    folder = tmp_path / "run"
    folder.mkdir()
    assert MlflowTracker().log(RESULTS, folder) is not None
    assert not (tmp_path / "mlflow.new").exists()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own, about its libraries
def test_a_damaged_database_is_one_sentence_that_names_the_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path))
    (tmp_path / "mlflow.db").write_bytes(b"no database at all " * 100)
    with pytest.raises(OutputError, match="results are in") as raised:
        MlflowTracker().log(RESULTS, tmp_path / "run")
    assert len(str(raised.value).splitlines()) == 1
