"""ETags, dates and 304s that are not what they seem."""

from functools import partial

from tests.hostile.kinds import (
    EMPTIED,
    KEEP,
    MODIFIED,
    NEW,
    NOT_MODIFIED,
    UNCHANGED,
    Answer,
    Ask,
    Kind,
    Script,
    Told,
    good,
    head,
    in_turn,
    page,
    refuses,
    trap,
    whole,
)

kind = partial(Kind, "validator")

_DAY = "Fri, 02 Jan 2026 03:04:05 GMT"
_304 = "HTTP/1.1 304 Not Modified"


def _now(ask: Ask) -> bytes:
    return page(ask, text=f"{ask.name} in round {ask.round}")


def _rotating(changing: bool) -> Answer:
    """Another ETag with each answer."""

    def answer(ask: Ask) -> Script:
        body = _now(ask) if changing else page(ask)
        return whole(body, f'ETag: "round-{ask.round}"'), KEEP

    return answer


def _same_etag(ask: Ask) -> Script:
    """The body changes under the same ETag, and If-None-Match is not looked at."""
    return whole(_now(ask), 'ETag: "same"'), KEEP


def _honours(etag: str | bytes, *lines: str, body=page) -> Answer:
    """A page that is not sent again to whoever returns its ETag byte for byte."""
    sent = etag if isinstance(etag, str) else etag.decode("latin-1")

    def answer(ask: Ask) -> Script:
        if ask.matches(sent):
            return head(f"ETag: {sent}", *lines, status=_304), KEEP
        return whole(body(ask), f"ETag: {sent}", *lines), KEEP

    return answer


def _dated(date: str | bytes) -> Answer:
    """A page that is not sent again to whoever returns its Last-Modified byte for byte."""
    sent = date if isinstance(date, str) else date.decode("latin-1")

    def answer(ask: Ask) -> Script:
        if ask.headers.get("if-modified-since") == sent:
            return head(f"Last-Modified: {sent}", status=_304), KEEP
        return whole(page(ask), f"Last-Modified: {sent}"), KEEP

    return answer


def _then(*lines: str, body: bytes = b"", asked: str = '"v1"') -> Answer:
    """A page with an ETag; to whoever returns it, a 304 with these lines and bytes."""

    def answer(ask: Ask) -> Script:
        if ask.matches(asked):
            return head(*lines, status=_304) + body, KEEP
        return whole(page(ask), f"ETag: {asked}"), KEEP

    return answer


def _second(answer: Answer) -> Answer:
    """A page with an ETag in the first round, and this in the second."""
    return in_turn(good('ETag: "v1"'), answer)


