"""Embeds with any server that speaks OpenAI's `/embeddings`: theirs, or one of your own."""

import json
import os
import threading
import time
from collections.abc import Sequence
from math import inf
from typing import Any, NoReturn
from urllib.parse import urlsplit, urlunsplit

import numpy as np

from recall.errors import EmbedderError, ModelError, OptionsError
from recall.protocols import EmbedKind, TimedVector
from recall.schema import Vectors

RETRIED = (408, 429, 500, 502, 503, 504)
REFUSED = (401, 403)
ABOUT_THE_TEXT = (400, 413, 422)
"""Another text may fare better."""
HINT = "try again later, or with a smaller batch_size; what is in the cache stays there"
SHOWN = 120
"""Characters of a server's own words that are shown."""


class EndpointEmbedder:
    """Turns text into unit float32 vectors by asking a server; nothing is asked before the first text.

    The key is read from the environment when a request is made, is sent to this server only, and never appears in an
    identity, an error or a log.
    """

    def __init__(
        self,
        url: str,
        model: str,
        *,
        key_variable: str = "OPENAI_API_KEY",
        dimensions: int | None = None,
        batch_size: int = 64,
        timeout_seconds: float = 30.0,
        retries: int = 5,
        backoff_seconds: float = 0.5,
        query_prompt: str = "",
        passage_prompt: str = "",
    ) -> None:
        """Remember the settings.

        Args:
            url: Of the API, to which /embeddings is added, such as https://api.openai.com/v1.
            model: As the server calls it.
            key_variable: The environment variable with the key; where it is not set, no key is sent.
            dimensions: Asked for where the server can shorten its vectors.
            batch_size: Texts in one request, 1 or more.
            timeout_seconds: Waited for a connection, and for each answer.
            retries: After a time-out, a broken connection or an answer that says to try later.
            backoff_seconds: Waited before the first retry, twice as long before each next; the server's own word counts
                where it gives one.
            query_prompt: Put before every query.
            passage_prompt: Put before every passage.

        Raises:
            OptionsError: A setting outside what is allowed.
        """
        parts = urlsplit(url) if isinstance(url, str) else urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionsError("url", _without_user(parts), "an address such as https://api.openai.com/v1")
        if parts.username or parts.password or parts.query:
            raise OptionsError("url", _without_user(parts), "no user, password or query in it; see key_variable")
        if not isinstance(model, str) or not model:
            raise OptionsError("model", model, "the name of a model")
        counts = (("batch_size", batch_size, 1), ("retries", retries, 0), ("dimensions", dimensions, 1))
        for name, value, least in counts:
            is_count = isinstance(value, int) and not isinstance(value, bool) and value >= least
            if not is_count and not (name == "dimensions" and value is None):
                raise OptionsError(name, value, f"an integer of {least} or more")
        for name, seconds in (("timeout_seconds", timeout_seconds), ("backoff_seconds", backoff_seconds)):
            if not 0 < seconds < inf:
                raise OptionsError(name, seconds, "a finite number above 0")
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        self._key_variable = key_variable
        self._dimensions = dimensions
        self._batch_size = batch_size
        self._timeout = timeout_seconds
        self._retries = retries
        self._backoff = backoff_seconds
        self._prompts: dict[EmbedKind, str] = {"query": query_prompt, "passage": passage_prompt}
        self._dim: int | None = dimensions
        self._session: Any = None
        self._lock = threading.Lock()

    @property
    def model_id(self) -> str:
        """The model as the server calls it."""
        return self._model

    def identity(self, kind: EmbedKind) -> str:
        """Server, model, dimensions and the kind's prompt, as JSON."""
        facts = {
            "backend": "endpoint",
            "url": self._url,
            "model": self._model,
            "dimensions": self._dimensions,
            "normalised": True,
            "prompt": self._prompts[kind],
        }
        return json.dumps(facts, sort_keys=True, ensure_ascii=False)

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        """(len(texts), dim) float32 unit rows, in the order given.

        Raises:
            ModelError: The server cannot be reached, does not answer, refuses the key, does not know the model, or
                answers something else than JSON with vectors.
            EmbedderError: It refuses these texts, or its vectors cannot be used.
        """
        if not texts:
            return self._asked([self._prompts["passage"] + "a"])[:0]
        prompted = [self._prompts["passage"] + text for text in texts]
        starts = range(0, len(prompted), self._batch_size)
        return np.concatenate([self._asked(prompted[start : start + self._batch_size]) for start in starts])

    def embed_query(self, text: str) -> TimedVector:
        """The vector of one query asked for alone, and the milliseconds until it was there.

        Raises:
            ModelError: As for passages.
            EmbedderError: As for passages.
        """
        started = time.perf_counter()
        vector = self._asked([self._prompts["query"] + text])[0]
        return TimedVector(vector, (time.perf_counter() - started) * 1000.0)

    def _asked(self, texts: Sequence[str]) -> Vectors:
        import requests

        body: dict[str, Any] = {"model": self._model, "input": [_well_formed(text) for text in texts]}
        body |= {"encoding_format": "float"} | ({} if self._dimensions is None else {"dimensions": self._dimensions})
        key = os.environ.get(self._key_variable, "")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            with self._lock:
                answer = self._connected().post(
                    self._url, json=body, headers=headers, timeout=self._timeout, allow_redirects=False
                )
        except requests.RequestException as error:
            # Nothing would fare better alone, so the caller need not try text by text.
            raise ModelError(f"{self._url} {self._trouble(error, key)}; {HINT}") from None
        if answer.status_code != 200:
            self._refuse(answer, key)
        return self._rows(answer, len(texts), key)

    def _connected(self) -> Any:
        """One session that tries again by itself."""
        if self._session is None:
            import requests
            from requests.adapters import HTTPAdapter
            from urllib3.util import Retry

            retry = Retry(
                total=self._retries,
                backoff_factor=self._backoff,
                status_forcelist=RETRIED,
                allowed_methods=["POST"],
                raise_on_status=False,
                redirect=0,
            )
            session = requests.Session()
            # What the machine has in .netrc is none of this server's business.
            session.trust_env = False
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=retry))
            self._session = session
        return self._session

    def _trouble(self, error: Exception, key: str) -> str:
        if "timed out" in str(error).lower():
            return f"did not answer within {self._timeout:g} s"
        return f"cannot be reached ({type(error).__name__}: {self._safe(str(error), key)})"

    def _refuse(self, answer: Any, key: str) -> NoReturn:
        """Say why there are no vectors."""
        said = f"{self._url} answers {answer.status_code} {answer.reason}: {self._safe(answer.text, key)}"
        if answer.status_code in ABOUT_THE_TEXT:
            raise EmbedderError(said)
        if answer.status_code in REFUSED:
            what = "a key that the server accepts" if key else "the key"
            raise ModelError(f"{said}; put {what} into ${self._key_variable}")
        if answer.status_code in RETRIED:
            raise ModelError(f"{said}, after {self._retries} retries; {HINT}")
        raise ModelError(f"{said}; check url and model ({self._model!r})")

    def _rows(self, answer: Any, count: int, key: str) -> Vectors:
        try:
            listed = sorted(answer.json()["data"], key=lambda entry: int(entry["index"]))
            raw = np.array([entry["embedding"] for entry in listed], dtype=np.float64)
            places = [int(entry["index"]) for entry in listed]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            kind = answer.headers.get("Content-Type", "nothing that says what it is")
            raise ModelError(
                f"{self._url} answers {kind} ({self._safe(answer.text, key)}), expected JSON with data[].embedding; "
                "check the url"
            ) from error
        if raw.ndim != 2 or places != list(range(count)):
            raise EmbedderError(
                f"{self._url} gave an array of shape {raw.shape} for {count} text(s), expected a vector each"
            )
        dim = raw.shape[1]
        if self._dim is not None and dim != self._dim:
            raise EmbedderError(
                f"{self._url} gave vectors of dim {dim}, expected dim {self._dim} as before or as asked"
            )
        lengths = np.linalg.norm(raw, axis=1, keepdims=True)
        if not (np.isfinite(lengths).all() and lengths.all()):
            raise EmbedderError(f"{self._url} gave NaN, infinity or only zeros, expected finite numbers, not all zero")
        self._dim = dim
        rows: Vectors = (raw / lengths).astype(np.float32)
        return rows

    def _safe(self, text: str, key: str) -> str:
        """A server's words on one line, cut, and without the key should it repeat it."""
        shown = text.replace(key, "***") if key else text
        return repr(" ".join(shown.split())[:SHOWN])


def _without_user(parts: Any) -> str:
    """An address without the password it may hold."""
    return str(urlunsplit(parts._replace(netloc=parts.hostname or "", query="")))


def _well_formed(text: str) -> str:
    """The text with lone surrogates as U+FFFD: JSON in UTF-8 has no place for them."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
