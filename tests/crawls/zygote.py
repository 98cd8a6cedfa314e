"""Runs reading commands of scrapy in forks of a process that has imported everything already.

A command that only reads costs half a second of imports and a hundredth of work, and the tests of
this folder ask some hundreds. Crawls never run here.

Each line of standard input is a JSON array: arguments, environment, files for stdout and stderr;
the answer is a line with the exit status.
"""

import json
import os
import sys
from importlib import import_module
from pkgutil import iter_modules


def main() -> None:
    for package in ("scrapy.commands", "smartcrawl.commands"):
        for module in iter_modules(import_module(package).__path__):
            import_module(f"{package}.{module.name}")
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _answer(*json.loads(line))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _answer(args: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """Be `python -m scrapy` with these arguments; never returns."""
    os.environ.update(environment)
    sys.modules.pop("smartcrawl.settings", None)  # it reads the environment when it is imported
    for number, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    status: object = 70
    try:
        import_module("scrapy.cmdline").execute(["scrapy", *args])
    except SystemExit as end:
        status = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 70)


if __name__ == "__main__":
    main()
