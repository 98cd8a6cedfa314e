"""What kills an embedding at a place, as tests/commands/killed_push.py does, and at two more."""

import os

from smartcrawl.index.vectorstore.api import VectorStoreApi
from smartcrawl.run.library import embedding, store
from smartcrawl.run.library.maps import LibraryMaps
from tests.commands.killed_push import observed

if "PLACES" in os.environ:  # pytest imports every module for its doctests
    for _owner, _names in (
        (VectorStoreApi, ("create_store", "store_of")),
        (store, ("write_sharepoint_domain_store_id", "note_domain_store_row")),
        (embedding, ("store_embed_failure_row", "move_library_row")),
        (LibraryMaps, ("write_vectorstore_map",)),
    ):
        for _name in _names:
            setattr(_owner, _name, observed(_name, getattr(_owner, _name)))
