"""Scrapy signals of smartcrawl: ``crawler.signals.connect(receiver, signal=page_progress)``."""

from __future__ import annotations

from typing import Any, Final

from smartcrawl.model.pages import Page, Visit
from smartcrawl.rules.model import Word

#: Sent for each page that was visited or that its listing confirmed, and again for each page that
#: a sweep removed. Receivers take ``event``, a dict: ``url``; ``pageId``, the number of the record;
#: ``depth``; ``status``, HTTP or extended, None where no request was sent; ``outcome``, a word of
#: ``lastOutcome``; ``deleted``, whether the page was just removed (R1-08).
page_progress = object()
_NOT_MODIFIED: Final = 304


def page_signal_event(visit: Visit) -> dict[str, Any]:
    """Return the event of ``page_progress`` for a visit (R1-08)."""
    page, word = visit.page, visit.verdict.word if visit.verdict else None
    return {
        "url": visit.url,
        "pageId": page.no,
        "depth": page.depth,
        "status": visit.http_status,
        "outcome": word.word if word is not None else None,
        "deleted": False,
    }


def confirmed_page_signal_event(page: Page) -> dict[str, Any]:
    """Return the event of ``page_progress`` for a file that its listing shows to be unchanged."""
    return {
        "url": page.url,
        "pageId": page.no,
        "depth": page.depth,
        "status": _NOT_MODIFIED,
        "outcome": Word.UNCHANGED.word,
        "deleted": False,
    }
