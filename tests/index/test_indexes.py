"""An index elsewhere that other processes write while this one opens it (ADR 130)."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from smartcrawl.index import choice, known, remote
from smartcrawl.index.elasticsearch.documents import index_version
from smartcrawl.index.elasticsearch.meta import FOREIGN, Known
from smartcrawl.model.documents import DEFAULT_CHUNK_SIZE
from smartcrawl.model.exceptions import SinkError
from smartcrawl.model.option_groups import ElasticsearchTarget
from smartcrawl.model.options import Options
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.choices import stored_registry_id
from tests.registry.build import Desk


class Index:
    """As much of an index as its registry asks for when it is opened."""

    embedder = patience = None

    def identity(self) -> str:
        return "index 1"

    def begin(self, openings: int) -> None:
        self.begun = openings


@pytest.fixture
def options() -> Options:
    """Options that name an Elasticsearch; nobody asks it."""

    class Named:
        elasticsearch = ElasticsearchTarget("http://127.0.0.1:9200", "docs")
        chunks = DEFAULT_CHUNK_SIZE
        embedder = None

    return cast("Options", Named())


def note(desk: Desk, **told: str) -> None:
    with transaction(desk.connection):
        known.note_index_facts(desk.connection, **told)


def test_an_index_that_another_process_wrote_meanwhile_is_opened_with_what_that_one_noted(
    options: Options, monkeypatch: pytest.MonkeyPatch
):
    desk, index = Desk(), Index()
    asked: list[Known] = []

    def opened_as(options: Options, facts: Known, *_: Any) -> Any:
        asked.append(facts)
        if len(asked) == 1:
            note(desk, identity="index 1", epoch="1", sealed="7")
            raise SinkError(FOREIGN)
        return index

    monkeypatch.setattr(remote, "open_index_to_compare", opened_as)

    assert remote.open_remote_index(options, desk.connection) is cast("Any", index)
    own = stored_registry_id(desk.connection)
    assert asked == [
        Known(registry=own), Known(identity="index 1", sealed=7, registry=own)
    ]  # fmt: skip


def test_an_index_that_does_not_fit_is_refused_at_once(
    options: Options, monkeypatch: pytest.MonkeyPatch
):
    desk = Desk()
    asked: list[Known] = []

    def opened_as(options: Options, facts: Known, *_: Any) -> Any:
        asked.append(facts)
        raise SinkError(FOREIGN)

    monkeypatch.setattr(remote, "open_index_to_compare", opened_as)

    with pytest.raises(SinkError, match="was written by another registry"):
        remote.open_remote_index(options, desk.connection)
    assert asked == [Known(registry=stored_registry_id(desk.connection))]


def test_what_another_process_noted_of_the_index_meanwhile_is_not_noted_anew(
    options: Options, monkeypatch: pytest.MonkeyPatch
):
    desk = Desk()

    def opened(*_: Any, **named: Any) -> Any:
        note(desk, identity="index 1", epoch="1", sealed="7")
        return Index()

    monkeypatch.setattr(remote, "open_remote_index", opened)
    choice.index_writer_of_registry(options, desk.connection)

    assert known.read_index_facts(desk.connection)[known.SEALED] == "7"


def test_an_index_of_which_nothing_is_known_is_noted(
    options: Options, monkeypatch: pytest.MonkeyPatch
):
    desk = Desk()
    monkeypatch.setattr(remote, "open_remote_index", lambda *_, **named: Index())
    choice.index_writer_of_registry(options, desk.connection)

    assert known.read_index_facts(desk.connection) == {
        known.IDENTITY: "index 1", known.EPOCH: "1", known.SEALED: "0", known.EMBEDDER: "",
        known.OPENINGS: "1", known.PLACE: "docs-pages at http://127.0.0.1:9200",
    }  # fmt: skip


def test_a_new_epoch_begins_behind_all_that_the_index_has(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
):
    sealed: list[int] = []
    sink = SimpleNamespace(
        highest=lambda: index_version(3, 70), identity=lambda: "index 1", openings=lambda: 5,
        sealed=sealed.append,
    )  # fmt: skip
    monkeypatch.setattr(remote, "open_remote_index", lambda *_: nullcontext(sink))
    options: Any = None

    assert remote.begin_index_epoch(options, desk.connection) == (4, 0)
    assert known.read_index_facts(desk.connection) == {
        known.IDENTITY: "index 1", known.EPOCH: "4", known.OPENINGS: "5",
        known.SEALED: str(index_version(4, 0)),
    }  # fmt: skip
    assert sealed == [0], "the index is at what the registry says"


@pytest.mark.parametrize(
    ("place", "opened", "words"),
    [
        ("docs at a", "docs at b", "; the index of this registry is docs at a"),
        ("docs at a", None, "; the index of this registry is docs at a"),
        ("docs at a", "docs at a", ""),
        (None, "docs at b", ""),
    ],
)
def test_a_refusal_names_the_index_of_the_registry_unless_it_is_the_refused_one(
    place: str | None, opened: str | None, words: str
):
    facts = {} if place is None else {known.PLACE: place}

    assert known.index_place_words(facts, opened) == words
