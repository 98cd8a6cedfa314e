"""The embedder ``onnx``: sentence models of small size, and a real one in the long form."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import numpy
import pytest
from onnx import TensorProto

from smartcrawl import settings
from smartcrawl.index.embedding import onnx
from smartcrawl.index.embedding.choice import embedder_key, open_embedder, open_embedder_of
from smartcrawl.index.embedding.onnx import (
    MOST_PARTS,
    MOST_TOKENS,
    TOKENS,
    ModelFolder,
    OnnxEmbedder,
)
from smartcrawl.index.embedding.ports import RefusedText
from smartcrawl.model.exceptions import EmbedderError, SettingError
from smartcrawl.model.option_groups import EmbedderOptions
from tests.choices import options
from tests.index.embedding.small_models import TABLE, WORDS, save_network, save_small_model

ROOT = Path(__file__).resolve().parents[3]
UNKNOWN = RefusedText("the text has no word that the model knows")


@pytest.fixture(autouse=True)
def unloaded() -> Iterator[None]:
    """Let a test load a model of its own, and no other test find that."""
    yield
    onnx._loaded.cache_clear()


@pytest.fixture
def embedder(tmp_path: Path) -> OnnxEmbedder:
    return OnnxEmbedder(save_small_model(tmp_path / "model"))


def array(vector: object) -> numpy.ndarray:
    assert isinstance(vector, bytes)
    return numpy.frombuffer(vector, "<f4")


def mean(*words: str) -> numpy.ndarray:
    """Return the mean of the rows of words, the two marks around them included, of length 1."""
    rows = TABLE[[WORDS.index(word) for word in ("[CLS]", *words, "[SEP]")]]
    return rows.mean(axis=0) / numpy.linalg.norm(rows.mean(axis=0))


# Vectors


def test_a_vector_is_the_mean_of_what_the_network_makes_of_its_tokens(embedder: OnnxEmbedder):
    first, second = embedder.embed(["Stop a run", "cake"])

    assert array(first) == pytest.approx(mean("stop", "a", "run"), abs=1e-6)
    assert array(second) == pytest.approx(mean("cake"), abs=1e-6)
    assert numpy.linalg.norm(array(first)) == pytest.approx(1, abs=1e-6)
    assert (embedder.name, embedder.dimension, embedder.destination) == ("onnx", 4, None)
    assert embedder.embed([]) == []


def test_the_vector_of_the_first_token_is_that_of_models_that_want_it(tmp_path: Path):
    made = save_small_model(tmp_path, **{"1_Pooling__config": {"pooling_mode_cls_token": True}})

    (vector,) = OnnxEmbedder(made).embed(["stop a run"])

    assert array(vector) == pytest.approx([0, 0, 0, 1])  # the row of [CLS]


def test_a_network_that_adds_up_by_itself_is_taken_at_its_word(tmp_path: Path):
    made = save_small_model(tmp_path, output="sentence_embedding")

    assert array(OnnxEmbedder(made).embed(["stop a run"])[0]) == pytest.approx(
        mean("stop", "a", "run"), abs=1e-6
    )


@pytest.mark.parametrize(
    ("inputs", "whole_numbers"),
    [
        (("input_ids",), TensorProto.INT64),
        (("input_ids", "attention_mask"), TensorProto.INT64),
        (("input_ids", "attention_mask", "token_type_ids"), TensorProto.INT32),
    ],
)
def test_networks_get_the_inputs_that_they_have(
    tmp_path: Path, inputs: tuple[str, ...], whole_numbers: int
):
    made = save_small_model(tmp_path, inputs=inputs, whole_numbers=whole_numbers)

    assert array(OnnxEmbedder(made).embed(["end a job"])[0]) == pytest.approx(
        mean("end", "a", "job"), abs=1e-6
    )


def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: OnnxEmbedder):
    texts = ["stop " * (1 + n % 9) + "run " * (n % 40) + "cake" for n in range(100)]

    assert embedder.embed(texts) == [embedder.embed([text])[0] for text in texts]


@pytest.mark.parametrize(
    "text",
    ["", " \n\t", "unheard", "unheard words", "😀", "\ud800", "x" * 100_000],
    ids=["nothing", "white space", "unknown", "several", "emoji", "half a pair", "a huge word"],
)
def test_a_text_without_a_known_word_is_refused(embedder: OnnxEmbedder, text: str):
    assert embedder.embed(["stop", text, "end"])[1] == UNKNOWN


def test_a_text_whose_rows_are_zero_or_infinite_is_refused(tmp_path: Path):
    table = TABLE.copy()
    table[WORDS.index("cake")] = numpy.inf
    table[WORDS.index("halt")] = numpy.nan
    table[WORDS.index("[CLS]")] = 0
    table[WORDS.index("a")] = 0

    found = OnnxEmbedder(save_small_model(tmp_path, table=table)).embed(
        ["a", "cake", "halt", "stop"]
    )

    reason = RefusedText("its vector has a number that is not finite")
    assert found[:3] == [reason, reason, reason]
    assert array(found[3]).any()


def test_a_long_text_is_read_in_parts_by_their_lengths(tmp_path: Path):
    made = save_small_model(tmp_path, sentence_bert_config={"max_seq_length": 8})
    (vector,) = OnnxEmbedder(made).embed(["stop " * 6 + "cake cake"])

    whole = 8 * mean(*["stop"] * 6) + 4 * mean("cake", "cake")  # with the marks of each part
    assert array(vector) == pytest.approx(whole / numpy.linalg.norm(whole), abs=1e-6)


def test_of_a_huge_text_only_the_first_parts_count(tmp_path: Path):
    made = save_small_model(tmp_path, sentence_bert_config={"max_seq_length": 8})
    read = "stop " * (6 * MOST_PARTS)

    beyond, within, plain = OnnxEmbedder(made).embed([read + "cake", read[5:] + "cake", read])

    assert beyond == plain
    assert within != plain


def test_threads_may_embed_at_the_same_time(embedder: OnnxEmbedder):
    texts = ["stop a run", "cake", "end a job"]
    found: list[object] = []

    threads = [Thread(target=lambda: found.append(embedder.embed(texts * 50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [embedder.embed(texts) * 50] * 4


@pytest.mark.parametrize(
    ("prompts", "before_text", "before_query"),
    [
        ({"prompts": {"query": "run ", "passage": "word "}}, ["word"], ["run"]),
        ({"prompts": {"query": "run", "document": "halt a", "passage": "word"}}, ["halt", "a"],
         ["run"]),
        ({"prompts": {"query": "run"}}, [], ["run"]),
        ({"prompts": {"query": "run", "every": "a"}, "default_prompt_name": "every"}, ["a"],
         ["run"]),
        ({"prompts": {"query": "", "corpus": "a"}, "default_prompt_name": None}, ["a"], []),
        ({"prompts": {"clustering": "a"}}, [], []),
        ({"prompts": None}, [], []),
    ],
)  # fmt: skip
def test_words_go_before_texts_and_questions_as_the_model_wants(
    tmp_path: Path, prompts: dict[str, object], before_text: list[str], before_query: list[str]
):
    made = save_small_model(tmp_path, config_sentence_transformers=prompts)
    embedder = OnnxEmbedder(made)

    (text,) = embedder.embed(["end job"])
    question = embedder.embed_query("end job")

    assert array(text) == pytest.approx(mean(*before_text, "end", "job"), abs=1e-6)
    assert array(question) == pytest.approx(mean(*before_query, "end", "job"), abs=1e-6)
    assert embedder.embed([""]) == [UNKNOWN] == [embedder.embed_query("unheard")]


def test_the_words_go_before_each_part_of_a_long_text(tmp_path: Path):
    made = save_small_model(
        tmp_path, sentence_bert_config={"max_seq_length": 8},
        config_sentence_transformers={"prompts": {"document": "halt"}},
    )  # fmt: skip

    (vector,) = OnnxEmbedder(made).embed(["stop " * 5 + "cake cake"])

    whole = 8 * mean("halt", *["stop"] * 5) + 5 * mean("halt", "cake", "cake")
    assert array(vector) == pytest.approx(whole / numpy.linalg.norm(whole), abs=1e-6)


# The model


def test_a_model_has_one_name_wherever_it_is_and_another_has_another(tmp_path: Path):
    """Vectors of two models are never compared; a folder that is moved costs nothing."""
    changed = TABLE.copy()
    changed[5, 0] += 1
    folders = [
        save_small_model(tmp_path / "one"),
        save_small_model(tmp_path / "deep/two", network="onnx/model.onnx"),
        save_small_model(tmp_path / "table", table=changed),
        save_small_model(tmp_path / "length", sentence_bert_config={"max_seq_length": 9}),
        save_small_model(
            tmp_path / "pooling", **{"1_Pooling__config": {"pooling_mode_cls_token": True}}
        ),
        save_small_model(
            tmp_path / "prompt", config_sentence_transformers={"prompts": {"query": "a"}}
        ),
        save_small_model(tmp_path / "words"),
    ]
    pieces = json.loads((folders[-1] / "tokenizer.json").read_text())
    pieces["normalizer"] = None
    (folders[-1] / "tokenizer.json").write_text(json.dumps(pieces))
    folders.append(save_small_model(tmp_path / "weights"))
    (folders[-1] / "model.onnx_data").write_bytes(b"weights in a file of their own")

    names = [OnnxEmbedder(folder).model for folder in folders]

    assert names[0] == names[1]
    assert len(set(names)) == 7
    assert all(name.startswith("onnx-") for name in names)


def test_the_model_is_loaded_once(embedder: OnnxEmbedder, tmp_path: Path):
    again = OnnxEmbedder(tmp_path / "model")

    assert again._network is embedder._network
    again.end_pause()
    assert again.embed(["stop"]) == embedder.embed(["stop"])


def test_a_closed_one_ends_a_call_of_another_thread_and_no_other(
    embedder: OnnxEmbedder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An order that drops a run's work waits for one text at most."""
    other = OnnxEmbedder(tmp_path / "model")
    read: list[str] = []
    real = type(embedder._network).vector

    def close_in_the_middle(network: object, text: str, before: object) -> object:
        read.append(text)
        if text == "run":
            embedder.close()
        return real(network, text, before)

    monkeypatch.setattr(type(embedder._network), "vector", close_in_the_middle)

    with pytest.raises(EmbedderError, match="the embedder was closed") as caught:
        embedder.embed(["stop", "run", "cake"])
    assert caught.value.lasting
    assert read == ["stop", "run"]
    assert array(other.embed(["cake"])[0]).any()


