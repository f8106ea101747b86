"""The block for other threads: recalled messages as one text for a model, in one of two styles."""

from collections.abc import Iterable
from typing import Literal

from recall.remembered.labelled import labelled_block, parse_remembered
from recall.remembered.mastra import mastra_block
from recall.schema import Message

BlockStyle = Literal["labelled", "mastra"]

__all__ = ["BlockStyle", "parse_remembered", "remembered_block"]


def remembered_block(
    messages: Iterable[Message],
    *,
    current_thread_id: str | None,
    style: BlockStyle = "labelled",
    show_thread_ids: bool = False,
) -> str:
    """The messages as one block.

    Args:
        messages: In any order.
        current_thread_id: The thread the block is for.
        style: "labelled": one line a message, injection-proof, readable again; see `labelled_block`. "mastra": the
            reference's wording, spacing and merging; see `mastra_block`.
        show_thread_ids: Name each message's thread, in the labelled style; the reference's has no place for it.
    """
    if style == "mastra":
        return mastra_block(messages, current_thread_id=current_thread_id)
    return labelled_block(messages, current_thread_id=current_thread_id, show_thread_ids=show_thread_ids)
