"""A push against a server of vector stores, talked to by the official SDK."""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from smartcrawl.index.vectorstore.api import VectorStoreApi
from tests.index.vectorstore.faults import FAULTS, mend
from tests.index.vectorstore.pushed_place import Place, place, running, server
from tests.index.vectorstore.store_server import ACTS, STORE, Asked
from tests.openai_server import KEY, Reply, error

__all__ = ["place", "running", "server"]  # fixtures


class Died(BaseException):
    """The process died here."""


@pytest.mark.covers("M-47")
def test_a_push_gives_every_page_with_its_attributes(place: Place):
    place.concurrency = 1
    pushed = place.push()

    place.check()
    assert (pushed.pages, pushed.uploaded, pushed.completed, pushed.is_whole) == (5, 5, 5, True)
    entry = next(iter(place.server.stores[STORE].values()))
    hashes = {
        bytes(hash_).hex()
        for (hash_,) in place.desk.connection.execute("SELECT content_hash FROM content")
    }
    assert entry["attributes"].keys() == {
        "smartcrawl_source", "smartcrawl_url", "smartcrawl_hash"
    }  # fmt: skip
    assert entry["attributes"]["smartcrawl_source"] == "docs"
    assert entry["attributes"]["smartcrawl_hash"] in hashes
    assert all(row[1] == "completed" for row in place.rows())
    text = place.server.uploads["file-0001"]["content"]
    assert text.startswith(
        '---\ntitle: "0"\nlanguage: "en"\nurl: "http://docs.example/0"\nsource: "docs"\n---'
    )
    assert place.server.uploads["file-0001"]["filename"].startswith("docs.example_0-")


def test_a_push_without_a_difference_reads_the_list_only(place: Place):
    place.push()
    place.server.asked.clear()

    pushed = place.push()

    assert place.server.acts == ["list", "list"]
    assert (pushed.unchanged, pushed.completed, pushed.detached) == (5, 0, 0)


def test_the_new_version_is_completed_before_the_old_one_leaves(place: Place):
    place.push()
    place.put("1", "another text")
    place.server.asked.clear()
    place.server.looks = 3

    pushed = place.push()

    place.check()
    acts = place.server.acts
    assert acts[2:] == ["upload", "attach", "look", "look", "look", "look", "detach"]
    assert (pushed.unchanged, pushed.completed, pushed.detached, pushed.left) == (4, 1, 1, 1)


def test_a_page_that_is_gone_leaves_before_anything_is_given(place: Place):
    place.push()
    place.drop("2")
    place.put("new", "a new page")
    place.server.asked.clear()

    pushed = place.push()

    place.check()
    acts = place.server.acts
    assert acts == ["list", "list", "detach", "upload", "attach", "look"]
    assert (pushed.completed, pushed.detached, pushed.left) == (1, 1, 1)


@pytest.mark.covers("M-16")
def test_a_rename_makes_a_new_entry(place: Place):
    place.push()
    place.desk.connection.execute(
        "UPDATE record SET url = 'http://docs.example/renamed' WHERE url = 'http://docs.example/3'"
    ).fetchall()
    place.expected["http://docs.example/renamed"] = place.expected.pop("http://docs.example/3")

    pushed = place.push()

    place.check()
    assert (pushed.completed, pushed.detached) == (1, 1)


def test_files_of_others_are_never_touched(place: Place):
    theirs = place.server.put("theirs", colour="red")
    other = place.server.put("of another source", smartcrawl_source="shop", name="theirs-too.md")
    loose = place.server.put("attached nowhere", store=None)
    named = place.server.put("text of page 0", store=None, name="theirs_docs.example_0.md")
    place.push()
    place.drop("0")
    place.put("1", "changed")

    place.push()

    assert {theirs, other, loose, named} <= place.server.uploads.keys()
    assert {theirs, other} <= place.server.stores[STORE].keys()
    assert not {theirs, other, loose, named} & {asked.file for asked in place.server.asked}


def test_a_failed_file_is_removed_told_and_tried_again(place: Place):
    """The former version stays until the new one is completed."""
    place.push()
    former = place.server.texts()
    place.put("1", "poison")
    place.server.fails = lambda text: "cannot be parsed" if "poison" in text else ""

    for _ in range(2):
        pushed = place.push()

        [(url, why)] = pushed.failed
        assert url == "http://docs.example/1"
        assert why == "the store could not embed it: cannot be parsed; its old version stays"
        assert len(place.server.uploads) == 5
        assert place.server.texts() == former
        assert (pushed.uploaded, pushed.is_whole) == (1, False)

    place.server.fails = lambda text: ""
    assert place.push().is_whole
    place.check()


