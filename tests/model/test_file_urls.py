"""Addresses of files in folders, buckets and on servers (R0-20 to R0-25, ADR 62)."""

import os

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartcrawl.model.file_urls import (
    azure_service_of_url,
    file_url_partition,
    normalize_file_url,
    path_of_file_url,
    url_item_kind,
    url_of_folder,
)
from smartcrawl.model.urls import (
    display_url,
    normalize_url,
    url_digest,
    url_host_key,
    url_item_id,
    url_partition_key,
)
from tests.tiers import examples

covers = pytest.mark.covers


@covers("R0-22", "R0-23")
def test_keys_of_a_bucket_are_opaque():
    """Slashes, case and dots are characters of a key like any other."""
    keys = ["a/b", "a//b", "A/b", "a/b/", "a/b//", "/a/b", "../a/b", "a/./b", "a/%2E/c/../b"]
    found = [normalize_url(f"s3://b/{key}") for key in keys]

    assert found[:-1] == [f"s3://b/{key}" for key in keys[:-1]]
    assert found[-1] == "s3://b/a/./c/../b"
    assert len({url_digest(url) for url in found}) == len(keys)


@covers("R0-20", "R0-22", "R0-23", "R0-77")
@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("s3://b/%7Ea", "s3://b/~a"),
        ("s3://b/a%2fb", "s3://b/a%2Fb"),
        ("s3://b/100%", "s3://b/100%25"),
        ("s3://b/ä b", "s3://b/%C3%A4%20b"),
        ("s3://b/a\nb\t", "s3://b/a%0Ab%09"),
        ("s3://b/\udcff%fe", "s3://b/%FF%FE"),
        ("S3://B", "s3://B/"),
        ("s3://b//", "s3://b//"),
        ("s3://key:secret@b/a@b?versionId=secret#secret", "s3://b/a@b"),
        ("s3://b/a#secret", "s3://b/a"),
        ("gs://b/what%3F%23", "gs://b/what%3F%23"),
        ("az://docs/a//b?sv=1&sig=secret", "az://docs/a//b"),
        (
            "ABFSS://Docs:secret@Acc.dfs.core.windows.net/A//b/?sig=secret",
            "abfss://Docs@acc.dfs.core.windows.net/A//b/",
        ),
        ("abfs://docs/a", "abfs://docs/a"),
        ("sftp://me:secret@Host.example:22//srv/./a//x/../B/", "sftp://host.example:22/srv/a/B"),
        ("sftp://[2001:DB8::1]/a", "sftp://[2001:db8::1]/a"),
        ("ftp://h/..//a", "ftp://h/a"),
        ("s3:///a", "s3:///a"),
        (
            "https://me:secret@Acc.blob.core.windows.net:443/Docs/A//b//?sv=1&sig=secret",
            "https://acc.blob.core.windows.net/Docs/A//b//",
        ),
        ("https://acc.blob.core.windows.net/docs/a/", "https://acc.blob.core.windows.net/docs/a/"),
        ("https://acc.blob.core.windows.net/docs/", "https://acc.blob.core.windows.net/docs"),
        ("https://acc.blob.core.windows.net//", "https://acc.blob.core.windows.net/"),
    ],
)
def test_address_of_a_store_has_one_spelling_without_secrets(url, normal):
    assert normalize_url(url) == normal
    assert normalize_url(normal) == normal
    assert "secret" not in normal


@pytest.mark.parametrize("url", ["s3://b/\ud800", "s3:/b/a", "see s3://b/a", "3://b/a", "://b/a"])
def test_text_that_is_no_address_of_a_file_stays(url):
    assert normalize_url(url) == url


