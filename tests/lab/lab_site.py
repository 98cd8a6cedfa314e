"""Web sites in memory: the pages of `tests.site_server.Site`, without a socket."""

import gzip
from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from smartcrawl.rules.model import Fault
from tests.site_server import Site

HOST = "site.example"
#: What the client of a real crawl would say of a fault, behind the message.
_DETAILS = {
    "hang": (Fault.TIME_OUT, "Getting it took longer."),
    "reset": (Fault.RESET, "Connection to the other side was lost in a non-clean fashion."),
    "truncate": (Fault.TRUNCATED, "ResponseDataLossError"),
}


class LabAnswer(NamedTuple):
    """A whole answer, as the downloader of a crawl has it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes  #: decoded
    wire: int  #: bytes of the body as they were sent


class LabFault(NamedTuple):
    """No whole answer."""

    fault: Fault
    detail: str


class LabSite(Site):
    """A site that a run in the lab asks by its table of pages."""

    def __init__(self, host: str = HOST, *, scheme: str = "http") -> None:
        super().__init__()
        self.host = host
        self.is_down = False  #: its port is closed
        self._scheme = scheme

    def url(self, path: str = "/") -> str:
        return f"{self._scheme}://{self.host}{path}"

    def __enter__(self) -> Self:
        self.is_down = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_down = True

    def ask(self, method: str, target: str, headers: dict[str, str]) -> LabAnswer | LabFault:
        """Answer one request; `target` is path and query, names of `headers` are in lower case."""
        if self.is_down:
            return LabFault(
                Fault.REFUSED, "Connection was refused by other side: 111: Connection refused."
            )
        answer = self.answer(method, target, headers)
        assert answer.until is None or answer.until(), "nothing else happens while a page waits"
        if answer.fault in _DETAILS:
            return LabFault(*_DETAILS[answer.fault])
        body = b"" if method == "HEAD" or answer.status in {204, 304} else answer.body
        lines = [(n.encode("latin-1"), v.encode()) for n, v in answer.headers.items()]
        if answer.status not in {204, 304} and "content-length" not in map(
            str.lower, answer.headers
        ):
            lines.append((b"Content-Length", str(len(answer.body)).encode()))
        wire = len(body)
        if answer.headers.get("Content-Encoding") == "gzip" and body:
            body = gzip.decompress(body)
        return LabAnswer(answer.status, lines, body, wire)


class Web:
    """The sites that there are; any other host name is not known.

    `crawl.web.sites[:] = [site := SoftSite()]` puts a site of a test's own class in their place.
    """

    def __init__(self, *sites: LabSite) -> None:
        self.sites = list(sites)

    def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> LabAnswer | LabFault:
        """Answer one request for a URL."""
        parts = urlsplit(url)
        for site in self.sites:
            if site.host == parts.netloc:
                site.posted = body or site.posted
                target = f"{parts.path}?{parts.query}" if parts.query else parts.path
                if parts.fragment:  # a page of the table stands for what a browser shows
                    target += f"#{parts.fragment}"
                return site.ask(method, target, {n.lower(): v for n, v in headers.items()})
        return LabFault(Fault.DNS, parts.netloc)
