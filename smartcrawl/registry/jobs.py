"""The sources that are in the registry, not in sources.toml: jobs, and single pages."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.items import stored_row_of_documents_source
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import DeclaredSources, load_declared_sources
from smartcrawl.sources.jobs import JobError
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.sharepoint.domains import declared_library_sources

if TYPE_CHECKING:  # imports the schedule of jobs, which few commands need
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
