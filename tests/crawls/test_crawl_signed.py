"""Signed addresses are asked as they were linked, and nothing that signs them is kept."""

import re
from html import escape
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

SECRET = "c2VjcmV0LXNpZ25hdHVyZQ"


def signed(path: str, number: int = 1) -> str:
    return f"{path}?sv=2024-08-04&se=2026-12-0{number}&sr=b&sp=r&sig={SECRET}{number}"


def home(link: str) -> str:
    """A page that links an address without showing it."""
    entry = f'<li><a href="{escape(link)}">a file</a></li></ul>'
    return html("Home", "/hub").replace("</ul>", entry)


def kept(crawl: Crawl) -> list[Path]:
    """The files of DATA_DIR in which the secret stands; bodies are kept as they came."""
    files = [p for p in crawl.data_dir.rglob("*") if p.is_file() and "snapshots" not in p.parts]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


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
