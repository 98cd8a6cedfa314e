"""The embedder ``local``: static vectors of a wheel, without any download."""

import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer

from smartcrawl import settings
from smartcrawl.index.embedding import local
from smartcrawl.index.embedding.choice import open_embedder
from smartcrawl.index.embedding.local import LocalEmbedder
from smartcrawl.index.embedding.ports import MOST_CHARACTERS, RefusedText
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import EmbedderOptions
from tests.choices import options

ROOT = Path(__file__).resolve().parents[3]
UNKNOWN = RefusedText("the text has no word that the model knows")
FILES = local._package_folder()


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


@pytest.fixture
def unloaded() -> Iterator[None]:
    """Let the test load a model of its own, and no other test find that."""
    local._loaded.cache_clear()
    yield
    local._loaded.cache_clear()


def bare(text: str) -> numpy.ndarray:
    """Return the mean of rows, as a reader of the package's description would compute it."""
    tokenizer = Tokenizer.from_file(str(FILES / "tokenizers/l2_supercat_tokenizer_config.json"))
    table = load_file(FILES / "weights/l2_supercat_256.safetensors")["embedding.weight"]
    rows = table[tokenizer.encode(text, add_special_tokens=False).ids].astype("f4").mean(axis=0)
    return rows / numpy.linalg.norm(rows)


def array(vector: object) -> numpy.ndarray:
    assert isinstance(vector, bytes)
    return numpy.frombuffer(vector, "<f4")


def test_a_vector_is_the_mean_of_its_tokens_rows_of_length_one(embedder: LocalEmbedder):
    texts = ["How to cancel a paused run", "Python", "for x in range(10): print(x)"]

    found = embedder.embed(texts)

    for text, vector in zip(texts, found, strict=True):
        assert array(vector) == pytest.approx(bare(text), abs=1e-6)
        assert numpy.linalg.norm(array(vector)) == pytest.approx(1, abs=1e-6)
        assert len(vector) == 4 * embedder.dimension
    assert (embedder.name, embedder.dimension, embedder.destination) == ("local", 256, None)
    assert embedder.model.startswith("l2_supercat_256-")


def test_texts_alike_have_vectors_alike(embedder: LocalEmbedder):
    question, answer, other = map(
        array, embedder.embed(["stop a running job", "how to cancel a job", "banana bread recipe"])
    )

    assert question @ answer > 0.4 > question @ other


@pytest.mark.parametrize(
    "text",
    ["", " ", "\n\t \r\n", "\N{NO-BREAK SPACE}", "\N{ZERO WIDTH SPACE}", "\x00\x07", "😀",
     "😀 🎉\n👍", "\ud800", "<s></s>"],
    ids=["nothing", "space", "white space", "no-break", "zero width", "controls", "emoji",
         "several emoji", "half a pair", "marks"],
)  # fmt: skip
def test_a_text_without_a_known_word_is_refused(embedder: LocalEmbedder, text: str):
    assert embedder.embed(["a", text, "b"])[1] == UNKNOWN


def test_emoji_and_white_space_do_not_change_a_vector(embedder: LocalEmbedder):
    plain, with_more = embedder.embed(["cancel a run", "cancel a run 😀\n\n"])

    assert array(plain) == pytest.approx(array(with_more), abs=1e-6)


def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: LocalEmbedder):
    texts = [f"text number {n} " + "word " * (n % 50) for n in range(200)]

    assert embedder.embed(texts) == [embedder.embed([text])[0] for text in texts]
    assert embedder.embed([]) == []


def test_a_word_of_any_length_takes_little_time_and_memory(embedder: LocalEmbedder):
    for word in ("x" * 100_000, "ab" * 5_000_000, "語" * 100_000):
        began = time.process_time()
        (vector,) = embedder.embed([word])

        assert numpy.isfinite(array(vector)).all()
        assert time.process_time() - began < 1


