"""`embed` and `search --mode`, as a person would type them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from smartcrawl.registry.chunks import vector_table
from tests.commands.two_sources import TwoSources
from tests.crawls.commands import Scrapy
from tests.index.embedding.embeddings_server import (
    EmbeddingsServer,
    embeddings,
    embeddings_server,
)
from tests.index.embedding.small_models import TABLE, save_small_model
from tests.index.meanings import topic_numbers, vector_registry
from tests.openai_server import KEY, Reply, error

KEYS = [
    "embedder",
    "model",
    "dimension",
    "embedded",
    "refused",
    "owed",
    "dropped",
    "error",
    "reasons",
]


class Place(TwoSources):
    """A registry of two sources without vectors."""

    def __init__(self, folder: Path, ask: Scrapy, url: str) -> None:
        super().__init__(folder, ask, ["cancel a paused job", "😀"], url)
        self.environment["EMBEDDER"] = "local"

    def openai(self, server: EmbeddingsServer) -> None:
        self.environment |= server.settings | {"OPENAI_API_KEY": KEY}

    def onnx(self, folder: Path) -> None:
        self.environment |= {"EMBEDDER": "onnx", "EMBEDDING_FOLDER": str(folder)}

    def count(self, condition: str = "1 = 1") -> object:
        return self.desk.value(
            f"SELECT count(*) FROM {vector_table(self.desk.connection)} WHERE {condition}"
        )


@pytest.fixture
def place(tmp_path: Path, ask: Scrapy, request: pytest.FixtureRequest) -> Iterator[Place]:
    with vector_registry(getattr(request, "param", "sqlite"), request) as url:
        place = Place(tmp_path, ask, url)
        yield place
        place.desk.close()


#: For tests of a command that may meet another database.
both = pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def server() -> Iterator[EmbeddingsServer]:
    with embeddings_server() as server:
        yield server


@both
@pytest.mark.covers("M-47")
def test_embed_makes_the_missing_vectors_and_counts_them(place: Place):
    first = place.run("embed")
    again = place.json("embed")

    start = "2 chunks embedded, 1 text refused (local, l2_supercat_256-"
    assert first.out.startswith(start)
    assert first.err == ""
    assert (again["embedded"], again["refused"], again["owed"]) == (0, 0, 0)
    assert (again["embedder"], again["dimension"], again["error"]) == ("local", 256, None)
    assert (place.count(), place.count("vector IS NULL")) == (3, 1)


@both
def test_embed_and_why_say_which_page_has_no_vector_and_why(place: Place):
    """Of an emoji the model knows nothing."""
    reason = "the text has no word that the model knows"
    desk = place.desk
    desk.open()
    for n in range(5):
        desk.index(f"http://shop.example/{n}", "🎉" * (n + 1))

    lines = place.run("embed").out.splitlines()
    why = place.run("why", "http://docs.example/1")
    [record] = place.json("why", "http://docs.example/1")["records"]
    [known] = place.json("why", "http://docs.example/0")["records"]

    assert len(lines) == 7
    assert {line.rpartition("/")[0] for line in lines[1:6]} <= {
        "  http://docs.example", "  http://shop.example",
    }  # fmt: skip
    assert all(line.endswith(f": {reason}") for line in lines[1:6])
    assert lines[6] == "  and 1 more"
    assert f", 1 refused ({reason})" in " ".join(why.out.split())
    assert record["vectors"]["reasons"] == [reason]
    assert known["vectors"]["reasons"] == []


def test_the_words_of_a_server_cannot_write_on_the_terminal(place: Place, server: EmbeddingsServer):
    place.openai(server)
    refusal = error("no \x1b[2Jsuch\ntext", 400)
    server.answer = lambda asked: refusal if any("😀" in one for one in asked.texts) else None

    done = place.run("embed")

    assert "such" in done.out
    assert "\x1b" not in done.out
    assert "\ntext" not in done.out


def test_embed_as_json_has_its_keys(place: Place, server: EmbeddingsServer):
    place.openai(server)
    dry = place.json("embed", "--dry-run")
    done = place.json("embed")
    place.desk.connection.execute(
        "UPDATE vector SET unused_since = 0, hash = x'00'"
        " WHERE hash = (SELECT min(hash) FROM vector)"
    ).fetchall()
    again = place.json("embed")

    assert list(dry) == list(done) == KEYS
    assert (dry["embedded"], dry["refused"], dry["owed"]) == (0, 0, 3)
    assert (done["embedded"], done["refused"], done["owed"], done["dropped"]) == (3, 0, 0, 0)
    assert (done["embedder"], done["model"], done["dimension"]) == ("openai", "some-model", 4)
    assert (again["embedded"], again["dropped"]) == (1, 1)


@both
def test_a_dry_run_says_how_many_and_sends_and_stores_nothing(
    place: Place, server: EmbeddingsServer
):
    place.openai(server)

    result = place.run("embed", "--dry-run")

    assert result.out == "3 chunks would be embedded (openai, some-model)\n"
    assert server.asked == []
    assert place.desk.value("SELECT count(*) FROM embedder") == place.count() == 0


def test_embed_of_one_source_leaves_the_others_owed(place: Place, server: EmbeddingsServer):
    place.openai(server)
    assert place.json("embed", "--source", "shop")["embedded"] == 1
    assert place.desk.value("SELECT whole_at FROM embedder") is None
    assert place.json("embed", "--dry-run")["owed"] == 2
    assert place.json("embed", "--dry-run", "--source", "shop")["owed"] == 0


def test_embed_says_how_much_text_goes_where_and_the_key_is_nowhere(
    place: Place, server: EmbeddingsServer
):
    place.openai(server)

    result = place.run("embed")
    nothing = place.run("embed")

    assert result.err == f"embed: the text of 3 chunks is sent to {server.host}, model some-model\n"
    assert result.out == "3 chunks embedded (openai, some-model)\n"
    assert server.host not in nothing.err + nothing.out
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    place.check_files_have_no_key()


def test_embed_is_not_carried_out_while_the_embedder_is_away(
    place: Place, server: EmbeddingsServer
):
    place.openai(server)
    server.answer = lambda asked: error("busy", 503)

    result = place.run("embed", expect=1)
    data = place.json("embed", expect=1)

    assert f"embed: {server.host} makes no vectors now (503, busy)" in result.err
    assert "0 chunks embedded, 3 chunks still without a vector" in result.out
    assert list(data) == KEYS
    assert (data["embedded"], data["owed"]) == (0, 3)
    assert data["error"].startswith(f"{server.host} makes no vectors now")


def test_embed_stops_at_a_refused_key_and_shows_it_nowhere(place: Place, server: EmbeddingsServer):
    place.openai(server)
    server.answer = lambda asked: error(f"Incorrect API key provided: {KEY}", 401)

    result = place.run("embed", expect=1)

    assert len(server.asked) == 1
    assert "401" in result.err


def test_embed_asks_again_for_a_text_that_was_answered_with_zeros(
    place: Place, server: EmbeddingsServer
):
    place.openai(server)
    some = Reply(embeddings(["", "", ""], [[1.0, 0, 0, 0], [0.0] * 4, [0, 1.0, 0, 0]]))
    server.replies = [Reply(embeddings(["", "", ""], [[0.0] * 4] * 3)), some]

    nothing = place.run("embed", expect=1)
    first = place.run("embed", expect=3)
    asked = len(server.asked)
    again = place.run("embed")

    assert nothing.out.startswith("0 chunks embedded, 3 chunks still without a vector")
    assert nothing.out.count("http://docs.example/") == 2
    assert nothing.out.count(": its vector has only zeros\n") == 3
    assert first.out.startswith("2 chunks embedded, 1 chunk still without a vector")
    assert (asked, len(server.asked[-1].texts)) == (2, 1)
    assert again.out == "1 chunk embedded (openai, some-model)\n"
    assert place.count("vector IS NOT NULL") == 3


def test_embed_exits_with_3_where_some_have_a_vector_and_some_have_none_yet(
    place: Place, server: EmbeddingsServer
):
    place.openai(server)
    desk = place.desk
    desk.open()
    visit = desk.visit("http://shop.example/more", "more")
    visit.parsed.chunks = [type(visit.parsed.chunks[0])((), f"line {n}") for n in range(300)]
    desk.write(visit)
    server.answer = lambda asked: error("busy", 503) if len(server.asked) > 2 else None

    result = place.run("embed", expect=3, EMBEDDING_BATCH_TEXTS="128")

    assert "256 chunks embedded, 47 chunks still without a vector" in result.out
    assert place.count() == 256
    server.answer = lambda asked: None
    assert "47 chunks embedded (openai" in place.run("embed").out


def test_embed_without_an_embedder_says_how_to_set_one(place: Place):
    result = place.run("embed", expect=2, EMBEDDER="")

    assert "no embedder: set EMBEDDER to local, onnx or openai" in result.err


def test_embed_of_an_unknown_source_names_the_known_ones(place: Place):
    result = place.run("embed", "--source", "dosc", expect=1)

    assert "dosc" in result.err
    assert "docs" in result.err
    assert place.count() == 0


@pytest.mark.parametrize("args", [["crawl", "site", "-a", "url=http://127.0.0.1:1/"], ["embed"]],
                         ids=["crawl", "embed"])  # fmt: skip
def test_an_index_that_was_beside_the_registry_is_refused_elsewhere_before_the_first_request(
    place: Place, args: list[str]
):
    result = place.run(*args, expect=1, ELASTICSEARCH_URL="http://127.0.0.1:1")

    assert "the pages of this registry are in its embedded index" in result.err
    assert place.desk.value("SELECT count(*) FROM run WHERE source > 2") == 0


def test_status_and_why_count_the_embedder_that_is_built_beside_the_whole_one(
    place: Place, server: EmbeddingsServer
):
    """Searches use `local` until every chunk has its vector of `openai`."""
    place.run("embed")
    alone = place.json("status")["sources"]
    place.openai(server)
    server.answer = lambda asked: error("busy", 503)
    place.run("embed", expect=1)

    status = place.run("status", "--details")
    why = place.run("why", "http://docs.example/0")
    found = {one["source"]: one["vectors"] for one in place.json("status")["sources"]}
    server.answer = lambda asked: None
    place.run("embed")
    whole = place.json("status")["sources"]

    assert "  vectors    1 of 2 chunks (local, l2_supercat_256-" in status.out
    assert "  building   0 of 2 chunks (openai, some-model), 2 owed\n" in status.out
    assert "  vectors    1 of 1 chunk (local, l2_supercat_256-" in why.out
    assert "  building   0 of 1 chunk (openai, some-model), 1 owed\n" in why.out
    building = found["docs"]["building"]
    assert (found["docs"]["embedder"], found["docs"]["owed"]) == ("local", 0)
    assert (building["embedder"], building["owed"], building["building"]) == ("openai", 2, None)
    assert {one["vectors"]["building"] for one in alone + whole if one["vectors"]} == {None}
    assert whole[0]["vectors"]["embedder"] == "openai"


def test_an_embedder_that_was_given_up_is_not_built_beside(place: Place, server: EmbeddingsServer):
    place.run("embed")
    local = dict(place.environment)
    place.openai(server)
    place.run("embed", "--source", "shop")
    during = place.json("status")["sources"]
    place.environment = local
    place.run("embed")

    assert [one["vectors"]["building"]["owed"] for one in during] == [2, 0]
    assert [one["vectors"]["building"] for one in place.json("status")["sources"]] == [None, None]
    assert place.count("unused_since IS NOT NULL") == 1


# A sentence model in a folder


@both
def test_a_sentence_model_in_a_folder_makes_vectors_and_is_asked_by_searches(
    place: Place, tmp_path: Path
):
    place.onnx(save_small_model(tmp_path / "model"))
    first = place.json("embed")
    again = place.json("embed")

    assert (first["embedder"], first["embedded"], first["refused"]) == ("onnx", 1, 2)
    assert first["model"].startswith("onnx-")
    assert first["dimension"] == 4
    assert (again["embedded"], again["owed"], again["error"]) == (0, 0, None)
    found = place.json("search", "--mode", "vector", "end job")
    assert found[0]["url"] == "http://docs.example/0"


def test_another_model_is_built_beside_and_one_that_moves_costs_nothing(
    place: Place, tmp_path: Path
):
    """Until the other's vectors are whole its questions cannot be compared: words count."""
    changed = TABLE.copy()
    changed[5, 0] += 1
    first, other = tmp_path / "first", tmp_path / "other"
    place.onnx(save_small_model(first))
    place.run("embed")
    first.rename(tmp_path / "moved")
    place.onnx(tmp_path / "moved")
    assert place.json("embed", "--dry-run")["owed"] == 0

    place.onnx(save_small_model(other, table=changed))
    before = place.run("search", "apple")
    assert place.json("embed")["embedded"] == 1
    after = place.run("search", "--mode", "vector", "job")

    assert before.err.startswith("note: only words counted: the vectors are of onnx-")
    assert "run scrapy embed" in before.err
    assert "http://docs.example/0" in after.out


