"""Addresses of files: in folders, in buckets and on file servers (R0-20 to R0-25).

The names of folders are bytes, and so are their parts of an address: what is no UTF-8 is
percent-encoded. A folder's path has one spelling, but the key of an object in a bucket is opaque
(ADR 62). Nothing here reads or writes anything.
"""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import quote, unquote, unquote_to_bytes

import can_ada

from smartcrawl.model.redaction import escaped_text

#: Characters that RFC 3986 allows in a path, for a class of a pattern.
PLAIN: Final = r"A-Za-z0-9\-._~!$&'()*+,;=:@/"
#: Escapes in their normal form: upper case, and not of an unreserved character.
ESCAPE: Final = r"%(?:[0189A-F][0-9A-F]|2[0-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF])"
_ODD: Final = re.compile(rf"(?!{ESCAPE})%(?:[0-9A-Fa-f]{{2}})?|[^{PLAIN}?%]")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def normal_url_escapes(text: str) -> str:
    """Return a part of an address with its percent-encoding in normal form.

    Surrogates of undecodable bytes (``os.fsdecode``) become escapes of these bytes.

    >>> normal_url_escapes("%7efoo%2fbar|100%")
    '~foo%2Fbar%7C100%25'

    Raises:
        ValueError: another surrogate is in it.
    """
    return _ODD.sub(_respelled, text)


def _respelled(match: re.Match[str]) -> str:
    found = match[0]
    if len(found) == 1:
        return quote(found, safe="", errors="surrogateescape")
    char = chr(int(found[1:], 16))
    return char if char in _UNRESERVED else found.upper()


Kind = Literal["url", "file"]

_WEB: Final = ("http", "https")
#: Azure's services for files, and their names as schemes.
_STORES: Final = {"blob.core.windows.net": "blob", "file.core.windows.net": "share"}
#: Schemes of object stores in Azure, some of which name the container before the host.
_AZURE: Final = frozenset({"az", "abfs", "abfss", "wasb", "wasbs"})
#: Schemes of file servers, whose paths are those of folders.
_SERVERS: Final = frozenset({"sftp", "ssh", "ftp", "ftps", "smb", "hdfs", "webhdfs"})

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
#: The canonical URL of a local file.
_LOCAL: Final = re.compile(
    rf"file://(?:/(?!\.{{1,2}}(?:/|\Z))(?:[{PLAIN.removesuffix('/')}]++|{ESCAPE})++)++"
).fullmatch
_WINDOWS_PATH: Final = re.compile(r"[A-Za-z]:[\\/]")
_UNC_PATH: Final = re.compile(r"\\\\([^\\/?]+)[\\/]")
_DRIVE: Final = re.compile(r"/[A-Za-z]:(?:/|\Z)")
_SLASHES: Final = re.compile("/{2,}")
_KEPT: Final = "/!$&'()*+,;=:@"  #: characters of a path that are not escaped (RFC 3986)


def url_item_kind(normalized: str) -> Kind:
    """Return the type of a record: ``url`` for web pages, ``file`` for files and blobs (R0-25).

    ``normalized``: the normalized source. The blobs of Azure are files though they have web
    addresses (R0-22). A file that a web site shows, such as GitHub's, is a page.

    >>> url_item_kind("https://example.com/a.pdf"), url_item_kind("file:///srv/a.pdf")
    ('url', 'file')
    >>> url_item_kind("https://acc.blob.core.windows.net/docs/a.pdf"), url_item_kind("not a URL")
    ('file', 'url')
    """
    scheme, separator, _ = normalized.partition("://")
    if scheme.lower() in _WEB:
        return "file" if azure_service_of_url(normalized) else "url"
    return "file" if separator and _SCHEME.match(normalized) else "url"


def azure_service_of_url(url: str) -> str | None:
    """Return Azure's service behind a web address: ``blob``, ``share``, or None.

    >>> azure_service_of_url("https://acc.blob.core.windows.net/docs/a.pdf"), azure_service_of_url("https://a.example/")
    ('blob', None)
    """
    if ".core.windows.net" not in url or url.partition("://")[0] not in _WEB:
        return None
    host = url.partition("://")[2].partition("/")[0].rpartition("@")[2]
    host = host.removesuffix(":80").removesuffix(":443")
    return _STORES.get(host.partition(".")[2])


