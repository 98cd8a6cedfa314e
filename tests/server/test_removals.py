"""Removals over HTTP: what waits, approvals and undos as processes, and who ordered them."""

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from starlette.types import ASGIApp

from smartcrawl.commands.running import run_command
from smartcrawl.model.processes import Process
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.database.sqlite import SqliteConnection
from smartcrawl.registry.runs.runs import OpenRun
from smartcrawl.rules.model import Outcome
from smartcrawl.server.explained.answers import AllRemovals, OrderedRemoval
from smartcrawl.server.explained.orders import BegunOrder, RemovalOrders, approvable_removals
from smartcrawl.server.jobs.runner import CrawlProgram, Exited, LocalCrawls, Runner
from smartcrawl.server.keys import Scope, make_api_key
from smartcrawl.sources.private_files import private_file
from tests.index.meanings import desk_at
from tests.registry.build import LATER, NOW, Desk
from tests.registry.build import closing as choices
from tests.registry.spare import Spare
from tests.server.api_client import application, ask, error_of

BASE = "https://docs.example.com/"
PAGES = [f"{BASE}{number}" for number in range(30)]
LOST, KEPT = PAGES[:20], PAGES[20:]


@cache
def broken() -> tuple[bytes, OpenRun]:
    """The registry after the broken deployment, and its last run; made once."""
    desk = Desk()
    run = break_site(desk)
    assert isinstance(desk.connection, SqliteConnection)
    registry = desk.connection.serialize("main")
    desk.close()
    return registry, run


def break_site(desk: Desk) -> OpenRun:
    """Crawl the site twice; the second time 20 of 30 pages are gone."""
    desk.closing = choices(lost_threshold=1)
    desk.open(now=NOW)
    desk.write(*(desk.visit(url, f"a lantern at {url}") for url in PAGES), now=NOW)
    desk.seal(now=NOW)
    run = desk.open(now=LATER)
    desk.write(
        *(desk.visit(url, outcome=Outcome.NOT_FOUND, status=404) for url in LOST),
        *(desk.visit(url, outcome=Outcome.NOT_MODIFIED, status=304) for url in KEPT),
        reached={desk.number(url): 0 for url in PAGES},
        now=LATER,
    )
    desk.seal(now=LATER)
    return run


class Site:
    """A source whose deployment broke: 20 of 30 pages answer 404, and the guard withholds them."""

    def __init__(self, folder: Path, url: str = "") -> None:
        """``url``: of a registry in PostgreSQL; "": in SQLite."""
        self.folder = folder
        self.place: Path | str = url or folder / "registry.db"
        if url:
            self.desk = desk_at(url)
            break_site(self.desk)
        else:
            registry, run = broken()
            private_file(folder / "registry.db")
            (folder / "registry.db").write_bytes(registry)
            self.desk = Desk(folder / "registry.db")
            self.desk.closing = choices(lost_threshold=1)
            self.desk.run = run
        self.app: ASGIApp = self.server()
        self.database = registry_database(self.place)

    def server(self) -> ASGIApp:
        """A server that has not kept any list yet."""
        return application(self.folder, run={"registry": self.place}, clock=lambda: float(LATER))

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        return ask(self.app, method, f"/api/v1/{path}", **given)

    def approve(self, most: int, **given: Any) -> httpx.Response:
        return self.ask("POST", "runs/2/approve", json={"max": most}, **given)

    def removals(self, **query: Any) -> dict[str, Any]:
        answer = ask(self.server(), "GET", "/api/v1/removals", params=query)
        assert answer.status_code == 200, answer.text
        AllRemovals.model_validate(answer.json())
        return dict(answer.json())

    def order(self, id_: str) -> dict[str, Any]:
        answer = self.ask("GET", f"removals/{id_}")
        assert answer.status_code == 200, answer.text
        OrderedRemoval.model_validate(answer.json())
        return dict(answer.json())

    def carry_out(self) -> int:
        """Claim what waits, as a server does, and run its command here; return its exit status."""
        with closing(self.database.open()) as connection:
            kind = RemovalOrders(self.database, connection)
            (waiting,) = kind.waiting(LATER)
            with transaction(connection):
                assert kind.claim(waiting.id, LATER)
            work = kind.get(waiting.id)
            assert work is not None
        name, *words = work.words(CrawlProgram((), {}, self.folder))
        place = ["-s", f"REGISTRY_URL={self.place}"] if isinstance(self.place, str) else []
        status = run_command(name, [*words, *work.quiet, *place, "--data-dir", str(self.folder)])
        with closing(self.database.open()) as connection:
            kind = RemovalOrders(self.database, connection)
            if (after := kind.get(work.id)) is not None:
                kind.exited(after, Exited(status, 1), after.log, LATER)
        return status

    def stored(self) -> int:
        return int(str(self.desk.value("SELECT count(*) FROM state WHERE standing = 2")))


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.desk.close()