@pytest.mark.covers("R3-84")
def test_what_leaves_the_store_stays_in_the_account_and_in_other_stores(place: Place):
    """A second store has the files, too: no push takes them from it."""
    place.push()
    other = place.server.stores["vs_theirs"] = dict(place.server.stores[STORE])
    held = set(other)
    place.put("1", "changed")
    place.drop("2")

    pushed = place.push()

    assert (pushed.detached, pushed.left) == (2, 2)
    assert held <= place.server.uploads.keys()
    assert other.keys() == held
    assert place.left() == held - place.server.stores[STORE].keys()
    assert len(place.left()) == 2
    place.check()


def test_a_file_that_others_take_out_of_the_store_stays_in_the_account(place: Place):
    """Also while the push waits for it."""
    place.server.looks = 2

    def takes(asked: Asked) -> Reply | None:
        if asked.act == "look":
            place.server.stores[STORE].pop("file-0001", None)
        return None

    place.server.answer = takes
    [(_, why)] = place.push().failed
    assert why == "another program detached it"
    assert "file-0001" in place.server.uploads
    assert place.left() == {"file-0001"}


def test_a_push_that_dies_while_a_new_version_fails_keeps_the_former_one(place: Place):
    place.push()
    place.put("1", "poison")
    place.server.fails = lambda text: "cannot be parsed" if "poison" in text else ""
    place.server.asked.clear()
    place.push()
    for after in range(len(place.server.asked)):
        place.server.asked.clear()
        place.push(is_ending=lambda after=after: len(place.server.asked) > after)
        assert "text of page 1" in place.server.texts()["http://docs.example/1"]

    place.server.fails = lambda text: ""
    place.push()

    place.check()


def test_a_page_that_goes_back_to_the_version_that_the_store_kept_gives_nothing(place: Place):
    place.push()
    place.put("1", "poison")
    place.server.fails = lambda text: "cannot be parsed" if "poison" in text else ""
    place.push()
    place.put("1", "text of page 1")

    pushed = place.push()

    assert (pushed.uploaded, pushed.is_whole) == (0, True)
    place.check()


def test_a_file_that_stays_in_progress_ends_the_wait_and_is_taken_up_next_time(place: Place):
    place.server.looks = 10_000

    pushed = place.push()

    assert 590 < place.clock.now <= 600
    assert sorted(pushed.in_progress) == sorted(place.expected)
    assert pushed.error is not None
    assert "not embedded any file for 600 s" in pushed.error
    assert pushed.failed == []
    assert len(place.server.uploads) == 5  # none was removed
    for entry in place.server.stores[STORE].values():
        entry["left"] = 0

    again = place.push()

    place.check()
    assert (again.uploaded, again.is_whole) == (0, True)


# Failures of the server


@pytest.mark.parametrize("status", [200, 429, 404])
def test_an_empty_list_counts_only_while_the_store_itself_answers(place: Place, status: int):
    place.push()
    rows = place.rows()
    kept = dict(place.server.stores[STORE])
    place.server.stores[STORE].clear()
    busy = iter([error("slow down", 429, retry_after="7")])
    refusals = {200: lambda: None, 429: lambda: next(busy, None), 404: lambda: error("gone", 404)}
    place.server.asked.clear()
    place.server.answer = lambda asked: refusals[status]() if asked.act == "store" else None

    pushed = place.push()

    assert place.server.acts[:2] == ["list", "store"]
    assert (pushed.error is not None) is (status == 404)
    if status == 404:
        assert place.rows() == rows
        assert set(place.server.acts) == {"list", "store"}
        place.server.stores[STORE] |= kept
        place.server.answer = lambda asked: None
        place.push()
    place.check()


def _poison(place: Place) -> None:
    """Let page 1 have a text that cannot be embedded: its new file is deleted."""
    place.put("1", "poison")
    place.server.fails = lambda text: "cannot be parsed" if "poison" in text else ""


