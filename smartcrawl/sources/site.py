"""Web sites as sources, and single pages of the web."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from smartcrawl.model.urls import (
    unsigned_url,
    url_has_port,
    url_host_key,
    url_origin,
    url_path,
)
from smartcrawl.rules.extent import (
    Extent,
    default_extent,
    is_below_folder,
    is_extent_open,
    seed_folder,
)
from smartcrawl.rules.freshness import Freshness
from smartcrawl.sources.auth import SourceAuth
from smartcrawl.sources.base import Source
from smartcrawl.sources.fields import (
    AuthoritiesFile,
    Domains,
    Limit,
    Patterns,
    Selector,
    SiteExtent,
    SourceFreshness,
)
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.scope import SiteScope


class SiteSource(Source):
    """A web site: the pages that links and sitemaps lead to, from its seeds, within its scope."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)

    kind: Literal["site", "documents"] = "site"
    #: How far it reaches from its seeds; None: its first answer decides (``is_open``).
    extent: SiteExtent = Field(default=Extent.HOST, alias="scope")
    allowed_domains: Domains = ()  #: a domain and its subdomains, or one host with its port
    url_patterns: Patterns = ()
    excluded_patterns: Patterns = ()
    ca_file: AuthoritiesFile | None = None  #: None: by CA_FILE
    auth: SourceAuth | None = None  #: the login of its pages; None: they need none
    start: str | None = None  #: of an ad-hoc source: the page or folder that its extent is of
    by_default: bool = False  #: a new address, for which the operator chose no extent
    stale: str | None = None  #: the start that the registry still has of one that is open
    ways: tuple[str, ...] = ()  #: request URLs by which its seed led to ``start``
    #: Whether a browser shows its pages first; None: by RENDER.
    render: Literal["no", "auto", "always"] | None = None
    render_wait_for: Selector = ""  #: CSS: an element to wait for
    render_scroll: Limit = 0  #: times that a page is scrolled to its end
    render_seconds: Annotated[int, Field(ge=1, le=300)] = 10  #: of a page, without its requests
    render_hash_routes: bool = False  #: whether #/a and #!a are pages of their own
    data_hosts: Domains = ()  #: other hosts whose data its pages may ask
    data_posts: Patterns = ()  #: addresses that a POST reads
    #: The budget of its visits; None: each page has an interval of its own.
    freshness: SourceFreshness = None

    @field_validator("seeds", "sitemaps")
    @classmethod
    def _once(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(urls))

    @model_validator(mode="after")
    def _holds_its_seeds(self) -> Self:
        """Refuse seeds that would never be requested, because the source itself excludes them."""
        if not (self.seeds or self.sitemaps or self.addresses is not None):
            raise ValueError(
                "is empty: give at least one address to start from, as in"
                ' ["https://docs.example.com/"], or a sitemap'
            )
        if self.extent is not Extent.HOST and self.allowed_domains:
            raise ValueError(
                "have scope and allowed_domains beside them, which both say how far the source"
                " reaches: leave one of the two out"
            )
        if self.extent in (Extent.PAGES, Extent.BELOW) and not self.seeds:
            raise ValueError(f'are missing: scope = "{self.extent}" is about seeds; give one')
        if self.render_hash_routes and self.render in (None, "no"):
            raise ValueError(
                "have render_hash_routes and no browser that could show them: add"
                ' render = "auto" or "always", or leave render_hash_routes out'
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
                " change the seed or the rule that excludes it, else it is never requested"
            )
        return self

    @property
    def has_login(self) -> bool:
        """Whether its pages are asked with credentials."""
        return self.auth is not None

    @property
    def login_origins(self) -> tuple[str, ...]:
        """The origins that get the credentials of ``auth``; none without it."""
        if self.auth is None:
            return ()
        return self.auth.origins or tuple(dict.fromkeys(map(url_origin, self.seeds)))

    @property
    def is_open(self) -> bool:
        """Whether the first answer of its seed decides how far it reaches (ADR 144)."""
        return self.ad_hoc and bool(self.seeds) and is_extent_open(self.extent, self.start)

    @property
    def has_hash_routes(self) -> bool:
        """Whether hash routes of its documents are pages of their own."""
        return self.render_hash_routes

    @property
    def scope(self) -> SiteScope:
        """The scope of the source; without ``allowed_domains`` the hosts of its seeds.

        Without seeds, the hosts of its sitemaps. While it is open, these hosts are whole.
        """
        if self.kind == DOCUMENTS.name and self.addresses is not None:
            return SiteScope(addresses=self.addresses)
        entries = self.allowed_domains
        hosts = [
            entry.removesuffix(":80").removesuffix(":443")
            for entry in entries
            if url_has_port(entry)
        ]
        if not entries:
            hosts = [*map(url_host_key, self.seeds or self.sitemaps)]
        domains = [entry for entry in entries if not url_has_port(entry)]
        if self.extent is Extent.DOMAIN:
            domains = [_domain_of(host) for host in hosts]
        return SiteScope(
            hosts=frozenset(hosts),
            domains=frozenset(domains),
            excluded_patterns=self.excluded_patterns,
            max_depth=self.max_depth,
            routes=self.has_hash_routes,
            **self._part(),
        )

    def _part(self) -> dict[str, Any]:
        """Return the part of its hosts that the source has, as arguments of its scope.

        An ad-hoc source has its start, whatever ``url_patterns`` say.
        """
        if self.is_open:
            return {}
        starts = (*self.seeds, *self.ways, *filter(None, (self.start,)))
        patterns = {"url_patterns": self.url_patterns}
        if self.extent is Extent.PAGES:
            return {"addresses": frozenset(starts)}
        if self.extent is not Extent.BELOW:
            exempt = starts if self.ad_hoc and self.url_patterns else ()
            return {**patterns, "ways": frozenset(exempt)}
        given = self.seeds if self.start is None else (self.start,)
        folders = frozenset(seed_folder(url_path(url)) for url in given)
        own = [
            url
            for url in starts
            if (self.ad_hoc and self.url_patterns)
            or not any(is_below_folder(one, url_path(url)) for one in folders)
        ]
        return {**patterns, "folders": folders, "ways": frozenset(own)}

    def decided(
        self, url: str, links: Iterable[str], ways: Iterable[str], *, lists: bool = False
    ) -> Self:
        """Return an open source as the first answer of its seed decides about it.

        ``url``: the page at the end of the seed's redirects, ``links``: the request URLs of its
        hosts to which that page leads, ``ways``: the addresses before it. ``lists``: whether it is
        a sitemap or a feed. Signatures and session ids of the addresses are left out.
        """
        url = unsigned_url(url)
        folder = seed_folder(url_path(url), map(url_path, links))
        extent = self.extent
        if extent is None:
            extent = default_extent(url_path(self.seeds[0]), folder, lists=lists)
        start = url
        if extent is Extent.BELOW:
            start = url_origin(url) + folder
        update = {
            "extent": extent,
            "start": start,
            "ways": tuple(dict.fromkeys(map(unsigned_url, ways))),
        }
        return self.model_copy(update=update)

    @property
    def starts(self) -> tuple[str, ...]:
        """The seeds and sitemaps."""
        return (*self.seeds, *self.sitemaps)


def _domain_of(host: str) -> str:
    """Return the domain whose subdomains belong to a host: without ``www.`` and port."""
    name = host.rpartition(":")[0] if url_has_port(host) else host
    return name.removeprefix("www.")


def documents_source(addresses: Iterable[str]) -> SiteSource:
    """Return the source of single pages: no link of them leads to another page of it."""
    return SiteSource(
        name=DOCUMENTS.name, kind="documents", addresses=frozenset(addresses), of_job=True
    )


def source_freshness(source: Source | None) -> Freshness | None:
    """Return the budget of the visits to a source; None: it has none."""
    return source.freshness if isinstance(source, SiteSource) else None
