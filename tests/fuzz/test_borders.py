"""Whatever comes in from outside, only errors of the project's own tree come out.

`make test` tries a few hundred inputs, always the same; `make fuzz` tries more than a hundred thousand and counts them.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from fuzz_counts import TRIED
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from eval.collection.manifest import manifest_bytes
from eval.ingestion import read_lines
from eval.loaders.locomo import load_locomo
from eval.loaders.saved import load_saved
from eval.synthetic.generate import generate
from recall.chat_format import message_of, messages_of, to_openai
from recall.errors import RecallError
from recall.options import RecallOptions
from recall.remembered import remembered_block
from recall.schema import RequestContext, Thread
from recall.thread_filter import ThreadFilter

SCALE = float(os.environ.get("FUZZ_SCALE", "1"))
IS_LONG = SCALE > 1
HERE = RequestContext("t", "ann")
LATEST = "9999-12-31T23:59:59-12:00"
"""In UTC it is in the year 10000."""


def examples(count: int) -> settings:
    """So many inputs, times FUZZ_SCALE; the same ones each time in a short run."""
    return settings(
        max_examples=int(count * SCALE),
        deadline=None,
        derandomize=not IS_LONG,
        database=None,
        phases=[Phase.generate] if IS_LONG else [Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def survives(call: Callable[[], Any]) -> Any:
    """The result, or None where the project refused the input in its own words."""
    try:
        return call()
    except RecallError as error:
        assert str(error)
        return None


def _is_key(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return bool(value == value)


def _dumped(value: Any) -> str:
    """The value as a line, in JSON's words where it has any."""
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError):
        return repr(value)


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | str | float) else str(value)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**30), 2**63, float("inf"), float("nan"), -0.0, 1e308, 1.7e12, 4.0])
    | st.floats()
    | st.text(st.characters(), max_size=12)
    | st.sampled_from(["", " ", "\ud800", "\x00", "user", "2024-03-05T09:00:00Z", "2024-03-05", LATEST])
    | st.binary(max_size=4)
    | st.datetimes()
)
NAMES = (
    "message_id", "id", "thread_id", "threadId", "resource_id", "resourceId", "role", "text", "content",
    "name", "parts", "created_at", "createdAt", "tool_calls", "tool_call_id", "type", "toolInvocation",
    "function", "arguments", "state", "metadata", "signal", "format", "topK", "messageRange", "before",
    "after", "scope", "threshold", "filter", "$eq", "$in", "thread", "memoryConfig", "readOnly",
)  # fmt: skip
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3) | SCALARS.filter(_is_key), inner, max_size=5)
    ),
    max_leaves=12,
)


PART = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "reasoning", "tool-invocation", "file", "signal", "tool-result"]) | SCALARS},
    optional={"text": ANYTHING, "toolInvocation": ANYTHING, "signal": ANYTHING, "toolCallId": ANYTHING},
)
CONTENT = (
    ANYTHING
    | st.lists(PART, max_size=4)
    | st.fixed_dictionaries(
        {}, optional={"parts": st.lists(PART | ANYTHING, max_size=4), "content": SCALARS, "metadata": ANYTHING}
    )
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "signal", "system"]) | SCALARS},
    optional={
        "content": CONTENT, "text": SCALARS, "parts": CONTENT, "name": SCALARS, "id": SCALARS, "message_id": SCALARS,
        "threadId": SCALARS, "createdAt": SCALARS, "created_at": SCALARS, "tool_calls": ANYTHING,
        "tool_call_id": SCALARS,
    },
)  # fmt: skip


@examples(300)
@given(value=MESSAGE | ANYTHING)
def test_the_message_parser(value: Any) -> None:
    TRIED["message parser"] += 1
    message = survives(lambda: message_of(value, context=HERE))
    if message is not None:
        # What was read can be shown, sent to a model, and read again.
        survives(lambda: to_openai([message]))
        survives(lambda: remembered_block([message], current_thread_id=None, style="mastra"))
        assert remembered_block([message], current_thread_id=None)
    survives(lambda: messages_of([value, value], context=HERE))
    survives(lambda: messages_of(value, context=HERE))


@examples(100)
@given(lines=st.lists((MESSAGE | ANYTHING).map(_dumped) | st.text(st.characters(), max_size=30), max_size=4))
def test_the_reader_of_json_lines(lines: list[str]) -> None:
    TRIED["reader of message lines"] += 1
    survives(lambda: read_lines("lines", lines, HERE))


