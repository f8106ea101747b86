"""The parts of results.json: what was measured, of what, with which warnings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from eval.grid import Configuration, Grid
from eval.judged import Judged
from eval.metrics.catalogue import context_metrics
from eval.metrics.ranking import DEFAULT_CUTOFFS
from eval.metrics.summary import Mean, summarise, summarise_by_type
from eval.onepass import FALSE_RECALL, TOKENS_PER_EVIDENCE, TURN_TOKENS
from eval.schema import Run, TestCollection

NO_EVIDENCE = "no query has evidence, so quality cannot be computed"
LARGEST_CUTOFF = max(DEFAULT_CUTOFFS)
FEW_CLUSTERS = 5
FEW_QUERIES = 10
ROW_COLUMNS = (TOKENS_PER_EVIDENCE, TURN_TOKENS, FALSE_RECALL)
"""What a row of a sweep shows besides the metrics of the context."""


@dataclass(frozen=True)
class Price:
    """What the tokens of a context cost.

    Attributes:
        per_million_tokens: In whatever currency; 0 or more.
        turns_per_month: Every turn has its context, whether it needs a memory or not; 0 or more.
    """

    per_million_tokens: float = 1.0
    turns_per_month: float = 10_000.0

    def of(self, turn_tokens: float | None) -> dict[str, float | None]:
        """The cost of a turn and of a month, from the mean tokens of a turn."""
        turn = None if turn_tokens is None else turn_tokens * self.per_million_tokens / 1e6
        return {
            "price_per_million_tokens": self.per_million_tokens,
            "turns_per_month": self.turns_per_month,
            "tokens_per_turn": turn_tokens,
            "per_turn": turn,
            "per_month": None if turn is None else turn * self.turns_per_month,
        }


@dataclass(frozen=True)
class Scored:
    """The queries of a collection that have evidence, and what is known of all of them.

    Attributes:
        collection: The collection.
        judged: The same as arrays.
    """

    collection: TestCollection
    judged: Judged

    @property
    def query_ids(self) -> list[str]:
        """Queries with at least one relevant message."""
        pairs = zip(self.judged.query_ids, self.judged.scored.tolist(), strict=True)
        return [query_id for query_id, is_scored in pairs if is_scored]

    def metrics(self, per_query: pl.DataFrame) -> dict[str, Mean]:
        """Means over the queries with evidence, so that quality and cost share a denominator.

        Of the approximate index and of freshness, over the queries they have a value for.
        """
        ids = self.query_ids
        own = pl.col("query_id").is_in(ids) | pl.col("metric").str.starts_with("ann_")
        found = per_query.filter(own)
        return dict(sorted({**summarise(found), TOKENS_PER_EVIDENCE: self._tokens_per_evidence(found)}.items()))

    def by_type(self, per_query: pl.DataFrame) -> dict[str, dict[str, Mean]]:
        """Means by type of query; null for a type with fewer than 10 queries, which says nothing."""
        sizes = dict(self.collection.queries.group_by("type").len().iter_rows())
        found = summarise_by_type(per_query, self.collection.queries)
        return {
            kind: metrics
            if sizes[kind] >= FEW_QUERIES
            else {name: Mean(value=None, n=entry["n"]) for name, entry in metrics.items()}
            for kind, metrics in found.items()
        }

    def counts(self, run: Run) -> dict[str, int]:
        """How many queries are scored, have no answer, lack a judgement, or have all in scope within the cut-offs."""
        queries, qrels = self.collection.queries, self.collection.qrels
        unjudged = queries.filter("answerable").join(qrels, on="query_id", how="anti")
        pools = self._pools(run)
        return run.counts | {
            "scored_queries": len(self.query_ids),
            "unanswerable_queries": queries.filter(~pl.col("answerable")).height,
            "unjudged_queries": unjudged.height,
            "exhausted_queries": sum(0 < size <= LARGEST_CUTOFF for size in pools),
            "clusters": queries["cluster_id"].n_unique(),
        }

    def without_meaning(self, run: Run) -> list[str]:
        """Metrics that a ranking cannot change: every scored query has no more messages in scope than the cut-off."""
        largest = max(self._pools(run), default=0)
        return [f"{name}_at_{k}" for k in DEFAULT_CUTOFFS if 0 < largest <= k for name in ("recall", "hit", "all")]

    def warnings(self, run: Run) -> Iterator[str]:
        """What a reader should not miss."""
        counts = self.counts(run)
        if counts["new_thread_queries"]:
            yield (
                f"{counts['new_thread_queries']} of {counts['queries']} queries are asked in a new thread, where "
                f"scope={run.scope} finds nothing; they score 0"
            )
        if counts["exhausted_queries"]:
            yield (
                f"{counts['exhausted_queries']} of {counts['scored_queries']} scored queries have {LARGEST_CUTOFF} "
                f"messages or fewer in {run.scope} scope, and find all of them whatever the ranking"
            )
        idle = self.without_meaning(run)
        if idle:
            yield (
                f"{', '.join(idle)} are null in {run.scope} scope: no scored query has more messages than the cut-off"
            )
        if counts["unjudged_queries"]:
            yield f"{counts['unjudged_queries']} answerable queries have no judgement and are left out of the means"
        if counts["clusters"] < FEW_CLUSTERS:
            yield (
                f"only {counts['clusters']} clusters of queries (conversations or resources): too few to say how far "
                "these figures hold for others"
            )
        sizes = self.collection.queries.group_by("type").len().sort("type")
        few = [f"{kind} ({size})" for kind, size in sizes.iter_rows() if size < FEW_QUERIES]
        if few:
            yield f"types with fewer than {FEW_QUERIES} queries have no figures of their own: {', '.join(few)}"
        if not counts["scored_queries"]:
            yield NO_EVIDENCE

    def _pools(self, run: Run) -> list[int]:
        """Messages in scope for each scored query."""
        judged = self.judged
        queries = np.flatnonzero(judged.scored)
        if run.scope == "thread":
            start, stop = judged.history_span
            return [int(size) for size in (stop - start)[queries]]
        order = np.lexsort((judged.created, judged.owner))
        owner, created = judged.owner[order], judged.created[order]
        sizes = []
        for query in queries.tolist():
            own = slice(*np.searchsorted(owner, [judged.asker[query], judged.asker[query] + 1]))
            sizes.append(int(np.searchsorted(created[own], judged.asked[query], side="left")))
        return sizes

    def _tokens_per_evidence(self, per_query: pl.DataFrame) -> Mean:
        """Tokens of all contexts by relevant messages in them."""
        counts = dict(zip(self.judged.query_ids, self.judged.relevant_count.tolist(), strict=True))
        values = {name: frame for (name,), frame in per_query.partition_by("metric", as_dict=True).items()}
        recall, tokens = values.get("evidence_recall"), values.get("context_tokens")
        if recall is None or tokens is None:
            return Mean(value=None, n=0)
        found = sum(value * counts[query_id] for query_id, _, value in recall.drop_nulls().iter_rows())
        return Mean(value=float(tokens["value"].sum()) / found if found else None, n=tokens.height)


def collection_body(collection: TestCollection) -> dict[str, Any]:
    """Which collection, and how large."""
    return {
        "name": collection.name,
        "sha256": collection.sha256,
        "messages": collection.messages.height,
        "queries": collection.queries.height,
    }


def configuration_body(knobs: Configuration) -> dict[str, Any]:
    """The knobs as results.json has them."""
    return {
        "top_k": knobs.top_k,
        "message_range": {"before": knobs.before, "after": knobs.after},
        "scope": knobs.scope,
        "threshold": knobs.threshold,
        "last_messages": knobs.last_messages,
    }


def row_body(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row of the sweep table: its configuration and its metrics of context and cost."""
    knobs = Configuration(*(row[name] for name in Configuration._fields))
    metrics = {name: row[name] for name in (*context_metrics(), *ROW_COLUMNS)}
    return {"configuration": configuration_body(knobs), "metrics": metrics}


def grid_body(grid: Grid, scopes: Sequence[str], configurations: int) -> dict[str, Any]:
    """The axes of a sweep."""
    return {
        "top_k": list(grid.top_ks),
        "message_range": [{"before": before, "after": after} for before, after in grid.ranges],
        "scope": list(scopes),
        "threshold": list(grid.thresholds),
        "last_messages": list(grid.last_messages),
        "configurations": configurations,
    }
