"""Questions asked to the wrong resource: a class of queries without an answer that any collection can have."""

import hashlib

import polars as pl

from eval.collection import build_collection
from eval.errors import CollectionError
from eval.schema import TestCollection

FOREIGN = "foreign"
"""Their type."""


def with_foreign_queries(collection: TestCollection, count: int) -> TestCollection:
    """The collection with `count` of its answerable queries asked once more, each to another resource.

    They are asked after everything in a new thread, cannot be answered, and belong to the cluster of the resource that
    is asked. Which ones, and of whom, follows from their ids alone. They are few where there are few to ask.

    Raises:
        CollectionError: There is no other resource to ask.
    """
    if count == 0:
        return collection
    resources = sorted(collection.messages["resource_id"].unique())
    if len(resources) < 2:
        raise CollectionError(collection.name, ["foreign_queries need at least two resources, there is one"])
    cluster_of = dict(collection.queries.select("resource_id", "cluster_id").iter_rows())
    answerable = collection.queries.filter("answerable").rows(named=True)
    chosen = sorted(answerable, key=lambda row: _digest("choice", row["query_id"]))[:count]
    rows = []
    for row in chosen:
        others = [resource for resource in resources if resource != row["resource_id"]]
        asked = others[int(_digest("resource", row["query_id"])[:8], 16) % len(others)]
        rows.append(
            row
            | {
                "query_id": f"{FOREIGN}-{_digest('id', row['query_id'])[:16]}",
                "resource_id": asked,
                "thread_id": None,
                "asked_at": None,
                "type": FOREIGN,
                "answerable": False,
                "cluster_id": cluster_of.get(asked, asked),
            }
        )
    added = pl.DataFrame(rows, schema=collection.queries.schema, orient="row")
    manifest = collection.manifest | {"foreign_queries": len(rows)}
    return build_collection(collection.messages, pl.concat([collection.queries, added]), collection.qrels, manifest)


def _digest(purpose: str, query_id: str) -> str:
    return hashlib.sha256(f"{purpose}\N{NUL}{query_id}".encode("utf-8", "surrogatepass")).hexdigest()
