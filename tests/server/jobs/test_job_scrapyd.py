"""What the launcher makes of scrapyd's answers, and of their absence.

The stand-in speaks HTTP, and keeps what it was asked for.
"""

import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl

import pytest

from smartcrawl import settings
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import ServerOptions
from smartcrawl.registry.runs.runs import (
    RunRequest,
    interrupt_run_row,
    open_run_row,
    seal_run_row,
)
from smartcrawl.rules.model import RunState
from smartcrawl.rules.run_orders import JobAction, JobStatus
from smartcrawl.server.jobs import scrapyd
from smartcrawl.server.jobs.runner import MOST_STARTS, Runner, Sight
from smartcrawl.server.jobs.scheduler import CrawlRuns
from smartcrawl.server.jobs.scrapyd import AWAY, MISSING, ScrapydClient, ScrapydCrawls, ScrapydError
from tests.server.api_client import server_options
from tests.server.fake_crawls import NoCrawls, claim_run
from tests.server.jobs.conftest import NOW, Office
from tests.server.jobs.test_job_orders import order
from tests.servers.processes import free_port


class StandIn(ThreadingHTTPServer):
    """A scrapyd that starts nothing."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        self.pending: list[str] = []
        self.finished: list[str] = []
        self.scheduled: list[dict[str, str]] = []
        self.credentials: set[str | None] = set()
        self.answer: tuple[int, bytes] | None = None  #: instead of the true one
        self.lost: str | None = None  #: "answer", or the whole "request"
        self.late: list[str] = []  #: arrive with the list of a number
        self.late_at = 0
        self.lists = 0
        self.released = threading.Event()
        super().__init__(("127.0.0.1", port), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://a:b%2Fc@127.0.0.1:{self.server_port}/under/"

    def end_all(self) -> None:
        self.finished += self.pending
        self.pending.clear()

    def close(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: StandIn

    def do_GET(self) -> None:
        there = self.server
        there.credentials.add(self.headers["Authorization"])
        there.lists += 1
        if there.lists == there.late_at:
            there.pending += there.late
        if there.lost == "hangs":
            there.released.wait(30)
        if there.lost == "drips":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not there.released.wait(0.05):
                self.wfile.write(b"X")
        assert self.path == "/under/listjobs.json?project=of+ours"
        lists = {"pending": there.pending, "running": [], "finished": there.finished}
        data = {state: [{"id": id_} for id_ in ids] for state, ids in lists.items()}
        self._send({"status": "ok", **data})

    def do_POST(self) -> None:
        there = self.server
        assert self.path == "/under/schedule.json"
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if there.lost == "late":
            there.late.append(dict(parse_qsl(body))["jobid"])
        elif there.lost != "request" and there.answer is None:
            there.scheduled.append(dict(parse_qsl(body)))
            there.pending.append(there.scheduled[-1]["jobid"])
        if there.lost is None:
            self._send({"status": "ok"})

    def _send(self, data: object) -> None:
        status, content = self.server.answer or (200, json.dumps(data).encode())
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


LOOK = """
SELECT state, coalesce(starts, 0), server IS NULL
  FROM job_run k LEFT JOIN process p ON p.id = k.id ORDER BY no
