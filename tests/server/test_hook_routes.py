"""Hooks of sources: who may send a notice, what it makes due, and how little a refusal says."""

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from smartcrawl.registry.connection import transaction
from smartcrawl.registry.source_due import stored_source_facts
from tests.index.meanings import desk_at
from tests.registry.build import Desk
from tests.registry.spare import Spare
from tests.server.api_client import application, ask_all, error_of

NOW = 1_750_000_000
SECRET = "a token of the site"
FRONT = "https://github.com/octo/lamps"
CONFIGURATION = b"as the last run had it"
TABLES = f"""
[sources.docs]
seeds = ["https://docs.example/"]
hook = "DOCS_HOOK"

[sources.lamps]
kind = "github"
url = "{FRONT}"
hook = "DOCS_HOOK"

[sources.plain]
seeds = ["https://plain.example/"]

[sources.unset]
seeds = ["https://unset.example/"]
hook = "UNSET_HOOK"
"""
PAGES = {
    "docs": ["https://docs.example/a", "https://docs.example/b"],
    "lamps": [f"{FRONT}/blob/HEAD/a.md", f"{FRONT}/blob/HEAD/b.md"],
    "plain": ["https://plain.example/a"],
}


class Served:
    """A registry of crawled sources, and what serves it."""

    def __init__(self, folder: Path, url: str) -> None:
        (folder / "sources.toml").write_text(TABLES)
        self.desk = desk_at(url) if url else Desk(folder / "registry.db")
        for source, pages in PAGES.items():
            self.desk.source = source
            self.desk.open(now=NOW)
            for page in pages:
                self.desk.index(page, f"a text of {page}")
            self.desk.seal(now=NOW)
        with transaction(self.desk.connection):
            self.desk.connection.execute("UPDATE state SET next_visit = ?", (NOW + 900,)).fetchall()
            self.desk.connection.execute("UPDATE source SET configuration = ?",
                                         (CONFIGURATION,)).fetchall()  # fmt: skip
        self.folder = folder
        self.run = {"registry": url or folder / "registry.db"}
        self.app = self.app_at("127.0.0.1")

    def app_at(self, host: str) -> ASGIApp:
        return application(self.folder, clock=lambda: float(NOW), host=host, run=self.run)

    def due(self) -> set[str]:
        """The pages that are due."""
        rows = self.desk.rows("SELECT url, next_visit FROM record JOIN state USING (no)")
        return {url for url, at in rows if at <= NOW}

    def is_due_for_its_own_sake(self, source: str) -> bool:
        facts = stored_source_facts(
            self.desk.connection, source, NOW, configuration=CONFIGURATION, is_listed=False
        )
        assert facts is not None
        return not facts.is_as_then


