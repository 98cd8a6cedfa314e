"""The pages of a login: its form, and the proof that pages show to those who are logged in."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, NamedTuple

import cssselect
from lxml import etree, html

from smartcrawl.extract.sniff import HTML_TYPES, decode_charset, sniffed_media_type

#: Of a page, the first part that is searched for the proof: an eighth, and at least so much.
_PARTS: Final = 8
_BEGINNING: Final = 4_096  #: characters
#: Of a selector that may match in the beginning of a page and not in the whole: ``:last-child``.
_LOOKS_AHEAD: Final = re.compile("[:!]")


class LoginForm(NamedTuple):
    """The form that logs in, as a browser would send it."""

    url: str
    method: str  #: GET or POST
    values: tuple[tuple[str, str], ...]  #: of its other fields, hidden ones included


def is_login_page_body(body: bytes, content_type: str, url: str) -> bool:
    """Whether a body is a page, which can show that its reader is logged in."""
    return bool(body) and sniffed_media_type(content_type, body, url) in HTML_TYPES


def shows_login_proof(body: bytes, content_type: str, selector: str) -> bool:
    """Whether a page has an element of a CSS selector.

    >>> shows_login_proof(b"<a href=/out>Log out</a>", "text/html", "a[href='/out']")
    True
    """
    markup = _markup(body, content_type)
    if not _LOOKS_AHEAD.search(selector):
        # Most pages show it in their header, and parsing is most of the work.
        beginning = markup[: max(_BEGINNING, len(markup) // _PARTS)]
        if len(beginning) < len(markup) and _has(beginning, selector):
            return True
    return _has(markup, selector)


def find_login_form(
    body: bytes, content_type: str, url: str, fields: tuple[str, ...]
) -> LoginForm | None:
    """Return the form with all of these fields, else the first with a password, or None.

    >>> page = b"<form action=/in method=post><input name=t value=8><input name=u></form>"
    >>> find_login_form(page, "text/html", "https://a.example/x", ("u",))
    LoginForm(url='https://a.example/in', method='POST', values=(('t', '8'),))
    """
    root = _tree(_markup(body, content_type))
    if root is None:
        return None
    root.make_links_absolute(url, handle_failures="ignore")
    forms = [form for form in root.forms if not form.xpath("ancestor::template")]
    wanted = [form for form in forms if set(fields) <= set(form.fields.keys())]
    wanted += [form for form in forms if form.xpath(".//input[@type='password']")]
    if not wanted:
        return None
    form = wanted[0]
    values = [(name, value or "") for name, value in form.form_values() if name not in fields]
    button = form.xpath("(.//button[not(@type) or @type='submit']|.//input[@type='submit'])[@name]")
    if button and button[0].get("name") not in fields:
        values.append((button[0].get("name"), button[0].get("value") or ""))
    return LoginForm(form.get("action") or url, form.method.upper(), tuple(values))


def _has(markup: str, selector: str) -> bool:
    root = _tree(markup)
    return root is not None and bool(_path(selector)(root))


def _markup(body: bytes, content_type: str) -> str:
    _, markup = decode_charset(body, content_type, markup=True)
    return markup


def _tree(markup: str) -> Any:
    """Return the tree of a page; None: it has none."""
    parser = html.HTMLParser(encoding="utf-8", no_network=True)
    try:
        return html.document_fromstring(markup.encode(), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        return None


@cache
def _path(selector: str) -> Any:
    return etree.XPath(cssselect.HTMLTranslator().css_to_xpath(selector))
