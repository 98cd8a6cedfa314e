"""The credentials of a source on a request: which get them, and which do not even wait for them."""

import asyncio
from typing import Any

from scrapy import Request

from smartcrawl.engine.auth.middleware import AuthMiddleware
from smartcrawl.engine.download.answers import AS_PAGE


class Session:
    """A login that has not begun; ``asked`` counts how often somebody waited for it."""

    over = None
    certificate = None

    def __init__(self) -> None:
        self.asked = 0

    def logs_out(self, url: str) -> bool:
        return False

    def concerns(self, url: str) -> bool:
        return url.startswith("https://docs.example/")

    async def ready(self) -> bool:
        self.asked += 1
        return True

    def credentials(self, url: str, method: str) -> dict[str, str]:
        return {"Authorization": "Bearer 8c1f"}


def sent(url: str) -> tuple[Request, Session]:
    session: Any = Session()
    crawler: Any = None
    request = Request(url, meta={AS_PAGE: True})
    asyncio.run(AuthMiddleware(crawler, crawler, session).process_request(request))
    return request, session


def test_a_request_to_another_origin_waits_for_no_login_and_gets_no_credentials():
    request, session = sent("https://elsewhere.example/x")

    assert (session.asked, b"Authorization" in request.headers) == (0, False)


def test_a_request_to_an_origin_of_the_login_waits_for_it_and_gets_the_credentials():
    request, session = sent("https://docs.example/x")

    assert session.asked == 1
    assert request.headers["Authorization"] == b"Bearer 8c1f"
