"""Crawls in a scrapyd, which several servers may use at once (ADR 59).

The registry decides how a crawl ended; scrapyd only says whether it still has it.
"""

from __future__ import annotations

import json
import logging
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit

from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.redaction import redacted_line
from smartcrawl.registry.database.databases import Database
from smartcrawl.rules.run_orders import EXIT_SOURCE_BUSY
from smartcrawl.server.jobs.runner import Exited, Sight, is_at_work
from smartcrawl.server.jobs.scheduler import BegunRun
from smartcrawl.sources.kinds import SITE
from smartcrawl.sources.web_client import WebAnswer, WebClient, WebError

logger = logging.getLogger(__name__)


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


FRESH: Final = 2  #: seconds for which a list counts
AWAY: Final = 5  #: seconds until a scrapyd that does not answer, or refuses, is asked again
#: Seconds for which a crawl must be missing in its lists: a request may still be under way.
MISSING: Final = 3


class ScrapydCrawls:
    """The crawls of one scrapyd."""

    def __init__(
        self,
        database: Database,
        client: ScrapydClient,
        spider_of: Callable[[str], str] = lambda source: SITE.spider,
    ) -> None:
        """``spider_of``: returns the spider that crawls a source."""
        self._database = database
        self._client = client
        self._spider_of = spider_of
        self._now = 0
        self._listed: ScrapydJobs | None = None  #: None: none that counts
        self._listed_at = 0
        self._away_until = 0
        self._missing: dict[str, int] = {}  #: since when, by id
        self._unsure: set[str] = set()  #: whose request to start may not have arrived
        self._complaints: dict[str, str] = {}  #: by act; each is logged once

    def look(self, begun: Sequence[BegunRun], now: int) -> None:
        """List the crawls, if there are any."""
        self._now = now
        ids = {one.id for one in begun}
        self._unsure &= ids
        self._missing = {id_: since for id_, since in self._missing.items() if id_ in ids}
        if begun:
            self._list(now)

    def can_start(self, now: int) -> bool:
        """Whether scrapyd answers."""
        return self._list(now) is not None

    def still_has(self, id_: str) -> bool:
        """Whether scrapyd runs a crawl, or does not answer."""
        listed = self._list(self._now)
        return listed is None or id_ in listed.under_way

    def start(self, begun: BegunRun) -> None:
        """Ask scrapyd for a crawl, unless it has it already: an answer may have been lost.

        If it does not answer, or refuses, the run is withdrawn later, and waits.
        """
        self._missing.pop(begun.id, None)
        self._unsure.add(begun.id)
        self._listed = None  # a request that seemed lost may have arrived meanwhile
        listed = self._list(self._now)
        self._listed = None  # it will be older than the request
        if listed is None or _has(listed, begun):
            return
        try:
            spider, resume = self._spider_of(begun.name), begun.run is not None
            self._client.schedule(begun.name, begun.id, spider=spider, resume=resume)
        except ScrapydError as error:
            self._complain("start", error)
            return
        self._unsure.discard(begun.id)
        self._answered("start")
        logger.info("asked scrapyd to crawl %s for the run %s", begun.name, begun.id)

    def sight(self, begun: BegunRun, now: int) -> Sight | Exited:
        """Return the state of a run's crawl.

        It is gone if scrapyd does not list it for some seconds, and no process has its source. A
        scrapyd that is away decides nothing, except of a run that ended.
        """
        if begun.is_swept and not self._database.is_held(begun.name):
            return Sight.GONE
        listed = self._listed
        if listed is None or begun.id in listed.under_way:
            self._missing.pop(begun.id, None)
            if listed is not None:
                self._unsure.discard(begun.id)
            return Sight.RUNNING
        process = begun.started.process
        if begun.run is not None and is_at_work(self._database, begun.name, process):
            return Sight.RUNNING  # scrapyd was started again beside it
        if self._listed_at - self._missing.setdefault(begun.id, self._listed_at) < MISSING:
            return Sight.RUNNING
        if begun.id in self._unsure and not _has(listed, begun):
            return Sight.NOT_STARTED
        if begun.run is None and self._database.is_held(begun.name):
            return Exited(EXIT_SOURCE_BUSY, None)
        return Sight.GONE

    def place_of_log(self, begun: BegunRun) -> str:
        """Return the address of a run's log."""
        return self._client.log_url(begun.id, self._spider_of(begun.name))

    def reason_of_death(self, begun: BegunRun) -> str:
        """Return the reason of a run whose crawl died, or failed before its run was open."""
        log = self.place_of_log(begun)
        if begun.run is not None:
            return f"its process died in scrapyd: see {log}"
        return (
            f"it ended in scrapyd before its run was open: see {log}; scrapyd needs the"
            " REGISTRY_URL or DATA_DIR of this server"
        )

    def _list(self, now: int) -> ScrapydJobs | None:
        """Return the present list; None while scrapyd is away."""
        if self._listed is not None and 0 <= now - self._listed_at < FRESH:
            return self._listed
        if 0 < self._away_until - now <= AWAY:
            return None
        self._now = now
        try:
            self._listed = self._client.jobs()
        except ScrapydError as error:
            self._listed = None
            self._complain("list", error)
            return None
        self._listed_at = now
        self._answered("list")
        return self._listed

    def _complain(self, act: str, error: ScrapydError) -> None:
        self._away_until = self._now + AWAY
        if self._complaints.get(act) != str(error):
            logger.error("jobs wait for scrapyd: %s", error)
        self._complaints[act] = str(error)

    def _answered(self, act: str) -> None:
        if self._complaints.pop(act, None) is not None:
            logger.info("scrapyd answers again")


def _has(listed: ScrapydJobs, begun: BegunRun) -> bool:
    """Whether scrapyd got the last request to start a run: it lists each start of it."""
    return begun.id in listed.under_way or listed.counts[begun.id] >= begun.started.starts
