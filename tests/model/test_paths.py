"""Paths of files have one spelling each, and no secret in it (R0-20 to R0-23)."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smartcrawl.model.urls import normalize_path, normalize_url, url_partition_key


@pytest.mark.covers("R0-20", "R0-23")
@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/srv/docs/a.pdf", "file:///srv/docs/a.pdf"),
        ("/srv//docs///a/", "file:///srv/docs/a"),
        ("/srv/docs/./x/../A b.pdf", "file:///srv/docs/A%20b.pdf"),
        ("/../../etc", "file:///etc"),
        ("/", "file:///"),
        ("/100%/a?b#c", "file:///100%25/a%3Fb%23c"),
        ("/straße", "file:///stra%C3%9Fe"),
        ("/back\\slash", "file:///back%5Cslash"),
        ("/not-utf8-\udcff", "file:///not-utf8-%FF"),
        ("file:///srv//docs/a/", "file:///srv/docs/a"),
        ("s3://bucket/a//b/", "s3://bucket/a//b/"),
        ("sftp://host/a//b/", "sftp://host/a/b"),
        ("gs://bucket", "gs://bucket/"),
    ],
)
def test_a_posix_path_is_absolute_and_has_no_empty_parts(path: str, known: str):
    assert normalize_path(path) == known


@pytest.mark.covers("R0-21", "R0-23")
@pytest.mark.parametrize(
    ("path", "known"),
    [
        (r"C:\Docs\Sub\\Report.PDF", "file:///c:/docs/sub/report.pdf"),
        (r"c:/Docs\..\Other\ ".strip(), "file:///c:/other"),
        ("C:\\", "file:///c:/"),
        (r"\\?\C:\Long\Path.txt", "file:///c:/long/path.txt"),
        (r"\\NAS\Share\Dir\A B.txt", "file://nas/share/dir/a%20b.txt"),
        (r"\\NAS\Share", "file://nas/share"),
        (r"\\NAS\Share\\x\ ".strip(), "file://nas/share/x"),
        (r"\\?\UNC\NAS\Share\X", "file://nas/share/x"),
        (r"C:\50%\a#b", "file:///c:/50%25/a%23b"),
        ("file://NAS/Share/Dir/A%20B.txt", "file://nas/share/dir/a%20b.txt"),
        ("file:///C:/Docs/%C3%84.PDF", "file:///c:/docs/%C3%A4.pdf"),
    ],
)
def test_a_windows_path_has_its_drive_case_and_slashes_normalized(path: str, known: str):
    assert normalize_path(path) == known


@pytest.mark.covers("R0-22", "R0-77")
@pytest.mark.parametrize(
    ("url", "known"),
    [
        (
            "https://Acc.blob.core.windows.net/Docs//Dir/a.pdf?sv=2024-01-01&sig=secret",
            "https://acc.blob.core.windows.net/Docs//Dir/a.pdf",
        ),
        (
            "https://acc.blob.core.windows.net:443/docs/?sig=secret#secret",
            "https://acc.blob.core.windows.net/docs",
        ),
        (
            "https://me:secret@acc.file.core.windows.net/s/a",
            "https://acc.file.core.windows.net/s/a",
        ),
        (
            "https://acc.blob.core.windows.net/docs/a b",
            "https://acc.blob.core.windows.net/docs/a%20b",
        ),
        ("s3://key:secret@bucket/a", "s3://bucket/a"),
        (
            "abfss://Docs:secret@Acc.dfs.core.windows.net/Dir//a.pdf",
            "abfss://Docs@acc.dfs.core.windows.net/Dir//a.pdf",
        ),
        ("s3://bucket/%FF/a", "s3://bucket/%FF/a"),
    ],
)
def test_the_url_of_a_blob_keeps_container_and_path_and_no_secret(url: str, known: str):
    found = normalize_path(url)

    assert found == known
    assert "secret" not in found
    assert url_partition_key(found) != "", "it has a partition of its own (R0-09)"


@pytest.mark.covers("R0-20")
@pytest.mark.parametrize(
    ("path", "base", "known"),
    [
        ("a/b.txt", "/srv/docs/", "file:///srv/docs/a/b.txt"),
        ("../b.txt", "/srv/docs", "file:///srv/b.txt"),
        (r"Sub\B.TXT", r"C:\Docs", "file:///c:/docs/sub/b.txt"),
        (r"..\..\B.TXT", r"C:\Docs", "file:///c:/b.txt"),
        ("Sub/B.TXT", r"\\NAS\Share", "file://nas/share/sub/b.txt"),
        ("a/B", "s3://bucket/dir", "s3://bucket/dir/a/B"),
        ("a//B?", "s3://bucket/dir/", "s3://bucket/dir/a//B%3F"),
        ("/elsewhere", "/srv", "file:///elsewhere"),
        ("b.txt", "/not-utf8-\udcff", "file:///not-utf8-%FF/b.txt"),
    ],
)
def test_a_relative_path_starts_from_its_base(path: str, base: str, known: str):
    assert normalize_path(path, base) == known


@pytest.mark.parametrize(("path", "base"), [("a/b", ""), ("", "/srv"), ("C:a", "")])
def test_a_path_that_leads_nowhere_is_refused(path: str, base: str):
    with pytest.raises(ValueError, match="no absolute path"):
        normalize_path(path, base)


_PARTS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6))
_STARTS = st.sampled_from(
    [
        "/",
        "C:\\",
        "\\\\nas\\share\\",
        "s3://b/",
        "sftp://h/",
        "https://a.blob.core.windows.net/c/",
        "wasbs://c@a.blob.core.windows.net/",
        "file://NAS/Share/",
    ]
)


@pytest.mark.covers("R0-20", "R0-23")
@given(_STARTS, _PARTS)
@example("/", ["%41", "a:b", "~"])
@example("C:\\", ["İ", "ẞ"])
def test_a_second_call_changes_nothing(start: str, parts: list[str]):
    known = normalize_path(start + "/".join(parts))

    assert normalize_path(known) == known
    assert normalize_url(known) == known
    if known.startswith(("file:", "sftp:")):
        assert "//" not in known.partition("://")[2].removeprefix("/")
