"""The elements of HTML, by their meaning for the text of a page."""

from __future__ import annotations

from typing import Final

# fmt: off

#: Elements without text of the page, or without visible text.
MUTED: Final = frozenset({
    "annotation", "annotation-xml", "iframe", "noembed", "noframes", "noscript", "script", "style",
    "svg", "template", "title",
})
#: Boilerplate, within a line.
CONTROLS: Final = frozenset({"button", "datalist", "option", "select", "textarea"})
#: Boilerplate, as a block.
ASIDES: Final = frozenset({"aside", "nav", "search"})
#: Boilerplate unless they belong to ``<main>`` or an ``<article>``.
EDGES: Final = frozenset({"footer", "header"})
#: Blocks that are boilerplate by their class or id.
CONTAINERS: Final = frozenset({
    "center", "details", "div", "dl", "form", "ol", "section", "table", "ul",
})
BLOCKS: Final = frozenset({
    "address", "blockquote", "body", "br", "caption", "dd", "dialog", "dir", "dt", "fieldset",
    "figcaption", "figure", "frameset", "hgroup", "hr", "legend", "li", "menu", "optgroup", "p",
    "summary", "tbody", "tfoot", "thead",
})
CELLS: Final = frozenset({"td", "th"})
#: Elements in which white space counts.
LAID_OUT: Final = frozenset({"listing", "pre", "xmp"})
#: Level of a heading by its tag.
HEADINGS: Final = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}

#: ARIA roles of boilerplate.
ROLES: Final = frozenset({"banner", "complementary", "contentinfo", "navigation", "search"})
#: Words in class and id of containers that are boilerplate on any site.
WORDS: Final = frozenset({
    "breadcrumb", "breadcrumbs", "cookie-banner", "cookie-consent", "menu", "nav", "navbar",
    "navfooter", "navheader", "navigation", "related", "sidebar", "sphinxsidebar", "toc",
})
#: Text of links from a heading to itself.
PERMALINKS: Final = frozenset({"#", "¶", "§", "\u200b", "\uf0c1", "🔗"})
