"""One run in one process: what Scrapy's engine does for a run, over a table of pages.

Everything that decides is the product's: `open_run`, the requests of a page, the Visit of an
answer (`visit_of_answer`), the loop over the pages (`RunLoop`), batches, the steps of the end, the
sweep. Here are only requests, retries, and robots.txt as a table has it. One page is asked after
the other, and waiting costs no time: a host that is to be left alone is, by the clock of the lab.
"""

from typing import Any
from urllib.parse import urljoin, urlsplit

from smartcrawl.extract.robots_txt import (
    is_robots_txt,
    robots_txt_as_utf8,
    robots_txt_delay,
    robots_txt_sitemaps,
)
from smartcrawl.model.batches import StoredRobots
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import HostBlockedError
from smartcrawl.model.option_groups import RobotsOptions
from smartcrawl.model.pages import Page, Visit, VisitAttempt
from smartcrawl.model.urls import sessionless_url, url_host_key
from smartcrawl.rules.absence import PASSING
from smartcrawl.rules.cookies import joined_cookies
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS, http_validators_kept, retry_after
from smartcrawl.rules.model import Fault
from smartcrawl.run.answers import NextRequest, Soft404Probe
from smartcrawl.run.hosts import host_gate_slot
from smartcrawl.run.login_ports import LoginRequest
from smartcrawl.run.loop import RunLoop
from smartcrawl.run.received import Answer, AnswerHeaders
from smartcrawl.run.run import Run
from smartcrawl.run.visits import (
    PASSING_FAULTS,
    begins_with_head,
    conditional_page_headers,
    excluded_visit,
    failed_visit,
    failure_message,
    first_page_address,
    host_refusal,
    note_host_failure,
    note_page_request,
    visit_of_answer,
)
from tests.lab.lab_browser import LabBrowser
from tests.lab.lab_site import LabAnswer, LabFault, Web


