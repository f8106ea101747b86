"""From a group's YAML to the object its `_target_` makes.

The allowed keys and their types are those of the target's signature, so adding an implementation edits nothing here.
"""

import inspect
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, make_dataclass
from importlib import import_module
from typing import Any

from omegaconf import MISSING, DictConfig, OmegaConf

from eval.config.sentences import named_in, readable_errors, unknown_setting, without_value
from eval.errors import ConfigError


def build(settings: DictConfig, group: str, *, without: Collection[str] = (), **parts: Any) -> Any:
    """The object a group's `_target_` makes from its settings and from those of `parts` that it takes.

    A setting that has a `_target_` itself is made first, from its own settings and the same parts. Settings in
    `without` are the caller's to use.

    Raises:
        ConfigError: A key the target does not take, a value of the wrong type, a missing value or target.
    """
    with readable_errors():
        node = settings[group]
    if without and isinstance(node, DictConfig):
        node = OmegaConf.masked_copy(node, [str(name) for name in node if name not in without])
    return _made(group, node, parts)


def _made(group: str, node: Any, parts: Mapping[str, Any]) -> Any:
    target = _locate(group, node)
    taken = inspect.signature(target).parameters
    made = {name: part for name, part in parts.items() if name in taken}
    for name in node:
        inner = node._get_node(name)
        if isinstance(inner, DictConfig) and "_target_" in inner and str(name) in taken:
            made[str(name)] = _made(f"{group}.{name}", inner, parts)
    allowed = _parameters(target, without=made)
    schema = make_dataclass("Schema", [(name, kind, field(default=default)) for name, kind, default in allowed])
    given = {str(key): node._get_node(key) for key in node if key != "_target_" and key not in made}
    for name in given:
        if name not in {known for known, _, _ in allowed}:
            raise ConfigError(unknown_setting(f"{group}.{name}", name, [known for known, _, _ in allowed]))
        if OmegaConf.is_missing(node, name):  # merged, it would silently take the signature's default
            raise ConfigError(without_value(f"{group}.{name}"))
    with readable_errors(group):
        typed = OmegaConf.merge(OmegaConf.structured(schema), OmegaConf.create(given))
        values = OmegaConf.to_container(typed, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    with named_in(group):
        return target(**{str(key): value for key, value in values.items()}, **made)


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
