"""Orders over HTTP: what they store, what they answer, what they refuse (E-13 to E-15)."""

from concurrent.futures import ThreadPoolExecutor
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from smartcrawl.model.urls import url_digest, url_item_id
from smartcrawl.server.answers import AddedItem, QueuedItems, ReindexedItem
from tests.server.api_client import application, ask, error_of
from tests.server.data.library import NOW
from tests.server.items.conftest import ADD, KNOWN, REBUILD, REINDEX, Desk, item_id

NEW = "https://docs.example.com/new"
ALONE = "https://other.example/page"


@pytest.mark.covers("E-13", "R0-57", "R0-67", "G-03")
def test_an_address_joins_the_source_whose_scope_holds_it(desk: Desk):
    answer = desk.order(ADD, url=NEW)

    assert answer == {"id": item_id(NEW), "status": "Pending", "reindexGeneration": 0}
    AddedItem.model_validate(answer)
    assert desk.addresses() == [("one", NEW, 0)]
    assert desk.waiting() == ["one"]


@pytest.mark.covers("E-13", "R0-67")
def test_an_address_of_no_source_joins_the_single_pages(desk: Desk):
    answer = desk.order(ADD, url=ALONE)

    assert answer["id"] == item_id(ALONE)
    assert desk.addresses() == [("documents", ALONE, 0)]
    assert desk.waiting() == ["documents"]


@pytest.mark.covers("E-13", "R0-04")
def test_the_same_order_again_changes_nothing_but_a_forced_one_counts(desk: Desk):
    first = desk.order(ADD, url=ALONE)
    again = desk.order(ADD, url=f"{ALONE}/#top")
    forced = [desk.order(ADD, url=ALONE, force=True)["reindexGeneration"] for _ in range(2)]
    by_id = desk.order(REINDEX, id=first["id"], force=True)

    assert again == first
    assert forced == [1, 2]
    assert by_id == {"id": first["id"], "reindexRequested": True, "reindexGeneration": 3}
    assert desk.addresses() == [("documents", ALONE, 3)]
    assert desk.waiting() == ["documents"]


def test_an_order_may_name_the_only_source(desk: Desk):
    desk.declare(
        "[sources.one]\nseeds = ['https://docs.example.com/']\n"
        "[sources.two]\nseeds = ['https://docs.example.com/']\n"
    )
    desk.order(ADD, url=NEW, source="two")

    assert desk.addresses() == [("two", NEW, 0)]
    assert desk.waiting() == ["two"]
    desk.order(ADD, url=KNOWN, source="one")
    pins = "SELECT o.name FROM pin p JOIN source o ON o.no = p.source"
    assert desk.rows(pins) == [("one",)]
    desk.order(ADD, url=KNOWN, source="two")
    assert desk.rows(pins) == [("one",)], "the other one has it only in its scope"
    assert ("two", KNOWN, 0) in desk.addresses()


@pytest.mark.parametrize("source", ["three", "documents"])
def test_a_source_that_does_not_hold_the_address_is_refused(desk: Desk, source: str):
    answer = desk.post(ADD, {"url": NEW, "source": source})

    assert answer.status_code == 400
    assert error_of(answer)["details"]["field"] == "source"
    assert "leave source out" in error_of(answer)["details"]["reason"]
    assert desk.addresses() == []


@pytest.mark.covers("E-13", "R0-53", "R0-87", "R0-88", "R0-89")
def test_a_known_address_is_pinned_and_due_and_keeps_its_status(desk: Desk):
    plain = desk.order(ADD, url=KNOWN)
    forced = desk.order(ADD, url=KNOWN, force=True)

    assert plain == {"id": item_id(KNOWN), "status": "Indexed", "reindexGeneration": 0}
    assert forced["reindexGeneration"] == 1
    assert desk.addresses() == []
    assert desk.rows("SELECT no, source FROM pin") == [(1, 1)]
    assert desk.rows("SELECT next_visit, status FROM state") == [(NOW, 2)]
    assert desk.waiting() == ["one"]


