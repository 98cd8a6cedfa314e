"""Files by path in a folder, in a bucket, or behind any other driver of fsspec.

Folders are written here, everything else by a driver, with limits of time and of parallel calls.
Errors of a driver are returned or raised as they are; ``file_store_fault`` classifies them.
"""

from __future__ import annotations

import asyncio
import errno
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from pathlib import Path
from secrets import token_hex
from threading import Lock, Thread
from typing import Any, Final, NamedTuple, Protocol

from smartcrawl.model.redaction import redacted_text
from smartcrawl.sources.private_files import folder_like_its_parent, write_private_file_like_folder

PARALLEL: Final = 8  #: transfers at once; drivers keep 10 connections or more
_SLOWEST: Final = 1024 * 1024  #: bytes; as many add a second to the time limit of a transfer
_CLOSING: Final = 5  #: seconds for closing connections
_LONGEST: Final = 200  #: characters of a driver's error in a message


class Store(Protocol):
    """Files by path below a root, in bytes as they are stored."""

    def write(
        self, files: Sequence[tuple[str, bytes]], *, new: bool = False
    ) -> list[Exception | None]:
        """Write files by path, over existing ones; return the error of each, or None.

        ``new``: a folder refuses a path that has a file; other stores cannot.
        """

    def read(self, path: str, longest: int) -> bytes | None:
        """Return a file; None if it has more than ``longest`` bytes."""

    def holds(self, paths: Sequence[str]) -> list[bool]:
        """Return for each path whether its file certainly exists."""

    def remove(self, paths: Sequence[str]) -> list[Exception | None]:
        """Remove files; return the error of each, or None; a missing file is an error."""

    def exists(self) -> bool:
        """Whether the store itself exists; called where a file does not."""

    def close(self) -> None:
        """Close all connections."""


class Folder:
    """A folder of this machine, or mounted on it; files are complete or absent."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def write(
        self, files: Sequence[tuple[str, bytes]], *, new: bool = False
    ) -> list[Exception | None]:
        return [self._write(self._root / path, data, new=new) for path, data in files]

    def _write(self, target: Path, data: bytes, *, new: bool) -> Exception | None:
        part = target.with_name(f".{target.name}.{token_hex(8)}")
        try:
            folder_like_its_parent(target.parent)
            write_private_file_like_folder(part, data)
            if new:
                _rename_to_new(part, target)
            else:
                part.replace(target)
        except OSError as error:
            with suppress(OSError):
                part.unlink()
            return error
        return None

    def read(self, path: str, longest: int) -> bytes | None:
        with (self._root / path).open("rb") as file:
            data = file.read(longest + 1)
        return data if len(data) <= longest else None

    def holds(self, paths: Sequence[str]) -> list[bool]:
        return [self._holds(self._root / path) for path in paths]

    def _holds(self, target: Path) -> bool:
        try:
            return target.is_file()
        except OSError:
            return False

    def remove(self, paths: Sequence[str]) -> list[Exception | None]:
        return [self._remove(self._root / path) for path in paths]

    def _remove(self, target: Path) -> Exception | None:
        try:
            target.unlink()
        except OSError as error:
            return error
        return None

    def exists(self) -> bool:
        """Whether the folder has files; an empty one may be a mount point without its mount."""
        return self._root.is_dir() and any(self._root.iterdir())

    def close(self) -> None:
        """Do nothing: no connection is open."""


def _rename_to_new(part: Path, target: Path) -> None:
    """Rename a file to a name that has none.

    Raises:
        FileExistsError: it has one, of another process.
    """
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without second names
        if target.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
        part.replace(target)
    else:
        part.unlink()


class _Call(NamedTuple):
    """One call of a driver, by fsspec's name of the method or by a function that calls it."""

    method: str | Callable[..., Any]  #: without the underscore of asynchronous ones; or our own
    seconds: float  #: time limit
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


