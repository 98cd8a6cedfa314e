"""The results of a domain's sources, added up over steps and over pauses."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from smartcrawl.model.exceptions import RunHeldError, RunPausedError, SourceError
from smartcrawl.run.library.report import LibraryReport
from smartcrawl.run.library.result import Embedded, Integrity, LibraryResult
from smartcrawl.run.library.steps import LibraryFindings
from smartcrawl.sources.sharepoint.source import SharepointSource
from tests.run.test_library_dry_maps import source

__all__ = ["source"]  #: fixture


def report(mode: str = "incremental") -> LibraryReport:
    """Return a report to which nothing was added."""
    return LibraryReport(cast(Any, SimpleNamespace(domain_id="D")), "crawl", mode, "all")


def run(source: SharepointSource, no: int, **facts: Any) -> tuple[int, Any, Any]:
    """Return the run of a library that has ended."""
    result = {"complete": True, "reasons": [], "notes": [], "removed": 0, "withheld": 0}
    library = {"listed": 9, "added": 0, "changed": 0, "removed": 0, "downloaded": 0, "failed": 0,
               "adopted": 0, "requests": 4, "skipped": 2, "reasons": [], "findings":
               LibraryFindings(integrity=Integrity(moved=1, orphans=1, verified=5))}  # fmt: skip
    result |= {"visits": 9} | {name: facts[name] for name in facts if name in (*result, "visits")}
    library |= {name: facts[name] for name in facts if name in library}
    library["shelf"] = SimpleNamespace(refused=facts.get("refused", 0))
    return no, SimpleNamespace(**result), SimpleNamespace(source=source, **library)


def test_steps_add_up(source: SharepointSource):
    found = report("full")
    found.add_run(*run(source, 7, added=2, changed=1, downloaded=3))
    found.add(LibraryResult(source, processed=3, reasons=["note"]))
    found.add(LibraryResult(source, skipped=1, embedded=Embedded(uploaded=3, vector_store_id="v")))

    (one,) = found.as_json()["sources"]
    assert one == {
        "sourceId": "s", "sourceType": "file_sources", "mode": "full", "reason": "",
        "complete": True, "reasons": ["note"], "listed": 9, "added": 2, "changed": 1,
        "removed": 0, "unchanged": 6, "downloaded": 3, "processed": 3, "failed": 0, "skipped": 3,
        "withheld": 0, "requests": 4, "uploaded": 3, "attached": 0, "detached": 0, "left": 0,
        "completed": 0, "embedFailed": 0, "adopted": 0, "inProgress": 0, "vectorStoreId": "v",
        "integrity": {
            "missingInMap": 0, "missingOnDisk": 0, "orphans": 1, "moved": 1, "verified": 5
        },
    }  # fmt: skip
    assert (found.is_incomplete, found.sources["s"].runs) == (False, [7])


@pytest.mark.parametrize(
    ("facts", "is_lacking"),
    [({}, False), ({"complete": False}, True), ({"failed": 1}, True), ({"refused": 1}, True),
     ({"withheld": 1}, True)],
)  # fmt: skip
def test_a_run_lacks_something(source: SharepointSource, facts: dict[str, Any], is_lacking: bool):
    found = report()
    found.add_run(*run(source, 1, **facts))
    assert found.is_lacking is is_lacking
    is_complete = facts.keys().isdisjoint({"complete", "failed", "refused"})
    assert found.sources["s"].complete is is_complete


def test_the_rest_of_a_paused_run_adds_to_its_beginning(source: SharepointSource):
    found, later = report(), report()
    found.add_run(
        *run(source, 1, complete=False, reasons=["interrupted"], visits=5, added=3, failed=1)
    )
    assert found.sources["s"].unchanged == 1  # of five that it came to

    later.restore([*found.saved(), {**found.saved()[0], "source_id": "forgotten"}], [source])
    assert later.sources == found.sources
    later.add_run(*run(source, 2, added=2, changed=1, visits=9, removed=1))

    one = later.sources["s"]
    assert (one.complete, one.reasons, one.runs, one.failed) == (True, [], [1, 2], 0)
    assert (one.added, one.changed, one.unchanged, one.removed) == (5, 1, 3, 1)
    assert (one.listed, one.skipped, one.requests) == (9, 2, 8)
    assert one.integrity == Integrity(orphans=2, moved=2, verified=5)
    assert later.is_lacking is False


def test_a_step_does_not_make_an_earlier_one_complete(source: SharepointSource):
    """As a dry run of crawl, whose listing was cut."""
    found = report()
    found.add(LibraryResult(source, complete=False, reasons=["listing: cut"]))
    found.add(LibraryResult(source, processed=1))
    assert (found.sources["s"].complete, found.is_lacking) == (False, True)


def test_a_later_step_adds_to_what_is_known(source: SharepointSource):
    found = LibraryResult(source, embedded=Embedded(uploaded=1), runs=[1])
    found.add(LibraryResult(source, complete=False, runs=[2], reasons=["cut"]))
    assert (found.complete, found.embedded, found.runs) == (False, Embedded(uploaded=1), [1, 2])


def test_a_source_that_lacks_its_map_comes_whole(source: SharepointSource):
    found = report()
    found.add_run(*run(source, 1, findings=LibraryFindings(falls_back=True)))
    assert found.sources["s"].mode == "full"
    found.sources.clear()
    found.add(LibraryResult(source, "full"))
    assert found.sources["s"].mode == "full"


@pytest.mark.parametrize(
    ("error", "is_held"),
    [
        (RunHeldError("D.s", pid=1, host="h", since="2026"), True),
        (RunPausedError("D.s", 7, "2026"), True),
        (SourceError("gone"), False),
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_carried_out_is_skipped(
    source: SharepointSource, error: Exception, is_held: bool
):
    found = report()
    with found.attempted(source):
        raise error
    assert found.is_skipped(source)
    assert (found.is_held, found.is_lacking) == (is_held, not is_held)
    assert ("-a resume=1" in found.sources["s"].reason) is isinstance(error, RunPausedError)
    found.add(LibraryResult(source))
    assert found.sources["s"].complete is False


def test_an_order_ends_a_step(source: SharepointSource):
    found = report()
    found.add(LibraryResult(source, is_stopped=True))
    assert (found.is_stopped, found.saved()[0].keys() & {"is_stopped"}) == (True, set())


def test_skipped_items_of_a_step_are_lacking(source: SharepointSource):
    found = report()
    found.add(LibraryResult(source, skipped=1), is_lacking=True)
    assert (found.is_lacking, found.sources["s"].complete) == (True, True)


def test_only_the_first_reasons_are_shown(source: SharepointSource):
    reasons = [f"item {number}" for number in range(102)]
    few = LibraryResult(source, reasons=reasons)
    assert few.shown_reasons() == [*reasons[:100], "2 more, each with a line in the log"]
    of_run = LibraryResult(source, reasons=reasons[:100], failed=1_100, runs=[1])
    assert of_run.shown_reasons()[100:] == ["1,000 more, each with a line in the log"]
    assert LibraryResult(source, reasons=reasons[:100]).shown_reasons() == reasons[:100]
