"""How the tests' servers are fetched where they are not installed: once, whole or not at all.

Shown with stand-ins for apt-get, apt-cache, dpkg and mvn, which cannot run offline.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import servers
from tests.servers import UnavailableError, debian_docs, elastic, nginx, postgresql

pytestmark = pytest.mark.long

APT_GET = """\
#!/bin/sh
echo "apt-get $*" >> "$CALLS"
test ! -e "$OFFLINE" || { echo "E: no network" >&2; exit 100; }
case "$*" in *" download "*) for name; do :; done; sleep 0.1; echo $name > $name.deb;; esac
"""
APT_CACHE = """\
#!/bin/sh
for name; do :; done
case $name in
python3-doc) echo "  Depends: python3"; echo "  Depends: python3.11-doc";;
nginx) echo "  Depends: nginx-core";;
nginx-core) echo "  Depends: libc6"; echo "  Depends: libother1"; echo " |Depends: libneeded1";;
postgresql) echo "  Depends: postgresql-15";;
postgresql-15) for name in postgresql-client-15 libc6 libllvm14 libneeded1; do
    echo "  Depends: $name"; done;;
redis-server) echo "  Depends: redis-tools";;
redis-tools) echo "  Depends: libneeded1";;
esac
"""
DPKG = """\
#!/bin/sh
case $(cat $2) in
python3.11-doc)
    mkdir -p "$3/usr/share/doc/python3.11/html"
    test ! -e "$BROKEN" || { echo half > "$3/usr/share/doc/python3.11/html/half"; exit 2; }
    echo whole > "$3/usr/share/doc/python3.11/html/index.html";;
nginx-core) mkdir -p "$3/usr/sbin"; touch "$3/usr/sbin/nginx";;
postgresql-15) programs="$3/usr/lib/postgresql/15/bin"
    mkdir -p "$programs"; touch "$programs/postgres" "$programs/initdb";;
