"""The commands, from settings to documents; `eval/cli.py` reads the line and shows what they return."""

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval.building import QUIET_BELOW, make_collection, make_system
from eval.collection import describe, write_collection
from eval.config import (
    compose,
    named_in,
    recall_options,
)
from eval.errors import CollectionError, ConfigError
from eval.ingestion import Ingested, Line, ingest_lines, read_lines
from eval.progress import progress
from eval.runner import RunMaker
from eval.schema import TestCollection
from eval.search import search_collection, search_store
from eval.system import System
from recall.errors import IndexingError
from recall.options import RecallOptions
from recall.schema import RequestContext

DATASETS = Path("datasets")
NOT_OF_A_STORE = ("collection", "store", "tracking", "sweep", "experiment")


def search(text: str, overrides: Sequence[str], *, resource_id: str | None, thread_id: str | None) -> dict[str, Any]:
    """Ask the engine by hand, as a user of `resource_id` would in `thread_id`.

    Raises:
        RecallError: Settings are unusable, or the resource or thread is not in the collection.
    """
    settings = compose(overrides)
    options = recall_options(settings)
    with progress("embedding messages", quiet_below=QUIET_BELOW) as advance:
        system = make_system(settings, advance)
        _check_for_search(system, options)
        collection = make_collection(settings)
        return search_collection(collection, system, options, text, resource_id=resource_id, thread_id=thread_id)


def search_messages(
    text: str, overrides: Sequence[str], store: Path, *, resource_id: str | None, thread_id: str | None
) -> dict[str, Any]:
    """Ask the engine by hand over a store that `recall ingest` or an application has filled.

    Raises:
        RecallError: Settings are unusable, the store does not exist, or the resource or thread is not in it.
    """
    if store.is_dir():
        raise ConfigError(f"{str(store)!r} is a folder, expected the file of a message store")
    if not store.exists():
        raise ConfigError(f"no message store {str(store)!r}; make it with `recall ingest --store {store} FILE`")
    settings = _over_a_store(overrides, store)
    options = recall_options(settings)
    with progress("embedding messages", quiet_below=QUIET_BELOW) as advance:
        system = make_system(settings, advance)
        _check_for_search(system, options)
        found = search_store(system, options, text, resource_id=resource_id, thread_id=thread_id)
    return {"store": str(store), **found}


def ingest_messages(
    source: str | None, store: Path, overrides: Sequence[str], *, context: RequestContext, reindex: bool
) -> dict[str, Any]:
    """Put the messages of a JSON Lines file into a store, made where it is missing; what became of them.

    Args:
        source: The file; "-" reads standard input, None reads nothing.
        store: An SQLite file.
        overrides: Settings, as in `recall eval`.
        context: Thread and resource of lines that name none.
        reindex: Embed again what the store holds and this embedder has not embedded.

    Raises:
        CollectionError: Lines that cannot be read; nothing is written.
        IndexingError: Some messages have no vector; all are stored.
    """
    settings = _over_a_store(overrides, store)
    lines = [] if source is None else _read_lines(source, context)
    with progress("embedding messages", quiet_below=math.inf) as quiet:
        system = make_system(settings, quiet)
    if reindex:
        with progress("embedding again", quiet_below=QUIET_BELOW) as advance:
            system.engine.reindex(advance)
    with progress("ingesting messages", quiet_below=QUIET_BELOW) as advance:
        outcome = ingest_lines(system.engine, lines, advance) if lines else Ingested()
    if outcome.failures:
        raise IndexingError(outcome.failures, "all are stored; run the command again to retry these")
    threads = system.store.threads()
    index = system.engine.index
    return {
        "store": str(store),
        "messages": {
            "read": len(lines),
            "new": outcome.new,
            "changed": outcome.changed,
            "unchanged": outcome.unchanged,
        },
        "held": {
            "messages": len(system.store),
            "threads": len(threads),
            "resources": len({thread.resource_id for thread in threads}),
            "bytes": sum(path.stat().st_size for path in (store, Path(f"{store}-wal")) if path.exists()),
        },
        "index": None if index is None else index.name,
        "embedder": None if index is None else index.space.model_id,
    }


def generate_collection(overrides: Sequence[str], out: Path | None) -> dict[str, Any]:
    """Generate a collection and write it to a folder, `datasets/NAME` by default; its description."""
    collection = make_collection(compose(overrides))
    if out is None and Path(collection.name).name != collection.name:
        raise ConfigError(f"collection.name is {collection.name!r}, expected a plain folder name, or give --out DIR")
    return _written(collection, out or DATASETS / collection.name)


def import_collection(kind: str, path: str, out: Path) -> dict[str, Any]:
    """Turn a foreign file into a collection's folder; its description."""
    return _written(_read(kind, path), out)


def describe_collection(kind: str, path: str) -> dict[str, Any]:
    """Read and validate a collection; its description."""
    return describe(_read(kind, path))


def _check_for_search(system: System, options: RecallOptions) -> None:
    """Refuse what cannot answer a question of one's own."""
    if isinstance(system.retriever, RunMaker):
        raise ConfigError(
            "this retriever answers the queries of a collection only: it knows their judgements or has their run; "
            "search with another one, such as retriever=dense"
        )
    with named_in("recall"):
        options.check_threshold(system.retriever.score_range)


def _over_a_store(overrides: Sequence[str], store: Path) -> Any:
    """Settings of an engine over one SQLite file; exact search for small resources, as a file starts without graphs."""
    for override in overrides:
        group = override.partition("=")[0]
        if group in NOT_OF_A_STORE or group.partition(".")[0] in NOT_OF_A_STORE:
            raise ConfigError(f"--set {override}: --store names the messages, so {group} means nothing here")
    chosen = {override.partition("=")[0] for override in overrides}
    settings = compose(["store=sqlite", *([] if "index" in chosen else ["index=auto"]), *overrides])
    settings.store.path = str(store)
    return settings


def _read_lines(source: str, context: RequestContext) -> list[Line]:
    if source == "-":
        return read_lines("standard input", sys.stdin, context)
    try:
        with Path(source).open(encoding="utf-8-sig") as file:
            return read_lines(source, file, context)
    except UnicodeDecodeError as error:
        raise CollectionError(source, [f"not UTF-8 ({error}), expected JSON Lines in UTF-8"]) from error


def _read(kind: str, path: str) -> TestCollection:
    settings = compose([f"collection={kind}"])
    if "path" not in set(settings.collection):  # "in" alone takes a missing value for an absent key
        raise ConfigError(f"format {kind!r} is generated, not read; use `recall collection generate collection={kind}`")
    settings.collection.path = path
    collection = make_collection(settings)
    return collection


def _written(collection: TestCollection, folder: Path) -> dict[str, Any]:
    write_collection(collection, folder)
    return {**describe(collection), "folder": str(folder)}
