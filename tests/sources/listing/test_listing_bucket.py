"""Listings of real stores (moto's S3, Azurite) and of other drivers of fsspec."""

import os
import re
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote_to_bytes

import fsspec
import pytest
import s3fs
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from smartcrawl.model.exceptions import SettingError
from smartcrawl.rules.files import Check
from smartcrawl.sources.drivers import file_store_place
from smartcrawl.sources.listing import bucket
from smartcrawl.sources.listing.bucket import BucketListing
from smartcrawl.sources.listing.entries import BATCH, Entry, ListingRules, source_entry_check
from tests.sources.listing.conftest import forget_drivers

SECOND = 1_000_000_000  #: nanoseconds
NOON = 1_795_262_400 * SECOND  #: 2026-11-21 12:00 UTC
ALL = ListingRules(hidden=True)
#: Keys that every store has, as they are.
KEYS = ["a//b", "A/b", "a/b", "/", "/a", "a b", "%41", "ü", "a?b#c", "a/", "+", "a&b;c=d", "~x"]
#: Keys that Azure's own client cannot write.
S3_KEYS = ["../x", "..", "./y", "a/../b", "a/./b"]


def listed(url: str, rules: ListingRules = ALL, **options: Any) -> tuple[list[Entry], Any]:
    listing = BucketListing(url, rules=rules, **options)
    batches = list(listing.batches())
    assert all(0 < len(batch) <= BATCH for batch in batches)
    return [entry for batch in batches for entry in batch], listing


def keys_of(place, entries: list[Entry]) -> list[str]:
    return [file_store_place(entry.url).key for entry in entries]


# Keys and validators


@pytest.mark.covers("R0-22", "R0-43")
def test_every_key_is_an_object_of_its_own(place):
    """ATT-43: a key such as `../x` leads nowhere else."""
    keys = KEYS + (S3_KEYS if place.url.startswith("s3:") else ["new\nline"])
    etags = {key: place.put(key, key.encode()) for key in keys}

    entries, listing = listed(place.url)

    assert sorted(keys_of(place, entries)) == sorted(keys)
    assert len({entry.url for entry in entries}) == len(keys)
    for entry in entries:
        key = file_store_place(entry.url).key
        assert entry.url.startswith(f"{place.url}/")
        assert re.fullmatch(r"[A-Za-z0-9\-._~!$&'()*+,;=:@/%]+", entry.url)
        assert entry.size == len(key.encode())
        assert entry.validator.strip('"') == etags[key].strip('"')
        assert entry.modified_at is not None
    assert (listing.problems, listing.skipped) == ([], {})


def test_url_is_the_store_s_own_with_the_key_percent_encoded(s3):
    s3.put("a//ü b")
    ((entry,), _) = listed(s3.url)
    assert entry.url == f"s3://{s3.bucket}/a//%C3%BC%20b"


@pytest.mark.covers("R0-43", "R0-44")
def test_file_with_the_same_etag_is_skipped_and_another_one_read(place):
    place.put("a.md", b"one")
    place.put("b.md", b"two")
    before = {entry.url: entry for entry in listed(place.url)[0]}
    place.put("b.md", b"new")

    checks = {
        entry.url.rpartition("/")[2]: source_entry_check(
            before[entry.url].validator, before[entry.url].size, entry
        )
        for entry in listed(place.url)[0]
    }

    assert checks == {"a.md": Check.SKIP, "b.md": Check.READ}


def put_many(place, count: int) -> list[str]:
    keys = [f"docs/{n:05}.md" for n in range(count)]
    with ThreadPoolExecutor(4) as workers:
        list(workers.map(lambda key: place.put(key, b"x"), keys))
    return keys


