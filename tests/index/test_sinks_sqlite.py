"""The embedded index: what is put is found, what is removed is not, and no query fails."""

import contextlib
import re
from pathlib import Path

import apsw
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartcrawl.index.embedded.sqlite import AnalyzedChunks, EmbeddedIndex
from smartcrawl.index.search import search_hit_as_data
from smartcrawl.index.writing import OutgoingIndexWrites
from smartcrawl.registry.index_protocols import IndexedText
from smartcrawl.rules.model import Outcome
from tests.index.asking import search
from tests.registry.build import LATER, LONG, NOW, Desk, chunk, closing, index_is_sound, reports
from tests.tiers import examples

BASE = "http://a.example/"


def urls(desk: Desk, query: str, **options: object) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in search(desk.connection, query, **options)]


def rows(connection: apsw.Connection) -> list[tuple[object, ...]]:
    query = "SELECT content, position, title, headings, text FROM chunk ORDER BY content, position"
    return connection.execute(query).fetchall()


def words(connection: apsw.Connection, query: str) -> list[int]:
    found = connection.execute("SELECT rowid FROM chunk_words WHERE chunk_words MATCH ?", (query,))
    return [row for (row,) in found]


# Writing


def test_nothing_is_written_before_the_flush(desk: Desk):
    sink = EmbeddedIndex(desk.connection)

    sink.put(1, "T", [chunk("first"), chunk("second", "One", "Two")], "")
    assert rows(desk.connection) == []
    sink.flush()

    assert rows(desk.connection) == [(1, 0, "T", "", "first"), (1, 1, "T", "One > Two", "second")]
    assert words(desk.connection, "second") == [2]
    assert index_is_sound(desk.connection)


def test_what_is_put_is_written_by_one_flush_only(desk: Desk):
    sink = EmbeddedIndex(desk.connection)
    sink.put(1, "T", [chunk("first")], "")
    sink.flush()
    sink.flush()

    assert len(rows(desk.connection)) == 1


def test_a_document_without_text_is_found_by_its_title(desk: Desk):
    sink = EmbeddedIndex(desk.connection)
    sink.put(1, "Title", [], "")
    sink.flush()

    assert rows(desk.connection) == [(1, 0, "Title", "", "")]
    assert words(desk.connection, "titl") == [1]


@pytest.mark.parametrize("texts", [["first", "second", "first"], []], ids=["chunks", "none"])
def test_chunks_that_are_analyzed_before_are_written_like_others(desk: Desk, texts: list[str]):
    sink = EmbeddedIndex(desk.connection)
    chunks = [chunk(text, "Walking") for text in texts]
    sink.put(1, "Names", chunks, "en")
    sink.put(2, "Names", sink.analyzed(IndexedText("Names", chunks, "en")), "en")
    sink.flush()

    columns = "position, title, headings, text, pictures, language, level, types, repeated, hash"
    (plain, analyzed) = (
        desk.connection.execute(
            f"SELECT {columns}, places FROM chunk WHERE content = ? ORDER BY position", (content,)
        ).fetchall()
        for content in (1, 2)
    )
    assert plain == analyzed
    assert len(words(desk.connection, "name")) == 2 * max(len(texts), 1)
    assert len(words(desk.connection, "second")) == 2 * texts.count("second")
    assert index_is_sound(desk.connection)


def test_of_a_changed_text_only_the_words_of_other_chunks_are_made_before(desk: Desk):
    sink = EmbeddedIndex(desk.connection)
    sink.put(1, "Names", [chunk("first"), chunk("second")], "en")
    sink.flush()

    made = sink.analyzed(IndexedText("Names", [chunk("first"), chunk("third")], "en"), 1)
    assert isinstance(made, AnalyzedChunks)
    assert [each[2] is not None for each in made.rows] == [False, True]
    sink.remove(1)
    sink.put(2, "Names", made, "en")
    sink.flush()

    assert [len(words(desk.connection, word)) for word in ("first", "second", "third")] == [1, 0, 1]
    assert index_is_sound(desk.connection)


def test_words_that_another_page_took_meanwhile_are_made_after_all(desk: Desk):
    sink = EmbeddedIndex(desk.connection)
    sink.put(1, "Names", [chunk("first")], "en")
    sink.flush()
    made = sink.analyzed(IndexedText("Names", [chunk("first")], "en"), 1)
    sink.remove(1)
    sink.flush()

    sink.put(2, "Names", made, "en")
    sink.flush()

    assert len(words(desk.connection, "first")) == 1
    assert index_is_sound(desk.connection)


