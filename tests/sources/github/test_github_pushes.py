"""The files of a push, as the addresses of pages."""

from typing import Any

import pytest

from smartcrawl.sources.github.pushes import MOST_FILES, Push, pushed_page_urls, read_push
from smartcrawl.sources.github.source import repository_address

FRONT = "https://github.com/octo/docs"


def event(**changed: Any) -> dict[str, Any]:
    commits = [
        {"added": ["a.md"], "modified": ["b.md"], "removed": []},
        {"added": [], "modified": ["b.md"], "removed": ["docs/c d.md"]},
    ]
    repository = {"full_name": "Octo/Docs", "default_branch": "main"}
    return {"ref": "refs/heads/main", "repository": repository, "commits": commits} | changed


def test_a_push_has_each_file_that_it_added_changed_or_removed():
    assert read_push(event()) == Push("Octo/Docs", "main", "main", ("a.md", "b.md", "docs/c d.md"))


@pytest.mark.parametrize(
    "changed",
    [
        {"commits": []},
        {"forced": True},
        {"commits": [{"added": [str(n) for n in range(MOST_FILES + 1)]}]},
        {"commits": [{"added": ["a"]}] * 2_048},
    ],
)
def test_of_a_push_that_does_not_name_all_files_none_is_known(changed: dict[str, Any]):
    push = read_push(event(**changed))

    assert push.files is None
    assert pushed_page_urls(repository_address(FRONT), push) is None


@pytest.mark.parametrize(
    "payload",
    [
        None,
        [],
        {},
        event(ref=5),
        event(commits=5),
        event(commits=[5]),
        event(commits=[{"added": [5]}]),
        event(commits=[{"added": [{}]}]),
        event(repository={"full_name": "a/b"}),
    ],
)
def test_what_is_no_push_is_refused(payload: Any):
    with pytest.raises(ValueError, match="no push event"):
        read_push(payload)


@pytest.mark.parametrize(
    ("place", "branch", "pages"),
    [
        ("", "main", ["HEAD/a.md", "HEAD/b.md", "HEAD/docs/c%20d.md"]),
        ("", "other", []),
        ("", "", []),
        ("/tree/main", "main", ["main/a.md", "main/b.md", "main/docs/c%20d.md"]),
        ("/tree/main/docs", "main", ["main/docs/c%20d.md"]),
        ("/tree/main/doc", "main", []),
        ("/tree/HEAD/docs", "main", ["HEAD/docs/c%20d.md"]),
        ("/blob/main/a.md", "main", ["main/a.md"]),
        ("/tree/main", "other", []),
        ("/tree/release/2/docs", "release/2", ["release/2/docs/c%20d.md"]),
        ("/tree/release/2/docs", "release", []),
        ("/tree/mainly", "main", []),
    ],
)
def test_the_branch_and_the_folder_of_the_source_count(place: str, branch: str, pages: list[str]):
    push = read_push(event(ref=f"refs/heads/{branch}" if branch else "refs/tags/main"))

    found = pushed_page_urls(repository_address(FRONT + place), push)

    assert found == [f"{FRONT}/blob/{page}" for page in pages]


def test_another_repository_and_a_path_that_leads_out_change_nothing():
    push = read_push(event(commits=[{"added": ["../a.md", "a//b.md", "ok.md"]}]))

    assert pushed_page_urls(repository_address("https://github.com/octo/docs2"), push) == []
    assert pushed_page_urls(repository_address(FRONT), push) == [f"{FRONT}/blob/HEAD/ok.md"]
