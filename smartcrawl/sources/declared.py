"""Sources: declared in sources.toml, or given as one address.

A source is the document set: scope, runs, records and deletion are per source (docs/sources.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from smartcrawl.model.exceptions import SourceError, UnknownSourceError, meant_word
from smartcrawl.model.program import program_argument, program_argument_label, program_crawl_line
from smartcrawl.model.settings_file import SETTINGS_FILE, parsed_toml_file
from smartcrawl.model.urls import url_host_key
from smartcrawl.rules.extent import EXTENTS
from smartcrawl.rules.visibility import VISIBILITIES
from smartcrawl.sources.auth import auth_problems, declared_auth
from smartcrawl.sources.base import Source
from smartcrawl.sources.fields import (
    MODES,
    NAME,
    NAME_RULE,
    declared_field_text,
    declared_web_address,
)
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.kinds import FILES, GITHUB, SHAREPOINT, SITE
from smartcrawl.sources.request_keys import (
    REQUEST_KEYS,
    SourceRequest,
    request_key_problems,
    request_key_refusal,
)
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.site import SiteSource

_Made = TypeVar("_Made", bound=Source)

#: The model of each kind that sources.toml may have.
_MODELS: Final[Mapping[str, type[Source]]] = {
    SITE.name: SiteSource,
    FILES.name: FilesSource,
    GITHUB.name: GithubSource,
}
_KINDS: Final = (SITE, FILES, GITHUB)
#: What to give for a key that a source must have.
_GIVE: Final = {
    "seeds": 'addresses to start from, as in ["https://docs.example.com/"]',
    "root": 'the path of a folder, as in "/srv/docs"',
    "url": 'a repository, as in "https://github.com/OWNER/REPO"',
}


#: The words that a key takes, where it is none of ``MODES``.
_WORDS: Final[Mapping[str, Sequence[str]]] = {"scope": EXTENTS, "visibility": VISIBILITIES}


class WrongTable(NamedTuple):
    """A table of sources.toml that declares no source."""

    spider: str | None  #: that would crawl it; None: its kind is not known
    problems: tuple[str, ...]  #: each with its place and the remedy


class DeclaredSources(dict[str, Source]):
    """The declared sources by name, in their order, and the tables that declare none."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self.wrong: dict[str, WrongTable] = {}  #: by the name of the table, or of its release
        self._files: dict[str, Path] = {}  #: by name; those of ``path`` are left out

    def declares(self, name: str) -> bool:
        """Whether a table has the name, even if something else in it is wrong."""
        return name in self or name in self.wrong

    def file_of(self, name: str) -> Path:
        """Return the file that declares a source."""
        return self._files.get(name, self._path)

    def add(self, other: DeclaredSources) -> None:
        """Add the sources of another file.

        Raises:
            SourceError: both files declare a source.
        """
        twice = [name for name in (*other, *other.wrong) if self.declares(name)]
        if twice:
            raise SourceError(
                f"the source {twice[0]!r} is declared in {self.file_of(twice[0])} and in"
                f" {other._path}: remove the table [sources.{twice[0]}] from one of them"
            )
        self.update(other)
        self.wrong |= other.wrong
        self._files |= dict.fromkeys((*other, *other.wrong), other._path)

    def check(self, names: Iterable[str] | None = None) -> None:
        """Check the tables of these names; None: all.

        Raises:
            SourceError: with all problems of the tables, each with its place and the remedy.
        """
        wanted = self.wrong if names is None else [name for name in names if name in self.wrong]
        found: dict[Path, list[str]] = {}
        for name in wanted:
            found.setdefault(self.file_of(name), []).extend(self.wrong[name].problems)
        if found:
            raise SourceError("\n".join(str(_problems_of(*each)) for each in found.items()))


def source_keys() -> frozenset[str]:
    """Return the keys that a table of any kind takes."""
    return frozenset().union(*(model.keys() for model in _MODELS.values()))


def load_declared_sources(path: Path, *others: Path) -> DeclaredSources:
    """Return the declared sources of files; none of a file that is not there.

    Raises:
        SourceError: a file cannot be read, or has something else than tables of sources; two files
            declare a source.
    """
    sources = _sources_of(path)
    for other in others:
        sources.add(_sources_of(other))
    return sources


