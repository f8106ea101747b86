"""The cheap axes: one point of them, and the grid of a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eval.schema import ScopeName


class Configuration(NamedTuple):
    """One point of the cheap axes.

    Attributes:
        scope: "thread" or "resource".
        top_k: Hits asked for, 1 or more.
        before: Neighbours before each hit, 0 or more.
        after: Neighbours after each hit, 0 or more.
        threshold: Hits scoring under it are dropped; None is off.
        last_messages: The end of the current thread that the model sees anyway, 0 or more messages.
    """

    scope: ScopeName
    top_k: int
    before: int
    after: int
    threshold: float | None
    last_messages: int = 0


@dataclass(frozen=True)
class Grid:
    """The cheap axes of one sweep but for the scope; every combination is a configuration.

    Attributes:
        top_ks: Each 1 or more.
        ranges: (before, after), each 0 or more.
        thresholds: None is off.
        last_messages: Each 0 or more.
    """

    top_ks: Sequence[int]
    ranges: Sequence[tuple[int, int]]
    thresholds: Sequence[float | None]
    last_messages: Sequence[int] = (0,)

    def __len__(self) -> int:
        """Configurations of one scope."""
        return len(self.top_ks) * len(self.ranges) * len(self.thresholds) * len(self.last_messages)

    @classmethod
    def of(cls, knobs: Configuration) -> "Grid":
        """The grid of one configuration."""
        return cls([knobs.top_k], [(knobs.before, knobs.after)], [knobs.threshold], [knobs.last_messages])
