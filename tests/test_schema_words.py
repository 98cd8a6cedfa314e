"""The numbers in SQL mean what the enums of the rules say: each is asked by its effect."""

import pytest

from smartcrawl.index.choice import EMBEDDED
from smartcrawl.model.batches import Batch
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.registry.commit.visit import Judgement
from smartcrawl.registry.registry import open_registry
from smartcrawl.registry.removal.candidates import EndingRunRow
from smartcrawl.registry.runs.runs import RunRequest
from smartcrawl.registry.writer import RegistryWriter
from smartcrawl.reports.tables import run_table_report
from smartcrawl.rules.absence import Counts, Policy, absence_counts_after
from smartcrawl.rules.clones import KEPT, NONE, OWN
from smartcrawl.rules.model import Action, Outcome, RunState, Standing, Status, Word
from smartcrawl.rules.reindex import decide, status_after
from smartcrawl.rules.schedule import Schedule
from tests.registry.build import closing

NOW = 1_750_000_000  #: Unix seconds

_RECORD = """
INSERT INTO record (no, source, id, url, host, first_run, first_seen, duplicate_of, entry)
VALUES (?, 1, ?, ?, 1, 1, 0, ?, ?)
"""
_STATE = """
INSERT INTO state (no, reached_run, visited_run, depth, status, standing, outcome, http_status)
VALUES (?, 1, ?, 0, ?, ?, ?, ?)
"""

_CHUNK = """
INSERT INTO chunk (content, position, title, headings, text) VALUES (?, 0, '', '', '')
"""
_TOLD = """
SELECT status, outcome, http_status, gone_count, gone_since, error_count, unchanged_count,
       next_visit FROM state
"""

#: What the table ``url_frontier`` calls each status (R2.10).
FRONTIER_WORDS = {
    Status.PENDING: "pending",
    Status.CRAWLED: "completed",
    Status.INDEXED: "completed",
    Status.ERROR: "failed",
    Status.OUT_OF_SCOPE: "blocked",
    Status.GONE: "failed",
}


@pytest.fixture
def registry(tmp_path):
    """A registry with one open run of one source."""
    registry = open_registry(tmp_path / "registry.db", EMBEDDED)
    registry.opened = registry.open_run(RunRequest("docs", "site"), NOW)
    registry.connection.execute("INSERT INTO host (no, name) VALUES (1, 'a.example')")
    yield registry
    registry.close()


def put(
    registry,
    no,
    *,
    status=Status.INDEXED,
    standing=Standing.HELD,
    word=Word.NEW,
    visited=1,
    http_status=200,
    duplicate_of=None,
    entry=OWN,
):
    url = f"http://a.example/{no}"
    registry.connection.execute(_RECORD, (no, no.to_bytes(32, "big"), url, duplicate_of, entry))
    registry.connection.execute(_STATE, (no, visited, status, standing, word, http_status))


def touch(registry, *numbers, stale=0, judgement=Judgement()):  # noqa: B008  # it is frozen
    batch = Batch()
    batch.touched.extend(numbers)
    writer = RegistryWriter(registry, registry.opened, judgement=judgement)
    try:
        assert writer.submit(batch, NOW).result().stale == stale
    finally:
        writer.close()


def ending(now):
    return EndingRunRow(1, 1, now, closing())


def test_every_status_has_its_word_in_the_views(registry):
    for status in Status:
        put(registry, status + 1, status=status)
    query = """
    SELECT i."status", f.status
      FROM "IngestItems" i JOIN url_frontier f ON f.url = i."displaySource" ORDER BY f.url
    """

    words = registry.connection.execute(query).fetchall()

    assert words == [(status.word, FRONTIER_WORDS[status]) for status in Status]


@pytest.mark.parametrize(
    ("message", "called"),
    [
        ("disallowed by http://a.example/robots.txt", [Status.OUT_OF_SCOPE, Status.GONE]),
        ("out of scope", []),
        (None, []),
    ],
)
def test_only_what_robots_txt_forbids_is_called_disallowed(registry, message, called):
    """A page that left the scope is *OutOfScope* as well; a tombstone stays *Gone* (U-15, M-25)."""
    for status in Status:
        put(registry, status + 1, status=status)
    registry.connection.execute("UPDATE record SET error_message = ?", (message,))
    query = """
    SELECT "displaySource" FROM "IngestItems" WHERE NOT "httpRobotsAllowed" ORDER BY 1
    """

    found = registry.connection.execute(query).fetchall()

    assert found == [(f"http://a.example/{status + 1}",) for status in called]


def test_views_of_words_show_what_is_held(registry):
    """``urlwords`` lists pages with content, and pages of links only where they have some."""
    for standing in Standing:
        entry = OWN if standing is Standing.HELD else NONE
        put(registry, standing + 1, standing=standing, entry=entry)
        registry.connection.execute(
            "INSERT INTO links VALUES (?, 0, 1, x'00', x'')", (standing + 1,)
        )
    registry.connection.execute("UPDATE record SET content_length = no - 1")

    shown = registry.connection.execute("SELECT docsize FROM urlwords ORDER BY 1").fetchall()

    assert shown == [(Standing.LINKS,), (Standing.HELD,)]


