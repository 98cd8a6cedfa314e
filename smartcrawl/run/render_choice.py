"""Which pages of a run a browser shows: all of them, or those that samples say need it."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from contextlib import suppress
from math import inf
from typing import Final, NamedTuple

from smartcrawl.extract.browser.dom import markup_words
from smartcrawl.extract.browser.launch import find_browser
from smartcrawl.extract.browser.page import Rendering
from smartcrawl.extract.browser.pipe import BrowserError
from smartcrawl.extract.html import parse_html
from smartcrawl.model.documents import Document
from smartcrawl.model.exceptions import RenderingError
from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.model.rendered import StoredSample
from smartcrawl.model.urls import normalize_url, url_digest, url_host_key
from smartcrawl.registry.render_samples import SampleReader
from smartcrawl.rules.data_requests import Way, digest_number, page_template
from smartcrawl.rules.model import Fault, Standing
from smartcrawl.rules.render_need import (
    SAMPLES,
    Need,
    ReadBy,
    RenderMode,
    Sample,
    is_empty_shell,
    needs_browser,
    page_read_by,
    sample_of,
    sampled_template,
    template_need,
)
from smartcrawl.rules.rendering import DATA, FEW_WORDS, NO_BROWSER, POLLING
from smartcrawl.run.batches import Batches
from smartcrawl.run.login_ports import RunLogin
from smartcrawl.run.received import Answer
from smartcrawl.run.rendered import RenderedPages, Taken
from smartcrawl.sources.base import Source, SourceExtractionConfig
from smartcrawl.sources.site import SiteSource

logger = logging.getLogger(__name__)

_FOLLOWS_EACH: Final = 1.0  #: seconds between two looks for samples of other workers
#: A link to a hash route of the same document, whatever is behind its second ``#`` or ``?``.
_ROUTE: Final = re.compile(r"""href="(?:[^"#]*/)?(#!?/[^"#?]+)""")
_MANY_ROUTES: Final = 3  #: links to routes that make a menu
_LONGEST_WAIT: Final = 60.0  #: seconds that a page waits for the samples of its template


class _Template(NamedTuple):
    """The samples of a template, counted."""

    need: Need
    taken: int  #: samples that count against their limit


