"""Every YAML of a config group, for the suite that holds its implementations to their contract.

A test or fixture that asks for `<group>_config` runs once for each file in `configs/<group>`.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

CONFIGS = Path(__file__).parents[2] / "configs"
SUFFIX = "_config"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for name in metafunc.fixturenames:
        if name.endswith(SUFFIX) and (CONFIGS / name.removesuffix(SUFFIX)).is_dir():
            paths = sorted((CONFIGS / name.removesuffix(SUFFIX)).glob("*.yaml"))
            metafunc.parametrize(name, [_parameter(path) for path in paths], scope="module")


@pytest.fixture(scope="session")
def instantiate() -> Callable[..., Any]:
    """Makes what a YAML describes; keyword arguments stand for what the caller supplies."""

    def make(settings: dict[str, Any], **supplied: Any) -> Any:
        module, _, name = settings["_target_"].rpartition(".")
        keys = {key: value for key, value in settings.items() if key != "_target_"}
        return getattr(import_module(module), name)(**keys, **supplied)

    return make


def _parameter(path: Path) -> Any:
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    # What names a model needs weights, and seconds to load them.
    return pytest.param(settings, id=path.stem, marks=[pytest.mark.slow] if "model" in settings else [])
