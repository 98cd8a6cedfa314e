"""Environment and packages by uv, or by venv and pip, with progress and reasons of failures."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

_ENOUGH = 700  #: MB for any environment
_TICK = 0.5  #: seconds between two looks at what is installed
_WIDTH = 200  #: characters of a line that an installer wrote
_PAUSE = 5.0  #: seconds between two lines of progress where there is no terminal

_ANOTHER_PYTHON = (
    "a package has no build for this Python and machine: name another Python, 3.11 is the one that"
    " is tested: PYTHON=/path/to/python3.11 script/setup"
)
#: Reasons of failures by words in the installer's output, the first that fits, and remedies.
_REASONS = [
    (r"No space left|ENOSPC|os error 28\b|Disk quota", "the disk is full: {room}"),
    (
        r"DO NOT MATCH THE HASHES|[Hh]ash mismatch",
        "a package is not the one that requirements.lock names, and was not installed: name another"
        " index by PIP_INDEX_URL (pip) or UV_DEFAULT_INDEX (uv), then call it again",
    ),
    (
        r"--require-hashes",
        "requirements.lock lacks a package for this Python and machine: name another Python, 3.11"
        " is the one that is tested: PYTHON=/path/to/python3.11 script/setup",
    ),
    (r"different python version", _ANOTHER_PYTHON),
    (
        r"CERTIFICATE_VERIFY_FAILED|UnknownIssuer|certificate verify failed",
        "the certificate of the package index was not accepted: name your own certificates by"
        " PIP_CERT (pip) or SSL_CERT_FILE (uv), then call it again",
    ),
    (
        r"NewConnectionError|Temporary failure|Name or service not known|NameResolutionError"
        r"|Network is unreachable|Connection refused|Connection reset|ConnectTimeout|ReadTimeout"
        r"|timed out|ProxyError|RemoteDisconnected|dns error|error sending request"
        r"|Failed to fetch|IncompleteRead|ProtocolError|\(from versions: none\)",
        "the package index cannot be reached: check the network and HTTPS_PROXY, or name another"
        " index by PIP_INDEX_URL (pip) or UV_DEFAULT_INDEX (uv), then call it again",
    ),
    (
        r"No matching distribution|No solution found|no wheels|Failed building|Failed to build",
        _ANOTHER_PYTHON,
    ),
    (
        r"Permission denied|Read-only file system",
        "a folder cannot be written: call it as the owner of the project's folder",
    ),
]


_WITHOUT_VENV = re.compile(r"ensurepip|No module named '?venv")
_PARTS = 2  #: pips at once; a third saved 2 of 24 seconds on two cores, and needs 80 MB more
_ENTRY = re.compile(r"^\w.*\n(?:[ \t]+.*\n)*", re.MULTILINE)  #: of a lock, with its hashes
_BY_HASH = ("--require-hashes", "--requirement")  #: a file follows
_PIP_OPTIONS = ("--no-compile", "--no-input", "--progress-bar=off", "--disable-pip-version-check")


class SetupError(Exception):
    """The environment cannot be prepared; the message has the reason and the remedy."""


def say(text: str, *, passing: bool = False) -> None:
    """Print a line; on a terminal, the next one replaces a passing one."""
    terminal = sys.stderr.isatty()
    if terminal:
        width = shutil.get_terminal_size().columns - 1
        print("\r\033[K" + (text[:width] if passing else text), end="", file=sys.stderr)
    if not passing or not terminal:
        print("" if terminal else text, file=sys.stderr)
    sys.stderr.flush()


def room(folder: Path) -> str:
    """Return how much room there is, as the remedy for a full disk."""
    found = {place: shutil.disk_usage(place).free >> 20 for place in _written(folder)}
    short = {place: free for place, free in found.items() if free < _ENOUGH} or found
    free = " and ".join(f"{free} MB in {place}" for place, free in short.items())
    return f"{free} free, and it needs 200 MB, for the tests 500 MB: make room, then call it again"


def reason_of(output: str, folder: Path) -> str:
    """Return the reason of a failure and its remedy, by the output of pip, uv or Python."""
    if _WITHOUT_VENV.search(output):
        return (
            f"{sys.executable} cannot make environments, because its module venv is incomplete: on"
            " Debian and Ubuntu apt install python3-venv, elsewhere install uv, or name another"
            " Python: PYTHON=/path/to/python3 script/setup"
        )
    for words, reason in _REASONS:
        if re.search(words, output):
            return reason.format(room=room(folder))
    return f"the packages could not be installed, for the reason above; {room(folder)}"


def last_line(output: str) -> str:
    """Return the last line that a program wrote, which names its failure."""
    return (output.strip().splitlines() or ["no reason given"])[-1]


def words_of(output: str) -> list[str]:
    """Return the lines of an installer's output that name the failure, shortened."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    known = (words for words, _ in _REASONS if re.search(words, output))
    words = next(known, None)
    named = [line for line in lines if words and re.search(words, line)][-1:] or lines[-8:]
    return [line if len(line) <= _WIDTH else f"{line[:_WIDTH]} ..." for line in named]


