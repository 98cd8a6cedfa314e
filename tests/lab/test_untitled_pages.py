"""Pages that have neither title nor heading are shown by the last name in their address."""

import json

import pytest

from smartcrawl.extract.links import document_links_depend_on_url
from smartcrawl.model.documents import Document
from tests.crawls.commands import Crawl
from tests.site_server import Page, Site

LONG = "A lantern of the harbour is lit at dusk, and put out when the sun is up. " * 10


def test_a_page_without_a_title_is_shown_by_its_address_and_stays_a_clone(site: Site, crawl: Crawl):
    copies = ("/getting%20started.html", "/a/much/longer/address/of/it/")
    links = "".join(f"<a href='{copy}'>copy</a>" for copy in copies)
    site.pages["/"] = Page(f"<title>Home</title>{links}".encode())
    for copy in copies:
        site.pages[copy] = Page(f"<p>{LONG}</p>".encode())

    crawl.declare(f"[sources.docs]\nkind = 'site'\nseeds = ['{site.url('/')}']\n")
    crawl(source="docs")

    [hit] = crawl.search("lantern")
    assert hit["title"] == "getting started"
    assert "1. getting started\n" in crawl.run("search", "lantern").out
    shown = crawl.run("export", "--source", "docs", "--format", "jsonl", "--output", "-").out
    assert {json.loads(line)["title"] for line in shown.splitlines()} == {"Home", "getting started"}
    assert crawl.outcomes()[copies[1]] == "clone"


@pytest.mark.parametrize(
    ("title", "other", "depends"),
    [
        ("a", "b.pdf", True), ("a.pdf", "b.pdf", True), ("a", "a.pdf", False),
        ("A", "b.pdf", False),
    ],
)  # fmt: skip
def test_a_title_that_is_the_name_of_the_file_belongs_to_that_file(
    title: str, other: str, depends: bool
):
    place = "file:///srv/x"
    document = Document(title=title)
    assert document_links_depend_on_url(document, f"{place}/a.pdf", f"{place}/{other}") is depends
