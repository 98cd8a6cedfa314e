"""Rendering by two workers, and by browsers that end, are missing or come late: nothing is lost."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from smartcrawl.model.processes import descendants_of
from tests.crawls.commands import Crawl
from tests.crawls.crew import Crew, Worker
from tests.crawls.test_crawl_render import SHELL, data, publish
from tests.site_server import Page, Site

pytestmark = pytest.mark.long(but=1)

NAMES = tuple(f"p{number}" for number in range(8))
PATHS = ("/", *(f"/{name}" for name in NAMES))
NO_BROWSER = "/no/such/browser"


@pytest.fixture
def many(site: Site) -> Site:
    """A home page and eight pages, all of one shell."""
    publish(site)
    for path in ("/one", "/two", "/api/one.json", "/api/two.json"):
        del site.pages[path]
    site.pages |= dict.fromkeys(PATHS, SHELL)
    menu = "[" + ", ".join(f'"{path}"' for path in PATHS) + "]"
    site.pages["/api/menu.json"] = Page(menu, content_type="application/json")
    for name in ("home", *NAMES):
        write(site, name)
    return site


def write(site: Site, name: str, edition: str = "first", *, delay: float = 0.05) -> None:
    page = data(f"Title of {name}", f"{edition} text of {name}")
    site.pages[f"/api/{name}.json"] = replace(page, delay=delay)


def declare(crawl: Crawl, site: Site, render: str = "always") -> None:
    crawl.declare(f'[sources.app]\nseeds = ["{site.url("/")}"]\nrender = "{render}"\n')


def outcomes(crawl: Crawl) -> dict[str, str]:
    crawl._told.clear()
    return {path: page["lastOutcome"] for path, page in crawl.pages().items()}


def holds(crawl: Crawl, *names: str, edition: str = "first") -> bool:
    """Whether a search finds each page by its own text, and no page twice."""
    return all(crawl.hits(f'"{edition} text of {name}"') == [f"/{name}"] for name in names)


def shells(crawl: Crawl) -> list[str]:
    """The pages that are stored as their empty shell."""
    titles = "SELECT r.url FROM record r JOIN content c ON c.no = r.content WHERE c.title = 'Shell'"
    return [url for (url,) in crawl.rows(titles)]


def two(crew: Crew, first: str, second: str, *statuses: int) -> None:
    """Crawl with two workers and their browsers."""
    worker = crew.begin(None, 1, RENDER_BROWSER=first)
    crew.end(*worker, crew.join(None, RENDER_BROWSER=second), statuses=statuses or (0,))


@pytest.mark.long  # what they share: tests/run/test_redis_cache.py
@pytest.mark.parametrize("render", ["always", "auto"])
def test_two_workers_render_together(crew: Crew, many: Site, program: str, render: str):
    crawl = crew.crawl
    declare(crawl, many, render)
    two(crew, program, program)
    assert outcomes(crawl) == dict.fromkeys(PATHS, "new")
    assert (holds(crawl, *NAMES), shells(crawl)) == (True, [])
    many.log.clear()
    two(crew, program, program)
    assert outcomes(crawl) == dict.fromkeys(PATHS, "unchanged")
    assert {record.status for record in many.log} <= {304, 404}
    assert many.count("/api/menu.json") == 1  # for all workers
    write(many, "p3", "second")
    two(crew, program, program)
    assert outcomes(crawl) == dict.fromkeys(PATHS, "unchanged") | {"/p3": "modified"}
    assert holds(crawl, "p3", edition="second")


@pytest.mark.parametrize("render", ["always", "auto"])
def test_a_worker_without_a_browser_keeps_what_is_there(
    crew: Crew, many: Site, program: str, render: str
):
    crawl = crew.crawl
    declare(crawl, many, render)
    two(crew, program, program)
    for name in NAMES:
        write(many, name, "second")
    two(crew, program, NO_BROWSER, 0, 3)
    found = outcomes(crawl)
    assert {found[path] for path in PATHS[1:]} <= {"modified", "failed"}
    for name in NAMES:
        edition = "second" if found[f"/{name}"] == "modified" else "first"
        assert holds(crawl, name, edition=edition)
    assert shells(crawl) == []
    two(crew, program, program)
    assert set(outcomes(crawl).values()) <= {"modified", "unchanged"}
    assert holds(crawl, *NAMES, edition="second")


@pytest.mark.parametrize("render", ["always", "auto"])
def test_a_worker_without_a_browser_stores_no_shell(
    crew: Crew, many: Site, program: str, render: str
):
    """Pages that it gets in a first crawl wait for a worker that has one, or for the next run."""
    crawl = crew.crawl
    declare(crawl, many, render)
    worker = crew.begin(None, 1, RENDER_BROWSER=program)
    until = time.monotonic() + 60
    while not many.count("/api/home.json") and time.monotonic() < until:
        time.sleep(0.02)
    crew.end(*worker, crew.join(None, RENDER_BROWSER=NO_BROWSER), statuses=(0, 3))
    assert set(outcomes(crawl).values()) <= {"new", "skipped"}
    assert shells(crawl) == []
    two(crew, program, program)
    assert set(outcomes(crawl).values()) <= {"new", "unchanged"}
    assert (holds(crawl, *NAMES), set(crawl.pages())) == (True, {*PATHS})


def browsers(worker: Worker) -> list[int]:
    """The main processes of the browsers of a worker."""
    found = []
    for pid in descendants_of(worker.pid):
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            is_main = b"--remote-debugging-pipe" in words and b"--type=" not in words
            if is_main and not words.startswith(b"/bin/sh"):
                found.append(pid)
    return found


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Repeat some work beside what follows."""
    done = threading.Event()

    def repeat() -> None:
        while not done.wait(0.02):
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def renders(browser: int) -> bool:
    """Whether a browser has a process for a page of the crawl, beside its own first one."""
    found = 0
    for pid in descendants_of(browser):
        with suppress(OSError):
            found += b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return found > 1


