"""What a batch changes, statement for statement, and what it leaves alone."""

import json

import apsw
import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.errors import UniqueViolation

from smartcrawl.model.batches import Batch, HostTally
from smartcrawl.model.documents import Block, Chunk, Link, Section, Span
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.pack import (
    pack_stored_links,
    pack_stored_numbers,
    unpack_stored_document,
    unpack_stored_links,
)
from smartcrawl.registry.runs.run_results import stored_run_result
from smartcrawl.rules.model import Outcome, Standing, Status, Word
from tests.registry.build import LATER, LONG, NOW, Desk, index_is_sound, with_iso_times

A = "http://a.example/a"


def row(desk: Desk, url: str = A) -> dict[str, object]:
    """Record and state of one page, by column."""
    cursor = desk.connection.execute(
        "SELECT r.*, s.* FROM record r JOIN state s USING (no) WHERE r.no = ?", (desk.number(url),)
    )
    names = [column[0] for column in cursor.get_description()]
    return dict(zip(names, cursor.fetchone(), strict=True))


def again(desk: Desk, *, now: int = LATER) -> None:
    """Seal the run, and begin one that reaches the page."""
    desk.seal()
    desk.open(now=now)
    desk.reach(A)


# Outcomes


@pytest.mark.covers("R0-04", "R0-57", "R4-25", "R4-30")
def test_an_address_is_registered_as_pending_before_anything_is_asked(desk: Desk):
    (number,) = desk.add(A, depth=2)

    found = row(desk)
    assert (found["no"], found["url"], found["first_run"], found["first_seen"]) == (
        number, A, 1, NOW,
    )  # fmt: skip
    assert (found["status"], found["standing"], found["outcome"], found["depth"]) == (
        Status.PENDING, Standing.BARE, None, 2,
    )  # fmt: skip
    assert (found["reached_run"], found["visited_run"], found["attempts"]) == (1, 0, 0)


@pytest.mark.covers("R0-04")
def test_an_address_cannot_be_registered_twice(desk: Desk):
    desk.add(A)

    with pytest.raises((apsw.ConstraintError, UniqueViolation)):
        desk.add(A)

    assert desk.rows("SELECT count(*) FROM record") == [(1,)]


@pytest.mark.covers("R0-03", "R0-46", "R0-62", "R1-10", "R4-31", "R4-32", "RD-04")
def test_an_indexed_page_has_content_validators_and_times(desk: Desk):
    desk.index(
        A, "some words", title="T", etag='W/"a;b-gzip"', last_modified="yesterday",
        document_fields={"description": "D", "canonical": "http://a.example/c"},
        content_encoding="gzip",
    )  # fmt: skip

    found = row(desk)
    assert (found["etag"], found["last_modified"]) == ('W/"a;b-gzip"', "yesterday")
    assert (found["status"], found["standing"]) == (Status.INDEXED, Standing.HELD)
    assert (found["outcome"], found["http_status"], found["effective_status"]) == (
        Word.NEW, 200, 200,
    )  # fmt: skip
    assert found["last_changed"] == found["last_indexed"] == found["last_checked"] == NOW
    assert (found["visited_run"], found["seen_run"], found["attempts"]) == (1, 1, 1)
    assert (found["changed_run"], found["configuration"]) == (1, 1)
    assert (found["canonical_url"], found["content_encoding"]) == ("http://a.example/c", "gzip")
    assert desk.rows("SELECT title, description, language, charset FROM content") == [
        ("T", "D", "en", "utf-8")
    ]
    kept = unpack_stored_document(desk.value("SELECT document FROM content"))
    assert kept.text == "some words"
    assert desk.rows("SELECT title, text FROM chunk") == [("T", "some words")]


def test_table_of_an_older_registry_has_one_head_row_or_none():
    blocks = [["table", 0, 3, True, [[1, 3]]], ["table", 4, 5, False, []]]
    fields = {"sections": [[0, "", "a b\nc", blocks]], "images": []}

    [section] = unpack_stored_document(zstd.compress(json.dumps(fields).encode())).sections

    assert section.blocks == (Block("table", 0, 3, 1, ((1, 3),)), Block("table", 4, 5))
    assert [type(block.head) for block in section.blocks] == [int, int]


