"""Real servers for tests and benchmarks, installed or unpacked from Debian without root.

Nothing on the system changes: what is missing is fetched by apt with its own state, unpacked below
`$SMARTCRAWL_TEST_CACHE` (default `${XDG_CACHE_HOME:-~/.cache}/smartcrawl-tests`) and kept there.
A server that cannot be had is a skip with its reason; SMARTCRAWL_REQUIRE_SERVERS=1 makes it a
failure.
"""

import fcntl
import http.client
import json
import os
import platform
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

_START_SECONDS = 10
_STOP_SECONDS = 5
_LOG_SECONDS = 10
_APT_SECONDS = 300

_CONFIGURATION = """\
daemon off;
worker_processes 1;
pid nginx.pid;
error_log error.log;
{user}
events {{ worker_connections 1024; }}
http {{
    types {{
        text/html html htm;
        text/css css;
        text/javascript js;
        text/xml xml;
        text/plain txt;
        text/markdown md;
        application/json json;
        application/pdf pdf;
        image/png png;
        image/jpeg jpg jpeg;
        image/gif gif;
        image/svg+xml svg;
    }}
    default_type application/octet-stream;
    log_format facts escape=json
        '{{"method":"$request_method","path":"$request_uri","status":$status,'
        '"sent":$bytes_sent,"if_none_match":"$http_if_none_match"}}';
    access_log {log};
    client_body_temp_path client_body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    sendfile on;
    etag on;
    server {{
        listen 127.0.0.1:{port};
        server_name 127.0.0.1 localhost;
        port_in_redirect on;
        root html;
        index index.html;
        location = {probe} {{ return 204; }}
        {extra}
    }}
}}
"""


class UnavailableError(Exception):
    """A program or package cannot be had on this machine; the message says why."""


class Answered(NamedTuple):
    """One line of nginx's access log."""

    method: str
    path: str
    status: int
    sent: int  #: bytes, headers included
    if_none_match: str  #: "-" when the request had none


@dataclass(frozen=True, slots=True)
class Nginx:
    """A running nginx.

    Its ETag is made of a file's modification time in whole seconds and its size: a test that edits
    a file within a second and keeps its length must set another time (`os.utime`).
    """

    port: int
    process: subprocess.Popen[bytes]
    prefix: Path
    probe: str
    access_log: bool

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def requests(self) -> list[Answered]:
        """All requests answered so far, in order.

        A probe is sent and awaited in the log: the worker is one process and logs in the order in
        which it answers, so what was answered before the probe stands above it.
        """
        if not self.access_log:
            raise RuntimeError("this nginx was started with access_log=False")
        mark = f"{self.probe}?{secrets.token_hex(8)}"
        if _status(self.port, mark) != 204:
            raise RuntimeError(f"nginx on port {self.port} does not answer")
        deadline = time.monotonic() + _LOG_SECONDS
        while time.monotonic() < deadline:
            log = (self.prefix / "access.log").read_text(errors="backslashreplace")
            before, found, _ = log.partition(mark)
            if found:
                lines = before.split("\n")[:-1]  # the last one is the start of the probe's
                answered = (_answered(line) for line in lines)
                return [line for line in answered if not line.path.startswith(self.probe)]
            time.sleep(0.005)
        raise RuntimeError(f"nginx on port {self.port} did not log the probe {mark}")


@contextmanager
def nginx(
    root: Path, *, port: int | None = None, access_log: bool = True, extra: str = ""
) -> Iterator[Nginx]:
    """Serve `root` on loopback with nginx's own behaviour: one worker, ETag, directory redirects.

    `extra` is put into the server block. Without `port`, a free one is taken.
    """
    try:
        binary, libraries = _nginx_binary()
    except UnavailableError as error:
        absent(f"nginx is not available: {error}")
    with tempfile.TemporaryDirectory(prefix="smartcrawl-nginx-") as name:
        prefix = Path(name)
        # Every path in the configuration is relative to the prefix: none needs quoting.
        (prefix / "html").symlink_to(root.resolve(strict=True), target_is_directory=True)
        server = _start(binary, libraries, prefix, port, access_log, extra)
        try:
            yield server
        finally:
            stop(server.process)


