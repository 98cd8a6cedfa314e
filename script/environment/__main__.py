"""Prepare .venv beside the project; script/setup runs this with a Python that is new enough.

The stamp in .venv names the sets of packages, the Python, the folder and every requirement. While
it agrees with the files there is nothing to do. It is removed before packages are changed and
written at the end, so that an environment without one is made anew.
"""

import fcntl
import os
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from browser import put_browser
from installer import Installer, SetupError, last_line, reason_of, room, say

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
SCRAPY = VENV / "bin" / "scrapy"
COMMAND = VENV / "bin" / "smartcrawl"
LOCK = ROOT / "requirements.lock"
TEST_LOCK = ROOT / "requirements-test.lock"  #: has the packages of all sets of pyproject.toml, too
STAMP = VENV / ".prepared"
#: Start of the command, from any folder, as pip's own scripts start where a path may have spaces.
#: The checkout is found by it and its child processes where the environment has no path to it.
_COMMAND = """\
#!/bin/sh
'''exec' {python} "$0" "$@"
' '''
import os
import sys

checkout = {root!r}
sys.path.insert(0, checkout)
given = os.environ.get("PYTHONPATH")
os.environ["PYTHONPATH"] = os.pathsep.join([checkout, given] if given else [checkout])

from smartcrawl.__main__ import run

run()
"""
RUN = "run"  #: the set of every environment: requirements.txt
#: Sets that pyproject.toml lists.
EXTRAS = ("s3", "azure", "vectors", "onnx", "openai", "mcp", "notify", "sharepoint", "libraries")
FILES = ("test", "scrapyd")  #: sets with a file of their own
BROWSER = "browser"  #: no set of packages: a program of the system


def main(asked: Sequence[str]) -> int:
    """Prepare the environment if it is not; return the exit status."""
    wants_browser = BROWSER in asked
    asked = [name for name in asked if name != BROWSER]
    unknown = [name for name in asked if name not in (*FILES, *EXTRAS)]
    if unknown:
        say(f"script/setup: no set is called {unknown[0]}; script/setup --help lists them")
        return 2
    try:
        if VENV.is_symlink():
            _check_link()
        elif not is_prepared(sets := chosen(asked)):
            with alone():  # another script/setup may have done it meanwhile
                if not has_packages(sets):
                    prepare(sets)
                elif not is_prepared(sets):
                    put_own_files(sets)
                    say("Updated how .venv finds smartcrawl")
        if wants_browser:
            put_browser()
    except SetupError as error:
        say(f"script/setup: {error}")
        return 1
    except OSError as error:  # of the environment itself, such as one of another user
        say(f"script/setup: {error}: {reason_of(str(error), VENV)}")
        return 1
    except KeyboardInterrupt:
        say("script/setup: stopped; the next call starts again")
        return 130
    return 0


def chosen(asked: Sequence[str]) -> list[str]:
    """Return the sets that are asked for, and those that the environment has."""
    known = {*asked, *next(iter(recorded()), "").split()}
    return [RUN, *(name for name in (*FILES, *EXTRAS) if name in known)]


def packages(name: str) -> list[str]:
    """Return the requirements of a set."""
    if name in EXTRAS:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return list(project["optional-dependencies"][name])
    file = ROOT / ("requirements.txt" if name == RUN else f"requirements-{name}.txt")
    lines = [line.partition("#")[0].strip() for line in file.read_text("utf-8").splitlines()]
    return [line for line in lines if line]


def lock_of(sets: Sequence[str]) -> Path | None:
    """Return the lock of an environment with these sets; None: the checkout has none."""
    locks = [TEST_LOCK] * ("test" in sets) + [LOCK]
    return next((lock for lock in locks if lock.exists()), None)


def identity() -> list[str]:
    """Return what an environment depends on beside its packages: its Python, and its folder."""
    return [" ".join(sys.version.split()), str(ROOT)]


def stamp(sets: Sequence[str]) -> list[str]:
    """Return the lines of the stamp of an environment with these sets."""
    lock = lock_of(sets)
    locked = sha256(lock.read_bytes()).hexdigest() if lock is not None else "without a lock"
    wanted = (line for name in sets for line in packages(name))
    return [" ".join(sets), *identity(), locked, *wanted]


