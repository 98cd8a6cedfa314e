"""Repositories of GitHub as sources."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator

from smartcrawl.sources.base import Source, ad_hoc_name
from smartcrawl.sources.fields import AuthoritiesFile, Limit
from smartcrawl.sources.files import FilesScope, Globs
from smartcrawl.sources.github.address import RepositoryAddress, repository_address
from smartcrawl.sources.listing.selection import ListingRules


def _canonical(text: str) -> str:
    return repository_address(text).url


RepositoryUrl = Annotated[str, AfterValidator(_canonical)]


@dataclass(frozen=True, slots=True)
class RepositoryScope(FilesScope):
    """The files of a repository at a place, by the URLs of their pages."""

    def holds(self, url: str) -> bool:
        """Whether a URL is below the root, or the root itself if that is a single file."""
        return url == self.root or url.startswith(f"{self.root}/")

    def relative(self, url: str) -> str:
        """Return the path of a file below the root, as ``os.fsdecode`` gives it."""
        if url == self.root:
            url = f"{self.root}/{self.root.rpartition('/')[2]}"
        return FilesScope.relative(self, url)


class GithubSource(Source):
    """A repository of GitHub at a ref: its files, which the tree of a commit names.

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
    ca_file: AuthoritiesFile | None = None  #: None: by CA_FILE

    @property
    def address(self) -> RepositoryAddress:
        """Owner, name, and place in the repository."""
        return repository_address(self.url)

    @property
    def scope(self) -> RepositoryScope:
        """The files below the place that the globs permit."""
        return RepositoryScope(
            self.address.root, ListingRules(self.include, self.exclude, self.hidden)
        )

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
        parts = [api, self.scope.fingerprint().hex(), self.max_file_size]
        return sha256(json.dumps(parts).encode()).hexdigest()


def ad_hoc_repository(url: str) -> GithubSource:
    """Return the source of all files at an address, with a name that depends on it alone.

    >>> ad_hoc_repository("https://github.com/octo/docs/").name
    'octo-docs-ytzxk5'

    Raises:
        ValueError: it is no address of a repository; with the remedy.
    """
    address = repository_address(url)
    name = ad_hoc_name(f"{address.owner}-{address.name}", address.root)
    return GithubSource(name=name, url=address.url, ad_hoc=True)
