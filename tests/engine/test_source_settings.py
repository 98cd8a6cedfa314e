"""The settings of a crawl, with the keys of its source in their places."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http.request import NO_CALLBACK
from scrapy.settings import Settings

from smartcrawl import settings as module
from smartcrawl.engine.download.network import SOURCE_PROXY, environment_proxy_endpoints
from smartcrawl.engine.source_settings import options_with_source_keys
from smartcrawl.middlewares import SourceHeadersMiddleware
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.options import Options
from smartcrawl.sources.declared import load_declared_sources

DOCS = '[sources.docs]\nseeds = ["http://docs.example/"]\n'
SLOW = '[sources.slow]\nseeds = ["https://docs.example:8443/x"]\ndelay = 9\n'
Applied = Callable[..., tuple[Settings, Options, Options]]


@pytest.fixture
def applied(tmp_path: Path) -> Applied:
    """Declare sources; return the settings of a crawl of docs, and its options before and after."""

    def apply(keys: str = "", others: str = "", **given: Any) -> tuple[Settings, Options, Options]:
        path = tmp_path / "sources.toml"
        path.write_text(f"{DOCS}{keys}\n{others}", "utf-8")
        settings = Settings()
        settings.setmodule(module)
        settings.setdict({"DATA_DIR": str(tmp_path), "SOURCES_FILE": str(path)}, "project")
        settings.setdict(given, "cmdline")
        before = Options.of(settings)
        source = load_declared_sources(path)["docs"]
        return settings, before, options_with_source_keys(settings, source, before)

    return apply


def test_without_a_key_nothing_changes(applied: Applied):
    settings, before, after = applied()

    assert after is before
    assert settings["DOWNLOAD_SLOTS"] in (None, {}) or not dict(settings["DOWNLOAD_SLOTS"])


def test_each_key_is_in_force_where_its_setting_is_read(applied: Applied):
    keys = "delay = 90\nconcurrency = 20\nuser_agent = 'a/1'\ntimeout = 2\nmax_size = 7\nretry = 0"
    settings, _, after = applied(f"{keys}\nobey_robots = false")

    assert (after.download_delay, after.per_host, after.robots_obeyed) == (90, 20, False)
    assert after.concurrent == 20, "16 in all would be less than one host may have"
    assert settings.getfloat("AUTOTHROTTLE_MAX_DELAY") == 90, "it would be 60"
    assert (settings["USER_AGENT"], settings["DOWNLOAD_TIMEOUT"]) == ("a/1", 2)
    assert (settings["DOWNLOAD_MAXSIZE"], settings["RETRY_TIMES"]) == (7, 0)


def test_smaller_keys_leave_the_limits_alone(applied: Applied):
    settings, _, after = applied("delay = 1\nconcurrency = 2")

    assert (after.concurrent, settings.getfloat("AUTOTHROTTLE_MAX_DELAY")) == (16, 60)


def test_the_command_line_is_stronger(applied: Applied):
    _, _, after = applied("delay = 90\nobey_robots = false", DOWNLOAD_DELAY=3, ROBOTSTXT_OBEY=True)

    assert (after.download_delay, after.robots_obeyed) == (3, True)


@pytest.mark.parametrize(
    ("keys", "others", "slots"),
    [
        ("", SLOW, {"docs.example": 9}),
        ("delay = 2", SLOW, {"docs.example": 9}),
        ("delay = 9", SLOW, {}),
        ("delay = 20", SLOW, {}),
        ("", SLOW.replace("docs.example", "other.example"), {"other.example": 9}),
        ("", f"{SLOW}\n{SLOW.replace('slow', 'slower').replace('9', '12')}", {"docs.example": 12}),
        ("", '[sources.f]\nkind = "github"\nurl = "https://github.com/o/r"\ndelay = 5\n', {}),
    ],
)
def test_a_host_has_the_longest_delay_of_all_sources(
    applied: Applied, keys: str, others: str, slots: dict[str, float]
):
    _, _, after = applied(keys, others)

    assert after.host_delays == slots


def test_slots_of_the_settings_stay(applied: Applied):
    given = {"docs.example": {"delay": 30, "concurrency": 1}, "b.example": {"concurrency": 2}}
    settings, _, after = applied(others=SLOW, DOWNLOAD_SLOTS=given)
    assert after.host_delays == {"docs.example": 30}

    given["docs.example"]["delay"] = 1
    settings, _, after = applied(others=SLOW, DOWNLOAD_SLOTS=given)
    assert settings.getdict("DOWNLOAD_SLOTS") == {
        "docs.example": {"delay": 9, "concurrency": 1},
        "b.example": {"concurrency": 2},
    }


def test_a_proxy_of_the_source_is_permitted_instead_of_those_of_the_environment(
    applied: Applied, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("http_proxy", "http://env.example:1")
    monkeypatch.setenv("DOCS_PROXY", "http://u:hush@proxy.example:3128")
    settings, _, _ = applied("proxy = 'DOCS_PROXY'", HTTPPROXY_ENABLED=True)
    assert settings[SOURCE_PROXY] == "http://u:hush@proxy.example:3128"
    assert environment_proxy_endpoints(settings) == [("proxy.example", 3128)]

    monkeypatch.delenv("DOCS_PROXY")
    with pytest.raises(SettingError, match="DOCS_PROXY"):
        applied("proxy = 'DOCS_PROXY'")


def sent(url: str, **request: Any) -> dict[str, str]:
    """The headers of a request after the middleware; it came from the seed's origin."""
    middleware = SourceHeadersMiddleware({"X-Team": "docs"}, frozenset({"https://a.example"}))
    asked = Request(url, headers={"X-Team": "docs", "X-Other": "kept"}, **request)
    middleware.process_request(asked)
    return asked.headers.to_unicode_dict()


@pytest.mark.parametrize(
    ("url", "has"),
    [
        ("https://a.example/x?y", True),
        ("http://a.example/", False),
        ("https://a.example:8443/", False),
        ("https://b.a.example/", False),
        ("https://a.example.evil/", False),
        ("https://a.example@evil.example/", False),
    ],
)
def test_a_redirect_to_another_origin_loses_the_headers(url: str, has: bool):
    headers = sent(url)

    assert ("X-Team" in headers) is has
    assert headers["X-Other"] == "kept"


def test_robots_txt_is_asked_without_them_and_other_requests_of_ours_are_not():
    robots = {"dont_obey_robotstxt": True}
    assert "X-Team" not in sent("https://a.example/robots.txt", callback=NO_CALLBACK, meta=robots)
    assert "X-Team" in sent("https://a.example/data.json", callback=NO_CALLBACK)
    assert "X-Team" in sent("https://a.example/p", meta=robots)
