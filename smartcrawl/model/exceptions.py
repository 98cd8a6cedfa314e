"""Errors. Each message has the event, the thing that it happened to, and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from smartcrawl.model.program import program_argument

_CLOSE: Final = 0.6  #: least similarity of two words, from 0 to 1


def nearest_word(word: str, known: Iterable[str], *, least: float = _CLOSE) -> str | None:
    """Return the known word that is most similar to ``word``, or None.

    >>> nearest_word("--limt", ["--limit", "--format"]), nearest_word("--colour", ["--limit"])
    ('--limit', None)
    """
    return next(iter(similar_words(word, known, most=1, least=least)), None)


def similar_words(
    word: str, known: Iterable[str], *, most: int, least: float = _CLOSE
) -> list[str]:
    """Return the known words that are similar to ``word``, the nearest first.

    >>> similar_words("LOST_TRESHOLD", ["LOST_THRESHOLD", "LOG_LEVEL"], most=3)
    ['LOST_THRESHOLD']
    """
    from difflib import get_close_matches  # noqa: PLC0415  # most commands compare no words

    return get_close_matches(word, list(known), n=most, cutoff=least)


def meant_word(word: str, known: Iterable[str]) -> str:
    """Return a question with the similar known word, or an empty string.

    >>> meant_word("dosc", ["docs", "blog"]), meant_word("x", ["docs"])
    (', did you mean docs?', '')
    """
    near = nearest_word(word, known)
    return f", did you mean {near}?" if near else ""


class SmartcrawlError(Exception):
    """Any error that is shown to the operator as a message, without a traceback."""


class UsageError(Exception):
    """A command line that a command does not take."""


class SettingError(SmartcrawlError):
    """A setting has a value that it does not take."""


class SourceError(SmartcrawlError):
    """A source is not declared, or its declaration is wrong."""


class UnknownSourceError(SourceError):
    """No source of this name is declared, and no job has it, so that none can be crawled.

    The registry may have one, of an earlier declaration (UnknownNameError is about that).
    """


class RegistryError(SmartcrawlError):
    """The registry could not be opened, read or written."""


class RegistryVersionError(RegistryError):
    """The registry was written by another version of smartcrawl."""


class RegistryFullError(RegistryError):
    """The disk has no space left for what is written to the registry, or beside it."""


class RegistryDamagedError(RegistryError):
    """The registry's file is damaged."""


