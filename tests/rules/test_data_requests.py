"""Whether the data of a rendered page is as it was, so that no browser need show it."""

import json

import pytest

from smartcrawl.rules.data_requests import (
    ENOUGH,
    MOST_JSON,
    MOST_PATHS,
    MOST_SIBLINGS,
    SIGNAL,
    DataAnswer,
    DataState,
    Siblings,
    Validated,
    answer_digest,
    changed_paths,
    confirmed_by,
    counts_by_name,
    data_state,
    data_template,
    has_cookie,
    is_asked_again,
    is_noise,
    is_not_found,
    is_own_data,
    joined_times,
    json_leaves,
    noise_kin,
    packed_leaves,
    page_state,
    page_template,
    repeated_headers,
    request_number,
    timed_url,
    timeless_url,
    would_confirm,
)

NOW = 1_764_460_000.5


@pytest.mark.parametrize(
    ("url", "timeless"),
    [
        ("https://h/a", "https://h/a"),
        ("https://h/a?_=1764460000500", "https://h/a?_={ms}"),
        ("https://h/a?b=1&_=1764460000500&c=2", "https://h/a?b=1&_={ms}&c=2"),
        ("https://h/a?t=1764460000", "https://h/a?t={s}"),
        ("https://h/a?1764460000500", "https://h/a?{ms}"),
        ("https://h/a?t=1764460600", "https://h/a?t={s}"),
        ("https://h/a?t=1764459401", "https://h/a?t={s}"),
        ("https://h/a?_=1764460600500", "https://h/a?_={ms}"),
        ("https://h/a?_=1764460600501", "https://h/a?_=1764460600501"),
        ("https://h/a?t=1764460601", "https://h/a?t=1764460601"),
        ("https://h/a?t=1764459400", "https://h/a?t=1764459400"),
        ("https://h/a?_=1764460600600", "https://h/a?_=1764460600600"),
        ("https://h/a?id=12345", "https://h/a?id=12345"),
        ("https://h/a?id=17644600005001", "https://h/a?id=17644600005001"),
        ("https://h/a?id=x1764460000", "https://h/a?id=x1764460000"),
        ("https://h/1764460000/a", "https://h/1764460000/a"),
    ],
)
def test_a_parameter_that_is_the_time_has_a_mark(url: str, timeless: str) -> None:
    assert timeless_url(url, NOW) == timeless


@pytest.mark.parametrize(
    ("url", "timed"),
    [
        ("https://h/a?_={ms}&b={s}", "https://h/a?_=1764460000500&b=1764460000"),
        ("https://h/a?{ms}", "https://h/a?1764460000500"),
        ("https://h/a?{s}&x", "https://h/a?1764460000&x"),
        ("https://h/{s}/a?b=x{s}&c={s}x", "https://h/{s}/a?b=x{s}&c={s}x"),
        ("https://h/a?{s}x", "https://h/a?{s}x"),
        ("https://h/a?b=1", "https://h/a?b=1"),
    ],
)
def test_a_mark_becomes_the_time(url: str, timed: str) -> None:
    assert timed_url(url, NOW) == timed


@pytest.mark.parametrize(
    ("name", "by_name"),
    [
        ("main.8f3a2b1c.js", True),
        ("main-8f3a2b1c0d.mjs", True),
        ("index-B4oKQ1xq.js", True),
        ("chunk.12345678.js", True),
        ("main.8f3a2b1.js", False),
        ("app.js", False),
        ("app-controller.js", False),
        ("vue-router.min.js", False),
        ("vue-devtools2.js", False),
        ("vue-devtools22.js", False),
        ("runtime-es2015.js", False),
        ("docsify@4.js", False),
        ("main.8f3a2b1c.js.map", False),
        ("deadbeef.js", False),
        ("x.abcdefab.js", False),
    ],
)
def test_a_script_counts_by_a_name_that_changes_with_it(name: str, by_name: bool) -> None:
    url = f"https://h/assets/{name}?v=8f3a2b1c"
    assert counts_by_name(url) is by_name
    assert is_asked_again("Script", url) is is_asked_again("Worker", url) is not by_name


