"""Rendered pages over several runs: confirmed by their data, rendered where it differs."""

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from smartcrawl.rules.data_requests import ENOUGH
from tests.lab.lab import Lab
from tests.lab.lab_browser import LabBrowser, Shown
from tests.lab.lab_site import LabSite
from tests.site_server import Fault, Page

SHELL = Page(
    '<!doctype html><title>Shell</title><div id="app"></div><script src="/app.js"></script>'
)
NAMES = ("one", "two", "three")
WORDS = " and so many more words that it is a page of its own, which scripts write" * 3
API = "/api/{}.json"


def data(value: object, **fields: Any) -> Page:
    return Page(json.dumps(value), **{"content_type": "application/json"} | fields)


def text(name: str, edition: str = "first", **more: object) -> dict[str, object]:
    return {"title": f"Title of {name}", "text": f"{edition} text of {name}", **more}


def show(_: bytes, menu: bytes | None, page: bytes | None) -> str:
    """What the scripts make of a menu and the data of a page."""
    links = json.loads(menu)["links"] if menu and menu[:1] == b"{" else []
    shown = json.loads(page) if page and page[:1] == b"{" else {"title": "Nothing is here"}
    items = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    return (
        f"<!doctype html><head><title>{shown.get('title', '')}</title></head><body><nav>{items}"
        f"</nav><main><h1>{shown.get('title', '')}</h1><p>{shown.get('text', '')}{WORDS}</p></main>"
    )


def shown(path: str) -> Shown:
    name = path.rpartition("/")[2] or "home"
    return Shown(show, ["Script /app.js", API.format("menu"), API.format(name)])


@pytest.fixture
def app(lab: Lab) -> Iterator[Lab]:
    """A home page and three pages, whose document is one shell."""
    lab.pages |= dict.fromkeys(["/", *(f"/p/{name}" for name in NAMES)], SHELL)
    lab.pages["/app.js"] = Page("render()", content_type="text/javascript")
    lab.pages[API.format("menu")] = data({"links": [f"/p/{name}" for name in NAMES]})
    for name in ("home", *NAMES):
        lab.pages[API.format(name)] = data(text(name))
    declare(lab)
    LabBrowser.table = {"*": shown}
    LabBrowser.missing = ""
    LabBrowser.shown.clear()
    lab.settings |= {"TRUST_SAMPLE_RATIO": "0", "MAX_UNVERIFIED_DAYS": "0"}
    yield lab
    LabBrowser.table = {}


def declare(lab: Lab, more: str = "") -> None:
    lab.crawl.declare(f'[sources.app]\nseeds = ["{lab.site.url("/")}"]\nrender = "always"\n{more}')
    lab.source = "app"


def renders(lab: Lab, **arguments: Any) -> list[str]:
    """Crawl; return which pages were rendered, and leave what they became in `words`."""
    LabBrowser.shown.clear()
    lab.run(**arguments)
    return LabBrowser.shown.copy()


ALL = ["/", *(f"/p/{name}" for name in NAMES)]
SAME = ["unchanged"] * len(ALL)


def test_what_nothing_changed_is_confirmed_without_a_browser(app: Lab):
    assert renders(app) == ALL
    assert app.words(*ALL) == ["new"] * len(ALL)
    LabBrowser.missing = "there is none"
    ran = app.run()
    assert ran.complete
    assert app.words(*ALL) == SAME
    assert app.asked("/app.js", API.format("menu"), API.format("one"), "/p/one") == [1, 1, 1, 1]
    assert {record.status for record in app.log} == {304, 404}  # robots.txt
    assert all(app.conditional(API.format("one")))
    told = app.crawl.run("why", app.site.url("/p/one")).out
    assert "confirmed by 4 data requests" in told
    assert "4 data requests, with validators where they have some" in told
    counts = app.rows("SELECT requests, data_requests, renderings FROM run ORDER BY no")
    assert counts == [(4, 6, 4), (4, 6, 0)]


