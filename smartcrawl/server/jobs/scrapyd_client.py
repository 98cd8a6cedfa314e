"""The two services of scrapyd that jobs need: to schedule a crawl, and to list the crawls."""

from __future__ import annotations

import json
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.web_client import WebAnswer, WebClient, WebError

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
        place = parts.netloc.rpartition("@")[2]
        self._place = f"{parts.scheme}://{place}{parts.path.rstrip('/')}"
        self._web = WebClient(None)  # the operator named it
        self._project = project
        self._headers = {"Content-Type": "application/x-www-form-urlencoded"}
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
        self._ask("/schedule.json", _TO_SCHEDULE, urlencode(fields).encode())

    def jobs(self) -> ScrapydJobs:
        """Return the crawls of the project.

        Raises:
            ScrapydError: it does not list them.
        """
        query = urlencode({"project": self._project})
        answer = self._ask(f"/listjobs.json?{query}", _TO_LIST)
        try:
            ids = {
                state: [str(job["id"]) for job in answer[state]]
                for state in (*_UNDER_WAY, "finished")
            }
        except (KeyError, TypeError) as error:
            raise ScrapydError(f"scrapyd at {self.url} lists no jobs: is it a scrapyd?") from error
        under_way = frozenset(id_ for state in _UNDER_WAY for id_ in ids[state])
        return ScrapydJobs(under_way, Counter(id_ for some in ids.values() for id_ in some))

    def _ask(self, path: str, seconds: float, body: bytes | None = None) -> Mapping[str, Any]:
        try:
            found = self._web.ask_now(
                self._place + path, self._headers, most=_LARGEST, seconds=seconds, body=body
            )
        except WebError as error:
            why = redacted_line(str(error))
            raise ScrapydError(f"scrapyd at {self.url} does not answer ({why})") from error
        return self._answer(found)

    def _answer(self, found: WebAnswer) -> Mapping[str, Any]:
        if found.status in (401, 403):
            raise ScrapydError(
                f"scrapyd at {self.url} refuses the name or the password in SCRAPYD_URL"
                f" ({found.status})"
            )
        try:
            answer = json.loads(found.body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict) or found.status != 200:
            raise ScrapydError(f"scrapyd at {self.url} answers {found.status} without its JSON")
        if answer.get("status") != "ok":
            why = redacted_line(str(answer.get("message", "no reason")))
            raise ScrapydError(f"scrapyd at {self.url} refuses: {why}")
        return answer