class _StoreDriver(ABC):
    """A store behind a driver of fsspec; a call returns what its method does, or its error."""

    def __init__(self, system: Any, root: str, patience: float) -> None:
        self._system = system
        self._root = root.rstrip("/")
        self._patience = patience

    @abstractmethod
    def _each(self, calls: Sequence[_Call]) -> list[Any]:
        """Return the result or the error of each call."""

    @abstractmethod
    def _top(self) -> str:
        """Return the path of the outermost part, which writing does not create."""

    def _call(self, method: str, path: str, *more: Any, size: int = 0, **options: Any) -> _Call:
        seconds = self._patience + size / _SLOWEST
        return _Call(method, seconds, (f"{self._root}/{path}", *more), options)

    def _answer(self, call: _Call) -> Any:
        answer = self._each([call])[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, method: str | Callable[..., Any], *given: Any, size: int = 0, **more: Any) -> Any:
        """Return the answer of the driver, within the time limit of a transfer of ``size`` bytes.

        ``method`` is one of fsspec, or a function; a coroutine function if the driver has those.

        Raises:
            Exception: as the driver does; TimeoutError: it gave no answer.
        """
        return self._answer(_Call(method, self._patience + size / _SLOWEST, given, more))

    def write(
        self, files: Sequence[tuple[str, bytes]], *, new: bool = False
    ) -> list[Exception | None]:
        calls = [self._call("pipe_file", path, data, size=len(data)) for path, data in files]
        return _errors(self._each(calls))

    def read(self, path: str, longest: int) -> bytes | None:
        size: int = self._answer(self._call("info", path))["size"] or 0
        if size > longest:
            return None
        if not size:
            return b""  # an empty range is an error
        data: bytes = self._answer(self._call("cat_file", path, size=size, start=0, end=size))
        return data

    def holds(self, paths: Sequence[str]) -> list[bool]:
        answers = self._each([self._call("info", path) for path in paths])
        return [error is None for error in _errors(answers)]

    def remove(self, paths: Sequence[str]) -> list[Exception | None]:
        return _errors(self._each([self._call("rm_file", path) for path in paths]))

    def exists(self) -> bool:
        try:
            self._answer(_Call("info", self._patience, (self._top(),), {}))
        except Exception as error:  # noqa: BLE001  # a denied request is no sign of absence
            return not is_file_absent_in_store(error)
        return True

    @abstractmethod
    def close(self) -> None:
        """Close the connections."""


class Bucket(_StoreDriver):
    """A store whose driver is asynchronous: transfers run side by side in fsspec's thread."""

    def _each(self, calls: Sequence[_Call]) -> list[Any]:
        from fsspec.asyn import sync  # noqa: PLC0415  # folders need none of it

        try:
            return list(sync(self._system.loop, self._together, calls))
        except RuntimeError as error:  # in a process that was forked, or at its end
            return [error] * len(calls)

    async def _together(self, calls: Sequence[_Call]) -> list[Any]:
        slots = asyncio.Semaphore(PARALLEL)
        silence: TimeoutError | None = None

        async def answer(call: _Call) -> Any:
            nonlocal silence
            async with slots:
                if silence is not None:
                    return silence
                method = call.method
                if isinstance(method, str):
                    method = getattr(self._system, f"_{method}")
                try:
                    return await asyncio.wait_for(
                        method(*call.arguments, **call.options), call.seconds
                    )
                except TimeoutError as error:
                    silence = error
                    return error
                except Exception as error:  # noqa: BLE001  # returned to the caller
                    return error

        return await asyncio.gather(*map(answer, calls))

    def _top(self) -> str:
        return self._root.partition("/")[0]

    def close(self) -> None:
        # S3 and Azure; other drivers close theirs when the process ends.
        from fsspec.asyn import sync  # noqa: PLC0415  # as above

        loop = self._system.loop
        with suppress(RuntimeError, TimeoutError, OSError):
            if hasattr(self._system, "service_client"):
                sync(loop, self._system.service_client.close, timeout=_CLOSING)
            elif hasattr(self._system, "_s3creator"):
                self._system.close_session(loop, self._system._s3creator)


