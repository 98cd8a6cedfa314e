"""Files with the bytes of a stored one: moved or copied, and nothing is extracted again."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from smartcrawl.index.embedded.choice import search_embedded_index
from smartcrawl.index.searching import MOST_PROPOSED
from smartcrawl.registry.database.sqlite import connect_sqlite
from tests.crawls.commands import Crawl, Record
from tests.crawls.files import FilesStory, Folder
from tests.crawls.test_crawl_formats import docx

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.embedded]


class Counted(FilesStory):
    """A story that counts what is extracted."""

    def __init__(self, folder: Folder, crawl: Crawl) -> None:
        super().__init__(folder, crawl)
        self._log = crawl.folder / "extracted"
        crawl.environment["ARRANGED_BY"] = "tests.crawls.extractions"
        crawl.environment["EXTRACTED"] = str(self._log)

    def extracted(self) -> list[str]:
        """The names of the files whose text was extracted since the last question, sorted."""
        if not self._log.exists():
            return []
        start = self.place.url("")
        lines = self._log.read_text("utf-8").splitlines()
        self._log.unlink()
        return sorted(line.removeprefix(start) for line in lines)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "tree")


@pytest.fixture
def story(folder: Folder, crawl: Crawl) -> Counted:
    return Counted(folder, crawl)


def name(n: int) -> str:
    """The name of one of many files: of five types, in three folders."""
    ending = "docx" if n % 50 == 3 else ("md", "html", "txt", "json")[n % 4]
    return f"part{n % 3}/{n}.{ending}"


def body(n: int) -> str | bytes:
    """Its bytes. All have the word treasure; some have links to the web."""
    text = f"treasure {n}"
    match name(n).rpartition(".")[2]:
        case "md":
            return f"# Number {n}\n\n{text} [there](https://other.example/)"
        case "html":
            link = f'<a href="https://other.example/{n}">there</a>'
            return f"<title>Page {n}</title><p>{text} {link} <img src=near.png alt=Near>"
        case "docx":
            return docx(text)
        case "json":
            return json.dumps({"found": text})
        case _:
            return f"Number {n}\n\n{text}"


@contextmanager
def watched(story: Counted, query: str) -> Iterator[list[int]]:
    """Search again and again, from another process's point of view; give the numbers of texts."""
    found: list[int] = []
    over: list[bool] = []

    def watch() -> None:
        with closing(connect_sqlite(story.crawl.registry, readonly=True)) as connection:
            while not over:
                hits = search_embedded_index(connection, query, limit=1_000).hits
                found.append(len({hit.snippet for hit in hits}))
                time.sleep(0.05)

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        try:
            yield found
        finally:
            over.append(True)
            watching.result()


def stored(record: Record) -> dict[str, object]:
    """What a record has of its content."""
    keys = (
        "status", "contentHash", "textHash", "bodyHash", "language", "imageCount", "mimeType",
        "firstSeen",
    )  # fmt: skip
    return {key: record[key] for key in keys}


@pytest.mark.covers("R1-29", "M-07", "R0-46")
@pytest.mark.parametrize("many", [300, pytest.param(10_000, marks=pytest.mark.long)])
def test_no_text_of_a_renamed_folder_is_extracted_and_search_never_lacks_a_page(
    story: Counted, folder: Folder, many: int
):
    for n in range(many):
        folder.write(f"old/{name(n)}", body(n))
    story.run()
    assert len(story.extracted()) == many
    before = story.files
    links = "SELECT count, raw FROM links ORDER BY no"
    chunks = "SELECT title, headings, text FROM chunk ORDER BY title, text"
    was = (story.crawl.rows(links), story.crawl.rows(chunks))

    shown = min(many, MOST_PROPOSED)  # a search has no more pages
    folder.rename("old", "new")
    with watched(story, "treasure") as found:
        result = story.run(settings={"LOG_LEVEL": "INFO", "STATS_DUMP": 1})

    assert story.extracted() == []
    assert f"'document/taken_over': {many}," in result.err
    assert len(found) > 3
    assert set(found) == {shown}
    assert story.counts() == {"moved": many, "redirected": many, "requests": many}
    hits = story.hits("treasure")
    assert len(hits) == shown
    assert set(hits) <= {f"new/{name(n)}" for n in range(many)}
    after = story.files
    assert all(
        stored(after[f"new/{name(n)}"]) == stored(before[f"old/{name(n)}"]) for n in range(many)
    )
    assert all(
        after[f"new/{name(n)}"]["movedFrom"] == folder.url(f"old/{name(n)}") for n in range(many)
    )
    assert (story.crawl.rows(links), story.crawl.rows(chunks)) == was
    assert "https://other.example/1" in story.why("new/part1/1.html")

    story.crawl.run("undo", "2")

    restored = story.files
    assert {file: stored(restored[file]) for file in before} == {
        file: stored(record) for file, record in before.items()
    }
    assert not any(record["movedFrom"] for record in restored.values())
    assert {restored[f"new/{name(n)}"]["lastOutcome"] for n in range(many)} <= {"new", "clone"}
    story.run()
    assert story.counts()["unchanged"] == many
    assert story.extracted() == []


