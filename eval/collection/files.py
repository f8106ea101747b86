"""Test collections: built from tables, kept in a folder, known by a hash of their content.

The folder and its files are described in docs/reference/collection-format.md.
"""

import hashlib
import io
import json
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from eval.atomic import atomic_folder, output_errors
from eval.collection.casting import cast_losslessly
from eval.collection.manifest import (
    FORMAT_VERSION,
    MANIFEST_KEYS,
    ManifestFile,
    manifest_bytes,
    manifest_faults,
    read_manifest,
)
from eval.collection.validation import KEYS, SCHEMAS, faults
from eval.errors import CollectionError, OutputError
from eval.schema import TestCollection
from eval.wording import quoted

MANIFEST_FILE = "manifest.yaml"
_ORDER = {**KEYS, "messages": ("resource_id", "thread_id", "position")}
# Columns sorted by name and no spaces: the only JSON of a row.
_CANONICAL = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def build_collection(
    messages: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame, manifest: Mapping[str, Any]
) -> TestCollection:
    """A validated collection: columns cast where nothing is lost, rows sorted, counts and sha256 in the manifest.

    Args:
        messages: The columns of MESSAGES.
        queries: The columns of QUERIES.
        qrels: The columns of QRELS.
        manifest: name, version, licence, language and source; `notes` and further plain values are kept.

    Raises:
        CollectionError: With every fault of the tables and the manifest.
    """
    given = {"messages": messages, "queries": queries, "qrels": qrels}
    tables = {name: cast_losslessly(frame, SCHEMAS[name]) for name, frame in given.items()}
    complete = dict.fromkeys(MANIFEST_KEYS) | {"notes": []} | dict(manifest) | {"format_version": FORMAT_VERSION}
    found = faults(**tables) + manifest_faults(complete)
    if found:
        raise CollectionError(f"collection {quoted(str(manifest.get('name', 'without a name')))}", found)
    complete |= {"counts": _counts(tables), "sha256": collection_sha256(**tables)}
    return _sorted_collection(tables, complete)


def collection_sha256(messages: pl.DataFrame, queries: pl.DataFrame, qrels: pl.DataFrame) -> str:
    """The identity of valid tables, 64 hex digits; the order of rows and columns makes no difference.

    SHA-256 over the lines "messages", "queries" and "qrels", each followed by one line of JSON for each row of
    that table: rows sorted by id, keys sorted, no spaces, UTF-8 unescaped, times in microseconds since 1970.
    """
    digest = hashlib.sha256()
    for name, frame in (("messages", messages), ("queries", queries), ("qrels", qrels)):
        digest.update(f"{name}\n".encode())
        for row in _plain_rows(frame.sort(KEYS[name])):
            digest.update(f"{_CANONICAL.encode(row)}\n".encode())
    return digest.hexdigest()


def write_collection(collection: TestCollection, folder: Path) -> bool:
    """Write the collection to a new folder, whole or not at all; True if anything was written.

    A folder that holds the same content already is left as it is.

    Raises:
        CollectionError: The tables are not those the manifest describes, so they could not be read again.
        OutputError: The folder holds something else, or cannot be written.
    """
    tables = _tables_of(collection)
    if found := _collection_faults(tables, collection.manifest):
        raise CollectionError("the collection to write", found)
    with output_errors(folder):
        if (folder / MANIFEST_FILE).is_file():
            _refuse_other_content(folder, collection.sha256)
            return False
    with atomic_folder(folder) as unfinished:
        checksums = {}
        for name, frame in tables.items():
            buffer = io.BytesIO()
            frame.write_parquet(buffer)
            (unfinished / _file_name(name)).write_bytes(buffer.getvalue())
            checksums[_file_name(name)] = hashlib.sha256(buffer.getvalue()).hexdigest()
        (unfinished / MANIFEST_FILE).write_bytes(manifest_bytes(collection.manifest, checksums))
    return True


