"""What every page has: its frame and headers, sessions, tokens of forms, and errors in words."""

import re
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.types import ASGIApp

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.reports.page_chart import line_chart
from smartcrawl.server.keys import Scope, make_api_key, revoke_api_key
from smartcrawl.server.pages import markup, pages
from tests.registry.build import begin_registry
from tests.registry.spare import Spare
from tests.server.api_client import application, ask, error_of
from tests.server.pages.browsing import HOST, Visitor, form_of, made_key, parsed, words

FOLDER = Path(pages.__file__).parent
CHECK = re.compile(r"Secure|HttpOnly|SameSite=\w+")
#: What a template must not have: text that is not escaped, and styles and scripts within it.
FORBIDDEN = re.compile(r"\|\s*safe|autoescape|style=|<[a-z][^>]*\son\w+=|<script(?! src)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    begin_registry(made / "registry.db")
    return made


@pytest.fixture(scope="module")
def app(folder: Path) -> ASGIApp:
    """A server at loopback, where no key is needed."""
    return application(folder, run={"registry": folder / "registry.db"})


class Clock:
    now = 1_750_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="module")
def keyed(folder: Path, clock: Clock) -> ASGIApp:
    """A server that needs keys."""
    place = {"registry": folder / "registry.db"}
    return application(folder, run=place, host="0.0.0.0", clock=clock)


@pytest.fixture
def visitor(keyed: ASGIApp) -> Visitor:
    return Visitor(keyed)


def test_templates_escape_all_that_they_are_given():
    for file in (FOLDER / "templates").iterdir():
        text = file.read_text("utf-8")
        assert not FORBIDDEN.search(text), file
    for file in FOLDER.glob("*.py"):
        if file.name != "markup.py":
            assert "Markup(" not in file.read_text("utf-8"), file


def test_markup_is_made_with_arguments_that_it_escapes():
    text = (FOLDER / "markup.py").read_text("utf-8")
    code = re.sub(r'"""[\s\S]*?"""', "", text)

    assert not re.search(r"Markup\(f|Markup\([a-z]", code)


def test_htmx_is_the_file_of_its_release():
    file = FOLDER / "static" / "htmx-2.0.11.min.js"
    notice = (FOLDER.parents[2] / "NOTICE").read_text("utf-8")

    found = sha256(file.read_bytes()).hexdigest()
    assert found == "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"
    assert found in notice.replace("\n", "").replace(" ", "")


def test_a_page_has_its_frame_and_loads_nothing_from_elsewhere(app: ASGIApp):
    page = Visitor(app).page("/docs")

    assert page.findtext(".//title") == "API – smartcrawl"
    assert [words(h1) for h1 in page.iter("h1")] == ["API"]
    assert [page.xpath(f"count(//{name})") for name in ("main", "footer", "body/header")] == [1] * 3
    loaded = page.xpath("//link/@href | //script/@src | //img/@src")
    assert loaded
    assert all(path.startswith("/") and not path.startswith("//") for path in loaded)
    assert page.xpath("//script[not(@src)] | //style | //*[@style]") == []
    current = page.xpath("//nav//a[@aria-current]")
    assert [link.get("href") for link in current] == ["/docs"]


def test_the_navigation_has_each_page_once_in_named_groups(app: ASGIApp):
    (nav,) = Visitor(app).page("/docs").xpath("//nav[@aria-label='Pages']")

    groups = {
        words(nav.get_element_by_id(pages.get("aria-labelledby"))): pages.xpath("li/a/text()")
        for pages in nav.xpath("ul/li/ul")
    }
    assert groups == {
        "Find": ["Search", "Look up", "Changes"],
        "Set up": ["Crawl", "Sources", "Libraries", "Try it"],
        "Watch": ["Runs", "Status", "Hosts", "Frontier", "Removals"],
        "Server": ["API"],  # and Keys for administrators
    }
    assert len(nav.xpath(".//a")) == sum(map(len, groups.values()))


def test_on_a_phone_a_button_opens_the_navigation_without_a_script(app: ASGIApp):
    page = Visitor(app).page("/docs")

    (nav,) = page.xpath("//nav[@aria-label='Pages']")
    (button,) = page.xpath("//header/button")
    assert words(button) == "Menu"
    assert button.get("popovertarget") == nav.get("id")
    assert nav.get("popover") == ""