def debian_docs(package: str) -> Path:
    """The directory of HTML pages in a Debian documentation package, e.g. "python3-doc".

    A package that only depends on the real one is followed. Symbolic links to files of other
    packages (jquery.js) dangle.
    """
    try:
        tree = _unpacked(package, _html, follow=re.compile(r"-doc\b|-doc-|-html\b"))
    except UnavailableError as error:
        absent(f"{package} is not available: {error}")
    pages = _html(tree)
    if pages is None:
        raise RuntimeError(f"{tree} was changed: it holds no HTML any more; remove it")
    return pages


def absent(reason: str) -> NoReturn:
    """End the test: what it needs cannot be had, for `reason`."""
    if os.environ.get("SMARTCRAWL_REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


# Start and stop


def _start(
    binary: Path, libraries: str, prefix: Path, port: int | None, access_log: bool, extra: str
) -> Nginx:
    environment = dict(os.environ)
    if libraries:
        environment["LD_LIBRARY_PATH"] = libraries
    probe = f"/.probe-{secrets.token_hex(8)}"
    for attempt in range(5):
        chosen = port or _free_port()
        (prefix / "nginx.conf").write_text(
            _CONFIGURATION.format(
                user="user root;" if os.geteuid() == 0 else "",
                log="access.log facts" if access_log else "off",
                port=chosen,
                probe=probe,
                extra=extra,
            )
        )
        with (prefix / "output").open("wb") as output:
            process = subprocess.Popen(
                [binary, "-p", f"{prefix}/", "-c", "nginx.conf"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                cwd=prefix,
            )
        try:
            if _ready(process, chosen, probe):
                return Nginx(chosen, process, prefix, probe, access_log)
        except BaseException:
            stop(process)
            raise
        stop(process)
        said = (prefix / "output").read_text(errors="replace")
        # Between choosing a free port and listening, another process may have taken it.
        if port is not None or "Address already in use" not in said or attempt == 4:
            raise RuntimeError(f"nginx did not start on port {chosen}: {said}")
    raise AssertionError


def _ready(process: subprocess.Popen[bytes], port: int, probe: str) -> bool:
    """Whether this nginx, and not another server on the port, answers before it ends."""
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        if _status(port, probe) == 204:
            return True
        time.sleep(0.01)
    return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server, by force if it does not end by itself."""
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _status(port: int, path: str) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)
    try:
        connection.request("GET", path, headers={"Connection": "close"})
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _answered(line: str) -> Answered:
    facts = json.loads(line)
    return Answered(**facts | {"if_none_match": facts["if_none_match"] or "-"})


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# What is not installed is unpacked


@cache
def nginx_lookup() -> tuple[Path, str] | UnavailableError:
    """Asked once per process: where there is no network, each attempt costs seconds."""
    installed = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if installed:
        return Path(installed), ""
    try:
        tree = _unpacked("nginx", _nginx_in, follow=re.compile(r"^nginx"), libraries=True)
    except UnavailableError as error:
        return error
    return tree / "usr/sbin/nginx", _library_path(tree)


def _nginx_binary() -> tuple[Path, str]:
    """nginx and the LD_LIBRARY_PATH that it needs."""
    found = nginx_lookup()
    if isinstance(found, UnavailableError):
        raise found
    return found


def _nginx_in(tree: Path) -> Path | None:
    binary = tree / "usr/sbin/nginx"
    return binary if binary.is_file() else None


def _html(tree: Path) -> Path | None:
    docs = tree / "usr/share/doc"
    indexes = sorted(docs.glob("*/html/index.html")) or sorted(docs.glob("*/manual/en/index.html"))
    return indexes[0].parent.resolve() if indexes else None


def _library_path(tree: Path) -> str:
    """The directories of shared libraries in an unpacked tree, "" when it has none."""
    return ":".join(sorted({str(path.parent) for path in tree.glob("**/*.so.*")}))


def _missing_libraries(binary: Path, tree: Path) -> list[str]:
    ldd = subprocess.run(
        ["ldd", binary],
        env=os.environ | {"LD_LIBRARY_PATH": _library_path(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    return re.findall(r"^\s*(\S+) => not found", ldd.stdout, re.MULTILINE)


def cache_folder() -> Path:
    """Where what is fetched is kept."""
    named = os.environ.get("SMARTCRAWL_TEST_CACHE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "smartcrawl-tests"


def release() -> str:
    """Distribution, version and machine: a home directory may be seen by several of them."""
    try:
        about = platform.freedesktop_os_release()
    except OSError as error:
        raise UnavailableError(f"this system does not name itself: {error}") from error
    return f"{about['ID']}-{about.get('VERSION_ID', 'unstable')}-{platform.machine()}"


def _unpacked(
    package: str,
    wanted: Callable[[Path], Path | None],
    *,
    follow: re.Pattern[str],
    libraries: bool = False,
) -> Path:
    """The tree of a Debian package, fetched at first use by one process and complete or absent.

    `wanted` finds in a tree what the package is fetched for. While it does not, dependencies whose
    name matches `follow` are added; `libraries` adds those whose shared libraries are missing.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", package):
        raise ValueError(f"not a Debian package name: {package!r}")
    try:
        base = cache_folder().absolute() / release()
        base.mkdir(parents=True, exist_ok=True)
        tree = base / package
        with (base / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if tree.exists():
                return tree
            part = base / f"{package}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            _fill(part, package, wanted, follow, libraries=libraries, apt=_Apt.below(base / "apt"))
            return part.rename(tree)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(str(error)) from error


def _fill(
    part: Path,
    package: str,
    wanted: Callable[[Path], Path | None],
    follow: re.Pattern[str],
    *,
    libraries: bool,
    apt: "_Apt",
) -> None:
    queue, seen = [package], {package}
    shared: list[str] = []

    def unpack(name: str) -> None:
        apt.unpack(name, part)
        for each in apt.depends(name):
            # libc belongs to the system's loader and cannot be replaced by LD_LIBRARY_PATH.
            if each in seen or re.match(r"libc6|libgcc", each):
                continue
            seen.add(each)
            if follow.search(each):
                queue.append(each)
            elif re.match(r"lib|zlib", each):
                shared.append(each)

    while (found := wanted(part)) is None:
        if not queue:
            raise UnavailableError(f"{package} and what it depends on do not hold what is wanted")
        unpack(queue.pop(0))
    while libraries and (missing := _missing_libraries(found, part)):
        if not shared:
            raise UnavailableError(f"{found.name} lacks {', '.join(missing)}")
        unpack(shared.pop(0))


@dataclass(frozen=True, slots=True)
class _Apt:
    """apt with the system's sources and keys, but with a state and a cache of its own."""

    home: Path

    @classmethod
    def below(cls, home: Path) -> "_Apt":
        if not (shutil.which("apt-get") and shutil.which("dpkg")):
            raise UnavailableError("it is not installed, and there is no apt-get to fetch it with")
        (home / "state/lists/partial").mkdir(parents=True, exist_ok=True)
        (home / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
        # The hooks of a system's configuration clear caches and refresh catalogues outside `home`.
        (home / "apt.conf").write_text(
            f'Dir::State "{home}/state";\n'
            f'Dir::Cache "{home}/cache";\n'
            'Acquire::Languages "none";\n'
            'APT::Sandbox::User "root";\n'  # _apt may not enter a home directory
            "#clear APT::Update::Pre-Invoke;\n"
            "#clear APT::Update::Post-Invoke;\n"
            "#clear APT::Update::Post-Invoke-Success;\n"
        )
        apt = cls(home)
        # Not checked: one source of many may fail, and what counts is whether the download works.
        apt.run("apt-get", "update", check=False)
        return apt

    def run(
        self, program: str, *arguments: str, check: bool = True, cwd: Path | None = None
    ) -> str:
        # "-c" is read after the system's configuration, APT_CONFIG before it.
        done = subprocess.run(
            [program, "-q", "-c", str(self.home / "apt.conf"), *arguments],
            cwd=cwd or self.home,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_APT_SECONDS,
            check=False,
        )
        if check and done.returncode:
            raise UnavailableError(f"{program} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def unpack(self, package: str, tree: Path) -> None:
        with tempfile.TemporaryDirectory(dir=self.home) as name:
            self.run("apt-get", "download", package, cwd=Path(name))
            for archive in Path(name).glob("*.deb"):
                subprocess.run(
                    ["dpkg", "-x", archive, tree], check=True, capture_output=True, text=True
                )

    def depends(self, package: str) -> list[str]:
        listed = self.run("apt-cache", "depends", "--important", package)
        return re.findall(r"Depends: ([a-z0-9][a-z0-9+.-]+)$", listed, re.MULTILINE)
