"""The settings of document libraries, read and validated once, before the first request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.setting_values import authorities_option, choice_option, whole_number_option
from smartcrawl.model.urls import request_url
from smartcrawl.model.whole_path import whole_path

MOST_ITEMS: Final = 5_000  #: of a page: more are over the list view threshold
_REST: Final = re.compile(r"[?#].*", re.DOTALL)  #: parts that may have a key
_TENANT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}")
_GUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
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
        api = choice_option(settings, "SHAREPOINT_API", "rest", "graph")
        return cls(
            api="graph" if api == "graph" else "rest",
            tenant=_tenant(settings),
            client_id=_client_id(settings),
            certificate=_certificate(settings),
            certificate_password=str(settings["SHAREPOINT_CERTIFICATE_PASSWORD"] or ""),
            client_secret=_client_secret(settings),
            login_url=_login_url(settings),
            graph_url=_graph_url(settings),
            ca_file=authorities_option(settings, "SHAREPOINT_CA_FILE"),
            page_size=whole_number_option(
                settings, "SHAREPOINT_PAGE_SIZE", least=1, most=MOST_ITEMS
            ),
            storage=_storage(settings, data_dir),
            reports_keep=whole_number_option(settings, "LIBRARY_REPORTS_KEEP"),
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


def _tenant(settings: Mapping[str, Any]) -> str:
    text = str(settings["SHAREPOINT_TENANT"] or "").strip()
    if text and not _TENANT.fullmatch(text):
        raise SettingError(
            f"SHAREPOINT_TENANT is {redacted_text(text[:200])!r}: it takes the id or the domain of"
            " a directory, such as contoso.onmicrosoft.com"
        )
    return text


def _client_id(settings: Mapping[str, Any]) -> str:
    text = str(settings["SHAREPOINT_CLIENT_ID"] or "").strip()
    if text and not _GUID.fullmatch(text):
        raise SettingError(
            f"SHAREPOINT_CLIENT_ID is {redacted_text(text[:200])!r}: it takes the application"
            " (client) id of the app registration, such as 6731de76-14a6-49ae-97bc-6eba6914391e"
        )
    return text.lower()


def _client_secret(settings: Mapping[str, Any]) -> str:
    text = str(settings["SHAREPOINT_CLIENT_SECRET"] or "").strip()
    if text and not _SECRET.fullmatch(text):
        raise SettingError(
            "SHAREPOINT_CLIENT_SECRET has spaces or other characters that no secret has: copy it"
            " anew"
        )
    if _GUID.fullmatch(text):
        raise SettingError(
            "SHAREPOINT_CLIENT_SECRET has the form of an id: copy the value of the secret, not its"
            " id"
        )
    return text


def _certificate(settings: Mapping[str, Any]) -> Path | None:
    text = str(settings["SHAREPOINT_CERTIFICATE"] or "").strip()
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


def _login_url(settings: Mapping[str, Any]) -> str:
    text = str(settings["SHAREPOINT_LOGIN_URL"] or "").strip()
    url = _base(text)
    if url is None or not url.startswith("https://") or urlsplit(url).path:
        raise SettingError(
            f"SHAREPOINT_LOGIN_URL is {redacted_text(_REST.sub('', text))!r}: it takes an https"
            " address without credentials, path and query, such as"
            " https://login.microsoftonline.com"
        )
    return url


def _graph_url(settings: Mapping[str, Any]) -> str:
    text = str(settings["GRAPH_URL"] or "").strip()
    url = _base(text)
    if url is None or not is_secure_or_loopback_url(url):
        raise SettingError(
            f"GRAPH_URL is {redacted_text(_REST.sub('', text))!r}: it takes an https address"
            " without credentials and query, such as https://graph.microsoft.com/v1.0"
        )
    return url


def _base(text: str) -> str | None:
    """Return a URL without a slash at its end; None where it is no base of an API."""
    url = request_url(text)
    if url is None or "@" in urlsplit(text).netloc or "?" in text or "#" in text:
        return None
    return url.rstrip("/")


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


def _storage(settings: Mapping[str, Any], data_dir: Path) -> Path:
    text = str(settings["PERSISTENT_STORAGE_PATH"] or "").strip()
    return whole_path(text) if text else data_dir / "library"