@pytest.mark.parametrize("width", [328, 399, 400, 559, 560, 720])
def test_letters_of_pictures_are_shown_with_twelve_pixels_at_least(width: int):
    style = (FOLDER / "static" / "pages.css").read_text()
    usual, *narrow = re.findall(r"svg\.chart text \{[^}]*?(\d+)px", style)
    widths = re.findall(r"@container \(max-width: (\d+)px\)", style)
    size = int(usual)
    for most, letters in zip(widths, narrow, strict=True):
        size = int(letters) if width <= int(most) else size

    box = line_chart([0, 1], [], name="n", title="", description="", ticks=(), x_axis="", y_axis="")
    across = float(re.findall(r'viewBox="0 0 (\d+) ', box)[0])
    assert size * width / across >= 12


def test_each_answer_of_a_page_has_its_headers(app: ASGIApp):
    """ATT-57."""
    for path, status in (("/docs", 200), ("/none", 404), ("/login", 200)):
        answer = Visitor(app).get(path)
        assert answer.status_code == status
        assert answer.headers["Content-Security-Policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
            "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
        )
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Request-Id"].startswith("req_")
        assert answer.headers["X-RateLimit-Limit"] == "600"


def test_files_have_their_hash_in_the_name_and_are_kept(app: ASGIApp):
    visitor = Visitor(app)
    page = visitor.page("/docs")

    for path in page.xpath("//link[@rel='stylesheet' or @rel='icon']/@href | //script/@src"):
        answer = visitor.get(path)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert answer.headers["Content-Encoding"] == "gzip"
        assert sha256(answer.content).hexdigest()[:12] in path
    plain = visitor.get(path, headers={"Accept-Encoding": "identity"})
    assert plain.content == answer.content
    assert visitor.get("/static/pages.css").status_code == 404
    assert visitor.get("/static/../app.py").status_code == 404


def test_the_first_page_is_small(app: ASGIApp):
    visitor = Visitor(app)
    page = visitor.get("/docs")
    loaded = parsed(page).xpath("//link[@rel='stylesheet' or @rel='icon']/@href | //script/@src")

    sent = [int(visitor.get(path).headers["Content-Length"]) for path in loaded]
    assert sum(sent) < 40_000


def test_unknown_paths_answer_in_words_to_a_browser_and_in_the_envelope_to_programs(app: ASGIApp):
    page = Visitor(app).page("/none?a=b", status=404)
    assert [words(h1) for h1 in page.iter("h1")] == ["There is no such page"]

    for path in ("/none", "/api/none", "/api/v1/none", "/v2/none", "/metrics/none"):
        headers = {"Accept": "text/html" if path != "/none" else "*/*"}
        assert error_of(ask(app, "GET", path, headers=headers))["code"] == "NOT_FOUND"


def test_a_wrong_method_or_a_null_is_refused_in_words(app: ASGIApp):
    visitor = Visitor(app)

    answer = visitor.post("/docs", {"a": "b"})
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert "does not take" in words(parsed(answer))
    assert "%00" in words(visitor.page("/docs?q=%00", status=400))


def test_what_nothing_expected_is_shown_without_its_text(
    app: ASGIApp, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(pages.Pages, "show", lambda *_, **__: 1 / 0)

    page = Visitor(app).page("/docs", status=500)
    assert "division" not in words(page)
    assert "req_" in words(page)
    assert "division by zero" in caplog.text


def test_the_theme_stays(app: ASGIApp):
    visitor = Visitor(app)
    assert visitor.page("/docs").getroottree().getroot().get("data-theme") is None

    answer = visitor.submit("/docs", "/theme", theme="dark")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/docs")
    assert visitor.page("/docs").getroottree().getroot().get("data-theme") == "dark"
    visitor.submit("/docs", "/theme", theme="<b>")
    assert visitor.page("/docs").getroottree().getroot().get("data-theme") is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Sec-Fetch-Mode": "navigate"}, 403),
        ({"Origin": "http://evil.example", "Sec-Fetch-Mode": "navigate"}, 403),
    ],
)
def test_without_sessions_pages_of_other_sites_send_nothing(
    app: ASGIApp, headers: dict[str, str], status: int
):
    assert Visitor(app).get("/docs", headers=headers).status_code == status