def test_only_the_beginning_of_a_huge_text_counts(embedder: LocalEmbedder):
    beginning = "word " * (MOST_CHARACTERS // 5)

    huge, whole = embedder.embed([beginning + "banana " * 1_000, beginning])
    shorter, whole_short = embedder.embed([beginning[:-5] + "fruit", beginning])

    assert huge == whole
    assert shorter != whole_short


def test_many_rows_are_added_in_parts(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch):
    text = "one two three four five six seven " * 10
    (whole,) = embedder.embed([text])
    monkeypatch.setattr(local, "_ROWS", 3)

    assert array(embedder.embed([text])[0]) == pytest.approx(array(whole), abs=1e-6)


def test_a_vector_is_little_endian(embedder: LocalEmbedder):
    (vector,) = embedder.embed(["cancel a run"])

    assert struct.unpack("<256f", vector) == pytest.approx(bare("cancel a run"), abs=1e-6)


WITHOUT_NETWORK = """
import os, sys, time

def refuse(event, arguments):
    if event.startswith("socket.") or event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        sys.stderr.write(f"refused: {event}\\n")
        os._exit(3)

sys.addaudithook(refuse)
began = time.process_time()  # other processes do not count
from smartcrawl.index.embedding.local import LocalEmbedder
embedder = LocalEmbedder()
loaded = time.process_time() - began
assert len(embedder.embed(["cancel a run"])[0]) == 1_024
print(loaded < 1 or loaded, os.environ["TOKENIZERS_PARALLELISM"])
print(sorted(name for name in sys.modules if name.partition(".")[0] in (
    "wordllama", "huggingface_hub", "requests", "httpx", "scrapy", "twisted")))
"""


def test_nothing_is_downloaded_and_no_code_of_the_package_is_run(tmp_path: Path):
    """Sockets are closed, and the caches of downloads are empty; loading takes at most a second."""
    command = [sys.executable, "-c", WITHOUT_NETWORK]

    result = subprocess.run(
        command, cwd=ROOT, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (result.stdout, result.stderr) == ("True false\n[]\n", "")
    assert list(tmp_path.iterdir()) == []


def test_the_model_is_loaded_once(embedder: LocalEmbedder):
    began = time.perf_counter()
    again = LocalEmbedder()

    assert time.perf_counter() - began < 0.01
    assert again._table is embedder._table
    again.close()
    assert again.embed(["a"]) == embedder.embed(["a"])


def test_the_choice_of_local_loads_nothing_of_openai(tmp_path: Path):
    code = """
import sys
from pathlib import Path
from smartcrawl.index.embedding.choice import open_embedder
from tests.choices import options
from smartcrawl.model.option_groups import EmbedderOptions
from smartcrawl import settings

folder = Path(sys.argv[1])
assert open_embedder(options(folder)) is None
print(sorted({"numpy", "tokenizers", "openai", "httpx2"} & sys.modules.keys()))
chosen = EmbedderOptions.of(settings.defaults | {"EMBEDDER": "local"})
print(open_embedder(options(folder, embedder=chosen)).name)
print(sorted({"openai", "httpx2"} & sys.modules.keys()))
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, capture_output=True, text=True,
        check=False, timeout=60,
    )  # fmt: skip

    assert (result.stdout, result.stderr) == ("[]\nlocal\n[]\n", "")


@pytest.mark.usefixtures("unloaded")
@pytest.mark.parametrize("missing", ["tokenizers", "safetensors", "wordllama"])
def test_a_missing_package_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
):
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "safetensors.numpy", raising=False)
    chosen = EmbedderOptions.of(settings.defaults | {"EMBEDDER": "local"})

    with pytest.raises(SettingError) as caught:
        open_embedder(options(tmp_path, embedder=chosen))

    assert missing in str(caught.value)
    assert "pip install 'wordllama==" in str(caught.value)


@pytest.mark.usefixtures("unloaded")
def test_a_package_with_other_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(local, "_package_folder", lambda: tmp_path)

    def refusal() -> str:
        with pytest.raises(SettingError) as caught:
            LocalEmbedder()
        return str(caught.value)

    assert "No such file" in refusal()
    for name in ("weights/l2_supercat_256.safetensors",
                 "tokenizers/l2_supercat_tokenizer_config.json"):  # fmt: skip
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"{}")
    assert "expects other files than the installed package wordllama has" in refusal()
    assert "script/setup vectors" in refusal()
    real = (FILES / "tokenizers/l2_supercat_tokenizer_config.json").read_bytes()
    (tmp_path / "tokenizers/l2_supercat_tokenizer_config.json").write_bytes(real)
    save_file({"other": numpy.zeros((1, 2))}, tmp_path / "weights/l2_supercat_256.safetensors")
    assert "'embedding.weight'" in refusal()


@pytest.mark.usefixtures("unloaded")
def test_another_table_is_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "weights").mkdir()
    (tmp_path / "tokenizers").symlink_to(FILES / "tokenizers")
    table = load_file(FILES / "weights/l2_supercat_256.safetensors")
    weights = tmp_path / "weights/l2_supercat_256.safetensors"
    before = LocalEmbedder().model
    monkeypatch.setattr(local, "_package_folder", lambda: tmp_path)

    table["embedding.weight"][300, 0] += 1
    save_file(table, weights)
    local._loaded.cache_clear()
    assert LocalEmbedder().model != before
    save_file({"embedding.weight": table["embedding.weight"][:100]}, weights)
    local._loaded.cache_clear()
    with pytest.raises(SettingError, match=r"its table has the shape \(100, 256\)"):
        LocalEmbedder()
