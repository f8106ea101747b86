"""Answers from a saved run: our own of another day, or another system's rankings."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from math import inf
from pathlib import Path

import numpy as np
import polars as pl

from eval.errors import CollectionError
from eval.results import RESULTS_FILE
from eval.run_check import faults_of
from eval.schema import RUN, Run, ScopeName, TestCollection
from recall.errors import OptionsError
from recall.protocols import Changes, Embedded, EncodedQuery
from recall.schema import Message, Ranking, SearchScope

MISSING = ("refuse", "zero")


class SavedRun:
    """Ranks nothing itself. Thresholds are allowed where the scale of the scores is declared."""

    space = None

    def __init__(
        self,
        path: str,
        *,
        score_range: Sequence[float] | None = None,
        run_depth: int | None = None,
        fixed_candidates: bool = True,
        missing: str = "refuse",
    ) -> None:
        """Name the run and what is known of it.

        Args:
            path: Parquet with query_id, rank, message_id, score, and scope where it holds several.
            score_range: Smallest and largest possible score, where it is the score that ranks; null: no thresholds.
            run_depth: Hits that were asked for per query; null is what a results.json beside the file says, as in a run
                directory of this project, else the largest rank.
            fixed_candidates: False where the system fetched a number of candidates that depended on top_k: at a
                smaller top_k its hits would be others, so the run answers for no configuration but its own.
            missing: "refuse" a run that lacks a query with evidence, or let it score "zero".

        Raises:
            OptionsError: A setting outside what is allowed.
        """
        if missing not in MISSING:
            raise OptionsError("missing", missing, " or ".join(MISSING))
        if not fixed_candidates:
            raise OptionsError(
                "fixed_candidates",
                fixed_candidates,
                "true: where candidates depend on top_k, a smaller top_k finds others, which the run does not have",
            )
        low, high = (inf, -inf) if score_range is None else _checked_range(score_range)
        self._path = Path(path)
        self._missing = missing
        self._depth = run_depth
        self.score_range = (low, high)

    @property
    def identity(self) -> str:
        """The SHA-256 of the file.

        Raises:
            CollectionError: It cannot be read.
        """
        try:
            return hashlib.sha256(self._path.read_bytes()).hexdigest()
        except OSError as error:
            raise CollectionError(f"run {str(self._path)!r}", [f"cannot be read: {error.strerror}"]) from error

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """Nothing has to be kept with messages."""
        return Embedded()

    def follow(self, changes: Changes) -> None:
        """Nothing has to be known of messages."""

    def encode(self, text: str) -> EncodedQuery:
        """Nothing of the query is used."""
        return EncodedQuery(text, None)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """Nothing: see `make_run`."""
        return Ranking((), np.empty(0, dtype=np.float32))

    def make_run(self, run: Run, collection: TestCollection) -> Run:
        """The saved run of the same scope.

        Raises:
            CollectionError: The file cannot be read, or the run does not fit the collection; every fault is named.
        """
        hits = self._hits(run.scope)
        deepest = hits["rank"].max()
        depth = self._depth or self._depth_beside() or (int(deepest) if isinstance(deepest, int) else run.depth)
        saved = replace(run, hits=hits, depth=depth)
        faults = list(faults_of(saved, collection, missing_scores_zero=self._missing == "zero"))
        if faults:
            raise CollectionError(f"run {str(self._path)!r}", faults)
        counts = {**run.counts, "queries_by_graph": 0, "queries_by_exact": hits["query_id"].n_unique()}
        return replace(saved, hits=hits.sort("query_id", "rank"), counts=counts)

    def _depth_beside(self) -> int | None:
        """The depth in the results of the run directory that the file lies in."""
        try:
            return int(json.loads((self._path.parent / RESULTS_FILE).read_text(encoding="utf-8"))["system"]["depth"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _hits(self, scope: ScopeName) -> pl.DataFrame:
        try:
            frame = pl.read_parquet(self._path)
        except (OSError, pl.exceptions.PolarsError) as error:
            reason = str(error).splitlines()[0]
            raise CollectionError(f"run {str(self._path)!r}", [f"cannot be read as parquet: {reason}"]) from error
        lacking = [name for name in RUN if name not in frame.columns]
        if lacking:
            raise CollectionError(
                f"run {str(self._path)!r}",
                [f"has no column {', '.join(lacking)}, expected {', '.join(RUN)} and perhaps scope"],
            )
        if "scope" in frame.columns:
            held = sorted(frame["scope"].drop_nulls().unique())
            if scope not in held:
                raise CollectionError(f"run {str(self._path)!r}", [f"has no hits of scope {scope}, only of {held}"])
            frame = frame.filter(pl.col("scope") == scope)
        try:
            return frame.select(RUN.names()).cast(dict(RUN.items()))
        except pl.exceptions.PolarsError as error:
            reason = str(error).splitlines()[0]
            raise CollectionError(f"run {str(self._path)!r}", [f"a column is of the wrong type: {reason}"]) from error


def _checked_range(given: Sequence[float]) -> tuple[float, float]:
    numbers = list(given)
    is_pair = len(numbers) == 2 and all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers)
    if not is_pair or not numbers[0] < numbers[1]:
        raise OptionsError("score_range", given, "null, or smallest and largest possible score, such as [-1, 1]")
    return float(numbers[0]), float(numbers[1])
