"""A refresh asks "has it changed?", and an unchanged site costs no body and no write."""

import hashlib
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from smartcrawl.extract.formats import read_document
from smartcrawl.extract.hashes import document_content_hash
from smartcrawl.extract.html import parse_html, parse_plain_text
from tests.crawls.commands import Crawl, Remote
from tests.site_server import Page, Site, html

CONDITIONS = ("if-none-match", "if-modified-since")


def conditions(site: Site) -> dict[str, tuple[str | None, ...]]:
    """The conditional headers of each request, robots.txt left out."""
    return {
        request.path: tuple(request.headers.get(name) for name in CONDITIONS)
        for request in site.log
        if request.path != "/robots.txt"
    }


@pytest.mark.covers(
    "R0-38", "R0-39", "R0-97", "R1-03", "R1-05", "R1-06", "R1-18", "R1-19", "R1-32", "R1-44",
    "RD-04", "RP-04", "RP-05", "R4-35", "U-02",
)  # fmt: skip
def test_an_unchanged_site_answers_304_everywhere_and_no_content_row_changes(
    site: Site, crawl: Crawl
):
    validators: dict[str, tuple[str | None, str | None]] = {
        "/": ('"home"', None),
        "/weak": ('W/"a;b-gzip"', "Mon, 05 Jan 2026 10:00:00 GMT"),
        "/unquoted": ("abc", None),
        "/long": ('"' + "x" * 700 + '"', None),
        "/modified": (None, "Tue, 06 Jan 2026 10:00:00 GMT"),
        "/odd": ('"odd"', "2026-01-06 10:00:00"),
        "/hub": ('"hub"', None),
        "/leaf": ('"leaf"', None),
        "/both/": ('"both"', "Wed, 07 Jan 2026 10:00:00 GMT"),
    }
    for path, (etag, modified) in validators.items():
        site.pages[path] = Page(
            html(path, text=f"text of {path}"), etag=etag, last_modified=modified
        )
    linked = [path for path in validators if path not in ("/", "/leaf", "/hub")]
    site.pages["/"] = replace(site.pages["/"], body=html("Home", "/hub", *linked))
    site.pages["/hub"] = replace(site.pages["/hub"], body=html("Hub", "/leaf"), gzip=True)
    crawl(site.url("/"))
    before, stored = crawl.pages(), crawl.stored()
    assert set(before) == set(validators)
    site.clear()

    result = crawl(site.url("/"))

    assert conditions(site) == validators
    answers = {r.path: r.status for r in site.log if r.path != "/robots.txt"}
    assert answers == dict.fromkeys(validators, 304)
    assert len(site.log) == len(validators) + 1
    assert crawl.stored() == stored
    assert "Nothing changed" in result.out
    assert "304" in result.out
    after = crawl.pages()
    assert {page["lastOutcome"] for page in after.values()} == {"unchanged"}
    assert {page["status"] for page in after.values()} == {"Indexed"}
    assert {page["lastStatusCode"] for page in after.values()} == {304}
    assert {page["effectiveStatus"] for page in after.values()} == {200}
    assert {page["reachedRun"] for page in after.values()} == {2}
    moving = {
        "lastOutcome", "lastStatusCode", "reachedRun", "visitedRun", "lastChecked", "nextCrawlAt",
        "ETag",
    }  # fmt: skip
    for path, page in after.items():
        still = {key: value for key, value in page.items() if key not in moving}
        assert still == {key: before[path][key] for key in still}
    run = crawl.runs()[0]
    count = len(validators)
    assert (run["unchanged"], run["notModified"], run["conditionalRequests"]) == (count,) * 3
    assert run["bytesDownloaded"] == 0
    assert run["bytesSaved"] == crawl.runs()[1]["bytesDownloaded"]
    assert crawl.counts_add_up()


