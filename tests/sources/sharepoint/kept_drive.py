"""A drive as a registry stores it, in memory."""

from __future__ import annotations

from collections.abc import Iterator

from smartcrawl.sources.sharepoint.access import DriveFile, DriveToken, DriveUpdate, Folder


class KeptDrive:
    """The drive after one listing, with what was known before it."""

    def __init__(self, update: DriveUpdate, before: KeptDrive | None = None) -> None:
        self.token: DriveToken = update.token
        known = None if update.is_whole else before
        gone = {*update.gone, *update.folders}
        folders = known.folders() if known else {}
        files = {file.id: file for file in (known.files() if known else ())}
        files |= {file.id: file for file in update.files}
        folders |= update.folders
        self._folders = {id_: one for id_, one in folders.items() if id_ not in update.gone}
        self._files = {id_: one for id_, one in files.items() if id_ not in gone}

    def folders(self) -> dict[str, Folder]:
        return dict(self._folders)

    def files(self) -> Iterator[DriveFile]:
        yield from sorted(self._files.values(), key=lambda file: file.listitem_id)
