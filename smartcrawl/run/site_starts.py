"""The site that an address means: one that is stored, or a new one (ADR 144)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from smartcrawl.model.exceptions import SourceError, meant_word
from smartcrawl.model.options import Options
from smartcrawl.model.program import (
    program_argument,
    program_argument_label,
    program_crawl_line,
    program_name,
)
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.urls import unsigned_url, url_endpoint, url_host_key, url_path
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.naming import ad_hoc_name_of_root, is_source_name_stored
from smartcrawl.registry.site_parts import (
    StoredPart,
    has_stored_pages,
    stored_page_depths,
    stored_part_row,
    stored_part_rows,
)
from smartcrawl.reports.text import report_noun
from smartcrawl.rules.connections import bare_connection_host, literal_connection_address
from smartcrawl.rules.extent import EXTENTS, Extent, is_extent_open
from smartcrawl.sources.base import Source, ad_hoc_source_name, belongs_to_source
from smartcrawl.sources.chosen import chosen_keys, source_with_keys
from smartcrawl.sources.files import FilesSource, folder_source_name
from smartcrawl.sources.kinds import DOCUMENTS, SITE
from smartcrawl.sources.scope import Scope, share_addresses
from smartcrawl.sources.site import SiteSource

_WORDS: Final = re.compile(r"[^A-Za-z0-9]+")
_Listed = TypeVar("_Listed", bound=Source)
_LONGEST: Final = 40  #: characters of a path in the name of a source


@dataclass(frozen=True, slots=True)
class WantedPart:
    """What a command wants of the part of a host that a site has."""

    extent: Extent | None = None  #: None: the stored one, or the default of a new address
    accepts: bool = False  #: whether stored pages may get out of scope
    keys: Mapping[str, Any] = field(default_factory=dict)  #: chosen ones, as a table has them


def wanted_part_of_run_arguments(arguments: Mapping[str, Any], kind: str = SITE.name) -> WantedPart:
    """Return what the spider's arguments want of a source that they name by its start.

    Raises:
        SourceError: a word is none of those that it takes.
        SettingError: a key of requests is wrong.
    """
    word = arguments.get("scope")
    if word is not None and word not in EXTENTS:
        raise SourceError(
            f"{program_argument_label('scope')} is {str(word)!r}: expected {', '.join(EXTENTS)}"
            f"{meant_word(str(word), EXTENTS)}"
        )
    yes = str(arguments.get("yes", ""))
    if yes not in ("", "0", "1"):
        raise SourceError(f"yes is {yes!r}: expected 1 or 0")
    extent = None if word is None else Extent(word)
    return WantedPart(extent, accepts=yes == "1", keys=chosen_keys(arguments, kind))


def site_of_address(options: Options, given: SiteSource, wanted: WantedPart) -> SiteSource:
    """Return the site that an address means, with the name and the part that it has.

    ``given``: the source of the address, with the name of its host.

    Raises:
        SourceError: it would share addresses with another source, or stored pages would get out of
            scope.
    """
    database = registry_database(options.registry)
    if not database.exists():
        return source_with_keys(_new(given, wanted), wanted.keys)
    with database.translated("read"), closing(database.reports()) as connection:
        if given.seeds:
            return _known(connection, given, wanted)
        part = stored_part_row(connection, given.name)
        before = {} if part is None else part.chosen
        return source_with_keys(_new(given, wanted), {**before, **wanted.keys})


def named_folder_source(
    connection: Connection | None, given: FilesSource, declared: Collection[str]
) -> FilesSource:
    """Return the source of a folder under the name that it has, or gets.

    That is the name of the folder, unless another source has it. One with a dot could be a host or
    a library. ``declared``: names of files and jobs. ``connection``: None without a registry.
    """
    name = None if connection is None else ad_hoc_name_of_root(connection, given.root)
    if name is None:
        name = folder_source_name(given.root)
        is_stored = connection is not None and is_source_name_stored(connection, name)
        if is_stored or name in declared or name == DOCUMENTS.name or "." in name:
            name = given.name
    return given.model_copy(update={"name": name})


def listed_source_of_start(
    options: Options, given: _Listed, wanted: WantedPart, declared: Collection[str]
) -> _Listed:
    """Return the source of a folder or a repository, with the keys that were chosen for it.

    ``declared``: the names of sources.toml and of jobs.

    Raises:
        SourceError: stored files would get out of scope.
    """
    database = registry_database(options.registry)
    if not database.exists():
        if isinstance(given, FilesSource):
            given = cast("_Listed", named_folder_source(None, given, declared))
        return source_with_keys(given, wanted.keys)
    with database.translated("read"), closing(database.reports()) as connection:
        if isinstance(given, FilesSource):
            given = cast("_Listed", named_folder_source(connection, given, declared))
        part = stored_part_row(connection, given.name)
        before = given if part is None else source_with_keys(given, part.chosen)
        source = source_with_keys(before, wanted.keys)
        _check_kept(connection, before, source, wanted)
        return source


def _new(given: SiteSource, wanted: WantedPart, stale: str | None = None) -> SiteSource:
    """Return the source of an address that has no pages yet.

    ``stale``: the start that the registry has of it all the same.
    """
    extent = wanted.extent
    if extent in (Extent.PAGES, Extent.BELOW) and not given.seeds:
        raise SourceError(
            f"{program_argument('scope', extent)} is about an address, and only a sitemap is given:"
            f" add {program_argument('url', 'https://…')}"
        )
    if not given.seeds:
        return given.model_copy(update={"extent": extent or Extent.HOST})
    if extent is None and url_path(given.seeds[0]) == "/":
        extent = Extent.HOST
    start = unsigned_url(given.seeds[0]) if extent in (Extent.HOST, Extent.DOMAIN) else None
    by_default = wanted.extent is None
    return given.model_copy(
        update={"extent": extent, "start": start, "stale": stale, "by_default": by_default}
    )


def _known(connection: Connection, given: SiteSource, wanted: WantedPart) -> SiteSource:
    """Return the source of an address, which may be a stored one."""
    url, host = unsigned_url(given.seeds[0]), given.name
    parts = stored_part_rows(connection)
    held = next((part for part in parts if part.is_of(host) and _holds(part, url)), None)
    if held is not None and (held.is_start(url) or has_stored_pages(connection, held.name)):
        stored = given if held.declared else held.source(given.seeds, given.sitemaps)
        return _changed(connection, stored, wanted)
    others = _settled(connection, parts)
    name = host
    is_others = is_source_name_stored(connection, host, SITE.name)
    if is_others or any(part.name == host for part in others):
        words = _WORDS.sub("-", url_path(url))[:_LONGEST].strip("-")
        name = ad_hoc_source_name(f"{host}-{words}" if words else host, url)
    stale = next((part.start for part in parts if part.name == name), None)
    source = _new(given.model_copy(update={"name": name}), wanted, stale)
    source = source_with_keys(source, wanted.keys)
    _check_apart_from(source, others)
    return source


def check_decided_apart(connection: Connection, source: SiteSource) -> None:
    """Refuse a source that would share addresses with a stored one, once it is decided.

    Raises:
        SourceError: with the remedy.
    """
    _check_apart_from(source, _settled(connection, stored_part_rows(connection)))


def _settled(connection: Connection, parts: Iterable[StoredPart]) -> list[StoredPart]:
    """Return the sites of addresses whose part of a host is decided, and which have pages."""
    decided = [part for part in parts if not part.declared and _is_decided(part)]
    return [part for part in decided if has_stored_pages(connection, part.name)]


def _check_apart_from(source: SiteSource, others: Iterable[StoredPart]) -> None:
    """Refuse a new source that would share addresses with another one of these.

    Raises:
        SourceError: with the remedy.
    """
    for other in others:
        if other.name != source.name:
            _check_apart(source, other)


def _is_decided(part: StoredPart) -> bool:
    return not is_extent_open(part.extent, part.start)


def _stored_source(part: StoredPart) -> SiteSource:
    """Return a stored source with its start as its seed, and without patterns."""
    return part._replace(chosen={}).source((part.start or f"http://{part.name}/",))


def _holds(part: StoredPart, url: str) -> bool:
    """Whether an address is in the part of its host that a stored source has."""
    if part.declared:  # it is declared no more: the address takes over its name and its pages
        return True
    return _is_decided(part) and belongs_to_source(_stored_source(part), url)


def _changed(connection: Connection, stored: SiteSource, wanted: WantedPart) -> SiteSource:
    """Return a stored source with the part and the keys that are wanted of it now.

    Raises:
        SourceError: stored pages would get out of scope, and that is not accepted.
    """
    extent = wanted.extent
    url = unsigned_url(stored.seeds[0])
    source = stored
    is_same = extent is stored.extent and (
        extent in (Extent.HOST, Extent.DOMAIN) or url in (stored.start, *stored.ways)
    )
    if extent is not None and not is_same:
        bare = stored.model_copy(update={"extent": extent, "start": None, "ways": ()})
        pages = [page for page, _ in stored_page_depths(connection, stored.name)]
        source = bare.decided(url, filter(stored.scope.holds, pages), (url,))
    source = source_with_keys(source, wanted.keys)
    _check_kept(connection, stored, source, wanted)
    return source


def _check_kept(connection: Connection, before: Source, source: Source, wanted: WantedPart) -> None:
    """Refuse a change that puts stored pages out of scope, unless that is accepted.

    Raises:
        SourceError: with their number.
    """
    was, becomes = before.scope, source.scope
    if wanted.accepts or (was == becomes and source.max_depth in (0, before.max_depth)):
        return
    pages = stored_page_depths(connection, source.name)

    def has(scope: Scope, most: int, page: str, depth: int) -> bool:
        return scope.allows(page) and not 0 < most < depth

    out = [
        page
        for page in pages
        if has(was, before.max_depth, *page) and not has(becomes, source.max_depth, *page)
    ]
    if out:
        given = "" if wanted.extent is None else f"{program_argument('scope', wanted.extent)} "
        nouns = report_noun(len(pages), "stored page")
        raise SourceError(
            f"{given or 'this '}puts {len(out):,} of the {nouns} of {source.name} out of scope: the"
            f" next runs exclude them. If that is meant, add {program_argument('yes')}"
        )


def _check_apart(source: SiteSource, other: StoredPart) -> None:
    """Refuse a new source that would share addresses with a stored one.

    Raises:
        SourceError: with the remedy.
    """
    [url] = source.seeds
    new = source.decided(url, (), ()) if source.is_open else source
    stored = _stored_source(other)
    if not share_addresses(new.scope, stored.scope):
        return
    remedy = f"remove it first: {program_name()} forget --source {shlex.quote(other.name)}"
    if new.extent in (Extent.HOST, Extent.DOMAIN) and url_host_key(url) == stored_host(stored):
        wide = program_crawl_line(shlex.quote(redacted_text(stored.seeds[0])))
        remedy = f"widen it: {wide} {program_argument('scope', new.extent)}. Or {remedy}"
    raise SourceError(
        f"{redacted_text(url)} with {site_part_words(new)} would share pages with the source"
        f" {other.name}, which has {site_part_words(stored)}, so each would"
        f" exclude or count pages of the other. To crawl all as one source, {remedy}"
    )


def other_site_part(source: SiteSource) -> tuple[str, Extent]:
    """Return the other part of a host that a new address could stand for: its words and extent."""
    [url, *_] = source.seeds
    if source.extent is Extent.BELOW:
        return "For the whole host", Extent.HOST
    if url_path(url) != "/":
        return "For the part below this address", Extent.BELOW
    if literal_connection_address(bare_connection_host(url_endpoint(url)[0])) is not None:
        return "For this page alone", Extent.PAGES
    return "With its subdomains, too", Extent.DOMAIN


def stored_host(source: SiteSource) -> str:
    """Return the host of the first seed."""
    return url_host_key(source.seeds[0])


def site_part_words(source: SiteSource) -> str:
    """Return which part of its host a source has, in words."""
    [url, *_] = source.seeds
    match source.extent:
        case Extent.PAGES:
            return "this page alone"
        case Extent.BELOW:
            return f"all below {redacted_text(source.start or url)}"
        case Extent.DOMAIN:
            return f"{stored_host(source)} with its subdomains"
        case _:
            return f"the whole host {stored_host(source)}"
