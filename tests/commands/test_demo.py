"""`scrapy demo`: its steps, and that it leaves nothing behind, however it ends."""

import io
import json
import os
import pty
import re
import resource
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from smartcrawl.commands import demo, demo_stage
from smartcrawl.commands.demo_stage import (
    ADDED,
    DELETED,
    EDITED,
    STATE,
    DemoError,
    Document,
    Scene,
    Shell,
    Site,
    TextStage,
    serving_demo_site,
)
from tests.crawls.commands import wait_until

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120  #: a demo that takes longer hangs, however busy the machine is
TITLES = [
    "The first crawl", "Search", "A refresh", "The site changes", "A lost page stays",
    "Removal needs evidence", "Undo", "The whole story",
]  # fmt: skip


class Place:
    """A folder without a project, and the folder for temporary files that the demo uses."""

    def __init__(self, folder: Path) -> None:
        self.here, self.temporary = folder / "here", folder / "temporary"
        self.here.mkdir()
        self.temporary.mkdir()

    def start(self, *args: str, program: str = "scrapy", **more: Any) -> "subprocess.Popen[str]":
        """Start the demo, with settings of a user that it must not use."""
        return subprocess.Popen(
            [sys.executable, "-m", program, "demo", *args],
            cwd=self.here,
            env=os.environ | self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **more,
        )

    def environment(self) -> dict[str, str]:
        return {
            "SCRAPY_SETTINGS_MODULE": "smartcrawl.settings",
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            "DATA_DIR": str(self.here / "own"),
            "REGISTRY_URL": "postgresql://nowhere.invalid/none",
            "SOURCES_FILE": str(self.here / "sources.toml"),
            "LOST_THRESHOLD": "1",
        }

    def is_untouched(self) -> bool:
        return not [*self.here.iterdir(), *self.temporary.iterdir()]

    def processes(self) -> list[str]:
        return processes_in(self.temporary)


