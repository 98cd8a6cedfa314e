"""The figures of a script of this folder that measures itself."""

import json
import resource
import time


class OwnFigures:
    """CPU, time and memory of this process from now on."""

    def __init__(self) -> None:
        self._cpu, self._wall = time.process_time(), time.perf_counter()

    def print(self, pages: int, **more: float) -> None:
        """Print the line that ``measure.run`` reads; ``pages``: how many were done."""
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        cpu, wall = time.process_time() - self._cpu, time.perf_counter() - self._wall
        print(json.dumps({"pages": pages, **more, "cpu": cpu, "wall": wall, "rss": most}))
