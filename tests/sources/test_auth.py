"""The table [sources.NAME.auth]: keys, origins, and secrets that are only named (ADR 146)."""

import pickle
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from smartcrawl.model.exceptions import SettingError, SourceError
from smartcrawl.model.secrets import Secret, read_secret
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.site import SiteSource
from tests.certificates import made

BASIC = 'kind = "basic"\nuser = "A_USER"\npassword = "A_PASSWORD"'
CERTIFICATE = 'kind = "client_certificate"\ncertificate = "file:a.pem"\nkey = "file:a.key"'
OAUTH = """kind = "oauth2_client"
token_url = "https://i.example/t"
client_id = "A_ID"
client_secret = "A_SECRET"
"""
FORM = """kind = "form"
login = "https://a.example/login"
fields = { user = "A_USER", pass = "A_PASSWORD" }
logged_in = "a.me"
"""


def declared(folder: Path, auth: str, seed: str = "https://a.example/x") -> SiteSource:
    """The source of a file, whose table must be right."""
    file = folder / "sources.toml"
    file.write_text(f'[sources.a]\nseeds = ["{seed}"]\n[sources.a.auth]\n{auth}\n')
    sources = load_declared_sources(file)
    sources.check()
    source = sources["a"]
    assert isinstance(source, SiteSource)
    return source


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ('user = "A"', "[sources.a.auth] kind is missing: expected form, cookie, basic, bearer"),
        ('kind = "oauth3"', "kind is 'oauth3', which this version does not know"),
        ('kind = "ntlm"', "such as cntlm or px, and crawl through it"),
        ('kind = "Negotiate"', "such as cntlm or px, and crawl through it"),
        (BASIC.replace("A_PASSWORD", "hunter2"), "password takes no secret itself"),
        ('kind = "bearer"\ntoken = "hunter2"', "token takes no secret itself"),
        ('kind = "bearer"\ntoken = 2', "token takes a text in quotes"),
        ('kind = "bearer"', "token is missing: give the name of the variable"),
        ('kind = "header"\nheaders = { X-Key = "hunter2" }', "headers.X-Key takes no secret"),
        ('kind = "header"\nheaders = { Cookie = "A" }', 'take kind = "cookie"'),
        ('kind = "header"\nheaders = { "a b" = "A" }', "which is no name of a header"),
        (f'{BASIC}\ntoken = "A"', "token belongs to another kind; known for the kind basic"),
        (f'{BASIC}\npasword = "hunter2"', "pasword is unknown, did you mean password?"),
        (f'{BASIC}\nlogged_in = "a["', "logged_in is 'a[', which is not a valid CSS selector"),
        (f'{BASIC}\norigins = ["https://a.example/x"]', "write https://a.example"),
        (f'{BASIC}\norigins = ["https://b.example"]', "no seed is on one of them"),
        (FORM.replace("a.example", "b.example"), "add it to origins"),
        (FORM.replace("logged_in", "#"), "logged_in is missing: give a CSS selector"),
        (OAUTH.replace('"A_ID"', '"hunter2"'), "client_id takes no secret itself"),
        (
            OAUTH.replace("https", "http"),
            'write origins = ["https://a.example", "http://i.example"]',
        ),
        (f'{OAUTH}\npassword = "A"', "password belongs to another kind"),
        (OAUTH.replace("token_url", "#"), "token_url is missing: give the address that gives"),
        ('kind = "client_certificate"', "certificate is missing: give the file that has it in PEM"),
        (CERTIFICATE.replace("file:a.key", "A_KEY"), "key takes a file, as in"),
        (CERTIFICATE.replace("file:a.key", "-----BEGIN hunter2"), "key takes a file, as in"),
        (f'{CERTIFICATE}\norigins = ["http://a.example"]', "a certificate is shown by https"),
    ],
)
def test_a_wrong_table_is_refused_with_the_remedy_and_without_its_values(
    tmp_path: Path, auth: str, words: str
):
    with pytest.raises(SourceError) as caught:
        declared(tmp_path, auth)
    assert words in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_http_needs_a_declaration(tmp_path: Path):
    with pytest.raises(SourceError, match=r'write origins = \["http://a\.example"\]'):
        declared(tmp_path, BASIC, "http://a.example/")
    given = f'{BASIC}\norigins = ["http://a.example"]'
    assert declared(tmp_path, given, "http://a.example/").login_origins == ("http://a.example",)


def test_the_origins_are_those_of_the_seeds(tmp_path: Path):
    source = declared(tmp_path, BASIC, "https://a.example:8443/x")
    assert (source.login_origins, source.has_login) == (("https://a.example:8443",), True)


def test_only_sites_log_in(tmp_path: Path):
    file = tmp_path / "sources.toml"
    file.write_text('[sources.a]\nkind = "files"\nroot = "x"\n[sources.a.auth]\nkind = "basic"\n')
    with pytest.raises(SourceError, match="auth: unknown key"):
        load_declared_sources(file).check()


