"""Content-Type and charset that are missing, wrong or a lie; bodies that are no page."""

import io
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from itertools import chain

from tests.hostile.kinds import (
    HTML,
    KEEP,
    NEW,
    TIME_OUT,
    TOO_SLOW,
    Answer,
    Ask,
    Kind,
    Script,
    Told,
    built,
    endless,
    head,
    page,
    trap,
    whole,
)

kind = partial(Kind, "type")

_WORDS = "Grüße aus Łódź"
_LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
_BILLION = f'<!DOCTYPE lolz [<!ENTITY l0 "lol">{_LAUGHS}]>'
_QUADRATIC = f'<!DOCTYPE q [<!ENTITY a "{"a" * 50_000}">]>'
_OUTSIDE = '<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd"><!ENTITY v SYSTEM "{}/dtd">]>'


_BROKEN = Told("failed", 1205, "cannot be read: the PDF cannot be opened")


def _unread(media: str) -> Told:
    return Told("excluded", 200, f"does not read {media}")


def _typed(content_type: str | bytes, body: Callable[[Ask], bytes] = page) -> Answer:
    line = b"Content-Type: " + (
        content_type if isinstance(content_type, bytes) else content_type.encode("latin-1")
    )
    return built(body, line)


def _coded(charset: str, content_type: str, *, mark: bytes = b"") -> Answer:
    """A page in one charset under the name of another; it has no meta charset."""

    def body(ask: Ask) -> bytes:
        text = page(ask, text=f"{_WORDS} {ask.name}").decode().replace('<meta charset="utf-8">', "")
        return mark + text.encode(charset, "xmlcharrefreplace")

    return _typed(content_type, body)


def _no_type(ask: Ask) -> Script:
    body = page(ask)
    return head(f"Content-Length: {len(body)}") + body, KEEP


def pdf(ask: Ask) -> bytes:
    return (
        b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n"
        b"%" + ask.here.encode() + b"\n" + bytes(range(256)) * 8 + b"\n%%EOF\n"
    )


def png(ask: Ask) -> bytes:
    data = zlib.compress(ask.here.encode() * 50)
    return (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde"
        + len(data).to_bytes(4, "big") + b"IDAT" + data + bytes(4) + b"\0\0\0\0IEND\xaeB`\x82"
    )  # fmt: skip


def archive(ask: Ask) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr(zipfile.ZipInfo("../../etc/passwd"), trap(ask))
    return file.getvalue()


def _jpeg(ask: Ask) -> bytes:
    return b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0" + trap(ask) + bytes(range(256))


def _xhtml(doctype: str, text: str) -> Callable[[Ask], bytes]:
    def body(ask: Ask) -> bytes:
        return (
            f'<?xml version="1.0"?>{doctype.replace("{}", ask.victim)}'
            f'<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{ask.name}</title></head>'
            f"<body><p>What {ask.name} says at {ask.here}: {text}</p></body></html>"
        ).encode()

    return body


def _feed(ask: Ask) -> bytes:
    return (
        f'<?xml version="1.0"?>{_BILLION}<rss version="2.0"><channel><title>{ask.name} &l9;'
        f"</title><item><link>{ask.origin}{ask.never}</link></item></channel></rss>"
    ).encode()


def _json(ask: Ask) -> bytes:
    return f'{{"name": "{ask.name}", "at": "{ask.here}", "link": "{ask.never}"}}'.encode()


def _said(title: str, text: str) -> Callable[[Ask], bytes]:
    return lambda ask: (
        f"<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}</p>"
        f"<!-- {ask.here} --></body></html>"
    ).encode()


def _frames(ask: Ask) -> Script:
    """A camera: one picture after the other, for ever."""
    part = b"--x\r\nContent-Type: image/jpeg\r\n\r\n" + _jpeg(ask)[:500] + b"\r\n"
    start = head("Content-Type: multipart/x-mixed-replace; boundary=x")
    return chain((start,), endless(b"", 10 * part, 0.2)(ask))  # never too slow


