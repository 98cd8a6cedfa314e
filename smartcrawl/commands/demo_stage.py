"""The stages of the demo: its site, its shell, and the steps that are shown."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from textwrap import fill
from typing import Any, Final, Protocol
from urllib.parse import urlsplit
from xml.sax.saxutils import escape

from rich.console import Console
from rich.text import Text

from smartcrawl.commands.crawl_words import command_line_of_crawl
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.settings_table import SETTINGS
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.reports.tables import run_table_report
from smartcrawl.terminal.output import printed_json

LOOPBACK: Final = "127.0.0.1"
EDITED, ADDED, DELETED = "/baking.html", "/recipes/focaccia.html", "/recipes/pizza.html"

_FOLDER: Final = "demo_site"  #: beside this module; its folders are ``first`` and ``second``
_FIRST: Final = datetime(2025, 3, 3, 8, 0, tzinfo=UTC)  #: Last-Modified of the first pages
_SECOND: Final = datetime(2025, 3, 10, 8, 0, tzinfo=UTC)  #: Last-Modified after the edit
_TYPES: Final = {".html": "text/html; charset=utf-8", ".md": "text/markdown; charset=utf-8"}
_IDLE_SECONDS: Final = 30  #: after which a connection without a request is closed
_POLL_SECONDS: Final = 0.05


class DemoError(SmartcrawlError):
    """The demo could not be carried out."""


@dataclass(frozen=True, slots=True)
class Document:
    """A page of the site, with its validators."""

    body: bytes
    media_type: str
    modified: datetime

    @property
    def etag(self) -> str:
        """A strong validator, made of the body."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:16]}"'

    def is_known_to(self, etags: str | None, since: str | None) -> bool:
        """Whether a client with these validators has this version (RFC 9110, 13.2.2)."""
        if etags is not None:
            return self.etag in [tag.strip().removeprefix("W/") for tag in etags.split(",")]
        if since is None:
            return False
        try:
            return self.modified <= parsedate_to_datetime(since)
        except (TypeError, ValueError):  # no date, or one without a time zone
            return False


class Site:
    """The pages by path, and the number of answers by status.

    ``sitemap``: whether robots.txt names one; it alone leads to one of the pages.
    """

    def __init__(self, *, sitemap: bool = True) -> None:
        """Read the first version of each page."""
        self._named = sitemap
        self.base = ""  #: the address of the server, without a slash at its end
        self.pages: dict[str, Document] = {}
        self.answers: Counter[int] = Counter()  #: to requests for pages
        self._read("first", _FIRST)

    def change(self) -> None:
        """Edit a page, add one, and delete one."""
        self._read("second", _SECOND)
        del self.pages[DELETED]

    def find(self, path: str) -> Document | None:
        """Return the document of a path, or None if there is none."""
        match path:
            case "/robots.txt":
                sitemap = f"\nSitemap: {self.base}/sitemap.xml\n" if self._named else ""
                rules = f"User-agent: *\nDisallow: /drafts/\n{sitemap}"
                return Document(rules.encode(), "text/plain; charset=utf-8", _FIRST)
            case "/sitemap.xml":
                return self._sitemap()
            case _:
                return self.pages.get(path)

    def _read(self, version: str, modified: datetime) -> None:
        for path, body in _documents(files(__package__) / _FOLDER / version, ""):
            suffix = path[path.rindex(".") :]
            address = "/" if path == "/index.html" else path
            self.pages[address] = Document(body, _TYPES[suffix], modified)

    def _sitemap(self) -> Document:
        entries = "".join(
            f"  <url><loc>{escape(self.base + path)}</loc>"
            f"<lastmod>{page.modified.isoformat()}</lastmod></url>\n"
            for path, page in sorted(self.pages.items())
        )
        text = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{entries}</urlset>\n'
        )
        modified = max(page.modified for page in self.pages.values())
        return Document(text.encode(), "application/xml", modified)


@contextmanager
def serving_demo_site(site: Site, host: str = LOOPBACK, port: int = 0) -> Iterator[str]:
    """Serve a site, and yield its address; port 0: any free one.

    Raises:
        DemoError: no port could be opened.
    """
    try:
        server = _Server((host, port), partial(_Handler, site))
    except OSError as error:
        raise DemoError(
            f"cannot start a web server on {host}: {error.strerror or error}. The demo "
            "needs one free port of the loopback interface; check that it is up (ip link "
            "set lo up)"
        ) from error
    with server:
        site.base = f"http://{host}:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
        thread.start()
        try:
            yield f"{site.base}/"
        finally:
            server.shutdown()
            thread.join()


