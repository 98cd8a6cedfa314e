"""What a notice of IndexNow is about: its host, its key file, and the addresses that count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from smartcrawl.model.urls import request_url, url_host_key, url_path
from smartcrawl.rules.incoming import is_indexnow_key

MOST_ADDRESSES: Final = 10_000  #: of a notice
_HOST: Final = re.compile(r"[^\s/\\?#@]{1,255}").fullmatch


class NoticeFault(StrEnum):
    """The kinds of notices that are refused."""

    MALFORMED = "malformed"
    FOREIGN = "foreign"  #: about another host, or with a key of another form


class NoticeError(ValueError):
    """A notice that is refused; the text is the reason."""

    def __init__(self, fault: NoticeFault, field: str, reason: str) -> None:
        self.fault = fault
        self.field = field
        super().__init__(reason)


class Ignored(StrEnum):
    """Why an address of a notice does not count."""

    INVALID = "invalid"  #: no web address
    OTHER_HOST = "other_host"
    OUTSIDE_FOLDER = "outside_folder"  #: of the key file
    UNKNOWN = "unknown"  #: no source has it, or may take it
    FULL = "full"  #: too many new addresses wait for the next run of its sources


@dataclass(frozen=True, slots=True)
class IndexNowNotice:
    """A notice, before its key is verified."""

    host: str  #: as ``url_host_key`` has it
    key: str
    key_url: str  #: of the file that must have the key
    urls: tuple[str, ...]  #: request URLs of the host, below the folder of the file; not empty
    ignored: tuple[tuple[str, Ignored], ...]  #: addresses as they were sent


def indexnow_notice(
    host: str | None, key: str, key_location: str | None, addresses: Sequence[str]
) -> IndexNowNotice:
    """Return the notice of a request; ``host`` None: that of its only address.

    Addresses that do not count are listed; where none counts, the notice is refused.

    >>> notice = indexnow_notice("a.example", "0123-4567", None, ["https://a.example/x", "/y"])
    >>> notice.key_url, notice.urls, notice.ignored[0][0]
    ('https://a.example/0123-4567.txt', ('https://a.example/x',), '/y')

    Raises:
        NoticeError: it is malformed, or about no address of the host.
    """
    if not is_indexnow_key(key):
        reason = "key must be 8 to 128 of the characters a-z, A-Z, 0-9 and -"
        raise NoticeError(NoticeFault.FOREIGN, "key", reason)
    if not 0 < len(addresses) <= MOST_ADDRESSES:
        reason = f"urlList must have 1 to {MOST_ADDRESSES:,} addresses"
        raise NoticeError(NoticeFault.MALFORMED, "urlList", reason)
    known = [request_url(address) for address in addresses]
    named = _host(host) if host is not None else known[0] and url_host_key(known[0])
    if named is None:
        field = "url" if host is None else "host"
        reason = f"{field} must be {'a web address' if host is None else 'the name of a host'}"
        raise NoticeError(NoticeFault.MALFORMED, field, reason)
    ours = [url is not None and url_host_key(url) == named for url in known]
    first = next((url for url, is_ours in zip(known, ours, strict=True) if url and is_ours), None)
    key_url = _key_url(key, key_location, named, first)
    folder = url_path(key_url).rpartition("/")[0] + "/"
    urls: dict[str, None] = {}
    ignored = []
    for address, url, is_ours in zip(addresses, known, ours, strict=True):
        if url is None:
            ignored.append((address, Ignored.INVALID))
        elif not is_ours:
            ignored.append((address, Ignored.OTHER_HOST))
        elif not url_path(url).startswith(folder):
            ignored.append((address, Ignored.OUTSIDE_FOLDER))
        else:
            urls[url] = None
    if not urls:
        is_malformed = all(why is Ignored.INVALID for _, why in ignored)
        fault = NoticeFault.MALFORMED if is_malformed else NoticeFault.FOREIGN
        field = "url" if host is None else "urlList"
        reason = f"{field} has no address of {named} below the folder of the key file"
        raise NoticeError(fault, field, reason)
    return IndexNowNotice(named, key, key_url, tuple(urls), tuple(ignored))


def _host(text: str) -> str | None:
    url = request_url(f"https://{text}/") if _HOST(text) else None
    return None if url is None else url_host_key(url)


def _key_url(key: str, location: str | None, host: str, first: str | None) -> str:
    """Return the URL of the key file; ``first``: an address of the host, whose origin it has.

    A query is refused, since a page may repeat what stands in one.

    Raises:
        NoticeError: ``location`` is no address of the host.
    """
    if location is None:
        scheme = "https" if first is None else first.partition(":")[0]
        return f"{scheme}://{host}/{key}.txt"
    url = request_url(location)
    if url is None or "?" in url:
        reason = "keyLocation must be the web address of the key file, without a query"
        raise NoticeError(NoticeFault.MALFORMED, "keyLocation", reason)
    if url_host_key(url) != host:
        raise NoticeError(NoticeFault.FOREIGN, "keyLocation", f"keyLocation must be on {host}")
    return url
