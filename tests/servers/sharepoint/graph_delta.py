"""The delta of a drive.

| shape | source |
| --- | --- |
| `@odata.nextLink` to the `@odata.deltaLink`; `token=latest`; no `path`; a deleted item has the \
facet `deleted` and no `name`; a renamed folder comes without what is in it; an item may come \
twice, and the last counts | Graph documentation, driveitem-delta |
| 410 with a code `resyncChanges…` and a `Location` that starts afresh | likewise |
| the folders above a changed item come, too, unless the header `deltaExcludeParent` is sent | \
likewise |
| only `sharepointIds` that are selected; a deleted item has none; what order items have | assumed |
| of a deleted folder only itself is named (`Tenant.delta_names_deleted_children`) | assumed |
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from tests.servers.sharepoint.answers import Answer, GraphError, Request, as_json
from tests.servers.sharepoint.entries import Entry
from tests.servers.sharepoint.graph_items import chosen, drive_id, drive_item, item_id
from tests.servers.sharepoint.lists import Change, SharepointList

_MEDIA = "application/json;odata.metadata=minimal;odata.streaming=true;IEEE754Compatible=false"


class _Token(NamedTuple):
    """Where a delta goes on."""

    generation: int  #: of the tokens of a list; those of others are answered 410
    since: int  #: serial of the last change that is known; -1: none, all is enumerated
    start: int  #: serial when this enumeration began
    after: int  #: last id or serial that was sent; -1: none

    @property
    def text(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(list(self)).encode()).decode().rstrip("=")


def _token(text: str) -> _Token:
    try:
        return _Token(*json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))
    except (ValueError, TypeError) as error:
        raise GraphError(400, "invalidRequest", "The delta token is not valid.") from error


def delta(library: SharepointList, request: Request, origin: str) -> Answer:
    """Return one page."""
    options = request.options
    text = options.get("token", options.get("$skiptoken", options.get("$deltatoken", "")))
    fresh = _Token(library.generation, -1, library.serial, -1)
    if text == "latest":
        token = fresh._replace(since=library.serial)
    else:
        token = _token(text) if text else fresh
    if token.generation != library.generation:
        _gone(library, request, fresh)
    most = min(int(options.get("$top", library.site.tenant.delta_page)), 5_000)
    if token.since < 0:
        rows, after, more = _all(library, token, most)
    else:
        rows, after, more = _changed(library, token, most, request)
    select = [name for name in options.get("$select", "").split(",") if name]
    payload: dict[str, Any] = {
        "@odata.context": f"{request.origin}/v1.0/$metadata#Collection(driveItem)",
        "value": [_row(change, origin, select) for change in rows],
    }
    if more:
        payload["@odata.nextLink"] = _link(request, token._replace(after=after))
    else:
        known = token.start if token.since < 0 else max(after, token.since)
        done = _Token(library.generation, known, known, -1)
        payload["@odata.deltaLink"] = _link(request, done)
    return as_json(payload, _MEDIA)


def _gone(library: SharepointList, request: Request, fresh: _Token) -> None:
    headers = {"Location": _link(request, fresh)}
    text = "The delta token is no longer valid, and the app must reset its state."
    raise GraphError(410, library.site.tenant.resync, text, headers)


def _link(request: Request, token: _Token) -> str:
    kept = {k: v for k, v in request.options.items() if k in ("$select", "$top", "$expand")}
    query = urlencode(kept | {"token": token.text}, quote_via=quote, safe="$,")
    return f"{request.origin}{request.path}?{query}"


def _all(library: SharepointList, token: _Token, most: int) -> tuple[list[Change], int, bool]:
    """Return a page of all items, in the order of their ids; the root is the first."""
    visible = [library.root, *library.visible]
    found = [entry for entry in visible if entry.id > token.after]
    page = found[:most]
    rows = [Change(0, entry, entry.name, entry.parent) for entry in page]
    if token.after < 0 and library.site.tenant.delta_twice:
        files = [entry for entry in visible if entry.is_file]
        for entry in files[-1:]:  # it comes once more on the last page
            rows.insert(1, Change(0, entry, f"before {entry.name}", entry.parent))
    return rows, page[-1].id if page else token.after, len(found) > most


def _changed(
    library: SharepointList, token: _Token, most: int, request: Request
) -> tuple[list[Change], int, bool]:
    """Return a page of changed items, each as it is now, in the order of their last change."""
    since = max(token.since, token.after)
    last: dict[str, Change] = {}
    first: dict[str, Change] = {}
    for change in library.changes:
        if change.serial > since:
            last.pop(change.entry.unique_id, None)
            last[change.entry.unique_id] = change
            first.setdefault(change.entry.unique_id, change)
    found = [change for change in last.values() if change.deleted or change.entry.seen]
    page = found[:most]
    rows = []
    if token.after < 0 and library.site.tenant.delta_twice:
        earlier = [first[change.entry.unique_id] for change in found if not change.deleted]
        rows += [change for change in earlier if change.name != change.entry.name]
    if "deltaexcludeparent" not in request.headers:
        named = {change.entry.unique_id for change in page}
        rows += [
            Change(0, above, above.name, above.parent)
            for above in _above(page)
            if above.unique_id not in named
        ]
    rows += page
    after = page[-1].serial if page else max(since, library.serial)
    return rows, after, len(found) > most


def _above(page: list[Change]) -> list[Entry]:
    """Return the folders above entries, from the root down, each once."""
    found: dict[str, Entry] = {}
    for change in page:
        folders = []
        at = None if change.deleted else change.parent
        while at is not None:
            folders.append(at)
            at = at.parent
        found |= {folder.unique_id: folder for folder in reversed(folders)}
    return list(found.values())


def _row(change: Change, origin: str, select: list[str]) -> dict[str, Any]:
    entry = change.entry
    if change.deleted:
        above = {"driveType": "documentLibrary", "driveId": drive_id(entry.library)}
        if change.parent is not None:
            above["id"] = item_id(change.parent)
        known = {"id": item_id(entry), "deleted": {"state": "deleted"}, "parentReference": above}
        return chosen(known, select)
    row = drive_item(entry, origin, select)
    if "name" in row and entry.parent is not None:
        row["name"] = change.name
    return row