def _written(folder: Path) -> list[Path]:
    """Return the folder, and that of temporary files if it is on another disk."""
    found = [folder if folder.exists() else folder.parent]
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError:  # there is none that can be written
        return found
    return found + [temporary] * (temporary.stat().st_dev != found[0].stat().st_dev)


class Installer:
    """Makes an environment and puts packages into it."""

    def __init__(self, root: Path, venv: Path, *, before_change: Callable[[], object]) -> None:
        """Look for uv; ``before_change`` is called before a package is replaced or removed."""
        self._root = root
        self._venv = venv
        self._before_change = before_change
        self._is_new = False
        self._uv = shutil.which("uv") if _answers("uv", "--version") else None
        self.name = "pip" if self._uv is None else "uv"

    def make_environment(self) -> None:
        """Make an empty environment; an existing one is removed.

        Raises:
            SetupError: the folder cannot be written, or Python cannot make environments.
        """
        self._before_change()
        self._clear()
        self._is_new = True
        if self._uv is not None:
            command = [self._uv, "venv", "--quiet", "--python", sys.executable, str(self._venv)]
        else:
            without = ["--without-pip"] * (_bundled_pip() is not None)
            command = [sys.executable, "-m", "venv", *without, str(self._venv)]
        done = subprocess.run(command, cwd=self._root, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)  # fmt: skip
        output = done.stdout + done.stderr
        if done.returncode and not (_WITHOUT_VENV.search(output) and self._by_virtualenv()):
            raise SetupError(self._refusal(output))

    def _clear(self) -> None:
        try:
            self._venv.mkdir(exist_ok=True)
            for path in self._venv.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            (self._venv / ".write").write_text("x")
            (self._venv / ".write").unlink()
        except OSError as error:
            raise SetupError(f"{self._venv}: {reason_of(str(error), self._venv)}") from None

    def _by_virtualenv(self) -> bool:
        """Whether virtualenv made the environment; pip fetches it where Python has no venv."""
        python = sys.executable
        if not _answers(python, "-m", "pip", "--version"):
            return False
        with tempfile.TemporaryDirectory() as tool:
            self._clear()
            fetched = _answers(
                python, "-m", "pip", "install", "--quiet", "--target", tool, "virtualenv"
            )
            return fetched and _answers(
                python, "-m", "virtualenv", "--quiet", str(self._venv), PYTHONPATH=tool
            )

    def install(self, packages: Sequence[str], lock: Path | None = None) -> None:
        """Install packages at the versions that they name, after those of a lock with hashes.

        What the lock has at the version that is asked for is not looked for once more.

        Raises:
            SetupError: not all of them are installed.
        """
        with tempfile.TemporaryDirectory() as tool:
            if self._uv is None and not any(self._venv.glob("lib/python*/site-packages/pip")):
                _unpack_pip(tool)
            if lock is not None:
                entries = _ENTRY.findall(lock.read_text(encoding="utf-8"))
                by_parts = self._is_new and self._uv is None  # an old one must not become a mixture
                if by_parts:
                    self._install_parts(entries, packages, tool)
                if not (by_parts and self._is_complete(tool)):
                    self._install([*_BY_HASH, str(lock)], tool=tool)
                if {*map(_pin_of, entries)}.issuperset(map(_pin_of, packages)):
                    return
            self._install(packages, tool=tool)

    def _install_parts(self, entries: Sequence[str], packages: Sequence[str], tool: str) -> None:
        """Install packages by several pips at once, each without dependencies.

        pip computes more than it waits for the network, and uses one core. No part would miss a
        dependency that the lock has not: that is looked for when all are there.
        """
        locked = set(map(name_of, entries))
        others = {name: one for one in packages if (name := name_of(one)) not in locked}
        commands = [["--no-deps", *part] for part in dealt(others.values())]
        for number, part in enumerate(dealt(entries)):
            file = Path(tool) / f"locked-{number}.txt"
            file.write_text("".join(part), encoding="utf-8")
            commands.append(["--no-deps", *_BY_HASH, str(file)])
        self._install(*commands, tool=tool)

    def _is_complete(self, tool: str) -> bool:
        """Whether all that the installed packages need is there, in a version that they take."""
        return _answers(str(self._venv / "bin" / "python"), "-m", "pip", "check", PYTHONPATH=tool)

    def _install(self, *commands: Sequence[str], tool: str) -> None:
        """Let one installer for each list of arguments work, all at once.

        Raises:
            SetupError: one of them failed; the others were ended.
        """
        processes: list[subprocess.Popen[str]] = []
        try:
            for arguments in commands:
                processes.append(self._begin(arguments, tool))
            output = self._watch(processes)
        finally:
            for process in processes:
                process.terminate()  # does nothing to one that has ended
                process.wait()
        if any(process.returncode for process in processes):
            raise SetupError(self._refusal(output))

    def _begin(self, arguments: Sequence[str], tool: str) -> "subprocess.Popen[str]":
        python = str(self._venv / "bin" / "python")
        if self._uv is not None:
            command = [self._uv, "pip", "install", "--python", python, *arguments]
        else:
            command = [python, "-m", "pip", "install", *_PIP_OPTIONS, *arguments]
        return subprocess.Popen(
            command,
            cwd=self._root,
            env=os.environ | {"PYTHONPATH": tool},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            close_fds=False,  # the lock of script/setup lives as long as the installer
        )

    def _watch(self, processes: "Sequence[subprocess.Popen[str]]") -> str:
        """Show progress until all installers end or one fails, and return what they printed.

        Of several, the output of the one that failed is returned.
        """
        lines: Queue[tuple[int, str | None]] = Queue()
        for number, process in enumerate(processes):
            Thread(target=_read, args=(number, process, lines), daemon=True).start()
        progress = Progress(self._before_change, self._venv)
        outputs: list[list[str]] = [[] for _ in processes]
        working = len(processes)
        while working:
            try:
                number, line = lines.get(timeout=_TICK)
            except Empty:
                progress.tick()
                continue
            if line is not None:
                outputs[number].append(line)
                progress.read(line)
            elif processes[number].wait():
                return "".join(outputs[number])
            else:
                working -= 1
        return "".join(line for output in outputs for line in output)

    def _refusal(self, output: str) -> str:
        """Print the installer's words about a failure, and return its reason and remedy."""
        for line in words_of(output):
            say(f"{self.name}: {line}")
        return reason_of(output, self._venv)


