"""The egg that a job of scrapyd runs, named in the job's log.

scrapyd appends the egg to the path of Python: any other smartcrawl on it hides the egg.
"""

from __future__ import annotations

import logging
import os
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import smartcrawl

logger = logging.getLogger(__name__)

_PACKAGE: Final = "smartcrawl/__init__.py"


class DeployedEgg(NamedTuple):
    """A sentence about the code of a job of scrapyd."""

    words: str
    is_hidden: bool  #: whether other code runs than the deployed one


def log_deployed_egg() -> None:
    """Log which egg this process runs, if scrapyd started it."""
    if "scrapyd" not in sys.modules:
        return
    home = Path(smartcrawl.__file__).parents[1]
    found = deployed_egg(home, sys.path, os.environ.get("SCRAPYD_EGG_VERSION"))
    (logger.warning if found.is_hidden else logger.info)("%s", found.words)


def deployed_egg(home: Path, path: Sequence[str], version: str | None) -> DeployedEgg:
    """Return the sentence; ``home``: the place of smartcrawl, ``version``: the ordered one."""
    name = f"smartcrawl {smartcrawl.__version__}"
    eggs = [place for place in path if place.endswith(".egg") and os.path.isfile(place)]
    if not eggs:
        return DeployedEgg(f"scrapyd runs {name} of {home}, and no egg of it", is_hidden=True)
    egg = Path(eggs[-1])
    deployed = f"version {version or egg.stem}"
    if egg == home:
        return DeployedEgg(f"scrapyd runs {deployed}: {name} of {egg}", is_hidden=False)
    if not _has_package(egg):  # a project that uses smartcrawl
        return DeployedEgg(f"scrapyd runs {deployed} of {egg} with {name} of {home}", False)
    return DeployedEgg(
        f"scrapyd runs {name} of {home}, and not {deployed} of {egg}, which was deployed: no"
        " deployment has an effect while its Python finds that folder first; let scrapyd run in"
        " the environment of script/setup scrapyd, and start it in a folder without a checkout",
        is_hidden=True,
    )


def _has_package(egg: Path) -> bool:
    try:
        with zipfile.ZipFile(egg) as file:
            return _PACKAGE in file.namelist()
    except (OSError, zipfile.BadZipFile):  # removed meanwhile
        return False
