"""Addresses that are posted over HTTP: checked, counted, and kept for the next run (E-08)."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.model.urls import url_hash
from smartcrawl.registry.items import stored_row_of_documents_source
from smartcrawl.registry.runs.runs import RunRequest, open_run_row
from smartcrawl.server.answers import FrontierStats, PostedCounts
from smartcrawl.server.jobs.store import JobStore
from smartcrawl.sources.jobs import JobDefinition
from tests.registry.build import with_iso_times
from tests.server.api_client import ask, error_of
from tests.server.data.library import NOW, Library

PATH = "/api/v1/frontier/urls"
KEY = {"Idempotency-Key": "7c9e6679-7425-40de-944b-e07fc1f90ae7"}
SOURCES = """
[sources.docs]
seeds = ["https://docs.example.com/"]
excluded_patterns = ["/print/"]
[sources.blog]
seeds = ["https://blog.example.com/"]
url_patterns = ["/$", "/post/"]
[sources.wide]
seeds = ["https://a.wide.example/"]
allowed_domains = ["wide.example"]
[sources.inner]
seeds = ["https://b.wide.example/"]
"""


@pytest.fixture(autouse=True)
def sources(library: Library, tmp_path: Path) -> None:
    (tmp_path / "sources.toml").write_text(SOURCES)


def post(library: Library, *urls: Any, app: Any = None, **given: Any) -> httpx.Response:
    entries = [{"url": url} if isinstance(url, str) else url for url in urls]
    return ask(app or library.app, "POST", PATH, json={"urls": entries}, **given)


def counts(library: Library, *urls: Any, **given: Any) -> tuple[int, int, int]:
    """Post addresses; return how many were added, duplicates, and blocked."""
    answer = post(library, *urls, **given)
    assert answer.status_code == 200, answer.text
    found = PostedCounts.model_validate(answer.json())
    assert found.added + found.duplicates + found.blocked == len(urls)
    results = [each.result for each in found.urls]
    words = ("added", "duplicate", "blocked")
    assert [results.count(word) for word in words] == [found.added, found.duplicates, found.blocked]
    assert all(
        each.reason and bool(each.sources) is (each.result != "blocked") for each in found.urls
    )
    return found.added, found.duplicates, found.blocked


ROWS = """
SELECT r.url, s.next_visit, s.status, s.standing, s.last_checked
  FROM record r JOIN state s USING (no)
