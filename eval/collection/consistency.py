"""Checks of a collection that look at more than one column: judgements, threads, positions, splits.

Each takes readable tables (right types, but nulls and repeated keys are possible) and yields sentences.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from eval.wording import SHOWN, key_text, quoted, tally

Tables = Mapping[str, pl.DataFrame]
SPLITS = ("dev", "test")
_THREAD = ["resource_id", "thread_id"]


@dataclass(frozen=True)
class Check:
    """A kind of fault.

    Attributes:
        find: Yields one sentence for each fault.
        needs: "table.column" of everything it reads.
    """

    find: Callable[[Tables], Iterator[str]]
    needs: frozenset[str]


def _no_rows(tables: Tables) -> Iterator[str]:
    for name in ("messages", "queries"):
        if tables[name].is_empty():
            yield f"the collection has no {name}; expected at least one row in {name}"


def _unknown_in_qrels(tables: Tables) -> Iterator[str]:
    for column, table in (("message_id", "messages"), ("query_id", "queries")):
        judged = tables["qrels"].select(column).drop_nulls()
        unknown = judged.join(tables[table], on=column, how="anti")
        if unknown.height:
            yield f"qrels name {table} that do not exist, in {_values(unknown, column)}; add them or drop the rows"


def _foreign_judgements(tables: Tables) -> Iterator[str]:
    pairs = _pairs(tables, messages=["resource_id"], queries=["resource_id"])
    foreign = pairs.filter(pl.col("resource_id") != pl.col("resource_id_of_query"))
    if foreign.height:
        yield (
            f"qrels judge messages of another resource than their query's, in {_keys(foreign)}; "
            "nothing is recalled across resources"
        )


def _invisible_evidence(tables: Tables) -> Iterator[str]:
    pairs = _pairs(tables, messages=["created_at"], queries=["asked_at"]).filter(pl.col("relevance") >= 1)
    late = pairs.filter(pl.col("created_at") >= pl.col("asked_at"))
    if late.height:
        yield f"evidence is not visible to its query, in {_keys(late)}; created_at must be earlier than asked_at"


def _shared_threads(tables: Tables) -> Iterator[str]:
    owners = tables["messages"].drop_nulls(_THREAD).group_by("thread_id").agg(pl.col("resource_id").n_unique())
    shared = owners.filter(pl.col("resource_id") > 1)
    if shared.height:
        yield f"thread_id is in more than one resource for {_values(shared, 'thread_id', 'thread')}; one owner each"


def _positions(tables: Tables) -> Iterator[str]:
    ordered = _ordered_messages(tables).with_columns(expected=pl.int_range(pl.len()).over(_THREAD))
    wrong = ordered.filter(pl.col("position") != pl.col("expected"))
    threads = wrong.unique(_THREAD, keep="first").sort(_THREAD)
    if threads.height:
        shown = [
            f"{quoted(row['thread_id'])} has {row['position']} where {row['expected']} comes next"
            for row in threads.head(SHOWN).rows(named=True)
        ]
        yield (
            f"positions do not count 0, 1, 2, ... in {tally(threads.height, 'thread', shown)}; "
            "number the messages of a thread without gaps or repeats"
        )


def _time_order(tables: Tables) -> Iterator[str]:
    ordered = _ordered_messages(tables).with_columns(before=pl.col("created_at").shift().over(_THREAD))
    early = ordered.filter(pl.col("created_at") < pl.col("before"))
    if early.height:
        yield (
            "created_at is earlier than that of the position before, in "
            f"{_values(early, 'message_id', 'message')}; positions must follow created_at"
        )


def _unknown_resources(tables: Tables) -> Iterator[str]:
    queries = tables["queries"].drop_nulls("resource_id")
    unknown = queries.join(tables["messages"], on="resource_id", how="anti")
    if unknown.height:
        yield f"queries are asked in resources without messages, in {_values(unknown, 'resource_id')}"


def _unknown_threads(tables: Tables) -> Iterator[str]:
    # A query in an unknown resource is reported as such, once.
    queries = tables["queries"].join(tables["messages"], on="resource_id", how="semi").drop_nulls(_THREAD)
    unknown = queries.join(tables["messages"], on=_THREAD, how="anti")
    if unknown.height:
        yield (
            "queries are asked in threads that have no messages in the query's resource, in "
            f"{_values(unknown, 'thread_id')}; use null for a new thread"
        )


def _answerable(tables: Tables) -> Iterator[str]:
    judged = tables["qrels"].drop_nulls(["query_id", "relevance"]).group_by("query_id").agg(pl.col("relevance").max())
    queries = tables["queries"].join(judged, on="query_id").unique("query_id").sort("query_id")
    # A query without any judgement is allowed: scoring excludes and counts it.
    hopeless = queries.filter(pl.col("answerable") & (pl.col("relevance") < 1))
    if hopeless.height:
        yield (
            "answerable, judged, and without a relevant message: "
            f"{_values(hopeless, 'query_id', 'query')}; give evidence or set answerable to false"
        )
    answered = queries.filter(~pl.col("answerable") & (pl.col("relevance") >= 1))
    if answered.height:
        yield (
            "not answerable, and yet with a relevant message: "
            f"{_values(answered, 'query_id', 'query')}; set relevance to 0 or answerable to true"
        )


def _negative_relevance(tables: Tables) -> Iterator[str]:
    negative = tables["qrels"].filter(pl.col("relevance") < 0)
    if negative.height:
        yield f"relevance is below 0, in {_keys(negative)}; 0 stands for judged and not relevant"


def _splits(tables: Tables) -> Iterator[str]:
    other = tables["queries"].drop_nulls("split").filter(~pl.col("split").is_in(SPLITS))
    if other.height:
        yield f"queries.split is neither 'dev' nor 'test', in {_values(other, 'split')}"


def _ordered_messages(tables: Tables) -> pl.DataFrame:
    """Messages that have a place, sorted by (resource_id, thread_id, position)."""
    needed = [*_THREAD, "position"]
    return tables["messages"].drop_nulls(needed).sort(needed, maintain_order=True)


def _pairs(tables: Tables, *, messages: list[str], queries: list[str]) -> pl.DataFrame:
    """Judgements with columns of their message and query; where names clash the query's ends in _of_query."""
    known_messages = tables["messages"].select("message_id", *messages).unique("message_id", keep="first")
    known_queries = tables["queries"].select("query_id", *queries).unique("query_id", keep="first")
    return tables["qrels"].join(known_messages, on="message_id").join(known_queries, on="query_id", suffix="_of_query")


