"""Views of finished jobs: one evaluation, one sweep, a multirun."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from eval.terminal.screen import AXES, axes, figure, figures_table, knobs, note, printable, title

SHOWN_METRICS = ("recall_at_1", "recall_at_5", "recall_at_10", "recall_at_50", "ndcg_at_10", "mrr", "ann_recall_at_10")
SHOWN_CONTEXT = (
    *("evidence_recall", "evidence_all", "rescue_rate", "context_precision", "context_messages", "context_tokens"),
    *("tokens_per_evidence", "newest_first"),
)
SHOWN_HISTORY = ("history_recall", "added_recall", "added_messages", "added_tokens")
MAIN = {
    "R@5": "recall_at_5",
    "R@10": "recall_at_10",
    "nDCG@10": "ndcg_at_10",
    "evidence": "evidence_recall",
    "messages": "context_messages",
    "tokens": "context_tokens",
}
"""Column heading to metric, where a row is a job or a query type."""
SHOWN_ROWS = 14


def job_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    """Everything to show of one finished job."""
    parts = _sweep_parts(results) if "front" in results else _evaluation_parts(results)
    return [_headline(results), *parts, *latency_parts(results), *map(note, results["warnings"])]


def comparison_parts(jobs: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """A multirun: one row per job with the settings that differ and the main figures, then every job's notes."""
    has_choice = any("best" in job for job in jobs)
    left = ("job", "setting", *(["best"] if has_choice else []))
    table = figures_table(left=left, right=(*MAIN, "p95 ms"))
    for column in table.columns[1 : len(left)]:
        column.no_wrap = True
    for number, (job, setting) in enumerate(zip(jobs, _differing_overrides(jobs), strict=True)):
        choice = [" ".join(axes(job["configuration"]))] if has_choice else []
        search = (job["timings_ms"].get("search") or {}).get("p95")
        table.add_row(str(number), Text(setting), *choice, *_main(job["metrics"]), figure(search))
    return [title(f"{len(jobs)} jobs"), table, *map(note, _notes(jobs))]


def _headline(results: Mapping[str, Any]) -> Text:
    collection, system = results["collection"], results["system"]
    counts = results["counts"]
    return Text(
        f"{printable(collection['name'])}: {collection['messages']:,} messages, {collection['queries']:,} queries "
        f"({counts['scored_queries']:,} scored) · system {system['system_id']} · "
        f"{counts['queries_by_graph']:,} queries by graph, {counts['queries_by_exact']:,} by exact scan"
    )


def _evaluation_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    return [*_metrics_parts(results), *_types_parts(results), *_abstention_parts(results), *_cost_parts(results)]


def _sweep_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    """The Pareto front with the best row under the budget marked, and the reference's default."""
    budget, best, default = results["budget"]["max_tokens"], results["best"], results["default"]
    shown = _thinned(results["front"], best)
    heading = (
        f"Pareto front, evidence recall against tokens: {len(shown)} of its {len(results['front'])} rows, "
        f"from {results['grid']['configurations']:,} configurations"
    )
    table = figures_table(left=("", *AXES), right=("evidence", "all", "messages", "tokens"))
    for row in shown:
        mark = "best" if row["configuration"] == best["configuration"] else ""
        table.add_row(mark, *axes(row["configuration"]), *_context(row["metrics"]), style="bold" if mark else None)
    table.add_section()
    table.add_row("default", *axes(default["configuration"]), *_context(default["metrics"]))
    sentence = (
        f"Best within {budget:g} tokens: {knobs(best['configuration'])}: evidence recall "
        f"{figure(best['metrics']['evidence_recall'])} at {figure(best['metrics']['context_tokens'])} tokens. "
        f"The reference's default: {figure(default['metrics']['evidence_recall'])} at "
        f"{figure(default['metrics']['context_tokens'])}. "
        f"Means over {results['counts']['scored_queries']:,} queries; intervals are not computed yet."
    )
    return [title(heading), table, title(sentence)]


