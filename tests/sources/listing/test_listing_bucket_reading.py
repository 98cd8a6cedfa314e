"""Reading from real stores: one state of a file, with its ETag, or an error that says why not."""

import json
import os
import re
import secrets
import tracemalloc
from pathlib import Path

import fsspec
import pytest
from adlfs import AzureBlobFileSystem
from s3fs import S3FileSystem

from smartcrawl.model.exceptions import (
    ChangedWhileReadError,
    FileTooLargeError,
    SettingError,
    StoreAwayError,
)
from smartcrawl.sources.drivers import file_store_place
from smartcrawl.sources.listing.bucket import BucketListing
from smartcrawl.sources.listing.entries import ListingRules
from smartcrawl.sources.listing.reading import read_bucket_file
from tests.sources.listing.conftest import forget_drivers
from tests.sources.listing.test_listing_bucket import KEYS, NOON, S3_KEYS, Dated, answering, fault

MOST = 10_000_000
ALL = ListingRules(hidden=True)


def entries_of(url: str, **options):
    return [
        entry for batch in BucketListing(url, rules=ALL, **options).batches() for entry in batch
    ]


@pytest.mark.covers("R0-43")
def test_every_key_is_read_by_the_url_of_its_entry(place):
    keys = KEYS + (S3_KEYS if place.url.startswith("s3:") else ["new\nline"])
    for key in keys:
        place.put(key, key.encode())

    for entry in entries_of(place.url):
        body = read_bucket_file(entry.url, most=MOST, etag=entry.validator)
        assert body.data == file_store_place(entry.url).key.encode()
        assert body[1:] == (entry.size, entry.validator, entry.modified_at)


@pytest.mark.parametrize("size", [0, 1, 9_000_000])
def test_body_comes_back_byte_for_byte(place, size):
    data = secrets.token_bytes(size)
    place.put("a.dat", data)
    (entry,) = entries_of(place.url)
    assert read_bucket_file(entry.url, most=size, etag=entry.validator).data == data


@pytest.mark.covers("R0-43")
def test_file_that_changed_since_the_listing_is_read_as_it_is(place):
    place.put("a.md", b"one")
    (old,) = entries_of(place.url)
    place.put("a.md", b"other")
    (new,) = entries_of(place.url)

    body = read_bucket_file(old.url, most=MOST, etag=old.validator)

    assert (body.data, body.validator) == (b"other", new.validator)
    assert new.validator != old.validator


@pytest.mark.parametrize("place", ["s3", "azure"], indirect=True)
def test_listed_state_is_what_is_asked_for(place, monkeypatch):
    """The request has If-Match: a store that ignored it would give a mixture to a slow reader."""
    place.put("a.md", b"one")
    (entry,) = entries_of(place.url)
    asked = []
    if place.url.startswith("s3:"):
        real = S3FileSystem._call_s3

        async def seen(self, method, *given, **more):
            asked.append(more.get("IfMatch"))
            return await real(self, method, *given, **more)

        monkeypatch.setattr(S3FileSystem, "_call_s3", seen)
    else:
        client = type(AzureBlobFileSystem().service_client.get_container_client("c"))
        real = client.download_blob

        async def seen(self, *given, **more):
            asked.append(more.get("etag"))
            return await real(self, *given, **more)

        monkeypatch.setattr(client, "download_blob", seen)
    read_bucket_file(entry.url, most=MOST, etag=entry.validator)
    read_bucket_file(entry.url, most=MOST)
    assert asked == [entry.validator, None]


def test_body_is_that_of_the_object_that_was_described(google, monkeypatch):
    """Google is asked twice. A new body between the answers is read by the second try."""
    google.put("a.md", b"one")
    (entry,) = entries_of(google.url)
    system = fsspec.get_filesystem_class("gs")
    real, asked = system._call, []

    async def seen(self, *given, **more):
        asked.append(more.get("ifGenerationMatch"))
        if asked == [None, asked[-1]]:
            google.put("a.md", b"other")
        return await real(self, *given, **more)

    monkeypatch.setattr(system, "_call", seen)
    body = read_bucket_file(entry.url, most=MOST, etag=entry.validator)

    assert body.data == b"other"
    assert body.validator == entries_of(google.url)[0].validator != entry.validator
    assert asked[0] is None
    assert asked[1] is not None


def test_file_that_changes_each_time_is_given_up(azure, monkeypatch):
    """Azure sends a long body in parts, each on condition that it is still the same."""
    data = secrets.token_bytes(33 * 1024 * 1024)  # more than the first part
    azure.put("a.dat", data)
    client = type(AzureBlobFileSystem().service_client.get_container_client("c"))
    real, count = client.download_blob, []

    async def changing(self, *given, **more):
        stream = await real(self, *given, **more)
        count.append(1)
        azure.put("a.dat", data + b"x" * len(count))
        return stream

    monkeypatch.setattr(client, "download_blob", changing)
    (entry,) = entries_of(azure.url)
    with pytest.raises(ChangedWhileReadError, match=re.escape(f"{entry.url} changed while")):
        read_bucket_file(entry.url, most=len(data) + 9, etag=entry.validator)
    assert len(count) == 2


def test_file_that_is_too_large_is_not_read(place):
    place.put("a.dat", bytes(9_000_000))
    (entry,) = entries_of(place.url)
    assert len(read_bucket_file(entry.url, most=9_000_000).data) == 9_000_000
    tracemalloc.start()
    with pytest.raises(FileTooLargeError) as caught:
        read_bucket_file(entry.url, most=100, etag=entry.validator)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.size == 9_000_000
    assert f"{entry.url} has 9000000 bytes, and at most 100 are read" in str(caught.value)
    if place.url.startswith("s3:"):
        assert peak < 3_000_000


