"""What a metric of the context is made of: a description, a definition over sets, and a curve over prefixes.

The definition is for one query and one configuration, in the words of the contract; the curve gives the same for every
query after every number of hits at once. A test holds one to the other, for every metric of this package.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from eval.metrics.base import Metric
from eval.prefixes import Flags, Floats, Prefixes

NO_RELEVANT = "the query has no relevant message"
OWN = "this project"


@dataclass(frozen=True)
class Seen:
    """What one query was shown under one configuration.

    Attributes:
        windows: The messages of each hit's window by the hit, in the order of ranks, at or above the threshold.
        history: The messages the model sees anyway.
        relevant: Messages of relevance 1 or more.
        tokens: Of each message.
        copies: Messages that say the same share a number.
        strangers: Messages of other resources.
    """

    windows: Mapping[str, Set[str]]
    history: Set[str]
    relevant: Set[str]
    tokens: Mapping[str, int]
    copies: Mapping[str, int] = field(default_factory=dict)
    strangers: Set[str] = frozenset()

    @property
    def hits(self) -> Set[str]:
        """The hits."""
        return set(self.windows)

    @property
    def context(self) -> Set[str]:
        """The history and every window."""
        return self.first(len(self.windows))

    @property
    def added(self) -> Set[str]:
        """What recall adds to the history."""
        return self.context - self.history

    def first(self, count: int) -> Set[str]:
        """The history and the windows of the first hits."""
        return set(self.history).union(*list(self.windows.values())[:count])

    def cost(self, messages: Set[str]) -> int:
        """Tokens of some messages together."""
        return sum(self.tokens[message_id] for message_id in messages)


class Curve(NamedTuple):
    """One metric of every query after every number of hits.

    Attributes:
        values: Shape (queries, depth + 1), or (queries, 1) where hits change nothing; column n is after n hits.
        defined: Where there is a value; it broadcasts to the shape of `values`. None is everywhere.
    """

    values: Floats
    defined: Flags | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextMetric(Metric):
    """A metric of the context; a module of this package lists its own as `METRICS`.

    Attributes:
        of_query: Its definition, for one query.
        curve: The same for every query after every number of hits.
    """

    of_query: Callable[[Seen], float | None]
    curve: Callable[[Prefixes], Curve]


def share_of_relevant(count: Callable[[Prefixes], Floats]) -> Callable[[Prefixes], Curve]:
    """The curve of something counted among the relevant messages, divided by their number."""

    def curve(prefixes: Prefixes) -> Curve:
        return Curve(count(prefixes) / prefixes.relevant.clip(1), prefixes.has_evidence)

    return curve


__all__ = ["NO_RELEVANT", "OWN", "ContextMetric", "Curve", "Flags", "Floats", "Prefixes", "Seen", "share_of_relevant"]
