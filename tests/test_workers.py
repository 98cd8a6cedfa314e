"""script/workers, in a folder that looks like a checkout: its own setup never runs here."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl
from tests.site_server import Site, html

ROOT = Path(__file__).resolve().parents[1]
_SECONDS = 180
SHARED = {"REDIS_URL": "redis://localhost:1/0", "REGISTRY_URL": "postgresql://localhost:1/none"}
#: In place of smartcrawl: says what it was asked, and ends with the status that stands in its file.
STAND_IN = """\
#!/bin/sh
echo "$@"
echo >&2 "REDIS_URL=$REDIS_URL"
number=0
until mkdir {folder}/taken-$number 2>/dev/null; do number=$((number + 1)); done
trap 'exit 3' TERM
read -r status <{folder}/status-$number || exit 99
[ "$status" = killed ] && kill -9 $$
[ "$status" = wait ] || exit "$status"
touch {folder}/waits-$number
for turn in $(seq 600); do sleep 0.05; done
exit 98
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with script/workers and nothing that prepares or crawls."""
    folder = tmp_path / "checkout"
    (folder / "script").mkdir(parents=True)
    shutil.copy(ROOT / "script/workers", folder / "script/workers")
    program(folder / "script/setup", "#!/bin/sh\nexit 0\n")
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def stand_in(checkout: Path, *statuses: int | str) -> None:
    """Let workers end with these statuses, or wait."""
    for number, status in enumerate(statuses):
        (checkout / f"status-{number}").write_text(f"{status}\n")
    program(checkout / ".venv/bin/smartcrawl", STAND_IN.format(folder=checkout))


def start(checkout: Path, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "script/workers", *arguments],
        cwd=checkout,
        env={name: v for name, v in os.environ.items() if name not in SHARED} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(checkout: Path, *arguments: str, **environment: str) -> tuple[int, str, str]:
    process = start(checkout, *arguments, **environment)
    out, err = process.communicate(timeout=_SECONDS)
    return process.returncode, out, err


@pytest.mark.long
def test_one_worker_crawls_a_source_and_needs_no_redis(checkout: Path, site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A page")
    crawl.declare(f'[sources.docs]\nseeds = ["{site.url("/")}"]\n')
    (checkout / ".venv").symlink_to(Path(sys.executable).parents[1])
    (checkout / "smartcrawl").symlink_to(ROOT / "smartcrawl")
    shutil.copy(ROOT / "scrapy.cfg", checkout)
    own = crawl.environment | {
        "DATA_DIR": str(crawl.data_dir),
        "SOURCES_FILE": str(crawl.sources_file),
    }

    done = run(checkout, "docs", "1", **own)
    unknown = run(checkout, "dogs", "1", **own)
    cut = run(checkout, "docs", "1", "-a", "max_pages=1", **own)

    assert done[0] == 0, done
    assert "[1] Run 1 of docs: complete" in done[1]
    assert [run["new"] for run in reversed(crawl.runs(source="docs"))] == [2, 0]
    assert (unknown[0], cut[0]) == (1, 3)
    assert "[1] Run 2 of docs: incomplete" in cut[1]
    assert "[1] crawl: there is no source 'dogs', did you mean docs?" in unknown[1]


def test_each_worker_gets_the_same_arguments_and_says_who_it_is(checkout: Path):
    stand_in(checkout, 0, 0, 0)
    arguments = ("docs", "3", "-a", "force=1", "-a", "job=nightly")

    status, out, err = run(checkout, *arguments, **SHARED)

    assert (status, err) == (0, "")
    assert sorted(out.splitlines()) == sorted(
        f"[{number}] {text}"
        for number in (1, 2, 3)
        for text in (
            "crawl --source docs -a force=1 -a job=nightly",
            "REDIS_URL=redis://localhost:1/0",
        )
    )


def test_all_workers_get_one_job_and_those_of_the_next_start_another(checkout: Path):
    stand_in(checkout, *[0] * 5)

    first, second = (jobs_of(run(checkout, "docs", count, **SHARED)) for count in ("3", "2"))

    assert [len(first), len(second)] == [3, 2]
    assert len({*first}) == len({*second}) == 1
    assert first[0] != second[0]


def jobs_of(done: tuple[int, str, str]) -> list[str]:
    """Return the job that each worker was given."""
    assert done[0] == 0, done
    return re.findall(r"crawl --source docs --job (\S+)$", done[1], re.MULTILINE)


@pytest.mark.parametrize("given", ["-ajob=nightly", "--job=nightly", "--job nightly"])
def test_a_job_that_is_given_is_the_only_one(checkout: Path, given: str):
    stand_in(checkout, 0)

    _, out, _ = run(checkout, "docs", "1", *given.split())

    assert f"crawl --source docs {given}\n" in out


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        ((0, 3, 0), 3),
        ((3, 4, 0), 3),
        ((4, 0, 0), 4),
        ((4, 1, 3), 1),
        ((2, 1, 0), 2),
        ((0, 77, 2), 1),
    ],
)
def test_the_exit_status_is_the_worst_of_theirs(
    checkout: Path, statuses: tuple[int, ...], worst: int
):
    stand_in(checkout, *statuses)

    given = [word for name, value in SHARED.items() for word in ("-s", f"{name}={value}")]

    assert run(checkout, "docs", "3", *given)[0] == worst


def test_a_worker_that_was_killed_is_named(checkout: Path):
    """It cannot say so itself."""
    stand_in(checkout, 0, "killed", 3)

    status, out, _ = run(checkout, "docs", "3", **SHARED)

    assert status == 1
    [told] = [line for line in out.splitlines() if "was ended by" in line]
    assert "Killed" in told
    assert "nothing is lost" in told


def test_a_reader_that_leaves_stops_no_worker(checkout: Path):
    program(checkout / ".venv/bin/smartcrawl", "#!/bin/sh\nseq 100000\ntouch done\n")
    process = start(checkout, "docs", "1")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()

    process.wait(_SECONDS)

    assert (checkout / "done").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_lets_every_worker_end(checkout: Path, number: signal.Signals):
    stand_in(checkout, "wait", "wait")
    process = start(checkout, "docs", "2", **SHARED)
    deadline = time.monotonic() + _SECONDS
    while len(list(checkout.glob("waits-*"))) < 2:
        assert time.monotonic() < deadline, "the workers did not start"
        time.sleep(0.01)

    process.send_signal(number)
    out, err = process.communicate(timeout=_SECONDS)

    assert (process.returncode, err) == (3, "")
    assert {line[:3] for line in out.splitlines()} == {"[1]", "[2]"}


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["docs", "2"], {}, "name it, as in REDIS_URL=redis://localhost:6379/0, or start one"),
        (["docs", "2"], {"REDIS_URL": " "}, "REDIS_URL=redis://localhost:6379/0"),
        (["docs", "2", "-s", "REDIS_URL="], SHARED, "REDIS_URL=redis://local"),
        (["docs", "2"], {"REDIS_URL": "redis://a"}, "in REGISTRY_URL=postgresql://USER:PASSWORD@"),
        (["docs", "2"], {**SHARED, "REGISTRY_URL": "sqlite:///a"}, "PostgreSQL, which all of them"),
        (["docs", "2", "-s", "REGISTRY_URL="], SHARED, "or start one worker"),
        (["docs", "0"], {}, "a number of workers, as in: script/workers docs 3"),
        (["docs", "many"], {}, "a number of workers"),
        (["docs"], {}, "a number of workers"),
        ([], {}, "the name of a source"),
    ],
)
def test_what_cannot_work_starts_nothing(
    checkout: Path, arguments: list[str], environment: dict[str, str], message: str
):
    stand_in(checkout, 0, 0)

    status, out, err = run(checkout, *arguments, **environment)

    assert (status, out) == (2, "")
    assert message in err
    assert not list(checkout.glob("taken-*"))


@pytest.mark.long
def test_without_its_environment_nothing_starts(checkout: Path):
    program(checkout / "script/setup", "#!/bin/sh\necho no Python >&2\nexit 1\n")
    stand_in(checkout, 0)

    status, out, err = run(checkout, "docs", "1")

    assert (status, out, err) == (1, "", "no Python\n")
