"""The sources that are in the registry, not in sources.toml: jobs, and single pages.

The process of a library's job records its own end in the job's row (ADR 87), so that it is true if
the server that started it died.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pydantic import ValidationError

from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.items import stored_row_of_documents_source
from smartcrawl.registry.processes import ProcessKind, ProcessRows
from smartcrawl.rules.model import RunOrder
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import DeclaredSources, load_declared_sources
from smartcrawl.sources.jobs import JobError
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.sharepoint.domains import declared_library_sources

if TYPE_CHECKING:
    from smartcrawl.sources.jobs import JobDefinition


logger = logging.getLogger(__name__)


_LIVE = """
SELECT name, definition FROM job WHERE deleted_at IS NULL AND NOT declared ORDER BY no
"""


def stored_job_rows(connection: Connection) -> dict[str, JobDefinition]:
    """Return the definitions of the jobs that were not deleted, by name.

    Those of declared sources are in sources.toml. One that another version stored, and that the
    rules of this one refuse, is left out: it must not keep other sources from being crawled.
    """
    rows: list[Any] = connection.execute(_LIVE).fetchall()
    if not rows:
        return {}
    from smartcrawl.sources.jobs import JobDefinition  # noqa: PLC0415  # as above

    found = {}
    for name, text in rows:
        try:
            definition = JobDefinition.model_validate(json.loads(text) | {"name": name})
            definition.source()
        except (ValidationError, JobError):
            logger.warning(
                "job %s is left out because its definition is not valid; replace it", name
            )
        else:
            found[name] = definition
    return found


def stored_jobs_of_sources(
    connection: Connection, known: Mapping[str, Source]
) -> dict[str, JobDefinition]:
    """Return the jobs that stand for the sources of their names; a declared source wins."""
    jobs = stored_job_rows(connection)
    return {name: job for name, job in jobs.items() if name in known and known[name].of_job}


def load_stored_jobs(options: Options) -> dict[str, JobDefinition]:
    """Return the definitions of the live jobs that no table of sources.toml has the name of.

    Without a registry there are none, and none is created.
    """
    database = registry_database(options.registry)
    if not database.exists():
        return {}
    with database.translated("read"):
        connection = database.open()
        try:
            jobs = stored_job_rows(connection)
        finally:
            connection.close()
    declared = load_declared_sources(*options.source_files)
    return {name: job for name, job in jobs.items() if not declared.declares(name)}


def load_stored_jobs_and_sources(options: Options, connection: Connection) -> DeclaredSources:
    """Return the declared sources, those of the live jobs, and that of single pages.

    A declared name wins. Libraries are declared in the files of their domains.
    """
    known = _declared(options)
    for name, job in stored_job_rows(connection).items():
        if not known.declares(name):
            known[name] = job.source()
    is_free = not known.declares(DOCUMENTS.name)
    documents = stored_row_of_documents_source(connection) if is_free else None
    if documents is not None:
        known[DOCUMENTS.name] = documents
    return known


def load_sources_with_stored_jobs(options: Options) -> DeclaredSources:
    """Return the sources of ``load_stored_jobs_and_sources``, over a connection of its own.

    Without a registry there are only declared ones, and none is created.
    """
    database = registry_database(options.registry)
    if not database.exists():
        return _declared(options)
    with database.translated("read"):
        connection = database.open()
        try:
            return load_stored_jobs_and_sources(options, connection)
        finally:
            connection.close()


def _declared(options: Options) -> DeclaredSources:
    """Return the sources of sources.toml, and the libraries of all domains."""
    known = load_declared_sources(*options.source_files)
    for source in declared_library_sources(options.sharepoint.storage):
        known.setdefault(source.name, source)
    return known


PAUSED: Final = "paused"
CANCELLED: Final = "cancelled"
ENDED: Final = "ended"
_OPEN: Final = "state IN ('waiting', 'running')"
_BEGIN: Final = f"""
UPDATE library_job SET state = 'running' WHERE id = ? AND {_OPEN} RETURNING progress
"""
_ORDER: Final = "SELECT requested FROM library_job WHERE id = ?"
_PROGRESS: Final = f"UPDATE library_job SET progress = ? WHERE id = ? AND {_OPEN}"
_END: Final = f"""
UPDATE library_job SET state = ?, requested = NULL, run = ?, progress = coalesce(?, progress),
       result = ?, reasons = ?, exit_status = ?, ended_at = ?
 WHERE id = ? AND {_OPEN}
"""
_ORDERS: Final = frozenset(RunOrder)


class LibraryJobEnd(NamedTuple):
    """The end of a job's process."""

    state: str  #: PAUSED, CANCELLED or ENDED
    exit_status: int | None  #: None: it died, or did not begin
    result: Mapping[str, Any] | None = None  #: JSON; None: it is paused
    progress: Mapping[str, Any] | None = None  #: JSON that a resumed process begins with
    run: int | None = None  #: run.no of the run that is paused
    reasons: Sequence[str] = ()


def begin_library_job_row(connection: Connection, id_: str) -> dict[str, Any] | None:
    """Record that this process carries out a job; return its progress so far.

    None: the job is over, was never ordered, or another process carries it out. The caller's
    transaction.
    """
    if not ProcessRows(connection, ProcessKind.LIBRARY).record_first(id_):
        return None
    found = connection.execute(_BEGIN, (id_,)).get
    return None if found is None else dict(json.loads(found))


def library_job_order_row(connection: Connection, id_: str) -> RunOrder | None:
    """Return the order to a job; one row is read."""
    found = connection.execute(_ORDER, (id_,)).get
    return RunOrder(found) if found in _ORDERS else None


def store_library_job_progress(
    connection: Connection, id_: str, progress: Mapping[str, Any]
) -> None:
    """Record what a resumed process need not repeat. The caller's transaction."""
    connection.execute(_PROGRESS, (json.dumps(progress), id_))


def end_library_job_row(connection: Connection, id_: str, end: LibraryJobEnd, now: int) -> None:
    """Record the end of a job's process. The caller's transaction."""
    values = (
        end.state,
        end.run,
        None if end.progress is None else json.dumps(end.progress),
        None if end.result is None else json.dumps(end.result),
        json.dumps(list(end.reasons)),
        end.exit_status,
        None if end.state == PAUSED else now,
        id_,
    )
    connection.execute(_END, values)
