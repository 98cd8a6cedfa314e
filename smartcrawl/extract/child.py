"""The process that reads foreign documents for the crawler: ``-m smartcrawl.extract.child``.

Its arguments are the bytes of memory and the seconds of CPU time for one document, and ``pages``
where it reads no other documents. It first sends a list of the limits that the platform lacks, then
answers requests until its input ends (``extract.wire``).
"""

from __future__ import annotations

import codecs
import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from encodings.aliases import aliases
from io import RawIOBase
from typing import Final, cast

from smartcrawl.extract import formats, sniff
from smartcrawl.extract.confine import confine_extraction, confine_extraction_time
from smartcrawl.extract.formats import FormatError, FormatFault, read_document
from smartcrawl.extract.page_tasks import read_page_task
from smartcrawl.extract.sniff import CHARSETS, decode_charset
from smartcrawl.extract.wire import (
    MAX_BODY,
    MAX_HEADER,
    PageTask,
    Selected,
    extraction_tasks_from_wire,
    receive_extraction_frame,
    send_extraction_frames,
    wire_document,
    wire_document_with_parts,
    wire_extraction_error,
)
from smartcrawl.model.documents import Document

#: What else is made of a page, by an order; an empty one loads what that needs.
MakeParts = Callable[[Document, PageTask, str], bytes]

_URL: Final = "http://document.invalid/"
_MEMORY: Final = FormatError(
    FormatFault.MEMORY, "the document needs more memory than one document may have"
)
#: Bodies whose reading loads every module that is loaded late.
_PAGE: Final = b"<!DOCTYPE html><title>T</title><main><h1>H</h1><p>a text, b text</p></main>" * 9
_SAMPLES: Final = (
    (sniff.MARKDOWN, b"# Title\n\nA text that is long enough for its language. " * 4),
    (sniff.CSV, b"a,b\n1,2\n"),
    (sniff.JSON, b'{"a": [1, "b"]}'),
    (sniff.XML, b"<?xml version='1.0' encoding='iso-8859-2'?><a>\xe1</a>"),
    (sniff.PDF, b"%PDF-1.7"),
    (sniff.XLSX, b"PK"),
    (
        sniff.EML,
        b"Subject: =?utf-8?q?=C3=A9?=\nFrom: A <a@b.example>\nDate: Mon, 1 Jan 2026 10:00:00"
        b" +0000\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/html\n"
        b"Content-Transfer-Encoding: base64\n\nPGI+YQ==\n--x\nContent-Type: message/rfc822\n\n"
        b"Subject: b\nContent-Transfer-Encoding: quoted-printable\n\nc=20d\n--x--\n",
    ),
)


def extraction_child_main(make: MakeParts | None = None) -> None:
    """Load everything, give up all other rights, answer.

    ``make`` returns what else is made of a page, by an order (``extract.wire.PartMaker``).
    """
    memory, seconds = map(int, sys.argv[1:3])
    source = cast(RawIOBase, open(0, "rb", buffering=0, closefd=False))  # noqa: SIM115
    sink = cast(RawIOBase, open(1, "wb", buffering=0, closefd=False))  # noqa: SIM115
    sys.stdout = sys.stderr  # output of a library is no answer
    with suppress(OSError, AttributeError):  # of Windows
        os.set_blocking(2, False)  # the crawler may not be reading it
    _load_pages()
    if make is not None:
        task = PageTask(_PAGE, "", _URL)
        make(read_page_task(task, Selected()), task, "")
    if sys.argv[3:] != ["pages"]:
        _load()
    os.environ.clear()
    send_extraction_frames(sink, json.dumps(confine_extraction(memory)).encode())
    while _answer(source, sink, seconds, make):
        pass
    os._exit(0)


def _load_pages() -> None:
    for codec in CHARSETS.union(aliases.values()):  # the guess of a charset tries nearly all
        with suppress(LookupError):  # of Windows
            codecs.lookup(codec)
    decode_charset("Größe über alles, été, čeština".encode("cp1250"), "", markup=False)
    selected = Selected(("main",), (".x > p:not(b)",))
    _read_page(PageTask(_PAGE, "", _URL), selected)


def _load() -> None:
    formats.load_format_readers()
    for mime, body in _SAMPLES:
        with suppress(FormatError):
            read_document(body, media_type=mime, content_type="", url=_URL)


def _answer(
    source: RawIOBase, sink: RawIOBase, seconds: int, make: MakeParts | None = None
) -> bool:
    """Answer one request; return whether another may follow."""
    try:
        header = json.loads(receive_extraction_frame(source, MAX_HEADER))
        body = receive_extraction_frame(source, MAX_BODY)
        if "pages" in header:
            selected, order = Selected(*header["selected"]), header["order"]
            for task in extraction_tasks_from_wire(header, body):
                confine_extraction_time(seconds)
                send_extraction_frames(sink, _read_page(task, selected, make, order))
            return True
        confine_extraction_time(seconds)
        document = read_document(body, **header)
        del body
        answer = wire_document(document)
    except EOFError:
        return False
    except FormatError as error:
        answer = wire_extraction_error(error)
    except MemoryError:
        answer = wire_extraction_error(_MEMORY)
    send_extraction_frames(sink, answer)
    return True


def _read_page(
    task: PageTask, selected: Selected, make: MakeParts | None = None, order: str | None = None
) -> bytes:
    """Return the answer to one page; it fails where ``html.parse_html`` in the crawler would."""
    try:
        document = read_page_task(task, selected)
        if make is None or order is None:
            return wire_document(document)
        return wire_document_with_parts(document, make(document, task, order))
    except MemoryError:
        return wire_extraction_error(_MEMORY)
    except Exception as error:  # noqa: BLE001  # of any library, over foreign bytes
        what = f"its reader failed: {type(error).__name__}: {str(error)[:200]}"
        return wire_extraction_error(FormatError(FormatFault.CRASHED, what))


if __name__ == "__main__":
    extraction_child_main()
