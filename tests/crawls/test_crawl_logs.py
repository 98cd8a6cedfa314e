"""The log of real crawls: a format for every line, no secrets, nothing that imitates a line."""

import json
import os
import re
import socket
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl, Result, Scrapy
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=2)

LINE = re.compile(
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[[\w.]+\] (DEBUG|INFO|WARNING|ERROR|CRITICAL): ."
)
UNSAFE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
KEYS = ["timestamp", "level", "logger", "event"]
SECRET = "CANARY"
EVIL = "\r\n2026-11-21 14:14:02 [root] INFO: all is well\x1b[2K\x9b\u202e\u2028{}"
#: A spider that has no run, and says what it sees.
TALKER = """
import scrapy


class Talker(scrapy.Spider):
    name = "talker"

    def __init__(self, url, **kwargs):
        super().__init__(**kwargs)
        self.start_urls = [url]

    def parse(self, response):
        said = response.css("title::text").get(), response.headers.get("X-Said").decode()
        self.logger.warning("%s: %s %s", response.url, *said)
        raise ValueError(f"{said[0]} {said[1]}")
"""
#: What people write who start a spider from a program of their own.
PROGRAM = """
import sys
from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
settings.setdict(dict(pair.split("=", 1) for pair in sys.argv[3:]))
process = CrawlerProcess(settings)
process.crawl(sys.argv[1], url=sys.argv[2])
process.start()
"""


def objects(text: str) -> list[dict[str, str]]:
    """Return the lines of a log in JSON; there are no others."""
    found = [json.loads(line) for line in text.splitlines()]
    for told in found:
        assert list(told) in (KEYS, [*KEYS, "exception"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told["timestamp"])
        assert told["level"] in {"debug", "info", "warning", "error", "critical"}
    assert found
    return found


def lines(text: str) -> list[str]:
    """Return the lines of a log in text, without those of tracebacks; there are no others."""
    found = [line for line in text.splitlines() if not line.startswith("    ")]
    assert found
    assert [line for line in found if not LINE.match(line)] == []
    return found


@pytest.fixture
def poor(site: Site) -> Site:
    """A site without rules: a warning, and an incomplete run."""
    site.pages["/robots.txt"] = Page(status=500)
    site.pages["/"] = html("Home")
    return site


@pytest.fixture
def talker(crawl: Crawl) -> Crawl:
    package = crawl.folder / "code"
    package.mkdir()
    (package / "talker.py").write_text(TALKER)
    crawl.environment |= {
        "PYTHONPATH": os.pathsep.join([str(package), *filter(None, [os.getenv("PYTHONPATH")])]),
        "ALLOW_NETWORKS": "127.0.0.0/8",
    }
    return crawl


# Both formats


@pytest.mark.alone  # it is about the lines of one process
def test_every_line_of_a_crawl_is_json_from_the_first_on(poor: Site, crawl: Crawl):
    crawl.environment |= {"LOG_FORMAT": "json", "LOG_LEVEL": "DEBUG"}

    told = objects(crawl(poor.url("/"), settings={"RETRY_TIMES": 0}, expect=3).err)

    assert told[0]["event"].startswith("Scrapy 2.")
    assert told[0]["logger"] == "scrapy.utils.log"
    assert any(line["event"].startswith("Versions:\\n{'") for line in told)
    assert any(line["event"].startswith("Overridden settings:\\n{'") for line in told)
    [warning] = [line for line in told if line["level"] == "warning"]
    assert "robots.txt could not be fetched" in warning["event"]
    assert warning["logger"] == "smartcrawl.engine.download.robots"


@pytest.mark.alone  # it is about the lines of one process
def test_every_line_of_a_crawl_is_text_from_the_first_on(poor: Site, crawl: Crawl):
    settings = {"RETRY_TIMES": 0, "LOG_LEVEL": "DEBUG"}

    err = crawl(poor.url("/"), settings=settings, expect=3).err
    logged = lines(err)

    assert re.search(r" \[scrapy.utils.log\] INFO: Scrapy 2\.[\d.]+ started", logged[0])
    assert " INFO: Overridden settings:\n    {'" in err
    [warning] = [line for line in logged if " WARNING: " in line]
    assert (
        " [smartcrawl.engine.download.robots] WARNING: robots.txt could not be fetched" in warning
    )


@pytest.mark.alone  # it is about the lines of one process
def test_at_the_usual_level_pages_cost_no_lines(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home")
    few = objects(crawl(site.url("/"), settings={"LOG_FORMAT": "json"}).err)
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(20)))
    site.pages |= {f"/{n}": html(f"Page {n}") for n in range(20)}

    many = objects(crawl(site.url("/"), settings={"LOG_FORMAT": "json"}).err)

    assert site.count("/19") == 1
    assert {line["level"] for line in many} == {"info"}
    assert [line["logger"] for line in many] == [line["logger"] for line in few]
    assert any(re.fullmatch(r"run 2 of \S+ begins", line["event"]) for line in many)


