"""`scrapy config`: the seed's variables, where values come from, and what is hidden."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from smartcrawl import settings as module
from smartcrawl.commands import config
from smartcrawl.commands.config import (
    MASK,
    OVERRIDES,
    config_command_value_masked,
)
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.options import Options
from smartcrawl.model.settings_table import SETTINGS, TABLE
from smartcrawl.run.opening import ARGUMENTS
from tests.crawls.commands import Crawl, Result, Scrapy
from tests.site_server import Site, html

ROOT = Path(__file__).resolve().parents[2]
MANUAL = ROOT / "docs" / "settings.md"
#: The seed's variables (R0.16) with their defaults, two other values, and the option of each.
SEED: dict[str, tuple[object, str, str, str]] = {
    "REGISTRY_TABLE_NAME": ("IngestItems", "items_1", "_Records", "registry_table"),
    "REGISTRY_PARTITION_STRATEGY": ("host", "scheme", "host", "partition"),
    "CRAWL_BASE_INTERVAL_SECONDS": (86_400, "60", "120", "schedule.base"),
    "CRAWL_MAX_INTERVAL_SECONDS": (1_209_600, "200000", "300000", "schedule.longest"),
    "CRAWL_ERROR_BACKOFF_BASE": (600, "30", "40", "schedule.error_base"),
    "TRACKING_PARAM_PREFIXES": ("utm_, gclid, fbclid, msclkid", "a_", "b_", "trackers.prefixes"),
    "FORCE_REINDEX_ON_CANONICAL_CHANGE": (True, "0", "1", "force_on_canonical"),
}
OURS = {name: getattr(module, name) for name in dir(module) if name.isupper()}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without any setting of ours in the environment."""
    for name in module.defaults:
        monkeypatch.delenv(name, raising=False)


class Ask:
    """`scrapy config`."""

    def __init__(self, reader: Scrapy) -> None:
        self._reader = reader

    def __call__(self, *args: str, expect: int = 0, **environment: str) -> Result:
        result = self._reader.run(["config", *args], environment)
        assert result.status == expect, result
        assert "Traceback" not in result.err
        return result

    def json(self, *args: str, expect: int = 0, **environment: str) -> dict[str, Any]:
        result = self("--format", "json", *args, expect=expect, **environment)
        told: dict[str, Any] = json.loads(result.out)
        return told

    def rows(self, *args: str, expect: int = 0, **environment: str) -> dict[str, dict[str, Any]]:
        """What is told of each setting, by its name."""
        told = self.json(*args, expect=expect, **environment)
        return {row["name"]: row for row in told["settings"]}


@pytest.fixture
def ask_config(ask: Scrapy) -> Ask:
    return Ask(ask)


def options(**changed: object) -> Options:
    return Options.of(OURS | module.defaults | {"CONCURRENT_REQUESTS": 16} | changed)


# The seed's variables


@pytest.mark.covers("R0-80", "R0-81", "R0-82", "R0-83", "R0-84", "R0-85", "R0-86", "M-42")
def test_the_seeds_variables_come_from_the_command_line_the_environment_or_the_default(
    ask_config: Ask,
):
    environment = {name: one for name, (_, one, _, _) in SEED.items()}
    given = [word for name, (*_, two, _) in SEED.items() for word in ("-s", f"{name}={two}")]

    defaults = ask_config.rows(*SEED)
    from_environment = ask_config.rows(*SEED, **environment)
    from_command_line = ask_config.rows(*SEED, *given, **environment)

    assert list(defaults) == list(from_environment) == list(from_command_line) == ordered(SEED)
    for name, (default, one, two, _) in SEED.items():
        rows = defaults[name], from_environment[name], from_command_line[name]
        assert [row["source"] for row in rows] == ["default", "environment", "-s"], name
        assert [row["default"] for row in rows] == [default] * 3, name
        assert rows[0]["value"] == default
        if name == "FORCE_REINDEX_ON_CANONICAL_CHANGE":
            assert (rows[1]["value"], rows[2]["value"]) == (False, True)
        else:
            assert [str(row["value"]) for row in rows[1:]] == [one, two]


