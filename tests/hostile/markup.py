"""HTML that is too deep, too long, broken, or that leads where nobody should go."""

from collections.abc import Callable
from functools import partial

from tests.hostile.kinds import (
    HTML,
    KEEP,
    NEW,
    NOINDEX,
    Answer,
    Ask,
    Kind,
    Script,
    Told,
    built,
    filled,
    page,
    trap,
    whole,
)

kind = partial(Kind, "markup")

_MIB = 1024 * 1024
#: Hosts that nobody asks, because they are out of scope.
_ELSEWHERE = '<a href="http://elsewhere.invalid/{}">{}</a>'


def _around(before: str = "", behind: str = "", *, top: str = "") -> Answer:
    """A page with markup before and behind its text, and in its head; see ``filled``."""

    def body(ask: Ask) -> bytes:
        start, end = filled(ask, before), filled(ask, behind)
        made = page(ask).replace(b"<p>", start + b"<p>").replace(b"</p>", b"</p>" + end)
        return made.replace(b"<title>", filled(ask, top) + b"<title>")

    return built(body, HTML)


def _just(markup: str) -> Answer:
    """A body without anything of ours; it must tell who it is by itself: {here}."""
    return built(lambda ask: filled(ask, markup.encode("utf-8")), HTML)


def _many(made: Callable[[int], str], count: int) -> str:
    return "".join(map(made, range(count)))


def _links(*hrefs: str) -> Answer:
    return _around(behind="".join(f'<a href="{href}">{n}</a>' for n, href in enumerate(hrefs)))


def _canonical_pair(ask: Ask) -> Script:
    """The page names /other below it, and that one names the page."""
    other = ask.here if ask.rest else f"{ask.here}/other"
    link = f'<link rel="canonical" href="{other}">'
    return whole(page(ask, f"{ask.here}/other", head=link)), KEEP


def _noindex(ask: Ask) -> Script:
    robots = b"<META NAME=Robots CONTENT='NONE, all'><title>"
    return whole(trap(ask).replace(b"<title>", robots)), KEEP


