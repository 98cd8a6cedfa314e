"""The registry and the snapshot store that a run writes to."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from smartcrawl.index.choice import index_writer_of_registry
from smartcrawl.model.options import Options
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.registry import Registry, open_registry
from smartcrawl.sources.private_files import narrow_private_data, private_folder


def open_registry_for_run(options: Options) -> Registry:
    """Open the registry for a run, with the partition and the table name of the settings.

    Raises:
        RegistryError: it cannot be opened or written, or its table cannot have the chosen name.
    """
    if options.elasticsearch is not None and not registry_database(options.registry).exists():
        from smartcrawl.index.remote import check_index_server  # noqa: PLC0415  # the embedded index needs none of it

        check_index_server(options.elasticsearch)
    if options.snapshot_store == str(options.data_dir / "snapshots"):
        with suppress(OSError):  # the first write reports the error
            private_folder(options.data_dir)
    narrow_private_data(options.data_dir)
    registry = open_registry(options.registry, partial(index_writer_of_registry, options))
    registry.database.guard_commits()
    registry.choose(partition=options.partition, table=options.registry_table)
    if options.snapshot_store is not None:
        registry.keep_snapshots(SnapshotStore(options.snapshot_store))
    return registry
