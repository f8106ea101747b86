"""What must hold of a run before it can be scored under every configuration: every fault at once."""

from collections.abc import Iterator

import polars as pl

from eval.schema import Run, TestCollection
from eval.wording import counted, quoted, tally


def faults_of(run: Run, collection: TestCollection, *, missing_scores_zero: bool = False) -> Iterator[str]:
    """One sentence for each kind of fault; none where every configuration can be scored from the run exactly.

    Hits of another resource are no fault here: they are counted as leaked.

    Args:
        run: Columns and types of RUN.
        collection: What it should answer.
        missing_scores_zero: Whether a query without hits in the run is meant to score 0.
    """
    hits = run.hits
    unknown = list(_unknown(hits, collection))
    yield from unknown
    yield from _nulls(hits)
    if unknown or hits.null_count().pipe(sum_of) > 0:
        return
    yield from _repeated(hits)
    yield from _order(hits, run.depth)
    yield from _visibility(run, collection)
    if not missing_scores_zero:
        yield from _missing(hits, collection)


def sum_of(counts: pl.DataFrame) -> int:
    """All counts of a one-row frame together."""
    return int(sum(counts.row(0)))


def _unknown(hits: pl.DataFrame, collection: TestCollection) -> Iterator[str]:
    for column, table in (("query_id", collection.queries), ("message_id", collection.messages)):
        ids = hits.select(column).drop_nulls().unique().sort(column)
        strange = ids.join(table, on=column, how="anti").sort(column)
        if strange.height and strange.height == ids.height:
            yield (
                f"none of its {column}s, such as {quoted(strange[column][0])}, is in collection "
                f"{quoted(collection.name)}: it is the run of another collection"
            )
        elif strange.height:
            yield f"the collection has no {tally(strange.height, column, map(quoted, strange[column]))}"


def _nulls(hits: pl.DataFrame) -> Iterator[str]:
    for column in hits.columns:
        missing = hits[column].null_count()
        if missing:
            yield f"{column} is null in {counted(missing, 'row')}"
    strange = hits.filter(~pl.col("score").is_finite()).height
    if strange:
        yield f"score is NaN or infinite in {counted(strange, 'row')}, expected finite numbers"


def _repeated(hits: pl.DataFrame) -> Iterator[str]:
    repeated = hits.filter(hits.select("query_id", "message_id").is_duplicated())
    if repeated.height:
        yield f"a message stands twice among the hits of {_queries(repeated)}; expected each once"


def _order(hits: pl.DataFrame, depth: int) -> Iterator[str]:
    ordered = hits.sort("query_id", "rank").with_columns(
        place=pl.int_range(1, pl.len() + 1).over("query_id"), before=pl.col("score").shift(1).over("query_id")
    )
    gaps = ordered.filter(pl.col("rank") != pl.col("place"))
    if gaps.height:
        yield f"ranks are not 1, 2, 3, … in {_queries(gaps)}"
    rising = ordered.filter(pl.col("score") > pl.col("before"))
    if rising.height:
        yield f"scores rise with rank in {_queries(rising)}; expected the score that ranks, higher for better hits"
    deep = ordered.filter(pl.col("place") > depth)
    if deep.height:
        yield f"{_queries(deep)} have more than {depth} hits, the depth that was declared"


def _visibility(run: Run, collection: TestCollection) -> Iterator[str]:
    asked = collection.queries.select("query_id", "resource_id", "thread_id", "asked_at")
    found = run.hits.join(asked, on="query_id").join(
        collection.messages.select("message_id", "thread_id", "resource_id", "created_at"),
        on="message_id",
        suffix="_of_message",
    )
    late = found.filter(pl.col("created_at") >= pl.col("asked_at"))
    if late.height:
        yield f"hits were written when or after their query was asked, in {_queries(late)}"
    if run.scope == "thread":
        is_here = (pl.col("thread_id") == pl.col("thread_id_of_message")) & (
            pl.col("resource_id") == pl.col("resource_id_of_message")
        )
        outside = found.filter(~is_here.fill_null(value=False))
        if outside.height:
            yield f"hits lie outside the thread of their query, in {_queries(outside)}, and the scope is thread"


def _missing(hits: pl.DataFrame, collection: TestCollection) -> Iterator[str]:
    scored = collection.qrels.filter(pl.col("relevance") >= 1).select("query_id").unique()
    missing = scored.join(hits, on="query_id", how="anti").sort("query_id")
    if missing.height:
        shown = tally(missing.height, "query", map(quoted, missing["query_id"]))
        yield f"it misses {shown}, which have evidence; set retriever.missing=zero if they are meant to score 0"


def _queries(rows: pl.DataFrame) -> str:
    ids = rows["query_id"].unique().sort()
    return tally(ids.len(), "query", map(quoted, ids))
