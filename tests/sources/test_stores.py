"""Object stores as the tests start them, and how Azurite is fetched: once, whole or not at all.

The fetch is shown with a stand-in for npm, which cannot run offline.
"""

import os
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import stores
from tests.servers import UnavailableError
from tests.stores import ObjectStore, azurite, azurite_lookup, moto_server, shared_store

pytestmark = pytest.mark.long(but=4)

NPM = """\
#!/bin/sh
echo "npm $*" >> "$CALLS"
test ! -e "$OFFLINE" || { echo "npm error network" >&2; exit 1; }
sleep 0.1
mkdir -p node_modules/azurite/dist/src/blob
test ! -e "$BROKEN" || { echo half > node_modules/azurite/half; exit 2; }
echo whole > node_modules/azurite/dist/src/blob/main.js
"""


@pytest.mark.parametrize("server", [moto_server, azurite])
def test_server_answers_on_loopback_and_is_gone_afterwards(server):
    with server() as running, pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(f"http://127.0.0.1:{running.port}/smartcrawl/missing")
    assert running.process.poll() is not None
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", running.port))


@pytest.mark.long
@pytest.mark.parametrize("server", [moto_server, azurite])
def test_occupied_port_is_an_error_and_not_another_server(server):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RuntimeError, match="does not listen"):
            server(port=port).__enter__()


def test_a_shared_server_is_one_server_that_no_test_may_end(tmp_path: Path):
    begun = []

    @contextmanager
    def starting() -> Iterator[ObjectStore]:
        begun.append(ObjectStore(9_000, None, {"NAME": "value"}))
        yield begun[-1]

    with shared_store(tmp_path, starting) as first, shared_store(tmp_path, starting) as second:
        assert (first, [first]) == (second, begun)
        with pytest.raises(RuntimeError, match="start one of the test's own"):
            first.stop()
    with shared_store(tmp_path, starting):
        assert len(begun) == 2


class FakeNpm:
    def __init__(self, home: Path) -> None:
        self.cache = home / "cache"
        self.offline = home / "offline"
        self.broken = home / "broken"
        self.calls = home / "calls"


@pytest.fixture
def npm(tmp_path: Path, monkeypatch) -> Iterator[FakeNpm]:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, text in {"npm": NPM, "node": "#!/bin/sh\n"}.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    fake = FakeNpm(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("SMARTCRAWL_TEST_CACHE", str(fake.cache))
    monkeypatch.setenv("SMARTCRAWL_REQUIRE_SERVERS", "1")  # or an error would skip the test
    for name in ("calls", "offline", "broken"):
        monkeypatch.setenv(name.upper(), str(getattr(fake, name)))
    azurite_lookup.cache_clear()
    yield fake
    azurite_lookup.cache_clear()


def absence(ask: Callable[[], object]) -> tuple[type[BaseException], str]:
    """How `ask` says that something is not available; a skip here must not skip the test."""
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as caught:
        ask()
    return caught.type, str(caught.value)


def test_parallel_workers_fetch_once(npm):
    with ThreadPoolExecutor(8) as workers:
        found = {lookup.result() for lookup in [workers.submit(azurite_lookup) for _ in range(8)]}

    ((_, program),) = found
    assert program.is_relative_to(npm.cache)
    assert program.read_text() == "whole\n"
    assert len(npm.calls.read_text().splitlines()) == 1
    assert f"azurite@{stores.AZURITE}" in npm.calls.read_text()


def test_half_a_package_is_never_taken_for_a_whole_one(npm):
    npm.broken.touch()
    assert isinstance(azurite_lookup(), UnavailableError)
    assert list(npm.cache.rglob("half"))
    npm.broken.unlink()
    azurite_lookup.cache_clear()

    _, program = azurite_lookup()

    assert program.read_text() == "whole\n"
    assert not list(npm.cache.rglob("half"))


def test_absence_is_a_skip_unless_servers_are_required(npm, monkeypatch):
    npm.offline.touch()
    kind, reason = absence(azurite().__enter__)
    assert kind is pytest.fail.Exception
    assert "npm error network" in reason

    monkeypatch.delenv("SMARTCRAWL_REQUIRE_SERVERS")

    assert absence(azurite().__enter__) == (pytest.skip.Exception, reason)


def test_neither_node_nor_moto_is_an_absence(npm, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    assert "no node" in absence(azurite().__enter__)[1]
    assert "moto_server is not installed" in absence(moto_server().__enter__)[1]