@pytest.mark.covers("E-13")
def test_a_record_of_a_source_that_is_gone_is_left_alone(desk: Desk):
    desk.declare("")

    desk.order(ADD, url=KNOWN)

    assert desk.addresses() == [("documents", KNOWN, 0)]
    assert desk.rows("SELECT no FROM pin") == []


@pytest.mark.covers("E-13", "R2-20")
def test_an_address_joins_every_source_that_holds_it_jobs_included(desk: Desk):
    desk.add_job("job", "https://docs.example.com/")

    desk.order(ADD, url=NEW)

    assert desk.addresses() == [("job", NEW, 0), ("one", NEW, 0)]
    assert desk.waiting() == ["job", "one"]


@pytest.mark.covers("E-13")
def test_an_address_that_its_source_excludes_is_a_single_page(desk: Desk):
    desk.declare(
        "[sources.one]\nseeds = ['https://docs.example.com/']\nexcluded_patterns = ['/new']\n"
    )

    desk.order(ADD, url=NEW)

    assert desk.addresses() == [("documents", NEW, 0)]


@pytest.mark.covers("E-13")
@pytest.mark.parametrize("kind", ["declared", "job", "crawled"])
def test_a_source_of_the_users_own_called_documents_takes_no_single_page(desk: Desk, kind: str):
    if kind == "declared":
        desk.declare("[sources.documents]\nseeds = ['https://papers.example/']\n")
    elif kind == "job":
        desk.add_job("documents", "https://papers.example/")
    else:
        desk.rows("UPDATE source SET name = 'documents' WHERE no = 2")

    answer = desk.post(ADD, {"url": ALONE})
    error = error_of(answer)

    assert (answer.status_code, error["code"]) == (409, "CONFLICT")
    assert "documents" in error["details"]["reason"]
    assert desk.addresses() == []
    assert desk.waiting() == []


def test_a_job_cannot_be_called_documents(desk: Desk):
    body = {"name": "documents", "seed_urls": [ALONE]}

    answer = desk.post("/api/v1/jobs", body)

    assert answer.status_code == 409
    assert error_of(answer)["details"]["field"] == "name"


WRONG_URLS: dict[str, Any] = {
    "number": 5,
    "null": None,
    "empty": "",
    "no address": "docs",
    "file": "file:///etc/passwd",
    "mail": "mailto:sec@ret.example",
    "user": "https://sec:ret@docs.example.com/",
    "token": "https://docs.example.com/?access_token=secret",
    "signature": "https://a.blob.core.windows.net/c/b?sv=2024-08-04&se=2026-12-01&sig=secret",
    "long": "https://docs.example.com/" + "secret" * 2_000,
    "control": "https://docs.example.com/\nsecret",
    "picture": "https://other.example/secret.png",
    "loopback": "http://127.0.0.1:8080/secret",
    "short loopback": "http://127.1/secret",
    "number as host": "http://2130706433/secret",
    "hexadecimal host": "http://0x7f000001/secret",
    "IPv6": "http://[::1]/secret",
    "mapped": "http://[::ffff:169.254.169.254]/secret",
    "metadata": "http://metadata.google.internal/secret",
    "private": "https://10.0.0.7/secret",
}


@pytest.mark.long(but=10)
@pytest.mark.covers("E-13", "R2-11")
@pytest.mark.parametrize("url", WRONG_URLS.values(), ids=WRONG_URLS)
def test_a_wrong_address_is_refused_and_not_repeated(desk: Desk, url: Any):
    answer = desk.post(ADD, {"url": url})
    error = error_of(answer)

    assert (answer.status_code, error["code"]) == (400, "INVALID_URL")
    assert error["details"]["field"] == "url"
    assert "secret" not in answer.text
    assert "sec:ret" not in answer.text
    assert desk.waiting() == []


@pytest.mark.covers("E-13")
def test_allowed_networks_open_private_addresses(desk: Desk):
    desk.app = desk.server(allow_networks=(ip_network("10.0.0.0/8"),))

    assert desk.order(ADD, url="https://10.0.0.7/")["status"] == "Pending"
    assert desk.post(ADD, {"url": "https://192.168.0.7/"}).status_code == 400