def test_a_search_names_the_folder_that_the_stored_vectors_need(place: Place, tmp_path: Path):
    place.onnx(save_small_model(tmp_path / "model"))
    place.run("embed")

    local = place.run("search", "apple", EMBEDDER="local", EMBEDDING_FOLDER="")
    gone = place.run("search", "apple", EMBEDDING_FOLDER=str(tmp_path / "gone"))

    assert "the query has no vector" in local.err  # by the model, whose folder the registry knows
    assert "there is no such folder; expected the folder of a sentence model" in gone.err
    assert "http://shop.example/0" in local.out
    assert "http://shop.example/0" in gone.out


@both
def test_texts_that_a_server_refused_for_a_while_are_asked_for_again(
    place: Place, server: EmbeddingsServer
):
    place.openai(server)
    server.answer = lambda asked: error("odd", 400) if "text" not in asked.texts else None
    assert place.json("embed")["refused"] == 3
    server.answer = lambda asked: None

    note = "3 of 3 chunks are refused by the embedder (the server refuses it: 400, odd)"
    assert note in place.run("search", "--mode", "vector", "apple").err
    assert note in place.run("search", "apple").err
    shown = place.run("status", "--details")
    usual = place.json("embed")
    counted = place.json("embed", "--refused", "--dry-run")
    again = place.json("embed", "--refused")

    assert "0 of 2 chunks (openai, some-model), 2 refused (the server refuses it: 400, odd)" in (
        " ".join(shown.out.split())
    )
    assert "2 chunks refused by the embedder (the server refuses it: 400, odd), so a search by" in (
        " ".join(shown.out.split())
    )
    assert "embed --refused --source docs" in " ".join(shown.out.split())
    assert (usual["embedded"], usual["owed"]) == (0, 0)
    assert (counted["owed"], again["embedded"], again["refused"]) == (3, 3, 0)
    assert "refused" not in place.run("status", "--details").out


