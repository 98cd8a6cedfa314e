"""Settings: where they come from, what they take, and what is said about wrong ones."""

import ast
import json
import os
import subprocess
import sys
from dataclasses import MISSING, fields
from ipaddress import ip_network
from operator import attrgetter
from pathlib import Path

import pytest
from scrapy.settings import default_settings

from smartcrawl import settings as module
from smartcrawl.extract.robots_txt import Rfc9309RobotParser
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import robots_parser_option
from smartcrawl.model.options import Options
from smartcrawl.model.settings_table import SETTINGS as SETTINGS_TABLE
from smartcrawl.model.urls import Trackers
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.schedule import Schedule
from tests.crawls.commands import Scrapy
from tests.modules import parsed

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {name: getattr(module, name) for name in dir(module) if name.isupper()}
#: Scrapy's own that the shipped settings leave at Scrapy's value.
SETTINGS |= {"CONCURRENT_REQUESTS": 16}
READ_ALL = """
import json, sys
from scrapy.utils.project import get_project_settings
settings = get_project_settings()
print(json.dumps({name: settings[name] for name in sys.argv[1:]}))
"""
#: The settings that the operator has, with their defaults (issue 3, point 13).
DEFAULTS = {
    "DATA_DIR": ".smartcrawl",
    "REGISTRY_URL": "",
    "REDIS_URL": "",
    "SOURCES_FILE": "sources.toml",
    "DEPTH_LIMIT": 0,
    "CONTENT_HASH_BASIS": "auto",
    "ALLOW_NETWORKS": "",
    "TRACKING_PARAM_PREFIXES": "utm_, gclid, fbclid, msclkid",
    "TRACKING_PARAM_NAMES": "",
    "LOST_THRESHOLD": 3,
    "LOST_MIN_AGE": 0,
    "LOST_PURGE_STATUSES": "404,410",
    "ORPHAN_THRESHOLD": 3,
    "ORPHAN_MIN_AGE": 0,
    "SWEEP_MAX_RATIO": 0.1,
    "SWEEP_MIN_COUNT": 10,
    "ROBOTS_TTL_SECONDS": 86_400,
    "ROBOTS_MAX_STALE_SECONDS": 2_592_000,
    "ROBOTSTXT_PARSER": "smartcrawl.extract.robots_txt.Rfc9309RobotParser",
    "OUT_OF_SCOPE_POLICY": "orphan",
    "TRUST_SAMPLE_RATIO": 0.005,
    "ROBOTSTXT_OBEY": True,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 3,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 30,
    "DOWNLOAD_MAXSIZE": 8_388_608,
    "MAX_FILE_SIZE": 67_108_864,
    "AUTOTHROTTLE_ENABLED": True,
    "RETRY_TIMES": 2,
    "RETRY_AFTER_MAX_WAIT": 60,
    "HOST_FAILURES_TO_PARK": 20,
    "HOST_FAILURE_SECONDS": 30,
    "HOST_PARK_SECONDS": 60,
    "HOST_PROBES": 3,
}


def clean() -> dict[str, str]:
    """The environment without any setting of ours."""
    return {name: value for name, value in os.environ.items() if name not in SETTINGS}


