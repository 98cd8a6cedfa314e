"""Several sources at once by one command: processes that take one source after another."""

import json
import os
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl, wait_until
from tests.crawls.test_crawl_sources import table
from tests.site_server import Page, Site, html


@pytest.mark.covers("R1-51")
@pytest.mark.long
def test_three_sources_with_two_jobs_end_in_one_table(site: Site, crawl: Crawl, tmp_path: Path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Note\n\nWords of a note.")
    with Site() as other:
        site.pages["/"] = html("One", text="words of one")
        other.pages["/"] = Page("no", status=500)
        folder = f"[sources.notes]\nkind = 'files'\nroot = '{tmp_path / 'notes'}'\n"
        crawl.declare(table("dead", other.url("/")) + table("one", site.url("/")) + folder)
        crawl.environment["RETRY_TIMES"] = "0"

        result = crawl.run("crawl", "site", "files", "--jobs", "2", expect=3)

        lines = [line for line in result.out.splitlines() if line]
        assert sorted(line.split(":")[0] for line in lines[:3]) == ["dead", "notes", "one"]
        assert [line.split()[:2] for line in lines[4:-1]] == [
            ["dead", "no"], ["one", "yes"], ["notes", "yes"]
        ]  # fmt: skip
        assert "--source dead" in lines[4]
        assert lines[-1] == "3 sources: 1 to look at"
        assert {run["source"]: run["complete"] for run in crawl.runs()} == {
            "dead": False, "one": True, "notes": True
        }  # fmt: skip
        assert len(crawl.search("words")) == 2

        other.pages["/"] = html("Alive")
        data = json.loads(
            crawl.run("crawl", "site", "files", "--jobs", "2", "--format", "json").out
        )
        assert (data["status"], [one["source"] for one in data["sources"]]) == (
            0, ["dead", "one", "notes"]
        )  # fmt: skip
        assert [one["new"] for one in data["sources"]] == [1, 0, 0]


def slow(sites: list[Site]) -> str:
    """Declare sites that take seconds; the last of them waits for a place."""
    for each in sites:
        each.pages["/"] = html("Home", *(f"/{n}" for n in range(40)))
        for n in range(40):
            each.pages[f"/{n}"] = html(f"Page {n}")
    more = "delay = 0.5"
    names = ("one", "two", "three")
    tables = [
        table(name, each.url("/"), more=more) for name, each in zip(names, sites, strict=True)
    ]
    return "".join(tables)


def children(pid: int) -> list[int]:
    """The processes that another one started."""
    found = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in found for child in file.read_text().split()]


@pytest.mark.long
def test_a_worker_that_is_killed_fails_its_source_alone_and_a_signal_ends_the_others(crawl: Crawl):
    with ExitStack() as stack:
        sites = [stack.enter_context(Site()) for _ in range(3)]
        crawl.declare(slow(sites))
        with crawl.start_python("-m", "scrapy", "crawl", "site", "--jobs", "2") as running:
            wait_until(lambda: all(each.count("/1") for each in sites[:2]), "two sources begin")
            workers = children(running.pid)
            assert len(workers) == 2
            os.kill(workers[0], signal.SIGKILL)
            wait_until(lambda: sites[2].count("/1"), "the third source begins")
            running.process.send_signal(signal.SIGTERM)
            result = running.end()

        assert result.status == 1
        assert result.out.count("its process died of signal 9") == 2, "a line and a row"
        assert result.out.count("not begun") == 0
        states = {run["source"]: run["state"] for run in crawl.runs()}
        assert sorted(states.values()).count("interrupted") == 2, "both ended in order"
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@pytest.mark.long
def test_two_commands_never_ask_one_host_for_two_sources_at_once(site: Site, crawl: Crawl):
    free = threading.Event()
    for part in "ab":
        site.pages[f"/{part}/"] = html(part, f"/{part}/1")
        site.pages[f"/{part}/1"] = html(part)
    site.pages["/a/1"] = Page(html("a"), until=free.wait)
    words = "b waits until another process has crawled a: both request 127.0.0.1"
    with Site() as other:
        other.pages["/"] = html("Other")
        below = [table(part, site.url(f"/{part}/"), more="scope = 'below'") for part in "ab"]
        crawl.declare("".join(below) + table("other", other.url("/")))
        with crawl.start_command("crawl", "site", "-a", "source=a") as first:
            wait_until(lambda: site.count("/a/1"), "the first command crawls")
            with crawl.start_command("crawl", "site", "-a", "source=b") as second:
                second.until_it_says(words)
                second.process.send_signal(signal.SIGTERM)
                assert second.end().status == 3
            with crawl.start_command("due") as third:
                third.until_it_says(words)
                wait_until(lambda: other.count("/"), "what shares no host is crawled meanwhile")
                assert not site.count("/b/")
                free.set()
                assert third.end().status in (0, 4), "a was held, or had ended"
            assert first.end().status == 0
    asked = [one.path[1] for one in site.log if one.path[:2] in ("/a", "/b")]
    assert asked == sorted(asked), "all of one source, then all of the other"
    assert {run["source"]: run["complete"] for run in crawl.runs()} == {
        "a": True, "b": True, "other": True
    }  # fmt: skip
