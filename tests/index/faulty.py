"""A small proxy in front of a real Elasticsearch, which answers wrongly when a test says so."""

import http.client
import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

PRODUCT = {"X-Elastic-Product": "Elasticsearch", "Content-Type": "application/json"}


class Answer(NamedTuple):
    """What a client gets."""

    status: int
    headers: dict[str, str]
    body: bytes


class Asked(NamedTuple):
    """One request that came."""

    method: str
    path: str
    body: bytes


Forward = Callable[[Asked], Answer]
Fault = Callable[[Asked, Forward], Answer | None]  #: None: the connection is closed


class Faulty(ThreadingHTTPServer):
    """Passes on what is asked; each fault meets the next request to a path that ends so."""

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.upstream = port
        self.asked: list[Asked] = []
        self.over = threading.Event()
        self._faults: dict[str, deque[Fault]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def bulks(self) -> list[Asked]:
        return [one for one in self.asked if one.path.partition("?")[0].endswith("/_bulk")]

    def will(self, end: str, *faults: Fault) -> None:
        """Meet the next requests to a path with these faults, one each."""
        self._faults.setdefault(end, deque()).extend(faults)

    def fault(self, path: str) -> Fault | None:
        for end, faults in self._faults.items():
            if faults and path.partition("?")[0].endswith(end):
                return faults.popleft()
        return None

    def forward(self, asked: Asked, headers: dict[str, str]) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=60)
        kept = {k: v for k, v in headers.items() if k.lower() not in ("host", "content-length")}
        connection.request(asked.method, asked.path, asked.body or None, kept)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        told = {k: v for k, v in answer.getheaders()
                if k.lower() not in ("content-length", "transfer-encoding")}  # fmt: skip
        return Answer(answer.status, told, body)


class _Handler(BaseHTTPRequestHandler):
    server: Faulty
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = Asked(self.command, self.path, body)
        self.server.asked.append(asked)
        fault = self.server.fault(self.path)

        def forward(to_send: Asked) -> Answer:
            return self.server.forward(to_send, dict(self.headers))

        answer = forward(asked) if fault is None else fault(asked, forward)
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def faulty(port: int) -> Iterator[Faulty]:
    """Run a proxy in front of a port of loopback."""
    server = Faulty(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


# Faults


def status(number: int, type_: str = "some_exception", reason: str = "too much") -> Fault:
    """Answer with an error, and let nothing through."""
    told = {"error": {"type": type_, "reason": reason, "root_cause": []}, "status": number}
    return lambda asked, forward: Answer(number, PRODUCT, json.dumps(told).encode())


def cut_off(asked: Asked, forward: Forward) -> None:
    """Close the connection instead of answering; nothing gets through."""


def lost_answer(asked: Asked, forward: Forward) -> None:
    """Let the request through, and lose the answer."""
    forward(asked)


def silent(asked: Asked, forward: Forward, seconds: float = 1.5) -> None:
    """Let the request through, and answer nothing for longer than the client waits."""
    forward(asked)
    threading.Event().wait(seconds)


def short(asked: Asked, forward: Forward) -> Answer:
    """Let the request through, and leave the last item out of the answer."""
    answer = forward(asked)
    told = json.loads(answer.body)
    return answer._replace(body=json.dumps({**told, "items": told["items"][:-1]}).encode())


def item(place: int, number: int, type_: str = "es_rejected_execution_exception") -> Fault:
    """Let all but one document of a bulk through, which gets this status instead."""

    def answer(asked: Asked, forward: Forward) -> Answer:
        lines = asked.body.splitlines()
        key = json.loads(lines[2 * place])["index"]["_id"]
        kept = lines[: 2 * place] + lines[2 * place + 2 :]
        error = {"type": type_, "reason": "queue capacity"}
        refused = {"index": {"_id": key, "status": number, "error": error}}
        if not kept:
            return Answer(200, PRODUCT, json.dumps({"items": [refused]}).encode())
        got = forward(asked._replace(body=b"\n".join(kept) + b"\n"))
        items = json.loads(got.body)["items"]
        items.insert(place, refused)
        return got._replace(body=json.dumps({"items": items}).encode())

    return answer


def under_pressure(limit: int) -> Fault:
    """Refuse a body that is larger, as an Elasticsearch with little memory does."""

    def answer(asked: Asked, forward: Forward) -> Answer:
        size = len(asked.body)
        if size <= limit:
            return forward(asked)
        reason = (
            "rejected execution of coordinating operation [coordinating_and_primary_bytes=0,"
            f" replica_bytes=0, all_bytes=0, coordinating_operation_bytes={size},"
            f" max_coordinating_bytes={limit}]"
        )
        error = {"type": "es_rejected_execution_exception", "reason": reason}
        return Answer(429, PRODUCT, json.dumps({"error": error, "status": 429}).encode())

    return answer


def at_most(size: int) -> Fault:
    """Refuse a body that is larger, as a proxy with such a limit does."""

    def answer(asked: Asked, forward: Forward) -> Answer:
        if len(asked.body) > size:
            return Answer(413, {"Content-Type": "text/html"}, b"<h1>Too large</h1>")
        return forward(asked)

    return answer
