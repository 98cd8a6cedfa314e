"""The file smartcrawl.toml: where it is, what it takes, and what counts before it."""

import os
from pathlib import Path

import pytest
from scrapy.settings import Settings

from smartcrawl import settings as module
from smartcrawl.engine.project_settings import (
    apply_settings_file,
    complete_crawler_settings,
    complete_scrapy_settings,
)
from smartcrawl.model.exceptions import SettingError, SourceError
from smartcrawl.model.options import Options
from smartcrawl.model.settings_file import (
    FileSettings,
    data_dir_of_settings_file,
    load_settings_file,
    read_settings_file,
)
from smartcrawl.sources.declared import load_declared_sources

SEEDS = '[sources.{}]\nseeds = ["https://{}.example/"]\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, without any setting of ours in the environment."""
    for name in module.defaults:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(text: str, path: Path | str = "smartcrawl.toml") -> Path:
    place = Path(path).absolute()
    place.parent.mkdir(exist_ok=True)
    place.write_text(text, encoding="utf-8")
    return place


def load(*given: str, **values: object) -> FileSettings:
    """Load the file that the defaults and `values` lead to; `given` counts before it."""
    settings = module.defaults | {"DATA_DIR": "state"} | values
    return load_settings_file(settings, lambda name: name in given or name in values)


def problems(text: str) -> list[str]:
    with pytest.raises(SettingError) as caught:
        read_settings_file(written(text))
    first, *rest = str(caught.value).splitlines()
    assert first.startswith(str(Path("smartcrawl.toml").absolute()))
    return [line.strip() for line in rest] or [first]


# Values


def test_values_are_typed_as_toml_has_them():
    path = written(
        "[settings]\nDEPTH_LIMIT = 3\nSWEEP_MAX_RATIO = 0.2\nDOWNLOAD_DELAY = 1\nLLMS_TXT = true\n"
        'HEAD_POLICY = "never"\nLOST_PURGE_STATUSES = [404]\nALLOW_PORTS = "8080,8443"\n'
        'ALLOW_NETWORKS = ["10.0.0.0/8"]\n'
    )

    values = read_settings_file(path)

    made = Options.of(module.defaults | {"DATA_DIR": "state"} | values)
    assert (made.depth_limit, made.sweep_max_ratio, made.download_delay) == (3, 0.2, 1)
    assert (made.llms_txt, made.head_policy, made.allow_ports) == (True, "never", (8080, 8443))
    assert made.policy.purge_statuses == {404}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('DEPTH_LIMIT = "3"', "DEPTH_LIMIT is '3': expected a whole number without quotes"),
        ("DEPTH_LIMIT = true", "DEPTH_LIMIT is True: expected a whole number without quotes"),
        ("DEPTH_LIMIT = 1.5", "DEPTH_LIMIT is 1.5: expected a whole number without quotes"),
        ("DEPTH_LIMIT = -1", "DEPTH_LIMIT is -1: expected a whole number of at least 0"),
        ("SWEEP_MAX_RATIO = 2", "SWEEP_MAX_RATIO is 2: expected a number from 0 to 1"),
        ("SWEEP_MAX_RATIO = false", "SWEEP_MAX_RATIO is False: expected a number without quotes"),
        ("LLMS_TXT = 1", "LLMS_TXT is 1: expected true or false, without quotes"),
        ("HEAD_POLICY = 1", "HEAD_POLICY is 1: expected a text in quotes"),
        ('HEAD_POLICY = "now"', "HEAD_POLICY is 'now': expected one of never, auto, always"),
        ("ALLOW_PORTS = 8080", "ALLOW_PORTS is 8080: expected a list, as in"),
        ("DEPTH_LIMT = 3", "DEPTH_LIMT: there is no such setting, did you mean DEPTH_LIMIT?"),
        ("qqqq = 3", "qqqq: there is no such setting; "),
    ],
)
def test_a_wrong_value_is_told_with_file_key_and_remedy(line: str, told: str):
    (problem,) = problems(f"[settings]\n{line}\n")

    assert problem.startswith(f"[settings] {told}")


def test_all_problems_are_told_at_once():
    found = problems("setings = 1\n[settings]\nDEPTH_LIMIT = -1\nLLMS_TXT = 1\n")

    assert len(found) == 3
    assert found[0].startswith("setings: unknown table, did you mean settings?")


@pytest.mark.parametrize(
    "line",
    [
        'ELASTICSEARCH_PASSWORD = "geheim"',
        'SHAREPOINT_CLIENT_SECRET = "geheim"',
        'OPENAI_API_KEY = "geheim"',
        'GITHUB_TOKEN = "geheim"',
        'REGISTRY_URL = "postgresql://me:geheim@db.example/x"',
        'SNAPSHOT_STORE = "https://a.example/x?sig=geheim"',
    ],
)
def test_a_secret_is_refused_with_the_variable_to_use(line: str):
    (problem,) = problems(f"[settings]\n{line}\n")

    name = line.partition(" ")[0]
    assert problem == (
        f"[settings] {name} has a secret, and smartcrawl.toml takes none: give it in the"
        f" environment variable {name}"
    )


