"""Addresses with signatures, which are kept in memory for one run and never stored (R0-77)."""

from __future__ import annotations

from typing import Final

from smartcrawl.model.signatures import unsigned_url
from smartcrawl.model.urls import Trackers, normalize_url

MAX_SIGNED: Final = 100_000  #: addresses with a signature that one run remembers


class SignedUrls:
    """Removes the signature of an address that is found, and adds it when that is requested."""

    def __init__(self, trackers: Trackers) -> None:
        self.urls: dict[str, str] = {}  #: whole addresses, by normalized URL
        self._trackers = trackers

    def bare(self, url: str) -> str:
        """Return an address without its signature, which is remembered for this run."""
        bare = unsigned_url(url)
        if bare != url and len(self.urls) < MAX_SIGNED:
            self.urls[normalize_url(bare, self._trackers)] = url
        return bare

    def whole(self, url: str) -> str | None:
        """Return an address with its signature; None: it has no signature."""
        return self.urls.get(normalize_url(url, self._trackers))
