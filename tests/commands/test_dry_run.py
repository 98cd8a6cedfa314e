"""`--dry-run`: every command that may remove something has it, and it changes nothing."""

import shutil
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest

from smartcrawl import commands
from smartcrawl.terminal.command import ChangingCommand
from tests.commands.test_commands_removal import (  # noqa: F401  # fixtures
    SITE,
    World,
    orphaned,
    withheld,
    world,
)


@pytest.fixture
def connections() -> None:
    """Keep none open: the files of the registry are compared."""


#: Commands that change the registry and need no --dry-run, each with the reason.
WITHOUT: dict[str, str] = {
    "embed": "it removes no page; test_commands_embed has its dry run",
    "push": "it removes no page; test_commands_push has its dry run",
}
#: Functions that remove pages, records or documents.
REMOVING = (
    "self.purge(",
    "undo_stored_removals(",
    "undeclare_source_row(",
    "Mender(",
    "salvage_registry(",
    " remove(",
)

#: A command that removes, restores or repairs, and the line that it prints in a dry run.
DRY = [
    (["orphans", "--purge"], f"would remove  {SITE}/b"),
    (["deltamerge", "-D"], f"would remove  {SITE}/c"),
    (["forget", f"{SITE}/a"], f"would remove  {SITE}/a"),
    (["forget", "--source", "docs", "--max", "9"], "4 pages of docs would be removed"),
    (["reindex", "--url", f"{SITE}/a"], f"would order  {SITE}/a"),
    (["audit", "--repair"], "cannot differ"),
]


def tables(world: World) -> list[Any]:  # noqa: F811
    more = ("source", "run", "item", "chunk")
    return [*world.tables(), *(world.desk.rows(f"SELECT * FROM {name}") for name in more)]


def changing() -> set[str]:
    """The names of all commands that change the registry."""
    found = set()
    for module in iter_modules(commands.__path__):
        kind = getattr(import_module(f"smartcrawl.commands.{module.name}"), "Command", None)
        if kind is not None and issubclass(kind, ChangingCommand):
            found.add(module.name)
    return found


def test_every_removing_command_is_tested_here():
    tested = {args[0] for args, _ in DRY} | {"undo"}
    removing = {
        path.stem
        for path in Path(commands.__path__[0]).glob("*.py")
        if any(name in path.read_text("utf-8") for name in REMOVING)
    }

    assert changing() - set(WITHOUT) == tested
    assert removing <= tested, "it is a ChangingCommand, or removes nothing"


@pytest.mark.parametrize(("args", "says"), DRY, ids=str)
def test_a_dry_run_prints_what_would_go_and_changes_nothing(
    orphaned: World,  # noqa: F811
    args: list[str],
    says: str,
):
    before = tables(orphaned)

    result = orphaned.run(*args, "--dry-run")

    assert says in result.out
    assert "undo with" not in result.out
    assert tables(orphaned) == before
    orphaned.run(*args)
    assert (tables(orphaned) == before) is (args[0] == "audit")


def test_a_dry_run_as_json(orphaned: World):  # noqa: F811
    printed = orphaned.json("deltamerge", "-D", "--dry-run")

    assert printed == {
        "removals": [{"source": "docs", "run": None, "removed": [f"{SITE}/c"], "undo": None}],
        "left": 0,
        "dryRun": True,
    }
    assert "dryRun" not in orphaned.json("deltamerge", "-D")


def test_a_dry_run_of_an_approval_keeps_to_its_limit(withheld: World):  # noqa: F811
    before = tables(withheld)

    result = withheld.run("orphans", "--approve", "2", "--max", "2", "--dry-run")
    refused = withheld.run("orphans", "--approve", "2", "--dry-run", expect=3)

    assert result.out.count("would remove  ") == 2
    assert "2 pages of docs would be removed; nothing was changed" in result.out
    assert "1 more stays: --max 2" in result.out
    assert "nothing would be removed: 3 withheld pages" in refused.err
    assert tables(withheld) == before


def test_a_dry_run_of_an_undo(orphaned: World):  # noqa: F811
    orphaned.run("orphans", "--purge")
    before = tables(orphaned)

    result = orphaned.run("undo", "2", "--pin", "--dry-run")

    assert result.out == (
        f"would be restored {SITE}/b\n1 page of docs would be restored, and pinned\n"
    )
    assert orphaned.json("undo", "2", "--dry-run")["dryRun"] is True
    assert tables(orphaned) == before
    orphaned.run("undo", "2")
    assert "nothing would be restored: 1 page was restored before" in (
        orphaned.run("undo", "2", "--dry-run", expect=1).err
    )


def test_a_dry_run_does_not_unpin(orphaned: World):  # noqa: F811
    orphaned.run("orphans", "--purge")
    orphaned.run("undo", "2", "--pin")

    result = orphaned.run("forget", f"{SITE}/b", "--dry-run")

    assert "would be removed; it would be unpinned" in result.err
    assert len(orphaned.desk.rows("SELECT * FROM pin")) == 1


def test_a_dry_run_does_not_wait_for_a_run(orphaned: World):  # noqa: F811
    with orphaned.crawled("docs"):
        orphaned.run("orphans", "--purge", "--dry-run")
        orphaned.run("orphans", "--purge", expect=4)


def test_a_dry_run_of_a_salvage_leaves_the_damaged_file(orphaned: World):  # noqa: F811
    if not isinstance(orphaned.place, Path):
        pytest.skip("a registry in PostgreSQL is not salvaged")
    sound = orphaned.run("audit", "--salvage", "--dry-run")
    assert "nothing to salvage" in sound.out
    orphaned.desk.close()
    shutil.copy(orphaned.place, orphaned.folder / "sound.db")
    content = bytearray(orphaned.place.read_bytes())
    content[5 * 4096 : 6 * 4096] = b"\xff" * 4096
    orphaned.place.write_bytes(content)
    files = sorted(orphaned.place.parent.iterdir())
    before = sha256(orphaned.place.read_bytes()).hexdigest()

    result = orphaned.run("audit", "--salvage", "--dry-run", expect=None)

    assert "nothing was changed" in result.out
    assert sha256(orphaned.place.read_bytes()).hexdigest() == before
    assert sorted(orphaned.place.parent.iterdir()) == files
    orphaned.desk = type(orphaned.desk)(orphaned.folder / "other.db")
