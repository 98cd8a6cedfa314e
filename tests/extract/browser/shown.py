"""A browser for tests, and the pages that it is given."""

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from smartcrawl.extract.browser.launch import Browser, BrowserOptions
from smartcrawl.extract.browser.page import (
    BrowserAnswer,
    BrowserRefusal,
    BrowserRequest,
    Rendering,
    RenderOrder,
    render_page,
)
from smartcrawl.rules.rendering import PageRequestRules

HOST = "site.example"
Given = str | bytes | BrowserAnswer | BrowserRefusal


def html(body: str) -> str:
    return f"<!doctype html><html><head><title>T</title></head><body>{body}</body></html>"


def text(markup: str) -> str:
    """Return the text of a rendered page."""
    return " ".join(re.sub(r"<[^>]*>", " ", markup).split())


class Site:
    """Pages by path, or by the whole address on other hosts; a 404 for all others."""

    def __init__(self, pages: Mapping[str, Given]) -> None:
        self.pages = dict(pages)
        self.asked: list[BrowserRequest] = []
        self.seconds = 0.0  #: that each answer takes

    async def answer(self, request: BrowserRequest) -> BrowserAnswer | BrowserRefusal:
        self.asked.append(request)
        await asyncio.sleep(self.seconds)
        parts = urlsplit(request.url)
        place = parts.path if parts.hostname == HOST else request.url.partition("?")[0]
        found = self.pages.get(place)
        if found is None:
            return BrowserAnswer(404, [("Content-Type", "text/html")], b"<p>not found")
        if isinstance(found, BrowserAnswer | BrowserRefusal):
            return found
        body = found.encode() if isinstance(found, str) else found
        kind = {"js": "text/javascript", "json": "application/json"}
        about = [("Content-Type", kind.get(place.rpartition(".")[2], "text/html; charset=utf-8"))]
        about.append(("Access-Control-Allow-Origin", "*"))
        return BrowserAnswer(200, about, body)


class Shown:
    """One browser, which renders what tests give it."""

    def __init__(self, runner: asyncio.Runner, browser: Browser) -> None:
        self.runner = runner
        self.browser = browser

    def renders(self, pages: Mapping[str, Given] | Site, path: str = "/", **more: Any) -> Rendering:
        site = pages if isinstance(pages, Site) else Site(pages)
        order = {"rules": PageRequestRules(HOST), "now": time.time(), "seconds": 10} | more
        work = render_page(self.browser, RenderOrder(f"http://{HOST}{path}", **order), site.answer)
        return self.runner.run(asyncio.wait_for(work, 60))

    def shows(self, body: str, **more: Any) -> Rendering:
        """Render a page with this body at the root."""
        return self.renders({"/": html(body)}, **more)


@contextmanager
def shown_browser(program: str, **options: Any) -> Iterator[Shown]:
    with asyncio.Runner() as runner:
        browser = runner.run(Browser.start(BrowserOptions(program, **options)))
        try:
            yield Shown(runner, browser)
        finally:
            runner.run(browser.close())
