"""The certificate of an app registration, read from a PEM or PFX file."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from smartcrawl.model.exceptions import SettingError

_CERTIFICATE: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----[^-]++-----END CERTIFICATE-----", re.DOTALL
)
_KEY: Final = re.compile(
    rb"-----BEGIN (?P<kind>[A-Z ]*PRIVATE KEY)-----.+?-----END (?P=kind)-----", re.DOTALL
)
_LARGEST: Final = 1024 * 1024  #: bytes of a file
_TAKES: Final = "it takes a PEM or PFX file with a certificate and its private key"


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
