"""Filters by language, type and date, and counts of these, are alike in all indexes (ADR 164)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import pytest

from smartcrawl.extract.formats import FORMATS
from smartcrawl.index import facets, searching
from smartcrawl.index.elasticsearch import facets as remote
from smartcrawl.index.embedded import facets as counting
from smartcrawl.index.embedded.choice import search_embedded_index
from smartcrawl.index.facets import FACETS, Counted, CountedRecord, Facets, counted_records
from smartcrawl.index.filters import SearchFilters, search_query_filters
from smartcrawl.index.queries import parsed_search_query
from smartcrawl.index.searching import AnswerForm
from smartcrawl.model.documents import Chunk
from smartcrawl.model.exceptions import SearchQueryError
from smartcrawl.model.page_types import NAMED, OTHER, page_type
from tests.index.meanings import desk_at
from tests.index.shelf import BASE, address, entry, opened, page
from tests.registry.build import Desk
from tests.registry.spare import Spare
from tests.servers import Elasticsearch

Ask = Callable[..., Any]
WORD = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


class Shelved(NamedTuple):
    """A page with the facts that filters look at."""

    place: str
    media: str
    language: str
    changed: str
    published: str = ""
    source: str = "docs"
    text: str = "a lantern"


SHELF = [
    Shelved("a", "text/html; charset=utf-8", "en", "2026-05-02T00:00:00"),
    Shelved("b", "Application/PDF", "en", "2026-05-01T00:00:00"),
    Shelved("c", "application/pdf", "de", "2026-04-30T23:59:59"),
    Shelved("d", "text/x-rust", "en", "2026-05-02T00:00:00", "2024-12-31T23:59:59"),
    Shelved("e", "image/svg+xml", "de", "2026-05-02T00:00:00", "2025-01-01T00:00:00"),
    Shelved("f", "", "", "2026-05-02T12:00:00", source="shop"),
    Shelved("g", "application/xhtml+xml", "fr", "2026-05-03T00:00:00", source="shop"),
    Shelved("a", "text/html", "en", "2026-05-02T00:00:00", source="shop"),
    Shelved("h", WORD, "en", "2026-05-02T00:00:00", text="a tower, nothing of configuration"),
]


@pytest.fixture(scope="module")
def embedded() -> Iterator[Ask]:
    with filled(Desk()) as ask:
        yield ask


@pytest.fixture(scope="module")
def postgres_index(spare_registries: Spare) -> Iterator[Ask]:
    url = spare_registries.take()
    with filled(desk_at(url)) as ask:
        yield ask
    spare_registries.put_back(url)


@contextmanager
def filled(desk: Desk) -> Iterator[Ask]:
    for source in ("docs", "shop"):
        desk.source = source
        desk.open()
        for one in SHELF:
            if one.source == source:
                visit = desk.visit(address(one.place), f"{one.text} {one.place}")
                assert visit.parsed.document is not None
                visit.answer.content_type = one.media
                said = moment(one.published) if one.published else None
                visit.parsed.document = replace(
                    visit.parsed.document, language=one.language, published=said
                )
                desk.write(visit, now=moment(one.changed))
        desk.seal()
    yield partial(formed, partial(search_embedded_index, desk.connection))
    desk.close()


@pytest.fixture(scope="module")
def elastic(elasticsearch: Elasticsearch) -> Iterator[Ask]:
    with elasticsearch.prefix() as prefix, opened(elasticsearch.url, prefix) as sink:
        pages = [
            page(
                one.place,
                language=one.language,
                source=one.source,
                chunks=[Chunk((), f"{one.text} {one.place}")],
                mime_type=one.media.partition(";")[0].strip().lower(),
                last_changed=moment(one.changed),
                published=moment(one.published) if one.published else None,
            )
            for one in SHELF
        ]
        sink.write([entry(one) for one in pages])
        sink.refresh()
        yield partial(formed, sink.answer)


SINKS = pytest.mark.parametrize(
    "sink",
    ["embedded", "postgres_index", "elastic"],
    ids=["embedded", "postgres", "elasticsearch"],
)


def formed(search: Ask, query: str, **options: Any) -> Any:
    """Search, with the fields of the answer's form among other options."""
    form = {name: options.pop(name) for name in AnswerForm._fields if name in options}
    return search(query, form=AnswerForm(**form), **options)


def places(hits: Sequence[Any]) -> str:
    return "".join(sorted(hit.url.removeprefix(BASE) for hit in hits))


FILTERS = {
    "language:en": "abd",
    "language:de language:fr": "ceg",
    "-language:en": "cefg",
    "language:unknown": "f",
    "-language:unknown -language:de": "abdg",
    "type:pdf": "bc",
    "type:html": "ag",
    "type:md": "",
    "type:text type:xml": "de",
    "type:other": "f",
    "-type:pdf -type:other": "adeg",
    "type:application/pdf": "bc",
    "after:2026-05-02": "afg",
    "after:2026-5": "abfg",
    "before:2026-05": "cde",
    "after:2025 before:2026": "e",
    "before:2025": "d",
    "after:2027": "",
    "-after:2025": "d",
    "after:2020 after:2025": "abcefg",
    "type:pdf language:de": "c",
    "type:html after:2026-05-03 in:shop": "g",
    "type:pdf site:a.example/b": "b",
    "before:2026 site:a.example/b": "",
    '"lantern" type:pdf -language:de': "b",
}


