"""Places with files: a folder, a bucket, a container, and a repository."""

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import boto3
import pytest
from azure.storage.blob import BlobServiceClient, ContainerClient

from tests.crawls.files import Folder, Place
from tests.github_peer import Answer, GithubPeer
from tests.stores import ObjectStore

PLACES = ("folder", "s3", "azure", "github")
_PREFIX = "docs"  #: of the keys below the root
#: Keys of one page. The stories have more files than that, so each listing has several pages.
_PAGE = {"PAGE": "4"}


class S3Bucket:
    """A prefix of a bucket of moto's server. Renamed is copied and deleted.

    The ETag is the MD5 of the bytes, which a new date does not change. A policy of the bucket
    refuses the reading of single keys; the listing names them still.
    """

    spider, argument = "files", "root"
    drivers = ("s3fs",)
    sees_stamps = False
    refusal = "lost"
    reason = "file status 403; check what the credentials in AWS_ACCESS_KEY_ID"

    def __init__(self, server: ObjectStore) -> None:
        own = server.environment
        self._bucket = f"b{secrets.token_hex(8)}"
        self._client: Any = boto3.client(
            "s3",
            endpoint_url=own["AWS_ENDPOINT_URL_S3"],
            region_name=own["AWS_DEFAULT_REGION"],
            aws_access_key_id=own["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=own["AWS_SECRET_ACCESS_KEY"],
        )
        self._client.create_bucket(Bucket=self._bucket)
        self._client.put_object(Bucket=self._bucket, Key=f"{_PREFIX}2/beside.md", Body=b"beside")
        self._refused: set[str] = set()
        self.root = f"s3://{self._bucket}/{_PREFIX}"
        self.environment: Mapping[str, str] = {**own, **_PAGE}

    def url(self, name: str) -> str:
        return f"{self.root}/{name}"

    def write(self, name: str, body: str | bytes) -> None:
        data = body if isinstance(body, bytes) else body.encode()
        self._client.put_object(Bucket=self._bucket, Key=_key(name), Body=data)

    def stamp(self, name: str) -> None:
        """Give a file another date."""
        self._copy(name, name, MetadataDirective="REPLACE")

    def rename(self, old: str, new: str) -> None:
        for name in self._names(old):
            self._copy(name, f"{new}{name.removeprefix(old)}")
            self.remove(name)

    def swap(self, one: str, other: str) -> None:
        _swap(self, one, other)

    def remove(self, name: str) -> None:
        self._client.delete_object(Bucket=self._bucket, Key=_key(name))

    def vanish(self) -> None:
        """Delete the bucket with all that is in it."""
        for item in self._client.list_objects_v2(Bucket=self._bucket)["Contents"]:
            self._client.delete_object(Bucket=self._bucket, Key=item["Key"])
        self._client.delete_bucket(Bucket=self._bucket)

    def refuse(self, name: str) -> None:
        self._refused.add(name)
        self._police()

    def permit(self, name: str) -> None:
        self._refused.remove(name)
        self._police()

    def _police(self) -> None:
        """Put the policy of the bucket in force."""
        if not self._refused:
            self._client.delete_bucket_policy(Bucket=self._bucket)
            return
        keys = [f"arn:aws:s3:::{self._bucket}/{_key(name)}" for name in sorted(self._refused)]
        denied = {"Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": keys}
        policy = json.dumps({"Version": "2012-10-17", "Statement": [denied]})
        self._client.put_bucket_policy(Bucket=self._bucket, Policy=policy)

    def _copy(self, old: str, new: str, **more: str) -> None:
        source = {"Bucket": self._bucket, "Key": _key(old)}
        self._client.copy_object(Bucket=self._bucket, Key=_key(new), CopySource=source, **more)

    def _names(self, start: str) -> list[str]:
        """Return the names of a file, or of those below a folder."""
        listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix=_key(start))
        return _below(start, [item["Key"] for item in listed["Contents"]])


