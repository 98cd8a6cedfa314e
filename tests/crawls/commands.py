"""The real `scrapy` commands over a registry of their own, as a person would type them."""

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import apsw
from redis import Redis

from smartcrawl.index.page_parts import ChunkParts
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.database.postgres import postgres_url_without_password
from smartcrawl.registry.database.session import PostgresConnection
from tests.crawls import indexes
from tests.crawls.ready import ROOT, Fork, Zygote, popen, zygote
from tests.registry.build import begin_registry
from tests.registry.counted import counts_are_true

_SECONDS = 300  # a command that takes longer hangs, however busy the machine is
_WAIT_SECONDS = 90
#: Words of `lastOutcome`, as `scrapy runs` counts them.
WORDS = (
    "new", "modified", "unchanged", "clone", "redirected", "skipped", "failed", "lost", "gone",
    "excluded", "orphaned", "deleted",
)  # fmt: skip
MOVED = "moved"  #: one more word, which only files have

_STORED = ("content", "chunk", "links")
#: Keys of Redis: what is claimed, by until when (smartcrawl/run/shared/lua/common.lua).
_CLAIMS = ("*:leases", "domain:flying:*")

Record = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"exit status {self.status}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Scrapy:
    """Commands of scrapy, from a process that is ready for them (see zygote.py)."""

    def __init__(self, folder: Path, own: Zygote | None = None) -> None:
        """`folder`: of their output; `own`: in place of the zygote of this process."""
        self._folder = folder
        self._own = own

    @property
    def _zygote(self) -> Zygote:
        return self._own or zygote()

    def run(self, args: list[str], environment: Mapping[str, str]) -> Result:
        """Run one command to its end; one that takes too long is killed."""
        return self._run(args, ROOT, {**os.environ, **environment})

    def run_in(self, folder: Path, args: list[str], environment: Mapping[str, str]) -> Result:
        """Run one command in a folder, with no other environment."""
        return self._run(args, folder, environment)

    def _run(self, args: list[str], cwd: Path, environment: Mapping[str, str]) -> Result:
        out, err = self._folder / "out", self._folder / "err"
        began = time.monotonic()
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = Fork(
                ["scrapy", *args], by=self._zygote, cwd=cwd, env=environment,
                stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err,
            )  # fmt: skip
        try:
            status = process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            printed = out.read_text("utf-8"), err.read_text("utf-8")
            raise AssertionError(f"{args} did not end\n{printed[0]}\n{printed[1]}") from None
        seconds = time.monotonic() - began
        return Result(status, out.read_text("utf-8"), err.read_text("utf-8"), seconds)

    def prepare(self, module: str) -> None:
        """Import a module once, which all later commands have then."""
        self._zygote.prepare(module)

    def begin(self, args: list[str], environment: Mapping[str, str], folder: Path) -> int:
        """Begin a command whose files lie in `folder`; `status` is there when it has ended."""
        return self._zygote.begin(args, {**os.environ, **environment}, folder)


@contextmanager
def scrapy(folder: Path) -> Iterator[Scrapy]:
    """Start a process for commands of scrapy in the environment of now; their output: `folder`."""
    own = Zygote(os.environ)
    try:
        yield Scrapy(folder, own)
    finally:
        own.end()


