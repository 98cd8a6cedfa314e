"""Sources that log in: walls are no pages, and a lost session deletes nothing (ADR 146)."""

from itertools import pairwise
from typing import Any

import pytest

from smartcrawl.run import session
from tests.guarded_site import PASSWORD, PROOF, USER, WALLS, Guard, Wall, pages
from tests.lab.lab import Lab
from tests.lab.lab_site import LabSite
from tests.site_server import Page, html

SOURCE = "docs"


class GuardedLabSite(Guard, LabSite):
    """A site of the lab behind a login."""


@pytest.fixture
def site() -> GuardedLabSite:
    return GuardedLabSite()


@pytest.fixture
def guard(lab: Lab, site: GuardedLabSite, monkeypatch: pytest.MonkeyPatch) -> GuardedLabSite:
    """The site with 21 pages, declared as a source that logs in by its form."""
    monkeypatch.setenv("DOCS_USER", USER)
    monkeypatch.setenv("DOCS_PASSWORD", PASSWORD)
    site.pages |= pages()
    declare(lab)
    return site


def declare(lab: Lab, **auth: Any) -> None:
    """Declare the site with a login; keys are those of its table, as TOML."""
    origin = lab.site.url("").rstrip("/")
    table = {
        "kind": '"form"',
        "origins": f'["{origin}"]',
        "login": f'"{origin}/login"',
        "fields": '{ user = "DOCS_USER", pass = "DOCS_PASSWORD" }',
        "logged_in": f'"{PROOF}"',
    }
    table = {key: value for key, value in (table | auth).items() if value is not None}
    lines = [f"{key} = {value}" for key, value in table.items()]
    write(lab, "\n".join([f"[sources.{SOURCE}.auth]", *lines]))


def only(lab: Lab, kind: str, **auth: str) -> None:
    """Declare a login without a form."""
    none = dict.fromkeys(("login", "fields", "logged_in"))
    declare(lab, kind=f'"{kind}"', **(none | auth))


def write(lab: Lab, auth: str = "") -> None:
    head = f'[sources.{SOURCE}]\nseeds = ["{lab.site.url("/")}"]\n'
    lab.crawl.sources_file.write_text(f"{head}{auth}\n")
    lab.source = SOURCE


def words(lab: Lab) -> set[str]:
    found = lab.crawl.pages()
    return {found[path]["lastOutcome"] for path in found.keys() & lab.pages.keys()}


def stored(lab: Lab) -> int:
    """Pages that a search finds."""
    return len(lab.crawl.rows("SELECT 1 FROM state WHERE standing = 2"))


def aged(lab: Lab) -> int:
    counts = "SELECT coalesce(sum(lost_count + gone_count), 0) FROM state WHERE standing = 2"
    return int(lab.crawl.rows(counts)[0][0])


@pytest.mark.long(but=2)
@pytest.mark.parametrize("wall", WALLS)
def test_a_form_logs_in_once_and_all_pages_come(lab: Lab, guard: GuardedLabSite, wall: Wall):
    guard.wall = wall
    lab.run()
    assert (guard.attempts, stored(lab), words(lab)) == (1, 21, {"new"})
    lab.after(days=1)
    lab.run()
    assert (guard.attempts, words(lab), aged(lab)) == (2, {"unchanged"}, 0)
    assert lab.hits("dear") == []


@pytest.mark.long(but=1)
@pytest.mark.parametrize("wall", WALLS)
def test_a_wrong_password_indexes_nothing_and_is_tried_once(
    lab: Lab, guard: GuardedLabSite, wall: Wall
):
    guard.wall, guard.password = wall, "another"
    ran = lab.run(expect=3)
    assert (guard.attempts, stored(lab)) == (1, 0)
    assert ran.reasons[0].startswith("login: no proof on") or "refused" in ran.reasons[0]
    assert f"seed_failed: {lab.site.url('/')} (the login failed)" in ran.reasons
    assert "[sources.docs.auth]" in ran.out
    assert "check the address" not in ran.out
    for hours, attempts in ((0.5, 1), (0.6, 2), (1.5, 2), (0.6, 3)):
        lab.after(hours=hours)
        lab.run(expect=3)
        assert guard.attempts == attempts
    assert len(lab.log) <= 8
    lab.after(hours=0.1)
    guard.password = PASSWORD
    ran = lab.run(expect=3)
    assert "not tried again before" in ran.reasons[0]
    assert guard.attempts == 3


