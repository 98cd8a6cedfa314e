"""Choose the tests of ``script/test``; ``script/test --all`` runs the others, too.

One marker leaves tests out: ``long`` a whole test, ``long(but=4)`` all of its cases but four,
spread evenly; on a module (``pytestmark``) all of its tests but four. Without a marker these are
long:

- Of a whole run or a request to the API (tests/crawls, tests/lab, tests/server) that can use either
  database, the one of the two. Of the whole crawls half are run with SQLite, half with PostgreSQL;
  with that every tenth request to the API, which takes twice as long there, and of the stories of
  the lab, which take four times as long, every ninety-sixth.
- Likewise of a library that can be read by either API, REST or Graph.
- Of a test that runs commands for real, all cases but one.
- Of a contract of several stores, all cases with another store than the first (SQLite, a folder,
  S3) but one of each sixth test: they share nearly all statements.

Hypothesis tries 20 examples of a property, and ``--all`` its usual 100; of one that says
``examples(500)`` a tenth, and ``--all`` each of them; ``some(KINDS, 3)`` are a third of the kinds
that one stage has.

A test that is named by its id is run, and a changed room its long tests, see `LONG_FORMS`.
``python -m tests.tiers COMMIT`` prints the files of tests whose long form that commit calls for.
"""

import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

ROOT: Final = Path(__file__).resolve().parents[1]
DATABASES: Final = ("sqlite", "postgres")
#: Stores of one contract; all of its cases are run with the first.
STORES: Final = (
    (*DATABASES, "elasticsearch"), ("file", "s3", "azure"), ("s3", "azure", "google"),
)  # fmt: skip
APIS: Final = ("rest", "graph")
#: Where one database is enough.
_WHOLE_RUNS: Final = ("tests/crawls/", "tests/lab/", "tests/server/")
#: Of so many tests of a folder one, by its place, is run with PostgreSQL; elsewhere of two.
_POSTGRES: Final = {"tests/lab/": (96, 0), "tests/server/": (10, 1)}
#: Where one API is enough.
_LIBRARIES: Final = ("tests/crawls/test_library_", "tests/lab/test_library_")
#: Where contracts are.
_CONTRACTS: Final = ("tests/registry/", "tests/index/", "tests/reports/", "tests/sources/listing/")