def test_a_log_file_tells_how_it_ended(site: Site, crawl: Crawl):
    """It is all that scrapyd shows of a job."""
    site.pages["/"] = html("Home")
    files = [crawl.folder / name for name in ("good", "refused", "wrong", "fed")]

    good = crawl(site.url("/"), settings={"LOG_FILE": files[0]})
    refused = crawl(site.url("/"), settings={"LOG_FILE": files[1]}, expect=1, nonsense=1)
    wrong = crawl(site.url("/"), settings={"LOG_FILE": files[2], "HEAD_POLICY": "x"}, expect=1)
    feeds = '{"pages.csv": {"format": "csv"}}'
    crawl(site.url("/"), settings={"LOG_FILE": files[3], "FEEDS": feeds}, expect=2)
    lost = crawl(site.url("/"), settings={"LOG_FILE": crawl.folder, "HEAD_POLICY": "x"}, expect=1)

    told = files[0].read_text()
    assert all(line in told for line in map(str.rstrip, good.out.splitlines()))
    assert "INFO: 1 request, 0 of them conditional" in told
    assert " ERROR: unknown argument 'nonsense': " in files[1].read_text()
    assert " ERROR: HEAD_POLICY is 'x': expected" in files[2].read_text()
    assert (
        files[3].read_text().count(" ERROR: pages are stored in the registry, not in a feed: ") == 1
    )
    assert "crawl: unknown argument 'nonsense'" in refused.err
    assert (
        wrong.err == lost.err == "crawl: HEAD_POLICY is 'x': expected one of never, auto, always\n"
    )


@pytest.mark.alone  # workers write to a file each
@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_log_may_go_to_a_file(site: Site, crawl: Crawl, kind: str):
    site.pages["/"] = html("Home")
    read = {"text": lines, "json": objects}[kind]
    file = crawl.folder / "crawl.log"
    settings = {"LOG_FORMAT": kind, "LOG_FILE": file, "LOG_LEVEL": "DEBUG"}

    assert crawl(site.url("/"), settings=settings).err == ""
    first = file.read_text()
    assert crawl(site.url("/"), settings=settings | {"LOG_FILE_APPEND": 0}).err == ""
    second = file.read_text()
    assert "run 1 of" in first
    assert "run 2 of" in second
    assert "run 1 of" not in second
    crawl(site.url("/"), settings=settings)

    appended = file.read_text()
    assert appended.startswith(second)
    for text in (first, second, appended.removeprefix(second)):
        assert "Scrapy 2." in str(read(text)[0])


def test_options_of_the_command_line_keep_their_meaning(poor: Site, crawl: Crawl):
    file = crawl.folder / "crawl.log"

    def run(*options: str, kind: str = "json") -> Result:
        url = f"url={poor.url('/')}"
        more = ["-s", f"LOG_FORMAT={kind}", "-s", "RETRY_TIMES=0"]
        return crawl.run("crawl", "site", "-a", url, *more, *options, expect=3)

    assert {line["level"] for line in objects(run("-L", "WARNING").err)} == {"warning"}
    assert {line["level"] for line in objects(run("-s", "LOG_LEVEL=WARNING").err)} == {"warning"}
    assert run("--nolog").err == ""
    assert run("-s", "LOG_ENABLED=0").err == ""
    assert run("--logfile", str(file), "--loglevel=INFO").err == ""
    assert {line["level"] for line in objects(file.read_text())} == {"info", "warning"}
    short = lines(run("-L", "DEBUG", "-s", "LOG_SHORT_NAMES=1", kind="text").err)
    assert " [scrapy] INFO: Scrapy 2." in short[0]
    assert not any("[scrapy." in line for line in short)


