"""Empty registries in PostgreSQL that are used again and again."""

from collections.abc import Callable

import psycopg

#: Tables written to since they were last emptied: to empty all of them takes twice as long.
_TABLES = """
SELECT string_agg(quote_ident(relname), ', ') FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'smartcrawl_schema'
   AND pg_relation_size(oid) > 0
"""


class Spare:
    """Empty registries that are used again: to make one takes longer than most tests."""

    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make
        self._spare: list[str] = []

    def take(self) -> str:
        return self._spare.pop() if self._spare else self._make()

    def put_back(self, url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            row = connection.execute(_TABLES).fetchone()
            assert row is not None
            if row[0] is not None:  # else nobody got so far
                connection.execute(f"TRUNCATE {row[0]} RESTART IDENTITY CASCADE".encode())
                connection.execute(
                    "INSERT INTO sequence (name, value) VALUES ('number', 0), ('address', 0)"
                )
        self._spare.append(url)
