"""Freshness: the newest version of a fact above those it replaced."""

import polars as pl

from eval.metrics.base import Metric
from eval.schema import PER_QUERY, Run, TestCollection


def freshness(run: Run, collection: TestCollection) -> pl.DataFrame:
    """PER_QUERY rows of `newest_first`, for queries with a stale version only.

    Stale is what was judged not relevant and is older than a relevant message of the query.
    """
    judged = collection.qrels.join(collection.messages.select("message_id", "created_at"), on="message_id")
    is_relevant = pl.col("relevance") >= 1
    newest = judged.filter(is_relevant).group_by("query_id").agg(pl.col("created_at").max().alias("newest"))
    stale = judged.filter(~is_relevant).join(newest, on="query_id").filter(pl.col("created_at") < pl.col("newest"))
    ranks = run.hits.select("query_id", "message_id", "rank")
    key, best = ["query_id", "message_id"], pl.col("rank").min()
    best_stale = stale.join(ranks, on=key, how="left").group_by("query_id").agg(best)
    best_relevant = judged.filter(is_relevant).join(ranks, on=key).group_by("query_id").agg(best)
    both = best_stale.join(best_relevant, on="query_id", how="left", suffix="_of_relevant")
    is_first = pl.col("rank_of_relevant").is_not_null() & (
        pl.col("rank").is_null() | (pl.col("rank_of_relevant") < pl.col("rank"))
    )
    rows = both.select("query_id", pl.lit("newest_first").alias("metric"), is_first.cast(pl.Float64).alias("value"))
    return rows.cast(dict(PER_QUERY.items())).sort("query_id")


METRICS = (
    Metric(
        "newest_first",
        "newest first",
        "1 if a relevant message ranks above every stale one (judged not relevant, older than a relevant one), else 0.",
        "the query has no relevant or no stale message; then it has no row at all",
        "this project",
    ),
)
