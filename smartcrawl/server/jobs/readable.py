"""Jobs and runs as a caller may see them: those of sources that he may read (ADR 147)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.runs.run_orders import PREFIX
from smartcrawl.registry.visibility import stored_visibilities
from smartcrawl.rules.visibility import Reader, Visibility, source_visibility
from smartcrawl.server.jobs.declared import api_job_id
from smartcrawl.server.jobs.library_store import LibraryJobs
from smartcrawl.sources.jobs import CONFLICT, NOT_FOUND, JobError

_NAMES_OF_JOBS: Final = "SELECT name FROM job WHERE deleted_at IS NULL AND NOT declared"
_NAME_OF_JOB: Final = "SELECT name FROM job WHERE id = ?"
_NAME_OF_RUN: Final = "SELECT j.name FROM job_run k JOIN job j ON j.no = k.job WHERE k.id = ?"


class ReadableJobs:
    """The jobs of the sources that one caller may read."""

    def __init__(self, connection: Connection, reader: Reader, declared: Sequence[str]) -> None:
        """``declared``: the names of the declared sources."""
        self._connection = connection
        self._reader = reader
        self._declared = declared
        self._stored = stored_visibilities(connection)

    def may_read(self, name: str) -> bool:
        """Whether the caller may read the source of a job."""
        return self._reader.may_read(name, self._stored.get(name))

    def may_read_library(self, domain: str, source: str | None) -> bool:
        """Whether the caller may read a source of a domain; None: all of them."""
        if not self._reader.sources:
            return True
        return source is not None and self.may_read(f"{domain}.{source}")

    @property
    def lists_libraries(self) -> bool:
        """Whether the caller may read the libraries of all domains."""
        return not self._reader.sources

    def visibility(self, name: str) -> Visibility:
        """Return who reads the source of a job."""
        return source_visibility(self._stored.get(name), self._reader.visibilities.get(name))

    def hidden(self) -> list[str]:
        """Return the names of the sources and jobs that the caller may not see."""
        if self._reader.sees_all or self._reader.reads_every(self._private()):
            return []
        jobs: Any = self._connection.execute(_NAMES_OF_JOBS).fetchall()
        names = {*self._stored, *self._declared, *(name for (name,) in jobs)}
        return sorted(name for name in names if not self.may_read(name))

    def _private(self) -> list[str]:
        stored = self._stored.items()
        return [name for name, visibility in stored if visibility is Visibility.PRIVATE]

    def check(self, id_: str, what: str = "job") -> None:
        """Check that a job, or a run of one, is of a source that the caller may read.

        ``what``: the word for a thing of this id, as the request says that there is none.

        Raises:
            JobError: it is not: it is as if it did not exist.
        """
        if not self.sees(id_):
            raise JobError(NOT_FOUND, field="job_id", reason=f"there is no {what} of this id")

    def sees(self, id_: str) -> bool:
        """Whether a job, or a run of one, is none of a source that the caller may not read."""
        if self._reader.sees_all:
            return True
        library = LibraryJobs(self._connection).find(id_)
        if library is not None:
            return self.may_read_library(library.name, library.choices.source)
        name = self._name_of(id_)
        return name is None or self.may_read(name)

    def check_new(self, name: str) -> None:
        """Check that a job of a name would be one of a source that the caller may read.

        Raises:
            JobError: it would not.
        """
        if not self.may_read(name):
            reason = f"your key does not read a source called '{name}': use an admin key"
            raise JobError(CONFLICT, field="name", reason=reason, message="The name is not free")

    def _name_of(self, id_: str) -> str | None:
        """Return the source of a job, deleted or not, or of a run; None: there is none."""
        statement = _NAME_OF_RUN if id_.startswith(PREFIX) else _NAME_OF_JOB
        row: Any = self._connection.execute(statement, (id_,)).fetchone()
        if row is not None:
            return str(row[0])
        return next((name for name in self._declared if api_job_id(name) == id_), None)
