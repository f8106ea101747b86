"""Asking the engine by hand: what one recall finds, as plain data for a person or a program."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from eval.errors import ConfigError
from eval.evaluation import configuration_body
from eval.schema import TestCollection
from eval.system import System, messages_of
from recall.options import MessageRange, RecallOptions
from recall.remembered import remembered_block
from recall.schema import ContextMessage, Hit, RecallResult, RequestContext


def search_collection(
    collection: TestCollection,
    system: System,
    options: RecallOptions,
    text: str,
    *,
    resource_id: str | None,
    thread_id: str | None,
) -> dict[str, Any]:
    """Ingest one resource, recall once, and report hits with their windows, the block and the timings.

    Args:
        collection: Whose messages are searched.
        system: An empty system.
        options: The four knobs.
        text: What a user would write.
        resource_id: Whose messages; None takes the first resource by name.
        thread_id: Where it is asked; None is a new thread.

    Raises:
        ConfigError: The resource, or the thread in it, is not in the collection, or the text is blank.
    """
    if not text.strip():
        raise ConfigError("the text to search is blank, expected what a user would write")
    resources = collection.messages["resource_id"].unique().sort().to_list()
    owner = _known("resource", resource_id, resources) or resources[0]
    own = collection.messages.filter(pl.col("resource_id") == owner)
    current = _known("thread", thread_id, own["thread_id"].unique().sort().to_list())
    system.engine.ingest(messages_of(collection, resource_id=owner))
    # A new thread has an id that no stored thread has.
    context = RequestContext(thread_id=current or "\N{NUL}new thread", resource_id=owner)
    # A graph is built at the first search; that is no part of a search.
    system.engine.recall(text, options, context)
    result = system.engine.recall(text, options, context)
    return _report(result, options, collection=collection.name, context=context, resources=len(resources))


def _report(
    result: RecallResult, options: RecallOptions, *, collection: str, context: RequestContext, resources: int
) -> dict[str, Any]:
    elsewhere = [item.message for item in result.context if item.message.thread_id != context.thread_id]
    here = [_message(item) for item in result.context if item.message.thread_id == context.thread_id]
    return {
        "query": result.query,
        "collection": collection,
        "resource_id": context.resource_id,
        "resources": resources,
        "configuration": configuration_body(options),
        "searched_by": result.searched_by,
        "hits": [_hit(hit, result.context, options.message_range) for hit in result.hits],
        "this_thread": here,
        "block": remembered_block(elsewhere, current_thread_id=context.thread_id),
        "timings_ms": dict(result.timings_ms),
    }


def _hit(hit: Hit, context: Sequence[ContextMessage], window: MessageRange) -> dict[str, Any]:
    """One hit with the messages of its own window, in order."""
    found = next(item.message for item in context if item.hit == hit)
    around = [
        _message(item)
        for item in context
        if item.message.thread_id == found.thread_id
        and found.position - window.before <= item.message.position <= found.position + window.after
    ]
    return {"rank": hit.rank, "score": hit.score, "message_id": hit.message_id, "window": around}


def _message(item: ContextMessage) -> dict[str, Any]:
    message = item.message
    return {
        "message_id": message.message_id,
        "thread_id": message.thread_id,
        "created_at": message.created_at.isoformat(),
        "role": message.role,
        "name": message.name,
        "text": message.text,
        "rank": item.hit.rank if item.hit else None,
    }


def _known(what: str, wanted: str | None, known: Sequence[str]) -> str | None:
    if wanted is not None and wanted not in known:
        shown = ", ".join(known[:10]) + (f" and {len(known) - 10} more" if len(known) > 10 else "")
        raise ConfigError(f"no {what} {wanted!r} in the collection, expected one of {shown}")
    return wanted
