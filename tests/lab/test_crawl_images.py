"""Images are found with their page, shown below it, and gone with it."""

import pytest

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.model.documents import Chunk, ChunkSize, Document
from tests.crawls.commands import Crawl, Record
from tests.site_server import Page, Site, html

LONG = "a sentence about whales that is repeated until it is long enough to count. " * 5
HEAD = '<meta property="og:image" content="/share.png">'


def page(*images: str, title: str = "Whales", head: str = "") -> str:
    return html(title, text=LONG, head=head).replace("<ul>", "".join(images) + "<ul>")


def figure(src: str, alt: str = "", caption: str = "") -> str:
    image = f'<img src="{src}" alt="{alt}" width="640" height="480">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"


def chunks_without_pictures(document: Document, size: ChunkSize) -> list[Chunk]:
    return [chunk._replace(pictures="") for chunk in document_chunks(document, size)]


def hits(crawl: Crawl, query: str = "whales") -> dict[str, list[Record]]:
    """The images of each hit, by its address."""
    return {hit["url"]: hit["images"] for hit in crawl.search(query, "--nest-images")}


@pytest.mark.covers("R0-02", "R0-59", "R0-61", "R0-64", "R0-65", "R0-66", "R0-69", "R0-96")
@pytest.mark.covers("R0-101", "G-02")
def test_search_nests_the_images_of_each_page_below_it(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/sea/whales?b=1&a=2", "/plain")
    site.pages["/sea/whales"] = page(
        figure("blue.jpg", "A blue whale", "Diving"), '<img src="/dot" width="1" height="1">',
        '<img data-src="grey.jpg" src="data:image/gif;base64,R0" title="Grey">', head=HEAD,
    )  # fmt: skip
    site.pages["/plain"] = html("Plain", text="whales without a picture")

    crawl(site.url("/"))

    record = crawl.pages()["/sea/whales?b=1&a=2"]
    url = site.url("/sea/whales?b=1&a=2")
    told = hits(crawl)
    assert told[site.url("/plain")] == []
    assert [
        (image["src"], image["alt"], image["width"], image["height"], image["context"])
        for image in told[url]
    ] == [
        (site.url("/share.png"), "", None, None, ""),
        (site.url("/sea/blue.jpg"), "A blue whale", 640, 480, "Diving"),
        (site.url("/sea/grey.jpg"), "", None, None, "Grey"),
    ]
    for image in told[url]:
        assert image["parentPageId"] == record["id"]
        assert image["parentPageUrl"] == image["source"] == url
    assert len({image["id"] for image in told[url]}) == 3
    assert all("images" not in hit for hit in crawl.search("whales"))
    assert {hit["url"]: (hit["id"], hit["documentId"]) for hit in crawl.search("whales")} == {
        one["url"]: (one["id"], one["lastIndexedDocId"]) for one in crawl.pages().values()
    }
    assert not any(site.count(path) for path in ("/share.png", "/sea/blue.jpg", "/dot"))


def test_a_table_shows_five_images_of_a_page(site: Site, crawl: Crawl):
    site.pages["/"] = page(*(f'<img src="{n}.png" alt="Whale [{n}]\x1b[2J">' for n in range(7)))
    crawl(site.url("/"))

    out = crawl.run("search", "--nest-images", "whales").out
    plain = crawl.run("search", "whales").out

    shown = [line.strip() for line in out.splitlines() if line.startswith("   ")][2:]
    assert [line.split()[0] for line in shown[:5]] == [site.url(f"/{n}.png") for n in range(5)]
    assert all(f"Whale [{n}]" in line for n, line in enumerate(shown[:5]))
    assert shown[5:] == ["and 2 more images"]
    assert "\x1b" not in out
    assert ".png" not in plain


@pytest.mark.covers("R0-61", "R0-64")
def test_images_change_with_their_page_and_are_gone_with_it(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/b", text="about whales")
    site.pages["/a"] = page(figure("old.jpg"), figure("kept.jpg"))
    site.pages["/b"] = page(figure("other.jpg"), title="Other")
    crawl(site.url("/"))
    before = hits(crawl)
    site.pages["/a"] = page(figure("kept.jpg"), figure("new.jpg", "A new whale"))

    crawl(site.url("/"))

    after = hits(crawl)
    kept, new = after[site.url("/a")]
    assert kept == before[site.url("/a")][1]
    assert (new["src"], new["alt"]) == (site.url("/new.jpg"), "A new whale")
    assert after[site.url("/b")] == before[site.url("/b")]
    assert crawl.pages()["/a"]["lastOutcome"] == "modified"
    counts = "SELECT r.url, c.image_count FROM record r JOIN content c ON c.no = r.content"
    assert dict(crawl.rows(counts)) == {
        site.url("/"): 0, site.url("/a"): 2, site.url("/b"): 1
    }  # fmt: skip

    site.pages["/a"] = Page("gone", status=404)
    crawl(site.url("/"), lost_threshold=1)

    assert crawl.pages()["/a"]["status"] == "Gone"
    assert hits(crawl) == {site.url("/"): [], site.url("/b"): before[site.url("/b")]}
    assert dict(crawl.rows(counts)) == {site.url("/"): 0, site.url("/b"): 1}


@pytest.mark.covers("R0-64")
def test_the_images_of_clones_belong_to_the_page_that_is_shown(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/one", "/two/x", text="about whales")
    site.pages["/one"] = site.pages["/two/x"] = page(figure("a.jpg"))
    crawl(site.url("/"))
    assert crawl.pages()["/two/x"]["duplicateOf"] == site.url("/one")
    (one,) = hits(crawl)[site.url("/one")]
    site.pages["/one"] = Page("gone", status=404)

    crawl(site.url("/"), lost_threshold=1)

    told = hits(crawl)
    assert set(told) == {site.url("/"), site.url("/two/x")}
    (two,) = told[site.url("/two/x")]
    assert one["parentPageId"] == crawl.pages()["/one"]["id"]
    assert two["parentPageId"] == crawl.pages()["/two/x"]["id"]
    assert (one["src"], two["src"]) == (site.url("/a.jpg"), site.url("/two/a.jpg"))


@pytest.mark.covers("R0-61")
def test_a_page_is_found_by_what_it_says_of_a_picture(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/hall", text="a hall").replace(
        "<main>", "<nav><img src=logo.png alt='Marimba House'></nav><main>"
    )
    site.pages["/hall"] = page(
        '<p>A room <img src="harp.png" alt="A harp"></p>',
        '<p>Beside it: mallets <img src="x.png" alt="A xylophone" title="Of oak"></p>', title="Hall"
    )  # fmt: skip
    crawl(site.url("/"))

    (hit,) = crawl.search("xylophone", "--images")

    assert hit["url"] == site.url("/hall")
    assert "A <em>xylophone</em>" in hit["snippet"]
    assert {image["src"].rpartition("/")[2]: image["matched"] for image in hit["images"]} == {
        "harp.png": False, "x.png": True
    }  # fmt: skip
    assert crawl.hits("oak") == crawl.hits("mallets") == ["/hall"]
    assert crawl.hits("marimba") == []
    for query in ("oak", "mallet"):
        (hit,) = crawl.search(query, "--images")
        assert [image["matched"] for image in hit["images"]] == [False, True]
    shown = crawl.run("search", "--images", "xylophone").out.split()
    assert shown.index(site.url("/x.png")) < shown.index(site.url("/harp.png"))


@pytest.mark.covers("R0-61")
def test_a_logo_after_the_last_heading_has_no_words_of_it(site: Site, crawl: Crawl):
    heading = "<h2>Marimba\n <em>houses</em><a class=headerlink href='#m'>¶</a></h2><p>Of oak."
    shown = figure("m.jpg", caption="A marimba")
    site.pages["/"] = page(heading, shown, title="Hall").replace(
        "</main>", "</main><aside><p><img src=logo.png alt=Logo></aside>"
    )
    crawl(site.url("/"))

    (hit,) = crawl.search("marimba", "--images")

    assert [(image["alt"], image["context"], image["matched"]) for image in hit["images"]] == [
        ("", "A marimba", True), ("Logo", "Marimba houses", False)
    ]  # fmt: skip


@pytest.mark.covers("R0-61")
def test_pages_read_before_get_the_words_of_their_pictures_out_of_stored_bodies(
    site: Site, crawl: Crawl, monkeypatch: pytest.MonkeyPatch
):
    site.pages["/"] = page('<img src="x.png" alt="A xylophone">')
    with monkeypatch.context() as former:
        former.setattr("smartcrawl.run.site_lists.document_chunks", chunks_without_pictures)
        crawl(site.url("/"))
    before = crawl.pages()["/"]
    assert crawl.hits("xylophone") == []
    site.clear()

    monkeypatch.setattr("smartcrawl.sources.base.EXTRACTION_VERSION", 10_000)
    crawl.run("due")

    assert crawl.hits("xylophone") == ["/"]
    assert [r.path for r in site.log] == []
    after = crawl.pages()["/"]
    assert [after[key] for key in ("lastChanged", "textHash")] == [
        before[key] for key in ("lastChanged", "textHash")
    ]
