"""Template words that generators of pages write into a text, and that no element marks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_HEAD: Final = 16_384  #: characters in which a generator names itself
#: Class of the body in exports of Confluence, which names no generator.
_CONFLUENCE: Final = b"aui-theme-default"
#: Selectors of what is no text, by the name in ``<meta name=generator>``.
_CONTROLS: Final[Mapping[str, tuple[str, ...]]] = {
    "confluence": (".page-metadata",),
    "docusaurus": (
        ".theme-doc-breadcrumbs", ".theme-doc-footer", ".theme-doc-toc-desktop",
        ".theme-doc-toc-mobile", ".pagination-nav",
    ),
    "doxygen": (
        "#titlearea", ".navpath", ".summary", ".permalink", ".lineno", ".ttc", "address.footer",
    ),
    "rustdoc": (".rustdoc-breadcrumbs", "summary.hideme", "a.src", ".out-of-band"),
    "vitepress": ("span.lang", "button.copy"),
}  # fmt: skip
_FRAGMENT: Final = '<div class="fragment">'
_FRAGMENT_END: Final = "</div><!-- fragment -->"
_LINE: Final = '<div class="line">'
_TITLE: Final = re.compile(r'<div class="title">([^<]{1,500})</div>')


def page_generator(markup: str) -> str:
    """Return the generator that a page names, of those that need a word; else an empty text.

    >>> page_generator('<meta name="generator" content="Doxygen 1.9.4"/>')
    'doxygen'
    >>> page_generator('<meta content="rustdoc" name="generator">'), page_generator("<p>generator")
    ('rustdoc', '')
    """
    # Bytes have their small letters several times faster than a text that is not of ASCII.
    head = markup[:_HEAD].encode("utf-8", "surrogatepass").lower()
    at = head.find(b"generator")
    while at >= 0:
        start, end = head.rfind(b"<", 0, at), head.find(b">", at)
        tag = head[start : end if end >= 0 else len(head)]
        if tag.startswith(b"<meta"):
            return next((name for name in _CONTROLS if name.encode() in tag), "")
        at = head.find(b"generator", at + 1)
    return "confluence" if _CONFLUENCE in head else ""


def generator_controls(name: str) -> tuple[str, ...]:
    """Return the selectors of what is no text on the pages of a generator."""
    return _CONTROLS.get(name, ())


def generated_markup(name: str, markup: str) -> str:
    """Return the markup of a page with code and titles in elements that say so.

    Doxygen writes each line of code as a ``div``, and its titles, too.

    >>> generated_markup("doxygen", '<div class="fragment"><div class="line"> f();</div>\\n'
    ...                  '<div class="line">g();</div>\\n</div><!-- fragment -->')
    '<pre class="fragment"> f();\\ng();\\n</pre>'
    """
    if name != "doxygen":
        return markup
    written: list[str] = []
    at = 0
    while (start := markup.find(_FRAGMENT, at)) >= 0:
        end = markup.find(_FRAGMENT_END, start)
        if end < 0:
            break
        code = markup[start + len(_FRAGMENT) : end]
        lines = [
            line.removeprefix(_LINE).removesuffix("</div>")
            for line in code.split("\n")
            if not line.startswith('<div class="ttc"')
        ]
        written += (markup[at:start], '<pre class="fragment">', "\n".join(lines), "</pre>")
        at = end + len(_FRAGMENT_END)
    return _TITLE.sub(r"<h1>\1</h1>", "".join((*written, markup[at:])))
