"""Counts of a push that is not made: the store is read to its end, and nothing is written."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from smartcrawl.index.vectorstore.api import AbsentError, RefusedError, VectorStoreApi
from smartcrawl.index.vectorstore.asking import StoreAsking
from smartcrawl.index.vectorstore.ports import (
    FileStatus,
    ItemVersion,
    ListedFile,
    Pushed,
    StoredFile,
    StoreItems,
    UploadedFile,
)
from smartcrawl.index.vectorstore.reading import (
    StoreReader,
    vector_store_items_together,
    vector_store_push_plan,
)
from smartcrawl.index.vectorstore.rows import vector_store_files, vector_store_number
from smartcrawl.model.exceptions import PushError
from smartcrawl.model.vector_store_options import VectorStoreOptions
from smartcrawl.registry.connection import Connection


class LookedRows:
    """The rows of a store and a source, whose changes stay in memory."""

    def __init__(
        self, connection: Connection, *, url: str, store: str, source: int, now: int
    ) -> None:
        """``now``: Unix seconds."""
        self._connection, self._source, self._now = connection, source, now
        self._store = vector_store_number(connection, url, store)

    def files(self, versions: Mapping[int, ItemVersion]) -> list[StoredFile]:
        """Return the rows, the oldest intent first; equal versions are shared, by record.no."""
        if self._store is None:
            return []
        return vector_store_files(self._connection, self._store, self._source, versions)

    def adopt(self, found: ListedFile, version: ItemVersion, status: FileStatus) -> StoredFile:
        """Return the row of a file of ours that is in the store, and that no row has."""
        return StoredFile.adopted(found, version, status, self._now)

    def note_upload(self, file: StoredFile, found: UploadedFile) -> StoredFile:
        """Return a file with the id that the server gave to it."""
        return file.uploaded(found)

    def note_listed(self, file: StoredFile, status: FileStatus, listed: ListedFile) -> StoredFile:
        """Return a file with its status, and since when it is attached."""
        return file.listed(status, listed)

    def note(self, files: Iterable[StoredFile], status: FileStatus) -> list[StoredFile]:
        """Return files with their status."""
        return [file._replace(status=status) for file in files]

    def drop(self, files: Sequence[StoredFile]) -> None:
        """Forget nothing: these files are asked for once."""


class PushPreview:
    """The work of one push of one source to one store, counted."""

    def __init__(
        self,
        rows: LookedRows,
        items: StoreItems,
        options: VectorStoreOptions,
        *,
        now: int,
        is_full: bool = False,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        """``now``: Unix seconds. ``is_full``: every item is given anew."""
        self._rows, self._items, self._options = rows, items, options
        self._now, self._is_full, self._is_ending = now, is_full, is_ending

    def counted(self, api: VectorStoreApi | None) -> Pushed:
        """Return the figures of a push now; ``api`` None: the store is still to be made."""
        pushed = Pushed(is_dry=True)
        try:
            self._count(api, pushed)
        except PushError as error:
            pushed.error = str(error)
        except (AbsentError, RefusedError) as error:
            pushed.error = f"{self._options.destination} refuses the list of its files ({error})"
        return pushed

    def _count(self, api: VectorStoreApi | None, pushed: Pushed) -> None:
        reader = None
        if api is not None:
            clock, sleep, is_ending = time.monotonic, time.sleep, self._is_ending
            asking = StoreAsking(api, self._options, clock=clock, sleep=sleep, is_ending=is_ending)
            reader = StoreReader(api, self._rows, asking.ask, self._now)
        plan = vector_store_push_plan(reader, self._items, pushed, is_full=self._is_full)
        given = {item.version.no for item in vector_store_items_together(self._items, plan.missing)}
        attached = [file for file in plan.under_way if file.status is FileStatus.UPLOADED]
        done = given | {file.version.no for file in plan.under_way}
        pushed.uploaded, pushed.completed = len(given), len(done)
        pushed.attached = len(given) + len(attached)
        former = [file for no in done for file in plan.former.get(no, ())]
        listed = reader.listed if reader is not None else {}
        lost = reader.lost if reader is not None else set()
        going = (*plan.leaving, *former)
        pushed.detached = sum(file.file in listed for file in going)
        pushed.left = sum(file.is_our_upload and file.file not in lost for file in going)
