"""The program ``smartcrawl``: every command, from any folder."""

import gc
import sys

from smartcrawl.commands.front import main_command


def run() -> None:
    """Run the command line, and end the process with its exit status."""
    gc.disable()  # until the modules of the command are there
    sys.exit(main_command(sys.argv[1:]))


if __name__ == "__main__":
    run()
