"""Reported changes in words, as Markdown, and as an Atom feed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from html import escape
from itertools import groupby
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from smartcrawl.model.exceptions import UsageError
from smartcrawl.model.markdown import escape_all_markdown
from smartcrawl.model.redaction import redacted_line
from smartcrawl.model.setting_values import MOST_NUMBER
from smartcrawl.reports.changes import ChangeKind, Since, SinceRun, SinceTime
from smartcrawl.reports.text import report_noun

FEED_TYPE: Final = "application/atom+xml"
_SHOWN: Final = 3  #: headings in a sentence
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:\d\d))?")
#: XML 1.0 has none of these characters, not even as entities.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse_changes_since(text: str) -> Since:
    """Return what ``last``, the number of a run, or a date or time in ISO 8601 means.

    >>> parse_changes_since("last"), parse_changes_since("12")
    (None, SinceRun(run=12))
    >>> parse_changes_since("2026-11-30"), parse_changes_since("1970-01-01T01:00:00+01:00")
    (SinceTime(at=1795996800), SinceTime(at=0))

    Raises:
        UsageError: it is none of them.
    """
    if text == "last":
        return None
    if text.isascii() and text.isdigit() and 0 < int(text) <= MOST_NUMBER:
        return SinceRun(int(text))
    if _ISO.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text if "T" in text else f"{text}T00:00:00Z")
        except ValueError:
            pass  # such as the 30th of February
        else:
            return SinceTime(int(moment.timestamp()))
    raise UsageError(
        f"{redacted_line(text)!r} is not a run or a time: give its number, last, or a date or time"
        " such as 2026-11-30 or 2026-11-30T08:00:00Z"
    )


def change_share_text(share: float) -> str:
    """Return a share of a text.

    >>> change_share_text(0.256), change_share_text(0.004), change_share_text(0)
    ('26 %', 'less than 1 %', '0 %')
    """
    return "less than 1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"


def how_much_changed(change: dict[str, Any]) -> str:
    """Return how much of a page changed; empty: it is not known, or another kind of change.

    >>> how_much_changed({"share": 0.12, "wordsAdded": 1200, "wordsRemoved": 1})
    '12 %: +1,200 -1 words'
    """
    if change["share"] is None:
        return ""
    words = f"+{change['wordsAdded']:,} -{change['wordsRemoved']:,} words"
    return f"{change_share_text(change['share'])}: {words}"


def where_it_changed(change: dict[str, Any], shown: int = _SHOWN) -> str:
    """Return below which headings a page changed, or what else is to be said of a change."""
    kind = change["kind"]
    if kind == ChangeKind.SHARED:
        lines = [f"{line['sign']} {line['text']}" for line in change["lines"][: 2 * shown]]
        more = len(change["lines"]) - len(lines) + change["moreLines"]
        return "; ".join([*lines, *([f"{more:,} more"] if more else [])])
    if kind == ChangeKind.MOVED:
        why = f": {change['why']}" if change["why"] else ""
        return f"before {change['formerUrl']}{why}"
    parts = []
    if change["formerTitle"] is not None:
        parts.append(f"its title was {change['formerTitle']!r}")
    names = [heading["heading"] or "before the first heading" for heading in change["headings"]]
    more = len(names[shown:]) + change["moreHeadings"]
    parts += names[:shown]
    if more:
        parts.append(f"{report_noun(more, 'more heading')}")
    return "; ".join(parts) or (change["why"] or "")


def change_title(change: dict[str, Any]) -> str:
    """Return a change in one line, without where it is."""
    if change["kind"] == ChangeKind.SHARED:
        return f"{report_noun(change['pages'], 'page')} at once"
    return change["title"] or change["url"] or ""


def changes_as_markdown(changes: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a page of Markdown: a section for each run, and a list for each kind.

    Text of pages is escaped, so that it stays text.
    """
    none = True
    for (source, run), of_run in groupby(changes, lambda one: (one["source"], one["run"])):
        if not none:
            yield ""
        none = False
        yield f"## {escape_all_markdown(source)}, run {run}"
        for kind, of_kind in groupby(of_run, lambda one: one["kind"]):
            yield ""
            yield (
                "### On many pages at once"
                if kind == ChangeKind.SHARED
                else f"### {kind.capitalize()}"
            )
            yield ""
            for change in of_kind:
                yield from _as_markdown(change)
    if none:
        yield "Nothing changed."


