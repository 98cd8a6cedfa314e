"""Stored pages as an export: their texts as Markdown, and the names of their files."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import can_ada

from smartcrawl.extract.chunks import document_chunks, section_places
from smartcrawl.extract.links import document_base_url
from smartcrawl.extract.repeated import document_without
from smartcrawl.model.documents import (
    LIST,
    PAGE_PLACE,
    TABLE,
    Block,
    ChunkSize,
    Document,
    Section,
    page_of_place,
    place_link,
    section_pages,
)
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.markdown import (
    clean_text,
    escape_markdown,
    escape_markdown_start,
    markdown_heading,
    one_text_line,
    text_as_markdown_line,
)
from smartcrawl.model.placed_spans import with_placed_spans
from smartcrawl.model.redaction import escaped_tags, json_safe_text
from smartcrawl.model.times import iso_time
from smartcrawl.model.urls import shown_title, url_item_id
from smartcrawl.registry.connection import Connection, Many
from smartcrawl.registry.pack import numbers_for_sql, unpack_stored_document
from smartcrawl.reports.inline import InlineText

PAGES_AT_ONCE: Final = 20  #: rows of one statement; their documents are in memory together
ADDRESSES_AT_ONCE: Final = 2_000

_SOURCES = "SELECT no FROM source WHERE name IN carray(?)"
#: Pages with an index entry: a clone has none. ``+`` keeps the order of the numbers: an index on
#: the source would have all of its records sorted for each statement.
_COUNTS = """
SELECT count(*), count(*) FILTER (WHERE s.lost_count > 0)
  FROM record r JOIN state s USING (no)
 WHERE +r.source IN carray(?) AND r.entry > 0
"""
_PAGES = """
SELECT r.no, r.id, r.url, o.name, s.lost_count > 0, r.last_changed, c.title, c.description,
       c.language, c.published, c.author, c.marked, c.document
  FROM record r
  JOIN state s USING (no)
  JOIN source o ON o.no = r.source
  JOIN content c ON c.no = r.content
 WHERE r.no > :after AND +r.source IN carray(:sources) AND r.entry > 0
   AND (:lost OR s.lost_count = 0)
 ORDER BY r.no LIMIT :most
"""
_ADDRESSES = """
SELECT r.no, r.url
  FROM record r JOIN state s USING (no)
 WHERE r.no > :after AND +r.source IN carray(:sources) AND r.entry > 0
   AND (:lost OR s.lost_count = 0)
 ORDER BY r.no LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class ExportedPage:
    """One stored page with its text.

    A lost page answers with an error: its text is of an earlier visit. Of the document title,
    description, language, date, author, sections and images are known.
    """

    id: str
    url: str
    source: str
    is_lost: bool
    last_changed: int | None  #: Unix seconds
    document: Document


class PageCounts(NamedTuple):
    """The number of pages of some sources that can be exported."""

    pages: int
    lost: int


class ExportedPages:
    """The pages of some sources with text of their own, in the order of their discovery.

    Clones are left out: their original has the text. Each statement reads a few rows, and another
    moment: a run at the same time may add pages while they are read.
    """

    def __init__(self, connection: Connection, sources: Sequence[str], *, lost: bool) -> None:
        """``lost``: whether lost pages are among them."""
        self._connection = connection
        self._lost = lost
        rows: Any = connection.execute(_SOURCES, (Many(sources),)).fetchall()
        self._sources = numbers_for_sql(no for (no,) in rows)

    def counts(self) -> PageCounts:
        """Return how many pages there are, lost ones included."""
        row: Any = self._connection.execute(_COUNTS, (self._sources,)).fetchone()
        return PageCounts(*row)

    def addresses(self) -> Iterator[str]:
        """Yield the address of each page."""
        for _, url in self._rows(_ADDRESSES, ADDRESSES_AT_ONCE):
            yield url

    def __iter__(self) -> Iterator[ExportedPage]:
        """Yield each page."""
        for row in self._rows(_PAGES, PAGES_AT_ONCE):
            _, key, url, source, lost, changed, title, description, language, *said, packed = row
            document = replace(
                document_without(unpack_stored_document(packed), said[2]),
                title=title,
                description=description,
                language=language,
                published=said[0],
                author=said[1],
            )
            name = url_item_id(url_item_kind(url), bytes(key))
            yield ExportedPage(name, url, source, bool(lost), changed, document)

    def _rows(self, statement: str, most: int) -> Iterator[Any]:
        names: dict[str, Any] = {"sources": self._sources, "lost": self._lost, "most": most}
        after = 0
        while rows := self._connection.execute(statement, names | {"after": after}).fetchall():
            yield from rows
            after = rows[-1][0]


_MOST_PADDED: Final = 100_000  #: cells of a table; Markdown itself completes rows of a larger one


