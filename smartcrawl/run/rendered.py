"""Rendered pages in a run: confirmed by their data, or shown by a browser (ADR 148, 149)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Final, NamedTuple, Protocol
from urllib.parse import urldefrag

from smartcrawl.extract.browser.dom import markup_words, shown_digest
from smartcrawl.extract.browser.page import MadeRequest, Rendering
from smartcrawl.model.exceptions import RenderingError
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.model.rendered import DataRow, Need, NewRendering, StoredRendering
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.rendered import RenderedReader
from smartcrawl.rules.data_requests import (
    ABSENT,
    ENOUGH,
    SIGNAL,
    DataAnswer,
    DataState,
    NoiseKin,
    Siblings,
    Validated,
    Way,
    answer_digest,
    changed_paths,
    data_state,
    digest_number,
    has_cookie,
    is_asked_again,
    is_noise,
    is_not_found,
    is_own_data,
    joined_times,
    json_leaves,
    noise_kin,
    packed_leaves,
    page_state,
    repeated_headers,
    request_number,
    timed_url,
    timeless_url,
    would_confirm,
)
from smartcrawl.rules.http import (
    http_conditional_headers,
    http_validators_kept,
    is_coded_etag,
)
from smartcrawl.rules.model import Fault, Standing
from smartcrawl.rules.rendering import (
    BY_RULE,
    DATA,
    DOCUMENT,
    DataRequest,
    PageRequestRules,
    missing_in_words,
    missing_requests,
)
from smartcrawl.run.batches import Batches
from smartcrawl.run.hosts import HostNotes
from smartcrawl.run.received import Answer, AnswerHeaders
from smartcrawl.run.shortcomings import DATA_MISSING, PAGES_WAIT, Shortcomings

logger = logging.getLogger(__name__)

_MOST_KNOWN: Final = 20_000  #: answers in memory; the one that was used longest ago goes first


class DataQuestion(NamedTuple):
    """A request for data of a page."""

    url: str
    method: str
    headers: Mapping[str, str]
    body: str


class PageBrowser(Protocol):
    """The browser of a run, and the downloader for what its pages ask."""

    def rules(self, url: str) -> PageRequestRules:
        """Return which requests a page may make."""

    def leads_to(self, url: str, found: Rendering, words: int) -> str:
        """Return where a page of so many words leads; an empty string: nowhere else."""

    async def render(self, document: Answer) -> Rendering:
        """Show a page whose document is at hand.

        Raises:
            RenderingError: there is no browser.
        """

    async def ask(self, question: DataQuestion) -> Answer | str:
        """Return the answer to a request for data, or why there is none."""


class Taken(NamedTuple):
    """What became of a document."""

    way: Way
    markup: str = ""
    leads_to: str = ""  #: where a script of the page leads


class _Found(NamedTuple):
    """An answer to a request of a page, and the request as it is known by now."""

    answer: DataAnswer
    row: DataRow
    is_kept: bool = True  #: whether the answer is in the row; an error is not


@dataclass(slots=True)
class _Change:
    """A request whose answer says something new in this run."""

    version: int  #: the one before
    rows: list[DataRow]  #: that have the new one
    paths: frozenset[str] | None  #: at which the JSON texts differ
    kin: NoiseKin


@dataclass(slots=True)
class _Made:
    """A page as a browser showed it."""

    markup: str
    leads_to: str
    shown: bytes
    always: bool
    is_not_found: bool
    rows: dict[int, DataRow] = field(default_factory=dict)
    urls: list[str] = field(default_factory=list)  #: that it asked


class RenderedPages:
    """Takes the documents of a run's pages: confirmed by their data, or shown by a browser."""

    def __init__(
        self,
        *,
        source: int,
        most: int,
        reader: RenderedReader,
        batches: Batches,
        shortcomings: Shortcomings,
        hosts: HostNotes,
        is_decided: Callable[[], bool],
    ) -> None:
        """``source``: source.no. ``most``: pages rendered for shared data in a run; 0: all.

        ``hosts`` ask once what the workers of a run share. ``is_decided``: whether the reasons of
        the run are.
        """
        self._hosts = hosts
        self._source = source
        self._left = most or inf
        self._reader = reader
        self._batches = batches
        self._shortcomings = shortcomings
        self._is_decided = is_decided
        self._browser: PageBrowser | None = None
        self._siblings = Siblings()
        self._users: Counter[int] = Counter()  #: pages of this run by the requests that they make
        self._known: dict[int, _Found] = {}
        self._asking: dict[int, asyncio.Task[_Found]] = {}
        self._changes: dict[int, _Change] = {}
        self._noise: dict[NoiseKin, Counter[str]] = {}
        self._distrusted: set[str] = set()  #: hosts
        self._looked_at: dict[str, Rendering] = {}  #: by address: renderings to compare
        self._said: set[tuple[str, str]] = set()  #: reasons and addresses
        #: The number of the login that requests are sent with; 0: they need none.
        self.login: Callable[[], int] = lambda: 0
        self._known_under = 0  #: the number of the login that ``_known`` was asked with

    def drive(self, browser: PageBrowser) -> None:
        """Render and ask by a browser."""
        self._browser = browser

    def asked(self) -> None:
        """Count a request for data that was sent."""
        self._batches.batch.counts["data_requests"] += 1

    @property
    def _by(self) -> PageBrowser:
        assert self._browser is not None, "the crawl has begun"
        return self._browser

    def load(self, pages: Sequence[Page]) -> None:
        """Read what stored pages were made of, for all at once."""
        held = [page.no for page in pages if page.state.standing is not Standing.BARE]
        found = self._reader.renderings(held) if held else {}
        for page in pages:
            stored = page.rendering = found.get(page.no)
            if stored is None:
                continue
            rows = [need.row for need in stored.needs]
            self._siblings.add(page.url, [row.url for row in rows])
            self._users.update(row.no for row in rows)
            for row in rows:
                if row.noise:
                    times = self._times(noise_kin(row.url, row.leaves))
                    for path, seen in row.noise.items():
                        times[path] = joined_times(times[path], seen)

    def headers(self, page: Page, url: str) -> Mapping[str, str]:
        """Return the headers that make the request for a page's document conditional."""
        stored = page.rendering
        if stored is None or not self.may_confirm(page):
            return {}
        for row, version in stored.needs:
            if _is_document(row, url) and row.version == version:
                return _conditions(row)
        return {}

    def may_confirm(self, page: Page) -> bool:
        """Whether the data of a page may show that it is as it was."""
        stored = page.rendering
        return (
            stored is not None
            and bool(stored.needs)
            and not (stored.always or stored.is_doubted)
            and page.host not in self._distrusted
        )

    async def take(self, attempt: VisitAttempt, document: Answer, *, trusted: bool) -> Taken:
        """Say how the visit of a page goes on after its document was answered.

        ``trusted``: whether its data may confirm it.

        Raises:
            RenderingError: the page cannot be rendered, or its data is missing.
        """
        page = attempt.page
        stored = page.rendering
        attempt.rendering = None
        attempt.confirmed = attempt.waits = attempt.lacks_data = False
        if trusted and stored is not None and self.may_confirm(page):
            way = await self._compare(attempt, stored, document)
            if way is not None:
                return Taken(way)
            stored.is_doubted = True
        if document.status == 304:
            if stored is not None:
                stored.is_doubted = True
            return Taken(Way.AGAIN)
        return await self._show(attempt, stored, document)

    async def look(self, document: Answer) -> Rendering:
        """Return a page as a browser shows it, to compare it; ``take`` may show it after that.

        Raises:
            RenderingError: there is no browser.
        """
        found = await self._by.render(document)
        self._batches.batch.counts["renderings"] += 1
        self._looked_at[document.url] = found
        return found

    def forget(self, document: Answer) -> None:
        """Forget what ``look`` saw of a page."""
        self._looked_at.pop(document.url, None)

    async def probed(self, answer: Answer) -> Answer:
        """Return the answer for an address that cannot exist as a browser shows it.

        Raises:
            RenderingError: it cannot be rendered.
        """
        made, _ = await self._rendered(answer, None, is_probe=True)
        if made.is_not_found:
            return answer._replace(status=404)
        return answer.showing(made.markup)

    # By its data

    async def _compare(
        self, attempt: VisitAttempt, stored: StoredRendering, document: Answer
    ) -> Way | None:
        """Return how the visit of a page goes on by its data; None: it is to be rendered."""
        page = attempt.page
        found = await asyncio.gather(*(self._found(need, document) for need in stored.needs))
        if any(answer.refused in BY_RULE for answer, _, _ in found):
            return None  # it is no longer declared
        states, missing = [], []
        for need, (answer, row, is_kept) in zip(stored.needs, found, strict=True):
            same = is_kept and row.version == need.version
            state = data_state(need.row.status, answer, is_same=same, has_cookie=row.has_cookie)
            is_own = need.row.kind in DATA and is_own_data(page.url, need.row.url)
            states.append((state, is_own))
            if state is DataState.MISSING:
                missing.append(_missing(need.row, answer))
        if missing:
            self._note_missing(missing)
            raise _without_data(missing)
        match page_state(states):
            case DataState.SAME:
                attempt.confirmed = True
                return Way.CONFIRMED
            case DataState.GONE:
                attempt.lacks_data = True
                return Way.NOT_FOUND
        differ = [
            need.row.no
            for need, (state, _) in zip(stored.needs, states, strict=True)
            if state is not DataState.SAME
        ]
        if all(self._users[number] > 1 for number in differ):
            if self._left == 0:
                attempt.confirmed = attempt.waits = True
                self._count(PAGES_WAIT, page.url)
                return Way.CONFIRMED
            self._left -= 1
        return None

    async def _found(self, need: Need, document: Answer) -> _Found:
        """Return the answer to a request of a page, asked once a run."""
        row = need.row
        if _is_document(row, document.url):
            return self._took(row, document)
        if self._known_under != self.login():  # a session that ended may have forged them
            self._known_under = self.login()
            self._known.clear()
            self._asking.clear()
        known = self._known.pop(row.no, None)
        if known is not None:
            self._remember(known)
            return known
        task = self._asking.get(row.no)
        if task is None:
            asking = self._ask(row, document.url)
            task = self._asking[row.no] = asyncio.ensure_future(asking)
            task.add_done_callback(lambda _: self._asking.pop(row.no, None))
        return await asyncio.shield(task)

    async def _ask(self, row: DataRow, page: str) -> _Found:
        """Ask what a page asked; ``page``: its address."""
        refused = row.kind in DATA and self._by.rules(page).refusal(row.method, row.url, row.kind)
        if refused:
            return _Found(DataAnswer(None, refused), row)
        is_shared = not self.login() and not is_own_data(page, row.url)
        conditions = _conditions(row) if row.method == "GET" else {}
        question = DataQuestion(
            timed_url(row.url, time.time()), row.method, {**row.headers, **conditions}, row.body
        )
        login = self.login()
        ask = partial(self._by.ask, question)
        key = f"{row.no}:{row.version}"
        answer = await (self._hosts.asked_once(key, ask) if is_shared else ask())
        if isinstance(answer, str):
            found = _Found(DataAnswer(None, answer), row)
        else:
            found = self._took(row, answer)
        if login == self.login():
            self._remember(found)
        return found

    def _remember(self, found: _Found) -> None:
        self._known[found.row.no] = found
        if len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]

    def _took(self, row: DataRow, answer: Answer) -> _Found:
        """Return the answer to a known request, with what is stored of it from now on."""
        status, headers = answer.status, AnswerHeaders(answer.headers)
        said = DataAnswer(status)
        if status == 304:
            return _Found(said, row)
        if status != row.status and status >= 400 and status not in ABSENT:
            return _Found(said, row, is_kept=False)
        location = headers.get(b"location") or ""
        leaves = json_leaves(answer.body)
        etag, date = http_validators_kept(
            headers.get(b"etag"), headers.get(b"last-modified"), int(time.time())
        )
        now = replace(
            row, status=status, etag=etag, last_modified=date,
            digest=answer_digest(status, location, answer.body), leaves=packed_leaves(leaves),
        )  # fmt: skip
        return _Found(said, self._versioned(row, now, leaves))

    def _versioned(self, before: DataRow, now: DataRow, leaves: Mapping[str, bytes]) -> DataRow:
        """Give an answer its version: that of the one before, if both say the same."""
        if (before.status, before.digest) == (now.status, now.digest):
            now.version = before.version
            if (change := self._changes.get(now.no)) is not None:
                change.rows.append(now)
        else:
            paths = changed_paths(before.leaves, leaves)
            kin = noise_kin(now.url, now.leaves)
            times = self._noise.get(kin, Counter())
            if before.status == now.status and is_noise(paths, times):
                now.version, now.noise = before.version, dict(times)
            else:
                now.version = digest_number(now.digest)
                self._note_change(_Change(before.version, [now], paths, kin))
        if now != before:
            self._batches.batch.data[now.no] = now
        return now

    def _note_change(self, change: _Change) -> None:
        """Note what an answer says anew, beside what an earlier one of this run said."""
        number = change.rows[-1].no
        earlier = self._changes.get(number)
        if earlier is not None:
            paths = None
            if earlier.paths is not None and change.paths is not None:
                paths = earlier.paths | change.paths
            rows = [*earlier.rows, *change.rows]
            change = _Change(earlier.version, rows, paths, change.kin)
        self._changes[number] = change

    # By a browser

    async def _show(
        self, attempt: VisitAttempt, stored: StoredRendering | None, document: Answer
    ) -> Taken:
        page = attempt.page
        made = await self._noted(document, stored)
        if made.is_not_found:
            attempt.lacks_data = True
            return Taken(Way.NOT_FOUND)
        if self._siblings.lacking(document.url, made.urls):
            again = await self._noted(document, stored)
            if len(again.rows) >= len(made.rows):
                made = again
        if stored is not None and made.shown == stored.shown:
            self._learn(stored, made)
        elif stored is not None and self._is_hidden(stored, made):
            again = await self._noted(document, stored)
            if again.shown == made.shown:
                self._distrust(page)
        elif stored is not None:
            self._note_signals(stored, made)
        self._siblings.add(document.url, made.urls)
        attempt.rendering = NewRendering(
            document.url, made.shown, made.always, list(made.rows.values())
        )
        return Taken(Way.SHOWN, made.markup, made.leads_to)

    async def _noted(self, document: Answer, stored: StoredRendering | None) -> _Made:
        """Show a page, and note its data."""
        made, requests = await self._rendered(document, stored)
        self._note_rows(made, requests)
        return made

    async def _rendered(
        self, document: Answer, stored: StoredRendering | None, *, is_probe: bool = False
    ) -> tuple[_Made, list[MadeRequest]]:
        """Return a page as a browser shows it, and its requests.

        ``is_probe``: it is no page, so that the run does not lack its data.

        Raises:
            RenderingError: it cannot be rendered, or its data is missing.
        """
        seen = self._looked_at.pop(document.url, None)
        found = seen or await self._by.render(document)
        self._batches.batch.counts["renderings"] += seen is None
        if found.problem:
            raise RenderingError(f"the page is not rendered: {found.problem}", Fault.RENDERING)
        words, missing = markup_words(found.html), self.missing(document, found)
        known = {} if stored is None else {need.row.no: need.row for need in stored.needs}
        rows = self._known_rows(found.requests, known)
        missing += _no_longer_answered(rows)
        if missing:
            if not is_probe:
                self._note_missing(missing)
            raise _without_data(missing)
        own = [
            (each.url, each.status)
            for each, row in rows
            if each.kind in DATA and (row is None or row.status < 400)
        ]
        made = _Made(
            found.html, self._by.leads_to(document.url, found, words), shown_digest(found.html),
            found.streams, is_not_found(document.url, own),
        )  # fmt: skip
        return made, found.requests

    def missing(self, document: Answer, found: Rendering) -> list[DataRequest]:
        """Return which of the data of a rendered page is missing."""
        rules = self._by.rules(document.url)
        data = [
            DataRequest(
                url_host_key(each.url),
                each.status,
                each.refused,
                rules.is_own(each.url),
                each.url,
                each.kind in DATA,
            )
            for each in found.requests
            if each.kind != DOCUMENT
        ]
        return missing_requests(data, words=markup_words(found.html))

    def _known_rows(
        self, requests: Iterable[MadeRequest], known: Mapping[int, DataRow]
    ) -> list[tuple[MadeRequest, DataRow | None]]:
        """Return the requests of a rendering, each with what is known of it by its page."""
        now, found = time.time(), []
        for made in requests:
            url, headers = timeless_url(made.url, now), repeated_headers(made.headers) or {}
            number = request_number(self._source, made.method, url, headers, made.body)
            found.append((made, known.get(number)))
        return found

    def _note_rows(self, made: _Made, requests: Iterable[MadeRequest]) -> None:
        """Note the requests of a rendering by which the page will be confirmed."""
        now, rows, leaves = time.time(), dict[int, DataRow](), dict[int, Mapping[str, bytes]]()
        for each in requests:
            if each.status is None or not is_asked_again(each.kind, each.url):
                continue
            made.urls.append(timeless_url(each.url, now))
            headers = repeated_headers(each.headers)
            if headers is None or "\0" in each.body:
                made.always = True
                continue
            row = _row(self._source, each, headers, now)
            rows[row.no], leaves[row.no] = row, each.leaves
        before = {no: self._known[no].row for no in rows if no in self._known}
        before |= self._reader.rows(rows.keys() - before.keys())
        for number, row in rows.items():
            if number in before:
                row.noise = before[number].noise
                row = self._versioned(before[number], row, leaves[number])  # noqa: PLW2901
            else:
                self._batches.batch.data[number] = row
            made.rows[number] = row
            if row.status < 500:
                self._remember(_Found(DataAnswer(row.status), row))

    def _learn(self, stored: StoredRendering, made: _Made) -> None:
        """Learn where JSON texts differ although the page shows the same."""
        for need in stored.needs:
            change = self._changes.get(need.row.no)
            now = made.rows.get(need.row.no)
            if change is None or now is None or change.version != need.version:
                continue
            if not change.paths or now.version != change.rows[-1].version:
                continue
            times = self._times(change.kin)
            times.update(change.paths)
            for number, other in list(self._changes.items()):
                if other.kin == change.kin and is_noise(other.paths, times):
                    for row in other.rows:
                        row.version = other.version
                    del self._changes[number]
                if other.kin == change.kin:
                    other.rows[-1].noise = dict(times)
                    self._batches.batch.data[number] = other.rows[-1]

    def _note_signals(self, stored: StoredRendering, made: _Made) -> None:
        """Note the one path of one JSON text by which a page changed: it is no noise."""
        versions = {row.no: row.version for row in made.rows.values()}
        differ = [n.row.no for n in stored.needs if versions.get(n.row.no) != n.version]
        change = self._changes.get(differ[0]) if len(differ) == 1 else None
        if change is None or not change.paths:
            return
        times = self._times(change.kin)
        paths = [path for path in change.paths if times[path] < ENOUGH]
        if len(paths) == 1:
            times[paths[0]] = SIGNAL
            change.rows[-1].noise = dict(times)
            self._batches.batch.data[differ[0]] = change.rows[-1]

    def _times(self, kin: NoiseKin) -> Counter[str]:
        return self._noise.setdefault(kin, Counter())

    def _is_hidden(self, stored: StoredRendering, made: _Made) -> bool:
        """Whether a page shows something new that its data would not have told."""
        for row, version in stored.needs:
            now = made.rows.get(row.no)
            if now is None or row.version != version:
                return False
            if not would_confirm(_validated(row), _validated(now)):
                return False
        return bool(stored.needs)

    def _distrust(self, page: Page) -> None:
        if page.host not in self._distrusted:
            self._distrusted.add(page.host)
            logger.warning(
                "%s shows another text although its data is as it was, so all pages of %s are"
                " rendered for the rest of this run",
                page.url,
                page.host,
            )

    # Reasons

    def _note_missing(self, missing: Iterable[DataRequest]) -> None:
        for each in missing:
            self._count(f"{DATA_MISSING} {each.host} {each.reason}", each.url)

    def _count(self, kind: str, url: str) -> None:
        """Count an address once for a reason of the run."""
        if (kind, url) not in self._said and not self._is_decided():
            self._said.add((kind, url))
            self._shortcomings.count(kind, url)


