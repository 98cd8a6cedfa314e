"""A PostgreSQL that is replaced under a run by an older copy of itself, as by a late standby."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import psycopg

_TABLES = """
SELECT quote_ident(relname) FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'smartcrawl_schema'
 ORDER BY 1
"""
_SEQUENCES = """
SELECT quote_ident(sequencename), last_value FROM pg_sequences WHERE schemaname = 'public'
"""
_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_COMMITS = "SELECT coalesce(sum(last), 0) FROM writer"
_VISITS = "SELECT coalesce(max(visits), 0) FROM run"
_LONGEST = 120  #: seconds


class Failover:
    """A copy of a registry, and its return to that copy."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._sequences: list[tuple[str, int | None]] = []
        self._copied: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._execute("DROP SCHEMA IF EXISTS older CASCADE")
        self._connection.close()

    def copy(self) -> None:
        """Copy the registry as of one moment."""
        self._execute("DROP SCHEMA IF EXISTS older CASCADE")
        with self._connection.transaction():
            self._execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            self._execute("CREATE SCHEMA older")
            self._copied = [name for (name,) in self._execute(_TABLES)]
            for name in self._copied:
                self._execute(f"CREATE TABLE older.{name} AS TABLE public.{name}")
            self._sequences = [(name, last) for name, last in self._execute(_SEQUENCES)]

    def fail_over(self) -> None:
        """Replace the registry with its copy; every connection to it is closed."""
        while True:
            try:
                with self._connection.transaction():
                    self._execute(_END_OTHERS)
                    self._replace()
            except psycopg.errors.DeadlockDetected:
                continue
            return

    def _replace(self) -> None:
        tables = ", ".join(f"public.{name}" for name in self._copied)
        self._execute("SET LOCAL session_replication_role = replica")
        self._execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE")
        self._execute(f"TRUNCATE {tables} RESTART IDENTITY")
        for name in self._copied:
            self._execute(f"INSERT INTO public.{name} SELECT * FROM older.{name}")
        for name, last in self._sequences:
            if last is not None:
                self._execute(f"SELECT setval('public.{name}', {last})")
        self._execute(_END_OTHERS)  # those that came meanwhile, and wait for the tables

    def lose(self, commits: int, *, after: int, ended: Callable[[], bool]) -> None:
        """Lose at least so many commits of a run that goes on, the first one ``after`` visits."""
        self._wait(lambda: self._value(_VISITS) >= after, ended)
        self.copy()
        most = self._value(_COMMITS) + commits
        self._wait(lambda: self._value(_COMMITS) >= most, ended)
        self.fail_over()

    def _wait(self, come: Callable[[], bool], ended: Callable[[], bool]) -> None:
        until = time.monotonic() + _LONGEST
        while not (come() or ended()):
            assert time.monotonic() < until, "the run does not go on"
            time.sleep(0.002)

    def _value(self, statement: str) -> int:
        return int(self._execute(statement)[0][0])

    def _execute(self, statement: str) -> list[tuple[Any, ...]]:
        cursor = self._connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []
