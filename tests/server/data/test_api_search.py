"""The search over HTTP finds what the command finds, in each of the three indexes (E-16)."""

from collections.abc import Iterator
from typing import Any

import pytest

from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.server.answers import Hits
from tests import servers
from tests.crawls.commands import Crawl
from tests.server.api_client import error_of
from tests.server.data.library import Library
from tests.site_server import Page, Site, html

SEARCH = "/api/Search"


@pytest.fixture
def searched(request: pytest.FixtureRequest, site: Site, crawl: Crawl) -> Iterator[Library]:
    """The API over a site that was crawled as two sources; one page of it is lost."""
    run: dict[str, object] = {}
    if getattr(request, "param", None) == "elasticsearch":
        server: servers.Elasticsearch = request.getfixturevalue("elasticsearch")
        prefix: str = request.getfixturevalue("elasticsearch_prefix")
        settings = {"ELASTICSEARCH_URL": server.url, "ELASTICSEARCH_INDEX_PREFIX": prefix}
        crawl.environment |= settings
        run["elasticsearch"] = ElasticsearchTarget(server.url, prefix)
    fill(site, crawl)
    library = Library(crawl.environment.get("REGISTRY_URL", crawl.registry), crawl.folder)
    library.app = library.server(**run)
    yield library
    library.close()


def fill(site: Site, crawl: Crawl) -> None:
    site.pages["/"] = html("Harbour", "/a", "/b", "/c", text="a harbour")
    for name in "abc":
        site.pages[f"/{name}"] = html(
            f"Lantern {name}", text=f"the lantern {name} " + f"stands at the quay of {name} " * 4
        ).replace("<ul>", f'<img src="/{name}.png" alt="{name}" width="640" height="480"><ul>')
    crawl.declare(
        "".join(
            f"[sources.{name}]\nkind = 'site'\nseeds = ['{site.url('/')}']\n"
            f"excluded_patterns = ['{excluded}']\n"
            for name, excluded in (("most", "/none"), ("few", "/[bc]$"))
        )
    )
    for source in ("most", "few"):
        crawl(source=source)
    site.pages["/c"] = Page(status=500)
    crawl(source="most", settings={"RETRY_TIMES": 0}, expect=None)


@pytest.mark.long
@pytest.mark.covers("E-16", "R0-66", "R0-69", "G-03")
@pytest.mark.parametrize(
    ("stack", "searched"),
    [("sqlite", "embedded"), ("postgres", "embedded"), ("sqlite", "elasticsearch")],
    indirect=True,
)
def test_the_search_finds_what_the_command_finds(searched: Library, crawl: Crawl):
    def read(**query: object) -> dict[str, Any]:
        found: dict[str, Any] = searched.read(SEARCH, params=query)
        Hits.model_validate(found)
        return found

    plain = read(q="lantern")
    nested = read(q="lantern", nestImages="true")

    assert plain["hits"] == crawl.search("lantern")
    assert nested["hits"] == crawl.search("lantern", "--nest-images")
    assert {hit["title"] for hit in plain["hits"]} == {"Lantern a", "Lantern b", "Lantern c"}
    assert {hit["title"] for hit in plain["hits"] if hit["lost"]} == {"Lantern c"}
    assert all(hit["lastChecked"] and "images" not in hit for hit in plain["hits"])
    assert {image["src"][-6:] for hit in nested["hits"] for image in hit["images"]} == {
        "/a.png", "/b.png", "/c.png",
    }  # fmt: skip
    assert plain["meant"] is None
    assert read(q="lantren quay")["meant"] == "lantern quay"

    pages = [read(q="lantern", limit=1, offset=place)["hits"] for place in range(4)]
    assert [len(page) for page in pages] == [1, 1, 1, 0]
    assert [page[0] for page in pages[:3]] == plain["hits"]
    assert read(q="lantern", limit=2, offset=1)["pagination"] == {"offset": 1, "limit": 2}

    assert [hit["title"] for hit in read(q="lantern", collection="few")["hits"]] == ["Lantern a"]
    counted = read(q="lantern type:html", facets="1", limit=1)
    assert counted["facets"] | {"date": []} == {
        "total": 3, "complete": True, "language": [{"value": "en", "count": 3}],
        "source": [{"value": "most", "count": 3}, {"value": "few", "count": 1}],
        "type": [{"value": "html", "count": 3}], "date": [],
    }  # fmt: skip
    assert sum(one["count"] for one in counted["facets"]["date"]) >= 3
    assert crawl.search("lantern type:html", "--facets", "--limit", "1") == {
        name: counted[name] for name in ("hits", "facets")
    }
    assert {hit["url"] for hit in read(q="lant", prefix="1")["hits"]} == {
        hit["url"] for hit in plain["hits"]
    }
    assert crawl.search("lant", "--prefix") == read(q="lant", prefix="true")["hits"]
    latest = read(q="lantern", sort="date")["hits"]
    assert [hit["date"] for hit in latest] == sorted((hit["date"] for hit in latest), reverse=True)
    assert crawl.search("lantern", "--sort", "date") == latest
    assert {hit["url"] for hit in latest} == {hit["url"] for hit in plain["hits"]}
    assert read(q="lantern type:pdf", facets="true")["facets"]["total"] == 0
    assert read(q="nowhere-at-all")["hits"] == []
    for odd in ("?!", '"', "-", "site:", "x" * 4_096):
        read(q=odd)


