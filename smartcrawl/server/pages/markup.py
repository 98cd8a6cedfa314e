"""Markup made of values: times, crawled texts, highlights and links. All else are templates.

Pictures of ``reports.page_chart`` are markup by themselves: all their texts are escaped there.

Crawled text is hostile. It gets into a page by these functions, or escaped by the templates: never
as markup of its own, never as an address but one of http or https, never with characters that turn
or hide the text around it, and always where htmx looks for no attributes (``hx-disable``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from markupsafe import Markup, escape

from smartcrawl.model.redaction import visible_text
from smartcrawl.model.times import iso_time
from smartcrawl.reports.text import report_time_span

#: Marks that an index puts around the words found, where its answer becomes a page. No text of a
#: page has them: they are controls.
FOUND_MARKS: Final = ("\x02", "\x03")
_FOUND: Final = re.compile("{0}([^{0}{1}]*){1}".format(*FOUND_MARKS))
#: A foreign site learns neither from which page the reader comes, nor that it is recommended.
_REL: Final = "noreferrer noopener nofollow"
_MOMENT: Final = 2  #: seconds that count as now


def crawled_text(text: object) -> Markup:
    """Return a text of somewhere else on one line, in its own direction.

    >>> crawled_text("<b>a\\u202eb")
    Markup('<bdi dir="auto" hx-disable>&lt;b&gt;a\\\\u202eb</bdi>')
    """
    return Markup('<bdi dir="auto" hx-disable>{}</bdi>').format(_seen(str(text)))


def crawled_lines(text: str) -> Markup:
    """Return a text of several lines, with its lines.

    >>> crawled_lines("a\\nb")
    Markup('<bdi dir="auto" hx-disable class="lines">a\\nb</bdi>')
    """
    lines = "\n".join(visible_text(line) for line in text.splitlines())
    return Markup('<bdi dir="auto" hx-disable class="lines">{}</bdi>').format(lines)


def highlighted_text(text: str) -> Markup:
    """Return a text with the words found, which ``FOUND_MARKS`` surround.

    >>> highlighted_text("one \\x02<two>\\x03 three")
    Markup('<bdi dir="auto" hx-disable>one <mark>&lt;two&gt;</mark> three</bdi>')
    """
    parts = _FOUND.split(text)
    shown = [
        Markup("<mark>{}</mark>").format(_seen(part, trimmed=False))
        if number % 2
        else escape(_seen(part, trimmed=False))
        for number, part in enumerate(parts)
    ]
    return Markup('<bdi dir="auto" hx-disable>{}</bdi>').format(Markup("").join(shown))


def compared_text(parts: Sequence[Mapping[str, object]]) -> Markup:
    """Return a line of a difference, whose changed parts stand out if others are the same.

    >>> compared_text([{"text": "a ", "changed": False}, {"text": "<b>", "changed": True}])
    Markup('<bdi dir="auto" hx-disable>a <em>&lt;b&gt;</em></bdi>')
    """
    whole = all(part["changed"] for part in parts)
    texts = [(_seen(str(part["text"]), trimmed=False), part["changed"]) for part in parts]
    shown = [
        Markup("<em>{}</em>").format(text) if is_changed and not whole else escape(text)
        for text, is_changed in texts
    ]
    return Markup('<bdi dir="auto" hx-disable>{}</bdi>').format(Markup("").join(shown))


def _seen(text: str, *, trimmed: bool = True) -> str:
    """Return a text without what is not seen, and with single spaces."""
    spaced = re.sub(r"[\t\n\r\f\v ]+", " ", text)
    return visible_text(spaced.strip() if trimmed else spaced)


def outside_link(url: str, label: object = None) -> Markup:
    """Return a link to an address of somewhere else; only http and https are linked.

    >>> outside_link("javascript:alert(1)")
    Markup('<bdi dir="auto" hx-disable>javascript:alert(1)</bdi>')
    >>> outside_link("https://a.example/", Markup("A"))
    Markup('<a href="https://a.example/" rel="noreferrer noopener nofollow">A</a>')
    """
    shown = label if isinstance(label, Markup) else crawled_text(url if label is None else label)
    if not is_outside_address(url):
        return shown
    return Markup('<a href="{}" rel="{}">{}</a>').format(url, _REL, shown)


def is_outside_address(url: str) -> bool:
    """Whether an address may be linked: one of http or https, with a host."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def time_element(moment: float | str | None, now: float) -> Markup:
    """Return a time, relative to now, with the exact one as its title.

    ``moment``: Unix seconds, or text as of ``iso_time``; None: a dash.

    >>> time_element(1705744800, 1705744800 + 7200)
    Markup('<time datetime="2024-01-20T10:00:00Z" title="2024-01-20 10:00:00 UTC">2 h ago</time>')
    """
    if moment is None:
        return Markup("–")
    seconds = datetime.fromisoformat(moment).timestamp() if isinstance(moment, str) else moment
    exact = iso_time(seconds) or ""
    title = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    markup = Markup('<time datetime="{}" title="{}">{}</time>')
    return markup.format(exact, title, relative_time(seconds, now))


def relative_time(seconds: float, now: float) -> str:
    """Return how long ago a time was, or in how long it will be.

    >>> relative_time(0, 200), relative_time(200, 0), relative_time(0, 1)
    ('3 min ago', 'in 3 min', 'now')
    """
    past = now - seconds
    if abs(past) < _MOMENT:
        return "now"
    span = report_time_span(int(abs(past)))
    return f"{span} ago" if past > 0 else f"in {span}"


def exact_time(moment: str) -> Markup:
    """Return a time, as of ``iso_time``, to the second.

    >>> exact_time("2024-01-20T10:00:00Z")
    Markup('<time datetime="2024-01-20T10:00:00Z">2024-01-20 10:00:00</time>')
    """
    shown = datetime.fromisoformat(moment).astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return Markup('<time datetime="{}">{}</time>').format(moment, shown)


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun.

    >>> counted(1, "page"), counted(1234, "page"), counted(2, "entry", "entries")
    ('1 page', '1,234 pages', '2 entries')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def page_markup_filters(clock: Callable[[], float]) -> dict[str, Callable[..., object]]:
    """Return the filters of templates by their names."""
    return {
        "crawled": crawled_text,
        "crawled_lines": crawled_lines,
        "highlighted": highlighted_text,
        "compared": compared_text,
        "outside": outside_link,
        "is_outside": is_outside_address,
        "when": lambda moment: time_element(moment, clock()),
        "utc": exact_time,
        "counted": counted,
        "number": lambda value: f"{value:,}",
    }
