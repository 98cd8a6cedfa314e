"""A bare pass over a tree: os.scandir, and the stat of each file.

    python bench/scan.py FOLDER

Prints one line of JSON as bench/ours.py does.
"""

import json
import os
import resource
import sys
import time


def main() -> None:
    """Go over the tree once and print the measurement."""
    cpu, wall, files, ahead = time.process_time(), time.perf_counter(), 0, [sys.argv[1]]
    while ahead:
        with os.scandir(ahead.pop()) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    ahead.append(item.path)
                else:
                    item.stat(follow_symlinks=False)
                    files += 1
    print(
        json.dumps(
            {
                "pages": files,
                "cpu": time.process_time() - cpu,
                "wall": time.perf_counter() - wall,
                "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
