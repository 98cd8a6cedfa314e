"""The server: four listeners on loopback, a log of requests, and faults.

with SharepointServer(tmp_path) as server:      # or the fixture `sharepoint`
    site = server.tenant.site("/sites/demo")
    library = site.library()
    library.add("Reports/Q1.docx", b"...")
    crawl(server.site_url(site), settings=server.settings)
    server.asked("rest", r"/items")             # requests so far
"""

from __future__ import annotations

import re
import ssl
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.certificates import made, written
from tests.servers.sharepoint import graph, rest
from tests.servers.sharepoint.answers import Answer, Request
from tests.servers.sharepoint.faults import Fault
from tests.servers.sharepoint.signin import Issuer
from tests.servers.sharepoint.tenant import Site, Tenant

PLACES = ("signin", "rest", "graph", "content")
_SECONDS = 60  #: that a connection waits for its client


@dataclass(frozen=True)
class Asked:
    """One request, and the status of its answer; secrets are not in it."""

    place: str
    method: str
    target: str  #: path and query, decoded
    status: int
    token: str  #: #1 for the first token given, `wrong` for another one, empty without
    headers: dict[str, str]  #: names in lower case, without Authorization


class SharepointServer:
    """A tenant that is served; `begin` puts an empty one in its place."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        authority = made("Sign-in authority", authority=True)
        self.ca_file = written(folder, "signin-authority.pem", authority, key=False)
        signer = made("signin", hosts=("127.0.0.1", "localhost"), issuer=authority)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(written(folder, "signin-server.pem", signer))
        self._listeners = {
            place: _Listener(self, place, context if place == "signin" else None)
            for place in PLACES
        }
        self.begin()

    def begin(self) -> None:
        """Forget all: an empty tenant, no faults, no log."""
        self.tenant = Tenant()
        self.issuer = Issuer(self.tenant)
        hosts = {self.origin(place).partition("://")[2] for place in ("rest", "graph")}
        self.issuer.audiences = {*hosts, "graph.microsoft.com"}
        self.faults: list[Fault] = []
        self.log: list[Asked] = []
        self.tickets: dict[str, Any] = {}  #: entries by the path of their download address
        #: Called with each request before it is answered, e.g. to change the library.
        self.before: Callable[[Request], None] = lambda request: None

    # For tests

    def origin(self, place: str) -> str:
        """Return scheme, host and port of a listener."""
        return self._listeners[place].origin

    def site_url(self, site: Site) -> str:
        """Return the `site_url` of a domain."""
        return self.origin("rest") + quote(site.path)

    @property
    def login_url(self) -> str:
        return self.origin("signin")

    @property
    def graph_url(self) -> str:
        return f"{self.origin('graph')}/v1.0"

    @cached_property
    def certificate(self) -> Path:
        """A key and its certificate in one PEM file, which `settings` registers on the app."""
        return self.new_certificate("client.pem")

    @cached_property
    def _registered(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes())

    def new_certificate(self, name: str, ends_in: timedelta = timedelta(days=1)) -> Path:
        """Write another key with a certificate, which is not registered."""
        key = rsa.generate_private_key(65537, 2048)
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "smartcrawl")])
        end = datetime.now(UTC) + ends_in
        builder = x509.CertificateBuilder(
            subject, subject, key.public_key(), x509.random_serial_number()
        )
        builder = builder.not_valid_before(end - timedelta(days=9)).not_valid_after(end)
        pem = serialization.Encoding.PEM
        plain = serialization.NoEncryption()
        private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        file = self.folder / name
        file.write_bytes(private + builder.sign(key, hashes.SHA256()).public_bytes(pem))
        return file

    def register(self, file: Path) -> None:
        """Register the certificate of a PEM file on the app."""
        self.issuer.certificates.append(x509.load_pem_x509_certificate(file.read_bytes()))

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a crawl by REST, signed in with a certificate."""
        if self._registered not in self.issuer.certificates:
            self.issuer.certificates.append(self._registered)
        return self._common | {"SHAREPOINT_CERTIFICATE": str(self.certificate)}

    @property
    def graph_settings(self) -> dict[str, str]:
        """The settings of a crawl by Graph, signed in with a secret."""
        secret = next(secret for secret, valid in self.issuer.secrets.items() if valid)
        return self._common | {"SHAREPOINT_API": "graph", "SHAREPOINT_CLIENT_SECRET": secret}

    @property
    def _common(self) -> dict[str, str]:
        return {
            "SHAREPOINT_TENANT": self.tenant.id,
            "SHAREPOINT_CLIENT_ID": self.issuer.client_id,
            "SHAREPOINT_LOGIN_URL": self.login_url,
            "SHAREPOINT_CA_FILE": str(self.ca_file),
            "GRAPH_URL": self.graph_url,
            "ALLOW_NETWORKS": "127.0.0.0/8",
        }

    def fail(self, kind: str | int, pattern: str = "", **facts: Any) -> Fault:
        """Script a fault; `tests/servers/sharepoint/faults.py` lists kinds and facts."""
        fault = Fault(str(kind), pattern, **facts)
        self.faults.append(fault)
        return fault

    def asked(self, place: str = "", pattern: str = "") -> list[Asked]:
        """Return the requests to a place whose path and query match, in their order."""
        return [
            asked
            for asked in self.log
            if place in ("", asked.place) and re.search(pattern, asked.target)
        ]

    # Answers

    def answer(self, request: Request) -> Answer:
        """Return the answer to a request, and log it."""
        self.before(request)
        with self.tenant.lock:
            work = {
                "signin": self.issuer.answer,
                "rest": lambda asked: rest.answer(self.tenant, self.issuer, asked),
                "graph": lambda asked: graph.answer(self, asked),
                "content": lambda asked: graph.download(self, asked),
            }[request.place]
            struck = [fault for fault in self.faults if fault.strikes(request)]
            found = (struck[0].answer(request, work) if struck else work(request)).settled()
            self._note(request, found.status)
        if found.delay:
            time.sleep(found.delay)
        return found

    def _note(self, request: Request, status: int) -> None:
        given = request.headers.get("authorization", "")
        token = self.issuer.token(given)
        word = f"#{token.number}" if token else "wrong" if given else ""
        shown = {name: text for name, text in request.headers.items() if name != "authorization"}
        asked = Asked(request.place, request.method, request.target, status, word, shown)
        self.log.append(asked)

    def __enter__(self) -> Self:
        for listener in self._listeners.values():
            listener.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for listener in self._listeners.values():
            listener.stop()


