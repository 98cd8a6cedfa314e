"""Old dotted paths that a ``settings.py`` may name, forwarded for one release.

``import smartcrawl`` installs a finder for the removed modules. Each is made when it is imported,
forwards every name to its new module, and warns at each use.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # at run time they would be a tenth of the start of a command
    Loader = MetaPathFinder = object

#: The old path of each object, and its new path.
MOVED: Final[Mapping[str, str]] = {
    "smartcrawl.decoding.DecodingMiddleware": (
        "smartcrawl.engine.download.decoding.DecodingMiddleware"
    ),
    "smartcrawl.decoding.SlowBodies": "smartcrawl.engine.download.decoding.SlowBodies",
    "smartcrawl.extensions.DelayControl": "smartcrawl.engine.delays.DelayControl",
    "smartcrawl.extensions.JsonProgress": "smartcrawl.engine.progress.JsonProgress",
    "smartcrawl.extensions.Progress": "smartcrawl.engine.progress.Progress",
    "smartcrawl.extensions.QuietLog": "smartcrawl.engine.progress.QuietLog",
    "smartcrawl.extensions.RunLifecycle": "smartcrawl.engine.lifecycle.RunLifecycle",
    "smartcrawl.guarding.AddressMiddleware": "smartcrawl.middlewares.AddressMiddleware",
    "smartcrawl.handlers.BoundedHttpHandler": (
        "smartcrawl.engine.download.headers.BoundedHttpHandler"
    ),
    "smartcrawl.lane.lane.InHandMiddleware": "smartcrawl.engine.lane.lane.InHandMiddleware",
    "smartcrawl.lane.lane.RevalidationLane": "smartcrawl.engine.lane.lane.RevalidationLane",
    "smartcrawl.logs.Logs": "smartcrawl.engine.logs.Logs",
    "smartcrawl.needed.HttpAuth": "smartcrawl.engine.own_spiders.HttpAuth",
    "smartcrawl.needed.Offsite": "smartcrawl.engine.own_spiders.Offsite",
    "smartcrawl.network.GuardedResolver": "smartcrawl.engine.download.network.GuardedResolver",
    "smartcrawl.reextraction.ReExtraction": "smartcrawl.engine.reextraction.ReExtraction",
    "smartcrawl.robots.AllowFirstRobotParser": (
        "smartcrawl.extract.robots_txt.AllowFirstRobotParser"
    ),
    "smartcrawl.robots.Rfc9309RobotParser": "smartcrawl.extract.robots_txt.Rfc9309RobotParser",
    "smartcrawl.scheduler.NumberScheduler": "smartcrawl.engine.scheduler.NumberScheduler",
    "smartcrawl.signals.page_progress": "smartcrawl.engine.signals.page_progress",
}
#: The removed modules, and their packages.
_MODULES: Final = frozenset(path.rpartition(".")[0] for path in MOVED)
_PACKAGES: Final = frozenset(name.rpartition(".")[0] for name in _MODULES) - {"smartcrawl"}


class _MovedLoader(Loader):
    """Loader of a module that forwards each of its names."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the making of the module to Python."""

    def exec_module(self, module: ModuleType) -> None:
        """Have the module look each name up in MOVED when it is used."""
        old = module.__name__

        def __getattr__(name: str) -> object:  # noqa: N807  # PEP 562
            path = f"{old}.{name}"
            if path not in MOVED:
                raise AttributeError(f"module {old!r} has no attribute {name!r}")
            warnings.warn(
                f"{path} is {MOVED[path]} now. The old name works in this release only: change it"
                " in your settings",
                FutureWarning,
                stacklevel=2,
            )
            home, _, attribute = MOVED[path].rpartition(".")
            return getattr(import_module(home), attribute)

        module.__getattr__ = __getattr__  # type: ignore[method-assign]  # PEP 562


class MovedFinder(MetaPathFinder):
    """Finder of the removed modules, after every other finder."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that forwards, None for any other name."""
        if fullname not in _MODULES | _PACKAGES:
            return None
        return ModuleSpec(fullname, _MovedLoader(), is_package=fullname in _PACKAGES)


def install() -> None:
    """Add the finder, once in a process."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.append(MovedFinder())