def recorded() -> list[str]:
    """Return the lines of the stamp; none: there is none."""
    try:
        return STAMP.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def is_prepared(sets: Sequence[str]) -> bool:
    """Whether the environment has these sets, as the files list them, and finds this checkout."""
    ours = not any(_differs(path, text) for path, text in own_files(sets))
    return ours and os.access(COMMAND, os.X_OK) and has_packages(sets)


def has_packages(sets: Sequence[str]) -> bool:
    """Whether the packages of these sets are installed."""
    return os.access(SCRAPY, os.X_OK) and PYTHON.exists() and recorded() == stamp(sets)


def own_files(sets: Sequence[str]) -> Iterator[tuple[Path, str | None]]:
    """Return what the environment has of ours: the text of each file; None: there is none.

    The path lets any Python program find the checkout. scrapyd appends an egg to the path of
    Python, so that a checkout on it would run in place of all versions that are deployed.
    """
    text = _COMMAND.format(python=shlex.quote(str(PYTHON)), root=str(ROOT))
    yield COMMAND, text
    for packages_folder in VENV.glob("lib/python*/site-packages"):
        path = packages_folder / "smartcrawl-checkout.pth"
        yield path, None if "scrapyd" in sets else f"{ROOT}\n"


def _differs(path: Path, text: str | None) -> bool:
    if text is None or not path.exists():
        return path.exists() != (text is not None)
    return path.read_bytes() != text.encode()


def prepare(sets: Sequence[str]) -> None:
    """Install what is missing; make the environment anew unless it is whole and of this Python.

    Raises:
        SetupError: something is missing on this machine; the message names it and the remedy.
    """
    began = time.monotonic()
    installer = Installer(ROOT, VENV, before_change=lambda: STAMP.unlink(missing_ok=True))
    wanted = [line for name in sets for line in packages(name)]
    if not (PYTHON.exists() and recorded()[1:3] == identity()):
        count = f"{len(wanted)} package{'s' * (len(wanted) != 1)}"
        say(f"Preparing .venv with {installer.name}: {count} and dependencies")
        installer.make_environment()
    else:
        say(f"Updating .venv with {installer.name}")
    installer.install(wanted, lock_of(sets))
    _compile()
    try:
        put_own_files(sets)
        STAMP.write_text("\n".join(stamp(sets)), encoding="utf-8")
    except OSError as error:
        raise SetupError(f"{STAMP} cannot be written: {error.strerror}; {room(VENV)}") from None
    say(f"Ready after {time.monotonic() - began:.0f} s: .venv/bin/smartcrawl")


def put_own_files(sets: Sequence[str]) -> None:
    """Write what the environment has of ours."""
    for path, text in own_files(sets):
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.write_text(text, encoding="utf-8")
    COMMAND.chmod(0o755)


def _compile() -> None:
    """Import what a crawl imports: it is compiled now and not at the first start, and works.

    Raises:
        SetupError: a module does not load.
    """
    say("Compiling what a crawl imports", passing=True)
    command = [PYTHON, ROOT / "script" / "environment" / "compile.py"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        raise SetupError(
            f"the packages are installed, but do not load: {last_line(done.stderr)}; remove .venv"
            " and call it again, or name another Python: PYTHON=/path/to/python3 script/setup;"
            f" {room(VENV)}"
        )


def _check_link() -> None:
    """Refuse a link to nothing; an environment of another checkout is used and not changed.

    Raises:
        SetupError: it has no scrapy.
    """
    if not os.access(SCRAPY, os.X_OK):
        raise SetupError(
            f".venv is a link to {VENV.readlink()}, which has no bin/scrapy: remove the link, or"
            " prepare that environment"
        )


@contextmanager
def alone() -> Iterator[None]:
    """Let one script/setup at a time work in this folder; pip inherits the lock and keeps it."""
    handle = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Waiting for another script/setup in this folder")
            fcntl.flock(handle, fcntl.LOCK_EX)
        os.set_inheritable(handle, True)
        yield
    finally:
        os.close(handle)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
