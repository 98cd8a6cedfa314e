"""Repositories of GitHub as sources."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from smartcrawl.sources.base import Source, ad_hoc_source_name
from smartcrawl.sources.fields import AuthoritiesFile, Limit
from smartcrawl.sources.files import FilesScope, Globs
from smartcrawl.sources.github.address import RepositoryAddress, repository_address
from smartcrawl.sources.github.wiki import WikiScope
from smartcrawl.sources.kinds import SITE, Kind
from smartcrawl.sources.listing.selection import ListingRules
from smartcrawl.sources.scope import Scope


def _canonical(text: str) -> str:
    return repository_address(text).url


RepositoryUrl = Annotated[str, AfterValidator(_canonical)]


@dataclass(frozen=True, slots=True)
class RepositoryScope(FilesScope):
    """The files of a repository at a place, by the URLs of their pages, and its wiki."""

    wiki: WikiScope | None = None

    @property
    def hosts(self) -> frozenset[str]:
        """The host of the wiki; its server is asked for no file."""
        return frozenset() if self.wiki is None else self.wiki.hosts

    @property
    def linked(self) -> Scope:
        """The pages of the wiki; without one, links lead to nothing."""
        return self if self.wiki is None else self.wiki

    def holds_file(self, url: str) -> bool:
        """Whether a URL is below the root, or the root itself if that is a single file."""
        return url == self.root or url.startswith(f"{self.root}/")

    def holds_wiki(self, url: str) -> bool:
        """Whether a URL is in the wiki."""
        return self.wiki is not None and self.wiki.holds(url)

    def holds(self, url: str) -> bool:
        """Whether a URL is below the root, or in the wiki; it may be refused."""
        return self.holds_file(url) or self.holds_wiki(url)

    def refusal(self, url: str) -> str | None:
        """Return the reason why a page does not belong to the source, or None if it does."""
        if self.wiki is not None and self.wiki.holds(url):
            return self.wiki.refusal(url)
        return FilesScope.refusal(self, url)

    def fingerprint(self) -> bytes:
        """Return a 16-byte digest of the settings that ``allows`` depends on (M-15)."""
        files = self.files_fingerprint()
        if self.wiki is None:
            return files
        return sha256(files + self.wiki.fingerprint()).digest()[:16]

    def files_fingerprint(self) -> bytes:
        """Return the part of the fingerprint that concerns files."""
        return FilesScope.fingerprint(self)

    def with_sitemaps_of(self, hosts: object) -> Scope:
        """Return the scope of links: a file is no sitemap."""
        return self.linked

    def relative(self, url: str) -> str:
        """Return the path of a file below the root, as ``os.fsdecode`` gives it."""
        if url == self.root:
            url = f"{self.root}/{self.root.rpartition('/')[2]}"
        return FilesScope.relative(self, url)


class GithubSource(Source):
    """A repository of GitHub: its files at a ref, which the tree of a commit names, and its wiki.

    Source: R1-31, R1-47, R1-49.
    """

    UNDECLARED: ClassVar[frozenset[str]] = Source.UNDECLARED | {
        "seeds", "sitemaps", "max_depth",
    }  # fmt: skip

    kind: Literal["github"] = "github"
    url: RepositoryUrl  #: of the repository or of a folder in it, as a browser shows it
    include: Globs = ()  #: at least one must match; empty: no condition
    exclude: Globs = ()  #: none may match
    hidden: bool = False  #: whether names that begin with a dot belong, too
    max_file_size: Limit = 0  #: bytes; larger files are not read; 0: DOWNLOAD_MAXSIZE
    wiki: bool | None = None  #: whether the wiki belongs, too; None: to a whole repository
    ca_file: AuthoritiesFile | None = None  #: None: by CA_FILE

    @property
    def address(self) -> RepositoryAddress:
        """Owner, name, and place in the repository."""
        return repository_address(self.url)

    @cached_property
    def scope(self) -> RepositoryScope:
        """The files below the place that the globs permit, and the pages of the wiki."""
        address = self.address
        has_wiki = not address.place if self.wiki is None else self.wiki
        return RepositoryScope(
            address.root,
            ListingRules(self.include, self.exclude, self.hidden),
            WikiScope(address.wiki) if has_wiki else None,
        )

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kind of its files, and that of the pages of its wiki."""
        return (self.traits,) if self.scope.wiki is None else (self.traits, SITE)

    def kind_of(self, url: str) -> Kind:
        """Return the kind of the page at ``url``: the wiki is a web site."""
        return SITE if self.scope.holds_wiki(url) else self.traits

    @property
    def linked_seeds(self) -> tuple[str, ...]:
        """The front of the wiki."""
        return () if self.scope.wiki is None else (self.scope.wiki.root,)

    @property
    def optional_seeds(self) -> Mapping[str, str]:
        """The front of the wiki; a repository without one redirects it to its own front."""
        return dict.fromkeys(self.linked_seeds, self.address.front)

    @property
    def starts(self) -> tuple[str, ...]:
        """The address of the repository."""
        return (self.url,)

    @property
    def ad_hoc_root(self) -> str | None:
        """The address, which nothing else remembers unless the source is declared."""
        return self.url if self.ad_hoc else None

    def listing_rules(self, api: str) -> str:
        """Return a digest of all that decides about a listing but the commit.

        ``api``: URL of the API.
        """
        parts = [api, self.scope.files_fingerprint().hex(), self.max_file_size]
        return sha256(json.dumps(parts).encode()).hexdigest()


def ad_hoc_repository_source(url: str) -> GithubSource:
    """Return the source of all files at an address, with a name that depends on it alone.

    >>> ad_hoc_repository_source("https://github.com/octo/docs/").name
    'octo-docs-ytzxk5'

    Raises:
        ValueError: it is no address of a repository; with the remedy.
    """
    address = repository_address(url)
    name = ad_hoc_source_name(f"{address.owner}-{address.name}", address.root)
    return GithubSource(name=name, url=address.url, ad_hoc=True)
