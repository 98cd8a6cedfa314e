"""The keys of a source's requests: what each takes, where it may stand, and what is said of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from smartcrawl.model.exceptions import SettingError, SourceError
from smartcrawl.model.settings_table import SETTINGS
from smartcrawl.sources.declared import DeclaredSources, load_declared_sources
from smartcrawl.sources.request_keys import (
    REQUEST_KEYS,
    SourceRequest,
    request_key_problems,
    request_key_refusal,
    request_keys_of_kind,
)
from smartcrawl.sources.site import SiteSource

ROOT = Path(__file__).resolve().parents[2]
Declare = Callable[[str], DeclaredSources]
SEEDS = '[sources.a]\nseeds = ["https://a.example/"]\n'

BAD = {
    "delay in quotes": ('delay = "2"', "delay is '2': expected a number without quotes"),
    "delay a switch": ("delay = true", "delay is True: expected a number without quotes"),
    "delay below zero": ("delay = -1", "delay is -1: expected a number from 0 to 3600"),
    "delay of two hours": ("delay = 7200", "delay is 7200: expected a number from 0 to 3600"),
    "delay no number": ("delay = nan", "delay is nan: expected a number from 0 to 3600"),
    "concurrency zero": ("concurrency = 0", "concurrency is 0: expected a whole number from 1 to"),
    "concurrency a fraction": ("concurrency = 1.5", "concurrency is 1.5: expected a whole number"),
    "concurrency too high": ("concurrency = 101", "concurrency is 101: expected a whole number"),
    "timeout of nothing": ("timeout = 0", "timeout is 0: expected a number from 1 to 3600"),
    "timeout in quotes": ('timeout = "60"', "timeout is '60': expected a number without quotes"),
    "size below a page": ("max_size = 10", "max_size is 10: expected a whole number from 1024 to"),
    "retry without end": ("retry = 21", "retry is 21: expected a whole number from 0 to 20"),
    "robots in quotes": ('obey_robots = "no"', "obey_robots is 'no': expected true or false"),
    "robots a number": ("obey_robots = 0", "obey_robots is 0: expected true or false, without"),
    "proxy a number": ("proxy = 3128", "proxy is 'int': expected the address of a proxy, as in"),
    "proxy without scheme": ('proxy = "p.example:3128"', "proxy is 'p.example:3128': expected the"),
    "proxy of SOCKS": (
        'proxy = "socks5://p.example:1080"',
        "is 'socks5://p.example:1080': expected",
    ),
    "proxy by TLS": ('proxy = "https://p.example"', "proxy is 'https://p.example': expected the"),
    "proxy with a path": ('proxy = "http://p.example/x"', "or the name of an environment variable"),
    "proxy of no port": ('proxy = "http://p.example:0"', "proxy is 'http://p.example:0': expected"),
    "proxy of a high port": ('proxy = "http://p.example:65536"', "65536': expected the address"),
    "proxy with a password": (
        'proxy = "http://me:hush@p.example:3128"',
        "proxy has a user or a password, which would stand in a file and in logs: put the",
    ),
    "proxy with a password alone": ('proxy = "me:hush@p.example"', 'as in "DOCS_PROXY"'),
    "agent empty": ("user_agent = ''", "user_agent is '': expected 1 to 256 printable ASCII"),
    "agent of two lines": ('user_agent = "a\\nb"', "expected 1 to 256 printable ASCII"),
    "agent with blanks around": ("user_agent = ' a'", "expected 1 to 256 printable ASCII"),
    "agent too long": (f"user_agent = '{'a' * 257}'", "expected 1 to 256 printable ASCII"),
    "headers a list": ('headers = ["X-Team: docs"]', 'expected a table of texts, as in { "X-Team"'),
    "header Authorization": (
        'headers = { authorization = "Basic dTpw" }',
        "headers: authorization is for a secret",
    ),
    "header Cookie": ('headers = { Cookie = "a=b" }', "headers: Cookie is for a secret"),
    "header of a key": ('headers = { X-Api-Key = "a" }', "give it as auth, which takes the name"),
    "header of a token": ('headers = { X-Token = "a" }', "headers: X-Token is for a secret"),
    "header of a secret": ('headers = { My-Secret-Id = "a" }', "My-Secret-Id is for a secret"),
    "header of a proxy": ('headers = { Proxy-Authorization = "a" }', "is for a secret"),
    "header User-Agent": ('headers = { User-Agent = "a" }', "has a key of its own: write user_a"),
    "header Host": ('headers = { Host = "b.example" }', "Host belongs to each request itself"),
    "header of validators": ('headers = { If-None-Match = "1" }', "belongs to each request itself"),
    "header with a colon": ('headers = { "X: Y" = "a" }', "'X: Y' is no name of a header"),
    "header of two lines": ('headers = { X-A = "a\\r\\nB: c" }', "X-A takes 1 to 256 printable"),
    "header a number": ("headers = { X-A = 1 }", "X-A takes 1 to 256 printable ASCII"),
    "header twice": ('headers = { X-A = "1", x-a = "2" }', "x-a is there twice: give it once"),
    "headers too many": (
        "headers = { " + ", ".join(f"X-{n} = 'a'" for n in range(21)) + " }",
        "headers has 21 names: expected up to 20",
    ),
}


@pytest.fixture
def declare(tmp_path: Path) -> Declare:
    """Write sources.toml and load it."""

    def declared(text: str) -> DeclaredSources:
        path = tmp_path / "sources.toml"
        path.write_text(text, encoding="utf-8")
        return load_declared_sources(path)

    return declared


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_key_is_told_with_what_it_takes(declare: Declare, case: str):
    line, told = BAD[case]

    with pytest.raises(SourceError) as caught:
        declare(SEEDS + line).check()

    assert "[sources.a] " in str(caught.value)
    assert told in str(caught.value)
    assert "hush" not in str(caught.value)


def test_all_wrong_keys_are_told_at_once_and_no_value_of_a_header_is(declare: Declare):
    with pytest.raises(SourceError) as caught:
        declare(SEEDS + 'delay = -1\nconcurrency = 0\nheaders = { Cookie = "hush" }').check()

    assert "3 problems" in str(caught.value)
    assert "hush" not in str(caught.value)


def test_the_keys_of_a_table_are_those_of_the_source(declare: Declare):
    lines = 'delay = 2\nconcurrency = 5\nuser_agent = "docs/1"\nheaders = { X-Team = "docs" }'
    source = declare(SEEDS + lines)["a"]

    assert source.request == SourceRequest(
        delay=2, concurrency=5, user_agent="docs/1", headers=(("X-Team", "docs"),)
    )
    assert source.request.settings == {
        "DOWNLOAD_DELAY": 2,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 5,
        "USER_AGENT": "docs/1",
    }
    assert declare(SEEDS)["a"].request.settings == {}


def test_limits_of_one_source_take_the_places_of_settings(declare: Declare):
    lines = "timeout = 2.5\nmax_size = 2048\nretry = 0\nobey_robots = false"
    request = declare(SEEDS + lines)["a"].request

    assert request.settings == {
        "DOWNLOAD_TIMEOUT": 2.5,
        "DOWNLOAD_MAXSIZE": 2048,
        "RETRY_TIMES": 0,
        "ROBOTSTXT_OBEY": False,
    }
    assert request == SourceRequest.declared(request.table)


def test_a_delay_of_zero_is_set(declare: Declare):
    assert declare(f"{SEEDS}delay = 0")["a"].request.settings == {"DOWNLOAD_DELAY": 0}


@pytest.mark.parametrize(
    ("kind", "root", "line", "told"),
    [
        ("files", 'root = "/srv"', "delay = 1", "[sources.a] delay: sources of kind files do not"),
        ("files", 'root = "/srv"', 'user_agent = "a"', "files are read without requests of the we"),
        (
            "github",
            'url = "https://github.com/o/r"',
            'headers = { X-A = "a" }',
            "headers: sources of kind github do not take it: a repository is asked in its own way",
        ),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(
    declare: Declare, kind: str, root: str, line: str, told: str
):
    with pytest.raises(SourceError, match="1 problem") as caught:
        declare(f'[sources.a]\nkind = "{kind}"\n{root}\n{line}\n').check()

    assert told in str(caught.value)


def test_a_repository_takes_what_concerns_its_requests(declare: Declare):
    table = '[sources.a]\nkind = "github"\nurl = "https://github.com/o/r"\ndelay = 1\n'

    assert declare(table)["a"].request.delay == 1
    assert request_keys_of_kind("files") == ()
    assert set(request_keys_of_kind("site")) == REQUEST_KEYS.keys()
    assert request_key_refusal("site", "delay") is None
    assert request_key_refusal("files", "delays") is None


def test_each_key_is_a_field_and_takes_the_place_of_a_setting_of_the_same_bounds():
    for name, key in REQUEST_KEYS.items():
        assert hasattr(SourceRequest(), name), name
        assert key.setting is None or key.setting in SETTINGS, name
        assert key.form.unit
        assert key.form.meaning
        assert key.kinds


def test_the_manual_has_the_table():
    page = (ROOT / "docs/sources.md").read_text("utf-8")
    rows = [
        f"| `{name}` | {f'`{key.setting}` ' if key.setting else ''}"
        f"| {key.form.unit_and_bounds} | {key.form.meaning} |"
        for name, key in REQUEST_KEYS.items()
    ]
    assert "\n".join(rows) in page
    example = (ROOT / "sources.example.toml").read_text("utf-8")
    for name in REQUEST_KEYS:
        assert f"\n# {name} = " in example, name


def test_a_command_line_gives_the_same_keys():
    given = SourceRequest.of_words(
        {"delay": "2.5", "user_agent": "docs/1"}, ["X-Team: docs", "X-Place:here: there"]
    )

    headers = (("X-Team", "docs"), ("X-Place", "here: there"))
    assert given == SourceRequest(delay=2.5, user_agent="docs/1", headers=headers)
    assert SourceRequest.of_words({}) == SourceRequest()


@pytest.mark.parametrize(
    ("words", "headers", "told"),
    [
        ({"delay": "soon"}, [], "delay is 'soon': expected a number from 0 to 3600"),
        ({}, ["X-Team"], "header is 'X-Team': expected a name and a value, as in 'X-Team: docs'"),
        ({}, ["Authorization: Bearer x"], "headers: Authorization is for a secret"),
        ({}, ["X-A: 1", "x-a : 2"], "headers: x-a is there twice"),
        ({}, ["X-A:"], "headers: X-A takes 1 to 256"),
    ],
)
def test_a_wrong_word_of_a_command_line_is_told(
    words: dict[str, str], headers: list[str], told: str
):
    with pytest.raises(SettingError) as caught:
        SourceRequest.of_words(words, headers)

    assert str(caught.value).startswith(told)
    assert "Bearer" not in str(caught.value)


def test_the_origins_of_a_source_are_those_of_its_seeds():
    seeds = ("https://a.example/docs/", "http://b.example:8080/x?y")
    maps = ("https://c.example/sitemap.xml",)

    both = SiteSource(name="a", seeds=seeds, sitemaps=maps)

    assert both.origins == {"https://a.example", "http://b.example:8080"}
    assert SiteSource(name="a", sitemaps=maps).origins == {"https://c.example"}
    assert request_key_problems({"delay": 1}) == []
