"""Trust in the validators of hosts, learnt from their answers."""

from __future__ import annotations

from collections.abc import Mapping

from smartcrawl.model.options import Options
from smartcrawl.model.pages import ListedRecord, Page, Visit
from smartcrawl.registry.hosts import HostReader
from smartcrawl.rules.http import is_304_of_other_version, is_coded_etag, is_same_by_head
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.rules.trust import TURNED, UNCONFIRMED, Seen, Trust, is_sampled, is_unverified
from smartcrawl.run.batches import Batches


class HostTrust:
    """Learns trust from answers, and decides by it how pages are requested."""

    def __init__(
        self, known: Mapping[str, Trust], options: Options, batches: Batches, now: int, run: int
    ) -> None:
        """``known``: trust by host from earlier runs; ``run``: run.no of this one."""
        self._known = {host: trust.at(run) for host, trust in known.items()}
        self._believed = Trust(run=run)
        self._options = options
        self._batches = batches
        self._now = now

    def of(self, host: str) -> Trust:
        """Return the trust in a host."""
        return self._known.get(host, self._believed)

    def validators(self, page: Page) -> tuple[str | None, str | None]:
        """Return (ETag, Last-Modified) of a page, each None where it is not trusted.

        The visit after a sample sends the ETag of the sample, also where ETags bring no 304: this
        finds hosts that answer them again.
        """
        record = page.record
        trust, date = self.of(page.host), record.last_modified
        missing = trust.misses_coded_etags or trust.misses_plain_etags
        coded = missing and is_coded_etag(record.etag)
        believed = trust.believes_etag(dated=date is not None, coded=coded)
        etag = record.etag if believed else None
        if etag is None and trust.believes_etag(dated=False):
            ratio = self._options.trust_sample_ratio
            etag = record.etag if is_sampled(page.no, page.state.attempts - 1, ratio) else None
        return etag, date if trust.believes_dates else None

    def doubts(self, page: Page) -> bool:
        """Whether a page is downloaded whole this time, in spite of its validators."""
        state = page.state
        if state.standing is Standing.BARE:
            return False
        return self._doubts(page.no, state.attempts, state.etag_marks, page.record.verified_at)

    def doubts_listed(self, record: ListedRecord) -> bool:
        """Whether a stored file is read this time, in spite of its listing."""
        marks, verified_at = record.etag_marks, record.verified_at
        return self._doubts(record.no, record.attempts, marks, verified_at)

    def _doubts(self, no: int, attempts: int, marks: int, verified_at: int | None) -> bool:
        if marks & UNCONFIRMED:
            return True
        options = self._options
        return is_sampled(no, attempts, options.trust_sample_ratio) or is_unverified(
            verified_at, self._now, options.max_unverified_days, no
        )

    def asks_head(self, page: Page) -> bool:
        """Whether a HEAD comes first, because it may save a download (M-10)."""
        record = page.record
        options = self._options
        if (
            options.head_policy == "never"
            or page.state.standing is not Standing.HELD
            or page.plan.doubted
            or page.state.ordered
            or not (record.etag or record.last_modified)
        ):
            return False
        if options.head_policy == "always":
            return True
        long = record.content_length >= options.head_min_bytes
        return long and self.of(page.host).ignores_conditions

    def confirms(self, page: Page, etag: str | None, date: str | None, length: int | None) -> bool:
        """Whether a HEAD response confirms that the stored page is current."""
        own_etag, own_date = self.validators(page)
        return is_same_by_head(
            (own_etag, etag), (own_date, date), (page.record.content_length, length)
        )

    def learn(self, visit: Visit) -> None:
        """Update the trust in a host with one answer."""
        page = visit.page
        if (
            page.state.standing is not Standing.HELD
            or visit.extracted_again
            or visit.url != page.url
        ):
            return
        before = self.of(page.host)
        if visit.not_modified:
            asked, dated = visit.traffic.asked_etag, page.record.last_modified
            by_tag = None not in (asked, dated)
            after = before.seen_304(
                turned=by_tag and page.state.etag_marks & TURNED > 0,
                respelled=_is_respelled(visit),
                plain=by_tag and not before.plain_heard and _is_plain(visit),
            )
        elif visit.http_status == Fault.OTHER_VERSION:
            after = before.contradicted()
        elif (
            visit.http_status == 200
            and visit.outcome in (Outcome.SAME, Outcome.CHANGED)
            and page.record.configuration == page.plan.wanted
            and visit.parsed.body_hash is not None
        ):
            after = before.after(_seen(visit))
        else:
            return
        if after != before:
            self._known[page.host] = after
            tally = self._batches.batch.tally(page.host)
            tally.trusted = before if tally.trust is None else tally.trusted
            tally.trust = after


def _is_respelled(visit: Visit) -> bool:
    """Whether a page was asked for its ETag in both spellings."""
    asked, etag = visit.traffic.asked_etag, visit.page.record.etag
    return None not in (asked, etag) and asked != etag and is_coded_etag(etag)


def _is_plain(visit: Visit) -> bool:
    """Whether a page was asked for its ETag, which is not coded."""
    return visit.traffic.asked_etag is not None and not is_coded_etag(visit.page.record.etag)


def _seen(visit: Visit) -> Seen:
    answer = visit.answer
    page = visit.page
    record = page.record
    etags, dates = (answer.etag, record.etag), (answer.last_modified, record.last_modified)
    return Seen(
        conditional=visit.traffic.conditional,
        # Apache's tag of a file is weak for a second, and strong from then on.
        same_etag=None not in etags and not is_304_of_other_version(*etags),
        other_etag=is_304_of_other_version(*etags),
        same_date=None not in dates and dates[0] == dates[1],
        same_bytes=visit.parsed.body_hash == record.body_hash,
        same_content=visit.outcome is Outcome.SAME,
        dated=answer.last_modified is not None,
        turned=page.state.etag_marks & TURNED > 0,
        respelled=_is_respelled(visit),
        plain=_is_plain(visit),
    )


def open_host_trust(
    reader: HostReader, options: Options, batches: Batches, now: int, run: int
) -> HostTrust:
    """Return the trust in hosts as stored; ``run``: run.no of the run that begins ``now``."""
    days = options.max_unverified_days
    known = reader.trust(now - days * 86_400 if days else 0)
    return HostTrust(known, options, batches, now, run)
