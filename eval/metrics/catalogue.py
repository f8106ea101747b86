"""Every metric there is, found by looking through this package and those in it."""

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import MappingProxyType

import eval.metrics as package
from eval.metrics.base import Metric
from eval.metrics.context.base import ContextMetric
from recall.errors import InputError


@cache
def catalogue() -> Mapping[str, Metric]:
    """Metric by name, ordered by module and then as the module lists them.

    A module of `eval.metrics` takes part by having `METRICS`, a tuple of `Metric`.

    Raises:
        InputError: Two modules describe a metric of the same name.
    """
    found: dict[str, Metric] = {}
    modules = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    for name in sorted(info.name for info in modules):
        for metric in getattr(import_module(name), "METRICS", ()):
            if metric.name in found:
                raise InputError(f"{name} describes the metric {metric.name!r} again; give it its own name")
            found[metric.name] = metric
    return MappingProxyType(found)


@cache
def context_metrics() -> Mapping[str, ContextMetric]:
    """Those of the context, by name, in the same order."""
    return MappingProxyType({name: metric for name, metric in catalogue().items() if isinstance(metric, ContextMetric)})
