"""`smartcrawl serve` carries out steps of a real library (E-18, E-19, R3-12)."""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path

import httpx
import pytest

from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.jobs.library_store import LibraryJob, LibraryJobs
from tests.server.api_client import ORDER
from tests.server.test_serve import Server, serving
from tests.servers.sharepoint import SharepointServer

DOWNLOAD = "/v2/crawler/download_data"
FILES = {f"guide/{number}.txt": f"whale {number}".encode() for number in range(24)}
QUERY = {"domain_id": "DOMAIN01"}


class Port:
    """A domain with one library, and the folder of a server."""

    def __init__(self, folder: Path, sharepoint: SharepointServer) -> None:
        self.folder = folder
        self.sharepoint = sharepoint
        site = sharepoint.tenant.site("/sites/demo")
        library = site.library("Documents", "Shared Documents")
        for path, content in FILES.items():
            library.add(path, content)
        place = folder / "library" / "domains" / "DOMAIN01"
        place.mkdir(parents=True)
        source = {"source_id": "source01", "site_url": sharepoint.site_url(site), "filter": ""}
        declared = {"file_sources": [source | {"sharepoint_url_part": "/Shared Documents"}]}
        (place / "domain.json").write_text(json.dumps({"name": "Demo", **declared}))
        self.settings = sharepoint.settings | {
            "ALLOW_NETWORKS": "127.0.0.0/8",
            "DOWNLOAD_DELAY": "0",
            "CONCURRENT_REQUESTS_PER_DOMAIN": "2",
        }
        self.database = registry_database(folder / "registry.db")

    def serving(self) -> Iterator[Server]:
        return serving(self.folder, **self.settings)

    def disk(self) -> dict[str, bytes]:
        top = self.folder / "library/crawler/DOMAIN01/01_files/source01/02_embedded"
        return {
            str(path.relative_to(top)): path.read_bytes()
            for path in top.rglob("*")
            if path.is_file()
        }

    def job(self) -> LibraryJob | None:
        """The last job."""
        with closing(self.database.open()) as connection:
            id_ = connection.execute("SELECT id FROM library_job ORDER BY no DESC LIMIT 1").get
            return None if id_ is None else LibraryJobs(connection).get(id_)

    def downloads(self) -> Counter[str]:
        return Counter(request.target for request in self.sharepoint.asked(pattern="GetFileById"))

    def slow(self) -> None:
        """Let each file take 0.4 s: 24 files, two at a time."""
        self.sharepoint.fail("slow", "GetFileById", times=None, seconds=0.4)

    def until(self, done: Callable[[], object], seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while not done():
            logs = [log.read_text() for log in self.folder.glob("logs/*")]
            assert time.monotonic() < end, (self.job(), *logs)
            time.sleep(0.05)


def followed(server: Server, query: dict[str, str]) -> AbstractContextManager[httpx.Response]:
    """Order a download, and read what it does."""
    place = f"{server.url}{DOWNLOAD}"
    return httpx.stream("GET", place, params=query, headers=ORDER, timeout=90)


@pytest.fixture
def port(tmp_path: Path, sharepoint: SharepointServer) -> Iterator[Port]:
    port = Port(tmp_path, sharepoint)
    yield port
    job = port.job() if (tmp_path / "registry.db").exists() else None
    process = None if job is None else job.started.process
    if process is not None and process.is_alive():
        os.kill(process.pid, signal.SIGKILL)


@pytest.mark.covers("E-18", "E-19", "R3-12")
def test_a_download_is_followed_to_its_result(port: Port):
    with port.serving() as server:
        with httpx.stream(
            "GET", f"{server.url}{DOWNLOAD}", params=QUERY, headers=ORDER, timeout=90
        ) as answer:
            lines = list(answer.iter_lines())
        result = json.loads(lines[-1])
        (source,) = result["sources"]
        assert (source["added"], source["downloaded"], result["complete"]) == (24, 24, True)
        assert (result["action"], result["dryRun"]) == ("download", False)
        assert any("Integrity check passed: 24 files verified" in line for line in lines)
        assert port.disk() == FILES

        given = QUERY | {"format": "json", "source_type": "file_sources", "source_id": "source01"}
        again = httpx.post(f"{server.url}{DOWNLOAD}", json=given, timeout=90).json()
        assert again["sources"][0]["unchanged"] == 24
        id_ = answer.headers["X-Job-Id"]
        detail = httpx.get(f"{server.url}/api/v1/jobs/{id_}").json()
        assert (detail["status"], detail["result"]) == ("ended", result)


@pytest.mark.long
@pytest.mark.covers("R3-12")
@pytest.mark.parametrize("mode", ["incremental", "full"])
def test_a_download_is_paused_within_two_seconds_and_goes_on(port: Port, mode: str):
    port.slow()
    with port.serving() as server:
        given = QUERY | {"mode": mode}
        stream = httpx.stream(
            "GET", f"{server.url}{DOWNLOAD}", params=given, headers=ORDER, timeout=90
        )
        with stream as answer:
            id_ = answer.headers["X-Job-Id"]
            control = f"{server.url}/api/v1/jobs/{id_}"
            port.until(lambda: len(port.downloads()) > 6)
            assert httpx.get(control).json()["status"] == "running"
            begun = time.monotonic()
            ordered = httpx.post(f"{control}/pause", timeout=30).json()
            port.until(lambda: not port.database.is_held("DOMAIN01.source01"))
            waited = time.monotonic() - begun
            assert ordered["status"] in ("running", "paused")
            port.until(lambda: httpx.get(control).json()["status"] == "paused")
            asked = port.downloads()
            assert 0 < len(asked) < 24
            stored = set(port.disk())
            time.sleep(1.0)
            assert port.downloads() == asked  # nothing goes on

            port.sharepoint.faults.clear()
            assert httpx.post(f"{control}/resume", timeout=30).status_code == 200
            result = json.loads(list(answer.iter_lines())[-1])
    (source,) = result["sources"]
    assert (result["complete"], source["added"], source["failed"]) == (True, 24, 0)
    assert port.disk() == FILES
    twice = {target for target, times in port.downloads().items() if times > 1}
    assert len(twice) <= 24 - len(stored)
    assert source["downloaded"] == 24
    print(f"the source was free after {waited:.2f} s")


@pytest.mark.long
@pytest.mark.covers("R3-12", "R3-23")
def test_a_cancelled_download_keeps_what_is_stored(port: Port):
    port.slow()
    with port.serving() as server:
        with httpx.stream(
            "GET", f"{server.url}{DOWNLOAD}", params=QUERY, headers=ORDER, timeout=90
        ) as answer:
            id_ = answer.headers["X-Job-Id"]
            port.until(lambda: len(port.downloads()) > 6)
            httpx.post(
                f"{server.url}/api/v1/jobs/{id_}/control", json={"action": "cancel"}, timeout=30
            )
            result = json.loads(list(answer.iter_lines())[-1])
        assert result["complete"] is False
        job = port.job()
        assert job is not None
        assert (job.stage, job.reasons) == ("cancelled", ("cancelled",))
        stored = port.disk()
        assert stored.items() <= FILES.items()

        port.sharepoint.faults.clear()
        given = QUERY | {"format": "json"}
        again = httpx.get(f"{server.url}{DOWNLOAD}", params=given, headers=ORDER, timeout=90).json()
    assert again["complete"] is True
    assert again["sources"][0]["downloaded"] == 24 - len(stored)
    assert port.disk() == FILES


@pytest.mark.long
@pytest.mark.covers("E-18")
def test_a_client_that_leaves_does_not_stop_its_job(port: Port):
    port.slow()
    with port.serving() as server:
        with httpx.stream(
            "GET", f"{server.url}{DOWNLOAD}", params=QUERY, headers=ORDER, timeout=90
        ) as answer:
            next(answer.iter_lines())
        port.sharepoint.faults.clear()
        port.until(lambda: (job := port.job()) is not None and job.is_over)
        assert port.disk() == FILES
        assert server.end()[0] == 0


@pytest.mark.long
def test_a_restart_of_the_server_leaves_a_job_alone(port: Port):
    port.slow()
    with (
        port.serving() as server,
        httpx.stream(
            "GET", f"{server.url}{DOWNLOAD}", params=QUERY, headers=ORDER, timeout=90
        ) as answer,
    ):
        id_ = answer.headers["X-Job-Id"]
        port.until(lambda: len(port.downloads()) > 4)
        server.process.kill()
        server.process.wait()
    job = port.job()
    assert job is not None
    assert job.started.process is not None
    assert job.started.process.is_alive()
    with port.serving() as server:
        port.until(lambda: (found := port.job()) is not None and found.is_over)
        detail = httpx.get(f"{server.url}/api/v1/jobs/{id_}").json()
    assert (detail["status"], detail["result"]["complete"]) == ("ended", True)
    assert port.disk() == FILES
    assert set(port.downloads().values()) == {1}
