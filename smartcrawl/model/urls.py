"""Addresses: their request URL, and the one spelling that is their identity.

Every address has two spellings. The **request URL** is the one that a browser would request. The
**normalized source** is the identity behind it: trackers, a trailing slash or the order of
parameters do not make another page, but they stay in the request URL (ADR 135). Nothing here
reads or writes anything.

Addresses of files, normalized: POSIX, Windows, UNC and addresses of stores.

Nothing here reads a folder: the start of a relative path is an argument.
"""

from __future__ import annotations

import re
from base64 import b32encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Final
from urllib.parse import quote, unquote, unquote_plus, urlsplit

import can_ada

from smartcrawl.model.file_urls import (
    ESCAPE,
    PLAIN,
    azure_service_of_url,
    display_file_url,
    file_url_host_key,
    file_url_partition,
    normal_url_escapes,
    normalize_file_url,
    tidy_path,
    url_item_kind,
    url_of_folder,
)
from smartcrawl.rules.traps import MAX_LENGTH

#: Parameters that are secret in any address.
_SECRET: Final = frozenset(
    {
        "access_token", "api_key", "apikey", "auth_token", "client_secret", "id_token", "jwt",
        "password", "passwd", "refresh_token",
    }
)  # fmt: skip
#: Azure Storage: shared access signatures of service, account and user delegation.
AZURE: Final = frozenset(
    {
        "sv", "ss", "srt", "sr", "sp", "st", "se", "sip", "spr", "sig", "si", "sdd", "ses", "saoid",
        "suoid", "scid", "skoid", "sktid", "skt", "ske", "sks", "skv", "skdutid", "sduoid", "srh",
        "srq", "rscc", "rscd", "rsce", "rscl", "rsct", "tn", "spk", "srk", "epk", "erk",
    }
)  # fmt: skip
_AZURE_HOST: Final = re.compile(
    r"https?://[^/?#]*\.core\.windows\.net\.?(?::\d+)?[/?#]", re.IGNORECASE
)
#: Parameters of a signed address, each set with all the parameters that are part of the signature.
_SIGNED: Final[tuple[tuple[frozenset[str], frozenset[str]], ...]] = (
    (frozenset({"sig", "sv", "se"}), AZURE),
    (frozenset({"sig", "sv", "si"}), AZURE),
    (  # Amazon CloudFront
        frozenset({"signature", "key-pair-id"}),
        frozenset({"signature", "key-pair-id", "policy", "expires", "hash-algorithm"}),
    ),
    (  # Amazon S3, version 2
        frozenset({"signature", "awsaccesskeyid"}),
        frozenset({"signature", "awsaccesskeyid", "expires", "x-amz-security-token"}),
    ),
    (  # Google Cloud Storage, version 2
        frozenset({"signature", "googleaccessid"}),
        frozenset({"signature", "googleaccessid", "expires"}),
    ),
)  # fmt: skip
#: Amazon S3, Google Cloud Storage and Alibaba OSS, version 4.
_PREFIXES: Final = ("x-amz-", "x-goog-", "x-oss-")
#: One of these is in every signed address.
_MARK: Final = re.compile(
    r"[?&;](?:sig|signature|x-(?:amz|goog|oss)-signature|access_token|api_?key|auth_token"
    r"|client_secret|id_token|jwt|passwo?r?d|refresh_token)=",
    re.IGNORECASE,
)
#: Parameters of path or query that only session ids have (ADR 102).
_SESSION: Final = "jsessionid|phpsessid|aspsessionid[a-z]*|sessid|cfid|cftoken|zenid|oscsid"
_IN_PATH: Final = re.compile(rf";(?:{_SESSION})=[^;/?#&]*", re.IGNORECASE)
_IN_QUERY: Final = re.compile(rf"(?:^|[?&;])(?:{_SESSION})=[^&;#]*", re.IGNORECASE)