"""


class Absent(NoCrawls):
    """A place where no request to start arrived."""

    def sight(self, *_: object) -> Sight:
        return Sight.NOT_STARTED


class Harbour:
    """A registry, a scrapyd, and a server of both at a time of its own."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.there = StandIn()
        self.url = self.there.url
        self.now = NOW
        self.spiders: dict[str, str] = {}  # by source
        self.runner = self.server()

    def server(self) -> Runner:
        database = self.office.database
        client = ScrapydClient(self.url, "of ours")
        crawls = ScrapydCrawls(database, client, lambda source: self.spiders.get(source, "site"))
        return Runner(database, CrawlRuns(database, self.office.connect()), crawls, 2)

    def tick(self, seconds: int = 0) -> None:
        """Do what the scheduler does, each second."""
        for _ in range(seconds + 1):
            self.office.clock.fire(self.now)
            self.runner.tick(self.now)
            self.now += 1

    def opened(self, *, resume: bool = False) -> int:
        """Let a crawl of the last start record its run."""
        given = self.there.scheduled[-1]
        assert resume is ("resume" in given)
        request = RunRequest(given["source"], "site", resume=resume, job_run=given["jobid"])
        return open_run_row(self.office.connection, request, self.now).no

    def swept(self, run: int, *reasons: str) -> None:
        """Let a crawl carry out all steps of its end."""
        seal_run_row(self.office.connection, run, reasons, self.now)
        statement = "UPDATE run SET state = ? WHERE no = ?"
        self.office.connection.execute(statement, (RunState.SWEPT, run))

    def dies(self) -> None:
        """Let the process of the crawl be another one, which is no more."""
        self.office.connection.execute("UPDATE process SET process_start = 'dead'")
        self.there.end_all()

    @contextmanager
    def leased(self) -> Iterator[None]:
        """Let a process crawl the source."""
        lease = self.office.database.take("docs", "today")
        try:
            yield
        finally:
            lease.release()

    @property
    def runs(self) -> list[tuple]:
        return self.office.rows(LOOK)

    def close(self) -> None:
        self.there.close()


@pytest.fixture
def harbour(office: Office) -> Iterator[Harbour]:
    harbour = Harbour(office)
    yield harbour
    harbour.close()


def test_scrapyd_starts_the_spider_of_the_source(harbour: Harbour):
    harbour.spiders["docs"] = "files"
    job = harbour.office.create()
    harbour.tick()

    (asked,) = harbour.there.scheduled
    assert asked["spider"] == "files"
    for _ in range(MOST_STARTS):
        harbour.there.pending.clear()
        harbour.tick(30)
    (reason,) = harbour.office.store.get(job.id).reasons
    assert f"/logs/of ours/files/{asked['jobid']}.log" in reason


@pytest.mark.covers("R2-32")
@pytest.mark.parametrize(("reasons", "complete"), [((), True), (("pages_left",), False)])
def test_a_run_ends_as_the_registry_says(
    harbour: Harbour, reasons: tuple[str, ...], complete: bool
):
    job = harbour.office.create()
    harbour.tick()
    (asked,) = harbour.there.scheduled
    id_ = asked.pop("jobid")
    assert id_.startswith("jb_")
    assert asked == {"project": "of ours", "spider": "site", "source": "docs"}
    assert harbour.there.credentials == {"Basic YTpiL2M="}
    harbour.tick(30)  # it waits in scrapyd
    assert harbour.runs == [("waiting", 1, False)]

    harbour.there.scheduled[-1]["jobid"] = id_
    run = harbour.opened()
    harbour.tick(10)
    assert harbour.office.store.get(job.id).status is JobStatus.RUNNING
    harbour.swept(run, *reasons)
    harbour.there.end_all()
    harbour.tick(MISSING)

    after = harbour.office.store.get(job.id)
    assert (after.status, after.complete, after.reasons) == (
        JobStatus.COMPLETED,
        complete,
        reasons,
    )
    assert len(harbour.there.scheduled) == 1


def test_scrapyd_is_asked_only_for_runs(harbour: Harbour):
    harbour.tick(5)
    assert harbour.there.credentials == set()
    harbour.office.create()
    harbour.tick()
    assert harbour.there.lists == 2  # before it claims, and just before it asks
    harbour.tick(5)
    assert harbour.there.lists == 5  # every other second


def test_a_run_that_ended_needs_no_scrapyd(harbour: Harbour):
    job = harbour.office.create()
    harbour.tick()
    run = harbour.opened()
    harbour.tick()
    harbour.there.close()
    harbour.tick(20)
    assert harbour.office.store.get(job.id).status is JobStatus.RUNNING
    with harbour.leased():  # its process goes on for a moment
        harbour.swept(run)
        harbour.tick(3)
        assert harbour.office.store.get(job.id).status is JobStatus.RUNNING
    harbour.tick()

    assert harbour.office.store.get(job.id).status is JobStatus.COMPLETED


