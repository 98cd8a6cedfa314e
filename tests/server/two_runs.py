"""A source with two runs: the second one found a page new, one modified, and one lost."""

from pathlib import Path

from smartcrawl.rules.model import Outcome
from tests.registry.build import LATER, NOW, Desk
from tests.registry.build import closing as choices

BASE = "https://docs.example.com/"
HOME, GUIDE, OLD, NEW = (f"{BASE}{name}" for name in ("", "guide", "old", "new"))


def two_runs(folder: Path, *reasons: str) -> Desk:
    """Return the registry of a folder; `reasons`: why the second run was not complete."""
    desk = Desk(folder / "registry.db")
    desk.closing = choices(max_ratio=1)
    desk.open(now=NOW)
    desk.write(*(desk.visit(url, f"a lantern at {url}") for url in (HOME, GUIDE, OLD)), now=NOW)
    desk.seal(now=NOW)
    desk.open(now=LATER)
    desk.write(
        desk.visit(HOME, outcome=Outcome.NOT_MODIFIED, status=304),
        desk.visit(GUIDE, "other words"),
        desk.visit(OLD, outcome=Outcome.NOT_FOUND, status=404),
        desk.visit(NEW, "a new lantern"),
        reached={desk.number(url): 0 for url in (HOME, GUIDE, OLD)},
        now=LATER,
    )
    desk.seal(*reasons, now=LATER)
    return desk
