"""What can go wrong: each message says what happened, to what, and what the reader should do."""

from __future__ import annotations


class SmartcrawlError(Exception):
    """Anything that smartcrawl tells its operator as a message, without a traceback."""


class SettingError(SmartcrawlError):
    """A setting has a value that it does not take."""


class SourceError(SmartcrawlError):
    """A source is not declared, or declared wrongly."""


class RegistryError(SmartcrawlError):
    """The registry could not be opened, read or written."""


class RegistryVersionError(RegistryError):
    """The registry was written by another version of smartcrawl."""


class RegistryDamagedError(RegistryError):
    """The registry's file is not what was written to it."""


class RunHeldError(SmartcrawlError):
    """Another process crawls this source.

    Not a fault: two runs of one source would count each absence twice (design.md 5).
    """

    def __init__(self, source: str, pid: int, host: str, since: str) -> None:
        super().__init__(
            f"{source} is being crawled by process {pid} on {host} since {since}:"
            f" wait until that run ends, or stop it there with kill -INT {pid}"
        )
        self.source = source
        self.pid = pid
        self.host = host
        self.since = since


class FrontierError(SmartcrawlError):
    """The frontier that workers share could not be reached, read or written."""


class RunOverError(RegistryError):
    """A run was closed by somebody else while this process worked for it."""


class FrontierLostError(FrontierError):
    """Redis lost what was in it, or came back with older data.

    Not a fault: the registry is the truth, and the frontier is filled again from there.
    """


class SinkError(SmartcrawlError):
    """Content could not be written to where it is searched."""


class RobotsDisallowedError(SmartcrawlError):
    """The rules of a host forbid an address: the page is excluded."""


class TurnSpentError(SmartcrawlError):
    """A page's turn at its host was spent on robots.txt: it waits for the next one.

    Not a fault: no visit was made.
    """


class HostBlockedError(SmartcrawlError):
    """The operator blocked a host: its pages are excluded."""


class HostDownError(SmartcrawlError):
    """Nobody answers at a host, so none of its pages is asked any more in this run."""


class AddressRefusedError(SmartcrawlError):
    """An address must not be connected to: it is not public, or not of the web."""


class HeadersTooLargeError(SmartcrawlError):
    """The headers of an answer do not end where those of a sound server do."""


class CertificateError(SmartcrawlError):
    """The TLS certificate of a server is refused: expired, of another name, of unknown issuer."""


class RobotsUnknownError(SmartcrawlError):
    """The rules of a host could not be had, so none of its pages is asked."""

    def __init__(self, message: str, fault: int) -> None:
        super().__init__(message)
        self.fault = fault  #: extended status (rules.model.Fault)


class GivenUpError(SmartcrawlError):
    """A document was not read, because the crawl ends: its page stays pending."""


class SnapshotError(SmartcrawlError):
    """A snapshot could not be stored, read or removed."""


class SnapshotMissingError(SnapshotError):
    """The store answers, and holds no snapshot of this path."""


class SnapshotDamagedError(SnapshotError):
    """What the store holds is not the body that was stored."""


class SnapshotStoreError(SnapshotError):
    """The store cannot be reached, has no room, or does not let us in."""


class LaneError(SmartcrawlError):
    """The revalidation lane got no whole answer within the limits; the engine asks instead."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent  #: whether a request may have reached the server
