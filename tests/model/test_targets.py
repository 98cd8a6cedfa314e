"""Where an Elasticsearch is found: what the settings take, and that no secret is shown."""

from pathlib import Path

import pytest
from scrapy.settings import Settings

from smartcrawl import settings as module
from smartcrawl.commands.config import (
    MASK,
    config_command_error,
    config_command_rows,
    config_command_settings,
)
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.model.options import Options

SETTINGS = {name: getattr(module, name) for name in dir(module) if name.isupper()}
ALL = SETTINGS | {"CONCURRENT_REQUESTS": 16, "ELASTICSEARCH_URL": "https://search.example:9243"}


def target(**changed: object) -> ElasticsearchTarget:
    found = ElasticsearchTarget.of(ALL | changed)
    assert found is not None
    return found


def test_without_a_url_there_is_no_elasticsearch():
    assert ElasticsearchTarget.of(SETTINGS | {"ELASTICSEARCH_URL": " "}) is None
    assert Options.of(ALL | {"ELASTICSEARCH_URL": ""}).elasticsearch is None


def test_the_options_hold_the_elasticsearch_and_how_long_it_is_waited_for():
    made = Options.of(ALL | {"SINK_WAIT_SECONDS": "60"})

    assert made.elasticsearch == ElasticsearchTarget("https://search.example:9243", "smartcrawl")
    assert made.sink_wait == 60


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("http://search.example", "http://search.example:9200"),
        ("https://search.example", "https://search.example:443"),
        ("HTTP://Search.example:80/es/", "http://search.example:80/es"),
        ("http://[::1]:9200", "http://[::1]:9200"),
        (" http://127.0.0.1:9200 ", "http://127.0.0.1:9200"),
    ],
)
def test_an_address_has_a_scheme_a_host_and_a_port(written: str, url: str):
    assert target(ELASTICSEARCH_URL=written).url == url


def test_user_and_password_stand_in_the_url_or_in_settings_of_their_own():
    in_url = target(ELASTICSEARCH_URL="https://me%40a:p%3Aw@search.example")
    beside = target(ELASTICSEARCH_USERNAME="me", ELASTICSEARCH_PASSWORD="p w ")
    mixed = target(ELASTICSEARCH_URL="https://me@search.example", ELASTICSEARCH_PASSWORD="secret")

    assert (in_url.url, in_url.user, in_url.password) == (
        "https://search.example:443", "me@a", "p:w",
    )  # fmt: skip
    assert (beside.user, beside.password) == ("me", "p w ")
    assert (mixed.user, mixed.password) == ("me", "secret")
    assert target(ELASTICSEARCH_API_KEY="abc==").api_key == "abc=="


def test_a_target_does_not_show_its_secrets():
    shown = repr(target(ELASTICSEARCH_URL="https://me:hidden@search.example"))
    assert "hidden" not in shown
    assert "hidden" not in repr(target(ELASTICSEARCH_API_KEY="hidden"))


def test_certificates_are_a_file_that_is_there(tmp_path: Path):
    (tmp_path / "ca.pem").write_text("")

    assert target(ELASTICSEARCH_CA_CERTS=str(tmp_path / "ca.pem")).ca_certs == tmp_path / "ca.pem"
    with pytest.raises(SettingError, match=r"ELASTICSEARCH_CA_CERTS is .*there is no such file"):
        target(ELASTICSEARCH_CA_CERTS=str(tmp_path / "none.pem"))


BAD = [
    *[
        ({"ELASTICSEARCH_URL": url}, "ELASTICSEARCH_URL is .* expected an address such as")
        for url in (
            "search.example:9200", "ftp://search.example", "http://", "http://h:port", "http://[",
            "http://h:99999", "http://h/?a=1", "http://me:hidden@/x", "http://h/#me:hidden@x",
        )
    ],
    *[
        ({"ELASTICSEARCH_INDEX_PREFIX": prefix}, "ELASTICSEARCH_INDEX_PREFIX is .* expected")
        for prefix in ("", "Upper", "_docs", "-docs", "a b", "a*", "a,b", "a" * 101, "é")
    ],
    ({"ELASTICSEARCH_USERNAME": "me"}, "belong together: the password is missing"),
    ({"ELASTICSEARCH_PASSWORD": "hidden"}, "belong together: the user is missing"),
    (
        {"ELASTICSEARCH_URL": "http://me:hidden@h", "ELASTICSEARCH_API_KEY": "hidden"},
        "ELASTICSEARCH_API_KEY is given beside a user",
    ),
    (
        {"ELASTICSEARCH_URL": "http://me:hidden@h", "ELASTICSEARCH_PASSWORD": "hidden2"},
        "ELASTICSEARCH_PASSWORD is another one than in ELASTICSEARCH_URL",
    ),
    (
        {"ELASTICSEARCH_URL": "http://me:hidden@h", "ELASTICSEARCH_USERNAME": "you"},
        "ELASTICSEARCH_USERNAME is another one than in ELASTICSEARCH_URL",
    ),
    ({"SINK_WAIT_SECONDS": "-1"}, "SINK_WAIT_SECONDS is '-1': expected a whole number"),
    ({"SINK_WAIT_SECONDS": "1h"}, "SINK_WAIT_SECONDS is '1h': expected a whole number"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "said"), BAD)
def test_a_wrong_value_is_named_without_secrets(changed: dict[str, object], said: str):
    with pytest.raises(SettingError, match=said) as caught:
        Options.of(ALL | changed)

    assert "hidden" not in str(caught.value)
    assert "hidden" not in (config_command_error(Settings(ALL | changed)) or "")


def test_config_masks_the_secrets_of_elasticsearch():
    settings = Settings(
        ALL
        | {
            "ELASTICSEARCH_URL": "https://me:hidden@search.example",
            "ELASTICSEARCH_API_KEY": "hidden",
            "ELASTICSEARCH_PASSWORD": "hidden",
        }
    )
    names = ["ELASTICSEARCH_URL", "ELASTICSEARCH_API_KEY", "ELASTICSEARCH_PASSWORD"]
    rows = config_command_rows(settings, config_command_settings(names, settings))

    assert [row["value"] for row in rows] == [f"https://{MASK}@search.example", MASK, MASK]