#: Begin of the path of a changed file -> begins of the paths of tests whose long form it calls for.
LONG_FORMS: Final = {
    "README.md": ("tests/test_documents.py", "tests/test_links.py"),
    "docs/": (
        "tests/server/test_manual.py", "tests/test_documents.py", "tests/test_links.py",
        "tests/test_screens.py",
    ),
    "pyproject.toml": ("tests/test_package.py",),
    "requirements": ("tests/test_setup.py", "tests/test_package.py"),
    "setup.py": ("tests/test_scrapyd.py",),
    "script/": (
        "tests/test_release.py", "tests/test_setup.py", "tests/test_package.py",
        "tests/test_workers.py",
    ),
    "smartcrawl/commands/": ("tests/commands/test_mistakes", "tests/test_screens.py"),
    "smartcrawl/commands/demo": ("tests/commands/test_demo.py",),
    "smartcrawl/engine/logs.py": ("tests/test_scrapyd.py",),
    "smartcrawl/engine/download/": (
        "tests/crawls/test_attacks_bombs", "tests/crawls/test_crawl_retold",
    ),
    "smartcrawl/engine/lane/": (
        "tests/crawls/test_crawl_lane", "tests/crawls/test_crawl_retold", "tests/engine/",
    ),
    "smartcrawl/engine/render/": (
        "tests/crawls/test_crawl_render", "tests/crawls/test_workers_rendering",
    ),
    "smartcrawl/extract/": ("tests/extract/",),
    "smartcrawl/extract/browser/": ("tests/crawls/test_crawl_render",),
    "smartcrawl/index/elasticsearch/": (
        "tests/crawls/test_audit_elasticsearch", "tests/crawls/test_crawl_elasticsearch",
        "tests/index/test_elasticsearch_", "tests/index/test_hybrid_", "tests/index/test_remote_",
    ),
    "smartcrawl/index/embedded/": ("tests/index/test_sinks_", "tests/index/test_hybrid_"),
    "smartcrawl/index/embedding/": (
        "tests/crawls/test_vectors_kill", "tests/crawls/test_workers_vectors",
        "tests/index/embedding/",
    ),
    "smartcrawl/index/vectorstore/": (
        "tests/index/vectorstore/", "tests/crawls/test_library_embed",
    ),
    "smartcrawl/registry/commit/": (
        "tests/crawls/test_crawl_meanwhile", "tests/crawls/test_crawl_traps",
        "tests/crawls/test_failover", "tests/crawls/test_kill", "tests/registry/test_conv",
        "tests/registry/test_outcome_",
    ),
    "smartcrawl/registry/database/": ("tests/lab/", "tests/registry/"),
    "smartcrawl/registry/library/": ("tests/registry/library/",),
    "smartcrawl/registry/processes.py": (
        "tests/server/items/", "tests/server/jobs/", "tests/server/library/",
    ),
    "smartcrawl/registry/removal/": ("tests/registry/test_outcome_removal",),
    "smartcrawl/registry/repair/": ("tests/registry/test_registry_damage",),
    "smartcrawl/registry/schema/": ("tests/lab/", "tests/registry/"),
    "smartcrawl/run/batches.py": ("tests/crawls/test_crawl_traps",),
    "smartcrawl/run/frontier.py": ("tests/run/test_redis_", "tests/run/test_shared_"),
    "smartcrawl/run/library/": (
        "tests/crawls/test_library_audit", "tests/crawls/test_library_counts",
        "tests/crawls/test_library_dry", "tests/crawls/test_library_embed",
        "tests/crawls/test_library_reports",
    ),
    "smartcrawl/run/shared/": (
        "tests/run/test_redis_", "tests/run/test_shared_", "tests/crawls/test_workers_",
    ),
    "smartcrawl/server/items.py": ("tests/server/items/",),
    "smartcrawl/server/jobs/": ("tests/server/jobs/",),
    "smartcrawl/server/library.py": ("tests/server/library/",),
    "smartcrawl/server/mcp/": ("tests/server/mcp/",),
    "smartcrawl/sources/github/": ("tests/sources/github/", "tests/crawls/test_github_"),
    "smartcrawl/sources/listing/": (
        "tests/sources/listing/", "tests/crawls/test_bucket_", "tests/crawls/test_files_",
    ),
    "smartcrawl/sources/stores.py": ("tests/registry/test_snapshots", "tests/sources/listing/"),
    "smartcrawl/sources/sharepoint/": (
        "tests/crawls/test_library_faults", "tests/crawls/test_library_kill",
        "tests/lab/test_library_refusals", "tests/sources/sharepoint/",
    ),
    "smartcrawl/terminal/": ("tests/test_screens.py",),
    "tests/beside.py": ("tests/test_beside.py",),
    "tests/documents.py": ("tests/test_documents.py",),
    "tests/forks.py": ("tests/test_forks.py",),
    "tests/registry/explorer.py": ("tests/registry/test_explorer.py",),
    "tests/servers/": ("tests/test_servers",),
    "tests/stores.py": ("tests/sources/test_stores.py",),
    "tests/tiers.py": ("tests/test_tiers.py",),
}  # fmt: skip


def left_out(items: Sequence[pytest.Item], called_for: Sequence[str] = ()) -> dict[str, str]:
    """Return why tests are left to ``--all``, by their ids.

    ``called_for``: begins of the ids of tests that are run whatever their marker is.
    """
    items = [item for item in items if not item.nodeid.startswith(tuple(called_for))]
    out = {item.nodeid: "long" for item in items if _is_long(item)}
    rules = (
        (DATABASES, _is_whole_run, "of the other database"),
        (APIS, _is_of_a_library, "of the other API"),
    )
    for words, is_enough, why in rules:
        for twins in _twins((item for item in items if item.nodeid not in out), words, is_enough):
            kept = chosen_word(twins[0].nodeid, words)
            out |= {item.nodeid: why for item in twins if word_in(item.nodeid, words) != kept}
    total = Counter(_test(item) for item in items if item.nodeid not in out)
    for cases in _cases(item for item in items if item.nodeid not in out):
        if cases[0].nodeid.startswith(_CONTRACTS):
            out |= dict.fromkeys(_elsewhere([case.nodeid for case in cases]), "of another store")
    for cases in _cases(item for item in items if item.nodeid not in out):
        of_test, _ = _but(cases[0])
        if of_test is None and "ask" in cases[0].fixturenames:
            of_test = 1
        if of_test is not None:  # of the cases with all stores
            of_test = max(1, round(of_test * len(cases) / total[_test(cases[0])]))
        out |= dict.fromkeys(_but_evenly(cases, of_test), "more cases")
    for tests in _modules(item for item in items if item.nodeid not in out):
        out |= dict.fromkeys(_but_evenly(tests, _but(tests[0])[1]), "long")
    return out


