"""The lists of mutants over all rooms: what is drawn, and that it is found again."""

import ast
from pathlib import Path

import pytest

from tests import gate, mutants

CODE = '''"""A module."""
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from elsewhere import Thing

LIMIT: Final = 30
KIND = Literal["a", "b"]


class Box:
    """What holds."""

    size = 3

    async def full(self, count: int = 1) -> bool:
        """Whether it is."""
        if count > LIMIT or count > LIMIT and not self.size:
            raise ValueError(f"it has {count} of 7", "no room is left", "room")
        return count > LIMIT
'''


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with two rooms."""
    for name in ("shed", "cellar"):
        (tmp_path / "smartcrawl" / name).mkdir(parents=True)
        (tmp_path / "smartcrawl" / name / "box.py").write_text(CODE)
    (tmp_path / "tests/data").mkdir(parents=True)
    return tmp_path


def test_each_mutant_has_a_name_of_its_own(checkout: Path) -> None:
    names = gate.all_names(checkout)
    assert len(names) == len(set(names))
    own = {str(name) for name in names if name.room == "shed"}
    assert own >= {
        "shed.box : 30 -> 31",
        "shed.box Box: 3 -> 2",
        "shed.box Box full: 1 -> 0",
        "shed.box Box full: 'room' -> 'room?'",
        "shed.box Box full: count > LIMIT -> count >= LIMIT",
        "shed.box Box full: count > LIMIT -> count >= LIMIT (2)",
        "shed.box Box full: count > LIMIT -> count >= LIMIT (3)",
        "shed.box Box full: not self.size -> self.size",
    }
    assert {name.room for name in names} == {"shed", "cellar"}


@pytest.mark.parametrize("text", ["no room is left", "it has ", "'a'", "TYPE_CHECKING"])
def test_sentences_and_types_are_no_places(checkout: Path, text: str) -> None:
    assert not [name for name in gate.all_names(checkout) if text in name.change]


def test_a_mutant_changes_something() -> None:
    tree = ast.parse("LEAST, MOST = 0.0, 2.0")
    told = [mutant.change for mutant in mutants.mutants_of_module("box", tree, {})]
    assert told == ["2.0 -> 2.2", "2.0 -> 1.8181818181818181"]


def test_a_seed_draws_the_same_list_each_time(checkout: Path) -> None:
    words = ["draw", "--checkout", str(checkout), "--seed", "47"]
    assert gate.main([*words, "20"]) == 0
    listed = gate.read_list(checkout / gate.LIST)
    assert len(set(listed)) == 20
    assert listed == gate.drawn(gate.all_names(checkout), 47, 20)
    gate.main(["draw", "--checkout", str(checkout), "--seed", "48", "20"])
    assert gate.read_list(checkout / gate.LIST) != listed


def test_a_mutant_differs_from_the_code_in_its_place_alone() -> None:
    wanted = gate.Name("box", "Box full", "count > LIMIT -> count >= LIMIT", 2)
    tree = ast.parse(CODE)
    (mutant,) = (m for m in mutants.mutants_of_module("box", tree, {}) if gate.name_of(m) == wanted)
    before = ast.unparse(ast.parse(CODE)).splitlines()
    after = mutants.changed_text(tree, mutant).splitlines()
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == [
        (
            "        if count > LIMIT or (count > LIMIT and (not self.size)):",
            "        if count > LIMIT or (count >= LIMIT and (not self.size)):",
        )
    ]


def test_the_list_of_this_project_names_each_mutant_once() -> None:
    listed = gate.read_list(gate.ROOT / gate.LIST)
    assert len(listed) == len(set(listed)) == 400
    same = [name for name in listed if len(set(name.change.split(" -> "))) == 1]
    assert [name for name in same if " -> " in name.change] == []
