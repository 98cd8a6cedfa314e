"""Several sources by one command: each in a run of its own."""

import pytest

from tests.crawls.commands import Crawl, path_of
from tests.site_server import Page, Site, html


def table(name: str, *seeds: str, more: str = "") -> str:
    return f"[sources.{name}]\nkind = 'site'\nseeds = {list(seeds)}\n{more}\n"


@pytest.mark.parametrize("words", [("crawl", "site"), ("due",)], ids=["crawl", "due"])
def test_a_source_that_another_run_holds_hides_no_dead_one(
    site: Site, crawl: Crawl, words: tuple[str, ...]
):
    site.pages["/"] = Page("no", status=500)
    site.pages["/held"] = html("Held")
    crawl.declare(table("dead", site.url("/")) + table("held", site.url("/held")))
    crawl.environment["RETRY_TIMES"] = "0"
    with crawl.held("held"):
        crawl.run(*words, expect=3)

        crawl.declare(table("held", site.url("/held")))
        crawl.run("crawl", "site", expect=4)


@pytest.mark.covers("M-38", "RP-04")
def test_without_an_argument_every_source_is_crawled_in_a_run_of_its_own(site: Site, crawl: Crawl):
    with Site() as other:
        site.pages["/"] = html("One", "/a")
        site.pages["/a"] = html("A", text="words of the first site")
        other.pages["/"] = Page("no", status=500)
        crawl.declare(
            table("broken", other.url("/"))
            + table("one", site.url("/"))
            + table("two", site.url("/a"), more="release = '2.1'")
        )
        crawl.environment["RETRY_TIMES"] = "0"

        result = crawl.run("crawl", "site", "--jobs", "1", expect=3)  # the worst of 3, 0 and 0

        runs = {run["source"]: run for run in crawl.runs()}
        assert {name: run["complete"] for name, run in runs.items()} == {
            "broken": False, "one": True, "two@2.1": True
        }  # fmt: skip
        assert site.count("/a") == 2  # each source has its own record of it
        records = [(record["source"], path_of(record["url"])) for record in crawl.records()]
        assert sorted(records) == [
            ("broken", "/"), ("one", "/"), ("one", "/a"), ("two@2.1", "/a")
        ]  # fmt: skip
        assert all(name in result.out for name in runs)
        [hit] = crawl.search("first site")
        assert set(hit["sources"]) == {"one", "two@2.1"}
        hits = crawl.search("first site", "--source", "one")
        assert {hit["source"] for hit in hits} == {"one"}
        other.pages["/"] = html("Two")

        crawl.run("crawl", "site", "--jobs", "1")

        site.clear()
        crawl(source="one")
        assert site.count("/") == 1
        assert len(crawl.runs()) == 7
        assert {run["run"] for run in crawl.runs(source="one")} == {2, 5, 7}
        assert {page["lastOutcome"] for page in crawl.records(source="one")} == {"unchanged"}
        two = crawl.pages(source="two@2.1")["/a"]
        assert (two["lastOutcome"], two["visitedRun"]) == ("unchanged", 6)