def _documents(folder: Traversable, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the body of each file in a folder, also in folders below it."""
    for entry in folder.iterdir():
        below = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _documents(entry, below)
        else:
            yield below, entry.read_bytes()


class _Server(ThreadingHTTPServer):
    def server_bind(self) -> None:
        """Bind the port, without the look-up of a name that the base class makes."""
        socketserver.TCPServer.server_bind(self)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that went away; its command reports the failure."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS

    def __init__(self, site: Site, *args: object) -> None:
        self._site = site
        super().__init__(*args)  # type: ignore[arg-type]  # as the server passes them

    def do_GET(self) -> None:  # the base class calls it
        """Answer with 200, 304 or 404."""
        path = urlsplit(self.path).path
        document = self._site.find(path)
        if document is None:
            self._answer(path, HTTPStatus.NOT_FOUND, b"not here\n")
            return
        known = document.is_known_to(
            self.headers["If-None-Match"], self.headers["If-Modified-Since"]
        )
        status = HTTPStatus.NOT_MODIFIED if known else HTTPStatus.OK
        self._answer(path, status, b"" if known else document.body, document)

    def _answer(
        self, path: str, status: HTTPStatus, body: bytes, document: Document | None = None
    ) -> None:
        if path not in ("/robots.txt", "/sitemap.xml"):
            self._site.answers[status] += 1
        self.send_response(status)
        if document is not None:
            self.send_header("Content-Type", document.media_type)
            self.send_header("ETag", document.etag)
            self.send_header("Last-Modified", format_datetime(document.modified, usegmt=True))
        if status != HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # of the base class
        """Log no request: the commands report them."""


Words = tuple[str, ...]  #: a command and its arguments, as typed after ``smartcrawl``

PROJECT: Final = "[settings]\ndefault = smartcrawl.settings\n"  #: scrapy.cfg of the folder
STATE: Final = ".smartcrawl"  #: the state of the demo, below its folder
_OURS: Final = "smartcrawl"
_SCRAPYS: Final = "scrapy"
_SECONDS: Final = 120  #: a command that takes longer hangs
_PATIENCE_SECONDS: Final = 3  #: for a command that was asked to end
_ANSI: Final = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07\x1b]*(?:\x07|\x1b\\))")


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one command."""

    command: str  #: as a user types it
    status: int
    shown: str  #: its output, with the colours of a terminal if there is one
    seconds: float

    @property
    def output(self) -> str:
        """The output without colours."""
        return _ANSI.sub("", self.shown)


class Shell:
    """Runs commands by a program in ``folder``, without the user's state.

    ``called``: the program, smartcrawl or scrapy; by default the one that runs.
    """

    def __init__(
        self, folder: Path, *, columns: int, colour: bool, called: Path | None = None
    ) -> None:
        """Prepare the folder.

        Raises:
            OSError: it cannot be written.
        """
        self._folder = folder
        self._called = Path(sys.argv[0]) if called is None else called
        self._name = _name(self._called)
        self._environment = _environment(folder, columns, colour=colour)
        if self._is_file():  # messages then name it without its folder, as the demo does
            path = [str(self._called.absolute().parent), self._environment.get("PATH", os.defpath)]
            self._environment["PATH"] = os.pathsep.join(path)
        (folder / "scrapy.cfg").write_text(PROJECT, encoding="utf-8")
        for name in (STATE, "tmp"):
            (folder / name).mkdir()

    def typed(self, words: Words) -> str:
        """Return a command line as the user types it."""
        return shlex.join([self._name, *self._arguments(words)])

    def typed_elsewhere(self, words: Words) -> str:
        """Return a command line over the data of the demo that works from other folders."""
        state = self._folder / STATE
        named = ["--data-dir", str(state)] if self._name == _OURS else ["-s", f"DATA_DIR={state}"]
        return shlex.join([self._name, words[0], *named, *words[1:]])

    def run(self, words: Words) -> Answer:
        """Run a command to its end.

        It has a session of its own: a Ctrl-C reaches the demo alone, which then ends the command.

        Raises:
            DemoError: the command did not end in time.
        """
        began = time.monotonic()
        process = subprocess.Popen(  # noqa: S603  # our own program
            [*self._program(), *self._arguments(words)],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise DemoError(
                f"{self.typed(words)!r} did not end within {_SECONDS} s: try again when the"
                " computer is less busy"
            ) from error
        finally:
            _end(process)
        shown = output.decode("utf-8", errors="replace")
        return Answer(self.typed(words), process.returncode, shown, time.monotonic() - began)

    def _is_file(self) -> bool:
        return self._called.stem == self._name and self._called.is_file()

    def _program(self) -> list[str]:
        """Return the words that call the program, from any folder."""
        if self._is_file():
            return [sys.executable, str(self._called.absolute())]
        return [sys.executable, "-m", self._name]

    def _arguments(self, words: Words) -> Words:
        """Return the arguments of the program: Scrapy's crawl takes its address by -a."""
        if words[0] == "crawl" and self._name == _SCRAPYS:
            return ("crawl", *command_line_of_crawl(words[1]))
        return words


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command with all its processes; nothing happens where it ended by itself."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # also processes that read documents
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _environment(folder: Path, columns: int, *, colour: bool) -> dict[str, str]:
    """Return the environment of the commands: that of the user, without any setting of ours."""
    ours = {*SETTINGS, "SCRAPY_PROJECT", "SMARTCRAWL_DATA_DIR", "NO_COLOR", "FORCE_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    home = Path(__file__).parents[2]
    if "site-packages" not in home.parts:  # a checkout
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, [str(home), kept.get("PYTHONPATH")]))
    return kept | {
        "SCRAPY_SETTINGS_MODULE": "smartcrawl.settings",
        "LOG_LEVEL": "WARNING",  # as on a terminal
        "RENDER": "no",  # scripts write none of its pages, and a browser may not start here
        "COLUMNS": str(columns),
        "FORCE_COLOR" if colour else "NO_COLOR": "1",
        "PYTHONIOENCODING": "utf-8",
        "TMPDIR": str(folder / "tmp"),
    }


def _name(called: Path) -> str:
    """Return the name of a program."""
    name = called.parent.name if called.name == "__main__.py" else called.stem
    return _OURS if name == _OURS else _SCRAPYS


_ONLY_THERE: Final = "mozzarella"  #: a word that the deleted page alone has


@dataclass(slots=True)
class Scene:
    """The site, the registry, and the answers of the commands of the present step."""

    site: Site
    url: str  #: of the site
    registry: Path
    answers: list[Answer] = field(default_factory=list)

    def runs(self) -> list[dict[str, Any]]:
        """Return the runs, newest first."""
        with closing(registry_database(self.registry).reports()) as connection:
            return list(run_table_report(connection))

    @property
    def deleted(self) -> str:
        """The address of the page that the edit deletes."""
        return self.url + DELETED.removeprefix("/")

    def sent(self, status: int) -> int:
        """Return how many requests for pages the server answered with ``status`` in this step."""
        return self.site.answers[status]

    def finds_deleted(self) -> bool:
        """Whether the last command printed the address of the deleted page."""
        return self.deleted in self.answers[-1].output


Claims = Mapping[str, bool]  #: facts in words, and whether they are true


@dataclass(frozen=True, slots=True)
class Step:
    """One step: ``claims`` compares its answers with the facts that it explains."""

    title: str
    text: str
    commands: Callable[[Scene], Sequence[Words]]
    claims: Callable[[Scene], Claims]
    changes_site: bool = False


def _crawl(scene: Scene) -> list[Words]:
    return [("crawl", scene.url)]


def _all_new(scene: Scene) -> Claims:
    run, pages = scene.runs()[0], len(scene.site.pages)
    return {
        f"{pages} pages are new": run["complete"] and run["new"] == pages,
        "the server sent each page once": scene.sent(200) == pages,
    }


def _found(scene: Scene) -> Claims:
    return {"a hit is the page that helps": "/trouble.html" in scene.answers[-1].output}


def _all_unchanged(scene: Scene) -> Claims:
    run, pages = scene.runs()[0], len(scene.site.pages)
    return {
        f"the server answered 304 for all {pages} pages": scene.sent(304) == pages,
        "0 bytes were downloaded": run["complete"] and run["bytesDownloaded"] == 0,
    }


def _three_changes(scene: Scene) -> Claims:
    run = scene.runs()[0]
    changes = [run[word] for word in ("new", "modified", "lost", "removed")]
    return {
        "1 page is new, 1 is modified, 1 is lost, none is removed": changes == [1, 1, 1, 0],
        "the server sent 2 pages": scene.sent(200) == 2,
    }


def _still_found(scene: Scene) -> Claims:
    output = scene.answers[-1].output
    return {
        "the lost page is found, and marked": scene.finds_deleted()
        and "last visit failed" in output
    }


def _removal(scene: Scene) -> list[Words]:
    return [("crawl", scene.url), ("crawl", scene.url), ("search", _ONLY_THERE)]


def _removed_by_the_third(scene: Scene) -> Claims:
    third, second, *_ = scene.runs()
    return {
        "the second run that found it gone removed nothing": second["removed"] == 0,
        "the third run removed 1 page": third["removed"] == third["gone"] == 1,
        "search does not find it any more": not scene.finds_deleted(),
    }


def _undo(scene: Scene) -> list[Words]:
    return [("undo", str(scene.runs()[0]["run"])), ("search", _ONLY_THERE)]


def _restored(scene: Scene) -> Claims:
    return {"search finds the page again, without a request": scene.finds_deleted()}


def _story(scene: Scene) -> Claims:
    output = scene.answers[-1].output
    complete = all(word in output for word in ("discovered", "lost 404", "removed", "restored"))
    return {"the history has the discovery, the loss, the removal and the undo": complete}


STEPS: Final = (
    Step(
        "The first crawl",
        "It follows every link and the sitemap, and downloads each page once. The "
        "sitemap counts as excluded: it is read, but not indexed.",
        _crawl,
        _all_new,
    ),
    Step(
        "Search",
        "The pages are searchable at once. Records and index are one file; no service is needed.",
        lambda scene: [("search", "sticky dough")],
        _found,
    ),
    Step(
        "A refresh",
        "The same command again checks whether each page changed. The site returns 304 "
        "Not Modified, so no page is downloaded, parsed or written.",
        _crawl,
        _all_unchanged,
    ),
    Step(
        "The site changes",
        f"Now {EDITED} is edited and links to a new page, {ADDED}; {DELETED} is deleted and"
        " answers 404. The next crawl finds all three, and downloads only the pages that are new"
        " or modified.",
        _crawl,
        _three_changes,
        changes_site=True,
    ),
    Step(
        "A lost page stays",
        "A 404 may be a mistake of the site. The stored page stays searchable and is marked.",
        lambda scene: [("search", _ONLY_THERE)],
        _still_found,
    ),
    Step(
        "Removal needs evidence",
        "A page is removed when three runs in a row found it gone, and the evidence is "
        "recorded. Three is the default (LOST_THRESHOLD=3); here are the second and the "
        "third run.",
        _removal,
        _removed_by_the_third,
    ),
    Step(
        "Undo",
        "If a removal was wrong, one command brings back every page that the run "
        "removed, for 30 days.",
        _undo,
        _restored,
    ),
    Step(
        "The whole story",
        "For any address, why shows the last decision and its reason, what would remove "
        "the page, and its history.",
        lambda scene: [("why", scene.deleted)],
        _story,
    ),
)


_WIDTH: Final = 88  #: columns of the demo, at most
_INDENT: Final = 4  #: columns before the output of a command
_PAUSE_SECONDS: Final = 1.0

KEPT: Final = (
    ("search", "starter"),
    ("status",),
    ("runs",),
    ("registry",),
)  #: commands that work with the data of a demo that is over


class Stage(Protocol):
    """Shows the steps while they are carried out."""

    columns: int  #: of the output of commands
    colour: bool  #: whether commands use the colours of a terminal

    def begin(self, url: str) -> None:
        """Show where the site is."""

    def open_step(self, number: int, step: Step) -> None:
        """Show a step before its commands."""

    def type(self, command: str) -> None:
        """Show a command before it runs."""

    def answer(self, answer: Answer) -> None:
        """Show the output of a command."""

    def close_step(self, number: int, step: Step, result: Result) -> None:
        """Show the facts that were compared with the step's explanation."""

    def end(self, shell: Shell, seconds: float, folder: Path | None) -> None:
        """Show what a user may do next; ``folder``: that of the data, if it is kept."""


@dataclass(frozen=True, slots=True)
class Result:
    """The answers of a step's commands, and the facts that they show."""

    answers: Sequence[Answer]
    claims: Mapping[str, bool]


class TextStage:
    """Shows the steps to people; on a terminal it gives them time to read."""

    def __init__(self, *, pause: bool) -> None:
        """``pause``: wait for Enter after each step, where there is a terminal."""
        width = min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDTH)
        self._console = Console(width=width, highlight=False)
        self._waits = pause and sys.stdin.isatty()
        self.columns = width - _INDENT
        self.colour = self._console.is_terminal and self._console.color_system is not None

    def begin(self, url: str) -> None:
        """Show where the site is, and what the demo leaves alone."""
        text = (
            f"This demo serves a small site about bread at {url} on this computer for "
            "half a minute, and crawls it with the real commands. Their data is in a "
            "temporary folder; your data is not touched."
        )
        self._console.print(fill(text, self._console.width), markup=False)

    def open_step(self, number: int, step: Step) -> None:
        """Show the number, the title and the explanation of a step."""
        self._console.print(f"\n{number}/{len(STEPS)}  {step.title}", style="bold", markup=False)
        self._console.print(fill(step.text, self._console.width), markup=False)

    def type(self, command: str) -> None:
        """Show a command as a user types it."""
        line = Text.assemble("\n  ", ("$ ", "dim"), (command, "bold cyan"))
        self._console.print(line, soft_wrap=True)

    def answer(self, answer: Answer) -> None:
        """Show the output of a command, indented."""
        for line in Text.from_ansi(answer.shown.strip("\n")).split(allow_blank=True):
            for part in _indented(line, self._console):
                self._console.print(part, soft_wrap=True)

    def close_step(self, number: int, step: Step, result: Result) -> None:
        """Show the facts that were checked, and wait."""
        self._console.print()
        for claim, holds in result.claims.items():
            mark = ("checked: ", "green") if holds else ("not true: ", "bold red")
            self._console.print(Text.assemble("  ", mark, claim))
        if number == len(STEPS) or not self._console.is_terminal:
            return
        if self._waits:
            self._console.print(
                "\n  Press Enter to continue, Ctrl-C to end the demo ", style="dim", end=""
            )
            input()
        else:
            time.sleep(_PAUSE_SECONDS)

    def end(self, shell: Shell, seconds: float, folder: Path | None) -> None:
        """Show the time that the demo took, and the commands to try next."""
        own = shell.typed(("crawl", "https://docs.example.com/"))
        self._console.print(
            f"\nAll {len(STEPS)} steps worked as explained, in {seconds:.0f} s. Crawl a site"
            f" of your own:\n  {own}",
            soft_wrap=True,
        )
        if folder is None:
            self._console.print("The data of the demo is removed.")
            return
        self._console.print("These commands work on its data (the site itself is gone):")
        for words in KEPT:
            self._console.print(f"  {shell.typed_elsewhere(words)}", soft_wrap=True, markup=False)


