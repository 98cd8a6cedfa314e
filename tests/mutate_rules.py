"""Change each cell and each comparison of smartcrawl/rules in turn, and demand that a test fails.

    tests/mutate_rules.py                   every mutant, some minutes
    tests/mutate_rules.py clones if         only those whose name contains all of these words
    tests/mutate_rules.py --since COMMIT    those that the lines changed since then call for
    tests/mutate_rules.py --sample 200      so many, drawn by a seed: the same each time

Part of script/test. Exit status 1 when tests/rules passes with a mutant, which is named then:
either a test is missing, or the mutant means the same and stands in EQUIVALENT with its reason.

No file is changed. Each mutant is a forked process that imports the rules, one thing in them being
different, then the tests, and calls these one after the other until one fails.
"""

import ast
import gc
import importlib.abc
import importlib.util
import os
import random
import re
import resource
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest  # noqa: F401  # loaded once, before any process is forked
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.mutants import Clean, Mutant, after, mutants_of_syntax
from tests.tiers import changed_lines, changed_since

ROOT = Path(__file__).resolve().parent.parent
RULES = sorted({path.stem for path in (ROOT / "smartcrawl/rules").glob("*.py")} - {"__init__"})
TESTS = sorted(path.stem for path in (ROOT / "tests/rules").glob("test_*.py"))
PATIENCE = 3  #: times the computing that the tests take without a mutant; then it was noticed
PATIENCE_EQUIVALENT = 10  #: the same for a mutant that all tests pass, on a busy machine, too
SAMPLE_SECONDS = 30  #: of computing that the tests may take with a mutant of a sample
MEMORY = 2 << 30  #: bytes, for a mutant that collects for ever
SEED = 47  #: of a sample

