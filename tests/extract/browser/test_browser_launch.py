"""A browser is found, confined, and ended with all that it began."""

import asyncio
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest

from smartcrawl.extract.browser import launch, start
from smartcrawl.extract.browser.launch import (
    Browser,
    BrowserFolder,
    BrowserOptions,
    find_browser,
)
from smartcrawl.extract.browser.pipe import BrowserError
from smartcrawl.extract.browser.start import browser_call_filter
from smartcrawl.model.processes import Process, descendants_of
from tests.extract.browser.shown import Shown, shown_browser

ALLOW, EACCES, KILL = 0x7FFF0000, 0x0005000D, 0x80000000
ROOT = Path(__file__).resolve().parents[3]
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's own means")


def verdict(machine: str, number: int, *arguments: int, name: int = 0) -> int:
    """Return what the filter of a machine says of a system call."""
    lines = browser_call_filter(machine)
    assert lines is not None
    names = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
    seen = {0: number, 4: name or names[machine]}
    seen |= {16 + 8 * place: value for place, value in enumerate(arguments)}
    at = value = 0
    while True:
        code, jump_if, jump_else, constant = lines[at]
        at += 1
        match code:
            case 0x20:
                value = seen.get(constant, 0)
            case 0x54:
                value &= constant
            case 0x15:
                at += jump_if if value == constant else jump_else
            case 0x35:
                at += jump_if if value >= constant else jump_else
            case 0x06:
                return constant


CALLS = {
    "x86_64": {"socket": 41, "connect": 42, "read": 0, "socketpair": 53, "bind": 49, "clone": 56},
    "aarch64": {"socket": 198, "connect": 203, "read": 63, "socketpair": 199, "bind": 200,
                "clone": 220},
}  # fmt: skip
REFUSED = {
    "x86_64": {"io_uring_setup": 425, "ptrace": 101, "process_vm_writev": 311, "pidfd_getfd": 438},
    "aarch64": {"io_uring_setup": 425, "ptrace": 117, "process_vm_writev": 271,
                "pidfd_getfd": 438},
}  # fmt: skip
STREAM, DATAGRAM, PACKETS = 1, 2, 5


@pytest.mark.parametrize("machine", CALLS)
def test_a_browser_makes_no_connection(machine: str) -> None:
    calls = CALLS[machine]
    flags = 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK
    for family in (2, 10, 16, 17, 40):  # IPv4, IPv6, NETLINK, PACKET, VSOCK
        assert verdict(machine, calls["socket"], family, STREAM) == EACCES
    assert verdict(machine, calls["socket"], 1, DATAGRAM) == EACCES
    assert verdict(machine, calls["socket"], 1, DATAGRAM | flags) == EACCES
    assert verdict(machine, calls["socket"], 1, STREAM | flags) == ALLOW
    assert verdict(machine, calls["socket"], 1, PACKETS | flags) == ALLOW
    assert verdict(machine, calls["connect"]) == EACCES
    for number in REFUSED[machine].values():
        assert verdict(machine, number) == EACCES
    for name in ("read", "socketpair", "bind", "clone"):
        assert verdict(machine, calls[name]) == ALLOW


def test_calls_of_another_machine_are_refused() -> None:
    assert verdict("x86_64", 41 | 0x40000000, 1, STREAM) == EACCES  # of x32
    assert verdict("x86_64", 0x40000000) == EACCES
    assert verdict("x86_64", 102, name=0x40000003) == KILL  # of 32 bits
    assert verdict("aarch64", 281, name=0x40000028) == KILL
    assert browser_call_filter("riscv64") is None


CONFINED = """
import socket, sys
from smartcrawl.extract.browser.start import confine_browser
assert confine_browser(sys.argv[1])
for family, kind in ((2, 1), (2, 2), (10, 1), (1, 2)):
    try:
        socket.socket(family, kind).sendto(b"x", ("127.0.0.1", int(sys.argv[2])))
    except OSError as error:
        print(error.errno)
try:
    socket.socket(1).connect(sys.argv[3])
except OSError as error:
    print(error.errno)
"""


