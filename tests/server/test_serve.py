"""``smartcrawl serve`` as a process of its own, asked over real sockets."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from smartcrawl.commands.serve import (
    _with_options,
    open_pages_in_browser,
    print_note_of_serving_without_keys,
)
from smartcrawl.server.bodies import LIMIT
from smartcrawl.server.running import listening_server_socket
from tests.crawls.commands import Result, Scrapy
from tests.crawls.ready import popen
from tests.server.api_client import error_of, server_options

PROGRAM = [sys.executable, "-m", "smartcrawl", "serve"]


Run = Callable[..., Result]  #: runs the command to its end


@pytest.fixture
def run(ask: Scrapy, tmp_path: Path) -> Run:
    """Run the command to its end, in a fork of a process that is ready."""

    def done(*words: str, expect: int = 0) -> Result:
        words = ("smartcrawl", "serve", "--data-dir", str(tmp_path), *words)
        result = ask.run([*words], {"SMARTCRAWL_DATA_DIR": str(tmp_path)})
        assert result.status == expect, result
        return result

    return done


class Server:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        printed = ""
        assert process.stdout is not None
        while "}" not in printed:
            line = process.stdout.readline()
            assert line, process.communicate()
            printed += line
        self.said = json.loads(printed)
        self.url = self.said["url"]
        self.port = int(self.url.rpartition(":")[2])

    def end(self) -> tuple[int, str]:
        """Send SIGTERM; return the exit status and the log."""
        self.process.send_signal(signal.SIGTERM)
        _, logged = self.process.communicate(timeout=30)
        return self.process.returncode, logged


def setting_words(settings: Mapping[str, str]) -> list[str]:
    """Return settings as words of a command line."""
    return [word for name, value in settings.items() for word in ("-s", f"{name}={value}")]


@contextmanager
def serving(
    folder: Path, *words: str, program: Sequence[str] | None = None, **settings: str
) -> Iterator[Server]:
    """Start a server at a free port, as ready.py says; `program`: another one than smartcrawl."""
    started = [*PROGRAM, "--data-dir", str(folder)]
    if program is not None:
        started, settings = list(program), settings | {"DATA_DIR": str(folder)}
    process = popen(
        [*started, "--port", "0", "--format", "json", *words, *setting_words(settings)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"SMARTCRAWL_DATA_DIR": str(folder)},
    )  # fmt: skip
    try:
        yield Server(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def test_a_server_answers_and_ends_in_order(tmp_path: Path):
    with serving(tmp_path) as server:
        assert server.said["keysRequired"] is False
        assert httpx.get(f"{server.url}/ready").json() == {"status": "ready"}
        with pytest.raises(httpx.ConnectError):  # at this address only
            httpx.get(server.url.replace("127.0.0.1", "127.0.0.2"))
        status, logged = server.end()

    assert status == 0
    assert "Traceback" not in logged
    assert (tmp_path / "registry.db").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [({}, True), ({"host": "0.0.0.0"}, False), ({"trusted_proxies": ("10.0.0.1/32",)}, False)],
)
def test_a_server_without_keys_says_so_at_its_start(
    capsys: pytest.CaptureFixture[str], changed: dict[str, object], said: bool
):
    """ATT-68."""
    print_note_of_serving_without_keys(server_options(**changed))

    printed = " ".join(capsys.readouterr().out.split())
    assert ("requests need no key here" in printed) is said
    assert ("serve --create-key NAME" in printed) is said


def test_the_command_says_it_too(tmp_path: Path):
    """ATT-68; a process of its own, from its imports to its end."""
    with subprocess.Popen(
        [*PROGRAM, "--data-dir", str(tmp_path), "--port", "0"],
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        address = re.search(r"http://127\.0\.0\.1:\d+", lines[0])
        assert address is not None, lines
        assert httpx.get(f"{address[0]}/ready").status_code == 200
        process.send_signal(signal.SIGTERM)

    assert lines[0].startswith("serving at http://127.0.0.1:")
    assert lines[1].startswith("requests need no key here.")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("url", "opened"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("http://0.0.0.0:80", "http://127.0.0.1:80/"),
        ("http://[::]:80", "http://[::1]:80/"),
    ],
)
def test_open_shows_the_pages_in_a_browser_or_says_where_they_are(
    url: str,
    opened: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda to: asked.append(to) or len(asked) == 1)

    open_pages_in_browser(url)
    assert capsys.readouterr().err == ""
    open_pages_in_browser(url)
    assert asked == [opened] * 2
    assert f"open {opened} in one" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("host", "port", "served"),
    [(None, None, ("::1", 1)), ("0.0.0.0", None, ("0.0.0.0", 1)), (None, 0, ("::1", 0))],
)
def test_options_of_the_command_line_count_before_settings(
    host: str | None, port: int | None, served: tuple[str, int]
):
    settings = {"API_HOST": "::1", "API_PORT": 1, "DATA_DIR": "d"}

    given = _with_options(settings, Namespace(host=host, port=port))

    assert given == {"API_HOST": served[0], "API_PORT": served[1], "DATA_DIR": "d"}


def test_an_answer_on_an_open_connection_does_not_wait_for_an_acknowledgement():
    """An answer is sent as head and body; Nagle's algorithm would keep the body for 40 ms."""
    with (
        listening_server_socket(server_options(port=0)) as listening,
        socket.create_connection(listening.getsockname()),
    ):
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


