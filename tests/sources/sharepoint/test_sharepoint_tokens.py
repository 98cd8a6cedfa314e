"""Credentials of apps, the life of tokens, and the settings behind them."""

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12

from smartcrawl import settings as module
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import SharepointOptions
from smartcrawl.sources.sharepoint.access import (
    LibraryError,
    LibraryRefusedError,
    LibraryRequest,
)
from smartcrawl.sources.sharepoint.tokens import Tokens, msal_module, sharepoint_app_certificate
from tests.sources.sharepoint.canned import CLIENT, LOGIN, SECRET, SITE, Canned, answer, options

SETTINGS = {name: getattr(module, name) for name in dir(module) if name.isupper()}
NOW = datetime(2026, 6, 1, tzinfo=UTC)
PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
KEY = rsa.generate_private_key(65537, 2048)
PASSWORD = b"pass-word"


def certificate(key: Any, first: datetime = NOW, days: int = 30) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "app")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
    builder = builder.not_valid_before(first).not_valid_after(first + timedelta(days=days))
    return builder.sign(key, hashes.SHA256())


def pem(key: Any, *found: x509.Certificate, password: bytes = b"") -> bytes:
    secret: Any = serialization.NoEncryption()
    if password:
        secret = serialization.BestAvailableEncryption(password)
    parts = [key.private_bytes(PEM, PKCS8, secret)] if key is not None else []
    return b"".join([*parts, *(one.public_bytes(PEM) for one in found)])


def pfx(password: bytes = PASSWORD, key: Any = KEY) -> bytes:
    secret: Any = serialization.NoEncryption()
    if password:
        secret = serialization.BestAvailableEncryption(password)
    return pkcs12.serialize_key_and_certificates(b"app", key, certificate(KEY), None, secret)


OTHER = rsa.generate_private_key(65537, 2048)
CURVE = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    ("content", "password"),
    [
        (pem(KEY, certificate(KEY)), ""),
        (pem(KEY, certificate(KEY), password=PASSWORD), PASSWORD.decode()),
        (pem(KEY, certificate(OTHER), certificate(KEY)), ""),
        (pfx(), PASSWORD.decode()),
        (pfx(b""), ""),
    ],
    ids=["pem", "encrypted", "chain", "pfx", "open pfx"],
)
def test_a_certificate_is_read_from_pem_and_pfx(tmp_path: Path, content: bytes, password: str):
    file = tmp_path / "app"
    file.write_bytes(content)

    found = sharepoint_app_certificate(file, password, NOW.timestamp() + 5)

    assert found.certificate.encode() == certificate(KEY).public_bytes(PEM)
    loaded: Any = serialization.load_pem_private_key(found.private_key.encode(), None)
    assert loaded.private_numbers() == KEY.private_numbers()
    assert repr(found) == "<AppCertificate>"


@pytest.mark.parametrize(
    ("content", "password", "words"),
    [
        (pem(None, certificate(KEY)), "", "has no private key: expected a PEM or PFX file"),
        (pem(KEY), "", "has no certificate"),
        (pem(KEY, certificate(KEY), password=PASSWORD), "", "set SHAREPOINT_CERTIFICATE_PASSWORD"),
        (pem(KEY, certificate(KEY), password=PASSWORD), "x", "check SHAREPOINT_CERTIFICATE_PASS"),
        (pem(KEY, certificate(OTHER)), "", "is not that of its certificate"),
        (pem(CURVE, certificate(CURVE)), "", "is not an RSA key"),
        (pem(KEY, certificate(KEY, NOW, 1)), "", "which expired on 2026-06-02: make a new"),
        (pem(KEY, certificate(KEY, NOW + timedelta(9))), "", "check the clock of this machine"),
        (pfx(), "x", "check SHAREPOINT_CERTIFICATE_PASSWORD"),
        (pfx(key=None), PASSWORD.decode(), "has no private key"),
        (b"\x00\x01", "", "which cannot be read"),
        (b"", "", "which cannot be read"),
        (pem(KEY, certificate(KEY)).replace(b"MII", b"///"), "", "which cannot be read"),
    ],
)
def test_each_unusable_certificate_has_its_remedy(
    tmp_path: Path, content: bytes, password: str, words: str
):
    file = tmp_path / "app"
    file.write_bytes(content)

    with pytest.raises(SettingError, match=r"^SHAREPOINT_CERTIFICATE is '") as error:
        sharepoint_app_certificate(file, password, NOW.timestamp() + 2 * 86_400)

    assert words in str(error.value)
    assert PASSWORD.decode() not in str(error.value)


