"""A run directory: results.json, the tables, and how they come to disk whole or not at all."""

import io
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from eval.atomic import write_bytes

SCHEMA_VERSION = 1
RESULTS_FILE = "results.json"
OF_THE_RUN = ("schema_version", "command", "manifest")
"""What a document has besides what was measured."""
TABLES = ("run", "timings", "per_query", "sweep")


def results(command: str, body: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The document of results.json; its shape is `eval/results.schema.json`."""
    return {"schema_version": SCHEMA_VERSION, "command": command, **body, "manifest": dict(manifest)}


def to_json(document: Any, *, ascii_only: bool = False) -> str:
    """Canonical JSON: two-space indent, keys as given, no NaN, one newline at the end."""
    return json.dumps(_finite(document), ensure_ascii=ascii_only, indent=2, allow_nan=False) + "\n"


def write_run(folder: Path, document: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
    """Write tables first and results.json last, so that a folder with results.json is complete.

    Raises:
        OutputError: A file cannot be written.
    """
    for name, frame in tables.items():
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        write_bytes(folder / f"{name}.parquet", buffer.getvalue())
    write_bytes(folder / RESULTS_FILE, to_json(document).encode())


def discard_unfinished(folder: Path) -> None:
    """Remove the tables of a run that has no results.json."""
    if not (folder / RESULTS_FILE).exists():
        for name in TABLES:
            (folder / f"{name}.parquet").unlink(missing_ok=True)


def read_results(folder: Path) -> dict[str, Any]:
    """The document of a finished run directory."""
    document = json.loads((folder / RESULTS_FILE).read_text(encoding="utf-8"))
    assert isinstance(document, dict)
    return document


def _finite(value: Any) -> Any:
    """The same document with null where a number is not finite."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
