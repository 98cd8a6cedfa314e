"""Addresses: their request URL, and the one spelling that is their identity.

Every address has two spellings. The **request URL** is the one that a browser would request. The
**normalized source** is the identity behind it: trackers, a trailing slash or the order of
parameters do not make another page, but they stay in the request URL (design.md 12). Nothing here
reads or writes anything.
"""

from __future__ import annotations

import re
from base64 import b32encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import can_ada

from smartcrawl.model.signatures import unsigned_url
from smartcrawl.rules.traps import MAX_LENGTH

MAX_URL_LENGTH: Final = MAX_LENGTH  #: characters of a request URL
SHORT_HASH_LENGTH: Final = 26  #: characters of a row key, 130 bits (M-17, G-20)
_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_ITEM_ID: Final = re.compile(rf"(?:url|file)_([{_BASE32}]{{{SHORT_HASH_LENGTH}}})")

_WEB: Final = ("http://", "https://")
#: Azure's services for files, and their names as schemes.
_STORES: Final = {"blob.core.windows.net": "blob", "file.core.windows.net": "share"}

# Characters that RFC 3986 allows in a path, and escapes in their normal form: upper case, and not
# of an unreserved character.
_PLAIN: Final = r"A-Za-z0-9\-._~!$&'()*+,;=:@/"
_ESCAPE: Final = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF])"
_PARTS: Final = re.compile(
    rf"(https?://[^/?#@]+/)([{_PLAIN}]*(?:{_ESCAPE}[{_PLAIN}]*)*)"
    rf"(?:\?([{_PLAIN}?]*(?:{_ESCAPE}[{_PLAIN}?]*)*))?"
).fullmatch
_ODD: Final = re.compile(rf"(?!{_ESCAPE})%(?:[0-9A-Fa-f]{{2}})?|[^{_PLAIN}?%]")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

_WINDOWS_PATH: Final = re.compile(r"[A-Za-z]:[\\/]")
_DRIVE: Final = re.compile(r"/[A-Za-z]:(?:/|\Z)")


@dataclass(frozen=True, slots=True)
class Trackers:
    """Query parameters that identify a reader's origin, not the page.

    ``prefixes`` are beginnings of names, ``names`` whole names; case does not matter.

    Source: R0-15, R2-66, M-19; ``ref`` and ``source`` are kept unless named (design.md 12).
    """

    prefixes: tuple[str, ...] = ("utm_", "gclid", "fbclid", "msclkid")
    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", tuple(prefix.lower() for prefix in self.prefixes))
        object.__setattr__(self, "names", frozenset(name.lower() for name in self.names))


DEFAULT_TRACKERS: Final = Trackers()


def request_url(text: str) -> str | None:
    """Return the URL to request: WHATWG's spelling, without fragment and credentials.

    None when ``text`` is no http(s) URL with a host, or longer than ``MAX_URL_LENGTH``.

    >>> request_url("HTTP://me:secret@Example.COM:80/a/../b/?utm_source=x#top")
    'http://example.com/b/?utm_source=x'
    >>> request_url("mailto:me@example.com") is None
    True

    Source: RD-15, RD-20, R0-13; URL Standard, section 4.
    """
    try:
        return _requestable(can_ada.parse(text))
    except (ValueError, TypeError):  # TypeError: a lone surrogate, which UTF-8 cannot encode
        return None


def join_url(base: can_ada.URL, href: str) -> str | None:
    """Return ``href``, found on the page ``base``, as a URL to request (see ``request_url``).

    >>> join_url(can_ada.parse("https://example.com/a/b"), "../c?d#e")
    'https://example.com/c?d'
    >>> join_url(can_ada.parse("https://example.com/a/b"), "javascript:void(0)") is None
    True

    Source: R0-17, RD-15.
    """
    try:
        return _requestable(base + href)
    except (ValueError, TypeError):
        return None


def _requestable(parsed: can_ada.URL) -> str | None:
    url = str(parsed)
    if not url.startswith(_WEB):
        return None
    if "@" in url and parsed.has_credentials():
        parsed.username = parsed.password = ""
        url = str(parsed)
    if "#" in url:
        url = url[: url.index("#")]
    return url if len(url) <= MAX_URL_LENGTH else None


