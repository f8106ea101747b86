"""From composed settings to the two things that are measured: a collection and a system."""

from collections.abc import Callable
from typing import Any

from eval.config import build, plain, plain_value
from eval.foreign_queries import with_foreign_queries
from eval.schema import TestCollection
from eval.system import Parts, Surroundings, System, assemble
from recall.errors import OptionsError

QUIET_BELOW = 200  # so few texts are embedded before anyone wonders


def make_system(settings: Any, advance: Callable[[int, int], None]) -> System:
    """The system that settings describe; `advance` is told (done, total) texts embedded.

    Raises:
        RecallError: Settings that cannot be used.
    """
    parts = Parts(
        embedder=lambda: build(settings, "embedder"),
        index=lambda: build(settings, "index"),
        retriever=lambda embedder, index: build(settings, "retriever", embedder=embedder, index=index),
        store=lambda: build(settings, "store"),
    )
    around = Surroundings(**plain_value(settings.retrieval))
    return assemble(parts, plain(settings), depth=int(settings.depth), surroundings=around, progress=advance)


def make_collection(settings: Any) -> TestCollection:
    """The collection that settings describe, with its foreign queries.

    Raises:
        RecallError: Settings or a collection that cannot be used.
    """
    collection: TestCollection = build(settings, "collection", without=("foreign_queries",))
    count = plain_value(settings.collection.get("foreign_queries", 0))
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise OptionsError("collection.foreign_queries", count, "an integer of 0 or more")
    return with_foreign_queries(collection, count)
