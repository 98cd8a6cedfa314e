"""Whatever is wrong gets a message that names the thing and the remedy, and an exit status."""

import os
import re
import socket
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl, wait_until
from tests.site_server import Page, Site, html

pytestmark = pytest.mark.long(but=5)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "not a url"}, ["not a url", "https://"]),
        ({"url": "ftp://example.com/"}, ["ftp://example.com/", "http"]),
        ({"url": "http://"}, ["http://"]),
        ({"source": "doc"}, ["'doc'", "docs"]),
        ({"source": "docs", "url": "http://127.0.0.1/"}, ["-a url", "-a source"]),
        ({"url": "http://127.0.0.1/", "deepness": "3"}, ["'deepness'", "max_pages"]),
        ({"url": "http://127.0.0.1/", "max_pages": "many"}, ["max_pages", "'many'"]),
        ({"url": "http://127.0.0.1/", "force": "perhaps"}, ["force", "'perhaps'"]),
        ({"url": "http://127.0.0.1/", "lost_threshold": "0"}, ["lost_threshold", "'0'", "1"]),
        ({"url": "http://127.0.0.1/", "lost_threshold": "-1"}, ["lost_threshold", "'-1'"]),
        ({"url": "http://127.0.0.1/", "lost_threshold": ""}, ["lost_threshold", "''"]),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else None,
)
def test_wrong_arguments_are_told_plainly(
    crawl: Crawl, arguments: dict[str, str], words: list[str]
):
    """Trap 9: refusing to start is a message, not a traceback."""
    crawl.declare('[sources.docs]\nkind = "site"\nseeds = ["http://127.0.0.1:1/"]\n')

    result = crawl(expect=1, **arguments)

    message = result.err.strip().splitlines()[-1]
    assert all(word in message for word in words), result.err
    assert not crawl.registry.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[sources.docs\n", ["sources.toml", "line 1"]),
        ('[sources.docs]\nkind = "site"\nseds = ["http://a.example/"]\n', ["seds", "seeds"]),
        ('[sources.docs]\nseeds = ["nonsense"]\n', ["[sources.docs]", "seeds", "nonsense"]),
        ("[sources.docs]\nseeds = ['http://a.example/']\nexcluded_patterns = ['(']\n", ["'('"]),
        ("[sources.docs]\nseeds = ['http://a.example/']\nmax_depth = 'x'\n", ["max_depth"]),
    ],
    ids=["toml", "key", "seed", "pattern", "number"],
)
def test_a_broken_sources_file_is_told_with_the_place(crawl: Crawl, text: str, words: list[str]):
    crawl.declare(text)

    result = crawl(source="docs", expect=1)

    assert str(crawl.sources_file) in result.err
    assert all(word in result.err for word in words), result.err
    assert not crawl.registry.exists()


