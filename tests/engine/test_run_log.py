"""The logs of runs in the state folder: whose they are, how large they get, and what fails."""

import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy.exceptions import NotConfigured
from scrapy.settings import Settings
from scrapy.signalmanager import SignalManager

from smartcrawl.engine.run_log import BoundedLogFile, RunLog
from smartcrawl.model.run_logs import RUN_LOG_BYTES, RUN_LOGS, run_log_file, surplus_run_logs

news = logging.getLogger("smartcrawl.of_a_test")


@pytest.fixture(autouse=True)
def _root_of_a_crawl() -> Iterator[None]:
    """Give the root logger the level of a crawl, and no handler afterwards."""
    level, handlers = logging.root.level, list(logging.root.handlers)
    logging.root.setLevel(logging.NOTSET)
    yield
    logging.root.setLevel(level)
    logging.root.handlers[:] = handlers
    RunLog._open = None


def log_of(folder: Path, no: int, *, job: str = "", goes_on: bool = False, **given: Any) -> RunLog:
    opened = SimpleNamespace(no=no, resumed=goes_on, joined=False)
    run = SimpleNamespace(options=SimpleNamespace(data_dir=folder), opened=opened)
    crawler: Any = SimpleNamespace(
        spider=SimpleNamespace(run=run, _job=job),
        settings=Settings({"LOG_ENABLED": True, **given}),
        signals=SignalManager(),
        crawling=True,
    )
    return RunLog.from_crawler(crawler)


def test_a_run_has_its_own_lines_from_info_without_secrets(tmp_path: Path):
    log = log_of(tmp_path, 7)
    news.info("before it")
    log.opened()
    news.debug("too much")
    news.info("asked %s", "https://me:hunter2@a.example/")
    log.closed()
    news.info("after it")

    file = run_log_file(tmp_path, 7)
    (line,) = file.read_text().splitlines()
    assert " INFO: asked https://" in line
    assert "hunter2" not in line
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_resumed_run_goes_on_with_its_log(tmp_path: Path, *, goes_on: bool):
    for said in ("first", "second"):
        log = log_of(tmp_path, 7, goes_on=goes_on)
        log.opened()
        news.info(said)
        log.closed()

    text = run_log_file(tmp_path, 7).read_text()
    assert ("first" in text, "second" in text) == (goes_on, True)


def test_the_run_of_a_job_has_no_second_log():
    with pytest.raises(NotConfigured):
        log_of(Path("unused"), 7, job="jb_1")


def test_no_log_is_wanted_and_that_of_a_former_registry_goes(tmp_path: Path):
    run_log_file(tmp_path, 7).parent.mkdir()
    run_log_file(tmp_path, 7).write_text("of a former registry")

    log_of(tmp_path, 7, LOG_ENABLED=False).opened()

    assert not run_log_file(tmp_path, 7).exists()


def test_two_runs_at_once_in_a_process_leave_no_log(tmp_path: Path):
    first, second = log_of(tmp_path, 1), log_of(tmp_path, 2)
    first.opened()
    second.opened()
    news.info("of one of them")

    assert list((tmp_path / "logs").iterdir()) == []


def test_a_run_that_did_not_close_its_log_costs_the_next_one_nothing(tmp_path: Path):
    first, second = log_of(tmp_path, 1), log_of(tmp_path, 2)
    first.opened()
    first._crawler.crawling = False
    second.opened()
    news.info("of the second")

    assert run_log_file(tmp_path, 1).read_text() == ""
    assert "of the second" in run_log_file(tmp_path, 2).read_text()


def test_a_log_that_cannot_be_written_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "logs").write_text("in the way")

    log_of(tmp_path, 7).opened()

    assert "the page of this run will have no log" in caplog.text


def test_a_full_disk_ends_the_log_with_one_warning(caplog: pytest.LogCaptureFixture):
    handler = BoundedLogFile(Path("/dev/full"))
    logging.root.addHandler(handler)
    news.info("first")
    news.info("second")

    assert [one.getMessage() for one in caplog.records if one.levelname == "WARNING"] == [
        "the page of this run has its log up to here: it cannot be written"
    ]


def test_a_full_log_loses_its_first_half(tmp_path: Path):
    handler = BoundedLogFile(tmp_path / "run-1.log")
    logging.root.addHandler(handler)
    for number in range(4_000):
        news.info("%06d %s", number, "x" * 100)
    size = (tmp_path / "run-1.log").stat().st_size
    lines = (tmp_path / "run-1.log").read_text().splitlines()

    assert RUN_LOG_BYTES // 2 < size <= RUN_LOG_BYTES
    numbers = [int(line.partition("INFO: ")[2][:6]) for line in lines]
    assert numbers == list(range(numbers[0], 4_000))


def test_the_logs_changed_last_are_kept_whatever_their_numbers():
    logs = [(f"run-{9_000 - at}.log", float(at)) for at in range(RUN_LOGS + 2)]

    found = surplus_run_logs([*logs, ("jb_1.log", 0.0), ("due-docs.log", 0.0)])

    assert found == ["run-9000.log", "run-8999.log", "run-8998.log"]
    assert surplus_run_logs(logs[:10]) == []