class RunHeldError(SmartcrawlError):
    """Another process crawls this source.

    Not a fault: two runs of one source would count each absence twice (ADR 134).
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


class HostsBusyError(SmartcrawlError):
    """Another process crawls a source that shares a host with this one.

    Not a fault: only one process at a time keeps the delays of a host (ADR 173). A command waits.
    """

    def __init__(self, source: str, other: str, host: str) -> None:
        super().__init__(
            f"{source} waits until another process has crawled {other}: both request {host}"
        )
        self.source = source
        self.other = other
        self.host = host


class UnknownNameError(RegistryError):
    """The registry has no source of a name, so that none can be searched or reported.

    The message lists those that it has. One may be declared and not crawled yet
    (UnknownSourceError is about declarations).
    """


class SearchQueryError(RegistryError):
    """A part of a search query means nothing; the message says what to write."""


class RunPausedError(SmartcrawlError):
    """The last run of a source is paused, and only the operator decides whether it goes on."""

    def __init__(self, source: str, run: int, since: str) -> None:
        super().__init__(
            f"run {run} of {source} is paused since {since}: {program_argument('resume')} goes on"
            " with it"
        )
        self.source = source
        self.run = run
        self.since = since


class RunDiffersError(SmartcrawlError):
    """A worker has other rules than the workers of the run that it was to join."""

    def __init__(self, source: str, run: int, keys: Sequence[str]) -> None:
        super().__init__(
            f"other workers crawl {source} in run {run} with another {', '.join(keys)}: give this"
            " one the same sources.toml, settings and arguments, and start it again"
        )
        self.keys = tuple(keys)


class FrontierError(SmartcrawlError):
    """The frontier that workers share could not be reached, read or written."""


class CommitsLostError(RegistryError):
    """The database lost commits of this process: it was replaced by an older copy.

    What this process remembers, such as the numbers of addresses, may be true no more.
    """


class RunOverError(RegistryError):
    """Another process closed the run while this process worked for it."""


class FrontierLostError(FrontierError):
    """Redis lost its data, or restarted with older data.

    Not a fault: the registry is the truth, and the frontier is refilled from it.
    """


class SinkError(SmartcrawlError):
    """Content could not be written to the search index."""


class EmbedderError(SmartcrawlError):
    """An embedder gave no vectors for texts, which stay without them until a later run."""

    def __init__(self, message: str, *, lasting: bool) -> None:
        super().__init__(message)
        self.lasting = lasting  #: whether to ask no more in this run


class EmbedderAwayError(EmbedderError):
    """An embedder is away or busy, and is asked nothing for some seconds."""

    def __init__(self, host: str, reason: str, seconds: float) -> None:
        super().__init__(
            f"{host} makes no vectors now ({reason}): it is asked again after"
            f" {max(1, round(seconds))} s",
            lasting=False,
        )
        self.host, self.reason, self.seconds = host, reason, seconds


class ModelDownloadError(SmartcrawlError):
    """The files of a model are not in their folder; the message has the reason and the remedy."""


class RerankError(SmartcrawlError):
    """A cross-encoder gave no order of hits; the order of the index stays."""


class PushError(SmartcrawlError):
    """A push to a vector store ends: the store is gone, away for too long, or refuses."""


class PushHeldError(SmartcrawlError):
    """Another process pushes to this vector store."""

    def __init__(self, store: str, held: RunHeldError) -> None:
        super().__init__(
            f"process {held.pid} on {held.host} pushes to the vector store {store} since"
            f" {held.since}: wait until it ends, or stop it there with kill -INT {held.pid}"
        )


class NoVectorsError(SmartcrawlError):
    """A search wants vectors, and there are none."""


class RobotsDisallowedError(SmartcrawlError):
    """The rules of a host forbid an address: the page is excluded."""


class TurnSpentError(SmartcrawlError):
    """The request slot of a page was used for robots.txt: the page waits for the next one.

    Not a fault: no visit was made.
    """


class NotLoggedInError(SmartcrawlError):
    """A page is not requested, because the login of its source does not count; it stays pending."""


class LogsOutError(SmartcrawlError):
    """A page may not be requested, because that would end the login of its source."""


class RunHaltedError(SmartcrawlError):
    """A request was not sent, or given up, because the run ends by order: the page stays pending.

    Not a fault: no visit was made.
    """


class HostBlockedError(SmartcrawlError):
    """The operator blocked a host: its pages are excluded."""


class HostDownError(SmartcrawlError):
    """A host does not answer, so none of its pages is requested any more in this run."""


class AddressRefusedError(SmartcrawlError):
    """An address must not be connected to: it is not public, or not of the web."""


class HeadersTooLargeError(SmartcrawlError):
    """The headers of an answer are larger than those of any sound server."""


class CertificateError(SmartcrawlError):
    """The TLS certificate of a server is refused: expired, of another name, of unknown issuer."""


class FaultError(SmartcrawlError):
    """A page has no answer that can be read, for a reason with an extended status of its own."""

    def __init__(self, message: str, fault: int) -> None:
        super().__init__(message)
        self.fault = fault  #: extended status (rules.model.Fault)


class RobotsUnknownError(FaultError):
    """The robots.txt of a host could not be fetched, so none of its pages is requested."""


class RenderingError(FaultError):
    """A page was answered, and could not be rendered."""


class GivenUpError(SmartcrawlError):
    """A document was not read because the crawl ended: its page stays pending."""


class SnapshotError(SmartcrawlError):
    """A snapshot could not be stored, read or removed."""


class SnapshotMissingError(SnapshotError):
    """The store answers, and has no snapshot at this path."""


class SnapshotDamagedError(SnapshotError):
    """The file in the store is not the body that was stored."""


class SnapshotStoreError(SnapshotError):
    """The store cannot be reached, is full, or denies access."""


class ListedFileError(SmartcrawlError):
    """A file of a folder or a store could not be read, and its stored page stays as it is."""


class ChangedWhileReadError(ListedFileError):
    """A file changed while it was read, and changed again while it was read once more."""


class FileTooLargeError(ListedFileError):
    """A file has more bytes than a body may have; it was not read."""

    def __init__(self, message: str, size: int) -> None:
        super().__init__(message)
        self.size = size  #: bytes


class StoreAwayError(ListedFileError):
    """The folder or store itself is away, refuses, or gave no answer: no evidence about a file."""


class DefiniteRefusalError(StoreAwayError):
    """An item cannot be had in this run, however often it is requested."""


class LaneError(SmartcrawlError):
    """The revalidation lane got no complete answer within its limits; the engine repeats it."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent  #: whether a request may have reached the server
        self.times = 1  #: requests that it may have got