def processes_in(folder: Path) -> list[str]:
    """The numbers of the processes that work in a folder, or below it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended, or belongs to another user
            if os.readlink(process / "cwd").startswith(str(folder)):
                found.append(process.name)
    return found


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return process.returncode, out, err


def is_served(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as client:
        return client.connect_ex((parts.hostname, parts.port)) == 0


def url_in(text: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:\d+/", text)
    assert found is not None, text
    return found[0]


@pytest.mark.long
def test_every_step_shows_what_it_explains_and_nothing_is_left(place: Place) -> None:
    """Settings of the user count for nothing, and there is no project and no terminal."""
    status, out, err = ended(place.start("--format", "json", program="smartcrawl"))

    assert (status, err) == (0, "")
    steps = [json.loads(line) for line in out.splitlines()]
    assert [step["title"] for step in steps] == TITLES
    assert [(step["step"], step["of"]) for step in steps] == [(n, 8) for n in range(1, 9)]
    for step in steps:
        assert step["shown"], step
        assert step["checked"]
        assert all(check["holds"] for check in step["checked"])
        assert step["folder"] is None
        assert all(command["exitStatus"] == 0 for command in step["commands"])
    assert "\\u001b" not in out, "no colours"
    first, search, refresh, change, lost, removal, undo, why = (
        [command["output"] for command in step["commands"]] for step in steps
    )
    assert re.search(r"15 +new", first[0])
    assert "/trouble.html" in search[0]
    assert "0 B downloaded" in refresh[0]
    assert all(re.search(rf"1 +{word}", change[0]) for word in ("new", "modified", "lost"))
    assert (DELETED in lost[0], DELETED in removal[-1], DELETED in undo[-1]) == (True, False, True)
    assert "1 removed" in removal[1]
    assert "undone" in why[0]
    url = url_in(steps[0]["commands"][0]["command"])
    assert steps[0]["commands"][0]["command"] == f"smartcrawl crawl {url}"
    assert not is_served(url)
    assert place.is_untouched()
    assert place.processes() == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "program"),
    [
        (signal.SIGINT, "smartcrawl"),
        (signal.SIGINT, "scrapy"),
        (signal.SIGTERM, "smartcrawl"),
        (signal.SIGHUP, "smartcrawl"),
    ],
)
def test_a_demo_that_is_stopped_leaves_nothing_behind(
    place: Place, number: int, program: str
) -> None:
    """The signal comes while a crawl goes on; a second one does not disturb the end."""
    with place.start(program=program) as process:
        assert process.stdout is not None
        shown = "".join(process.stdout.readline() for _ in range(8))
        wait_until(place.processes, "a crawl goes on")
        wait_until(lambda: [*place.temporary.glob("*/.smartcrawl/registry.db")], "it has begun")
        process.send_signal(number)
        process.send_signal(number)
        status, _, err = ended(process)

    assert status == 130
    assert err.strip() == "demo: stopped before its end"
    assert not is_served(url_in(shown))
    assert place.is_untouched()
    assert place.processes() == []


@pytest.mark.long
def test_a_reader_that_stops_reading_ends_the_demo(place: Place) -> None:
    with place.start() as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        status = process.wait(SECONDS)

    assert (status, err) == (1, "")
    assert place.is_untouched()


@pytest.mark.long
def test_output_on_a_full_disk_is_one_sentence(place: Place) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(
            [sys.executable, "-m", "scrapy", "demo"],
            cwd=place.here,
            env=os.environ | place.environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
        status, _, err = ended(process)

    assert (status, err.count("\n")) == (1, 1)
    assert err.startswith("demo: cannot write to standard output (No space left on device)")
    assert place.is_untouched()


@pytest.mark.long
def test_kept_data_is_named_and_works(place: Place) -> None:
    """Also where the demo is stopped: its folder is named, and stays."""
    with place.start("--keep") as process:
        wait_until(lambda: [*place.temporary.glob("*/.smartcrawl/registry.db")], "it has begun")
        process.send_signal(signal.SIGINT)
        status, _, err = ended(process)

    (folder,) = place.temporary.iterdir()
    assert status == 130
    assert f"its data is in {folder}; remove it with: rm -r {folder}" in err
    assert (folder / "scrapy.cfg").is_file()


@pytest.mark.long
def test_the_commands_for_kept_data_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving_demo_site(Site()) as url:
        shell = Shell(tmp_path, columns=80, colour=False)
        assert shell.run(("crawl", url)).status == 0
    stage = TextStage(pause=False)

    stage.end(shell, 1.0, tmp_path)

    out = capsys.readouterr().out
    (line,) = [line for line in out.splitlines() if "search" in line]
    words = [sys.executable, "-m", *shlex.split(line)]
    found = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert f"{url}starter.html" in found.stdout
    stage.end(shell, 1.0, None)
    assert str(tmp_path) not in capsys.readouterr().out


@pytest.mark.long
def test_enter_goes_on_and_ctrl_c_of_a_terminal_ends_the_demo(place: Place) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(place.here)
        os.environ |= place.environment() | {"PYTHONIOENCODING": "ascii"}
        os.execv(sys.executable, [sys.executable, "-m", "scrapy", "demo", "--pause"])
    shown = until(terminal, "Press Enter to continue")
    assert "2/8" not in shown, "it waits"
    assert "\x1b[32mcomplete" in shown, "the crawl has colours"
    os.write(terminal, b"\n")
    shown = until(terminal, "Press Enter to continue")
    assert shown.isascii(), "the terminal knows ASCII only"
    assert "? and fold the " in shown, "? stands for the ellipsis before an excerpt"
    os.write(terminal, b"\x03")
    until(terminal, "demo: stopped before its end")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)

    assert os.waitstatus_to_exitcode(status) == 130
    assert place.is_untouched()


def until(terminal: int, text: str) -> str:
    """Read from a terminal until it shows a text."""
    shown, end = "", time.monotonic() + SECONDS
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
        assert ready, f"it never showed {text!r}\n{shown}"
        shown += os.read(terminal, 65_536).decode(errors="replace")
    return shown


@pytest.mark.long
def test_a_command_that_fails_ends_the_demo_with_its_message(place: Place) -> None:
    """The registry cannot grow beyond 16 KiB."""

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16_384, 16_384))

    status, out, err = ended(place.start("--format", "json", preexec_fn=small_files))

    assert status == 1
    (step,) = [json.loads(line) for line in out.splitlines()]
    assert not step["shown"]
    assert step["commands"][0]["exitStatus"] == 1
    assert err.startswith("demo: step 1 did not work as explained: 'scrapy crawl site")
    assert place.is_untouched()


class Changing(Site):
    """A site that confirms no validator: each answer has one byte more."""

    asked = 0

    def find(self, path: str) -> Document | None:
        found = super().find(path)
        self.asked += 1
        now = datetime.now(UTC)
        return found and replace(found, body=found.body + b"\n" * self.asked, modified=now)


@pytest.mark.long
def test_a_step_that_does_not_show_its_facts_ends_the_demo(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Changing()
    with serving_demo_site(site) as url:
        shell = Shell(tmp_path, columns=80, colour=False)
        scene = Scene(site, url, tmp_path / STATE / "registry.db")
        with pytest.raises(DemoError, match="step 3 did not work as explained"):
            demo.play_demo(scene, shell, TextStage(pause=False))

    assert "not true: the server answered 304 for all 15 pages" in capsys.readouterr().out


def test_no_browser_is_started_even_where_one_is_installed_or_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser that cannot start, such as that of root, would change which pages get a 304."""
    program, folder = tmp_path / "scrapy", tmp_path / "folder"
    program.write_text("import os\nprint(os.environ['RENDER'], 'RENDER_BROWSER' in os.environ)\n")
    folder.mkdir()
    monkeypatch.setenv("RENDER", "always")
    monkeypatch.setenv("RENDER_BROWSER", str(tmp_path / "chromium"))

    answer = Shell(folder, columns=80, colour=False, called=program).run(("crawl", "http://x/"))

    assert (answer.status, answer.output) == (0, "no False\n")


