"""The HTTP API as docs/operations runs it: keys by its commands, behind its nginx."""

import os
import re
import ssl
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.registry.database.databases import registry_database
from tests import certificates
from tests.server.api_client import error_of
from tests.server.test_serve import Server, serving
from tests.servers import nginx
from tests.servers.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
#: The page of each chapter, and its heading there.
CHAPTERS = {
    "Keys": ("server", "## Keys"),
    "Behind a proxy": ("proxy", "# The API behind a proxy"),
    "Several servers": ("proxy", "## Several servers"),
}
HOST = "crawl.example.com"
#: The program of the page, which changes to the folder of the project.
PROGRAM = """\
#!/bin/sh
cd '{root}' && exec '{python}' -m smartcrawl "$@"
"""
#: As another user: here it is this one.
RUNUSER = """\
#!/bin/sh
test "$1 $2 $3" = "-u smartcrawl --" && shift 3 && exec "$@"
"""


def block(heading: str, starts: str) -> str:
    """Return the block of a chapter that starts with some words."""
    page, line = CHAPTERS[heading]
    text = (ROOT / "docs" / "operations" / f"{page}.md").read_text("utf-8")
    chapter = f"\n{text}".partition(f"\n{line}\n")[2].partition("\n## ")[0]
    found = [
        textwrap.dedent(text)
        for text in re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", chapter, re.MULTILINE)
    ]
    (text,) = (one for one in found if one.startswith(starts))
    return text