@pytest.mark.long
@pytest.mark.covers("R0-43")
def test_thousand_keys_cost_one_request(s3, monkeypatch):
    keys = put_many(s3, 1_001)
    calls: list[str] = []
    real = s3fs.S3FileSystem._call_s3

    async def counted(self, method, *given, **more):
        calls.append(method)
        return await real(self, method, *given, **more)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", counted)
    batches = BucketListing(f"{s3.url}/docs", rules=ALL).batches()

    first = next(batches)
    assert (len(first), calls) == (BATCH, ["list_objects_v2"])  # streamed
    entries = first + [entry for batch in batches for entry in batch]

    assert keys_of(s3, entries) == keys
    assert calls == ["list_objects_v2"] * 2


def test_a_bucket_of_google_costs_one_request_for_each_page(google, monkeypatch):
    for key in "abcde":
        google.put(key)
    system = fsspec.get_filesystem_class("gs")
    real, asked = system._call, []

    async def seen(self, *given, **more):
        asked.append((more["maxResults"], more.get("pageToken") is not None))
        return await real(self, *given, **more)

    monkeypatch.setattr(system, "_call", seen)
    listed(google.url)
    assert asked == [(1_000, False)]
    monkeypatch.setattr(bucket, "_PAGE", 2)
    entries, listing = listed(google.url)
    assert keys_of(google, entries) == list("abcde")
    assert listing.problems == []
    assert asked[1:] == [(2, False), (2, True), (2, True)]


def test_containers_are_listed_page_by_page(azure, monkeypatch):
    """A page has 1,000 blobs; here 10, since Azurite takes 20 s to write a thousand."""
    monkeypatch.setattr(bucket, "_PAGE", 10)
    keys = put_many(azure, 21)
    files = bucket.open_file_store(file_store_place(azure.url))
    pages = list(files.pages("", lambda key: True, lambda key, error: None))
    assert [len(page) for page in pages] == [10, 10, 1]
    entries, listing = listed(azure.url)
    assert keys_of(azure, entries) == keys
    assert listing.problems == []


def test_second_pass_sees_what_was_added_and_removed(place):
    """A driver's cache of listings would not."""
    place.put("a.md")
    place.put("b.md")
    assert keys_of(place, listed(place.url)[0]) == ["a.md", "b.md"]
    place.delete("a.md")
    place.put("c.md")
    assert keys_of(place, listed(place.url)[0]) == ["b.md", "c.md"]


# Selection


@pytest.mark.parametrize("end", ["", "/"])
def test_only_keys_below_the_root_are_listed(place, end):
    for key in ("docs/a.md", "docs/x/b.md", "docs", "docs2/c.md", "other/docs/d.md"):
        place.put(key)
    place.put("docs/empty/", b"")
    place.put("docs/", b"")
    entries, listing = listed(f"{place.url}/docs{end}")
    assert keys_of(place, entries) == ["docs/a.md", "docs/x/b.md"]
    assert listing.skipped == {"not a name": 2}  # markers of folders


def test_rules_see_paths_below_the_root(place):
    for key in ("d/a.md", "d/b.txt", "d/drafts/c.md", "d/.h/e.md", "d/f.png"):
        place.put(key)
    rules = ListingRules(include=("**/*.md",), exclude=("drafts/",))
    entries, listing = listed(f"{place.url}/d", rules)
    assert keys_of(place, entries) == ["d/a.md"]
    assert listing.skipped == {
        "not included": 1, "excluded": 1, "hidden": 1, "type without text": 1
    }  # fmt: skip


def test_root_may_have_escapes(place):
    place.put("a b/50%/x.md")
    place.put("a%20b/50%25/y.md")
    entries, _ = listed(f"{place.url}/a%20b/50%25")
    assert keys_of(place, entries) == ["a b/50%/x.md"]
    assert entries[0].url == f"{place.url}/a%20b/50%25/x.md"


def test_empty_bucket_is_no_problem_here(place):
    entries, listing = listed(place.url)
    assert (entries, listing.problems) == ([], [])


