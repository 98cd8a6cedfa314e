"""What the lane sends and takes: whole answers within the limits, from allowed addresses."""

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.resolver import dnscache
from scrapy.settings import Settings
from scrapy.utils.test import get_crawler

from smartcrawl import settings as shipped
from smartcrawl.exceptions import LaneError
from smartcrawl.lane.client import Answer, LaneClient
from smartcrawl.needed import HttpAuth, Offsite
from smartcrawl.network import GuardedResolver
from smartcrawl.spiders.site import SiteSpider
from tests.site_server import Page, Site, html
from tests.test_network import Names

SETTINGS = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}


@pytest.fixture
def resolver() -> Iterator[GuardedResolver]:
    names = Names(site=["127.0.0.1"], inside=["127.0.0.1"])
    guarded = GuardedResolver(SimpleNamespace(nameResolver=names), 0)
    guarded.protect([])
    yield guarded
    dnscache.clear()


@pytest.fixture
def asked(resolver: GuardedResolver) -> Callable[..., list[Answer]]:
    """Asks for addresses, one after the other, over the same connections."""

    def ask(*urls: str, headers: dict[str, str] | None = None, **settings: object) -> list[Answer]:
        async def work() -> list[Answer]:
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


# Components that only a spider of somebody's own needs (smartcrawl.needed)


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
