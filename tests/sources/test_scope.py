"""Which addresses belong to a source, and why another does not (M-28)."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from smartcrawl.model.urls import normalize_url
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.scope import SKIPPED_EXTENSIONS, SiteScope

covers = pytest.mark.covers

SITE = SiteScope(hosts=frozenset({"docs.example.com", "127.0.0.1:8801"}))


@covers("M-28")
@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://docs.example.com/a", True),
        ("http://DOCS.example.com:80/", True),
        ("https://docs.example.com:80/", True),
        ("https://docs.example.com:8443/", False),
        ("https://example.com/", False),
        ("https://a.docs.example.com/", False),
        ("http://127.0.0.1:8801/", True),
        ("http://127.0.0.1:8802/", False),
        ("http://127.0.0.1/", False),
        ("https://docs.example.com@evil.example/", False),
        ("ftp://docs.example.com/", False),
        ("/relative", False),
    ],
)
def test_hosts_are_exact_with_their_port(url, allowed):
    assert SITE.allows(url) is allowed


@covers("M-28")
@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://example.com/", True),
        ("https://example.com:8443/", True),
        ("https://a.b.example.com/", True),
        ("https://notexample.com/", False),
        ("https://example.com.evil.example/", False),
        ("https://com/", False),
        ("http://[::1]:8801/", True),
        ("http://[::1]/", True),
        ("http://[::2]/", False),
    ],
)
def test_domains_hold_their_subdomains_on_any_port(url, allowed):
    assert SiteScope(domains=frozenset({"example.com", "[::1]"})).allows(url) is allowed


@covers("M-28")
def test_patterns_choose_and_exclude_on_the_request_url():
    scope = replace(
        SITE, url_patterns=("/guide/", r"\?id=\d"), excluded_patterns=(r"print=", "/old/")
    )

    assert scope.allows("https://docs.example.com/guide/a")
    assert scope.allows("https://docs.example.com/b?id=7")
    assert scope.allows("https://DOCS.example.com/x/../guide/")
    assert not scope.allows("https://docs.example.com/b")
    assert not scope.allows("https://docs.example.com/guide/a?print=1")
    assert not scope.allows("https://docs.example.com/guide/old/a")
    assert not scope.allows("https://docs.example.com/b#/guide/")


@covers("M-28")
def test_scope_says_why_an_address_is_outside():
    scope = replace(SITE, url_patterns=("/guide",), excluded_patterns=("print",))

    assert scope.refusal("https://docs.example.com/guide") is None
    assert "allowed_domains" in scope.refusal("https://example.com/guide")
    assert ".zip" in scope.refusal("https://docs.example.com/guide.ZIP")
    assert "url_patterns" in scope.refusal("https://docs.example.com/")
    assert "excluded_patterns" in scope.refusal("https://docs.example.com/guide?print")
    assert "http(s)" in scope.refusal("mailto:me@example.com")


@covers("M-28")
def test_extension_that_cannot_hold_a_page_is_skipped():
    for name in ("a.PNG", "a.tar.gz", "a.png?x=1", "b/style.css", "a.doc", "a.woff2", "x.exe"):
        assert not SITE.allows(f"https://docs.example.com/{name}"), name
    for name in (
        "a.html",
        "a.htm",
        "a.php",
        "a.xml",
        "a.txt",
        "",
        "png",
        "a.png/b",
        "v2.0",
        "?f=a.pdf",
    ):
        assert SITE.allows(f"https://docs.example.com/{name}"), name
    assert replace(SITE, skipped_extensions=frozenset()).allows("https://docs.example.com/a.pdf")
    assert SiteScope(domains=frozenset({"zip"})).allows("https://example.zip")


def test_skipped_extensions_are_words_in_lower_case():
    assert all(word.isalnum() and word == word.lower() for word in SKIPPED_EXTENSIONS)
    assert not SKIPPED_EXTENSIONS & {
        "html",
        "htm",
        "xhtml",
        "txt",
        "php",
        "xml",
        "md",
        "asp",
        "json",
    }


@covers("M-28")
@pytest.mark.parametrize(
    "change",
    [
        {"hosts": frozenset({"docs.example.com"})},
        {"domains": frozenset({"docs.example.com", "127.0.0.1:8801"})},
        {"url_patterns": ("a",)},
        {"excluded_patterns": ("a",)},
        {"skipped_extensions": frozenset({"pdf"})},
    ],
)
def test_fingerprint_covers_what_allows_asks(change):
    assert replace(SITE, **change).fingerprint() != SITE.fingerprint()


def test_fingerprint_tells_the_two_kinds_of_patterns_apart():
    wanted, excluded = replace(SITE, url_patterns=("a",)), replace(SITE, excluded_patterns=("a",))

    assert wanted.fingerprint() != excluded.fingerprint()


def test_fingerprint_does_not_cover_depth_and_order():
    one = replace(SITE, url_patterns=("a", "b"))

    assert replace(one, url_patterns=("b", "a"), max_depth=3).fingerprint() == one.fingerprint()
    assert len(one.fingerprint()) == 16


def test_fingerprint_is_the_same_in_every_process():
    program = (
        "from smartcrawl.sources.scope import SiteScope;"
        "print(SiteScope(hosts=frozenset('abc'), domains=frozenset('de')).fingerprint().hex())"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert told == {SiteScope(frozenset("abc"), frozenset("de")).fingerprint().hex() + "\n"}


@pytest.mark.parametrize(
    ("before", "url", "after"),
    [
        ("example.com", "https://www.example.com/", "www.example.com"),
        ("www.example.com", "http://example.com/x", "example.com"),
        ("example.com:8801", "http://www.example.com:8801/", "www.example.com:8801"),
        ("example.com:8801", "http://www.example.com/", None),
        ("example.com", "http://www.example.com:8801/", None),
        ("example.com", "https://example.com/", None),
        ("example.com", "https://docs.example.com/", None),
        ("example.com", "https://wwwexample.com/", None),
        ("example.com", "https://www.www.example.com/", None),
        ("example.com", "mailto:me@www.example.com", None),
    ],
)
def test_scope_moves_only_to_the_same_host_with_or_without_www(before, url, after):
    scope = SiteScope(hosts=frozenset({before}), excluded_patterns=("/x",), max_depth=2)

    moved = scope.moved_to(url)

    expected = replace(scope, hosts=frozenset({after})) if after else None
    assert moved == expected


def test_scope_that_holds_both_hosts_does_not_move():
    scope = SiteScope(hosts=frozenset({"example.com", "www.example.com"}))

    assert scope.moved_to("https://www.example.com/") is None


@covers("M-28")
def test_the_scope_of_files_is_what_is_below_the_root_and_not_left_out():
    scope = FilesSource(name="docs", root="/srv/a b", exclude=("old/",)).scope
    for name, why in (
        ("a.md", None),
        ("sub/%FF.md", None),
        ("old/a.md", "exclude"),
        (".git/a.md", "begins with a dot"),
        ("../a%20bc/a.md", "it is not below /srv/a b"),
        ("", "it is not below /srv/a b"),
    ):
        url = normalize_url(f"file:///srv/a%20b/{name}")
        found = scope.refusal(url)
        assert scope.allows(url) is (why is None)
        assert found is None if why is None else why in (found or "")
    assert scope.relative("file:///srv/a%20b/%FF.md") == "\udcff.md"
    assert (scope.hosts, scope.linked) == (frozenset(), scope)
    other = FilesSource(name="docs", root="/srv/a b").scope
    assert scope.fingerprint() != other.fingerprint()