@pytest.mark.long(but=30)
@SINKS
@pytest.mark.parametrize("asked", FILTERS)
def test_filters_limit_a_search(request: pytest.FixtureRequest, sink: str, asked: str):
    found = request.getfixturevalue(sink)(f"lantern {asked}", limit=100)

    assert places(found.hits) == FILTERS[asked]


#: Facets of a query: the total, then values with their counts.
COUNTS = {
    "lantern": (
        "7 | docs 5, shop 3 | en 3, de 2, fr 1, unknown 1"
        " | html 2, pdf 2, other 1, text 1, xml 1 | 2026 5, 2025 1, 2024 1"
    ),
    "lantern tower": (
        "8 | docs 6, shop 3 | en 4, de 2, fr 1, unknown 1"
        " | html 2, pdf 2, docx 1, other 1, text 1, xml 1 | 2026 6, 2025 1, 2024 1"
    ),
    "lantern in:shop": "3 | docs 5, shop 3 | en 1, fr 1, unknown 1 | html 2, other 1"
    " | 2026-05-03 1, 2026-05-02 2",
    "lantern type:pdf": "2 | docs 2 | de 1, en 1 | html 2, pdf 2, other 1, text 1, xml 1"
    " | 2026-05 1, 2026-04 1",
    "lantern type:pdf -language:de": "1 | docs 1 | de 1, en 1 | html 2, other 1, pdf 1, text 1"
    " | 2026-05-01 1",
    "lantern after:2026-05-02 -in:docs": "3 | shop 3, docs 1 | en 1, fr 1, unknown 1"
    " | html 2, other 1 | 2026-05-03 1, 2026-05-02 2",
    "lantern type:epub": "0 |  |  | html 2, pdf 2, other 1, text 1, xml 1 | ",
    "lantarn type:pdf": "2 | docs 2 | de 1, en 1 | html 2, pdf 2, other 1, text 1, xml 1"
    " | 2026-05 1, 2026-04 1",
    "zeppelin": "0 |  |  |  | ",
    "type:pdf": "0 |  |  |  | ",
}


def listed(found: Facets) -> str:
    each = (", ".join(f"{one.value} {one.pages}" for one in getattr(found, name))
            for name in FACETS)  # fmt: skip
    return " | ".join([str(found.total), *each])


@pytest.mark.long(but=12)
@SINKS
@pytest.mark.parametrize("query", COUNTS)
def test_facets_count_the_whole_answer(request: pytest.FixtureRequest, sink: str, query: str):
    found = request.getfixturevalue(sink)(query, limit=1, facets=True)

    assert found.facets is not None
    assert (listed(found.facets), found.facets.complete) == (COUNTS[query], True)


@SINKS
def test_facets_are_of_the_sources_that_are_searched_and_read(
    request: pytest.FixtureRequest, sink: str
):
    ask: Ask = request.getfixturevalue(sink)

    shop = ask("lantern -in:docs", sources=("shop",), facets=True).facets
    assert listed(shop) == listed(ask("lantern", readable=("shop",), facets=True).facets)
    assert [one.value for one in shop.source] == ["shop"]
    read = ask("lantern in:shop", readable=("docs", "shop"), facets=True).facets
    assert listed(read) == COUNTS["lantern in:shop"]
    assert ask("lantern", readable=(), facets=True).facets == Facets()
    assert ask("lantern").facets is None


@SINKS
def test_no_more_pages_are_counted_than_a_limit(
    request: pytest.FixtureRequest, sink: str, monkeypatch: pytest.MonkeyPatch
):
    for module in (facets, counting, remote):
        monkeypatch.setattr(module, "MOST_COUNTED", 4)

    found = request.getfixturevalue(sink)("lantern", facets=True).facets

    assert (found.total, found.complete) == (4, False)
    assert all(one.pages <= 4 for name in FACETS for one in getattr(found, name))


BEGINNINGS = {
    "lan": "abcdefg",
    "nothing lante": "abcdefgh",
    "lantern type:pdf": "bc",
    "type:pdf lanter": "bc",
    "nothi": "h",
    "NOTHI": "h",
    "nothings": "h",  # the stem of a word is shorter
    "la": "",
    "lant ": "ce",  # the stem of the word in German
    '"lant"': "ce",
    "lant -tower": "ce",
    "configuratio": "h",
    "lantarn": "abcdefg",  # misspelt, and no beginning
    "zepp": "",
}