def test_a_failed_file_is_deleted_after_a_429_and_named_where_that_is_refused(place: Place):
    _poison(place)
    busy = iter([error("slow down", 429, retry_after="7")])
    place.server.answer = lambda asked: next(busy, None) if asked.act == "delete" else None
    [(_, why)] = place.push().failed
    assert "cannot be parsed" in why
    assert 7.0 in place.clock.waits
    assert len(place.server.uploads) == 4
    place.server.answer = lambda asked: error("bad", 422) if asked.act == "delete" else None

    pushed = place.push()

    assert "cannot be removed: 422, bad" in pushed.failed[1][1]
    place.server.answer = lambda asked: None
    place.server.fails = lambda text: ""
    assert place.push().is_whole
    place.check()


@pytest.mark.long(but=3)
@pytest.mark.parametrize("act", [act for act in ACTS if act not in ("store", "delete")])
def test_a_429_is_waited_for_as_the_server_asks(place: Place, act: str):
    place.push()
    place.put("1", "changed")
    place.drop("2")
    place.desk.connection.execute(
        "UPDATE store_file SET status = 'intended', file = NULL WHERE url = ?",
        ("http://docs.example/4",),
    ).fetchall()  # its id was not noted: uploads are looked for
    refused: list[str] = []

    def busy(asked: Asked) -> Reply | None:
        if asked.act == act and act not in refused:
            refused.append(act)
            return error("slow down", 429, retry_after="7")
        return None

    place.server.answer = busy
    pushed = place.push()

    assert pushed.is_whole, pushed.error
    assert refused == [act]
    assert 7.0 in place.clock.waits
    place.check()


@pytest.mark.long(but=4)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize(
    "fault",
    [
        Reply({}, 500, is_done=True), Reply(b"{}", breaks_off=True, is_done=True),
        Reply({}, 503), Reply(b"<html>", is_done=True),
    ],
    ids=["500 and done", "breaks off", "503", "html"],
)  # fmt: skip
def test_a_fault_is_asked_again_and_leaves_nothing_behind(place: Place, act: str, fault: Reply):
    place.push()
    place.put("1", "changed")
    place.drop("2")
    failed: list[str] = []

    def faulty(asked: Asked) -> Reply | None:
        if asked.act == act and act not in failed:
            failed.append(act)
            return fault
        return None

    place.server.answer = faulty
    pushed = place.push()

    assert pushed.error is None
    assert pushed.failed == []
    place.check()


@pytest.mark.long(but=4)
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_no_fault_of_the_server_means_that_a_file_is_absent(place: Place, act: str, status: int):
    place.push()
    place.put("1", "changed")
    place.drop("2")
    before = len(place.server.uploads)
    place.server.answer = lambda asked: error("no", status) if asked.act == act else None

    pushed = place.push()

    if act in place.server.acts[len(ACTS) :] and act != "uploads":
        assert pushed.error is not None
    assert KEY not in str(pushed)
    assert len(place.server.uploads) >= before - 1
    place.server.answer = lambda asked: None
    assert place.push().is_whole
    place.check()


@pytest.mark.long(but=4)
@pytest.mark.parametrize("act", [act for act in ACTS if act != "delete"])
def test_a_request_that_is_refused_ends_the_push_or_names_the_page(place: Place, act: str):
    place.push()
    place.put("1", "changed")
    place.drop("2")
    lost = next(iter(place.server.stores[STORE]))
    del place.server.stores[STORE][lost]  # so that it is looked for
    place.server.answer = lambda asked: error("bad \x1b[1m", 422) if asked.act == act else None

    pushed = place.push()

    said = pushed.error or " ".join(why for _, why in pushed.failed)
    assert ("(422, bad" if pushed.error else "422, bad") in said or act == "uploads"
    assert "\x1b" not in said
    place.server.answer = lambda asked: None
    assert place.push().is_whole
    place.check()


def test_an_outage_is_waited_for_within_its_bound(place: Place):
    place.server.answer = lambda asked: error("busy", 503)

    pushed = place.push()

    assert pushed.error is not None
    assert "accepts no files now (503, busy)" in pushed.error
    assert place.clock.now <= place.away
    assert place.clock.waits[:5] == [1, 2, 4, 8, 16]


def test_a_retry_after_beyond_the_bound_ends_the_push_at_once(place: Place):
    place.server.answer = lambda asked: error("busy", 429, retry_after="3600")

    assert place.push().error is not None
    assert place.clock.waits == []
    assert len(place.server.asked) == 1


def test_a_store_that_is_gone_is_told_and_nothing_is_made_or_forgotten(place: Place):
    place.push()
    rows = place.rows()
    gone = place.server.stores.pop(STORE)
    place.put("1", "changed")

    pushed = place.push()

    assert pushed.error is not None
    assert f"has no vector store {STORE} (404, " in pushed.error
    assert "set VECTOR_STORE_ID" in pushed.error
    assert place.server.stores == {}
    assert place.rows() == rows
    place.server.stores[STORE] = gone
    assert place.push().is_whole
    place.check()


