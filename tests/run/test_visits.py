"""From an answer to the Visit of its page, or to the request with which that Visit goes on."""

from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.model.pages import (
    NEEDS_SIGNATURE,
    Page,
    PagePlan,
    PageRecord,
    PageState,
    Visit,
    VisitAttempt,
)
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.run.answers import NextRequest
from smartcrawl.run.received import Answer, AnswerHeaders
from smartcrawl.run.visits import unasked_visit, visit_of_answer

URL = "http://a.example/page"
DATE, EARLIER = "Tue, 06 Jan 2026 10:00:00 GMT", "Mon, 05 Jan 2026 10:00:00 GMT"
RECORD = PageRecord(etag='"a"', last_modified=DATE)
BODY = b"<title>A page</title><p>of some words"


class Detours:
    """Follows no redirect but those with these cookies; notes what it was asked."""

    def __init__(self, cookie: str | None = None) -> None:
        self.cookie = cookie
        self.redirects: list[Any] = []
        self.counted: list[Visit] = []

    def next_cookies(self, visit: Visit, redirect: Any, now: int) -> str | None:
        self.redirects.append(redirect)
        return self.cookie

    def counting(self, visit: Visit) -> Visit:
        self.counted.append(visit)
        return visit


def attempt_of(
    record: PageRecord = RECORD, *, conditional: bool = True, verify: bool = False
) -> VisitAttempt:
    page = Page(1, URL, "a.example", 0, record=record, plan=PagePlan(verify=verify))
    page.state = PageState(standing=Standing.HELD)
    attempt = VisitAttempt(page)
    attempt.asks(URL, conditional=conditional, etag=record.etag if conditional else None)
    return attempt


def found(
    status: int,
    *lines: tuple[str, str],
    attempt: VisitAttempt | None = None,
    detours: Detours | None = None,
    confirms: bool = False,
    **more: Any,
) -> Visit | NextRequest:
    run: Any = SimpleNamespace(
        source=SimpleNamespace(has_hash_routes=False),
        detours=detours or Detours(),
        trust=SimpleNamespace(confirms=lambda *_: confirms),
        session=None,
    )
    headers = [(name.encode(), value.encode()) for name, value in lines]
    answer = Answer(URL, status, headers, more.pop("body", BODY), 2.0, **more)
    return visit_of_answer(run, attempt or attempt_of(), answer)


def visit(*given: Any, **more: Any) -> Visit:
    result = found(*given, **more)
    assert isinstance(result, Visit)
    return result


@pytest.mark.parametrize(
    ("status", "outcome", "error"),
    [
        (200, Outcome.CHANGED, None),
        (406, Outcome.NOT_ACCEPTABLE, None),
        (404, Outcome.NOT_FOUND, "HTTP status 404"),
        (410, Outcome.NOT_FOUND, "HTTP status 410"),
        (403, Outcome.HTTP_ERROR, "HTTP status 403"),
        (503, Outcome.TRANSIENT, "HTTP status 503"),
    ],
)
def test_the_status_says_what_an_answer_is_and_whether_its_body_counts(status, outcome, error):
    got = visit(
        status,
        ("ETag", '"b"'),
        ("Content-Type", "text/html"),
        ("X-Robots-Tag", "noindex"),
        ("x-robots-tag", "nofollow"),
        ("Refresh", "5"),
        ("Set-Cookie", "a=b"),
        cookie="c=d",
    )

    assert (got.outcome, got.http_status, got.error, got.url) == (outcome, status, error, URL)
    answer = got.answer
    assert (answer.robots_tags, answer.refresh) == (("noindex", "nofollow"), "5")
    assert (answer.etag, answer.last_modified, answer.response_ms) == ('"b"', None, 2000)
    has_body = error is None
    assert answer.body == (BODY if has_body else None)
    assert answer.content_type == ("text/html" if has_body else "")
    assert (answer.set_cookies, answer.cookie) == ((("a=b",), "c=d") if has_body else ((), ""))


def test_an_error_without_the_signature_of_the_stored_body_is_none_of_the_page():
    for status, fault in ((404, Fault.UNSIGNED), (403, Fault.UNSIGNED), (503, 503)):
        attempt = attempt_of(RECORD._replace(signs=NEEDS_SIGNATURE))
        assert visit(status, attempt=attempt).http_status == fault


# 304


@pytest.mark.parametrize(
    ("lines", "etag", "date"),
    [
        ([], '"a"', DATE),
        ([("ETag", ""), ("Last-Modified", "")], '"a"', DATE),
        ([("etag", 'W/"a"')], 'W/"a"', DATE),
        ([("ETag", '"a"'), ("Last-Modified", EARLIER)], '"a"', EARLIER),
    ],
)
def test_a_304_confirms_the_page_and_may_renew_validators_of_its_version(lines, etag, date):
    got = visit(304, ("X-Robots-Tag", "noindex"), ("Refresh", "0; url=/b"), *lines)

    assert (got.outcome, got.http_status, got.error) == (Outcome.NOT_MODIFIED, 304, None)
    assert (got.answer.etag, got.answer.last_modified) == (etag, date)
    assert (got.answer.robots_tags, got.answer.refresh) == (("noindex",), "0; url=/b")
    assert (got.answer.response_ms, got.answer.body) == (2000, None)