def test_a_start_whose_answer_was_lost_is_not_repeated(
    harbour: Harbour, caplog: pytest.LogCaptureFixture
):
    harbour.office.create()
    harbour.there.lost = "answer"
    harbour.tick(20)
    harbour.there.lost = None
    harbour.tick(20)

    assert len(harbour.there.scheduled) == 1
    assert harbour.runs == [("waiting", 1, False)]
    assert caplog.text.count("jobs wait for scrapyd") == 1
    assert "…@127.0.0.1" in caplog.text
    assert "b%2Fc" not in caplog.text


@pytest.mark.parametrize("refusal", [None, (200, b'{"status": "error", "message": "no room"}')])
def test_a_start_that_did_not_arrive_is_repeated(
    harbour: Harbour, refusal: tuple[int, bytes] | None, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    harbour.office.create()
    if refusal is None:
        harbour.there.lost = "request"
    harbour.there.answer = refusal
    harbour.tick(40)
    assert harbour.there.scheduled == []
    assert caplog.text.count("jobs wait for scrapyd") == 1
    assert harbour.runs[0][:2] in (("waiting", 0), ("waiting", 1))
    harbour.there.lost = harbour.there.answer = None
    harbour.tick(AWAY + MISSING + 5)

    assert len(harbour.there.scheduled) == 1
    assert harbour.runs == [("waiting", 1, False)]
    assert "scrapyd answers again" in caplog.text


def test_a_start_that_arrives_late_is_not_repeated(harbour: Harbour):
    """It is listed just after the run was withdrawn, when the next request is about to leave."""
    harbour.office.create()
    harbour.there.lost, harbour.there.late_at = "late", 6
    harbour.tick(AWAY + MISSING)
    harbour.there.lost = None
    assert harbour.there.lists < 6
    assert len(harbour.there.late) == 1
    harbour.tick(10)

    assert harbour.there.scheduled == []
    assert harbour.there.pending == harbour.there.late
    assert harbour.runs == [("waiting", 1, False)]


def test_a_withdrawn_run_is_free_for_every_server_unless_it_has_begun(harbour: Harbour):
    office = harbour.office
    for name in ("a", "b"):
        office.create(name)
    office.clock.fire(NOW)
    ids = [claim_run(office.database, office.connection, NOW) for _ in range(2)]
    office.connection.execute("UPDATE job_run SET state = 'running' WHERE id = ?", (ids[1],))
    runner = Runner(office.database, CrawlRuns(office.database, office.connection), Absent(), 2)
    runner.watch(NOW)

    assert harbour.runs == [("waiting", 0, True), ("running", 0, False)]


def test_no_run_is_claimed_while_scrapyd_is_away(
    harbour: Harbour, caplog: pytest.LogCaptureFixture
):
    harbour.office.create()
    port = harbour.there.server_port
    harbour.there.close()
    harbour.tick(30)
    assert harbour.runs == [("waiting", 0, True)]
    assert caplog.text.count("jobs wait for scrapyd") == 1
    harbour.there = StandIn(port)
    harbour.tick(AWAY)

    assert harbour.runs == [("waiting", 1, False)]
    assert len(harbour.there.scheduled) == 1


def test_what_dies_is_resumed_once_and_then_fails(harbour: Harbour):
    job = harbour.office.create()
    harbour.tick()
    harbour.opened()
    for starts in (1, 2):
        harbour.tick(3)
        harbour.dies()
        harbour.tick(MISSING + 3)
        assert len(harbour.there.scheduled) == 2
        if starts == 1:
            harbour.opened(resume=True)

    first, second = harbour.there.scheduled
    assert second == first | {"resume": "1"}
    assert harbour.runs == [("ended", 2, False)]
    after = harbour.office.store.get(job.id)
    (reason,) = after.reasons
    assert after.status is JobStatus.FAILED
    assert reason.startswith("its process died in scrapyd: see http://…@127.0.0.1:")
    assert reason.endswith(f"/under/logs/of ours/site/{first['jobid']}.log")


@pytest.mark.covers("R2-32")
def test_a_sealed_run_whose_process_dies_is_started_once_more_for_its_sweep(harbour: Harbour):
    job = harbour.office.create()
    harbour.tick()
    run = harbour.opened()
    harbour.tick(3)
    seal_run_row(harbour.office.connection, run, ("pages_left",), harbour.now)
    harbour.dies()
    harbour.tick(MISSING + 3)
    assert harbour.office.store.get(job.id).status is JobStatus.RUNNING
    first, second = harbour.there.scheduled
    assert second == first | {"resume": "1"}

    harbour.dies()
    harbour.tick(MISSING + 3)

    after = harbour.office.store.get(job.id)
    assert (after.status, after.complete) == (JobStatus.COMPLETED, False)
    assert after.reasons == ("pages_left",)  # it asked all that it wanted to ask
    assert harbour.runs == [("ended", 2, False)]
    assert len(harbour.there.scheduled) == 2


def test_a_second_start_whose_answer_was_lost_is_not_repeated(harbour: Harbour):
    harbour.office.create()
    harbour.tick()
    harbour.opened()
    harbour.tick(3)
    harbour.dies()
    harbour.there.lost = "answer"
    harbour.tick(MISSING + 3)
    harbour.there.end_all()  # both are listed as finished
    harbour.there.lost = None
    harbour.tick(20)

    assert len(harbour.there.scheduled) == 2
    assert harbour.runs == [("ended", 2, False)]


def test_a_second_start_that_did_not_arrive_is_repeated(harbour: Harbour):
    harbour.office.create()
    harbour.tick()
    harbour.opened()
    harbour.tick(3)
    harbour.dies()
    harbour.there.lost = "request"
    harbour.tick(MISSING + 20)
    harbour.there.lost = None
    harbour.tick(20)

    assert len(harbour.there.scheduled) == 2
    assert harbour.runs == [("running", 2, False)]


def test_a_crawl_that_opens_no_run_fails_with_the_place_of_its_log(harbour: Harbour):
    job = harbour.office.create()
    for _ in range(2):
        harbour.tick(3)
        harbour.there.end_all()
        harbour.tick(MISSING + 3)

    assert len(harbour.there.scheduled) == 2
    assert "resume" not in harbour.there.scheduled[1]
    after = harbour.office.store.get(job.id)
    assert after.status is JobStatus.FAILED
    assert "REGISTRY_URL or DATA_DIR of this server" in after.reasons[0]


def test_a_run_whose_source_is_busy_is_skipped(harbour: Harbour):
    job = harbour.office.create()
    harbour.tick()
    with harbour.leased():
        harbour.there.end_all()
        harbour.tick(MISSING + 3)

    assert [row[0] for row in harbour.runs] == ["skipped"]
    after = harbour.office.store.get(job.id)
    assert (after.status, after.reasons) == (JobStatus.CREATED, ("its source is being crawled",))


@pytest.mark.parametrize("returns", [True, False])
def test_a_crawl_is_lost_when_it_is_missing_for_some_seconds(harbour: Harbour, returns: bool):
    """It leaves scrapyd's queue a moment before its process runs."""
    harbour.office.create()
    harbour.tick()
    pending = list(harbour.there.pending)
    harbour.there.pending.clear()
    harbour.tick(MISSING - 1)
    assert harbour.there.lists > 2
    if returns:
        harbour.there.pending += pending
    harbour.tick(MISSING + 3)

    starts = 1 if returns else 2
    assert harbour.runs == [("waiting", starts, False)]
    assert len(harbour.there.scheduled) == starts


def test_a_crawl_goes_on_after_a_restart_of_scrapyd(harbour: Harbour):
    harbour.office.create()
    harbour.tick()
    harbour.opened()
    harbour.there.pending.clear()
    harbour.tick(30)

    assert harbour.runs == [("running", 1, False)]
    assert len(harbour.there.scheduled) == 1


def test_the_next_server_starts_nothing_that_scrapyd_has(harbour: Harbour):
    harbour.office.create()
    harbour.tick()
    harbour.office.connection.execute("UPDATE process SET server = '1 dead elsewhere.example'")
    harbour.now += 61
    harbour.runner = harbour.server()
    harbour.tick(20)

    assert len(harbour.there.scheduled) == 1
    assert harbour.runs == [("waiting", 1, False)]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ((401, b"no"), r"refuses the name or the password in SCRAPYD_URL \(401\)"),
        ((500, b"{}"), "answers 500 without its JSON"),
        ((200, b"<html>"), "answers 200 without its JSON"),
        ((200, b"[" * 50_000), "answers 200 without its JSON"),
        ((200, b'{"status": "ok"}'), "lists no jobs"),
        ((200, b'{"status": "error", "message": "project not found"}'), "project not found"),
        ((302, b""), "answers 302 without its JSON"),
        ((200, b" " * 2_000), "answers 200 without its JSON"),
    ],
)
def test_answers_of_another_program_are_explained(
    answer: tuple[int, bytes], why: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(scrapyd, "_LARGEST", 60_000)
    there = StandIn()
    there.answer = answer
    try:
        with pytest.raises(ScrapydError, match=why) as raised:
            ScrapydClient(there.url, "of ours").jobs()
    finally:
        there.close()
    assert "b%2Fc" not in str(raised.value)


@pytest.mark.parametrize("how", ["hangs", "drips"])
def test_a_request_has_an_end(how: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scrapyd, "_TO_LIST", 0.3)
    there = StandIn()
    there.lost = how
    try:
        with pytest.raises(ScrapydError, match="does not answer"):
            ScrapydClient(there.url, "of ours").jobs()
    finally:
        there.close()


def test_an_address_without_a_server_is_away():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # it does not listen
        client = ScrapydClient(f"http://127.0.0.1:{free_port()}", "smartcrawl")
        with pytest.raises(ScrapydError, match="Connection refused"):
            client.jobs()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:6800",
        "ftp://a:secret@localhost/",
        "http://",
        "http://a:sec/ret@localhost:6800",
        "http://a:secret@localhost:x",
        "http://a:secret@localhost:6800/?a=1",
        "http://a:secret@localhost:6800/#a",
        "http://a:secret@local host:6800/",
        "http://a:secret@localhost:6800/\r\nX: y",
        "http://a:sécret@localhost:6800/",
    ],
)
def test_a_wrong_address_is_refused_without_its_password(url: str):
    with pytest.raises(SettingError, match="SCRAPYD_URL is not the address of a scrapyd") as raised:
        checked(SCRAPYD_URL=url)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("project", ["", "a b", "../a", "a" * 101])
