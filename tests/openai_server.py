"""Servers on loopback with an API as OpenAI has it: requests, answers, and how answers fail."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "sk-geheim0123456789"


@dataclass
class Reply:
    """One answer of a server."""

    body: object = None  #: bytes are sent as they are, anything else as JSON
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    pieces: int = 1  #: the body is sent in so many pieces …
    pause: float = 0  #: … with so many seconds before each; the connection then breaks off if
    breaks_off: bool = False  #: this is set
    is_done: bool = False  #: whether the request is carried out nevertheless
    drops: bool = False  #: the answer is whole, and the connection ends without a word after it


@dataclass
class Request:
    """One request, with the names of its headers in lower case."""

    method: str
    path: str  #: of the request, and its query
    headers: dict[str, str]
    body: bytes
    connection: int  #: port of the client


def error(message: str, status: int, code: str | None = None, **headers: str) -> Reply:
    """Return an answer with an error in the API's form."""
    answer = {"error": {"message": message, "type": "some_error", "param": None, "code": code}}
    return Reply(answer, status, {name.replace("_", "-"): text for name, text in headers.items()})


@contextmanager
def openai_server(
    reply: Callable[[Request], Reply], pause: Callable[[float], object] = time.sleep
) -> Iterator[int]:
    """Answer requests until the end of the block, which gets the port.

    ``reply`` is called by several threads. ``pause`` waits for seconds.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else each answer takes 40 ms

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): text for name, text in self.headers.items()}
            self.send(
                reply(Request(self.command, self.path, headers, body, self.client_address[1]))
            )

        def do_GET(self) -> None:
            self.answer()

        def do_POST(self) -> None:
            self.answer()

        def do_DELETE(self) -> None:
            self.answer()

        def send(self, given: Reply) -> None:
            text = given.body if isinstance(given.body, bytes) else json.dumps(given.body).encode()
            self.send_response(given.status)
            self.send_header("Content-Type", given.content_type)
            self.send_header("Content-Length", str(len(text) + given.breaks_off))
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.end_headers()
            size = -(-len(text) // given.pieces) or 1
            for start in range(0, len(text), size):
                pause(given.pause)
                self.wfile.write(text[start : start + size])
            self.close_connection = given.breaks_off or given.drops

        def log_message(self, *args: object) -> None:
            """Print nothing."""

        def handle(self) -> None:
            with suppress(BrokenPipeError, ConnectionResetError):  # of a client that has given up
                super().handle()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listening.server_port
        finally:
            listening.shutdown()
            thread.join()
