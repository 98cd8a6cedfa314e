"""The table of kinds is the only list of them: no other code compares names of kinds."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import smartcrawl
from smartcrawl.sources import declared
from smartcrawl.sources.kinds import KINDS, SPIDERS, source_kind_named
from smartcrawl.sources.sharepoint.source import SharepointSource
from tests.modules import parsed

ROOT = Path(smartcrawl.__file__).parent
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "kinds.py")


def compared(tree: ast.AST) -> Iterator[str]:
    """Yield the text of each comparison of something with the name of a kind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            texts = {
                inner.value for side in (node.left, *node.comparators) for inner in ast.walk(side)
                if isinstance(inner, ast.Constant)
            }  # fmt: skip
            if texts & KINDS.keys():
                yield ast.unparse(node)
        elif isinstance(node, ast.MatchValue) and ast.unparse(node.value).strip("'") in KINDS:
            yield f"case {ast.unparse(node)}"


def test_no_module_compares_the_name_of_a_kind():
    texts = {path: path.read_text(encoding="utf-8") for path in MODULES}
    quoted = re.compile(rf"""["'](?:{"|".join(KINDS)})["']""")
    found = {
        f"{path.relative_to(ROOT)}: {comparison}"
        for path, text in texts.items()
        if quoted.search(text)  # to parse the others takes a second
        for comparison in compared(parsed(path))
    }
    assert found == set()
    assert list(compared(ast.parse("source.kind == 'files' or source.kind in ('github', 'x')")))


def test_no_sql_compares_the_name_of_a_kind():
    pattern = re.compile(rf"kind\s*(?:=|<>|!=|IN\s*\()\s*'(?:{'|'.join(KINDS)})'", re.IGNORECASE)
    paths = [*MODULES, *ROOT.rglob("*.sql")]
    found = [path for path in paths if pattern.search(path.read_text(encoding="utf-8"))]
    assert found == []


def test_each_kind_has_one_model_and_one_spider():
    models = {*declared._MODELS.values(), SharepointSource}
    kinds = [name for model in models for name in get_args(model.model_fields["kind"].annotation)]
    assert sorted(kinds) == sorted(KINDS)
    assert set(declared._MODELS) == KINDS.keys() - {"documents", "sharepoint"}
    assert set(SPIDERS) == {kind.spider for kind in KINDS.values()}
    with pytest.raises(KeyError):
        source_kind_named("web")


TABLE = """
name       lists follows robots shielded polite shared hashed
site       no    yes     yes    yes      yes    yes    no
documents  no    yes     yes    yes      yes    yes    no
files      yes   no      no     no       no     no     no
github     yes   no      no     no       yes    no     yes
sharepoint yes   no      no     no       yes    no     yes
"""


def test_what_is_true_of_a_kind():
    def words(kind: Any) -> list[str]:
        facts = (
            kind.is_listed, kind.follows_links, kind.asks_robots, kind.is_shielded, kind.is_polite,
            kind.is_shareable, kind.is_hashed,
        )  # fmt: skip
        return [kind.name, *("yes" if fact else "no" for fact in facts)]

    assert [words(kind) for kind in KINDS.values()] == [
        line.split() for line in TABLE.strip().splitlines()[1:]
    ]