@pytest.mark.covers("R1-15", "RD-04")
def test_a_304_may_renew_validators_and_those_it_does_not_repeat_stay(site: Site, crawl: Crawl):
    modified = "Mon, 05 Jan 2026 10:00:00 GMT"
    body = html("Page", text="steady")
    site.pages["/"] = Page(body, etag='"one"', last_modified=modified)
    crawl(site.url("/"))
    stored = crawl.stored()
    site.pages["/"] = Page("", status=304, etag='W/"one"')
    crawl(site.url("/"))
    assert crawl.stored() == stored
    assert crawl.pages()["/"]["httpEtag"] == 'W/"one"'
    assert crawl.pages()["/"]["lastModifiedReceived"] == modified
    assert crawl.outcomes() == {"/": "unchanged"}
    later = "Tue, 06 Jan 2026 10:00:00 GMT"
    site.pages["/"] = Page(body, etag='W/"one"', last_modified=later)
    site.clear()

    crawl(site.url("/"))

    assert conditions(site) == {"/": ('W/"one"', modified)}
    assert site.log[-1].status == 304
    assert crawl.pages()["/"]["lastModifiedReceived"] == later


@pytest.mark.covers("R1-15")
def test_a_304_to_a_date_confirms_and_its_etag_is_not_stored(site: Site, crawl: Crawl):
    """It names a version of which nothing but the date is known to be that of the text."""
    modified = "Mon, 05 Jan 2026 10:00:00 GMT"
    site.pages["/"] = html("Home", "/page")
    page = Page(html("Page", text="steady"), etag=None, last_modified=modified)
    site.pages["/page"] = page
    crawl(site.url("/"))
    site.pages["/page"] = replace(page, etag='"two"')
    site.clear()

    crawl(site.url("/"))
    crawl(site.url("/"))

    answers = [(r.status, r.headers.get("if-none-match")) for r in site.log if r.path == "/page"]
    assert answers == [(304, None)] * 2
    assert crawl.outcomes()["/page"] == "unchanged"
    assert crawl.pages()["/page"]["httpEtag"] is None


@pytest.mark.covers("R1-15")
def test_a_version_that_is_restored_with_its_date_is_found(site: Site, crawl: Crawl):
    """Such a file is not younger than the date that is asked about, so that the answer is a 304."""
    early, late = "Mon, 05 Jan 2026 10:00:00 GMT", "Tue, 06 Jan 2026 10:00:00 GMT"
    others = [f"/p{n}" for n in range(12)]
    site.pages["/"] = html("Home", "/page", *others)
    site.pages |= {path: Page(html(path), etag=None, last_modified=late) for path in others}
    site.pages["/page"] = Page(html("P", text="new words"), etag=None, last_modified=late)
    crawl(site.url("/"))
    stored = crawl.stored()
    site.pages["/page"] = Page(html("P", text="old words"), etag=None, last_modified=early)

    crawl(site.url("/"))

    page = crawl.pages()["/page"]
    assert (page["lastOutcome"], page["httpStatusCode"]) == ("failed", 1216)
    dates = f"a 304 response with the date {early} to a request with {late};"
    assert page["errorMessage"].startswith(dates)
    assert page["lastModifiedReceived"] == late
    assert crawl.stored() == stored
    assert {crawl.outcomes()[path] for path in others} == {"unchanged"}
    site.clear()

    crawl(site.url("/"))

    assert conditions(site)["/page"] == (None, None)
    assert crawl.outcomes()["/page"] == "modified"
    assert crawl.hits("words") == crawl.hits("old words") == ["/page"]
    site.clear()

    crawl(site.url("/"))

    assert conditions(site)["/page"] == (None, early)
    assert crawl.outcomes()["/page"] == "unchanged"


@pytest.mark.covers("RD-04")
@pytest.mark.parametrize(("sent", "answered"), [('"a-gzip"', '"a"'), ('"a;;;"', 'W/"a;br"')])
def test_a_304_with_the_etag_of_another_coding_confirms(site: Site, crawl: Crawl, sent, answered):
    site.pages["/"] = Page(html("Home", text="steady"), etag=sent)
    crawl(site.url("/"))
    site.pages["/"] = Page("", status=304, etag=answered)

    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged"}
    assert crawl.pages()["/"]["httpEtag"] == answered


