"""Files and listing of a bucket, a container, or any other store behind a driver of fsspec.

Files of a store by their exact keys: pages of keys, and bodies.

The paths of fsspec collapse slashes and drop dots, so S3, Azure and Google's store are asked by the
clients that their drivers have. All other drivers are asked for one folder after another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import md5
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.drivers import (
    SETTING,
    StorePlace,
    file_store_place,
    start_store_driver,
    store_driver_class,
    store_driver_credentials,
)
from smartcrawl.sources.listing.entries import (
    RACY,
    Entry,
    ListingRules,
    Skip,
    count_left_out,
    listed_file_time,
    source_entries_in_batches,
)
from smartcrawl.sources.stores import (
    Bucket,
    Drive,
    Fault,
    file_store_fault,
    file_store_fault_reason,
    source_store_status,
)

PATIENCE: Final = 60.0  #: seconds for one page or the start of one body, with the driver's retries
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE: Final = 1_000  #: keys of one request


class StoredFile(NamedTuple):
    """One file as a store describes it."""

    key: str
    size: int | None  #: bytes; None: unknown
    etag: str | None
    modified_ns: int | None  #: Unix nanoseconds
    skip: Skip | None = None  #: why it is no file

    @property
    def modified_at(self) -> int | None:
        """Unix seconds."""
        return None if self.modified_ns is None else self.modified_ns // 1_000_000_000

    @property
    def date(self) -> str | None:
        """The date as a validator."""
        return None if self.modified_ns is None else listed_file_time(self.modified_ns)


class StoredBody(NamedTuple):
    """A file and its body, or None for one that is too large."""

    file: StoredFile
    data: bytes | None


class StateChangedError(Exception):
    """A file is not in the state that was asked for, or changed while it was read."""


class StoreFiles(Protocol):
    """The files of one bucket, container or host."""

    who: str  #: whose credentials count

    def pages(
        self,
        prefix: str,
        enters: Callable[[str], bool],
        failed: Callable[[str, Exception], None],
    ) -> Iterator[list[StoredFile]]:
        """Yield the files whose keys begin with ``prefix``, page by page.

        Drivers of folders ask ``enters`` for each folder's key, and report folders that refuse to
        ``failed``. Any other error of the driver is raised as it is.
        """

    def read(self, key: str, most: int, etag: str | None) -> StoredBody:
        """Return a file in one state, which is that of ``etag`` where the driver can ask for it.

        Raises:
            StateChangedError: it is in another state, or changed meanwhile.
            Exception: as the driver does.
        """

    def exists(self) -> bool:
        """Whether the store itself exists; called where a file does not."""


def open_file_store(place: StorePlace, *, patience: float = PATIENCE) -> StoreFiles:
    """Open the driver of a place, or take the one that this thread opened before.

    Raises:
        SettingError: there is no driver, it does not start, or has credentials of another account.
        OSError: the driver connects at once and fails to.
    """
    driver = store_driver_class(SETTING, place.protocol, place.top)
    start = f"{place.protocol}://{place.bucket}"
    system, root = start_store_driver(SETTING, driver, start, **place.options)
    who = store_driver_credentials(driver)
    if not system.async_impl:
        return _OtherFiles(system, Drive(system, root, patience), start, who)
    store = Bucket(system, root, patience)
    if hasattr(system, "_call_s3"):
        return _S3Files(place.bucket, store, who, system)
    if hasattr(system, "service_client"):
        _check_account(place, system.service_client.account_name, who)
        return _AzureFiles(place.bucket, store, who, system.service_client)
    if place.protocol == "gs":
        return _GoogleFiles(place.bucket, store, who, system)
    return _OtherFiles(system, store, start, who)


def _check_account(place: StorePlace, account: str | None, who: str) -> None:
    if place.account is not None and account is not None and place.account != account:
        raise SettingError(
            f"{SETTING} names the account {place.account}, and {who} are those of {account}"
        )


class _BucketFiles(ABC):
    """The files of a store that lists all its keys below a prefix, page by page."""

    def __init__(self, bucket: str, store: Bucket, who: str, system: Any) -> None:
        self.who = who
        self._bucket = bucket
        self._store = store
        self._system = system
        self.exists = store.exists

    def pages(
        self,
        prefix: str,
        enters: Callable[[str], bool],
        failed: Callable[[str, Exception], None],
    ) -> Iterator[list[StoredFile]]:
        token: str | None = None
        seen: set[str] = set()
        while True:
            page, token = self._page(prefix, token)
            yield page
            if token is None:
                return
            if not token:
                raise ValueError("the store says that more files follow, and not where")
            if token in seen:
                raise ValueError("the store repeats a page, so that its listing does not end")
            seen.add(token)

    @abstractmethod
    def _page(self, prefix: str, token: str | None) -> tuple[list[StoredFile], str | None]:
        """Return the page of a token, which is None for the first, and the token of the next.

        None: it is the last page. An empty token: it is not, and there is no way to the next.
        """

    def read(self, key: str, most: int, etag: str | None) -> StoredBody:
        try:
            body: StoredBody = self._store.ask(self._get, key, most, etag, size=most)
        except Exception as error:
            if self._is_other_state(error):
                raise StateChangedError from error
            raise
        return body

    @abstractmethod
    async def _get(self, key: str, most: int, etag: str | None) -> StoredBody:
        """Read a file, as ``read`` does."""

    def _is_other_state(self, error: Exception) -> bool:
        """Whether an error of the driver says that the file is not in the state asked for."""
        return source_store_status(error) == 412


class _S3Files(_BucketFiles):
    def _page(self, prefix: str, token: str | None) -> tuple[list[StoredFile], str | None]:
        more: dict[str, Any] = {} if token is None else {"ContinuationToken": token}
        page = self._store.ask(
            "call_s3",
            "list_objects_v2",
            Bucket=self._bucket,
            Prefix=prefix,
            MaxKeys=_PAGE,
            **more,
        )
        files = [
            StoredFile(item["Key"], item["Size"], item.get("ETag"), _unix(item.get("LastModified")))
            for item in page.get("Contents", ())
        ]
        return files, page.get("NextContinuationToken", "") if page.get("IsTruncated") else None

    async def _get(self, key: str, most: int, etag: str | None) -> StoredBody:
        condition = {} if etag is None else {"IfMatch": etag}
        answer = await self._system._call_s3(
            "get_object", Bucket=self._bucket, Key=key, **condition
        )
        size, at = answer["ContentLength"], _unix(answer.get("LastModified"))
        try:
            data = await answer["Body"].read() if size <= most else None
        finally:
            answer["Body"].close()
        return StoredBody(StoredFile(key, size, answer.get("ETag"), at), data)


class _AzureFiles(_BucketFiles):
    """Blobs; the system is the driver's client of the service."""

    def _page(self, prefix: str, token: str | None) -> tuple[list[StoredFile], str | None]:
        page: tuple[list[StoredFile], str | None] = self._store.ask(self._listed, prefix, token)
        return page

    async def _listed(self, prefix: str, token: str | None) -> tuple[list[StoredFile], str | None]:
        async with self._system.get_container_client(self._bucket) as container:
            pages = container.list_blobs(
                name_starts_with=prefix or None, include=["metadata"], results_per_page=_PAGE
            ).by_page(token)
            async for page in pages:
                return [_blob(blob) async for blob in page], pages.continuation_token or None
        return [], None

    async def _get(self, key: str, most: int, etag: str | None) -> StoredBody:
        conditions = import_module("azure.core").MatchConditions
        options = (
            {} if etag is None else {"etag": etag, "match_condition": conditions.IfNotModified}
        )
        async with self._system.get_container_client(self._bucket) as container:
            stream = await container.download_blob(key, **options)
            data = await stream.readall() if stream.size <= most else None
            return StoredBody(_blob(stream.properties, key), data)


