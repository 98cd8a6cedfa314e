"""Audit of a domain of libraries: its differences, and their repair without a download."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, closing
from tempfile import TemporaryFile
from typing import Any, Final, Self

from smartcrawl.model.exceptions import PushError, SmartcrawlError
from smartcrawl.model.options import Options
from smartcrawl.model.vector_store_options import VectorStoreOptions
from smartcrawl.registry.connection import Connection
from smartcrawl.run.domain_store import run_domain_store_of_name
from smartcrawl.run.library_comparison import (
    OTHER_BYTES,
    Difference,
    LibraryComparison,
    LibraryDifference,
    Pairs,
    Place,
    StoreComparison,
)
from smartcrawl.run.library_embed import LibraryEmbed
from smartcrawl.run.library_steps import LibraryStep
from smartcrawl.run.pushing import run_push_key
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG
from smartcrawl.sources.sharepoint.metadata import sharepoint_metadata_file_id
from smartcrawl.sources.sharepoint.metadata_stream import streamed_sharepoint_metadata
from smartcrawl.sources.sharepoint.source import SharepointSource

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
                findings.add_all(each.vectorstore_map(store))
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
        key = run_push_key(store)
        # Commands that ask no store do without these.
        from smartcrawl.index.vectorstore.api import (  # noqa: PLC0415
            AbsentError,
            RefusedError,
            VectorStoreApi,
        )
        from smartcrawl.index.vectorstore.patience import StorePatience  # noqa: PLC0415
        from smartcrawl.index.vectorstore.reading import vector_store_pages  # noqa: PLC0415

        patience = StorePatience(store.destination, store.away, time.monotonic, time.sleep)
        with ExitStack() as stack:
            api = stack.enter_context(closing(VectorStoreApi(store, key)))
            sides = []
            for each in sources:
                side = StoreComparison(self._connection, each, store)
                sides.append(stack.enter_context(closing(side)))
                side.expect()
            try:
                for page in vector_store_pages(patience.asked, api):
                    for side in sides:
                        side.find(page)
            except AbsentError:
                gone = "the server has no such store: correct vector_store_id in domain.json"
                place, missing = Place.VECTOR_STORE, Difference.MISSING
                findings.add(LibraryDifference(place, missing, "", store.store, gone))
                return
            except RefusedError as error:
                raise PushError(f"{store.destination} refuses the list ({error})") from error
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
                    for file in each.embedded(store, rows).values():
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