@covers("R0-20", "R0-21", "R0-23")
@pytest.mark.parametrize(
    ("path", "url"),
    [
        (b"/srv/docs/a.md", "file:///srv/docs/a.md"),
        (b"/srv//docs/./x/../a b/", "file:///srv/docs/a%20b"),
        ("/srv/ä\udcff", "file:///srv/%C3%A4%FF"),
        (b"/srv/\xe4", "file:///srv/%E4"),
        ("/100%/a?b#c", "file:///100%25/a%3Fb%23c"),
        ("/a\\b\n\x1b|", "file:///a%5Cb%0A%1B%7C"),
        ("/", "file:///"),
        ("/c:/Docs", "file:///c%3A/Docs"),
        ("/C:", "file:///C%3A"),
        ("/C|/Docs", "file:///C%7C/Docs"),
        (r"C:\Docs\\A b%41", "file:///c:/docs/a%20b%2541"),
        (r"\\NAS\Share\A b", "file://nas/share/a%20b"),
    ],
)
def test_folder_has_one_canonical_url(path, url):
    assert url_of_folder(path) == url
    assert normalize_url(url) == url


@covers("R0-20")
@pytest.mark.parametrize("path", ["", "a", "./a", b"a/b", "C:a", "/a\0b"])
def test_path_that_is_relative_or_has_a_nul_is_refused(path):
    with pytest.raises(ValueError, match=r"no absolute path|NUL"):
        url_of_folder(path)


NAMES = st.binary(min_size=1, max_size=12).map(
    lambda name: name.replace(b"/", b"").replace(b"\0", b"")
)
#: Absolute paths as the operating system names them.
PATHS = st.lists(NAMES.filter(lambda name: name not in (b"", b".", b"..")), max_size=5).map(
    lambda names: b"/" + b"/".join(names)
)


@covers("R0-20", "R0-23")
@settings(max_examples=examples(500), deadline=None)
@given(PATHS)
@example(b"/c:/Docs")
@example(b"/C|/x")
@example(b"/%2e%2e/%41?#~")
@example(b"/\xff\xfe/\xc3\xa4")
@example(b"/" + b"x" * 4095)
def test_names_are_bytes_and_come_back_exact(path):
    url = url_of_folder(path)

    assert url.isascii()
    assert url.isprintable()
    assert path_of_file_url(url) == path
    assert url_of_folder(os.fsdecode(path)) == url
    assert normalize_url(url) == url


@covers("R0-20")
@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///srv/docs/", b"/srv/docs"),
        ("file:///srv/../etc/%70asswd", b"/etc/passwd"),
        ("file://localhost/srv", b"/srv"),
        ("FILE:///srv", b"/srv"),
        ("file:///C:/Docs", b"c:/docs"),
        ("file:///srv/a%2Fb", None),
        ("file:///srv/a%00b", None),
        ("file:///srv/a?b", None),
        ("file:///\ud800", None),
        ("file://nas/share", None),
        ("s3://b/a", None),
        ("https://example.com/", None),
        ("/srv", None),
    ],
)
def test_path_of_a_url_is_that_of_a_file_of_this_machine(url, path):
    assert path_of_file_url(url) == path


@covers("R0-22", "R0-24", "R0-25")
@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("file:///srv/docs/a.md", "file"),
        (r"C:\Docs\a.md", "file"),
        ("s3://bucket/a//b", "file"),
        ("sftp://host/a", "file"),
        ("https://acc.blob.core.windows.net/docs/a.pdf", "file"),
        ("http://acc.file.core.windows.net:80/docs/a.pdf?snapshot=1", "file"),
        ("https://acc.blob.core.windows.net.example/docs/a.pdf", "url"),
        ("https://a.b.blob.core.windows.net/docs/a.pdf", "url"),
        ("https://example.com/acc.blob.core.windows.net/docs", "url"),
        ("https://github.com/o/r/blob/main/a.md", "url"),
        ("https://github.com/o/r/wiki", "url"),
        ("http://[::1]:8000/", "url"),
        ("not a URL", "url"),
        ("mailto:me@example.com", "url"),
    ],
)
def test_type_of_an_item_is_decided_by_its_address(url, kind):
    normal = normalize_url(url)

    assert url_item_kind(normal) == kind
    assert url_item_id(url_item_kind(normal), url_digest(normal)).startswith(f"{kind}_")