def _blob(blob: Any, key: str | None = None) -> StoredFile:
    """Return a blob as described; only some answers have quotation marks around the ETag."""
    etag = None if blob.etag is None else '"{}"'.format(blob.etag.strip('"'))
    is_folder = (blob.metadata or {}).get("hdi_isfolder") == "true"
    skip = Skip.NO_NAME if is_folder else None
    return StoredFile(key or blob.name, blob.size, etag, _unix(blob.last_modified), skip)


class _GoogleFiles(_BucketFiles):
    """Objects by Google's JSON API. A body is that of the generation whose ETag was read before."""

    def _page(self, prefix: str, token: str | None) -> tuple[list[StoredFile], str | None]:
        more: dict[str, Any] = {} if token is None else {"pageToken": token}
        page = self._store.ask(
            "call",
            *("GET", "b/{}/o", self._bucket),
            json_out=True,
            prefix=prefix,
            maxResults=_PAGE,
            **more,
        )
        return [_object(item) for item in page.get("items", ())], page.get("nextPageToken") or None

    def _is_other_state(self, error: Exception) -> bool:
        return isinstance(error, FileExistsError)  # the driver's word for 412

    async def _get(self, key: str, most: int, etag: str | None) -> StoredBody:
        place = ("GET", "b/{}/o/{}", self._bucket, key)
        described = await self._system._call(*place, json_out=True)
        file = _object(described)
        if etag is not None and file.etag != etag:
            raise StateChangedError
        if file.size is None or file.size > most:
            return StoredBody(file, None)
        generation = described["generation"]
        _, data = await self._system._call(*place, alt="media", ifGenerationMatch=generation)
        if _is_of_another_state(described, data):  # a server may not know the condition
            raise StateChangedError
        return StoredBody(file, data if len(data) <= most else None)