def page_as_markdown(
    document: Document, *, title: str = "", url: str = "", numbered: bool = False
) -> str:
    """Return the text of a page as Markdown that ends with a line break; empty without any text.

    ``title``, or that of the document, becomes the first heading where the page has no heading of
    level 1. Code is fenced, tables are pipe tables with a row for the names of their columns, each
    line of a list is an item. Text is escaped where Markdown would read it as markup. Links and
    pictures have absolute addresses; without the ``url`` of the page there are none. ``numbered``:
    each page of a PDF begins with a link to it, and each heading with an id ends with one.

    Source: CommonMark 0.31; tables: GitHub Flavored Markdown 0.29.
    """
    document = with_placed_spans(document)
    base = document_base_url(url) if url else None
    parts: list[str] = []
    last: int | None = None
    name = one_text_line(title or document.title)
    if name and not any(s.level == 1 and s.heading for s in document.sections):
        parts.append(markdown_heading(1, name))
    for section in document.sections:
        heading = InlineText(section.heading, section.head, base)
        if line := " ".join(heading.part(0, len(section.heading)).split()):
            own = _heading_link(section, url) if numbered else ""
            parts.append(heading.filled(markdown_heading(section.level, line)) + own)
        for page, part in _by_pages(section) if numbered else ((None, section),):
            if page not in (None, last):
                last = page
                link = place_link(url, f"{PAGE_PLACE}{page}")
                parts.append(f"[Page {page}]({link.translate(_IN_LINK)})")
            parts += _SectionMarkdown(part, base).parts()
    return escaped_tags("\n\n".join(parts)) + "\n" if parts else ""


def _heading_link(section: Section, url: str) -> str:
    """Return a link from a heading to itself; empty where it has no id, or that of a page."""
    name = next((place.id for place in section_places(section) if place.start == 0), "")
    if not (section.head and url and name) or page_of_place(name) is not None:
        return ""
    return f" [#]({place_link(url, name).translate(_IN_LINK)})"


def _by_pages(section: Section) -> Iterator[tuple[int | None, Section]]:
    """Yield the parts of a section's text by its pages, each with the number of its page."""
    pages = section_pages(section)
    if not pages or section.blocks:  # no PDF has blocks
        yield None, section
        return
    first = pages[0][0]
    if first:
        yield None, section._replace(text=section.text[:first], spans=())
    ends = [at for at, _ in pages[1:]]
    for (at, page), end in zip(pages, (*ends, len(section.text)), strict=True):
        yield page, section._replace(text=section.text[at:end], spans=())


class _SectionMarkdown:
    """The text of a section as Markdown."""

    def __init__(self, section: Section, base: can_ada.URL | None) -> None:
        self._section = section
        self._text = section.text
        self._inline = InlineText(section.text, section.spans, base)

    def parts(self) -> Iterator[str]:
        """Yield the blocks of the section and the text between them, in reading order."""
        lists = deque(block for block in self._section.blocks if block.kind == LIST)
        at = 0
        for block in self._section.blocks:
            if block.kind == LIST or block.start < at:
                continue
            yield from self._lines_between(at, block.start, lists)
            yield from self._table(block) if block.kind == TABLE else _fence(self._text, block)
            at = block.end
        yield from self._lines_between(at, len(self._text), lists)

    def _lines_between(self, at: int, end: int, lists: deque[Block]) -> Iterator[str]:
        """Yield the paragraphs and lists of a part of the text without code and tables.

        Lists that end before it are taken away, so that each is looked at once.
        """
        while lists and lists[0].end <= at:
            lists.popleft()
        for block in lists:
            start, stop = max(block.start, at), min(block.end, end)
            if block.start >= end:
                break
            if start < stop:
                yield from self._paragraphs(at, start)
                yield from self._items(start, stop)
                at = stop
        yield from self._paragraphs(at, end)

    def _paragraphs(self, start: int, end: int) -> Iterator[str]:
        """Yield paragraphs: what blank lines separate, or each line where there are none."""
        text = self._inline.part(start, end, alone="\n")
        lines = [line.strip() for line in text.strip("\n").split("\n")]
        separated = "" in lines
        paragraph: list[str] = []
        for line in [*lines, ""]:
            if line:
                paragraph.append(line)
            if paragraph and not (line and separated):
                escaped = escape_markdown("\n".join(paragraph))
                starts = map(escape_markdown_start, escaped.split("\n"))
                yield self._inline.filled("\n".join(starts))
                paragraph = []

    def _items(self, start: int, end: int) -> Iterator[str]:
        lines = [line.strip() for line in self._inline.part(start, end).split("\n")]
        items = [f"- {escape_markdown_start(escape_markdown(line))}" for line in lines if line]
        if items:
            yield self._inline.filled("\n".join(items))

    def _table(self, block: Block) -> Iterator[str]:
        """Yield the caption of a table, and its rows that have text; short ones are filled up."""
        yield from self._paragraphs(block.start, block.caption)
        rows = [[self._cell(*cell) for cell in row] for row in _rows(self._text, block)]
        head = rows.pop(0) if rows and block.head else []
        rows = [row for row in rows if any(row)]
        width = max(map(len, (head, *rows)))
        if not any(head) and not rows:
            return
        pads = width * len(rows) <= _MOST_PADDED
        body = [_table_row(row, width if pads else 0) for row in rows]
        yield "\n".join([_table_row(head, width), _table_row(["---"] * width, width), *body])

    def _cell(self, start: int, end: int) -> str:
        lines = (line.strip() for line in self._inline.part(start, end).split("\n"))
        escaped = escape_markdown("\n".join(filter(None, lines)), spaces=" \t")
        return self._inline.filled(escaped).replace("|", "\\|").replace("\n", "<br>")