class Crawl:
    """`crawl(url)` runs `scrapy crawl site -a url=…`; the other methods ask what came of it.

    Every command runs in the checkout with DATA_DIR and SOURCES_FILE of this object. None of
    them may ever show a traceback.
    """

    def __init__(
        self,
        folder: Path,
        scrapy: Scrapy,
        url: str | None = None,
        *,
        redis: str | None = None,
        others: Sequence[Scrapy] = (),
    ) -> None:
        """`url`: PostgreSQL; None: a file. With `redis` runs are shared, also with `others`."""
        self.folder = folder
        self.data_dir = folder / "data"
        self.registry: Any = Remote(url) if url else self.data_dir / "registry.db"
        self.sources_file = folder / "sources.toml"
        self.environment: dict[str, str] = {
            "AUTOTHROTTLE_ENABLED": "0",
            "TRUST_SAMPLE_RATIO": "0",  # what is asked is what a test says
            "SOFT_404_DETECTION": "0",
        }
        if url is not None:
            self.environment["REGISTRY_URL"] = url
        if redis is not None:
            self.environment["REDIS_URL"] = redis
        self._scrapy = scrapy
        self._others = others
        self._told: dict[tuple[str, ...], str] = {}

    def __call__(
        self,
        url: str | None = None,
        /,
        *,
        expect: int | None = 0,
        settings: Mapping[str, object] | None = None,
        spider: str = "site",
        traceback: bool = False,
        **arguments: object,
    ) -> Result:
        """Crawl; `expect` is the exit status that it must have (None: any).

        `traceback` says that one may be logged, because the test plants a fault of our own.
        """
        if expect == 0 and spider == "site" and isinstance(self.registry, Path):
            begin_registry(self.registry)  # as the command would, which takes a while
        args = self._crawl_arguments(url, spider, settings, arguments)
        return self._run(args, expect=expect, traceback=traceback)

    def start(
        self,
        url: str | None = None,
        /,
        *,
        settings: Mapping[str, object] | None = None,
        spider: str = "site",
        **arguments: object,
    ) -> "Running":
        """Start a crawl and return at once."""
        args = self._crawl_arguments(url, spider, settings, arguments)
        return self.start_command(*args)

    def start_command(self, *args: str) -> "Running":
        """Start any command of scrapy and return at once; ready.py says how."""
        return Running(self._popen(["-m", "scrapy", *args], popen))

    def begin(
        self,
        url: str | None = None,
        /,
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        **arguments: object,
    ) -> int:
        """Begin a crawl beside others, as Scrapy.begin has it; return its number."""
        args = self._crawl_arguments(url, "site", None, arguments)
        return self._scrapy.begin(args, self.own() | dict(environment or {}), folder)

    def _crawl_arguments(
        self,
        url: str | None,
        spider: str,
        settings: Mapping[str, object] | None,
        arguments: Mapping[str, object],
    ) -> list[str]:
        self._told.clear()
        given = ({} if url is None else {"url": url}) | arguments
        args = ["crawl", spider]
        for name, value in given.items():
            args += ["-a", f"{name}={value}"]
        for name, value in (settings or {}).items():
            args += ["-s", f"{name}={value}"]
        return args

    def prepare(self, module: str) -> None:
        """Import a module for all later commands, which saves each of them the time."""
        self._scrapy.prepare(module)

    def run(self, *args: str, expect: int | None = 0) -> Result:
        """Run any command of scrapy."""
        self._told.clear()
        return self._run([*args], expect=expect)

    def _run(self, args: list[str], *, expect: int | None, traceback: bool = False) -> Result:
        if "PYTHONPATH" in self.environment:  # modules that the other process does not know
            return self.python("-m", "scrapy", *args, expect=expect, traceback=traceback)
        if args[0] == "crawl" and self._others:
            result = self._run_together(args)
        else:
            result = self._scrapy.run(args, self.own())
        assert expect is None or result.status == expect, f"expected {expect}; {args}: {result}"
        assert traceback or "Traceback" not in result.err, f"{args}: {result}"
        return result

    def _run_together(self, args: list[str]) -> Result:
        """Run a command in several workers at once, which share the run; what the first one says.

        Their messages are joined, each line once.
        """
        args = [*args, "-a", f"job={uuid4().hex}"]
        workers = [self._scrapy, *self._others]
        with ThreadPoolExecutor(len(workers)) as pool:
            results = list(pool.map(lambda worker: worker.run(args, self.own()), workers))
        told = "".join(f"[{place}] {result}\n" for place, result in enumerate(results))
        assert len({result.status for result in results}) == 1, told
        lines = dict.fromkeys(line for result in results for line in result.err.splitlines())
        return replace(results[0], err="".join(f"{line}\n" for line in lines))

    def python(self, *args: str, expect: int | None = 0, traceback: bool = False) -> Result:
        """Run Python with this object's environment."""
        began = time.monotonic()
        process = self._popen(args, subprocess.Popen)
        try:
            out, err = process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{args} did not end\n{out}\n{err}") from None
        result = Result(process.returncode, out, err, time.monotonic() - began)
        assert expect is None or result.status == expect, f"expected {expect}; {args}: {result}"
        assert traceback or "Traceback" not in result.err, f"{args}: {result}"
        return result

    def start_python(self, *args: str) -> "Running":
        """Start Python with this object's environment, as a process of its own."""
        return Running(self._popen(args, subprocess.Popen))

    def _popen(
        self, args: Sequence[str], start: "Callable[..., subprocess.Popen[str]]"
    ) -> "subprocess.Popen[str]":
        return start(
            [sys.executable, *args],
            cwd=ROOT,
            env={**os.environ, **self.own()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def own(self) -> dict[str, str]:
        """The environment of its commands: where its state lies, and what a test added."""
        own = {"DATA_DIR": str(self.data_dir), "SOURCES_FILE": str(self.sources_file)}
        return own | self.environment

    def declare(self, text: str) -> None:
        """Write sources.toml."""
        self.sources_file.write_text(text, encoding="utf-8")

    def _ask(self, *args: str) -> Any:
        """Ask once; the answer stays true until the next crawl."""
        if args not in self._told:
            result = self._scrapy.run(list(args), self.own())
            assert (result.status, result.err) == (0, ""), f"{args}: {result}"
            self._told[args] = result.out
        return self._told[args]

    def records(self, *, source: str | None = None, status: str | None = None) -> list[Record]:
        """What `scrapy registry --format jsonl` prints."""
        args = ["registry", "--format", "jsonl"]
        args += [] if source is None else ["--source", source]
        args += [] if status is None else ["--status", status]
        return [json.loads(line) for line in self._ask(*args).splitlines()]

    def pages(self, *, source: str | None = None) -> dict[str, Record]:
        """The records by path and query of their URL; only for sources of one host."""
        found = self.records(source=source)
        pages = {path_of(record["url"]): record for record in found}
        assert len(pages) == len(found), "two records have the same path"
        return pages

    def outcomes(self) -> dict[str, str]:
        """`lastOutcome` by path."""
        return {path: record["lastOutcome"] for path, record in self.pages().items()}

    def runs(self, *, source: str | None = None) -> list[Record]:
        """What `scrapy runs --format json` prints, newest first."""
        args = ["runs", "--format", "json", *([] if source is None else ["--source", source])]
        found: list[Record] = json.loads(self._ask(*args))
        return found

    def search(self, query: str, *options: str) -> list[Record]:
        """What `scrapy search --format json` prints."""
        found: list[Record] = json.loads(self._ask("search", "--format", "json", *options, query))
        return found

    def hits(self, query: str) -> list[str]:
        """The paths that a search shows, in no order."""
        return sorted(path_of(hit["url"]) for hit in self.search(query, "--limit", "1000"))

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Read from the registry, or change it."""
        if isinstance(self.registry, Remote):
            return self.registry.rows(statement)
        connection = apsw.Connection(str(self.registry), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(10_000)
            return connection.execute(statement).fetchall()
        finally:
            connection.close()

    def written(self) -> Iterator[tuple[str, bytes]]:
        """What it left behind, by name: each file below its folder, each table of PostgreSQL."""
        for file in self.folder.rglob("*"):
            if file.is_file():
                yield file.relative_to(self.folder).as_posix(), file.read_bytes()
        if isinstance(self.registry, Remote):
            yield from self.registry.tables()

    def bury(self) -> None:
        """Let time pass until what a killed process held is free; a file's lease dies with it."""
        if not isinstance(self.registry, Remote):
            return
        if self.rows("SELECT to_regclass('lease') IS NOT NULL") == [(True,)]:
            self.rows("UPDATE lease SET beat = beat - interval '1 hour'")
        if "REDIS_URL" in self.environment:
            with Redis.from_url(self.environment["REDIS_URL"]) as client:
                for name in _CLAIMS:
                    for key in client.scan_iter(match=name):
                        if held := client.zrange(key, 0, -1):
                            client.zadd(key, dict.fromkeys(held, 1), xx=True)

    @contextmanager
    def held(self, source: str) -> Iterator[None]:
        """A source that this process crawls."""
        place = self.registry.url if isinstance(self.registry, Remote) else self.registry
        lease = registry_database(place).take(source, "now")
        yield
        lease.release()

    def stored(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of content, index and links: what a refresh without changes leaves alone."""
        tables = {name: self.rows(f"SELECT * FROM {name} ORDER BY no") for name in _STORED}
        if "ELASTICSEARCH_URL" in self.environment:
            found = indexes.hits(self.environment)
            tables["chunk"] = [(hit["_id"], hit["_version"], hit["_source"]) for hit in found]
        return tables

    def texts(self) -> list[str]:
        """The texts of all chunks in the index."""
        if "ELASTICSEARCH_URL" in self.environment:
            found = indexes.hits(self.environment)
            return [text for hit in found for text in indexes.texts(hit["_source"])]
        return [text for (text,) in self.rows("SELECT text FROM chunk")]

    def counts_add_up(self) -> bool:
        """Whether the newest run's words, summed up, are the records of its source."""
        run = self.runs()[0]
        assert self.counted(run["run"])
        of_source = [one for one in self.records() if one["source"] == run["source"]]  # asked once
        return sum(run[word] for word in (*WORDS, MOVED)) == len(of_source)

    def counted(self, run: int) -> bool:
        """Whether the counts in the row of a run are those of a scan, as of one moment."""
        place = self.registry.url if isinstance(self.registry, Remote) else self.registry
        with closing(registry_database(place).connect()) as connection:
            level = " ISOLATION LEVEL REPEATABLE READ" if isinstance(place, str) else ""
            connection.execute(f"BEGIN{level}")
            try:
                return counts_are_true(connection, run)
            finally:
                connection.execute("ROLLBACK")


#: Makes a crawl of a folder; the second argument is its PostgreSQL, or None.
CrawlIn = Callable[[Path, str | None], Crawl]


class Remote:
    """A registry in PostgreSQL."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __str__(self) -> str:
        return postgres_url_without_password(self.url)

    def exists(self) -> bool:
        """Whether something was crawled."""
        return bool(
            self.rows("SELECT to_regclass('source') IS NOT NULL")[0][0]
            and self.rows("SELECT 1 FROM source")
        )

    def tables(self) -> Iterator[tuple[str, bytes]]:
        """Every table as text, its bytes as they are."""
        tables = self.rows("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
        for (name,) in tables:
            rows = self.rows(f'SELECT * FROM "{name}"')
            values = [value for row in rows for value in row]
            yield name, b"\n".join(v if isinstance(v, bytes) else str(v).encode() for v in values)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        connection = PostgresConnection(self.url)
        try:
            return connection.execute(statement).fetchall()
        finally:
            connection.close()


def readers_of(pid: int) -> list[int]:
    """The processes of a crawl that read documents or pages, and run their own program by now."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):  # a thread or a process that has just ended
            for child in (task / "children").read_text().split():
                command = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"smartcrawl.extract.child" in command or ChunkParts.module.encode() in command:
                    found.append(int(child))
    return found


def vector_table_of(crawl: Crawl) -> str:
    """Return the name of the table of vectors."""
    return "chunk_vector" if isinstance(crawl.registry, Remote) else "vector"


class Running:
    """A crawl that goes on in the background."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.pid = process.pid
        self._said = b""

    def until_it_says(self, text: str) -> None:
        """Wait until the crawl has written this to its standard error."""
        stream = self.process.stderr
        assert stream is not None
        end = time.monotonic() + _WAIT_SECONDS
        while text.encode() not in self._said:
            ready, _, _ = select.select([stream], [], [], max(0, end - time.monotonic()))
            more = os.read(stream.fileno(), 65_536) if ready else b""
            assert more, f"it never said {text!r}\n{self._said.decode(errors='replace')}"
            self._said += more

    def end(self) -> Result:
        """Wait until it ends."""
        try:
            out, err = self.process.communicate(timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"the crawl did not end\n{out}\n{err}") from None
        return Result(self.process.returncode, out, self._said.decode() + err)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def path_of(url: str) -> str:
    """Return path, query and hash route of a URL."""
    parts = urlsplit(url)
    route = f"#{parts.fragment}" if parts.fragment else ""
    return parts.path + (f"?{parts.query}" if parts.query else "") + route


def differences(found: Any, expected: Any, where: str = "") -> Iterator[str]:
    """Name what differs, as far down as dicts go."""
    if isinstance(found, dict) and isinstance(expected, dict):
        for key in {**expected, **found}:
            yield from differences(found.get(key), expected.get(key), f"{where}/{key}")
    elif found != expected:
        yield f"{where}: {found!r} instead of {expected!r}"


def wait_until(fact: Callable[[], object], what: str) -> None:
    """Wait until `fact()` is true."""
    end = time.monotonic() + _WAIT_SECONDS
    while not fact():
        assert time.monotonic() < end, f"waited {_WAIT_SECONDS} s until {what}"
        time.sleep(0.02)
