"""The examples in docstrings give what they show.

Collected by pytest itself (--doctest-modules), every process would import every module.
"""

import doctest
from importlib import import_module

import pytest

from tests.modules import CODE, ROOT, name

#: Beside the package.
OTHERS = (ROOT / "tests/test_language.py", ROOT / "tests/tiers.py", ROOT / "bench/questions.py")
WITH_EXAMPLES = [path for path in (*CODE, *OTHERS) if ">>> " in path.read_text(encoding="utf-8")]
ROOMS = sorted({name(path).rpartition("/")[0] for path in WITH_EXAMPLES})


@pytest.mark.parametrize("room", ROOMS)
def test_examples_give_what_they_show(room: str):
    found: list[str] = []
    tried = 0
    for path in WITH_EXAMPLES:
        if name(path).rpartition("/")[0] != room:
            continue
        dotted = name(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        module = import_module(dotted)
        for examples in doctest.DocTestFinder(exclude_empty=True).find(module):
            tried += len(examples.examples)
            doctest.DocTestRunner(verbose=False).run(examples, out=found.append)

    assert not found, "".join(found)
    assert tried
