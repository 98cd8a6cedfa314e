"""Whatever a document does to the process that reads it, the crawler and other documents go on."""

import asyncio
import contextlib
import json
import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import openpyxl
import pytest

from smartcrawl.extract import confine, wire
from smartcrawl.extract import pool as pools
from smartcrawl.extract.formats import FormatError, FormatFault, read_document
from smartcrawl.extract.pool import MIB, FormatPool
from smartcrawl.extract.sniff import CSV, JSON, MARKDOWN, PDF, XLSX, XML
from smartcrawl.model.documents import (
    Block,
    CountedPicture,
    CountedSpans,
    Document,
    Image,
    Link,
    Section,
    Span,
)
from tests.extract import made_documents as documents

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no signals, no /proc")
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's own means")

URL = "http://site.example/dir/document"
TABLE = b"a,b\n1,2\n"


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of Python and return what it printed."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def reading(pool: FormatPool, body: bytes, mime: str = CSV) -> Coroutine[Any, Any, Document]:
    return pool.read(body, media_type=mime, content_type="", url=URL)


def read(pool: FormatPool, body: bytes = TABLE, mime: str = CSV) -> Document:
    return asyncio.run(reading(pool, body, mime))


def fault(pool: FormatPool, body: bytes, mime: str, words: str) -> FormatFault:
    with pytest.raises(FormatError, match=words) as caught:
        read(pool, body, mime)
    return caught.value.kind


@pytest.fixture
def pool() -> Iterator[FormatPool]:
    """One process at a time, with the usual limits."""
    with pool_of(workers=1) as opened:
        yield opened


@contextlib.contextmanager
def pool_of(**limits: Any) -> Iterator[FormatPool]:
    opened = FormatPool(**limits)
    try:
        yield opened
    finally:
        asyncio.run(opened.close())


def idle(pool: FormatPool) -> list[int]:
    """Return the numbers of the processes that wait for a document."""
    return [process._popen.pid for process in pool._idle]


def runs(pid: int) -> bool:
    """Return whether a process is there and no zombie."""
    return ps("-o", "stat=", "-p", str(pid)).strip()[:1] not in ("", "Z")


def ps(*options: str) -> str:
    found = subprocess.run(["ps", *options], check=False, capture_output=True, text=True)
    return found.stdout


def wait_for_end(*pids: int) -> None:
    deadline = time.monotonic() + 30
    while any(map(runs, pids)):
        assert time.monotonic() < deadline, f"one of {pids} goes on"
        time.sleep(0.02)


@contextlib.contextmanager
def stopped(pool: FormatPool) -> Iterator[int]:
    """Stop the process that will read next, so that it stays in the middle of its document."""
    read(pool)
    (pid,) = idle(pool)
    os.kill(pid, signal.SIGSTOP)
    yield pid


# What is read


@pytest.mark.covers("R0-60")
def test_pool_reads_every_format_as_without_it(pool):
    for mime, body in documents.every().items():
        assert read(pool, body, mime) == read_document(
            body, media_type=mime, content_type="", url=URL
        )
    assert len(idle(pool)) == 1


def test_document_that_cannot_be_read_does_not_end_its_reader(pool):
    read(pool)
    before = idle(pool)

    assert fault(pool, b"nonsense", PDF, "cannot be opened") is FormatFault.CORRUPT
    assert fault(pool, b"[" * 100_000, JSON, "too deep") is FormatFault.TOO_LARGE
    assert read(pool).text == "a\tb\n1\t2"
    assert idle(pool) == before


def test_processes_start_when_they_are_needed_and_no_more_than_allowed(pool):
    assert idle(pool) == []

    async def at_once() -> list[Document]:
        with_two = FormatPool(workers=2)
        try:
            found = await asyncio.gather(*(reading(with_two, TABLE) for _ in range(6)))
            assert 1 <= len(idle(with_two)) <= 2
            return found
        finally:
            await with_two.close()

    assert [document.text for document in asyncio.run(at_once())] == ["a\tb\n1\t2"] * 6


