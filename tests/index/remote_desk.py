"""A registry that writes its index to a real Elasticsearch, crawled by hand."""

from pathlib import Path

from smartcrawl.index.choice import index_writer_of_registry
from smartcrawl.index.debts import RemoteDebts
from smartcrawl.index.writing import RemoteIndexing
from smartcrawl.model.batches import Batch
from smartcrawl.model.options import Options
from smartcrawl.registry.index_protocols import Sink
from smartcrawl.registry.runs.run_results import RunResult
from tests.registry.build import NOW, Desk


class RemoteDesk(Desk):
    """A desk whose index is the Elasticsearch of some options."""

    indexing: RemoteIndexing

    def __init__(self, options: Options, path: Path | None = None) -> None:
        super().__init__(path)
        self.options = options
        self.reopen(options)

    def reopen(self, options: Options) -> None:
        """Open the index with other options, as another process does."""
        indexing = index_writer_of_registry(options, self.connection)
        assert isinstance(indexing, RemoteIndexing)
        self.indexing = indexing

    @property
    def debts(self) -> RemoteDebts:
        return RemoteDebts(self.indexing)

    def committed(self, batch: Batch, number: int | None, now: int) -> int:
        def work(sink: Sink, claim: int) -> int:
            return self.commit(number=claim, sink=sink).write(batch, now)

        number = number or self._run.number
        return self.indexing.perform(self.connection, work, now=now, number=number)

    def seal(self, *reasons: str, now: int = NOW, look: bool = True) -> RunResult:
        result = super().seal(*reasons, now=now, look=look)
        self.indexing.seal(self.connection)
        return result

    def close(self) -> None:
        self.indexing.close()
        super().close()