@pytest.mark.covers("R0-47", "R4-26", "R4-35", "U-03")
def test_equal_content_renews_validators_and_moves_no_content_row(desk: Desk):
    desk.index(A, "some words", etag='"1"', last_modified="Mon")
    content, chunks = desk.rows("SELECT * FROM content"), desk.rows("SELECT * FROM chunk")
    again(desk)

    desk.write(desk.visit(A, "some words", outcome=Outcome.SAME, etag='"2"'), now=LATER)

    found = row(desk)
    assert (found["etag"], found["last_modified"]) == ('"2"', None)
    assert (found["last_checked"], found["last_changed"], found["last_indexed"]) == (
        LATER, NOW, NOW,
    )  # fmt: skip
    assert (found["outcome"], found["changed_run"]) == (Word.UNCHANGED, 1)
    assert (found["unchanged_count"], found["attempts"]) == (1, 2)
    assert desk.rows("SELECT * FROM content") == content
    assert desk.rows("SELECT * FROM chunk") == chunks


def test_links_in_an_equal_text_are_those_of_the_last_visit(desk: Desk):
    def linked(target: str) -> dict[str, object]:
        return {"sections": (Section(0, "", "words", (), (Span("link", 0, 5, target),)),)}

    desk.index(A, "words", document_fields=linked("a"))
    again(desk)

    same = desk.visit(A, "words", outcome=Outcome.SAME, document_fields=linked("b"))
    same.parsed.body_hash = b"b" * 32
    desk.write(same, now=LATER)

    [section] = unpack_stored_document(desk.value("SELECT document FROM content")).sections
    assert section.spans == (Span("link", 0, 5, "b"),)


def test_date_and_author_of_an_equal_text_are_those_of_the_last_visit(desk: Desk):
    desk.index(A, "words", document_fields={"published": 7})
    again(desk)

    same = desk.visit(A, "words", outcome=Outcome.SAME, document_fields={"author": "Ada"})
    same.parsed.body_hash = b"b" * 32
    desk.write(same, now=LATER)

    assert desk.rows("SELECT published, author FROM content") == [(None, "Ada")]


@pytest.mark.covers("R1-13")
def test_chunk_whose_text_stays_gets_its_new_columns(desk: Desk):
    """A later version finds code in the same text, or reads an old registry."""
    visit = desk.visit(A, "some words")
    visit.parsed.chunks = [Chunk(("H",), "f()", 1), Chunk(("H",), "rest", 1)]
    desk.write(visit)
    statement = "SELECT no, text, level, types, repeated, hash FROM chunk ORDER BY no"
    before = desk.rows(statement)
    again(desk)
    visit = desk.visit(A, "some words")
    visit.parsed.chunks = [Chunk(("H",), "f()", 2, ("code",), 1), Chunk(("H",), "rest", 1)]

    desk.write(visit, now=LATER)

    numbers = [row[0] for row in before] if desk.connection.dialect == "sqlite" else None
    after = desk.rows(statement)
    assert [row[1:5] for row in after] == [("f()", 2, "code", 1), ("rest", 1, "text", 0)]
    assert [row[5] for row in after] == [row[5] for row in before]
    assert numbers in (None, [row[0] for row in after])  # the rows of SQLite stay


@pytest.mark.covers("R4-28", "R4-36", "U-04")
def test_changed_content_replaces_the_old_one_completely(desk: Desk):
    desk.index(A, "old words", etag='"1"', links=[Link("http://a.example/old", "", "hyperlink", 0)])
    again(desk)

    desk.write(
        desk.visit(
            A, "new words", etag='"2"', links=[Link("http://a.example/new", "n", "hyperlink", 0)]
        ),
        now=LATER,
    )

    found = row(desk)
    assert (found["etag"], found["outcome"], found["last_changed"], found["changed_run"]) == (
        '"2"', Word.MODIFIED, LATER, 2,
    )  # fmt: skip
    assert found["first_seen"] == NOW
    assert desk.rows("SELECT text FROM chunk") == [("new words",)]
    assert desk.rows("SELECT count(*) FROM content") == [(1,)]
    (raw,) = desk.rows("SELECT raw FROM links")
    assert [link.url for link in unpack_stored_links(raw[0])] == ["http://a.example/new"]
    assert index_is_sound(desk.connection)


