"""Every name of smartcrawl is used in smartcrawl, and not by its own tests alone."""

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from tests.modules import tree

ROOT = Path(__file__).parent.parent

#: Names that a library calls by a protocol without a base class.
HOOKS: Final = {
    "BestIndex": "apsw, of virtual tables",
    "Close": "apsw, of virtual tables",
    "Column": "apsw, of virtual tables",
    "Connect": "apsw, of virtual tables",
    "Create": "apsw, of virtual tables",
    "Destroy": "apsw, of virtual tables",
    "Disconnect": "apsw, of virtual tables",
    "Eof": "apsw, of virtual tables",
    "Filter": "apsw, of virtual tables",
    "Next": "apsw, of virtual tables",
    "Open": "apsw, of virtual tables",
    "Rowid": "apsw, of virtual tables",
    "clientConnectionForTLS": "Twisted, of makers of connections with TLS",
    "close_spider": "Scrapy, of pipelines",
    "create_module": "importlib, of loaders",
    "default_settings": "Scrapy, of commands",
    "do_GET": "http.server, of handlers of requests",
    "enqueue_request": "Scrapy, of schedulers",
    "exec_module": "importlib, of loaders",
    "find_spec": "importlib, of finders",
    "raise_for_status": "msal, of answers; it replaces the method",
    "on_body": "httptools, of parsers",
    "on_header": "httptools, of parsers",
    "on_headers_complete": "httptools, of parsers",
    "on_message_begin": "httptools, of parsers",
    "on_message_complete": "httptools, of parsers",
    "open_spider": "Scrapy, of pipelines",
    "lineLengthExceeded": "Twisted, of protocols that read lines",
    "process_item": "Scrapy, of pipelines",
    "process_spider_output": "Scrapy, of spider middlewares",
    "requires_project": "Scrapy, of commands",
    "resolutionBegan": "Twisted, of receivers of addresses",
    "resolutionComplete": "Twisted, of receivers of addresses",
    "short_desc": "Scrapy, of commands",
    "update_pre_crawler_settings": "Scrapy, of add-ons",
    "update_settings": "Scrapy, of add-ons",
    "_fields_": "ctypes, of structures",
}
#: Decorators whose library calls the function.
DECORATORS: Final = ("field_validator", "model_validator")
#: Names that are found by their places: commands and spiders by Scrapy, readers by the format of a
#: document, the add-on by the settings of a project, fields of answers by FastAPI
#: and the SDK of MCP.
FOUND: Final = (
    r"smartcrawl\.addon:Smartcrawl",
    r"smartcrawl\.commands\.\w+:Command",
    r"smartcrawl\.extract\.formats\.\w+:read_format",
    r"smartcrawl\.server\.((explained|jobs|mcp)\.)?answers:\w+\.\w+",
    r"smartcrawl\.settings:\w+",
    r"smartcrawl\.spiders\.\w+:\w+Spider",
)
#: What nothing uses, and why it stays.
EXCEPTIONS: Final = {
    "smartcrawl.registry.connection:Rows.get_description": (
        "tests compare the columns of views by it"
    ),
    "smartcrawl.registry.database.session:PostgresRows.get_description": "likewise",
    "smartcrawl.model.urls:url_partition_key": "tests compare the views with it (R0-09)",
    "smartcrawl.model.urls:normalize_path": "for files, which are to come (R0-20 to R0-23)",
    "smartcrawl.server.frontier:UrlMetadata.discovered_at": (
        "it is checked, and not kept (ADR 60)"
    ),
    "smartcrawl.extract.browser.page:Rendering.refused_hosts": "tests read it",
    "smartcrawl.run.library.result:Embedded.embed_failed": "a key of JSON, made of its name",
}

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_DOTTED = re.compile(r"smartcrawl(\.\w+)+")  #: as settings name classes
Place = tuple[str, str]  #: module, and the name in it