@pytest.fixture(params=["sqlite", "postgres"])
def served(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    monkeypatch.setenv("DOCS_HOOK", SECRET)
    url, spare = "", None
    if request.param == "postgres":
        spare = request.getfixturevalue("spare_registries")
        url = spare.take()
    made = Served(tmp_path, url)
    yield made
    made.desk.close()
    if isinstance(spare, Spare):
        spare.put_back(url)


def sent(source: str, body: object = None, **headers: str) -> tuple[str, str, dict[str, Any]]:
    content = {} if body is None else {"content": json.dumps(body).encode()}
    kind = {} if body is None else {"Content-Type": "application/json"}
    return "POST", f"/api/v1/hooks/{source}", content | {"headers": kind | headers}


def signed(
    source: str, body: object, event: str = "push", secret: str = SECRET
) -> tuple[str, str, dict[str, Any]]:
    digest = hmac.new(secret.encode(), json.dumps(body).encode(), hashlib.sha256).hexdigest()
    named = {"X-Hub-Signature-256": f"sha256={digest}", "X-GitHub-Event": event}
    return sent(source, body, **named)


BEARER = {"Authorization": f"Bearer {SECRET}"}
PUSH = {
    "ref": "refs/heads/main",
    "repository": {"full_name": "octo/lamps", "default_branch": "main"},
    "commits": [{"added": [], "modified": ["a.md"], "removed": []}],
}


def test_a_token_has_the_whole_source_due_and_sent_again_changes_nothing(served: Served):
    answers = ask_all(served.app, [sent("docs", **BEARER)] * 2)

    assert [answer.status_code for answer in answers] == [202, 202]
    assert answers[0].json() == {"source": "docs", "whole": True, "due": 2}
    assert answers[1].json() == {"source": "docs", "whole": True, "due": 0}
    assert served.due() == set(PAGES["docs"])
    assert served.is_due_for_its_own_sake("docs")
    assert not served.is_due_for_its_own_sake("plain")
    assert served.desk.rows("SELECT * FROM due_run") == [], "nothing crawls by itself"


def test_no_budget_puts_off_a_page_of_a_source_that_was_due_before(served: Served):
    served.desk.rows("UPDATE state SET next_visit = 0, interval = 9")
    (answer,) = ask_all(served.app, [sent("docs", **BEARER)])

    assert answer.json() == {"source": "docs", "whole": True, "due": 0}
    rows = served.desk.rows(
        "SELECT count(*), count(interval) FROM state JOIN record USING (no)"
        " WHERE source = (SELECT no FROM source WHERE name = 'docs')"
    )
    assert rows == [(len(PAGES["docs"]), 0)]


@pytest.mark.covers("R1-53")
def test_a_push_has_its_files_due_alone(served: Served):
    answers = ask_all(served.app, [signed("lamps", PUSH)] * 2)

    assert [one.json() for one in answers] == [{"source": "lamps", "whole": False, "due": 1}] * 2
    assert served.due() == {PAGES["lamps"][0]}
    assert not served.is_due_for_its_own_sake("lamps")


def test_a_push_with_a_new_file_has_the_repository_listed(served: Served):
    push = PUSH | {"commits": [{"added": ["new.md"], "removed": ["b.md"]}]}
    (answer,) = ask_all(served.app, [signed("lamps", push)])

    assert answer.json() == {"source": "lamps", "whole": False, "due": 1}
    assert served.due() == {PAGES["lamps"][1]}
    assert served.is_due_for_its_own_sake("lamps")


def test_other_events_and_senders_have_all_of_it_due_and_a_ping_nothing(served: Served):
    elsewhere = PUSH | {"ref": "refs/heads/draft"}
    pings = [signed("docs", {"zen": "…"}, "ping"), signed("lamps", elsewhere)]
    answers = ask_all(served.app, pings)
    assert [one.json()["whole"] for one in answers] == [False, False]
    assert served.due() == set()
    (bad,) = ask_all(served.app, [signed("lamps", {"ref": 5})])
    assert (bad.status_code, error_of(bad)["code"]) == (400, "INVALID_INPUT")

    (forced, site, other) = ask_all(
        served.app,
        [
            signed("lamps", PUSH | {"forced": True}),
            signed("docs", PUSH),
            sent("lamps", {"object_kind": "push"}, **{"X-Gitlab-Token": SECRET}),
        ],
    )
    assert forced.json() == other.json() == {"source": "lamps", "whole": True, "due": 0}
    assert served.is_due_for_its_own_sake("lamps")
    assert (site.json()["whole"], served.due()) == (True, set(PAGES["docs"]))


def test_a_refusal_does_not_say_which_sources_there_are(served: Served):
    """ATT-73."""
    wrong = {"Authorization": "Bearer another"}
    tampered = signed("docs", PUSH)
    tampered[2]["content"] = tampered[2]["content"].replace(b"main", b"mean")
    calls = [
        sent("docs"),
        sent("docs", **wrong),
        sent("docs", **{"X-Gitlab-Token": "another"}),
        sent("docs", **{"X-API-Key": SECRET}),
        signed("docs", PUSH, secret="another"),
        tampered,
        sent("docs", PUSH, **BEARER, **{"X-Hub-Signature-256": "sha256=00"}),
        sent("docs", **{"X-Hub-Signature-256": ""}),
        sent("plain", **BEARER),
        sent("nothing", **BEARER),
        sent("unset", **BEARER),
        sent("unset"),
        sent("lamps", {"ref": 5}),
    ]
    answers = ask_all(served.app, calls)

    found = {(one.status_code, json.dumps(error_of(one) | {"request_id": ""})) for one in answers}
    assert len(found) == 1
    assert answers[0].status_code == 404
    assert served.due() == set()


def test_a_hook_takes_its_token_and_no_api_key_wherever_the_server_listens(served: Served):
    of_proxy = {"X-Forwarded-For": "192.0.2.1", "Host": "crawl.example.com"}
    for host in ("127.0.0.1", "0.0.0.0"):
        calls = [sent(name, **BEARER, **of_proxy) for name in ("docs", "nothing")]
        others = ("GET", "/api/v1/sources", {"headers": BEARER})

        answers = ask_all(served.app_at(host), [*calls, others])

        assert [answer.status_code for answer in answers] == [202, 404, 401], host
