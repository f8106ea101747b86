"""Relevant messages first: as far as they exist, or as far as another retriever finds them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from math import inf

import numpy as np
import polars as pl

from eval.schema import Run, TestCollection
from recall.errors import OptionsError
from recall.protocols import Changes, Embedded, EncodedQuery, Retriever, VectorSpace
from recall.schema import Message, Ranking, SearchScope

WITHOUT_SCALE = (inf, -inf)


class Oracle:
    """The perfect retriever: every relevant message in scope that is old enough, best grade first, and nothing else."""

    score_range = WITHOUT_SCALE
    space = None

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
        """The run of what is relevant."""
        asked = collection.queries.select("query_id", "thread_id", "asked_at", "resource_id")
        found = (
            collection.qrels.filter(pl.col("relevance") >= 1)
            .join(asked, on="query_id")
            .join(collection.messages, on=["message_id", "resource_id"], suffix="_of_message")
            .filter(pl.col("asked_at").is_null() | (pl.col("created_at") < pl.col("asked_at")))
        )
        if run.scope == "thread":
            found = found.filter(pl.col("thread_id") == pl.col("thread_id_of_message"))
        return replace(run, hits=_by_grade(found, run.depth))


class Headroom:
    """Another retriever's first hits, relevant ones first: what a perfect re-ranker could gain."""

    score_range = WITHOUT_SCALE

    def __init__(self, inner: Retriever, *, candidates: int = 100) -> None:
        """Choose whose hits, and how many.

        Args:
            inner: What ranks.
            candidates: How many of its first hits are put in order, 1 or more; the others stay behind them.

        Raises:
            OptionsError: Fewer than 1.
        """
        if isinstance(candidates, bool) or candidates < 1:
            raise OptionsError("candidates", candidates, "an integer of 1 or more")
        self._inner = inner
        self._candidates = candidates

    @property
    def space(self) -> VectorSpace | None:
        """The inner one's."""
        return self._inner.space

    def embed(self, messages: Sequence[Message]) -> Embedded:
        """What the inner one wants kept."""
        return self._inner.embed(messages)

    def follow(self, changes: Changes) -> None:
        """Let the inner one take over a store's changes."""
        self._inner.follow(changes)

    def encode(self, text: str) -> EncodedQuery:
        """The query in the inner one's form."""
        return self._inner.encode(text)

    def rank(
        self,
        query: EncodedQuery,
        scope: SearchScope,
        depth: int,
        *,
        before: datetime | None = None,
        exact: bool = False,
    ) -> Ranking:
        """The inner one's ranking: see `make_run`."""
        return self._inner.rank(query, scope, depth, before=before, exact=exact)

    def make_run(self, run: Run, collection: TestCollection) -> Run:
        """The run with the relevant of its first hits in front, best grade first, then in the order they had."""
        graded = run.hits.join(collection.qrels, on=["query_id", "message_id"], how="left").with_columns(
            pl.when(pl.col("rank") <= self._candidates).then(pl.col("relevance").fill_null(0)).otherwise(-1)
        )
        return replace(run, hits=_by_grade(graded, run.depth))


def _by_grade(graded: pl.DataFrame, depth: int) -> pl.DataFrame:
    """Hits by grade, then by the order they had, by time and id where they had none; a score is 1 / rank."""
    columns = [name for name in ("rank", "created_at", "position", "message_id") if name in graded.columns]
    descending = [False, True, *(False for _ in columns)]
    ordered = graded.sort(["query_id", "relevance", *columns], descending=descending)
    ranked = ordered.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int32).over("query_id").alias("rank"))
    score = (1 / pl.col("rank")).round(6).cast(pl.Float32).alias("score")
    return ranked.filter(pl.col("rank") <= depth).select("query_id", "rank", "message_id", score)
