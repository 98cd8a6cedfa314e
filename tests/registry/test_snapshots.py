"""Snapshots in a folder, in S3 (moto's server) and in Azure Blob Storage (Azurite).

What is asked of a store is checked by a client that is not ours: the file system, boto3,
azure-storage-blob.
"""

import errno
import gzip
import hashlib
import json
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path

import boto3
import fsspec
import pytest
from azure.core.exceptions import ClientAuthenticationError
from azure.storage.blob import BlobServiceClient
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from smartcrawl.model.exceptions import (
    SettingError,
    SnapshotDamagedError,
    SnapshotMissingError,
    SnapshotStoreError,
)
from smartcrawl.registry.commit.snapshot_store import (
    SnapshotStore,
    pack_stored_snapshot,
    stored_snapshot_path,
)
from smartcrawl.sources import stores
from smartcrawl.sources.stores import PARALLEL, Fault, file_store_fault
from tests.stores import ObjectStore, azurite, moto_server

ROOT = Path(__file__).resolve().parents[2]
NOON = 1_795_262_400  # 2026-11-21 12:00 UTC
BODY = b"<!doctype html><title>Caf\xc3\xa9</title>" + b"<p>words" * 500
HASH = hashlib.sha256(BODY).digest()
PATH = "2026/11/21/8c1f.html.gz"
SECONDS = 180  # a child process that takes longer hangs


class FolderPlace:
    """A folder, as any program sees it."""

    def __init__(self, home: Path) -> None:
        self.root = home / "snap shots"
        self.url = self.root.as_uri()

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_bytes(data)

    def names(self) -> set[str]:
        return {str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file()}

    def forbid(self, path: str) -> None:
        """Let nobody write or remove one file."""
        (self.root / path).mkdir(parents=True)

    def vanish(self) -> None:
        shutil.rmtree(self.root)


class S3Place:
    """A prefix of a bucket, as boto3 sees it."""

    def __init__(self) -> None:
        self.client = boto3.client("s3")
        self.bucket = f"b{secrets.token_hex(8)}"
        self.url = f"s3://{self.bucket}/kept/here"
        self.client.create_bucket(Bucket=self.bucket)

    def read(self, path: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=f"kept/here/{path}")["Body"].read()

    def write(self, path: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.bucket, Key=f"kept/here/{path}", Body=data)

    def names(self) -> set[str]:
        listed = self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {entry["Key"].removeprefix("kept/here/") for entry in listed}

    def forbid(self, path: str) -> None:
        denied = {
            "Effect": "Deny",
            "Principal": "*",
            "Action": "s3:*",
            "Resource": f"arn:aws:s3:::{self.bucket}/kept/here/{path}",
        }
        policy = {"Version": "2012-10-17", "Statement": [denied]}
        self.client.put_bucket_policy(Bucket=self.bucket, Policy=json.dumps(policy))

    def vanish(self) -> None:
        for name in self.names():
            key = name if name.startswith("kept/") else f"kept/here/{name}"
            self.client.delete_object(Bucket=self.bucket, Key=key)
        self.client.delete_bucket(Bucket=self.bucket)


class AzurePlace:
    """A prefix of a container, as azure-storage-blob sees it."""

    def __init__(self) -> None:
        connection = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
        name = f"c{secrets.token_hex(8)}"
        self.url = f"abfs://{name}/kept/here"
        self.container = BlobServiceClient.from_connection_string(connection).create_container(name)

    def read(self, path: str) -> bytes:
        return self.container.download_blob(f"kept/here/{path}").readall()

    def write(self, path: str, data: bytes) -> None:
        self.container.upload_blob(f"kept/here/{path}", data, overwrite=True)

    def names(self) -> set[str]:
        return {name.removeprefix("kept/here/") for name in self.container.list_blob_names()}

    def forbid(self, path: str) -> None:
        self.write(path, b"leased")
        self.container.get_blob_client(f"kept/here/{path}").acquire_lease()

    def vanish(self) -> None:
        self.container.delete_container()


Place = FolderPlace | S3Place | AzurePlace


@pytest.fixture
def s3(s3_server, monkeypatch) -> S3Place:
    enter(s3_server, monkeypatch)
    return S3Place()


@pytest.fixture
def azure(azure_server, monkeypatch) -> AzurePlace:
    enter(azure_server, monkeypatch)
    return AzurePlace()


@pytest.fixture
def file(tmp_path) -> FolderPlace:
    return FolderPlace(tmp_path)


@pytest.fixture(params=["file", "s3", "azure"])
def place(request) -> Place:
    return request.getfixturevalue(request.param)


@pytest.fixture
def store(place) -> Iterator[SnapshotStore]:
    with opened(place.url) as store:
        yield store


@contextmanager
def opened(url: str, patience: float = 60) -> Iterator[SnapshotStore]:
    store = SnapshotStore(url, patience=patience)
    try:
        yield store
    finally:
        store.close()