def test_a_wrong_table_leaves_out_its_own_source_alone(crawl: Crawl):
    with Site() as site:
        site.pages["/"] = html("Home")
        good = f'[sources.docs]\nseeds = ["{site.url("/")}"]\n'
        named = f'[sources.news]\nseeds = ["{site.url("/")}"]\nmax_pages = 5\n'
        crawl.declare(good + named)
        crawl()
        crawl.declare(good + '[sources."my docs"]\n' + named.replace("5", "'5'"))

        result = crawl(expect=1)

        assert "Run 3 of docs: complete" in result.out
        assert "[sources.'my docs']: a name takes letters" in result.err
        assert "[sources.news] max_pages is '5': expected a whole number" in result.err
        last = result.err.strip().splitlines()[-1]
        assert last.startswith("crawl: not crawled: my docs, news. Correct the problems above")
        assert "is not declared" not in result.err
        assert "Run 4 of docs: complete" in crawl(source="docs").out
        assert "[sources.news] max_pages" in crawl(source="news", expect=1).err
        crawl.run("reindex", "--source", "docs")
        due = crawl.run("due", expect=1)
        assert "Run 5 of docs: " in due.out
        assert "not crawled: my docs, news" in due.err
        crawl.declare(named.replace("5", "'5'"))
        assert "[sources.news] max_pages" in crawl(expect=1).err


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEPTH_LIMIT", "deep"),
        ("CONTENT_HASH_BASIS", "md5"),
        ("ALLOW_NETWORKS", "here"),
        ("SWEEP_MAX_RATIO", "2"),
        ("SWEEP_MIN_COUNT", "-1"),
        ("LOST_THRESHOLD", "0"),
        ("ORPHAN_THRESHOLD", "never"),
        ("LOST_PURGE_STATUSES", "404,503"),
        ("LOST_ORPHAN_RULE", "both"),
        ("OUT_OF_SCOPE_POLICY", "hide"),
        ("CRAWL_INTERVAL_STEPS", "3,1"),
        ("REGISTRY_URL", "mysql://db"),
        ("DOWNLOAD_TIMEOUT", "soon"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(crawl: Crawl, name: str, value: str):
    crawl.environment[name] = value

    result = crawl("http://127.0.0.1:1/", expect=1)

    message = result.err.strip().splitlines()[-1]
    assert name in message
    assert value.partition(":")[0] in message  # of a URL not more: it may hold a password
    assert not crawl.registry.exists()


@pytest.mark.sqlite  # a test's database in PostgreSQL has one from the start
def test_that_there_is_no_registry_yet_is_told(crawl: Crawl):
    nothing = crawl.run("search", "x", expect=1)

    assert str(crawl.registry) in nothing.err
    assert "crawl site" in nothing.err
    assert "REGISTRY_URL" in nothing.err


def test_an_unknown_spider_or_status_or_source_is_told(site: Site, crawl: Crawl):
    """Trap 8: the exit status is right in every case."""
    crawl.declare("")
    assert "-a url=" in crawl(expect=1).err
    assert "'sites'" in crawl(spider="sites", expect=2).err
    site.pages["/"] = html("Home")
    crawl(site.url("/"))
    assert "Indexed" in crawl.run("registry", "--status", "Good", expect=1).err
    assert "orphaned" in crawl.run("registry", "--outcome", "broken", expect=1).err
    name = site.url("").removeprefix("http://")
    assert name in crawl.run("runs", "--source", "nobody", expect=1).err
    assert crawl.run("search", expect=2)
    locked = crawl.folder / "no" / "folder" / "out.csv"
    told = crawl.run("registry", "--format", "csv", "--output", str(locked), expect=1)
    assert str(locked) in told.err


@pytest.mark.covers("R0-95")
def test_a_port_without_a_server_is_an_incomplete_run_with_a_message(crawl: Crawl):
    url = f"http://127.0.0.1:{free_port()}/"

    result = crawl(url, expect=3)

    assert url in result.out
    assert re.search(r"robots.txt|refused|server", result.out + result.err)
    [record] = crawl.records()
    assert (record["status"], record["lastOutcome"]) == ("Error", "failed")
    assert not crawl.runs()[0]["complete"]


def test_only_a_source_that_was_crawled_has_a_run_when_its_host_does_not_resolve(
    site: Site, crawl: Crawl
):
    """ADR 46; the site is a proxy here, so it can be any host."""
    url = "http://docs.invalid/"
    site.pages[url] = html("Home")
    assert "docs.invalid" in crawl(url, expect=1).err
    assert not crawl.data_dir.exists()
    crawl.environment |= {"http_proxy": site.url(""), "HTTPPROXY_ENABLED": "1"}
    crawl.environment["ALLOW_NETWORKS"] = "127.0.0.0/8"
    crawl(url)
    crawl.environment["HTTPPROXY_ENABLED"] = "0"

    crawl(url, expect=3)

    assert [run["run"] for run in crawl.runs()] == [2, 1]
    assert len(crawl.records()) == 1


def a_file_in_the_way(crawl: Crawl) -> Path:
    crawl.data_dir.write_text("I was here first")
    return crawl.data_dir


def of_version(crawl: Crawl, version: int) -> Path:
    crawl.data_dir.mkdir()
    with sqlite3.connect(crawl.registry) as connection:
        connection.execute("CREATE TABLE record (no INTEGER)")
        connection.execute(f"PRAGMA application_id = {0x736D6372}")
        connection.execute(f"PRAGMA user_version = {version}")
    return crawl.registry


def of_a_newer_version(crawl: Crawl) -> Path:
    return of_version(crawl, 999)


def of_an_older_layout(crawl: Crawl) -> Path:
    return of_version(crawl, 55)


def of_another_program(crawl: Crawl) -> Path:
    crawl.data_dir.mkdir()
    with sqlite3.connect(crawl.registry) as connection:
        connection.execute("CREATE TABLE songs (no INTEGER)")
    return crawl.registry


def not_a_database(crawl: Crawl) -> Path:
    crawl.data_dir.mkdir()
    crawl.registry.write_text("Dear diary, today I crawled nothing. " * 100)
    return crawl.registry


def a_folder(crawl: Crawl) -> Path:
    crawl.registry.mkdir(parents=True)
    return crawl.registry


@pytest.mark.sqlite
@pytest.mark.covers("RD-17")
@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (a_file_in_the_way, ["DATA_DIR"]),
        (of_a_newer_version, ["999", "upgrade"]),
        (of_an_older_layout, ["55", "not damaged", "DATA_DIR", "crawl anew"]),
        (of_another_program, ["DATA_DIR"]),
        (not_a_database, ["DATA_DIR"]),
        (a_folder, ["DATA_DIR"]),
    ],
)
def test_a_registry_that_cannot_be_opened_is_refused_and_left_alone(
    site: Site, crawl: Crawl, prepare: Callable[[Crawl], Path], words: list[str]
):
    site.pages["/"] = html("Home")
    thing = prepare(crawl)
    before = thing.read_bytes() if thing.is_file() else None

    result = crawl(site.url("/"), expect=1)

    message = result.err.strip().splitlines()[-1]
    assert str(thing) in message
    assert all(word in message for word in words), message
    assert site.log == []
    assert thing.is_dir() if before is None else thing.read_bytes() == before
    asked = crawl.run("search", "home", expect=1)
    assert str(thing) in asked.err or str(crawl.registry) in asked.err


