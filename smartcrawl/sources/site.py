"""Web sites as sources, and single pages of the web."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Self

from pydantic import field_validator, model_validator

from smartcrawl.model.urls import url_has_port, url_host_key
from smartcrawl.sources.base import Source
from smartcrawl.sources.fields import AuthoritiesFile, Domains, Patterns
from smartcrawl.sources.kinds import DOCUMENTS
from smartcrawl.sources.scope import SiteScope


class SiteSource(Source):
    """A web site: the pages that links and sitemaps lead to, from its seeds, within its scope."""

    kind: Literal["site", "documents"] = "site"
    allowed_domains: Domains = ()  #: a domain and its subdomains, or one host with its port
    url_patterns: Patterns = ()
    excluded_patterns: Patterns = ()
    ca_file: AuthoritiesFile | None = None  #: None: by CA_FILE

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
    def scope(self) -> SiteScope:
        """The scope of the source; without ``allowed_domains`` the hosts of its seeds.

        Without seeds, the hosts of its sitemaps.
        """
        if self.addresses is not None:
            return SiteScope(addresses=self.addresses)
        entries = self.allowed_domains
        hosts = [
            entry.removesuffix(":80").removesuffix(":443")
            for entry in entries
            if url_has_port(entry)
        ]
        return SiteScope(
            hosts=frozenset(hosts if entries else map(url_host_key, self.seeds or self.sitemaps)),
            domains=frozenset(entry for entry in entries if not url_has_port(entry)),
            url_patterns=self.url_patterns,
            excluded_patterns=self.excluded_patterns,
            max_depth=self.max_depth,
        )

    @property
    def starts(self) -> tuple[str, ...]:
        """The seeds and sitemaps."""
        return (*self.seeds, *self.sitemaps)


def documents_source(addresses: Iterable[str]) -> SiteSource:
    """Return the source of single pages: no link of them leads to another page of it."""
    return SiteSource(
        name=DOCUMENTS.name, kind="documents", addresses=frozenset(addresses), of_job=True
    )
