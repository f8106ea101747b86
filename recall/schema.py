"""The records the engine takes and returns: messages, threads, hits, results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from recall.errors import MessageError

Vector = npt.NDArray[np.float32]
"""Shape (dim,), float32, unit length."""
Vectors = npt.NDArray[np.float32]
"""Shape (n, dim), float32, rows of unit length."""
Scores = npt.NDArray[np.float32]
"""Shape (n,), float32, rounded by `recall.scoring`; higher is better."""

ScopeName = Literal["thread", "resource"]
Source = Literal["input", "response", "context", "memory"]
SearchedBy = Literal["exact", "graph"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a thread: the unit that is embedded, retrieved and judged.

    Attributes:
        message_id: Unique in the store.
        thread_id: The conversation it belongs to.
        resource_id: The owner of the thread; nothing is recalled across resources. "" is no owner: such a message is
            only ever found from within its own thread.
        role: "user", "assistant", "system", "tool" or another word the caller uses.
        text: The bare text, without the speaker's name; what is embedded.
        created_at: Aware, UTC.
        name: The speaker, where there is one.
        parts: JSON of a message that has more than text: an array of parts, in order; see `recall.parts`.
        position: 0-based rank in the thread by (created_at, arrival). The store assigns it;
            a message that was never stored has 0.
        source: How the message came into the list: this turn's input or response, context the caller adds for the
            model alone, or recalled.
    """

    message_id: str
    thread_id: str
    resource_id: str
    role: str
    text: str
    created_at: datetime
    name: str | None = None
    parts: str | None = None
    position: int = 0
    source: Source = field(default="input", compare=False)

    def __post_init__(self) -> None:
        """Refuse ids that are empty, times that are not UTC, and values of another type."""
        for name in ("message_id", "thread_id", "resource_id"):
            value = getattr(self, name)
            if not isinstance(value, str) or not (value or name == "resource_id"):
                raise MessageError(f"{name} is {value!r}, expected a non-empty string")
        for name, value in (("role", self.role), ("text", self.text), ("name", self.name), ("parts", self.parts)):
            if not isinstance(value, str) and (value is not None or name in {"role", "text"}):
                raise MessageError(f"{name} of {self.message_id!r} is {type(value).__name__}, expected str")
        offset = self.created_at.utcoffset() if isinstance(self.created_at, datetime) else None
        if offset is None or offset:
            raise MessageError(
                f"created_at of {self.message_id!r} is {self.created_at!r}, expected an aware UTC time; "
                "use datetime.astimezone(datetime.UTC)"
            )


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation of a resource.

    Attributes:
        thread_id: Unique within its resource.
        resource_id: The owner; "" is none.
        metadata: What the application knows of the conversation, JSON values by name; recall can filter by it.
    """

    thread_id: str
    resource_id: str
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who is speaking where.

    Attributes:
        thread_id: The current thread; None or "" stands for no thread, and a processor does nothing.
        resource_id: The owner. Without one, only the current thread is searched.
        read_only: Recall may read; nothing is written.
    """

    thread_id: str | None = None
    resource_id: str | None = None
    read_only: bool = False

    def __post_init__(self) -> None:
        """Refuse ids that are not strings."""
        for name in ("thread_id", "resource_id"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise MessageError(f"{name} of the request context is {value!r}, expected a string or None")

    @classmethod
    def of(cls, value: "RequestContext | Mapping[str, Any] | None") -> "RequestContext":
        """The context a mapping stands for; None is a context without a thread.

        A mapping has `thread_id`, `resource_id` and `read_only`, or the reference's `{"thread": {"id": ...},
        "resourceId": ..., "memoryConfig": {"readOnly": ...}}`; keys of either that are missing keep their default.

        Raises:
            MessageError: Not such a mapping, or an id that is not a string.
        """
        if isinstance(value, RequestContext):
            return value
        if value is None:
            return cls()
        if not isinstance(value, Mapping):
            raise MessageError(f"request context is {value!r}, expected a RequestContext, a mapping or None")
        thread, config = value.get("thread"), value.get("memoryConfig")
        for name, part in (("thread", thread), ("memoryConfig", config)):
            if part is not None and not isinstance(part, Mapping):
                raise MessageError(f"{name} of the request context is {part!r}, expected a mapping")
        return cls(
            thread_id=value.get("thread_id") if thread is None else thread.get("id"),
            resource_id=value.get("resource_id", value.get("resourceId")),
            read_only=bool(value.get("read_only") if config is None else config.get("readOnly")),
        )


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where to search.

    Attributes:
        resource_id: The owner of everything searched.
        thread_id: The one thread searched; None for all of the resource's.
        thread_ids: Of these, the only threads searched; None for no such filter.
    """

    resource_id: str
    thread_id: str | None = None
    thread_ids: frozenset[str] | None = None

    def admits(self, resource_id: str, thread_id: str) -> bool:
        """True where a message of this thread is inside the scope."""
        return (
            resource_id == self.resource_id
            and self.thread_id in (None, thread_id)
            and (self.thread_ids is None or thread_id in self.thread_ids)
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A message found by the search itself.

    Attributes:
        message_id: Which message.
        score: Higher is better; six decimals.
        rank: 1 for the best.
    """

    message_id: str
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """Hits of one search before the threshold, best first.

    Attributes:
        message_ids: Best first; ties by (created_at, position, id).
        scores: float32, same length, never increasing.
        searched_by: Whether a graph or an exact scan answered.
    """

    message_ids: tuple[str, ...]
    scores: Scores
    searched_by: SearchedBy = "exact"


@dataclass(frozen=True, slots=True)
class ContextMessage:
    """One message of the context.

    Attributes:
        message: The message, as stored.
        hit: The hit it is, or None where it is there only as a neighbour.
    """

    message: Message
    hit: Hit | None = None

    @property
    def is_hit(self) -> bool:
        """True where the search itself found the message."""
        return self.hit is not None


@dataclass(frozen=True, slots=True)
class RecallResult:
    """What one recall found, before any text is rendered.

    Attributes:
        query: The text that was searched.
        hits: Best first, after the threshold.
        context: Hits and neighbours, once each, ordered by (created_at, position, id); their source is "memory".
        thread_id: The thread it was asked in, which a block tells from the others.
        block: The messages of other threads as text for a model, as SemanticRecall writes it; "" from the engine.
        timings_ms: Milliseconds by stage: embed, search, window.
        searched_by: Whether a graph or an exact scan answered.
        errors: What went wrong where `on_error` is "log"; empty otherwise.
    """

    query: str
    hits: tuple[Hit, ...] = ()
    context: tuple[ContextMessage, ...] = ()
    thread_id: str | None = None
    block: str = ""
    timings_ms: Mapping[str, float] = field(default_factory=dict, compare=False)
    searched_by: SearchedBy = "exact"
    errors: tuple[str, ...] = ()


def message_order(message: Message) -> tuple[datetime, int, str]:
    """The sort key of every context: (created_at, position, message_id)."""
    return message.created_at, message.position, message.message_id


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    """An aware UTC time, for callers that write times by hand."""
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
