"""Raw bodies are stored once each, found by their path, and go some time after their page."""

import gzip
import hashlib
from pathlib import Path
from shutil import rmtree

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html


def files(crawl: Crawl) -> list[Path]:
    return sorted((crawl.data_dir / "snapshots").rglob("*.gz"))


def paths(crawl: Crawl) -> dict[str, str]:
    """`storage_path` by the path of each page."""
    rows = crawl.rows("SELECT url, storage_path FROM crawled_documents")
    return {"/" + url.split("/", 3)[3]: path for url, path in rows if path is not None}


@pytest.mark.covers("M-48", "R0-75", "R4-32")
def test_a_body_lies_where_its_page_says(site: Site, crawl: Crawl):
    site.pages["/"] = Page(html("Home", "/a"), gzip=True)
    site.pages["/a"] = html("A", text="the text of a")
    crawl(site.url("/"))

    found = paths(crawl)
    day = crawl.pages()["/"]["firstSeen"][:10].replace("-", "/")
    key = hashlib.sha256(site.url("/a").encode()).hexdigest()
    assert set(found) == {"/", "/a"}
    assert found["/a"].endswith(f"/data/snapshots/{day}/{key}.html.gz")
    stored = Path(found["/a"].removeprefix("file://"))
    assert gzip.decompress(stored.read_bytes()) == html("A", text="the text of a").encode()
    assert len(files(crawl)) == 2