def read_all(*names: str, **environment: str) -> dict[str, object]:
    result = subprocess.run(
        [sys.executable, "-c", READ_ALL, *names],
        cwd=ROOT, env=clean() | environment, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return json.loads(result.stdout)


def options(**changed: object) -> Options:
    return Options.of(DEFAULTS_OF_ALL | changed)


DEFAULTS_OF_ALL = SETTINGS | DEFAULTS


# Where they come from


@pytest.mark.covers("M-42")
def test_the_command_line_wins_over_the_environment_and_that_over_the_default(ask: Scrapy):
    def asked(*args: str, **environment: str) -> str:
        words = ["settings", *args, "--get", "DEPTH_LIMIT"]
        result = ask.run_in(ROOT, words, clean() | environment)
        assert (result.status, result.err) == (0, "")
        return result.out.strip()

    assert asked() == "0"
    assert asked(DEPTH_LIMIT="5") == "5"
    assert asked("-s", "DEPTH_LIMIT=7", DEPTH_LIMIT="5") == "7"


@pytest.mark.covers("R0-85", "M-42")
def test_the_defaults_are_those_that_are_documented():
    assert read_all(*DEFAULTS) == DEFAULTS


@pytest.mark.covers("M-42")
def test_every_setting_has_an_environment_variable_of_its_name():
    assert set(SETTINGS_TABLE) >= set(DEFAULTS)
    values = {name: f"value {place}" for place, name in enumerate(sorted(SETTINGS_TABLE))}

    assert read_all(*values, **values) == values


def test_a_text_from_the_environment_is_the_value_that_it_writes():
    texts = {name: str(value) for name, value in DEFAULTS.items()}

    assert options(**texts) == options()


def test_shipped_settings_make_valid_options():
    made = options()

    assert made.trackers == Trackers()
    assert made.policy == Policy()
    assert made.schedule == Schedule()
    assert made.policy.purge_statuses == {404, 410}
    assert (made.sweep_max_ratio, made.sweep_min_count) == (0.1, 10)
    assert made.allow_networks == ()
    assert made.retry_after_max_wait == 60
    breaker = (made.host_failures_to_park, made.host_failure_seconds)
    assert (*breaker, made.host_park_seconds, made.host_probes) == (20, 30, 60, 3)


def test_no_default_is_written_twice():
    """The table has them; `Options` has none, and those of the rules are the same."""
    own = [f.name for f in fields(Options) if (f.default, f.default_factory) != (MISSING, MISSING)]
    shipped = Options.of(module.defaults)

    assert own == []
    assert shipped.policy == Policy()
    assert shipped.schedule == Schedule()
    assert shipped.trackers == Trackers()


def test_every_setting_is_read():
    folder = ROOT / "smartcrawl"
    readers = [file for file in folder.rglob("*.py") if file.name != "settings_table.py"]
    read = {
        node.value
        for file in readers
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Constant)
    }
    scrapys = vars(default_settings)

    assert [name for name in module.defaults if name not in read and name not in scrapys] == []


