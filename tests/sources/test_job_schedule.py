"""When a recurring job is due."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.sources.jobs import CronSchedule


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


NOW = at("2024-01-20T10:00:00")


def parsed(text: str) -> CronSchedule:
    return CronSchedule.parsed(text, NOW)


@pytest.mark.covers("R2-23", "R2-24", "G-13")
@pytest.mark.parametrize(
    ("cron", "then"),
    [
        ("0 0 * * *", "2024-01-21T00:00:00"),
        ("*/5 * * * *", "2024-01-20T10:05:00"),
        ("0 10 * * *", "2024-01-21T10:00:00"),  # not the present moment once more
        ("30 3 * * 1", "2024-01-22T03:30:00"),  # 1 is Monday, 0 and 7 are Sunday
        ("30 3 * * 0", "2024-01-21T03:30:00"),
        ("30 3 * * 7", "2024-01-21T03:30:00"),
        ("0 0 29 2 *", "2024-02-29T00:00:00"),
        ("0 0 13 * FRI", "2024-01-26T00:00:00"),  # one of the two days is enough
        ("  0\t0  *  *  * ", "2024-01-21T00:00:00"),
        ("0 2 31 3 *", "2024-03-31T02:00:00"),  # an hour that many clocks leave out
    ],
)
def test_the_next_time_is_that_of_cron_in_utc(cron, then, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    assert parsed(cron).next_fire(NOW) == at(then)


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize(
    ("cron", "reason"),
    [
        ("", "it has 0 fields"),
        ("0 0 * *", "it has 4 fields"),
        ("0 0 0 * * *", "it has 6 fields"),  # cronsim alone takes it, with seconds
        ("@daily", "must consist of five fields"),
        ("61 0 * * *", "Bad minute"),
        ("0 0 * * MON-", "Bad day-of-week"),
        ("٣ 0 * * *", "must consist of five fields"),
        ("0 0 *\n* *", "must consist of five fields"),
        ("0 0 * * *\x00", "must consist of five fields"),
        ("0 0 30 2 *", "Bad day-of-month"),
        ("0 0 31 2,4,6,9,11 *", "Bad day-of-month"),
        ("* * * * *", "at least 5 minutes"),
        ("*/4 * * * *", "at least 5 minutes"),
        ("*/7 * * * *", "at least 5 minutes"),  # 56, then 00
        ("0,4 3 * * *", "at least 5 minutes"),
        ("1,58 0,23 * * *", "at least 5 minutes"),
        ("1,58 0,23 28,1 2,3 *", "at least 5 minutes"),  # 28 February and 1 March
        ("0 0 * * " + ",".join(["1"] * 47), "at most 100 characters, not 101"),
        ("0" * 1_000_000, "at most 100 characters, not 1,000,000"),
    ],
)
def test_other_expressions_are_refused_with_the_reason(cron, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        parsed(cron)

    assert str(caught.value).startswith("cron ")


@pytest.mark.covers("R2-25")
def test_an_expression_that_never_fires_is_refused():
    with pytest.raises(ValueError, match="cron never fires"):
        parsed("0 0 */30 2 1L")  # the last Monday of February is never the first day


@pytest.mark.parametrize("cron", ["0 0 * * " + ",".join(["1"] * 46), "1,58 0,23 1 * *"])
def test_the_limits_are_within(cron):
    assert parsed(cron).next_fire(NOW) > NOW


@given(
    minutes=st.sampled_from(["0", "*/5", "7,52", "*/20", "59"]),
    hours=st.sampled_from(["*", "0", "23", "*/6"]),
    days=st.sampled_from(["* * *", "1 * *", "* * 1-5", "L 2 *", "31 12 *"]),
    after=st.integers(0, 4_000_000_000),
)
def test_the_next_fire_is_later_and_five_minutes_apart(minutes, hours, days, after):
    cron = CronSchedule.parsed(f"{minutes} {hours} {days}", after)
    first = cron.next_fire(after)

    assert first > after
    assert cron.next_fire(first - 1) == first
    assert cron.next_fire(first) - first >= 300


def test_fires_that_were_missed_are_one():
    hourly = parsed("0 * * * *")
    due = at("2024-01-20T11:00:00")

    assert hourly.fire_after(due, due + 60) == at("2024-01-20T12:00:00")
    assert hourly.fire_after(due, at("2024-01-23T08:30:00")) == at("2024-01-23T09:00:00")
    put_back = at("2024-01-20T03:00:00")
    assert hourly.fire_after(due, put_back) == at("2024-01-20T12:00:00")
