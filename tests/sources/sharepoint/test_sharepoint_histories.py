"""Random histories of a library: what deltas add up to is what REST lists."""

import random
from typing import Any

import pytest

from smartcrawl.sources.sharepoint.graph import GraphApi
from smartcrawl.sources.sharepoint.rest import RestApi
from tests.servers.sharepoint import Library, SharepointServer
from tests.sources.sharepoint.canned import Place
from tests.sources.sharepoint.kept_drive import KeptDrive
from tests.sources.sharepoint.loopback import LoopbackFetch, options_of


class History:
    """Random changes of one library."""

    def __init__(self, library: Library, seed: int) -> None:
        self.library = library
        self.random = random.Random(seed)
        self.number = 0
        for above in ("", "one/", "one/two/", "one/two/three/", "four/", "five/six/"):
            for number in range(3):
                library.add(f"{above}{number}.txt", above)

    def step(self) -> None:
        changes = [
            self.add,
            self.update,
            self.rename,
            self.move,
            self.delete,
            self.restore,
            self.swap,
        ]
        (change,) = self.random.choices(changes, [4, 2, 4, 4, 2, 1, 1])
        change()

    def name(self) -> str:
        self.number += 1
        return self.random.choice(["a", "b", "ü", "c d", "50%", "#1"]) + str(self.number)

    def entries(self, *, folders: bool | None = None) -> list[str]:
        found = [
            entry.path
            for entry in self.library.entries.values()
            if folders is None or entry.is_file is not folders
        ]
        return sorted(found)

    def any(self, **more: Any) -> str | None:
        found = self.entries(**more)
        return self.random.choice(found) if found else None

    def folder(self) -> str:
        return self.random.choice(["", *self.entries(folders=True)])

    def add(self) -> None:
        above, name = self.folder(), self.name()
        path = f"{above}/{name}" if above else name
        if self.random.random() < 0.4:
            self.library.folder(path)
        else:
            self.library.add(f"{path}.txt", path)

    def update(self) -> None:
        path = self.any(folders=False)
        if path:
            self.library.update(path, self.name())

    def rename(self) -> None:
        path = self.any(folders=self.random.random() < 0.6)
        if path:
            self.library.rename(path, self.name())

    def move(self) -> None:
        path, target = self.any(folders=self.random.random() < 0.6), self.folder()
        if path is None or f"{target}/".startswith(f"{path}/"):
            return
        name = path.rpartition("/")[2]
        if (f"{target}/{name}" if target else name) not in self.entries():
            self.library.move(path, target)

    def delete(self) -> None:
        path = self.any()
        if path:
            self.library.delete(path)

    def restore(self) -> None:
        known = {self.library.root.unique_id, *self.library.by_guid}
        for entry in self.library.bin[-1:]:
            is_below = entry.parent is not None and entry.parent.unique_id in known
            if is_below and entry.path not in self.entries():
                self.library.restore_entry(entry)

    def swap(self) -> None:
        files = self.entries(folders=False)
        if len(files) >= 2:
            one, other = self.random.sample(files, 2)
            first, second = one.rpartition("/")[2], other.rpartition("/")[2]
            if one.rpartition("/")[0] == other.rpartition("/")[0]:
                self.library.rename(one, "between")
                self.library.rename(other, first)
                above = one.rpartition("/")[0]
                self.library.rename(f"{above}/between" if above else "between", second)


@pytest.mark.long(but=2)
@pytest.mark.parametrize("seed", range(4))
def test_deltas_add_up_to_what_rest_lists(sharepoint: SharepointServer, tmp_path: Any, seed: int):
    site = sharepoint.tenant.site("/sites/demo")
    library = site.library()
    sharepoint.tenant.delta_names_deleted_children = seed % 2 == 1
    sharepoint.tenant.delta_twice = seed >= 2
    history = History(library, seed)
    place = Place(site_url=sharepoint.site_url(site))
    options = options_of(sharepoint.graph_settings, tmp_path)
    of_rest = options_of(sharepoint.settings, tmp_path)
    fetch = LoopbackFetch(sharepoint)
    rest = RestApi(place, of_rest, fetch)
    known: KeptDrive | None = None
    asked: list[str] = []
    for _ in range(8):
        for _ in range(history.random.randint(1, 6)):
            history.step()
        fetch.requests.clear()
        listing = GraphApi(place, options, fetch, known=known).listing()
        found = [item for page in listing.pages() for item in page]
        asked += [one.url for one in fetch.requests if "token=" in one.url]
        whole = {item.unique_id: item for page in rest.listing().pages() for item in page}

        assert (listing.problems, listing.notes) == ([], [])
        assert {item.unique_id: item for item in found} == whole
        assert [item.listitem_id for item in found] == sorted(one.listitem_id for one in found)
        assert listing.update is not None
        assert listing.update.is_whole == (known is None)
        known = KeptDrive(listing.update, known)
        assert {file.unique_id for file in known.files()} == set(whole)

    assert len(asked) == 7