def test_a_new_password_is_tried_at_once(
    lab: Lab, guard: GuardedLabSite, monkeypatch: pytest.MonkeyPatch
):
    guard.password = "another"
    lab.run(expect=3)
    monkeypatch.setenv("DOCS_PASSWORD", "another")
    lab.after(seconds=5)
    lab.run()
    assert (guard.attempts, stored(lab)) == (2, 21)


@pytest.mark.long(but=6)
@pytest.mark.sqlite
@pytest.mark.parametrize("wall", [*WALLS, "404", "elsewhere", "plain"])
@pytest.mark.parametrize("lasts", [2, 8, 22])
def test_a_session_that_ends_deletes_and_changes_nothing(
    lab: Lab, guard: GuardedLabSite, wall: Wall, lasts: int
):
    lab.run()
    guard.wall, guard.lasts = wall, lasts
    guard.sessions.clear()
    lab.after(days=1)
    ran = lab.run(expect=None)
    found = words(lab)
    assert (stored(lab), aged(lab), ran.removed) == (21, 0, 0)
    assert found <= {"unchanged", "skipped", "orphaned"}, "no page was changed, lost or gone"
    if ran.status == 3:
        assert ran.reasons[0].startswith("login: ")
    else:
        assert found == {"unchanged"}
    assert guard.attempts <= 3
    guard.lasts = 10**9
    lab.after(days=1)
    lab.run()
    assert (words(lab), guard.logins) == ({"unchanged"}, guard.attempts)


@pytest.mark.long(but=8)
@pytest.mark.sqlite
@pytest.mark.parametrize("lasts", range(1, 26))
@pytest.mark.parametrize("wall", WALLS)
def test_a_session_that_ends_in_the_first_run_indexes_no_wall(
    lab: Lab, guard: GuardedLabSite, wall: Wall, lasts: int
):
    guard.wall, guard.lasts = wall, lasts
    ran = lab.run(expect=None)
    titles = {title.partition(" ")[0] for (title,) in lab.rows("SELECT title FROM content")}
    assert titles <= {"Home", "Page"}
    assert words(lab) <= {"new", "skipped"}
    assert ran.status == 3 or (ran.status, stored(lab)) == (0, 21)


@pytest.mark.long(but=3)
@pytest.mark.sqlite
@pytest.mark.parametrize("wall", WALLS)
def test_each_wall_over_four_runs(lab: Lab, guard: GuardedLabSite, wall: Wall):
    """A first crawl, a refresh, a session that ends in the middle, a login that is refused."""
    guard.wall = wall
    lab.run()
    assert (words(lab), stored(lab)) == ({"new"}, 21)
    lab.after(days=1)
    ran = lab.run()
    assert (words(lab), ran.not_modified) == ({"unchanged"}, 21)
    lab.after(days=1)
    guard.lasts = 9
    ran = lab.run(expect=3)
    assert ran.reasons[0] == "login: ended twice"
    assert words(lab) <= {"unchanged", "skipped"}
    lab.after(days=1)
    guard.lasts, guard.password = 10**9, "another"
    ran = lab.run(expect=3)
    assert ran.reasons[0].startswith("login: ")
    assert (stored(lab), aged(lab), lab.hits("dear")) == (21, 0, [])
    assert len(lab.hits("treasure")) == 20


@pytest.mark.sqlite
@pytest.mark.parametrize("lands", ["http://site.example/", "https://elsewhere.example/"])
def test_a_login_that_leads_elsewhere_or_to_http_ends_there(
    lab: Lab, guard: GuardedLabSite, lands: str
):
    guard._scheme, guard.lands = "https", lands
    declare(lab)
    ran = lab.run(expect=3)
    place = lands.rstrip("/")
    login = "https://site.example/login"
    assert ran.reasons[0] == f"login: {login} redirects to {place}, none of its origins"
    assert [(r.method, r.path) for r in lab.log] == [
        ("GET", "/robots.txt"), ("GET", "/login"), ("POST", "/login"),
    ]  # fmt: skip


def test_a_session_that_ended_twice_ends_the_run(lab: Lab, guard: GuardedLabSite):
    guard.wall, guard.lasts = "302", 5
    ran = lab.run(expect=3)
    assert ran.reasons[0] == "login: ended twice"
    assert (guard.attempts, guard.logins) == (2, 2)
    assert stored(lab) < 21
    guard.lasts = 10**9
    lab.after(seconds=5)
    lab.run()
    assert stored(lab) == 21


def test_a_page_without_proof_fails_alone(lab: Lab, guard: GuardedLabSite):
    guard.without_proof = frozenset({"/p3"})
    lab.run()
    assert (lab["/p3"]["httpStatusCode"], lab["/p3"]["lastOutcome"]) == (1115, "failed")
    assert (stored(lab), guard.attempts) == (20, 1)


