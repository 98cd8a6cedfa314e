"""Addresses of repositories, the sources that they make, and their scopes."""

import json

import pytest

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.urls import normalize_url
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.github.source import (
    GithubSource,
    ad_hoc_repository_source,
    repository_address,
)
from smartcrawl.sources.kinds import GITHUB

covers = pytest.mark.covers
WEB = "https://github.com"


@covers("R1-31")
@pytest.mark.parametrize(
    ("given", "url", "root"),
    [
        ("/o/r", "/o/r", "/o/r/blob/HEAD"),
        ("/o/r/", "/o/r", "/o/r/blob/HEAD"),
        ("/o/r.git", "/o/r", "/o/r/blob/HEAD"),
        ("/o/r?tab=readme-ov-file#top", "/o/r", "/o/r/blob/HEAD"),
        ("/o/.github", "/o/.github", "/o/.github/blob/HEAD"),
        ("/o/r/tree/main", "/o/r/tree/main", "/o/r/blob/main"),
        ("/o/r/tree/main/docs/", "/o/r/tree/main/docs", "/o/r/blob/main/docs"),
        ("/o/r/tree/a/b/docs", "/o/r/tree/a/b/docs", "/o/r/blob/a/b/docs"),
        ("/o/r/tree/a%2Fb/docs", "/o/r/tree/a/b/docs", "/o/r/blob/a/b/docs"),
        ("/o/r/tree/v1.0/a b/ü", "/o/r/tree/v1.0/a%20b/%C3%BC", "/o/r/blob/v1.0/a%20b/%C3%BC"),
        ("/o/r/tree/main/%ff", "/o/r/tree/main/%FF", "/o/r/blob/main/%FF"),
        ("/o/r/blob/main/a.md", "/o/r/tree/main/a.md", "/o/r/blob/main/a.md"),
    ],
)
def test_an_address_of_the_browser_names_repository_and_place(given, url, root):
    address = repository_address(WEB + given)
    assert (address.url, address.root) == (WEB + url, WEB + root)
    assert repository_address(address.url) == address
    assert normalize_url(address.root) == address.root


def test_another_server_keeps_its_scheme_and_port():
    assert repository_address("http://127.0.0.1:80/o/r").url == "http://127.0.0.1/o/r"
    assert repository_address("HTTPS://GHE.Example:8443/o/r").web == "https://ghe.example:8443"
    assert repository_address("http://[::1]:8801/o/r").web == "http://[::1]:8801"


def test_a_ref_may_have_slashes_and_the_default_is_head():
    places = list(repository_address(f"{WEB}/o/r/tree/a/b/docs").splits())
    assert places == [("a", "b/docs"), ("a/b", "docs"), ("a/b/docs", "")]
    assert list(repository_address(f"{WEB}/o/r").splits()) == [("HEAD", "")]


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("", "as in https://github.com/OWNER/REPO"),
        ("github.com/o/r", "as in https://github.com/OWNER/REPO"),
        ("ftp://github.com/o/r", "as in https://github.com/OWNER/REPO"),
        ("https://github.com:x/o/r", "as in https://github.com/OWNER/REPO"),
        (f"{WEB}", "names no repository"),
        (f"{WEB}/octo", "names no repository"),
        (f"{WEB}/-x/r", "names no repository"),
        (f"{WEB}/o/..", "names no repository"),
        (f"{WEB}/o/a b", "names no repository"),
        (f"{WEB}/o/r/wiki", "not a folder of a repository"),
        (f"{WEB}/o/r/issues/7", "not a folder of a repository"),
        (f"{WEB}/o/r/tree", "not a folder of a repository"),
        (f"{WEB}/o/r/tree/main/../x", "an empty name, . or .."),
        (f"{WEB}/o/r/tree/main/%2e%2e/x", "an empty name, . or .."),
        (f"{WEB}/o/r/tree/main//x", "an empty name, . or .."),
        (f"{WEB}/o/r/tree/main/a%00b", "an empty name, . or .."),
        ("git@github.com:o/r.git", "write https://github.com/o/r"),
        ("ssh://git@github.com/o/r", "write https://github.com/o/r"),
    ],
)
def test_a_wrong_address_is_refused_with_the_remedy(given, remedy):
    with pytest.raises(ValueError, match=r"^is ") as error:
        repository_address(given)
    assert remedy in str(error.value)


