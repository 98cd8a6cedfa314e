"""One record is found by its number, however many its source has."""

from contextlib import closing
from typing import Any

from smartcrawl.registry.database.databases import empty_registry_in_memory
from smartcrawl.reports.today import reported_records


def test_no_other_record_is_read_for_one():
    asked: list[tuple[str, Any]] = []
    with closing(empty_registry_in_memory()) as connection:
        connection.exec_trace = lambda _, statement, values: not asked.append((statement, values))
        assert list(reported_records(connection, 1, 2)) == []
        connection.exec_trace = None
        ((statement, values),) = asked
        plan: Any = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()

    steps = [step[-1] for step in plan if not step[-1].startswith("CORRELATED")]
    assert len(steps) > 2
    assert [step for step in steps if "USING INTEGER PRIMARY KEY (rowid=?)" not in step] == []