@pytest.mark.covers("R4-27", "R4-38", "R4-40", "R4-41", "R4-45", "RD-01", "M-06")
@pytest.mark.parametrize(
    ("outcome", "status", "status_after", "word", "counts"),
    [
        (Outcome.NOT_FOUND, 404, Status.ERROR, Word.LOST, (1, 1)),
        (Outcome.SOFT_404, 200, Status.ERROR, Word.LOST, (1, 1)),
        (Outcome.HTTP_ERROR, 403, Status.ERROR, Word.LOST, (1, 0)),
        (Outcome.BAD_HEADER, 1003, Status.ERROR, Word.LOST, (1, 0)),
        (Outcome.TRANSIENT, 503, Status.ERROR, Word.FAILED, (0, 0)),
        (Outcome.UNREACHABLE, 1103, Status.ERROR, Word.FAILED, (0, 0)),
        (Outcome.UNPROCESSABLE, 1200, Status.ERROR, Word.FAILED, (0, 0)),
        (Outcome.REDIRECT, 301, Status.INDEXED, Word.REDIRECTED, (0, 0)),
        (Outcome.NOT_ACCEPTABLE, 406, Status.INDEXED, Word.EXCLUDED, (0, 0)),
        (Outcome.EXCLUDED, None, Status.OUT_OF_SCOPE, Word.EXCLUDED, (0, 0)),
    ],
)
def test_an_answer_without_usable_content_leaves_what_is_held(
    desk: Desk,
    outcome: Outcome,
    status: int | None,
    status_after: Status,
    word: Word,
    counts: tuple[int, int],
):
    """Whatever it may be removed for, that is for the sweep; lost and gone are counted at once."""
    links = [Link("http://a.example/b", "b", "hyperlink", False)]
    desk.index(A, "some words", etag='"1"', last_modified="Mon", links=links)
    held = (
        "etag", "last_modified", "content", "body_hash", "content_length", "last_changed",
        "last_indexed", "changed_run", "configuration", "effective_status", "standing",
    )  # fmt: skip
    before, stored = row(desk), desk.stored()
    again(desk)
    visit = desk.visit(A, "other words", outcome=outcome, status=status, error="why", etag='"9"')
    visit.parsed.links = None if outcome is not Outcome.NOT_ACCEPTABLE else visit.parsed.links

    desk.write(visit, now=LATER)

    after = row(desk)
    assert {name: after[name] for name in held} == {name: before[name] for name in held}
    assert (after["status"], after["error_message"]) == (status_after, "why")
    assert (after["outcome"], after["http_status"]) == (word, status or 200)
    assert (after["lost_count"], after["gone_count"]) == counts
    assert (after["lost_since"], after["gone_since"]) == tuple(LATER if n else None for n in counts)
    assert after["last_checked"] == LATER
    for table in ("links", "content", "chunk"):
        assert desk.stored()[table] == stored[table]


@pytest.mark.covers("R4-29", "R4-37", "U-07")
def test_a_new_page_that_must_not_be_indexed_keeps_links_and_validators_only(desk: Desk):
    desk.index(
        A, "secret words", outcome=Outcome.NOT_ACCEPTABLE, etag='"1"', error="not indexed: noindex",
        links=[Link("http://a.example/b", "b", "hyperlink", False)],
    )  # fmt: skip

    found = row(desk)
    assert (found["status"], found["standing"]) == (Status.CRAWLED, Standing.LINKS)
    assert (found["outcome"], found["effective_status"]) == (Word.EXCLUDED, 406)
    assert (found["etag"], found["error_message"]) == ('"1"', "not indexed: noindex")
    assert None not in (found["content_hash"], found["text_hash"], found["body_hash"])
    assert desk.rows("SELECT count(*) FROM content") == [(0,)]
    assert desk.rows("SELECT count(*) FROM chunk") == [(0,)]
    assert desk.rows("SELECT count FROM links") == [(1,)]


