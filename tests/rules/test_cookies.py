"""Cookies of one visit, as RFC 6265 says; cases of its sections 5.1 to 5.4."""

import pytest

from smartcrawl.rules.cookies import (
    cookie_header,
    cookies_after_answer,
    is_same_origin,
    merged_cookie_header,
    names_way_back,
    session_cookie_header,
)

NOW = 1_700_000_000  #: 2023-11-14
HERE = "http://a.example/docs/guide"


def sent(*lines: str, to: str = HERE, of: str = HERE) -> str:
    """Return what goes to an address after an answer with these Set-Cookie lines."""
    return cookie_header(cookies_after_answer((), lines, of, NOW), to)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a=1", "a=1"),
        ("  a = 1 ; HttpOnly; SameSite=Lax", "a=1"),
        ('a="x=y"', 'a="x=y"'),
        ("a=", "a="),
        ("a", ""),
        ("=1", ""),
        ("", ""),
        (";a=1", ""),
        ("a=1\x00", ""),
        ("a=1; Path=/\x7f", ""),
        ("a=ü", "a=ü"),
        ("\ta=1?\t", "a=1?"),
        (f"a={'x' * 4095}", f"a={'x' * 4095}"),
        (f"a={'x' * 4096}", ""),
    ],
)
def test_a_line_gives_a_name_and_a_value(line: str, value: str):
    assert sent(line) == value


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a=1; Max-Age=0", ""),
        ("a=1; Max-Age=00", ""),
        ("a=1; Max-Age=-1", ""),
        ("a=1; Max-Age=-x", "a=1"),
        ("a=1; Max-Age=1", "a=1"),
        ("a=1; Max-Age=10", "a=1"),
        ("a=1; max-age = 0", ""),
        ("a=1; Max-Age=", "a=1"),
        ("a=1; Max-Age=1; Max-Age=0", ""),
        (f"a=1; Max-Age={'9' * 5000}", "a=1"),
        (f"a=1; Max-Age=-{'9' * 5000}", ""),
        ("a=1; Max-Age=--1", "a=1"),
        ("a=1; Expires=Tue, 14 Nov 2023 22:13:19 GMT", ""),
        ("a=1; Expires=Tue, 14 Nov 2023 22:13:20 GMT", ""),
        ("a=1; Expires=Tue, 14 Nov 2023 22:13:21 GMT", "a=1"),
        ("a=1; Expires=Tue, 14-Nov-2023 22:13:19 GMT", ""),
        ("a=1; Expires=Thu, 01-Jan-70 00:00:00 GMT", ""),
        ("a=1; Expires=Tue, 14 Nov 2023 22:13:21 +0100", "a=1"),
        ("a=1; Expires=Tue, 14 Nov 2023 22:13:20 -0100", ""),
        ("a=1; Expires=Tue, 14 Nov 2023 22:13:19", ""),
        ("a=1; Expires=soon", "a=1"),
        ("a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=5", "a=1"),
    ],
)
def test_an_expired_cookie_is_not_sent(line: str, found: str):
    assert sent(line) == found


@pytest.mark.parametrize(
    ("attributes", "to", "is_sent"),
    [
        ("", "http://a.example/docs/guide", True),
        ("", "http://a.example/docs", True),
        ("", "http://a.example/docs/", True),
        ("", "http://a.example/docsx", False),
        ("", "http://a.example/", False),
        ("Path=/", "http://a.example/", True),
        ("Path=/", "http://a.example", True),
        ("Path=/docs/guide", "http://a.example/docs/guide", True),
        ("Path=/docs/guide", "http://a.example/docs/guide/2", True),
        ("Path=/docs/guide", "http://a.example/docs/guides", False),
        ("Path=/docs/", "http://a.example/docs/x", True),
        ("Path=/docs/", "http://a.example/docs", False),
        ("Path=/?", "http://a.example", False),
        ("Path=docs", "http://a.example/docs/x", True),
        ("Path=docs", "http://a.example/x", False),
        ("Path=/", "http://a.example:80/", True),
        ("Path=/", "http://a.example:8080/", False),
        ("Path=/", "https://a.example/", False),
        ("Path=/", "http://b.example/", False),
        ("Path=/", "http://x.a.example/", False),
        ("Path=/; Domain=a.example", "http://x.a.example/", False),
        ("Path=/; Domain=a.example", "http://a.example/", True),
        ("Path=/; Domain=.A.example", "http://a.example/", True),
        ("Path=/; Domain=example", "http://a.example/", True),
        ("Path=/; Domain=b.example", "http://a.example/", False),
        ("Path=/; Domain=x.a.example", "http://a.example/", False),
        ("Path=/; Domain=", "http://a.example/", True),
        ("Path=/; Secure", "http://a.example/", False),
        ("Path=/; Secured", "http://a.example/", True),
    ],
)
def test_a_cookie_goes_to_its_origin_and_paths_alone(attributes: str, to: str, is_sent: bool):
    assert sent(f"a=1; {attributes}", to=to) == ("a=1" if is_sent else "")