@pytest.mark.long(but=3)
@pytest.mark.parametrize("act", ["upload", "attach", "look", "detach", "delete", "list"])
def test_a_store_that_goes_during_a_push_ends_it(place: Place, act: str):
    place.push()
    place.put("1", "changed")
    place.server.looks = 2
    kept: dict[str, Any] = {}

    def goes(asked: Asked) -> Reply | None:
        if asked.act == act and STORE in place.server.stores:
            kept[STORE] = place.server.stores.pop(STORE)
        return None

    place.server.answer = goes
    pushed = place.push()

    if act != "delete":  # the last request needs no store
        assert pushed.error is not None
        assert "has no vector store" in pushed.error
    place.server.stores |= kept
    place.server.answer = lambda asked: None
    assert place.push().is_whole
    place.check()


@pytest.mark.parametrize("status", [404, 400])
def test_a_file_that_the_server_says_it_does_not_have_is_given_anew(place: Place, status: int):
    place.push()
    lost = next(iter(place.server.stores[STORE]))
    del place.server.stores[STORE][lost]
    place.server.answer = lambda asked: (
        error(f"File {lost} not found", status)
        if asked.act == "look" and asked.file == lost
        else None
    )

    pushed = place.push()

    assert pushed.is_whole
    assert pushed.completed == 1
    place.check()


def test_a_list_that_lacks_a_file_is_no_proof(place: Place):
    place.push()
    cut = {"object": "list", "data": [], "has_more": False}
    place.server.answer = lambda asked: Reply(cut) if asked.act == "list" else None

    pushed = place.push()

    assert (pushed.unchanged, pushed.uploaded, pushed.detached) == (5, 0, 0)
    place.check()


@pytest.mark.parametrize(
    "body",
    [
        {"object": "list", "data": [], "has_more": True},
        {"object": "list", "data": None, "has_more": False},
        {"object": "list", "data": [{"object": "vector_store.file"}], "has_more": False},
        {},
    ],
    ids=["empty with more", "no data", "no id", "nothing"],
)
def test_an_unsound_list_changes_nothing(place: Place, body: object):
    place.push()
    place.put("1", "changed")
    place.drop("2")
    before = list(place.server.uploads)
    place.server.answer = lambda asked: Reply(body) if asked.act == "list" else None

    assert place.push().error is not None
    assert list(place.server.uploads) == before


def test_a_list_without_end_ends_the_push(place: Place):
    place.push()
    entry = {"id": "file-0001", "object": "vector_store.file", "status": "completed"}
    endless = {"object": "list", "data": [entry], "has_more": True}
    place.server.answer = lambda asked: Reply(endless) if asked.act == "list" else None

    pushed = place.push()

    assert pushed.error is not None
    assert "has no end" in pushed.error
    assert len(place.server.uploads) == 5


@pytest.mark.long(but=4)
@pytest.mark.parametrize("name", FAULTS)
def test_after_each_fault_a_push_ends_equal_and_nothing_is_twice(place: Place, name: str):
    place.push()
    place.put("1", "changed")
    place.put("5", "new")
    place.drop("2")
    place.away = 30
    FAULTS[name](place.server)
    pushed = place.push()
    assert pushed.is_whole == (name in ("renamed", "blunt")), pushed
    mend(place.server)

    assert place.push().is_whole
    place.check()


# Deaths


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], None]:
    """Die at the n-th request, before it or after its answer."""
    count = [0]

    def arm(at: int, after: bool) -> None:
        count[0] = 0
        for name in ("check_store", "listed_page", "uploaded_page", "upload", "attach", "attached",
                     "detach", "delete"):  # fmt: skip
            monkeypatch.setattr(VectorStoreApi, name, wrapped(plain[name], at, after))

    plain = {name: getattr(VectorStoreApi, name) for name in dir(VectorStoreApi)}

    def wrapped(method: Any, at: int, after: bool) -> Any:
        def call(self: Any, *args: Any, **named: Any) -> Any:
            count[0] += 1
            mine = count[0] == at
            if mine and not after:
                raise Died
            answer = method(self, *args, **named)
            if mine:
                raise Died
            return answer

        return call

    return arm


