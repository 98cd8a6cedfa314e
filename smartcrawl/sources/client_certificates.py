"""Certificates by which a crawl shows servers who asks, with their private keys."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class ClientCertificate(NamedTuple):
    """The files of a certificate and of its key."""

    chain: Path  #: PEM: the certificate, then those of its authorities
    key: Path  #: PEM, without a passphrase


def check_client_certificate(chain: str, key: str) -> None:
    """Check that a certificate and a key can be read and belong together; neither is repeated.

    Raises:
        ValueError: they do not, or one of them cannot be read as it is.
    """
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415  # few need it
        load_pem_private_key,
    )
    from cryptography.x509 import load_pem_x509_certificates  # noqa: PLC0415

    try:
        certificate = load_pem_x509_certificates(chain.encode())[0]
    except ValueError:
        raise ValueError(
            "the file of certificate has no certificate in PEM, which begins with"
            " -----BEGIN CERTIFICATE-----"
        ) from None
    try:
        private = load_pem_private_key(key.encode(), None)
    except TypeError:
        raise ValueError(
            "the file of key is encrypted, and a crawl asks for no passphrase: decrypt it, as in"
            " openssl pkey -in docs.key -out docs-plain.key, and chmod 600 docs-plain.key"
        ) from None
    except Exception:  # noqa: BLE001  # of several classes; their texts may show parts of the key
        raise ValueError(
            "the file of key has no private key in PEM, which begins with"
            " -----BEGIN PRIVATE KEY-----"
        ) from None
    if certificate.public_key() != private.public_key():
        raise ValueError("the key does not belong to the certificate")