def test_a_304_of_another_version_confirms_nothing():
    got = visit(304, ("ETag", '"b"'))
    assert (got.http_status, got.answer.etag) == (Fault.OTHER_VERSION, '"a"')
    assert 'the ETag "b" to a request with "a"' in str(got.error)

    dated = attempt_of(PageRecord(last_modified=DATE))
    got = visit(304, ("Last-Modified", EARLIER), attempt=dated)
    assert got.http_status == Fault.OTHER_VERSION
    assert f"the date {EARLIER} to a request with {DATE}" in str(got.error)


def test_the_etag_of_a_304_is_not_stored_where_the_request_had_only_a_date():
    dated = attempt_of(PageRecord(last_modified=DATE))
    assert visit(304, ("ETag", '"b"'), attempt=dated).answer.etag is None


def test_a_304_to_a_request_without_validators_is_a_fault():
    got = visit(304, attempt=attempt_of(conditional=False))
    assert got.http_status == Fault.UNSOLICITED_304


def test_a_look_at_an_unreached_page_takes_a_304_and_a_body_as_they_are():
    for status, outcome in ((304, Outcome.NOT_MODIFIED), (200, Outcome.CHANGED)):
        got = visit(status, ("ETag", '"b"'), attempt=attempt_of(verify=True))
        assert (got.outcome, got.http_status, got.answer.body) == (outcome, status, None)


# HEAD


def test_a_head_that_confirms_saves_the_download_and_any_other_is_followed_by_the_get():
    def head(status: int, *lines: tuple[str, str], **more: Any) -> Visit | NextRequest:
        attempt = attempt_of(conditional=False)
        return found(status, *lines, attempt=attempt, is_head=True, cookie="c=d", **more)

    confirmed = head(200, confirms=True)
    assert isinstance(confirmed, Visit)
    assert (confirmed.outcome, confirmed.answer.etag) == (Outcome.NOT_MODIFIED, '"a"')
    assert confirmed.answer.last_modified == DATE
    whole = NextRequest(URL, "c=d", is_whole=True)
    assert head(200) == head(404, confirms=True) == head(304) == whole
    assert head(200, ("Refresh", "0; url=/b"), confirms=True) == whole
    not_modified = head(304, ("ETag", 'W/"a"'), has_validators=True)
    assert isinstance(not_modified, Visit)
    assert (not_modified.outcome, not_modified.answer.etag) == (Outcome.NOT_MODIFIED, 'W/"a"')
    assert not_modified.not_modified
    assert not_modified.traffic.conditional_requests == 1


# Redirects, walls


def test_a_redirect_is_the_outcome_or_the_next_request_of_the_visit():
    plain, follows = Detours(), Detours("a=b")
    location = ("Location", "/ö?x=1")
    lines = (location, ("Set-Cookie", "a=b"))
    assert visit(302, *lines, detours=plain, cookie="c=d").outcome is Outcome.REDIRECT
    [redirect] = plain.redirects
    assert redirect[:3] == (URL, "http://a.example/%C3%B6?x=1", 302)
    assert redirect[3:5] == (("a=b",), "c=d")
    assert found(302, *lines, detours=follows) == NextRequest(redirect.target, "a=b")
    for wrong in ((), (("Location", ""),), (("Location", "http://"),)):
        assert visit(301, *wrong).http_status == Fault.NO_LOCATION


def test_a_look_follows_a_redirect_only_where_a_cookie_may_be_on_the_way():
    for status, lines, asks in ((301, (), 0), (302, (), 1), (301, (("Set-Cookie", "a=b"),), 1)):
        detours = Detours()
        visit(status, ("Location", "/b"), *lines, attempt=attempt_of(verify=True), detours=detours)
        assert len(detours.redirects) == asks


def test_a_wall_in_the_place_of_the_page_is_a_fault_whatever_its_status():
    for status in (200, 403, 503):
        got = visit(status, ("cf-mitigated", "challenge"))
        assert got.http_status == Fault.CHALLENGE
        assert got.error == "a Cloudflare challenge instead of the page"


@pytest.mark.parametrize(
    ("status", "body", "counts"),
    [
        (200, b"<meta http-equiv=refresh content='0; url=/page'>", False),
        (200, BODY, True),
        (404, b"<meta http-equiv=refresh content='0; url=/page'>", True),
        (302, b"", True),
    ],
)
def test_an_answer_on_the_way_counts_unless_it_may_lead_on(status, body, counts):
    attempt, detours = attempt_of(conditional=False), Detours()
    attempt.away = attempt.visit(URL)
    got = visit(
        status, ("Location", "/b"), ("Content-Type", "text/html"), attempt=attempt, body=body,
        detours=detours,
    )  # fmt: skip

    assert detours.counted == ([got] if counts else [])
    assert (got.answer.body, got.answer.content_type) == (
        (None, "") if counts else (body, "text/html")
    )


def test_headers_are_read_by_any_case_and_the_last_line_counts():
    headers = AnswerHeaders([(b"ETag", b"1"), (b"etag", b"\xe9"), (b"Empty", b"")])

    assert (headers.get(b"etag"), headers.raw(b"etag")) == ("é", b"\xe9")
    assert (headers.get(b"empty"), headers.get(b"missing")) == (None, None)
    assert headers.lines(b"etag") == ("1", "é")
    assert headers.joined() == {"etag": "1, é", "empty": ""}
    assert b"empty" in headers
    assert b"missing" not in headers


def test_a_page_without_a_request_is_as_if_a_304_had_confirmed_it():
    got = unasked_visit(Page(1, URL, "a.example", 0, record=RECORD))

    assert (got.outcome, got.url, got.again) == (Outcome.NOT_MODIFIED, URL, True)
    assert (got.answer.etag, got.answer.last_modified, got.attempt) == ('"a"', DATE, None)