def _values(frame: pl.DataFrame, column: str, noun: str = "row") -> str:
    """How many rows there are, and the first distinct values of a column."""
    distinct = frame[column].drop_nulls().unique().sort()
    return tally(frame.height, noun, map(quoted, distinct.head(SHOWN)), distinct.len())


def _keys(qrels: pl.DataFrame) -> str:
    """How many judgements there are, and the first of them as (query_id, message_id)."""
    rows = qrels.select("query_id", "message_id").sort("query_id", "message_id").head(SHOWN).rows()
    return tally(qrels.height, "row", map(key_text, rows))


_JUDGEMENT = frozenset({"qrels.query_id", "qrels.message_id"})
_IDS = _JUDGEMENT | {"messages.message_id", "queries.query_id"}
_OWNER = frozenset({"messages.resource_id", "messages.thread_id"})

CHECKS = (
    Check(_no_rows, frozenset({"messages.message_id", "queries.query_id"})),
    Check(_unknown_in_qrels, _IDS),
    Check(_foreign_judgements, _IDS | {"messages.resource_id", "queries.resource_id"}),
    Check(_invisible_evidence, _IDS | {"messages.created_at", "queries.asked_at", "qrels.relevance"}),
    Check(_shared_threads, _OWNER),
    Check(_positions, _OWNER | {"messages.position"}),
    Check(_time_order, _OWNER | {"messages.position", "messages.message_id", "messages.created_at"}),
    Check(_unknown_resources, frozenset({"messages.resource_id", "queries.resource_id"})),
    Check(_unknown_threads, _OWNER | {"queries.resource_id", "queries.thread_id"}),
    Check(_answerable, frozenset({"qrels.query_id", "qrels.relevance", "queries.query_id", "queries.answerable"})),
    Check(_negative_relevance, _JUDGEMENT | {"qrels.relevance"}),
    Check(_splits, frozenset({"queries.split"})),
)
"""Every check, in the order faults are reported."""