def test_an_edit_renders_one_page(app: Lab):
    renders(app)
    assert "confirmed by" not in app.crawl.run("why", app.site.url("/p/two")).out
    app.pages[API.format("two")] = data(text("two", "second"))
    assert renders(app) == ["/p/two"]
    assert app.words(*ALL) == ["unchanged", "unchanged", "modified", "unchanged"]
    assert app.hits('"second text of two"') == ["/p/two"]
    assert renders(app) == []


def test_a_changed_menu_renders_all(app: Lab):
    renders(app)
    app.pages["/p/four"] = SHELL
    app.pages[API.format("four")] = data(text("four"))
    app.pages[API.format("menu")] = data({"links": [f"/p/{name}" for name in (*NAMES, "four")]})
    assert renders(app) == [*ALL, "/p/four"]
    assert app.words("/p/four") == ["new"]
    assert renders(app) == []


def test_a_changed_menu_waits_beyond_the_pages_of_a_run(app: Lab):
    renders(app)
    app.pages[API.format("menu")] = data({"links": [f"/p/{name}" for name in NAMES], "note": 1})
    app.settings["RENDER_PER_RUN"] = "1"
    assert renders(app, expect=3) == ["/", "/p/one"]  # no other page was known yet to share it
    assert app.words(*ALL) == SAME
    ran = app.run(expect=3)
    assert ran.reasons == ("render: 1 page waits",)
    app.settings["RENDER_PER_RUN"] = "0"
    assert renders(app) == ["/p/three"]
    assert renders(app) == []


def test_a_page_that_waits_is_due_soon(app: Lab):
    interval = "SELECT interval FROM state s JOIN record r USING (no) WHERE url LIKE '%/two'"
    for _ in range(8):
        renders(app)
    before = app.rows(interval)
    app.pages[API.format("menu")] = data({"links": [f"/p/{name}" for name in NAMES], "note": 1})
    app.settings["RENDER_PER_RUN"] = "1"
    assert renders(app, expect=3) == ["/", "/p/one"]
    assert app.rows(interval) < before


def test_an_edit_of_its_own_does_not_wait(app: Lab):
    renders(app)
    app.settings["RENDER_PER_RUN"] = "1"
    for name in ("one", "two"):
        app.pages[API.format(name)] = data(text(name, "second"))
    assert renders(app) == ["/p/one", "/p/two"]


def test_a_document_that_changed_renders_its_page(app: Lab):
    renders(app)
    app.pages["/p/one"] = Page(SHELL.body.replace("app.js", "app.js?2"))
    assert renders(app) == ["/p/one"]


@pytest.mark.parametrize("etag", [None, '"always"'], ids=["without", "with"])
def test_a_script_that_changed_renders_its_pages(app: Lab, etag: str | None):
    app.pages["/app.js"] = Page("one()", content_type="text/javascript", etag=None)
    renders(app)
    assert renders(app) == []
    app.pages["/app.js"] = Page("other()", content_type="text/javascript", etag=etag)
    assert renders(app) == ALL


def test_a_document_without_validators_is_compared(app: Lab):
    for path in ALL:
        app.pages[path] = Page(SHELL.body, etag=None)
    renders(app)
    assert renders(app) == []
    assert app.words(*ALL) == SAME


def test_the_time_as_a_parameter_is_the_time_of_each_request(app: Lab):
    def timed(path: str) -> Shown:
        name = path.rpartition("/")[2] or "home"
        now = time.time()
        return Shown(
            show, ["Script /app.js", API.format("menu"), f"{API.format(name)}?_={now:.0f}"]
        )

    LabBrowser.table = {"*": timed}
    renders(app)
    app.after(days=2)
    assert renders(app) == []
    assert app.words(*ALL) == SAME
    [asked] = [record.path for record in app.log if record.path.startswith(API.format("one"))]
    assert abs(int(asked.rpartition("=")[2]) - 2 * 86_400 - time.time()) < 60