@on_linux
def test_the_kernel_refuses_connections(tmp_path: Path) -> None:
    with_socket = tmp_path / "socket"
    done = subprocess.run(
        [sys.executable, "-c", CONFINED, os.uname().machine, "9", with_socket],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["13"] * 5


@on_linux
def test_without_a_filter_the_process_has_no_network() -> None:
    script = CONFINED.partition("for family")[0] + "print(open('/proc/net/route').readlines()[1:])"
    done = subprocess.run(
        [sys.executable, "-c", script, "another"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if "AssertionError" in done.stderr:
        pytest.skip("name spaces are not permitted here")
    assert done.stdout == "[]\n"


def executable(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    path.parent.chmod(0o755)
    return str(path)


def test_a_browser_is_the_named_one_or_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrowserError, match="no Chromium is on the PATH"):
        find_browser()
    full = executable(tmp_path / "chromium", "")
    assert find_browser() == full
    assert find_browser("chromium") == full
    light = executable(tmp_path / "chromium-headless-shell", "")
    assert find_browser() == light
    with pytest.raises(BrowserError, match=r"RENDER_BROWSER=/no/such names no program"):
        find_browser("/no/such")


def started(program: str, **options: bool) -> str:
    """Return why a browser does not start."""

    async def work() -> None:
        await (await Browser.start(BrowserOptions(program, **options))).close()

    with pytest.raises(BrowserError) as caught:
        asyncio.run(work())
    return str(caught.value)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, empty."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    folder.chmod(0o777)
    for parent in (tmp_path, *tmp_path.parents):
        if parent.name.startswith(("test_", "pytest-", "popen-", "fork-", "smartcrawl-server-")):
            parent.chmod(0o755)
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


@on_linux
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo a; echo it is broken >&2; exit 1", "does not start: it is broken"),
        ("exit 3", "does not start: exit status 3"),
        (f"exit {start.UNCONFINED}", "the browser cannot be confined here, so that no page is"),
        (f"exit {start.NO_SANDBOX}", "RENDER_SANDBOX=off renders without it"),
        ("echo '[1:1:FATAL] No usable sandbox! If'; exit 5", "RENDER_SANDBOX=off renders"),
    ],
)
def test_a_browser_that_does_not_start_says_why(
    temporary: Path, tmp_path: Path, script: str, words: str
) -> None:
    program = executable(tmp_path / "broken", script)
    assert words in started(program, sandbox=False)
    assert list(temporary.iterdir()) == []


BARRED = """
    import asyncio, ctypes, sys, tempfile
    from smartcrawl.extract.browser.launch import *
    from smartcrawl.extract.confine import *

    tempfile.tempdir, program, call = sys.argv[1], sys.argv[2], int(sys.argv[3])
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    lines = [(LOAD, 0, 0, 0), (EQUALS, 0, 1, call), (RETURN, 0, 0, 0x00050001)]
    assert install_call_filter(libc, [*lines, (RETURN, 0, 0, ALLOW)])
    try:
        asyncio.run(Browser.start(BrowserOptions(program)))
    except BrowserError as error:
        print(error)
"""


@on_linux
@pytest.mark.skipif(platform.machine() != "x86_64", reason="calls have other numbers there")
@pytest.mark.parametrize("call", [161, 272], ids=["chroot", "unshare"])
def test_a_container_that_lets_no_sandbox_be_made_is_told_of(
    temporary: Path, tmp_path: Path, call: int
) -> None:
    program = executable(tmp_path / "browser", "echo it was started >&2; exit 1")
    printed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BARRED), temporary, program, str(call)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    assert printed.stdout == (
        "Chromium's own sandbox needs user name spaces and chroot, which are not permitted here;"
        " RENDER_SANDBOX=off renders without it\n"
    )


@on_linux
@pytest.mark.parametrize("lacks", [0, 1, 5, 6, 7])
def test_root_without_its_capabilities_is_told_of_them(
    temporary: Path, monkeypatch: pytest.MonkeyPatch, lacks: int
) -> None:
    status = f"Name:\ta:b\nCapEff:\t{0x1FFFFFFFFFF & ~(1 << lacks):016x}\n"
    monkeypatch.setattr(launch, "browser_owner", lambda: 65534)
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: status)
    printed = started("/bin/true")
    assert "root needs the capabilities CHOWN, DAC_OVERRIDE, KILL, SETGID and SETUID" in printed
    assert list(temporary.iterdir()) == []


@on_linux
def test_a_folder_that_cannot_be_made_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    assert started("/bin/true") == (
        f"no folder for a browser in {tmp_path / 'none'}: No such file or directory"
    )


def test_a_page_is_rendered_on_linux_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "on Linux only" in started("/bin/true")


@on_linux
def test_a_program_that_is_none_leaves_nothing(temporary: Path, tmp_path: Path) -> None:
    assert "does not start" in started(str(tmp_path / "none"), sandbox=False)
    assert list(temporary.iterdir()) == []


