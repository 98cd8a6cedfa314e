"""Reading a store to its end, and making the registry's rows agree with it.

A crash leaves rows that say less than the server knows. Files of ours that no row has are found by
their attributes; an upload without an id by the unique name of its intent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from smartcrawl.index.vectorstore.api import AbsentError, VectorStoreApi
from smartcrawl.index.vectorstore.ports import (
    HASH,
    FileStatus,
    ItemVersion,
    ListedFile,
    Pushed,
    PushPlan,
    StoredFile,
    StoreItem,
    StoreItems,
    UploadedFile,
    vector_store_attribute,
    vector_store_plan,
)
from smartcrawl.model.exceptions import PushError

_LATE: Final = 3_600  #: seconds after which an upload without an answer does not appear any more
_SKEW: Final = 86_400  #: seconds that the server's clock may be behind ours
_AT_ONCE: Final = 16  #: items that are looked up together
#: The entry of each file of a store that is completed and has nothing new: there are many.
_AS_STORED: Final = ListedFile("", "completed", "", MappingProxyType({}), 0)
_FAILED: Final = ("failed", "cancelled")  #: statuses that a file of a store does not leave


class Identified(Protocol):
    """Entry of a list."""

    @property
    def id(self) -> str:
        """Its id."""


_File = TypeVar("_File", bound=Identified)
_T = TypeVar("_T")

Page = Callable[[str | None], tuple[list[_File], bool]]


class Ask(Protocol):
    """Makes a request, and waits where the server is away."""

    def __call__(self, request: Callable[[], _T]) -> _T:
        """Return its answer."""


class ReadRows(Protocol):
    """The rows of a store and a source, as reading the store changes them."""

    def files(self, versions: Mapping[int, ItemVersion]) -> list[StoredFile]:
        """Return the rows, the oldest intent first; equal versions are shared, by record.no."""

    def adopt(self, found: ListedFile, version: ItemVersion, status: FileStatus) -> StoredFile:
        """Record a file of ours that is in the store, and that no row has."""

    def note_upload(self, file: StoredFile, found: UploadedFile) -> StoredFile:
        """Record the id that the server gave to a file."""

    def note_listed(self, file: StoredFile, status: FileStatus, listed: ListedFile) -> StoredFile:
        """Record the status of a file that is attached, and since when it is."""

    def note(self, files: Iterable[StoredFile], status: FileStatus) -> list[StoredFile]:
        """Record the status of files."""

    def drop(self, files: Sequence[StoredFile]) -> None:
        """Forget files."""


def read_vector_store_to_end(ask: Ask, page: Page[_File]) -> dict[str, _File]:
    """Return all entries of a list by their ids.

    Raises:
        PushError: the list has no end, or the server is away: what was read proves nothing.
    """
    return {file.id: file for files in vector_store_pages_to_end(ask, page) for file in files}


def vector_store_pages(ask: Ask, api: VectorStoreApi) -> Iterator[list[ListedFile]]:
    """Yield the pages of the list of a store's files.

    Raises:
        AbsentError: the store is gone; servers may have an empty list for it.
        PushError: the list has no end, or the server is away: what was read proves nothing.
    """
    is_empty = True
    for files in vector_store_pages_to_end(ask, api.listed_page):
        is_empty = is_empty and not files
        yield files
    if is_empty:
        ask(api.check_store)


def vector_store_pages_to_end(ask: Ask, page: Page[_File]) -> Iterator[list[_File]]:
    """Yield the pages of a list.

    Raises:
        PushError: the list has no end, or the server is away: what was read proves nothing.
    """
    lasts: set[str] = set()  # of the pages
    after: str | None = None
    while True:
        last = after
        files, more = ask(lambda: page(last))  # noqa: B023  # called at once
        if more and files[-1].id in lasts:
            raise PushError("the server's list of files has no end: nothing was changed")
        yield files
        if not more:
            return
        after = files[-1].id
        lasts.add(after)


class StoreReader:
    """Makes the rows of a source agree with its store."""

    def __init__(self, api: VectorStoreApi, rows: ReadRows, ask: Ask, now: int) -> None:
        """``now``: Unix seconds."""
        self.adopted: set[str] = set()  #: intents of files that the registry did not know
        self.lost: set[str] = (
            set()
        )  #: ids of completed files, or leaving ones, that the account lacks
        self._api, self._rows, self._ask, self._now = api, rows, ask, now
        self._listed: dict[str, ListedFile] = {}

    @property
    def listed(self) -> Mapping[str, ListedFile]:
        """The files of the store by their ids, once they were read."""
        return self._listed

    def files(self, items: StoreItems, versions: Mapping[int, ItemVersion]) -> list[StoredFile]:
        """Return the files of a source, as of the server.

        Raises:
            AbsentError: the store is gone.
        """
        rows = self._rows.files(versions)
        self._listed = self._read(rows)
        known = [self._seen(file) for file in self.recovered(rows)]
        if items.checks_account:
            self._look_for_lost(known)
        ids = {file.file for file in known}
        orphans = [
            file
            for id_, file in self._listed.items()
            if id_ not in ids and file is not _AS_STORED and file.has(items.marks)
        ]
        return [*known, *self._adopted(orphans, items, versions)]

    def _read(self, rows: Sequence[StoredFile]) -> dict[str, ListedFile]:
        """Return the files of the store by id; all that are as in ``rows`` share one entry."""
        known = {file.file: file for file in rows if file.file is not None}
        listed: dict[str, ListedFile] = {}
        for files in vector_store_pages(self._ask, self._api):
            for file in files:
                row = known.get(file.id)
                if row is None or row.file is None:
                    listed[file.id] = file
                else:
                    listed[row.file] = _AS_STORED if _is_as_stored(file, row) else file
        return listed

    def recovered(self, files: Sequence[StoredFile]) -> list[StoredFile]:
        """Return files, after looking for those whose upload was intended and got no answer."""
        unknown = [file for file in files if file.file is None]
        if not unknown:
            return list(files)
        taken = {file.file for file in files} | self._listed.keys()
        uploads = read_vector_store_to_end(self._ask, self._api.uploaded_page)
        by_size: dict[int | None, list[UploadedFile]] = {}
        for upload in uploads.values():
            if upload.id not in taken:
                by_size.setdefault(upload.size, []).append(upload)
        found = [file for file in files if file.file is not None]
        for file in unknown:
            sized = by_size.get(file.size, ())
            same = [upload for upload in sized if self._is_of(upload, file)]
            if same:
                self.adopted.add(file.intent)
                found.append(self._rows.note_upload(file, same[0]))
            elif self._now - file.intended_at > _LATE:
                self._rows.drop([file])
        return found

    @staticmethod
    def _is_of(upload: UploadedFile, file: StoredFile) -> bool:
        """Whether an upload of its size is that of an intent: its unique id, and made after it.

        Servers rewrite names, but keep letters and digits.
        """
        is_named = file.intent in upload.name.lower()
        return is_named and upload.created_at >= file.intended_at - _SKEW

    def _seen(self, file: StoredFile) -> StoredFile:
        """Return a file with the status that the store has for it, and record that."""
        if file.file is None or file.status is FileStatus.LEAVING:
            return file
        listed = self._listed.get(file.file)
        if listed is None and file.status is not FileStatus.UPLOADED:
            listed = self._looked_up(file.file)
        if listed is None:
            before_attach = file.status is FileStatus.UPLOADED
            status = FileStatus.UPLOADED if before_attach else FileStatus.LEAVING
        else:
            status = status_of_vector_store_file(listed)
            if file.embedded_at is None and status is not FileStatus.LEAVING:
                return self._rows.note_listed(file, status, listed)
        return file if status is file.status else self._rows.note([file], status)[0]

    def _looked_up(self, id_: str) -> ListedFile | None:
        """Return a file that the list lacks, or None: the store does not have it.

        Raises:
            AbsentError: the store is gone.
        """
        try:
            return self._ask(lambda: self._api.attached(id_))
        except AbsentError:
            self._ask(self._api.check_store)
            return None

    def _look_for_lost(self, files: Iterable[StoredFile]) -> None:
        """Note files that others deleted from the account, listed in the store or not (R3-115)."""
        ended = (FileStatus.COMPLETED, FileStatus.LEAVING)
        left = {file.file for file in files if file.status in ended}
        if not left:
            return
        for uploads in vector_store_pages_to_end(self._ask, self._api.uploaded_page):
            left.difference_update(upload.id for upload in uploads)
        self.lost.update(id_ for id_ in left if id_ and not self._is_uploaded(id_))

    def _is_uploaded(self, id_: str) -> bool:
        """Whether the account has a file that its list lacks: only an answer counts."""
        try:
            self._ask(lambda: self._api.check_upload(id_))
        except AbsentError:
            return False
        return True

    def _adopted(
        self,
        orphans: Iterable[ListedFile],
        items: StoreItems,
        versions: Mapping[int, ItemVersion],
    ) -> list[StoredFile]:
        """Record files of ours that no row has; those of pages that are gone are leaving."""
        orphans = list(orphans)
        if not orphans:
            return []
        by_url = {vector_store_attribute(version.url): version for version in versions.values()}
        found = []
        for orphan in orphans:
            url, digest = orphan.attributes.get(items.key, ""), orphan.attributes.get(HASH, "")
            version, status = by_url.get(url), status_of_vector_store_file(orphan)
            if version is None:
                if not items.knows_all:
                    continue
                version, status = ItemVersion(0, url, b""), FileStatus.LEAVING
            elif digest != version.hash.hex():
                version = ItemVersion(version.no, version.url, _bytes_of(digest))
            adopted = self._rows.adopt(orphan, version, status)
            self.adopted.add(adopted.intent)
            found.append(adopted)
        return found


def vector_store_push_plan(
    reader: StoreReader | None, items: StoreItems, pushed: Pushed, *, is_full: bool
) -> PushPlan:
    """Read a store, and return the work that makes it equal; ``reader`` None: it is empty.

    Notes in ``pushed`` how many items there are. ``is_full``: every item is given again.

    Raises:
        AbsentError: the store is gone.
    """
    versions = {version.no: version for version in items.versions()}
    files = reader.files(items, versions) if reader is not None else []
    lost = reader.lost if reader is not None else set()
    plan = vector_store_plan(versions, files, items.kept(), is_full=is_full, lost=lost)
    pushed.pages, pushed.unchanged = len(versions), plan.unchanged
    if reader is not None:
        pushed.adopted = len(reader.adopted - {file.intent for file in plan.leaving})
    return plan


def vector_store_items_together(items: StoreItems, numbers: Sequence[int]) -> Iterator[StoreItem]:
    """Yield some items, several of which are looked up together."""
    for start in range(0, len(numbers), _AT_ONCE):
        yield from items.items(numbers[start : start + _AT_ONCE])


def _is_as_stored(file: ListedFile, row: StoredFile) -> bool:
    is_known = row.status is FileStatus.COMPLETED and row.embedded_at is not None
    return is_known and file.status == _AS_STORED.status


def status_of_vector_store_file(file: ListedFile) -> FileStatus:
    """Return our word for the status of a file in a store; one that failed is to leave it."""
    if file.status == "completed":
        return FileStatus.COMPLETED
    return FileStatus.LEAVING if file.status in _FAILED else FileStatus.ATTACHED


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
