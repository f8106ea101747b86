"""Heavy axes: jobs that are finished are not run again, and everything lies in one tree."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlflow import MlflowClient

from eval.cli import main
from eval.finished_jobs import FinishedJobs, code_version, job_key

SMALL = ("collection=tiny", "sweep=coarse")
AXES = ("embedder=hashing", "embedder.dim=32,64,128", "retriever=dense,hybrid", "index=exact")


def comparable(document: dict) -> str:
    manifest = {
        name: part for name, part in document["manifest"].items() if name not in ("created", "machine", "cache")
    }
    return json.dumps(document | {"timings_ms": None, "cost": None, "manifest": manifest})


def results_in_order(folder: Path) -> list[dict]:
    """Of every job, in the order they were written."""
    paths = sorted(folder.glob("runs/*/job-*/results.json"), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(path.read_text("utf-8")) for path in paths]


def documents(folder: Path) -> list[str]:
    return [comparable(document) for document in results_in_order(folder)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    return tmp_path


def test_finished_jobs_are_told_and_give_the_same_document(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["eval", "-m", "collection=tiny", "embedder=hashing", "index=exact,hnsw", "tracking=off"]
    assert main(line) == 0
    assert "finished before" not in capsys.readouterr().err
    assert main(line) == 0
    assert capsys.readouterr().err.count("finished before, not measured again") == 2
    first, second, again, once_more = documents(here)
    assert (first, second) == (again, once_more)
    reused = [document["manifest"]["cache"]["finished_before"] for document in results_in_order(here)]
    assert reused == [False, False, True, True]


def test_a_job_with_another_setting_is_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["eval", "-m", "collection=tiny", "embedder=hashing", "index=exact", "tracking=off"]
    assert main(line) == 0
    assert main([*line, "recall.top_k=3"]) == 0
    assert "finished before" not in capsys.readouterr().err


def test_a_damaged_job_is_run_again(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ["eval", "-m", "collection=tiny", "embedder=hashing", "index=exact", "tracking=off"]
    assert main(line) == 0
    (table,) = here.glob("home/jobs/*/run.parquet")
    table.write_bytes(table.read_bytes()[:100])
    capsys.readouterr()
    assert main(line) == 0
    assert "finished before" not in capsys.readouterr().err
    first, second = documents(here)
    assert first == second


def test_a_job_is_known_by_everything_it_depends_on() -> None:
    base = ("eval", {"depth": 100}, "0" * 64, {"retriever": "dense"})
    others = [("sweep", *base[1:]), (base[0], {"depth": 99}, *base[2:]), (*base[:2], "1" * 64, base[3])]
    others.append((*base[:3], {"retriever": "bm25"}))
    keys = {job_key(*job) for job in (base, *others)}
    assert len(keys) == 5
    assert job_key(*base) == job_key(*base)
    assert len(code_version()) == 64


def test_nothing_is_kept_where_nothing_was(tmp_path: Path) -> None:
    assert FinishedJobs(tmp_path / "jobs").find("0" * 32) is None


@pytest.mark.slow
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_sweep_goes_on_and_ends_with_the_same_bytes(tmp_path: Path, stop: signal.Signals) -> None:
    line = [sys.executable, "-m", "eval.cli", "sweep", "-m", *SMALL, *AXES, "tracking=off"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()

    def environment(folder: Path) -> dict[str, str]:
        return os.environ | {"RECALL_HOME": str(folder / "home"), "PYTHONPATH": str(Path(__file__).parents[2])}

    subprocess.run(line, cwd=whole, env=environment(whole), check=True, capture_output=True)
    with subprocess.Popen(
        line, cwd=cut, env=environment(cut), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as running:
        deadline = time.monotonic() + 60
        while len(list(cut.glob("home/jobs/*/results.json"))) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(stop)
        running.wait(timeout=60)
    finished = len(list(cut.glob("home/jobs/*/results.json")))
    assert finished < 6, "it was done before it could be stopped"
    for path in cut.glob("runs"):
        path.rename(cut / "interrupted")
    again = subprocess.run(line, cwd=cut, env=environment(cut), check=True, capture_output=True, text=True)
    assert again.stderr.count("finished before") >= finished >= 2
    assert documents(cut) == documents(whole)
    assert len(documents(whole)) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # MLflow's own, about its libraries
def test_a_multirun_is_one_tree_and_one_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "-m", *SMALL, *AXES]) == 0
    out = capsys.readouterr().out
    assert "6 jobs" in out
    assert out.count("retriever=hybrid") == 3
    client = MlflowClient(f"sqlite:///{here / 'home' / 'mlflow.db'}")
    (experiment,) = [each for each in client.search_experiments() if each.name == "recall"]
    runs = client.search_runs([experiment.experiment_id], max_results=1000)
    children: dict[str | None, list] = {}
    for run in runs:
        children.setdefault(run.data.tags.get("mlflow.parentRunId"), []).append(run)
    (parent,) = children[None]
    jobs = children[parent.info.run_id]
    assert len(jobs) == 6
    for job in jobs:
        front = children[job.info.run_id]
        assert 1 <= len(front) <= 12
        assert {"top_k", "scope", "message_range.before"} <= front[0].data.params.keys()
        assert "evidence_recall" in front[0].data.metrics
        (dataset,) = client.get_run(job.info.run_id).inputs.dataset_inputs
        assert dataset.dataset.name == "tiny"
        assert {"results.json", "sweep.parquet"} <= {each.path for each in client.list_artifacts(job.info.run_id)}
    assert {run.info.status for run in runs} == {"FINISHED"}
