"""Changes of single settings in smartcrawl.toml: everything else stays as it is."""

import stat
from pathlib import Path

import pytest

from smartcrawl import settings as module
from smartcrawl.model.exceptions import SettingError
from smartcrawl.terminal.changed_settings import change_settings_file, text_with_setting

FILE = """# Our crawler.
[settings]  # of all commands
DEPTH_LIMIT = 3  # links
"HEAD_POLICY" = 'never' # "#" no
ALLOW_NETWORKS = [
    "10.0.0.0/8", # ours
]

[sources.docs] # the manual
seeds = ["https://docs.example.com/"]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in module.defaults:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(text: str, name: str, value: object) -> str:
    return text_with_setting(text, name, value, Path("x"))


@pytest.mark.parametrize(
    ("name", "value", "old", "new"),
    [
        ("DEPTH_LIMIT", 4, "DEPTH_LIMIT = 3  # links", "DEPTH_LIMIT = 4  # links"),
        ("HEAD_POLICY", "auto", "\"HEAD_POLICY\" = 'never' # \"#\" no",
         'HEAD_POLICY = "auto" # "#" no'),
        ("ALLOW_NETWORKS", "", 'ALLOW_NETWORKS = [\n    "10.0.0.0/8", # ours\n]',
         'ALLOW_NETWORKS = ""'),
        ("MAX_HOSTS", 5, "]\n\n[sources", "]\nMAX_HOSTS = 5\n\n[sources"),
        ("LLMS_TXT", True, "]\n\n[sources", "]\nLLMS_TXT = true\n\n[sources"),
        ("USER_AGENT", 'ä "\\\n\x7f', "]\n\n[sources",
         ']\nUSER_AGENT = "ä \\"\\\\\\n\\u007f"\n\n[sources'),
        ("DEPTH_LIMIT", None, "DEPTH_LIMIT = 3  # links\n", ""),
        ("ALLOW_NETWORKS", None, 'ALLOW_NETWORKS = [\n    "10.0.0.0/8", # ours\n]\n', ""),
        ("MAX_HOSTS", None, "", ""),
    ],
)  # fmt: skip
def test_one_setting_changes_and_nothing_else(name: str, value: object, old: str, new: str):
    assert old in FILE
    assert changed(FILE, name, value) == FILE.replace(old, new, 1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[settings]\nDEPTH_LIMIT = 1\n"),
        ("# nothing", "# nothing\n\n[settings]\nDEPTH_LIMIT = 1\n"),
        ("[sources.a]\nx = 1\n", "[sources.a]\nx = 1\n\n[settings]\nDEPTH_LIMIT = 1\n"),
        ("[settings]", "[settings]\nDEPTH_LIMIT = 1\n"),
        ("[settings]\nMAX_HOSTS = 2", "[settings]\nMAX_HOSTS = 2\nDEPTH_LIMIT = 1\n"),
    ],
)
def test_a_table_is_made_where_there_is_none(before: str, after: str):
    assert changed(before, "DEPTH_LIMIT", 1) == after


@pytest.mark.parametrize("text", ["settings = { MAX_HOSTS = 2 }\n", "settings.DEPTH_LIMIT = 2\n"])
def test_another_form_is_left_to_people(text: str):
    with pytest.raises(
        SettingError, match=r"x has .settings. in another form: write DEPTH_LIMIT = 1"
    ):
        changed(text, "DEPTH_LIMIT", 1)


def change(**values: str | None) -> Path:
    return change_settings_file(module.defaults | {"DATA_DIR": "state"}, values)


def test_a_new_file_is_beside_the_sources_or_private_in_the_state_folder(folder: Path):
    path = change(DEPTH_LIMIT="3")
    assert (path, path.read_text()) == (
        folder / "state/smartcrawl.toml", "[settings]\nDEPTH_LIMIT = 3\n",
    )  # fmt: skip
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.unlink()

    (folder / "sources.toml").write_text("")
    assert change(DEPTH_LIMIT="3") == folder / "smartcrawl.toml"
    assert sorted(each.name for each in folder.iterdir()) == [
        "smartcrawl.toml",
        "sources.toml",
        "state",
    ]


def test_an_existing_file_keeps_its_place_its_mode_and_its_links(folder: Path):
    (folder / "kept.toml").write_text(FILE)
    (folder / "kept.toml").chmod(0o640)
    (folder / "smartcrawl.toml").symlink_to("kept.toml")

    assert change(DEPTH_LIMIT="5", LLMS_TXT="1", DOWNLOAD_DELAY="0.5") == folder / "smartcrawl.toml"

    assert (folder / "smartcrawl.toml").is_symlink()
    assert stat.S_IMODE((folder / "kept.toml").stat().st_mode) == 0o640
    text = (folder / "kept.toml").read_text()
    assert "DEPTH_LIMIT = 5  # links\n" in text
    assert "LLMS_TXT = true\nDOWNLOAD_DELAY = 0.5\n" in text


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("DEPTH_LIMIT", "-1", "DEPTH_LIMIT is '-1': expected a whole number of at least 0"),
        ("CHUNK_OVERLAP", "1000", "CHUNK_OVERLAP is 1000: expected a whole number from 0 to 750"),
        ("GRAPH_URL", "http://a.example/", "GRAPH_URL is .*: expected an https address"),
        ("DEPTH_LIMT", "1", "there is no setting 'DEPTH_LIMT', did you mean DEPTH_LIMIT?"),
        (
            "ELASTICSEARCH_PASSWORD",
            "geheim",
            "give it in the environment variable ELASTICSEARCH_PA",
        ),
        (
            "REDIS_URL",
            "redis://:geheim@a.example/0",
            "give it in the environment variable REDIS_URL",
        ),
        ("SOURCES_FILE", "other/sources.toml", "with SOURCES_FILE in it, settings are looked for"),
    ],
)
def test_what_a_run_would_refuse_is_not_written(folder: Path, name: str, value: str, told: str):
    (folder / "smartcrawl.toml").write_text(FILE)

    with pytest.raises(SettingError, match=told) as caught:
        change(**{"MAX_HOSTS": "7", name: value})

    assert "geheim" not in str(caught.value)
    assert (folder / "smartcrawl.toml").read_text() == FILE


def test_a_value_may_be_repaired_while_another_setting_is_wrong():
    settings = module.defaults | {"DATA_DIR": "state", "MAX_HOSTS": "many"}

    assert change_settings_file(settings, {"DEPTH_LIMIT": "1"}).exists()


def test_a_path_of_the_command_line_is_written_from_the_root(folder: Path):
    (folder / "sources.toml").write_text("")

    path = change(DATA_DIR="here", EMBEDDING_FOLDER="model", PERSISTENT_STORAGE_PATH="")

    assert path.read_text() == (
        f'[settings]\nDATA_DIR = "{folder}/here"\nEMBEDDING_FOLDER = "{folder}/model"\n'
        'PERSISTENT_STORAGE_PATH = ""\n'
    )