@pytest.mark.covers("R0-46", "R0-60")
def test_equal_bytes_of_another_type_are_extracted_by_its_reader(story: Counted, folder: Folder):
    text = "# Whale\n\nThe *whale* sings. <p>The heron &amp; the otter.</p>"
    folder.write("a.txt", text)
    story.run()
    story.extracted()

    for other in ("b.md", "c.html", "d.txt", "e"):
        folder.write(other, text)
    story.run()

    assert story.extracted() == ["b.md", "c.html"]  # bytes without a suffix are plain text, too
    titles = {
        hit["url"].rpartition("/")[2]: hit["title"] for hit in story.crawl.search("whale sings")
    }
    assert titles["b.md"] == "Whale"
    assert titles["a.txt"] == "# Whale"
    assert story["d.txt"]["contentHash"] == story["a.txt"]["contentHash"]
    hashes = {story[file]["textHash"] for file in ("a.txt", "b.md", "c.html")}
    assert len(hashes) == 3
    assert story["c.html"]["mimeType"] == "text/html"

    folder.rename("b.md", "other/b.markdown")
    folder.rename("c.html", "other/c.htm")
    story.run()

    assert story.extracted() == []
    assert story.counts()["moved"] == 2


@pytest.mark.covers("M-15")
@pytest.mark.parametrize(("what", "shown"), [("selectors", 0), ("version", 10), ("force", 10)])
def test_what_was_extracted_otherwise_is_extracted_again(
    story: Counted, folder: Folder, what: str, shown: int
):
    page = "<title>Page {0}</title><main><p>whale {0}</p><p class=banner>treasure {0}</p></main>"
    for n in range(10):
        folder.write(f"old/{n}.html", page.format(n))
    story.source = "docs"
    declared = f'[sources.docs]\nkind = "files"\nroot = "{folder.root}"\n'
    story.crawl.declare(declared)
    story.run()
    assert len(story.extracted()) == 10
    folder.rename("old", "new")
    match what:
        case "selectors":
            story.crawl.declare(declared + "drop_selectors = ['.banner']")
        case "version":  # another one stored them: its fingerprints are others
            story.crawl.rows("UPDATE fingerprint SET hash = randomblob(16)")

    story.run(**({"force": 1} if what == "force" else {}))

    assert len(story.extracted()) == 10
    assert len(story.hits("treasure")) == shown
    assert story.counts()["moved"] == 10


@pytest.mark.covers("R0-17", "R0-46")
def test_relative_links_lead_from_the_new_place(story: Counted, folder: Folder):
    for file in ("a", "b", "c"):
        folder.write(f"old/{file}.md", f"# {file}\n\nthe whale of {file}, [near](near.md)")
    folder.write("old/d.html", '<title>D</title><a href="/top.html">top</a> the heron')
    story.run()
    story.extracted()
    folder.rename("old/a.md", "old/aa.md")
    folder.rename("old/b.md", "old/near.md")
    folder.rename("old/c.md", "new/c.md")
    folder.rename("old/d.html", "old/dd.html")

    story.run()

    assert story.counts() == {"moved": 4, "redirected": 4, "requests": 4}
    assert story.extracted() == ["new/c.md", "old/near.md"]
    for file, link in {
        "old/aa.md": folder.url("old/near.md"),
        "new/c.md": folder.url("new/near.md"),
        "old/dd.html": "file:///top.html",
        "old/near.md": None,  # it leads to itself now
    }.items():
        [record] = json.loads(story.crawl._ask("why", "--format", "json", folder.url(file)))[
            "records"
        ]
        shown = [found["url"] for found in record["linksOut"]["shown"]]
        assert shown == ([] if link is None else [link]), file


@pytest.mark.covers("R0-46")
def test_swapped_and_copied_files_have_their_text(story: Counted, folder: Folder):
    """Contents change their records within one batch, and none of them is missing at its end."""
    for letter in "abc":
        folder.write(f"{letter}.md", f"# {letter}\n\nthe whale of {letter}")
    story.run()
    story.extracted()
    folder.swap("a.md", "b.md")
    folder.write("d.md", "# c\n\nthe whale of c")
    folder.write("c.md", "# heron\n\nthe heron")

    story.run()

    assert story.extracted() == ["c.md"]
    assert story.counts() == {"modified": 3, "new": 1, "requests": 4}
    assert [story.hits(f'"whale of {letter}"') for letter in "abc"] == [
        ["b.md"],
        ["a.md"],
        ["d.md"],
    ]
    assert story.hits("heron") == ["c.md"]


@pytest.mark.covers("R0-46")
def test_equal_bytes_are_found_only_where_they_are_stored(story: Counted, folder: Folder):
    """A page that keeps links only has no text to take over; a removed one has none any more."""
    hidden = "<title>Hidden</title><meta name=robots content=noindex><p>whale"
    folder.write("a.html", hidden)
    folder.write("b.md", "# B\n\nthe otter")
    for n in range(9):
        folder.write(f"{n}.txt", f"badger {n}")
    story.run()
    folder.write("c.html", hidden)
    folder.remove("b.md")
    story.run()
    assert "c.html" in story.extracted()
    folder.write("later/b.md", "# B\n\nthe otter")

    story.run()

    assert story.extracted() == ["later/b.md"]
    assert story.hits("otter") == ["later/b.md"]
    assert story.hits("whale") == []
