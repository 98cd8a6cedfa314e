"""The difference of two versions of a page, in the forms of ``smartcrawl diff``."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any, Final

from smartcrawl.model.redaction import escaped_text
from smartcrawl.reports.changes_text import how_much_changed
from smartcrawl.reports.text import report_noun

_STYLE: Final = """
body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
  color-scheme:light dark}
pre{white-space:pre-wrap;overflow-wrap:anywhere;margin:0;padding:0 .5rem}
.del{background:#fdd;color:#400}.ins{background:#dfd;color:#040}
.del b{background:#f99}.ins b{background:#9e9}b{font-weight:inherit}
"""


def diff_line_text(line: dict[str, Any]) -> str:
    """Return a line of a difference with its sign."""
    text = "".join(part["text"] for part in line["parts"])
    return f"{line['sign']}{diff_part_text(text)}"


def diff_part_text(text: str) -> str:
    """Return text of a page without characters that move a cursor, tabs left out."""
    return "\t".join(map(escaped_text, text.split("\t")))


def diff_limits(diff: dict[str, Any]) -> list[str]:
    """Return in sentences what a difference does not show."""
    said = []
    if diff["moreLines"]:
        said.append(f"{report_noun(diff['moreLines'], 'more changed line')} not shown.")
    if diff["coarse"]:
        said.append("Parts were too long to be compared line by line, and are shown as replaced.")
    if diff["cut"]:
        said.append("Only the first 8 MiB of each text are compared.")
    return said


def diff_head(diff: dict[str, Any]) -> str:
    """Return in a sentence which versions are compared, and how much changed."""
    before, after = diff["before"], diff["after"]
    if before == after:
        return f"has not changed since run {after['run']} ({after['at']})"
    much = how_much_changed(diff)
    return f"run {before['run']} ({before['at']}) to run {after['run']} ({after['at']}), {much}"


def diff_as_unified(diff: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a unified diff, without colours; nothing where nothing changed."""
    if not diff["hunks"]:
        return
    yield f"--- {diff['url']}\trun {diff['before']['run']}, {diff['before']['at']}"
    yield f"+++ {diff['url']}\trun {diff['after']['run']}, {diff['after']['at']}"
    for hunk in diff["hunks"]:
        yield diff_hunk_head(hunk)
        for line in hunk["lines"]:
            yield diff_line_text(line)


def diff_hunk_head(hunk: dict[str, Any]) -> str:
    """Return the line at the head of a hunk.

    >>> diff_hunk_head({"oldLine": 1, "oldLines": 0, "newLine": 1, "newLines": 3, "heading": "A"})
    '@@ -0,0 +1,3 @@ A'
    """
    old = hunk["oldLine"] - (not hunk["oldLines"])
    new = hunk["newLine"] - (not hunk["newLines"])
    place = f"@@ -{old},{hunk['oldLines']} +{new},{hunk['newLines']} @@"
    return f"{place} {hunk['heading']}".rstrip()


def diff_as_html(diff: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of a page of HTML; text of pages is escaped."""
    title = escape(diff["title"] or diff["url"])
    yield f'<!doctype html>\n<html>\n<meta charset="utf-8">\n<title>{title}</title>'
    yield f"<style>{_STYLE}</style>\n<h1>{title}</h1>"
    yield f"<p>{escape(diff['url'])}: {escape(diff_head(diff))}</p>"
    for hunk in diff["hunks"]:
        yield f"<h2>{escape(hunk['heading'] or 'Beginning')}</h2>"
        for line in hunk["lines"]:
            kind = {"+": ' class="ins"', "-": ' class="del"'}.get(line["sign"], "")
            parts = "".join(
                f"<b>{escape(part['text'])}</b>" if part["changed"] else escape(part["text"])
                for part in line["parts"]
            )
            yield f"<pre{kind}>{line['sign']} {parts}</pre>"
    for sentence in diff_limits(diff):
        yield f"<p>{escape(sentence)}</p>"
    yield "</html>"
