"""View of a test collection's description."""

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from eval.terminal.screen import figure, figures_table, key_values, printable, title


def collection_parts(described: Mapping[str, Any]) -> list[RenderableType]:
    """A collection's description: single values, distributions, and what its loader noted."""
    values, spreads = _flat(described), _spreads(described)
    parts = key_values(str(described["name"]), values)
    if spreads:
        headings = list(next(iter(spreads.values())))
        table = figures_table(left=("what",), right=headings)
        for name, spread in spreads.items():
            table.add_row(name, *(figure(spread[heading]) for heading in headings))
        parts += [title("Distributions"), table]
    return [*parts, *(Text(f"Note: {printable(note)}") for note in described.get("notes", []))]


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """(dotted key, value) of nested mappings, without distributions and lists."""
    found: list[tuple[str, Any]] = []
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found += [] if _is_spread(inner) else _flat(inner, f"{prefix}{key}.")
        elif not isinstance(inner, list):
            found.append((f"{prefix}{key}", inner))
    return found


def _spreads(value: Mapping[str, Any], prefix: str = "") -> dict[str, Mapping[str, Any]]:
    """Dotted key to each distribution in nested mappings."""
    found: dict[str, Mapping[str, Any]] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found |= {f"{prefix}{key}": inner} if _is_spread(inner) else _spreads(inner, f"{prefix}{key}.")
    return found


def _is_spread(value: Mapping[str, Any]) -> bool:
    return "p50" in value
