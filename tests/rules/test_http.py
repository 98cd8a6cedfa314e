"""What HTTP's own rules say: classes of status, validators (docs/decisions.md)."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.absence import PASSING, TEMPORARY
from smartcrawl.rules.http import (
    MAX_REDIRECTS,
    MAX_VALIDATOR,
    MOST_REDIRECTS,
    MOST_REFRESH,
    REDIRECTS,
    REFRESHED,
    RedirectLimit,
    etag_in_both_spellings,
    http_conditional_headers,
    http_redirect_limit,
    http_validators_believed,
    http_validators_kept,
    is_304_of_other_date,
    is_304_of_other_version,
    is_coded_etag,
    is_refresh_at_once,
    is_same_by_head,
    iso_last_modified,
    outcome_of_http_status,
    reason_against_http_validators,
)
from smartcrawl.rules.model import Outcome
from tests.http_dates import DATES_OF_MONTHS
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
        assert outcome_of_http_status(status, conditional=conditional) == told(
            status, conditional=conditional
        )


@pytest.mark.covers("R4-37", "M-30")
@pytest.mark.parametrize(
    ("status", "outcome"),
    [(s, Outcome.REDIRECT) for s in (301, 302, 303, 307, 308)]
    + [(406, Outcome.NOT_ACCEPTABLE), (304, Outcome.BAD_HEADER)]
    + [(s, Outcome.CHANGED) for s in (200, 203, 226, 299)]
    + [(s, Outcome.HTTP_ERROR) for s in (202, 204, 205, 206, 207, 208, 298)],
)
def test_statuses_with_a_case_of_their_own(status, outcome):
    assert outcome_of_http_status(status, conditional=False) is outcome


def test_every_outcome_is_told_of_some_answer():
    rows = table("Which answers are which outcome")
    groups = table("Visits without a status of their own")

    assert {outcome for _, outcome in rows + groups} == set(Outcome)
    assert sorted(outcome for answer, outcome in rows if answer.startswith("200")) == [
        Outcome.ALIAS,
        Outcome.CHANGED,
        Outcome.NOT_ACCEPTABLE,
        Outcome.REDIRECT,
        Outcome.SAME,
        Outcome.SOFT_404,
    ]


def test_the_sets_of_statuses_are_the_manuals():
    rows = table("Which answers are which outcome")

    by_status = [(numbers(a), outcome) for a, outcome in rows if not a.startswith("200 ")]
    assert [statuses for statuses, outcome in by_status if outcome == "redirect"] == [REDIRECTS]
    assert [numbers(a) for a, outcome in rows if outcome == "transient"] == [PASSING]
    assert f"at most {MAX_REDIRECTS} times" in section("Which answers are which outcome")
    assert numbers(" ".join(header("Moved pages")[1:])) == REDIRECTS


def test_a_refresh_at_once_is_one_of_at_most_a_second():
    told = section("Which answers are which outcome")

    assert [is_refresh_at_once(seconds) for seconds in (0, 1, 2, 5)] == [True, True, False, False]
    assert f"after at most {MOST_REFRESH} second is judged as a {REFRESHED}" in told
    assert REFRESHED in TEMPORARY


@pytest.mark.covers("R0-38", "RD-04", "RP-05")
@given(st.text(min_size=1), st.text(min_size=1))
def test_validators_are_sent_byte_for_byte(etag, last_modified):
    sent = http_conditional_headers(etag, last_modified, trusted=True)

    assert sent == {"If-None-Match": etag, "If-Modified-Since": last_modified}
    assert http_conditional_headers(etag, last_modified, trusted=False) == {}
    assert http_conditional_headers(None, "", trusted=True) == {}


@pytest.mark.parametrize(
    ("etag", "last_modified", "sent"),
    [
        ('W/"a"', None, {"If-None-Match": 'W/"a"'}),
        (None, "yesterday", {"If-Modified-Since": "yesterday"}),
    ],
)
def test_each_validator_is_sent_without_the_other(etag, last_modified, sent):
    assert http_conditional_headers(etag, last_modified, trusted=True) == sent


NOW = 1_700_000_000
DAY = 86_400


YEAR_2026 = 1_798_761_599  #: its last second, Unix seconds


def date(seconds: int) -> str:
    return formatdate(seconds, usegmt=True)


@pytest.mark.parametrize("ahead", [-DAY, 0, 1, DAY])
def test_a_date_is_kept_as_it_was_received_unless_it_lies_in_the_future(ahead):
    """A clock that is a day off is forgiven."""
    assert http_validators_kept(None, date(NOW + ahead), NOW) == (None, date(NOW + ahead))
    assert http_validators_kept('"a"', date(NOW + DAY + 1 + max(0, ahead)), NOW) == ('"a"', None)


@pytest.mark.covers("R0-30", "M-44")
@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        *DATES_OF_MONTHS,
        ("Thu, 29 Feb 2024 23:59:60 GMT", "2024-02-29T23:59:60Z"),
        ("Sun Nov  6 08:49:37 1994", "1994-11-06T08:49:37Z"),
        ("Sat Nov 16 18:09:07 2024", "2024-11-16T18:09:07Z"),
        *(
            (f"{day}day, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z")
            for day in ("Mon", "Tues", "Wednes", "Thurs", "Fri", "Satur", "Sun")
        ),
        ("Sunday, 06-Nov-26 08:49:37 GMT", "2026-11-06T08:49:37Z"),  # the year of the test
        ("Sunday, 06-Nov-27 08:49:37 GMT", "1927-11-06T08:49:37Z"),
        ("Thu, 30 Feb 2024 12:00:00 GMT", None),
        ("Sun, 00 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 0000 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 24:00:00 GMT", None),
        ("Sun, 06 Nov 1994 08:60:00 GMT", None),
        ("Sun, 06 Nov 1994 08:49:61 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 +0100", None),
        ("Sun, 06 Foo 1994 08:49:37 GMT", None),
        ("Sun, 6 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT ", None),
        ("Sun, \u0660\u0666 Nov 1994 08:49:37 GMT", None),  # Arabic digits
        ("Someday, 06-Nov-94 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:37 GM", None),
        ("Sun, 06 Nov 199408:49:37 GMT", None),
        ("Sun, 06 Nov 1994  GMT", None),
        ("Sunday, 06-Nov-94 08:49:37 GM", None),
        ("Sunday, 06-Nov-9408:49:37 GMT", None),
        ("Sun Nov  608:49:37 1994", None),
        ("Sun Nov  6 08:49:37 ", None),
        ("Sun Foo  6 08:49:37 1994", None),
        ("2026-01-06T10:00:00Z", None),
        ("0", None),
        ("", None),
    ],
)
def test_a_date_is_iso_and_none_where_it_is_no_date_of_http(text, iso):
    assert iso_last_modified(text, YEAR_2026) == iso


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("2026-01-06T10:00:00Z", "2026-01-06T10:00:00Z"),
        ("2026-01-06T10:00:00.123456789Z", "2026-01-06T10:00:00.123456789Z"),
        ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        ("2026-02-30T10:00:00Z", None),
        ("2026-01-06 10:00:00", None),
        ("yesterday", None),
    ],
)
def test_a_date_of_a_file_is_iso_already(text, iso):
    assert iso_last_modified(text, YEAR_2026, of_file=True) == iso


@pytest.mark.parametrize("text", ["yesterday", "", "Thu, 99 Foo 2099", "2099-01-01T00:00:00Z", "0"])
def test_a_date_that_is_none_is_sent_back_as_it_is(text):
    """RD-04: the server knows what it meant."""
    assert http_validators_kept("", text, NOW) == ("", text)


def test_a_date_in_another_zone_and_one_without_are_read():
    assert http_validators_kept(None, "Tue, 14 Nov 2023 22:13:20 -0000", NOW)[1] is not None
    assert http_validators_kept(None, "Fri, 17 Nov 2023 00:13:20 +0100", NOW)[1] is None


def test_a_validator_of_more_than_8_kib_is_not_kept():
    """ATT-39."""
    assert http_validators_kept("a" * 8192, "b" * 8192, NOW) == ("a" * 8192, "b" * 8192)
    assert http_validators_kept("a" * 8193, "b" * 8193, NOW) == (None, None)
    assert MAX_VALIDATOR == 8192


@pytest.mark.parametrize("char", ["\0", "\x08", "\n", "\r", "\x1b", "\x1f", "\x7f"])
def test_a_validator_with_a_control_character_is_not_kept(char):
    assert http_validators_kept(f'"a{char}b"', f"yester{char}day", NOW) == (None, None)
    assert http_validators_kept('"a\tb \x80é"', "yes\tterday", NOW) == (
        '"a\tb \x80é"',
        "yes\tterday",
    )


def test_a_text_of_more_than_a_hundred_characters_is_no_date():
    """ATT-62: what a date is read from is bounded."""
    date = "Sun, 09 Sep 2001 01:46:40 GMT"
    later = "Sun, 09 Sep 2001 01:46:41 GMT"

    assert is_304_of_other_date(date + " " * 71, later)
    assert not is_304_of_other_date(date + " " * 72, later)


@pytest.mark.parametrize(("etag", "version"), [("a" + "-;:+" * 2000, None), ("-" * 8100, None),
                                               ("-" * 8100 + "gzip", "-")])  # fmt: skip
def test_an_etag_of_dashes_alone_is_read_once(etag: str, version: str | None):
    """ATT-62: its suffix is looked for from its end; no expression tries each dash."""
    assert is_304_of_other_version(f'"{etag}"', '"b"')
    assert not is_304_of_other_version(f'"{etag}"', f'"{version or etag}"')


@pytest.mark.parametrize("etag", ["*", " * "])
def test_a_star_names_no_version(etag):
    """RFC 9110, 13.1.2: sent back it would match any."""
    assert http_validators_kept(etag, None, NOW) == (None, None)
    assert http_validators_kept(f'"{etag}"', None, NOW) == (f'"{etag}"', None)
    assert http_validators_kept("**", None, NOW) == ("**", None)


@pytest.mark.covers("RD-04")
@pytest.mark.parametrize(
    ("asked", "answered", "other"),
    [
        ('"a"', '"a"', False),
        ('"a"', '"b"', True),
        ('"a"', 'W/"a"', False),
        ('W/"a"', '"a"', False),
        ('w/"a"', '"a"', False),
        ('W/"a"', 'w/"a"', False),
        ('W/"a"', '"b"', True),
        ('"a"', 'W/"b"', True),
        ('W/"a"', 'W/"b"', True),
        ("a", '"a"', False),
        ("a", "b", True),
        ('"Wa"', '"a"', True),
        ('"a', '"a"', False),
        ('"A"', '"a"', True),
        ('"a?"', '"a"', True),
        (None, '"b"', False),
        ('"a"', None, False),
        ('"a"', "", False),
        ('"a"', '""', False),
        ('""', '"a"', True),
        ('""', '""', False),
        # Content codings
        ('"a-gzip"', '"a"', False),
        ('"a"', '"a-gzip"', False),
        ('"a-gzip"', '"a-br"', False),
        ('"a-gzip"', 'W/"a;br"', False),
        ('"a--gzip"', '"a;gzip"', False),
        ('"a;;;"', '"a;gz"', False),
        ('"a:deflate"', '"a+zstd"', False),
        ('"a-gzip"', '"b-gzip"', True),
        ('"a-1"', '"a-2"', True),
        ('"a-"', '"a"', True),
        ('"a;"', '"a"', True),
        ('"agzip"', '"a"', True),
        ('"a-gzip-b"', '"a"', True),
        ('"-gzip"', '"a"', True),
        ('"ab-gzip"', '"a"', True),
        ('"a" ', '"a"', False),  # stored by a former version
        ('\tW/"a"', '"a"', False),
        ('"a-gzip", "a"', '"a"', False),
        ('W/"a-gzip", W/"a"', '"a-br"', False),
        ('"a-gzip", "a"', '"b"', True),
        ('"a"?', '"a"', True),
        ('"a", x', '"a"', True),
    ],
)
def test_a_304_confirms_the_version_that_was_asked_about(asked, answered, other):
    """RFC 9111, 4.3.4: the opaque part names the version, however weak or coded it is."""
    assert is_304_of_other_version(asked, answered) is other


@pytest.mark.covers("RD-04")
@pytest.mark.parametrize(
    ("asked", "answered", "other"),
    [
        (date(NOW), date(NOW), False),
        (date(NOW), date(NOW - 1), True),
        (date(NOW), date(NOW + 1), True),
        (date(NOW), "Tue, 14 Nov 2023 23:13:20 +0100", False),
        (date(NOW), "Tuesday, 14-Nov-23 22:13:20 GMT", False),
        (date(NOW), None, False),
        (None, date(NOW), False),
        (date(NOW), "yesterday", False),
        ("yesterday", date(NOW), False),
        ("yesterday", "today", False),
        ("yesterday", "yesterday", False),
        (date(NOW), "", False),
    ],
)
def test_a_304_confirms_the_date_that_was_asked_about(asked, answered, other):
    """RFC 9110, 13.1.3: it is the answer for each file that is not younger."""
    assert is_304_of_other_date(asked, answered) is other


NIX = "Thu, 01 Jan 1970 00:00:01 GMT"
NPM = "Sat, 26 Oct 1985 08:15:00 GMT"


@pytest.mark.covers("M-10")
@pytest.mark.parametrize(
    ("last_modified", "believed"),
    [
        (NIX, False),
        (NPM, False),
        ("Sun, 31 Dec 1989 23:59:59 GMT", False),
        ("Mon, 01 Jan 1990 00:00:00 GMT", True),
        ("Tue, 01 Jan 1980 00:00:00 GMT", False),
        ("Mon, 01 Jan 1900 00:00:00 GMT", False),
        ("Sun, 31 Dec 1899 00:00:00 GMT", False),
        ("Mon, 01 Jan 1601 00:00:00 GMT", False),
        ("Mon, 01 Jan 0001 00:00:00 GMT", False),
        ("1970", True),  # sent back as it is, like all that is no date
        (" 197 ", True),
        (" 70 ", True),
        (" 19700 ", True),
        ("Tue, 14 Nov 2023 22:13:20 GMT", True),
        ("Tue, 14 Nov 2023 22:13:20 -0000", True),
        ("yesterday", True),
        ("", True),
    ],
)
def test_a_date_of_before_the_web_is_no_time_of_an_edit(last_modified, believed):
    kept = last_modified if believed else None

    assert http_validators_believed('"a"', last_modified) == ('"a"', kept)
    assert http_validators_kept('"a"', last_modified, NOW) == ('"a"', kept)
    sent = http_conditional_headers(None, last_modified, trusted=True)
    assert sent == ({"If-Modified-Since": kept} if kept else {})


@pytest.mark.covers("M-10")
@pytest.mark.parametrize(
    ("etag", "last_modified", "believed"),
    [
        ('"1-264"', NIX, False),  # nginx
        ('W/"1-264"', NIX, False),  # nginx, compressed
        ('"1-264-gzip"', NIX, False),
        ('W/"264-3e8"', NIX, False),  # Node.js
        ('"264-f4240"', NIX, False),  # Apache
        ('"264-f4240-gzip"', NIX, False),
        ('"2a-264-f4240"', NIX, False),  # Apache, with the number of the file
        (f'"{499_162_500:x}-264"', NPM, False),
        (f'W/"264-{499_162_500_000:x}"', NPM, False),
        ('"0-264"', "Thu, 01 Jan 1970 00:00:00 GMT", False),
        ('"2-264"', NIX, True),  # of another time than the date
        ('"1-264"', NPM, True),
        ('"1264"', NIX, True),
        ('"0-264"', NIX, True),
        ('"v1"', NIX, True),
        (f'"{NOW:x}-264"', date(NOW), True),
        ('"1-264"', None, True),
        ('"1-264"', " 1970 ", True),  # that is no date
        (None, NIX, True),
    ],
)
def test_an_etag_of_a_cleared_time_hides_edits_of_equal_length(etag, last_modified, believed):
    kept = etag if believed else None

    assert http_validators_believed(etag, last_modified)[0] == kept
    assert http_validators_kept(etag, last_modified, NOW)[0] == kept
    sent = http_conditional_headers(etag, last_modified, trusted=True)
    assert sent.get("If-None-Match") == kept


@pytest.mark.covers("M-10")
@pytest.mark.parametrize(
    ("etag", "last_modified", "why"),
    [
        (None, NIX, "its server sent a date before 1990, which hides edits"),
        (
            '"1-264"',
            NIX,
            "its server sent a date before 1990 and an ETag made from it; both hide edits",
        ),
        ('"v7"', NIX, None),
        (None, date(NOW), None),
        ('"1-264"', None, None),
        (None, None, None),
    ],
)
def test_validators_of_a_cleared_time_have_a_reason(etag, last_modified, why):
    assert reason_against_http_validators(etag, last_modified) == why


@pytest.mark.covers("M-10")
def test_a_head_confirms_nothing_by_a_cleared_time():
    lengths = (9, 9)

    assert not is_same_by_head((None, None), (NIX, NIX), lengths)
    assert not is_same_by_head(('"1-9"', '"1-9"'), (NIX, NIX), lengths)
    assert is_same_by_head(('"a"', '"a"'), (NIX, NIX), lengths)


@pytest.mark.covers("M-10", "R0-37")
@pytest.mark.parametrize(
    ("etags", "dates", "lengths", "same"),
    [
        (("a", "a"), ("x", "x"), (9, 9), True),
        (("a", "a"), ("x", "y"), (9, 9), True),  # the date counts only where an ETag is missing
        (("a", "b"), ("x", "x"), (9, 9), False),
        (("a", None), ("x", "x"), (9, 9), True),
        ((None, "a"), ("x", "x"), (9, 9), True),
        ((None, "a"), ("x", "y"), (9, 9), False),
        ((None, None), (None, None), (9, 9), False),
        ((None, None), (None, "x"), (9, 9), False),
        (("a", "a"), ("x", "x"), (9, 8), False),
        (("a", "a"), ("x", "x"), (9, None), False),
        (("a", "a"), ("x", "x"), (None, 9), False),
        (("a", "a"), ("x", "x"), (None, None), False),
        (("a", "a"), ("x", "x"), (0, 0), True),
    ],
)
def test_a_head_says_the_same_by_validator_and_length(etags, dates, lengths, same):
    assert is_same_by_head(etags, dates, lengths) is same


@pytest.mark.covers("R2-21")
def test_a_chosen_limit_is_followed_to_the_letter():
    """The default alone follows more, to find what other addresses of a long chain lead to."""
    limits = range(MOST_REDIRECTS + 1)

    chosen = [http_redirect_limit(most, chosen=True).followed for most in limits]
    others = [http_redirect_limit(most, chosen=False).followed for most in limits]

    assert chosen == [*limits]
    assert others == [0, 1, 2, 3, 4, 2 * MAX_REDIRECTS, *range(6, MOST_REDIRECTS + 1)]
    assert RedirectLimit() == http_redirect_limit(MAX_REDIRECTS, chosen=False)


@pytest.mark.covers("RD-04")
@pytest.mark.parametrize(
    ("etag", "sent"),
    [
        ('"a-gzip"', '"a-gzip", "a"'),
        ('"a-br"', '"a-br", "a"'),
        ('W/"a;gzip"', 'W/"a;gzip", W/"a"'),
        ('"a"', '"a"'),
        ('"a-1"', '"a-1"'),
        ("a-gzip", "a-gzip"),
        ('"a-zstd"', '"a-zstd", "a"'), ('"a-deflate"', '"a-deflate", "a"'),
        ('"a:gz"', '"a:gz", "a"'),
        ('"a+-gzip"', '"a+-gzip", "a"'), ('"a;;;"', '"a;;;", "a"'), ('"a;"', '"a;"'),
        ('"a-gzip-gzip"', '"a-gzip-gzip", "a-gzip"'), ('"--gzip"', '"--gzip", "-"'),
        ('";-gz"', '";-gz", ";"'), ('"-gzip"', '"-gzip"'), ('"gzip"', '"gzip"'), ('""', '""'),
        ('"a_gzip"', '"a_gzip"'), ('"a?-gzip"', '"a?-gzip", "a?"'), ('"-+gzip-"', '"-+gzip-"'),
    ],
)  # fmt: skip
def test_a_coded_etag_is_sent_in_both_spellings_only_where_one_was_ignored(etag: str, sent: str):
    """Apache's mod_deflate does not know its own tag."""
    plain = http_conditional_headers(etag, None, trusted=True)
    both = http_conditional_headers(etag, None, trusted=True, respelled=True)

    assert plain == {"If-None-Match": etag}
    assert both == {"If-None-Match": sent}


def test_a_coded_etag_is_one_that_has_two_spellings():
    assert is_coded_etag('W/"a;br"')
    assert not is_coded_etag('"a-gzip-b"')
    assert not is_coded_etag("a-gzip")
    assert not is_coded_etag(None)


def test_a_tag_without_an_end_has_no_other_spelling():
    assert etag_in_both_spellings('"a-gzip') == '"a-gzip'
    assert etag_in_both_spellings('"a-gzip"') == '"a-gzip", "a"'


def test_a_chain_is_never_longer_than_20_redirects():
    assert MOST_REDIRECTS == 20
