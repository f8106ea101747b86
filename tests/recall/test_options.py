"""The four knobs: what is refused, and how the reference's spelling is read. The name of an index besides."""

import math

import pytest

from recall.errors import IdentityError, OptionsError
from recall.index_name import check_index, index_name_of
from recall.options import MessageRange, RecallOptions
from recall.protocols import IndexInfo, IndexKey, VectorSpace
from recall.schema import RequestContext
from recall.thread_filter import ThreadFilter


@pytest.mark.parametrize("top_k", [0, -1, 1.5, math.nan, True, "4", None, 100_001])
def test_a_top_k_that_is_none_is_refused(top_k):
    with pytest.raises(OptionsError, match=r"top_k is .*, expected an integer from 1 to 100000") as refusal:
        RecallOptions(top_k)
    assert (refusal.value.field, refusal.value.value) == ("top_k", top_k)


@pytest.mark.parametrize("side", [-1, 1.5, math.nan, 10_001, True, "1", None])
def test_a_range_that_is_none_is_refused(side):
    for given in (side, {"before": side}, {"after": side}):
        with pytest.raises(OptionsError, match=r"message_range.* is .*, expected an integer from 0 to 10000"):
            RecallOptions(message_range=given)


@pytest.mark.parametrize("threshold", [1.5, -1.01, math.nan, math.inf, True, "0.5", 10**400])
def test_a_threshold_off_the_scale_is_refused_when_options_are_built(threshold):
    with pytest.raises(OptionsError, match=r"threshold is .*, expected null \(off\) or a number from -1 to 1"):
        RecallOptions(threshold=threshold)


def test_another_scale_is_named_when_options_are_built():
    assert RecallOptions(threshold=12, score_range=(0.0, math.inf)).threshold == 12.0
    with pytest.raises(OptionsError, match="no absolute scale"):
        RecallOptions(threshold=0, score_range=(math.inf, -math.inf))
    with pytest.raises(OptionsError, match="threshold"):
        RecallOptions(threshold=10**400, score_range=(0.0, math.inf))


def test_a_partial_range_keeps_the_default_of_the_other_side():
    assert RecallOptions(message_range={"before": 3}).message_range == MessageRange(3, 1)
    with pytest.raises(OptionsError, match="before and after"):
        RecallOptions(message_range={"befor": 3})


def test_options_are_frozen():
    with pytest.raises(AttributeError):
        RecallOptions().top_k = 5


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, RecallOptions()),
        (True, RecallOptions()),
        ({}, RecallOptions()),
        ({"topK": None, "messageRange": None, "scope": None}, RecallOptions()),
        ({"topK": 5.0}, RecallOptions(5)),
        ({"messageRange": 2}, RecallOptions(message_range=2)),
        ({"messageRange": {"before": 2}}, RecallOptions(message_range={"before": 2, "after": 0})),
        ({"messageRange": {}}, RecallOptions(message_range=0)),
        ({"scope": "thread"}, RecallOptions(scope="thread")),
        ({"scope": "global"}, RecallOptions(scope="thread")),
        ({"threshold": None}, RecallOptions(threshold=0.0)),
        ({"threshold": -0.3}, RecallOptions(threshold=-0.3)),
    ],
)
def test_the_reference_s_settings_are_read_by_its_own_rules(given, meant):
    assert RecallOptions.from_mastra(given) == meant


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"topK": 0}, "top_k"),
        ({"topK": 1.5}, "top_k"),
        ({"messageRange": -1}, "message_range"),
        ({"messageRange": {"before": -1}}, r"message_range\.before"),
        ({"threshold": 1.5}, "threshold"),
        ({"top_k": 4}, r"semanticRecall\.top_k"),
        ({"filter": {}}, "where of SemanticRecall"),
        ({"indexName": "x"}, "index_name of the engine"),
        ("topK", "semanticRecall"),
        (False, "semanticRecall"),
    ],
)
def test_what_the_reference_lets_through_is_refused(given, named):
    with pytest.raises(OptionsError, match=named):
        RecallOptions.from_mastra(given)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (None, RequestContext()),
        ({}, RequestContext()),
        ({"thread": {"id": "t"}, "resourceId": "ann"}, RequestContext("t", "ann")),
        ({"thread_id": "t", "resource_id": "ann", "read_only": True}, RequestContext("t", "ann", True)),
        ({"thread": {"id": "t"}, "memoryConfig": {"readOnly": True}}, RequestContext("t", None, True)),
    ],
)
def test_a_request_context_is_read_from_a_mapping(given, meant):
    assert RequestContext.of(given) == meant


@pytest.mark.parametrize(
    ("conditions", "metadata", "is_met"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": {"$eq": 1}}, {"a": 1}, True),
        ({"a": {"$ne": 1}}, {}, True),
        ({"a": {"$ne": 1}}, {"a": 1}, False),
        ({"a": {"$in": [1, 2]}}, {"a": 2}, True),
        ({"a": {"$in": [None]}}, {}, False),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        ({}, {}, True),
    ],
)
def test_conditions_on_threads(conditions, metadata, is_met):
    from recall.schema import Thread

    assert ThreadFilter(conditions).admits(Thread("t", "ann", metadata)) is is_met


@pytest.mark.parametrize("conditions", [5, {"a": {"$gt": 1}}, {"a": {"$in": 1}}, {"a": {}}, {1: 2}])
def test_conditions_that_mean_nothing_are_refused(conditions):
    with pytest.raises(OptionsError, match="where"):
        ThreadFilter(conditions)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("openai/text-embedding-3-small", "mastra_memory_openai_text_embedding_3_small"),
        ("한국어-임베딩/v2", "mastra_memory_________v2"),
        ("🙂", "mastra_memory___"),
        ("", "mastra_memory_default"),
        ("a" * 100, "mastra_memory_" + "a" * 49),
    ],
)
def test_an_index_is_named_after_its_model_as_in_the_reference(model, name):
    assert index_name_of(model) == name
    check_index(None, IndexKey(name, VectorSpace(model, "x")))


@pytest.mark.parametrize("name", ["", "my-index", "1st", "a" * 64, "이름", "a\n"])
def test_a_name_no_database_takes_is_refused(name):
    with pytest.raises(OptionsError, match="index_name"):
        check_index(None, IndexKey(name, VectorSpace("m", "x")))


def test_an_index_of_another_embedder_is_refused_with_both_names_and_numbers():
    held = IndexInfo(IndexKey("index", VectorSpace("small", "small v1")), 384, 7)
    with pytest.raises(
        IdentityError, match=r"'small' \(small v1\) of dim 384, got embedder 'large' \(v2\) of dim 1024"
    ):
        check_index(held, IndexKey("index", VectorSpace("large", "v2")), 1024)
    with pytest.raises(IdentityError, match="dim 384, got dim 256"):
        check_index(held, held.key, 256)
    check_index(held, held.key, 384)
