"""What is searched with: the query alone, or with what the user said just before it."""

import polars as pl

from eval.schema import TestCollection


def query_texts(collection: TestCollection, query_messages: int = 1) -> dict[str, str]:
    """query_id to the text that is searched with.

    Args:
        collection: The queries, and the threads they are asked in.
        query_messages: The query and the user's messages before it in its thread, together so many; 1 or more. They are
            joined with a line break, the query last.
    """
    asked = dict(collection.queries.select("query_id", "text").iter_rows())
    if query_messages == 1:
        return asked
    before = (
        collection.queries.select("query_id", "resource_id", "thread_id", "asked_at")
        .join(
            collection.messages.filter(pl.col("role") == "user").select(
                "resource_id", "thread_id", "position", "created_at", "text"
            ),
            on=["resource_id", "thread_id"],
        )
        .filter(pl.col("asked_at").is_null() | (pl.col("created_at") < pl.col("asked_at")))
        .sort("query_id", "position")
        .group_by("query_id")
        .agg(pl.col("text").tail(query_messages - 1))
    )
    for query_id, texts in before.iter_rows():
        asked[query_id] = "\n".join([*texts, asked[query_id]])
    return asked
