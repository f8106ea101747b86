"""The commands, from settings to documents; `eval/cli.py` reads the line and shows what they return."""

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from eval.axes import ThresholdAxis, axis
from eval.collection import describe, write_collection
from eval.config import (
    build,
    check_keys,
    compose,
    job_overrides,
    named_in,
    plain,
    plain_value,
    recall_options,
    run_folder,
)
from eval.document import LARGEST_CUTOFF, NO_EVIDENCE, Price
from eval.errors import CollectionError, ConfigError
from eval.evaluation import Outcome, Prepared, evaluate, prepare, sweep
from eval.foreign_queries import with_foreign_queries
from eval.grid import Grid
from eval.ingestion import Ingested, Line, ingest_lines, read_lines
from eval.progress import progress
from eval.provenance import manifest
from eval.results import discard_unfinished, results, write_run
from eval.schema import TestCollection
from eval.search import search_collection, search_store
from eval.system import Parts, Surroundings, System, assemble
from eval.tokens import TOKENIZER_NAME
from eval.tracking import Tracker
from recall.errors import IndexingError, OptionsError
from recall.history import checked_last_messages
from recall.options import MAX_TOP_K, MessageRange, RecallOptions
from recall.schema import RequestContext, ScopeName

QUIET_BELOW = 200  # so few texts are embedded before anyone wonders
DATASETS = Path("datasets")
NOT_OF_A_STORE = ("collection", "store", "tracking", "sweep", "experiment")


class Finished(NamedTuple):
    """One job that is done.

    Attributes:
        document: What results.json holds.
        folder: Where it is.
        shown_with: How to look at it in the tracking store, if anywhere.
    """

    document: dict[str, Any]
    folder: Path
    shown_with: str | None


class Plan(NamedTuple):
    """What a job will measure, checked before anything is loaded.

    Attributes:
        deepest: The largest top_k.
        check_scale: Raises OptionsError if a threshold is off a retriever's scale.
        measure: The measurement itself.
    """

    deepest: int
    check_scale: Callable[[tuple[float, float]], object]
    measure: Callable[[Prepared], Outcome]


def run_job(command: str, settings: Any) -> Finished:
    """One job of `recall eval` or `recall sweep`; its folder is removed again if nothing came of it.

    Raises:
        RecallError: Settings, collection or system are unusable.
    """
    folder = run_folder()
    try:
        return _run_job(command, settings, folder)
    except BaseException:
        discard_unfinished(folder)
        for each in (folder, folder.parent):
            if each != Path.cwd() and each.is_dir() and not any(each.iterdir()):
                each.rmdir()
        raise


def search(text: str, overrides: Sequence[str], *, resource_id: str | None, thread_id: str | None) -> dict[str, Any]:
    """Ask the engine by hand, as a user of `resource_id` would in `thread_id`.

    Raises:
        RecallError: Settings are unusable, or the resource or thread is not in the collection.
    """
    settings = compose(overrides)
    options = recall_options(settings)
    with progress("embedding messages", quiet_below=QUIET_BELOW) as advance:
        system = _system(settings, advance)
        with named_in("recall"):
            options.check_threshold(system.retriever.score_range)
        collection = _collection(settings)
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
        system = _system(settings, advance)
        with named_in("recall"):
            options.check_threshold(system.retriever.score_range)
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
        system = _system(settings, quiet)
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
    collection = _collection(compose(overrides))
    if out is None and Path(collection.name).name != collection.name:
        raise ConfigError(f"collection.name is {collection.name!r}, expected a plain folder name, or give --out DIR")
    return _written(collection, out or DATASETS / collection.name)


def import_collection(kind: str, path: str, out: Path) -> dict[str, Any]:
    """Turn a foreign file into a collection's folder; its description."""
    return _written(_read(kind, path), out)


def describe_collection(kind: str, path: str) -> dict[str, Any]:
    """Read and validate a collection; its description."""
    return describe(_read(kind, path))


