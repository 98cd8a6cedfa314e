"""The fields that sources of every kind have, and the configuration of their extraction."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict

from smartcrawl.model.documents import DEFAULT_CHUNK_SIZE, ChunkSize
from smartcrawl.model.options import Options
from smartcrawl.model.urls import request_url, url_digest, url_digest_text, url_origin
from smartcrawl.rules.alarms import Limits
from smartcrawl.rules.model import Mode
from smartcrawl.rules.visibility import Visibility, declared_visibility
from smartcrawl.sources.auth import SecretName
from smartcrawl.sources.fields import (
    LIST,
    Addresses,
    IndexMode,
    Label,
    Limit,
    Pattern,
    Selectors,
    Share,
    SourceVisibility,
)
from smartcrawl.sources.kinds import Kind, source_kind_named
from smartcrawl.sources.request_keys import SourceRequest, request_keys_of_kind
from smartcrawl.sources.scope import Scope, compile_scope_pattern

_ID_LENGTH: Final = 6  #: characters of a digest in the name of an ad-hoc source


class ModeRule(BaseModel):
    """Index mode of the pages whose addresses match a pattern."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    pattern: Pattern
    mode: IndexMode


class Source(BaseModel):
    """One declared or ad-hoc source. Each kind has a model of its own, with its own keys.

    Source: docs/sources.md; M-28.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    #: Fields that are no keys of sources.toml.
    UNDECLARED: ClassVar[frozenset[str]] = frozenset(
        {"name", "request", "ad_hoc", "of_job", "addresses"}
        | {"start", "stale", "ways", "by_default"}
    )

    name: str  #: name with release, as in docs@2.1
    kind: str
    seeds: Addresses = ()  #: request URLs
    sitemaps: Addresses = ()  #: URLs of sitemaps and feeds
    index_modes: Annotated[tuple[ModeRule, ...], LIST] = ()  #: the first that matches counts
    keep_selectors: Selectors = ()  #: CSS: only text inside of them is text of a page
    drop_selectors: Selectors = ()  #: CSS: text inside of them is not
    max_depth: Limit = 0  #: links from a seed, 0: no limit
    max_pages: Limit = 0  #: visits of one run, 0: no limit
    release: Label | None = None
    verify_certificates: bool | None = None  #: of its servers; None: by VERIFY_CERTIFICATES
    ca_file: Path | None = None  #: None: by CA_FILE
    visibility: SourceVisibility = None  #: None: as it was, and private with a login
    hook: SecretName | None = None  #: of the token of its notices; None: it takes none
    max_age: Limit | None = None  #: seconds, 0: any age; None: by MAX_AGE_SECONDS
    max_failed: Share | None = None  #: None: by MAX_FAILED_RATIO
    request: SourceRequest = SourceRequest()  #: how its requests are made
    ad_hoc: bool = False  #: named by an address, not declared
    of_job: bool = False  #: defined over the HTTP API: its seeds open no private address
    addresses: frozenset[str] | None = None  #: it has these pages alone; None: those of its scope

    @property
    def traits(self) -> Kind:
        """Properties of its kind."""
        return source_kind_named(self.kind)

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of its pages."""
        return (self.traits,)

    def kind_of(self, url: str) -> Kind:
        """Return the kind of the page at ``url``, which may be in scope or not."""
        return self.traits

    @property
    def has_hash_routes(self) -> bool:
        """Whether hash routes of its documents are pages of their own."""
        return False

    def lists(self, url: str) -> bool:
        """Whether a listing of the source says if the page at ``url`` exists."""
        return self.kind_of(url).is_listed

    @property
    def is_open(self) -> bool:
        """Whether the first answer of its seed decides how far it reaches."""
        return False

    @property
    def linked_seeds(self) -> tuple[str, ...]:
        """The request URLs from which links lead to pages."""
        return self.seeds

    @property
    def optional_seeds(self) -> Mapping[str, str]:
        """Seeds that need not exist, each with the address that it redirects to then."""
        return {}

    @property
    def keeps_snapshots(self) -> bool:
        """Whether bodies are stored, because reading them again is costly."""
        return True

    @property
    def has_login(self) -> bool:
        """Whether its pages are asked with credentials."""
        return False

    @property
    def declared_visibility(self) -> Visibility | None:
        """The visibility that its table declares; None: none, so that the stored one counts."""
        return declared_visibility(self.visibility, has_login=self.has_login)

    def alarm_limits(self, usual: Limits) -> Limits:
        """Return what the source may do without an alarm; ``usual``: by the settings."""
        return Limits(
            usual.max_age if self.max_age is None else self.max_age,
            usual.max_failed if self.max_failed is None else self.max_failed,
        )

    @property
    @abstractmethod
    def scope(self) -> Scope:
        """The addresses that belong to the source."""

    @property
    @abstractmethod
    def starts(self) -> tuple[str, ...]:
        """The addresses that a run starts from, as people gave them."""

    @property
    def origins(self) -> frozenset[str]:
        """Scheme, host and port of each seed; of each sitemap where there is no seed."""
        return frozenset(map(url_origin, self.seeds or self.sitemaps))

    @property
    def ad_hoc_root(self) -> str | None:
        """The URL that its next run lists; None: it is declared, or links lead to its pages."""
        return None

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """Return the keys of a table of sources.toml."""
        fields = cls.model_fields.items()
        own = (field.alias or key for key, field in fields if key not in cls.UNDECLARED)
        return (*own, *request_keys_of_kind(cls.model_fields["kind"].default))


