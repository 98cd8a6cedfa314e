"""What HTTP's own rules say: classes of status, validators, whole bodies (docs/decisions.md)."""

import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.absence import PASSING
from smartcrawl.rules.http import (
    MAX_REDIRECTS,
    REDIRECTS,
    conditional_headers,
    outcome_of,
    whole_gzip,
)
from smartcrawl.rules.model import Outcome
from tests.rules.manual import header, numbers, section, table


def told(status, *, conditional):
    """Return the outcome that the manual gives to a status before the body is looked at."""
    rows = dict(table("Which answers are which outcome"))
    if status == 304:
        kind = "a conditional" if conditional else "any other"
        return rows[f"304 to {kind} request"]
    for answer, outcome in rows.items():
        if not answer.startswith(("200 ", "304 ")) and status in numbers(answer):
            return outcome
    return rows["every other status"]


@pytest.mark.covers("R4-37", "R4-38", "M-30")
@pytest.mark.parametrize("conditional", [True, False])
def test_every_status_has_the_outcome_of_the_manual(conditional):
    for status in range(100, 1000):
        assert outcome_of(status, conditional=conditional) == told(status, conditional=conditional)


@pytest.mark.covers("R4-37", "M-30")
@pytest.mark.parametrize(
    ("status", "outcome"),
    [(s, Outcome.REDIRECT) for s in (301, 302, 303, 307, 308)]
    + [(406, Outcome.NOT_ACCEPTABLE), (200, Outcome.CHANGED), (304, Outcome.BAD_HEADER)],
)
def test_statuses_with_a_case_of_their_own(status, outcome):
    assert outcome_of(status, conditional=False) is outcome


def test_every_outcome_is_told_of_some_answer():
    rows = table("Which answers are which outcome")
    groups = table("Visits without a status of their own")

    assert {outcome for _, outcome in rows + groups} == set(Outcome)
    assert sorted(outcome for answer, outcome in rows if answer.startswith("200")) == [
        Outcome.ALIAS,
        Outcome.CHANGED,
        Outcome.NOT_ACCEPTABLE,
        Outcome.SAME,
        Outcome.SOFT_404,
    ]


def test_the_sets_of_statuses_are_the_manuals():
    rows = table("Which answers are which outcome")

    assert [numbers(a) for a, outcome in rows if outcome == "redirect"] == [REDIRECTS]
    assert [numbers(a) for a, outcome in rows if outcome == "transient"] == [PASSING]
    assert f"at most {MAX_REDIRECTS} times" in section("Which answers are which outcome")
    assert numbers(" ".join(header("Moved pages")[1:])) == REDIRECTS


@pytest.mark.covers("R0-38", "RD-04", "RP-05")
@given(st.text(min_size=1), st.text(min_size=1))
def test_validators_are_sent_byte_for_byte(etag, last_modified):
    sent = conditional_headers(etag, last_modified, trusted=True)

    assert sent == {"If-None-Match": etag, "If-Modified-Since": last_modified}
    assert conditional_headers(etag, last_modified, trusted=False) == {}
    assert conditional_headers(None, "", trusted=True) == {}


@pytest.mark.parametrize(
    ("etag", "last_modified", "sent"),
    [
        ('W/"a"', None, {"If-None-Match": 'W/"a"'}),
        (None, "yesterday", {"If-Modified-Since": "yesterday"}),
    ],
)
def test_each_validator_is_sent_without_the_other(etag, last_modified, sent):
    assert conditional_headers(etag, last_modified, trusted=True) == sent


def test_a_gzip_body_is_whole_when_its_end_tells_its_size():
    """Its last four bytes are looked at first, so that a whole body costs nothing."""
    packed = b"not read" + (258).to_bytes(4, "little")

    assert whole_gzip(packed, 258)
    assert whole_gzip(packed, 258 + 2**32)
    assert not whole_gzip(packed, 259)
    assert not whole_gzip(packed, 257)
    assert not whole_gzip(packed, 2 + (1 << 16))
    assert whole_gzip(b"not read" + (0x80000000).to_bytes(4, "little"), 0x80000000)
    assert whole_gzip(b"not read" + (1).to_bytes(4, "little"), 1)


def test_a_gzip_body_of_several_members_is_whole():
    noise = random.Random(1).randbytes(30_000)  # windows of less than 32 KiB do not reach back
    one, two = gzip.compress(noise + noise), gzip.compress(b"a page")

    assert whole_gzip(one + two, 60_006)
    assert whole_gzip(two + one, 60_006)
    assert not whole_gzip(one + two[:-9], 60_005)
    assert not whole_gzip(one[:-9], 60_000 - 5)


def test_what_is_no_gzip_is_never_whole():
    assert not whole_gzip(zlib.compress(b"a page"), 6)
    assert not whole_gzip(b"a page", 6)
