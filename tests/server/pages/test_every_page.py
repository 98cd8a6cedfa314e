"""What holds for each page of the site map, without a browser."""

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from smartcrawl.registry.connection import Connection
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.stores import Stores
from tests.server.api_client import application
from tests.server.pages.browsing import Visitor, form_of, parsed, words
from tests.server.pages.shop import HOME, ODD, Shop, site_map
from tests.server.pages.site_map import page_routes

pytestmark = pytest.mark.sqlite
#: Tables with a row for each page, or more.
_LARGE = re.compile(r"\b(record|state|change|event|evidence|content|chunk|links)\b")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path / "shop")
    yield shop
    shop.desk.close()


@pytest.fixture
def visitor(shop: Shop) -> Visitor:
    """An administrator."""
    run = {"registry": shop.folder / "registry.db"}
    visitor = Visitor(application(shop.folder, run=run, pages_limit=10**9))
    assert visitor.submit("/login", "/login", key=shop.key).status_code == 303
    return visitor


def test_the_site_map_is_whole_and_each_page_is_there(shop: Shop, visitor: Visitor, tmp_path: Path):
    found = {page: visitor.get(page) for page in site_map(shop, tmp_path)}

    assert {page for page, answer in found.items() if answer.status_code != 200} == {
        "/none", "/records/999"
    }  # fmt: skip
    titles = {parsed(answer).findtext(".//title") for answer in found.values()}
    routes = page_routes(tmp_path)
    assert len(titles) >= len(routes), "each page has a title of its own"
    links = parsed(found["/"]).xpath("//nav//a/@href")
    assert {route for route in routes if "{" not in route} - {"/login", "/jobs/new"} == set(links)


class Noted:
    """A connection that notes its statements."""

    def __init__(self, connection: Connection, noted: Any) -> None:
        """`noted` has an `add`, such as a set."""
        self._connection = connection
        self._noted = noted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, statement: str, *given: Any) -> Any:
        self._noted.add(statement)
        return self._connection.execute(statement, *given)


def test_no_page_scans_a_large_table_on_the_event_loop(
    shop: Shop, visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    statements: set[str] = set()
    threads: set[threading.Thread] = set()
    read_little, reading = Stores.read_little, Stores.reading

    async def noted(stores: Stores, work: Callable[[Any], Any]) -> Any:
        return await read_little(stores, lambda seen: work(Noted(seen, statements)))

    def lent(stores: Stores) -> AbstractContextManager[Connection]:
        threads.add(threading.current_thread())
        return reading(stores)

    monkeypatch.setattr(Stores, "read_little", noted)
    monkeypatch.setattr(Stores, "reading", lent)
    for page in site_map(shop, tmp_path):
        visitor.get(page)

    assert statements
    assert threads
    assert threading.main_thread() not in threads, "the event loop of these requests is in it"
    for statement in filter(_LARGE.search, statements):
        names = dict.fromkeys(re.findall(r":(\w+)", statement))
        values: Any = names or (None,) * statement.count("?")
        plan = shop.desk.connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
        assert not [step for *_, step in plan if step.startswith("SCAN")], statement


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (ODD, "Stored: the last good copy stays searchable"),
        (f"{HOME}elsewhere", "Not known."),
    ],
)
def test_two_clicks_lead_from_the_first_page_to_why_a_page_is_not_there(
    visitor: Visitor, url: str, why: str
):
    (link,) = visitor.page("/").xpath("//nav//a[.='Look up']")  # the first click
    page = visitor.page(link.get("href"))
    form = form_of(page, "/records")
    assert form.method == "GET"
    answer = visitor.get("/records", params={"url": url})  # the second one sends what was typed
    if answer.status_code == 303:
        answer = visitor.get(answer.headers["Location"])

    assert why in words(parsed(answer).get_element_by_id("main"))