class Driver(RunLoop):
    """Takes a run from its first page to its end; `now` is Unix seconds."""

    def __init__(self, run: Run, web: Web, settings: Any, now: int) -> None:
        super().__init__(run, now)
        self._web = web
        self._soft_404 = Soft404Probe(run, self._probe)
        self._retries = settings.getint("RETRY_TIMES")
        if run.session is not None:
            run.session.ask_with(self._ask_for_login)
            run.session.pause = _no_pause
        self._rendered = None if run.choice is None else LabBrowser(run, web, self._forbids)
        self._robots = (
            _Robots(run, web, settings, now) if settings.getbool("ROBOTSTXT_OBEY") else None
        )

    async def _visit(self, page: Page) -> None:
        """Take a page from its first request to the batch that its Visit is in."""
        attempt = VisitAttempt(page)
        request = NextRequest(first_page_address(page))
        await self._go_on(attempt, request, is_head=begins_with_head(self._run, page))

    async def _go_on(
        self, attempt: VisitAttempt, request: NextRequest, *, is_head: bool = False
    ) -> None:
        """Take a visit from its next request to its end, or to where it waits."""
        while True:
            found = await self._answered(attempt, request, is_head=is_head)
            is_head = False
            following = await self._take(found) if isinstance(found, Visit) else found
            if following is None:
                return
            request = following

    async def _answered(
        self, attempt: VisitAttempt, request: NextRequest, *, is_head: bool
    ) -> Visit | NextRequest | None:
        """Send one request, again after passing failures; return what its answer means.

        None: the page is asked again later in this run.
        """
        run, slot = self._run, host_gate_slot(attempt.page.host)
        for left in range(self._retries, -1, -1):
            url = request.url
            refusal = host_refusal(run, run.gate, url, slot)
            if isinstance(refusal, HostBlockedError):
                return excluded_visit(run, attempt, url, str(refusal))
            if refusal is not None:
                return failed_visit(run, attempt, url, (Fault.HOST_DOWN, str(refusal)))
            if self._robots is not None and run.source.kind_of(attempt.page.url).asks_robots:
                allowed = self._robots.allowed(attempt, url)
                if isinstance(allowed, Visit):
                    return allowed
                url = allowed
            login = await self._login(attempt, url, "HEAD" if is_head else "GET")
            if not isinstance(login, dict):
                return login
            sent = dict(conditional_page_headers(run, attempt.page, url))
            note_page_request(attempt, url, sent, is_head=is_head)
            if cookie := joined_cookies(login.pop("Cookie", ""), request.cookie):
                login["Cookie"] = cookie
            answer = self._web.ask(
                "HEAD" if is_head else "GET", url, sent | login | {"Accept-Encoding": "gzip"}
            )
            if isinstance(answer, LabFault):
                why = answer.fault, failure_message(answer.fault, answer.detail)
                again = left > 0 and answer.fault in PASSING_FAULTS
                note_host_failure(run, slot, why, self._clock, ends=not again)
                if again:
                    continue
                if is_head:  # the HEAD was to save this GET
                    return NextRequest(url, request.cookie, is_whole=True)
                return failed_visit(run, attempt, url, why)
            waits = self._received(attempt, url, slot, answer)
            if left and answer.status in PASSING and waits <= run.options.retry_after_max_wait:
                continue
            got = Answer(url, answer.status, answer.headers, answer.body)
            got = got._replace(is_head=is_head, has_validators=bool(sent), cookie=request.cookie)
            if self._rendered is None or not self._rendered.concerns(attempt, got):
                return visit_of_answer(run, attempt, got)
            return await self._rendered.taken(attempt, got)
        raise AssertionError("the last try returns")

    async def _login(
        self, attempt: VisitAttempt, url: str, method: str
    ) -> dict[str, str] | Visit | None:
        """The credentials for a request, as smartcrawl.engine.auth has them; else its Visit.

        None: the page stays pending.
        """
        session = self._run.session
        if session is None:
            return {}
        if session.logs_out(url):
            return excluded_visit(self._run, attempt, url, "it logs out")
        if session.concerns(url) and not await session.ready():
            self._run.turns.unanswered(attempt.page)
            return None
        return dict(session.dress(attempt, url, method))

    async def _waits(self) -> bool:
        """Settle the answers that wait for the proof of a login."""
        session = self._run.session
        if session is None or not session.waits:
            return False
        settled = await session.settle()
        for visit in settled.taken:
            following = await self._take(visit)
            if following is not None:
                await self._go_on(visit.attempt or VisitAttempt(visit.page), following)
        for visit in settled.again:
            await self._visit(visit.page)
        for visit in settled.dropped:
            self._run.turns.unanswered(visit.page)
        return True

    async def _ask_for_login(self, request: LoginRequest) -> Answer:
        """Send a request of the login itself."""
        answer = self._web.ask(request.method, request.url, request.headers, request.body)
        if isinstance(answer, LabFault):
            raise ConnectionError(answer.detail)
        return Answer(request.url, answer.status, answer.headers, answer.body)

    def _received(self, attempt: VisitAttempt, url: str, slot: str, answer: LabAnswer) -> int:
        """Record an answer, and return the seconds for which it asks to be left alone."""
        run, headers = self._run, AnswerHeaders(answer.headers)
        run.gate.answered(slot, self._clock)
        seconds = None
        if answer.status in (429, 503):
            seconds = retry_after(headers.get(b"retry-after"), self._now)
        attempt.retry_after = seconds
        if seconds is not None:
            run.hosts.asks_for_time(url, seconds)
        if seconds and seconds <= run.options.retry_after_max_wait:
            run.gate.pause(slot, seconds, self._clock)
        attempt.receives(answer.wire, headers.get(b"content-encoding"))
        return seconds or 0

    async def _is_soft_404(self, visit: Visit, document: Document) -> bool:
        return await self._soft_404.is_soft_404(visit, document)

    def _forbids(self, url: str) -> bool:
        return self._robots is not None and self._robots.forbids(url)

    async def _probe(self, url: str, host: str) -> Answer:
        """Request the address that cannot exist (smartcrawl.run.answers)."""
        if self._forbids(url):
            raise ConnectionError("robots.txt forbids the question")
        session = self._run.session
        answer = self._web.ask("GET", url, {} if session is None else session.credentials(url))
        if isinstance(answer, LabFault):
            raise ConnectionError(answer.detail)
        return Answer(url, answer.status, answer.headers, answer.body)


async def _no_pause(_: float) -> None:
    """Let no time pass."""


