"""Stories of `render = "auto"`: pages are read both ways on samples, and the rest follows."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.lab.lab import Lab, page
from tests.lab.lab_browser import LabBrowser, Shown
from tests.lab.lab_crawl import Ran
from tests.site_server import Page

pytestmark = pytest.mark.sqlite

WAITING = ("status", "lastOutcome", "httpStatusCode")
SHELL = '<!doctype html><title>Shell</title><div id="app"></div><script src="/app.js"></script>'
NAMES = tuple(f"p{number}" for number in range(6))
PATHS = tuple(f"/p/{name}" for name in NAMES)
TEXT = "of a page that has as many words of its own as it takes, "


@pytest.fixture
def auto(lab: Lab) -> Iterator[Lab]:
    """A lab with a browser, which shows documents as they are."""
    LabBrowser.table, LabBrowser.missing = {}, ""
    LabBrowser.shown.clear()
    lab.settings |= {"RENDER": "auto", "RENDER_BROWSER": "/bin/true"}
    lab.settings |= {"TRUST_SAMPLE_RATIO": "0", "MAX_UNVERIFIED_DAYS": "0"}
    yield lab
    LabBrowser.table = {}


def body(title: str, *links: str) -> str:
    return page(title, *links, text=" ".join(f"{title}{n} {TEXT}" for n in range(5)))


def show(data: bytes | None) -> str:
    found: dict[str, str] = json.loads(data) if data and data[:1] == b"{" else {}
    return found.get("html", "")


def script_writes(lab: Lab) -> None:
    """Publish pages of one shell, whose text is data."""
    lab.pages |= dict.fromkeys(("/", *PATHS), SHELL)
    for name in ("home", *NAMES):
        write(lab, name)

    def shown(path: str) -> Shown:
        name = path.rpartition("/")[2] or "home"
        return Shown(show, [f"/api/{name}.json"])

    LabBrowser.table = {"*": shown}


def write(lab: Lab, name: str, edition: str = "first") -> None:
    links = PATHS if name == "home" else ("/",)
    text = json.dumps({"html": body(f"{edition}{name}", *links)})
    lab.pages[f"/api/{name}.json"] = Page(text, content_type="application/json")


def serve_whole(lab: Lab) -> None:
    """Publish pages without scripts."""
    lab.pages["/"] = body("Home", *PATHS)
    for name, path in zip(NAMES, PATHS, strict=True):
        lab.pages[path] = body(name, "/")


def again(lab: Lab, **arguments: object) -> Ran:
    LabBrowser.shown.clear()
    lab.after(days=1)
    return lab.run(**arguments)


def test_a_site_that_scripts_write_is_rendered(auto: Lab):
    script_writes(auto)
    auto.run()
    assert auto.words("/", *PATHS) == ["new"] * 7
    assert auto.hits("firstp51") == ["/p/p5"]
    assert sorted(LabBrowser.shown) == ["/", *PATHS]  # each once, the samples too
    again(auto)
    assert (LabBrowser.shown, auto.words("/", *PATHS)) == ([], ["unchanged"] * 7)
    write(auto, "p5", "second")
    again(auto)
    assert (LabBrowser.shown, auto.words("/p/p5")) == (["/p/p5"], ["modified"])


def test_a_site_without_scripts_costs_its_samples_once(auto: Lab):
    serve_whole(auto)
    auto.run()
    assert LabBrowser.shown == ["/", *PATHS[:2]]  # two that agree are enough
    assert auto.words("/", *PATHS) == ["new"] * 7
    for _ in range(2):
        again(auto)
        assert (LabBrowser.shown, auto.words("/", *PATHS)) == ([], ["unchanged"] * 7)
        assert [auto.conditional(path) for path in ("/", *PATHS)] == [[True]] * 7


def test_templates_of_a_host_are_eight(auto: Lab):
    folders = [f"/f{n}/{m}" for n in range(12) for m in range(4)]
    auto.pages["/"] = body("Home", *folders)
    for path in folders:
        auto.pages[path] = body(path.replace("/", "x"))
    auto.run()
    assert len(LabBrowser.shown) <= 8 * 3
    again(auto)
    assert len(LabBrowser.shown) <= 8 * 3


BANNER = "<p>We value your privacy: see <a href='/privacy'>how</a> we use cookies, and choose</p>"


def banner(show: Callable[[], str]) -> str:
    return show().replace("<main>", f"{BANNER}<main>").replace("</main>", f"{BANNER}</main>")


def test_a_cookie_banner_flips_nothing(auto: Lab):
    auto.pages["/"] = page("Home", *PATHS, text="welcome")
    for name, path in zip(NAMES, PATHS, strict=True):
        auto.pages[path] = page(name, "/", text="a short text")

    def shown(path: str) -> Shown:
        entry = auto.pages[path]
        assert isinstance(entry, str)
        return Shown(lambda: banner(lambda: entry))

    LabBrowser.table = {"*": shown}
    auto.run()
    again(auto)
    again(auto)
    assert LabBrowser.shown == []
    assert auto.words(*PATHS) == ["unchanged"] * 6


def test_what_is_stored_is_sampled_although_nothing_changed(auto: Lab):
    auto.settings["RENDER"] = "no"
    serve_whole(auto)
    auto.run()
    again(auto)
    assert {record.status for record in auto.log} == {304, 404}  # robots.txt

    def shown(path: str) -> Shown:
        words = " ".join(f"scripted{path[-2:]}{n}" for n in range(30))
        return Shown(lambda: page(path, "/", text=words))

    LabBrowser.table = {f"/p/{name}": shown for name in NAMES}
    auto.settings["RENDER"] = "auto"
    again(auto)
    assert set(LabBrowser.shown) == {"/", *PATHS}
    assert auto.words("/", *PATHS) == ["unchanged"] * 7  # though some have another text by now
    assert auto.hits("scriptedp01") == ["/p/p0"]
    again(auto)
    assert auto.words("/", *PATHS) == ["unchanged"] * 7
    assert auto.hits("scriptedp51") == ["/p/p5"]


def test_without_a_browser_what_needs_one_stays_and_is_pending(auto: Lab):
    script_writes(auto)
    auto.run()
    auto.pages["/p/new"] = SHELL
    write(auto, "home")
    text = json.dumps({"html": body("secondhome", *PATHS, "/p/new")})
    auto.pages["/api/home.json"] = Page(text, content_type="application/json")
    again(auto)
    auto.pages["/p/later"] = SHELL
    auto.pages["/sitemap.xml"] = Page(
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">'
        f"<url><loc>{auto.site.url('/p/later')}</loc></url></urlset>",
        content_type="application/xml",
    )
    auto.pages["/robots.txt"] = Page(
        f"Sitemap: {auto.site.url('/sitemap.xml')}", content_type="text/plain"
    )
    auto.settings["RENDER_BROWSER"] = "/no/such/browser"
    LabBrowser.missing = "RENDER_BROWSER=/no/such/browser names no program"
    ran = again(auto, expect=3)
    assert "render: no browser" in str(ran.reasons)
    assert not any("unreachable" in reason or "pending" in reason for reason in ran.reasons)
    later = auto["/p/later"]
    assert [later[key] for key in WAITING] == ["Pending", "skipped", 1114]
    told = auto.crawl.run("why", auto.site.url("/p/later")).out
    assert "RENDER_BROWSER=/no/such/browser names no program; the next run asks it again" in told
    ages = (
        "SELECT error_count, failures, next_visit - last_checked FROM state JOIN record USING (no)"
    )
    assert auto.rows(f"{ages} WHERE url LIKE '%/later'") == [(0, 0, 0)]
    ran = again(auto, expect=3)
    assert (auto.asked("/p/later"), ran.reasons) == ([1], ("render: no browser",))
    assert [auto["/p/later"][key] for key in WAITING] == ["Pending", "skipped", 1114]
    [told] = auto.rows(
        "SELECT count(*) FROM event JOIN record r ON r.no = record WHERE url LIKE '%/later'"
    )
    assert told == (0,)
    assert auto.hits("firstp51") == ["/p/p5"]
    assert "modified" not in auto.words("/", *PATHS)
    write(auto, "later")
    auto.settings["RENDER_BROWSER"], LabBrowser.missing = "/bin/true", ""
    again(auto)
    assert (auto["/p/later"]["status"], auto.words("/p/later")) == ("Indexed", ["new"])
    assert auto.hits("firstlater1") == ["/p/later"]


def test_a_new_seed_that_shows_nothing_makes_the_run_incomplete(auto: Lab):
    script_writes(auto)
    auto.settings["RENDER_BROWSER"] = "/no/such/browser"
    ran = auto.run(expect=3)
    assert ran.reasons == ("render: no browser",)
    for _ in range(2):  # it shows nothing later, either
        ran = again(auto, expect=3)
        assert (ran.reasons, auto.words("/")) == (("render: no browser",), ["unchanged"])
    auto.settings["RENDER_BROWSER"] = "/bin/true"
    again(auto)
    assert auto.words("/", *PATHS) == ["unchanged", *["new"] * 6]


@pytest.mark.parametrize(
    "seed",
    [body("Home", "/p/p0") + "<script></script>", "<title>T</title><p>only words</p>"],
    ids=["text", "no-script"],
)
def test_a_new_seed_that_shows_something_is_complete_without_a_browser(auto: Lab, seed: str):
    auto.pages |= {"/": seed, "/p/p0": body("p0")}
    auto.settings["RENDER_BROWSER"] = "/no/such/browser"
    auto.run()
    assert auto.words("/") == ["new"]
    again(auto)
    assert auto.words("/") == ["unchanged"]


@pytest.mark.parametrize("links", [2, 3])
def test_links_to_hash_routes_are_named(auto: Lab, links: int, caplog: pytest.LogCaptureFixture):
    """A menu of them leads nowhere without the key."""
    menu = "".join(f'<a href="#/guide/{n}?id=top">{n}</a>' for n in range(links)) * 2
    LabBrowser.table = {"/": Shown(lambda: f"{body('Home')}{menu}")}
    auto.pages["/"] = SHELL
    auto.run()
    told = "links to 3 addresses behind #, such as #/guide/0, which are read as one page"
    assert caplog.text.count(told) == (links == 3)


def test_a_browser_that_comes_later_is_used(auto: Lab):
    script_writes(auto)
    auto.settings["RENDER_BROWSER"] = "/no/such/browser"
    auto.run(expect=3)
    auto.settings["RENDER_BROWSER"] = "/bin/true"
    again(auto)
    assert auto.words(*PATHS) == ["new"] * 6
    assert auto.hits("firsthome1") == ["/"]


def test_hosts_that_were_refused_decide_nothing(auto: Lab, caplog: pytest.LogCaptureFixture):
    serve_whole(auto)

    def shown(path: str) -> Shown:
        entry = auto.pages[path]
        assert isinstance(entry, str)
        return Shown(lambda _: entry, ["http://elsewhere.example/data.json"])

    LabBrowser.table = {"*": shown}
    auto.run()
    assert "elsewhere.example" in caplog.text
    assert LabBrowser.shown == ["/", *PATHS[:3]]
    again(auto)
    assert LabBrowser.shown == []
    assert auto.words("/", *PATHS) == ["unchanged"] * 7
    home = auto.site.url("/")
    auto.crawl.declare(f'[sources.app]\nseeds = ["{home}"]\ndata_hosts = ["elsewhere.example"]\n')


@pytest.mark.parametrize("mode", ["no", "always"])
def test_the_key_of_a_source_counts_before_the_setting(auto: Lab, mode: str):
    serve_whole(auto)
    auto.crawl.declare(f'[sources.app]\nseeds = ["{auto.site.url("/")}"]\nrender = "{mode}"\n')
    auto.source = "app"
    auto.run()
    assert sorted(LabBrowser.shown) == ([] if mode == "no" else sorted(["/", *PATHS]))


@pytest.mark.parametrize("mode", ["auto", "no"])
def test_a_login_is_no_reason_to_show_nothing(
    auto: Lab, mode: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCS_USER", "bot")
    monkeypatch.setenv("DOCS_PASSWORD", "secret")
    script_writes(auto)
    home, auto.settings["RENDER"] = auto.site.url("/"), mode
    login = 'kind = "basic"\nuser = "DOCS_USER"\npassword = "DOCS_PASSWORD"'
    table = f'[sources.app.auth]\norigins = ["{home.rstrip("/")}"]\n{login}\n'
    auto.crawl.declare(f'[sources.app]\nseeds = ["{home}"]\n{table}')
    auto.source = "app"
    auto.run()
    assert sorted(LabBrowser.shown) == (["/", *PATHS] if mode == "auto" else [])
    assert auto.hits("firstp51") == (["/p/p5"] if mode == "auto" else [])


@pytest.mark.parametrize("status", [500, 403, 401])
def test_samples_without_their_data_decide_nothing(auto: Lab, status: int):
    """An API that is down at the first crawl leaves no shell, and the next one finds all pages."""
    script_writes(auto)
    for name in NAMES:
        auto.pages[f"/api/{name}.json"] = Page("no", status=status)
    ran = auto.run(expect=3)
    assert f"HTTP {status}" in str(ran.reasons)
    assert auto.words("/", *PATHS) == ["new", *["failed"] * 6]
    assert {auto[path]["httpStatusCode"] for path in PATHS} == {1219}
    for name in NAMES:
        write(auto, name)
    again(auto)
    assert auto.words("/", *PATHS) == ["unchanged", *["new"] * 6]
    assert auto.hits("firstp51") == ["/p/p5"]
    again(auto)
    assert (LabBrowser.shown, auto.words(*PATHS)) == ([], ["unchanged"] * 6)


def test_a_broken_part_of_pages_that_need_no_browser_fails_none(auto: Lab):
    serve_whole(auto)
    auto.pages["/api/hits.json"] = Page("no", status=500)

    def shown(path: str) -> Shown:
        entry = auto.pages[path]
        assert isinstance(entry, str)
        return Shown(lambda _: entry, ["/api/hits.json"])

    LabBrowser.table = {"*": shown}
    auto.run()
    assert auto.words("/", *PATHS) == ["new"] * 7
    auto.pages["/api/hits.json"] = Page("{}", content_type="application/json")
    again(auto)
    again(auto)
    assert (LabBrowser.shown, auto.words("/", *PATHS)) == ([], ["unchanged"] * 7)
