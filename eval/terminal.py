"""What a person sees in the terminal: tables of results. Text from messages is escaped before it is shown."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

SHOWN_METRICS = ("recall_at_1", "recall_at_5", "recall_at_10", "recall_at_50", "ndcg_at_10", "mrr", "ann_recall_at_10")
SHOWN_CONTEXT = ("evidence_recall", "evidence_all", "context_precision", "context_messages", "context_tokens")
MIN_WIDTH = 100
SHOWN_ROWS = 14


def console() -> Console:
    """stdout, at least 100 columns wide where it is not a terminal, so that tables are not cut."""
    screen = Console(highlight=False)
    if not screen.is_terminal:
        screen.width = max(screen.width, MIN_WIDTH)
    return screen


def printable(text: str) -> str:
    """Text without control, bidi and surrogate characters: each becomes its escape."""
    return "".join(
        char if not unicodedata.category(char).startswith("C") else char.encode("unicode_escape").decode()
        for char in text
    )


def job_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    """Everything to show of one finished job."""
    parts = _sweep_parts(results) if "front" in results else _evaluation_parts(results)
    return [_headline(results), *parts, *latency_parts(results), *map(_warning, results["warnings"])]


def _evaluation_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    return [*_metrics_parts(results), *_types_parts(results)]


def _sweep_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    """The Pareto front with the best row under the budget marked, and the reference's default."""
    budget, best, default = results["budget"]["max_tokens"], results["best"], results["default"]
    shown = _thinned(results["front"], best)
    title = (
        f"Pareto front, evidence recall against tokens: {len(shown)} of its {len(results['front'])} rows, "
        f"from {results['grid']['configurations']:,} configurations"
    )
    table = _table(left=("", *_AXES), right=("evidence", "all", "messages", "tokens"))
    for row in shown:
        mark = "best" if row["configuration"] == best["configuration"] else ""
        table.add_row(mark, *_axes(row["configuration"]), *_context(row["metrics"]), style="bold" if mark else None)
    table.add_section()
    table.add_row("default", *_axes(default["configuration"]), *_context(default["metrics"]))
    sentence = (
        f"Best within {budget:g} tokens: {_knobs(best['configuration'])}: evidence recall "
        f"{_number(best['metrics']['evidence_recall'])} at {_number(best['metrics']['context_tokens'])} tokens. "
        f"The reference's default: {_number(default['metrics']['evidence_recall'])} at "
        f"{_number(default['metrics']['context_tokens'])}. "
        f"Means over {results['counts']['scored_queries']:,} queries; intervals are not computed yet."
    )
    return [_title(title), table, _title(sentence)]


def comparison_parts(jobs: Sequence[Mapping[str, Any]]) -> list[RenderableType]:
    """A multirun: one row per job with the settings that differ and the main figures, then every job's notes."""
    settings = _differing_overrides(jobs)
    headings = ("R@5", "R@10", "nDCG@10", "evidence", "messages", "tokens", "p95 ms")
    table = _table(left=("job", "setting"), right=headings)
    table.columns[1].no_wrap = True
    for number, (job, setting) in enumerate(zip(jobs, settings, strict=True)):
        metrics = {name: entry["value"] for name, entry in job["metrics"].items()}
        names = ("recall_at_5", "recall_at_10", "ndcg_at_10", "evidence_recall", "context_messages", "context_tokens")
        search = (job["timings_ms"].get("search") or {}).get("p95")
        figures = [_number(metrics.get(name)) for name in names]
        table.add_row(str(number), Text(printable(setting)), *figures, _number(search))
    return [_title(f"{len(jobs)} jobs"), table, *map(_warning, _notes(jobs))]


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
    return ["\n".join(text for text in overrides if text not in shared) for overrides in typed]


def latency_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    """Milliseconds by stage."""
    table = _table(left=("stage",), right=("p50", "p95", "p99"))
    for stage, values in results["timings_ms"].items():
        table.add_row(stage, *(_number((values or {}).get(name)) for name in ("p50", "p95", "p99")))
    return [_title("Latency, ms per query"), table]


def key_values(title: str, pairs: Iterable[tuple[str, Any]]) -> list[RenderableType]:
    """Two columns: what, and how much."""
    table = _table(left=("what",), right=("value",))
    table.show_header = False
    table.columns[1].overflow = "fold"
    for key, value in pairs:
        table.add_row(Text(printable(str(key))), Text(printable(_number(value) if value is None else _plain(value))))
    return [_title(printable(title)), table]


def collection_parts(described: Mapping[str, Any]) -> list[RenderableType]:
    """A collection's description: single values, distributions, and what its loader noted."""
    values, spreads = _flat(described), _spreads(described)
    parts = key_values(str(described["name"]), values)
    if spreads:
        headings = list(next(iter(spreads.values())))
        table = _table(left=("what",), right=headings)
        for name, spread in spreads.items():
            table.add_row(name, *(_number(spread[heading]) for heading in headings))
        parts += [_title("Distributions"), table]
    return [*parts, *(Text(f"Note: {printable(note)}") for note in described.get("notes", []))]


