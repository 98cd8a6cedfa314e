"""The fields of a declared source: types, checks, messages and hints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import can_ada
from cssselect import HTMLTranslator, SelectorError
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationInfo,
)
from pydantic_core import CoreSchema, core_schema

from smartcrawl.model.exceptions import meant_word, nearest_word
from smartcrawl.model.openai_server import authority_file_option
from smartcrawl.model.setting_values import MOST_NUMBER
from smartcrawl.model.urls import MAX_URL_LENGTH, request_url, url_has_port, url_host_key
from smartcrawl.rules.extent import EXTENTS, Extent
from smartcrawl.rules.freshness import Freshness, parsed_budget, parsed_target
from smartcrawl.rules.model import Mode
from smartcrawl.rules.visibility import VISIBILITIES, Visibility
from smartcrawl.sources.scope import compile_scope_pattern


def json_integer(value: object) -> object:
    """Return a whole number as an integer, and any other value as it is.

    JSON Schema takes 4.0 for an integer, and some programs write their integers so.

    >>> json_integer(4.0), json_integer(4.5), json_integer("4"), json_integer(True)
    (4, 4.5, '4', True)
    """
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: The type of a field that takes one.
JsonInteger = Annotated[int, BeforeValidator(json_integer)]


@dataclass(frozen=True, slots=True)
class Between:
    """The bounds of a number; an error names both."""

    least: int
    most: int

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema of a number with the check."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Return the description of a number with its bounds."""
        return handler(schema) | {"minimum": self.least, "maximum": self.most}

    def _checked(self, value: int) -> int:
        if not self.least <= value <= self.most:
            raise ValueError(f"must be between {self.least} and {self.most}")
        return value


_WEB: Final = ("http", "https")
_SCHEME: Final = re.compile(r"([A-Za-z]{3,7})(?::/*|;/*|//+)(?=[^/])")
_LIKE_WEB: Final = 0.75  #: least similarity of a mistyped scheme; ftp has .57, httpd .89
_FILE: Final = re.compile(r"file:|[A-Za-z]:\\|\.{0,2}/(?!/)")
_BARE_IPV6: Final = re.compile(r"https?://[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*(?:[/?#]|\Z)")
_PORT: Final = re.compile(r"https?://[^/?#]*:(\d+)(?:[/?#]|\Z)")
_LAST_PORT: Final = 65_535
_ASCII_QUOTES: Final = '"<>`'  #: a URL has none of them; ' may be in one
_QUOTES: Final = _ASCII_QUOTES + "'“”„‘’«»"
_HOST_ALONE: Final = re.compile(r"(?:https?://)?[^/?#]*")


def declared_address_hint(text: str) -> str:
    """Return the probable correction of an invalid address, or an empty string.

    >>> declared_address_hint("htps://docs.example.com/")
    '; did you mean https://docs.example.com/?'
    >>> declared_address_hint("http://::1:8000/")
    '; an IPv6 address goes in brackets, as in http://[::1]:8000/'
    >>> declared_address_hint("mailto:me@example.com")
    ''
    """
    found = _SCHEME.match(text)
    if found and (found[1].lower() not in _WEB or "://" not in found[0]):
        scheme = nearest_word(found[1].lower(), _WEB, least=_LIKE_WEB)
        url = request_url(f"{scheme}://{text[found.end() :]}") if scheme else None
        if url is not None:
            return f"; did you mean {url}?"
    if _FILE.match(text):
        return "; to crawl files, serve their folder, as with python3 -m http.server"
    if _BARE_IPV6.match(text):
        return "; an IPv6 address goes in brackets, as in http://[::1]:8000/"
    port = _PORT.match(text)
    if port and int(port[1]) > _LAST_PORT:
        return f"; a port is a number up to {_LAST_PORT}"
    return ""


def declared_address_unquoted(text: str) -> str | None:
    """Return an address without the quotes that were pasted with it; None where there are none.

    A single or typographic quotation mark at the end may be part of the address, unless one is
    before it, or it would be one of the host.

    >>> declared_address_unquoted('https://a.example/"'), declared_address_unquoted("https://a.example/o'")
    ('https://a.example/', None)
    >>> declared_address_unquoted("https://de.example.org/„Foo“"), declared_address_unquoted("„https://a.example/“")
    (None, 'https://a.example/')
    >>> declared_address_unquoted("'a.example'"), declared_address_unquoted("a.example'")
    ('a.example', 'a.example')
    """
    given = text.strip()
    bare = given.lstrip(_QUOTES)
    of_host = _HOST_ALONE.fullmatch(given)
    bare = bare.rstrip(_QUOTES if bare != given or of_host else _ASCII_QUOTES)
    return bare if bare != given else None