def test_a_page_that_may_be_indexed_at_last_has_its_hashes_in_the_content_row(desk: Desk):
    desk.index(A, "words", outcome=Outcome.NOT_ACCEPTABLE)
    again(desk)

    desk.write(desk.visit(A, "words"))

    found = row(desk)
    assert (found["content_hash"], found["text_hash"]) == (None, None)
    assert (found["standing"], found["outcome"]) == (Standing.HELD, Word.NEW)
    assert desk.readers.contents.content_hash(found["no"]) == desk.value(
        "SELECT content_hash FROM content"
    )


def test_a_redirect_is_recorded_with_its_target_and_forgotten_on_the_next_body(desk: Desk):
    (target,) = desk.add("http://a.example/b")
    visit = desk.visit(A, outcome=Outcome.REDIRECT, status=302, location="http://a.example/b")
    visit.parsed.links, visit.parsed.targets = pack_stored_links([]), pack_stored_numbers([target])
    desk.write(visit)
    found = row(desk)
    assert (found["redirect_target"], found["redirect_no"]) == ("http://a.example/b", target)
    assert (found["status"], found["standing"]) == (Status.CRAWLED, Standing.BARE)
    again(desk)

    desk.write(desk.visit(A, "words"))

    found = row(desk)
    assert (found["redirect_target"], found["redirect_no"]) == (None, None)


@pytest.mark.covers("R0-63", "R4-43")
def test_errors_are_counted_in_a_row_and_end_with_an_answer(desk: Desk):
    desk.index(A, "words")
    counts = []
    answers = {Outcome.TRANSIENT: 500, Outcome.NOT_FOUND: 404, Outcome.SAME: 200}
    for outcome, status in answers.items():
        again(desk)
        desk.write(desk.visit(A, "words", outcome=outcome, status=status, error="why"), now=LATER)
        found = row(desk)
        told = ("error_count", "attempts", "error_message", "lost_count", "gone_count")
        counts.append((*(found[name] for name in told), found["next_visit"] - LATER))

    assert counts == [
        (1, 2, "why", 0, 0, 600), (2, 3, "why", 1, 1, 1200), (0, 4, None, 0, 0, 86_400)
    ]  # fmt: skip


@pytest.mark.covers("R4-43")
@pytest.mark.parametrize("how", ["touched", "not_modified", "same", "changed"])
def test_every_answer_sets_the_counts_of_absence_to_zero(desk: Desk, how: str):
    """What was lost is never touched in bulk: that it is found again is a change of standing."""
    desk.index(A, "words")
    lost = (0, None) if how == "touched" else (2, NOW)
    values = (*lost, 3, NOW, 4)
    names = "lost_count, lost_since, gone_count, gone_since, error_count"
    desk.connection.execute(f"UPDATE state SET ({names}) = (?, ?, ?, ?, ?)", values)
    again(desk)

    if how == "touched":
        desk.write(touched=[1])
    else:
        status = 304 if how == "not_modified" else 200
        desk.write(desk.visit(A, f"words {how == 'changed'}", outcome=Outcome(how), status=status))

    assert desk.rows(f"SELECT {names} FROM state") == [(0, None, 0, None, 0)]
    events = 0 if how == "touched" else 1
    assert desk.rows("SELECT count(*) FROM event") == [(events,)]


def test_a_refusal_by_robots_is_no_sighting(desk: Desk):
    desk.index(A, "words")
    again(desk)

    desk.write(desk.visit(A, outcome=Outcome.EXCLUDED, status=None))

    found = row(desk)
    assert (found["visited_run"], found["seen_run"]) == (2, 1)


@pytest.mark.covers("R0-19")
def test_another_spelling_is_the_one_to_ask_and_the_identity_stays(desk: Desk):
    desk.add("http://a.example/dir")
    visit = desk.visit("http://a.example/dir", "words")
    visit.url = "http://a.example/dir/"

    desk.write(visit)

    assert desk.rows("SELECT url, identity FROM record") == [
        ("http://a.example/dir/", "http://a.example/dir")
    ]
    assert desk.page("http://a.example/dir").url == "http://a.example/dir/"


# Touches


