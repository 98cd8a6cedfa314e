"""Pages over the registry: records, removals, runs, sources and hosts, without a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from lxml.html import HtmlElement

from smartcrawl.registry.connection import transaction
from smartcrawl.rules.model import Outcome
from smartcrawl.server.explained.run_logs import run_log_tail
from smartcrawl.server.keys import Scope
from smartcrawl.server.pages.runs import run_result_word
from tests.registry.build import LATER, Desk
from tests.server.api_client import application
from tests.server.pages.browsing import Visitor, form_of, logged_in_visitor, parsed, words
from tests.server.test_removals import BASE, KEPT, LOST, PAGES, Site

HOSTILE = "https://docs.example.com/<b hx-get=/x>'\"\u202ex"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A broken deployment: the guard withholds 20 of 30 pages."""
    (tmp_path / "sources.toml").write_text(f'[sources.docs]\nseeds = ["{BASE}"]\n')
    site = Site(tmp_path)
    yield site
    site.desk.close()


@pytest.fixture
def visitor(site: Site) -> Visitor:
    return fresh(site)


def fresh(site: Site) -> Visitor:
    """A visitor of a server that has not kept any list yet."""
    run = {"registry": site.folder / "registry.db"}
    clock = lambda: float(LATER + 7_200)  # noqa: E731
    return Visitor(application(site.folder, run=run, clock=clock, pages_limit=10**9))


def keyed(site: Site, scope: Scope) -> Visitor:
    """A visitor who is logged in."""
    run = {"registry": site.folder / "registry.db"}
    clock = lambda: float(LATER + 7_200)  # noqa: E731
    app = application(site.folder, run=run, host="0.0.0.0", clock=clock, pages_limit=10**9)
    return logged_in_visitor(app, site.folder, scope, expires=LATER + 10**6)


def cells(page: HtmlElement, caption: str) -> list[list[str]]:
    """The rows of the table whose caption begins with some words."""
    (table,) = [
        table for table in page.iter("table") if words(table.find("caption")).startswith(caption)
    ]
    return [[words(cell) for cell in row] for row in table.iter("tr")][1:]


def notice(page: HtmlElement) -> str:
    return words(page.xpath("//p[contains(@class, 'notice') and not(@hidden)]")[0])


# Records


def test_a_record_begins_with_a_sentence_and_has_its_facts_and_events(site: Site, visitor: Visitor):
    page = visitor.page(f"/records/{site.desk.number(LOST[0])}")

    assert [words(h1) for h1 in page.iter("h1")] == [LOST[0]]
    assert page.findtext(".//title") == f"{LOST[0]} – Record – smartcrawl"
    assert notice(page).startswith(
        "Stored: the last good copy stays searchable; last visit 2 h ago"
    )
    assert "its removal (gone) waits for approval" in notice(page)
    facts = dict(zip(map(words, page.iter("dt")), map(words, page.iter("dd")), strict=True))
    assert facts["source"] == "docs"
    assert facts["state"].startswith("Error, lost, answered 404; content is stored")
    assert "waiting for approval (withheld by the guard)" in facts["proposed"]
    events = [words(li) for li in page.xpath("//ol[@class='events']/li")]
    assert events == ["2 h ago, run 2: changed, Error, lost 404", "3 h ago, run 1: discovered"]


def test_a_record_leads_to_the_pages_that_its_facts_name(site: Site, visitor: Visitor):
    with transaction(site.desk.connection):
        site.desk.connection.execute(
            "UPDATE record SET discovered_from = ? WHERE url = ?",
            (site.desk.number(KEPT[1]), KEPT[0]),
        )

    page = visitor.page(f"/records/{site.desk.number(KEPT[0])}")

    (link,) = page.xpath("//dt[.='found on']/following-sibling::dd[1]/a")
    answer = visitor.get(link.get("href"))
    assert answer.headers["Location"] == f"/records/{site.desk.number(KEPT[1])}"


