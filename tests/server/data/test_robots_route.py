"""The robots.txt of a host over HTTP: stored, or downloaded within limits (E-12)."""

import asyncio
import gzip
import ssl
import time
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest

from smartcrawl.extract.robots_txt import MOST_RULES, robots_txt_groups
from smartcrawl.server import robots
from smartcrawl.server.answers import Robots
from tests.certificates import certificate, made, written
from tests.server.api_client import ask, error_of
from tests.server.data.library import NOW, Library
from tests.server.data.origins import Origin, plain

PATH = "/api/v1/robots"
SECONDS = robots.SECONDS
LOOPBACK = (ip_network("127.0.0.0/8"),)


def test_a_download_takes_five_seconds_at_most():
    assert SECONDS == 5


RULES = b"""
User-agent: *
Disallow: /admin/   # secret
Disallow: /private/
Allow: /public/
Crawl-delay: 1

User-agent: Googlebot
User-agent: BadBot/2.0
Disallow:
Crawl-delay: 120

user-agent: googlebot
allow: /extra
Sitemap: https://example.com/sitemap.xml
Sitemap: /more.xml
"""
STORED = "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, ?, ?, ?)"


@pytest.fixture
def origin() -> Iterator[Origin]:
    with Origin() as origin:
        yield origin


def read(library: Library, domain: str, app: Any = None) -> dict[str, Any]:
    answer = ask(app or library.app, "GET", f"{PATH}/{domain}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    Robots.model_validate(found)
    return found


def reason(answer: httpx.Response) -> str:
    assert answer.status_code == 404, answer.text
    error = error_of(answer)
    assert error["code"] == "NOT_FOUND"
    return str(error["details"]["reason"])


@pytest.mark.covers("E-12", "R2-40")
def test_a_stored_robots_txt_is_shown_with_all_groups_as_written(library: Library):
    library.execute(STORED, ("https://example.com", NOW - 60, 200, RULES))

    assert read(library, "Example.COM:443") == {
        "domain": "example.com",
        "fetched_at": "2025-06-15T15:05:40Z",
        "expires_at": "2025-06-16T15:05:40Z",
        "rules": {
            "user_agents": {
                "*": {
                    "allow": ["/public/"],
                    "disallow": ["/admin/", "/private/"],
                    "crawl_delay": 1.0,
                },
                "Googlebot": {"allow": ["/extra"], "disallow": [], "crawl_delay": 120.0},
                "BadBot/2.0": {"allow": [], "disallow": [], "crawl_delay": 120.0},
            },
            "sitemaps": ["https://example.com/sitemap.xml", "https://example.com/more.xml"],
        },
    }


@pytest.mark.covers("R2-40")
def test_the_latest_copy_of_a_host_counts_and_ports_are_other_hosts(library: Library):
    library.execute(STORED, ("https://example.com", NOW - 60, 200, b"User-agent: a\nDisallow: /s"))
    library.execute(STORED, ("http://example.com", NOW - 5, 200, b"User-agent: a\nDisallow: /p"))
    library.execute(STORED, ("http://example.com:81", NOW, 200, b"User-agent: a\nDisallow: /o"))

    assert read(library, "example.com")["rules"]["user_agents"]["a"]["disallow"] == ["/p"]
    assert read(library, "example.com:81")["rules"]["user_agents"]["a"]["disallow"] == ["/o"]
    forever = library.server(robots_ttl=0)
    assert read(library, "example.com", forever)["expires_at"] is None


@pytest.mark.covers("R2-40")
def test_a_stored_answer_without_rules_is_not_found(library: Library, origin: Origin):
    library.execute(STORED, (f"http://{origin.host}", NOW, 410, b""))
    app = library.server(allow_networks=LOOPBACK)

    answer = ask(app, "GET", f"{PATH}/{origin.host}")

    assert reason(answer) == "status 410: everything is allowed"
    assert origin.asked == []


@pytest.mark.covers("R2-40")
def test_bytes_that_are_no_text_are_shown_replaced(library: Library):
    library.execute(STORED, ("https://example.com", NOW, 200, b"User-agent: \xff\nDisallow: /\xfe"))

    assert read(library, "example.com")["rules"]["user_agents"] == {
        "\ufffd": {"allow": [], "disallow": ["/\ufffd"], "crawl_delay": None}
    }


@pytest.mark.covers("R2-40")
def test_a_group_with_too_many_agents_and_rules_is_refused(library: Library):
    agents = "".join(f"User-agent: a{n}\n" for n in range(5_000))
    body = (agents + "Disallow: /\n" * 5_000).encode()
    library.execute(STORED, ("https://example.com", NOW, 200, body))

    found = reason(ask(library.app, "GET", f"{PATH}/example.com"))

    assert found == f"robots.txt has more than {MOST_RULES:,} rules"
    with pytest.raises(ValueError, match="more than"):
        robots_txt_groups(body)


@pytest.mark.covers("R2-40")
def test_an_unknown_host_is_asked_once_and_its_answer_is_kept_for_a_day(
    library: Library, origin: Origin
):
    origin.answers["/robots.txt"] = plain(RULES)
    app = library.server(allow_networks=LOOPBACK)

    first = read(library, origin.host, app)
    library.now += 86_399
    again = read(library, origin.host, app)
    library.now += 1
    later = read(library, origin.host, app)

    assert first == again
    assert first["domain"] == origin.host
    assert first["fetched_at"] == "2025-06-15T15:06:40Z"
    assert later["fetched_at"] == first["expires_at"] == "2025-06-16T15:06:40Z"
    assert first["rules"]["sitemaps"][1] == f"http://{origin.host}/more.xml"
    assert origin.asked == ["GET /robots.txt HTTP/1.1"] * 2
    assert f"Host: {origin.host}\r\n" in origin.requests[0]
    assert "User-Agent: smartcrawl/" in origin.requests[0]
    assert library.execute("SELECT * FROM robots") == []


@pytest.mark.long(but=6)
@pytest.mark.covers("R2-40", "E-12")
@pytest.mark.parametrize(
    "spelt",
    [
        "127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.0.0.1", "0x7f000001", "127.1", "127.0.0.1.",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::1]", "１２７.0.0.1", "localhost",
        "169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.169.254.",
        "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "１６９.254.169.254", "0.0.0.0",
        "10.1.2.3", "metadata.google.internal", "metadata.google.internal.",
    ],
)  # fmt: skip
def test_no_spelling_of_a_private_address_is_asked(library: Library, spelt: str):
    """Nor a name that resolves to one."""
    found = reason(ask(library.app, "GET", f"{PATH}/{spelt}"))

    assert found.startswith("address not allowed: ")


