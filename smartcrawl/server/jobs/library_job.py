"""Jobs of document libraries, as stored (E-18, E-19; R3-12)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from smartcrawl.model.times import iso_time
from smartcrawl.registry.processes import PROCESS_COLUMNS, Started
from smartcrawl.server.jobs.job import RunStage
from smartcrawl.server.jobs.program import CrawlProgram
from smartcrawl.server.jobs.runner import Work

COLUMNS: Final = f"""
k.id, k.domain, k.action, k.choices, k.state, k.requested, k.run, k.result, k.reasons,
k.exit_status, k.created_at, k.ended_at, {PROCESS_COLUMNS}
"""


@dataclass(frozen=True, slots=True)
class LibraryChoices:
    """The options of a job's command, as the client gave them."""

    mode: str = "incremental"
    scope: str = "all"
    source: str | None = None  #: source_id
    dry_run: bool = False
    retry_batches: int = 2

    @classmethod
    def parsed(cls, text: str) -> Self:
        """Return the stored ones."""
        return cls(**json.loads(text))

    def stored(self) -> str:
        """Return them as JSON."""
        return json.dumps(asdict(self))

    def words(self) -> list[str]:
        """Return them as words of the command."""
        words = ["--mode", self.mode, "--scope", self.scope]
        words += ["--retry-batches", str(self.retry_batches)]
        if self.source is not None:
            words += ["--source", self.source]
        return [*words, "--dry-run"] if self.dry_run else words


@dataclass(frozen=True, slots=True)
class LibraryJob(Work):
    """A job, by the name of its domain. Times are Unix seconds."""

    action: str  #: of ``smartcrawl library``
    choices: LibraryChoices
    stage: RunStage
    requested: str | None  #: an order that is under way
    run: int | None  #: run.no of a run that is paused
    result: dict[str, Any] | None  #: None before its end, and if its process died
    reasons: tuple[str, ...]  #: why it failed
    exit_status: int | None
    created_at: int
    ended_at: int | None

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Return the job of a row with COLUMNS."""
        return cls(
            id=row[0],
            name=row[1],
            started=Started.of(row[12:]),
            action=row[2],
            choices=LibraryChoices.parsed(row[3]),
            stage=RunStage(row[4]),
            requested=row[5],
            run=row[6],
            result=None if row[7] is None else json.loads(row[7]),
            reasons=tuple(json.loads(row[8])),
            exit_status=row[9],
            created_at=row[10],
            ended_at=row[11],
        )

    @property
    def source(self) -> None:
        """None: its process has no lease of its own."""

    def words(self, program: CrawlProgram) -> list[str]:
        """Return the command of its step."""
        step = [*program.library, self.action, self.name, *self.choices.words()]
        return [*step, "-a", f"_job={self.id}"]

    def detail(self) -> dict[str, Any]:
        """Return it under the keys of ``LibraryJobDetail``."""
        return {
            "job_id": self.id,
            "type": "library",
            "domain": self.name,
            "action": self.action,
            "mode": self.choices.mode,
            "scope": self.choices.scope,
            "source": self.choices.source,
            "dry_run": self.choices.dry_run,
            "status": self.stage.value,
            "requested": self.requested,
            "created_at": iso_time(self.created_at),
            "ended_at": iso_time(self.ended_at),
            "exit_status": self.exit_status,
            "reasons": list(self.reasons),
            "result": self.result,
        }

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.stage in (RunStage.ENDED, RunStage.CANCELLED)

    def final(self) -> dict[str, Any]:
        """Return the JSON that a stream ends with: its result, or why it has none."""
        if self.result is not None:
            return self.result
        return {
            "domain": self.name,
            "action": self.action,
            "mode": self.choices.mode,
            "scope": self.choices.scope,
            "dryRun": self.choices.dry_run,
            "complete": False,
            "sources": [],
            "reason": "; ".join(self.reasons) or f"the job is {self.stage}",
        }
