"""The first hits of a search in the order of a cross-encoder."""

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any

import numpy
import pytest

from smartcrawl import settings
from smartcrawl.commands import search as search_command
from smartcrawl.index.embedding.cross_encoder import loaded_cross_encoder
from smartcrawl.index.query_vectors import QuestionVectors
from smartcrawl.index.reranking import MOST_RERANKED, reranked
from smartcrawl.index.search import search_index
from smartcrawl.index.searching import PLAIN, Answer, AnswerForm, Hit, HitChunk
from smartcrawl.model.exceptions import RerankError, SettingError
from smartcrawl.model.options import Options
from smartcrawl.rules.visibility import EVERYTHING
from smartcrawl.server.mcp.reading import McpQuestion, mcp_search
from smartcrawl.server.search import SearchQuery, api_search
from tests.index.embedding.small_models import WORDS, save_cross_encoder
from tests.registry.build import Desk

pytestmark = [pytest.mark.sqlite, pytest.mark.embedded]

#: Words of the model, those that answer best first.
WORTH = {"stop": 3.0, "end": 2.0, "halt": 1.0, "cake": -1.0}


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    """Let a test load a model of its own, and no other test find that."""
    yield
    loaded_cross_encoder.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save_cross_encoder(tmp_path / "model", WORTH)


# The model


def test_a_score_is_what_the_network_makes_of_question_and_text(folder: Path):
    model = loaded_cross_encoder(folder)

    assert model.scores("stop", ["end", "cake job", "Stop END", ""], 60) == [2, -1, 5, 0]


@pytest.mark.parametrize(("config", "counted"), [({"model_max_length": 8}, 5), ({}, 9)])
def test_what_the_model_does_not_read_at_once_is_left_out(
    tmp_path: Path, config: dict[str, int], counted: int
):
    """Of eight tokens three are marks; the longer text loses what is too much."""
    model = loaded_cross_encoder(save_cross_encoder(tmp_path, {"end": 1.0}, **config))

    assert model.scores("", ["end " * 9], 60) == [counted]


@pytest.mark.parametrize("length", [10**30, 1e30, True, None, "many"])
def test_a_length_that_says_nothing_is_the_most_that_is_read(tmp_path: Path, length: object):
    model = loaded_cross_encoder(
        save_cross_encoder(tmp_path, {"end": 1.0}, model_max_length=length)
    )
    assert model.scores("", ["end " * 600], 60) == [256 - 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), "it has no file model.onnx or "),
        (lambda folder: (folder / "tokenizer.json").unlink(), "it has no file tokenizer.json"),
        (lambda folder: (folder / "model.onnx").write_text("x"), "its files cannot be loaded ("),
        (lambda folder: save_cross_encoder(folder, WORTH, width=2),
         "its network gives 2 numbers for a pair instead of one"),
        (lambda folder: save_cross_encoder(folder, {"[SEP]": numpy.nan}),
         "its network gives a number that is not finite"),
        (lambda folder: save_cross_encoder(folder, WORTH, model_max_length=7),
         "model_max_length in its file tokenizer_config.json is 7"),
        (lambda folder: save_cross_encoder(folder, WORTH, model_max_length=numpy.nan),
         "model_max_length in its file tokenizer_config.json is nan"),
        (lambda folder: (folder / "tokenizer_config.json").write_text("[]"),
         "its file tokenizer_config.json has no JSON object"),
    ],
)  # fmt: skip
def test_a_folder_without_a_model_that_can_be_used_is_an_error(
    folder: Path, change: Any, message: str
):
    change(folder)

    with pytest.raises(SettingError) as caught:
        loaded_cross_encoder(folder)

    text = str(caught.value)
    assert text.startswith(f"RERANK_FOLDER is {str(folder)!r}: {message}")
    assert text.endswith(
        "expected the folder of a cross-encoder with model.onnx and tokenizer.json"
    )


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path):
    with pytest.raises(SettingError, match=r"RERANK_FOLDER is '.*none': there is no such folder"):
        loaded_cross_encoder(tmp_path / "none")


