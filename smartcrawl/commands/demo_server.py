"""The site of the demo: a few pages about bread, and a web server on loopback that sends them."""

from __future__ import annotations

import hashlib
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from smartcrawl.model.exceptions import SmartcrawlError

LOOPBACK: Final = "127.0.0.1"
EDITED, ADDED, DELETED = "/baking.html", "/recipes/focaccia.html", "/recipes/pizza.html"

_FOLDER: Final = "demo_site"  #: beside this module; its folders are ``first`` and ``second``
_FIRST: Final = datetime(2025, 3, 3, 8, 0, tzinfo=UTC)  #: Last-Modified of the first pages
_SECOND: Final = datetime(2025, 3, 10, 8, 0, tzinfo=UTC)  #: Last-Modified after the edit
_TYPES: Final = {".html": "text/html; charset=utf-8", ".md": "text/markdown; charset=utf-8"}
_IDLE_SECONDS: Final = 30  #: after which a connection without a request is closed
_POLL_SECONDS: Final = 0.05


class DemoError(SmartcrawlError):
    """The demo could not be carried out."""


@dataclass(frozen=True, slots=True)
class Document:
    """A page of the site, with its validators."""

    body: bytes
    media_type: str
    modified: datetime

    @property
    def etag(self) -> str:
        """A strong validator, made of the body."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"'

    def is_known_to(self, etags: str | None, since: str | None) -> bool:
        """Whether a client with these validators has this version (RFC 9110, 13.2.2)."""
        if etags is not None:
            return self.etag in [tag.strip().removeprefix("W/") for tag in etags.split(",")]
        if since is None:
            return False
        try:
            return self.modified <= parsedate_to_datetime(since)
        except (TypeError, ValueError):  # no date, or one without a time zone
            return False


class Site:
    """The pages by path, and the number of answers by status.

    ``sitemap``: whether robots.txt names one; it alone leads to one of the pages.
    """

    def __init__(self, *, sitemap: bool = True) -> None:
        """Read the first version of each page."""
        self._named = sitemap
        self.base = ""  #: the address of the server, without a slash at its end
        self.pages: dict[str, Document] = {}
        self.answers: Counter[int] = Counter()  #: to requests for pages
        self._read("first", _FIRST)

    def change(self) -> None:
        """Edit a page, add one, and delete one."""
        self._read("second", _SECOND)
        del self.pages[DELETED]

    def find(self, path: str) -> Document | None:
        """Return the document of a path, or None if there is none."""
        match path:
            case "/robots.txt":
                sitemap = f"\nSitemap: {self.base}/sitemap.xml\n" if self._named else ""
                rules = f"User-agent: *\nDisallow: /drafts/\n{sitemap}"
                return Document(rules.encode(), "text/plain; charset=utf-8", _FIRST)
            case "/sitemap.xml":
                return self._sitemap()
            case _:
                return self.pages.get(path)

    def _read(self, version: str, modified: datetime) -> None:
        for path, body in _documents(files(__package__) / _FOLDER / version, ""):
            suffix = path[path.rindex(".") :]
            address = "/" if path == "/index.html" else path
            self.pages[address] = Document(body, _TYPES[suffix], modified)

    def _sitemap(self) -> Document:
        entries = "".join(
            f"  <url><loc>{escape(self.base + path)}</loc>"
            f"<lastmod>{page.modified.isoformat()}</lastmod></url>\n"
            for path, page in sorted(self.pages.items())
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</urlset>\n'
        )
        modified = max(page.modified for page in self.pages.values())
        return Document(text.encode(), "application/xml", modified)


@contextmanager
def serving_demo_site(site: Site, host: str = LOOPBACK, port: int = 0) -> Iterator[str]:
    """Serve a site, and yield its address; port 0: any free one.

    Raises:
        DemoError: no port could be opened.
    """
    try:
        server = _Server((host, port), partial(_Handler, site))
    except OSError as error:
        raise DemoError(
            f"cannot start a web server on {host}: {error.strerror or error}. The demo "
            "needs one free port of the loopback interface; check that it is up (ip link "
            "set lo up)"
        ) from error
    with server:
        site.base = f"http://{host}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
        thread.start()
        try:
            yield f"{site.base}/"
        finally:
            server.shutdown()
            thread.join()


def _documents(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the body of each file in a folder, also in folders below it."""
    for entry in folder.iterdir():
        below = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _documents(entry, below)
        else:
            yield below, entry.read_bytes()


class _Server(ThreadingHTTPServer):
    def server_bind(self) -> None:
        """Bind the port, without the look-up of a name that the base class makes."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away; its command reports the failure."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS

    def __init__(self, site: Site, *args: object) -> None:
        self._site = site
        super().__init__(*args)  # type: ignore[arg-type]  # as the server passes them

    def do_GET(self) -> None:  # the base class calls it
        """Answer with 200, 304 or 404."""
        path = urlsplit(self.path).path
        document = self._site.find(path)
        if document is None:
            self._answer(path, HTTPStatus.NOT_FOUND, b"not here\n")
            return
        known = document.is_known_to(
            self.headers["If-None-Match"], self.headers["If-Modified-Since"]
        )
        status = HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK
        self._answer(path, status, b"" if known else document.body, document)

    def _answer(
        self, path: str, status: HTTPStatus, body: bytes, document: Document | None = None
    ) -> None:
        if path not in ("/robots.txt", "/sitemap.xml"):
            self._site.answers[status] += 1
        self.send_response(status)
        if document is not None:
            self.send_header("Content-Type", document.media_type)
            self.send_header("ETag", document.etag)
            self.send_header("Last-Modified", format_datetime(document.modified, usegmt=True))
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # of the base class
        """Log no request: the commands report them."""
