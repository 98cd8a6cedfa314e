"""TLS certificates of web servers, verified by engine and lane under the same rules (RD-20)."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final, Self

from cryptography import x509
from OpenSSL import SSL, _util
from OpenSSL.crypto import X509
from scrapy.core.downloader.contextfactory import _ScrapyClientContextFactory
from scrapy.settings import BaseSettings
from scrapy.utils.ssl import _make_ssl_context
from service_identity.hazmat import DNS_ID, IPAddress_ID, ServiceID, verify_service_identity
from service_identity.pyopenssl import extract_patterns
from twisted.internet.interfaces import IOpenSSLClientConnectionCreator
from twisted.python.failure import Failure
from zope.interface import implementer

from smartcrawl.model.exceptions import CertificateError
from smartcrawl.model.options import Options
from smartcrawl.sources.base import Source

#: OpenSSL's numbers of errors in a chain (openssl-verification-options(1)).
_NOT_YET, _EXPIRED = 9, 10
_SELF_SIGNED, _SELF_SIGNED_ROOT = 18, 19
_NO_ISSUER: Final = frozenset({2, 20, 21, 27})
_SHOWN: Final = 3  #: names of a certificate that a message lists
_LONGEST: Final = 100  #: characters of a name in a message

_FIX: Final = "renew or correct the certificate at the server"
_TRUST: Final = "give the certificate of its authority with ca_file (CA_FILE)"
_CHAIN: Final = "have the server send its whole chain"
_OFF: Final = "or accept any certificate with verify_certificates = false (VERIFY_CERTIFICATES=0)"


@dataclass(frozen=True, slots=True)
class CertificateTrust:
    """Choice of the certificates of web servers that are accepted."""

    verify: bool = True
    ca_file: Path | None = None  #: PEM; trusted in addition to the authorities of the system

    @classmethod
    def of(cls, source: Source | None, options: Options) -> Self:
        """Return the trust of a source; the settings fill the gaps of its declaration.

        None: the trust of a spider without a source.
        """
        verify, ca_file = options.verify_certificates, options.ca_file
        if source is not None:
            if source.verify_certificates is not None:
                verify = source.verify_certificates
            if source.ca_file is not None:
                ca_file = source.ca_file
        return cls(verify, ca_file)


def lane_tls_context(settings: BaseSettings, trust: CertificateTrust) -> ssl.SSLContext:
    """Return the TLS context of connections over asyncio: those of the lane.

    Versions and ciphers are those of Scrapy's settings.
    """
    context = _make_ssl_context(settings)
    context.check_hostname = False  # first: it would refuse CERT_NONE with a check of names
    context.verify_mode = ssl.CERT_REQUIRED if trust.verify else ssl.CERT_NONE
    context.check_hostname = trust.verify
    context.hostname_checks_common_name = False
    if trust.verify:
        context.load_default_certs()
        if trust.ca_file is not None:
            context.load_verify_locations(cafile=trust.ca_file)
    return context


class ContextFactory(_ScrapyClientContextFactory):
    """TLS connections of Scrapy's engine, all from one context.

    Scrapy's own factory makes a context for each request. With verification each of them would
    load the authorities of the system.
    """

    trust = CertificateTrust()

    def creatorForNetloc(self, hostname: bytes, port: int) -> Any:
        """Return the creator of connections to a host."""
        return _Creator(self._shared, hostname.decode("ascii"), verify=self.trust.verify)

    @cached_property
    def _shared(self) -> SSL.Context:
        context = self._get_cert_options().getContext()
        if not self.trust.verify:
            return context
        paths = ssl.get_default_verify_paths()  # as the lane, with SSL_CERT_FILE and SSL_CERT_DIR
        if paths.cafile or paths.capath:
            context.load_verify_locations(paths.cafile, paths.capath)
        else:
            context.set_default_verify_paths()
        if self.trust.ca_file is not None:
            context.load_verify_locations(str(self.trust.ca_file))
        return context


@implementer(IOpenSSLClientConnectionCreator)
class _Creator:
    """Creator of the TLS connections to one host."""

    def __init__(self, context: SSL.Context, host: str, *, verify: bool) -> None:
        self._context = context
        self._host = host.strip("[]").rstrip(".")  # the dot of the root is in no certificate
        self._verify = verify

    def clientConnectionForTLS(self, tlsProtocol: Any) -> SSL.Connection:
        """Return a connection; a wrong certificate ends it with a CertificateError."""
        connection = SSL.Connection(self._context, None)
        if not _is_address(self._host):
            connection.set_tlsext_host_name(self._host.encode("ascii"))  # never for an address
        if self._verify:
            mode = SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT
            connection.set_verify(mode, _verifier(tlsProtocol, self._host))
        else:
            connection.set_verify(SSL.VERIFY_NONE)
        return connection


def _verifier(protocol: Any, host: str) -> Callable[[SSL.Connection, X509, int, int, int], bool]:
    """Return the callback that verifies each certificate of a chain, the server's own last."""
    kept: list[Any] = [protocol]  # cleared at the end: OpenSSL keeps the callback

    def verified(_: SSL.Connection, found: X509, code: int, depth: int, ok: int) -> bool:
        problem = None
        try:
            if not ok:
                problem = download_tls_chain_problem(code, found.to_cryptography(), depth)
            elif depth == 0:
                problem = download_tls_name_problem(found, host)
        except Exception as error:  # noqa: BLE001  # OpenSSL would lose it, and trust the certificate
            problem = f"it cannot be read ({type(error).__name__}: {error}): {_FIX}, {_OFF}"
        if problem is not None:
            refusal: Any = CertificateError(f"the certificate of {host} was refused: {problem}")
            for transport in kept:
                transport.failVerification(Failure(refusal))  # type: ignore[no-untyped-call]
        if problem is not None or depth == 0:
            kept.clear()
        return problem is None

    return verified


