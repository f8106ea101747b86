"""A collection as arrays: what every query may see, what is relevant to it, and what each message costs.

Messages are numbered by their row, queries by theirs; a *cell* is one message for one query, numbered
query * rows + row.
"""

from collections.abc import Mapping
from copy import copy
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from eval.schema import TestCollection

Ints = npt.NDArray[np.int64]
LATEST = np.iinfo(np.int64).max


class Judged:
    """A collection and its token counts as arrays, shared by every run that is scored on it.

    Attributes:
        query_ids: In the order of the collection's rows.
        message_ids: In the order of the collection's rows.
        tokens: int64, shape (rows,).
        created: Microseconds since 1970, shape (rows,).
        asked: The same of queries, shape (queries,); the largest number where a query is asked after everything.
        thread_start: First row of each row's thread, shape (rows,).
        thread_end: One past its last row, shape (rows,).
        relevant: Sorted cells of relevance 1 or more.
        gains: Their relevance, int64.
        relevant_count: How many of them each query has, shape (queries,).
        answerable: Which queries have an answer, shape (queries,).
    """

    def __init__(self, collection: TestCollection, tokens: npt.NDArray[np.integer]) -> None:
        """Take a collection and the tokens of each of its messages, in the order of its rows."""
        self._collection = collection
        self.query_ids: list[str] = collection.queries["query_id"].to_list()
        self.message_ids: list[str] = collection.messages["message_id"].to_list()
        self.tokens = np.asarray(tokens, dtype=np.int64)
        self._row_of = dict(zip(self.message_ids, range(len(self.message_ids)), strict=True))
        self._query_of = {query_id: number for number, query_id in enumerate(self.query_ids)}
        self.created = collection.messages["created_at"].to_physical().to_numpy()
        thread = collection.messages.select(pl.struct("resource_id", "thread_id").rle_id()).to_series()
        self._thread = thread.to_numpy().astype(np.int64)
        self.thread_start = np.searchsorted(self._thread, self._thread, side="left")
        self.thread_end = np.searchsorted(self._thread, self._thread, side="right")
        self.answerable = collection.queries["answerable"].to_numpy()
        self.asked = collection.queries["asked_at"].to_physical().fill_null(LATEST).to_numpy()
        judgements = self.cells(collection.qrels["query_id"], collection.qrels["message_id"])
        relevance = collection.qrels["relevance"].to_numpy().astype(np.int64)
        order = np.argsort(judgements, kind="stable")
        judgements, relevance = judgements[order], relevance[order]
        self.relevant, self.gains = judgements[relevance >= 1], relevance[relevance >= 1]
        self.relevant_count = np.bincount(self.relevant // self.rows, minlength=self.queries)

    @property
    def rows(self) -> int:
        """Messages in the collection."""
        return int(self.tokens.size)

    @property
    def queries(self) -> int:
        """Queries in the collection."""
        return len(self.query_ids)

    @property
    def scored(self) -> npt.NDArray[np.bool_]:
        """Which queries have a relevant message, shape (queries,)."""
        return self.relevant_count > 0

    def cells(self, query_ids: pl.Series, message_ids: pl.Series) -> Ints:
        """The cells of pairs of ids that are in the collection."""
        return _look_up(query_ids, self._query_of) * self.rows + _look_up(message_ids, self._row_of)

    def part(self, start: int, stop: int) -> "Judged":
        """The same collection with the queries start <= number < stop alone, numbered from 0."""
        part = copy(self)
        part.query_ids = self.query_ids[start:stop]
        part.asked, part.answerable = self.asked[start:stop], self.answerable[start:stop]
        part.relevant_count = self.relevant_count[start:stop]
        first, last = np.searchsorted(self.relevant, [start * self.rows, stop * self.rows])
        part.relevant, part.gains = self.relevant[first:last] - start * self.rows, self.gains[first:last]
        # What is worked out once for all queries, by its own name: a copy keeps what was cached before.
        part.__dict__["history_span"] = tuple(rows[start:stop] for rows in self.history_span)
        part.__dict__["asker"] = self.asker[start:stop]
        part.__dict__["owner"], part.__dict__["copies"] = self.owner, self.copies
        return part

    def seen_until(self, query: Ints, row: Ints) -> Ints:
        """One past the last message that each query may see in the thread of the row beside it."""
        moments, times = self._moments
        stride = moments.size + 1
        wanted = self._thread[row] * stride + np.searchsorted(moments, self.asked[query], side="left")
        return np.searchsorted(self._thread * stride + times, wanted, side="left")

    @cached_property
    def _moments(self) -> tuple[Ints, Ints]:
        """The distinct times of messages, and the number of each row's among them."""
        moments, times = np.unique(self.created, return_inverse=True)
        return moments, times.astype(np.int64)

    @cached_property
    def history_span(self) -> tuple[Ints, Ints]:
        """First row and one past the last row that a query's own thread shows it; equal where it shows none."""
        messages = self._collection.messages.select("resource_id", "thread_id").with_row_index("row")
        threads = messages.group_by("resource_id", "thread_id").agg(
            pl.col("row").min().alias("start"), pl.len().alias("length")
        )
        asked = self._collection.queries.select("resource_id", "thread_id")
        own = asked.join(threads, on=["resource_id", "thread_id"], how="left", maintain_order="left")
        start = own["start"].fill_null(0).cast(pl.Int64).to_numpy()
        length = own["length"].fill_null(0).cast(pl.Int64).to_numpy()
        stop = start.copy()
        present = np.flatnonzero(length)
        stop[present] = self.seen_until(present, start[present])
        return start, stop

    @cached_property
    def copies(self) -> Ints:
        """Messages of one resource that say the same share a number, shape (rows,).

        The same is: equal letters and digits, whatever the case, spacing and punctuation. Texts with none stand alone.
        """
        said = pl.col("text").str.normalize("NFKC").str.to_lowercase().str.replace_all(r"[^\p{L}\p{N}]+", " ")
        frame = self._collection.messages.select("resource_id", said.str.strip_chars().alias("said"), "message_id")
        own = pl.when(pl.col("said") == "").then(pl.col("message_id")).otherwise(pl.lit(""))
        key = pl.struct("resource_id", "said", own.alias("own"))
        return frame.select(key.rank("dense")).to_series().to_numpy().astype(np.int64)

    @cached_property
    def owner(self) -> Ints:
        """A number for each row's resource, shape (rows,)."""
        return self._resources[0]

    @cached_property
    def asker(self) -> Ints:
        """The same numbers for each query's resource, shape (queries,)."""
        return self._resources[1]

    @cached_property
    def _resources(self) -> tuple[Ints, Ints]:
        messages, queries = self._collection.messages["resource_id"], self._collection.queries["resource_id"]
        number_of = {name: number for number, name in enumerate(pl.concat([messages, queries]).unique().sort())}
        return _look_up(messages, number_of), _look_up(queries, number_of)


def _look_up(keys: pl.Series, number_of: Mapping[str, int]) -> Ints:
    return np.fromiter((number_of[key] for key in keys), dtype=np.int64, count=len(keys))
