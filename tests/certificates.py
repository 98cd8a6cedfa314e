"""Certificates for servers of the tests on loopback."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = timedelta(days=1)
_PEM = serialization.Encoding.PEM


@dataclass
class Signer:
    """A key with its certificate, which may sign others."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(_PEM)

    @property
    def key_pem(self) -> bytes:
        plain = serialization.NoEncryption()
        return self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, plain)


def made(
    name: str,
    *,
    hosts: tuple[str, ...] = (),
    issuer: Signer | None = None,
    authority: bool = False,
    ends_in: timedelta = _DAY,
    begins_in: timedelta | None = None,
) -> Signer:
    """Make a certificate; without an `issuer` it signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    begins = now + (min(ends_in, timedelta()) - _DAY if begins_in is None else begins_in)
    builder = (
        x509.CertificateBuilder(
            issuer.certificate.subject if issuer else subject,
            subject,
            key.public_key(),
            x509.random_serial_number(),
        )
        .not_valid_before(begins)
        .not_valid_after(now + ends_in)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=authority,
                crl_sign=authority,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if hosts:
        names = x509.SubjectAlternativeName([_general(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return Signer(key, builder.sign(issuer.key if issuer else key, hashes.SHA256()))


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def written(folder: Path, name: str, signer: Signer, *chain: Signer, key: bool = True) -> Path:
    """Write a certificate, its key unless `key` is false, and a chain, as one PEM file."""
    parts = [signer.key_pem] if key else []
    file = folder / name
    file.write_bytes(b"".join([*parts, signer.pem, *(other.pem for other in chain)]))
    return file


def certificate(folder: Path) -> Path:
    """Write a key, and a certificate of 127.0.0.1 that it signed itself; both in one PEM file."""
    signer = made("127.0.0.1", hosts=("127.0.0.1",), authority=True)
    return written(folder, "certificate.pem", signer)
