"""Puts a cache before any embedder: the most recent vectors in memory, all of them on disk."""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np

from recall.errors import EmbedderError, IdentityError
from recall.protocols import Embedder, EmbedKind, TimedVector
from recall.schema import Vectors
from recall.vector_file import VectorFile

CHUNK_TEXTS = 128
"""Texts embedded and stored at once: an interruption loses fewer than these."""

Progress = Callable[[int, int], None]


class CachedEmbedder:
    """An embedder that asks another one only for texts whose vectors it does not hold.

    A vector is found by the inner embedder's identity for the kind and by the exact text, and never changes once it is
    held. Where the identity is the same for both kinds, a query finds the vector of an equal passage.

    Attributes:
        hits: Texts asked for that the inner embedder did not have to embed, repetitions within a call included.
        misses: Texts it had to embed.
    """

    def __init__(
        self,
        inner: Embedder,
        *,
        directory: Path | str | None,
        lru_size: int = 1000,
        timed: bool = True,
        progress: Progress | None = None,
    ) -> None:
        """Wrap `inner`; nothing is opened or loaded before the first text.

        Args:
            inner: Embeds what is not held.
            directory: Where the files are, one per identity, made where missing; None keeps vectors in memory only.
            lru_size: Vectors kept in memory per identity, the least recently used going first.
            timed: Every query has the time its model took, so a text held only as a passage is embedded once more for
                it. False asks for no such time, and embeds no text twice.
            progress: Told (done, to embed) before the first chunk of passages and after each; not for what is held.
        """
        self._inner = inner
        self._directory = None if directory is None else Path(directory)
        self._lru_size = lru_size
        self._timed = timed
        self._progress = progress
        self._shelves: dict[str, _Shelf] = {}
        self._lock = threading.RLock()
        self.hits = 0
        self.misses = 0
        self._seconds = 0.0

    @property
    def texts_per_second(self) -> float | None:
        """Texts the inner embedder embedded in a second of its time; None where it embedded none."""
        return self.misses / self._seconds if self._seconds else None

    @property
    def model_id(self) -> str:
        """The inner embedder's."""
        return self._inner.model_id

    def identity(self, kind: EmbedKind) -> str:
        """The inner embedder's identity."""
        return self._inner.identity(kind)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """(len(texts), dim) float32 unit rows, in the order given; what is missing is embedded in chunks.

        Each chunk is stored before the next begins, so that a call that was interrupted goes on where it stopped.

        Raises:
            EmbedderError: The inner embedder failed; the chunks before are stored.
            IdentityError: It gave another dimension than the one held.
            StoreError: The directory cannot be read or written.
        """
        if not texts:
            return self._inner.embed_passages(texts)
        with self._lock:
            shelf = self._shelf("passage")
            keys = [_key(text) for text in texts]
            text_of = dict(zip(keys, texts, strict=True))
            found = shelf.look_up(list(text_of))
            missing = {key: text for key, text in text_of.items() if key not in found}
            self.misses += len(missing)
            self.hits += len(texts) - len(missing)
            found.update(self._embed(missing, shelf))
        return _stacked([found[key] for key in keys])

    def embed_query(self, text: str) -> TimedVector:
        """The query's vector, and what the model took when it embedded the query alone.

        The time is the recorded one. A vector that was made as a passage has none; where times are wanted its text is
        embedded once more to take it, and the vector stays the one held.

        Raises:
            EmbedderError: The inner embedder failed.
            StoreError: The directory cannot be read or written.
        """
        with self._lock:
            shelf = self._shelf("query")
            key = _key(text)
            held = shelf.look_up([key]).get(key)
            is_complete = held is not None and (held.ms is not None or not self._timed)
            self.hits += is_complete
            self.misses += not is_complete
            if held is None or not is_complete:
                started = perf_counter()
                fresh, ms = self._inner.embed_query(text)
                self._seconds += perf_counter() - started
                vector = _checked(fresh[np.newaxis], 1)[0] if held is None else held.vector
                held = shelf.keep({key: TimedVector(vector, ms)})[key]
        return TimedVector(held.vector.copy(), held.ms)

    def close(self) -> None:
        """Close the files; the next text opens them again."""
        with self._lock:
            for shelf in self._shelves.values():
                shelf.close()

    def _shelf(self, kind: EmbedKind) -> "_Shelf":
        identity = self._inner.identity(kind)
        if identity not in self._shelves:
            self._shelves[identity] = _Shelf(identity, self._directory, self._lru_size)
        return self._shelves[identity]

    def _embed(self, missing: Mapping[bytes, str], shelf: "_Shelf") -> dict[bytes, TimedVector]:
        # Texts of like length share a batch with little padding; after an interruption the chunks are the same again.
        keys = sorted(missing, key=lambda key: -len(missing[key]))
        embedded: dict[bytes, TimedVector] = {}
        for start in range(0, len(keys), CHUNK_TEXTS):
            self._tell(start, len(keys))
            chunk = keys[start : start + CHUNK_TEXTS]
            started = perf_counter()
            rows = _checked(self._inner.embed_passages([missing[key] for key in chunk]), len(chunk))
            self._seconds += perf_counter() - started
            # A row of the chunk's array would keep all of it in memory.
            made = {key: TimedVector(row.copy(), None) for key, row in zip(chunk, rows, strict=True)}
            embedded.update(shelf.keep(made))
        if keys:
            self._tell(len(keys), len(keys))
        return embedded

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