@pytest.mark.covers("M-48")
def test_equal_bodies_are_stored_once_and_unchanged_ones_never_again(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/b", "/no")
    site.pages["/a"] = site.pages["/b"] = html("Same", text="the same text")
    site.pages["/no"] = html("No", head='<meta name="robots" content="noindex">')
    crawl(site.url("/"))
    assert len(files(crawl)) == 3
    before = {path: path.stat().st_mtime_ns for path in files(crawl)}

    crawl(site.url("/"))
    crawl(site.url("/"), force=1)

    assert {path: path.stat().st_mtime_ns for path in files(crawl)} == before


@pytest.mark.covers("M-48")
def test_two_bodies_of_one_day_have_two_paths(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", text="first")
    crawl(site.url("/"))
    first = paths(crawl)["/"]
    site.pages["/"] = html("Home", text="second")
    crawl(site.url("/"))

    assert paths(crawl)["/"] != first
    texts = [gzip.decompress(path.read_bytes()) for path in files(crawl)]
    assert sorted(b"second" in text for text in texts) == [False, True]


@pytest.mark.covers("M-48", "R0-75", "R0-79")
def test_what_no_page_holds_any_more_goes_when_its_time_is_over(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/a"] = site.pages["/b"] = html("Same", text="the same text")
    crawl(site.url("/"))
    settings = {"SNAPSHOT_RETENTION_DAYS": 1}
    site.pages["/a"] = html("A", text="another text")
    crawl(site.url("/"), settings=settings)
    assert crawl.rows("SELECT count(*) FROM snapshot WHERE released IS NOT NULL") == [(0,)]
    site.pages["/b"] = Page("", status=404)
    crawl(site.url("/"), settings=settings, lost_threshold=1)
    assert crawl.rows("SELECT count(*) FROM snapshot WHERE released IS NOT NULL") == [(1,)]
    assert len(files(crawl)) == 3

    crawl.rows("UPDATE snapshot SET released = released - 86401 WHERE released IS NOT NULL")
    crawl(site.url("/"), settings=settings)
    assert len(files(crawl)) == 2
    assert crawl.rows("SELECT count(*) FROM snapshot") == [(2,)]


@pytest.mark.covers("M-48", "M-09")
def test_an_undone_removal_finds_its_snapshot_again(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="the text of a")
    crawl(site.url("/"))
    before = paths(crawl)
    site.pages["/a"] = Page("", status=404)
    crawl(site.url("/"), lost_threshold=1)
    assert set(paths(crawl)) == {"/"}

    crawl.run("undo", "2")

    assert paths(crawl) == before
    assert crawl.rows("SELECT count(*) FROM snapshot WHERE released IS NOT NULL") == [(0,)]


def test_what_cannot_be_read_is_not_kept(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/x")
    site.pages["/x"] = Page(b"\x00\x01\x02" * 99, content_type="application/x-thing")
    crawl(site.url("/"))

    assert set(paths(crawl)) == {"/"}


def test_none_are_kept_where_they_are_off(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home")
    crawl(site.url("/"), settings={"SNAPSHOT_STORE": "off"})
    assert paths(crawl) == {}
    assert not files(crawl)
    crawl(site.url("/"), force=1)  # from here on they are
    assert set(paths(crawl)) == {"/"}


@pytest.mark.parametrize("store", ["nothing://x", "s3://user:secret@bucket/x", "relative/path"])
def test_a_store_that_is_none_is_refused_before_the_first_request(
    site: Site, crawl: Crawl, store: str
):
    result = crawl(site.url("/"), settings={"SNAPSHOT_STORE": store}, expect=1)

    assert "SNAPSHOT_STORE" in result.err
    assert "secret" not in result.err
    assert site.log == []


# Files that are gone


def shop(site: Site) -> None:
    site.pages["/"] = html("Home", "/a", "/b", "/c")
    site.pages["/a"] = site.pages["/b"] = html("Same", text="the same text")
    site.pages["/c"] = html("C", text="the text of c")


@pytest.mark.covers("M-48", "R0-75")
def test_force_brings_every_snapshot_back_to_where_it_was(site: Site, crawl: Crawl):
    shop(site)
    crawl(site.url("/"))
    before = {path: path.read_bytes() for path in files(crawl)}
    assert len(before) == 3
    rows = crawl.rows("SELECT no, body_hash, path, released FROM snapshot ORDER BY no")
    rmtree(crawl.data_dir / "snapshots")

    crawl(site.url("/"))
    assert not files(crawl)  # the pages answer 304
    result = crawl(site.url("/"), force=1)

    assert {path: path.read_bytes() for path in files(crawl)} == before
    assert crawl.rows("SELECT no, body_hash, path, released FROM snapshot ORDER BY no") == rows
    assert crawl.rows("SELECT count(snapshot) FROM record") == [(4,)]
    assert "snapshot" not in result.out + result.err


@pytest.mark.covers("M-48", "R0-55")
def test_a_page_that_is_ordered_anew_has_its_snapshot_again(site: Site, crawl: Crawl):
    shop(site)
    crawl(site.url("/"))
    for path in files(crawl):
        path.unlink()

    crawl.run("reindex", "--url", site.url("/c"))
    crawl(site.url("/"))

    (found,) = files(crawl)
    assert b"the text of c" in gzip.decompress(found.read_bytes())


@pytest.mark.covers("M-48")
def test_a_known_body_that_comes_again_is_not_taken_for_stored(site: Site, crawl: Crawl):
    shop(site)
    crawl(site.url("/"))
    for path in files(crawl):
        path.unlink()
    site.pages["/c"] = html("Same", text="the same text")

    crawl(site.url("/"))

    (found,) = files(crawl)
    assert b"the same text" in gzip.decompress(found.read_bytes())
    found = paths(crawl)
    assert found["/a"] == found["/b"] == found["/c"]


@pytest.mark.covers("M-48", "M-15")
def test_a_lost_snapshot_is_stored_anew_for_all_who_share_it(site: Site, crawl: Crawl):
    shop(site)
    crawl.declare(f'[sources.docs]\nseeds = ["{site.url("/")}"]\n')
    crawl(source="docs")
    (shared,) = {path for name, path in paths(crawl).items() if name in {"/a", "/b"}}
    Path(shared.removeprefix("file://")).unlink()
    crawl.declare(f'[sources.docs]\nseeds = ["{site.url("/")}"]\ndrop_selectors = [".x"]\n')

    result = crawl(source="docs", settings={"RECRAWL_POLICY": "due"}, expect=None)

    assert "not extracted again: 2 pages" in result.out
    assert set(paths(crawl)) == {"/", "/c"}
    assert crawl.rows("SELECT count(*) FROM snapshot") == [(2,)]
    site.clear()
    result = crawl(source="docs", settings={"RECRAWL_POLICY": "due"}, expect=None)
    assert {request.path for request in site.log} - {"/robots.txt"} == {"/a", "/b"}
    assert len(files(crawl)) == 3
    found = paths(crawl)
    assert found["/a"] == found["/b"]
    assert Path(found["/a"].removeprefix("file://")).exists()
    assert "not extracted" not in result.out


@pytest.mark.alone  # each worker counts its own
@pytest.mark.covers("M-48")
def test_pages_without_a_snapshot_are_counted_at_the_end(site: Site, crawl: Crawl, tmp_path: Path):
    shop(site)
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    crawl.environment["SNAPSHOT_STORE"] = str(blocked)

    result = crawl(site.url("/"))

    assert "no snapshot stored: 4 pages" in result.out
    assert result.err.count("snapshots are not stored") == 1
    assert "-a force=1" in result.out
    blocked.unlink()
    result = crawl(site.url("/"), force=1)
    assert "no snapshot stored" not in result.out
    assert set(paths(crawl)) == {"/", "/a", "/b", "/c"}
    assert len(list(blocked.rglob("*.gz"))) == 3
