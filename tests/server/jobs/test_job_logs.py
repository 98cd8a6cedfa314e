"""The log of a run over HTTP: whole, while it grows, and where it is not."""

import asyncio
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from smartcrawl.rules.run_orders import JobStatus
from smartcrawl.server.jobs import logs
from smartcrawl.server.jobs.logs import MOST, PART, LogResponse, job_log_parts, open_job_log
from tests.server.api_client import error_of
from tests.server.jobs.conftest import JOBS, NOW, Api
from tests.server.jobs.test_job_scheduler import OPEN, Desk, opened, slow_site
from tests.server.test_serve import serving
from tests.site_server import Site, html


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    yield from opened(tmp_path, tmp_path / "registry.db")


def log_in(folder: Path, id_: str, text: bytes) -> None:
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / f"{id_}.log").write_bytes(text)


def fired(api: Api) -> str:
    """Return the run of a new job."""
    api.create()
    (run,) = api.clock.fire(NOW)
    return run.id


def test_the_log_of_a_run_is_sent_as_text(api: Api):
    job = api.create()["job_id"]
    assert "it has not run yet" in api.ask("GET", f"/{job}/log").text
    (run,) = api.clock.fire(NOW)
    text = "Zürich\n".encode() * 20_000  # several parts
    log_in(api.folder, run.id, text)

    for id_ in (run.id, job):
        for query in ("", "?follow=false"):
            answer = api.ask("GET", f"/{id_}/log{query}")
            assert answer.status_code == 200
            assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.content == text


def test_the_last_run_that_was_not_skipped_has_the_log_of_a_job(api: Api):
    job = api.create(schedule={"type": "recurring", "cron": "0 * * * *"})["job_id"]
    ids = []
    for hour in range(1, 4):
        (run,) = api.clock.fire(NOW + 3_600 * hour)
        ids.append(run.id)
        log_in(api.folder, run.id, run.id.encode())
        if hour == 1:
            api.clock.ended(run.id, 0, NOW + 3_600)
    assert [run.stage for run in map(api.clock.get, ids)] == ["ended", "waiting", "skipped"]

    assert api.ask("GET", f"/{job}/log").text == ids[1]


@pytest.mark.parametrize(
    "id_",
    [
        "jb_0000000000000000",
        "job_0000000000000000",
        "jb_..%2f..%2fregistry",
        "..%2fsecret",
        "jb_%2e%2e%2f%2e%2e%2fsecret",
        "jb_secret",
    ],
)
def test_no_file_is_read_but_the_log_of_a_run(api: Api, id_: str):
    """ATT-59."""
    log_in(api.folder, "jb_secret", b"secret")
    (api.folder / "secret.log").write_bytes(b"secret")

    answer = api.ask("GET", f"/{id_}/log")

    assert answer.status_code == 404
    assert error_of(answer)["code"] == "NOT_FOUND"
    assert "secret" not in str(error_of(answer)["details"].get("field"))


@pytest.mark.parametrize("query", ["?follow=1", "?follow=", "?follow=true&follow=true", "?tail=9"])
def test_its_query_is_read_strictly(api: Api, query: str):
    run = fired(api)
    log_in(api.folder, run, b"text")

    answer = api.ask("GET", f"/{run}/log{query}")

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] in ("follow", "tail")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ("UPDATE job_run SET state = 'waiting'", "the run has not started"),
        ("UPDATE job_run SET state = 'running'", "the log is not on this machine any more"),
        (
            "INSERT INTO process (kind, id, host) SELECT 'crawl', id, 'far.example' FROM job_run",
            "the log is on the machine far.example: ask the server there",
        ),
    ],
)
def test_a_log_that_is_not_here_has_its_place(api: Api, changes: str, why: str):
    run = fired(api)
    api.connection.execute(changes)

    answer = api.ask("GET", f"/{run}/log")

    assert answer.status_code == 404
    assert error_of(answer)["details"]["reason"] == why