def test_folder_of_a_data_lake_is_no_file(azure):
    azure.put("a.md")
    azure.container.upload_blob("folder", b"", metadata={"hdi_isfolder": "true"})
    entries, listing = listed(azure.url)
    assert keys_of(azure, entries) == ["a.md"]
    assert listing.skipped == {"not a name": 1}


@pytest.mark.covers("R0-22", "R0-77")
@pytest.mark.parametrize(
    ("start", "top"),
    [
        ("https://smartcrawl.blob.core.windows.net/{}", None),
        ("wasbs://{}@smartcrawl.blob.core.windows.net", None),
        ("abfss://{}@smartcrawl.dfs.core.windows.net", None),
        ("az://{}", None),
        (
            "HTTPS://SmartCrawl.Blob.Core.Windows.Net/{}",
            "https://smartcrawl.blob.core.windows.net/{}",
        ),
    ],
)
def test_container_has_the_url_that_names_it(azure, start, top):
    azure.put("docs/a b.md")
    entries, _ = listed(start.format(azure.bucket) + "/docs")
    assert [entry.url for entry in entries] == [
        (top or start).format(azure.bucket) + "/docs/a%20b.md"
    ]


# Stores that refuse or fail


def problem_of(url: str, **options: Any) -> str:
    entries, listing = listed(url, **options)
    (problem,) = listing.problems
    assert entries == []
    return problem


def test_missing_bucket_is_a_problem(place):
    place.put("a.md")
    place.vanish()
    problem = problem_of(f"{place.url}/docs")
    assert problem.startswith(f"{place.url}/docs/ (")
    assert problem.endswith("it is not there: create or mount it, or name another root)")


def test_wrong_credentials_are_a_problem_with_their_variables(azure, monkeypatch):
    connection = os.environ["AZURE_STORAGE_CONNECTION_STRING"]
    wrong = re.sub("AccountKey=[^;]+", "AccountKey=c2VjcmV0", connection)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    forget_drivers()
    problem = problem_of(azure.url)
    assert "check what the credentials in AZURE_STORAGE_CONNECTION_STRING, or " in problem
    assert "c2VjcmV0" not in problem


class Answers(BaseHTTPRequestHandler):
    """S3 as it refuses; moto knows neither rights to list nor regions."""

    answers: ClassVar[list[tuple[int, str]]] = []

    def do_GET(self) -> None:
        status, text = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        body = f'<?xml version="1.0"?>{text}'.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def answering(monkeypatch, *answers: tuple[int, str]) -> Iterator[None]:
    monkeypatch.setattr(Answers, "answers", list(answers))
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        forget_drivers()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()


def fault(code: str) -> str:
    return f"<Error><Code>{code}</Code><Message>no {code}</Message></Error>"


PAGE = (
    "<ListBucketResult><Name>b</Name><KeyCount>2</KeyCount><IsTruncated>true</IsTruncated>"
    "<NextContinuationToken>t</NextContinuationToken><Contents><Key>a.md</Key><Size>1</Size>"
    "</Contents><Contents><Key>b.md</Key><ETag>x</ETag><Size>2</Size></Contents></ListBucketResult>"
)


@pytest.mark.long(but=3)
@pytest.mark.parametrize(
    ("status", "code", "remedy"),
    [
        (403, "AccessDenied", "check what the credentials in AWS_ACCESS_KEY_ID with"),
        (403, "InvalidAccessKeyId", "check what the credentials in AWS_ACCESS_KEY_ID with"),
        (403, "SignatureDoesNotMatch", "check what the credentials in AWS_ACCESS_KEY_ID with"),
        (
            400,
            "AuthorizationHeaderMalformed",
            "name the region of the bucket in AWS_DEFAULT_REGION",
        ),
        (404, "NoSuchBucket", "it is not there: create or mount it, or name another root"),
    ],
)
def test_store_that_refuses_is_a_problem_with_its_remedy(s3, monkeypatch, status, code, remedy):
    with answering(monkeypatch, (status, fault(code))):
        problem = problem_of("s3://bucket/docs")
    assert problem.startswith("s3://bucket/docs/ (")
    assert f"no {code}" in problem or "NoSuchBucket" in code
    assert remedy in problem


