"""Paths of library items: names byte for byte, always below the folder of the source."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.model.library import SourceType
from smartcrawl.sources.sharepoint.paths import (
    LibraryPathError,
    get_expected_local_path,
    get_failed_local_path,
    get_original_local_path,
    path_of_sharepoint_map,
    sharepoint_map_path,
    sharepoint_name_of_page_file,
    sharepoint_path_excess,
    sharepoint_path_problem,
)

SITE = "/sites/demo"
DOCS = f"{SITE}/Shared Documents"
FILES, LISTS, PAGES = SourceType


def expected(relative):
    return get_expected_local_path("D", FILES, "s", f"{DOCS}/{relative}", DOCS)


@pytest.mark.covers("R3-47", "R3-48", "R3-49", "R3-56", "R3-57", "R3-58", "R3-140")
@pytest.mark.parametrize(
    ("kind", "library", "relative", "original", "embedded"),
    [
        (FILES, DOCS, "Reports/Q1.docx", "01_files/s/02_embedded/Reports/Q1.docx", None),
        (FILES, DOCS, "a/x.aspx", "01_files/s/02_embedded/a/x.aspx", None),
        (FILES, "/Docs", "x", "01_files/s/02_embedded/x", None),
        (
            LISTS, f"{SITE}/Lists/Tasks", "3",
            "02_lists/s/01_originals/s.csv", "02_lists/s/02_embedded/3.md",
        ),
        (LISTS, SITE, "Lists/T/3", "02_lists/s/01_originals/s.csv", "02_lists/s/02_embedded/3.md"),
        (
            PAGES, f"{SITE}/SitePages", "de/Home.aspx",
            "03_sitepages/s/01_originals/de/Home.html", "03_sitepages/s/02_embedded/de/Home.html",
        ),
    ],
)  # fmt: skip
def test_the_place_of_an_item(kind, library, relative, original, embedded):
    given = ("DOMAIN01", kind, "s", f"{library}/{relative}", library)

    assert get_original_local_path(*given) == f"DOMAIN01/{original}"
    assert get_expected_local_path(*given) == f"DOMAIN01/{embedded or original}"


REFUSED = [
    ("../x", "a part of its path is '..'"),
    ("a/../x", "a part of its path is '..'"),
    ("..", "a part of its path is '..'"),
    ("./x", "a part of its path is '.'"),
    ("/etc/passwd", "a part of its path is empty"),
    ("a//x", "a part of its path is empty"),
    ("a/", "a part of its path is empty"),
    ("", "a part of its path is empty"),
    ("a\0b", "its path has a NUL character"),
    ("a\\b", "its path has a backslash"),
    ("..\\x", "its path has a backslash"),
    ("\ud800", "its path is not valid Unicode"),
]


@pytest.mark.parametrize(("relative", "reason"), REFUSED)
def test_a_name_that_would_leave_the_folder_is_refused(relative, reason):
    assert sharepoint_path_problem(relative) == reason
    for function in (get_expected_local_path, get_original_local_path):
        with pytest.raises(LibraryPathError) as caught:
            function("D", FILES, "s", f"{DOCS}/{relative}", DOCS)
        assert str(caught.value) == reason


@pytest.mark.parametrize("url", [f"{SITE}/Other/x", DOCS, f"{DOCS}2/x", "x", ""])
def test_an_item_of_another_library_is_refused(url):
    with pytest.raises(LibraryPathError, match="it is not below /sites/demo/Shared Documents"):
        get_expected_local_path("D", FILES, "s", url, DOCS)


@pytest.mark.covers("R3-123", "R3-127", "R3-128")
@pytest.mark.parametrize(
    "relative",
    [
        "Grüße/😀 مرحبا.docx", "a'b & \"c\" #1 100%.txt", "...", "a..b", " x ", "x.", "a\nb",
        "%2e%2e",
        "-rf", "CON", "a:b", "e\u0301.md", "\u202egnp.md",
    ],
)  # fmt: skip
def test_a_name_stays_byte_for_byte(relative):
    assert expected(relative) == f"D/01_files/s/02_embedded/{relative}"


@pytest.mark.covers("R3-127")
def test_names_that_differ_in_case_or_normalization_stay_two():
    for one, other in (("A.md", "a.md"), ("é.md", "e\u0301.md"), ("a/x.md", "A/x.md")):
        assert unicodedata.normalize("NFC", one.lower()) == unicodedata.normalize(
            "NFC", other.lower()
        )
        assert expected(one) != expected(other)
    assert (
        len(
            {
                sharepoint_name_of_page_file(name)
                for name in ("a.aspx", "a.ASPX", "a.Aspx", "A.aspx")
            }
        )
        == 4
    )


@given(st.text(alphabet=st.sampled_from("ab./\\\0%\u00e9\ud800 "), max_size=12))
def test_no_name_leads_out_of_the_folder(relative):
    try:
        path = expected(relative)
    except LibraryPathError:
        assert sharepoint_path_problem(relative) is not None
        return
    root = "/srv/crawler/D/01_files/s/02_embedded"
    assert os.path.normpath(f"/srv/crawler/{path}") == f"{root}/{relative}"
    assert path_of_sharepoint_map(sharepoint_map_path(path)) == path
    assert "/" not in sharepoint_map_path(path)


@pytest.mark.covers("R3-54")
@pytest.mark.parametrize("text", ["", "/a", "a/b", "\\a", "a\\", "a\\\\b", "..", "a\\..\\b", "a\0"])
def test_a_path_of_a_map_that_nothing_wrote(text):
    assert path_of_sharepoint_map(text) is None


@pytest.mark.covers("R3-124")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("D/" + "a" * 255, None),
        ("D/" + "a" * 256 + "/x", "a name of its path has 256 bytes, and the system takes 255"),
        ("ü" * 127 + "a", None),
        ("ü" * 128, "a name of its path has 256 bytes, and the system takes 255"),
        ("a/" * 2039 + "bb", None),  # 4,095 bytes with "/srv/l/crawler/"
        ("a/" * 2039 + "ü", None),
        ("a/" * 2040 + "b", "its path on disk has 4,096 bytes, and the system takes 4,095"),
    ],
)
def test_paths_that_are_too_long(path, reason):
    assert sharepoint_path_excess(Path("/srv/l"), path) == reason


@pytest.mark.covers("R3-124")
def test_the_limits_are_those_of_this_system(tmp_path):
    assert os.pathconf(tmp_path, "PC_NAME_MAX") == 255
    assert os.pathconf(tmp_path, "PC_PATH_MAX") == 4096


@pytest.mark.covers("R3-48", "R3-124")
def test_the_note_about_an_item_that_failed():
    guid = "0f8fad5b-d9cb-469f-a165-70867728950e"
    assert get_failed_local_path("D", FILES, "s", guid) == f"D/01_files/s/03_failed/{guid}.txt"
    for wrong in ("../x", "a/b", "", "a" * 64):
        with pytest.raises(LibraryPathError, match="its unique id cannot be a name"):
            get_failed_local_path("D", FILES, "s", wrong)
