"""Which of equal pages are found first does not depend on the order in which they came."""

from collections.abc import Iterator, Sequence

import pytest

from smartcrawl.index.embedded.choice import search_embedded_index
from smartcrawl.index.embedded.counting import WINDOW
from smartcrawl.index.ranking import PAGES
from smartcrawl.index.searching import Hit
from smartcrawl.model.documents import Chunk
from smartcrawl.registry.connection import Connection
from tests.index.asking import search
from tests.index.meanings import desk_at
from tests.index.shelf import address
from tests.registry.build import Desk
from tests.registry.spare import Spare

#: Pages of the first source: more than an index reads beyond those that it is asked for.
MANY = WINDOW + 60
#: Pages of both sources.
SHARED = 20
QUERIES = {
    "gravel": "the same rank of other texts",
    "basalt": "one chunk that all pages have",
    "café": "the best pages are those that write it so",
    "slate": "two ranks, and the edge of what is proposed in the lower one",
    "shale": "the edge among a few equal ones",
    "gravel slate basalt": "several words",
    "anchor": "pages that two sources have",
}


def chunks(number: int) -> list[Chunk]:
    texts = [
        f"gravel heap{number:03}",
        "basalt and granite",
        f"{'café' if number % 5 == 0 else 'cafe'} {number:03}",
        f"slate{' slate' * (number % 3 == 0)} {number:03}",
        f"{'marbele ' * 90 if number == 1 else 'marble'} {('latch', 'larch')[number % 2]}",
        f"shale {number:03}{' and more' * (number % 3 + number % 7)}",
    ]
    return [Chunk((), text) for text in texts]


def stored(desk: Desk, numbers: Sequence[int], sources: Sequence[str]) -> Desk:
    """The same pages, committed in this order."""
    for source in sources:
        desk.source = source
        desk.open()
        visits = []
        for number in numbers:
            if source == "docs" or number < SHARED:
                visit = desk.visit(address(f"page/{number}"), f"page {number}", title="Stones")
                visit.parsed.chunks = chunks(number)
                if number < SHARED:
                    visit.parsed.chunks.append(Chunk((), "an anchor of iron"))
                visits.append(visit)
        desk.write(*visits)
        desk.seal()
    return desk


@pytest.fixture(params=["sqlite", "postgres"])
def orders(request: pytest.FixtureRequest) -> Iterator[list[Connection]]:
    """Two registries with the same pages, which came in other orders."""
    spare: Spare | None = None
    urls: list[str] = []
    if request.param == "postgres":
        spare = request.getfixturevalue("spare_registries")
        urls = [spare.take(), spare.take()]
    desks = [desk_at(url) for url in urls] or [Desk(), Desk()]
    stored(desks[0], range(MANY), ("docs", "shop"))
    stored(desks[1], [*range(1, MANY, 2), *range(0, MANY, 2)[::-1]], ("shop", "docs"))
    yield [desk.connection for desk in desks]
    for desk in desks:
        desk.close()
    for url in urls:
        assert spare is not None
        spare.put_back(url)


def seen(hit: Hit) -> tuple[object, ...]:
    chunks = [(one.number, one.highlight) for one in hit.chunks]
    return hit.url, hit.score, hit.source, hit.sources, hit.snippet, chunks


def test_results_do_not_depend_on_the_order_of_commits(
    orders: list[Connection], monkeypatch: pytest.MonkeyPatch
):
    many = "more chunks of one rank and one text than SQLite's index reads at once"
    for query, why in [*QUERIES.items(), ("basalt", many)]:
        if why is many:
            monkeypatch.setattr("smartcrawl.index.embedded.sqlite._FEW_MATCHES", 0)
        for offset in (0, PAGES):
            one, other = (
                [seen(hit) for hit in search(some, query, limit=PAGES, offset=offset)]
                for some in orders
            )
            assert one == other, why
            assert len(one) > 12 or (query == "anchor" and offset), why


def test_what_was_meant_does_not_depend_on_the_order_of_commits(orders: list[Connection]):
    one, other = (search_embedded_index(some, "lach").meant for some in orders)

    assert one == other
    assert one in {"larch", "latch"}


def test_a_frequent_word_was_meant_rather_than_a_misspelling_that_a_text_repeats(
    orders: list[Connection],
):
    for some in orders:
        assert search_embedded_index(some, "marbble").meant == "marble"
        assert search_embedded_index(some, "marblee").meant == "marble"
        assert search_embedded_index(some, "marbelle").meant == "marbele", "no other is as near"
