"""Visits, filled in from responses."""

from __future__ import annotations

import time

from smartcrawl.model.pages import Visit
from smartcrawl.rules.http import http_validators_kept, is_304_of_other_version
from smartcrawl.rules.model import Fault, Outcome


def fill_confirmed_visit(
    visit: Visit, etag: str | None, last_modified: str | None, *, latency: float
) -> Visit:
    """Fill in the visit of a page that answered 304; ``latency`` is in seconds.

    A 304 may renew validators; those that it does not repeat stay (RFC 9111 section 3.2). A 304
    with the ETag of another version than the request's confirms nothing (section 4.3.4). An ETag
    of another version is never stored, not even if the request had only a date: the stored text
    belongs to another version.
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
    if is_304_of_other_version(visit.traffic.asked_etag, etag):
        why = f"a 304 with the ETag {etag:.80} to a request with {visit.traffic.asked_etag:.80}"
        visit.fail(Fault.OTHER_VERSION, f"{why}: the stored page stays, the next request is whole")
        return visit
    if etag and record.etag and not is_304_of_other_version(record.etag, etag):
        answer.etag = etag
    answer.last_modified = last_modified or record.last_modified
    return visit
