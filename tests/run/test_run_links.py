"""Whether the stored links of a page stand for those of its body."""

from types import SimpleNamespace
from typing import Any

import pytest

from smartcrawl.model.pages import NAMES_SIGNED, NEEDS_SIGNATURE, Page, PageRecord
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