#: Mutants that no test can notice, because the answer is the same for every input.
EQUIVALENT = {
    "freshness Census bought_by: 0 -> -1 (2)": "both sides are one outlook then",
    "freshness Census bought_by: 0 -> 1 (2)": "likewise",
    "freshness Census cost_of: 1 -> 0": "likewise",
    "freshness Census cost_of: 1 -> 2": "likewise",
    "freshness Census bought_by: found.requests <= requests -> found.requests < requests": (
        "the mixture is the same from both sides"
    ),
    "freshness _Replay _age: 0 -> -1 (2)": "neither is a rank at which a page is taken",
    "freshness _Replay _value: 0 -> -1": "likewise",
    "freshness _Replay _age: 0 -> 1": "a visit spares more than a second, or is worth nothing",
    "freshness _Replay _take push: 0 -> 1 (2)": "likewise",
    "freshness _Replay _value: value >= self._price -> value > self._price": (
        "a value is never the price to the last bit"
    ),
    "freshness parsed_target: 0 -> 1 (2)": "the shortest time is a minute",
    "freshness replay_budget: waiting and waiting[0].first_seen <= at without waiting[0].first_seen"
    " <= at": "a page is worth nothing before it was seen",
    "freshness replay_budget: waiting[0].first_seen <= at -> waiting[0].first_seen < at": (
        "a page is worth nothing when it has just been seen"
    ),
    "freshness stale_seconds: over > 0 -> over >= 0": "no time is over then",
    "freshness: 0.001 -> 0.0009090909090909091": "cheaper than any visit that spares anything",
    "freshness: 0.001 -> 0.0011": "likewise",
    "freshness: 10000000000.0 -> 11000000000.0": "dearer than any visit",
    "freshness: 10000000000.0 -> 9090909090.90909": "likewise",
    "freshness: 25 -> 24": "the price is as exact as the rates long before",
    "freshness: 25 -> 26": "likewise",
    "rendering: '<(?:script\\\\b[^<>]*?\\\\bsrc|link\\\\b[^<>]*?\\\\bhref"
    ")\\\\s*=\\\\s*[\"\\']?\\\\s*((?:https?:)?//[^\\\\s\"\\'<>]+)' -> '<(?:sc"
    "ript\\\\b[^<>]*?\\\\bsrc|link\\\\b[^<>]*?\\\\bhref)\\\\s*=\\\\s*[\"\\']?\\\\"
    "s*((?:https?:)?//[^\\\\s\"\\'<>]+)?'": "an empty address has no host",
    "text_diff _ascending: 1 -> 2 (2)": "any place below 0 ends the way back",
    "text_diff _ascending: 1 -> 2 (4)": "likewise",
    "incoming has_indexnow_key: 'utf-8-sig' -> 'utf-8-sig?'": "Python takes both for one codec",
    "incoming: '[A-Za-z0-9-]{8,128}' -> '[A-Za-z0-9-]{8,128}?'": "all of the text has to match",
    "notices change_digests: True -> False": "there is a digest for each wish",
    "notices change_digests: True -> False (2)": "likewise",
    "notices retry_delay: 20 -> 19": "the longest wait is reached before",
    "notices retry_delay: 20 -> 21": "likewise",
    "data_requests _own_name: '' -> '?'": "no word of an address is a question mark",
    "repeated find_repeated_lines: digest and count >= kept without count >= kept": (
        "a pair or a place is not more frequent than its lines"
    ),
    "oauth: '[a-z_]{1,40}' -> '[a-z_]{1,40}?'": "a whole word matches or does not",
    "oauth: '[!-~]+' -> '[!-~]+?'": "likewise",
    "login is_logout_address: piece in bare -> piece not in bare": "it is only found later",
    "login login_wait: 5 -> 6": "both are longer than the longest wait",
    "rendering Settling: 0 -> -1 (2)": "the second step sets it before it is read",
    "rendering Settling: 0 -> 1 (2)": "likewise",
    "rendering Settling: 0 -> -1 (3)": "likewise",
    "rendering Settling: 0 -> 1 (3)": "likewise",
    "traps TrapBudget _is_one_more: met < self._per_session -> met <= self._per_session": (
        "that many are too many without the known ones"
    ),
    "traps TrapBudget _is_one_more: met < self._per_session and (numbers := self._known.get(key))"
    " without met < self._per_session": "likewise",
    "traps TrapBudget refuse: ('?' in url or ';' in url) and self._per_session and"
    " self._is_one_more(url, known) without '?' in url or ';' in url": (
        "an address without both has no session id"
    ),
    "traps _page_of_session: '' -> '?'": "the same mark stands for each id",
    "spellings stored_visit_outcome: 1000 -> 999": "no visit has this status",
    "spellings: 2 -> 3": "it is the lowest rank, either way",
    "spellings: 3 -> 4 (2)": "it is the highest rank, either way",
    "login acts_on_page: '/' -> '/?'": "a path has no question mark",
    "login acts_on_page: '/' -> '/?' (3)": "likewise",
    "login is_sign_in_address: '/' -> '/?'": "likewise",
    "traps chain_of_url: 0 -> 1": "the first character is no slash",
    "traps chain_of_url: place < 0 -> place <= 0": "likewise",
    "traps chain_pattern: 0 -> -1": "there is one number",
    "traps chain_pattern: 0 -> -1 (2)": "likewise",
    "seal is_unanswered_status: 1000 -> 1001": "1000 has no answer, either way",
    "seal is_unanswered_status: 1000 -> 999": "no visit has this status",
    "seal is_unanswered_status: status >= 1000 -> status > 1000": "1000 has no answer, either way",
    "absence withholds_sweep: 0 -> -1": "no orphan answers, either way",
    "vectors: 'Page' -> 'Page?'": "it is the name of a type variable",
    "reindex decide: force and outcome is Outcome.SAME and (verdict.action is TOUCH)"
    " without verdict.action is TOUCH": "the other cells of SAME are INDEX anyway",
    "shield: '\\\\d|[A-Fa-f]{8}' -> '\\\\d|[A-Fa-f]{8}?'": "it is eight, either way",
    "schedule Schedule backoff: 0 -> -1": "no wait is shorter than 0",
    "schedule: '(\\\\d{4})(?:-(\\\\d\\\\d)(?:-(\\\\d\\\\d)"
    "(T\\\\d\\\\d:\\\\d\\\\d(?::\\\\d\\\\d(?:\\\\.\\\\d+)?)?(?:Z|[+-]\\\\d\\\\d:\\\\d\\\\d)?)?)?)?'"
    " -> '(\\\\d{4})(?:-(\\\\d\\\\d)(?:-(\\\\d\\\\d)"
    "(T\\\\d\\\\d:\\\\d\\\\d(?::\\\\d\\\\d(?:\\\\.\\\\d+)?)?"
    "(?:Z|[+-]\\\\d\\\\d:\\\\d\\\\d)?)?)?)??'": ("all of the text has to match"),
    "http retry_after: '' -> '?'": "neither is a number or a date",
    "http retry_after: '0' -> '0?'": "digits alone are read there",
    "http retry_after: 9 -> 8": "99,999,999 seconds are too many, too",
    "http retry_after: 9 -> 10": "9,999,999,999 seconds are too many, too",
    "connections ConnectionGuard refusal: '.' -> '.?'": "no host contains a question mark",
    "connections bare_connection_host: '[]' -> '[]?'": "no host contains a question mark",
    "clones _rank: False -> True": "it is compared among living pages only",
    "clones _rank: member.entry == NONE if member.lost else False before member.fresh": (
        "whatever stands has an entry"
    ),
    "traps: '(\\\\d{4})[/-](?:0?[1-9]|1[0-2])(?:[/-](?:0?[1-9]|[12]\\\\d|3[01]))?'"
    " -> '(\\\\d{4})[/-](?:0?[1-9]|1[0-2])(?:[/-](?:0?[1-9]|[12]\\\\d|3[01]))??'": (
        "whether as much or as little as can be, it has to end where a value or segment does"
    ),
    **dict.fromkeys(
        (
            "traps trap_of: path.count('/') >= MAX_REPEATS and (trap := _trap_of_path(path))"
            " without path.count('/') >= MAX_REPEATS",
            "traps trap_of: query and _is_growing(query) without query",
            "traps trap_of: _names_far_year(url, year) and (_is_walked_by_path(path, year) or"
            " _is_walked_by_query(path, query, year)) without _names_far_year(url, year)",
            "traps _names_far_year: False -> True",
            "traps _is_far: found < FIRST_YEAR -> found <= FIRST_YEAR",
            "traps _is_far: found > year + MAX_YEARS_AHEAD -> found >= year + MAX_YEARS_AHEAD",
            "traps _is_far: year + MAX_YEARS_AHEAD -> year - MAX_YEARS_AHEAD",
            "traps _is_growing: marks > MAX_REPEATS -> marks >= MAX_REPEATS",
            "traps _is_growing: marks > MAX_REPEATS and bool(_repeated(_HEAD.findall(query)))"
            " without marks > MAX_REPEATS",
            "traps _repeated: len(words) - len(set(words)) -> len(words) + len(set(words))",
        ),
        "it is only told sooner",
    ),
}

