"""Drivers of fsspec: which one a URL has, how it starts, and from where it takes credentials."""

from __future__ import annotations

import logging
from typing import Any, Final
from urllib.parse import unquote

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
            f"{setting} is a {protocol} URL with a password, a query or a fragment: it takes"
            " none of them; credentials belong in the environment of the driver"
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