def test_a_secure_cookie_goes_by_https_alone():
    secure = "https://a.example/x"

    assert sent("a=1; Secure", of=secure, to=secure) == "a=1"
    assert sent("a=1; Secure", of=secure, to="https://a.example:443/") == "a=1"
    assert sent("a=1; Secure", of=secure, to="http://a.example:443/") == ""
    assert sent("a=1", of="http://a.example/", to="https://a.example/") == ""


def test_no_part_of_an_ip_address_is_a_domain():
    here = "http://10.0.0.1/"

    assert sent("a=1; Domain=0.0.1", of=here, to=here) == ""
    assert sent("a=1; Domain=10.0.0.1", of=here, to=here) == "a=1"
    assert sent("a=1; Domain=10.0.0.1", of="http://10.0.0.1:8080/", to="http://10.0.0.1:8080/")


def test_a_later_cookie_replaces_that_of_its_name_and_path():
    first = cookies_after_answer((), ["a=1; Path=/", "b=2; Path=/"], HERE, NOW)
    second = cookies_after_answer(first, ["a=3; Path=/", "b=; Path=/; Max-Age=0"], HERE, NOW)

    assert cookie_header(first, HERE) == "a=1; b=2"
    assert cookie_header(second, HERE) == "a=3"
    other = cookies_after_answer(first, ["a=4", "a=5; Path=/; Domain=a.example"], HERE, NOW)
    assert cookie_header(other, HERE) == "a=4; a=1; b=2; a=5"


def test_a_cookie_of_the_root_has_its_path():
    root = "http://a.example/"
    first = cookies_after_answer((), ["a=1"], root, NOW)

    assert cookie_header(cookies_after_answer(first, ["a=2; Path=/"], root, NOW), root) == "a=2"


def test_no_cookie_replaces_that_of_another_origin():
    secure = "https://a.example/docs/guide"
    first = cookies_after_answer((), ["a=1"], HERE, NOW)
    both = cookies_after_answer(first, ["a=2"], secure, NOW)

    assert (cookie_header(both, HERE), cookie_header(both, secure)) == ("a=1", "a=2")


def test_no_visit_has_cookies_without_end():
    lines = [f"n{number}=1" for number in range(51)]

    assert sent(*lines).split("; ") == lines[1:]


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ("", "a=1"),
        ("key=k", "key=k; a=1"),
        ("a=0; key=k;", "key=k; a=1"),
        (" key=k ;; a =0", "key=k; a=1"),
    ],
)
def test_the_cookies_of_the_operator_stay(given: str, header: str):
    own = cookies_after_answer((), ["a=1"], HERE, NOW)

    assert merged_cookie_header(given, own, HERE) == header
    assert merged_cookie_header("key=k", own, "http://a.example/") == "key=k"


def test_an_origin_has_a_port():
    assert is_same_origin("https://a.example/", "https://a.example:443/x")
    assert not is_same_origin("https://a.example/", "https://a.example:80/x")
    assert not is_same_origin("http://a.example/", "http://b.example/")


@pytest.mark.parametrize(
    ("target", "names"),
    [
        ("/check?back=/docs/guide", True),
        ("/check?back=%2Fdocs%2Fguide", True),
        ("/check?a=1&next=http%3A%2F%2Fa.example%2Fdocs%2Fguide", True),
        ("/check?/docs/guide", False),
        ("/check?back=/docs", False),
        ("/check?back=docs/guide", False),
        ("/check", False),
        ("/docs/guide", False),
    ],
)
def test_a_way_back_is_named_by_path_or_address(target: str, names: bool):
    assert names_way_back(f"http://a.example{target}", HERE) is names


def test_a_way_back_is_named_with_the_query_of_the_page():
    page = "http://a.example/list?page=2&by=name"
    for value in ("/list?page=2&by=name", page, "%2Flist%3Fpage%3D2%26by%3Dname"):
        assert names_way_back(f"http://a.example/check?to={value}", page)
    assert not names_way_back("http://a.example/check?to=/list", page)
    assert names_way_back("http://a.example/check?to=/", "http://a.example/")


@pytest.mark.parametrize("to", ["https://docs.a.example/x", "https://docs.a.example./x"])
def test_a_session_takes_along_what_was_set_for_the_whole_domain(to: str):
    """No other cookie, not even to a host whose name ends with a dot."""
    lines = ["a=1; Domain=a.example", "b=2"]
    found = cookies_after_answer((), lines, "https://login.a.example/", NOW)

    assert session_cookie_header(found, to) == ("a=1" if ".example/" in to else "")
    assert session_cookie_header(found, "https://login.a.example/x") == "a=1; b=2"
    assert session_cookie_header(found, to.replace("https", "http")) == ""
