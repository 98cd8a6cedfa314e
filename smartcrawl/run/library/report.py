"""The report of a command or job at a domain: the results of its sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

from smartcrawl.model.exceptions import RunHeldError, RunPausedError, SmartcrawlError
from smartcrawl.model.program import program_argument, program_name
from smartcrawl.registry.library.items import TRIMMED
from smartcrawl.registry.runs.run_results import RunResult
from smartcrawl.rules.run_orders import INTERRUPTED, ORDER_REASONS
from smartcrawl.run.library.files import RunLibrary
from smartcrawl.run.library.result import FULL, LibraryResult
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.source import SharepointSource

#: Reasons of a run that ended before it came to every item.
_UNFINISHED: Final = frozenset({INTERRUPTED, *ORDER_REASONS.values()})


@dataclass(slots=True)
class LibraryReport:
    """The results of a command or job at a domain, source by source."""

    domain: Domain
    action: str
    mode: str
    scope: str
    is_dry: bool = False
    #: Whether a source could not be done or is incomplete, or items failed.
    is_lacking: bool = False
    is_held: bool = False  #: whether another step is at a source
    archive: str = ""  #: id of the report of a crawl; empty: none was written
    is_stopped: bool = False  #: whether an order ended it before all was done
    sources: dict[str, LibraryResult] = field(default_factory=dict)  #: by source_id

    @property
    def is_incomplete(self) -> bool:
        """Whether not everything was done."""
        return self.is_lacking or self.is_held

    def skip(self, source: SharepointSource, why: str, *, is_held: bool = False) -> None:
        """Note a source that was left out (R3-68); the others go on."""
        found = self.sources.setdefault(source.source_id, LibraryResult(source, self.mode))
        found.reason, found.complete = why, False
        self.is_held |= is_held
        self.is_lacking |= not is_held

    @contextmanager
    def attempted(self, source: SharepointSource) -> Iterator[None]:
        """Skip a source whose step cannot be carried out."""
        try:
            yield
        except SmartcrawlError as error:
            why = paused_library_source_reason(error)
            self.skip(source, why, is_held=isinstance(error, RunHeldError | RunPausedError))

    def is_skipped(self, source: SharepointSource) -> bool:
        """Whether an earlier step left a source out."""
        found = self.sources.get(source.source_id)
        return found is not None and bool(found.reason)

    def add(self, result: LibraryResult, *, is_lacking: bool = False) -> None:
        """Note what came of a step; ``is_lacking``: whether it left out what it was to do."""
        found = self.sources.setdefault(result.source.source_id, result)
        if found is not result:
            found.add(result)
        elif result.mode != FULL:
            result.mode = self.mode
        self.is_stopped |= result.is_stopped
        self.is_lacking |= is_lacking or not result.complete
        self.is_lacking |= bool(result.failed or result.withheld)

    def add_run(self, number: int, result: RunResult, library: RunLibrary) -> None:
        """Note a run; the rest of one that was paused adds to its beginning."""
        source = library.source
        before = self.sources.pop(source.source_id, LibraryResult(source))
        integrity = library.findings.integrity
        failed = library.failed + library.shelf.refused
        trimmed = [note for note in result.notes if note.startswith(f"{TRIMMED}:")]
        found = replace(
            before,
            mode=FULL if library.findings.falls_back else self.mode,
            complete=result.complete and not failed,
            reasons=[*result.reasons, *trimmed, *library.reasons],
            runs=[*before.runs, number],
            adopted=before.adopted + library.adopted,
            requests=before.requests + library.requests,
            downloaded=before.downloaded + library.downloaded,
            added=before.added + library.added,
            changed=before.changed + library.changed,
            # Pages that an undo restored have no file, and the sweep removes them alone.
            removed=before.removed + max(library.removed, result.removed),
            withheld=result.withheld,
            failed=failed,
            listed=library.listed,
            skipped=library.skipped,
            integrity=replace(
                integrity,
                orphans=before.integrity.orphans + integrity.orphans,
                moved=before.integrity.moved + integrity.moved,
            ),
        )
        known = library.listed
        if not _UNFINISHED.isdisjoint(result.reasons):
            known = min(known, result.visits)  # the others were not compared or read
        found.unchanged = max(0, known - found.added - found.changed - failed)
        self.add(found)

    def saved(self) -> list[dict[str, Any]]:
        """Return the sources as JSON, for a job that goes on later."""
        return [found.saved() for found in self.sources.values()]

    def restore(
        self, saved: Iterable[Mapping[str, Any]], sources: Iterable[SharepointSource]
    ) -> None:
        """Begin with what ``saved`` returned before the job was paused."""
        by_id = {source.source_id: source for source in sources}
        for one in saved:
            if (source := by_id.get(one["source_id"])) is not None:
                self.sources[source.source_id] = LibraryResult.restored(source, one)

    def as_json(self) -> dict[str, Any]:
        """Return the report under the promised keys."""
        known: dict[str, Any] = {
            "domain": self.domain.domain_id,
            "action": self.action,
            "mode": self.mode,
            "scope": self.scope,
            "dryRun": self.is_dry,
            "complete": not self.is_incomplete,
            "sources": [found.as_json() for found in self.sources.values()],
        }
        if self.action == "adopt":
            for found, shown in zip(self.sources.values(), known["sources"], strict=True):
                shown["adopted"] = found.adopted
        return known | ({"report": self.archive} if self.archive else {})


def paused_library_source_reason(error: SmartcrawlError) -> str:
    """Return why a source is left out; for a paused one with the command that goes on with it."""
    if not isinstance(error, RunPausedError):
        return str(error)
    return (
        f"run {error.run} of {error.source} is paused since {error.since}; this goes on with it:"
        f" {program_name()} crawl sharepoint {program_argument('source', error.source)}"
        f" {program_argument('resume')}"
    )
