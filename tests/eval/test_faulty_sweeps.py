"""Grids, overrides and saved runs that cannot be used: one clear sentence each, exit code 2, nothing left behind."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from eval.cli import main

SMALL = ("collection=tiny", "embedder=hashing", "index=exact", "tracking=off")
SAVED = ("sweep.scope=[resource]", "retriever=saved", "retriever.run_depth=100")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("RECALL_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([*words, *SMALL])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["sweep.top_k=[]"], "sweep.top_k is [], expected a list with at least one value"),
        (["sweep.top_k=[5,0]"], "sweep.top_k is 0, expected an integer from 1"),
        (["sweep.top_k=[1.5]"], "sweep.top_k[0] is 1.5, expected an integer"),
        (["sweep.top_k=[400]"], "set depth=400"),
        (["sweep.message_range=[]"], "sweep.message_range is [], expected a list"),
        (["sweep.message_range=[{before:3,after:-1}]"], "sweep.message_range.after is -1, expected an integer from 0"),
        (["sweep.message_range=[-2]"], "sweep.message_range is -2, expected an integer from 0"),
        (["sweep.scope=[all]"], "sweep.scope is 'all', expected 'thread' or 'resource'"),
        (["sweep.threshold=[]"], "sweep.threshold is [], expected a list"),
        (["sweep.threshold=0.3"], "sweep.threshold is 0.3, expected a list"),
        (["sweep.threshold=[1.5]"], "sweep.threshold is 1.5, expected null (off) or a number from -1 to 1"),
        (["sweep.threshold=[nan]"], "sweep.threshold is nan, expected null (off) or a number"),
        (["retriever=bm25", "sweep.threshold=[-3]"], "sweep.threshold is -3.0, expected null (off) or a number from 0"),
        (["retriever=hybrid", "sweep.threshold=[0.3]"], "sweep.threshold is 0.3, expected null: this retriever's"),
        (["sweep.threshold_by_scale.cosin=[1]"], "(did you mean 'cosine'?)"),
        (["sweep.last_messages=[-1]"], "sweep.last_messages is -1, expected an integer from 0"),
        (["sweep.max_tokens=0"], "sweep.max_tokens is 0.0, expected a finite number above 0"),
        (["sweep.max_tokens=1", "sweep.scope=[resource]", "sweep.threshold=[null]"], "the cheapest is"),
        (["sweep=densest"], "unknown sweep 'densest'"),
        (["retriever=bm52"], "(did you mean 'bm25'?)"),
        (["retriever=hybrid", "retriever.weight=2"], "retriever.weight is 2.0, expected a number from 0 to 1"),
        (["retriever=hybrid", "retriever.lexical.k1=-1"], "retriever.lexical.k1 is -1.0, expected a finite number"),
        (["retriever=hybrid", "retriever.dense.nmed=x"], "'retriever.dense.nmed' (did you mean 'named'?)"),
        (["retrieval.roles=[]"], "retrieval.roles is [], expected null, or a list of roles"),
        (["retrieval.since=yesterday"], "retrieval.since is 'yesterday', expected a time such as"),
        (["retrieval.half_life_days=0"], "retrieval.half_life_days is 0.0, expected a finite number above 0"),
        (["retrieval.query_messages=0"], "retrieval.query_messages is 0, expected an integer from 1"),
        (["retriever=saved"], "retriever.path has no value"),
        ([*SAVED, "retriever.path=nowhere.parquet"], "run 'nowhere.parquet': cannot be read: No such file"),
        ([*SAVED, "retriever.path=x", "retriever.score_range=[1,0]"], "retriever.score_range is [1, 0], expected null"),
        ([*SAVED, "retriever.path=x", "retriever.fixed_candidates=false"], "candidates depend on top_k"),
        ([*SAVED, "retriever.path=x", "retriever.missing=one"], "retriever.missing is 'one', expected refuse or zero"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_fault_is_one_sentence(run: Run, tmp_path: Path, overrides: list[str], sentence: str) -> None:
    code, out, err = run("sweep", *overrides)
    assert (code, out) == (2, "")
    assert sentence in err
    assert err.count("\n") == 1
    assert not list(tmp_path.glob("runs/*"))


@pytest.fixture
def saved(run: Run, tmp_path: Path) -> pl.DataFrame:
    """The hits of an evaluation, as it saves them."""
    assert run("eval")[0] == 0
    (path,) = tmp_path.glob("runs/*/run.parquet")
    return pl.read_parquet(path).drop("scope")


def test_a_saved_run_is_swept_like_the_system_that_made_it(run: Run, saved: pl.DataFrame, tmp_path: Path) -> None:
    saved.write_parquet(tmp_path / "saved.parquet")
    scale = ("retriever.score_range=[-1,1]", "runs_dir=again", "retriever.path=saved.parquet")
    assert run("sweep", "sweep.scope=[resource]", "runs_dir=first")[0] == 0
    assert run("sweep", *SAVED, *scale)[0] == 0
    first, again = (pl.read_parquet(next(tmp_path.glob(f"{name}/*/sweep.parquet"))) for name in ("first", "again"))
    assert first.equals(again)


def with_first_score(run: pl.DataFrame, score: float) -> pl.DataFrame:
    return run.with_columns(pl.when(FIRST).then(score).otherwise("score").cast(pl.Float32).alias("score"))


FIRST = pl.int_range(pl.len()) == 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda run: run.drop("score"), "has no column score"),
        (lambda run: run.with_columns(pl.lit("x").alias("rank")), "a column is of the wrong type"),
        (lambda run: run.with_columns(pl.when(~FIRST).then("score").alias("score")), "score is null in 1 row"),
        (lambda run: with_first_score(run, float("nan")), "score is NaN"),
        (lambda run: with_first_score(run, -0.9), "scores rise with"),
        (lambda run: run.with_columns(pl.col("rank") + 1), "ranks are not 1, 2, 3"),
        (lambda run: run.with_columns(pl.col("message_id").first().over("query_id")), "a message stands twice"),
        (lambda run: run.with_columns(pl.when(FIRST).then(pl.lit("m")).otherwise("message_id").alias("message_id")),
         "the collection has no 1 message_id: 'm'"),
        (lambda run: run.with_columns(pl.col("message_id") + "x"), "it is the run of another collection"),
        (lambda run: run.with_columns(pl.col("query_id") + "x"), "it is the run of another collection"),
        (lambda run: run.filter(pl.col("query_id") != run["query_id"][0]), "it misses 1 query"),
        (lambda run: run.with_columns(pl.lit("thread").alias("scope")), "has no hits of scope resource"),
    ],
)  # fmt: skip
def test_a_saved_run_that_does_not_fit_is_refused(run: Run, saved: pl.DataFrame, tmp_path, change, sentence) -> None:
    # The first row is a hit of a query with evidence.
    change(saved.sort("query_id", "rank")).write_parquet(tmp_path / "saved.parquet")
    code, out, err = run("sweep", *SAVED, "retriever.path=saved.parquet", "runs_dir=again")
    assert (code, out) == (2, "")
    assert sentence in err
    assert not list(tmp_path.glob("again/*"))


def test_a_run_directory_knows_its_depth(run: Run, saved: pl.DataFrame, tmp_path: Path) -> None:
    path = next(tmp_path.glob("runs/*/run.parquet"))
    assert run("sweep", "sweep.scope=[resource]", "retriever=saved", f"retriever.path={path}", "runs_dir=again")[0] == 0


def test_a_run_shallower_than_the_grid_is_refused(run: Run, saved: pl.DataFrame, tmp_path: Path) -> None:
    saved.filter(pl.col("rank") <= 10).write_parquet(tmp_path / "saved.parquet")
    code, _, err = run("sweep", "sweep.scope=[resource]", "retriever=saved", "retriever.path=saved.parquet")
    assert code == 2
    assert "the run holds 10 hits per query and the grid asks for top_k 50" in err


def test_hits_of_another_resource_are_counted_as_leaked(run: Run, saved: pl.DataFrame, tmp_path: Path) -> None:
    first = saved["query_id"][0]
    stranger = saved.join(saved.filter(pl.col("query_id") == first), on="message_id", how="anti")["message_id"][0]
    changed = pl.when((pl.col("query_id") == first) & (pl.col("rank") == 1)).then(pl.lit(stranger))
    saved.with_columns(changed.otherwise("message_id").alias("message_id")).write_parquet(tmp_path / "saved.parquet")
    line = ("retriever=saved", "retriever.path=saved.parquet", "retriever.run_depth=100", "recall.message_range=0")
    assert run("eval", *line, "runs_dir=again")[0] == 0
    scores = pl.read_parquet(next(tmp_path.glob("again/*/per_query.parquet"))).filter(
        pl.col("metric") == "leaked_messages"
    )
    assert dict(scores.select("query_id", "value").iter_rows())[first] == 1.0
    assert scores["value"].sum() == 1.0


@pytest.mark.parametrize("retriever", ["oracle", "headroom", "saved"])
def test_what_knows_the_answers_cannot_be_searched(
    run: Run, capsys: pytest.CaptureFixture[str], retriever: str
) -> None:
    path = ["--set", "retriever.path=x"] if retriever == "saved" else []
    line = ["search", "who?", *path, "--set", f"retriever={retriever}"]
    assert main([*line, *(word for each in SMALL[:3] for word in ("--set", each))]) == 2
    err = capsys.readouterr().err
    assert "cannot be read" in err if retriever == "saved" else "search with another one" in err
