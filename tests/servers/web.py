"""nginx, as installed or unpacked from Debian."""

import http.client
import json
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.servers.cache import UnavailableError, absent
from tests.servers.debian import debian_program
from tests.servers.processes import free_port, stop

_START_SECONDS = 60
_LOG_SECONDS = 60

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
    {beside}
}}
"""


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
    root: Path,
    *,
    port: int | None = None,
    access_log: bool = True,
    extra: str = "",
    beside: str = "",
) -> Iterator[Nginx]:
    """Serve `root` on loopback with nginx's own behaviour: one worker, ETag, directory redirects.

    `extra` is put into the server block, `beside` after it. Without `port`, a free one is taken.
    """
    try:
        binary, libraries = _nginx_binary()
    except UnavailableError as error:
        absent(f"nginx is not available: {error}")
    with tempfile.TemporaryDirectory(prefix="smartcrawl-nginx-") as name:
        prefix = Path(name)
        # Every path in the configuration is relative to the prefix: none needs quoting.
        (prefix / "html").symlink_to(root.resolve(strict=True), target_is_directory=True)
        blocks = {"extra": extra, "beside": beside}
        server = _start((binary, libraries), prefix, port, access_log, blocks)
        try:
            yield server
        finally:
            stop(server.process)


# Start and stop


def _start(
    program: tuple[Path, str],
    prefix: Path,
    port: int | None,
    access_log: bool,
    blocks: Mapping[str, str],
) -> Nginx:
    binary, libraries = program
    environment = dict(os.environ)
    if libraries:
        environment["LD_LIBRARY_PATH"] = libraries
    probe = f"/.probe-{secrets.token_hex(8)}"
    for attempt in range(5):
        chosen = port or free_port()
        (prefix / "nginx.conf").write_text(
            _CONFIGURATION.format(
                user="user root;" if os.geteuid() == 0 else "",
                log="access.log facts" if access_log else "off",
                port=chosen,
                probe=probe,
                **blocks,
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


@cache
def nginx_lookup() -> tuple[Path, str] | UnavailableError:
    """Asked once per process: where there is no network, each attempt costs seconds."""
    return debian_program("nginx", "usr/sbin/nginx", "^nginx")


def _nginx_binary() -> tuple[Path, str]:
    """nginx and the LD_LIBRARY_PATH that it needs."""
    found = nginx_lookup()
    if isinstance(found, UnavailableError):
        raise found
    return found
