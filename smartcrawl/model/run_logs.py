"""Where the log of a run is that no job ran: in the state folder, by the number of the run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

RUN_LOG_BYTES: Final = 262_144  #: of the log of one run; at this size it loses its first half
RUN_LOGS: Final = 200  #: that are kept
_NAME: Final = re.compile(r"run-[0-9]{1,19}\.log", re.ASCII)


def run_log_file(data_dir: Path, run: int) -> Path:
    """Return the log of a run; ``run``: run.no."""
    return data_dir / "logs" / f"run-{run}.log"


def surplus_run_logs(found: Iterable[tuple[str, float]]) -> list[str]:
    """Return which files make room for the log of a new run.

    ``found``: names in the folder, each with the time of its last change. Files that are no logs of
    runs stay. Numbers do not count: those of a new registry begin again.
    """
    logs = sorted((at, name) for name, at in found if _NAME.fullmatch(name))
    return [name for _, name in logs[: max(0, len(logs) - RUN_LOGS + 1)]]