@pytest.mark.long(but=16)
@SINKS
@pytest.mark.parametrize("query", BEGINNINGS)
def test_the_last_word_may_be_a_beginning(request: pytest.FixtureRequest, sink: str, query: str):
    ask: Ask = request.getfixturevalue(sink)

    found = ask(query, prefix=True, facets=True)

    assert places(found.hits) == BEGINNINGS[query]
    assert (found.facets.total, len(found.hits)) == (len(BEGINNINGS[query]),) * 2
    assert all("[" in hit.snippet for hit in found.hits)
    assert places(ask(query, prefix=True, by_date=True).hits) == BEGINNINGS[query]
    assert places(ask("lant").hits) == "ce"


#: Pages by date, the latest first; those with few of the words come last.
LATEST = {
    "lantern": ["g", "f", "a", "b", "c", "e", "d"],
    "lantern -type:html": ["f", "b", "c", "e", "d"],
    "lantern before:2026-05-02": ["b", "c", "e", "d"],
    "tower nothing lantern": ["h", "g", "f", "a", "b", "c", "e", "d"],
    "lantern e": ["e", "g", "f", "a", "b", "c", "d"],
    "lantarn type:pdf": ["b", "c"],
    "zeppelin": [],
}


@pytest.mark.long(but=10)
@SINKS
@pytest.mark.parametrize("query", LATEST)
def test_pages_are_sorted_by_date(request: pytest.FixtureRequest, sink: str, query: str):
    ask: Ask = request.getfixturevalue(sink)

    found = ask(query, by_date=True)

    assert [hit.url.removeprefix(BASE) for hit in found.hits] == LATEST[query]
    assert all(hit.snippet and hit.chunks for hit in found.hits)
    pages = [ask(query, by_date=True, offset=n, limit=1).hits for n in range(len(LATEST[query]))]
    assert [hit.url for (hit,) in pages] == [hit.url for hit in found.hits]


@SINKS
def test_pages_by_date_are_found_some_at_a_time(
    request: pytest.FixtureRequest, sink: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(searching, "_AT_ONCE", 2)

    found = request.getfixturevalue(sink)("lantern", by_date=True, readable=("docs",)).hits

    assert [hit.url.removeprefix(BASE) for hit in found] == ["a", "b", "c", "e", "d"]
    assert {hit.source for hit in found} == {"docs"}


def test_a_page_of_several_sources_counts_once_in_each_value():
    day = 86_400
    records = [
        CountedRecord("a", "docs", "en", "text/html", 2 * day),
        CountedRecord("a", "shop", "en", "application/xhtml+xml", 3 * day),
        CountedRecord("b", "shop", "", "", None),
    ]

    found = counted_records(records, FACETS)

    assert found == Counted(2, True, {
        "source": {"docs": 1, "shop": 2}, "language": {"en": 1, "": 1},
        "type": {"html": 1, "other": 1}, "date": {"1970-01-03": 1, "1970-01-04": 1},
    })  # fmt: skip
    assert counted_records(records[:1], ["date"]).values == {"date": {"1970-01-03": 1}}


def test_every_format_that_is_read_has_a_type():
    assert {page_type(media) for media in FORMATS} <= NAMED.keys() - {OTHER}
    assert len({page_type(media) for media in FORMATS}) == len(FORMATS)


def test_values_of_filters():
    query = "lamp language:PT-br -language:de type:.MD after:2025 after:2026-05 before:2026-06-01"
    found = search_query_filters(parsed_search_query(query))

    assert found == SearchFilters(
        languages=("pt",), excluded_languages=("de",), types=("markdown",),
        since=moment("2026-05-01"), until=moment("2026-06-01"),
    )  # fmt: skip
    assert found.of_dates
    assert not search_query_filters(parsed_search_query("lamp type:md")).of_dates


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("language:german", "is not a two-letter code: write en, or unknown"),
        ("-language:e", "is not a two-letter code: write en, or unknown"),
        ("type:word", "is not a type of page: write one of html, text, pdf, docx,"),
        ("after:today", "is not a date: write 2026, 2026-05 or 2026-05-01"),
        ("before:2026-02-30", "is not a date: write 2026, 2026-05 or 2026-05-01"),
        ("-before:26", "is not a date: write 2026, 2026-05 or 2026-05-01"),
        ("after:0000", "is not a date: write 2026, 2026-05 or 2026-05-01"),
        ("after:2026-05-01T12:00", "is not a date: write 2026, 2026-05 or 2026-05-01"),
    ],
)
def test_a_value_that_means_nothing_is_refused(part: str, why: str):
    with pytest.raises(SearchQueryError) as refused:
        search_query_filters(parsed_search_query(f"lamp {part}"))
    assert why in str(refused.value)
    assert 'to search for these words, quote them: "' in str(refused.value)


@pytest.mark.parametrize("query", ["type: int", "what comes after: dusk", 'language:"" spoken'])
def test_a_name_without_a_value_is_a_word(query: str):
    assert search_query_filters(parsed_search_query(query)) == SearchFilters()
    assert parsed_search_query(query).terms
