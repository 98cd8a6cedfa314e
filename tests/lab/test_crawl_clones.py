"""Equal content shows once in search, under its original."""

import json

import pytest

from tests.crawls.commands import Crawl, path_of
from tests.site_server import Page, Site, html

LONG = "a sentence about whales that is repeated until it is long enough to count. " * 5


def clone_of(crawl: Crawl, site: Site, path: str) -> str | None:
    url = crawl.pages()[path]["duplicateOf"]
    return None if url is None else url.removeprefix(site.url(""))


@pytest.mark.covers("R4-13", "R2-52", "U-05", "M-23", "R4-23")
def test_equal_pages_show_once_under_the_nearest_and_shortest_address(site: Site, crawl: Crawl):
    page = html("Whales", text=LONG)
    site.pages["/"] = html("Home", "/a-long-address", "/b", "/deep")
    site.pages["/deep"] = html("Deep", "/c")
    site.pages["/a-long-address"] = site.pages["/b"] = site.pages["/c"] = page

    result = crawl(site.url("/"))

    assert crawl.hits("whales") == ["/b"]
    assert [clone_of(crawl, site, path) for path in ("/a-long-address", "/b", "/c")] == [
        "/b", None, "/b"
    ]  # fmt: skip
    outcomes = crawl.outcomes()
    assert [outcomes[path] for path in ("/a-long-address", "/b", "/c")] == ["clone", "new", "clone"]
    run = crawl.runs()[0]
    assert (run["new"], run["clone"]) == (3, 2)
    assert "clone" in result.out
    assert crawl.counts_add_up()
    assert crawl.rows("SELECT count(*) FROM content") == [(3,)]
    for word, paths in {"clone": ["/a-long-address", "/c"], "new": ["/", "/b", "/deep"]}.items():
        listed = crawl.run("registry", "--outcome", word.upper(), "--format", "jsonl").out
        assert sorted(path_of(json.loads(line)["url"]) for line in listed.splitlines()) == paths
    clone = crawl.pages()["/c"]
    assert clone["status"] == "Indexed"
    assert clone["contentHash"] == crawl.pages()["/b"]["contentHash"]

    crawl(site.url("/"))

    assert crawl.outcomes()["/c"] == "unchanged"
    assert clone_of(crawl, site, "/c") == "/b"
    assert crawl.counts_add_up()


@pytest.mark.covers("M-23", "R2-52")
def test_short_equal_texts_are_clones_only_with_equal_bytes(site: Site, crawl: Crawl):
    short = html("Short", text="sunny")
    other = short.replace("<ul>", "<!-- rendered at noon --><ul>")
    site.pages["/"] = html("Home", "/same/1", "/same/other", "/differs")
    site.pages["/same/1"] = site.pages["/same/other"] = short
    site.pages["/differs"] = other

    crawl(site.url("/"))

    pages = crawl.pages()
    assert pages["/differs"]["contentHash"] == pages["/same/1"]["contentHash"]
    assert crawl.hits("sunny") == ["/differs", "/same/1"]
    paths = ("/same/1", "/same/other", "/differs")
    assert [clone_of(crawl, site, path) for path in paths] == [None, "/same/1", None]