def _bundled_pip() -> Path | None:
    """Return the pip that Python brings for new environments; Debian keeps it elsewhere."""
    spec = importlib.util.find_spec("ensurepip")
    if spec is None or spec.origin is None:
        return None
    places = [Path(spec.origin).parent / "_bundled"]
    places += map(Path, filter(None, [sysconfig.get_config_var("WHEEL_PKG_DIR")]))
    return next((wheel for place in places for wheel in place.glob("pip-*.whl")), None)


def _unpack_pip(folder: str) -> None:
    """Unpack pip for one installation: nothing in the environment needs it, and it has 17 MB."""
    wheel = _bundled_pip()
    if wheel is None:
        raise SetupError(reason_of("No module named venv", Path(folder)))
    with zipfile.ZipFile(wheel) as file:
        file.extractall(folder)


def name_of(requirement: str) -> str:
    """Return the canonical name of a package at the head of a requirement (PEP 503)."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def _pin_of(requirement: str) -> str:
    """Return the canonical name of a requirement and what follows it: ``a-b[c,d]==1.0``."""
    pin = re.split(r"[;\\#]| --", requirement, maxsplit=1)[0].replace(" ", "").strip()
    name = re.match(r"[\w.-]+", pin)
    return name_of(pin) + pin[name.end() :] if name else pin


def dealt(entries: Iterable[str]) -> list[list[str]]:
    """Deal entries in turn into as many parts as pips may work at once; none is empty."""
    every = list(entries)
    return [every[first::_PARTS] for first in range(min(_PARTS, len(every)))]


def _read(
    number: int, process: "subprocess.Popen[str]", lines: "Queue[tuple[int, str | None]]"
) -> None:
    """Pass on each line of an installer with its number; None: it wrote its last one."""
    assert process.stdout is not None
    for line in process.stdout:
        lines.put((number, line))
    lines.put((number, None))


def _answers(*command: str, **environment: str) -> bool:
    """Whether a program is there and ends well."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                              env=os.environ | environment)  # fmt: skip
    except OSError:
        return False
    return done.returncode == 0


