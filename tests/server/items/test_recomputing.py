"""A rebuild after a change of the normalization: new ids, and one record of each address (G-34)."""

import json
from typing import Any

import pytest

from smartcrawl.model.urls import Trackers, normalize_url, url_digest, url_item_id
from tests import servers
from tests.crawls import indexes
from tests.crawls.commands import Crawl
from tests.server.api_client import ask
from tests.server.data.library import Library
from tests.server.items.conftest import REBUILD
from tests.site_server import Site, html

every_index = pytest.mark.parametrize(
    ("stack", "changed"),
    [("sqlite", "embedded"), ("postgres", "embedded"), ("sqlite", "elasticsearch")],
    indirect=True,
)
TODAY = Trackers(("utm_", "ref"))


class Changed:
    """A source that was crawled before ``ref`` became a tracker."""

    def __init__(self, site: Site, crawl: Crawl) -> None:
        self.site = site
        self.crawl = crawl

    def due(self) -> None:
        self.crawl.run("due", "--source", "one")

    def rebuild(self) -> None:
        """Order a rebuild, have it marked, and crawl what is due."""
        library = Library(
            self.crawl.environment.get("REGISTRY_URL", self.crawl.registry), self.crawl.folder
        )
        answer = ask(library.app, "POST", REBUILD, json={})
        library.close()
        assert answer.status_code == 202, answer.text
        self.crawl.rows("DELETE FROM rebuild")
        self.due()

    def ids(self) -> dict[str, str]:
        """The paths of living pages by their ids."""
        return {hit["id"]: hit["url"].removeprefix(self.site.url("")) for hit in self.hits("word")}

    def hits(self, query: str) -> list[dict[str, Any]]:
        self.crawl._told.clear()
        return self.crawl.search(query, "--limit", "100")

    def id_of(self, path: str) -> str:
        return url_item_id("url", url_digest(normalize_url(self.site.url(path), TODAY)))

    def agree(self) -> None:
        """Check that the index has what the registry has, and nothing else."""
        if "ELASTICSEARCH_URL" in self.crawl.environment:
            living = [
                hit for hit in indexes.hits(self.crawl.environment)
                if not hit["_source"].get("deleted")
            ]  # fmt: skip
            assert len(living) == len(self.hits("word"))
        self.crawl.run("audit")

    def evidence(self) -> list[tuple[int, int]]:
        return [(int(run), int(rule)) for run, rule in self.crawl.rows(
            "SELECT run, rule FROM evidence ORDER BY no"
        )]  # fmt: skip


@pytest.fixture
def changed(request: pytest.FixtureRequest, site: Site, crawl: Crawl) -> Changed:
    if request.param == "elasticsearch":
        server: servers.Elasticsearch = request.getfixturevalue("elasticsearch")
        crawl.environment |= {
            "ELASTICSEARCH_URL": server.url,
            "ELASTICSEARCH_INDEX_PREFIX": request.getfixturevalue("elasticsearch_prefix"),
        }
    site.pages["/"] = html("Home", "/a", "/a?ref=1", "/b?ref=2", text="word home")
    site.pages["/a"] = html("A", text="word alpha")
    site.pages["/a?ref=1"] = html("A", text="word alpha another")
    site.pages["/b"] = site.pages["/b?ref=2"] = html("B", text="word beta")
    crawl.declare(f"[sources.one]\nseeds = ['{site.url('/')}']\n")
    crawl(source="one")
    crawl.environment["TRACKING_PARAM_PREFIXES"] = "utm_, ref"
    return Changed(site, crawl)


@pytest.mark.long(but=1)
@every_index
@pytest.mark.covers("E-14", "G-34", "R0-68")
def test_ids_are_those_of_today_and_what_collides_is_one(changed: Changed):
    crawl = changed.crawl
    pinned = changed.site.url("/a?ref=1")
    crawl.rows(
        f"INSERT INTO pin (no, source, at) SELECT no, source, 1 FROM record WHERE url = '{pinned}'"
    )
    before = {hit["id"] for hit in changed.hits("word")}
    assert len(before) == 4
    changed.rebuild()

    assert changed.ids() == {
        changed.id_of("/"): "/", changed.id_of("/a"): "/a", changed.id_of("/b"): "/b?ref=2",
    }  # fmt: skip
    assert [hit["url"] for hit in changed.hits("another")] == []
    changed.agree()
    [(run, rule)] = changed.evidence()
    assert rule == 4  # canonical
    [(detail,)] = crawl.rows("SELECT detail FROM evidence")
    assert json.loads(detail)["canonical"] == changed.site.url("/a")
    assert crawl.rows("SELECT r.url FROM pin JOIN record r USING (no)") == [
        (changed.site.url("/a"),)
    ]
    assert crawl.rows("SELECT source FROM recompute") == []

    changed.site.log.clear()
    changed.rebuild()  # nothing is left to do
    assert changed.evidence() == [(run, rule)]
    assert "/a?ref=1" not in [r.path for r in changed.site.log]

    crawl.run("undo", str(run))
    assert [hit["url"] for hit in changed.hits("another")] == [pinned]
    changed.agree()


@pytest.mark.long(but=1)
@every_index
@pytest.mark.covers("E-14", "G-34")
def test_records_that_a_crawl_has_made_twice_are_merged_into_the_older(changed: Changed):
    """The first crawl with other trackers does not know the pages again."""
    crawl = changed.crawl
    crawl(source="one", force=1)
    twice = changed.site.url("/b?ref=2")
    numbers = [
        no for (no,) in crawl.rows(f"SELECT no FROM record WHERE url = '{twice}' ORDER BY no")
    ]
    assert len(numbers) == 2
    stories = crawl.rows(f"SELECT count(*) FROM event WHERE record = {numbers[0]}")

    changed.rebuild()

    ids = changed.ids()
    assert ids[changed.id_of("/b")] == "/b?ref=2"
    assert len(ids) == len(set(ids.values())) == 3
    changed.agree()
    key = url_digest(normalize_url(twice, TODAY)).hex()
    standing = crawl.rows(
        f"SELECT no, standing FROM record JOIN state USING (no) WHERE url = '{twice}' ORDER BY no"
    )
    assert [(no, int(s) == 2) for no, s in standing] == [(numbers[0], True), (numbers[1], False)]
    assert crawl.rows(f"SELECT lower(hex(id)) FROM record WHERE no = {numbers[0]}") == [(key,)]
    assert crawl.rows(f"SELECT count(*) FROM event WHERE record = {numbers[0]}") >= stories
