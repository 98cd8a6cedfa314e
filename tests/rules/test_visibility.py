"""Who reads which source (docs/decisions.md, ADR 147)."""

import pytest

from smartcrawl.rules.visibility import (
    EVERYTHING,
    VISIBILITIES,
    Reader,
    Visibility,
    declared_visibility,
    source_visibility,
)
from tests.rules.manual import table

TITLE = "Who reads a source"
ROWS = table(TITLE)
WORDS = {"-": None, "`public`": Visibility.PUBLIC, "`private`": Visibility.PRIVATE}
PUBLIC, PRIVATE = Visibility.PUBLIC, Visibility.PRIVATE


@pytest.mark.parametrize("row", ROWS, ids=[" ".join(row[:3]) for row in ROWS])
def test_the_manual_says_what_becomes_of_the_visibility(row):
    stored, explicit, login, after = row
    declared = declared_visibility(WORDS[explicit], has_login=login == "yes")
    assert source_visibility(WORDS[stored], declared) is WORDS[after]


def test_the_manual_has_every_case():
    assert len({row[:3] for row in map(tuple, ROWS)}) == 3 * 3 * 2


def test_the_words_of_files_and_of_the_registry_stay():
    assert VISIBILITIES == (PUBLIC, PRIVATE) == ("public", "private")


@pytest.mark.parametrize(
    ("reader", "reads"),
    [
        (EVERYTHING, ["docs", "wiki", "new"]),
        (Reader(), ["docs", "new"]),
        (Reader(sources=frozenset({"wiki"})), ["wiki"]),
        (Reader(sources=frozenset({"docs", "no such"})), ["docs"]),
        (Reader(visibilities={"wiki": PUBLIC}), ["docs", "wiki", "new"]),
        (Reader(visibilities={"docs": PRIVATE}), ["new"]),
        (Reader(visibilities={"new": PRIVATE}), ["docs"]),
        (Reader(sources=frozenset({"docs"}), visibilities={"docs": PRIVATE}), ["docs"]),
    ],
)
def test_a_reader_reads_the_public_sources_or_those_of_his_key(reader, reads):
    stored = {"docs": PUBLIC, "wiki": PRIVATE, "new": None}
    assert [name for name, found in stored.items() if reader.may_read(name, found)] == reads


@pytest.mark.parametrize(
    ("reader", "private", "every"),
    [
        (EVERYTHING, ["wiki"], True),
        (Reader(sees_all=True, visibilities={"docs": PRIVATE}), [], True),
        (Reader(), [], True),
        (Reader(), ["wiki"], False),
        (Reader(sources=frozenset({"docs"})), [], False),
        (Reader(visibilities={"wiki": PUBLIC}), ["wiki"], True),
        (Reader(visibilities={"wiki": PUBLIC}), ["wiki", "other"], False),
        (Reader(visibilities={"docs": PRIVATE}), [], False),
    ],
)
def test_without_anything_private_a_reader_reads_every_source(reader, private, every):
    assert reader.reads_every(private) is every