def declared_visibilities(sources: Mapping[str, Source]) -> dict[str, Visibility]:
    """Return the visibilities that tables declare, by the name of the source."""
    found = {name: source.declared_visibility for name, source in sources.items()}
    return {name: visibility for name, visibility in found.items() if visibility is not None}


def ad_hoc_source_name(words: str, start: str) -> str:
    """Return the name of a source that a command names by its start alone: words and a digest.

    >>> ad_hoc_source_name("docs", "file:///srv/docs")
    'docs-kxmku7'
    """
    return f"{words}-{url_digest_text(url_digest(start))[:_ID_LENGTH]}"


def belongs_to_source(source: Source, url: str) -> bool:
    """Whether an address is in a source's scope, or in the scope that its seed may move to.

    The scope of an ad-hoc source moves with its seed between a host and that host with
    ``www.``. When the seed fails, its target is unknown, and no page is excluded for that.
    """
    if source.scope.allows(url):
        return True
    single = source.scope.addresses is not None
    moved = source.scope.moved_to(url) if source.ad_hoc and not single else None
    return moved is not None and moved.allows(url)


def source_refusals(sources: Iterable[Source], url: str) -> dict[str, str]:
    """Return the reasons of sources with the address's host or root to refuse it, by name."""
    requested = request_url(url)
    found: dict[str, str] = {}
    for source in sources:
        why = source.scope.refusal(url)
        known = url if source.lists(url) else requested
        if known is not None and why is not None and source.scope.holds(known):
            found[source.name] = why
    return found


EXTRACTION_VERSION: Final = 11  #: raise it when the same body gives another document or other links
CHUNKING_VERSION: Final = 5  #: raise it when the same document gives other chunks


@dataclass(frozen=True, slots=True)
class PageSelectors:
    """CSS selectors of the parts of a page whose text and images count, and of those that do not.

    Links always come from the whole page.
    """

    keep: tuple[str, ...] = ()  #: empty: the part that is recognised as the main one
    drop: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.keep or self.drop)


@dataclass(frozen=True, slots=True)
class SourceExtractionConfig:
    """Rules by which the pages of one source enter the index.

    >>> rules = (("/tag/", Mode.LINKS_ONLY), ("/tmp/", Mode.NONE))
    >>> SourceExtractionConfig(rules).mode_of("http://a.example/tag/x").word
    'links_only'
    """

    rules: tuple[tuple[str, Mode], ...] = ()  #: (pattern, mode): the first that matches counts
    selectors: PageSelectors = PageSelectors()
    basis: str = "text"  #: input of the content hash: text or bytes
    chunks: ChunkSize = DEFAULT_CHUNK_SIZE
    logs_in: bool = False  #: whether links that log out are left out
    routes: bool = False  #: whether links keep their hash routes

    @classmethod
    def of(cls, source: Source | None, options: Options) -> Self:
        """Return the configuration of a source; None stands for an undeclared one."""
        basis = "bytes" if options.content_hash_basis == "bytes" else "text"  # auto: text, if any
        if source is None:
            return cls(basis=basis, chunks=options.chunks)
        rules = tuple((rule.pattern, rule.mode) for rule in source.index_modes)
        selectors = PageSelectors(source.keep_selectors, source.drop_selectors)
        return cls(
            rules,
            selectors,
            basis,
            options.chunks,
            logs_in=source.has_login,
            routes=source.has_hash_routes,
        )

    def mode_of(self, url: str) -> Mode:
        """Return the index mode of the page at a request URL."""
        for pattern, mode in self.rules:
            if compile_scope_pattern(pattern).search(url):
                return mode
        return Mode.INDEX

    def fingerprint(self, mode: Mode) -> bytes:
        """Return the fingerprint (16 bytes) of the configuration for pages of this mode.

        Selectors do not count for pages that are not indexed, because only their links are read.
        """
        parts: list[object] = [EXTRACTION_VERSION, mode.word]
        if mode is Mode.INDEX:
            parts += [CHUNKING_VERSION, self.basis, self.selectors.keep, self.selectors.drop]
            parts.append(self.chunks)
        if self.logs_in:
            parts.append("logs in")
        if self.routes:
            parts.append("hash routes")
        return hashlib.sha256(json.dumps(parts).encode()).digest()[:16]