class Machine:
    """The machine of the page: its paths are below a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "var/lib/smartcrawl"
        self.data.mkdir(parents=True)
        (folder / "etc/smartcrawl").mkdir(parents=True)
        commands = block("Behind a proxy", "set -a")
        (self.environment,) = re.findall(
            r"^echo (\S+) >>/etc/smartcrawl/environment$", commands, re.M
        )
        (folder / "etc/smartcrawl/environment").write_text(self.environment)
        for path, text in ((".venv/bin/smartcrawl", PROGRAM), ("bin/runuser", RUNUSER)):
            (folder / path).parent.mkdir(parents=True)
            (folder / path).write_text(text.format(root=ROOT, python=sys.executable))
            (folder / path).chmod(0o755)

    def run(self, commands: str) -> str:
        """Run commands of the page."""
        for path in ("/etc/smartcrawl", "/var/lib/smartcrawl"):
            commands = commands.replace(path, f"{self.folder}{path}")
        done = subprocess.run(
            ["bash", "-e", "-c", commands],
            cwd=self.folder,
            env=os.environ | {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"},
            capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def serving(self) -> Iterator[Server]:
        program = [sys.executable, "-m", "scrapy", "serve"]
        with serving(self.data, program=program, API_MONITORING_PER_MINUTE="1000000") as server:
            yield server


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    name, _, value = machine.environment.strip().partition("=")
    monkeypatch.setenv(name, value)  # as the unit does
    return machine


class Client:
    """A client of the proxy, with TLS and an address of its own on loopback."""

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.context = ssl.create_default_context(cafile=folder / "authority.pem")

    def http(self, address: str = "127.0.0.1") -> httpx.Client:
        transport = httpx.HTTPTransport(verify=self.context, local_address=address)
        return httpx.Client(transport=transport, base_url=self.url, timeout=30)

    def ask(self, method: str, path: str, *, address: str = "127.0.0.1", **given: Any):
        headers = {"Host": HOST} | given.pop("headers", {})
        with self.http(address) as http:
            return http.request(
                method, path, headers=headers, extensions={"sni_hostname": HOST}, **given
            )


@contextmanager
def proxied(folder: Path, servers: list[Server]) -> Iterator[Client]:
    """Start nginx with the blocks of the page; with several servers, in front of all."""
    authority = certificates.made("authority", authority=True)
    certificates.written(folder, "authority.pem", authority, key=False)
    own = certificates.written(
        folder, "own.pem", certificates.made(HOST, hosts=(HOST,), issuer=authority)
    )
    port = free_port()
    text = block("Behind a proxy", "server {")
    places = {
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/ssl/crawl.example.com.pem": str(own),
        "/etc/ssl/private/crawl.example.com.key": str(own),
    }
    if len(servers) > 1:
        upstream = block("Several servers", "upstream smartcrawl {")
        for place, server in zip(("10.0.0.5:8080", "10.0.0.6:8080"), servers, strict=True):
            places[place] = f"127.0.0.1:{server.port}"
        text = upstream + text.replace("http://127.0.0.1:8080;", "http://smartcrawl;")
    else:
        places["127.0.0.1:8080"] = f"127.0.0.1:{servers[0].port}"
    for of_page, here in places.items():
        assert of_page in text
        text = text.replace(of_page, here)
    root = folder / "html"
    root.mkdir()
    with nginx(root, beside=text):
        yield Client(folder, port)


def made_key(machine: Machine) -> str:
    """Return the key that the commands of the page make, after they listed it."""
    printed = machine.run(block("Keys", "set -a"))
    (key,) = re.findall(r"^sc_[0-9a-f]{12}_[\w-]{43}$", printed, re.MULTILINE)
    assert key.split("_")[1] in printed.replace(key, "")  # of --list-keys
    return key


def operating_key(machine: Machine) -> str:
    commands = block("Keys", "set -a").replace("--scope read", "--scope operate")
    return re.findall(r"^sc_\S+$", machine.run(commands), re.MULTILINE)[0]


@pytest.mark.long
def test_the_api_behind_a_proxy_with_keys(machine: Machine, tmp_path: Path):
    key, operating = made_key(machine), operating_key(machine)
    with machine.serving() as server, proxied(tmp_path, [server]) as client:
        read, operate = {"X-API-Key": key}, {"Authorization": f"Bearer {operating}"}
        assert server.said["keysRequired"] is True
        without = client.ask("GET", "/api/v1/jobs")
        local = client.ask("GET", "/api/v1/jobs", headers={"Host": "localhost"})
        body = {"name": "docs", "seed_urls": ["https://docs.example.com/"],
                "schedule": {"type": "recurring", "cron": "0 3 * * 1"}}  # fmt: skip
        answers = [
            client.ask("GET", "/api/v1/jobs", headers=read),
            client.ask("POST", "/api/v1/jobs", headers=read, json=body),
            client.ask("POST", "/api/v1/jobs", headers=operate, json=body),
            client.ask("GET", "/ready"),
        ]
        large = client.ask(
            "POST", "/api/v1/jobs", headers=operate, json=body | {"x": "y" * 1_500_000}
        )
        revoke = block("Keys", "runuser -u smartcrawl -- .venv/bin/smartcrawl serve --rev")
        revoke = revoke.replace("ID", key.split("_")[1])
        machine.run(f"export DATA_DIR=/var/lib/smartcrawl\n{revoke}")
        end = time.monotonic() + 20
        while client.ask("GET", "/api/v1/jobs", headers=read).status_code != 401:
            assert time.monotonic() < end, "the key still counts"
        assert client.ask("GET", "/api/v1/jobs", headers=operate).status_code == 200

    assert (without.status_code, local.status_code) == (401, 401)
    assert error_of(without)["code"] == "UNAUTHORIZED"
    assert [answer.status_code for answer in answers] == [200, 403, 201, 200]
    assert large.status_code == 413
    assert error_of(large)["code"] == "PAYLOAD_TOO_LARGE"


def test_the_limit_is_that_of_the_client_and_no_header_changes_it(machine: Machine, tmp_path: Path):
    made_key(machine)
    with machine.serving() as server, proxied(tmp_path, [server]) as client:

        def left(address: str, **headers: str) -> int:
            answer = client.ask("GET", "/health", address=address, headers=headers)
            return int(answer.headers["X-RateLimit-Remaining"])

        while time.time() % 60 > 50:  # the minute would end between two requests
            time.sleep(0.1)
        first = [left("127.0.0.1"), left("127.0.0.2")]
        forged = {"X-Forwarded-For": "198.51.100.7", "Forwarded": "for=198.51.100.8"}
        second = [left("127.0.0.2", **forged), left("127.0.0.3", **forged)]

    assert first == [999_999, 999_999]
    assert second == [999_998, 999_999]


@pytest.mark.long
def test_a_log_is_followed_through_the_proxy(machine: Machine, tmp_path: Path):
    key, found = {"X-API-Key": made_key(machine), "Host": HOST}, []
    log = machine.data / "logs" / "jb_1.log"
    with (
        machine.serving() as server,
        proxied(tmp_path, [server]) as client,
        closing(registry_database(machine.data / "registry.db").open()) as connection,
        client.http() as http,
    ):
        connection.execute(
            "INSERT INTO job (id, name, definition, status, created_at, version)"
            " VALUES ('job_1', 'docs', '{}', 'paused', 1, 1)"
        )
        connection.execute(
            "INSERT INTO job_run (id, job, due_at, fired_at, state, reasons)"
            " SELECT 'jb_1', no, 1, 1, 'running', '[]' FROM job"
        )
        log.parent.mkdir(exist_ok=True)
        log.write_text("one\n")
        path = "/api/v1/jobs/jb_1/log?follow=true"
        with http.stream("GET", path, headers=key, extensions={"sni_hostname": HOST}) as answer:
            for line in answer.iter_lines():  # each before the next one is written
                found.append(line)
                if line == "one":
                    with log.open("a") as file:
                        file.write("two\n")
                if line == "two":
                    connection.execute("UPDATE job_run SET state = 'ended'")

    assert found == ["one", "two"]


@pytest.mark.long
def test_two_servers_behind_a_proxy_and_one_of_them_dies(machine: Machine, tmp_path: Path):
    headers = {"X-API-Key": operating_key(machine)}
    with (
        machine.serving() as one,
        machine.serving() as other,
        proxied(tmp_path, [one, other]) as client,
    ):
        body = {"name": "docs", "seed_urls": ["https://docs.example.com/"],
                "schedule": {"type": "recurring", "cron": "0 3 * * 1"}}  # fmt: skip
        once = headers | {"Idempotency-Key": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}
        created = [
            client.ask("POST", "/api/v1/jobs", headers=once, json=body).json() for _ in range(4)
        ]
        one.process.kill()
        one.process.communicate()
        after = [client.ask("GET", "/api/v1/jobs", headers=headers) for _ in range(6)]

    assert [job == created[0] for job in created] == [True] * 4
    assert [answer.status_code for answer in after] == [200] * 6
    assert after[0].json()["pagination"]["total"] == 1
