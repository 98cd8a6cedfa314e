"""Access tokens of an app for one API, by msal, and the certificate of the app.

A token is sent to its own origin only; secrets are sent to the origin of SHAREPOINT_LOGIN_URL only.
Neither is logged.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import time
from types import ModuleType
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import SharepointOptions, is_secure_or_loopback_url
from smartcrawl.model.program import extra_installation
from smartcrawl.sources.sharepoint.access import (
    Fetch,
    LibraryAnswer,
    LibraryError,
    LibraryRefusedError,
    LibraryRequest,
    LibraryUnreachableError,
    library_origin,
    sharepoint_words,
)

_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----[^-]++-----END CERTIFICATE-----", re.DOTALL
)
_KEY: Final = re.compile(
    rb"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----.+?-----END (?P=kind)-----", re.DOTALL
)
_LARGEST: Final = 1024 * 1024  #: bytes of a file
_TAKES: Final = "expected a PEM or PFX file with a certificate and its private key"


class AppCertificate(NamedTuple):
    """A certificate with its private key. Its ``repr`` has neither."""

    certificate: str  #: PEM
    private_key: str  #: PEM, not encrypted: it stays in memory

    def __repr__(self) -> str:
        """Return the name of the type."""
        return "<AppCertificate>"


def sharepoint_app_certificate(path: Path, password: str, now: float) -> AppCertificate:
    """Read the certificate of an app; ``password`` empty: the file has none.

    Raises:
        SettingError: the file cannot be used, or the certificate is not valid at ``now``.
    """
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415  # for sign-ins only

    name = f"SHAREPOINT_CERTIFICATE is {str(path)!r}"
    try:
        with path.open("rb") as file:
            content = file.read(_LARGEST)
    except OSError as error:
        raise SettingError(f"{name}: {error.strerror}; {_TAKES}") from error
    secret = password.encode() or None
    is_pem = b"-----BEGIN" in content
    key, certificate = (_of_pem if is_pem else _of_pfx)(content, secret, name)
    _check(key, certificate, name, now)
    return AppCertificate(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def _of_pem(content: bytes, password: bytes | None, name: str) -> tuple[Any, Any]:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    key, certificates = _KEY.search(content), _CERTIFICATE.findall(content)
    if key is None or not certificates:
        part = "private key" if key is None else "certificate"
        raise SettingError(f"{name}, which has no {part}: {_TAKES}")
    is_encrypted = b"ENCRYPTED" in key[0]
    if is_encrypted and password is None:
        raise SettingError(
            f"{name}, whose private key has a password: set SHAREPOINT_CERTIFICATE_PASSWORD"
        )
    try:
        private = serialization.load_pem_private_key(key[0], password if is_encrypted else None)
        found = [x509.load_pem_x509_certificate(one) for one in certificates]
    except (ValueError, TypeError) as error:
        raise SettingError(_unreadable(name, has_password=is_encrypted)) from error
    numbers = private.public_key()
    own = [one for one in found if one.public_key() == numbers]
    return private, (own or found)[0]


def _of_pfx(content: bytes, password: bytes | None, name: str) -> tuple[Any, Any]:
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    try:
        key, certificate, _ = pkcs12.load_key_and_certificates(content, password)
    except (ValueError, TypeError) as error:
        raise SettingError(_unreadable(name, has_password=True)) from error
    if key is None or certificate is None:
        part = "private key" if key is None else "certificate"
        raise SettingError(f"{name}, which has no {part}: {_TAKES}")
    return key, certificate


def _unreadable(name: str, *, has_password: bool) -> str:
    also = "check SHAREPOINT_CERTIFICATE_PASSWORD; " if has_password else ""
    return f"{name}, which cannot be read: {also}{_TAKES}"


def _check(key: Any, certificate: Any, name: str, now: float) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415

    if key.public_key() != certificate.public_key():
        raise SettingError(f"{name}, whose private key is not that of its certificate: {_TAKES}")
    if not isinstance(key, rsa.RSAPrivateKey):
        raise SettingError(
            f"{name}, whose key is not an RSA key: make a certificate with an RSA key"
        )
    time = datetime.fromtimestamp(now, UTC)
    if time > certificate.not_valid_after_utc:
        raise SettingError(
            f"{name}, which expired on {certificate.not_valid_after_utc:%Y-%m-%d}: make a new"
            " certificate, and add it to the app registration"
        )
    if time < certificate.not_valid_before_utc:
        raise SettingError(
            f"{name}, which is valid from {certificate.not_valid_before_utc:%Y-%m-%d} on: check"
            " the clock of this machine"
        )


_EARLY: Final = 300  #: seconds before its end at which a token is renewed
_CODE: Final = re.compile(r"AADSTS\d+")
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
#: What msal raises besides errors of its own where an answer has another form than it expects.
_OF_MSAL: Final = (ValueError, RuntimeError, LookupError, TypeError, AttributeError)
#: Remedies by codes of the sign-in (Microsoft Entra authentication error codes).
_REMEDIES: Final[Mapping[str, str]] = {
    "AADSTS90002": "there is no such tenant: check SHAREPOINT_TENANT",
    "AADSTS900023": "there is no such tenant: check SHAREPOINT_TENANT",
    "AADSTS700016": (
        "the tenant has no such app: check SHAREPOINT_CLIENT_ID and SHAREPOINT_TENANT"
    ),
    "AADSTS7000215": (
        "the secret is wrong: set SHAREPOINT_CLIENT_SECRET to the value of a secret, not to its id"
    ),
    "AADSTS7000222": (
        "the secret has expired: make a new one in the app registration, and set"
        " SHAREPOINT_CLIENT_SECRET"
    ),
    "AADSTS700027": (
        "the certificate is unknown or has expired: add that of SHAREPOINT_CERTIFICATE to the app"
        " registration, or make a new one"
    ),
    "AADSTS700024": "the clock of this machine is wrong: set it",
    "AADSTS500011": "the tenant does not know this API: check site_url, GRAPH_URL and the tenant",
    "AADSTS65001": "consent is missing: let an administrator grant the permissions of the app",
    "AADSTS53003": "a conditional access policy refuses it: let an administrator except the app",
}


def msal_module() -> ModuleType:
    """Return msal, which is imported for sign-ins only.

    Raises:
        SettingError: it is not installed.
    """
    try:
        import msal.exceptions  # noqa: PLC0415  # an extra, and not quick to import
    except ImportError as error:
        raise SettingError(
            f"document libraries need the package msal: {extra_installation('libraries')}"
        ) from error
    module: ModuleType = msal
    return module


class Tokens:
    """The tokens of one app for the API at one origin."""

    def __init__(
        self,
        options: SharepointOptions,
        api_url: str,
        fetch: Fetch,
        clock: Callable[[], float] = time,
    ) -> None:
        """Set up; no request is sent yet. ``api_url``: any URL of the API.

        Raises:
            SettingError: credentials are missing, or a token cannot be sent there safely.
        """
        self.origin = library_origin(api_url)
        if not is_secure_or_loopback_url(api_url):
            raise SettingError(f"{self.origin} gets no token: only https addresses do")
        self._options = options.required()
        self._scope = f"https://{urlsplit(self.origin).netloc}/.default"
        self._client = _SignInClient(options.login_url, fetch)
        self._clock = clock
        self._lock = threading.Lock()
        self._app: Any = None
        self._token = ""
        self._ends = 0.0  #: time after which the token is renewed

    def __repr__(self) -> str:
        """Return the origin, without any secret."""
        return f"<Tokens for {self.origin}>"

    def authorized(self, request: LibraryRequest) -> LibraryRequest:
        """Return a request with a token that is valid for some minutes. Blocking.

        Raises:
            LibraryError: no token can be had.
            SettingError: a setting is wrong.
        """
        return self._with(request, None)

    def renewed(self, request: LibraryRequest) -> LibraryRequest:
        """Return a refused request with another token than it had. Blocking.

        Raises:
            LibraryError: no token can be had.
            SettingError: a setting is wrong.
        """
        return self._with(request, request.headers.get("Authorization", "").removeprefix("Bearer "))

    def _with(self, request: LibraryRequest, refused: str | None) -> LibraryRequest:
        origin = library_origin(request.url)
        if origin != self.origin:
            raise LibraryRefusedError(
                f"the address leads to {sharepoint_words(origin)}, which gets no token"
            )
        token = self._valid(refused)
        return request._replace(headers={**request.headers, "Authorization": f"Bearer {token}"})

    def _valid(self, refused: str | None) -> str:
        """Return a token other than the refused one; threads ask for it once."""
        with self._lock:
            if not self._token or self._token == refused or self._clock() >= self._ends:
                self._token = ""
                self._token, seconds = self._acquired()
                self._ends = self._clock() + max(seconds - _EARLY, seconds / 2)
            return self._token

    def _acquired(self) -> tuple[str, float]:
        """Return a token of the sign-in, and the seconds of its validity."""
        msal = msal_module()
        try:
            if self._app is None:
                self._app = self._application(msal)
            self._app.remove_tokens_for_client()  # msal's cache has a clock of its own
            found = self._app.acquire_token_for_client([self._scope])
        except (LibraryError, SettingError):
            raise
        except (msal.exceptions.MsalError, *_OF_MSAL) as error:
            raise self._failure(str(error)) from None  # its text may have what was sent
        if not isinstance(found, dict):
            raise self._failure("")
        token, seconds = found.get("access_token"), found.get("expires_in")
        if isinstance(token, str) and _TOKEN.fullmatch(token):
            return token, float(seconds) if isinstance(seconds, int | float) else 0.0
        raise self._failure(str(found.get("error_description") or found.get("error") or ""))

    def _application(self, msal: ModuleType) -> Any:
        options = self._options
        credential: Any = options.client_secret
        if options.certificate is not None:
            found = sharepoint_app_certificate(
                options.certificate, options.certificate_password, self._clock()
            )
            credential = {
                "private_key": found.private_key,
                "public_certificate": found.certificate,
            }
        return msal.ConfidentialClientApplication(
            options.client_id,
            client_credential=credential,
            authority=f"{options.login_url}/{options.tenant}",
            http_client=self._client,
            instance_discovery=False,  # nothing is asked of another origin
            azure_region=False,
        )

    def _failure(self, words: str) -> LibraryError:
        """Return the error of a sign-in, with its code and the remedy."""
        answer = self._client.last
        words = words or self._client.words
        code = (_CODE.search(self._client.words) or _CODE.search(words) or [""])[0]
        why = f"the sign-in at {self._options.login_url} failed"
        if answer is not None and answer.status != 200:
            why += f" with HTTP status {answer.status}"
        if code:
            why += f", {code}"
        if code in _REMEDIES:
            return LibraryRefusedError(f"{why}: {_REMEDIES[code]}")
        if answer is not None and (answer.status == 429 or answer.status >= 500):
            return LibraryUnreachableError(f"{why}: crawl again later")
        said = sharepoint_words(self._hidden(self._client.words))
        why += f" ({said})" if said else ""
        return LibraryRefusedError(
            f"{why}: check SHAREPOINT_TENANT, SHAREPOINT_CLIENT_ID and SHAREPOINT_LOGIN_URL"
        )

    def _hidden(self, words: str) -> str:
        secret = self._options.client_secret
        return words.replace(secret, "…") if secret else words


class _SignInAnswer:
    """An answer as msal reads it."""

    def __init__(self, answer: LibraryAnswer) -> None:
        self.status_code = answer.status
        self.headers = dict(answer.headers)
        self.text = answer.body.decode("utf-8", "replace")

    def raise_for_status(self) -> None:
        """Do nothing: msal replaces this method by its own."""


class _SignInClient:
    """msal's http_client, by ``fetch``: for the origin of the sign-in, and by https, only."""

    def __init__(self, login_url: str, fetch: Fetch) -> None:
        self._origin = library_origin(login_url)
        self._fetch = fetch
        self.last: LibraryAnswer | None = None

    @property
    def words(self) -> str:
        """The server's own words about its last error; empty without any."""
        if self.last is None or self.last.status == 200:
            return ""
        try:
            found = json.loads(self.last.body)
        except (ValueError, RecursionError):
            return ""
        words = found.get("error_description") if isinstance(found, dict) else None
        return words if isinstance(words, str) else ""

    def get(self, url: str, params: Any = None, headers: Any = None, **_: Any) -> _SignInAnswer:
        """Return the answer to a GET."""
        if params:
            url = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
        return self._asked(LibraryRequest(url, dict(headers or {}), _LARGEST))

    def post(
        self, url: str, params: Any = None, data: Any = None, headers: Any = None, **_: Any
    ) -> _SignInAnswer:
        """Return the answer to a POST of a form."""
        if params:
            url = f"{url}{'&' if '?' in url else '?'}{urlencode(params)}"
        found = {**(headers or {}), "Content-Type": "application/x-www-form-urlencoded"}
        body = urlencode(data or {}).encode()
        return self._asked(LibraryRequest(url, found, _LARGEST, "POST", body))

    def close(self) -> None:
        """Do nothing: connections are the engine's."""

    def _asked(self, request: LibraryRequest) -> _SignInAnswer:
        origin = library_origin(request.url)
        if origin != self._origin or not origin.startswith("https://"):
            raise LibraryRefusedError(
                f"the sign-in leads to {sharepoint_words(origin)}: check SHAREPOINT_LOGIN_URL"
            )
        self.last = None
        self.last = self._fetch(request)
        return _SignInAnswer(self.last)
