"""smartcrawl.toml as commands read and write it, by both programs."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from smartcrawl import settings as module
from smartcrawl.commands.front import main_command
from tests.crawls.commands import Crawl
from tests.site_server import Site, html

Call = Callable[..., tuple[str, str]]


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Call:
    """Return what calls smartcrawl in an empty folder, for a user without state."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["smartcrawl"])
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    for name in (*module.defaults, "SMARTCRAWL_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "RENDER", "auto")  # it was imported under the tests' own

    def called(*words: str, expect: int = 0) -> tuple[str, str]:
        status = main_command(words)
        out, err = capsys.readouterr()
        assert status == expect, (out, err)
        return out, err

    return called


def sources_of(call: Call, *words: str) -> dict[str, tuple[object, str]]:
    told = json.loads(call("config", "--format", "json", *words)[0])
    return {row["name"]: (row["value"], row["source"]) for row in told["settings"]}


def write(text: str, path: str = "smartcrawl.toml") -> Path:
    place = Path(path).absolute()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place


def test_config_tells_the_file_and_what_comes_from_it(call: Call, monkeypatch: pytest.MonkeyPatch):
    path = write('[settings]\nDEPTH_LIMIT = 3\nMAX_HOSTS = 4\nLOST_THRESHOLD = 5\nDATA_DIR = "s"\n')
    monkeypatch.setenv("MAX_HOSTS", "1000")
    names = ("DEPTH_LIMIT", "MAX_HOSTS", "LOST_THRESHOLD", "RETRY_TIMES", "DATA_DIR")

    found = sources_of(call, *names, "-s", "LOST_THRESHOLD=6")

    assert found == {
        "DATA_DIR": (str(Path("s").absolute()), "smartcrawl.toml"),
        "DEPTH_LIMIT": (3, "smartcrawl.toml"),
        "MAX_HOSTS": (1_000, "environment"),
        "LOST_THRESHOLD": (6, "-s"),
        "RETRY_TIMES": (2, "default"),
    }
    told = json.loads(call("config", "--format", "json")[0])
    assert told["file"] == str(path)
    assert call("config", "DEPTH_LIMIT")[0].endswith(f"\nsmartcrawl.toml is {path}\n")
    assert f" {Path('s').absolute()}\n" in call()[0], "the greeting names the folder of state"


def test_the_state_folder_is_where_the_command_line_says(call: Call):
    write("[settings]\nDEPTH_LIMIT = 3\n", "x/smartcrawl.toml")
    write("[settings]\nDEPTH_LIMIT = 4\n", "home/smartcrawl/smartcrawl.toml")
    write('[settings]\nDATA_DIR = "."\nDEPTH_LIMIT = 5\n', "conf/smartcrawl.toml")

    for words, value in (
        ((), 4),
        (("--data-dir", "x"), 3),
        (("-s", "SOURCES_FILE=conf/sources.toml"), 5),
    ):
        assert sources_of(call, "DEPTH_LIMIT", *words) == {
            "DEPTH_LIMIT": (value, "smartcrawl.toml")
        }


COMMANDS = [
    "search",
    "status",
    "config",
    "crawl",
    "due",
    "serve",
    "mcp",
    "plan",
    "backup",
    "library",
]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_broken_file_ends_every_command(call: Call, name: str):
    path = write("[settings\n")

    out, err = call(name, *(["words"] if name == "search" else []), expect=1)

    assert out == ""
    assert err.startswith(f"smartcrawl: {path} is not valid TOML: ")
    assert err.count("\n") == 1


def test_set_and_unset_write_the_file(call: Call):
    write("", "sources.toml")

    out, err = call("config", "--set", "depth_limit", "3", "--set", "LLMS_TXT", "1")

    path = Path("smartcrawl.toml").absolute()
    assert (out, err) == (f"DEPTH_LIMIT is set in {path}\nLLMS_TXT is set in {path}\n", "")
    assert sources_of(call, "--changed") == {
        "DEPTH_LIMIT": (3, "smartcrawl.toml"),
        "LLMS_TXT": (True, "smartcrawl.toml"),
    }
    assert call("config", "--unset", "llms_txt")[0] == f"LLMS_TXT is not in {path}\n"
    assert path.read_text() == "[settings]\nDEPTH_LIMIT = 3\n"


def test_a_stronger_value_is_told_when_one_is_set(call: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MAX_HOSTS", "1000")

    out, _ = call("config", "--set", "MAX_HOSTS", "7")

    assert "the environment variable MAX_HOSTS counts before the file" in out


def test_what_set_refuses_is_not_written(call: Call):
    out, err = call("config", "--set", "DEPTH_LIMIT", "many", expect=1)

    message = "DEPTH_LIMIT is 'many': expected a whole number of at least 0"
    assert (out, err) == ("", f"config: nothing was written: {message}\n")
    assert list(Path.cwd().rglob("smartcrawl.toml")) == []
    assert message in call("status", "-s", "DEPTH_LIMIT=many", expect=1)[1], "as a run says it"


def test_set_with_an_equals_sign_is_a_setting_of_this_call(call: Call):
    words = ("DEPTH_LIMIT", "--set", "DEPTH_LIMIT=3")

    assert sources_of(call, *words) == {"DEPTH_LIMIT": (3, "-s")}
    assert sources_of(call, *words[1:], words[0]) == {"DEPTH_LIMIT": (3, "-s")}
    assert "DEPTH_LIMIT  3 " in call("--set", "DEPTH_LIMIT=3", "config", "DEPTH_LIMIT")[0]
    assert list(Path.cwd().rglob("smartcrawl.toml")) == []


@pytest.mark.parametrize("words", [("DEPTH_LIMIT",), ("A", "b", "c")])
def test_set_takes_a_name_and_a_value(
    call: Call, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        call("config", "--set", *words)

    assert "--set: expected NAME VALUE" in capsys.readouterr().err


# By scrapy, and in a crawl


def test_a_crawl_reads_settings_and_sources_of_the_file(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a")
    site.pages["/a"] = html("A", "/b")
    site.pages["/b"] = html("B")
    file = crawl.folder / "smartcrawl.toml"
    text = f'[settings]\nDEPTH_LIMIT = 1\n\n[sources.docs]\nseeds = ["{site.url("/")}"]\n'
    file.write_text(text)

    crawl(source="docs")

    assert [request.path for request in site.log if request.path in ("/a", "/b")] == ["/a"]
    rows = json.loads(crawl.run("config", "DEPTH_LIMIT", "--format", "json").out)["settings"]
    assert (rows[0]["value"], rows[0]["source"]) == (1, "smartcrawl.toml")
    assert crawl.run("settings", "--get", "DEPTH_LIMIT").out == "1\n"
    crawl.run("config", "--set", "DEPTH_LIMIT", "1", "-s", "MAX_HOSTS=9")
    assert file.read_text() == text

    crawl(source="docs", settings={"DEPTH_LIMIT": 0})
    assert "/b" in [request.path for request in site.log], "-s counts before the file"

    crawl.sources_file.write_text(f'[sources.docs]\nseeds = ["{site.url("/")}"]\n')
    for told in (crawl(source="docs", expect=1), crawl.run("due", expect=1), crawl.run("status")):
        assert f"'docs' is declared in {crawl.sources_file} and in {file}: remove" in told.err

    file.write_text("[settings\n")
    for told in (
        crawl(source="docs", expect=1),
        crawl.run("status", expect=1),
        crawl.run("due", expect=1),
    ):
        assert f"{file} is not valid TOML" in told.err
