"""Keys: made, found, expired, revoked; and what each scope permits."""

import hmac
import time
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.rules.visibility import EVERYTHING, Reader, Visibility
from smartcrawl.server import keys
from smartcrawl.server.app import create_app
from smartcrawl.server.keys import (
    KeyCache,
    Scope,
    api_key_reader,
    find_api_key,
    list_api_keys,
    make_api_key,
    revoke_api_key,
)
from smartcrawl.server.stores import Stores
from tests import servers
from tests.choices import options
from tests.server.api_client import application, ask, ask_all, error_of, server_options

NOW = 1_750_000_000


@pytest.fixture(params=["sqlite", "postgres"])
def connection(request: pytest.FixtureRequest, tmp_path: Path):
    if request.param == "sqlite":
        place: Path | str = tmp_path / "registry.db"
    else:
        place = request.getfixturevalue("postgres_url")
    with closing(registry_database(place).open()) as connection:
        yield connection


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., str]:
    """Make a key in the registry of `tmp_path`, and return its text."""

    def make(scope: Scope = Scope.ADMIN, **given: int) -> str:
        with closing(registry_database(tmp_path / "registry.db").open()) as connection:
            return make_api_key(connection, "a test", scope, NOW, **given)[0]

    return make


def test_a_key_is_found_by_its_whole_text_only(connection: Connection):
    text, key = make_api_key(connection, "Grafana", Scope.READ, NOW)
    make_api_key(connection, "another", Scope.ADMIN, NOW)

    assert find_api_key(connection, text, NOW) == key
    assert (key.name, key.scope) == ("Grafana", Scope.READ)
    assert len(text) == len("sc_") + 12 + 1 + 43
    other = "A" if text[-1] != "A" else "B"
    for wrong in (text[:-1] + other, text[:-1], f"{text}A", text.upper(), "", "sc_", "é", "\0"):
        assert find_api_key(connection, wrong, NOW) is None, wrong


def test_the_registry_has_no_secret(connection: Connection):
    """ATT-48."""
    text, key = make_api_key(connection, "Grafana", Scope.READ, NOW)

    row = connection.execute("SELECT * FROM api_key").fetchone()

    secret = text.rpartition(f"{key.id}_")[2]
    assert secret.encode() not in b"".join(str(value).encode() for value in row)
    assert not any(secret.encode() in bytes(v) for v in row if isinstance(v, bytes))
    stored = connection.execute("SELECT hash FROM api_key").get
    assert bytes(stored) == sha256(text.encode()).digest()


def test_hashes_are_compared_in_constant_time(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
):
    text, _ = make_api_key(connection, "Grafana", Scope.READ, NOW)
    other = text[:-1] + ("A" if text[-1] != "A" else "B")
    compared: list[tuple[bytes, bytes]] = []

    def noted(known: bytes, given: bytes) -> bool:
        compared.append((known, given))
        return known == given

    monkeypatch.setattr(hmac, "compare_digest", noted)

    assert find_api_key(connection, text, NOW) is not None
    assert find_api_key(connection, other, NOW) is None
    known = sha256(text.encode()).digest()
    assert compared == [(known, known), (known, sha256(other.encode()).digest())]


def test_a_key_expires_and_is_revoked(connection: Connection):
    brief, key = make_api_key(connection, "brief", Scope.READ, NOW, expires=NOW + 60)
    long, other = make_api_key(connection, "long", Scope.READ, NOW)

    assert find_api_key(connection, brief, NOW + 59) == key
    assert find_api_key(connection, brief, NOW + 60) is None
    assert revoke_api_key(connection, other.id, NOW + 5)
    assert find_api_key(connection, long, NOW + 5) is None
    assert not revoke_api_key(connection, other.id, NOW + 6)
    assert not revoke_api_key(connection, "0" * 12, NOW + 6)
    assert [(one.name, one.revoked) for one in list_api_keys(connection)] in (
        [("brief", None), ("long", NOW + 5)],
        [("long", NOW + 5), ("brief", None)],
    )


def test_a_revoked_key_counts_for_five_seconds_at_most(tmp_path: Path, made: Callable[..., str]):
    """ATT-48."""
    text, now = made(), float(NOW)
    database = registry_database(tmp_path / "registry.db")
    stores = Stores(tmp_path / "registry.db")
    cache = KeyCache(stores, lambda: now)
    key = cache.look_up(text)
    assert key is not None
    assert cache.cached(text) == key
    with closing(database.open()) as connection:
        revoke_api_key(connection, key.id, NOW)
    now += 4.9
    assert cache.cached(text) == key
    now += 0.1
    assert cache.cached(text) is None
    assert cache.look_up(text) is None
    stores.close()


