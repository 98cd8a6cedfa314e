"""A vector store on any server of the API, as the official SDK shows it: no test looks inside."""

from collections.abc import Iterator
from contextlib import contextmanager

import openai
import pytest
from openai.types.vector_stores import VectorStoreFile

from tests.index.vectorstore.store_server import stores_server
from tests.openai_server import KEY
from tests.servers import POISON, ogx_server


class AnyStore:
    """A store of its own on a server, and what is seen of it."""

    def __init__(self, client: openai.OpenAI, url: str, store: str) -> None:
        self._client, self.url, self.store = client, url, store

    @property
    def settings(self) -> dict[str, str]:
        """The settings of its client."""
        return {
            "VECTOR_STORE_URL": self.url, "VECTOR_STORE_ID": self.store,
            "SINK_WAIT_SECONDS": "60", "OPENAI_API_KEY": KEY,
        }  # fmt: skip

    def files(self) -> dict[str, VectorStoreFile]:
        """Return the files of the store by their ids."""
        return {file.id: file for file in self._client.vector_stores.files.list(self.store)}

    def uploads(self) -> set[str]:
        """Return the ids of the account's files, attached or not."""
        return {file.id for file in self._client.files.list(purpose="assistants")}

    def texts(self) -> dict[str, list[str]]:
        """Return the completed texts of the store by ``smartcrawl_url``, without others' files."""
        found: dict[str, list[str]] = {}
        for file in self.files().values():
            url = (file.attributes or {}).get("smartcrawl_url")
            if url and file.status == "completed":
                found.setdefault(str(url), []).append(self.text(file.id))
        return found

    def text(self, file: str) -> str:
        """Return the text of an upload."""
        return self._client.files.content(file).text

    def put(self, text: str, *, is_attached: bool = True, **attributes: str) -> str:
        """Upload and attach a file that another program made."""
        file = self._client.files.create(file=("theirs.md", text.encode()), purpose="assistants")
        if is_attached:
            self._client.vector_stores.files.create_and_poll(
                file.id, vector_store_id=self.store, attributes=dict(attributes)
            )
        return file.id

    def delete(self, file: str) -> None:
        """Delete an upload as another program does."""
        self._client.files.delete(file)

    def detach(self, file: str) -> None:
        """Remove a file from the store as another program does."""
        self._client.vector_stores.files.delete(file, vector_store_id=self.store)

    def remove(self) -> None:
        """Remove the store itself."""
        self._client.vector_stores.delete(self.store)

    def stores(self) -> set[str]:
        """Return the ids of all stores."""
        return {store.id for store in self._client.vector_stores.list()}


#: Each server; ours and the real one are in the slow tier.
SERVERS = ["blunt", *(pytest.param(name, marks=pytest.mark.long) for name in ("ours", "ogx"))]


@contextmanager
def any_server(name: str) -> Iterator[str]:
    """Start a server and yield its address: ours, ours with the ways of ogx (blunt), or ogx."""
    if name == "ogx":
        with ogx_server() as real:
            yield real.url
    else:
        with stores_server() as ours:
            ours.is_blunt = name == "blunt"
            ours.fails = lambda text: "cannot be embedded" if POISON in text else ""
            yield ours.url


@contextmanager
def any_store(url: str) -> Iterator[AnyStore]:
    """Make a store on a server; with all files of the account, it is gone at the end."""
    with openai.OpenAI(
        base_url=url, api_key=KEY, max_retries=0,
        default_headers={"Connection": "close"},  # a server may drop one that is idle
    ) as client:  # fmt: skip
        store = AnyStore(client, url, client.vector_stores.create(name="tests").id)
        try:
            yield store
        finally:
            for file in store.uploads():
                store.delete(file)
            if store.store in store.stores():
                store.remove()
