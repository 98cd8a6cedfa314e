"""A browser process: found, started confined, watched and ended, with a folder of its own."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from smartcrawl.extract.browser.pipe import BrowserError, BrowserPipe, CommandError
from smartcrawl.extract.browser.start import (
    NO_SANDBOX,
    SANDBOX,
    UNCONFINED,
    browser_owner,
)
from smartcrawl.extract.confine import HAS_LIMITS
from smartcrawl.model.processes import descendants_of

if HAS_LIMITS:
    import fcntl

#: Names of Chromium on the PATH, the lightest first.
PROGRAMS: Final = (
    "chromium-headless-shell", "chrome-headless-shell", "headless_shell", "chromium",
    "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
)  # fmt: skip
_FOLDER: Final = "smartcrawl-browser-"
_NEW: Final = "smartcrawl-new-browser-"  #: until it is locked
_LEFT_NEW: Final = 3_600  #: seconds after which one of those was left
_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0
_WATCH_SECONDS: Final = 0.25
_COMPLAINT: Final = 2_000  #: characters of what it wrote that are shown
_MIB: Final = 1024 * 1024
#: CHOWN, DAC_OVERRIDE, KILL, SETGID and SETUID (capabilities(7)).
_OF_ROOT: Final = 1 << 0 | 1 << 1 | 1 << 5 | 1 << 6 | 1 << 7
_FEATURES: Final = (
    "Translate", "OptimizationHints", "MediaRouter", "DialMediaRouteProvider", "Prerender2",
    "InterestFeedContentSuggestions", "AutofillServerCommunication", "BackForwardCache",
    "CertificateTransparencyComponentUpdater", "IsolateSandboxedIframes",
    "SpareRendererForSitePerProcess", "LocalNetworkAccessChecks", "LocalNetworkAccessForWorkers",
)  # fmt: skip
_FLAGS: Final = (
    "--headless", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-default-apps", "--disable-extensions", "--disable-breakpad",
    "--disable-crash-reporter", "--disable-client-side-phishing-detection",
    "--disable-domain-reliability", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio",
    "--hide-scrollbars", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--password-store=basic", "--use-mock-keychain", "--metrics-recording-only",
    "--window-size=1280,2000", "--no-pings", "--host-resolver-rules=MAP * ~NOTFOUND",
    f"--disable-features={','.join(_FEATURES)}",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BrowserOptions:
    """How a browser is started."""

    program: str
    memory: int = 1_024  #: MiB of the process of one page
    sandbox: bool = True  #: whether Chromium confines the processes of pages itself


def find_browser(named: str = "") -> str:
    """Return the path of the browser: the named one, else the first on the PATH.

    Raises:
        BrowserError: there is none.
    """
    if named:
        found = shutil.which(named)
        if found is None:
            raise BrowserError(f"RENDER_BROWSER={named} names no program")
        return os.path.abspath(found)
    for name in PROGRAMS:
        if found := shutil.which(name):
            return os.path.abspath(found)
    raise BrowserError(
        "no browser was found: no Chromium is on the PATH; script/setup browser installs one, or"
        " name one by RENDER_BROWSER"
    )


class Browser:
    """A running browser, and the pipe to it."""

    def __init__(self, options: BrowserOptions) -> None:
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: BrowserFolder | None = None
        self._watch: asyncio.Task[None] | None = None
        self.pipe = BrowserPipe()
        self.overfull = 0  #: processes of pages that took too much memory and were ended

    @classmethod
    async def start(cls, options: BrowserOptions) -> Browser:
        """Start it.

        Raises:
            BrowserError: it cannot be started or confined.
        """
        if sys.platform != "linux":
            raise BrowserError("pages are rendered on Linux only, where a browser can be confined")
        browser = cls(options)
        try:
            await browser._start()
        except BaseException:
            await browser.close()
            raise
        return browser

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can take a page."""
        return not self.pipe.ended.done()

    async def _start(self) -> None:
        if browser_owner() is not None and not _may_become_another():
            raise BrowserError(
                "a browser that root starts becomes another user, for which root needs the"
                " capabilities CHOWN, DAC_OVERRIDE, KILL, SETGID and SETUID; or start smartcrawl as"
                " another user"
            )
        try:
            folder = self._folder = BrowserFolder()
        except OSError as error:
            place = tempfile.gettempdir()
            raise BrowserError(f"no folder for a browser in {place}: {error.strerror}") from error
        flags = [*_FLAGS, f"--user-data-dir={folder.profile}"]
        flags.append(f"--js-flags=--max-old-space-size={self._options.memory}")
        if not self._options.sandbox:
            flags.append("--no-sandbox")
        read, to_us = os.pipe()
        from_us, write = os.pipe()
        ends = (from_us, to_us)
        try:
            with folder.log.open("wb") as log:
                self._process = subprocess.Popen(  # noqa: S603  # our own module, no shell
                    [
                        sys.executable, "-P", "-m", "smartcrawl.extract.browser.start",
                        str(os.getpid()), SANDBOX if self._options.sandbox else "open",
                        *map(str, ends), self._options.program, *flags, "about:blank",
                    ],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=ends,
                    cwd=os.path.abspath(os.sep), env=self._environment(folder),
                    start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            os.close(read)
            os.close(write)
            raise BrowserError(f"the browser does not start: {error.strerror}") from error
        finally:
            for end in ends:
                os.close(end)
        await self.pipe.open(read, write)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self.pipe.send("Browser.getVersion")
        except (BrowserError, CommandError, TimeoutError) as error:
            raise BrowserError(self._complaint(folder)) from error
        self._watch = asyncio.create_task(self._watch_processes())

    @staticmethod
    def _environment(folder: BrowserFolder) -> dict[str, str]:
        path = os.pathsep.join(map(os.path.abspath, sys.path))
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": path,
            "HOME": str(folder.profile),
            "TMPDIR": str(folder.profile),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
        }

    def _complaint(self, folder: BrowserFolder) -> str:
        """Return why it did not start, and what helps."""
        assert self._process is not None
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)
        said = folder.log.read_text(errors="replace")
        if self._process.returncode == UNCONFINED:
            return (
                "the browser cannot be confined here, so that no page is rendered: the kernel"
                " permits neither seccomp filters nor network name spaces"
            )
        if self._process.returncode == NO_SANDBOX or "No usable sandbox" in said:
            return (
                "Chromium's own sandbox needs user name spaces and chroot, which are not permitted"
                " here; RENDER_SANDBOX=off renders without it"
            )
        lines = said[-_COMPLAINT:].strip().splitlines()
        last = lines[-1] if lines else f"exit status {self._process.returncode}"
        return f"the browser {self._options.program} does not start: {last}"

    async def _watch_processes(self) -> None:
        """End the process of a page that takes too much memory; other pages go on.

        A program may be a script that starts Chromium and waits, as Debian's is. When that script
        is killed, Chromium is ended, too: it would keep the pipe open, and its memory would not be
        watched.
        """
        while not _has_ended(self.pid):
            await asyncio.sleep(_WATCH_SECONDS)
            for pid in descendants_of(self.pid):
                if _private_memory(pid) > self._options.memory * _MIB:
                    self.overfull += 1
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def close(self) -> None:
        """End it with all of its processes, and remove its folder."""
        if self._watch is not None:
            self._watch.cancel()
        if self._process is not None:
            await self._end(self._process)
        self.pipe.close()
        if self._folder is not None:
            self._folder.remove()

    async def _end(self, process: subprocess.Popen[bytes]) -> None:
        if self.alive:
            with suppress(BrowserError, CommandError, TimeoutError):
                async with asyncio.timeout(_END_SECONDS):
                    await self.pipe.send("Browser.close")
        until = time.monotonic() + _END_SECONDS
        while self.alive and process.poll() is None and time.monotonic() < until:
            await asyncio.sleep(0.02)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _may_become_another() -> bool:
    """Whether root may start a process of another user, end it, and remove its files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace")
    lines = dict(line.split(":", 1) for line in status.splitlines())
    return int(lines["CapEff"], 16) & _OF_ROOT == _OF_ROOT


def _has_ended(pid: int) -> bool:
    """Whether a child has ended; its number stays taken until this process waits for it."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _private_memory(pid: int) -> int:
    """Return the bytes that a process shares with no other; 0: it has ended."""
    try:
        words = Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")


