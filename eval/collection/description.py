"""What a test collection is like: sizes, lengths, roles, queries, where the evidence lies."""

from typing import Any

import polars as pl

from eval.schema import TestCollection

_QUANTILES = {"min": 0.0, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}
_HEADER = ("name", "version", "licence", "language", "source", "sha256")
_DECIMALS = 4


def describe(collection: TestCollection) -> dict[str, Any]:
    """The facts of a collection as plain values, ready for JSON; what cannot be computed is null.

    Distributions have min, p25, p50, p75, p95, max (linear interpolation) and mean.
    """
    messages, manifest = collection.messages, collection.manifest
    threads = messages.group_by("resource_id", "thread_id").len()
    texts = messages.select(
        characters=pl.col("text").str.len_chars(),
        words=pl.col("text").str.count_matches(r"\S+"),
    )
    return {
        **{key: manifest[key] for key in _HEADER},
        "counts": manifest["counts"],
        "threads_per_resource": _distribution(threads.group_by("resource_id").len()["len"]),
        "messages_per_thread": _distribution(threads["len"]),
        "message_characters": _distribution(texts["characters"]),
        "message_words": _distribution(texts["words"]),
        "roles": _tally(messages["role"]),
        "duplicate_texts": _duplicates(messages),
        "queries": _queries(collection),
        "evidence": _evidence(collection),
        "notes": manifest["notes"],
    }


def _queries(collection: TestCollection) -> dict[str, Any]:
    """Numbers of queries; those without judgements are excluded from scores."""
    queries = collection.queries
    by_type = queries.group_by("type").agg(pl.col("answerable").sum(), queries=pl.len()).sort("type")
    return {
        "by_type": {
            row["type"]: {"answerable": row["answerable"], "unanswerable": row["queries"] - row["answerable"]}
            for row in by_type.rows(named=True)
        },
        "by_split": _tally(queries["split"]),
        "without_judgements": queries.join(collection.qrels, on="query_id", how="anti").height,
        "in_a_new_thread": queries["thread_id"].null_count(),
        "after_everything": queries["asked_at"].null_count(),
    }


def _evidence(collection: TestCollection) -> dict[str, Any]:
    """Where the relevant messages lie, seen from the queries they answer.

    The distance of a message is the number of later messages of the resource that the query also sees: 0 for
    the last one before it is asked.
    """
    relevant = collection.qrels.filter(pl.col("relevance") >= 1)
    places = _ranked(collection.messages).select("message_id", "rank", pl.col("thread_id").alias("evidence_thread"))
    pairs = relevant.join(places, on="message_id").join(_visible(collection), on="query_id")
    # ne_missing: a query in a new thread has a null there, and every thread is another one.
    elsewhere = pairs.filter(pl.col("evidence_thread").ne_missing(pl.col("thread_id"))).height
    return {
        "messages_per_query": _distribution(relevant.group_by("query_id").len()["len"]),
        "share_in_another_thread": _share(elsewhere, pairs.height),
        "distance_in_messages": _distribution(pairs["visible"] - 1 - pairs["rank"]),
    }


def _ranked(messages: pl.DataFrame) -> pl.DataFrame:
    """Messages with their 0-based rank in the resource by (created_at, position, message_id)."""
    ordered = messages.sort("resource_id", "created_at", "position", "message_id")
    return ordered.with_columns(rank=pl.int_range(pl.len()).over("resource_id"))


def _visible(collection: TestCollection) -> pl.DataFrame:
    """query_id, thread_id and the number of messages of the resource that the query sees."""
    ranked = _ranked(collection.messages).select("resource_id", "created_at", "rank")
    everything = ranked.group_by("resource_id").agg(all_messages=pl.len().cast(pl.Int64))
    queries = collection.queries.select("query_id", "resource_id", "thread_id", "asked_at").sort("asked_at")
    last_seen = queries.drop_nulls("asked_at").join_asof(
        ranked.sort("created_at", maintain_order=True),
        left_on="asked_at",
        right_on="created_at",
        by="resource_id",
        allow_exact_matches=False,
        check_sortedness=False,
    )
    seen = last_seen.select("query_id", visible=pl.col("rank").fill_null(-1) + 1)
    joined = queries.join(everything, on="resource_id").join(seen, on="query_id", how="left")
    return joined.select("query_id", "thread_id", visible=pl.coalesce("visible", "all_messages"))


def _duplicates(messages: pl.DataFrame) -> dict[str, Any]:
    """Messages whose text an earlier row of the same resource has already."""
    distinct = messages.select("resource_id", "text").n_unique()
    repeats = messages.height - distinct
    return {"messages": repeats, "share": _share(repeats, messages.height)}


def _distribution(values: pl.Series) -> dict[str, float | None]:
    numbers = {name: values.quantile(share, "linear") for name, share in _QUANTILES.items()}
    mean = values.cast(pl.Float64).mean()
    return {name: _rounded(value) for name, value in {**numbers, "mean": mean}.items()}


def _rounded(value: object) -> float | None:
    return round(float(value), _DECIMALS) if isinstance(value, int | float) else None


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, _DECIMALS) if whole else None


def _tally(values: pl.Series) -> dict[str, int]:
    """Number of rows by value, in the order of the values."""
    return dict(values.value_counts(name="rows").sort(values.name).rows())
