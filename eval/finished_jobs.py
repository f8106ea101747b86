"""Finished jobs by their content, so that an interrupted multirun goes on where it stopped.

A job is what was asked (command and settings), of what (the collection's sha256), by what (the system's identity) and
with which code. Equal jobs have equal results but for their timings, so a finished one need not be run again.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from eval.results import RESULTS_FILE, TABLES, read_results, write_run

SOURCES = ("recall", "eval", "configs")
SUFFIXES = (".py", ".yaml", ".json")


@cache
def code_version() -> str:
    """A digest of this project's own sources and configs, 64 hex digits; the same for a checkout and its wheel."""
    here = Path(__file__).resolve().parent
    digest = hashlib.sha256()
    for name in SOURCES:
        # In a wheel, configs lie inside of eval.
        folder = next(each for each in (here.parent / name, here / name) if each.is_dir())
        paths = (path for path in folder.rglob("*") if path.suffix in SUFFIXES)
        for path in sorted(paths, key=lambda path: path.relative_to(folder).parts):
            if name == "eval" and path.relative_to(folder).parts[0] == "configs":
                continue
            digest.update(f"{name}/{path.relative_to(folder).as_posix()}\0".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def job_key(command: str, settings: Mapping[str, Any], collection_sha256: str, system: Mapping[str, Any]) -> str:
    """The identity of a job, 32 hex digits."""
    job = {
        "command": command,
        "settings": settings,
        "collection": collection_sha256,
        "system": system,
        "code": code_version(),
    }
    canonical = json.dumps(job, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class FinishedJobs:
    """A folder with one run directory for each finished job."""

    def __init__(self, folder: Path) -> None:
        """Name the folder, made when the first job is kept."""
        self._folder = folder

    def find(self, key: str) -> tuple[dict[str, Any], dict[str, pl.DataFrame]] | None:
        """The document and tables of a finished job; None where there is none, or a file of it is damaged."""
        held = self._folder / key
        if not (held / RESULTS_FILE).is_file():
            return None
        try:
            tables = {name: pl.read_parquet(held / f"{name}.parquet") for name in TABLES if self._has(held, name)}
            return read_results(held), tables
        except (OSError, ValueError, AssertionError, pl.exceptions.PolarsError):
            return None

    def keep(self, key: str, document: Mapping[str, Any], tables: Mapping[str, pl.DataFrame]) -> None:
        """Keep a job's results; one that is there already is replaced.

        Raises:
            OutputError: The folder cannot be written.
        """
        held = self._folder / key
        if held.exists():
            shutil.rmtree(held)
        held.mkdir(parents=True)
        write_run(held, document, tables)

    def _has(self, held: Path, name: str) -> bool:
        return (held / f"{name}.parquet").is_file()