def ordered(names: object) -> list[str]:
    return [name for name in SETTINGS if name in names]


@pytest.mark.covers("R0-80", "R0-81", "R0-82", "R0-83", "R0-84", "R0-85", "R0-86")
def test_the_seeds_variables_are_options():
    shipped = options()
    assert (shipped.registry_table, shipped.partition) == ("IngestItems", "host")
    assert shipped.force_on_canonical is True
    assert (shipped.schedule.base, shipped.schedule.longest) == (86_400, 1_209_600)
    assert shipped.schedule.error_base == 600
    assert shipped.trackers.prefixes == ("utm_", "gclid", "fbclid", "msclkid")
    assert (shipped.gone_ttl, shipped.undo_ttl) == (7_776_000, 2_592_000)

    changed = options(
        REGISTRY_TABLE_NAME=" items_1 ",
        REGISTRY_PARTITION_STRATEGY="Scheme",
        FORCE_REINDEX_ON_CANONICAL_CHANGE="0",
        GONE_TTL_SECONDS="0",
    )
    assert (changed.registry_table, changed.partition) == ("items_1", "scheme")
    assert (changed.force_on_canonical, changed.gone_ttl) == (False, 0)


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("REGISTRY_TABLE_NAME", "", "expected a word of up to 63"),
        ("REGISTRY_TABLE_NAME", "a" * 64, "expected a word of up to 63"),
        ("REGISTRY_TABLE_NAME", "1st", "begins with neither a digit nor sqlite_"),
        ("REGISTRY_TABLE_NAME", "SQLite_master", "begins with neither a digit nor sqlite_"),
        ("REGISTRY_TABLE_NAME", 'x"; DROP TABLE record; --', "letters, digits and _"),
        ("REGISTRY_TABLE_NAME", "Tabelle_ä", "letters, digits and _"),
        ("REGISTRY_PARTITION_STRATEGY", "domain", "expected one of host, scheme"),
        ("FORCE_REINDEX_ON_CANONICAL_CHANGE", "maybe", "expected 1 or 0"),
        ("GONE_TTL_SECONDS", "-1", "expected a whole number of at least 0"),
        ("GONE_TTL_SECONDS", "90 days", "expected a whole number of at least 0"),
        ("MIN_DOWNLOAD_RATE", "slow", "expected a whole number of at least 0"),
    ],
)
def test_a_wrong_value_is_named_with_what_it_takes(name: str, value: str, remedy: str):
    with pytest.raises(SettingError) as caught:
        options(**{name: value})

    assert str(caught.value).startswith(f"{name} is {value!r}: ")
    assert remedy in str(caught.value)


@pytest.mark.parametrize("name", ["a", "a" * 63, "_", "Ingest_Items2", "records"])
def test_words_are_names_of_tables(name: str):
    assert options(REGISTRY_TABLE_NAME=name).registry_table == name