def _is_of_another_state(item: Mapping[str, Any], data: bytes) -> bool:
    """Whether a body is not the one that Google's JSON describes, as far as that has its digest.

    The digest is that of the stored bytes, which are sent decoded where they have an encoding.
    """
    known: str | None = item.get("md5Hash")
    if known is None or item.get("contentEncoding"):
        return False
    return b64encode(md5(data, usedforsecurity=False).digest()).decode() != known


def _object(item: Mapping[str, Any]) -> StoredFile:
    """Return an object of Google's store as its JSON describes it."""
    updated = datetime.fromisoformat(item["updated"]) if "updated" in item else None
    return StoredFile(item["name"], int(item["size"]), item.get("etag"), _unix(updated))


class _OtherFiles:
    """Files of a driver that lists folders, such as SFTP."""

    def __init__(self, system: Any, store: Bucket | Drive, start: str, who: str) -> None:
        self.who = who
        self._store = store
        self._top: str = system._strip_protocol(start).rstrip("/")
        self.exists = store.exists
        system.dircache.use_listings_cache = False
        system.invalidate_cache()

    def pages(
        self,
        prefix: str,
        enters: Callable[[str], bool],
        failed: Callable[[str, Exception], None],
    ) -> Iterator[list[StoredFile]]:
        folders = [prefix.rstrip("/")]
        while folders:
            folder = folders.pop()
            start = f"{folder}/" if folder else ""
            page = []
            try:
                items = self._store.ask("ls", f"{self._top}/{folder}", detail=True)
                for item in items:
                    key = self._key(item, start)
                    if item["type"] != "directory":
                        page.append(_described(key, item))
                    elif enters(key):
                        folders.append(key)
            except Exception as error:  # noqa: BLE001  # of the driver; reported with the folder
                failed(folder, error)
            yield page

    def _key(self, item: Mapping[str, Any], folder: str) -> str:
        """Return the key of a file or folder that the driver listed in a folder.

        Raises:
            ValueError: it is not in the folder, as with empty names; to enter it may never end.
        """
        name: str = item["name"]
        key = name.removeprefix(f"{self._top}/").rstrip("/")
        below = key[len(folder) :]
        if not key.startswith(folder) or not below or "/" in below:
            raise ValueError(f"the driver listed {name!r} in it, which is no name in a folder")
        return key

    def read(self, key: str, most: int, etag: str | None) -> StoredBody:
        path = f"{self._top}/{key}"
        before = self._info(path, key)
        size = before.size
        if size is not None and size > most:
            return StoredBody(before, None)
        end = most + 1 if size is None else size
        data: bytes = b""
        if end:  # an empty range is an error
            data = self._store.ask("cat_file", path, size=end, start=0, end=end)
        after = self._info(path, key)
        if before != after or (size is not None and len(data) != size):
            raise StateChangedError
        return StoredBody(before, data if len(data) <= most else None)

    def _info(self, path: str, key: str) -> StoredFile:
        info = self._store.ask("info", path)
        if info["type"] != "file":
            raise FileNotFoundError(f"{path} is not a file")
        return _described(key, info)


def _described(key: str, info: Mapping[str, Any]) -> StoredFile:
    """Return a file by the words of different drivers."""
    etag = info.get("ETag") or info.get("etag")
    modified = info.get("LastModified") or info.get("last_modified") or info.get("mtime")
    kinds = {"file": None, "link": Skip.SYMLINK}
    return StoredFile(
        key,
        info.get("size"),
        etag if isinstance(etag, str) else None,
        _unix(modified),
        kinds.get(info["type"], Skip.DEVICE),
    )


def _unix(time: object) -> int | None:
    """Return a time of a driver in Unix nanoseconds; one without a zone is in UTC."""
    if isinstance(time, int | float):
        return int(time * 1_000_000_000)
    if not isinstance(time, datetime):
        return None
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1) * 1_000


