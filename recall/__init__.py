"""Semantic recall over chat history: the engine, its processors and the records they exchange."""

from recall.engine import RecallEngine
from recall.errors import RecallError
from recall.history import MessageHistory
from recall.processor import SemanticRecall
from recall.remembered import remembered_block
from recall.schema import ContextMessage, Hit, Message, MessageRange, RecallOptions, RecallResult, RequestContext

__all__ = [
    "ContextMessage",
    "Hit",
    "Message",
    "MessageHistory",
    "MessageRange",
    "RecallEngine",
    "RecallError",
    "RecallOptions",
    "RecallResult",
    "RequestContext",
    "SemanticRecall",
    "remembered_block",
]
