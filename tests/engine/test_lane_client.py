"""Requests and answers of the lane: whole answers within the limits, from allowed addresses."""

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.resolver import dnscache
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from smartcrawl import settings as shipped
from smartcrawl.engine.download import decoding
from smartcrawl.engine.download.network import GuardedResolver
from smartcrawl.engine.lane.client import LaneClient
from smartcrawl.engine.lane.connections import LaneAnswer
from smartcrawl.engine.own_spiders import HttpAuth, Offsite
from smartcrawl.model.exceptions import LaneError
from smartcrawl.sources.trust import CertificateTrust
from smartcrawl.spiders.site import SiteSpider
from tests.certificates import certificate
from tests.engine.test_network import Names
from tests.raw_site import End, RawSite, Script
from tests.site_server import Page, Site, html

SETTINGS = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}


@pytest.fixture
def resolver() -> Iterator[GuardedResolver]:
    names = Names(site=["127.0.0.1"], inside=["127.0.0.1"])
    guarded = GuardedResolver(SimpleNamespace(nameResolver=names), 0)
    guarded.protect([])
    yield guarded
    dnscache.clear()


@pytest.fixture
def asked(resolver: GuardedResolver) -> Callable[..., list[LaneAnswer]]:
    """Asks for addresses, one after the other, over the same connections."""

    def ask(
        *urls: str, headers: dict[str, str] | None = None, **settings: object
    ) -> list[LaneAnswer]:
        async def work() -> list[LaneAnswer]:
            client = LaneClient(Settings({**SETTINGS, **settings}), resolver)
            try:
                return [await client.ask(url, headers or {}) for url in urls]
            finally:
                await client.close()

        return asyncio.run(work())

    return ask


def permitted(site: Site, resolver: GuardedResolver, name: str = "site.example") -> str:
    """Let a name lead to the site; return the address of its root."""
    port = int(site.url("").rpartition(":")[2])
    resolver.guard.permit(name, port)
    return f"http://{name}:{port}"


def test_a_name_leads_where_the_guard_lets_it(site: Site, resolver: GuardedResolver, asked):
    site.pages["/"] = html("Home")
    [answer] = asked(permitted(site, resolver) + "/", headers={"X-Ours": "1"})

    assert (answer.status, answer.body) == (200, site.pages["/"].encode())
    assert site.log[0].headers["x-ours"] == "1"
    assert not {"accept", "user-agent", "accept-encoding", "cookie"} & site.log[0].headers.keys()


def test_a_name_that_leads_inside_is_not_connected_to(site: Site, resolver: GuardedResolver, asked):
    """ATT-1, ATT-6; INV-22: the resolver that connects is the guard's."""
    site.pages["/"] = html("Home")
    port = site.url("").rpartition(":")[2]

    with pytest.raises(LaneError) as caught:
        asked(f"http://inside.example:{port}/")

    assert not caught.value.sent
    assert not site.log


def test_where_nobody_listens_nothing_was_sent(resolver: GuardedResolver, asked):
    with Site() as gone:
        root = permitted(gone, resolver)

    with pytest.raises(LaneError) as caught:
        asked(root + "/")

    assert not caught.value.sent


@pytest.mark.parametrize("fault", ["reset", "truncate"])
def test_half_an_answer_is_none(fault, site: Site, resolver: GuardedResolver, asked):
    site.pages["/"] = Page("x" * 5_000, fault=fault)

    with pytest.raises(LaneError) as caught:
        asked(permitted(site, resolver) + "/")

    assert caught.value.sent


def test_a_server_that_is_silent_is_left_after_the_timeout(
    site: Site, resolver: GuardedResolver, asked
):
    site.pages["/"] = Page("x", fault="hang")

    with pytest.raises(LaneError, match="Timeout"):
        asked(permitted(site, resolver) + "/", DOWNLOAD_TIMEOUT=0.3)


@pytest.mark.parametrize(
    ("page", "limits", "why"),
    [
        (Page("x" * 5_000), {"DOWNLOAD_MAXSIZE": 4_999}, "too large"),
        (Page("x", headers={f"X-{n}": "y" * 1_000 for n in range(66)}), {}, "headers"),
        (Page("", status=304, headers={f"X-{n}": "y" * 1_000 for n in range(66)}), {}, "headers"),
    ],
)
def test_what_is_larger_than_allowed_is_not_taken(
    page: Page, limits: dict, why: str, site: Site, resolver: GuardedResolver, asked
):
    site.pages["/"] = page

    with pytest.raises(LaneError, match=why):
        asked(permitted(site, resolver) + "/", **limits)


