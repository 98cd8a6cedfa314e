"""The words of ``smartcrawl crawl`` stand for arguments of the spider."""

from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path

import pytest
from scrapy.settings import Settings

from smartcrawl.commands import running
from smartcrawl.commands.crawl import Command
from smartcrawl.commands.crawl_words import command_line_of_scrapy_crawl
from smartcrawl.commands.running import command_named, front_door_parser, run_command
from smartcrawl.model.exceptions import SourceError
from smartcrawl.run.opening import ARGUMENTS, orders_of_run_arguments

DECLARED = ("docs", "docs@2.1", "a.example")


def words(*given: str, declared: Sequence[str] = DECLARED, listed: Sequence[str] = ()) -> list[str]:
    """Return the words of Scrapy's command."""
    parser = front_door_parser("crawl", command_named("crawl"))
    opts, args = parser.parse_known_args(given)
    spiders = {name: "files" if name in listed else "site" for name in declared}
    return command_line_of_scrapy_crawl(opts, args, spiders)


@pytest.mark.parametrize(
    ("word", "argument"),
    [
        ("https://docs.example.com/", "url=https://docs.example.com/"),
        ("docs", "source=docs"),
        ("docs@2.1", "source=docs@2.1"),
        ("a.example", "source=a.example"),
        ("b.example", "url=b.example"),
        ("localhost", "url=localhost"),
        ("127.0.0.1:8000", "url=127.0.0.1:8000"),
        ("dosc", "source=dosc"),
    ],
)
def test_a_word_is_a_source_or_an_address(word: str, argument: str):
    assert words(word) == ["site", "-a", argument]


@pytest.mark.parametrize(
    ("url", "spider"),
    [
        ("https://github.com/octo/docs", "github"),
        ("https://github.com/octo/docs/", "github"),
        ("https://github.com/octo/docs/tree/feature/x/guide", "github"),
        ("https://github.com/octo/docs/blob/main/a.md", "github"),
        ("https://github.com/octo/docs/wiki", "site"),
        ("https://github.com/octo", "site"),
        ("https://github.com/topics/python", "site"),
        ("https://docs.github.com/en/rest", "site"),
    ],
)
def test_the_address_of_a_repository_is_crawled_as_one(url: str, spider: str):
    assert words(url) == [spider, "-a", f"url={url}"]


def test_a_repository_with_a_sitemap_is_a_site():
    url = "https://github.com/octo/docs"

    assert words(url, "--sitemap", "https://a.example/s.xml")[0] == "site"


@pytest.mark.parametrize("spider", ["site", "files", "github"])
def test_a_spider_that_is_named_is_taken(spider: str):
    given = [spider, "-a", "url=https://github.com/octo/docs"]

    assert running._crawl_words(given) == given


def test_without_a_word_all_sources_are_crawled():
    assert words() == ["site"]


@pytest.mark.parametrize(
    "word",
    [
        "/srv/docs", "./docs", "../docs", ".", "..", "~/docs", "file:///srv/docs", "here",
        "s3://bucket/docs", "SFTP://h.example/docs",
    ],
)  # fmt: skip
def test_a_path_is_the_root_of_a_source_of_files(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path)

    assert words(word) == ["files", "-a", f"root={word}"]


