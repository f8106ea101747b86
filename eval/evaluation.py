"""From a collection and a system to results: one configuration, or the whole grid of cheap axes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from eval.choice import best_within, pareto_front
from eval.errors import CollectionError
from eval.grid import Configuration, Grid
from eval.judged import Judged
from eval.metrics.catalogue import context_metrics
from eval.metrics.efficiency import latency
from eval.metrics.ranking import DEFAULT_CUTOFFS, ranking_scores
from eval.metrics.summary import summarise, summarise_by_type
from eval.onepass import FALSE_RECALL, TURN_TOKENS, OnePass
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
NO_EVIDENCE = "no query has evidence, so quality cannot be computed"
LARGEST_CUTOFF = max(DEFAULT_CUTOFFS)


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
    progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """Count the tokens of every message and encode every query.

    Args:
        collection: What is asked, of what.
        system: What answers; it holds the collection's messages already.
        depth: Hits per query.
        progress: Told (done, total) queries encoded.
    """
    # One template for every system, so that costs compare.
    tokens = count_tokens([COUNTED.render(message) for message in messages_of(collection)])
    encoded = encode(collection, system.retriever, progress, query_messages=system.query_messages)
    return Prepared(collection, system, encoded, Judged(collection, tokens), depth)


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
    others = [warning for scope in scopes for warning in _warnings(prepared, retrievals[scope].run)]
    body = measured.body | {
        "warnings": list(dict.fromkeys([*measured.body["warnings"], *others])),
        "grid": _grid_body(grid, scopes, table.height),
        "budget": {"max_tokens": max_tokens},
        "best": _row_body(best),
        "default": _row_body(default_row),
        "front": [_row_body(row) for row in pareto_front(table).iter_rows(named=True)],
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
    per_query = pl.concat([ranking, per_query, found.ann]).sort("metric", "query_id")
    timings = pl.concat([found.run.timings, seen.timings])
    body = _body(prepared, knobs, per_query, found.run, timings)
    return Outcome(body, {"timings": timings, "per_query": per_query})


def _check_agreement(scored: Mapping[str, set[str]], shown: Mapping[str, Sequence[str]]) -> None:
    """What was scored is what the engine shows; it shows nothing of other resources, so a run that leaks differs."""
    for query_id, expected in scored.items():
        if expected != set(shown[query_id]):
            raise RuntimeError(f"the one pass and the engine show different messages for query {query_id!r}")


def relevant_ids(collection: TestCollection) -> dict[str, set[str]]:
    """query_id to its relevant messages, for every query of the collection."""
    found: dict[str, set[str]] = {query_id: set() for query_id in collection.queries["query_id"]}
    relevant = collection.qrels.filter(pl.col("relevance") >= 1)
    for query_id, message_id in relevant.select("query_id", "message_id").iter_rows():
        found[query_id].add(message_id)
    return found


def _body(
    prepared: Prepared, knobs: Configuration, per_query: pl.DataFrame, run: Run, timings: pl.DataFrame
) -> dict[str, Any]:
    collection = prepared.collection
    counts = run.counts | _query_counts(prepared, run)
    return {
        "collection": {
            "name": collection.name,
            "sha256": collection.sha256,
            "messages": collection.messages.height,
            "queries": collection.queries.height,
        },
        "system": {"system_id": prepared.system.system_id, **prepared.system.identity},
        "configuration": configuration_body(knobs),
        "counts": counts,
        "metrics": summarise(_over_scored(per_query, prepared)),
        "by_type": summarise_by_type(per_query, collection.queries),
        "timings_ms": latency(timings),
        "warnings": _warnings(prepared, run),
    }


def _over_scored(per_query: pl.DataFrame, prepared: Prepared) -> pl.DataFrame:
    """The overall means run over queries with evidence, so that quality and cost share a denominator."""
    return per_query.filter(pl.col("query_id").is_in(_scored_ids(prepared)) | pl.col("metric").str.starts_with("ann_"))


def _scored_ids(prepared: Prepared) -> list[str]:
    """Queries with at least one relevant message."""
    pairs = zip(prepared.judged.query_ids, prepared.judged.relevant_count, strict=True)
    return [query_id for query_id, count in pairs if count > 0]


def _query_counts(prepared: Prepared, run: Run) -> dict[str, int]:
    """How many queries are scored, have no answer, lack a judgement, or have all in scope within the cut-offs."""
    queries, qrels = prepared.collection.queries, prepared.collection.qrels
    unjudged = queries.filter("answerable").join(qrels, on="query_id", how="anti")
    scored = _scored_ids(prepared)
    found = run.hits.filter(pl.col("query_id").is_in(scored)).group_by("query_id").len()
    return {
        "scored_queries": len(scored),
        "unanswerable_queries": queries.filter(~pl.col("answerable")).height,
        "unjudged_queries": unjudged.height,
        "exhausted_queries": found.filter(pl.col("len") <= LARGEST_CUTOFF).height,
    }


def _warnings(prepared: Prepared, run: Run) -> list[str]:
    counts = run.counts | _query_counts(prepared, run)
    found = []
    if counts["new_thread_queries"]:
        found.append(
            f"{counts['new_thread_queries']} of {counts['queries']} queries are asked in a new thread, where "
            f"scope={run.scope} finds nothing; they score 0"
        )
    if counts["exhausted_queries"]:
        found.append(
            f"{counts['exhausted_queries']} of {counts['scored_queries']} scored queries have {LARGEST_CUTOFF} "
            f"messages or fewer in {run.scope} scope, and find all of them whatever the ranking"
        )
    if counts["unjudged_queries"]:
        found.append(f"{counts['unjudged_queries']} answerable queries have no judgement and are left out of the means")
    if not counts["scored_queries"]:
        found.append(NO_EVIDENCE)
    return found


def configuration_body(knobs: Configuration) -> dict[str, Any]:
    """The knobs as results.json has them."""
    return {
        "top_k": knobs.top_k,
        "message_range": {"before": knobs.before, "after": knobs.after},
        "scope": knobs.scope,
        "threshold": knobs.threshold,
        "last_messages": knobs.last_messages,
    }


def _row_body(row: dict[str, Any]) -> dict[str, Any]:
    """One row of the sweep table: its configuration and its metrics of context and cost."""
    knobs = Configuration(*(row[name] for name in Configuration._fields))
    metrics = {name: value for name, value in row.items() if name in (*context_metrics(), TURN_TOKENS, FALSE_RECALL)}
    return {"configuration": configuration_body(knobs), "metrics": metrics}


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


def _grid_body(grid: Grid, scopes: Sequence[str], configurations: int) -> dict[str, Any]:
    return {
        "top_k": list(grid.top_ks),
        "message_range": [{"before": before, "after": after} for before, after in grid.ranges],
        "scope": list(scopes),
        "threshold": list(grid.thresholds),
        "last_messages": list(grid.last_messages),
        "configurations": configurations,
    }


def _scoped(run: Run) -> pl.DataFrame:
    return run.hits.with_columns(pl.lit(run.scope).alias("scope"))
