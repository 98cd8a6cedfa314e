"""`export`, as a person would type it: what is in the files, and what a kill leaves."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from smartcrawl.terminal.whole_places import MARK
from tests import servers
from tests.crawls.commands import Crawl, Result
from tests.site_server import Page, Site, html

GUIDE = """<html lang="en"><title>Guide</title><meta name="description" content="How to set it up">
<h1>Guide</h1><p>Read <a href="/guide/fuses">fuses</a> and <a href="/Case">Case</a>,
<a href="/case">case</a>, <a href="/old">old</a>.
<pre>run()

```
</pre><table><tr><th>Key<th>Value<tr><td>a|b<td>1</table>
<ul><li>one<li>two</ul></html>"""
_GUIDE_MARKDOWN = (
    "# Guide\n\nRead [fuses]({0}guide/fuses) and [Case]({0}Case), [case]({0}case), [old]({0}old)."
    "\n\n````\nrun()\n\n```\n````\n\n"
    "| Key | Value |\n| --- | --- |\n| a\\|b | 1 |\n\n- one\n- two\n"
)
SOURCE = "[sources.docs]\nkind = 'site'\nseeds = ['{}']\n"


@pytest.fixture
def docs(site: Site, crawl: Crawl) -> Crawl:
    """A source of five pages, one of which is lost."""
    site.pages["/"] = Page(GUIDE.encode())
    site.pages["/guide/fuses"] = html("Fuses", text="a fuse of 2 A")
    site.pages["/Case"] = html("Upper", text="an upper case")
    site.pages["/case"] = html("Lower", text="a lower case")
    site.pages["/old"] = html("Old", text="words of old")
    crawl.declare(SOURCE.format(site.url("/")))
    crawl(source="docs")
    del site.pages["/old"]
    crawl(source="docs", expect=None)
    return crawl


def guide_markdown(site: Site) -> str:
    return _GUIDE_MARKDOWN.format(site.url("/"))


def export(crawl: Crawl, *words: str, expect: int = 0) -> Result:
    return crawl.run("export", "--source", "docs", *words, expect=expect)


def parts(folder: Path) -> list[Path]:
    """Return what an export is writing."""
    return sorted(folder.glob(".out.*part"))


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in folder.iterdir() if path.name != MARK}


def host(site: Site) -> str:
    """The beginning of the names of its files."""
    return site.url("/").removeprefix("http://").rstrip("/").replace(":", "-")


def test_markdown_is_a_file_for_each_living_page(site: Site, docs: Crawl, tmp_path: Path):
    result = export(docs, "--output", str(tmp_path / "out"))

    found = files(tmp_path / "out")
    assert len(found) == len({name.lower() for name in found}) == 4
    assert all(name.startswith(host(site)) and name.endswith(".md") for name in found)
    (guide,) = [text for text in found.values() if 'title: "Guide"' in text]
    assert guide.partition("\n---\n\n")[2] == guide_markdown(site)
    assert f'url: "{site.url("/")}"\n' in guide
    assert result.out == (
        f"4 pages of docs written to {tmp_path / 'out'}; 1 lost page left out; to include "
        "them: --lost\n"
    )
    assert result.err == ""
    export(docs, "--output", str(tmp_path / "out"), "--lost")
    assert len(files(tmp_path / "out")) == 5


def test_pages_whose_plain_names_are_equal_have_files_of_their_own(
    site: Site, crawl: Crawl, tmp_path: Path
):
    site.pages["/"] = html("Home", "/a/b", "/a_b")
    site.pages["/a/b"] = html("One", text="in a folder")
    site.pages["/a_b"] = html("Two", text="in no folder")
    crawl.declare(SOURCE.format(site.url("/")))
    crawl(source="docs")

    export(crawl, "--output", str(tmp_path / "out"))

    names = sorted(files(tmp_path / "out"))
    assert len(names) == 3
    assert sum("in a folder" in text for text in files(tmp_path / "out").values()) == 1
    assert sum("in no folder" in text for text in files(tmp_path / "out").values()) == 1


def test_json_lines_are_pages_or_chunks(site: Site, docs: Crawl, tmp_path: Path):
    place = tmp_path / "out.jsonl"
    result = export(docs, "--format", "jsonl", "--output", str(place), "--lost")
    printed = export(docs, "--format", "jsonl", "--output", "-", "--lost")
    chunks = export(docs, "--format", "jsonl", "--output", "-", "--chunks")
    for kind in ((), ("--chunks",), ("--lost",)):  # each replaces the one before
        export(docs, "--format", "jsonl", "--output", str(tmp_path / "again"), *kind)

    rows = [json.loads(line) for line in place.read_text("utf-8").splitlines()]
    assert printed.out == place.read_text("utf-8") == (tmp_path / "again").read_text("utf-8")
    assert printed.err == "5 pages of docs written\n"
    assert result.out == f"5 pages of docs written to {place}\n"
    assert {row["url"] for row in rows if row["lost"]} == {site.url("/old")}
    by_url = {row["url"]: row for row in rows}
    assert by_url[site.url("/")]["markdown"] == guide_markdown(site)
    assert by_url[site.url("/")]["title"] == "Guide"
    assert [s["heading"] for s in by_url[site.url("/")]["sections"]] == ["Guide"]
    assert by_url[site.url("/")]["id"] == docs.pages()["/"]["id"]
    parts = [json.loads(line) for line in chunks.out.splitlines()]
    (guide,) = [part for part in parts if part["url"] == site.url("/")]
    assert (guide["path"], guide["level"], guide["repeated"]) == ("Guide", 1, 0)
    assert guide["types"] == ["text", "code", "table", "list"]
    assert {part["url"] for part in parts} == {row["url"] for row in rows if not row["lost"]}


