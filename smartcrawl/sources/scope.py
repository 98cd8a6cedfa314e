"""The scope of a source: its addresses, and the reasons to refuse others."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final, Protocol, Self

import re2

from smartcrawl.model.urls import MAX_URL_LENGTH, hash_route, request_url, url_host_key
from smartcrawl.rules.extent import is_below_folder

_SMALL: Final = 1 << 20  #: bytes of memory for a pattern; almost every one has enough
_LARGE: Final = 8 << 20  #: bytes for one of the operator that needs more; RE2's own limit


class ScopePattern(Protocol):
    """A compiled pattern."""

    @property
    def programsize(self) -> int:
        """The number of its steps, which is the measure of its memory and time."""

    def search(self, text: str) -> object | None:
        """Return the first match in a text, or None."""


def compile_scope_pattern(pattern: str, *, small: bool = False) -> ScopePattern:
    """Return a pattern, compiled by RE2; a ``small`` one came over the HTTP API.

    RE2 reads an address in time that depends only on its length, so that no link of a site can make
    a pattern hang. To compile takes milliseconds within the small memory, and a fifth of a second
    within the large one.

    Raises:
        ValueError: it is no regular expression of RE2, or needs more memory; with the reason.

    Source: ATT-35, ATT-66.
    """
    try:
        return _compiled(pattern, _SMALL)
    except ValueError:
        if small:
            raise
    return _compiled(pattern, _LARGE)


def _compiled(pattern: str, memory: int) -> ScopePattern:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = memory
    try:
        found: ScopePattern = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else "not understood"
        raise ValueError(why.decode() if isinstance(why, bytes) else str(why)) from None
    return found


# fmt: off
#: Extensions of documents for people that this version does not read; runs count them by these.
UNREAD_DOCUMENTS: Final = frozenset({
    "djvu", "doc", "docb", "mobi", "msg", "odg", "pps", "ppt", "ps", "pst", "rtf", "vsd", "vsdx",
    "xps",
})
#: Extensions of files without text that this version can extract. Endings that pages may have, too
#: (``.com``, ``.ai``, ``.au``, ``.py`` in a source browser), are not included.
SKIPPED_EXTENSIONS: Final = frozenset(
    {
        # images
        "apng", "avif", "bmp", "cur", "dxf", "emf", "eps", "gif", "heic", "heif", "icns", "ico",
        "jfif", "jp2", "jpe", "jpeg", "jpg", "jxl", "mng", "pcx", "png", "psd", "svg",
        "svgz", "tga", "tif", "tiff", "webp", "wmf", "xcf",
        # audio
        "aac", "aif", "aiff", "amr", "ape", "flac", "m3u", "m3u8", "m4a", "m4b", "mid", "midi",
        "mka", "mp2", "mp3", "oga", "ogg", "opus", "ra", "wav", "weba", "wma",
        # video
        "3g2", "3gp", "asf", "asx", "avi", "divx", "f4v", "flv", "m2ts", "m4v", "mkv", "mov", "mp4",
        "mpe", "mpeg", "mpg", "ogv", "qt", "rm", "rmvb", "swf", "vob", "webm", "wmv",
        # archives and disk images
        "7z", "bz2", "cab", "crate", "deb", "dmg", "egg", "gem", "gz", "img", "iso", "jar", "lz",
        "lz4", "lzma", "pst", "qcow2", "rar", "rpm", "snap", "sit", "tar", "tbz", "tbz2", "tgz",
        "torrent", "txz", "vdi", "vhd", "vhdx", "vmdk", "war", "whl", "xpi", "xz", "zip", "zst",
        # executables
        "apk", "appimage", "bat", "bin", "cpl", "crx", "dll", "dylib", "elf", "exe", "hta", "ipa",
        "msi", "msix", "msp", "pyc", "pyd", "scr", "so", "wasm",
        # fonts
        "eot", "otf", "ttc", "ttf", "woff", "woff2",
        # style sheets and scripts
        "css", "js", "less", "mjs", "sass", "scss",
        # office and print formats
        *UNREAD_DOCUMENTS,
    }
)
# fmt: on


class Scope(Protocol):
    """The rules that decide which addresses belong to a source (M-28)."""

    @property
    def hosts(self) -> frozenset[str]:
        """The hosts that are in scope by name (see ``url_host_key``)."""

    @property
    def domains(self) -> frozenset[str]:
        """The domains that are in scope with their subdomains."""

    @property
    def addresses(self) -> frozenset[str] | None:
        """The only addresses in scope; None: those of the rules."""

    @property
    def linked(self) -> Scope:
        """The addresses in scope that links may lead to."""

    def holds(self, url: str) -> bool:
        """Whether the place of an address is in scope; the address itself may be refused."""

    def allows(self, url: str) -> bool:
        """Whether ``url`` belongs to the source, at any depth."""

    def refusal(self, url: str) -> str | None:
        """Return the reason why ``url`` does not belong to the source, or None if it does."""

    def unread_kind(self, url: str) -> str:
        """Return the ending of a document that only its kind leaves out, as ``.doc``; else ''."""

    def excludes(self, url: str) -> bool:
        """Whether the operator excluded this spelling of an address (see ``sessionless_url``)."""

    def fingerprint(self) -> bytes:
        """Return a 16-byte digest of the settings that ``allows`` depends on (M-15)."""

    def moved_to(self, url: str) -> Scope | None:
        """Return the scope after a move to ``url``; None: such a move is another source."""

    def with_sitemaps_of(self, hosts: Iterable[str]) -> Scope:
        """Return the scope of sitemaps, which may also be on one of ``hosts``."""


class FixedScope(Scope):
    """The parts that scopes at one fixed place share; the place is what they hold."""

    __slots__ = ()

    @property
    def domains(self) -> frozenset[str]:
        """No domain."""
        return frozenset()

    @property
    def addresses(self) -> frozenset[str] | None:
        """None: the rules decide."""
        return None

    @property
    def linked(self) -> Scope:
        """All of them."""
        return self

    def allows(self, url: str) -> bool:
        """Whether the page at a URL belongs to the source."""
        return self.refusal(url) is None

    def unread_kind(self, url: str) -> str:
        """Return '': a listing counts them itself."""
        return ""

    def excludes(self, url: str) -> bool:
        """Return False: addresses of listings have one spelling."""
        return False

    def moved_to(self, url: str) -> Scope | None:
        """Return None: the place does not move."""
        return None

    def with_sitemaps_of(self, hosts: Iterable[str]) -> Scope:
        """Return the scope itself: no sitemap names its pages."""
        return self


@dataclass(frozen=True, slots=True)
class SiteScope:
    """The rules that decide which addresses belong to a web site (M-28).

    ``hosts`` match exactly (see ``url_host_key``). ``domains`` include their subdomains, on any
    port. ``url_patterns`` and ``excluded_patterns`` may match anywhere in the request URL. Of
    ``addresses``, ``hosts`` are where a seed may redirect to another one.

    >>> scope = SiteScope(domains=frozenset({"example.com"}), excluded_patterns=("/print/",))
    >>> scope.allows("https://docs.example.com/a"), scope.allows("https://example.com/print/a")
    (True, False)
    """

    hosts: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    url_patterns: tuple[str, ...] = ()  #: at least one must match; empty: no condition
    excluded_patterns: tuple[str, ...] = ()  #: none may match
    skipped_extensions: frozenset[str] = SKIPPED_EXTENSIONS  #: lower case, without the dot
    max_depth: int = 0  #: number of links from a seed; 0: no limit; not checked here
    addresses: frozenset[str] | None = None  #: these request URLs alone; None: by the rules here
    folders: frozenset[str] = frozenset()  #: paths with a slash at the end; empty: every path
    ways: frozenset[str] = frozenset()  #: request URLs that need neither folder nor pattern
    routes: bool = False  #: whether hash routes are addresses of their own
    _wanted: tuple[ScopePattern, ...] = field(init=False, repr=False, compare=False)
    _excluded: tuple[ScopePattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_wanted", _compiled_scope(self.url_patterns))
        object.__setattr__(self, "_excluded", _compiled_scope(self.excluded_patterns))

    @property
    def linked(self) -> Self:
        """All of them."""
        return self

    def holds(self, url: str) -> bool:
        """Whether the host of a request URL is in scope; the URL itself may be refused."""
        return self._holds(url[url.index("/") + 2 :].partition("/")[0])

    def allows(self, url: str) -> bool:
        """Whether ``url`` belongs to the source, at any depth."""
        return self.refusal(url) is None

    def refusal(self, url: str) -> str | None:
        """Return the reason why ``url`` does not belong to the source, or None if it does."""
        return self._refusal(url, self.skipped_extensions)

    def _refusal(self, url: str, skipped: frozenset[str]) -> str | None:
        known = request_url(url, routes=self.routes)
        if known is None:
            return f"it is not an http(s) URL of at most {MAX_URL_LENGTH} characters"
        if not self.routes and hash_route(url):
            return "a hash route is a page of its own only with render_hash_routes"
        if self.addresses is not None:
            return None if known in self.addresses else "it is none of the single pages"
        place = known.partition("#")[0]
        authority, _, rest = place[place.index("/") + 2 :].partition("/")
        if not self._holds(authority):
            return "its host is not in allowed_domains"
        if self.folders and not self._is_below(known, rest):
            return f"it is not below {' or '.join(sorted(self.folders))}"
        _, dot, extension = rest.partition("?")[0].rpartition(".")
        if dot and extension.lower() in skipped:
            return f"files of type .{extension.lower()} are skipped"
        if self._wanted and known not in self.ways and not self._is_wanted(known):
            return "none of url_patterns matches it"
        return "one of excluded_patterns matches it" if self.excludes(known) else None

    def unread_kind(self, url: str) -> str:
        """Return the ending of a document that only its kind leaves out, as ``.doc``; else ''.

        >>> scope = SiteScope(hosts=frozenset({"a.example"}), excluded_patterns=("/old/",))
        >>> scope.unread_kind("http://a.example/Plan.DOC?x=1"), scope.unread_kind("http://b/p.doc")
        ('.doc', '')
        >>> [scope.unread_kind(f"http://a.example/{name}") for name in ("old/p.doc", "p.png")]
        ['', '']
        """
        ending = url.partition("#")[0].partition("?")[0].rpartition(".")[2].lower()
        if ending not in UNREAD_DOCUMENTS:
            return ""
        is_left_out = ending in self.skipped_extensions and self._refusal(url, frozenset()) is None
        return f".{ending}" if is_left_out else ""

    def excludes(self, url: str) -> bool:
        """Whether one of ``excluded_patterns`` matches a request URL."""
        return any(pattern.search(url) for pattern in self._excluded)

    def _is_wanted(self, url: str) -> bool:
        """Whether one of ``url_patterns`` matches a request URL."""
        return any(pattern.search(url) for pattern in self._wanted)

    def _is_below(self, url: str, rest: str) -> bool:
        """Whether a request URL, ``rest`` of which follows its host, is in one of the folders."""
        path = f"/{rest.partition('?')[0]}"
        return any(is_below_folder(one, path) for one in self.folders) or url in self.ways

    def _holds(self, authority: str) -> bool:
        if authority.removesuffix(":80").removesuffix(":443") in self.hosts:
            return True
        if not self.domains:
            return False
        name = authority if authority.endswith("]") else authority.rpartition(":")[0] or authority
        while name:
            if name in self.domains:
                return True
            name = name.partition(".")[2]
        return False

    def fingerprint(self) -> bytes:
        """Return a 16-byte digest of the settings that ``allows`` depends on (M-15).

        Stored links that were filtered under the same fingerprint need no second check.
        """
        parts = [
            sorted(self.hosts),
            sorted(self.domains),
            sorted(set(self.url_patterns)),
            sorted(set(self.excluded_patterns)),
            sorted(self.skipped_extensions),
        ]
        if self.addresses is not None:
            parts.append(sorted(self.addresses))
        if self.routes:
            parts.append(["hash routes"])
        if self.folders or self.ways:
            parts += [sorted(self.folders), sorted(self.ways)]
        return sha256(json.dumps(parts).encode()).digest()[:16]

    def moved_to(self, url: str) -> Self | None:
        """Return the scope after a move to ``url``, if only ``www.`` was added or removed.

        The new host replaces the old one. None if ``url`` has any other host, or one in ``hosts``.
        Where single pages are in scope, another one of these hosts joins them.

        >>> SiteScope(hosts=frozenset({"example.com"})).moved_to("https://www.example.com/").hosts
        frozenset({'www.example.com'})
        """
        known = request_url(url, routes=self.routes)
        if known is None:
            return None
        new = url_host_key(known)
        old = new.removeprefix("www.") if new.startswith("www.") else f"www.{new}"
        hosts = self.hosts - {old} | {new} if old in self.hosts else self.hosts
        if self.addresses is not None:
            is_one = new in hosts and known not in self.addresses
            return (
                replace(self, hosts=hosts, addresses=self.addresses | {known}) if is_one else None
            )
        return None if new in self.hosts or hosts == self.hosts else replace(self, hosts=hosts)

    def with_sitemaps_of(self, hosts: Iterable[str]) -> Self:
        """Return the scope of sitemaps, which may also be on one of ``hosts``.

        They need no match of ``url_patterns``, and may be compressed.
        """
        return replace(
            self,
            hosts=self.hosts.union(hosts),
            url_patterns=(),
            skipped_extensions=frozenset(),
            folders=frozenset(),
        )


def share_addresses(one: SiteScope, other: SiteScope) -> bool:
    """Whether two scopes may have addresses in common; their patterns are not looked at.

    >>> docs = SiteScope(hosts=frozenset({"a"}), folders=frozenset({"/docs/"}))
    >>> share_addresses(docs, SiteScope(hosts=frozenset({"a"}), folders=frozenset({"/blog/"})))
    False
    >>> share_addresses(docs, SiteScope(domains=frozenset({"a"})))
    True
    """
    for these, those in ((one, other), (other, one)):
        if these.addresses is not None:
            return any(map(those.allows, these.addresses))
    folders = [(ours, theirs) for ours in one.folders or {"/"} for theirs in other.folders or {"/"}]
    if not any(a.startswith(b) or b.startswith(a) for a, b in folders):
        return False
    return any(
        these.holds(f"http://{name}/")
        for these, those in ((one, other), (other, one))
        for name in (*those.hosts, *those.domains)
    )


def _compiled_scope(patterns: Iterable[str]) -> tuple[ScopePattern, ...]:
    return tuple(compile_scope_pattern(pattern) for pattern in patterns)
