"""A foreign client, githubkit, reads out of the peer of the tests what the product reads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from typing import Any

import pytest
from githubkit import GitHub, Response
from githubkit.exception import PrimaryRateLimitExceeded, RequestFailed, SecondaryRateLimitExceeded

from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.sources.github.api import ApiError, GithubApi
from smartcrawl.sources.github.payloads import (
    CommitPayload,
    TreePayload,
    github_commit_of_answer,
    github_tree_of_answer,
)
from tests.github_peer import Answer, GithubPeer, Repository

TOKEN = "ghp_rechts"
PLACE = ("octo", "docs")


@pytest.fixture
def peer(tmp_path) -> Iterator[GithubPeer]:
    with GithubPeer(tmp_path) as peer:
        yield peer


@pytest.fixture
def docs(peer) -> Repository:
    docs = peer.repository("/".join(PLACE))
    for path in ("README.md", "guide/a b.md", "guide/deep/ü.md", "other/c.md"):
        docs.write(path, path)
    os.symlink("README.md", docs.work / "link.md")
    docs.submodule("vendor/lib")
    docs.commit()
    return docs


@contextmanager
def foreign(peer: GithubPeer, token: str | None = None) -> Iterator[GitHub]:
    more = {"http_cache": False, "auto_retry": False, "trust_env": False}
    with GitHub(token, base_url=peer.api, **more) as client:
        yield client


def their_commit(
    peer: GithubPeer,
    ref: str = "HEAD",
    *,
    token: str | None = None,
    name: str = "docs",
    etag: str | None = None,
) -> "Response[Any]":
    headers = {} if etag is None else {"If-None-Match": etag}
    with foreign(peer, token) as client:
        return client.rest.repos.get_commit("octo", name, ref, headers=headers)


def their_tree(peer: GithubPeer, sha: str, **words: str) -> Any:
    with foreign(peer) as client:
        return client.rest.git.get_tree(*PLACE, sha, **words).parsed_data


def ours(peer: GithubPeer, token: str | None = None) -> GithubApi:
    guard = ConnectionGuard([ip_network("127.0.0.0/8")])
    return GithubApi(peer.api, guard=guard, token=token, wait=lambda seconds: False)


def our_commit(peer: GithubPeer, ref: str = "HEAD", token: str | None = None) -> CommitPayload:
    answer = ours(peer, token).get(f"/repos/octo/docs/commits/{ref}", most=10**6)
    assert answer.status == 200
    return github_commit_of_answer(answer.body)


def our_tree(peer: GithubPeer, sha: str, query: str = "?recursive=1") -> TreePayload:
    answer = ours(peer).get(f"/repos/octo/docs/git/trees/{sha}{query}", most=10**6)
    assert answer.status == 200
    return github_tree_of_answer(answer.body)


def test_both_read_the_same_commit_by_any_name(peer, docs):
    docs.switch("release/2")
    docs.write("new.md", "new")
    sha = docs.commit("Say it better")
    for ref in ("HEAD", "main", "release/2", sha):
        theirs = their_commit(peer, ref).parsed_data
        found = our_commit(peer, ref)
        assert (theirs.sha, theirs.commit.tree.sha) == (found.sha, found.tree)
        assert (theirs.url, found.repository) == (f"{peer.api}/repos/octo/docs/commits/{found.sha}",
                                                  "octo/docs")  # fmt: skip
    assert theirs.commit.message == "Say it better"
    assert [parent.sha for parent in theirs.parents] == [docs.sha("main")]


@pytest.mark.parametrize("most", [100_000, 3], ids=["whole", "truncated"])
def test_both_read_the_same_tree(peer, docs, most):
    peer.most_items = most
    root = our_commit(peer).tree
    for sha in (root, docs.sha("HEAD:guide")):
        for words, query in (({"recursive": "1"}, "?recursive=1"), ({}, "")):
            theirs = their_tree(peer, sha, **words)
            found = our_tree(peer, sha, query)
            assert theirs.truncated is found.truncated
            assert (theirs.sha, sha) == (found.sha, found.sha)
            assert [
                (item.path, item.mode, item.type, item.sha, item.size or None)
                for item in theirs.tree
            ] == [(item.path, item.mode, item.type, item.sha, item.size) for item in found.tree]
            assert len(found.tree) <= most
    assert our_tree(peer, root).truncated is (most == 3)
    assert not our_tree(peer, docs.sha("HEAD:guide")).truncated


def refused(peer: GithubPeer, ref: str = "HEAD", **more: str | None) -> RequestFailed:
    """Return the error by which the foreign client refuses an answer."""
    with pytest.raises(RequestFailed) as caught:
        their_commit(peer, ref, **more)
    return caught.value


def test_both_are_refused_alike(peer, docs):
    docs.private = True
    peer.token = TOKEN
    for token, name, status in (
        (None, "docs", 404), (TOKEN, "none", 404), ("ghp_alt", "docs", 401),
    ):  # fmt: skip
        theirs = refused(peer, token=token, name=name).response
        found = ours(peer, token).get(f"/repos/octo/{name}/commits/HEAD", most=10**6)
        assert theirs.status_code == found.status == status
        assert theirs.json()["message"] == found.message != ""
    theirs = their_commit(peer, token=TOKEN).parsed_data
    assert theirs.sha == our_commit(peer, token=TOKEN).sha


def test_both_know_a_missing_ref_and_an_empty_repository(peer, docs):
    peer.repository("octo/empty")
    assert refused(peer, name="empty").response.status_code == 409
    theirs = refused(peer, "none").response
    found = ours(peer).get("/repos/octo/docs/commits/none", most=10**6)
    assert theirs.status_code == found.status == 422
    assert theirs.parsed_data.message == found.message


def test_both_take_a_spent_quota_for_one_and_wait_as_long(peer, docs):
    peer.quota, peer.reset_in = 0, 1_800
    theirs = refused(peer)
    assert isinstance(theirs, PrimaryRateLimitExceeded)
    assert 1_790 <= theirs.retry_after.total_seconds() <= 1_800
    with pytest.raises(ApiError, match="quota is spent until"):
        our_commit(peer)

    peer.quota = 9
    peer.intercept = lambda place, path: Answer(
        403,
        b'{"message": "You have exceeded a secondary rate limit", "documentation_url": "x"}',
        {"Retry-After": "70", "Content-Type": "application/json"},
    )
    theirs = refused(peer)
    assert isinstance(theirs, SecondaryRateLimitExceeded)
    assert theirs.retry_after.total_seconds() == 70
    with pytest.raises(ApiError, match="quota is spent until"):
        our_commit(peer)


def test_both_confirm_by_the_etag_and_follow_a_renaming(peer, docs):
    etag = their_commit(peer).headers["etag"]
    assert their_commit(peer, etag=etag).status_code == 304
    asked = ours(peer).get("/repos/octo/docs/commits/HEAD", most=10**6, etag=etag)
    assert asked.status == 304

    peer.rename("octo/docs", "octo/manual")
    theirs = their_commit(peer).parsed_data
    assert our_commit(peer).repository == "octo/manual"
    assert theirs.url == our_commit(peer).url
