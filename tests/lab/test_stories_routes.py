"""Stories of hash routes: what the browser shows of them stands in the table of pages."""

import pytest

from tests.lab.lab import Lab, page
from tests.lab.lab_crawl import Ran

pytestmark = pytest.mark.sqlite

KEYS = 'render = "always"\nrender_hash_routes = true\n'
HOME = page("Home", "#/guide", "#!/news", "#top", "#/", text="where all begins")
GUIDE = page("Guide", "/#/guide/install/", "#/guide?b=2&a=1", "#/", text="how to build a boat")
INSTALL = page("Install", "#/guide/install#step", text="fetch a hammer")
PATHS = ("/", "/#/guide", "/#!/news", "/#/guide/install/", "/#/guide?b=2&a=1")


def declare(lab: Lab, keys: str = KEYS) -> None:
    lab.crawl.declare(f'[sources.app]\nseeds = ["{lab.site.url("/")}"]\n{keys}')
    lab.source = "app"


@pytest.fixture
def routed(lab: Lab) -> Lab:
    lab.pages |= {"/": HOME, "/#/guide": GUIDE, "/#!/news": page("News", text="no news today")}
    lab.pages |= {"/#/guide/install/": INSTALL, "/#/guide?b=2&a=1": page("Sorted")}
    declare(lab)
    return lab


def again(lab: Lab) -> Ran:
    lab.after(days=1)
    return lab.run()


def test_routes_are_pages_over_several_runs(routed: Lab):
    routed.run()
    assert set(routed) == set(PATHS)
    assert routed.words(*PATHS) == ["new"] * 5
    assert routed.hits("hammer") == ["/#/guide/install/"]
    again(routed)
    assert routed.words(*PATHS) == ["unchanged"] * 5
    routed.pages["/#/guide/install/"] = page("Install", text="fetch a wrench")
    again(routed)
    assert routed.words(*PATHS) == [*["unchanged"] * 3, "modified", "unchanged"]
    assert (routed.hits("hammer"), routed.hits("wrench")) == ([], ["/#/guide/install/"])
    del routed.pages["/#!/news"]
    assert [again(routed).removed for _ in range(3)] == [0, 0, 1]
    assert (routed.rules(), routed.hits("today")) == ({"/#!/news": "gone"}, [])


def test_without_the_key_there_is_one_page(routed: Lab):
    declare(routed, 'render = "always"\n')
    routed.run()
    assert set(routed) == {"/"}
    assert "site.example/ in app" in routed.crawl.run("why", routed.site.url("/#/guide")).out


def test_spellings_of_a_route_are_one_page(routed: Lab):
    links = ("#/guide", "#/guide/", "#/guide?utm_source=x", "#/guide?a=1&b=2", "#/guide?b=2&a=1")
    routed.pages["/"] = page("Home", *links)
    routed.run()
    assert [path for path in routed if "guide" in path] == [
        "/#/guide", "/#/guide?a=1&b=2", "/#/guide/install/",
    ]  # fmt: skip


def test_equal_routes_are_one_hit_and_the_document_comes_first(routed: Lab):
    routed.pages["/"] = routed.pages["/#/home"] = page("Home", "#/home", text="where all begins")
    routed.run()
    assert routed.hits("begins") == ["/"]
    assert routed.duplicate_of("/#/home") == "/"


def test_patterns_see_routes(routed: Lab):
    declare(routed, f"{KEYS}excluded_patterns = ['#/guide/']\n")
    routed.run()
    assert "/#/guide/install/" not in set(routed)
    assert "/#/guide" in set(routed)


def test_commands_take_routes(routed: Lab):
    routed.run()
    url = routed.site.url("/#/guide/install")
    assert "/#/guide/install/ in app" in routed.crawl.run("why", url).out
    assert "/ in app" in routed.crawl.run("why", routed.site.url("/#top")).out
    routed.crawl.run("forget", url)
    assert routed.hits("hammer") == []
    assert routed.hits("begins") == ["/"]


def test_a_shared_canonical_link_does_not_join_routes(routed: Lab):
    head = f'<link rel="canonical" href="{routed.site.url("/")}">'
    routed.pages["/"] = page("Home", "#/guide", text="where all begins", head=head)
    routed.pages["/#/guide"] = page("Guide", text="how to build a boat", head=head)
    routed.run()
    assert routed.words("/", "/#/guide") == ["new", "new"]
    assert routed.hits("boat") == ["/#/guide"]


def test_the_key_that_goes_excludes_its_routes(routed: Lab):
    routed.run()
    declare(routed, 'render = "always"\n')
    again(routed)
    assert routed.words("/") == ["unchanged"]
    assert routed.words(*PATHS[1:]) == ["excluded"] * 4


def test_the_key_that_comes_finds_them_in_stored_pages(routed: Lab):
    declare(routed, 'render = "always"\n')
    routed.run()
    declare(routed)
    again(routed)
    assert set(routed) == set(PATHS)


def test_routes_need_a_browser(lab: Lab):
    declare(lab, "render_hash_routes = true\n")
    ran = lab.run(expect=1)
    assert "no browser that could show them" in str(ran)