# Tokens


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def signed(fetch: Canned, clock: Clock | None = None, **more: Any) -> Tokens:
    return Tokens(options(**more), SITE, fetch, clock or Clock())


def token_of(tokens: Tokens) -> str:
    return tokens.authorized(LibraryRequest(SITE)).headers["Authorization"]


def test_a_token_is_kept_until_shortly_before_its_end():
    fetch, clock = Canned(lambda path, query: answer({})), Clock()
    fetch.expires = 900
    tokens = signed(fetch, clock)

    assert token_of(tokens) == token_of(tokens) == "Bearer token-1"
    clock.now += 599
    assert token_of(tokens) == "Bearer token-1"
    clock.now += 2
    assert token_of(tokens) == "Bearer token-2"
    body = fetch.requests[-1].body
    assert body is not None
    assert b"scope=https%3A%2F%2Fcontoso.example%2F.default" in body


def test_many_threads_ask_for_one_token():
    fetch = Canned(lambda path, query: answer({}))
    tokens = signed(fetch)

    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: token_of(tokens), range(32)))
        refused = tokens.authorized(LibraryRequest(SITE))
        renewed = set(
            pool.map(lambda _: tokens.renewed(refused).headers["Authorization"], range(32))
        )

    assert (found, renewed, fetch.tokens) == ({"Bearer token-1"}, {"Bearer token-2"}, 2)


def test_a_token_is_sent_to_its_own_origin_only():
    fetch = Canned(lambda path, query: answer({}))
    tokens = signed(fetch)
    for url in (
        "https://contoso.example.evil/",
        "http://contoso.example/x",
        "https://a@contoso.example/",
    ):
        with pytest.raises(LibraryRefusedError, match="which gets no token"):
            tokens.authorized(LibraryRequest(url))
    with pytest.raises(SettingError, match="gets no token: only https"):
        Tokens(options(), "http://contoso.example/sites/x", fetch)
    assert fetch.requests == []


@pytest.mark.parametrize("place", ["https://evil.example/token", f"http{LOGIN[5:]}/token", "x"])
def test_secrets_are_sent_to_the_login_url_only(place: str):
    sent: list[LibraryRequest] = []

    def fetch(request: LibraryRequest):
        sent.append(request)
        return answer({"authorization_endpoint": f"{LOGIN}/t/a", "token_endpoint": place})

    with pytest.raises(LibraryError):
        Tokens(options(), SITE, fetch).authorized(LibraryRequest(SITE))

    assert [one.method for one in sent] == ["GET"]


ODD = [b"", b"[]", b"null", b"7", b'"x"', b"{}", b"\xff", b"<html>", b'{"access_token": 7}',
       b'{"access_token": "a b", "expires_in": 9}', b'{"error": {"a": 1}}', b'{"error": "x"}',
       b'{"access_token": "t", "expires_in": "soon"}', b"[" * 9_000]  # fmt: skip


@pytest.mark.parametrize("body", ODD)
@pytest.mark.parametrize("status", [200, 400, 500])
def test_odd_answers_of_the_sign_in_are_errors(body: bytes, status: int):
    fetch = Canned(lambda path, query: answer({}))
    fetch.sign_in = answer(body, status)

    with pytest.raises(LibraryError, match=f"the sign-in at {LOGIN} failed"):
        token_of(signed(fetch))


