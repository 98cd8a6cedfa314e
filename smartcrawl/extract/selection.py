"""Parts of a page that the operator selects: found by start tags, else marked in advance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

import cssselect
from cssselect import parser as css
from lxml import etree

KEEP: Final = "data-smartcrawl-keep"
DROP: Final = "data-smartcrawl-drop"

_SPACES: Final = str.maketrans("\t\n\r", "   ")

#: Whether an element is selected, by its name and its attributes.
Picks = Callable[[str, Mapping[str, str]], bool]


@cache
def css_element_check(selectors: tuple[str, ...]) -> Picks | None:
    """Return a check of start tags: whether one of ``selectors`` selects the element.

    None: one of them depends on the surroundings of an element. Such pages are read twice
    (``mark_css_selected``), which takes half as long again.
    """
    parsed = [one for selector in selectors for one in cssselect.parse(selector)]
    simple = [_simple(one) for one in parsed]
    known = [picks for picks in simple if picks is not None]
    if len(known) < len(simple):
        return None
    if len(known) == 1:
        return known[0]
    return lambda tag, attributes: any(picks(tag, attributes) for picks in known)


def _simple(selector: css.Selector) -> Picks | None:
    """Return the check of a selector such as ``div.banner[role=alert]``; None: of other kinds."""
    classes: list[str] = []
    values: list[tuple[str, str | None]] = []  # None: any
    tree = selector.parsed_tree
    while not isinstance(tree, css.Element):
        match tree:
            case css.Class():
                classes.append(tree.class_name)
            case css.Hash():
                values.append(("id", tree.id))
            case css.Attrib(namespace=None, operator="exists", flag=None):
                values.append((tree.attrib.lower(), None))
            case css.Attrib(namespace=None, operator="=", flag=None) if tree.value is not None:
                values.append((tree.attrib.lower(), tree.value.value))
            case _:
                return None
        tree = tree.selector
    if tree.namespace is not None or selector.pseudo_element is not None:
        return None
    name = tree.element.lower() if tree.element is not None else None
    return _picks(name, classes, values)


def _picks(name: str | None, classes: list[str], values: list[tuple[str, str | None]]) -> Picks:
    def picks(tag: str, attributes: Mapping[str, str]) -> bool:
        if name is not None and name != tag:
            return False
        for attribute, value in values:
            found = attributes.get(attribute)
            if found is None or (found != value and value is not None):
                return False
        if classes:
            words = attributes.get("class", "")
            for word in classes:
                if word not in words or word not in words.translate(_SPACES).split(" "):
                    return False
        return True

    return picks


def mark_css_selected(markup: str, keep: Sequence[str], drop: Sequence[str]) -> tuple[str, bool]:
    """Return ``markup`` with an attribute on every selected element, and whether any is to be kept.

    Broken markup is returned as libxml2 repairs it. Markup without a tree is returned as it is, and
    nothing of it is selected. The same applies where elements are nested too deep, because the tree
    would lack the deepest ones.
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
    return etree.XPath(cssselect.HTMLTranslator().css_to_xpath(selector))
