"""Folders, buckets and libraries that a run found empty, though documents of them are stored.

An unmounted drive looks like that, and a library whose app lost its rights. A drive within a folder
shows by its device. So the run removes nothing; an operator may approve it.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.removal.candidates import NOT_LISTED
from smartcrawl.registry.removal.purge import PAGE_COLUMNS, Target, removal_target
from smartcrawl.rules.model import RemovalRule, Status
from smartcrawl.sources.kinds import FILES, SHAREPOINT

_REASON: Final = re.compile(
    r"listing: (?P<root>.+) \(it has no file, and [\d,]+ files? (?:is|are) stored\)"
)
_LIBRARY_REASON: Final = re.compile(
    r"listing: .+ \(it lists no item, no count confirms that, and [\d,]+ documents? (?:is|are)"
    r" stored\)"
)
_NO_DEVICE: Final = "the device that was mounted there is not any more"
_OTHER_DEVICE: Final = "another device is mounted there than before"
_MOUNT_REASON: Final = re.compile(
    rf"listing: .+ \((?:{_NO_DEVICE}|{_OTHER_DEVICE}), and [\d,]+ files? (?:is|are) missing\)"
)
_REASONS: Final = "SELECT reasons FROM run WHERE no = ?"
#: Stored documents that neither this run nor a later one has seen. What is out of scope is no part
#: of the listing.
_UNSEEN: Final = f"""{PAGE_COLUMNS}, EXISTS (SELECT 1 FROM pin WHERE no = r.no)
  FROM state s JOIN record r USING (no) JOIN source o ON o.no = r.source
 WHERE o.no = (SELECT source FROM run WHERE no = :run) AND o.kind IN (:files, :library)
   AND s.standing > 0 AND s.seen_run < :run AND s.reached_run < :run
   AND s.visited_run < :run AND s.status <> {int(Status.OUT_OF_SCOPE)}
 ORDER BY r.no
"""


def emptied_root_problem(root: str, stored: int) -> str:
    """Return the problem of a listing that has no file; ``stored``: how many files are stored.

    >>> emptied_root_problem("/docs", 1)
    '/docs (it has no file, and 1 file is stored)'
    """
    files = "1 file is" if stored == 1 else f"{stored:,} files are"
    return f"{root} (it has no file, and {files} stored)"


def mount_problem(place: str, missing: int, *, is_mount: bool) -> str:
    """Return the problem of a folder that had a device of its own in the last run.

    ``missing``: stored files below it that are not there. ``is_mount``: whether another device is
    mounted there now.

    >>> mount_problem("/docs/share", 1, is_mount=False)
    '/docs/share (the device that was mounted there is not any more, and 1 file is missing)'
    >>> mount_problem("/docs/share", 2, is_mount=True)
    '/docs/share (another device is mounted there than before, and 2 files are missing)'
    """
    files = "1 file is" if missing == 1 else f"{missing:,} files are"
    what = _OTHER_DEVICE if is_mount else _NO_DEVICE
    return f"{place} ({what}, and {files} missing)"


def is_mount_reason(reason: str) -> bool:
    """Whether a run is incomplete because a device is not mounted in a folder any more.

    >>> is_mount_reason("listing: " + mount_problem("/docs", 1_000, is_mount=False))
    True
    """
    return _MOUNT_REASON.fullmatch(reason) is not None


def emptied_library_problem(root: str, stored: int) -> str:
    """Return the problem of a library that lists no item; ``stored``: number of its documents.

    It is one where no count of the library confirms that (ADR 84).

    >>> emptied_library_problem("https://a.example/Docs", 1)
    'https://a.example/Docs (it lists no item, no count confirms that, and 1 document is stored)'
    """
    documents = "1 document is" if stored == 1 else f"{stored:,} documents are"
    return f"{root} (it lists no item, no count confirms that, and {documents} stored)"


def is_emptied_library_reason(reason: str) -> bool:
    """Whether a run is incomplete because a library lists no item.

    >>> is_emptied_library_reason("listing: " + emptied_library_problem("https://a.example", 9))
    True
    """
    return _LIBRARY_REASON.fullmatch(reason) is not None


def is_emptied_root_reason(reason: str) -> bool:
    """Whether a run is incomplete because a folder or bucket has no file.

    >>> is_emptied_root_reason("listing: " + emptied_root_problem("/docs", 1_000))
    True
    >>> is_emptied_root_reason("listing: " + emptied_root_problem("https://github.com/a/b", 1))
    False
    """
    found = _REASON.fullmatch(reason)
    return found is not None and (
        not found["root"].startswith(("http://", "https://"))
        or url_item_kind(found["root"]) == "file"
    )


def emptied_page_rows(connection: Connection, run: int) -> list[Target]:
    """Return the stored documents that a run did not see because their place was empty.

    They are removable unless they are pinned. [] if the folder, bucket or library was not empty
    and no device is missing in it.
    """
    reasons = connection.execute(_REASONS, (run,)).get
    if reasons is None or not _may_be_approved(json.loads(str(reasons))):
        return []
    found: list[Target] = []
    names = {"run": run, "files": FILES.name, "library": SHAREPOINT.name}
    rows: Any = connection.execute(_UNSEEN, names).fetchall()
    for *page, pinned in rows:
        detail = json.dumps({"why": NOT_LISTED, "lastReachedRun": page[9]})
        why_not = "it is pinned" if pinned else None
        judged = {"run": run, "removable": not pinned, "why_not": why_not}
        found.append(removal_target(page, RemovalRule.ABSENT, detail, **judged))
    return found


def _may_be_approved(reasons: list[str]) -> bool:
    """Whether a listing was whole but for places that an operator knows to be empty."""
    if any(map(_is_emptied, reasons)):
        return True
    listed = [reason for reason in reasons if reason.startswith("listing: ")]
    return bool(listed) and all(map(is_mount_reason, listed))


def _is_emptied(reason: str) -> bool:
    return is_emptied_root_reason(reason) or is_emptied_library_reason(reason)
