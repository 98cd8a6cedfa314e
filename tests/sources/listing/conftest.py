"""Buckets and containers in real servers, as their own clients see them."""

import json
import os
import secrets
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import boto3
import fsspec
import httpx
import pytest
from adlfs import AzureBlobFileSystem
from azure.storage.blob import BlobServiceClient
from fsspec.implementations.memory import MemoryFileSystem
from s3fs import S3FileSystem

from tests.stores import ObjectStore


class S3Place:
    """A bucket of moto's server, as boto3 sees it."""

    def __init__(self) -> None:
        self.client = boto3.client("s3")
        self.bucket = f"b{secrets.token_hex(8)}"
        self.url = f"s3://{self.bucket}"
        self.client.create_bucket(Bucket=self.bucket)

    def put(self, key: str, data: bytes = b"text") -> str:
        """Write an object; return its ETag."""
        return self.client.put_object(Bucket=self.bucket, Key=key, Body=data)["ETag"]

    def archive(self, key: str, data: bytes) -> None:
        """Write an object that is not read at once."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data, StorageClass="GLACIER")

    def restore(self, key: str) -> None:
        self.client.restore_object(Bucket=self.bucket, Key=key, RestoreRequest={"Days": 1})

    def delete(self, key: str) -> None:
        self.client.delete_object(Bucket=self.bucket, Key=key)

    def vanish(self) -> None:
        for item in self.client.list_objects_v2(Bucket=self.bucket).get("Contents", []):
            self.delete(item["Key"])
        self.client.delete_bucket(Bucket=self.bucket)


class AzurePlace:
    """A container of Azurite, as azure-storage-blob sees it."""

    def __init__(self) -> None:
        connection = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
        name = f"c{secrets.token_hex(8)}"
        self.bucket = name
        self.url = f"abfs://{name}"
        self.container = BlobServiceClient.from_connection_string(connection).create_container(name)

    def put(self, key: str, data: bytes = b"text") -> str:
        return self.container.upload_blob(key, data, overwrite=True).get_blob_properties().etag

    def archive(self, key: str, data: bytes) -> None:
        """Write a blob that is not read at once."""
        self.put(key, data)
        self.container.get_blob_client(key).set_standard_blob_tier("Archive")

    def restore(self, key: str) -> None:
        self.container.get_blob_client(key).set_standard_blob_tier("Hot")

    def delete(self, key: str) -> None:
        self.container.delete_blob(key)

    def vanish(self) -> None:
        self.container.delete_container()


class GooglePlace:
    """A bucket of fake-gcs-server, as Google's JSON API has it."""

    def __init__(self) -> None:
        self.bucket = f"b{secrets.token_hex(8)}"
        self.url = f"gs://{self.bucket}"
        self._ask("POST", "storage/v1/b?project=smartcrawl", json.dumps({"name": self.bucket}))

    def put(self, key: str, data: bytes = b"text") -> str:
        place = f"upload/storage/v1/b/{self.bucket}/o?uploadType=media&name={quote(key, safe='')}"
        return str(self._ask("POST", place, data)["etag"])

    def delete(self, key: str) -> None:
        self._ask("DELETE", f"storage/v1/b/{self.bucket}/o/{quote(key, safe='')}")

    def vanish(self) -> None:
        for item in self._ask("GET", f"storage/v1/b/{self.bucket}/o").get("items", []):
            self.delete(item["name"])
        self._ask("DELETE", f"storage/v1/b/{self.bucket}")

    def _ask(self, method: str, place: str, body: bytes | str | None = None) -> dict[str, Any]:
        answer = httpx.request(
            method, f"{os.environ['STORAGE_EMULATOR_HOST']}/{place}", content=body, trust_env=False
        )
        answer.raise_for_status()
        return answer.json() if answer.content.startswith(b"{") else {}


@pytest.fixture
def fresh_drivers() -> Iterator[None]:
    """Let no test have the driver of another one, with its environment."""
    forget_drivers()
    yield
    forget_drivers()


@pytest.fixture
def memory(fresh_drivers: None) -> Iterator[MemoryFileSystem]:
    """The store in memory, which all tests of a process share; emptied afterwards."""
    system = MemoryFileSystem()
    yield system
    system.store.clear()
    system.pseudo_dirs[:] = [""]


def forget_drivers() -> None:
    """Forget the drivers that fsspec keeps by class, thread and options."""
    for driver in (AzureBlobFileSystem, S3FileSystem, fsspec.registry.get("gs")):
        if driver is not None:
            driver.clear_instance_cache()


def enter(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def s3(fresh_drivers, s3_server, monkeypatch) -> S3Place:
    enter(s3_server, monkeypatch)
    return S3Place()


@pytest.fixture
def azure(fresh_drivers, azure_server, monkeypatch) -> AzurePlace:
    enter(azure_server, monkeypatch)
    return AzurePlace()


@pytest.fixture
def google(fresh_drivers, google_server, monkeypatch) -> GooglePlace:
    enter(google_server, monkeypatch)
    return GooglePlace()


@pytest.fixture(params=["s3", "azure", "google"])
def place(request) -> S3Place | AzurePlace | GooglePlace:
    return request.getfixturevalue(request.param)
