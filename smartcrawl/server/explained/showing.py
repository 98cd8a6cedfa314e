"""A page that is tried, as a browser shows it where a run of its source would use one."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from smartcrawl.extract.browser.launch import Browser, BrowserOptions, find_browser
from smartcrawl.extract.browser.page import (
    BrowserAnswer,
    BrowserRefusal,
    BrowserRequest,
    Rendering,
    render_page,
)
from smartcrawl.extract.browser.pipe import BrowserError
from smartcrawl.model.exceptions import RenderingError
from smartcrawl.model.options import Options
from smartcrawl.model.rendered import StoredSample
from smartcrawl.model.urls import url_host_key
from smartcrawl.rules.data_requests import page_template
from smartcrawl.rules.model import Fault
from smartcrawl.rules.render_need import Need, needs_browser, sampled_template, template_need
from smartcrawl.rules.rendering import DOCUMENT, NO_BROWSER
from smartcrawl.run.received import Answer
from smartcrawl.run.shown_pages import page_render_order, page_request_rules, without_cookies
from smartcrawl.sources.site import SiteSource

#: A page without any of these shows what its server sent.
_SCRIPTED: Final = re.compile(rb"<script|\son[a-z]{2,20}\s?=", re.IGNORECASE)
Samples = Mapping[int, StoredSample]
Asked = Callable[[BrowserRequest], Awaitable[BrowserAnswer | BrowserRefusal]]


def may_show_more(body: bytes) -> bool:
    """Whether a browser may show more of a page than its markup has."""
    return _SCRIPTED.search(body) is not None


def sampled_need(url: str, samples: Samples) -> Need:
    """Return what the samples of a source say about the pages of a template."""
    host = url_host_key(url)
    of_host = {no: each for no, each in samples.items() if _host_of(each.template) == host}
    known = {each.template for each in of_host.values()}
    template = sampled_template(page_template(url), host, known)
    return template_need(
        [
            needs_browser(each.sample, (o.sample for other, o in of_host.items() if other != no))
            for no, each in of_host.items()
            if each.template == template
        ]
    )


def host_samples(url: str, samples: Samples) -> Samples:
    """Return the samples of the host of a page."""
    return {no: s for no, s in samples.items() if _host_of(s.template) == url_host_key(url)}


class ShownPages:
    """One browser for the pages of one try, started with the first of them."""

    def __init__(self, options: Options, source: SiteSource, user_agent: str) -> None:
        self._options = options
        self._source = source
        self._user_agent = user_agent
        self._browser: Browser | None = None

    async def shown(self, document: Answer, asked: Asked, *, has_login: bool) -> Rendering:
        """Return what a browser shows of a page; its document is not requested again.

        ``asked`` answers its other requests.

        Raises:
            RenderingError: there is no browser, or it ended.
        """

        async def answer(request: BrowserRequest) -> BrowserAnswer | BrowserRefusal:
            if request.kind != DOCUMENT or request.url != document.url.partition("#")[0]:
                return await asked(request)
            lines = [(n.decode("latin-1"), v.decode("latin-1")) for n, v in document.headers]
            sent = BrowserAnswer(document.status, lines, document.body)
            return without_cookies(sent) if has_login else sent

        rules = page_request_rules(self._source, document.url)
        order = page_render_order(self._source, document.url, rules, self._user_agent)
        try:
            return await render_page(await self._running(), order, answer)
        except BrowserError as error:
            raise RenderingError(f"{NO_BROWSER} ({error})", Fault.NO_BROWSER) from error

    async def _running(self) -> Browser:
        """Return the browser.

        Raises:
            BrowserError: there is none.
        """
        if self._browser is None:
            options = self._options
            self._browser = await Browser.start(
                BrowserOptions(
                    find_browser(options.render_browser),
                    options.render_memory_mb,
                    sandbox=options.render_sandbox == "on",
                )
            )
        return self._browser

    async def close(self) -> None:
        """End the browser."""
        if self._browser is not None:
            await self._browser.close()


def _host_of(template: str) -> str:
    return template.partition("/")[0].partition(" ")[0]