def _thinned(front: Sequence[Mapping[str, Any]], best: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """About SHOWN_ROWS rows of a front ordered by tokens, evenly apart on a logarithmic scale; always with the best."""
    tokens = [max(row["metrics"]["context_tokens"], 1.0) for row in front]
    step = (tokens[-1] / tokens[0]) ** (1 / SHOWN_ROWS)
    kept: list[Mapping[str, Any]] = []
    next_tokens = 0.0
    for row, cost in zip(front, tokens, strict=True):
        if cost >= next_tokens or row["configuration"] == best["configuration"] or row is front[-1]:
            kept.append(row)
            next_tokens = max(next_tokens, cost * step)
    return kept


def _metrics_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    table = figures_table(left=("metric",), right=("value", "queries"))
    has_history = results["configuration"]["last_messages"] > 0
    for name in (*SHOWN_METRICS, *SHOWN_CONTEXT, *(SHOWN_HISTORY if has_history else ())):
        entry = results["metrics"].get(name)
        if entry is not None:
            table.add_row(name, figure(entry["value"]), f"{entry['n']:,}")
    return [title(knobs(results["configuration"])), table]


def _types_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    table = figures_table(left=("type",), right=("queries", *MAIN))
    for kind, metrics in results["by_type"].items():
        queries = max((entry["n"] for entry in metrics.values()), default=0)
        table.add_row(Text(printable(kind)), f"{queries:,}", *_main(metrics))
    return [title("By query type"), table]


def _abstention_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    """Each class of queries without an answer: can a threshold on the top score tell it from the others?"""
    if not results["abstention"]:
        return []
    table = figures_table(left=("without an answer",), right=("queries", "AUROC", "95 %", "false recall"))
    sentences = []
    for kind, found in results["abstention"].items():
        area = found["auroc"] or {"value": None, "low": None, "high": None}
        interval = "–" if area["low"] is None else f"{area['low']:.2f} to {area['high']:.2f}"
        rate = figure(found["false_recall_rate"])
        table.add_row(Text(printable(kind)), f"{found['queries']:,}", figure(area["value"]), interval, rate)
        sentences.append(Text(f"{printable(kind)}: {found['verdict']}"))
    return [title("Abstention, by the score of the best hit"), table, *sentences]


def _cost_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    cost = results["cost"]
    if cost["per_month"] is None:
        return []
    return [
        title(
            f"Cost: {figure(cost['tokens_per_turn'])} tokens a turn over all queries; {cost['per_month']:,.2f} a month "
            f"at {cost['turns_per_month']:,.0f} turns and {cost['price_per_million_tokens']:g} per million tokens"
        )
    ]


def latency_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    """Milliseconds by stage."""
    table = figures_table(left=("stage",), right=("p50", "p95", "p99"))
    for stage, values in results["timings_ms"].items():
        table.add_row(stage, *(figure((values or {}).get(name)) for name in ("p50", "p95", "p99")))
    return [title("Latency, ms per query"), table]


def _main(metrics: Mapping[str, Any]) -> list[str]:
    return [figure(metrics.get(name, {}).get("value")) for name in MAIN.values()]


def _context(metrics: Mapping[str, Any]) -> list[str]:
    return [figure(metrics[name]) for name in ("evidence_recall", "evidence_all", "context_messages", "context_tokens")]


def _notes(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each different note once, with the jobs it is about."""
    about: dict[str, list[int]] = {}
    for number, job in enumerate(jobs):
        for warning in job["warnings"]:
            about.setdefault(warning, []).append(number)
    return [f"jobs {', '.join(map(str, numbers))}: {warning}" for warning, numbers in about.items()]


def _differing_overrides(jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Each job's overrides without those that all jobs share."""
    typed = [job["manifest"]["overrides"] for job in jobs]
    shared = set.intersection(*map(set, typed)) if typed else set()
    return ["\n".join(printable(text) for text in overrides if text not in shared) for overrides in typed]