@pytest.mark.parametrize(
    ("url", "to"), [(f"{BASE}unknown", "/try?urls="), ("https://a.example/", "/crawl?url=")]
)
def test_an_unknown_address_leads_to_what_can_be_done(visitor: Visitor, url: str, to: str):
    page = visitor.page(f"/records?url={url}")

    (link,) = page.xpath("//p[@class='links']/a")
    assert link.get("href").startswith(to)
    field = visitor.page(link.get("href")).xpath("//*[@id='urls' or @id='url']")[0]
    assert url in (field.get("value") or field.text)


def test_links_in_and_the_text_come_on_demand(site: Site, visitor: Visitor):
    path = f"/records/{site.desk.number(KEPT[0])}"
    (link,) = visitor.page(path).xpath("//a[contains(., 'Look for pages')]")
    (text,) = visitor.page(path).xpath("//h2[@id='text']/following::a[1]")

    looked = visitor.page(link.get("href").partition("#")[0])
    shown = visitor.page(text.get("href").partition("#")[0])

    assert "0 pages of docs lead here" in words(looked)
    assert f"a lantern at {KEPT[0]}" in words(shown).replace("\\", "")


def test_an_address_leads_to_its_record(site: Site, visitor: Visitor):
    answer = visitor.get("/records", params={"url": KEPT[0]})

    assert answer.status_code == 303
    assert answer.headers["Location"] == f"/records/{site.desk.number(KEPT[0])}"


def test_an_unknown_address_says_why_and_offers_near_misses(site: Site, visitor: Visitor):
    page = visitor.page("/records?url=http%3A%2F%2Fdocs.example.com%2F25%2F")

    assert notice(page).startswith("Not known.")
    (near,) = page.xpath("//h2[.='Did you mean']/following::ul[1]//a")
    assert (words(near), near.get("href")) == (PAGES[25], f"/records/{site.desk.number(PAGES[25])}")


def test_a_wrong_address_has_its_message_at_the_field(visitor: Visitor):
    page = visitor.page("/records?url=no+address", status=400)

    field = page.get_element_by_id("url")
    assert (field.get("value"), field.get("aria-invalid")) == ("no address", "true")
    assert "url must be an address" in words(page.get_element_by_id("url-error"))


@pytest.mark.parametrize("path", ["/records/999", "/runs/999", "/removals/ro_0"])
def test_a_number_that_does_not_exist_is_a_page_in_words(visitor: Visitor, path: str):
    page = visitor.page(path, status=404)

    assert page.xpath("//section[@role='alert']")


def test_a_page_is_fetched_anew_and_pinned_by_forms(site: Site, visitor: Visitor):
    path = f"/records/{site.desk.number(KEPT[0])}"

    fetched = visitor.submit(path, f"{path}/fetch")
    pinned = visitor.submit(path, f"{path}/pin")

    assert (fetched.status_code, fetched.headers["Location"]) == (303, f"{path}?done=fetched")
    assert notice(visitor.page(f"{path}?done=fetched")).startswith("It will be fetched anew")
    assert pinned.headers["Location"] == f"{path}?done=pinned"
    number = site.desk.number(KEPT[0])
    assert site.desk.rows("SELECT requested FROM item WHERE no = ?", (number,)) == [(1,)]
    assert site.desk.rows("SELECT no FROM pin") == [(number,)]
    assert not [f for f in visitor.page(path).forms if f.get("action") == f"{path}/pin"]


def test_a_page_is_forgotten_after_a_question(site: Site, visitor: Visitor):
    path = f"/records/{site.desk.number(KEPT[0])}"
    (link,) = visitor.page(path).xpath("//a[starts-with(., 'Forget')]")
    assert link.get("href") == f"{path}/forget"

    ordered = visitor.submit(f"{path}/forget", f"{path}/forget")

    assert ordered.status_code == 303
    assert site.carry_out() == 0
    done = visitor.page(ordered.headers["Location"])
    assert notice(done).startswith(f"Forget {KEPT[0]} of docs")
    assert notice(done).endswith("1 page removed")
    assert site.stored() == 29
    page = visitor.page(path)
    assert notice(page).startswith("Not searchable: removed: forgotten")
    assert page.xpath("//a[starts-with(., 'Forget')]") == []