def test_a_key_does_not_outlive_its_expiry_in_the_memory(tmp_path: Path, made: Callable[..., str]):
    text, now = made(expires=NOW + 2), float(NOW)
    stores = Stores(tmp_path / "registry.db")
    cache = KeyCache(stores, lambda: now)
    assert cache.look_up(text) == cache.cached(text) is not None
    now += 2
    assert cache.cached(text) is None
    assert cache.look_up(text) is None
    stores.close()


@pytest.mark.parametrize("header", ["Authorization", "X-API-Key"])
def test_a_key_is_sent_in_either_header_and_never_in_the_query(
    tmp_path: Path, made: Callable[..., str], header: str
):
    """ATT-48: a query is part of logs and histories."""
    text = made()
    value = f"Bearer {text}" if header == "Authorization" else text
    app = application(tmp_path, host="0.0.0.0")

    assert ask(app, "GET", "/metrics", headers={header: value}).status_code == 200
    assert ask(app, "GET", "/metrics", params={header: value, "key": text}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X-API-Key": ""},
        {"X-API-Key": "sc_000000000000_" + "A" * 43},
        {"Authorization": "Basic c2M6c2M="},
        {"Authorization": "Bearer"},
    ],
)
def test_beyond_loopback_a_key_is_needed(tmp_path: Path, headers: dict[str, str]):
    """ATT-48: missing, malformed, unknown and wrong ones get the same status."""
    app = application(tmp_path, host="0.0.0.0")

    answer = ask(app, "GET", "/metrics", headers=headers)

    assert answer.status_code == 401
    assert error_of(answer)["code"] == "UNAUTHORIZED"
    assert answer.headers["WWW-Authenticate"] == "Bearer"


def test_two_keys_at_once_are_refused(tmp_path: Path, made: Callable[..., str]):
    headers = {"X-API-Key": made(), "Authorization": f"Bearer {made()}"}

    assert ask(application(tmp_path), "GET", "/metrics", headers=headers).status_code == 401


def test_probes_need_no_key(tmp_path: Path):
    answers = ask_all(
        application(tmp_path, host="0.0.0.0"), [("GET", "/health"), ("GET", "/ready")]
    )

    assert [answer.status_code for answer in answers] == [200, 200]


def test_behind_a_trusted_proxy_a_key_is_needed_on_loopback_too(tmp_path: Path):
    proxies = application(tmp_path, trusted_proxies=("127.0.0.1/32",))

    assert ask(proxies, "GET", "/metrics").status_code == 401
    assert ask(application(tmp_path), "GET", "/metrics").status_code == 200


@pytest.mark.parametrize(
    ("scope", "statuses"),
    [
        (Scope.READ, [200, 403, 403]),
        (Scope.OPERATE, [200, 200, 403]),
        (Scope.ADMIN, [200, 200, 202]),
    ],
)
def test_a_scope_includes_the_lower_ones(
    tmp_path: Path, made: Callable[..., str], scope: Scope, statuses: list[int]
):
    """ATT-48."""
    given = {"headers": {"X-API-Key": made(scope)}}
    app = application(tmp_path)
    calls = [
        ("GET", "/metrics", given),
        (
            "POST",
            "/api/v1/frontier/urls",
            given | {"json": {"urls": [{"url": "https://a.example/"}]}},
        ),
        ("POST", "/api/RebuildIndex", given | {"json": {}}),
    ]

    answers = ask_all(app, calls)

    assert [answer.status_code for answer in answers] == statuses
    refused = [error_of(answer)["code"] for answer in answers if answer.status_code == 403]
    assert set(refused) <= {"FORBIDDEN"}


def test_a_key_has_a_limit_of_its_own_at_any_address(tmp_path: Path, made: Callable[..., str]):
    """ATT-49."""
    one, other = ({"X-API-Key": made()} for _ in range(2))
    app = application(tmp_path, monitoring_limit=1)

    def status(client: str, headers: dict[str, str]) -> int:
        return ask(app, "GET", "/health", client=client, headers=headers).status_code

    assert status("10.0.0.1", one) == 200
    assert status("10.0.0.2", one) == 429
    assert status("10.0.0.1", other) == 200
    assert ask(app, "GET", "/health", client="10.0.0.1").status_code == 200