def test_noise_is_learnt_by_two_renderings(app: Lab):
    def stamp(at: int) -> None:
        for name in ("home", *NAMES):
            app.pages[API.format(name)] = data(text(name, generatedAt=at))

    stamp(1)
    renders(app)
    stamp(2)
    assert renders(app) == ["/", "/p/one"]
    assert app.words(*ALL) == SAME
    stamp(3)
    assert renders(app) == []
    app.pages[API.format("two")] = data(text("two", "second", generatedAt=4))
    assert renders(app) == ["/p/two"]
    assert app.words("/p/two") == ["modified"]
    stamp(5)
    assert renders(app) == ["/p/two"]  # it went back


def test_noise_of_what_pages_share_is_learnt_for_all(app: Lab):
    def stamp(at: int) -> None:
        menu = {"links": [f"/p/{name}" for name in NAMES], "generatedAt": at}
        app.pages[API.format("menu")] = data(menu)

    stamp(1)
    renders(app)
    stamp(2)
    assert renders(app) == ["/", "/p/one"]
    stamp(3)
    assert renders(app) == []


def test_noise_that_each_answer_has_is_learnt(app: Lab, monkeypatch: pytest.MonkeyPatch):
    page_of, clock = app.site._page, count()

    def answer(path: str) -> Page | None:
        page = page_of(path)
        if page is None or not path.startswith("/api/"):
            return page
        shown = json.loads(page.body) | {"generatedAt": next(clock)}
        return data(shown)

    monkeypatch.setattr(app.site, "_page", answer)
    renders(app)
    assert len(renders(app)) == ENOUGH
    assert app.words(*ALL) == SAME
    assert renders(app) == []
    app.pages[API.format("two")] = data(text("two", "second"))
    assert renders(app) == ["/p/two"]
    assert app.words(*ALL) == ["unchanged", "unchanged", "modified", "unchanged"]
    assert renders(app) == []


def test_what_changed_a_text_is_no_noise(app: Lab):
    app.pages[API.format("one")] = data(text("one", "first", shows=True))
    renders(app)
    for edition in ("second", "third"):
        app.pages[API.format("one")] = data(text("one", edition, shows=True))
        assert renders(app) == ["/p/one"]
    noise = app.rows("SELECT noise FROM data_request WHERE url LIKE '%/one.json'")
    assert [json.loads(row[0]) for row in noise] == [{".text": -1_000_000}]


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Page("no", status=500), "data: 1 request to site.example: HTTP 500"),
        (Page("no", status=401), "data: 1 request to site.example: HTTP 401"),
        (Page("no", status=403), "data: 1 request to site.example: HTTP 403"),
        (Page("no", fault="reset"), "Connection to the other side was lost"),
        (None, "data: robots.txt of site.example forbids 5 requests"),
    ],
    ids=["500", "401", "403", "nothing", "robots"],
)
def test_known_data_without_an_answer_keeps_the_page(app: Lab, answer: Page | None, reason: str):
    renders(app)
    if answer is not None:
        app.pages[API.format("one")] = answer
    else:
        app.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /api/", content_type="text/plain")
    ran = app.run(expect=3)
    assert reason in " ".join(ran.reasons)
    assert app["/p/one"]["lastOutcome"] == "failed"
    assert app["/p/one"]["httpStatusCode"] == 1219
    assert app.hits('"first text of one"') == ["/p/one"]
    if answer is not None:
        assert app.words("/", "/p/two") == ["unchanged", "unchanged"]
        app.pages[API.format("one")] = data(text("one"))
        assert renders(app) == []
        assert app.words(*ALL) == SAME


@pytest.mark.parametrize("status", [401, 403])
def test_data_that_is_refused_in_a_rendering_keeps_the_page(app: Lab, status: int):
    renders(app)
    app.pages[API.format("one")] = Page("no", status=status)
    app.run(expect=3, force=1)
    assert app["/p/one"]["httpStatusCode"] == 1219
    assert app.hits('"first text of one"') == ["/p/one"]


def test_a_shell_is_not_stored_as_a_new_page(app: Lab):
    app.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /api/", content_type="text/plain")
    ran = app.run(expect=3)
    assert "data: robots.txt of site.example forbids 2 requests" in ran.reasons
    assert app.words("/") == ["failed"]


