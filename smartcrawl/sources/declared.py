"""Sources: what is crawled, as declared in sources.toml or given as one address.

A source is the document set: scope, runs, records and deletion are per source (design.md 2).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Final, Literal, Self

import can_ada
from cssselect import HTMLTranslator, SelectorError
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from smartcrawl.model.authorities import authority_file
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.urls import MAX_URL_LENGTH, has_port, host_key, request_url
from smartcrawl.rules.model import Mode
from smartcrawl.sources.patterns import compiled
from smartcrawl.sources.scope import Scope

KIND: Final = "site"  #: the only kind that this version crawls

MAX_PATTERNS: Final = 100  #: of each list
MAX_PATTERN: Final = 1_000  #: characters
_MODES: Final = tuple(mode.word for mode in Mode)

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_NAME_RULE: Final = "letters, digits, '_', '.' and '-'"
_HOST_FIRST: Final = re.compile(
    r"(?://)?(?:localhost|\[[0-9A-Fa-f:.]+\]|[^\s/?#@:\\]+\.[^\s/?#@:\\]+)(?::\d+)?(?:[/?#]|\Z)"
)
_THIS_MACHINE: Final = ("localhost", "127.", "[::1]")
_CREDENTIALS: Final = re.compile(r"(?://|(?<=\A['\"]))[^/?#]*@")


def _as_tuple(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _web_address(text: str) -> str:
    """Return the request URL of what a person wrote.

    Raises:
        ValueError: it is none; with what was meant, if that can be guessed.
    """
    url = request_url(text)
    if url is not None:
        return url
    shown, text = _shown(text), text.strip()
    if len(text) > MAX_URL_LENGTH:
        raise ValueError(f"is longer than {MAX_URL_LENGTH} characters: shorten it")
    if _HOST_FIRST.match(text):
        rest = text.removeprefix("//")
        scheme = "http" if rest.startswith(_THIS_MACHINE) else "https"
        meant = request_url(f"{scheme}://{rest}")
        if meant is not None:
            raise ValueError(f"is {shown}, without its scheme: write {meant}")
    raise ValueError(
        f"is {shown}: it takes an http or https address, as in https://docs.example.com/"
    )


def _domain(entry: str) -> str:
    """Return an entry of ``allowed_domains`` in ASCII and lower case, with its port as written.

    Raises:
        ValueError: it is neither a domain nor a host with its port.
    """
    bare = entry.strip().removeprefix("*").removeprefix(".")
    if "://" in bare:
        url = request_url(bare)
        bare = host_key(url) if url else ""
    bare = bare.rstrip("/")
    scheme = "https" if bare.endswith(":80") else "http"  # so that the port is not dropped
    try:
        host = can_ada.parse(f"{scheme}://{bare}/").host
    except (ValueError, TypeError):
        host = ""
    if not host or re.search(r"[\s/\\?#@*%]", bare):
        raise ValueError(
            f"is {_shown(entry)}: it takes a domain such as docs.example.com,"
            " or a host with its port such as 127.0.0.1:8801"
        )
    if bare != entry.strip():
        covers = "" if has_port(bare) else ", which includes its subdomains"
        raise ValueError(f"is {_shown(entry)}: write {bare}{covers}")
    return host


def _regular_expression(pattern: str) -> str:
    """Return ``pattern`` as it is.

    Raises:
        ValueError: it is no regular expression of RE2, or too long.
    """
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"has {len(pattern):,} characters: it takes up to {MAX_PATTERN:,}")
    try:
        compiled(pattern)
    except ValueError as error:
        raise ValueError(
            f"is {pattern!r}, no regular expression ({error}): put a backslash before a character"
            " that stands for itself; look-around, back-references and \\Z are not understood"
        ) from error
    return pattern


def _few(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns as they are.

    Raises:
        ValueError: there are too many.
    """
    if len(patterns) > MAX_PATTERNS:
        raise ValueError(f"has {len(patterns)} patterns: it takes up to {MAX_PATTERNS}")
    return patterns