def test_a_body_of_just_the_allowed_size_is_taken(site: Site, resolver: GuardedResolver, asked):
    site.pages["/"] = Page("x" * 5_000)

    [answer] = asked(permitted(site, resolver) + "/", DOWNLOAD_MAXSIZE=5_000)

    assert len(answer.body) == 5_000


def test_an_answer_is_what_came_over_the_wire(site: Site, resolver: GuardedResolver, asked):
    """Not unpacked, not followed, nothing remembered: that is the engine's business."""
    site.pages["/packed"] = Page("y" * 500, gzip=True, headers={"Set-Cookie": "a=1"})
    site.pages["/moved"] = Page(redirect="/packed")
    root = permitted(site, resolver)

    packed, moved = asked(f"{root}/packed", f"{root}/moved", headers={"Accept-Encoding": "gzip"})

    assert packed.body[:2] == b"\x1f\x8b"
    assert dict(packed.headers)[b"Content-Encoding"] == b"gzip"
    assert packed.size == sum(len(name) + len(value) + 4 for name, value in packed.headers)
    assert moved.status == 301
    assert [request.path for request in site.log] == ["/packed", "/moved"]
    assert "cookie" not in site.log[1].headers


def test_an_address_is_sent_as_it_is_spelt(site: Site, resolver: GuardedResolver, asked):
    path = "/a%20b/%7Ec?q=%2F&r=a%2Bb"
    asked(permitted(site, resolver) + path)

    assert site.log[0].path == path


# When answers count


@dataclass
class Watched:
    """A client for requests of a test's own, and the origin that it asks."""

    client: LaneClient
    site: RawSite
    scheme: str = "http"

    @property
    def root(self) -> str:
        return f"{self.scheme}://site.example:{self.site.port}"

    async def ask(self, path: str = "/0", *, known: bool = True) -> LaneAnswer:
        """Ask for a page, of which there is a 304 where it is known."""
        headers = {"If-None-Match": self.site.etag(path)} if known else {}
        return await self.client.ask(self.root + path, headers)


@pytest.fixture
def watched(resolver: GuardedResolver) -> Callable[..., Any]:
    """Runs a test's coroutine over a site that answers as the test says."""

    def run(
        work: Callable[[Watched, RawSite], Any],
        tls: ssl.SSLContext | None = None,
        **settings: object,
    ) -> Any:
        async def within(site: RawSite) -> Any:
            trust = CertificateTrust(verify=tls is None)
            client = LaneClient(Settings({**SETTINGS, **settings}), resolver, trust)
            try:
                return await work(Watched(client, site, "https" if tls else "http"), site)
            finally:
                await client.close()

        with RawSite(tls=tls) as site:
            resolver.guard.permit("site.example", site.port)
            return asyncio.run(within(site))

    return run


def test_an_answer_counts_after_a_round_trip_of_silence(watched):
    async def work(watched: Watched, site: RawSite) -> None:
        answer = await watched.ask()
        assert not answer.clean.done()
        began = time.monotonic()
        assert await answer.clean
        assert time.monotonic() - began > 0.005

    watched(work)


def test_the_first_answers_of_a_connection_are_watched_for_longer(watched):
    """A busy server that sends too much was seen to be silent for longer than a round trip."""

    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/1"] = lambda good: (good, 0.002, site.answer_of("/7"))
        site.scripts["/2"] = lambda good: (0.03, good)
        first = await watched.ask("/1")
        wrong = await watched.ask("/2", known=False)
        assert not await first.clean
        assert not await wrong.clean

    watched(work)


def test_a_connection_that_was_clean_settles_after_a_round_trip(watched):
    async def work(watched: Watched, site: RawSite) -> None:
        seconds = []
        for _ in range(10):  # the effect of a slow beginning fades
            began = time.monotonic()
            assert await (await watched.ask()).clean
            seconds.append(time.monotonic() - began)
        assert min(seconds) < 0.045 < seconds[0]
        assert len(site.used) == 1

    watched(work)


def test_a_round_trip_is_as_long_as_answers_take(watched):
    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/0"] = lambda good: (0.3, good)
        answer = await watched.ask()
        began = time.monotonic()
        assert await answer.clean
        assert time.monotonic() - began > 0.2

    watched(work)