def test_who_asks_is_the_user_and_not_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def identity(auth: str, user: str, password: str) -> bytes:
        monkeypatch.setenv("A_USER", user)
        monkeypatch.setenv("A_PASSWORD", password)
        source = declared(tmp_path, auth)
        assert source.auth is not None
        return source.auth.identity(source.auth.read_secrets("a"), source.login_origins)

    for auth in (BASIC, FORM):
        assert identity(auth, "me", "1") == identity(auth, "me", "2") != identity(auth, "you", "1")
    assert identity(BASIC, "me", "1") != identity(FORM, "me", "1")


@pytest.mark.parametrize(
    ("value", "words"),
    [(None, "is not set: set it"), (" ", "is empty"), ("a\nb", "has a line break")],
)
def test_a_variable_without_a_secret_is_named(
    monkeypatch: pytest.MonkeyPatch, value: str | None, words: str
):
    monkeypatch.delenv("A_SECRET", raising=False)
    if value is not None:
        monkeypatch.setenv("A_SECRET", value)
    with pytest.raises(ValueError, match=f"the environment variable A_SECRET {words}"):
        read_secret("A_SECRET")


def test_a_private_file_has_a_secret(tmp_path: Path):
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    file.chmod(0o640)
    with pytest.raises(ValueError, match=f"chmod 600 {file}"):
        read_secret("file:secret", tmp_path)
    file.chmod(0o600)
    assert read_secret("file:secret", tmp_path).reveal() == "hunter2"
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_secret("file:other", tmp_path)
    with pytest.raises(ValueError, match="is no regular file"):
        read_secret("file:/dev/null")


def test_all_missing_secrets_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("A_USER", "A_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    source = declared(tmp_path, BASIC)
    assert source.auth is not None
    with pytest.raises(SettingError, match=r"(?s)A_USER is not set.*A_PASSWORD is not set"):
        source.auth.read_secrets("a")


@pytest.mark.parametrize(("user", "password"), [("a:b", "c")])
def test_what_cannot_be_sent_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: str, password: str
):
    monkeypatch.setenv("A_USER", user)
    monkeypatch.setenv("A_PASSWORD", password)
    source = declared(tmp_path, BASIC)
    assert source.auth is not None
    with pytest.raises(SettingError, match="a user may have no colon"):
        source.auth.read_secrets("a")


def test_a_certificate_is_read_with_its_key(tmp_path: Path):
    """The key is for its owner alone; a renewed pair in the same files is no other reader."""
    own, other = made("bot"), made("another")
    source = declared(tmp_path, CERTIFICATE)
    auth = source.auth
    assert auth is not None
    certificate, key = tmp_path / "a.pem", tmp_path / "a.key"
    encrypted = own.key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"hunter2")
    )
    certificate.write_bytes(own.pem)
    certificate.chmod(0o644)

    def problem(chain: bytes, private: bytes, mode: int = 0o600) -> str:
        certificate.write_bytes(chain)
        key.write_bytes(private)
        key.chmod(mode)
        with pytest.raises(SettingError) as caught:
            auth.read_secrets("a")
        return str(caught.value)

    assert f"chmod 600 {key}" in problem(own.pem, own.key_pem, 0o640)
    assert "the key does not belong to the certificate" in problem(own.pem, other.key_pem)
    assert "openssl pkey -in" in problem(own.pem, encrypted)
    assert "has no private key in PEM" in problem(own.pem, b"hunter2")
    assert "has no certificate in PEM" in problem(b"hunter2", own.key_pem)
    seen = set()
    for signer in (own, other):
        certificate.write_bytes(signer.pem + own.pem)
        key.write_bytes(signer.key_pem)
        seen.add(auth.identity(auth.read_secrets("a"), source.login_origins))
    assert len(seen) == 1
    assert auth.client_certificate == (certificate, key)


def test_a_secret_shows_nothing():
    secret = Secret("hunter2")
    assert f"{secret} {secret!r} {[secret]}" == "… … […]"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_a_source_with_a_login_is_private_unless_it_says_otherwise(tmp_path: Path):
    assert declared(tmp_path, BASIC).declared_visibility == "private"
    file = tmp_path / "sources.toml"
    head, auth = file.read_text().split("[sources.a.auth]")
    for line, word in (('visibility = "public"', "public"), ('visibility = "private"', "private")):
        file.write_text(f"{head}{line}\n[sources.a.auth]{auth}")
        assert load_declared_sources(file)["a"].declared_visibility == word
        file.write_text(f"{head}{line}\n")
        assert load_declared_sources(file)["a"].declared_visibility == word
    file.write_text(head)
    assert load_declared_sources(file)["a"].declared_visibility is None


@pytest.mark.parametrize("kind", ["files", "site"])
def test_any_declared_source_takes_a_visibility_of_these_words(tmp_path: Path, kind: str):
    file = tmp_path / "sources.toml"
    start = f'root = "{tmp_path}"' if kind == "files" else 'seeds = ["https://a.example/"]'
    file.write_text(f'[sources.a]\nkind = "{kind}"\n{start}\nvisibility = "secret"\n')
    with pytest.raises(SourceError, match=r"visibility is 'secret': expected one of public, priv"):
        load_declared_sources(file).check()
    file.write_text(file.read_text().replace("secret", "private"))
    assert load_declared_sources(file)["a"].declared_visibility == "private"
