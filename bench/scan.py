"""A bare pass over a tree: os.scandir, and the stat of each file.

    python bench/scan.py FOLDER

Prints one line of JSON as bench/ours.py does.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.own_figures import OwnFigures


def main() -> None:
    """Go over the tree once and print the measurement."""
    figures, files, ahead = OwnFigures(), 0, [sys.argv[1]]
    while ahead:
        with os.scandir(ahead.pop()) as items:
            for item in items:
                if item.is_dir(follow_symlinks=False):
                    ahead.append(item.path)
                else:
                    item.stat(follow_symlinks=False)
                    files += 1
    figures.print(files)


if __name__ == "__main__":
    main()
