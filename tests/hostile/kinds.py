"""What one kind of misbehaviour is: a path, a script of bytes, and what a crawl makes of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import chain, repeat
from typing import NamedTuple

from tests.site_server import html

HTML = "Content-Type: text/html; charset=utf-8"
CHUNKED = "Transfer-Encoding: chunked"
TIMES = 65_536  #: bytes that an endless answer sends at once


class End(Enum):
    """What becomes of the connection after an answer."""

    KEEP = auto()  #: it waits for the next request
    CLOSE = auto()  #: closed in order; so ends a script that names no end
    RESET = auto()  #: a TCP reset
    HALF_CLOSE = auto()  #: no more is sent, and it stays open until the client leaves
    SILENCE = auto()  #: nothing more happens until the client leaves
    IDLE = auto()  #: it waits a little while; then a 408 comes that nobody asked for


KEEP, CLOSE, RESET, HALF_CLOSE, SILENCE, IDLE = End

#: Bytes that are sent, seconds without any, or the end.
Step = bytes | float | End
Script = Iterable[Step]


class Ask(NamedTuple):
    """A request to a kind's path, or below it."""

    name: str  #: of the kind
    here: str  #: the kind's own path as it was asked: its twin lies elsewhere
    rest: str  #: what follows it: "", "/2", "?n=2"
    head: bytes  #: as it arrived
    headers: dict[str, str]  #: names in lower case
    round: int  #: 1 in the first run
    origin: str  #: http://127.0.0.1:PORT of this server
    victim: str  #: likewise, of the one that must never be asked

    @property
    def never(self) -> str:
        """A path that nobody may ask: only a body that is not to be believed leads there."""
        return f"/never/{self.name}"

    def matches(self, etag: str) -> bool:
        """Whether If-None-Match holds exactly this value."""
        return self.headers.get("if-none-match") == etag


Answer = Callable[[Ask], Script]


class Told(NamedTuple):
    """What the record says after a run."""

    word: str  #: lastOutcome
    status: int | None  #: HTTP's, or an extended one
    message: str | None = None  #: part of errorMessage; None: there is no message


NEW = Told("new", 200)
UNCHANGED = Told("unchanged", 200)
MODIFIED = Told("modified", 200)
NOT_MODIFIED = Told("unchanged", 304)
NOT_HTTP = Told("failed", 1000, "not HTTP")
HEAD_TOO_LARGE = Told("failed", 1005, "headers")
BAD_CODING = Told("failed", 1006, "Content-Encoding")
TIME_OUT = Told("failed", 1103, "DOWNLOAD_TIMEOUT")
BROKEN = Told("failed", 1104, "the connection broke")
CUT = Told("failed", 1106, "ended before")
CUT_CODING = Told("failed", 1106, "ends")
TOO_LARGE = Told("failed", 1107, "larger than")
TOO_SLOW = Told("failed", 1111, "slow")
EMPTIED = Told("failed", 1201, "empty body")
NOINDEX = Told("excluded", 200, "noindex")


@dataclass(frozen=True, slots=True)
class Kind:
    """One misbehaviour. ``second`` is `first`, or ``unchanged`` where that is ``new``.

    Where the first run indexes nothing there is a twin: a healthy page in the first run that
    takes to this misbehaviour in the second. ``held`` is what becomes of it; None: what the
    rules say of such an answer.
    """

    group: str
    name: str
    what: str
    answer: Answer
    first: Told
    second: Told | None = None
    held: Told | None = None
    early: bool = False  #: answers when it has read the request line, and reads no more
    reason: str | None = None  #: why its run is incomplete

    @property
    def path(self) -> str:
        return f"/{self.group}/{self.name}"

    @property
    def twin(self) -> str | None:
        return None if self.first.word == "new" else f"/held{self.path}"

    @property
    def then(self) -> Told:
        """What the second run tells."""
        if self.second is not None:
            return self.second
        return UNCHANGED if self.first == NEW else self.first


# Bytes


def raw(text: str | bytes) -> bytes:
    """Return bytes; text is Latin-1, so that any byte can be written."""
    return text if isinstance(text, bytes) else text.encode("latin-1")


def head(*lines: str | bytes, status: str | bytes = "HTTP/1.1 200 OK") -> bytes:
    """Return a status line, header lines and the blank line."""
    return b"".join(raw(line) + b"\r\n" for line in (status, *lines)) + b"\r\n"


def whole(body: bytes, *lines: str | bytes, status: str | bytes = "HTTP/1.1 200 OK") -> bytes:
    """Return an answer with its length and type, unless ``lines`` say another type."""
    named = any(raw(line).lower().startswith(b"content-type:") for line in lines)
    own = () if named else (HTML,)
    return head(*own, *lines, f"Content-Length: {len(body)}", status=status) + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def page(ask: Ask, *links: str, text: str = "", head: str = "") -> bytes:
    """Return a page that is like no other, with links to follow."""
    words = text or f"What {ask.name} says at {ask.here}{ask.rest}."
    return html(f"{ask.name}{ask.rest}", *links, text=words, head=head).encode()


def trap(ask: Ask) -> bytes:
    """Return a page that must not be believed."""
    return page(ask, ask.never, text=f"unbelievable {ask.name}")


# Answers


def filled(ask: Ask, text: str | bytes) -> bytes:
    """Return bytes with the addresses of this ask for ``{here}``, ``{victim}`` and so on."""
    facts = {
        "here": ask.here, "never": ask.never, "origin": ask.origin, "victim": ask.victim,
        "port": ask.victim.rpartition(":")[2],
    }  # fmt: skip
    data = raw(text)
    for name, value in facts.items():
        data = data.replace(b"{%s}" % name.encode(), value.encode())
    return data


def sends(*steps: Step) -> Answer:
    """The same for everybody."""
    return lambda ask: (filled(ask, step) if isinstance(step, bytes) else step for step in steps)


def good(*lines: str | bytes, status: str = "HTTP/1.1 200 OK", body: str | bytes = "") -> Answer:
    """A page in order, but for these header lines; paths below it are pages without them."""

    def answer(ask: Ask) -> Script:
        content = filled(ask, body) or page(ask)
        if ask.rest:
            return whole(page(ask)), KEEP
        return whole(content, *(filled(ask, line) for line in lines), status=status), KEEP

    return answer


def refuses(status: str, *lines: str | bytes) -> Answer:
    """A status whose body must not be believed."""

    def answer(ask: Ask) -> Script:
        named = [filled(ask, line) for line in lines]
        return whole(trap(ask), *named, status=f"HTTP/1.1 {status}"), KEEP

    return answer


def built(body: Callable[[Ask], bytes], *lines: str | bytes) -> Answer:
    """A well-formed answer with a body of its own; paths below it are ordinary pages."""

    def answer(ask: Ask) -> Script:
        return whole(page(ask) if ask.rest else body(ask), *lines), KEEP

    return answer


def in_turn(*answers: Answer) -> Answer:
    """One answer in each round; the last one stays."""
    return lambda ask: answers[min(ask.round, len(answers)) - 1](ask)


def endless(start: bytes, more: bytes, pause: float | None = None) -> Answer:
    """A beginning, and the same bytes again and again."""

    def answer(ask: Ask) -> Script:
        again: tuple[Step, ...] = (more,) if pause is None else (more, pause)
        return chain((filled(ask, start),), chain.from_iterable(repeat(again)))

    return answer
