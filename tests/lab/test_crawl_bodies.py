"""What pages are made of: character sets, types, broken and enormous bodies."""

import gzip
import hashlib
import json

import brotli
import pytest
from backports import zstd

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4


@pytest.mark.covers("R0-59", "R0-46", "R4-22")
def test_text_is_found_whatever_its_character_set_or_markup(site: Site, crawl: Crawl):
    plain = "<html><head>{}<title>T</title></head><body><p>{}</p></body></html>"
    pages: dict[str, tuple[Page, str]] = {
        "/latin": (
            Page(plain.format("", "Ein Käfer").encode("latin-1"),
                 content_type="text/html; charset=ISO-8859-1"), "käfer"),
        "/meta": (
            Page(plain.format('<meta charset="windows-1251">', "привет мир").encode("cp1251"),
                 content_type="text/html"), "привет"),
        "/utf16": (
            Page(plain.format("", "Größe zählt").encode("utf-16"), content_type="text/html"),
            "größe"),
        "/japanese": (
            Page(plain.format('<meta charset="shift_jis">', "hello 東京 world").encode("shift_jis"),
                 content_type="text/html"), "東京"),
        "/lying": (
            Page(plain.format('<meta charset="x-unknown-thing">', "naïve").encode(),
                 content_type="text/html"), "naïve"),
        "/untyped": (Page(plain.format("", "guessed"), content_type=None), "guessed"),
        "/xhtml": (
            Page('<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><body>'
                 '<p>strict</p><a href="/linked"/></body></html>',
                 content_type="application/xhtml+xml"), "strict"),
        "/linked": (Page(html("Linked", text="closed itself")), "closed"),
        "/text": (Page("just a plain note\n", content_type="text/plain; charset=utf-8"), "note"),
        "/broken": (
            Page("<html><body><table><p>unclosed <b>bold<div><a href='/after'>go"
                 "</span></body><p>after the end <script>var quizzical = '<p>flummoxed</p>'"),
            "unclosed"),
        "/after": (Page(html("After", text="reached through rubble")), "rubble"),
        "/nul": (Page(b"<p>before\x00after zero</p>\xff\xfe"), "zero"),
        "/nested": (Page("<div>" * 5000 + "abyss" + "</div>" * 5000), "abyss"),
    }  # fmt: skip
    linked = [path for path in pages if path not in ("/linked", "/after")]
    site.pages["/"] = html("Home", *linked)
    site.pages |= {path: page for path, (page, _) in pages.items()}

    crawl(site.url("/"))

    assert set(crawl.outcomes().values()) == {"new"}
    for path, (page, word) in pages.items():
        assert crawl.hits(word) == [path], word
        body = page.body.encode() if isinstance(page.body, str) else page.body
        assert crawl.pages()[path]["bodyHash"] == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert crawl.hits("flummoxed quizzical") == []


@pytest.mark.covers("R4-22")
def test_words_and_keywords_of_a_page_are_shown_and_follow_its_changes(site: Site, crawl: Crawl):
    words = "SELECT keywords, txt, words, totalcount, wordcount FROM urlwords WHERE title = 'Page'"
    head = '<meta name="Keywords" content="crawling,\n a\0b &#xD800; sites">'
    site.pages["/"] = html("Home", "/page")
    site.pages["/page"] = Page(html("Page", text="one two two", head=head), etag='"1"')
    crawl(site.url("/"))
    ((keywords, *shown),) = crawl.rows(words)
    assert keywords.startswith("crawling, a")
    assert keywords.endswith("sites")
    assert "\0" not in keywords
    assert shown == ["one two two", "one two", 3, 2]

    site.pages["/page"] = Page(html("Page", text="three", head=head.lower()), etag='"2"')
    crawl(site.url("/"))
    assert crawl.rows(words)[0][1:] == ("three", "three", 1, 1)
    stored = crawl.stored()
    crawl(site.url("/"))
    assert crawl.outcomes()["/page"] == "unchanged"
    assert (crawl.stored(), crawl.rows(words)[0][1:]) == (stored, ("three", "three", 1, 1))


def test_a_page_is_found_by_the_keywords_that_it_names(site: Site, crawl: Crawl):
    head = '<meta itemprop="keywords" content="cross-references; inserting">'
    site.pages["/"] = html("Remissions", text="How to set a remission", head=head)
    crawl(site.url("/"))

    (by_keyword,) = crawl.search("cross-reference")
    (by_both,) = crawl.search("remission reference")

    assert by_keyword["snippet"] == "<em>cross-references</em>; inserting"
    assert by_both["snippet"] == "How to set a <em>remission</em>"