def test_what_the_guard_withholds_is_told_with_its_rule_and_a_sample(site: Site):
    (found,) = site.removals(limit=3)["sources"]

    assert (found["source"], found["stored"], found["run"]) == ("docs", 30, 2)
    assert found["why"].startswith("one run removes at most 10% of a source's pages")
    assert (found["waiting"]["count"], found["waiting"]["removable"]) == (20, 20)
    assert found["waiting"]["rules"] == [
        {"rule": "gone", "text": "the server answers that the page is gone", "count": 20}
    ]
    sample = found["waiting"]["sample"]
    assert [page["url"] for page in sample] == LOST[:3]
    assert [page["no"] for page in sample] == list(map(site.desk.number, LOST[:3]))
    assert found["lost"]["count"] == 0  # they wait


def test_what_was_reached_again_stays(site: Site):
    site.desk.open(now=LATER + 60)
    site.desk.write(site.desk.visit(LOST[0], "a lantern again"), now=LATER + 60)

    waiting = site.removals()["sources"][0]["waiting"]

    assert (waiting["count"], waiting["removable"]) == (20, 19)
    assert waiting["sample"][0]["stays"] == "it was reached or answered since"
    assert approvable_removals(site.desk.connection, "docs", 2) == 19


def test_lost_and_orphaned_pages_are_told_apart_from_those_that_wait(site: Site):
    with transaction(site.desk.connection):
        site.desk.connection.execute("DELETE FROM candidate")
    (found,) = site.removals(limit=1)["sources"]

    assert (found["run"], found["why"], found["waiting"]["count"]) == (None, None, 0)
    assert (found["lost"]["count"], found["lost"]["removable"]) == (20, 20)
    assert found["lost"]["sample"][0]["text"].startswith("it now returns an error")
    site.desk.open(now=LATER + 60)
    site.desk.write(
        *(site.desk.visit(url, outcome=Outcome.NOT_MODIFIED, status=304) for url in KEPT[1:]),
        reached={site.desk.number(url): 0 for url in PAGES if url != KEPT[0]},
        now=LATER + 60,
    )
    site.desk.seal(now=LATER + 60)
    (found,) = site.removals(limit=9)["sources"]
    assert KEPT[0] in [page["url"] for page in found["orphans"]["sample"]]


def test_an_approval_removes_at_most_its_number_and_an_undo_brings_it_back(site: Site):
    ordered = site.approve(10)

    assert ordered.status_code == 202
    OrderedRemoval.model_validate(ordered.json())
    id_ = ordered.json()["order_id"]
    assert ordered.headers["Location"] == f"/api/v1/removals/{id_}"
    assert (ordered.json()["status"], site.stored()) == ("waiting", 30)

    assert site.carry_out() == 0

    done = site.order(id_)
    assert (done["status"], done["reasons"], site.stored()) == ("ended", [], 20)
    assert (done["result"]["removed"], done["result"]["left"]) == (10, 10)
    assert site.removals()["sources"][0]["stored"] == 20
    assert done["result"]["urls"][0] == {"url": LOST[0], "what": "removed"}
    (removed,) = site.removals()["removed"]
    assert (removed["run"], removed["restorable"]) == (done["result"]["undoRun"], 10)
    assert removed["until_at"] > removed["removed_at"]

    undo = site.ask("POST", "runs/2/undo", json={})
    assert undo.status_code == 202
    assert site.carry_out() == 0
    undone = site.order(undo.json()["order_id"])
    assert (undone["result"]["restored"], site.stored()) == (10, 30)
    assert [one["action"] for one in site.removals()["orders"]] == ["undo", "approve"]