# What they take


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("DEPTH_LIMIT", "-1", "expected a whole number of at least 0"),
        ("DEPTH_LIMIT", "many", "expected a whole number of at least 0"),
        ("DEPTH_LIMIT", "1.5", "expected a whole number"),
        ("DEPTH_LIMIT", None, "expected a whole number of at least 0"),
        ("DEPTH_LIMIT", "nan", "expected a whole number of at least 0"),
        ("LOST_THRESHOLD", "0", "expected a whole number of at least 1"),
        ("LOST_MIN_AGE", "-5", "expected a whole number of at least 0"),
        ("ORPHAN_THRESHOLD", 0, "expected a whole number of at least 1"),
        ("ORPHAN_MIN_AGE", "1 day", "expected a whole number of at least 0"),
        ("SWEEP_MAX_RATIO", "1.1", "expected a number from 0 to 1"),
        ("SWEEP_MAX_RATIO", "-0.1", "expected a number from 0 to 1"),
        ("SWEEP_MAX_RATIO", "10%", "expected a number from 0 to 1"),
        ("SWEEP_MIN_COUNT", "2.5", "expected a whole number"),
        ("TRUST_SAMPLE_RATIO", "2", "expected a number from 0 to 1"),
        ("ROBOTS_TTL_SECONDS", "-1", "expected a whole number of at least 0"),
        ("ROBOTS_MAX_STALE_SECONDS", "-1", "expected a whole number of at least 0"),
        ("ROBOTSTXT_PARSER", "protego", "expected a class of Scrapy's RobotParser interface"),
        ("ROBOTSTXT_PARSER", "smartcrawl.extract.robots_txt.No", "AllowFirstRobotParser"),
        ("ROBOTSTXT_PARSER", "no.such.Parser", "Rfc9309RobotParser"),
        ("ROBOTSTXT_PARSER", "smartcrawl.extract.robots_txt", "expected a class"),
        ("ROBOTSTXT_PARSER", "smartcrawl.extract.robots_txt.LIMIT", "expected a class"),
        ("ROBOTSTXT_PARSER", "", "expected a class"),
        ("FILE_VALIDATOR", "md5", "expected one of mtime, ctime, hash"),
        ("CONTENT_HASH_BASIS", "md5", "expected one of auto, text, bytes"),
        ("OUT_OF_SCOPE_POLICY", "delete", "expected one of orphan, remove"),
        ("LOST_PURGE_STATUSES", "404,503", "say nothing about a page"),
        ("LOST_ORPHAN_RULE", "both", "expected one of age, threshold"),
        ("CRAWL_INTERVAL_STEPS", "3, 1", "expected rising whole numbers such as 1, 3, 7, 14"),
        ("CRAWL_INTERVAL_STEPS", "", "expected rising whole numbers such as 1, 3, 7, 14"),
        ("CRAWL_MAX_INTERVAL_SECONDS", 60, "expected at least the 86400 of"),
        ("UNCHANGED_CHECKS_BEFORE_BACKOFF", "0", "expected a whole number of at least 1"),
        ("PROGRESS_FORMAT", "xml", "expected one of line, json"),
        (
            "LOST_PURGE_STATUSES",
            "404,gone",
            "expected HTTP statuses from 400 to 499 such as 404,410",
        ),
        ("LOST_PURGE_STATUSES", "200", "expected HTTP statuses from 400 to 499 such as 404,410"),
        (
            "LOST_PURGE_STATUSES",
            "404,600",
            "expected HTTP statuses from 400 to 499 such as 404,410",
        ),
        (
            "ALLOW_NETWORKS",
            "intranet",
            "expected networks such as 10.20.0.0/16, fd12:3456:789a::/48",
        ),
        (
            "ALLOW_NETWORKS",
            "10.0.0.1/8",
            "expected networks such as 10.20.0.0/16, fd12:3456:789a::/48",
        ),
        ("CONCURRENT_REQUESTS", "0", "expected a whole number of at least 1"),
        ("CONCURRENT_REQUESTS_PER_DOMAIN", "0", "expected a whole number of at least 1"),
        ("DOWNLOAD_DELAY", "-1", "expected a number of at least 0"),
        ("DOWNLOAD_TIMEOUT", "0", "expected a number of at least 0.001"),
        ("DOWNLOAD_MAXSIZE", "8 MB", "expected a whole number of at least 0"),
        ("RETRY_TIMES", "-1", "expected a whole number of at least 0"),
        ("RETRY_AFTER_MAX_WAIT", "-1", "expected a whole number of at least 0"),
        ("RETRY_AFTER_MAX_WAIT", "1.5", "expected a whole number of at least 0"),
        ("HOST_FAILURES_TO_PARK", "0", "expected a whole number of at least 1"),
        ("HOST_FAILURE_SECONDS", "half a minute", "expected a whole number of at least 0"),
        ("HOST_PARK_SECONDS", "-60", "expected a whole number of at least 0"),
        ("HOST_PROBES", "0", "expected a whole number of at least 1"),
        ("ROBOTSTXT_OBEY", "maybe", "expected 1 or 0"),
        ("AUTOTHROTTLE_ENABLED", "", "expected 1 or 0"),
        ("LOG_FORMAT", "xml", "expected one of text, json"),
        ("LOG_FORMAT", "%(message)s", "expected one of text, json"),
        ("LOG_LEVEL", "LOUD", "expected one of DEBUG, INFO, WARNING, ERROR, CRITICAL"),
    ],
)
def test_a_wrong_value_is_named_with_its_setting_and_what_it_takes(name, value, remedy):
    with pytest.raises(SettingError) as caught:
        options(**{name: value})

    assert str(caught.value).startswith(f"{name} is {value!r}: ")
    assert remedy in str(caught.value)


NUMBERS = [name for name, value in DEFAULTS.items() if type(value) in (int, float)]


@pytest.mark.parametrize("value", ["9" * 20, 2**63, "9" * 5_000, 1e300], ids=range(4))
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_that_no_registry_holds_is_refused_with_its_setting(name, value):
    with pytest.raises(SettingError) as caught:
        options(**{name: value})

    assert str(caught.value).startswith(f"{name} is {value!r}: expected ")


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("UNDO_TTL_SECONDS", 100_000_000_000),
        ("GONE_TTL_SECONDS", 100_000_000_000),
        ("DOWNLOAD_DELAY", 100_000_000_000),
        ("SNAPSHOT_RETENTION_DAYS", 1_000_000),
        ("MAX_UNVERIFIED_DAYS", 1_000_000),
    ],
)
def test_the_largest_number_is_taken_and_named(name: str, most: int):
    options(**{name: most})
    with pytest.raises(SettingError, match=rf"{name} is '{most + 1}': expected .* to {most}$"):
        options(**{name: str(most + 1)})


def test_steps_of_an_interval_are_bounded():
    with pytest.raises(SettingError, match="CRAWL_INTERVAL_STEPS is '1, 999"):
        options(CRAWL_INTERVAL_STEPS="1, " + "9" * 20)