class BucketListing:
    """A pass over the keys of a store below a URL, page by page, and a second where it is needed.

    A key that moved to where the first pass was before is named by the second alone. That is made
    where a folder was gone that the first named, and where a stored file lacks (``again``). A file
    is named once.

    The validator is the store's ETag. Where it has none it is the date of the file, if that is at
    least two seconds older than the pass: stores count seconds.

    Source: R0-43, R0-44.
    """

    def __init__(
        self,
        url: str,
        *,
        rules: ListingRules,
        now_ns: int | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """Set up the pass over ``url``; it begins at ``now_ns``. None: no date is trusted.

        Raises:
            SettingError: ``url`` names no place in a store.
        """
        self.problems: list[str] = []
        self.skipped: Counter[str] = Counter()
        self._place = file_store_place(url)
        key = self._place.key
        self._prefix = f"{key}/" if key and not key.endswith("/") else key
        self._rules = rules
        self._now_ns = now_ns
        self._patience = patience
        self._count = 0  # keys so far
        self._named = array("q")  # hashes of the keys that the first pass named
        self._known: frozenset[int] | None = None  # the same, in the second pass
        self._is_doubted = False  # whether a folder was gone that the first pass named

    def batches(self) -> Iterator[list[Entry]]:
        """Yield the files of the store, up to 1,000 at a time. Call it once.

        Raises:
            SettingError: the driver is not installed, or does not start.
        """
        return source_entries_in_batches(self._entries())

    def again(self) -> Iterator[list[Entry]] | None:
        """Yield the files that a second pass names first; None if it was made, or is of no use."""
        if self._known is not None or self.problems:
            return None
        return source_entries_in_batches(self._second())

    def _entries(self) -> Iterator[Entry]:
        yield from self._passed()
        if self._is_doubted and not self.problems:
            yield from self._second()

    def _second(self) -> Iterator[Entry]:
        self._known = frozenset(self._named)
        self._count = 0
        yield from self._passed()

    def _passed(self) -> Iterator[Entry]:
        """Yield the files that one pass finds first."""
        try:
            files = open_file_store(self._place, patience=self._patience)
        except OSError as error:
            self._problem(self._prefix, error, None)
            return
        pages = files.pages(
            self._prefix, self._enters, lambda key, error: self._problem(key, error, files)
        )
        while True:
            try:
                page = next(pages, None)
            except Exception as error:  # noqa: BLE001  # drivers raise any error of their libraries
                self._problem(self._prefix, error, files, self._count)
                return
            if page is None:
                return
            for file in page:
                self._count += 1
                skip = self._skip(file)
                if skip is not None:
                    self._leave_out(skip, file.key)
                elif self._is_first(file.key):
                    yield self._entry(file)

    def _is_first(self, key: str) -> bool:
        """Whether no pass named a key before."""
        if self._known is not None:
            return hash(key) not in self._known
        self._named.append(hash(key))
        return True

    def _leave_out(self, skip: Skip, key: str = "") -> None:
        """Count an item that is left out. The second pass sees the same once more."""
        if self._known is None:
            count_left_out(self.skipped, skip, key)

    def _enters(self, key: str) -> bool:
        skip = self._rules.skip_folder(key[len(self._prefix) :])
        if skip is not None:
            self._leave_out(skip)
        return skip is None

    def _skip(self, file: StoredFile) -> Skip | None:
        relative = file.key[len(self._prefix) :]
        if file.skip is not None:
            return file.skip
        if not relative or (not file.size and relative.endswith("/")):
            return Skip.NO_NAME  # the marker of a folder
        return self._rules.skip(relative)

    def _entry(self, file: StoredFile) -> Entry:
        validator = file.etag
        if validator is None and file.size is not None and self._now_ns is not None:
            fresh = self._now_ns - (file.modified_ns or 0) < RACY
            validator = None if fresh else file.date
        return Entry(self._place.url_of(file.key), file.size or 0, validator, file.modified_at)

    def _problem(
        self, key: str, error: Exception, files: StoreFiles | None, count: int = 0
    ) -> None:
        """Record a part that could not be listed: the reason and the remedy."""
        fault = file_store_fault(error)
        is_below = key.rstrip("/") != self._prefix.rstrip("/")
        if fault is Fault.ABSENT and is_below and self._known is None:
            self._leave_out(Skip.GONE)  # which proves no absence: the second pass shows it
            self._is_doubted = True
            return
        why = file_store_fault_reason(error) or f"no answer in {self._patience:g} s"
        if count:
            why = f"after {count} {'file' if count == 1 else 'files'}: {why}"
        who = "what its driver reads" if files is None else files.who
        remedy = fault.value.format(who=who, setting=SETTING)
        self.problems.append(redacted_line(f"{self._place.url_of(key)} ({why}; {remedy})"))
