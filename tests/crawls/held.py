"""Pages that fail while content of them is held, and what has to stay of them."""

from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

#: An answer of each kind, with the status that the record shows, its word where content is held,
#: lostCount and goneCount ("What ages" in docs/decisions.md).
HTTP_ERRORS = {
    "404": (Page("gone", status=404), 404, "lost", 1, 1),
    "410": (Page("gone", status=410), 410, "lost", 1, 1),
    "403": (Page("no", status=403), 403, "lost", 1, 0),
    "401": (Page("no", status=401), 401, "lost", 1, 0),
    "451": (Page("no", status=451), 451, "lost", 1, 0),
    "500": (Page(html("Oops", "/never"), status=500), 500, "failed", 0, 0),
    "503": (Page("later", status=503), 503, "failed", 0, 0),
    "429": (Page("slowly", status=429), 429, "failed", 0, 0),
    "408": (Page("too late", status=408), 408, "failed", 0, 0),
    "204": (Page("", status=204), 204, "lost", 1, 0),
    "206": (Page("part", status=206), 206, "lost", 1, 0),
    "nowhere": (Page(status=302), 1003, "lost", 1, 0),
}
#: Without retries, impatient, with little room for a body.
QUICK = {"RETRY_TIMES": 0, "DOWNLOAD_TIMEOUT": 1, "DOWNLOAD_MAXSIZE": 100_000}


def hubs(site: Site, names: list[str], others: int = 0) -> None:
    """A page for each name, each leading to a child that nothing else leads to."""
    site.pages["/"] = html(
        "Home", *(f"/{name}" for name in names), *(f"/other/{n}" for n in range(others))
    )
    for name in names:
        site.pages[f"/{name}"] = html(name, f"/{name}/child", text=f"content of hub{name}")
        site.pages[f"/{name}/child"] = html(f"Child of {name}", text=f"child of hub{name}")
    for n in range(others):
        site.pages[f"/other/{n}"] = html(f"Other {n}", text=f"filler {n}")


def shows_held(
    crawl: Crawl, expected: dict[str, tuple[str, int, int]], before: dict[str, dict]
) -> None:
    """`expected` has the word, lostCount and goneCount of each page that failed."""
    names, pages = list(expected), crawl.pages()
    held = ("httpEtag", "contentHash", "textHash", "bodyHash", "lastChanged", "lastIndexed")
    for name in names:
        page, child = pages[f"/{name}"], pages[f"/{name}/child"]
        told = (page["lastOutcome"], page["lostCount"], page["goneCount"])
        assert told == expected[name], page
        assert (page["status"], page["effectiveStatus"]) == ("Error", 200)
        assert page["errorMessage"]
        assert page["visitedRun"] == 2
        assert {key: page[key] for key in held} == {key: before[f"/{name}"][key] for key in held}
        assert (child["lastOutcome"], child["reachedRun"]) == ("unchanged", 2), child
        assert child["orphanAge"] == 0
    hits = {hit["url"]: hit for hit in crawl.search("content", "--limit", "100")}
    assert {record["url"] for path, record in pages.items() if path[1:] in names} == set(hits)
    assert all(hit["lost"] for hit in hits.values())
    assert "/never" not in pages
    assert crawl.counts_add_up()


def shows_recovered(crawl: Crawl, site: Site, names: list[str]) -> None:
    pages = crawl.pages()
    for name in names:
        page = pages[f"/{name}"]
        assert (page["status"], page["lastOutcome"]) == ("Indexed", "unchanged"), page
        assert (page["lastStatusCode"], page["errorMessage"]) == (304, None)
        assert (page["lostCount"], page["goneCount"]) == (0, 0)
        assert site.count(f"/{name}") == 1
    assert not any(hit["lost"] for hit in crawl.search("content", "--limit", "100"))
