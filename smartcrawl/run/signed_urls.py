"""Addresses with signatures or session ids, kept in memory for one run, never stored (R0-77)."""

from __future__ import annotations

from typing import Final

from smartcrawl.model.signatures import unsigned_url
from smartcrawl.model.urls import Trackers, normalize_url

MAX_SIGNED: Final = 100_000  #: such addresses that one run remembers


class SignedUrls:
    """Removes the signature or session id of a link, and adds it when the address is requested."""

    def __init__(self, trackers: Trackers) -> None:
        self.urls: dict[str, str] = {}  #: whole addresses, by normalized URL
        self._trackers = trackers

    def bare(self, url: str) -> str:
        """Return an address without signature and session id; this run remembers the whole one."""
        bare = unsigned_url(url)
        if bare != url and len(self.urls) < MAX_SIGNED:
            self.urls[normalize_url(bare, self._trackers)] = url
        return bare

    def whole(self, url: str) -> str | None:
        """Return an address as this run linked it; None: it has neither of them."""
        return self.urls.get(normalize_url(url, self._trackers))