def test_a_page_of_a_source_that_is_crawled_is_not_forgotten(site: Site, visitor: Visitor):
    path = f"/records/{site.desk.number(KEPT[0])}/forget"
    site.desk.open(now=LATER + 60)
    with site.database.take("docs", "now"):
        answer = visitor.submit(path, path)

    assert answer.status_code == 409
    assert "run 3 of docs is open" in notice(parsed(answer))


def test_who_may_not_operate_is_offered_no_order(site: Site):
    reader = keyed(site, Scope.READ)
    path = f"/records/{site.desk.number(LOST[0])}"

    assert [form for form in reader.page(path).forms if form.get("action").startswith(path)] == []
    token = form_of(reader.page(path), "/logout").fields["token"]
    refused = reader.post(f"{path}/fetch", {"token": token})

    assert refused.status_code == 403
    assert "scope operate" in words(parsed(refused))


def test_hostile_addresses_are_text(tmp_path: Path):
    desk = Desk(tmp_path / "registry.db")
    desk.open(now=LATER)
    number = desk.index(HOSTILE, "words", title="<script>alert(1)</script>", etag='"<i>"')
    desk.seal(now=LATER)
    desk.close()
    visitor = Visitor(application(tmp_path, run={"registry": tmp_path / "registry.db"}))

    for path in (f"/records/{number}?text=true", "/runs/1", "/records?url=%3Cb%3E", "/hosts"):
        page = visitor.get(path)
        found = parsed(page)
        assert found.xpath("//b | //i | //script[not(@src)]") == [], path
        assert not [a for a in found.xpath("//@*") if a.attrname.startswith("on")]
        assert found.xpath("//*[@hx-get]") == []
        assert "\u202e" not in found.text_content(), path


# Removals


def test_removals_that_wait_say_why_and_ask_for_a_number(site: Site, visitor: Visitor):
    page = visitor.page("/removals")

    assert notice(page).startswith(
        "20 removals of 30 stored pages wait for approval: one run removes at most 10%"
    )
    assert [words(li) for li in page.xpath("//section/ul/li")] == [
        "The server answers that the page is gone: 20 pages"
    ]
    rows = cells(page, "Waiting for approval: 20 pages")
    assert rows[0][0] == LOST[0]
    assert rows[0][1].startswith("the server answers that the page is gone, answered 404")
    form = form_of(page, "/removals/approve")
    assert (form.fields["run"], form.fields["max"]) == ("2", "")


def test_ten_pages_are_approved_removed_and_brought_back_without_scripts(
    site: Site, visitor: Visitor
):
    ordered = visitor.submit("/removals", "/removals/approve", max="10")
    assert ordered.status_code == 303
    waiting = visitor.page(ordered.headers["Location"])
    assert "Approve run 2 of docs, at most 10 pages: waiting" in notice(waiting)

    assert site.carry_out() == 0

    done = visitor.page(ordered.headers["Location"])
    assert notice(done).endswith("10 pages removed, 10 more wait")
    assert cells(done, "What became of the pages")[0] == [LOST[0], "removed"]
    assert site.stored() == 20

    page = fresh(site).page("/removals")
    ((run, source, pages, _, undo),) = cells(page, "Pages that were removed")
    assert (run, source, pages) == ("2", "docs", "10")
    assert undo.startswith("Restore 10 pages until in ")
    undone = fresh(site).submit("/removals", "/removals/undo")
    assert site.carry_out() == 0
    assert notice(visitor.page(undone.headers["Location"])).endswith("10 pages restored")
    assert site.stored() == 30
    orders = cells(fresh(site).page("/removals"), "Who ordered what")
    assert [(row[0], row[1]) for row in orders] == [
        ("undo run 2 of docs", "without a key"),
        ("approve run 2 of docs", "without a key"),
    ]