def test_the_network_at_the_top_comes_before_the_one_below(tmp_path: Path):
    save_small_model(tmp_path, network="onnx/model.onnx")
    assert ModelFolder.of(tmp_path).network == tmp_path / "onnx/model.onnx"
    save_small_model(tmp_path)
    assert ModelFolder.of(tmp_path).network == tmp_path / "model.onnx"


@pytest.mark.parametrize(("length", "tokens"), [(None, TOKENS), (128, 128), (8_192, MOST_TOKENS)])
def test_the_tokens_that_are_read_at_once_are_bounded(
    tmp_path: Path, length: int | None, tokens: int
):
    files = {} if length is None else {"sentence_bert_config": {"max_seq_length": length}}

    assert ModelFolder.of(save_small_model(tmp_path, **files)).tokens == tokens


def test_a_network_that_fails_later_lasts_for_the_run(
    embedder: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(embedder._network, "_session", type("Session", (), {"run": fail})())

    with pytest.raises(EmbedderError, match=r"the model in .* failed: out of memory") as caught:
        embedder.embed(["stop"])
    assert caught.value.lasting


# Errors


def chosen(folder: Path | str) -> EmbedderOptions:
    found = EmbedderOptions.of(
        settings.defaults | {"EMBEDDER": "onnx", "EMBEDDING_FOLDER": str(folder)}
    )
    assert found is not None
    return found


def refusal(folder: Path) -> str:
    with pytest.raises(SettingError) as caught:
        OnnxEmbedder(folder)
    text = str(caught.value)
    assert text.startswith(f"EMBEDDING_FOLDER is {str(folder)!r}: ")
    assert "expected the folder of a sentence model with model.onnx and tokenizer.json" in text
    return text


def test_a_folder_is_needed():
    with pytest.raises(SettingError, match="EMBEDDING_FOLDER is empty"):
        chosen(" ")
    assert chosen("~/model").folder == Path.home() / "model"


def test_vectors_of_a_model_whose_folder_is_no_longer_set_name_the_setting():
    """A search asks by the model of the stored vectors until those of another are whole."""
    other = EmbedderOptions.of(settings.defaults | {"EMBEDDER": "local"})
    assert other is not None
    object.__setattr__(other, "name", "onnx")  # as a search does with a copy

    with pytest.raises(SettingError, match="EMBEDDING_FOLDER is empty, and the vectors are"):
        open_embedder_of(other)


def test_missing_files_are_named(tmp_path: Path):
    assert "there is no such folder" in refusal(tmp_path / "absent")
    assert "it has no file model.onnx or onnx/model.onnx" in refusal(tmp_path)
    save_small_model(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    assert "it has no file tokenizer.json" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
@pytest.mark.parametrize("content", [b"", b"{}", b"\x00\xff" * 50])
def test_files_that_are_none_are_refused(tmp_path: Path, name: str, content: bytes):
    save_small_model(tmp_path)
    (tmp_path / name).write_bytes(content)

    assert "its files cannot be loaded" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"modules": [{"type": "sentence_transformers.models.Dense"}]}, "names Dense, which is"),
        ({"modules": 7}, "modules.json has no list of modules"),
        ({"modules": [{"name": "0"}]}, "modules.json has no list of modules"),
        ({"config_sentence_transformers": {"prompts": [1]}}, "has no texts by name"),
        ({"config_sentence_transformers": {"prompts": {"query": 1}}}, "has no texts by name"),
        (
            {"config_sentence_transformers": {"prompts": {"query": "a " * 200}}},
            "the words before each text take more than half of the tokens",
        ),
        ({"config_sentence_transformers": []}, "has no JSON object"),
        ({"1_Pooling__config": {"pooling_mode_max_tokens": True}}, "wants max_tokens, and only"),
        (
            {"1_Pooling__config": {"pooling_mode_cls_token": True, "pooling_mode": "mean"}},
            "wants cls_token and mean_tokens, and only",
        ),
        ({"sentence_bert_config": {"max_seq_length": "many"}}, "max_seq_length in its file"),
        ({"sentence_bert_config": {"max_seq_length": 3}}, "is 3;"),
    ],
)
def test_a_model_that_asks_for_what_is_unknown_is_refused(
    tmp_path: Path, files: dict[str, object], message: str
):
    assert message in refusal(save_small_model(tmp_path, **files))