def _as_markdown(change: dict[str, Any]) -> Iterator[str]:
    if change["kind"] == ChangeKind.SHARED:
        for line in change["lines"]:
            sign = "added to" if line["sign"] == "+" else "removed from"
            pages = report_noun(line["pages"], "page")
            yield f"- {sign} {pages}: {escape_all_markdown(line['text'])}"
        if change["moreLines"]:
            yield f"- {report_noun(change['moreLines'], 'more line')}"
        return
    target = str(change["url"]).replace(">", "%3E").replace("<", "%3C")
    said = [how_much_changed(change), escape_all_markdown(where_it_changed(change))]
    more = "; ".join(part for part in said if part)
    title = escape_all_markdown(change_title(change))
    yield f"- [{title}](<{target}>)" + (f": {more}" if more else "")


class FeedAddresses(NamedTuple):
    """The addresses of a feed; empty: it is written into a file."""

    own: str = ""  #: of the feed
    page: str = ""  #: of what it is about


def changes_as_atom(
    source: str,
    changes: Sequence[dict[str, Any]],
    updated: str,
    addresses: FeedAddresses = FeedAddresses(),  # noqa: B008  # immutable
) -> str:
    """Return an Atom feed of changes (RFC 4287); ``updated``: its time where nothing changed.

    A feed of several sources has an empty ``source``. Equal changes have equal ids, so that a
    reader shows each once.
    """
    latest = max((change["at"] for change in changes), default=updated)
    named = source or "all sources"
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<id>{_id('feed', source)}</id>",
        f"<title>{_xml(f'What changed in {named}')}</title>",
        f"<updated>{latest}</updated>",
        "<author><name>smartcrawl</name></author>",
        "<generator>smartcrawl</generator>",
    ]
    if addresses.own:
        lines.append(f'<link rel="self" type="{FEED_TYPE}" href="{_xml(addresses.own)}"/>')
    if addresses.page:
        lines.append(f'<link rel="alternate" type="text/html" href="{_xml(addresses.page)}"/>')
    for change in changes:
        lines += _entry(change)
    return "\n".join([*lines, "</feed>", ""])


def _entry(change: dict[str, Any]) -> list[str]:
    place = (change["source"], change["run"], change["kind"], change["url"], change["at"])
    link = f'<link rel="alternate" href="{_xml(change["url"])}"/>' if change["url"] else ""
    title = f"{change['kind']}: {change_title(change)}"
    return [
        "<entry>",
        f"<id>{_id(*place)}</id>",
        f"<title>{_xml(title)}</title>",
        f"<updated>{change['at']}</updated>",
        *([link] if link else []),
        f'<category term="{_xml(change["kind"])}"/>',
        f'<content type="html">{_xml(_content(change))}</content>',
        "</entry>",
    ]


def _content(change: dict[str, Any]) -> str:
    """Return a change as HTML; text of pages is escaped in it."""
    parts = []
    if change["kind"] != ChangeKind.SHARED:  # its lines say all
        parts = [how_much_changed(change), where_it_changed(change, len(change["headings"]))]
    html = "".join(f"<p>{escape(part)}</p>" for part in parts if part)
    if not change["lines"]:
        return html or f"<p>{escape(change['kind'])}</p>"
    tags = {"+": "ins", "-": "del"}
    lines = [
        f"<li><{tags[line['sign']]}>{escape(line['text'])}</{tags[line['sign']]}></li>"
        for line in change["lines"]
    ]
    if change["moreLines"]:
        lines.append(f"<li>{report_noun(change['moreLines'], 'more line')}</li>")
    return f"{html}<ul>{''.join(lines)}</ul>"


def _id(*parts: object) -> str:
    return f"urn:uuid:{uuid5(NAMESPACE_URL, 'smartcrawl:' + repr(parts))}"


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub("\ufffd", text))
