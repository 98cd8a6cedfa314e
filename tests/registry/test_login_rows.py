"""The login of a source in the registry: who asks, refusals, one attempt at a time (ADR 146)."""

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database
from smartcrawl.registry.runs.logins import LoginRows, RefusedLogin

NOW = 1_705_744_800
HOUR = 3_600
ONE, OTHER = b"configuration with hunter2", b"another one"

Place = tuple[Database, Connection]


def rows(begun: Place, run: int = 1) -> LoginRows:
    return LoginRows(*begun, "docs", run)


def test_another_reader_is_noticed_once(begun: Place):
    mine = rows(begun)
    assert not mine.identify(None)
    assert mine.identify(b"me")
    assert not mine.identify(b"me")
    assert mine.identify(b"you")
    assert mine.identify(None)
    assert not mine.identify(None)


def test_one_worker_of_a_run_tries_at_a_time(begun: Place):
    mine, theirs, later = rows(begun), rows(begun), rows(begun, 2)
    mine.identify(b"me")
    assert mine.begin(NOW)
    assert not theirs.begin(NOW + 119)
    assert later.begin(NOW + 1), "another run is another attempt"
    assert mine.begin(NOW + 2)
    assert theirs.begin(NOW + 123), "the first one died"
    theirs.held()
    assert mine.begin(NOW + 124)
    mine.undecided()
    assert theirs.begin(NOW + 125)


def test_a_refusal_counts_for_all_until_its_time_or_another_configuration(begun: Place):
    mine, theirs = rows(begun), rows(begun)
    mine.identify(b"me")
    assert mine.refusal(ONE, NOW) is None
    mine.begin(NOW)
    assert mine.refused("refused", ONE, NOW) == RefusedLogin("refused", NOW + HOUR)
    assert theirs.refusal(ONE, NOW + HOUR - 1) == RefusedLogin("refused", NOW + HOUR)
    assert theirs.refusal(OTHER, NOW) is None
    assert theirs.refusal(ONE, NOW + HOUR) is None
    again = theirs.refused("again", ONE, NOW + HOUR)
    assert again == RefusedLogin("again", NOW + 3 * HOUR), "twice as long"
    assert theirs.refused("other", OTHER, NOW).until == NOW + HOUR, "it counts anew"
    mine.held()
    assert mine.refusal(OTHER, NOW) is None


def test_no_secret_is_stored(begun: Place):
    mine = rows(begun)
    mine.identify(b"me")
    mine.begin(NOW)
    mine.refused("refused", ONE, NOW)
    (row,) = begun[1].execute("SELECT mark, salt, why FROM login").fetchall()
    assert len(bytes(row[0])) == 2
    assert b"hunter2" not in b"".join(map(bytes, row[:2])) + row[2].encode()
