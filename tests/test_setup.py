"""script/setup: real environments, and a stand-in for uv."""

import ast
import hashlib
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path
from shutil import copy, copytree, ignore_patterns, which

import pytest

from smartcrawl.extract.browser.launch import PROGRAMS
from tests.site_server import Site, html

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A project of one module that needs a scrapy of its own."""
    root = tmp_path / "a project"
    (root / "script").mkdir(parents=True)
    copy(ROOT / "script/setup", root / "script/setup")
    copytree(ROOT / "script/environment", root / "script/environment",
             ignore=ignore_patterns("__pycache__"))  # fmt: skip
    (root / "smartcrawl").mkdir()
    (root / "smartcrawl/__init__.py").touch()
    (root / "requirements.txt").write_text("# of a crawl\nscrapy==2.0 # a comment\n")
    (root / "requirements-test.txt").write_text("tool==1.0\n")
    (root / "requirements-scrapyd.txt").write_text("scrapyd==1.6.0\n")
    copy(ROOT / "pyproject.toml", root / "pyproject.toml")
    (tmp_path / "stub/scrapy").mkdir(parents=True)
    (tmp_path / "stub/scrapy/__init__.py").touch()
    (tmp_path / "bin").mkdir()
    for name in ("bash", "dirname"):
        (tmp_path / "bin" / name).symlink_to(which(name))
    return root


def program(checkout: Path, name: str, text: str) -> None:
    path = checkout.parent / "bin" / name
    path.write_text(f"#!{which('bash')}\n{text}")
    path.chmod(0o755)


def python3(checkout: Path) -> None:
    """Put a Python on PATH."""
    base = Path(sys.base_prefix) / "bin" / "python3"
    program(checkout, "python3", f'exec {base} "$@"\n')


#: Logs its arguments; makes environments and packages out of nothing.
UV = """\
PATH=/usr/bin:/bin
echo "$@" >>{log}
case $1 in
venv)
    place=${{!#}}
    mkdir -p "$place/bin" "$place/lib/python3.11/site-packages"
    printf '#!/bin/sh\\nPYTHONPATH="{stub}" exec {python} "$@"\\n' >"$place/bin/python"
    chmod +x "$place/bin/python"
    ;;
pip)
    {hook}
    echo "Resolved 2 packages in 1ms"
    {pause}
    place=$(dirname "$4")
    cp "$place/python" "$place/scrapy"
    ;;
esac
"""


def uv(checkout: Path, *, hook: str = "", pause: str = "") -> None:
    """Put a stand-in for uv on PATH; ``pause`` is run before packages are changed."""
    log = checkout.parent / "uv.log"
    python = Path(sys.base_prefix) / "bin" / "python3"
    stub = checkout.parent / "stub"
    text = UV.format(log=f"'{log}'", stub=stub, python=python, hook=hook, pause=pause)
    program(checkout, "uv", text)


def asked(checkout: Path) -> list[str]:
    """Return what uv was asked for since the last call, without the questions for its version."""
    log = checkout.parent / "uv.log"
    lines = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    place = f"{checkout}/.venv"
    return [line.replace(place, ".venv") for line in lines if line != "--version"]


def begin(checkout: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [checkout / "script/setup", *arguments],
        env={"PATH": f"{checkout.parent}/bin", "HOME": str(checkout.parent), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def setup(checkout: Path, *arguments: str, status: int = 0, **environment: str) -> str:
    """Run script/setup, and return what it says."""
    process = begin(checkout, *arguments, **environment)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (status, ""), said
    return said


MADE = f"venv --quiet --python {os.path.realpath(sys.executable)} .venv"
RUN = "pip install --python .venv/bin/python scrapy==2.0"


@pytest.fixture
def ready(checkout: Path) -> Path:
    """A checkout that uv has prepared."""
    python3(checkout)
    uv(checkout)
    setup(checkout)
    asked(checkout)
    return checkout


def test_uv_makes_the_environment_and_a_second_call_does_nothing(checkout: Path):
    python3(checkout)
    uv(checkout)

    said = setup(checkout, PYTHONDONTWRITEBYTECODE="1")

    assert [line.split()[0] for line in asked(checkout)] == ["venv", "pip"]
    assert said.startswith("Preparing .venv with uv: 1 package")
    assert "Ready after" in said
    assert setup(checkout) == ""
    assert asked(checkout) == []
    assert (checkout / "smartcrawl/__pycache__").is_dir()  # compiled before its first use


def test_the_installer_gets_the_lines_of_the_files(ready: Path):
    setup(ready, "test", "s3")
    drivers = PROJECT["optional-dependencies"]["s3"]

    assert asked(ready) == [f"{RUN} tool==1.0 {' '.join(drivers)}"]
    assert setup(ready) == ""  # what is there stays without being asked for
    setup(ready, "scrapyd")
    assert asked(ready) == [f"{RUN} tool==1.0 scrapyd==1.6.0 {' '.join(drivers)}"]


@pytest.mark.parametrize(
    ("file", "sets"), [("requirements.txt", []), ("requirements-test.txt", ["test"])]
)
def test_a_change_of_a_file_is_noticed(ready: Path, file: str, sets: list[str]):
    setup(ready, *sets)
    asked(ready)
    with (ready / file).open("a") as requirements:
        requirements.write("more==3.0\n")

    setup(ready, *sets)

    (line,) = asked(ready)
    assert "more==3.0" in line
    assert setup(ready, *sets) == ""


def test_any_python_program_finds_its_own_checkout_except_in_the_environment_of_scrapyd(
    ready: Path,
):
    """The checkout would hide eggs from scrapyd."""
    (packages,) = (ready / ".venv/lib").glob("python*/site-packages")
    path, command = packages / "smartcrawl-checkout.pth", ready / ".venv/bin/smartcrawl"
    whole = command.read_text()
    assert path.read_text() == f"{ready}\n"

    path.write_text("/another/checkout\n")
    assert setup(ready) == "Updated how .venv finds smartcrawl\n"
    assert path.read_text() == f"{ready}\n"
    path.unlink()
    command.write_text("of an older version")
    assert setup(ready) == "Updated how .venv finds smartcrawl\n"
    assert (path.read_text(), command.read_text()) == (f"{ready}\n", whole)
    assert asked(ready) == []

    setup(ready, "scrapyd")
    assert not list(packages.glob("*.pth"))
    asked(ready)
    path.write_text(f"{ready}\n")  # of an older version
    assert setup(ready, "scrapyd") == "Updated how .venv finds smartcrawl\n"
    assert not list(packages.glob("*.pth"))
    assert (setup(ready), asked(ready)) == ("", [])


def test_tools_that_no_call_asked_for_are_not_looked_at(ready: Path):
    (ready / "requirements-test.txt").write_text("tool==2.0\n")

    assert setup(ready) == ""
    assert asked(ready) == []


def test_a_folder_that_moved_gets_another_environment(ready: Path):
    moved = ready.rename(ready.with_name("moved"))

    setup(moved)

    assert [line.split()[0] for line in asked(moved)] == ["venv", "pip"]


def test_an_installation_that_was_killed_is_made_anew(ready: Path):
    uv(ready, pause=f"touch '{ready.parent}/changing'; sleep 60")
    process = begin(ready, "test")
    until(ready.parent / "changing")
    time.sleep(0.2)  # its line is read
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    asked(ready)
    uv(ready)

    setup(ready)

    assert [line.split()[0] for line in asked(ready)] == ["venv", "pip"]


def test_a_download_that_failed_leaves_the_environment(ready: Path):
    uv(ready, hook="echo 'error: dns error: Name or service not known'; exit 2")
    said = setup(ready, "test", status=1)
    asked(ready)

    assert "the package index cannot be reached: check the network" in said
    assert "dns error" in said
    assert setup(ready) == ""
    uv(ready)
    setup(ready, "test")
    assert asked(ready) == [f"{RUN} tool==1.0"]


def test_ctrl_c_ends_it_and_the_installer(ready: Path):
    uv(ready, hook=f"touch '{ready.parent}/loading'; sleep 60; touch '{ready.parent}/survived'")
    process = begin(ready, "test")
    until(ready.parent / "loading")
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=20)

    assert process.returncode == 130
    assert said.endswith("script/setup: stopped; the next call starts again\n")
    assert not (ready.parent / "survived").exists()


def test_two_at_once_prepare_once(checkout: Path):
    python3(checkout)
    uv(checkout, hook="sleep 1")
    both = [begin(checkout), begin(checkout)]
    said = [process.communicate(timeout=60)[1] for process in both]

    assert [process.returncode for process in both] == [0, 0]
    assert [line.split()[0] for line in asked(checkout)] == ["venv", "pip"]
    assert "Waiting for another script/setup in this folder" in "".join(said)


def test_an_installer_that_outlives_its_script_is_waited_for(ready: Path):
    ready_to_end = ready.parent / "ready to end"
    wait = f"until [ -e '{ready_to_end}' ]; do sleep 0.05; done"
    uv(ready, pause=f": >'{ready.parent}/changing'; {wait}")
    process = begin(ready, "test")
    until(ready.parent / "changing")
    time.sleep(0.2)  # its line is read
    process.kill()
    process.wait()
    uv(ready)
    second = begin(ready)
    try:
        assert second.stderr is not None
        said = second.stderr.readline()
    finally:
        ready_to_end.touch()

    assert "Waiting for another script/setup in this folder" in said
    second.communicate(timeout=60)
    assert second.returncode == 0


def until(path: Path) -> None:
    for _ in range(400):
        if path.exists():
            return
        time.sleep(0.05)
    pytest.fail(f"{path} did not appear")


def test_without_a_new_python_the_remedy_is_named(checkout: Path):
    program(checkout, "python3", "exit 1\n")

    said = setup(checkout, status=1)

    assert said == (
        "script/setup: no Python 3.11 or newer was found; install one (on Debian and Ubuntu:"
        " apt install python3 python3-venv), or name it: PYTHON=/path/to/python3 script/setup\n"
    )
    assert not (checkout / ".venv").exists()


def test_an_old_python_in_front_of_a_new_one_is_passed_over(checkout: Path):
    program(checkout, "python3", "exit 1\n")
    base = Path(sys.base_prefix) / "bin" / "python3"
    program(checkout, "python3.13", f'exec {base} "$@"\n')
    uv(checkout)

    assert "Ready after" in setup(checkout)


def test_the_environment_is_not_made_by_its_own_python(ready: Path):
    """An activated environment is first on PATH."""
    (ready / "requirements.txt").write_text("scrapy==2.1\n")
    shown = f"{ready}/.venv/bin:{ready.parent}/bin"
    used, base = ready.parent / "used", Path(sys.base_prefix) / "bin" / "python3"
    text = f"#!/bin/sh\n: >'{used}'\nexec {base} \"$@\"\n"
    (ready / ".venv/bin/python3").write_text(text)
    (ready / ".venv/bin/python3").chmod(0o755)

    assert "Ready after" in setup(ready, PATH=shown)
    assert not used.exists()


def test_a_named_python_comes_first(checkout: Path):
    program(checkout, "mine", f": >'{checkout.parent}/used'; exec {sys.executable} \"$@\"\n")
    python3(checkout)
    uv(checkout)

    setup(checkout, PYTHON=f"{checkout.parent}/bin/mine")

    assert (checkout.parent / "used").exists()


@pytest.mark.parametrize("name", ["missing", "old"])
def test_a_named_python_that_does_not_fit_is_refused(checkout: Path, name: str):
    program(checkout, "old", "exit 1\n")
    python3(checkout)
    named = f"{checkout.parent}/bin/{name}"

    assert setup(checkout, status=1, PYTHON=named) == (
        f"script/setup: PYTHON={named} is no Python 3.11 or newer; name another one, or leave"
        " PYTHON out\n"
    )
    assert not (checkout / ".venv").exists()


def test_an_unknown_set_is_refused(checkout: Path):
    python3(checkout)

    assert "no set is called tests; script/setup --help" in setup(checkout, "tests", status=2)
    assert not (checkout / ".venv").exists()


def test_every_set_of_the_help_can_be_asked_for(checkout: Path):
    python3(checkout)
    uv(checkout)
    done = subprocess.run([ROOT / "script/setup", "-h"], capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("script/setup ")]
    named = set(re.findall(r"[a-z0-9]+(?= |$)", " ".join(x[13:24] for x in lines)))
    named |= set(re.findall(r"or (\w+):", done.stdout))
    assert named == {"test", "scrapyd", "browser", *PROJECT["optional-dependencies"]}

    assert "Ready after" in setup(checkout, *named - {"browser"})
    assert all(line in asked(checkout)[-1] for line in PROJECT["optional-dependencies"]["mcp"])


APT_GET = """\
PATH=/usr/bin:/bin
echo "$@" >>{log}
[ "$1" = install ] || exit 100
{hook}
cp "$0" {place}
"""


def apt_get(checkout: Path, hook: str = "") -> Path:
    """Put a stand-in for apt-get on PATH; return its log."""
    log, place = checkout.parent / "apt.log", checkout.parent / "bin/chromium-headless-shell"
    program(checkout, "apt-get", APT_GET.format(log=f"'{log}'", place=f"'{place}'", hook=hook))
    return log


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")
def test_a_browser_is_installed_where_there_is_none(ready: Path):
    log = apt_get(ready)
    said = setup(ready, "browser")
    assert said.endswith(f"Ready: {ready.parent}/bin/chromium-headless-shell\n")
    install = "install --yes --no-install-recommends chromium-headless-shell"
    assert log.read_text().splitlines() == ["update", install]
    assert setup(ready, "browser").startswith("The browser is there: ")
    assert len(log.read_text().splitlines()) == 2
    assert asked(ready) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs packages")
def test_a_browser_that_cannot_be_installed_is_an_error(ready: Path):
    apt_get(ready, "echo 'E: Unable to locate package' >&2; exit 100")
    said = setup(ready, "browser", status=1)
    assert "chromium-headless-shell failed: E: Unable to locate package; install a Chr" in said


def test_without_apt_the_remedy_is_named(ready: Path):
    said = setup(ready, "browser", status=1)
    assert said == (
        "script/setup: there is no apt-get on this system to fetch a browser with: install a"
        " Chromium, and name it by RENDER_BROWSER where it is not on the PATH\n"
    )


def test_setup_and_crawl_know_a_browser_by_the_same_names():
    tree = ast.parse((ROOT / "script/environment/browser.py").read_text(encoding="utf-8"))
    values = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PROGRAMS"
    ]
    assert values == [PROGRAMS]


def test_a_link_to_another_environment_is_not_changed(checkout: Path):
    python3(checkout)
    uv(checkout)
    (checkout / ".venv").symlink_to(checkout.parent / "other")
    assert "which has no bin/scrapy: remove the link" in setup(checkout, status=1)

    place = checkout.parent / "other/bin"
    place.mkdir(parents=True)
    (place / "scrapy").write_text("#!/bin/sh\n")
    (place / "scrapy").chmod(0o755)
    assert setup(checkout, "test") == ""
    assert asked(checkout) == []


def test_packages_that_do_not_load_are_an_error(checkout: Path):
    python3(checkout)
    uv(checkout)
    (checkout / "smartcrawl/broken.py").write_text("import there_is_no_such_module\n")

    assert "do not load: ModuleNotFoundError: No module named" in setup(checkout, status=1)
    (checkout / "smartcrawl/broken.py").write_text("import mcp.server\n")  # of an extra
    assert "Ready after" in setup(checkout)


# With pip


def wheel(folder: Path, name: str, version: str, *, needs: str = "") -> None:
    """A package of one module, and a program of its name."""
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        file.writestr(f"{name}/__init__.py", f"version = {version!r}\ndef main(): print(version)\n")
        file.writestr(f"{name}/extra/__init__.py", "")
        metadata_ = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        metadata_ += f"Requires-Dist: {needs}\n" * bool(needs)
        file.writestr(f"{info}/METADATA", metadata_)
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
        file.writestr(f"{info}/RECORD", "")


#: A module that says where it is, and starts the same in a process of its own.
CHILD = """
import subprocess, sys
def run():
    print("at", __file__, flush=True)
    if __name__ != "__main__":
        subprocess.run([sys.executable, "-m", "smartcrawl.child"], check=True)
if __name__ == "__main__":
    run()
"""
CHAIN = ("__main__", "child")


def test_pip_installs_what_it_is_given_and_compiles_what_is_imported(checkout: Path):
    """Real environments and a real pip; packages come from a folder, and then from nowhere."""
    python3(checkout)
    wheels = checkout.parent / "wheels"
    wheels.mkdir()
    for name, version in (
        *(("scrapy", "2.0"), ("scrapy", "2.1")),
        *(("tool", "1.0"), ("scrapyd", "1.6.0")),
    ):
        wheel(wheels, name, version)
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels.as_uri()}

    said = setup(checkout, **offline)
    assert said.startswith("Preparing .venv with pip: 1 package")
    assert version_of(checkout) == "2.0"
    (packages,) = (checkout / ".venv/lib").glob("python*/site-packages")
    assert list(packages.glob("scrapy/__pycache__/*.pyc"))
    assert not (packages / "tool").exists()
    assert not [path for path in packages.iterdir() if path.name in ("pip", "setuptools")]

    setup(checkout, "test", **offline)
    assert (packages / "tool").exists()
    assert not (packages / "tool/__pycache__").exists()

    (checkout / "requirements.txt").write_text("scrapy==2.1\n")
    closed = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    said = setup(checkout, status=1, **closed)
    assert "the package index cannot be reached: check the network" in said
    assert "pip: ERROR: Could not find a version" in said
    assert version_of(checkout) == "2.0"
    assert setup(checkout, **offline).startswith("Updating .venv with pip")
    assert version_of(checkout) == "2.1"

    for name in CHAIN:
        (checkout / f"smartcrawl/{name}.py").write_text(CHILD)
    module = [checkout / ".venv/bin/python", "-m", "smartcrawl.child"]
    command = [checkout / ".venv/bin/smartcrawl", "status"]
    assert places(*module) == [f"at {checkout}/smartcrawl/child.py"]
    assert places(*command) == [f"at {checkout}/smartcrawl/{name}.py" for name in CHAIN]
    setup(checkout, "scrapyd", **offline)
    with pytest.raises(subprocess.CalledProcessError):  # it would hide eggs
        places(*module)
    assert places(*command) == [f"at {checkout}/smartcrawl/{name}.py" for name in CHAIN]


def test_a_lock_is_installed_by_its_hashes(checkout: Path):
    python3(checkout)
    wheel(checkout.parent, "scrapy", "2.0")
    wheel(checkout.parent, "beside", "1.0")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": checkout.parent.as_uri()}
    lock = checkout / "requirements.lock"
    lock.write_text(f"scrapy==2.0 --hash=sha256:{'0' * 64}\n")
    said = setup(checkout, status=1, **offline)
    assert "a package is not the one that requirements.lock names, and was not installed" in said
    assert not (checkout / ".venv/bin/scrapy").exists()

    lock.write_text("".join(locked(checkout.parent)))
    wheel(checkout.parent, "tool", "1.0")  # of the tests, which the lock has not
    assert "Ready after" in setup(checkout, "test", **offline)
    for name in ("beside", "tool"):
        assert list((checkout / ".venv/lib").glob(f"python*/site-packages/{name}"))
    assert setup(checkout, **offline) == ""
    lock.write_text("".join(reversed(locked(checkout.parent))))
    assert "Updating .venv" in setup(checkout, **offline)


def locked(folder: Path) -> list[str]:
    """Return the lines of a lock of all wheels in a folder."""
    lines = []
    for file in sorted(folder.glob("*.whl")):
        name, version, _ = file.name.split("-", 2)
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        lines.append(f"{name}=={version} --hash=sha256:{digest}\n")
    return lines


def with_a_wrong_hash(lines: list[str], name: str) -> list[str]:
    """Return the lines of a lock, that of one package with another hash."""
    none = f"sha256:{'0' * 64}"
    return [re.sub("sha256:.*", none, line) if line.startswith(name) else line for line in lines]


@pytest.mark.parametrize("wrong", ["beside", "scrapy"])
def test_a_wrong_hash_of_either_part_is_refused_and_an_old_environment_stays(
    checkout: Path, wrong: str
):
    python3(checkout)
    wheels, older = checkout.parent / "wheels", checkout.parent / "older"
    for folder, version in ((older, "2.0"), (wheels, "2.1")):
        folder.mkdir()
        wheel(folder, "scrapy", version)
        wheel(folder, "beside", version)
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{wheels.as_uri()} {older.as_uri()}"}
    lock = checkout / "requirements.lock"
    lock.write_text("".join(with_a_wrong_hash(locked(older), wrong)))
    said = setup(checkout, status=1, **offline)
    assert "a package is not the one that requirements.lock names" in said

    lock.write_text("".join(locked(older)))
    assert setup(checkout, **offline).startswith("Preparing")  # a half is no environment
    lock.write_text("".join(with_a_wrong_hash(locked(wheels), wrong)))
    (checkout / "requirements.txt").write_text("scrapy==2.1\n")
    assert "requirements.lock names, and was not installed" in setup(checkout, status=1, **offline)
    assert version_of(checkout) == "2.0"
    (packages,) = (checkout / ".venv/lib").glob("python*/site-packages")
    assert sorted(path.name for path in packages.glob("*.dist-info")) == [
        "beside-2.0.dist-info", "scrapy-2.0.dist-info",
    ]  # fmt: skip


def test_a_dependency_that_the_lock_has_not_is_refused(checkout: Path):
    """Each part of a lock is installed without dependencies; the whole one finds this."""
    python3(checkout)
    wheels, others = checkout.parent / "wheels", checkout.parent / "others"
    for folder in (wheels, others):
        folder.mkdir()
    wheel(wheels, "scrapy", "2.0", needs="unlocked")
    wheel(wheels, "beside", "1.0")
    wheel(others, "unlocked", "1.0")
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": f"{wheels.as_uri()} {others.as_uri()}"}
    (checkout / "requirements.lock").write_text("".join(locked(wheels)))

    said = setup(checkout, status=1, **offline)

    assert "requirements.lock lacks a package for this Python and machine" in said
    assert not list((checkout / ".venv/lib").glob("python*/site-packages/unlocked"))


def places(*command: str | Path) -> list[str]:
    """Return what a command says in another folder."""
    done = subprocess.run(command, cwd="/", capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def version_of(checkout: Path) -> str:
    done = subprocess.run(
        [checkout / ".venv/bin/scrapy"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


# With everything


@pytest.mark.long
def test_a_new_checkout_finds_its_first_page_within_a_minute(tmp_path: Path):
    """Real packages, downloaded: needs a network, and a machine with nothing else to do."""
    root = tmp_path / "smartcrawl"
    ignored = ignore_patterns(".git", ".venv", ".smartcrawl", "__pycache__", ".*_cache", "tests")
    with Site() as site:
        site.pages["/"] = html("Home", *(f"/{number}" for number in range(1, 100)))
        for number in range(1, 100):
            site.pages[f"/{number}"] = html(f"Page {number}", text=f"quokka {number}")
        began = time.monotonic()
        copytree(ROOT, root, ignore=ignored)
        environment = os.environ | {"PIP_NO_CACHE_DIR": "1", "UV_NO_CACHE": "1"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        subprocess.run([root / "script/setup"], env=environment, check=True, timeout=600)
        compiled = set((root / ".venv").rglob("*.pyc"))
        command = [root / "script/crawl", site.url("/")]
        subprocess.run(command, env=environment, check=True, timeout=600)
    command = [root / ".venv/bin/scrapy", "search", "quokka 42"]
    found = subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=True
    )
    took = time.monotonic() - began

    assert "/42" in found.stdout
    assert took <= 60
    assert set((root / ".venv").rglob("*.pyc")) == compiled
    command = ["du", "-s", "--block-size=MB", root / ".venv"]
    used = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(used.stdout.partition("MB")[0]) <= 200
