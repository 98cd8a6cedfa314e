"""Attacks on the machine that crawls: doors that stand open, files that run code when read."""

import ast
import os
import pickle
import re
import threading
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl, wait_until
from tests.modules import CODE, parsed
from tests.site_server import Page, Site, html

ROOT = Path(__file__).resolve().parents[2]
#: Modules that run code of what they read, or whose files do.
_UNSAFE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "jsonpickle", "marshal", "shelve"}
_LISTENS = "0A"  #: state of a TCP socket in /proc


class Planted:
    """What creates a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._marker),)


def listening(pid: int) -> list[str]:
    """The local addresses at which a process listens, as /proc writes them."""
    fds = Path(f"/proc/{pid}/fd").iterdir()
    own = {found[1] for fd in fds if (found := re.match(r"socket:\[(\d+)\]", os.readlink(fd)))}
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{pid}/net/{name}").read_text().splitlines()[1:]
    ]
    return [row[1] for row in rows if row[3] == _LISTENS and row[9] in own]


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="it takes Linux's /proc")
def test_a_crawl_listens_on_no_port(site: Site, crawl: Crawl):
    """ATT-54: no telnet console and no remote control, which run any Python that is sent."""
    site.pages["/"] = html("Home", "/slow")
    done = threading.Event()
    site.pages["/slow"] = Page("late", until=done.is_set)

    with crawl.start(site.url("/")) as running:
        wait_until(lambda: site.count("/slow"), "the crawl is under way")
        doors = listening(running.pid)
        done.set()
        result = running.end()

    assert doors == []
    assert result.status == 0, result
    assert set(crawl.outcomes()) == {"/", "/slow"}


def test_no_pickle_is_read_out_of_a_job_directory(site: Site, crawl: Crawl, tmp_path: Path):
    """ATT-56: Scrapy keeps the state of spiders as a pickle there."""
    jobs, marker = tmp_path / "jobs", tmp_path / "marker"
    jobs.mkdir()
    (jobs / "spider.state").write_bytes(pickle.dumps(Planted(marker)))
    site.pages["/"] = html("Home")

    crawl(site.url("/"), settings={"JOBDIR": jobs})

    assert not marker.exists()
    assert pickle.loads(pickle.dumps(Planted(marker))) is None
    assert marker.exists()
    assert crawl.outcomes() == {"/": "new"}


def test_no_pickle_is_read_out_of_a_cache_of_answers(site: Site, crawl: Crawl, tmp_path: Path):
    """ATT-56: Scrapy's cache keeps headers as pickles, and would hide every change."""
    cache = tmp_path / "cache"
    site.pages["/"] = html("Home", text="early words")
    settings = {"HTTPCACHE_ENABLED": 1, "HTTPCACHE_DIR": cache}
    crawl(site.url("/"), settings=settings)
    site.pages["/"] = html("Home", text="late words")

    crawl(site.url("/"), settings=settings)

    assert not cache.exists()
    assert crawl.hits("late") == ["/"]


def test_nothing_is_imported_that_runs_code_of_what_it_reads():
    """ATT-55, ATT-56; of scrapy-redis, which pickles its queues, only the connection is used."""
    found = set()
    for file in CODE:
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Import):
                found |= {(file.name, alias.name) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found |= {(file.name, f"{node.module}.{alias.name}") for alias in node.names}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "__import__"), file

    assert {name for _, name in found if name.partition(".")[0] in _UNSAFE} == set()
    assert [each for each in sorted(found) if each[1].startswith("scrapy_redis")] == [
        ("connection.py", "scrapy_redis.connection.get_redis")
    ]


@pytest.mark.parametrize(
    "name", ["requirements.txt", "requirements-test.txt", "requirements-scrapyd.txt"]
)
def test_requirements_name_one_version_each(name: str):
    """ATT-60: nothing newer or other is installed than what was tested."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    named = [line.partition("#")[0].strip() for line in lines]
    wanted = [line for line in named if line]

    assert wanted
    assert [line for line in wanted if not re.fullmatch(r"[\w.,\[\]-]+==[\w.]+(;.*)?", line)] == []