@pytest.mark.parametrize(
    "name", ["DEPTH_LIMIT", "LOST_THRESHOLD", "ROBOTS_TTL_SECONDS", "RETRY_TIMES"]
)
def test_infinity_is_no_whole_number(name: str):
    with pytest.raises(SettingError, match=name):
        options(**{name: "inf"})


@pytest.mark.parametrize(
    "name",
    [
        "CONCURRENT_REQUESTS",
        "CONCURRENT_REQUESTS_PER_DOMAIN",
        "RETRY_TIMES",
        "DOWNLOAD_MAXSIZE",
    ],
)
def test_what_scrapy_reads_as_a_whole_number_must_be_one(name: str):
    with pytest.raises(SettingError, match=name):
        options(**{name: "2.5"})


@pytest.mark.parametrize(
    ("name", "value", "field", "read"),
    [
        ("LOST_PURGE_STATUSES", "*", "policy.purge_statuses", None),
        ("LOST_ORPHAN_RULE", "threshold", "policy.sum_of_thresholds", True),
        ("CRAWL_INTERVAL_STEPS", "1, 2", "schedule.steps", (1, 2)),
        ("CRAWL_ERROR_BACKOFF_BASE", "60", "schedule.error_base", 60),
        ("UNDO_TTL_SECONDS", "0", "undo_ttl", 0),
        ("LOST_PURGE_STATUSES", " 404 , 451 ", "policy.purge_statuses", {404, 451}),
        ("LOST_PURGE_STATUSES", "", "policy.purge_statuses", frozenset()),
        ("LOST_PURGE_STATUSES", [404, 410], "policy.purge_statuses", {404, 410}),
        ("CONTENT_HASH_BASIS", " Bytes ", "content_hash_basis", "bytes"),
        ("SWEEP_MAX_RATIO", "1.0", "sweep_max_ratio", 1.0),
        ("SWEEP_MAX_RATIO", "0", "sweep_max_ratio", 0.0),
        ("DEPTH_LIMIT", "3", "depth_limit", 3),
        ("RETRY_AFTER_MAX_WAIT", "0", "retry_after_max_wait", 0),
        ("HOST_FAILURES_TO_PARK", "5", "host_failures_to_park", 5),
        ("HOST_FAILURE_SECONDS", "7", "host_failure_seconds", 7),
        ("HOST_PARK_SECONDS", "9", "host_park_seconds", 9),
        ("HOST_PROBES", "4", "host_probes", 4),
        (
            "ALLOW_NETWORKS", "10.0.0.0/8, fd00::/8,127.0.0.1", "allow_networks",
            (ip_network("10.0.0.0/8"), ip_network("fd00::/8"), ip_network("127.0.0.1/32")),
        ),
        ("TRACKING_PARAM_NAMES", "ref, Source", "trackers", Trackers(names={"ref", "source"})),
        ("TRACKING_PARAM_PREFIXES", "", "trackers", Trackers(prefixes=())),
    ],
)  # fmt: skip
def test_right_values_are_read(name, value, field, read):
    assert attrgetter(field)(options(**{name: value})) == read


@pytest.mark.covers("M-26")
@pytest.mark.parametrize(
    "value",
    [
        "smartcrawl.extract.robots_txt.AllowFirstRobotParser",
        "scrapy.robotstxt.ProtegoRobotParser",
        Rfc9309RobotParser,
    ],
)
def test_a_parser_is_named_by_its_path_or_given(value):
    parser = robots_parser_option(SETTINGS | {"ROBOTSTXT_PARSER": value})

    assert parser.__name__ == str(value).rpartition(".")[2].strip("'>")
    assert options(ROBOTSTXT_PARSER=value) == options()


# Where state lies


def test_state_lies_beside_scrapy_cfg_also_from_a_folder_below(tmp_path, monkeypatch):
    (tmp_path / "scrapy.cfg").write_text("")
    (tmp_path / "a" / "b").mkdir(parents=True)
    for folder in (tmp_path, tmp_path / "a" / "b"):
        monkeypatch.chdir(folder)

        made = options()

        assert made.data_dir == tmp_path / ".smartcrawl"
        assert made.registry == tmp_path / ".smartcrawl" / "registry.db"
        assert made.sources_file == tmp_path / "sources.toml"


def test_a_folder_that_was_named_is_taken_from_where_one_stands(tmp_path, monkeypatch):
    (tmp_path / "scrapy.cfg").write_text("")
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    assert options(DATA_DIR="data").data_dir == tmp_path / "a" / "data"
    assert options(DATA_DIR="~/data").data_dir == tmp_path / "home" / "data"
    assert options(DATA_DIR=str(tmp_path / "x")).registry == tmp_path / "x" / "registry.db"
    assert options(SOURCES_FILE="mine.toml").sources_file == tmp_path / "a" / "mine.toml"


