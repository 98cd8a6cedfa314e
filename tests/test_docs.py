"""What the manual says is compared with the code, in both directions."""

import pkgutil
import re
import runpy
import subprocess
from argparse import ArgumentParser
from ast import Name, Store, parse, walk
from functools import cache
from importlib import import_module
from inspect import signature
from pathlib import Path

import pytest
from scrapy.commands.list import Command as ScrapyList
from scrapy.commands.settings import Command as ScrapySettings
from scrapy.settings import Settings

from smartcrawl import commands
from smartcrawl.commands import config, crawl, search
from smartcrawl.commands.handed_on import hand_commands_on
from smartcrawl.commands.one_page import OnePage
from smartcrawl.engine.download import headers
from smartcrawl.extract import links, robots_txt, sitemaps
from smartcrawl.index.searching import Hit
from smartcrawl.model import setting_values, settings_table, urls
from smartcrawl.model.documents import DEFAULT_CHUNK_SIZE, Document, Section
from smartcrawl.reports.export import ExportedPage, exported_chunks, exported_page_row
from smartcrawl.reports.status import STATUS_KEYS
from smartcrawl.reports.tables import RECORD_KEYS, RUN_KEYS
from smartcrawl.rules import http, traps
from smartcrawl.rules.model import Action, Fault, Outcome, RunState, Standing, Status, Word
from smartcrawl.run import links as run_links
from smartcrawl.run.opening import ARGUMENTS, FILES_ARGUMENTS
from tests import settings_manual

ROOT = Path(__file__).parent.parent
SETTINGS = ROOT / "smartcrawl" / "settings.py"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "bench/*.md")
    for path in ROOT.glob(pattern)
)
SHARED = "Options of every command"
SCRAPYS = (ScrapyList, ScrapySettings)  #: commands that are Scrapy's

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^()\s]+)\)")
_OPTION = re.compile(r"(?<!\w)--?[A-Za-z][\w-]*")


def read(page):
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def codes_in(page):
    """Return what stands between backticks on a page."""
    return _CODE.findall(read(page))


def rows(page, heading=None):
    """Return the cells of each table row of a page, or of the section below one heading."""
    found, inside = [], heading is None
    for line in read(page).splitlines():
        if heading is not None and line.startswith("#"):
            inside = line.lstrip("# ").replace("`", "") == heading
        if inside and line.startswith("|") and not line.startswith("| ---"):
            found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    assert found, f"{page} has no table below {heading!r}"
    return found


def codes(page, heading, column=0):
    """Return what stands between backticks in one column."""
    return [code for row in rows(page, heading) for code in _CODE.findall(row[column])]


# Settings


def test_every_setting_is_documented_row_by_row_as_the_table_has_it():
    """``python -m tests.settings_manual --write`` brings the page up to date."""
    page = read("docs/settings.md")
    told = [row[0].strip("`") for row in rows("docs/settings.md") if row[0] != "setting"]

    assert told == list(settings_table.SETTINGS)
    assert page == settings_manual.written_tables(page)


def test_every_number_of_something_has_its_unit():
    kinds = (setting_values.Number, setting_values.Whole)
    for name, setting in settings_table.SETTINGS.items():
        assert setting.unit, name
        assert isinstance(setting, kinds) == (type(setting.default) in (int, float)), name


def test_the_settings_module_has_the_names_of_the_table_and_fixed_ones(monkeypatch):
    for name in settings_table.SETTINGS:
        monkeypatch.delenv(name, raising=False)
    values = runpy.run_path(str(SETTINGS))
    written = {
        node.id
        for node in walk(parse(SETTINGS.read_text(encoding="utf-8")))
        if isinstance(node, Name) and isinstance(node.ctx, Store)
    }
    fixed = {name for name in written if name.isupper()}

    assert values["defaults"] == {n: s.default for n, s in settings_table.SETTINGS.items()}
    assert {name: values[name] for name in values["defaults"]} == values["defaults"]
    assert {name for name in values if name.isupper()} - fixed == set(settings_table.SETTINGS)


def test_every_setting_comes_from_the_environment_variable_of_its_name(monkeypatch):
    names = list(settings_table.SETTINGS)
    for name in names:
        monkeypatch.setenv(name, f"value of {name}")
    values = runpy.run_path(str(SETTINGS))

    assert {name: values[name] for name in names} == {name: f"value of {name}" for name in names}


def test_every_setting_has_unit_and_meaning():
    assert all(len(row) == 4 and all(row) for row in rows("docs/settings.md"))