def test_what_is_removed_leaves_no_words(desk: Desk):
    sink = EmbeddedIndex(desk.connection)
    sink.put(1, "T", [chunk("first"), chunk("second")], "")
    sink.put(2, "T", [chunk("second")], "")
    sink.flush()

    sink.remove(1)
    sink.flush()

    assert [row[0] for row in rows(desk.connection)] == [2]
    assert words(desk.connection, "first") == []
    assert len(words(desk.connection, "second")) == 1
    assert index_is_sound(desk.connection)


def test_a_content_is_replaced_in_one_flush(desk: Desk):
    sink = EmbeddedIndex(desk.connection)
    sink.put(1, "Old", [chunk("old"), chunk("older")], "")
    sink.flush()

    sink.remove(1)
    sink.put(1, "New", [chunk("new")], "")
    sink.flush()

    assert rows(desk.connection) == [(1, 0, "New", "", "new")]
    assert words(desk.connection, "old OR older") == []
    assert index_is_sound(desk.connection)


def test_removing_what_is_not_there_changes_nothing(desk: Desk):
    sink = EmbeddedIndex(desk.connection)
    sink.put(1, "T", [chunk("first")], "")
    sink.flush()

    sink.remove(7)
    sink.flush()

    assert len(rows(desk.connection)) == 1
    assert index_is_sound(desk.connection)


TEXTS = st.text("abc äÄ\n\"'*", max_size=12)
STEPS = st.one_of(
    st.tuples(
        st.just("put"), st.integers(1, 4), TEXTS, st.lists(TEXTS, max_size=3).map(tuple)
    ),
    st.tuples(st.just("remove"), st.integers(1, 4)),
    st.tuples(st.just("flush")),
)  # fmt: skip


@settings(deadline=None, max_examples=80)
@given(st.lists(STEPS, max_size=25))
def test_the_index_is_what_was_put_and_not_removed(steps):
    desk = Desk()
    sink = EmbeddedIndex(desk.connection)
    held: dict[int, list[tuple[object, ...]]] = {}
    removed: set[int] = set()
    added: set[int] = set()
    for step in [*steps, ("flush",)]:
        match step:
            case ("put", content, title, texts):
                # as Commit asks: what is held is removed first, and nothing is put twice
                if content in added:
                    continue
                if content in held and content not in removed:
                    sink.remove(content)
                    removed.add(content)
                sink.put(content, title, [chunk(text) for text in texts], "")
                held[content] = [
                    (content, place, title, "", text) for place, text in enumerate(texts or [""])
                ]
                added.add(content)
            case ("remove", content) if content not in added and content not in removed:
                sink.remove(content)
                removed.add(content)
                held.pop(content, None)
            case ("flush",):
                sink.flush()
                added.clear()
                removed.clear()
                assert rows(desk.connection) == [
                    row for content in sorted(held) for row in held[content]
                ]
                assert index_is_sound(desk.connection)
    desk.close()


# Searching


def test_a_word_in_the_title_outranks_headings_and_text(desk: Desk):
    text = desk.visit(BASE + "text", "all about zebra here")
    title = desk.visit(BASE + "title", "all about animals here", title="Zebra")
    heading = desk.visit(BASE + "heading", "x", title="Other")
    heading.parsed.chunks = [chunk("all about animals here", "Zebra")]
    desk.write(text, heading, title)

    hits = search(desk.connection, "zebra")

    assert [hit.url for hit in hits] == [BASE + "title", BASE + "heading", BASE + "text"]
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    assert hits[0].title == "Zebra"


@pytest.mark.covers("R0-62")
def test_a_hit_tells_what_is_known_of_the_page(desk: Desk):
    desk.index(BASE, "some words", title="T", document_fields={"description": "D"})
    desk.seal()
    desk.open()
    desk.reach(BASE)
    desk.write(touched=[1], now=LATER)

    (hit,) = search(desk.connection, "words")

    assert (hit.url, hit.source, hit.title, hit.description, hit.language) == (
        BASE, "docs", "T", "D", "en",
    )  # fmt: skip
    assert (hit.lost, hit.last_checked, hit.last_changed) == (False, LATER, NOW)