@pytest.mark.long(but=1)
@pytest.mark.parametrize("kind", ["approve", "forget"])
def test_orders_are_carried_out_on_postgresql_as_well(
    spare_registries: Spare, tmp_path: Path, kind: str
):
    url = spare_registries.take()
    site = Site(tmp_path, url)
    path, body = "runs/2/approve", {"max": 10}
    if kind == "forget":
        path, body = f"records/{site.desk.number(KEPT[0])}/forget", {"confirm": True}

    ordered = site.ask("POST", path, json=body)
    assert ordered.status_code == 202, ordered.text
    assert site.carry_out() == 0
    done = site.order(ordered.json()["order_id"])
    assert site.stored() == 30 - done["result"]["removed"] < 30
    for path, pages in (("runs/1/pages?list=new", 30), ("runs/2/pages?list=lost", 20)):
        assert len(site.ask("GET", path).json()["pages"]) >= pages - done["result"]["removed"]
    site.ask("POST", f"runs/{done['result']['undoRun']}/undo", json={"pin": True})
    assert site.carry_out() == 0
    assert site.stored() == 30
    assert [one["status"] for one in site.removals()["orders"]] == ["ended", "ended"]
    site.desk.close()
    spare_registries.put_back(url)


def test_one_list_that_is_approved_in_two_tabs_is_removed_once(site: Site):
    first, second = site.approve(20), site.approve(20)

    assert second.json()["order_id"] == first.json()["order_id"]
    assert site.carry_out() == 0
    again = site.approve(20)

    assert site.stored() == 10
    assert again.status_code == 409
    assert "no removal of run 2 waits for approval" in error_of(again)["details"]["reason"]


def test_an_order_that_came_too_late_is_looked_at_again_under_the_lease(site: Site):
    site.approve(20)
    with transaction(site.desk.connection):
        site.desk.connection.execute("UPDATE candidate SET withheld = FALSE")

    assert site.carry_out() == 0

    (order,) = site.removals()["orders"]
    assert (order["result"]["removed"], site.stored()) == (0, 30)


def test_another_order_for_the_same_source_waits_for_the_first(site: Site):
    first = site.approve(5)

    answer = site.approve(6)

    assert answer.status_code == 409
    assert first.json()["order_id"] in error_of(answer)["details"]["reason"]


def test_an_open_run_is_a_conflict_in_words(site: Site):
    site.desk.open(now=LATER + 60)
    lease = site.database.take("docs", "now")

    answers = [site.approve(5), site.ask("POST", "runs/2/undo", json={})]

    lease.release()
    for answer in answers:
        assert answer.status_code == 409
        reason = error_of(answer)["details"]["reason"]
        assert reason == "run 3 of docs is open: order it after that run"
    assert site.removals()["orders"] == []


def test_a_run_that_began_after_the_order_ends_it_with_the_reason(site: Site):
    site.approve(5)
    with site.database.take("docs", "now"):
        assert site.carry_out() == 4

    (order,) = site.removals()["orders"]
    assert (order["status"], order["result"], site.stored()) == ("ended", None, 30)
    assert "docs" in order["reasons"][0]


