"""Whose thread it is, for callers that do not say."""

from recall.errors import MessageError
from recall.protocols import ThreadDirectory
from recall.schema import RequestContext


def owner_of(threads: ThreadDirectory, context: RequestContext) -> str | None:
    """The resource a context speaks for: the one it names, or else the owner of its thread; None where there is none.

    Raises:
        MessageError: It names none, and the thread's id is in use by several.
    """
    if context.resource_id:
        return context.resource_id
    if not context.thread_id:
        return None
    owners = [thread.resource_id for thread in threads.threads(thread_id=context.thread_id)]
    if len(owners) > 1:
        raise MessageError(
            f"thread_id {context.thread_id!r} belongs to {len(owners)} resources and the request context names none; "
            "give its resource_id"
        )
    return owners[0] if owners else None