def _elsewhere(nodeids: Sequence[str]) -> Iterator[str]:
    """Yield the cases of a test of a contract with other stores than the first, but some with each.

    Of each sixth test it is one, of the others none.
    """
    stores = next((s for s in STORES if any(word_in(id_, s[:1]) for id_ in nodeids)), ())
    by_store: dict[str | None, list[str]] = defaultdict(list)
    for nodeid in nodeids:
        by_store[word_in(nodeid, stores)].append(nodeid)
    is_sixth = crc32(nodeids[0].partition("[")[0].encode()) % 6 == 0
    for store in stores[1:]:
        yield from by_store[store][is_sixth:]


def _is_long(item: pytest.Item) -> bool:
    return any("but" not in marker.kwargs for marker in item.iter_markers("long"))


def _but(item: pytest.Item) -> tuple[int | None, int | None]:
    """Return how many cases of its test, and tests of its module, the markers of a test keep."""
    of_test = of_module = None
    for node, marker in item.iter_markers_with_node("long"):
        if isinstance(node, pytest.Module):
            of_module = marker.kwargs["but"]
        else:
            of_test = marker.kwargs["but"]
    return of_test, of_module


def _but_evenly(items: Sequence[pytest.Item], most: int | None) -> Iterator[str]:
    """Yield the ids of the tests that are left out where so many are kept."""
    kept = evenly(len(items), len(items) if most is None else most)
    yield from (item.nodeid for no, item in enumerate(items) if no not in kept)


def _is_whole_run(nodeid: str) -> bool:
    return nodeid.startswith(_WHOLE_RUNS)


def _is_of_a_library(nodeid: str) -> bool:
    return nodeid.startswith(_LIBRARIES)


def word_in(nodeid: str, words: Sequence[str]) -> str | None:
    """Return the database, or the API, that the id of a test names.

    >>> word_in("tests/crawls/test_kill.py::test_a_run[auto-postgres]", DATABASES)
    'postgres'
    >>> word_in("tests/crawls/test_kill.py::test_postgres_alone", DATABASES)
    """
    named = nodeid.partition("[")[2].removesuffix("]").split("-")
    return next((word for word in named if word in words), None)


def without_word(nodeid: str, words: Sequence[str]) -> str:
    """Return what the ids of a test have in common, whichever of the words it is run with.

    >>> without_word("tests/crawls/test_kill.py::test_a_run[auto-postgres]", DATABASES)
    'tests/crawls/test_kill.py::test_a_run[auto-any-database]'
    """
    either = "any-database" if words == DATABASES else "any-api"
    name, _, rest = nodeid.partition("[")
    named = rest.removesuffix("]").split("-")
    return f"{name}[{'-'.join(either if word in words else word for word in named)}]"


def chosen_word(nodeid: str, words: Sequence[str]) -> str:
    """Return the database, or the API, of a test of the default tier: the same each time."""
    number = crc32(without_word(nodeid, words).encode())
    if words == DATABASES:
        shares = (share for folder, share in _POSTGRES.items() if nodeid.startswith(folder))
        of, place = next(shares, (2, 1))
        return words[number % of == place]
    return words[number % len(words)]


def evenly(total: int, most: int) -> set[int]:
    """Return ``most`` places out of 0 to ``total`` - 1, the first and the last among them.

    >>> sorted(evenly(9, 3)), sorted(evenly(2, 3)), sorted(evenly(5, 1))
    ([0, 4, 8], [0, 1], [0])
    """
    if most >= total:
        return set(range(total))
    return {round(no * (total - 1) / max(1, most - 1)) for no in range(most)}


def _twins(
    items: Iterable[pytest.Item], words: Sequence[str], is_enough: Callable[[str], bool]
) -> Iterator[list[pytest.Item]]:
    """Yield the tests that differ by nothing but one of the words, where one of them is enough."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if is_enough(item.nodeid) and word_in(item.nodeid, words) is not None:
            found[without_word(item.nodeid, words)].append(item)
    yield from (twins for twins in found.values() if len(twins) > 1)


def _modules(items: Iterable[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield the tests of each module."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        found[item.nodeid.partition("::")[0]].append(item)
    yield from found.values()


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _cases(items: Iterable[pytest.Item]) -> Iterator[list[pytest.Item]]:
    """Yield the cases of each parametrised test."""
    found: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        found[_test(item)].append(item)
    yield from found.values()


# What was left out


def families(out: dict[str, str]) -> dict[str, dict[str, int]]:
    """Count what is left out by folder and reason.

    >>> families({"tests/a/b/test_x.py::t[1]": "long", "tests/test_y.py::t": "long"})
    {'tests/a': {'long': 1}, 'tests/test_*.py': {'long': 1}}
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for nodeid, why in out.items():
        folder, _, rest = nodeid.partition("::")[0].removeprefix("tests/").partition("/")
        found[f"tests/{folder}" if rest else "tests/test_*.py"][why] += 1
    return {folder: dict(found[folder]) for folder in sorted(found)}


