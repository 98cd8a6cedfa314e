"""Runs commands of scrapy in forks of a process that has imported everything already.

A command costs three quarters of a second of imports before it does anything, and the tests of
this folder give more than a thousand. `Crawl.start` and `Crawl.python` still start real ones.

Each line of standard input is a JSON array: arguments, environment, files for stdout and stderr.
The answers are two lines: the number of the process, and in the end its exit status. With a fifth
value the command goes on beside others: that file gets the status. Where the first argument is
`runner`, the rest is what tests/crawls/runner.py takes; where it is `smartcrawl`, the rest is what
that program takes. A line that is a JSON string names a module
that is imported for all later commands; it is the answer, too.

ARRANGED_BY in the environment names a module that is imported before the command begins, IN_FOLDER
the folder that it works in.
"""

import gc
import json
import logging
import os
import sys
import tempfile
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from threading import Thread

import twisted
from scrapy import cmdline
from scrapy.settings import default_settings
from scrapy.utils import versions

import smartcrawl
from smartcrawl.registry.database.migrations import migrations
from tests.tiers import DATABASES

#: What a crawl imports as it goes; the reactor itself is for each process to install.
_ON_THE_WAY = (
    "scrapy.core.downloader.handlers.http11",
    "scrapy.core.engine",
    "scrapy.crawler",
    "scrapy.spiderloader",
    "scrapy.statscollectors",
)
_NOT_YET = ("smartcrawl.settings", "smartcrawl.extract.child")


def main() -> None:
    for package in ("scrapy.commands", "smartcrawl.commands"):
        for module in iter_modules(import_module(package).__path__):
            import_module(f"{package}.{module.name}")
    for name in _ON_THE_WAY:
        import_module(name)
    for module in walk_packages(smartcrawl.__path__, "smartcrawl."):
        if module.name not in _NOT_YET:
            import_module(module.name)
    for name in vars(default_settings):
        if name.endswith("_BASE"):  # components, by the path of their class
            for path in getattr(default_settings, name):
                if isinstance(path, str) and path.count("."):
                    import_module(path.rpartition(".")[0])
    _look_up_commands()
    assert "twisted.internet.reactor" not in sys.modules, twisted.__version__
    gc.collect()
    gc.freeze()  # no fork looks at what all of them share
    gc.set_threshold(50_000)  # a small crawl has nothing that is worth looking for
    for line in sys.stdin:
        order = json.loads(line)
        if isinstance(order, str):
            import_module(order)
            gc.freeze()
            print(order, flush=True)
            continue
        args, environment, out, err, *ended = order
        pid = os.fork()
        if pid == 0:
            _answer(args, environment, out, err)
        print(pid, flush=True)
        if ended:
            Thread(target=_await, args=(pid, Path(ended[0])), daemon=True).start()
        else:
            print(_status(pid), flush=True)


def _look_up_commands() -> None:
    """Do what every command does first, so that its results are there already.

    The entry points and versions are those of the packages that are installed: to read them, each
    command would open two hundred files.
    """
    packages = ("scrapy.commands", "smartcrawl.commands")
    classes = {package: list(cmdline._iter_command_classes(package)) for package in packages}
    cmdline._iter_command_classes = classes.__getitem__
    found = {group: entry_points(group=group) for group in ("scrapy.commands",)}
    cmdline.entry_points = lambda group: found[group]
    versions._version = cache(versions._version)
    versions.get_versions()
    set_level = logging.Logger.setLevel

    def set_other_level(logger: logging.Logger, level: int | str) -> None:
        """Set a level that is another one; each time all loggers forget what they know."""
        if logger.level != level:
            set_level(logger, level)

    logging.Logger.setLevel = set_other_level  # type: ignore[method-assign]
    for dialect in DATABASES:
        migrations(dialect)


def _read_settings_again() -> None:
    """Let commands have the settings of this environment, which are read when they are imported."""
    before = sys.modules.pop("smartcrawl.settings", None)
    if before is None:
        return
    own = [module for name, module in sys.modules.items() if name.startswith("smartcrawl.")]
    holders = [(m, name) for m in own for name, value in vars(m).items() if value is before]
    if holders:
        del smartcrawl.settings
        now = import_module("smartcrawl.settings")
        for module, name in holders:
            setattr(module, name, now)


def _status(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _await(pid: int, ended: Path) -> None:
    whole = ended.with_suffix(".part")
    whole.write_text(str(_status(pid)))
    whole.rename(ended)


def _answer(args: list[str], environment: dict[str, str], out: str, err: str) -> None:
    """Be `python -m scrapy` with these arguments; never returns."""
    os.environ.clear()
    os.environ.update(environment)
    _read_settings_again()
    sys.argv = ["scrapy", *args]
    for number, path in ((0, os.devnull), (1, out), (2, err)):
        file = os.open(path, os.O_RDONLY if not number else os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, number)
        os.close(file)
    tempfile.tempdir = None  # that of this environment
    status: object = 70
    try:
        os.chdir(os.environ.pop("IN_FOLDER", "."))
        if arranged := environment.get("ARRANGED_BY"):
            import_module(arranged)
        if args[0] == "runner":
            sys.argv = args
            import_module("tests.crawls.runner").main()
        elif args[0] == "smartcrawl":
            sys.argv = args
            status = import_module("smartcrawl.commands.front").main_command(args[1:])
        else:
            import_module("scrapy.cmdline").execute(["scrapy", *args])
    except SystemExit as end:
        status = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 70)


if __name__ == "__main__":
    main()
