"""A double of the browser: what pages show of the answers to their requests, as a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urljoin, urlsplit

from smartcrawl.extract.browser.page import MadeRequest, Rendering
from smartcrawl.extract.sniff import HTML_TYPES, sniffed_media_type
from smartcrawl.model.exceptions import RenderingError
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.model.urls import url_endpoint, url_host_key
from smartcrawl.rules.data_requests import Way, answer_digest, json_leaves
from smartcrawl.rules.model import Fault
from smartcrawl.rules.rendering import (
    DOCUMENT,
    WRONG_METHOD,
    PageRequestRules,
    forbidden_by_robots,
)
from smartcrawl.run.answers import NextRequest
from smartcrawl.run.received import Answer, AnswerHeaders, encoded_markup
from smartcrawl.run.rendered import DataQuestion
from smartcrawl.run.run import Run
from smartcrawl.run.visits import failed_visit, page_is_trusted, visit_of_answer
from smartcrawl.sources.scope import compile_scope_pattern
from smartcrawl.sources.site import SiteSource
from tests.lab.lab_site import LabFault, Web

METHODS = ("GET", "POST")
#: What a page shows, given the bodies of its requests in their order; None: there was no answer.
Show = Callable[..., str]


@dataclass
class Shown:
    """How pages are rendered: what they ask, and what they show of it."""

    show: Show
    asks: Sequence[str] = ()  #: addresses, `POST address body` or `Script address`
    streams: bool = False
    headers: Mapping[str, str] = field(default_factory=lambda: {"Accept": "*/*"})
    cut: list[int] = field(default_factory=list)  #: of the next renderings, how many requests


class LabBrowser:
    """Renders by the table `LabBrowser.table`, and asks the sites of the lab."""

    #: By path of a page; of a path without an entry, by "*"; without that it shows its document.
    table: ClassVar[dict[str, Shown | Callable[[str], Shown]]] = {}
    missing: ClassVar[str] = ""  #: why there is no browser
    shown: ClassVar[list[str]] = []  #: paths that were rendered

    def __init__(self, run: Run, web: Web, forbids: Callable[[str], bool]) -> None:
        self._run, self._web, self._forbids = run, web, forbids
        #: By method, address and body: what pages of the run share.
        self._shared: dict[tuple[str, str, str], Answer] = {}
        assert run.choice is not None
        run.choice.pages.drive(self)

    def rules(self, url: str) -> PageRequestRules:
        source = self._run.source
        assert isinstance(source, SiteSource)
        posts = tuple(map(compile_scope_pattern, source.data_posts))
        return PageRequestRules(
            url_endpoint(url)[0],
            source.data_hosts,
            lambda asked: any(pattern.search(asked) for pattern in posts),
        )

    def leads_to(self, url: str, found: Rendering, words: int) -> str:
        return ""

    def concerns(self, attempt: VisitAttempt, answer: Answer) -> bool:
        """As smartcrawl.engine.render has it."""
        page = attempt.page
        if page.plan.verify or page.kind:
            return False
        if answer.status == 304:
            return page.rendering is not None
        is_html = sniffed_media_type(answer.content_type, answer.body) in HTML_TYPES
        return answer.status == 200 and bool(answer.body) and is_html

    async def taken(self, attempt: VisitAttempt, answer: Answer) -> Visit | NextRequest:
        """Take a document as the middleware of a crawl does."""
        run = self._run
        assert run.choice is not None
        trusted = page_is_trusted(run, attempt.page, answer.url)
        try:
            found = await run.choice.take(attempt, answer, trusted=trusted)
        except RenderingError as error:
            return failed_visit(run, attempt, answer.url, (Fault(error.fault), str(error)))
        if found is None:
            return visit_of_answer(run, attempt, answer)
        bare = answer._replace(body=b"", headers=[(b"Content-Type", b"text/html; charset=utf-8")])
        match found.way:
            case Way.CONFIRMED:
                found_answer = bare._replace(status=304)
            case Way.NOT_FOUND:
                found_answer = bare._replace(status=404)
            case Way.AGAIN:
                return NextRequest(answer.url, answer.cookie, is_whole=True)
            case Way.SHOWN:
                found_answer = bare._replace(body=encoded_markup(found.markup))
        visit = visit_of_answer(run, attempt, found_answer)
        assert isinstance(visit, Visit)
        return visit

    async def ask(self, question: DataQuestion) -> Answer | str:
        """Ask a site of the lab."""
        assert self._run.choice is not None
        self._run.choice.pages.asked()
        if self._forbids(question.url):
            return forbidden_by_robots(url_host_key(question.url))
        sent = dict(question.headers)
        answer = self._web.ask(question.method, question.url, sent, question.body.encode())
        if isinstance(answer, LabFault):
            return answer.detail
        return Answer(question.url, answer.status, answer.headers, answer.body)

    async def _of(self, question: DataQuestion) -> Answer | str:
        """Return what a page gets, asked once a run."""
        key = (question.method, question.url, question.body)
        answer = self._shared.get(key) or await self.ask(question)
        if isinstance(answer, Answer) and answer.status < 500:
            self._shared[key] = answer
        return answer

    async def render(self, document: Answer) -> Rendering:
        """Show a page by the table."""
        if self.missing:
            raise RenderingError(f"render: no browser ({self.missing})", Fault.NO_BROWSER)
        path = urlsplit(document.url).path
        LabBrowser.shown.append(path)
        entry = self.table.get(path) or self.table.get("*") or Shown(document.body.decode)
        shown = entry if isinstance(entry, Shown) else entry(path)
        found = Rendering(document.url, streams=shown.streams)
        found.requests.append(_made("GET", document.url, DOCUMENT, {}, document, ""))
        asks = list(shown.asks)
        if shown.cut:
            asks = asks[: shown.cut.pop(0)]
        bodies: list[Any] = []
        for ask in asks:
            word, place, body = _parts(ask)
            kind, method = ("Fetch", word) if word in METHODS else (word, "GET")
            url = urljoin(document.url, place)
            refused = self.rules(document.url).refusal(method, url, kind)
            found.streams = found.streams or refused == WRONG_METHOD
            answer = refused or await self._of(DataQuestion(url, method, shown.headers, body))
            found.requests.append(_made(method, url, kind, shown.headers, answer, body))
            bodies.append(answer.body if isinstance(answer, Answer) else None)
        bodies += [None] * (len(shown.asks) - len(bodies))
        found.html = shown.show(*bodies) if shown.asks else shown.show()
        return found


def _parts(ask: str) -> tuple[str, str, str]:
    """Return method or kind of a request of a table, its address, and its body."""
    word, _, rest = ask.partition(" ")
    if not rest:
        return "GET", word, ""
    place, _, body = rest.partition(" ")
    return word, place, body


def _made(
    method: str, url: str, kind: str, headers: Mapping[str, str], answer: Answer | str, body: str
) -> MadeRequest:
    made = MadeRequest(method, url, kind, headers, body)
    if isinstance(answer, str):
        made.refused = answer
        return made
    lines = AnswerHeaders(answer.headers)
    made.status = answer.status
    made.etag, made.last_modified = lines.get(b"etag") or "", lines.get(b"last-modified") or ""
    made.digest = answer_digest(answer.status, lines.get(b"location") or "", answer.body)
    made.leaves = json_leaves(answer.body)
    return made