def test_a_command_that_hangs_is_ended_with_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, folder = tmp_path / "scrapy", tmp_path / "folder"
    program.write_text(
        "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\ntime.sleep(600)\n"
    )
    folder.mkdir()
    shell = Shell(folder, columns=80, colour=False, called=program)
    monkeypatch.setattr(demo_stage, "_SECONDS", 1)

    with pytest.raises(DemoError, match=r"'scrapy status' did not end within 1 s"):
        shell.run(("status",))

    wait_until(lambda: not processes_in(folder), "its processes ended")


@pytest.mark.long
def test_a_full_disk_is_one_sentence_with_the_remedy(place: Place) -> None:
    """The system refuses every write, as a full disk does."""

    def no_writes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    status, out, err = ended(place.start(preexec_fn=no_writes))

    assert (status, out) == (1, "")
    assert err.startswith("demo: the temporary folder cannot be written (")
    assert err.endswith("environment variable TMPDIR\n")
    assert err.count("\n") == 1


def test_a_port_that_cannot_be_opened_is_one_sentence_with_the_remedy() -> None:
    with (
        pytest.raises(DemoError, match="ip link set lo up"),
        serving_demo_site(Site(), "192.0.2.1"),
    ):
        pass


def test_words_are_wrong_usage(place: Place) -> None:
    status, out, err = ended(place.start("https://docs.example.com/"))

    assert (status, out) == (2, "")
    assert "demo takes options only" in err
    assert place.is_untouched()


# What each step claims


class Told(Scene):
    """A scene whose runs are given."""

    told: tuple[dict[str, Any], ...] = ()

    def runs(self) -> list[dict[str, Any]]:
        return list(self.told)


NOTHING = {
    "run": 1, "complete": True, "new": 0, "modified": 0, "lost": 0, "gone": 0, "removed": 0,
    "bytesDownloaded": 0,
}  # fmt: skip
FOUND = "http://a.example" + DELETED
#: What each step saw where it worked: newest run, the one before, answers 200 and 304, output.
WORKED: dict[str, tuple[dict[str, int], dict[str, int], int, int, str]] = {
    "The first crawl": ({"new": 14}, {}, 14, 0, ""),
    "Search": ({}, {}, 0, 0, "http://a.example/trouble.html"),
    "A refresh": ({}, {}, 0, 14, ""),
    "The site changes": ({"new": 1, "modified": 1, "lost": 1}, {}, 2, 0, ""),
    "A lost page stays": ({}, {}, 0, 0, f"{FOUND} last visit failed"),
    "Removal needs evidence": ({"gone": 1, "removed": 1}, {}, 0, 0, ""),
    "Undo": ({}, {}, 0, 0, FOUND),
    "The whole story": ({}, {}, 0, 0, "discovered, lost 404, removed, restored"),
}
#: What differs in steps that did not work: the same of another step, or a run with another count.
FAILED: list[tuple[str, dict[str, int], dict[str, int], int, int, str | None]] = [
    ("The first crawl", {"new": 13}, {}, 0, 0, None),
    ("The first crawl", {"complete": False}, {}, 0, 0, None),
    ("The first crawl", {}, {}, 1, 0, None),
    ("Search", {}, {}, 0, 0, ""),
    ("A refresh", {"bytesDownloaded": 1}, {}, 0, 0, None),
    ("A refresh", {"complete": False}, {}, 0, 0, None),
    ("A refresh", {}, {}, 0, 1, None),
    ("The site changes", {"new": 0}, {}, 0, 0, None),
    ("The site changes", {"modified": 2}, {}, 0, 0, None),
    ("The site changes", {"lost": 0}, {}, 0, 0, None),
    ("The site changes", {"removed": 1}, {}, 0, 0, None),
    ("The site changes", {}, {}, 1, 0, None),
    ("A lost page stays", {}, {}, 0, 0, FOUND),
    ("A lost page stays", {}, {}, 0, 0, "last visit failed"),
    ("Removal needs evidence", {"removed": 0}, {}, 0, 0, None),
    ("Removal needs evidence", {"gone": 0}, {}, 0, 0, None),
    ("Removal needs evidence", {}, {"removed": 1}, 0, 0, None),
    ("Removal needs evidence", {}, {}, 0, 0, FOUND),
    ("Undo", {}, {}, 0, 0, ""),
    ("The whole story", {}, {}, 0, 0, "discovered, lost 404, removed"),
]


