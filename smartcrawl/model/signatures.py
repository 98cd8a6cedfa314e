"""Access tokens in addresses, which are requested but never stored (R0-77, RD-20)."""

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


def unsigned_url(url: str) -> str:
    """Return a URL without its access tokens: secrets, and signatures with all their parameters.

    Addresses that differ in nothing else are one. Everything else stays as it is, byte for byte.

    >>> unsigned_url("https://a.blob.core.windows.net/c/b.pdf?sv=2024-08-04&se=2026-12-01&sig=8c%2F")
    'https://a.blob.core.windows.net/c/b.pdf'
    >>> unsigned_url("https://b.s3.amazonaws.com/k?page=2&X-Amz-Date=1&X-Amz-Signature=8c1f#top")
    'https://b.s3.amazonaws.com/k?page=2#top'
    >>> unsigned_url("https://a.example/?sig=top&api_key=8c1f"), unsigned_url("https://a.example/?design=1")
    ('https://a.example/?sig=top', 'https://a.example/?design=1')

    Source: R0-22, R0-77, RD-20.
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
