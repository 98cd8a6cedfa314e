"""Domains: the knowledge bases that a domain.json declares, with their libraries (R3-06 to R3-10).

Unknown keys belong to other tools, and are neither refused nor changed.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from smartcrawl.model.exceptions import SourceError, meant_word
from smartcrawl.model.library import SourceType
from smartcrawl.model.urls import request_url
from smartcrawl.sources.fields import declared_field_text
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.paths import sharepoint_path_problem
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
                f"the scope is {scope!r}{meant_word(scope, SCOPES)}: expected {known}"
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
            f"the source is {name!r}: expected DOMAIN.SOURCE, as in DOMAIN01.source01"
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
        raise SourceError(f"{path} is not valid JSON ({error}): correct it there") from error
    if not isinstance(content, _Pairs):
        raise SourceError(
            f"{path} has {sharepoint_json_type(content)} at its top: expected an object, as in"
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


DOMAIN_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  #: of a domain and of a source
DOMAIN_ID_RULE: Final = "1 to 64 letters, digits, '_' and '-'"
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class DomainPlace(NamedTuple):
    """The place of a field, for messages."""

    path: Path
    key: str

    def sub(self, key: str) -> DomainPlace:
        """Return the place of a field of the object here."""
        return DomainPlace(self.path, f"{self.key}.{key}")

    def __str__(self) -> str:
        return f"{self.path}: {self.key}"


def sharepoint_json_type(value: object) -> str:
    """Return the name of the type of a JSON value."""
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a text"
        case list():
            return "a list"
        case None:
            return "null"
        case _:
            return "an object"


def declared_domain_text(at: DomainPlace, value: object, problems: list[str]) -> str:
    """Return a text; a problem is noted, and then it is empty."""
    if not isinstance(value, str):
        problems.append(f"{at} is {sharepoint_json_type(value)}: expected a text in quotes")
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        problems.append(f"{at} has half of a surrogate pair: write the whole character")
        return ""
    return value


def declared_library_tables(
    path: Path, source_type: SourceType, content: Mapping[str, Any], problems: list[str]
) -> list[object]:
    """Return the sources of one kind as they are declared."""
    given = content.get(source_type, [])
    if isinstance(given, list):
        return given
    problems.append(
        f"{path}: {source_type} is {sharepoint_json_type(given)}: expected a list of objects"
    )
    return []


def declared_library_source(
    at: DomainPlace, source_type: SourceType, table: object, problems: list[str]
) -> dict[str, Any]:
    """Return the fields of a declared source; a field with a problem is left out."""
    if not isinstance(table, dict):
        problems.append(
            f"{at} is {sharepoint_json_type(table)}: expected an object with source_id and site_url"
        )
        return {}
    checks = {"source_id": _checked_id, "site_url": _checked_site_url, "filter": _checked_filter}
    if source_type is SourceType.LISTS:
        checks["list_name"] = _checked_list_name
    else:
        checks["sharepoint_url_part"] = _checked_url_part
    fields: dict[str, Any] = {"source_type": source_type}
    for key, check in checks.items():
        before = len(problems)
        if key not in table and key != "filter":
            problems.append(f"{at.sub(key)} is missing: give {_GIVE[key]}")
            continue
        text = declared_domain_text(at.sub(key), table.get(key, ""), problems)
        if len(problems) > before:
            continue
        try:
            fields["url_part" if key == "sharepoint_url_part" else key] = check(text)
        except ValueError as error:
            problems.append(f"{at.sub(key)} is {declared_field_text(text)}: {error}")
    return fields


#: What to give for a key that a source must have.
_GIVE: Final = {
    "source_id": f'{DOMAIN_ID_RULE}, as in "source01"',
    "site_url": 'the address of the site, as in "https://contoso.sharepoint.com/sites/MyProject"',
    "sharepoint_url_part": 'the path of the library in its address, as in "/Shared Documents"',
    "list_name": "the title of the list, as its page shows it",
}


def _checked_id(text: str) -> str:
    """Return a ``source_id``.

    Raises:
        ValueError: it contains other characters.
    """
    if not DOMAIN_ID.fullmatch(text):
        raise ValueError(f"expected {DOMAIN_ID_RULE}")
    return text


def _checked_site_url(text: str) -> str:
    """Return the URL of a site as it is requested, without a slash at its end.

    Raises:
        ValueError: it is no address of a site.
    """
    url = request_url(text)
    if url is None or "?" in text or "#" in text:
        raise ValueError(f"expected {_GIVE['site_url']}, without ? and #")
    parts = urlsplit(url)
    if "@" in text.partition("//")[2].partition("/")[0]:
        raise ValueError("it has a user name or password: remove it, credentials are settings")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError("it is not encrypted: write https, http is for this machine only")
    path = unquote(text.partition("//")[2].partition("/")[2]).rstrip("/")
    if path and (problem := sharepoint_path_problem(path)) is not None:
        raise ValueError(f"{problem}: give {_GIVE['site_url']}")
    return url.rstrip("/")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # another name
        return False


def _checked_url_part(text: str) -> str:
    """Return the path of a library in its site, without a slash at its end.

    A percent sign is a character of its name: the path is written as people read it.

    Raises:
        ValueError: it is no such path.
    """
    if not text.startswith("/") or text == "/":
        raise ValueError(f"expected {_GIVE['sharepoint_url_part']}, which begins with a slash")
    if "?" in text:
        raise ValueError("it has a query: give the path alone, without ? and what follows it")
    if _CONTROL.search(text):
        raise ValueError("it has a control character: remove it")
    part = text.rstrip("/")
    problem = sharepoint_path_problem(part[1:])
    if problem is not None:
        raise ValueError(f"{problem}: give {_GIVE['sharepoint_url_part']}")
    return part


def _checked_list_name(text: str) -> str:
    """Return the title of a list.

    Raises:
        ValueError: it is empty or has a control character.
    """
    if not text.strip():
        raise ValueError(f"expected {_GIVE['list_name']}")
    if _CONTROL.search(text):
        raise ValueError("it has a control character: remove it")
    return text


def _checked_filter(text: str) -> str:
    """Return an OData expression, which is sent as it is; blanks alone are none.

    Raises:
        ValueError: it has a control character.
    """
    if _CONTROL.search(text):
        raise ValueError("it has a control character: write the expression on one line")
    return text if text.strip() else ""


_KEY: Final = "vector_store_id"
_EMPTY: Final = re.compile(r'("vector_store_id"\s*:\s*)""')
_INDENT: Final = re.compile(r"\A\{\r?\n([ \t]+)\"")


def write_sharepoint_domain_store_id(path: Path, store: str) -> None:
    """Set ``vector_store_id`` in a domain.json; readers see the old file or the new one, whole.

    Other keys, their order and, where the key is there, the whole layout stay.

    Raises:
        SourceError: it cannot be written.
    """
    place = Path(os.path.realpath(path))
    beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}.writing")
    try:
        text = place.read_bytes().decode()
        mode = place.stat().st_mode & 0o777
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            file.write(sharepoint_domain_with_store_id(text, store).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, place)
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except (OSError, ValueError) as error:
        with suppress(OSError):
            beside.unlink()
        raise SourceError(
            f"{path} cannot be written ({error}): set {_KEY} to {store!r} there"
        ) from error


def sharepoint_domain_with_store_id(text: str, store: str) -> str:
    """Return the text of a domain.json with another id.

    >>> sharepoint_domain_with_store_id('{"b": 1.50, "vector_store_id" : "", "a": [ ]}', "vs_1")
    '{"b": 1.50, "vector_store_id" : "vs_1", "a": [ ]}'
    >>> sharepoint_domain_with_store_id('{"b": 1.50}', "vs_1")
    '{"b": 1.5, "vector_store_id": "vs_1"}'

    Raises:
        ValueError: it is no JSON.
    """
    wanted = json.loads(text)
    wanted[_KEY] = store
    replaced = _EMPTY.sub(lambda found: found[1] + json.dumps(store), text, count=1)
    with suppress(ValueError):
        if json.loads(replaced) == wanted:
            return replaced
    found = _INDENT.match(text)
    return json.dumps(wanted, ensure_ascii=False, indent=found[1] if found else None)