def claims(title: str, last: Any, before: Any, sent: int, confirmed: int, output: str) -> Any:
    """What a step claims, where it saw this."""
    site: Any = SimpleNamespace(pages=range(14), answers={200: sent, 304: confirmed})
    scene = Told(site, "http://a.example/", Path("nowhere"))
    scene.told = (NOTHING | last, NOTHING | before)
    scene.answers.append(demo_stage.Answer("smartcrawl", 0, output, 0.0))
    (step,) = (step for step in demo_stage.STEPS if step.title == title)
    return step.claims(scene)


@pytest.mark.parametrize("title", TITLES)
def test_a_step_claims_what_is_true_where_it_worked(title: str) -> None:
    assert all(claims(title, *WORKED[title]).values())


@pytest.mark.parametrize(("title", "last", "before", "sent", "confirmed", "output"), FAILED)
def test_a_step_claims_what_is_not_true_where_it_did_not_work(
    title: str,
    last: dict[str, int],
    before: dict[str, int],
    sent: int,
    confirmed: int,
    output: str | None,
) -> None:
    """``sent`` and ``confirmed`` are answers beyond those of a step that worked."""
    runs, earlier, whole, same, shown = WORKED[title]
    seen = claims(
        title, runs | last, earlier | before, whole + sent, same + confirmed,
        shown if output is None else output,
    )  # fmt: skip

    assert not all(seen.values())


@pytest.mark.parametrize(
    ("pause", "keyboard", "waited"),
    [(True, True, "Enter"), (True, False, "1 s"), (False, True, "1 s")],
)
def test_a_terminal_waits_for_enter_where_it_can_come_and_otherwise_for_a_second(
    pause: bool, keyboard: bool, waited: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: keyboard))
    monkeypatch.setattr("builtins.input", lambda: done.append("Enter"))
    monkeypatch.setattr(demo_stage.time, "sleep", lambda seconds: done.append(f"{seconds:g} s"))
    stage = TextStage(pause=pause)
    stage._console = Console(force_terminal=True, file=io.StringIO())
    result: Any = SimpleNamespace(claims={"it is so": True})

    for number in (1, len(demo_stage.STEPS)):
        stage.close_step(number, demo_stage.STEPS[0], result)

    assert done == [waited], "and not after the last step"


# The site


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site()
    with serving_demo_site(site):
        yield site


def ask(site: Site, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Send one request, on a connection of its own."""
    host, _, port = site.base.removeprefix("http://").partition(":")
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    with socket.create_connection((host, int(port)), 10) as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode())
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    status, *fields = head.decode().split("\r\n")
    return int(status.split()[1]), dict(field.split(": ", 1) for field in fields), body


def test_a_page_is_sent_with_validators_and_then_confirmed_by_each(site: Site) -> None:
    status, fields, body = ask(site, EDITED)
    etag, date = fields["ETag"], fields["Last-Modified"]

    assert (status, body) == (200, site.pages[EDITED].body)
    assert ask(site, EDITED, If_None_Match=f'W/"other", {etag}')[::2] == (304, b"")
    assert ask(site, EDITED, If_Modified_Since=date)[0] == 304
    assert ask(site, EDITED, If_None_Match='"other"', If_Modified_Since=date)[0] == 200
    assert ask(site, EDITED, If_Modified_Since="yesterday")[0] == 200
    assert ask(site, EDITED, If_Modified_Since="Sun, 02 Mar 2025 08:00:00 GMT")[0] == 200


def test_the_change_edits_adds_and_deletes_one_page_each(site: Site) -> None:
    before = {path: page.etag for path, page in site.pages.items()}
    site.change()
    after = {path: page.etag for path, page in site.pages.items()}

    assert before.keys() - after.keys() == {DELETED}
    assert after.keys() - before.keys() == {ADDED}
    assert [path for path in before.keys() & after.keys() if before[path] != after[path]] == [
        EDITED
    ]
    assert ask(site, DELETED)[0] == 404
    assert ADDED.encode() in site.pages[EDITED].body, "the new page is linked"


def test_every_link_of_the_site_leads_to_a_page(site: Site) -> None:
    paths = {*site.pages, ADDED}
    linked = {
        path
        for page in site.pages.values()
        for path in re.findall(r'href="(/[^"]*)"', page.body.decode())
    }

    assert linked <= paths
    assert {DELETED, "/recipes/rye.md"} <= linked
    listed = re.findall(r"<loc>([^<]+)</loc>", ask(site, "/sitemap.xml")[2].decode())
    assert sorted(listed) == sorted(site.base + path for path in site.pages)
    assert f"Sitemap: {site.base}/sitemap.xml" in ask(site, "/robots.txt")[2].decode()