def test_without_a_project_the_folder_of_state_has_to_be_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SettingError, match=f"no scrapy.cfg in {tmp_path} or above it: name a fo"):
        options()
    assert options(DATA_DIR="data").data_dir == tmp_path / "data"
    assert options(DATA_DIR="data").sources_file == tmp_path / "sources.toml"


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_folder_is_refused(value: str):
    with pytest.raises(SettingError, match="DATA_DIR is empty: name a folder"):
        options(DATA_DIR=value)


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////var/lib/x/registry.db", "/var/lib/x/registry.db"),
        ("sqlite:///state/registry.db", "{here}/state/registry.db"),
        ("sqlite:///~/registry.db", "{home}/registry.db"),
        ("  sqlite:////x.db  ", "/x.db"),
        ("", "{here}/data/registry.db"),
        (None, "{here}/data/registry.db"),
    ],
)
def test_the_registry_is_a_file_in_sqlite(tmp_path, monkeypatch, url, path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/u/me")

    made = options(REGISTRY_URL=url, DATA_DIR="data")

    assert str(made.registry) == path.format(here=tmp_path, home="/u/me")


@pytest.mark.covers("RD-20")
@pytest.mark.parametrize("url", ["postgresql://me:x@db.example/crawl", "postgres://db.example/c"])
def test_the_registry_is_a_database_in_postgresql(url: str):
    assert options(REGISTRY_URL=url).registry == url


@pytest.mark.covers("RD-20")
@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:secret@db.example/crawl",
        "mysql://me:se@cret@db.example/crawl",
        "postgresql://",
        "postgresql:db?password=secret",
        "sqlite://registry.db",
        "sqlite:///",
        "registry.db",
    ],
)
def test_another_registry_is_refused_without_its_password(url: str):
    with pytest.raises(SettingError) as caught:
        options(REGISTRY_URL=url)

    assert str(caught.value).startswith("REGISTRY_URL is ")
    assert "expected sqlite:///PATH" in str(caught.value)
    assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("DATA_DIR", "~no-such-user/x"),
        ("SOURCES_FILE", "~no-such-user/x"),
        ("CA_FILE", "~no-such-user/x"),
        ("ELASTICSEARCH_CA_CERTS", "~no-such-user/x"),
        ("REGISTRY_URL", "sqlite:///~no-such-user/x"),
    ],
)
def test_a_home_folder_that_does_not_exist_is_named(name: str, path: str):
    given = {"ELASTICSEARCH_URL": "https://a.example"} if name.startswith("ELASTIC") else {}
    with pytest.raises(SettingError, match="'~no-such-user/x' begins with a home folder"):
        options(**given, **{name: path})


def test_a_current_folder_that_was_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()

    with pytest.raises(SettingError, match="the current folder was removed"):
        options(DATA_DIR="/srv/one")


#: Values of other types than most settings take.
ODD = (
    None, "", "x", " ", -1, 1.5, "1.5", [], ["x"], (), {}, {"a": 1}, True, False, object(), b"x",
    10**30, "nan", "inf", float("nan"), float("inf"), "\0", "²",
)  # fmt: skip


@pytest.mark.parametrize("name", module.defaults)
def test_a_value_of_a_wrong_type_is_named_or_taken(tmp_path: Path, name: str):
    refused = []
    for value in ODD:
        try:
            Options.of(SETTINGS | {"DATA_DIR": str(tmp_path), name: value})
        except SettingError as error:
            refused.append(str(error))

    assert [told for told in refused if name not in told] == []


def test_a_list_may_be_a_list_one_number_or_nothing():
    def lists(**values: object) -> Options:
        return Options.of(SETTINGS | {"DATA_DIR": "/x"} | values)

    assert lists(ALLOW_PORTS=8080).allow_ports == (8080,)
    assert lists(ALLOW_PORTS=[8080, "8443"]).allow_ports == (8080, 8443)
    assert lists(ALLOW_PORTS=None).allow_ports == ()
    with pytest.raises(SettingError, match="ALLOW_PORTS is True: expected a list, or a text"):
        lists(ALLOW_PORTS=True)
    with pytest.raises(SettingError, match="DOWNLOAD_DELAY is 'inf': expected a number"):
        lists(DOWNLOAD_DELAY="inf")