@on_linux
def test_folders_of_ended_processes_are_removed(temporary: Path) -> None:
    left = temporary / "smartcrawl-browser-left"
    left.mkdir()
    (left / "profile").mkdir()
    new = temporary / "smartcrawl-new-browser-now"
    new.mkdir()
    old = temporary / "smartcrawl-new-browser-old"
    old.mkdir()
    os.utime(old, (1, 1))
    other = temporary / "other"
    other.mkdir()
    used, again = BrowserFolder(), BrowserFolder()
    names = {path.name for path in temporary.iterdir()}
    assert not names & {left.name, old.name}
    assert names >= {new.name, other.name}
    assert len(names) == 4
    used.remove()
    again.remove()
    assert len(list(temporary.iterdir())) == 2


def processes_of(browser: int) -> list[tuple[list[bytes], str]]:
    """Return the command line and the status of a browser and of each process that it began.

    A browser also begins processes that end soon; what ended while we looked is left out.
    """
    found = []
    for pid in (browser, *descendants_of(browser)):
        place = Path(f"/proc/{pid}")
        with suppress(FileNotFoundError, ProcessLookupError):
            words = (place / "cmdline").read_bytes().replace(b"\0", b" ").split()
            found.append((words, (place / "status").read_text()))
    assert len(found) > 1, "the browser and a process that it began"
    return found


@on_linux
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root drops it")
def test_root_becomes_nobody(shown: Shown, program: str) -> None:
    for _, status in processes_of(shown.browser.pid):
        assert "Uid:\t65534\t65534\t65534\t65534" in status
        assert "NoNewPrivs:\t1" in status
        assert "Seccomp:\t2" in status


@pytest.mark.long
@on_linux
def test_without_the_sandbox_of_the_browser_its_calls_are_confined_all_the_same(
    program: str,
) -> None:
    with shown_browser(program, sandbox=False) as shown:
        found = shown.shows("<p></p><script>document.body.append('it is here')</script>")
        assert "it is here" in found.html
        processes = processes_of(shown.browser.pid)
        words = [word for line, _ in processes for word in line]
        assert b"--no-sandbox" in words
        assert b"--type=zygote" in words, "the processes of pages come from it"
        for _, status in processes:
            assert "NoNewPrivs:\t1" in status
            assert "Seccomp:\t2" in status
            assert os.geteuid() != 0 or "Uid:\t65534\t65534\t65534\t65534" in status


KILLED = """
    import asyncio, sys, tempfile, time
    from smartcrawl.extract.browser.launch import *
    from smartcrawl.extract.browser.page import *
    from smartcrawl.rules.rendering import *

    tempfile.tempdir = sys.argv[2]

    async def answer(request):
        return BrowserAnswer(200, [("Content-Type", "text/html")], b"<script>for(;;);</script>")

    async def main():
        browser = await Browser.start(BrowserOptions(sys.argv[1]))
        print(browser.pid, flush=True)
        order = RenderOrder("http://a.example/", PageRequestRules("a.example"), 0.0, 60)
        await render_page(browser, order, answer)

    asyncio.run(main())
"""


@on_linux
def test_a_killed_crawler_leaves_no_process_and_its_folder_goes_next(
    temporary: Path, program: str
) -> None:
    crawler = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(KILLED), program, temporary],
        cwd=ROOT, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert crawler.stdout is not None
    pid = int(crawler.stdout.readline())
    time.sleep(1)
    began = [Process.of(each) for each in (pid, *descendants_of(pid))]
    crawler.send_signal(signal.SIGKILL)
    crawler.wait()
    crawler.stdout.close()
    until = time.monotonic() + 20
    while any(map(Process.is_alive, began)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [each for each in began if each.is_alive()] == []
    assert len(list(temporary.iterdir())) == 1
    BrowserFolder().remove()
    assert list(temporary.iterdir()) == []


@on_linux
def test_a_browser_that_ends_is_noticed(program: str) -> None:
    async def work() -> None:
        browser = await Browser.start(BrowserOptions(program))
        os.kill(browser.pid, signal.SIGKILL)
        await browser.pipe.ended
        assert not browser.alive
        with pytest.raises(BrowserError, match="has ended"):
            await browser.pipe.send("Browser.getVersion")
        await browser.close()

    asyncio.run(work())
    assert launch.PROGRAMS[0] == "chromium-headless-shell"


@on_linux
def test_a_browser_ends_with_the_script_that_started_it(program: str) -> None:
    async def work(script: str) -> None:
        browser = await Browser.start(BrowserOptions(script))
        began = [Process.of(pid) for pid in (browser.pid, *descendants_of(browser.pid))]
        assert len(began) > 1
        os.kill(browser.pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            await browser.pipe.ended
        await browser.close()
        assert not any(map(Process.is_alive, began))

    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # the browser may run as another user
        script = Path(folder, "browser")
        script.write_text(f'#!/bin/sh\n{shlex.quote(program)} "$@"\nexit $?\n')
        script.chmod(0o755)
        asyncio.run(work(str(script)))
