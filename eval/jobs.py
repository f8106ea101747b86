"""One job of `recall eval` or `recall sweep`: from settings to a run directory."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from eval.axes import ThresholdAxis, axis
from eval.building import QUIET_BELOW, make_collection, make_system
from eval.config import (
    build,
    check_keys,
    is_multirun,
    job_overrides,
    multirun_name,
    named_in,
    plain,
    plain_value,
    recall_options,
    run_folder,
)
from eval.document import LARGEST_CUTOFF, NO_EVIDENCE, Price
from eval.errors import CollectionError, ConfigError
from eval.evaluation import Outcome, Prepared, evaluate, prepare, sweep
from eval.finished_jobs import FinishedJobs, job_key
from eval.grid import Grid
from eval.progress import progress
from eval.provenance import manifest
from eval.results import OF_THE_RUN, discard_unfinished, results, write_run
from eval.system import home
from eval.tokens import TOKENIZER_NAME
from eval.tracking import Tracker
from recall.errors import OptionsError
from recall.history import checked_last_messages
from recall.options import MAX_TOP_K, MessageRange, RecallOptions
from recall.schema import ScopeName


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


def _run_job(command: str, settings: Any, folder: Path) -> Finished:
    check_keys(settings)
    # Both are read, so that a wrong value is told even where the other command would use it.
    plans = {"eval": _evaluation_plan(settings), "sweep": _sweep_plan(settings)}
    plan = plans[command]
    price = _price(settings.cost)
    depth = _depth(settings, plan.deepest)
    with progress("embedding messages", quiet_below=QUIET_BELOW) as advance:
        system = make_system(settings, advance)
        plan.check_scale(system.retriever.score_range)
        collection = make_collection(settings)
        if command == "sweep" and not (collection.qrels["relevance"] >= 1).any():
            raise CollectionError(collection.name, [NO_EVIDENCE])
        tracker: Tracker = build(settings, "tracking")
        tracker.check()
        key = job_key(command, plain(settings), collection.sha256, system.identity)
        finished = FinishedJobs(home() / "jobs")
        done = finished.find(key) if is_multirun() else None
        if done is None:
            system.ingest(collection)
    if done is None:
        with progress("embedding queries", quiet_below=QUIET_BELOW) as advance:
            outcome = plan.measure(prepare(collection, system, depth=depth, price=price, progress=advance))
        body, tables = outcome.body, outcome.tables
    else:
        told = " ".join(job_overrides()) or command
        sys.stderr.write(f"finished before, not measured again: {told} (kept in {home() / 'jobs'})\n")
        held, tables = done
        body = {name: value for name, value in held.items() if name not in OF_THE_RUN}
    cache = {"hits": system.cache.hits, "misses": system.cache.misses, "finished_before": done is not None}
    origin = manifest(plain(settings), job_overrides(), tokenizer=TOKENIZER_NAME, cache=cache)
    document = results(command, body, origin)
    write_run(folder, document, tables)
    if is_multirun() and done is None:
        finished.keep(key, document, tables)
    return Finished(document, folder, tracker.log(document, folder, multirun_name()))


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
