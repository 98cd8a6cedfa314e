"""The requests that a rendered page may make, and when it has settled."""

import pytest

from smartcrawl.rules.rendering import (
    EMPTY,
    FEW_WORDS,
    FIRST_STEP,
    LOGS_OUT,
    MOST_BYTES,
    MOST_POLLS,
    MOST_REQUESTS,
    NO_BROWSER,
    OTHER_KIND,
    OTHER_SITE,
    POLLING,
    STEP,
    STREAMS,
    TOO_MANY,
    WRONG_METHOD,
    DataRequest,
    PageRequestRules,
    RequestCaps,
    Settling,
    forbidden_by_robots,
    is_same_site,
    missing_in_words,
    missing_requests,
    named_script_hosts,
    request_template,
)
from tests.rules.manual import PAGE


@pytest.mark.parametrize(
    ("host", "other", "same"),
    [
        ("example.com", "example.com", True),
        ("example.com", "Example.COM", True),
        ("EXAMPLE.com", "example.com", True),
        ("www.example.com", "example.com", True),
        ("example.com", "www.example.com", True),
        ("www.example.com", "api.example.com", True),
        ("example.com", "api.v2.example.com", True),
        ("api.example.com", "example.com", True),
        ("docs.example.com", "api.example.com", False),
        ("example.com", "badexample.com", False),
        ("badexample.com", "example.com", False),
        ("one.co.uk", "two.co.uk", False),
        ("", "example.com", False),
    ],
)
def test_a_site_is_a_host_and_those_below_it(host: str, other: str, same: bool) -> None:
    assert is_same_site(host, other) is same


NO_POST = PageRequestRules("example.com", data_hosts=("data.test",))
POST = PageRequestRules("example.com", reads_by_post=lambda url: url.endswith("/graphql"))


@pytest.mark.parametrize("kind", ["Document", "Script", "Worker", "XHR", "Fetch"])
def test_a_page_gets_what_its_site_and_its_data_hosts_have(kind: str) -> None:
    assert NO_POST.refusal("GET", "https://api.example.com/x?y=1", kind) == ""
    assert NO_POST.refusal("GET", "https://data.test:8443/x", kind) == ""
    assert NO_POST.refusal("GET", "https://else.test/x", kind) == OTHER_SITE
    assert NO_POST.refusal("GET", "https://sub.data.test/x", kind) == OTHER_SITE
    assert NO_POST.refusal("GET", "https://[/x", kind) == OTHER_SITE


@pytest.mark.parametrize(
    "kind", ["Font", "Media", "Ping", "Prefetch", "WebSocket", "EventSource", "Other", "Image"]
)
def test_a_page_gets_no_other_kinds(kind: str) -> None:
    assert NO_POST.refusal("GET", "https://example.com/x", kind) == OTHER_KIND


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS"])
def test_a_page_sends_nothing_but_get(method: str) -> None:
    assert NO_POST.refusal(method, "https://example.com/graphql", "Fetch") == WRONG_METHOD
    assert POST.refusal("GET", "https://example.com/x", "Fetch") == ""


def test_a_declared_address_is_read_by_post() -> None:
    url = "https://example.com/graphql"
    assert POST.refusal("POST", url, "Fetch") == POST.refusal("POST", url, "XHR") == ""
    assert POST.refusal("POST", url, "Document") == WRONG_METHOD
    assert POST.refusal("POST", url, "Script") == WRONG_METHOD
    assert POST.refusal("PUT", url, "Fetch") == WRONG_METHOD
    assert POST.refusal("POST", "https://example.com/save", "Fetch") == WRONG_METHOD
    assert POST.refusal("POST", "https://else.test/graphql", "Fetch") == OTHER_SITE


