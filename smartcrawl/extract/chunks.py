"""The searchable parts of a document."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from smartcrawl.model.documents import (
    CHUNK_TYPES,
    DEFAULT_CHUNK_SIZE,
    DEFINITION,
    ID_KINDS,
    LIST,
    PICTURE,
    TABLE,
    Block,
    Chunk,
    ChunkPlace,
    ChunkSize,
    Document,
    Image,
    Section,
    is_linkable_id,
)
from smartcrawl.model.placed_spans import with_placed_points

if TYPE_CHECKING:
    from semantic_text_splitter import TextSplitter

_WHOLE: Final = 4  #: times the size of a chunk, up to which code and tables stay whole
_LEAD: Final = 4  #: one part in so many of a chunk may go before code or a table that is longer
_HEAD: Final = 4  #: one part in so many of a chunk may be several head rows that are repeated
_LEAST: Final = 3  #: one part in so many of a chunk is filled, at least, before the next begins
_LINE: Final = re.compile(r"\S.*")
_SENTENCE: Final = re.compile(r"\S(?:.*?[.!?。](?=\s)|.*)", re.DOTALL)
_PART: Final = 15_000  #: characters given to the splitter at once
_PICTURES: Final = 100_000  #: characters about the pictures of one chunk
_KEYWORDS: Final = 1_000  #: characters of the keywords of a page that are searched
MAX_PLACES: Final = 100  #: places of one chunk; later ones are in the last of these


def document_chunks(document: Document, size: ChunkSize = DEFAULT_CHUNK_SIZE) -> list[Chunk]:
    """Return the chunks of ``document`` in reading order.

    One for each section, with the headings above it, outermost first. A section over ``size.most``
    characters is cut at blank lines, lines, sentences or words, where the lines near to the cut say
    so. It loses only white space at the cuts.
    Code and tables stay whole up to four times that size. Longer ones are cut at blank lines, then
    at lines. Each part of a table begins with the rows that name the columns, if any. A heading
    without text is a chunk of its own, so that it can be found.

    What a page says of a picture is with the chunk in which the picture stands. Pictures around the
    text, such as a logo, do not count, unless the page has no text at all. The keywords of the page
    are with its first chunk.

    A chunk knows the places in it, first that in which it begins: the last id before it in its
    section, its heading's id, or that of a heading above.

    Source: R1-07, R1-13, G-05, R0-61; ADR 162.
    """
    if not document.sections:
        lines = [line for image in document.images for line in (image.alt, *_more_of(image))]
        return [Chunk((), "", pictures=words)] if (words := _joined(lines)) else []
    images = {image.src: image for image in document.images}
    found: list[Chunk] = []
    above: list[tuple[int, str, str]] = []
    document = with_placed_points(document)
    for section in document.sections:
        while above and above[-1][0] >= section.level:
            above.pop()
        places = section_places(section, above[-1][2] if above else "")
        if section.heading:
            above.append((section.level, section.heading, places[0].id if places else ""))
        path = tuple(name for _, name, _ in above)
        text, level = section.text, section.level
        pictures = _pictures(section, images) if images else []
        if len(text) <= size.most:
            types = _types(section, 0, len(text))
            said = _joined(line for _, line in pictures)
            found.append(Chunk(path, text, level, types, 0, said, tuple(places[:MAX_PLACES])))
            continue
        pieces = list(_overlapping(text, _packed(list(_pieces(section, size)), size), size))
        for piece, of_piece in zip(pieces, _of_pieces(pictures, pieces), strict=True):
            types = _types(section, piece.start, piece.end)
            own = text[piece.start : piece.end]
            repeated = len(piece.before)
            there = places_between(places, piece.start - repeated, piece.end)
            said = _joined(of_piece)
            found.append(Chunk(path, piece.before + own, level, types, repeated, said, there))
    return _with_keywords(found, document.keywords)


def _with_keywords(chunks: list[Chunk], keywords: str) -> list[Chunk]:
    """Return chunks of which the first one has the keywords of their page."""
    if not chunks or not keywords:
        return chunks
    first = chunks[0]
    words = _joined((keywords[:_KEYWORDS], first.pictures))
    return [first._replace(pictures=words), *chunks[1:]]


def section_places(section: Section, above: str = "") -> list[ChunkPlace]:
    """Return the places of a section's text by their start, first that of its heading.

    ``above``: the id of the heading above it, by which a section without an id is found. Ids to
    which no address leads are left out.
    """
    heads = [span for span in section.head if span.kind in ID_KINDS and is_linkable_id(span.target)]
    found: list[ChunkPlace] = []
    if heads:
        found.append(ChunkPlace(0, heads[-1].target, heads[-1].kind == DEFINITION))
    elif above:
        found.append(ChunkPlace(0, above))
    for span in section.spans:
        if span.kind in ID_KINDS and is_linkable_id(span.target):
            place = ChunkPlace(span.start, span.target, span.kind == DEFINITION)
            if not (found and found[-1].defines and found[-1].start == place.start):
                found.append(place)
    return found


def places_between(places: Sequence[ChunkPlace], start: int, end: int) -> tuple[ChunkPlace, ...]:
    """Return the places of a part of a section's text, first that in which it begins.

    >>> places_between([ChunkPlace(0, "a"), ChunkPlace(9, "b"), ChunkPlace(12, "c")], 10, 12)
    (ChunkPlace(start=0, id='b', defines=False),)
    """
    first = max(bisect_right(places, start, key=_start_of) - 1, 0) if start > 0 else 0
    some = places[first : bisect_left(places, max(end, start + 1), key=_start_of)][:MAX_PLACES]
    return tuple(
        place._replace(start=max(at := place.start - start, 0), defines=place.defines and at >= 0)
        for place in some
    )


_start_of: Final = attrgetter("start")


def _pictures(section: Section, images: Mapping[str, Image]) -> list[tuple[int, str]]:
    """Return the descriptions of the pictures of a section, each with its place in the text.

    What the section itself says is left out: its caption, or the heading above it.
    """
    found: list[tuple[int, str]] = []
    said = ""
    for at, span in (
        *((0, span) for span in section.head if span.kind == PICTURE),
        *((span.start, span) for span in section.spans if span.kind == PICTURE),
    ):
        found.append((at, span.text))
        if (image := images.get(span.target)) is None:
            continue
        said = said or " ".join(f"{section.heading} {section.text}".split())
        found += ((at, line) for line in _more_of(image) if line not in said)
    return found


def _more_of(image: Image) -> tuple[str, ...]:
    return image.title, image.context


def _of_pieces(pictures: Iterable[tuple[int, str]], pieces: Sequence[_Piece]) -> list[list[str]]:
    """Return the lines about pictures of each piece: the last one that begins before a picture."""
    starts = [piece.start for piece in pieces]
    found: list[list[str]] = [[] for _ in pieces]
    for at, line in pictures:
        found[max(bisect_right(starts, at) - 1, 0)].append(line)
    return found


def _joined(lines: Iterable[str]) -> str:
    """Return different lines as one text."""
    return "\n".join(dict.fromkeys(filter(None, lines)))[:_PICTURES]


class _Piece(NamedTuple):
    """A part of a section's text, from ``start`` to before ``end``."""

    start: int
    end: int
    whole: bool = False  #: code or a table, or a part of it
    before: str = ""  #: text that is repeated before it