def _label(text: str) -> str:
    """Return the label of a release as it is.

    Raises:
        ValueError: it holds other characters than a name.
    """
    if not _NAME.fullmatch(text):
        raise ValueError(f"is {text!r}: it takes {_NAME_RULE}, as in 2.1")
    return text


def _authorities(text: object, info: ValidationInfo) -> object:
    """Return the path of ``ca_file``; a relative one starts beside sources.toml.

    Raises:
        ValueError: the file cannot be read or holds no certificate.
    """
    if not isinstance(text, str):
        return text
    folder: Path | None = info.context["folder"] if info.context else None
    try:
        return authority_file(text, folder)
    except ValueError as error:
        raise ValueError(f"is {_shown(text)}: {error}") from error


_List = BeforeValidator(_as_tuple)
_Addresses = Annotated[tuple[Annotated[str, AfterValidator(_web_address)], ...], _List]
_Domains = Annotated[tuple[Annotated[str, AfterValidator(_domain)], ...], _List]
_Patterns = Annotated[
    tuple[Annotated[str, AfterValidator(_regular_expression)], ...], AfterValidator(_few), _List
]
_Limit = Annotated[int, Field(ge=0)]


def _selector(text: str) -> str:
    """Return a CSS selector as it is.

    Raises:
        ValueError: it is none.
    """
    try:
        HTMLTranslator().css_to_xpath(text)
    except SelectorError as error:
        raise ValueError(
            f"is {text!r}, no CSS selector ({error}): it takes one such as .cookie-banner,"
            " #menu or main > article"
        ) from error
    return text


def _mode(word: object) -> object:
    return Mode[word.upper()] if isinstance(word, str) and word in _MODES else word


_Selectors = Annotated[
    tuple[Annotated[str, AfterValidator(_selector)], ...], AfterValidator(_few), _List
]


class ModeRule(BaseModel):
    """How pages whose address has a pattern enter the index."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    pattern: Annotated[str, AfterValidator(_regular_expression)]
    mode: Annotated[Mode, BeforeValidator(_mode)]


class Source(BaseModel):
    """One declared or ad-hoc source.

    Source: design.md 2; M-28.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    name: str  #: with its release, as in docs@2.1
    kind: Literal["site"] = KIND
    seeds: _Addresses = ()  #: request URLs; at least one, or a sitemap
    sitemaps: _Addresses = ()  #: URLs of sitemaps and feeds
    allowed_domains: _Domains = ()  #: a domain and its subdomains, or one host with its port
    url_patterns: _Patterns = ()
    excluded_patterns: _Patterns = ()
    index_modes: Annotated[tuple[ModeRule, ...], _List] = ()  #: the first that matches counts
    keep_selectors: _Selectors = ()  #: CSS: only what lies in them is text of a page
    drop_selectors: _Selectors = ()  #: CSS: what lies in them is not
    max_depth: _Limit = 0  #: links from a seed, 0: no limit
    max_pages: _Limit = 0  #: visits of one run, 0: no limit
    release: Annotated[str, AfterValidator(_label)] | None = None
    verify_certificates: bool | None = None  #: of its servers; None: as VERIFY_CERTIFICATES says
    ca_file: Annotated[Path, BeforeValidator(_authorities)] | None = None  #: None: as CA_FILE says
    ad_hoc: bool = False  #: named by an address, not declared

    @field_validator("seeds", "sitemaps")
    @classmethod
    def _once(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(urls))

    @model_validator(mode="after")
    def _holds_its_seeds(self) -> Self:
        """Refuse seeds that would never be asked, because the source itself leaves them out."""
        if not (self.seeds or self.sitemaps):
            raise ValueError(
                "is empty: give at least one address to start from, as in"
                ' ["https://docs.example.com/"], or a sitemap'
            )
        scope = self.scope
        outside = [
            f"{seed} ({refusal})"
            for seed, refusal in ((seed, scope.refusal(seed)) for seed in self.seeds)
            if refusal is not None
        ]
        if outside:
            raise ValueError(
                f"outside of the source: {', '.join(outside)};"
                " change the seed or what leaves it out, else it is never asked"
            )
        return self

    @property
    def scope(self) -> Scope:
        """What belongs to the source; without ``allowed_domains`` the hosts of its seeds.

        Without seeds, those of its sitemaps.
        """
        entries = self.allowed_domains
        hosts = [
            entry.removesuffix(":80").removesuffix(":443") for entry in entries if has_port(entry)
        ]
        return Scope(
            hosts=frozenset(hosts if entries else map(host_key, self.seeds or self.sitemaps)),
            domains=frozenset(entry for entry in entries if not has_port(entry)),
            url_patterns=self.url_patterns,
            excluded_patterns=self.excluded_patterns,
            max_depth=self.max_depth,
        )