def test_who_approved_is_kept(site: Site, tmp_path: Path):
    with transaction(site.desk.connection):
        key, made = make_api_key(site.desk.connection, "Anna", Scope.ADMIN, LATER)

    site.approve(5, headers={"X-API-Key": key})
    site.carry_out()
    run_command("orphans", ["--approve", "2", "--max", "1", "--data-dir", str(tmp_path)])

    orders = site.removals()["orders"]
    assert [one["by"] for one in orders] == ["command line", f"Anna ({made.id})"]
    assert [one["result"]["removed"] for one in orders] == [1, 5]


def test_a_page_is_forgotten_and_brought_back(site: Site):
    path = f"records/{site.desk.number(KEPT[0])}/forget"

    ordered = site.ask("POST", path, json={"confirm": True})
    again = site.ask("POST", path, json={"confirm": True})

    assert ordered.status_code == 202
    assert again.json()["order_id"] == ordered.json()["order_id"]
    assert (ordered.json()["action"], ordered.json()["url"]) == ("forget", KEPT[0])
    assert site.carry_out() == 0
    done = site.order(ordered.json()["order_id"])
    assert (done["result"]["removed"], site.stored()) == (1, 29)
    assert done["result"]["urls"] == [{"url": KEPT[0], "what": "removed"}]
    gone = site.ask("POST", path, json={"confirm": True})
    assert gone.status_code == 409
    assert "nothing is stored of it" in error_of(gone)["details"]["reason"]

    site.ask("POST", f"runs/{done['result']['undoRun']}/undo", json={})
    assert site.carry_out() == 0
    assert site.stored() == 30


@pytest.mark.parametrize("kind", ["lost", "orphans"])
def test_lost_and_orphaned_pages_are_removed_at_most_a_number(site: Site, kind: str):
    with transaction(site.desk.connection):
        site.desk.connection.execute("DELETE FROM candidate")
    if kind == "orphans":
        site.desk.open(now=LATER + 60)
        still = [site.desk.visit(KEPT[0], outcome=Outcome.NOT_MODIFIED, status=304)]
        reached = {site.desk.number(KEPT[0]): 0}
        site.desk.write(*still, reached=reached, now=LATER + 60)
        site.desk.seal(now=LATER + 60)
    body = {"source": "docs", "kind": kind, "max": 2}

    ordered = site.ask("POST", "removals", json=body)

    assert ordered.status_code == 202, ordered.text
    assert site.carry_out() == 0
    done = site.order(ordered.json()["order_id"])
    assert (done["action"], done["result"]["removed"], site.stored()) == (kind, 2, 28)
    site.ask("POST", f"runs/{done['result']['undoRun']}/undo", json={})
    assert site.carry_out() == 0
    assert site.stored() == 30


def test_a_source_without_lost_pages_is_a_conflict(site: Site):
    no_orphan = "docs has no orphan that can be removed"
    for source, status, reason in (
        ("docs", 409, no_orphan), ("nowhere", 404, "there is no source of this name")
    ):  # fmt: skip
        body = {"source": source, "kind": "orphans", "max": 2}
        answer = site.ask("POST", "removals", json=body)
        details = error_of(answer)["details"]
        assert (answer.status_code, details["field"]) == (status, "source")
        assert details["reason"] == reason


def test_lost_pages_that_a_command_removes_are_kept_in_the_list(site: Site, tmp_path: Path):
    words = ["-D", "--source", "docs", "--max", "3", "--data-dir", str(tmp_path)]
    assert run_command("deltamerge", words) == 0

    (order,) = site.removals()["orders"]
    assert (order["action"], order["max"], order["result"]["removed"]) == ("lost", 3, 3)


def test_a_forgotten_page_of_the_command_line_is_kept_in_the_list(site: Site, tmp_path: Path):
    run_command("forget", [KEPT[0], "--data-dir", str(tmp_path)])

    (order,) = site.removals()["orders"]
    assert (order["action"], order["url"], order["by"]) == ("forget", KEPT[0], "command line")