class AzureContainer:
    """A prefix of a container of Azurite. Renamed is copied and deleted.

    Each write gives a blob another ETag. A blob in the tier Archive is listed and cannot be read
    (status 409) until it is in the tier Hot again, as in Azure itself.
    """

    spider, argument = "files", "root"
    drivers = ("adlfs", "azure.storage.blob.aio")
    sees_stamps = True
    refusal = "lost"
    reason = "file status 403; it is archived: restore it"

    def __init__(self, server: ObjectStore) -> None:
        own = server.environment
        container = f"c{secrets.token_hex(8)}"
        service = BlobServiceClient.from_connection_string(own["AZURE_STORAGE_CONNECTION_STRING"])
        self._client: ContainerClient = service.create_container(container)
        self._client.upload_blob(f"{_PREFIX}2/beside.md", b"beside")
        self.root = f"abfs://{container}/{_PREFIX}"
        self.environment: Mapping[str, str] = {**own, **_PAGE}

    def url(self, name: str) -> str:
        return f"{self.root}/{name}"

    def write(self, name: str, body: str | bytes) -> None:
        data = body if isinstance(body, bytes) else body.encode()
        self._client.upload_blob(_key(name), data, overwrite=True)

    def stamp(self, name: str) -> None:
        """Give a file other metadata, and so another ETag and date."""
        stamp = {"stamp": secrets.token_hex(8)}
        self._client.get_blob_client(_key(name)).set_blob_metadata(stamp)

    def rename(self, old: str, new: str) -> None:
        names = list(self._client.list_blob_names(name_starts_with=_key(old)))
        for name in _below(old, names):
            data = self._client.download_blob(_key(name)).readall()
            self.write(f"{new}{name.removeprefix(old)}", data)
            self.remove(name)

    def swap(self, one: str, other: str) -> None:
        _swap(self, one, other)

    def remove(self, name: str) -> None:
        self._client.delete_blob(_key(name))

    def refuse(self, name: str) -> None:
        self._client.get_blob_client(_key(name)).set_standard_blob_tier("Archive")

    def permit(self, name: str) -> None:
        self._client.get_blob_client(_key(name)).set_standard_blob_tier("Hot")


class RepositoryPlace:
    """A repository of the GitHub peer. Each change is a commit.

    Its validators are the SHAs of blobs, which no new date changes. A listed file is part of a
    commit, so that one that refuses is no evidence against its page: the run is incomplete.
    """

    spider, argument = "github", "url"
    drivers = ()
    sees_stamps = False
    refusal = "failed"
    reason = "HTTP status 403 for a file of the listed commit"

    def __init__(self, peer: GithubPeer) -> None:
        name = "octo/docs"
        self._docs = peer.repository(name)
        self._refused: set[str] = set()
        peer.intercept = self._answer
        self._pages = peer.web(f"{name}/blob/HEAD")
        self.root = peer.web(f"{name}/tree/HEAD")  # of which no wiki is a part
        self.environment: Mapping[str, str] = peer.settings | {"RETRY_TIMES": "0"}

    def url(self, name: str) -> str:
        return f"{self._pages}/{name}"

    def write(self, name: str, body: str | bytes) -> None:
        self._docs.write(name, body)
        self._docs.commit()

    def stamp(self, name: str) -> None:
        """Give a file another mode, and so another tree and commit."""
        path = self._docs.work / name
        path.chmod(path.stat().st_mode ^ 0o111)
        self._docs.commit()

    def rename(self, old: str, new: str) -> None:
        self._docs.move(old, new)
        self._docs.commit()

    def swap(self, one: str, other: str) -> None:
        _swap(self, one, other)

    def remove(self, name: str) -> None:
        self._docs.remove(name)
        self._docs.commit()

    def refuse(self, name: str) -> None:
        self._refused.add(name)

    def permit(self, name: str) -> None:
        self._refused.remove(name)

    def _answer(self, place: str, path: str) -> Answer | None:
        """Return the refusal of a raw file: /OWNER/REPO/SHA/NAME."""
        name = path.split("/", 4)[-1]
        return Answer(403) if place == "raw" and name in self._refused else None


@contextmanager
def opened_place(kind: str, request: pytest.FixtureRequest, folder: Path) -> Iterator[Place]:
    """Make an empty place of one of PLACES; what has no server of its own lies in ``folder``."""
    match kind:
        case "folder":
            yield Folder(folder / "tree")
        case "s3":
            yield S3Bucket(request.getfixturevalue("s3_server"))
        case "azure":
            yield AzureContainer(request.getfixturevalue("azure_server"))
        case "github":
            with GithubPeer(folder) as peer:
                yield RepositoryPlace(peer)
        case other:
            raise AssertionError(other)


def _swap(place: S3Bucket | AzureContainer | RepositoryPlace, one: str, other: str) -> None:
    aside = f"{one}.aside"
    place.rename(one, aside)
    place.rename(other, one)
    place.rename(aside, other)


def _key(name: str) -> str:
    return f"{_PREFIX}/{name}"


def _below(start: str, keys: list[str]) -> list[str]:
    """Return the names of a file, or of all files below a folder, among some keys."""
    names = [key.removeprefix(f"{_PREFIX}/") for key in keys]
    assert names, f"nothing begins with {start}"
    return [name for name in names if PurePosixPath(name).is_relative_to(start)]