def _sources_of(path: Path) -> DeclaredSources:
    content = parsed_toml_file(path, SourceError, "name another file with -s SOURCES_FILE=")
    if content is None:
        return DeclaredSources(path)
    has_settings = path.name == SETTINGS_FILE
    problems = [
        f"{key}: unknown key{meant_word(key, ['sources'])}; a source is a table [sources.NAME]"
        + (f", and settings belong in {SETTINGS_FILE}" if key == "settings" else "")
        for key in content
        if key != "sources" and not (key in ("settings", "notify") and has_settings)
    ]
    tables = content.get("sources", {})
    if not isinstance(tables, dict):
        problems.append("sources: expected tables, each headed [sources.NAME]")
        tables = {}
    sources = DeclaredSources(path)
    for name, table in tables.items():
        try:
            source = _declared(name, table, path.absolute().parent)
        except SourceError as error:
            wrong = WrongTable(_spider_of(table), tuple(str(error).splitlines()))
            sources.wrong[_name_of(name, table)] = wrong
        else:
            sources[source.name] = source
    if problems:
        of_tables = [problem for table in sources.wrong.values() for problem in table.problems]
        raise _problems_of(path, [*problems, *of_tables])
    return sources


def _problems_of(path: Path, problems: Sequence[str]) -> SourceError:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    return SourceError("\n  ".join([f"{path} has {count}:", *problems]))


def _name_of(name: str, table: object) -> str:
    """Return the name of the source that a wrong table was to declare."""
    release = table.get("release") if isinstance(table, dict) else None
    return f"{name}@{release}" if isinstance(release, str) else name


def _spider_of(table: object) -> str | None:
    """Return the spider that would crawl the source of a wrong table; None: that is not known."""
    kind = table.get("kind", SITE.name) if isinstance(table, dict) else SITE.name
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    return None if model is None else next(one.spider for one in _KINDS if one.name == kind)


def ad_hoc_site_source(
    url: str | None, declared: Mapping[str, Source], *, sitemaps: Sequence[str] = ()
) -> SiteSource:
    """Return the source with the name of the host of ``url`` and with all pages of that host.

    Without a ``url`` it has the name of the host of the first of the ``sitemaps``.

    Raises:
        SourceError: an address cannot be crawled, or sources.toml has a source of that name.
    """
    seeds, maps = [] if url is None else [_given("url", url, declared)], _sitemaps(sitemaps)
    first = (seeds or maps)[0]
    name = url_host_key(first)
    _check_table(name, declared)
    if name in declared:
        raise SourceError(
            f"{program_argument('url', first)}: {name} is declared in"
            f" {_file_name(name, declared)}; write"
            f" {program_argument('source', name)}"
        )
    try:
        return SiteSource(name=name, seeds=tuple(seeds), sitemaps=tuple(maps), ad_hoc=True)
    except ValidationError as error:
        raise SourceError(
            "\n".join(f"{program_argument_label('url')} {_reason(e)}" for e in error.errors())
        ) from error


def _file_name(name: str, declared: Mapping[str, Source]) -> str:
    """Return the name of the file that declares a source."""
    return declared.file_of(name).name if isinstance(declared, DeclaredSources) else "sources.toml"