class _Shelf:
    """What is held for one identity: recent vectors in memory, every vector in a file where there is a directory."""

    def __init__(self, identity: str, directory: Path | None, lru_size: int) -> None:
        self._recent: OrderedDict[bytes, TimedVector] = OrderedDict()
        self._lru_size = lru_size
        self._dim: int | None = None
        self._file: VectorFile | None = None
        if directory is not None:
            name = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            self._file = VectorFile(directory / f"{name}.sqlite", identity)

    def look_up(self, keys: Sequence[bytes]) -> dict[bytes, TimedVector]:
        """What is held of these keys."""
        found = {key: self._recent[key] for key in keys if key in self._recent}
        if self._file is not None and len(found) < len(keys):
            found.update(self._file.read([key for key in keys if key not in found]))
        self._remember(found)
        return found

    def keep(self, vectors: dict[bytes, TimedVector]) -> dict[bytes, TimedVector]:
        """Hold these vectors, and give what is held now: another process may have been first.

        Raises:
            IdentityError: They have another dimension than what is held; nothing is kept.
        """
        if self._dim is None and self._file is not None:
            self._dim = self._file.dim()
        sizes = [vector.vector.size for vector in vectors.values()]
        _check_dims(sizes if self._dim is None else [self._dim, *sizes])
        if self._file is not None:
            self._file.keep(vectors)
            vectors = {**vectors, **self._file.read(list(vectors))}
        self._remember(vectors)
        return vectors

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _remember(self, vectors: Mapping[bytes, TimedVector]) -> None:
        for key, vector in vectors.items():
            self._recent[key] = vector
            self._recent.move_to_end(key)
        while len(self._recent) > self._lru_size:
            self._recent.popitem(last=False)


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _checked(rows: Vectors, count: int) -> Vectors:
    if rows.ndim != 2 or len(rows) != count:
        raise EmbedderError(f"embedder gave shape {rows.shape}, expected ({count}, dim), a row for each text")
    is_bad = ~(np.isfinite(rows).all(axis=1) & rows.any(axis=1))
    if is_bad.any():
        raise EmbedderError(
            f"embedder gave {np.count_nonzero(is_bad)} of {count} vectors with NaN, infinity or only zeros; "
            "expected unit vectors, so they are not kept"
        )
    return rows


def _stacked(vectors: Sequence[TimedVector]) -> Vectors:
    _check_dims([vector.vector.size for vector in vectors])
    return np.stack([vector.vector for vector in vectors])


def _check_dims(sizes: Sequence[int]) -> None:
    if len(set(sizes)) > 1:
        raise IdentityError(
            f"vectors of dims {sorted(set(sizes))} under one embedder identity, expected one dim; "
            "the embedder changed without a new identity, so delete the embedding cache"
        )
