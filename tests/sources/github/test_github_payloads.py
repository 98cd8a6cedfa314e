"""The API's answers, the entries of a tree, and pointers of Git LFS."""

import json

import pytest

from smartcrawl.sources.github.content import (
    github_blob_sha,
    github_listing_entries,
    is_github_lfs_pointer,
)
from smartcrawl.sources.github.payloads import (
    PayloadError,
    github_commit_of_answer,
    github_tree_of_answer,
)
from smartcrawl.sources.listing.entries import Entry, ListingRules, Skip

covers = pytest.mark.covers
A, B, C = "a" * 40, "b" * 40, "c" * 40
ROOT = "https://github.com/o/r/blob/main"


def item(path: str, mode: str = "100644", kind: str = "blob", size: int | None = 5, **more):
    found = {"path": path, "mode": mode, "type": kind, "sha": B, "url": "https://x.example/"}
    return found | ({} if size is None else {"size": size}) | more


def tree(*items, **more) -> bytes:
    return json.dumps(
        {"sha": A, "tree": list(items), "truncated": False, "url": ""} | more
    ).encode()


def entries(body: bytes, *, folder: str = "", prefix: str = "", **rules):
    items = github_tree_of_answer(body).tree
    root = f"{ROOT}/{folder}" if folder else ROOT
    return list(
        github_listing_entries(
            items, root=root, folder=folder, prefix=prefix, rules=ListingRules(**rules)
        )
    )


def test_a_commit_names_its_tree():
    url = f"https://api.github.com/repos/Octo/do.cs/commits/{A}"
    body = {"sha": A, "url": url, "commit": {"tree": {"sha": B, "url": ""}}, "parents": []}
    found = github_commit_of_answer(json.dumps(body).encode())
    assert (found.sha, found.tree, found.repository) == (A, B, "Octo/do.cs")
    body["url"] = "https://api.github.com/repos/../../commits/x"
    assert github_commit_of_answer(json.dumps(body).encode()).repository is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        json.dumps({"sha": A, "url": "", "commit": {}}).encode(),
        json.dumps({"sha": "main", "url": "", "commit": {"tree": {"sha": B}}}).encode(),
        json.dumps({"sha": f"{A}\n", "url": "", "commit": {"tree": {"sha": B}}}).encode(),
        json.dumps({"sha": A.upper(), "url": "", "commit": {"tree": {"sha": B}}}).encode(),
        json.dumps({"sha": 7, "url": "", "commit": {"tree": {"sha": B}}}).encode(),
    ],
)
def test_another_answer_is_no_commit(body):
    with pytest.raises(PayloadError, match="not as documented"):
        github_commit_of_answer(body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (tree(truncated="no"), "truncated"),
        (tree(item("a", mode="100600")), "mode '100600' is not one of a blob"),
        (tree(item("a", kind="tree")), "mode '100644' is not one of a tree"),
        (tree(item("a", size=None)), "a file has no size"),
        (tree(item("a", size=-1)), r"tree\.0\.size"),
        (tree(item("a", size="5")), r"tree\.0\.size"),
        (tree(item("a", sha="x")), r"tree\.0\.sha"),
        (json.dumps({"sha": A, "tree": []}).encode(), "truncated"),
    ],
)
def test_another_answer_is_no_tree(body, why):
    with pytest.raises(PayloadError, match=why):
        github_tree_of_answer(body)


@covers("R0-43", "R0-44", "R1-31")
def test_files_are_entries_whose_validator_is_the_sha_of_the_blob():
    found = entries(
        tree(
            item("README.md", size=7),
            item("docs", mode="040000", kind="tree", size=None),
            item("docs/a b ü#?.md", mode="100755", size=0, sha=C),
        )
    )
    assert found == [
        Entry(f"{ROOT}/README.md", 7, B, None),
        Entry(f"{ROOT}/docs/a%20b%20%C3%BC%23%3F.md", 0, C, None),
    ]


def test_symlinks_and_submodules_are_skipped_and_counted():
    found = entries(
        tree(
            item("link", mode="120000"),
            item("vendor/lib", mode="160000", kind="commit", size=None),
            item("a\N{REPLACEMENT CHARACTER}.md"),
            item("a.png"),
            item(".github/x.md"),
        )
    )
    assert found == [Skip.SYMLINK, Skip.SUBMODULE, Skip.NO_NAME, Skip.TYPE, Skip.HIDDEN]


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "a//x", "a/", "a\0b", "./a", "docs/../x"],
)
def test_a_name_that_no_address_can_have_is_left_out_and_all_others_go_on(name):
    found = entries(tree(item("a.md"), item(name), item("docs/b.md")))
    assert found == [
        Entry(f"{ROOT}/a.md", 5, B, None), Skip.NO_NAME, Entry(f"{ROOT}/docs/b.md", 5, B, None),
    ]  # fmt: skip
    assert entries(tree(item(name)), folder="docs", prefix="docs/") == [Skip.NO_NAME]


def test_a_name_may_have_control_characters():
    [found] = entries(tree(item("a\nb\x1b[31m\r\x7f.md")))
    assert isinstance(found, Entry)
    assert found.url == f"{ROOT}/a%0Ab%1B%5B31m%0D%7F.md"


def test_globs_are_relative_to_the_folder_and_other_folders_do_not_count():
    body = tree(item("docs/a.md"), item("docs/x/b.md"), item("docs2/c.md"), item("d.md"))
    found = entries(body, folder="docs", exclude=("x/",))
    assert found == [Entry(f"{ROOT}/docs/a.md", 5, B, None), Skip.EXCLUDED]


def test_the_tree_of_a_folder_gets_its_prefix_back():
    found = entries(tree(item("b.md")), folder="docs", prefix="docs/x/")
    assert [entry.url for entry in found] == [f"{ROOT}/docs/x/b.md"]


def test_a_place_may_be_a_single_file():
    found = entries(tree(item("docs/a.md"), item("docs/a.md.txt")), folder="docs/a.md")
    assert found == [Entry(f"{ROOT}/docs/a.md", 5, B, None)]


VERSION = b"version https://git-lfs.github.com/spec/v1\n"
POINTER = VERSION + b"oid sha256:" + b"4d7a" * 16 + b"\nsize 12345\n"


@pytest.mark.parametrize(
    ("body", "is_pointer"),
    [
        (POINTER, True),
        (POINTER.replace(b"\n", b"\r\n"), True),
        (VERSION + b"ext-0-foo sha256:" + b"0" * 64 + b"\n" + POINTER[len(VERSION) :], True),
        (POINTER.replace(b"git-lfs.github", b"hawser.github"), True),
        (b"", False),
        (VERSION, False),
        (b"# Pointers\n" + POINTER, False),
        (POINTER + b"\nThe file above is a pointer.\n", False),
        (POINTER.replace(b"sha256", b"md5"), False),
        (VERSION + b"a b\n" * 300 + POINTER[len(VERSION) :], False),
    ],
)
def test_a_pointer_of_lfs_is_known_by_its_whole_form(body, is_pointer):
    assert is_github_lfs_pointer(body) is is_pointer


@pytest.mark.parametrize(
    ("like", "sha"),
    [
        (None, "ce013625030ba8dba906f756967f9e9ca394464a"),
        (A, "ce013625030ba8dba906f756967f9e9ca394464a"),
        ("f" * 64, "2cf8d83d9ee29543b34a87727421fdecb7e3f3a183d337639025de576db9ebb4"),
    ],
)
def test_the_sha_of_a_body_is_that_of_git_in_either_format(like, sha):
    assert github_blob_sha(b"hello\n", like=like) == sha
