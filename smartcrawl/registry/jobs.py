"""The jobs of the registry as sources: a job is one like a table of sources.toml."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import database_of
from smartcrawl.sources.declared import Source, load_declared_sources

if TYPE_CHECKING:  # imports the schedule of jobs, which few commands need
    from smartcrawl.sources.jobs.definition import JobDefinition

_LIVE = """
SELECT name, definition FROM job WHERE deleted_at IS NULL AND NOT declared ORDER BY no
"""


def live_job_definitions(connection: Connection) -> dict[str, JobDefinition]:
    """Return the definitions of the jobs that were not deleted, by name.

    Those of declared sources are in sources.toml.
    """
    rows: list[Any] = connection.execute(_LIVE).fetchall()
    if not rows:
        return {}
    from smartcrawl.sources.jobs.definition import JobDefinition  # noqa: PLC0415  # as above

    return {
        name: JobDefinition.model_validate(json.loads(text) | {"name": name}) for name, text in rows
    }


def load_live_jobs(options: Options) -> dict[str, JobDefinition]:
    """Return the definitions of the live jobs that no table of sources.toml has the name of.

    Without a registry there are none, and none is created.
    """
    database = database_of(options.registry)
    if not database.exists():
        return {}
    with database.translated("read"):
        connection = database.open()
        try:
            jobs = live_job_definitions(connection)
        finally:
            connection.close()
    declared = load_declared_sources(options.sources_file)
    return {name: job for name, job in jobs.items() if name not in declared}


def load_known_sources(options: Options, connection: Connection) -> dict[str, Source]:
    """Return the declared sources, then those of the live jobs; a declared name wins."""
    known = load_declared_sources(options.sources_file)
    for name, job in live_job_definitions(connection).items():
        known.setdefault(name, job.source())
    return known
