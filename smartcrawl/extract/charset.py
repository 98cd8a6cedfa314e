"""Charset of a body: from bytes to characters."""

from __future__ import annotations

from typing import Final

from charset_normalizer import from_bytes
from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    to_unicode,
)

# Codecs that a server may name, after w3lib's aliases: those of the Encoding Standard and a few old
# ones. Python has more "encodings" (unicode_escape, punycode), which would make surrogates.
# fmt: off
CODECS: Final = frozenset({
    "big5hkscs", "cp437", "cp850", "cp852", "cp866", "cp874", "cp932", "cp949", "cp1250",
    "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "euc_jp",
    "gb18030", "iso2022_jp", "iso8859-2", "iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6",
    "iso8859-7", "iso8859-8", "iso8859-10", "iso8859-13", "iso8859-14", "iso8859-15",
    "iso8859-16", "koi8-r", "koi8-u", "mac-cyrillic", "mac-roman", "utf-8", "utf-16-be",
    "utf-16-le",
})
# fmt: on
_SAMPLE: Final = 32_768  #: bytes shown to charset-normalizer
_BEFORE: Final = 1_024  #: bytes of the sample before the first that is not UTF-8
_RESCUED: Final = 2  #: good characters that outweigh one broken one


def decode_charset(body: bytes, content_type: str, *, markup: bool) -> tuple[str, str]:
    """Return the name of the charset of ``body`` and its text, without BOM and NUL.

    In this order: BOM, ``Content-Type`` header, declaration in the body (only with ``markup``),
    UTF-8 if it fits, a guess, windows-1252. UTF-8 is accepted only where it fits: servers declare
    it for everything, and other charsets seldom look like it. Bytes that the charset cannot decode
    become U+FFFD; the text never contains a lone surrogate. The name is Python's (``utf-8``,
    ``cp1252``).

    Source: HTML Standard, section 13.2.3.2; libraries.md 5.
    """
    charset, bom = read_bom(body)
    if charset is not None and bom is not None:
        return charset, to_unicode(body[len(bom) :], charset).replace("\0", "")
    charset = _named(http_content_type_encoding(content_type))
    if charset is None and markup:
        charset = _named(html_body_declared_encoding(body))
        if charset is not None and charset.startswith("utf-16"):
            charset = "utf-8"  # the declaration itself was read as ASCII
    if charset is None or charset == "utf-8":
        charset = _guess(body)
    return charset, to_unicode(body, charset).replace("\0", "")


def _named(codec: str | None) -> str | None:
    if codec == "utf-16":
        return "utf-16-le"
    return codec if codec in CODECS else None


def _guess(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        first = error.start
    else:
        return "utf-8"
    text = body.decode(errors="replace")
    broken = text.count("\ufffd")
    good = len(text) - len(text.encode("ascii", "ignore")) - broken
    if good >= _RESCUED * broken:
        return "utf-8"  # one bad byte does not make a page windows-1252
    sample = body[max(0, first - _BEFORE) :][:_SAMPLE]
    if len(sample) == _SAMPLE:  # end on a byte that is no part of a longer character
        end = max(sample.rfind(b"<"), sample.rfind(b"\n"))
        sample = sample[:end] if end > 0 else sample
    best = from_bytes(sample).best()
    return (_named(best.encoding.replace("iso8859_", "iso8859-")) if best else None) or "cp1252"