@pytest.mark.sqlite
def test_a_damaged_registry_is_told_and_nothing_is_started_anew(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", *(f"/{n}" for n in range(60)))
    for n in range(60):
        site.pages[f"/{n}"] = html(f"Page {n}", text=f"words {n} " * 200)
    crawl(site.url("/"))
    size = crawl.registry.stat().st_size
    with crawl.registry.open("r+b") as file:
        for page in range(2, size // 4096):  # all but the first
            file.seek(4096 * page)
            file.write(os.urandom(4096))
    site.clear()

    result = crawl(site.url("/"), expect=1)

    assert str(crawl.registry) in result.err
    assert "damaged" in result.err
    assert crawl.registry.stat().st_size >= size


@pytest.mark.alone
@pytest.mark.covers("RD-22")
def test_a_second_start_is_refused_while_a_run_is_open_and_reading_is_not(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/slow")
    done = threading.Event()
    body = html("Slow", text="worth waiting for")
    site.pages["/slow"] = Page(body, until=done.is_set)
    with crawl.start(site.url("/")) as first:
        wait_until(lambda: site.count("/slow"), "the first run asks for the slow page")

        second = crawl(site.url("/"), expect=4)

        message = second.err.strip().splitlines()[-1]
        assert str(first.pid) in message
        assert socket.gethostname() in message
        assert re.search(r"\d{4}-\d\d-\d\dT\d\d:\d\d", message)
        assert crawl.runs()[0]["state"] == "open"
        assert crawl(site.url("/"), resume=1, expect=4)
        with Site() as other:  # another source is nobody's business
            other.pages["/"] = html("Other")
            crawl(other.url("/"))
        done.set()
        result = first.end()
    assert result.status == 0, result
    assert site.count("/slow") == 1
    assert site.count("/") == 1
    assert crawl.search("worth waiting")
    own = [run for run in crawl.runs() if run["source"] in site.url("/")]
    assert [(run["run"], run["complete"]) for run in own] == [(1, True)]


def test_a_user_without_a_domain_is_an_error_about_that_setting(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home")
    result = crawl(site.url("/"), settings={"HTTPAUTH_USER": "me"}, expect=None)
    assert result.status not in (0, 3)
    assert "HTTPAUTH_DOMAIN" in result.out + result.err
    assert "damaged" not in result.out + result.err


@pytest.mark.parametrize("words", [("--notice",), ("what",)])
def test_due_takes_addresses_and_only_with_notice(crawl: Crawl, words: tuple[str, ...]):
    assert "due --notice URL" in crawl.run("due", *words, expect=2).err