def test_lost_pages_are_removed_by_a_typed_number(site: Site, visitor: Visitor):
    with transaction(site.desk.connection):
        site.desk.connection.execute("DELETE FROM candidate")

    wrong = visitor.submit("/removals", "/removals/remove", max="many")
    assert wrong.status_code == 400
    assert parsed(wrong).get_element_by_id("max-lost-docs").get("value") == "many"

    ordered = visitor.submit("/removals", "/removals/remove", max="3")
    assert site.carry_out() == 0
    done = visitor.page(ordered.headers["Location"])
    assert notice(done).startswith("Remove lost pages of docs, at most 3 pages: 3 pages removed")
    assert site.stored() == 27


def test_a_double_click_orders_once(site: Site, visitor: Visitor):
    form = form_of(visitor.page("/removals"), "/removals/approve")
    fields = {name: value or "" for name, value in form.fields.items()} | {"max": "10"}

    first, second = (visitor.post("/removals/approve", fields) for _ in range(2))

    assert first.headers["Location"] == second.headers["Location"]
    assert site.desk.value("SELECT count(*) FROM removal_order") == 1


@pytest.mark.parametrize("typed", ["", "ten", "-1", "0", "1" * 30])
def test_a_wrong_number_stays_in_its_field_with_the_message(visitor: Visitor, typed: str):
    answer = visitor.submit("/removals", "/removals/approve", max=typed)

    assert answer.status_code == 400
    page = parsed(answer)
    field = page.get_element_by_id("max-2")
    assert (field.get("value"), field.get("aria-invalid")) == (typed, "true")
    assert words(page.get_element_by_id("max-2-error"))


def test_an_open_run_is_a_conflict_at_the_form(site: Site, visitor: Visitor):
    site.desk.open(now=LATER + 60)
    with site.database.take("docs", "now"):
        answer = visitor.submit("/removals", "/removals/approve", max="5")

    assert answer.status_code == 409
    error = words(parsed(answer).get_element_by_id("max-2-error"))
    assert error == "run 3 of docs is open: order it after that run"


def test_who_is_no_administrator_sees_removals_and_approves_none(site: Site):
    visitor = keyed(site, Scope.OPERATE)
    page = visitor.page("/removals")

    assert [f for f in page.forms if f.get("action").startswith("/removals")] == []
    assert "An approval takes a key of scope admin." in words(page)
    token = form_of(page, "/logout").fields["token"]
    for path in ("approve", "undo"):
        fields = {"token": token, "run": "2", "max": "1"}
        assert visitor.post(f"/removals/{path}", fields).status_code == 403
    assert site.desk.value("SELECT count(*) FROM removal_order") == 0


def test_an_order_that_waits_is_watched_and_ends(site: Site, visitor: Visitor):
    path = visitor.submit("/removals", "/removals/approve", max="10").headers["Location"]
    live = visitor.page(path).get_element_by_id("state")
    assert (live.get("hx-get"), live.get("data-live")) == (path, "")
    assert visitor.get(path, headers={"HX-Request": "true"}).status_code == 200

    site.carry_out()

    assert visitor.get(path, headers={"HX-Request": "true"}).status_code == 286
    assert visitor.page(path).get_element_by_id("state").get("hx-get") is None


# Runs


def test_a_run_that_ended_shows_what_it_found_beside_the_run_before(site: Site, visitor: Visitor):
    page = visitor.page("/runs/2")

    found = {row[0]: row[1:] for row in cells(page, "What it found, and the run before it")}
    assert found["unchanged"] == ["10", "0"]
    assert found["lost"][0] == "20"
    assert found["withheld from removal"] == ["20", "0"]
    assert "20 removals were withheld by the guard, and wait for approval" in words(page)
    assert [row[0] for row in cells(page, "Pages that are lost")] == LOST
    lists = {
        words(li.find("a")): words(li)
        for li in page.xpath("//nav[@aria-label='Lists of pages']//li")
    }
    assert lists["lost"] == "lost 20"


