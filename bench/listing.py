"""A bare pass over a library: its listing by REST, and the stat of each file on the disk.

    python bench/listing.py SITE LIBRARY TOKEN PAGE_SIZE FOLDER

It knows nothing, so it can say only which files of the library have another size or time than on
the disk. Prints one line of JSON as bench/ours.py does.
"""

import json
import os
import sys
from datetime import datetime
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.own_figures import OwnFigures

FIELDS = "Id,UniqueId,FileLeafRef,FileRef,FSObjType,Modified,File/Length"


def listed(site: str, library: str, token: str, size: int) -> dict[str, tuple[int, int]]:
    """Return size and time of each file, by its path below the library."""
    found = {}
    url = f"{site}/_api/web/GetList('{quote(library)}')/items?$select={FIELDS}&$expand=File"
    url += f"&$top={size}"
    while url:
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json;odata=nometadata",
        }
        with urlopen(Request(url, headers=headers)) as answer:
            page = json.loads(answer.read())
        for item in page["value"]:
            if int(item["FSObjType"]) == 0:
                at = int(datetime.fromisoformat(item["Modified"]).timestamp())
                path = item["FileRef"].removeprefix(f"{library}/")
                found[path] = int(item["File"]["Length"]), at
        url = page.get("odata.nextLink", "")
    return found


def main() -> None:
    """Compare once and print the measurement."""
    figures = OwnFigures()
    site, library, token, size, folder = sys.argv[1:]
    files = listed(site, library, token, int(size))
    same = 0
    for path, facts in files.items():
        there = os.stat(Path(folder) / path)
        same += (there.st_size, int(there.st_mtime)) == facts
    figures.print(same)


if __name__ == "__main__":
    main()