def test_llms_txt_lists_the_pages_and_llms_full_txt_has_them(
    site: Site, docs: Crawl, tmp_path: Path
):
    """Source: llmstxt.org."""
    export(docs, "--format", "llms", "--output", str(tmp_path / "out"))

    found = files(tmp_path / "out")
    assert sorted(found) == ["llms-full.txt", "llms.txt"]
    assert found["llms.txt"] == (
        "# Guide\n\n> How to set it up\n\n## Pages\n\n"
        f"- [Guide]({site.url('/')}): How to set it up\n"
        f"- [Upper]({site.url('/Case')})\n"
        f"- [Lower]({site.url('/case')})\n"
        f"\n## guide\n\n- [Fuses]({site.url('/guide/fuses')})\n"
    )
    full = found["llms-full.txt"]
    assert full.startswith(f"Source: {site.url('/')}\n\n{guide_markdown(site)}\n---\n\nSource: ")
    assert full.count("\nSource: ") == 3
    assert "a fuse of 2 A" in full
    assert "words of old" not in full


@pytest.mark.long(but=4)
@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["--source", "dosc", "--output", "{}/out"], 1, "no source is called 'dosc'; known: docs"),
        (["--output", "{}/out"], 2, "give a source, such as: scrapy export --source NAME"),
        (["--source", "docs"], 2, "give a place to write to, such as: scrapy export --source NAME"),
        (["--source", "docs", "--output", "-"], 2, "markdown writes a folder, so give its name"),
        (
            ["--source", "docs", "--output", "{}/out", "--chunks"],
            2,
            "--chunks needs --format jsonl",
        ),
        (["--source", "docs", "--output", "{}/none/out"], 1, "in a folder that exists"),
        (["--source", "docs", "--output", "{}/mine"], 1, "has files, and is no export"),
        (
            ["--source", "docs", "--format", "jsonl", "--output", "{}/mine"],
            1,
            "it is not a file; name a new file",
        ),
        (
            ["--source", "docs", "--format", "jsonl", "--output", "{}/mine/thesis"],
            1,
            "the file is no export; move it, or name a new file",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_remedy(
    docs: Crawl, tmp_path: Path, words: list[str], status: int, message: str
):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("x")

    result = docs.run("export", *(word.format(tmp_path) for word in words), expect=status)

    assert message in " ".join(result.err.split())
    assert files(tmp_path / "mine") == {"thesis": "x"}
    assert not (tmp_path / "out").exists()


def test_export_reads_the_registry_alone(
    site: Site, crawl: Crawl, tmp_path: Path, elasticsearch: servers.Elasticsearch,
    elasticsearch_prefix: str,
):  # fmt: skip
    """Also where the index is an Elasticsearch, and it and the site are away."""
    crawl.environment |= {
        "ELASTICSEARCH_URL": elasticsearch.url,
        "ELASTICSEARCH_INDEX_PREFIX": elasticsearch_prefix,
    }
    site.pages["/"] = Page(GUIDE.encode())
    crawl.declare(SOURCE.format(site.url("/")))
    crawl(source="docs", expect=None)
    asked = len(site.log)
    crawl.environment["ELASTICSEARCH_URL"] = "http://127.0.0.1:9"

    export(crawl, "--format", "llms", "--output", str(tmp_path / "out"))
    chunks = export(crawl, "--format", "jsonl", "--output", "-", "--chunks")

    assert files(tmp_path / "out")["llms-full.txt"].endswith(guide_markdown(site))
    assert json.loads(chunks.out)["types"] == ["text", "code", "table", "list"]
    assert len(site.log) == asked


@pytest.mark.long
def test_a_killed_export_leaves_the_earlier_one_whole(site: Site, crawl: Crawl, tmp_path: Path):
    """Killed at any moment, also between two files, and the next one leaves nothing behind."""
    links = [f"/page/{number}" for number in range(60)]
    site.pages["/"] = html("Home", *links, text="home")
    for link in links:
        site.pages[link] = html(link, text=f"words of {link}")
    crawl.declare(SOURCE.format(site.url("/")))
    crawl(source="docs")
    place = tmp_path / "out"
    export(crawl, "--output", str(place))
    earlier = files(place)
    assert len(earlier) == 61
    words = ["export", "--source", "docs", "--output", str(place)]
    dice = random.Random(25)
    halves = 0
    for _ in range(6):
        process = crawl.start_command(*words).process
        while process.poll() is None and not parts(tmp_path):
            time.sleep(0.001)
        time.sleep(dice.random() * 0.05)
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        halves += len(parts(tmp_path))
        assert files(place) == earlier

    assert halves > 0
    export(crawl, "--output", str(place))
    assert files(place) == earlier
    assert parts(tmp_path) == []
