"""The program ``smartcrawl``: every command, from any folder."""

import sys

from smartcrawl.commands.front import main


def run() -> None:
    """Run the command line, and end the process with its exit status."""
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    run()