def unsigned_url(url: str) -> str:
    """Return a URL without its access tokens and session ids.

    Access tokens are secrets, and signatures with all their parameters. Session ids have names that
    nothing else has. Addresses that differ in nothing else are one.

    >>> unsigned_url("https://a.example/shop;jsessionid=1A2B?PHPSESSID=3c&page=2&api_key=8c1f")
    'https://a.example/shop?page=2'

    Source: R0-22, R0-77, RD-20; ADR 26, 102.
    """
    return _without_tokens(sessionless_url(url))


def is_signed_url(url: str) -> bool:
    """Whether a URL has an access token; a session id is none.

    >>> is_signed_url("https://a.example/?api_key=8c1f"), is_signed_url("https://a.example/?cfid=8")
    (True, False)
    """
    return _without_tokens(url) != url


def sessionless_url(url: str) -> str:
    """Return a URL without its session ids. Everything else stays as it is, byte for byte.

    >>> sessionless_url("https://a.example/a;jsessionid=1A/b;v=2?x=1&CFID=7&CFTOKEN=8&y=2#top")
    'https://a.example/a/b;v=2?x=1&y=2#top'
    >>> sessionless_url("https://a.example/story?sid=12")
    'https://a.example/story?sid=12'
    """
    if "?" not in url and ";" not in url:
        return url
    lower = url.lower()  # cheaper than the expressions: few addresses have such a name
    if not ("id=" in lower or "cftoken=" in lower or "aspsessionid" in lower):
        return url
    rest, hash_, fragment = url.partition("#")
    path, mark, query = rest.partition("?")
    bare = _IN_PATH.sub("", path)
    if (kept := _IN_QUERY.sub("", query)) != query:
        query = kept.lstrip("&;")
        mark = "?" if query else ""
    return f"{bare}{mark}{query}{hash_}{fragment}"


def _without_tokens(url: str) -> str:
    """Return a URL without its secrets, and without its signatures with all their parameters.

    Everything else stays as it is, byte for byte.

    >>> _without_tokens("https://a.blob.core.windows.net/c/b.pdf?sv=2024-08-04&se=2026-12-01&sig=8c")
    'https://a.blob.core.windows.net/c/b.pdf'
    >>> _without_tokens("https://b.s3.amazonaws.com/k?page=2&X-Amz-Date=1&X-Amz-Signature=8c1f#top")
    'https://b.s3.amazonaws.com/k?page=2#top'
    >>> _without_tokens("https://a.example/?sig=top&api_key=8c1f"), _without_tokens("https://a.example/?design=1")
    ('https://a.example/?sig=top', 'https://a.example/?design=1')
    """
    if "?" not in url or not (_MARK.search(url) or "%" in url[url.index("?") :]):
        return url
    rest, hash_, fragment = url.partition("#")
    path, _, query = rest.partition("?")
    parts = re.split("([&;])", query)
    pairs, joints = parts[::2], ["", *parts[1::2]]
    names = [unquote_plus(pair.partition("=")[0]).lower() for pair in pairs]
    dropped = set(_SECRET)
    for marks, members in _SIGNED:
        if marks <= set(names):
            dropped |= members
    if "sig" in names and _AZURE_HOST.match(url):
        dropped |= AZURE
    for prefix in _PREFIXES:
        if f"{prefix}signature" in names:
            dropped |= {name for name in names if name.startswith(prefix)}
    kept = [
        (joint, pair)
        for joint, pair, name in zip(joints, pairs, names, strict=True)
        if name not in dropped
    ]
    if len(kept) == len(pairs):
        return url
    query = "".join(joint + pair for joint, pair in kept).lstrip("&;")
    return f"{path}?{query}{hash_}{fragment}" if query else f"{path}{hash_}{fragment}"


MAX_URL_LENGTH: Final = MAX_LENGTH  #: characters of a request URL
SHORT_HASH_LENGTH: Final = 26  #: characters of a row key, 130 bits (M-17, G-20)
_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_ITEM_ID: Final = re.compile(rf"(?:url|file)_([{_BASE32}]{{{SHORT_HASH_LENGTH}}})")