def statements(desk: Desk, count: int) -> list[str]:
    """What is executed for a batch of that many touched pages."""
    with_text = [f"http://a.example/{n}" for n in range(count)]
    numbers = [desk.index(url, f"text {n}") for n, url in enumerate(with_text)]
    desk.seal()
    desk.open()
    desk.reach(*with_text)
    seen: list[str] = []

    def trace(_: object, statement: str, __: object) -> bool:
        seen.append(statement)
        return True

    desk.connection.exec_trace = trace
    assert desk.write(touched=numbers) == 0
    desk.connection.exec_trace = None
    words = desk.rows("SELECT outcome, http_status FROM state")
    assert words == [(Word.UNCHANGED, 304)] * count
    return seen


@pytest.mark.covers("R0-39", "R0-91", "R4-26", "U-02")
@pytest.mark.sqlite
def test_five_hundred_touched_pages_are_one_update():
    few, many = statements(fresh(), 5), statements(fresh(), 500)

    assert many == few
    assert sum("UPDATE state" in statement for statement in many) == 1


def fresh() -> Desk:
    desk = Desk()
    desk.open()
    return desk


def test_a_touch_writes_nothing_but_the_state(desk: Desk):
    desk.index(A, "words", etag='"1"')
    again(desk)
    stored = desk.stored()

    desk.write(touched=[1], now=LATER)

    after = desk.stored()
    assert after.pop("state") != stored.pop("state")
    assert after == stored
    assert row(desk)["last_checked"] == LATER


def test_a_touch_clears_the_marks_about_an_etag(desk: Desk):
    """A 304 between two bodies under other ETags: the page does not rotate."""
    desk.index(A, "words", etag='"1"')
    again(desk)
    desk.connection.execute("UPDATE state SET etag_marks = 3")

    desk.write(touched=[1])

    assert desk.rows("SELECT etag_marks FROM state") == [(0,)]


def test_a_touch_leaves_other_pages_alone(desk: Desk):
    one, two = desk.index(A, "one"), desk.index("http://a.example/b", "two")
    again(desk)

    desk.write(touched=[one])

    assert desk.rows("SELECT no FROM state WHERE visited_run = 2") == [(one,)]
    assert row(desk, "http://a.example/b")["no"] == two


@pytest.mark.covers("R4-19", "M-02")
def test_targets_are_filtered_anew_without_touching_the_raw_links(desk: Desk):
    links = [Link("http://a.example/b", "b", "hyperlink", False)]
    page, before, *after = desk.add(A, *(f"http://a.example/{name}" for name in "bcd"))
    desk.index(A, "words", links=links, targets=[before], scope=1)
    batch_links = desk.rows("SELECT raw, count FROM links")
    targets = pack_stored_numbers(after)

    with transaction(desk.connection):
        desk.commit().write(Batch(retargeted=[(page, 2, targets, None)]), NOW)

    assert desk.rows("SELECT scope, targets FROM links") == [(2, targets)]
    assert desk.rows("SELECT raw, count FROM links") == batch_links


@pytest.mark.covers("M-20")
@pytest.mark.parametrize("number", [7, None])
def test_a_canonical_page_that_comes_into_scope_or_leaves_it_is_named_or_not(
    desk: Desk, number: int | None
):
    desk.index(A, "words", canonical_no=3, links=[Link(A, "", "canonical", False)])

    with transaction(desk.connection):
        desk.commit().write(Batch(retargeted=[(1, 2, b"", number)]), NOW)

    assert desk.rows("SELECT canonical_no FROM record") == [(number,)]


# Depth


@pytest.mark.covers("M-24", "R1-22", "R1-23")
@pytest.mark.parametrize(
    ("reached_before", "forced", "offered", "stays"),
    [
        pytest.param(True, False, 1, 1, id="shallower-lowers"),
        pytest.param(True, False, 5, 3, id="deeper-is-ignored-while-it-stays-reached"),
        pytest.param(False, False, 5, 5, id="deeper-counts-when-it-was-not-reached"),
        pytest.param(True, True, 5, 5, id="a-forced-run-measures-anew"),
        pytest.param(True, True, 1, 1, id="forced-shallower"),
    ],
)
def test_the_smallest_depth_counts_while_a_page_stays_reached(
    desk: Desk, reached_before: bool, forced: bool, offered: int, stays: int
):
    desk.add(A, depth=3)
    desk.seal()
    if not reached_before:
        desk.open()
        desk.seal()
    desk.open(forced=forced)

    desk.reach(A, depth=offered)

    assert row(desk)["depth"] == stays


