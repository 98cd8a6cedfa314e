"""Notes the latency by which each answer adjusts the delay of its host (``ARRANGED_BY``).

LATENCIES   file that gets them, one a line, in seconds
"""

import os
from pathlib import Path
from typing import Any

from scrapy.http import Response

from smartcrawl.engine.delays import DelayControl

if "LATENCIES" in os.environ:  # pytest imports every module for its doctests
    _adjust = DelayControl._adjust_delay

    def _noted(self: DelayControl, slot: Any, latency: float, response: Response) -> None:
        with Path(os.environ["LATENCIES"]).open("a", encoding="utf-8") as file:
            print(latency, file=file)
        _adjust(self, slot, latency, response)

    DelayControl._adjust_delay = _noted  # type: ignore[method-assign]