class BrowserFolder:
    """The folder of one browser, below that of temporary files; it is locked while it is used.

    Making one removes those that ended processes left. Where root starts the browser, another user
    owns the profile in it.

    Raises:
        OSError: it cannot be made.
    """

    def __init__(self) -> None:
        base = Path(tempfile.gettempdir())
        _remove_left_folders(base)
        new = Path(tempfile.mkdtemp(prefix=_NEW, dir=base))
        self._lock = os.open(new, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._path = new.rename(base / new.name.replace(_NEW, _FOLDER))
        self.profile = self._path / "profile"
        self.log = self._path / "log"
        self.profile.mkdir(mode=0o700)
        owner = browser_owner()
        if owner is not None:
            os.chown(self.profile, owner, owner)
            self._path.chmod(0o711)

    def remove(self) -> None:
        """Remove it."""
        shutil.rmtree(self._path, ignore_errors=True)
        os.close(self._lock)


def _remove_left_folders(base: Path) -> None:
    """Remove folders of this user whose process has ended without removing them."""
    for folder in base.glob(f"{_FOLDER}*"):
        _remove_if_left(folder)
    for folder in base.glob(f"{_NEW}*"):
        with suppress(OSError):
            if time.time() - folder.lstat().st_mtime > _LEFT_NEW:
                _remove_if_left(folder)


def _remove_if_left(folder: Path) -> None:
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return  # it is gone, or another user's
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        pass  # it is in use
    finally:
        os.close(lock)
