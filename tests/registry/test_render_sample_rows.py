"""Pages that were read both ways, in the registry."""

from smartcrawl.model.batches import Batch
from smartcrawl.model.rendered import StoredSample
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.render_samples import SampleReader, store_sample_rows
from smartcrawl.rules.render_need import Sample
from tests.registry.build import Desk

ONE = StoredSample(
    "h/docs 2",
    Sample(200, {b"12345678": 7, b"abcdefgh": 70_000}, frozenset({b"87654321"}), ("x", "y")),
)
EMPTY = StoredSample("h/ 0", Sample(0, {}, frozenset()))
SOURCE = 1  #: number of the only one
HIGHEST = 2**63 - 1


def test_samples_are_read_as_they_were_stored(desk: Desk):
    source, number = SOURCE, HIGHEST
    with transaction(desk.connection):
        store_sample_rows(desk.connection, source, {number: ONE, 1: EMPTY})
        store_sample_rows(desk.connection, source + 1, {2: ONE})
    reader = SampleReader(desk.connection)
    assert reader.samples(source) == {1: EMPTY, number: ONE}
    assert reader.samples(source + 2) == {}
    with transaction(desk.connection):
        store_sample_rows(desk.connection, source, {number: EMPTY})
    assert reader.samples(source) == {1: EMPTY, number: EMPTY}


def test_samples_come_with_a_batch(desk: Desk):
    batch = Batch(samples={5: ONE})
    assert batch
    desk.committed(batch, None, 1_750_000_000)
    assert desk.readers.samples.samples(SOURCE) == {5: ONE}