def test_a_log_in_scrapyd_has_its_address_there(api: Api):
    run = fired(api)
    api.app = api.server(scrapyd_url="http://a:secret@scrapyd.example:6800/")

    reason = error_of(api.ask("GET", f"/{run}/log"))["details"]["reason"]

    place = f"http://…@scrapyd.example:6800/logs/smartcrawl/site/{run}.log"
    assert reason == f"the log is in scrapyd: {place}"


def test_a_link_is_no_log(api: Api):
    run = fired(api)
    (api.folder / "secret").write_bytes(b"secret")
    (api.folder / "logs").mkdir()
    (api.folder / "logs" / f"{run}.log").symlink_to(api.folder / "secret")

    assert api.ask("GET", f"/{run}/log").status_code == 404


def test_an_ended_run_is_not_followed(api: Api):
    run = fired(api)
    log_in(api.folder, run, b"all\n")
    api.clock.ended(run, 1, NOW)

    assert api.ask("GET", f"/{run}/log?follow=true").text == "all\n"


async def collected(parts: AsyncIterator[bytes]) -> list[bytes]:
    return [part async for part in parts]


def test_no_more_logs_are_sent_than_the_most_to_clients_that_ask_together(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    run = fired(api)
    log_in(api.folder, run, b"text")
    together = threading.Barrier(2, timeout=0.5)

    def opened_together(path: Path) -> object:
        with suppress(threading.BrokenBarrierError):
            together.wait()
        return open_job_log(path)

    monkeypatch.setattr(logs, "MOST", 1)
    monkeypatch.setattr(logs, "open_job_log", opened_together)

    async def both() -> list[int]:
        transport = httpx.ASGITransport(api.app, client=("127.0.0.1", 50_000))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost:8080"
        ) as client:
            asked = (client.get(f"{JOBS}/{run}/log") for _ in range(2))
            return sorted(answer.status_code for answer in await asyncio.gather(*asked))

    assert asyncio.run(both()) == [200, 503]
    assert api.ask("GET", f"/{run}/log").text == "text"
    assert api.ask("GET", "/jb_0000000000000000/log").status_code == 404
    (api.folder / "logs" / f"{run}.log").unlink()
    assert [api.ask("GET", f"/{run}/log").status_code for _ in range(2)] == [404, 404]


