"""Sign-in of an app: openid-configuration, and tokens for a secret or a signed assertion.

| shape | source |
| --- | --- |
| `/{tenant}/v2.0/.well-known/openid-configuration`, `/{tenant}/oauth2/v2.0/token` | Microsoft \
identity platform, client credentials; read by msal |
| `client_assertion` with `x5t` (RS256) or `x5t#S256` (PS256), `aud` the token endpoint | \
"Microsoft identity platform certificate credentials"; msal |
| AADSTS 90002, 700016, 7000215, 7000222, 700027, 700024, 700023, 1002012, 500011 | "Microsoft \
Entra authentication error codes"; the statuses and the rest of the texts are assumed |
"""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.servers.sharepoint.answers import Answer, Request, as_json
from tests.servers.sharepoint.tenant import Tenant

_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass(frozen=True)
class Token:
    """An access token that was given."""

    number: int  #: 1 for the first
    text: str = field(repr=False)
    audience: str  #: host and port of what it is for
    by_certificate: bool
    ends: float  #: Unix seconds

    @property
    def expired(self) -> bool:
        return time.time() >= self.ends


class Refused(Exception):  # noqa: N818 - an answer, not an error of the server
    """Sign-in that is refused."""

    def __init__(self, status: int, error: str, code: int, text: str) -> None:
        super().__init__(text)
        self.status, self.error, self.code, self.text = status, error, code, text


