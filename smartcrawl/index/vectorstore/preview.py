"""Counts of a push that is not made: the store is read to its end, and nothing is written."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from smartcrawl.index.vectorstore.api import AbsentError, RefusedError, VectorStoreApi
from smartcrawl.index.vectorstore.asking import StoreAsking
from smartcrawl.index.vectorstore.plan import PushPlan, push_plan
from smartcrawl.index.vectorstore.ports import (
    FileStatus,
    ItemVersion,
    ListedFile,
    Pushed,
    StoredFile,
    StoreItems,
    UploadedFile,
)
from smartcrawl.index.vectorstore.reading import StoreReader
from smartcrawl.index.vectorstore.rows import store_number, stored_files
from smartcrawl.model.exceptions import PushError
from smartcrawl.model.vector_store_options import VectorStoreOptions
from smartcrawl.registry.connection import Connection

_AT_ONCE: Final = 16  #: items that are read together


class LookedRows:
    """The rows of a store and a source, whose changes stay in memory."""

    def __init__(
        self, connection: Connection, *, url: str, store: str, source: int, now: int
    ) -> None:
        """``now``: Unix seconds."""
        number = store_number(connection, url, store)
        self._files = [] if number is None else stored_files(connection, number, source)
        self._now = now

    def files(self, versions: Mapping[int, ItemVersion]) -> list[StoredFile]:
        """Return the rows, the oldest intent first."""
        del versions  # they are not shared: a dry run is rare
        return list(self._files)

    def adopt(self, found: ListedFile, version: ItemVersion, status: FileStatus) -> StoredFile:
        """Return the row of a file of ours that is in the store, and that no row has."""
        intent = secrets.token_hex(8)
        at = found.created_at
        return StoredFile(intent, version, "", None, found.id, status, self._now, None, at)

    def note_upload(self, file: StoredFile, found: UploadedFile) -> StoredFile:
        """Return a file with the id that the server gave to it."""
        return file._replace(
            file=found.id, status=FileStatus.UPLOADED, uploaded_at=found.created_at
        )

    def note_listed(self, file: StoredFile, status: FileStatus, listed: ListedFile) -> StoredFile:
        """Return a file with its status, and since when it is attached."""
        return file._replace(status=status, embedded_at=listed.created_at)

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
        versions = {version.no: version for version in self._items.versions()}
        files, listed = [], set[str]()
        if api is not None:
            asking = StoreAsking(
                api,
                self._options,
                clock=time.monotonic,
                sleep=time.sleep,
                is_ending=self._is_ending,
            )
            asking.ask(api.check_store)
            reader = StoreReader(api, self._rows, asking.ask, self._now)
            files = reader.files(self._items, versions)
            listed = set(reader.listed)
            pushed.adopted = len(reader.adopted - {file.intent for file in files if _leaves(file)})
        plan = push_plan(versions, files, self._items.kept(), is_full=self._is_full)
        pushed.pages, pushed.unchanged = len(versions), plan.unchanged
        given = self._given(plan)
        pushed.uploaded = len(given)
        pushed.attached = len(given) + sum(
            file.status is FileStatus.UPLOADED for file in plan.under_way
        )
        done = given | {file.version.no for file in plan.under_way}
        pushed.completed = len(done)
        former = [file for no in done for file in plan.former.get(no, ())]
        pushed.detached = sum(file.file in listed for file in (*plan.leaving, *former))

    def _given(self, plan: PushPlan) -> set[int]:
        """Return the numbers of the items whose files can be given now."""
        found: set[int] = set()
        for start in range(0, len(plan.missing), _AT_ONCE):
            numbers = plan.missing[start : start + _AT_ONCE]
            found |= {item.version.no for item in self._items.items(numbers)}
        return found


def _leaves(file: StoredFile) -> bool:
    return file.status is FileStatus.LEAVING
