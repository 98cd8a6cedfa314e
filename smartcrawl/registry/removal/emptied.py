"""Folders and buckets that a run found without any file, though files of them are stored.

An unmounted drive looks like that, so the run removes nothing; an operator may approve it.
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
from smartcrawl.sources.kinds import FILES

_REASON: Final = re.compile(
    r"listing: (?P<root>.+) \(it has no file, and [\d,]+ files? (?:is|are) stored\)"
)
_REASONS: Final = "SELECT reasons FROM run WHERE no = ?"
#: Stored files that neither this run nor a later one has seen. What is out of scope is no part of
#: the listing.
_UNSEEN: Final = f"""{PAGE_COLUMNS}, EXISTS (SELECT 1 FROM pin WHERE no = r.no)
  FROM state s JOIN record r USING (no) JOIN source o ON o.no = r.source
 WHERE o.no = (SELECT source FROM run WHERE no = :run) AND o.kind = :kind AND s.standing > 0
   AND s.seen_run < :run AND s.reached_run < :run AND s.visited_run < :run
   AND s.status <> {int(Status.OUT_OF_SCOPE)}
 ORDER BY r.no
"""


def emptied_root_problem(root: str, stored: int) -> str:
    """Return the problem of a listing that has no file; ``stored``: how many files are stored.

    >>> emptied_root_problem("/docs", 1)
    '/docs (it has no file, and 1 file is stored)'
    """
    files = "1 file is" if stored == 1 else f"{stored:,} files are"
    return f"{root} (it has no file, and {files} stored)"


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
    """Return the stored files that a run did not see because their folder or bucket was empty.

    They are removable unless they are pinned. () if it was not empty.
    """
    reasons = connection.execute(_REASONS, (run,)).get
    if reasons is None or not any(map(is_emptied_root_reason, json.loads(str(reasons)))):
        return []
    found: list[Target] = []
    names = {"run": run, "kind": FILES.name}
    rows: Any = connection.execute(_UNSEEN, names).fetchall()
    for *page, pinned in rows:
        detail = json.dumps({"why": NOT_LISTED, "lastReachedRun": page[9]})
        why_not = "it is pinned" if pinned else None
        judged = {"run": run, "removable": not pinned, "why_not": why_not}
        found.append(removal_target(page, RemovalRule.ABSENT, detail, **judged))
    return found