def test_without_sessions_a_form_of_another_site_is_refused(app: ASGIApp):
    visitor = Visitor(app)

    for headers in (
        {"Origin": "http://evil.example"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "evil.example"},
    ):
        assert visitor.post("/theme", {"theme": "dark"}, headers=headers).status_code == 403
    assert visitor.post("/theme", {"theme": "dark"}, headers={"Origin": HOST}).status_code == 303


def test_where_no_key_is_needed_the_login_is_offered_once_a_key_can_open_a_session(
    tmp_path: Path,
):
    begin_registry(tmp_path / "registry.db")
    clock = Clock()
    app = application(tmp_path, run={"registry": tmp_path / "registry.db"}, clock=clock)

    def offered(path: str = "/docs", status: int = 200) -> list[str]:
        return Visitor(app).page(path, status).xpath("//header//a[@href='/login']/text()")

    assert offered() == offered("/none", 404) == []
    made_key(tmp_path, Scope.SEARCH, "docs")
    assert offered() == []

    made_key(tmp_path, expires=int(clock.now) + 60)

    assert offered() == offered("/none", 404) == ["Log in"]
    clock.now += 60
    assert offered() == []


def test_pages_that_need_no_registry_are_shown_while_it_is_away(tmp_path: Path):
    broken = tmp_path / "registry.db"
    broken.write_bytes(b"no database" * 100)
    app = application(tmp_path, run={"registry": broken})

    assert words(Visitor(app).page("/docs").find(".//h1")) == "API"


def test_a_proxy_in_front_makes_the_login_needed(app: ASGIApp):
    answer = Visitor(app).get("/docs", headers={"X-Forwarded-For": "10.0.0.1"})

    assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=%2Fdocs")


def test_a_login_opens_a_session_of_twelve_hours(folder: Path, visitor: Visitor, clock: Clock):
    key = made_key(folder)
    sent = visitor.get("/docs?a=b")
    assert (sent.status_code, sent.headers["Location"]) == (303, "/login?next=%2Fdocs%3Fa%3Db")

    answer = visitor.submit("/login?next=%2Fdocs%3Fa%3Db", "/login", key=f" {key} ")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/docs?a=b")
    cookie = answer.headers["Set-Cookie"]
    assert set(CHECK.findall(cookie)) == {"HttpOnly", "SameSite=lax"}
    assert "Max-Age=43200" in cookie
    page = visitor.page("/docs")
    assert "of a test (read)" in words(page.find(".//header"))
    clock.now += 43_199
    assert visitor.get("/docs").status_code == 200
    clock.now += 1
    assert visitor.get("/docs").status_code == 303


def test_over_tls_the_cookie_is_for_this_host_and_for_tls_only(folder: Path, keyed: ASGIApp):
    key = made_key(folder)
    visitor = Visitor(keyed, host="https://localhost:8443")
    answer = visitor.submit("/login", "/login", key=key)
    assert answer.headers["Set-Cookie"].startswith("__Host-smartcrawl_session=")
    assert set(CHECK.findall(answer.headers["Set-Cookie"])) == {
        "HttpOnly", "SameSite=lax", "Secure",
    }  # fmt: skip


def test_a_session_ends_with_its_key(folder: Path, visitor: Visitor, clock: Clock):
    key = made_key(folder)
    visitor.submit("/login", "/login", key=key)
    assert visitor.get("/docs").status_code == 200

    connection = registry_database(folder / "registry.db").open()
    with transaction(connection):
        revoke_api_key(connection, key[3:15], int(clock.now))
    connection.close()
    assert visitor.get("/docs").status_code == 303


def test_a_session_ends_with_the_logout_and_survives_a_restart(
    folder: Path, visitor: Visitor, clock: Clock
):
    visitor.submit("/login", "/login", key=made_key(folder))
    place = {"registry": folder / "registry.db"}
    again = Visitor(application(folder, run=place, host="0.0.0.0", clock=clock))
    again.cookies = visitor.cookies
    assert again.get("/docs").status_code == 200

    answer = visitor.submit("/docs", "/logout")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    assert again.get("/docs").status_code == 303