def source_with_sitemaps(source: Source, sitemaps: Sequence[str]) -> Source:
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
        SourceError: it is no web address.
    """
    if url in declared:
        raise SourceError(
            f"{program_argument('url', url)}: this is the name of a source; write"
            f" {program_argument('source', url)}"
        )
    try:
        return declared_web_address(url)
    except ValueError as error:
        raise SourceError(f"{program_argument_label(argument)} {error}") from error


def select_declared_source(name: str, sources: Mapping[str, Source]) -> Source:
    """Return the source called ``name``.

    Raises:
        UnknownSourceError: there is none of this name; the message lists the declared ones.
    """
    _check_table(name, sources)
    if name in sources:
        return sources[name]
    if not sources:
        raise UnknownSourceError(
            f"there is no source {name!r}, and none is declared: add a table [sources.{name}] to"
            " sources.toml (see sources.example.toml), or crawl an address:"
            f" {program_crawl_line('https://…')}"
        )
    raise UnknownSourceError(
        f"there is no source {name!r}{meant_word(name, sources)};"
        f" declared in sources.toml: {', '.join(sources)}"
    )


def _check_table(name: str, sources: Mapping[str, Source]) -> None:
    """Check that no table of this name is wrong.

    Raises:
        SourceError: with the problems of the table.
    """
    if isinstance(sources, DeclaredSources):
        sources.check([name])


def _declared(name: str, table: object, folder: Path) -> Source:
    """Return the source of one table; ``folder`` is that of sources.toml.

    Raises:
        SourceError: one line for each problem.
    """
    where = f"[sources.{name}]"
    if not NAME.fullmatch(name):
        raise SourceError(f"[sources.{name!r}]: a name takes {NAME_RULE}; rename it")
    if not isinstance(table, dict):
        raise SourceError(f"{where}: expected a table; write its keys below a line {where}")
    kind = table.get("kind", SITE.name)
    model = _MODELS.get(kind) if isinstance(kind, str) else None
    if kind == SHAREPOINT.name:
        raise SourceError(
            f"{where} kind is {kind!r}: a library is declared in the"
            f" {CRAWLER_HARDCODED_CONFIG.DOMAIN_JSON} of its domain; move it there"
        )
    if model is None:  # then its other keys are not checked
        known = " or ".join(f'"{name}"' for name in _MODELS)
        raise SourceError(f"{where} kind is {kind!r}: expected {known}")
    if "root" in table and not table.keys() & {"kind", "seeds"}:
        raise SourceError(
            f'{where} root: only the kind "{FILES.name}" has a root: add kind = "{FILES.name}"'
        )
    keys = model.keys()
    problems = [
        f"{where} {key}: {request_key_refusal(kind, key)}"
        if request_key_refusal(kind, key)
        else f"{where} {key}: unknown key{meant_word(key, keys)}; known are {', '.join(keys)}"
        for key in table
        if key not in keys
    ]
    values = {key: value for key, value in table.items() if key in keys}
    own = {key: values.pop(key) for key in tuple(values) if key in REQUEST_KEYS}
    problems += [f"{where} {problem}" for problem in request_key_problems(own)]
    if "auth" in values:
        try:
            values["auth"] = declared_auth(where, values["auth"], folder)
        except ValueError as error:
            problems.append(str(error))
            del values["auth"]
    release = values.get("release")
    try:
        values["name"] = name if release is None else f"{name}@{release}"
        source = model.model_validate(values, context={"folder": folder})
        if own and not problems:
            source = source.model_copy(update={"request": SourceRequest.declared(own)})
    except ValidationError as error:
        problems += _problems(where, error)
    else:
        if isinstance(source, SiteSource) and source.auth is not None:
            problems += auth_problems(source.auth, source.seeds, where)
    if problems:
        raise SourceError("\n".join(problems))
    return source


def declared_source_problems(
    model: type[_Made], values: Mapping[str, object], labels: Mapping[str, str]
) -> tuple[_Made | None, list[str]]:
    """Return a source of these values, or what is wrong with them; ``labels``: of their keys."""
    try:
        return model.model_validate(values), []
    except ValidationError as error:
        found = [(str((one["loc"] or ("seeds",))[0]), _reason(one)) for one in error.errors()]
        return None, [f"{labels.get(key, key)} {reason}" for key, reason in found]


def _problems(where: str, error: ValidationError) -> list[str]:
    """Return pydantic's errors as sentences, one for each key."""
    lines = []
    for found in error.errors():
        key, *places = found["loc"] or ("seeds",)  # a check of the whole source is about the seeds
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
            return f"is missing: give {_GIVE.get(str(found['loc'][-1]), _GIVE['seeds'])}"
        case "string_type":
            takes = "a text in quotes"
        case "tuple_type":
            takes = 'a list of texts, as in ["a", "b"]'
        case "model_type" | "model_attributes_type":
            takes = "a table, as in { pattern = '/tag/', mode = 'links_only' }"
        case "is_instance_of":
            takes = f"one of {', '.join(_WORDS.get(str(found['loc'][0]), MODES))}"
        case "bool_type":
            takes = "true or false"
        case "is_instance_of" if found["loc"][0] == "ca_file":
            takes = "a text in quotes"
        case "int_type" | "greater_than_equal" | "less_than_equal":
            most = found.get("ctx", {}).get("le")
            takes = f"a whole number{f' up to {most}' if most else ''}, 0 for no limit"
        case _:
            return f"is {value!r}: {found['msg']}"
    return f"is {declared_field_text(value)}: expected {takes}"
