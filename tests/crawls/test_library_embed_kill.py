"""Embeddings that are killed, and what the next one makes of it."""

import json
import os
import shutil
from collections.abc import Callable
from random import Random

import pytest

from tests.crawls.libraries import DOMAIN
from tests.crawls.library_stage import BEFORE, rest_stage
from tests.crawls.test_library_embed import Place, begin, server

__all__ = ["begin", "rest_stage", "server"]  # fixtures

pytestmark = pytest.mark.alone

KILLED = -9
FIRST = (
    "after create_store", "before write_sharepoint_domain_store_id", "after intend", "after upload",
    "after attach", "before write_vectorstore_map",
)  # fmt: skip
CHANGED = (
    "after upload", "after note_completed", "before delete", "after store_embed_failure_row",
    "before move_library_row",
)  # fmt: skip
MOST = 40


def _slow(first: int, last: int) -> list[object]:
    return [pytest.param(str(n), marks=pytest.mark.long) for n in range(first, last + 1)]


def _embed_killed(place: Place, fate: str, *, concurrency: str = "1") -> tuple[int, list[str]]:
    """Embed, to die at a place; return the exit status, and the places that were passed."""
    environment = place.libraries.crawl.environment
    passed = place.libraries.crawl.folder / "places"
    environment |= {
        "ARRANGED_BY": "tests.crawls.killed_embed", "DIES_AT": fate, "PLACES": str(passed),
        "VECTOR_STORE_CONCURRENCY": concurrency,
    }  # fmt: skip
    result = place.libraries.crawl.run("library", "embed", DOMAIN, expect=None)
    for name in ("ARRANGED_BY", "DIES_AT", "PLACES", "VECTOR_STORE_CONCURRENCY"):
        del environment[name]
    return result.status, passed.read_text("utf-8").splitlines()


def _die(place: Place, fate: str) -> None:
    """Embed, to die at a place; one request at a time, so that places have one order."""
    status, passed = _embed_killed(place, fate)
    assert status == KILLED
    assert fate in (passed[-1], fate if fate.isdigit() else "")


@pytest.mark.parametrize("fate", [*FIRST, *_slow(1, MOST // 2)])
def test_a_first_embedding_that_is_killed_is_made_up_for(begin: Callable[[], Place], fate: str):
    place = begin()
    _die(place, fate)
    place.embed()
    assert list(place.server.made) == ["vs_1"]
    place.check(BEFORE)
    place.embed()
    # An upload without an answer is looked for until it cannot appear any more.
    assert set(place.server.acts) <= {"store", "list", "uploads"}


@pytest.mark.long
@pytest.mark.parametrize("fate", [*CHANGED, *_slow(1, MOST // 2)])
def test_an_embedding_of_changes_that_is_killed_is_made_up_for(
    begin: Callable[[], Place], fate: str
):
    place = begin()
    _change(place)
    _die(place, fate)
    _check_the_next(place)


#: Places that an embedding of these changes passes, about.
LAST = 86


@pytest.mark.long
@pytest.mark.parametrize("draw", range(20))
def test_an_embedding_that_is_killed_by_chance_is_made_up_for(
    begin: Callable[[], Place], draw: int
):
    """Several requests are under way when it dies."""
    place = begin()
    _change(place)
    fate = Random(f"{os.environ['KILL_SEED']} {draw}").randint(1, LAST)
    status, passed = _embed_killed(place, str(fate), concurrency="4")
    assert status == KILLED or len(passed) > LAST // 2, f"only {len(passed)} places"
    _check_the_next(place)


def _change(place: Place) -> None:
    """Embed, and let another tool add a property; then change the library."""
    place.embed()
    place.add_others()
    metadata = place.domain().with_name("files_metadata.json")
    entries = json.loads(metadata.read_text("utf-8"))
    metadata.write_text(json.dumps([entry | {"tag": "kept"} for entry in entries]))
    place.server.fails = lambda text: "it has no text" if "Bad" in text else ""
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.library.update("readme.md", "Bad.")
    place.library.delete("Reports/Q2.txt")
    place.library.add("new.txt", "New.")
    place.libraries.download()


def _check_the_next(place: Place) -> None:
    """One more embedding makes up for one that was killed."""
    place.embed(expect=None)
    assert (place.libraries.folder() / "03_failed/readme.md").read_bytes() == b"Bad."
    rows = {row["filename"]: row for row in place.map_rows()}
    assert rows["readme.md"]["openai_file_id"] == ""
    place.server.fails = lambda text: ""
    shutil.rmtree(place.libraries.folder() / ".incoming", ignore_errors=True)
    place.embed("--mode", "full")
    place.check({"Reports/Q1.txt": b"Warmer.", "readme.md": b"Bad.", "new.txt": b"New."})
    entries = json.loads(place.domain().with_name("files_metadata.json").read_text("utf-8"))
    tags = {entry["filename"]: entry.get("tag") for entry in entries}
    assert tags == {"Q1.txt": "kept", "Q2.txt": "kept", "readme.md": "kept", "new.txt": None}
