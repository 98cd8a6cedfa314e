"""Every fact that a download leaves, compared with the library of the test server.

`Facts` is what the disk, the maps, the registry and the index should be; `check` compares all of
it. Nothing of smartcrawl computes it: ids, sizes and times are those of the server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote

from tests.crawls.libraries import DOMAIN, SOURCE, LibraryCrawl, keys_of_source
from tests.servers.sharepoint import Library
from tests.servers.sharepoint.entries import Entry
from tests.servers.sharepoint.graph_items import item_id

#: Types of files of these tests that no vector store takes.
LEFT_OUT = ("png", "")
#: Of the JSON, where nothing was to be corrected.
INTEGRITY = {"missingInMap": 0, "missingOnDisk": 0, "orphans": 0, "moved": 0}
COUNTED = ("added", "changed", "removed", "downloaded", "failed", "skipped", "withheld")
_ITEMS = """
SELECT i.unique_id, r.url, i.listitem_id, i.filename, i.server_relative_url, i.file_size,
       i.last_modified, i.path, i.downloaded, i.sharepoint_error, i.processing_error
  FROM library_item i JOIN record r ON r.no = i.no
"""
_KNOWN = """
SELECT unique_id, server_relative_url, file_size, last_modified, downloaded FROM library_item
"""
_TEXTS = "SELECT r.url, k.text FROM chunk k JOIN record r ON r.content = k.content"
_EMBEDDED = "02_embedded"


def utc(microseconds: int) -> str:
    """Return a time as the maps have it."""
    at = datetime.fromtimestamp(microseconds // 1_000_000, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{microseconds % 1_000_000:06}Z"


def integrity_line(found: Mapping[str, int], verified: int) -> str:
    """Return what R3-139 lets the log say."""
    missing = found["missingInMap"] + found["missingOnDisk"]
    if missing or found["orphans"] or found["moved"]:
        return (
            f"Integrity check corrected: {missing} missing, {found['orphans']} orphans"
            f" deleted, {found['moved']} moved"
        )
    return f"Integrity check passed: {verified} files verified"


@dataclass
class Facts:
    """A library, what should be stored of it, and what was known before the download."""

    libraries: LibraryCrawl
    library: Library
    #: Reasons, in part, by path of the files whose names the system cannot hold.
    notes: Mapping[str, str] = field(default_factory=dict)
    #: URL, size, time of change and time of download, by unique id, as they were before.
    known: dict[str, tuple[str, int, int, int]] = field(init=False)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.remember()

    def remember(self) -> None:
        """Take what is stored now as what was known before."""
        rows = self.libraries.crawl.rows(_KNOWN)
        self.known = {key: (url, size, changed, came) for key, url, size, changed, came in rows}
        self.began = datetime.now(UTC).timestamp()

    # What is expected

    @property
    def entries(self) -> dict[str, Entry]:
        """The files of the library by unique id."""
        return {entry.unique_id: entry for entry in self.library.files().values()}

    @property
    def stored(self) -> dict[str, Entry]:
        """Those of which something is stored, by unique id."""
        return {key: entry for key, entry in self.entries.items() if _type(entry) not in LEFT_OUT}

    @property
    def whole(self) -> dict[str, Entry]:
        """Those whose bytes are stored, by unique id."""
        return {key: entry for key, entry in self.stored.items() if entry.path not in self.notes}

    def _path(self, entry: Entry) -> str:
        if entry.path in self.notes:
            return f"03_failed/{entry.unique_id}.txt"
        return f"{_EMBEDDED}/{entry.path}"

    def _url(self, entry: Entry) -> str:
        return self.libraries.server.origin("rest") + quote(entry.url, safe="/:@")

    def asked_ids(self) -> list[str]:
        """The unique ids of the files whose bytes were asked for, each time, sorted."""
        by_item = {item_id(entry): key for key, entry in self.entries.items()}
        found = []
        for asked in self.libraries.server.asked(pattern=r"GetFileById|/content"):
            match = re.search(r"GetFileById\('([^']*)'|/items/([^/]*)/content", asked.target)
            assert match is not None, asked.target
            found.append(match[1] or by_item[match[2]])
        return sorted(found)

    # What is compared

    def check(self, outcomes: Mapping[str, str], clones: Set[str] = frozenset()) -> None:
        """Compare all that a download left.

        `outcomes`: words of records by path. `clones`: paths of files that a search leaves out.
        """
        self._check_disk()
        self._check_sharepoint_map()
        rows = self._check_files_map()
        self._check_items(rows)
        self._check_records(outcomes)
        self._check_index(clones)

    def _check_disk(self) -> None:
        """Bytes and times of each file, and that no other one is there."""
        now = self.libraries.facts()
        wanted = {self._path(entry): entry for entry in self.stored.values()}
        assert sorted(now) == sorted(wanted)
        for path, entry in wanted.items():
            if entry.path in self.notes:
                assert self._url(entry) in now[path][0].decode()
                continue
            assert now[path] == (entry.content, entry.modified * 10**9), path

    def _check_sharepoint_map(self) -> None:
        origin = self.libraries.server.origin("rest")
        assert self.libraries.rows("sharepoint_map.csv") == {
            entry.url: {
                "sharepoint_listitem_id": str(entry.id),
                "sharepoint_unique_file_id": entry.unique_id,
                "filename": entry.name,
                "file_type": _type(entry),
                "file_size": str(len(entry.content)),
                "url": self._url(entry),
                "raw_url": origin + entry.url,
                "server_relative_url": entry.url,
                "last_modified_utc": utc(entry.modified * 10**6),
                "last_modified_timestamp": str(entry.modified),
            }
            for entry in self.entries.values()
        }

    def _check_files_map(self) -> dict[str, dict[str, str]]:
        """Each cell: a file that came has the time of this download, another one keeps its time."""
        rows = self.libraries.rows("files_map.csv")
        found = {row["sharepoint_unique_file_id"]: row for row in rows.values()}
        came = self.asked_ids()
        for key, entry in self.stored.items():
            row = found[key]
            at = row["downloaded_utc"]
            seconds = datetime.fromisoformat(at).timestamp()
            fresh = key in came or key not in self.known
            if fresh:
                assert self.began <= seconds <= datetime.now(UTC).timestamp(), row
            else:
                assert at == utc(self.known[key][-1])
            why = self.notes.get(entry.path, "")
            assert why in row["sharepoint_error"]
            assert bool(why) == bool(row["sharepoint_error"])
            path = self._path(entry).replace("/", "\\")
            assert row == {
                "sharepoint_listitem_id": str(entry.id),
                "sharepoint_unique_file_id": key,
                "filename": entry.name,
                "file_type": _type(entry),
                "server_relative_url": entry.url,
                "file_relative_path": f"{DOMAIN}\\01_files\\{SOURCE}\\{path}",
                "file_size": str(len(entry.content)),
                "last_modified_utc": utc(entry.modified * 10**6),
                "last_modified_timestamp": str(entry.modified),
                "downloaded_utc": at,
                "downloaded_timestamp": str(int(seconds)),
                "sharepoint_error": row["sharepoint_error"],
                "processing_error": "",
            }
        assert found.keys() == self.stored.keys()
        return found

    def _check_items(self, rows: Mapping[str, Mapping[str, str]]) -> None:
        """The registry has the values of the map, and no item that it lacks (M-17)."""
        items = {key: values for key, *values in self.libraries.crawl.rows(_ITEMS)}
        assert items.keys() == rows.keys()
        for key, entry in self.stored.items():
            *values, downloaded, error, processing_error = items[key]
            row = rows[key]
            assert values == [
                self._url(entry), entry.id, entry.name, entry.url, len(entry.content),
                entry.modified * 10**6, self._path(entry),
            ]  # fmt: skip
            assert utc(downloaded) == row["downloaded_utc"]
            assert (error or "", processing_error) == (row["sharepoint_error"], None)

    def _check_records(self, outcomes: Mapping[str, str]) -> None:
        """One record an item, known by its id; what the library lacks is deleted."""
        records = self.libraries.crawl.records()
        kept = {record["url"]: record for record in records if record["lastOutcome"] != "deleted"}
        assert sorted(kept) == sorted(map(self._url, self.stored.values()))
        host = self.libraries.server.origin("rest").partition("://")[2]
        for key, entry in self.stored.items():
            record = kept[self._url(entry)]
            assert record["normalizedSource"] == f"sharepoint://{host}/{key}"
            here = self._was_stored(entry)
            word = "unchanged" if here else outcomes.get(entry.path, "unchanged")
            assert record["lastOutcome"] == word, entry.path
            assert record["status"] == "Indexed"

    def _was_stored(self, entry: Entry) -> bool:
        """Whether an item was stored already, as it is, when the download began."""
        known = self.known.get(entry.unique_id, ("", 0, 0, 0))
        return known[:-1] == (entry.url, len(entry.content), entry.modified * 10**6)

    def _check_index(self, clones: Set[str]) -> None:
        """The texts of the index, and the files that one search shows."""
        shown = {}
        for url, text in self.libraries.crawl.rows(_TEXTS):
            shown[unquote(url).partition(f"{self.library.path}/")[2]] = text
        wanted = {
            entry.path: entry.content.decode()
            for entry in self.whole.values()
            if entry.content and entry.name.lower().endswith(".txt")
        }
        readme = shown.pop("readme.md", "Words about everything.")
        assert "Words about everything." in readme
        shown = {path: text for path, text in shown.items() if text}
        assert shown == wanted
        for word in ("quarter", "everything"):
            files = [path for path, text in shown.items() if word in text and path not in clones]
            files += ["readme.md"] if word in readme else []
            hits = [hit.partition(f"{self.library.path}/")[2] for hit in self.libraries.hits(word)]
            assert hits == sorted(files), word


def check_result(
    found: Mapping[str, Any],
    counts: Mapping[str, int],
    integrity: Mapping[str, int],
    facts: Facts,
    mode: str = "incremental",
) -> None:
    """Compare each key of a source in the JSON, the line of the log, and the downloads."""
    assert found.keys() == keys_of_source()
    total, log = len(facts.whole), found["log"]
    assert {name: found[name] for name in COUNTED} == dict.fromkeys(COUNTED, 0) | counts, log
    wanted = INTEGRITY | integrity | {"verified": total + len(facts.notes)}
    assert found["integrity"] == wanted, log
    assert log.count("Integrity check") == 1
    assert re.search(f"INFO: {re.escape(integrity_line(wanted, wanted['verified']))}$", log, re.M)
    assert found["processed"] == 0
    assert (found["sourceId"], found["sourceType"]) == (SOURCE, "file_sources")
    assert (found["mode"], found["reason"]) == (mode, ""), log
    assert (found["complete"], found["reasons"]) == (True, []), log
    server = facts.libraries.server
    assert found["requests"] == len(server.asked())
    assert facts.libraries.downloads() == counts.get("downloaded", 0)
    assert len(set(facts.asked_ids())) == counts.get("downloaded", 0)


def _type(entry: Entry) -> str:
    _, dot, ending = entry.name.rpartition(".")
    return ending.lower() if dot else ""
