"""A small proxy on loopback: it opens tunnels (CONNECT) and passes on requests for http."""

import base64
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Tunnelled:
    """One request to the proxy."""

    method: str
    target: str
    status: int
    headers: dict[str, str] = field(repr=False)


class ConnectProxy:
    """A proxy that knows some names, wherever they lead; all others it resolves itself."""

    def __init__(self, names: Mapping[str, int], password: str | None = None) -> None:
        """``names``: port of loopback by host. ``password``: of the user ``user``."""
        self.names = dict(names)
        self.password = password
        self.log: list[Tunnelled] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self.place = f"127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """The address for the environment, with user and password."""
        user = "" if self.password is None else f"user:{self.password}@"
        return f"http://{user}{self.place}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def permits(self, headers: Mapping[str, str]) -> bool:
        """Whether the password is right."""
        if self.password is None:
            return True
        right = base64.b64encode(f"user:{self.password}".encode()).decode()
        return headers.get("proxy-authorization") == f"Basic {right}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _refused(self, host: str) -> bool:
                headers = {name.lower(): value for name, value in self.headers.items()}
                status = 200
                if not proxy.permits(headers):
                    status = 407
                elif host not in proxy.names:
                    status = 502
                proxy.log.append(Tunnelled(self.command, self.path, status, headers))
                if status != 200:
                    self.close_connection = True
                    self.send_response(status)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                return status != 200

            def do_CONNECT(self) -> None:
                host = self.path.rpartition(":")[0]
                if self._refused(host):
                    return
                self.close_connection = True
                with socket.create_connection(("127.0.0.1", proxy.names[host])) as there:
                    self.send_response(200)
                    self.end_headers()
                    back = threading.Thread(target=_pump, args=(there, self.connection))
                    back.start()
                    _pump(self.connection, there)
                    back.join()

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                parts = urlsplit(self.path)
                if self._refused(parts.hostname or ""):
                    return
                there = HTTPConnection("127.0.0.1", proxy.names[parts.hostname or ""])
                sent = {
                    name: value
                    for name, value in self.headers.items()
                    if not name.lower().startswith("proxy-")
                }
                target = parts.path + (f"?{parts.query}" if parts.query else "")
                there.request(self.command, target, body=body or None, headers=sent)
                answer = there.getresponse()
                body = answer.read()
                there.close()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("date", "server", "content-length"):
                        self.send_header(name, value)
                if answer.status != 304:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.do_GET()

            def log_message(self, *words: object) -> None:
                """Write nothing to the terminal."""

        return Handler


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until one side ends, then end the other."""
    try:
        while data := source.recv(65_536):
            target.sendall(data)
    except OSError:
        pass
    for side in (source, target):
        try:
            side.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue
