"""A month of forty sources of real documentation, operated by the units of the timers alone.

nginx serves 36 sites, and four folders are read. Each simulated night runs what the timers of
deploy/systemd start, and the backup of docs/operations/backup.md, as processes whose clock
is moved. Sites change, answer 500, hang, forbid all, or are away; nginx stops, processes are
killed, a disk fills, a folder is not mounted, and a receiver of notices is away. Each event has to
be seen by the check or a notice, and its end, too. `pytest -s` prints the table.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import apsw
import pytest

from tests import servers
from tests.lab.month import Event, Night, fill_disk, judged_events, note, small_disk, table
from tests.lab.receivers import Hook, hook
from tests.servers.processes import end_family, free_port

ROOT = Path(__file__).resolve().parents[2]
UNITS = ROOT / "deploy" / "systemd"
PROGRAM = "/opt/smartcrawl/.venv/bin/smartcrawl"  #: in the units
DOCS = Path("/usr/share/doc")
NIGHTS, WEB, FOLDERS = 31, 36, 4
FILES = 6  #: documents of a source
LIVELY = 9  #: sites with a page that changes every day, so that each night asks them
DAY = 86_400
KINDS = (".html", ".txt", ".md", ".rst")
SECONDS = 900  #: for a command; the machine may be busy
STATUSES = (0, 4, 3, 1)  #: of due, from the best to the worst


def documentation() -> list[list[Path]]:
    """Documents of Debian's packages, by source: all of a source are of one package."""
    packages = []
    for package in sorted(DOCS.glob("*/")):
        found = [
            path
            for path in sorted(package.rglob("*"))
            if path.suffix in KINDS and path.is_file() and 1_000 < path.stat().st_size < 40_000
        ]
        packages.append([found[at : at + FILES] for at in range(0, len(found) - 2, FILES)])
    sources = [one for one in chain(*zip_longest(*packages)) if one]
    # Pages first: of them are the sites that change every day.
    return sorted(sources, key=lambda files: files[-1].suffix != ".html")[: WEB + FOLDERS]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, which can be filled."""
    with small_disk(tmp_path / "disk", "96m") as place:
        yield place


class Unit:
    """A service of deploy/systemd."""

    def __init__(self, name: str, instance: str = "") -> None:
        text = (UNITS / name).read_text()
        self.commands = [
            line.lstrip("-").replace("%i", instance).replace("$$", "$")
            for line in re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
        ]
        well = re.search(r"^SuccessExitStatus=(.+)$", text, re.MULTILINE)
        self.good = {0, *map(int, well[1].split() if well else ())}
        self.on_failure = "OnFailure=smartcrawl-failed@%n.service" in text


class Month:
    """The sites, the folders, the machine with its timers, and the receivers."""

    def __init__(self, root: Path, disk: Path, ops: Hook, editors: Hook) -> None:
        self.root, self.disk, self.ops, self.editors = root, disk, ops, editors
        self.day = 0
        self.begun = time.time() // DAY * DAY - NIGHTS * DAY
        self.ahead = self.begun - time.time()  #: seconds from the clock to that of the month
        self.taken = {"ops": 0, "editors": 0}
        self.days: list[Night] = []
        self.failures: list[str] = []  #: what the journal has of failed units
        self.port = free_port()
        self.web = ExitStack()
        for name in ("www", "faults", "etc", "backup", "journal"):
            (root / name).mkdir()
        # Connections of a site that hangs wait here until this process takes them.
        self.hanging = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.environment = {
            **{name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ},
            "DATA_DIR": str(disk / "data"),
            "SOURCES_FILE": str(root / "etc" / "sources.toml"),
            "HOOK_SECRET": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        }
        docs = documentation()
        tables = [self._site(at, files) for at, files in enumerate(docs[:WEB])]
        tables += [self._folder(at, files) for at, files in enumerate(docs[WEB:])]
        (root / "etc" / "sources.toml").write_text("".join(tables))
        (root / "etc" / "smartcrawl.toml").write_text(
            '[settings]\nALLOW_NETWORKS = ["127.0.0.0/8"]\nDOWNLOAD_TIMEOUT = 10\n'
            f"RETRY_TIMES = 0\nALLOW_PORTS = [{self.port}, {ops.url.split(':')[2].split('/')[0]},"
            f" {editors.url.split(':')[2].split('/')[0]}]\n"
            f'[notify.ops]\nwebhook = "{ops.url}"\nsecret = "HOOK_SECRET"\nevents = '
            '["run.incomplete", "removal.waiting", "source.stale", "source.recovered"]\n'
            f'[notify.editors]\nwebhook = "{editors.url}"\nsecret = "HOOK_SECRET"\n'
            'events = ["changes"]\nmin_share = 0.05\n'
        )

    # The sites

    def address(self, at: int) -> str:
        """The host of a site."""
        return f"127.0.1.{at + 1}"

    def url(self, at: int, path: str) -> str:
        """The address of a page."""
        return f"http://{self.address(at)}:{self.port}/{path}"

    def pages(self, source: str) -> list[Path]:
        """The documents of a source."""
        return sorted(path for path in (self.root / "www" / source).iterdir() if "-" in path.name)

    def write(self, path: Path, text: str) -> None:
        """Write a document, with the time that it is in the month."""
        path.write_text(text)
        at = self.begun + self.day * DAY
        os.utime(path, (at, at))

    def _site(self, at: int, files: list[Path]) -> str:
        self._copy(f"web{at:02}", files)
        self.index(at)
        host = re.escape(f"{self.address(at)}:{self.port}")
        return (
            f"[sources.web{at:02}]\nseeds = ['{self.url(at, '')}']\nmax_age = {3 * DAY}\n"
            f"url_patterns = ['^http://{host}/([0-9]+-[^/]*)?$']\n"
        )

    def _folder(self, at: int, files: list[Path]) -> str:
        folder = self._copy(f"folder{at}", files)
        return f"[sources.folder{at}]\nkind = 'files'\nroot = '{folder}'\nmax_age = {3 * DAY}\n"

    def _copy(self, source: str, files: list[Path]) -> Path:
        folder = self.root / "www" / source
        folder.mkdir()
        for number, file in enumerate(files):
            self.write(folder / f"{number}-{file.name}", file.read_text("utf-8", "replace"))
        return folder

    def index(self, at: int) -> None:
        """Write the start page of a site."""
        names = [path.name for path in self.pages(f"web{at:02}")]
        links = "".join(f'<li><a href="{name}">{name}</a></li>' for name in names)
        page = f"<title>Documentation {at}</title><ul>{links}</ul>"
        self.write(self.root / "www" / f"web{at:02}" / "index.html", page)

    def serve(self) -> None:
        """Start nginx, one server for each site."""
        names = [f"web{at:02}" for at in range(WEB)]
        faults = self.root / "faults"
        blocks = "".join(
            f"server {{ listen {self.address(at)}:{self.port}; root {self.root}/www/{name};\n"
            "charset utf-8; index index.html;\n"
            f"if (-f {faults}/{name}.500) {{ return 500; }}\n"
            f"if (-f {faults}/{name}.403) {{ return 403; }}\n"
            f"if (-f {faults}/{name}.away) {{ return 444; }}\n"
            f"location / {{ if (-f {faults}/{name}.hangs) {{ proxy_pass http://127.0.0.1:"
            f"{self.hanging.getsockname()[1]}; }} }} }}\n"
            for at, name in enumerate(names)
        )
        server = servers.nginx(self.root / "www", port=self.port, access_log=False, beside=blocks)
        self.web.enter_context(server)

    # The machine

    def run(self, *words: str, at: float | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of smartcrawl; ``at``: seconds of the day."""
        return self._run([sys.executable, "-m", "smartcrawl", *words], at)

    def _run(self, command: list[str], at: float | None) -> subprocess.CompletedProcess[str]:
        with closing(_Command(self._begin(command, at))) as begun:
            return begun.ended()

    def _begin(self, command: list[str], at: float | None) -> "subprocess.Popen[str]":
        if at is not None:  # never back: a command may have taken longer than until the next timer
            self.ahead = max(self.ahead, self.begun + self.day * DAY + at - time.time())
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=self.environment | servers.moved_clock(time.time() + self.ahead),
        )

    def start(
        self, name: str, at: float, instance: str = "", killed_by: Callable[[], None] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Do as systemd at a time of the day; ``killed_by`` waits for the time of a SIGKILL."""
        unit = Unit(name, instance)
        for line in unit.commands:
            if line.startswith("/bin/sh"):  # the line for the journal
                continue
            program, *words = line.split()
            assert program == PROGRAM, line
            begun = _Command(self._begin([sys.executable, "-m", "smartcrawl", *words], at))
            with closing(begun):
                if killed_by is not None:
                    killed_by()
                    begun.kill()
                done = begun.ended()
            journal = self.root / "journal" / f"{self.day:02}-{name}"
            journal.write_text(f"{journal.read_text() if journal.exists() else ''}{done.stderr}")
        if done.returncode not in unit.good and unit.on_failure:
            said = (done.stderr.strip().splitlines() or [""])[-1]
            self.failures.append(f"night {self.day}: {name} {done.returncode}: {said}")
            self.start("smartcrawl-failed@.service", at, name)
        return done

    def night(self, killed_by: Callable[[], None] | None = None) -> Night:
        """Do what the timers do at night: what is due, the check, and the backup."""
        for at in range(LIVELY):
            live = self.pages(f"web{at:02}")[-1]
            kept = re.sub(r"\nLast looked at on day .*", "", live.read_text())
            self.write(live, f"{kept}\nLast looked at on day {self.day}.")
        due = self.start("smartcrawl-due.service", 2 * 3_600, killed_by=killed_by)
        check = self.start("smartcrawl-check.service", 2 * 3_600 + 1_200)
        rows = []
        if check.returncode in (1, 2):
            found = self.run("status", "--check", "--format", "json")
            rows = json.loads(found.stdout)["sources"]
        backup = self.root / "backup" / f"docs-{self.day % 7}.db"
        kept = self.run("backup", "--snapshots", str(backup), at=3 * 3_600)
        if kept.returncode:
            self.failures.append(f"night {self.day}: backup {kept.returncode}: {kept.stderr}")
        reasons = {one["source"]: one["reasons"] for one in rows if one["level"] == "alarm"}
        line = (check.stdout.strip() or check.stderr.strip()).splitlines()[-1]
        news = self._news("ops"), self._news("editors")
        self.days.append(Night(due.returncode, check.returncode, line, reasons, *news))
        return self.days[-1]

    def _news(self, name: str) -> list[dict[str, Any]]:
        receiver: Hook = getattr(self, name)
        if receiver.status != 204:
            self.taken[name] = len(receiver.taken)
            return []
        new = [json.loads(body) for _, body in receiver.taken[self.taken[name] :]]
        self.taken[name] = len(receiver.taken)
        return new

    def rows(self, statement: str) -> list[Any]:
        """Rows of the registry."""
        with closing(apsw.Connection(str(self.disk / "data" / "registry.db"))) as connection:
            return connection.execute(statement).fetchall()


class _Command:
    """A command that runs, and ends with the test."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ended(self) -> subprocess.CompletedProcess[str]:
        """What it printed, and its status."""
        out, err = self._process.communicate(timeout=SECONDS)
        return subprocess.CompletedProcess(self._process.args, self._process.returncode, out, err)

    def kill(self) -> None:
        """Kill it with the processes that it started, as a machine that stops."""
        end_family(self._process)

    def close(self) -> None:
        """End it, where it runs."""
        if self._process.poll() is None:
            self.kill()


def events(month: Month) -> list[Event]:
    """What happens, by day."""
    faults, disk = month.root / "faults", month.disk

    def fault(kind: str, *places: int) -> tuple[Callable[[], None], Callable[[], None]]:
        files = [faults / f"web{at:02}.{kind}" for at in places]
        return (
            lambda: [file.touch() for file in files] and None,
            lambda: [file.unlink() for file in files] and None,
        )

    def rewrite() -> None:
        text = "An entirely new introduction. " * 60
        month.write(month.pages("web00")[0], f"<title>Rewritten</title><p>{text}</p>")

    def remove() -> None:
        month.pages("web01")[0].unlink()

    def edit_folder() -> None:
        first, second, *_ = month.pages("folder1")
        text = f"<p>{'Words of a new part. ' * 80}</p>\n"
        month.write(first, f"{first.read_text('utf-8', 'replace')}\n{text}")
        second.unlink()

    def move(source: str, there: str) -> Callable[[], None]:
        return lambda: (month.root / "www" / source).rename(month.root / "www" / there) and None

    def close() -> None:
        month.ops.status = 503
        fault("500", 2)[0]()

    def open_again() -> None:
        month.ops.status = 204
        fault("500", 2)[1]()

    rewritten, edited = month.pages("web00")[0], month.pages("folder1")[0]
    return [
        Event("a page is rewritten", "web00", 2, None, rewrite, page=month.url(0, rewritten.name)),
        Event("a page is deleted", "web01", 2, None, remove),
        Event("all pages answer 500", "web02", 4, 6, *fault("500", 2)),
        Event("no page answers in time", "web03", 6, 8, *fault("hangs", 3)),
        Event("a wall answers 403", "web04", 8, 11, *fault("403", 4)),
        Event("three hosts are away", "web05", 10, 15, *fault("away", 5, 6, 7)),
        Event("files are edited and deleted", "folder1", 12, None, edit_folder, page=str(edited)),
        Event("the processes are killed", "web08", 16, 17, *fault("hangs", 8)),
        Event("the disk fills", "web00", 19, 20,
              partial(fill_disk, disk), (disk / "filler").unlink),
        Event("a folder is not mounted", "folder0", 22, 24,
              move("folder0", "elsewhere"), move("elsewhere", "folder0")),
        Event("the receiver of notices is away", "web02", 26, 28, close, open_again),
        Event("the network is away", "web06", 29, 30, month.web.close, month.serve),
    ]  # fmt: skip


def forget_hanging(month: Month) -> None:
    """Take the connections of nights before."""
    month.hanging.settimeout(0)
    with suppress(BlockingIOError):
        while True:
            month.hanging.accept()[0].close()


def killing_time(month: Month) -> None:
    """Wait until a site hangs: its crawl is under way then."""
    month.hanging.settimeout(SECONDS)
    waiting, _ = month.hanging.accept()
    with waiting:
        time.sleep(1)  # others write their batches


@pytest.mark.long
@pytest.mark.sqlite
def test_forty_sources_are_operated_for_a_month_by_the_units_of_the_timers(
    tmp_path: Path, disk: Path
):
    if len(documentation()) < WEB + FOLDERS:
        pytest.skip(f"{DOCS} has too few documents")
    with hook() as ops, hook() as editors, ExitStack() as stack:
        month = Month(tmp_path, disk, ops, editors)
        stack.enter_context(month.hanging)
        stack.callback(month.web.close)
        month.serve()
        planned = events(month)
        for month.day in range(NIGHTS):
            for one in planned:
                if one.day == month.day:
                    one.begin()
                if one.end == month.day:
                    one.undo()
            is_fatal = any(one.day == month.day and "killed" in one.name for one in planned)
            if is_fatal:
                forget_hanging(month)
            night = month.night(partial(killing_time, month) if is_fatal else None)
            print(f"night {month.day}: due {night.due}, check {night.check}: {night.line}")
            for one in planned:
                note(one, month.day, night)
                if one.page and one.seen == month.day:
                    one.said.append(_difference(month, one))
        print(f"\n{table(planned, month.days)}", *month.failures, sep="\n")
        _judge(month, {one.name: one for one in planned})


def _difference(month: Month, event: Event) -> str:
    """The first lines that went and came, or why there are none."""
    done = month.run("diff", "--source", event.source, event.page)
    if done.returncode:
        return done.stderr.strip()
    lines = [line for line in done.stdout.splitlines() if line[:3] not in ("+++", "---")]
    found = [next((line[:60] for line in lines if line[0] == sign), "") for sign in "-+"]
    return f"diff: {' | '.join(filter(None, found))}"


def _judge(month: Month, by_name: dict[str, Event]) -> None:
    """Each event was seen, and so was its end; nothing was removed that is only away."""
    said = judged_events(by_name, "the processes are killed", "the network is away")
    assert "new introduction" in said["a page is rewritten"]
    assert "the process of its last run died" in said["the processes are killed"]
    full = by_name["the disk fills"]
    assert (full.seen, full.over) == (full.day, full.end)
    assert month.rows(
        "SELECT s.name FROM evidence e JOIN source s ON s.no = e.source ORDER BY 1"
    ) == [("folder1",), ("web01",)]
    assert month.days[-1].check == 0
    _is_restored(month)


def _is_restored(month: Month) -> None:
    """The last backup is as good as the registry."""
    newest = max((month.root / "backup").glob("*.db"), key=lambda path: path.stat().st_mtime)
    month.environment["DATA_DIR"] = str(month.root / "restored")
    assert month.run("restore", str(newest)).returncode == 0
    assert "introduction" in month.run("search", "entirely new introduction").stdout
    shutil.rmtree(month.root / "restored")
