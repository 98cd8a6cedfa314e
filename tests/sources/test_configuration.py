"""What shapes an index entry, and what has another fingerprint therefore."""

import pytest

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.options import Options
from smartcrawl.rules.model import Mode
from smartcrawl.sources.base import PageSelectors, Source, SourceExtractionConfig
from smartcrawl.sources.declared import load_declared_sources
from tests.model.test_options import options

RULES = (("/tag/", Mode.LINKS_ONLY), ("/tag/x", Mode.NONE))


def declared(tmp_path, text: str) -> Source:
    path = tmp_path / "sources.toml"
    path.write_text(f'[sources.docs]\nkind = "site"\nseeds = ["http://a.example/"]\n{text}')
    sources = load_declared_sources(path)
    sources.check()
    return sources["docs"]


@pytest.mark.covers("M-15", "M-28", "R4-20")
def test_the_first_rule_that_matches_says_how_a_page_enters_the_index(tmp_path):
    source = declared(
        tmp_path,
        "index_modes = [{ pattern = '/tag/', mode = 'links_only' },"
        " { pattern = '^http://a', mode = 'none' }]",
    )
    found = SourceExtractionConfig.of(source, options())

    assert found.mode_of("http://a.example/tag/1") is Mode.LINKS_ONLY
    assert found.mode_of("http://a.example/") is Mode.NONE
    assert found.mode_of("http://b.example/") is Mode.INDEX
    assert SourceExtractionConfig.of(None, options()).mode_of("http://a.example/tag/") is Mode.INDEX


@pytest.mark.covers("M-15")
def test_whatever_shapes_a_page_moves_its_fingerprint():
    plain = SourceExtractionConfig()
    others = [
        SourceExtractionConfig(selectors=PageSelectors(keep=("main",))),
        SourceExtractionConfig(selectors=PageSelectors(drop=("main",))),
        SourceExtractionConfig(selectors=PageSelectors(keep=("main", "aside"))),
        SourceExtractionConfig(selectors=PageSelectors(keep=("main",), drop=("aside",))),
        SourceExtractionConfig(basis="bytes"),
    ]
    prints = [c.fingerprint(Mode.INDEX) for c in (plain, *others)]

    assert len(set(prints)) == len(prints)
    assert {len(p) for p in prints} == {16}
    assert len({plain.fingerprint(mode) for mode in Mode}) == 3


@pytest.mark.covers("M-15")
@pytest.mark.parametrize("mode", [Mode.LINKS_ONLY, Mode.NONE])
def test_of_what_is_not_indexed_only_the_links_are_read(mode):
    """So that a selector reads no page again that has no entry anyway; nor does a rule."""
    told = SourceExtractionConfig(RULES, PageSelectors(("main",), ("nav",)), "bytes")

    assert told.fingerprint(mode) == SourceExtractionConfig().fingerprint(mode)
    assert SourceExtractionConfig(RULES).fingerprint(
        Mode.INDEX
    ) == SourceExtractionConfig().fingerprint(Mode.INDEX)


def test_the_basis_is_the_settings():
    assert SourceExtractionConfig.of(None, options()).basis == "text"
    assert SourceExtractionConfig.of(None, options(CONTENT_HASH_BASIS="text")).basis == "text"
    assert SourceExtractionConfig.of(None, options(CONTENT_HASH_BASIS="bytes")).basis == "bytes"
    assert isinstance(options(), Options)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("index_modes = ['x']", "index_modes[0] is 'x': expected a table"),
        ("index_modes = 'x'", "index_modes is 'x': expected a list"),
        (
            "index_modes = [{ pattern = 'a', mode = 'some' }]",
            "expected one of index, links_only, none",
        ),
        ("index_modes = [{ pattern = '(', mode = 'none' }]", "not a valid regular expression"),
        ("index_modes = [{ mode = 'none' }]", "index_modes[0][pattern] is missing"),
        ("index_modes = [{ pattern = 'a', mode = 'none', z = 1 }]", "[z] is an unknown key"),
        ("keep_selectors = ['..']", "not a valid CSS selector"),
        ("drop_selectors = 'a'", "expected a list of texts"),
        ("drop_selectors = ['a::before']", "not a valid CSS selector"),
    ],
)
def test_what_is_wrong_is_told_with_key_reason_and_remedy(tmp_path, text, told):
    with pytest.raises(SourceError) as error:
        declared(tmp_path, text)

    assert told in str(error.value)