@covers("RD-20")
def test_credentials_in_an_address_are_refused_and_not_shown():
    with pytest.raises(ValueError, match="GITHUB_TOKEN") as error:
        repository_address("https://me:geheim@github.com/o/r")
    assert "geheim" not in str(error.value)


def test_a_repository_is_declared_with_its_keys(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text(
        '[sources.docs]\nkind = "github"\nurl = "https://github.com/o/r/tree/main/docs/"\n'
        'include = ["**/*.md"]\nexclude = ["drafts/"]\nmax_file_size = 1000\n'
    )
    source = load_declared_sources(path)["docs"]
    assert isinstance(source, GithubSource)
    assert source.traits is GITHUB
    assert source.starts == ("https://github.com/o/r/tree/main/docs",)
    assert source.keeps_snapshots
    assert source.max_file_size == 1000


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ("", 'url is missing: give a repository, as in "https://github.com/OWNER/REPO"'),
        ('url = "https://github.com/o"', "url is 'https://github.com/o', which names no"),
        ('url = "https://github.com/o/r"\nroot = "/x"', "root: unknown key"),
        ('url = "https://github.com/o/r"\nexclude = ["/a"]', "exclude '/a' begins with a slash"),
    ],
)
def test_a_wrong_declaration_names_the_key(tmp_path, keys, problem):
    path = tmp_path / "sources.toml"
    path.write_text(f'[sources.docs]\nkind = "github"\n{keys}\n')
    with pytest.raises(SourceError) as error:
        load_declared_sources(path).check()
    assert f"[sources.docs] {problem}" in str(error.value)


def test_the_scope_is_the_files_of_the_place_that_the_globs_permit():
    source = GithubSource(
        name="docs", url=f"{WEB}/o/r/tree/main/docs", include=("**/*.md",), exclude=("old/",)
    )
    scope, root = source.scope, f"{WEB}/o/r/blob/main/docs"
    assert scope.allows(f"{root}/a%20b/c.md")
    assert scope.relative(f"{root}/a%20b/c.md") == "a b/c.md"
    assert scope.refusal(f"{root}/old/c.md") == "one of exclude matches it, or a folder above it"
    assert scope.refusal(f"{root}/c.txt") == "none of include matches it"
    assert not scope.holds(f"{WEB}/o/r/blob/main/docs2/c.md")
    assert not scope.holds(f"{WEB}/o/r/tree/main/docs/c.md")
    assert not scope.hosts
    assert scope.fingerprint() != GithubSource(name="x", url=source.url).scope.fingerprint()


def test_a_single_file_is_its_own_root():
    scope = GithubSource(name="x", url=f"{WEB}/o/r/blob/main/docs/a.md").scope
    assert scope.allows(f"{WEB}/o/r/blob/main/docs/a.md")
    assert scope.relative(f"{WEB}/o/r/blob/main/docs/a.md") == "a.md"


def test_the_name_of_an_ad_hoc_repository_depends_on_its_address_alone():
    first = ad_hoc_repository_source(f"{WEB}/octo/docs.git")
    assert first == ad_hoc_repository_source(f"{WEB}/octo/docs/#readme")
    assert first.name.startswith("octo-docs-")
    assert first.ad_hoc
    assert first.name != ad_hoc_repository_source(f"{WEB}/octo/docs/tree/main").name
    assert "token" not in json.dumps(first.model_dump(mode="json"), default=str).lower()
