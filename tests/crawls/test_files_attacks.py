"""Folders that a stranger may write to, and web sites that point at files of this machine."""

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from smartcrawl.sources.listing.entries import quoted_listing_name
from tests.crawls.commands import Crawl, Result, Scrapy
from tests.crawls.files import FilesStory, Folder
from tests.crawls.test_crawl_formats import bomb, docx, pdf
from tests.site_server import Page, Site, html
from tests.sources.listing.trees import chain, listen

pytestmark = [pytest.mark.long(but=2), pytest.mark.alone, pytest.mark.embedded]

SECRET = "albatross"  #: a word of files that are not to be read
STEP = "d" * 30
DEEP = "deep/" + f"{STEP}/" * 200 + "last.md"  #: more than any system call takes
LONG = "/".join(["n" * 249] * 12) + "/long.md"
ODD = ["a\nnewline.md", "an\x1b[31mescape.md", "not\udcffutf8.md", "x" * 252 + ".md"]
PLAIN = ["empty.md", "robots.txt", "sitemap.xml", "private/plain.md", "a/page.html"]


# The web leads to no file of this machine


def test_nothing_of_a_web_site_leads_to_a_file(site: Site, crawl: Crawl, tmp_path: Path):
    secret = tmp_path.with_name(f"{tmp_path.name}-secret.html")
    secret.write_text(f"<title>{SECRET}</title><p>{SECRET}")
    url = secret.as_uri()
    places = [url, "file:///etc/passwd", "s3://bucket/key.html"]
    site.pages["/robots.txt"] = Page(
        f"Sitemap: {site.url('/map')}\nSitemap: {url}\n", content_type="text/plain"
    )
    items = "".join(f"<url><loc>{place}</loc></url>" for place in places)
    site.pages["/map"] = Page(
        f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{items}</urlset>',
        content_type="application/xml",
    )
    site.pages["/"] = html(
        "Home", *places, "/canonical", "/base", "/refresh", "/moved/0", "/moved/1"
    )
    head = f'<link rel="canonical" href="{url}"><link rel="alternate" hreflang="de" href="{url}">'
    site.pages["/canonical"] = html("Canonical", head=head, text="whale")
    site.pages["/base"] = html("Base", secret.name, head=f'<base href="{secret.parent.as_uri()}/">')
    site.pages["/refresh"] = html(
        "Refresh", head=f'<meta http-equiv="refresh" content="0; url={url}">'
    )
    for n, place in enumerate(places[:2]):
        site.pages[f"/moved/{n}"] = Page(redirect=place, status=302)

    crawl(site.url("/"), expect=None, settings={"RETRY_TIMES": 0})

    assert {record["url"].partition(":")[0] for record in crawl.records()} == {"http"}
    assert crawl.hits("whale") == ["/canonical"]
    assert [name for name, data in crawl.written() if f"<p>{SECRET}".encode() in data] == []
    assert not any(SECRET in text or "root:" in text for text in crawl.texts())


@pytest.mark.parametrize("argument", ["url", "sitemap"])
@pytest.mark.parametrize("address", ["file:///etc/passwd", "s3://bucket/key"])
def test_no_start_of_the_spider_site_is_a_file(crawl: Crawl, argument: str, address: str):
    result = crawl(expect=1, **{argument: address})

    assert address in result.err
    assert not crawl.registry.exists()


# One crawl of a folder with everything that may be in one


@dataclass(frozen=True)
class Hostile:
    """A folder after its first crawl."""

    story: FilesStory
    result: Result
    read: list[str]


def build(folder: Folder, outside: Path) -> None:
    outside.mkdir()
    (outside / "secret.md").write_text(SECRET)
    for name in (*PLAIN, *ODD, LONG):
        folder.write(name, f"# Plain\n\nwhale in {quoted_listing_name(name)}")
    folder.write("empty.md", b"")
    folder.write("robots.txt", "User-agent: *\nDisallow: /")
    folder.write("sitemap.xml", "<urlset><url><loc>file:///etc/passwd</loc></url></urlset>")
    folder.write("bomb.docx", bomb())
    folder.write("large.md", "whale " * 400_000)
    folder.write("REPORT", pdf("osprey"))
    folder.write("letter.docx", docx("osprey"))
    folder.write(
        "a/page.html",
        "<title>Heron</title><p>heron <a href='../private/plain.md'>in</a> <a"
        f" href='https://other.example/page'>out</a> <a href='{outside.as_uri()}/secret.md'>up</a>",
    )
    folder.write("a/noindex.html", "<title>No</title><meta name=robots content=noindex><p>porpoise")
    for n in range(15):
        folder.write(f"many/{n}.md", f"# Many {n}\n\nsame but {n}")
    (folder.path / "deep").mkdir()
    chain(folder.path / "deep", 200, STEP)
    for name, target in (
        ("link.md", outside / "secret.md"), ("links", outside), ("passwd.txt", "/etc/passwd"),
        ("up", ".."), ("circle", "."), ("broken.md", "nowhere.md"),
    ):  # fmt: skip
        (folder.path / name).symlink_to(target)
    os.mkfifo(folder.path / "fifo.md")


