"""Listings of repositories over HTTP: commits, trees, quotas, renamings and refusals."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from smartcrawl.model.exceptions import SettingError
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.sources.github.api import GithubApi, github_quota_wait, github_token
from smartcrawl.sources.github.listing import ListedCommit, RepositoryListing
from smartcrawl.sources.github.source import repository_address
from smartcrawl.sources.listing.entries import ListingRules, Skip
from tests.github_peer import Answer, GithubPeer, Repository

covers = pytest.mark.covers
LOOPBACK = ConnectionGuard([ip_network("127.0.0.0/8")])
WEB = "https://github.com/octo/docs"


@pytest.fixture
def peer(tmp_path) -> Iterator[GithubPeer]:
    with GithubPeer(tmp_path) as peer:
        yield peer


@pytest.fixture
def docs(peer) -> Repository:
    docs = peer.repository("octo/docs")
    for path in ("README.md", "guide/a.md", "guide/deep/b.md", "other/c.md"):
        docs.write(path, path)
    docs.commit()
    return docs


def api_of(peer: GithubPeer, waits: Callable[[float], bool] | None = None, **more: Any):
    more = {"guard": LOOPBACK, "timeout": 5} | more
    return GithubApi(peer.api, wait=waits or (lambda seconds: False), **more)


def listing(peer: GithubPeer, rest: str = "", known: ListedCommit | None = None, **more: Any):
    rules = more.pop("rules", ListingRules())
    address = repository_address(WEB + rest)
    return RepositoryListing(address, api=api_of(peer, **more), rules=rules, known=known)


def paths(found: RepositoryListing) -> list[str]:
    urls = [entry.url for batch in found.batches() for entry in batch]
    assert all(url.startswith(f"{WEB}/blob/") for url in urls)
    return [url.removeprefix(f"{WEB}/blob/") for url in urls]


@covers("R1-31", "R0-43")
def test_the_files_are_those_of_the_commit(peer, docs):
    os.symlink("README.md", docs.work / "link.md")
    docs.submodule("vendor")
    sha = docs.commit()
    found = listing(peer)
    assert paths(found) == [
        "HEAD/README.md", "HEAD/guide/a.md", "HEAD/guide/deep/b.md", "HEAD/other/c.md",
    ]  # fmt: skip
    assert found.skipped == {Skip.SYMLINK: 1, Skip.SUBMODULE: 1}
    assert found.problems == found.notes == []
    assert found.commit is not None
    assert found.commit[:4] == ("octo/docs", "HEAD", "", sha)
    assert len(peer.log) == 2


@covers("R0-43", "R0-44")
def test_an_unchanged_commit_costs_one_request(peer, docs):
    first = listing(peer)
    paths(first)
    known = ListedCommit.loads(first.commit.dumps())
    peer.log.clear()
    again = listing(peer, known=known)
    assert paths(again) == []
    assert again.is_unchanged
    assert peer.asked("api") == [(304, "/repos/octo/docs/commits/HEAD?per_page=1")]

    other = listing(peer, known=known._replace(etag='W/"of another token"'))
    assert paths(other) == []
    assert other.is_unchanged
    assert other.commit == known
    assert [status for status, _ in peer.asked("api")] == [304, 200]


def test_a_push_with_force_is_another_tree(peer, docs):
    first = listing(peer)
    paths(first)
    docs.remove("other")
    docs.commit(amend=True)
    again = listing(peer, known=first.commit)
    assert paths(again) == ["HEAD/README.md", "HEAD/guide/a.md", "HEAD/guide/deep/b.md"]
    assert not again.is_unchanged


def test_a_ref_with_slashes_is_found_and_remembered(peer, docs):
    docs.switch("release/2")
    docs.write("guide/new.md", "new")
    docs.commit()
    found = listing(peer, "/tree/release/2/guide")
    assert paths(found) == [
        "release/2/guide/a.md", "release/2/guide/deep/b.md", "release/2/guide/new.md",
    ]  # fmt: skip
    assert found.commit is not None
    assert (found.commit.ref, found.commit.folder) == ("release/2", "guide")
    assert [status for status, _ in peer.asked("api")] == [422, 200, 200]
    peer.log.clear()
    again = listing(peer, "/tree/release/2/guide", known=found.commit)
    assert paths(again) == []
    assert peer.asked("api") == [(304, "/repos/octo/docs/commits/release/2?per_page=1")]


def test_an_etag_is_sent_for_its_own_ref_alone(peer, docs):
    docs.switch("release/2")
    docs.commit()
    first = listing(peer, "/tree/release/2/guide")
    paths(first)
    peer.log.clear()
    gone = Answer(422, b"{}")
    peer.intercept = lambda place, path: (
        gone if path.endswith("/commits/release/2") or "/release/2?" in path else None
    )
    paths(listing(peer, "/tree/release/2/guide", known=first.commit))
    sent = [(asked.path, asked.headers.get("if-none-match")) for asked in peer.log]
    assert first.commit is not None
    assert sent[0] == ("/repos/octo/docs/commits/release/2?per_page=1", first.commit.etag)
    assert [etag for _, etag in sent[1:]] == [None, None]


def test_a_single_file_may_be_the_place(peer, docs):
    found = listing(peer, "/blob/main/guide/a.md")
    assert paths(found) == ["main/guide/a.md"]


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ("/tree/none", "no branch, tag or commit none: correct the address"),
        ("/tree/no/ne", "no branch, tag or commit no or no/ne: correct"),
        ("/tree/main/none", "has no file at none: correct the address"),
    ],
)
def test_a_place_that_is_not_there_is_a_problem(peer, docs, rest, why):
    found = listing(peer, rest)
    assert paths(found) == []
    [problem] = found.problems
    assert problem.startswith(f"{WEB}{rest} (")
    assert why in problem


def test_an_empty_repository_has_no_files_and_no_problem(peer):
    peer.repository("octo/docs")
    found = listing(peer)
    assert (paths(found), found.problems, found.commit) == ([], [], None)
    assert found.notes == ["octo/docs has no commit yet: push one, and crawl again"]


def test_a_truncated_tree_is_listed_folder_by_folder(peer, docs):
    whole = sorted(paths(listing(peer)))
    peer.most_items = 3
    peer.log.clear()
    found = listing(peer)
    assert sorted(paths(found)) == whole
    assert found.problems == []
    recursive = [path.endswith("?recursive=1") for _, path in peer.asked("api")[1:]]
    assert recursive == [True, False, True, True]

    peer.log.clear()
    found = listing(peer, "/tree/main/guide")
    assert sorted(paths(found)) == ["main/guide/a.md", "main/guide/deep/b.md"]
    assert len(peer.log) == 4  # the folder "other" is not asked for

    peer.log.clear()
    found = listing(peer, rules=ListingRules(exclude=("guide",)))
    assert paths(found) == ["HEAD/README.md", "HEAD/other/c.md"]
    assert len(peer.log) == 4  # nor is one that is left out


def test_a_folder_that_is_too_large_is_a_problem(peer, docs):
    peer.most_items = 1
    found = listing(peer)
    assert paths(found) == []
    assert "has more items than the API lists" in found.problems[0]


def test_a_short_pause_for_the_quota_is_waited_for(peer, docs):
    peer.quota, peer.reset_in = 0, 20
    waits: list[float] = []

    found = listing(peer, waits=peer.quota_wait(waits))
    assert len(paths(found)) == 4
    assert found.problems == []
    assert len(waits) == 1
    assert 19 <= waits[0] <= 21


def test_a_quota_that_is_spent_for_long_is_a_problem(peer, docs):
    peer.quota = 0
    found = listing(peer, waits=lambda seconds: pytest.fail("it waited"))
    assert paths(found) == []
    [problem] = found.problems
    assert "quota is spent until" in problem
    assert "set GITHUB_TOKEN, which has a larger quota" in problem


def test_with_a_token_the_remedy_for_a_spent_quota_names_none(peer, docs):
    peer.quota, peer.token = 0, "geheim"
    found = listing(peer, token="geheim")
    assert paths(found) == []
    assert found.problems[0].endswith(": crawl after that)")


@pytest.mark.parametrize(
    ("status", "headers", "seconds"),
    [
        (200, {"x-ratelimit-remaining": "0"}, None),
        (403, {}, None),
        (403, {"x-ratelimit-remaining": "5", "x-ratelimit-reset": "130"}, None),
        (403, {"x-ratelimit-remaining": " 0 ", "x-ratelimit-reset": "130"}, 30),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "90"}, 0),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, 60),
        (403, {"x-ratelimit-remaining": "0"}, 60),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "9", "retry-after": "3"}, 3),
        (429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "107"}, 7),
        (429, {}, 60),
    ],
)
def test_a_quota_says_how_long_to_wait(status, headers, seconds):
    assert github_quota_wait(status, headers, 100) == seconds


def test_a_quota_that_is_spent_again_and_again_is_given_up(peer, docs):
    peer.intercept = lambda place, path: Answer(429, b"{}", {"Retry-After": "1"})
    waits: list[float] = []
    found = listing(peer, waits=lambda s: waits.append(s) is not None)
    assert paths(found) == []
    assert waits == [2] * 10
    assert "quota is spent until" in found.problems[0]


def test_a_quota_that_ends_in_the_middle_is_a_problem(peer, docs):
    peer.quota = 1
    found = listing(peer)
    assert paths(found) == []
    assert "quota is spent" in found.problems[0]


def test_a_secondary_limit_is_waited_for_and_a_crawl_that_ends_does_not_wait(peer, docs):
    refusals = [Answer(429, b"{}", {"Retry-After": "7"}), Answer(403, b"{}", {"Retry-After": "3"})]
    peer.intercept = lambda place, path: refusals.pop(0) if refusals else None
    waits: list[float] = []
    assert len(paths(listing(peer, waits=lambda s: waits.append(s) is not None))) == 4
    assert waits == [8, 4]

    refusals.append(Answer(429, b"{}", {"Retry-After": "7"}))
    found = listing(peer, waits=lambda seconds: True)
    assert paths(found) == []
    assert "the crawl ended while it waited" in found.problems[0]


def test_a_private_repository_is_read_with_the_token(peer, docs):
    docs.private = True
    peer.token = "geheim"
    found = listing(peer)
    assert paths(found) == []
    assert "HTTP status 404, Not Found; it is gone or private" in found.problems[0]
    assert "set GITHUB_TOKEN" in found.problems[0]
    assert len(paths(listing(peer, token="geheim"))) == 4

    found = listing(peer, token="alt-und-abgelaufen")
    assert paths(found) == []
    assert (
        "401, Bad credentials; the API refuses the token in GITHUB_TOKEN; renew it"
        in found.problems[0]
    )
    assert "abgelaufen" not in found.problems[0]


def test_a_token_without_the_right_to_read_is_a_problem_with_its_remedy(peer, docs):
    """GitHub answers so where an organization has not approved the token, or requires SSO."""
    refused = Answer(403, b'{"message": "Resource protected by organization SAML enforcement"}')
    peer.intercept = lambda place, path: refused
    found = listing(peer, waits=lambda seconds: pytest.fail("it waited"))
    assert paths(found) == []
    [problem] = found.problems
    assert "HTTP status 403, Resource protected by organization SAML enforcement;" in problem
    assert "give GITHUB_TOKEN a token that may read its contents" in problem


def test_a_renamed_repository_is_followed_and_noted(peer, docs):
    first = listing(peer)
    paths(first)
    docs.private = True
    peer.token = "geheim"
    peer.rename("octo/docs", "octo/manual")
    docs.write("new.md", "new")
    docs.commit()
    found = listing(peer, known=first.commit, token="geheim")
    assert "HEAD/new.md" in paths(found)
    assert found.commit is not None
    assert found.commit.repository == "octo/manual"
    assert "octo/docs was renamed to octo/manual" in found.notes[0]
    assert [status for status, _ in peer.asked("api")][2:] == [301, 200, 200]


@covers("RD-20")
@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/api/v3/steal",
        "{api}x/steal",
        "{api}/../../steal",
        "{api}/repos/../../../steal",
        "{api}/%2e%2E/%2E%2e/steal",
        "/steal",
        "../../../../../../steal",
        "",
    ],
)
def test_a_redirect_out_of_the_api_is_not_followed(peer, docs, target):
    """ATT-11. Without a target it leads to itself, and ends."""
    location = target.format(api=peer.api)
    peer.intercept = lambda place, path: Answer(301, b"", {"Location": location})
    found = listing(peer, token="geheim")
    assert paths(found) == []
    assert "check GITHUB_API_URL" in found.problems[0]
    assert ("the API redirects to http" in found.problems[0]) is (target != "")
    assert len(peer.log) == (1 if target else 13)
    assert {asked.place for asked in peer.log} == {"api"}


def test_a_redirect_in_a_circle_ends(peer, docs):
    headers = {"Location": f"{peer.api}/repos/octo/docs/commits/HEAD"}
    peer.intercept = lambda place, path: Answer(302, b"", headers)
    found = listing(peer)
    assert paths(found) == []
    assert "redirects in a circle" in found.problems[0]


def test_a_passing_error_is_tried_again_and_a_lasting_one_is_a_problem(peer, docs):
    refusals = [Answer(502), Answer(500)]
    peer.intercept = lambda place, path: refusals.pop(0) if refusals else None
    assert len(paths(listing(peer))) == 4
    peer.intercept = lambda place, path: Answer(503, b"<html>")
    found = listing(peer)
    assert paths(found) == []
    assert "HTTP status 503; crawl again later" in found.problems[0]


def test_an_answer_that_is_not_the_apis_is_a_problem(peer, docs):
    peer.intercept = lambda place, path: Answer(200, b"<html>Sign in</html>")
    found = listing(peer)
    assert paths(found) == []
    assert "the API's answer is not as documented" in found.problems[0]


def test_a_server_that_does_not_answer_is_a_problem(peer, docs, tmp_path):
    held = threading.Event()

    def hold(place: str, path: str) -> Answer | None:
        held.wait(10)
        return None

    peer.intercept = hold
    found = listing(peer, timeout=0.2, retries=0)
    assert paths(found) == []
    held.set()
    assert "no answer of the API at 127.0.0.1" in found.problems[0]


def test_an_answer_that_is_too_large_is_given_up(peer, docs):
    api = api_of(peer)
    with pytest.raises(Exception, match="more than 10 bytes"):
        api.get("/repos/octo/docs/commits/HEAD", most=10)


def test_a_private_address_is_refused_without_permission(peer, docs):
    found = listing(peer, guard=ConnectionGuard())
    assert paths(found) == []
    assert (
        "address not allowed: loopback (127.0.0.1): permit its network with ALLOW_NETWORKS"
        in (found.problems[0])
    )
    assert peer.log == []


@covers("RD-20")
def test_the_token_comes_from_the_environment_alone(monkeypatch):
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    assert github_token() is None
    monkeypatch.setenv("GITHUB_TOKEN", " ghp_x\n")
    assert github_token() == "ghp_x"
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_x\r\nHost: evil.example")
    with pytest.raises(SettingError, match="GITHUB_TOKEN") as error:
        github_token()
    assert "evil" not in str(error.value)


def test_the_facts_of_a_commit_are_no_secret(peer, docs):
    found = listing(peer, token=None)
    paths(found)
    assert found.commit is not None
    assert json.loads(found.commit.dumps()).keys() == {"repository", "ref", "folder", "sha", "etag"}