@pytest.mark.parametrize("kind", ["Document", "XHR", "Fetch"])
def test_data_is_asked_again_whatever_its_name(kind: str) -> None:
    assert is_asked_again(kind, "https://h/main.8f3a2b1c.js")


@pytest.mark.parametrize("kind", ["EventSource", "WebSocket", "Image"])
def test_other_kinds_are_not_asked_again(kind: str) -> None:
    assert not is_asked_again(kind, "https://h/a")


@pytest.mark.parametrize(
    ("headers", "repeated"),
    [
        ({}, {}),
        (
            {"Accept": "a", "Content-Type": "b", "X-Requested-With": "c", "Referer": "d"},
            {"accept": "a", "content-type": "b", "x-requested-with": "c"},
        ),
        ({"Accept": "a", "Cookie": "session=1"}, {"accept": "a"}),
        ({"Authorization": "Bearer x"}, None),
        ({"X-Api-Key": "x"}, None),
        ({"x-csrf-token": "x"}, None),
        ({"X-Session": "x"}, None),
    ],
)
def test_a_request_is_repeated_without_what_is_secret(
    headers: dict[str, str], repeated: dict[str, str] | None
) -> None:
    assert repeated_headers(headers) == repeated
    assert has_cookie(headers) is ("Cookie" in headers)


def test_requests_that_ask_the_same_of_a_source_have_one_number() -> None:
    first = request_number(1, "GET", "https://h/a", {"accept": "x", "content-type": "y"}, "")
    assert (
        request_number(1, "GET", "https://h/a", {"content-type": "y", "accept": "x"}, "") == first
    )
    assert 0 <= first < 2**63
    others = {
        request_number(2, "GET", "https://h/a", {"accept": "x", "content-type": "y"}, ""),
        request_number(1, "POST", "https://h/a", {"accept": "x", "content-type": "y"}, ""),
        request_number(1, "GET", "https://h/b", {"accept": "x", "content-type": "y"}, ""),
        request_number(1, "GET", "https://h/a", {}, ""),
        request_number(1, "GET", "https://h/a", {"accept": "x", "content-type": "y"}, "b"),
    }
    assert len(others | {first}) == 6
    assert first == 4073298829116880859


def test_the_digest_of_a_redirect_is_that_of_its_target() -> None:
    assert answer_digest(200, "", b"a") != answer_digest(200, "", b"b")
    assert answer_digest(302, "/a", b"x") != answer_digest(302, "/b", b"x")
    assert answer_digest(302, "/a", b"x") == answer_digest(302, "/a", b"y")
    assert answer_digest(300, "/a", b"x") == answer_digest(399, "/a", b"y")
    assert answer_digest(299, "/a", b"x") == answer_digest(400, "/b", b"x")


def test_a_json_text_has_paths() -> None:
    body = b' {"a": [1, {"b": 2}, {"b": 3}], "c": {}, "d": [], "e": {"f": null}}'
    assert sorted(json_leaves(body)) == [".a[]", ".a[].b", ".c", ".d", ".e.f"]
    assert all(len(digest) == 8 for digest in json_leaves(body).values())
    assert sorted(json_leaves(b"[[1], [2]]")) == ["[]", "[][]"]


@pytest.mark.parametrize("body", [b"", b"12", b'"a"', b"{", b"<p>", b"{" * 100_000, b"\xff{}"])
def test_what_is_no_json_text_has_none(body: bytes) -> None:
    assert json_leaves(body) == {}