@cache
def shipped_settings():
    return {name for name in runpy.run_path(str(SETTINGS)) if name.isupper()}


def test_only_existing_settings_are_named():
    """A name in capitals in the manual is a setting, a fault, or the environment of the tests."""
    known = shipped_settings() | {fault.name for fault in Fault}
    known |= {"PYTHON", "MIN_CLONE_TEXT", "SMARTCRAWL_REQUIRE_SERVERS", "SMARTCRAWL_TEST_CACHE"}
    known |= {"SMARTCRAWL_DATA_DIR"}  # of the program smartcrawl
    known |= {"SMARTCRAWL_TEST_ELASTICSEARCH", "ES_JAVA_HOME"}
    known |= {"SSL_CERT_FILE", "SSL_CERT_DIR"}  # OpenSSL's
    known |= {"DOWNLOADER_CLIENTCONTEXTFACTORY", "DOWNLOAD_SLOTS", "JOBDIR"}  # Scrapy's
    known |= {"FEEDS", "HTTPERROR_ALLOWED_CODES", "HTTPAUTH_USER", "HTTPAUTH_DOMAIN"}  # likewise
    known |= {"OPENAI_API_KEY", "TOKENIZERS_PARALLELISM"}  # of the environment alone
    known |= {"ORT_DISABLE_TELEMETRY"}  # likewise
    known |= {"PYTHONDONTWRITEBYTECODE"}  # Python's
    known |= {"POST", "DELETE"}  # methods of HTTP
    known |= {"GITHUB_TOKEN", "HEAD"}  # of the environment alone; a ref of git
    levels = {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}
    named = re.compile(r"[A-Z][A-Z_]{3,}")
    found = [
        f"{page}: {code}"
        for page in PAGES
        for code in codes_in(page)
        if named.fullmatch(code) and code not in known | levels
    ]

    assert not found, "\n".join(found)


# Commands


def parsers():
    """Return the argument parser of each command, by the command's name."""
    found = {}
    hand_commands_on()
    for module in pkgutil.iter_modules(commands.__path__):
        kinds = vars(import_module(f"smartcrawl.commands.{module.name}"))
        if "Command" in kinds and not issubclass(kinds["Command"], (OnePage, *SCRAPYS)):
            parser = ArgumentParser(prog=module.name, conflict_handler="resolve")
            for kind in filter(None, (kinds.get("HandedOn"), kinds["Command"])):
                command = kind()
                command.settings = Settings()
                command.add_options(parser)
            found[module.name] = parser
    return found


def options(parser, *, shared):
    """Return the options of a parser: those of every command, or its own."""
    common = {
        option
        for group in parser._action_groups
        if group.title == "Global Options"
        for action in group._group_actions
        for option in action.option_strings
    } | {"-h", "--help"}
    every = {option for action in parser._actions for option in action.option_strings}
    return common if shared else every - common


def test_help_offers_an_export_only_where_one_can_be_had():
    """A feed is Scrapy's, for items; pages are no items."""
    shown = {name: " ".join(parser.format_help().split()) for name, parser in parsers().items()}

    assert "--output FILE" not in shown["due"]
    assert "--overwrite-output" not in shown["due"]
    told = "export the items of your own spider; site and files refuse it"
    assert shown["crawl"].count(told) == 2


def test_help_of_crawl_names_every_argument_of_its_spider():
    told = crawl.Command().long_desc()

    known = (*ARGUMENTS, *FILES_ARGUMENTS)
    assert [name for name in known if f"-a {name}=" not in told] == []


def section(name):
    """Return the heading of a command: two have other words as Scrapy's own command."""
    return f"{'scrapy' if name in ('crawl', 'due') else 'smartcrawl'} {name}"


def told_options(heading):
    return {
        option
        for row in rows("docs/cli.md", heading)
        for code in _CODE.findall(row[0])
        for option in _OPTION.findall(code)
    }


def test_every_command_has_a_section_and_no_other():
    told = re.findall(r"^## `((?:scrapy|smartcrawl) \w+)`$", read("docs/cli.md"), re.MULTILINE)

    assert sorted(told) == sorted(map(section, parsers()))


def test_every_option_is_documented_and_no_other():
    own, shared = {}, {}
    for name, parser in parsers().items():
        own[name] = options(parser, shared=False)
        shared[name] = options(parser, shared=True)

    assert {name: told_options(section(name)) for name in own} == own
    shared["config"].add("--set")  # with NAME=VALUE it is -s, with NAME VALUE its own
    assert dict.fromkeys(shared, told_options(SHARED)) == shared


