"""Documents of pages and plain texts: text, headings, links, images and metadata."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

import can_ada

from smartcrawl.extract.generators import (
    generated_markup,
    generator_controls,
    page_generator,
)
from smartcrawl.extract.images import document_images
from smartcrawl.extract.language import SAMPLE, detected_language, iso_639_1_language
from smartcrawl.extract.links import (
    MAX_LINKS,
    absolute_target,
    document_base_url,
    document_page_url,
    refresh_target_at_once,
    resolve_html_links,
)
from smartcrawl.extract.prose import article_surroundings, needs_boxes
from smartcrawl.extract.published import page_publication
from smartcrawl.extract.reader import (
    SeenMarkup,
    css_element_check,
    mark_css_selected,
    parse_markup,
    robots_meta_directives,
)
from smartcrawl.extract.sections import Span, markup_line, text_sections
from smartcrawl.extract.sniff import HTML_TYPES, TEXT_TYPES, decode_charset, sniffed_media_type
from smartcrawl.extract.spans import TokenSpan, counted_spans
from smartcrawl.model.documents import LINK, PICTURE, CountedSpans, Document, Image, Section
from smartcrawl.model.urls import join_url

__all__ = [
    "HTML_TYPES",
    "MAX_LINKS",
    "TEXT_TYPES",
    "parse_html",
    "parse_plain_text",
    "robots_meta_directives",
    "sniffed_media_type",
]

MAX_TITLE: Final = 200  #: characters of a title taken from plain text
_ENOUGH: Final = 200  #: characters of text that make ``<main>`` or ``<article>`` the text
#: What MediaWiki puts into lines and headings for those who write; no other wiki has these classes.
_WIKI_CONTROLS: Final = (".mw-editsection", ".mw-jump-link", ".mw-editsection-like")
_READ_TWICE: Final = 1_048_576  #: characters of a page that may be an article and does not say so
_SMALL: Final = 1_000  #: characters of a text that may be what is left of a page
_LOST: Final = 10  #: one part in so many of all text is little
_NOSCRIPT: Final = re.compile(r"</?noscript(?=[\s/>])[^<>]*>", re.IGNORECASE)
_PARTS: Final = re.compile(r"<(/?)(header|footer|nav|aside|div)(?=[\s/>])", re.IGNORECASE)
_SHARE: Final = 4  #: one part in so many of all text is enough, too


def parse_html(
    body: bytes,
    *,
    content_type: str,
    url: str,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    links: bool = True,
    detect: bool = True,
    routes: bool = False,
) -> Document:
    """Return the document of an HTML or XHTML page.

    ``content_type`` is the header as received, possibly empty; ``url`` is the one that answered.
    The body is parsed once, broken markup is repaired, and no body makes this fail. The text is
    that of ``<main>`` or of the only ``<article>``, if it is long enough, without navigation, page
    headers and the like, or of a ``<noscript>`` that holds the page; a page of nothing else keeps
    all its text. CSS selectors override this choice for text and images: only elements in ``keep``
    count, if the page has any, and none in ``drop``. Links are those of the whole page, absolute,
    http(s), distinct, unfiltered; without ``links`` there are none. Without ``detect`` the language
    is the declared one. With ``routes`` links keep their hash routes.

    Raises:
        ValueError: ``url`` is not absolute.

    Source: R0-17, R0-18, R0-59, R1-25, RD-15, G-02; ADR 132, 150.
    """
    page = document_page_url(url)
    if not (mime := sniffed_media_type(content_type, body)) or not body:
        return Document(content_type=mime)
    charset, markup, drop = _decoded(body, content_type, drop)
    read = partial(_parsed, keep=keep, links=links, routes=routes)
    markup, seen = _whole(markup, first := read(markup, drop=drop), partial(read, drop=drop))
    boxes = needs_boxes(seen) and len(markup) <= _READ_TWICE
    if boxes or seen.signs.wiki:
        seen = read(markup, drop=(*drop, *_WIKI_CONTROLS * seen.signs.wiki), boxes=boxes)
    base = document_base_url(url, first.base)
    excluded, text = _main_text(seen)
    found = resolve_html_links(seen.references.values(), base=base, page=page, routes=routes)
    declared = iso_639_1_language(seen.language)
    return Document(
        title=_title(seen),
        description=seen.description,
        language=detected_language(_sample(text), seen.language) if detect else declared,
        sections=text,
        counted=_counted(seen, excluded, base, page),
        images=_images(seen, base, page),
        links=found.links,
        links_cut=found.more or seen.cut,
        overlong=found.overlong,
        canonical=_canonical(seen.canonical, base, url, routes=routes),
        refresh=refresh_target_at_once(first.refresh or "", base, page, routes=routes),
        noindex=seen.noindex,
        nofollow=seen.nofollow,
        charset=charset,
        content_type=mime,
        declared=declared,
        keywords=seen.named_keywords,
        **page_publication(seen)._asdict(),
    )


def _decoded(
    body: bytes, content_type: str, drop: Sequence[str]
) -> tuple[str, str, tuple[str, ...]]:
    """Return charset and markup of a body, and what to drop: what its generator adds, too."""
    charset, markup = decode_charset(body, content_type, markup=True)
    generator = page_generator(markup)
    return charset, generated_markup(generator, markup), (*drop, *generator_controls(generator))


def _canonical(href: str | None, base: can_ada.URL, url: str, *, routes: bool) -> str | None:
    """Return the canonical address; that of a hash route's document is the same for all routes."""
    if not href:
        return None
    found = join_url(base, href, routes=routes)
    return None if "#" in url and found == url.partition("#")[0] else found