def test_process_is_replaced_after_some_documents(pool, monkeypatch):
    monkeypatch.setattr(pools, "MAX_DOCUMENTS", 2)
    read(pool)
    (first,) = idle(pool)
    read(pool)

    assert idle(pool) == []
    wait_for_end(first)
    assert read(pool).text


def test_what_a_reader_refuses_is_refused_at_once(pool, monkeypatch):
    monkeypatch.setattr(pools, "MAX_BODY", 5)

    assert fault(pool, b"123456", CSV, "more than 5 bytes") is FormatFault.TOO_LARGE
    with pytest.raises(ValueError, match="not a format"):
        read(pool, b"", "text/html")
    with pytest.raises(ValueError, match="parsed"):
        asyncio.run(pool.read(b"", media_type=CSV, content_type="", url="/x"))
    assert idle(pool) == []


# What goes wrong


@pytest.mark.covers("R0-60")
def test_process_killed_in_the_middle_of_a_document_loses_only_that(pool):
    async def killed() -> list[Document | BaseException]:
        with stopped_now(pool) as pid:
            lost = asyncio.ensure_future(reading(pool, TABLE))
            await asyncio.sleep(0.1)
            following = asyncio.ensure_future(reading(pool, b"x,y\n"))
            os.kill(pid, signal.SIGKILL)
            return await asyncio.gather(lost, following, return_exceptions=True)

    read(pool)
    error, document = asyncio.run(killed())

    assert isinstance(error, FormatError)
    assert error.kind is FormatFault.CRASHED
    assert "SIGKILL" in str(error)
    assert isinstance(document, Document)
    assert document.text == "x\ty"


@contextlib.contextmanager
def stopped_now(pool: FormatPool) -> Iterator[int]:
    (pid,) = idle(pool)
    os.kill(pid, signal.SIGSTOP)
    yield pid


def test_process_killed_while_idle_loses_nothing(pool):
    read(pool)
    (pid,) = idle(pool)
    os.kill(pid, signal.SIGKILL)
    wait_for_end(pid)

    assert read(pool).text == "a\tb\n1\t2"


def test_document_that_takes_too_long_is_a_time_out():
    """ATT-33: whatever format it has."""
    with pool_of(workers=1, wall_seconds=0.3) as pool, stopped(pool) as pid:
        assert fault(pool, TABLE, CSV, "more than 0.3 seconds") is FormatFault.TIME_OUT
        wait_for_end(pid)
        pool._wall_seconds = 60
        assert read(pool).text == "a\tb\n1\t2"


@pytest.mark.covers("R0-60")
def test_document_that_takes_too_much_processor_time_is_a_time_out():
    with pool_of(workers=1, cpu_seconds=1) as pool:
        body = b"![[" * 100_000 + b"](" * 100_000
        assert fault(pool, body, MARKDOWN, "processor time") is FormatFault.TIME_OUT
        assert read(pool).text == "a\tb\n1\t2"


COUNTED = """
import resource, time
from smartcrawl.extract.confine import confine_extraction, confine_extraction_time
confine_extraction(300 * 1024 * 1024)
def limit():
    confine_extraction_time(5)
    return resource.getrlimit(resource.RLIMIT_CPU)[0]
before, used = limit(), time.process_time()
while time.process_time() < used + 1.5:
    pass
print(before - int(used), limit() - before)
"""


@pytest.mark.long
def test_processor_time_is_counted_for_each_document():
    limit, more = map(int, run(COUNTED).stdout.split())

    assert limit in (5, 6)
    assert more in (1, 2)


@pytest.mark.covers("R0-60")
def test_document_that_takes_too_much_memory_is_an_error_of_its_own():
    with pool_of(workers=1, memory=250 * MIB) as pool:
        body = b"[" + b"[]," * 3_000_000 + b"1]"
        assert fault(pool, body, JSON, "more memory") is FormatFault.MEMORY
        assert read(pool).text == "a\tb\n1\t2"


def corners() -> bytes:
    """Return a workbook with two cells that are as far apart as can be."""
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "a", "z"
    stream = BytesIO()
    book.save(stream)
    return stream.getvalue()


