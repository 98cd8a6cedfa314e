"""A server of vector stores on loopback, which keeps files and stores, and fails as a test says."""

import json
import math
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.openai_server import KEY, Reply, Request, error, openai_server

STORE = "vs_ours"
PAGE = 3  #: entries of a list at most, so that lists have pages
FOREVER = math.inf  #: of ``looks``: no file is ever completed
LONGEST = 512  #: characters of an attribute


@dataclass
class Asked:
    """One request."""

    act: str  #: such as "attach"; ``Acts`` has them all
    path: str
    file: str = ""  #: id of a file, where the request names one
    after: str = ""  #: the entry of a list that the answer begins after
    headers: dict[str, str] = field(default_factory=dict)


#: The requests of a push; those of other programs are "stores", "make", "unmake", "read".
ACTS = ("store", "list", "uploads", "upload", "attach", "look", "detach", "delete")


class Stores:
    """Files, and stores that they are attached to."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self.host = f"127.0.0.1:{port}"
        self.stores: dict[str, dict[str, dict[str, Any]]] = {STORE: {}}
        self.uploads: dict[str, dict[str, Any]] = {}  #: of the account; ``content`` is the text
        self.asked: list[Asked] = []
        self.replies: list[Reply | None] = []  #: one for each request; None: the right answer
        self.answer: Callable[[Asked], Reply | None] = lambda asked: None
        #: Called before each request is looked at, beside others.
        self.before: Callable[[Asked], None] = lambda asked: None
        self.after: Callable[[Asked], None] = lambda asked: None  #: called before the answer
        self.looks: float = 0  #: how often a file is in progress before it is completed
        self.fails: Callable[[str], str] = lambda text: ""  #: why a text cannot be embedded
        self.renames: Callable[[str], str] = str  #: takes the name of an upload
        self.is_blunt = False  #: as tests/servers/ogx/README.md says
        self.clock = 1_800_000_000  #: Unix seconds
        self.detached: set[str] = (
            set()
        )  #: ids of files that a request took out of a store, or that were not in it
        self.deleted: set[str] = set()  #: ids of files that a request took out of the account
        self.failures: set[str] = set()  #: ids of files that could not be embedded
        self._number = 0
        self.lock = threading.RLock()

    @property
    def settings(self) -> dict[str, str]:
        """The settings of its client, which does not wait for it in an outage."""
        return {
            "VECTOR_STORE_URL": self.url,
            "VECTOR_STORE_ID": STORE,
            "SINK_WAIT_SECONDS": "0",
            "OPENAI_API_KEY": KEY,
        }

    @property
    def acts(self) -> list[str]:
        return [asked.act for asked in self.asked]

    def texts(self, store: str = STORE) -> dict[str, str]:
        """Return the completed texts of a store by ``smartcrawl_url``; none is there twice."""
        found = [
            (entry["attributes"]["smartcrawl_url"], self.uploads[id_]["content"])
            for id_, entry in self.stores[store].items()
            if "smartcrawl_url" in entry["attributes"] and entry["status"] == "completed"
        ]
        assert len(dict(found)) == len(found), f"twice: {sorted(url for url, _ in found)}"
        return dict(found)

    def put(
        self, text: str, *, store: str | None = STORE, name: str = "theirs.md", **attributes: Any
    ) -> str:
        """Upload and attach a file that another program made."""
        id_ = self._upload(name, text)
        if store is not None:
            self.stores[store][id_] = self._entry(id_, store, attributes)
            self.stores[store][id_]["status"] = "completed"
        return id_

    def _upload(self, name: str, text: str) -> str:
        self._number += 1
        id_ = f"file-{self._number:04}"
        name = self.renames(name)
        self.uploads[id_] = {
            "id": id_, "object": "file", "bytes": len(text.encode()), "created_at": self.clock,
            "filename": name, "purpose": "assistants", "status": "processed", "content": text,
        }  # fmt: skip
        return id_

    def _entry(self, id_: str, store: str, attributes: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": id_, "object": "vector_store.file", "created_at": self.clock,
            "vector_store_id": store, "status": "in_progress", "last_error": None,
            "usage_bytes": 0, "attributes": attributes, "left": self.looks,
        }  # fmt: skip

    def _step(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Let the server work at a file, and return it."""
        if entry["status"] == "in_progress":
            if entry["left"] > 0:
                entry["left"] -= 1
            elif why := self._refusal(entry["id"]):
                entry |= {"status": "failed"}
                self.failures.add(entry["id"])
                entry["last_error"] = {"code": "unsupported_file", "message": why}
            else:
                entry["status"] = "completed"
        return {key: value for key, value in entry.items() if key != "left"}

    def _refusal(self, id_: str) -> str:
        """Return why a file cannot be embedded, or nothing."""
        upload = self.uploads.get(id_)
        return self.fails(upload["content"]) if upload else f"File '{id_}' not found."

    def _absent(self, what: str, where: str = "") -> Reply:
        """Return the answer for a store, or a file of it, that is not there."""
        if not self.is_blunt:
            return error(f"No {what} found{where}.", 404)
        answer = error(f"{what} not found{where}", 400)
        answer.drops = True
        return answer

    # Requests

    def reply(self, request: Request) -> Reply:
        url = urlsplit(request.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        asked = _asked(request.method, url.path, request.headers)
        if asked is None:
            return error(f"Unknown request URL: {request.method} {request.path}", 404)
        asked.after = query.get("after", "")
        self.before(asked)
        with self.lock:
            self.asked.append(asked)
            if asked.headers.get("authorization") != f"Bearer {KEY}":
                return error("Incorrect API key provided", 401)
            given = self.replies.pop(0) if self.replies else self.answer(asked)
            kind = asked.headers.get("content-type", "")
            if given is not None and 400 <= given.status < 500 and asked.act in ("attach", "look"):
                sent = json.loads(request.body or b"{}")
                self.failures.add(asked.file or sent["file_id"])
            if given is None or given.is_done:
                right = self.carry_out(asked, request.body, kind, query)
                self.after(asked)
                return right if given is None else given
            return given

    def carry_out(self, asked: Asked, body: bytes, kind: str, query: dict[str, str]) -> Reply:
        """Return the right answer."""
        match asked.act:
            case "uploads":
                entries = {id_: self._shown(id_) for id_ in self.uploads}
                return _listed(entries, query)
            case "upload":
                name, text = _form(body, kind)
                return Reply(self._shown(self._upload(name, text)))
            case "delete":
                if self.uploads.pop(asked.file, None) is None:
                    return error(f"No such File object: {asked.file}", 404)
                self.deleted.add(asked.file)
                for entries in () if self.is_blunt else self.stores.values():
                    entries.pop(asked.file, None)
                return Reply({"id": asked.file, "object": "file", "deleted": True})
            case "find":
                if asked.file not in self.uploads:
                    return error(f"No such File object: {asked.file}", 404)
                return Reply(self._shown(asked.file))
            case "read":
                if asked.file not in self.uploads:
                    return error(f"No such File object: {asked.file}", 404)
                return Reply(self.uploads[asked.file]["content"].encode())
            case "stores":
                return _listed({id_: _store(id_) for id_ in self.stores}, query)
            case "make":
                self._number += 1
                store = f"vs_made{self._number}"
                self.stores[store] = {}
                return Reply(_store(store))
        store = asked.path.split("/")[3]
        if store not in self.stores:
            return self._absent(f"vector store with id '{store}'")
        return self._of_store(store, asked, body, query)

    def _of_store(self, store: str, asked: Asked, body: bytes, query: dict[str, str]) -> Reply:
        entries = self.stores[store]
        if asked.act == "detach":
            self.detached.add(asked.file)
        match asked.act:
            case "store":
                return Reply(_store(store))
            case "unmake":
                del self.stores[store]
                return Reply({"id": store, "object": "vector_store.deleted", "deleted": True})
            case "list":
                return _listed({id_: self._step(entry) for id_, entry in entries.items()}, query)
            case "attach":
                sent = json.loads(body)
                id_ = asked.file = sent["file_id"]
                if id_ not in self.uploads and not self.is_blunt:
                    return error(f"File with id '{id_}' not found.", 404)
                attributes = sent.get("attributes") or {}
                if any(len(str(value)) > LONGEST for value in attributes.values()):
                    return error(f"Attributes have at most {LONGEST} characters.", 400)
                if id_ not in entries:
                    entries[id_] = self._entry(id_, store, attributes)
                if self.is_blunt:  # its answer comes when it is done
                    return Reply(self._step(entries[id_]))
                shown = {key: value for key, value in entries[id_].items() if key != "left"}
                return Reply(shown)
        if asked.file not in entries:
            return self._absent(f"file with id '{asked.file}'", f" in vector store {store}")
        if asked.act == "look":
            return Reply(self._step(entries[asked.file]))
        assert asked.act == "detach"
        del entries[asked.file]
        deleted = {"id": asked.file, "object": "vector_store.file.deleted", "deleted": True}
        return Reply(deleted)

    def _shown(self, id_: str) -> dict[str, Any]:
        return {key: value for key, value in self.uploads[id_].items() if key != "content"}


def _store(id_: str) -> dict[str, Any]:
    return {"id": id_, "object": "vector_store", "name": "ours", "created_at": 0,
            "status": "completed"}  # fmt: skip


def _listed(entries: dict[str, dict[str, Any]], query: dict[str, str]) -> Reply:
    ids = list(entries)
    start = ids.index(query["after"]) + 1 if query.get("after") in entries else 0
    found = ids[start : start + min(PAGE, int(query.get("limit", "20")))]
    body = {
        "object": "list", "data": [entries[id_] for id_ in found],
        "first_id": found[0] if found else None, "last_id": found[-1] if found else None,
        "has_more": start + len(found) < len(ids),
    }  # fmt: skip
    return Reply(body)


def _form(body: bytes, kind: str) -> tuple[str, str]:
    """Return name and text of the file in a form."""
    message = BytesParser(policy=HTTP).parsebytes(
        b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body
    )
    parts = {
        part.get_param("name", header="content-disposition"): part for part in message.iter_parts()
    }
    assert parts["purpose"].get_payload(decode=True) == b"assistants"
    file = parts["file"]
    payload = file.get_payload(decode=True)
    assert isinstance(payload, bytes)
    name = (file.get_filename() or "").encode("utf-8", "surrogateescape").decode()
    return name, payload.decode()


_PATHS = (
    ("POST", r"/v1/files", "upload"),
    ("GET", r"/v1/files", "uploads"),
    ("DELETE", r"/v1/files/([^/]+)", "delete"),
    ("GET", r"/v1/files/([^/]+)", "find"),
    ("GET", r"/v1/files/([^/]+)/content", "read"),
    ("GET", r"/v1/vector_stores", "stores"),
    ("POST", r"/v1/vector_stores", "make"),
    ("DELETE", r"/v1/vector_stores/[^/]+", "unmake"),
    ("GET", r"/v1/vector_stores/[^/]+", "store"),
    ("POST", r"/v1/vector_stores/[^/]+/files", "attach"),
    ("GET", r"/v1/vector_stores/[^/]+/files", "list"),
    ("GET", r"/v1/vector_stores/[^/]+/files/([^/]+)", "look"),
    ("DELETE", r"/v1/vector_stores/[^/]+/files/([^/]+)", "detach"),
)


def _asked(method: str, path: str, headers: dict[str, str]) -> Asked | None:
    for known, pattern, act in _PATHS:
        found = re.fullmatch(pattern, path)
        if known == method and found is not None:
            return Asked(act, path, *found.groups(), headers=headers)
    return None


@contextmanager
def stores_server() -> Iterator[Stores]:
    """Serve until the end of the block."""

    def reply(request: Request) -> Reply:
        return stores.reply(request)

    with openai_server(reply) as port:
        stores = Stores(port)
        yield stores


class MakingStores(Stores):
    """It also makes stores, and lists them."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.stores = {}
        self.made: dict[str, dict[str, Any]] = {}

    @property
    def settings(self) -> dict[str, str]:
        return {**super().settings, "VECTOR_STORE_ID": ""}

    def carry_out(self, asked: Asked, body: bytes, kind: str, query: dict[str, str]) -> Reply:
        if asked.act == "stores":
            return _listed(self.made, query)
        if asked.act != "make":
            return super().carry_out(asked, body, kind, query)
        sent, id_ = json.loads(body), f"vs_{len(self.made) + 1}"
        self.stores[id_] = {}
        self.made[id_] = {
            "id": id_, "object": "vector_store", "name": sent["name"], "created_at": self.clock,
            "status": "completed", "metadata": sent["metadata"],
        }  # fmt: skip
        return Reply(self.made[id_])


@contextmanager
def making_stores_server() -> Iterator[MakingStores]:
    """Serve until the end of the block; there is no store before one is made."""

    def reply(request: Request) -> Reply:
        return stores.reply(request)

    with openai_server(reply) as port:
        stores = MakingStores(port)
        yield stores
