"""The names of the storage of libraries are written in one module only (IG-06)."""

import re
from dataclasses import FrozenInstanceError, asdict
from pathlib import Path

import pytest

from smartcrawl.sources.sharepoint import hardcoded_config
from smartcrawl.sources.sharepoint.hardcoded_config import CRAWLER_HARDCODED_CONFIG as CONFIG
from tests.modules import name, strings_of_all

#: Words that mean something else where they are not parts of a path of the storage.
WORDS = {"domains", "crawler"}
#: Paths of the HTTP API, which contain one of these words.
OTHER = re.compile(r"/v2/(?:crawler|domains)/[a-z_]*\Z")
PARTS = re.compile(r"(?<![\w.-])(?:domains|crawler)/|/(?:domains|crawler)(?![\w.-])")
NAMES = [value for value in asdict(CONFIG).values() if isinstance(value, str)]


def names_storage(text: str) -> bool:
    """Whether a text is a name of the storage, or has one as a part of a path; not a sentence."""
    if OTHER.match(text) or " " in text.strip():
        return False
    return bool(PARTS.search(text)) or any(name in text for name in NAMES if name not in WORDS)


@pytest.mark.covers("R3-05", "R3-42", "R3-44", "R3-45")
def test_no_other_module_has_a_name_of_the_storage():
    found = {
        f"{name(path)}: {text!r}"
        for path, _, text in strings_of_all()
        if path != Path(hardcoded_config.__file__)
        if names_storage(text) and not text.startswith("/v2/")  # a path of the HTTP API
    }
    assert found == set()


@pytest.mark.parametrize(
    "text",
    ["02_embedded", "x/03_failed", "files_map.csv", "/srv/domains/a", "crawler/DOMAIN01"],
)
def test_the_search_finds_such_a_name(text):
    assert names_storage(text)


@pytest.mark.covers("R3-44", "R3-45")
def test_names_are_those_of_the_requirements():
    page = """
        PERSISTENT_STORAGE_PATH_DOMAINS_SUBFOLDER=domains
        PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER=crawler
        PERSISTENT_STORAGE_PATH_DOCUMENTS_FOLDER=01_files
        PERSISTENT_STORAGE_PATH_LISTS_FOLDER=02_lists
        PERSISTENT_STORAGE_PATH_SITEPAGES_FOLDER=03_sitepages
        PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER=01_originals
        PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER=02_embedded
        PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER=03_failed
        DOMAIN_JSON=domain.json
        FILES_METADATA_JSON=files_metadata.json
        SHAREPOINT_MAP_CSV=sharepoint_map.csv
        FILE_MAP_CSV=files_map.csv
        VECTOR_STORE_MAP_CSV=vectorstore_map.csv
    """
    for line in page.split():
        name, _, value = line.partition("=")
        assert getattr(CONFIG, name) == value


@pytest.mark.covers("G-06", "G-07", "R3-46", "R3-74")
def test_numbers_and_types_are_those_of_the_gaps_and_cannot_be_changed():
    types = "c cpp cs css doc docx go html java js json md pdf php pptx py rb sh tex ts txt"
    assert tuple(types.split()) == CONFIG.DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES
    assert CONFIG.APPEND_TO_MAP_FILES_EVERY_X_LINES == 10
    with pytest.raises(FrozenInstanceError):
        CONFIG.DOMAIN_JSON = "x"
