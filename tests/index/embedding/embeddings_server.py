"""A server with ``/v1/embeddings`` on loopback, which answers as a test says.

Its vectors are deterministic: ``numbers(text)``, as a client's is after it was normed.
"""

import json
import math
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DIMENSION = 4
KEY = "sk-geheim0123456789"


def numbers(text: str) -> list[float]:
    """Return the vector that the server has for a text; it is not of length 1."""
    return [byte + 1.0 for byte in sha256(text.encode()).digest()[:DIMENSION]]


def unit(values: list[float]) -> bytes:
    """Return a vector of length 1 as an embedder shall return it."""
    length = math.sqrt(math.fsum(value * value for value in values))
    return struct.pack(f"<{len(values)}f", *(value / length for value in values))


def vector(text: str) -> bytes:
    """Return the vector that an embedder shall return for a text."""
    return unit(numbers(text))


@dataclass
class Reply:
    """One answer of the server."""

    body: object = None  #: bytes are sent as they are, anything else as JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    pieces: int = 1  #: the body is sent in so many pieces …
    pause: float = 0  #: … with so many seconds before each; the connection then breaks off if
    breaks_off: bool = False  #: this is set


@dataclass
class Asked:
    """One request."""

    path: str
    headers: dict[str, str]  #: names in lower case
    body: dict

    @property
    def texts(self) -> list[str]:
        return self.body["input"]


def embeddings(texts: list[str], vectors: list | None = None) -> dict:
    """Return the API's answer for some texts."""
    found = [numbers(text) for text in texts] if vectors is None else vectors
    return {
        "object": "list",
        "model": "some-model",
        "data": [
            {"object": "embedding", "index": index, "embedding": each}
            for index, each in enumerate(found)
        ],
        "usage": {"prompt_tokens": 1, "total_tokens": 1},
    }


def error(message: str, status: int, code: str | None = None, **headers: str) -> Reply:
    """Return an answer with an error in the API's form."""
    answer = {"error": {"message": message, "type": "some_error", "param": None, "code": code}}
    return Reply(answer, status, {name.replace("_", "-"): text for name, text in headers.items()})


Answering = Callable[[Asked], Reply | None]  #: None: the right answer


class EmbeddingsServer:
    """What was asked, and how it is answered: by ``replies``, one each, then by ``answer``."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.host = f"127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.replies: list[Reply | None] = []  #: None: the right answer
        self.answer: Answering = lambda asked: None
        self.hangs = threading.Event()  #: set: no request is answered before ``released``
        self.released = threading.Event()

    def reply(self, asked: Asked) -> Reply:
        self.asked.append(asked)
        given = self.replies.pop(0) if self.replies else self.answer(asked)
        return Reply(embeddings(asked.texts)) if given is None else given

    @property
    def settings(self) -> dict[str, str]:
        """The settings of its client, which does not wait for it in an outage."""
        return {
            "EMBEDDER": "openai",
            "EMBEDDING_URL": self.url,
            "EMBEDDING_MODEL": "some-model",
            "EMBEDDING_DIMENSION": str(DIMENSION),
            "EMBEDDING_WAIT_SECONDS": "0",
        }

    @property
    def batches(self) -> list[list[str]]:
        return [asked.texts for asked in self.asked]


@contextmanager
def embeddings_server() -> Iterator[EmbeddingsServer]:
    """Serve until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer takes 40 ms

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            headers = {name.lower(): text for name, text in self.headers.items()}
            reply = server.reply(Asked(self.path, headers, body))
            if server.hangs.is_set():
                server.released.wait(10)
            text = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            self.send_header("Content-Length", str(len(text) + reply.breaks_off))
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.end_headers()
            size = -(-len(text) // reply.pieces) or 1
            for start in range(0, len(text), size):
                server.released.wait(reply.pause)
                self.wfile.write(text[start : start + size])
            self.close_connection = reply.breaks_off

        def do_GET(self) -> None:
            """Answer the one who follows a redirect, to be found by it."""
            server.asked.append(Asked(self.path, {}, {"input": []}))
            self.send_error(404)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

        def handle(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # of a client that has given up
                super().handle()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        server = EmbeddingsServer(listening.server_port)
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            listening.shutdown()
            thread.join()
