"""The order that a line of ``scrapy library`` gives, after its words were checked."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from smartcrawl.model.options import Options
from smartcrawl.run.library_job import LibraryJob
from smartcrawl.run.library_report import LibraryReport
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.source import SharepointSource

DOWNLOAD: Final = "download"


@dataclass(frozen=True, slots=True)
class LibraryOrder:
    """An action at sources of a domain."""

    action: str
    domain: Domain
    sources: Sequence[SharepointSource]
    options: Options
    words: Namespace  #: options of the command line
    job: LibraryJob | None = None  #: of the HTTP API, that this process carries out

    @property
    def is_full(self) -> bool:
        """Whether every item comes again."""
        return bool(self.words.mode == "full")

    @property
    def is_dry(self) -> bool:
        """Whether nothing is changed, and all of it only counted."""
        return bool(self.words.dry_run)

    def is_ending(self) -> bool:
        """Whether an order to the job was found, so that nothing more is to begin."""
        return self.job is not None and self.job.is_ending()

    def is_done(self, step: str, source: SharepointSource) -> bool:
        """Whether the job had done a step at a source before it was paused."""
        done = {} if self.job is None else self.job.progress.get("done", {})
        return source.source_id in done.get(step, ())

    def is_paused(self, source: SharepointSource) -> bool:
        """Whether the crawl of a source goes on, as the job was paused there."""
        return self.job is not None and self.job.progress.get("paused") == source.source_id

    def save(
        self,
        report: LibraryReport,
        *,
        done: tuple[str, SharepointSource] | None = None,
        paused: SharepointSource | None = None,
        incomplete: bool,
    ) -> None:
        """Record how far the job came: the step at a source is done, or its crawl was stopped."""
        if self.job is None:
            return
        so_far = self.job.progress
        steps = {step: list(ids) for step, ids in so_far.get("done", {}).items()}
        if done is not None:
            steps.setdefault(done[0], []).append(done[1].source_id)
        self.job.save(
            {
                "done": steps,
                "sources": report.saved(),
                "paused": None if paused is None else paused.source_id,
                "incomplete": incomplete,
            }
        )