_WEB: Final = ("http://", "https://")

_PARTS: Final = re.compile(
    rf"(https?://[^/?#@]+/)([{PLAIN}]*(?:{ESCAPE}[{PLAIN}]*)*)"
    rf"(?:\?([{PLAIN}?]*(?:{ESCAPE}[{PLAIN}?]*)*))?"
).fullmatch


@dataclass(frozen=True, slots=True)
class Trackers:
    """Parameters of query and path that identify a reader's origin, not the page.

    ``prefixes`` are beginnings of names, ``names`` whole names; case does not matter.

    Source: R0-15, R2-66, M-19; ``ref`` and ``source`` are kept unless named (ADR 135).
    """

    prefixes: tuple[str, ...] = ("utm_", "gclid", "fbclid", "msclkid")
    names: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", tuple(prefix.lower() for prefix in self.prefixes))
        object.__setattr__(self, "names", frozenset(name.lower() for name in self.names))

    def has(self, name: str) -> bool:
        """Whether a parameter of this name is a tracker."""
        lower = name.lower()
        return lower.startswith(self.prefixes) or lower in self.names


DEFAULT_TRACKERS: Final = Trackers()


def hash_route(url: str) -> str:
    """Return the hash route of a URL with its ``#``; empty: its fragment is a place in the page.

    The first route of a document is the document itself, and an anchor within a route is none.

    >>> hash_route("https://example.com/#/guide?x=1#top"), hash_route("https://example.com/a#!b")
    ('#/guide?x=1', '#!b')
    >>> [hash_route(f"https://example.com/{end}") for end in ("#top", "#/", "#!/", "#!", "#")]
    ['', '', '', '', '']

    Source: ADR 150.
    """
    fragment = url.partition("#")[2].partition("#")[0]
    if not fragment.startswith(("/", "!")) or not fragment.strip("!/"):
        return ""
    return f"#{fragment}"


def request_url(text: str, *, routes: bool = False) -> str | None:
    """Return the URL to request: WHATWG's spelling, without fragment and credentials.

    None when ``text`` is no http(s) URL with a host, or longer than ``MAX_URL_LENGTH``. With
    ``routes`` it keeps its hash route, by which the document shows another page (ADR 150).

    >>> request_url("HTTP://me:secret@Example.COM:80/a/../b/?utm_source=x#top")
    'http://example.com/b/?utm_source=x'
    >>> request_url("https://example.com#/guide", routes=True)
    'https://example.com/#/guide'
    >>> request_url("mailto:me@example.com") is None
    True

    Source: RD-15, RD-20, R0-13; URL Standard, section 4.
    """
    try:
        return _requestable(can_ada.parse(text), routes)
    except (ValueError, TypeError):  # TypeError: a lone surrogate, which UTF-8 cannot encode
        return None


def join_url(base: can_ada.URL, href: str, *, routes: bool = False) -> str | None:
    """Return ``href``, found on the page ``base``, as a URL to request (see ``request_url``).

    >>> join_url(can_ada.parse("https://example.com/a/b"), "../c?d#e")
    'https://example.com/c?d'
    >>> join_url(can_ada.parse("https://example.com/a/b"), "javascript:void(0)") is None
    True

    Source: R0-17, RD-15.
    """
    try:
        return _requestable(base + href, routes)
    except (ValueError, TypeError):
        return None


def _requestable(parsed: can_ada.URL, routes: bool) -> str | None:
    url = str(parsed)
    if not url.startswith(_WEB):
        return None
    if "@" in url and parsed.has_credentials():
        parsed.username = parsed.password = ""
        url = str(parsed)
    if "#" in url:
        route = hash_route(url) if routes else ""
        url = url[: url.index("#")] + route
    return url if len(url) <= MAX_URL_LENGTH else None