# Files and stores that are missing, refuse or fail


def test_missing_file_is_missing_and_a_missing_store_says_nothing_about_it(place):
    place.put("a.md")
    with pytest.raises(FileNotFoundError, match=re.escape(f"{place.url}/b.md")):
        read_bucket_file(f"{place.url}/b.md", most=MOST)
    with pytest.raises(FileNotFoundError):
        read_bucket_file(f"{place.url}/b.md", most=MOST, etag='"x"')
    place.vanish()
    with pytest.raises(StoreAwayError, match="it is not there: create or mount it"):
        read_bucket_file(f"{place.url}/a.md", most=MOST)


def test_file_that_refuses_is_refused(s3):
    s3.put("a.md")
    denied = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": f"arn:aws:s3:::{s3.bucket}/a.md",
    }
    policy = {"Version": "2012-10-17", "Statement": [denied]}
    s3.client.put_bucket_policy(Bucket=s3.bucket, Policy=json.dumps(policy))
    with pytest.raises(PermissionError, match="check what the credentials in AWS_ACCESS") as caught:
        read_bucket_file(f"{s3.url}/a.md", most=MOST)
    assert caught.value.filename == f"{s3.url}/a.md"


@pytest.mark.parametrize("place", ["s3", "azure"], indirect=True)
def test_archived_file_refuses_until_it_is_restored(place):
    """The store and its other files are fine, so that no store is away."""
    place.archive("a.md", b"text")

    with pytest.raises(PermissionError, match="it is archived: restore it to a storage class"):
        read_bucket_file(f"{place.url}/a.md", most=MOST)

    (entry,) = entries_of(place.url)
    place.restore("a.md")
    assert read_bucket_file(entry.url, most=MOST, etag=entry.validator).data == b"text"


def test_wrong_credentials_refuse(azure, monkeypatch):
    azure.put("a.md")
    connection = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    wrong = re.sub("AccountKey=[^;]+", "AccountKey=c2VjcmV0", connection)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    forget_drivers()
    with pytest.raises(PermissionError, match="AZURE_STORAGE_CONNECTION_STRING, or"):
        read_bucket_file(f"{azure.url}/a.md", most=MOST)


@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (301, "PermanentRedirect", "name the region of the bucket in AWS_DEFAULT_REGION"),
        (501, "NotImplemented", "check that it runs and can be reached from here, and that root"),
    ],
)
def test_store_that_fails_is_away(s3, monkeypatch, status, code, remedy):
    with (
        answering(monkeypatch, (status, fault(code))),
        pytest.raises(StoreAwayError, match=remedy) as caught,
    ):
        read_bucket_file("s3://bucket/a.md", most=MOST)
    assert str(caught.value).startswith("cannot read s3://bucket/a.md (")


def test_store_that_cannot_be_reached_is_away(s3, monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    forget_drivers()
    with pytest.raises(StoreAwayError, match="can be reached from here"):
        read_bucket_file("s3://bucket/a.md", most=9, patience=1)


def test_url_with_secrets_is_refused_without_naming_them():
    with pytest.raises(SettingError) as caught:
        read_bucket_file("s3://key:hunter2@bucket/a", most=MOST)
    assert "hunter2" not in str(caught.value)


# Other drivers


@pytest.fixture
def dated(fresh_drivers, tmp_path) -> Path:
    fsspec.register_implementation("dated", Dated, clobber=True)
    path = tmp_path / "a b#c?.md"
    path.write_bytes(b"text")
    os.utime(path, ns=(NOON, NOON))
    return path


def test_date_that_the_listing_trusted_is_the_validator(dated):
    url = f"dated:/{dated.parent}"
    (entry,) = entries_of(url, now_ns=NOON * 2)
    (racy,) = entries_of(url, now_ns=NOON)
    body = read_bucket_file(entry.url, most=MOST, etag=entry.validator)
    assert body == (b"text", 4, entry.validator, NOON // 10**9)
    assert entry.validator is not None
    assert read_bucket_file(entry.url, most=MOST, etag=racy.validator).validator is None
    os.utime(dated, ns=(NOON + 10**9, NOON + 10**9))
    assert read_bucket_file(entry.url, most=MOST, etag=entry.validator).validator is None


@pytest.mark.parametrize("data", [b"", b"x" * 10])
def test_driver_without_validators_reads(memory, data):
    memory.pipe_file("/b/x/a.md", data)
    assert read_bucket_file("memory://b/x/a.md", most=10).data == data
    if data:
        with pytest.raises(FileTooLargeError):
            read_bucket_file("memory://b/x/a.md", most=9)
    for path in ("b/x/b.md", "b/x"):
        with pytest.raises(FileNotFoundError):
            read_bucket_file(f"memory://{path}", most=10)


def change(path: Path, n: int) -> None:
    path.write_bytes(b"x" * (4 + n))


def change_date(path: Path, n: int) -> None:
    os.utime(path, ns=(NOON + n * 10**9, NOON + n * 10**9))


@pytest.mark.parametrize("how", [change, change_date])
@pytest.mark.parametrize("times", [1, 2])
def test_other_driver_is_asked_before_and_after(dated, monkeypatch, how, times):
    real, count = Dated.cat_file, []

    def changing(self, *given, **more):
        data = real(self, *given, **more)
        if len(count) < times:
            count.append(1)
            how(dated, len(count))
        return data

    monkeypatch.setattr(Dated, "cat_file", changing)
    url = f"dated:/{dated.parent}/a%20b%23c%3F.md"
    if times == 2:
        with pytest.raises(ChangedWhileReadError):
            read_bucket_file(url, most=MOST)
    else:
        assert read_bucket_file(url, most=MOST).data == dated.read_bytes()