def test_files_wait_for_the_proof_and_are_stored(lab: Lab, guard: GuardedLabSite):
    guard.pages["/notes.txt"] = Page("treasure in a file\n", content_type="text/plain")
    guard.pages["/"] = html("Home", "/notes.txt", text="All about lamps.")
    lab.run()
    assert lab.hits("file") == ["/notes.txt"]


def test_a_page_that_is_gone_is_gone(lab: Lab, guard: GuardedLabSite):
    lab.run()
    del guard.pages["/p3"]
    lab.after(days=1)
    lab.run()
    assert (lab["/p3"]["lastOutcome"], aged(lab)) == ("lost", 2)
    for _ in range(2):
        lab.after(days=1)
        ran = lab.run()
    assert ran.removed == 1


def test_a_sitemap_behind_the_login_is_read_with_it(lab: Lab, guard: GuardedLabSite):
    """And its lines stay known when a session ended and brings a form in its place."""
    entries = f"<url><loc>{lab.site.url('/only')}</loc></url>"
    text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
    guard.pages |= {
        "/robots.txt": Page(
            f"User-agent: *\nSitemap: {lab.site.url('/map.xml')}\n", content_type="text/plain"
        ),
        "/map.xml": Page(text, content_type="application/xml"),
        "/only": html("Only", text="treasure that a sitemap alone names"),
    }
    lab.run()
    assert lab["/only"]["lastOutcome"] == "new"
    cookies = {r.path: "session=" in r.headers.get("cookie", "") for r in lab.log}
    assert (cookies["/robots.txt"], cookies["/map.xml"], cookies["/only"]) == (False, True, True)
    for lasts in (1, 2, 3, 4):
        lab.after(days=1)
        guard.lasts = lasts
        guard.sessions.clear()
        ran = lab.run(expect=3)
        assert ran.reasons[0] == "login: ended twice"
        assert (stored(lab), aged(lab), ran.removed) == (22, 0, 0), lasts
    guard.lasts = 10**9
    lab.after(days=1)
    lab.run()
    assert lab["/only"]["lastOutcome"] == "unchanged"
    assert lab.hits("sitemap") == ["/only"]


def test_due_logs_in_and_a_login_that_is_refused_ages_nothing(lab: Lab, guard: GuardedLabSite):
    lab.run()
    lab.after(days=60)
    lab.crawl.run("due")
    assert (words(lab), guard.logins) == ({"unchanged"}, 2)
    lab.after(days=60)
    lab.crawl.run("due")
    assert (words(lab), guard.logins) == ({"unchanged"}, 3)
    lab.after(days=60)
    guard.password = "another"
    before = guard.attempts
    told = lab.crawl.run("due", expect=3)
    assert "login: " in told.out
    assert (stored(lab), aged(lab), guard.attempts) == (21, 0, before + 1)
    lab.crawl.run("due", expect=3)
    assert guard.attempts == before + 1, "it is not tried again within the hour"


