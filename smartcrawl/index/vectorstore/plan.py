"""The differences between the pages of a source and the files of a store, as a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from smartcrawl.index.vectorstore.ports import FileStatus, ItemVersion, StoredFile


@dataclass(slots=True)
class PushPlan:
    """The work of a push."""

    unchanged: int = 0  #: pages whose version is completed
    leaving: list[StoredFile] = field(default_factory=list)  #: to detach at once
    under_way: list[StoredFile] = field(default_factory=list)  #: to attach, or to wait for
    missing: list[int] = field(default_factory=list)  #: record.no of pages to upload, rising
    #: By record.no, files of former versions that stay until the new one is completed.
    former: dict[int, list[StoredFile]] = field(default_factory=dict)


def vector_store_plan(
    versions: Mapping[int, ItemVersion],
    files: Iterable[StoredFile],
    kept: Mapping[int, bytes | None] = MappingProxyType({}),
    *,
    is_full: bool = False,
    lost: Set[str] = frozenset(),
) -> PushPlan:
    """Return the work that makes a store equal to the pages ``versions`` (by record.no).

    A page keeps the first of its files that is furthest. The file of a former version stays only
    while it is completed, and no file of the present one is. Files without an id are left out.
    ``kept``: others whose files stay; with a hash only completed ones of it. ``is_full``:
    each completed file counts as one of a former version. ``lost``: those that do in any case.
    """
    plan = PushPlan()
    by_page: dict[int, tuple[StoredFile, ...]] = {}  # lists would take twice the memory
    for file in files:
        if file.file is None:
            continue
        is_kept = file.version.no in kept and _stays(file, kept[file.version.no])
        if file.status is FileStatus.LEAVING or not (is_kept or file.version.no in versions):
            plan.leaving.append(file)
        elif is_kept:
            continue
        else:
            by_page[file.version.no] = (*by_page.get(file.version.no, ()), file)
    for no, version in sorted(versions.items()):
        found: Sequence[StoredFile] = by_page.get(no, ())
        if is_full or not lost.isdisjoint(file.file for file in found):
            former = [
                file
                for file in found
                if file.status is FileStatus.COMPLETED and (is_full or file.file in lost)
            ]
            plan.former[no] = former
            found = [file for file in found if file not in former]
        _plan_page(plan, version, found)
    return plan


def _stays(file: StoredFile, digest: bytes | None) -> bool:
    is_same = file.version.hash == digest and file.status is FileStatus.COMPLETED
    return digest is None or is_same


def _plan_page(plan: PushPlan, version: ItemVersion, files: Sequence[StoredFile]) -> None:
    present = [file for file in files if file.version == version]
    kept = max(present, key=_progress, default=None)  # the first of equal ones
    is_done = kept is not None and kept.status is FileStatus.COMPLETED
    if is_done:
        plan.unchanged += 1
    elif kept is not None:
        plan.under_way.append(kept)
    else:
        plan.missing.append(version.no)
    for file in files:
        if file is kept:
            continue
        is_former = file.version != version and file.status is FileStatus.COMPLETED
        if is_former and not is_done:
            plan.former.setdefault(version.no, []).append(file)
        else:
            plan.leaving.append(file)


def _progress(file: StoredFile) -> int:
    return (FileStatus.UPLOADED, FileStatus.ATTACHED, FileStatus.COMPLETED).index(file.status)
