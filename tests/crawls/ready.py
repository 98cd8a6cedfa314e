"""Start `python -m scrapy …`, `python -m smartcrawl …` without their imports: forks of zygote.py.

`popen` is for tests that look at what such a process does. Where its start is what they show, and
for other programs, they use `subprocess.Popen`.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
_MODULES: Final = ("scrapy", "smartcrawl", "tests.crawls.runner")
_GIVEN: Final = {"cwd", "env", "stdin", "stdout", "stderr", "text"}  #: that a fork can have
_LONGEST: Final = 100  #: bytes of an answer, at most


def _of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what Python itself reads at its start: a fork has that of the zygote."""
    begins = ("LANG", "LC_", "PYTHON")
    return {name: value for name, value in environment.items() if name.startswith(begins)}


_OF_PYTHON: Final = _of_python(os.environ)


class Zygote:
    """The process that starts commands, as this process sees it, or one that shares it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._owner = os.getpid()
        words = [sys.executable, "-m", "tests.crawls.zygote"]
        with theirs:
            self._process = subprocess.Popen(
                words, cwd=ROOT, stdin=theirs.fileno(), env=environment
            )

    def send(self, order: object, files: Sequence[int] = ()) -> tuple[str, socket.socket]:
        """Give an order, with descriptors of files; return the first answer, and who has more."""
        answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            text = json.dumps(order).encode()
            socket.send_fds(self._orders, [text], [*files, theirs.fileno()])
        answer = answers.recv(_LONGEST).decode()
        assert answer, "the process that starts commands has ended"
        return answer, answers

    def begin(self, args: Sequence[str], environment: Mapping[str, str], folder: Path) -> int:
        """Begin a command of scrapy without waiting for it; return the number of its process.

        Its output lies in `folder`; the file `status` is there when it has ended.
        """
        order = {
            "args": list(args), "environment": dict(environment), "folder": str(ROOT),
            "ended": str(folder / "status"),
        }  # fmt: skip
        with (
            Path(os.devnull).open("rb") as none,
            (folder / "out").open("wb") as out,
            (folder / "err").open("wb") as err,
        ):
            pid, answers = self.send(order, [none.fileno(), out.fileno(), err.fileno()])
        answers.close()
        return int(pid)

    def prepare(self, module: str) -> None:
        """Import a module once, which all later commands have then."""
        answer, answers = self.send(module)
        answers.close()
        assert answer == module

    def end(self) -> None:
        """End it, unless it is another process's."""
        if self._owner == os.getpid():
            self._orders.close()
            self._process.wait()


_zygotes: list[Zygote] = []


def zygote() -> Zygote:
    """Return the zygote of this process; the first call starts it."""
    if not _zygotes:
        others = os.environ.keys() - _of_python(os.environ)
        _zygotes.append(Zygote({name: os.environ[name] for name in others} | _OF_PYTHON))
    return _zygotes[0]


def end_zygote() -> None:
    while _zygotes:
        _zygotes.pop().end()


class Fork(subprocess.Popen[str]):
    """A command that a zygote starts, used like a child of this process.

    It stays a zombie until this process has waited for it, so that its number is its own.
    """

    def __init__(self, args: Sequence[str], *, by: Zygote, **given: Any) -> None:
        self._zygote = by
        super().__init__(args, **given)

    def _execute_child(  # in place of the fork and exec of subprocess
        self,
        args: Sequence[str],
        _executable: Any,
        _preexec_fn: Any,
        _close_fds: Any,
        _pass_fds: Any,
        cwd: str | None,
        env: Mapping[str, str] | None,
        _startupinfo: Any,
        _creationflags: Any,
        _shell: Any,
        *pipes: Any,
    ) -> None:
        theirs = [pipes[end] if pipes[end] >= 0 else no for no, end in enumerate((0, 3, 5))]
        order = {
            "args": args[1:],
            "environment": dict(os.environ if env is None else env),
            "folder": os.getcwd() if cwd is None else str(cwd),
        }
        try:
            pid, self._answers = self._zygote.send(order, theirs)
            self.pid = int(pid)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes[:6])  # type: ignore[attr-defined]

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._answers.settimeout(None if timeout is None else max(timeout, 0))
            try:
                found = self._answers.recv(_LONGEST)
            except (TimeoutError, BlockingIOError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            assert found, f"{self.args}: the process that started it has ended"
            self._answers.shutdown(socket.SHUT_WR)
            self._answers.settimeout(None)
            self._answers.recv(1)  # until it is no zombie any more
            self._answers.close()
            self.returncode = int(found)
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def _internal_poll(self, **_: Any) -> int | None:
        return self.poll()


def popen(args: Sequence[str], **given: Any) -> "subprocess.Popen[str]":
    """Start a command as a fork where that is the same, else as a process of its own.

    `given`: of `subprocess.Popen`, with text=True for pipes.
    """
    environment = os.environ if given.get("env") is None else given["env"]
    is_known = (args[0], args[1], args[2] in _MODULES) == (sys.executable, "-m", True)
    if is_known and given.keys() <= _GIVEN and _of_python(environment) == _OF_PYTHON:
        return Fork(args, by=zygote(), **given)
    return subprocess.Popen(args, **given)