#: What may stand in a table of sources.toml.
KEYS: Final = tuple(key for key in Source.model_fields if key not in ("name", "ad_hoc"))


def load(path: Path) -> dict[str, Source]:
    """Return the declared sources by name, in their order; none when there is no such file.

    Raises:
        SourceError: with all problems of the file: where, what, and what to write instead.
    """
    try:
        text = path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        end = f"at line {len(text.splitlines())}, the end of the file"
        reason = str(error).replace("at end of document", end)
        raise SourceError(
            f"{path} is no TOML: {reason};"
            " a text stands in quotes, a pattern with backslashes in single quotes"
        ) from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{path} is not UTF-8 ({error}): save it as UTF-8") from error
    except OSError as error:
        raise SourceError(
            f"{path} cannot be read ({error.strerror}): give this user the right to read it,"
            " or name another file with -s SOURCES_FILE="
        ) from error
    problems = [
        f"{key}: unknown key{_meant(key, ['sources'])}; a source is a table [sources.NAME]"
        for key in content
        if key != "sources"
    ]
    tables = content.get("sources", {})
    if not isinstance(tables, dict):
        problems.append("sources: it takes tables, each headed [sources.NAME]")
        tables = {}
    sources: dict[str, Source] = {}
    for name, table in tables.items():
        try:
            source = _declared(name, table, path.absolute().parent)
        except SourceError as error:
            problems += str(error).splitlines()
        else:
            sources[source.name] = source
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise SourceError("\n  ".join([f"{path} has {count}:", *problems]))
    return sources


def ad_hoc(
    url: str | None, declared: Mapping[str, Source], *, sitemaps: Sequence[str] = ()
) -> Source:
    """Return the source that is named by the host of ``url`` and holds all of that host.

    Without a ``url`` it is named by the host of the first of the ``sitemaps``.

    Raises:
        SourceError: an address cannot be crawled, or sources.toml has a source of that name.
    """
    seeds, maps = [] if url is None else [_given("url", url, declared)], _sitemaps(sitemaps)
    first = (seeds or maps)[0]
    name = host_key(first)
    if name in declared:
        raise SourceError(
            f"-a url={first}: {name} is declared in sources.toml; write -a source={name}"
        )
    try:
        return Source(name=name, seeds=tuple(seeds), sitemaps=tuple(maps), ad_hoc=True)
    except ValidationError as error:
        raise SourceError("\n".join(f"-a url {_reason(e)}" for e in error.errors())) from error


def with_sitemaps(source: Source, sitemaps: Sequence[str]) -> Source:
    """Return a source with more sitemaps, for one run.

    Raises:
        SourceError: one of them is no web address.
    """
    return source.model_copy(update={"sitemaps": (*source.sitemaps, *_sitemaps(sitemaps))})


def _sitemaps(urls: Sequence[str]) -> list[str]:
    return [_given("sitemap", url, {}) for url in urls]