def test_a_wrong_project_is_refused(project: str):
    with pytest.raises(SettingError, match="SCRAPYD_PROJECT"):
        checked(SCRAPYD_PROJECT=project)


def checked(**changed: str) -> object:
    return ServerOptions.of(dict(settings.defaults) | changed)


def test_the_password_is_in_no_representation():
    assert "secret" not in repr(server_options(scrapyd_url="http://a:secret@localhost:6800/"))


@pytest.mark.covers("R2-32", "E-07")
def test_a_paused_run_goes_on_once_scrapyd_has_ended_its_process(harbour: Harbour):
    job = harbour.office.create()
    harbour.tick()
    run = harbour.opened()
    harbour.tick()
    order(harbour.office, job.id, JobAction.PAUSE, harbour.now)
    interrupt_run_row(harbour.office.connection, run, harbour.now, ["paused"])
    harbour.tick(5)
    assert harbour.office.store.get(job.id).status is JobStatus.PAUSED

    order(harbour.office, job.id, JobAction.RESUME, harbour.now)
    harbour.tick(10)  # its former process has not ended
    assert len(harbour.there.scheduled) == 1
    assert harbour.runs == [("waiting", 1, True)]
    harbour.there.end_all()
    harbour.tick(MISSING)

    (first, second) = harbour.there.scheduled
    assert second == first | {"resume": "1"}
    assert harbour.runs == [("waiting", 2, False)]
    assert harbour.opened(resume=True) == run
    harbour.tick()
    assert harbour.office.store.get(job.id).status is JobStatus.RUNNING
