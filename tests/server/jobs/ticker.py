"""A process that fires due jobs at the times that it reads, until it is killed.

    python -m tests.server.jobs.ticker PLACE

PLACE is the path of a registry, or its URL. Each line of standard input is a time in Unix seconds;
it is answered with the ids of the runs that this process fired.
"""

import sys
from contextlib import closing
from pathlib import Path

from smartcrawl.registry.database.databases import registry_database
from smartcrawl.server.jobs.clock import JobClock


def main() -> None:
    place = sys.argv[1]
    database = registry_database(place if "://" in place else Path(place))
    with closing(database.open()) as connection:
        clock = JobClock(database, connection)
        print("ready", flush=True)
        for line in sys.stdin:
            print(*(run.id for run in clock.fire(int(line))), flush=True)


if __name__ == "__main__":
    main()
