"""A repository with its wiki: files by the listing, pages of the wiki by links, in each run."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connect_proxy import ConnectProxy
from tests.crawls.commands import Crawl, Result
from tests.crawls.repositories import NAME, Story
from tests.github_peer import Answer

pytestmark = pytest.mark.long(but=1)

covers = pytest.mark.covers
FILES = {
    "guide/whale.md": "# Whale\n\nThe whale sings.",
    "guide/heron.md": "# Heron\n\nThe heron waits. See [the wiki](../../../wiki/Lynx).",
    "top.md": "# Badger\n\nThe badger digs.",
}


def page(words: str, *names: str) -> str:
    """Return the HTML of a page of the wiki that links to others."""
    links = "".join(f'<a href="/{NAME}/wiki/{name}">more</a>' for name in names)
    return f"<h1>{words}</h1><p>The {words} of the wiki.</p>{links}"


WIKI = {
    "Home": page("otter", "Lynx", "Raven"),
    "Lynx": page("lynx", "Raven"),
    "Raven": page("raven", "Marten"),
    "Marten": page("marten", "Lynx"),
}
SAME = {"Home": 304, "Lynx": 304, "Raven": 304, "Marten": 304}


class WikiStory(Story):
    """One repository with a wiki, and crawls of it."""

    @property
    def front(self) -> str:
        return f"{self.peer.origin}/{NAME}"

    @property
    def peer_settings(self) -> dict[str, str]:
        return self.peer.web_settings

    @property
    def pages(self) -> str:
        return self.front

    def run(self, *, expect: int = 0, **more: object) -> Result:  # type: ignore[override]  # the whole repository
        url = None if "source" in more else self.front
        return super().run(expect=expect, url=url, **more)

    def asked(self) -> tuple[int, int, dict[str, int]]:
        """Requests to the API and for raw files, and the status of each page of the wiki."""
        wiki = {
            path.removeprefix(f"/{NAME}/wiki").strip("/") or "Home": status
            for status, path in self.peer.asked("web")
            if path.startswith(f"/{NAME}")
        }
        return len(self.peer.asked("api")), len(self.peer.asked("raw")), wiki

    def name(self, url: str) -> str:
        return super().name(url).removeprefix("blob/HEAD/")


@pytest.fixture
def story(tmp_path: Path, crawl: Crawl, monkeypatch: pytest.MonkeyPatch) -> Iterator[WikiStory]:
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    with WikiStory.begun(tmp_path, crawl, FILES) as story:
        story.docs.wiki = dict(WIKI)
        crawl.environment |= story.peer.web_settings
        yield story


@covers("R1-30", "R1-31", "R0-43", "M-07")
def test_a_repository_and_its_wiki_over_consecutive_crawls(story: WikiStory):
    docs = story.docs
    story.run()
    assert story.counts() == {"new": 7, "requests": 7}
    assert story.asked() == (2, 3, dict.fromkeys(WIKI, 200))
    assert story.peer.asked("web")[0] == (200, "/robots.txt")
    assert (story.hits("otter"), story.hits("whale")) == (["wiki"], ["guide/whale.md"])
    assert story.hits("marten") == ["wiki/Marten"]

    result = story.run()
    assert "4 requests for files and pages; 7 unchanged by the listing or a 304" in result.out
    assert "the listing or a 304 confirms 7 pages; no content was written" in result.out
    assert story.counts() == {"unchanged": 7, "requests": 4, "notModified": 7}
    assert story.asked() == (1, 0, SAME)
    assert "1 complete run does not list it (absent)" in story.why("blob/HEAD/top.md")
    assert "robots.txt" not in story.why("blob/HEAD/top.md")
    wiki = story.why("wiki/Lynx")
    assert "3 complete runs in a row find no link to it (orphan)" in wiki
    assert "absent" not in wiki
    assert "in the next run that reaches it" in wiki
    assert "If-None-Match" in wiki
    assert "If-None-Match" not in story.why("blob/HEAD/top.md")
    assert f"found on {story.front}/wiki" in wiki

    docs.wiki["Lynx"] = page("ocelot", "Raven")
    story.run()
    assert story.counts() == {"modified": 1, "unchanged": 6, "requests": 4, "notModified": 6}
    assert story.asked() == (1, 0, SAME | {"Lynx": 200})
    assert story.hits('"lynx of the wiki"') == []
    assert story.hits('"ocelot of the wiki"') == ["wiki/Lynx"]

    docs.write("top.md", "# Wolverine\n\nA wolverine.")
    docs.commit()
    story.run()
    assert story.counts() == {"modified": 1, "unchanged": 6, "requests": 5, "notModified": 6}
    assert story.asked() == (2, 1, SAME)

    docs.wiki["Egret"] = page("egret")
    docs.wiki["Home"] = page("otter", "Lynx", "Raven", "Egret")
    story.run()
    assert story.counts() == {
        "new": 1, "modified": 1, "unchanged": 6, "requests": 5, "notModified": 6,
    }  # fmt: skip
    assert story.asked() == (1, 0, SAME | {"Home": 200, "Egret": 200})
    assert story.hits("egret") == ["wiki/Egret"]


@covers("M-07", "R4-07")
def test_a_page_that_is_no_longer_linked_ages_and_a_file_goes_at_once(story: WikiStory):
    story.run()
    story.docs.wiki["Raven"] = page("raven")  # Marten is still there
    story.docs.remove("top.md")
    story.docs.commit()
    story.run()
    assert story.counts() == {
        "modified": 1, "unchanged": 4, "orphaned": 1, "deleted": 1, "removed": 1, "requests": 3,
        "notModified": 4,
    }  # fmt: skip
    assert "removed, absent: not in the listing" in story.why("blob/HEAD/top.md")
    assert "the last run found no link to it; the stored page stays" in story.why("wiki/Marten")
    assert story.hits("marten") == ["wiki/Marten"]

    result = story.run()
    assert "1 page orphaned: not in the listing any more, or no page links to it" in result.out
    left = {"Home": 304, "Lynx": 304, "Raven": 304}
    assert story.asked() == (1, 0, left)
    assert story.counts()["orphaned"] == 1
    story.run()
    assert story.asked() == (1, 0, left | {"Marten": 304})  # the look at it
    assert story.counts() == {
        "unchanged": 5, "deleted": 2, "removed": 1, "requests": 4, "notModified": 6,
    }  # fmt: skip
    assert "removed, orphan: no page links to it" in story.why("wiki/Marten")
    assert story.hits("marten") == []
    story.run()
    assert story.counts() == {
        "unchanged": 5, "deleted": 2, "requests": 3, "notModified": 5,
    }  # fmt: skip
    assert story.asked() == (1, 0, left)


def test_a_page_that_answers_404_is_lost_and_then_gone(story: WikiStory):
    story.run()
    story.peer.intercept = lambda place, path: (
        Answer(404) if path.endswith("/wiki/Marten") else None
    )
    for run in range(3):
        story.run()
        lost = {"gone": 1, "removed": 1} if run == 2 else {"lost": 1}
        assert story.counts() == {"unchanged": 6, "requests": 4, "notModified": 6} | lost
    assert "removed, gone: status 404" in story.why("wiki/Marten")
    assert story.asked() == (1, 0, SAME | {"Marten": 404})


@pytest.mark.parametrize("private", [False, True], ids=["redirect", "404"])
def test_a_repository_without_wiki_costs_one_request(story: WikiStory, private: bool):
    word = "failed" if private else "redirected"
    story.docs.wiki.clear()
    story.docs.private = private
    story.peer.token = story.crawl.environment["GITHUB_TOKEN"] = "ghp_c2VjcmV0"
    answer = {"Home": 404 if private else 302}
    story.run()
    assert story.counts() == {"new": 3, word: 1, "requests": 4}
    assert story.asked() == (2, 3, answer)
    story.docs.remove("top.md")
    story.docs.commit()
    story.run()
    assert story.counts() == {
        "unchanged": 2, word: 1, "deleted": 1, "removed": 1, "requests": 1, "notModified": 2,
    }  # fmt: skip
    story.run()
    assert story.asked() == (1, 0, answer)


def test_a_wiki_that_is_switched_off_goes_like_pages_that_answer_404(story: WikiStory):
    for number in range(40):
        story.docs.write(f"more/{number}.md", f"# Page {number}\n\nThe words of page {number}.")
    story.docs.commit()
    story.run()
    story.docs.wiki.clear()
    for run in range(3):
        story.run()
        lost = {"gone": 4, "removed": 4} if run == 2 else {"lost": 4}
        assert story.counts() == {"unchanged": 43, "requests": 4, "notModified": 43} | lost
        assert story.asked() == (1, 0, dict.fromkeys(WIKI, 302))
    assert "removed, gone: status 404" in story.why("wiki/Marten")
    assert (story.hits("otter"), story.hits("whale")) == ([], ["guide/whale.md"])
    story.run()
    assert story.counts() == {
        "unchanged": 43, "gone": 3, "redirected": 1, "requests": 1, "notModified": 43,
    }  # fmt: skip
    assert story.asked() == (1, 0, {"Home": 302})
    story.docs.wiki = dict(WIKI)
    story.run()
    assert story.hits("marten") == ["wiki/Marten"]


@pytest.mark.parametrize("path", ["/robots.txt", f"/{NAME}/wiki"])
def test_a_wiki_that_is_away_leaves_the_run_incomplete_and_files_go_on(story: WikiStory, path: str):
    story.settings |= {"RETRY_TIMES": "0", "ROBOTS_MAX_STALE_SECONDS": "0"}
    story.run()
    story.docs.write("top.md", "# Wolverine\n\nA wolverine.")
    story.docs.remove("guide/heron.md")
    story.docs.commit()
    story.peer.intercept = lambda place, asked: Answer(503) if asked.startswith(path) else None
    for run in range(4):  # never does anything of it age
        story.run(expect=3)
        counts = story.counts()
        assert "removed" not in counts
        assert counts.get("modified", 0) == (run == 0)
        assert any(f"{story.front}/wiki" in reason for reason in story.reasons)
    assert (story.hits("wolverine"), story.hits("heron")) == (["top.md"], ["guide/heron.md"])
    assert (story.hits("otter"), story.hits("marten")) == (["wiki"], ["wiki/Marten"])
    story.peer.intercept = lambda place, asked: None
    story.run()
    assert story.counts() == {
        "unchanged": 6, "deleted": 1, "removed": 1, "requests": 4, "notModified": 6,
    }  # fmt: skip


def test_a_listing_that_fails_stops_no_page_of_the_wiki_and_removes_none(story: WikiStory):
    story.settings |= {"RETRY_TIMES": "0"}
    story.run()
    story.docs.wiki["Lynx"] = page("ocelot", "Raven")
    story.docs.wiki["Raven"] = page("raven")
    story.peer.intercept = lambda place, path: Answer(500) if place == "api" else None
    for run in range(4):
        story.run(expect=3)
        assert story.reasons[0].startswith(f"listing: {story.front} (HTTP status 500")
        found = {"modified": 2} if run == 0 else {}
        same = 1 if run == 0 else 3
        assert story.counts() == {
            "unchanged": same, "orphaned": 4, "requests": 3, "notModified": same, **found,
        }  # fmt: skip
    assert (story.hits("ocelot"), story.hits("marten")) == (["wiki/Lynx"], ["wiki/Marten"])
    assert story.hits("badger") == ["top.md"]
    story.peer.intercept = lambda place, path: None
    story.run()
    assert story.counts() == {"unchanged": 6, "orphaned": 1, "requests": 3, "notModified": 6}


def test_robots_txt_forbids_the_wiki_and_no_file(story: WikiStory):
    story.peer.robots = "User-agent: *\nDisallow: /octo/docs/\n"
    story.run()
    assert story.counts() == {"new": 3, "excluded": 1, "requests": 3}
    assert story.asked() == (2, 3, {})
    assert "forbidden" in story.why("wiki") or "disallowed" in story.why("wiki")

    story.peer.robots = "User-agent: *\nDisallow: /octo/docs/wiki/Raven\n"
    story.run()
    assert story.asked() == (1, 0, {"Home": 200, "Lynx": 200})
    story.peer.robots = "User-agent: *\nDisallow: /\n"
    story.run(expect=3)  # as on the web: what is stored does not age by that
    assert "disallowed by" in story.reasons[0]
    assert story.asked()[2] == {}
    assert story.hits("otter") == ["wiki"]


def test_why_knows_what_the_listing_and_what_robots_txt_decides(story: WikiStory):
    story.peer.robots = "User-agent: *\nDisallow: /octo/docs/\n"
    story.run()
    name = story.crawl.runs()[0]["source"]

    def why(path: str) -> dict[str, list[dict[str, dict[str, bool]]]]:
        words = ("why", f"{story.front}/{path}", "--format", "json")
        return dict(json.loads(story.crawl.run(*words).out))

    for path, listed in (("blob/HEAD/none.md", [name]), ("wiki/None", [])):
        data = why(path)
        assert (data["records"], data["inScopeOf"], data["listedBy"]) == ([], [name], listed)
    [file] = why("blob/HEAD/top.md")["records"]
    [page] = why("wiki")["records"]
    assert (file["robots"], page["robots"]["allowed"]) == (None, False)


def test_a_source_says_whether_the_wiki_belongs(story: WikiStory):
    table = f'[sources.docs]\nkind = "github"\nurl = "{story.front}'
    story.crawl.declare(f'{table}"\n')
    story.run(source="docs")
    assert story.counts() == {"new": 7, "requests": 7}
    story.crawl.declare(f'{table}"\nwiki = false\n')
    story.run(source="docs")
    assert story.counts() == {"unchanged": 3, "excluded": 4, "notModified": 3}
    assert story.asked() == (1, 0, {})  # the wiki matters to no listing
    assert story.peer.asked("web") == []
    assert "out of scope" in story.why("wiki/Lynx")
    story.crawl.declare(f'{table}/tree/HEAD"\nwiki = true\n')
    story.run(source="docs")
    assert story.counts() == {"unchanged": 7, "requests": 4, "notModified": 7}
    story.crawl.declare(f'{table}/tree/HEAD"\n')
    story.run(source="docs")
    assert story.counts() == {"unchanged": 3, "excluded": 4, "notModified": 3}
    assert story.asked() == (1, 0, {})


@covers("RD-20")
def test_the_token_is_not_sent_to_the_wiki(story: WikiStory):
    story.peer.token = secret = "ghp_c2VjcmV0c2VjcmV0"
    story.crawl.environment["GITHUB_TOKEN"] = secret
    story.settings |= {"SOFT_404_DETECTION": "1"}
    story.run()
    probes = [path for _, path in story.peer.asked("web") if not path.startswith(f"/{NAME}")]
    assert len(probes) == 2  # robots.txt, and an address that is missing
    sent = {(asked.place, secret in str(asked.headers)) for asked in story.peer.log}
    assert sent == {("api", True), ("raw", True), ("web", False)}


def test_the_wiki_is_reached_through_the_proxy(story: WikiStory):
    peer = story.peer
    port = int(peer.origin.rpartition(":")[2])
    story.settings |= {"HTTPPROXY_ENABLED": "1"}
    with ConnectProxy({"127.0.0.1": port}, password="pa-ss-wo-rd") as proxy:
        story.crawl.environment |= {"http_proxy": proxy.url, "no_proxy": ""}
        story.run()
    assert story.counts() == {"new": 7, "requests": 7}
    targets = [asked.target.removeprefix(peer.origin) for asked in proxy.log]
    assert {"/robots.txt", *(f"/{NAME}/wiki/{name}" for name in WIKI if name != "Home")} < {
        *targets
    }
    assert len(targets) == len(peer.log)
    assert not any("proxy-authorization" in asked.headers for asked in peer.log)


def test_a_wiki_that_is_marked_noindex_is_asked_and_not_indexed(story: WikiStory):
    """As most wikis of GitHub are: their links lead nowhere, either."""
    story.peer.wiki_headers = {"X-Robots-Tag": "none"}
    story.run()
    assert story.counts() == {"new": 3, "excluded": 1, "requests": 4}
    assert story.asked() == (2, 3, {"Home": 200})
    assert (story.hits("otter"), story.hits("whale")) == ([], ["guide/whale.md"])
    story.peer.wiki_headers = {}
    story.run()
    assert story.hits("marten") == ["wiki/Marten"]


def test_links_of_the_wiki_lead_to_no_file_and_those_of_files_to_no_page(story: WikiStory):
    story.docs.wiki = {"Home": page("otter", "../blob/HEAD/gone.md", "Lynx"), "Lynx": page("lynx")}
    story.docs.wiki |= {"Raven": page("raven")}
    story.docs.write("more.html", f'<p>See <a href="/{NAME}/wiki/Raven">it</a> there.</p>')
    story.docs.commit()
    story.run()
    assert sorted(story.words()) == [
        "guide/heron.md", "guide/whale.md", "more.html", "top.md", "wiki", "wiki/Lynx",
    ]  # fmt: skip
    story.run(force=1)
    assert story.counts() == {"unchanged": 6, "requests": 6}
    assert story.asked() == (2, 4, {"Home": 200, "Lynx": 200})


def test_a_plan_lists_the_files_and_follows_the_links_of_the_wiki(story: WikiStory):
    story.run()
    story.docs.write("top.md", "# Wolverine\n\nA wolverine.")
    story.docs.remove("guide/heron.md")
    story.docs.commit()
    plan = story.crawl._ask("plan", "--format", "json", "--limit", "100")
    [found] = json.loads(plan)
    asked = {story.name(row["url"]): row["conditional"] for row in found["asked"]}
    assert asked == {
        "top.md": False, "wiki": True, "wiki/Lynx": True, "wiki/Raven": True, "wiki/Marten": True,
    }  # fmt: skip
    assert [story.name(row["url"]) for row in found["removed"]] == ["guide/heron.md"]
    skipped = {story.name(row["url"]): row["why"] for row in found["skipped"]}
    assert skipped == {
        "guide/whale.md": "unchanged", "guide/heron.md": "not in the listing",
    }  # fmt: skip
    assert found["note"] is None


@pytest.mark.parametrize("resume", [0, 1])
def test_a_killed_crawl_is_gone_on_with_or_repeated(story: WikiStory, resume: int):
    """Kill it after some pages of both kinds were written."""
    for number in range(40):
        link = f'<a href="/{NAME}/wiki/Hidden">More</a>'  # links of files are not followed
        story.docs.write(f"more/{number}.html", f"<p>The words of page {number}.</p>{link}")
        story.docs.wiki[f"P{number}"] = page(f"sheet{number}")
    story.docs.wiki["Hidden"] = page("hidden")
    story.docs.wiki["Home"] += page("all", *(f"P{number}" for number in range(40)))
    story.docs.commit()
    settings = [f"{name}={value}" for name, value in story.peer.web_settings.items()]
    words = [word for setting in settings for word in ("-s", setting)]
    killed = ["runner", "kill", "84", "crawl", "github", "-a", f"url={story.front}", *words]
    story.crawl.run(*killed, expect=-9)
    story.crawl.bury()
    story.run(resume=resume)
    assert set(story.words().values()) <= {"new"} | (set() if resume else {"unchanged"})
    assert len(story.words()) == 87
    story.run()
    assert story.counts() == {"unchanged": 87, "requests": 44, "notModified": 87}
    assert story.asked()[:2] == (1, 0)


def test_an_empty_page_is_a_fault_of_the_server_and_an_empty_file_is_news(story: WikiStory):
    story.run()
    empty = Answer(200, b"", {"Content-Type": "text/html"})
    story.peer.intercept = lambda place, path: empty if path.endswith("/wiki/Marten") else None
    story.docs.write("top.md", "")
    story.docs.commit()
    story.run(expect=3)  # as on the web
    assert story.words()["wiki/Marten"] == "failed"
    assert story.words()["top.md"] == "modified"
    assert (story.hits("marten"), story.hits("badger")) == (["wiki/Marten"], [])


@pytest.mark.parametrize("count", [1, 4])
def test_after_a_change_of_settings_files_are_read_at_once_and_pages_in_turn(
    story: WikiStory, count: int
):
    story.settings |= {"RE_EXTRACT_PER_RUN": str(count), "SNAPSHOT_STORE": "off"}
    table = f'[sources.docs]\nkind = "github"\nurl = "{story.front}"\n'
    story.crawl.declare(table)
    story.run(source="docs")
    story.crawl.declare(f'{table}drop_selectors = ["h1"]\n')
    story.run(source="docs")
    api, raw, wiki = story.asked()
    assert (api, raw) == (1, 3)
    assert sorted(wiki.values()) == [200] * count + [304] * (4 - count)


def test_reindex_orders_a_page_of_the_wiki_like_one_of_a_site(story: WikiStory):
    story.run()
    story.crawl.run("reindex", "--url", f"{story.front}/wiki/Lynx")
    story.run()
    assert story.asked() == (1, 0, SAME | {"Lynx": 200})
    found = story.crawl.run("reindex", "--url", f"{story.front}/blob/HEAD/no.md", expect=1)
    assert "the next run of" in found.err
    story.docs.wiki["Egret"] = page("egret")
    found = story.crawl.run("reindex", "--url", f"{story.front}/wiki/Egret")
    assert "registers" in found.out
    story.run()
    assert story.hits("egret") == ["wiki/Egret"]


@pytest.mark.parametrize(
    ("where", "to", "complete"),
    [("wiki", "wiki", False), ("wiki", "blob/HEAD", True), ("file", "wiki", True)],
)
def test_a_link_that_is_too_long_matters_where_links_are_followed(
    story: WikiStory, where: str, to: str, complete: bool
):
    link = f'<a href="/{NAME}/{to}/{"a" * 3000}">long</a>'
    if where == "wiki":
        story.docs.wiki["Marten"] += link
    else:
        story.docs.write("more.html", f"<p>The words of more.</p>{link}")
        story.docs.commit()
    story.run(expect=0 if complete else 3)
    assert len(story.words()) == (7 if where == "wiki" else 8)


def test_due_crawls_files_and_wiki_as_a_whole(story: WikiStory):
    story.run()
    story.docs.wiki["Marten"] = page("pine marten")
    story.peer.log.clear()
    story.crawl.run("due")
    assert story.counts() == {"modified": 1, "unchanged": 6, "requests": 4, "notModified": 6}
    assert story.asked() == (1, 0, SAME | {"Marten": 200})


def test_the_same_repository_without_its_wiki_is_the_same_source_and_says_so(story: WikiStory):
    story.run()
    settings = {"LOG_LEVEL": "WARNING"} | story.peer.web_settings
    result = story.crawl(f"{story.front}/tree/HEAD", spider="github", settings=settings)
    former, now = f"{story.front}/wiki before", f"is from {story.front}/tree/HEAD now"
    assert former in result.err
    assert now in result.err
    assert story.counts() == {"unchanged": 3, "excluded": 4, "notModified": 3}


def test_pages_of_equal_bytes_are_read_each_by_itself(story: WikiStory):
    """The extraction of a file may serve another file, and no page of the web."""
    both = f'<p>Words of both.</p><a href="/{NAME}/wiki/Hidden">more</a>'
    story.docs.wiki = {"Home": page("otter", "Lynx"), "Hidden": page("hidden")}
    story.docs.write("same.html", both)
    story.docs.commit()
    story.run()
    assert "wiki/Hidden" not in story.words()
    headers = {"Content-Type": "text/html; charset=utf-8"}
    same = Answer(200, both.encode(), headers)
    story.peer.intercept = lambda place, path: same if path.endswith("/wiki/Lynx") else None
    story.docs.wiki["Home"] = page("otter again", "Lynx")
    story.run()
    assert story.words()["wiki/Lynx"] == "clone"
    assert story.words()["wiki/Hidden"] == "new"
    looked_up = story.crawl.rows("SELECT url FROM record WHERE media IS NOT NULL")
    assert sorted(story.name(url) for (url,) in looked_up) == sorted([*FILES, "same.html"])
