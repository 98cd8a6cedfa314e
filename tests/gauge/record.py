"""What was measured of a checkout: the tests, what each takes, and the mutants it comes by."""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_LEAST = 0.005  #: seconds of CPU of a test, at least
_LISTED = 200  #: seconds of CPU that the tests of one mutant may take by what was measured


@dataclass
class Took:
    """What a test or a shared fixture took."""

    wall: float
    cpu: float
    outcome: str = ""
    wide: tuple[str, ...] = ()  #: fixtures of more than one test that it uses


class Record:
    """The tests of a checkout."""

    def __init__(self, tests, fixtures, hits, missing):
        self.tests = tests
        self.fixtures = fixtures
        self.hits = hits  #: the tests that come by a mutant, by its number
        self.missing = missing  #: numbers of mutants that the checkout does not have

    @classmethod
    def collected(cls, folder, missing):
        """Read what plugin.py and hits.py wrote in a folder."""
        tests, fixtures = {}, {}
        of = defaultdict(set)  #: numbers by test or fixture
        for path in sorted((folder / "log").glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                found = json.loads(line)
                took = Took(found.get("wall", 0), found.get("cpu", 0), found.get("outcome", ""))
                if name := found.get("test"):
                    took.wide = tuple(found["wide"])
                    tests[name] = took
                elif name := found.get("fixture"):
                    fixtures[name] = took
                else:
                    continue
                of[name].update(found["hits"])
        for path in (folder / "marks").glob("*.marks"):
            marks = path.read_bytes()
            size = int((folder / "marks/size").read_text())
            of[marks[size:].decode()].update(n for n, mark in enumerate(marks[:size]) if mark)
        hits = defaultdict(set)
        for test, took in tests.items():
            for name in (test, *took.wide):
                for number in of.get(name, ()):
                    hits[number].add(test)
        return cls(tests, fixtures, {n: sorted(names) for n, names in hits.items()}, missing)

    def write(self, path):
        """Write everything as JSON."""
        path.write_text(json.dumps({
            "tests": {name: vars(took) for name, took in self.tests.items()},
            "fixtures": {name: vars(took) for name, took in self.fixtures.items()},
            "hits": self.hits,
            "missing": self.missing,
        }), encoding="utf-8")  # fmt: skip

    @classmethod
    def read(cls, path):
        """Read what was written."""
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(
            {name: Took(**took) for name, took in found["tests"].items()},
            {name: Took(**took) for name, took in found["fixtures"].items()},
            {int(number): names for number, names in found["hits"].items()},
            found["missing"],
        )

    def write_durations(self, path):
        """Write a table of what each test takes, the longest first; shared fixtures come last."""
        rows = [
            f"{name}\t{took.wall:.3f}\t{took.cpu:.3f}\t{took.outcome}"
            for found in (self.tests, self.fixtures)
            for name, took in sorted(found.items(), key=lambda row: (-row[1].cpu, row[0]))
        ]
        path.write_text("\n".join(["nodeid\twall\tcpu\toutcome", *rows, ""]), encoding="utf-8")

    def fixtures_cost(self, name):
        """Return the CPU seconds of the shared fixtures of a test."""
        return sum(self.fixtures[f].cpu for f in self.tests[name].wide if f in self.fixtures)

    def plan(self, number):
        """Return the tests that come by a mutant, cheap ones first, spread over files.

        A test counts as dear as the cheaper ones of its file together with it. Tests that failed
        without a mutant are left out, and those that the time does not suffice for.
        """
        files = defaultdict(list)
        for name in self.hits.get(number, ()):
            if self.tests[name].outcome == "passed":
                files[Path(name.partition("::")[0])].append(name)
        rows = []
        for names in files.values():
            names.sort(key=lambda name: (self.tests[name].cpu + self.fixtures_cost(name), name))
            for rank, name in enumerate(names, 1):
                cost = max(self.tests[name].cpu, _LEAST) * rank + self.fixtures_cost(name)
                rows.append((cost, name))
        planned, seconds, started = [], 0.0, set()
        for _, name in sorted(rows):
            seconds += self.tests[name].cpu
            for fixture in set(self.tests[name].wide) - started:
                seconds += self.fixtures[fixture].cpu if fixture in self.fixtures else 0
                started.add(fixture)
            planned.append(name)
            if seconds > _LISTED:
                break
        return planned
