"""A foreign Scrapy project uses smartcrawl by three settings (docs/operations/project.md)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=1)

ROOT = Path(__file__).parents[2]
MANUAL = (ROOT / "docs" / "operations" / "project.md").read_text(encoding="utf-8")
SPIDERS = '''
import scrapy
from smartcrawl.engine.download.network import installed_resolver
from smartcrawl.spiders.site import SiteSpider


class Docs(SiteSpider):
    """Pages for the index, and an item for each of them."""

    name = "docs"
    custom_settings = {"ITEM_PIPELINES": {"shop.pipelines.Upper": 300}}

    def parse(self, response):
        if response.url.endswith("/early"):
            raise KeyError(response.url)
        yield from super().parse(response)
        self.logger.warning("guarding: %s", installed_resolver().guarding)
        yield {"path": response.url[-5:], "title": response.css("title::text").get(),
               "stored": "stored" in response.flags}
        if response.url.endswith("/late"):
            raise LookupError(response.url)


class Plain(scrapy.Spider):
    """A spider that has nothing to do with smartcrawl."""

    name = "plain"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse(self, response):
        yield {"url": response.url, "scheduler": self.settings["SCHEDULER"]}
'''


PIPELINES = '''
from scrapy.exceptions import DropItem


class Upper:
    """Would fail for everything that is no item of this project."""

    def process_item(self, item):
        if item["title"] == "Dropped":
            raise DropItem("not wanted")
        item["title"] = item["title"].upper() if item["title"] != "Broken" else item["none"]
        return item


class Tells:
    def process_response(self, request, response):
        return response.no_such_thing
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
    (package / "pipelines.py").write_text(PIPELINES)
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
    } | {"BROWSER": "true"}
    environment |= {"PYTHONPATH": str(ROOT), "SOFT_404_DETECTION": "0", "TRUST_SAMPLE_RATIO": "0"}

    def scrapy(
        *words: str, expect: int = 0, fails: bool = False
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, "-m", "scrapy", *words], cwd=tmp_path, env=environment,
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        assert result.returncode == expect, result.stdout + result.stderr
        assert fails or "Traceback" not in result.stderr, result.stderr
        return result

    return scrapy


def items(folder: Path) -> dict[str, bool]:
    """Return whether each item came of a stored body, by its title."""
    rows = map(json.loads, (folder / "items.jsonl").read_text().splitlines())
    return {row["title"]: row["stored"] for row in rows}


def test_its_own_spider_refreshes_a_site_and_search_finds_it(scrapy, tmp_path: Path):
    with Site() as site:
        site.pages["/"] = html("Home", "/a")
        site.pages["/a"] = html("Undoing changes")
        words = ("crawl", "docs", "-a", f"url={site.url('/')}", "-O", "items.jsonl")
        first = scrapy(*words)
        assert items(tmp_path) == {"HOME": False, "UNDOING CHANGES": False}
        assert "2 requests, 0 of them conditional" in first.stdout
        assert "guarding: True" in first.stderr
        second = scrapy(*words)
        assert items(tmp_path) == {"HOME": True, "UNDOING CHANGES": True}
        assert "2 requests, 2 of them conditional, 2 answered 304" in second.stdout
        assert [request.status for request in site.log if request.path == "/a"] == [200, 304]

        hits = json.loads(scrapy("search", "--format", "json", "undoing").stdout)
        assert [hit["url"] for hit in hits] == [site.url("/a")]
        assert "run 2 complete" in scrapy("status").stdout
        assert (tmp_path / "state" / "registry.db").exists()


def test_the_spider_of_smartcrawl_is_there_too(scrapy):
    with Site() as site:
        site.pages["/"] = html("Home")
        words = ("crawl", "site", "-a", f"url={site.url('/')}")

        assert "complete" in scrapy(*words).stdout
        assert {"docs", "plain", "site"} < set(scrapy("list").stdout.split())
        errors = scrapy(*words, "-s", 'FEEDS={"x.csv": {"format": "csv"}}', expect=2).stderr
        assert (
            "pages are stored in the registry, not in a feed: leave out -o, -O and FEEDS" in errors
        )
        assert "scrapy export --source NAME --format jsonl --output FILE" in errors
        assert site.count("/") == 1


def test_errors_of_its_own_code_concern_its_items_and_are_named(scrapy, tmp_path: Path):
    """A page is left pending only where its spider failed before it had yielded the Visit."""
    with Site() as site:
        site.pages["/"] = html("Home", "/drop", "/broken", "/early", "/late", "/old", "/missing")
        site.pages["/drop"], site.pages["/broken"] = html("Dropped"), html("Broken")
        site.pages["/early"], site.pages["/late"] = html("Early"), html("Late")
        site.pages["/old"] = Page(redirect="/")
        words = ("crawl", "docs", "-a", f"url={site.url('/')}", "-O", "items.jsonl")

        result = scrapy(*words, expect=3, fails=True)

        assert items(tmp_path) == {"HOME": False, "LATE": False}
        reasons = re.findall("^not complete: (.*?)(?: \\(|$)", result.stdout, re.MULTILINE)
        assert reasons == [
            "code_failed: KeyError at shop/spiders.py:15, in Docs.parse",
            "pending: 1",
        ]
        named = re.findall("your own code failed once: (.*)", result.stderr)
        assert sorted(named) == [
            "KeyError at shop/pipelines.py:11, in Upper.process_item",
            "KeyError at shop/spiders.py:15, in Docs.parse",
            "LookupError at shop/spiders.py:21, in Docs.parse",
        ]
        lines = scrapy("registry", "--format", "jsonl").stdout.splitlines()
        records = map(json.loads, lines)
        states = {record["url"].rpartition("/")[2]: record["httpStatusCode"] for record in records}
        assert states == {
            "": 200, "drop": 200, "broken": 200, "late": 200, "early": None, "old": 301,
            "missing": 404,
        }  # fmt: skip


def test_a_middleware_of_its_own_that_fails_is_not_taken_for_a_dead_site(scrapy):
    with Site() as site:
        site.pages["/"] = html("Home")
        middlewares = '{"shop.pipelines.Tells": 543}'

        result = scrapy(
            "crawl", "docs", "-a", f"url={site.url('/')}", "-s",
            f"DOWNLOADER_MIDDLEWARES={middlewares}", expect=3, fails=True,
        )  # fmt: skip

        reasons = re.findall("^not complete: (.*?)(?: \\(|$)", result.stdout, re.MULTILINE)
        assert reasons[0] == (
            "code_failed: AttributeError at shop/pipelines.py:17, in Tells.process_response"
        )
        assert "seed_failed" not in result.stdout


def test_where_no_body_is_stored_its_pages_are_asked_whole(scrapy, tmp_path: Path):
    with Site() as site:
        site.pages["/"] = html("Home")
        words = ("crawl", "docs", "-a", f"url={site.url('/')}", "-O", "items.jsonl")

        scrapy(*words)
        for file in (tmp_path / "state" / "snapshots").rglob("*"):
            if file.is_file():
                file.write_bytes(b"damaged")
        scrapy(*words)
        assert items(tmp_path) == {"HOME": False}
        assert [request.status for request in site.log if request.path == "/"] == [200, 304, 200]
        site.clear()
        result = scrapy(*words, "-s", "SNAPSHOT_STORE=off")
        assert "1 request, 0 of them conditional" in result.stdout
        assert items(tmp_path) == {"HOME": False}


def test_one_page_is_looked_at_without_a_run(scrapy, tmp_path: Path):
    with Site() as site:
        site.pages["/"] = html("Home")

        result = scrapy("parse", "--spider", "docs", "--nocolour", site.url("/"))
        assert "'title': 'Home'" in result.stdout
        scrapy("parse", "--spider", "site", "--nocolour", site.url("/"))
        words = ("shell", "--spider", "docs", site.url("/"), "-c")
        assert scrapy(*words, "response.css('title::text').get()").stdout == "Home\n"
        assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("leaves_out", "adds", "told"),
    [
        ("ADDONS", "", 'add ADDONS = {"smartcrawl.addon.Smartcrawl": 100} to its settings'),
        ("ADDONS COMMANDS_MODULE", "", "ERROR: the spider docs needs the smartcrawl add-on"),
        ("", "SCHEDULER = 'scrapy.core.scheduler.Scheduler'", "leave SCHEDULER out of"),
        ("", "SCHEDULER = 'scrapy_redis.scheduler.Scheduler'", "leave SCHEDULER out"),
        ("COMMANDS_MODULE", "SCHEDULER = 'scrapy.core.scheduler.Scheduler'", "leave SCHEDULER out"),
        ("", "TWISTED_REACTOR_ENABLED = False", "leave TWISTED_REACTOR, TWISTED_REACTOR_ENABLED"),
        ("", "TWISTED_REACTOR = 'twisted.internet.selectreactor.SelectReactor'", "asyncio reactor"),
        ("", "API_PORT = None", "API_PORT is None: expected a whole number from 0 to 65535"),
        ("COMMANDS_MODULE", "API_PORT = 'x'", "scrapy: API_PORT is 'x': expected a whole number"),
        ("COMMANDS_MODULE", "LOG_FORMAT = '%(message)s'", "expected one of text, json"),
        ("COMMANDS_MODULE", "LOG_LEVEL = 'chatty'", "scrapy: LOG_LEVEL is 'chatty': expected one"),
    ],
)  # fmt: skip
def test_a_project_with_a_wrong_setting_is_told_in_one_sentence(
    scrapy, tmp_path: Path, leaves_out: str, adds: str, told: str
):
    file = tmp_path / "shop" / "settings.py"
    kept = [line for line in file.read_text().splitlines() if line.split(" ")[0] not in leaves_out]
    file.write_text("\n".join([*kept, adds]) + "\n")

    found = scrapy("crawl", "docs", "-a", "url=http://127.0.0.1:9/", expect=1)

    (line,) = [line for line in found.stderr.splitlines() if told in line]
    assert found.stderr.endswith(f"{line}\n")
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("name", ["fetch", "shell"])
def test_a_wrong_setting_is_told_where_one_page_is_looked_at(scrapy, name: str):
    told = scrapy(name, "http://127.0.0.1:9/", "-s", "API_PORT=x", expect=1)

    assert told.stderr.splitlines()[-1] == (
        "scrapy: API_PORT is 'x': expected a whole number from 0 to 65535"
    )


def test_a_file_of_settings_counts_where_the_project_leaves_the_default(scrapy, tmp_path: Path):
    file = tmp_path / "smartcrawl.toml"
    file.write_text(
        '[settings]\nDEPTH_LIMIT = 1\nUSER_AGENT = "cook"\nCONCURRENT_REQUESTS_PER_DOMAIN = 7\n'
    )
    with Site() as site:
        site.pages["/"] = html("Home", "/a")
        site.pages["/a"] = html("A", "/b")
        site.pages["/b"] = html("B")

        scrapy("crawl", "docs", "-a", f"url={site.url('/')}")
        ours = list(site.log)
        rows = json.loads(scrapy("config", "--changed", "--format", "json").stdout)["settings"]
        scrapy("crawl", "plain", "-a", f"url={site.url('/')}")

    assert {request.path for request in ours} == {"/robots.txt", "/", "/a"}
    assert {request.headers["user-agent"] for request in ours} == {"cook"}
    assert "cook" not in site.log[-1].headers["user-agent"], "a spider of another kind"
    told = {row["name"]: (row["value"], row["source"]) for row in rows}
    assert told["DEPTH_LIMIT"] == (1, "smartcrawl.toml")
    assert told["CONCURRENT_REQUESTS_PER_DOMAIN"] == (1, "settings module")

    file.write_text("[settings\n")
    for words in (("crawl", "docs"), ("settings", "--get", "DEPTH_LIMIT"), ("shell",)):
        told = scrapy(*words, expect=1).stderr.splitlines()[-1]
        assert f"{file} is not valid TOML" in told


def test_a_scheduler_for_one_spider_leaves_those_of_the_others(scrapy, tmp_path: Path):
    with (tmp_path / "shop" / "settings.py").open("a") as file:
        file.write("SCHEDULER = 'scrapy.core.scheduler.Scheduler'\n")
    with Site() as site:
        site.pages["/"] = html("Home")

        ours = "SCHEDULER=smartcrawl.engine.scheduler.NumberScheduler"
        told = scrapy("crawl", "site", "-a", f"url={site.url('/')}", "-s", ours)

    assert "complete" in told.stdout


@pytest.mark.parametrize("name", ["fetch", "view", "bench"])
def test_commands_without_a_run_print_no_warnings(scrapy, name: str):
    with Site() as site:
        site.pages["/"] = html("Home")
        words = () if name == "bench" else (site.url("/"),)

        told = scrapy(name, *words, "-s", "CLOSESPIDER_TIMEOUT=1").stderr

    assert "WARNING" not in told
    assert "Spider opened" in told


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
