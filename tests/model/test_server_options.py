"""The options of the HTTP API, as settings have them."""

import pytest
from scrapy.settings import Settings

from smartcrawl import settings as shipped
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import ServerOptions

SHIPPED = {name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}


def read(**given: str) -> ServerOptions:
    return ServerOptions.of(Settings(SHIPPED | given))


@pytest.mark.covers("R2-14")
@pytest.mark.parametrize(("text", "is_required"), [("0", False), ("1", True), ("true", True)])
def test_a_setting_requires_keys_of_requests(text: str, is_required: bool):
    assert read(API_REQUIRE_IDEMPOTENCY_KEY=text).require_idempotency_key is is_required
    assert not read().require_idempotency_key


def test_notices_of_indexnow_are_off_unless_a_setting_takes_them():
    assert not read().takes_indexnow
    assert read(API_INDEXNOW="1").takes_indexnow


def test_a_setting_says_how_many_jobs_run_at_once():
    assert read().max_running_jobs == 2
    assert read(MAX_RUNNING_JOBS="5").max_running_jobs == 5
    with pytest.raises(SettingError, match="MAX_RUNNING_JOBS is '0'"):
        read(MAX_RUNNING_JOBS="0")


@pytest.mark.covers("R2-07")
def test_settings_have_the_limits_of_a_minute():
    usual = read()
    assert (usual.jobs_limit, usual.data_limit, usual.monitoring_limit) == (100, 1_000, 500)
    others = read(API_JOBS_PER_MINUTE="1", API_DATA_PER_MINUTE="2", API_MONITORING_PER_MINUTE="3")
    assert (others.jobs_limit, others.data_limit, others.monitoring_limit) == (1, 2, 3)
