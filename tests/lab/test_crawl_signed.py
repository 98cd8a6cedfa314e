"""Signed addresses are asked as they were linked, and nothing that signs them is kept."""

import re
from html import escape
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

DUE = {"RECRAWL_POLICY": "due"}

SECRET = "c2VjcmV0LXNpZ25hdHVyZQ"


def signed(path: str, number: int = 1) -> str:
    return f"{path}?sv=2024-08-04&se=2026-12-0{number}&sr=b&sp=r&sig={SECRET}{number}"


def home(link: str) -> str:
    """A page that links an address without showing it."""
    entry = f'<li><a href="{escape(link)}">a file</a></li></ul>'
    return html("Home", "/hub").replace("</ul>", entry)


def kept(crawl: Crawl) -> list[str]:
    """The files and tables in which the secret stands; bodies are kept as they came."""
    found = [name for name, content in crawl.written() if SECRET.encode() in content]
    return [name for name in found if "snapshots" not in Path(name).parts]


@pytest.mark.covers("R0-22", "R0-77", "RD-20")
def test_what_is_linked_with_a_signature_is_asked_with_it_and_kept_without(
    site: Site, crawl: Crawl
):
    site.pages["/"] = home(signed("/a.txt"))
    site.pages[signed("/a.txt")] = Page("words of a blob", content_type="text/plain")
    site.pages["/hub"] = html("Hub", text="a hub")
    crawl(site.url("/"))

    assert crawl.hits('"words of a blob"') == ["/a.txt"]
    assert crawl.pages()["/a.txt"]["status"] == "Indexed"
    assert kept(crawl) == []
    result = crawl.run("registry", "--format", "jsonl")
    assert SECRET not in result.out

    site.clear()  # the signature expired; the page names another one
    site.pages["/"] = home(signed("/a.txt", 2))
    site.pages[signed("/a.txt", 2)] = site.pages.pop(signed("/a.txt"))
    result = crawl(site.url("/"))
    assert crawl.outcomes() == {"/": "unchanged", "/a.txt": "unchanged", "/hub": "unchanged"}
    by_path = {r.path: "if-none-match" in r.headers for r in site.log if "robots" not in r.path}
    assert by_path == {"/": False, signed("/a.txt", 2): True, "/hub": True}
    assert kept(crawl) == []
    assert SECRET not in result.err + result.out


@pytest.mark.covers("RD-20")
def test_a_redirect_to_a_signed_address_is_followed_and_kept_without(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/download")
    site.pages["/download"] = Page(redirect=signed("/b.txt"))
    site.pages[signed("/b.txt")] = Page("words of a blob", content_type="text/plain")
    for _ in range(2):
        crawl(site.url("/"))

    assert crawl.hits('"words of a blob"') == ["/b.txt"]
    assert kept(crawl) == []
    why = crawl.run("why", site.url(signed("/b.txt")))
    assert not re.search(SECRET, why.out + why.err)


@pytest.mark.covers("RD-20", "R0-77")
def test_a_seed_with_a_signature_gives_it_anew_in_each_run(site: Site, crawl: Crawl):
    site.pages[signed("/list.html")] = html("List", text="a private list")
    url = site.url(signed("/list.html"))
    crawl(url)
    crawl(url)

    assert crawl.outcomes() == {"/list.html": "unchanged"}
    assert kept(crawl) == []


@pytest.mark.covers("RD-20", "R0-77", "U-11")
def test_a_page_that_needs_a_signature_is_not_lost_where_none_is_named(site: Site, crawl: Crawl):
    """Its hub answers the same bytes again and again, is not due, or names it no more."""
    site.pages["/"] = home(signed("/a.txt"))
    site.pages[signed("/a.txt")] = Page("words of a blob", content_type="text/plain")
    site.pages["/hub"] = html("Hub", text="a hub")
    for _ in range(3):
        crawl(site.url("/"))
    assert crawl.outcomes()["/a.txt"] == "unchanged"
    crawl.rows("UPDATE state SET next_visit = 0 WHERE depth = 1")
    site.clear()
    crawl(site.url("/"), settings=DUE, expect=None)
    assert signed("/a.txt") in [request.path for request in site.log]

    site.pages["/"] = html("Home", "/hub", "/a.txt")
    for _ in range(3):
        crawl(site.url("/"), expect=None)

    assert crawl.outcomes()["/a.txt"] == "failed"
    assert crawl.rows("SELECT http_status, lost_count FROM state WHERE http_status > 1000") == [
        (1215, 0)
    ]
    assert crawl.hits('"words of a blob"') == ["/a.txt"]
    assert kept(crawl) == []


@pytest.mark.covers("RD-20", "R0-77")
def test_signatures_of_images_and_of_canonical_addresses_are_not_kept(site: Site, crawl: Crawl):
    canonical, image = escape(site.url(signed("/b"))), escape(signed("/i.png"))
    page = html("B", text="the text of b")
    page = page.replace("</head>", f'<link rel="canonical" href="{canonical}"></head>')
    page = page.replace("</body>", f'<img src="{image}" width=100 height=100 alt="it"></body>')
    site.pages["/"] = home(signed("/b"))
    site.pages[signed("/b")] = page
    crawl(site.url("/"))

    assert crawl.hits('"the text of b"') == ["/b"]
    assert kept(crawl) == []
    assert crawl.rows("SELECT canonical_url FROM record WHERE canonical_url IS NOT NULL") == [
        (site.url("/b"),)
    ]