@pytest.mark.covers("M-24")
@pytest.mark.parametrize("forced", [False, True])
def test_within_one_run_the_smallest_depth_wins_whatever_comes_first(desk: Desk, forced: bool):
    desk.add(A, depth=9)
    desk.seal()
    desk.open(forced=forced)

    for depth in (7, 4, 6):
        desk.reach(A, depth=depth)

    assert row(desk)["depth"] == 4


def test_an_incomplete_run_does_not_end_being_reached(desk: Desk):
    """A run that was cut did not look: the depth of before still counts."""
    desk.add(A, depth=3)
    desk.seal()
    desk.open()
    desk.seal("max_pages")
    desk.open()

    desk.reach(A, depth=5)

    assert row(desk)["depth"] == 3


def test_a_stored_depth_is_told_only_while_the_page_stays_reached(desk: Desk):
    desk.add(A, depth=3)
    desk.seal()
    desk.open()
    assert desk.page(A).depth == 3
    desk.seal()
    desk.open()

    assert desk.page(A).depth == 0xFFFF


@pytest.mark.sqlite
def test_pages_of_each_depth_are_one_update(desk: Desk):
    urls = [f"http://a.example/{n}" for n in range(100)]
    desk.add(*urls)
    seen: list[str] = []

    def trace(_: object, statement: str, __: object) -> bool:
        seen.append(statement)
        return True

    reached = {desk.number(url): place % 2 for place, url in enumerate(urls)}
    desk.connection.exec_trace = trace
    desk.write(reached=reached)

    assert sum("SET depth" in statement for statement in seen) == 2


# Content


@pytest.mark.covers("R4-13", "M-23")
def test_content_is_stored_once_and_goes_with_the_last_page_that_has_it(desk: Desk):
    b = "http://a.example/b"
    desk.index(A, LONG)
    desk.index(b, LONG)
    assert desk.rows("SELECT count(*) FROM content") == [(1,)]
    assert desk.rows("SELECT count(*) FROM chunk") == [(1,)]
    again(desk)
    desk.reach(b)

    desk.write(desk.visit(A, "another text"))
    assert LONG.strip() in {text.strip() for (text,) in desk.rows("SELECT text FROM chunk")}
    desk.write(desk.visit(b, "another text"))

    assert desk.rows("SELECT text FROM chunk") == [("another text",)]
    assert desk.rows("SELECT count(*) FROM content") == [(1,)]
    assert index_is_sound(desk.connection)


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.NOT_FOUND, 404),
        (Outcome.HTTP_ERROR, 403),
        (Outcome.TRANSIENT, 503),
        (Outcome.REDIRECT, 301),
        (Outcome.NOT_ACCEPTABLE, 406),
        (Outcome.EXCLUDED, None),
    ],
)
def test_a_failing_page_keeps_its_content_alive(desk: Desk, outcome: Outcome, status: int | None):
    b = "http://a.example/b"
    desk.index(A, LONG)
    desk.index(b, LONG)
    again(desk)
    desk.reach(b)
    desk.write(desk.visit(A, outcome=outcome, status=status))

    desk.write(desk.visit(b, "another text"))

    assert desk.rows("SELECT count(*) FROM content") == [(2,)]
    assert row(desk)["content"] is not None
    assert desk.rows("SELECT count(*) FROM chunk WHERE text LIKE 'Every word%'") == [(1,)]


def test_sources_do_not_share_content(file):
    file.parent.mkdir()
    docs, shop = Desk(file, source="docs"), Desk(file, source="shop")
    docs.open()
    docs.index(A, LONG)
    docs.seal()
    shop.open()
    shop.index(A, LONG)
    shop.seal()

    assert docs.rows("SELECT source FROM content ORDER BY no") == [(1,), (2,)]
    assert docs.rows("SELECT count(*) FROM record WHERE duplicate_of IS NOT NULL") == [(0,)]
    docs.close()
    shop.close()


