"""Addresses of files, normalized: POSIX, Windows, UNC and addresses of stores.

Nothing here reads a folder: the start of a relative path is an argument.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

from smartcrawl.model.file_urls import url_of_folder
from smartcrawl.model.urls import normalize_url

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
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return quote("/" + "/".join(kept), safe=_KEPT, errors="surrogateescape")
