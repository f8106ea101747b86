"""What can be chosen of a generated collection, checked before anything is made."""

from dataclasses import asdict, dataclass
from typing import Any, get_args

from eval.synthetic.bank import Language
from eval.synthetic.placement import WASTED_PER_THREAD
from eval.synthetic.plan import messages_needed
from recall.errors import OptionsError

MAX_QUERIES_PER_RESOURCE = 50
"""Beyond it the phrase bank has too few topics to ask for every fact once only."""
RANGES = {
    "resources": (1, 10_000),
    "threads_per_resource": (2, 1_000),
    "messages_per_thread": (8, 1_000),
    "queries_per_resource": (1, MAX_QUERIES_PER_RESOURCE),
    "seed": (0, 2**63 - 1),
}
"""Smallest and largest value of every number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The arguments of `generate`, valid.

    Raises:
        OptionsError: With the setting's name, the value and what is allowed.
    """

    resources: int
    threads_per_resource: int
    messages_per_thread: int
    queries_per_resource: int
    language: str
    seed: int
    name: str | None

    def __post_init__(self) -> None:
        """Refuse what cannot be generated."""
        for field, (low, high) in RANGES.items():
            value = getattr(self, field)
            if type(value) is not int or not low <= value <= high:
                raise OptionsError(field, value, f"an integer from {low} to {high}")
        if self.language not in get_args(Language):
            raise OptionsError("language", self.language, " or ".join(map(repr, get_args(Language))))
        if self.name is not None and not (isinstance(self.name, str) and self.name.strip()):
            raise OptionsError(
                "name", self.name, "a text that is not empty, or null for one made from language and seed"
            )
        if self.queries_per_resource > (most := self._most_queries()):
            size = f"{self.threads_per_resource} threads of {self.messages_per_thread} messages"
            raise OptionsError("queries_per_resource", self.queries_per_resource, f"at most {most} with {size}")

    @property
    def title(self) -> str:
        """The collection's name."""
        return self.name or f"synthetic_{self.language}_{self.seed}"

    def parameters(self) -> dict[str, Any]:
        """What the content depends on besides the seed."""
        return {key: value for key, value in asdict(self).items() if key not in ("seed", "name")}

    def _most_queries(self) -> int:
        """How many queries of one resource always find room for their evidence."""
        room = self.threads_per_resource * (self.messages_per_thread - WASTED_PER_THREAD)
        counts = range(MAX_QUERIES_PER_RESOURCE, 0, -1)
        return next((count for count in counts if messages_needed(count) <= room), 0)
