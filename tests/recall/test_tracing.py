"""Spans of the stages, where the application traces."""

import subprocess
import sys

import pytest

from recall.options import RecallOptions
from recall.pipeline import Pipeline
from recall.processor import SemanticRecall
from recall.schema import RequestContext

HERE = RequestContext("t", "ann")


@pytest.fixture
def spans(monkeypatch):
    """What a tracer of the SDK records while the test runs; by name, in order of their end."""
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter, provider = memory.InMemorySpanExporter(), sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter.get_finished_spans


def test_a_recall_has_a_span_for_each_stage_with_counts_and_scores(engine, spans, say):
    engine.ingest([say("a", "제주 ferry"), say("b", "fine", at=1)])
    engine.recall("제주", RecallOptions(1), HERE)
    told = {span.name: dict(span.attributes) for span in spans()}
    assert list(told) == ["recall.ingest", "recall.embed", "recall.search", "recall.windows", "recall.recall"]
    assert told["recall.ingest"] == {"recall.messages": 2, "recall.embedded": 2}
    assert told["recall.search"] == {"recall.searched_by": "exact", "recall.ranked": 1, "recall.top_score": 0.707107}
    assert told["recall.recall"] == {"recall.hits": 1, "recall.context": 2}


def test_a_turn_s_stages_are_inside_it(engine, spans):
    memory = SemanticRecall(engine)
    Pipeline(lambda messages: "ok", inputs=[memory], outputs=[memory]).run("제주", HERE)
    by_name = {span.name: span for span in spans()}
    turn = by_name["recall.turn"].context.span_id
    for stage in ("recall.input.SemanticRecall", "recall.model", "recall.output.SemanticRecall"):
        assert by_name[stage].parent.span_id == turn
    assert by_name["recall.recall"].parent.span_id == by_name["recall.input.SemanticRecall"].context.span_id


def test_no_span_holds_text_or_ids(engine, spans, say):
    engine.ingest([say("the-id", "제주 secret", thread="the-thread")])
    engine.recall("제주 secret", RecallOptions(1), HERE)
    told = str([(span.name, dict(span.attributes)) for span in spans()])
    assert all(word not in told for word in ("제주", "secret", "the-id", "the-thread", "ann"))


def test_a_failure_is_recorded_in_its_span(engine, spans, retriever, monkeypatch):
    monkeypatch.setattr(retriever, "encode", lambda text: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        engine.recall("제주", RecallOptions(1), HERE)
    assert {span.name: span.status.is_ok for span in spans()} == {"recall.embed": False, "recall.recall": False}


def test_without_a_tracer_nothing_of_opentelemetry_is_imported():
    code = "import sys, recall; raise SystemExit('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
