"""BM25 by its formula, and words in any script."""

from math import log

import pytest

from recall.errors import OptionsError
from recall.protocols import ChangedMessage, Changes
from recall.retrievers.bm25 import Bm25Retriever
from recall.schema import SearchScope
from recall.words import STOPWORDS, Words


def held(say, texts: dict[str, str], **settings) -> Bm25Retriever:
    retriever = Bm25Retriever(**settings)
    messages = [say(name, text, at=number) for number, (name, text) in enumerate(texts.items())]
    retriever.follow(Changes(1, [ChangedMessage(each, None, each.thread_id) for each in messages]))
    return retriever


def ranked(retriever: Bm25Retriever, text: str, scope=None, depth: int = 10) -> dict[str, float]:
    found = retriever.rank(retriever.encode(text), scope or SearchScope("ann"), depth)
    return dict(zip(found.message_ids, found.scores.tolist(), strict=True))


def by_formula(query: list[str], document: list[str], corpus: list[list[str]], k1: float, b: float) -> float:
    """Lucene's BM25, term by term."""
    mean = sum(map(len, corpus)) / len(corpus)
    total = 0.0
    for word in query:
        containing = sum(word in each for each in corpus)
        idf = log(1 + (len(corpus) - containing + 0.5) / (containing + 0.5))
        count = document.count(word)
        total += idf * count / (count + k1 * (1 - b + b * len(document) / mean))
    return total


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.5, 0.0), (2.0, 1.0)])
def test_scores_are_those_of_the_formula(say, k1, b):
    texts = {"a": "cats chase cats", "b": "a dog chases one cat today", "c": "nothing here"}
    found = ranked(held(say, texts, k1=k1, b=b), "chasing cat")
    words = Words()
    corpus = [words.of(text) for text in texts.values()]
    expected = {
        name: by_formula(words.of("chasing cat"), words.of(text), corpus, k1, b) for name, text in texts.items()
    }
    assert found == pytest.approx({name: value for name, value in expected.items() if value}, abs=1e-6)
    assert list(found) == sorted(found, key=found.__getitem__, reverse=True)


def test_statistics_are_those_of_the_resource_in_every_scope(say):
    retriever = Bm25Retriever()
    messages = [say("a", "whale", thread="t0"), say("b", "whale song", thread="t1"), say("c", "tea", thread="t1")]
    retriever.follow(Changes(1, [ChangedMessage(each, None, each.thread_id) for each in messages]))
    everywhere, in_thread = ranked(retriever, "whale"), ranked(retriever, "whale", SearchScope("ann", "t1"))
    assert in_thread == {"b": everywhere["b"]}


def test_what_shares_no_word_is_no_hit(say):
    assert ranked(held(say, {"a": "green tea", "b": ""}), "whale") == {}
    assert ranked(held(say, {"a": "the", "b": "…"}), "the …") == {}


def test_korean_is_found_whatever_particle_follows(say):
    found = ranked(held(say, {"a": "제 고양이 이름은 보리예요", "b": "강아지를 산책시켰어요"}), "고양이를 뭐라고 불러?")
    assert list(found) == ["a"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The cats' meows, WERE loud!", ["cat", "meow", "were", "loud"]),
        ("보리는 cat이다", ["보리", "리는", "cat", "이다"]),
        ("가", ["가"]),
        ("東京タワー", ["東京", "京タ", "タワ", "ワー"]),
        ("Ｃａｆé cafe\u0301", ["café", "café"]),
        ("user_name 3.14", ["user", "name", "3", "14"]),
        ("🎉 … \ud800", []),
        ("", []),
    ],
)
def test_words(text, words):
    assert Words(stem=True).of(text) == words


def test_endings_and_common_words_can_stay():
    assert Words(stem=False, stopwords=False).of("The cats") == ["the", "cats"]
    assert len(STOPWORDS) == 33


@pytest.mark.parametrize(("settings", "option"), [({"k1": -1}, "k1"), ({"k1": float("nan")}, "k1"), ({"b": 1.1}, "b")])
def test_constants_out_of_range_are_refused(settings, option):
    with pytest.raises(OptionsError, match=f"^{option} is"):
        Bm25Retriever(**settings)