@pytest.mark.long(but=5)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", range(1, 15))
def test_a_push_after_a_death_at_any_request_makes_the_store_equal(
    place: Place, dying: Callable[[int, bool], None], at: int, after: bool
):
    theirs = place.server.put("theirs")
    place.push()
    place.put("1", "changed")
    place.put("5", "new")
    place.drop("2")
    dying(at, after)
    try:
        place.push()
    except Died:
        died = True
    else:
        died = False
    dying(0, False)

    pushed = place.push()

    place.check()
    assert pushed.is_whole
    assert theirs in place.server.uploads
    assert died or at > 10


def test_the_registry_can_be_lost_and_nothing_is_given_twice(place: Place):
    place.push()
    place.desk.connection.execute("DELETE FROM store_file").fetchall()
    place.put("1", "changed meanwhile")
    place.drop("2")

    pushed = place.push()

    place.check()
    assert (pushed.adopted, pushed.uploaded) == (4, 1)


@pytest.mark.parametrize(
    "renames",
    [str, str.upper, lambda name: f"assistant-{name}.txt", lambda name: name.replace("-", "")],
    ids=["as given", "upper case", "longer", "without signs"],
)
def test_an_upload_without_an_answer_is_looked_for_by_its_unique_name(
    place: Place, renames: Callable[[str], str]
):
    place.concurrency = 1
    place.server.renames = renames
    place.away = 0
    place.server.answer = lambda asked: (
        Reply({}, 500, is_done=True) if asked.act == "upload" else None
    )
    assert place.push().error is not None
    assert len(place.server.uploads) == 1
    place.server.answer = lambda asked: None

    pushed = place.push()

    place.check()
    assert (pushed.adopted, pushed.uploaded) == (1, 4)


def test_an_upload_of_the_same_name_and_size_before_the_intent_is_not_taken(place: Place):
    place.concurrency = 1
    place.away = 0
    place.server.answer = lambda asked: (
        Reply({}, 500, is_done=True) if asked.act == "upload" else None
    )
    place.push(now=place.server.clock)
    [upload] = place.server.uploads.values()
    upload["created_at"] -= 86_401
    place.server.answer = lambda asked: None

    assert place.push().uploaded == 5
    assert upload["id"] in place.server.uploads


def test_an_upload_of_another_size_is_not_taken(place: Place):
    place.concurrency = 1
    place.away = 0
    place.server.answer = lambda asked: (
        Reply({}, 500, is_done=True) if asked.act == "upload" else None
    )
    place.push()
    [upload] = place.server.uploads.values()
    upload["bytes"] += 1
    place.server.answer = lambda asked: None

    assert place.push().uploaded == 5
    assert upload["id"] in place.server.uploads


def test_an_intent_whose_upload_never_appears_is_forgotten(place: Place):
    place.concurrency = 1
    place.away = 0
    place.server.answer = lambda asked: Reply({}, 500) if asked.act == "upload" else None
    place.push()
    assert [row[1] for row in place.rows()] == ["intended"]
    place.server.answer = lambda asked: None
    place.push()
    assert "intended" in [row[1] for row in place.rows()]

    place.push(now=place.server.clock + 3_601)

    assert "intended" not in [row[1] for row in place.rows()]
    place.check()


def test_the_end_of_the_process_ends_a_push_between_two_requests(place: Place):
    place.concurrency = 1
    pushed = place.push(is_ending=lambda: len(place.server.asked) >= 6)

    assert pushed.error is not None
    assert "the process is ending" in pushed.error
    assert len(place.server.asked) == 6
    assert place.push().is_whole
    place.check()


def test_random_histories_end_equal(place: Place, dying: Callable[[int, bool], None]):
    chance = random.Random(7)
    theirs = [place.server.put("theirs"), place.server.put("loose", store=None)]
    for step in range(25):
        name = str(chance.randrange(6))
        if chance.random() < 0.3 and f"http://docs.example/{name}" in place.expected:
            place.drop(name)
        else:
            place.put(name, f"text {step}")
        place.server.looks = chance.randrange(3)
        place.away = chance.choice([0, 100])
        place.server.answer = lambda asked: (
            chance.choice([Reply({}, 500, is_done=True), Reply({}, 503), error("slow", 429)])
            if chance.random() < 0.1
            else None
        )
        dying(chance.randrange(20), chance.random() < 0.5)
        with suppress(Died):
            place.push()
    place.server.answer = lambda asked: None
    dying(0, False)
    assert place.push().is_whole
    place.check()
    assert set(theirs) <= place.server.uploads.keys()
