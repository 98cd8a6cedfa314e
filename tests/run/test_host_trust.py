"""What a run learns of a host's validators, and which of them it sends."""

from types import SimpleNamespace
from typing import Any

from smartcrawl.model.batches import Batch
from smartcrawl.model.pages import Page, PageRecord, PageState, Traffic, Visit
from smartcrawl.rules.http import http_conditional_headers
from smartcrawl.rules.model import Outcome, Standing
from smartcrawl.rules.trust import TURNED, Trust
from smartcrawl.run.hosts import HostTrust

HOST = "a.example"
DATE = "Mon, 05 Jan 2026 10:00:00 GMT"


def host_trust(trust: Trust, *, ratio: float = 0) -> HostTrust:
    batches: Any = SimpleNamespace(batch=Batch())
    options: Any = SimpleNamespace(trust_sample_ratio=ratio)
    return HostTrust({HOST: trust}, options, batches, now=0, run=1)


def page(etag: str, date: str | None = DATE, *, marks: int = 0) -> Page:
    record = PageRecord(etag=etag, last_modified=date, body_hash=b"bytes")
    state = PageState(standing=Standing.HELD, attempts=1, etag_marks=marks)
    return Page(1, f"http://{HOST}/", HOST, 0, record=record, state=state)


def sent(trust: HostTrust, asked: Page) -> dict[str, str]:
    respells = trust.of(HOST).respells
    headers = http_conditional_headers(*trust.validators(asked), trusted=True, respelled=respells)
    return {name: value for name, value in headers.items() if name == "If-None-Match"}


def answer(trust: HostTrust, asked: Page, status: int) -> Trust:
    """Let the page be answered with its own tag and bytes, or 304; return what is known then."""
    tag = sent(trust, asked).get("If-None-Match")
    outcome = Outcome.NOT_MODIFIED if status == 304 else Outcome.SAME
    visit = Visit(page=asked, outcome=outcome, url=asked.url)
    visit.traffic = Traffic(conditional=True, asked_etag=tag)
    visit.http_status = status
    visit.answer.etag, visit.answer.last_modified = asked.record.etag, asked.record.last_modified
    visit.parsed.body_hash = asked.record.body_hash
    trust.learn(visit)
    return trust.of(HOST)


def test_a_coded_tag_is_sent_then_sent_twice_then_left_out_for_the_date():
    trust, coded = host_trust(Trust()), page('"a-gzip"')

    assert sent(trust, coded) == {"If-None-Match": '"a-gzip"'}
    assert answer(trust, coded, 200).unheard == 0, "it was asked in one spelling"
    assert sent(trust, coded) == {"If-None-Match": '"a-gzip", "a"'}
    assert answer(trust, page('"a"', None), 200).unheard == 0, "it has one spelling"
    assert answer(trust, coded, 200).unheard == 1
    assert answer(trust, coded, 200).unheard == 2
    assert trust.validators(coded) == (None, DATE)
    assert trust.validators(page('"a"')) == ('"a"', DATE)
    assert sent(trust, page('"a-gzip"', None)) == {"If-None-Match": '"a-gzip", "a"'}
    assert answer(trust, coded, 304).unheard == 2, "it was asked with the date"
    assert answer(trust, coded, 200).unheard == 2


def test_the_visit_after_a_sample_shows_that_a_coded_tag_is_known_again():
    trust, coded = host_trust(Trust(ignored=2, unheard=2), ratio=1), page('"a-gzip"')

    assert sent(trust, coded) == {"If-None-Match": '"a-gzip", "a"'}
    assert answer(trust, coded, 304) == Trust(ignored=2, honoured=1, run=1)


def test_only_304s_to_tags_of_rotating_pages_with_a_date_end_a_rotation():
    rotates = Trust(repeated=2, rotated=2, rotating=1, run=1)
    for asked in (page('"a"'), page('"a"', None, marks=TURNED)):
        assert answer(host_trust(rotates, ratio=1), asked, 304).matched == 0
    turned = page('"a"', marks=TURNED)
    assert answer(host_trust(rotates), turned, 304).matched == 0, "it was asked with the date"
    assert answer(host_trust(rotates, ratio=1), turned, 304).matched == 1


def test_a_plain_tag_is_sent_then_left_out_for_the_date_and_found_again_after_a_sample():
    trust, plain = host_trust(Trust()), page('"a"')

    assert answer(trust, page('"a"', None), 200).plain_unheard == 0, "it has no date"
    assert answer(trust, plain, 200).plain_unheard == 1
    assert sent(trust, plain) == {"If-None-Match": '"a"'}
    assert answer(trust, plain, 200).plain_unheard == 2
    assert trust.validators(plain) == (None, DATE)
    assert trust.validators(page('"a-gzip"')) == ('"a-gzip"', DATE)
    assert trust.validators(page('"a"', None)) == ('"a"', None)
    assert answer(trust, plain, 304).plain_heard == 0, "it was asked with the date"
    assert answer(trust, plain, 200).plain_unheard == 2
    again = host_trust(trust.of(HOST), ratio=1)
    assert sent(again, plain) == {"If-None-Match": '"a"'}
    assert answer(again, page('"a"', None), 304).plain_heard == 0
    assert answer(again, plain, 304).plain_heard == 1
    assert host_trust(again.of(HOST)).validators(plain) == ('"a"', DATE)


def test_a_304_to_a_coded_tag_says_nothing_about_plain_ones():
    trust = host_trust(Trust(honoured=1))

    assert answer(trust, page('"a-gzip"'), 304).plain_heard == 0
    assert answer(trust, page('"a"'), 304).plain_heard == 1
