"""The tables of docs/settings.md, whose first three cells come from the table of settings.

python -m tests.settings_manual --write    write them; the meanings stay as they are
"""

import re
import sys
from pathlib import Path

from smartcrawl.model.settings_table import SETTINGS

MANUAL = Path(__file__).parent.parent / "docs/settings.md"
_ROW = re.compile(r"^\| `([A-Z0-9_]+)` \|.*$", re.MULTILINE)


def written_tables(text: str) -> str:
    """Return the page with the default, the unit and the bounds that each setting has."""
    return _ROW.sub(_row, text)


def _row(found: re.Match[str]) -> str:
    setting = SETTINGS[found[1]]
    default = f"`{setting.default}`" if setting.default != "" else "empty"
    meaning = found[0].strip("| ").split(" | ")[3]
    return f"| `{setting.name}` | {default} | {setting.unit_and_bounds} | {meaning} |"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        MANUAL.write_text(written_tables(MANUAL.read_text(encoding="utf-8")), encoding="utf-8")
    else:
        sys.exit(__doc__)
