"""The beginning of a run whose source logs in: its secrets, who asks, and its session."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from smartcrawl.model.secrets import Secret
from smartcrawl.registry.runs.logins import LoginRows
from smartcrawl.registry.site_parts import has_stored_pages
from smartcrawl.sources.base import Source
from smartcrawl.sources.site import SiteSource

if TYPE_CHECKING:
    from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)


def source_secrets(source: Source) -> dict[str, Secret]:
    """Return the secrets of a source's login, by their places in its table; none without one.

    Raises:
        SettingError: one of them cannot be had.
    """
    if not isinstance(source, SiteSource) or source.auth is None:
        return {}
    return source.auth.read_secrets(source.name)


def prepare_run_login(run: Run, secrets: Mapping[str, Secret]) -> None:
    """Give a run the login of its source, and drop the validators that another reader got.

    Raises:
        SettingError: a secret cannot be sent.
        RegistryError: the registry cannot be read or written.
    """
    source, registry, opened = run.source, run.registry, run.opened
    if not isinstance(source, SiteSource) or opened.over:
        return
    rows = LoginRows(registry.database, registry.connection, source.name, opened.no)
    auth, identity = source.auth, None
    if auth is not None:
        identity = auth.identity(secrets, source.login_origins)
    changed = not opened.joined and rows.identify(identity)
    if changed and has_stored_pages(registry.connection, source.name):
        logger.info("%s: another reader asks now, so all pages are downloaded whole", source.name)
    if auth is None:
        return
    from smartcrawl.run.session import LoginSession  # noqa: PLC0415  # few runs need it

    run.session = LoginSession(source, secrets, rows)
    run.session.when_over = run.incomplete