def test_the_count_of_failed_pages_leads_to_their_list(site: Site, visitor: Visitor):
    dead = f"{BASE}dead"
    site.desk.open(now=LATER + 60)
    broken = site.desk.visit(dead, outcome=Outcome.NOT_FOUND, status=404, error="HTTP status 404")
    site.desk.write(broken, now=LATER + 60)
    site.desk.seal("max_pages", now=LATER + 60)

    lists = fresh(site).page("/runs/3").xpath("//nav[@aria-label='Lists of pages']//a")
    (link,) = [one for one in lists if words(one) == "failed"]
    page = fresh(site).page(link.get("href").partition("#")[0])

    assert words(link.getparent()) == "failed 1"
    ((url, _, why),) = cells(page, "Pages that failed")
    assert (url, why) == (dead, "HTTP status 404")
    assert "No page is listed that failed." in words(visitor.page("/runs/2?list=failed"))
    assert "Pages that a later run visited are not in this list" in words(
        visitor.page("/runs/2?list=failed")
    )


def test_lists_of_a_run_are_paged(site: Site, visitor: Visitor):
    page = visitor.page("/runs/1?list=new")

    assert [row[0] for row in cells(page, "Pages that are new")] == PAGES
    rest = visitor.page("/runs/1?list=new&offset=25")
    assert [row[0] for row in cells(rest, "Pages that are new")] == PAGES[25:]


def test_a_run_names_what_helps_where_it_is_not_complete(site: Site, visitor: Visitor):
    site.desk.open(now=LATER + 60)
    site.desk.write(site.desk.visit(KEPT[0], outcome=Outcome.NOT_MODIFIED, status=304))
    site.desk.seal("max_pages", now=LATER + 60)

    page = visitor.page("/runs/3")

    (reason,) = page.xpath("//h2[.='Why it is not complete']/following::ul[1]/li")
    assert words(reason) == "max_pages (raise or leave out max_pages to crawl everything)"
    rows = {row[0]: row for row in cells(visitor.page("/runs"), "Runs, newest first")}
    assert (rows["3"][2], rows["3"][-1]) == ("incomplete", "max_pages")


def test_an_open_run_is_live_and_one_fragment_serves_all_viewers(site: Site, visitor: Visitor):
    site.desk.open(now=LATER + 60)
    site.desk.write(site.desk.visit(KEPT[0], outcome=Outcome.NOT_MODIFIED, status=304))
    watch = {"HX-Request": "true"}
    with site.database.take("docs", "now"):
        live = visitor.page("/runs/3").get_element_by_id("progress")
        assert live.get("hx-get") == "/runs/3"
        assert words(live).startswith("It runs: 1 page done")
        first = visitor.get("/runs/3", headers=watch)
        site.desk.write(site.desk.visit(KEPT[1], outcome=Outcome.NOT_MODIFIED, status=304))
        second = Visitor(visitor.app).get("/runs/3", headers=watch)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.text == second.text  # of the same second
    (hosts,) = parsed(first).xpath("//*[@hx-swap-oob]")
    assert hosts.get("id") == "live-hosts"

    site.desk.seal("interrupted", now=LATER + 60)
    ended = fresh(site).get("/runs/3", headers=watch)
    assert ended.status_code == 286
    assert "It ended." in ended.text


