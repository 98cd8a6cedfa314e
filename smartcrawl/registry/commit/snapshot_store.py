"""Raw bodies, gzipped, in the folder or bucket that SNAPSHOT_STORE names (R0-75, M-48).

Any URL of fsspec is accepted: S3 by s3fs, Azure by adlfs, Google by gcsfs. Credentials come from
the driver's environment and are in no URL. Errors of drivers are translated here.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import unquote

from isal import igzip, isal_zlib

from smartcrawl.model.exceptions import (
    SettingError,
    SnapshotDamagedError,
    SnapshotError,
    SnapshotMissingError,
    SnapshotStoreError,
)
from smartcrawl.model.redaction import redacted_line
from smartcrawl.sources.drivers import (
    refuse_store_url_secrets,
    start_store_driver,
    store_driver_class,
    store_driver_credentials,
)
from smartcrawl.sources.stores import (
    Bucket,
    Drive,
    Folder,
    Store,
    file_store_fault,
    file_store_fault_reason,
    is_file_absent_in_store,
)

_SETTING: Final = "SNAPSHOT_STORE"
PATIENCE: Final = 60.0  #: seconds for one operation, including the driver's retries
MAX_SIZE: Final = 256 * 1024 * 1024  #: bytes of a body that is read back
_MARKER: Final = ".smartcrawl"  #: file that is written to test a store
_MARKED: Final = b"Snapshots of smartcrawl: gzip, yyyy/mm/dd/{url_hash}.{ext}.gz\n"

_EXTENSIONS: Final = {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.oasis.opendocument.text": "odt",
    "application/epub+zip": "epub",
    "text/markdown": "md",
    "text/x-markdown": "md",
    "text/plain": "txt",
    "text/csv": "csv",
    "application/json": "json",
    "application/xml": "xml",
    "text/xml": "xml",
}
_PATH: Final = re.compile(r"\d{4}/\d\d/\d\d/[0-9a-f]+(?:-[0-9a-f]{8}|-[0-9a-f]{64})?\.[a-z]+\.gz")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)


def stored_snapshot_path(
    at: int, key: bytes, media_type: str, *, body_hash: bytes | None = None, whole: bool = False
) -> str:
    """Return the path of a body, by the UTC day of ``at`` (Unix seconds).

    ``key`` is the hash of the URL, ``media_type`` the Content-Type as received. A page that
    changed twice in a day needs a second path, which includes the start of ``body_hash``; so does
    one whose path another registry took. ``whole``: a third one, with all of that hash.

    >>> stored_snapshot_path(1_795_219_200, bytes.fromhex("8c1f"), "text/html; charset=utf-8")
    '2026/11/21/8c1f.html.gz'
    >>> stored_snapshot_path(1_795_219_200, bytes.fromhex("8c1f"), "", body_hash=bytes(32))
    '2026/11/21/8c1f-00000000.bin.gz'

    Source: M-48.
    """
    day = datetime.fromtimestamp(at, UTC).strftime("%Y/%m/%d")
    extension = _EXTENSIONS.get(media_type.partition(";")[0].strip().lower(), "bin")
    second = "" if body_hash is None else f"-{body_hash[: None if whole else 4].hex()}"
    return f"{day}/{key.hex()}{second}.{extension}.gz"


def stored_snapshot_path_aside(path: str, body_hash: bytes) -> str:
    """Return the third path of a body whose ``path`` is taken by another one.

    >>> stored_snapshot_path_aside("2026/11/21/8c1f.html.gz", bytes(32))[:24]
    '2026/11/21/8c1f-00000000'
    """
    folder, _, name = path.rpartition("/")
    stem, _, extension = name.partition(".")
    return f"{folder}/{stem.partition('-')[0]}-{body_hash.hex()}.{extension}"


class SnapshotStore:
    """Writes, reads and removes snapshots; any thread may call any method.

    An operation may take ``patience`` seconds and one second for each MiB. After that it is given
    up, together with the operations of its batch that have not begun. A folder has no such limit.

    Open the store after a fork, not before.

    Source: R0-75, M-48.
    """

    def __init__(self, url: str, *, patience: float = PATIENCE) -> None:
        """Find the driver of ``url``: a folder's absolute path, or any URL that fsspec takes.

        Raises:
            SettingError: ``url`` is neither, contains credentials, or its driver does not start.
            SnapshotStoreError: the driver connects at once and fails to.
        """
        self._patience = patience
        self._who = "this user"  #: whose access rights count
        self.folder: Path | None = None  #: on this machine; None: a remote store
        found = _URL.fullmatch(url)
        protocol = found[1].lower() if found else "file"
        place = found[2] if found else url
        if found:
            refuse_store_url_secrets(_SETTING, protocol, place)
        if protocol in {"file", "local"}:
            if not place.startswith("/"):
                raise SettingError(
                    f"SNAPSHOT_STORE is {redacted_line(url)!r}: expected a folder's absolute"
                    " path, or a URL"
                    " like file:///data/snapshots, s3://bucket/prefix, abfs://container/prefix"
                )
            folder = Path(os.path.realpath(unquote(place) if found else place))
            self.url = folder.as_uri()  #: without links, ``..`` and a slash at its end
            self._store: Store = Folder(folder)
            self.folder = folder
        else:
            self.url = f"{protocol}://{place.rstrip('/')}"
            self._store = self._remote(store_driver_class(_SETTING, protocol, self.url))

    def _remote(self, driver: Any) -> Store:
        self._who = store_driver_credentials(driver)
        try:
            system, root = start_store_driver(_SETTING, driver, self.url, skip_instance_cache=True)
        except OSError as error:
            raise self._failure(error, "open") from error
        if not system.async_impl:
            return Drive(system, root, self._patience)
        if not root.strip("/"):
            raise SettingError(
                f"SNAPSHOT_STORE is {redacted_line(self.url)!r}: name a bucket in it"
            )
        return Bucket(system, root, self._patience)

    @classmethod
    def open(cls, url: str, *, patience: float = PATIENCE) -> Self:
        """Return a store after a test write of a small file, ``.smartcrawl``.

        Raises:
            SettingError: as in the constructor.
            SnapshotStoreError: the store cannot be written to.
        """
        store = cls(url, patience=patience)
        error = store._write([(_MARKER, _MARKED)])[0]
        if error is not None:
            store.close()
            raise error
        return store

    def put(self, path: str, body: bytes) -> None:
        """Store a body at ``path``, replacing a former one.

        Raises:
            SnapshotStoreError: it was not stored; a former body is unchanged.
        """
        error = self.put_many([(path, body)])[0]
        if error is not None:
            raise error

    def put_many(
        self, files: Sequence[tuple[str, bytes]], *, new: bool = False
    ) -> list[SnapshotError | None]:
        """Store bodies under their paths; return for each its error or None.

        ``new``: a path of a folder that has a file meanwhile is an error, not a replacement.
        """
        for path, _ in files:
            _check(path)
        return self._write([(path, pack_stored_snapshot(body)) for path, body in files], new=new)

    def _write(
        self, files: Sequence[tuple[str, bytes]], *, new: bool = False
    ) -> list[SnapshotError | None]:
        errors = self._store.write(files, new=new)
        return [
            None if error is None else self._failure(error, f"write {path} to")
            for (path, _), error in zip(files, errors, strict=True)
        ]

    def get(self, path: str, body_hash: bytes, *, max_size: int = MAX_SIZE) -> bytes:
        """Return the body at ``path``, of ``max_size`` bytes at most.

        Raises:
            SnapshotMissingError: the store is reachable and has no such file.
            SnapshotDamagedError: it does not unpack, or its SHA-256 is not ``body_hash``.
            SnapshotStoreError: the store could not be read.
        """
        longest = max_size + max_size // 64 + 1024  # gzip lengthens random bytes by less than this
        _check(path)
        try:
            data = self._store.read(path, longest)
        except Exception as error:  # drivers raise any error of their libraries
            if not is_file_absent_in_store(error) or not self._store.exists():
                raise self._failure(error, f"read {path} from") from error
            raise SnapshotMissingError(
                f"{redacted_line(self.url)} holds no {path}: restore it, or have its page"
                " fetched again"
            ) from error
        try:
            body = _unpacked(data, max_size)
            if hashlib.sha256(body).digest() != body_hash:
                raise ValueError("it is not the body that was stored")
        except ValueError as error:
            raise SnapshotDamagedError(
                f"{path} in {redacted_line(self.url)} is damaged ({error}): restore it, or have"
                " its page fetched again"
            ) from error
        return body

    def holds(self, paths: Sequence[str]) -> list[bool]:
        """Return for each path whether its file exists, intact or not.

        False for all paths if the store does not answer.
        """
        for path in paths:
            _check(path)
        return self._store.holds(paths)

    def remove_many(self, paths: Sequence[str]) -> list[SnapshotError | None]:
        """Remove snapshots; return for each its error or None.

        A missing file counts as removed, unless the store itself is missing: it may come back.
        """
        for path in paths:
            _check(path)
        errors = self._store.remove(paths)
        if any(map(is_file_absent_in_store, errors)) and self._store.exists():
            errors = [None if is_file_absent_in_store(error) else error for error in errors]
        return [
            None if error is None else self._failure(error, f"remove {path} from")
            for path, error in zip(paths, errors, strict=True)
        ]

    def close(self) -> None:
        """Close the connections; the store cannot be used afterwards."""
        self._store.close()

    def _failure(self, error: Exception, doing: str) -> SnapshotStoreError:
        """Translate a driver's error: the failed operation, the reason and the remedy."""
        why = file_store_fault_reason(error) or f"no answer in {self._patience:g} s"
        remedy = file_store_fault(error).value.format(who=self._who, setting=_SETTING)
        failure = SnapshotStoreError(redacted_line(f"cannot {doing} {self.url} ({why}); {remedy}"))
        failure.__cause__ = error
        return failure


