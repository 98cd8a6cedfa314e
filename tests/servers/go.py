"""Programs in Go that tests build at first use and keep."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.servers.cache import absent, cache_base, locked


def go_program(folder: Path) -> Path:
    """The program of a folder with main.go, go.mod and go.sum."""
    go = shutil.which("go")
    if go is None:
        absent("Go is not installed (https://go.dev/dl, or apt-get install golang)")
    sources = [folder / name for name in ("main.go", "go.mod", "go.sum")]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()
    base = cache_base()
    program = base / f"{folder.name}-{digest[:12]}"
    with locked(base / f"{folder.name}.lock"):
        if not program.exists():
            part = base / f"{program.name}.part"
            command = [go, "build", "-mod=readonly", "-o", str(part), "."]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                absent(f"Go cannot build {folder.name}: {done.stderr.strip()}")
            part.rename(program)
    return program
