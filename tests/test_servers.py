"""nginx as the tests start it, and how what is not installed is fetched: once, whole or not at all.

The fetch is shown with stand-ins for apt-get, apt-cache and dpkg, which cannot run offline.
"""

import gzip
import http.client
import os
import shutil
import socket
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import servers
from tests.servers import Answered, debian_docs, nginx


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A site in a directory that no other user may enter."""
    site = tmp_path / "a site; {with} $strange 'name'"
    (site / "sub").mkdir(parents=True)
    (site / "index.html").write_text("<p>home")
    (site / "sub/index.html").write_text("<p>sub")
    (site / "note.txt").write_text("x" * 100_000)
    tmp_path.chmod(0o700)
    return site


def get(port: int, path: str, method: str = "GET", **headers: str):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request(method, path, headers={n.replace("_", "-"): v for n, v in headers.items()})
    response = connection.getresponse()
    response.data = response.read()
    connection.close()
    return response


def test_serves_files_with_their_types(root):
    with nginx(root) as server:
        assert urllib.request.urlopen(server.url).read() == b"<p>home"
        assert get(server.port, "/").headers["Content-Type"] == "text/html"
        assert get(server.port, "/note.txt").headers["Content-Type"] == "text/plain"
        assert get(server.port, "/note.txt").headers["Server"].startswith("nginx")
        assert get(server.port, "/missing").status == 404


def test_validators_are_honoured_and_follow_the_file(root):
    with nginx(root) as server:
        first = get(server.port, "/")
        etag, modified = first.headers["ETag"], first.headers["Last-Modified"]
        assert get(server.port, "/", If_None_Match=etag).status == 304
        assert get(server.port, "/", If_Modified_Since=modified).status == 304
        assert get(server.port, "/", If_None_Match='"other"').status == 200

        (root / "index.html").write_text("<p>changed")

        assert get(server.port, "/", If_None_Match=etag).data == b"<p>changed"


def test_directory_redirect_works_and_keeps_the_port(root):
    with nginx(root) as server:
        got = get(server.port, "/sub")
        assert (got.status, got.headers["Location"]) == (301, f"{server.url}sub/")
        assert urllib.request.urlopen(f"{server.url}sub").read() == b"<p>sub"


def test_requests_are_all_that_was_answered_in_order(root):
    with nginx(root) as server:
        etag = get(server.port, "/").headers["ETag"]
        get(server.port, "/", If_None_Match=etag)
        get(server.port, "/missing?q=%22", method="HEAD")
        get(server.port, "/sub")

        log = server.requests()

        assert [line[:3] for line in log] == [
            ("GET", "/", 200),
            ("GET", "/", 304),
            ("HEAD", "/missing?q=%22", 404),
            ("GET", "/sub", 301),
        ]
        assert [line.if_none_match for line in log] == ["-", etag, "-", "-"]
        assert server.requests() == log  # asking leaves no trace


def test_large_answer_is_logged_when_it_was_received(root):
    with nginx(root) as server:
        for number in range(1, 51):
            assert len(get(server.port, "/note.txt").data) == 100_000
            log = server.requests()
            assert len(log) == number
            assert 100_000 < log[-1].sent < 101_000


def test_log_holds_any_path(root):
    with nginx(root) as server, socket.create_connection(("127.0.0.1", server.port)) as client:
        path = '/"\\\u2028\x85ü'
        client.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        while client.recv(1000):
            pass

        assert server.requests() == [Answered("GET", path, 404, server.requests()[0].sent, "-")]


def test_no_log_when_none_is_wanted(root):
    with nginx(root, access_log=False) as server:
        assert get(server.port, "/").status == 200
        with pytest.raises(RuntimeError, match="access_log"):
            server.requests()


def test_extra_directives(root):
    extra = "gzip on; gzip_types text/plain; location = /teapot { return 418; }"
    with nginx(root, extra=extra) as server:
        assert get(server.port, "/teapot").status == 418
        packed = get(server.port, "/note.txt", Accept_Encoding="gzip")
        assert gzip.decompress(packed.data) == b"x" * 100_000


def test_port_can_be_chosen_and_is_free_again(root):
    with nginx(root) as first:
        port = first.port
    for _ in range(2):
        with nginx(root, port=port) as server:
            assert server.port == port
            assert get(port, "/").status == 200


def test_occupied_port_is_an_error_and_not_another_server(root):
    with nginx(root) as first, pytest.raises(RuntimeError, match="in use"):
        nginx(root, port=first.port).__enter__()


def test_wrong_directive_is_an_error_with_its_reason(root):
    with pytest.raises(RuntimeError, match="unknown directive"):
        nginx(root, extra="nonsense;").__enter__()


def test_nothing_is_left(root):
    with nginx(root) as server:
        pass
    assert server.process.poll() is not None
    assert not server.prefix.exists()
    with pytest.raises(ConnectionRefusedError):
        get(server.port, "/")


# How what is not installed is fetched

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
libneeded1) mkdir -p "$3/usr/lib/here"; touch "$3/usr/lib/here/libneeded.so.1";;
esac
"""
LDD = """\
#!/bin/sh
echo "    libc.so.6 => /lib/libc.so.6 (0x1)"
test -e "$LD_LIBRARY_PATH/libneeded.so.1" || echo "    libneeded.so.1 => not found"
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
    stand_ins = {"apt-get": APT_GET, "apt-cache": APT_CACHE, "dpkg": DPKG, "ldd": LDD}
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


def test_nginx_comes_with_the_libraries_that_are_missing_and_no_others(apt, cache, monkeypatch):
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, path=None: name != "nginx" and which(name))
    servers.nginx_lookup.cache_clear()
    try:
        binary, libraries = servers.nginx_lookup()
    finally:
        servers.nginx_lookup.cache_clear()

    assert binary.is_relative_to(cache)
    assert Path(libraries, "libneeded.so.1").is_relative_to(cache)
    assert apt.downloads() == ["nginx", "nginx-core", "libother1", "libneeded1"]


def test_no_nginx_and_no_apt_is_a_skip_unless_servers_are_required(root, cache, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    servers.nginx_lookup.cache_clear()
    try:
        kind, reason = absence(nginx(root).__enter__)
        assert kind is pytest.fail.Exception
        assert "no apt-get" in reason
        monkeypatch.delenv("SMARTCRAWL_REQUIRE_SERVERS")
        assert absence(nginx(root).__enter__) == (pytest.skip.Exception, reason)
    finally:
        servers.nginx_lookup.cache_clear()


@pytest.mark.parametrize("name", ["../etc", "a b", "-o", "", "A"])
def test_package_names_are_names(name, cache):
    with pytest.raises(ValueError, match="package name"):
        debian_docs(name)
    assert not cache.exists()
