"""Another configuration gives pages other entries: out of snapshots, without a download."""

import gzip
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl, path_of
from tests.site_server import Page, Site, html

BANNER = "this site uses cookies"


def page(title: str, *links: str, text: str = "") -> str:
    banner = f"<div class='banner'><p>{BANNER}</p></div>"
    return html(title, *links, text=text).replace("</main>", f"{banner}</main>")


def declare(crawl: Crawl, site: Site, extra: str = "") -> None:
    crawl.declare(f'[sources.docs]\nkind = "site"\nseeds = ["{site.url("/")}"]\n{extra}')


def asked(site: Site) -> dict[str, bool]:
    """The pages that were asked, and whether with validators."""
    return {r.path: "if-none-match" in r.headers for r in site.log if r.path != "/robots.txt"}


@pytest.fixture
def shop(site: Site, crawl: Crawl) -> Site:
    site.pages["/"] = page("Home", "/a", "/tag/b", text="welcome home")
    site.pages["/a"] = page("A", text="the text of a")
    site.pages["/tag/b"] = page("B", "/c", text="the text of b")
    site.pages["/c"] = page("C", text="the text of c")
    declare(crawl, site)
    crawl(source="docs")
    site.clear()
    assert len(crawl.hits(f'"{BANNER}"')) == 4
    return site


DROP = "drop_selectors = ['.banner']"


@pytest.mark.covers("M-15", "M-02", "R4-18", "R4-20")
@pytest.mark.long(but=1)
@pytest.mark.parametrize("hubs", [1, 10])
def test_a_whole_site_is_extracted_again_without_one_request(site: Site, crawl: Crawl, hubs: int):
    site.pages["/"] = page("Home", *(f"/hub{n}" for n in range(hubs)))
    for hub in range(hubs):
        site.pages[f"/hub{hub}"] = page(f"Hub {hub}", *(f"/p{hub}-{n}" for n in range(99)))
        for n in range(99):
            site.pages[f"/p{hub}-{n}"] = page(f"Page {hub} {n}", text=f"text {hub} of {n}")
    crawl.environment["LEAVE_OUT_REPEATED"] = "0"  # the banner would be
    declare(crawl, site)
    crawl(source="docs")
    before = {path: record["lastChanged"] for path, record in crawl.pages().items()}
    pages = 100 * hubs + 1
    assert len(before) == pages
    assert len(crawl.hits(f'"{BANNER}"')) == min(pages, 1_000)  # as many as a search shows
    site.clear()

    declare(crawl, site, DROP)
    result = crawl.run("due", "--source", "docs")

    assert site.log == []
    assert crawl.hits(f'"{BANNER}"') == []
    assert len(crawl.hits('"text 0 of 7"')) == 1
    assert f"{pages:,} pages extracted again" in result.out
    assert {path: record["lastChanged"] for path, record in crawl.pages().items()} == before
    assert set(crawl.outcomes().values()) == {"skipped"}
    site.clear()
    crawl.run("due", "--source", "docs")  # once
    assert crawl.rows("SELECT reextracted FROM run ORDER BY no") == [(0,), (pages,), (0,)]


@pytest.mark.covers("M-15", "R0-56")
def test_a_crawl_asks_with_validators_and_reads_the_snapshot_behind_a_304(shop: Site, crawl: Crawl):
    shop.pages["/a"] = page("A", "/new", text="the text of a has grown")
    shop.pages["/new"] = page("New", text="something new")
    declare(crawl, shop, DROP)

    crawl(source="docs")

    assert asked(shop) == {"/": True, "/a": True, "/tag/b": True, "/c": True, "/new": False}
    assert crawl.hits(f'"{BANNER}"') == []
    assert crawl.outcomes() == {
        "/": "unchanged", "/a": "modified", "/tag/b": "unchanged", "/c": "unchanged", "/new": "new",
    }  # fmt: skip
    assert crawl.hits('"something new"') == ["/new"]
    assert crawl.rows("SELECT reextracted FROM run ORDER BY no") == [(0,), (3,)]
    shop.clear()
    crawl(source="docs")
    assert set(asked(shop).values()) == {True}
    assert crawl.rows("SELECT reextracted FROM run WHERE no = 3") == [(0,)]


