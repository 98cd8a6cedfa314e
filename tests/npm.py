"""Programs of npm for tests, fetched at first use into the cache folder of tests/servers."""

import fcntl
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.servers import UnavailableError, cache_folder, release

_SECONDS = 600


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """A package, and the node that runs it."""

    node: str
    folder: Path


def npm_package(name: str, version: str) -> NpmPackage | UnavailableError:
    """The package, whole. Ask once per process: without a network, asking costs seconds."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return UnavailableError("there is no node, or no npm to fetch it with")
    try:
        tree = _installed(npm, name, version)
    except UnavailableError as error:
        return error
    except (OSError, subprocess.SubprocessError) as error:
        return UnavailableError(str(error))
    return NpmPackage(node, tree / "node_modules" / name)


def _installed(npm: str, name: str, version: str) -> Path:
    """The folder into which npm put it, at first use by one process and complete or absent."""
    base = cache_folder().absolute() / release()
    base.mkdir(parents=True, exist_ok=True)
    short = name.strip("@").replace("/", "-")
    tree = base / f"{short}-{version}"
    with (base / f"{short}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if tree.exists():
            return tree
        part = base / f"{tree.name}.part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        options = ("--loglevel=error", "--no-fund", "--no-audit", "--ignore-scripts")
        done = subprocess.run(
            [npm, "install", *options, "--prefix", str(part), f"{name}@{version}"],
            cwd=part,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode:
            raise UnavailableError(f"npm install {name}@{version}: {done.stderr.strip()}")
        return part.rename(tree)
