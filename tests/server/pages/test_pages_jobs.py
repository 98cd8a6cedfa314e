"""Jobs on pages, without a browser: made, changed, ordered and deleted by forms."""

from pathlib import Path
from typing import Any

import pytest

from smartcrawl.server.keys import Scope
from smartcrawl.server.pages.job_form import JOB_FIELDS, job_of_form, typed_job, usual_job
from smartcrawl.sources.jobs import EXAMPLE, JobDefinition
from tests.registry.build import Desk
from tests.server.api_client import application, ask
from tests.server.pages.browsing import (
    HOST,
    Visitor,
    form_of,
    logged_in_visitor,
    made_key,
    parsed,
    words,
)

NOW = 1_750_000_000  # 2025-06-15T15:06:40Z
DOCS = "job_0f985b3eccd29128"  # of the declared source docs


@pytest.fixture
def visitor(tmp_path: Path) -> Visitor:
    (tmp_path / "sources.toml").write_text('[sources.docs]\nseeds = ["https://docs.example/"]\n')
    return Visitor(application(tmp_path, clock=lambda: float(NOW), pages_limit=10**9))


def created(visitor: Visitor, **typed: str) -> str:
    fields = {"name": "news", "seed_urls": "https://news.example/"} | typed
    answer = visitor.submit("/jobs/new", "/jobs/new", **fields)
    assert answer.status_code == 303, words(parsed(answer).get_element_by_id("main"))
    return answer.headers["Location"].rpartition("/")[2]


def read(visitor: Visitor, job: str) -> dict[str, Any]:
    return ask(visitor.app, "GET", f"/api/v1/jobs/{job}").json()


def test_the_form_has_every_field_of_the_api_with_a_sentence(visitor: Visitor):
    form = form_of(visitor.page("/jobs/new"), "/jobs/new")
    schema = JobDefinition.model_json_schema()["$defs"]
    keys = {"name", "seed_urls"} | {key for one in schema.values() for key in one["properties"]}

    assert {field.name for field in JOB_FIELDS} == keys
    assert set(form.fields) >= keys
    for field in JOB_FIELDS:
        assert form.xpath(f".//label[@for='{field.name}']"), field.name
        hint = form.xpath(f".//*[@id='{field.name}-hint']")[0]
        assert field.hint in words(hint)
    assert form.fields["crawl_delay_ms"] == "1000"
    assert form.fields["respect_robots_txt"] == "true"


def test_a_form_of_defaults_is_a_job_of_defaults():
    body = job_of_form(usual_job() | {"name": "a", "seed_urls": "https://a.example/"})

    least = JobDefinition.checked({"name": "a", "seed_urls": ["https://a.example/"]}, NOW)
    assert JobDefinition.checked(body, NOW) == least
    example = JobDefinition.checked(EXAMPLE, NOW)
    there_and_back = job_of_form(typed_job(example.model_dump()))
    assert JobDefinition.checked(there_and_back, NOW) == example


def test_a_job_is_made_changed_and_deleted_by_forms(visitor: Visitor):
    job = created(
        visitor,
        seed_urls="https://news.example/\nhttps://news.example/b",
        excluded_patterns="/tag/\n",
        max_depth="3",
        respect_robots_txt="false",
        type="recurring",
        cron="0 3 * * 1",
    )
    found = read(visitor, job)
    assert found["seed_urls"] == ["https://news.example/", "https://news.example/b"]
    assert found["config"]["max_depth"] == 3
    assert found["config"]["respect_robots_txt"] is False
    assert found["filters"]["excluded_patterns"] == ["/tag/"]
    assert found["schedule"] == {"type": "recurring", "cron": "0 3 * * 1"}

    path = f"/jobs/{job}"
    (row,) = [tr for tr in visitor.page("/sources").iter("tr") if "news" in words(tr)]
    assert [a.get("href") for a in row.iter("a") if words(a) == "Settings"] == [path]
    saved = visitor.submit(path, path, max_depth="", crawl_delay_ms="50")
    assert saved.headers["Location"] == f"{path}?done=saved"
    assert "It is saved" in words(visitor.page(saved.headers["Location"]))
    after = read(visitor, job)
    assert (after["config"]["max_depth"], after["config"]["crawl_delay_ms"]) == (5, 50)
    assert after["schedule"] == found["schedule"]

    orders = form_of(visitor.page(path), f"/crawl/{job}")
    paused = visitor.post(f"/crawl/{job}", dict(orders.fields.items()) | {"action": "pause"})
    assert (paused.status_code, read(visitor, job)["status"]) == (303, "paused")
    (row,) = visitor.page("/sources").xpath("//tr[th[contains(., 'news')]]")
    assert words(row.xpath("td[@data-label='Next run']")[0]) == "paused"
    assert "next run" not in words(visitor.page(path).get_element_by_id("main"))
    assert visitor.page(path).xpath(f"//a[@href='{path}/delete']")
    deleted = visitor.submit(f"{path}/delete", f"{path}/delete")
    assert deleted.headers["Location"] == "/sources?done=deleted"
    assert visitor.get(path).status_code == 404


