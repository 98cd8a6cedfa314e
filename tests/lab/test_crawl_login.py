"""Login forms at a first crawl: not indexed, and a reason of the run (ADR 98)."""

import pytest

from tests.crawls.commands import Crawl
from tests.lab.lab_site import LabSite
from tests.site_server import Page, Site, html

FORM = "<form><input name=user><input type=password></form></main>"
LOGIN = html("Sign in", text="Who are you?").replace("</main>", FORM)
PATHS = [f"/page{n}" for n in range(12)]


class Gate(LabSite):
    """Answers addresses below /login, whatever their query, with a login form."""

    login: str | Page | None = LOGIN

    def _page(self, path: str) -> Page | None:
        if path.startswith("/login") and self.login is not None:
            return Page(str(self.login)) if not isinstance(self.login, Page) else self.login
        return super()._page(path)


@pytest.fixture
def site() -> Gate:
    return Gate()


@pytest.fixture
def gate(site: Gate) -> Gate:
    return site


@pytest.mark.parametrize("query", ["?next={}", ""], ids=["named", "plain"])
def test_pages_that_redirect_to_one_login_page_are_no_pages(gate: Gate, crawl: Crawl, query: str):
    gate.pages["/"] = html("Home", *PATHS, text="All about lamps.")
    for path in PATHS:
        gate.pages[path] = Page(redirect="/login" + query.format(path), status=302)
    result = crawl(gate.url("/"), expect=3)

    found = crawl.pages()
    assert {found[path]["lastOutcome"] for path in PATHS} == {"failed"}
    assert {found[path]["httpStatusCode"] for path in PATHS} == {1213}
    assert {found[path]["lostCount"] + found[path]["goneCount"] for path in PATHS} == {0}
    assert "redirected to a login form" in found["/page3"]["errorMessage"]
    assert crawl.hits("who") == []
    assert "wall: " in result.out
    days = "SELECT next_visit - last_checked FROM state WHERE http_status = 1213"
    assert all(wait > 40_000 for (wait,) in crawl.rows(days)), "the base interval"

    for path in PATHS:
        gate.pages[path] = html(f"Page {path}", text=f"treasure of {path}")
    crawl(gate.url("/"))
    assert len(crawl.hits("treasure")) == 12


def test_a_wall_without_a_password_is_no_hit_in_any_run(gate: Gate, crawl: Crawl):
    """Its redirects show what it is, when all pages of a run have answered."""
    gate.login = html("Choose an account", text="Continue with yours.")
    gate.pages["/"] = html("Home", *PATHS, text="All about lamps.")
    for path in PATHS:
        gate.pages[path] = Page(redirect=f"/login?next={path}", status=302)
    walls = [f"/login?next={path}" for path in PATHS]
    for words in ("Continue with yours.", "Continue with yours.", "Go on with yours."):
        gate.login = html("Choose an account", text=words)
        result = crawl(gate.url("/"), expect=3)
        found = crawl.pages()
        assert {found[path]["lastOutcome"] for path in walls + PATHS} == {"failed"}
        assert {found[path]["httpStatusCode"] for path in walls + PATHS} == {1213}
        assert {found[path]["errorMessage"] for path in walls} == {
            "a wall: new pages redirect there with their addresses"
        }
        assert crawl.hits("yours") == []
        assert "removed" not in result.out
        assert crawl.runs()[0]["removed"] == 0

    gate.pages["/"] = html("Home", *PATHS, *walls[:2], text="All about lamps.")
    for path in PATHS[:11]:
        gate.pages[path] = html(f"Page {path}", text=f"treasure of {path}")
    crawl(gate.url("/"))
    assert crawl.hits("yours") == [], "no page leads there now; the next visit finds a page"
    crawl(gate.url("/"))
    assert len(crawl.hits("yours")) == 1
    outcomes = crawl.outcomes()
    assert {outcomes[wall] for wall in walls[:2]} == {"new", "clone"}
    assert outcomes[walls[11]] == "failed", "a page still leads there"


def test_a_login_form_with_status_200_is_not_indexed(gate: Gate, crawl: Crawl):
    gate.pages["/"] = html("Home", *PATHS, text="All about lamps.")
    for path in PATHS:
        gate.pages[path] = LOGIN
    crawl(gate.url("/"), expect=3)
    assert {crawl.outcomes()[path] for path in PATHS} == {"failed"}
    assert crawl.hits("who") == []


def test_a_site_with_a_login_page_is_complete(gate: Gate, crawl: Crawl):
    """Its pages have a form of their own, and are indexed."""
    box = html("Lamps", text="A lamp.").replace("</main>", FORM)
    gate.pages["/"] = html("Home", "/login", "/a", text="All about lamps.")
    gate.pages["/a"] = box
    crawl(gate.url("/"))
    assert crawl.outcomes() == {"/": "new", "/a": "new", "/login": "failed"}


def test_a_wiki_whose_edit_links_lead_to_a_login_is_complete(gate: Gate, crawl: Crawl):
    names = [f"Lamp{n}" for n in range(8)]
    gate.pages["/"] = html("Home", *(f"/wiki/{name}" for name in names))
    for name in names:
        gate.pages[f"/wiki/{name}"] = html(name, f"/edit/{name}", text=f"treasure of {name}")
        gate.pages[f"/edit/{name}"] = Page(redirect=f"/login?next=/edit/{name}", status=302)
    crawl(gate.url("/"))
    assert crawl.outcomes()["/edit/Lamp3"] == "failed"
    assert len(crawl.hits("treasure")) == 8


def test_a_seed_that_is_a_login_page_is_one(gate: Gate, crawl: Crawl):
    gate.pages["/"] = html("Home")
    crawl(gate.url("/login"))
    assert crawl.outcomes()["/login"] == "new"


def test_a_catch_all_redirect_is_no_wall(site: Site, crawl: Crawl):
    site.pages["/"] = html("Home", "/en/", *PATHS, text="All about lamps.")
    site.pages["/en/"] = html("English", text="Lamps in English.")
    for path in PATHS:
        site.pages[path] = Page(redirect="/", status=302)
    crawl(site.url("/"))
    assert {crawl.outcomes()[path] for path in PATHS} == {"redirected"}


def test_an_indexed_login_page_takes_no_other_page(gate: Gate, crawl: Crawl):
    """It has as much text as the pages, so that they do not seem to shrink."""
    long = html("Sign in", text="Who are you? " * 20).replace("</main>", FORM)
    gate.login = None
    gate.pages["/enter"] = html("Enter", text="Come in. " * 20)
    gate.pages["/"] = html("Home", "/enter", *PATHS, text="All about lamps. " * 30)
    for n, path in enumerate(PATHS):
        gate.pages[path] = html(f"P{n}", text=f"treasure of {'abcdefghijkl'[n]} " * 14)
    crawl(gate.url("/"))
    for path in PATHS:
        gate.pages[path] = long
    for _ in range(4):
        crawl(gate.url("/"), expect=3)
        statuses = [crawl.pages()[path]["httpStatusCode"] for path in PATHS]
        assert statuses.count(1213) == 11, "the first page looks like an edit"
