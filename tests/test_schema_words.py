"""The numbers in SQL mean what the enums of the rules say: each is asked by its effect."""

import pytest

from smartcrawl.exceptions import RegistryError
from smartcrawl.items import Batch
from smartcrawl.registry.reports import runs
from smartcrawl.registry.sqlite import Writer, open_registry
from smartcrawl.rules.model import Action, Outcome, RunState, Standing, Status, Word
from smartcrawl.rules.reindex import decide, status_after
from smartcrawl.sinks.sqlite import EmbeddedIndex

NOW = 1_750_000_000  #: Unix seconds

_RECORD = """
INSERT INTO record (no, source, id, url, host, first_run, first_seen, duplicate_of)
VALUES (?, 1, ?, ?, 1, 1, 0, ?)
"""
_STATE = """
INSERT INTO state (no, reached_run, visited_run, depth, status, standing, outcome, http_status)
VALUES (?, 1, ?, 0, ?, ?, ?, ?)
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
    registry = open_registry(tmp_path / "registry.db")
    registry.opened = registry.open_run(
        source="docs", kind="site", now=NOW, resume=False, forced=False
    )
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
):
    url = f"http://a.example/{no}"
    registry.connection.execute(_RECORD, (no, no.to_bytes(32, "big"), url, duplicate_of))
    registry.connection.execute(_STATE, (no, visited, status, standing, word, http_status))


def touch(registry, *numbers, stale=0):
    batch = Batch()
    batch.touched.extend(numbers)
    writer = Writer(registry, registry.opened, configuration=1, sink=EmbeddedIndex)
    try:
        assert writer.submit(batch, NOW).result().stale == stale
    finally:
        writer.close()


def test_every_status_has_its_word_in_the_views(registry):
    for status in Status:
        put(registry, status + 1, status=status)
    query = """
    SELECT i."status", f.status
      FROM "IngestItems" i JOIN url_frontier f ON f.url = i."displaySource" ORDER BY f.url
    """

    words = registry.connection.execute(query).fetchall()

    assert words == [(status.word, FRONTIER_WORDS[status]) for status in Status]


def test_only_what_is_out_of_scope_is_called_disallowed(registry):
    for status in Status:
        put(registry, status + 1, status=status)
    query = """
    SELECT "displaySource" FROM "IngestItems" WHERE NOT "httpRobotsAllowed"
    """

    assert registry.connection.execute(query).get == f"http://a.example/{Status.OUT_OF_SCOPE + 1}"


def test_views_of_words_show_what_is_held(registry):
    """``urlwords`` lists pages with content, and pages of links only where they have some."""
    for standing in Standing:
        put(registry, standing + 1, standing=standing)
        registry.connection.execute("INSERT INTO links VALUES (?, 0, 1, x'', x'')", (standing + 1,))
    registry.connection.execute("UPDATE record SET content_length = no - 1")

    shown = registry.connection.execute("SELECT docsize FROM urlwords ORDER BY 1").fetchall()

    assert shown == [(Standing.LINKS,), (Standing.HELD,)]


@pytest.mark.parametrize(
    ("standing", "status", "word"),
    [
        (Standing.HELD, Status.INDEXED, Word.UNCHANGED),
        (Standing.LINKS, Status.CRAWLED, Word.EXCLUDED),
    ],
)
def test_a_touch_is_what_the_rules_decide_for_a_304(registry, standing, status, word):
    """A 304 is written in bulk, without asking the rules once more."""
    verdict = decide(standing, Outcome.NOT_MODIFIED)
    put(registry, 1, standing=standing, status=status, word=Word.NEW)

    touch(registry, 1)

    row = registry.connection.execute("SELECT status, outcome, http_status FROM state").fetchone()
    assert verdict == (Action.TOUCH, word)
    assert status is status_after(Action.TOUCH, Outcome.NOT_MODIFIED, status, standing)
    assert row == (status, word, 304)


def test_nothing_bare_is_touched(registry):
    put(registry, 1, standing=Standing.BARE, status=Status.ERROR, word=Word.FAILED)

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

    before = next(runs(registry.connection))  # counted from what is committed so far
    registry.seal(registry.opened, (), NOW)
    after = next(runs(registry.connection))  # as settled

    assert before["state"] == RunState.OPEN.word
    assert after["state"] == RunState.SETTLED.word
    for run in (before, after):
        assert {word.word: run[word.word] for word in Word} == expected


def test_only_an_open_run_is_written_to(registry):
    """``state = 0`` in SQL is RunState.OPEN."""
    assert registry.connection.execute("SELECT state FROM run").get == RunState.OPEN
    registry.interrupt(registry.opened, ("interrupted",), NOW)
    put(registry, 1)

    with pytest.raises(RegistryError, match="run 1 was closed"):
        touch(registry, 1)