"""


def pending(library: Library) -> list[tuple[Any, ...]]:
    rows = library.execute("SELECT source, url, priority FROM pending_pin ORDER BY url, source")
    return [tuple(row) for row in rows]


def one(url: str = "https://docs.example.com/a", **more: Any) -> dict[str, Any]:
    return {"url": url, **more}


@pytest.mark.covers("E-08", "R2-33", "R2-34", "R2-35")
def test_new_addresses_are_kept_for_the_source_whose_scope_has_them(library: Library):
    metadata = {"source": "sitemap", "discovered_at": "2024-01-20T10:00:00Z"}
    found = counts(
        library,
        one(priority=1, metadata=metadata),
        "https://BLOG.example.com:443/post/1#top",
        one("https://docs.example.com/b", priority=10.0, metadata={}),  # an integer in JSON Schema
    )

    assert found == (3, 0, 0)
    assert pending(library) == [
        ("blog", "https://blog.example.com/post/1", 5),
        ("docs", "https://docs.example.com/a", 1),
        ("docs", "https://docs.example.com/b", 10),
    ]


@pytest.mark.covers("R2-34")
def test_an_address_that_is_known_or_sent_twice_is_a_duplicate(library: Library):
    known = "https://docs.example.com/known"
    library.put("https://docs.example.com/first")
    library.execute("UPDATE source SET name = 'docs', declared = TRUE WHERE no = 1")
    library.put(known)

    assert counts(library, known, f"{known}?utm_source=x", "https://docs.example.com/new") == (
        1,
        2,
        0,
    )
    assert counts(library, "https://docs.example.com/new/", one(priority=2), one()) == (1, 2, 0)
    assert pending(library) == [
        ("docs", "https://docs.example.com/a", 2),
        ("docs", "https://docs.example.com/new", 5),
    ]


@pytest.mark.covers("RD-16", "R2-34")
def test_a_known_address_becomes_due_and_nothing_else_of_it_changes(library: Library):
    known, due, other = (f"https://docs.example.com/{name}" for name in ("known", "due", "other"))
    library.put(known)
    library.put(due)
    library.put(other)
    library.execute("UPDATE source SET name = 'docs', declared = TRUE WHERE no = 1")
    library.execute("UPDATE state SET next_visit = ?", (NOW + 9_000,))
    library.execute(
        "UPDATE state SET next_visit = ? WHERE no = (SELECT no FROM record WHERE url = ?)",
        (NOW - 50, due),
    )
    before = {url: row for url, *row in library.execute(ROWS)}

    assert counts(library, known, due, "https://docs.example.com/new") == (1, 2, 0)

    after = {url: row for url, *row in library.execute(ROWS)}
    assert after == before | {known: [NOW, *before[known][1:]]}
    assert library.execute("SELECT count(*) FROM pin") == [(0,)]


@pytest.mark.covers("R2-34")
def test_a_record_of_a_source_that_is_no_more_makes_no_duplicate(library: Library):
    library.put("https://docs.example.com/a")
    library.execute("UPDATE source SET declared = TRUE")

    assert counts(library, one()) == (1, 0, 0)


@pytest.mark.covers("R2-34", "R2-57")
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://docs.example.com/print/a", "docs does not take it: one of excluded_patterns"),
        ("https://blog.example.com/other", "blog does not take it: none of url_patterns"),
        ("https://docs.example.com/a.png", "docs does not take it: files of type .png"),
        ("https://unknown.example/a.png", "files of type .png are skipped"),
        ("https://docs.example.com/private/x", "the stored robots.txt of its host forbids it"),
        ("https://single.example/private/x", "the stored robots.txt of its host forbids it"),
    ],
)
def test_what_no_source_may_ask_is_blocked_with_the_reason(library: Library, url: str, why: str):
    for origin in ("https://docs.example.com", "https://single.example"):
        library.execute(
            "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, 1, 200, ?)",
            (origin, b"User-agent: smartcrawl\nDisallow: /private/"),
        )
    assert counts(library, url, "https://docs.example.com/a", url) == (1, 0, 2)
    assert [row[1] for row in pending(library)] == ["https://docs.example.com/a"]
    assert post(library, url).json()["urls"][0]["reason"].startswith(why)


@pytest.mark.covers("R2-33", "R2-34")
def test_an_address_joins_every_source_that_has_it_in_scope(library: Library):
    assert counts(library, one("https://b.wide.example/x", priority=2)) == (1, 0, 0)
    assert pending(library) == [
        ("inner", "https://b.wide.example/x", 2),
        ("wide", "https://b.wide.example/x", 2),
    ]


@pytest.mark.covers("E-08", "R2-33", "R2-34")
def test_addresses_of_no_source_join_the_single_pages_and_a_run_follows(library: Library):
    """The example of the specification, in a registry that knows none of its hosts."""
    example = [one("https://example.com/page1", priority=1), one("https://example.com/page2")]
    answer = post(library, *example, example[1]).json()

    assert (answer["added"], answer["duplicates"], answer["blocked"]) == (2, 1, 0)
    assert answer["urls"][0] == {
        "url": "https://example.com/page1",
        "result": "added",
        "sources": ["documents"],
        "reason": "no source has it in scope: it joined documents, and a run follows",
    }
    assert (answer["urls"][2]["result"], answer["urls"][2]["reason"]) == (
        "duplicate",
        "it was sent twice",
    )
    assert [tuple(row) for row in library.execute("SELECT source, at FROM due_run")] == [
        ("documents", NOW)
    ]
    source = stored_row_of_documents_source(library.connection)
    assert source is not None
    assert source.scope.allows("https://example.com/page1")
    assert not source.scope.allows("https://example.com/page3")
    again = post(library, example[0]).json()["urls"][0]
    assert (again["result"], again["reason"]) == (
        "duplicate",
        "it waits for the next run of documents",
    )


def test_single_pages_are_blocked_while_their_name_is_that_of_another_source(
    library: Library, tmp_path: Path
):
    (tmp_path / "sources.toml").write_text(SOURCES.replace("sources.blog", "sources.documents"))

    assert counts(library, "https://example.com/page1") == (0, 0, 1)


@pytest.mark.covers("R2-33")
def test_addresses_in_the_scope_of_a_running_job_are_added(library: Library):
    body = {"name": "news", "seed_urls": ["https://job.example/"]}
    JobStore(library.database, library.connection).create(JobDefinition.checked(body, NOW), (), NOW)
    open_run_row(library.connection, RunRequest("news", "site", declared=True), NOW)
    library.execute("UPDATE job SET status = 'running'")

    assert counts(library, "https://job.example/a") == (1, 0, 0)


@pytest.mark.covers("R2-57", "R2-34")
def test_addresses_of_a_blocked_host_are_blocked(library: Library):
    library.execute("INSERT INTO host (name, is_blocked) VALUES ('docs.example.com', TRUE)")

    assert counts(library, one(), "https://blog.example.com/post/1") == (1, 0, 1)


@pytest.mark.covers("R2-34")
def test_a_robots_txt_without_rules_blocks_nothing_nor_does_one_that_is_not_obeyed(
    library: Library,
):
    insert = "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, 1, ?, ?)"
    library.execute(insert, ("https://docs.example.com", 404, b"User-agent: *\nDisallow: /"))
    library.execute(insert, ("https://blog.example.com", 200, b"User-agent: *\nDisallow: /"))
    careless = library.server(robots_obeyed=False)

    assert counts(library, one(), "https://blog.example.com/post/1") == (1, 0, 1)
    assert counts(library, "https://blog.example.com/post/1", app=careless) == (1, 0, 0)


@pytest.mark.long(but=6)
@pytest.mark.covers("R2-34")
@pytest.mark.parametrize(
    "spelt",
    [
        "127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.1", "127.0.0.1.", "１２７.0.0.1",
        "[::ffff:127.0.0.1]", "[::1]", "169.254.169.254", "2852039166", "[::ffff:a9fe:a9fe]",
        "metadata.google.internal", "metadata.google.internal.",
    ],
)  # fmt: skip
def test_private_addresses_are_blocked_unless_they_are_allowed(
    library: Library, tmp_path: Path, spelt: str
):
    """Even if a source has the host: only ALLOW_NETWORKS opens it to posted addresses."""
    (tmp_path / "sources.toml").write_text(f'[sources.inside]\nseeds = ["http://{spelt}/"]\n')
    from ipaddress import ip_network  # noqa: PLC0415

    everywhere = (ip_network("0.0.0.0/0"), ip_network("::/0"))
    metadata = (ip_network("169.254.169.254/32"),)
    wide_server = library.server(allow_networks=everywhere)
    open_server = library.server(allow_networks=everywhere + metadata)

    assert counts(library, f"http://{spelt}/x") == (0, 0, 1)
    if spelt in ("169.254.169.254", "2852039166", "[::ffff:a9fe:a9fe]"):
        assert counts(library, f"http://{spelt}/x", app=wide_server) == (0, 0, 1)
    if not spelt.startswith("metadata"):
        assert counts(library, f"http://{spelt}/x", app=open_server) == (1, 0, 0)


@pytest.mark.covers("R2-33")
def test_jobs_have_their_own_user_agent_and_need_no_run_before(library: Library):
    library.execute(
        "INSERT INTO robots (origin, fetched_at, status, body) VALUES (?, 1, 200, ?)",
        ("https://job.example", b"User-agent: Jobber\nDisallow: /no"),
    )
    body = {
        "name": "news",
        "seed_urls": ["https://job.example/"],
        "config": {"user_agent": "Jobber/7"},
    }
    job = JobStore(library.database, library.connection)
    job.create(JobDefinition.checked(body, NOW), (), NOW)

    assert counts(library, "https://job.example/yes", "https://job.example/no") == (1, 0, 1)
    assert pending(library) == [("news", "https://job.example/yes", 5)]


@pytest.mark.covers("R2-33")
def test_an_address_joins_a_source_that_another_address_began(library: Library):
    library.put("https://adhoc.example/")
    library.execute("UPDATE source SET name = 'adhoc.example' WHERE no = 1")
    library.execute("INSERT INTO seed (run, no, pinned) VALUES (1, 1, 0)")

    found = counts(library, "https://adhoc.example/x", "https://www.adhoc.example/y")

    assert found == (2, 0, 0)
    assert {row[0] for row in pending(library)} == {"adhoc.example"}


WRONG_FIELDS: list[tuple[Any, str, str | None]] = [
    ([], "INVALID_INPUT", None),
    ("https://docs.example.com/", "INVALID_INPUT", None),
    ({}, "INVALID_INPUT", "urls"),
    ({"urls": None}, "INVALID_INPUT", "urls"),
    ({"urls": {}}, "INVALID_INPUT", "urls"),
    ({"urls": []}, "INVALID_INPUT", "urls"),
    ({"urls": [one()], "more": 1}, "INVALID_INPUT", "more"),
    ({"urls": [None]}, "INVALID_INPUT", "urls"),
    ({"urls": ["https://docs.example.com/"]}, "INVALID_INPUT", "urls"),
    ({"urls": [{}]}, "INVALID_INPUT", "url"),
    ({"urls": [one() | {"no": 1}]}, "INVALID_INPUT", "no"),
    *(({"urls": [one(priority=value)]}, "INVALID_INPUT", "priority")
      for value in (0, 11, -1, 2**62, -(2**63), True, False, 5.5, 11.0, "5", None, [], {})),
    *(({"urls": [{"url": value}]}, "INVALID_URL", "url") for value in (None, 1, True, [], {})),
    *(({"urls": [one(), {"url": value}]}, "INVALID_URL", "url")
      for value in ("", "x", "docs.example.com", "ftp://docs.example.com/", "https://", "http:///",
                    "javascript:alert(1)", "https://docs.example.com/\n", "https://a b/",
                    "https://docs.example.com/" + "x" * 3_000, "https://docs.example.com:99999/",
                    "https://me:secret@docs.example.com/", "https://me@docs.example.com/",
                    "https://docs.example.com/?access_token=secret",
                    "https://b.s3.amazonaws.com/k?X-Amz-Date=1&X-Amz-Signature=secret")),
    *(({"urls": [one(metadata=value)]}, "INVALID_INPUT", "metadata")
      for value in (None, [], "x", 1)),
    ({"urls": [one(metadata={"more": 1})]}, "INVALID_INPUT", "more"),
    *(({"urls": [one(metadata={"source": value})]}, "INVALID_INPUT", "source")
      for value in (None, 1, True, "x" * 256, [])),
    *(({"urls": [one(metadata={"discovered_at": value})]}, "INVALID_INPUT", "discovered_at")
      for value in (None, 1, True, "", "now", "2024-02-30", "2024-01-20T25:00:00Z", "x" * 41, [])),
]  # fmt: skip


@pytest.mark.covers("E-08", "R2-10", "R2-35")
def test_each_wrong_field_is_refused_by_its_position_and_nothing_is_added(library: Library):
    for body, code, field in WRONG_FIELDS:
        answer = ask(library.app, "POST", PATH, json=body)
        error = error_of(answer)

        assert answer.status_code == 400, body
        assert (error["code"], error["details"].get("field")) == (code, field), body
        assert "secret" not in answer.text
        if code == "INVALID_URL":
            place = f"urls[{len(body['urls']) - 1}].url must"
            assert error["details"]["reason"].startswith(place), body
        if body == {"urls": [{}]}:
            assert error["details"]["reason"] == "urls[0].url is missing"
    assert pending(library) == []


@pytest.mark.covers("E-08", "R2-10")
@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "NaN",
        '{"urls": [{"url": "https://docs.example.com/", "priority": NaN}]}',
        '{"urls": [{"url": "https://docs.example.com/", "priority": 9223372036854775808}]}',
        '{"urls": [{"url": "https://docs.example.com/", "priority": 1e999}]}',
        '{"urls": [{"url": "https://docs.example.com/\\u0000"}]}',
        '{"urls": [{"url": "https://docs.example.com/\\ud800"}]}',
        '{"urls": [{"url": "https://docs.example.com/", "metadata": {"source": "\\udfff"}}]}',
        '{"urls": ' + "[" * 40 + "]" * 40 + "}",
    ],
)
def test_a_body_that_cannot_be_stored_is_refused(library: Library, content: str):
    headers = {"Content-Type": "application/json"}
    answer = ask(library.app, "POST", PATH, content=content, headers=headers)

    assert answer.status_code == 400
    assert error_of(answer)["code"] == "INVALID_INPUT"
    assert pending(library) == []


@pytest.mark.covers("E-08")
def test_ten_thousand_addresses_are_one_request_and_one_more_is_too_many(library: Library):
    urls = [f"https://docs.example.com/{number}" for number in range(10_001)]

    refused = post(library, *urls)
    assert refused.status_code == 400
    assert error_of(refused)["details"]["reason"] == (
        "urls must have at most 10000 items after validation, not 10001"
    )
    assert pending(library) == []

    began = time.process_time()
    assert counts(library, *urls[:10_000]) == (10_000, 0, 0)
    assert time.process_time() - began < 2, "seconds of CPU"
    assert counts(library, *urls[1:]) == (1, 9_999, 0)


@pytest.mark.covers("R2-14", "R2-16", "E-08")
def test_a_key_posts_addresses_once_and_keeps_refusals(library: Library):
    first = post(library, one(), headers=KEY)
    again = post(library, one(), headers=KEY)
    other = post(library, one("https://docs.example.com/b"), headers=KEY)
    late = post(library, one())

    assert first.json() == again.json()
    assert first.json()["added"] == 1
    assert other.status_code == 422
    assert (late.json()["added"], late.json()["duplicates"]) == (0, 1)
    key = {"Idempotency-Key": "7c9e6679-7425-40de-944b-e07fc1f90ae8"}
    wrong = [post(library, "x", headers=key) for _ in range(2)]
    assert [answer.status_code for answer in wrong] == [400, 400]
    assert error_of(wrong[0])["details"] == wrong[1].json()["error"]["details"]


@pytest.mark.covers("R2-35", "R2-47", "R2-36")
def test_view_and_statistics_show_the_priorities_of_posted_and_of_pinned_addresses(
    library: Library,
):
    library.put("https://docs.example.com/pinned", next_visit=NOW)
    library.put("https://docs.example.com/plain", next_visit=NOW)
    library.put("https://docs.example.com/gone", next_visit=NOW, status=5)
    library.execute("UPDATE source SET name = 'docs', declared = TRUE WHERE no = 1")
    library.execute("INSERT INTO pin (no, source, at, priority) VALUES (1, 1, 1, 2), (3, 1, 1, 2)")
    library.execute("INSERT INTO host (name, is_blocked) VALUES ('blog.example.com', FALSE)")
    counts(library, one(priority=9), one("https://docs.example.com/b"))
    counts(library, one("https://blog.example.com/post/1", priority=2))
    library.execute("UPDATE host SET is_blocked = TRUE WHERE name = 'blog.example.com'")
    view = dict(library.execute("SELECT url, priority FROM url_frontier"))
    found = library.read("/api/v1/frontier/stats")

    assert view == {
        "https://docs.example.com/pinned": 2,
        "https://docs.example.com/plain": 5,
        "https://docs.example.com/gone": 2,
        "https://docs.example.com/a": 9,
        "https://docs.example.com/b": 5,
        "https://blog.example.com/post/1": 2,
    }
    assert found == {
        "total_urls": 5,
        "by_priority": {"2": 2, "5": 2, "9": 1},
        "by_domain": {"docs.example.com": 4, "blog.example.com": 1},
        "ready_to_crawl": 4,
        "delayed": 1,
    }
    FrontierStats.model_validate(found)
    row = library.execute(
        "SELECT url_hash, domain, depth, status, discovered_at FROM url_frontier WHERE priority = 9"
    )
    assert with_iso_times(row) == [
        (url_hash("https://docs.example.com/a"), "docs.example.com", 0, "pending",
         "2025-06-15T15:06:40Z"),
    ]  # fmt: skip


@pytest.mark.covers("E-08")
def test_a_query_is_refused(library: Library):
    answer = ask(library.app, "POST", f"{PATH}?dry=1", content=json.dumps({"urls": [one()]}),
                 headers={"Content-Type": "application/json"})  # fmt: skip

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] == "dry"


@pytest.mark.covers("E-08", "R2-29", "R2-30")
def test_posted_addresses_follow_their_job_to_another_name_and_go_with_it(library: Library):
    body = {"name": "news", "seed_urls": ["https://job.example/"]}
    store = JobStore(library.database, library.connection)
    job = store.create(JobDefinition.checked(body, NOW), (), NOW)
    assert counts(library, "https://job.example/a", one()) == (2, 0, 0)

    store.replace(job.id, JobDefinition.checked(body | {"name": "papers"}, NOW), (), NOW)
    assert pending(library)[1] == ("papers", "https://job.example/a", 5)
    assert counts(library, "https://job.example/a") == (0, 1, 0)

    store.delete(job.id, NOW)
    assert pending(library) == [("docs", "https://docs.example.com/a", 5)]


@pytest.mark.covers("R2-34")
def test_without_any_source_every_address_is_a_single_page(library: Library, tmp_path: Path):
    (tmp_path / "sources.toml").unlink()

    assert counts(library, one(), one(), "https://other.example/") == (2, 1, 0)
    assert {row[0] for row in pending(library)} == {"documents"}
