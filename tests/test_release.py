"""script/release refuses what is not ready, and builds, hashes, describes and tags what is."""

import hashlib
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
VERSION = "9.8.7"


class Checkout:
    """A clone of the checkout, with the working files of this one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        cloned = subprocess.run(
            ["git", "clone", "--quiet", "--no-tags", ROOT, folder], capture_output=True, check=False
        )
        if cloned.returncode:
            pytest.skip("this is no git checkout")
        self.git("config", "user.name", "Release")
        self.git("config", "user.email", "release@example.org")
        for name in self._changed():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)

    @staticmethod
    def _changed() -> list[str]:
        words = ["git", "ls-files", "--modified", "--others", "--exclude-standard"]
        listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
        return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]

    def git(self, *words: str) -> str:
        """Return the output of git."""
        done = subprocess.run(
            ["git", *words], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def replace(self, name: str, old: str, new: str) -> None:
        """Replace a text in a file, which has to be there."""
        file = self.folder / name
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), encoding="utf-8")

    def prepare(self) -> None:
        """Do all that a release needs, and commit it."""
        now = tomllib.loads((self.folder / "pyproject.toml").read_text("utf-8"))["project"]
        self.replace("pyproject.toml", f'version = "{now["version"]}"', f'version = "{VERSION}"')
        self.replace(
            "smartcrawl/__init__.py",
            f'__version__ = "{now["version"]}"',
            f'__version__ = "{VERSION}"',
        )
        self.replace(
            "CHANGELOG.md", "## [Unreleased]", f"## [Unreleased]\n\n## [{VERSION}] - 2026-12-01"
        )
        self.commit()
        self.passed()

    def commit(self) -> None:
        """Commit everything."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "Release")

    def passed(self) -> None:
        """Note that script/test --all passed, as it does."""
        (self.folder / ".test-cache").mkdir(exist_ok=True)
        commit = self.git("rev-parse", "HEAD")
        (self.folder / ".test-cache" / "passed-all").write_text(commit + "\n", encoding="utf-8")

    def release(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """Run script/release."""
        return subprocess.run(
            [sys.executable, self.folder / "script" / "release", *words],
            capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


@pytest.mark.long
def test_a_release_has_files_hashes_a_bill_and_a_tag(checkout: Checkout):
    tools = ROOT / "build" / "tools"
    if tools.exists():  # so that they are not downloaded once more
        shutil.copytree(tools, checkout.folder / "build" / "tools")
    checkout.prepare()

    done = checkout.release(VERSION)

    if "could not be installed" in done.stderr and not os.environ.get("SMARTCRAWL_REQUIRE_SERVERS"):
        pytest.skip("the build backend is not installed, and cannot be downloaded")
    assert done.returncode == 0, done.stderr
    dist = checkout.folder / "dist"
    wheel = f"smartcrawl-{VERSION}-py3-none-any.whl"
    named = {wheel, f"smartcrawl-{VERSION}.tar.gz", f"smartcrawl-{VERSION}.cdx.json"}
    named |= {f"smartcrawl-{VERSION}-image.cdx.json"}
    sums = dict(
        reversed(line.split("  ")) for line in (dist / "SHA256SUMS").read_text().splitlines()
    )
    assert sums.keys() == named
    assert sums[wheel] == hashlib.sha256((dist / wheel).read_bytes()).hexdigest()
    assert checkout.git("cat-file", "-t", f"v{VERSION}") == "tag"
    assert "### Added" in checkout.git("tag", "--list", "--format=%(contents)", f"v{VERSION}")
    again = checkout.release(VERSION, "--dry-run")
    assert f"the tag v{VERSION} exists" in again.stderr


def test_a_dry_run_says_what_it_would_do_and_does_nothing(checkout: Checkout):
    checkout.prepare()

    done = checkout.release(VERSION, "--dry-run")

    assert (done.returncode, done.stderr) == (0, "")
    assert f"it would build dist/smartcrawl-{VERSION}.tar.gz" in done.stdout
    assert checkout.git("tag") == ""
    assert not (checkout.folder / "dist").exists()


def test_everything_that_is_missing_is_named_at_once(checkout: Checkout):
    done = checkout.release(VERSION)

    assert done.returncode == 1
    told = done.stderr
    assert f"pyproject.toml has version 0.1.0: set it to {VERSION}" in told
    assert f"smartcrawl/__init__.py has another __version__: set it to {VERSION}" in told
    assert f"CHANGELOG.md has no section '## [{VERSION}] - YYYY-MM-DD'" in told
    assert "script/test --all has not passed on this tree" in told
    assert not (checkout.folder / "dist").exists()


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("name", "old", "new", "problem"),
    [
        ("README.md", "#", "##", "the checkout is not clean, commit or remove: README.md"),
        ("CHANGELOG.md", f"## [{VERSION}] - 2026-12-01", f"## [{VERSION}]", "has no section"),
        (
            "CHANGELOG.md",
            f"\n\n## [{VERSION}]",
            f"\n\n- News\n\n## [{VERSION}]",
            "under Unreleased",
        ),
        ("requirements.lock", "\nrich==", "\nrich==1.", "run script/lock"),
        ("requirements.lock", "\nrich==", "\nother==1.0\nrich==", "no hash of other==1.0"),
        ("requirements.lock", "\nrich==", "\n#://a.example\nrich==", "address of an index"),
    ],
)
def test_a_release_that_is_not_ready_is_refused(
    checkout: Checkout, name: str, old: str, new: str, problem: str
):
    checkout.prepare()
    checkout.replace(name, old, new)
    if name != "README.md":
        checkout.commit()
        checkout.passed()

    done = checkout.release(VERSION)

    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == (2 if "#" in new and name == "requirements.lock" else 1)  # no hash, too
    assert problem in lines[-1]
    assert checkout.git("tag") == ""


def test_tests_of_another_tree_do_not_count_and_those_of_another_commit_do(checkout: Checkout):
    checkout.prepare()
    checkout.git("commit", "--quiet", "--amend", "--message", "Release it")
    assert checkout.release(VERSION, "--dry-run").returncode == 0
    checkout.replace("README.md", "#", "##")
    checkout.commit()

    assert "script/test --all has not passed on this tree" in checkout.release(VERSION).stderr


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["1.2", "--dry-run"], 1, "1.2 is no version"),
        (["1.2.0", "1.3.0"], 2, "expected one version"),
        (["--dryrun"], 2, "expected one version"),
    ],
)
def test_wrong_words_are_refused(words: list[str], status: int, message: str):
    done = subprocess.run(
        [sys.executable, ROOT / "script" / "release", *words],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == status
    assert message in done.stderr


def test_the_bill_has_every_package_of_the_lock_and_of_the_project(tmp_path: Path):
    file = tmp_path / "bill.json"
    subprocess.run([sys.executable, ROOT / "script" / "release", "--sbom", file], check=True)
    bill = json.loads(file.read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]

    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", bill["serialNumber"])
    assert bill["metadata"]["component"]["version"] == project["version"]
    refs = [part["bom-ref"] for part in bill["components"]]
    assert len(refs) == len(set(refs)) == len(re.findall(r"^\S+==", LOCK, re.MULTILINE))
    (root,) = bill["dependencies"]
    assert set(root["dependsOn"]) <= set(refs)
    assert len(root["dependsOn"]) == len(project["dependencies"])
    (scrapy,) = (line for line in project["dependencies"] if line.startswith("scrapy=="))
    assert f"pkg:pypi/{scrapy.replace('==', '@')}" in root["dependsOn"]


def test_the_bill_of_the_image_has_its_packages_and_its_base():
    release = runpy.run_path(str(ROOT / "script" / "release"))
    bill = release["bill"](release["IMAGE"])

    names = {part["name"] for part in bill["components"]}
    assert {"scrapy", "s3fs", "adlfs", "mcp", "setuptools"} <= names
    assert "onnxruntime" not in names
    (base,) = (part for part in bill["components"] if part["type"] == "container")
    (digest,) = base["hashes"]
    assert (base["name"], len(digest["content"])) == ("python", 64)
    assert bill["serialNumber"] != release["bill"]()["serialNumber"]


def test_the_lock_has_every_dependency_with_hashes_and_no_address():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    entries = re.split(r"\n(?=\S)", LOCK.strip())

    for requirement in project["dependencies"]:
        name, version = requirement.split("==")
        pinned = f"{name.replace('.', '-')}=={version}"
        assert any(entry.startswith(f"{pinned} ") for entry in entries), requirement
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in LOCK