def _is_document(row: DataRow, url: str) -> bool:
    """Whether a request of a page is the one for its document, which is at an address."""
    return row.kind == DOCUMENT and row.url == timeless_url(urldefrag(url).url, time.time())


def _conditions(row: DataRow) -> Mapping[str, str]:
    return http_conditional_headers(
        row.etag, row.last_modified, trusted=True, respelled=is_coded_etag(row.etag)
    )


def _validated(row: DataRow) -> Validated:
    return Validated(row.etag, row.last_modified, row.digest)


def _row(source: int, made: MadeRequest, headers: Mapping[str, str], now: float) -> DataRow:
    """Return a request of a rendering as it is stored."""
    url = timeless_url(made.url, now)
    etag, date = http_validators_kept(made.etag or None, made.last_modified or None, int(now))
    assert made.status is not None, "it was answered"
    return DataRow(
        no=request_number(source, made.method, url, headers, made.body),
        method=made.method,
        url=url,
        kind=made.kind,
        headers=headers,
        body=made.body,
        has_cookie=has_cookie(made.headers),
        status=made.status,
        etag=etag,
        last_modified=date,
        digest=made.digest,
        version=digest_number(made.digest),
        leaves=packed_leaves(made.leaves),
    )


def _missing(row: DataRow, answer: DataAnswer) -> DataRequest:
    url = timed_url(row.url, time.time())
    return DataRequest(url_host_key(url), answer.status, answer.refused, True, row.url)


def _no_longer_answered(
    requests: Iterable[tuple[MadeRequest, DataRow | None]],
) -> list[DataRequest]:
    """Return requests of a rendering whose data the stored page has, and which is refused now."""
    found = []
    for made, row in requests:
        if row is None or row.kind == DOCUMENT or made.status is None or made.status >= 500:
            continue
        answer = DataAnswer(made.status)
        same = made.status == row.status
        state = data_state(row.status, answer, is_same=same, has_cookie=False)
        if state is DataState.MISSING:
            found.append(_missing(row, answer))
    return found


def _without_data(missing: Sequence[DataRequest]) -> RenderingError:
    why = f"data of the page is missing: {missing_in_words(missing)}"
    return RenderingError(why, Fault.DATA_MISSING)
