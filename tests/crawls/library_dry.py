"""Dry runs of libraries in whole crawls: their counts, and that nothing changes by them."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.crawls.commands import Crawl, differences
from tests.crawls.libraries import DOMAIN, LibraryCrawl

#: Promised to be those of the run that follows.
COUNTS = (
    "mode", "complete", "listed", "added", "changed", "removed", "unchanged", "downloaded",
    "processed", "failed", "skipped", "withheld",
)  # fmt: skip
_FOUND = ("missingInMap", "missingOnDisk", "orphans", "moved")


def snapshot(crawl: Crawl) -> dict[str, Any]:
    """Each folder and file of DATA_DIR with its mode, time and bytes, and each table."""
    paths = [crawl.data_dir, *crawl.data_dir.rglob("*")] if crawl.data_dir.exists() else []
    found: dict[str, Any] = {str(path): _facts(path) for path in sorted(paths)}
    # The index of a log that a killed process left: it has no content, and any reader may write it.
    found.pop(str(crawl.data_dir / "registry.db-shm"), None)
    if not isinstance(crawl.registry, Path):
        found |= dict(crawl.registry.tables())
    return found


def _facts(path: Path) -> tuple[Any, ...]:
    known = path.lstat()
    body = path.read_bytes() if stat.S_ISREG(known.st_mode) else None
    return known.st_mode, known.st_mtime_ns, body


@contextmanager
def unchanged(crawl: Crawl) -> Iterator[None]:
    """Everything stays byte for byte, and so do the times."""
    before = snapshot(crawl)
    yield
    after = snapshot(crawl)
    different = [key for key in before | after if before.get(key) != after.get(key)]
    assert different == [], different


def counts(found: dict[str, Any]) -> dict[str, Any]:
    """What is compared of a source in JSON."""
    return {name: found[name] for name in COUNTS} | {
        name: found["integrity"][name] for name in _FOUND
    }


def compare(libraries: LibraryCrawl, step: str = "download", *words: str) -> dict[str, Any]:
    """Carry out a step, after a dry run that counts the same; return what the dry run says."""
    with unchanged(libraries.crawl):
        libraries.server.log.clear()
        dry = libraries.library(step, DOMAIN, *words, "--dry-run", expect=None)
        assert libraries.downloads() == 0
    assert dry["dryRun"] is True
    real = libraries.library(step, DOMAIN, *words, expect=None)
    assert real["dryRun"] is False
    told = f"{dry['result']}\n--- and then\n{real['result']}"
    for one, other in zip(dry["sources"], real["sources"], strict=True):
        assert list(differences(counts(one), counts(other))) == [], told
    assert dry["complete"] == real["complete"], told
    assert dry["result"].status == real["result"].status, told
    return dry