def test_a_long_json_text_has_none() -> None:
    rest = MOST_JSON - len(b'{"a": ""}')
    assert len(json_leaves(b'{"a": "' + rest * b"x" + b'"}')) == 1
    assert json_leaves(b'{"a": "x' + rest * b"x" + b'"}') == {}
    paths = {f"p{number}": number for number in range(MOST_PATHS)}
    assert len(json_leaves(json.dumps(paths).encode())) == MOST_PATHS
    assert json_leaves(json.dumps(paths | {"one": "more"}).encode()) == {}


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}, set()),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, set()),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {".b"}),
        ({"a": 1, "b": 2}, {"a": 2, "b": 3}, {".a", ".b"}),
        ({"a": [1, 2]}, {"a": [2, 1]}, {".a[]"}),
        ({"a": [{"b": 1}]}, {"a": [{"b": 1}, {"b": 1}]}, {".a[]", ".a[].b"}),
        ({"a": "1"}, {"a": 1}, {".a"}),
        ({"a": 1}, {"a": 1, "b": 2}, None),
        ({"a": 1, "b": 2}, {"a": 1}, None),
        ({"a": 1}, {"b": 1}, None),
    ],
)
def test_two_json_texts_differ_at_paths(
    before: object, now: object, changed: set[str] | None
) -> None:
    stored = packed_leaves(json_leaves(json.dumps(before).encode()))
    found = changed_paths(stored, json_leaves(json.dumps(now).encode()))
    assert found == (None if changed is None else frozenset(changed))


def test_no_paths_are_known_of_another_text() -> None:
    assert changed_paths(b"", {}) is None
    assert changed_paths(b"", {".a": b"12345678"}) is None


def test_noise_is_known_of_requests_of_one_shape_in_one_folder() -> None:
    def kin(url: str, value: object) -> str:
        return noise_kin(url, packed_leaves(json_leaves(json.dumps(value).encode())))

    first = kin("https://h/api/one.json?a=1&b=2", {"x": 1, "y": 2})
    assert kin("https://h/api/two.json?a=3&b=4", {"x": 5, "y": 6}) == first
    assert kin("https://h/api/two.json?a=3", {"x": 5, "y": 6}) != first
    assert kin("https://h/api/two.json?a=1&c=2", {"x": 1, "y": 2}) != first
    assert kin("https://h/api/b/two.json?a=3&b=4", {"x": 5, "y": 6}) != first
    assert kin("https://h/api/two.json?a=3&b=4", {"x": 5}) != first
    assert kin("https://h/api/two.json?a=3&b=4", {"x": 5, "z": 6}) != first


@pytest.mark.parametrize(
    ("changed", "times", "noise"),
    [
        ({".a"}, {".a": ENOUGH}, True),
        ({".a"}, {".a": ENOUGH - 1}, False),
        ({".a", ".b"}, {".a": ENOUGH}, False),
        (set(), {}, True),
        (None, {".a": ENOUGH}, False),
    ],
)
def test_answers_say_the_same_where_only_noise_differs(
    changed: set[str] | None, times: dict[str, int], noise: bool
) -> None:
    assert is_noise(None if changed is None else frozenset(changed), times) is noise


@pytest.mark.parametrize(
    ("one", "other", "joined"),
    [(1, 2, 2), (2, 1, 2), (0, 2, 2), (-1, 2, -1), (2, -1, -1), (SIGNAL, 5, SIGNAL)],
)
def test_what_two_requests_know_of_noise_is_joined(one: int, other: int, joined: int) -> None:
    assert joined_times(one, other) == joined


def test_numbers() -> None:
    found = (MOST_JSON, MOST_PATHS, ENOUGH, SIGNAL, MOST_SIBLINGS)
    assert found == (262_144, 500, 2, -1_000_000, 2)


def test_half_of_a_surrogate_pair_is_text() -> None:
    assert answer_digest(302, "/\ud800", b"") != answer_digest(302, "/", b"")
    assert len(packed_leaves(json_leaves(b'{"\\ud800": 1}'))) == 16


SAME, CHANGED, GONE, MISSING = DataState