@both
def test_another_model_is_asked_nothing_more_until_all_vectors_are_made_anew(
    place: Place, server: EmbeddingsServer
):
    """The same settings, and a server that has another model by now."""
    place.openai(server)
    place.run("embed")
    assert place.desk.value("SELECT answered FROM embedder") == "some-model"
    place.desk.source = "late"
    place.desk.open()
    place.desk.index("http://late.example/", "a plum")
    place.desk.seal()
    server.answer = lambda asked: Reply(embeddings(asked.texts) | {"model": "other-model"})

    owed = place.run("embed", expect=1)
    search = place.run("search", "--mode", "hybrid", "apple", "in:shop")
    before = place.count("vector IS NOT NULL")
    refused = place.run("embed", "--anew", "--source", "shop", expect=2)
    counted = place.json("embed", "--anew", "--dry-run")
    anew = place.json("embed", "--anew")
    after = place.run("search", "--mode", "hybrid", "apple")

    for text in (owed.err, search.err):
        assert f"the vectors are of the model 'some-model' at {server.url}, with 4 numbers" in text
        assert f"now the model 'other-model' at {server.url} answers" in text
        assert "run scrapy embed --anew" in text
    assert "http://shop.example/0" in search.out
    assert "leave --source out" in refused.err
    assert (before, counted["owed"], anew["embedded"], anew["owed"]) == (3, 4, 4, 0)
    assert place.desk.value("SELECT answered FROM embedder") == "other-model"
    assert (after.err, place.count("vector IS NOT NULL")) == ("", 4)