def _fence(text: str, block: Block) -> Iterator[str]:
    code = clean_text(text[block.start : block.end])
    if code.strip():
        longest = max((len(run) for run in re.findall("`+", code)), default=0)
        fence = "`" * max(3, longest + 1)
        yield f"{fence}\n{code}\n{fence}"


def _rows(text: str, block: Block) -> Iterator[list[tuple[int, int]]]:
    """Yield the places of the cells of each row. All text of the block is in one of them."""
    at = block.caption or block.start
    if not block.rows:
        for line in text[at : block.end].split("\n"):
            cells: list[tuple[int, int]] = []
            for cell in line.split("\t"):
                cells.append((at, at + len(cell)))
                at += len(cell) + 1
            yield cells
        return
    for ends in block.rows:
        cells = []
        for end in ends:
            stop = min(max(at, end), block.end)
            cells.append((at, stop))
            at = stop
        yield cells
    if text[at : block.end].strip():
        yield [(at, block.end)]


def _table_row(cells: Sequence[str], width: int) -> str:
    padded = [*cells, *[""] * (width - len(cells))]
    return f"| {' | '.join(padded)} |"


_LONGEST: Final = 200  #: bytes of a name; file systems take 255
_DIGEST: Final = 12  #: hexadecimal digits that keep names apart
_LONG_DIGEST: Final = 32  #: so many that no search finds two equal ones
_PLAIN: Final = re.compile(r"[a-z0-9._-]+")
_DEVICE: Final = re.compile(r"(?:con|prn|aux|nul|(?:com|lpt)[\d¹²³])(?:\.|$)")  #: of Windows
_SCHEME: Final = re.compile(r"^[a-z][a-z0-9+.-]*://+", re.IGNORECASE)

REST: Final = "Pages"  #: the section of pages that are in no folder


def exported_file_name(url: str, ending: str = ".md", *, told_apart: bool = False) -> str:
    """Return a name for the file of a page: readable, in lower case, without separators.

    A name that lost something of the address has digits of its hash, so that no other address gets
    it; ``told_apart``: more of them in any case, because another page has the shorter name.

    >>> exported_file_name("https://docs.example.com/guide/install.html")
    'docs.example.com_guide_install.html.md'
    >>> exported_file_name("https://example.com/../A?b=1")
    'example.com_._a-b-1-23634b70808c.md'
    """
    address = _SCHEME.sub("", url).rstrip("/")
    readable = unicodedata.normalize("NFC", unquote(address, errors="replace").casefold())
    joined = "_".join(part for part in readable.split("/") if part)
    stem = re.sub(r"\.{2,}", ".", re.sub(r"[^\w.]+", "-", joined)).strip("-.") or "page"
    if _DEVICE.match(stem):
        stem = f"_{stem}"
    is_whole = stem == address.replace("/", "_") and _PLAIN.fullmatch(stem) is not None
    size = len(ending.encode())
    if is_whole and not told_apart and len(stem) + size <= _LONGEST:
        return stem + ending
    digits = _LONG_DIGEST if told_apart else _DIGEST
    digest = sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
    room = _LONGEST - size - digits - 1
    return f"{stem.encode()[:room].decode(errors='ignore')}-{digest}{ending}"


def export_folder_of_addresses(urls: Iterable[str]) -> str:
    """Return the folder that all addresses are in, without scheme, with ``/`` at its end.

    >>> export_folder_of_addresses(["https://a.example/3/x", "http://a.example/3/lib/y"])
    'a.example/3/'
    """
    common: str | None = None
    for url in urls:
        folder = _place(url).rpartition("/")[0] + "/"
        if common is None:
            common = folder
        while not folder.startswith(common):
            common = common[: common.rfind("/", 0, -1) + 1]
    return common or ""