def test_without_its_packages_the_error_says_what_to_install(
    folder: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)

    with pytest.raises(SettingError) as caught:
        loaded_cross_encoder(folder)

    assert str(caught.value).startswith("reranking needs packages that are not installed (")
    assert str(caught.value).endswith("; or leave RERANK_FOLDER empty")


def test_a_network_is_stopped_when_its_time_is_over(tmp_path: Path):
    """One pair of it takes seconds."""
    folder = save_cross_encoder(tmp_path, WORTH)
    model = loaded_cross_encoder(folder)
    save_cross_encoder(tmp_path / "slow", WORTH, idle=800)
    loaded_cross_encoder.cache_clear()
    slow = loaded_cross_encoder(tmp_path / "slow")

    with pytest.raises(TimeoutError):
        slow.scores("a", ["end"] * 100, 0.05)
    assert model.scores("a", ["end"], 60) == [2]


# Searches


@pytest.fixture
def desk() -> Iterator[Desk]:
    """Pages with the word apple: the more often, the earlier by words."""
    desk = Desk()
    desk.open()
    for n, word in enumerate(WORDS[4:11]):
        desk.index(f"http://a.example/{word}", f"{'apple ' * (9 - n)} {word}")
    desk.seal()
    yield desk
    desk.close()


def options(**changed: object) -> Options:
    return Options.of(settings.defaults | {"DATA_DIR": "/state"} | changed)


def searched(
    desk: Desk,
    query: str = "apple",
    *,
    limit: int = 10,
    offset: int = 0,
    form: AnswerForm = PLAIN,
    **changed: object,
) -> Answer:
    chosen = options(**changed)
    return search_index(desk.connection, query, chosen, limit=limit, offset=offset, form=form)


def words(answer: Answer) -> list[str]:
    return [hit.url.rpartition("/")[2] for hit in answer.hits]


BY_WORDS = ["stop", "end", "halt", "a", "run", "job", "cake"]


def test_without_a_model_the_order_is_that_of_the_index(desk: Desk):
    assert words(searched(desk)) == BY_WORDS


def test_hits_are_in_the_order_of_the_model_and_scores_fall(desk: Desk, tmp_path: Path):
    worth = {"cake": 3.0, "run": 2.0, "stop": -1.0}
    folder = save_cross_encoder(tmp_path, worth)
    before, found = searched(desk), searched(desk, RERANK_FOLDER=str(folder))

    assert words(found) == ["cake", "run", "end", "halt", "a", "job", "stop"]
    assert [hit.score for hit in found.hits] == [hit.score for hit in before.hits]
    assert found.note == before.note == ""
    shown = {hit.url: hit.snippet for hit in before.hits}
    assert {hit.url: hit.snippet for hit in found.hits} == shown


@pytest.mark.parametrize("door", ["command", "api", "mcp"])
def test_each_door_has_the_same_order(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str], door: str
):
    folder = save_cross_encoder(tmp_path, {"cake": 3.0, "run": 2.0, "stop": -1.0})
    chosen = options(RERANK_FOLDER=str(folder))
    vectors = QuestionVectors()
    if door == "api":
        asked = SearchQuery(q="apple")
        answer = api_search(desk.connection, asked, chosen, vectors, EVERYTHING)
        found = [hit["url"] for hit in answer["hits"]]
    elif door == "mcp":
        hits = mcp_search(desk.connection, McpQuestion("apple"), chosen, vectors)
        found = [hit.url for hit in hits.results]
    else:
        command, parser = search_command.Command(), ArgumentParser()
        command.options = chosen
        command.add_options(parser)
        words_, rest = parser.parse_known_args(["--format", "json", "apple"])
        command.work(desk.connection, [], rest, words_)
        found = [hit["url"] for hit in json.loads(capsys.readouterr().out)]

    names = [url.rpartition("/")[2] for url in found]
    assert names == ["cake", "run", "end", "halt", "a", "job", "stop"]