def enter(server: ObjectStore, monkeypatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


def sha256(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def numbered(count: int) -> list[tuple[str, bytes]]:
    return [(f"2026/11/21/{n:04x}.txt.gz", f"body {n}".encode() * n) for n in range(count)]


# Paths


@pytest.fixture
def far_east(monkeypatch) -> Iterator[None]:
    """A machine whose clock shows 14 hours more."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "EAST-14")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.covers("M-48")
@pytest.mark.parametrize(
    ("media_type", "extension"),
    [
        ("text/html", "html"),
        ("Text/HTML; charset=ISO-8859-1", "html"),
        ("application/xhtml+xml", "html"),
        ("application/pdf", "pdf"),
        ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
        ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
        ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
        ("application/vnd.oasis.opendocument.text", "odt"),
        ("application/epub+zip", "epub"),
        ("text/markdown", "md"),
        ("text/plain ;format=flowed", "txt"),
        ("text/csv", "csv"),
        ("application/json", "json"),
        ("application/xml", "xml"),
        ("text/xml", "xml"),
        ("application/octet-stream", "bin"),
        ("../../etc/passwd", "bin"),
        ("", "bin"),
    ],
)
def test_path_ends_with_what_the_body_is(media_type, extension):
    """ATT-59: a file has the name of a hash, whatever the address of its page is."""
    assert stored_snapshot_path(NOON, b"\x8c\x1f", media_type) == f"2026/11/21/8c1f.{extension}.gz"


@pytest.mark.covers("M-48")
@pytest.mark.parametrize(
    ("at", "day"),
    [
        (1_795_219_199, "2026/11/20"),
        (1_795_219_200, "2026/11/21"),
        (1_795_305_599, "2026/11/21"),
        (0, "1970/01/01"),
    ],
)
def test_path_begins_with_the_day_in_utc(at, day, far_east):
    assert stored_snapshot_path(at, bytes(32), "text/html") == f"{day}/{'00' * 32}.html.gz"


def test_second_path_of_a_day_tells_bodies_apart():
    other = stored_snapshot_path(NOON, b"\x8c\x1f", "text/html", body_hash=HASH)
    assert other == f"2026/11/21/8c1f-{HASH.hex()[:8]}.html.gz"


@pytest.mark.parametrize(
    "path", ["../8c1f.html.gz", "2026/11/21/../../8c1f.html.gz", "/etc/passwd", "", f"{PATH}\n"]
)
def test_what_is_not_a_path_of_ours_is_not_touched(path, file):
    (file.root.parent / "8c1f.html.gz").write_bytes(b"another program's")
    with opened(file.url) as store:
        for use in (
            lambda: store.put(path, BODY),
            lambda: store.get(path, HASH),
            lambda: store.remove_many([PATH, path]),
        ):
            with pytest.raises(ValueError, match="not the path of a snapshot"):
                use()
    assert (file.root.parent / "8c1f.html.gz").read_bytes() == b"another program's"


# Writing and reading


@pytest.mark.long(but=6)
@pytest.mark.covers("R0-75", "M-48")
@pytest.mark.parametrize("body", [BODY, b"", b"\0" * 5_000_000, secrets.token_bytes(3_000_000)])
def test_body_comes_back_byte_for_byte(store, body):
    store.put(PATH, body)
    assert store.get(PATH, sha256(body)) == body


@pytest.mark.covers("M-48")
def test_foreign_client_finds_gzip_below_the_prefix(store, place):
    store.put(PATH, BODY)
    assert place.names() == {PATH}
    assert gzip.decompress(place.read(PATH)) == BODY


def test_what_a_foreign_client_put_back_is_read(store, place):
    place.write(PATH, gzip.compress(BODY))
    assert store.get(PATH, HASH) == BODY


@pytest.mark.covers("R0-75")
def test_same_body_makes_the_same_file(store, place):
    store.put(PATH, BODY)
    first = place.read(PATH)
    store.put(PATH, BODY)
    assert place.read(PATH) == first == pack_stored_snapshot(BODY)
    assert first[4:8] == bytes(4)  # no time


def test_body_replaces_what_is_at_its_path(store, place):
    store.put(PATH, b"x" * 10_000)
    store.put(PATH, BODY)
    assert place.names() == {PATH}
    assert store.get(PATH, HASH) == BODY


def test_many_bodies_are_written_and_removed(store, place):
    files = numbered(30)
    assert store.put_many(files) == [None] * 30
    assert place.names() == {path for path, _ in files}
    for path, body in files:
        assert store.get(path, sha256(body)) == body

    assert store.remove_many([path for path, _ in files[:-1]]) == [None] * 29
    assert place.names() == {files[-1][0]}


def test_it_is_known_which_of_many_are_there(store, place):
    files = numbered(20)
    paths = [path for path, _ in files]
    assert store.holds(paths) == [False] * 20
    store.put_many(files[::2])
    assert store.holds(paths) == [True, False] * 10
    store.remove_many(paths[:10])
    assert store.holds(paths) == [False] * 10 + [True, False] * 5

    place.vanish()

    assert store.holds(paths) == [False] * 20


def test_nothing_is_asked_for_nothing(store):
    assert store.put_many([]) == []
    assert store.holds([]) == []
    assert store.remove_many([]) == []


@pytest.mark.covers("R0-75")
def test_what_is_not_there_is_missing_and_is_removed(store, place):
    store.put(PATH, BODY)
    other = "2026/11/21/ffff.pdf.gz"

    with pytest.raises(SnapshotMissingError) as caught:
        store.get(other, HASH)

    assert other in str(caught.value)
    assert place.url in str(caught.value)
    assert "have its page fetched again" in str(caught.value)
    assert store.remove_many([other, PATH, other]) == [None, None, None]
    assert place.names() == set()


def test_one_that_fails_does_not_stop_the_others(store, place):
    files = numbered(20)
    place.forbid(files[7][0])

    errors = store.put_many(files)

    assert [n for n, error in enumerate(errors) if error] == [7]
    assert isinstance(errors[7], SnapshotStoreError)
    assert f"cannot write {files[7][0]} to {place.url}" in str(errors[7])
    for path, body in files[:7] + files[8:]:
        assert store.get(path, sha256(body)) == body

    errors = store.remove_many([path for path, _ in files])

    assert [n for n, error in enumerate(errors) if error] == [7]
    assert f"cannot remove {files[7][0]} from {place.url}" in str(errors[7])
    assert place.names() <= {files[7][0]}


def test_one_that_fails_is_raised_with_its_cause(store, place):
    place.forbid(PATH)
    with pytest.raises(SnapshotStoreError) as caught:
        store.put(PATH, BODY)
    assert caught.value.__cause__ is not None


def test_two_threads_write_and_read_at_once(store):
    files = numbered(40)
    halves = files[::2], files[1::2]
    together = threading.Barrier(2)

    def work(half):
        together.wait()
        errors = store.put_many(half)
        return errors, [store.get(path, sha256(body)) == body for path, body in half]

    with ThreadPoolExecutor(2) as threads:
        for errors, same in threads.map(work, halves):
            assert errors == [None] * 20
            assert all(same)


def test_file_is_never_seen_half_written(file):
    """Whoever reads while it is replaced reads the old body or the new one."""
    bodies = [secrets.token_bytes(300_000), secrets.token_bytes(200_000)]
    with opened(file.url) as store:
        store.put(PATH, bodies[0])
        done = threading.Event()

        def rewrite():
            for n in range(200):
                store.put(PATH, bodies[n % 2])
            done.set()

        writer = threading.Thread(target=rewrite)
        writer.start()
        seen = set()
        while not done.is_set():
            seen.add(gzip.decompress(file.read(PATH)))
        writer.join()
    assert seen <= set(bodies)
    assert file.names() == {PATH}


@pytest.mark.parametrize("spelling", ["plain", "file", "local", "slash", "upper"])
def test_folder_has_several_spellings(tmp_path, spelling):
    root = tmp_path / "a%20b c"
    url = {
        "plain": str(root),
        "file": root.as_uri(),
        "local": root.as_uri().replace("file:", "local:"),
        "slash": f"{root.as_uri()}/",
        "upper": root.as_uri().replace("file:", "FILE:"),
    }[spelling]
    with opened(url) as store:
        store.put(PATH, BODY)
        assert gzip.decompress((root / PATH).read_bytes()) == BODY
        assert store.url == root.as_uri()


# What is damaged


@pytest.mark.covers("R0-75")
@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(pack_stored_snapshot(BODY)[:-1], "it is cut off", id="cut"),
        pytest.param(
            pack_stored_snapshot(BODY)[: len(pack_stored_snapshot(BODY)) // 2],
            "it is cut off",
            id="half",
        ),
        pytest.param(b"", "it is cut off", id="empty"),
        pytest.param(BODY, "Error", id="not-gzip"),
        pytest.param(
            pack_stored_snapshot(BODY + b"."), "not the body that was stored", id="another"
        ),
    ],
)
def test_damaged_snapshot_is_told_and_not_returned(store, place, data, told):
    place.write(PATH, data)
    with pytest.raises(SnapshotDamagedError) as caught:
        store.get(PATH, HASH)
    assert f"{PATH} in {place.url} is damaged" in str(caught.value)
    assert told in str(caught.value)
    assert "have its page fetched again" in str(caught.value)


def test_no_cut_goes_unnoticed_and_no_flipped_bit_changes_a_body(file):
    body = BODY[:200]
    whole = pack_stored_snapshot(body)
    harmless = 0
    with opened(file.url) as store:
        for length in range(len(whole)):
            file.write(PATH, whole[:length])
            with pytest.raises(SnapshotDamagedError):
                store.get(PATH, sha256(body))
        for n in range(8 * len(whole)):
            file.write(PATH, (int.from_bytes(whole) ^ 1 << n).to_bytes(len(whole)))
            try:
                assert store.get(PATH, sha256(body)) == body
                harmless += 1
            except SnapshotDamagedError:
                pass
    assert harmless < 80  # of gzip's ten bytes of header, and what fills up the last byte of data


@pytest.mark.long(but=3)
@pytest.mark.parametrize("layers", [1, 2])
def test_bomb_is_not_unpacked(place, layers):
    bomb = gzip.compress(bytes(200_000_000), 1)
    if layers == 2:
        bomb = gzip.compress(bomb)
    place.write(PATH, bomb)
    with opened(place.url) as store:
        tracemalloc.start()
        try:
            with pytest.raises(SnapshotDamagedError) as caught:
                store.get(PATH, HASH, max_size=1_000_000)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    told = {1: "it unpacks to more than 1000000 bytes", 2: "it is not the body that was stored"}
    assert told[layers] in str(caught.value)
    assert peak < 20_000_000


def test_file_that_is_too_long_is_not_read(store, place):
    place.write(PATH, secrets.token_bytes(30_000_000))
    store.put("2026/11/21/0000.txt.gz", BODY)  # what a driver does once is done
    tracemalloc.start()
    try:
        with pytest.raises(SnapshotDamagedError, match="too long for 1000000 bytes"):
            store.get(PATH, HASH, max_size=1_000_000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20_000_000


@pytest.mark.parametrize("size", [0, 1, 70_000, 2_000_000])
def test_limit_is_the_longest_body_that_is_read(file, size):
    body = secrets.token_bytes(size)  # gzip makes it longer
    with opened(file.url) as store:
        store.put(PATH, body)
        assert store.get(PATH, sha256(body), max_size=size) == body
        if size:
            with pytest.raises(SnapshotDamagedError, match="more than"):
                store.get(PATH, sha256(body), max_size=size - 1)


# Stores that do not answer, have no room, or let nobody in


@pytest.mark.covers("R0-75")
def test_snapshots_of_a_store_that_is_gone_are_not_missing(store, place):
    """A folder that is not mounted must not look like an emptied one."""
    store.put(PATH, BODY)
    place.vanish()

    with pytest.raises(SnapshotStoreError) as caught:
        store.get(PATH, HASH)
    (error,) = store.remove_many([PATH])

    for told in (str(caught.value), str(error)):
        assert place.url in told
        assert "it is not there: create or mount it, or name another SNAPSHOT_STORE" in told


@pytest.mark.parametrize("name", ["s3", "azure"])
def test_bucket_is_not_made(request, name):
    place = request.getfixturevalue(name)
    place.vanish()
    with pytest.raises(SnapshotStoreError, match="it is not there: create or mount it") as caught:
        SnapshotStore.open(place.url)
    assert "RequestId" not in str(caught.value)  # the first line of what Azure says is enough


def test_folder_is_made(file):
    with opened(file.url) as store:
        store.put(PATH, BODY)
        file.vanish()
        store.put(PATH, BODY)
        assert store.get(PATH, HASH) == BODY


def test_opening_tries_to_write(place):
    store = SnapshotStore.open(place.url)
    store.close()
    assert place.names() == {".smartcrawl"}
    assert b"smartcrawl" in place.read(".smartcrawl")


@pytest.mark.long
@pytest.mark.parametrize(("name", "server"), [("s3", moto_server), ("azure", azurite)])
def test_server_that_ended_is_told_with_its_remedy(name, server, monkeypatch):
    with server() as running:
        enter(running, monkeypatch)
        place = {"s3": S3Place, "azure": AzurePlace}[name]()
        with opened(place.url) as store:
            store.put(PATH, BODY)
        running.stop()
        with opened(place.url, patience=1) as store:
            with pytest.raises(SnapshotStoreError) as reading:
                store.get(PATH, HASH)
            written, *_ = store.put_many(numbered(20))
            (removed,) = store.remove_many([PATH])
        with pytest.raises(SnapshotStoreError) as opening:
            SnapshotStore.open(place.url, patience=1)
    for error in (reading.value, written, removed, opening.value):
        assert place.url in str(error)
        assert "check that it runs and can be reached from here" in str(error)
        hides_secrets(error, running)


@pytest.mark.long
def test_server_that_comes_back_is_used_again(monkeypatch):
    with moto_server() as first:
        enter(first, monkeypatch)
        place = S3Place()
        with opened(place.url, patience=8) as store:
            store.put(PATH, BODY)
            first.stop()
            assert store.put_many([(PATH, BODY)]) != [None]
            with moto_server(port=first.port):
                place.client.create_bucket(Bucket=place.bucket)
                store.put(PATH, BODY)
                assert store.get(PATH, HASH) == BODY


@contextmanager
def silent_server() -> Iterator[tuple[int, list[socket.socket]]]:
    """Accepts connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken: list[socket.socket] = []

        def accept():
            while True:
                try:
                    taken.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1], taken
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for connection in taken:
                connection.close()


@pytest.mark.parametrize("name", ["s3", "azure"])
def test_silent_store_is_given_up_and_the_rest_of_the_batch_with_it(request, name, monkeypatch):
    with silent_server() as (port, taken):
        if name == "s3":
            enter(request.getfixturevalue("s3_server"), monkeypatch)
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
        else:
            connection = (
                "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0;"
                f"BlobEndpoint=http://127.0.0.1:{port}/a"
            )
            monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
        scheme = {"s3": "s3", "azure": "az"}[name]
        with opened(f"{scheme}://bucket", patience=3) as store:
            errors = store.put_many(numbered(50))
            asked = len(taken)
            with pytest.raises(SnapshotStoreError, match="no answer in 3 s"):
                store.get(PATH, HASH)
    assert len(errors) == 50
    for error in errors:
        assert "no answer in 3 s" in str(error)
        assert "check that it runs and can be reached from here" in str(error)
    assert 0 < asked <= PARALLEL


def test_folder_that_may_not_be_written_to_is_told(tmp_path):
    if os.geteuid() == 0:
        folder = Path("/sys/smartcrawl")  # nobody makes folders there
    else:
        folder = tmp_path / "closed"
        folder.mkdir(mode=0o500)
    with pytest.raises(SnapshotStoreError) as caught:
        SnapshotStore.open(str(folder / "below"))
    assert folder.as_uri() in str(caught.value)
    assert "check what this user may do there" in str(caught.value)


def test_file_in_place_of_a_folder_is_told(tmp_path):
    (tmp_path / "snapshots").write_text("a file")
    store = SnapshotStore(str(tmp_path / "snapshots"))
    for use in (
        lambda: SnapshotStore.open(str(tmp_path / "snapshots")),
        lambda: store.put(PATH, BODY),
        lambda: store.get(PATH, HASH),
    ):
        with pytest.raises(SnapshotStoreError, match="a file is where a folder should be: move it"):
            use()
    assert (tmp_path / "snapshots").read_text() == "a file"


def test_credentials_that_are_refused_are_told_by_their_variables(azure, azure_server, monkeypatch):
    right = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    wrong = right.replace("AccountKey=", "AccountKey=AAAA")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    with pytest.raises(SnapshotStoreError) as caught:
        SnapshotStore.open(azure.url)
    assert "check what the credentials in AZURE_STORAGE_CONNECTION_STRING" in str(caught.value)
    hides_secrets(caught.value, azure_server)


def test_bucket_that_refuses_is_told_by_the_variables(s3, s3_server):
    s3.forbid("*")
    with pytest.raises(SnapshotStoreError) as caught:
        SnapshotStore.open(s3.url)
    assert "check what the credentials in AWS_ACCESS_KEY_ID" in str(caught.value)
    hides_secrets(caught.value, s3_server)


def test_malformed_credentials_are_told_and_not_repeated(azure, monkeypatch):
    told = []
    for wrong in ("AccountName=a;AccountKey=h3mlig;BlobEndpoint=http://127.0.0.1:9/a", "h3mlig"):
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
        with pytest.raises((SettingError, SnapshotStoreError)) as caught:
            SnapshotStore.open(azure.url)
        told.append(str(caught.value))
    for message in told:
        assert "check" in message
        assert "the credentials in AZURE_STORAGE_CONNECTION_STRING" in message
        assert "h3mlig" not in message


def test_no_credentials_at_all_are_told_by_their_variables(s3, azure, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AZURE_STORAGE_CONNECTION_STRING"):
        monkeypatch.delenv(name)
    with pytest.raises(SnapshotStoreError, match="the credentials in AWS_ACCESS_KEY_ID with"):
        SnapshotStore.open(s3.url)
    with pytest.raises(SettingError, match="the credentials in AZURE_STORAGE_CONNECTION_STRING"):
        SnapshotStore(azure.url)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_full_disk_keeps_what_was_there_and_leaves_nothing(file, monkeypatch):
    """The disk is a stand-in: expected the name of the file that is written first, and no byte."""
    parts: list[Path] = []

    def full(path: Path, data: bytes) -> None:
        path.touch()
        parts.append(path)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(file.url) as store:
        store.put(PATH, BODY)
        monkeypatch.setattr(stores, "write_private_file_like_folder", full)

        with pytest.raises(SnapshotStoreError) as caught:
            store.put(PATH, b"a new body")

        assert "No space left on device" in str(caught.value)
        assert "free some room, shorten SNAPSHOT_RETENTION_DAYS" in str(caught.value)
        assert store.get(PATH, HASH) == BODY
    assert file.names() == {PATH}
    (part,) = parts
    assert not part.exists()


def test_a_file_that_is_written_first_is_a_new_one(file, monkeypatch):
    """What another user put there is not followed."""
    monkeypatch.setattr(stores, "token_hex", lambda size: "known")
    thesis = file.root / "thesis"
    with opened(file.url) as store:
        store.put(PATH, BODY)
        thesis.write_text("x")
        (file.root / "2026/11/21/.8c1f.html.gz.known").symlink_to(thesis)

        with pytest.raises(SnapshotStoreError):
            store.put(PATH, b"a new body")

        assert store.get(PATH, HASH) == BODY
    assert thesis.read_text() == "x"


SMALL_FILES = """\
import resource, sys
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
store = SnapshotStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
import secrets
big, small = secrets.token_bytes(200_000), b"small"
paths = [f"2026/11/21/{n:04x}.bin.gz" for n in range(3)]
for error in store.put_many(list(zip(paths, [small, big, small]))):
    print(error)
"""


def test_limit_of_the_system_is_told_and_half_a_file_is_not_left(file):
    done = child(SMALL_FILES, file.url)
    first, second, third = done.stdout.splitlines()
    assert first == third == "None"
    assert "File too large" in second
    assert "free some room" in second
    assert file.names() == {"2026/11/21/0000.bin.gz", "2026/11/21/0002.bin.gz"}


class FullBucket(BaseHTTPRequestHandler):
    """Says what MinIO says when its disks are full; moto's never are."""

    protocol_version = "HTTP/1.1"  # a client asks first whether it may send

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = b"<Error><Code>XMinioStorageFull</Code><Message>No room.</Message></Error>"
        self.send_response(507)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *args: object) -> None:
        """Stay quiet."""


def test_full_bucket_is_told(s3, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), FullBucket) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
            with pytest.raises(SnapshotStoreError) as caught:
                SnapshotStore.open(s3.url)
        finally:
            server.shutdown()
            thread.join()
    assert "XMinioStorageFull" in str(caught.value)
    assert "free some room, shorten SNAPSHOT_RETENTION_DAYS" in str(caught.value)