def kill(worker: Worker, killed: list[int], most: int) -> None:
    """Kill a browser of a worker that began to work on a page, up to a number of them."""
    for pid in browsers(worker):
        if len(killed) < most and pid not in killed and renders(pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)


def test_a_browser_that_is_killed_is_started_again(crew: Crew, many: Site, program: str):
    crawl = crew.crawl
    declare(crawl, many)
    two(crew, program, program)
    for name in NAMES:
        write(many, name, "second", delay=0.3)
    killed: list[int] = []
    [worker] = crew.begin(None, 1, RENDER_BROWSER=program)
    with meanwhile(lambda: kill(worker, killed, 3)):
        crew.end(worker, statuses=(0, 3))
    assert len(killed) == 3
    found = outcomes(crawl)
    assert set(found.values()) <= {"modified", "unchanged", "failed"}
    for name in NAMES:
        edition = "second" if found[f"/{name}"] == "modified" else "first"
        assert holds(crawl, name, edition=edition)
    assert shells(crawl) == []
    two(crew, program, program)
    assert holds(crawl, *NAMES, edition="second")


def test_a_browser_that_is_killed_again_and_again_is_no_browser(
    crew: Crew, many: Site, program: str
):
    crawl = crew.crawl
    declare(crawl, many)
    two(crew, program, program)
    for name in NAMES:
        write(many, name, "second", delay=0.5)
    many.pages["/late"] = SHELL
    write(many, "late")
    menu = "[" + ", ".join(f'"{path}"' for path in (*PATHS, "/late")) + "]"
    many.pages["/api/menu.json"] = Page(menu, content_type="application/json")
    killed: list[int] = []
    [worker] = crew.begin(None, 1, RENDER_BROWSER=program)
    with meanwhile(lambda: kill(worker, killed, 10**6)):
        [result] = crew.end(worker, statuses=(3,))
    assert "render: no browser" in str(result)
    assert "the browser ended 6 times in a row" in str(result)
    assert 6 <= len(killed) <= 8
    assert set(outcomes(crawl).values()) == {"failed"}
    assert (holds(crawl, *NAMES), shells(crawl)) == (True, [])
    two(crew, program, program)
    assert holds(crawl, *NAMES, edition="second")
    assert holds(crawl, "late")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder of temporary files, which the user of the browser may enter."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


def test_a_crawl_that_is_killed_leaves_no_browser(
    crew: Crew, many: Site, program: str, temporary: Path
):
    crawl = crew.crawl
    declare(crawl, many)
    for name in NAMES:
        write(many, name, delay=1)
    own = {"RENDER_BROWSER": program, "TMPDIR": str(temporary)}
    [worker] = crew.begin(None, 1, **own)
    until = time.monotonic() + 60
    while many.count("/api/p0.json") == 0 and time.monotonic() < until:
        time.sleep(0.02)
    began = [(pid, *descendants_of(pid)) for pid in browsers(worker)]
    assert began
    worker.signal(signal.SIGKILL)
    worker.end()
    crew.bury(worker)
    until = time.monotonic() + 20
    left = [pid for group in began for pid in group]
    while any(map(is_browser, left)) and time.monotonic() < until:
        time.sleep(0.05)
    assert [pid for pid in left if is_browser(pid)] == []
    before = {*temporary.glob("smartcrawl-browser-*")}
    assert len(before) == 1
    for name in NAMES:
        write(many, name)
    crew.end(crew.join(None, resume=True, **own))
    assert [*temporary.glob("smartcrawl-*browser-*")] == []
    assert (holds(crawl, *NAMES), shells(crawl)) == (True, [])


def is_browser(pid: int) -> bool:
    """Whether a process of the browser lives: a zombie does not."""
    with suppress(OSError):
        return b"headless" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
