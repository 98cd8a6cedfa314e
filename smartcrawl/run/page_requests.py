"""The requests of a page: the address and method of the first one, and their validators."""

from __future__ import annotations

from collections.abc import Mapping

from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.model.signatures import unsigned_url
from smartcrawl.rules.http import http_conditional_headers
from smartcrawl.rules.model import Extraction
from smartcrawl.run.run import Run


def first_page_address(page: Page) -> str:
    """Return the address that a visit of a page asks first."""
    return page.plan.spelling or page.plan.signed or page.url


def begins_with_head(run: Run, page: Page) -> bool:
    """Whether the first request of a page is a HEAD, which may save a download."""
    if page.plan.verify or page.plan.spelling or run.source.lists(page.url):
        return False  # a file has no headers to ask for
    return run.trust.asks_head(page)


def conditional_page_headers(run: Run, page: Page, url: str) -> Mapping[str, str]:
    """Return the headers that make a request for ``page`` at ``url`` conditional; empty: none.

    The validators of a page belong to its address, whatever signature or session id is in ``url``.
    """
    plan = page.plan
    trusted = (
        page.state.standing > 0
        and not (run.forces(page) or plan.named or plan.doubted)
        and (plan.extraction is not Extraction.WHOLE or plan.waits)
        and (url == page.url or unsigned_url(url) == unsigned_url(page.url))
        and not run.source.kind_of(page.url).is_hashed
    )
    etag, date = run.trust.validators(page) if trusted else (None, None)
    respelled = run.trust.of(page.host).respells
    return http_conditional_headers(etag, date, trusted=trusted, respelled=respelled)


def note_page_request(
    attempt: VisitAttempt, url: str, headers: Mapping[str, str], *, is_head: bool
) -> None:
    """Record a request of a visit; ``headers``: those that make it conditional.

    One for a HEAD saves nothing by itself: it counts as conditional once it is answered with 304.
    """
    conditional = bool(headers) and not is_head
    attempt.asks(url, conditional=conditional, etag=headers.get("If-None-Match"))