def test_page_that_fails_is_a_problem_and_the_pages_before_are_listed(s3, monkeypatch):
    with answering(monkeypatch, (200, PAGE), (403, fault("AccessDenied"))):
        entries, listing = listed("s3://bucket")
    assert [entry.url for entry in entries] == ["s3://bucket/a.md", "s3://bucket/b.md"]
    assert [entry.validator for entry in entries] == [None, "x"]
    assert [entry.modified_at for entry in entries] == [None, None]
    (problem,) = listing.problems
    assert problem.startswith("s3://bucket/ (after 2 files: ")


@pytest.mark.parametrize("token", ["", "<NextContinuationToken></NextContinuationToken>"])
def test_page_without_the_way_to_the_next_is_a_problem(s3, monkeypatch, token: str):
    page = PAGE.replace("<NextContinuationToken>t</NextContinuationToken>", token)
    with answering(monkeypatch, (200, page)):
        entries, listing = listed("s3://bucket")
    assert len(entries) == 2
    assert len(listing.problems) == 1


@pytest.mark.parametrize("tokens", ["tt", "tut"], ids=["one token", "a circle"])
def test_store_that_repeats_a_page_ends_with_a_problem(s3, monkeypatch, tokens: str):
    pages = [(200, PAGE.replace(">t<", f">{token}<")) for token in tokens]
    with answering(monkeypatch, *pages):
        _, listing = listed("s3://bucket")
    assert listing.problems == [
        f"s3://bucket/ (after {2 * len(tokens)} files: ValueError: the store repeats a page, so"
        " that its listing does not end; check that it runs and can be reached from here, and that"
        " root names it)"
    ]


def test_store_that_is_silent_is_given_up(s3, monkeypatch):
    released = threading.Event()

    class Silent(Answers):
        def do_GET(self) -> None:
            released.wait(30)

    with ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")
        forget_drivers()
        problem = problem_of("s3://bucket", patience=0.5)
        released.set()
        server.shutdown()
        thread.join()
    assert problem == (
        "s3://bucket/ (no answer in 0.5 s; check that it runs and can be reached from here)"
    )


# URLs that are refused


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("/srv/docs", "write a URL like s3://bucket/folder"),
        ("s3://", "name a bucket or a host in it"),
        ("s3:///x", "name a bucket or a host in it"),
        ("https://example.com/docs", "crawl it as a site"),
        ("https://acc.blob.core.windows.net/", "names a container"),
        ("https://acc.blob.core.windows.net/c/a?sv=1&sig=hunter2", "environment of the driver"),
        ("s3://key:hunter2@bucket/a", "environment of the driver"),
        ("sftp://me:hunter2@host/a", "environment of the driver"),
        ("sftp://me@host/a", "name it in FSSPEC_SFTP_USERNAME"),
    ],
)
def test_root_that_names_no_store_or_has_secrets_is_refused(url, why):
    with pytest.raises(SettingError, match=why) as caught:
        BucketListing(url, rules=ALL)
    assert "hunter2" not in str(caught.value)
    assert str(caught.value).startswith("root is ")


def test_driver_that_is_missing_or_unknown_is_named(monkeypatch):
    known, loaded = import_module("fsspec.registry"), dict[str, type]()
    monkeypatch.setattr(known, "_registry", loaded)
    monkeypatch.setattr(known, "registry", loaded)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(SettingError, match=r"root is 'gs://bucket'.*pip install 'gcsfs'$"):
        listed("gs://bucket")
    with pytest.raises(SettingError, match="no driver of fsspec is called xyz"):
        listed("xyz://bucket")


def test_credentials_of_another_account_are_refused(azure):
    with pytest.raises(SettingError, match=r"root names the account other, and .* smartcrawl"):
        listed(f"https://other.blob.core.windows.net/{azure.bucket}")


