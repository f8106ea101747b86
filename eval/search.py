"""Asking the engine by hand: what one recall finds, as plain data for a person or a program."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from eval.document import configuration_body
from eval.errors import ConfigError
from eval.evaluation import configuration_of
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
    _check_text(text)
    resources = collection.messages["resource_id"].unique().sort().to_list()
    owner = _known("resource", resource_id, resources) or resources[0]
    own = collection.messages.filter(pl.col("resource_id") == owner)
    current = _known("thread", thread_id, own["thread_id"].unique().sort().to_list())
    system.engine.ingest(messages_of(collection, resource_id=owner))
    found = _recall(system, options, text, RequestContext(current, owner))
    return {"collection": collection.name, "resources": len(resources), **found}


def search_store(
    system: System, options: RecallOptions, text: str, *, resource_id: str | None, thread_id: str | None
) -> dict[str, Any]:
    """Recall once from a store that holds messages, and report as `search_collection` does.

    Args:
        system: Over the store.
        options: The four knobs.
        text: What a user would write.
        resource_id: Whose messages; None takes the only resource there is.
        thread_id: Where it is asked; None is a new thread.

    Raises:
        ConfigError: The resource, or the thread in it, is not in the store, none is named where there are several, or
            the text is blank.
    """
    _check_text(text)
    threads = system.store.threads()
    resources = sorted({thread.resource_id for thread in threads})
    if not resources:
        raise ConfigError("the store holds no messages; put some there with `recall ingest`")
    if resource_id is None and len(resources) > 1:
        raise ConfigError(f"the store has {len(resources)} resources; name one with --resource: {_shown(resources)}")
    owner = _known("resource", resource_id, resources, where="store") or resources[0]
    own = [thread.thread_id for thread in threads if thread.resource_id == owner]
    current = _known("thread", thread_id, own, where="store")
    return {"resources": len(resources), **_recall(system, options, text, RequestContext(current, owner))}


def _check_text(text: str) -> None:
    if not text.strip():
        raise ConfigError("the text to search is blank, expected what a user would write")


def _recall(system: System, options: RecallOptions, text: str, context: RequestContext) -> dict[str, Any]:
    # A new thread has an id that no stored thread has.
    where = context if context.thread_id else replace(context, thread_id="\N{NUL}new thread")
    # A graph is built at the first search; that is no part of a search.
    system.engine.recall(text, options, where)
    result = system.engine.recall(text, options, where)
    report = _report(result, options, context=where)
    if options.scope == "thread" and not context.thread_id:
        report["note"] = "recall.scope is thread and no --thread is named: a new thread has no messages to find"
    return report


def _report(result: RecallResult, options: RecallOptions, *, context: RequestContext) -> dict[str, Any]:
    elsewhere = [item.message for item in result.context if item.message.thread_id != context.thread_id]
    here = [_message(item) for item in result.context if item.message.thread_id == context.thread_id]
    return {
        "query": result.query,
        "resource_id": context.resource_id,
        "configuration": configuration_body(configuration_of(options)),
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


def _known(what: str, wanted: str | None, known: Sequence[str], *, where: str = "collection") -> str | None:
    if wanted is not None and wanted not in known:
        raise ConfigError(f"no {what} {wanted!r} in the {where}, expected one of {_shown(known)}")
    return wanted


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
