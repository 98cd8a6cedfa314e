"""The project's own environment for the programs of this folder, whichever Python starts them."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"


def enter() -> None:
    """Continue the program in .venv, which is prepared with the tools if it is not."""
    os.environ["RENDER"] = "no"  # no browser starts because one is installed
    if VENV.exists() and Path(sys.prefix).samefile(VENV):
        return
    prepared = subprocess.run([ROOT / "script" / "setup", "test"], check=False)
    if prepared.returncode:
        raise SystemExit(prepared.returncode)
    python = VENV / "bin" / "python"
    os.execv(python, [python, *sys.argv])