def _pieces(section: Section, size: ChunkSize) -> Iterator[_Piece]:
    """Yield the pieces of a section: cut text, whole code and tables."""
    at = 0
    for block in section.blocks:
        if block.kind == LIST or block.start < at:
            continue
        yield from _cut_text(section.text, at, block.start, size)
        if block.end - block.start <= _WHOLE * size.most:
            yield _Piece(block.start, block.end, whole=True)
        elif block.kind == TABLE:
            yield from _cut_table(section.text, block, size)
        else:
            yield from _cut_lines(section.text, block.start, block.end, size, blank=True)
        at = block.end
    yield from _cut_text(section.text, at, len(section.text), size)


def _cut_text(text: str, start: int, end: int, size: ChunkSize) -> Iterator[_Piece]:
    """Yield pieces of a text between code and tables, without white space at their ends.

    A piece ends before the line that has the smallest hash among those that may begin the next one,
    of these one after a blank line if there is any. So a change in the text moves the ends near to
    it, and not all the following ones.
    """
    most = size.most - size.overlap
    if end - start <= most:
        found = text[start:end].strip()
        if found:
            first = text.index(found, start, end)
            yield _Piece(first, first + len(found))
        return
    lines = _text_lines(text, start, end, most)
    at = 0
    while at < len(lines.starts):
        stop = _next_start(text, lines, at, most)
        yield _Piece(lines.starts[at], lines.ends[stop - 1])
        at = stop


