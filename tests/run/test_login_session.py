"""Whether a session lasts, and how many answers wait to know it (ADR 146, 148)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.model.pages import Page, Visit, VisitAttempt
from smartcrawl.model.secrets import Secret
from smartcrawl.run.login_ports import LoginRequest
from smartcrawl.run.received import Answer
from smartcrawl.run.session import MOST_BYTES, MOST_WAITING, LoginSession
from smartcrawl.run.visits import confirmed_visit
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.site import SiteSource

SEED = "https://a.example/x"
SHOWN, WALL = b"<a class=me>Account</a>", b"<form><input type=password></form>"
FILE = f"""[sources.a]
seeds = ["{SEED}"]
[sources.a.auth]
kind = "cookie"
cookie = "A_COOKIE"
logged_in = "a.me"
"""


class Rows:
    """The attempts of a run without other workers, none of which was refused."""

    def refusal(self, configuration: bytes, now: int) -> None:
        return None

    def begin(self, now: int) -> bool:
        return True

    def held(self) -> None:
        return None


class Server:
    """Answers the proof page."""

    def __init__(self) -> None:
        self.body = SHOWN
        self.asked: list[str] = []

    async def ask(self, request: LoginRequest) -> Answer:
        self.asked.append(request.url)
        return Answer(request.url, 200, ((b"content-type", b"text/html"),), self.body)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def session(tmp_path: Path, server: Server) -> LoginSession:
    """A session with its first login behind it."""
    file = tmp_path / "sources.toml"
    file.write_text(FILE)
    source = load_declared_sources(file)["a"]
    assert isinstance(source, SiteSource)
    rows: Any = Rows()
    made = LoginSession(source, {"cookie": Secret("session=8c")}, rows)
    made.ask_with(server.ask)
    assert asyncio.run(made.ready())
    server.asked.clear()
    return made


def test_the_present_session_lasts_while_the_proof_page_shows_it(
    session: LoginSession, server: Server
):
    assert asyncio.run(session.lasted(session.number))
    server.body = WALL
    assert not asyncio.run(session.lasted(session.number))
    assert server.asked == [SEED, SEED]


@pytest.mark.parametrize("other", [-1, 1])
def test_a_page_of_another_login_is_in_doubt_whatever_the_proof_page_shows(
    session: LoginSession, server: Server, other: int
):
    """What one session brought is not made true by the next one."""
    assert not asyncio.run(session.lasted(session.number + other))
    assert server.asked == []


def test_no_session_lasts_once_nothing_is_asked(session: LoginSession, server: Server):
    session.over = "login: ended twice"
    assert not asyncio.run(session.lasted(session.number))
    assert server.asked == []


def waiting(session: LoginSession, number: int, body: bytes | None = None) -> Visit:
    """An answer that a lost session can forge, which does not count yet."""
    url = f"https://a.example/{number}"
    attempt = VisitAttempt(Page(number, url, "a.example", 0))
    session.dress(attempt, url)
    visit = confirmed_visit(attempt, url, [], latency=0.0)
    visit.answer.body = body
    assert not session.admits(visit)
    return visit


def test_answers_wait_in_bounds(session: LoginSession, server: Server):
    """The first one is reported; then as many as hurry the proof; then no page is asked."""
    reported: list[bool] = []
    session.when_waiting = lambda: reported.append(session.hurries)
    visits = [waiting(session, number) for number in range(MOST_WAITING - 1)]
    assert (reported, session.hurries, session.is_full) == ([False], False, False)
    visits.append(waiting(session, MOST_WAITING))
    assert (reported, session.hurries, session.is_full) == ([False, True], True, False)
    visits += [waiting(session, number) for number in range(MOST_WAITING + 1, 2 * MOST_WAITING)]
    assert not session.is_full
    visits.append(waiting(session, 2 * MOST_WAITING))
    assert session.is_full

    settled = asyncio.run(session.settle())

    assert (settled.taken, settled.again, settled.dropped) == (visits, [], [])
    assert server.asked == [SEED], "one request for all of them"
    assert (session.waits, session.hurries, session.is_full) == (False, False, False)


def test_bodies_that_wait_are_bounded(session: LoginSession):
    body = bytes(MOST_BYTES // 2)
    waiting(session, 1, body)
    assert not session.hurries
    waiting(session, 2, body)
    assert session.hurries
    for number in range(3, 8):
        waiting(session, number, body)
    assert not session.is_full
    waiting(session, 8, body)
    assert session.is_full