@pytest.mark.covers("R2-40")
def test_other_ports_are_not_asked(library: Library):
    found = reason(ask(library.app, "GET", f"{PATH}/93.184.215.14:25"))

    assert found == "port not allowed: 25"


@pytest.mark.covers("R2-40", "R2-10")
@pytest.mark.parametrize(
    "domain",
    ["a b", "a%20b", "me@example.com", "example.com:99999", "example.com:x", "exa%00mple.com",
     "example.com%3Fx", "example.com%23x", "%5C", "a..b%25", "[::1", "x" * 300 + "%", "%FF", ":80"],
)  # fmt: skip
def test_what_is_no_host_is_refused(library: Library, domain: str):
    answer = ask(library.app, "GET", f"{PATH}/{domain}")

    assert answer.status_code == 400, answer.text
    assert error_of(answer)["code"] == "INVALID_INPUT"


@pytest.mark.covers("R2-40")
@pytest.mark.parametrize("domain", ["x" * 64 + ".example", "nothing.invalid", "-.invalid"])
def test_a_name_that_is_not_found_is_not_found(library: Library, domain: str):
    assert reason(ask(library.app, "GET", f"{PATH}/{domain}")) == "its name is not found"


def test_a_query_is_refused(library: Library):
    answer = ask(library.app, "GET", f"{PATH}/example.com?fresh=1")

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] == "fresh"


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
HUGE = b"# " + b"x" * 600_000
BOMB = gzip.compress(b"\0" * 10_000_000)


