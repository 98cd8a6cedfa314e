"""Imports point down, and the rules know the standard library alone (docs/architecture.md)."""

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from smartcrawl.run.run import open_registry_for_run
from tests.choices import options
from tests.modules import parsed
from tests.registry.build import Desk, begin_registry

ROOT = Path(__file__).resolve().parents[1]
RULES = sorted((ROOT / "smartcrawl" / "rules").glob("*.py"))
#: Modules of the standard library that read a clock, a file or a socket.
OUTSIDE = {"time", "random", "os", "socket", "sqlite3", "pathlib", "logging"}


def test_every_contract_of_import_linter_holds():
    program = shutil.which("lint-imports", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("import-linter is not installed beside this Python")

    result = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 kept, 0 broken" in result.stdout


def foreign_imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and name of each import that a rule may not have."""
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            own = name.startswith("smartcrawl.rules")
            standard = name.partition(".")[0] in sys.stdlib_module_names
            if name in OUTSIDE or not (own or standard):
                yield node.lineno, name


def test_rules_import_only_the_standard_library():
    """A rule that reads a clock, a file or a socket could not be tested as a table."""
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in RULES
        for line, name in foreign_imports(parsed(path))
    ]

    assert not found, "\n".join(found)


def test_an_import_that_a_rule_may_not_have_is_found():
    code = """
import ast, re2
import os
from . import model
from smartcrawl.rules import model
from smartcrawl.model import urls
from collections.abc import Set
"""
    found = list(foreign_imports(ast.parse(code)))
    assert found == [(2, "re2"), (3, "os"), (4, "."), (6, "smartcrawl.model")]


def test_a_crawl_loads_no_client_of_servers_that_it_does_not_use():
    """Each would be 10 to 20 MiB, and a tenth to a third of the start of every command."""
    code = """
import sys
from scrapy.utils.conf import build_component_list
from scrapy.utils.misc import load_object, walk_modules_iter
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
for name in ("smartcrawl.commands", "smartcrawl.spiders"):
    list(walk_modules_iter(name))
for name in ("EXTENSIONS", "DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES", "ITEM_PIPELINES"):
    for component in build_component_list(settings.getwithbase(name)):
        load_object(component)
load_object(settings["SCHEDULER"])
print(sorted({"aiohttp", "elasticsearch", "psycopg", "redis"} & sys.modules.keys()))
"""
    command = [sys.executable, "-c", code]

    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )

    assert (result.stdout, result.stderr) == ("[]\n", "")


@pytest.mark.long(but=1)
@pytest.mark.parametrize("words", [["--help"], ["search", "fuse"]], ids=["help", "search"])
def test_a_command_that_needs_no_server_loads_no_reactor_and_no_client(
    tmp_path: Path, words: list[str]
):
    open_registry_for_run(options(tmp_path)).close()
    code = """
import sys
from pathlib import Path
from scrapy.cmdline import execute

try:
    execute(["scrapy", *sys.argv[2:]])
finally:
    Path(sys.argv[1]).write_text("\\n".join(sys.modules))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "modules"), *words]

    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"DATA_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    loaded = set((tmp_path / "modules").read_text(encoding="utf-8").split("\n"))
    assert {"scrapy", "smartcrawl.commands.search"} <= loaded
    assert not loaded & {
        "twisted.internet.reactor",  # importing it installs one
        "elasticsearch", "elastic_transport", "psycopg", "redis", "aiohttp",
        "smartcrawl.pipelines", "smartcrawl.middlewares", "smartcrawl.engine.lane.lane",
    }  # fmt: skip


