"""The wiki of a repository as a part of its source: scope, kinds, and its key in sources.toml."""

import pytest

from smartcrawl.sources.github.source import GithubSource, WikiScope, ad_hoc_repository_source
from smartcrawl.sources.kinds import GITHUB, SITE

covers = pytest.mark.covers
WEB = "https://github.com/octo/docs"
WIKI = f"{WEB}/wiki"


@pytest.mark.parametrize(
    ("url", "refusal"),
    [
        (WIKI, None),
        (f"{WIKI}/", None),
        (f"{WIKI}/Setup", None),
        (f"{WIKI}/Set%20up-%C3%BC", None),
        (f"{WIKI}/a/b", None),
        (f"{WIKI}/{'a' * 40}", None),  # a name, not a version of another page
        ("https://github.com/Octo/DOCS/wiki/Setup", None),
        (f"{WIKI}?x=1", "has no query"),
        (f"{WIKI}/Setup?", "has no query"),
        (f"{WIKI}/_new", "_new is a function"),
        (f"{WIKI}/Setup/_history", "_history is a function"),
        (f"{WIKI}/Setup/{'a' * 40}", "an old version"),
        (f"{WIKI}/logo.png", "files of type .png are skipped"),
        (f"{WIKI}s/Setup", "not in the wiki"),
        (f"{WEB}/issues", "not in the wiki"),
        (f"{WEB}/blob/HEAD/wiki", "not in the wiki"),
        ("http://github.com/octo/docs/wiki", "not in the wiki"),
        ("https://github.com/octo/other/wiki", "not in the wiki"),
        ("https://evil.example/octo/docs/wiki", "not in the wiki"),
        ("not an address", "not in the wiki"),
        (f"{WIKI}/{'a' * 2100}", "not an http(s) URL"),
    ],
)
def test_a_wiki_has_its_pages_and_neither_functions_nor_old_versions(url: str, refusal: str | None):
    scope = WikiScope(WIKI)
    found = scope.refusal(url)
    assert scope.allows(url) is (refusal is None)
    assert found is None if refusal is None else refusal in (found or "")


@covers("R1-31")
def test_a_repository_has_pages_of_two_kinds():
    source = ad_hoc_repository_source(WEB)
    assert source.kinds == (GITHUB, SITE)
    assert (source.linked_seeds, source.optional_seeds) == ((WIKI,), {WIKI: WEB})
    for url, kind in (
        (WIKI, SITE),
        (f"{WIKI}/Setup", SITE),
        (f"{WIKI}/_new", SITE),  # left out, and no file
        (f"{WEB}/blob/HEAD/a.md", GITHUB),
        (f"{WEB}/blob/HEAD/wiki/a.md", GITHUB),
    ):
        assert source.kind_of(url) is kind
        assert source.lists(url) is (kind is GITHUB)
    scope = source.scope
    assert scope.allows(f"{WIKI}/Setup")
    assert scope.allows(f"{WEB}/blob/HEAD/a.md")
    assert not scope.allows(f"{WIKI}/_new")
    assert not scope.allows(f"{WEB}/blob/HEAD/.hidden.md")
    assert scope.linked.allows(WIKI)
    assert not scope.linked.allows(f"{WEB}/blob/HEAD/a.md")
    assert not scope.with_sitemaps_of(()).allows(f"{WEB}/blob/HEAD/a.md")
    assert scope.hosts == {"github.com"}


@pytest.mark.parametrize(
    ("place", "key", "has_wiki"),
    [
        ("", None, True),
        ("", True, True),
        ("", False, False),
        ("/tree/HEAD", None, False),
        ("/tree/main/docs", None, False),
        ("/tree/main/docs", True, True),
        ("/blob/main/a.md", None, False),
    ],
)
def test_a_whole_repository_has_its_wiki_unless_the_source_says_otherwise(
    place: str, key: bool | None, has_wiki: bool
):
    source = GithubSource(name="docs", url=f"{WEB}{place}", wiki=key)
    assert source.linked_seeds == ((WIKI,) if has_wiki else ())
    assert source.scope.allows(WIKI) is has_wiki
    assert source.kinds == ((GITHUB, SITE) if has_wiki else (GITHUB,))
    assert source.scope.hosts == ({"github.com"} if has_wiki else set())


def test_the_wiki_is_part_of_the_scope_and_matters_to_no_listing():
    with_wiki, without = (GithubSource(name="a", url=WEB, wiki=key) for key in (True, False))
    assert with_wiki.scope.fingerprint() != without.scope.fingerprint()
    assert with_wiki.listing_rules("api") == without.listing_rules("api")
    other = GithubSource(name="a", url="https://github.com/octo/other")
    assert other.scope.fingerprint() != with_wiki.scope.fingerprint()
