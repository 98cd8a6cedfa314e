"""The robots.txt of a host, asked for now within limits of time and size (R2-40).

Public addresses are asked only, unless ALLOW_NETWORKS allows others. All work is on the event loop
and never blocks it.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Final

import can_ada
from anyio import to_thread

from smartcrawl.extract.robots_txt import LIMIT, robots_txt_as_utf8
from smartcrawl.model.options import Options
from smartcrawl.model.urls import join_url
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS
from smartcrawl.sources.web_client import (
    UnconnectedError,
    UnknownHostError,
    WebAnswer,
    WebClient,
    WebError,
)

SECONDS: Final = 5.0  #: for everything
_CONNECT_SECONDS: Final = 2.0  #: for a connection, so that time is left for the other scheme


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """The answer to a request for robots.txt, or the reason why there is none."""

    origin: str  #: such as ``https://example.com``
    status: int = 0  #: 0: none
    body: bytes = b""
    reason: str | None = None

    @property
    def failed(self) -> bool:
        """Whether the answer says nothing about the rules."""
        return self.reason is not None and not 400 <= self.status < 500


class RobotsDownload:
    """Asks hosts for their robots.txt."""

    def __init__(self, options: Options, user_agent: str) -> None:
        self._options = options
        self._headers = {
            "User-Agent": user_agent,
            "Accept": "text/plain, */*;q=0.1",
        }
        self._web: WebClient | None = None

    async def answer(self, host: str) -> RobotsAnswer:
        """Return the answer of a host (as ``host.name``), over https or else over http."""
        origin = ""
        try:
            async with asyncio.timeout(SECONDS):
                for origin in (f"https://{host}", f"http://{host}"):
                    try:
                        return await self._followed(origin)
                    except UnconnectedError as error:
                        reason = str(error)
        except TimeoutError:
            reason = f"no whole answer within {SECONDS:g} s"
        except UnknownHostError:
            reason = "its name is not found"
        except WebError as error:
            reason = str(error)
        return RobotsAnswer(origin, reason=reason)

    async def _followed(self, origin: str) -> RobotsAnswer:
        """Return the answer at the end of redirects."""
        if self._web is None:
            self._web = await to_thread.run_sync(_web_client, self._options)
        url = f"{origin}/robots.txt"
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._web.ask(url, self._headers, most=LIMIT)
            status, location = answer.status, answer.headers.get("location", "")
            if status not in REDIRECTS or not location:
                break
            target = join_url(can_ada.parse(url), location)
            if target is None:
                raise WebError("a redirect leads to no web address")
            url = target
        else:
            raise WebError(f"more than {MAX_REDIRECTS} redirects")
        if 400 <= status < 500:
            return RobotsAnswer(origin, status, reason=f"status {status}: everything is allowed")
        if not 200 <= status < 300:
            raise WebError(f"status {status}")
        return RobotsAnswer(origin, status, _text(answer))


def _web_client(options: Options) -> WebClient:
    """Return a client under the rules of the engine and the lane."""
    context = ssl.create_default_context()
    if not options.verify_certificates:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif options.ca_file is not None:
        context.load_verify_locations(cafile=options.ca_file)
    guard = ConnectionGuard(options.allow_networks, options.allow_ports)
    return WebClient(guard, tls=context, connect_seconds=_CONNECT_SECONDS)


def _text(answer: WebAnswer) -> bytes:
    """Return the body of an answer in UTF-8."""
    coding = answer.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise WebError("it is compressed, although no compression was requested")
    body = robots_txt_as_utf8(answer.body)
    if b"\0" in body:
        raise WebError("it is not text")
    return body