def normalize_file_url(url: str) -> str | None:
    """Return the normalized source of a file's address; None: it is of no file.

    >>> normalize_file_url(r"C:\\Docs\\Sub\\\\Report.PDF")
    'file:///c:/docs/sub/report.pdf'
    >>> normalize_file_url("S3://key:secret@b/%7Ea//B/../?versionId=1")
    's3://b/~a//B/../'
    >>> normalize_file_url("https://example.com/") is None
    True

    Raises:
        ValueError: a surrogate is in it.
        TypeError: likewise.

    Source: R0-20 to R0-23, R0-77.
    """
    if url.startswith("file:///") and _LOCAL(url) and not _DRIVE.match(url, 7):
        return url
    if _WINDOWS_PATH.match(url):
        # In a Windows path "%", "?" and "#" are characters of a name.
        url = "file:///" + quote(url.replace("\\", "/"), safe="/:")
    if url[:5].lower() == "file:":
        return _normal_file(str(can_ada.parse(url)))
    found = _SCHEME.match(url)
    if found is None or (scheme := found[1].lower()) in _WEB:
        return None
    return _normal_stored(scheme, url[found.end() :])


def join_file_url(base: can_ada.URL, href: str) -> str | None:
    """Return ``href``, found in the file ``base``, as the address of a file in the same place.

    None: it leads to another place, such as the web. Query and fragment are left out.

    >>> join_file_url(can_ada.parse("s3://docs/a/b.html"), "../c d.html?x#y")
    's3://docs/c%20d.html'
    >>> join_file_url(can_ada.parse("s3://docs/a/b.html"), "s3://other/a") is None
    True

    Source: R0-17, R0-20 to R0-23.
    """
    try:
        found = base + href
        if (found.protocol, found.username, found.host) != (
            base.protocol, base.username, base.host,
        ):  # fmt: skip
            return None
        found.search = found.hash = ""
        return normalize_file_url(str(found))
    except (ValueError, TypeError):
        return None


def _normal_file(url: str) -> str:
    """Normalize a serialized ``file:`` URL; behind a drive letter case does not matter."""
    head, _, query = url.partition("#")[0].partition("?")
    host, _, path = head.removeprefix("file://").partition("/")
    path = _SLASHES.sub("/", normal_url_escapes("/" + path))
    on_drive = _DRIVE.match(path)
    if on_drive:
        path = "/".join(_folded(segment) for segment in path.split("/"))
    path = path.rstrip("/")
    if on_drive and len(path) == len("/c:"):
        path += "/"
    return f"file://{host}{path or '/'}{'?' + normal_url_escapes(query) if query else ''}"


def _folded(segment: str) -> str:
    """Return a segment of a Windows path in lower case; bytes that are no UTF-8 stay."""
    text = unquote(segment, errors="surrogateescape").lower()
    return quote(text, safe="!$&'()*+,;=:@", errors="surrogateescape")


def _normal_stored(scheme: str, rest: str) -> str:
    """Normalize what follows the scheme of a store's address; its key stays as it is."""
    rest = re.split("[?#]", rest, maxsplit=1)[0]
    authority, _, key = rest.partition("/")
    user, _, host = authority.rpartition("@")
    if scheme in _SERVERS or (scheme in _AZURE and user):
        host = host.lower()
    if not host.startswith("["):
        host = normal_url_escapes(host)
    if scheme in _AZURE and (container := user.partition(":")[0]):
        host = f"{normal_url_escapes(container)}@{host}"
    key = normal_url_escapes(key)
    if scheme in _SERVERS:
        key = tidy_path(key)
    return f"{scheme}://{host}/{key}"


def tidy_path(path: str) -> str:
    """Return the path of a folder without empty parts, dots and slashes at its ends."""
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return "/".join(kept)