@pytest.mark.covers("M-42")
def test_an_argument_of_the_spider_counts_before_everything(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/a", "/b")
    site.pages["/a"] = html("A", text="text of a")
    site.pages["/b"] = html("B", text="text of b")
    crawl.environment["LOST_THRESHOLD"] = "1"
    crawl(site.url("/"))
    del site.pages["/a"]

    crawl(site.url("/"), settings={"LOST_THRESHOLD": 2})
    assert crawl.hits("text") == ["/a", "/b"], "-s counts before the environment"
    del site.pages["/b"]
    crawl(site.url("/"), settings={"LOST_THRESHOLD": 3}, lost_threshold=2)
    assert crawl.hits("text") == ["/b"], "-a counts before -s"
    crawl(site.url("/"), settings={"LOST_THRESHOLD": 3}, lost_threshold=4)
    assert crawl.hits("text") == ["/b"]


def test_arguments_that_count_before_settings_are_told(ask_config: Ask):
    told = ask_config.json()["arguments"]

    assert {one["argument"] for one in told} <= set(ARGUMENTS)
    assert told == [
        {"argument": one.argument, "overrides": list(one.overrides), "meaning": one.meaning}
        for one in OVERRIDES
    ]
    names = {name for one in OVERRIDES for name in one.overrides}
    assert names - {"max_pages"} <= set(module.defaults)
    (only,) = ask_config.json("LOST_THRESHOLD", "DEPTH_LIMIT")["arguments"]
    assert only["argument"] == "lost_threshold"
    assert ask_config.json("--changed")["arguments"] == []


# What is told of a setting


def groups_of_the_manual() -> list[tuple[str, str]]:
    found, group = [], ""
    for line in MANUAL.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            group = line.removeprefix("## ")
        elif row := re.match(r"\| `([A-Z0-9_]+)` \|", line):
            found.append((group, row[1]))
    return found


@pytest.mark.covers("M-42")
def test_every_setting_is_told_in_the_order_and_the_groups_of_the_manual(ask_config: Ask):
    rows = ask_config.rows().values()

    assert [(row["group"], row["name"]) for row in rows] == groups_of_the_manual()
    assert [row["name"] for row in rows] == list(module.defaults)
    assert all(list(row) == list(config.KEYS) for row in rows)


def test_every_setting_has_a_meaning_of_one_line():
    assert list(SETTINGS) == list(module.defaults)
    assert [name for name, one in SETTINGS.items() if len(one.meaning) < 5] == []
    assert not any("\n" in one.meaning or len(one.meaning) > 90 for one in SETTINGS.values())
    assert len(SETTINGS) == sum(len(group) for group in TABLE.values())  # no name twice


def test_a_setting_is_told_with_its_unit_and_its_bounds(ask_config: Ask):
    rows = ask_config.rows("LOST_THRESHOLD", "SWEEP_MAX_RATIO", "HEAD_POLICY", "DATA_DIR")

    assert {name: row["unit"] for name, row in rows.items()} == {
        "DATA_DIR": "folder",
        "LOST_THRESHOLD": "runs, at least 1",
        "SWEEP_MAX_RATIO": "share, 0 to 1",
        "HEAD_POLICY": "`never`, `auto`, `always`",
    }


def test_values_are_of_the_kind_of_their_default(ask_config: Ask):
    environment = {
        "DEPTH_LIMIT": "3", "DOWNLOAD_DELAY": "0.5", "ROBOTSTXT_OBEY": "false",
        "HTTPPROXY_ENABLED": "1", "SWEEP_MAX_RATIO": "1", "LOG_LEVEL": "DEBUG",
    }  # fmt: skip
    rows = ask_config.rows(*environment, **environment)

    assert {name: row["value"] for name, row in rows.items()} == {
        "DEPTH_LIMIT": 3, "DOWNLOAD_DELAY": 0.5, "ROBOTSTXT_OBEY": False,
        "HTTPPROXY_ENABLED": True, "SWEEP_MAX_RATIO": 1, "LOG_LEVEL": "DEBUG",
    }  # fmt: skip


def test_only_what_is_not_left_at_its_default(ask_config: Ask):
    rows = ask_config.rows("--changed", "-s", "LOST_THRESHOLD=3", "-L", "ERROR", DEPTH_LIMIT="4")

    assert {name: (row["value"], row["source"]) for name, row in rows.items()} == {
        "DEPTH_LIMIT": (4, "environment"),
        "LOST_THRESHOLD": (3, "-s"),
        "LOG_LEVEL": ("ERROR", "-L"),
    }
    assert ask_config("--changed").out == "Every setting has its default.\n"


def test_names_are_taken_in_any_case_and_told_in_the_order_of_the_manual(ask_config: Ask):
    assert list(ask_config.rows("user_agent", "Data_Dir")) == ["DATA_DIR", "USER_AGENT"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("LOST_TRESHOLD", "; did you mean LOST_THRESHOLD"),
        ("orphan_age", "; did you mean ORPHAN_MIN_AGE"),
        ("qqqq", ": scrapy config prints them all"),
        ("LOG_FILE", "scrapy settings --get LOG_FILE prints it"),
        ("https://me:pw@a.example/", "https://…@a.example/"),
    ],
)
def test_a_name_that_no_setting_has_is_answered_with_what_is_near(
    ask_config: Ask, name: str, hint: str
):
    result = ask_config(name, "DEPTH_LIMIT", expect=1)

    assert result.out == ""
    assert hint in result.err
    assert result.err.startswith("config: ")


