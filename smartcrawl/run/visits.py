"""The requests of a page, and its Visit: from an answer, or from a failure.

From an answer to the Visit of its page, or to the next request of that Visit.

The spider, the lane and the runs of tests without a network all come here: what an answer means
is decided once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Final

import can_ada

from smartcrawl.extract.links import may_lead_on
from smartcrawl.model.exceptions import HostBlockedError, HostDownError
from smartcrawl.model.pages import Page, PageAnswer, Visit, VisitAttempt
from smartcrawl.model.program import program_name
from smartcrawl.model.setting_values import given_number
from smartcrawl.model.urls import hash_route, join_url, unsigned_url, url_host_key
from smartcrawl.rules.absence import TEMPORARY
from smartcrawl.rules.http import (
    http_conditional_headers,
    http_status_read,
    http_validators_kept,
    is_304_of_other_date,
    is_304_of_other_version,
    outcome_of_http_status,
)
from smartcrawl.rules.model import Extraction, Fault, Outcome
from smartcrawl.rules.render_need import WITH_BROWSER, ReadBy
from smartcrawl.run.answers import NextRequest, bot_wall_of_answer
from smartcrawl.run.detours import Redirect
from smartcrawl.run.hosts import HostGate, Turn
from smartcrawl.run.received import Answer, AnswerHeaders, Lines
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)


def first_page_address(page: Page) -> str:
    """Return the address that a visit of a page asks first."""
    return page.plan.spelling or page.plan.signed or page.url


def begins_with_head(run: Run, page: Page) -> bool:
    """Whether the first request of a page is a HEAD, which may save a download."""
    if page.plan.verify or page.plan.spelling or run.source.lists(page.url):
        return False  # a file has no headers to ask for
    choice = run.choice
    if choice is not None and (
        choice.begins(page) is not ReadBy.PLAIN or choice.wants_document(page)
    ):
        return False
    return run.trust.asks_head(page)


def conditional_page_headers(run: Run, page: Page, url: str) -> Mapping[str, str]:
    """Return the headers that make a request for ``page`` at ``url`` conditional; empty: none.

    The validators of a page belong to its address, whatever signature or session id is in ``url``.
    """
    trusted = page_is_trusted(run, page, url)
    if run.choice is not None and (read_by := run.choice.begins(page)) in WITH_BROWSER:
        shown = trusted and read_by is ReadBy.SHOWN
        return run.choice.pages.headers(page, url) if shown else {}
    if run.choice is not None and run.choice.wants_document(page):
        return {}
    etag, date = run.trust.validators(page) if trusted else (None, None)
    respelled = run.trust.of(page.host).respells
    return http_conditional_headers(etag, date, trusted=trusted, respelled=respelled)


def page_is_trusted(run: Run, page: Page, url: str) -> bool:
    """Whether an answer at ``url`` may confirm what is stored of a page."""
    plan = page.plan
    return (
        page.state.standing > 0
        and not (run.forces(page) or plan.named or plan.doubted)
        and (plan.extraction is not Extraction.WHOLE or plan.waits)
        and (url == page.url or unsigned_url(url) == unsigned_url(page.url))
        and not run.source.kind_of(page.url).is_hashed
    )


def note_page_request(
    attempt: VisitAttempt, url: str, headers: Mapping[str, str], *, is_head: bool
) -> None:
    """Record a request of a visit; ``headers``: those that make it conditional.

    One for a HEAD saves nothing by itself: it counts as conditional once it is answered with 304.
    """
    conditional = bool(headers) and not is_head
    attempt.asks(url, conditional=conditional, etag=headers.get("If-None-Match"))


#: Faults that a retry in the same run may not meet again (M-32).
PASSING_FAULTS: Final = frozenset(
    {Fault.NETWORK, Fault.DNS, Fault.REFUSED, Fault.TIME_OUT, Fault.RESET, Fault.TRUNCATED}
)
#: Messages, with the remedy where there is one.
MESSAGES: Final = {
    Fault.BAD_RESPONSE: "the response is not HTTP: is this the port of a web server?",
    Fault.HEADERS_TOO_LARGE: "the response headers are larger than 64 KiB",
    Fault.TOO_SLOW: "the body came more slowly than MIN_DOWNLOAD_RATE",
    Fault.DNS: "the host name cannot be resolved: check the spelling and the name server",
    Fault.REFUSED: "connection refused: is the server running, and is the port right?",
    Fault.TIME_OUT: "no complete response within DOWNLOAD_TIMEOUT",
    Fault.TRUNCATED: "the body ended before its announced length",
    Fault.TOO_LARGE: "the body is larger than DOWNLOAD_MAXSIZE",
    Fault.TLS: "no TLS connection: does the port speak TLS, or should the address begin "
    "with http://?",
    Fault.RESET: "the connection broke before the response was complete",
}
_PLAIN: Final = frozenset({Fault.BAD_RESPONSE, Fault.HEADERS_TOO_LARGE, Fault.TOO_SLOW})


def failure_message(fault: Fault, detail: str) -> str:
    """Return the message of a fault; ``detail``: what the error says of it."""
    message = MESSAGES.get(fault)
    if message is None or fault in _PLAIN:
        return (message or detail)[:1024]
    return f"{message} ({detail})"[:1024]


def failed_visit(run: Run | None, attempt: VisitAttempt, url: str, why: tuple[Fault, str]) -> Visit:
    """Return the Visit of a page whose last request, for ``url``, got no whole answer.

    ``why``: the fault and its message. ``run`` is None for a spider without one.
    """
    visit = attempt.visit(unsigned_url(url))
    visit.fail(*why)
    return visit if run is None else run.detours.counting(visit)


def excluded_visit(run: Run | None, attempt: VisitAttempt, url: str, why: str) -> Visit:
    """Return the Visit of a page that may not be asked, with the reason."""
    visit = attempt.visit(unsigned_url(url))
    visit.outcome, visit.error = Outcome.EXCLUDED, why
    return visit if run is None else run.detours.counting(visit)


def host_refusal(
    run: Run, gate: HostGate, url: str, slot: str
) -> HostBlockedError | HostDownError | None:
    """Return why a host is not asked, as the operator blocked it or it is down; None: it is asked.

    ``slot``: its host without a port.
    """
    blocked = run.blocked_hosts
    if blocked and (host := url_host_key(url)) in blocked:
        again = f"{program_name()} hosts --unblock {host}"
        return HostBlockedError(f"{host} is blocked; to unblock it: {again}")
    if gate.down and gate.is_down(slot):
        return HostDownError(
            f"not requested: {slot} does not respond, so it is skipped for the rest of this run"
        )
    return None


def note_host_failure(
    run: Run, slot: str, why: tuple[Fault, str], now: float, *, ends: bool
) -> None:
    """Notify the gate of a page request without a whole answer, and log the consequence.

    ``why``: the fault and its message. ``ends``: whether the visit ends with it. ``now`` is
    monotonic seconds.
    """
    fault, message = why
    turn = run.gate.failed(slot, fault, now, ends=ends)
    if turn is Turn.PARKED:
        seconds = run.options.host_park_seconds
        logger.warning("%s does not respond; next try in %d s (%s)", slot, seconds, message)
    elif turn is Turn.DOWN:
        run.incomplete(f"host_down: {slot}")
        logger.warning("%s does not respond; skipped for the rest of this run (%s)", slot, message)


_ETAG: Final = b"etag"
_DATE: Final = b"last-modified"
_TAG: Final = b"x-robots-tag"
_REFRESH: Final = b"refresh"
_OF_304: Final = (_ETAG, _DATE, _REFRESH)  #: read of a 304


def visit_of_answer(run: Run, attempt: VisitAttempt, answer: Answer) -> Visit | NextRequest:
    """Return the Visit of an attempt after an answer, or the request with which it goes on."""
    if run.session is not None:
        run.session.judge(attempt, answer)
    status, page = answer.status, attempt.page
    outcome = outcome_of_http_status(
        status, conditional=attempt.traffic.conditional or attempt.confirmed
    )
    confirmed = outcome is Outcome.NOT_MODIFIED and not page.plan.verify
    if confirmed and attempt.away is None and not answer.is_head:
        url = unsigned_url(answer.url)
        return confirmed_visit(attempt, url, answer.headers, latency=answer.latency)
    visit, headers = attempt.visit(unsigned_url(answer.url)), AnswerHeaders(answer.headers)
    visit.http_status, visit.outcome = http_status_read(status), outcome
    if attempt.away is not None:
        return _away(run, visit, answer, headers)
    got = visit.answer
    got.robots_tags = headers.lines(_TAG)
    got.refresh = headers.get(_REFRESH)
    if outcome in (Outcome.NOT_FOUND, Outcome.HTTP_ERROR) and page.lacks_signature:
        why = f"HTTP status {status} without the signature under which it was last read"
        visit.fail(Fault.UNSIGNED, why)
        return visit
    if answer.is_head:
        return _after_head(run, visit, answer, headers)
    got.response_ms = int(1000 * answer.latency)
    got.etag, got.last_modified = http_validators_kept(
        headers.get(_ETAG), headers.get(_DATE), int(time.time())
    )
    decided = _decided(run, visit, answer, headers)
    if decided is not None:
        return decided
    match visit.outcome:
        case Outcome.CHANGED | Outcome.NOT_ACCEPTABLE:
            _take_body(visit, answer, headers)
            got.content_encoding = attempt.content_encoding
        case Outcome.REDIRECT:
            return _redirected(run, visit, answer, headers) or visit
        case Outcome.NOT_FOUND | Outcome.HTTP_ERROR | Outcome.TRANSIENT:
            visit.error = f"HTTP status {status}"
            if attempt.lacks_data:
                visit.error = "its document is there, and its own data is not found"
    return visit


def confirmed_visit(attempt: VisitAttempt, url: str, headers: Lines, *, latency: float) -> Visit:
    """Return the Visit of a page that answered 304 at ``url``; ``latency`` is in seconds.

    A 304 may renew validators; those that it does not repeat stay (RFC 9111 section 3.2). A 304
    with the ETag of another version than the request's confirms nothing (section 4.3.4), nor does
    another date if the request had only a date. An ETag of another version is never stored, not
    even if the request had only a date: the stored text belongs to another version.
    """
    read: dict[bytes, str | None] = dict.fromkeys(_OF_304)
    tags = []
    for name, value in headers:
        lower = name.lower()
        if lower == _TAG:
            tags.append(value.decode("latin-1"))
        elif lower in read:
            read[lower] = value.decode("latin-1") or None
    visit = attempt.visit(url)
    answer, record = visit.answer, visit.page.record
    answer.robots_tags, answer.refresh = tuple(tags), read[_REFRESH]
    visit.outcome, visit.http_status = Outcome.NOT_MODIFIED, 304
    answer.response_ms = int(1000 * latency)
    answer.etag, answer.last_modified = record.etag, record.last_modified
    if visit.page.rendering is not None:  # the headers are those of its document
        return visit
    etag, date = read[_ETAG] or record.etag, read[_DATE] or record.last_modified
    if (etag, date) != (record.etag, record.last_modified):
        _renew_validators(visit, read[_ETAG], read[_DATE])
    return visit


def _renew_validators(visit: Visit, etag: str | None, date: str | None) -> None:
    """Take the validators of a 304 that differ from the stored ones, if it may be believed."""
    answer, record, asked = visit.answer, visit.page.record, visit.traffic.asked_etag
    etag, date = http_validators_kept(etag, date, int(time.time()))
    if is_304_of_other_version(asked, etag):
        _fail_as_other_version(visit, f"the ETag {etag:.80} to a request with {asked:.80}")
        return
    if asked is None and is_304_of_other_date(record.last_modified, date):
        dates = f"the date {date:.80} to a request with {record.last_modified:.80}"
        _fail_as_other_version(visit, dates)
        return
    if etag and record.etag and not is_304_of_other_version(record.etag, etag):
        answer.etag = etag
    answer.last_modified = date or record.last_modified


def _fail_as_other_version(visit: Visit, names: str) -> None:
    why = f"a 304 response with {names}; the stored page stays, and the next request downloads it"
    visit.fail(Fault.OTHER_VERSION, why)


def unasked_visit(page: Page) -> Visit:
    """Return the Visit of a stored page without a request, as if a 304 had confirmed it."""
    record = page.record
    return Visit(
        page=page,
        outcome=Outcome.NOT_MODIFIED,
        url=page.url,
        again=True,
        answer=PageAnswer(etag=record.etag, last_modified=record.last_modified),
    )


def _decided(
    run: Run, visit: Visit, answer: Answer, headers: AnswerHeaders
) -> Visit | NextRequest | None:
    """Return the Visit, or its next request, where neither body nor redirect matters further.

    A look at an unreached page goes on only where a cookie was set, or may be on the way.
    """
    if visit.outcome is Outcome.BAD_HEADER:
        visit.fail(Fault.UNSOLICITED_304, "a 304 response to a request without validators")
    status = answer.status
    wall = bot_wall_of_answer(status, headers, answer.body) if status != 304 else None
    if wall is not None:
        visit.fail(Fault.CHALLENGE, f"{wall} instead of the page")
        return visit
    if not visit.page.plan.verify:
        return None
    if visit.outcome is Outcome.REDIRECT and (status in TEMPORARY or b"set-cookie" in headers):
        return _redirected(run, visit, answer, headers) or visit
    return visit


def _after_head(
    run: Run, visit: Visit, answer: Answer, headers: AnswerHeaders
) -> Visit | NextRequest:
    """Return the Visit of a page that a HEAD confirms, otherwise the GET of the page."""
    got, attempt, page = visit.answer, visit.attempt, visit.page
    assert attempt is not None, "it was requested"
    if answer.status == 304 and answer.has_validators:  # as to a GET with the same validators
        attempt.traffic.conditional = True
        attempt.traffic.conditional_requests += 1
        return confirmed_visit(attempt, visit.url, answer.headers, latency=answer.latency)
    etag, date = headers.get(_ETAG), headers.get(_DATE)
    size = given_number(headers.get(b"content-length") or "")
    brings = visit.http_status == 200 and got.refresh is None
    if brings and run.trust.confirms(page, etag, date, size):
        visit.outcome = Outcome.NOT_MODIFIED
        got.etag, got.last_modified = page.record.etag, page.record.last_modified
        return visit
    return NextRequest(answer.url, answer.cookie, is_whole=True)


def _redirected(
    run: Run, visit: Visit, answer: Answer, headers: AnswerHeaders
) -> NextRequest | None:
    """Return the next request of this visit, or None if the redirect is its outcome."""
    location = _location(headers)
    routes = run.source.has_hash_routes
    target = join_url(can_ada.parse(answer.url), location, routes=routes) if location else None
    if target is not None and "#" not in f"{location}":  # as in a browser: the fragment stays
        target += hash_route(answer.url)
    if target is None:
        visit.fail(Fault.NO_LOCATION, f"status {answer.status} without a usable Location")
        return None
    set_cookies = headers.lines(b"set-cookie")
    redirect = Redirect(answer.url, target, answer.status, set_cookies, answer.cookie)
    cookie = run.detours.next_cookies(visit, redirect, int(time.time()))
    return None if cookie is None else NextRequest(target, cookie)


def _away(run: Run, visit: Visit, answer: Answer, headers: AnswerHeaders) -> Visit | NextRequest:
    """Return the Visit, or its next request, after an answer on the way back to the page."""
    if visit.outcome is Outcome.REDIRECT:
        following = _redirected(run, visit, answer, headers)
        if following is not None:
            return following
    refresh = headers.get(_REFRESH)
    if visit.outcome is Outcome.CHANGED and may_lead_on(refresh, answer.body):
        _take_body(visit, answer, headers)
        visit.answer.refresh = refresh
        return visit
    return run.detours.counting(visit)


def _take_body(visit: Visit, answer: Answer, headers: AnswerHeaders) -> None:
    got = visit.answer
    got.body = answer.body
    got.content_type = headers.get(b"content-type") or ""
    got.set_cookies, got.cookie = headers.lines(b"set-cookie"), answer.cookie


def _location(headers: AnswerHeaders) -> str:
    """Return the Location: as UTF-8 where it is valid, like browsers, otherwise as Latin-1."""
    value = headers.raw(b"location")
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