def test_status_says_what_is_owed_with_several_sources_too(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """Also where there is no room for all figures."""
    place.run("embed")
    place.desk.source = "late"
    place.desk.open()
    place.desk.index("http://late.example/", "a plum")
    place.desk.seal()
    monkeypatch.setenv("LINES", "24")

    shown = " ".join(place.run("status").out.split())
    whole = " ".join(place.run("status", "--details").out.split())

    assert "All figures: scrapy status --details" in shown
    assert shown.count("vectors 0 of 1 chunk (local, ") == 1
    assert shown.count("vectors") == 1
    assert "look at 1 of 1 chunk has no vector yet: scrapy embed --source late" in whole
    assert "has no vector yet: scrapy embed --source docs" not in whole


def test_vectors_stay_where_no_new_ones_are_to_be_had(place: Place, server: EmbeddingsServer):
    place.openai(server)
    place.run("embed")
    server.answer = lambda asked: error("busy", 503)

    failed = place.run("embed", "--anew", expect=1)

    assert f"{server.host} makes no vectors now (503, busy)" in failed.err
    assert place.count("vector IS NOT NULL") == 3


# search


@both
def test_search_takes_a_mode(place: Place, server: EmbeddingsServer):
    place.openai(server)
    server.answer = lambda asked: Reply(
        embeddings(asked.texts, list(map(topic_numbers, asked.texts)))
    )
    place.run("embed")

    def found(*args: str) -> list[str]:
        return [hit["url"] for hit in place.json("search", *args, "abort")]

    assert found("--mode", "text") == []
    for mode in ([], ["--mode", "vector"], ["--mode", "hybrid"]):
        assert found(*mode)[0] == "http://docs.example/0"
    assert "invalid choice" in place.run("search", "--mode", "both", "x", expect=2).err


@pytest.mark.parametrize("mode", ["vector", "hybrid"])
def test_search_by_meaning_without_vectors_fails_with_its_remedy(place: Place, mode: str):
    none_yet = place.run("search", "--mode", mode, "apple", expect=1)
    not_set = place.run("search", "--mode", mode, "apple", expect=1, EMBEDDER="")

    assert f"mode {mode} needs vectors, and there are none yet: run scrapy embed" in none_yet.err
    assert f"mode {mode} needs vectors: set EMBEDDER to local, onnx or openai" in not_set.err
    assert none_yet.out == not_set.out == ""


def test_the_default_search_notes_that_only_words_counted(place: Place, server: EmbeddingsServer):
    place.openai(server)
    place.run("embed")
    server.answer = lambda asked: error("busy", 503)

    note = f"note: only words counted: {server.host} makes no vectors now"
    for mode in ([], ["--mode", "hybrid"]):
        found = place.run("search", *mode, "apple")
        assert found.err.startswith(note)
        assert "http://shop.example/0" in found.out
    asked = place.run("search", "--mode", "vector", "apple", expect=1)

    assert f"{server.host} makes no vectors now" in asked.err
    assert asked.out == ""


def test_a_query_without_a_word_says_so_in_any_mode(place: Place, server: EmbeddingsServer):
    place.openai(server)
    place.run("embed")

    for mode in ("vector", "hybrid"):
        result = place.run("search", "--mode", mode, "😀")
        assert "it has no letters or digits" in result.err
