"""Composing settings with Hydra: one run, a multirun, or overrides alone."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.utils import get_args_parser
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from eval.config.sentences import readable_errors, unknown_setting
from eval.config.settings import (
    DESTINATION,
    CostSettings,
    RecallSettings,
    RetrievalSettings,
    Settings,
    SweepSettings,
    register_types,
)
from eval.errors import ConfigError, OutputError, UsageError

CONFIG_NAME = "config"
OWN_FLAGS = ("--json", "--debug")


class RememberMultirun(Callback):
    """Remembers the folder of the last multirun of this process, whatever launcher ran its jobs."""

    folder: Path | None = None

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Keep the folder that holds one sub-folder per job."""
        RememberMultirun.folder = Path(config.hydra.sweep.dir)


def config_folder() -> Path:
    """The folder of YAML files: inside an installed wheel, or beside `eval/` in a checkout."""
    here = Path(__file__).resolve().parent.parent
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
    register_types()
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
    except BrokenPipeError:
        raise
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
    register_types()
    with readable_errors(), hydra.initialize_config_dir(str(config_folder()), version_base="1.3"):
        check_groups(overrides)
        settings = hydra.compose(CONFIG_NAME, overrides=[quoted(override) for override in overrides])
    check_keys(settings)
    return settings


def quoted(override: str) -> str:
    """An override as Hydra can read it: its grammar takes letters other than ASCII only in quotes.

    `path=모음` becomes `path='모음'`; alternatives of a multirun are quoted one by one.
    """
    key, sign, value = override.partition("=")
    if not sign or value.isascii() or value[0] in "'\"[{":
        return override
    parts = (part if part.isascii() else "'" + part.replace("'", r"\'") + "'" for part in value.split(","))
    return f"{key}={','.join(parts)}"


def check_flags(words: Sequence[str]) -> None:
    """Refuse a flag that neither Hydra nor this project has.

    Raises:
        UsageError: With the flags there are.
    """
    known = [flag for action in get_args_parser()._actions for flag in action.option_strings]
    for word in words:
        if word.startswith("-") and word.partition("=")[0] not in (*known, *OWN_FLAGS):
            allowed = ", ".join(sorted(flag for flag in (*known, *OWN_FLAGS) if flag.startswith("--")))
            raise UsageError(f"unknown flag {word!r}; allowed: {allowed}")


def check_groups(words: Sequence[str]) -> None:
    """Refuse a group that is given something other than names of its configs.

    Raises:
        ConfigError: With the names there are.
    """
    for word in words:
        group, sign, value = word.partition("=")
        if group == "runs_dir" and not value.strip():
            raise ConfigError(f"runs_dir is {value!r}, expected a folder")
        folder = config_folder() / group
        if (
            sign
            and group.isidentifier()
            and folder.is_dir()
            and not _names_configs(value, optional=group == "experiment")
        ):
            known = ", ".join(sorted(path.stem for path in folder.glob("*.yaml")))
            raise ConfigError(f"{group} is {value!r}, expected one of {known}")


def _names_configs(value: str, *, optional: bool) -> bool:
    names = value.split(",")
    return all(re.fullmatch(r"[A-Za-z_][\w.-]*", name) and (optional or name != "null") for name in names)


def check_keys(settings: DictConfig) -> None:
    """Refuse settings that were added with + and that nothing reads; `build` checks the groups with a target.

    Raises:
        ConfigError: With the settings there are.
    """
    for prefix, node, schema in (
        ("", settings, Settings),
        ("cost.", settings.cost, CostSettings),
        ("recall.", settings.recall, RecallSettings),
        ("retrieval.", settings.retrieval, RetrievalSettings),
        ("sweep.", settings.sweep, SweepSettings),
    ):
        known = [each.name for each in fields(schema)]
        for name in node:
            if name not in known:
                raise ConfigError(unknown_setting(prefix + str(name), str(name), known))


def run_folder() -> Path:
    """The folder Hydra made for the running job."""
    return Path(HydraConfig.get().runtime.output_dir)


def is_multirun() -> bool:
    """True inside a job of a multirun."""
    return HydraConfig.get().mode is RunMode.MULTIRUN


def multirun_name() -> str | None:
    """The name of the multirun that the running job is part of; None for a job alone."""
    return Path(HydraConfig.get().sweep.dir).name if is_multirun() else None


def job_overrides() -> list[str]:
    """The overrides of the running job, as typed, without those of DESTINATION."""
    typed = [str(text) for text in HydraConfig.get().overrides.task]
    return [text for text in typed if not text.lstrip("+~").startswith(DESTINATION)]