@pytest.mark.parametrize(
    ("error", "meant"),
    [
        (TimeoutError(), Fault.SILENT),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), Fault.FULL),
        (OSError(errno.EROFS, "Read-only file system"), Fault.REFUSED),
        (ClientAuthenticationError("no credential was accepted"), Fault.REFUSED),
        (OSError(errno.EIO, "Input/output error"), Fault.OTHER),
        (RuntimeError("closed"), Fault.OTHER),
    ],
)
def test_errors_that_no_server_here_makes_are_told_apart(error, meant):
    assert file_store_fault(error) is meant


# Settings and secrets


def hides_secrets(error: BaseException, server: ObjectStore) -> None:
    for name, value in server.environment.items():
        if "KEY" in name or "CONNECTION" in name:
            secret = value.partition("AccountKey=")[2].partition(";")[0] or value
            assert secret not in str(error)


@pytest.mark.covers("M-48")
@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA123:h3mlig@bucket/prefix",
        "s3://AKIA123:h3m/lig@bucket/prefix",
        "s3://AKIA123%3Ah3mlig@bucket/prefix",
        "sftp://me:h3mlig@host/prefix",
        "file://me:h3mlig@/prefix",
        "abfs://container/prefix?sv=2026&sig=h3mlig",
        "abfs://container/prefix?h3mlig",
        "abfs://container/prefix#h3mlig",
        "abfs://container/AccountKey=h3mlig",
        "nonsense://me:h3mlig@host",
    ],
)
def test_secret_in_the_url_is_refused_and_not_repeated(url):
    with pytest.raises(SettingError) as caught:
        SnapshotStore(url)
    told = str(caught.value)
    assert "SNAPSHOT_STORE" in told
    assert "credentials belong in the environment" in told
    assert "h3m" not in told
    assert "AKIA" not in told


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("snapshots", "a folder's absolute path"),
        ("~/snapshots", "a folder's absolute path"),
        ("", "a folder's absolute path"),
        ("file://snapshots/here", "a folder's absolute path"),
        ("file:/snapshots", "a folder's absolute path"),
        ("simplecache::s3://bucket", "a folder's absolute path"),
        ("nonsense://bucket", "no driver of fsspec is called nonsense"),
        ("s3://", "name a bucket in it"),
        ("s3:///prefix\x1b[2J", "\\x1b"),
    ],
)
def test_what_is_no_store_is_told_by_its_setting(url, told):
    with pytest.raises((SettingError, SnapshotStoreError)) as caught:
        SnapshotStore.open(url, patience=30)
    assert "SNAPSHOT_STORE" in str(caught.value)
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("protocol", "module"), [("gs", "gcsfs"), ("s3", "s3fs"), ("abfs", "adlfs"), ("az", "adlfs")]
)
def test_missing_driver_is_told_by_its_package(protocol, module, monkeypatch):
    loaded: dict[str, type] = {}
    known = import_module("fsspec.registry")
    monkeypatch.setattr(known, "_registry", loaded)
    monkeypatch.setattr(known, "registry", loaded)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingError) as caught:
        SnapshotStore(f"{protocol}://bucket")
    assert f"SNAPSHOT_STORE is '{protocol}://bucket'" in str(caught.value)
    assert f"pip install '{module}" in str(caught.value)
    extra = {"s3fs": "s3", "adlfs": "azure"}.get(module)
    assert (f"script/setup {extra}" in str(caught.value)) == (extra is not None)
    paired = f"{module}=={import_module('fsspec').__version__}"
    assert (paired in str(caught.value)) == (module == "s3fs")