def test_scripts_that_a_page_names_come_from_any_host() -> None:
    cdn = "https://cdn.test/npm/docsify@4"
    assert NO_POST.refusal("GET", cdn, "Script", {"cdn.test"}) == ""
    assert NO_POST.refusal("GET", cdn, "Script") == OTHER_SITE
    assert NO_POST.refusal("GET", cdn, "Fetch", {"cdn.test"}) == OTHER_SITE
    assert NO_POST.refusal("GET", cdn, "Document", {"cdn.test"}) == OTHER_SITE
    assert NO_POST.refusal("GET", cdn, "Worker", {"cdn.test"}) == OTHER_SITE
    behind_login = PageRequestRules("example.com", foreign_scripts=False)
    assert behind_login.refusal("GET", cdn, "Script", {"cdn.test"}) == OTHER_SITE
    assert behind_login.refusal("GET", "https://example.com/app.js", "Script") == ""


@pytest.mark.parametrize(
    ("markup", "hosts"),
    [
        ('<script src="https://cdn.test/a.js"></script>', {"cdn.test"}),
        ("<SCRIPT async SRC = '//cdn.test:81/a.js'>", {"cdn.test"}),
        ("<script type=module src=http://cdn.test/a.js>", {"cdn.test"}),
        ('<script src="/a.js"></script><script src="a.js">', set()),
        ('<link rel="modulepreload" href="https://cdn.test/m.js">', {"cdn.test"}),
        ('<script type="module">import x from "https://esm.test/x";\n</script>', {"esm.test"}),
        (
            "<script type='importmap'>{\"imports\": {\"vue\": \"https://esm.test/vue\"}}</script>",
            {"esm.test"},
        ),
        ('<script>fetch("https://spy.test/x")</script>', set()),
        ('<a href="https://other.test/">x</a><img src="https://img.test/i.png">', set()),
        ('<script src="https://[bad/a.js">', set()),
    ],
)  # fmt: skip
def test_hosts_of_the_scripts_that_markup_names(markup: str, hosts: set[str]) -> None:
    assert named_script_hosts(markup) == hosts


@pytest.mark.parametrize(
    ("url", "template"),
    [
        ("https://h/api/items/12", "https://h/api/items/12"),
        ("https://h/poll/123456789", "https://h/poll/N"),
        ("https://h/poll/12345678", "https://h/poll/12345678"),
        ("https://h/poll?n=3", "https://h/poll?n=N"),
        ("https://h/poll?n=35&since=1764460000", "https://h/poll?n=N&since=N"),
    ],
)
def test_the_template_of_a_request(url: str, template: str) -> None:
    assert request_template(url) == template


def test_a_poll_is_answered_twelve_times() -> None:
    caps = RequestCaps()
    assert [caps.refusal(f"https://h/poll?n={no}") for no in range(MOST_POLLS + 1)] == [
        *[""] * MOST_POLLS,
        POLLING,
    ]
    assert caps.refusal("https://h/poll?m=1") == caps.refusal("https://h/poll?n=1", "body") == ""


def test_a_page_that_is_scrolled_loads_as_often() -> None:
    caps = RequestCaps(rounds=3)
    answers = [caps.refusal(f"https://h/page?n={no}") for no in range(3 * MOST_POLLS + 1)]
    assert answers.count("") == 3 * MOST_POLLS
    assert answers[-1] == POLLING


def test_a_page_makes_two_hundred_requests() -> None:
    caps = RequestCaps()
    answers = [caps.refusal(f"https://h/{no}") for no in range(MOST_REQUESTS + 1)]
    assert answers == [*[""] * MOST_REQUESTS, TOO_MANY]


def test_a_refused_poll_is_no_request() -> None:
    caps = RequestCaps()
    for _ in range(MOST_REQUESTS):
        caps.refusal("https://h/poll")
    assert caps.refusal("https://h/other") == ""


def steps(asked: list[int], most: int = 10_000) -> list[int]:
    """Return the steps of a page that had made so many requests at the end of each."""
    settling = Settling(most)
    return [settling.step(count) for count in asked]