def test_no_client_forges_its_address_without_a_trusted_proxy(tmp_path: Path):
    """ATT-49: uvicorn would believe any process here; each request would have a new limit."""
    with serving(tmp_path, API_MONITORING_PER_MINUTE="1000000") as server:
        left = [
            int(
                httpx.get(
                    f"{server.url}/health",
                    headers={"X-Forwarded-For": f"198.51.100.{n}", "Forwarded": f"for=10.0.0.{n}"},
                ).headers["X-RateLimit-Remaining"]
            )
            for n in range(3)
        ]

    assert left[0] > left[1] > left[2] or left[-1] == 999_999  # a minute may begin meanwhile
    assert len(set(left)) > 1


def test_the_address_that_a_trusted_proxy_reports_counts(run: Run, tmp_path: Path):
    run("--create-key", "a")
    with serving(tmp_path, API_TRUSTED_PROXIES="127.0.0.1/32") as server:
        headers = [{"X-Forwarded-For": f"198.51.100.{n}"} for n in range(3)]
        left = [
            httpx.get(f"{server.url}/health", headers=one).headers["X-RateLimit-Remaining"]
            for one in headers
        ]

        assert server.said["keysRequired"] is True
        assert left == ["499"] * 3
        assert httpx.get(f"{server.url}/metrics").status_code == 401


def test_a_chunked_body_is_cut_off_at_its_limit(tmp_path: Path):
    with serving(tmp_path) as server:
        raw = b"POST /api/v1/jobs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
        raw += b"Content-Type: application/json\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(raw)
            part = b"10000\r\n" + b" " * 65_536 + b"\r\n"
            for _ in range(LIMIT // 65_536 + 1):
                client.sendall(part)
            answer = client.recv(65_536)  # the body has no end
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"x-ratelimit-remaining:" in answer
        assert httpx.get(f"{server.url}/health").status_code == 200


def test_errors_of_the_wire_have_the_envelope(tmp_path: Path):
    with serving(tmp_path) as server:
        answers = [
            httpx.get(f"{server.url}/nothing"),
            httpx.get(f"{server.url}/health/"),
            httpx.post(f"{server.url}/health", json={}),
            httpx.post(
                f"{server.url}/health", content=b"{", headers={"Content-Type": "application/json"}
            ),
            httpx.get(f"{server.url}/health", headers={"Host": "rebound.example"}),
        ]

    assert [answer.status_code for answer in answers] == [404, 404, 405, 405, 403]
    assert all(error_of(answer) for answer in answers)
    assert answers[2].headers["Allow"] == "GET"


def test_a_port_in_use_is_reported_with_the_remedy(run: Run):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        done = run("--port", str(port), expect=1)

    assert done.out == ""
    assert f"cannot listen at 127.0.0.1 port {port}" in done.err
    assert "choose another port with --port" in " ".join(done.err.split())
    assert "Traceback" not in done.err


@pytest.mark.long(but=2)
@pytest.mark.parametrize("words", [["--host", "0.0.0.0"], ["-s", "API_TRUSTED_PROXIES=127.0.0.1"]])
def test_without_a_key_only_loopback_is_served(run: Run, words: list[str]):
    done = run("--port", "0", *words, expect=1)

    assert "serve --create-key NAME" in " ".join(done.err.split())


@pytest.mark.long
def test_a_key_that_was_revoked_opens_no_other_address(run: Run):
    made = run("--create-key", "a", "--format", "json").out
    run("--revoke-key", json.loads(made)["id"])

    for words in (["--host", "::"], ["--host", "0.0.0.0"]):
        done = run("--port", "0", *words, expect=1)
        assert "serve --create-key NAME" in " ".join(done.err.split())


@pytest.mark.long(but=3)
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--port", "70000"], "API_PORT is '70000'"),
        (["--port", "web"], "API_PORT is 'web'"),
        (["--host", "a.example"], "API_HOST is 'a.example'"),
        (["-s", "API_JOBS_PER_MINUTE=0"], "API_JOBS_PER_MINUTE is '0'"),
        (["--revoke-key", "0123"], "there is no valid key with the id '0123'"),
        (["--create-key", " "], "--create-key takes a name"),
    ],
)
def test_wrong_values_are_named(run: Run, words: list[str], why: str):
    assert why in run(*words, expect=1).err