def test_no_page_is_asked_while_too_many_answers_wait(
    lab: Lab, guard: GuardedLabSite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(session, "MOST_WAITING", 3)
    monkeypatch.setattr(session, "_FULL", 3)
    lab.run()
    lab.after(days=1)
    lab.log.clear()
    lab.run()
    assert words(lab) == {"unchanged"}
    asked = [r.path for r in lab.log if r.path in guard.pages]
    proofs = [place for place, path in enumerate(asked) if path == "/"]
    between = [after - before - 1 for before, after in pairwise([*proofs, len(asked)])]
    assert max(between) <= 3, asked
    assert len(asked) >= 21 + 21 // 3


def test_a_server_that_fails_is_no_end_of_a_session(lab: Lab, guard: GuardedLabSite):
    lab.run()
    lab.after(days=1)
    for path in list(guard.pages):
        guard.pages[path] = Page("busy", status=503)
    ran = lab.run(expect=3)
    assert ran.reasons[0].startswith("login: ")
    assert (stored(lab), aged(lab)) == (21, 0)
    guard.pages |= pages()
    lab.after(seconds=5)
    lab.run()
    assert words(lab) == {"unchanged"}, "it was no refusal, so nothing waits"


def test_a_link_that_logs_out_is_not_followed(lab: Lab, guard: GuardedLabSite):
    out = '<a href="/out">Log out</a><a href="/logout">x</a><a href="/x?do=logout">y</a></main>'
    for path in ("/", "/p1"):
        guard.pages[path] = str(guard.pages[path]).replace("</main>", out)
    lab.run()
    assert lab.asked("/out", "/logout", "/x?do=logout") == [0, 0, 0]
    assert (stored(lab), guard.attempts) == (21, 1)


def test_links_that_log_out_and_were_stored_before_are_not_followed(
    lab: Lab, guard: GuardedLabSite
):
    guard.public = frozenset({"/robots.txt", "/out", *guard.pages})
    home = str(guard.pages["/"])
    guard.pages["/"] = home.replace("</main>", '<a href="/out">Log out</a></main>')
    guard.pages["/out"] = html("Out", text="You are out.")
    write(lab)
    lab.run()
    guard.public = frozenset({"/robots.txt"})
    declare(lab)
    lab.after(days=1)
    lab.run()
    assert lab.asked("/out") == [0]
    assert guard.attempts == 1


def test_own_patterns_log_out_too(lab: Lab, guard: GuardedLabSite):
    declare(lab, logout_patterns="['/bye$']")
    guard.pages["/"] = html("Home", "/bye", "/p1", text="All about lamps.")
    lab.run()
    assert lab.asked("/bye", "/p1") == [0, 1]


def test_validators_of_others_are_not_sent(lab: Lab, guard: GuardedLabSite):
    """A server whose ETag ignores who asks would keep the teasers for ever."""
    guard.wall, guard.same_etag = "teaser", True
    write(lab)
    lab.run()
    assert len(lab.hits("dear")) > 0
    declare(lab)
    lab.after(days=1)
    lab.run()
    assert (len(lab.hits("treasure")), lab.hits("dear")) == (20, [])
    lab.after(days=1)
    lab.run()
    assert (words(lab), lab.conditional("/p1")) == ({"unchanged"}, [True])


def test_another_user_gets_whole_pages(
    lab: Lab, guard: GuardedLabSite, monkeypatch: pytest.MonkeyPatch
):
    lab.settings["LOG_LEVEL"] = "INFO"
    assert "another reader" not in lab.run().err, "there was none before"
    lab.after(days=1)
    monkeypatch.setenv("DOCS_PASSWORD", "new")
    guard.password = "new"
    lab.run()
    assert lab.conditional("/p1") == [True], "a new password is no other user"
    declare(
        lab, kind='"basic"', login=None, fields=None, user='"DOCS_USER"', password='"DOCS_PASSWORD"'
    )
    guard.basic = True
    lab.after(days=1)
    assert "docs: another reader asks now" in lab.run().err
    assert lab.conditional("/p1") == [False]


@pytest.mark.long(but=4)
@pytest.mark.parametrize("wall", ["form", "302", "401", "teaser"])
@pytest.mark.parametrize("kind", ["basic", "bearer", "header", "cookie"])
def test_each_kind_logs_in(
    lab: Lab, guard: GuardedLabSite, monkeypatch: pytest.MonkeyPatch, kind: str, wall: Wall
):
    guard.wall = wall
    monkeypatch.setenv("DOCS_TOKEN", "tok-77aa")
    monkeypatch.setenv("DOCS_COOKIE", "a=b; key=77aa")
    if kind == "basic":
        guard.basic = True
        only(lab, kind, user='"DOCS_USER"', password='"DOCS_PASSWORD"')
    elif kind == "cookie":
        guard.cookie = "key=77aa"
        only(lab, kind, cookie='"DOCS_COOKIE"', logged_in=f'"{PROOF}"')
    else:
        guard.token = "tok-77aa"
        given = '{ X-Api-Key = "DOCS_TOKEN" }' if kind == "header" else None
        token = '"DOCS_TOKEN"' if kind == "bearer" else None
        only(lab, kind, **{k: v for k, v in {"headers": given, "token": token}.items() if v})
    lab.run()
    assert (stored(lab), words(lab)) == (21, {"new"})
    lab.after(days=1)
    lab.run()
    assert words(lab) == {"unchanged"}
    assert lab.conditional("/p1") == [True]


@pytest.mark.long(but=2)
@pytest.mark.parametrize("lasts", [10**9, 4, 9, 30])
def test_a_digest_outlives_its_nonce(lab: Lab, guard: GuardedLabSite, lasts: int):
    guard.digest, guard.wall, guard.lasts = True, "401", lasts
    only(lab, "digest", user='"DOCS_USER"', password='"DOCS_PASSWORD"')
    for found in ({"new"}, {"unchanged"}):
        lab.run()
        assert (stored(lab), words(lab), aged(lab)) == (21, found, 0)
        lab.after(days=1)
    guard.password = "another"
    guard.attempts = 0
    ran = lab.run(expect=3)
    assert ran.reasons[0] == "login: refused (HTTP 401)"
    assert (stored(lab), aged(lab)) == (21, 0)
    assert guard.attempts == 2, "one that has no digest yet, and one with a wrong one"


def test_digests_that_last_for_one_request_end_the_run(lab: Lab, guard: GuardedLabSite):
    """The proof page and a page need two: else the run would ask both without end."""
    guard.digest, guard.wall, guard.lasts = True, "401", 1
    only(lab, "digest", user='"DOCS_USER"', password='"DOCS_PASSWORD"')
    ran = lab.run(expect=3)
    assert ran.reasons[0] == "login: its Digest challenges do not last for two requests"
    assert stored(lab) == 0


def test_a_token_that_is_revoked_ages_nothing(
    lab: Lab, guard: GuardedLabSite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCS_TOKEN", "tok-77aa")
    guard.token, guard.wall, guard.lasts = "tok-77aa", "404", 10**9
    only(lab, "bearer", token='"DOCS_TOKEN"')
    lab.run()
    guard.sessions["token"] = 9
    lab.after(days=1)
    ran = lab.run(expect=3)
    assert ran.reasons[0] == "login: refused (HTTP 404)"
    assert (stored(lab), aged(lab)) == (21, 0)


def test_credentials_go_to_no_other_origin(lab: Lab, guard: GuardedLabSite, other: LabSite):
    other.pages["/x"] = html("Elsewhere", text="Public words")
    guard.pages["/p1"] = Page(redirect=other.url("/x"), status=302)
    hosts = f'allowed_domains = ["{lab.site.host}", "{other.host}"]'
    declare(lab)
    head, auth = lab.crawl.sources_file.read_text().split("\n[sources.docs.auth]")
    lab.crawl.sources_file.write_text(f"{head}\n{hosts}\n[sources.docs.auth]{auth}")
    lab.run()
    assert [r for r in other.log if {"cookie", "authorization"} & r.headers.keys()] == []
    assert lab.crawl.hits("public") != []


def test_two_identities_of_one_host_share_nothing(
    lab: Lab, guard: GuardedLabSite, monkeypatch: pytest.MonkeyPatch
):
    guard.wall, guard.same_etag = "teaser", True
    declare(lab)
    text = lab.crawl.sources_file.read_text()
    lab.crawl.sources_file.write_text(f'{text}\n[sources.open]\nseeds = ["{lab.site.url("/")}"]\n')
    for _ in range(2):
        lab.run()
        lab.run(source="open")
        lab.after(days=1)
    rows = lab.rows(
        "SELECT o.name, count(*) FROM content c JOIN source o ON o.no = c.source"
        " WHERE c.title LIKE 'Page%' GROUP BY 1"
    )
    assert rows == [("docs", 20)]


@pytest.mark.sqlite
def test_a_secret_that_is_missing_or_empty_is_an_error_before_any_request(
    lab: Lab, guard: GuardedLabSite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("DOCS_PASSWORD")
    ran = lab.run(expect=1)
    assert "DOCS_PASSWORD is not set" in ran.err
    monkeypatch.setenv("DOCS_PASSWORD", "")
    ran = lab.run(expect=1)
    assert "DOCS_PASSWORD is empty" in ran.err
    assert guard.log == []
    assert lab.crawl.rows("SELECT * FROM run") == []


@pytest.mark.sqlite
def test_files_have_secrets_that_only_the_owner_reads(lab: Lab, guard: GuardedLabSite):
    file = lab.crawl.folder / "password"
    file.write_text(f"{PASSWORD}\n")
    file.chmod(0o644)
    declare(lab, fields='{ user = "DOCS_USER", pass = "file:password" }')
    assert f"chmod 600 {file}" in lab.run(expect=1).err
    file.chmod(0o600)
    lab.run()
    assert stored(lab) == 21


@pytest.mark.sqlite
def test_a_source_that_had_a_login_stays_private_until_it_says_otherwise(
    lab: Lab, guard: GuardedLabSite
):
    def visibility(head: str = "") -> str:
        write(lab, head)
        lab.run(expect=None)
        return str(lab.crawl.rows("SELECT visibility FROM source")[0][0])

    lab.run()
    assert lab.crawl.rows("SELECT visibility FROM source") == [("private",)]
    assert visibility() == "private", "its login is lost"
    assert visibility('visibility = "public"') == "public"
    assert visibility() == "public"
