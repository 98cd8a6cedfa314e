"""Media type and charset of a body: by its header, unless its bytes contradict it."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator, Set
from struct import Struct
from typing import Final

from w3lib.encoding import (
    html_body_declared_encoding,
    http_content_type_encoding,
    read_bom,
    resolve_encoding,
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
#: Codecs that no server may name, for old files without a declaration.
_OLD_CODECS: Final = frozenset(
    {
        "cp720",
        "cp737",
        "cp775",
        "cp855",
        "cp857",
        "cp858",
        "cp860",
        "cp861",
        "cp862",
        "cp863",
        "cp864",
        "cp865",
        "cp869",
        "cp1125",
        "iso2022_kr",
        "johab",
        "kz1048",
        "mac-greek",
        "mac-latin2",
        "mac-turkish",
        "ptcp154",
    }
)  # fmt: skip
_WIDE_CODECS: Final = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_BETWEEN_WORDS: Final = frozenset(" \n\t\u3000\u3001\u3002\uff0c")  #: or sentences
CHARSETS: Final = CODECS | _OLD_CODECS | {*_WIDE_CODECS}  #: of documents that were read
#: Codecs with several bytes a character, in which a few characters may look like UTF-8.
_SEVERAL_BYTES: Final = frozenset({"big5hkscs", "cp932", "cp949", "euc_jp", "gb18030"})
_CERTAIN: Final = 4  #: characters that all look like UTF-8, against such a declaration
_SAMPLE: Final = 32_768  #: bytes shown to chardet
_BEFORE: Final = 1_024  #: bytes of the sample before the first that is not UTF-8
_RESCUED: Final = 2  #: good characters that outweigh one broken one
_SHIFT: Final = b"\x1b$"  #: begins characters of several bytes in ISO 2022
_WIDE_SAMPLE: Final = 4_096  #: bytes
_WIDE_MIN: Final = 16  #: bytes
_ZEROS: Final = 32  #: one zero byte in so many; a line of text has a space or an end
#: Characters that text has seldom, and that a wrong charset has often.
_NO_TEXT: Final = re.compile("[\0-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f\ue000-\uf8ff\ufffe\uffff]")


def decode_charset(body: bytes, content_type: str, *, markup: bool) -> tuple[str, str]:
    """Return the name of the charset of ``body`` and its text, without BOM and NUL.

    In this order: BOM, ``Content-Type`` header, declaration in the body (only with ``markup``),
    UTF-8 if it fits, a guess, windows-1252. UTF-8 is accepted only where it fits: servers declare
    it for everything, and other charsets seldom look like it. For the same reason a body that is
    UTF-8 is read as that, whatever it declares itself. Bytes that the charset cannot decode become
    U+FFFD; the text never contains a lone surrogate. The name is Python's (``utf-8``, ``cp1252``).

    Source: HTML Standard, section 13.2.3.2; libraries.md 5; ADR 152.
    """
    charset, bom = read_bom(body)
    if charset is not None and bom is not None:
        return charset, to_unicode(body[len(bom) :], charset).replace("\0", "")
    charset = _named(http_content_type_encoding(content_type))
    if charset is None and markup:
        charset = _named(html_body_declared_encoding(body))
        if charset is not None and (charset.startswith("utf-16") or _is_utf8(body, charset)):
            charset = "utf-8"  # the declaration itself was read as ASCII
    if charset is None or charset == "utf-8":
        if (text := _utf8_text(body)) is not None:
            return "utf-8", text.replace("\0", "")
        charset = _guess(body)
    return charset, to_unicode(body, charset).replace("\0", "")


def _utf8_text(body: bytes) -> str | None:
    """Return the text of a body that is UTF-8 beyond doubt, so that it is decoded once."""
    if wide_charset(body) or _SHIFT in body:
        return None
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _named(codec: str | None) -> str | None:
    if codec == "utf-16":
        return "utf-16-le"
    return codec if codec in CODECS else None


def _is_utf8(body: bytes, declared: str) -> bool:
    """Whether a body that declares another charset is UTF-8, and more than ASCII."""
    if declared == "utf-8" or body.isascii():
        return False
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return False
    return declared not in _SEVERAL_BYTES or sum(not one.isascii() for one in text) >= _CERTAIN


def wide_charset(body: bytes) -> str:
    """Return the charset of a text in UTF-16 or UTF-32 without a mark; or an empty string.

    >>> wide_charset("some words".encode("utf-16-be")), wide_charset(b"\\0\\1 some data of a file")
    ('utf-16-be', '')
    """
    start = body[: min(len(body) & ~3, _WIDE_SAMPLE)] if len(body) > _WIDE_MIN else body
    if len(start) < _WIDE_MIN or _ZEROS * start.count(0) < len(start):
        return ""
    for codec in _WIDE_CODECS:
        try:
            text = start.decode(codec)
        except UnicodeDecodeError as error:
            if error.end < len(start):  # else a character that the sample cuts
                continue
            text = start[: error.start].decode(codec)
        if not _NO_TEXT.search(text) and not _BETWEEN_WORDS.isdisjoint(text):
            return codec
    return ""


def _guess(body: bytes) -> str:
    if wide := wide_charset(body):
        return wide
    try:
        body.decode()
    except UnicodeDecodeError as error:
        first = error.start
    else:
        at = body.find(_SHIFT)
        return _guessed(body[at:][:_SAMPLE], {"iso2022_jp", "iso2022_kr"}) if at >= 0 else "utf-8"
    text = body.decode(errors="replace")
    broken = text.count("\ufffd")
    good = len(text) - len(text.encode("ascii", "ignore")) - broken
    if good >= _RESCUED * broken:
        return "utf-8"  # one bad byte does not make a page windows-1252
    sample = body[max(0, first - _BEFORE) :][:_SAMPLE]
    if len(sample) == _SAMPLE:  # end on a byte that is no part of a longer character
        end = max(sample.rfind(b"<"), sample.rfind(b"\n"))
        sample = sample[:end] if end > 0 else sample
    return _guessed(sample, (CODECS | _OLD_CODECS).difference(_WIDE_CODECS), or_else="cp1252")


def _guessed(sample: bytes, known: Set[str], or_else: str = "utf-8") -> str:
    """Return the charset that chardet finds, if it is ``known``."""
    import chardet  # noqa: PLC0415  # few bodies need it, and its models take 28 MiB

    eras = chardet.EncodingEra.ALL & ~chardet.EncodingEra.MAINFRAME  # of those no text is one here
    name = chardet.detect(sample, encoding_era=eras, max_bytes=_SAMPLE)["encoding"] or ""
    codec = resolve_encoding(name) or ""
    return codec if codec in known else or_else


PDF: Final = "application/pdf"
DOCX: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX: Final = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLSX: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ODT: Final = "application/vnd.oasis.opendocument.text"
ODP: Final = "application/vnd.oasis.opendocument.presentation"
ODS: Final = "application/vnd.oasis.opendocument.spreadsheet"
XLS: Final = "application/vnd.ms-excel"
XLSB: Final = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
EML: Final = "message/rfc822"
EPUB: Final = "application/epub+zip"
MARKDOWN: Final = "text/markdown"
RST: Final = "text/x-rst"
ASCIIDOC: Final = "text/asciidoc"
ORG: Final = "text/org"
LATEX: Final = "application/x-tex"
CSV: Final = "text/csv"
JSON: Final = "application/json"
NOTEBOOK: Final = "application/x-ipynb+json"
XML: Final = "application/xml"
ZIP: Final = "application/zip"
OLE: Final = "application/x-ole-storage"
GZIP: Final = "application/gzip"
BINARY: Final = "application/octet-stream"

HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
TEXT_TYPES: Final = frozenset({"text/plain"})
#: Mark of an OLE file that is a present-day Office file under a password.
ENCRYPTED_MARK: Final = "EncryptedPackage".encode("utf-16-le")

_TYPE: Final = re.compile(r"\s*([\w.+-]+/[\w.+-]+)\s*(?:[;,]|$)")
_UNKNOWN: Final = frozenset(
    {BINARY, "application/unknown", "unknown/unknown", "binary/octet-stream"}
)
# fmt: off
#: Other names of the types above, and related types that are read like them.
_RENAMED: Final = {
    "application/x-pdf": PDF,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.template": DOCX,
    "application/vnd.ms-word.document.macroenabled.12": DOCX,
    "application/vnd.ms-word.template.macroenabled.12": DOCX,
    "application/vnd.openxmlformats-officedocument.presentationml.slideshow": PPTX,
    "application/vnd.openxmlformats-officedocument.presentationml.template": PPTX,
    "application/vnd.ms-powerpoint.presentation.macroenabled.12": PPTX,
    "application/vnd.ms-powerpoint.slideshow.macroenabled.12": PPTX,
    "application/vnd.openxmlformats-officedocument.spreadsheetml.template": XLSX,
    "application/vnd.ms-excel.sheet.macroenabled.12": XLSX,
    "application/vnd.ms-excel.template.macroenabled.12": XLSX,
    "application/vnd.oasis.opendocument.text-template": ODT,
    "application/vnd.oasis.opendocument.presentation-template": ODP,
    "application/vnd.oasis.opendocument.spreadsheet-template": ODS,
    "text/rtf": "application/rtf",
    "text/x-markdown": MARKDOWN,
    "text/prs.fallenstein.rst": RST,
    "text/rst": RST,
    "text/x-asciidoc": ASCIIDOC,
    "text/x-org": ORG,
    "text/tex": LATEX,
    "text/x-tex": LATEX,
    "application/x-latex": LATEX,
    "application/csv": CSV,
    "text/comma-separated-values": CSV,
    "text/tab-separated-values": CSV,
    "text/x-csv": CSV,
    "application/x-json": JSON,
    "text/json": JSON,
    "text/x-json": JSON,
    "text/xml": XML,
    "application/x-zip-compressed": ZIP,
}
# fmt: on
_PACKAGES: Final = frozenset({DOCX, PPTX, XLSX, XLSB, ODT, ODP, ODS, EPUB})
_OLD_OFFICE: Final = frozenset({"application/msword", XLS, "application/vnd.ms-powerpoint"})
#: Types of OLE files, whose bytes do not say which program wrote them, by the ending of the name.
_OLE_ENDINGS: Final = {
    **dict.fromkeys(("doc", "dot"), "application/msword"),
    **dict.fromkeys(("xls", "xlt"), XLS),
    **dict.fromkeys(("ppt", "pps", "pot"), "application/vnd.ms-powerpoint"),
}
#: Types of files with a fixed beginning, so that no markup is of these types.
_FILES: Final = _PACKAGES | _OLD_OFFICE | {PDF, ZIP}
#: Texts that are read otherwise, or that a folder does not read either.
_OTHER_TEXTS: Final = HTML_TYPES | {
    MARKDOWN, RST, ASCIIDOC, ORG, CSV,
    "text/css", "text/ecmascript", "text/event-stream", "text/javascript",
}  # fmt: skip
_TEXTS: Final = TEXT_TYPES | {""}
_MARKED: Final = frozenset({JSON, CSV, XML})  #: texts that a page is often served as
#: Types that any signature overrules.
_OVERRULED: Final = (
    _FILES
    | HTML_TYPES
    | TEXT_TYPES
    | {"", MARKDOWN, RST, ASCIIDOC, ORG, LATEX, CSV, JSON, XML, "application/rtf"}
)

_SNIFFED: Final = 4_096  #: bytes
_HTML_START: Final = re.compile(
    rb"(?>\s+|<!--.*?-->|<\?xml[^>]*>)*+"
    rb"<(?:!doctype\s+html|(?:html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p)"
    rb"(?=[\s/>]))",
    re.IGNORECASE | re.DOTALL,
)
#: A page by its document element; fragments of a page also begin other texts.
_PAGE_START: Final = re.compile(
    rb"(?>\s+|<!--.*?-->|<\?[^>]*>)*+<(?:!doctype\s+html|(?:\w+:)?html)(?=[\s/>])",
    re.IGNORECASE | re.DOTALL,
)
_BINARY: Final = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
#: Beginnings of files that no page has (MIME Sniffing Standard, section 6).
_SIGNATURES: Final = (
    (b"%PDF-", PDF),
    (b"%!PS-Adobe-", "application/postscript"),
    (b"{\\rtf", "application/rtf"),
    (b"PK\x03\x04", ZIP),
    (b"\x1f\x8b\x08", GZIP),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OLE),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x7fELF", "application/x-executable"),
    (b"\x00asm", "application/wasm"),
)
_PDF_MARK: Final = b"\n%PDF-1."
_PDF_END: Final = b"%%EOF"
_PDF_MARK_WITHIN: Final = 1_024  #: bytes at the beginning, and as many at the end
_FIRST_BYTES: Final = frozenset(mark[:1] for mark, _ in _SIGNATURES)
#: Texts other than pages. Their bytes are often binary by mistake of a header, not of a server.
_PLAIN: Final = TEXT_TYPES | _MARKED | {"", MARKDOWN}
_HEAD: Final = 1445  #: bytes (MIME Sniffing, 7.2)
#: Octets that text has seldom. NUL is not among them: UTF-16 is full of it.
_CONTROLS: Final = bytes({*range(0x01, 0x20)} - {*b"\t\n\f\r\x1b"})
_OTHERS: Final = bytes({*range(0x100)} - {*_CONTROLS})
_SEPARATORS: Final = frozenset(b"\x1c\x1d\x1e\x1f")  #: between the fields of some texts
_MIN_CONTROLS: Final = 4  #: fewer are slips of an editor
_CONTROL_SHARE: Final = 32  #: one in so many; packed bytes have one in ten
_WIDE_BOMS: Final = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}

_ENDINGS: Final = {
    "csv": CSV,
    "eml": EML,
    "tsv": CSV,
    "md": MARKDOWN,
    "markdown": MARKDOWN,
    "mdx": MARKDOWN,
    "qmd": MARKDOWN,
    "rst": RST,
    "adoc": ASCIIDOC,
    "asciidoc": ASCIIDOC,
    "org": ORG,
    "tex": LATEX,
    "latex": LATEX,
}
_JSON_TRIED: Final = 65_536  #: bytes; longer bodies are typed by the URL alone

_DIRECTORY_END: Final = Struct("<4s4xHHIIH")
_DIRECTORY_ENTRY: Final = Struct("<4s6xH8xIxxxxHHH8xI")
_LOCAL_ENTRY: Final = Struct("<4s22xHH")
_MAX_DIRECTORY: Final = 262_144  #: bytes of a ZIP directory that are read
_MAX_UNPACKED: Final = 65_536  #: bytes
_CONTENT_TYPES: Final = b"[Content_Types].xml"
_OOXML_MAIN: Final = re.compile(
    rb"(wordprocessingml|presentationml|spreadsheetml|ms-word|ms-powerpoint|ms-excel)"
    rb"\.[\w.-]{1,60}\.main\+xml",
    re.IGNORECASE,
)
_OOXML: Final = {
    b"wordprocessingml": DOCX,
    b"ms-word": DOCX,
    b"presentationml": PPTX,
    b"ms-powerpoint": PPTX,
    b"spreadsheetml": XLSX,
    b"ms-excel": XLSX,
}
_PARTS: Final = {
    b"word/document.xml": DOCX,
    b"ppt/presentation.xml": PPTX,
    b"xl/workbook.xml": XLSX,
    b"xl/workbook.bin": XLSB,
    b"META-INF/container.xml": EPUB,
}
_LOCAL_PART: Final = re.compile(
    rb"PK\x03\x04.{26}(%s)" % b"|".join(map(re.escape, _PARTS)), re.DOTALL
)
_MIMETYPE: Final = re.compile(rb"application/(?:epub\+zip|vnd\.oasis\.opendocument\.[a-z-]{1,40})")


def sniffed_media_type(content_type: str, body: bytes, url: str = "") -> str:
    """Return the MIME type of a body, without parameters and in lower case.

    The header counts, unless it is missing or unknown (servers send ``application/octet-stream``
    for files of unknown type), calls binary data ``text/plain``, or contradicts the beginning of
    the body. So a PDF is a PDF under any header, and an error page that is served as PDF is HTML.
    ZIP files are typed by their parts, old files of Office by the ending of ``url``. Texts of
    unknown or plain type are CSV, Markdown or JSON if the path of ``url`` has that ending. Several
    names of one type become one (``text/xml``, ``application/rss+xml`` and ``application/xml``).

    It reads no more than 4,096 bytes, except of ZIP (at most 320 KiB) and JSON (64 KiB).

    Source: R0-60; MIME Sniffing Standard, sections 7.1 and 7.2; libraries.md 5.
    """
    named = _named_type(content_type)
    start = body[:_SNIFFED]
    if named not in HTML_TYPES:
        start = _narrow(start)
    if signed := _signed(start):
        return _settled(signed, named, body, url)
    if _is_pdf_behind(start, body):
        return PDF
    if named in _TEXTS:
        if _BINARY.search(start):
            return BINARY
        return _by_ending(named, start, body, url) or named or _sniff(start)
    if named in _MARKED:
        typed = NOTEBOOK if named == JSON and _ending(url) == "ipynb" else named
        return "text/html" if _PAGE_START.match(start) else typed
    if named in _FILES:
        return "text/html" if _HTML_START.match(start) else named
    return named


def is_garbled_text(content_type: str, body: bytes, *, held: bool) -> bool:
    """Whether a body that is declared as a page is still packed, or no text at all.

    Such a body is gzip, or control characters are frequent at its beginning, in its charset, too.
    They are of several kinds, unless the text is plain or of no type: in other types, text with
    control characters is read, such as CSV with separators of ASCII. Servers and caches that lose
    a Content-Encoding, or pack a body twice, send such bodies. Text that is no page, or of no
    type, counts where content is stored (``held``): a new file of such a type may be binary.

    >>> is_garbled_text("text/html", b"\\x1f\\x8b\\x08...", held=False)
    True
    >>> is_garbled_text("text/html", b"<p>one \\x0b slip</p>", held=True)
    False

    Source: MIME Sniffing Standard, section 7.2; ADR 20.
    """
    named = _named_type(content_type)
    if named not in HTML_TYPES and not (held and named in _PLAIN):
        return False
    head, is_read = body[:_HEAD], named not in _TEXTS
    return _signed(head) == GZIP or (
        _is_controlled(head, len(head), is_read=is_read)
        and not _signed(head)
        and _is_controlled_in_its_charset(head, content_type, is_read=is_read)
    )


def _is_controlled_in_its_charset(head: bytes, content_type: str, *, is_read: bool) -> bool:
    text = decode_charset(head, content_type, markup=True)[1]
    return _is_controlled(text.encode(), len(text), is_read=is_read)


def _is_controlled(text: bytes, size: int, *, is_read: bool) -> bool:
    """Whether control characters are frequent in a text of ``size`` bytes or characters.

    ``is_read``: whether its type is read although it has some: packed bytes have many kinds.
    """
    controls = text.translate(None, _OTHERS)
    kinds = {*controls} - _SEPARATORS
    return (
        len(controls) >= _MIN_CONTROLS
        and _CONTROL_SHARE * len(controls) > size
        and (len(kinds) >= _MIN_CONTROLS or not is_read)
    )


def _named_type(content_type: str) -> str:
    match = _TYPE.match(content_type)
    named = match[1].lower() if match else ""
    if named in _UNKNOWN:
        return ""
    if named in HTML_TYPES or named == "image/svg+xml":
        return named
    if named.endswith("+xml"):
        return XML
    if named.endswith("+json"):
        return JSON
    named = _RENAMED.get(named, named)
    if named.startswith("text/") and named.isascii() and named not in _OTHER_TEXTS:
        return "text/plain"  # of any kind, as a folder's files are
    return named


def _narrow(start: bytes) -> bytes:
    """Return the beginning of a text in UTF-8, without BOM."""
    wide = _WIDE_BOMS.get(start[:2])
    if wide is not None:
        start = start[2:].decode(wide, "replace").encode()
    elif wide := wide_charset(start):
        start = start.decode(wide, "replace").encode()
    return start.removeprefix(b"\xef\xbb\xbf")


def _signed(start: bytes) -> str:
    """Return the type that the first bytes of a file prove, or an empty string."""
    if start[:1] not in _FIRST_BYTES:
        return ""
    return next((mime for mark, mime in _SIGNATURES if start.startswith(mark)), "")


def _is_pdf_behind(start: bytes, body: bytes) -> bool:
    """Whether a whole PDF is behind something else, such as a page that was saved into its file.

    PDFium and other readers look for the mark in the first 1,024 bytes.
    """
    marked = start.find(_PDF_MARK, 0, _PDF_MARK_WITHIN) >= 0
    return marked and body.rfind(_PDF_END, max(0, len(body) - _PDF_MARK_WITHIN)) >= 0


def _settled(signed: str, named: str, body: bytes, url: str) -> str:
    """Return the type of a body with a signature; the header or the ending may be more precise."""
    if signed == PDF:
        return PDF
    if signed == ZIP:
        inside = _inside(body)
        kin = named and named not in _OVERRULED - _PACKAGES
        return named if inside == ZIP and kin else inside
    if signed == OLE and (named in _OLD_OFFICE or named in _PACKAGES):
        is_named = named in _OLD_OFFICE or ENCRYPTED_MARK in body
        return named if is_named else _OLE_ENDINGS.get(_ending(url), OLE)
    if named not in _OVERRULED:
        return named
    return _OLE_ENDINGS.get(_ending(url), OLE) if signed == OLE else signed


def _ending(url: str) -> str:
    """Return the ending of the last name in a URL, in lower case; empty if it has none."""
    name = url.partition("#")[0].partition("?")[0].rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def _by_ending(named: str, start: bytes, body: bytes, url: str) -> str:
    """Return the type of a text by its address or first character, or an empty string."""
    text = start.lstrip()
    if not text or (not named and _PAGE_START.match(start)):
        return ""
    ending = _ending(url)
    if ending == "ipynb" and text[:1] == b"{":
        return NOTEBOOK
    if text[:1] in b"{[" and (ending == "json" or not named):
        if len(body) > _JSON_TRIED:
            return JSON if ending == "json" else _ENDINGS.get(ending, "")
        if _parses(body):
            return JSON
    return _ENDINGS.get(ending, "")


def _parses(body: bytes) -> bool:
    try:
        json.loads(body, parse_int=str)
    except (ValueError, RecursionError):
        return False
    return True


def _sniff(start: bytes) -> str:
    if _HTML_START.match(start):
        return "text/html"
    if start.lstrip().startswith(b"<?xml"):
        return "text/html" if b"//www.w3.org/1999/xhtml" in start else XML
    return "text/plain" if start.strip() else BINARY


def _inside(body: bytes) -> str:
    """Return the type of a ZIP file by its parts; without a directory, by its first 256 KiB."""
    _, name_size, extra = _LOCAL_ENTRY.unpack_from(body.ljust(_LOCAL_ENTRY.size, b"\0"))
    at = _LOCAL_ENTRY.size
    if body[at : at + name_size] == b"mimetype":
        declared = _MIMETYPE.match(body, at + name_size + extra)
        if declared:
            mime = declared[0].decode("ascii")
            return _RENAMED.get(mime, mime)
    entries = dict(_entries(body))
    if not entries:
        local = _LOCAL_PART.search(body, 0, _MAX_DIRECTORY)
        return _PARTS[local[1]] if local else ZIP
    if _CONTENT_TYPES in entries:
        main = _OOXML_MAIN.search(_unpacked(body, *entries[_CONTENT_TYPES]))
        if main:
            return _OOXML[main[1].lower()]
    return next((mime for part, mime in _PARTS.items() if part in entries), ZIP)


def _entries(body: bytes) -> Iterator[tuple[bytes, tuple[int, int, int]]]:
    """Yield name, offset, packed size and method of the files in a ZIP file's directory."""
    end = body.rfind(b"PK\x05\x06", max(0, len(body) - 65_557))
    if end < 0 or end + _DIRECTORY_END.size > len(body):
        return
    _, _, _, size, offset, _ = _DIRECTORY_END.unpack_from(body, end)
    moved = max(0, end - size - offset)  # bytes before the archive itself
    at = offset + moved
    stop = min(end, at + _MAX_DIRECTORY) - _DIRECTORY_ENTRY.size
    while at <= stop:
        mark, method, packed, name, extra, comment, local = _DIRECTORY_ENTRY.unpack_from(body, at)
        if mark != b"PK\x01\x02":
            return
        at += _DIRECTORY_ENTRY.size
        yield body[at : at + name], (local + moved, packed, method)
        at += name + extra + comment


def _unpacked(body: bytes, offset: int, size: int, method: int) -> bytes:
    """Return the beginning of one file of a ZIP archive; empty if it is broken."""
    if offset + _LOCAL_ENTRY.size > len(body):
        return b""
    _, name, extra = _LOCAL_ENTRY.unpack_from(body, offset)
    begin = offset + _LOCAL_ENTRY.size + name + extra
    packed = body[begin : begin + min(size, _MAX_UNPACKED)]
    if method == 0:
        return packed
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, _MAX_UNPACKED)
    except zlib.error:
        return b""