def normalize_url(url: str, trackers: Trackers = DEFAULT_TRACKERS) -> str:
    """Return the one spelling that identifies an address (``normalizedSource``).

    http(s) URLs, those of files (``normalize_file_url``) and Windows paths are normalized; anything
    else is returned as it is. Never raises, and a second call changes nothing. Of a fragment, only
    a hash route is kept: request URLs have one where their source says so (ADR 150).

    >>> normalize_url("HTTP://Example.COM:80/a/?b=2&a=1&utm_source=x#top")
    'http://example.com/a?a=1&b=2'
    >>> normalize_url("https://bücher.example/straße")
    'https://xn--bcher-kva.example/stra%C3%9Fe'
    >>> normalize_url(r"C:\\Docs\\Sub\\\\Report.PDF")
    'file:///c:/docs/sub/report.pdf'
    >>> normalize_url("https://example.com/#/guide/?b=2&a=1&utm_source=x")
    'https://example.com/#/guide?a=1&b=2'
    >>> normalize_url("not a URL")
    'not a URL'

    Source: R0-12 to R0-23, R2-61 to R2-69, M-18, M-19, M-54.
    """
    try:
        if not url.startswith(_WEB) and (known := normalize_file_url(url)) is not None:
            return known
        text = str(can_ada.parse(url))
        if text.startswith(_WEB):
            return _normal_web(unsigned_url(text), trackers)
        if text.startswith("file:"):
            return normalize_file_url(text) or text
    except (ValueError, TypeError):  # TypeError: a lone surrogate, which UTF-8 cannot encode
        pass
    return url


def is_same_url_place(url: str, other: str) -> bool:
    """Whether two URLs name one place of a server that ignores case, as GitHub does.

    >>> is_same_url_place("https://github.com/Octo/Docs/?tab=readme", "https://github.com/octo/docs")
    True

    Queries, fragments and slashes at the end do not count.
    """
    bare = (text.partition("#")[0].partition("?")[0].rstrip("/").lower() for text in (url, other))
    return len(set(bare)) == 1


def _normal_web(url: str, trackers: Trackers) -> str:
    """Normalize a serialized http(s) URL."""
    parts, route = _PARTS(url), ""
    if parts is None:  # rare: a part must be escaped, or left out
        route = _normal_route(hash_route(url), trackers) if "#" in url else ""
        head, _, query = url.partition("#")[0].partition("?")
        scheme, _, rest = head.partition("://")
        authority, _, path = rest.partition("/")
        origin = f"{scheme}://{authority.rpartition('@')[2]}/"
        path, query = normal_url_escapes(path), normal_url_escapes(query)
    else:
        origin, path, query = parts.groups()
    if ";" in path:
        path = _path_without_trackers(path, trackers)
    if path.endswith("/") and (
        path.find("/") == len(path) - 1 or azure_service_of_url(origin) is None
    ):
        path = path.rstrip("/")  # not of a blob, whose key it ends
    if query:
        path += _normal_query(query, trackers)
    return origin + path + route


def _normal_route(route: str, trackers: Trackers) -> str:
    """Return a hash route as the rest of an address is written: its path, then its query."""
    path, _, query = route.partition("?")
    path = path.rstrip("/")
    found = (path if path != "#" else "#/") + _normal_query(query, trackers)
    return found if found.strip("#!/") else ""  # the first one, with trackers alone


def _path_without_trackers(path: str, trackers: Trackers) -> str:
    """Return a path whose segments have no parameters that are trackers, as in ``a;sid=1/b``."""
    segments = []
    for segment in path.split("/"):
        name, *parts = segment.split(";")
        kept = [part for part in parts if not trackers.has(part.partition("=")[0])]
        segments.append(";".join([name, *kept]))
    return "/".join(segments)


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
    if url_item_kind(normalized) == "url":
        by_host = strategy != "scheme" and scheme in ("http", "https")
        return url_host_key(normalized) if by_host else scheme
    if strategy == "scheme":
        return file_url_partition(normalized)
    if azure_service_of_url(normalized) is None:
        return file_url_host_key(normalized)
    container = rest.partition("/")[2].partition("/")[0].partition("?")[0]
    return f"{url_host_key(normalized).partition('.')[0]}/{container}"