class _Quiet(ThreadingHTTPServer):
    """Says nothing of clients that end a connection.

    The thread that accepts connections does nothing else: TLS begins in the thread of a connection,
    so that no client, and no error of one, keeps others waiting.
    """

    daemon_threads = True
    request_queue_size = 128  # 64 connections may be opened at once
    context: ssl.SSLContext | None = None

    def finish_request(self, request: Any, client_address: Any) -> None:
        if self.context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(_SECONDS)
        with self.context.wrap_socket(request, server_side=True) as secured:
            super().finish_request(secured, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exception(), OSError):  # ssl.SSLError is one
            super().handle_error(request, client_address)


class _Listener:
    """One port."""

    def __init__(
        self, server: SharepointServer, place: str, context: ssl.SSLContext | None
    ) -> None:
        self._server = _Quiet(("127.0.0.1", 0), _handler(server, place, self))
        self._server.context = context
        scheme = "http" if context is None else "https"
        self.origin = f"{scheme}://127.0.0.1:{self._server.server_port}"
        self.thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self.thread.join()


def _handler(
    server: SharepointServer, place: str, listener: _Listener
) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = _SECONDS

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            path, _, query = self.path.partition("?")
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self.rfile.read(length)
            self._send(
                server.answer(
                    Request(self.command, place, listener.origin, path, query, headers, body)
                )
            )

        do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_PATCH = answer  # noqa: N815

        def _send(self, answer: Answer) -> None:
            if answer.closed:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            half = answer.body[: len(answer.body) // 2]
            self.wfile.write(half if answer.cut else answer.body)
            self.close_connection = self.close_connection or answer.cut

        def log_message(self, *words: object) -> None:
            """Write nothing to the terminal."""

    return Handler
