"""Bot walls in answers: one search shows that a page has none of their signs."""

import pytest
from scrapy.http import HtmlResponse

from smartcrawl.engine.download.bot_walls import bot_wall_of_response
from smartcrawl.rules.shield import MARKS, START, Mark, decide_challenge


def answered(body: bytes, **headers: str) -> HtmlResponse:
    return HtmlResponse("https://a.example/", status=200, body=body, headers=headers)


def wall(mark: Mark) -> str:
    tags = "".join(f"<p {sign}>" for sign in mark.signs)
    return f"<title>{mark.title}</title>{tags}"


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.signs[0])
@pytest.mark.parametrize(
    "spelled",
    [str, str.upper, lambda page: page.replace('"', "'"), lambda page: f"<p é\udcff>{page}"],
    ids=["as it is", "capitals", "single quotes", "not UTF-8"],
)
def test_whatever_is_a_wall_by_the_rules_is_found_in_an_answer(mark, spelled):
    body = spelled(wall(mark)).encode(errors="surrogateescape")

    assert bot_wall_of_response(answered(body)) == decide_challenge(200, {}, body) is not None


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.signs[0])
def test_signs_that_come_late_are_none(mark):
    assert bot_wall_of_response(answered(b" " * START + wall(mark).encode())) is None


def test_a_header_tells_whatever_the_body_is():
    assert (
        bot_wall_of_response(answered(b"text", **{"CF-Mitigated": "challenge"}))
        == "a Cloudflare challenge"
    )
    assert bot_wall_of_response(answered(b"text")) is None