def test_what_is_written_before_the_end_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Also what comes between the last end of the file and the end of the run."""
    monkeypatch.setattr(logs, "_PAUSE", 0)
    path = tmp_path / "a.log"
    path.write_bytes(b"first\n")
    answers = iter([True, True, False])

    async def goes_on() -> bool:
        answer = next(answers)
        with path.open("ab") as file:
            file.write(b"more\n" if answer else b"last\n")
        return answer

    with open_job_log(path) as log:
        read = asyncio.run(collected(job_log_parts(log, goes_on)))
    assert b"".join(read) == b"first\nmore\nmore\nlast\n"


def test_parts_are_bounded_and_end_where_the_log_ended_at_first(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * (2 * PART + 7))

    async def growing() -> list[int]:
        sizes = []
        with open_job_log(path) as log:
            async for part in job_log_parts(log):
                sizes.append(len(part))
                with path.open("ab") as file:
                    file.write(b"y" * PART)
        return sizes

    assert asyncio.run(growing()) == [PART, PART, 7]


def test_a_log_is_closed_when_its_client_is_gone_before_the_first_part(tmp_path: Path):
    path = tmp_path / "a.log"
    path.write_bytes(b"x")
    log = open_job_log(path)
    closed = []

    async def send(_: object) -> None:
        raise OSError

    async def receive() -> dict:
        return {"type": "http.disconnect"}

    response = LogResponse(log, None, lambda: closed.append(1))
    with pytest.raises(BaseException):  # noqa: B017, PT011  # of Starlette
        asyncio.run(response({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send))
    assert (log.closed, closed) == (True, [1])


def head(url: str, id_: str) -> socket.socket:
    """Ask for a log, and return the connection after the head of the answer."""
    host, port = url.removeprefix("http://").split(":")
    client = socket.create_connection((host, int(port)), timeout=20)
    client.sendall(
        f"GET /api/v1/jobs/{id_}/log?follow=true HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    )
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += client.recv(1)
    assert answer.startswith(b"HTTP/1.1 200 ")
    return client


def test_a_log_is_read_while_its_crawl_runs(desk: Desk, site: Site):
    slow_site(site)
    with serving(desk.folder, **OPEN) as server:
        id_ = desk.create(site)
        desk.until(lambda: bool(list(desk.folder.glob("logs/*"))))
        with httpx.stream(
            "GET", f"{server.url}/api/v1/jobs/{id_}/log?follow=true", timeout=60
        ) as answer:
            lines = answer.iter_lines()
            first = next(lines)
            during = desk.status(id_)
            rest = list(lines)
        desk.until(lambda: desk.status(id_) is JobStatus.COMPLETED)
        ((run, *_),) = desk.runs()
        whole = httpx.get(f"{server.url}/api/v1/jobs/{run}/log").text

    assert during in (JobStatus.CREATED, JobStatus.RUNNING)
    assert [first, *rest] == whole.splitlines()
    assert whole == (desk.folder / "logs" / f"{run}.log").read_text()
    assert any("Run " in line for line in rest)


@pytest.fixture
def held(desk: Desk, site: Site) -> Iterator[tuple[Desk, str]]:
    """A run that stays open: its source is crawled by another process."""
    site.pages["/"] = html("Home")
    lease = desk.database.take("docs", "today")
    desk.create(site)
    desk.connection.execute(
        "INSERT INTO job_run (id, job, due_at, fired_at, state, reasons)"
        " SELECT 'jb_0123456789abcdef', no, 1, 1, 'running', '[]' FROM job"
    )
    desk.connection.execute(
        "INSERT INTO process (kind, id, server, watched_at)"
        " VALUES ('crawl', 'jb_0123456789abcdef', '1 x elsewhere', ?)",
        (int(time.time()) + 3_600,),
    )
    log_in(desk.folder, "jb_0123456789abcdef", b"one line\n")
    yield desk, "jb_0123456789abcdef"
    lease.release()


def test_the_end_of_a_server_ends_its_logs(held: tuple[Desk, str]):
    desk, run = held
    with serving(desk.folder, **OPEN) as server:
        client = head(server.url, run)
        begun = time.monotonic()
        status, logged = server.end()
        took = time.monotonic() - begun
        client.close()

    assert status == 0
    assert took < 8  # less than the grace for requests
    assert "Traceback" not in logged


def test_a_client_that_goes_away_frees_its_place(held: tuple[Desk, str]):
    desk, run = held
    with serving(desk.folder, **OPEN) as server:
        clients = [head(server.url, run) for _ in range(MOST)]
        path = f"{server.url}/api/v1/jobs/{run}/log"
        refused = httpx.get(path)
        files = Path(f"/proc/{server.process.pid}/fd")

        def logs_open() -> int:
            """Count those of the run; the server starts others, and opens their logs."""
            return sum(run in str(fd.resolve()) for fd in files.iterdir())

        assert logs_open() == MOST
        for client in clients:
            client.close()
        end = time.monotonic() + 20
        while (served := httpx.get(path)).status_code == refused.status_code:
            assert time.monotonic() < end
            threading.Event().wait(0.05)
        while logs_open():  # the other clients and the last one
            assert time.monotonic() < end
            threading.Event().wait(0.05)

    assert refused.status_code == 503
    assert error_of(refused)["details"]["reason"] == f"this server sends {MOST} logs already"
    assert served.text == "one line\n"