@pytest.mark.covers("M-23")
def test_an_empty_text_never_makes_a_clone(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/empty/1", "/empty/2")
    site.pages["/empty/1"] = site.pages["/empty/2"] = "<html><head></head><body></body></html>"

    crawl(site.url("/"))

    assert [clone_of(crawl, site, path) for path in ("/empty/1", "/empty/2")] == [None, None]
    assert set(crawl.outcomes().values()) == {"new"}


@pytest.mark.covers("M-23")
def test_long_equal_texts_are_clones_whatever_their_bytes(site: Site, crawl: Crawl):
    page = html("Whales", text=LONG)
    site.pages["/"] = html("Home", "/one", "/two!")
    site.pages["/one"] = page
    site.pages["/two!"] = page.replace("<ul>", "<!-- rendered at noon --><ul>")

    crawl(site.url("/"))

    assert crawl.hits("whales") == ["/one"]
    assert clone_of(crawl, site, "/two!") == "/one"


@pytest.mark.covers("R4-14", "R4-15", "R4-16", "RD-10")
def test_when_the_original_is_edited_a_clone_takes_over_without_a_download(
    site: Site, crawl: Crawl
):
    page = html("Whales", text=LONG)
    site.pages["/"] = html("Home", "/one", "/two!", "/three!")
    site.pages["/one"] = site.pages["/two!"] = site.pages["/three!"] = page
    crawl(site.url("/"))
    assert clone_of(crawl, site, "/two!") == "/one"
    site.pages["/one"] = html("Sharks", text=LONG.replace("whales", "sharks"))
    site.clear()

    crawl(site.url("/"))

    assert {r.path: r.status for r in site.log if r.path != "/robots.txt"} == {
        "/": 304, "/one": 200, "/two!": 304, "/three!": 304
    }  # fmt: skip
    assert crawl.hits("whales") == ["/two!"]
    assert crawl.hits("sharks") == ["/one"]
    assert [clone_of(crawl, site, path) for path in ("/one", "/two!", "/three!")] == [
        None, None, "/two!"
    ]  # fmt: skip
    site.pages["/one"] = page  # back again: a newcomer among standing ones

    crawl(site.url("/"))

    assert crawl.hits("whales") == ["/two!"]
    assert crawl.hits("sharks") == []
    assert crawl.outcomes()["/one"] == "clone"
    assert clone_of(crawl, site, "/one") == "/two!"
    assert crawl.counts_add_up()


@pytest.mark.covers("R4-14", "RD-10")
def test_a_lost_and_then_orphaned_original_keeps_its_entry_until_it_is_removed(
    site: Site, crawl: Crawl
):
    """ADR 94: living members before lost ones; a lost page keeps the entry it has."""
    page = html("Whales", text=LONG)
    site.pages["/"] = html("Home", "/one", "/two!")
    site.pages["/one"] = site.pages["/two!"] = page

    def shown() -> dict[str, bool]:
        """Whether each hit is marked lost."""
        return {path_of(hit["url"]): hit["lost"] for hit in crawl.search("whales")}

    crawl(site.url("/"))
    assert shown() == {"/one": False}
    site.pages["/one"] = Page("gone", status=404)

    crawl(site.url("/"))

    assert shown() == {"/one": True, "/two!": False}
    assert [clone_of(crawl, site, path) for path in ("/one", "/two!")] == [None, None]
    site.pages["/"] = html("Home", "/two!")
    crawl(site.url("/"))
    assert shown() == {"/one": True, "/two!": False}
    assert crawl.outcomes()["/one"] == "orphaned"

    crawl(site.url("/"))  # gone once and missed twice: three runs in all

    assert shown() == {"/two!": False}
    assert crawl.outcomes()["/one"] == "deleted"
    assert crawl.pages()["/one"]["contentHash"] is None
    assert crawl.counts_add_up()


@pytest.mark.covers("RD-10", "M-23")
def test_a_clone_takes_over_from_an_original_that_is_removed_without_a_download(
    site: Site, crawl: Crawl
):
    page = html("Whales", text=LONG)
    site.pages["/"] = html("Home", "/one", "/two!", "/three!")
    site.pages["/one"] = site.pages["/two!"] = site.pages["/three!"] = page
    crawl(site.url("/"))
    stored, texts = crawl.stored(), sorted(crawl.texts())
    site.pages["/one"] = Page("gone", status=410)
    site.clear()

    crawl(site.url("/"), lost_threshold=1)

    assert {r.path: r.status for r in site.log if r.path != "/robots.txt"} == {
        "/": 304, "/one": 410, "/two!": 304, "/three!": 304
    }  # fmt: skip
    assert crawl.hits("whales") == ["/two!"]
    assert [clone_of(crawl, site, path) for path in ("/one", "/two!", "/three!")] == [
        None, None, "/two!"
    ]  # fmt: skip
    assert (crawl.outcomes()["/one"], crawl.pages()["/one"]["status"]) == ("gone", "Gone")
    kept = crawl.stored()
    assert kept["content"] == stored["content"]
    assert sorted(crawl.texts()) == texts
    if "ELASTICSEARCH_URL" not in crawl.environment:  # where the clone has a document of its own
        assert kept["chunk"] == stored["chunk"]
    assert crawl.counts_add_up()