# Other drivers


def test_driver_without_validators_is_listed_and_always_read(memory):
    for path in ("/bucket/d/a.md", "/bucket/d/x/y/b ü.md", "/bucket/e.md", "/bucket/d/.h/c.md"):
        memory.pipe_file(path, b"text")
    entries, listing = listed("memory://bucket/d", ListingRules(), now_ns=NOON * 2)
    assert sorted(entry[:3] for entry in entries) == [
        ("memory://bucket/d/a.md", 4, None),
        ("memory://bucket/d/x/y/b%20%C3%BC.md", 4, None),
    ]
    assert listing.problems == []
    assert listing.skipped == {"hidden": 1}


def test_folder_that_refuses_is_a_problem_and_all_else_is_listed(memory, monkeypatch):
    for path in ("/b/a/1.md", "/b/bad/2.md", "/b/c/3.md"):
        memory.pipe_file(path, b"text")
    real = MemoryFileSystem.ls

    def refusing(self, path, detail=True, **more):
        if path.endswith("bad"):
            raise PermissionError(13, "Permission denied")
        return real(self, path, detail, **more)

    monkeypatch.setattr(MemoryFileSystem, "ls", refusing)
    entries, listing = listed("memory://b")
    assert sorted(entry.url for entry in entries) == ["memory://b/a/1.md", "memory://b/c/3.md"]
    assert listing.problems == [
        "memory://b/bad (PermissionError: Permission denied; check what the"
        " credentials in what its driver reads may do there)"
    ]


def moving(memory, monkeypatch, *moves: tuple[str, str, str]) -> None:
    """Move a file before a folder is listed; of each (FOLDER, FROM, TO) once."""
    real, left = MemoryFileSystem.ls, list(moves)

    def ls(self: MemoryFileSystem, path: str, **more: Any) -> Any:
        if left and path.strip("/") == left[0][0]:
            _, old, new = left.pop(0)
            memory.mv(old, new, recursive=True)
        return real(self, path, **more)

    monkeypatch.setattr(MemoryFileSystem, "ls", ls)


@pytest.mark.covers("R0-43", "M-07")
def test_folder_of_a_store_renamed_before_its_turn_is_listed_by_its_new_name(memory, monkeypatch):
    for path in ("/b/m/in/2.md", "/b/m/3.md", "/b/z/1.md"):
        memory.pipe_file(path, b"text")
    moving(memory, monkeypatch, ("b/z", "/b/m", "/b/k"))
    entries, listing = listed("memory://b")
    assert sorted(keys for keys in keys_of(None, entries)) == ["k/3.md", "k/in/2.md", "z/1.md"]
    assert listing.problems == []
    assert listing.skipped == {"removed meanwhile": 1}


def test_folder_of_a_store_that_is_gone_twice_is_a_problem(memory, monkeypatch):
    for path in ("/b/m/2.md", "/b/z/1.md"):
        memory.pipe_file(path, b"text")
    moving(memory, monkeypatch, ("b/z", "/b/m", "/b/k"), ("b/k", "/b/k", "/b/m"))
    entries, listing = listed("memory://b")
    assert keys_of(None, entries) == ["z/1.md"]
    (problem,) = listing.problems
    assert problem.startswith("memory://b/k (")


@pytest.mark.covers("R0-43", "M-07")
def test_second_pass_over_a_store_names_what_moved_behind_the_first(memory, monkeypatch):
    """Nothing was gone that it named: the run has it made where it lacks stored files."""
    for path in ("/b/a/2.md", "/b/a/.h/3.md", "/b/z/1.md"):
        memory.pipe_file(path, b"text")
    moving(memory, monkeypatch, ("b/a", "/b/a/2.md", "/b/z/2.md"))
    entries, listing = listed("memory://b", ListingRules())
    assert keys_of(None, entries) == ["z/1.md"]
    assert listing.skipped == {"hidden": 1}

    again = [entry for batch in listing.again() for entry in batch]

    assert keys_of(None, again) == ["z/2.md"]
    assert (listing.problems, listing.skipped) == ([], {"hidden": 1})
    assert listing.again() is None, "once"


