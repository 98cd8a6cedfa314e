"""Debian packages unpacked without root, below the cache folder, whole or not at all.

Nothing on the system changes: apt fetches with a state of its own.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.servers.cache import UnavailableError, absent, cache_base, locked

_APT_SECONDS = 300


def debian_docs(package: str) -> Path:
    """The directory of HTML pages in a Debian documentation package, e.g. "python3-doc".

    A package that only depends on the real one is followed. Symbolic links to files of other
    packages (jquery.js) dangle.
    """
    try:
        tree = unpacked(package, _html, follow=re.compile(r"-doc\b|-doc-|-html\b"))
    except UnavailableError as error:
        absent(f"{package} is not available: {error}")
    pages = _html(tree)
    if pages is None:
        raise RuntimeError(f"{tree} was changed: it holds no HTML any more; remove it")
    return pages


def _html(tree: Path) -> Path | None:
    docs = tree / "usr/share/doc"
    indexes = sorted(docs.glob("*/html/index.html")) or sorted(docs.glob("*/manual/en/index.html"))
    return indexes[0].parent.resolve() if indexes else None


def library_path(tree: Path) -> str:
    """The directories of shared libraries in an unpacked tree, "" when it has none."""
    found = [*tree.glob("**/*.so.*"), *tree.glob("**/lib*-[0-9]*.so")]  # libpulsecommon-16.1.so
    return ":".join(sorted({str(path.parent) for path in found}))


def debian_program(package: str, program: str, follow: str) -> tuple[Path, str] | UnavailableError:
    """A program and its LD_LIBRARY_PATH, as installed or unpacked from a Debian package.

    `program` is its path in the package, "usr/sbin/nginx". `follow` matches the names of the
    dependencies to look for it in.
    """
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    if installed := shutil.which(Path(program).name, path=path):
        return Path(installed), ""

    def found(tree: Path) -> Path | None:
        return tree / program if (tree / program).is_file() else None

    try:
        tree = unpacked(package, found, follow=re.compile(follow), libraries=True)
    except UnavailableError as error:
        return error
    return tree / program, library_path(tree)


def _missing_libraries(binary: Path, tree: Path) -> list[str]:
    ldd = subprocess.run(
        ["ldd", binary],
        env=os.environ | {"LD_LIBRARY_PATH": library_path(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    return re.findall(r"^\s*(\S+) => not found", ldd.stdout, re.MULTILINE)


def unpacked(
    package: str,
    wanted: Callable[[Path], Path | None],
    *,
    follow: re.Pattern[str],
    libraries: bool = False,
) -> Path:
    """The tree of a Debian package, fetched at first use by one process and complete or absent.

    `wanted` finds in a tree what the package is fetched for. While it does not, dependencies whose
    name matches `follow` are added; `libraries` adds those whose shared libraries are missing.
    """
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", package):
        raise ValueError(f"not a Debian package name: {package!r}")
    try:
        base = cache_base()
        tree = base / package
        with locked(base / "lock"):
            if tree.exists():
                return tree
            part = base / f"{package}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            _fill(part, package, wanted, follow, libraries=libraries, apt=_Apt.below(base / "apt"))
            return part.rename(tree)
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(str(error)) from error


def _fill(
    part: Path,
    package: str,
    wanted: Callable[[Path], Path | None],
    follow: re.Pattern[str],
    *,
    libraries: bool,
    apt: "_Apt",
) -> None:
    queue, seen = [package], {package}
    shared: list[str] = []

    def unpack(name: str) -> None:
        apt.unpack(name, part)
        for each in apt.depends(name):
            # libc belongs to the system's loader and cannot be replaced by LD_LIBRARY_PATH; LLVM is
            # large, and PostgreSQL runs without it.
            if each in seen or re.match(r"libc6|libgcc|libllvm", each):
                continue
            seen.add(each)
            if follow.search(each):
                queue.append(each)
            elif re.match(r"lib|zlib", each):
                shared.append(each)

    while (found := wanted(part)) is None:
        if not queue:
            raise UnavailableError(f"{package} and what it depends on do not hold what is wanted")
        unpack(queue.pop(0))
    while libraries and (missing := _missing_libraries(found, part)):
        if not shared:
            raise UnavailableError(f"{found.name} lacks {', '.join(missing)}")
        unpack(shared.pop(0))


@dataclass(frozen=True, slots=True)
class _Apt:
    """apt with the system's sources and keys, but with a state and a cache of its own."""

    home: Path

    @classmethod
    def below(cls, home: Path) -> "_Apt":
        if not (shutil.which("apt-get") and shutil.which("dpkg")):
            raise UnavailableError("it is not installed, and there is no apt-get to fetch it with")
        (home / "state/lists/partial").mkdir(parents=True, exist_ok=True)
        (home / "cache/archives/partial").mkdir(parents=True, exist_ok=True)
        # The hooks of a system's configuration clear caches and refresh catalogues outside `home`.
        (home / "apt.conf").write_text(
            f'Dir::State "{home}/state";\n'
            f'Dir::Cache "{home}/cache";\n'
            'Acquire::Languages "none";\n'
            'APT::Sandbox::User "root";\n'  # _apt may not enter a home directory
            "#clear APT::Update::Pre-Invoke;\n"
            "#clear APT::Update::Post-Invoke;\n"
            "#clear APT::Update::Post-Invoke-Success;\n"
        )
        apt = cls(home)
        # Not checked: one source of many may fail, and what counts is whether the download works.
        apt.run("apt-get", "update", check=False)
        return apt

    def run(
        self, program: str, *arguments: str, check: bool = True, cwd: Path | None = None
    ) -> str:
        # "-c" is read after the system's configuration, APT_CONFIG before it.
        done = subprocess.run(
            [program, "-q", "-c", str(self.home / "apt.conf"), *arguments],
            cwd=cwd or self.home,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_APT_SECONDS,
            check=False,
        )
        if check and done.returncode:
            raise UnavailableError(f"{program} {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def unpack(self, package: str, tree: Path) -> None:
        with tempfile.TemporaryDirectory(dir=self.home) as name:
            self.run("apt-get", "download", package, cwd=Path(name))
            for archive in Path(name).glob("*.deb"):
                subprocess.run(
                    ["dpkg", "-x", archive, tree], check=True, capture_output=True, text=True
                )

    def depends(self, package: str) -> list[str]:
        listed = self.run("apt-cache", "depends", "--important", package)
        return re.findall(r"Depends: ([a-z0-9][a-z0-9+.-]+)$", listed, re.MULTILINE)
