"""What can be set, its types and defaults, and how a composed setting becomes plain data or options."""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from eval.config.sentences import named_in, readable_errors
from recall.options import ANY_SCALE, MessageRange, RecallOptions


@dataclass
class RecallSettings:
    """The group `recall`: `recall.options.RecallOptions`, and the end of the thread shown anyway."""

    top_k: int = 4
    message_range: Any = field(default_factory=lambda: {"before": 1, "after": 1})
    scope: str = "resource"
    threshold: float | None = None
    last_messages: int = 0


@dataclass
class SweepSettings:
    """The group `sweep`: lists of values for each cheap axis, and the token budget of the recommended row."""

    top_k: list[int] = field(default_factory=list)
    message_range: list[Any] = field(default_factory=list)
    scope: list[str] = field(default_factory=list)
    threshold: Any = None
    threshold_by_scale: dict[str, Any] = field(default_factory=dict)
    last_messages: list[int] = field(default_factory=lambda: [0])
    max_tokens: float = 500.0


@dataclass
class RetrievalSettings:
    """What is searched, and with what words, whatever the retriever; see `eval.system.Surroundings`."""

    roles: list[str] | None = None
    since: str | None = None
    until: str | None = None
    half_life_days: float | None = None
    query_messages: int = 1


@dataclass
class CostSettings:
    """What tokens cost; see `eval.document.Price`."""

    price_per_million_tokens: float = 1.0
    turns_per_month: float = 10_000.0


@dataclass
class Settings:
    """Everything a command can be told."""

    collection: Any = MISSING
    embedder: Any = MISSING
    index: Any = MISSING
    retriever: Any = MISSING
    store: Any = MISSING
    tracking: Any = MISSING
    retrieval: RetrievalSettings = field(default_factory=RetrievalSettings)
    cost: CostSettings = field(default_factory=CostSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)
    depth: int = 100
    runs_dir: str = "runs"


DESTINATION = ("runs_dir", "tracking")
"""Settings that say where results go, not what was measured; a tracking URI may hold a password."""


def register_types() -> None:
    """Tell Hydra the types, under the name that config.yaml begins with."""
    ConfigStore.instance().store("settings", Settings)


def recall_options(settings: DictConfig) -> RecallOptions:
    """The configuration of `recall eval`.

    Raises:
        OptionsError: Naming the setting, the value and what is allowed.
    """
    knobs = settings.recall
    with named_in("recall"):
        return RecallOptions(
            knobs.top_k,
            message_range=MessageRange.of(plain_value(knobs.message_range)),
            scope=knobs.scope,
            threshold=knobs.threshold,
            score_range=ANY_SCALE,  # the retriever says later what its own is
        )


def plain(settings: DictConfig) -> dict[str, Any]:
    """The composed settings as plain data, without those of DESTINATION."""
    with readable_errors():
        data = OmegaConf.to_container(settings, resolve=True)
    assert isinstance(data, dict)
    return {str(key): value for key, value in data.items() if key not in DESTINATION}


def plain_value(value: Any) -> Any:
    """A setting as plain data, whether it is a container or not."""
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