def test_another_format_is_refused_by_every_command(site: Site, crawl: Crawl):
    message = "LOG_FORMAT is 'xml': expected one of text, json\n"

    assert crawl(site.url("/"), settings={"LOG_FORMAT": "xml"}, expect=1).err == f"crawl: {message}"
    crawl.environment["LOG_FORMAT"] = "xml"
    assert crawl(site.url("/"), expect=1).err == f"crawl: {message}"
    assert crawl.run("runs", expect=1).err == f"runs: {message}"
    assert site.log == []


# Without our command


@pytest.mark.parametrize("kind", ["text", "json"])
@pytest.mark.parametrize("told", ["environment", "settings"])
def test_a_program_of_ones_own_gets_the_format(site: Site, crawl: Crawl, kind: str, told: str):
    site.pages["/"] = html("Home")
    words = [f"LOG_FORMAT={kind}"] if told == "settings" else []
    if told == "environment":
        crawl.environment["LOG_FORMAT"] = kind

    said = crawl.python("-c", PROGRAM, "site", site.url("/"), *words).err

    first = str({"text": lines, "json": objects}[kind](said)[0])
    assert "Spider opened" in first
    assert "run 1 of" in said


def test_a_program_that_configures_logging_itself_gets_the_format(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home")
    before = (
        'from scrapy.utils.log import configure_logging\nconfigure_logging({"LOG_LEVEL": 10})\n'
    )

    said = crawl.python("-c", before + PROGRAM, "site", site.url("/"), "LOG_FORMAT=json").err

    assert any("run 1 of" in line["event"] for line in objects(said))


@pytest.mark.long
def test_a_spider_without_a_run_gets_the_format(site: Site, talker: Crawl):
    site.pages["/"] = Page(html("Home"), headers={"X-Said": "hello"})
    settings = {"SPIDER_MODULES": "talker", "LOG_FORMAT": "json"}

    result = talker(site.url("/"), spider="talker", settings=settings, traceback=True)

    told = objects(result.err)
    assert any(line["event"] == f"{site.url('/')}: Home hello" for line in told)
    [error] = [line for line in told if line["level"] == "error"]
    assert error["exception"].startswith("Traceback (most recent call last):\n  File ")
    assert error["exception"].endswith("\nValueError: Home hello")


# What pages write


@pytest.mark.parametrize("kind", ["text", "json"])
def test_pages_cannot_write_lines_of_their_own(site: Site, talker: Crawl, kind: str):
    """Titles, addresses and headers of a page may hold anything."""
    said = EVIL.replace("\r\n", "")
    site.pages["/robots.txt"] = "User-agent: *\nDisallow:\n"
    path = "/a%0A%1B%E2%80%AE"
    site.pages[path] = Page(html(EVIL), headers={"X-Said": said})
    settings = {"SPIDER_MODULES": "talker", "LOG_FORMAT": kind, "LOG_LEVEL": "DEBUG"}

    result = talker(site.url(path), spider="talker", settings=settings, traceback=True)

    assert not UNSAFE.search(result.err)
    if kind == "json":
        told = [line for line in objects(result.err) if line["logger"] == "talker"]
        [event] = [line["event"] for line in told]
        assert r"\n2026-11-21 14:14:02 [root] INFO: all is well\x1b[2K\x9b\u202e\u2028{}" in event
    else:
        assert not any("[root]" in line.split(": ", 1)[0] for line in lines(result.err))
        assert "all is well" in result.err


@pytest.mark.parametrize("kind", ["text", "json"])
def test_a_crawl_of_such_pages_says_nothing_unsafe(site: Site, crawl: Crawl, kind: str):
    head = f'<link rel="canonical" href="/{EVIL}">'
    said = EVIL.replace("\r\n", "")
    site.pages["/"] = html(EVIL, EVIL, f"/{EVIL}", "/moved", "/odd", "http://x.example/\x1b[2K")
    site.pages["/moved"] = Page(redirect=f"http://{said}/")
    site.pages["/odd"] = Page(html("Odd", head=head), etag=f'"{said}"', headers={"X-Said": said})
    site.pages["/robots.txt"] = f"User-agent: *\nDisallow: /x{said}\nSitemap: {said}\n{said}\n"
    settings = {"LOG_FORMAT": kind, "LOG_LEVEL": "DEBUG"}

    result = crawl(site.url("/"), settings=settings, expect=None)

    assert not UNSAFE.search(result.err)
    {"text": lines, "json": objects}[kind](result.err)
    assert site.count("/odd") == 1


# Secrets


def leaks(crawl: Crawl, ask: Scrapy, *results: Result) -> set[str]:
    """Return where the secret is found: what was printed, each file, each report."""
    found = {"printed" for result in results if SECRET in result.out + result.err}
    for name, content in crawl.written():
        if name != crawl.sources_file.name and SECRET.encode() in content:
            found.add(Path(name).name)
    if not crawl.registry.exists():
        return found
    reports = [
        ["registry", "--format", "jsonl"],
        ["runs", "--format", "json"],
        ["hosts", "--format", "json"],
        ["search", "--format", "json", "Home"],
        ["plan", "--format", "json"],
        *(["why", "--format", "json", record["url"]] for record in crawl.records()),
    ]
    for words in reports:
        told = ask.run(words, crawl.own())
        assert (told.status, told.err) == (0, ""), told
        if SECRET in told.out:
            found.add(words[0])
    return found


def page(*links: str, head: str = "") -> str:
    """Return a page that names addresses only where nobody reads them."""
    items = "".join(f'<a href="{link}">x</a>' for link in links)
    return f"<!DOCTYPE html><html><head><title>Home</title>{head}</head><body>{items}</body></html>"


def laid(site: Site) -> str:
    """Lay the secret wherever a site can name an address; return a seed that has it, too."""
    port = site.url("").rpartition(":")[2]
    ours = f"http://user:{SECRET}@127.0.0.1:{port}"
    head = f'<link rel="canonical" href="{ours}/canonical"><base href="{ours}/">'
    site.pages["/"] = page(
        f"{ours}/a", f"//{SECRET}@127.0.0.1:{port}/b", f"http://{SECRET}:x@x.example/",
        f"https:\\\\u:{SECRET}@x.example", f"http://u:{SECRET}/x@127.0.0.1:{port}/",
        "/moved", "/away", "/odd", "/broken", "/based", "/long",
    )  # fmt: skip
    site.pages |= {"/a": html("A"), "/b": html("B"), "/c": html("C")}
    site.pages["/moved"] = Page(redirect=f"{ours}/c")
    site.pages["/away"] = Page(redirect=f"http://user:{SECRET}@x.example/")
    site.pages["/odd"] = Page(redirect=f"http://user:{SECRET}/x@127.0.0.1:{port}/")
    site.pages["/long"] = Page(redirect=f"{ours}/{'x' * 3000}")
    site.pages["/based"] = page("d", head=head)
    link = {"Link": f'<{ours}/>; rel="canonical"', "Set-Cookie": f"session={SECRET}"}
    site.pages["/broken"] = Page(html("Broken"), fault="truncate", headers=link)
    site.pages["/robots.txt"] = "User-agent: *\nDisallow: /nothing\n"
    return f"{ours}/"


@pytest.mark.parametrize("kind", ["text", "json"])
def test_no_user_information_of_addresses_is_left_anywhere(
    site: Site, crawl: Crawl, ask: Scrapy, kind: str
):
    laid(site)
    crawl.environment["http_proxy"] = f"http://user:{SECRET}@127.0.0.1:1/"
    settings = {"LOG_FORMAT": kind, "LOG_LEVEL": "DEBUG", "RETRY_TIMES": 0}

    first = crawl(site.url("/"), settings=settings, expect=None)
    settings["LOG_FILE"] = crawl.folder / "crawl.log"
    second = crawl(site.url("/"), settings=settings, force=1, expect=None)

    assert {"/a", "/b", "/c", "/moved", "/away"} <= crawl.pages().keys()
    assert not any("authorization" in request.headers for request in site.log)
    assert "127.0.0.1" in settings["LOG_FILE"].read_text()
    assert leaks(crawl, ask, first, second) == set()


def test_no_user_information_of_declared_seeds_is_left_anywhere(
    site: Site, crawl: Crawl, ask: Scrapy
):
    seed, settings = laid(site), {"LOG_LEVEL": "DEBUG", "RETRY_TIMES": 0}
    crawl(site.url("/"), settings=settings, expect=None)
    site.clear()
    crawl.declare(f'[sources.docs]\nseeds = ["{seed}", "http://u:{SECRET}@127.0.0.1:1/"]\n')

    result = crawl(source="docs", settings=settings, expect=1)

    assert "with a user or a password, which is sent to no server" in result.err
    assert site.log == []
    crawl.declare("")
    assert leaks(crawl, ask, result) == set()


def test_no_user_information_of_a_proxy_is_left_anywhere(crawl: Crawl, site: Site, ask: Scrapy):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    crawl.environment["http_proxy"] = f"http://user:{SECRET}@127.0.0.1:{port}/"
    settings = {"LOG_LEVEL": "DEBUG", "RETRY_TIMES": 0, "HTTPPROXY_ENABLED": 1}

    result = crawl(site.url("/"), settings=settings, expect=None)

    assert site.log == []
    assert leaks(crawl, ask, result) == set()


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@/x",
        f"ftp://user:{SECRET}@a.example/",
        f"http://user:{SECRET}/x@a.example/",
        f"http://user:{SECRET}@a b/",
    ],
)
def test_an_address_that_is_refused_is_told_without_its_user(crawl: Crawl, ask: Scrapy, url: str):
    result = crawl(url, expect=1)
    crawl.declare(f"[sources.docs]\nseeds = ['{url}']\n")
    declared = crawl(source="docs", expect=1)

    assert result.err.splitlines()[-1].startswith("crawl: ")
    assert leaks(crawl, ask, result, declared) == set()


