"""Apache httpd of Debian, unpacked without root, with mod_deflate and mod_brotli."""

import http.client
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.servers.cache import UnavailableError, absent
from tests.servers.debian import library_path, unpacked
from tests.servers.processes import free_port, stop

_START_SECONDS = 60
_BINARY = "usr/sbin/apache2"
_MODULES = "usr/lib/apache2/modules"
_CONFIGURATION = """\
ServerRoot "{prefix}"
{modules}
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
PidFile "{prefix}/httpd.pid"
ErrorLog "{prefix}/error.log"
DefaultRuntimeDir "{prefix}"
Mutex file:{prefix}
{user}
DocumentRoot "{root}"
DirectoryIndex index.html
AddType text/html .html
FileETag {tags}
<Directory "{root}">
  Require all granted
</Directory>
AddOutputFilterByType {coding} text/html
"""
_LOADED = ("mpm_event", "authz_core", "dir", "filter", "mime")
_NAMES = {"DEFLATE": "deflate", "BROTLI_COMPRESS": "brotli"}


@contextmanager
def apache(
    pages: Mapping[str, str], *, coding: str, tags: str = "MTime Size"
) -> Iterator[tuple[str, Path]]:
    """Serve `pages` (by file name) on loopback, coded by a filter of httpd.

    `coding` is the filter: DEFLATE or BROTLI_COMPRESS. `tags` are the attributes of a file that
    make its ETag. Yields the address and the folder.
    """
    found = _lookup()
    if isinstance(found, UnavailableError):
        absent(f"Apache is not available: {found}")
    tree, libraries = found
    with tempfile.TemporaryDirectory(prefix="smartcrawl-apache-") as name:
        prefix, port = Path(name), free_port()
        root = prefix / "html"
        root.mkdir()
        for page, text in pages.items():
            (root / page).write_text(text)
        lines = [
            f'LoadModule {each}_module "{tree / _MODULES}/mod_{each}.so"'
            for each in (*_LOADED, _NAMES[coding])
        ]
        (prefix / "mime.types").write_text("text/html html\n")
        (prefix / "httpd.conf").write_text(
            _CONFIGURATION.format(
                prefix=prefix,
                modules="\n".join([*lines, f'TypesConfig "{prefix}/mime.types"']),
                port=port,
                root=root,
                coding=coding,
                tags=tags,
                user="User nobody" if os.geteuid() == 0 else "",
            )
        )
        prefix.chmod(0o755)  # its workers are not root
        with (prefix / "output").open("wb") as output:
            process = subprocess.Popen(
                [tree / _BINARY, "-X", "-f", str(prefix / "httpd.conf")],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=os.environ | {"LD_LIBRARY_PATH": libraries},
            )
        try:
            _await(process, port, prefix)
            yield f"http://127.0.0.1:{port}/", root
        finally:
            stop(process)


def _await(process: subprocess.Popen[bytes], port: int, prefix: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_START_SECONDS)
        try:
            connection.request("HEAD", "/")
            connection.getresponse()
            return
        except (OSError, http.client.HTTPException):
            time.sleep(0.02)
        finally:
            connection.close()
    said = [path.read_text(errors="replace") for path in prefix.glob("[eo][ru]*")]
    raise RuntimeError(f"Apache did not start: {' '.join(said)}")


@cache
def _lookup() -> tuple[Path, str] | UnavailableError:
    """The tree with httpd and its libraries; asked once per process."""
    try:
        tree = unpacked("apache2", _in, follow=re.compile(r"^apache2-bin$"), libraries=True)
    except UnavailableError as error:
        return error
    return tree, library_path(tree)


def _in(tree: Path) -> Path | None:
    binary = tree / _BINARY
    return binary if binary.is_file() and shutil.which(str(binary)) else None