def told(found: dict[str, dict[str, int]]) -> list[str]:
    """Return the lines at the end of a run that left tests out."""
    total = sum(sum(counts.values()) for counts in found.values())
    lines = [f"{total:,} tests were left out; script/test --all runs them, too:"]
    for folder, counts in found.items():
        reasons = ", ".join(f"{count:,} {why}" for why, count in counts.items())
        lines.append(f"    script/test --all {folder:<20} {sum(counts.values()):>6,}: {reasons}")
    return lines


#: What a run left to script/test --all, as `families` counts it.
LEFT_OUT = pytest.StashKey[dict[str, dict[str, int]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--all", action="store_true", help="run long tests, too (tests/tiers.py)")
    parser.addoption(
        "--long-of", default="", metavar="PATHS", help="begins of paths whose long tests are run"
    )


#: Examples of a property in script/test, and those of which it tries a share.
_FEW: Final = 20
_SHARE: Final = 10
_USUAL: Final = 100  #: by Hypothesis

_whole: list[bool] = []  #: whether the present run is one of ``--all``


def choose_examples(config: pytest.Config) -> None:
    """Have Hypothesis try few examples, unless ``--all`` or another profile is given.

    No example has a deadline: it would show how busy the machine is.
    """
    _whole[:] = [config.option.all]
    chosen = settings.get_profile(settings.get_current_profile_name())
    if chosen.max_examples == _USUAL:
        count = _USUAL if config.option.all else _FEW
        settings.register_profile("tier", chosen, max_examples=count, deadline=None)
        settings.load_profile("tier")


def examples(most: int) -> int:
    """Return how many of so many examples of a property the present run tries."""
    return most if all(_whole) else max(_FEW, most // _SHARE)


_T = TypeVar("_T")


def some(values: Sequence[_T], share: int, *, always: Callable[[_T], object]) -> list[_T]:
    """Return one of so many values, and those that are there always; with ``--all`` each of them.

    For the stage of a module, which is set for all of its values at once.
    """
    number = 1 if all(_whole) else share
    return [value for no, value in enumerate(values) if not no % number or always(value)]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave long tests to --all; a worker of pytest-xdist reports them at its end."""
    if config.option.all:
        return
    named = [argument for argument in config.args if "::" in argument]
    out = left_out(items, [*filter(None, config.option.long_of.split(",")), *named])
    if out:
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
        items[:] = [item for item in items if item.nodeid not in out]
        config.stash[LEFT_OUT] = families(out)
        if hasattr(config, "workeroutput"):
            config.workeroutput["left_out"] = families(out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take from a worker of pytest-xdist what it left out: the same as the others."""
    if found := getattr(node, "workeroutput", {}).get("left_out"):
        node.config.stash[LEFT_OUT] = found


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if found := config.stash.get(LEFT_OUT, None):
        terminalreporter.write_sep("-", "left out")
        terminalreporter.write("\n".join(told(found)) + "\n")


# What a change calls for


def called_for(changed: Iterable[str]) -> list[str]:
    """Return the begins of the paths of tests whose long form is run after a change of files.

    >>> called_for(["CHANGELOG.md", "smartcrawl/run/shared/workers.py", "tests/run/test_run.py"])
    ['tests/crawls/test_workers_', 'tests/run/test_redis_', 'tests/run/test_run.py', \
'tests/run/test_shared_']
    """
    found: set[str] = set()
    for path in changed:
        for room, tests in LONG_FORMS.items():
            if path.startswith(room):
                found |= {*tests}
        if Path(path).match("test_*.py"):
            found.add(path)
    return sorted(found)


def changed_since(commit: str, root: Path = ROOT) -> list[str]:
    """Return the files that differ from a commit; none where git does not know it."""
    found: list[str] = []
    for words in (
        ("diff", "--name-only", "-z", commit, "--"),
        ("ls-files", "--others", "--exclude-standard", "-z"),
    ):
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, check=False)
        if done.returncode:
            return []
        found += filter(None, done.stdout.decode().split("\0"))
    return sorted(found)


def changed_lines(commit: str, path: str, root: Path = ROOT) -> set[int]:
    """Return the lines of a file that differ from a commit, beside which some are gone as well."""
    words = ["git", "diff", "--unified=0", commit, "--", path]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    found: set[int] = set()
    for first, count in re.findall(r"^@@ \S+ \+(\d+)(?:,(\d+))? @@", done.stdout, re.MULTILINE):
        begin, lines = int(first), int(count or 1)
        found |= set(range(begin, begin + lines)) if lines else {begin, begin + 1}
    return found


if __name__ == "__main__":
    print(*called_for(changed_since(sys.argv[1])), sep="\n")