def test_keywords_are_not_shown_where_headings_have_the_words(site: Site, crawl: Crawl):
    site.pages["/"] = (
        "<title>Lamps</title><meta name=keywords content='lamps, lights'>"
        "<h1>Lamps</h1><p>They shine.</p>"
    )
    crawl(site.url("/"))

    assert [hit["snippet"] for hit in crawl.search("lamps")] == ["They shine."]
    assert [hit["snippet"] for hit in crawl.search("lights")] == ["lamps, <em>lights</em>"]


@pytest.mark.covers("R4-23", "U-07", "R0-60")
def test_what_holds_no_readable_text_is_listed_and_never_searched(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/image", "/download", "/untyped", "/skipped.zip")
    site.pages["/image"] = Page(PNG, content_type="image/png")
    site.pages["/download"] = Page(PNG, content_type="application/octet-stream")
    site.pages["/untyped"] = Page(PNG, content_type=None)
    site.pages["/skipped.zip"] = Page(PNG, content_type="application/zip")
    names = ("/image", "/download", "/untyped")
    crawl(site.url("/"))

    pages = crawl.pages()
    assert site.count("/skipped.zip") == 0
    for name in names:
        assert (pages[name]["status"], pages[name]["lastOutcome"]) == ("Crawled", "excluded"), name
        assert pages[name]["bodyHash"] == f"sha256:{hashlib.sha256(PNG).hexdigest()}"
        assert pages[name]["errorMessage"]
        assert pages[name]["duplicateOf"] is None
    assert crawl.hits("PNG") == []
    site.clear()

    crawl(site.url("/"))

    assert {site.count(name) for name in names} == {1}
    assert {r.status for r in site.log if r.path != "/robots.txt"} == {304}
    assert [crawl.outcomes()[name] for name in names] == ["excluded"] * 3
    assert crawl.counts_add_up()


@pytest.mark.covers("U-07", "RD-02", "R4-37")
def test_a_page_that_turns_into_what_is_not_read_is_removed_and_then_listed(
    site: Site, crawl: Crawl
):
    site.pages["/"] = html("Home", "/page", "/other")
    site.pages["/page"] = html("Page", "/child", text="readable once")
    site.pages["/other"] = site.pages["/child"] = html("Other")
    crawl(site.url("/"))
    site.pages["/page"] = Page(PNG, content_type="image/png")

    result = crawl(site.url("/"))

    page = crawl.pages()["/page"]
    assert (page["status"], page["lastOutcome"]) == ("Crawled", "excluded")
    assert (page["effectiveStatus"], page["contentHash"], page["httpEtag"]) == (406, None, None)
    assert crawl.hits("readable") == []
    assert "1 removed" in result.out
    site.clear()

    for status in (200, 304):  # asked without validators once, for what they spoke of is gone
        crawl(site.url("/"))
        assert [r.status for r in site.log if r.path == "/page"][-1] == status
        page = crawl.pages()["/page"]
        assert (page["status"], page["lastOutcome"]) == ("Crawled", "excluded")
        assert page["bodyHash"] == f"sha256:{hashlib.sha256(PNG).hexdigest()}"
    assert crawl.counts_add_up()


@pytest.mark.covers("R4-39", "U-12")
@pytest.mark.parametrize("pack", [gzip.compress, brotli.compress, zstd.compress])
def test_a_page_that_comes_packed_under_no_coding_replaces_and_removes_nothing(
    site: Site, crawl: Crawl, pack
):
    paths = [f"/{number}" for number in range(8)]
    good = {path: html(f"Page {path}", text=f"walrus{path[1:]} " * 40) for path in paths}
    site.pages["/"] = html("Home", *paths, "/new")
    site.pages |= good
    site.pages["/7"] = Page(good["/7"].encode(), content_type="text/plain")
    crawl(site.url("/"))
    packed = pack(html("Later", text="seal " * 20 + str(range(400))).encode() * 3)
    for path, content_type in (("/0", "text/html"), ("/7", "text/plain"), ("/new", "text/html")):
        site.pages[path] = Page(packed, content_type=content_type)

    crawl(site.url("/"), expect=3)  # such answers count as unreachable

    pages = crawl.pages()
    assert {path: pages[path]["lastOutcome"] for path in ("/0", "/7", "/new")} == {
        "/0": "lost",
        "/7": "lost",
        "/new": "failed",
    }
    assert {pages[path]["lastStatusCode"] for path in ("/0", "/7", "/new")} == {1006}
    assert "without a Content-Encoding" in pages["/0"]["errorMessage"]
    assert crawl.hits("walrus0") == ["/0"]
    assert crawl.hits("walrus7") == ["/7"]
    site.pages |= {path: html("Mended", text=f"narwhal{path[1:]}") for path in ("/0", "/7", "/new")}

    crawl(site.url("/"))

    outcomes = crawl.outcomes()
    assert (outcomes["/0"], outcomes["/7"], outcomes["/new"]) == ("modified", "modified", "new")
    assert crawl.hits("narwhal0") == ["/0"]


@pytest.mark.covers("R4-39")
def test_a_table_with_the_separators_of_ascii_is_kept_up_to_date(site: Site, crawl: Crawl):
    table = "\x1e".join(f"row {number}\x1f walrus" for number in range(60))
    site.pages["/"] = html("Home", "/table")
    site.pages["/table"] = Page(table, content_type="text/csv", etag=None)
    for outcome in ("new", "unchanged"):
        crawl(site.url("/"))
        assert crawl.outcomes()["/table"] == outcome
    site.pages["/table"] = Page(table.replace("walrus", "narwhal"), content_type="text/csv")

    crawl(site.url("/"))

    assert crawl.outcomes()["/table"] == "modified"
    assert (crawl.hits("walrus"), crawl.hits("narwhal")) == ([], ["/table"])


def test_an_empty_body_is_a_page_without_words(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/empty")
    site.pages["/empty"] = ""

    crawl(site.url("/"))
    assert crawl.outcomes() == {"/": "new", "/empty": "new"}
    crawl(site.url("/"))
    assert crawl.outcomes() == {"/": "unchanged", "/empty": "unchanged"}
    site.pages["/empty"] = html("No longer", text="filled")
    crawl(site.url("/"))
    assert crawl.outcomes()["/empty"] == "modified"
    assert crawl.hits("filled") == ["/empty"]


def test_a_page_of_thousands_of_links_and_words_is_read_whole(site: Site, crawl: Crawl):
    words = " ".join(f"word{n}" for n in range(40_000))
    site.pages["/"] = html("Home", *(f"/p/{n}" for n in range(3000)), text=words)
    for n in range(0, 3000, 100):
        site.pages[f"/p/{n}"] = html(f"Page {n}")

    crawl(site.url("/"), max_pages=200, expect=3)

    assert len(crawl.records()) == 3001
    assert crawl.hits("word39999") == ["/"]
    assert max(map(len, crawl.texts())) <= 1500
    assert crawl.counts_add_up()


def test_pages_that_only_a_script_would_write_are_counted_and_listed(site: Site, crawl: Crawl):
    app = '<!DOCTYPE html><title>App</title><div id="root"></div><script>render()</script>'
    site.pages["/"] = html("Home", "/app", "/other")
    site.pages["/app"] = app
    site.pages["/other"] = app.replace("App", "Other")

    for word in ("new", "unchanged"):
        result = crawl(site.url("/"))

        assert {crawl.outcomes()[path] for path in ("/app", "/other")} == {word}
        assert (
            "2 pages have no text: text written by scripts in the browser is not seen. List them"
            in result.out
        )
    listed = crawl.run("registry", "--no-text", "--format", "jsonl").out
    assert [json.loads(line)["url"] for line in listed.splitlines()] == [
        site.url("/app"), site.url("/other"),
    ]  # fmt: skip
    reports = {path: crawl.run("why", site.url(path)).out for path in ("/", "/app")}
    line = "  text       none, so a search cannot find the page by its text\n"
    assert {path: line in text for path, text in reports.items()} == {"/": False, "/app": True}
    (story,) = json.loads(crawl.run("why", site.url("/app"), "--format", "json").out)["records"]
    assert story["textLength"] == 0
    site.pages["/app"] = html("App", text="rendered by the server now")

    result = crawl(site.url("/"))

    assert "1 page has no text" in result.out
    (story,) = json.loads(crawl.run("why", site.url("/app"), "--format", "json").out)["records"]
    assert story["textLength"] > 0
