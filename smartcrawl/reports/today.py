"""Today's configuration, compared with the records of pages."""

from __future__ import annotations

from smartcrawl.model.options import Options
from smartcrawl.model.ports import Connection
from smartcrawl.model.urls import host_key
from smartcrawl.registry.hosts import distrusted
from smartcrawl.reports.entries import Entry, fingerprint_no
from smartcrawl.rules.forecast import reason_without_validators
from smartcrawl.rules.model import Extraction, Mode, Standing
from smartcrawl.rules.reindex import extraction
from smartcrawl.rules.trust import UNCONFIRMED, Trust
from smartcrawl.sources.declared import Source
from smartcrawl.sources.extraction import ExtractionConfig

_BELIEVED = Trust()


class Today:
    """Today's configuration of a source, compared with that of each of its pages."""

    def __init__(self, connection: Connection, source: Source | None, options: Options) -> None:
        self._configuration = ExtractionConfig.of(source, options)
        self._trust = distrusted(connection)
        self._snapshots = options.snapshot_store is not None
        self._numbers = {
            mode: fingerprint_no(connection, self._configuration.fingerprint(mode)) for mode in Mode
        }

    def mode(self, entry: Entry) -> Mode:
        """Return how a page is to be indexed."""
        return Mode.LINKS_ONLY if entry.kind else self._configuration.mode_of(entry.url)

    def extraction(self, entry: Entry) -> Extraction:
        """Return how the index entry of a page is to be made."""
        mode = self.mode(entry)
        return extraction(
            Standing(entry.standing),
            mode,
            same_configuration=entry.configuration == self._numbers[mode],
            snapshot=self._snapshots and bool(entry.snapshot),
        )

    def reason_without_validators(self, entry: Entry) -> str | None:
        """Return why a page is requested without validators; None when it has them."""
        return reason_without_validators(
            standing=Standing(entry.standing),
            validators=bool(entry.validators),
            extraction=self.extraction(entry),
            ordered=bool(entry.ordered),
            believed=not entry.validators or bool(self.believed(entry)),
            unconfirmed=entry.etag_marks & UNCONFIRMED > 0,
        )

    def trust(self, entry: Entry) -> Trust:
        """Return the trust record of a page's host."""
        return self._trust.get(host_key(entry.url), _BELIEVED) if self._trust else _BELIEVED

    def believed(self, entry: Entry) -> int:
        """Return the trusted validators of a page: 1 the ETag, 2 the date, 3 both."""
        trust, dated = self.trust(entry), entry.validators & 2 > 0
        return entry.validators & (trust.believes_etag(dated=dated) + 2 * trust.believes_dates)