@pytest.mark.long(but=5)
@pytest.mark.covers("R2-40", "E-12")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        pytest.param(plain(b"", status="404 Not Found"), "everything is allowed", id="404"),
        pytest.param(plain(b"", status="403 Forbidden"), "everything is allowed", id="403"),
        pytest.param(plain(b"", status="500 Oops"), "status 500", id="500"),
        pytest.param(plain(HUGE), "more than 512,000 bytes", id="huge"),
        pytest.param(CHUNKED + b"f4240\r\n" + HUGE, "more than 512,000 bytes", id="huge chunk"),
        pytest.param(plain(BOMB, "Content-Encoding: gzip"), "it is compressed", id="bomb"),
        pytest.param(plain(b"\x7fELF\0\0\x01"), "it is not text", id="binary"),
        pytest.param(b"\0\1\2\3\r\n\r\n", "a broken answer", id="no HTTP"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", "a broken", id="length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nUser", "cut off", id="cut"),
        pytest.param(CHUNKED + b"5\r\nUser", "cut off", id="cut chunk"),
        pytest.param(CHUNKED + b"zz\r\nUser", "a broken answer", id="no chunk"),
        pytest.param(b"", "cut off", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000, "headers", id="header"),
        pytest.param(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", "broken", id="101"),
        pytest.param(plain(b"", "Location: /robots.txt", status="302 X"), "redirects", id="circle"),
        pytest.param(plain(b"", "Location: ftp://x/", status="301 X"), "no web address", id="ftp"),
        pytest.param(
            plain(b"", "Location: http://169.254.169.254/", status="302 Found"),
            "address not allowed: metadata",
            id="metadata",
        ),
        pytest.param(
            plain(b"", "Location: http://[::1]/robots.txt", status="302 Found"),
            "address not allowed: loopback",
            id="private",
        ),
        pytest.param(
            plain(b"", "Location: http://93.184.215.14:25/", status="302 Found"),
            "port not allowed",
            id="port",
        ),
    ],
)  # fmt: skip
def test_a_broken_answer_is_not_found_with_its_reason(
    library: Library, origin: Origin, answer: bytes, why: str
):
    origin.answers["/robots.txt"] = answer
    app = library.server(allow_networks=LOOPBACK)
    began = time.monotonic()

    found = [reason(ask(app, "GET", f"{PATH}/{origin.host}")) for _ in range(2)]

    assert why in found[0]
    assert found[0] == found[1]
    assert len(origin.asked) in (1, 6), "six with redirects; the second answer is kept"
    assert time.monotonic() - began < 4


@pytest.mark.covers("R2-40")
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(plain(RULES), id="length"),
        pytest.param(b"HTTP/1.0 200 OK\r\n\r\n" + RULES, id="end of connection"),
        pytest.param(CHUNKED + b"%x\r\n%b\r\n0\r\n\r\n" % (len(RULES), RULES), id="chunks"),
        pytest.param(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + plain(RULES), id="interim"),
        pytest.param(plain(b"\xef\xbb\xbf" + RULES, "Content-Encoding: identity"), id="mark"),
    ],
)
def test_a_right_answer_is_read_however_it_is_sent(library: Library, origin: Origin, answer: bytes):
    origin.answers["/robots.txt"] = plain(b"", "Location: /real?x=1", status="308 Moved")
    origin.answers["/real?x=1"] = answer

    found = read(library, origin.host, library.server(allow_networks=LOOPBACK))

    assert set(found["rules"]["user_agents"]) == {"*", "Googlebot", "BadBot/2.0"}