@dataclass
class Module:
    """One parsed module, and what its imports mean."""

    name: str
    tree: ast.Module
    modules: dict[str, str] = field(default_factory=dict)  #: local name -> module
    names: dict[str, Place] = field(default_factory=dict)  #: local name -> where it is defined

    @classmethod
    def parsed(cls, name: str, text: str, known: set[str]) -> "Module":
        module = cls(name, tree(text))
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    local, whole = alias.asname or alias.name, f"{node.module}.{alias.name}"
                    if whole in known:
                        module.modules[local] = whole
                    else:
                        module.names[local] = (node.module, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    module.modules[alias.asname or alias.name] = alias.name
            elif isinstance(node, ast.AnnAssign | ast.Assign):
                late = _imported_late(node)
                module.modules |= dict.fromkeys(_names_of(node), late) if late else {}
        return module


def _imported_late(node: ast.AnnAssign | ast.Assign) -> str | None:
    """Return the module that an assignment imports by its name, if that is written there."""
    call = node.value
    if not (isinstance(call, ast.Call) and ast.unparse(call.func) == "import_module"):
        return None
    return call.args[0].value if isinstance(call.args[0], ast.Constant) else None


@dataclass(frozen=True)
class Defined:
    """One definition: a function, class or constant of a module, or a member of a class."""

    module: str
    path: str  #: ``name`` or ``Class.name``
    node: ast.AST

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def place(self) -> str:
        return f"{self.module}:{self.path}"


def sources(folder: Path = ROOT) -> dict[str, str]:
    """Return the text of each module of the package below a folder, by its dotted name."""
    found = {}
    for file in sorted((folder / "smartcrawl").rglob("*.py")):
        parts = file.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = file.read_text(encoding="utf-8")
    return found


def parsed(texts: Mapping[str, str]) -> dict[str, Module]:
    return {name: Module.parsed(name, text, set(texts)) for name, text in texts.items()}


def definitions(module: Module) -> Iterator[Defined]:
    """Yield what a module defines: functions, classes, constants, members of its classes."""
    for node in module.tree.body:
        for name in _names_of(node):
            yield Defined(module.name, name, node)
        if isinstance(node, ast.ClassDef):
            is_tuple = any("NamedTuple" in ast.unparse(base) for base in node.bases)
            for member in node.body:
                if is_tuple and isinstance(member, ast.AnnAssign):
                    continue  # it may be read by its place
                for name in _names_of(member):
                    yield Defined(module.name, f"{node.name}.{name}", member)


def _names_of(node: ast.AST) -> list[str]:
    if isinstance(node, _FUNCTIONS | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


class Uses:
    """What the nodes of a package refer to: names of modules, and members by name alone."""

    def __init__(self) -> None:
        self.places: Counter[Place] = Counter()
        self.members: Counter[str] = Counter()

    def add(self, module: Module, node: ast.AST) -> "Uses":
        for each in ast.walk(node):
            if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load):
                self.places[module.names.get(each.id, (module.name, each.id))] += 1
            elif isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load):
                of = ast.unparse(each.value)
                if of in module.modules:
                    self.places[module.modules[of], each.attr] += 1
                else:
                    self.members[each.attr] += 1
            elif isinstance(each, ast.Constant) and _DOTTED.fullmatch(str(each.value)):
                where, _, name = str(each.value).rpartition(".")
                self.places[where, name] += 1
        return self

    def of(self, defined: Defined) -> int:
        if "." in defined.path:
            inside = self.places[defined.module, defined.name]  # within the class's own body
            return self.members[defined.name] + inside
        return self.places[defined.module, defined.name]


def unused(modules: Mapping[str, Module]) -> list[Defined]:
    """Return the definitions to which nothing outside of their own bodies refers."""
    uses = Uses()
    for module in modules.values():
        uses.add(module, module.tree)
    return [
        defined
        for module in modules.values()
        for defined in definitions(module)
        if not defined.name.startswith("__")
        and uses.of(defined) == Uses().add(module, defined.node).of(defined)
    ]


def is_called_from_outside(defined: Defined) -> bool:
    """Whether a library calls it: by its place, a protocol, a decorator or a base class."""
    decorators = getattr(defined.node, "decorator_list", [])
    if (
        any(re.fullmatch(pattern, defined.place) for pattern in FOUND)
        or defined.name in HOOKS
        or any(ast.unparse(each).startswith(DECORATORS) for each in decorators)
    ):
        return True
    owner, dot, _ = defined.path.partition(".")
    made = getattr(import_module(defined.module), owner) if dot else object
    bases = [base for base in made.__mro__[1:] if not base.__module__.startswith("smartcrawl")]
    return any(hasattr(base, defined.name) for base in bases)


@pytest.fixture(scope="module")
def package() -> dict[str, Module]:
    """The modules of smartcrawl."""
    return parsed(sources())


def test_everything_is_used(package: dict[str, Module]):
    found = {each.place for each in unused(package) if not is_called_from_outside(each)}

    assert found - EXCEPTIONS.keys() == set(), "use it, or remove it"
    assert EXCEPTIONS.keys() - found == set(), "it is used now"


def test_every_hook_is_there(package: dict[str, Module]):
    names = {each.name for module in package.values() for each in definitions(module)}

    assert HOOKS.keys() - names == set()


PACKAGE = {
    "smartcrawl": "",
    "smartcrawl.one": """
from typing import NamedTuple
from smartcrawl import two
from smartcrawl.two import called as known

KEYS = ("a", "b")

def used():
    return known() + two.asked()

def recursive():
    return recursive()

class Thing:
    read: int
    unread: int

    def method(self):
        return self.read

    def idle(self):
        return self.idle()

class Pair(NamedTuple):
    left: int
""",
    "smartcrawl.two": """
from smartcrawl.one import Pair, Thing, used

CLASS = "smartcrawl.two.Named"
print(CLASS)

def called():
    return used() or Pair(1) or Thing().method()

def asked(recursive=1):
    return recursive

class Named: ...
""",
}


def test_what_only_calls_itself_or_has_the_name_of_something_used_is_found():
    found = [each.place for each in unused(parsed(PACKAGE))]

    assert found == [
        "smartcrawl.one:KEYS",
        "smartcrawl.one:recursive",
        "smartcrawl.one:Thing.unread",
        "smartcrawl.one:Thing.idle",
    ]


@pytest.mark.parametrize(
    ("module", "name", "called"),
    [
        ("commands.why", "Command", True),
        ("commands.crawl", "Command.long_desc", True),  # of ScrapyCommand
        ("pipelines", "CommitPipeline.close_spider", True),
        ("run.shared.redis_frontier", "RedisFrontier.exchange", False),
    ],
)
def test_what_libraries_call_is_known(
    package: dict[str, Module], module: str, name: str, called: bool
):
    place = f"smartcrawl.{module}:{name}"
    each = next(
        each for each in definitions(package[f"smartcrawl.{module}"]) if each.place == place
    )

    assert is_called_from_outside(each) is called
