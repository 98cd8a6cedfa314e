"""Every field of a job's configuration and filters takes effect in its crawl (R2-21, R2-22)."""

import json
import time
from pathlib import Path

import pytest

from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.sources.jobs import JobDefinition, JobError
from tests.crawls.commands import Crawl
from tests.site_server import Page, Site, html

pytestmark = [pytest.mark.long(but=3), pytest.mark.sqlite]


def crawl_job(
    crawl: Crawl,
    site: Site,
    config: dict[str, object] | None = None,
    filters: dict[str, object] | None = None,
    *,
    expect: int = 0,
) -> set[str]:
    """Store a job and crawl it; return the paths that were requested."""
    now = int(time.time())
    body = {
        "name": "docs",
        "seed_urls": [site.url("/")],
        "config": {"crawl_delay_ms": 0, **(config or {})},
        "filters": filters or {},
    }
    definition = JobDefinition.checked(body, now)
    assert isinstance(crawl.registry, Path)
    database = registry_database(crawl.registry)
    connection = database.open()
    try:
        JobStore(database, connection).create(definition, (), now)
    finally:
        connection.close()
    crawl.environment |= {"ALLOW_NETWORKS": "127.0.0.0/8", "RETRY_TIMES": "0"}
    crawl.run("crawl", "site", "-a", "source=docs", expect=expect)
    return {request.path for request in site.log} - {"/robots.txt"}


def publish(site: Site) -> None:
    site.pages["/"] = html("Home", "/a", "/b/c")
    site.pages["/a"] = html("A", "/a/deep", text="alpha")
    site.pages["/a/deep"] = html("Deep", "/a/deeper", text="deep")
    site.pages["/a/deeper"] = html("Deeper", text="deeper")
    site.pages["/b/c"] = html("B", text="beta")


@pytest.mark.covers("R2-21")
def test_the_delay_is_kept_between_two_requests(crawl: Crawl, site: Site):
    times: list[float] = []

    def note() -> bool:
        times.append(time.monotonic())
        return True

    site.pages["/"] = Page(html("Home", "/1", "/2", "/3"), until=note)
    for n in (1, 2, 3):
        site.pages[f"/{n}"] = Page(html(f"Page {n}"), until=note)

    crawl_job(crawl, site, {"crawl_delay_ms": 400})

    assert len(times) == 4
    assert times[-1] - times[0] > 0.9, "three delays; a busy server may note the first one late"


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize("respected", [True, False])
def test_robots_txt_is_respected_or_not_asked_for(crawl: Crawl, site: Site, respected: bool):
    publish(site)
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /b/", content_type="text/plain")

    paths = crawl_job(crawl, site, {"respect_robots_txt": respected})

    assert ("/b/c" in paths) is not respected
    assert site.count("/robots.txt") == respected


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize("obeys", [True, False])
def test_robots_txt_is_judged_by_the_agent_of_the_job(crawl: Crawl, site: Site, obeys: bool):
    publish(site)
    rules = "User-agent: Jobber\nDisallow: /b/\n\nUser-agent: smartcrawl\nDisallow: /a\n"
    site.pages["/robots.txt"] = Page(rules, content_type="text/plain")
    config = {"user_agent": "Jobber/7", "respect_robots_txt": obeys}
    asked = crawl_job(crawl, site, config)
    assert ("/b/c" in asked, "/a" in asked) == (not obeys, True)

    noted = crawl.run("reindex", "--url", site.url("/b/c"))

    assert ("no run may fetch it" in noted.err) is obeys
    if obeys:
        answers = [crawl.run("why", site.url(path), "--format", "json") for path in ("/a", "/b/c")]
        found = [json.loads(answer.out)["records"][0]["robots"] for answer in answers]
        assert [rule["allowed"] for rule in found] == [True, False]
        assert [rule["obeyed"] for rule in found] == [True, True]
        (plan,) = json.loads(crawl.run("plan", "--format", "json").out)
        assert site.url("/a") in str(plan["asked"])
        assert site.url("/b/c") not in str(plan["asked"])


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, {"/", "/old", "/new", "/newest"}),
        ({"follow_redirects": False}, {"/", "/old"}),
        ({"follow_redirects": False, "max_redirects": 20}, {"/", "/old"}),
        ({"max_redirects": 0}, {"/", "/old"}),
        ({"max_redirects": 1}, {"/", "/old", "/new"}),
    ],
)
def test_redirects_are_followed_as_often_as_permitted(
    crawl: Crawl, site: Site, config: dict[str, object], expected: set[str]
):
    site.pages["/"] = html("Home", "/old")
    site.pages["/old"] = Page(redirect="/new")
    site.pages["/new"] = Page(redirect="/newest")
    site.pages["/newest"] = html("Newest", text="arrived")

    assert crawl_job(crawl, site, config) == expected


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize("most", [None, 5, 6])
def test_the_limit_of_a_job_is_the_limit(crawl: Crawl, site: Site, most: int | None):
    """A chain that is longer is an error of the server; its last address waits, and stays."""
    hops = most or 5
    site.pages["/"] = html("Home", "/0")
    for n in range(hops + 3):
        site.pages[f"/{n}"] = Page(redirect=f"/{n + 1}")
    site.pages[f"/{hops + 3}"] = html("End", text="arrived")
    asked = {"/", *(f"/{n}" for n in range(hops + 1))}

    assert crawl_job(crawl, site, {"max_redirects": most} if most else {}) == asked

    pages = crawl.pages()
    assert set(pages) == asked
    assert [pages[path]["httpStatusCode"] for path in ("/0", "/1", f"/{hops}")] == [1004, 301, 301]
    site.clear()
    crawl.run("crawl", "site", "-a", "source=docs")
    assert {request.path for request in site.log} - {"/robots.txt"} == asked


