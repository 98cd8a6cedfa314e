"""The settings of document libraries, read and validated once, before the first request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.openai_server import whole_path
from smartcrawl.model.settings_table import SETTINGS, setting_value

_SECRET: Final = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharepointOptions:
    """The access to SharePoint, and where its files are stored. No field has a default."""

    api: Literal["rest", "graph"]
    tenant: str  #: id or domain of the directory; empty: not set
    client_id: str  #: of the app registration; empty: not set
    certificate: Path | None  #: PEM or PFX file with certificate and private key
    certificate_password: str = field(repr=False)  #: empty: the file has none
    client_secret: str = field(repr=False)  #: empty: not set
    login_url: str  #: origin of the sign-in, https, without a slash at its end
    graph_url: str  #: base of Microsoft Graph, without a slash at its end
    ca_file: Path | None  #: authorities that are trusted beside those of the system
    page_size: int  #: items of an answer
    storage: Path  #: PERSISTENT_STORAGE_PATH
    reports_keep: int  #: archives of crawls of a domain; 0: all

    @classmethod
    def of(cls, settings: Mapping[str, Any], data_dir: Path) -> Self:
        """Read the options. Whether credentials are set is checked by ``required``.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        value_of = partial(setting_value, settings)
        return cls(
            api=value_of("SHAREPOINT_API"),
            tenant=value_of("SHAREPOINT_TENANT"),
            client_id=value_of("SHAREPOINT_CLIENT_ID").lower(),
            certificate=_certificate(value_of("SHAREPOINT_CERTIFICATE")),
            certificate_password=value_of("SHAREPOINT_CERTIFICATE_PASSWORD"),
            client_secret=_client_secret(value_of("SHAREPOINT_CLIENT_SECRET").strip()),
            login_url=value_of("SHAREPOINT_LOGIN_URL"),
            graph_url=_graph_url(value_of("GRAPH_URL")),
            ca_file=value_of("SHAREPOINT_CA_FILE"),
            page_size=value_of("SHAREPOINT_PAGE_SIZE"),
            storage=value_of("PERSISTENT_STORAGE_PATH") or data_dir / "library",
            reports_keep=value_of("LIBRARY_REPORTS_KEEP"),
        )

    def required(self) -> Self:
        """Return the options if they suffice to sign in.

        Raises:
            SettingError: naming the first setting that is missing, or superfluous.
        """
        if not self.tenant:
            raise SettingError(
                "SHAREPOINT_TENANT is empty: set it to the id or the domain of your directory,"
                " such as contoso.onmicrosoft.com"
            )
        if not self.client_id:
            raise SettingError(
                "SHAREPOINT_CLIENT_ID is empty: set it to the application (client) id of the app"
                " registration"
            )
        if self.certificate is None and not self.client_secret:
            also = ", or SHAREPOINT_CLIENT_SECRET to a client secret" if self.api == "graph" else ""
            raise SettingError(
                "SHAREPOINT_CERTIFICATE is empty: set it to a PEM or PFX file with the certificate"
                f" of the app registration and its private key{also}"
            )
        if self.certificate is not None and self.client_secret:
            raise SettingError(
                "SHAREPOINT_CLIENT_SECRET is set beside SHAREPOINT_CERTIFICATE: unset one of them"
            )
        return self


def _client_secret(text: str) -> str:
    if text and not _SECRET.fullmatch(text):
        raise SettingError(
            "SHAREPOINT_CLIENT_SECRET has spaces or other characters that no secret has: copy it"
            " anew"
        )
    if re.fullmatch(SETTINGS["SHAREPOINT_CLIENT_ID"].form, text):
        raise SettingError(
            "SHAREPOINT_CLIENT_SECRET has the form of an id: copy the value of the secret, not its"
            " id"
        )
    return text


def _certificate(text: str) -> Path | None:
    if not text:
        return None
    if "-----BEGIN" in text:
        raise SettingError(
            "SHAREPOINT_CERTIFICATE is a certificate: write it to a file, and set the path of that"
            " file"
        )
    path = whole_path(text)
    remedy = "it takes a PEM or PFX file with a certificate and its private key"
    try:
        with path.open("rb") as file:
            file.read(1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise SettingError(f"SHAREPOINT_CERTIFICATE is {text!r}: {why}; {remedy}") from error
    return path


def _graph_url(url: str) -> str:
    if not is_secure_or_loopback_url(url):
        raise SETTINGS["GRAPH_URL"].error(url)
    return url


def is_secure_or_loopback_url(url: str) -> bool:
    """Whether a token may be sent to a URL: by https, or by http within this machine.

    >>> is_secure_or_loopback_url("https://a.example"), is_secure_or_loopback_url("http://a.example")
    (True, False)
    >>> is_secure_or_loopback_url("http://127.0.0.1:8000/v1.0")
    True
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            return bool(host)
        if parts.scheme != "http":
            return False
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
