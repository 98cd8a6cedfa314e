"""Sign-in pages, and redirects to them, are walls (docs/decisions.md, ADR 98)."""

import pytest

from smartcrawl.rules.login import (
    WALL_OF_REDIRECTS,
    Met,
    Turned,
    acts_on_page,
    is_sign_in_address,
    is_sign_in_page,
    names_asked_page,
    pages_before_walls,
    walls_against_seal,
    walls_of_redirects,
)

WORDS = (
    "login", "signin", "logon", "wplogin", "userlogin", "auth", "sso", "anmelden", "anmeldung",
    "connexion", "inloggen", "accedi",
)  # fmt: skip
FORM = b"<form><input name=user><input type=password></form>"


@pytest.mark.parametrize(
    ("title", "body", "found"),
    [
        ("Sign in", FORM, True),
        ("Anmelden - Orchard", FORM, True),
        ("Orchard", FORM, False),
        ("How to sign in", FORM, False),
        ("Sign in", b"<form><input name=q></form>", False),
        ("Sign in", b"<p>Choose your account.</p>", False),
        ("Sign in", b"<!-- " + FORM + b" -->", False),
    ],
)
def test_a_sign_in_page_has_a_password_and_a_title_that_says_so(title, body, found):
    assert is_sign_in_page(body, title=title) is found


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("next=/a/x", True),
        ("next=%2Fa%2Fx", True),
        ("back=1&returnUrl=http://a.example/a/x", True),
        ("next=%252Fa%252Fx", True),
        ("returnto=a/x", True),
        ("next=/a", False),
        ("next=/a/x/y", False),
        ("", False),
    ],
)
def test_a_redirect_names_the_address_that_was_asked(query, found):
    asked = "http://a.example/a/x"
    assert names_asked_page(asked, f"https://id.example/in?{query}") is found


def test_a_query_is_part_of_the_address_that_was_asked():
    asked = "http://a.example/x?id=7"
    assert names_asked_page(asked, "http://a.example/in?next=%2Fx%3Fid%3D7")
    assert not names_asked_page(asked, "http://a.example/in?next=/x")
    assert not names_asked_page("http://a.example/", "http://a.example/in?next=/")
    twice = "http://a.example/x?id=7?"
    assert names_asked_page(twice, "http://a.example/in?next=x%3Fid%3D7%3F")
    assert names_asked_page("http://a.example/??", "http://a.example/in?next=%2F%3F%3F")


def turned(no, *, target=9, base="http://a.example/in", new=True):
    return Turned(no, f"http://a.example/{no}", f"{base}?next=/{no}", target, new)


def before(*pages, sign_in=(), spared=()):
    return sorted(pages_before_walls(pages, sign_in, spared))


def test_a_page_that_several_new_pages_name_themselves_to_is_a_wall():
    assert before(turned(1)) == []
    assert before(turned(1), turned(2)) == [1, 2]
    assert before(turned(1, target=None), turned(2, target=None)) == [1, 2], "on another host"
    assert before(turned(1), turned(2, base="http://a.example/out")) == []
    assert before(turned(1), turned(2, new=False)) == []
    assert before(turned(1), turned(2), spared={9}) == []


def test_the_walls_are_what_the_redirects_of_several_new_pages_name():
    walls = [walls_of_redirects(pages, spared) for pages, spared in (
        ([turned(1), turned(2, target=8)], ()),
        ([turned(1), turned(2)], {9}),
        ([turned(1), turned(2, target=None)], ()),
        ([turned(1), turned(2, new=False)], ()),
        ([turned(1), Turned(2, "http://a.example/2", "http://a.example/in", 9, True)], ()),
    )]  # fmt: skip

    assert walls == [{8, 9}, frozenset(), {9}, frozenset(), frozenset()]
    assert WALL_OF_REDIRECTS == "a wall: new pages redirect there with their addresses"


def test_a_redirect_to_a_sign_in_page_meets_a_wall_whatever_it_names():
    plain = Turned(1, "http://a.example/1", "http://a.example/in", 9, True)
    assert before(plain, sign_in={9}) == [1]
    assert before(plain, sign_in={8}) == []
    way = Turned(2, "http://a.example/2", "http://a.example/1", 1, False)
    assert before(plain, way, sign_in={9}) == [1, 2]
    first = Turned(5, "http://b.example/1", "http://a.example/1", 1, True)
    assert before(first, turned(1), turned(2)) == [1, 2, 5], "to https first"


def test_a_catch_all_is_no_wall():
    """Retired products lead to the home page, and the home page to that of a language."""
    pages = [Turned(n, f"http://a.example/{n}", "http://a.example/", 9, True) for n in range(9)]
    assert before(*pages) == []


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://a.example/login", True),
        ("http://a.example/user/Sign-In/", True),
        ("http://a.example/wp-login.php?redirect_to=/x", True),
        ("http://a.example/wiki/Special:UserLogin", True),
        *((f"http://a.example/{word}", True) for word in WORDS),
        ("http://a.example/login/shop", False),
        ("http://a.example/shop?login", False),
        ("http://a.example/", False),
    ],
)
def test_the_last_part_of_its_path_says_what_a_sign_in_page_is(url, found):
    assert is_sign_in_address(url) is found


@pytest.mark.parametrize(
    ("url", "origin", "found"),
    [
        ("/edit/Lamp", "/wiki/Lamp", True),
        ("/edit/Lamp/", "/wiki/Lamp/", True),
        ("/index.php?action=edit&title=Lamp", "/wiki/Lamp", True),
        ("/wiki/Lamp?action=edit", "/wiki/Lamp", True),
        ("/edit/Fuse", "/wiki/Lamp", False),
        ("/lamps/red", "/lamps", False),
        ("/shop", "/", False),
        ("/", "/", False),
    ],
)
def test_a_form_to_edit_a_page_names_that_page(url, origin, found):
    assert acts_on_page(f"http://a.example{url}", f"http://a.example{origin}") is found


def met(count, *, matters=False, aside=False):
    return [Met(f"/{n}", matters, aside) for n in range(count)]


@pytest.mark.parametrize(
    ("pages", "visits", "found"),
    [
        (met(1), 1, 0),
        (met(2), 20, 2),
        (met(2), 21, 0),
        (met(9, aside=True), 9, 0),
        (met(1) + met(9, aside=True), 10, 0),
        (met(1, matters=True), 999, 1),
        (met(1, matters=True) + met(1), 20, 2),
        (met(1, matters=True) + met(1), 21, 1),
        ([], 0, 0),
    ],
)
def test_seeds_pages_with_content_or_a_tenth_of_a_run_make_it_incomplete(pages, visits, found):
    assert len(walls_against_seal(pages, visits=visits)) == found
