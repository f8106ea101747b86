"""The dense retriever: what is embedded, what is indexed, and what one bad message costs."""

from datetime import timedelta

import numpy as np
import pytest

from recall.embedders.hashing import HashingEmbedder
from recall.errors import EmbedderError, IndexingError, MissingDependencyError, ModelError, OptionsError
from recall.indexes.exact import ExactIndex
from recall.protocols import Retriever, TimedVector
from recall.retrievers.dense import DenseRetriever
from recall.schema import Message, SearchScope, utc

START = utc(2024, 3, 5, 9)
ANA = SearchScope("ana")
BROKEN, NOT_A_NUMBER, LONGER = "💥", "NaN", "longer"


class Words(HashingEmbedder):
    """Hashes words; fails on 💥, gives NaN or a vector of another length where a text asks for it."""

    def __init__(self):
        super().__init__(64)
        self.calls = []

    def embed_passages(self, texts):
        self.calls.append(list(texts))
        if any(BROKEN in text for text in texts):
            raise EmbedderError("the model broke")
        rows = super().embed_passages(texts)
        rows[["NaN" in text for text in texts]] = np.nan
        return np.hstack([rows, rows]) if any(LONGER in text for text in texts) else rows


@pytest.fixture
def embedder():
    return Words()


@pytest.fixture
def index():
    return ExactIndex()


@pytest.fixture
def retriever(embedder, index) -> Retriever:
    return DenseRetriever(embedder, index)


def say(message_id, text, *, name=None, at=0, thread="t1", resource="ana"):
    return Message(message_id, thread, resource, "user", text, START + timedelta(seconds=at), name=name)


def ids(retriever, text, scope=ANA, depth=10, **where):
    return retriever.rank(retriever.encode(text), scope, depth, **where).message_ids


def test_messages_are_embedded_through_the_template_in_one_call(retriever, embedder):
    retriever.index([say("a", "여섯 시에 봐요", name="민지"), say("b", "see you")])
    assert embedder.calls == [["민지: 여섯 시에 봐요", "see you"]]


def test_templates_are_settings(embedder, index):
    retriever = DenseRetriever(embedder, index, named="<{name}> {text}", bare="{role}: {text}")
    retriever.index([say("a", "hi", name="Ana"), say("b", "hi")])
    assert embedder.calls == [["<Ana> hi", "user: hi"]]


def test_a_template_that_cannot_be_used_is_refused(embedder, index):
    with pytest.raises(OptionsError, match="name, text, role, date"):
        DenseRetriever(embedder, index, named="{speaker}: {text}")


def test_a_query_is_embedded_as_it_is_and_keeps_its_time(retriever, embedder, monkeypatch):
    asked = []
    monkeypatch.setattr(embedder, "embed_query", lambda text: asked.append(text) or TimedVector(np.eye(1, 64)[0], 4.5))
    assert retriever.encode("몇 시? 🙂").ms == 4.5
    assert asked == ["몇 시? 🙂"]


def test_the_most_alike_message_comes_first_with_a_cosine(retriever):
    retriever.index([say("cat", "고양이가 자요"), say("dog", "the dog barks"), say("both", "고양이가 자요 지금")])
    ranking = retriever.rank(retriever.encode("고양이가 자요"), ANA, 2)
    assert ranking.message_ids == ("cat", "both")
    assert ranking.scores[0] == 1.0
    assert retriever.score_range == (-1.0, 1.0)


def test_scope_depth_and_time_are_the_index_s(retriever):
    retriever.index([say(f"{t}{n}", f"word {n}", thread=t, at=n) for t in ("t1", "t2") for n in range(3)])
    retriever.index([say("other", "word 0", resource="ben")])
    assert ids(retriever, "word", SearchScope("ana", "t2"), 2, before=START + timedelta(seconds=2)) == ("t20", "t21")
    assert set(ids(retriever, "word", exact=True)) == {"t10", "t11", "t12", "t20", "t21", "t22"}


