"""Commands in forks of a process that is ready for them behave as processes of their own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl, wait_until
from tests.crawls.ready import ROOT, Fork, popen
from tests.site_server import Page, Site, html

PYTHON = [sys.executable, "-m"]


def said(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def start(*words: str, **changed: str) -> "subprocess.Popen[str]":
    return popen(
        [*PYTHON, *words], cwd=ROOT, env=os.environ | changed, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    "words",
    [
        ("smartcrawl", "crawl", "docs.example.com/", "-s", "API_PORT=x"),
        ("smartcrawl", "statsu"),
        ("scrapy", "crawl", "nothing"),
        ("scrapy", "serve", "--port", "web"),
        ("tests.crawls.runner", "nothing"),  # ends with a text as its status
    ],
    ids=lambda words: words[0],
)
def test_a_fork_says_and_ends_what_a_process_of_its_own_does(
    tmp_path: Path, words: tuple[str, ...]
):
    environment = {"DATA_DIR": str(tmp_path / "data")}
    fork = start(*words, **environment)
    alone = subprocess.run(
        [*PYTHON, *words], cwd=ROOT, env=os.environ | environment, text=True, check=False,
        stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
    )  # fmt: skip

    assert isinstance(fork, Fork)
    assert said(fork) == (alone.returncode, alone.stdout, alone.stderr)
    assert alone.returncode != 0
    assert alone.stdout + alone.stderr


def test_what_nobody_caught_is_shown():
    status, out, err = said(start("smartcrawl", "--version", ARRANGED_BY="tests.nothing"))

    assert (status, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert err.endswith("ModuleNotFoundError: No module named 'tests.nothing'\n")


def test_what_python_reads_at_its_start_is_left_to_a_process_of_its_own(tmp_path: Path):
    for more in ({"PYTHONPATH": str(tmp_path)}, {"LC_ALL": "C"}, {"PYTHONUTF8": "0"}):
        with start("smartcrawl", "--version", **more) as process:
            assert not isinstance(process, Fork)
            process.kill()
    with popen([sys.executable, "-c", "pass"]) as process:
        assert not isinstance(process, Fork)


def test_a_fork_is_here_until_it_was_waited_for(site: Site, crawl: Crawl):
    site.pages["/"] = Page(html("Home"), delay=60)
    with crawl.start(site.url("/")) as running, crawl.start("http://127.0.0.1:9/") as other:
        assert isinstance(running.process, Fork)
        wait_until(lambda: site.count("/"), "its page is asked")
        with pytest.raises(subprocess.TimeoutExpired):
            running.process.wait(0.1)
        assert running.process.poll() is None
        assert other.process.wait() == 3, "the end of another one is reported meanwhile"
        os.kill(running.pid, signal.SIGKILL)
        wait_until(lambda: state(running.pid) == "Z", "it has died")
        os.kill(running.pid, signal.SIGKILL)  # its number is not another one's
        assert running.process.wait() == -signal.SIGKILL
        assert not Path(f"/proc/{running.pid}").exists()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
