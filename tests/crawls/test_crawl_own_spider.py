"""A spider of the user's own: ordinary Requests and items work beside pages, within the scope."""

import json

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Site, html

pytestmark = pytest.mark.long(but=1)

SPIDERS = '''
import gc

import scrapy
from smartcrawl.spiders.site import SiteSpider


class Catalogue(SiteSpider):
    """Pages as `site`, and an item from a feed that it asks for itself."""

    name = "catalogue"

    async def start(self):
        async for entry in super().start():
            yield entry
        base = self.run.source.seeds[0]
        for path in ("feed", "feed", "feed?page=2", "sub/feed"):
            yield scrapy.Request(base + path, self.parse_feed)

    def parse_feed(self, response):
        yield {"feed": response.url, "size": len(response.body)}
        yield scrapy.Request(response.urljoin("/item"), self.parse_feed)
        yield scrapy.Request("http://127.0.0.1:1/outside", self.parse_feed)


class Collected(SiteSpider):
    """Says how rarely garbage is looked for."""

    name = "collected"

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        gc.set_threshold(700)

    def parse(self, response, **_):
        self.logger.warning("garbage: %d", gc.get_threshold()[0])
        yield from super().parse(response)


class Plain(scrapy.Spider):
    """No run, no registry: Scrapy as everybody knows it."""

    name = "plain"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse(self, response):
        yield {"title": response.css("title::text").get()}
        for link in response.css("a"):
            yield response.follow(link)
'''


@pytest.fixture
def own(crawl: Crawl) -> Crawl:
    package = crawl.folder / "code" / "own_spiders"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "spiders.py").write_text(SPIDERS)
    crawl.environment["PYTHONPATH"] = str(package.parent)
    return crawl


def items(crawl: Crawl) -> list[dict]:
    return [json.loads(line) for line in (crawl.folder / "items.jsonl").read_text().splitlines()]


@pytest.mark.covers("RP-01", "R1-37")
def test_a_spider_may_ask_for_more_and_yield_what_it_likes(site: Site, own: Crawl):
    """Trap 16: what is no Visit passes our pipelines untouched."""
    site.pages["/"] = html("Home", "/a", "/feed")
    site.pages["/a"] = html("A", text="alpha")
    site.pages["/feed"] = html("Feed", text="beta")
    site.pages["/feed?page=2"] = site.pages["/sub/feed"] = site.pages["/item"] = "x"
    settings = {
        "SPIDER_MODULES": "smartcrawl.spiders,own_spiders.spiders",
        "FEEDS": json.dumps(
            {
                str(own.folder / "items.jsonl"): {
                    "format": "jsonlines",
                    "item_classes": ["builtins.dict"],
                }
            }
        ),
    }

    own(site.url("/"), spider="catalogue", settings=settings)

    assert own.outcomes() == {"/": "new", "/a": "new", "/feed": "new"}
    assert own.hits("alpha") == ["/a"]
    assert own.counts_add_up()
    assert {item["feed"] for item in items(own)} == {
        site.url(path) for path in ("/feed", "/feed?page=2", "/sub/feed", "/item")
    }
    assert len(items(own)) == 4
    assert site.count("/item") == 1  # yielded three times, asked once
    assert own.runs()[0]["complete"]


def test_a_spider_without_a_run_works_as_with_scrapy_alone(site: Site, own: Crawl):
    site.pages["/"] = html("Home", "/a", "/a", "/missing")
    site.pages["/a"] = html("A", "/a")
    site.pages["/robots.txt"] = "User-agent: *\nDisallow: /no\n"
    settings = {
        "SPIDER_MODULES": "own_spiders.spiders",
        "FEEDS": json.dumps({str(own.folder / "items.jsonl"): {"format": "jsonlines"}}),
    }

    own.environment["ALLOW_NETWORKS"] = "127.0.0.0/8"
    own(site.url("/"), spider="plain", settings=settings)

    assert sorted(str(item["title"]) for item in items(own)) == ["A", "Home", "None"]
    assert [site.count(path) for path in ("/", "/a", "/missing")] == [1, 1, 1]
    assert not own.registry.exists()


def test_garbage_is_looked_for_rarely_in_a_crawl(site: Site, own: Crawl):
    site.pages["/"] = html("Home")

    settings = {"SPIDER_MODULES": "own_spiders.spiders"}
    result = own(site.url("/"), spider="collected", settings=settings)

    assert "garbage: 50000" in result.err


def test_a_feed_export_of_a_crawl_is_refused_with_the_command_that_exports(
    site: Site, crawl: Crawl
):
    """`scrapy crawl site -O items.jsonl` is what every user of Scrapy tries first."""
    site.pages["/"] = html("Home")
    file = crawl.folder / "items.jsonl"

    told = crawl.run("crawl", "site", "-a", f"url={site.url('/')}", "-O", str(file), expect=2)

    assert "scrapy registry --format jsonl --output FILE" in told.err
    assert site.log == []
    assert not file.exists()
