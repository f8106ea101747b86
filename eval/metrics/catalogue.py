"""Every metric there is, found by looking through this package."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

import eval.metrics as package
from eval.metrics.base import Metric
from recall.errors import InputError


@cache
def catalogue() -> Mapping[str, Metric]:
    """Metric by name, ordered by module and then as the module lists them.

    A module of `eval.metrics` takes part by having `METRICS`, a tuple of `Metric`.

    Raises:
        InputError: Two modules describe a metric of the same name.
    """
    found: dict[str, Metric] = {}
    for module_info in sorted(pkgutil.iter_modules(package.__path__), key=lambda info: info.name):
        module = import_module(f"{package.__name__}.{module_info.name}")
        for metric in getattr(module, "METRICS", ()):
            if metric.name in found:
                raise InputError(f"{module.__name__} describes the metric {metric.name!r} again; give it its own name")
            found[metric.name] = metric
    return MappingProxyType(found)
