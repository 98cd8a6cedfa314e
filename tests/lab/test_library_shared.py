"""Sources that share a site: lists, folders of one library, one library twice (R3-31, R3-09)."""

from __future__ import annotations

import csv
import json
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.crawls.libraries import DOMAIN, LibraryCrawl, libraries
from tests.servers.sharepoint import Site
from tests.servers.sharepoint.pages import Text

pytestmark = pytest.mark.long(but=1)

__all__ = ["libraries"]  # a fixture

OTHER = "DOMAIN02"


def place(
    libraries: LibraryCrawl, site: Site, domain: str, kind: str, source: str, **keys: str
) -> None:
    """Add a source to a domain."""
    folder = libraries.storage / "domains" / domain
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "domain.json"
    facts: dict[str, Any] = {"name": domain, "description": ""}
    facts |= {each: [] for each in ("file_sources", "list_sources", "sitepage_sources")}
    if path.exists():
        facts = json.loads(path.read_text())
    declared = {"source_id": source, "site_url": libraries.server.site_url(site), "filter": ""}
    facts[kind].append(declared | keys)
    path.write_text(json.dumps(facts))


def downloaded(libraries: LibraryCrawl, domain: str, *words: str) -> dict[str, Any]:
    """Download a domain; return its sources by id."""
    found = libraries.library("download", domain, *words)
    return {one["sourceId"]: one for one in found["sources"]}


def counts(found: dict[str, Any]) -> tuple[int, int, int, int, int]:
    """Return what became of the items of a source."""
    keys = ("added", "changed", "removed", "unchanged", "failed")
    return tuple(found[key] for key in keys)  # type: ignore[return-value]


def files(libraries: LibraryCrawl, domain: str, source: str, top: str = "02_embedded") -> set[str]:
    """Return the paths of a source's files."""
    (folder,) = (libraries.storage / "crawler" / domain).glob(f"*/{source}")
    return {str(p.relative_to(folder / top)) for p in (folder / top).rglob("*") if p.is_file()}


def table(libraries: LibraryCrawl, domain: str, source: str) -> dict[str, dict[str, str]]:
    """Return files_map.csv of a source by server relative URL."""
    (path,) = (libraries.storage / "crawler" / domain).glob(f"*/{source}/files_map.csv")
    with path.open(encoding="utf-8", newline="") as file:
        return {row["server_relative_url"]: row for row in csv.DictReader(file)}


def hits(libraries: LibraryCrawl, word: str) -> list[tuple[str, list[str]]]:
    """Return path and sources of each hit."""
    found = libraries.crawl.search(word, "--limit", "100")
    return sorted((unquote(urlsplit(one["url"]).path), sorted(one["sources"])) for one in found)


BOTH = pytest.mark.parametrize("second", [DOMAIN, OTHER])


@pytest.mark.covers("R3-31")
@BOTH
def test_two_lists_of_a_site(libraries: LibraryCrawl, second: str) -> None:
    """Their items have the same IDs, the form of one list never shows those of the other."""
    site = libraries.server.tenant.site("/sites/demo")
    one, two = site.list("Open tasks", "Tasks"), site.list("Done tasks", "Done")
    for number in range(3):
        one.add(Title=f"whale {number}")
        two.add(Title=f"shark {number}")
    place(libraries, site, DOMAIN, "list_sources", "one", list_name="Open tasks")
    place(libraries, site, second, "list_sources", "two", list_name="Done tasks")
    domains = sorted({DOMAIN, second})

    for _ in range(2):
        for domain in domains:
            downloaded(libraries, domain)
            libraries.library("process", domain)
        assert files(libraries, DOMAIN, "one") == files(libraries, second, "two")
        assert files(libraries, DOMAIN, "one") == {"1.md", "2.md", "3.md"}
        whales = hits(libraries, "whale")
        assert [sources for _, sources in whales] == [[f"{DOMAIN}.one"]] * 3
        assert [sources for _, sources in hits(libraries, "shark")] == [[f"{second}.two"]] * 3
    one.delete_entry(list(one.entries.values())[1])
    found = {}
    for domain in domains:
        found |= downloaded(libraries, domain)
    assert (counts(found["one"]), counts(found["two"])) == ((0, 0, 1, 2, 0), (0, 0, 0, 3, 0))
    assert files(libraries, second, "two") == {"1.md", "2.md", "3.md"}
    assert (len(hits(libraries, "whale")), len(hits(libraries, "shark"))) == (2, 3)
    assert len(table(libraries, second, "two")) == 3