WRONG_BODIES: dict[str, tuple[str, object, str | None]] = {
    "add no body": (ADD, [], None),
    "add no url": (ADD, {"force": True}, "url"),
    "add unknown": (ADD, {"url": NEW, "priority": 1}, "priority"),
    "add force": (ADD, {"url": NEW, "force": 1}, "force"),
    "add null": (ADD, {"url": NEW, "force": None}, "force"),
    "reindex none": (REINDEX, {"force": True}, None),
    "reindex both": (REINDEX, {"id": item_id(KNOWN), "source": KNOWN, "force": True}, None),
    "reindex no force": (REINDEX, {"id": item_id(KNOWN)}, "force"),
    "reindex false": (REINDEX, {"id": item_id(KNOWN), "force": False}, "force"),
    "reindex one": (REINDEX, {"id": item_id(KNOWN), "force": 1}, "force"),
    "reindex odd id": (REINDEX, {"id": "url_1", "force": True}, "id"),
    "reindex other id": (REINDEX, {"id": "job_0b5d9a6c1e2f3a48", "force": True}, "id"),
    "reindex number": (REINDEX, {"id": 7, "force": True}, "id"),
    "reindex name": (REINDEX, {"source": "one", "force": True}, "source"),
    "rebuild force": (REBUILD, {"force": "true"}, "force"),
    "rebuild unknown": (REBUILD, {"forced": True}, "forced"),
}


@pytest.mark.long(but=8)
@pytest.mark.covers("E-13", "E-14", "E-15")
@pytest.mark.parametrize(("path", "body", "field"), WRONG_BODIES.values(), ids=WRONG_BODIES)
def test_a_wrong_body_is_refused(desk: Desk, path: str, body: object, field: str | None):
    answer = desk.post(path, body)
    error = error_of(answer)

    assert (answer.status_code, error["code"]) == (400, "INVALID_INPUT")
    assert error["details"].get("field") == field
    assert desk.waiting() == []


@pytest.mark.covers("E-13", "E-14", "E-15")
@pytest.mark.parametrize("path", [ADD, REINDEX, REBUILD])
def test_a_missing_body_and_a_query_are_refused(desk: Desk, path: str):
    missing = ask(desk.app, "POST", path)
    queried = desk.post(f"{path}?force=1", {})

    assert error_of(missing)["details"]["reason"] == "a JSON body is missing"
    assert error_of(queried)["details"]["field"] == "force"


@pytest.mark.covers("E-15", "R0-51", "R0-54", "R0-55", "R0-70")
@pytest.mark.parametrize("body", [{"id": item_id(KNOWN)}, {"source": f"{KNOWN}#top"}])
def test_an_item_is_indexed_anew_by_id_or_by_source(desk: Desk, body: dict[str, object]):
    desk.put("https://docs.example.com/beside", next_visit=NOW + 9)
    answer = desk.order(REINDEX, force=True, **body)
    again = desk.order(REINDEX, force=True, **body)

    assert answer == {"id": item_id(KNOWN), "reindexRequested": True, "reindexGeneration": 1}
    ReindexedItem.model_validate(answer)
    assert again["reindexGeneration"] == 2
    assert desk.rows("SELECT no, generation FROM item") == [(1, 2)]
    assert desk.rows("SELECT next_visit FROM state ORDER BY no") == [(NOW,), (NOW + 9,)]
    assert desk.waiting() == ["one"]


@pytest.mark.covers("E-15", "R0-24", "R0-25", "R0-51")
@pytest.mark.parametrize("url", ["file:///srv/docs/a.md", "s3://bucket/a//b"])
def test_a_file_is_indexed_anew_by_id_or_by_source(desk: Desk, url: str):
    desk.put(url)
    id_ = url_item_id("file", url_digest(url))

    answers = [desk.order(REINDEX, force=True, **body) for body in ({"id": id_}, {"source": url})]

    assert [answer["id"] for answer in answers] == [id_, id_]
    assert desk.rows("SELECT no, generation FROM item") == [(2, 2)]