def read_collection(folder: Path) -> TestCollection:
    """The validated collection of a folder, rows sorted as TestCollection says.

    Raises:
        CollectionError: With every fault: files that are missing or damaged, faults of the tables, and a
            manifest that does not describe them.
    """
    if fault := _folder_fault(folder):
        raise CollectionError(_what(folder), [fault])
    found: list[str] = []
    described = ManifestFile({}, {})
    tables: dict[str, pl.DataFrame] = {}
    try:
        described = read_manifest(folder / MANIFEST_FILE)
    except CollectionError as error:
        found += error.faults
    for name in SCHEMAS:
        try:
            tables[name] = _read_table(folder / _file_name(name), described.checksums.get(_file_name(name)))
        except CollectionError as error:
            found += error.faults
    if len(tables) == len(SCHEMAS):
        # A manifest that cannot be read is one fault, not one for each of its keys.
        found += faults(**tables) if found else _collection_faults(tables, described.manifest)
    if found:
        raise CollectionError(_what(folder), found)
    return _sorted_collection(tables, described.manifest)


def _folder_fault(folder: Path) -> str | None:
    expected = f"expected a folder with {', '.join(map(_file_name, SCHEMAS))} and {MANIFEST_FILE}"
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    # ValueError: a NUL character in the path.
    except (OSError, ValueError) as error:
        return f"cannot be read: {getattr(error, 'strerror', None) or error}; {expected}"
    return None if is_folder else f"is a file; {expected}"


def _read_table(path: Path, checksum: str | None) -> pl.DataFrame:
    """The frame of a parquet file; one whose bytes are not those recorded is read by another process first."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CollectionError(str(path), [f"{path.name} cannot be read: {error.strerror}"]) from error
    # Polars can abort the whole process on a damaged file, so only bytes known to be whole are trusted.
    if hashlib.sha256(content).hexdigest() != checksum and not _is_parquet(content):
        advice = "it is damaged, cut off or of another format; restore it or make the collection again"
        raise CollectionError(str(path), [f"{path.name} is not readable as parquet ({len(content)} bytes): {advice}"])
    return pl.read_parquet(io.BytesIO(content))


def _is_parquet(content: bytes) -> bool:
    read = "import io, sys, polars; polars.read_parquet(io.BytesIO(sys.stdin.buffer.read()))"
    # -P: a file named polars.py in the current folder is not the library.
    reader = subprocess.run([sys.executable, "-P", "-c", read], input=content, capture_output=True, check=False)
    return reader.returncode == 0


def _collection_faults(tables: Mapping[str, pl.DataFrame], manifest: Mapping[str, Any]) -> list[str]:
    """Faults of the tables and the manifest; where there are none, whether the one describes the other."""
    found = faults(**tables) + manifest_faults(manifest)
    if found:
        return found
    actual = {"counts": _counts(tables), "sha256": collection_sha256(**tables)}
    return [
        f"manifest: {key} is {quoted(str(manifest.get(key)), longest=200)}, the tables have {value}; "
        "they are not the tables it was written for: restore them, or correct the manifest"
        for key, value in actual.items()
        if manifest.get(key) != value
    ]


def _refuse_other_content(folder: Path, sha256: str) -> None:
    advice = "choose another folder or remove this one"
    try:
        held = read_collection(folder).sha256
    except CollectionError as error:
        raise OutputError(f"cannot write {str(folder)!r}: it holds a damaged collection; {advice}") from error
    if held != sha256:
        raise OutputError(
            f"cannot write {str(folder)!r}: it holds another collection (sha256 {held}, not {sha256}); {advice}"
        )


def _sorted_collection(tables: Mapping[str, pl.DataFrame], manifest: dict[str, Any]) -> TestCollection:
    ordered = {name: frame.select(SCHEMAS[name].names()).sort(_ORDER[name]) for name, frame in tables.items()}
    return TestCollection(**ordered, manifest=manifest)


def _tables_of(collection: TestCollection) -> dict[str, pl.DataFrame]:
    return {"messages": collection.messages, "queries": collection.queries, "qrels": collection.qrels}


def _counts(tables: Mapping[str, pl.DataFrame]) -> dict[str, int]:
    messages, queries = tables["messages"], tables["queries"]
    return {
        **{name: frame.height for name, frame in tables.items()},
        "threads": messages["thread_id"].n_unique(),
        "resources": messages["resource_id"].n_unique(),
        "answerable": int(queries["answerable"].sum()),
    }


def _plain_rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    times = [name for name, dtype in frame.schema.items() if isinstance(dtype, pl.Datetime)]
    return frame.with_columns(pl.col(times).dt.epoch("us")).iter_rows(named=True)


def _file_name(table: str) -> str:
    return f"{table}.parquet"


def _what(folder: Path) -> str:
    return f"collection {str(folder)!r}"
