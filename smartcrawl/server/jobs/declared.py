"""Declared sources as jobs: scheduled and ordered, but edited in sources.toml (ADR 57).

The id of such a job follows from its name. A row exists once a client has scheduled or ordered it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import SourceError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.rules.run_orders import JobAction, JobStatus
from smartcrawl.rules.visibility import Visibility
from smartcrawl.server.jobs.orders import refuse_job_action
from smartcrawl.server.jobs.store import Job, JobStore, stale_job_version
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.jobs import (
    CONFLICT,
    INVALID_INPUT,
    NOT_FOUND,
    JobDefinition,
    JobError,
    JobSchedule,
)
from smartcrawl.sources.kinds import SITE

logger = logging.getLogger(__name__)

#: Parts of a definition that sources.toml has for a declared source.
_EDITED_THERE: Final = ("name", "seed_urls", "config", "filters")
#: Parts that a definition needs, and that are not read.
_ANY_SOURCE: Final = {"name": "declared", "seed_urls": ["https://docs.example.com/"]}
_MESSAGE: Final = "The source is declared"
_LIVE_NAMES = "SELECT name FROM job WHERE deleted_at IS NULL AND NOT declared"
_INSERT = """
INSERT INTO job (id, name, definition, status, created_at, declared)
VALUES (?, ?, ?, 'created', ?, TRUE) ON CONFLICT (id) DO NOTHING
"""
_LOCK = "UPDATE job SET version = version WHERE id = ?"
_SCHEDULE = """
UPDATE job SET definition = ?, status = ?, due_at = ?, version = version + 1 WHERE id = ?
"""
_ANEW = "UPDATE job SET complete = NULL, reasons = '[]' WHERE id = ?"
#: A new schedule begins the job anew. It is the only way to crawl its source once more.
_OVER: Final = frozenset({JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED})
_LIVE_RUN: Final = """
SELECT 1 FROM job_run WHERE job = ? AND state IN ('waiting', 'running', 'paused') LIMIT 1
"""
_STAY: Final = frozenset({JobStatus.RUNNING, JobStatus.PAUSED})


def api_job_id(name: str) -> str:
    """Return the id of the job of a declared source, which is the same on each server.

    >>> api_job_id("docs")
    'job_0f985b3eccd29128'
    """
    return f"job_{sha256(b'declared:' + name.encode()).hexdigest()[:16]}"


class DeclaredHook(NamedTuple):
    """The hook of a source (R1-53)."""

    source: Source
    folder: Path  #: where a relative path to the file of its token starts


class _Declared(NamedTuple):
    source: Source
    spider: str
    visibility: Visibility | None  #: None: the table declares none
    file: Path  #: it has the table


class DeclaredNames:
    """Facts about the declared sources, read again when a file has changed."""

    def __init__(self, *paths: Path) -> None:
        """``paths``: of ``Options.source_files``."""
        self._paths = paths
        self._read: tuple[object, dict[str, _Declared]] = (None, {})
        self._visibilities: Mapping[str, Visibility] = {}

    def __call__(self) -> tuple[str, ...]:
        """Return the names in their order; what has an error stays as before."""
        return tuple(self._found())

    def spider_of(self, name: str) -> str:
        """Return the spider that crawls the source of a job; those of clients are web sites."""
        found = self._found().get(name)
        return SITE.spider if found is None else found.spider

    def file_of(self, name: str) -> str | None:
        """Return the name of the file that declares a source; None: it is not declared."""
        found = self._found().get(name)
        return None if found is None else found.file.name

    def hook_of(self, name: str) -> DeclaredHook | None:
        """Return the hook of a source; None: it declares none, or is not declared."""
        found = self._found().get(name)
        if found is None or found.source.hook is None:
            return None
        return DeclaredHook(found.source, found.file.parent)

    def visibilities(self) -> Mapping[str, Visibility]:
        """Return the visibilities that tables declare, by source."""
        self._found()
        return self._visibilities

    def _found(self) -> dict[str, _Declared]:
        mark = self._mark()
        before, known = self._read
        if mark != before:
            try:
                declared = load_declared_sources(*self._paths)
                kept = {name: known[name] for name in declared.wrong if name in known}
                found = {
                    name: _Declared(
                        source,
                        source.traits.spider,
                        source.declared_visibility,
                        declared.file_of(name),
                    )
                    for name, source in declared.items()
                }
                known = found | kept
                declared.check()
            except SourceError as error:
                logger.error("declared sources stay as they were: %s", error)
            self._visibilities = {
                name: one.visibility for name, one in known.items() if one.visibility is not None
            }
            self._read = (mark, known)
        return known

    def _mark(self) -> object:
        return tuple(map(_mark_of, self._paths))


def _mark_of(path: Path) -> object:
    try:
        found = path.stat()
    except OSError as error:
        return error.errno
    return found.st_mtime_ns, found.st_size, found.st_ino


class KnownJobs:
    """The jobs of clients and those of declared sources, for one thread.

    A job of a client that has the name of a declared source stands for both.
    """

    def __init__(self, database: Database, connection: Connection, names: Sequence[str]) -> None:
        """``names``: of the declared sources."""
        self._store = JobStore(database, connection)
        self._connection = connection
        self._names = names

    def get(self, id_: str) -> Job:
        """Return a job.

        Raises:
            JobError: there is none of this id, or its source is declared no more.
        """
        job = self._stored(id_)
        if job is None:
            job = next((job for job in self._declared() if job.id == id_), None)
        if job is None or (job.declared and job.name not in self._names):
            raise JobError(NOT_FOUND, field="job_id", reason="there is no job of this id")
        return job

    def page(
        self,
        *,
        status: JobStatus | None = None,
        limit: int = 100,
        offset: int = 0,
        hidden: Sequence[str] = (),
    ) -> tuple[list[Job], int]:
        """Return some jobs, and the number of all: those of clients, then those of sources.

        ``hidden``: names of sources that the caller may not read.
        """
        jobs, stored = self._store.page(status=status, limit=limit, offset=offset, hidden=hidden)
        declared = [
            job
            for job in self._declared()
            if status in (None, job.status) and job.name not in hidden
        ]
        first = max(0, offset - stored)
        return jobs + declared[first : first + limit - len(jobs)], stored + len(declared)

    def find_declared(self, id_: str) -> Job | None:
        """Return the job of a declared source; None: it is none.

        Raises:
            JobError: its source is declared no more.
        """
        job = self._stored(id_)
        if job is not None and not job.declared:
            return None
        try:
            return self.get(id_)
        except JobError:
            if job is not None:
                raise
            return None

    def schedule(
        self, job: Job, body: Mapping[str, Any], now: int, *, version: int | None = None
    ) -> Job:
        """Give the job of a declared source the schedule of a request, which begins it anew.

        A schedule of one time is due at once; while a run waits or is open, it counts as that one.

        Raises:
            JobError: the body has another part of a definition, or is wrong; the version is stale.
        """
        schedule, cron = _checked(job.name, body, now)
        self._add(job, now)
        self._connection.execute(_LOCK, (job.id,))
        found = self._store.get(job.id)
        if version is not None and version != found.version:
            raise stale_job_version(found.version, version)
        status = found.status
        due_at: int | None = now
        if cron is not None:
            due_at = cron
            status = status if status in _STAY else JobStatus.SCHEDULED
        else:
            if self._connection.execute(_LIVE_RUN, (found.no,)).get is not None:
                due_at = None
            status = JobStatus.CREATED if status in _OVER else status
        text = json.dumps({"schedule": schedule.model_dump()})
        row = (text, status, due_at, job.id)
        self._connection.execute(_SCHEDULE, row)
        if found.status in _OVER:
            self._connection.execute(_ANEW, (job.id,))
        return self._store.get(job.id)

    def prepare_order(self, id_: str, action: JobAction, now: int) -> None:
        """Add the row of a declared source to which an order is given.

        Raises:
            JobError: a job without a row does not take the order, or is declared no more.
        """
        job = self.find_declared(id_)
        if job is not None and job.no == 0:
            refuse_job_action(job.status, action, may_start=not job.schedule.recurring)
            self._add(job, now)

    def _add(self, job: Job, now: int) -> None:
        text = json.dumps({"schedule": job.schedule.model_dump()})
        self._connection.execute(_INSERT, (job.id, job.name, text, now))

    def _stored(self, id_: str) -> Job | None:
        try:
            return self._store.get(id_)
        except JobError:
            return None

    def _declared(self) -> list[Job]:
        """Return the jobs of the declared sources, in the order of the file."""
        names = self._names and self._unused_names()
        stored = self._store.declared() if names else {}
        return [stored.get(name) or _not_stored(name) for name in names]

    def _unused_names(self) -> list[str]:
        rows: Any = self._connection.execute(_LIVE_NAMES).fetchall()
        used = {name for (name,) in rows}
        return [name for name in self._names if name not in used]


def refuse_job_deletion(job: Job | None) -> None:
    """Refuse to delete the job of a declared source.

    Raises:
        JobError: with the remedy.
    """
    if job is not None:
        reason = f"Job '{job.name}' is declared in sources.toml: remove it there"
        raise JobError(CONFLICT, field="job_id", reason=reason, message=_MESSAGE)


def _checked(name: str, body: Mapping[str, Any], now: int) -> tuple[JobSchedule, int | None]:
    """Return the schedule of a request, and its next time; None: it runs once.

    Raises:
        JobError: with the first problem.
    """
    edited = next((part for part in _EDITED_THERE if part in body), None)
    if edited is not None:
        reason = (
            f"Job '{name}' is declared in sources.toml: edit it there;"
            " here only schedule and version can be changed"
        )
        raise JobError(CONFLICT, field=edited, reason=reason, message=_MESSAGE)
    if "schedule" not in body:
        raise JobError(INVALID_INPUT, field="schedule", reason="schedule is missing")
    definition = JobDefinition.checked({**_ANY_SOURCE, **body}, now)
    cron = definition.cron(now)
    return definition.schedule, None if cron is None else cron.next_fire(now)


def _not_stored(name: str) -> Job:
    """Return the job of a declared source that no client has scheduled or ordered."""
    return Job(
        no=0,
        id=api_job_id(name),
        name=name,
        version=1,
        definition=None,
        schedule=JobSchedule(),
        status=JobStatus.CREATED,
        complete=None,
        reasons=(),
        due_at=None,
        created_at=None,
        started_at=None,
        completed_at=None,
    )