@pytest.mark.parametrize("key", ["", "sc_x", "sc_000000000000_" + "a" * 43, "<script>"])
def test_a_wrong_key_is_named_at_its_field(visitor: Visitor, key: str):
    answer = visitor.submit("/login", "/login", key=key)

    assert answer.status_code == 403
    page = parsed(answer)
    field = page.get_element_by_id("key")
    assert field.get("aria-invalid") == "true"
    said = page.get_element_by_id(field.get("aria-describedby"))
    assert words(said) == "This key is unknown, expired or revoked."
    assert field.get("value") is None


def test_forms_need_their_token(folder: Path, visitor: Visitor):
    key = made_key(folder)
    assert visitor.post("/login", {"key": key}).status_code == 403  # no cookie of forms
    visitor.get("/login")
    assert visitor.post("/login", {"key": key, "token": "0" * 64}).status_code == 403
    assert visitor.post("/login", {"key": key, "token": "é"}).status_code == 403
    visitor.submit("/login", "/login", key=key)

    for token in ("", "0" * 64):
        answer = visitor.post("/logout", {"token": token})
        assert answer.status_code == 403
        assert "reload its page" in words(parsed(answer))
    other = Visitor(visitor.app)
    other.submit("/login", "/login", key=key)
    stolen = form_of(other.page("/docs"), "/logout").fields["token"]
    assert visitor.post("/logout", {"token": stolen}).status_code == 403


def test_only_forms_are_taken(folder: Path, visitor: Visitor):
    visitor.submit("/login", "/login", key=made_key(folder))

    assert visitor.send("POST", "/logout", json={"token": "x"}).status_code == 400
    assert visitor.send("POST", "/logout", content=b"token=%ff%fe").status_code == 400
    assert visitor.post("/logout", {"a": "x" * 1_100_000}).status_code == 413


@pytest.mark.parametrize(
    "then",
    ["//evil.example/", "https://evil.example/", "/\\evil.example", "\\\\evil.example", "/\t/evil",
     "javascript:alert(1)", "evil.example", "http:evil.example"],
)  # fmt: skip
def test_no_login_leads_elsewhere(folder: Path, visitor: Visitor, then: str):
    answer = visitor.submit("/login", "/login", key=made_key(folder), next=then)

    assert (answer.status_code, answer.headers["Location"]) == (303, "/")


def test_what_was_typed_comes_back_after_the_login(folder: Path, visitor: Visitor):
    key = made_key(folder)
    typed = {"token": "of the ended session", "url": "https://a.example/?a=b&c", "note": "ü"}
    answer = visitor.post("/docs", typed, headers={"Referer": f"{HOST}/docs?x=1"})

    assert answer.status_code == 403
    page = parsed(answer)
    assert "Your session has ended" in words(page)
    fields = dict(form_of(page, "/login").fields) | {"key": key}
    after = visitor.post("/login", fields)
    assert after.headers["Location"] == (
        "/docs?x=1&url=https%3A%2F%2Fa.example%2F%3Fa%3Db%26c&note=%C3%BC"
    )


def test_a_part_of_a_page_without_a_session_leads_to_the_login(visitor: Visitor):
    headers = {"HX-Request": "true", "HX-Current-URL": f"{HOST}/docs?q=1"}

    answer = visitor.get("/docs", headers=headers)
    assert answer.headers["HX-Redirect"] == "/login?next=%2Fdocs%3Fq%3D1"
    elsewhere = {"HX-Request": "true", "HX-Current-URL": "https://evil.example/"}
    assert visitor.get("/docs", headers=elsewhere).headers["HX-Redirect"] == "/login?next=%2F"


def test_cookie_and_forms_count_at_pages_only(folder: Path, visitor: Visitor):
    visitor.submit("/login", "/login", key=made_key(folder, Scope.ADMIN))
    assert visitor.get("/docs").status_code == 200

    for path in ("/api/v1/jobs", "/metrics", "/v2/crawler/crawl", "/mcp", "/openapi.json"):
        assert visitor.get(path).status_code == 401, path
        assert visitor.post(path, {"token": "x"}).status_code in (401, 405), path