@pytest.mark.covers("R0-06", "R0-53")
def test_force_replaces_content_that_did_not_change(desk: Desk):
    desk.index(A, "words")
    desk.seal()
    desk.open(forced=True)
    desk.reach(A)

    desk.write(desk.visit(A, "words", outcome=Outcome.SAME), now=LATER)

    found = row(desk)
    assert (found["last_indexed"], found["last_changed"]) == (LATER, NOW)
    assert (found["outcome"], found["changed_run"]) == (Word.UNCHANGED, 1)
    assert desk.rows("SELECT text FROM chunk") == [("words",)]
    assert index_is_sound(desk.connection)


@pytest.mark.parametrize(
    "batches",
    [
        pytest.param(
            1,
            id="one-batch",
        ),
        pytest.param(2, id="two-batches"),
    ],
)
def test_clones_that_are_processed_again_are_indexed_once(desk: Desk, batches: int):
    """By force, or because the configuration changed."""
    b = "http://a.example/b"
    desk.index(A, LONG)
    desk.index(b, LONG)
    desk.seal()
    desk.open(forced=True)
    desk.reach(A, b)
    visits = [desk.visit(url, LONG, outcome=Outcome.SAME) for url in (A, b)]

    for part in [visits] if batches == 1 else [[visit] for visit in visits]:
        desk.write(*part)

    assert desk.rows("SELECT position FROM chunk") == [(0,)]
    assert index_is_sound(desk.connection)


@settings(deadline=None, max_examples=20)
@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6),
        max_size=5,
    )
)
def test_content_and_index_are_exactly_what_records_point_to(history):
    """Whatever pages change to whatever texts, in whatever batches, and go as orphans.

    Content lives while a record or the evidence of a removal points to it, its entry in the
    index while a record does (ADR 129).
    """
    desk = fresh()
    texts = ["", "short", LONG, LONG + "more"]
    for batch in history:
        pages = dict(batch)
        urls = [f"http://a.example/{page}" for page in pages]
        for url in urls:
            desk.page(url)
        desk.reach(*urls)
        desk.write(
            *(desk.visit(url, texts[text]) for url, text in zip(urls, pages.values(), strict=True))
        )
        desk.seal()
        desk.open()

        held = desk.rows("SELECT DISTINCT content FROM record WHERE content IS NOT NULL ORDER BY 1")
        kept = desk.rows("SELECT content FROM evidence WHERE content IS NOT NULL")
        assert desk.rows("SELECT no FROM content ORDER BY no") == sorted({*held, *kept})
        assert desk.rows("SELECT DISTINCT content FROM chunk ORDER BY content") == held
        shown = "SELECT DISTINCT content FROM record WHERE entry = 1 ORDER BY 1"
        assert desk.rows(shown) == held
        assert index_is_sound(desk.connection)
    desk.close()


# Hosts


@pytest.mark.covers("R2-55")
def test_statistics_of_a_host_add_up(desk: Desk):
    desk.index(A, "words")
    first = HostTally(crawled=3, failed=1, downloaded=500, response_ms=90)
    second = HostTally(crawled=1, failed=0, downloaded=100, response_ms=30, robots=b"r" * 32)

    desk.write(touched=[1], hosts={"a.example": first}, now=NOW)
    desk.write(touched=[1], hosts={"a.example": second}, now=LATER)
    desk.write(touched=[1], hosts={"a.example": HostTally()}, now=LATER + 1)

    assert with_iso_times(desk.rows("SELECT * FROM domain_stats")) == [
        (
            "a.example", 4, 1, 600, "2025-06-15T15:06:40Z", "2025-06-15T16:06:40Z", 30,
            "2025-06-15T16:06:40Z", (b"r" * 32).hex(), 1000, 0.2, 0, None,
        )
    ]  # fmt: skip


def test_what_a_run_counts_is_kept_in_its_row(desk: Desk):
    desk.index(A, "words", requests=3)

    (counts,) = desk.rows("SELECT visits, requests FROM run")

    assert counts == (1, 3)
    assert stored_run_result(desk.connection, 1).requests == 3
