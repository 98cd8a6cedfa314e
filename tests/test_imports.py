"""Imports point down, and the rules know nothing but the standard library (design.md 4)."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RULES = sorted((ROOT / "smartcrawl" / "rules").glob("*.py"))


def test_every_contract_of_import_linter_holds():
    program = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("import-linter is not installed beside this Python")

    result = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "3 kept, 0 broken" in result.stdout


@pytest.mark.parametrize("path", RULES, ids=[path.stem for path in RULES])
def test_rules_import_only_the_standard_library(path: Path):
    """A rule that reads a clock, a file or a socket could not be tested as a table."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            modules.add(str(node.module))

    foreign = {
        module
        for module in modules
        if not module.startswith("smartcrawl.rules")
        and module.partition(".")[0] not in sys.stdlib_module_names
    }
    assert not foreign
    assert not modules & {"time", "random", "os", "socket", "sqlite3", "pathlib", "logging"}


def test_the_rules_are_found():
    assert len(RULES) >= 5
