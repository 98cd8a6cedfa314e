"""The closed vocabularies that rules, registry and reports share (docs/glossary.md)."""

from __future__ import annotations

from enum import IntEnum, StrEnum, auto
from typing import Final

#: Priority of an address that has no other one; 1 is asked first, 10 last (R2-35).
PRIORITY: Final = 5


class Outcome(StrEnum):
    """Outcomes of a visit, as fine as the rules need them."""

    NOT_MODIFIED = auto()  #: 304 to a conditional request
    SAME = auto()  #: 200, and the content hash is the stored one
    CHANGED = auto()  #: 200, new content
    NOT_ACCEPTABLE = auto()  #: 406, or a 200 that must not or cannot be indexed
    ALIAS = auto()  #: 200, and its canonical link names another page that is indexed
    REDIRECT = auto()  #: 301, 302, 303, 307, 308 to another address
    NOT_FOUND = auto()  #: 404, 410
    SOFT_404 = auto()  #: 200, and it says "not found"
    HTTP_ERROR = auto()  #: any other status about the page: 401, 403, 451, 204 …
    TRANSIENT = auto()  #: a status about a passing state of the server: 408, 425, 429, 5xx
    BAD_HEADER = auto()  #: the peer answered, but against the rules of HTTP
    UNREACHABLE = auto()  #: no complete answer: DNS, refusal, time-out, truncation
    UNPROCESSABLE = auto()  #: downloaded, but our extraction failed
    EXCLUDED = auto()  #: robots.txt, today's scope or the operator forbids the visit


class Standing(IntEnum):
    """Extent to which the registry stores a page. The numbers are stored; never renumber."""

    BARE = 0  #: nothing: new, or it never answered 200
    LINKS = 1  #: links and validators of a body that is not to be indexed
    HELD = 2  #: content


class Action(StrEnum):
    """Actions on one visit."""

    INDEX = auto()  #: store content, links and validators; replace the index entry
    LIST = auto()  #: store links and validators, no content
    TOUCH = auto()  #: nothing changed: update times only
    NOTE = auto()  #: record the answer; there is nothing to protect
    HOLD = auto()  #: record the answer; the stored page stays as it is


class Extraction(StrEnum):
    """Ways for a page to get the entry that the present configuration asks for (M-15)."""

    STANDS = auto()  #: it has that entry, or its body will bring it
    REFUSED = auto()  #: it is not to be indexed any more, whatever its body
    AGAIN = auto()  #: extracted from the snapshot of its body, unless the body changed
    WHOLE = auto()  #: extracted from a body that must be downloaded


class Status(IntEnum):
    """Status of a record (R0-28). The numbers are stored; never renumber."""

    PENDING = 0
    CRAWLED = 1
    INDEXED = 2
    ERROR = 3
    OUT_OF_SCOPE = 4
    GONE = 5

    @property
    def word(self) -> str:
        """The spelling of R0-28, such as ``OutOfScope``."""
        return "".join(part.capitalize() for part in self.name.split("_"))


class Word(IntEnum):
    """``lastOutcome`` (docs/glossary.md). The numbers are stored; never renumber.

    ``clone`` is never stored: *new* and *modified* are reported as *clone* while a page is not the
    original of its content.
    """

    NEW = 1
    MODIFIED = 2
    UNCHANGED = 3
    CLONE = 4
    REDIRECTED = 5
    SKIPPED = 6
    FAILED = 7
    LOST = 8
    GONE = 9
    EXCLUDED = 10
    ORPHANED = 11
    DELETED = 12
    MOVED = 13  #: new, with the bytes of a file that its listing lacks

    @property
    def word(self) -> str:
        """The word as reports print it, such as ``unchanged``."""
        return self.name.lower()


class RunState(IntEnum):
    """Life of a run (docs/glossary.md). The numbers are stored; never renumber."""

    OPEN = 0
    VERIFYING = 1  #: everything was visited; candidates for removal are requested again
    SEALED = 2  #: it is decided whether the run saw everything
    SETTLED = 3  #: every record has its word, and removals are proposed
    SWEPT = 4  #: the run has ended
    CANCELLED = 8  #: ended by order, for good: never complete, swept or resumed
    INTERRUPTED = 9

    @property
    def word(self) -> str:
        """The word as reports print it, such as ``open``."""
        return self.name.lower()


