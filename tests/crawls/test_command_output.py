"""Every command in a pipe, at a terminal, and where only ASCII can be shown.

What they print on 80 columns, and where there is nothing, is told in tests/lab/test_output.py.
"""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from pkgutil import iter_modules

import pytest

from smartcrawl import commands
from tests.crawls.commands import ROOT, Crawl, Scrapy, scrapy
from tests.site_server import Page, Site, html
from tests.tiers import some

LONG = "/long/" + "/".join(f"part-{n}-{'x' * 14}" for n in range(9))
NAME = "a-source-whose-name-is-far-longer-than-a-table-likes-v10.2"

#: Every command with arguments that print something, and its exit status.
COMMANDS = [
    (["runs"], 0),
    (["registry"], 0),
    (["registry", "--status", "error"], 0),
    (["registry", "--dead"], 0),
    (["status"], 0),
    (["why", "LONG"], 0),
    (["why", "http://elsewhere.example/"], 0),
    (["changes"], 0),
    (["diff", "LONG"], 0),  # tests/lab/test_diff.py has the rest
    (["notify", "--list"], 1),  # tests/lab/test_notify.py has the rest
    (["plan"], 0),
    (["plan", "--simulate", "30"], 1),
    (["orphans"], 0),
    (["deltamerge"], 0),
    (["undo", "99"], 1),
    (["forget", "http://elsewhere.example/"], 1),
    (["forget", "--source", NAME], 3),
    (["audit"], 0),
    (["audit", "--salvage"], 0),
    (["backup", "nowhere/backup.db"], 1),  # tests/crawls/test_backup.py has the rest
    (["restore", "nowhere/backup.db"], 1),
    (["hosts"], 0),
    (["hosts", "--block", "bücher.example", "--reason", "sie baten darum … 日本"], 0),
    (["config"], 0),
    (["search", "long"], 0),
    (["search", "nowhere"], 0),
    (["serve", "--list-keys"], 0),
    (["mcp", "--http", "nowhere"], 2),  # tests/server/mcp has the rest
    (["embed"], 2),
    (["embed", "--dry-run", "-s", "EMBEDDER=local"], 0),
    (["export", "--source", "elsewhere", "--format", "llms", "--output", "there"], 1),
    (["library", "check", "elsewhere"], 1),  # tests/lab/test_library_story.py has the rest
    (["push", "--source", "elsewhere"], 1),  # tests/commands/test_commands_push.py has the rest
    (["reindex", "--pattern", "long", "--dry-run"], 0),
    (["due", "--notice", "http://elsewhere.example/ü"], 1),
    (["due"], 0),
    (["crawl", "site", "-a", f"source={NAME}"], 0),
    (["demo", "elsewhere"], 2),  # tests/commands/test_demo.py has the steps
]


#: Scrapy's own, for which spiders open no run.
SCRAPYS = ("fetch", "list", "parse", "settings", "shell", "view")


def test_every_command_is_here():
    names = {module.name for module in iter_modules(commands.__path__)}
    with_class = {
        name for name in names
        if "class Command(" in (Path(commands.__path__[0]) / f"{name}.py").read_text("utf-8")
    }  # fmt: skip

    assert {args[0] for args, _ in COMMANDS} == with_class - {*SCRAPYS}


@pytest.fixture
def shop(site: Site, crawl: Crawl) -> Site:
    """A site with a long name and a long address that was crawled twice, with a lost page."""
    crawl.environment["LOG_LEVEL"] = "ERROR"
    crawl.declare(f'[sources."{NAME}"]\nseeds = ["{site.url("/")}"]\n')
    site.pages["/"] = html("Home", "/a", "/b", "/c", "/none", LONG)
    for name in "abc":
        site.pages[f"/{name}"] = html(name, text=f"text of {name}")
    site.pages[LONG] = html("Größe 日本", text="a long text — with “quotes”, ü, 日本 and … its end")
    crawl(source=NAME)
    site.pages["/"] = html("Home", "/a", "/c", "/none", LONG)
    site.pages["/a"] = html("A", text="another text")
    site.pages["/c"] = Page("gone", status=404)
    crawl(source=NAME)
    return site


def arguments(args: list[str], site: Site) -> list[str]:
    return [site.url(LONG) if word == "LONG" else word for word in args]