def test_a_search_that_finds_nothing_offers_the_same(visitor: Visitor):
    page = visitor.page("/?q=zzzxq")

    assert form_of(page, "/records").xpath("string(label)").startswith("The address of the page")


#: What no page has at the place of a number or an id.
NONE = ("0", "-1", "9" * 25, "x", "%3Cb%3E", "..%2fkeys", "%E2%80%AE")
#: Values of parameters that no page expects.
ODD = ("%00", "x" * 10_000, "%27", "%22", "%22 OR 1 NEAR(", "%E2%80%AE%D7%A9", "%ff", "-1",
       "9" * 25, "%3Cb%20hx-get=/x%3E")  # fmt: skip
PARAMETERS = ("q", "url", "urls", "source", "since", "offset", "level", "list", "sort", "hosts",
              "date", "type", "language", "cron", "part", "name", "next", "done")  # fmt: skip


def in_words(answer: httpx.Response) -> str:
    """The words of a page, which is none of a fault of the server."""
    assert answer.status_code < 500, answer.url
    page = parsed(answer)
    assert page.xpath("//b | //*[@hx-get='/x']") == [], answer.url
    assert len(page.findall(".//h1")) == 1, answer.url
    return words(page.get_element_by_id("main"))


@pytest.mark.long(but=2)
@pytest.mark.parametrize("none", NONE)
def test_what_does_not_exist_is_a_page_in_words(visitor: Visitor, tmp_path: Path, none: str):
    routes = [route for route in page_routes(tmp_path) if "{" in route]
    assert routes
    for route in routes:
        answer = visitor.get(re.sub(r"\{\w+\}", none, route))
        assert answer.status_code in (400, 404), route
        assert "req_" not in in_words(answer), route


@pytest.mark.long(but=1)
@pytest.mark.parametrize("odd", ODD)
def test_no_value_is_too_odd_for_a_page(shop: Shop, visitor: Visitor, tmp_path: Path, odd: str):
    paths = [path for path in site_map(shop, tmp_path) if "?" not in path]
    for number, path in enumerate(paths):
        for name in PARAMETERS[number % 3 :: 3] if number else PARAMETERS:
            answer = visitor.get(f"{path}?{name}={odd}")
            if answer.status_code == 303:
                assert answer.headers["Location"].startswith("/"), path
            elif answer.status_code != 200 or "text/html" in answer.headers["Content-Type"]:
                in_words(answer)


@pytest.mark.long
def test_a_form_without_fields_is_refused_in_words(shop: Shop, tmp_path: Path):
    """Or does what it says without any, such as *Fetch anew*; without its token it does nothing."""
    run = {"registry": shop.folder / "registry.db"}
    app = application(shop.folder, run=run, host="0.0.0.0", pages_limit=10**9)
    visitor = Visitor(app)
    visitor.submit("/login", "/login", key=shop.key)
    token = form_of(visitor.page("/docs"), "/logout").fields["token"]
    seen = set[str]()
    for path in site_map(shop, tmp_path):
        page = parsed(visitor.get(path))
        seen |= {form.get("action") for form in page.forms if form.method == "POST"}
    assert len(seen) > 10
    odd = {"max": "<b>", "url": "\u202e", "action": "<b>", "name": "<b>" * 9_000}
    for action in sorted(seen - {"/logout", "/login"}):
        assert visitor.post(action, odd).status_code == 403, action
        for fields in ({}, odd):
            answer = visitor.post(action, {"token": token, **fields})
            assert answer.status_code == 303 or in_words(answer), action


def test_what_is_live_can_be_reloaded_without_scripts(shop: Shop, visitor: Visitor):
    paths = ["/runs/3", f"/crawl/{shop.job}"]
    shop.desk.rows("UPDATE job SET status = 'running'")
    with registry_database(shop.folder / "registry.db").take("docs", "now"):
        for path in paths:
            page = visitor.page(path)
            assert page.xpath("//*[@data-live]"), path
            (link,) = page.xpath("//main//a[.='Reload']/@href")
            assert link == path
