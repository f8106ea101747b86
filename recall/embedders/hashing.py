"""A deterministic embedder without weights: hashed words and character n-grams.

For tests and as a weak baseline. Texts are alike where they share spelling; it knows nothing of meaning.
"""

import hashlib
import json
import re
import time
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from recall.errors import OptionsError
from recall.protocols import EmbedKind, TimedVector
from recall.schema import Vector, Vectors

PIECE = re.compile(r"\w+|[^\w\s]")
"""A word in any script, or one symbol, such as an emoji."""
NGRAM_SIZES = (2, 3)
"""Pairs carry Korean, whose words differ by endings; triples carry alphabets."""


class HashingEmbedder:
    """Signed feature hashing (Weinberger et al., ICML 2009) of words and of the character n-grams inside them."""

    def __init__(self, dim: int = 256) -> None:
        """Set the number of buckets.

        Args:
            dim: Length of the vectors, 2 to 65,536; fewer buckets collide more.

        Raises:
            OptionsError: A dim outside that.
        """
        if isinstance(dim, bool) or not isinstance(dim, int) or not 2 <= dim <= 65_536:
            raise OptionsError("dim", dim, "an integer from 2 to 65536")
        self._dim = dim

    @property
    def model_id(self) -> str:
        """hashing-DIM."""
        return f"hashing-{self._dim}"

    def identity(self, kind: EmbedKind) -> str:
        """The features and the dimension, as JSON; the same for both kinds."""
        return json.dumps({"backend": "hashing", "dim": self._dim, "ngrams": NGRAM_SIZES, "version": 1}, sort_keys=True)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """(len(texts), dim) float32 unit rows, in the order given; a text without a word or symbol has one too."""
        rows = np.empty((len(texts), self._dim), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[:] = self._vector(text)
        return rows

    def embed_query(self, text: str) -> TimedVector:
        """The vector a passage of this text has, and the milliseconds it took."""
        started = time.perf_counter()
        vector = self._vector(text)
        return TimedVector(vector, (time.perf_counter() - started) * 1000.0)

    def _vector(self, text: str) -> Vector:
        hashes = np.array([_hash(feature) for feature in _features(text)], dtype=np.uint64)
        buckets = (hashes >> np.uint64(1)) % np.uint64(self._dim)
        signs = np.where(hashes & np.uint64(1), 1.0, -1.0)
        counts = np.bincount(buckets.astype(np.intp), weights=signs, minlength=self._dim)
        if not counts.any():
            # Opposite signs met in every bucket; without signs something always remains.
            counts = np.bincount(buckets.astype(np.intp), minlength=self._dim).astype(np.float64)
        vector: Vector = (counts / np.linalg.norm(counts)).astype(np.float32)
        return vector


def _features(text: str) -> Iterator[str]:
    # Casefolding can take characters apart, so composition comes last.
    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())
    # The empty piece gives a blank text a vector of its own.
    for piece in PIECE.findall(folded) or [""]:
        yield piece
        framed = f"<{piece}>"
        for size in NGRAM_SIZES:
            for start in range(len(framed) - size + 1):
                yield f"{size}:{framed[start : start + size]}"


@lru_cache(maxsize=2**16)
def _hash(feature: str) -> int:
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