@pytest.mark.long(but=5)
@pytest.mark.parametrize(
    ("name", "typed", "why"),
    [
        ("max_depth", "11", "between 1 and 10"),
        ("max_depth", "deep", "must be"),
        ("name", "a b", "must consist of"),
        ("seed_urls", "gopher://a.example/", "must be an http or https address"),
        ("seed_urls", "http://127.0.0.1/", "ALLOW_NETWORKS"),
        ("seed_urls", " ", "at least 1"),
        ("url_patterns", "(", "url_patterns"),
        ("cron", "* * * * *", "absent"),
        ("user_agent", "ü", "printable ASCII"),
        ("allowed_domains", "https://a.example/", "allowed_domains"),
    ],
)
def test_an_error_stands_at_its_field_and_what_was_typed_stays(
    visitor: Visitor, name: str, typed: str, why: str
):
    fields = {"name": "news", "seed_urls": "https://news.example/", "max_pages": "77"}
    answer = visitor.submit("/jobs/new", "/jobs/new", **(fields | {name: typed}))
    page = parsed(answer)

    assert answer.status_code == 400
    field = page.get_element_by_id(name)
    assert field.get("aria-invalid") == "true"
    assert f"{name}-error" in field.get("aria-describedby")
    assert why in words(page.get_element_by_id(f"{name}-error"))
    form = form_of(page, "/jobs/new")
    assert (form.fields[name] or "").strip() == typed.strip()
    assert form.fields["max_pages"] == "77"
    mended = dict(form.fields.items()) | fields | ({} if name in fields else {name: ""})
    assert visitor.post("/jobs/new", mended).status_code == 303


def test_a_form_that_is_sent_twice_makes_one_job(visitor: Visitor):
    form = form_of(visitor.page("/jobs/new"), "/jobs/new")
    fields = {n: v or "" for n, v in form.fields.items()}
    fields |= {"name": "news", "seed_urls": "https://news.example/"}

    first, again = (visitor.post("/jobs/new", fields) for _ in range(2))

    assert (first.status_code, again.status_code) == (303, 303)
    assert first.headers["Location"] == again.headers["Location"]


def test_two_who_change_a_job_do_not_overwrite_each_other(visitor: Visitor):
    job = created(visitor)
    path = f"/jobs/{job}"
    late = {n: v or "" for n, v in form_of(visitor.page(path), path).fields.items()}
    visitor.submit(path, path, max_pages="5")

    answer = visitor.post(path, late | {"max_pages": "6"})

    assert answer.status_code == 409
    assert "version" in words(parsed(answer).xpath("//p[@role='alert']")[0])
    assert form_of(parsed(answer), path).fields["max_pages"] == "6"
    assert read(visitor, job)["config"]["max_pages"] == 5


def test_the_next_five_times_are_shown_without_and_with_scripts(visitor: Visitor):
    fields = {"name": "news", "seed_urls": "https://n.example/", "cron": "0 3 * * 1", "do": "times"}
    page = parsed(visitor.submit("/jobs/new", "/jobs/new", **fields))

    times = [words(li) for li in page.get_element_by_id("times").iter("li")]
    assert [one[:16] for one in times] == [
        "2025-06-16 03:00", "2025-06-23 03:00", "2025-06-30 03:00", "2025-07-07 03:00",
        "2025-07-14 03:00",
    ]  # fmt: skip
    assert form_of(page, "/jobs/new").fields["name"] == "news"
    cron = page.get_element_by_id("cron")
    part = visitor.page(f"{cron.get('hx-get')}?cron=0+3+*+*+1", headers={"HX-Request": "true"})
    assert [words(li) for li in part.iter("li")] == times
    wrong = visitor.get("/jobs/fires?cron=%3Cb%3E", headers={"HX-Request": "true"})
    assert "five fields" in words(parsed(wrong))
    assert ask(visitor.app, "GET", "/api/v1/jobs").json()["pagination"]["total"] == 1


def test_the_api_lists_the_next_times(visitor: Visitor):
    answer = ask(visitor.app, "GET", "/api/v1/fires?cron=0%203%20*%20%20*%201&limit=2")
    assert answer.json() == {
        "cron": "0 3 * * 1",
        "fires": ["2025-06-16T03:00:00Z", "2025-06-23T03:00:00Z"],
    }
    leap = ask(visitor.app, "GET", "/api/v1/fires?cron=0%200%2029%202%20*").json()["fires"]
    assert leap[0] == "2028-02-29T00:00:00Z"
    refused = ask(visitor.app, "GET", "/api/v1/fires?cron=*%20*%20*%20*%20*")
    assert (refused.status_code, refused.json()["error"]["details"]["field"]) == (400, "cron")


