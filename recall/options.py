"""The four knobs of semantic recall, as one frozen and validated record."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Self, TypeGuard, get_args

from recall.errors import OptionsError
from recall.schema import ScopeName

ANY_SCALE = (-inf, inf)
"""Of options that are read before their retriever is known."""
COSINE = (-1.0, 1.0)
"""Smallest and largest score of a dense retriever."""
MAX_RANGE = 10_000
MAX_TOP_K = 100_000


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
        score_range: tuple[float, float] = COSINE,
    ) -> None:
        """Validate every option and name the first that is wrong.

        Args:
            top_k: 1 to 100,000.
            message_range: 0 to 10,000 on each side; an int is both sides.
            scope: "resource" or "thread".
            threshold: None, or a number within `score_range`.
            score_range: The scale of the retriever these options are for; of cosines by default. It is not kept.

        Raises:
            OptionsError: With the option's name, the value and what is allowed.
        """
        if not _is_int(top_k) or not 1 <= top_k <= MAX_TOP_K:
            raise OptionsError("top_k", top_k, f"an integer from 1 to {MAX_TOP_K}")
        if scope not in get_args(ScopeName):
            raise OptionsError("scope", scope, "'thread' or 'resource'")
        _check_threshold(threshold, score_range)
        object.__setattr__(self, "top_k", top_k)
        object.__setattr__(self, "message_range", MessageRange.of(message_range))
        object.__setattr__(self, "scope", scope)
        object.__setattr__(self, "threshold", None if threshold is None else float(threshold))

    def check_threshold(self, score_range: tuple[float, float]) -> Self:
        """These options, if the threshold lies on a retriever's scale.

        Raises:
            OptionsError: The threshold is outside `score_range`.
        """
        _check_threshold(self.threshold, score_range)
        return self

    @classmethod
    def from_mastra(cls, options: Mapping[str, Any] | bool | None) -> Self:
        """The options a `semanticRecall` setting of the reference stands for, by its own rules.

        True, None and an absent `topK`, `messageRange` or `scope` are the defaults. A null `threshold` is 0, not off; a
        missing side of a range object is 0; any scope but "resource" is "thread". Numbers are JavaScript's: 4.0 is 4.

        Raises:
            OptionsError: A value that cannot be used here, or a key that is not one of the four knobs.
        """
        if options is None or options is True:
            return cls()
        if not isinstance(options, Mapping):
            raise OptionsError("semanticRecall", options, "a mapping with topK, messageRange, scope and threshold")
        for key in options:
            if key not in _MASTRA_KEYS:
                raise OptionsError(f"semanticRecall.{key}", options[key], _elsewhere(key))
        top_k, scope = options.get("topK"), options.get("scope")
        return cls(
            4 if top_k is None else _js_number(top_k),
            message_range=_mastra_range(options.get("messageRange")),
            scope="resource" if scope is None or scope == "resource" else "thread",
            threshold=(0.0 if options["threshold"] is None else options["threshold"])
            if "threshold" in options
            else None,
        )


_MASTRA_KEYS = ("topK", "messageRange", "scope", "threshold")
_MASTRA_KEYS_ELSEWHERE = {
    "indexName": "index_name of the engine",
    "embedder": "the embedder of the engine",
    "embedderOptions": "settings of the embedder",
    "filter": "where of SemanticRecall",
    "indexConfig": "settings of the index",
    "vector": "the index of the engine",
    "storage": "the store of the engine",
    "logger": "logger of SemanticRecall",
}


def _elsewhere(key: object) -> str:
    place = _MASTRA_KEYS_ELSEWHERE.get(str(key))
    return f"no such option here: it is {place}" if place else f"no keys but {', '.join(_MASTRA_KEYS)}"


def _mastra_range(value: Any) -> Any:
    if value is None:
        return MessageRange()
    if isinstance(value, Mapping):
        sides = {"before": 0, "after": 0}
        return {**sides, **{side: 0 if given is None else _js_number(given) for side, given in value.items()}}
    return _js_number(value)


def _js_number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_threshold(threshold: object, score_range: tuple[float, float]) -> None:
    if threshold is None:
        return
    low, high = score_range
    allowed = "null: this retriever's scores have no absolute scale"
    if low <= high:
        span = "" if score_range == ANY_SCALE else f" from {low:g} to {high:g}, the range of this retriever's scores"
        allowed = f"null (off) or a number{span}"
    # Comparing finds NaN out too, and infinity where the scale has no end.
    if not _is_number(threshold) or not low <= threshold <= high or not abs(threshold) <= sys.float_info.max:
        raise OptionsError("threshold", threshold, allowed)


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
