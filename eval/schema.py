"""The tables of the harness, as polars schemas and the records that hold them."""

from dataclasses import dataclass, field
from typing import Any, Literal

import polars as pl

ScopeName = Literal["thread", "resource"]
UTC_TIME = pl.Datetime("us", "UTC")

MESSAGES = pl.Schema(
    {
        "message_id": pl.String(),
        "resource_id": pl.String(),
        "thread_id": pl.String(),
        "position": pl.Int32(),
        "role": pl.String(),
        "name": pl.String(),
        "text": pl.String(),
        "created_at": UTC_TIME,
        "parts": pl.String(),
    }
)
QUERIES = pl.Schema(
    {
        "query_id": pl.String(),
        "resource_id": pl.String(),
        "thread_id": pl.String(),
        "asked_at": UTC_TIME,
        "text": pl.String(),
        "type": pl.String(),
        "answerable": pl.Boolean(),
        "cluster_id": pl.String(),
        "split": pl.String(),
    }
)
QRELS = pl.Schema({"query_id": pl.String(), "message_id": pl.String(), "relevance": pl.Int8()})
RUN = pl.Schema({"query_id": pl.String(), "rank": pl.Int32(), "message_id": pl.String(), "score": pl.Float32()})
TIMINGS = pl.Schema({"query_id": pl.String(), "stage": pl.String(), "ms": pl.Float64()})
PER_QUERY = pl.Schema({"query_id": pl.String(), "metric": pl.String(), "value": pl.Float64()})

NULLABLE: dict[str, frozenset[str]] = {
    "messages": frozenset({"name", "parts"}),
    "queries": frozenset({"thread_id", "asked_at"}),
    "qrels": frozenset(),
}
"""Columns that may be null, by table."""


@dataclass(frozen=True)
class TestCollection:
    """Messages, queries and judgements that belong together.

    Attributes:
        messages: Schema MESSAGES, rows ordered by (resource_id, thread_id, position).
        queries: Schema QUERIES, rows ordered by query_id.
        qrels: Schema QRELS, rows ordered by (query_id, message_id).
        manifest: name, version, licence, language, source, counts, sha256, notes; and, if generated,
            generator version, parameters and seed. `notes` lists what a loader repaired or could not use.
    """

    __test__ = False  # pytest would take the name for a test class

    messages: pl.DataFrame
    queries: pl.DataFrame
    qrels: pl.DataFrame
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The collection's name, as its manifest has it."""
        return str(self.manifest["name"])

    @property
    def sha256(self) -> str:
        """The content's identity, as its manifest has it."""
        return str(self.manifest["sha256"])


@dataclass(frozen=True)
class Run:
    """Ranked hits of one system in one scope for every query, before windows and threshold.

    Attributes:
        hits: Schema RUN, ordered by (query_id, rank); a query without hits has no rows.
        timings: Schema TIMINGS, milliseconds by query and stage (embed, search).
        scope: "thread" or "resource".
        depth: Hits asked for per query.
        counts: Deterministic counters: queries_by_graph, queries_by_exact, new_thread_queries, ...
    """

    hits: pl.DataFrame
    timings: pl.DataFrame
    scope: ScopeName
    depth: int
    counts: dict[str, int] = field(default_factory=dict)
