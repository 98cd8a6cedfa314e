"""Answers that follow a job: each line as it happens, a sign of life, the result at the end."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from smartcrawl.registry.processes import Started
from smartcrawl.server.jobs.library_store import LibraryChoices, LibraryJob
from smartcrawl.server.jobs.store import RunStage
from smartcrawl.server.library import FORMS, library_job_parts

RESULT = {"domain": "D1", "complete": True, "sources": [{"reason": "</pre>\x9b\u2028"}]}
JOB = LibraryJob(
    id="jb_1",
    name="D1",
    started=Started(starts=1),
    action="crawl",
    choices=LibraryChoices(),
    stage=RunStage.RUNNING,
    requested=None,
    run=None,
    result=None,
    reasons=(),
    exit_status=None,
    created_at=1,
    ended_at=None,
)


class Followed:
    """A job that is followed; the test writes its log and its state."""

    def __init__(self, folder: Path, form: str, *, heartbeat: float = 60) -> None:
        self.path = folder / "jb_1.log"
        self.job: LibraryJob | None = JOB
        self.parts: AsyncIterator[bytes] = library_job_parts(
            JOB, FORMS[form], self.path, self.seen, heartbeat=heartbeat
        )

    async def seen(self) -> LibraryJob | None:
        return self.job

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as log:
            log.write(data)

    def end(self, stage: RunStage = RunStage.ENDED, **changes: object) -> None:
        self.job = replace(JOB, stage=stage, **changes)

    async def next(self) -> str:
        return (await asyncio.wait_for(anext(self.parts), 20)).decode()

    async def rest(self) -> str:
        return "".join([part.decode() async for part in self.parts])


@pytest.mark.covers("E-18", "R3-12")
def test_lines_come_as_they_are_written_and_the_result_last(tmp_path: Path):
    async def follow() -> None:
        job = Followed(tmp_path, "stream")
        assert await job.next() == "job jb_1: crawl of D1\n"
        job.write(b"one\ntw")  # its file was not there before
        assert await job.next() == "one\n"
        job.write(b"o\n\x1b[2Kred \xe2\x80\xae\xff\nend")
        assert await job.next() == "two\n\\x1b[2Kred \\u202e\ufffd\n"
        job.end(result=RESULT)
        rest = await job.rest()
        assert rest.startswith("end\n")
        *_, last = rest.splitlines()
        assert json.loads(last) == RESULT
        assert "\x9b" not in rest
        assert "\u2028" not in rest

    asyncio.run(follow())


@pytest.mark.covers("E-18")
def test_what_is_written_before_the_end_is_sent_before_the_result(tmp_path: Path):
    async def follow() -> None:
        job = Followed(tmp_path, "stream")
        await job.next()
        job.end(result={})
        job.write(b"line\n" * 50_000)
        lines = (await job.rest()).splitlines()
        assert lines == ["line"] * 50_000 + ["{}"]

    asyncio.run(follow())


@pytest.mark.covers("E-18")
@pytest.mark.parametrize(("form", "sign"), [("stream", "\n"), ("json", " "), ("html", "<!-- -->")])
def test_a_quiet_job_shows_that_it_lives(tmp_path: Path, form: str, sign: str):
    async def follow() -> None:
        job = Followed(tmp_path, form, heartbeat=0.25)
        await job.next()
        assert await job.next() == sign
        assert await job.next() == sign
        await job.parts.aclose()

    asyncio.run(follow())


@pytest.mark.covers("E-18")
def test_json_is_the_result_alone(tmp_path: Path):
    async def follow() -> None:
        job = Followed(tmp_path, "json")
        job.write(b"a line\n")
        assert await job.next() == ""
        job.end(result=RESULT)
        assert json.loads(await job.rest()) == RESULT

    asyncio.run(follow())


@pytest.mark.covers("E-18")
def test_a_page_escapes_all_that_comes_from_a_library(tmp_path: Path):
    async def follow() -> None:
        job = Followed(tmp_path, "html")
        job.write(b"</pre><script>alert(1)</script>\n")
        head = await job.next()
        assert head.startswith("<!DOCTYPE html>")
        assert await job.next() == "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;\n"
        job.end(result=RESULT)
        rest = await job.rest()
        assert rest.count("</pre>") == 2
        assert "&lt;/pre&gt;" in rest
        assert rest.endswith("</html>\n")

    asyncio.run(follow())


@pytest.mark.covers("E-18")
@pytest.mark.parametrize(
    ("stage", "reasons", "reason"),
    [
        (RunStage.CANCELLED, (), "the job is cancelled"),
        (RunStage.ENDED, ("its process died",), "its process died"),
    ],
)
def test_a_job_without_result_ends_with_its_reason(tmp_path: Path, stage, reasons, reason: str):
    async def follow() -> None:
        job = Followed(tmp_path, "json")
        job.end(stage, reasons=reasons)
        assert json.loads(await job.rest()) == {
            "domain": "D1",
            "action": "crawl",
            "mode": "incremental",
            "scope": "all",
            "dryRun": False,
            "complete": False,
            "sources": [],
            "reason": reason,
        }

    asyncio.run(follow())


def test_a_server_that_ends_says_that_the_job_goes_on(tmp_path: Path):
    async def follow() -> None:
        job = Followed(tmp_path, "json")
        await job.next()
        job.job = None
        assert "jb_1 continues" in json.loads(await job.rest())["reason"]

    asyncio.run(follow())


def test_a_paused_job_is_followed_on(tmp_path: Path):
    async def follow() -> None:
        job = Followed(tmp_path, "stream", heartbeat=0.25)
        await job.next()
        job.end(RunStage.PAUSED)
        assert await job.next() == "\n"
        job.job = JOB
        job.write(b"again\n")
        assert (await job.next()).strip("\n") == "again"
        await job.parts.aclose()

    asyncio.run(follow())