@pytest.mark.parametrize(
    ("before", "status", "is_same", "has_cookie", "state"),
    [
        (200, 304, True, False, SAME),
        (200, 200, True, False, SAME),
        (404, 404, True, False, SAME),
        (500, 500, True, False, SAME),
        (200, 304, False, False, CHANGED),
        (200, 200, False, False, CHANGED),
        (200, 203, True, False, CHANGED),
        (200, 302, False, False, CHANGED),
        (404, 200, False, False, CHANGED),
        (200, 404, False, False, GONE),
        (200, 410, False, False, GONE),
        (299, 404, False, False, GONE),
        (300, 404, False, False, CHANGED),
        (404, 410, False, False, CHANGED),
        (200, 400, False, False, CHANGED),
        (200, 499, False, False, CHANGED),
        (200, 500, False, False, MISSING),
        (200, 503, False, False, MISSING),
        (200, 401, False, False, MISSING),
        (200, 403, False, False, MISSING),
        (200, 407, False, False, MISSING),
        (200, 408, False, False, MISSING),
        (200, 425, False, False, MISSING),
        (200, 429, False, False, MISSING),
        (200, None, False, False, MISSING),
        (200, 401, False, True, CHANGED),
        (200, 500, False, True, MISSING),
        (200, None, False, True, MISSING),
        (399, 500, False, False, MISSING),
        (400, 500, False, False, CHANGED),
        (403, 401, False, False, CHANGED),
        (404, None, False, False, CHANGED),
    ],
)
def test_an_answer_says_what_became_of_data(
    before: int, status: int | None, is_same: bool, has_cookie: bool, state: DataState
) -> None:
    answer = DataAnswer(status)
    assert answer.refused == ""
    assert data_state(before, answer, is_same=is_same, has_cookie=has_cookie) is state


@pytest.mark.parametrize(
    ("states", "state"),
    [
        ([(SAME, False), (SAME, True)], SAME),
        ([(SAME, False), (CHANGED, True)], CHANGED),
        ([(CHANGED, False), (SAME, True)], CHANGED),
        ([(SAME, False), (GONE, True)], GONE),
        ([(CHANGED, False), (GONE, True)], GONE),
        ([(SAME, True), (GONE, True)], CHANGED),
        ([(GONE, True), (GONE, True)], GONE),
        ([(GONE, False), (SAME, True)], CHANGED),
        ([(GONE, False)], CHANGED),
        ([(MISSING, False), (GONE, True)], MISSING),
        ([(CHANGED, False), (MISSING, False)], MISSING),
        ([(SAME, False)], SAME),
    ],
)
def test_the_data_of_a_page_says_what_became_of_it(
    states: list[tuple[DataState, bool]], state: DataState
) -> None:
    assert page_state(states) is state


@pytest.mark.parametrize(
    ("page", "url", "is_own"),
    [
        ("https://h/p/7", "https://h/api/p/7.json", True),
        ("https://h/p/7", "https://h/api/p?id=7", True),
        ("https://h/p/7/", "https://h/api/7", True),
        ("https://h/p/7", "https://h/api/p/70.json", False),
        ("https://h/p/7", "https://h/api/menu.json", False),
        ("https://h/docs/Intro.html", "https://h/api/intro.json", True),
        ("https://h/docs/INTRO", "https://h/api/intro", True),
        ("https://h/docs/intro", "https://h/api/docs.json", False),
        ("https://h/a%20b", "https://h/api/a%20b", True),
        ("https://h/#/p/seven?tab=2", "https://h/api/seven", True),
        ("https://h/x#/p/seven", "https://h/api/x", False),
        ("https://h/", "https://h/api/home.json", False),
        ("https://h/", "https://h/api/", False),
    ],
)
def test_the_own_data_of_a_page_has_its_name(page: str, url: str, is_own: bool) -> None:
    assert is_own_data(page, url) is is_own


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ([("https://h/api/7", 404)], False),
        ([("https://h/api/7", 410), ("https://h/api/menu", 200)], False),
        ([("https://h/api/7", 404), ("https://h/api/7/notes", 200)], True),
        ([("https://h/api/7", 200)], True),
        ([("https://h/api/7", None)], True),
        ([("https://h/api/menu", 404)], True),
        ([], True),
    ],
)
def test_a_page_whose_own_data_is_not_found_is_not_found(
    answers: list[tuple[str, int | None]], found: bool
) -> None:
    assert is_not_found("https://h/p/7", answers) is not found