class _Lines(NamedTuple):
    """Lines of a text that are not blank, without white space at their ends.

    Of a line that is too long each sentence is one.
    """

    starts: list[int]
    ends: list[int]
    after_blank: list[bool]  #: whether a blank line is before it


def _text_lines(text: str, start: int, end: int, most: int) -> _Lines:
    """Return the lines of a part of a text, in parts of at most ``most``."""
    lines = _Lines([], [], [])
    last, breaks = start, 1  # more line ends than those are a blank line
    for line in _LINE.finditer(text, start, end):
        first = line.start()
        stop = first + len(line[0].rstrip())
        if stop - first <= most:
            lines.starts.append(first)
            lines.ends.append(stop)
            lines.after_blank.append(
                first - last >= breaks and text.count("\n", last, first) >= breaks
            )
        else:
            for part_start, part_end in _long_line(text, first, stop, most):
                lines.starts.append(part_start)
                lines.ends.append(part_end)
                lines.after_blank.append(False)
        last, breaks = line.end(), 2
    return lines


def _long_line(text: str, start: int, end: int, most: int) -> Iterator[tuple[int, int]]:
    """Yield the sentences of a line; of a sentence that is too long, its parts."""
    for sentence in _SENTENCE.finditer(text, start, end):
        first, stop = sentence.span()
        if stop - first <= most:
            yield first, stop
            continue
        for part_start, part_end in _parts(text, first, stop):
            for offset, piece in _splitter(most).chunk_indices(text[part_start:part_end]):
                yield part_start + offset, part_start + offset + len(piece)


