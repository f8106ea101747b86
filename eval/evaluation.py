"""From a collection and a system to results: one configuration, or the whole grid of cheap axes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from eval.choice import best_within, pareto_front
from eval.document import (
    NO_EVIDENCE,
    Price,
    Scored,
    collection_body,
    configuration_body,
    grid_body,
    row_body,
)
from eval.errors import CollectionError
from eval.grid import Configuration, Grid
from eval.judged import Judged
from eval.metrics.abstention import abstention
from eval.metrics.ann import ann_body
from eval.metrics.efficiency import latency
from eval.metrics.freshness import freshness
from eval.metrics.ranking import ranking_scores
from eval.onepass import OnePass
from eval.runner import Retrieval, RunMaker, contexts, encode, retrieve
from eval.schema import Run, TestCollection
from eval.system import System, messages_of
from eval.tokens import count_tokens
from recall.options import ANY_SCALE, RecallOptions
from recall.protocols import EncodedQuery
from recall.schema import ScopeName
from recall.template import TextTemplate

REFERENCE = RecallOptions()
COUNTED = TextTemplate()
DEFAULT_PRICE = Price()


class Outcome(NamedTuple):
    """What a command found, before it is written.

    Attributes:
        body: The parts of results.json that this module knows.
        tables: Name to frame, for the run directory: run, timings, per_query, and sweep where there is one.
    """

    body: dict[str, Any]
    tables: dict[str, pl.DataFrame]


@dataclass(frozen=True)
class Prepared:
    """A collection held by a system, with its queries encoded and its tokens counted."""

    collection: TestCollection
    system: System
    encoded: dict[str, EncodedQuery]
    judged: Judged
    depth: int
    price: Price = DEFAULT_PRICE

    def retrieve(self, scope: ScopeName) -> Retrieval:
        """The run of one scope."""
        retriever = self.system.retriever
        found = retrieve(self.collection, retriever, self.encoded, scope=scope, depth=self.depth)
        if isinstance(retriever, RunMaker):
            return found._replace(run=retriever.make_run(found.run, self.collection))
        return found


def prepare(
    collection: TestCollection,
    system: System,
    *,
    depth: int,
    price: Price = DEFAULT_PRICE,
    progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Count the tokens of every message and encode every query.

    Args:
        collection: What is asked, of what.
        system: What answers; it holds the collection's messages already.
        depth: Hits per query.
        price: Of the tokens of a context.
        progress: Told (done, total) queries encoded.
    """
    # One template for every system, so that costs compare.
    tokens = count_tokens([COUNTED.render(message) for message in messages_of(collection)])
    encoded = encode(collection, system.retriever, progress, query_messages=system.query_messages)
    return Prepared(collection, system, encoded, Judged(collection, tokens), depth, price)


def evaluate(prepared: Prepared, options: RecallOptions, last_messages: int = 0) -> Outcome:
    """Score one configuration.

    Raises:
        RuntimeError: The engine's own threshold and windows give other contexts than were scored.
    """
    knobs = configuration_of(options, last_messages)
    retrieval = prepared.retrieve(knobs.scope)
    measured = _measured(prepared, knobs, retrieval, OnePass(prepared.judged, retrieval.run, Grid.of(knobs)))
    return Outcome(measured.body, {"run": _scoped(retrieval.run), **measured.tables})


def sweep(prepared: Prepared, grid: Grid, scopes: Sequence[ScopeName], max_tokens: float) -> Outcome:
    """Score every configuration of the grid from one retrieval per scope; take the best within a budget.

    The reference's default is a row of the table whether the grid has it or not, and is no candidate unless
    the grid has it.
    """
    default = configuration_of(REFERENCE)
    retrievals = {scope: prepared.retrieve(scope) for scope in dict.fromkeys([*scopes, default.scope])}
    reach = _together(grid, default)
    passes = {scope: OnePass(prepared.judged, found.run, reach) for scope, found in retrievals.items()}
    table = pl.concat([passes[scope].table(grid) for scope in scopes])
    default_row = passes[default.scope].table(Grid.of(default)).row(0, named=True)
    best = best_within(table, max_tokens)
    if best is None:
        raise CollectionError(prepared.collection.name, [NO_EVIDENCE])
    chosen = Configuration(*(best[name] for name in Configuration._fields))
    measured = _measured(prepared, chosen, retrievals[chosen.scope], passes[chosen.scope])
    scored = Scored(prepared.collection, prepared.judged)
    others = [warning for scope in scopes for warning in scored.warnings(retrievals[scope].run)]
    body = measured.body | {
        "warnings": list(dict.fromkeys([*measured.body["warnings"], *others])),
        "grid": grid_body(grid, scopes, table.height),
        "budget": {"max_tokens": max_tokens},
        "best": row_body(best),
        "default": row_body(default_row),
        "front": [row_body(row) for row in pareto_front(table).iter_rows(named=True)],
    }
    runs = pl.concat([_scoped(each.run) for each in retrievals.values()])
    return Outcome(body, {"run": runs, **measured.tables, "sweep": table})


