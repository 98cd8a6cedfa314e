"""The domain that a request names."""

from __future__ import annotations

import logging
from pathlib import Path

from smartcrawl.model.exceptions import SourceError
from smartcrawl.server.errors import ApiError, api_not_found
from smartcrawl.sources.sharepoint.domains import (
    DOMAIN_ID,
    Domain,
    load_sharepoint_domain,
    sharepoint_domain_ids,
)

logger = logging.getLogger(__name__)


def api_requested_domain(storage: Path, domain_id: str) -> Domain:
    """Return a domain; problems of its domain.json, with its place, are only logged.

    Raises:
        ApiError: there is none (R3-67), or its domain.json has problems.
    """
    if not DOMAIN_ID.fullmatch(domain_id) or domain_id not in sharepoint_domain_ids(storage):
        raise api_not_found("Domain not found", reason="there is no domain of this id")
    try:
        return load_sharepoint_domain(storage, domain_id)
    except SourceError as error:
        logger.error("%s", error)
        raise ApiError(
            "INVALID_CONFIG",
            field="domain_id",
            reason="the domain.json of this domain has problems, which the log of this server"
            " names: correct them there",
        ) from error
