"""What every metric says of itself, for tables and for the reference page."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """The description of one metric; a metric module lists its own as `METRICS`.

    Attributes:
        name: As it appears in results: lower case, no "@" (MLflow refuses it).
        title: As a person would write it.
        definition: One sentence; for one query, before any mean.
        high: The largest value; None where there is no bound.
        low: The smallest value.
        higher_is_better: False for costs.
        null_when: When a query has no value; such queries are left out of the mean and of its n.
        source: Where the definition comes from.
    """

    name: str
    title: str
    definition: str
    null_when: str
    source: str
    high: float | None = 1.0
    low: float = 0.0
    higher_is_better: bool = True

    @property
    def value_range(self) -> str:
        """The values it can take, as an interval: "[0, 1]", or "[0, ∞)" where there is no bound."""
        return f"[{self.low:g}, ∞)" if self.high is None else f"[{self.low:g}, {self.high:g}]"