def test_views_show_only_the_pages_that_have_an_entry_in_the_index(registry):
    """An original, or what was lost with its own entry (KEPT); a clone has none."""
    for entry in (NONE, OWN, KEPT):
        put(registry, entry + 1, entry=entry)
    registry.connection.execute("UPDATE record SET content = no, content_length = entry")
    for no in (1, 2, 3):
        registry.connection.execute(_CHUNK, (no,))

    words = registry.connection.execute("SELECT docsize FROM urlwords ORDER BY 1").fetchall()
    documents = registry.connection.execute("SELECT page_id FROM documents ORDER BY 1").fetchall()

    assert words == [(OWN,), (KEPT,)]
    assert documents == [(OWN + 1,), (KEPT + 1,)]


@pytest.mark.parametrize("unchanged", [*range(13), 99])
def test_a_touch_is_what_the_rules_decide_for_a_304(registry, unchanged):
    """A 304 is written in bulk, without asking the rules once more."""
    standing, status, word = Standing.HELD, Status.INDEXED, Word.UNCHANGED
    schedule = Schedule(base=100, longest=1_300, steps=(1, 3, 7, 14), patience=3)
    put(registry, 1, standing=standing, status=status, word=Word.NEW)
    registry.connection.execute("UPDATE state SET gone_count = 2, gone_since = 9, error_count = 1")
    registry.connection.execute("UPDATE state SET unchanged_count = ?", (unchanged,))

    touch(registry, 1, judgement=Judgement(schedule=schedule))

    interval = schedule.interval(unchanged + 1)
    verdict = decide(standing, Outcome.NOT_MODIFIED)
    assert verdict == (Action.TOUCH, word)
    assert status is status_after(Action.TOUCH, Outcome.NOT_MODIFIED, status, standing)
    assert absence_counts_after(
        Counts(0, 2, None, 9), Outcome.NOT_MODIFIED, 304, Policy(), NOW, held=True
    ) == Counts()  # fmt: skip
    assert registry.connection.execute(_TOLD).fetchall() == [
        (status, word, 304, 0, None, 0, unchanged + 1, NOW + schedule.spread(interval, 1))
    ]
    assert registry.connection.execute("SELECT interval FROM state").get == interval


@pytest.mark.parametrize("standing", [Standing.BARE, Standing.LINKS])
def test_only_what_is_held_is_touched(registry, standing):
    """A page of links only is *excluded* or *redirected*, which one the rules decide."""
    put(registry, 1, standing=standing, status=Status.ERROR, word=Word.FAILED)

    touch(registry, 1, stale=1)

    assert registry.connection.execute("SELECT outcome FROM state").get == Word.FAILED


def test_new_and_modified_count_as_clone_beside_an_original(registry):
    """The word *clone* is never stored, and no other word becomes it."""
    put(registry, 1, word=Word.UNCHANGED)
    words = [word for word in Word if word is not Word.CLONE]
    for no, word in enumerate(words, 2):
        put(registry, no, word=word, duplicate_of=1)
    expected = dict.fromkeys((word.word for word in words), 1)
    expected |= {"new": 0, "modified": 0, "unchanged": 2, "clone": 2}

    before = next(run_table_report(registry.connection))  # counted from what is committed so far
    registry.end(ending(NOW), ())
    after = next(run_table_report(registry.connection))  # as swept

    assert before["state"] == RunState.OPEN.word
    assert after["state"] == RunState.SWEPT.word
    for run in (before, after):
        assert {word.word: run[word.word] for word in Word} == expected


@pytest.mark.parametrize("state", RunState)
def test_only_a_run_that_is_open_or_verifying_is_written_to(registry, state):
    """``state < 2`` in SQL means these two (ADR 130)."""
    assert registry.connection.execute("SELECT state FROM run").get == RunState.OPEN
    registry.connection.execute("UPDATE run SET state = ?", (state,))
    put(registry, 1)

    if state in (RunState.OPEN, RunState.VERIFYING):
        touch(registry, 1)
    else:
        with pytest.raises(RegistryError, match="run 1 was closed"):
            touch(registry, 1)


@pytest.mark.parametrize("state", RunState)
def test_a_run_is_sealed_or_interrupted_only_while_it_is_open_or_verifying(registry, state):
    """Nothing but its own steps moves a run that was sealed; an interrupted one stays so."""
    for act in (registry.interrupt, lambda run, why, now: registry.end(ending(now), why)):
        registry.connection.execute("UPDATE run SET state = ?, reasons = '[]'", (state,))

        act(registry.opened, ("max_pages",), NOW)

        told = registry.connection.execute("SELECT reasons FROM run").get
        closable = state in (RunState.OPEN, RunState.VERIFYING)
        assert told == ('["max_pages"]' if closable else "[]")
