"""A list of changes reads rows by indexes alone, however many pages the registry has."""

from contextlib import closing
from typing import Any

import pytest

from smartcrawl.registry.database.databases import empty_registry_in_memory
from smartcrawl.reports.changes import CHANGE_PARTS


@pytest.mark.parametrize("statement", CHANGE_PARTS)
def test_no_part_of_a_list_scans_a_table(statement: str):
    values = {"run": 2, "since": 0, "row": -1, "shared": False}
    with closing(empty_registry_in_memory()) as connection:
        plan: Any = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()

    steps = [step[-1] for step in plan if not step[-1].startswith("CORRELATED")]
    assert steps
    assert [step for step in steps if not step.startswith("SEARCH")] == []
    assert [step for step in steps if "evidence_run" in step] == [
        step for step in steps[:1] if "evidence_run" in step
    ]
