"""Renumbering of addresses that several workers found at once (ADR 30)."""

from __future__ import annotations

from collections.abc import Mapping

from smartcrawl.model.batches import Batch
from smartcrawl.registry.pack import pack_stored_numbers, unpack_stored_numbers


def renumber_batch_rows(batch: Batch, renamed: Mapping[int, int]) -> None:
    """Replace numbers in a batch; a renamed address is registered already and counts as reached."""
    if not renamed:
        return
    new = []
    for address in batch.addresses:
        if address.no in renamed:
            _reach(batch, renamed[address.no], address.depth)
            # The other worker may have met it under another spelling, which it requests.
            batch.spellings.setdefault(address.no, []).insert(0, address.url)
        else:
            origin = address.discovered_from
            new.append(address._replace(discovered_from=_one(renamed, origin)))
    batch.addresses = new
    for number in [number for number in batch.reached if number in renamed]:
        _reach(batch, renamed[number], batch.reached.pop(number))
    for number in [number for number in batch.spellings if number in renamed]:
        urls = batch.spellings.pop(number)
        batch.spellings.setdefault(renamed[number], []).extend(urls)
    for number in [number for number in batch.kinds if number in renamed]:
        batch.kinds.setdefault(renamed[number], batch.kinds.pop(number))
    batch.retargeted = [
        (no, scope, _packed(renamed, targets), _one(renamed, canonical))
        for no, scope, targets, canonical in batch.retargeted
    ]
    for visit in batch.visits:
        parsed = visit.parsed
        parsed.targets = _packed(renamed, parsed.targets)
        parsed.canonical_no = _one(renamed, parsed.canonical_no)


def _reach(batch: Batch, number: int, depth: int) -> None:
    batch.reached[number] = min(depth, batch.reached.get(number, depth))


def _one(renamed: Mapping[int, int], number: int | None) -> int | None:
    return number if number is None else renamed.get(number, number)


def _packed(renamed: Mapping[int, int], targets: bytes) -> bytes:
    numbers = unpack_stored_numbers(targets)
    if renamed.keys().isdisjoint(numbers):
        return targets
    return pack_stored_numbers(
        list(dict.fromkeys(renamed.get(number, number) for number in numbers))
    )
