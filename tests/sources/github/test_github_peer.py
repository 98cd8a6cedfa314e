"""The peer of the tests answers as GitHub's own description of its API says."""

import json
import os
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from smartcrawl.sources.github.payloads import github_commit_of_answer, github_tree_of_answer
from tests.github_peer import GithubPeer, Repository

SCHEMAS = json.loads((Path(__file__).parents[2] / "data/github-openapi.json").read_text())
Answers = tuple[int, bytes, dict[str, str]]


@pytest.fixture
def peer(tmp_path) -> Iterator[GithubPeer]:
    with GithubPeer(tmp_path) as peer:
        yield peer


@pytest.fixture
def docs(peer) -> Repository:
    docs = peer.repository("octo/docs")
    docs.write("README.md", "# Docs\n")
    docs.write("guide/a b.md", "a")
    docs.write("guide/deep/c.md", "c")
    os.symlink("README.md", docs.work / "link.md")
    docs.submodule("vendor/lib")
    (docs.work / "run.sh").write_text("ls")
    (docs.work / "run.sh").chmod(0o755)
    return docs


def get(peer: GithubPeer, url: str, **headers: str) -> Answers:
    connection = HTTPConnection("127.0.0.1", int(peer.origin.rpartition(":")[2]))
    connection.request("GET", url.removeprefix(peer.origin), headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body, {name.lower(): value for name, value in answer.getheaders()}


def of_api(peer: GithubPeer, path: str, **headers: str) -> Answers:
    return get(peer, f"{peer.api}/repos/octo/docs/{path}", **headers)


def as_json_schema(schema: Any) -> Any:
    """Return a schema of OpenAPI 3.0 as one of JSON Schema: null is a type of its own."""
    if isinstance(schema, list):
        return [as_json_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: as_json_schema(value) for key, value in schema.items() if key != "nullable"}
    return {"anyOf": [found, {"type": "null"}]} if schema.get("nullable") is True else found


def check(body: bytes, name: str) -> None:
    jsonschema.Draft7Validator(as_json_schema(SCHEMAS[name])).validate(json.loads(body))


def test_commit_and_tree_have_the_documented_form(peer, docs):
    sha = docs.commit()
    status, body, headers = of_api(peer, "commits/HEAD")
    assert status == 200
    check(body, "commit")
    commit = github_commit_of_answer(body)
    assert (commit.sha, commit.tree) == (sha, docs.sha("HEAD^{tree}"))
    assert headers["x-ratelimit-remaining"] == "4999"

    status, body, _ = of_api(peer, f"git/trees/{commit.tree}?recursive=1")
    assert status == 200
    check(body, "tree")
    items = {item.path: (item.mode, item.size) for item in github_tree_of_answer(body).tree}
    assert items == {
        "README.md": ("100644", 7),
        "guide": ("040000", None),
        "guide/a b.md": ("100644", 1),
        "guide/deep": ("040000", None),
        "guide/deep/c.md": ("100644", 1),
        "link.md": ("120000", 9),
        "run.sh": ("100755", 2),
        "vendor": ("040000", None),
        "vendor/lib": ("160000", None),
    }
    _, body, _ = of_api(peer, f"git/trees/{commit.tree}")
    assert {item.path for item in github_tree_of_answer(body).tree} == {
        "README.md", "guide", "link.md", "run.sh", "vendor",
    }  # fmt: skip


def test_errors_have_documented_statuses_and_form(peer, docs):
    empty = of_api(peer, "commits/HEAD")
    docs.commit()
    answers = {
        409: empty,
        422: of_api(peer, "commits/none"),
        404: get(peer, f"{peer.api}/repos/octo/none/commits/HEAD"),
    }
    for status, (found, body, _) in answers.items():
        assert found == status
        assert status in SCHEMAS["commit_statuses"]
        check(body, "error")
    peer.token = "right"
    status, body, _ = of_api(peer, "commits/HEAD", Authorization="Bearer wrong")
    assert status == 401
    check(body, "error")
    docs.private = True
    assert of_api(peer, "commits/HEAD")[0] == 404
    assert of_api(peer, "commits/HEAD", Authorization="Bearer right")[0] == 200


def test_an_etag_that_still_fits_is_confirmed_and_costs_no_quota(peer, docs):
    docs.switch("release/2")
    docs.commit()
    _, body, headers = of_api(peer, "commits/release/2")
    left = peer.quota
    status, none, _ = of_api(peer, "commits/release/2", **{"If-None-Match": headers["etag"]})
    assert (status, none, peer.quota) == (304, b"", left)

    docs.commit("Say it better", amend=True)  # a push with force
    status, other, _ = of_api(peer, "commits/release/2", **{"If-None-Match": headers["etag"]})
    assert (status, peer.quota) == (200, left - 1)
    assert github_commit_of_answer(other).sha != github_commit_of_answer(body).sha
    assert github_commit_of_answer(other).tree == github_commit_of_answer(body).tree


def test_a_spent_quota_is_refused_with_its_headers(peer, docs):
    docs.commit()
    peer.quota = 0
    status, body, headers = of_api(peer, "commits/HEAD")
    check(body, "error")
    assert (status, headers["x-ratelimit-remaining"]) == (403, "0")
    assert int(headers["x-ratelimit-reset"]) > 1_700_000_000


def test_a_large_tree_is_truncated(peer, docs):
    docs.commit()
    peer.most_items = 2
    _, body, _ = of_api(peer, "git/trees/HEAD?recursive=1")
    check(body, "tree")
    assert github_tree_of_answer(body).truncated
    assert len(github_tree_of_answer(body).tree) == 2


def test_a_renamed_repository_is_redirected_by_its_number(peer, docs):
    docs.commit()
    peer.rename("octo/docs", "octo/manual")
    status, body, headers = of_api(peer, "commits/HEAD?per_page=1")
    check(body, "error")
    assert status == 301
    status, body, _ = get(peer, headers["location"])
    assert status == 200
    assert "/repos/octo/manual/commits/" in json.loads(body)["url"]


def test_raw_files_are_those_of_a_commit(peer, docs):
    old = docs.commit()
    docs.write("guide/a b.md", "b")
    new = docs.commit()
    url = f"{peer.raw}/octo/docs"
    assert get(peer, f"{url}/{old}/guide/a%20b.md")[:2] == (200, b"a")
    status, body, headers = get(peer, f"{url}/{new}/guide/a%20b.md")
    assert (status, body) == (200, b"b")
    asked = get(peer, f"{url}/{new}/guide/a%20b.md", **{"If-None-Match": headers["etag"]})
    assert asked[0] == 304
    assert get(peer, f"{url}/{new}/guide")[0] == get(peer, f"{url}/{new}/none")[0] == 404
    assert [asked.status for asked in peer.log] == [200, 200, 304, 404, 404]
