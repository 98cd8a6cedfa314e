"""A server on loopback that answers each path with bytes, as a test says."""

import socket
import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Thread
from types import TracebackType
from typing import Self

Steps = Iterable[bytes]


def plain(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Origin:
    """Answers by path; an answer in parts is sent until the client goes away."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, bytes | Callable[[], Steps]] = {}
        self.asked: list[str] = []  #: request lines
        self.requests: list[str] = []  #: whole ones
        self._tls = tls
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listening.getsockname()[1]
        self.host = f"127.0.0.1:{self.port}"
        self._thread = Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(10)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            elif connection.recv(1, socket.MSG_PEEK) == b"\x16":
                return  # a handshake of TLS
            received = b""
            while b"\r\n\r\n" not in received:
                part = connection.recv(65_536)
                if not part:
                    return
                received += part
            text = received.decode("latin-1")
            self.asked.append(text.partition("\r\n")[0])
            self.requests.append(text)
            answer = self.answers.get(text.split(" ")[1], plain(b"", status="404 Not Found"))
            for part in [answer] if isinstance(answer, bytes) else answer():
                connection.sendall(part)
            connection.shutdown(socket.SHUT_RDWR)
            connection.close()