def test_account_in_an_azure_url_is_no_secret(azure, azure_server):
    """abfs://container@account.dfs.core.windows.net is how Azure itself writes it."""
    container = azure.url.split("/")[2]
    url = f"abfs://{container}@smartcrawl.dfs.core.windows.net/kept/here"
    with opened(url) as store:
        store.put(PATH, BODY)
    assert azure.names() == {PATH}


@pytest.mark.covers("M-48")
@pytest.mark.parametrize("name", ["s3", "azure"])
def test_configuration_of_fsspec_is_enough(request, name):
    """FSSPEC_S3_… and FSSPEC_ABFS_… name what a driver is given, and nothing else does."""
    place = request.getfixturevalue(name)
    given = os.environ
    environment = {k: v for k, v in given.items() if not k.startswith(("AWS_", "AZURE_"))}
    if name == "s3":
        environment["FSSPEC_S3_ENDPOINT_URL"] = given["AWS_ENDPOINT_URL_S3"]
        environment["FSSPEC_S3_KEY"] = given["AWS_ACCESS_KEY_ID"]
        environment["FSSPEC_S3_SECRET"] = given["AWS_SECRET_ACCESS_KEY"]
        environment["FSSPEC_S3_CONFIG_KWARGS"] = '{"read_timeout": 9}'
    else:
        environment["FSSPEC_ABFS_CONNECTION_STRING"] = given["AZURE_STORAGE_CONNECTION_STRING"]
        environment["FSSPEC_ABFS_READ_TIMEOUT"] = "9"

    child(OPEN, place.url, environment=environment)

    assert place.names() == {".smartcrawl"}