def test_root_that_is_away_is_a_problem(memory):
    memory.pipe_file("/b/a.md", b"x")
    problem = problem_of("memory://b/missing")
    assert problem.endswith("it is not there: create or mount it, or name another root)")


@pytest.mark.parametrize("name", ["/b/a/", "/b/a", "/b", "/other/x", "/b/a/x/y"])
def test_folder_within_itself_ends_the_listing_of_it(memory, monkeypatch, name):
    """Drivers of object stores give such names for keys like a//b."""
    memory.pipe_file("/b/a/1.md", b"x")
    real = MemoryFileSystem.ls

    def circular(self, path, detail=True, **more):
        found = real(self, path, detail, **more)
        if path.rstrip("/") == "/b/a":
            found = [*found, {"name": name, "size": 0, "type": "directory"}]
        return found

    monkeypatch.setattr(MemoryFileSystem, "ls", circular)
    entries, listing = listed("memory://b")
    assert [entry.url for entry in entries] == ["memory://b/a/1.md"]
    (problem,) = listing.problems
    assert problem.startswith("memory://b/a (ValueError: the driver listed ")


class Dated(LocalFileSystem):
    """A driver with dates and without ETags, like SFTP; on a real disk."""

    protocol = "dated"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return "/" + path.removeprefix("dated://").lstrip("/")


@pytest.mark.parametrize(
    ("age", "trusted"), [(2 * SECOND, True), (2 * SECOND - 1, False), (-SECOND, False)]
)
def test_date_is_the_validator_where_there_is_no_etag(fresh_drivers, tmp_path, age, trusted):
    fsspec.register_implementation("dated", Dated, clobber=True)
    path = Path(tmp_path, "a b#c?.md")
    path.write_bytes(b"text")
    os.utime(path, ns=(NOON, NOON))
    (tmp_path / "link.md").symlink_to("a b#c?.md")
    url = f"dated:/{tmp_path}"
    entries, _ = listed(url, now_ns=NOON + age)
    validator = "2026-11-21T12:00:00.000000000Z" if trusted else None
    assert entries[0][:4] == (f"{url}/a%20b%23c%3F.md", 4, validator, NOON // SECOND)
    assert listed(url)[0][0].validator is None


class Remembering(Dated):
    """A driver that answers from the listing that it has made before, as many do."""

    protocol = "remembering"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.replace("remembering://", "dated://"))

    def ls(self, path: str, detail: bool = True, **more: Any) -> Any:
        found = self.dircache.get(path)
        if found is None:
            found = self.dircache[path] = super().ls(path, detail=detail, **more)
        return found


def test_listing_that_a_driver_remembers_does_not_count(fresh_drivers, tmp_path):
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    url = f"remembering:/{tmp_path}"
    Path(tmp_path, "a.md").touch()
    assert [entry.url for entry in listed(url)[0]] == [f"{url}/a.md"]
    Path(tmp_path, "a.md").rename(tmp_path / "b.md")
    assert [entry.url for entry in listed(url)[0]] == [f"{url}/b.md"]


@pytest.mark.covers("R0-22")
@pytest.mark.parametrize("name", ["a//b", "../x", "%FF%FE/%C3%A4", "a%20b%3F%23%25", "", "/", "./"])
def test_a_key_comes_back_exact_as_its_address(name: str):
    for top in ("s3://b", "sftp://h.example:22", "wasbs://docs@acc.blob.core.windows.net"):
        place = file_store_place(f"{top}/{name}")
        assert place.key.encode(errors="surrogateescape") == unquote_to_bytes(name)
        assert place.url_of(place.key) == f"{top}/{name}"
