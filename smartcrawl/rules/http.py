"""HTTP's own rules for one request and its answer (RFC 9110, RFC 9111)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final, NamedTuple

from smartcrawl.rules.absence import LIKE_200, PASSING, PERMANENT, TEMPORARY
from smartcrawl.rules.model import Outcome

REDIRECTS = PERMANENT | TEMPORARY
MAX_REDIRECTS = 5  #: hops, unless the operator permits more or fewer (R2-21)
MOST_REDIRECTS = 20  #: the largest limit of an operator
MOST_REFRESH = 1  #: seconds after which a page that leads on still does so at once
REFRESHED = 302  #: status as which a page that leads on at once is recorded
MAX_VALIDATOR = 8 * 1024  #: characters
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_CLOCK = 86_400  #: seconds that a server's clock may be ahead
#: How servers mark the coded form of a version: "v-gzip", "v--gzip", "v;br", and "v;;;" for plain.
_CODINGS = ("gzip", "gz", "br", "deflate", "zstd", ";")
_BEFORE_CODING = "-;:+"
_LONGEST_DATE = 100  #: characters
_TAG = re.compile(r'((?:W/)?)"([^"]*)"')
#: The first of the two spellings that a request may carry.
_FIRST = re.compile(r'((?:W/)?"[^"]*"), (?:W/)?"')
#: The year of an HTTP date before 1990.
_CLEARED = re.compile(r" (?:[01][0-8]\d|19[0-8])\d ")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun",
                  "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")  # fmt: skip
#: The forms of a date (RFC 9110, 5.6.7), all in GMT.
_TIME = r"(?P<time>(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60))"
_DATES: Final = tuple(
    re.compile(form, re.ASCII)
    for form in (
        rf"[A-Z][a-z]{{2}}, (?P<day>\d\d) (?P<month>[A-Z][a-z]{{2}}) (?P<year>\d{{4}}) {_TIME} GMT",
        r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, (?P<day>\d\d)-(?P<month>[A-Z][a-z]{2})"
        rf"-(?P<year>\d\d) {_TIME} GMT",
        rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",
    )
)
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\dT", re.ASCII)
_UNITS = (1, 1000, 1_000_000)  #: of a second, in which servers write times into ETags
MAX_RETRY_AFTER = 86_400  #: seconds; longer waits are cut to this


def http_conditional_headers(
    etag: str | None, last_modified: str | None, *, trusted: bool, respelled: bool = False
) -> Mapping[str, str]:
    """Return the headers that make a request conditional.

    Both validators are sent as they were received, byte for byte (RD-04); the server gives
    If-None-Match precedence. ``trusted`` is false when the request must bring a body in any case:
    in a forced run, for another configuration or another spelling of the address, or where
    nothing is stored. Then no header is returned. Validators of a cleared time are left out.
    ``respelled``: an ETag with the suffix of a coding is sent without it, too.

    >>> dict(http_conditional_headers('W/"a"', None, trusted=True))
    {'If-None-Match': 'W/"a"'}
    >>> dict(http_conditional_headers('W/"a"', None, trusted=False))
    {}

    Source: RFC 9110 sections 13.1.2 and 13.1.3; R0-38; RP-05.
    """
    if not trusted:
        return {}
    etag, last_modified = http_validators_believed(etag, last_modified)
    headers = {}
    if etag:
        headers["If-None-Match"] = etag_in_both_spellings(etag) if respelled else etag
    if last_modified:
        headers["If-Modified-Since"] = last_modified
    return headers


def etag_in_both_spellings(etag: str) -> str:
    """Return an ETag with the suffix of a content coding, and the same one without it.

    Apache's mod_deflate and mod_brotli add the suffix to the answer, and know the tag of a request
    only without it.

    >>> etag_in_both_spellings('W/"a-gzip"'), etag_in_both_spellings('"a"')
    ('W/"a-gzip", W/"a"', '"a"')
    """
    tag = _TAG.fullmatch(etag)
    plain = _without_coding(tag[2]) if tag else None
    return f'{etag}, {tag[1]}"{plain}"' if tag and plain != tag[2] else etag


def is_coded_etag(etag: str | None) -> bool:
    """Whether an ETag has the suffix of a content coding, so that it has two spellings.

    >>> is_coded_etag('"a-gzip"'), is_coded_etag('"a"'), is_coded_etag(None)
    (True, False, False)
    """
    return etag is not None and etag_in_both_spellings(etag) != etag


def http_validators_believed(
    etag: str | None, last_modified: str | None
) -> tuple[str | None, str | None]:
    """Return validators without those of a cleared time, which hide edits.

    Package managers and image builders set the times of all files to one moment: 1970 (Nix), 1980
    (zip archives), 1985 (npm). Some programs send an empty time as year 1 or 1601. The web began in
    1990, so an earlier date is no time of an edit. Web servers make ETags of time and length, in
    hexadecimal: nginx of seconds, Node.js of milliseconds, Apache of microseconds. Those of such a
    time hide edits of equal length.

    >>> http_validators_believed('"1-264"', "Thu, 01 Jan 1970 00:00:01 GMT")
    (None, None)
    >>> http_validators_believed('"v7"', "Thu, 01 Jan 1970 00:00:01 GMT")
    ('"v7"', None)
    """
    if last_modified is None or not _CLEARED.search(last_modified):
        return etag, last_modified
    moment = _moment(last_modified)
    if etag is not None and moment is not None:
        times = {f"{int(moment) * unit:x}" for unit in _UNITS}
        if not times.isdisjoint(_version(etag).split("-")):
            etag = None
    return etag, None


def reason_against_http_validators(etag: str | None, last_modified: str | None) -> str | None:
    """Return why no validator of a server is believed; None if one is, or if there is none.

    >>> reason_against_http_validators('"1-264"', "Thu, 01 Jan 1970 00:00:01 GMT")
    'its server sent a date before 1990 and an ETag made from it; both hide edits'
    >>> reason_against_http_validators(None, "Thu, 01 Jan 1970 00:00:01 GMT")
    'its server sent a date before 1990, which hides edits'
    >>> reason_against_http_validators('"v7"', "Thu, 01 Jan 1970 00:00:01 GMT")
    """
    if last_modified is None or http_validators_believed(etag, last_modified) != (None, None):
        return None
    if etag is None:
        return "its server sent a date before 1990, which hides edits"
    return "its server sent a date before 1990 and an ETag made from it; both hide edits"


def http_validators_kept(
    etag: str | None, last_modified: str | None, now: int
) -> tuple[str | None, str | None]:
    """Return those validators of an answer that are worth sending back.

    A date in the future would keep the page "not modified" after it changed; a clock that is up
    to a day ahead is accepted. No server needs a validator of more than 8 KiB, or
    one with control characters, which other servers refuse.

    >>> http_validators_kept('"a"', "Sun, 09 Sep 2001 01:46:40 GMT", now=1_000_000_000)
    ('"a"', 'Sun, 09 Sep 2001 01:46:40 GMT')
    >>> http_validators_kept("a" * 9000, "Tue, 11 Sep 2001 01:46:40 GMT", now=1_000_000_000)
    (None, None)

    Source: RFC 9110 section 8.8.2.1; ATT-39.
    """
    if etag is not None and (_is_unfit(etag) or etag.strip() == "*"):
        etag = None  # "*" is no name of a version: it would match every one
    if last_modified is not None:
        moment = _moment(last_modified)
        if _is_unfit(last_modified) or (moment is not None and moment > now + _CLOCK):
            last_modified = None
    return http_validators_believed(etag, last_modified)


def is_304_of_other_version(asked: str | None, answered: str | None) -> bool:
    """Whether the ETag of a 304 names another version than the ETag that was asked about.

    Only the opaque parts count, without the suffix of a content coding: a weak tag and a strong
    one with the same opaque part name the same version. A missing or empty tag names none.

    >>> is_304_of_other_version('"a"', '"b"'), is_304_of_other_version('"a"', 'W/"a-gzip"')
    (True, False)
    >>> is_304_of_other_version(None, '"b"'), is_304_of_other_version('"a"', None)
    (False, False)

    Source: RFC 9111 section 4.3.4; RFC 9110 section 8.8.3.
    """
    if asked is None or answered is None:
        return False
    named = _version(answered)
    return named != "" and named != _version(asked)


def is_304_of_other_date(asked: str | None, answered: str | None) -> bool:
    """Whether the Last-Modified of a 304 names another version than the date that was asked about.

    It counts for requests without If-None-Match. A server answers 304, too, if a file became older,
    for example because an earlier version was restored. A text that is no date names no version.

    >>> date, earlier = "Tue, 06 Jan 2026 10:00:00 GMT", "Mon, 05 Jan 2026 10:00:00 GMT"
    >>> is_304_of_other_date(date, earlier), is_304_of_other_date(date, date)
    (True, False)

    Source: RFC 9111 section 4.3.4; RFC 9110 section 13.1.3.
    """
    moments = {_moment(date) for date in (asked, answered) if date is not None}
    return len(moments) > 1 and None not in moments


def _version(etag: str) -> str:
    """Return the opaque part of an ETag, or of the first of two spellings.

    It may have been stored with blanks around it.
    """
    two = _FIRST.match(etag)
    opaque = (two[1] if two else etag).strip(" \t").removeprefix("W/").removeprefix("w/").strip('"')
    return _without_coding(opaque)


def _without_coding(opaque: str) -> str:
    """Return the opaque part of an ETag without the suffix of a content coding.

    It is looked for from the end, so that a tag of dashes alone is read once.
    """
    for coding in _CODINGS:
        if opaque.endswith(coding):
            marked = opaque.removesuffix(coding)
            plain = marked.rstrip(_BEFORE_CODING) or marked[:1]
            return plain if plain != marked else opaque
    return opaque


def _is_unfit(validator: str) -> bool:
    return len(validator) > MAX_VALIDATOR or _CONTROL.search(validator) is not None


def _moment(text: str) -> float | None:
    """Return an HTTP date as Unix seconds; None when it is none."""
    if len(text) > _LONGEST_DATE:
        return None
    from email.utils import parsedate_to_datetime  # noqa: PLC0415  # most commands read no date

    try:
        moment = parsedate_to_datetime(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def iso_last_modified(text: str, now: int, *, of_file: bool = False) -> str | None:
    """Return a Last-Modified as ISO 8601 in UTC; None when it is no date of HTTP.

    A year of two digits is the latest that has begun. ``of_file``: listings of files have their
    dates in ISO 8601 already.

    >>> iso_last_modified("Sun Nov  6 08:49:37 1994", 0)
    '1994-11-06T08:49:37Z'
    >>> iso_last_modified("Sunday, 06-Nov-94 08:49:37 GMT", 0)
    '1894-11-06T08:49:37Z'
    >>> iso_last_modified("Tue, 31 Feb 2025 12:00:00 GMT", 0)

    Source: RFC 9110 section 5.6.7; R0-30.
    """
    if of_file and _ISO.match(text):
        return text if _is_iso(text) else None
    found = next((found for form in _DATES if (found := form.fullmatch(text))), None)
    if found is None:
        return None
    year, this = int(found["year"]), datetime.fromtimestamp(now, UTC).year
    if len(found["year"]) == 2:
        year = this - (this - year) % 100
    try:
        day = date(year, _MONTHS.index(found["month"]) + 1, int(found["day"]))
    except ValueError:
        return None
    return f"{day.isoformat()}T{found['time']}Z"


def _is_iso(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def retry_after(value: str | None, now: int) -> int | None:
    """Return the seconds that a Retry-After asks to wait; None when it has no valid value.

    ``value`` is a number of seconds or an HTTP date, ``now`` is Unix seconds. A time in the
    past is 0, and no wait is longer than MAX_RETRY_AFTER.

    >>> retry_after("120", 0), retry_after("-3", 0), retry_after("9" * 50, 0)
    (120, 0, 86400)
    >>> retry_after("Fri, 31 Dec 1999 23:59:59 GMT", 946_684_799 - 90)
    90
    >>> retry_after("soon", 0), retry_after("1.5", 0), retry_after(None, 0)
    (None, None, None)

    Source: RFC 9110 section 10.2.3; R0-63.
    """
    text = (value or "").strip()
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdecimal():
        seconds = int(digits.lstrip("0")[:9] or 0)  # more digits are more than the most anyway
        return min(seconds, MAX_RETRY_AFTER) if digits == text else 0
    at = _moment(text)
    return None if at is None else min(max(0, int(at) - now), MAX_RETRY_AFTER)


def is_same_by_head(
    etags: tuple[str | None, str | None],
    dates: tuple[str | None, str | None],
    lengths: tuple[int | None, int | None],
) -> bool:
    """Whether a HEAD response confirms that the stored copy is current.

    Each pair is (stored, answered). The ETag or, where it is missing, the date must be equal, and
    so must the length in bytes. Validators of a cleared time confirm nothing.

    >>> is_same_by_head(('"a"', '"a"'), (None, None), (9, 9))
    True
    >>> is_same_by_head(('"a"', '"a"'), (None, None), (9, None))
    False

    Source: M-10, R0-37.
    """
    length, answered_length = lengths
    if length is None or length != answered_length:
        return False
    etag, date = http_validators_believed(etags[0], dates[0])
    stored, answered = (etag, etags[1]) if None not in (etag, etags[1]) else (date, dates[1])
    return stored is not None and stored == answered


class RedirectLimit(NamedTuple):
    """The limit of redirects in a row, and whether it was chosen or is the default.

    From MAX_REDIRECTS on, a longer chain is an error of the server.
    """

    most: int = MAX_REDIRECTS
    is_exact: bool = False  #: chosen by a job or the operator, and followed to the letter

    @property
    def followed(self) -> int:
        """Return how many redirects in a row are followed, within visits and from page to page.

        By default, twice as many are followed as a chain may have, because other pages may link
        directly to the later addresses of a chain.

        >>> RedirectLimit().followed, RedirectLimit(5, is_exact=True).followed
        (10, 5)

        Source: R2-21; ADR 50.
        """
        return self.most if self.is_exact else 2 * self.most


def http_redirect_limit(most: int, *, chosen: bool) -> RedirectLimit:
    """Return the limit of a run; ``chosen``: whether a job or the command line sets it.

    Any other number than MAX_REDIRECTS was chosen, too.

    >>> [http_redirect_limit(most, chosen=False).followed for most in (0, 4, 5, 6)]
    [0, 4, 10, 6]
    """
    return RedirectLimit(most, chosen or most != MAX_REDIRECTS)


def http_status_read(status: int) -> int:
    """Return the status as which an answer is read and recorded: 203, 226 and 299 are 200.

    >>> [http_status_read(status) for status in (200, 203, 206, 299)]
    [200, 200, 206, 200]

    Source: RFC 9110 sections 15 and 15.3.4; RFC 3229.
    """
    return 200 if status in LIKE_200 else status


def is_refresh_at_once(seconds: int) -> bool:
    """Whether a refresh with this delay leads on before anybody could read the page.

    >>> is_refresh_at_once(0), is_refresh_at_once(5)
    (True, False)

    Source: HTML Standard, section 4.2.5.3.
    """
    return seconds <= MOST_REFRESH


def outcome_of_http_status(status: int, *, conditional: bool) -> Outcome:
    """Classify a complete HTTP response, before its body is looked at.

    A 200 is CHANGED here; whether it is SAME or NOT_ACCEPTABLE is known only after its
    extraction. A 304 to an unconditional request is an error of the peer, never "unchanged".

    >>> (
    ...     outcome_of_http_status(304, conditional=True).name,
    ...     outcome_of_http_status(304, conditional=False).name,
    ... )
    ('NOT_MODIFIED', 'BAD_HEADER')

    Source: R4-35 to R4-39 (cases 2 to 6); ADR 135.
    """
    match http_status_read(status):
        case 304:
            return Outcome.NOT_MODIFIED if conditional else Outcome.BAD_HEADER
        case 200:
            return Outcome.CHANGED
        case 406:
            return Outcome.NOT_ACCEPTABLE
        case _ if status in REDIRECTS:
            return Outcome.REDIRECT
        case 404 | 410:
            return Outcome.NOT_FOUND
        case _ if status in PASSING:
            return Outcome.TRANSIENT
        case _:
            return Outcome.HTTP_ERROR
