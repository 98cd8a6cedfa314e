"""Runs in whose midst two workers get into each other's way; see `tests.registry.explorer`."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping

from smartcrawl.index.remote import index_document_chunker
from smartcrawl.index.writing import RemoteIndexing
from smartcrawl.model.batches import Batch
from smartcrawl.model.documents import DEFAULT_CHUNK_SIZE
from smartcrawl.model.pages import Visit
from smartcrawl.registry.connection import WRITING, draw_sequence_numbers, transaction
from smartcrawl.registry.pack import pack_stored_numbers
from smartcrawl.registry.runs import runs
from smartcrawl.rules.model import Outcome
from tests.registry.build import LONG, NOW, Desk, closing
from tests.registry.explorer import FIRST_CLAIM, Scene, write
from tests.registry.workers import Gate, Remote, Sent, Shelf, never_stops

P, Q, R, NEW = (f"http://a.example/{name}" for name in ("p", "q", "r", "new"))
ONE, TWO, THREE, FOUR = (f"{word} {LONG}" for word in ("one", "two", "three", "four"))
GONE = None  #: instead of a text: 404

Said = Mapping[str, str | None]  #: text by address
CHUNKED = index_document_chunker(DEFAULT_CHUNK_SIZE)


def visit(desk: Desk, url: str, text: str | None) -> Visit:
    """A visit that found this text, or nothing."""
    if text is None:
        return desk.visit(url, outcome=Outcome.NOT_FOUND, status=404)
    return desk.visit(url, text, etag=f'"{text[:5]}"')


def batch_of(visits: list[Visit]) -> Batch:
    """A batch with these visits."""
    batch = Batch(visits=visits)
    batch.counts["visits"] = len(visits)
    return batch


def scene(before: Said, first: Said, second: Said) -> Scene:
    """A run that has held these texts before, and now two workers find others."""
    desk, shelf = Desk(), Shelf()
    desk.closing = closing(lost_threshold=1, max_ratio=1.0)
    base = desk.connection

    def receive(sent: Sent) -> list[str | None]:
        return [shelf.take(page, sent.number) for page in sent.pages]

    base.execute("UPDATE sequence SET value = ? WHERE name = 'number'", (FIRST_CLAIM,))
    gate, remote = Gate(base, never_stops), RemoteIndexing(Remote(receive), CHUNKED)
    opened = desk.open()
    found = Scene(desk, shelf, (b"", b""), (0, 0), _rest(first, second), base)
    visits = [visit(desk, url, text) for url, text in before.items()]
    base.execute(WRITING)
    write(found, gate, remote, batch_of(visits), opened.number)
    ending = desk.ending()
    runs.seal_run_row(gate, ending.run, (), NOW)
    runs.settle_sealed_row(gate, ending, remote)
    runs.sweep_candidate_rows(gate, remote, ending, lambda _: None)
    base.execute("COMMIT")
    opened = desk.open()
    desk.reach(*before)
    with transaction(base):
        found.claims = opened.number, draw_sequence_numbers(base, "number")
    batches = [batch_of([visit(desk, *told) for told in said.items()]) for said in (first, second)]
    found.batches = pickle.dumps(batches[0]), pickle.dumps(batches[1])
    return found


def _rest(first: Said, second: Said) -> Callable[[Desk, list[str]], Batch]:
    """What a survivor finds at pages that are left: what one of the others found."""
    texts = {**first, **second}

    def rest(desk: Desk, left: list[str]) -> Batch:
        return batch_of([visit(desk, url, texts[url]) for url in left])

    return rest


def met_at_once() -> Scene:
    """Both workers meet the same new address, each with a number of its own."""
    found = scene({P: ONE, Q: TWO}, {P: THREE}, {Q: FOUR})
    batches = []
    for blob in found.batches:
        batch = pickle.loads(blob)
        address = found.desk.address(NEW, 1, origin=batch.visits[0].page.no)
        batch.addresses.append(address)
        batch.visits[0].parsed.targets = pack_stored_numbers([address.no])
        batches.append(pickle.dumps(batch))
    found.batches = batches[0], batches[1]
    found.rest = _rest({P: THREE, NEW: TWO}, {Q: FOUR})
    return found


SCENES: dict[str, Callable[[], Scene]] = {
    "one page twice": lambda: scene({P: ONE}, {P: TWO}, {P: THREE}),
    "one new clone twice": lambda: scene({P: ONE, Q: TWO}, {P: TWO}, {P: THREE, Q: TWO}),
    "two become clones": lambda: scene({P: ONE, Q: TWO}, {P: THREE}, {Q: THREE}),
    "original and clone leave": lambda: scene({P: ONE, Q: ONE}, {P: TWO}, {Q: THREE}),
    "original leaves, clone comes": lambda: scene(
        {P: ONE, Q: ONE, R: TWO}, {P: THREE, Q: ONE}, {R: ONE}
    ),
    "contents change places": lambda: scene({P: ONE, Q: TWO}, {P: TWO}, {Q: ONE}),
    "content is taken up and dropped": lambda: scene({P: ONE, Q: TWO}, {P: TWO}, {Q: THREE}),
    "original is gone": lambda: scene({P: ONE, Q: ONE}, {P: GONE}, {Q: TWO}),
    "original is gone, clone comes": lambda: scene({P: ONE, Q: TWO}, {P: GONE}, {Q: ONE}),
    "one address met at once": met_at_once,
}