MAX_PATTERNS: Final = 100  #: in each list
MAX_PATTERN: Final = 1_000  #: characters
MODES: Final = tuple(mode.word for mode in Mode)

NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
NAME_RULE: Final = "letters, digits, '_', '.' and '-'"
_HOST_FIRST: Final = re.compile(
    r"(?://)?(?:localhost|\[[0-9A-Fa-f:.]+\]"
    r"|[^\s/?#@:\\][^\s/?#@:\\.]*+\.[^\s/?#@:\\]++)(?::\d+)?(?:[/?#]|\Z)"
)
_THIS_MACHINE: Final = ("localhost", "127.", "[::1]")
_CREDENTIALS: Final = re.compile(r"(?://|(?<=\A['\"]))[^/?#]*@")


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def declared_web_address(text: str, *, with_user: bool = False) -> str:
    """Return the request URL of an address as the operator wrote it.

    ``with_user``: whether a user and a password in it are left out, not refused.

    Raises:
        ValueError: it is no web address; with the probable address, if it can be guessed.
    """
    given = declared_field_text(text)
    bare = declared_address_unquoted(text)
    meant = None if bare is None else request_url(bare) or _with_scheme(bare)
    if meant is not None:
        raise ValueError(f"is {given}, with a stray quotation mark: write {meant}")
    url = request_url(text)
    if url is not None:
        if not with_user and _names_user(text):
            raise ValueError(
                f"is {given}, with a user or a password, which is sent to no server: write {url},"
                " and declare the login in a table [sources.NAME.auth] with"
                ' kind = "basic" (docs/howto/login.md)'
            )
        return url
    text = text.strip()
    if len(text) > MAX_URL_LENGTH:
        raise ValueError(f"is longer than {MAX_URL_LENGTH} characters: shorten it")
    if (meant := _with_scheme(text)) is not None:
        raise ValueError(f"is {given}, without its scheme: write {meant}")
    raise ValueError(
        f"is {given}: expected an http or https address, as in https://docs.example.com/"
        f"{declared_address_hint(bare or text)}"
    )


def _names_user(text: str) -> bool:
    """Whether an address that can be requested has a user or a password."""
    parsed = can_ada.parse(text.strip())
    return bool(parsed.username or parsed.password)


def _with_scheme(text: str) -> str | None:
    """Return the URL that an address without its scheme probably is; None: it is no address."""
    if not _HOST_FIRST.match(text):
        return None
    rest = text.removeprefix("//")
    scheme = "http" if rest.startswith(_THIS_MACHINE) else "https"
    return request_url(f"{scheme}://{rest}")


def _domain(entry: str) -> str:
    """Return an entry of ``allowed_domains`` in ASCII and lower case, with its port as written.

    Raises:
        ValueError: it is neither a domain nor a host with its port.
    """
    bare = entry.strip().removeprefix("*").removeprefix(".")
    if "://" in bare:
        url = request_url(bare)
        bare = url_host_key(url) if url else ""
    bare = bare.rstrip("/")
    # The scheme that the port is not the default of, so that the port is not dropped.
    scheme = "https" if bare.endswith(":80") else "http"
    try:
        host = can_ada.parse(f"{scheme}://{bare}/").host
    except (ValueError, TypeError):
        host = ""
    if not host or re.search(r"[\s/\\?#@*%]", bare):
        raise ValueError(
            f"is {declared_field_text(entry)}: expected a domain such as docs.example.com,"
            " or a host with its port such as 127.0.0.1:8801"
        )
    if bare != entry.strip():
        covers = "" if url_has_port(bare) else ", which includes its subdomains"
        raise ValueError(f"is {declared_field_text(entry)}: write {bare}{covers}")
    return host


def declared_pattern_size(pattern: str, *, small: bool = False) -> int:
    """Return the number of steps of a pattern; ``small``: as for ``compile_scope_pattern``.

    Raises:
        ValueError: it is no regular expression of RE2, too long, or needs too much memory.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"has {len(pattern):,} characters: expected up to {MAX_PATTERN:,}")
    try:
        return compile_scope_pattern(pattern, small=small).programsize
    except ValueError as error:
        raise ValueError(
            f"is {pattern!r}, which is not a valid regular expression ({error}): put a "
            "backslash before special characters; look-around, back-references and \\Z "
            "are not supported"
        ) from error


def _regular_expression(pattern: str) -> str:
    """Return ``pattern`` as it is.

    Raises:
        ValueError: it is no regular expression of RE2, or too long.
    """
    declared_pattern_size(pattern)
    return pattern


def _few(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns as they are.

    Raises:
        ValueError: there are too many.
    """
    if len(patterns) > MAX_PATTERNS:
        raise ValueError(f"has {len(patterns)} patterns: expected up to {MAX_PATTERNS}")
    return patterns


