"""The lists of a sweep's grid, checked value by value, and the thresholds that suit a retriever's scale."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from eval.config import named_in
from recall.errors import OptionsError
from recall.options import ANY_SCALE, RecallOptions

SCALES = {"cosine": (-1.0, 1.0), "unbounded": (0.0, inf), "none": (inf, -inf)}
"""Names of the scales that a retriever's scores can have."""
EVERY = "every"


def axis(name: str, values: Any, checked: Callable[[Any], Any]) -> list[Any]:
    """The distinct values of one axis, in the order given, each validated like the option it stands for.

    Raises:
        OptionsError: Not a list, an empty one, or a value that is not allowed.
    """
    if not isinstance(values, list) or not values:
        raise OptionsError(f"sweep.{name}", values, "a list with at least one value")
    with named_in("sweep"):
        return list(dict.fromkeys(checked(value) for value in values))


@dataclass(frozen=True)
class ThresholdAxis:
    """Thresholds as one list for every scale, or as lists by scale.

    Attributes:
        by_scale: Name of a scale, or "every", to its thresholds.
    """

    by_scale: Mapping[str, list[float | None]]

    @classmethod
    def of(cls, every: Any, by_scale: Mapping[str, Any]) -> "ThresholdAxis":
        """Read the settings `threshold` and `threshold_by_scale`, of which the first counts where it is not null.

        Raises:
            OptionsError: A scale that does not exist, an empty list, or a value that is no threshold.
        """
        if not set(by_scale) <= set(SCALES):
            raise OptionsError("sweep.threshold_by_scale", by_scale, f"lists by scale: {', '.join(SCALES)}")
        lists = by_scale if every is None else {EVERY: every}
        return cls({str(name): axis("threshold", values, _threshold) for name, values in lists.items()})

    def on(self, score_range: tuple[float, float]) -> list[float | None]:
        """The thresholds for a retriever; no threshold where there is no list for its scale.

        Raises:
            OptionsError: A threshold is off the scale.
        """
        name = next((name for name, scale in SCALES.items() if scale == score_range), "")
        levels = self.by_scale.get(EVERY) or self.by_scale.get(name, [None])
        with named_in("sweep"):
            for level in levels:
                RecallOptions(threshold=level, score_range=score_range)
        return levels


def _threshold(value: Any) -> float | None:
    return RecallOptions(threshold=value, score_range=ANY_SCALE).threshold
