"""Progress and reasons of script/setup: the output of pip and uv, as it was recorded."""

import io
import sys
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installer() -> ModuleType:
    path = ROOT / "script" / "environment" / "installer.py"
    spec = util.spec_from_file_location("installer", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Terminal(io.StringIO):
    """A place for output that says whether it is a terminal."""

    def __init__(self, *, real: bool) -> None:
        super().__init__()
        self._real = real

    def isatty(self) -> bool:
        return self._real


def place(monkeypatch: pytest.MonkeyPatch, *, real: bool = True) -> Terminal:
    """Let a test write to a terminal of 60 columns, or to a pipe; called in the test itself."""
    terminal = Terminal(real=real)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    return terminal


def lines(terminal: Terminal) -> list[str]:
    """Return what a terminal showed, one after the other."""
    return [part for part in terminal.getvalue().split("\r\033[K") if part]


def install(venv: Path, *names: str) -> None:
    for name in names:
        (venv / f"lib/python3.11/site-packages/{name}-1.0.dist-info").mkdir(parents=True)


PIP = """\
Looking in links: /wheels
Collecting scrapy==2.19.0
  Downloading scrapy-2.19.0-py3-none-any.whl (331 kB)
Requirement already satisfied: pip in ./.venv/lib
Collecting twisted>=23 (from scrapy==2.19.0)
  Using cached twisted-26.10.0-py3-none-any.whl (3.2 MB)
"""


def test_a_terminal_shows_what_pip_does_with_counts(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown = place(monkeypatch)
    changed: list[int] = []
    install(tmp_path, "pip")
    progress = installer.Progress(lambda: changed.append(1), tmp_path)
    for line in PIP.splitlines():
        progress.read(line)
    assert changed == []  # the environment is as it was
    progress.read("Installing collected packages: twisted, scrapy\n")
    assert changed == [1]
    install(tmp_path, "twisted")
    progress.tick()

    assert lines(shown) == [
        "Finding and downloading packages: 1, now scrapy==2.19.0",
        "Finding and downloading packages: 1, now scrapy",
        "Finding and downloading packages: 2, now twisted>=23",
        "Installing packages: 0 of 2",
        "Installing packages: 1 of 2",
    ]


def test_a_terminal_shows_what_uv_does_with_counts(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown = place(monkeypatch)
    changed: list[int] = []
    progress = installer.Progress(lambda: changed.append(1), tmp_path)
    progress.tick()
    progress.read("Resolved 79 packages in 1.10s\n")
    assert changed == [1]
    install(tmp_path, "twisted", "scrapy")
    progress.tick()

    assert lines(shown) == [
        "Looking for packages",
        "Downloading and installing packages: 0 of 79",
        "Downloading and installing packages: 2 of 79",
    ]


def test_a_line_is_not_wider_than_the_terminal(
    installer: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    shown = place(monkeypatch)
    installer.say("x" * 100, passing=True)
    installer.say("y" * 100)

    assert lines(shown) == ["x" * 59, "y" * 100 + "\n"]


def test_a_pipe_gets_a_plain_line_every_five_seconds(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown = place(monkeypatch, real=False)
    clock = [100.0]
    monkeypatch.setattr(installer.time, "monotonic", lambda: clock[0])
    progress = installer.Progress(lambda: None, tmp_path)
    for number in range(12):
        clock[0] += 1
        progress.read(f"Collecting package{number}==1.0\n")

    assert shown.getvalue() == (
        "Finding and downloading packages: 5, now package4==1.0\n"
        "Finding and downloading packages: 10, now package9==1.0\n"
    )


def test_two_pips_count_together(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shown = place(monkeypatch)
    progress = installer.Progress(lambda: None, tmp_path)
    progress.read("Collecting rich==15.0.0\n")
    progress.read("Installing collected packages: twisted, scrapy\n")
    progress.read("Collecting yarl==1.20\n")
    install(tmp_path, "scrapy")
    progress.tick()
    progress.read("Installing collected packages: rich, yarl\n")

    assert lines(shown) == [
        "Finding and downloading packages: 1, now rich==15.0.0",
        "Installing packages: 0 of 2",
        "Installing packages: 1 of 2",
        "Installing packages: 1 of 4",
    ]


def test_a_lock_is_read_by_entries(installer: ModuleType):
    one, two, three = "a==1 \\\n    --hash=x \\\n    --hash=y\n", "b[c]==2 --hash=z\n", "d==3\n"

    assert installer._ENTRY.findall(f"# a\n{one}{two}    # via a\n{three}") == [
        one, f"{two}    # via a\n", three,
    ]  # fmt: skip
    real = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert "".join(installer._ENTRY.findall(real)) == real


@pytest.mark.parametrize(
    ("requirement", "name"),
    [("Backports.zstd==1.8.0", "backports-zstd"), ("psycopg[binary]==3", "psycopg"),
     ("a_b ; python_version < '3'", "a-b"), ("scrapy", "scrapy")],
)  # fmt: skip
def test_a_requirement_begins_with_a_name(installer: ModuleType, requirement: str, name: str):
    assert installer.name_of(requirement) == name


class Noting:
    """An installer of a new environment that notes what it would install."""

    def __init__(
        self, installer: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch, *, whole: bool
    ) -> None:
        monkeypatch.setattr(installer, "_answers", lambda *_, **__: False)  # there is no uv
        self.lock = folder / "requirements.lock"
        self.lock.write_text("a-b[x, y]==1 \\\n --hash=x\nc==2 --hash=y\nd==3 ; os_name --hash=z\n")
        self.made = installer.Installer(folder, folder / ".venv", before_change=lambda: None)
        self.made.make_environment()
        monkeypatch.setattr(installer, "_answers", lambda *_, **__: whole)  # of pip check
        monkeypatch.setattr(self.made, "_install", self._note)
        self.asked: list[list[str]] = []

    def _note(self, *commands: list[str], tool: str) -> None:
        self.asked.append([])
        for command in commands:
            last = Path(command[-1])
            text = last.read_text() if "--requirement" in command else " ".join(command[1:])
            hashed = "--require-hashes" in command
            self.asked[-1].append(f"{command[0]} {hashed} {text}")


def test_what_a_lock_has_is_installed_by_its_hash_only(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """In a new environment the parts come first, then the whole lock, then what was asked for."""
    noting = Noting(installer, tmp_path, monkeypatch, whole=False)
    noting.made.install(["A_b[x,y]==1", "e==4", "f==5", "g==6"], noting.lock)

    parts, whole, last = noting.asked
    assert parts == [
        "--no-deps False e==4 g==6",
        "--no-deps False f==5",
        "--no-deps True a-b[x, y]==1 \\\n --hash=x\nd==3 ; os_name --hash=z\n",
        "--no-deps True c==2 --hash=y\n",
    ]
    assert whole == [f"--require-hashes True {noting.lock.read_text()}"]
    assert last == ["A_b[x,y]==1 False e==4 f==5 g==6"]


@pytest.mark.parametrize(
    ("wanted", "calls"),
    [
        (["A_b[x,y]==1", "c==2", "d==3 # a comment"], 1),
        (["a-b[x,y]==1", "c==2.1"], 2),  # another version
        (["a-b[x,y,z]==1"], 2),  # with more
        (["c>=2"], 2),
    ],
)
def test_what_a_lock_has_as_asked_for_is_not_looked_for_again(
    installer: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    wanted: list[str],
    calls: int,
):
    noting = Noting(installer, tmp_path, monkeypatch, whole=True)
    noting.made.install(wanted, noting.lock)

    assert len(noting.asked) == calls


def test_entries_are_dealt_into_parts(installer: ModuleType):
    assert installer.dealt("abc") == [["a", "c"], ["b"]]
    assert installer.dealt("a") == [["a"]]
    assert installer.dealt("") == []


FULL = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
RETRIED = (
    "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(\"Failed to"
    " establish a new connection: [Errno -3] Temporary failure in name resolution\")'\n"
    "ERROR: Could not find a version that satisfies the requirement scrapy==2.19.0 (from versions:"
    " none)\nERROR: No matching distribution found for scrapy==2.19.0"
)
OTHER_PYTHON = (
    "ERROR: Ignored the following versions that require a different python version: 2.19.0\n"
    "ERROR: Could not find a version that satisfies the requirement scrapy==2.19.0 (from versions:"
    " none)"
)
NO_BUILD = (
    "ERROR: Could not find a version that satisfies the requirement apsw==3.54 (from versions: 3.1)"
    "\nERROR: No matching distribution found for apsw==3.54"
)
UNREACHED = "error: Request failed after 3 retries\n  cause: dns error\n  cause: failed to lookup"
NO_VENV = (
    "The virtual environment was not created successfully because ensurepip is not\navailable."
    "  On Debian/Ubuntu systems, you need to install the python3-venv\npackage"
)


@pytest.mark.parametrize(
    ("output", "reason", "word"),
    [
        (FULL, "the disk is full: ", FULL),
        ("  cause: No space left on device (os error 28)", "the disk is full: ", "os error 28"),
        (RETRIED, "the package index cannot be reached: check the network", "from versions: none"),
        (UNREACHED, "the package index cannot be reached", "cause: dns error"),
        (OTHER_PYTHON, "no build for this Python and machine: name another", "Ignored the follo"),
        (NO_BUILD, "no build for this Python and machine: name another", "No matching distr"),
        ("error: invalid peer certificate: UnknownIssuer", "certificate", "UnknownIssuer"),
        ("OSError: [Errno 13] Permission denied: '/x'", "as the owner of the project's", "13"),
        ("something new", "for the reason above", "something new"),
    ],
)
def test_a_failure_has_its_reason_and_one_line_of_the_installer(
    installer: ModuleType, tmp_path: Path, output: str, reason: str, word: str
):
    said = installer.words_of(f"Collecting x\n{output}\n" if reason[:3] != "for" else output)

    assert reason in installer.reason_of(output, tmp_path)
    assert len(said) == 1
    assert word in said[0]


def test_a_long_line_of_the_installer_is_shortened(installer: ModuleType):
    (said,) = installer.words_of("timed out " + "x" * 1000)

    assert said == "timed out " + "x" * 190 + " ..."


def test_a_full_disk_is_named_with_its_room(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def usage(path: Path) -> object:
        return type("Usage", (), {"free": (3 if path == tmp_path else 9000) << 20})

    monkeypatch.setattr(installer.shutil, "disk_usage", usage)

    assert installer.room(tmp_path) == (
        f"3 MB in {tmp_path} free, and it needs 200 MB, for the tests 500 MB: make room, then call"
        " it again"
    )


def python(folder: Path, monkeypatch: pytest.MonkeyPatch, *, pip: str) -> None:
    """Let a Python without ensurepip be the one that runs; ``pip`` is what its pip does."""
    path = folder / "python3"
    path.write_text(
        "#!/bin/sh\n"
        'case "$1 $2 $3" in\n'
        f'"-m venv"*) printf %s "{NO_VENV}"; exit 1 ;;\n'
        f'"-m pip --version") {pip} ;;\n'
        f'"-m pip install") mkdir "$6/virtualenv"; exit 0 ;;\n'
        '"-m virtualenv"*) [ -d "$PYTHONPATH/virtualenv" ] && mkdir "$4/bin" ;;\n'
        "*) exit 9 ;;\nesac\n"
    )
    path.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(path))


def test_without_venv_the_remedy_is_named(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    python(tmp_path, monkeypatch, pip="exit 1")
    monkeypatch.setenv("PATH", "/bin")
    made = installer.Installer(tmp_path, tmp_path / ".venv", before_change=lambda: None)

    with pytest.raises(installer.SetupError, match="Ubuntu apt install python3-venv, elsewhere"):
        made.make_environment()


def test_without_venv_pip_fetches_a_replacement(
    installer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    python(tmp_path, monkeypatch, pip="exit 0")
    monkeypatch.setenv("PATH", "/bin")
    made = installer.Installer(tmp_path, tmp_path / ".venv", before_change=lambda: None)

    made.make_environment()

    assert [path.name for path in (tmp_path / ".venv").iterdir()] == ["bin"]
