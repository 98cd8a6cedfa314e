"""Where what the machine lacks is kept, and what is said where it cannot be had."""

import fcntl
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest


class UnavailableError(Exception):
    """A program or package cannot be had on this machine; the message says why."""


def absent(reason: str) -> NoReturn:
    """End the test: what it needs cannot be had, for `reason`."""
    if os.environ.get("SMARTCRAWL_REQUIRE_SERVERS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def cache_folder() -> Path:
    """Where what is fetched is kept."""
    named = os.environ.get("SMARTCRAWL_TEST_CACHE")
    if named:
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "smartcrawl-tests"


def release() -> str:
    """Distribution, version and machine: a home directory may be seen by several of them."""
    try:
        about = platform.freedesktop_os_release()
    except OSError as error:
        raise UnavailableError(f"this system does not name itself: {error}") from error
    return f"{about['ID']}-{about.get('VERSION_ID', 'unstable')}-{platform.machine()}"


def cache_base() -> Path:
    """The folder of this system in the cache, made at first use."""
    base = cache_folder().absolute() / release()
    base.mkdir(parents=True, exist_ok=True)
    return base


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time: whoever fetches, the others wait and find it."""
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