def _next_start(text: str, lines: _Lines, at: int, most: int) -> int:
    """Return the line that begins the piece after the one that begins with the line ``at``.

    The lines at which it may begin are those that leave the piece neither too short nor too long.
    """
    starts, ends, after_blank = lines
    begin = starts[at]
    stop = bisect_right(ends, begin + most, at)
    if stop == len(ends):
        return stop
    least = bisect_left(ends, begin + most // _LEAST, at) + 1
    places: Sequence[int] = range(max(least, at + 1), stop + 1)
    if not places:
        return max(stop, at + 1)
    if any(after_blank[least : stop + 1]):
        places = [place for place in places if after_blank[place]]
    return min(places, key=lambda place: (_key(text[starts[place] : ends[place]]), -place))


def _key(text: str) -> int:
    return crc32(text.encode(errors="surrogatepass"))


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield parts cut at lines, else at words: the splitter's time grows with their square."""
    while end - start > _PART:
        stop = start + _PART
        cut = max(text.rfind("\n", start, stop), 0) or max(text.rfind(" ", start, stop), 0)
        cut = cut if cut > start else stop
        yield start, cut
        start = cut
    yield start, end


def _cut_table(text: str, block: Block, size: ChunkSize) -> Iterator[_Piece]:
    """Yield parts of a table, those after its head with the rows that name the columns."""
    start, end = _head_place(text, block, size)
    head = text[start:end]
    for piece in _cut_lines(text, block.start, block.end, size, less=len(head)):
        yield piece if piece.start < end else piece._replace(before=head)


def _head_place(text: str, block: Block, size: ChunkSize) -> tuple[int, int]:
    """Return the place of the lines that each part of a table repeats.

    These are all rows that name the columns, if they are short. Otherwise it is the first of them,
    if a chunk can hold it.
    """
    start = block.caption or block.start
    if block.head:
        for rows, most in ((block.head, size.most // _HEAD), (1, size.most)):
            last = block.rows[:rows][-1][-1] if block.rows else start
            end = text.find("\n", last, block.end) + 1
            if start < end <= start + most:
                return start, end
    return start, start


def _cut_lines(
    text: str, start: int, end: int, size: ChunkSize, *, less: int = 0, blank: bool = False
) -> Iterator[_Piece]:
    """Yield parts of code or a table, cut at blank lines if these are near enough, else at lines.

    A line that is longer than a part is cut anywhere. ``less``: characters that each part needs for
    other text.
    """
    most = _WHOLE * size.most - less
    while end - start > most:
        stop = start + most
        cut = text.rfind("\n\n", start + most // 2, stop) if blank else -1
        if cut < 0:
            cut = text.rfind("\n", start + 1, stop + 1)
        yield _Piece(start, cut if cut > 0 else stop, whole=True)
        start = cut if cut > 0 else stop
        while start < end and text[start] == "\n":
            start += 1
    if start < end:
        yield _Piece(start, end, whole=True)


def _packed(pieces: Sequence[_Piece], size: ChunkSize) -> Iterator[_Piece]:
    """Yield neighbours as one piece where they fit, and a short text with the code it leads to."""
    most = size.most - size.overlap
    last: _Piece | None = None
    for piece in pieces:
        if last is None or piece.before or not (piece.whole or last.whole):
            pass  # text is cut already
        elif piece.end - last.start <= most or (
            piece.whole
            and not last.whole
            and last.end - last.start <= most // _LEAD
            and piece.end - last.start <= _WHOLE * size.most
        ):
            last = last._replace(end=piece.end, whole=piece.whole)
            continue
        if last is not None:
            yield last
        last = piece
    if last is not None:
        yield last


def _overlapping(text: str, pieces: Iterator[_Piece], size: ChunkSize) -> Iterator[_Piece]:
    """Yield pieces with the end of the text before them, as far as they may overlap."""
    if not size.overlap:
        yield from pieces
        return
    for last, piece in pairwise((None, *pieces)):
        if piece is None:
            continue
        is_long = piece.end - piece.start > size.most - size.overlap
        if last is None or piece.before or is_long:
            yield piece
            continue
        start = max(last.start, piece.start - size.overlap)
        while start < piece.start and start > last.start and not text[start - 1].isspace():
            start += 1
        yield piece._replace(before=text[start : piece.start])


def _types(section: Section, start: int, end: int) -> tuple[str, ...]:
    """Return the types of the text from ``start`` to before ``end``."""
    inside = [block for block in section.blocks if block.start < end and start < block.end]
    if not inside:
        return _TEXT
    kinds = {block.kind for block in inside}
    at = start
    for block in inside:
        if section.text[at : block.start].strip():
            kinds.add("text")
            break
        at = max(at, block.end)
    else:
        if section.text[at:end].strip():
            kinds.add("text")
    return tuple(kind for kind in CHUNK_TYPES if kind in kinds)


_TEXT: Final = ("text",)


@lru_cache(8)
def _splitter(most: int) -> TextSplitter:
    from semantic_text_splitter import TextSplitter  # noqa: PLC0415  # most commands cut nothing

    return TextSplitter(most)
