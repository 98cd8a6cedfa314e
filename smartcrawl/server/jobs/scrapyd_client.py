"""The two services of scrapyd that jobs need: to schedule a crawl, and to list the crawls."""

from __future__ import annotations

import json
import socket
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from threading import Event, Timer
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.redaction import redacted_line

#: Seconds for a whole request. scrapyd starts Python to check the first one for a spider.
_TO_SCHEDULE: Final = 30.0
_TO_LIST: Final = 10.0
_LARGEST: Final = 16 * 1_048_576  #: bytes of an answer
_UNDER_WAY: Final = ("pending", "running")


class ScrapydError(SmartcrawlError):
    """scrapyd is away, refused a request, or its answer was lost."""


@dataclass(frozen=True, slots=True)
class ScrapydJobs:
    """The crawls that scrapyd lists."""

    under_way: frozenset[str]  #: ids of those that are pending or running
    counts: Counter[str]  #: of all by id, also of finished ones: one may have run twice


class ScrapydClient:
    """A client of one project in one scrapyd, for one thread."""

    def __init__(self, url: str, project: str) -> None:
        """``url``: SCRAPYD_URL, as of the options; it may have a name and a password."""
        parts = urlsplit(url)
        self._connection = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host = str(parts.hostname)
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")
        self._project = project
        self._headers = {"Connection": "close"}
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        self.url = redacted_line(url.rstrip("/"))  #: without the password

    def log_url(self, id_: str, spider: str) -> str:
        """Return the address at which scrapyd has the log of a crawl, without a password."""
        return f"{self.url}/logs/{self._project}/{spider}/{id_}.log"

    def schedule(self, source: str, id_: str, *, spider: str, resume: bool) -> None:
        """Ask for a crawl of a source. Its arguments are names: scrapyd shows and logs them.

        Raises:
            ScrapydError: it was refused, or it is not known whether it arrived.
        """
        fields = {"project": self._project, "spider": spider, "jobid": id_, "source": source}
        if resume:
            fields["resume"] = "1"
        self._ask("POST", "/schedule.json", urlencode(fields), _TO_SCHEDULE)

    def jobs(self) -> ScrapydJobs:
        """Return the crawls of the project.

        Raises:
            ScrapydError: it does not list them.
        """
        query = urlencode({"project": self._project})
        answer = self._ask("GET", f"/listjobs.json?{query}", None, _TO_LIST)
        try:
            ids = {
                state: [str(job["id"]) for job in answer[state]]
                for state in (*_UNDER_WAY, "finished")
            }
        except (KeyError, TypeError) as error:
            raise ScrapydError(f"scrapyd at {self.url} lists no jobs: is it a scrapyd?") from error
        under_way = frozenset(id_ for state in _UNDER_WAY for id_ in ids[state])
        return ScrapydJobs(under_way, Counter(id_ for some in ids.values() for id_ in some))

    def _ask(self, method: str, path: str, body: str | None, seconds: float) -> Mapping[str, Any]:
        headers = dict(self._headers)
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = self._connection(self._host, self._port, timeout=seconds)
        try:
            with closing(connection), _ended_after(connection, seconds):
                connection.request(method, self._prefix + path, body, headers)
                response = connection.getresponse()
                content = response.read(_LARGEST + 1)
        except (OSError, HTTPException) as error:
            why = redacted_line(str(error) or type(error).__name__)
            raise ScrapydError(f"scrapyd at {self.url} does not answer ({why})") from error
        return self._answer(response, content)

    def _answer(self, response: HTTPResponse, content: bytes) -> Mapping[str, Any]:
        if response.status in (401, 403):
            raise ScrapydError(
                f"scrapyd at {self.url} refuses the name or the password in SCRAPYD_URL"
                f" ({response.status})"
            )
        try:
            answer = json.loads(content) if len(content) <= _LARGEST else None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or response.status != 200:
            raise ScrapydError(f"scrapyd at {self.url} answers {response.status} without its JSON")
        if answer.get("status") != "ok":
            why = redacted_line(str(answer.get("message", "no reason")))
            raise ScrapydError(f"scrapyd at {self.url} refuses: {why}")
        return answer


@contextmanager
def _ended_after(connection: HTTPConnection, seconds: float) -> Iterator[None]:
    """End a request that takes longer in all; the time-out of a socket is that of each part."""
    connection.connect()
    over = Event()

    def end() -> None:
        over.set()
        socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if over.is_set():
        raise TimeoutError("timed out")
