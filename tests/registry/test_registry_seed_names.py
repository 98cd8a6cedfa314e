"""The names of seeds with their reaches."""

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import Database, DatabaseControl
from smartcrawl.registry.names import SeedNameRows
from smartcrawl.rules.connections import SeedReach


def test_the_first_reach_of_a_name_stays_unless_the_operator_permits_it(
    begun: tuple[Database, Connection],
):
    """ATT-65: also where two workers learn at once."""
    rows = SeedNameRows(DatabaseControl(*begun))
    names = ["a.example", "b.example", "c.example"]
    assert rows.reaches(names) == dict.fromkeys(names)
    assert rows.reaches([]) == {}

    rows.store("a.example", SeedReach.PUBLIC)
    rows.store("a.example", SeedReach.PRIVATE)
    rows.store("b.example", SeedReach.PRIVATE)
    assert list(rows.reaches(names).values()) == [SeedReach.PUBLIC, SeedReach.PRIVATE, None]

    rows.store("a.example", SeedReach.ANY)
    rows.store("a.example", SeedReach.PUBLIC)
    rows.store("c.example", SeedReach.ANY)
    assert list(rows.reaches(names).values()) == [SeedReach.ANY, SeedReach.PRIVATE, SeedReach.ANY]