def test_a_page_whose_own_data_is_not_found_is_lost(app: Lab):
    renders(app)
    del app.pages[API.format("one")]
    assert renders(app) == []
    assert app.words("/p/one") == ["lost"]
    assert app["/p/one"]["httpStatusCode"] == 404
    assert app["/p/one"]["errorMessage"] == "its document is there, and its own data is not found"


def test_a_new_page_whose_own_data_is_not_found_is_none(app: Lab):
    del app.pages[API.format("one")]
    renders(app)
    assert app.words("/p/one") == ["failed"]
    assert app["/p/one"]["httpStatusCode"] == 404


def test_a_page_that_shows_without_its_data_stays(app: Lab):
    """Data that was not found when the page was stored is no sign later."""
    app.pages[API.format("notes/one")] = data({"notes": []})

    def noted(path: str) -> Shown:
        name = path.rpartition("/")[2] or "home"
        asks = ["Script /app.js", API.format("menu"), API.format(name), API.format(f"notes/{name}")]
        return Shown(lambda *bodies: show(*bodies[:3]), asks)

    LabBrowser.table = {"*": noted}
    renders(app)
    assert app.words(*ALL) == ["new"] * len(ALL)
    assert renders(app) == []
    assert app.words(*ALL) == SAME


def test_without_a_browser_changed_pages_stay(app: Lab):
    renders(app)
    LabBrowser.missing = "RENDER_BROWSER names no program"
    app.pages[API.format("two")] = data(text("two", "second"))
    ran = app.run(expect=3)
    assert "render: no browser" in ran.reasons
    assert app.words(*ALL) == ["unchanged", "unchanged", "failed", "unchanged"]
    assert app["/p/two"]["httpStatusCode"] == 1114
    assert app.hits('"first text of two"') == ["/p/two"]
    LabBrowser.missing = ""
    assert renders(app) == ["/p/two"]
    assert app.words("/p/two") == ["modified"]


def test_what_no_request_brings_again_is_rendered_at_each_visit(app: Lab):
    LabBrowser.table = {"*": lambda path: Shown(show, shown(path).asks, streams=path == "/p/one")}
    renders(app)
    assert renders(app) == ["/p/one"]
    assert app.words(*ALL) == SAME


