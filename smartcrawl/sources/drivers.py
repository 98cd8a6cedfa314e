"""Drivers of fsspec, and places in stores, by their URLs, without anything secret."""

from __future__ import annotations

import logging
import re
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.program import extra_installation
from smartcrawl.model.redaction import redacted_line, redacted_text
from smartcrawl.sources.stores import file_store_fault_reason

#: Packages whose name differs from their module's.
_PACKAGES: Final = {"smbclient": "smbprotocol", "webdav4": "webdav4[fsspec]"}
#: Extras of our own package that bring a driver.
_EXTRAS: Final = {"s3fs": "s3", "adlfs": "azure"}
#: Timeouts of drivers whose defaults are too long, in seconds. Those of s3fs are 5 and 15.
_OPTIONS: Final = {"adlfs": {"connection_timeout": 5, "read_timeout": 15}}
#: Environment variables from which drivers take credentials.
_CREDENTIALS: Final = {
    "s3fs": "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "adlfs": "AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME with"
    " AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN",
    "gcsfs": "GOOGLE_APPLICATION_CREDENTIALS",
}
#: Loggers that log every request.
_WORDY: Final = ("adlfs", "aiobotocore", "azure", "botocore", "fsspec", "gcsfs", "s3fs")


def refuse_store_url_secrets(setting: str, protocol: str, place: str) -> None:
    """Refuse a URL with credentials, which would be logged and stored. The message has none.

    Raises:
        SettingError: it has a password, a query or a fragment.
    """
    user = unquote(place).rpartition("@")[0]  # of the whole rest: a password may contain a slash
    if ":" in user or "?" in place or "#" in place or redacted_text(place) != place:
        raise SettingError(
            f"{setting} is a {protocol} URL with a password, a query or a fragment: leave"
            " them out; credentials belong in the environment of the driver"
        )


def store_driver_class(setting: str, protocol: str, url: str) -> Any:
    """Return the class of fsspec that implements a protocol.

    Raises:
        SettingError: there is none, or a package is missing.
    """
    from fsspec import get_filesystem_class  # noqa: PLC0415  # folders need none of it

    try:
        return get_filesystem_class(protocol)
    except ValueError:
        raise SettingError(
            f"{setting} is {redacted_line(url)!r}: no driver of fsspec is called {protocol}; use"
            " file, s3, abfs or another that it knows"
        ) from None
    except ImportError as error:
        module = getattr(error.__cause__, "name", None) or protocol
        raise SettingError(
            f"{setting} is {redacted_line(url)!r}, whose driver is not installed ({error}): run"
            f" {_remedy(module)}"
        ) from error


def store_driver_credentials(driver: Any) -> str:
    """Return the credentials of a driver, for a sentence about what they may do."""
    return f"the credentials in {_CREDENTIALS.get(_package(driver), 'what its driver reads')}"


def start_store_driver(setting: str, driver: Any, url: str, **options: Any) -> tuple[Any, str]:
    """Return a file system of fsspec, and its name for the place of ``url``.

    ``options`` are for the driver's class and for fsspec; the environment adds others.

    Raises:
        SettingError: the driver does not start, as with a wrong configuration.
        OSError: it connects at once and fails to.
    """
    from fsspec.config import apply_config  # noqa: PLC0415  # as above
    from fsspec.core import url_to_fs  # noqa: PLC0415

    for name in _WORDY:
        if logging.getLogger(name).level == logging.NOTSET:
            logging.getLogger(name).setLevel(logging.WARNING)
    given = _OPTIONS.get(_package(driver), {}) | apply_config(driver, options)
    try:
        found: tuple[Any, str] = url_to_fs(url, **given)
    except OSError:
        raise
    except Exception as error:  # the library's errors about its configuration
        raise SettingError(
            f"the driver of {setting} {redacted_line(url)!r} does not start"
            f" ({redacted_line(file_store_fault_reason(error))}); check"
            f" {store_driver_credentials(driver)}"
        ) from error
    return found


def _package(driver: Any) -> str:
    name: str = driver.__module__.partition(".")[0]
    return name


def _remedy(module: str) -> str:
    """Return the commands that install a driver, for the version of fsspec that is here."""
    extra = _EXTRAS.get(module)
    if extra is None:
        return f"pip install '{_PACKAGES.get(module, module)}'"
    return extra_installation(extra)


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
