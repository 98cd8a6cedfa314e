"""``crawl --save NAME``: a source that an address or a folder began becomes a declared one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.options import Options
from smartcrawl.model.urls import unsigned_url, url_path
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.naming import check_new_source_name, name_source_row
from smartcrawl.registry.site_parts import chosen_keys_of
from smartcrawl.rules.extent import Extent, seed_folder
from smartcrawl.run.run import Run
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.fields import NAME, NAME_RULE
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.scope import compile_scope_pattern
from smartcrawl.sources.site import SiteSource
from smartcrawl.terminal.changed_settings import add_source_to_settings_file


def check_save(options: Options, name: str, arguments: Mapping[str, str]) -> None:
    """Check that a source can be saved under a name, before it is crawled.

    Raises:
        SourceError: it cannot; with the remedy.
    """
    if not arguments.keys() & {"url", "root", "sitemap"} or "source" in arguments:
        raise SourceError(
            f"--save {name} is for an address or a folder that is not declared: give one of them"
        )
    if not NAME.fullmatch(name):
        raise SourceError(f"--save is {name!r}: a name has {NAME_RULE}, as in docs")
    if options.elasticsearch is not None:
        raise SourceError(
            f"--save {name}: documents in Elasticsearch have the name of their source, which"
            f" stays. Declare [sources.{name}] in {options.sources_file}, crawl it, and forget the"
            " other source"
        )
    declared = load_declared_sources(*options.source_files)
    if declared.declares(name):
        raise SourceError(
            f"--save {name}: {declared.file_of(name)} declares a source of that name already:"
            " choose another name"
        )
    database = registry_database(options.registry)
    if database.exists():
        with database.translated("read"), closing(database.reports()) as connection:
            check_new_source_name(connection, name)


def save_crawled_source(settings: Mapping[str, Any], run: Run, name: str) -> Path:
    """Declare the source of a run that has ended, rename the stored one, and return the file.

    Raises:
        SourceError: another source has the name by now, or nothing is known of its seed yet.
        RunHeldError: another process crawls it.
        SettingError: the file cannot be changed.
        OSError: it cannot be written.
    """
    source = run.seeds.decided or run.source
    if source.is_open:
        raise SourceError(
            f"{source.name} was not saved as {name}: its address has not answered yet"
        )
    table = source_table(source, run.orders.max_pages)
    since = datetime.now(UTC).isoformat(timespec="seconds")
    name_source_row(run.registry.database, source.name, name, since)
    try:
        return add_source_to_settings_file(settings, name, table)
    except BaseException:
        name_source_row(run.registry.database, name, source.name, since, declared=False)
        raise


def source_table(source: Source, max_pages: int = 0) -> dict[str, Any]:
    """Return the table by which a file declares an ad-hoc source; ``max_pages``: of its runs."""
    keys = chosen_keys_of(source)
    if max_pages:
        keys["max_pages"] = max_pages
    if isinstance(source, FilesSource):
        root = source.folder if source.is_local else source.root
        return {"kind": source.kind, "root": root, **keys}
    if isinstance(source, GithubSource):
        return {"kind": source.kind, "url": source.url, **keys}
    assert isinstance(source, SiteSource), "libraries are declared in their own files"
    found: dict[str, Any] = {}
    if source.seeds:
        found["seeds"] = [_saved_seed(source)]
    if source.sitemaps:
        found["sitemaps"] = list(source.sitemaps)
    if source.extent is not Extent.HOST:
        found["scope"] = str(source.extent)
    seeds, patterns = found.get("seeds", []), list(keys.get("url_patterns", ()))
    wanted = [compile_scope_pattern(pattern) for pattern in patterns]
    if patterns and not any(one.search(seed) for one in wanted for seed in seeds):
        keys["url_patterns"] = [*patterns, *(f"^{re.escape(seed)}$" for seed in seeds)]
    return {**found, **keys}


def _saved_seed(source: SiteSource) -> str:
    """Return the seed of which the table says the same part: the page after its redirects."""
    start, last = source.start, (source.ways or source.seeds)[-1]
    if start is None or source.extent in (Extent.HOST, Extent.DOMAIN):
        return unsigned_url(source.seeds[0])
    if source.extent is Extent.BELOW and seed_folder(url_path(last)) == url_path(start):
        return last
    return start
