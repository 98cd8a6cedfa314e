"""Redirects of a login: which of them repeat the request with its body."""

import asyncio

import pytest

from smartcrawl.run.login_ports import LoginRequest
from smartcrawl.run.received import Answer
from smartcrawl.run.session import LoginSession

FORM, NEXT = "https://a.example/login", "https://a.example/next"
FILLED_IN = LoginRequest(FORM, "POST", b"user=ada", {"Content-Type": "text/plain"})


class Session(LoginSession):
    """Keeps what it was to send, and answers the first request with a redirect."""

    def __init__(self, status: int) -> None:
        self.sent: list[LoginRequest] = []
        self._status = status

    def concerns(self, url: str) -> bool:
        return True

    async def _sent(self, request: LoginRequest, *, is_again: bool = False) -> Answer:
        self.sent.append(request)
        if request.url == FORM:
            return Answer(FORM, self._status, ((b"location", b"/next"),), b"")
        return Answer(NEXT, 200, (), b"")


@pytest.mark.parametrize(
    ("status", "repeats"), [(302, False), (303, False), (307, True), (308, True)]
)
def test_a_redirect_that_keeps_the_method_keeps_the_body(status: int, repeats: bool):
    session = Session(status)

    asyncio.run(session._follow(FILLED_IN))

    target = FILLED_IN._replace(url=NEXT) if repeats else LoginRequest(NEXT)
    assert session.sent == [FILLED_IN, target]