class _Robots:
    """The rules of each origin as its robots.txt has them now.

    What is no robots.txt where rules are stored is shown by real crawls, like validators: it is
    decided where it is downloaded.
    """

    def __init__(self, run: Run, web: Web, settings: Any, now: int) -> None:
        self._run = run
        self._web = web
        self._options = options = RobotsOptions.of(settings)
        self._agent = options.agent or options.user_agent
        self._now = now
        self._max_stale = settings.getint("ROBOTS_MAX_STALE_SECONDS")
        self._rules: dict[str, Any] = {}  #: by origin; None: all is allowed; a text: unknown

    def allowed(self, attempt: VisitAttempt, url: str) -> str | Visit:
        """Return the address that may be asked, or the Visit of a page that may not."""
        origin, rules = self._of(url)
        if isinstance(rules, str):
            why = f"{origin}/robots.txt could not be read: {rules}"
            return failed_visit(self._run, attempt, url, (Fault.ROBOTS_UNKNOWN, why))
        for address in dict.fromkeys((url, sessionless_url(url))):
            if rules is None or rules.allowed(address, self._agent):
                return address
        why = f"disallowed by {origin}/robots.txt"
        return excluded_visit(self._run, attempt, url, why)

    def forbids(self, url: str) -> bool:
        """Whether no rule allows an address that is no page of the source."""
        _, rules = self._of(url)
        return rules is not None and (isinstance(rules, str) or not rules.allowed(url, self._agent))

    def _of(self, url: str) -> tuple[str, Any]:
        """Return the origin of an address, and its rules."""
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        if origin not in self._rules:
            self._rules[origin] = self._read(origin)
        return origin, self._rules[origin]

    def _read(self, origin: str) -> Any:
        run, (answer, is_moved) = self._run, self._downloaded(f"{origin}/robots.txt")
        if isinstance(answer, LabFault):
            return self._without(origin, failure_message(answer.fault, answer.detail))
        if answer.status >= 500 or answer.status == 429:
            return self._without(origin, f"status {answer.status}")
        if answer.status >= 400:
            run.hosts.robots_read(origin, StoredRobots(self._now, answer.status))
            return None
        assert answer.status == 200, "a real crawl shows other answers of robots.txt"
        body, headers = robots_txt_as_utf8(answer.body), AnswerHeaders(answer.headers)
        kept = run.hosts.stored_robots(origin)
        assert is_robots_txt(body) or kept is None or kept.status >= 400, "a real crawl shows this"
        etag, date = http_validators_kept(
            headers.get(b"etag"), headers.get(b"last-modified"), self._now
        )
        parser, delay = self._parsed(origin, body)
        stored = StoredRobots(self._now, answer.status, etag, date, body)
        if is_moved:  # its validators are of another address
            stored = StoredRobots(self._now, answer.status, body=body)
        run.hosts.robots_read(origin, stored, delay)
        return parser

    def _downloaded(self, url: str) -> tuple[LabAnswer | LabFault, bool]:
        """Return the answer at the end of redirects, and whether there was one."""
        answer, hops = self._web.ask("GET", url, {}), 0
        while not isinstance(answer, LabFault) and answer.status in REDIRECTS:
            location = AnswerHeaders(answer.headers).get(b"location")
            assert location is not None, "a real crawl shows a robots.txt that leads nowhere"
            assert hops < MAX_REDIRECTS, "a real crawl shows a robots.txt in a circle"
            url, hops = urljoin(url, location), hops + 1
            answer = self._web.ask("GET", url, {})
        return answer, hops > 0

    def _without(self, origin: str, why: str) -> Any:
        """Return the rules that count after a failed request: the stored ones, or why not."""
        run, kept = self._run, self._run.hosts.stored_robots(origin)
        run.hosts.robots_failed(origin, why)
        if kept is not None and self._now - kept.fetched_at < self._max_stale:
            return None if kept.status >= 400 else self._parsed(origin, kept.body)[0]
        run.incomplete(f"robots_unknown: {url_host_key(origin)}")
        return why

    def _parsed(self, origin: str, body: bytes) -> tuple[Any, float | None]:
        """Return the rules of a robots.txt, and its delay in seconds; offer its sitemaps."""
        parser = self._options.parser.from_crawler(None, body)
        delay = parser.crawl_delay(self._agent)
        self._run.sitemaps_named(origin, robots_txt_sitemaps(body, origin))
        return parser, None if delay is None else robots_txt_delay(str(delay))