def test_forms_are_no_bodies_of_the_api_at_loopback(app: ASGIApp):
    answer = Visitor(app).post("/api/v1/jobs", {"name": "a"})

    assert error_of(answer)["details"]["field"] == "Content-Type"


def test_sessions_have_a_limit_of_their_own(folder: Path, clock: Clock):
    place = {"registry": folder / "registry.db"}
    app = application(folder, run=place, host="0.0.0.0", clock=clock, pages_limit=4)
    key = made_key(folder)
    visitors = [Visitor(app, client=f"10.0.0.{number}") for number in (1, 2)]
    for visitor in visitors:
        visitor.submit("/login", "/login", key=key)  # two requests of the address

    for visitor in visitors:
        assert [visitor.get("/docs").status_code for _ in range(5)] == [200] * 4 + [429]
    refused = visitor.get("/docs")
    assert int(refused.headers["Retry-After"]) <= 60
    assert "Too many requests" in words(parsed(refused))
    headers = {"Authorization": f"Bearer {key}"}
    assert ask(app, "GET", "/api/SearchStatus", headers=headers).status_code == 200


def test_a_registry_that_is_away_is_said_in_words(tmp_path: Path):
    broken = tmp_path / "registry.db"
    broken.write_bytes(b"no database" * 100)
    app = application(tmp_path, run={"registry": broken}, host="0.0.0.0")
    visitor = Visitor(app)
    visitor.cookies.set("smartcrawl_session", "a" * 43, domain="localhost.local")

    page = visitor.page("/docs", status=503)
    assert "the registry is not available" in words(page)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x02a\x03 < b", '<bdi dir="auto" hx-disable><mark>a</mark> &lt; b</bdi>'),
        ("a \x02<script>\x03", '<bdi dir="auto" hx-disable>a <mark>&lt;script&gt;</mark></bdi>'),
        ("\x03a\x02", '<bdi dir="auto" hx-disable>\\x03a\\x02</bdi>'),
        ("a\u202eb\n c", '<bdi dir="auto" hx-disable>a\\u202eb c</bdi>'),
    ],
)
def test_highlights_are_built_over_escaped_parts(text: str, shown: str):
    assert str(markup.highlighted_text(text)) == shown


@pytest.mark.parametrize(
    "url",
    ["javascript:alert(1)", "JavaScript://a.example/", "data:text/html,x", "//a.example/",
     "file:///etc/passwd", "http:", "http://[", " javascript:alert(1)", "ftp://a.example/"],
)  # fmt: skip
def test_only_addresses_of_the_web_are_linked(url: str):
    assert "<a" not in markup.outside_link(url)


def test_quotes_in_an_address_stay_in_it():
    assert markup.outside_link('https://a.example/"onclick=x', "<b>") == (
        '<a href="https://a.example/&#34;onclick=x" rel="noreferrer noopener nofollow">'
        '<bdi dir="auto" hx-disable>&lt;b&gt;</bdi></a>'
    )


def test_the_reference_shows_every_operation(app: ASGIApp):
    page = Visitor(app).page("/docs")
    described = ask(app, "GET", "/openapi.json").json()

    operations = {
        (method.upper(), path) for path, found in described["paths"].items() for method in found
    }
    shown = {
        (words(found.find_class("method")[0]), words(found.find("code")))
        for found in page.iter("summary")
    }
    assert shown == operations
    fields = words(page.get_element_by_id("create_job"))
    assert "config.max_depth" in fields
    assert "seed_urls required" in fields


def test_sessions_in_postgresql_count_and_end(spare_registries: Spare, tmp_path: Path):
    place = spare_registries.take()
    connection = registry_database(place).open()
    with transaction(connection):
        key, made = make_api_key(connection, "of a test", Scope.READ, 0)
    visitor = Visitor(application(tmp_path, run={"registry": place}, host="0.0.0.0"))

    visitor.submit("/login", "/login", key=key)
    assert visitor.get("/docs").status_code == 200
    visitor.submit("/docs", "/logout")
    assert visitor.get("/docs").status_code == 303
    visitor.submit("/login", "/login", key=key)
    with transaction(connection):
        revoke_api_key(connection, made.id, 1)
    assert visitor.get("/docs").status_code == 303
    connection.close()
    spare_registries.put_back(place)