@pytest.mark.parametrize(
    "script",
    [
        lambda good: (good + b"x",),
        lambda good: (good, 0.03, b"x"),
        lambda good: (good, 0.03, good),
        lambda good: (good, 0.03, End.RESET),
        lambda good: (good.replace(b"\r\n", b"\r\nConnection: close\r\n", 1), 0.03, b"x"),
    ],
    ids=["in one packet", "later", "an answer", "a reset", "after the last answer"],
)
def test_no_answer_counts_before_bytes_without_a_request(script: Script, watched):
    """All since the connection was clean last, and none before."""

    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/0"] = lambda good: (0.5, good)  # a round trip, as measured
        assert await (await watched.ask()).clean
        site.scripts["/1"] = script
        before = [await watched.ask(path) for path in ("/0", "/2", "/1")]
        assert {await answer.clean for answer in before} == {False}
        assert len(site.used) == 1
        assert await (await watched.ask("/3")).clean
        assert len(site.used) == 2

    watched(work)


def test_an_orderly_end_settles_at_once(watched):
    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/0"] = lambda good: (3.0, good, End.CLOSE)
        answer = await watched.ask()
        began = time.monotonic()
        assert await answer.clean
        assert time.monotonic() - began < 1.5

    watched(work)


def test_a_round_trip_begins_with_the_last_byte(watched):
    """Not with the first answer that waits."""

    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/0"] = lambda good: (0.2, good)
        site.scripts["/2"] = lambda good: (good, 0.1, b"x")
        answers = [await watched.ask()]
        await asyncio.sleep(0.15)
        answers += [await watched.ask("/1"), await watched.ask("/2")]
        assert not answers[0].clean.done()
        assert {await answer.clean for answer in answers} == {False}

    watched(work)


def test_no_connection_is_clean_while_a_request_is_under_way(watched):
    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/1"] = lambda good: (0.3, good + b"x")
        before = await watched.ask()
        answer = await watched.ask("/1")
        assert not await before.clean
        assert not await answer.clean

    watched(work)


def test_bytes_that_the_loop_did_not_read_yet_are_seen(watched):
    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/0"] = lambda good: (good, 0.3, b"x")
        answer = await watched.ask()
        # Both timers are due in one turn of the loop, which reads what came before them.
        asyncio.get_running_loop().call_later(0.001, time.sleep, 0.5)
        time.sleep(0.1)
        assert not await answer.clean

    watched(work)


@pytest.mark.parametrize(("end", "counts"), [(End.CLOSE, True), (End.RESET, False)])
def test_an_end_before_the_next_answer_settles_those_before(end: End, counts: bool, watched):
    async def work(watched: Watched, site: RawSite) -> None:
        before = await watched.ask()
        site.once["/1"] = lambda good: (end,)
        assert (await watched.ask("/1")).status == 304
        assert site.count("/1") == 2
        assert await before.clean is counts

    watched(work)


def test_answers_over_tls_count_likewise(watched, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(tmp_path))

    async def work(watched: Watched, site: RawSite) -> None:
        assert await (await watched.ask()).clean
        site.scripts["/1"] = lambda good: (good, 0.005, good)
        assert not await (await watched.ask("/1")).clean
        assert watched.client.strays == 1
        top, _, body = site.answer_of("/0", {}).partition(b"\r\n\r\n")
        endless = b"\r\n".join(line for line in top.split(b"\r\n") if b"Length" not in line)
        site.scripts["/2"] = lambda good: (endless + b"\r\n\r\n" + body, End.CLOSE)
        with pytest.raises(LaneError):  # who cut the connection is not known
            await watched.ask("/2", known=False)

    watched(work, context)


def test_sixteen_answers_of_a_connection_wait_at_most(watched):
    """Then another one is used, and the first one when it was clean."""

    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/1"] = lambda good: (0.5, good)
        answers = [await watched.ask(path) for path in ("/1", *15 * ["/0"])]
        assert len({id(answer.clean) for answer in answers}) == 1
        assert list(site.used.values()) == [16]
        other = await watched.ask()
        assert other.clean is not answers[0].clean
        assert list(site.used.values()) == [16, 1]
        assert await answers[0].clean

    watched(work)


def test_a_body_rests_its_connection(watched):
    async def work(watched: Watched, site: RawSite) -> None:
        one, two = await watched.ask(known=False), await watched.ask(known=False)
        assert one.status == two.status == 200
        assert one.clean is not two.clean
        assert await one.clean
        assert await two.clean

    watched(work)


def test_a_kept_connection_that_ended_meanwhile_is_replaced(watched):
    """Nothing of the answer had come, so the request is sent again, once."""

    async def work(watched: Watched, site: RawSite) -> None:
        assert await (await watched.ask()).clean
        site.once["/1"] = lambda good: (End.CLOSE,)
        assert (await watched.ask("/1")).status == 304
        assert site.count("/1") == 2
        site.scripts["/2"] = lambda good: (End.CLOSE,)
        with pytest.raises(LaneError):
            await watched.ask("/2")

    watched(work)