@pytest.mark.covers("R3-09", "R3-31")
@BOTH
def test_a_library_that_is_declared_twice(libraries: LibraryCrawl, second: str) -> None:
    """Each source has its own files, rows and records; a search shows each file once."""
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    for name in ("a.txt", "b.txt", "c.txt"):
        library.add(name, f"whale {name}".encode())
    place(libraries, site, DOMAIN, "file_sources", "one", sharepoint_url_part="/Shared Documents")
    place(libraries, site, second, "file_sources", "two", sharepoint_url_part="/Shared Documents")
    domains, root = sorted({DOMAIN, second}), "/sites/demo/Shared Documents"
    both = sorted([f"{DOMAIN}.one", f"{second}.two"])

    def all_downloaded() -> list[tuple[int, int, int, int, int]]:
        found: dict[str, Any] = {}
        for domain in domains:
            found |= downloaded(libraries, domain)
        return [counts(found["one"]), counts(found["two"])]

    def same_everywhere(*names: str) -> None:
        for domain, source in ((DOMAIN, "one"), (second, "two")):
            assert files(libraries, domain, source) == set(names)
            rows = table(libraries, domain, source)
            assert rows.keys() == {f"{root}/{name}" for name in names}
            for row in rows.values():
                assert row["file_relative_path"].startswith(f"{domain}\\01_files\\{source}\\")
                assert row["sharepoint_error"] == ""
        assert hits(libraries, "whale") == sorted((f"{root}/{name}", both) for name in names)

    assert all_downloaded() == [(3, 0, 0, 0, 0)] * 2
    same_everywhere("a.txt", "b.txt", "c.txt")
    library.rename("a.txt", "d.txt")
    library.delete("b.txt")
    assert all_downloaded() == [(0, 1, 1, 1, 0)] * 2
    same_everywhere("c.txt", "d.txt")
    libraries.server.log.clear()
    assert all_downloaded() == [(0, 0, 0, 2, 0)] * 2
    assert libraries.downloads() == 0
    # One of them at work leaves the other as it is.
    library.rename("c.txt", "e.txt")
    downloaded(libraries, DOMAIN, "--source", "one")
    assert files(libraries, second, "two") == {"c.txt", "d.txt"}
    assert files(libraries, DOMAIN, "one") == {"d.txt", "e.txt"}
    item = table(libraries, second, "two")[f"{root}/c.txt"]["sharepoint_unique_file_id"]
    why = libraries.crawl.run("why", item, "--format", "json").out
    assert f"{DOMAIN}.one" in why
    assert f"{second}.two" in why


@pytest.mark.covers("R3-09", "R3-31")
@BOTH
def test_two_parts_of_a_library(libraries: LibraryCrawl, second: str) -> None:
    """A file that leaves the filter of one source for that of the other leaves and arrives."""
    site = libraries.server.tenant.site("/sites/demo")
    library = site.library("Documents", "Shared Documents")
    library.column("Team", "Choice", choices=("Sales", "Legal"), indexed=True)
    for number in range(3):
        library.add(f"sales/{number}.txt", f"whale {number}".encode(), Team="Sales")
        library.add(f"legal/{number}.txt", f"shark {number}".encode(), Team="Legal")
    column = (
        "fields/Team" if libraries.crawl.environment.get("SHAREPOINT_API") == "graph" else "Team"
    )
    for domain, source, team in ((DOMAIN, "sales", "Sales"), (second, "legal", "Legal")):
        place(
            libraries, site, domain, "file_sources", source,
            sharepoint_url_part="/Shared Documents", filter=f"{column} eq '{team}'",
        )  # fmt: skip

    def all_downloaded() -> dict[str, tuple[int, int, int, int, int]]:
        found: dict[str, Any] = {}
        for domain in sorted({DOMAIN, second}):
            found |= downloaded(libraries, domain)
        return {name: counts(one) for name, one in found.items()}

    assert all_downloaded() == {"sales": (3, 0, 0, 0, 0), "legal": (3, 0, 0, 0, 0)}
    entry = library.find("sales/1.txt")
    entry.values["Team"] = "Legal"
    library.relocate("sales/1.txt", "legal/9.txt")

    assert all_downloaded() == {"sales": (0, 0, 1, 2, 0), "legal": (1, 0, 0, 3, 0)}
    assert files(libraries, DOMAIN, "sales") == {"sales/0.txt", "sales/2.txt"}
    assert files(libraries, second, "legal") == {f"legal/{n}.txt" for n in (0, 1, 2, 9)}
    moved = [("/sites/demo/Shared Documents/legal/9.txt", [f"{second}.legal"])]
    assert hits(libraries, "whale")[:1] == moved
    assert len(hits(libraries, "whale")) == 3
    assert all_downloaded() == {"sales": (0, 0, 0, 2, 0), "legal": (0, 0, 0, 4, 0)}


@pytest.mark.covers("R3-31")
def test_pages_and_library_of_one_domain(libraries: LibraryCrawl) -> None:
    """All kinds of one site in one domain, with items of the same IDs."""
    site = libraries.server.tenant.site("/sites/demo")
    site.library("Documents", "Shared Documents").add("P0.txt", b"whale")
    site.list("Open tasks", "Tasks").add(Title="whale")
    site.pages().page("P0.aspx", "whale", [[Text("<p>whale</p>")]])
    place(libraries, site, DOMAIN, "file_sources", "one", sharepoint_url_part="/Shared Documents")
    place(libraries, site, DOMAIN, "list_sources", "two", list_name="Open tasks")
    place(libraries, site, DOMAIN, "sitepage_sources", "three", sharepoint_url_part="/SitePages")
    for expected in ((1, 0, 0, 0, 0), (0, 0, 0, 1, 0)):
        found = downloaded(libraries, DOMAIN)
        assert {name: counts(one) for name, one in found.items()} == dict.fromkeys(found, expected)
        assert len(found) == 3
        libraries.library("process", DOMAIN)
    sources = [sources for _, sources in hits(libraries, "whale")]
    assert sorted(sources) == [[f"{DOMAIN}.one"], [f"{DOMAIN}.three"], [f"{DOMAIN}.two"]]