def _meta_late(ask: Ask) -> bytes:
    return b"<!--" + b"x" * 100_000 + b"--><meta charset=latin-1>" + page(ask, text=_WORDS)


def _two_metas(ask: Ask) -> bytes:
    return b"<meta charset=utf-7><meta charset=windows-1252>" + page(ask, text=_WORDS)


_UTF7 = b"<html><title>utf-7</title><p>+ADw-a href=+ACI-/never/utf7+ACI-+AD4-x+ADw-/a+AD4-"

KINDS = (
    kind("pdf_as_html", "a PDF as text/html", _typed("text/html", pdf), _BROKEN),
    kind("pdf_as_pdf", "a PDF", _typed("application/pdf", pdf), _BROKEN),
    kind("pdf_untyped", "a PDF without a type", lambda ask: (
        head(f"Content-Length: {len(pdf(ask))}") + pdf(ask), KEEP), _BROKEN),
    kind("html_as_pdf", "a page as application/pdf",
         _typed("application/pdf"), NEW),
    kind("png_as_html", "a PNG as text/html", _typed("text/html", png), _unread("image/png")),
    kind("jpeg_as_html", "a JPEG with markup in it as text/html",
         _typed("text/html", _jpeg), _unread("image/jpeg")),
    kind("zip_as_text", "an archive as text/plain",
         _typed("text/plain", archive), _unread("application/")),
    kind("zip_as_html", "an archive as text/html",
         _typed("text/html", archive), _unread("application/")),
    kind("html_as_text", "a page as text/plain",
         _typed("text/plain", lambda ask: page(ask, ask.never)), NEW),
    kind("html_as_octets", "a page as application/octet-stream",
         _typed("application/octet-stream"), NEW),
    kind("json_as_html", "JSON as text/html", _typed("text/html", _json), NEW),
    kind("json", "JSON", _typed("application/json", _json), NEW),
    kind("none", "no Content-Type", _no_type, NEW),
    kind("empty", "a Content-Type without a value", _typed(""), NEW),
    kind("semicolons", "a Content-Type of ;;;", _typed(";;;"), NEW),
    kind("non_ascii", "a Content-Type in Latin-1", _typed(b"text/h\xe4tml"),
         _unread("text/h\xe4tml")),
    kind("one_word", "a Content-Type of html", _typed("html"), NEW),
    kind("quoted", "a charset with an open quote", _typed('TEXT/HTML ;CHARSET="utf-8'), NEW),
    kind("two_in_one", "two types in one line", _typed("text/html, application/pdf"), NEW),
    kind("k10", "a Content-Type of 10 KB", _typed("text/html; a=" + "b" * 10_000), NEW),
    kind("wildcard", "a Content-Type of */*", _typed("*/*"), NEW),
    kind("frames", "pictures for ever", _frames, TIME_OUT),
    kind("events", "events for ever",
         endless(head("Content-Type: text/event-stream"), b"data: {}\n\n", 0.2), TOO_SLOW),
    # Charsets
    kind("unknown", "a charset that nobody knows", _coded("utf-8", "text/html; charset=x-no"), NEW),
    kind("codec", "a charset that is a codec of Python",
         _coded("utf-8", "text/html; charset=unicode_escape"), NEW),
    kind("zlib_codec", "a charset that unpacks", _coded("utf-8", "text/html; charset=zlib"), NEW),
    kind("utf_7", "UTF-7, in which a link hides",
         _typed("text/html; charset=utf-7", lambda ask: _UTF7), NEW),
    kind("utf_16_lie", "UTF-8 that is called UTF-16",
         _coded("utf-8", "text/html; charset=utf-16"), NEW),
    kind("utf_8_lie", "Latin-1 that is called UTF-8",
         _coded("latin-1", "text/html; charset=utf-8"), NEW),
    kind("ascii_lie", "UTF-8 that is called ASCII",
         _coded("utf-8", "text/html; charset=us-ascii"), NEW),
    kind("mark_against_header", "UTF-8 with a mark that is called Latin-1",
         _coded("utf-8", "text/html; charset=latin-1", mark=b"\xef\xbb\xbf"), NEW),
    kind("utf_16_mark", "UTF-16 with a mark that is called UTF-8",
         _coded("utf-16-le", "text/html; charset=utf-8", mark=b"\xff\xfe"), NEW),
    kind("utf_16_no_mark", "UTF-16 without a mark",
         _coded("utf-16-le", "text/html; charset=utf-16"), NEW),
    kind("utf_16_hidden", "UTF-16 without a mark, and nobody says so",
         _coded("utf-16-le", "text/html"), NEW),
    kind("utf_32", "UTF-32 with a mark",
         _coded("utf-32-le", "text/html", mark=b"\xff\xfe\0\0"), NEW),
    kind("odd_bytes", "UTF-16 of an odd number of bytes",
         _typed("text/html; charset=utf-16le", lambda ask: page(ask).decode().encode("utf-16-le")
                + b"<"), NEW),
    kind("shift_jis", "Shift JIS, cut within a character",
         _typed("text/html; charset=shift_jis", lambda ask: page(ask) + b"\x83"), NEW),
    kind("iso_2022", "escape sequences that hide a link",
         _typed("text/html; charset=iso-2022-jp",
                lambda ask: page(ask) + b"\x1b$B<a href=/never/iso>\x1b(B"), NEW),
    kind("meta_late", "the charset stands behind 100 KB", _typed("text/html", _meta_late), NEW),
    kind("two_metas", "three charsets in one page", _typed("text/html", _two_metas), NEW),
    # Bodies
    kind("no_body", "200 without a body", lambda ask: (whole(b""), KEEP), NEW),
    kind("white", "200 with white space", lambda ask: (whole(b" \n" * 300), KEEP), NEW),
    kind("nuls_within", "NUL bytes within the markup",
         built(lambda ask: page(ask).replace(b"<p>", b"<p\0>\0a\0b ").replace(b"t", b"t\0"), HTML),
         NEW),
    kind("nuls_only", "200 with 5,000 NUL bytes as text/html",
         built(lambda ask: bytes(5000), HTML), NEW),
    kind("error_as_200", "an error page with status 200",
         built(_said("Internal Server Error", "The server encountered an error."), HTML), NEW),
    kind("not_found_as_200", "a page with status 200 that says it is not there",
         built(_said("404 Not Found", "The page you requested was not found."), HTML), NEW),
    kind("billion_laughs", "XHTML with entities of entities",
         _typed("application/xhtml+xml", _xhtml(_BILLION, "&l9;")), NEW),
    kind("quadratic", "XHTML with one long entity, often",
         _typed("application/xhtml+xml", _xhtml(_QUADRATIC, "&a;" * 20_000)), NEW),
    kind("outside_entity", "XHTML with entities from elsewhere",
         _typed("application/xhtml+xml", _xhtml(_OUTSIDE, "&f; &v;")), NEW),
    kind("xinclude", "XHTML that includes a file", _typed("application/xhtml+xml", _xhtml(
        "", '<i xmlns="http://www.w3.org/2001/XInclude" href="file:///etc/passwd"/>')), NEW),
    kind("broken_xhtml", "XHTML that is not well-formed",
         _typed("application/xhtml+xml", lambda ask: page(ask).replace(b"</p>", b"<p></b>")), NEW),
    kind("laughing_feed", "a feed with entities of entities",
         _typed("application/rss+xml", _feed), NEW),
    kind("svg", "a picture of text and links", _typed("image/svg+xml", lambda ask: (
        f'<svg xmlns="http://www.w3.org/2000/svg"><a href="{ask.never}"><text>x</text></a></svg>'
    ).encode()), _unread("image/svg+xml")),
)  # fmt: skip