async def received(watched: Watched, path: str) -> dict[str, str]:
    """Ask, and return the headers that the site received."""
    await watched.ask(path)
    return watched.site.log[-1][1]


def test_an_origin_that_did_it_twice_gets_a_connection_for_each_request(watched):
    async def work(watched: Watched, site: RawSite) -> None:
        site.scripts["/0"] = lambda good: (good + b"x",)
        for strays in (1, 2):
            assert "connection" not in await received(watched, "/1")
            assert not await (await watched.ask()).clean
            assert watched.client.strays == strays
        for answer in [await watched.ask("/1") for _ in range(3)]:
            assert await answer.clean
        *_, third, second, first = site.log
        assert [headers.get("connection") for _, headers in (third, second, first)] == 3 * ["close"]
        assert list(site.used.values())[-3:] == [1, 1, 1]

    watched(work)


def test_values_are_sent_as_latin_1_and_never_break_their_line(watched):
    """RD-04."""

    async def work(watched: Watched, site: RawSite) -> None:
        await watched.client.ask(watched.root + "/0", {"If-None-Match": '"caf\xe9\xff"'})
        assert site.log[0][1]["if-none-match"] == '"caf\xe9\xff"'
        for value in ('"a\r\nX-Split: 1"', '"a\nb"', '"\0"'):
            with pytest.raises(LaneError):
                await watched.client.ask(watched.root + "/0", {"If-None-Match": value})
        for path in ("/a b", "/a#b", "/\xe9"):
            with pytest.raises(LaneError) as caught:
                await watched.ask(path)
            assert not caught.value.sent
        with pytest.raises(LaneError):
            await watched.client.ask(f"http://me:secret@site.example:{site.port}/", {})
        assert len(site.log) == 1

    watched(work)


def test_a_greeting_before_the_request_is_no_answer(resolver: GuardedResolver, asked):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        resolver.guard.permit("site.example", port)

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.recv(1000)

        thread = threading.Thread(target=greet)
        thread.start()
        with pytest.raises(LaneError):
            asked(f"http://site.example:{port}/")
        thread.join(5)


def test_too_slow_a_body_is_not_waited_for(watched):
    """MIN_DOWNLOAD_RATE, after ten seconds."""

    async def work(watched: Watched, site: RawSite) -> None:
        top, _, body = site.answer_of("/0", {}).partition(b"\r\n\r\n")
        site.scripts["/0"] = lambda good: (top + b"\r\n\r\n", 0.1, body[:9], 0.1, body[9:])
        with pytest.raises(LaneError, match="slow"):
            await watched.ask(known=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "_PATIENCE", 0.05)
        watched(work)


# Components that only a user's own spider needs (smartcrawl.engine.own_spiders)


class Own(SiteSpider):
    name = "own"


@pytest.mark.parametrize("component", [Offsite, HttpAuth])
def test_the_spider_of_this_project_does_without(component):
    crawler = get_crawler(Own)
    crawler.spider = SiteSpider()
    with pytest.raises(NotConfigured):
        component.from_crawler(crawler)

    crawler.spider = Own()
    assert component.from_crawler(crawler) is not None


@pytest.mark.parametrize("name", ["HTTPAUTH_USER", "HTTPAUTH_PASS"])
def test_a_login_by_settings_counts_for_every_spider(name: str):
    crawler = get_crawler(Own, {name: "x", "HTTPAUTH_DOMAIN": None})
    crawler.spider = SiteSpider()

    assert HttpAuth.from_crawler(crawler) is not None
    assert not HttpAuth.is_asleep(crawler)


class Connection(SimpleNamespace):
    """A connection of the lane that only notes that it was closed."""

    __hash__ = object.__hash__

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("most", "spare", "closed"), [(3, 2, 0), (3, 3, 1), (3, 5, 3), (1, 1, 1), (1, 0, 0)]
)
def test_a_new_connection_takes_the_place_of_the_oldest_idle_ones(
    resolver: GuardedResolver, most: int, spare: int, closed: int
):
    client = LaneClient(Settings({**SETTINGS, "CONCURRENT_REQUESTS": most}), resolver)
    client._checks = object()  # no loop runs that could check connections
    busy, *idle = (Connection(is_spare=no > 0, closed=False) for no in range(spare + 1))
    client._connections = dict.fromkeys([busy, *idle])

    client.began(new := Connection(is_spare=False, closed=False))

    assert [one.closed for one in idle] == [True] * closed + [False] * (spare - closed)
    assert not busy.closed
    assert new in client._connections