def _parsed(
    markup: str,
    keep: Sequence[str],
    drop: Sequence[str],
    *,
    links: bool,
    routes: bool,
    boxes: bool = False,
) -> SeenMarkup:
    """Parse markup of which the operator selected parts (``parse_markup``)."""
    drops = css_element_check(tuple(drop)) if drop and not keep else None
    marks, only_kept = bool(keep or drop) and drops is None, False
    if marks:
        markup, only_kept = mark_css_selected(markup, keep, drop)
    return parse_markup(
        markup.encode(),
        links=links,
        marked=marks,
        only_kept=only_kept,
        drops=drops,
        routes=routes,
        boxes=boxes,
    )


def parse_plain_text(body: bytes, *, content_type: str, url: str) -> Document:
    """Return the document of a plain text: one section in its layout, and no links.

    The title is the first line that is not blank, up to 200 characters. ``url`` does not matter.

    Source: R0-59, R0-46.
    """
    mime = sniffed_media_type(content_type, body)
    charset, text = decode_charset(body, content_type, markup=False)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    kept = "\n".join(row.rstrip() for row in text.split("\n")).strip("\n")
    if not kept:
        return Document(content_type=mime)
    return Document(
        title=markup_line(kept.partition("\n")[0])[:MAX_TITLE].rstrip(),
        language=detected_language(kept[:SAMPLE]),
        sections=(Section(0, "", kept),),
        charset=charset,
        content_type=mime,
    )


class DetectedLanguage(NamedTuple):
    """A language, and the digest of the sample that it was detected by."""

    sample: bytes
    language: str


def language_sample_digest(document: Document) -> bytes:
    """Return a digest (8 bytes) of the sample that decides a document's language.

    The sample is the beginning of its text, and the language that it declares.
    """
    text = _sample(document.sections)[:SAMPLE]
    declared = f"\0{document.declared}" if document.declared else ""
    sample = (text + declared).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(sample, digest_size=8).digest()


def with_detected_language(document: Document, stored: DetectedLanguage) -> Document:
    """Return a page that was read without ``detect`` with the language of its text.

    The stored language is kept where the sample is the same; otherwise the language is detected
    again.

    Source: R0-76.
    """
    if language_sample_digest(document) == stored.sample:
        return replace(document, language=stored.language)
    return replace(
        document, language=detected_language(_sample(document.sections), document.language)
    )


def keep_document_language(document: Document, stored: DetectedLanguage | None) -> Document:
    """Return a document with the stored language, where the sample is the same (R0-76)."""
    if stored is None or language_sample_digest(document) != stored.sample:
        return document
    return replace(document, language=stored.language)


def _title(seen: SeenMarkup) -> str:
    title = seen.titles.get("title") or seen.titles.get("og:title", "")
    if title:
        return title
    headings = [
        (level > 1, markup_line("".join(seen.tokens[start:end])))
        for start, end, level in seen.headings
    ]
    return next((text for _, text in sorted(headings, key=itemgetter(0)) if text), "")


def _images(seen: SeenMarkup, base: can_ada.URL, page: can_ada.URL) -> tuple[Image, ...]:
    images = seen.images.values()
    return document_images(images, base) if str(base) != str(page) else tuple(images)


def _counted(
    seen: SeenMarkup, excluded: Sequence[Span], base: can_ada.URL, page: can_ada.URL
) -> CountedSpans | None:
    spans = seen.spans if str(base) == str(page) else _absolute(seen.spans, base)
    return counted_spans(seen.tokens, seen.headings, excluded, spans)


def _absolute(spans: Iterable[TokenSpan], base: can_ada.URL) -> list[TokenSpan]:
    """Return spans with absolute addresses; those that lead to no page are left out."""
    found: list[TokenSpan] = []
    for start, end, kind, target, text, link in spans:
        if kind not in (LINK, PICTURE):
            found.append((start, end, kind, target, text, link))
        elif absolute := absolute_target(base, target):
            found.append((start, end, kind, absolute, text, absolute_target(base, link)))
    return found


