"""From the errors of a download to extended statuses, and to words that help (R4-42)."""

from __future__ import annotations

from typing import Any, Final

from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)

from smartcrawl.exceptions import RobotsUnknownError
from smartcrawl.rules.model import Fault

#: What it means that nobody answered; the first class that fits counts.
FAULTS: Final[tuple[tuple[type[Exception], Fault], ...]] = (
    (RobotsUnknownError, Fault.ROBOTS_UNKNOWN),
    (CannotResolveHostError, Fault.DNS),
    (DownloadConnectionRefusedError, Fault.REFUSED),
    (DownloadTimeoutError, Fault.TIME_OUT),
    (ResponseDataLossError, Fault.TRUNCATED),
    (DownloadCancelledError, Fault.TOO_LARGE),
)
#: Twisted wraps what went wrong on a connection; these are the classes inside, by name.
REASONS: Final = {
    "ParseError": Fault.BAD_RESPONSE,
    "BadHeaders": Fault.BAD_RESPONSE,
    "ConnectionDone": Fault.RESET,
    "ConnectionLost": Fault.RESET,
    "ConnectionAborted": Fault.RESET,
    "Error": Fault.TLS,  # OpenSSL.SSL.Error
    "VerificationError": Fault.TLS,
}
#: What people read, with what they may do about it.
MESSAGES: Final = {
    Fault.BAD_RESPONSE: "the answer is not HTTP: does the port belong to a web server?",
    Fault.DNS: "its host name cannot be resolved: check the spelling and the name server",
    Fault.ADDRESS_REFUSED: "its address is not public: permit its network with ALLOW_NETWORKS",
    Fault.REFUSED: "connection refused: is the server running, and is the port right?",
    Fault.TIME_OUT: "no whole answer within DOWNLOAD_TIMEOUT",
    Fault.TRUNCATED: "the body ended before its announced length",
    Fault.TOO_LARGE: "the body is larger than DOWNLOAD_MAXSIZE",
    Fault.TLS: "no secure connection: does the port speak TLS?",
    Fault.RESET: "the connection broke before a whole answer came",
}


def fault_of(error: BaseException) -> Fault:
    """Return the extended status of a failed download."""
    for kind, fault in FAULTS:
        if isinstance(error, kind):
            return fault
    reasons: Any = getattr(error.__cause__, "reasons", None) or ()
    for reason in reasons:
        fault_ = REASONS.get(type(reason.value).__name__)
        if fault_ is not None:
            return fault_
    return Fault.NETWORK


def described(error: BaseException, fault: Fault, detail: str | None = None) -> str:
    """Return what went wrong and what may be done about it, at most 1,024 characters."""
    message = MESSAGES.get(fault)
    told = detail or str(error).strip("<>[] ") or type(error).__name__
    if message is None or fault is Fault.BAD_RESPONSE:
        return (message or told)[:1024]
    return f"{message} ({told})"[:1024]
