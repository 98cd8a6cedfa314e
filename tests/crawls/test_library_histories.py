"""Random histories of a library, its disk and its map, with kills: the end is as the library is."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.crawls.commands import Crawl, path_of
from tests.crawls.libraries import DOMAIN, LibraryCrawl
from tests.crawls.library_stage import LibraryStage, staged
from tests.servers.sharepoint import Library, SharepointServer

pytestmark = [pytest.mark.alone]

FILES = {
    f"{folder}{number}.txt": f"whale {folder}{number}".encode()
    for folder in ("", "a/", "a/b/", "c/") for number in range(4)
}  # fmt: skip
_TEXTS = "SELECT r.url, k.text FROM chunk k JOIN record r ON r.content = k.content"
_FOLDERS = ("", "a", "a/b", "c", "d", "d/e")
_REMOVED_AT_ONCE = 2  #: between two crawls, so that the guard withholds nothing


class History:
    """A library that people change, while its copy is damaged and downloads are killed."""

    def __init__(self, libraries: LibraryCrawl, library: Library, seed: int) -> None:
        self.libraries = libraries
        self.library = library
        self.random = random.Random(seed)
        self.steps: list[str] = []
        self._deleted = 0
        self._number = 0

    def step(self) -> None:
        """Do one thing."""
        actions: dict[Callable[[], Any], int] = {
            self.add: 3, self.update: 3, self.rename: 3, self.swap: 3, self.move_folder: 2,
            self.delete: 2, self.restore: 2, self.replace: 2, self.edit_map: 1,
            self.damage_disk: 2, self.crawl: 2, self.kill: 3,
        }  # fmt: skip
        (action,) = self.random.choices(list(actions), list(actions.values()))
        self.steps.append(action.__name__)
        try:
            action()
        except KeyError:  # the name is taken, or a folder would go into itself
            self.steps[-1] += " (not done)"

    def _file(self) -> str:
        return self.random.choice(sorted(self.library.files()))

    def _fresh(self) -> str:
        self._number += 1
        folder = self.random.choice(_FOLDERS)
        return f"{folder}/new{self._number}.txt".lstrip("/")

    def _text(self) -> bytes:
        return f"shark {self.random.randrange(10)}".encode()

    def add(self) -> None:
        self.library.add(self._fresh(), self._text())

    def update(self) -> None:
        self.library.update(self._file(), self._text())

    def rename(self) -> None:
        self.library.relocate(self._file(), self._fresh())

    def swap(self) -> None:
        one, other = self._file(), self._file()
        if one != other:
            self.library.swap(one, other)

    def move_folder(self) -> None:
        folders = sorted({path.rpartition("/")[0] for path in self.library.files()} - {""})
        if folders:
            self.library.relocate(self.random.choice(folders), f"moved{self.random.randrange(3)}")

    def delete(self) -> None:
        if self._deleted < _REMOVED_AT_ONCE:
            self._deleted += 1
            self.library.delete(self._file())

    def restore(self) -> None:
        gone = [entry.path for entry in self.library.bin if entry.is_file]
        if gone:
            self.library.restore(self.random.choice(gone))

    def replace(self) -> None:
        if self._deleted < _REMOVED_AT_ONCE:
            self._deleted += 1
            self.library.replace(self._file(), self._text())

    def edit_map(self) -> None:
        place = self.libraries.folder() / "files_map.csv"
        if not place.exists():
            return
        lines = place.read_bytes().splitlines(keepends=True)
        chosen = self.random.randrange(len(lines))
        match self.random.randrange(3):
            case 0:
                place.unlink()
            case 1:
                place.write_bytes(b"".join(lines[:chosen] + lines[chosen + 1 :]))
            case _:
                lines[chosen] = lines[chosen].replace(b"0", b"1").replace(b"txt", b"tzt", 1)
                place.write_bytes(b"".join(lines))

    def _stored(self) -> list[Path]:
        top = self.libraries.folder() / "02_embedded"
        return sorted(path for path in top.rglob("*") if path.is_file())

    def damage_disk(self) -> None:
        file = self.random.choice(self._stored())
        match self.random.randrange(4):
            case 0:
                file.unlink()
            case 1:
                file.write_bytes(b"damage")
            case 2:
                file.rename(file.with_name("elsewhere.txt"))
            case _:
                other = self.random.choice(self._stored())
                held = file.read_bytes(), other.read_bytes()
                file.write_bytes(held[1])
                other.write_bytes(held[0])

    def crawl(self) -> None:
        self.libraries.download()
        self._deleted = 0
        self.check()

    def kill(self) -> None:
        place = str(self.random.randrange(1, 130))
        words = ("runner", "kill", place, "library", "download", DOMAIN, "--format", "json")
        result = self.libraries.crawl.run(*words, expect=None)
        self.steps[-1] += f" at {place}: {result.status}"
        if result.status == 0:
            self._deleted = 0

    def check(self) -> None:
        """The disk is as the library, and so are the maps."""
        expected = {path: entry.content for path, entry in self.library.files().items()}
        assert self.libraries.disk() == expected
        self.libraries.check_maps()


@pytest.fixture(scope="module", params=["rest", "graph"])
def stage(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    ask: Any,
    sharepoint_server: SharepointServer,
) -> LibraryStage:
    """By Graph, each download begins from the token that the last one has stored."""
    folder = tmp_path_factory.mktemp("staged")
    return staged(FILES, folder, ask, sharepoint_server, api=request.param)


_FIRST = int(os.environ["KILL_SEED"])


@pytest.mark.parametrize(
    "seed",
    [pytest.param(_FIRST + n, marks=[] if n < 2 else [pytest.mark.long]) for n in range(60)],
)
def test_any_history_ends_as_the_library_is(seed: int, stage: LibraryStage, crawl: Crawl) -> None:
    libraries, library = stage.begin(crawl)
    libraries.server.tenant.delta_twice = seed % 2 == 1
    history = History(libraries, library, seed)
    try:
        for _ in range(14):
            history.step()
        history.crawl()
        found = libraries.download()
        assert (libraries.downloads(), found["unchanged"]) == (0, len(library.files()))
        history.check()
        texts = {unquote(path_of(url)): text for url, text in crawl.rows(_TEXTS)}
        assert texts == {
            f"{library.path}/{path}": entry.content.decode()
            for path, entry in library.files().items()
        }
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {history.steps}\n{error}") from error