@pytest.mark.long
def test_due_says_what_it_is_at_a_terminal_only(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", text="text of a")
    crawl(site.url("/"))
    site.pages["/"] = html("Home")
    crawl(site.url("/"))
    idle = crawl.run("due")
    assert (idle.out, idle.err.count("\n")) == ("", 1)
    assert idle.err.startswith("due: nothing is due: 1 source; the first page is due in ")

    crawl.run("due", "--notice", site.url("/"))
    result = crawl.run("due")

    assert "due: crawling only" not in result.err, "cron would mail it after every run"
    assert "1 page orphaned: no page links to it any more" in result.out
    assert "cut short" not in result.out
    crawl.run("due", "--notice", site.url("/"))
    assert "due: crawling only the pages that are due" in at_a_terminal(["due"], crawl.own())


def at_a_terminal(args: list[str], environment: Mapping[str, str]) -> str:
    """Run a command of scrapy with a terminal for its messages, and return them."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "scrapy", *args]
    process = subprocess.run(
        command,
        check=False,
        cwd=ROOT,
        env=os.environ | dict(environment),
        stdout=subprocess.DEVNULL,
        stderr=end,
        timeout=300,
    )
    os.close(end)
    said = b""
    with suppress(OSError), open(terminal, "rb", buffering=0) as messages:
        while part := messages.read(65_536):
            said += part
    assert process.returncode == 0, said
    return " ".join(said.decode().split())


# Terminals without Unicode


def set_ascii(word: str, changed: pytest.MonkeyPatch) -> None:
    """Have ASCII only, as one of two words of the environment says it."""
    changed.delenv("PYTHONIOENCODING", raising=False)
    if word == "PYTHONIOENCODING":
        changed.setenv("PYTHONIOENCODING", "ascii")
    else:
        changed.setenv("LC_ALL", "C")
        changed.setenv("PYTHONUTF8", "0")
        changed.setenv("PYTHONCOERCECLOCALE", "0")


@pytest.fixture(scope="module", params=["PYTHONIOENCODING", "LC_ALL"])
def ascii_process(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Scrapy]]:
    """A word of the environment, and a process that began with it: expected seconds."""
    with ExitStack() as running:
        with pytest.MonkeyPatch.context() as changed:
            set_ascii(request.param, changed)
            process = running.enter_context(scrapy(tmp_path_factory.mktemp("ascii")))
        yield request.param, process


@pytest.fixture
def ascii_ask(ascii_process: tuple[str, Scrapy], monkeypatch: pytest.MonkeyPatch) -> Scrapy:
    """Commands whose standard output and error have ASCII only."""
    word, process = ascii_process
    set_ascii(word, monkeypatch)
    return process


@pytest.mark.long
@pytest.mark.sqlite
def test_a_terminal_with_ascii_shows_question_marks(shop: Site, crawl: Crawl, ascii_ask: Scrapy):
    helped = [(["--help", name], 0) for name in ("crawl", "registry")]
    for args, status in some([*COMMANDS, *helped], 12, always=lambda one: one[0][0] == "hosts"):
        words = arguments(args, shop)
        words = [*words[1:], words[0]] if words[0] == "--help" else words
        result = ascii_ask.run(words, crawl.own())

        assert result.status == status, result
        assert "Traceback" not in result.err + result.out, result
        assert (result.out + result.err).isascii(), args

    unknown = ascii_ask.run(["due", "--notice", "http://a.example/…"], crawl.own()).err
    assert unknown.startswith("due: http://a.example/? is not known"), "not an escape, either"
    title = ascii_ask.run(["search", "long"], crawl.own()).out.splitlines()[0]
    assert title == "1. Gr??e ??"
    printed = ascii_ask.run(["search", "long", "--format", "json"], crawl.own()).out
    assert json.loads(printed)[0]["title"] == "Größe 日本"
    lines = ascii_ask.run(["hosts", "--format", "json"], crawl.own()).out
    assert "日本" in json.loads(lines)[-1]["blockReason"]


@pytest.mark.long
@pytest.mark.sqlite
def test_progress_for_programs_loses_no_character(shop: Site, crawl: Crawl, ascii_ask: Scrapy):
    words = ["crawl", "site", "-a", f"source={NAME}", "--progress", "json"]
    result = ascii_ask.run(words, crawl.own())

    assert result.status == 0
    assert {json.loads(line)["outcome"] for line in result.out.splitlines()} >= {
        "unchanged",
        "lost",
    }