@pytest.mark.covers("M-15", "M-48")
def test_without_snapshots_pages_are_fetched_whole_some_in_each_run(site: Site, crawl: Crawl):
    crawl.environment["SNAPSHOT_STORE"] = "off"
    site.pages["/"] = page("Home", *(f"/p{n}" for n in range(9)))
    for n in range(9):
        site.pages[f"/p{n}"] = page(f"Page {n}", text=f"text {n}")
    declare(crawl, site)
    crawl(source="docs")
    declare(crawl, site, DROP)
    left = [10]
    for _ in range(3):
        site.clear()
        crawl(source="docs", settings={"RE_EXTRACT_PER_RUN": 4})
        assert len(asked(site)) == 10
        left.append(len(crawl.hits(f'"{BANNER}"')))

    assert left == [10, 6, 2, 0]
    assert not (crawl.data_dir / "snapshots").exists()


@pytest.mark.covers("M-15", "R4-20", "R4-23")
def test_a_rule_takes_pages_out_of_the_index_and_back(shop: Site, crawl: Crawl):
    rule = "index_modes = [{ pattern = '/tag/', mode = 'links_only' }]"
    declare(crawl, shop, rule)
    result = crawl.run("due", "--source", "docs")
    assert asked(shop) == {"/tag/b": True}
    assert "1 removed" in result.out
    assert crawl.hits('"text of b"') == []
    assert crawl.hits('"text of c"') == ["/c"]
    record = crawl.pages()["/tag/b"]
    assert record["status"] == "Crawled"
    why = crawl.run("why", shop.url("/tag/b")).out
    assert "links_only, by index_modes" in why

    for _ in range(4):
        crawl(source="docs")
    assert crawl.hits('"text of c"') == ["/c"]
    declare(crawl, shop)
    crawl.run("due", "--source", "docs")
    assert crawl.hits('"text of b"') == ["/tag/b"]


@pytest.mark.covers("R4-20", "M-15")
def test_the_mode_none_follows_no_links_either(site: Site, crawl: Crawl):
    site.pages["/"] = page("Home", "/tag/b")
    site.pages["/tag/b"] = page("B", "/c", text="the text of b")
    site.pages["/c"] = page("C", text="the text of c")
    declare(crawl, site, "index_modes = [{ pattern = '/tag/', mode = 'none' }]")

    crawl(source="docs")

    assert set(crawl.outcomes()) == {"/", "/tag/b"}
    assert crawl.outcomes()["/tag/b"] == "excluded"


def snapshots(crawl: Crawl) -> list[Path]:
    return sorted((crawl.data_dir / "snapshots").rglob("*.gz"))


@pytest.mark.covers("M-48", "R0-75")
def test_a_damaged_or_missing_snapshot_is_an_error_of_its_page_only(shop: Site, crawl: Crawl):
    rows = crawl.rows("SELECT r.url, p.path FROM record r JOIN snapshot p ON p.no = r.snapshot")
    paths = {path_of(url)[1:]: path for url, path in rows}
    store = crawl.data_dir / "snapshots"
    (store / paths["a"]).write_bytes((store / paths["c"]).read_bytes())  # the wrong hash
    (store / paths["c"]).unlink()
    declare(crawl, shop, DROP)

    crawl.run("due", "--source", "docs")
    assert shop.log == []
    assert crawl.hits(f'"{BANNER}"') == ["/a", "/c"]
    assert "is damaged" in crawl.run("why", shop.url("/a")).out
    assert "holds no" in crawl.run("why", shop.url("/c")).out

    crawl.run("due", "--source", "docs")
    assert asked(shop) == {"/a": False, "/c": False}
    assert crawl.hits(f'"{BANNER}"') == []


@pytest.mark.covers("M-48")
def test_a_store_that_cannot_be_written_costs_snapshots_and_nothing_else(
    site: Site, crawl: Crawl, tmp_path: Path
):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    crawl.environment["SNAPSHOT_STORE"] = str(blocked)
    site.pages["/"] = page("Home", text="welcome home")

    crawl(site.url("/"))

    assert crawl.hits('"welcome home"') == ["/"]
    assert "snapshot" in crawl.run("why", site.url("/")).out