@pytest.mark.covers("E-13", "E-15", "R0-22", "R0-24", "R0-25")
def test_a_blob_that_is_added_by_its_web_address_is_a_file(desk: Desk):
    url = "https://acc.blob.core.windows.net/docs/a//b"
    id_ = url_item_id("file", url_digest(url))

    added = desk.order(ADD, url=url)
    again = desk.order(REINDEX, id=id_, force=True)

    assert (added["id"], again["id"], again["reindexGeneration"]) == (id_, id_, 1)


@pytest.mark.covers("E-13", "R0-51", "R0-67")
@pytest.mark.parametrize("url", ["file:///srv/docs/a.md", "s3://bucket/a//b"])
def test_a_stored_file_is_added_again_by_its_address(desk: Desk, url: str):
    desk.put(url)

    plain, forced = desk.order(ADD, url=url), desk.order(ADD, url=url, force=True)

    id_ = url_item_id("file", url_digest(url))
    assert [answer["id"] for answer in (plain, forced)] == [id_, id_]
    assert [answer["reindexGeneration"] for answer in (plain, forced)] == [0, 1]
    assert desk.rows("SELECT no, generation FROM item") == [(2, 1)]
    assert desk.rows("SELECT count(*) FROM pin") == [(0,)]  # the listing says whether it exists
    assert len(desk.waiting()) == 1


@pytest.mark.covers("E-13", "R0-67")
def test_a_new_file_of_a_declared_folder_is_found_by_the_listing_that_follows(
    desk: Desk, tmp_path: Path
):
    declared = f'[sources.handbook]\nkind = "files"\nroot = "{tmp_path}"\n'
    (tmp_path / "sources.toml").write_text(declared)

    added = desk.order(ADD, url=f"file://{tmp_path}/new.md")

    assert (added["status"], added["reindexGeneration"]) == ("Pending", 0)
    assert desk.waiting() == ["handbook"]
    assert desk.post(ADD, {"url": f"file://{tmp_path}.md"}).status_code == 400
    assert desk.addresses() == []


@pytest.mark.covers("E-13")
@pytest.mark.parametrize("url", ["file:///etc/passwd", "s3://bucket/a"])
def test_no_file_of_no_source_is_added_over_http(desk: Desk, url: str):
    answer = desk.post(ADD, {"url": url})

    assert (answer.status_code, error_of(answer)["details"]["field"]) == (400, "url")
    assert desk.addresses() == []


@pytest.mark.covers("E-15")
@pytest.mark.parametrize("body", [{"id": item_id(NEW)}, {"source": NEW}, {"source": "file:///a"}])
def test_an_unknown_item_is_not_found(desk: Desk, body: dict[str, object]):
    answer = desk.post(REINDEX, {"force": True, **body})
    error = error_of(answer)

    assert (answer.status_code, error["code"]) == (404, "NOT_FOUND")
    assert error["details"]["field"] == next(iter(body))
    assert desk.waiting() == []


@pytest.mark.covers("E-15")
def test_an_item_that_nothing_crawls_any_more_is_a_conflict(desk: Desk):
    desk.declare("")

    answer = desk.post(REINDEX, {"source": KNOWN, "force": True})

    assert (answer.status_code, error_of(answer)["code"]) == (409, "CONFLICT")
    assert desk.rows("SELECT no FROM item") == []


@pytest.mark.covers("E-14", "R0-53", "R0-68")
def test_a_rebuild_counts_all_items_and_orders_runs_of_all_sources(desk: Desk):
    desk.put("https://docs.example.com/pending", None, standing=0, status=0)
    desk.put("https://docs.example.com/gone", standing=0, status=5)
    desk.declare(
        "[sources.one]\nseeds = ['https://docs.example.com/']\n"
        "[sources.never]\nseeds = ['https://never.example/']\n"
    )

    answer = desk.order(REBUILD, force=True)

    assert answer == {"queued": 2}
    QueuedItems.model_validate(answer)
    assert desk.rows("SELECT place, last FROM rebuild") == [(0, 3)]
    assert desk.waiting() == ["one"]  # two is not declared, never was never crawled


SOURCE = "/api/v1/reindex"