def address_section(url: str, common: str) -> str:
    """Return the section of a page: the first folder below ``common``, else ``REST``.

    >>> address_section("https://a.example/3/lib/y", "a.example/3/")
    'lib'
    >>> address_section("https://a.example/3/x?a=/b", "a.example/3/")
    'Pages'
    """
    folder, slash, _ = _place(url)[len(common) :].partition("/")
    return unquote(folder) if slash and folder else REST


def _place(url: str) -> str:
    return re.split("[?#]", _SCHEME.sub("", url), maxsplit=1)[0]


#: An address in a link of llms.txt: readers look for the next parenthesis.
_IN_LINK: Final = str.maketrans({"(": "%28", ")": "%29", "<": "%3C", ">": "%3E", " ": "%20"})
_BRACKETS: Final = str.maketrans("[]", "()")
#: Keys that each object of JSON lines has; one of _BY_KIND is added.
_KEYS: Final = frozenset({"id", "source", "url", "title", "language", "lost"})
_BY_KIND: Final = frozenset({"markdown", "sort_order"})


def exported_markdown(page: ExportedPage, *, numbered: bool = False) -> str:
    """Return a page as Markdown, after front matter (YAML) with its address and title.

    Strings are written as JSON, which is YAML, too. ``numbered``: each page of a PDF begins with a
    link to it.
    """
    document = page.document
    fields = {
        "title": shown_title(document.title, page.url),
        "description": document.description,
        "language": document.language,
        "url": page.url,
        "source": page.source,
        "lastChanged": iso_time(page.last_changed),
        "published": iso_time(document.published),
        "author": document.author,
        "lost": page.is_lost or None,
    }
    lines = [f"{name}: {_json(value)}" for name, value in fields.items() if value]
    text = page_as_markdown(document, url=page.url, numbered=numbered)
    return "\n".join(["---", *lines, "---", "", text])


def exported_page_row(page: ExportedPage) -> dict[str, Any]:
    """Return a page as an object of JSON lines."""
    document = page.document
    return {
        "id": page.id,
        "source": page.source,
        "url": page.url,
        "title": shown_title(document.title, page.url),
        "description": document.description,
        "language": document.language,
        "lost": page.is_lost,
        "lastChanged": iso_time(page.last_changed),
        "published": iso_time(document.published),
        "author": document.author,
        "sections": [
            {"level": section.level, "heading": section.heading, "text": section.text}
            for section in document.sections
        ],
        "markdown": page_as_markdown(document, url=page.url),
    }


def exported_chunks(page: ExportedPage, size: ChunkSize) -> Iterator[dict[str, Any]]:
    """Yield the chunks of a page as objects of JSON lines, as the view ``documents`` has them."""
    document = page.document
    for number, chunk in enumerate(document_chunks(document, size) if document.sections else ()):
        yield {
            "id": page.id,
            "source": page.source,
            "url": page.url,
            "title": document.title,
            "language": document.language,
            "lost": page.is_lost,
            "sort_order": number,
            "path": chunk.path,
            "level": chunk.level,
            "types": list(chunk.types),
            "repeated": chunk.repeated,
            "hash": chunk.digest(document.title).hex(),
            "page": chunk.page,
            "section": chunk.section if chunk.page is None else "",
            "link": place_link(page.url, chunk.section),
            "text": chunk.text,
        }


def is_exported_line(line: bytes) -> bool:
    """Whether a line is an object of JSON lines: a page or a chunk.

    >>> is_exported_line(b"a poem\\n"), is_exported_line(b'{"id": "a"}\\n')
    (False, False)
    """
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.keys() >= _KEYS and bool(row.keys() & _BY_KIND)


def exported_listing_page(page: ExportedPage) -> str:
    """Return the line of a page in llms.txt.

    Source: llmstxt.org.
    """
    name = _listed((shown_title(page.document.title, page.url) or page.url).translate(_BRACKETS))
    notes = _listed(page.document.description)
    lost = "lost; " if page.is_lost else ""
    after = f": {lost}{notes}".rstrip("; ") if lost or notes else ""
    return f"- [{name}]({page.url.translate(_IN_LINK)}){after}\n"


def exported_listing_head(name: str, summary: str) -> str:
    """Return the beginning of llms.txt: title and summary."""
    return f"# {_listed(name)}\n\n> {_listed(summary)}\n"


def exported_listing_section(name: str) -> str:
    """Return the heading of a section of llms.txt."""
    return f"\n## {_listed(name)}\n\n"


def exported_text_of_page(page: ExportedPage) -> str:
    """Return a page as it is in llms-full.txt: its address, and its Markdown."""
    return f"Source: {page.url}\n\n{page_as_markdown(page.document, url=page.url)}"


def _listed(text: str) -> str:
    """Return text as one line of llms.txt; language models read tag characters in it."""
    return escaped_tags(text_as_markdown_line(text))


def _json(value: object) -> str:
    return json_safe_text(json.dumps(value, ensure_ascii=False))
