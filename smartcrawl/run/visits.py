"""Visits, filled in from responses."""

from __future__ import annotations

import time

from smartcrawl.model.pages import Visit
from smartcrawl.rules.http import (
    http_validators_kept,
    is_304_of_other_date,
    is_304_of_other_version,
)
from smartcrawl.rules.model import Fault, Outcome


def fill_confirmed_visit(
    visit: Visit, etag: str | None, last_modified: str | None, *, latency: float
) -> Visit:
    """Fill in the visit of a page that answered 304; ``latency`` is in seconds.

    A 304 may renew validators; those that it does not repeat stay (RFC 9111 section 3.2). A 304
    with the ETag of another version than the request's confirms nothing (section 4.3.4), nor does
    another date if the request had only a date. An ETag of another version is never stored, not
    even if the request had only a date: the stored text belongs to another version.
    """
    answer = visit.answer
    page = visit.page
    record = page.record
    visit.outcome, visit.http_status = Outcome.NOT_MODIFIED, 304
    answer.response_ms = int(1000 * latency)
    answer.etag, answer.last_modified = record.etag, record.last_modified
    if (etag or record.etag, last_modified or record.last_modified) == (
        record.etag,
        record.last_modified,
    ):
        return visit
    etag, last_modified = http_validators_kept(etag, last_modified, int(time.time()))
    asked = visit.traffic.asked_etag
    if is_304_of_other_version(asked, etag):
        return _of_other_version(visit, f"the ETag {etag:.80} to a request with {asked:.80}")
    if asked is None and is_304_of_other_date(record.last_modified, last_modified):
        dates = f"the date {last_modified:.80} to a request with {record.last_modified:.80}"
        return _of_other_version(visit, dates)
    if etag and record.etag and not is_304_of_other_version(record.etag, etag):
        answer.etag = etag
    answer.last_modified = last_modified or record.last_modified
    return visit


def _of_other_version(visit: Visit, names: str) -> Visit:
    why = f"a 304 with {names}: the stored page stays, the next request is whole"
    visit.fail(Fault.OTHER_VERSION, why)
    return visit