@covers("R0-08", "R0-09", "R0-81")
@pytest.mark.parametrize(
    ("url", "host", "scheme"),
    [
        ("file:///srv/docs/a.md", "file", "file"),
        ("file:///c:/a", "file", "file"),
        ("file://nas/share/a", "nas", "file"),
        ("s3://Bucket/a", "Bucket", "s3"),
        ("gs://b/a", "b", "gs"),
        ("s3:///a", "s3", "s3"),
        ("az://docs/a", "docs", "blob"),
        ("abfss://docs@acc.dfs.core.windows.net/a@b", "acc/docs", "blob"),
        ("wasbs://docs@acc.blob.core.windows.net/a", "acc/docs", "blob"),
        ("sftp://host:2222/a", "host:2222", "sftp"),
    ],
)
def test_file_has_a_place_instead_of_a_host(url, host, scheme):
    assert url_host_key(url) == url_partition_key(url) == host
    assert url_partition_key(url, "scheme") == file_url_partition(url) == scheme


@covers("R0-09", "R0-22")
def test_blob_with_a_web_address_keeps_its_host_and_is_parted_by_container():
    blob = "https://acc.blob.core.windows.net/docs?snapshot=1"
    share = "https://acc.file.core.windows.net/docs/a"

    assert url_host_key(blob) == "acc.blob.core.windows.net"
    assert [url_partition_key(url) for url in (blob, share)] == ["acc/docs", "acc/docs"]
    assert [url_partition_key(url, "scheme") for url in (blob, share)] == ["blob", "share"]
    assert [azure_service_of_url(url) for url in (blob, share)] == ["blob", "share"]


@covers("R0-19", "R0-20")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("file:///srv/me/a%20b.md", "/srv/me/a b.md"),
        ("file:///", "/"),
        ("file:///srv/%C3%A4%FF", r"/srv/ä\xff"),
        ("file:///srv/%0A%1B%5B2J", r"/srv/\n\x1b[2J"),
        ("file:///srv/%E2%80%AE", r"/srv/\u202e"),
        ("file:///c%3A/Docs", "/c:/Docs"),
        ("file:///c:/docs/a%20b", r"c:\docs\a b"),
        ("file://nas/share/a", r"\\nas\share\a"),
        ("s3://bucket/a%20b%3F", "s3://bucket/a b?"),
        ("s3://bucket/%0D", r"s3://bucket/\r"),
        ("abfss://docs@acc.dfs.core.windows.net/%C3%A4", "abfss://docs@acc.dfs.core.windows.net/ä"),
        ("https://acc.blob.core.windows.net/a%20b", "https://acc.blob.core.windows.net/a%20b"),
    ],
)
def test_file_is_displayed_as_people_know_it(url, shown):
    assert display_url(url) == shown


# fmt: off
ODD = st.sampled_from([
    "%", "%%", "%4", "%zz", "%41", "%2f", "%7e", "%25", "%2e%2E", "%C3%a4", "%ff", " ", "ä", "/",
    "//", "..", ".", "a", "B", "~", "@", "\\", "?", "#", ":", "|", "\n", "\udcff", "\ud800", "[",
])
# fmt: on
STORED = st.builds(
    lambda scheme, user, host, tail: f"{scheme}://{user}{host}/{tail}",
    st.sampled_from(["s3", "S3", "gs", "abfss", "az", "sftp", "ftp", "other", "file"]),
    st.sampled_from(["", "", "me@", "me:p@", "c@d@"]),
    st.sampled_from(["b", "B", "h.example:22", "[::1]", "[x y", "a%7eb", "İ", "", "a.dfs.example"]),
    st.lists(ODD, max_size=8).map("".join),
)


@covers("R0-22", "R0-23", "R2-69")
@settings(max_examples=examples(1000), deadline=None)
@given(STORED)
def test_second_call_changes_nothing(url):
    normal = normalize_url(url)

    assert normalize_url(normal) == normal
    assert url_host_key(normal)
    assert display_url(normal)
    if normal != url:
        assert normalize_file_url(normal) == normal
        assert normal.isascii()
        assert url_item_kind(normal) == "file"
