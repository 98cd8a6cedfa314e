"""Everything that users were promised by name: a list that may grow, and of which nothing goes.

    python -m tests.promises            print the names, one a line
    python -m tests.promises --write    write them to tests/data/promises.txt

Commands with options and arguments, settings, keys of sources, columns, statuses, numbers of
messages, keys of results, paths and parameters of the API, tools of MCP, and the words of states.
"""

import pkgutil
import re
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scrapy.settings import Settings

from smartcrawl import commands, settings
from smartcrawl.commands import config, crawl, search
from smartcrawl.commands.handed_on import hand_commands_on
from smartcrawl.commands.listed import COMMANDS
from smartcrawl.index.searching import Hit
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.reports.status import STATUS_KEYS
from smartcrawl.reports.tables import RECORD_KEYS, RUN_KEYS
from smartcrawl.rules.model import Action, Fault, Outcome, RunState, Standing, Status, Word
from smartcrawl.run import opening
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.site import SiteSource
from tests.choices import options
from tests.server.api_client import application, ask

LIST = Path(__file__).parent / "data/promises.txt"
TABLES = Path(__file__).parent.parent / "docs/tables.md"  #: its headings are tables for users
METHODS = ("get", "post", "put", "patch", "delete", "head")
WORDS: tuple[Any, ...] = (Status, Word, RunState, Standing, Action, Outcome)


def promises() -> list[str]:
    """Return every promised name, sorted."""
    with TemporaryDirectory() as folder:
        return sorted(
            {
                *_commands(),
                *_arguments(),
                *(f"setting {name}" for name in settings.defaults),
                *_keys(),
                *_words(),
                *_columns(Path(folder)),
                *_api(Path(folder)),
            }
        )


def _commands() -> Iterator[str]:
    for name in COMMANDS:
        yield f"command {name}"
    hand_commands_on()
    for module in pkgutil.iter_modules(commands.__path__):
        kinds = vars(import_module(f"smartcrawl.commands.{module.name}"))
        if "Command" not in kinds:
            continue
        parser = ArgumentParser(prog=module.name, conflict_handler="resolve")  # Scrapy's conflict
        for kind in filter(None, (kinds.get("HandedOn"), kinds["Command"])):
            command = kind()
            command.settings = Settings()
            command.add_options(parser)
        for action in parser._actions:
            for option in action.option_strings:
                yield f"option {module.name} {option}"
            if action.option_strings:
                for choice in action.choices or ():
                    yield f"choice {module.name} {action.option_strings[-1]} {choice}"


def _arguments() -> Iterator[str]:
    for spider, names in (
        ("site", opening.ARGUMENTS),
        ("files", opening.FILES_ARGUMENTS),
        ("github", opening.GITHUB_ARGUMENTS),
        ("sharepoint", opening.LIBRARY_ARGUMENTS),
    ):
        for name in names:
            yield f"argument {spider} -a {name}"


def _keys() -> Iterator[str]:
    hit = Hit("", "", "", "", "", 0.0, "", "", lost=False, last_checked=None, last_changed=None)
    for place, names in (
        ("search", search.search_hit_as_data(hit)),
        ("registry", RECORD_KEYS),
        ("runs", RUN_KEYS),
        ("status", STATUS_KEYS),
        ("config", config.KEYS),
        ("sources.toml site", SiteSource.keys()),
        ("sources.toml files", FilesSource.keys()),
        ("sources.toml github", GithubSource.keys()),
    ):
        for name in names:
            yield f"key {place}: {name}"


def _words() -> Iterator[str]:
    for status in (crawl.DONE, crawl.FAILED, crawl.INCOMPLETE, crawl.HELD, 2):
        yield f"exit status {status}"
    for fault in Fault:
        yield f"message {int(fault)} {fault.name}"
    for kind in WORDS:
        for each in kind:
            yield f"word {kind.__name__} {getattr(each, 'word', each.name)}"


def _columns(folder: Path) -> Iterator[str]:
    with closing(registry_database(options(folder).registry).open()) as registry:
        tables = re.findall(r"^## (\w+)$", TABLES.read_text(encoding="utf-8"), re.MULTILINE)
        for table in tables:
            for (column,) in registry.execute(
                "SELECT name FROM pragma_table_info(?)", (table,)
            ).fetchall():
                yield f"column {table}.{column}"


def _api(folder: Path) -> Iterator[str]:
    described = ask(application(folder), "GET", "/openapi.json").json()
    for path, methods in described["paths"].items():
        for method in METHODS:
            if method not in methods:
                continue
            operation = methods[method]
            yield f"API {method.upper()} {path}"
            for parameter in operation.get("parameters", ()):
                yield f"API {method.upper()} {path} {parameter['in']} {parameter['name']}"
            for status in operation.get("responses", ()):
                yield f"API {method.upper()} {path} answers {status}"
    for name, schema in described["components"]["schemas"].items():
        for field in schema.get("properties", ()):
            yield f"API field {name}.{field}"


if __name__ == "__main__":
    lines = "".join(f"{line}\n" for line in promises())
    if sys.argv[1:] == ["--write"]:
        LIST.write_text(lines)
    else:
        sys.stdout.write(lines)
