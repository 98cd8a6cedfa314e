"""Errors of downloads as extended statuses (R4-42), and mistakes in a user's own code."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    IgnoreRequest,
    ResponseDataLossError,
    StopDownload,
)
from twisted.python.failure import Failure

from smartcrawl.engine.download.network import resolver_refusal
from smartcrawl.extract.encodings import EncodingError
from smartcrawl.model.exceptions import (
    AddressRefusedError,
    CertificateError,
    ChangedWhileReadError,
    FaultError,
    HostDownError,
    StoreAwayError,
)
from smartcrawl.model.urls import url_endpoint
from smartcrawl.rules.connections import connection_remedy
from smartcrawl.rules.model import Fault
from smartcrawl.run.visits import failure_message

#: Faults of the errors without an answer; the first class that fits counts.
FAULTS: Final[tuple[tuple[type[Exception], Fault], ...]] = (
    (CannotResolveHostError, Fault.DNS),
    (DownloadConnectionRefusedError, Fault.REFUSED),
    (DownloadTimeoutError, Fault.TIME_OUT),
    (ResponseDataLossError, Fault.TRUNCATED),
    (DownloadCancelledError, Fault.TOO_LARGE),
    (StopDownload, Fault.TOO_SLOW),
    (ChangedWhileReadError, Fault.CHANGED_WHILE_READ),
    (StoreAwayError, Fault.STORE_AWAY),
)
#: Faults of the errors that Twisted wraps, by the name of their class.
REASONS: Final = {
    "HeadersTooLargeError": Fault.HEADERS_TOO_LARGE,
    "ParseError": Fault.BAD_RESPONSE,
    "BadHeaders": Fault.BAD_RESPONSE,
    "ConnectionDone": Fault.RESET,
    "ConnectionLost": Fault.RESET,
    "ConnectionAborted": Fault.RESET,
    "Error": Fault.TLS,  # OpenSSL.SSL.Error
    "VerificationError": Fault.TLS,
    "CertificateError": Fault.TLS,
}
#: Faults of encoded bodies (extract.encodings).
ENCODING_FAULTS: Final = {
    "too_large": Fault.TOO_LARGE,
    "truncated": Fault.TRUNCATED,
    "corrupt": Fault.BAD_ENCODING,
    "unknown": Fault.BAD_ENCODING,
}


def download_fault(error: BaseException, url: str) -> tuple[Fault, str]:
    """Return the extended status of a failed download, and a message with the remedy.

    The message has at most 1,024 characters.
    """
    if isinstance(error, FaultError):
        return Fault(error.fault), str(error)[:1024]
    if isinstance(error, HostDownError):
        return Fault.HOST_DOWN, str(error)[:1024]
    if isinstance(error, EncodingError):
        return ENCODING_FAULTS[error.kind], str(error)[:1024]
    fault, detail = _fault_of(error), _detail(error)
    if isinstance(error, AddressRefusedError):
        fault = Fault.ADDRESS_REFUSED
    elif fault is Fault.DNS and (refusal := resolver_refusal(url)) is not None:
        fault, detail = Fault.ADDRESS_REFUSED, refusal
    if fault is Fault.ADDRESS_REFUSED:
        return fault, _refusal_message(detail, url)
    if any(isinstance(reason.value, CertificateError) for reason in _reasons(error)):
        return fault, detail[:1024]  # it names the remedy itself
    return fault, failure_message(fault, detail)


def _refusal_message(refusal: str, url: str) -> str:
    """Return why an address is refused, with the remedy if there is one."""
    host = url_endpoint(url)[0] if url.startswith(("http://", "https://")) else ""
    remedy = connection_remedy(refusal, host)
    if remedy is None:
        return refusal[:1024]
    if refusal.startswith("port"):
        return f"{refusal}: {remedy}"
    return f"its address is not public: {remedy} ({refusal})"[:1024]


def _reasons(error: BaseException) -> tuple[Any, ...]:
    """Return the failures that Twisted wrapped, if any."""
    return tuple(getattr(error.__cause__, "reasons", None) or ())


def _detail(error: BaseException) -> str:
    """Return the text of an error, or of the error inside it if a library wrapped one.

    >>> _detail(ConnectionResetError(104, "Connection reset by peer"))
    '[Errno 104] Connection reset by peer'
    """
    for reason in _reasons(error):
        error = reason.value
    text = " ".join(str(error).split())
    return text if text and "twisted." not in text else type(error).__name__


def _fault_of(error: BaseException) -> Fault:
    for kind, fault in FAULTS:
        if isinstance(error, kind):
            return fault
    for reason in _reasons(error):
        inner = REASONS.get(type(reason.value).__name__)
        if inner is not None:
            return inner
    return Fault.NETWORK


_LIBRARIES: Final = tuple(
    Path(folder).resolve()
    for folder in (
        Path(__file__).parents[2],
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        sysconfig.get_path("stdlib"),
    )
)


class OwnCodeError(Exception):
    """A request failed by a mistake in a user's own component; the cause has its place."""


def own_code_place(failure: Failure) -> str:
    """Return the class of an error that a user's own code raised, with its file and line.

    The last line of that code counts, also where it called into a library.
    """
    error: BaseException = failure.value  # type: ignore[assignment]  # never None here
    if isinstance(error, OwnCodeError) and error.__cause__ is not None:
        error = error.__cause__
    found = _places(error)
    if not found:
        return type(error).__name__
    own = [place for place in found if not _is_of_library(place[0])]
    file, line, function = (own or found)[-1]
    return f"{type(error).__name__} at {_short(Path(file))}:{line}, in {function}"


def is_own_code_error(error: BaseException, url: str) -> bool:
    """Whether a request failed by a mistake in a user's own component, not by its download."""
    if isinstance(error, OSError | IgnoreRequest) or not isinstance(error, Exception):
        return False
    if download_fault(error, url)[0] is not Fault.NETWORK:
        return False
    return not all(_is_of_library(file) for file, _, _ in _places(error))


def _places(error: BaseException) -> list[tuple[str, int, str]]:
    return [
        (frame.f_code.co_filename, line, frame.f_code.co_qualname)
        for frame, line in walk_tb(error.__traceback__)
    ]


@cache
def _is_of_library(file: str) -> bool:
    return file.startswith("<") or any(
        Path(file).resolve().is_relative_to(folder) for folder in _LIBRARIES
    )


def _short(file: Path) -> Path:
    """Return a file below the current folder, or below one of modules, by its shorter path."""
    for folder in (Path.cwd(), *map(Path, filter(None, sys.path))):
        if file.is_relative_to(folder):
            return file.relative_to(folder)
    return file