def _given(argument: str, url: str, declared: Mapping[str, Source]) -> str:
    """Return the request URL of an argument.

    Raises:
        SourceError: it is none.
    """
    if url in declared:
        raise SourceError(f"-a url={url}: this is the name of a source; write -a source={url}")
    try:
        return _web_address(url)
    except ValueError as error:
        raise SourceError(f"-a {argument} {error}") from error


def select(name: str, sources: Mapping[str, Source]) -> Source:
    """Return the source called ``name``.

    Raises:
        SourceError: there is none; the message lists those that there are.
    """
    if name in sources:
        return sources[name]
    if not sources:
        raise SourceError(
            f"there is no source {name!r}, and none is declared: add a table [sources.{name}] to"
            " sources.toml (see sources.example.toml), or crawl an address with -a url="
        )
    raise SourceError(
        f"there is no source {name!r}{_meant(name, sources)};"
        f" declared in sources.toml: {', '.join(sources)}"
    )


def _declared(name: str, table: object, folder: Path) -> Source:
    """Return the source of one table; ``folder`` is that of sources.toml.

    Raises:
        SourceError: one line for each problem.
    """
    where = f"[sources.{name}]"
    if not _NAME.fullmatch(name):
        raise SourceError(f"[sources.{name!r}]: a name takes {_NAME_RULE}; rename it")
    if not isinstance(table, dict):
        raise SourceError(f"{where}: it takes a table; write its keys below a line {where}")
    kind = table.get("kind", KIND)
    if kind != KIND:  # then its other keys are not for us to judge
        raise SourceError(f'{where} kind is {kind!r}: this version crawls kind = "{KIND}" only')
    problems = [
        f"{where} {key}: unknown key{_meant(key, KEYS)}; known are {', '.join(KEYS)}"
        for key in table
        if key not in KEYS
    ]
    values = {key: value for key, value in table.items() if key in KEYS}
    release = values.get("release")
    try:
        values["name"] = name if release is None else f"{name}@{release}"
        source = Source.model_validate(values, context={"folder": folder})
    except ValidationError as error:
        problems += _told(where, error)
    if problems:
        raise SourceError("\n".join(problems))
    return source


def _told(where: str, error: ValidationError) -> list[str]:
    """Return pydantic's findings as sentences, one for each key."""
    lines = []
    for found in error.errors():
        key, *places = found["loc"] or ("seeds",)  # a check of the whole is about the seeds
        place = "".join(f"[{number}]" for number in places)
        lines.append(f"{where} {key}{place} {_reason(found)}")
    return lines


def _reason(found: ErrorDetails) -> str:
    value = found["input"]
    match found["type"]:
        case "value_error":
            return str(found["ctx"]["error"])
        case "missing" if len(found["loc"]) > 1:
            return "is missing"
        case "extra_forbidden":
            return "is an unknown key; known are pattern and mode"
        case "missing":
            return 'is missing: give addresses to start from, as in ["https://docs.example.com/"]'
        case "string_type":
            takes = "a text in quotes"
        case "tuple_type":
            takes = 'a list of texts, as in ["a", "b"]'
        case "model_type" | "model_attributes_type":
            takes = "a table, as in { pattern = '/tag/', mode = 'links_only' }"
        case "is_instance_of":
            takes = f"one of {', '.join(_MODES)}"
        case "bool_type":
            takes = "true or false"
        case "is_instance_of" if found["loc"][0] == "ca_file":
            takes = "a text in quotes"
        case "int_type" | "greater_than_equal":
            takes = "a whole number, 0 for no limit"
        case _:
            return f"is {value!r}: {found['msg']}"
    return f"is {_shown(value)}: it takes {takes}"


def _shown(value: object) -> str:
    """Return a value as a message shows it, without credentials (RD-20)."""
    return _CREDENTIALS.sub("…@", repr(value))


def _meant(word: str, known: Iterable[str]) -> str:
    """Return the question after a misspelt word, or nothing."""
    close = get_close_matches(word, list(known), n=1)
    return f", did you mean {close[0]}?" if close else ""
