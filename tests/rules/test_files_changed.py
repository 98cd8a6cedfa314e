"""Whether a file changed, by its properties."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.files import FAULTS_OF_BYTES, LARGE, Check, Properties, decide_change_check
from smartcrawl.rules.model import Outcome

MON, TUE = "2026-01-05T10:00:00Z", "2026-01-06T10:00:00Z"
WORDS = st.none() | st.sampled_from([MON, TUE])
FILES = st.builds(Properties, WORDS, WORDS, st.none() | st.sampled_from([0, 9, LARGE, LARGE + 1]))


@pytest.mark.covers("R0-43", "R0-44")
@pytest.mark.parametrize(
    ("held", "found", "same"),
    [
        (Properties('"a"', MON, 9), Properties('"a"', TUE, 8), True),
        (Properties('"a"', MON, 9), Properties('"b"', MON, 9), False),
        (Properties(None, MON, 9), Properties(None, MON, 9), True),
        (Properties('"a"', MON, 9), Properties(None, MON, 9), True),
        (Properties(None, MON, 9), Properties('"a"', MON, 9), True),
        (Properties(None, MON, 9), Properties(None, TUE, 9), False),
        (Properties(None, MON, 9), Properties(None, MON, 8), False),
        (Properties(None, None, 9), Properties(None, None, 9), False),
        (Properties(None, MON, 9), Properties(None, None, 9), False),
        (Properties(None, MON, 9), Properties(None, MON, None), False),
        (Properties(None, MON, None), Properties(None, MON, None), False),
        (Properties(), Properties(), False),
    ],
)
def test_a_file_is_skipped_when_its_store_says_that_it_did_not_change(held, found, same):
    assert decide_change_check(held, found) is (Check.SKIP if same else Check.READ)


@pytest.mark.covers("R0-45")
def test_only_large_files_that_may_have_changed_are_hashed_first():
    small, large = Properties(None, MON, LARGE), Properties(None, MON, LARGE + 1)

    assert decide_change_check(Properties(None, TUE, 9), small) is Check.READ
    assert decide_change_check(Properties(None, TUE, 9), large) is Check.HASH
    assert decide_change_check(Properties(), large) is Check.HASH
    assert decide_change_check(large, large) is Check.SKIP
    assert decide_change_check(None, large) is Check.READ
    assert decide_change_check(Properties('"a"'), Properties('"b"')) is Check.READ
    assert LARGE == 8_388_608


@pytest.mark.covers("R0-43", "R0-45")
@given(FILES, FILES)
def test_nothing_is_skipped_without_evidence(held, found):
    if decide_change_check(held, found) is Check.SKIP:
        assert held.etag == found.etag is not None or held[1:] == found[1:]


def test_only_faults_of_the_bytes_themselves_last():
    """Another limit, another process or another answer may end in another way."""
    assert {fault.name for fault in FAULTS_OF_BYTES} == {"CORRUPT", "ENCRYPTED", "BOMB"}
    assert {fault.outcome for fault in FAULTS_OF_BYTES} == {Outcome.UNPROCESSABLE}
