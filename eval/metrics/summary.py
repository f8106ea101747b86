"""Means over queries: what results and tables show of per-query scores."""

import math
from collections.abc import Sequence
from typing import TypedDict

import polars as pl

from recall.errors import InputError


class Mean(TypedDict):
    """A metric over queries.

    Attributes:
        value: Mean over the queries that have a value; None where none has. Full float64.
        n: How many queries have a value.
    """

    value: float | None
    n: int


def summarise(per_query: pl.DataFrame) -> dict[str, Mean]:
    """The mean of every metric, by name in alphabetical order.

    Every query counts once; null is left out of the mean and of n. The sum is exact (`math.fsum`)
    before its one rounding, so the result does not depend on the order of the rows.

    Args:
        per_query: Schema PER_QUERY.
    """
    grouped = per_query.group_by("metric").agg(pl.col("value").drop_nulls()).sort("metric")
    return {metric: _mean(values) for metric, values in grouped.iter_rows()}


def summarise_by_type(per_query: pl.DataFrame, queries: pl.DataFrame) -> dict[str, dict[str, Mean]]:
    """`summarise` for each type of query, types in alphabetical order.

    Every type of `queries` has every metric of `per_query`, with n 0 where no query of it has a value.

    Args:
        per_query: Schema PER_QUERY.
        queries: Schema QUERIES.

    Raises:
        InputError: A score belongs to a query that `queries` has not.
    """
    typed = per_query.join(queries.select("query_id", "type"), on="query_id", how="left")
    strange = typed.filter(pl.col("type").is_null()).get_column("query_id").unique().sort()
    if not strange.is_empty():
        raise InputError(
            f"scored queries that the collection lacks: {len(strange)}, first {strange[0]!r}; "
            "give the queries of the collection that was scored"
        )
    nothing = {metric: _mean([]) for metric in per_query["metric"].unique().sort()}
    return {
        query_type: nothing | summarise(typed.filter(pl.col("type") == query_type))
        for query_type in queries["type"].unique().sort()
    }


def _mean(values: Sequence[float]) -> Mean:
    return {"value": math.fsum(values) / len(values) if values else None, "n": len(values)}
