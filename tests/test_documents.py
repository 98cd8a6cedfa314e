"""The commands of README, the tutorial, the how-to pages and the questions are run for real."""

import json
import re
import shlex
import shutil
import socket
import subprocess
from configparser import ConfigParser
from pathlib import Path

import pytest
from mcp.client.stdio import StdioServerParameters

from tests import documents, lamps, servers
from tests.server.mcp.mcp_shelf import connected
from tests.site_server import Site

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = sorted({ROOT / "README.md", *(ROOT / "docs").rglob("*.md")})
POSTGRESQL = ROOT / "docs" / "howto" / "postgresql.md"
ELASTICSEARCH = ROOT / "docs" / "howto" / "elasticsearch.md"
BACKUP = ROOT / "docs" / "operations" / "backup.md"
OF_OTHERS = (TUTORIAL, POSTGRESQL, ELASTICSEARCH, BACKUP)  # with tests of their own
#: Pages with commands about a site that is there already.
OF_A_SITE = [page for page in PAGES if page not in OF_OTHERS and any(documents.runs(page))]


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.long(but=1)
@pytest.mark.parametrize("page", OF_A_SITE, ids=name)
def test_a_page_shows_what_its_commands_print(page: Path, tmp_path: Path):
    assert_plays(page, tmp_path)


def assert_plays(page: Path, folder: Path, **there: str) -> None:
    """Run the commands of a page about the site about lamps, with the servers that are there."""
    with Site() as site:
        site.pages.update(lamps.pages())
        shell = documents.Shell(folder, site.url().split("/")[2], there)
        (shell.folder / ".smartcrawl").mkdir()
        try:
            wrong = documents.in_checkout(page, shell) or documents.play(page, shell)
        finally:
            shell.close()

    assert not wrong, "\n\n".join(wrong)


@pytest.mark.long
def test_the_move_to_postgresql_works(tmp_path: Path, postgres_url: str):
    of_page = "postgresql://smartcrawl:change-me@localhost:5432/smartcrawl"
    assert_plays(POSTGRESQL, tmp_path, **{of_page: postgres_url})


@pytest.mark.long
def test_a_backup_comes_back_from_a_file_and_from_a_dump_of_postgresql(
    tmp_path: Path,
    postgres_url: str,
    elasticsearch: servers.Elasticsearch,
    elasticsearch_prefix: str,
):
    if not (shutil.which("pg_dump") and shutil.which("pg_restore")):
        servers.absent("pg_dump and pg_restore are not installed")
    of_page = "postgresql://smartcrawl:change-me@localhost:5432/smartcrawl"
    url = f"{elasticsearch.url} ELASTICSEARCH_INDEX_PREFIX={elasticsearch_prefix}"
    assert_plays(BACKUP, tmp_path, **{of_page: postgres_url, "http://localhost:9200": url})


@pytest.mark.long
def test_the_search_in_elasticsearch_works(
    tmp_path: Path, elasticsearch: servers.Elasticsearch, elasticsearch_prefix: str
):
    url = f"{elasticsearch.url} ELASTICSEARCH_INDEX_PREFIX={elasticsearch_prefix}"
    assert_plays(ELASTICSEARCH, tmp_path, **{"http://localhost:9200": url})