def test_the_date_of_a_hit_is_that_of_its_publication_else_of_its_last_change(desk: Desk):
    said = {"published": 1_714_521_600, "author": "Ada Byron"}
    desk.index(BASE, "old words", document_fields=said)
    desk.index(BASE + "b", "new words")

    hits = {hit.url: hit for hit in search(desk.connection, "words")}
    old, new = hits[BASE], hits[BASE + "b"]

    assert (old.published, old.author, old.date) == (1_714_521_600, "Ada Byron", 1_714_521_600)
    assert (new.published, new.author, new.date) == (None, "", new.last_changed)
    found = search_hit_as_data(old)
    assert [found[key] for key in ("published", "author", "date")] == [
        *("2024-05-01T00:00:00Z", "Ada Byron", "2024-05-01T00:00:00Z"),
    ]


def test_marks_surround_the_words_that_were_found(desk: Desk):
    visit = desk.visit(BASE, "x")
    visit.parsed.chunks = [
        chunk("Running shoes\nand a runner, who runs far", "Of running", "Shoes")
    ]
    desk.write(visit)

    (hit,) = search(desk.connection, "running", marks=("<em>", "</em>"))
    (plain,) = search(desk.connection, "far")

    assert hit.snippet == "<em>Running</em> shoes and a runner, who <em>runs</em> far"
    assert hit.headings == "Of <em>running</em> > Shoes"
    assert plain.snippet == "Running shoes and a runner, who runs [far]"


def test_a_long_text_is_cut_around_the_words(desk: Desk):
    desk.index(BASE, "before " * 60 + "needle " + "after " * 60)

    (hit,) = search(desk.connection, "needle")

    assert "[needle]" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet.split()) <= 34


def test_a_page_is_shown_once_by_its_best_chunk(desk: Desk):
    visit = desk.visit(BASE, "x")
    visit.parsed.chunks = [
        chunk("fish among many other words that stand here"),
        chunk("fish fish fish"),
        chunk("none"),
    ]
    desk.write(visit)

    (hit,) = search(desk.connection, "fish")

    assert hit.snippet == "[fish] [fish] [fish]"


def test_sources_filter_and_the_limit_limits():
    desk = Desk(source="docs")
    desk.open()
    for place in range(5):
        desk.index(f"{BASE}{place}", f"apple {place}")
    desk.seal()
    desk.source = "shop"
    desk.open()
    desk.index("http://shop.example/6", "apple pie")

    assert len(urls(desk, "apple")) == 6
    assert urls(desk, "apple", sources=["shop"]) == ["6"]
    assert len(urls(desk, "apple", sources=["docs"])) == 5
    assert len(urls(desk, "apple", sources=["docs", "shop"])) == 6
    assert urls(desk, "apple", sources=["none"]) == []
    assert len(urls(desk, "apple", limit=3)) == 3
    assert len(urls(desk, "apple", limit=1)) == 1
    desk.close()


def test_quoted_words_stay_together(desk: Desk):
    desk.index(BASE + "together", "an error code appears")
    desk.index(BASE + "apart", "a code of an error")

    assert urls(desk, '"error code"') == ["together"]
    assert sorted(urls(desk, "error code")) == ["apart", "together"]


def test_all_words_come_first_and_any_of_them_counts_where_no_page_has_all(desk: Desk):
    desk.index(BASE + "both", "red green")
    desk.index(BASE + "red", "red only")
    desk.index(BASE + "blue", "blue only")

    assert urls(desk, "red green") == ["both", "red"]
    assert sorted(urls(desk, "red blue")) == ["blue", "both", "red"]
    assert urls(desk, "blue missing") == ["blue"]
    assert urls(desk, "missing absent") == []


def test_diacritics_case_and_endings_do_not_matter(desk: Desk):
    desk.index(BASE + "a", "Ein schönes Café in São Paulo")
    desk.index(BASE + "b", "Connections were connected")

    for query in ("schones", "SCHÖNES", "cafe", "CAFÉ", "sao", "são paulo"):
        assert urls(desk, query) == ["a"]
    assert urls(desk, "connecting") == ["b"]


@pytest.mark.parametrize("query", ["", "   ", '""', "?!", "*", '"', "'\"'", "()", "-", "😀"])
def test_a_query_without_a_word_finds_nothing(desk: Desk, query: str):
    desk.index(BASE, "some words or other")

    assert urls(desk, query) == []


SYNTAX = [
    "title:words", "words*", "^words", "NEAR(some words)", "NEAR(some, 2)", "some AND words",
    "some NOT words", "some OR words", "-some", "+words", "(some", "words)", '"some', 'so"me',
    "some:words", "{title}:some", "some'words", "a\\b", "some\nwords", "100%", "c++", "c#",
    "some ; DROP TABLE chunk; --", "[words]", "<em>", "…words…", "²", "words ²", "½", "Ⅷ",
]  # fmt: skip


