"""View of one recall: hits with their windows, the block, the time of each stage."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from eval.terminal.screen import key_values, knobs, printable, printable_lines, title


def search_parts(found: Mapping[str, Any]) -> list[RenderableType]:
    """Hits with their windows, what joins this thread, the block for other threads, the time of each stage."""
    owner = (
        f"resource {printable(found['resource_id'])}, one of {found['resources']}; searched by {found['searched_by']}"
    )
    heading = f"{len(found['hits'])} hits for {printable(found['query'])!r}, {knobs(found['configuration'])}"
    table = Table(box=SIMPLE_HEAD, show_lines=True, show_edge=False, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("score", justify="right")
    table.add_column("window (the hit is bold)")
    for hit in found["hits"]:
        lines = [_line(message, is_hit=message["message_id"] == hit["message_id"]) for message in hit["window"]]
        table.add_row(str(hit["rank"]), f"{hit['score']:.6f}", Text("\n").join(lines))
    parts: list[RenderableType] = [Text(owner), title(heading), table]
    if "note" in found:
        parts.append(Text(f"Note: {found['note']}"))
    if found["this_thread"]:
        joined = (_line(message, is_hit=False) for message in found["this_thread"])
        parts += [title("Added to this thread"), *joined]
    parts.append(title("Block for other threads" if found["block"] else "Nothing recalled from other threads"))
    parts.append(Text(printable_lines(found["block"])))
    return [*parts, *key_values("Milliseconds", found["timings_ms"].items())]


def _line(message: Mapping[str, Any], *, is_hit: bool) -> Text:
    speaker = message["name"] or message["role"]
    text = f"{message['created_at'][:16]} {speaker}: {message['text']}"
    return Text(printable(text), style="bold" if is_hit else "dim")