_ENUMS = (
    "Outcome", "Standing", "Action", "Status", "Word", "RemovalRule", "Fault", "Fate", "Trap",
)  # fmt: skip
NOTICED, UNNOTICED, BROKEN = 1, 0, 3  #: exit statuses of a forked process


# Mutants of tables


def cell(module, table, row, change):
    """Return what changes one row of a mapping in memory."""

    def apply(modules):
        mapping = getattr(modules[module], table)
        key = next(key for key in mapping if key.name == row)
        mapping[key] = change(mapping[key])

    return apply


def membership(module, name, value):
    """Return what puts a value into a set in memory, or out of it, wherever the set is used."""

    def apply(modules):
        old = getattr(modules[module], name)
        for loaded in modules.values():
            for key, held in list(vars(loaded).items()):
                if held is old:
                    setattr(loaded, key, old ^ {value})

    return apply


def mutants_of_tables(modules) -> Iterator[Mutant]:
    """Yield a mutant for each cell of each mapping, and for each border of each set."""
    reindex = modules["reindex"]
    for outcome, row in reindex.DECISIONS.items():
        for standing, part in product(row._fields, ("action", "word")):

            def change(row, standing=standing, part=part):
                verdict = getattr(row, standing)
                old = getattr(verdict, part)
                new = verdict._replace(**{part: after(type(old), old)})
                return row._replace(**{standing: new})

            yield Mutant(
                f"reindex DECISIONS {outcome.name}.{standing}.{part}",
                "reindex",
                tables=cell("reindex", "DECISIONS", outcome.name, change),
            )
    for outcome, ageing in modules["absence"].AGEING.items():
        for flag in ageing._fields:

            def change(ageing, flag=flag):
                return ageing._replace(**{flag: not getattr(ageing, flag)})

            yield Mutant(
                f"absence AGEING {outcome.name}.{flag}",
                "absence",
                tables=cell("absence", "AGEING", outcome.name, change),
            )
    for rule, removal in reindex.REMOVALS.items():
        for field in removal._fields:

            def change(removal, field=field):
                old = getattr(removal, field)
                statuses = {None: 406, 406: None}
                new = statuses[old] if field == "effective_status" else after(type(old), old)
                return removal._replace(**{field: new})

            yield Mutant(
                f"reindex REMOVALS {rule.name}.{field}",
                "reindex",
                tables=cell("reindex", "REMOVALS", rule.name, change),
            )
    for outcome in modules["model"].Outcome:
        # names only: a forked process has an enum of its own, whose members equal their words
        yield Mutant(
            f"reindex _ANSWERED {outcome.name}",
            "reindex",
            tables=membership("reindex", "_ANSWERED", str(outcome)),
        )
    borders = {
        ("absence", "PASSING"): [407, 409, 424, 426, 428, 430, 499, 503, 511, 600, 999],
        ("absence", "SPOKEN"): [None, 0, 201, 300, 303, 306, 403, 406, 429, 503, 1103],
        ("http", "REDIRECTS"): [300, 304, 305, 306, 309],
        ("absence", "TEMPORARY"): [301, 308],
        ("absence", "PERMANENT"): [300, 302, 307],
    }
    for (module, name), others in borders.items():
        members = getattr(modules[module], name)
        edges = {n for n in members if not {n - 1, n + 1} <= members}
        for value in [*sorted(edges), *others]:
            yield Mutant(f"{module} {name} {value}", module, tables=membership(module, name, value))