@pytest.mark.parametrize("body", ODD)
def test_odd_descriptions_of_the_sign_in_are_errors(body: bytes):
    with pytest.raises(LibraryError):
        token_of(Tokens(options(), SITE, lambda request: answer(body)))


def test_the_words_of_the_sign_in_have_no_secret():
    fetch = Canned(lambda path, query: answer({}))
    words = f"AADSTS9: the secret {SECRET} of {CLIENT} is\nodd"
    fetch.sign_in = answer({"error": "x", "error_description": words}, 401)

    with pytest.raises(LibraryRefusedError, match="HTTP status 401, AADSTS9") as error:
        token_of(signed(fetch))

    assert SECRET not in str(error.value)
    assert "\n" not in str(error.value)
    assert SECRET not in repr(signed(fetch))


def test_without_msal_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "msal.exceptions", None)

    with pytest.raises(SettingError, match=r"pip install 'msal==.*' 'openai=="):
        msal_module()


# Settings


def read(data_dir: Path = Path("/data"), **more: Any) -> SharepointOptions:
    return SharepointOptions.of(SETTINGS | more, data_dir)


def test_the_defaults_ask_rest_and_store_in_the_data_folder():
    found = read()

    assert (found.api, found.page_size, found.storage) == ("rest", 5_000, Path("/data/library"))
    assert (found.login_url, found.graph_url) == (
        "https://login.microsoftonline.com", "https://graph.microsoft.com/v1.0"
    )  # fmt: skip
    assert read(PERSISTENT_STORAGE_PATH="/x").storage == Path("/x")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("SHAREPOINT_API", "soap", "expected one of rest, graph"),
        ("SHAREPOINT_TENANT", "a/b", "the id or the domain of a directory"),
        ("SHAREPOINT_CLIENT_ID", "my app", "the application (client) id"),
        ("SHAREPOINT_CERTIFICATE", "/nowhere/x.pem", "No such file"),
        ("SHAREPOINT_CERTIFICATE", "-----BEGIN CERTIFICATE-----", "write it to a file"),
        ("SHAREPOINT_CLIENT_SECRET", "my geheim", "copy it anew"),
        ("SHAREPOINT_CLIENT_SECRET", CLIENT, "copy the value of the secret, not its id"),
        ("SHAREPOINT_LOGIN_URL", "http://127.0.0.1:1", "expected an https address"),
        ("SHAREPOINT_LOGIN_URL", "https://a.example/geheim?x", "expected an https address"),
        ("GRAPH_URL", "http://graph.example/v1.0", "expected an https address"),
        ("GRAPH_URL", "https://me:geheim@a.example/", "expected an https address"),
        ("SHAREPOINT_CA_FILE", "/nowhere/x.pem", "there is no such file"),
        ("SHAREPOINT_PAGE_SIZE", 5_001, "a whole number from 1 to 5000"),
        ("SHAREPOINT_PAGE_SIZE", 0, "a whole number from 1 to 5000"),
    ],
)
def test_each_wrong_setting_is_named(name: str, value: Any, words: str):
    with pytest.raises(SettingError, match=f"^{name} ") as error:
        read(**{name: value})

    assert words in str(error.value)
    assert "me:geheim" not in str(error.value)
    assert "my geheim" not in str(error.value)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tenant": ""}, "SHAREPOINT_TENANT is empty"),
        ({"client_id": ""}, "SHAREPOINT_CLIENT_ID is empty"),
        ({"client_secret": ""}, "SHAREPOINT_CERTIFICATE is empty"),
        ({"certificate": Path("x")}, "SHAREPOINT_CLIENT_SECRET is set beside"),
    ],
)
def test_what_is_missing_is_named(more: dict[str, Any], words: str):
    with pytest.raises(SettingError, match=words):
        options(**more).required()