def test_people_see_groups_values_and_defaults_of_what_was_changed(ask_config: Ask):
    lines = ask_config("LOST_THRESHOLD", "REGISTRY_URL", LOST_THRESHOLD="5").out.splitlines()
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines]

    assert cells[0] == ["setting", "value", "from", "default", "meaning"]
    assert cells[1] == ["State"]
    assert cells[2][:3] == ["REGISTRY_URL", "empty", "default"]
    assert cells[3] == ["What may be removed, and when"]
    assert cells[4] == [
        "LOST_THRESHOLD", "5", "environment", "3", "runs that must find 404 or 410",
    ]  # fmt: skip
    assert cells[6] == ["argument", "counts before", "meaning"]
    assert cells[7][:2] == ["-a lost_threshold=", "LOST_THRESHOLD"]


@pytest.mark.covers("M-42")
def test_wrong_values_are_shown_and_the_first_is_named(ask_config: Ask):
    wrong = {"DEPTH_LIMIT": "many", "LOST_THRESHOLD": "0"}
    message = "DEPTH_LIMIT is 'many': expected a whole number of at least 0"

    result = ask_config(*wrong, expect=1, **wrong)
    told = ask_config.json(*wrong, expect=1, **wrong)

    assert result.err == f"config: {message}\n"
    assert [row["value"] for row in told["settings"]] == ["many", 0]
    assert told["error"] == message
    assert re.search(r"DEPTH_LIMIT +many +environment", result.out)
    assert ask_config.json()["error"] is None


def test_a_module_of_somebody_else_is_a_place_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOST_THRESHOLD", "5")
    changed = {"DEPTH_LIMIT": 9, "LOST_THRESHOLD": "5", "RENDER": "auto"}
    settings = Settings(OURS | changed, priority="project")
    settings.set("ORPHAN_THRESHOLD", 4, priority="cmdline")

    found = {
        name: config.config_command_value_source(settings, name, {}) for name in module.defaults
    }

    assert found.pop("DEPTH_LIMIT") == "settings module"
    assert found.pop("LOST_THRESHOLD") == "environment"
    assert found.pop("ORPHAN_THRESHOLD") == "-s"
    assert set(found.values()) == {"default"}


