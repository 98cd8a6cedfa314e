"""The walk over a page of which the operator selected parts."""

from __future__ import annotations

from smartcrawl.extract.reader import Attributes, MarkupReader
from smartcrawl.extract.regions import Region
from smartcrawl.extract.selection import DROP, KEEP, Picks


class SelectingReader(MarkupReader):
    """Reader of markup of which the operator selected parts."""

    __slots__ = ("_drops", "_only_kept")

    def __init__(self, links: bool, only_kept: bool, drops: Picks | None) -> None:
        super().__init__(links)
        self._only_kept = only_kept
        self._drops = drops

    def start(self, tag: str, attributes: Attributes) -> None:
        """Take a start tag; open the region of a selected element first."""
        drops = self._drops
        if DROP in attributes if drops is None else drops(tag, attributes):
            self._select(Region.DROPPED)
        elif drops is None and KEEP in attributes:
            self._select(Region.KEPT)
        MarkupReader.start(self, tag, attributes)

    def _select(self, region: Region) -> None:
        self._depth += 1
        self._open_region(region)
        self._depth -= 1

    def _counts(self) -> bool:
        kept = not self._only_kept or self._is_open(Region.KEPT)
        return kept and not self._is_open(Region.DROPPED)