def test_every_format_is_documented():
    missing = []
    for name, parser in parsers().items():
        choices = {a.dest: a.choices for a in parser._actions}.get("format") or ()
        text = " ".join(cell for row in rows("docs/cli.md", section(name)) for cell in row)
        missing += [f"{section(name)} --format {choice}" for choice in choices
                    if not re.search(rf"`(--format )?{choice}`", text)]  # fmt: skip

    assert not missing, "\n".join(missing)


def test_every_argument_of_the_spiders_is_documented_and_no_other():
    told = [code for code in codes("docs/cli.md", "scrapy crawl") if code.startswith("-a ")]
    names = [code.removeprefix("-a ").partition("=")[0] for code in told]

    found = [name for name in names if name != "NAME"]
    assert [name for name in found if name != "root"] == list(ARGUMENTS)
    assert [name for name in found if name in FILES_ARGUMENTS] == list(FILES_ARGUMENTS)


@pytest.mark.parametrize("page", ["docs/exit-status.md", "docs/cli.md"])
def test_every_exit_status_is_documented(page):
    heading = "Exit status" if page == "docs/exit-status.md" else "Exit statuses"
    told = [int(row[0]) for row in rows(page, heading)[1:]]

    assert told == sorted({crawl.DONE, crawl.FAILED, crawl.INCOMPLETE, crawl.HELD, 2})


def test_every_script_is_documented_and_no_other():
    told = {code.split()[0] for code in codes("docs/cli.md", "Scripts")}
    files = {f"script/{path.name}" for path in (ROOT / "script").iterdir() if path.is_file()}

    assert told == files


# Keys and words


def test_every_key_is_documented_in_its_order_and_no_other():
    hit = Hit("", "", "", "", "", 0.0, "", "", lost=False, last_checked=None, last_changed=None)

    assert keys("search") == list(search.search_hit_as_data(hit))
    assert keys("registry") == list(RECORD_KEYS)
    assert keys("runs") == list(RUN_KEYS)
    assert keys("status") == list(STATUS_KEYS)
    assert keys("config") == list(config.KEYS)


def test_every_key_of_an_export_is_documented_and_no_other():
    document = Document(sections=(Section(0, "", "text"),))
    page = ExportedPage("", "", "", is_lost=False, last_changed=None, document=document)
    (chunk,) = exported_chunks(page, DEFAULT_CHUNK_SIZE)
    row = exported_page_row(page)
    told = [first.strip("`") for first, *_ in rows("docs/cli.md", "JSON lines")]

    assert told == ["key", *row, "key", *(name for name in chunk if name not in row)]


def keys(name):
    found = rows("docs/cli.md", section(name))
    start = next(place for place, row in enumerate(found) if row[0] == "key")
    return [row[0].strip("`") for row in found[start + 1 :]]


@pytest.mark.parametrize(
    ("heading", "words"),
    [
        ("Status", [status.word for status in Status]),
        ("Last outcome", [word.word for word in Word]),
        ("State of a run", [state.word for state in RunState]),
        ("Extended status", [fault.name for fault in Fault]),
    ],
)
def test_the_glossary_has_every_word_and_no_other(heading, words):
    column = 1 if heading == "Extended status" else 0
    told = [row[column].strip("`") for row in rows("docs/glossary.md", heading)[1:]]

    assert sorted(told) == sorted(words)


def test_the_glossary_has_the_number_of_every_fault():
    told = {
        row[1].strip("`"): int(row[0]) for row in rows("docs/glossary.md", "Extended status")[1:]
    }

    assert told == {fault.name: int(fault) for fault in Fault}


def test_the_glossary_names_every_action_and_standing():
    text = read("docs/glossary.md")

    assert all(f"*{word}*" in text for word in [*Action, *(s.name.lower() for s in Standing)])


def test_every_outcome_has_a_row_in_the_decisions():
    """The glossary refers to them; tests/rules compares the cells."""
    assert {row[0] for row in rows("docs/decisions.md", "One visit")[1:]} == set(Outcome)


# Files


def test_every_picture_and_page_is_linked_from_the_readme_or_a_page_below():
    linked = {
        (ROOT / page).parent.joinpath(link.partition("#")[0]).resolve()
        for page in PAGES
        for link in _LINK.findall(read(page))
        if "://" not in link
    }
    files = {path.resolve() for path in (ROOT / "docs").rglob("*") if path.is_file()}

    assert files <= linked


