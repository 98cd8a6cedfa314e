"""The batches of a run: items that failed are requested again, after all others (R3-60)."""

from __future__ import annotations

from smartcrawl.sources.listing.entries import Entry


class RetryBatches:
    """The items that failed in this batch, for the next one; the last batch keeps none."""

    def __init__(self, most: int) -> None:
        """``most``: batches, the first one included."""
        self._left = most - 1
        self._failed: dict[int, Entry] = {}  #: by record.no

    def keep(self, number: int, entry: Entry) -> bool:
        """Keep a failed item for the next batch; return False if there is none."""
        if self._left > 0:
            self._failed[number] = entry
        return self._left > 0

    def begin_next(self) -> dict[int, Entry]:
        """Return the items of the next batch; without any, no batch begins."""
        items, self._failed = self._failed, {}
        self._left -= bool(items)
        return items
