"""Addresses with what gives access to them, remembered for one run and never stored (R0-77)."""

from __future__ import annotations

from typing import Final

from smartcrawl.model.signatures import unsigned
from smartcrawl.model.urls import Trackers, normalize

MAX_SIGNED: Final = 100_000  #: addresses with a signature that one run remembers


class SignedUrls:
    """Takes off what gives access when an address is met, and has it again when that is asked."""

    def __init__(self, trackers: Trackers) -> None:
        self.urls: dict[str, str] = {}  #: whole, by normalized source
        self._trackers = trackers

    def bare(self, url: str) -> str:
        """Return an address as it may be stored, and remember for this run what gives access."""
        bare = unsigned(url)
        if bare != url and len(self.urls) < MAX_SIGNED:
            self.urls[normalize(bare, self._trackers)] = url
        return bare

    def whole(self, url: str) -> str | None:
        """Return an address as it is asked for; None: as it is stored."""
        return self.urls.get(normalize(url, self._trackers))
