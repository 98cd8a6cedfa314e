"""Bodies that a server damaged: orders and re-extraction."""

import gzip

import pytest

from smartcrawl.model.pages import Page, PageAnswer, PageState, Visit
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.run.answers import damage_of_body

URL = "http://a.example/"
PACKED = gzip.compress(b"<p>a page")


def visit(standing: Standing, *, again: bool = False) -> Visit:
    page = Page(1, URL, "a.example", 0, state=PageState(standing=standing))
    answer = PageAnswer(content_type="text/html")
    given = Visit(page, Outcome.CHANGED, url=URL, answer=answer, extracted_again=again)
    given.parsed.body_hash = b"of this body"
    return given


@pytest.mark.parametrize("standing", [Standing.BARE, Standing.HELD])
@pytest.mark.parametrize("forced", [False, True])
def test_no_order_accepts_a_packed_body(standing, forced):
    damage = damage_of_body(visit(standing), PACKED, forced=forced)
    assert damage is not None
    assert damage[0] is Fault.BAD_ENCODING


def test_an_order_accepts_an_empty_body():
    damage = damage_of_body(visit(Standing.HELD), b" ", forced=False)
    assert damage is not None
    assert damage[0] is Fault.EMPTY
    assert damage_of_body(visit(Standing.HELD), b" ", forced=True) is None
    assert damage_of_body(visit(Standing.BARE), b" ", forced=False) is None


def test_a_stored_body_is_read_again_whatever_it_is():
    assert damage_of_body(visit(Standing.HELD, again=True), PACKED, forced=False) is None