@pytest.mark.parametrize("scope", [Scope.READ, Scope.OPERATE])
def test_an_approval_takes_a_key_of_an_administrator(site: Site, scope: Scope):
    with transaction(site.desk.connection):
        key, _ = make_api_key(site.desk.connection, "Ben", scope, LATER)

    orders = (
        ("removals", {"source": "docs", "kind": "lost", "max": 1}),
        ("runs/2/approve", {"max": 1}), ("runs/2/undo", {}), ("records/1/forget", {"confirm": True})
    )  # fmt: skip
    for path, body in orders:
        answer = site.ask("POST", path, json=body, headers={"X-API-Key": key})
        assert answer.status_code == 403
        assert "scope admin" in error_of(answer)["details"]["reason"]


def test_an_idempotency_key_orders_once(site: Site):
    key = {"Idempotency-Key": str(UUID(int=5, version=4))}

    first = site.approve(5, headers=key)
    site.carry_out()
    again = site.approve(5, headers=key)

    assert (again.status_code, again.json()) == (202, first.json())
    assert len(site.removals()["orders"]) == 1


@pytest.mark.long(but=6)
@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("runs/9/approve", {"max": 1}, 404, "run"),
        ("runs/9/undo", {}, 404, "run"),
        ("runs/1/approve", {"max": 1}, 409, "run"),
        ("runs/1/undo", {}, 409, "run"),
        ("runs/x/approve", {"max": 1}, 400, "run"),
        ("runs/2/approve", {"max": 0}, 400, "max"),
        ("runs/2/approve", {"max": "3"}, 400, "max"),
        ("runs/2/approve", {}, 400, "max"),
        ("runs/2/approve", {"max": 1, "run": 2}, 400, "run"),
        ("runs/2/undo", {"pin": 1}, 400, "pin"),
        ("records/999/forget", {"confirm": True}, 404, "record_id"),
        ("records/1/forget", {"confirm": False}, 400, "confirm"),
        ("records/1/forget", {}, 400, "confirm"),
    ],
)
def test_a_wrong_order_names_its_field(
    site: Site, path: str, body: dict[str, Any], status: int, field: str
):
    answer = site.ask("POST", path, json=body)

    assert answer.status_code == status, answer.text
    assert error_of(answer)["details"]["field"] == field


def test_unknown_orders_and_sources_are_refused(site: Site):
    assert site.ask("GET", "removals/ro_0").status_code == 404
    answer = site.ask("GET", "removals", params={"source": "nowhere"})
    assert (answer.status_code, error_of(answer)["details"]["field"]) == (400, "source")


def test_an_order_whose_process_died_is_not_begun_again(site: Site):
    """It may have removed pages: a second process could remove more than was approved."""
    site.approve(5)
    with closing(site.database.open()) as connection:
        kind = RemovalOrders(site.database, connection)
        program = CrawlProgram((), {}, site.folder, plain=("/does/not/exist",))
        with transaction(connection):
            kind.claim(kind.waiting(LATER)[0].id, LATER)
            (begun,) = kind.begun()
            kind.rows.started(begun.id, Process("elsewhere", 1, "1"))
        crawls: LocalCrawls = LocalCrawls(site.database, program)
        Runner[BegunOrder](site.database, kind, crawls, 2).tick(LATER)

    (order,) = site.removals()["orders"]
    assert (order["status"], order["result"]) == ("ended", None)
    assert order["reasons"] == ["its process died; look at the removals, and order the rest"]


def test_a_process_that_cannot_be_started_ends_the_order(site: Site):
    site.approve(5)
    with closing(site.database.open()) as connection:
        program = CrawlProgram((), {}, site.folder, plain=("/does/not/exist",))
        crawls: LocalCrawls = LocalCrawls(site.database, program)
        kind = RemovalOrders(site.database, connection)
        Runner[BegunOrder](site.database, kind, crawls, 2).tick(LATER)

    (order,) = site.removals()["orders"]
    assert order["reasons"] == ["cannot start its process (No such file or directory)"]
