"""The command line: results as one JSON document, and one clear sentence for everything that is wrong."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import jsonschema
import polars as pl
import pytest

from eval.cli import main

SMOKE = "experiment=smoke"
SCHEMA = json.loads((Path(__file__).parents[2] / "eval" / "results.schema.json").read_text())

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(words)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def run_folders(folder: Path) -> list[Path]:
    return sorted((folder / "runs").glob("*")) if (folder / "runs").exists() else []


def comparable(document: dict) -> dict:
    """A results document without what may differ between two runs."""
    manifest = {key: value for key, value in document["manifest"].items() if key not in ("created", "machine", "cache")}
    return {**document, "timings_ms": None, "cost": None, "manifest": manifest}


def test_eval_prints_one_document_of_the_schema(run: Run, tmp_path: Path) -> None:
    code, out, err = run("eval", SMOKE, "--json")
    document = json.loads(out)
    jsonschema.validate(document, SCHEMA)
    (folder,) = run_folders(tmp_path)
    assert (code, document) == (0, json.loads((folder / "results.json").read_text()))
    assert "Traceback" not in err


def test_every_metric_of_the_contract_is_there(run: Run) -> None:
    metrics = json.loads(run("eval", SMOKE, "--json")[1])["metrics"]
    at_k = {f"{name}_at_{k}" for name in ("recall", "hit", "all", "precision") for k in (1, 3, 5, 10, 20, 50)}
    context = {"evidence_recall", "evidence_all", "evidence_any"}
    context |= {"context_precision", "context_messages", "context_tokens"}
    assert at_k | context | {"ndcg_at_10", "mrr", "map"} <= metrics.keys()


def test_a_run_folder_has_every_table(run: Run, tmp_path: Path) -> None:
    run("sweep", SMOKE, "--json")
    (folder,) = run_folders(tmp_path)
    names = {path.name for path in folder.iterdir()}
    assert names == {"results.json", "run.parquet", "timings.parquet", "per_query.parquet", "sweep.parquet"}
    assert pl.read_parquet(folder / "sweep.parquet").height == 6 * 3 * 3


def test_a_sweep_prints_its_front_its_best_and_the_default(run: Run, tmp_path: Path) -> None:
    code, out, _ = run("sweep", SMOKE)
    assert code == 0
    assert "Pareto front" in out
    assert "Best within 500 tokens" in out
    assert re.search(r"^ *default +4 +1/1 +resource +off ", out, flags=re.MULTILINE)
    assert out.splitlines()[-1] == str(run_folders(tmp_path)[0])


def test_a_sweep_document_fits_the_schema(run: Run) -> None:
    document = json.loads(run("sweep", SMOKE, "--json")[1])
    jsonschema.validate(document, SCHEMA)
    tokens = [row["metrics"]["context_tokens"] for row in document["front"]]
    assert tokens == sorted(tokens)
    assert document["best"]["configuration"] == document["configuration"]


@pytest.mark.parametrize("command", ["eval", "sweep"])
def test_a_second_run_gives_the_same_document(run: Run, command: str) -> None:
    first, second = (json.loads(run(command, SMOKE, "--json")[1]) for _ in range(2))
    assert json.dumps(comparable(first)) == json.dumps(comparable(second))
    assert second["manifest"]["cache"]["misses"] == 0


def test_a_multirun_runs_every_combination_and_compares(run: Run) -> None:
    words = ("eval", "-m", SMOKE, "index=exact,hnsw", "recall.scope=thread,resource")
    jobs = json.loads(run(*words, "--json")[1])["jobs"]
    seen = [(job["system"]["index"]["_target_"].rpartition(".")[2], job["configuration"]["scope"]) for job in jobs]
    assert seen == [(index, scope) for index in ("ExactIndex", "HnswIndex") for scope in ("thread", "resource")]
    _, out, _ = run(*words)
    assert out.count("4 jobs") == 1
    assert "index=hnsw" in out


@pytest.mark.filterwarnings("ignore")  # MLflow's own, about its libraries
def test_results_are_tracked_in_mlflow(run: Run, tmp_path: Path) -> None:
    from mlflow import MlflowClient

    code, out, _ = run("eval", SMOKE, "tracking=mlflow")
    uri = f"sqlite:///{tmp_path / 'home' / 'mlflow.db'}"
    client = MlflowClient(uri)
    (tracked,) = client.search_runs([client.get_experiment_by_name("recall").experiment_id])
    (folder,) = run_folders(tmp_path)
    document = json.loads((folder / "results.json").read_text())
    assert code == 0
    assert f"/mlflow ui --backend-store-uri {uri}" in out
    assert tracked.data.metrics["recall_at_5"] == document["metrics"]["recall_at_5"]["value"]
    assert tracked.data.params["configuration.top_k"] == "4"
    assert {file.path for file in client.list_artifacts(tracked.info.run_id)} == {p.name for p in folder.iterdir()}


def test_partial_ranges_keep_the_default_of_the_other_side(run: Run) -> None:
    document = json.loads(run("eval", SMOKE, "recall.message_range={before: 3}", "--json")[1])
    assert document["configuration"]["message_range"] == {"before": 3, "after": 1}


def test_search_shows_hits_windows_block_and_timings(run: Run) -> None:
    code, out, _ = run("search", "where do I live?", "--set", SMOKE)
    assert code == 0
    for part in ("4 hits for", "window (the hit is bold)", "<remembered_messages>", "embed", "search", "window"):
        assert part in out


def test_search_in_a_thread_tells_its_messages_from_the_block(run: Run) -> None:
    run("collection", "generate", "collection=tiny", "--out", "made")
    messages = pl.read_parquet("made/messages.parquet")
    thread, resource, text = messages.select("thread_id", "resource_id", "text").row(0)
    source = ("--set", "collection=saved", "--set", "collection.path=made", "--set", "embedder=hashing")
    found = json.loads(run("search", text, *source, "--thread", thread, "--resource", resource, "--json")[1])
    assert found["hits"][0]["score"] == pytest.approx(1.0)
    assert {message["thread_id"] for message in found["this_thread"]} == {thread}


def test_a_collection_is_generated_validated_and_described(run: Run, tmp_path: Path) -> None:
    assert run("collection", "generate", "collection=tiny", "--out", "made")[0] == 0
    code, out, _ = run("collection", "validate", "made", "--json")
    assert (code, json.loads(out)["counts"]["messages"] > 0) == (0, True)
    assert "tiny" in run("collection", "describe", "made")[1]
    document = json.loads(run("eval", SMOKE, "collection=saved", "collection.path=made", "--json")[1])
    assert document["collection"]["sha256"] == json.loads(out)["sha256"]


WRONG_SETTINGS = [
    ("recall.top_k=0", "recall.top_k is 0, expected an integer from 1 to 100000"),
    ("recall.top_k=x", "recall.top_k is 'x', expected an integer"),
    ("recall.top_k=1.5", "recall.top_k is 1.5, expected an integer"),
    ("recall.top_k=true", "recall.top_k is True, expected an integer"),
    ("recall.top_k=null", "recall.top_k is null, expected a value, not null"),
    ("recall.top_k=200", "depth is 100, expected 200 to 100000"),
    ("recall.message_range=-1", "recall.message_range is -1, expected an integer from 0 to 10000"),
    ("recall.message_range=0.5", "recall.message_range is 0.5, expected an integer"),
    ("recall.message_range={around: 1}", "unknown setting 'recall.message_range.around'; allowed here: after, before"),
    ("recall.message_range.after=-2", "recall.message_range.after is -2, expected"),
    ("recall.scope=team", "recall.scope is 'team', expected 'thread' or 'resource'"),
    ("recall.threshold=2", "recall.threshold is 2.0, expected null (off) or a number from -1 to 1"),
    ("recall.threshold=nan", "recall.threshold is nan, expected null (off) or a number"),
    ("recall.threshold=high", "recall.threshold is 'high', expected a number"),
    (
        "recall.topk=4",
        "unknown setting 'recall.topk' (did you mean 'top_k'?); allowed here: last_messages, message_range",
    ),
    ("recal.top_k=4", "unknown setting 'recal' (did you mean 'recall'?); allowed here: collection, cost, depth, "),
    ("index.ef=4", "unknown setting 'index.ef'"),
    ("+index.ef=4", "unknown setting 'index.ef'"),
    ("index.m=few", "index.m is 'few', expected an integer"),
    ("index.m=1", "index.m is 1, expected an integer from 2 to 256"),
    ("index=annoy", "unknown index 'annoy'; allowed: auto, exact, hnsw"),
    ("indx=exact", "unknown setting 'indx' (did you mean 'index'?)"),
    ("experiment=none_such", "unknown experiment 'none_such'; allowed: smoke"),
    ("tracking=null", "tracking is 'null', expected one of mlflow, off"),
    ("index=4", "index is '4', expected one of auto, exact, hnsw"),
    ("index=[exact]", "index is '[exact]', expected one of auto, exact, hnsw"),
    ("~index", "index has no value; set it with index=..."),
    ("+depht=4", "unknown setting 'depht' (did you mean 'depth'?); allowed here: collection, cost, depth"),
    ("+recall.topk=4", "unknown setting 'recall.topk'"),
    ("depth=10", "depth is 10, expected 50 to 100000"),
    ("depth=deep", "depth is 'deep', expected an integer"),
    ("top_k", "cannot read the override 'top_k': missing EQUAL"),
    ("recall.message_range=[1", "cannot read the override 'recall.message_range=[1'"),
    ("collection=locomo", "collection.path has no value; set it with collection.path=..."),
    ("embedder=sentence_transformer", "embedder.model has no value"),
    ("embedder._target_=no.such.Thing", "embedder._target_ is 'no.such.Thing', which cannot be imported"),
    ("retriever.named='{nme}: {text}'", "retriever.named is '{nme}: {text}', expected a text with {text} in it"),
]


@pytest.mark.parametrize(("override", "sentence"), WRONG_SETTINGS, ids=[row[0] for row in WRONG_SETTINGS])
def test_a_wrong_setting_is_one_sentence(run: Run, tmp_path: Path, override: str, sentence: str) -> None:
    code, out, err = run("eval", SMOKE, override)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.startswith("recall: ")
    assert len(err.splitlines()) == 1
    assert run_folders(tmp_path) == []


WRONG_AXES = [
    ("sweep.top_k=[]", "sweep.top_k is [], expected a list with at least one value"),
    ("sweep.top_k=[4,0]", "sweep.top_k is 0, expected an integer from 1"),
    ("sweep.top_k=4", "sweep.top_k is 4, expected a list, such as [1, 2]"),
    ("sweep.top_k={a: 1}", "sweep.top_k is a mapping, expected a list"),
    ("sweep.top_k=[null]", "sweep.top_k[0] is null, expected an integer"),
    ("sweep.message_range=[-1]", "sweep.message_range is -1"),
    ("sweep.scope=[team]", "sweep.scope is 'team'"),
    ("sweep.threshold=[null,7]", "sweep.threshold is 7.0, expected null (off) or a number from -1 to 1"),
    ("sweep.max_tokens=0", "sweep.max_tokens is 0.0, expected a finite number above 0"),
    ("sweep.max_tokens=inf", "sweep.max_tokens is inf, expected a finite number above 0"),
    ("sweep.max_tokens=nan", "sweep.max_tokens is nan, expected a finite number above 0"),
    ("recall.top_k=0", "recall.top_k is 0, expected an integer from 1"),
    ("sweep.max_tokens=1", "no configuration costs 1 context_tokens or less; the cheapest is scope=resource, top_k=1"),
]


@pytest.mark.parametrize(("override", "sentence"), WRONG_AXES, ids=[row[0] for row in WRONG_AXES])
def test_a_wrong_axis_is_one_sentence(run: Run, override: str, sentence: str) -> None:
    code, out, err = run("sweep", SMOKE, "sweep.scope=[resource]", override)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


WRONG_LINES = [
    (["evaluate"], "invalid choice: 'evaluate'"),
    ([], "the following arguments are required: COMMAND"),
    (["eval", "--jsn"], "unknown flag '--jsn'; allowed: --cfg"),
    (["collection", "validate", "made", "--fix"], "unrecognized arguments: --fix"),
    (["collection"], "the following arguments are required: ACTION"),
    (["collection", "validate"], "the following arguments are required: path"),
    (["collection", "validate", "nowhere"], "nowhere"),
    (["collection", "import", "csv", "file", "--out", "made"], "unknown collection 'csv'"),
    (["collection", "import", "tiny", "file", "--out", "made"], "is generated, not read"),
    (["search", " ", "--set", SMOKE], "the text to search is blank"),
    (["search", "hello", "--set", SMOKE, "--resource", "nobody"], "no resource 'nobody' in the collection"),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG_LINES, ids=[" ".join(row[0]) or "nothing" for row in WRONG_LINES])
def test_a_wrong_command_line_ends_with_two(run: Run, words: list[str], sentence: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.splitlines()) == 1


def test_a_reader_that_stops_early_is_no_fault(tmp_path: Path) -> None:
    command = f"{sys.executable} -m eval.cli eval {SMOKE} --json | head -c 1"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"{", b"")


def test_an_empty_runs_dir_does_not_mean_the_root(run: Run) -> None:
    code, _, err = run("eval", SMOKE, "runs_dir=")
    assert (code, err) == (2, "recall: runs_dir is '', expected a folder\n")


def test_a_disk_that_fills_up_leaves_no_half_run(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from eval import results

    write = results.write_bytes

    def full(path: Path, content: bytes) -> None:
        if path.name == "per_query.parquet":
            raise OSError(28, "No space left on device", str(path))
        write(path, content)

    monkeypatch.setattr(results, "write_bytes", full)
    code, _, err = run("eval", SMOKE)
    assert (code, "No space left on device" in err) == (2, True)
    assert run_folders(tmp_path) == []


def test_the_multirun_flag_may_stand_anywhere(run: Run) -> None:
    document = json.loads(run("eval", SMOKE, "-m", "recall.top_k=1,2", "--json")[1])
    assert [job["configuration"]["top_k"] for job in document["jobs"]] == [1, 2]


def test_bad_input_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    assert run("eval", "collection=locomo", "collection.path=missing.json")[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_a_name_is_text_and_not_markup(run: Run) -> None:
    code, out, _ = run("collection", "generate", "collection=tiny", "collection.name='[/b]x'", "--out", "made")
    assert (code, "[/b]x" in out) == (0, True)


def test_a_name_cannot_lead_out_of_the_folder(run: Run) -> None:
    code, _, err = run("collection", "generate", "collection=tiny", "collection.name=../../evil")
    assert (code, "expected a plain folder name" in err) == (2, True)


def test_a_terminal_without_the_letters_gets_their_escapes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "eval.cli", "eval", SMOKE]
    environment = {"PYTHONIOENCODING": "ascii", "PATH": "", "PYTHONPATH": str(Path(__file__).parents[2])}
    table, document = (
        subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, check=False)
        for words in (command, [*command, "--json", "collection.name='대화'"])
    )
    assert (table.returncode, document.returncode) == (0, 0)
    assert json.loads(document.stdout.decode("ascii"))["collection"]["name"] == "대화"


def test_a_sweep_retrieves_once_per_scope_and_measures_every_stage(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import eval.evaluation as evaluation

    scopes = []
    retrieve = evaluation.retrieve

    def counted(*parts: object, scope: str, depth: int) -> object:
        scopes.append(scope)
        return retrieve(*parts, scope=scope, depth=depth)

    monkeypatch.setattr(evaluation, "retrieve", counted)
    document = json.loads(run("sweep", SMOKE, "sweep.scope=[thread,resource]", "--json")[1])
    assert sorted(scopes) == ["resource", "thread"]
    assert list(document["timings_ms"]) == ["embed", "search", "window"]
    assert all(quantiles["p50"] > 0 for quantiles in document["timings_ms"].values())
    assert any("asked in a new thread" in warning for warning in document["warnings"])


def test_debug_shows_the_traceback(run: Run) -> None:
    code, _, err = run("eval", SMOKE, "recall.top_k=0", "--debug")
    assert code == 2
    assert "Traceback" in err


@pytest.mark.parametrize("setting", ["runs_dir=file/runs", "hydra.run.dir=/proc/runs"])
def test_an_output_folder_that_cannot_be_written_is_one_sentence(run: Run, tmp_path: Path, setting: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    code, out, err = run("eval", SMOKE, setting)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_a_cache_folder_that_cannot_be_made_is_one_sentence(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "file"))
    code, out, err = run("eval", SMOKE)
    assert (code, out) == (2, "")
    assert str(tmp_path / "file") in err
    assert run_folders(tmp_path) == []


def test_a_missing_package_is_named_with_the_line_that_installs_it(tmp_path: Path) -> None:
    program = "import sys; sys.modules['ir_measures'] = None; from eval.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", program, "eval", SMOKE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "recall: the package 'ir_measures' is not installed; run: pip install recall-eval\n"


def test_the_version_is_the_distribution_s(run: Run) -> None:
    assert run("--version")[:2] == (0, f"recall-eval {version('recall-eval')}\n")


def test_a_bug_of_ours_is_called_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a slip")

    monkeypatch.setattr("eval.jobs.results", broken)
    code, out, err = run("eval", SMOKE)
    assert (code, out) == (70, "")
    assert err == "recall: internal error, please report it: ZeroDivisionError: a slip\n"


def test_an_interruption_leaves_no_half_written_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("eval.atomic.os.fsync", interrupted)
    code, out, err = run("eval", SMOKE)
    assert (code, out) == (130, "")
    assert "interrupted" in err
    assert [path for path in (tmp_path / "runs").rglob("*") if path.is_file()] == []
