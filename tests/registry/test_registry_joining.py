"""Workers of one run: one opens it, others join, one ends it, the last one leaves (ADR 30)."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from smartcrawl.model.exceptions import RunDiffersError, RunHeldError
from smartcrawl.registry.connection import Connection, transaction
from smartcrawl.registry.database import heartbeat
from smartcrawl.registry.database.postgres import PostgresDatabase
from smartcrawl.registry.runs.membership import (
    Membership,
    Turn,
    add_run_row_rules,
    digests_of_rules,
)
from smartcrawl.registry.runs.runs import OpenRun, RunRequest, SourcePart
from smartcrawl.registry.site_parts import decide_part_row
from smartcrawl.rules.model import RunState
from tests.registry.build import NOW

Join = Callable[..., tuple[Membership, OpenRun | None]]


@pytest.fixture
def place(spare_registries) -> Iterator[PostgresDatabase]:
    url = spare_registries.take()
    PostgresDatabase(url).open().close()
    yield PostgresDatabase(url)
    spare_registries.put_back(url)


@pytest.fixture
def control(place: PostgresDatabase) -> Iterator[Connection]:
    connection = place.connect()
    yield connection
    connection.close()


@pytest.fixture
def join(place: PostgresDatabase, control: Connection) -> Iterator[Join]:
    """Let one more worker join."""
    made: list[Membership] = []

    def join(**asked: Any) -> tuple[Membership, OpenRun | None]:
        member = Membership.enter(place, "docs", "then")
        made.append(member)
        now = asked.pop("now", NOW)
        return member, member.join(control, RunRequest("docs", "site", **asked), now)

    yield join
    for member in made:
        member.release()


def bury(control: Connection, *members: Membership) -> None:
    """Let workers be silent for so long that they are taken for dead."""
    for member in members:
        control.execute(
            "UPDATE lease SET beat = beat - interval '1 hour' WHERE token = ?", (member.token,)
        )


def at_work(control: Connection) -> list[int]:
    """Return the run of each worker."""
    return [run for (run,) in control.execute("SELECT run FROM lease").fetchall()]


def state(control: Connection, run: OpenRun | None) -> RunState:
    assert run is not None
    return RunState(control.execute("SELECT state FROM run WHERE no = ?", (run.no,)).get)


def ended(control: Connection, run: OpenRun | None, state: RunState = RunState.SWEPT) -> None:
    assert run is not None
    control.execute("UPDATE run SET state = ? WHERE no = ?", (state, run.no))


@pytest.mark.covers("M-33")
def test_postgres_worker_joins_the_run_that_another_is_at(join: Join, control: Connection):
    one, first = join()
    two, second = join(forced=True)

    assert first is not None
    assert second is not None
    assert (first.no, first.joined, first.resumed) == (1, False, False)
    assert (second.no, second.joined, second.forced) == (1, True, False)
    assert second.number > first.number, "each has a claim number of its own"
    assert one.others(control)
    assert two.others(control)
    assert at_work(control) == [1, 1]


def test_postgres_worker_with_other_rules_is_refused_with_their_keys(
    join: Join, control: Connection
):
    _, opened = join(rules={"seeds": "1", "max_depth": "2", "LLMS_TXT": "3"})
    assert opened is not None

    with pytest.raises(
        RunDiffersError, match=r"run 1 with another seeds, LLMS_TXT: give"
    ) as caught:
        join(rules={"seeds": "0", "max_depth": "2", "LLMS_TXT": "0"})
    assert caught.value.keys == ("seeds", "LLMS_TXT")
    for rules in ({"max_depth": "2", "of_a_later_version": "5"}, {}):
        _, joined = join(rules=rules)
        assert joined is not None
        assert (joined.no, joined.joined) == (opened.no, True)


def test_postgres_run_that_is_resumed_has_the_rules_of_today(join: Join, control: Connection):
    member, opened = join(rules={"max_depth": "2"})
    bury(control, member)

    _, resumed = join(rules={"max_depth": "7"}, resume=True)

    assert opened is not None
    assert resumed is not None
    assert (resumed.no, resumed.resumed) == (opened.no, True)
    assert join(rules={"max_depth": "7"})[1] is not None
    with pytest.raises(RunDiffersError, match="another max_depth"):
        join(rules={"max_depth": "2"})


def test_postgres_workers_that_start_at_once_open_one_run(place: PostgresDatabase):
    def start(_: int) -> tuple[Membership, OpenRun | None]:
        member, connection = Membership.enter(place, "docs", "then"), place.connect()
        opened = member.join(connection, RunRequest("docs", "site"), NOW)
        connection.close()
        return member, opened

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(start, range(8)))

    assert {opened.no for _, opened in found if opened} == {1}
    assert sorted(opened.joined for _, opened in found if opened) == [False] + 7 * [True]
    for member, _ in found:
        member.release()


def test_postgres_run_of_dead_workers_is_not_joined_but_closed(join: Join, control: Connection):
    dead, first = join()
    bury(control, dead)
    _, second = join()

    assert second is not None
    assert (second.no, second.joined, second.interrupted) == (2, False, 1)
    assert state(control, first) is RunState.INTERRUPTED


def test_postgres_run_of_dead_workers_goes_on_if_that_is_wanted(join: Join, control: Connection):
    dead, _ = join()
    bury(control, dead)
    _, second = join(resume=True)

    assert second is not None
    assert (second.no, second.joined, second.resumed) == (1, False, True)


def test_postgres_worker_of_a_job_that_is_over_has_nothing_to_do(join: Join, control: Connection):
    one, first = join(job="nightly")
    ended(control, first)
    one.leave(control, NOW, ["interrupted"])
    _, late = join(job="nightly")
    _, other = join(job="weekly")

    assert late is not None
    assert (late.no, late.over) == (1, True)
    assert other is not None
    assert (other.no, other.over) == (2, False)
    assert state(control, first) is RunState.SWEPT


def test_postgres_worker_of_a_job_that_was_cut_off_goes_on_with_it(join: Join, control: Connection):
    one, _ = join(job="nightly")
    one.leave(control, NOW, ["interrupted"])
    _, again = join(job="nightly")

    assert again is not None
    assert (again.no, again.resumed, again.joined) == (1, True, False)


def test_postgres_worker_of_a_jobs_run_that_was_swept_asks_nothing(join: Join, control: Connection):
    now = (NOW, NOW)
    control.execute("INSERT INTO job (id, name, definition, created_at) VALUES ('j', 'd', '', 1)")
    control.execute("INSERT INTO job_run (id, job, due_at, fired_at) VALUES ('r', 1, ?, ?)", now)
    one, first = join(job_run="r")
    ended(control, first)
    one.leave(control, NOW, ["interrupted"])
    _, again = join(job_run="r", resume=True)
    _, other = join(job_run="another", resume=True)

    assert again is not None
    assert other is not None
    assert (again.no, again.over, again.shared) == (1, True, True)
    assert (other.no, other.over) == (2, False)


@pytest.mark.parametrize("ending", [RunState.SEALED, RunState.SETTLED])
def test_postgres_worker_waits_while_another_ends_a_run(
    join: Join, control: Connection, ending: RunState
):
    one, first = join()
    ended(control, first, ending)
    two, opened = join()
    assert opened is None

    one.release()
    assert two.join(control, RunRequest("docs", "site"), NOW) is not None


def test_postgres_run_is_ended_by_one_of_its_workers(join: Join, control: Connection):
    one, _ = join()
    two, _ = join()

    assert one.close(control) is Turn.OURS
    assert two.close(control) is Turn.NOT_OURS
    assert one.close(control) is Turn.OURS, "it may ask again"

    bury(control, one)
    assert two.close(control) is Turn.TAKEN_OVER


def test_postgres_worker_that_died_at_the_end_is_known_by_those_who_join_later(
    join: Join, control: Connection
):
    one, _ = join()
    two, _ = join()
    one.close(control)
    bury(control, one)
    three, _ = join()

    assert three.close(control) is Turn.TAKEN_OVER
    assert two.close(control) is Turn.NOT_OURS


def test_postgres_last_worker_to_leave_closes_the_run(join: Join, control: Connection):
    one, opened = join()
    two, _ = join()

    assert not one.leave(control, NOW, ["interrupted"])
    assert state(control, opened) is RunState.OPEN
    assert two.leave(control, NOW, ["interrupted"])
    assert state(control, opened) is RunState.INTERRUPTED
    assert control.execute("SELECT count(*) FROM lease").get == 0


def test_postgres_workers_that_join_later_agree_with_a_decision(join: Join, control: Connection):
    part = SourcePart(scope=None, decides=True)
    _, opened = join(part=part)
    join(part=part)
    decided = SourcePart("below", "http://a.example/docs/")
    with transaction(control):
        decide_part_row(control, opened.source, decided)
        add_run_row_rules(control, opened.no, {"scope": "below"})
    join(part=part)
    row = control.execute("SELECT scope, start FROM source").fetchone()
    assert tuple(row) == ("below", "http://a.example/docs/"), "whoever is late does not undo it"
    join(part=decided, rules=digests_of_rules({"scope": "below"}))
    with pytest.raises(RunDiffersError, match="scope"):
        join(part=SourcePart("host"), rules=digests_of_rules({"scope": "host"}))
    assert control.execute("SELECT scope FROM source").get == "below"


def test_postgres_source_is_held_alone_or_shared(
    join: Join, place: PostgresDatabase, control: Connection
):
    member, _ = join()
    with pytest.raises(RunHeldError):
        place.take("docs", "then")
    member.release()

    alone = place.take("docs", "then")
    with pytest.raises(RunHeldError):
        Membership.enter(place, "docs", "then")
    bury(control, member)
    alone.release()
    Membership.enter(place, "docs", "then").release()


def test_postgres_worker_that_stood_still_takes_its_place_again(
    place: PostgresDatabase, control: Connection, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(heartbeat, "BEAT", 0.05)
    member = Membership.enter(place, "docs", "then")
    member.join(control, RunRequest("docs", "site"), NOW)
    control.execute("DELETE FROM lease")

    for _ in range(100):
        if place.is_held("docs"):
            break
        member._done.wait(0.05)
    assert at_work(control) == [member.run]
    member.release()
    assert not place.is_held("docs")