@pytest.mark.parametrize("blank", ["", "  ", "\n\t", "\u3000\u00a0"])
def test_a_blank_message_is_left_out(retriever, embedder, index, blank):
    retriever.index([say("blank", blank, name="Ana"), say("a", "hi")])
    assert (embedder.calls, len(index)) == ([["hi"]], 1)


def test_only_blank_messages_ask_no_model(retriever, embedder):
    retriever.index([say("blank", " ")])
    retriever.index([])
    assert embedder.calls == []


def test_a_message_edited_to_blank_is_gone(retriever):
    retriever.index([say("a", "hello"), say("b", "hello there")])
    retriever.index([say("a", " ")])
    assert ids(retriever, "hello") == ("b",)


def test_an_edited_message_is_found_by_its_new_text(retriever):
    retriever.index([say("a", "hello"), say("b", "something else")])
    retriever.index([say("a", "goodbye")])
    assert ids(retriever, "goodbye", depth=1) == ("a",)
    assert "a" not in ids(retriever, "hello something else", depth=1)


def test_a_removed_message_is_gone_and_unknown_ids_are_ignored(retriever):
    retriever.index([say("a", "hello"), say("b", "hello there")])
    retriever.remove(["a", "unknown"])
    assert ids(retriever, "hello") == ("b",)


@pytest.mark.parametrize("bad", [BROKEN, NOT_A_NUMBER])
def test_one_bad_message_does_not_lose_the_others(retriever, bad):
    messages = [say("a", "first"), say("bad", bad), say("c", "셋째")]
    with pytest.raises(IndexingError) as raised:
        retriever.index(messages)
    assert set(raised.value.failures) == {"bad"}
    assert set(ids(retriever, "first")) == {"a", "c"}


def test_a_vector_of_another_length_names_both_and_does_not_lose_the_others(retriever):
    retriever.index([say("a", "first")])
    with pytest.raises(IndexingError, match="dim 128, expected dim 64"):
        retriever.index([say("bad", LONGER), say("b", "second")])
    assert set(ids(retriever, "first")) == {"a", "b"}


def test_a_failed_message_can_be_indexed_again(retriever):
    with pytest.raises(IndexingError):
        retriever.index([say("a", BROKEN)])
    retriever.index([say("a", "mended")])
    assert ids(retriever, "mended") == ("a",)


def test_a_message_whose_new_text_failed_is_not_found_by_its_old_one(retriever):
    retriever.index([say("a", "old words"), say("b", "others")])
    with pytest.raises(IndexingError):
        retriever.index([say("a", BROKEN)])
    assert ids(retriever, "old words") == ("b",)


def test_every_failure_is_reported_with_its_reason(retriever):
    with pytest.raises(IndexingError) as raised:
        retriever.index([say("a", BROKEN), say("b", NOT_A_NUMBER), say("c", "fine")])
    assert raised.value.failures["a"] == "the model broke"
    assert "NaN" in raised.value.failures["b"]


def test_a_model_that_cannot_be_loaded_is_told_at_once(retriever, embedder, monkeypatch):
    """Trying each message alone would fail as often as there are messages, and bury the reason."""
    calls = []

    def unavailable(texts):
        calls.append(texts)
        raise ModelError("no such model")

    monkeypatch.setattr(embedder, "embed_passages", unavailable)
    with pytest.raises(ModelError, match="no such model"):
        retriever.index([say("a", "one"), say("b", "two")])
    assert len(calls) == 1


def test_a_missing_library_is_told_at_once(retriever, embedder, monkeypatch):
    def missing(texts):
        embedder.calls.append(texts)
        raise MissingDependencyError("run: pip install something")

    monkeypatch.setattr(embedder, "embed_passages", missing)
    with pytest.raises(MissingDependencyError, match="pip install something"):
        retriever.index([say("a", "hi"), say("b", "ho")])
    assert len(embedder.calls) == 1