# Running


class Sources(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Import rules and tests from trees and code in memory; the rest as ever."""

    def __init__(self):
        self.trees = {
            f"smartcrawl.rules.{name}": _parse(f"smartcrawl/rules/{name}.py") for name in RULES
        }
        self.codes = {name: compile(tree, name, "exec") for name, tree in self.trees.items()}
        for name in (*TESTS, "manual"):
            path = f"tests/rules/{name}.py"
            self.codes[f"tests.rules.{name}"] = compile(_parse(path), str(ROOT / path), "exec")

    def changed(self, name):
        """Compile the tree of one module again."""
        tree = ast.fix_missing_locations(Clean().visit(self.trees[name]))
        self.codes[name] = compile(tree, name, "exec")

    def find_spec(self, name, path=None, target=None):
        if name in self.codes:
            return importlib.util.spec_from_loader(name, self)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        if module.__name__.startswith("tests."):
            module.__file__ = str(ROOT / f"{module.__name__.replace('.', '/')}.py")
        exec(self.codes[module.__name__], vars(module))


def _parse(path):
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def rules():
    """Import the rules and return the modules by their short names."""
    return {name: importlib.import_module(f"smartcrawl.rules.{name}") for name in RULES}


def forget():
    """Forget the rules, so that a forked process imports its own."""
    for name in [name for name in sys.modules if name.startswith("smartcrawl")]:
        del sys.modules[name]


def cases(test):
    """Yield the arguments of each call that pytest would make of a test."""
    choices = []
    for mark in getattr(test, "pytestmark", []):
        if mark.name == "parametrize":
            names, rows = mark.args
            single = isinstance(names, str)
            rows = [
                row.values if hasattr(row, "marks") else (row,) if single else row for row in rows
            ]
            names = [names] if single else names
            choices.append([dict(zip(names, row, strict=True)) for row in rows])
    for chosen in product(*choices):
        yield {name: value for part in chosen for name, value in part.items()}


def call(test, arguments):
    """Call a test as pytest does: one that is expected to fail must fail."""
    if not any(mark.name == "xfail" for mark in getattr(test, "pytestmark", [])):
        test(**arguments)
        return
    try:
        test(**arguments)
    except Exception:  # noqa: BLE001  # whatever the failure is, it was expected
        return
    raise AssertionError("a test that was expected to fail did not")


def is_long(test):
    """Whether pytest leaves a test to --all: it would be run for each mutant."""
    return any(mark.name == "long" for mark in getattr(test, "pytestmark", []))


def ordered(first):
    """Yield the tests, those of the changed module first; properties take long and come last.

    Long ones are left out.
    """
    properties = []
    for name in sorted(TESTS, key=lambda name: name != f"test_{first}"):
        module = importlib.import_module(f"tests.rules.{name}")
        for key, test in vars(module).items():
            if not key.startswith("test_") or is_long(test):
                continue
            if hasattr(test, "is_hypothesis_test"):
                properties.append(test)
            else:
                yield test
    yield from properties


def outcome(sources, mutant):
    """Return whether a test notices a mutant: an exit status, and the failure as text."""
    try:
        if mutant.syntax is not None:
            mutant.syntax()
            sources.changed(f"smartcrawl.rules.{mutant.module}")
        if mutant.tables is not None:
            mutant.tables(rules())
    except Exception:  # noqa: BLE001  # the mutant cannot be tried, whatever the reason
        return BROKEN, traceback.format_exc()
    called = 0
    try:
        for test in ordered(mutant.module):
            for arguments in cases(test):
                call(test, arguments)
                called += 1
    except BaseException:  # noqa: BLE001  # pytest's own failures are no Exceptions
        return NOTICED, traceback.format_exc()
    return (UNNOTICED, "") if called > 100 else (BROKEN, f"only {called} tests were found")


def start(sources, mutant, seconds):
    """Fork a process that tells by its exit status whether a mutant is noticed."""
    child = os.fork()
    if child:
        return child
    status = BROKEN
    with suppress(BaseException):
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        status = outcome(sources, mutant)[0]
    os._exit(status)


def judged(sources, mutants, seconds):
    """Yield each mutant with the exit status of its process; a signal is below 0.

    ``seconds`` of computing are given to each.
    """
    running, waiting = {}, iter(mutants)
    while True:
        while len(running) < (os.cpu_count() or 1) and (mutant := next(waiting, None)):
            equivalent = mutant.name in EQUIVALENT
            allowed = seconds * PATIENCE_EQUIVALENT // PATIENCE if equivalent else seconds
            running[start(sources, mutant, allowed)] = mutant
        if not running:
            return
        child, status = os.wait()
        yield running.pop(child), os.waitstatus_to_exitcode(status)


def prepare():
    """Load once what every process needs, and make Hypothesis quick and repeatable."""
    settings.register_profile(
        "mutants",
        max_examples=60,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )
    settings.load_profile("mutants")
    given(st.text(), st.floats(0, 1), st.randoms(), st.permutations([1, 2]))(
        lambda text, share, chance, order: None
    )()


def without_mutant(sources):
    """Return the seconds of computing that a mutant may take; None where tests fail already."""
    read, write = os.pipe()
    if os.fork() == 0:
        begun = time.process_time()
        status, told = outcome(sources, Mutant("none", ""))
        took = time.process_time() - begun
        os.write(write, (told[-4000:] if status else str(1 + int(PATIENCE * took))).encode())
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.wait()[1])
    told = os.read(read, 1 << 16).decode()
    if status == UNNOTICED:
        return int(told)
    print(told, "tests/rules fails without any mutant", sep="\n")
    return None


def chosen(mutants, words):
    """Return the mutants that the arguments of the command name."""
    match words:
        case ["--sample", number]:
            told = [mutant for mutant in mutants if mutant.name not in EQUIVALENT]  # they take long
            return random.Random(SEED).sample(told, int(number))
        case ["--since", commit]:
            changed = changed_since(commit)
            lines = {name: changed_lines(commit, f"smartcrawl/rules/{name}.py") for name in RULES}
            return [mutant for mutant in mutants if is_called_for(mutant, changed, lines)]
    return [mutant for mutant in mutants if all(word in mutant.name for word in words)]


def is_called_for(mutant, changed, lines):
    """Whether a change of files, and of lines of the rules, calls for a mutant.

    Its tests call for all mutants of a rule, the manual for those of its tables.
    """
    if any(re.match(rf"tests/rules/test_{mutant.module}(_\w+)?\.py", path) for path in changed):
        return True
    if mutant.tables is not None:
        return bool(lines[mutant.module]) or "docs/decisions.md" in changed
    return not lines[mutant.module].isdisjoint(lines_of(mutant.node))


def lines_of(node):
    """Return the lines of the part of a syntax tree that a mutant changes."""
    if isinstance(node, ast.If | ast.IfExp | ast.While):
        node = node.test
    elif isinstance(node, ast.match_case):
        node = node.guard
    return range(node.lineno, node.end_lineno + 1)


def main(words):
    """Run the mutants that the words name; return the exit status."""
    sys.path.insert(0, str(ROOT))
    sources = Sources()
    sys.meta_path.insert(0, sources)
    prepare()
    pristine = rules()
    mutants = list(mutants_of_tables(pristine))
    enums = {
        name: list(kind.__members__)
        for module in pristine.values()
        for name, kind in vars(module).items()
        if name in _ENUMS
    }
    assert enums.keys() == set(_ENUMS), "an enum has another name now"
    for name in RULES:
        mutants += mutants_of_syntax(name, sources.trees[f"smartcrawl.rules.{name}"], enums)
    forget()
    count = len(mutants)
    mutants = chosen(mutants, words)
    if not mutants:
        print("no mutant is called for: no rule, and no test of a rule, has changed")
        return 0

    # Of a sample the tests themselves are run beside it, by script/test.
    seconds = SAMPLE_SECONDS if words[:1] == ["--sample"] else without_mutant(sources)
    if seconds is None:
        return 1
    gc.freeze()  # what is there by now is shared by all processes
    told_at = time.monotonic()
    problems = []
    for done, (mutant, status) in enumerate(judged(sources, mutants, seconds), 1):
        if status == BROKEN:
            problems.append(f"cannot be tried: {mutant.name}")
        elif (status == UNNOTICED) != (mutant.name in EQUIVALENT):
            what = "noticed, though it is listed" if status else "no test notices"
            problems.append(f"{what}: {mutant.name}")
        if time.monotonic() - told_at > 2:
            told_at = time.monotonic()
            print(f"{done} of {len(mutants)} mutants", file=sys.stderr, flush=True)
    if not words:
        known = {mutant.name for mutant in mutants}
        problems += [f"is no mutant any more: {name}" for name in EQUIVALENT if name not in known]
    for problem in sorted(problems):
        print(problem)
    if problems:
        print(f"{len(mutants)} mutants, {len(problems)} to be looked at")
        return 1
    noticed = [mutant for mutant in mutants if mutant.name not in EQUIVALENT]
    of = f" of {count:,}" if words else ""
    print(f"{len(noticed)}{of} mutants of the rules, all noticed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
