"""Whole crawls of document libraries: a domain, its source, and what lies on disk after them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.crawls.commands import Crawl, Result
from tests.servers.sharepoint import SharepointServer, Site

DOMAIN = "DOMAIN01"
SOURCE = "source01"
_FOLDERS = {
    "file_sources": "01_files",
    "list_sources": "02_lists",
    "sitepage_sources": "03_sitepages",
}


def keys_of_source() -> set[str]:
    """The promised keys of a source in JSON, and the log that `download` adds."""
    return {
        "sourceId", "sourceType", "mode", "reason", "complete", "reasons", "listed", "added",
        "changed", "removed", "unchanged", "downloaded", "processed", "failed", "skipped",
        "withheld", "requests", "integrity", "log",
    }  # fmt: skip


class LibraryCrawl:
    """The libraries of one domain, and the commands about them."""

    def __init__(self, crawl: Crawl, server: SharepointServer, api: str = "rest") -> None:
        self.crawl = crawl
        self.server = server
        self.storage = crawl.data_dir / "library"
        self.use(api)
        crawl.environment["DOWNLOAD_DELAY"] = "0"
        self.sources: dict[str, list[dict[str, str]]] = {kind: [] for kind in _FOLDERS}

    def use(self, api: str) -> None:
        """Ask the API `rest` or `graph` from now on."""
        for name in self.server.settings | self.server.graph_settings:
            self.crawl.environment.pop(name, None)
        self.is_graph = is_graph = api == "graph"
        self.crawl.environment |= self.server.graph_settings if is_graph else self.server.settings

    def declare(self, site: Site, kind: str, source_id: str = SOURCE, **keys: str) -> None:
        """Add a source to domain.json."""
        source = {"source_id": source_id, "site_url": self.server.site_url(site), "filter": ""}
        self.sources[kind].append(source | keys)
        folder = self.storage / "domains" / DOMAIN
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"name": "Demo", "description": "", **self.sources})
        (folder / "domain.json").write_text(text, encoding="utf-8")

    def library(self, *words: str, expect: int | None = 0) -> dict[str, Any]:
        """Run `scrapy library … --format json`; return its JSON, the result under ``result``."""
        result = self.crawl.run("library", *words, "--format", "json", expect=expect)
        lines = result.out.splitlines()
        found: dict[str, Any] = json.loads(lines[-1])
        return found | {"result": result}

    def download(self, *words: str, expect: int | None = 0) -> dict[str, Any]:
        """Download; return what the JSON says of the only source."""
        self.server.log.clear()
        found = self.library("download", DOMAIN, *words, expect=expect)
        (source,) = found["sources"]
        result: Result = found["result"]
        return {**source, "log": result.err}

    def process(self, *words: str, expect: int | None = 0) -> dict[str, Any]:
        """Process; return what the JSON says of the only source."""
        (source,) = self.library("process", DOMAIN, *words, expect=expect)["sources"]
        found: dict[str, Any] = source
        return found

    def folder(self, kind: str = "file_sources", source_id: str = SOURCE) -> Path:
        """The folder of a source."""
        return self.storage / "crawler" / DOMAIN / _FOLDERS[kind] / source_id

    def disk(self, kind: str = "file_sources", top: str = "02_embedded") -> dict[str, bytes]:
        """The bytes of each file below a folder of the source, by its path there."""
        folder = self.folder(kind) / top
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if not path.is_dir()
        }

    def rows(self, name: str, kind: str = "file_sources") -> dict[str, dict[str, str]]:
        """The rows of a map by their server relative URL."""
        text = (self.folder(kind) / name).read_bytes().decode()
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        found = {row["server_relative_url"]: row for row in rows}
        assert len(found) == len(rows)
        return found

    def hits(self, words: str) -> list[str]:
        """The decoded paths of the files that a search shows, in no order."""
        return sorted(map(unquote, self.crawl.hits(words)))

    def downloads(self) -> int:
        """The number of files whose bytes were asked for since the last download began."""
        return len(self.server.asked(pattern=r"GetFileById|/content"))

    def facts(self, kind: str = "file_sources") -> dict[str, tuple[bytes, int]]:
        """Bytes and time of each file below the folder of a source, by its path there."""
        folder = self.folder(kind)
        return {
            str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.endswith("_map.csv")
        }

    def check_maps(self) -> None:
        """Compare the maps of a file source with its library and its disk, cell by cell."""
        listed, stored = self.rows("sharepoint_map.csv"), self.rows("files_map.csv")
        shown = {url: row for url, row in listed.items() if row["file_type"] not in ("png", "")}
        same = ("sharepoint_listitem_id", "sharepoint_unique_file_id", "filename", "file_type",
                "file_size", "last_modified_utc", "last_modified_timestamp")  # fmt: skip
        assert {url: [row[key] for key in same] for url, row in shown.items()} == {
            url: [row[key] for key in same] for url, row in stored.items()
        }
        for row in stored.values():
            *_, path = row["file_relative_path"].partition("\\02_embedded\\")
            file = self.folder() / "02_embedded" / path.replace("\\", "/")
            assert file.stat().st_size == int(row["file_size"])
            assert int(file.stat().st_mtime) == int(row["last_modified_timestamp"])
            assert row["downloaded_utc"].endswith("Z")
            assert (row["sharepoint_error"], row["processing_error"]) == ("", "")
        on_disk = {str(path) for path in self.disk()}
        assert on_disk == {
            row["file_relative_path"].partition("\\02_embedded\\")[2].replace("\\", "/")
            for row in stored.values()
        }


@pytest.fixture(params=["rest", "graph"])
def libraries(
    crawl: Crawl, sharepoint: SharepointServer, request: pytest.FixtureRequest
) -> LibraryCrawl:
    """The libraries of an empty tenant, read by each API; modules import it."""
    return LibraryCrawl(crawl, sharepoint, api=request.param)


def removes(path: str) -> Callable[[Path], Any]:
    """Return what removes a file of a source's folder."""
    return lambda folder: (folder / path).unlink()


def writes(path: str, text: str) -> Callable[[Path], Any]:
    """Return what writes a file of a source's folder."""
    return lambda folder: (folder / path).write_text(text, encoding="utf-8")


def check_repair(
    libraries: LibraryCrawl,
    kind: str,
    damage: Callable[[Path], Any],
    counts: dict[str, int],
    *,
    again: int,
    check: Callable[[bool], None],
) -> None:
    """Damage three processed items of a listing; it alone brings them back.

    `counts`: those of the integrity check. `again`: how many are processed again. `check` compares
    disk and maps; true: those are not processed yet.
    """
    libraries.download()
    libraries.process()
    facts = libraries.facts(kind)
    damage(libraries.folder(kind))
    second = libraries.download()
    assert libraries.downloads() == 0
    assert (second["added"], second["changed"], second["removed"]) == (0, 0, 0)
    none = dict.fromkeys(("missingInMap", "missingOnDisk", "orphans", "moved"), 0)
    assert second["integrity"] == none | counts | {"verified": 3}, second["log"]
    check(True)
    assert libraries.process()["processed"] == again
    check(False)
    assert libraries.facts(kind) == facts