def test_the_latest_pages_stay_first(desk: Desk, tmp_path: Path):
    folder = save_cross_encoder(tmp_path, {"cake": 3.0})
    latest = AnswerForm(by_date=True)
    before = searched(desk, form=latest)

    found = searched(desk, form=latest, RERANK_FOLDER=str(folder))

    assert words(found) == words(before) != words(searched(desk, RERANK_FOLDER=str(folder)))


def test_title_and_headings_are_read_with_the_text(desk: Desk, tmp_path: Path):
    desk.open()
    desk.index("http://a.example/title", "apple", title="cake")
    desk.seal()
    folder = save_cross_encoder(tmp_path, {"cake": 1.0})

    assert words(searched(desk, RERANK_FOLDER=str(folder)))[:2] in (
        ["title", "cake"],
        ["cake", "title"],
    )


def test_pages_of_hits_are_parts_of_one_order(desk: Desk, tmp_path: Path):
    folder = str(save_cross_encoder(tmp_path, {"cake": 3.0, "run": 2.0}))
    whole = words(searched(desk, RERANK_FOLDER=folder))

    parts = [searched(desk, limit=2, offset=n, RERANK_FOLDER=folder) for n in range(0, 8, 2)]

    assert [word for part in parts for word in words(part)] == whole
    assert words(searched(desk, limit=0, RERANK_FOLDER=folder)) == []


def test_only_the_first_hits_change_their_places(tmp_path: Path):
    desk = Desk()
    desk.open()
    for n in range(MOST_RERANKED + 3):
        desk.index(f"http://a.example/{n}", f"{'apple ' * (60 - n)} {'cake' if n > 10 else 'job'}")
    desk.seal()
    folder = str(save_cross_encoder(tmp_path, {"cake": 1.0}))
    before = words(searched(desk, limit=30))

    found = words(searched(desk, limit=30, RERANK_FOLDER=folder))
    later = searched(desk, limit=5, offset=MOST_RERANKED, RERANK_FOLDER=folder)

    first = before[:MOST_RERANKED]
    assert found[:MOST_RERANKED] == sorted(first, key=lambda name: int(name) <= 10)
    assert found[MOST_RERANKED:] == before[MOST_RERANKED:] == words(later)
    desk.close()


@pytest.mark.parametrize("query", ["nothing", "cake"])
def test_a_model_is_not_loaded_for_fewer_than_two_hits(desk: Desk, tmp_path: Path, query: str):
    found = searched(desk, query, RERANK_FOLDER=str(tmp_path / "none"))

    assert found.note == ""
    assert words(found) == (["cake"] if query == "cake" else [])


def test_a_folder_without_a_model_keeps_the_order_with_a_note(desk: Desk, tmp_path: Path):
    found = searched(desk, RERANK_FOLDER=str(tmp_path / "none"))

    assert words(found) == BY_WORDS
    assert found.note.startswith("not reranked: RERANK_FOLDER is ")
    assert "there is no such folder" in found.note


def test_a_model_that_takes_too_long_keeps_the_order_with_a_note(desk: Desk, tmp_path: Path):
    folder = save_cross_encoder(tmp_path, WORTH, idle=800)
    found = searched(desk, RERANK_FOLDER=str(folder), RERANK_SECONDS=0.01)

    assert words(found) == BY_WORDS
    note = f"not reranked: the model in {folder} took longer than RERANK_SECONDS (0.01 s)"
    assert found.note == note


