"""The commands over sources of files: each takes them as it takes web sites."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl, Result, path_of
from tests.site_server import Site, html

#: Files are trusted by their times only when these are two seconds old.
OLD = 1_600_000_000


def write(file: Path, text: str, at: int = OLD) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    os.utime(file, (at, at))
    return file


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A folder of three files that was crawled once, without a declaration."""
    folder = tmp_path / "docs"
    write(folder / "a.md", "# Apples\n\nApples grow on trees.\n")
    write(folder / "b.md", "# Bread\n\nBread is baked.\n")
    write(folder / "sub" / "c.md", "# Cheese\n\nCheese ripens.\n")
    return folder


def refresh(crawl: Crawl, root: Path, **arguments: object) -> Result:
    return crawl(spider="files", root=root, **arguments)  # type: ignore[arg-type]  # by name


def smartcrawl(crawl: Crawl, *words: str, expect: int | None = 0) -> Result:
    """The command of people, over the same registry."""
    crawl._told.clear()
    return crawl.python("-m", "smartcrawl", *words, expect=expect)


def name_of(crawl: Crawl) -> str:
    (name,) = {run["source"] for run in crawl.runs()}
    return str(name)


def answer(crawl: Crawl, *args: object) -> Any:
    """What a command prints as JSON."""
    return json.loads(crawl.run(*map(str, args), "--format", "json").out)


@pytest.mark.covers("R1-29", "U-16")
def test_an_ad_hoc_root_is_remembered_for_the_next_runs(docs: Path, crawl: Crawl):
    refresh(crawl, docs)
    name = name_of(crawl)
    write(docs / "a.md", "# Apples\n\nApples are red.\n", OLD + 9)
    (docs / "b.md").unlink()

    due = crawl.run("due")

    run = crawl.runs()[0]
    assert (run["source"], run["complete"], run["modified"], run["removed"]) == (name, True, 1, 1)
    assert "Traceback" not in due.err
    assert [path_of(hit["url"]) for hit in crawl.search("red")] == [str(docs / "a.md")]
    assert crawl.rows("SELECT root FROM source") == [(f"file://{docs}",)]


@pytest.mark.covers("R1-29")
def test_the_root_of_a_declared_source_is_that_of_the_file(docs: Path, crawl: Crawl):
    crawl.declare(f'[sources.docs]\nkind = "files"\nroot = "{docs}"\n')

    crawl(spider="files")

    assert crawl.rows("SELECT name, kind, root FROM source") == [("docs", "files", None)]


@pytest.fixture
def both(docs: Path, site: Site, crawl: Crawl) -> Path:
    """A declared web site beside two declared folders."""
    site.pages["/"] = html("Home", text="a page of the web")
    write(docs.parent / "more" / "d.md", "# Dates\n\nDates are sweet.\n")
    crawl.declare(
        f'[sources.web]\nseeds = ["{site.url("/")}"]\n'
        f'[sources.docs]\nkind = "files"\nroot = "{docs}"\n'
        f'[sources.more]\nkind = "files"\nroot = "more"\n'
    )
    return docs


def crawled(crawl: Crawl) -> list[str]:
    """The sources that were crawled, in order."""
    return [run["source"] for run in reversed(crawl.runs())]


def test_a_spider_alone_crawls_the_declared_sources_of_its_kind(both: Path, crawl: Crawl):
    crawl(spider="files")
    assert crawled(crawl) == ["docs", "more"]

    crawl()
    assert crawled(crawl) == ["docs", "more", "web"]


def test_both_spiders_crawl_all_declared_sources(both: Path, crawl: Crawl):
    crawl.run("crawl", "site", "files")

    assert crawled(crawl) == ["web", "docs", "more"]


def test_smartcrawl_alone_crawls_all_declared_sources(both: Path, crawl: Crawl):
    smartcrawl(crawl, "crawl")

    assert crawled(crawl) == ["web", "docs", "more"]


@pytest.mark.parametrize("words", [["--source", "docs"], ["docs"]], ids=" ".join)
def test_smartcrawl_takes_the_spider_of_a_declared_source(
    both: Path, crawl: Crawl, words: list[str]
):
    smartcrawl(crawl, "crawl", *words)

    assert crawled(crawl) == ["docs"]


def test_smartcrawl_crawls_a_path_and_a_url_of_a_folder_as_one_source(docs: Path, crawl: Crawl):
    smartcrawl(crawl, "crawl", str(docs))
    smartcrawl(crawl, "crawl", f"file://{docs}")

    first, second = crawl.runs()
    assert first["source"] == second["source"]
    assert (first["unchanged"], second["new"]) == (3, 3)


def test_several_spiders_take_no_start(docs: Path, crawl: Crawl):
    result = crawl.run("crawl", "site", "files", "-a", f"root={docs}", expect=1)

    assert "together crawl all declared sources: name one spider" in result.err


def test_due_crawls_each_declared_source_with_its_spider(both: Path, crawl: Crawl):
    crawl.run("due")
    assert crawled(crawl) == ["web", "docs", "more"]

    crawl.run("due", "--source", "more")
    assert crawled(crawl)[3:] == ["more"]
    assert crawl.runs()[0]["unchanged"] == 1
