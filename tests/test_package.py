"""The wheel and the source distribution: built from the checkout, installed, and used."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from smartcrawl import __version__
from tests.site_server import Site, html

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def run(*command: object, **options: object) -> str:
    """Run a command, and return its output."""
    result = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=120, **options
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Build both files, and return the source distribution and the wheel."""
    out = tmp_path_factory.mktemp("dist")
    result = subprocess.run(
        [sys.executable, ROOT / "script" / "build", "--out", out],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if "could not be installed" in result.stderr and not os.environ.get(
        "SMARTCRAWL_REQUIRE_SERVERS"
    ):
        pytest.skip("the build backend is not installed, and cannot be downloaded")
    assert result.returncode == 0, result.stderr
    return next(out.glob("*.tar.gz")), next(out.glob("*.whl"))


@pytest.mark.long
def test_the_version_is_one(built: tuple[Path, Path]):
    assert PROJECT["version"] == __version__
    assert [file.name for file in built] == [
        f"smartcrawl-{__version__}.tar.gz", f"smartcrawl-{__version__}-py3-none-any.whl",
    ]  # fmt: skip


@pytest.mark.long
def test_the_wheel_has_every_file_of_the_package_and_no_other(built: tuple[Path, Path]):
    listed = run("git", "ls-files", "-z", "smartcrawl", cwd=ROOT).split("\0")
    files = {name for name in listed if name and (ROOT / name).exists()}

    packed = set(zipfile.ZipFile(built[1]).namelist())

    assert {name for name in packed if ".dist-info/" not in name} == files
    assert any(name.endswith(".sql") for name in files)
    assert any(name.endswith(".lua") for name in files)
    shown = {name for name in files if name.startswith("smartcrawl/server/pages/")}
    assert {Path(name).suffix for name in shown} >= {".html", ".css", ".js", ".svg", ".xml"}
    licences = {Path(name).name for name in packed if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}


@pytest.mark.long
def test_the_source_distribution_has_the_documents_and_the_build(built: tuple[Path, Path]):
    with tarfile.open(built[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}

    assert {"pyproject.toml", "requirements.txt", "README.md", "CHANGELOG.md", "LICENSE"} <= names
    assert {"docs/cli.md", "smartcrawl/__main__.py", "sources.example.toml"} <= names
    assert not {name for name in names if name.startswith(("tests", ".venv", "dist", ".git"))}
    cited = set()
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        words = re.findall(r"[\w@./-]+", page.read_text(encoding="utf-8"))
        cited |= {word.removeprefix("./") for word in words if "/" in word or "." in word}
    files = {name for name in cited if (ROOT / name).is_file()}
    assert {"compose.yaml", "script/setup", "deploy/kubernetes/api.yaml"} <= files
    ours = set(run("git", "ls-files", cwd=ROOT).splitlines())
    beside = ("tests/", ".ci/")  # of a checkout, with git
    assert {name for name in files & ours if not name.startswith(beside)} <= names


@pytest.mark.long
def test_a_build_leaves_the_checkout_as_it_is_and_takes_nothing_of_an_older_one(
    built: tuple[Path, Path], tmp_path: Path
):
    """It may be read-only, and may have a module that was deleted since in build/."""
    checkout, out = tmp_path / "checkout", tmp_path / "out"
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    unpacked.rename(checkout)
    shutil.rmtree(checkout / "smartcrawl.egg-info", ignore_errors=True)
    (checkout / "build/lib/smartcrawl").mkdir(parents=True)
    (checkout / "build/lib/smartcrawl/ghost.py").touch()
    out.mkdir()
    before = sorted(checkout.rglob("*"))
    hooks = "from setuptools import build_meta as b; b.get_requires_for_build_wheel()"
    hooks += "; b.prepare_metadata_for_build_wheel({0!r}); b.build_wheel({0!r})"
    environment = os.environ | {"PYTHONPATH": str(ROOT / "build" / "tools")}
    words = (sys.executable, "-B", "-S", "-c", hooks.format(str(out)))

    run(*words, cwd=checkout, env=environment)

    assert sorted(checkout.rglob("*")) == before
    names = zipfile.ZipFile(next(out.glob("*.whl"))).namelist()
    assert "smartcrawl/__main__.py" in names
    assert "smartcrawl/ghost.py" not in names


@pytest.mark.long
def test_a_second_build_of_one_commit_has_the_same_bytes(built: tuple[Path, Path], tmp_path: Path):
    run(sys.executable, ROOT / "script" / "build", "--out", tmp_path)

    assert (tmp_path / built[1].name).read_bytes() == built[1].read_bytes()


#: Runs a program with the tarfile of Python 3.11.2.
WITHOUT_FILTERS = """
import runpy, sys, tarfile

whole = tarfile.TarFile.extractall
del tarfile.data_filter
tarfile.TarFile.extractall = lambda self, path: whole(self, path)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.long
def test_the_python_of_debian_12_builds(built: tuple[Path, Path], tmp_path: Path):
    """Its tarfile has no filters, and its pipx brings a packaging too old for the backend."""
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path)
    (root,) = tmp_path.iterdir()
    shutil.copytree(ROOT / "script", root / "script", dirs_exist_ok=True)
    shutil.copytree(ROOT / "build" / "tools", root / "build" / "tools")
    run(sys.executable, "-m", "venv", "--without-pip", root / ".venv")
    (site,) = root.glob(".venv/lib/python*/site-packages")
    (site / "packaging").mkdir()
    (site / "packaging" / "__init__.py").touch()

    run(sys.executable, "-c", WITHOUT_FILTERS, root / "script" / "build")

    assert (root / "dist" / built[1].name).exists()


@pytest.fixture(scope="module")
def installed(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel in a new environment that finds the packages of this one."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", folder)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(built[1]) as wheel:
        wheel.extractall(site)
        entries = wheel.read(f"smartcrawl-{__version__}.dist-info/entry_points.txt").decode()
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    found = re.search(r"^smartcrawl = ([\w.]+):(\w+)$", entries, re.MULTILINE)
    assert found is not None, entries
    program = folder / "bin" / "smartcrawl"
    program.write_text(
        f"#!{folder / 'bin' / 'python'}\nfrom {found[1]} import {found[2]}\n{found[2]}()\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program


@pytest.mark.long
def test_the_installed_command_crawls_and_searches_from_an_empty_folder(
    installed: Path, tmp_path: Path
):
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    environment |= {"AUTOTHROTTLE_ENABLED": "0", "SOFT_404_DETECTION": "0"}
    here = tmp_path / "here"
    here.mkdir()

    def smartcrawl(*words: str) -> str:
        return run(installed, *words, cwd=here, env=environment)

    code = "import smartcrawl; print(smartcrawl.__file__)"
    where = run(installed.parent / "python", "-c", code, cwd=here, env=environment)
    assert where.startswith(str(installed.parents[1])), "another smartcrawl was imported"
    assert smartcrawl("--version") == f"smartcrawl {__version__}\n"
    with Site() as site:
        site.pages["/"] = html("Home", "/a")
        site.pages["/a"] = html("Undoing changes")
        assert "Run 1 of" in smartcrawl("crawl", site.url("/"))
        assert site.url("/a") in smartcrawl("search", "undoing")
        assert "2 answered 304" in smartcrawl("crawl", site.url("/"))
    assert "smartcrawl" in smartcrawl()
    assert list(here.iterdir()) == []
    assert (tmp_path / "home" / ".local" / "share" / "smartcrawl" / "registry.db").exists()