KINDS = (
    # Size
    kind("deep", "20,000 elements within each other", _around("<div>" * 20_000), NEW),
    kind("deep_spans", "5,000 inline elements that are never closed",
         _around("<b><i>" * 2_500), NEW),
    kind("deep_tables", "500 tables within each other", _around("<table><tr><td>" * 500), NEW),
    kind("deep_lists", "2,000 lists within each other", _around("<ul><li>" * 2_000), NEW),
    kind("attributes", "20,000 attributes",
         _around(f"<div {_many(lambda n: f'a{n}=v ', 20_000)}>", "</div>"), NEW),
    kind("same_attribute", "20,000 times the same attribute",
         _around(f"<div {'id=x ' * 20_000}>", "</div>"), NEW),
    kind("long_attribute", "an attribute of 1 MB", _around(f'<div title="{"t" * _MIB}">'), NEW),
    kind("long_tag", "a tag with a name of 1 MB", _around(f"<{'t' * _MIB}>"), NEW),
    kind("long_title", "a title of 1 MB", _around(top=f"<title>{'t' * _MIB}</title>"), NEW),
    kind("long_word", "a word of 1 MB", _around(behind="w" * _MIB), NEW),
    kind("long_link", "a link of 10,000 characters", _links("{never}/" + "l" * 10_000), NEW,
         reason="url_too_long"),
    kind("long_meta", "a description and keywords of 1 MB",
         _around(top=f'<meta name="description" content="{"d " * (_MIB // 2)}">'), NEW),
    kind("links_16000", "16,000 links that lead elsewhere",
         _around(behind=_many(lambda n: _ELSEWHERE.format(n, n), 16_000)), NEW),
    kind("links_60000", "60,000 links that lead elsewhere",
         _around(behind=_many(lambda n: f'<a href="//elsewhere.invalid/{n}">', 60_000)), NEW,
         reason="too_many_links"),
    kind("links_same", "20,000 times the same link",
         _around(behind='<a href="/good/1">x</a>' * 20_000), NEW),
    kind("headings", "5,000 headings", _around(behind=_many(lambda n: f"<h2>{n}</h2>", 5_000)),
         NEW),
    kind("images", "20,000 pictures",
         _around(behind=_many(lambda n: f'<img src="{n}.png">', 20_000)), NEW),
    kind("breaks", "200,000 line breaks", _around("<br>" * 200_000), NEW),
    kind("entities", "100,000 ampersands", _around(behind="&amp;" * 100_000), NEW),
    kind("open_entities", "100,000 entities without an end", _around(behind="&nosuch" * 100_000),
         NEW),
    kind("numbers", "numeric references of no characters",
         _around(behind="&#xD800; &#x110000; &#0; &#x80; &#99999999999999999999; &#x; &#-1;"), NEW),
    kind("forms", "10,000 options in 10 selects",
         _around(behind=("<select>" + "<option>o" * 1_000) * 10), NEW),
    # Broken
    kind("unclosed", "nothing is closed",
         _just("<html><head><title>unclosed {here}<body><p>said at {here}<ul><li>a<table><td>b"),
         NEW),
    kind("closed_only", "tags that were never opened",
         _around("</div></p></body></html></table>" * 500), NEW),
    kind("crossed", "elements that overlap", _around("<b><i><u>x</b>y</i><p></u>z" * 200), NEW),
    kind("comment", "a comment that never ends", _around(behind="<!-- <a href={never}>"), NEW),
    kind("comment_odd", "comments that end oddly",
         _around("<!--> <!---> <!-- a --!> <! b > <? c ?> <!-- -- > -->"), NEW),
    kind("cdata", "CDATA in HTML", _around("<![CDATA[ <p>hidden</p> ]]>"), NEW),
    kind("open_tag", "a tag that never ends",
         _around(behind='<a href="{never}" title="x'), NEW),
    kind("open_title", "a title that never ends",
         _just("<title>open {here} <p>said <a href={never}>x</a>"), NEW),
    kind("open_script", "a script that never ends",
         _around(behind="<script>document.write('<a href={never}>')"), NEW),
    kind("open_textarea", "a text field that never ends",
         _around(behind="<textarea><a href={never}>"), NEW),
    kind("plaintext", "plain text from here on", _around(behind="<plaintext> said {here}"), NEW),
    kind("script_only", "a page that only a browser can build",
         _just('<html><head><title>{here}</title></head><body><div id="app"></div>'
               '<script src="/app.js"></script></body></html>'), NEW),
    kind("doctypes", "500 document types", _around("<!DOCTYPE html>" * 500), NEW),
    kind("frameset", "a frameset after the text",
         _around(behind="<frameset><frame src={victim}/frame></frameset>"), NEW),
    kind("template", "templates within templates, never closed",
         _around(behind="<template>" * 300 + "<a href={never}>x</a>"), NEW),
    kind("foreign", "SVG and MathML that break out",
         _around(behind="<svg><desc><p>a</p></desc><math><mi><table><svg>" * 50), NEW),
    # Base and canonical
    kind("base_victim", "relative links are meant for the victim",
         _around(top='<base href="{victim}/">', behind='<a href="relative">x</a>'), NEW),
    kind("base_javascript", "a base of javascript:",
         _around(top='<base href="javascript:alert(1)">', behind='<a href="/good/1">x</a>'), NEW),
    kind("base_500", "500 bases",
         _around(top='<base href="/good/">' + '<base href="{never}/">' * 499,
                 behind='<a href="1">x</a>'), NEW),
    kind("base_odd", "a base that is not an address", _around(top='<base href="http://[">'), NEW),
    kind("canonical_fragment", "names itself, with a fragment",
         _around(top='<link rel="canonical" href="{here}#top">'), NEW),
    kind("canonical_victim", "names a page of the victim",
         _around(top='<link rel="canonical" href="{victim}/page">'), NEW),
    kind("canonical_pair", "two pages that name each other", _canonical_pair, NEW),
    kind("canonical_odd", "names nonsense, six times",
         _around(top="".join(f'<link rel="canonical" href="{href}">' for href in (
             "", "http://", "javascript:1", "file:///etc/passwd", "http://[", "//"))), NEW),
    kind("noindex", "a robots meta of two minds", _noindex, NOINDEX),
    # Refresh and frames
    kind("refresh_itself", "goes to itself after a second",
         _around(top='<meta http-equiv="refresh" content="1">'), NEW),
    kind("refresh_itself_named", "goes to its own address at once",
         _around(top='<meta http-equiv="refresh" content="0; url={here}">'), NEW),
    kind("refresh_victim", "goes to the victim at once",
         _around(top='<meta http-equiv="refresh" content="0;url=\'{victim}/refresh\'">'),
         Told("redirected", 302, "by a refresh to"), held=Told("lost", 302, "temporary redirect")),
    kind("refresh_odd", "goes nowhere, in five ways",
         _around(top="".join(f'<meta http-equiv="Refresh" content="{content}">' for content in (
             "", ";", "url", "-1; url=", "9" * 5000 + "; url=javascript:1"))), NEW),
    kind("frames_victim", "frames of the victim, and of itself",
         _around(behind='<iframe src="{victim}/frame"></iframe><iframe src="{here}"></iframe>'
                        '<iframe srcdoc="&lt;a href={never}>x"></iframe>'
                        '<object data="{victim}/o"></object><embed src="{victim}/e">'), NEW),
    # Links
    kind("schemes", "links that are no addresses of pages",
         _links("javascript:alert(1)", "mailto:a@b.example", "tel:+1", "file:///etc/passwd",
                "data:text/html,<a href={never}>x</a>", "ftp://127.0.0.1/", "ws://127.0.0.1/",
                "blob:x", "about:blank", "view-source:{origin}{never}", "gopher://127.0.0.1/",
                "smb://127.0.0.1/c$", "jar:{origin}{never}!/x", "JaVaScRiPt:1", "vbscript:1"), NEW),
    kind("userinfo", "links with a name and a password",
         _links("http://user:secret@elsewhere.invalid/", "{origin}@elsewhere.invalid/",
                "http://elsewhere.invalid:80@127.0.0.1:{port}/"), NEW),
    kind("victims", "links to the victim, spelled in every way",
         _links("{victim}/plain", "//127.0.0.1:{port}/", "http:\\\\127.0.0.1:{port}\\",
                "/\\127.0.0.1:{port}/", "http://127.1:{port}/", "http://2130706433:{port}/",
                "http://0x7f.0.0.1:{port}/", "http://[::1]:{port}/", "http://localhost:{port}/",
                "http://169.254.169.254/latest/meta-data/", "http://0/",
                "http://\u2460\u2461\u2466.0.0.1:{port}/".encode().decode("latin-1")), NEW),
    kind("idn", "links to hosts with other letters",
         _links("http://b\xc3\xbccher.invalid/", "http://xn--.invalid/", "http://xn--a\xc3\xa4/",
                "http://\xf0\x9f\x92\xa9.invalid/", "http://a\xe3\x80\x82invalid/",
                "http://" + "a" * 64 + ".invalid/", "http://a..invalid/"), NEW),
    kind("nonsense", "links that cannot be read",
         _links("http://", "http:///", "//", "///", "http://[", "http://[::1", "http://a:99999/",
                "http://a:-1/", "http://a b/", "http://%zz/", "?", "#", "", " ", "http:", "%",
                "http://a:0x50/", "\x01\x02", ":", "::"), NEW),
    kind("percents", "five spellings of one address",
         _links("{here}/~a", "{here}/%7Ea", "{here}/%7ea", "{here}/./~a", "{here}/x/../~a"), NEW),
    kind("backslashes", "backslashes for slashes", _links("{here}\\back\\slash"), NEW),
    kind("white_space", "tabs and line ends in an address",
         _links("\t{here}/ta\tb\n", "{here}/li\r\nne", " {here}/spa ce "), NEW),
    kind("climbing", "links that climb out of the root",
         _links("/../../.." + "{here}/top", "/%2e%2e/%2e%2e{here}/top2"), NEW),
    kind("nul_link", "NUL and 8-bit bytes in an address",
         _links("{here}/n\0l", "{here}/\xff\xfe", "{here}/%00", "{here}/%ff"), NEW),
    kind("head_split", "an address that looks like headers",
         _links("{here}/x%0d%0aX-Split:%201", "{here}/y&#13;&#10;X-Split: 1"), NEW),
    kind("nofollow", "a page whose links are not to be followed",
         _around(top="<meta name=robots content=nofollow>", behind="<a href={never}>x</a>"), NEW),
    # What is shown to people
    kind("formula", "a title that a spreadsheet would run",
         _around(top="<title>=cmd|' /C calc'!A0 {here}</title>"), NEW),
    kind("escapes", "a title that a terminal would obey",
         _around(top="<title>\x1b[2J\x1b]0;owned\x07\x9b31m {here}\r\n2026 ERROR</title>"), NEW),
    kind("bidi", "a title that reads backwards",
         _around(top="<title>\xe2\x80\xae{here}\xe2\x80\x8b\xef\xbb\xbf</title>"), NEW),
    kind("script_title", "a title with a script",
         _around(top="<title>&lt;script&gt;alert(1)&lt;/script&gt;</mark>{here}</title>"), NEW),
    kind("queries", "text that looks like commands of a database",
         _around(behind="'; DROP TABLE record;-- \" NEAR(* OR col:x ^ {here}"), NEW),
    kind("long_language", "a language of 10,000 letters",
         _just(f'<html lang="{"x" * 10_000}"><title>{{here}}</title><p>said at {{here}}'), NEW),
)  # fmt: skip