def test_the_requests_of_a_run_are_drawn_and_live_while_it_is_open(site: Site, visitor: Visitor):
    site.desk.open(now=LATER + 60)
    watch = {"HX-Request": "true"}
    with site.database.take("docs", "now"):
        page = visitor.page("/runs/3")
        live = page.get_element_by_id("live-chart")
        assert (live.get("hx-get"), live.get("hx-trigger")) == (
            *("/runs/3?part=chart", "every 10s, seen"),
        )
        assert "the first figures come after ten seconds" in words(live)
        visit = site.desk.visit(KEPT[0], outcome=Outcome.NOT_MODIFIED, status=304)
        site.desk.write(visit, now=LATER + 70)
        drawn = fresh(site).get("/runs/3?part=chart", headers=watch)
    assert drawn.status_code == 200
    figure = parsed(drawn)
    assert words(figure.find("figcaption")) == "0.1 requests a second"
    assert figure.xpath("//*[local-name()='svg'][@role='img']/*[local-name()='title']/text()") == [
        "0.1 requests a second"
    ]
    numbers = cells(figure, "0.1 requests")
    assert [row[1:] for row in numbers] == [["0.1", "0.0", "0.0", "1", "0"]]

    site.desk.seal("interrupted", now=LATER + 75)
    assert fresh(site).get("/runs/3?part=chart", headers=watch).status_code == 286
    assert len(fresh(site).page("/runs/3").xpath("//figure")) == 1


def test_runs_of_a_source_have_pictures_of_their_changes_and_stored_pages(
    site: Site, visitor: Visitor
):
    page = visitor.page("/runs?source=docs")

    titles = [words(caption) for caption in page.iter("figcaption")]
    assert titles == [
        "Run 1 changed most: 30 new",
        "30 pages stored after run 2, as many as after run 1",
    ]
    assert cells(page, "Run 1 changed")[0] == ["1", "30", "0", "0", "0"]
    assert page.xpath("//figure//a/@href") == ["/runs/1", "/runs/2"] * 2
    assert not visitor.page("/runs").xpath("//figure")


def test_a_run_that_no_job_ran_has_its_log(site: Site, visitor: Visitor):
    assert "Its log is not on this machine: it ran elsewhere" in words(visitor.page("/runs/2"))

    log = site.folder / "logs" / "run-2.log"
    log.parent.mkdir()
    log.write_text("2025-06-15 10:00:00,000 [smartcrawl] INFO: <b hx-get=/x>")
    shown = fresh(site).page("/runs/2")
    assert "<b hx-get=/x>" in words(shown.xpath("//pre[@class='log']")[0])
    assert not shown.xpath("//b[@hx-get]")
    assert not fresh(site).page("/runs/1").xpath("//pre")


def test_the_log_of_a_job_is_that_of_its_run(site: Site):
    with transaction(site.desk.connection):
        site.desk.connection.execute(
            "INSERT INTO job (id, name, definition, created_at) VALUES ('job_1', 'docs', '{}', 0)"
        )
        site.desk.connection.execute(
            "INSERT INTO job_run (id, job, run, due_at, fired_at) VALUES ('jb_1', 1, 2, 0, 0)"
        )
    gone = words(fresh(site).page("/runs/2"))
    assert "Its log is not on this machine any more; GET /api/v1/jobs/jb_1/log says" in gone
    logs = site.folder / "logs"
    logs.mkdir()
    (logs / "run-2.log").write_text("of a former registry")
    assert "of a former registry" not in words(fresh(site).page("/runs/2"))
    (logs / "jb_1.log").write_text("2025-06-15 10:00:00,000 [smartcrawl] ERROR: <b hx-get=/x>")
    shown = fresh(site).page("/runs/2")
    assert "<b hx-get=/x>" in words(shown.xpath("//pre[@class='log']")[0])
    assert not shown.xpath("//b[@hx-get]")


def logged_by_job(site: Site, run: int, *lines: str) -> Path:
    """The log of a job's run, which has some lines."""
    with transaction(site.desk.connection):
        site.desk.connection.execute(
            "INSERT INTO job (id, name, definition, created_at) VALUES ('job_1', 'docs', '{}', 0)"
        )
        site.desk.connection.execute(
            "INSERT INTO job_run (id, job, run, due_at, fired_at) VALUES ('jb_1', 1, ?, 0, 0)",
            (run,),
        )
    log = site.folder / "logs" / "jb_1.log"
    log.parent.mkdir()
    log.write_text("".join(f"2025-06-15 10:00:00,000 [smartcrawl] {line}\n" for line in lines))
    return log


