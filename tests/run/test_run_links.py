"""Whether the stored links of a page stand for those of its body."""

from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.model.pages import NAMES_SIGNED, NEEDS_SIGNATURE, Page, PageRecord, PageState
from smartcrawl.registry.pack import pack_stored_numbers
from smartcrawl.rules.model import Standing
from smartcrawl.run.links import Links

SCOPE = 3


@pytest.mark.parametrize(
    ("targets", "scope", "signs", "keeps"),
    [
        (b"x", SCOPE, 0, True),
        (b"", SCOPE, 0, True),
        (b"x", SCOPE, NEEDS_SIGNATURE, True),
        (b"x", SCOPE, NAMES_SIGNED, False),
        (b"x", SCOPE, NAMES_SIGNED | NEEDS_SIGNATURE, False),
        (b"x", SCOPE - 1, 0, False),
        (None, SCOPE, 0, False),
    ],
)
def test_stored_links_are_complete_in_their_scope_unless_one_had_a_signature(
    targets: bytes | None, scope: int, signs: int, keeps: bool
):
    links: Any = SimpleNamespace(_seeds=SimpleNamespace(scope_no=SCOPE))
    record = PageRecord(targets=targets, scope=scope, signs=signs)

    assert Links.keeps_links(links, Page(1, "http://a.example/", "a", 0, record=record)) is keeps


@pytest.mark.parametrize(
    ("moved", "standing", "hops", "depth"),
    [
        (True, Standing.BARE, {2: 1}, 4),
        (False, Standing.BARE, {}, 5),
        (True, Standing.HELD, {}, 5),
    ],
)
def test_a_stored_redirect_alone_counts_as_one_and_leads_to_the_same_depth(
    moved: bool, standing: Standing, hops: dict[int, int], depth: int
):
    """By a chosen REDIRECT_MAX_TIMES; what a page links to is reached without a redirect."""
    offered: list[tuple[list[int], int]] = []
    links: Any = SimpleNamespace(
        _frontier=SimpleNamespace(depth=lambda number: 4),
        _hops={},
        _is_kept_back=lambda page: False,
        _offers=SimpleNamespace(offer=lambda found, depth: offered.append(([*found], depth))),
        _reached=lambda *given: None,
        _redirects=SimpleNamespace(is_exact=True),
        _seeds=SimpleNamespace(scope_no=SCOPE),
        _source=SimpleNamespace(kind_of=lambda url: SimpleNamespace(follows_links=True)),
        hops_to=lambda number: 0,
        is_too_deep=lambda depth: False,
    )
    record = PageRecord(targets=pack_stored_numbers([2]), scope=SCOPE, moved=moved)
    page = Page(1, "http://a.example/", "a", 0, record=record, state=PageState(standing=standing))

    Links.replay(links, page)

    assert links._hops == hops
    assert offered == [([2], depth)]