@pytest.mark.parametrize(
    ("url", "template"),
    [
        ("https://h/", "h/ 0"),
        ("https://h/a", "h/ 1"),
        ("https://h/docs/a", "h/docs 2"),
        ("https://h/docs/a/", "h/docs 2"),
        ("https://h/docs/a/b?c=/d", "h/docs 3"),
        ("https://h/?c=https://g/d", "h/ 0"),
        ("https://[::1]:81/a/b", "[::1]:81/a 2"),
        ("https://h:81/#/p/7", "h:81/p 2"),
        ("https://h/x#!/p/7", "h/p 2"),
    ],
)
def test_pages_are_alike_by_host_first_folder_and_depth(url: str, template: str) -> None:
    assert page_template(url) == template


@pytest.mark.parametrize(
    ("page", "url", "template"),
    [
        ("https://h/p/seven", "https://h/api/seven.json", "https://h/api/*.json"),
        ("https://h/p/seven", "https://h/api/Seven/12", "https://h/api/*/N"),
        ("https://h/p/seven", "https://h/api/seventeen", "https://h/api/seventeen"),
        ("https://h/p/seven", "https://h/api/x-seven", "https://h/api/x-seven"),
        ("https://h/p/a.b", "https://h/api/a", "https://h/api/*"),
        ("https://h/p/a%20b", "https://h/api/a%20b?page=3", "https://h/api/*?page=N"),
        ("https://h/", "https://h/api/home", "https://h/api/home"),
        ("https://h/", "https://h/api/home?x=1", "https://h/api/home?x=N"),
    ],
)
def test_requests_of_siblings_are_alike(page: str, url: str, template: str) -> None:
    assert data_template(page, url) == template


def test_a_page_that_lacks_what_most_siblings_asked_is_known() -> None:
    siblings, menu = Siblings(), "https://h/menu"
    siblings.add("https://h/p/a", [menu, "https://h/api/a"])
    assert not siblings.lacking("https://h/p/x", [menu])  # one shows nothing
    siblings.add("https://h/p/b", [menu, "https://h/api/b", "https://h/api/b"])
    assert siblings.lacking("https://h/p/x", [menu]) == {"https://h/api/*"}
    assert siblings.lacking("https://h/p/x", []) == {menu, "https://h/api/*"}
    assert not siblings.lacking("https://h/p/x", [menu, "https://h/api/x"])
    assert not siblings.lacking("https://h/other", [])
    siblings.add("https://h/p/c", [menu])
    siblings.add("https://h/p/d", [menu])
    assert not siblings.lacking("https://h/p/x", [menu])  # two of four are not most


@pytest.mark.parametrize(
    ("before", "now", "confirms"),
    [
        (('"1"', "a", b"x"), ('"1"', "b", b"y"), True),
        (('"1"', "a", b"x"), ('"2"', "a", b"x"), False),
        (('"1"', "a", b"x"), (None, "a", b"x"), False),
        ((None, "a", b"x"), ('"1"', "a", b"y"), True),
        ((None, "a", b"x"), (None, "b", b"x"), False),
        ((None, None, b"x"), ('"1"', "b", b"x"), True),
        ((None, None, b"x"), (None, None, b"y"), False),
    ],
)
def test_validators_would_have_confirmed_an_answer(
    before: tuple[str | None, str | None, bytes],
    now: tuple[str | None, str | None, bytes],
    confirms: bool,
) -> None:
    assert would_confirm(Validated(*before), Validated(*now)) is confirms


def test_words_say_how_many_requests_confirmed_a_page() -> None:
    assert confirmed_by(1) == "confirmed by 1 data request"
    assert confirmed_by(2) == "confirmed by 2 data requests"
