"""Results of the steps of a library, source by source, with the keys of its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from smartcrawl.registry.library.shortfall import TRIMMED
from smartcrawl.rules.run_orders import INTERRUPTED, ORDER_REASONS
from smartcrawl.run.embed_result import EmbedResult
from smartcrawl.run.library import MOST_LIBRARY_REASONS
from smartcrawl.run.library_dry import DryLibraryResult
from smartcrawl.run.library_steps import StepResult
from smartcrawl.run.run import Run
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.source import SharepointSource

FULL: Final = "full"  #: mode in which every item comes again
#: Reasons of a run that ended before it came to every item.
_UNFINISHED: Final = frozenset({INTERRUPTED, *ORDER_REASONS.values()})


def library_run_failed_items(run: Run) -> int:
    """Return the number of items that a run could not have."""
    return 0 if run.library is None else run.library.failed + run.library.shelf.refused


@dataclass(slots=True)
class LibrarySourceReport:
    """One source of a report; the keys of JSON are in ``as_json``."""

    source: SharepointSource
    mode: str
    reason: str = ""  #: why it was skipped
    complete: bool = False
    reasons: list[str] = field(default_factory=list)
    listed: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    downloaded: int = 0
    processed: int = 0
    failed: int = 0
    skipped: int = 0
    withheld: int = 0
    requests: int = 0
    embedded: EmbedResult | None = None  #: of the step embed
    runs: list[int] = field(default_factory=list)  #: run.no of each run
    adopted: int = 0  #: files that a map of another program named
    integrity: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(
            ("missingInMap", "missingOnDisk", "orphans", "moved", "verified"), 0
        )
    )

    def shown_reasons(self) -> list[str]:
        """Return the first reasons, and the number of the others, which the log has, too."""
        shown, most = self.reasons, MOST_LIBRARY_REASONS
        # Of a download, only the first were kept.
        more = max(len(shown), self.failed if self.runs else 0) - most
        if more <= 0:
            return list(shown)
        return [*shown[:most], f"{more:,} more, each with a line in the log"]

    def as_json(self) -> dict[str, Any]:
        """Return it under the promised keys."""
        values = asdict(self)
        values["reasons"] = self.shown_reasons()
        for name in ("source", "runs", "adopted", "embedded"):
            del values[name]
        if self.embedded is not None:
            values |= self.embedded.as_json() | {"skipped": self.skipped}
        ids = {"sourceId": self.source.source_id, "sourceType": str(self.source.source_type)}
        return ids | values


@dataclass(slots=True)
class LibraryReport:
    """The results of a command or job at a domain, source by source."""

    domain: Domain
    action: str
    mode: str
    scope: str
    is_dry: bool = False
    is_lacking: bool = (
        False  #: whether a source could not be done or is incomplete, or items failed
    )
    is_held: bool = False  #: whether another step is at a source
    archive: str = ""  #: id of the report of a crawl; empty: none was written
    is_stopped: bool = False  #: whether an order ended it before all was done
    sources: dict[str, LibrarySourceReport] = field(default_factory=dict)  #: by source_id

    @property
    def is_incomplete(self) -> bool:
        """Whether not everything was done."""
        return self.is_lacking or self.is_held

    def _of(self, source: SharepointSource) -> LibrarySourceReport:
        new = LibrarySourceReport(source, mode=self.mode)
        return self.sources.setdefault(source.source_id, new)

    def skip(self, source: SharepointSource, why: str, *, is_held: bool = False) -> None:
        """Note a source that was left out (R3-68); the others go on."""
        found = self._of(source)
        found.reason, found.complete = why, False
        self.is_held |= is_held
        self.is_lacking |= not is_held

    def is_skipped(self, source: SharepointSource) -> bool:
        """Whether an earlier step left a source out."""
        found = self.sources.get(source.source_id)
        return found is not None and bool(found.reason)

    def add_run(self, source: SharepointSource, run: Run) -> None:
        """Note the run of a source; the rest of a run that was paused adds to its beginning."""
        found, result, library = self._of(source), run.result, run.library
        assert result is not None, "it ended"
        assert library is not None, "it is a library"
        found.complete = result.complete
        trimmed = [note for note in result.notes if note.startswith(f"{TRIMMED}:")]
        found.reasons = [*result.reasons, *trimmed, *library.reasons]
        found.runs.append(run.opened.no)
        found.adopted += library.adopted
        found.requests += library.requests
        found.downloaded += library.downloaded
        found.added += library.added
        found.changed += library.changed
        # Pages that an undo restored have no file, and the sweep removes them alone.
        found.removed += max(library.removed, result.removed)
        found.withheld = result.withheld
        found.failed = library_run_failed_items(run)
        found.complete &= not found.failed
        found.listed = library.listed
        found.skipped = library.skipped
        known = library.listed
        if not _UNFINISHED.isdisjoint(result.reasons):
            known = min(known, result.visits)  # the others were not compared or read
        found.unchanged = max(0, known - found.added - found.changed - found.failed)
        findings = library.findings
        found.mode = FULL if findings.falls_back else found.mode
        found.integrity = {
            "missingInMap": findings.missing_in_map,
            "missingOnDisk": findings.missing_on_disk,
            "orphans": found.integrity["orphans"] + findings.orphans,
            "moved": found.integrity["moved"] + findings.moved,
            "verified": findings.verified,
        }
        if not result.complete or found.failed or found.withheld:
            self.is_lacking = True

    def add_dry_run(
        self, source: SharepointSource, result: DryLibraryResult, requests: int
    ) -> None:
        """Note the counts of a dry run of a source."""
        found, findings = self._of(source), result.findings
        found.mode = FULL if findings.falls_back else found.mode
        found.complete, found.reasons = not result.reasons, [*result.reasons, *result.notes]
        for name in ("listed", "added", "changed", "removed", "downloaded", "failed", "skipped",
                     "withheld"):  # fmt: skip
            setattr(found, name, getattr(result, name))
        found.unchanged = result.listed - result.added - result.changed - result.failed
        found.requests = requests
        found.integrity = {
            "missingInMap": findings.missing_in_map,
            "missingOnDisk": findings.missing_on_disk,
            "orphans": findings.orphans,
            "moved": findings.moved,
            "verified": findings.verified,
        }
        if not found.complete or found.failed or found.withheld:
            self.is_lacking = True

    def add_step(self, source: SharepointSource, result: StepResult) -> None:
        """Note a step that needs no crawl."""
        found = self._of(source)
        found.complete = not result.failed and (found.complete or not found.runs)
        found.processed += result.processed
        found.failed += result.failed
        found.skipped += result.skipped
        found.reasons += result.reasons
        self.is_stopped |= result.is_stopped
        found.integrity |= result.integrity
        if result.failed or result.skipped:
            self.is_lacking = True

    def add_embedded(self, source: SharepointSource, result: EmbedResult) -> None:
        """Note the step embed."""
        found = self._of(source)
        found.embedded = result
        found.skipped += result.skipped
        found.reasons = [*found.reasons, *result.reasons]
        if self.action == "embed":
            found.complete = result.is_whole
            found.listed, found.unchanged = result.items, result.unchanged
        found.complete &= result.is_whole
        if not result.is_whole:
            self.is_lacking = True

    def saved(self) -> list[dict[str, Any]]:
        """Return the sources as JSON, for a job that goes on later."""
        saved = []
        for source_id, found in self.sources.items():
            values = asdict(replace(found, embedded=None))
            del values["source"], values["embedded"]
            saved.append({"source_id": source_id, **values})
        return saved

    def restore(
        self, saved: Iterable[Mapping[str, Any]], sources: Iterable[SharepointSource]
    ) -> None:
        """Begin with what ``saved`` returned before the job was paused."""
        by_id = {source.source_id: source for source in sources}
        for one in saved:
            values = dict(one)
            source = by_id.get(values.pop("source_id"))
            if source is not None:
                self.sources[source.source_id] = LibrarySourceReport(source, **values)

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