def normalize_url(url: str, trackers: Trackers = DEFAULT_TRACKERS) -> str:
    """Return the one spelling that identifies an address (``normalizedSource``).

    http(s) and ``file:`` URLs and Windows paths are normalized; anything else is returned as it
    is. Never raises, and a second call changes nothing.

    >>> normalize_url("HTTP://Example.COM:80/a/?b=2&a=1&utm_source=x#top")
    'http://example.com/a?a=1&b=2'
    >>> normalize_url("https://bücher.example/straße")
    'https://xn--bcher-kva.example/stra%C3%9Fe'
    >>> normalize_url(r"C:\\Docs\\Sub\\\\Report.PDF")
    'file:///c:/docs/sub/report.pdf'
    >>> normalize_url("not a URL")
    'not a URL'

    Source: R0-12 to R0-23, R2-61 to R2-69, M-18, M-19, M-54.
    """
    try:
        text = str(can_ada.parse(url))
        if text.startswith(_WEB):
            return _normal_web(unsigned_url(text), trackers)
        if _WINDOWS_PATH.match(url):
            # In a Windows path "%", "?" and "#" are characters of a name.
            text = str(can_ada.parse("file:///" + quote(url.replace("\\", "/"), safe="/:")))
        if text.startswith("file:"):
            return _normal_file(text)
    except (ValueError, TypeError):  # TypeError: a lone surrogate, which UTF-8 cannot encode
        pass
    return url


def _normal_web(url: str, trackers: Trackers) -> str:
    """Normalize a serialized http(s) URL."""
    parts = _PARTS(url)
    if parts is None:  # rare: a part must be escaped, or left out
        head, _, query = url.partition("#")[0].partition("?")
        scheme, _, rest = head.partition("://")
        authority, _, path = rest.partition("/")
        origin = f"{scheme}://{authority.rpartition('@')[2]}/"
        path, query = _escaped(path), _escaped(query)
    else:
        origin, path, query = parts.groups()
    if path.endswith("/"):
        path = path.rstrip("/")
    return origin + path + _normal_query(query, trackers) if query else origin + path


def _normal_file(url: str) -> str:
    """Normalize a serialized ``file:`` URL; behind a drive letter case does not matter."""
    head, _, query = url.partition("#")[0].partition("?")
    host, _, path = head.removeprefix("file://").partition("/")
    path = re.sub("/{2,}", "/", _escaped("/" + path))
    on_drive = _DRIVE.match(path)
    if on_drive:
        path = "/".join(_folded(segment) for segment in path.split("/"))
    path = path.rstrip("/")
    if on_drive and len(path) == len("/c:"):
        path += "/"
    return f"file://{host}{path or '/'}{'?' + _escaped(query) if query else ''}"


def _folded(segment: str) -> str:
    """Return a segment of a Windows path in lower case; bytes that are no UTF-8 stay."""
    text = unquote(segment, errors="surrogateescape").lower()
    return quote(text, safe="!$&'()*+,;=:@", errors="surrogateescape")


def _escaped(text: str) -> str:
    """Return ``text`` with percent-encoding in the form of RFC 3986, section 6.2.2.

    >>> _escaped("%7efoo%2fbar|100%")
    '~foo%2Fbar%7C100%25'
    """
    return _ODD.sub(_respelled, text)


