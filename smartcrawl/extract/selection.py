"""Parts of a page that an operator selects: marked in the markup before it is read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from cssselect import HTMLTranslator
from lxml import etree

KEEP: Final = "data-smartcrawl-keep"
DROP: Final = "data-smartcrawl-drop"


def marked(markup: str, keep: Sequence[str], drop: Sequence[str]) -> tuple[str, bool]:
    """Return ``markup`` with an attribute on every selected element, and whether any is to be kept.

    Broken markup comes back repaired, as libxml2 repairs it. What can have no tree comes back as it
    is, and nothing of it is selected; nor is it where elements are nested without end, for the tree
    would lack what lies deepest.
    """
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, no_network=True)
    try:
        root: Any = etree.fromstring(markup.encode(), parser)
    except (etree.XMLSyntaxError, ValueError):
        return markup, False
    if root is None or any(e.type_name == "ERR_RESOURCE_LIMIT" for e in parser.error_log):
        return markup, False
    kept = False
    for name, selectors in ((KEEP, keep), (DROP, drop)):
        for selector in selectors:
            for element in _path(selector)(root):
                element.set(name, "")
                kept = kept or name == KEEP
    text: str = etree.tostring(root, encoding="unicode", method="html", doctype="<!DOCTYPE html>")
    return text, kept


@cache
def _path(selector: str) -> Any:
    return etree.XPath(HTMLTranslator().css_to_xpath(selector))
