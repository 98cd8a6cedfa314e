"""Jobs of document libraries, as stored (E-18, E-19; R3-12)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from smartcrawl.model.processes import Process
from smartcrawl.model.times import iso_time
from smartcrawl.server.jobs.job import RunStage

COLUMNS: Final = """
no, id, domain, action, choices, state, requested, run, result, reasons, exit_status, created_at,
ended_at, starts, starts_before, server, watched_at, host, pid, process_start
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
class LibraryJob:
    """A job. Times are Unix seconds."""

    no: int
    id: str
    domain: str
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
    starts: int  #: processes so far
    starts_before: int  #: those before it was resumed last
    server: Process | None  #: that watches its process
    watched_at: int
    process: Process | None  #: that carries it out; None: not known

    @classmethod
    def of(cls, row: Sequence[Any]) -> Self:
        """Return the job of a row with COLUMNS."""
        host, pid, start = row[17:20]
        return cls(
            no=row[0],
            id=row[1],
            domain=row[2],
            action=row[3],
            choices=LibraryChoices.parsed(row[4]),
            stage=RunStage(row[5]),
            requested=row[6],
            run=row[7],
            result=None if row[8] is None else json.loads(row[8]),
            reasons=tuple(json.loads(row[9])),
            exit_status=row[10],
            created_at=row[11],
            ended_at=row[12],
            starts=row[13],
            starts_before=row[14],
            server=None if row[15] is None else Process.parsed(row[15]),
            watched_at=row[16] or 0,
            process=None if pid is None else Process(host, pid, start),
        )

    def detail(self) -> dict[str, Any]:
        """Return it under the keys of ``LibraryJobDetail``."""
        return {
            "job_id": self.id,
            "type": "library",
            "domain": self.domain,
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
            "domain": self.domain,
            "action": self.action,
            "mode": self.choices.mode,
            "scope": self.choices.scope,
            "dryRun": self.choices.dry_run,
            "complete": False,
            "sources": [],
            "reason": "; ".join(self.reasons) or f"the job is {self.stage}",
        }
