"""Domains: the knowledge bases that a domain.json declares, with their libraries (R3-06 to R3-10).

Unknown keys belong to other tools, and are neither refused nor changed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.library import SourceType
from smartcrawl.model.meant import meant_word
from smartcrawl.sources.sharepoint.domain_fields import (
    DOMAIN_ID,
    DOMAIN_ID_RULE,
    DomainPlace,
    declared_domain_text,
    declared_library_source,
    declared_library_tables,
    sharepoint_json_type,
)
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.source import SharepointSource

logger = logging.getLogger(__name__)

#: The kinds of sources of each scope of a crawl (R3-18).
SCOPES: Final[Mapping[str, tuple[SourceType, ...]]] = {
    "all": tuple(SourceType),
    "files": (SourceType.FILES,),
    "lists": (SourceType.LISTS,),
    "sitepages": (SourceType.SITEPAGES,),
}
_FILE: Final = CRAWLER_HARDCODED_CONFIG.DOMAIN_JSON


@dataclass(frozen=True, slots=True)
class Domain:
    """A knowledge base: what its domain.json says."""

    domain_id: str  #: name of its folder (R3-07)
    path: Path  #: of its domain.json
    name: str
    description: str
    vector_store_name: str
    vector_store_id: str  #: empty: none was made yet (R3-30)
    every_source: tuple[SharepointSource, ...]  #: files, lists, site pages, in their order

    def sources(self, scope: str = "all", source_id: str | None = None) -> list[SharepointSource]:
        """Return the sources of a scope (R3-18), or the one of them with ``source_id`` (R3-67).

        Raises:
            SourceError: there is no such scope, or no such source in it.
        """
        if scope not in SCOPES:
            known = ", ".join(SCOPES)
            raise SourceError(
                f"the scope is {scope!r}{meant_word(scope, SCOPES)}: it takes {known}"
            )
        if source_id is None:
            return [one for one in self.every_source if one.source_type in SCOPES[scope]]
        source = self.source(source_id)
        if source.source_type not in SCOPES[scope]:
            raise SourceError(
                f"{source_id} is in {source.source_type} of {self.path}, which the scope {scope}"
                " leaves out: choose the scope all"
            )
        return [source]

    def source(self, name: str) -> SharepointSource:
        """Return the source with this ``source_id``, or with this name as the engine has it.

        Raises:
            SourceError: there is none; the message lists the known ones.
        """
        for source in self.every_source:
            if name in (source.source_id, source.name):
                return source
        ids = [source.source_id for source in self.every_source]
        raise SourceError(
            f"{self.path} has no source {name!r}{meant_word(name, ids)}:"
            f" it has {', '.join(ids) or 'none'}"
        )


def sharepoint_domain_ids(storage: Path) -> list[str]:
    """Return the domains of ``PERSISTENT_STORAGE_PATH`` that have a domain.json, sorted.

    Raises:
        SourceError: the folder cannot be read.
    """
    folder = _domains_folder(storage)
    try:
        return sorted(
            entry.name
            for entry in folder.iterdir()
            if DOMAIN_ID.fullmatch(entry.name) and (entry / _FILE).is_file()
        )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise SourceError(
            f"{folder} cannot be read ({error.strerror}): give this user the right to read it"
        ) from error


def load_sharepoint_domain(storage: Path, domain_id: str) -> Domain:
    """Return the domain of a folder below ``PERSISTENT_STORAGE_PATH``.

    Raises:
        SourceError: there is none, or it has problems; all of them are in the message, one on
            each line, with file, key, reason and remedy.
    """
    if not DOMAIN_ID.fullmatch(domain_id):
        raise SourceError(f"the domain is {domain_id!r}: its id takes {DOMAIN_ID_RULE}")
    path = _domains_folder(storage) / domain_id / _FILE
    content = _content(storage, domain_id, path)
    problems: list[str] = []
    fields = {
        key: declared_domain_text(DomainPlace(path, key), content.get(key, ""), problems)
        for key in ("name", "description", "vector_store_name", "vector_store_id")
    }
    sources: list[SharepointSource] = []
    used: dict[str, str] = {}  # the place of each source_id
    for source_type in SourceType:
        for number, table in enumerate(
            declared_library_tables(path, source_type, content, problems)
        ):
            at = DomainPlace(path, f"{source_type}[{number}]")
            source = declared_library_source(at, source_type, table, problems)
            source_id = source.get("source_id")
            if source_id is not None and source_id in used:
                problems.append(
                    f"{at.sub('source_id')} is {source_id!r}, as that of {used[source_id]}:"
                    " rename one, because an id is used once in a domain"
                )
            elif source_id is not None:
                used[source_id] = at.key
            if not problems:
                name = f"{domain_id}.{source_id}"
                sources.append(
                    SharepointSource(name=name, domain=domain_id, storage=storage, **source)
                )
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise SourceError("\n  ".join([f"{path} has {count}:", *problems]))
    return Domain(domain_id, path, every_source=tuple(sources), **fields)


def load_library_source(storage: Path, name: str) -> SharepointSource:
    """Return the source with a name as the engine has it, ``DOMAIN.SOURCE``.

    Raises:
        SourceError: there is none, or its domain.json has problems.
    """
    domain_id, dot, source_id = name.partition(".")
    if not dot or not source_id:
        raise SourceError(
            f"the source is {name!r}: it takes DOMAIN.SOURCE, as in DOMAIN01.source01"
        )
    return load_sharepoint_domain(storage, domain_id).source(source_id)


def declared_library_sources(storage: Path) -> list[SharepointSource]:
    """Return the sources of all domains; a domain.json with problems is logged and left out.

    A problem of one domain must not keep other sources from being shown.
    """
    found: list[SharepointSource] = []
    try:
        ids = sharepoint_domain_ids(storage)
    except SourceError as error:
        logger.warning("%s", error)
        return found
    for domain_id in ids:
        try:
            found += load_sharepoint_domain(storage, domain_id).every_source
        except SourceError as error:
            logger.warning("%s", error)
    return found


def _domains_folder(storage: Path) -> Path:
    return storage / CRAWLER_HARDCODED_CONFIG.PERSISTENT_STORAGE_PATH_DOMAINS_SUBFOLDER


def _content(storage: Path, domain_id: str, path: Path) -> dict[str, Any]:
    """Return the object in a domain.json.

    Raises:
        SourceError: there is none.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise SourceError(_unknown(storage, domain_id, path)) from error
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read ({error.strerror}): give this user the right to read it"
        ) from error
    if data.startswith(b"\xef\xbb\xbf"):
        raise SourceError(
            f"{path} begins with a byte order mark, which JSON does not have: save it as UTF-8"
            " without BOM"
        )
    try:
        content = json.loads(data.decode(), object_pairs_hook=_Pairs.of)
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 ({error}): save it as UTF-8") from error
    except RecursionError as error:
        raise SourceError(f"{path} is nested too deep: write an object as in the manual") from error
    except ValueError as error:
        raise SourceError(f"{path} is no JSON ({error}): correct it there") from error
    if not isinstance(content, _Pairs):
        raise SourceError(
            f"{path} has {sharepoint_json_type(content)} at its top: it takes an object, as in"
            ' {"name": "…", "file_sources": []}'
        )
    twice = sorted(content.twice)
    if twice:
        raise SourceError(f"{path} has the key {twice[0]!r} twice: remove one of them")
    return content


class _Pairs(dict[str, Any]):
    """An object of JSON, with the keys that it or an object in it has twice."""

    twice: frozenset[str]

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> _Pairs:
        made = cls(pairs)
        names = [name for name, _ in pairs]
        found = {name for name in made if names.count(name) > 1}
        for value in made.values():
            for one in value if isinstance(value, list) else [value]:
                found |= one.twice if isinstance(one, _Pairs) else set()
        made.twice = frozenset(found)
        return made


def _unknown(storage: Path, domain_id: str, path: Path) -> str:
    """Return the message about a domain without a domain.json."""
    if path.parent.is_dir():
        return f"{path} is missing: write it there, or name another domain"
    known = sharepoint_domain_ids(storage)
    if not known:
        return (
            f"there is no domain {domain_id!r}, and no other in {path.parents[1]}: write {path},"
            " or set PERSISTENT_STORAGE_PATH to the folder that has the domains"
        )
    return (
        f"there is no domain {domain_id!r}{meant_word(domain_id, known)};"
        f" {path.parents[1]} has {', '.join(known)}"
    )
