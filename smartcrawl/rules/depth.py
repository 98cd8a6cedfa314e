"""The largest number of links from a seed: of the source, and of one run by order."""

from __future__ import annotations

from typing import NamedTuple, Self


class DepthLimits(NamedTuple):
    """Two limits of depth; 0: none.

    Pages beyond the source's own are out of scope. Pages beyond the ordered one are left out by
    this run alone, which says nothing about them.
    """

    own: int = 0
    ordered: int = 0  #: smaller than ``own``, or 0

    @classmethod
    def of(cls, max_depth: int, limit: int, *, by_order: bool) -> Self:
        """Return the limits of a run.

        ``max_depth``: of its source. ``limit``: DEPTH_LIMIT. ``by_order``: whether the command
        line of this run gave DEPTH_LIMIT; otherwise it stands in for a missing ``max_depth``.

        >>> DepthLimits.of(5, 2, by_order=True), DepthLimits.of(0, 2, by_order=True)
        (DepthLimits(own=5, ordered=2), DepthLimits(own=0, ordered=2))
        >>> DepthLimits.of(5, 2, by_order=False), DepthLimits.of(0, 2, by_order=False)
        (DepthLimits(own=5, ordered=0), DepthLimits(own=2, ordered=0))
        """
        if not by_order:
            return cls(max_depth or limit)
        is_smaller = max_depth == 0 or limit < max_depth
        return cls(max_depth, limit if is_smaller else 0)

    def excludes(self, depth: int) -> bool:
        """Whether a page of this depth is out of scope.

        >>> [DepthLimits(3, 1).excludes(depth) for depth in (1, 3, 4)]
        [False, False, True]
        """
        return 0 < self.own < depth

    def leaves_out(self, depth: int) -> bool:
        """Whether a page of this depth is in scope, and left out by order.

        >>> [DepthLimits(3, 1).leaves_out(depth) for depth in (1, 2, 3, 4)]
        [False, True, True, False]
        """
        return 0 < self.ordered < depth and not self.excludes(depth)

    def is_too_deep(self, depth: int) -> bool:
        """Whether a run does not ask a page of this depth.

        >>> [DepthLimits(3, 1).is_too_deep(depth) for depth in (1, 2, 4)]
        [False, True, True]
        """
        return 0 < self.own < depth or 0 < self.ordered < depth