def search_parts(found: Mapping[str, Any]) -> list[RenderableType]:
    """Hits with their windows, what joins this thread, the block for other threads, the time of each stage."""
    owner = (
        f"resource {printable(found['resource_id'])}, one of {found['resources']}; searched by {found['searched_by']}"
    )
    title = f"{len(found['hits'])} hits for {printable(found['query'])!r}, {_knobs(found['configuration'])}"
    table = Table(box=SIMPLE_HEAD, show_lines=True, show_edge=False, pad_edge=False)
    table.add_column("rank", justify="right")
    table.add_column("score", justify="right")
    table.add_column("window (the hit is bold)")
    for hit in found["hits"]:
        lines = [_line(message, is_hit=message["message_id"] == hit["message_id"]) for message in hit["window"]]
        table.add_row(str(hit["rank"]), f"{hit['score']:.6f}", Text("\n").join(lines))
    parts: list[RenderableType] = [Text(owner), _title(title), table]
    if found["this_thread"]:
        joined = (_line(message, is_hit=False) for message in found["this_thread"])
        parts += [_title("Added to this thread"), *joined]
    parts.append(_title("Block for other threads" if found["block"] else "Nothing recalled from other threads"))
    parts.append(Text(printable_lines(found["block"])))
    return [*parts, *key_values("Milliseconds", found["timings_ms"].items())]


def printable_lines(text: str) -> str:
    """`printable`, line by line."""
    return "\n".join(printable(line) for line in text.split("\n"))


def _line(message: Mapping[str, Any], *, is_hit: bool) -> Text:
    speaker = message["name"] or message["role"]
    text = f"{message['created_at'][:16]} {speaker}: {message['text']}"
    return Text(printable(text), style="bold" if is_hit else "dim")


def _flat(value: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """(dotted key, value) of nested mappings, without distributions and lists."""
    found: list[tuple[str, Any]] = []
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found += [] if _is_spread(inner) else _flat(inner, f"{prefix}{key}.")
        elif not isinstance(inner, list):
            found.append((f"{prefix}{key}", inner))
    return found


def _spreads(value: Mapping[str, Any], prefix: str = "") -> dict[str, Mapping[str, Any]]:
    """Dotted key to each distribution in nested mappings."""
    found: dict[str, Mapping[str, Any]] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            found |= {f"{prefix}{key}": inner} if _is_spread(inner) else _spreads(inner, f"{prefix}{key}.")
    return found


def _is_spread(value: Mapping[str, Any]) -> bool:
    return "p50" in value


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


def _table(*, left: Sequence[str], right: Sequence[str]) -> Table:
    """An empty table that fits 80 columns: text on the left, figures on the right."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for heading in left:
        table.add_column(heading)
    for heading in right:
        table.add_column(heading, justify="right")
    return table


def _title(text: str) -> Text:
    return Text(f"\n{text}", style="bold")


def _warning(sentence: str) -> Text:
    return Text(f"Note: {printable(sentence)}", style="yellow")


_AXES = ("top_k", "range", "scope", "threshold")


def _headline(results: Mapping[str, Any]) -> Text:
    collection, system = results["collection"], results["system"]
    counts = results["counts"]
    return Text(
        f"{printable(collection['name'])}: {collection['messages']:,} messages, {collection['queries']:,} queries "
        f"({counts['scored_queries']:,} scored) · system {system['system_id']} · "
        f"{counts['queries_by_graph']:,} queries by graph, {counts['queries_by_exact']:,} by exact scan"
    )


def _metrics_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    table = _table(left=("metric",), right=("value", "queries"))
    for name in (*SHOWN_METRICS, *SHOWN_CONTEXT):
        entry = results["metrics"].get(name)
        if entry is not None:
            table.add_row(name, _number(entry["value"]), f"{entry['n']:,}")
    return [_title(_knobs(results["configuration"])), table]


def _types_parts(results: Mapping[str, Any]) -> list[RenderableType]:
    names = ("recall_at_5", "recall_at_10", "ndcg_at_10", "evidence_recall", "context_messages", "context_tokens")
    headings = ("queries", "R@5", "R@10", "nDCG@10", "evidence", "messages", "tokens")
    table = _table(left=("type",), right=headings)
    for kind, metrics in results["by_type"].items():
        queries = max((entry["n"] for entry in metrics.values()), default=0)
        figures = [_number(metrics.get(name, {}).get("value")) for name in names]
        table.add_row(Text(printable(kind)), f"{queries:,}", *figures)
    return [_title("By query type"), table]


def _axes(knobs: Mapping[str, Any]) -> tuple[str, str, str, str]:
    window = knobs["message_range"]
    threshold = "off" if knobs["threshold"] is None else f"{knobs['threshold']:g}"
    return str(knobs["top_k"]), f"{window['before']}/{window['after']}", knobs["scope"], threshold


def _knobs(knobs: Mapping[str, Any]) -> str:
    top_k, window, scope, threshold = _axes(knobs)
    return f"top_k {top_k}, range {window}, {scope} scope, threshold {threshold}"


def _context(metrics: Mapping[str, Any]) -> list[str]:
    return [
        _number(metrics[name]) for name in ("evidence_recall", "evidence_all", "context_messages", "context_tokens")
    ]


def _plain(value: Any) -> str:
    return _number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _number(value: float | None) -> str:
    """Three decimals under 10, one under 1,000, none above; a dash for null."""
    if value is None:
        return "–"
    if abs(value) < 10:
        return f"{value:.3f}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:,.0f}"