@pytest.mark.covers("R2-21", "R0-41")
def test_a_redirect_within_a_visit_counts_as_a_hop_of_its_chain(crawl: Crawl, site: Site):
    site.pages["/"] = html("Home", "/old")
    site.pages["/old"] = Page(redirect="/old/")
    site.pages["/old/"] = Page(redirect="/dir")
    site.pages["/dir"] = Page(redirect="/dir/")
    site.pages["/dir/"] = html("Dir", text="arrived")

    assert crawl_job(crawl, site, {"max_redirects": 2}) == {"/", "/old", "/old/", "/dir"}


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize(("seconds", "outcome"), [(1, "failed"), (30, "new")])
def test_an_answer_that_takes_longer_than_the_timeout_fails(
    crawl: Crawl, site: Site, seconds: int, outcome: str
):
    publish(site)
    site.pages["/b/c"] = Page(html("B", text="beta"), delay=2.5)

    crawl_job(crawl, site, {"timeout_seconds": seconds}, expect=3 if outcome == "failed" else 0)

    outcomes = crawl.outcomes()
    assert (outcomes["/a"], outcomes["/b/c"]) == ("new", outcome)


@pytest.mark.covers("R2-21")
def test_each_request_has_the_user_agent(crawl: Crawl, site: Site):
    publish(site)

    crawl_job(crawl, site, {"user_agent": "Jobber/7 (+https://example.com/bot)"})

    agents = {request.headers["user-agent"] for request in site.log}
    assert agents == {"Jobber/7 (+https://example.com/bot)"}


@pytest.mark.covers("R2-21", "R2-25")
@pytest.mark.parametrize("text", ["a\r\nX-Injected: 1", "a\tb", "a\x00b", "a\x1bb", "a\x7f"])
def test_a_user_agent_with_control_characters_is_no_job(crawl: Crawl, site: Site, text: str):
    with pytest.raises(JobError) as caught:
        crawl_job(crawl, site, {"user_agent": text})

    assert (caught.value.code, caught.value.field) == ("INVALID_CONFIG", "user_agent")
    assert text not in caught.value.reason
    assert not crawl.registry.exists()


@pytest.mark.covers("R2-21")
@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"max_depth": 1}, {"/", "/a", "/b/c"}),
        ({"max_depth": 2}, {"/", "/a", "/b/c", "/a/deep"}),
        ({}, {"/", "/a", "/b/c", "/a/deep", "/a/deeper"}),
    ],
)
def test_pages_below_the_depth_are_not_requested(
    crawl: Crawl, site: Site, config: dict[str, object], expected: set[str]
):
    publish(site)

    assert crawl_job(crawl, site, config) == expected


@pytest.mark.covers("R2-21")
def test_no_more_pages_are_requested_than_a_run_may_have(crawl: Crawl, site: Site):
    publish(site)

    assert len(crawl_job(crawl, site, {"max_pages": 2}, expect=3)) == 2
    assert "max_pages" in crawl.runs()[0]["reasons"]


@pytest.mark.covers("R2-22")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"url_patterns": ["/a"]}, {"/", "/a", "/a/deep", "/a/deeper"}),
        ({"excluded_patterns": ["/deep$"]}, {"/", "/a", "/b/c"}),
        ({"url_patterns": ["/a"], "excluded_patterns": ["deeper"]}, {"/", "/a", "/a/deep"}),
        ({"allowed_domains": ["127.0.0.1"]}, {"/", "/a", "/b/c", "/a/deep", "/a/deeper"}),
    ],
)
def test_filters_decide_which_pages_are_requested(
    crawl: Crawl, site: Site, filters: dict[str, object], expected: set[str]
):
    publish(site)

    assert crawl_job(crawl, site, None, filters) == expected


@pytest.mark.covers("R2-22")
def test_other_domains_are_not_requested(crawl: Crawl, site: Site):
    """Without allowed_domains the hosts of the seeds count; with them, those domains alone."""
    with Site() as other:
        other.pages["/x"] = html("X", text="elsewhere")
        site.pages["/"] = html("Home", other.url("/x"), "/a")
        site.pages["/a"] = html("A")

        assert crawl_job(crawl, site) == {"/", "/a"}
        assert other.log == []