@pytest.mark.covers("R0-46", "R0-47", "R1-07", "U-03", "M-12")
def test_a_200_with_equal_content_is_unchanged_and_its_validators_and_body_hash_are_renewed(
    site: Site, crawl: Crawl
):
    body = html("Bare", text="no validators at all")
    site.pages["/"] = Page(html("Home", "/bare", "/noise"), etag=None)
    site.pages["/bare"] = Page(body, etag=None)
    site.pages["/noise"] = Page(html("Noise", "/old", text="hum"), etag='"1"')
    site.pages["/old"] = html("Old")
    site.pages["/new"] = html("New")
    crawl(site.url("/"))
    before, stored = crawl.pages(), crawl.stored()
    noisy = html("Noise", "/old", text="hum").replace("<ul>", "<!-- 12:00 --><ul>")
    site.pages["/noise"] = Page(noisy, etag='"2"')
    site.clear()

    crawl(site.url("/"))

    after, kept = crawl.pages(), crawl.stored()
    assert {crawl.outcomes()[path] for path in after} == {"unchanged"}
    assert conditions(site)["/bare"] == (None, None)
    assert after["/bare"]["httpStatusCode"] == 200
    assert (kept["content"], kept["chunk"]) == (stored["content"], stored["chunk"])
    for key in ("contentHash", "textHash", "lastChanged", "lastIndexed"):
        assert after["/noise"][key] == before["/noise"][key]
    assert after["/noise"]["bodyHash"] == f"sha256:{hashlib.sha256(noisy.encode()).hexdigest()}"
    assert after["/noise"]["httpEtag"] == '"2"'
    run = crawl.runs()[0]
    assert (run["unchanged"], run["notModified"]) == (4, 1)  # only /old answers 304


@pytest.mark.covers("R0-76")
def test_a_detected_language_is_stored_and_kept_while_the_text_is_the_same(
    site: Site, crawl: Crawl
):
    """Another language is planted, as a detector of other versions may have found it."""
    text = "The crawler visits every page that it knows and asks whether it has changed. " * 3
    body = html("Page", text=text)
    site.pages["/"] = Page(body, etag='"1"')
    crawl(site.url("/"))
    languages = "SELECT language FROM content"
    assert crawl.rows(languages) == [("en",)]
    found = replace(
        parse_html(body.encode(), content_type="text/html", url=site.url("/")), language="fr"
    )
    digest = document_content_hash(found).hex()
    planted = f"'\\x{digest}'" if isinstance(crawl.registry, Remote) else f"x'{digest}'"
    crawl.rows(f"UPDATE content SET language = 'fr', content_hash = {planted} RETURNING no")

    site.pages["/"] = Page(f"{body}<!-- 12:00 -->", etag='"2"')
    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "unchanged"}
    assert crawl.rows(languages) == [("fr",)]

    site.pages["/"] = Page(html("Page", text=f"Once more. {text}"), etag='"3"')
    crawl(site.url("/"))

    assert crawl.outcomes() == {"/": "modified"}
    assert crawl.rows(languages) == [("en",)]