def test_a_file_that_is_no_json_is_refused(tmp_path: Path):
    save_small_model(tmp_path)
    (tmp_path / "modules.json").write_text("[" * 100_000)

    assert "its file modules.json cannot be read" in refusal(tmp_path)


def test_a_network_of_another_kind_is_refused(tmp_path: Path):
    pixels = save_small_model(tmp_path / "pixels", inputs=("pixel_values", "attention_mask"))
    more = save_small_model(tmp_path / "more", inputs=("input_ids", "position_ids"))
    floats = save_small_model(tmp_path / "floats")
    save_network(floats / "model.onnx", TABLE, ("input_ids",), "out", TensorProto.INT8)

    assert "its network takes pixel_values, attention_mask" in refusal(pixels)
    assert "its network takes input_ids, position_ids" in refusal(more)
    assert "its files cannot be loaded" in refusal(floats)


def test_a_network_that_fails_or_makes_too_much_is_refused_at_its_start(tmp_path: Path):
    few = save_small_model(tmp_path / "few", table=TABLE[:3])
    wide = save_small_model(tmp_path / "wide", table=numpy.ones((12, 4_001), dtype="<f4"))

    assert "its network fails" in refusal(few)
    assert "its network makes vectors of the shape (4001,)" in refusal(wide)


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers"])
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
):
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(SettingError) as caught:
        open_embedder(options(tmp_path, embedder=chosen(save_small_model(tmp_path))))

    assert missing in str(caught.value)
    assert "pip install 'onnxruntime==" in str(caught.value)


