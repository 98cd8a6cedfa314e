"""The addresses of a library, and when stored decisions about them are void."""

from dataclasses import replace
from pathlib import Path

import pytest

from smartcrawl.model.library import SourceType
from smartcrawl.sources.sharepoint.source import LibraryScope, SharepointSource

HOST = "https://contoso.sharepoint.com"
ROOT = f"{HOST}/sites/a%20b/Shared%20Documents"
FILES = LibraryScope(HOST, "/sites/a b/Shared Documents", SourceType.FILES)
PAGES = LibraryScope(HOST, "/sites/a/SitePages", SourceType.SITEPAGES)
TASKS = LibraryScope(HOST, "/sites/a", SourceType.LISTS, "Tasks")


@pytest.mark.covers("R3-74")
@pytest.mark.parametrize(
    ("scope", "url", "reason"),
    [
        (FILES, f"{ROOT}/Q1.docx", None),
        (FILES, f"{ROOT}/a/b%23%25/Q1.DOCX", None),
        (FILES, f"{ROOT}/Q1.xlsx", "files of type .xlsx are not embedded"),
        (FILES, f"{ROOT}/LICENSE", "files without a type are not embedded"),
        (FILES, f"{ROOT}/.md", "files without a type are not embedded"),
        (FILES, f"{ROOT}/a/../x.md", "a part of its path is '..'"),
        (FILES, f"{ROOT}/a%5Cx.md", "its path has a backslash"),
        (FILES, f"{ROOT}/a%00x.md", "its path has a NUL character"),
        (FILES, f"{ROOT}/a%FFx.md", "its path is not valid Unicode"),
        (FILES, ROOT, f"it is not below {ROOT}"),
        (FILES, f"{ROOT}2/Q1.docx", f"it is not below {ROOT}"),
        (FILES, f"{ROOT}/Q1.docx?web=1", f"it is not below {ROOT}"),
        (FILES, f"{ROOT}/Q1.docx#a", f"it is not below {ROOT}"),
        (FILES, f"{HOST}.evil.example/sites/a%20b/Shared%20Documents/Q1.docx", "it is not below"),
        (PAGES, f"{HOST}/sites/a/SitePages/Home.aspx", None),
        (PAGES, f"{HOST}/sites/a/SitePages/Home.md", "files without a type are not embedded"),
        (TASKS, f"{HOST}/sites/a/Lists/My%20Tasks/DispForm.aspx?ID=31", None),
        (TASKS, f"{HOST}/sites/a/Lists/Tasks/DispForm.aspx?ID=31#a", "it is not below"),
        (TASKS, f"{HOST}/sites/a/Lists/Tasks/DispForm.aspx?ID=0", "it is not below"),
        (TASKS, f"{HOST}/sites/a/Lists/Tasks/DispForm.aspx", "it is not below"),
        (TASKS, f"{HOST}/sites/a/Lists/..%2FDispForm.aspx/DispForm.aspx?ID=3", "a part of its"),
        (
            TASKS,
            f"{HOST}/sites/b/Lists/Tasks/DispForm.aspx?ID=3",
            f"it is not below {HOST}/sites/a",
        ),
    ],
)
def test_the_addresses_of_a_library(scope, url, reason):
    found = scope.refusal(url)

    assert found == reason or (reason is not None and found.startswith(reason))
    assert scope.allows(url) is (reason is None)
    assert scope.holds(url) is (found is None or not found.startswith("it is not below"))


def test_a_library_is_at_one_host_and_stays_there():
    assert FILES.hosts == {"contoso.sharepoint.com"}
    assert replace(FILES, origin="http://127.0.0.1:8080").hosts == {"127.0.0.1:8080"}
    assert FILES.domains == frozenset()
    assert FILES.addresses is None
    assert FILES.linked is FILES.with_sitemaps_of({"a"}) is FILES
    assert FILES.moved_to("https://www.contoso.sharepoint.com/") is None


def test_the_fingerprint_depends_on_all_that_decides():
    others = [
        FILES,
        replace(FILES, origin="https://other.sharepoint.com"),
        replace(FILES, library_path="/sites/a b/Other"),
        replace(FILES, source_type=SourceType.SITEPAGES),
        replace(FILES, list_name="Tasks"),
        replace(FILES, filter="a eq 1"),
        replace(FILES, accepted=("md",)),
    ]
    assert len({scope.fingerprint() for scope in others}) == len(others)
    assert {len(scope.fingerprint()) for scope in others} == {16}
    assert replace(FILES).fingerprint() == FILES.fingerprint()
    assert replace(FILES, accepted=FILES.accepted[::-1]).fingerprint() == FILES.fingerprint()


@pytest.mark.parametrize(
    ("site", "part", "start", "path", "url"),
    [
        (f"{HOST}/sites/a%20b", "/Shared Documents", ROOT, "/sites/a b/Shared Documents", ROOT),
        (HOST, "/100%", f"{HOST}/100%25", "/100%", f"{HOST}/100%25"),
        (f"{HOST}/sites/a", "", f"{HOST}/sites/a", "/sites/a", f"{HOST}/sites/a/Lists/T"),
        (HOST, "", f"{HOST}/", "", f"{HOST}/Lists/T"),
    ],
)
def test_a_source_makes_its_scope(site, part, start, path, url):
    kind = SourceType.FILES if part else SourceType.LISTS
    source = SharepointSource(
        name="D.s", domain="D", source_id="s", source_type=kind, site_url=site, url_part=part,
        list_name="" if part else "T", filter="x", storage=Path("/srv"),
    )  # fmt: skip

    assert source.starts == (start,)
    assert (source.library_path, source.origin, source.host) == (path, HOST, HOST[8:])
    scope = source.scope
    assert (scope.origin, scope.library_path, scope.source_type) == (HOST, path, kind)
    assert (scope.list_name, scope.filter) == (source.list_name, "x")
    item = f"{url}/3.md" if part else f"{url}/DispForm.aspx?ID=3"
    assert scope.allows(item)
    assert source.lists(item)
