"""Chromium, as installed or unpacked from Debian, as a program that any user may start."""

import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from smartcrawl.extract.browser.launch import find_browser
from smartcrawl.extract.browser.pipe import BrowserError
from tests.servers.cache import UnavailableError, absent
from tests.servers.debian import library_path, unpacked

_PACKAGE = "chromium-headless-shell"
_PROGRAM = "usr/lib/chromium/chromium-headless-shell"
_DATA = "usr/lib/chromium/icudtl.dat"  #: of chromium-common


@contextmanager
def chromium() -> Iterator[str]:
    """Yield the path of a Chromium.

    Root starts it as another user, who may not enter a home directory: it gets links to the files
    elsewhere then.
    """
    found = browser_lookup()
    if isinstance(found, UnavailableError):
        absent(f"Chromium is not available: {found}")
    program, tree = found
    if tree is None:
        yield str(program)
        return
    with tempfile.TemporaryDirectory(prefix="smartcrawl-chromium-") as name:
        place = Path(name)
        place.chmod(0o755)
        shown = place / "tree" if _is_hidden(tree) else tree
        if shown != tree:
            shutil.copytree(tree, shown, symlinks=True, copy_function=_link)
        start = place / "chromium"
        start.write_text(
            f"#!/bin/sh\nexport LD_LIBRARY_PATH={library_path(shown)}\n"
            f'exec {shown / _PROGRAM} "$@"\n'
        )
        start.chmod(0o755)
        yield str(start)


def _is_hidden(tree: Path) -> bool:
    """Whether another user cannot reach it, and will be another user."""
    hidden = any(not path.stat().st_mode & stat.S_IXOTH for path in (tree, *tree.parents))
    return os.geteuid() == 0 and hidden


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another file system
        shutil.copy2(source, target, follow_symlinks=False)


@cache
def browser_lookup() -> tuple[Path, Path | None] | UnavailableError:
    """The program, and the tree that it was unpacked to; asked once per process."""
    try:
        return Path(find_browser()), None
    except BrowserError:
        pass

    def found(tree: Path) -> Path | None:
        is_whole = all((tree / name).is_file() for name in (_PROGRAM, _DATA))
        return tree / _PROGRAM if is_whole else None

    try:
        tree = unpacked(_PACKAGE, found, follow=re.compile("^chromium"), libraries=True)
    except UnavailableError as error:
        return error
    return tree / _PROGRAM, tree