class JsonStage:
    """Prints one object a line for each step, when the step is over."""

    columns = _WIDTH
    colour = False

    def __init__(self, folder: Path | None) -> None:
        """``folder``: that of the data, if it is kept."""
        self._folder = folder

    def begin(self, url: str) -> None:
        """Print nothing: each command has the address."""

    def open_step(self, number: int, step: Step) -> None:
        """Print nothing before the step is over."""

    def type(self, command: str) -> None:
        """Print nothing before the step is over."""

    def answer(self, answer: Answer) -> None:
        """Print nothing before the step is over."""

    def close_step(self, number: int, step: Step, result: Result) -> None:
        """Print the object of a step."""
        row = {
            "step": number,
            "of": len(STEPS),
            "title": step.title,
            "text": step.text,
            "commands": [
                {
                    "command": answer.command,
                    "exitStatus": answer.status,
                    "output": answer.output,
                    "seconds": round(answer.seconds, 2),
                }
                for answer in result.answers
            ],
            "checked": [{"claim": claim, "holds": holds} for claim, holds in result.claims.items()],
            "shown": all(result.claims.values()),
            "folder": None if self._folder is None else str(self._folder),
        }
        print(printed_json(row, sys.stdout), flush=True)

    def end(self, shell: Shell, seconds: float, folder: Path | None) -> None:
        """Print nothing: the objects of the steps are all."""


def _indented(line: Text, console: Console) -> Iterator[Text]:
    """Yield a line of output as lines that fit the console, each as far to the right as it was."""
    line.rstrip()
    lead = len(line.plain) - len(line.plain.lstrip())
    margin = " " * (_INDENT + lead)
    for part in line[lead:].wrap(console, max(console.width - len(margin), 20)):
        part.rstrip()
        yield Text.assemble(margin, part)
