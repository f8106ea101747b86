"""Semantic recall over chat history: the engine, its processors and the records they exchange."""

from recall.engine import RecallEngine
from recall.errors import RecallError
from recall.history import MessageHistory
from recall.opening import open_engine
from recall.options import RecallOptions
from recall.pipeline import Pipeline, abort
from recall.processor import SemanticRecall
from recall.schema import Message, RecallResult, RequestContext, Thread

__all__ = [
    "Message",
    "MessageHistory",
    "Pipeline",
    "RecallEngine",
    "RecallError",
    "RecallOptions",
    "RecallResult",
    "RequestContext",
    "SemanticRecall",
    "Thread",
    "abort",
    "open_engine",
]