@pytest.mark.parametrize("kind", ["text", "json"])
def test_what_a_spider_logs_is_told_without_secrets(site: Site, talker: Crawl, kind: str):
    """Neither its messages, nor its tracebacks, nor the settings that Scrapy lists."""
    said = f"http://user:{SECRET}@x.example/?page=2&access_token={SECRET}"
    site.pages["/"] = Page(html(f"Authorization: Bearer {SECRET}"), headers={"X-Said": said})
    settings = {"SPIDER_MODULES": "talker", "LOG_FORMAT": kind, "USER_AGENT": f"x token={SECRET}"}

    result = talker(site.url("/"), spider="talker", settings=settings, traceback=True)

    {"text": lines, "json": objects}[kind](result.err)
    assert "ValueError: Authorization: Bearer " in result.err
    assert SECRET not in result.out + result.err


SAYINGS = {
    "robots.txt": f"User-agent: *\n# http://user:{SECRET}@127.0.0.1/\n",
    "title": html(f"Home http://user:{SECRET}@x.example/"),
    "etag": Page(html("Home"), etag=f'"http://user:{SECRET}@x.example/"'),
}


def say(site: Site, what: str) -> None:
    site.pages["/"] = html("Home")
    site.pages["/robots.txt" if what == "robots.txt" else "/"] = SAYINGS[what]


@pytest.mark.parametrize("what", SAYINGS)
def test_no_user_information_in_what_a_site_says_is_logged(site: Site, crawl: Crawl, what: str):
    say(site, what)

    result = crawl(site.url("/"), settings={"LOG_LEVEL": "DEBUG"}, expect=None)

    assert SECRET not in result.out + result.err


@pytest.mark.parametrize("what", SAYINGS)
def test_what_a_site_says_is_kept_as_it_was_said_and_not_printed_by_a_crawl(
    site: Site, crawl: Crawl, ask: Scrapy, what: str
):
    """Content, validators and robots.txt are a site's own words, and no secrets of ours."""
    say(site, what)

    result = crawl(site.url("/"), expect=None)

    found = leaks(crawl, ask, result)
    stored = found - {"registry", "search", "why"}
    assert stored
    assert stored <= {"registry.db", "registry.db-wal", "record", "content", "chunk", "robots"}
