"""Mistakes get one sentence with the remedy, the right exit status, and leave nothing behind."""

import os
import re
import shlex
import shutil
import socket
import sqlite3
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from smartcrawl.registry.database.lease import FileLease
from tests.certificates import made, written
from tests.commands.mistakes import MISTAKES, ROOT, SECRET, Mistake, Place
from tests.crawls.commands import Result, Scrapy
from tests.site_server import Page, Site, html

_SHELL = re.compile(r"[|;&<>$`*(]")
_SECONDS = 60  # a command that takes longer hangs, however busy the machine is


@dataclass(frozen=True, slots=True)
class World:
    """The servers of all cases, and the data of one crawl."""

    site: Site
    data: Path
    words: dict[str, str]


@pytest.fixture(scope="module")
def world(ask: Scrapy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    with Site() as site, Site() as secure, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # without listen(): connections are refused
        certificate = made("site", hosts=("127.0.0.1",))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(written(folder, "server.pem", certificate))
        assert secure._server is not None
        secure._server.socket = context.wrap_socket(secure._server.socket, server_side=True)
        site.pages.update(
            {
                "/robots.txt": Page(
                    "User-agent: *\nDisallow: /private/\n", content_type="text/plain"
                ),
                "/": html("Lamps", "/a", "/b", text="A lamp stays dark."),
                "/a": html("Bücher", text="Bücher about lamps."),
                "/b": html("Names", text="A lamp has a name."),
                "/private/": html("Private"),
                "/login": Page("who?", status=401),
                "/broken": Page("oops", status=500),
                "/elsewhere": Page(redirect="http://other.invalid/"),
                "/empty": "",
            }
        )
        url = site.url("/")
        words = {
            "site": url,
            "port": url.rpartition(":")[2].rstrip("/"),
            "source": url.removeprefix("http://").rstrip("/"),
            "tls": secure.url("/").rpartition(":")[2].rstrip("/"),
            "closed": str(closed.getsockname()[1]),
        }
        data = folder / "project" / ".smartcrawl"
        place = Place(project(folder / "project"), data, words["source"])
        done = run(f"scrapy crawl site -a url={url}", place, words, ask)
        assert done.status == 0, done.err
        yield World(site, data, words)


def project(folder: Path) -> Path:
    folder.mkdir()
    shutil.copy(ROOT / "scrapy.cfg", folder)
    (folder / "tmp").mkdir()
    (folder / "bin").mkdir()
    ours = folder / "bin" / "smartcrawl"
    ours.write_text(f'#!/bin/sh\nexec {sys.executable} -m smartcrawl "$@"\n')
    ours.chmod(0o755)
    return folder


def run(line: str, place: Place, words: dict[str, str], ask: Scrapy) -> Result:
    """Run a line of a shell in a project, as in a clean login.

    A line that is one command of scrapy or smartcrawl and no more needs no shell.
    """
    commands = Path(sys.executable).parent
    environment = {
        "PATH": f"{place.folder}/bin:{commands}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(place.folder),
        "TMPDIR": str(place.folder / "tmp"),
        "LANG": "C.UTF-8",
        "AUTOTHROTTLE_ENABLED": "0",
        **{name: value.format(**words) for name, value in place.environment.items()},
    }
    line = line.format(**words, here=place.folder)
    command, _, rest = line.partition(" ")
    if command in ("scrapy", "smartcrawl") and not _SHELL.search(line):
        own = [] if command == "scrapy" else [command]
        return ask.run_in(place.folder, [*own, *shlex.split(rest)], environment)
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=place.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_SECONDS,
        check=False,
    )
    return Result(done.returncode, done.stdout, done.stderr)


def left(place: Place) -> dict[str, object]:
    """Return every file below the folder with its content, and the rows of a registry's tables."""
    found: dict[str, object] = {}
    for path in sorted(place.folder.rglob("*")):
        name = path.relative_to(place.folder).as_posix()
        content = path.read_bytes() if path.is_file() else b""
        if content.startswith(b"SQLite"):
            found |= {f"{name}: {table}": content for table, content in rows(path).items()}
        else:
            found[name] = content
    return found


def rows(path: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    tables = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
            " AND name NOT LIKE 'sqlite_%' AND name <> 'store'"  # a copy notes its new place
        )
    ]
    found = {name: connection.execute(f"SELECT * FROM '{name}'").fetchall() for name in tables}
    connection.close()
    return found


def message(err: str) -> list[str]:
    """The lines of a message, without the usage that argparse prints before it."""
    if err.lower().startswith("usage"):
        err = err[err.index("error: ") :]
    return err.splitlines()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a mistake."""

    status: int
    out: str
    err: str
    before: dict[str, object]
    after: dict[str, object]
    leased: list[str]  #: sources that a process seems to crawl

    def __str__(self) -> str:
        return f"status {self.status}\n{self.out}\n--- stderr\n{self.err}"


def outcome(mistake: Mistake, world: World, folder: Path, ask: Scrapy) -> Outcome:
    """Make one mistake in a project of its own."""
    place = Place(project(folder), world.data, world.words["source"])
    if mistake.given is not None:
        mistake.given(place)
    before = left(place)
    result = run(mistake.line, place, world.words, ask)
    for end in place.ends:
        end()
    leased = FileLease.leased(place.data / "leases")
    return Outcome(result.status, result.out, result.err, before, left(place), leased)


@pytest.mark.long(but=8)
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_gets_a_sentence_and_leaves_nothing(
    mistake: Mistake, world: World, tmp_path: Path, ask: Scrapy
):
    if (
        "unshare" in mistake.line
        and subprocess.run(["unshare", "-rm", "true"], check=False).returncode
    ):
        pytest.skip("this machine permits no private mount, so a disk cannot be filled")
    found = outcome(mistake, world, tmp_path / "project", ask)

    report = f"{mistake.line}\n{found}"
    if os.environ.get("SHOW"):
        print("=====", mistake.name, "|", report)
    both = found.out + found.err
    assert found.status == mistake.status, report
    assert not re.search("Traceback|Exception ignored", both), report
    assert SECRET not in both, report
    assert mistake.lacks not in both, report
    assert not found.leased, report
    for words in (*mistake.says, *mistake.remedy):
        assert words.format(**world.words) in both, f"{words} is missing: {report}"
    assert "tmp/" not in " ".join(found.after), "a temporary file is left"
    if not mistake.leaves:
        assert len(message(found.err)) <= mistake.lines, report
        names = found.before.keys() | found.after.keys()
        changed = [name for name in names if found.before.get(name) != found.after.get(name)]
        assert not changed, f"{changed} changed: {report}"