def test_a_page_settles_after_two_steps_without_a_request() -> None:
    assert steps([0, 5, 5, 5]) == [FIRST_STEP, STEP, STEP, 0]
    assert steps([0, 0, 0, 0]) == [FIRST_STEP, STEP, STEP, 0]


def test_a_request_in_a_step_brings_two_more() -> None:
    assert steps([0, 5, 5, 6, 6, 6]) == [FIRST_STEP, STEP, STEP, STEP, STEP, 0]
    assert steps([0, 5, 6, 6, 6]) == [FIRST_STEP, STEP, STEP, STEP, 0]


def test_a_page_that_asks_on_and_on_ends_with_its_time() -> None:
    settling = Settling(FIRST_STEP + 3 * STEP)
    answers = [settling.step(count) for count in range(5)]
    assert answers == [FIRST_STEP, STEP, STEP, STEP, 0]
    assert settling.is_over
    assert settling.further() == 0
    assert settling.spent == FIRST_STEP + 3 * STEP


def test_a_page_that_has_settled_is_not_over() -> None:
    settling = Settling(10_000)
    while settling.step(1):
        assert settling.is_over
    assert not settling.is_over


def test_a_scrolled_page_settles_again() -> None:
    settling = Settling(10_000)
    while settling.step(1):
        pass
    settling.again()
    assert [settling.step(count) for count in (1, 2, 2, 2)] == [STEP, STEP, STEP, 0]


def test_a_page_that_waits_goes_on_step_by_step() -> None:
    settling = Settling(FIRST_STEP + 3 * STEP)
    settling.step(0)
    assert [settling.further() for _ in range(4)] == [STEP, STEP, STEP, 0]


def test_a_page_that_asks_nothing_settles_however_short_its_time_is() -> None:
    settling = Settling(0)
    assert [settling.step(0) for _ in range(4)] == [FIRST_STEP, STEP, STEP, 0]
    assert not settling.is_over


def test_a_data_host_with_a_port_is_that_port() -> None:
    rules = PageRequestRules("example.com", data_hosts=("data.test:8443",))
    assert rules.is_own("https://user@data.test:8443/x")
    assert not rules.is_own("https://data.test/x")
    assert not rules.is_own("https://[/x")
    assert not PageRequestRules("example.com").is_own("https:///x")


def test_numbers_of_a_page() -> None:
    assert (FIRST_STEP, STEP, MOST_POLLS, MOST_REQUESTS, FEW_WORDS) == (3_000, 100, 12, 200, 20)


ROBOTS = "robots.txt of h forbids it"
FORBIDS = "robots.txt of h forbids 1 request"


@pytest.mark.parametrize(
    ("status", "refused", "is_own", "few", "many"),
    [
        (200, "", True, "", ""),
        (404, "", True, "", ""),
        (403, "", True, "", ""),
        (428, "", True, "", ""),
        (499, "", True, "", ""),
        (429, "", True, "1 request to h: HTTP 429", "1 request to h: HTTP 429"),
        (500, "", True, "1 request to h: HTTP 500", "1 request to h: HTTP 500"),
        (503, "", True, "1 request to h: HTTP 503", "1 request to h: HTTP 503"),
        (503, "", False, "1 request to h: HTTP 503", ""),
        (None, "", True, "1 request to h: no answer", "1 request to h: no answer"),
        (None, ROBOTS, True, FORBIDS, FORBIDS),
        (None, ROBOTS, False, FORBIDS, ""),
        (None, OTHER_SITE, False, f"1 request to h: {OTHER_SITE}", ""),
        (None, WRONG_METHOD, True, f"1 request to h: {WRONG_METHOD}", ""),
        (None, POLLING, True, "", ""),
        (None, POLLING, False, "", ""),
    ],
)
def test_data_that_a_page_misses(
    status: int | None, refused: str, is_own: bool, few: str, many: str
) -> None:
    request = DataRequest("h", status, refused, is_own)
    assert request.url == ""
    for words, said in ((FEW_WORDS - 1, few), (FEW_WORDS, many)):
        missing = missing_requests([request], words=words)
        assert (missing_in_words(missing) if missing else "") == said


