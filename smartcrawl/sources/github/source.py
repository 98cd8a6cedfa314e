"""Repositories of GitHub as sources."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import unquote_to_bytes, urlsplit

from pydantic import AfterValidator

from smartcrawl.model.urls import request_url, url_host_key
from smartcrawl.sources.base import Source, ad_hoc_source_name
from smartcrawl.sources.fields import AuthoritiesFile, Limit, declared_field_text
from smartcrawl.sources.files import FilesScope, Globs
from smartcrawl.sources.kinds import SITE, Kind
from smartcrawl.sources.listing.entries import ListingRules, quoted_listing_name
from smartcrawl.sources.scope import FixedScope, Scope, SiteScope

DEFAULT_REF: Final = "HEAD"  #: GitHub's own name for the tip of the default branch
_EXAMPLE: Final = "https://github.com/OWNER/REPO or https://github.com/OWNER/REPO/tree/REF/FOLDER"
_OWNER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}").fullmatch
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}").fullmatch
_SSH: Final = re.compile(r"(?:ssh://)?git@([^:/]+)[:/](.+)").fullmatch
_PLACES: Final = ("tree", "blob")  #: words of an address before a ref


@dataclass(frozen=True, slots=True)
class RepositoryAddress:
    """A repository, and the place in it.

    The names of branches contain slashes, so the end of the ref is not known from ``place`` alone:
    the repository decides (``splits``). The addresses of pages need no split.
    """

    web: str  #: origin of the web pages, as in https://github.com
    owner: str
    name: str
    place: str  #: REF or REF/FOLDER, as ``os.fsdecode`` gives it; empty: all of HEAD

    @property
    def repository(self) -> str:
        """``OWNER/REPO``."""
        return f"{self.owner}/{self.name}"

    @property
    def front(self) -> str:
        """The address of the repository itself, without a slash at its end."""
        return f"{self.web}/{self.repository}"

    @property
    def wiki(self) -> str:
        """The address of the front of the wiki, if the repository has one."""
        return f"{self.front}/wiki"

    @property
    def url(self) -> str:
        """The canonical address, without a slash at its end."""
        return (
            f"{self.front}/tree/{quoted_repository_path(self.place)}" if self.place else self.front
        )

    @property
    def root(self) -> str:
        """The URL that those of all pages begin with, without a slash at its end."""
        return f"{self.front}/blob/{quoted_repository_path(self.place or DEFAULT_REF)}"

    def splits(self) -> Iterator[tuple[str, str]]:
        """Yield each way to split the place into a ref and a folder, shortest ref first.

        >>> list(repository_address("https://github.com/o/r/tree/release/2/docs").splits())
        [('release', '2/docs'), ('release/2', 'docs'), ('release/2/docs', '')]
        """
        names = (self.place or DEFAULT_REF).split("/")
        for count in range(1, len(names) + 1):
            yield "/".join(names[:count]), "/".join(names[count:])


def quoted_repository_path(path: str) -> str:
    """Return a path with slashes as a part of a URL.

    >>> quoted_repository_path("a b/ü#.md")
    'a%20b/%C3%BC%23.md'
    """
    return "/".join(map(quoted_listing_name, path.split("/")))


def repository_address(text: str) -> RepositoryAddress:
    """Return the repository of an address as the operator wrote it.

    >>> repository_address("https://github.com/octo/docs.git/").url
    'https://github.com/octo/docs'
    >>> repository_address("https://github.com/octo/docs/blob/main/a%20b.md?plain=1#L3").root
    'https://github.com/octo/docs/blob/main/a%20b.md'

    Raises:
        ValueError: it is no address of a repository; with the remedy.
    """
    text = text.strip()
    given = declared_field_text(text)
    if found := _SSH(text):
        path = found[2].removesuffix("/").removesuffix(".git")
        raise ValueError(f"is {given}, an address for git: write https://{found[1]}/{path}")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    if not host or parts.scheme not in ("https", "http"):
        raise ValueError(f"is {given}: expected the address of a repository, as in {_EXAMPLE}")
    if parts.username is not None or parts.password is not None:
        raise ValueError(
            "contains credentials: leave them out, and give a token in the environment variable"
            " GITHUB_TOKEN"
        )
    host = f"[{host}]" if ":" in host else host
    default = port is None or port == (443 if parts.scheme == "https" else 80)
    web = f"{parts.scheme}://{host}" + ("" if default else f":{port}")
    owner, name, place = _repository(parts.path, given)
    return RepositoryAddress(web, owner, name, place)


def _repository(path: str, given: str) -> tuple[str, str, str]:
    """Return owner, name and place of a repository by the path of its address.

    Raises:
        ValueError: it has none; with the remedy.
    """
    decoded = os.fsdecode(unquote_to_bytes(path))
    names = decoded.strip("/").split("/")
    if len(names) < 2 or not _OWNER(names[0]):
        raise ValueError(f"is {given}, which names no repository: expected {_EXAMPLE}")
    owner, name, *rest = names
    name = name if rest else name.removesuffix(".git")
    if not _NAME(name) or name in (".", ".."):
        raise ValueError(f"is {given}, which names no repository: expected {_EXAMPLE}")
    if not rest:
        return owner, name, ""
    word, *place = rest
    if word not in _PLACES or not place:
        raise ValueError(
            f"is {given}, a page of GitHub that is not a folder of a repository: write {_EXAMPLE}"
        )
    if not is_repository_path("/".join(place)):
        raise ValueError(
            f"is {given}, with an empty name, . or .. in its path: expected {_EXAMPLE}"
        )
    return owner, name, "/".join(place)


def is_repository_path(path: str) -> bool:
    """Whether a path leads down from a folder: no name in it is empty, ``.`` or ``..``.

    >>> [is_repository_path(path) for path in ("a/b", "a//b", "../b", "/a", "")]
    [True, False, False, False, False]
    """
    return "\0" not in path and not any(name in ("", ".", "..") for name in path.split("/"))


_IS_VERSION: Final = re.compile(r"[0-9a-f]{40}").fullmatch  #: SHA of a commit of the wiki


@dataclass(frozen=True, slots=True)
class WikiScope(FixedScope):
    """The pages of a wiki by their names, without its functions and old versions.

    >>> scope = WikiScope("https://github.com/octo/docs/wiki")
    >>> scope.allows("https://github.com/octo/docs/wiki/Setup")
    True
    >>> scope.refusal("https://github.com/octo/docs/wiki/Setup/_history")
    '_history is a function of the wiki, and no page'
    """

    root: str  #: URL of the front of the wiki, without a slash at its end

    @property
    def hosts(self) -> frozenset[str]:
        """The host of the wiki."""
        return frozenset({url_host_key(self.root)})

    def holds(self, url: str) -> bool:
        """Whether a URL is in the wiki; GitHub ignores the case of owner and repository."""
        size = len(self.root)
        return url[:size].lower() == self.root.lower() and url[size : size + 1] in ("", "/", "?")

    def refusal(self, url: str) -> str | None:
        """Return the reason why ``url`` is no page of the wiki, or None if it is one."""
        known = request_url(url) or url
        if not self.holds(known):
            return f"it is not in the wiki {self.root}"
        path, mark, _ = known[len(self.root) :].partition("?")
        if mark:
            return "a page of a wiki has no query"
        names = path.strip("/").split("/")
        function = next((name for name in names if name.startswith("_")), None)
        if function is not None:
            return f"{function} is a function of the wiki, and no page"
        if len(names) > 1 and _IS_VERSION(names[-1]):
            return "it is an old version of a page"
        return SiteScope(hosts=self.hosts).refusal(known)

    def fingerprint(self) -> bytes:
        """Return a 16-byte digest of the settings that ``allows`` depends on (M-15)."""
        return sha256(json.dumps(["wiki", self.root]).encode()).digest()[:16]


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
    max_file_size: Limit = 0  #: bytes; larger files are not read; 0: MAX_FILE_SIZE
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
