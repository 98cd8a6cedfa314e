"""Whether a session lasts, of which pages in a browser have to know (ADR 146, 148)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.model.secrets import Secret
from smartcrawl.run.login_ports import LoginRequest
from smartcrawl.run.received import Answer
from smartcrawl.run.session import LoginSession
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