@pytest.mark.covers("R2-40")
@pytest.mark.parametrize("part", [b"# a line\n", b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"])
def test_an_answer_without_end_is_given_up(
    library: Library, origin: Origin, part: bytes, monkeypatch: pytest.MonkeyPatch
):
    """Slow lines for ever, nothing at all, or hints only."""
    monkeypatch.setattr(robots, "SECONDS", 1.0)
    gone = Event()

    def steps() -> Iterator[bytes]:
        if not part.startswith(b"HTTP"):
            yield b"HTTP/1.1 200 OK\r\n\r\n"
        while not gone.wait(0.02):
            yield part

    origin.answers["/robots.txt"] = steps
    began = time.monotonic()

    found = reason(ask(library.server(allow_networks=LOOPBACK), "GET", f"{PATH}/{origin.host}"))
    gone.set()

    assert found == "no whole answer within 1 s"
    assert time.monotonic() - began < 4


@pytest.mark.covers("R2-40")
def test_a_failure_is_kept_for_a_minute(library: Library, origin: Origin):
    origin.answers["/robots.txt"] = plain(b"", status="503 Away")
    app = library.server(allow_networks=LOOPBACK)
    for seconds, times in ((0, 1), (59, 1), (1, 2)):
        library.now += seconds
        assert reason(ask(app, "GET", f"{PATH}/{origin.host}")) == "status 503"
        assert len(origin.asked) == times


@pytest.mark.covers("R2-40")
def test_one_download_answers_all_who_wait_and_only_some_run_at_once(library: Library):
    """Each host has a port of its own; the ninth one is one too many."""
    go = Event()
    begun: list[Event] = []

    def waiting(started: Event) -> Any:
        def steps() -> Iterator[bytes]:
            started.set()
            go.wait(10)
            yield plain(RULES)

        return steps

    origins = [Origin() for _ in range(9)]
    for origin in origins:
        begun.append(Event())
        origin.answers["/robots.txt"] = waiting(begun[-1])
        origin.__enter__()
    app = library.server(allow_networks=LOOPBACK)

    async def ask_all() -> tuple[list[httpx.Response], httpx.Response]:
        transport = httpx.ASGITransport(app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            asked = [*origins[:8], origins[0]]
            tasks = [asyncio.ensure_future(http.get(f"{PATH}/{o.host}")) for o in asked]
            for started in begun[:8]:
                await asyncio.to_thread(started.wait, 10)
            refused = await http.get(f"{PATH}/{origins[-1].host}")
            go.set()
            return list(await asyncio.gather(*tasks)), refused

    answers, refused = asyncio.run(ask_all())
    for origin in origins:
        origin.__exit__(None, None, None)

    assert {answer.status_code for answer in answers} == {200}
    assert len(origins[0].asked) == 1
    assert refused.status_code == 503
    assert error_of(refused)["code"] == "SERVICE_UNAVAILABLE"
    assert origins[-1].asked == []


@pytest.mark.covers("R2-40", "RD-20")
@pytest.mark.parametrize("trusted", ["authority", "unverified", "no", "other name"])
def test_certificates_are_verified(library: Library, tmp_path: Path, trusted: str):
    """A refused certificate is no reason to ask without encryption."""
    file = certificate(tmp_path)
    if trusted == "other name":
        file = written(tmp_path, "other.pem", made("x", hosts=("a.example",), authority=True))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    choices: dict[str, object] = {"ca_file": file} if trusted in ("authority", "other name") else {}
    if trusted == "unverified":
        choices = {"verify_certificates": False}
    with Origin(context) as origin:
        origin.answers["/robots.txt"] = plain(RULES)
        app = library.server(allow_networks=LOOPBACK, **choices)
        answer = ask(app, "GET", f"{PATH}/{origin.host}")

    if trusted in ("authority", "unverified"):
        assert answer.status_code == 200, answer.text
        assert answer.json()["rules"]["sitemaps"][1] == f"https://{origin.host}/more.xml"
    else:
        assert "the certificate was refused" in reason(answer)
        assert origin.asked == []
