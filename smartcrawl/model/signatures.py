"""Access tokens and session ids in addresses: requested, never stored (R0-77, RD-20)."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote_plus

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
