"""Results of mutants: a line each in a table, and the tables of a report."""

from collections import defaultdict
from typing import NamedTuple

COLUMNS = (
    "number", "verdict", "how", "cpu", "tests", "test", "module", "function", "change", "ordinal",
)  # fmt: skip


class Result(NamedTuple):
    """What became of one mutant."""

    verdict: str  #: noticed, not noticed, not executed or gone
    how: str
    cpu: float
    tests: int
    test: str
    name: tuple[str, ...]

    @property
    def room(self):
        return self.name[0].partition(".")[0]


def add(path, number, name, verdict):
    """Add a line; several processes may, as it is written at once."""
    word, how, cpu, tests, test = verdict
    row = (number, word, how, f"{cpu:.1f}", tests, test, *name)
    with path.open("ab", buffering=0) as file:
        if file.tell() == 0:
            file.write(("\t".join(COLUMNS) + "\n").encode())
        file.write(("\t".join(map(str, row)) + "\n").encode())


def read(path):
    """Return the results by number; none where there is no file yet."""
    if not path.exists():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8").split("\n")[1:]:
        if line.count("\t") == len(COLUMNS) - 1:
            number, verdict, how, cpu, tests, test, *name = line.split("\t")
            found[int(number)] = Result(verdict, how, float(cpu), int(tests), test, tuple(name))
    return found


def report(runs, first=None):
    """Return the kill rates of one run, or of several side by side, and what is not noticed.

    Mutants that one of the runs does not have, or has not tried yet, count in none of them.
    """
    numbers = set.intersection(*(set(run) for run in runs))
    numbers = {n for n in numbers if first is None or n < first}
    gone = {n for n in numbers if any(run[n].verdict == "gone" for run in runs)}
    rooms = defaultdict(list)
    for number in sorted(numbers - gone):
        rooms[runs[0][number].room].append(number)
    heads = [f"run {n}" for n in range(1, len(runs) + 1)] if len(runs) > 1 else ["noticed"]
    lines = [f"| room | mutants | {' | '.join(heads)} |", "| --- |" + " ---: |" * (1 + len(runs))]
    for room, listed in (*sorted(rooms.items()), ("all", sorted(numbers - gone))):
        cells = " | ".join(_rate(run, listed) for run in runs)
        lines.append(f"| {room} | {len(listed)} | {cells} |")
    lines += ["", f"{len(gone)} are gone; {_cpu(runs, numbers)} s of CPU", ""]
    lines += [
        "| number | mutant | " + " | ".join(heads) + " |",
        "| ---: | --- |" + " --- |" * len(runs),
    ]
    for number in sorted(numbers - gone):
        if any(run[number].verdict != "noticed" for run in runs):
            module, function, change, ordinal = runs[0][number].name
            mutant = f"{module} {function}: {change}" + (f" ({ordinal})" if ordinal != "1" else "")
            cells = " | ".join(_end(run[number]) for run in runs)
            lines.append(f"| {number} | `{mutant.replace('|', chr(92) + '|')}` | {cells} |")
    return "\n".join(lines)


def _rate(run, numbers):
    noticed = sum(run[number].verdict == "noticed" for number in numbers)
    return f"{noticed} ({100 * noticed / len(numbers):.1f} %)" if numbers else "0"


def _end(result):
    how = f" ({result.how})" if result.how and result.verdict != "noticed" else ""
    return f"{result.verdict}{how}, {result.tests} tests".replace("|", "\\|")


def _cpu(runs, numbers):
    return " and ".join(f"{sum(run[n].cpu for n in numbers):,.0f}" for run in runs)
