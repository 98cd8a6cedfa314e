"""Receivers of notices on loopback: of webhooks, and of mails."""

import socketserver
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


@dataclass
class Hook:
    """A server that takes webhooks."""

    url: str = ""
    status: int = 204
    headers: dict[str, str] = field(default_factory=dict)  #: of its answers
    hangs: bool = False
    taken: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    over: Event = field(default_factory=Event)


@contextmanager
def hook() -> Iterator[Hook]:
    """Serve webhooks."""
    found = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.taken.append(({k.lower(): v for k, v in self.headers.items()}, body))
            if found.hangs:
                found.over.wait(30)
                return
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://127.0.0.1:{server.server_port}/hook"
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield found
        found.over.set()
        server.shutdown()


@dataclass
class MailBox:
    """A server that takes mails over SMTP, without TLS."""

    port: int = 0
    mails: list[str] = field(default_factory=list)
    refuses: bool = False


@contextmanager
def mail_box() -> Iterator[MailBox]:
    """Serve SMTP: EHLO, MAIL, RCPT, DATA and QUIT (RFC 5321)."""
    box = MailBox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 mail.example\r\n")
            for line in self.rfile:
                word = line[:4].upper()
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    lines = []
                    while (part := self.rfile.readline()) not in (b".\r\n", b""):
                        lines.append(part.decode())
                    box.mails.append("".join(lines))
                if word == b"RCPT" and box.refuses:
                    self.wfile.write(b"550 no such user\r\n")
                    continue
                self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        box.port = server.server_address[1]
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield box
        server.shutdown()