def test_a_declared_source_names_its_file_and_gets_times_alone(visitor: Visitor):
    path = f"/jobs/{DOCS}"
    page = visitor.page(path)

    assert "sources.toml" in words(page)
    form = form_of(page, path)
    assert {"type", "cron"} <= set(form.fields)
    assert not {"seed_urls", "max_depth", "name"} & set(form.fields)
    assert page.xpath("//a[contains(@href, '/delete')]") == []
    assert visitor.get(f"{path}/delete").status_code == 404
    answer = visitor.submit(path, path, type="recurring", cron="0 3 * * 1")
    assert answer.status_code == 303
    assert read(visitor, DOCS)["schedule"] == {"type": "recurring", "cron": "0 3 * * 1"}
    assert read(visitor, DOCS)["declared_in"] == "sources.toml"


def test_all_pages_of_a_source_are_fetched_anew_after_a_question(tmp_path: Path, visitor: Visitor):
    path = f"/jobs/{DOCS}/force"
    assert visitor.page(f"/jobs/{DOCS}").xpath(f"//a[@href='{path}']")
    refused = visitor.submit(path, path)
    assert refused.status_code == 404
    assert "no source of this name was crawled" in words(parsed(refused))
    desk = Desk(tmp_path / "registry.db")
    desk.open(now=NOW)
    number = desk.index("https://docs.example/a", "a lantern")
    desk.seal(now=NOW)

    done = visitor.submit(path, path)

    assert done.headers["Location"] == f"/jobs/{DOCS}?done=forced"
    assert "a run of them follows" in words(visitor.page(done.headers["Location"]))
    assert desk.rows("SELECT no FROM item WHERE requested") == [(number,)]
    desk.close()


def keyed(folder: Path, scope: Scope, clock: Any = None) -> Visitor:
    app = application(folder, host="0.0.0.0", pages_limit=10**9, clock=clock)
    return logged_in_visitor(app, folder, scope)


def test_who_reads_sees_settings_and_changes_none(tmp_path: Path):
    job = created(keyed(tmp_path, Scope.OPERATE), max_pages="77")
    reader = keyed(tmp_path, Scope.READ)

    page = reader.page(f"/jobs/{job}")
    assert "77" in words(page)
    assert [f.get("action") for f in page.forms] == ["/logout", "/theme"]
    assert reader.page("/sources").xpath("//a[@href='/jobs/new']") == []
    token = form_of(page, "/logout").fields["token"]
    for path in ("/jobs/new", f"/jobs/{job}", f"/jobs/{job}/delete"):
        assert reader.post(path, {"token": token, "name": "x"}).status_code == 403, path


@pytest.mark.parametrize("seeds", [1, 200])
def test_a_session_that_ends_in_a_form_keeps_what_was_typed(tmp_path: Path, seeds: int):
    now = [0.0]
    visitor = keyed(tmp_path, Scope.OPERATE, lambda: now[0])
    path = f"/jobs/{created(visitor)}"
    lines = "\n".join(f"https://news.example/{number:030}" for number in range(seeds))
    for name, place in (("later", "/jobs/new"), ("news", path)):
        form = form_of(visitor.page(place), place)
        typed = {n: v or "" for n, v in form.fields.items()}
        typed |= {"name": name, "seed_urls": lines, "max_depth": "deep", "cron": "<x>"}
        now[0] += 43_201

        ended = visitor.post(place, typed, headers={"Referer": HOST + place})
        fields = {n: v or "" for n, v in form_of(parsed(ended), "/login").fields.items()}
        back = visitor.post("/login", fields | {"key": made_key(tmp_path, Scope.OPERATE)})
        kept = form_of(visitor.page(back.headers["Location"]), place).fields

        names = [field.name for field in JOB_FIELDS]
        assert {n: kept[n].strip() for n in names} == {n: typed[n].strip() for n in names}
        assert (
            visitor.post(place, dict(kept.items()) | {"max_depth": "2", "cron": ""}).status_code
            == 303
        )


def test_hostile_text_in_a_form_stays_text(visitor: Visitor):
    hostile = '"><b hx-get=/x onclick=x>\u202e'
    answer = visitor.submit(
        "/jobs/new", "/jobs/new", name=hostile, seed_urls=f"</textarea>{hostile}"
    )
    page = parsed(answer)

    assert page.xpath("//b") == []
    assert page.get_element_by_id("name").get("value") == hostile
    assert [e.get("hx-get") for e in page.xpath("//*[@hx-get]")] == ["/jobs/fires"]
