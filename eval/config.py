"""Settings: the Hydra config groups, their types, and the sentences for what is wrong with them.

A group whose YAML has a `_target_` (collection, embedder, index, retriever, store, tracking) takes its allowed keys
and their types from the signature of that target, so adding an implementation edits nothing here.
"""

import inspect
import os
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, make_dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import ConfigCompositionException, HydraException, MissingConfigException, OverrideParseException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    InterpolationKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

from eval.errors import ConfigError, OutputError
from recall.errors import OptionsError
from recall.schema import MessageRange, RecallOptions

CONFIG_NAME = "config"
RUN_NAME_VARIABLE = "RECALL_RUN_NAME"


@dataclass
class RecallSettings:
    """The group `recall`: see `recall.schema.RecallOptions`, which validates the values."""

    top_k: int = 4
    message_range: Any = field(default_factory=lambda: {"before": 1, "after": 1})
    scope: str = "resource"
    threshold: float | None = None


@dataclass
class SweepSettings:
    """The group `sweep`: lists of values for each cheap axis, and the token budget of the recommended row."""

    top_k: list[int] = field(default_factory=list)
    message_range: list[Any] = field(default_factory=list)
    scope: list[str] = field(default_factory=list)
    threshold: list[Any] = field(default_factory=list)
    max_tokens: float = 500.0


@dataclass
class Settings:
    """Everything a command can be told."""

    collection: Any = MISSING
    embedder: Any = MISSING
    index: Any = MISSING
    retriever: Any = MISSING
    store: Any = MISSING
    tracking: Any = MISSING
    recall: RecallSettings = field(default_factory=RecallSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)
    depth: int = 100
    runs_dir: str = "runs"


ConfigStore.instance().store("settings", Settings)


