"""Notices of runs and stale sources, to webhooks and mails on loopback."""

import email
import email.policy
import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import standardwebhooks

from smartcrawl.commands.running import PlainSettings
from smartcrawl.model.exceptions import RegistryFullError, SettingError
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.notices import claim_notice_target_row
from smartcrawl.run.notices import Delivery, RunNotices, notice_guard, notice_tick
from smartcrawl.sources.notice_senders import NoticeError, webhook_signature
from tests.crawls.commands import Remote, Result
from tests.crawls.stories import down
from tests.lab.lab import Lab, page
from tests.lab.lab_site import LabSite
from tests.lab.receivers import Hook, MailBox, hook, mail_box

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
DAY = 86_400


@pytest.fixture
def receiver() -> Iterator[Hook]:
    with hook() as found:
        yield found


@pytest.fixture
def box() -> Iterator[MailBox]:
    with mail_box() as found:
        yield found


class Sender:
    """A lab with one declared source, and targets in its file of settings."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.file = lab.crawl.folder / "smartcrawl.toml"
        lab.crawl.declare(f'[sources.docs]\nseeds = ["{lab.site.url("/")}"]\nmax_age = {7 * DAY}\n')
        lab.source = "docs"
        lab.pages |= {"/": page("Home", "/a"), "/a": page("A", text="words of a page")}

    def target(self, name: str, **keys: object) -> None:
        """Add a target; loopback is permitted."""
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        before = (
            self.file.read_text()
            if self.file.exists()
            else ('[settings]\nALLOW_NETWORKS = ["127.0.0.0/8"]\n')
        )
        self.file.write_text(before + "\n".join([f"[notify.{name}]", *lines, ""]))

    def notify(self, *words: str, expect: int = 0) -> Result:
        return self.lab.crawl.run("notify", *words, expect=expect)

    def options(self) -> Options:
        """Those of a server beside the lab."""
        chosen = PlainSettings() | {
            "DATA_DIR": str(self.lab.crawl.data_dir),
            "SOURCES_FILE": str(self.lab.crawl.sources_file),
            "ALLOW_NETWORKS": "127.0.0.0/8",
            "REGISTRY_URL": self.lab.crawl.environment.get("REGISTRY_URL", ""),
        }
        return Options.of(chosen)

    def rows(self, columns: str) -> list[tuple[Any, ...]]:
        return self.lab.rows(f"SELECT {columns} FROM notice ORDER BY no")


@pytest.fixture
def sender(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Sender:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    return Sender(lab)


def bodies(receiver: Hook) -> list[dict[str, Any]]:
    return [json.loads(body) for _, body in receiver.taken]


def test_the_signature_is_that_of_standard_webhooks():
    """The test vector that libraries of Standard Webhooks share."""
    signed = (SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert webhook_signature(*signed) == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    for wrong in ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_not base64"):
        with pytest.raises(NoticeError, match="openssl rand -base64 32"):
            webhook_signature(wrong, *signed[1:])


def test_a_run_reports_what_it_changed(sender: Sender, receiver: Hook):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
    sender.lab.run()
    del sender.lab.pages["/a"]
    sender.lab.pages["/"] = page("Home", "/a", "/b", text="other words of the front page")
    sender.lab.pages["/b"] = page("B", text="treasure")
    sender.lab.run()
    sender.notify()

    first, second = bodies(receiver)
    assert first["type"] == second["type"] == "changes"
    assert (first["data"]["source"], first["data"]["counts"]) == ("docs", {"new": 2})
    assert second["data"]["counts"] == {"new": 1, "modified": 1, "lost": 1}
    pages = {one["kind"]: one["url"] for one in second["data"]["pages"]}
    assert pages["new"].endswith("/b")
    assert pages["lost"].endswith("/a")
    assert second["data"]["more"] == 0
    headers, body = receiver.taken[1]
    sign = webhook_signature(SECRET, headers["webhook-id"], int(headers["webhook-timestamp"]), body)
    assert headers["webhook-signature"] == sign
    assert headers["webhook-id"].startswith("msg_")
    assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
    sender.lab.run()
    sender.notify()
    assert len(receiver.taken) == 2  # nothing changed, and nothing is sent twice


def test_the_notice_is_written_in_the_transaction_of_the_run(sender: Sender, receiver: Hook):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET")
    sender.lab.run()
    assert sender.rows("target, event, source, state") == [("ops", "changes", "docs", "waiting")]
    assert receiver.taken == []


def test_a_plan_sends_and_writes_nothing(sender: Sender, receiver: Hook):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET")
    sender.lab.run()
    before = sender.rows("id")
    sender.lab.crawl.run("plan")
    assert sender.rows("id") == before


def test_patterns_and_size_choose_pages(sender: Sender, receiver: Hook):
    keys = {"webhook": receiver.url, "secret": "HOOK_SECRET", "events": ["changes"]}
    sender.target("a", **keys, patterns=["/a$"])
    sender.target("many", **keys, min_changes=3)
    sender.target("blog", **keys, patterns=["/blog/"])
    sender.lab.run()
    assert sender.rows("target") == [("a",)]
    sender.notify()
    assert [one["url"][-2:] for one in bodies(receiver)[0]["data"]["pages"]] == ["/a"]


def test_a_run_that_did_not_see_everything_and_one_that_recovers(
    sender: Sender, receiver: Hook, site: LabSite
):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=[
        "run.incomplete", "source.stale", "source.recovered", "removal.waiting",
    ])  # fmt: skip
    sender.lab.run()
    assert sender.rows("event") == []
    with down(site):
        sender.lab.run(expect=3)
    sender.lab.after(days=8)
    sender.lab.crawl.run("status", "--check", expect=2)
    sender.lab.crawl.run("status", "--check", expect=2)
    sender.lab.run()
    sender.notify()

    found = bodies(receiver)
    assert [one["type"] for one in found] == ["run.incomplete", "source.stale", "source.recovered"]
    assert found[0]["data"]["reasons"][0].startswith("seed_failed: ")
    assert found[1]["data"]["ageSeconds"] >= 8 * DAY
    assert found[1]["data"]["maxAge"] == 7 * DAY
    assert sender.lab.rows("SELECT count(*) FROM stale_source") == [(0,)]


def test_removals_that_waited_before_are_no_news(sender: Sender):
    sender.target("ops", webhook="http://127.0.0.1:9/", secret="HOOK_SECRET",
                events=["removal.waiting"])  # fmt: skip
    sender.lab.run()
    sender.lab.run()
    sender.lab.rows("UPDATE run SET withheld = 2")
    notify = RunNotices(sender.options().notify)
    with closing(registry_database(sender.options().registry).open()) as connection:
        for waiting in (2, 3):
            with transaction(connection):
                connection.execute("UPDATE run SET withheld = ? WHERE no = 2", (waiting,))
                notify(connection, 2, sender.lab.crawl.now)
    [(event, data)] = sender.rows("event, data")
    assert (event, json.loads(data)) == ("removal.waiting", {"run": 2, "waiting": 3})


def test_a_private_source_is_reported_where_it_is_named(sender: Sender, receiver: Hook):
    keys = {"webhook": receiver.url, "secret": "HOOK_SECRET"}
    sender.lab.crawl.declare(
        f'[sources.docs]\nseeds = ["{sender.lab.site.url("/")}"]\nvisibility = "private"\n'
    )
    sender.target("every", **keys)
    sender.target("named", **keys, sources=["docs"])
    sender.target("other", **keys, sources=["wiki"])
    sender.lab.run()
    assert sender.rows("target") == [("named",)]


def test_notices_come_in_order_and_a_failure_holds_the_later_ones_back(
    sender: Sender, receiver: Hook
):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
    receiver.status = 503
    sender.lab.run()
    sender.lab.pages["/"] = page("Home", "/a", text="other words")
    sender.lab.run()
    sender.notify()
    assert len(receiver.taken) == 1  # the second one waits for the first
    receiver.status = 200
    sender.notify()
    assert len(receiver.taken) == 1  # too early
    sender.lab.after(seconds=31)
    sender.notify()
    ids = [headers["webhook-id"] for headers, _ in receiver.taken]
    assert ids[0] == ids[1] != ids[2]
    assert sender.rows("state, attempts") == [("delivered", 2), ("delivered", 1)]


def test_a_target_that_is_away_for_a_day_is_given_up_and_tried_by_hand(
    sender: Sender, receiver: Hook
):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
    receiver.status = 500
    sender.lab.run()
    sender.notify()
    sender.lab.after(days=1)
    assert "it answered 500" in sender.notify().out
    assert sender.rows("state, attempts, error") == [("given up", 2, "it answered 500")]
    receiver.status = 200
    assert sender.notify("--retry").out == "1 sent; 1 of all that waited had been given up\n"
    assert sender.rows("state") == [("delivered",)]


def test_a_target_without_a_table_is_named_and_given_up_after_a_day(sender: Sender, receiver: Hook):
    keys = {"webhook": receiver.url, "secret": "HOOK_SECRET", "events": ["changes"]}
    sender.target("gone", **keys)
    sender.lab.run()
    sender.file.unlink()
    sender.target("ops", **keys)
    out = " ".join(sender.notify().out.split())
    assert "gone has no table [notify.gone] any more: what waits for it is given up" in out
    assert sender.rows("target, state") == [("gone", "waiting")]
    sender.lab.after(days=1, seconds=1)
    out = " ".join(sender.notify().out.split())
    assert "its table [notify.NAME] was removed" in out
    assert "any more" not in out
    assert sender.rows("target, state") == [("gone", "given up")]
    assert receiver.taken == []


def test_without_the_last_table_what_waits_is_given_up_after_a_day(sender: Sender, receiver: Hook):
    sender.target("gone", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
    sender.lab.run()
    sender.file.unlink()
    sender.lab.crawl.run("status", "--check")
    assert sender.rows("target, state") == [("gone", "waiting")]
    sender.lab.after(days=1, seconds=1)
    sender.lab.crawl.run("status", "--check")
    assert sender.rows("target, state") == [("gone", "given up")]
    assert receiver.taken == []


def test_a_retry_of_one_target_takes_the_others_for_known(sender: Sender, receiver: Hook):
    keys = {"webhook": receiver.url, "secret": "HOOK_SECRET", "events": ["changes"]}
    sender.target("one", **keys)
    sender.target("two", **keys)
    sender.lab.run()
    sender.lab.after(days=1, seconds=1)
    sender.notify("--retry", "one")
    assert sender.rows("target, state") == [("one", "delivered"), ("two", "waiting")]


def test_a_share_chooses_modified_pages(sender: Sender, receiver: Hook):
    words = [f"word{n}" for n in range(100)]
    sender.lab.pages |= {
        "/": page("Home", "/a", text=" ".join(words)),
        "/a": page("A", text=" ".join(words)),
    }
    sender.lab.run()
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", min_share=0.3)
    sender.lab.pages["/"] = page("Home", "/a", "/b", text=" ".join([*words[:-5], "other"]))
    sender.lab.pages["/a"] = page("A", text=" ".join([*words[:20], "rewritten"]))
    sender.lab.pages["/b"] = page("B", text="treasure")
    sender.lab.run()
    sender.notify()
    data = bodies(receiver)[0]["data"]
    assert data["counts"] == {"new": 1, "modified": 1}
    assert sorted(one["url"][-2:] for one in data["pages"]) == ["/a", "/b"]


def test_the_next_run_reports_one_whose_process_was_killed(sender: Sender, receiver: Hook):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["run.incomplete"])
    sender.lab.run()
    sender.lab.rows("UPDATE run SET state = 0, complete = FALSE, finished_at = NULL")
    sender.lab.run(resume=1)
    assert sender.rows("event") == [], "it goes on"
    sender.lab.rows("UPDATE run SET state = 0, complete = FALSE, finished_at = NULL")
    sender.lab.run()
    [(run, data)] = sender.rows("run, data")
    assert run == 1
    assert json.loads(data) == {"run": 1, "reasons": ["interrupted"]}
    sender.lab.run()
    assert len(sender.rows("run")) == 1


def test_a_full_disk_fails_the_check(sender: Sender, monkeypatch: pytest.MonkeyPatch):
    sender.target("ops", webhook="http://127.0.0.1:9/", secret="HOOK_SECRET")
    sender.lab.run()

    def full(*_: object) -> None:
        raise RegistryFullError("no space left for registry.db; free some")

    monkeypatch.setattr("smartcrawl.run.notices.note_stale_sources", full)
    found = sender.lab.crawl.run("status", "--check", expect=3)
    assert found.out == ""
    assert "no space left for registry.db; free some" in found.err


def test_410_ends_the_delivery_to_a_target_and_says_so(sender: Sender, receiver: Hook):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
    receiver.status = 410
    sender.lab.run()
    assert "it answered 410 (gone), so nothing is sent to it any more" in sender.notify().out
    sender.lab.pages["/"] = page("Home", "/a", text="other words")
    sender.lab.after(days=1)
    sender.lab.run()
    assert "ops is closed: it answered 410" in " ".join(sender.notify().out.split())
    assert (len(receiver.taken), sender.rows("state")) == (1, [("given up",)])
    receiver.status = 200
    sender.notify("--retry")
    assert sender.rows("state") == [("delivered",)]


def test_a_redirect_is_not_followed(sender: Sender, receiver: Hook):
    """Inwards it would go around the guard."""
    with hook() as inside:
        receiver.status, receiver.headers = 307, {"Location": inside.url}
        sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
        sender.lab.run()
        assert "redirects are not followed" in sender.notify().out
        assert inside.taken == []


def test_the_guard_holds_for_webhooks(sender: Sender, receiver: Hook):
    """ATT-12."""
    sender.file.write_text(f'[notify.ops]\nwebhook = "{receiver.url}"\nsecret = "HOOK_SECRET"\n')
    sender.lab.run()
    assert "loopback" in sender.notify("--test", expect=1).out
    assert receiver.taken == []


@pytest.mark.long
def test_a_target_that_hangs_costs_a_command_seconds(sender: Sender, receiver: Hook):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
    receiver.hangs = True
    sender.lab.run()
    begun = time.monotonic()
    assert "no whole answer within 5 s" in " ".join(sender.notify().out.split())
    assert time.monotonic() - begun < 10
    assert sender.rows("state, attempts") == [("waiting", 1)]


def test_an_attempt_that_the_end_of_a_command_cut_short_does_not_count(
    sender: Sender, receiver: Hook
):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
    receiver.hangs = True
    sender.lab.run()
    options = sender.options()
    with closing(registry_database(options.registry).open()) as connection:
        delivery = Delivery(connection, options.notify, notice_guard(options))
        assert delivery.deliver(0.3) == 0
    assert delivery.failed == {}
    assert sender.rows("state, attempts") == [("waiting", 0)]


def test_two_processes_never_send_to_a_target_at_once(sender: Sender, receiver: Hook):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=["changes"])
    sender.lab.run()
    registry = sender.lab.crawl.registry
    place: Path | str = registry.url if isinstance(registry, Remote) else registry
    with closing(registry_database(place).open()) as other:
        with transaction(other):
            assert claim_notice_target_row(other, "ops", "other", sender.lab.crawl.now)
        sender.notify()
        assert receiver.taken == []
        sender.lab.after(seconds=61)  # it died: its claim is over
        sender.notify()
        assert len(receiver.taken) == 1
        with transaction(other):
            assert claim_notice_target_row(other, "ops", "other", sender.lab.crawl.now)


def test_a_server_looks_for_stale_sources_and_sends(sender: Sender, receiver: Hook):
    """Its thread looks once a minute, and sends at each tick."""
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET", events=[
        "source.stale", "source.recovered",
    ])  # fmt: skip
    sender.lab.run()
    options, now = sender.options(), sender.lab.crawl.now
    with closing(registry_database(options.registry).open()) as connection:
        tick = notice_tick(options, lambda: False, connection)
        tick(now)
        assert receiver.taken == []
        tick(now + 8 * DAY)
        assert [one["type"] for one in bodies(receiver)] == ["source.stale"]
        sender.lab.crawl.declare(f'[sources.docs]\nseeds = ["{sender.lab.site.url("/")}"]\n')
        tick(now + 8 * DAY + 59)
        assert len(receiver.taken) == 1  # it looks again in a second
        tick(now + 8 * DAY + 60)
        assert [one["type"] for one in bodies(receiver)][1:] == ["source.recovered"]
        ended = notice_tick(options, lambda: True, connection)
        sender.lab.crawl.declare(
            f'[sources.docs]\nseeds = ["{sender.lab.site.url("/")}"]\nmax_age = 9\n'
        )
        ended(now + 8 * DAY)
        assert len(receiver.taken) == 2  # the server ends: the next one sends


def test_a_mail_says_what_happened_and_what_helps(sender: Sender, box: MailBox, site: LabSite):
    sender.target("ops", mail="ops@example.com", server=f"smtp://127.0.0.1:{box.port}",
                events=["changes", "run.incomplete"])  # fmt: skip
    sender.lab.run()
    with down(site):
        sender.lab.run(expect=3)
    sender.notify()

    changes, incomplete = (email.message_from_string(one, policy=email.policy.default)
                           for one in box.mails)  # fmt: skip
    assert changes["Subject"] == "docs: 2 new"
    assert (changes["To"], changes["Auto-Submitted"]) == ("ops@example.com", "auto-generated")
    text = changes.get_content()
    assert f"new        {site.url('/a')}" in text
    assert "All of them: smartcrawl changes --source docs" in text
    assert incomplete["Subject"] == "docs: run 2 did not see everything"
    assert "- seed_failed: " in incomplete.get_content()


def test_a_mail_that_is_refused_waits(sender: Sender, box: MailBox):
    sender.target("ops", mail="ops@example.com", server=f"smtp://127.0.0.1:{box.port}")
    box.refuses = True
    sender.lab.run()
    assert "550" in sender.notify("--test", expect=1).out
    sender.notify()
    assert sender.rows("state, attempts") == [("waiting", 1)]


def test_a_password_that_no_mail_server_takes_is_not_in_the_message(
    sender: Sender, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("MAIL_PASSWORD", "open sésame")
    sender.target("ops", mail="ops@example.com", server="submission://127.0.0.1:9", user="me",
                password="MAIL_PASSWORD")  # fmt: skip
    out = sender.notify("--test", expect=1).out
    assert "take ASCII characters alone" in out
    assert "xe9" not in out
    assert "é" not in out


def test_a_test_is_sent_to_each_target_at_once(sender: Sender, receiver: Hook, box: MailBox):
    sender.target("hook", webhook=receiver.url, secret="HOOK_SECRET")
    sender.target("mail", mail="ops@example.com", server=f"smtp://127.0.0.1:{box.port}")
    assert sender.notify("--test").out == "hook: taken\nmail: taken\n"
    assert [one["type"] for one in bodies(receiver)] == ["test"]
    assert len(box.mails) == 1
    sender.notify("--test", "mail")
    assert (len(receiver.taken), len(box.mails)) == (1, 2)
    assert "there is no target 'mial', did you mean mail?" in sender.notify("mial", expect=1).err


@pytest.mark.long
def test_a_service_of_apprise_gets_title_and_text(
    sender: Sender, receiver: Hook, monkeypatch: pytest.MonkeyPatch
):
    """Its address is that of a variable: it has the token of the service."""
    monkeypatch.setenv("OPS_APPRISE", receiver.url.replace("http:", "json:"))
    sender.target("ops", apprise="OPS_APPRISE")
    sender.lab.run()
    sender.notify()
    (found,) = bodies(receiver)
    assert found["title"] == "docs: 2 new"
    assert "smartcrawl changes --source docs" in found["message"]
    monkeypatch.setenv("OPS_APPRISE", "nosuch://a.example")
    assert "does not know the URL in OPS_APPRISE" in sender.notify("--test", expect=1).out
    monkeypatch.setitem(sys.modules, "apprise", None)
    out = " ".join(sender.notify("--test", expect=1).out.split())
    assert "apprise is not installed: pip install 'apprise==" in out
    assert "script/setup notify" in out


def test_a_receiver_that_is_not_ours_verifies_what_it_gets(sender: Sender, receiver: Hook):
    sender.target("ops", webhook=receiver.url, secret="HOOK_SECRET")
    sender.notify("--test")
    ((headers, body),) = receiver.taken
    taken: Any = standardwebhooks.Webhook(SECRET).verify(body, headers)
    assert taken["type"] == "test"
    with pytest.raises(standardwebhooks.WebhookVerificationError):
        standardwebhooks.Webhook(SECRET).verify(body + b" ", headers)


@pytest.mark.long(but=8)
@pytest.mark.sqlite
@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('webhook = "https://a.example/"', "secret is missing"),
        ('webhook = "https://a.example/"\nsecret = "hunter2"', "secret takes no secret itself"),
        ('webhook = "https://me:pw@a.example/"\nsecret = "S"', "without credentials"),
        ('webhook = "https://a.example/?token=8c1f"\nsecret = "S"', "into a variable"),
        ('webhook = "a.example"\nsecret = "S"', "expected an http or https address"),
        ('mail = "ops"', "expected one address"),
        ('mail = "o@a.example"\nserver = "mail.example"', "expected smtp://HOST"),
        ('mail = "o@a.example"\nuser = "U"', "user and password belong together"),
        ('mail = "o@a.example"\nuser = "u"\npassword = "P"', "go over TLS only"),
        ('apprise = "json://a.example"', "the name of the variable"),
        ('mail = "o@a.example"\nevents = ["change"]', "did you mean changes?"),
        ('mail = "o@a.example"\nmin_share = 2', "expected a number from 0 to 1"),
        ('mail = "o@a.example"\nmin_share = true', "expected a number from 0 to 1"),
        ('mail = "o@a.example"\nmin_changes = 0', "expected a whole number of at least 1"),
        ('mail = "o@a.example"\npatterns = ["("]', "not a valid regular expression"),
        ('mail = "o@a.example"\nsource = ["a"]', "source: unknown key, did you mean sources?"),
        ('secret = "S"', "takes one of webhook, mail and apprise"),
    ],
)  # fmt: skip
def test_a_wrong_table_is_named_with_the_remedy(sender: Sender, table: str, says: str):
    sender.file.write_text(f"[notify.ops]\n{table}\n")
    with pytest.raises(SettingError) as error:
        sender.notify()
    failed = str(error.value)
    assert says in failed
    assert "[notify.ops]" in failed
    assert "hunter2" not in failed
    assert "8c1f" not in failed


def test_without_targets_nothing_is_written(sender: Sender):
    sender.lab.run()
    assert sender.rows("event") == []
    assert "add a table [notify.NAME] to smartcrawl.toml" in sender.notify(expect=1).err
