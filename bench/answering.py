"""A bare server, and a client of any, for bench/api.

    python bench/answering.py hello
    python bench/answering.py ask PORT CONNECTIONS <REQUESTS

The first is FastAPI's hello under uvicorn, set as the API sets it: it prints its port, and serves
until standard input ends. The second reads one JSON object, ``paths`` to ask and ``headers`` to
send, asks them over connections that stay open, each the next one after its answer, and prints one
line of JSON: the number of answers, wall seconds, and milliseconds of the median and of the slowest
hundredth.
"""

import asyncio
import json
import socket
import sys
import threading
import time
from collections import deque
from typing import Any

import uvicorn
from fastapi import FastAPI


class Asking(asyncio.Protocol):
    """One connection: it asks until no path is left."""

    def __init__(self, requests: deque[bytes], times: list[float], done: asyncio.Future) -> None:
        self._requests = requests
        self._times = times
        self._done = done
        self._buffer = bytearray()
        self._transport: Any = None
        self._begun = 0.0

    def connection_made(self, transport: Any) -> None:
        """Ask for the first time."""
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        """Note the time of a whole answer, and ask again."""
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        lines = bytes(head).lower().split(b"\r\n")
        if not lines[0].startswith(b"http/1.1 200"):
            self._fail(bytes(self._buffer[:500]))
            return
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        if len(body) >= length:
            self._times.append(time.perf_counter() - self._begun)
            self._buffer.clear()
            self._next()

    def connection_lost(self, _: Exception | None) -> None:
        """End; with an error if the server ended it."""
        self._fail(b"the connection was closed")

    def _next(self) -> None:
        if self._requests:
            self._begun = time.perf_counter()
            self._transport.write(self._requests.popleft())
        elif not self._done.done():
            self._done.set_result(None)

    def _fail(self, text: bytes) -> None:
        if not self._done.done():
            self._done.set_exception(RuntimeError(text.decode("latin-1")))


async def ask(port: int, connections: int, paths: list[str], headers: dict[str, str]) -> None:
    """Ask all paths, and print the figures."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    end = f" HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{lines}\r\n"
    requests = deque(f"GET {path}{end}".encode() for path in paths)
    loop = asyncio.get_running_loop()
    times: list[float] = []
    begun = time.perf_counter()
    ends = []
    for _ in range(connections):
        done = loop.create_future()
        ends.append(done)
        await loop.create_connection(lambda: Asking(requests, times, done), "127.0.0.1", port)  # noqa: B023  # called at once
    await asyncio.gather(*ends)
    wall = time.perf_counter() - begun
    times.sort()
    ranked = {"p50": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}
    milliseconds = {name: 1000 * seconds for name, seconds in ranked.items()}
    print(json.dumps({"pages": len(times), "wall": wall, **milliseconds}))


def hello() -> None:
    """Serve FastAPI's hello."""
    app = FastAPI()

    @app.get("/")
    async def root() -> dict[str, str]:
        return {"message": "Hello World"}

    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as uvicorn alone has it
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, ws="none")
    server = uvicorn.Server(config)
    print(listening.getsockname()[1], flush=True)

    def wait_for_the_end() -> None:  # of the parent, however it ends
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    server.run(sockets=[listening])


if __name__ == "__main__":
    if sys.argv[1] == "hello":
        hello()
    else:
        asked = json.load(sys.stdin)
        asyncio.run(ask(int(sys.argv[2]), int(sys.argv[3]), asked["paths"], asked["headers"]))