@pytest.fixture(scope="module")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a socket in it."""
    path = tmp_path_factory.mktemp("hostile") / "tree"
    path.mkdir()
    found: socket.socket = listen(path / "socket.md")
    yield path
    found.close()


@pytest.fixture(scope="module")
def hostile(listener: Path, ask: Scrapy) -> Hostile:
    """All settings that mean something to web sites, and nothing here, are at their narrowest."""
    folder = Folder(listener)
    build(folder, listener.parent / "outside")
    crawl = Crawl(listener.parent, ask)
    crawl.environment |= {
        "AUTOTHROTTLE_ENABLED": "1", "DOWNLOAD_DELAY": "30", "HOST_URL_BUDGET": "1",
        "CONCURRENT_REQUESTS_PER_DOMAIN": "1", "REVALIDATION_LANE": "auto",
        "SOFT_404_DETECTION": "1", "ROBOTSTXT_OBEY": "1", "DOWNLOAD_MAXSIZE": "2000",
        "MAX_FILE_SIZE": "2000000", "REDIS_URL": "redis://127.0.0.1:1/0",
    }  # fmt: skip
    story = FilesStory(folder, crawl, LOG_LEVEL="INFO")
    with story.reads() as read:
        result = story.run()
    return Hostile(story, result, read)


@pytest.mark.covers("R1-28", "R1-29", "R1-49")
def test_only_files_below_the_root_are_read_and_each_of_them_once(hostile: Hostile):
    """ATT-43, ATT-44."""
    many = [f"many/{n}.md" for n in range(15)]
    expected = [
        *PLAIN, *ODD, LONG, DEEP, "bomb.docx", "large.md", "a/noindex.html", *many,
        "REPORT", "letter.docx",
    ]  # fmt: skip
    assert hostile.read == sorted({*expected} - {"large.md"})  # its entry decides
    assert set(hostile.story.files) == {
        "/".join(map(quoted_listing_name, name.split("/"))) for name in expected
    }
    assert not any(SECRET in text or "root:" in text for text in hostile.story.crawl.texts())
    assert hostile.story.counts()["requests"] == len(expected)


@pytest.mark.covers("R1-29")
def test_names_are_bytes_and_no_terminal_obeys_them(hostile: Hostile):
    names = [quoted_listing_name(name) for name in ODD]
    assert {"not%FFutf8.md", "a%0Anewline.md"} < set(names)
    assert {hostile.story[name]["lastOutcome"] for name in names} == {"new"}
    assert set(names) <= set(hostile.story.hits("whale"))
    assert "\x1b" not in hostile.result.out + hostile.result.err


def test_depth_and_length_are_no_traps(hostile: Hostile):
    assert hostile.story[DEEP]["lastOutcome"] == "new"
    assert (len(LONG) > 3_000, len(DEEP) > 4_096) == (True, True)
    assert "run 1: discovered" in hostile.story.why(DEEP)
    assert LONG in hostile.story.hits("whale")
    assert hostile.story.reasons == []


@pytest.mark.covers("R4-41")
def test_files_that_cannot_be_read_leave_the_run_complete(hostile: Hostile):
    bomb, large = hostile.story["bomb.docx"], hostile.story["large.md"]
    assert bomb["lastOutcome"] == "failed"
    assert "limits are 268,435,456 bytes of one document" in bomb["errorMessage"]
    assert (large["lastOutcome"], large["effectiveStatus"]) == ("excluded", 406)
    assert "its 2,400,000 bytes exceed max_file_size of its" in large["errorMessage"]
    assert large["errorMessage"].endswith("MAX_FILE_SIZE")
    assert hostile.story.crawl.runs()[0]["bytesDownloaded"] < 2_400_000


@pytest.mark.covers("R1-49")
def test_robots_and_sitemaps_in_a_folder_are_files(hostile: Hostile):
    assert hostile.story.hits("disallow") == ["robots.txt"]
    assert hostile.story["sitemap.xml"]["lastOutcome"] == "new"
    assert hostile.story["private/plain.md"]["lastOutcome"] == "new"


@pytest.mark.covers("R1-49")
def test_a_page_in_a_folder_has_its_title_and_its_robots_meta(hostile: Hostile):
    [hit] = hostile.story.crawl.search("heron")
    assert hit["title"] == "Heron"
    assert hostile.story["a/noindex.html"]["lastOutcome"] == "excluded"
    assert hostile.story.hits("porpoise") == []


@pytest.mark.covers("R1-49")
def test_documents_are_known_by_their_bytes_where_a_name_says_nothing(hostile: Hostile):
    assert hostile.story.hits("osprey") == ["REPORT", "letter.docx"]


def test_links_are_stored_and_shown_and_not_followed(hostile: Hostile):
    story = hostile.story.why("a/page.html")

    assert "https://other.example/page (out of scope)" in story
    assert not any("other.example" in record["url"] for record in hostile.story.crawl.records())


def test_one_process_lists_whatever_redis_url_says(hostile: Hostile):
    assert "only this process lists it; REDIS_URL is not used" in hostile.result.err

    refused = hostile.story.crawl(
        spider="files", root=hostile.story.place.root, job="nightly", expect=1
    )

    assert "-a job=nightly: runs of tree-" in refused.err
    assert "leave the argument out" in refused.err
    assert len(hostile.story.crawl.runs()) == 1


# What changes between the listing and the reading


#: By folder, what happens to it or to the file a.md in it, and what that run makes of the file.
REPLACED = {
    "folder-by-link": ("mv {0} aside && ln -s ../outside {0}", "lost"),
    "by-link": ("rm {0}/a.md && ln -s ../../outside/a.md {0}/a.md", "lost"),
    "by-fifo": ("rm {0}/a.md && mkfifo {0}/a.md", "lost"),
    "by-folder": ("rm {0}/a.md && mkdir {0}/a.md", "lost"),
    "removed": ("rm -r {0}", "lost"),
    "refused": ("chmod 0 {0}", "lost"),
    "edited": ("printf '# A\\n\\nheron' > {0}/a.md", "modified"),
    "truncated": (": > {0}/a.md", "modified"),
}


@pytest.mark.covers("R1-28", "R1-47")
def test_what_takes_the_place_of_a_file_leads_nowhere(tmp_path: Path, crawl: Crawl):
    """ATT-44, ATT-45: between the listing and the reading; all other files go on."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.md").write_text(SECRET)
    folder = Folder(tmp_path / "tree")
    story = FilesStory(folder, crawl)
    for name in REPLACED:
        folder.write(f"{name}/a.md", f"# A\n\nwhale of {name}")
        folder.write(f"{name}.md", f"# B\n\nwhale beside {name}")
    story.run()
    for name in REPLACED:
        folder.stamp(f"{name}/a.md")
    programs = {f"{name}/a.md": how.format(name) for name, (how, _) in REPLACED.items()}

    with story.when_read(programs):
        story.run()

    words = story.words()
    assert {name: words[f"{name}/a.md"] for name in REPLACED} == {
        name: word for name, (_, word) in REPLACED.items()
    }
    assert story.counts() == {
        "modified": 2, "lost": 6, "unchanged": 8, "requests": 8, "notModified": 8,
    }  # fmt: skip
    assert not any(SECRET in text for text in crawl.texts())
    assert len(story.hits("whale")) == 14
    assert story.hits("heron") == ["edited/a.md"]
    (folder.path / "refused").chmod(0o755)


@pytest.mark.long
@pytest.mark.covers("R1-28")
def test_emptied_files_are_news_and_no_fault_of_a_server(tmp_path: Path, crawl: Crawl):
    """On the web, so many collapsed pages would be held back."""
    folder = Folder(tmp_path / "tree")
    story = FilesStory(folder, crawl)
    for n in range(8):
        folder.write(
            f"{n}.md", f"# Page {n}\n\n" + f"a long text about whale {n} in the sea. " * 40
        )
    story.run()
    for n in range(4):
        folder.write(f"{n}.md", b"")
    for n in range(4, 7):
        folder.write(f"{n}.md", f"heron {n}")

    story.run()

    assert story.counts() == {"modified": 7, "unchanged": 1, "requests": 7, "notModified": 1}
    assert story.hits("whale") == ["7.md"]
    assert story.hits("heron") == ["4.md", "5.md", "6.md"]

    story.run()

    assert story.counts() == {"unchanged": 8, "notModified": 8}