OPEN = """\
import sys
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
SnapshotStore.open(sys.argv[1])
"""


@pytest.mark.parametrize(("given", "seconds"), [(None, 15), ("9", 9)])
def test_azure_is_given_less_time_unless_it_is_configured(azure, monkeypatch, given, seconds):
    if given:
        monkeypatch.setitem(fsspec.config.conf, "abfs", {"read_timeout": int(given)})
    with opened(azure.url) as store:
        assert store._store._system.storage_options["read_timeout"] == seconds


class Refused(MemoryFileSystem):
    """A driver that connects at once, as that of SFTP does."""

    protocol = "refused"

    def __init__(self, **options: object) -> None:
        raise ConnectionRefusedError("nobody listens")


def test_store_that_does_not_run_is_no_wrong_setting():
    fsspec.register_implementation("refused", Refused, clobber=True)
    with pytest.raises(SnapshotStoreError) as caught:
        SnapshotStore("refused://host/folder")
    assert "cannot open refused://host/folder" in str(caught.value)
    assert "nobody listens" in str(caught.value)


def test_drivers_do_not_log_each_request(store, caplog):
    caplog.set_level(logging.INFO)
    store.put(PATH, BODY)
    store.get(PATH, HASH)
    assert not [r.name for r in caplog.records if r.name.split(".")[0] != "smartcrawl"]


