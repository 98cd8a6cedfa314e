"""The addresses on a command line, and tables of sources.toml with mistakes."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Final

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.file_urls import normalize_file_url, url_of_folder
from smartcrawl.model.options import Options
from smartcrawl.model.urls import normalize_url, url_digest
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources
from smartcrawl.registry.names import stored_source_names
from smartcrawl.registry.removal.purge import known_record_rows
from smartcrawl.reports.today import reported_sources_today
from smartcrawl.sources.declared import DeclaredSources
from smartcrawl.terminal.output import print_complaint

_RELATIVE: Final = re.compile(r"~|\.\.?(?:/|\Z)")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


def address_argument(text: str, connection: Connection, options: Options) -> str:
    """Return the address that a word stands for: a path becomes the URL of its file.

    A word without a scheme is a path if it begins with a dot or ``~``, or if there is such a file.
    So is one that the registry knows, or that is below the root of a source of files.
    """
    if text[:5].lower() == "file:":
        return normalize_file_url(text) or text
    if not text or "\0" in text or _SCHEME.match(text):
        return text
    path = os.path.abspath(os.path.expanduser(text))
    url = url_of_folder(path)
    is_path = _RELATIVE.match(text) or os.path.lexists(path)
    return url if is_path or _is_of_files(url, connection, options) else text


def _is_of_files(url: str, connection: Connection, options: Options) -> bool:
    """Whether the URL of a file is known, or below the root of a source."""
    if known_record_rows(connection, url_digest(normalize_url(url, options.trackers))):
        return True
    declared = load_stored_jobs_and_sources(options, connection)
    names = sorted({*stored_source_names(connection), *declared})
    today = reported_sources_today(connection, declared, names)
    return any(source.traits.is_listed and source.scope.holds(url) for source in today)


def print_wrong_tables(name: str, declared: DeclaredSources, sources: Sequence[str]) -> None:
    """Print what is wrong in the tables of some sources; ``sources`` empty means all."""
    try:
        declared.check(sources or None)
    except SourceError as error:
        print_complaint(name, str(error))
