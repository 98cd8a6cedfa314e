"""Visits of attempts, and what a page needs to be asked."""

from smartcrawl.model.pages import NEEDS_SIGNATURE, Page, PageRecord, VisitAttempt
from smartcrawl.rules.model import Outcome

URL = "http://a.example/"


def test_a_visit_has_the_traffic_of_its_attempt():
    page = Page(1, URL, "a.example", 0, kind=2)
    attempt = VisitAttempt(page)
    attempt.asks(URL, conditional=False)
    attempt.asks(URL, conditional=True, etag='"1"')
    attempt.traffic.wire_bytes += 5
    attempt.content_length, attempt.retry_after = 3, 60
    visit = attempt.visit(URL + "b")
    assert visit.page is page
    assert (visit.url, visit.kind, visit.outcome) == (URL + "b", 2, Outcome.UNREACHABLE)
    traffic = visit.traffic
    assert (traffic.requests, traffic.conditional_requests, traffic.wire_bytes) == (2, 1, 5)
    assert (traffic.conditional, traffic.asked_etag) == (True, '"1"')
    assert (visit.answer.content_length, visit.answer.retry_after) == (3, 60)
    assert attempt.trail == [URL]


def test_only_a_304_to_a_conditional_request_confirms_a_page():
    visit = VisitAttempt(Page(1, URL, "a.example", 0)).visit(URL)
    visit.http_status = 304
    assert not visit.not_modified
    visit.traffic.conditional = True
    assert visit.not_modified


def test_a_page_lacks_the_signature_that_it_was_read_under():
    page = Page(1, URL, "a.example", 0, record=PageRecord(signs=NEEDS_SIGNATURE))
    assert page.lacks_signature
    page.plan.signed = URL + "?PHPSESSID=1"  # a session id is none
    assert page.lacks_signature
    page.plan.signed = URL + "?api_key=1"
    assert not page.lacks_signature