@pytest.mark.parametrize("query", SYNTAX)
def test_no_syntax_is_an_error(desk: Desk, query: str):
    desk.index(BASE, "some words")

    assert len(search(desk.connection, query)) <= 1


def shelf() -> Desk:
    desk = Desk()
    desk.open()
    desk.index(BASE, "some words a b 0")
    return desk


SHELF = shelf()


@settings(deadline=None, max_examples=examples(300))
@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
@example("a" * 10_000)
@example(" ".join(f"w{n}" for n in range(2_000)))
@example('"' + "a " * 500 + '"')
def test_no_query_is_an_error(query: str):
    assert len(search(SHELF.connection, query)) <= 1


@pytest.mark.parametrize(
    "query",
    [
        pytest.param("some\0words", id="zero"),
        pytest.param("words\udcff", id="argument-that-is-no-utf-8"),
    ],
)
def test_characters_that_sqlite_cannot_take_are_no_error(query: str):
    assert len(search(SHELF.connection, query)) <= 1


@pytest.mark.covers("R4-13", "R2-52")
def test_a_clone_is_shown_once_under_its_original(desk: Desk):
    desk.index(BASE + "a", LONG)
    desk.index(BASE + "bb", LONG)
    assert urls(desk, "sentence") == ["a"]
    desk.seal()
    desk.open()
    desk.reach(BASE + "a", BASE + "bb")

    desk.write(desk.visit(BASE + "a", "something else"))

    assert urls(desk, "sentence") == ["bb"]
    assert urls(desk, "something") == ["a"]


def test_short_equal_pages_that_are_no_clones_are_both_shown(desk: Desk):
    desk.index(BASE + "a", "loading now", body="1")
    desk.index(BASE + "bb", "loading now", body="2")

    assert urls(desk, "loading") == ["a", "bb"]


@pytest.mark.parametrize(
    ("outcome", "status", "lost"),
    [
        (Outcome.NOT_FOUND, 404, True),
        (Outcome.SOFT_404, 200, True),
        (Outcome.HTTP_ERROR, 403, True),
        (Outcome.BAD_HEADER, 1003, True),
        (Outcome.TRANSIENT, 503, True),
        (Outcome.UNREACHABLE, 1103, True),
        (Outcome.REDIRECT, 302, False),
        (Outcome.NOT_ACCEPTABLE, 406, False),
        (Outcome.EXCLUDED, None, False),
    ],
)
def test_a_page_whose_last_visit_failed_is_found_and_marked(
    desk: Desk, outcome: Outcome, status: int | None, lost: bool
):
    desk.index(BASE, "some words")
    desk.seal()
    desk.open()
    desk.reach(BASE)
    desk.write(desk.visit(BASE, outcome=outcome, status=status))

    (hit,) = search(desk.connection, "words")

    assert hit.lost is lost
    assert re.sub(r"[\[\]]", "", hit.snippet) == "some words"


def test_what_is_kept_between_searches_ends_with_what_another_connection_writes(
    tmp_path: Path,
):
    path = tmp_path / "registry.db"
    with contextlib.closing(Desk(path)) as desk, contextlib.closing(reports(path)) as reader:
        desk.open()
        desk.index(f"{BASE}a", "some words")

        def found(query: str) -> list[tuple[str, str, str]]:
            hits = search(reader, query)
            return sorted((hit.url.rpartition("/")[2], hit.snippet, hit.title) for hit in hits)

        assert found("words site:a.example") == [("a", "some [words]", "a")]
        statements: list[str] = []
        reader.trace_v2(apsw.SQLITE_TRACE_STMT, lambda event: statements.append(event["sql"]))
        assert found("words site:a.example") == [("a", "some [words]", "a")]
        assert statements
        assert not any("DISTINCT" in one or "carray(?) b" in one for one in statements)
        desk.index(f"{BASE}b", "more words")
        desk.connection.execute("UPDATE content SET title = 'Words of A' WHERE no = 1")

        assert found("words site:a.example") == [
            ("a", "some [words]", "Words of A"), ("b", "more [words]", "b"),
        ]  # fmt: skip


def test_a_page_that_was_lost_is_marked_until_it_answers_again_whatever_comes_between(
    desk: Desk,
):
    """A redirect elsewhere says nothing yet about what is held: the mark stays."""
    desk.index(BASE, "some words")
    answers = [
        (Outcome.NOT_FOUND, 404), (Outcome.REDIRECT, 301), (Outcome.EXCLUDED, None),
        (Outcome.NOT_MODIFIED, 304),
    ]  # fmt: skip
    lost = []
    for outcome, status in answers:
        desk.open()
        desk.reach(BASE)
        desk.write(desk.visit(BASE, outcome=outcome, status=status))
        lost += [hit.lost for hit in search(desk.connection, "words")]

    assert lost == [True, True, True, False]


