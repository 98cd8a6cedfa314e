"""Today's configuration, compared with the records of pages."""

from __future__ import annotations

from smartcrawl.model.options import Options
from smartcrawl.model.urls import url_host_key
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.hosts import distrusted_host_rows
from smartcrawl.reports.entries import ReportedRecord, reported_fingerprint
from smartcrawl.rules.forecast import reason_without_validators
from smartcrawl.rules.model import Extraction, Mode, Standing
from smartcrawl.rules.reindex import decide_extraction
from smartcrawl.rules.trust import UNCONFIRMED, Trust
from smartcrawl.sources.base import Source
from smartcrawl.sources.extraction import SourceExtractionConfig

_BELIEVED = Trust()


class TodayReport:
    """Today's configuration of a source, compared with that of each of its pages."""

    def __init__(self, connection: Connection, source: Source | None, options: Options) -> None:
        self._configuration = SourceExtractionConfig.of(source, options)
        self._source = source
        self._trust = distrusted_host_rows(connection)
        self._snapshots = options.snapshot_store is not None
        self._numbers = {
            mode: reported_fingerprint(connection, self._configuration.fingerprint(mode))
            for mode in Mode
        }

    def is_listed(self, entry: ReportedRecord) -> bool:
        """Whether a listing says if a page exists."""
        return self._source is not None and self._source.lists(entry.url)

    def mode(self, entry: ReportedRecord) -> Mode:
        """Return how a page is to be indexed."""
        return Mode.LINKS_ONLY if entry.kind else self._configuration.mode_of(entry.url)

    def extraction(self, entry: ReportedRecord) -> Extraction:
        """Return how the index entry of a page is to be made."""
        mode = self.mode(entry)
        return decide_extraction(
            Standing(entry.standing),
            mode,
            same_configuration=entry.configuration == self._numbers[mode],
            snapshot=self._snapshots and bool(entry.snapshot),
        )

    def reason_without_validators(self, entry: ReportedRecord) -> str | None:
        """Return why a page is requested without validators; None when it has them."""
        return reason_without_validators(
            standing=Standing(entry.standing),
            validators=bool(entry.validators),
            extraction=self.extraction(entry),
            ordered=bool(entry.ordered),
            believed=not entry.validators or bool(self.believed(entry)),
            unconfirmed=entry.etag_marks & UNCONFIRMED > 0,
            is_listed=self.is_listed(entry),
        )

    def trust(self, entry: ReportedRecord) -> Trust:
        """Return the trust record of a page's host."""
        return self._trust.get(url_host_key(entry.url), _BELIEVED) if self._trust else _BELIEVED

    def believed(self, entry: ReportedRecord, *, coded: bool = False) -> int:
        """Return the trusted validators of a page: 1 the ETag, 2 the date, 3 both.

        ``coded``: its ETag has the suffix of a coding.
        """
        trust, dated = self.trust(entry), entry.validators & 2 > 0
        etag = trust.believes_etag(dated=dated, coded=coded)
        return entry.validators & (etag + 2 * trust.believes_dates)
