"""The server of the benchmarks: nginx without a log, and on request a network that takes time.

    python bench/serve.py ROOT [--delay SECONDS]

prints the URL and serves until it is interrupted. Benchmarks use `serve` and `latency_proxy`.
"""

import argparse
import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.servers import nginx

_CHUNK = 65_536  # bytes
_IN_FLIGHT = 1_024  # chunks of one connection: what the delayed wire holds
_STOP_SECONDS = 5


@contextmanager
def serve(root: Path, *, delay: float = 0, extra: str = "") -> Iterator[str]:
    """Serve `root` with nginx and yield the URL; answers take `delay` seconds more.

    `extra` is put into nginx's server block.
    """
    with ExitStack() as stack:
        # A redirect that names the port would lead past the proxy.
        extra += "absolute_redirect off;" if delay else ""
        try:
            server = stack.enter_context(nginx(root, access_log=False, extra=extra))
        except pytest.skip.Exception as error:
            raise SystemExit(str(error)) from None
        if not delay:
            yield server.url
        else:
            port = stack.enter_context(latency_proxy(server.port, delay))
            yield f"http://127.0.0.1:{port}/"


@contextmanager
def latency_proxy(port: int, delay: float, host: str = "127.0.0.1") -> Iterator[int]:
    """Yield a port of `host` that leads to `port`, with answers `delay` seconds later.

    Every chunk of the response direction is late by `delay`, however many are under way: this is
    latency and not a limit of bandwidth. Requests, and the opening of a connection, are not
    delayed. The proxy is a process of its own; its CPU time is not the caller's.
    """
    process = subprocess.Popen(
        [sys.executable, __file__, "--proxy", str(port), "--delay", str(delay), "--host", host],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        if not said.strip().isdigit():
            raise RuntimeError(f"the proxy did not start: {said!r}")
        yield int(said)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdin.close()
        process.stdout.close()


# The proxy's own process


async def _proxy(port: int, delay: float, host: str) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_copy(reader, far_writer, 0))
                    tasks.create_task(_copy(far_reader, writer, delay))
            finally:
                far_writer.close()
        except* OSError:
            pass  # one of the two left: so does the other
        finally:
            writer.close()

    server = await asyncio.start_server(connected, host, 0, backlog=1_024)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def wait_for_the_end() -> None:  # of the parent, however it ends
        sys.stdin.read()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    await ended.wait()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Hand on each chunk, and at last the end, `delay` seconds after it came."""
    loop = asyncio.get_running_loop()
    wire: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_IN_FLIGHT)

    async def receive() -> None:
        chunk = b"-"
        while chunk:
            chunk = await reader.read(_CHUNK)
            await wire.put((loop.time() + delay, chunk))

    async def send() -> None:
        while True:
            due, chunk = await wire.get()
            await asyncio.sleep(max(0, due - loop.time()))
            if not chunk:
                writer.write_eof()
                return
            writer.write(chunk)
            await writer.drain()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(receive())
        tasks.create_task(send())


def main() -> None:
    parser = argparse.ArgumentParser(description="Serve a directory for the benchmarks.")
    parser.add_argument("root", type=Path, nargs="?")
    parser.add_argument("--delay", type=float, default=0, help="seconds more for each answer")
    parser.add_argument("--proxy", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--host", default="127.0.0.1", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.proxy:
        asyncio.run(_proxy(arguments.proxy, arguments.delay, arguments.host))
    elif arguments.root is None:
        parser.error("which directory?")
    else:
        # An end by SIGTERM ends nginx too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with serve(arguments.root, delay=arguments.delay) as url, suppress(KeyboardInterrupt):
            print(url, flush=True)
            threading.Event().wait()


if __name__ == "__main__":
    main()