KINDS = (
    kind("rotating", "another strong ETag each time, equal body", _rotating(False), NEW),
    kind("rotating_changed", "another strong ETag each time, another body",
         _rotating(True), NEW, MODIFIED),
    kind("same_changed", "the same ETag over another body", _same_etag, NEW, MODIFIED),
    kind("lying_304", "a 304 though the body has changed",
         _honours('"lie"', body=_now), NEW, NOT_MODIFIED),
    kind("weak", "a weak ETag", _honours('W/"v1"'), NEW, NOT_MODIFIED),
    kind("weak_lower", "a weak ETag in lower case", _honours('w/"v1"'), NEW, NOT_MODIFIED),
    kind("strong_to_weak", "a strong ETag is confirmed as a weak one",
         _then('ETag: W/"v1"'), NEW, NOT_MODIFIED),
    kind("unquoted", "an ETag without quotes", _honours("v1"), NEW, NOT_MODIFIED),
    kind("half_quoted", "an ETag with one quote", _honours('"v1'), NEW, NOT_MODIFIED),
    kind("with_quote", "an ETag with a quote within", _honours('"v"1"'), NEW, NOT_MODIFIED),
    kind("empty_quoted", 'an ETag of ""', _honours('""'), NEW, NOT_MODIFIED),
    kind("empty", "an ETag without a value", _honours(""), NEW, UNCHANGED),
    kind("spaces", "an ETag of white space", good("ETag:    \t "), NEW, UNCHANGED),
    kind("comma", "an ETag that looks like two", _honours('"a, b"'), NEW, NOT_MODIFIED),
    kind("list", "an ETag that is two", _honours('"a", "b"'), NEW, NOT_MODIFIED),
    kind("non_ascii", "an ETag in UTF-8", _honours('"é"'.encode()), NEW, NOT_MODIFIED),
    kind("star", "an ETag of *, which would match anything", _honours("*"), NEW, UNCHANGED),
    kind("k9", "an ETag of 9 KB", _honours('"' + "e" * 9_000 + '"'), NEW, UNCHANGED),
    kind("k7", "an ETag of 7 KB", _honours('"' + "e" * 7_000 + '"'), NEW, NOT_MODIFIED),
    kind("markup", "an ETag with markup and a formula",
         _honours('"=cmd|<script>"'), NEW, NOT_MODIFIED),
    kind("formula", "an ETag that a spreadsheet would run",
         _honours("=cmd|' /C calc'!A0"), NEW, NOT_MODIFIED),
    # Dates
    kind("date", "a Last-Modified as it should be", _dated(_DAY), NEW, NOT_MODIFIED),
    kind("date_future", "a Last-Modified in 2099",
         _dated("Fri, 02 Jan 2099 03:04:05 GMT"), NEW, UNCHANGED),
    kind("date_1970", "a Last-Modified of 1970, which would hide edits",
         _dated("Thu, 01 Jan 1970 00:00:00 GMT"), NEW, UNCHANGED),
    kind("date_garbage", "a Last-Modified of yesterday", _dated("yesterday"), NEW, NOT_MODIFIED),
    kind("date_iso", "a Last-Modified in ISO 8601", _dated("2026-01-02T03:04:05Z"), NEW,
         NOT_MODIFIED),
    kind("date_rfc850", "a Last-Modified of 1987's form",
         _dated("Friday, 02-Jan-26 03:04:05 GMT"), NEW, NOT_MODIFIED),
    kind("date_asctime", "a Last-Modified of C's form",
         _dated("Fri Jan  2 03:04:05 2026"), NEW, NOT_MODIFIED),
    kind("date_zone", "a Last-Modified in another zone",
         _dated("Fri, 02 Jan 2026 03:04:05 +0200"), NEW, NOT_MODIFIED),
    kind("date_impossible", "the 31st of February",
         _dated("Tue, 31 Feb 2026 25:61:61 GMT"), NEW, NOT_MODIFIED),
    kind("date_year_digits", "a year of 400 digits",
         _dated(f"Fri, 02 Jan {'9' * 400} 03:04:05 GMT"), NEW, NOT_MODIFIED),
    kind("date_non_ascii", "a Last-Modified in Latin-1",
         _dated("Fr, 02 M\xe4r 2026 03:04:05 GMT"), NEW, NOT_MODIFIED),
    kind("clock_1970", "a server whose clock stands in 1970",
         good("Date: Thu, 01 Jan 1970 00:00:00 GMT"), NEW),
    kind("clock_2099", "a server whose clock stands in 2099",
         good("Date: Fri, 02 Jan 2099 03:04:05 GMT"), NEW),
    kind("clock_garbage", "a server whose clock is broken", good("Date: noon"), NEW),
    # 304 and its like in the second run
    kind("other_304", "a 304 with the ETag of another version",
         _then('ETag: "other"'), NEW, Told("failed", 1216, 'a 304 response with the ETag "other"')),
    kind("coded_304", "a 304 with the ETag of the compressed form",
         _then('ETag: "v1-gzip"'), NEW, NOT_MODIFIED),
    kind("nameless_304", 'a 304 with an ETag of ""', _then('ETag: ""'), NEW, NOT_MODIFIED),
    kind("bare_304", "a 304 without any header", _then(), NEW, NOT_MODIFIED),
    kind("cut_304", "a 304 that announces a body which does not come",
         _then("Content-Length: 5000"), NEW, NOT_MODIFIED),
    kind("body_304", "a 304 with a body",
         _then("Content-Length: 5", body=b"hello"), NEW, NOT_MODIFIED),
    kind("chunked_304", "a 304 in chunks",
         _then("Transfer-Encoding: chunked", body=b"5\r\nhello\r\n0\r\n\r\n"), NEW, NOT_MODIFIED),
    kind("gzip_304", "a 304 in gzip", _then("Content-Encoding: gzip"), NEW, NOT_MODIFIED),
    kind("pdf_304", "a 304 that calls the page a PDF",
         _then("Content-Type: application/pdf"), NEW, NOT_MODIFIED),
    kind("noindex_304", "a 304 that says noindex",
         _then("X-Robots-Tag: noindex"), NEW, Told("excluded", 304, "noindex")),
    kind("moved_304", "a 304 with a Location",
         _then("Location: /never/moved_304"), NEW, NOT_MODIFIED),
    kind("s412", "412 to a conditional request",
         _second(refuses("412 Precondition Failed")), NEW, Told("lost", 412, "HTTP status 412")),
    kind("s206_then", "206 in the second run",
         _second(refuses("206 Partial Content", "Content-Range: bytes 0-9/40")), NEW,
         Told("lost", 206, "HTTP status 206")),
    kind("emptied", "no body any more", _second(lambda ask: (whole(b""), KEEP)), NEW, EMPTIED),
    kind("blanked", "white space in place of the page",
         _second(lambda ask: (whole(b" \n\t \r\n" * 99), KEEP)), NEW, EMPTIED),
    kind("nuls_then", "NUL bytes in place of the page, as of a disk that failed",
         _second(lambda ask: (whole(bytes(5000)), KEEP)), NEW, EMPTIED),
    kind("cut_then", "half of the body in the second run",
         _second(lambda ask: (whole(trap(ask))[:-50],)), NEW, Told("failed", 1106, "ended before")),
    kind("noindex_then", "noindex in the second run",
         _second(good("X-Robots-Tag: noindex")), NEW, Told("excluded", 200, "noindex")),
    kind("gone_and_back", "410 with a body that says nothing happened",
         _second(refuses("410 Gone", 'ETag: "v1"')), NEW, Told("lost", 410, "HTTP status 410")),
)  # fmt: skip
