"""The limit of a head, wherever an answer is cut into pieces (docs/limits.md)."""

import pytest
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.web._newclient import Request
from twisted.web.client import URI
from twisted.web.http_headers import Headers

from smartcrawl.engine.download.headers import MAX_HEADERS, _BoundedProtocol
from smartcrawl.model.exceptions import HeadersTooLargeError
from smartcrawl.run.hosts import Strays

HINT = b"HTTP/1.1 103 Early Hints\r\nX-Long: " + 1_000 * b"y" + b"\r\n\r\n"
GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"


def received(pieces: list[bytes]) -> object:
    """Return the answer that the engine makes of these pieces, or the failure of its request."""
    protocol = _BoundedProtocol(lambda protocol: None)
    protocol.strays = Strays()
    protocol.makeConnection(StringTransport())
    uri = URI.fromBytes(b"http://a.example/")
    headers = Headers({b"Host": [b"a.example"]})
    asked = protocol.request(Request._construct(b"GET", b"/", headers, None, True, uri))
    found: list[object] = []
    asked.addBoth(found.append)
    for piece in pieces:
        protocol.dataReceived(piece)
    return found[0]


def is_too_large(found: object) -> bool:
    return isinstance(found, Failure) and any(
        reason.check(HeadersTooLargeError) for reason in getattr(found.value, "reasons", [found])
    )


@pytest.mark.parametrize("whole", [True, False], ids=["in one piece", "in two pieces"])
def test_what_comes_together_with_the_body_counts_as_head(whole: bool):
    """The last hints, the head of the answer and its body may come at once."""
    hints = (MAX_HEADERS // len(HINT) + 1) * HINT
    first, rest = hints[: MAX_HEADERS // 2], hints[MAX_HEADERS // 2 :]
    pieces = [hints + GOOD] if whole else [first, rest + GOOD]

    assert is_too_large(received(pieces))


def test_a_body_is_no_head():
    """A head of two pieces, the second one with a long body."""
    body = MAX_HEADERS * b"b"
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)

    found = received([head[:20], head[20:] + body])

    assert getattr(found, "code", None) == 200
