"""Settings and fixtures every test shares."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from recall.embedders.hashing import HashingEmbedder

# Machines differ and are shared; how long an example takes is no property.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def locomo_path() -> Path:
    """LoCoMo's JSON file, which is not part of the repository: its licence is non-commercial."""
    path = os.environ.get("LOCOMO_PATH")
    if not path:
        pytest.skip("LOCOMO_PATH does not name LoCoMo's JSON file, which is not part of the repository")
    return Path(path)


@pytest.fixture
def shared_cache(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The checkout's own `.recall`, so that real conversations are embedded once per checkout."""
    home = Path(__file__).parent.parent / ".recall"
    monkeypatch.setenv("RECALL_HOME", str(home))
    return home


class EmbeddingServer(ThreadingHTTPServer):
    """A server with `/embeddings` that hashes words; `replies` are given first, one for each request.

    Attributes:
        replies: (status, content type, body); a callable waits or breaks the connection.
        requests: (headers, body) of every request.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _EmbeddingHandler)
        self.replies: list[Any] = []
        self.requests: list[tuple[dict[str, str], dict[str, Any]]] = []
        self.embedder = HashingEmbedder(dim=48)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _EmbeddingHandler(BaseHTTPRequestHandler):
    server: EmbeddingServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append((dict(self.headers), body))
        if self.server.replies:
            reply = self.server.replies.pop(0)
            self._send(*(reply(body) if isinstance(reply, Callable) else reply))
            return
        rows = self.server.embedder.embed_passages(body["input"])
        # In another order than asked, as servers may.
        data = [{"index": n, "embedding": (3 * row).tolist()} for n, row in enumerate(rows)][::-1]
        self._send(200, "application/json", json.dumps({"data": data}))

    def _send(self, status: int, kind: str, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def _serving() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        running = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        running.start()
        yield server
        server.shutdown()
        running.join()


@pytest.fixture
def embedding_server() -> Iterator[EmbeddingServer]:
    """A local server that embeds."""
    with _serving() as server:
        yield server


@pytest.fixture(scope="module")
def shared_embedding_server() -> Iterator[EmbeddingServer]:
    """The same for a whole module."""
    with _serving() as server:
        yield server