@pytest.mark.long
@pytest.mark.parametrize(
    ("page", "entry"), [("README.md", "mcp.json"), ("docs/mcp.md", ".cursor/mcp.json")]
)
def test_few_lines_lead_from_a_site_to_an_answer_in_a_client(page: str, entry: str, tmp_path: Path):
    (block,) = (b for b in documents.blocks(ROOT / page) if b.word == "client")
    install, *lines, ask = block.text.splitlines()
    assert len(block.text.splitlines()) <= 5
    assert re.match(r"pip install '\.\[mcp\]' |script/setup mcp vectors$", install)
    question = ask.removeprefix("# ask the client: ")
    with Site() as site:
        site.pages.update(lamps.pages())
        shell = documents.Shell(tmp_path, site.url().split("/")[2])
        (shell.folder / ".smartcrawl").mkdir()
        try:
            assert not documents.in_checkout(ROOT / page, shell)
            status, printed, errors = shell.run("set -e\n" + "\n".join(lines))
        finally:
            shell.close()
    assert status == 0, printed + errors

    entries = json.loads((shell.folder / entry).read_text("utf-8"))
    server = StdioServerParameters(
        **entries["mcpServers"]["docs"],
        cwd=shell.folder if page == "docs/mcp.md" else tmp_path,  # which has no state
        env={"HOME": str(shell.folder)},
    )
    with connected(server) as session:
        (best, *_) = session.call("search", query=question)["results"]
        if "vectors" in install:
            assert session.call("search", query=question, mode="vector")["results"]
    assert "two spare ones are in the lid of the box" in best["text"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.long
def test_the_tutorial_works_from_its_first_line_to_its_last(tmp_path: Path):
    """Its web server is started by the page itself."""
    address = f"127.0.0.1:{free_port()}"
    shell = documents.Shell(tmp_path, address)
    try:
        wrong = documents.play(TUTORIAL, shell)
        assert not wrong, "\n\n".join(wrong)
        crons = [b.text for b in documents.blocks(TUTORIAL) if b.language == "cron"]
        (unit,) = (b.text for b in documents.blocks(TUTORIAL) if b.word == "smartcrawl.service")
        assert len(crons) == 1
        installed = shell.folder / ".venvs" / "smartcrawl" / "bin" / "smartcrawl"
        installed.parent.mkdir(parents=True)
        installed.symlink_to(tmp_path / "bin" / "smartcrawl")
        by_cron = f"env -i HOME=~ PATH=/usr/bin:/bin sh -c {shlex.quote(line_of_cron(crons[0]))}"
        started = [by_cron, start_of(unit, shell.folder)]
        for command in started:
            status, printed, errors = shell.run(command)
            assert status in (0, 3), printed + errors
    finally:
        shell.close()
    log = (shell.folder / "lamps" / "due.log").read_text(encoding="utf-8")
    assert "due: nothing is due: 1 source" in log, "it has just been crawled"


def line_of_cron(text: str) -> str:
    """Return the command of a line of a crontab, whose times are checked."""
    (line,) = text.splitlines()
    *times, command = line.split(maxsplit=5)
    limits = (59, 23, 31, 12, 7)
    for part, most in zip(times, limits, strict=True):
        assert part == "*" or 0 <= int(part) <= most
    assert "%" not in command  # cron would end the line there
    return command


def start_of(unit: str, home: Path) -> str:
    """Return a shell line that does what the service does."""
    parsed = ConfigParser(comment_prefixes="#", interpolation=None)
    parsed.optionxform = str
    parsed.read_string(unit)
    service = parsed["Service"]
    program, *arguments = service["ExecStart"].replace("%h", str(home)).split()
    assert program == f"{home}/.venvs/smartcrawl/bin/smartcrawl"  # where step 1 installs it
    folder = service["WorkingDirectory"].replace("%h", str(home))
    return f"(cd {folder} && smartcrawl {' '.join(arguments)})"


@pytest.mark.parametrize("page", ["docs/howto/schedule.md", "docs/tutorial.md"])
def test_the_lines_for_cron_have_the_form_of_a_crontab(page: str):
    lines = [block.text for block in documents.blocks(ROOT / page) if block.language == "cron"]

    assert [line_of_cron(text) for text in lines] == [
        'cd "$HOME/lamps" && "$HOME/.venvs/smartcrawl/bin/smartcrawl" due >>due.log 2>&1'
    ]


def test_the_units_of_the_tutorial_are_complete(tmp_path: Path):
    found = {b.word: b.text for b in documents.blocks(TUTORIAL) if b.language == "ini"}
    assert sorted(found) == ["smartcrawl.service", "smartcrawl.timer"]
    for name, text in found.items():
        parsed = ConfigParser(comment_prefixes="#", interpolation=None)
        parsed.read_string(text)
        assert parsed["Unit"]["Description"], name
        (tmp_path / name).write_text(text, encoding="utf-8")
    timer = ConfigParser(interpolation=None)
    timer.read_string(found["smartcrawl.timer"])
    assert timer["Timer"]["OnCalendar"] == "hourly"
    assert timer["Install"]["WantedBy"] == "timers.target"
    if shutil.which("systemd-analyze"):
        verify(tmp_path)


def verify(folder: Path) -> None:
    """Let systemd check the units, with a program that exists."""
    service = folder / "smartcrawl.service"
    service.write_text(
        service.read_text("utf-8").replace("%h/.venvs/smartcrawl/bin/smartcrawl", "/bin/true"),
        "utf-8",
    )
    checked = subprocess.run(
        ["systemd-analyze", "--user", "verify", *sorted(map(str, folder.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "smartcrawl" not in checked.stderr, checked.stderr


def test_blocks_that_are_not_run_have_a_reason_and_their_syntax_is_right():
    blocks = [b for page in PAGES for b in documents.blocks(page) if b.language == "sh" and b.word]
    found = [f"{b.page}:{b.line}: sh {b.word}" for b in blocks if b.word not in documents.NOT_RUN]
    for block in blocks:
        checked = subprocess.run(
            ["bash", "-n"], input=block.text, text=True, capture_output=True, check=False
        )
        if checked.returncode:
            found.append(f"{block.page}:{block.line}: {checked.stderr}")

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("Run 1: 3 s\n", "\nRun 1: 12 s\n", True),
        ("Run 1: 3 s\n", "Run 2: 3 s\n", False),
        ("4.2 kB saved\n", "795 B saved\n", True),
        ("one\n…\n", "one\n", True),
        ("one\n…\n", "one\ntwo\nthree\n", True),
        ("one\n…\nthree\n", "one\ntwo\nfour\n", False),
        ("… is blocked: …\n", "127.0.0.1:1 is blocked: for long\n", True),
        ("one\n", "one\ntwo\n", False),
        ("", "one\n", False),
        ("a.c\n", "abc\n", False),
    ],
)
def test_an_output_differs_by_its_words(shown: str, printed: str, same: bool):
    assert (documents.differs(shown, printed) == "") is same


def test_a_command_that_hangs_or_fails_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = tmp_path / "page.md"
    monkeypatch.setattr(documents, "SECONDS", 1)
    page.write_text("```console\n$ false\n$ true\n$ exit_status\n$ echo $?\n127\n```\n")
    shell = documents.Shell(tmp_path, "127.0.0.1:1")
    (wrong,) = documents.play(page, shell)
    assert wrong.startswith("page.md:1: false\nended with 1\n")
    page.write_text("```sh\nfalse\ntrue\n```\n")
    (wrong,) = documents.play(page, shell)
    assert "ended with -1" in wrong  # the shell is over
    shell.close()
    shell = documents.Shell(tmp_path / "bin", "127.0.0.1:1")
    page.write_text("```sh\nsleep 60\n```\n")
    (wrong,) = documents.play(page, shell)
    assert "ended with -1" in wrong
    shell.close()


def test_the_pages_that_people_follow_are_run():
    names = {name(page) for page in OF_A_SITE}

    assert {"README.md", "docs/faq.md", "docs/howto/missing-page.md"} <= names
    assert len(names) >= 7


def test_readme_is_short_and_begins_with_a_picture_and_the_commands_of_a_fresh_machine():
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    assert len(text.splitlines()) <= 60
    assert text.count("](") <= 30
    title, sentence, picture, *_ = text.split("\n\n")
    assert (title, sentence.count(". ")) == ("# smartcrawl", 0)
    assert picture.startswith("![")
    first = next(documents.blocks(ROOT / "README.md"))
    assert first.text == (
        "script/crawl https://docs.example.com/"
        "      # sets up, crawls; then smartcrawl search 'spare fuse'\n"
        "script/test                                 # sets up, runs the tests\n"
    )
    assert first.text in "".join(text.splitlines(keepends=True)[:20])
    assert "exec script/test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_questions_have_short_answers_with_a_command():
    text = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    _, *questions = re.split(r"^### ", text, flags=re.M)

    assert len(questions) >= 15
    for question in questions:
        answer = question.partition("\n## ")[0]
        assert answer.splitlines()[0].endswith("?")
        assert len(re.findall(r"^```sh$", answer, re.M)) == 1, answer
        assert len(answer.split("```")[0].split()) <= 75, answer
