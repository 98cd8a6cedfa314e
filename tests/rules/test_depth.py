"""Limits of depth: the source's own makes scope, that of one run is an order."""

import pytest

from smartcrawl.rules.depth import DepthLimits


@pytest.mark.covers("R4-08")
@pytest.mark.parametrize(
    ("max_depth", "limit", "by_order", "own", "ordered"),
    [
        (0, 0, False, 0, 0),
        (0, 2, False, 2, 0),
        (5, 2, False, 5, 0),
        (5, 0, False, 5, 0),
        (0, 0, True, 0, 0),
        (0, 2, True, 0, 2),
        (5, 2, True, 5, 2),
        (5, 4, True, 5, 4),
        (5, 5, True, 5, 0),
        (5, 6, True, 5, 0),
        (5, 0, True, 5, 0),
        (0, 1, True, 0, 1),
        (1, 1, True, 1, 0),
    ],
)
def test_an_order_counts_where_it_is_smaller(max_depth, limit, by_order, own, ordered):
    assert DepthLimits.of(max_depth, limit, by_order=by_order) == (own, ordered)


def test_there_is_no_limit_by_default():
    assert DepthLimits() == (0, 0)


@pytest.mark.parametrize(
    ("limits", "excluded", "left_out"),
    [
        (DepthLimits(), (), ()),
        (DepthLimits(2), (3, 4, 5), ()),
        (DepthLimits(0, 2), (), (3, 4, 5)),
        (DepthLimits(4, 2), (5,), (3, 4)),
        (DepthLimits(2, 1), (3, 4, 5), (2,)),
        (DepthLimits(0, 1), (), (2, 3, 4, 5)),
        (DepthLimits(1), (2, 3, 4, 5), ()),
    ],
)
def test_what_lies_beyond_an_order_is_no_less_in_scope(limits, excluded, left_out):
    depths = range(6)

    assert tuple(filter(limits.excludes, depths)) == excluded
    assert tuple(filter(limits.leaves_out, depths)) == left_out
    assert tuple(filter(limits.is_too_deep, depths)) == tuple(sorted((*excluded, *left_out)))