@pytest.mark.covers("R0-76")
@pytest.mark.parametrize("media_type", ["text/plain", "text/markdown"])
def test_documents_that_are_no_pages_keep_their_language_too(
    site: Site, crawl: Crawl, media_type: str
):
    text = "The crawler visits every page that it knows and asks whether it has changed. " * 3
    given = {"content_type": media_type, "url": site.url("/a")}
    if media_type == "text/plain":
        found = parse_plain_text(text.encode(), **given)
    else:
        found = read_document(text.encode(), media_type=media_type, **given)
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = Page(text, etag='"1"', content_type=media_type)
    crawl(site.url("/"))
    digest = document_content_hash(replace(found, language="fr")).hex()
    planted = f"'\\x{digest}'" if isinstance(crawl.registry, Remote) else f"x'{digest}'"
    of_a = f"no = (SELECT content FROM record WHERE url = '{site.url('/a')}')"
    change = f"UPDATE content SET language = 'fr', content_hash = {planted} WHERE {of_a}"
    assert len(crawl.rows(f"{change} AND language = 'en' RETURNING no")) == 1

    for sent, outcome, language in (
        (f"{text}\n\n", "unchanged", "fr"),
        (f"Once more. {text}", "modified", "en"),
    ):
        site.pages["/a"] = Page(sent, content_type=media_type)
        crawl(site.url("/"))

        assert crawl.outcomes()["/a"] == outcome
        assert crawl.pages()["/a"]["language"] == language