def test_beyond_the_limit_of_its_address_an_unknown_key_is_not_looked_up(
    tmp_path: Path, made: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    """ATT-49: a key that was found before is."""
    now = float(NOW)
    known, late = made(Scope.READ), made(Scope.READ)
    app = application(tmp_path, clock=lambda: now, monitoring_limit=3)
    looked: list[str] = []

    def found(connection: Connection, text: str, at: float):
        looked.append(text)
        return find_api_key(connection, text, at)

    monkeypatch.setattr(keys, "find_api_key", found)

    def status(key: str, client: str = "10.0.0.1") -> int:
        return ask(app, "GET", "/metrics", headers={"X-API-Key": key}, client=client).status_code

    assert status(known) == 200
    unknown = [f"sc_{number:012x}_{'A' * 43}" for number in range(6)]
    assert [status(key) for key in unknown] == [401, 401, 401, 429, 429, 429]
    assert looked == [known, *unknown[:3]]

    now += 6  # it is looked up anew
    assert status(known) == 200
    assert status(late) == 429, "its address has no requests left"
    assert status(late, client="10.0.0.2") == 200
    now += 60
    assert status(late) == 200
    assert looked[-3:] == [known, late, late]


@pytest.mark.parametrize("text", ["", "sc_", "A" * 100, "sc_" + "g" * 12 + "_" + "A" * 43])
def test_a_text_that_is_no_key_is_not_looked_up(tmp_path: Path, text: str):
    """ATT-49: no connection is opened for it."""
    cache = KeyCache(Stores(tmp_path / "nothing.db", only_reading=True), lambda: NOW)

    assert cache.look_up(text) is None


def test_a_key_cannot_be_checked_without_registry(tmp_path: Path, made: Callable[..., str]):
    headers = {"X-API-Key": made()}
    (tmp_path / "registry.db").write_bytes(b"no registry at all, but some text" * 100)

    answer = ask(application(tmp_path), "GET", "/metrics", headers=headers)

    assert answer.status_code == 503


def test_writes_are_one_transaction_and_reads_see_them(tmp_path: Path):
    stores = Stores(tmp_path / "registry.db")

    text, key = stores.write(lambda c: make_api_key(c, "one", Scope.READ, NOW))

    with stores.reading() as connection:
        assert find_api_key(connection, text, NOW) == key
        with pytest.raises(RegistryError), stores.reading() as other:
            other.execute("DELETE FROM api_key").fetchall()  # it may only read

    def fails(connection: Connection) -> None:
        make_api_key(connection, "two", Scope.READ, NOW)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stores.write(fails)
    with stores.reading() as connection:
        assert [one.name for one in list_api_keys(connection)] == ["one"]
    stores.close()


def test_a_postgresql_that_is_away_is_503_within_seconds_and_heals(
    postgres: servers.Postgres, postgres_url: str, tmp_path: Path
):
    app = create_app(options(tmp_path, registry=postgres_url), server_options())
    assert ask(app, "GET", "/ready").status_code == 200
    postgres.kill()
    try:
        begun = time.monotonic()
        away = ask(app, "GET", "/ready")
        assert time.monotonic() - begun < 10
        assert (away.status_code, error_of(away)["code"]) == (503, "SERVICE_UNAVAILABLE")
        assert away.headers["Retry-After"]
        assert "127.0.0.1" not in away.text
        assert ask(app, "GET", "/health").status_code == 200
    finally:
        postgres.start()
    assert ask(app, "GET", "/ready").status_code == 200


def test_a_key_is_enough_behind_a_proxy_that_was_not_declared(tmp_path: Path, made):
    headers = {"X-API-Key": made(), "X-Forwarded-For": "192.0.2.1"}

    assert ask(application(tmp_path), "GET", "/metrics", headers=headers).status_code == 200


def test_a_key_carries_the_sources_that_it_reads(connection: Connection):
    texts = {
        name: make_api_key(connection, name, scope, NOW, sources=sources)[0]
        for name, scope, sources in (
            ("plain", Scope.OPERATE, ()),
            ("wiki", Scope.READ, ("wiki", "docs")),
            ("all", Scope.ADMIN, ()),
        )
    }
    found = {name: find_api_key(connection, text, NOW) for name, text in texts.items()}

    assert [key.sources for key in list_api_keys(connection)] in (
        [key.sources for key in sorted(filter(None, found.values()), key=lambda one: one.id)],
    )
    declared = {"new": Visibility.PRIVATE}
    readers = {name: api_key_reader(key, declared) for name, key in found.items()}
    assert readers == {
        "plain": Reader(visibilities=declared),
        "wiki": Reader(sources=frozenset({"docs", "wiki"}), visibilities=declared),
        "all": EVERYTHING,
    }
    assert api_key_reader(None, declared) == Reader(visibilities=declared)
