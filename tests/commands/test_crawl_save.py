"""What `crawl --save NAME` refuses, and the table that it writes."""

import tomllib
from pathlib import Path

import pytest

from smartcrawl import settings as shipped
from smartcrawl.commands.crawl_save import check_save, source_table
from smartcrawl.model.exceptions import SettingError, SourceError
from smartcrawl.model.options import Options
from smartcrawl.sources.chosen import source_with_keys
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.files import ad_hoc_files_source
from smartcrawl.sources.github.source import ad_hoc_repository_source
from smartcrawl.sources.site import SiteSource
from smartcrawl.terminal.changed_settings import text_with_source
from tests.choices import options

HOST = "https://docs.example.com"


def site(path: str, scope: str = "below", **fields: object) -> SiteSource:
    """An ad-hoc source whose address has answered."""
    return SiteSource(
        name="docs.example.com", seeds=(HOST + path,), ad_hoc=True, scope=scope, **fields
    )


@pytest.mark.parametrize(
    ("source", "table"),
    [
        (
            site("/guide/intro.html", start=f"{HOST}/guide/", ways=(f"{HOST}/guide/intro.html",)),
            {"seeds": [f"{HOST}/guide/intro.html"], "scope": "below"},
        ),
        (
            site("/intro", start=f"{HOST}/guide/", ways=(f"{HOST}/intro", f"{HOST}/guide/a.html")),
            {"seeds": [f"{HOST}/guide/a.html"], "scope": "below"},
        ),
        (
            site("/a/b", start=f"{HOST}/a/b/", ways=(f"{HOST}/a/b",)),
            {"seeds": [f"{HOST}/a/b/"], "scope": "below"},
        ),
        (
            site("/x", "pages", start=f"{HOST}/y", ways=(f"{HOST}/x",)),
            {"seeds": [f"{HOST}/y"], "scope": "pages"},
        ),
        (site("/x", "host", start=f"{HOST}/x"), {"seeds": [f"{HOST}/x"]}),
        (site("/", "domain", start=f"{HOST}/"), {"seeds": [f"{HOST}/"], "scope": "domain"}),
        (
            source_with_keys(
                site("/", "host", start=f"{HOST}/"), {"url_patterns": ["/api/"], "delay": 2}
            ),
            {
                "seeds": [f"{HOST}/"],
                "url_patterns": ["/api/", r"^https://docs\.example\.com/$"],
                "delay": 2,
            },
        ),
        (
            source_with_keys(site("/", "host", start=f"{HOST}/"), {"url_patterns": [r"/\pL+\z"]}),
            {"seeds": [f"{HOST}/"], "url_patterns": [r"/\pL+\z", r"^https://docs\.example\.com/$"]},
        ),
        (
            source_with_keys(
                SiteSource(name="docs.example.com", sitemaps=(f"{HOST}/map.xml",), ad_hoc=True),
                {"url_patterns": ["/api/"]},
            ),
            {"sitemaps": [f"{HOST}/map.xml"], "url_patterns": ["/api/"]},
        ),
        (
            source_with_keys(ad_hoc_files_source("/srv/notes"), {"include": ["*.md"]}),
            {"kind": "files", "root": "/srv/notes", "include": ["*.md"]},
        ),
        (
            ad_hoc_repository_source("https://github.com/octo/docs"),
            {"kind": "github", "url": "https://github.com/octo/docs"},
        ),
    ],
)
def test_the_table_declares_the_same_source(tmp_path: Path, source, table):
    assert source_table(source) == table
    file = tmp_path / "smartcrawl.toml"
    file.write_text(text_with_source("", "saved.docs", source_table(source, 7), file))
    found = load_declared_sources(file)["saved.docs"]
    assert found.max_pages == 7
    assert found.request == source.request
    start = getattr(source, "start", None)
    for url in (*source.seeds, *filter(None, [start]), f"{HOST}/guide/x", f"{HOST}/api/x"):
        inside = source.scope.allows(url)
        assert found.scope.allows(url) == inside or url in getattr(source, "ways", ())


def test_a_source_is_added_at_the_end_and_nothing_else_changes():
    text = "# mine\n[settings]\nDEPTH_LIMIT = 3\n[sources.a]\nseeds = ['https://a.example/']"
    found = text_with_source(text, "b", {"seeds": ["https://b.example/"]}, Path("x"))
    assert found == f'{text}\n\n[sources.b]\nseeds = ["https://b.example/"]\n'
    headers = {"X-Team": 'a "b"', "X.Y": "z"}
    found = text_with_source(text, "b.c", {"headers": headers, "hidden": True}, Path("x"))
    assert tomllib.loads(found)["sources"]["b.c"] == {"headers": headers, "hidden": True}


def test_sources_in_another_form_are_edited_by_hand():
    with pytest.raises(SettingError, match=r"write there by hand\n\[sources\.b\]"):
        text_with_source("sources = { a = {} }\n", "b", {"seeds": []}, Path("x"))


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("docs", {}, "is for an address or a folder"),
        ("docs", {"source": "docs"}, "is for an address or a folder"),
        ("do cs", {"url": HOST}, "a name has letters, digits"),
        ("held", {"url": HOST}, "declares a source of that name already"),
    ],
)
def test_a_name_is_checked_before_the_crawl(tmp_path: Path, name, given, words):
    file = tmp_path / "sources.toml"
    file.write_text(f"[sources.held]\nseeds = ['{HOST}/']\n")
    with pytest.raises(SourceError, match=words):
        check_save(options(tmp_path), name, given)


def test_a_source_in_elasticsearch_keeps_its_name(tmp_path: Path):
    settings = shipped.defaults | {"ELASTICSEARCH_URL": "http://127.0.0.1:9200"}
    chosen = options(tmp_path, elasticsearch=Options.of(settings).elasticsearch)
    with pytest.raises(SourceError, match="documents in Elasticsearch have the name"):
        check_save(chosen, "docs", {"url": HOST})
