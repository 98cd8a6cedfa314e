"""The page of keys, without a browser: who is offered it, and what is shown once."""

from pathlib import Path

import pytest

from smartcrawl.server.keys import Scope
from tests.server.api_client import application
from tests.server.pages.browsing import Visitor, form_of, logged_in_visitor, parsed, words


def keyed(folder: Path, scope: Scope) -> Visitor:
    app = application(folder, host="0.0.0.0", pages_limit=10**9)
    return logged_in_visitor(app, folder, scope)


@pytest.fixture
def admin(tmp_path: Path) -> Visitor:
    return keyed(tmp_path, Scope.ADMIN)


def test_a_key_is_made_shown_once_used_and_revoked(admin: Visitor):
    answer = admin.submit("/keys", "/keys", name="<b>box", scope="read", expires_days="30")

    page = parsed(answer)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    (text,) = [words(code) for code in page.xpath("//section[@role='status']//code")]
    assert text.startswith("sc_")
    assert page.xpath("//b") == []
    assert text not in admin.get("/keys").text
    other = Visitor(admin.app)
    assert other.submit("/login", "/login", key=text).status_code == 303

    path = f"/keys/{text.split('_')[1]}/revoke"
    assert [a for a in admin.page("/keys").iter("a") if a.get("href") == path]
    assert "Revoke this key?" in words(admin.page(path).find(".//h1"))
    done = admin.submit(path, path)
    assert (done.status_code, done.headers["Location"]) == (303, "/keys?done=revoked")
    assert "It is revoked" in words(admin.page("/keys?done=revoked"))
    assert other.get("/sources").status_code == 303, "its session ended with it"
    assert "It is revoked or expired already" in words(admin.page(path))


def test_a_form_that_is_sent_twice_makes_one_key(admin: Visitor):
    fields = {n: v or "" for n, v in form_of(admin.page("/keys"), "/keys").fields.items()}
    fields["name"] = "twice"

    first, again = (parsed(admin.post("/keys", fields)) for _ in range(2))

    assert first.xpath("//section[@role='status']//code")
    assert again.xpath("//section[@role='status']//code") == []
    assert "revoke it and make another" in words(again)
    assert len(again.xpath("//tbody/tr/th[contains(., 'twice')]")) == 1


def test_what_was_typed_stays_beside_its_message(admin: Visitor):
    answer = admin.submit("/keys", "/keys", name="box", scope="search", expires_days="soon")
    page = parsed(answer)

    assert answer.status_code == 400
    assert page.get_element_by_id("expires_days").get("value") == "soon"
    assert page.get_element_by_id("expires_days").get("aria-invalid") == "true"
    assert "expires_days" in words(page.get_element_by_id("expires_days-error"))
    assert page.get_element_by_id("name").get("value") == "box"
    assert page.xpath("//option[@selected]/@value") == ["search"]
    again = admin.submit("/keys", "/keys", name="box", scope="search")
    assert "search needs sources" in words(parsed(again).get_element_by_id("sources-error"))


@pytest.mark.parametrize("scope", [Scope.READ, Scope.OPERATE])
def test_keys_are_offered_to_administrators_alone(tmp_path: Path, scope: Scope):
    visitor = keyed(tmp_path, scope)

    assert visitor.page("/sources").xpath("//nav//a[@href='/keys']") == []
    assert "scope admin" in words(visitor.page("/keys", status=403))
    token = form_of(visitor.page("/sources"), "/logout").fields["token"]
    assert visitor.post("/keys", {"token": token, "name": "x"}).status_code == 403
    assert keyed(tmp_path, Scope.ADMIN).page("/sources").xpath("//nav//a[@href='/keys']")


def test_without_a_session_the_page_says_how_to_begin(tmp_path: Path):
    visitor = Visitor(application(tmp_path))

    assert visitor.page("/").xpath("//nav//a[@href='/keys']") == []
    assert "serve --create-key NAME --scope admin" in words(visitor.page("/keys", status=403))


def test_a_key_that_does_not_exist_is_a_page_in_words(admin: Visitor):
    assert "no key has this id" in words(admin.page("/keys/0123456789ab/revoke", status=404))