# Removing


def orphaned(desk: Desk, *gone: str, others: int = 2) -> None:
    """Index pages and others, and let one run reach none of the former."""
    desk.closing = closing(orphan_threshold=1, min_count=1)
    stay = [f"{BASE}other/{n}" for n in range(others)]
    for url in stay:
        desk.index(url, f"filler of {url}")
    for url in gone:
        desk.index(url, f"apple {url}")
    desk.seal()
    desk.open()
    desk.reach(*stay)
    desk.write(touched=[desk.number(url) for url in stay])
    assert sorted(urls(desk, "apple")) == [url.rpartition("/")[2] for url in gone]
    desk.seal()


def test_what_a_sweep_removes_is_not_found_any_more(desk: Desk):
    orphaned(desk, BASE + "gone")

    assert [page.url for page in desk.removed] == [BASE + "gone"]
    assert urls(desk, "apple") == []
    assert len(urls(desk, "filler")) == 2
    assert index_is_sound(desk.connection)


def test_what_a_sweep_must_not_remove_is_still_found(desk: Desk):
    orphaned(desk, BASE + "one", BASE + "two")

    assert desk.removed == []
    assert sorted(urls(desk, "apple")) == ["one", "two"]


def test_a_clone_is_found_when_the_sweep_has_removed_its_original(desk: Desk):
    desk.closing = closing(lost_threshold=1)
    desk.index(BASE + "a", LONG)
    desk.index(BASE + "bb", LONG)
    desk.seal()
    desk.open()
    desk.reach(BASE + "a", BASE + "bb")
    gone = desk.visit(BASE + "a", outcome=Outcome.NOT_FOUND, status=404)
    desk.write(gone, touched=[desk.number(BASE + "bb")])
    assert urls(desk, "sentence") == ["a"]

    desk.seal()

    assert urls(desk, "sentence") == ["bb"]
    assert [hit.lost for hit in search(desk.connection, "sentence")] == [False]
    assert desk.rows("SELECT count(*) FROM chunk") == [(1,)]
    assert index_is_sound(desk.connection)


def test_a_lost_original_keeps_its_entry_beside_the_living_page_that_takes_over(desk: Desk):
    """docs/decisions.md: it keeps the entry it has, and is no clone."""
    desk.index(BASE + "a", LONG)
    desk.index(BASE + "bb", LONG)
    desk.seal()
    desk.open()
    desk.reach(BASE + "a", BASE + "bb")
    gone = desk.visit(BASE + "a", outcome=Outcome.NOT_FOUND, status=404)
    desk.write(gone, touched=[desk.number(BASE + "bb")])
    desk.seal()

    lost = {hit.url.rpartition("/")[2]: hit.lost for hit in search(desk.connection, "sentence")}

    assert lost == {"a": True, "bb": False}
    assert desk.originals() == {BASE + "a": None, BASE + "bb": None}


def test_what_must_not_be_indexed_is_not_found(desk: Desk):
    desk.index(BASE, "secret words", outcome=Outcome.NOT_ACCEPTABLE)

    assert urls(desk, "secret") == []


@pytest.mark.parametrize(
    "chunks",
    [
        300,
        1_000,
    ],
)
def test_a_page_of_many_chunks_hides_no_other(desk: Desk, chunks: int):
    big = desk.visit(BASE + "big", "x")
    big.parsed.chunks = [chunk(f"apple {n}") for n in range(chunks)]
    desk.write(big)
    desk.index(BASE + "small", "apple in a rather long text that ranks lower than the others do")

    assert sorted(urls(desk, "apple", limit=10)) == ["big", "small"]


def test_a_file_has_the_type_as_which_it_was_read(desk: Desk):
    media = "text/markdown; charset=utf-8"
    desk.index(BASE, "a lantern", content_type="", media=media)
    desk.index(BASE + "b", "another lantern", content_type="text/plain")

    assert [hit.url for hit in search(desk.connection, "lantern type:md")] == [BASE]
    assert [hit.url for hit in search(desk.connection, "lantern type:txt")] == [BASE + "b"]
    outgoing = OutgoingIndexWrites(desk.connection, lambda *_: [])
    outgoing.again([desk.number(BASE)])
    assert [one.mime_type for one in outgoing.pages({})] == ["text/markdown"]