# Settings


def test_the_settings_choose_it(tmp_path: Path):
    made = save_small_model(tmp_path / "model")

    found = open_embedder(options(tmp_path, embedder=chosen(made)))

    assert found is not None
    assert embedder_key(chosen(made)) == (found.name, found.model, found.dimension)
    assert array(found.embed(["stop a run"])[0]) == pytest.approx(
        mean("stop", "a", "run"), abs=1e-6
    )


WITHOUT_NETWORK = """
import os, sys
from pathlib import Path

def refuse(event, arguments):
    if event.startswith("socket.") or event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        sys.stderr.write(f"refused: {event}\\n")
        os._exit(3)

sys.addaudithook(refuse)
from smartcrawl.index.embedding.onnx import OnnxEmbedder
print(len(OnnxEmbedder(Path(sys.argv[1])).embed(["stop a run"])[0]))
print(sorted(name for name in sys.modules if name.partition(".")[0] in (
    "wordllama", "huggingface_hub", "requests", "httpx", "scrapy", "twisted", "openai")))
"""


def test_nothing_is_downloaded_and_nothing_reported(tmp_path: Path):
    """Sockets of Python are closed.

    The runtime has sockets of its own, for reports to its maker, and makes an identifier in the
    home folder for them: none is made.
    """
    made = save_small_model(tmp_path / "model")
    home = tmp_path / "home"
    home.mkdir()

    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_NETWORK, str(made)], cwd=ROOT,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (result.stdout, result.stderr) == ("16\n[]\n", "")
    assert list(home.iterdir()) == []
