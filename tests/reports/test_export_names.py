"""Names of exported files: they stay in their folder, on any file system, and differ."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.reports.export import (
    REST,
    address_section,
    export_folder_of_addresses,
    exported_file_name,
)

_URLS = st.builds(
    "{}://{}/{}".format,
    st.sampled_from(["http", "https", "file", "s3"]),
    st.sampled_from(["a.example", "CON", "com1.example", "[::1]:8000", "", "..", "ü.example"]),
    st.text(st.sampled_from("aAbß/.\\:_-?=&% \x00\n\u202e~*|<>\"'é%2e%2F"), max_size=300),
)


@given(_URLS)
def test_a_name_is_one_file_of_its_folder_on_any_file_system(url):
    for name in (exported_file_name(url), exported_file_name(url, told_apart=True)):
        assert len(name.encode()) <= 255
        assert name == name.casefold()
        assert re.fullmatch(r"[\w.-]+\.md", name)
        assert ".." not in name
        assert not name.startswith((".", "-"))
        assert name.partition(".")[0] not in {"con", "com1", "aux", "nul", "prn", "lpt1"}


@given(st.lists(_URLS, unique=True, min_size=2, max_size=20))
def test_names_that_are_told_apart_differ(urls):
    assert len({exported_file_name(url, told_apart=True) for url in urls}) == len(urls)


@pytest.mark.parametrize(
    "others",
    [
        ["https://a.example/A", "https://a.example/a"],
        ["https://a.example/a?b", "https://a.example/a-b"],
        ["https://a.example/%2e%2e/a", "https://a.example/./a"],
        [f"https://a.example/{'x' * 300}", f"https://a.example/{'x' * 301}"],
        ["https://a.example/é", "https://a.example/e\u0301"],
        ["https://a.example/a..b", "https://a.example/a.b"],
    ],
    ids=["case", "query", "dots", "long", "accents", "double dot"],
)
def test_addresses_that_are_nearly_equal_have_names_of_their_own(others):
    assert len({exported_file_name(url) for url in others}) == 2


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://a.example/", "a.example.md"),
        ("https://a.example/guide/my_page.html", "a.example_guide_my_page.html.md"),
        ("file:///srv/docs/a.md", "srv_docs_a.md.md"),
        ("s3://bucket/a/b.pdf", "bucket_a_b.pdf.md"),
    ],
)
def test_a_plain_address_has_a_readable_name(url, name):
    assert exported_file_name(url) == name


def test_letters_of_other_scripts_stay_readable():
    assert exported_file_name("https://a.example/%E6%97%A5").startswith("a.example_日-")


@pytest.mark.parametrize(
    ("urls", "common", "sections"),
    [
        ([], "", []),
        (["https://a.example/", "https://a.example/x/y"], "a.example/", [REST, "x"]),
        (["https://a.example/3/x", "https://a.example/30/y"], "a.example/", ["3", "30"]),
        (["https://a.example/3/x", "https://b.example/3/y"], "", ["a.example", "b.example"]),
        (["https://a.example/3/x", "https://a.example/3/lib%20a/y"], "a.example/3/",
         [REST, "lib a"]),
    ],
)  # fmt: skip
def test_sections_are_the_folders_below_the_common_one(urls, common, sections):
    assert export_folder_of_addresses(urls) == common
    assert [address_section(url, common) for url in urls] == sections
