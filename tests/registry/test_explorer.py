"""Two workers of a run in every order of steps: nothing is lost, nothing is claimed undone.

What must hold is in `tests.registry.explorer`; here are how far the suite looks, and that weaker
forms of the protocol are found out (ADR 30, 130; INV-3, INV-6, INV-8).
"""

import random
from weakref import WeakKeyDictionary

import pytest

from smartcrawl.index import writing
from smartcrawl.index.writing import OutgoingIndexWrites
from smartcrawl.registry.commit.batch import RegistryCommit
from smartcrawl.registry.commit.visit import EVERY_RUN
from tests.registry.explorer import Scene, explore, sample, tried
from tests.registry.scenes import SCENES
from tests.registry.workers import BrokenError

#: Scenes in which one worker may be overtaken again and again: ten times the states.
CONTESTED = ("one page twice", "one new clone twice", "original and clone leave")
EVERYTHING = 100_000  #: tries; none takes so many


@pytest.mark.long(but=4)
@pytest.mark.parametrize("name", [name for name in SCENES if name not in CONTESTED])
def test_no_order_of_steps_breaks_a_run(name):
    found = explore(SCENES[name](), faults=0, most=EVERYTHING)

    assert found.left == 0
    assert found.ends > 0


@pytest.mark.parametrize("name", ["original is gone"])
def test_no_crash_and_no_late_message_breaks_a_run(name):
    found = explore(SCENES[name](), faults=1, most=EVERYTHING)

    assert found.left == 0
    assert found.ends > 10


@pytest.mark.long(but=4)
@pytest.mark.parametrize("name", SCENES)
def test_no_three_faults_drawn_at_random_break_a_run(name):
    found = sample(SCENES[name](), faults=3, tries=20, rng=random.Random(7))

    assert found.ends >= 20


def test_whoever_came_too_late_with_all_of_it_leaves_no_mark():
    order = [*["A"] * 3, *["B"] * 6]  # A marks and writes when B is done

    with tried(SCENES["one page twice"](), 0, [("go", name) for name in order]) as one:
        assert one.workers["B"].end == "done"
        while not one.workers["A"].end:
            one.take(("go", "A"))

        one.check()


@pytest.mark.long(but=1)
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
@pytest.mark.parametrize("name", SCENES)
def test_a_run_in_postgres_stands_the_same(database, name):
    assert SCENES[name]().base.dialect == database

    found = sample(SCENES[name](), faults=2, tries=3, rng=random.Random(11))

    assert found.ends >= 3


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SCENES if name not in CONTESTED[1:]])
def test_no_order_of_steps_with_a_fault_breaks_a_run(name):
    found = explore(SCENES[name](), faults=1, most=EVERYTHING)

    assert found.left == 0


@pytest.mark.long
@pytest.mark.parametrize("name", CONTESTED)
def test_no_order_of_steps_breaks_a_contested_run(name):
    found = explore(SCENES[name](), faults=0, most=EVERYTHING)

    assert found.left == 0


@pytest.mark.long
@pytest.mark.parametrize("faults", [2, 3, 5])
@pytest.mark.parametrize("name", SCENES)
def test_no_faults_drawn_at_random_break_a_run(name, faults):
    found = sample(SCENES[name](), faults=faults, tries=1_000, rng=random.Random(faults))

    assert found.ends >= 1_000


# What a weaker protocol breaks


def broken(scene: Scene) -> str:
    """What the explorer says of a scene where nobody dies."""
    with pytest.raises(BrokenError) as caught:
        explore(scene, faults=0, most=2_000)
    return str(caught.value)


def clear_any_mark(monkeypatch):
    note = OutgoingIndexWrites.note
    monkeypatch.setattr(
        OutgoingIndexWrites, "note", lambda self, taken, *, alone: note(self, taken, alone=True)
    )


@pytest.mark.long
def test_the_explorer_finds_marks_that_anybody_may_clear(monkeypatch):
    scene = SCENES["original and clone leave"]()
    clear_any_mark(monkeypatch)

    assert "the index holds something else" in broken(scene)


def test_the_explorer_finds_writes_that_nobody_marked(monkeypatch):
    scene = SCENES["one page twice"]()
    monkeypatch.setattr(writing, "_OPEN", f"{writing._OPEN} AND intent < 0")
    clear_any_mark(monkeypatch)

    assert "the index holds something else" in broken(scene)


@pytest.mark.long
def test_the_explorer_finds_one_number_for_all_writes_of_a_worker(monkeypatch):
    scene = SCENES["original and clone leave"]()
    drawn, numbers = writing._drawn, WeakKeyDictionary()

    def once(connection):
        if connection not in numbers:
            numbers[connection] = drawn(connection)
        return numbers[connection]

    monkeypatch.setattr(writing, "_drawn", once)

    assert "stands for two documents" in broken(scene)


@pytest.mark.long
def test_the_explorer_finds_pages_that_were_written_for_nothing(monkeypatch):
    scene = SCENES["one page twice"]()
    monkeypatch.setattr(OutgoingIndexWrites, "touched", set(range(100)))

    assert "a record is open" in broken(scene)


@pytest.mark.long
def test_the_explorer_finds_an_index_without_versions():
    scene = SCENES["original and clone leave"]()
    scene.shelf.checks = False

    assert "the index holds something else" in broken(scene)


@pytest.mark.long
def test_the_explorer_finds_a_page_that_is_visited_twice(monkeypatch):
    scene = SCENES["one page twice"]()
    begin = RegistryCommit.__init__

    def forgetful(self, *args, **names):
        begin(self, *args, **names)
        self._visits._unless = self._visits._claim = EVERY_RUN

    monkeypatch.setattr(RegistryCommit, "__init__", forgetful)

    assert "was not visited once" in broken(scene)