@pytest.mark.parametrize("words", [["--help"], ["search", "fuse"]], ids=["help", "search"])
def test_smartcrawl_starts_without_scrapy_and_without_clients(tmp_path: Path, words: list[str]):
    """With them, a search would take seven times as much CPU before it begins."""
    begin_registry(tmp_path / "registry.db")
    desk = Desk(tmp_path / "registry.db")
    desk.open()
    desk.write(desk.visit("http://docs.example/a", "The spare fuse is [below] the seat."))
    desk.seal()
    desk.close()
    code = """
import sys
from pathlib import Path
from smartcrawl.__main__ import main_command

try:
    status = main_command(sys.argv[2:])
finally:
    Path(sys.argv[1]).write_text("\\n".join(sys.modules))
sys.exit(status)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "modules"), *words]

    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"DATA_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    loaded = set((tmp_path / "modules").read_text(encoding="utf-8").split("\n"))
    assert "smartcrawl.commands.front" in loaded
    is_search = words[0] == "search"
    assert ("smartcrawl.commands.search" in loaded) == is_search
    assert ("fuse is [below] the seat." in result.stdout) == is_search
    assert not loaded & {
        "scrapy", "twisted", "lxml", "parsel", "pydantic", "asyncio", "ssl", "fsspec",
        "elasticsearch", "elastic_transport", "psycopg", "redis", "aiohttp",
        "semantic_text_splitter", "smartcrawl.index.choice", "smartcrawl.registry.removal.sweep",
        "cProfile", "email.utils", "importlib.resources", "numpy", "protego", "re2", "rich",
        "selectors", "socket", "tempfile", "zipfile", "smartcrawl.extract.robots_txt",
    }  # fmt: skip


def test_a_search_of_plain_words_compiles_no_set_of_all_marks():
    """They take a tenth of the CPU time of a search, and a word of ASCII has none."""
    code = """
from smartcrawl.index.analysis import words
from smartcrawl.index.queries import parsed_search_query

for text in ("spare fuse", "größe"):
    parsed_search_query(text)
    print(words._runs.cache_info().currsize)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert result.stdout.split() == ["0", "1"]


def test_a_crawl_of_a_web_site_loads_nothing_of_other_sources_and_indexes(tmp_path: Path):
    """Modules that it does not use were a third of the CPU time of a small crawl."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.html").write_text("<title>Fuses</title>", encoding="utf-8")
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    code = """
import sys
from pathlib import Path
from smartcrawl.__main__ import main_command

status = main_command(sys.argv[2:])
Path(sys.argv[1]).write_text("\\n".join(sys.modules))
sys.exit(status)
"""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        words = ["crawl", url, "--data-dir", str(tmp_path / "data")]
        result = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "modules"), *words],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        server.shutdown()

    assert result.returncode == 0, result.stderr
    loaded = set((tmp_path / "modules").read_text(encoding="utf-8").split("\n"))
    assert {"smartcrawl.spiders.site", "smartcrawl.engine.lane.lane"} <= loaded
    assert not loaded & {
        "aiohttp", "elasticsearch", "elastic_transport", "fsspec", "psycopg", "redis", "requests",
        "rich.traceback", "tldextract", "urllib3",
        "smartcrawl.engine.listing", "smartcrawl.index.elasticsearch.sink",
        "smartcrawl.index.remote", "smartcrawl.run.library", "smartcrawl.sources.github.payloads",
        "smartcrawl.sources.sharepoint.payloads",
    }  # fmt: skip


def test_the_program_looks_for_garbage_only_after_its_imports(tmp_path: Path):
    """Looking at the modules while they come took a tenth of a small crawl."""
    code = """
import gc, sys
from smartcrawl.__main__ import run
sys.argv = ["smartcrawl", "search", "fuse"]
looks = []
gc.callbacks.append(lambda phase, info: looks.append(gc.get_freeze_count()))
try:
    run()
finally:
    gc.collect()
    print(looks[0] > 10_000, gc.isenabled())
"""
    open_registry_for_run(options(tmp_path)).close()

    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"DATA_DIR": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert result.stdout.splitlines()[-1] == "True True", result.stderr


def test_the_rules_are_found():
    assert len(RULES) >= 5
