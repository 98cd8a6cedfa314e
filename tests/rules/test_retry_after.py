"""Retry-After, as servers write it (RFC 9110 section 10.2.3)."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.http import MAX_RETRY_AFTER, retry_after


@pytest.mark.covers("R0-63", "U-20")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None), ("", None), (" ", None), ("0", 0), ("1", 1), (" 120 ", 120), ("007", 7),
        ("-1", 0), ("86400", 86_400), ("86401", MAX_RETRY_AFTER), ("1" + "0" * 6000, 86_400),
        ("0" * 6000 + "5", 5), ("1.5", None), ("1e3", None), ("+3", None), ("٣", None),
        ("soon", None), ("1 2", None), ("12, 13", None), ("\x00", None),
        ("Thu, 01 Jan 1970 00:16:40 GMT", 0), ("Thu, 01 Jan 1970 00:20:00 GMT", 200),
        ("Thu, 01 Jan 1970 01:20:00 +0100", 200), ("Thu, 01 Jan 1970 00:20:00 -0000", 200),
        ("Thursday, 01-Jan-70 00:20:00 GMT", 200), ("Thu Jan  1 00:20:00 1970", 200),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400),
        ("Mon, 32 Jan 2026 00:00:00 GMT", None), ("Thu, 01 Jan 99999 00:00:00 GMT", None),
        ("Thu, 01 Jan 1970", None),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str | None, seconds: int | None):
    assert retry_after(value, now=1000) == seconds


@given(st.text() | st.text("0123456789-+ :,GMTJanThu"), st.integers(0, 2**33))
def test_whatever_retry_after_says_it_is_nothing_or_a_bearable_time(value: str, now: int):
    seconds = retry_after(value, now)
    assert seconds is None or 0 <= seconds <= MAX_RETRY_AFTER


@given(st.integers(-(10**6), 10**6))
def test_a_date_is_as_far_away_as_it_is(offset: int):
    now = datetime(2026, 3, 1, tzinfo=UTC)
    value = format_datetime(now + timedelta(seconds=offset), usegmt=True)
    assert retry_after(value, int(now.timestamp())) == min(max(0, offset), MAX_RETRY_AFTER)
