"""The addresses that an ad-hoc source is started from, compared with those of the last run."""

from __future__ import annotations

import logging

from smartcrawl.model.options import Options
from smartcrawl.model.redaction import redacted_text
from smartcrawl.registry.registry import Registry
from smartcrawl.registry.runs.starts import last_start_rows, left_out_start_rows
from smartcrawl.sources.base import Source

logger = logging.getLogger(__name__)


def warn_of_other_run_start(
    registry: Registry, source: Source, run: int, given: set[int], options: Options
) -> None:
    """Log the seeds and sitemaps of the last run that are not among the ``given`` numbers."""
    connection = registry.connection
    left = left_out_start_rows(connection, last_start_rows(connection, source.name, run), given)
    if left:
        logger.warning(
            "The start page of %s changed from %s to %s. Pages linked only from the old "
            "one will be removed. To keep both, declare the source in %s and list both "
            "as seeds; to go back, crawl the old one again",
            source.name,
            ", ".join(redacted_text(start.url) for start in left),
            ", ".join(map(redacted_text, source.starts)),
            options.sources_file,
        )
