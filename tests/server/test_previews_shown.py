"""Previews of pages behind each kind of login, and of pages that scripts write."""

import json
import os
from base64 import b64encode
from collections.abc import Iterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from smartcrawl.model.processes import descendants_of
from smartcrawl.model.rendered import StoredSample
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.render_samples import store_sample_rows
from smartcrawl.rules.render_need import Sample
from smartcrawl.server.explained import previews
from smartcrawl.server.keys import Scope
from tests.certificates import made, written
from tests.crawls.secure_site import Secure
from tests.crawls.test_crawl_render_login import SCRIPT, SHELL, App, data
from tests.extract.browser.test_browser_attacks import HINTS, STAYING, recording
from tests.guarded_site import PASSWORD, PROOF, USER, GuardedSite, pages
from tests.registry.build import Desk
from tests.server.api_client import application, ask
from tests.server.pages.browsing import made_key
from tests.server.test_previews import tried
from tests.site_server import Page, Site

FORM = f"""
kind = "form"
login = "{{origin}}/login"
fields = {{{{ user = "A_USER", pass = "A_PASSWORD" }}}}
logged_in = "{PROOF}"
"""
#: Kinds of login: what the site takes, and how the source has it.
KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "form": ({"wall": "form"}, FORM),
    "form and a redirect": ({"wall": "302"}, FORM),
    "cookie": (
        {"cookie": "in=yes"},
        f'kind = "cookie"\ncookie = "A_COOKIE"\nlogged_in = "{PROOF}"\n',
    ),
    "digest": (
        {"digest": True, "wall": "401"},
        'kind = "digest"\nuser = "A_USER"\npassword = "A_PASSWORD"\n',
    ),
    "bearer": ({"token": "t-o-k", "wall": "401"}, 'kind = "bearer"\ntoken = "A_TOKEN"\n'),
    "header": (
        {"token": "t-o-k", "wall": "401"},
        'kind = "header"\nheaders = { X-Api-Key = "A_TOKEN" }\n',
    ),
}


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"A_USER": USER, "A_PASSWORD": PASSWORD, "A_COOKIE": "in=yes", "A_TOKEN": "t-o-k"}
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine, too: none of these tests is about a slow site."""
    monkeypatch.setattr(previews, "SECONDS", 600.0)
    monkeypatch.setattr(previews, "RENDER_SECONDS", 600.0)


def declare(
    folder: Path, site: Site, auth: str, more: str = "", origins: Sequence[str] = ()
) -> None:
    """Declare a source with a login; `more`: further keys of it; `origins`: instead of its own."""
    origin = site.url("")
    auth = auth.format(origin=origin) if "{origin}" in auth else auth
    if auth:
        auth = f"[sources.docs.auth]\norigins = {json.dumps(origins or [origin])}\n{auth}"
    text = f'[sources.docs]\nseeds = ["{origin}/"]\ndelay = 0\n{more}\n{auth}'
    (folder / "sources.toml").write_text(text)


def served(folder: Path, **run: Any) -> Any:
    usual = {"allow_networks": (ip_network("127.0.0.0/8"),), "download_delay": 0.0}
    return application(folder, host="0.0.0.0", run={**usual, "render": "auto", **run})


def operator(folder: Path) -> dict[str, str]:
    return {"X-API-Key": made_key(folder, Scope.OPERATE, "docs")}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_login_shows_what_is_behind_it(tmp_path: Path, kind: str):
    takes, auth = KINDS[kind]
    with GuardedSite() as site:
        vars(site).update(takes)
        site.pages |= pages(2)
        declare(tmp_path, site, auth)
        found = tried(served(tmp_path), site.url("/p1"), operator(tmp_path), source="docs")

    assert found["sentence"] == "It is indexed like this."
    assert (found["withLogin"], found["withBrowser"]) == (True, False)
    assert "treasure number 1" in found["document"]["text"]
    assert all(secret not in str(found) for secret in (PASSWORD, "t-o-k", "in=yes"))


class TokenSite(Site):
    """A token endpoint, and what it was given."""

    given = ""

    def answer(self, method: str, path: str, headers: dict[str, str]) -> Any:
        self.given = f"{method} {headers.get('authorization', '')}"
        token = '{"access_token": "t-o-k", "token_type": "Bearer", "expires_in": 120}'
        self.pages["/token"] = Page(token, content_type="application/json")
        return super().answer("GET", path, headers)


def test_a_token_of_oauth_shows_what_is_behind_it(tmp_path: Path):
    """The secret goes to the endpoint alone, and the token to the page alone."""
    with GuardedSite() as site, TokenSite() as tokens:
        site.token, site.wall = "t-o-k", "401"
        site.pages |= pages(2)
        declare(
            tmp_path,
            site,
            f'kind = "oauth2_client"\ntoken_url = "{tokens.url("/token")}"\n'
            'client_id = "A_USER"\nclient_secret = "A_PASSWORD"\n',
            origins=(site.url(""), tokens.url("")),
        )
        found = tried(served(tmp_path), site.url("/p1"), operator(tmp_path), source="docs")

        assert found["sentence"] == "It is indexed like this."
        assert (found["withLogin"], found["withBrowser"]) == (True, False)
        assert "treasure number 1" in found["document"]["text"]
        pair = b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        assert ([one.path for one in tokens.log], tokens.given) == (
            ["/token"],
            f"POST Basic {pair}",
        )
        assert set(site.given) == {"", "Bearer t-o-k"}
        assert all(secret not in str(found) for secret in (PASSWORD, pair, "t-o-k"))


def test_a_client_certificate_shows_what_is_behind_it(tmp_path: Path, site: Site):
    """The server refuses connections without one; its own is signed by an authority of theirs."""
    secure = Secure(site, tmp_path)
    readers = made("Readers", authority=True)
    secure.demand(written(tmp_path, "readers.pem", readers, key=False))
    bot = made("bot", issuer=readers)
    chain, key = written(tmp_path, "bot.pem", bot, key=False), tmp_path / "bot.key"
    key.write_bytes(bot.key_pem)
    key.chmod(0o600)
    site.pages |= pages(2)
    common = (
        f'seeds = ["{secure.url("/")}"]\nca_file = "{secure.ca_file}"\n'
        "obey_robots = false\ndelay = 0\n"
    )
    (tmp_path / "sources.toml").write_text(
        f'[sources.docs]\n{common}[sources.docs.auth]\nkind = "client_certificate"\n'
        f'certificate = "file:{chain}"\nkey = "file:{key}"\n[sources.bare]\n{common}'
    )
    app, admin = served(tmp_path), {"X-API-Key": made_key(tmp_path, Scope.ADMIN)}
    without = tried(app, secure.url("/p1"), admin, source="bare")
    assert site.log == []
    found = tried(app, secure.url("/p1"), admin, source="docs")

    assert (without["withLogin"], without["isFetched"]) == (False, False)
    assert "no answer from" in without["sentence"]
    assert found["sentence"] == "It is indexed like this."
    assert (found["withLogin"], found["withBrowser"]) == (True, False)
    assert "treasure number 1" in found["document"]["text"]
    assert bot.key_pem.decode().splitlines()[1] not in str(found)


@pytest.mark.long
def test_a_server_whose_authority_no_one_knows_gets_no_request(tmp_path: Path, site: Site):
    """With ``ca_file`` or ``verify_certificates = false`` of its source it does, as in a run."""
    secure = Secure(site, tmp_path)
    site.pages |= pages(2)
    seeds = f'seeds = ["{secure.url("/")}"]\ndelay = 0'
    (tmp_path / "sources.toml").write_text(
        f"[sources.unknown]\n{seeds}\n"
        f'[sources.known]\n{seeds}\nca_file = "{secure.ca_file}"\n'
        f"[sources.any]\n{seeds}\nverify_certificates = false\n"
    )
    app, admin = served(tmp_path), {"X-API-Key": made_key(tmp_path, Scope.ADMIN)}
    refused = tried(app, secure.url("/p1"), admin, source="unknown")
    assert (refused["isFetched"], site.log) == (False, [])
    for source in ("known", "any"):
        assert tried(app, secure.url("/p1"), admin, source=source)["isIndexed"] is True


@pytest.mark.parametrize("kind", ["form", "cookie", "header"])
def test_no_login_goes_to_another_origin(tmp_path: Path, kind: str):
    takes, auth = KINDS[kind]
    with GuardedSite() as site, GuardedSite() as other:
        for each in (site, other):
            vars(each).update(takes)
            each.pages |= pages(2)
        declare(tmp_path, site, auth, 'allowed_domains = ["127.0.0.1"]')
        found = tried(served(tmp_path), other.url("/p1"), operator(tmp_path), source="docs")

        assert found["withLogin"] is False
        assert "treasure" not in str(found)
        assert (other.given, site.log) == ([""] * len(other.given), [])


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """Pages that scripts write, behind a form."""
    with App() as site:
        site.pages |= dict.fromkeys(("/", "/one"), SHELL)
        site.pages["/app.js"] = Page(SCRIPT, content_type="text/javascript")
        site.pages["/api/me.json"] = data(menu=["/", "/one"], account="/account")
        for name in ("home", "one"):
            site.pages[f"/api/{name}.json"] = data(title=f"Title of {name}", text=f"about {name}")
        yield site


@pytest.mark.long
@pytest.mark.parametrize("more", ["", 'render = "always"'])
def test_a_page_that_scripts_write_behind_a_login_is_shown_by_a_browser(
    tmp_path: Path, app: App, program: str, more: str
):
    """The proof of its login is written by scripts, too; the browser sees no session."""
    declare(tmp_path, app, FORM, more)
    found = tried(
        served(tmp_path, render_browser=program), app.url("/one"), operator(tmp_path), source="docs"
    )

    assert found["sentence"] == "It is indexed like this."
    assert (found["withLogin"], found["withBrowser"]) == (True, True)
    assert found["document"]["title"] == "Title of one"
    assert "about one" in found["document"]["text"]
    assert "leaked" not in str(found)
    assert (app.logins, app.count("/logout"), app.count("/one")) == (1, 0, 1)


@pytest.fixture
def scripted(site: Site) -> Site:
    """A page without a login that scripts write, and one that has its text itself."""
    script = "document.body.innerHTML='<main><h1>Lamps</h1><p>'+'written by a script '.repeat(9)"
    loaded = "fetch('/secret/x').catch(()=>0);fetch('http://127.0.0.1:1/x').catch(()=>0);"
    site.pages["/robots.txt"] = Page("User-agent: *\nDisallow: /secret", content_type="text/plain")
    site.pages["/shell"] = f"<!doctype html><title>S</title><body><script>{loaded}{script}</script>"
    site.pages["/plain"] = "<!doctype html><main><h1>Plain</h1>" + "<p>own words of it</p>" * 9
    return site


@pytest.mark.long
def test_a_browser_asks_by_the_rules_of_a_run(tmp_path: Path, scripted: Site, program: str):
    declare(tmp_path, scripted, "")
    app = served(tmp_path, render_browser=program)
    shown = tried(app, scripted.url("/shell"), operator(tmp_path), source="docs")

    assert (shown["withBrowser"], shown["isIndexed"]) == (True, True)
    assert "written by a script" in shown["document"]["text"]
    assert [request.path for request in scripted.log] == ["/robots.txt", "/shell"]


@pytest.mark.long
def test_a_page_that_is_tried_in_a_browser_reaches_nothing_else(tmp_path: Path, program: str):
    """ATT-74: from where the server stands, nor does it see with what it was requested."""
    takes, auth = KINDS["cookie"]
    with recording("127.0.0.2") as ports, GuardedSite() as site:
        scripts = "".join(f"<script>(() => {{{one}}})()</script>" for one in STAYING.values())
        reading = (
            "<script>document.querySelector('h1').append(` cookie: ${document.cookie}`)</script>"
        )
        attack = f"<main><h1>Attack</h1>{'<p>words of it</p>' * 9}</main>{reading}{HINTS}{scripts}"
        vars(site).update(takes)
        site.pages |= pages(1)
        site.pages["/attack"] = attack.replace("%s", f"127.0.0.2:{ports.port}")
        declare(tmp_path, site, auth, 'render = "always"')
        allowed = (ip_network("127.0.0.1/32"),)
        app = served(tmp_path, render_browser=program, allow_networks=allowed)
        found = tried(app, site.url("/attack"), operator(tmp_path), source="docs")

        assert (found["withLogin"], found["withBrowser"]) == (True, True)
        assert "Attack cookie:" in found["document"]["text"]
        assert "in=yes" not in str(found)
        assert ports.got == []
        assert {request.method for request in site.log} == {"GET"}


@pytest.mark.long
def test_a_script_without_an_end_is_ended_and_makes_room(
    tmp_path: Path, scripted: Site, program: str, monkeypatch: pytest.MonkeyPatch
):
    """ATT-74."""
    monkeypatch.setattr(previews, "RENDER_SECONDS", 3.0)
    monkeypatch.setattr(previews, "_AT_ONCE", 1)
    scripted.pages["/endless"] = "<!doctype html><p>some words</p><script>for(;;){}</script>"
    declare(tmp_path, scripted, "", 'render = "always"')
    app, key = served(tmp_path, render_browser=program), operator(tmp_path)
    before = set(descendants_of(os.getpid()))
    for _ in range(2):
        found = tried(app, scripted.url("/endless"), key, source="docs")
        assert (found["isIndexed"], found["document"]) == (False, None)
        assert found["sentence"] == (
            "Not indexed: the page is not rendered: it was not shown within 3 s."
        )
    assert set(descendants_of(os.getpid())) <= before, "its browser has ended"


@pytest.mark.parametrize(
    ("more", "path", "sentence"),
    [
        (
            'render = "always"',
            "/shell",
            "Not indexed: the page is not rendered: render: no browser",
        ),
        ('render = "auto"', "/shell", "It is read without a browser: render: no browser"),
        ('render = "no"', "/shell", "It has no text: scripts may write it"),
        ('render = "auto"', "/plain", "It is indexed like this."),
    ],
)
def test_without_a_browser_a_sentence_says_what_a_run_does(
    tmp_path: Path, scripted: Site, more: str, path: str, sentence: str
):
    declare(tmp_path, scripted, "", more)
    app = served(tmp_path, render_browser="/no/such/browser")
    found = tried(app, scripted.url(path), operator(tmp_path), source="docs")

    assert found["sentence"].startswith(sentence)
    assert found["withBrowser"] is False
    assert found["isIndexed"] is (sentence[0] == "I")


def test_samples_of_earlier_runs_decide_without_a_browser(tmp_path: Path, scripted: Site):
    """No browser is looked for: two of its pages showed that it brings nothing."""
    declare(tmp_path, scripted, "", 'render = "auto"')
    desk = Desk(tmp_path / "registry.db")
    desk.open(now=1)
    template = f"{scripted.url('').removeprefix('http://')}/ 1"
    same = {no: StoredSample(template, Sample(9, {}, frozenset())) for no in (1, 2)}
    with transaction(desk.connection):
        store_sample_rows(desk.connection, 1, same)
    desk.close()
    app = served(tmp_path, render_browser="/no/such/browser")
    found = tried(app, scripted.url("/shell"), operator(tmp_path), source="docs")

    assert found["sentence"].startswith("It has no text")


def test_a_reader_sees_no_page_behind_a_login(tmp_path: Path):
    with GuardedSite() as site:
        site.pages |= pages(2)
        declare(tmp_path, site, FORM)
        reader = {"X-API-Key": made_key(tmp_path, Scope.READ, "docs")}
        body = {"url": site.url("/p1"), "source": "docs"}
        answer = ask(served(tmp_path), "POST", "/api/v1/previews", json=body, headers=reader)

        assert answer.status_code == 403
        assert site.log == []