def test_the_log_of_an_open_run_is_live_and_one_fragment_serves_all_viewers(
    site: Site, visitor: Visitor
):
    site.desk.open(now=LATER + 60)
    log = logged_by_job(site, 3, "INFO: <b hx-get=/x>", "WARNING: slow")
    watch, path = {"HX-Request": "true"}, "/runs/3?part=log&level=WARNING"
    with site.database.take("docs", "now"):
        live = visitor.page("/runs/3?level=WARNING").get_element_by_id("live-log")
        assert (live.get("hx-get"), live.get("data-live")) == (path, "")
        assert not live.xpath("ancestor::*[@hx-disable]")  # it could not ask there
        assert words(live) == "2025-06-15 10:00:00,000 [smartcrawl] WARNING: slow"
        first = visitor.get(path, headers=watch)
        with log.open("a") as more:
            more.write("2025-06-15 10:00:01,000 [smartcrawl] ERROR: down\n" * 300)
        second = Visitor(visitor.app).get(path, headers=watch)
        every = Visitor(visitor.app).get("/runs/3?part=log", headers=watch)
        later = parsed(fresh(site).get(path, headers=watch))
    assert (first.status_code, every.status_code) == (200, 200)
    assert first.text == second.text  # of the same second
    assert parsed(every).xpath("//@hx-get") == []
    (lines,) = later.xpath("//*[@hx-disable]/pre")
    assert lines.text_content().count("ERROR: down") == 200

    site.desk.seal("interrupted", now=LATER + 60)
    assert fresh(site).get(path, headers=watch).status_code == 286
    ended = fresh(site).page("/runs/3").get_element_by_id("live-log")
    assert ended.get("hx-get") is None


@pytest.mark.parametrize("part", ["", "?part=chart", "?part=log"])
def test_rights_are_checked_before_a_shared_fragment(site: Site, part: str):
    site.desk.open(now=LATER + 60)
    with transaction(site.desk.connection):
        site.desk.connection.execute("UPDATE source SET visibility = 'private'")
    reader, admin = keyed(site, Scope.READ), keyed(site, Scope.ADMIN)
    reader.app = admin.app
    watch = {"HX-Request": "true"}

    with site.database.take("docs", "now"):
        assert admin.get(f"/runs/3{part}", headers=watch).status_code == 200
        assert reader.get(f"/runs/3{part}", headers=watch).status_code == 404


def test_a_run_whose_process_died_says_so(site: Site, visitor: Visitor):
    site.desk.open(now=LATER + 60)

    page = visitor.page("/runs/3")

    assert notice(page).startswith("Its process died.")
    assert page.get_element_by_id("progress").get("hx-get") is None
    assert words(page.xpath("//dt[.='end']/following-sibling::dd[1]")[0]) == "–"
    assert "Requests over time" not in words(page)


def test_the_end_of_a_log_is_filtered_by_its_level(tmp_path: Path):
    log = tmp_path / "jb_1.log"
    lines = [f"2025-06-15 10:00:00,000 [smartcrawl] INFO: line {n}" for n in range(2_000)]
    lines += ["2025-06-15 10:00:01,000 [smartcrawl] ERROR: it failed", "  because of this"]
    log.write_text("\n".join(lines))

    assert run_log_tail(log)[-1] == "  because of this"
    assert len(run_log_tail(log)) == 200
    assert run_log_tail(log, "ERROR") == lines[-2:]
    assert run_log_tail(tmp_path / "none.log") is None


@pytest.mark.parametrize(
    ("run", "word"),
    [
        ({"finishedAt": "x", "state": "swept", "complete": True, "reasons": []}, "complete"),
        ({"finishedAt": "x", "state": "swept", "complete": False, "reasons": ["x"]}, "incomplete"),
        ({"finishedAt": "x", "state": "interrupted", "complete": False, "reasons": ["paused"]},
         "paused"),
        ({"finishedAt": "x", "state": "swept", "complete": False, "reasons": ["not_due: 3"]},
         "due"),
    ],
)  # fmt: skip
def test_the_result_of_a_run_is_a_word(run: dict[str, object], word: str):
    assert run_result_word(run) == word


