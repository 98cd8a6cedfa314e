"""Repositories and servers that mislead: every other file goes on, and nothing is removed.

Source: docs/attacks.md, ATT-46; ADR 67.
"""

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock

import pytest

from tests.certificates import made
from tests.connect_proxy import ConnectProxy
from tests.crawls.commands import Crawl
from tests.crawls.repositories import NAME, PAGES, SITE, WEB, Story
from tests.github_peer import Answer, GithubPeer, Repository, git
from tests.github_tls import SecurePeer

pytestmark = [pytest.mark.long(but=1), pytest.mark.alone, pytest.mark.embedded]
covers = pytest.mark.covers
SECRET = "ghp_c2VjcmV0c2VjcmV0"


@pytest.fixture
def story(tmp_path: Path, crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with Story.begun(tmp_path, crawl) as begun:
        yield begun


def answering(answer: Answer, place: str = "api") -> Callable[[str, str], Answer | None]:
    return lambda asked, path: answer if asked == place else None


# The API


@pytest.mark.long
@covers("RD-20", "R1-31")
def test_no_answer_of_the_api_removes_a_page_or_gets_the_token_away(story: Story, tmp_path: Path):
    """ATT-46. A file was removed, so each run could remove its page; only the last one does."""
    peer, crawl = story.peer, story.crawl
    story.settings |= {"LOG_LEVEL": "DEBUG", "RETRY_TIMES": "0"}
    peer.token = crawl.environment["GITHUB_TOKEN"] = SECRET
    results = [story.run()]
    story.docs.remove("top.md")
    story.docs.commit()

    def incomplete(why: str) -> None:
        results.append(story.run(expect=3))
        assert why in story.reasons[0]
        assert "removed" not in story.counts()
        assert set(story.counts()) == {"orphaned"}
        assert story.hits("badger") == ["top.md"]

    undocumented = "the API's answer is not as documented"
    deep = b'{"message":' * 60_000
    with GithubPeer(tmp_path / "other") as other:
        away = {"Location": f"{other.api}/repos/{NAME}/commits/HEAD"}
        for answer, why in (
            (Answer(200, b"<!doctype html><title>Sign in"), undocumented),
            (Answer(200, b"\xff\xfe\x00garbage"), undocumented),
            (Answer(200, b"[" * 100_000), undocumented),
            (Answer(404, deep), "HTTP status 404; it is gone or private"),
            (Answer(200, b" " * (16 * 1024 * 1024 + 1)), "more than 16,777,216 bytes"),
            (Answer(301, b"", away), "redirects to http://127.0.0.1: check GITHUB_API_URL"),
        ):
            peer.intercept = answering(answer)
            incomplete(why)
        assert other.log == []

    peer.intercept = lambda place, path: None
    peer.repositories[NAME] = peer.repository("octo/empty")
    incomplete("it has no file, and 5 files are stored")
    del peer.repositories[NAME]
    incomplete("HTTP status 404, Not Found; it is gone or private: check the address")
    peer.repositories[NAME] = story.docs

    results.append(story.run())
    assert story.counts()["removed"] == 1
    assert story.hits("badger") == []
    assert all(asked.headers["authorization"] == f"Bearer {SECRET}" for asked in peer.log)
    assert not any(SECRET in result.out + result.err for result in results)
    assert [name for name, data in crawl.written() if SECRET.encode() in data] == []


@covers("RD-20")
@pytest.mark.parametrize("token", ["ghp_a\nHost: evil.example", "ghp_a b", "ghp_ü"])
def test_a_token_that_cannot_be_one_is_refused_and_not_shown(story: Story, token: str):
    story.crawl.environment["GITHUB_TOKEN"] = token
    settings = {"LOG_LEVEL": "DEBUG"} | story.peer.settings
    result = story.crawl(WEB, spider="github", expect=None, settings=settings)
    assert result.status == 1, result
    assert "GITHUB_TOKEN has spaces or other characters" in result.err
    assert "copy it again" in result.err
    assert token not in result.out + result.err
    assert "evil" not in result.out + result.err
    assert not story.crawl.registry.exists()
    assert story.peer.log == []


def test_a_new_repository_without_a_commit_is_an_empty_source(story: Story):
    story.peer.repository("octo/empty")
    result = story.run(url="https://github.com/octo/empty/tree/HEAD", expect=3)
    assert "octo/empty has no commit yet: push one, and crawl again" in result.err
    assert story.reasons == ["no_pages"]
    assert story.asked() == (1, 0)


def test_a_truncated_tree_is_read_by_its_folders_and_one_too_large_removes_nothing(story: Story):
    """ATT-46."""
    story.peer.most_items = 3
    story.run()
    assert story.counts() == {"new": 5, "requests": 5}
    assert len(story.peer.asked("api")) == 5  # the commit, the tree twice, two folders

    story.docs.remove("top.md")
    story.docs.commit()
    story.peer.most_items = 1
    story.run(expect=3)
    assert "has more items than the API lists" in story.reasons[0]
    assert "removed" not in story.counts()
    assert story.hits("badger") == ["top.md"]


def test_a_branch_with_a_slash_is_found_beside_a_tag_of_its_first_name(story: Story):
    """git has no branches ``a`` and ``a/b`` side by side, but tags beside branches."""
    docs = story.docs
    docs.switch("a/b")
    docs.write("only.md", "# Lynx\n\nThe lynx listens.")
    docs.commit()
    url = f"{SITE}/tree/a/b/guide"
    story.run(url=url)
    assert story.counts() == {"new": 2, "requests": 2}
    git(docs.work, "push", "-q", str(docs.bare), "main:refs/tags/a")
    story.run(url=url)
    assert story.counts() == {"unchanged": 2, "notModified": 2}
    assert story.asked() == (1, 0)

    docs.write("guide/new.md", "# Marten\n\nThe marten climbs.")
    docs.commit()
    story.run(url=url, force=1)  # asks for the tag first, which has no folder b/guide
    assert story.counts() == {"new": 1, "unchanged": 2, "requests": 3}
    assert {path.split("/")[3] for _, path in story.peer.asked("raw")} == {docs.sha("HEAD")}
    found = [hit["url"] for hit in story.crawl.search("marten")]
    assert found == [f"{SITE}/blob/a/b/guide/new.md"]


# Names


def odd_tree(docs: Repository) -> list[str]:
    """Commit files of odd names, none of which is refused; return the names."""
    names = [
        "odd/line\nbreak.md", "odd/esc\x1b[31m.md", "odd/tab\t.md", "odd/per%2e%2ecent.md",
        "odd/question?#hash.md", "odd/back\\slash.md", "odd/ü\u202etxt.md", "odd/-rf.md",
        "odd/con.md", f"odd/{'n' * 240}.md", f"{'deep/' * 60}last.md",
    ]  # fmt: skip
    for number, name in enumerate(names):
        docs.write(name, f"# Odd {number}\n\nOdd walrus {number}.")
    docs.write(os.fsdecode(b"odd/no\xffutf8.md"), "# No\n\nThis walrus has no name.")
    docs.commit()
    return names


@covers("R1-31")
def test_odd_names_are_read_and_impossible_ones_are_left_out(story: Story):
    """ATT-46."""
    names = odd_tree(story.docs)
    evil = [
        "../../evil.md", "odd/../evil.md", "/etc/evil.md", "odd//evil.md", "nul\0evil.md", ".", "",
    ]  # fmt: skip
    peer = story.peer

    def add_evil(place: str, path: str) -> Answer | None:
        if "/git/trees/" not in path:
            return None
        tree = peer._tree(NAME, story.docs, path.rpartition("/")[2], recursive=True)
        payload = json.loads(tree.body)
        file = next(item for item in payload["tree"] if item["path"] == "top.md")
        payload["tree"] += [file | {"path": name} for name in evil] + [file]
        return Answer(200, json.dumps(payload).encode())

    peer.intercept = add_evil
    story.settings["LOG_LEVEL"] = "INFO"
    result = story.run()
    assert story.counts() == {"new": 16, "requests": 16}
    assert f"{len(evil) + 1} not a name" in result.err
    assert "\x1b" not in result.err + result.out
    assert len(story.hits("walrus")) == len(names)
    asked = [path for _, path in peer.asked("raw")]
    assert len(asked) == 16
    assert not any("evil" in path or ".." in path for path in asked)
    assert story.peer.asked("web") == []

    story.run()
    assert story.counts() == {"unchanged": 16, "notModified": 16}
    assert story.asked() == (1, 0)


# Raw files


def test_a_push_with_force_between_listing_and_reads_mixes_no_states(story: Story):
    story.run()
    docs = story.docs
    for name in ("top.md", "guide/whale.md"):
        docs.write(name, f"# First\n\nAn osprey in {name}.")
    first = docs.commit()
    pushed, turn = [], Lock()

    def push(place: str, path: str) -> None:
        with turn:
            if place == "raw" and not pushed:
                docs.write("guide/whale.md", "# Second\n\nA condor.")
                docs.remove("top.md")
                pushed.append(docs.commit(amend=True))

    story.peer.intercept = push
    story.run()
    assert {path.split("/")[3] for _, path in story.peer.asked("raw")} == {first}
    assert story.counts() == {"modified": 2, "unchanged": 3, "requests": 2, "notModified": 3}
    assert story.hits("osprey") == ["guide/whale.md", "top.md"]

    story.run()
    assert story.counts() == {
        "modified": 1, "unchanged": 3, "deleted": 1, "removed": 1, "requests": 1, "notModified": 3,
    }  # fmt: skip
    assert story.hits("condor") == ["guide/whale.md"]
    assert story.hits("osprey") == []


def test_raw_files_that_are_away_or_of_another_commit_take_no_page(story: Story):
    docs, peer = story.docs, story.peer
    story.settings |= {"RETRY_TIMES": "0", "LOST_THRESHOLD": "1"}
    story.run()
    old = docs.sha("HEAD")
    docs.write("top.md", "# Wolverine\n\nA wolverine.")
    docs.write("new.md", "# Lynx\n\nThe lynx listens.")
    docs.commit()
    with socket.create_server(("127.0.0.1", 0)) as unused:
        place = f"http://127.0.0.1:{unused.getsockname()[1]}/raw"
    story.settings["GITHUB_RAW_URL"] = place
    story.run(expect=3)
    assert story.counts() == {"failed": 2, "unchanged": 3 + 1, "requests": 2, "notModified": 4}
    assert story.hits("badger") == ["top.md"]

    del story.settings["GITHUB_RAW_URL"]
    body = git(docs.bare, "cat-file", "blob", f"{old}:top.md")
    peer.intercept = lambda where, path: (
        Answer(200, body) if where == "raw" and path.endswith("top.md") else None
    )
    story.run(expect=3)
    assert "its bytes differ from those of the commit" in story.why("top.md")
    assert story.words()["new.md"] == "new"
    assert story.hits("badger") == ["top.md"]
    assert "removed" not in story.counts()

    peer.intercept = lambda where, path: None
    story.run()
    assert story.words()["top.md"] == "modified"
    assert story.hits("badger") == []


# TLS and proxies


@covers("RD-20")
def test_api_and_raw_files_are_verified_and_reached_through_the_proxy(story: Story, tmp_path: Path):
    """ATT-10. The name of the server is known to the proxy alone."""
    peer, crawl = story.peer, story.crawl
    peer.token = crawl.environment["GITHUB_TOKEN"] = SECRET
    story.docs.private = True
    folder = tmp_path / "certificates"
    folder.mkdir()
    secure = SecurePeer(peer, folder, "ghe.example")
    story.settings |= {"CA_FILE": str(secure.ca_file), "RETRY_TIMES": "0"}
    names = {"ghe.example": secure.port, "github.com": 9}
    with ConnectProxy(names, password="pa-ss-wo-rd") as proxy:
        crawl.environment |= {"https_proxy": proxy.url, "no_proxy": "github.com"}
        results = [story.run(expect=3)]
        assert "ghe.example cannot be resolved" in story.reasons[0]
        assert proxy.log == []

        story.settings["HTTPPROXY_ENABLED"] = "1"
        results.append(story.run())
        assert story.counts() == {"new": 5, "requests": 5}
        assert {(asked.target, asked.status) for asked in proxy.log} == {("ghe.example:443", 200)}
        assert not any("authorization" in asked.headers for asked in proxy.log)
        assert not any("proxy-authorization" in asked.headers for asked in peer.log)

        story.docs.write("new.md", "# Lynx\n\nThe lynx listens.")
        story.docs.commit()
        crawl.environment["http_proxy"] = proxy.url
        inside = {"GITHUB_RAW_URL": f"http://127.0.0.1:{secure.port}/raw", "ALLOW_NETWORKS": ""}
        usual, story.settings = story.settings, story.settings | inside
        results.append(story.run(expect=3))
        assert "address not allowed: loopback (127.0.0.1)" in story.why("new.md")
        assert all(asked.target == "ghe.example:443" for asked in proxy.log)
        story.settings = usual

        story.docs.remove("top.md")
        story.docs.commit()
        secure.show(made("github", hosts=("other.example",), issuer=secure.authority))
        results.append(story.run(expect=3))
        assert "the certificate of ghe.example was refused (Hostname mismatch" in story.reasons[0]
        assert "renew or correct the certificate at the server" in story.reasons[0]
        assert (story.peer.log, "removed" in story.counts()) == ([], False)

        proxy.password = "another"
        results.append(story.run(expect=3))
        assert f"through the proxy {proxy.place} (Tunnel connection failed: 407" in story.reasons[0]
        assert story.hits("badger") == ["top.md"]
    for result in results:
        assert not any(secret in result.out + result.err for secret in (SECRET, "pa-ss-wo-rd"))
    for name, data in crawl.written():
        assert SECRET.encode() not in data, name
        assert b"pa-ss-wo-rd" not in data, name


def test_a_declared_authority_counts_for_api_and_raw_files(story: Story, tmp_path: Path):
    folder = tmp_path / "certificates"
    folder.mkdir()
    secure = SecurePeer(story.peer, folder)
    table = f'[sources.docs]\nkind = "github"\nurl = "{WEB}"\n'
    story.settings["RETRY_TIMES"] = "0"
    story.crawl.declare(table)
    story.run(url=None, source="docs", expect=3)
    assert "give the certificate of its authority with ca_file (CA_FILE)" in story.reasons[0]

    story.crawl.declare(f'{table}ca_file = "{secure.ca_file}"\n')
    story.run(url=None, source="docs")
    assert story.counts() == {"new": 5, "requests": 5}

    story.docs.write("top.md", "# Wolverine\n\nA wolverine.")
    story.docs.commit()
    story.settings["GITHUB_RAW_URL"] = story.peer.raw.replace("127.0.0.1", "localhost")
    story.run(url=None, source="docs", expect=3)
    assert story.counts() == {"failed": 1, "unchanged": 4, "requests": 1, "notModified": 4}
    assert "the certificate of localhost was refused: wrong name" in story.why("top.md")
    assert [hit["url"] for hit in story.crawl.search("badger")] == [f"{PAGES}/top.md"]
