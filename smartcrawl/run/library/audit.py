"""Audit of a domain of libraries: its differences, and their repair without a download."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from tempfile import TemporaryFile
from typing import Any, Final, Self

from smartcrawl.index.vectorstore.ports import (
    HASH,
    ITEM,
    FileStatus,
    ItemVersion,
    ListedFile,
    StoredFile,
    vector_store_attribute,
)
from smartcrawl.index.vectorstore.rows import (
    completed_store_files,
    store_files_by_id,
    vector_store_files_to_leave,
    vector_store_number,
)
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.library import LibraryRow
from smartcrawl.model.option_groups import VectorStoreOptions
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.library.items import library_rows_of
from smartcrawl.run.library.comparison import (
    OTHER_BYTES,
    Difference,
    LibraryComparison,
    LibraryDifference,
    Pairs,
    Place,
)
from smartcrawl.run.library.embedding import (
    EmbeddedItems,
    LibraryEmbed,
    run_embed_errors,
    run_embedded_files,
)
from smartcrawl.run.library.maps import run_rows_of_vectorstore_map
from smartcrawl.run.library.steps import LibraryStep
from smartcrawl.run.library.store import (
    StoreAbsentError,
    run_domain_store_of_name,
    run_domain_store_pages,
)
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.mapfiles import EmbeddedFile, VectorstoreMapRow
from smartcrawl.sources.sharepoint.metadata import (
    sharepoint_metadata_file_id,
    streamed_sharepoint_metadata,
)
from smartcrawl.sources.sharepoint.source import SharepointSource

_NOT_NOTED: Final = "it is to be removed from the store, whose list lacks it"
_LEAVING: Final = "it is to be removed from the store"
_COMPLETED: Final = "completed"
_BATCH: Final = 500  #: items of one look-up
_NUMBER: Final = "SELECT no FROM source WHERE name = ?"

Tick = Callable[[int], None]  #: takes a number of items that were compared just now


class DomainFindings:
    """The differences of one domain, in a temporary file: only their counts are in memory."""

    def __init__(self, domain: str) -> None:
        self.domain = domain
        self.items = 0  #: of all compared sources
        self.reasons: list[str] = []  #: for what was not compared
        self.counts = {place: dict.fromkeys(Difference, 0) for place in Place}
        self._file = TemporaryFile("w+", encoding="utf-8", errors="surrogatepass")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, found: LibraryDifference) -> None:
        """Add a difference."""
        self.counts[found.place][found.difference] += 1
        self._file.write(json.dumps(found) + "\n")

    def add_all(self, found: Iterable[LibraryDifference]) -> None:
        """Add differences as they are found."""
        for each in found:
            self.add(each)

    def __iter__(self) -> Iterator[LibraryDifference]:
        """Yield the differences in the order in which they were found."""
        self._file.seek(0)
        for line in self._file:
            place, difference, *words = json.loads(line)
            yield LibraryDifference(Place(place), Difference(difference), *words)

    def total(self) -> int:
        """Return the number of differences."""
        return sum(sum(counts.values()) for counts in self.counts.values())

    @property
    def agree(self) -> bool:
        """Whether everything was compared, and no difference was found."""
        return not (self.total() or self.reasons)


class StoreComparison:
    """Compares the items of one source with a store, whose list comes page by page."""

    def __init__(
        self, connection: Connection, comparison: LibraryComparison, store: VectorStoreOptions
    ) -> None:
        self._connection, self._comparison = connection, comparison
        self._items = items = EmbeddedItems(
            connection, comparison.source, comparison.no, comparison.folder,
            is_full=False, is_dry=True,
        )  # fmt: skip
        #: Its number in the registry; None: the registry does not know it.
        self._store = store_no = vector_store_number(connection, store.url, store.store)
        self._pairs = Pairs()
        self._leaving: set[str | None] = set()
        if store_no is not None:
            rows = vector_store_files_to_leave(connection, store_no, items.source_no)
            self._leaving = {file.file for file in rows}

    def close(self) -> None:
        """Remove the temporary file."""
        self._pairs.close()

    def expect(self) -> None:
        """Add the items that the store is to have, and those whose files may stay."""
        for version in self._items.versions():
            self._pairs.expect(vector_store_attribute(version.url), _value(version), version.url)
        kept = iter(self._items.kept())
        while numbers := list(islice(kept, _BATCH)):
            for row in library_rows_of(self._connection, numbers).values():
                self._pairs.expect(vector_store_attribute(row.unique_id), None, is_needed=False)

    def find(self, page: Sequence[ListedFile]) -> None:
        """Add those files of a page of the list that are ours."""
        known: dict[str | None, StoredFile] = {}
        if self._store is not None:
            ids = [file.id for file in page]
            known = store_files_by_id(self._connection, self._store, self._items.source_no, ids)
        for file in page:
            row = known.get(file.id)
            if row is not None:
                self._leaving.discard(file.id)
                key, value = vector_store_attribute(row.version.url), _value(row.version)
                if row.status is FileStatus.LEAVING:
                    value = _LEAVING
            elif file.has(self._items.marks):
                key, value = file.attributes.get(ITEM, ""), file.attributes.get(HASH, "")
                expected = self._pairs.expected(key)
                if expected is not None and expected.startswith(f"{value} "):
                    value = expected
                elif not (self._items.knows_all or self._pairs.is_expected(key)):
                    continue
            else:
                continue
            if file.status != _COMPLETED:
                value = file.status
            self._pairs.find(key, value, f"{key} ({file.id})")

    def differences(self) -> Iterator[LibraryDifference]:
        """Yield the differences; the list was read to its end."""
        for pair in self._pairs.differences():
            detail = pair.value if " " not in pair.value or pair.value == _LEAVING else ""
            if pair.difference is Difference.CHANGED:
                detail = detail or "another version"
            elif pair.difference is Difference.SURPLUS:
                detail = detail or "no item is to have it"
            yield self._comparison.found(Place.VECTOR_STORE, pair.difference, pair.name, detail)
        for file in sorted(filter(None, self._leaving)):
            yield self._comparison.found(Place.VECTOR_STORE, Difference.SURPLUS, file, _NOT_NOTED)


def _value(version: ItemVersion) -> str:
    return f"{version.hash.hex()} {version.facts.hex()}"


def _vectorstore_map(
    connection: Connection, comparison: LibraryComparison, store: VectorStoreOptions
) -> Iterator[LibraryDifference]:
    """Compare ``vectorstore_map.csv`` with the files that the registry knows (R3-52)."""
    errors = run_embed_errors(connection, comparison.no)
    rows = (
        row
        for batch in comparison.batches()
        for row in run_rows_of_vectorstore_map(
            batch, _embedded(connection, comparison.no, store, batch), errors, comparison.prefix
        )
    )
    name = CRAWLER_HARDCODED_CONFIG.VECTOR_STORE_MAP_CSV
    return comparison.map(Place.VECTORSTORE_MAP, name, VectorstoreMapRow, rows)


def _embedded(
    connection: Connection, source_no: int, store: VectorStoreOptions, rows: Sequence[LibraryRow]
) -> Mapping[int, EmbeddedFile]:
    """Return the completed files of some items, by record.no."""
    number = vector_store_number(connection, store.url, store.store)
    if number is None:
        return {}
    numbers = [row.no for row in rows]
    files = completed_store_files(connection, number, source_no, numbers)
    return run_embedded_files(files.values(), store.store)


class DomainAudit:
    """The audit of some sources of one domain."""

    def __init__(
        self,
        domain: Domain,
        options: Options,
        connection: Connection,
        names: Collection[str] = (),
        *,
        reads_data: bool = False,
    ) -> None:
        """``names``: of the sources, as the engine has them; empty: all of the domain.

        ``reads_data``: whether to read every file, and compare its bytes.
        """
        self.domain = domain
        self._options, self._connection = options, connection
        self._reads_data = reads_data
        self._sources = [each for each in domain.every_source if not names or each.name in names]

    def has_items(self) -> bool:
        """Whether one of the sources was downloaded once."""
        return any(self._number(source) is not None for source in self._sources)

    def _number(self, source: SharepointSource) -> int | None:
        number: int | None = self._connection.execute(_NUMBER, (source.name,)).get
        return number

    def compare(self, tick: Tick = lambda count: None) -> DomainFindings:
        """Compare records, disk, maps, vector store and metadata; the caller closes the findings.

        What cannot be compared is a reason in the findings.
        """
        findings = DomainFindings(self.domain.domain_id)

        def count(more: int) -> None:
            findings.items += more
            tick(more)

        sources = [
            LibraryComparison(self._connection, source, no)
            for source in self._sources
            if (no := self._number(source)) is not None
        ]
        for each in sources:
            try:
                findings.add_all(each.files(reads_data=self._reads_data, tick=count))
            except OSError as error:
                place = error.filename or each.source.folder
                findings.reasons.append(f"{place} cannot be read ({error.strerror})")
            findings.add_all(each.files_map())
        store = self._store(findings)
        if store is not None and sources:
            try:
                self._compare_store(findings, sources, store)
            except SmartcrawlError as error:
                findings.reasons.append(f"the vector store was not compared: {error}")
            for each in sources:
                findings.add_all(_vectorstore_map(self._connection, each, store))
            findings.add_all(self._metadata(sources, store))
        return findings

    def _store(self, findings: DomainFindings) -> VectorStoreOptions | None:
        """Return the options of the store; None: the domain has none, or no usable one."""
        try:
            store = run_domain_store_of_name(self.domain, self._options.store_server)
        except SmartcrawlError as error:
            findings.reasons.append(str(error))
            return None
        return store if store.store else None

    def _compare_store(
        self, findings: DomainFindings, sources: list[LibraryComparison], store: VectorStoreOptions
    ) -> None:
        """Compare the items with the store, whose list is read once.

        Raises:
            SmartcrawlError: a setting is missing, or the server is away.
        """
        with ExitStack() as stack:
            sides = []
            for each in sources:
                side = StoreComparison(self._connection, each, store)
                sides.append(stack.enter_context(closing(side)))
                side.expect()
            try:
                for page in run_domain_store_pages(store):
                    for side in sides:
                        side.find(page)
            except StoreAbsentError:
                gone = "the server has no such store: correct vector_store_id in domain.json"
                place, missing = Place.VECTOR_STORE, Difference.MISSING
                findings.add(LibraryDifference(place, missing, "", store.store, gone))
                return
            for side in sides:
                findings.add_all(side.differences())

    def _metadata(
        self, sources: list[LibraryComparison], store: VectorStoreOptions
    ) -> Iterator[LibraryDifference]:
        """Yield the embedded files without an entry (R3-141); others may have entries there."""
        name = CRAWLER_HARDCODED_CONFIG.FILES_METADATA_JSON
        place = Place.METADATA
        with Pairs() as pairs:
            for each in sources:
                for rows in each.batches():
                    for file in _embedded(self._connection, each.no, store, rows).values():
                        pairs.expect(file.file, each.source.source_id)
            try:
                for entry in streamed_sharepoint_metadata(self.domain.path.with_name(name)):
                    id_ = sharepoint_metadata_file_id(entry)
                    if id_ is not None and (value := pairs.expected(id_)) is not None:
                        pairs.find(id_, value)
            except FileNotFoundError:
                pass  # its entries are missing
            except (OSError, ValueError) as error:
                why = (error.strerror if isinstance(error, OSError) else None) or str(error)
                yield LibraryDifference(place, Difference.CHANGED, "", name, why)
                return
            for kind, key, id_, _ in pairs.differences():
                if kind is Difference.MISSING:
                    source = pairs.expected(key) or ""
                    yield LibraryDifference(place, kind, source, id_, f"entry of {name}")

    def mend(self, findings: DomainFindings) -> list[str]:
        """Repair differences: the disk and the maps, and the store out of the disk.

        Files that are not on disk come with the next download. Returns reasons for what was not
        repaired.

        Raises:
            RunHeldError: another process is at a source.
            SmartcrawlError: a setting is missing, or the registry cannot be written.
        """
        reasons: list[str] = []
        store = run_domain_store_of_name(self.domain, self._options.store_server)
        for source in self._sources:
            if self._number(source) is None:
                continue
            step = LibraryStep(source, self._options)
            step.check()
            step.let_come_again(_damaged(findings, source.source_id))
            if store.store:
                embed = LibraryEmbed(source, self._options, self.domain, store)
                reasons += embed.embed(is_mending=True).reasons
        return reasons


def _damaged(findings: DomainFindings, source_id: str) -> list[str]:
    """Return the paths of files whose bytes are others, though size and date are right."""
    return [
        found.item
        for found in findings
        if found.source == source_id and found.detail == OTHER_BYTES
    ]


def run_domain_audit_summary(
    findings: DomainFindings, left: DomainFindings | None
) -> dict[str, Any]:
    """Return the keys of a domain but its list of differences; ``left``: after a repair."""
    after = findings if left is None else left
    return {
        "domain": findings.domain,
        "agree": after.agree,
        "items": findings.items,
        "reasons": after.reasons,
        "counts": findings.counts,
        "left": None if left is None else left.counts,
    }