def _label(text: str) -> str:
    """Return the label of a release as it is.

    Raises:
        ValueError: it contains other characters than a name.
    """
    if not NAME.fullmatch(text):
        raise ValueError(f"is {text!r}: expected {NAME_RULE}, as in 2.1")
    return text


def _authorities(text: object, info: ValidationInfo) -> object:
    """Return the path of ``ca_file``; a relative one starts beside sources.toml.

    Raises:
        ValueError: the file cannot be read or has no certificate.
    """
    if not isinstance(text, str):
        return text
    folder: Path | None = info.context["folder"] if info.context else None
    try:
        return authority_file_option(text, folder)
    except ValueError as error:
        raise ValueError(f"is {declared_field_text(text)}: {error}") from error


def _selector(text: str) -> str:
    """Return a CSS selector as it is.

    Raises:
        ValueError: it is no CSS selector.
    """
    try:
        HTMLTranslator().css_to_xpath(text)
    except SelectorError as error:
        raise ValueError(
            f"is {text!r}, which is not a valid CSS selector ({error}): write one such as "
            ".cookie-banner, #menu or main > article"
        ) from error
    return text


def _mode(word: object) -> object:
    return Mode[word.upper()] if isinstance(word, str) and word in MODES else word


def _extent(word: object) -> object:
    return Extent(word) if isinstance(word, str) and word in EXTENTS else word


def _visibility(word: object) -> object:
    return Visibility(word) if isinstance(word, str) and word in VISIBILITIES else word


def declared_field_text(value: object) -> str:
    """Return a value in the form for messages, without credentials (RD-20)."""
    return _CREDENTIALS.sub("…@", repr(value))


def _share(value: object) -> object:
    """Return a share as it is.

    Raises:
        ValueError: it is no number from 0 to 1.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(
            f"is {declared_field_text(value)}: expected a share from 0 to 1, as in 0.1"
        )
    return float(value)


#: The keys of ``freshness``: how each is read, and an example.
_FRESHNESS: Final[Mapping[str, tuple[Callable[[str], Any], str]]] = {
    "target": (parsed_target, "95% within 24h"),
    "budget": (parsed_budget, "20000 requests/day"),
}


def _freshness(table: object) -> object:
    """Return the budget of a table ``freshness``.

    Raises:
        ValueError: with everything that is wrong in it, and what to write.
    """
    if table is None or isinstance(table, Freshness):
        return table
    if not isinstance(table, dict):
        given = " and ".join(f'{key} = "{text}"' for key, (_, text) in _FRESHNESS.items())
        raise ValueError(f"is {declared_field_text(table)}: expected a table with {given}")
    problems = [
        f"has an unknown key {key}{meant_word(key, _FRESHNESS)}; known are {', '.join(_FRESHNESS)}"
        for key in table
        if key not in _FRESHNESS
    ]
    values: dict[str, Any] = {}
    for key, (parsed, example) in _FRESHNESS.items():
        if key not in table:
            problems.append(f'has no {key}: add {key} = "{example}"')
            continue
        try:
            values[key] = parsed(table[key] if isinstance(table[key], str) else "")
        except ValueError as error:
            problems.append(f"has {key} = {declared_field_text(table[key])}: {error}")
    if problems:
        raise ValueError("; it ".join(problems))
    share, within = values["target"]
    return Freshness(share, within, values["budget"])


LIST: Final = BeforeValidator(_as_tuple)  #: a list of TOML
Pattern = Annotated[str, AfterValidator(_regular_expression)]
IndexMode = Annotated[Mode, BeforeValidator(_mode)]
SiteExtent = Annotated[Extent | None, BeforeValidator(_extent)]
SourceVisibility = Annotated[Visibility | None, BeforeValidator(_visibility)]
SourceFreshness = Annotated[Freshness | None, BeforeValidator(_freshness)]
Label = Annotated[str, AfterValidator(_label)]
AuthoritiesFile = Annotated[Path, BeforeValidator(_authorities)]
Share = Annotated[float, BeforeValidator(_share)]
Limit = Annotated[int, Field(ge=0, le=MOST_NUMBER)]
Addresses = Annotated[tuple[Annotated[str, AfterValidator(declared_web_address)], ...], LIST]
Domains = Annotated[tuple[Annotated[str, AfterValidator(_domain)], ...], LIST]
Patterns = Annotated[tuple[Pattern, ...], AfterValidator(_few), LIST]
Selector = Annotated[str, AfterValidator(_selector)]
Selectors = Annotated[tuple[Selector, ...], AfterValidator(_few), LIST]