def test_all_pages_of_one_source_are_ordered_anew(desk: Desk):
    desk.put("https://docs.example.com/gone", standing=0, status=5)
    desk.put("https://other.example.com/a", record={"source": 2})
    desk.declare(
        "[sources.one]\nseeds = ['https://docs.example.com/']\n"
        "[sources.two]\nseeds = ['https://other.example.com/']\n"
    )
    desk.rows("UPDATE state SET next_visit = ?", int(desk.now) + 9_000)

    answer = desk.order(SOURCE, source="one")

    assert answer == {"queued": 1}
    QueuedItems.model_validate(answer)
    marked = desk.rows(
        "SELECT r.url, s.next_visit FROM item i JOIN record r USING (no) JOIN state s USING (no)"
        " WHERE i.requested"
    )
    assert marked == [(KNOWN, int(desk.now))]
    later = desk.rows("SELECT count(*) FROM state WHERE next_visit > ?", int(desk.now))
    assert later == [(2,)], "the tombstone, and the page of the other source"
    assert desk.waiting() == ["one"]
    assert desk.rows("SELECT no FROM rebuild") == []


@pytest.mark.parametrize(
    ("source", "status", "why"),
    [("none", 404, "no source of this name"), ("two", 409, "not declared any more")],
)
def test_a_source_that_no_run_takes_is_not_ordered_anew(
    desk: Desk, source: str, status: int, why: str
):
    desk.put("https://other.example.com/a", record={"source": 2})
    answer = desk.post(SOURCE, {"source": source})

    assert answer.status_code == status
    assert why in error_of(answer)["details"]["reason"]
    assert (desk.rows("SELECT no FROM item"), desk.waiting()) == ([], [])


def test_a_source_of_very_many_pages_is_ordered_by_the_command(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    from smartcrawl.server import items  # noqa: PLC0415

    monkeypatch.setattr(items, "MOST_FORCED", 0)
    answer = desk.post(SOURCE, {"source": "one"})

    assert answer.status_code == 409
    assert "smartcrawl reindex --source one" in error_of(answer)["details"]["reason"]
    assert desk.waiting() == []


@pytest.mark.covers("E-14")
def test_a_rebuild_takes_the_highest_scope(desk: Desk):
    from smartcrawl.server.keys import Scope, make_api_key  # noqa: PLC0415

    with desk.database.translated("write"):
        keys = {s: make_api_key(desk.connection, s.name, s, NOW, expires=None)[0] for s in Scope}
    app = application(
        desk._folder, clock=lambda: desk.now, run={"registry": desk.place}, host="192.0.2.1"
    )

    statuses = {
        scope.name: ask(
            app, "POST", REBUILD, json={}, headers={"Authorization": f"Bearer {key}"}
        ).status_code
        for scope, key in keys.items()
    }

    assert statuses == {"SEARCH": 403, "READ": 403, "OPERATE": 403, "ADMIN": 202}


@pytest.mark.covers("E-13", "E-14", "E-15", "R2-14")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (ADD, {"url": ALONE, "force": True}),
        (REINDEX, {"source": KNOWN, "force": True}),
        (REBUILD, {"force": True}),
    ],
)
def test_equal_keys_are_one_order(desk: Desk, path: str, body: dict[str, object]):
    headers = {"Idempotency-Key": str(uuid4())}
    servers = [desk.server() for _ in range(8)]  # each has an event loop of its own

    with ThreadPoolExecutor(8) as pool:
        answers = list(
            pool.map(lambda app: ask(app, "POST", path, json=body, headers=headers), servers)
        )
    other = desk.post(path, {**body, "force": True, "x": 1}, headers=headers)
    broken = {"Idempotency-Key": str(uuid4())}
    refused = [desk.post(path, {**body, "x": number}, headers=broken) for number in (1, 1, 2)]

    assert {(a.status_code, a.text) for a in answers} == {(202, answers[0].text)}
    assert other.status_code == 422
    assert [answer.status_code for answer in refused] == [400, 400, 422]
    assert refused[0].text == refused[1].text, "with the id of the first request"
    assert answers[0].json().get("reindexGeneration", 1) == 1
    assert len(desk.waiting()) == 1