def download_tls_chain_problem(code: int, found: x509.Certificate, depth: int) -> str:
    """Return the meaning of OpenSSL's error number for a certificate, and the remedy.

    ``depth`` is 0 for the server's own certificate, more for those of its authorities.
    """
    issuer = _shown(found.issuer.rfc4514_string())
    which = f"its authority ({_shown(found.subject.rfc4514_string())})" if depth else "it"
    if code == _EXPIRED:
        return f"{which} expired on {_day(found.not_valid_after_utc)}: {_FIX}, {_OFF}"
    if code == _NOT_YET:
        day = _day(found.not_valid_before_utc)
        return f"{which} is not valid before {day}: check this machine's clock, {_FIX}, {_OFF}"
    if code == _SELF_SIGNED:
        return f"it is self-signed ({issuer}): {_TRUST}, {_OFF}"
    if code == _SELF_SIGNED_ROOT:
        return f"its issuer is unknown, a self-signed authority ({issuer}): {_TRUST}, {_OFF}"
    if code in _NO_ISSUER:
        return f"its issuer is unknown ({issuer}): {_TRUST}, {_CHAIN}, {_OFF}"
    words = _util.ffi.string(_util.lib.X509_verify_cert_error_string(code)).decode()
    return f"{words} ({code}): {_FIX}, {_OFF}"


def download_tls_name_problem(found: X509, host: str) -> str | None:
    """Return why a certificate does not belong to a host, and the remedy; None: it does."""
    wanted: ServiceID = IPAddress_ID(host) if _is_address(host) else DNS_ID(host)
    try:
        verify_service_identity(extract_patterns(found), [wanted], [])
    except Exception:  # noqa: BLE001  # of any class: Twisted accepts a certificate without names
        names = _names(found.to_cryptography())
        shown = ", ".join(map(_shown, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")
        whose = f"it is for {shown}" if names else "it names no host"
        return f"wrong name, {whose}: {_FIX}, {_OFF}"
    return None


def _names(found: x509.Certificate) -> list[str]:
    try:
        extension = found.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (x509.ExtensionNotFound, ValueError):
        return []
    return [str(name.value) for name in extension.value]


def _shown(text: str) -> str:
    """Return a text from the server, printable and short enough for a message."""
    clean = "".join(sign if sign.isprintable() else "?" for sign in text)
    return clean if len(clean) <= _LONGEST else f"{clean[:_LONGEST]}…"


def _day(when: datetime) -> str:
    return when.date().isoformat()


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
