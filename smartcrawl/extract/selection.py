"""Parts of a page that an operator selects: known by their start tags, else marked before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import cssselect
from cssselect import parser as css
from lxml import etree

KEEP: Final = "data-smartcrawl-keep"
DROP: Final = "data-smartcrawl-drop"

_SPACES: Final = str.maketrans("\t\n\r", "   ")

#: Whether an element is selected, by its name and its attributes.
Picks = Callable[[str, Mapping[str, str]], bool]


class _Simple(NamedTuple):
    """A selector such as ``div.banner[role=alert]``; None stands for any name or value."""

    tag: str | None
    classes: tuple[str, ...]
    values: tuple[tuple[str, str | None], ...]

    def picks(self, tag: str, attributes: Mapping[str, str]) -> bool:
        """Whether it selects an element."""
        if self.tag not in (None, tag):
            return False
        for name, value in self.values:
            if name not in attributes or value not in (None, attributes[name]):
                return False
        if self.classes:
            words = attributes.get("class", "")
            for name in self.classes:
                if name not in words or name not in words.translate(_SPACES).split(" "):
                    return False
        return True


@cache
def picked_by(selectors: tuple[str, ...]) -> Picks | None:
    """Return what knows by its start tag whether one of ``selectors`` selects an element.

    None: one of them asks for what lies around an element. Such pages are read twice (``marked``),
    which takes half as long again.
    """
    parsed = [one for selector in selectors for one in cssselect.parse(selector)]
    simple = [_simple(one) for one in parsed]
    known = [one.picks for one in simple if one is not None]
    if len(known) < len(simple):
        return None
    if len(known) == 1:
        return known[0]
    return lambda tag, attributes: any(picks(tag, attributes) for picks in known)


def _simple(selector: css.Selector) -> _Simple | None:
    classes: list[str] = []
    values: list[tuple[str, str | None]] = []
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
    tag = tree.element.lower() if tree.element is not None else None
    return _Simple(tag, tuple(classes), tuple(values))


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
    return etree.XPath(cssselect.HTMLTranslator().css_to_xpath(selector))
