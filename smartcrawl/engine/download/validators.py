"""Validators of requests."""

from __future__ import annotations

from collections.abc import Mapping

from smartcrawl.model.pages import Page
from smartcrawl.model.signatures import unsigned_url
from smartcrawl.rules.http import http_conditional_headers
from smartcrawl.rules.model import Extraction
from smartcrawl.run.run import Run


def conditional_download_headers(run: Run, page: Page, url: str) -> Mapping[str, str]:
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