redis-server) mkdir -p "$3/usr/bin"; ln -s redis-check-rdb "$3/usr/bin/redis-server";;
redis-tools) touch "$3/usr/bin/redis-check-rdb";;
libneeded1) mkdir -p "$3/usr/lib/here"; touch "$3/usr/lib/here/libneeded.so.1";;
esac
"""
LDD = """\
#!/bin/sh
echo "    libc.so.6 => /lib/libc.so.6 (0x1)"
test -e "$LD_LIBRARY_PATH/libneeded.so.1" || echo "    libneeded.so.1 => not found"
"""
MVN = """\
#!/bin/sh
echo "mvn $*" >> "$CALLS"
test ! -e "$OFFLINE" || { echo "[ERROR] no network"; exit 1; }
for each; do case $each in -Ddest=*) home=${each#-Ddest=};; esac; done
sleep 0.1
test ! -e "$BROKEN" || { echo half > "$home/half"; exit 2; }
mkdir "$home/lib"; echo whole > "$home/lib/whole"
"""


class FakeApt:
    def __init__(self, home: Path) -> None:
        self.offline = home / "offline"
        self.broken = home / "broken"
        self.calls = home / "calls"

    def downloads(self) -> list[str]:
        calls = self.calls.read_text().splitlines() if self.calls.exists() else []
        return [call.split()[-1] for call in calls if " download " in call]


def absence(ask: Callable[[], object]) -> tuple[type[BaseException], str]:
    """How `ask` says that something is not available; a skip here must not skip the test."""
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as caught:
        ask()
    return caught.type, str(caught.value)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("SMARTCRAWL_REQUIRE_SERVERS", "1")  # or an error would skip the test
    monkeypatch.setenv("SMARTCRAWL_TEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def apt(tmp_path: Path, cache: Path, monkeypatch) -> FakeApt:
    programs = tmp_path / "bin"
    programs.mkdir()
    stand_ins = {"apt-get": APT_GET, "apt-cache": APT_CACHE, "dpkg": DPKG, "ldd": LDD, "mvn": MVN}
    for name, text in stand_ins.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    fake = FakeApt(tmp_path)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("CALLS", str(fake.calls))
    monkeypatch.setenv("OFFLINE", str(fake.offline))
    monkeypatch.setenv("BROKEN", str(fake.broken))
    return fake


def test_real_package_behind_the_name_is_found(apt, cache):
    pages = debian_docs("python3-doc")

    assert pages.is_relative_to(cache)
    assert (pages / "index.html").read_text() == "whole\n"
    assert apt.downloads() == ["python3-doc", "python3.11-doc"]


def test_parallel_workers_fetch_once(apt):
    with ThreadPoolExecutor(8) as workers:
        found = set(workers.map(debian_docs, ["python3-doc"] * 8))

    assert len(found) == 1
    assert len(apt.downloads()) == 2


def test_half_a_package_is_never_taken_for_a_whole_one(apt, cache):
    apt.broken.touch()
    assert "dpkg" in absence(lambda: debian_docs("python3-doc"))[1]
    assert list(cache.rglob("half"))
    apt.broken.unlink()

    pages = debian_docs("python3-doc")

    assert [path.name for path in pages.iterdir()] == ["index.html"]


def test_package_without_pages_is_absent(apt):
    assert "do not hold" in absence(lambda: debian_docs("other-doc"))[1]
    assert apt.downloads() == ["other-doc"]


def test_absence_is_a_skip_unless_servers_are_required(apt, monkeypatch):
    apt.offline.touch()
    kind, reason = absence(lambda: debian_docs("python3-doc"))
    assert kind is pytest.fail.Exception
    assert "no network" in reason

    monkeypatch.delenv("SMARTCRAWL_REQUIRE_SERVERS")

    assert absence(lambda: debian_docs("python3-doc")) == (pytest.skip.Exception, reason)


LOOKUPS = [servers.nginx_lookup, servers.postgres_lookup, servers.redis_lookup]


@pytest.fixture
def nothing_installed(monkeypatch) -> Iterator[None]:
    """A machine without servers, but with what fetches them."""
    which, ours = shutil.which, {"nginx", "postgres", "redis-server"}
    monkeypatch.setattr(shutil, "which", lambda name, path=None: name not in ours and which(name))
    monkeypatch.setattr(postgresql, "_installed", lambda: None)
    monkeypatch.setattr(postgresql, "reachable", lambda path: None)
    monkeypatch.setattr(elastic, "reachable", lambda path: None)
    lookups = [*LOOKUPS, servers.elasticsearch_lookup]
    for lookup in lookups:
        lookup.cache_clear()
    yield
    for lookup in lookups:
        lookup.cache_clear()


@pytest.mark.parametrize(
    ("lookup", "packages"),
    [
        (servers.nginx_lookup, ["nginx", "nginx-core", "libother1", "libneeded1"]),
        (servers.postgres_lookup, ["postgresql", "postgresql-15", "libneeded1"]),
        (servers.redis_lookup, ["redis-server", "redis-tools", "libneeded1"]),
    ],
)
def test_server_comes_with_the_libraries_that_are_missing_and_no_others(
    lookup, packages, apt, cache, nothing_installed
):
    program, libraries = lookup()

    assert program.is_relative_to(cache)
    assert program.exists()
    assert Path(libraries, "libneeded.so.1").is_relative_to(cache)
    assert Path(libraries, "libneeded.so.1").exists()
    assert apt.downloads() == packages


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (lambda: nginx(Path()), "nginx is not available: .*no apt-get"),
        (servers.postgres, "PostgreSQL is not available: .*no apt-get"),
        (servers.redis_server, "Redis is not available: .*no apt-get"),
        (servers.elasticsearch, "Elasticsearch is not available: there is no mvn"),
    ],
    ids=["nginx", "postgres", "redis", "elasticsearch"],
)
def test_no_server_and_nothing_to_fetch_it_with_is_a_skip_unless_servers_are_required(
    start, reason, java, cache, nothing_installed, monkeypatch
):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    kind, said = absence(start().__enter__)
    assert kind is pytest.fail.Exception
    assert re.match(reason, said)
    monkeypatch.delenv("SMARTCRAWL_REQUIRE_SERVERS")
    assert absence(start().__enter__) == (pytest.skip.Exception, said)


@pytest.mark.parametrize("name", ["../etc", "a b", "-o", "", "A"])
def test_package_names_are_names(name, cache):
    with pytest.raises(ValueError, match="package name"):
        debian_docs(name)
    assert not cache.exists()


# Elasticsearch


@pytest.fixture
def java(tmp_path: Path, monkeypatch) -> Path:
    """The home of a Java 17 that may be chosen."""
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").touch()
    (home / "release").write_text('JAVA_VERSION="17.0.1"\nMODULES="java.base jdk.attach"\n')
    monkeypatch.setenv("ES_JAVA_HOME", str(home))
    return home


def test_elasticsearch_is_fetched_once_by_parallel_workers(apt, java, cache, nothing_installed):
    with ThreadPoolExecutor(8) as workers:
        found = set(workers.map(servers.elasticsearch_lookup, ["8.19"] * 8))

    ((home, chosen, version),) = found
    assert home.is_relative_to(cache)
    assert (home / "lib/whole").read_text() == "whole\n"
    assert (chosen, version) == (java, servers.EDITIONS["8.19"].version)
    (call,) = apt.calls.read_text().splitlines()
    assert f"-Dbundle.version={servers.EDITIONS['8.19'].bundle}" in call
    assert [path.name for path in home.parent.glob("*.repo.*")] == []


def test_half_an_elasticsearch_is_never_taken_for_a_whole_one(apt, java, cache, nothing_installed):
    apt.broken.touch()
    assert "get failed" in absence(servers.elasticsearch("8.19").__enter__)[1]
    assert list(cache.rglob("half"))
    apt.broken.unlink()
    servers.elasticsearch_lookup.cache_clear()

    home = servers.elasticsearch_lookup("8.19")[0]

    assert (home / "lib/whole").exists()
    assert not list(cache.rglob("half"))


def test_elasticsearch_without_a_network_is_asked_for_once(apt, java, nothing_installed):
    apt.offline.touch()
    for _ in range(2):
        assert "no network" in absence(servers.elasticsearch().__enter__)[1]
    assert len(apt.calls.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    "about", ['JAVA_VERSION="16.0.2"\njdk.attach', 'JAVA_VERSION="17.0.1"\njava.base', ""]
)
def test_java_that_is_too_old_or_has_no_agents_is_not_taken(about, java, monkeypatch):
    assert elastic._java(17) == java
    (java / "release").write_text(about)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(elastic, "_JVMS", java / "none")
    with pytest.raises(UnavailableError, match="no Java 17 or later"):
        elastic._java(17)
    (java / "none/jdk").mkdir(parents=True)
    (java / "none/jdk/bin").symlink_to(java / "bin")
    (java / "none/jdk/release").write_text('JAVA_VERSION="25"\njdk.attach')
    assert elastic._java(17) == java / "none/jdk"


def test_edition_can_be_named_by_the_environment(monkeypatch):
    monkeypatch.delenv("SMARTCRAWL_TEST_ELASTICSEARCH", raising=False)
    assert elastic.default_version() == "8.19"
    monkeypatch.setenv("SMARTCRAWL_TEST_ELASTICSEARCH", "9.4")
    assert elastic.default_version() == "9.4"