def test_a_run_without_a_browser_says_so_in_the_words_of_the_manual() -> None:
    assert f"| `{NO_BROWSER}` | pages need a browser" in PAGE.read_text("utf-8")


def test_the_host_that_is_missed_most_is_named() -> None:
    once, twice = DataRequest("one", 500, "", True), DataRequest("two", 500, "", True)
    found = missing_requests([once, twice, twice], words=100)
    assert found == [once, twice, twice]
    assert missing_in_words(found) == "2 requests to two: HTTP 500"
    assert missing_requests([], words=0) == []
    assert forbidden_by_robots("h") == ROBOTS


@pytest.mark.parametrize(
    ("markup", "hosts"),
    [
        ('<script>import "https://a.test/x"</script>', {"a.test"}),
        ('<script>var a="<script>";import "https://a.test/x"</script>', {"a.test"}),
        ('<script>import "https://a.test/x";"<script>"</script>', {"a.test"}),
        ('import "https://a.test/x"</script>', set()),
        ('</script>import "https://a.test/x"</script>', set()),
        ('<script>import x from "https://a.test/x y"</script>', set()),
        ('<script>{"imports": {"a": "https://a.test/x"}}</script>', {"a.test"}),
        ('<script>{"importsX": "https://a.test/x"}</script>', set()),
        ('<script src="//[x"></script>', set()),
        ('<script src="https:///x"></script>', set()),
    ],
)
def test_a_page_names_what_its_scripts_import(markup: str, hosts: set[str]) -> None:
    assert named_script_hosts(markup) == hosts


def test_an_address_that_is_none_is_of_no_data_host() -> None:
    assert not PageRequestRules("a.test", data_hosts=("?",)).is_own("https://[/x")


def test_a_body_is_a_part_of_a_poll() -> None:
    caps = RequestCaps()
    found = [caps.refusal("https://a.test/") for _ in range(MOST_POLLS)]
    assert {*found} == {""}
    assert caps.refusal("https://a.test/", "") == POLLING
    assert caps.refusal("https://a.test/", "another") == ""


def test_a_page_that_was_scrolled_is_still_for_as_long() -> None:
    settling = Settling(10_000)
    assert [settling.step(0) for _ in range(4)] == [FIRST_STEP, STEP, STEP, 0]
    settling.again()
    assert [settling.step(0), settling.step(0)] == [STEP, 0]


def test_a_long_number_of_a_path_is_one() -> None:
    assert request_template("https://a.test/123456789012/x") == "https://a.test/N/x"


def test_what_users_read_and_browsers_call_things() -> None:
    assert {"Stylesheet", "Image"} == EMPTY
    assert {"EventSource", "WebSocket"} == STREAMS
    assert MOST_BYTES == 67_108_864
    assert (WRONG_METHOD, OTHER_KIND) == ("only GET is sent", "no text")
    assert OTHER_SITE == "another site, not in data_hosts"
    assert (POLLING, TOO_MANY) == ("too many of one kind", "too many requests")
    assert LOGS_OUT == "it would end the login"


@pytest.mark.parametrize(
    ("statuses", "words", "missing"),
    [
        ((403,), 0, 1),
        ((401, 403), 19, 2),
        ((401, 407, 500), 0, 3),
        ((401, 200), 0, 0),
        ((403,), 20, 0),
        ((404,), 0, 0),
        ((403, 404), 0, 0),
        ((500, 403, 200), 0, 1),
    ],
)
def test_a_page_shows_nothing_if_all_of_its_data_is_forbidden(statuses, words, missing):
    requests = [DataRequest("h", status, "", True, is_data=True) for status in statuses]
    script = DataRequest("h", 403, "", True)

    assert len(missing_requests([script, *requests], words=words)) == missing