def test_an_address_without_a_password_is_taken():
    lines = 'REGISTRY_URL = "postgresql://me@db.example/x"\nREDIS_URL = "redis://a.example/0"\n'

    assert len(read_settings_file(written(f"[settings]\n{lines}"))) == 2


def test_paths_start_beside_the_file(folder: Path):
    path = written(
        '[settings]\nDATA_DIR = "state"\nEMBEDDING_FOLDER = "/srv/m"\nSOURCES_FILE = "~/s.toml"\n'
        'REGISTRY_URL = "sqlite:///r.db"\nPERSISTENT_STORAGE_PATH = ""\n',
        "conf/smartcrawl.toml",
    )

    assert read_settings_file(path) == {
        "DATA_DIR": str(folder / "conf/state"),
        "EMBEDDING_FOLDER": "/srv/m",
        "SOURCES_FILE": "~/s.toml",
        "REGISTRY_URL": f"sqlite:///{folder}/conf/r.db",
        "PERSISTENT_STORAGE_PATH": "",
    }


@pytest.mark.parametrize(
    "text", ["[settings", "DEPTH_LIMIT = \n", "[settings]\nMAX_HOSTS = 1\nMAX_HOSTS = 2\n"]
)
def test_a_file_that_is_no_toml_is_an_error(text: str):
    path = written(text)

    with pytest.raises(SettingError, match=f"^{path} is not valid TOML: "):
        load()


def test_a_file_that_cannot_be_read_is_an_error(folder: Path):
    (folder / "smartcrawl.toml").symlink_to(folder / "none.toml")
    with pytest.raises(SettingError, match="is a link to a file that is not there"):
        load()

    (folder / "smartcrawl.toml").unlink()
    (folder / "smartcrawl.toml").mkdir()
    with pytest.raises(SettingError, match="cannot be read"):
        load()


def test_another_form_of_the_table_is_an_error():
    assert problems("settings = 3\n")[0].startswith("settings: expected a table")


# Places


@pytest.mark.parametrize("place", ["smartcrawl.toml", "state/smartcrawl.toml"])
def test_the_file_is_beside_the_sources_or_in_the_state_folder(place: str):
    path = written("[settings]\nDEPTH_LIMIT = 3\n", place)

    assert load() == FileSettings(path, {"DEPTH_LIMIT": 3})
    assert Options.of(module.defaults | {"DATA_DIR": "state"}).settings_file == path


def test_without_a_file_nothing_is_set():
    assert load() == FileSettings(None, {})
    assert Options.of(module.defaults | {"DATA_DIR": "state"}).settings_file is None


def test_the_sources_file_may_be_elsewhere_and_the_same_folder_counts_once():
    path = written("[settings]\n", "conf/smartcrawl.toml")

    assert load(SOURCES_FILE="conf/mine.toml").path == path
    assert load(SOURCES_FILE="conf/mine.toml", DATA_DIR="conf").path == path


def test_two_files_are_an_error_that_names_both(folder: Path):
    one, two = written("", "smartcrawl.toml"), written("", "state/smartcrawl.toml")

    with pytest.raises(SettingError, match=f"two files of settings, {one} and {two}: move all"):
        load()
    with pytest.raises(SettingError, match="two files of settings"):
        Options.of(module.defaults | {"DATA_DIR": "state"})


def test_a_folder_in_the_file_must_not_lead_to_another_file():
    written('[settings]\nDATA_DIR = "other"\n')
    assert load().values == {"DATA_DIR": str(Path("other").absolute())}

    written("", "other/smartcrawl.toml")
    with pytest.raises(SettingError, match="two files of settings"):
        load()
    assert load("DATA_DIR").path == Path("smartcrawl.toml").absolute()


def test_a_folder_in_the_file_must_not_lead_away_from_it(folder: Path):
    path = written('[settings]\nSOURCES_FILE = "conf/sources.toml"\n')

    with pytest.raises(SettingError, match=f"^{path}: with SOURCES_FILE in it, settings are"):
        load()
    assert load("SOURCES_FILE").path == path

    in_state = written(
        '[settings]\nSOURCES_FILE = "../conf/sources.toml"\n', "state/smartcrawl.toml"
    )
    path.unlink()
    assert load().path == in_state


def test_the_file_beside_the_sources_may_name_the_state_folder(folder: Path):
    assert data_dir_of_settings_file("sources.toml") is None

    written('[settings]\nDATA_DIR = "s"\n')

    assert data_dir_of_settings_file("sources.toml") == str(folder / "s")