# Sources, status and hosts


def test_sources_have_a_row_with_their_state_and_what_deserves_a_look(site: Site, visitor: Visitor):
    page = visitor.page("/sources")

    ((name, state, last, _, following, stored, look),) = cells(page, "Sources, with")
    assert name.startswith("docs")
    assert state.startswith("complete")
    assert (last, stored) == ("Run 2 2 h ago", "30")
    assert following == "not scheduled"
    assert "20 withheld: removals waiting for approval" in look
    bars = [
        words(title)
        for title in page.xpath("//*[local-name()='title'][ancestor::*[local-name()='svg']]")
    ]
    assert bars == ["run 1: 30 new", "run 2: 20 lost"]


def test_the_status_of_a_source_names_the_command_that_helps(site: Site, visitor: Visitor):
    page = visitor.page("/status")

    assert notice(page).startswith("fresh; complete; not healthy: 20 lost, 20 withheld")
    commands = [words(code) for code in page.xpath("//li/code")]
    assert any(command.endswith("orphans --source docs") for command in commands)
    figures = dict(zip(map(words, page.iter("dt")), map(words, page.iter("dd")), strict=True))
    assert figures["stored"] == "30, of them 20 lost"
    assert figures["errors"] == "66.7 % of pages, at their last visit"
    assert {"visited", "changes", "bytes", "cost"} <= figures.keys()


def test_hosts_are_listed_with_their_delay(site: Site, visitor: Visitor):
    (row,) = cells(visitor.page("/hosts"), "Hosts, by name")

    assert row[:2] == ["docs.example.com", "30"]


def test_the_frontier_has_what_waits_by_day_host_and_priority(site: Site, visitor: Visitor):
    page = visitor.page("/frontier")

    days = dict(cells(page, "Addresses by day"))
    assert len(days) == 16
    assert sum(map(int, days.values())) == 30
    assert cells(page, "Addresses that wait, by host") == [["docs.example.com", "30"]]
    assert cells(page, "Addresses that wait, by priority") == [["5 (usual)", "30"]]
    assert "30 addresses wait for a visit" in words(page.get_element_by_id("main"))


def test_the_frontier_has_further_hosts_on_demand(tmp_path: Path):
    desk = Desk(tmp_path / "registry.db")
    desk.open()
    for number in range(22):
        desk.index(f"https://h{number:02}.example/")
    desk.seal()
    desk.close()
    visitor = Visitor(application(tmp_path))

    page = visitor.page("/frontier")
    assert len(cells(page, "Addresses that wait, by host")) == 20
    assert "Show 2 more hosts" in words(page.get_element_by_id("main"))
    whole = visitor.page("/frontier?hosts=all")
    assert len(cells(whole, "Addresses that wait, by host")) == 22


def test_pages_without_a_crawl_teach(tmp_path: Path):
    visitor = Visitor(application(tmp_path))

    for path in ("/sources", "/runs", "/status", "/removals", "/hosts", "/records", "/frontier"):
        assert visitor.page(path).xpath("//h1"), path
    assert "Nothing was crawled yet" in words(visitor.page("/sources"))


def test_a_private_source_is_as_if_it_were_not_there(site: Site, visitor: Visitor):
    with transaction(site.desk.connection):
        site.desk.connection.execute("UPDATE source SET visibility = 'private'")
    (site.folder / "sources.toml").write_text("")

    assert visitor.page("/runs/2", status=404) is not None
    assert visitor.page(f"/records/{site.desk.number(LOST[0])}", status=404) is not None
    for path in ("/sources", "/runs", "/status", "/removals", "/hosts", "/frontier"):
        assert "docs" not in words(visitor.page(path).get_element_by_id("main")), path