@pytest.mark.covers("RD-06", "R4-39", "U-12")
def test_a_304_that_nobody_asked_for_is_an_error_and_what_is_held_stays(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/known")
    site.pages["/known"] = html("Known", text="kept words")
    crawl(site.url("/"))
    held = crawl.pages()["/known"]
    site.pages["/"] = html("Home", "/known", "/new")
    site.pages["/known"] = Page("", status=304, etag='"x"')
    site.pages["/new"] = Page("", status=304, etag='"y"')

    crawl(site.url("/"), force=1, expect=3)  # two of three pages gave no usable answer

    pages = crawl.pages()
    assert [pages[path]["lastOutcome"] for path in ("/known", "/new")] == ["lost", "failed"]
    assert [pages[path]["status"] for path in ("/known", "/new")] == ["Error", "Error"]
    assert [pages[path]["httpStatusCode"] for path in ("/known", "/new")] == [1001, 1001]
    assert [pages[path]["lostCount"] for path in ("/known", "/new")] == [1, 0]
    assert any("unreachable: 2 of 3" in reason for reason in crawl.runs()[0]["reasons"])
    assert pages["/known"]["effectiveStatus"] == 200
    assert pages["/known"]["contentHash"] == held["contentHash"]
    assert pages["/known"]["httpEtag"] == held["httpEtag"]
    assert pages["/new"]["contentHash"] is None
    assert crawl.hits("kept words") == ["/known"]


@pytest.mark.covers("R4-20", "M-15", "R1-15")
def test_a_changed_configuration_asks_every_page_without_validators_once(site: Site, crawl: Crawl):
    """Nothing of the answer to "has it changed?" helps where no snapshot is kept."""
    crawl.environment["SNAPSHOT_STORE"] = "off"
    site.pages["/"] = html("Home", "/a", "/noindex")
    site.pages["/a"] = html("A", text="alpha")
    site.pages["/noindex"] = html("No", head='<meta name="robots" content="noindex">')
    crawl(site.url("/"))
    site.clear()
    other = {"CONTENT_HASH_BASIS": "bytes"}

    crawl(site.url("/"), settings=other)

    assert set(conditions(site).values()) == {(None, None)}
    pages = crawl.pages()
    assert pages["/a"]["contentHash"] == pages["/a"]["bodyHash"] == pages["/a"]["textHash"]
    assert crawl.hits("alpha") == ["/a"]
    assert pages["/noindex"]["lastOutcome"] == "excluded"
    site.clear()

    crawl(site.url("/"), settings=other)

    assert {r.status for r in site.log if r.path != "/robots.txt"} == {304}
    assert crawl.outcomes() == {"/": "unchanged", "/a": "unchanged", "/noindex": "excluded"}
    assert crawl.counts_add_up()


@pytest.mark.covers("R1-13", "M-15")
def test_another_size_of_chunks_reads_snapshots_and_modifies_nothing(site: Site, crawl: Crawl):
    """Nor does a version that finds more in the same text: its blocks are no content."""
    code = "".join(f"call({n})\n" for n in range(100))
    words = "".join(f"<p>Paragraph {n} of a longer page.</p>" for n in range(60))
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = Page(f"<title>A</title>{words}<pre>{code}</pre>")
    crawl(site.url("/"))

    def chunks() -> list[tuple[str, list[str]]]:
        found = "SELECT content, metadata FROM documents WHERE page_id = 2 ORDER BY sort_order"
        return [(text, json.loads(more)["types"]) for text, more in crawl.rows(found)]

    before = chunks()
    assert {word for _, types in before for word in types} == {"text", "code"}
    site.clear()

    crawl(site.url("/"), settings={"CHUNK_SIZE": "400"})

    assert {r.status for r in site.log if r.path != "/robots.txt"} == {304}
    assert crawl.outcomes() == {"/": "unchanged", "/a": "unchanged"}
    after = chunks()
    assert len(after) > len(before)
    assert (code.strip(), ["code"]) in after  # whole up to 1,600 characters
    assert "\n".join(text for text, _ in after) == "\n".join(text for text, _ in before)
    assert crawl.hits("call(99)") == ["/a"]


@pytest.mark.covers("RD-03")
def test_validators_go_only_to_the_spelling_that_gave_them(site: Site, crawl: Crawl):
    """ADR 7; RD-03: a page that moved within its id is asked there, and only there."""
    site.pages["/"] = html("Home", "/a?utm_source=x")
    site.pages["/a"] = Page(html("A", text="alpha"), last_modified=datetime(2026, 1, 1, tzinfo=UTC))
    site.pages["/a?utm_source=x"] = Page(redirect="/a")
    crawl(site.url("/"))
    assert crawl.pages()["/a"]["url"] == site.url("/a")
    site.clear()

    crawl(site.url("/"))

    assert site.count("/a?utm_source=x") == 0
    assert site.count("/a") == 1
    assert all(conditions(site)["/a"])
    site.pages["/a"] = Page(redirect="/a/")
    site.pages["/a/"] = html("A", text="alpha at its new place")
    site.clear()

    crawl(site.url("/"))

    assert all(conditions(site)["/a"])
    assert conditions(site)["/a/"] == (None, None)
    assert crawl.outcomes()["/a/"] == "modified"


@pytest.mark.covers("R1-25")
def test_relative_links_of_a_page_that_moved_resolve_against_where_it_answered(
    site: Site, crawl: Crawl
):
    page = html("A", "b", text="alpha")
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = page
    site.pages["/b"] = html("B of the root")
    crawl(site.url("/"))
    site.pages["/a"] = Page(redirect="/a/")
    site.pages["/a/"] = page
    site.pages["/a/b"] = html("B of the directory")

    crawl(site.url("/"))

    assert crawl.outcomes()["/a/"] == "unchanged"
    assert crawl.outcomes()["/a/b"] == "new"
    assert crawl.outcomes()["/b"] == "orphaned"


def test_a_page_that_only_moved_within_its_id_is_unchanged_and_asked_there_next(
    site: Site, crawl: Crawl
):
    page = html("A", text="alpha")
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = Page(page, etag='"old"')
    crawl(site.url("/"))
    site.pages["/a"] = Page(redirect="/a/")
    site.pages["/a/"] = Page(page, etag='"new"')

    crawl(site.url("/"))

    assert crawl.outcomes()["/a/"] == "unchanged"
    assert crawl.pages()["/a/"]["httpEtag"] == '"new"'
    site.clear()

    crawl(site.url("/"))

    assert (site.count("/a"), site.count("/a/")) == (0, 1)
    assert conditions(site)["/a/"] == ('"new"', None)


def test_a_canonical_that_alone_changed_is_recorded(site: Site, crawl: Crawl):
    def page(canonical: str) -> str:
        return html("Home", text="the same", head=f'<link rel="canonical" href="{canonical}">')

    site.pages["/"] = page("/one")
    crawl(site.url("/"))
    site.pages["/"] = page("/two")

    crawl(site.url("/"))

    record = crawl.pages()["/"]
    assert record["canonicalUrl"] == site.url("/two")
    assert record["lastOutcome"] == "unchanged"