def _whole(
    markup: str, seen: SeenMarkup, read: Callable[[str], SeenMarkup]
) -> tuple[str, SeenMarkup]:
    """Return markup as it is read, and what is in it; ``seen`` is that of the markup as written.

    Markup is read again where its text is in parts that do not end, or in ``<noscript>``.
    """
    if _is_lost(seen) and (closed := close_unclosed_parts(markup)) != markup:
        return closed, read(closed)
    if _is_in_noscript(seen):
        markup = _NOSCRIPT.sub("", markup)
        return markup, read(markup)
    return markup, seen


def _is_in_noscript(seen: SeenMarkup) -> bool:
    """Whether the page is in ``<noscript>``: it has next to no other text, and no mere notice."""
    there = markup_line(" ".join(seen.noscript))
    if len(there) < _ENOUGH or (len(there) < _SMALL and "javascript" in there.lower()):
        return False
    kept = [*seen.tokens]
    for start, end in (*seen.boilerplate, *seen.dropped):
        kept[start:end] = [""] * (end - start)
    return _LOST * len(markup_line("".join(kept))) < len(there)


def _is_lost(seen: SeenMarkup) -> bool:
    """Whether all but boilerplate is little: an element of it may not have ended."""
    if seen.kept or not seen.boilerplate:
        return False
    left = 0
    for start, end in _around(seen.boilerplate, len(seen.tokens)):
        for token in seen.tokens[start:end]:
            left += len(token)
            if left >= _SMALL:
                return False
    return _LOST * left < len("".join(seen.tokens))


def close_unclosed_parts(markup: str) -> str:
    """Return markup in which each header, footer, aside and nav ends the ``div`` elements in it.

    libxml2 ignores the end of such a part while a ``div`` in it is open; browsers close that.

    >>> close_unclosed_parts("<nav><div>Menu</nav><p>a")
    '<nav><div>Menu</div></nav><p>a'
    """
    written: list[str] = []
    open_: list[str] = []
    at = 0
    for found in _PARTS.finditer(markup):
        ends, tag = found[1], found[2].lower()
        if not ends:
            open_.append(tag)
        elif tag == "div":
            if open_[-1:] == ["div"]:
                open_.pop()
        elif tag in open_:
            written += (markup[at : found.start()], "</div>" * _unclosed(open_, tag))
            at = found.start()
    return "".join((*written, markup[at:]))


def _unclosed(open_: list[str], tag: str) -> int:
    """Close elements up to the innermost of a name; return how many ``div`` were among them."""
    count = 0
    while (last := open_.pop()) != tag:
        count += last == "div"
    return count


def _main_text(seen: SeenMarkup) -> tuple[list[Span], tuple[Section, ...]]:
    """Return what is excluded, and the text without it.

    It is the main region, else all without boilerplate, else all text. Of a page that looks like an
    article it lacks what stands around that (``article_surroundings``).
    """
    if seen.kept:
        excluded = seen.dropped + _around(seen.kept, len(seen.tokens))
        return excluded, _text_without(seen, excluded)
    excluded, text = _region_text(seen)
    if not text:
        return seen.dropped, _text_without(seen, seen.dropped)
    if more := article_surroundings(seen, excluded):
        less = [*excluded, *more]
        if shorter := _text_without(seen, less):
            return less, shorter
    return excluded, text


def _region_text(seen: SeenMarkup) -> tuple[list[Span], tuple[Section, ...]]:
    """Return what is excluded by its elements, and the text without it."""
    boilerplate = seen.boilerplate + seen.dropped
    regions = seen.mains or (seen.articles if len(seen.articles) == 1 else [])
    region: tuple[Section, ...] = ()
    around: list[Span] = []
    if regions:
        around = boilerplate + _around(regions, len(seen.tokens))
        region = _text_without(seen, around)
        if _size(region) >= _ENOUGH:
            return around, region
    text = _text_without(seen, boilerplate)
    if region and _SHARE * _size(region) >= _size(text):
        return around, region
    return boilerplate, text


def _text_without(seen: SeenMarkup, excluded: Sequence[Span]) -> tuple[Section, ...]:
    return text_sections(seen.tokens, seen.headings, excluded, seen.blocks)


def _around(spans: list[Span], end: int) -> list[Span]:
    edges = [0, *(edge for span in sorted(spans) for edge in span), end]
    return list(pairwise(edges))[::2]


def _size(text: tuple[Section, ...]) -> int:
    return sum(len(section.heading) + len(section.text) for section in text)


def _sample(text: tuple[Section, ...]) -> str:
    """Return enough of the text to detect its language."""
    parts: list[str] = []
    size = 0
    for section in text:
        parts += (section.heading, section.text[:SAMPLE])
        size += len(section.heading) + len(section.text)
        if size >= SAMPLE:
            break
    return "\n".join(parts)