def test_a_key_of_a_thousand_years_is_refused_before_it_is_stored(run: Run):
    words = ("--create-key", "a", "--expires-days", "3000000")

    assert "--expires-days takes at most 36,500 days" in run(*words, expect=2).err
    assert json.loads(run("--list-keys", "--format", "json").out) == []


def test_options_of_a_new_key_need_one(run: Run):
    run("--scope", "admin", expect=2)
    run("--sources", "docs", expect=2)


def test_a_key_of_sources_is_made_and_listed(run: Run):
    words = ("--create-key", "wiki", "--sources", "wiki, docs")
    assert "no source is called wiki, docs yet" in run(*words).out
    made = json.loads(run(*words, "--format", "json").out)
    assert made["sources"] == ["wiki", "docs"]
    assert json.loads(run("--create-key", "all", "--format", "json").out)["sources"] is None
    shown = run("--list-keys").out
    assert "wiki, docs" in shown
    assert "public ones" in shown
    assert "takes names of sources" in run("--create-key", "a", "--sources", ",", expect=1).err
    assert "reads every source" in run(*words, "--scope", "admin", expect=2).err
    assert json.loads(run(*words, "--scope", "search", "--format", "json").out)["scope"] == "search"
    refused = run("--create-key", "box", "--scope", "search", expect=2).err
    assert "--scope search needs --sources NAMES" in " ".join(refused.split())


@pytest.mark.long
def test_the_life_of_a_key(run: Run, tmp_path: Path):
    text = run("--create-key", "Grafana", "--scope", "operate").out.splitlines()[0]
    other = json.loads(run("--create-key", "brief", "--expires-days", "1", "--format", "json").out)
    assert re.fullmatch(r"sc_[0-9a-f]{12}_[\w-]{43}", text)
    assert (other["scope"], other["expires"] > other["created"]) == ("read", True)
    key_id = text.split("_")[1]
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        url = f"http://127.0.0.1:{server.port}/metrics"

        def status(value: str) -> int:
            return httpx.get(url, headers={"Authorization": f"Bearer {value}"}).status_code

        assert server.said["keysRequired"] is True
        assert [status(text), status(other["key"]), status(text[:-1])] == [200, 200, 401]
        assert httpx.get(url).status_code == 401
        run("--revoke-key", other["id"])
    with serving(tmp_path, "--host", "0.0.0.0") as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        assert [status(text), status(other["key"])] == [200, 401]
    listed = json.loads(run("--list-keys", "--format", "json").out)
    assert [(one["id"], one["name"], one["revoked"] is None) for one in listed] in (
        [(key_id, "Grafana", True), (other["id"], "brief", False)],
        [(other["id"], "brief", False), (key_id, "Grafana", True)],
    )
    assert text[-43:] not in run("--list-keys").out
    assert text[-43:].encode() not in (tmp_path / "registry.db").read_bytes()