class RenderChoice:
    """Chooses how each page of a run is read, and takes the samples that decide it."""

    def __init__(
        self,
        *,
        mode: RenderMode,
        source: Source,
        number: int,
        options: Options,
        samples: SampleReader,
        batches: Batches,
        pages: RenderedPages,
        configuration: SourceExtractionConfig,
        is_new: Callable[[str], bool],
        is_seed: Callable[[int], bool],
        incomplete: Callable[[str], None],
    ) -> None:
        """``number``: source.no. ``is_new``: whether an address is in scope, and none led to it."""
        self._mode = mode
        hosts = source.data_hosts if isinstance(source, SiteSource) else ()
        self._data_hosts = frozenset(hosts)
        self._number = number
        self._trackers = options.trackers
        self._batches = batches
        self.pages = pages
        self._configuration = configuration
        self._is_new = is_new
        self._is_seed = is_seed
        self._incomplete = incomplete
        self.session: RunLogin | None = None  #: the login of the source, if it has one
        self.missing = _missing_browser(options) if mode is RenderMode.AUTO else ""
        self._reader = samples
        self._samples: dict[int, StoredSample] = {}
        self._templates: defaultdict[str, set[str]] = defaultdict(set)  #: by host
        self._has_others = options.redis is not None  #: whether other workers share the run
        self._read_at = -inf  #: seconds of the monotonic clock
        self._counted: dict[str, _Template] = {}  #: until there is another sample
        self._verdicts: dict[int, bool | None] = {}  #: by number of a sample; likewise
        if mode is RenderMode.AUTO:
            self._read_samples()
        self._turns: defaultdict[str, set[int]] = defaultdict(set)  #: pages that are sampled now
        self._tries: defaultdict[str, int] = defaultdict(int)  #: of templates, that brought none
        self._lacking: set[str] = set()  #: templates whose samples lacked their data
        self._landed = asyncio.Event()
        self._logged: set[str] = set()  #: hosts
        self._has_told_routes = False

    async def probed(self, answer: Answer, host: str) -> Answer:
        """Return the answer for an address that cannot exist, as pages of its host are read.

        Raises:
            RenderingError: it cannot be rendered.
        """
        if not self._is_always and not any(
            self._of(template).need is Need.NEEDED for template in self._templates[host]
        ):
            return answer
        return await self.pages.probed(answer)

    # The choice

    def begins(self, page: Page) -> ReadBy:
        """Return how a page is read that is about to be requested."""
        read_by = page.plan.read_by
        if read_by is None:
            read_by = page.plan.read_by = self._chosen(page)
            if read_by is ReadBy.SAMPLED:
                self._turns[self._template(page)].add(page.no)
        return read_by

    @property
    def _is_always(self) -> bool:
        """Whether each page is rendered: by order, or as only scripts write a login's proof."""
        session = self.session
        scripted = session is not None and session.is_proof_scripted
        return scripted or self._mode is RenderMode.ALWAYS

    def wants_document(self, page: Page) -> bool:
        """Whether the document of a stored page is wanted whole: it may be an empty shell."""
        return bool(self.missing) and self._may_be_shell(page) and self._reader.is_short(page.no)

    def _may_be_shell(self, page: Page) -> bool:
        return page.rendering is None and self._is_seed(page.no)

    def landed(self, page: Page) -> None:
        """Note that the visit of a page has ended, with a sample or without."""
        if page.plan.read_by is not ReadBy.SAMPLED:
            return
        turns = self._turns[self._template(page)]
        if page.no in turns:
            turns.discard(page.no)
            self._wake()

    def _read_samples(self) -> None:
        """Read the samples of earlier runs, and of other workers of this one."""
        self._read_at = time.monotonic()
        self._samples = self._reader.samples(self._number)
        for stored in self._samples.values():
            self._templates[_host_of(stored.template)].add(stored.template)
        self._counted.clear()
        self._verdicts.clear()

    @property
    def _follows(self) -> bool:
        """Whether other workers of this run may have a browser, and this one has none."""
        return self._has_others and bool(self.missing)

    def _follow(self) -> None:
        """Read the samples that other workers took, from time to time."""
        if self._follows and time.monotonic() - self._read_at > _FOLLOWS_EACH:
            self._read_samples()

    def _chosen(self, page: Page) -> ReadBy:
        if page.kind or page.plan.verify:
            return ReadBy.PLAIN
        if self._is_always:
            return ReadBy.SHOWN
        self._follow()
        if self.missing and not self._samples:
            return ReadBy.PLAIN
        template = self._template(page)
        need, taken = self._of(template)
        if need is not Need.OPEN:
            return page_read_by(need, None, is_sampled=False, has_turn=False)
        key = self._key(page)
        is_sampled = key in self._samples and not self._is_allowed_now(self._samples[key])
        begun = taken + len(self._turns[template]) + self._tries[template]
        has_turn = not self.missing and begun < SAMPLES
        own = self._verdict(key) if is_sampled else None
        found = page_read_by(need, own, is_sampled=is_sampled, has_turn=has_turn)
        if found is ReadBy.WAITS and not self._turns[template]:
            is_unread = template in self._lacking and page.state.standing is Standing.BARE
            return ReadBy.SHOWN if is_unread else ReadBy.PLAIN  # no sample is on its way
        return found

    def _is_allowed_now(self, stored: StoredSample) -> bool:
        """Whether data_hosts has by now a host that was refused to a sample."""
        return not self._data_hosts.isdisjoint(stored.sample.refused)

    def _template(self, page: Page) -> str:
        known = self._templates[page.host]
        found = sampled_template(page_template(page.url), page.host, known)
        known.add(found)
        return found

    def _key(self, page: Page) -> int:
        """Return the number of a page's sample."""
        name = f"{self._number} {normalize_url(page.url, self._trackers)}"
        return digest_number(url_digest(name))

    def _verdict(self, key: int) -> bool | None:
        """Return whether a sampled page needs a browser."""
        if key not in self._verdicts:
            stored = self._samples[key]
            host = _host_of(stored.template)
            others = [
                other.sample
                for number, other in self._samples.items()
                if number != key and _host_of(other.template) == host
            ]
            self._verdicts[key] = needs_browser(stored.sample, others)
        return self._verdicts[key]

    def _of(self, template: str) -> _Template:
        found = self._counted.get(template)
        if found is None:
            samples = {k: s for k, s in self._samples.items() if s.template == template}
            taken = sum(not self._is_allowed_now(stored) for stored in samples.values())
            found = _Template(template_need([*map(self._verdict, samples)]), taken)
            self._counted[template] = found
        return found

    # Answers

    async def take(self, attempt: VisitAttempt, document: Answer, *, trusted: bool) -> Taken | None:
        """Decide how the visit of a page goes on; None: its document is read as it is.

        ``trusted``: whether its data may confirm it.

        Raises:
            RenderingError: the page cannot be rendered, or its data is missing.
        """
        page = attempt.page
        read_by = self.begins(page)
        if self._is_always and read_by is not ReadBy.SHOWN and not page.kind:
            self.landed(page)  # it was chosen before the login
            read_by = page.plan.read_by = self._chosen(page)
        if read_by is ReadBy.WAITS and document.status != 304:
            read_by = await self._after_samples(page)
        match read_by:
            case ReadBy.SHOWN:
                return await self._shown(attempt, document, trusted=trusted)
            case ReadBy.SAMPLED if document.status != 304:
                return await self._sampled(attempt, document)
        if self.missing and (page.state.standing is Standing.BARE or self._may_be_shell(page)):
            self._look_for_shell(page, document)
        return None

    async def _shown(self, attempt: VisitAttempt, document: Answer, *, trusted: bool) -> Taken:
        try:
            taken = await self.pages.take(attempt, document, trusted=trusted)
            if taken.way is Way.SHOWN and not self._configuration.routes:
                self._look_for_routes(attempt.page, taken.markup)
            return taken
        except RenderingError as error:
            if error.fault is Fault.NO_BROWSER:
                self._incomplete(NO_BROWSER)
            raise

    async def _after_samples(self, page: Page) -> ReadBy:
        """Return how a page is read once the samples of its template are there."""
        template = self._template(page)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_WAIT):
                while self._turns[template] and self._of(template).need is Need.OPEN:
                    await self._landed.wait()
        page.plan.read_by = None
        found = self.begins(page)
        if found is ReadBy.WAITS:
            found = page.plan.read_by = ReadBy.PLAIN
        return found

    def _wake(self) -> None:
        """Wake the pages that wait for samples."""
        self._landed.set()
        self._landed = asyncio.Event()

    async def _sampled(self, attempt: VisitAttempt, document: Answer) -> Taken | None:
        """Read a page both ways; return what the browser shows where that is needed."""
        page, template = attempt.page, self._template(attempt.page)
        login = self.session.number if self.session is not None else 0
        try:
            found = await self.pages.look(document)
        except RenderingError as error:
            self.missing = str(error)
            self.landed(page)
            return None
        is_wall = not found.problem and await self._is_wall(document, found, login)
        if found.problem or is_wall:
            why = found.problem or "it does not show that the crawl is logged in"
            logger.info("%s is read without a browser: %s", page.url, why)
            attempt.met_wall = is_wall
            self._tries[template] += 1
            self._done(page, document)
            return None
        key = self._key(page)
        stored = StoredSample(template, self._compared(document, found))
        if self.pages.missing(document, found):
            return await self._without_data(attempt, document, found, stored)
        self._samples[key] = self._batches.batch.samples[key] = stored
        self._counted.clear()
        self._verdicts.clear()
        verdict, need = self._verdict(key), self._of(template).need
        if verdict is None:
            self._log_refused(page, stored.sample.refused)
        if need is Need.NEEDED or (verdict and need is Need.OPEN):
            try:
                return await self._shown(attempt, document, trusted=False)
            finally:
                self._done(page, document)
        self._done(page, document)
        return None

    async def _without_data(
        self, attempt: VisitAttempt, document: Answer, found: Rendering, stored: StoredSample
    ) -> Taken | None:
        """Take no sample of a page whose data is missing, and do not read it as its shell.

        Raises:
            RenderingError: its data is missing; it is not stored.
        """
        page, template = attempt.page, stored.template
        self._tries[template] += 1
        try:
            others = [other.sample for other in self._samples.values()]
            is_shell = markup_words(found.html) < FEW_WORDS
            if is_shell or needs_browser(stored.sample, others):
                self._lacking.add(template)
                return await self._shown(attempt, document, trusted=False)
            return None
        finally:
            self._done(page, document)

    async def _is_wall(self, document: Answer, found: Rendering, login: int) -> bool:
        """Whether a page may be a wall, which says nothing about the pages behind it.

        A document with the proof may have scripts and data that a lost session brought.
        """
        session = self.session
        if session is None:
            return False
        lacks = session.shows(document.showing(found.html)) is False
        return lacks or not await session.lasted(login)

    def _done(self, page: Page, document: Answer) -> None:
        self.pages.forget(document)
        self.landed(page)

    def _compared(self, document: Answer, found: Rendering) -> Sample:
        plain, shown = self._read(document), self._read(document.showing(found.html))
        known = {link.url for link in plain.links}
        links = [
            link.url
            for link in shown.links
            if link.url not in known and not link.nofollow and self._is_new(link.url)
        ]
        refused = {
            url_host_key(made.url)
            for made in found.requests
            if made.kind in DATA and made.refused and made.refused != POLLING
        }
        return sample_of(plain.text, shown.text, links, refused)

    def _read(self, answer: Answer) -> Document:
        selectors = self._configuration.selectors
        return parse_html(
            answer.body,
            content_type=answer.content_type,
            url=answer.url,
            keep=selectors.keep,
            drop=selectors.drop,
            detect=False,
            routes=self._configuration.routes,
        )

    # Messages

    def _log_refused(self, page: Page, refused: Collection[str]) -> None:
        """Log once for each host that samples decide nothing, and why."""
        if page.host not in self._logged:
            self._logged.add(page.host)
            logger.warning(
                "whether pages of %s need a browser is open: %s asked %s, which data_hosts of its"
                ' source or robots.txt does not permit; set data_hosts, or render = "no"',
                page.host, page.url, ", ".join(refused),
            )  # fmt: skip

    def _look_for_routes(self, page: Page, markup: str) -> None:
        """Log once that links of a page lead to hash routes, which are not read as pages."""
        found = {*_ROUTE.findall(markup)}
        if len(found) < _MANY_ROUTES or self._has_told_routes:
            return
        self._has_told_routes = True
        logger.warning(
            "%s links to %d addresses behind #, such as %s, which are read as one page: declare its"
            " source with render_hash_routes = true (docs/howto/javascript.md)",
            page.url, len(found), min(found),
        )  # fmt: skip

    def _look_for_shell(self, page: Page, document: Answer) -> None:
        """Note that a seed shows nothing without a browser, and there is none.

        Raises:
            RenderingError: other workers may have one, so that the page is not stored.
        """
        is_new = page.state.standing is Standing.BARE
        if not ((self._follows and is_new) or self._is_seed(page.no)) or document.status != 200:
            return
        plain = self._read(document)
        scripts = document.body.lower().count(b"<script")
        links = len(plain.links)
        if is_empty_shell(words=len(plain.text.split()), scripts=scripts, links=links):
            self._incomplete(NO_BROWSER)
            if self._follows and is_new:
                raise RenderingError(f"{NO_BROWSER} ({self.missing})", Fault.NO_BROWSER)
            logger.warning("%s shows nothing without a browser: %s", page.url, self.missing)


def _missing_browser(options: Options) -> str:
    """Return why there is no browser; an empty string: there is one."""
    if sys.platform != "linux":
        return "pages are rendered on Linux only"
    try:
        find_browser(options.render_browser)
    except BrowserError as error:
        return str(error)
    return ""


def _host_of(template: str) -> str:
    return template.partition("/")[0].partition(" ")[0]
