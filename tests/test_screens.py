"""docs/images/*.svg are pictures of what the commands print today, and load nothing."""

import re
import subprocess
import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
_SVG = "{http://www.w3.org/2000/svg}"


def _script() -> ModuleType:
    loader = SourceFileLoader("screens_script", str(ROOT / "script" / "screens"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


script = _script()


def test_there_is_a_picture_for_each_screen_and_no_other():
    pictures = {path.name for path in IMAGES.iterdir() if path.suffix != ".webp"}
    assert pictures == {f"{name}.svg" for name in script.SCREENS}


def test_the_manual_shows_each_picture_of_a_page():
    manual = (ROOT / "docs" / "pages.md").read_text("utf-8")
    pictures = sorted(path.name for path in IMAGES.glob("*.webp"))
    assert pictures
    assert [name for name in pictures if f"images/{name}" not in manual] == []


@pytest.mark.parametrize("name", script.SCREENS)
def test_a_picture_is_well_formed_and_loads_nothing(name: str):
    text = (IMAGES / f"{name}.svg").read_text("utf-8")
    elements = list(ET.fromstring(text).iter())

    assert {element.tag.removeprefix(_SVG) for element in elements} <= {
        "svg", "style", "defs", "clipPath", "rect", "text", "g", "circle",
    }  # fmt: skip
    assert not re.search(r"@import|@font-face|href|\bsrc\b", text)
    assert all(each.startswith("url(#") for each in re.findall(r"url\([^)]*\)", text))
    values = [value for element in elements for value in element.attrib.values()]
    assert not [value for value in values if "//" in value]


@pytest.mark.parametrize("name", script.SCREENS)
def test_a_picture_is_as_wide_as_a_terminal_and_shows_its_commands(name: str):
    lines = script.words((IMAGES / f"{name}.svg").read_text("utf-8"))

    assert max(map(len, lines)) <= script.COLUMNS <= 90
    typed = [line for line in lines if line.startswith(("$ ", "# "))]
    assert len(typed) == len(script.SCREENS[name])
    assert str(ROOT) not in "\n".join(lines)


@pytest.mark.long
def test_the_pictures_show_what_the_commands_print_today():
    """If this fails because a command prints other words by now: script/screens."""
    result = subprocess.run(
        [ROOT / "script" / "screens", "--check"], capture_output=True, text=True, check=False
    )

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_words_of_a_picture_are_those_that_were_drawn():
    output = "\x1b[1mname\x1b[0m   value\n  <a> & b     \x1b[33mend\x1b[0m\n\n  last"
    svg = script.drawn("x", [("$ one", output), ("# two", "")])

    ET.fromstring(svg)
    assert script.words(svg) == [
        "$ one", "name   value", "  <a> & b     end", "", "  last", "", "# two",
    ]  # fmt: skip


def test_a_stale_picture_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(script, "IMAGES", tmp_path / "docs" / "images")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    script.IMAGES.mkdir(parents=True)
    today = script.drawn("status", [("$ status", "2 pages")])

    assert "+$ status" in script.differences("status", today), "there is no picture yet"
    (script.IMAGES / "status.svg").write_text(script.drawn("status", [("$ status", "1 page")]))
    assert script.differences("status", today)[-2:] == ["-1 page", "+2 pages"]
    (script.IMAGES / "status.svg").write_text(today)
    assert script.differences("status", today) == []


def test_times_ports_and_seconds_are_those_of_the_pictures():
    first, second = (
        datetime(2026, 5, 1, 9, 0, tzinfo=UTC),
        datetime(2026, 5, 1, 9, 0, 7, tzinfo=UTC),
    )
    clock = script.Clock([int(first.timestamp()), int(second.timestamp())])

    def shown(moment: datetime) -> str:
        return clock.replaced(f"{moment:%Y-%m-%dT%H:%M:%SZ}")

    assert shown(first) == shown(first + timedelta(seconds=6)) == "2025-03-08T08:00:00Z"
    assert shown(second) == "2025-03-09T08:00:00Z"
    assert shown(second + timedelta(seconds=655)) == "2025-03-09T08:10:00Z"
    assert shown(second + timedelta(days=1, seconds=-200)) == "2025-03-10T08:00:00Z"
    output = "http://127.0.0.1:8017/: \x1b[32mcomplete\x1b[0m, 6 s\nwithin 7 s, 95 % within 9 s;\n"
    assert clock.replaced(output) == output.replace("8017", "8000").replace("6 s", "2 s")
