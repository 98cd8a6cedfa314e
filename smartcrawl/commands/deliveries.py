"""The delivery of notices at the end of a command."""

from __future__ import annotations

import logging
import time
from contextlib import closing

from smartcrawl.model.exceptions import RegistryFullError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.notices import end_lost_notices, lost_notice_targets

logger = logging.getLogger(__name__)


def deliver_command_notices(options: Options) -> SmartcrawlError | None:
    """Send the notices that wait, for ten seconds at most; later commands send the rest.

    Without any target, those that wait since a day are given up. Return the error that prevented
    it, which is logged, except that of a full disk.
    """
    if options.notify:
        from smartcrawl.run.notices import deliver_notices  # noqa: PLC0415  # else none is needed

        return deliver_notices(options)
    try:
        _end_notices(options)
    except SmartcrawlError as error:
        # What failed before, and the check, say that the disk is full.
        level = logging.DEBUG if isinstance(error, RegistryFullError) else logging.ERROR
        logger.log(level, "notices without a target were not given up: %s", error)
        return error
    return None


def _end_notices(options: Options) -> None:
    """Give up notices whose targets lost their tables, the last one included."""
    database = registry_database(options.registry)
    if not database.exists():
        return
    with database.translated("read"), closing(database.reports()) as connection:
        if not lost_notice_targets(connection, ()):
            return
    with database.translated("write"), closing(database.open()) as connection:
        end_lost_notices(connection, (), int(time.time()))