# What is hidden


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("API_KEYS", "8c1f,77aa", MASK),
        ("SHAREPOINT_CLIENT_SECRET", "8c1f", MASK),
        ("EMBEDDING_BATCH_TOKENS", 4_000, 4_000),
        ("API_REQUIRE_IDEMPOTENCY_KEY", True, True),
        ("SOME_TOKEN", ["8c1f"], MASK),
        ("SMTP_PASSWORD", 8_051, MASK),
        ("CLIENT_SECRET", "", ""),
        ("CLIENT_SECRET", None, None),
        ("REGISTRY_URL", "postgresql://me:8c1f@db.example/x", "postgresql://***@db.example/x"),
        ("REGISTRY_URL", "postgresql://me@db.example/x", "postgresql://me@db.example/x"),
        ("SNAPSHOT_STORE", "abfs://docs@a.example/x", "abfs://docs@a.example/x"),
        ("SNAPSHOT_STORE", "sftp://me%3A8c1f@a.example/x", "sftp://***@a.example/x"),
        ("SNAPSHOT_STORE", "sftp://me@a.example/x?sig=8c1f", "sftp://***@a.example/x?sig=***"),
        ("SNAPSHOT_STORE", "sftp://me@b:8c1f@a.example/x", "sftp://***@a.example/x"),
        ("SNAPSHOT_STORE", "https://8c1f@a.example/x", "https://***@a.example/x"),
        ("REDIS_URL", "redis://8c1f@redis.example/0", "redis://***@redis.example/0"),
        ("REDIS_URL", "redis://:8c1f@redis.example/0", "redis://***@redis.example/0"),
        (
            "REDIS_URL",
            "unix:///run/redis.sock?password=8c1f",
            "unix:///run/redis.sock?password=***",
        ),
        ("SNAPSHOT_STORE", "https://a.example/x?sv=1&sig=8c1f", "https://a.example/x?sv=1&sig=***"),
        ("SNAPSHOT_STORE", "https://a.example/x?token=8c1f", "https://a.example/x?token=***"),
        ("USER_AGENT", "bot (https://a.example/)", "bot (https://a.example/)"),
        ("DATA_DIR", "folder…", "folder…"),
        ("SITES", ["https://me:8c1f@a.example/"], "['https://***@a.example/']"),
        ("ALLOW_PORTS", (80, 443), ["80", "443"]),
        ("ROBOTSTXT_PARSER", Settings, "<class 'scrapy.settings.Settings'>"),
        ("DEPTH_LIMIT", 3, 3),
        ("ROBOTSTXT_OBEY", False, False),
    ],
)
def test_secrets_are_masked(name: str, value: object, shown: object):
    assert config_command_value_masked(name, value) == shown
    assert "8c1f" not in str(config_command_value_masked(name, value))


@pytest.mark.covers("R0-77", "M-42")
@pytest.mark.parametrize("form", ["table", "json"])
def test_no_secret_is_printed_not_even_in_the_message(ask_config: Ask, form: str):
    url = "https://me:geheim@a.example/?token=geheim&sig=geheim"
    names = ("REGISTRY_URL", "USER_AGENT", "ALLOW_NETWORKS", "DATA_DIR")

    result = ask_config("--format", form, expect=1, **dict.fromkeys(names, url))

    assert "geheim" not in result.out + result.err
    assert result.out.count("***@a.example") == len(names)


def test_the_message_about_a_secret_does_not_tell_it(monkeypatch: pytest.MonkeyPatch):
    name = "ELASTICSEARCH_PASSWORD"

    def of(settings: Settings) -> Options:
        raise SettingError(f"{name} is {settings[name]!r}: expected words, not 8c1f")

    monkeypatch.setattr(Options, "of", of)

    assert config.config_command_error(Settings({name: "8c1f"})) == (
        f"{name} is {MASK}: expected words, not {MASK}"
    )


# From an archive


@pytest.mark.long
def test_it_works_from_an_egg(tmp_path: Path):
    """An egg is a zip: scrapyd deploys one."""
    with zipfile.ZipFile(tmp_path / "project.egg", "w") as egg:
        for pattern in ("*.py", "*.sql"):
            for path in (ROOT / "smartcrawl").rglob(pattern):
                egg.write(path, path.relative_to(ROOT))
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = smartcrawl.settings\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PY")}

    result = subprocess.run(
        [sys.executable, "-m", "scrapy", "config", "--format", "json", "DEPTH_LIMIT"],
        cwd=tmp_path, env=environment | {"PYTHONPATH": str(tmp_path / "project.egg")},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (result.returncode, result.stderr) == (0, "")
    (row,) = json.loads(result.stdout)["settings"]
    assert row["meaning"] == "links from a seed to a page; 0: no limit"
