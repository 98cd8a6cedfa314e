"""What DATA_DIR holds is for its owner alone."""

import os
from pathlib import Path

import pytest

from smartcrawl.sources.private_files import narrow_private_data

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no modes of files")


@pytest.mark.parametrize("is_shared", [False, True])
def test_locks_are_narrowed_with_their_folder(tmp_path: Path, is_shared: bool):
    leases = tmp_path / "leases"
    leases.mkdir(mode=0o755)
    lock, other = leases / "docs.lock", leases / "notes.txt"
    for path in (lock, other):
        path.touch()
        path.chmod(0o644)
    if is_shared:
        (tmp_path / "home").mkdir()

    narrow_private_data(tmp_path)

    modes = [path.stat().st_mode & 0o777 for path in (leases, lock, other)]
    assert modes == [0o700, 0o600, 0o644]


def test_a_folder_without_locks_is_narrowed(tmp_path: Path):
    tmp_path.chmod(0o755)

    narrow_private_data(tmp_path)
    narrow_private_data(tmp_path / "missing")

    assert tmp_path.stat().st_mode & 0o777 == 0o700