def is_stored_snapshot_path(path: str) -> bool:
    """Whether a path is one that ``stored_snapshot_path`` returns."""
    return _PATH.fullmatch(path) is not None


def _check(path: str) -> None:
    """Refuse a path outside of the store, such as one from a damaged registry.

    Raises:
        ValueError: ``path`` is not one that ``stored_snapshot_path`` returns.
    """
    if not is_stored_snapshot_path(path):
        raise ValueError(f"not the path of a snapshot: {path!r}")


# gzip


def pack_stored_snapshot(body: bytes) -> bytes:
    """Return a body as gzip; equal bodies give equal bytes."""
    return igzip.compress(body, 1, mtime=0)


def unpack_stored_snapshot(data: bytes) -> bytes:
    """Return a body that was ``pack_stored_snapshot``, up to 256 MiB of it.

    Raises:
        ValueError: it is damaged.
    """
    return _unpacked(data, MAX_SIZE)


def _unpacked(data: bytes | None, max_size: int) -> bytes:
    """Return the content of gzip data, unpacking at most ``max_size`` bytes and one more.

    Raises:
        ValueError: the data is not gzip, cut off, altered or too long; None: too long to be read.
    """
    if data is None:
        raise ValueError(f"it is too long for {max_size} bytes")
    stream = isal_zlib.decompressobj(wbits=31)
    try:
        body = stream.decompress(data, max_size + 1)
    except isal_zlib.IsalError as error:  # type: ignore[misc]  # its stub names an instance
        raise ValueError(str(error)) from error
    if len(body) > max_size:
        raise ValueError(f"it unpacks to more than {max_size} bytes")
    if not stream.eof:
        raise ValueError("it is cut off")
    return body
