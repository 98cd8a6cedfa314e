"""Which sources may be crawled at the same time."""

import pytest

from smartcrawl.rules.side_by_side import (
    can_run_side_by_side,
    default_jobs,
    first_to_begin,
    share_a_host,
    shared_host,
)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        (["a.example"], ["a.example"], True),
        (["a.example"], ["b.example"], False),
        (["a.example"], ["a.example:81"], False),
        ([".a.example"], ["a.example"], True),
        ([".a.example"], ["docs.a.example:81"], True),
        ([".a.example"], [".docs.a.example"], True),
        ([".a.example"], ["ba.example"], False),
        ([".a.example"], [".b.example"], False),
        (["[::1]:80"], ["[::1]:80"], True),
        ([".x"], ["[::1]"], False),
        ([], ["a.example"], False),
    ],
)
def test_sources_share_a_host_by_its_name_and_port_or_by_a_domain(
    one: list[str], other: list[str], shared: bool
):
    assert share_a_host(one, other) is shared
    assert share_a_host(other, one) is shared


def test_the_first_that_may_begin_is_taken():
    assert first_to_begin([["a"], ["b"]], []) == 0
    assert first_to_begin([["a"], ["b"]], [["a"], ["c"]]) == 1
    assert first_to_begin([["a"], ["b"]], [["a"], ["b"]]) is None
    assert first_to_begin([], [["a"]]) is None


def test_one_process_is_enough_where_all_share_a_host():
    assert not can_run_side_by_side([["a"], ["a", "b"], ["a", "c"]])
    assert can_run_side_by_side([["a"], ["b", "a"], ["b"]])
    assert can_run_side_by_side([[], []])
    assert not can_run_side_by_side([["a"]])
    assert not can_run_side_by_side([[]])


def test_there_is_a_job_a_core_up_to_four():
    assert [default_jobs(cores) for cores in (0, 1, 3, 4, 5)] == [1, 1, 3, 4, 4]


def test_of_several_hosts_that_are_shared_the_first_is_named():
    assert shared_host(["c", "a", "b"], ["b", "c"]) == "b"