# The process around it


def child(
    program: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; a process that does not end fails the test."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done


TWISTED = """\
import sys, hashlib
from twisted.internet import asyncioreactor
asyncioreactor.install()
from twisted.internet import reactor, threads
from smartcrawl.registry.commit.snapshot_store import SnapshotStore

body = b"body" * 1000
paths = [f"2026/11/21/{n:04x}.txt.gz" for n in range(20)]

def work(store):
    assert store.put_many([(path, body) for path in paths]) == [None] * 20
    for path in paths:
        assert store.get(path, hashlib.sha256(body).digest()) == body
    return store

def again(store):  # in the reactor's own thread: it waits, and does not lock
    work(store)
    print("done")

def begin():
    opening = threads.deferToThread(SnapshotStore.open, sys.argv[1])
    opening.addCallback(lambda store: threads.deferToThread(work, store))
    opening.addCallback(again)
    opening.addErrback(lambda failure: failure.printTraceback())
    opening.addBoth(lambda _: reactor.stop())

reactor.callWhenRunning(begin)
reactor.run()
"""


@pytest.mark.long(but=1)
def test_works_beside_the_reactor_and_lets_the_process_end(place):
    assert child(TWISTED, place.url).stdout == "done\n"


@pytest.mark.long
@pytest.mark.parametrize("name", ["s3", "azure"])
def test_store_that_hangs_does_not_keep_the_process(request, name, monkeypatch):
    request.getfixturevalue(name)
    with silent_server() as (port, _):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{port}")
        connection = (
            "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0;"
            f"BlobEndpoint=http://127.0.0.1:{port}/a"
        )
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection)
        url = {"s3": "s3", "azure": "abfs"}[name] + "://bucket"
        assert "no answer in 1 s" in child(HANGING, url).stdout


