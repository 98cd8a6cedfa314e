"""The settings of vectors, and their errors."""

from pathlib import Path

import pytest

from smartcrawl import settings
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import EmbedderOptions
from tests.choices import options


def chosen(**changed: object) -> EmbedderOptions | None:
    return EmbedderOptions.of(settings.defaults | {"EMBEDDER": "openai"} | changed)


def test_there_are_no_vectors_unless_they_are_asked_for(tmp_path: Path):
    assert EmbedderOptions.of(settings.defaults) is None
    assert chosen(EMBEDDER=" ") is None
    assert options(tmp_path).embedder is None


def test_the_shipped_settings_are_those_of_openai():
    found = chosen()

    assert found is not None
    assert (found.name, found.url, found.model) == (
        "openai", "https://api.openai.com/v1", "text-embedding-3-small",
    )  # fmt: skip
    assert (found.dimension, found.batch_texts, found.batch_tokens) == (1_536, 128, 100_000)
    assert (found.timeout, found.wait, found.has_proxies, found.ca_file) == (60, 60, False, None)
    assert (found.destination, found.needs_key) == ("api.openai.com", True)


def test_values_are_read_as_the_environment_has_them():
    found = chosen(
        EMBEDDER=" OpenAI ", EMBEDDING_URL="HTTP://Models.example:8080/v1/",
        EMBEDDING_MODEL=" bge-m3 ", EMBEDDING_DIMENSION="1024", EMBEDDING_WAIT_SECONDS="0",
        HTTPPROXY_ENABLED="1",
    )  # fmt: skip

    assert found is not None
    assert (found.name, found.url, found.model) == (
        "openai", "http://models.example:8080/v1", "bge-m3",
    )  # fmt: skip
    assert (found.dimension, found.wait, found.has_proxies) == (1_024, 0, True)
    assert (found.destination, found.needs_key) == ("models.example:8080", False)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("EMBEDDER", "hashing", "expected one of local, onnx, openai, or nothing for no vectors"),
        ("EMBEDDING_URL", "", "such as https://api.openai.com/v1"),
        ("EMBEDDING_URL", "api.openai.com", "an http or https"),
        ("EMBEDDING_URL", "ftp://a.example/v1", "an http or https"),
        ("EMBEDDING_URL", "https://a.example/v1?key=geheim", "the key belongs in OPENAI_API_KEY"),
        ("EMBEDDING_URL", "https://me:geheim@a.example/v1", "the key belongs in OPENAI_API_KEY"),
        ("EMBEDDING_URL", "https://a.example/v1/embeddings", "such as https://a.example/v1"),
        ("EMBEDDING_MODEL", "", "the name of a model"),
        ("EMBEDDING_MODEL", "a b", "the name of a model"),
        ("EMBEDDING_MODEL", "x" * 201, "the name of a model"),
        ("EMBEDDING_DIMENSION", 0, "a whole number from 1 to 4000"),
        ("EMBEDDING_DIMENSION", "4001", "a whole number from 1 to 4000"),
        ("EMBEDDING_DIMENSION", "many", "a whole number from 1 to 4000"),
        ("EMBEDDING_BATCH_TEXTS", 0, "a whole number from 1 to 2048"),
        ("EMBEDDING_BATCH_TEXTS", 2_049, "a whole number from 1 to 2048"),
        ("EMBEDDING_BATCH_TOKENS", 0, "a whole number of at least 1"),
        ("EMBEDDING_TIMEOUT_SECONDS", 0, "a whole number of at least 1"),
        ("EMBEDDING_WAIT_SECONDS", -1, "a whole number of at least 0"),
    ],
)
def test_a_wrong_value_is_named_with_what_the_setting_takes(name: str, value: object, message: str):
    with pytest.raises(SettingError) as caught:
        chosen(**{name: value})

    assert str(caught.value).startswith(f"{name} is ")
    assert message in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_wrong_value_is_found_where_vectors_are_off():
    """So it is not found only on the day when they are switched on."""
    with pytest.raises(SettingError, match="EMBEDDING_DIMENSION"):
        chosen(EMBEDDER="", EMBEDDING_DIMENSION=-1)
