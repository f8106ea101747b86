"""View of what was put into a store."""

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType

from eval.terminal.screen import key_values


def ingestion_parts(done: Mapping[str, Any]) -> list[RenderableType]:
    """What became of the messages read, and what the store holds now."""
    held = {**done["held"], "index": done["index"], "embedder": done["embedder"]}
    return [*key_values("Messages", done["messages"].items()), *key_values(str(done["store"]), held.items())]