class RememberMultirun(Callback):
    """Remembers the folder of the last multirun of this process, whatever launcher ran its jobs."""

    folder: Path | None = None

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Keep the folder that holds one sub-folder per job."""
        RememberMultirun.folder = Path(config.hydra.sweep.dir)


def config_folder() -> Path:
    """The folder of YAML files: inside an installed wheel, or beside `eval/` in a checkout."""
    here = Path(__file__).resolve().parent
    for folder in (here / "configs", here.parent / "configs"):
        if (folder / f"{CONFIG_NAME}.yaml").is_file():
            return folder
    raise ConfigError(f"no configs folder beside {here}; reinstall the package")


def run_with_hydra(task: Callable[[DictConfig], None]) -> Path | None:
    """Compose the settings from `sys.argv`, run `task` once or per job of a multirun.

    Returns:
        The folder of the multirun, None for a single run.

    Raises:
        ConfigError: Settings that do not compose.
        OutputError: The run folder cannot be made.
    """
    os.environ["HYDRA_FULL_ERROR"] = "1"  # errors reach our own edge instead of Hydra's printer
    RememberMultirun.folder = None
    failures: list[Exception] = []

    def job(settings: DictConfig) -> None:
        try:
            task(settings)
        except Exception as error:
            if HydraConfig.get().mode is RunMode.MULTIRUN:  # there Hydra's line says which job it was
                raise
            failures.append(error)

    main = hydra.main(version_base="1.3", config_path=str(config_folder()), config_name=CONFIG_NAME)(job)
    try:
        with readable_errors():
            main()
    except OSError as error:
        raise OutputError(
            f"cannot make the run folder {error.filename}: {error.strerror}; "
            "set runs_dir to a folder that can be written"
        ) from error
    if failures:
        raise failures[0]
    return RememberMultirun.folder


def compose(overrides: Sequence[str]) -> DictConfig:
    """Settings from overrides alone, for commands that are not Hydra applications.

    Raises:
        ConfigError: Settings that do not compose.
    """
    with readable_errors(), hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        return hydra.compose(CONFIG_NAME, overrides=[quoted(override) for override in overrides])


def quoted(override: str) -> str:
    """An override as Hydra can read it: its grammar takes letters other than ASCII only in quotes.

    `path=모음` becomes `path='모음'`; alternatives of a multirun are quoted one by one.
    """
    key, sign, value = override.partition("=")
    if not sign or value.isascii() or value[0] in "'\"[{":
        return override
    parts = (part if part.isascii() else "'" + part.replace("'", r"\'") + "'" for part in value.split(","))
    return f"{key}={','.join(parts)}"


def run_folder() -> Path:
    """The folder Hydra made for the running job."""
    return Path(HydraConfig.get().runtime.output_dir)


def job_overrides() -> list[str]:
    """The overrides of the running job, as typed."""
    return [str(text) for text in HydraConfig.get().overrides.task]


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
        )


def plain(settings: DictConfig) -> dict[str, Any]:
    """The composed settings as plain data, without `runs_dir`: where results go is not what was measured."""
    with readable_errors():
        data = OmegaConf.to_container(settings, resolve=True)
    assert isinstance(data, dict)
    return {str(key): value for key, value in data.items() if key != "runs_dir"}


def plain_value(value: Any) -> Any:
    """A setting as plain data, whether it is a container or not."""
    return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value


def build(settings: DictConfig, group: str, **parts: Any) -> Any:
    """The object a group's `_target_` makes from its settings and from `parts` the program supplies.

    Raises:
        ConfigError: A key the target does not take, a value of the wrong type, a missing value or target.
    """
    node = settings[group]
    target = _locate(group, node)
    allowed = _parameters(target, without=parts)
    schema = make_dataclass("Schema", [(name, kind, field(default=default)) for name, kind, default in allowed])
    given = {str(key): node._get_node(key) for key in node if key != "_target_"}
    for name in given:
        if name not in {known for known, _, _ in allowed}:
            raise ConfigError(_unknown(f"{group}.{name}", name, [known for known, _, _ in allowed]))
        if OmegaConf.is_missing(node, name):  # merged, it would silently take the signature's default
            raise ConfigError(_without_value(f"{group}.{name}"))
    with readable_errors(group):
        typed = OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.create(given))
        values = OmegaConf.to_container(typed, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    with named_in(group):
        return target(**{str(key): value for key, value in values.items()}, **parts)


@contextmanager
def readable_errors(prefix: str = "") -> typing.Iterator[None]:
    """Turn Hydra's and OmegaConf's errors into one sentence that says what is allowed."""
    try:
        yield
    except MissingConfigException as error:
        raise ConfigError(_missing_config(error)) from error
    except OverrideParseException as error:
        raise ConfigError(_unreadable(error)) from error
    except ConfigCompositionException as error:
        cause = error.__cause__
        raise ConfigError(_sentence(cause, prefix) if cause else str(error).splitlines()[0]) from error
    except OmegaConfBaseException as error:
        raise ConfigError(_sentence(error, prefix)) from error
    except HydraException as error:
        raise ConfigError(" ".join(str(error).split())) from error


@contextmanager
def named_in(group: str) -> typing.Iterator[None]:
    """Name an option by the setting it comes from: `recall.top_k`, not `top_k`."""
    try:
        yield
    except OptionsError as error:
        raise OptionsError(f"{group}.{error.field}", error.value, error.allowed) from None


def _sentence(error: BaseException, prefix: str) -> str:
    """What an OmegaConf error means for the person who typed the setting."""
    name = str(getattr(error, "full_key", None) or "")
    full_name = ".".join(part for part in (prefix, name) if part)
    if isinstance(error, ValidationError):
        got = f" is {error.value!r}" if error.value is not None else " is null"
        return f"{full_name}{got}, expected {_expected(error)}"
    if isinstance(error, MissingMandatoryValue | InterpolationKeyError):
        return _without_value(full_name)
    if isinstance(error, ConfigKeyError | ConfigAttributeError) and error.parent_node is not None:
        known = [str(key) for key in error.parent_node if key not in ("hydra", "_target_")]
        return _unknown(full_name, str(error.key), known)
    return " ".join(str(error).split())


def _expected(error: OmegaConfBaseException) -> str:
    """The type a field wants, in words."""
    text = str(error.msg or "")
    if "not Optional" in text:
        return "a value, not null"
    for kind, words in (("Integer", "an integer"), ("Float", "a number"), ("bool", "true or false")):
        if kind in text:
            return words
    return f"another type ({text.splitlines()[0]})" if text else "another type"


def _unknown(full_name: str, key: str, known: Sequence[str]) -> str:
    close = get_close_matches(key, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown setting {full_name!r}{hint}; allowed here: {', '.join(sorted(known)) or 'nothing'}"


def _unreadable(error: OverrideParseException) -> str:
    reasons = [line.strip() for line in str(error).splitlines() if re.search(r"\b(missing|input|recognition)\b", line)]
    reason = reasons[0].partition(" expecting {")[0] if reasons else "it does not parse"
    hint = "expected KEY=VALUE, with a value of unusual characters in quotes: KEY='\"VALUE\"'"
    return f"cannot read the override {error.override!r}: {reason}; {hint}"


def _without_value(full_name: str) -> str:
    return f"{full_name} has no value; set it with {full_name}=..."


def _missing_config(error: MissingConfigException) -> str:
    wanted = str(error.missing_cfg_file or "")
    group, _, name = wanted.rpartition("/")
    options = [option for option in error.options or [] if option]
    if not group:
        return f"no config named {wanted!r}"
    close = get_close_matches(name, options, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {group} {name!r}{hint}; allowed: {', '.join(sorted(options)) or 'none'}"


def _locate(group: str, node: Any) -> Callable[..., Any]:
    path = str(node.get("_target_", "")) if isinstance(node, DictConfig) else ""
    module, _, name = path.rpartition(".")
    try:
        target: Callable[..., Any] = getattr(import_module(module), name)
    except (ImportError, ValueError, AttributeError) as error:
        raise ConfigError(f"{group}._target_ is {path!r}, which cannot be imported: {error}") from error
    return target


def _parameters(target: Callable[..., Any], *, without: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """(name, type, default) of what YAML may set; MISSING where there is no default."""
    initialiser = target.__init__ if inspect.isclass(target) else target
    hints = typing.get_type_hints(initialiser)
    found = []
    for name, parameter in inspect.signature(target).parameters.items():
        if name in without:
            continue
        default = MISSING if parameter.default is inspect.Parameter.empty else parameter.default
        found.append((name, _settable(hints.get(name, Any)), default))
    return found


def _settable(hint: Any) -> Any:
    """The type as OmegaConf can check it; Any where it cannot."""
    scalars = {int, float, str, bool}
    if hint in scalars:
        return hint
    arguments = typing.get_args(hint)
    if len(arguments) == 2 and type(None) in arguments and scalars & set(arguments):
        return hint
    return Any
