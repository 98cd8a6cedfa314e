"""Two crawls of one domain at once end as if they had run one after the other (R3-62 to R3-66)."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawls.commands import wait_until
from tests.crawls.libraries import DOMAIN
from tests.crawls.library_stage import Q2, library_stages, rest_stage
from tests.crawls.test_library_embed import Place, begin, server
from tests.crawls.test_library_embed_kinds import place

__all__ = ["begin", "library_stages", "place", "rest_stage", "server"]  # fixtures

pytestmark = pytest.mark.alone

MOST = 48  #: commits of the crawl below, at least
AFTER = {"Reports/Q1.txt": b"Warmer.", "Reports/Q3.txt": Q2, "new.txt": b"New."}
ENDS = {0, 3, 4}  #: done; incomplete, as a source was held; all held


def _change(place: Place) -> None:
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.library.rename("Reports/Q2.txt", "Q3.txt")
    place.library.delete("readme.md")
    place.library.add("new.txt", b"New.")


def _begin_halted(place: Place, folder: Path, number: int) -> None:
    """Begin a crawl that halts behind a commit, and wait until it is there, or at its end."""
    crawl = place.libraries.crawl
    folder.mkdir()
    environment = crawl.own() | {
        "ARRANGED_BY": "tests.crawls.halting", "HALTS_BEHIND": f"{number} {folder}",
    }  # fmt: skip
    args = ["library", "crawl", DOMAIN, "--format", "json"]
    crawl._scrapy.begin(args, environment, folder)
    wait_until(
        lambda: (folder / "halted").exists() or (folder / "status").exists(),
        f"it is at commit {number}",
    )


def _commits(folder: Path) -> int:
    return len((folder / "commits").read_text().splitlines())


@pytest.mark.long
@pytest.mark.covers("R3-62", "R3-63", "R3-66")
@pytest.mark.parametrize("number", range(1, MOST + 1))
def test_two_crawls_at_once_end_as_one_after_the_other(place: Place, tmp_path: Path, number: int):
    place.embed()
    place.add_others()
    _change(place)
    folder = tmp_path / "halted"
    _begin_halted(place, folder, number)
    is_halted = (folder / "halted").exists()

    other = place.libraries.library("crawl", DOMAIN, expect=None)
    (folder / "go").touch()
    wait_until((folder / "status").exists, "the first crawl ends")

    statuses = {int((folder / "status").read_text()), other["result"].status}
    assert statuses <= ENDS, (folder / "err").read_text() + other["result"].err
    assert is_halted or number > MOST // 2, f"it has only {_commits(folder)} commits"
    assert "Traceback" not in (folder / "err").read_text()
    assert place.libraries.disk() == AFTER
    place.libraries.check_maps()
    place.check(AFTER)
    place.libraries.server.log.clear()
    place.server.asked.clear()
    (source,) = place.libraries.library("crawl", DOMAIN)["sources"]
    assert (source["downloaded"], source["uploaded"], source["detached"]) == (0, 0, 0)
    assert (source["added"], source["changed"], source["removed"]) == (0, 0, 0)
    assert place.libraries.downloads() == 0
    metadata = json.loads(place.domain().with_name("files_metadata.json").read_text("utf-8"))
    ids = [entry["openai_file_id"] for entry in metadata]
    assert len(ids) == len(set(ids)), "an entry each"


def test_every_commit_of_a_crawl_is_among_the_numbers(begin: Callable[[], Place], tmp_path: Path):
    place = begin()
    place.embed()
    _change(place)
    folder = tmp_path / "whole"
    _begin_halted(place, folder, 1_000)
    assert (folder / "status").read_text() == "0"
    assert MOST // 2 < _commits(folder) <= MOST
