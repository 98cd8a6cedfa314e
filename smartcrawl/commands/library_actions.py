"""The actions of ``scrapy library``: each is a row of steps, and a step has all its sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from smartcrawl.commands.library_order import DOWNLOAD, LibraryOrder
from smartcrawl.model.exceptions import RunHeldError, SmartcrawlError
from smartcrawl.run.library_report import LibraryReport
from smartcrawl.run.library_steps import LibraryStep, StepResult

#: The steps of each action, in order.
ACTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    DOWNLOAD: (DOWNLOAD,),
    "process": ("process",),
    "check": ("check",),
}


def carry_out_library_step(step: str, order: LibraryOrder, report: LibraryReport) -> None:
    """Carry out a step that needs no crawl, at each source; those that fail are skipped."""
    _STEPS[step](order, report)


def _at_each_source(step: Callable[[LibraryStep], StepResult]) -> _Step:
    def carry_out(order: LibraryOrder, report: LibraryReport) -> None:
        for source in order.sources:
            if order.is_ending():
                report.is_stopped = True
                return
            try:
                result = step(LibraryStep(source, order.options, is_ending=order.is_ending))
            except RunHeldError as error:
                report.skip(source, str(error), is_held=True)
            except SmartcrawlError as error:
                report.skip(source, str(error))
            else:
                report.add_step(source, result)

    return carry_out


_Step = Callable[[LibraryOrder, LibraryReport], None]
#: Steps that need no crawl.
_STEPS: Final[Mapping[str, _Step]] = {
    "process": _at_each_source(LibraryStep.process),
    "check": _at_each_source(LibraryStep.check),
}