@examples(150)
@given(
    value=ANYTHING
    | st.fixed_dictionaries(
        {}, optional={"topK": ANYTHING, "messageRange": ANYTHING, "scope": ANYTHING, "threshold": ANYTHING}
    )
)
def test_options_contexts_and_filters(value: Any) -> None:
    TRIED["from_mastra and settings"] += 1
    options = survives(lambda: RecallOptions.from_mastra(value))
    if options is not None:
        assert 1 <= options.top_k <= 100_000
        assert options.threshold is None or -1 <= options.threshold <= 1
    survives(lambda: RequestContext.of(value))
    held = survives(lambda: ThreadFilter(value))
    if held is not None:
        assert held.admits(Thread("t", "ann", {"type": 1})) in (True, False)


@pytest.fixture(scope="module")
def tiny() -> Any:
    return generate(resources=1, threads_per_resource=2, messages_per_thread=8, queries_per_resource=2, seed=1)


CELLS = st.none() | st.integers(-2, 2**40) | st.text(max_size=5) | st.sampled_from(["user", "dev", ""]) | st.booleans()
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["cell", "column", "drop", "repeat", "empty", "manifest", "type"]), st.integers(0, 30), CELLS
    ),
    min_size=1,
    max_size=3,
)


@examples(20)
@given(table=st.sampled_from(["messages", "queries", "qrels"]), changes=CHANGES, noise=st.text(max_size=8))
def test_the_reader_of_collections(tiny: Any, table: str, changes: list[Any], noise: str) -> None:
    """A written collection with cells, columns, rows, types or its description changed; its checksums are right."""
    TRIED["collection reader"] += 1
    tables = {"messages": tiny.messages, "queries": tiny.queries, "qrels": tiny.qrels}
    manifest = dict(tiny.manifest)
    for kind, number, value in changes:
        tables[table] = _changed(tables[table], kind, number, value)
        if kind == "manifest":
            manifest[list(manifest)[number % len(manifest)]] = value
    with tempfile.TemporaryDirectory() as name:
        folder, checksums = Path(name), {}
        for each, frame in tables.items():
            frame.write_parquet(folder / f"{each}.parquet")
            checksums[f"{each}.parquet"] = hashlib.sha256((folder / f"{each}.parquet").read_bytes()).hexdigest()
        content = manifest_bytes(manifest, checksums)
        if changes[0][0] == "manifest" and noise:
            at = changes[0][1] * len(content) // 31
            content = content[:at] + noise.encode("utf-8", "surrogatepass") + content[at:]
        (folder / "manifest.yaml").write_bytes(content)
        survives(lambda: load_saved(name))


def _changed(frame: pl.DataFrame, kind: str, number: int, value: Any) -> pl.DataFrame:
    column = frame.columns[number % frame.width]
    if kind == "cell" and not frame.is_empty():
        rows = frame.to_dicts()
        rows[number % len(rows)][column] = value
        try:
            return pl.DataFrame(rows, strict=False, infer_schema_length=None)
        except pl.exceptions.PolarsError:  # no column can hold it, so no file can
            return frame
    if kind == "column":
        return frame.rename({column: f"{column}{number}"})
    if kind == "drop":
        return frame.drop(column)
    if kind == "repeat":
        return pl.concat([frame, frame.head(1)])
    if kind == "empty":
        return frame.clear()
    return frame.with_columns(pl.lit(value).alias(column)) if kind == "type" else frame


CONVERSATION = {
    "sample_id": "conv-1",
    "conversation": {
        "speaker_a": "Ana",
        "speaker_b": "Ben",
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ana", "dia_id": "D1:1", "text": "Hi Ben!"},
            {"speaker": "Ben", "dia_id": "D1:2", "text": "Hi!", "blip_caption": "a cat"},
        ],
    },
    "qa": [{"question": "Who says hi?", "answer": "Ben", "evidence": ["D1:2"], "category": 4}],
}


@examples(50)
@given(
    paths=st.lists(st.lists(st.integers(0, 6), max_size=4), min_size=1, max_size=3),
    values=st.lists(ANYTHING.map(_dumped) | SCALARS.map(_plain), min_size=3, max_size=3),
    cut=st.none() | st.integers(0, 400),
)
def test_the_reader_of_locomo(paths: list[list[int]], values: list[Any], cut: int | None) -> None:
    TRIED["LoCoMo reader"] += 1
    document: Any = json.loads(json.dumps([CONVERSATION]))
    for path, value in zip(paths, values, strict=False):
        document = _put(document, path, value)
    text = json.dumps(document)
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "locomo.json"
        file.write_text(text if cut is None else text[:cut], "utf-8")
        survives(lambda: load_locomo(str(file)))


def _put(node: Any, path: list[int], value: Any) -> Any:
    """The document with what is at the path replaced; numbers choose among what there is."""
    if not path or not isinstance(node, list | dict) or not node:
        return value
    keys = list(range(len(node))) if isinstance(node, list) else list(node)
    node[keys[path[0] % len(keys)]] = _put(node[keys[path[0] % len(keys)]], path[1:], value)
    return node