class Drive(_StoreDriver):
    """A store whose driver blocks, and may not be called by two threads at once."""

    def __init__(self, system: Any, root: str, patience: float) -> None:
        super().__init__(system, root, patience)
        self._turn = Lock()

    def _each(self, calls: Sequence[_Call]) -> list[Any]:
        answers: list[Any] = []
        for call in calls:
            silent = answers and isinstance(answers[-1], TimeoutError)
            answers.append(answers[-1] if silent else self._in_turn(call))
        return answers

    def _in_turn(self, call: _Call) -> Any:
        """Call in a separate daemon thread, which the end of the process does not wait for."""
        if not self._turn.acquire(timeout=call.seconds):
            return TimeoutError()
        answer: Future[Any] = Future()
        Thread(target=self._work, args=(call, answer), daemon=True).start()
        try:
            return answer.result(call.seconds)
        except Exception as error:  # noqa: BLE001  # returned to the caller
            return error

    def _work(self, call: _Call, answer: Future[Any]) -> None:
        try:
            if call.method == "pipe_file":
                folder = call.arguments[0].rpartition("/")[0]
                self._system.makedirs(folder, exist_ok=True)
            method = call.method
            if isinstance(method, str):
                method = getattr(self._system, method)
            answer.set_result(method(*call.arguments, **call.options))
        except Exception as error:  # noqa: BLE001  # raised in the waiting thread
            answer.set_exception(error)
        finally:
            self._turn.release()

    def _top(self) -> str:
        return self._root

    def close(self) -> None:
        """Do nothing: such drivers close their connections when the process ends."""


def _errors(answers: Sequence[Any]) -> list[Exception | None]:
    return [answer if isinstance(answer, Exception) else None for answer in answers]


# Errors

#: Words of S3 for a request to another region than that of the bucket.
_REGIONS: Final = frozenset(
    {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"}
)
#: Words of S3 and of Azure for a file in a storage class that is not read at once.
_ARCHIVED: Final = frozenset({"InvalidObjectState", "BlobArchived", "BlobBeingRehydrated"})


class Fault(Enum):
    """Kinds of errors of a store; the value is the remedy, with the ``setting`` that names it."""

    FULL = "free some room, shorten SNAPSHOT_RETENTION_DAYS, or name another {setting}"
    REFUSED = "check what {who} may do there"
    ARCHIVED = "it is archived: restore it to a storage class that is read at once"
    ABSENT = "it is not there: create or mount it, or name another {setting}"
    OCCUPIED = "a file is where a folder should be: move it away, or name another {setting}"
    REGION = "name the region of the bucket in AWS_DEFAULT_REGION"
    SILENT = "check that it runs and can be reached from here"
    OTHER = "check that it runs and can be reached from here, and that {setting} names it"


def file_store_fault(error: Exception) -> Fault:
    """Classify an error of the system, of a driver, or of the library below it."""
    code, status, name = (
        getattr(error, "errno", None),
        source_store_status(error),
        type(error).__name__,
    )
    if isinstance(error, TimeoutError):
        return Fault.SILENT
    word = _store_word(error)
    if word in _REGIONS:
        return Fault.REGION
    if word in _ARCHIVED:
        return Fault.ARCHIVED
    if code in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG} or status == 507:
        return Fault.FULL
    if isinstance(error, PermissionError) or code == errno.EROFS or status in {401, 403}:
        return Fault.REFUSED
    if "Credential" in name or name in {"ClientAuthenticationError", "AzureSigningError"}:
        return Fault.REFUSED
    if is_file_absent_in_store(error):
        return Fault.ABSENT
    if isinstance(error, NotADirectoryError | IsADirectoryError | FileExistsError):
        return Fault.OCCUPIED
    return Fault.OTHER


def is_file_absent_in_store(error: Exception | None) -> bool:
    return isinstance(error, FileNotFoundError) or (
        error is not None and source_store_status(error) == 404
    )


def _store_word(error: BaseException | None) -> str | None:
    """Return the word of the store for an error of botocore or azure.core."""
    while error is not None:
        response = getattr(error, "response", None)
        word = getattr(error, "error_code", None)
        if isinstance(response, Mapping):
            word = response.get("Error", {}).get("Code")
        if isinstance(word, str):
            return word
        error = error.__cause__
    return None


def source_store_status(error: BaseException | None) -> int | None:
    """Return the HTTP status of an error of botocore or azure.core."""
    while error is not None:
        status = getattr(error, "status_code", None)
        response = getattr(error, "response", None)
        if isinstance(response, Mapping):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if isinstance(status, int):
            return status
        error = error.__cause__
    return None


def file_store_fault_reason(error: Exception) -> str:
    """Return the first line of an error, without secrets; empty for our own time limit."""
    text = str(getattr(error, "strerror", None) or error).strip().partition("\n")[0]
    if not text and isinstance(error, TimeoutError):
        return ""
    return f"{type(error).__name__}: {redacted_text(text)[:_LONGEST]}"