@pytest.mark.covers("R0-60")
def test_workbook_of_two_cells_that_are_far_apart_takes_the_memory_of_two_cells():
    """ATT-32."""
    with pool_of(workers=1, memory=250 * MIB, cpu_seconds=5) as pool:
        assert read(pool, corners(), XLSX).text.split() == ["Sheet", "a", "z"]


def test_crash_of_a_parser_is_an_error_of_its_document(pool, monkeypatch):
    crashing = (
        "import ctypes, sys; sys.argv = ['-', *sys.argv[1:]]\n"
        "from smartcrawl.extract import child\n"
        "def crash(*_, **__): ctypes.string_at(0)\n"
        "child._load(); child._load = lambda: None; child.read_document = crash\n"
        "child.extraction_child_main()"
    )
    monkeypatch.setattr(pools, "_CHILD", ("-c", crashing))

    for _ in range(2):
        assert fault(pool, TABLE, CSV, "SIGSEGV") is FormatFault.CRASHED
    monkeypatch.undo()
    assert read(pool).text == "a\tb\n1\t2"


def test_process_that_does_not_start_is_an_error_of_the_document(pool, monkeypatch):
    monkeypatch.setattr(pools, "_CHILD", ("-c", "raise SystemExit('no such module')"))
    assert fault(pool, TABLE, CSV, "does not start: no such module") is FormatFault.CRASHED

    def failing(*_: object, **__: object) -> None:
        raise BlockingIOError("too many processes")

    monkeypatch.setattr(subprocess, "Popen", failing)
    assert fault(pool, TABLE, CSV, "too many processes") is FormatFault.CRASHED
    monkeypatch.undo()
    assert read(pool).text == "a\tb\n1\t2"


# Giving up


def test_a_process_for_a_document_given_up_before_is_ended():
    given_up, ended = pools._Job(), []
    given_up.give_up()
    process: Any = SimpleNamespace(kill=lambda: ended.append(1))

    assert not given_up.take(process)
    assert not given_up.leave()
    wanted = pools._Job()
    assert wanted.take(process)
    wanted.give_up()
    assert ended == [1]
    assert not wanted.leave()


def test_document_given_up_ends_its_reader_and_nothing_else(pool):
    async def given_up() -> Document:
        with stopped_now(pool) as pid:
            unwanted = asyncio.ensure_future(reading(pool, TABLE))
            waiting = asyncio.ensure_future(reading(pool, TABLE))
            await asyncio.sleep(0.1)
            waiting.cancel()
            unwanted.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await unwanted
            wait_for_end(pid)
        return await reading(pool, b"x,y\n")

    read(pool)
    assert asyncio.run(given_up()).text == "x\ty"


def test_document_given_up_while_its_reader_starts_leaves_no_process(pool):
    before = children()

    async def given_up() -> None:
        unwanted = asyncio.ensure_future(reading(pool, TABLE))
        await asyncio.sleep(0.02)
        unwanted.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await unwanted

    asyncio.run(given_up())
    asyncio.run(pool.close())

    assert idle(pool) == []
    assert children() == before


def children() -> list[str]:
    """Return the processes of this one that read documents; tests of crawls keep some."""
    lines = ps("-o", "args=", "--ppid", str(os.getpid())).splitlines()
    return [line for line in lines if "smartcrawl.extract.child" in line]


def test_closing_ends_all_processes_and_what_is_being_read():
    before = children()

    async def closed() -> BaseException | None:
        unfinished = asyncio.ensure_future(reading(pool, TABLE))
        await asyncio.sleep(0.1)
        await pool.close()
        return (await asyncio.gather(unfinished, return_exceptions=True))[0]

    with pool_of(workers=1) as pool, stopped(pool) as pid:
        error = asyncio.run(closed())
        wait_for_end(pid)
        assert isinstance(error, FormatError)
        with pytest.raises(RuntimeError, match="closed"):
            read(pool)
    assert children() == before


