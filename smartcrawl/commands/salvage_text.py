"""The result of ``smartcrawl audit --salvage``, printed."""

from __future__ import annotations

from typing import Any, Final

from smartcrawl.registry.repair.salvage import Copied, Salvaged
from smartcrawl.terminal.command import print_json
from smartcrawl.terminal.output import print_note
from smartcrawl.terminal.tables import print_table, printed_number_column, printed_word_column

#: Effects of a salvage, for 1 row and for any other number.
_MENDED: Final = {
    "fetched_again": (
        "page has lost content or state; the next crawl downloads it again",
        "pages have lost content or state; the next crawl downloads them again",
    ),
    "sources": (
        "source has lost its name and is now called salvaged-NUMBER",
        "sources have lost their names and are now called salvaged-NUMBER",
    ),
    "hosts": ("host has lost its figures", "hosts have lost their figures"),
    "dropped": (
        "row is unreadable or belongs to a missing one, and is left out",
        "rows are unreadable or belong to missing ones, and are left out",
    ),
}


def print_salvage_command(done: Salvaged | None, *, as_json: bool, dry: bool = False) -> None:
    """Print how many rows of each table were copied, and which are missing.

    ``dry``: nothing was changed.
    """
    if as_json:
        print_json(_as_json(done) | ({"dryRun": True} if dry else {}))
    elif done is None:
        print("the registry is not damaged; there is nothing to salvage")
    else:
        rows = [
            {"table": one.table, "copied": one.rows, "missing": _missing(one)}
            for one in done.tables
            if one.rows or not one.whole
        ]
        print_table(
            (
                printed_word_column("table"),
                printed_number_column("copied"),
                printed_number_column("missing"),
            ),
            rows,
        )
        for name, rows_of in done.mended.counts().items():
            if rows_of:
                print(f"{rows_of:,} {_MENDED[name][rows_of != 1]}")
        if dry:
            print_note(f"nothing was changed: {done.aside} would be kept under another name")
            return
        print_note(f"the damaged file is kept as {done.aside}")
        if not done.whole:
            print_note("crawl every source once, to download missing content again")


def _missing(one: Copied) -> str:
    return "unknown" if one.missing is None else str(one.missing)


def _as_json(done: Salvaged | None) -> dict[str, Any]:
    if done is None:
        return {"sound": True}
    return {
        "sound": False,
        "whole": done.whole,
        "aside": str(done.aside),
        "tables": {one.table: {"copied": one.rows, "missing": one.missing} for one in done.tables},
        "mended": done.mended.counts(),
    }
