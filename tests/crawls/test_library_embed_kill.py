"""Embeddings that are killed, and what the next one makes of it."""

import shutil
from collections.abc import Callable

import pytest

from tests.crawls.libraries import DOMAIN
from tests.crawls.library_stage import BEFORE, rest_stage
from tests.crawls.test_library_embed import Place, begin, server

__all__ = ["begin", "rest_stage", "server"]  # fixtures

pytestmark = pytest.mark.alone

KILLED = -9
FIRST = (
    "after create_store", "before write_vector_store_id", "after intend", "after upload",
    "after attach", "before write_vectorstore_map",
)  # fmt: skip
CHANGED = (
    "after upload", "after note_completed", "before delete", "after note_embed_failure",
    "before move_library_row",
)  # fmt: skip
MOST = 40


def _slow(first: int, last: int) -> list[object]:
    return [pytest.param(str(n), marks=pytest.mark.slow) for n in range(first, last + 1)]


def _die(place: Place, fate: str) -> None:
    """Embed, to die at a place; a late one may not be passed."""
    environment = place.libraries.crawl.environment
    passed = place.libraries.crawl.folder / "places"
    environment |= {
        "ARRANGED_BY": "tests.crawls.killed_embed", "DIES_AT": fate, "PLACES": str(passed),
        "VECTOR_STORE_CONCURRENCY": "1",  # so that places have one order
    }  # fmt: skip
    place.libraries.crawl.run("library", "embed", DOMAIN, expect=KILLED)
    for name in ("ARRANGED_BY", "DIES_AT", "PLACES", "VECTOR_STORE_CONCURRENCY"):
        del environment[name]
    assert fate in (passed.read_text("utf-8").splitlines()[-1], fate if fate.isdigit() else "")


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


@pytest.mark.parametrize("fate", [*CHANGED, *_slow(1, MOST // 2)])
def test_an_embedding_of_changes_that_is_killed_is_made_up_for(
    begin: Callable[[], Place], fate: str
):
    place = begin()
    place.embed()
    place.add_others()
    place.server.fails = lambda text: "it has no text" if "Bad" in text else ""
    place.library.update("Reports/Q1.txt", "Warmer.")
    place.library.update("readme.md", "Bad.")
    place.library.delete("Reports/Q2.txt")
    place.library.add("new.txt", "New.")
    place.libraries.download()
    _die(place, fate)
    place.embed(expect=None)
    assert (place.libraries.folder() / "03_failed/readme.md").read_bytes() == b"Bad."
    rows = {row["filename"]: row for row in place.map_rows()}
    assert rows["readme.md"]["openai_file_id"] == ""
    place.server.fails = lambda text: ""
    shutil.rmtree(place.libraries.folder() / ".incoming", ignore_errors=True)
    place.embed("--mode", "full")
    place.check({"Reports/Q1.txt": b"Warmer.", "readme.md": b"Bad.", "new.txt": b"New."})