@pytest.fixture
def posted(app: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The same pages, whose data is asked by POST at one address."""
    page_of = app.site._page

    def answer(path: str) -> Page | None:
        if path != "/graphql":
            return page_of(path)
        found = page_of(API.format(app.site.posted.decode()))
        return found and replace(found, etag=None)

    def asked(path: str) -> Shown:
        name = path.rpartition("/")[2] or "home"
        return Shown(show, ["Script /app.js", API.format("menu"), f"POST /graphql {name}"])

    monkeypatch.setattr(app.site, "_page", answer)
    LabBrowser.table = {"*": asked}
    return app


def test_data_that_a_declared_post_brings_is_compared(posted: Lab):
    declare(posted, "data_posts = ['/graphql$']\n")
    assert renders(posted) == ALL
    assert posted.hits('"first text of two"') == ["/p/two"]
    assert posted.site.count("/graphql") == len(ALL)
    assert renders(posted) == []
    assert posted.words(*ALL) == SAME
    posted.pages[API.format("two")] = data(text("two", "second"))
    assert renders(posted) == ["/p/two"]
    assert posted.words(*ALL) == ["unchanged", "unchanged", "modified", "unchanged"]
    assert posted.hits('"first text of two"') == []
    assert posted.hits('"second text of two"') == ["/p/two"]
    posted.site.clear()
    declare(posted)  # what is no longer declared is no longer sent
    assert "collapsed: 3 pages" in str(posted.run(expect=3))
    assert posted.site.count("/graphql") == 0


def test_a_post_that_is_not_declared_is_not_sent(posted: Lab):
    assert renders(posted) == ALL
    assert renders(posted) == ALL  # what it would have brought, no request can tell
    assert posted.words(*ALL) == SAME
    assert posted.site.count("/graphql") == 0


def test_an_address_that_cannot_exist_lacks_no_data(posted: Lab, monkeypatch: pytest.MonkeyPatch):
    asks = LabBrowser.table["*"]
    empty = Shown(lambda *_: "<title>Nothing</title><p>Nothing is here</p>", ["POST /graphql x"])
    assert callable(asks)
    LabBrowser.table = {"*": lambda path: asks(path) if path in ALL else empty}
    posted.settings |= {"SOFT_404_DETECTION": "1"}
    page_of = posted.site._page
    monkeypatch.setattr(posted.site, "_page", lambda path: page_of(path) or SHELL)
    assert len(renders(posted)) == len(ALL) + 1  # the run is complete


def test_data_of_a_declared_host_is_asked_at_a_refresh(app: Lab):
    elsewhere = LabSite("data.example")
    app.crawl.web.sites.append(elsewhere)
    for name in ("home", *NAMES):
        elsewhere.pages[API.format(name)] = app.pages.pop(API.format(name))
    LabBrowser.table = {"*": lambda path: Shown(show, at_host(shown(path).asks, elsewhere.url("")))}
    declare(app, 'data_hosts = ["data.example"]\n')
    assert renders(app) == ALL
    assert renders(app) == []
    elsewhere.pages[API.format("two")] = data(text("two", "second"))
    assert renders(app) == ["/p/two"]
    assert app.words(*ALL) == ["unchanged", "unchanged", "modified", "unchanged"]
    assert app.hits('"second text of two"') == ["/p/two"]
    elsewhere.clear()
    declare(app)  # what is no longer declared is no longer asked
    assert "collapsed: 3 pages" in str(app.run(expect=3))
    assert elsewhere.log == []


def at_host(asks: Sequence[str], origin: str) -> list[str]:
    """The requests of a page, the last of which goes to another origin."""
    return [*asks[:-1], origin + asks[-1]]


def test_a_request_with_a_token_is_not_repeated(app: Lab):
    token = {"Accept": "*/*", "X-Token": "hunter2"}
    LabBrowser.table["/p/one"] = Shown(show, shown("/p/one").asks, headers=token)
    renders(app)
    assert renders(app) == ["/p/one"]
    assert "hunter2" not in str(app.rows("SELECT * FROM data_request"))


def test_a_rendering_that_was_cut_short_is_repeated(app: Lab):
    cut = Shown(show, shown("/p/three").asks, cut=[2])
    LabBrowser.table["/p/three"] = cut
    assert renders(app) == [*ALL, "/p/three"]
    assert app.hits('"first text of three"') == ["/p/three"]
    app.pages[API.format("three")] = data(text("three", "second"))
    assert renders(app) == ["/p/three"]


def test_whole_renderings_prove_a_miss(app: Lab):
    """The same ETag with another body: its page shows it, and the host is believed no more."""
    app.pages[API.format("one")] = data(text("one"), etag='"same"')
    app.pages[API.format("two")] = data(text("two"), etag='"same"')
    renders(app)
    app.pages[API.format("one")] = data(text("one", "second"), etag='"same"')
    app.pages[API.format("two")] = data(text("two", "second"), etag='"same"')
    assert renders(app) == []
    app.settings["MAX_UNVERIFIED_DAYS"] = "1"
    app.after(days=2)
    found = renders(app)
    assert found.count("/p/one") == 2
    assert app.words("/p/one", "/p/two") == ["modified", "modified"]


def test_one_sample_has_the_rest_of_its_host_rendered(app: Lab):
    app.pages[API.format("home")] = data(text("home"), etag='"same"')
    renders(app)
    app.pages[API.format("home")] = data(text("home", "second"), etag='"same"')
    app.rows("UPDATE record SET verified_at = 0 WHERE url LIKE '%example/'")
    app.settings["MAX_UNVERIFIED_DAYS"] = "30"
    assert renders(app) == ["/", "/", *ALL[1:]]
    assert renders(app) == []


def test_a_page_that_is_never_the_same_proves_nothing(app: Lab):
    count = iter(range(99))
    LabBrowser.table["/"] = Shown(
        lambda *bodies: show(*bodies).replace("first", f"{next(count)} times"), shown("/").asks
    )
    renders(app)
    app.rows("UPDATE record SET verified_at = 0 WHERE url LIKE '%example/'")
    app.settings["MAX_UNVERIFIED_DAYS"] = "30"
    assert renders(app) == ["/", "/"]


def test_a_page_that_was_not_rendered_meanwhile_is_rendered_again(app: Lab):
    renders(app)
    declare(app, 'render_wait_for = "main"\n')
    app.crawl.declare(f'[sources.app]\nseeds = ["{app.site.url("/p/one")}"]\n')
    app.run(expect=None)
    declare(app)
    assert "/p/one" in renders(app)


def test_missing_pages_of_a_host_are_rendered_to_be_known(app: Lab):
    """A history fallback answers 200 for every address; the app shows what is missing."""
    app.settings["SOFT_404_DETECTION"] = "True"
    app.pages |= dict.fromkeys(("/p/four", "/p/five"), SHELL)
    app.pages[API.format("menu")] = data({"links": [f"/p/{n}" for n in (*NAMES, "four")]})
    nothing = Shown(lambda *_: f"<title>Nothing</title><body><p>There is no such page.{WORDS}")
    LabBrowser.table["/p/four"] = nothing
    fallback = app.site._page
    app.site._page = lambda path: fallback(path) or (None if "." in path else SHELL)  # type: ignore[method-assign]
    LabBrowser.table["*"] = lambda path: shown(path) if path in ALL else nothing
    app.run(expect=None)
    assert app.words("/p/one", "/p/four") == ["new", "failed"]


# POST that reads

POSTS = "data_posts = ['/graphql']\n"


def queried(path: str) -> Shown:
    """A page whose text is the answer to a POST."""
    name = path.rpartition("/")[2] or "home"
    post = f'POST /graphql?page={name} {{"query": "page({name})"}}'
    return Shown(show, ["Script /app.js", API.format("menu"), post])


@pytest.fixture
def graph(app: Lab) -> Lab:
    """The same pages, whose data is asked by POST."""
    LabBrowser.table = {"*": queried}
    for name in ("home", *NAMES):
        app.pages[f"/graphql?page={name}"] = data(text(name), etag=None)
    declare(app, POSTS)
    return app


def test_a_post_that_is_declared_as_reading_is_asked_again(graph: Lab):
    assert renders(graph) == ALL
    assert graph.hits('"first text of two"') == ["/p/two"]
    LabBrowser.missing = "there is none"
    assert renders(graph) == []
    assert graph.words(*ALL) == SAME
    asked = [(r.method, r.path) for r in graph.log if r.path.startswith("/graphql")]
    assert asked == [("POST", f"/graphql?page={name}") for name in ("home", *NAMES)]
    assert json.loads(graph.site.posted) == {"query": "page(three)"}
    assert not any(graph.conditional("/graphql?page=two"))
    LabBrowser.missing = ""
    graph.pages["/graphql?page=two"] = data(text("two", "second"), etag=None)
    assert renders(graph) == ["/p/two"]
    assert graph.hits('"second text of two"') == ["/p/two"]


def test_noise_of_a_post_is_learnt(graph: Lab):
    for edition in "ab":
        for name in ("home", *NAMES):
            graph.pages[f"/graphql?page={name}"] = data(text(name, at=f"{edition}{name}"))
        renders(graph)
    for edition in "cd":
        for name in ("home", *NAMES):
            graph.pages[f"/graphql?page={name}"] = data(text(name, at=f"{edition}{name}"))
        rendered = renders(graph)
    assert (rendered, graph.words(*ALL)) == ([], SAME)


@pytest.mark.parametrize("status", [500, 403])
def test_a_post_without_an_answer_keeps_the_page(graph: Lab, status: int):
    renders(graph)
    graph.pages["/graphql?page=one"] = Page("no", status=status)
    ran = graph.run(expect=3)
    assert f"data: 1 request to site.example: HTTP {status}" in str(ran.reasons)
    assert graph["/p/one"]["httpStatusCode"] == 1219
    assert graph.hits('"first text of one"') == ["/p/one"]


# Answers that lie, grow or change


def test_a_new_bundle_of_the_same_pages_renders_them_once(app: Lab):
    """A deployment: document and script have other names, and the texts are as they were."""
    renders(app)
    fresh = SHELL.body.replace("app.js", "app2.js")  # type: ignore[union-attr, arg-type]
    app.pages |= dict.fromkeys(ALL, Page(fresh))
    app.pages["/app2.js"] = app.pages.pop("/app.js")

    def rebuilt(path: str) -> Shown:
        before = shown(path)
        return Shown(show, ["Script /app2.js", *before.asks[1:]])

    LabBrowser.table = {"*": rebuilt}
    assert set(renders(app)) == {*ALL}
    assert app.words(*ALL) == SAME
    assert renders(app) == []
    assert app.asked("/app.js", "/app2.js") == [0, 1]


def test_a_bundle_that_is_named_by_its_bytes_is_not_asked(app: Lab):
    def named(path: str) -> Shown:
        return Shown(show, ["Script /app.8f3a2b1c.js", *shown(path).asks[1:]])

    app.pages["/app.8f3a2b1c.js"] = app.pages["/app.js"]
    LabBrowser.table = {"*": named}
    renders(app)
    assert renders(app) == []
    assert app.asked("/app.8f3a2b1c.js") == [0]


@pytest.mark.long
def test_ten_megabytes_of_json_are_compared_whole(app: Lab):
    """No path of it is known, so that a change in it is a change."""
    rows = ["x" * 96] * 100_000
    app.pages[API.format("one")] = data(text("one", rows=rows))
    assert renders(app) == ALL
    assert renders(app) == []
    for edition in ("a", "b", "c"):
        app.pages[API.format("one")] = data(text("one", rows=[*rows, edition]))
        assert renders(app) == ["/p/one"]
        assert app.words("/p/one") == ["unchanged"]


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    "body",
    ["", "not JSON", "[" * 100_000, json.dumps({str(n): n for n in range(999)}),
     json.dumps({"title": "T\ud800", "text": "\x00"})],
    ids=["empty", "text", "deep", "wide", "surrogate"],
)  # fmt: skip
def test_odd_data_is_compared_as_it_is(app: Lab, body: str):
    app.pages[API.format("one")] = Page(body, content_type="application/json", etag=None)
    renders(app)
    assert app.words("/p/one") == ["new"]
    assert renders(app) == []
    app.pages[API.format("one")] = Page(f"{body} ", content_type="application/json", etag=None)
    is_known = body.startswith('{"title"')  # no value of it differs
    assert renders(app) == ([] if is_known else ["/p/one"])


@pytest.mark.long(but=2)
@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_shell_whose_data_is_forbidden_is_not_stored(app: Lab, status: int):
    for name in ("menu", "home"):
        app.pages[API.format(name)] = Page("no", status=status)
    LabBrowser.table = {"*": lambda path: Shown(lambda *_: "<title>T</title>", shown(path).asks)}
    ran = app.run(expect=3)
    assert f"data: 2 requests to site.example: HTTP {status}" in str(ran.reasons)
    assert (app.words("/"), app["/"]["httpStatusCode"]) == (["failed"], 1219)


def test_a_request_for_the_user_may_be_refused(app: Lab):
    """Applications ask who is logged in, and show their pages to those who are not, too."""
    app.pages["/api/me.json"] = Page("no", status=401)

    def known(path: str) -> Shown:
        return Shown(lambda *bodies: show(*bodies[:3]), [*shown(path).asks, "/api/me.json"])

    LabBrowser.table = {"*": known}
    renders(app)
    assert app.words(*ALL) == ["new"] * len(ALL)
    assert renders(app) == []
    assert app.words(*ALL) == SAME


@pytest.mark.parametrize("fault", ["reset", "hang"])
def test_an_api_that_does_not_answer_keeps_the_page(app: Lab, fault: Fault):
    renders(app)
    app.pages[API.format("one")] = Page("", fault=fault)
    app.run(expect=3)
    assert app["/p/one"]["httpStatusCode"] == 1219
    assert app.hits('"first text of one"') == ["/p/one"]