def url_of_folder(path: bytes | str) -> str:
    """Return the canonical ``file://`` URL of an absolute path (a file's as well as a folder's).

    A text stands for the bytes of ``os.fsencode`` in UTF-8. ``path_of_file_url`` is the inverse.

    >>> url_of_folder(b"/srv/docs//a b/"), url_of_folder("/srv/\\udcff?"), url_of_folder("/")
    ('file:///srv/docs/a%20b', 'file:///srv/%FF%3F', 'file:///')
    >>> url_of_folder(r"C:\\Docs")
    'file:///c:/docs'

    Raises:
        ValueError: the path is relative, or has a NUL.
    """
    text = path.decode(errors="surrogateescape") if isinstance(path, bytes) else path
    if "\0" in text:
        raise ValueError(f"{text!r} is no path: it has a NUL character")
    if _WINDOWS_PATH.match(text):
        return normalize_file_url(text) or text
    if found := _UNC_PATH.match(text):
        rest = tidy_path(text[found.end() :].replace("\\", "/").lower())
        return f"file://{quote(found[1].lower())}/{quote(rest, safe=_KEPT)}"
    if not text.startswith("/"):
        raise ValueError(f"{text!r} is no absolute path")
    spelled = "/" + quote(tidy_path(text), safe=_KEPT, errors="surrogateescape")
    if _DRIVE.match(spelled):  # a folder of POSIX that looks like a drive
        spelled = f"{spelled[:2]}%3A{spelled[3:]}"
    return f"file://{spelled}"


def path_of_file_url(url: str) -> bytes | None:
    """Return the path of a file on this machine; None if the URL is of no such file.

    >>> path_of_file_url("file:///srv/a%20b/%FF"), path_of_file_url("file://nas/a")
    (b'/srv/a b/\\xff', None)
    >>> path_of_file_url("file:///c:/docs"), path_of_file_url("file:///srv/a%2Fb")
    (b'c:/docs', None)
    """
    try:
        known = normalize_file_url(url)
    except (ValueError, TypeError):
        return None
    if known is None or not known.startswith("file:///") or "?" in known:
        return None
    spelled = known.removeprefix("file://")
    if "%2F" in spelled or "%00" in spelled:  # no name has these
        return None
    return unquote_to_bytes(spelled[1:] if _DRIVE.match(spelled) else spelled)


def file_url_host_key(url: str) -> str:
    """Return the place of a file, which has the role of a host: machine, bucket or container.

    >>> file_url_host_key("file:///srv/a"), file_url_host_key("file://nas/share/a")
    ('file', 'nas')
    >>> file_url_host_key("s3://bucket/a//b"), file_url_host_key("sftp://h.example:22/a")
    ('bucket', 'h.example:22')
    >>> file_url_host_key("abfss://docs@acc.dfs.core.windows.net/a")
    'acc/docs'

    Source: R0-08, R0-09.
    """
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    container, _, host = rest.partition("/")[0].rpartition("@")
    if container and scheme in _AZURE:
        return f"{host.partition('.')[0].lower()}/{container.partition(':')[0]}"
    return host or scheme


def file_url_partition(url: str) -> str:
    """Return the partition key of a file by its scheme: ``file``, ``blob``, ``share``, ``s3`` …

    >>> [file_url_partition(x) for x in ("file:///a", "abfs://docs/a", "s3://b/a")]
    ['file', 'blob', 's3']
    >>> file_url_partition("https://acc.file.core.windows.net/share/a")
    'share'

    Source: R0-09.
    """
    scheme = url.partition("://")[0]
    return "blob" if scheme in _AZURE else azure_service_of_url(url) or scheme


def display_file_url(url: str) -> str | None:
    """Return a file as people know it: the path of a local one, else its address unescaped.

    None: the address is none of a file. Bytes that are no text become escapes such as ``\\xff``.

    >>> display_file_url("file:///srv/me/a%20b.md"), display_file_url("s3://bucket/a%20b")
    ('/srv/me/a b.md', 's3://bucket/a b')
    >>> print(display_file_url("file:///c:/docs/%0A.pdf"), display_file_url("file://nas/docs/a"))
    c:\\docs\\\\n.pdf \\\\nas\\docs\\a
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme in _WEB or not _SCHEME.match(url):
        return None
    host, _, spelled = rest.partition("/")
    known = unquote_to_bytes(spelled.encode("utf-8", "backslashreplace"))
    path = known.decode("utf-8", "backslashreplace")
    if scheme != "file":
        return escaped_text(f"{scheme}://{host}/{path}")
    if host:
        path = f"//{host}/{path}"
    elif not _DRIVE.match("/" + spelled):
        return escaped_text("/" + path)
    return escaped_text(path.replace("/", "\\"))
