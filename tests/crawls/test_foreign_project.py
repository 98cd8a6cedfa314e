"""A foreign Scrapy project uses smartcrawl by three settings (docs/operations.md)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site_server import Page, Site, html

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SPIDERS = '''
import scrapy
from smartcrawl.engine.download.network import installed_resolver
from smartcrawl.spiders.site import SiteSpider


class Docs(SiteSpider):
    """Pages for the index, and an item for each of them."""

    name = "docs"

    def parse(self, response):
        yield from super().parse(response)
        self.logger.warning("guarding: %s", installed_resolver().guarding)
        yield {"length": len(response.body)}


class Plain(scrapy.Spider):
    """A spider that has nothing to do with smartcrawl."""

    name = "plain"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse(self, response):
        yield {"url": response.url, "scheduler": self.settings["SCHEDULER"]}
'''


@pytest.fixture
def scrapy(tmp_path: Path):
    """Make the project, as ``scrapy startproject`` does, and return what calls scrapy in it."""
    package = tmp_path / "shop"
    package.mkdir()
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    for name in ("__init__.py", "items.py"):
        (package / name).write_text("")
    (package / "spiders.py").write_text(SPIDERS)
    three = re.search(r"    ADDONS = .*\n(?:    \w+ = .*\n){2}", MANUAL)
    assert three is not None, "the manual has the three settings"
    lines = [line.strip() for line in three[0].splitlines()]
    lines[2] = f"DATA_DIR = {str(tmp_path / 'state')!r}"
    own = ["BOT_NAME = 'shop'", "SPIDER_MODULES = ['shop.spiders']", "ROBOTSTXT_OBEY = True"]
    own += ["CONCURRENT_REQUESTS_PER_DOMAIN = 1"]
    (package / "settings.py").write_text("\n".join([*own, *lines]) + "\n")
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("DATA_DIR", "REGISTRY_URL")
    }
    environment |= {"PYTHONPATH": str(ROOT), "SOFT_404_DETECTION": "0", "TRUST_SAMPLE_RATIO": "0"}

    def scrapy(*words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-m", "scrapy", *words], cwd=tmp_path, env=environment,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert result.returncode == expect, result.stdout + result.stderr
        assert "Traceback" not in result.stderr, result.stderr
        return result

    return scrapy


def test_its_own_spider_refreshes_a_site_and_search_finds_it(scrapy, tmp_path: Path):
    with Site() as site:
        site.pages["/"] = html("Home", "/a")
        site.pages["/a"] = html("Undoing changes")
        first = scrapy("crawl", "docs", "-a", f"url={site.url('/')}", "-O", "items.jsonl", expect=2)
        assert "pages go to the registry, not to a feed" in first.stderr

        first = scrapy("crawl", "docs", "-a", f"url={site.url('/')}")
        assert "2 requests, 0 of them conditional" in first.stdout
        assert "guarding: True" in first.stderr
        second = scrapy("crawl", "docs", "-a", f"url={site.url('/')}")
        assert "2 requests, 2 of them conditional, 2 answered 304" in second.stdout
        assert [request.status for request in site.log if request.path == "/a"] == [200, 304]

        hits = json.loads(scrapy("search", "--format", "json", "undoing").stdout)
        assert [hit["url"] for hit in hits] == [site.url("/a")]
        assert "run 2 complete" in scrapy("status").stdout
        assert (tmp_path / "state" / "registry.db").exists()


def test_the_spider_of_smartcrawl_is_there_too(scrapy):
    with Site() as site:
        site.pages["/"] = html("Home")

        assert "complete" in scrapy("crawl", "site", "-a", f"url={site.url('/')}").stdout


def test_other_spiders_of_the_project_keep_what_they_have(scrapy, tmp_path: Path):
    with Site() as site:
        site.pages["/"] = html("Home")
        site.pages["/old"] = Page(redirect="/")
        words = ("-a", f"url={site.url('/old')}", "-O", "items.jsonl")

        scrapy("crawl", "plain", *words)

        (line,) = (tmp_path / "items.jsonl").read_text().splitlines()
        assert json.loads(line) == {
            "url": site.url("/"), "scheduler": "scrapy.core.scheduler.Scheduler",
        }  # fmt: skip
        assert not (tmp_path / "state").exists()