def _run_job(command: str, settings: Any, folder: Path) -> Finished:
    check_keys(settings)
    # Both are read, so that a wrong value is told even where the other command would use it.
    plans = {"eval": _evaluation_plan(settings), "sweep": _sweep_plan(settings)}
    plan = plans[command]
    price = _price(settings.cost)
    depth = _depth(settings, plan.deepest)
    with progress("embedding messages", quiet_below=QUIET_BELOW) as advance:
        system = _system(settings, advance)
        plan.check_scale(system.retriever.score_range)
        collection = _collection(settings)
        if command == "sweep" and not (collection.qrels["relevance"] >= 1).any():
            raise CollectionError(collection.name, [NO_EVIDENCE])
        tracker: Tracker = build(settings, "tracking")
        tracker.check()
        system.ingest(collection)
    with progress("embedding queries", quiet_below=QUIET_BELOW) as advance:
        outcome = plan.measure(prepare(collection, system, depth=depth, price=price, progress=advance))
    cache = {"hits": system.cache.hits, "misses": system.cache.misses}
    origin = manifest(plain(settings), job_overrides(), tokenizer=TOKENIZER_NAME, cache=cache)
    document = results(command, outcome.body, origin)
    write_run(folder, document, outcome.tables)
    return Finished(document, folder, tracker.log(document, folder))


def _evaluation_plan(settings: Any) -> Plan:
    options = recall_options(settings)
    with named_in("recall"):
        last = checked_last_messages(settings.recall.last_messages)

    def check(scale: tuple[float, float]) -> None:
        with named_in("recall"):
            options.check_threshold(scale)

    return Plan(options.top_k, check, lambda prepared: evaluate(prepared, options, last))


def _sweep_plan(settings: Any) -> Plan:
    axes = settings.sweep
    top_ks = axis("top_k", plain_value(axes.top_k), lambda value: RecallOptions(value).top_k)
    windows = axis("message_range", plain_value(axes.message_range), MessageRange.of)
    scopes: list[ScopeName] = axis("scope", plain_value(axes.scope), lambda value: RecallOptions(scope=value).scope)
    histories = axis("last_messages", plain_value(axes.last_messages), checked_last_messages)
    levels = ThresholdAxis.of(plain_value(axes.threshold), plain_value(axes.threshold_by_scale))
    if not 0 < axes.max_tokens < math.inf:
        raise OptionsError("sweep.max_tokens", axes.max_tokens, "a finite number above 0")

    def measure(prepared: Prepared) -> Outcome:
        ranges = [(window.before, window.after) for window in windows]
        thresholds = levels.on(prepared.system.retriever.score_range)
        return sweep(prepared, Grid(top_ks, ranges, thresholds, histories), scopes, axes.max_tokens)

    return Plan(max(top_ks), levels.on, measure)


def _price(settings: Any) -> Price:
    for name in ("price_per_million_tokens", "turns_per_month"):
        if not 0 <= settings[name] < math.inf:
            raise OptionsError(f"cost.{name}", settings[name], "a finite number of 0 or more")
    return Price(settings.price_per_million_tokens, settings.turns_per_month)


def _depth(settings: Any, deepest: int) -> int:
    """Hits per query: the setting, if it reaches the largest cut-off and the largest top_k."""
    least = max(LARGEST_CUTOFF, deepest)
    depth = int(settings.depth)
    if not least <= depth <= MAX_TOP_K:
        raise ConfigError(
            f"depth is {depth}, expected {least} to {MAX_TOP_K}: metrics look at the first {LARGEST_CUTOFF} hits "
            f"and top_k goes up to {deepest}; set depth={least}"
        )
    return depth


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


def _system(settings: Any, advance: Callable[[int, int], None]) -> System:
    parts = Parts(
        embedder=lambda: build(settings, "embedder"),
        index=lambda: build(settings, "index"),
        retriever=lambda embedder, index: build(settings, "retriever", embedder=embedder, index=index),
        store=lambda: build(settings, "store"),
    )
    around = Surroundings(**plain_value(settings.retrieval))
    return assemble(parts, plain(settings), depth=int(settings.depth), surroundings=around, progress=advance)


def _collection(settings: Any) -> TestCollection:
    collection: TestCollection = build(settings, "collection", without=("foreign_queries",))
    count = plain_value(settings.collection.get("foreign_queries", 0))
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise OptionsError("collection.foreign_queries", count, "an integer of 0 or more")
    return with_foreign_queries(collection, count)


def _read(kind: str, path: str) -> TestCollection:
    settings = compose([f"collection={kind}"])
    if "path" not in set(settings.collection):  # "in" alone takes a missing value for an absent key
        raise ConfigError(f"format {kind!r} is generated, not read; use `recall collection generate collection={kind}`")
    settings.collection.path = path
    collection = _collection(settings)
    return collection


def _written(collection: TestCollection, folder: Path) -> dict[str, Any]:
    write_collection(collection, folder)
    return {**describe(collection), "folder": str(folder)}