HANGING = """\
import sys
from smartcrawl.registry.commit.snapshot_store import SnapshotStore
store = SnapshotStore(sys.argv[1], patience=1)
print(store.put_many([("2026/11/21/8c1f.html.gz", b"body")])[0])
"""

FORK = """\
import os, sys, hashlib
from smartcrawl.registry.commit.snapshot_store import SnapshotStore

body = b"body"
first, second = "2026/11/21/0001.txt.gz", "2026/11/21/0002.txt.gz"
store = SnapshotStore.open(sys.argv[1])
store.put(first, body)
pid = os.fork()
if not pid:
    print(store.put_many([(second, b"")])[0], flush=True)  # the parent's: an error at once
    mine = SnapshotStore.open(sys.argv[1])
    mine.put(second, body)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(store.get(second, hashlib.sha256(body).digest()) == body)
"""


def test_process_that_was_forked_opens_a_store_of_its_own(place):
    told, same = child(FORK, place.url).stdout.splitlines()
    assert same == "True"
    if not isinstance(place, FolderPlace):
        assert "not fork-safe" in told


# Any other driver


@pytest.fixture
def memory() -> Iterator[str]:
    yield "memory://snapshots/here"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def test_driver_that_blocks_is_used_in_turn(memory):
    with opened(memory) as store:
        with pytest.raises(SnapshotStoreError, match="it is not there"):
            store.get(PATH, HASH)
        files = numbered(20)
        assert store.put_many(files) == [None] * 20
        assert sorted(MemoryFileSystem.store) == [f"/snapshots/here/{path}" for path, _ in files]
        for path, body in files:
            assert store.get(path, sha256(body)) == body
        with pytest.raises(SnapshotMissingError):
            store.get(PATH, HASH)
        assert store.remove_many([files[0][0], PATH]) == [None, None]
        assert len(MemoryFileSystem.store) == 19


