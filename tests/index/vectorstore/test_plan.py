"""The plan of a push: every page keeps one file, and nothing is planned twice."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.index.vectorstore.ports import (
    FileStatus,
    ItemVersion,
    StoredFile,
    vector_store_plan,
)

PAGES = st.integers(0, 3)
HASHES = st.sampled_from([b"a", b"b", b"c"])


def version(no: int, hash_: bytes) -> ItemVersion:
    return ItemVersion(no, f"http://docs.example/{no}", hash_)


@st.composite
def files(draw: st.DrawFn) -> list[StoredFile]:
    drawn = draw(st.lists(st.tuples(PAGES, HASHES, st.sampled_from(FileStatus)), max_size=12))
    return [
        StoredFile(
            f"{n}", version(no, hash_), "", 1,
            None if status is FileStatus.INTENDED else f"file-{n}", status, n,
        )
        for n, (no, hash_, status) in enumerate(drawn)
    ]  # fmt: skip


@given(files(), st.dictionaries(st.integers(1, 3), HASHES))
def test_a_plan_ends_with_one_file_of_the_present_version(
    given_files: list[StoredFile], pages: dict[int, bytes]
):
    versions = {no: version(no, hash_) for no, hash_ in pages.items()}

    plan = vector_store_plan(versions, given_files)

    former = [file for group in plan.former.values() for file in group]
    planned = Counter(file.intent for file in (*plan.leaving, *plan.under_way, *former))
    assert set(planned.values()) <= {1}
    known = {file.intent: file for file in given_files if file.file is not None}
    kept = [known[intent] for intent in known.keys() - planned.keys()]
    assert {file.version.no for file in kept if file.status is FileStatus.COMPLETED} <= set(pages)
    assert len(kept) == plan.unchanged
    assert all(versions[file.version.no] == file.version for file in kept)
    going = [file.version for file in plan.under_way]
    assert all(versions[one.no] == one for one in going)
    done = [file.version.no for file in kept]
    assert sorted([*done, *(one.no for one in going), *plan.missing]) == sorted(pages)
    waiting = {*plan.missing, *(one.no for one in going)}
    assert plan.former.keys() <= waiting
    assert all(file.status is FileStatus.COMPLETED for file in former)
    searchable = {
        file.version.no
        for file in known.values()
        if file.status is FileStatus.COMPLETED and file.version.no in waiting
    }
    assert searchable == plan.former.keys()  # a page that is being replaced stays findable