class Issuer:
    """What signs one app in."""

    def __init__(self, tenant: Tenant, domain: str = "contoso.onmicrosoft.com") -> None:
        self.tenant = tenant
        self.domain = domain  #: another name of the tenant
        self.client_id = "11111111-2222-3333-4444-555555555555"
        self.secrets: dict[str, bool] = {"right-secret": True}  #: False: it has expired
        self.certificates: list[x509.Certificate] = []  #: those registered on the app
        self.lifetime = 3_599  #: seconds of a token
        self.audiences: set[str] = set()  #: hosts that tokens may be for
        self.tokens: list[Token] = []

    def revoke(self) -> None:
        """Let all tokens given so far have expired."""
        self.tokens = [replace(token, ends=0) for token in self.tokens]

    def token(self, authorization: str) -> Token | None:
        """Return the token of a header."""
        kind, _, text = authorization.partition(" ")
        if kind.lower() != "bearer":
            return None
        return next((token for token in self.tokens if token.text == text), None)

    def answer(self, request: Request) -> Answer:
        """Answer one request to the listener of the sign-in."""
        name, _, rest = unquote(request.path).strip("/").partition("/")
        try:
            if rest == "v2.0/.well-known/openid-configuration":
                self._check_tenant(name)
                return self._configuration(request.origin)
            if rest == "oauth2/v2.0/token" and request.method == "POST":
                self._check_tenant(name)
                return self._granted(request)
        except Refused as refused:
            return self._refusal(refused)
        return Answer(404, b"Not Found", {"Content-Type": "text/plain"})

    def _check_tenant(self, name: str) -> None:
        if name.lower() not in (self.tenant.id, self.domain):
            text = f"Tenant '{name}' not found. Check to make sure you have the correct tenant ID."
            raise Refused(400, "invalid_tenant", 90002, text)

    def _refusal(self, refused: Refused) -> Answer:
        payload = {
            "error": refused.error,
            "error_description": f"AADSTS{refused.code}: {refused.text} Trace ID: "
            "5b0e7f0e-8f0f-4b0c-9c66-7a4e1ad6a001 Timestamp: 2026-01-02 03:04:05Z",
            "error_codes": [refused.code],
            "timestamp": "2026-01-02 03:04:05Z",
            "trace_id": "5b0e7f0e-8f0f-4b0c-9c66-7a4e1ad6a001",
            "error_uri": f"https://login.microsoftonline.com/error?code={refused.code}",
        }
        return as_json(payload, "application/json; charset=utf-8", refused.status)

    def _configuration(self, origin: str) -> Answer:
        front = f"{origin}/{self.tenant.id}"
        payload = {
            "token_endpoint": f"{front}/oauth2/v2.0/token",
            "token_endpoint_auth_methods_supported": ["client_secret_post", "private_key_jwt"],
            "jwks_uri": f"{front}/discovery/v2.0/keys",
            "issuer": f"{front}/v2.0",
            "authorization_endpoint": f"{front}/oauth2/v2.0/authorize",
            "device_authorization_endpoint": f"{front}/oauth2/v2.0/devicecode",
            "response_types_supported": ["code", "id_token"],
        }
        return as_json(payload, "application/json; charset=utf-8")

    def _granted(self, request: Request) -> Answer:
        form = {key: values[0] for key, values in parse_qs(request.body.decode()).items()}
        if form.get("grant_type") != "client_credentials":
            text = "The app requested an unsupported grant type."
            raise Refused(400, "unsupported_grant_type", 70003, text)
        if form.get("client_id") != self.client_id:
            text = f"Application with identifier '{form.get('client_id')}' was not found in the"
            raise Refused(400, "unauthorized_client", 700016, f"{text} directory 'Contoso'.")
        by_certificate = form.get("client_assertion_type") == _ASSERTION
        if by_certificate:
            self._check_assertion(form.get("client_assertion", ""), request)
        else:
            self._check_secret(form.get("client_secret", ""))
        audience = self._audience(form.get("scope", ""))
        number = len(self.tokens) + 1
        text = f"token-{number}-{base64.urlsafe_b64encode(audience.encode()).decode()}"
        ends = time.time() + self.lifetime
        self.tokens.append(Token(number, text, audience, by_certificate, ends))
        payload = {
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "ext_expires_in": self.lifetime,
            "access_token": text,
        }
        return as_json(payload, "application/json; charset=utf-8")

    def _audience(self, scope: str) -> str:
        if not scope.endswith("/.default"):
            text = f"The provided value for scope {scope} is not valid. Client credential flows"
            text += " must have a scope value with /.default suffixed to the resource identifier."
            raise Refused(400, "invalid_scope", 1002012, text)
        found = urlsplit(scope).netloc
        if found not in self.audiences:
            resource = scope.removesuffix("/.default")
            text = f"The resource principal named {resource} was not found in the tenant."
            raise Refused(400, "invalid_resource", 500011, text)
        return found

    def _check_secret(self, secret: str) -> None:
        valid = self.secrets.get(secret)
        if valid is None:
            text = "Invalid client secret provided. Ensure the secret being sent in the request is"
            text += " the client secret value, not the client secret ID, for a secret added to app"
            raise Refused(401, "invalid_client", 7000215, f"{text} '{self.client_id}'.")
        if not valid:
            text = f"The provided client secret keys for app '{self.client_id}' are expired."
            raise Refused(401, "invalid_client", 7000222, text)

    def _check_assertion(self, assertion: str, request: Request) -> None:
        """Check signature, certificate, audience and time of a JWT."""
        try:
            signed, _, signature = assertion.rpartition(".")
            head, body = (json.loads(_bytes(part)) for part in signed.split("."))
        except ValueError as error:
            raise Refused(401, "invalid_client", 50027, "JWT token is malformed.") from error
        certificate = self._certificate(head)
        if not _verified(certificate, head.get("alg"), signed.encode(), _bytes(signature)):
            text = "Client assertion failed signature validation."
            raise Refused(401, "invalid_client", 700027, text)
        if certificate.not_valid_after_utc.timestamp() <= time.time():
            text = "The certificate with identifier used to sign the client assertion is expired on"
            text += " application. [Reason - The key used is expired.]"
            raise Refused(401, "invalid_client", 700027, text)
        if body.get("aud") != f"{request.origin}{request.path}":
            text = "Client assertion audience claim does not match Realm issuer."
            raise Refused(401, "invalid_client", 700023, text)
        if self.client_id not in (body.get("iss"),) or body.get("sub") != self.client_id:
            text = "Client assertion contains an invalid issuer or subject."
            raise Refused(401, "invalid_client", 700021, text)
        if not body.get("nbf", 0) - 300 <= time.time() < body.get("exp", 0):
            text = "Client assertion is not within its valid time range."
            raise Refused(401, "invalid_client", 700024, text)

    def _certificate(self, head: dict[str, Any]) -> x509.Certificate:
        """Return the registered certificate that a JWT names by its thumbprint."""
        for name, algorithm in (("x5t#S256", hashes.SHA256()), ("x5t", hashes.SHA1())):
            given = str(head.get(name, ""))
            for certificate in self.certificates if given else ():
                if certificate.fingerprint(algorithm) == _bytes(given):
                    return certificate
        text = "The certificate with identifier used to sign the client assertion is not registered"
        raise Refused(401, "invalid_client", 700027, f"{text} on application.")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4))


def _verified(certificate: x509.Certificate, name: Any, signed: bytes, signature: bytes) -> bool:
    key = certificate.public_key()
    digest = hashes.SHA256()
    ways = {"RS256": padding.PKCS1v15(), "PS256": padding.PSS(padding.MGF1(digest), 32)}
    if name not in ways or not isinstance(key, rsa.RSAPublicKey):
        return False
    try:
        key.verify(signature, signed, ways[name], digest)
    except InvalidSignature:
        return False
    return True
