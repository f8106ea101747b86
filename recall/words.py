"""The words of a text, as a lexical search compares them: stemmed, without stopwords, in any script."""

import re
import unicodedata
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

# Hangul, kana and Han are written without a space at every border of meaning: pairs of letters stand for words there.
_UNSPACED = re.compile(
    r"[\u1100-\u11ff\u3040-\u30ff\u3130-\u318f\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    r"\U00020000-\U0003ffff]+"
)
_WORD = re.compile(r"[^\W_]+")
# Lucene's classic list.
STOPWORDS = frozenset(
    [
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not"),
        *("of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was"),
        *("will", "with"),
    ]
)


class Words:
    """Splits texts into words. Equal words are equal whatever their case, accents' encoding or, in English, ending."""

    def __init__(self, *, stem: bool = True, stopwords: bool = True) -> None:
        """Choose what is done to English words.

        Args:
            stem: Cut endings off (Snowball).
            stopwords: Leave out the 33 commonest words.
        """
        self._stem = stem
        self._stopwords = STOPWORDS if stopwords else frozenset()
        self._stemmer: Any = None

    @property
    def identity(self) -> dict[str, bool]:
        """What the words of a text depend on."""
        return {"stem": self._stem, "stopwords": bool(self._stopwords)}

    def of(self, text: str) -> list[str]:
        """The words of a text, in order; none where it has neither letters nor digits."""
        words = list(self._split(unicodedata.normalize("NFKC", text).lower()))
        return self._stemmed([word for word in words if word not in self._stopwords])

    def _split(self, text: str) -> Iterator[str]:
        for match in _WORD.finditer(text):
            start = 0
            word = match[0]
            for run in _UNSPACED.finditer(word):
                if run.start() > start:
                    yield word[start : run.start()]
                yield from _pairs(run[0])
                start = run.end()
            if start < len(word):
                yield word[start:]

    def _stemmed(self, words: list[str]) -> list[str]:
        if not self._stem or not words:
            return words
        if self._stemmer is None:
            import Stemmer

            self._stemmer = Stemmer.Stemmer("english")
        stems: list[str] = self._stemmer.stemWords(words)
        return stems


def _pairs(letters: str) -> Iterator[str]:
    """Every two neighbours; a letter alone stands for itself."""
    if len(letters) == 1:
        yield letters
    for first, second in pairwise(letters):
        yield first + second