def _respelled(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:
        return quote(found, safe="")
    char = chr(int(found[1:], 16))
    return char if char in _UNRESERVED else found.upper()


def _normal_query(query: str, trackers: Trackers) -> str:
    """Return the query with its question mark; empty when no parameter remains."""
    prefixes, names = trackers.prefixes, trackers.names
    parts = []
    for part in query.split("&"):
        name, _, value = part.partition("=")
        lower = name.lower()
        if part and not lower.startswith(prefixes) and lower not in names:
            parts.append((name, value))
    if len(parts) > 1:
        parts.sort()
    return "?" + "&".join([f"{name}={value}" for name, value in parts]) if parts else ""


def url_digest(normalized: str) -> bytes:
    """Return the SHA-256 (32 bytes) of a normalized source; every id is made of it (M-17).

    >>> url_digest("https://example.com/").hex()[:16]
    '0f115db062b7c0dd'
    """
    return sha256(normalized.encode("utf-8", "surrogatepass")).digest()


def url_hash(normalized: str) -> str:
    """Return the digest of a normalized source as 64 hexadecimal digits.

    >>> url_hash("https://example.com/")[:16]
    '0f115db062b7c0dd'
    """
    return url_digest(normalized).hex()


def url_digest_text(d: bytes) -> str:
    """Return the short form of a digest: 26 characters of lower-case base32 (R0-10, G-20).

    >>> url_digest_text(url_digest("https://example.com/"))
    'b4iv3mdcw7an2aylc2dyzgo6ux'
    """
    return b32encode(d).decode("ascii").lower()[:SHORT_HASH_LENGTH]


def url_item_id(kind: str, d: bytes) -> str:
    """Return the id of a page (``kind`` is ``url``) or of a file (R0-24, R0-25).

    >>> url_item_id("url", url_digest("https://example.com/"))
    'url_b4iv3mdcw7an2aylc2dyzgo6ux'

    Raises:
        ValueError: ``kind`` is neither ``url`` nor ``file``.
    """
    if kind not in ("url", "file"):
        raise ValueError(f"an id is of kind 'url' or 'file', not {kind!r}")
    return f"{kind}_{url_digest_text(d)}"


def url_digests_of_id(word: str) -> tuple[bytes, bytes] | None:
    """Return the least and the greatest digest (32 bytes) with a given id; None: it is no id.

    >>> least, greatest = url_digests_of_id(url_item_id("url", url_digest("https://example.com/")))
    >>> least <= url_digest("https://example.com/") <= greatest, url_digests_of_id("url_0")
    (True, None)
    """
    match = _ITEM_ID.fullmatch(word)
    if match is None:
        return None
    number = 0
    for letter in match[1]:
        number = number << 5 | _BASE32.index(letter)
    rest = 256 - 5 * SHORT_HASH_LENGTH
    least = number << rest
    return least.to_bytes(32, "big"), (least + (1 << rest) - 1).to_bytes(32, "big")


def url_content_group(url: str) -> str:
    """Return the short hash of host and path: http and https and query variants are one group.

    ``url`` is the canonical one where the page names one. For information only: equality is decided
    by content (M-23).

    >>> url_content_group("http://a.example/x/?page=2") == url_content_group("https://A.example/x")
    True

    Source: R0-74.
    """
    path = normalize_url(url).partition("?")[0].partition("://")[2]
    return url_digest_text(url_digest(path))


def url_partition_key(normalized: str, strategy: str = "host") -> str:
    """Return the partition key of a normalized source, by host (or container) or by scheme.

    >>> (
    ...     url_partition_key("https://contoso.com/a"),
    ...     url_partition_key("https://contoso.com/a", "scheme"),
    ... )
    ('contoso.com', 'https')
    >>> blob = "https://acc.blob.core.windows.net/docs/a.pdf"
    >>> (
    ...     url_partition_key("file:///c:/a"),
    ...     url_partition_key(blob),
    ...     url_partition_key(blob, "scheme"),
    ... )
    ('file', 'acc/docs', 'blob')

    Source: R0-08, R0-09, R0-81.
    """
    scheme, _, rest = normalized.partition("://")
    if scheme not in ("http", "https"):
        return scheme
    account, dot, service = url_host_key(normalized).partition(".")
    stored = _STORES.get(service) if dot else None
    if strategy == "scheme":
        return stored or scheme
    if stored is None:
        return url_host_key(normalized)
    return f"{account}/{rest.partition('/')[2].partition('/')[0]}"


def url_host_key(url: str) -> str:
    """Return the host of a URL, with its port unless that is 80 or 443 (R0-08).

    >>> url_host_key("https://Example.com:443/a"), url_host_key("http://[::1]:8801/")
    ('example.com', '[::1]:8801')

    Raises:
        ValueError: ``url`` is not absolute.
    """
    return can_ada.parse(url).host.removesuffix(":80").removesuffix(":443")


def url_has_port(host: str) -> bool:
    """Whether a host is written with a port.

    >>> (
    ...     url_has_port("a.example:8000"),
    ...     url_has_port("[::1]:80"),
    ...     url_has_port("[::1]"),
    ...     url_has_port("a.example"),
    ... )
    (True, True, False, False)
    """
    return re.search(r":\d+\Z", host) is not None


def url_endpoint(url: str) -> tuple[str, int]:
    """Return host, without brackets, and port of an http(s) URL.

    >>> url_endpoint("https://[::1]/a"), url_endpoint("http://a.example:8000/")
    (('::1', 443), ('a.example', 8000))
    """
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def display_url(url: str) -> str:
    """Return a URL for display: its host in Unicode (``displaySource``, R0-19).

    >>> display_url("https://xn--bcher-kva.example/stra%C3%9Fe")
    'https://bücher.example/stra%C3%9Fe'
    """
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if "xn--" not in host:
        return url
    name, colon, port = host.partition(":")
    shown = can_ada.idna_decode(name.encode())  # type: ignore[arg-type]  # the stub is wrong: bytes
    if can_ada.idna_encode(shown) != name.encode():
        return url  # a browser would not turn it back into this host
    return f"{scheme}://{shown}{colon}{port}{slash}{path}"