SCRIPT = """
import asyncio, os, signal, sys
from smartcrawl.extract.pool import FormatPool
async def main():
    pool = FormatPool(workers=1)
    await pool.read(b"a,b", media_type="text/csv", content_type="", url="http://a.example/")
    print(pool._idle[0]._popen.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


def test_processes_end_with_a_crawler_that_is_killed():
    ended = run(SCRIPT)

    assert ended.returncode == -signal.SIGKILL
    wait_for_end(int(ended.stdout))


UNDER_TWISTED = """
import asyncio
from scrapy.utils.reactor import install_reactor
install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")
from twisted.internet import task
from twisted.internet.defer import Deferred
from smartcrawl.extract.pool import FormatPool

async def main():
    pool = FormatPool(workers=2)
    for _ in range(2):
        found = await asyncio.gather(*(
            pool.read(b"a,b", media_type="text/csv", content_type="", url="http://a.example/")
            for _ in range(3)
        ))
        print([document.text for document in found])
    await pool.close()

task.react(lambda _: Deferred.fromFuture(asyncio.ensure_future(main())))
"""


def test_pool_works_on_the_reactor_of_scrapy():
    ended = run(UNDER_TWISTED)

    assert ended.stderr == ""
    assert ended.stdout == "['a\\tb', 'a\\tb', 'a\\tb']\n" * 2


# What a process may do


CONFINED = """
import ctypes, errno, json, os, socket, subprocess, sys, threading
from smartcrawl.extract.confine import confine_extraction
libc = ctypes.CDLL(None, use_errno=True)
found = {"missing": confine_extraction(300 * 1024 * 1024)}
def attempt(name, action):
    try:
        action()
        found[name] = "done"
    except BaseException as error:
        found[name] = type(error).__name__
attempt("socket", socket.socket)
attempt("connect", lambda: socket.create_connection(("127.0.0.1", 9)))
attempt("resolve", lambda: socket.getaddrinfo("a.example", 80))
attempt("subprocess", lambda: subprocess.run(["true"]))
attempt("system", lambda: os.system("true"))
attempt("fork", os.fork)
attempt("exec", lambda: os.execv("/bin/true", ["true"]))
attempt("spawn", lambda: os.posix_spawn("/bin/true", ["true"], {}))
attempt("thread", threading.Thread(target=print).start)
attempt("write", lambda: open(sys.argv[1], "w"))
attempt("low write", lambda: os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY))
attempt("read", lambda: open(sys.argv[0]))
attempt("remove", lambda: os.remove(sys.argv[1]))
attempt("kill", lambda: os.kill(os.getppid(), 0))
attempt("memory", lambda: bytearray(400 * 1024 * 1024))
attempt("enough memory", lambda: bytearray(40 * 1024 * 1024))
for name, *arguments in (
    ("socket", 2, 1, 0), ("fork",), ("open", sys.argv[1].encode(), 0o101, 0o600),
    ("open", b"/etc/passwd", 0), ("execve", b"/bin/true", None, None), ("kill", os.getppid(), 0),
    ("unlink", sys.argv[1].encode()), ("dup", 1),
):
    code = getattr(libc, name)(*arguments)
    found[f"libc {name} {arguments[-1] if arguments else ''}"] = code
