"""How a browser shows the pages of a source, in a run and in a preview."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from smartcrawl.extract.browser.page import BrowserAnswer, RenderOrder
from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.rendering import PageRequestRules
from smartcrawl.sources.scope import compile_scope_pattern
from smartcrawl.sources.site import SiteSource

#: Headers that are those of the program that downloads.
_OURS: Final = frozenset({"user-agent", "host", "connection", "accept-encoding"})


def page_request_rules(source: SiteSource, url: str) -> PageRequestRules:
    """Return which requests a page of a source may make."""
    posts = tuple(map(compile_scope_pattern, source.data_posts))
    return PageRequestRules(
        url_endpoint(url)[0],
        source.data_hosts,
        lambda asked: any(pattern.search(asked) for pattern in posts),
    )


def page_render_order(
    source: SiteSource, url: str, rules: PageRequestRules, user_agent: str
) -> RenderOrder:
    """Return the order to show a page of a source."""
    return RenderOrder(
        url=url,
        rules=rules,
        now=time.time(),
        seconds=source.render_seconds,
        wait_for=source.render_wait_for,
        scroll=source.render_scroll,
        user_agent=user_agent,
    )


def passed_page_headers(given: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a browser's request that are sent on."""
    return {
        name: value
        for name, value in given.items()
        if name.lower() not in _OURS and not name.lower().startswith("sec-")
    }


def without_cookies(answer: BrowserAnswer) -> BrowserAnswer:
    """Return an answer that sets no cookie: those of a login are not for the browser."""
    kept = [(name, value) for name, value in answer.headers if name.lower() != "set-cookie"]
    return replace(answer, headers=kept)