class RunOrder(StrEnum):
    """An order to a run that is open. The words are stored; never rename."""

    PAUSE = "pause"  #: end now; only an explicit resume goes on
    CANCEL = "cancel"  #: end now, for good


#: Runs of which a process that has the lease of their source is still at work.
UNFINISHED: Final = frozenset(
    {RunState.OPEN, RunState.VERIFYING, RunState.SEALED, RunState.SETTLED}
)
#: Not decided yet whether the run saw everything: addresses may be added to it and visited.
BEFORE_SEAL: Final = (RunState.OPEN, RunState.VERIFYING)
#: A process may resume the run.
RESUMABLE: Final = (*BEFORE_SEAL, RunState.INTERRUPTED)


class Mode(IntEnum):
    """Modes of indexing a page (M-15, R4-20). The numbers are stored; never renumber."""

    INDEX = 0
    LINKS_ONLY = 1  #: its links are followed, its content is not indexed
    NONE = 2  #: neither

    @property
    def word(self) -> str:
        """The word as sources.toml has it, such as ``links_only``."""
        return self.name.lower()


class RemovalRule(IntEnum):
    """Reasons to remove a page (docs/decisions.md). The numbers are stored; never renumber."""

    GONE = 1  #: 404 or 410, often and long enough
    REDIRECT = 2  #: moved, and its target is indexed
    NOT_ACCEPTABLE = 3  #: 406, noindex, or a type that is not read
    CANONICAL = 4  #: it names another page as canonical, which is indexed
    EXCLUDED = 5  #: robots.txt, scope or the operator leaves it out
    ORPHAN = 6  #: no link leads to it any more
    FORGOTTEN = 7  #: by order of the operator
    ABSENT = 8  #: the complete listing of its source lacks it
    MOVED = 9  #: a new file of its source has its bytes
    WALL = 10  #: new, and a wall to which other new pages of the run redirect

    @property
    def word(self) -> str:
        """The word as reports print it, such as ``not acceptable``."""
        return self.name.lower().replace("_", " ")


#: Rules that remove pinned pages, too. A pin makes a page a seed; it does not make it exist.
REMOVES_PINNED: Final = frozenset(
    {
        RemovalRule.GONE,
        RemovalRule.NOT_ACCEPTABLE,
        RemovalRule.FORGOTTEN,
        RemovalRule.ABSENT,
        RemovalRule.MOVED,
    }
)


class Fault(IntEnum):
    """Extended status of a visit without an HTTP status of its own (R4-42).

    Header errors are 1000 to 1099, network errors 1100 to 1199, processing errors 1200 to
    1299 (G-15). The numbers are stored; never renumber.
    """

    BAD_RESPONSE = 1000
    UNSOLICITED_304 = 1001
    REDIRECT_LOOP = 1002
    NO_LOCATION = 1003
    TOO_MANY_REDIRECTS = 1004
    HEADERS_TOO_LARGE = 1005
    BAD_ENCODING = 1006
    NETWORK = 1100
    DNS = 1101
    REFUSED = 1102
    TIME_OUT = 1103
    RESET = 1104
    TLS = 1105
    TRUNCATED = 1106
    TOO_LARGE = 1107
    ROBOTS_UNKNOWN = 1108
    ADDRESS_REFUSED = 1109
    HOST_DOWN = 1110
    TOO_SLOW = 1111
    CHANGED_WHILE_READ = 1112
    STORE_AWAY = 1113
    NO_BROWSER = 1114
    NOT_LOGGED_IN = 1115
    PROCESSING = 1200
    EMPTY = 1201
    BROKEN_SITEMAP = 1202
    XML_FORBIDDEN = 1203
    NOT_A_SITEMAP = 1204
    CORRUPT = 1205
    ENCRYPTED = 1206
    BOMB = 1207
    CRASHED = 1208
    READING_TIME_OUT = 1209
    OUT_OF_MEMORY = 1210
    SNAPSHOT = 1211
    CHALLENGE = 1212
    LOGIN = 1213
    COLLAPSED = 1214
    UNSIGNED = 1215
    OTHER_VERSION = 1216
    EXTRACTION_BUDGET = 1217
    RENDERING = 1218
    DATA_MISSING = 1219

    @property
    def outcome(self) -> Outcome:
        """The outcome class of this fault's group."""
        if self < Fault.NETWORK:
            return Outcome.BAD_HEADER
        return Outcome.UNREACHABLE if self < Fault.PROCESSING else Outcome.UNPROCESSABLE
