"""Crawls of a repository: their requests, and answers of GitHub that are no evidence."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.repositories import NAME, PAGES, SITE, WEB, Story
from tests.github_peer import Answer

pytestmark = pytest.mark.long

covers = pytest.mark.covers


@pytest.fixture
def story(tmp_path: Path, crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with Story.begun(tmp_path, crawl) as begun:
        yield begun


@covers("R1-31", "R1-47", "R1-49", "R0-43", "R0-44", "M-07")
def test_an_unchanged_repository_costs_one_request_and_a_changed_one_its_changed_files(
    story: Story,
):
    """The whole story of a repository is in test_files_story.py."""
    docs = story.docs
    story.run()
    assert story.counts() == {"new": 5, "requests": 5}
    assert story.asked() == (2, 5)
    assert story.hits("whale") == ["guide/whale.md"]
    assert "run 1: discovered" in story.why("guide/whale.md")
    sha = docs.sha("HEAD")
    assert {path.split("/")[3] for _, path in story.peer.asked("raw")} == {sha}

    story.settings["TRUST_SAMPLE_RATIO"] = "1"  # a SHA needs no sample
    story.run()
    assert story.counts() == {"unchanged": 5, "notModified": 5}
    assert story.peer.asked("api") == [(304, f"/repos/{NAME}/commits/HEAD?per_page=1")]
    assert story.asked() == (1, 0)
    assert "unchanged" in story.why("top.md")

    docs.write("guide/lynx.md", "# Lynx\n\nThe lynx listens.")
    docs.commit()
    story.run()
    assert story.counts() == {"new": 1, "unchanged": 5, "requests": 1, "notModified": 5}
    assert story.asked() == (2, 1)
    assert story.hits("lynx") == ["guide/lynx.md"]

    docs.remove("top.md")
    docs.commit()
    story.run()
    assert story.counts() == {
        "unchanged": 5, "deleted": 1, "removed": 1, "notModified": 5,
    }  # fmt: skip
    assert story.asked() == (2, 0)
    assert story.hits("badger") == []
    assert "removed, absent: not in the listing" in story.why("top.md")

    docs.write("guide/lynx.md", "# Marten\n\nThe marten climbs.")
    docs.commit(amend=True)  # a push with force
    story.run()
    assert story.counts() == {
        "unchanged": 4, "modified": 1, "deleted": 1, "requests": 1, "notModified": 4,
    }  # fmt: skip
    assert (story.hits("lynx"), story.hits("marten")) == ([], ["guide/lynx.md"])

    story.run()
    assert story.counts() == {"unchanged": 5, "deleted": 1, "notModified": 5}
    assert story.asked() == (1, 0)


@covers("RD-20")
def test_a_private_repository_needs_the_token_which_is_nowhere_kept(
    story: Story, monkeypatch: pytest.MonkeyPatch
):
    story.docs.private = True
    story.peer.token = secret = "ghp_c2VjcmV0c2VjcmV0"
    story.crawl.environment["GITHUB_TOKEN"] = secret
    results = [story.run()]
    assert story.counts() == {"new": 5, "requests": 5}
    assert all(asked.headers["authorization"] == f"Bearer {secret}" for asked in story.peer.log)

    story.crawl.environment["GITHUB_TOKEN"] = "ghp_old"
    results.append(story.run(expect=3))
    assert story.reasons[0].startswith(f"listing: {WEB} (HTTP status 401, Bad credentials;")
    assert "in GITHUB_TOKEN; renew it" in story.reasons[0]
    del story.crawl.environment["GITHUB_TOKEN"]
    results.append(story.run(expect=3))
    assert "set GITHUB_TOKEN to a token that may read it" in story.reasons[0]
    assert "removed" not in story.counts()
    assert story.hits("whale") == ["guide/whale.md"]
    assert not any(secret in result.out + result.err for result in results)
    written = [name for name, content in story.crawl.written() if secret.encode() in content]
    assert written == []


def test_a_spent_quota_leaves_the_run_incomplete_and_loses_no_page(story: Story):
    story.run()
    story.docs.write("top.md", "# Wolverine\n\nA wolverine.")
    story.docs.commit()
    story.peer.quota = 1  # enough for the commit, not for its tree
    story.run(expect=3)
    assert "quota is spent until" in story.reasons[0]
    assert story.counts() == {"orphaned": 5}
    assert story.hits("badger") == ["top.md"]
    story.peer.quota = 10
    story.run()
    assert story.counts() == {"modified": 1, "unchanged": 4, "requests": 1, "notModified": 4}


def test_the_raw_origin_that_asks_to_wait_gets_its_pause(story: Story):
    refusals = [Answer(429, b"", {"Retry-After": "1"})]
    story.peer.intercept = lambda place, path: (
        refusals.pop() if place == "raw" and refusals else None
    )
    story.run()
    assert story.counts()["new"] == 5
    assert [status for status, _ in story.peer.asked("raw")].count(429) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Answer(404, b"404: Not Found"), "HTTP status 404 for a file of the listed commit"),
        (Answer(302, b"", {"Location": "https://evil.example/"}), "HTTP status 302 for a file"),
        (Answer(200, b"# Another file"), "its bytes differ from those of the commit"),
        (Answer(403, b"", {"X-RateLimit-Remaining": "0"}), "file status 429"),
    ],
    ids=["missing", "redirect", "other bytes", "quota"],
)
def test_no_answer_of_the_raw_origin_is_evidence_against_a_page(
    story: Story, answer: Answer, why: str
):
    story.settings |= {"RETRY_AFTER_MAX_WAIT": "0", "RETRY_TIMES": "0", "LOST_THRESHOLD": "1"}
    story.run()
    story.docs.write("top.md", "# Wolverine\n\nA wolverine.")
    story.docs.commit()
    story.peer.intercept = lambda place, path: answer if place == "raw" else None
    story.run(expect=3)
    assert story.counts() == {"unchanged": 4, "failed": 1, "requests": 1, "notModified": 4}
    assert why in story.why("top.md")
    assert story.hits("badger") == ["top.md"]
    story.peer.intercept = lambda place, path: None
    story.run()
    assert story.words()["top.md"] == "modified"


def test_pointers_large_files_and_links_are_not_content(story: Story):
    docs = story.docs
    docs.write("big.txt", "word " * 1_000)
    pointer = "version https://git-lfs.github.com/spec/v1\n"
    docs.write("model.txt", f"{pointer}oid sha256:{'0' * 64}\nsize 123456\n")
    os.symlink("top.md", docs.work / "link.md")
    docs.submodule("vendor/lib")
    docs.commit()
    story.crawl.declare(f'[sources.docs]\nkind = "github"\nurl = "{WEB}"\nmax_file_size = 2000\n')
    result = story.run(url=None, source="docs")
    assert story.asked() == (2, 6)
    assert "a Git LFS pointer" in story.why("model.txt")
    assert "not read: its 5,000 bytes exceed max_file_size" in story.why("big.txt")
    words = story.words()
    assert "link.md" not in words
    assert result.status == 0

    story.run(url=None, source="docs")
    assert story.asked() == (1, 0)
    docs.write("top.md", "# Wolverine\n\nA wolverine.")
    docs.commit()
    story.run(url=None, source="docs")
    assert story.asked() == (2, 1)  # neither the pointer nor the large file is asked for again


def test_a_forced_run_reads_everything_and_a_new_glob_lists_anew(story: Story):
    story.run()
    story.run(force=1)
    assert story.counts() == {"unchanged": 5, "requests": 5}
    assert story.asked() == (2, 5)
    story.crawl.declare(f'[sources.docs]\nkind = "github"\nurl = "{WEB}"\ninclude = ["guide/**"]\n')
    story.run(url=None, source="docs")
    story.crawl.declare(f'[sources.docs]\nkind = "github"\nurl = "{WEB}"\n')
    story.run(url=None, source="docs")
    assert story.counts()["new"] == 3
    assert story.asked() == (2, 3)


def test_a_renamed_repository_is_read_under_its_new_name(story: Story):
    story.run()
    story.peer.rename(NAME, "octo/manual")
    story.docs.write("top.md", "# Wolverine\n\nA wolverine.")
    story.docs.commit()
    result = story.run()
    assert story.counts() == {"modified": 1, "unchanged": 4, "requests": 1, "notModified": 4}
    assert f"{NAME} was renamed to octo/manual" in result.err
    [(status, path)] = story.peer.asked("raw")
    assert (status, path.split("/")[1:3]) == (200, ["octo", "manual"])


def test_an_interrupted_listing_removes_nothing(story: Story):
    story.run()
    story.docs.remove("top.md")
    story.docs.commit()
    story.peer.most_items = 3
    story.peer.intercept = lambda place, path: (
        Answer(500) if path.endswith(story.docs.sha("HEAD:notes")) else None
    )
    story.settings["RETRY_TIMES"] = "0"
    story.run(expect=3)
    assert story.reasons[0].startswith(f"listing: {WEB} (HTTP status 500")
    assert "removed" not in story.counts()
    assert story.hits("badger") == ["top.md"]
    shown = " ".join(story.why("top.md").split())
    assert f"listing not complete in run 2: {WEB} (HTTP status 500" in shown
    assert (
        "this page is in a part that could not be listed; it may still exist, so it is not "
        "removed" in shown
    )


def test_without_permission_no_private_address_is_asked(story: Story):
    story.settings["ALLOW_NETWORKS"] = ""
    story.run(expect=3)
    assert "permit its network with ALLOW_NETWORKS" in story.reasons[0]
    assert story.peer.log == []


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://github.com/octo", "names no repository"),
        ("https://ghe.example/octo/docs", "set GITHUB_WEB_URL"),
    ],
)
def test_a_wrong_address_is_refused_before_the_run(story: Story, url: str, why: str):
    settings = story.peer.settings
    result = story.crawl(url, spider="github", expect=1, settings=settings)
    assert why in result.err
    assert story.peer.log == []


def test_a_restored_page_is_not_confirmed_by_an_unchanged_commit(story: Story):
    story.run()
    story.docs.remove("top.md")
    story.docs.commit()
    story.run()
    assert story.counts()["removed"] == 1
    story.crawl.run("undo", "2")
    story.run()
    assert story.asked() == (2, 0)
    assert story.counts()["removed"] == 1


@covers("R1-31", "M-07")
def test_a_pinned_file_that_its_commit_lacks_is_lost_and_stops_nothing(story: Story):
    """As in a folder. The raw origin alone is no evidence: the listing has no such file."""
    docs = story.docs
    story.run()
    docs.remove("top.md")
    docs.commit()
    story.run()
    story.crawl.run("undo", "2", "--pin")
    for lost in (1, 2):
        story.run()
        assert story.counts() == {"unchanged": 4, "lost": 1, "requests": 1, "notModified": 4}
        assert story.asked() == (2, 1)
        assert "file status 404; the listed commit has no such file" in story.why("top.md")
        [record] = [one for one in story.crawl.records() if one["url"].endswith("/top.md")]
        assert record["lostCount"] == lost
    assert story.hits("badger") == ["top.md"]

    docs.write("top.md", "# Badger\n\nThe badger digs again.")
    docs.commit()
    story.run()
    assert story.counts() == {"unchanged": 4, "modified": 1, "requests": 1, "notModified": 4}
    story.run()
    assert story.asked()[0] == 1
    assert story.counts()["unchanged"] == 5

    story.peer.intercept = lambda place, path: Answer(404) if place == "raw" else None
    docs.write("top.md", "# Wolverine\n\nA wolverine.")
    docs.commit()
    story.run(expect=3)
    assert "HTTP status 404 for a file of the listed commit" in story.why("top.md")
    assert story.hits("badger") == ["top.md"]


def test_a_plan_lists_the_repository_and_changes_nothing(story: Story):
    story.run()
    story.docs.write("top.md", "# Wolverine\n\nA wolverine.")
    story.docs.commit()
    story.crawl.environment |= story.peer.settings
    plan = json.loads(story.crawl._ask("plan", "--format", "json"))
    assert plan[0]["isListed"] is True
    assert f"{PAGES}/top.md" in json.dumps(plan)
    assert story.docs.sha("HEAD") not in json.dumps(plan)


def test_due_and_the_program_crawl_repositories_again(story: Story):
    story.run()
    story.crawl.environment |= story.peer.settings
    story.crawl.run("due")
    assert story.counts() == {"unchanged": 5, "notModified": 5}
    story.crawl.declare(f'[sources.docs]\nkind = "github"\nurl = "{SITE}/tree/main/guide"\n')
    story.crawl.python("-m", "smartcrawl", "crawl", "docs")
    story.crawl._told.clear()
    assert story.crawl.runs(source="docs")[0]["new"] == 2
    story.crawl.python("-m", "smartcrawl", "crawl")
    story.crawl._told.clear()
    assert story.crawl.runs(source="docs")[0]["unchanged"] == 2


@pytest.mark.parametrize("resume", [0, 1])
def test_a_killed_crawl_is_gone_on_with_or_repeated(story: Story, resume: int):
    """Kill it after its pages were registered and before all of them were read."""
    for number in range(40):
        story.docs.write(f"more/{number}.md", f"# Page {number}\n\nThe words of page {number}.")
    story.docs.commit()
    settings = [f"{name}={value}" for name, value in story.peer.settings.items()]
    words = [word for setting in settings for word in ("-s", setting)]
    killed = ["runner", "kill", "84", "crawl", "github", "-a", f"url={WEB}", *words]
    story.crawl.run(*killed, expect=-9)
    visited = story.crawl.rows("SELECT count(*) FROM state WHERE visited_run > 0")[0][0]
    assert 0 < visited < 45
    story.crawl.bury()
    story.run(resume=resume)
    words_now = story.words()
    assert set(words_now.values()) <= {"new"} | (set() if resume else {"unchanged"})
    assert len(story.words()) == 45
    assert story.hits('"words of page 39"') == ["more/39.md"]
    story.run()
    assert story.counts() == {"unchanged": 45, "notModified": 45}
    assert story.asked() == (1, 0)