def test_a_model_that_fails_keeps_the_order_with_a_note(
    desk: Desk, folder: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> list[float]:
        raise RerankError("its network fails (a fault)")

    monkeypatch.setattr(loaded_cross_encoder(folder), "scores", fail)
    found = searched(desk, RERANK_FOLDER=str(folder))

    assert words(found) == BY_WORDS
    assert found.note == f"not reranked, by the model in {folder}: its network fails (a fault)"


def made(name: str, *texts: str, title: str = "", description: str = "") -> Hit:
    """A hit with chunks of these texts."""
    return Hit(
        url=name, source="docs", title=title, headings="", snippet="", score=1.0, language="en",
        description=description, lost=False, last_checked=None, last_changed=None,
        chunks=tuple(HitChunk(n, "Headings", "", text) for n, text in enumerate(texts)),
    )  # fmt: skip


class Index:
    """A search that finds these hits, best first, with falling scores."""

    def __init__(self, *hits: Hit, meant: str = "", note: str = "") -> None:
        self._hits = [replace(hit, score=100.0 - n) for n, hit in enumerate(hits)]
        self._meant, self._note = meant, note
        self.asked: list[tuple[int, int]] = []

    def __call__(self, *_: object, limit: int = 10, offset: int = 0, **within: object) -> Answer:
        self.asked.append((limit, offset))
        return Answer(self._hits[offset : offset + limit], self._meant, self._note)

    def found(self, folder: Path | str, query: str = "apple", **within: Any) -> Answer:
        connection: Any = None
        chosen = options(RERANK_FOLDER=str(folder))
        return reranked(wraps(search_index)(self))(connection, query, chosen, **within)

    def names(self, folder: Path, **within: Any) -> list[str]:
        return [hit.url for hit in self.found(folder, **within).hits]


def test_ten_hits_of_twenty_that_are_read_are_shown(folder: Path):
    index = Index(*(made(f"{n}", "stop" if n == 19 else "job") for n in range(25)))

    assert index.names(folder) == ["19", *(f"{n}" for n in range(9))]
    assert index.names(folder, offset=10) == [f"{n}" for n in range(9, 19)]
    assert index.names(folder, limit=1) == ["19"]
    assert index.names(folder, limit=30)[20:] == [f"{n}" for n in range(20, 25)]
    assert index.asked == [(20, 0), (20, 0), (20, 0), (30, 0)]


def test_the_hit_after_the_twentieth_stays(folder: Path):
    index = Index(*(made(f"{n}", "stop" if n == 20 else "job") for n in range(25)))

    assert index.names(folder, limit=25) == [f"{n}" for n in range(25)]


@pytest.mark.parametrize("within", [{"offset": 20}, {"limit": 0}], ids=["later", "none"])
def test_no_model_is_loaded_for_hits_that_are_not_read(within: dict[str, int], tmp_path: Path):
    index = Index(*(made(f"{n}", "job") for n in range(25)))

    found = index.found(tmp_path / "none", **within)

    assert found.note == ""
    assert index.asked == [(within.get("limit", 10), within.get("offset", 0))]


def test_two_hits_change_their_places_by_the_best_chunk_of_each(folder: Path):
    first, second = made("a", "halt", "stop stop"), made("b", "end", "cake")

    assert Index(first, second).names(folder) == ["b", "a"]
    assert Index(made("a", description="halt"), made("b", description="end")).names(folder) == [
        "b",
        "a",
    ]
    assert Index(made("a", "job", title="halt"), made("b", "job", title="end")).names(folder) == [
        "b",
        "a",
    ]


@pytest.mark.parametrize(("meant", "question"), [("", "appel pie"), ("apple pie", "apple pie")])
def test_the_question_is_that_which_was_answered_without_its_filters(
    folder: Path, monkeypatch: pytest.MonkeyPatch, meant: str, question: str
):
    asked: list[object] = []

    def scores(text: str, texts: list[str], seconds: float) -> list[float]:
        asked.extend([text, texts, seconds])
        return [0.0] * len(texts)

    monkeypatch.setattr(loaded_cross_encoder(folder), "scores", scores)
    index = Index(made("a", "one", title="A"), made("b", "two"), meant=meant)

    index.found(folder, "appel pie site:a.example" if not meant else "appel pie")

    assert asked == [question, ["A\nHeadings\none", "Headings\ntwo"], 2.0]


def test_both_notes_are_shown(tmp_path: Path):
    index = Index(made("a", "job"), made("b", "job"), note="only words counted: x")

    assert index.found(tmp_path / "none").note.startswith("only words counted: x; not reranked: ")


@pytest.mark.parametrize("seconds", [0, 61, "soon"])
def test_the_time_has_bounds(seconds: object):
    with pytest.raises(SettingError, match=r"RERANK_SECONDS.*a number from 0.01 to 60"):
        options(RERANK_SECONDS=seconds)