def url_host_key(url: str) -> str:
    """Return the host of a URL, with its port unless that is 80 or 443 (R0-08).

    Of a file, it is the place that has the role of a host (see ``file_url_host_key``).

    >>> url_host_key("https://Example.com:443/a"), url_host_key("http://[::1]:8801/")
    ('example.com', '[::1]:8801')
    >>> url_host_key("file:///srv/a"), url_host_key("s3://bucket/a")
    ('file', 'bucket')

    Raises:
        ValueError: ``url`` is not absolute.
    """
    if not url.startswith(_WEB) and url_item_kind(url) == "file":
        return file_url_host_key(url)
    return can_ada.parse(url).host.removesuffix(":80").removesuffix(":443")


def url_path(url: str) -> str:
    """Return the path of a request URL.

    >>> url_path("https://example.com/a/b?c=/d/")
    '/a/b'
    """
    return f"/{url.partition('#')[0][url.index('/') + 2 :].partition('?')[0].partition('/')[2]}"


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


def url_origin(url: str) -> str:
    """Return scheme, host and port of a request URL, the port where it is not the default.

    >>> url_origin("https://a.example:8443/b?c"), url_origin("http://a.example?b")
    ('https://a.example:8443', 'http://a.example')
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def display_url(url: str) -> str:
    """Return a URL for display: its host in Unicode (``displaySource``, R0-19); a file by its path.

    >>> display_url("https://xn--bcher-kva.example/stra%C3%9Fe")
    'https://bücher.example/stra%C3%9Fe'
    >>> display_url("file:///srv/me/a%20b.md"), display_url("s3://bucket/a%20b")
    ('/srv/me/a b.md', 's3://bucket/a b')
    """
    if not url.startswith(_WEB) and (path := display_file_url(url)) is not None:
        return path
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    if "xn--" not in host:
        return url
    name, colon, port = host.partition(":")
    shown = can_ada.idna_decode(name.encode())  # type: ignore[arg-type]  # the stub is wrong: bytes
    if can_ada.idna_encode(shown) != name.encode():
        return url  # a browser would not turn it back into this host
    return f"{scheme}://{shown}{colon}{port}{slash}{path}"


#: Endings of pages, which say nothing about them.
_PAGE_ENDING: Final = re.compile(r"\.(?:x?html?|shtml|php|aspx?|jsp)$", re.IGNORECASE)


def shown_title(title: str, url: str) -> str:
    """Return a page's title; without one, the last name in its address as people write it.

    A start page has no such name.

    Such a name is shown only: it is no part of hashes, so that copies stay clones.

    >>> shown_title("", "https://a.example/docs/getting%20started.html?x=1#y")
    'getting started'
    >>> shown_title("", "https://a.example/v1.2/"), shown_title("", "https://a.example/")
    ('v1.2', '')
    """
    if title:
        return title
    path = re.split("[?#]", url, maxsplit=1)[0].partition("://")[2].partition("/")[2].rstrip("/")
    name = unquote(_PAGE_ENDING.sub("", path.rpartition("/")[2]), errors="replace")
    return " ".join(name.split())[:_MAX_SHOWN]


_MAX_SHOWN: Final = 200  #: characters of a name in an address
_DRIVE: Final = re.compile(r"(?:\\\\[?.]\\)?([A-Za-z]:)(?:[\\/]|\Z)")
_UNC: Final = re.compile(
    r"(?:\\\\[?]\\UNC\\|\\\\(?![?.]\\))([^\\/]+)[\\/]+([^\\/]+)", re.IGNORECASE
)
_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+)://")
_SHARE: Final = re.compile(r"(file://[^/]+)(.*)", re.DOTALL)
_KEPT: Final = "/!$&'()*+,;=:@"  #: characters of a path that are not escaped (RFC 3986)


def normalize_path(path: str, base: str = "") -> str:
    """Return the one normalized address of a file (``normalizedSource``).

    ``path`` is a path of POSIX, of Windows with a drive, a UNC path, or the URL of a file in a
    store; ``base`` is the absolute folder or URL that a relative one starts from. Case matters,
    except in Windows paths. A query and a user part are secrets of a store (a SAS token, a
    key) and are left out; a container that is named there stays. Keys of buckets keep their
    slashes (ADR 62). A second call changes nothing.

    >>> normalize_path("/srv/docs//Guide/../a b.pdf")
    'file:///srv/docs/a%20b.pdf'
    >>> normalize_path(r"C:\\Docs\\Sub\\\\Report.PDF")
    'file:///c:/docs/sub/report.pdf'
    >>> normalize_path(r"\\\\NAS\\Share\\Dir\\A.txt")
    'file://nas/share/dir/a.txt'
    >>> normalize_path("https://Acc.blob.core.windows.net/Docs//a.pdf?sv=2024&sig=secret")
    'https://acc.blob.core.windows.net/Docs//a.pdf'
    >>> normalize_path("s3://bucket/a//b/"), normalize_path("b.txt", "/srv/docs")
    ('s3://bucket/a//b/', 'file:///srv/docs/b.txt')

    Raises:
        ValueError: ``path`` is relative and there is no ``base``, or it is empty.

    Source: R0-20 to R0-23, R0-77.
    """
    if found := _UNC.match(path):
        rest = path[found.end() :].replace("\\", "/")
        server, share = (part.lower() for part in found.groups())
        return f"file://{quote(server)}{_tidy(f'/{share}/{rest}'.lower())}"
    if found := _DRIVE.match(path):
        rest = path[found.end(1) :].replace("\\", "/")
        return f"file:///{found[1].lower()}{_tidy(rest.lower())}"
    if found := _SCHEME.match(path):
        return _stored(found[1].lower(), path)
    if path.startswith("/"):
        return url_of_folder(path)
    if not path or not base:
        raise ValueError(f"{path!r} is no absolute path, and has nothing to start from")
    start = normalize_path(base)
    relative = path.replace("\\", "/") if _is_windows(start) else path
    relative = relative.lower() if _is_windows(start) else relative
    scheme, _, rest = start.partition("://")
    if scheme != "file":
        return normalize_url(f"{start.removesuffix('/')}/{quote(relative, safe=_KEPT)}")
    host, _, folder = rest.partition("/")
    drive = folder[:2] if re.match(r"[a-z]:", folder) else ""
    folder = _unquoted(folder[len(drive) :])
    return f"{scheme}://{host}{f'/{drive}' if drive else ''}{_tidy(f'/{folder}/{relative}')}"


def _is_windows(address: str) -> bool:
    """Whether an address is that of a drive or of a server's share."""
    return re.match(r"file://(?:/[a-z]:(?:/|\Z)|[^/])", address) is not None


def _stored(scheme: str, url: str) -> str:
    """Return the URL of a file in a store without secrets."""
    if scheme == "file":
        known = normalize_url(url)
        share = _SHARE.match(known)  # the address of a UNC path
        return f"{share[1]}{_tidy(_unquoted(share[2]).lower())}" if share else known
    return normalize_url(re.split("[?#]", url, maxsplit=1)[0])


def _unquoted(path: str) -> str:
    """Return a path without its escapes; bytes that are no UTF-8 stay as they are."""
    return unquote(path, errors="surrogateescape")


def _tidy(path: str) -> str:
    """Return an absolute path without empty parts, dots and a slash at its end, escaped."""
    return quote(f"/{tidy_path(path)}", safe=_KEPT, errors="surrogateescape")