WRONG = {
    "missing": ({}, "q"),
    "empty": ({"q": ""}, "q"),
    "too long": ({"q": "x" * 4_097}, "q"),
    "control character": ({"q": "a\x1bb"}, "q"),
    "no limit": ({"q": "a", "limit": "0"}, "limit"),
    "large limit": ({"q": "a", "limit": "1001"}, "limit"),
    "odd limit": ({"q": "a", "limit": "1_0"}, "limit"),
    "offset below 0": ({"q": "a", "offset": "-1"}, "offset"),
    "large offset": ({"q": "a", "offset": "1001"}, "offset"),
    "switch": ({"q": "a", "nestImages": "yes"}, "nestImages"),
    "mode": ({"q": "a", "mode": "both"}, "mode"),
    "facets": ({"q": "a", "facets": "yes"}, "facets"),
    "sort": ({"q": "a", "sort": "newest"}, "sort"),
    "prefix": ({"q": "a", "prefix": "yes"}, "prefix"),
    "sort by date and meaning": ({"q": "a", "sort": "date", "mode": "hybrid"}, "sort"),
    "type": ({"q": "a type:word"}, "q"),
    "date": ({"q": "a before:now"}, "q"),
    "language": ({"q": "-language:x"}, "q"),
    "vector": ({"q": "a", "mode": "vector"}, "mode"),
    "unknown": ({"q": "a", "colection": "x"}, "colection"),
    "no such source": ({"q": "a", "collection": "x"}, "collection"),
    "no such source in the query": ({"q": "a in:x"}, "q"),
    "no such source to leave out": ({"q": "a -in:x"}, "q"),
    "twice": ([("q", "a"), ("q", "b")], "q"),
}


@pytest.mark.long(but=12)
@pytest.mark.covers("E-16")
@pytest.mark.parametrize(("query", "field"), WRONG.values(), ids=WRONG)
def test_a_wrong_search_is_refused(library: Library, query: Any, field: str):
    answer = library.get(SEARCH, params=query)

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "INVALID_INPUT")
    assert error["details"]["field"] == field


@pytest.mark.covers("E-16")
def test_a_nul_is_refused_and_vectors_name_their_setting(library: Library):
    nul = library.get(f"{SEARCH}?q=a%00b")
    surrogate = library.get(f"{SEARCH}?q=a%ED%A0%80b")
    vector = error_of(library.get(SEARCH, params={"q": "a", "mode": "vector"}))

    assert nul.status_code == 400
    assert surrogate.status_code == 200
    assert "EMBEDDER" in vector["details"]["reason"]


def test_a_query_of_an_unknown_source_is_refused_with_the_sentence_of_the_command(library: Library):
    unknown = error_of(library.get(SEARCH, params={"q": "a in:x"}))

    assert unknown["details"]["reason"].startswith("no source is called 'x'; known: ")


def test_a_query_of_a_site_that_is_no_address_is_refused(library: Library):
    refused = error_of(library.get(SEARCH, params={"q": "a -site:/srv/notes"}))

    assert refused["details"] == {
        "field": "q",
        "reason": "site:'/srv/notes' is a path: write site:file:///srv/notes",
    }


@pytest.mark.covers("E-16")
def test_an_index_that_is_away_is_unavailable(library: Library):
    library.app = library.server(elasticsearch=ElasticsearchTarget("http://127.0.0.1:1", "none"))

    answer = library.get(SEARCH, params={"q": "a"})

    assert (answer.status_code, error_of(answer)["code"]) == (503, "SERVICE_UNAVAILABLE")
    assert int(answer.headers["Retry-After"]) > 0
    assert error_of(answer)["details"]["reason"] == "the search index is not available"