def test_a_file_of_another_user_is_refused_where_a_command_happens_to_be_called(
    monkeypatch: pytest.MonkeyPatch,
):
    path = written("")
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(path).st_uid + 1)
    other = path.stat().st_uid != 0
    if not other:
        os.chown(path, 4_711, -1)
        monkeypatch.setattr(os, "geteuid", lambda: 4_712)

    with pytest.raises(SettingError, match=f"^{path} belongs to another user: go to another"):
        load()
    with pytest.raises(SettingError, match="belongs to another user"):
        data_dir_of_settings_file("sources.toml")
    assert load(SOURCES_FILE=str(path.parent / "sources.toml")).path == path
    written("", "scrapy.cfg")
    assert load().path == path


# Order


def scrapys(**given: object) -> Settings:
    """Settings of smartcrawl's own project; `given` with -s."""
    settings = Settings()
    settings.setmodule(module, priority="project")
    settings.set("DATA_DIR", "state", priority="cmdline")
    for name, value in given.items():
        settings.set(name, value, priority="cmdline")
    return settings


def test_the_command_line_and_the_environment_count_before_the_file(
    monkeypatch: pytest.MonkeyPatch,
):
    written("[settings]\nDEPTH_LIMIT = 3\nMAX_HOSTS = 4\nLOST_THRESHOLD = 5\nRETRY_TIMES = 6\n")
    monkeypatch.setenv("MAX_HOSTS", "1000")
    settings = scrapys(DEPTH_LIMIT=0)

    apply_settings_file(settings)
    apply_settings_file(settings)  # a command and its crawl

    names = ("DEPTH_LIMIT", "MAX_HOSTS", "LOST_THRESHOLD", "RETRY_TIMES")
    assert [settings[name] for name in names] == [0, 1_000, 5, 6]


def test_a_settings_module_of_the_user_counts_before_the_file():
    written("[settings]\nLOST_THRESHOLD = 5\nMAX_HOSTS = 4\n")
    settings = scrapys()
    settings.set("LOST_THRESHOLD", 7, priority="project")
    settings.set("MAX_HOSTS", 8, priority="spider")

    apply_settings_file(settings)

    assert (settings["LOST_THRESHOLD"], settings["MAX_HOSTS"]) == (7, 8)


def test_settings_of_other_spiders_stay_and_those_of_a_crawl_of_ours_change():
    """In a project of the user's own, Scrapy's settings have its defaults until a crawl begins."""
    written("[settings]\nDEPTH_LIMIT = 3\nMAX_HOSTS = 4\n")
    settings = Settings()
    complete_scrapy_settings(settings)

    apply_settings_file(settings)
    assert (settings["DEPTH_LIMIT"], settings["MAX_HOSTS"]) == (0, 4)

    apply_settings_file(settings, are_ours=True)
    complete_crawler_settings(settings)
    assert (settings["DEPTH_LIMIT"], settings["MAX_HOSTS"]) == (3, 4)


# Sources


def test_sources_may_be_in_either_file(folder: Path):
    written(SEEDS.format("docs", "docs"), "sources.toml")
    path = written("[settings]\nMAX_HOSTS = 4\n" + SEEDS.format("blog", "blog"))
    files = Options.of(module.defaults | {"DATA_DIR": "state"}).source_files

    found = load_declared_sources(*files)

    assert files == (folder / "sources.toml", path)
    assert list(found) == ["docs", "blog"]
    assert (found.file_of("docs"), found.file_of("blog")) == files


@pytest.mark.parametrize("second", [SEEDS.format("docs", "blog"), "[sources.docs]\nx = 1\n"])
def test_a_source_in_both_files_is_an_error_that_names_both(folder: Path, second: str):
    one, two = written(SEEDS.format("docs", "docs"), "sources.toml"), written(second)

    with pytest.raises(SourceError) as caught:
        load_declared_sources(one, two)

    assert str(caught.value) == (
        f"the source 'docs' is declared in {one} and in {two}: remove the table [sources.docs]"
        " from one of them"
    )


def test_problems_are_told_with_the_file_that_has_them():
    one, two = written("[sources.a]\nx = 1\n", "sources.toml"), written("[sources.b]\ny = 1\n")
    found = load_declared_sources(one, two)

    with pytest.raises(SourceError, match=rf"^{two} has 2 problems:\n  \[sources.b\] y"):
        found.check(["b"])
    with pytest.raises(SourceError, match=rf"^{one} has(.|\n)*\n{two} has"):
        found.check()


def test_one_file_may_be_both(folder: Path):
    path = written("[settings]\nMAX_HOSTS = 4\n" + SEEDS.format("docs", "docs"))
    files = Options.of(
        module.defaults | {"DATA_DIR": "state", "SOURCES_FILE": "smartcrawl.toml"}
    ).source_files

    assert files == (path,)
    assert list(load_declared_sources(*files)) == ["docs"]


def test_settings_do_not_belong_in_the_file_of_sources():
    with pytest.raises(SourceError, match=r"settings: unknown key.*belong in smartcrawl\.toml"):
        load_declared_sources(written("[settings]\n", "sources.toml"))
