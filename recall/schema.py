"""The records the engine takes and returns: messages, options, hits, results."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from recall.errors import MessageError, OptionsError

Vector = npt.NDArray[np.float32]
"""Shape (dim,), float32, unit length."""
Vectors = npt.NDArray[np.float32]
"""Shape (n, dim), float32, rows of unit length."""
Scores = npt.NDArray[np.float32]
"""Shape (n,), float32, rounded by `recall.scoring`; higher is better."""

ScopeName = Literal["thread", "resource"]
Source = Literal["input", "response", "memory"]
SearchedBy = Literal["exact", "graph"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a thread: the unit that is embedded, retrieved and judged.

    Attributes:
        message_id: Unique in the store.
        thread_id: The conversation it belongs to.
        resource_id: The owner of the thread; nothing is recalled across resources.
        role: "user", "assistant", "system", "tool" or another word the caller uses.
        text: The bare text, without the speaker's name.
        created_at: Aware, UTC.
        name: The speaker, where there is one.
        parts: JSON of a message that has more than text.
        position: 0-based rank in the thread by (created_at, arrival). The store assigns it;
            a message that was never stored has 0.
        source: How the message came into the list: this turn's input or response, or recalled.
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
        """Refuse ids that are empty and times that are not UTC."""
        for name in ("message_id", "thread_id", "resource_id"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise MessageError(f"{name} is {value!r}, expected a non-empty string")
        if not isinstance(self.text, str):
            raise MessageError(f"text of {self.message_id!r} is {type(self.text).__name__}, expected str")
        offset = self.created_at.utcoffset()
        if offset is None or offset.total_seconds() != 0:
            raise MessageError(
                f"created_at of {self.message_id!r} is {self.created_at!r}, expected an aware UTC time; "
                "use datetime.astimezone(datetime.UTC)"
            )


@dataclass(frozen=True, slots=True)
class MessageRange:
    """How many neighbours a hit brings along, in its own thread; both ends are 0 or more."""

    before: int = 1
    after: int = 1

    def __post_init__(self) -> None:
        """Refuse negative, fractional and absurd numbers."""
        for side, value in (("before", self.before), ("after", self.after)):
            if not _is_int(value) or not 0 <= value <= MAX_RANGE:
                raise OptionsError(f"message_range.{side}", value, f"an integer from 0 to {MAX_RANGE}")

    @classmethod
    def of(cls, value: "MessageRange | int | Mapping[str, int]") -> "MessageRange":
        """The range an int (both sides) or a mapping stands for; a missing side keeps its default."""
        if isinstance(value, MessageRange):
            return value
        if isinstance(value, Mapping):
            unknown = sorted(set(map(str, value)) - {"before", "after"})
            if unknown:
                raise OptionsError("message_range", dict(value), "the keys before and after, no others")
            return cls(**value)
        if not _is_int(value) or not 0 <= value <= MAX_RANGE:
            raise OptionsError(
                "message_range", value, f"an integer from 0 to {MAX_RANGE}, or a mapping with before and after"
            )
        return cls(value, value)


MAX_RANGE = 10_000
MAX_TOP_K = 100_000


@dataclass(frozen=True, slots=True, init=False)
class RecallOptions:
    """The four knobs of semantic recall, validated; the reference's defaults.

    Attributes:
        top_k: Hits asked for, 1 or more.
        message_range: Neighbours of each hit.
        scope: "resource" searches every thread of the resource, "thread" only the current one.
        threshold: Hits scoring under it are dropped after top_k, without refill; None is off.
    """

    top_k: int
    message_range: MessageRange
    scope: ScopeName
    threshold: float | None

    def __init__(
        self,
        top_k: int = 4,
        *,
        message_range: MessageRange | int | Mapping[str, int] = 1,
        scope: ScopeName = "resource",
        threshold: float | None = None,
    ) -> None:
        """Validate every option and name the first that is wrong.

        Raises:
            OptionsError: With the option's name, the value and what is allowed.
        """
        if not _is_int(top_k) or not 1 <= top_k <= MAX_TOP_K:
            raise OptionsError("top_k", top_k, f"an integer from 1 to {MAX_TOP_K}")
        if scope not in get_args(ScopeName):
            raise OptionsError("scope", scope, "'thread' or 'resource'")
        if threshold is not None and (not _is_number(threshold) or not math.isfinite(threshold)):
            raise OptionsError("threshold", threshold, "null (off) or a finite number on the retriever's score scale")
        object.__setattr__(self, "top_k", top_k)
        object.__setattr__(self, "message_range", MessageRange.of(message_range))
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "threshold", None if threshold is None else float(threshold))

    def check_threshold(self, score_range: tuple[float, float]) -> Self:
        """These options, if the threshold lies on a retriever's scale.

        Raises:
            OptionsError: The threshold is outside `score_range`.
        """
        low, high = score_range
        if self.threshold is not None and not low <= self.threshold <= high:
            allowed = "null: this retriever's scores have no absolute scale"
            if low <= high:
                allowed = f"null (off) or a number from {low:g} to {high:g}, the range of this retriever's scores"
            raise OptionsError("threshold", self.threshold, allowed)
        return self


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Who is speaking where.

    Attributes:
        thread_id: The current thread; None or "" stands for no thread, and nothing is recalled.
        resource_id: The owner; without one nothing is recalled, as nothing could be searched safely.
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


@dataclass(frozen=True, slots=True)
class SearchScope:
    """Where to search: one thread of a resource, or (thread_id None) all of its threads."""

    resource_id: str
    thread_id: str | None = None


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
        context: Hits and neighbours, once each, ordered by (created_at, position, id).
        timings_ms: Milliseconds by stage: embed, search, window.
        searched_by: Whether a graph or an exact scan answered.
        errors: What went wrong where `on_error` is "log"; empty otherwise.
    """

    query: str
    hits: tuple[Hit, ...] = ()
    context: tuple[ContextMessage, ...] = ()
    timings_ms: Mapping[str, float] = field(default_factory=dict, compare=False)
    searched_by: SearchedBy = "exact"
    errors: tuple[str, ...] = ()


def message_order(message: Message) -> tuple[datetime, int, str]:
    """The sort key of every context: (created_at, position, message_id)."""
    return message.created_at, message.position, message.message_id


def utc(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    """An aware UTC time, for callers that write times by hand."""
    return datetime(year, month, day, hour, minute, second, tzinfo=UTC)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
