"""A Chromium for pages that scripts write, from Debian's packages."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from installer import SetupError, last_line, say

PACKAGE = "chromium-headless-shell"
#: Names by which smartcrawl finds one (smartcrawl/extract/browser/launch.py).
PROGRAMS = (
    "chromium-headless-shell", "chrome-headless-shell", "headless_shell", "chromium",
    "chromium-browser", "google-chrome", "google-chrome-stable", "chrome",
)  # fmt: skip
_BY_NAME = "install a Chromium, and name it by RENDER_BROWSER where it is not on the PATH"


def put_browser() -> None:
    """Install the browser where there is none.

    Raises:
        SetupError: it cannot be installed here; the message names the remedy.
    """
    for name in PROGRAMS:
        if found := shutil.which(name):
            say(f"The browser is there: {found}")
            return
    if shutil.which("apt-get") is None:
        raise SetupError(f"there is no apt-get on this system to fetch a browser with: {_BY_NAME}")
    install = ["apt-get", "install", "--yes", "--no-install-recommends", PACKAGE]
    if os.geteuid() != 0:
        command = " ".join(install)
        raise SetupError(f"only root installs packages: sudo {command}; or {_BY_NAME}")
    say(f"Fetching {PACKAGE} with apt-get")
    _run(["apt-get", "update"], check=False)  # one source of many may fail
    _run(install)
    say(f"Ready: {shutil.which(PACKAGE) or PACKAGE}")


def _run(command: Sequence[str], *, check: bool = True) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)  # fmt: skip
    if check and done.returncode:
        raise SetupError(f"{' '.join(command)} failed: {last_line(done.stderr)}; {_BY_NAME}")
