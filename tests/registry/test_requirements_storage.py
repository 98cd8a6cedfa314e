"""Requirements about what is stored, where no other test of the registry says it."""

import pytest

from smartcrawl.model.documents import Link
from smartcrawl.registry.pack import unpack_stored_links
from tests.registry.build import LONG, Desk
from tests.registry.test_outcome_table import (
    ORIGINAL,
    PASTS,
    TARGET,
    A,
    Reply,
    answers,
    asked,
    begin,
    bring,
)

B = "http://a.example/b"


@pytest.mark.covers("R1-05", "R1-16", "R1-17", "R1-22")
def test_a_known_page_is_looked_up_with_its_number_depth_and_validators(desk: Desk):
    """No queue is loaded with all pages: one is read when a link leads there (ADR 135)."""
    (number,) = desk.add(A, depth=3)
    desk.write(desk.visit(A, "words", etag='"abc123"', last_modified="Mon"))
    desk.index(B, "other words")
    desk.seal()
    desk.open()

    assert list(desk.readers.progress.pending(desk.run.no)) == []
    desk.reach(A, depth=3)

    assert list(desk.readers.progress.pending(desk.run.no)) == [(number, 3)]
    page = desk.page(A)
    assert (page.url, page.no, page.depth) == (A, number, 3)
    assert (page.record.etag, page.record.last_modified) == ('"abc123"', "Mon")


@pytest.mark.covers("R1-15", "R1-46", "M-14", "M-23")
def test_a_validator_is_kept_once_for_each_page_and_read_the_same_everywhere(desk: Desk):
    for url, etag in {A: 'W/"a"', B: '"b"'}.items():
        desk.write(desk.visit(url, LONG, etag=etag))
    desk.seal()
    assert desk.rows("SELECT count(*) FROM content") == [(1,)]

    wanted = sorted({A: 'W/"a"', B: '"b"'}.items())
    for view, url, etag in (
        ('"IngestItems"', '"normalizedSource"', '"httpEtag"'),
        ("pages", "url", "etag"),
        ("crawled_documents", "url", "etag"),
        ("urlword", "url", "etag"),
    ):
        assert desk.rows(f"SELECT {url}, {etag} FROM {view} ORDER BY 1") == wanted


@pytest.mark.covers("R4-23", "R4-24", "R4-31", "R4-32", "M-22")
@pytest.mark.parametrize(
    ("reply", "stored"),
    [
        (Reply(200, "new"), {"content", "chunk", "links"}),
        (Reply(301, to=TARGET), {"links"}),
        (Reply(302, to=TARGET), {"links"}),
        (Reply(406, "new"), {"links"}),
        (Reply(404), set()),
        (Reply(403), set()),
        (Reply(503), set()),
        (Reply(1003), set()),
        (Reply(1103), set()),
        (Reply(1200), set()),
        (Reply(None), set()),
    ],
    ids=lambda value: str(value.status) if isinstance(value, Reply) else "",
)
def test_words_and_links_are_written_for_200_redirects_and_406_only(
    desk: Desk, reply: Reply, stored: set[str]
):
    """Words for a 200; what leads on for a redirect and a 406; the status always."""
    now = begin(desk)
    before = desk.stored()

    desk.write(asked(desk, reply, now), now=now)

    after = desk.stored()
    assert {t for t in ("content", "chunk", "links") if len(after[t]) > len(before[t])} == stored
    told = desk.value("SELECT http_status FROM state WHERE no = ?", (desk.number(A),))
    assert told == reply.status


@pytest.mark.covers("M-22", "M-55", "R4-23")
def test_a_redirect_has_a_link_and_no_page(desk: Desk):
    bring(desk, "redirect")

    assert desk.rows("SELECT count(*) FROM pages WHERE url = ?", (A,)) == [(0,)]
    assert desk.rows("SELECT http_status FROM crawled_documents WHERE url = ?", (A,)) == [(301,)]
    raw = desk.value("SELECT raw FROM links WHERE no = ?", (desk.number(A),))
    assert unpack_stored_links(raw) == [Link(TARGET, "", "redirect", False)]


#: Registry status and the frontier's, from each past of the outcome table (M-29).
PAIRS = {
    "none": ("Pending", "pending"),
    "held": ("Indexed", "completed"),
    "lost": ("Error", "failed"),
    "gone": ("Gone", "failed"),
    "redirect": ("Crawled", "completed"),
    "links": ("Crawled", "completed"),
    "error": ("Error", "failed"),
    "excluded": ("OutOfScope", "blocked"),
}


@pytest.mark.covers("M-29", "R0-28", "R2-47")
@pytest.mark.parametrize("past", PAIRS)
def test_each_status_has_its_counterpart_in_the_frontier(desk: Desk, past: str):
    if past == "none":
        desk.add(A)
    elif past == "excluded":
        answers(desk, Reply(None))
    else:
        bring(desk, past)

    found = desk.rows(
        'SELECT i."status", f.status FROM "IngestItems" i JOIN url_frontier f'
        ' ON f.url = i."normalizedSource" WHERE f.url = ?',
        (A,),
    )
    assert found == [PAIRS[past]]
    assert set(PASTS) <= set(PAIRS)


@pytest.mark.covers("R4-10", "R4-11")
def test_each_run_keeps_when_it_started_beside_when_pages_were_seen(desk: Desk):
    for reply in (Reply(200, "new"), None, None):
        answers(desk, reply)

    started = [at for (at,) in desk.rows("SELECT started_at FROM run ORDER BY no")]
    assert started == sorted(set(started))
    assert len(started) == 3
    seen = "SELECT r.started_at FROM state s JOIN run r ON r.no = s.seen_run WHERE s.no = ?"
    assert desk.value(seen, (desk.number(A),)) == started[0]
    assert desk.value(seen, (desk.number(ORIGINAL),)) == started[-1]


@pytest.mark.covers("RD-16", "R0-87")
@pytest.mark.parametrize("past", [past for past in PASTS if past != "none"])
def test_a_link_to_a_known_page_moves_neither_its_schedule_nor_its_status(desk: Desk, past: str):
    bring(desk, past)
    kept = "SELECT status, standing, next_visit, last_checked, http_status FROM state WHERE no = ?"
    before = desk.rows(kept, (desk.number(A),))
    begin(desk)

    desk.reach(A)

    assert desk.rows(kept, (desk.number(A),)) == before


@pytest.mark.covers("R1-36", "RD-01", "M-14")
def test_a_batch_that_fails_leaves_everything_as_it_was(desk: Desk):
    bring(desk, "held")
    now = begin(desk)
    good, broken = asked(desk, Reply(200, "new"), now), desk.visit(B, "second")
    broken.parsed.document = None
    before = desk.stored()

    with pytest.raises(AssertionError, match="INDEX needs a document"):
        desk.write(good, broken, now=now)

    assert desk.stored() == before
    assert desk.page(A).record.etag == "old"