print(json.dumps(found))
"""


@pytest.mark.covers("R0-60")
@on_linux
def test_confined_process_reaches_neither_network_nor_files_nor_processes(tmp_path):
    """ATT-32, ATT-33: a reader that was taken over has nothing to take."""
    kept = tmp_path / "kept"
    kept.write_text("x")
    found = json.loads(run(CONFINED, str(kept)).stdout)

    assert found.pop("missing") == []
    assert found.pop("memory") == "MemoryError"
    assert found.pop("enough memory") == "done"
    assert set(map(str, found.values())) <= {"PermissionError", "OSError", "RuntimeError", "-1"}
    assert len(found) == 22
    assert kept.read_text() == "x"


def test_audit_hook_alone_refuses_what_python_does(tmp_path):
    """On a platform without limits and filters this is what is left."""
    script = "import smartcrawl.extract.confine as c\nc.HAS_LIMITS = False\nc._isolate = bool\n"
    script += CONFINED.partition("for name,")[0] + "print(json.dumps(found))"
    found = json.loads(run(script, str(tmp_path / "x")).stdout)

    assert found.pop("missing") == ["memory", "processor time", "network and system calls"]
    allowed = {name for name, result in found.items() if result == "done"}
    assert allowed <= {"thread", "read", "memory", "enough memory"}
    assert not list(tmp_path.iterdir())


@on_linux
def test_process_has_no_environment_and_no_open_files(pool, monkeypatch):
    monkeypatch.setenv("SECRET_OF_THE_CRAWLER", "x")
    read(pool)
    (pid,) = idle(pool)
    with open(f"/proc/{pid}/environ", "rb") as stream:
        environment = stream.read()
    with open(f"/proc/{pid}/limits") as stream:
        limits = stream.read()

    assert [line.partition(b"=")[0] for line in environment.split(b"\0") if line] == [b"PYTHONPATH"]
    assert sorted(os.listdir(f"/proc/{pid}/fd")) == ["0", "1", "2"]
    for words in ("Max open files 3 3", "Max file size 0 0", "Max core file size 0 0"):
        assert words in " ".join(limits.split())


def test_limits_that_the_platform_lacks_are_told_once(pool, monkeypatch, caplog):
    unlimited = (
        "import sys\nfrom smartcrawl.extract import child\n"
        "child.confine_extraction = lambda memory: ['memory']\nchild.extraction_child_main()"
    )
    monkeypatch.setattr(pools, "_CHILD", ("-c", unlimited))
    monkeypatch.setattr(pools, "MAX_DOCUMENTS", 1)
    with caplog.at_level(logging.WARNING, "smartcrawl.extract.pool"):
        for _ in range(2):
            assert read(pool).text == "a\tb\n1\t2"

    assert len(caplog.messages) == 1
    assert "without limits of memory" in caplog.messages[0]


# What comes back


SOUND = Document(
    title="T",
    language="en",
    sections=(Section(1, "h", "t"),),
    images=(Image("a.png", "x"),),
    links=(Link("http://a.example/", "a", "hyperlink", nofollow=False),),
    canonical="http://a.example/c",
    overlong=("http://a.example/x",),
    charset="utf-8",
    content_type=CSV,
)


def with_blocks(*blocks: Block) -> Document:
    return replace(SOUND, sections=(Section(0, "", "abc", blocks),))


def test_answer_is_the_document():
    sound = with_blocks(
        Block("list", 0, 3), Block("code", 0, 1), Block("table", 1, 3, 1, ((3,),), 2)
    )
    assert pools.parse_document_answer(wire.wire_document(sound), CSV) == sound
    assert pools.parse_document_answer(wire.wire_document(SOUND), CSV) == SOUND
    assert pools.parse_document_answer(
        wire.wire_document(Document(content_type=XML)), XML
    ) == Document(content_type=XML)


def test_answer_is_the_error():
    answer = wire.wire_extraction_error(FormatError(FormatFault.ENCRYPTED, "wants a password"))
    with pytest.raises(FormatError, match="wants a password") as caught:
        pools.parse_document_answer(answer, CSV)
    assert caught.value.kind is FormatFault.ENCRYPTED


@pytest.mark.parametrize(
    "unsound",
    [
        replace(SOUND, content_type=XML),
        replace(SOUND, title="x" * 10_001),
        replace(SOUND, description="a\0b"),
        replace(SOUND, sections=(Section(7, "", "x"),)),
        replace(SOUND, sections=(Section(-1, "", "x"),)),
        replace(SOUND, sections=(Section(0, "", "a\0"),)),
        replace(SOUND, sections=(Section(0, "", "x" * 20_000_001),)),
        replace(SOUND, links=SOUND.links * 50_001),
        replace(SOUND, overlong=("x",) * 1_001),
        replace(SOUND, canonical="file:///etc/passwd"),
        replace(SOUND, charset="rot13"),
        replace(SOUND, language="english"),
        replace(SOUND, keywords="x" * 10_001),
        replace(SOUND, keywords="a\0b"),
        replace(SOUND, declared="english"),
    ],
    ids=range(15),
)
def test_document_that_no_reader_gives_is_refused(unsound):
    with pytest.raises(wire.AnswerError):
        pools.parse_document_answer(wire.wire_document(unsound), CSV)


WRONG_LINKS = (
    Link("javascript:x", "", "hyperlink", nofollow=False),
    Link("http://A.example/#x", "", "hyperlink", nofollow=False),
    Link("http://a.example/", "", "x" * 33, nofollow=False),
    Link("http://a.example/", "x" * 10_001, "hyperlink", nofollow=False),
    Link("http://a.example/", "a\0b", "hyperlink", nofollow=False),
)
WRONG_IMAGES = (Image("x" * 10_001, ""), Image("a.png", "", context="a\0b"))


def test_faulty_links_and_pictures_are_dropped_and_counted():
    document = replace(
        SOUND, links=(*WRONG_LINKS, *SOUND.links), images=(*SOUND.images, *WRONG_IMAGES)
    )
    assert pools.parse_document_answer(wire.wire_document(document), CSV) == replace(
        SOUND, faulty=7
    )


def test_a_span_outside_of_its_text_is_dropped_and_the_text_stays():
    kept = (
        Span("link", 1, 3, "a"),
        Span("picture", 2, 2, "b", "c" * 1_000),
        Span("name", 3, 4, "d"),
    )
    wrong = (
        *(
            Span("bold", 3, 4),
            Span("code", 2, 4),
            Span("code", 4, 5),
            Span("link", 3, 4, "a" * 9_000),
        ),
        *(Span("picture", 4, 4, "", "b" * 9_000), Span("code", 4, 3)),
    )

    def spanned(*spans: Span, faulty: int = 0) -> Document:
        section = Section(1, "text", "text", (), spans, spans)
        return replace(SOUND, sections=(section,), faulty=faulty)

    answer = wire.wire_document(spanned(*kept, *wrong))
    assert pools.parse_document_answer(answer, CSV) == spanned(*kept, faulty=2 * len(wrong))


def test_a_counted_span_that_no_reader_gives_is_dropped_and_the_text_stays():
    picture = CountedPicture("lamp", "", begins_line=True, in_heading=False)

    def counted(*spans: tuple[str, int, int, str], faulty: int = 0) -> Document:
        pictures = (picture,) * sum(kind == "picture" for kind, *_ in spans)
        columns = zip(*spans, strict=True) if spans else ()
        parts = CountedSpans(4, *columns, pictures) if spans else None
        return replace(SOUND, counted=parts, faulty=faulty)

    kept = [("link", 0, 2, "b"), ("picture", 2, 2, "c"), ("place", 3, 3, "d")]
    wrong = [
        ("link", 3, 5, "b"),
        ("link", 3, 2, "b"),
        ("code", 2, 4, ""),
        ("bold", 3, 4, ""),
        ("picture", 3, 3, "c" * 9_000),
    ]

    def read(document: Document) -> Document:
        return pools.parse_document_answer(wire.wire_document(document), CSV)

    assert read(counted(*kept, *wrong)) == counted(*kept, faulty=len(wrong))
    assert read(counted(*wrong[:2])) == counted(faulty=2)
    extra = counted(*kept)
    assert extra.counted is not None
    unfit = replace(extra, counted=extra.counted._replace(pictures=()))
    assert read(unfit) == counted(faulty=len(kept))


def test_no_reader_counts_its_own_faults():
    answer = wire.wire_document(replace(SOUND, faulty=9))
    assert pools.parse_document_answer(answer, CSV) == SOUND


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ([Block("picture", 0, 1)], []),
        ([Block("code", 0, 4)], []),
        ([Block("code", -1, 2)], []),
        ([Block("code", 2, 2)], []),
        ([Block("list", 1, 2), Block("code", 0, 2)], [0]),
        ([Block("code", 0, 2), Block("table", 1, 3)], [0]),
        ([Block("code", 0, 9), Block("table", 1, 3)], [1]),
        ([Block("code", 2, 9), Block("table", 1, 3), Block("list", 0, 1)], [1]),
        ([Block("table", 1, 3, rows=((0, 3),))], []),
        ([Block("table", 1, 3, rows=((2, 4),))], []),
        ([Block("table", 0, 3, rows=((3, 2),))], []),
        ([Block("table", 1, 3, head=-1)], []),
        ([Block("table", 0, 2, caption=3)], []),
        ([Block("table", 0, 3, rows=((1,),), caption=2)], []),
    ],
)
def test_a_block_outside_of_its_text_is_dropped_and_the_text_stays(blocks, kept):
    answer = wire.wire_document(with_blocks(*blocks))
    sound = replace(with_blocks(*(blocks[place] for place in kept)), faulty=len(blocks) - len(kept))
    assert pools.parse_document_answer(answer, CSV) == sound


@pytest.mark.parametrize(
    ("url", "link", "sound"),
    [
        ("file:///srv/docs/a.md", "file:///srv/near.md", True),
        ("s3://docs/a.md", "s3://docs/near.md", True),
        ("s3://docs/a.md", "http://a.example/", True),
        ("s3://docs/a.md", "s3://other/near.md", False),
        ("s3://docs/a.md", "file:///etc/passwd", False),
        ("s3://docs/a.md", "s3://docs/near.md#part", False),
        ("s3://docs/a.md", "near.md", False),
        ("http://a.example/a.md", "file:///etc/passwd", False),
        ("", "file:///etc/passwd", False),
    ],
)
def test_only_a_file_links_to_files_of_its_place(url, link, sound):
    document = replace(SOUND, links=(Link(link, "", "hyperlink", nofollow=False),))
    answer = wire.wire_document(document)

    expected = document if sound else replace(document, links=(), faulty=1)
    assert pools.parse_document_answer(answer, CSV, url=url) == expected


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"D",
        b"D{",
        b"D[]",
        b"D" + pickle.dumps(SOUND),
        b'D{"title": 1}',
        b'D{"title": "\\ud800"}',
        b'D{"sections": [[1, "a"]]}',
        b'D{"sections": [["1", "a", "b"]]}',
        b'D{"links": [["http://a.example/", "", "hyperlink", "no"]]}',
        b"X" + wire.wire_document(SOUND)[1:],
        b"E",
        b"E{}",
        b"E[]",
        b'E{"kind": "other", "message": "x"}',
        b'E{"kind": "corrupt"}',
    ],
)
def test_answer_that_is_none_is_refused(answer):
    with pytest.raises(wire.AnswerError):
        pools.parse_document_answer(answer, CSV)


FORGED = """
import sys
def frame(data): sys.stdout.buffer.write(len(data).to_bytes(4, "big") + data)
frame(b"[]")
sys.stdout.buffer.flush()
sys.stdin.buffer.read(4)
{}
sys.stdout.buffer.flush()
sys.stdin.buffer.read()
"""


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    "answer",
    [
        "frame(b'nonsense')",
        "sys.stdout.buffer.write(b'\\xff' * 10)",
        "frame(b'D' + b'[' * 100_000)",
        "sys.stdout.buffer.write(b'\\0\\0\\0\\x09short'); sys.exit()",
    ],
)
def test_process_that_was_taken_over_takes_over_nothing(pool, monkeypatch, answer):
    monkeypatch.setattr(pools, "_CHILD", ("-c", FORGED.format(answer)))
    assert fault(pool, TABLE, CSV, "reader") is FormatFault.CRASHED
    assert idle(pool) == []
    monkeypatch.undo()
    assert read(pool).text == "a\tb\n1\t2"


def test_memory_is_the_cause_also_after_complaints_about_other_documents(pool, monkeypatch):
    said = "sys.stderr.write('panicked\\n' * 1_000 + 'memory allocation of 9 bytes failed\\n')"
    monkeypatch.setattr(pools, "_CHILD", ("-c", FORGED.format(f"{said}; sys.exit(1)")))
    assert fault(pool, TABLE, CSV, "more memory") is FormatFault.MEMORY


def test_frames_are_bounded_and_whole():
    stream = BytesIO()
    wire.send_extraction_frames(stream, b"one", b"")
    stream.seek(0)
    assert [wire.receive_extraction_frame(stream, 3), wire.receive_extraction_frame(stream, 3)] == [
        b"one",
        b"",
    ]
    with pytest.raises(EOFError):
        wire.receive_extraction_frame(stream, 3)
    stream.seek(0)
    with pytest.raises(wire.AnswerError, match="3 bytes"):
        wire.receive_extraction_frame(stream, 2)


#: Numbers of calls that open, send, start or reach something, from the kernel's tables.
REACHING = {
    "x86_64": (
        2, 32, 33, 40, 41, 42, 43, 44, 45, 46, 47, 49, 50, 53, 56, 57, 58, 59, 62, 82, 83, 85, 86,
        87, 88, 90, 101, 157, 165, 200, 257, 263, 264, 275, 310, 311, 319, 322, 425, 435, 437,
    ),
    "aarch64": (
        23, 24, 33, 34, 35, 36, 37, 38, 40, 52, 56, 71, 76, 117, 129, 130, 167, 198, 199, 200, 201,
        202, 203, 206, 207, 211, 212, 220, 221, 270, 271, 279, 281, 425, 435, 437,
    ),
}  # fmt: skip


@pytest.mark.parametrize("machine", REACHING)
def test_no_call_that_reaches_anything_is_allowed_on_any_machine(machine: str):
    """Such as sendfile, which copies a file to any descriptor."""
    column, _ = confine._MACHINES[machine]
    allowed = {numbers[column] for numbers in confine._CALLS.values()}

    assert allowed & set(REACHING[machine]) == set()


#: The allowed calls, from the kernel's tables (asm/unistd_64.h, asm-generic/unistd.h).
ALLOWED = {
    "x86_64": """
        read=0 write=1 close=3 fstat=5 lseek=8 mmap=9 mprotect=10 munmap=11 brk=12 rt_sigaction=13
        rt_sigprocmask=14 rt_sigreturn=15 readv=19 writev=20 sched_yield=24 mremap=25 madvise=28
        nanosleep=35 getpid=39 exit=60 uname=63 gettimeofday=96 getrusage=98 sysinfo=99 times=100
        getuid=102 getgid=104 geteuid=107 getegid=108 getppid=110 sigaltstack=131 gettid=186
        futex=202 sched_getaffinity=204 restart_syscall=219 clock_gettime=228 clock_getres=229
        clock_nanosleep=230 exit_group=231 newfstatat=262 set_robust_list=273 getrandom=318
        membarrier=324 rseq=334
    """,
    "aarch64": """
        close=57 lseek=62 read=63 write=64 readv=65 writev=66 newfstatat=79 fstat=80 exit=93
        exit_group=94 futex=98 set_robust_list=99 nanosleep=101 clock_gettime=113 clock_getres=114
        clock_nanosleep=115 sched_getaffinity=123 sched_yield=124 restart_syscall=128
        sigaltstack=132 rt_sigaction=134 rt_sigprocmask=135 rt_sigreturn=139 times=153 uname=160
        getrusage=165
        gettimeofday=169 getpid=172 getppid=173 getuid=174 geteuid=175 getgid=176 getegid=177
        gettid=178 sysinfo=179 brk=214 munmap=215 mremap=216 mmap=222 mprotect=226 madvise=233
        getrandom=278 membarrier=283 rseq=293
    """,
}


@pytest.mark.parametrize("machine", ALLOWED)
def test_a_call_is_allowed_by_the_number_that_it_has_on_that_machine(machine: str):
    """Another number would refuse it, and allow a call that nothing asked for."""
    column, _ = confine._MACHINES[machine]
    pairs = (pair.split("=") for pair in ALLOWED[machine].split())

    assert {name: numbers[column] for name, numbers in confine._CALLS.items()} == {
        name: int(number) for name, number in pairs
    }


@pytest.mark.parametrize(("answer", "alone"), [(0, True), (-1, False)])
@on_linux
def test_a_reader_asks_for_namespaces_of_users_and_of_networks(
    answer: int, alone: bool, monkeypatch: pytest.MonkeyPatch
):
    """As `unshare --user --net` does; a container that forbids it leaves the filter alone."""
    asked: list[int] = []
    libc = SimpleNamespace(unshare=lambda flags: asked.append(flags) or answer, prctl=lambda *_: -1)
    monkeypatch.setattr(confine.ctypes, "CDLL", lambda *_, **named: libc)

    assert confine._isolate() is alone
    assert asked == [0x1000_0000 | 0x4000_0000]
