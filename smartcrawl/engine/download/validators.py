"""Validators of requests."""

from __future__ import annotations

from collections.abc import Mapping

from smartcrawl.model.pages import Page
from smartcrawl.rules.http import conditional_headers
from smartcrawl.rules.model import Extraction
from smartcrawl.run.run import Run


def conditions(run: Run, page: Page, url: str) -> Mapping[str, str]:
    """Return the headers that make a request for ``page`` at ``url`` conditional; empty: none."""
    return conditional_headers(
        *run.trust.validators(page),
        trusted=page.standing > 0
        and not (run.forces(page) or page.named or page.doubted)
        and (page.extraction is not Extraction.WHOLE or page.waits)
        and url in (page.url, page.signed),
    )