def test_relative_links_lead_to_files_and_headings():
    broken = []
    for page in PAGES:
        for link in _LINK.findall(read(page)):
            if "://" in link:
                continue
            path, _, fragment = link.partition("#")
            target = (ROOT / page).parent / path if path else ROOT / page
            if not target.exists() or (fragment and fragment not in anchors(target)):
                broken.append(f"{page}: {link}")

    assert not broken, "\n".join(broken)


@cache
def anchors(page):
    """Return the fragments that the headings of a page can be reached by."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def text_files():
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("this is no git checkout, so there is no list of its files")
    for name in sorted(filter(None, listed.stdout.decode().split("\0"))):
        path = ROOT / name
        if name.startswith("tests/data/") or not path.is_file():
            continue  # other people's data is kept as it is
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def test_no_file_names_a_folder_of_one_machine():
    places = "|".join(("work", "root", "tmp", "home"))
    machine = re.compile(rf"(?<![\w./$}}])/(?:{places})/[\w.-]")
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in text_files()
        for number, line in enumerate(text.splitlines(), 1)
        if machine.search(line)
    ]

    assert not found


def test_code_in_pages_names_existing_files():
    """Paths of the project between backticks exist, so that nobody looks for a file in vain."""
    known = ("script/", "smartcrawl/", "tests/", "docs/", "bench/", "deploy/")
    missing = []
    for page in PAGES:
        codes = [code for code in codes_in(page) if code.startswith(known)]
        named = {code.split()[0] if code.startswith("script/") else code for code in codes}
        named = {name for name in named if re.fullmatch(r"[\w./-]+", name)}
        missing += [f"{page}: {name}" for name in named if not (ROOT / name).exists()]

    assert not missing, "\n".join(missing)


def test_code_in_pages_names_existing_modules():
    """A path that begins with a room is below smartcrawl/, or names a test of the room."""
    rooms = {path.parent.name for path in (ROOT / "smartcrawl").glob("*/__init__.py")}
    bases = (ROOT / "smartcrawl", ROOT / "tests")
    missing = []
    for page in PAGES:
        codes = [code for code in codes_in(page) if re.fullmatch(r"\w+/[\w./-]*", code)]
        named = {code for code in codes if code.partition("/")[0] in rooms}
        missing += [f"{page}: {name}" for name in named
                    if not any((base / name).exists() for base in bases)]  # fmt: skip

    assert not missing, "\n".join(missing)


# Limits


UNITS = {"s": 1, "KiB": 1024, "MiB": 1024**2, "KiB/s": 1024}

#: What docs/limits.md calls fixed, where the code has it.
FIXED = {
    "headers of an answer": headers.MAX_HEADERS,
    "ETag, Last-Modified that is kept": http.MAX_VALIDATOR,
    "address": urls.MAX_URL_LENGTH,
    "links of a page": links.MAX_LINKS,
    "sitemap or feed, unpacked": sitemaps.MAX_SITEMAP,
    "addresses in a sitemap": sitemaps.MAX_ENTRIES,
    "sitemaps within sitemaps": run_links.MAX_NESTING,
    "robots.txt that is read": robots_txt.LIMIT,
    "longest Crawl-delay": robots_txt.MAX_CRAWL_DELAY,
    "the same segment in a path": traps.MAX_REPEATS,
    "segments of a path": traps.MAX_SEGMENTS,
    "parameters of a query": traps.MAX_PARAMETERS,
    "years that a calendar is followed into the future": traps.MAX_YEARS_AHEAD,
    "pages in a row of an endless list or calendar that bring nothing new": traps.MOST_ALIKE,
    "session ids under which a run requests one page": signature(traps.TrapBudget)
    .parameters["per_session"]
    .default,
}


def limit(value: str) -> float:
    """Return a limit as the page writes it, in seconds, bytes or pieces; 0: none."""
    if value == "no limit":
        return 0
    number, _, unit = value.replace(",", "").partition(" ")
    return float(number) * UNITS.get(unit, 1)


def test_the_limits_of_the_manual_are_the_codes():
    _, *table = rows("docs/limits.md", "What the open web may do to it")
    defaults, fixed = settings_defaults(), dict(FIXED)
    for what, value, where in table:
        if where.strip() == "fixed":
            assert limit(value) == fixed.pop(what), what
        elif where != "`max_pages`":
            assert limit(value) == float(defaults[where.strip("`")]), what
    assert not fixed, "docs/limits.md leaves a limit out"


def settings_defaults() -> dict[str, object]:
    names = runpy.run_path(str(SETTINGS))
    return {name: value for name, value in names.items() if name.isupper()}