@pytest.mark.parametrize(
    ("word", "argument"),
    [
        ("docs", "source=docs"),
        ("b.example", "url=b.example"),
        ("b.example/sub", "url=b.example/sub"),
        ("localhost", "url=localhost"),
        ("file", "source=file"),
        ("htps://docs.example.com/", "url=htps://docs.example.com/"),
        ("HTTPS://docs.example.com/", "url=HTTPS://docs.example.com/"),
    ],
)
def test_a_folder_of_the_same_name_is_neither_a_source_nor_an_address(
    word: str, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if word != "file":
        (tmp_path / word).mkdir(parents=True)
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert words(word) == ["site", "-a", argument]


def test_the_spider_is_that_of_the_declared_source():
    assert words("docs", listed=["docs"]) == ["files", "-a", "source=docs"]
    assert words("--source", "docs", listed=["docs"]) == ["files", "-a", "source=docs"]
    assert words("-a", "source=docs", listed=["docs"]) == ["files", "-a", "source=docs"]
    assert words("a.example", listed=["docs"]) == ["site", "-a", "source=a.example"]
    assert words("-a", "root=x") == ["files", "-a", "root=x"]


def test_without_a_word_the_spiders_of_all_declared_kinds_crawl():
    assert words("--force", listed=["docs"]) == ["site", "files", "-a", "force=1"]
    assert words(declared=["docs"], listed=["docs"]) == ["files"]
    assert words(declared=[]) == ["site"]


def test_a_repository_is_crawled_by_a_spider_of_its_own():
    declared = {"docs": "github", "site": "site"}
    opts, args = front_door_parser("crawl", command_named("crawl")).parse_known_args([])
    assert command_line_of_scrapy_crawl(opts, ["docs"], declared) == ["github", "-a", "source=docs"]
    assert command_line_of_scrapy_crawl(opts, args, declared) == ["site", "github"]


def test_every_option_reaches_the_spider_or_scrapy():
    found = words(
        "docs", "--sitemap", "https://a.example/map.xml", "--force", "--resume", "--max-pages", "7",
        "--lost-threshold", "1", "--job", "night", "-a", "url=x", "-s", "LOG_LEVEL=DEBUG",
        "--data-dir", "state", "--progress", "json", "-L", "INFO", "--logfile", "log", "--nolog",
        "--allow-private", "docs.example", "--scope", "below", "--yes", "--depth", "3",
        "--include", "a", "--include", "b c", "--exclude", "d", "--delay", "0.5",
        "--header", "X-Team: docs", "--header", "X-Desk: 7", "--user-agent", "docs-bot",
    )  # fmt: skip

    pairs = set(zip(found[1::2], found[2::2], strict=False))
    assert pairs == {
        ("-a", "source=docs"), ("-a", "sitemap=https://a.example/map.xml"), ("-a", "force=1"),
        ("-a", "resume=1"), ("-a", "max_pages=7"), ("-a", "lost_threshold=1"), ("-a", "job=night"),
        ("-a", "allow_private=docs.example"), ("-a", "scope=below"), ("-a", "yes=1"),
        ("-a", "depth=3"), ("-a", "include=a\nb c"), ("-a", "exclude=d"), ("-a", "delay=0.5"),
        ("-a", "header=X-Team: docs\nX-Desk: 7"), ("-a", "user_agent=docs-bot"),
        ("-a", "url=x"), ("-s", "LOG_LEVEL=DEBUG"), ("--data-dir", "state"), ("--progress", "json"),
        ("--loglevel", "INFO"), ("--logfile", "log"),
    }  # fmt: skip
    assert found[-1] == "--nolog"
    assert {name.partition("=")[0] for option, name in pairs if option == "-a"} == set(ARGUMENTS)


def test_a_number_is_checked_before_the_crawl(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        words("docs", "--max-pages", "many")

    assert "'many' is not a whole number of at least 1" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--max-pages", "--lost-threshold"])
@pytest.mark.parametrize("number", [str(2**63), "9" * 5_000])
def test_a_number_beyond_64_bits_is_refused_with_its_option(
    capsys: pytest.CaptureFixture[str], option: str, number: str
):
    with pytest.raises(SystemExit):
        words("docs", option, number)

    told = capsys.readouterr().err
    assert f"argument {option}: '{number}' is not a whole number from 1 to 100000000000" in told


@pytest.mark.parametrize("number", [str(2**63), "9" * 5_000])
def test_a_number_beyond_64_bits_is_refused_with_its_argument(number: str):
    for name in ("max_pages", "lost_threshold"):
        with pytest.raises(SourceError, match=f"{name} is '{number}': .* 100000000000, "):
            orders_of_run_arguments({name: number})
    with pytest.raises(SourceError, match=f"retry_batches is '{number}': expected 1 to "):
        orders_of_run_arguments({"retry_batches": number})


def test_progress_takes_each_form_of_scrapys_command():
    parser = ArgumentParser(conflict_handler="resolve")
    command = Command()
    command.settings = Settings()
    command.add_options(parser)
    (forms,) = [action.choices for action in parser._actions if action.dest == "progress"]

    assert forms
    for form in forms:
        assert words("--progress", form)[-2:] == ["--progress", form]


@pytest.mark.parametrize(
    ("option", "where"),
    [
        ("--keep-selectors", "write the key keep_selectors into the table of a source"),
        ("--url-patterns=x", "write the key url_patterns into the table of a source"),
        ("--robotstxt-obey", "give the setting with -s ROBOTSTXT_OBEY=…"),
        ("--concurrency", "write the key concurrency into the table of a source"),
        ("--forec", "there is no option --forec, did you mean --force?"),
    ],
)
def test_an_unknown_option_names_what_does_it(capsys: pytest.CaptureFixture[str], option, where):
    with pytest.raises(SystemExit) as ended:
        run_command("crawl", ["https://a.example/", option])
    assert ended.value.code == 2
    told = " ".join(capsys.readouterr().err.split())
    assert f"there is no option {option.partition('=')[0]}" in told
    assert where in told


@pytest.mark.parametrize("path", ["one note.md", "./one note.md", "docs/one note.md"])
def test_a_single_file_is_refused_with_the_line_that_crawls_it(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / path).write_text("# Note")
    with pytest.raises(SystemExit) as ended:
        run_command("crawl", [path, "--data-dir", str(tmp_path / "state")])

    folder = "docs" if path.startswith("docs") else "."
    assert ended.value.code == 2
    assert f"smartcrawl crawl {folder} --include 'one note.md'" in capsys.readouterr().err
    assert not (tmp_path / "state").exists(), "no source is left of it"
