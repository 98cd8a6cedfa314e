"""Lines that stand on most pages of a host are left out, by a list of the host (ADR 151)."""

import json
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Site, html

COOKIES = "We set cookies for the service of the harbour."
LETTER = "Subscribe to the letter of the keeper."
COUNT = 24


def story(n: int, *, above: str = COOKIES, below: str = LETTER, more: str = "") -> str:
    prose = f"<p>Boat {n} came in with {n * 7} crates of tar and left {n % 5} anchors.{more}</p>"
    body = f"<p>{above}</p><h1>Story of boat {n}</h1>{prose}<p>{below}</p>"
    return f"<title>Boat {n}</title><main>{body}</main>"


def fill(site: Site, count: int = COUNT, **parts: str) -> None:
    site.pages["/"] = html("Harbour", *(f"/{n}" for n in range(count)), text="boats of the year")
    site.pages |= {f"/{n}": story(n, **parts) for n in range(count)}


def lists(crawl: Crawl) -> list[tuple[int, int]]:
    """The version of each list, and the number of its pages."""
    return [(row[0], row[1]) for row in crawl.rows("SELECT version, pages FROM site_list")]


def phrase(text: str) -> str:
    return '"' + text.rstrip(".") + '"'


@pytest.fixture
def harbour(site: Site, crawl: Crawl) -> Site:
    fill(site)
    crawl(site.url("/"))
    site.clear()
    return site


def test_lines_of_most_pages_are_left_out_of_index_and_export(
    harbour: Site, crawl: Crawl, tmp_path: Path
):
    assert lists(crawl) == [(1, COUNT + 1)]
    assert crawl.hits(phrase(COOKIES)) == crawl.hits(phrase(LETTER)) == []
    assert crawl.hits('"boat 3 came in"') == ["/3"]
    exported = tmp_path / "pages.jsonl"
    crawl.run("export", "--source", "site.example", "--format", "jsonl", "--output", str(exported))
    pages = [json.loads(line) for line in exported.read_text("utf-8").splitlines()]
    assert len(pages) == COUNT + 1
    assert not any(COOKIES in page["markdown"] or LETTER in page["markdown"] for page in pages)
    assert all("# Story of boat" in page["markdown"] for page in pages[1:])


def test_texts_and_hashes_keep_what_is_left_out(harbour: Site, crawl: Crawl):
    before = {path: page["textHash"] for path, page in crawl.pages().items()}
    crawl(harbour.url("/"), settings={"LEAVE_OUT_REPEATED": 0})

    assert {path: page["textHash"] for path, page in crawl.pages().items()} == before
    assert len(crawl.hits(phrase(COOKIES))) == COUNT  # the marks went with the list
    assert {row[0] for row in crawl.rows("SELECT marked FROM content")} == {""}


def test_a_run_without_changes_reads_no_page(
    harbour: Site, crawl: Crawl, monkeypatch: pytest.MonkeyPatch
):
    def unread(*_: object) -> None:
        raise AssertionError("a page was read")

    monkeypatch.setattr("smartcrawl.run.site_lists.contents_by_host", unread)
    monkeypatch.setattr("smartcrawl.run.site_lists.count_contents", unread)

    crawl(harbour.url("/"))

    assert set(crawl.outcomes().values()) == {"unchanged"}
    assert lists(crawl) == [(1, COUNT + 1)]


def test_a_new_list_moves_the_marks_without_a_request(harbour: Site, crawl: Crawl):
    """A tenth of the pages changes: the rest is marked anew out of the registry."""
    notice = "The pier is closed in the winter months."
    fill(harbour, above=notice)
    crawl(harbour.url("/"))
    assert lists(crawl) == [(2, COUNT + 1)]
    assert crawl.hits(phrase(notice)) == crawl.hits(phrase(LETTER)) == []
    assert len(crawl.hits('"crates of tar"')) == COUNT

    for n in range(COUNT):
        harbour.pages[f"/{n}"] = story(n, above=notice if n < 4 else f"Day {n} of the year.")
    crawl(harbour.url("/"))

    assert lists(crawl) == [(3, COUNT + 1)]
    assert harbour.count("/3") == 2  # one request in each of these runs
    assert sorted(crawl.hits(phrase(notice))) == [f"/{n}" for n in range(4)]
    assert crawl.hits(phrase(LETTER)) == []


def test_a_page_that_changes_is_marked_by_the_list_in_force(harbour: Site, crawl: Crawl):
    harbour.pages["/3"] = story(3, more=" A lantern was lost.")

    crawl(harbour.url("/"))

    assert crawl.hits("lantern") == ["/3"]
    assert crawl.outcomes()["/3"] == "modified"
    assert crawl.hits(phrase(COOKIES)) == []
    assert lists(crawl) == [(1, COUNT + 1)]


def test_a_site_with_few_pages_has_no_list(site: Site, crawl: Crawl):
    fill(site, 18)  # 19 with the first one

    crawl(site.url("/"))

    assert lists(crawl) == []
    assert len(crawl.hits(phrase(COOKIES))) == 18


def test_an_incomplete_run_keeps_the_list(harbour: Site, crawl: Crawl):
    fill(harbour, above="The pier is closed in the winter months.")

    crawl(harbour.url("/"), max_pages=10, expect=3)

    assert lists(crawl) == [(1, COUNT + 1)]
