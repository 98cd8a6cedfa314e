"""A server with ``/v1/embeddings`` on loopback, which answers as a test says.

Its vectors are deterministic: ``numbers(text)``, as a client's is after it was normed.
"""

import json
import math
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

from tests.openai_server import Reply, Request, error, openai_server

DIMENSION = 4


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
class Asked:
    """One request."""

    path: str
    headers: dict[str, str]  #: names in lower case
    body: dict
    connection: int = 0  #: port of the client

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


Answering = Callable[[Asked], Reply | None]  #: None: the right answer


class EmbeddingsServer:
    """What was asked, and how it is answered: by ``replies``, one each, then by ``answer``."""

    def __init__(self, port: int, released: threading.Event) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.host = f"127.0.0.1:{port}"
        self.asked: list[Asked] = []
        self.replies: list[Reply | None] = []  #: None: the right answer
        self.answer: Answering = lambda asked: None
        self.hangs = threading.Event()  #: set: no request is answered before ``released``
        self.released = released

    def reply(self, request: Request) -> Reply:
        is_post = request.method == "POST"
        body = json.loads(request.body) if is_post else {"input": []}
        asked = Asked(request.path, request.headers, body, request.connection)
        self.asked.append(asked)
        if not is_post:  # of a client that followed a redirect
            return error("Unknown request URL", 404)
        given = self.replies.pop(0) if self.replies else self.answer(asked)
        if self.hangs.is_set():
            self.released.wait(10)
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

    def reply(request: Request) -> Reply:
        return server.reply(request)

    released = threading.Event()
    with openai_server(reply, released.wait) as port:
        server = EmbeddingsServer(port, released)
        try:
            yield server
        finally:
            released.set()
