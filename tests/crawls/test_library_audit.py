"""`scrapy audit` of domains of libraries, and what --repair does about each difference."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crawls.commands import Crawl, Result
from tests.crawls.libraries import DOMAIN, SOURCE, LibraryCrawl
from tests.crawls.library_stage import BEFORE, Q1, library_stages, rest_stage
from tests.crawls.test_library_embed import Place, begin, server
from tests.crawls.test_library_embed_kinds import Kind, place
from tests.index.vectorstore.store_server import MakingStores
from tests.openai_server import Reply
from tests.servers.sharepoint import SharepointServer

pytestmark = pytest.mark.long(but=1)

__all__ = ["begin", "library_stages", "place", "rest_stage", "server"]  # fixtures

_PLACES = ("files", "filesMap", "vectorstoreMap", "vectorStore", "metadata")


def audit(crawl: Crawl, *words: str, expect: int | None = 0) -> tuple[dict[str, Any], Result]:
    """Audit; return what the JSON says of the only domain, and the result of the command."""
    result = crawl.run("audit", "--format", "json", *words, expect=expect)
    found = json.loads(result.out)
    (domain,) = found["domains"]
    assert found["agree"] is domain["agree"] is (result.status == 0)
    assert domain["domain"] == DOMAIN
    return domain, result


def short(counts: dict[str, dict[str, int]]) -> str:
    """Return the counts that are not 0, such as "files missing 1, metadata missing 3"."""
    assert tuple(counts) == _PLACES
    return ", ".join(
        f"{place} {kind} {number}"
        for place, by_kind in counts.items()
        for kind, number in by_kind.items()
        if number
    )


def embedded(place: Place) -> Path:
    return place.libraries.folder() / "02_embedded"


def _map(place: Place, name: str) -> Path:
    return place.libraries.folder() / name


def _edit(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    header, *rows = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([header, *change(rows)]))


def _misplaced(place: Place) -> None:
    (embedded(place) / "elsewhere").mkdir()
    (embedded(place) / "Reports/Q1.txt").rename(embedded(place) / "elsewhere/Q1.txt")


def _other_date(place: Place) -> None:
    os.utime(embedded(place) / "Reports/Q1.txt", (1, 1))


def _surplus_file(place: Place) -> None:
    (embedded(place) / "extra.txt").write_text("extra")


def _without_row(name: str) -> Callable[[Place], object]:
    return lambda place: _edit(_map(place, name), lambda rows: rows[:-1])


def _edited_row(name: str) -> Callable[[Place], object]:
    return lambda place: _edit(
        _map(place, name), lambda rows: [rows[0].replace(b".txt", b".doc"), *rows[1:]]
    )


def _foreign_row(name: str) -> Callable[[Place], object]:
    """One row of an item that the registry lacks, and one that is no row."""
    return lambda place: _edit(
        _map(place, name),
        lambda rows: [*rows, b",".join([b"x"] * (rows[0].count(b",") + 1)) + b"\r\n", b"x\r\n"],
    )


def _without(name: str) -> Callable[[Place], object]:
    return lambda place: _map(place, name).unlink()


def _other_columns(name: str) -> Callable[[Place], object]:
    return lambda place: _map(place, name).write_bytes(b"a,b\r\n1,2\r\n")


def _ours(place: Place) -> list[str]:
    return sorted(place.server.stores["vs_1"].keys() - place.theirs)


def _detached(place: Place) -> None:
    stores, uploads = place.server.stores["vs_1"], place.server.uploads
    misplaced = Q1.decode()
    gone = next(id_ for id_ in _ours(place) if uploads[id_]["content"] != misplaced)
    del stores[gone]
    place.server.detached.add(gone)


def _put_twice(place: Place) -> None:
    """A second copy that the registry does not know, as of a lost registry."""
    entry = place.server.stores["vs_1"][_ours(place)[0]]
    place.server.put("copy", store="vs_1", **entry["attributes"])


def _of_a_gone_item(place: Place) -> None:
    marks = {"smartcrawl_domain": DOMAIN, "smartcrawl_source": SOURCE, "smartcrawl_hash": "00"}
    place.server.put("gone", store="vs_1", smartcrawl_item="gone", **marks)


def _failed_later(place: Place) -> None:
    place.server.stores["vs_1"][_ours(place)[0]]["status"] = "failed"


def metadata(place: Place) -> Path:
    return place.domain().with_name("files_metadata.json")


def _without_entry(place: Place) -> None:
    first, *rest = json.loads(metadata(place).read_text("utf-8"))
    assert first["custom"] == "kept"
    metadata(place).write_text(json.dumps(rest), encoding="utf-8")


def _cut_metadata(place: Place) -> None:
    metadata(place).write_bytes(metadata(place).read_bytes()[:-9])


def _missing_metadata(place: Place) -> None:
    metadata(place).unlink()


#: What is done together, and what the audit finds; all of it is repaired without a download.
DAMAGES: dict[str, dict[Callable[[Place], object], str]] = {
    "first": {
        _misplaced: "files missing 1, files surplus 1",
        _without_row("files_map.csv"): "filesMap missing 1",
        _without_row("vectorstore_map.csv"): "vectorstoreMap missing 1",
        _detached: "vectorStore missing 1",
        _without_entry: "metadata missing 1",
    },
    "second": {
        _other_date: "files changed 1",
        _edited_row("files_map.csv"): "filesMap changed 1",
        _edited_row("vectorstore_map.csv"): "vectorstoreMap changed 1",
        _put_twice: "vectorStore surplus 1",
        _cut_metadata: "metadata changed 1",
    },
    "third": {
        _surplus_file: "files surplus 1",
        _foreign_row("files_map.csv"): "filesMap surplus 2",
        _without("vectorstore_map.csv"): "vectorstoreMap missing 1",
        _of_a_gone_item: "vectorStore surplus 1",
        _missing_metadata: "metadata missing 3",
    },
    "fourth": {
        _without("files_map.csv"): "filesMap missing 1",
        _foreign_row("vectorstore_map.csv"): "vectorstoreMap surplus 2",
        _failed_later: "vectorStore changed 1",
    },
    "fifth": {
        _other_columns("files_map.csv"): "filesMap changed 1",
        _other_columns("vectorstore_map.csv"): "vectorstoreMap changed 1",
    },
}


def written(place: Place) -> dict[Path, tuple[int, bytes]]:
    """Return date and bytes of each file below the storage."""
    paths = place.libraries.storage.rglob("*")
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in paths if path.is_file()}


def settled(place: Place) -> None:
    """Embed, let others add to store and metadata, and see that everything agrees."""
    place.embed()
    place.add_others()
    entries = json.loads(metadata(place).read_text("utf-8"))
    entries[0]["custom"] = "kept"
    entries.append({"note": "of another tool"})
    metadata(place).write_text(json.dumps(entries), encoding="utf-8")
    place.library.add("later.txt", b"Later.")
    place.libraries.download()
    place.embed()  # which notes the custom properties
    place.library.delete("later.txt")
    place.libraries.download()
    place.embed()
    found, _ = audit(place.libraries.crawl, "--read-data")
    assert (short(found["counts"]), found["items"], found["reasons"]) == ("", 3, [])


@pytest.mark.parametrize("damage", DAMAGES)
def test_differences_are_found_and_repaired_without_a_download(
    begin: Callable[[], Place], damage: str
):
    place = begin()
    settled(place)
    for act in DAMAGES[damage]:
        act(place)
    expected = ", ".join(DAMAGES[damage].values())
    crawl = place.libraries.crawl
    files = written(place)
    found, _ = audit(crawl, expect=3)
    assert written(place) == files
    assert short(found["counts"]) == expected
    assert len(found["differences"]) == sum(
        number for counts in found["counts"].values() for number in counts.values()
    )
    place.libraries.server.log.clear()

    repaired, _ = audit(crawl, "--repair")

    assert short(repaired["counts"]) == expected
    assert (short(repaired["left"]), repaired["differences"], repaired["reasons"]) == ("", [], [])
    assert place.libraries.server.log == []
    assert place.libraries.disk() == BEFORE
    place.libraries.check_maps()
    place.check(BEFORE)
    entries = json.loads(metadata(place).read_text("utf-8"))
    ids = {entry.get("openai_file_id") for entry in entries}
    assert _ours(place) == sorted(set(_ours(place)) & ids)
    assert {"note": "of another tool"} in entries
    assert any(entry.get("custom") == "kept" for entry in entries)
    audit(crawl, "--read-data")


def test_a_missing_file_comes_with_the_next_download(place: Place):
    place.embed()
    crawl = place.libraries.crawl
    (embedded(place) / "Reports/Q1.txt").unlink()
    found, result = audit(crawl, expect=3)
    assert short(found["counts"]) == "files missing 1"
    (difference,) = found["differences"]
    assert difference == {
        "place": "files", "difference": "missing", "source": SOURCE,
        "item": "02_embedded/Reports/Q1.txt", "detail": "",
    }  # fmt: skip
    assert "audit --repair" in result.err

    repaired, result = audit(crawl, "--repair", expect=3)

    assert short(repaired["left"]) == "files missing 1"
    assert f"library download {DOMAIN}" in result.err
    place.libraries.download()
    assert embedded(place).joinpath("Reports/Q1.txt").read_bytes() == Q1
    place.embed()  # its map has the date of the download
    audit(crawl)


def test_other_bytes_of_the_same_size_and_date_are_found_by_reading_them(place: Place):
    place.embed()
    crawl = place.libraries.crawl
    file = embedded(place) / "Reports/Q1.txt"
    modified = file.stat().st_mtime_ns
    file.write_bytes(b"x" * len(Q1))
    os.utime(file, ns=(modified, modified))
    audit(crawl)
    found, _ = audit(crawl, "--read-data", expect=3)
    assert short(found["counts"]) == "files changed 1"

    repaired, result = audit(crawl, "--read-data", "--repair", expect=3)

    assert short(repaired["left"]) == "files missing 1, files surplus 1"
    assert f"library download {DOMAIN}" in result.err
    assert place.server.acts.count("upload") == len(BEFORE)  # as before
    place.libraries.download()
    assert file.read_bytes() == Q1
    place.embed()
    audit(crawl, "--read-data")


@pytest.mark.parametrize("kind", ["list_sources", "sitepage_sources"])
@pytest.mark.parametrize("damage", ["embedded", "original"])
def test_lists_and_pages_are_compared_with_what_is_made_of_them(
    crawl: Crawl, sharepoint: SharepointServer, server: MakingStores, kind: str, damage: str
):
    libraries = LibraryCrawl(crawl, sharepoint)
    crawl.environment |= server.settings
    Kind(libraries, kind).embed(uploaded=3)
    audit(crawl)
    top = {"embedded": "02_embedded", "original": "01_originals"}[damage]
    first = min((libraries.folder(kind) / top).iterdir())
    (libraries.folder(kind) / top / "extra.html").write_text("extra")
    first.unlink()
    is_list_csv = (kind, damage) == ("list_sources", "original")  # what is made of it is there
    missing = "" if is_list_csv else "files missing 1, "
    found, _ = audit(crawl, expect=3)
    assert short(found["counts"]) == f"{missing}files surplus 1"

    repaired, _ = audit(crawl, "--repair", expect=0 if is_list_csv else 3)

    assert short(repaired["left"]) == ("" if is_list_csv else "files missing 1")
    libraries.download()
    libraries.process()
    libraries.library("embed", DOMAIN)
    audit(crawl)


def test_without_a_store_disk_and_map_are_compared(begin: Callable[[], Place]):
    place = begin()
    found, _ = audit(place.libraries.crawl)
    assert found["items"] == 3
    _surplus_file(place)
    repaired, _ = audit(place.libraries.crawl, "--repair")
    assert short(repaired["counts"]) == "files surplus 1"
    assert place.server.asked == []


def test_a_store_that_is_away_or_gone_proves_nothing(begin: Callable[[], Place]):
    place = begin()
    place.embed()
    crawl = place.libraries.crawl
    gone = place.server.stores.pop("vs_1")
    found, _ = audit(crawl, expect=3)
    assert short(found["counts"]) == "vectorStore missing 1"
    assert "correct vector_store_id" in found["differences"][0]["detail"]
    place.server.stores["vs_1"] = gone
    crawl.environment["SINK_WAIT_SECONDS"] = "0"
    place.server.answer = lambda asked: Reply({}, 503)
    found, result = audit(crawl, expect=3)
    assert (short(found["counts"]), len(found["reasons"])) == ("", 1)
    assert "the vector store was not compared: " in result.err


def test_a_domain_json_that_cannot_be_read_is_a_problem(begin: Callable[[], Place]):
    place = begin()
    place.domain().write_text("{")
    result = place.libraries.crawl.run("audit", "--format", "json", expect=3)
    assert json.loads(result.out) == {"index": "embedded", "agree": False, "domains": []}
    assert "domain.json is not valid JSON" in result.err


def test_a_repair_of_a_source_that_is_crawled_waits_for_no_run(begin: Callable[[], Place]):
    place = begin()
    _surplus_file(place)
    with place.libraries.crawl.held(f"{DOMAIN}.{SOURCE}"):
        result = place.libraries.crawl.run("audit", "--repair", expect=4)
    assert "is being crawled" in result.err or "held" in result.err
    assert (embedded(place) / "extra.txt").exists()


def test_the_text_names_places_and_items(begin: Callable[[], Place]):
    place = begin()
    place.embed()
    crawl = place.libraries.crawl
    result = crawl.run("audit")
    assert f"{DOMAIN}: 3 items in the registry" in result.out
    assert "records, disk, maps, vector store and metadata agree" in result.out
    for number in range(21):
        (embedded(place) / f"extra {number:02}.txt").write_text("extra")
    result = crawl.run("audit", "--source", f"{DOMAIN}.{SOURCE}", expect=3)
    assert "21 surplus on disk" in result.out
    assert "02_embedded/extra 00.txt" in result.out
    assert "and 1 more (--format json lists all)" in result.out
    assert f"audit --repair --source {DOMAIN}.{SOURCE}" in result.err
    result = crawl.run("audit", "--repair", "--dry-run", expect=3)
    assert (embedded(place) / "extra 00.txt").exists()
    result = crawl.run("audit", "--repair")
    assert "21 surplus on disk, 0 left" in result.out