@pytest.mark.covers("M-48", "M-15")
@pytest.mark.parametrize("left", ["nothing", "an empty folder", "another store"])
def test_pages_whose_store_is_away_are_fetched_whole(shop: Site, crawl: Crawl, left: str):
    """They would wait for it for ever; what is stored then is found again."""
    store = crawl.data_dir / "snapshots"
    if left == "another store":
        crawl.environment["SNAPSHOT_STORE"] = str(crawl.folder / "other")
    else:
        store.rename(crawl.data_dir / "away")
    if left == "an empty folder":
        store.mkdir()
    declare(crawl, shop, DROP)

    result = crawl.run("due", "--source", "docs")

    assert asked(shop) == dict.fromkeys(asked(shop), False)
    assert len(asked(shop)) == 4
    assert "not extracted again" not in result.out
    assert crawl.hits(f'"{BANNER}"') == []
    assert ("the snapshots are away" in result.err) is (left != "another store")

    shop.clear()
    declare(crawl, shop)
    crawl.run("due", "--source", "docs")
    assert shop.log == [], "the bodies were stored where they are read"
    assert len(crawl.hits(f'"{BANNER}"')) == 4


@pytest.mark.covers("M-48", "M-15")
@pytest.mark.parametrize("way", ["moved", "link", "dots"])
def test_a_folder_that_was_moved_or_is_spelt_otherwise_has_its_snapshots(
    shop: Site, crawl: Crawl, way: str
):
    data = crawl.data_dir
    if way == "moved":
        crawl.data_dir = data.rename(data.with_name("moved"))
    elif way == "link":
        crawl.data_dir = data.with_name("link")
        crawl.data_dir.symlink_to(data)
    else:
        crawl.data_dir = data / ".." / data.name
    crawl.registry = crawl.data_dir / "registry.db"
    declare(crawl, shop, DROP)

    crawl.run("due", "--source", "docs")

    assert shop.log == []
    assert crawl.hits(f'"{BANNER}"') == []


@pytest.mark.covers("M-48")
def test_a_second_spelling_destroys_no_snapshot(site: Site, crawl: Crawl):
    """The file of a body that a clone still has lay at the path of the changed page."""
    same = html("Same", text="the same text of both")
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/a"] = site.pages["/b"] = same
    crawl(site.url("/"))
    link = crawl.data_dir.with_name("link")
    link.symlink_to(crawl.data_dir)
    crawl.data_dir, crawl.registry = link, link / "registry.db"
    site.pages["/a"] = html("Other", text="another text of one")

    crawl(site.url("/"))

    for url, path in crawl.rows("SELECT url, storage_path FROM crawled_documents"):
        stored = gzip.decompress(Path(path.removeprefix("file://")).read_bytes())
        assert stored == site.pages[path_of(url)].encode(), url


@pytest.mark.covers("M-48", "M-15")
def test_pages_that_share_a_snapshot_are_read_as_what_each_of_them_is(site: Site, crawl: Crawl):
    body = "<title>T</title><p>Some <b>bold</b> words</p>"
    site.pages["/"] = html("Home", "/h", "/t")
    site.pages["/h"] = Page(body, content_type="text/html; charset=utf-8")
    site.pages["/t"] = Page(body, content_type="text/plain")
    declare(crawl, site)
    crawl(source="docs")
    titles = (
        "SELECT r.url, r.content_type, c.title FROM record r JOIN content c ON c.no = r.content"
        " ORDER BY r.no"
    )
    before = crawl.rows(titles)
    declare(crawl, site, DROP)

    crawl.run("due", "--source", "docs")

    assert crawl.rows(titles) == before
    assert crawl.rows("SELECT count(*) FROM snapshot") == [(2,)]


@pytest.mark.covers("M-02", "M-15")
def test_a_header_that_says_noindex_is_heard_whatever_the_mode(site: Site, crawl: Crawl):
    """A 304 repeats no such header; the rule that excluded the page may be taken back."""
    site.pages["/"] = html("Home", "/t")
    body = html("T", text="not for the index")
    site.pages["/t"] = Page(body, headers={"X-Robots-Tag": "noindex"})
    declare(crawl, site, "index_modes = [{pattern = '/t', mode = 'links_only'}]")
    crawl(source="docs")
    declare(crawl, site)
    site.clear()

    crawl(source="docs")

    assert asked(site) == {"/": True, "/t": False}
    assert crawl.hits('"not for the index"') == []
