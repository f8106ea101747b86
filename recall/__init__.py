"""Semantic recall over chat history: the engine, its processors and the records they exchange."""

from recall.engine import RecallEngine
from recall.errors import RecallError
from recall.history import MessageHistory
from recall.processor import SemanticRecall
from recall.remembered import remembered_block
from recall.options import MessageRange, RecallOptions
from recall.schema import ContextMessage, Hit, Message, RecallResult, RequestContext

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
