"""Places in stores by their URLs: bucket and key, exact, without anything secret."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.drivers import refuse_store_url_secrets

SETTING: Final = "root"  #: name of the setting in messages

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(?:/(.*))?", re.DOTALL)
_ACCOUNT: Final = re.compile(r"([a-z0-9-]+)\.(?:blob|dfs)\.[a-z0-9.-]+")
_CONTAINER: Final = re.compile(r"([^/@]+)@([^/@]+)")
_KEPT: Final = "/!$&'()*+,;=:@"  #: characters of a path that are not escaped (RFC 3986)
#: Schemes of Azure that fsspec does not know, or knows by another name.
_AZURE: Final = {"az", "abfs", "abfss", "wasb", "wasbs"}


class StorePlace(NamedTuple):
    """A bucket, a container or a host, and a key in it."""

    protocol: str  #: the name that fsspec has for the driver
    bucket: str  #: or container, or host
    key: str  #: without escapes; empty: the whole bucket
    top: str  #: URL of the bucket, without a slash at its end
    account: str | None  #: of Azure, where the URL names it

    @property
    def options(self) -> dict[str, Any]:
        """Options of the driver."""
        return {} if self.account is None else {"account_name": self.account}

    def url_of(self, key: str) -> str:
        """Return the canonical URL of a key, which is never normalized."""
        return f"{self.top}/{quote(key, safe=_KEPT, errors='surrogateescape')}"


def file_store_place(url: str) -> StorePlace:
    """Return the place that a URL names; its key is percent-encoded there.

    >>> file_store_place("s3://bucket/a%20b//../c").key, file_store_place("s3://bucket").key
    ('a b//../c', '')
    >>> file_store_place("https://acc.blob.core.windows.net/docs/a.pdf")[:3]
    ('abfs', 'docs', 'a.pdf')
    >>> file_store_place("wasbs://docs@acc.blob.core.windows.net/a.pdf").top
    'wasbs://docs@acc.blob.core.windows.net'

    Raises:
        SettingError: it names no place in a store, or contains credentials.

    Source: R0-22, R0-77.
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise SettingError(
            f"{SETTING} is {redacted_line(url)!r}: write a URL like s3://bucket/folder"
        )
    scheme, authority, path = found[1].lower(), found[2], found[3] or ""
    refuse_store_url_secrets(SETTING, scheme, f"{authority}/{path}")
    if scheme in ("http", "https"):
        return _azure_place(url, scheme, authority.lower(), path)
    account = None
    bucket = authority
    if scheme in _AZURE and (named := _CONTAINER.fullmatch(authority)):
        bucket, host = named[1], named[2].lower()
        authority = f"{bucket}@{host}"
        account = _account(host)
    elif "@" in authority:
        raise SettingError(
            f"{SETTING} is a {scheme} URL with a user: leave it out, and name it in"
            f" FSSPEC_{scheme.upper()}_USERNAME"
        )
    if not bucket:
        raise SettingError(f"{SETTING} is {redacted_line(url)!r}: name a bucket or a host in it")
    protocol = "abfs" if scheme in _AZURE else scheme
    return StorePlace(protocol, bucket, _unquoted(path), f"{scheme}://{authority}", account)


def _azure_place(url: str, scheme: str, host: str, path: str) -> StorePlace:
    account = _account(host)
    container, _, key = path.partition("/")
    if account is None or not container:
        raise SettingError(
            f"{SETTING} is {redacted_line(url)!r}: a web address is not a store, unless "
            "it names a container as in https://ACCOUNT.blob.core.windows.net/CONTAINER; "
            "crawl it as a site"
        )
    return StorePlace("abfs", container, _unquoted(key), f"{scheme}://{host}/{container}", account)


def _account(host: str) -> str | None:
    found = _ACCOUNT.fullmatch(host)
    return found[1] if found else None


def _unquoted(path: str) -> str:
    return unquote(path, errors="surrogateescape")
