"""The settings of a vector store."""

import pytest

from smartcrawl import settings
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.option_groups import VectorStoreOptions


def options(**changed: object) -> VectorStoreOptions | None:
    given = {name: getattr(settings, name) for name in dir(settings) if name.isupper()}
    return VectorStoreOptions.of(given | changed)


def test_without_an_id_there_is_no_store():
    assert options(VECTOR_STORE_ID=" ") is None


def test_a_store_has_its_options():
    found = options(VECTOR_STORE_ID="vs_1", VECTOR_STORE_URL="http://127.0.0.1:8321/v1/")

    assert found is not None
    assert (found.url, found.store, found.wait) == ("http://127.0.0.1:8321/v1", "vs_1", 600)
    assert found.concurrency == 4
    assert (found.destination, found.needs_key) == ("127.0.0.1:8321", False)
    default = options(VECTOR_STORE_ID="vs_1")
    assert default is not None
    assert (default.destination, default.needs_key) == ("api.openai.com", True)


@pytest.mark.parametrize("most", [0, 17, -1, "four", None, 2.5])
def test_no_file_or_too_many_at_the_same_time_are_refused(most: object):
    with pytest.raises(SettingError, match=r"VECTOR_STORE_CONCURRENCY is .* from 1 to 16"):
        options(VECTOR_STORE_ID="vs_1", VECTOR_STORE_CONCURRENCY=most)


@pytest.mark.parametrize("store", ["a/b", "..", "vs?x", "vs 1", "vs%2f", "x" * 201])
def test_an_id_that_would_change_the_address_is_refused(store: str):
    with pytest.raises(SettingError, match="VECTOR_STORE_ID is"):
        options(VECTOR_STORE_ID=store)


@pytest.mark.parametrize(
    "url",
    [
        "", "api.openai.com/v1", "ftp://a.example/v1", "https://a.example", "https://a.example/v1x",
        "https://user:secret@a.example/v1", "https://a.example/v1?key=secret",
        "https://a.example/v1#secret",
    ],
)  # fmt: skip
def test_an_address_that_is_no_base_is_refused_without_its_secrets(url: str):
    with pytest.raises(SettingError, match="VECTOR_STORE_URL is") as refused:
        options(VECTOR_STORE_URL=url)
    assert "secret" not in str(refused.value)
