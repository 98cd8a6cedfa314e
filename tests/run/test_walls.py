"""Bot walls in answers: one search shows that a page has none of their signs."""

import pytest

from smartcrawl.rules.shield import MARKS, START, Mark, decide_challenge
from smartcrawl.run.answers import bot_wall_of_answer
from smartcrawl.run.received import AnswerHeaders


def found(body: bytes, *lines: tuple[bytes, bytes]) -> str | None:
    return bot_wall_of_answer(200, AnswerHeaders(lines), body)


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

    assert found(body) == decide_challenge(200, {}, body) is not None


@pytest.mark.parametrize("mark", MARKS, ids=lambda mark: mark.signs[0])
def test_signs_that_come_late_are_none(mark):
    assert found(b" " * START + wall(mark).encode()) is None


def test_a_header_tells_whatever_the_body_is():
    assert found(b"text", (b"CF-Mitigated", b"challenge")) == "a Cloudflare challenge"
    assert found(b"text") is None