def _measured(prepared: Prepared, knobs: Configuration, found: Retrieval, scores: OnePass) -> Outcome:
    """Everything about one configuration, with its contexts as the engine makes them."""
    options = _options(knobs)
    seen = contexts(prepared.collection, prepared.system.store, found.run, options, knobs.last_messages)
    per_query = scores.per_query(knobs)
    if not per_query.filter(pl.col("metric") == "leaked_messages")["value"].sum():
        _check_agreement(scores.contexts(knobs), seen.message_ids)
    ranking = ranking_scores(found.run.hits, prepared.collection.qrels)
    fresh = freshness(found.run, prepared.collection)
    per_query = pl.concat([ranking, per_query, found.ann, fresh]).sort("metric", "query_id")
    timings = pl.concat([found.run.timings, seen.timings])
    body = _body(prepared, knobs, per_query, found, timings)
    return Outcome(body, {"timings": timings, "per_query": per_query})


def _check_agreement(scored: Mapping[str, set[str]], shown: Mapping[str, Sequence[str]]) -> None:
    """What was scored is what the engine shows; it shows nothing of other resources, so a run that leaks differs."""
    for query_id, expected in scored.items():
        if expected != set(shown[query_id]):
            raise RuntimeError(f"the one pass and the engine show different messages for query {query_id!r}")


def _body(
    prepared: Prepared, knobs: Configuration, per_query: pl.DataFrame, found: Retrieval, timings: pl.DataFrame
) -> dict[str, Any]:
    collection, system, run = prepared.collection, prepared.system, found.run
    scored = Scored(collection, prepared.judged)
    metrics = scored.metrics(per_query)
    for name in scored.without_meaning(run):
        metrics[name] = {"value": None, "n": 0}
    has_any = per_query.filter(pl.col("metric") == "evidence_any").drop_nulls()
    is_found = dict(has_any.select("query_id", pl.col("value") > 0).iter_rows())
    tokens = per_query.filter(pl.col("metric") == "context_tokens")["value"]
    low, high = system.retriever.score_range
    return {
        "collection": collection_body(collection),
        "system": {"system_id": system.system_id, **system.identity},
        "configuration": configuration_body(knobs),
        "counts": scored.counts(run),
        "metrics": metrics,
        "by_type": scored.by_type(per_query),
        "abstention": abstention(run, collection, is_found, has_scale=low < high),
        "ann": ann_body(found.ann),
        "timings_ms": latency(timings),
        "cost": {
            **prepared.price.of(None if tokens.is_empty() else float(tokens.sum()) / tokens.len()),
            "index_bytes": system.index_bytes,
            "build_seconds": found.build_seconds,
            "embedded_texts_per_second": system.cache.texts_per_second,
        },
        "warnings": list(scored.warnings(run)),
    }


def _options(knobs: Configuration) -> RecallOptions:
    return RecallOptions(
        knobs.top_k,
        message_range={"before": knobs.before, "after": knobs.after},
        scope=knobs.scope,
        threshold=knobs.threshold,
        score_range=ANY_SCALE,
    )


def configuration_of(options: RecallOptions, last_messages: int = 0) -> Configuration:
    """The point of the cheap axes that options and a history stand for."""
    window = options.message_range
    return Configuration(options.scope, options.top_k, window.before, window.after, options.threshold, last_messages)


def _together(grid: Grid, knobs: Configuration) -> Grid:
    """The grid with one more configuration in its reach."""
    one = Grid.of(knobs)
    return Grid(
        [*grid.top_ks, *one.top_ks],
        [*grid.ranges, *one.ranges],
        [*grid.thresholds, *one.thresholds],
        [*grid.last_messages, *one.last_messages],
    )


def _scoped(run: Run) -> pl.DataFrame:
    return run.hits.with_columns(pl.lit(run.scope).alias("scope"))