class Plain(LocalFileSystem):
    """A driver that makes no folders by itself, as that of SFTP does not."""

    protocol = "plain"


def test_driver_that_makes_no_folders_is_helped(tmp_path):
    fsspec.register_implementation("plain", Plain, clobber=True)
    with opened(f"plain://{tmp_path}/below") as store:
        store.put(PATH, BODY)
        assert store.get(PATH, HASH) == BODY
    assert gzip.decompress((tmp_path / "below" / PATH).read_bytes()) == BODY


class Silent(MemoryFileSystem):
    """A driver that has a time limit of its own."""

    protocol = "silent"
    cachable = False
    asked: list[str] = []

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self.asked.append(path)
        raise TimeoutError("no answer")


def test_after_one_time_out_the_rest_of_a_batch_is_not_tried():
    fsspec.register_implementation("silent", Silent, clobber=True)
    with opened("silent://here") as store:
        errors = store.put_many(numbered(5))
    assert len(Silent.asked) == 1
    assert all("TimeoutError: no answer" in str(error) for error in errors)


STUCK = """\
import threading
import fsspec
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from smartcrawl.registry.commit.snapshot_store import SnapshotStore

class Stuck(MemoryFileSystem):
    protocol = "stuck"

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        threading.Event().wait()

fsspec.register_implementation("stuck", Stuck)
store = SnapshotStore("stuck://here", patience=0.3)
print(store.put_many([("2026/11/21/8c1f.html.gz", b"body")])[0])
"""


def test_driver_that_blocks_for_ever_does_not_keep_the_process():
    assert "no answer in 0.3 s" in child(STUCK).stdout


class Stuck(MemoryFileSystem):
    """A driver that blocks until it is let go, as one over a dead connection does."""

    protocol = "stuck"
    cachable = False
    store: dict[str, object] = {}
    pseudo_dirs = [""]
    go = threading.Event()
    asked: list[str] = []

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        self.asked.append(path)
        self.go.wait()


def test_driver_that_blocks_for_ever_is_given_up(monkeypatch):
    fsspec.register_implementation("stuck", Stuck, clobber=True)
    with opened("stuck://here", patience=0.3) as store:
        try:
            errors = store.put_many(numbered(5))
            again = store.put_many(numbered(5))
            assert len(Stuck.asked) == 1
        finally:
            Stuck.go.set()
        assert store.put_many(numbered(5)) == [None] * 5  # its turn has come
    for error in errors + again:
        assert "no answer in 0.3 s" in str(error)