class Progress:
    """How far pip or uv is, by its output and by what is in the environment."""

    def __init__(self, before_change: Callable[[], object], venv: Path) -> None:
        """Begin before the installer's first line."""
        self._before_change = before_change
        self._venv = venv
        self._there = self._count()
        self._found = 0  #: packages that the installer has looked at
        self._total = 0  #: packages that it will install; 0: not known yet
        self._text = "Looking for packages"
        self._last = time.monotonic()  #: of the last line without a terminal

    def read(self, line: str) -> None:
        """Take in one line of the installer's output."""
        words = line.split()
        match words[:2]:
            case ["Collecting" | "Downloading", _] if self._total:
                return  # by the slower of two pips
            case ["Collecting", name]:
                self._found += 1
                self._text = f"Finding and downloading packages: {self._found}, now {name}"
            case ["Downloading", name]:
                self._text = f"{self._text.partition(', now ')[0]}, now {name.partition('-')[0]}"
            case ["Resolved", number]:  # uv has looked at all of them, and loads them in parallel
                self._before_change()
                self._total = int(number) - self._there if number.isdecimal() else 0
                self._text = "Downloading and installing packages"
            case ["Installing", "collected"]:
                self._before_change()
                self._total += line.count(",") + 1  # of one of several pips
                self._text = "Installing packages"
            case _:
                return
        self._show()

    def tick(self) -> None:
        """Show what has changed without a line of output."""
        self._show()

    def _show(self) -> None:
        text = self._text
        if self._total > 0:
            text += f": {max(0, self._count() - self._there)} of {self._total}"
        if sys.stderr.isatty():
            say(text, passing=True)
        elif time.monotonic() - self._last >= _PAUSE:
            say(text)
            self._last = time.monotonic()

    def _count(self) -> int:
        return sum(1 for _ in self._venv.glob("lib/python*/site-packages/*.dist-info"))
