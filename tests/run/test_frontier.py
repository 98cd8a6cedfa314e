"""Every number that is offered leaves once, breadth first for each host."""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.model.pages import Page
from smartcrawl.run.frontier import UNREACHED, Frontier, FrontierQueue, RankedFrontierQueue
from tests.tiers import examples


class Shelf:
    """The pages of a frontier: number n is on host n % hosts."""

    def __init__(self, hosts: int = 1, **options: object) -> None:
        self.hosts = hosts
        self.loads: list[list[int]] = []
        self.missing: set[int] = set()
        self.frontier = Frontier(self.load, **options)
        self.frontier.grow(2_000)

    def host(self, number: int) -> str:
        return f"h{number % self.hosts}.example"

    def load(self, numbers: Sequence[int]) -> list[Page]:
        self.loads.append(list(numbers))
        return [
            Page(no=number, url=f"http://{self.host(number)}/{number}", host=self.host(number),
                 depth=self.frontier.depth(number))
            for number in numbers if number not in self.missing
        ]  # fmt: skip

    def drain(self) -> list[int]:
        found = []
        while (page := self.frontier.next(lambda _: True)) is not None:
            found.append(page.no)
        return found


# The model

STEPS = st.one_of(
    st.tuples(
        st.just("offer"),
        st.lists(st.integers(1, 60), min_size=1, max_size=12, unique=True),
        st.integers(0, 6),
    ),
    st.tuples(st.just("next"), st.frozensets(st.integers(0, 3)), st.integers(1, 8)),
)


@settings(deadline=None, max_examples=examples(200))
@given(st.integers(1, 4), st.lists(STEPS, max_size=40))
def test_every_offered_number_leaves_once_in_the_order_of_its_host(hosts, steps):
    """Against queues of numbers, one a host; full hosts give no page, and delay no other host."""
    shelf = Shelf(hosts)
    frontier = shelf.frontier
    queues: dict[str, deque[int]] = defaultdict(deque)
    depths: dict[int, int] = {}
    lowered: set[int] = set()
    for step in [*steps, ("next", frozenset(range(4)), 1_000)]:
        if step[0] == "offer":
            _, numbers, depth = step
            news = [n for n in numbers if depths.get(n, UNREACHED) > depth]
            for number in news:
                if number in depths:
                    lowered.add(number)
                else:
                    queues[shelf.host(number)].append(number)
                depths[number] = depth

            assert frontier.offer(numbers, depth) == news
        else:
            _, places, count = step
            free = {f"h{place}.example" for place in places}
            for _ in range(count):
                page = frontier.next(free.__contains__)
                if page is None:
                    assert not any(queues[host] for host in free)
                    break
                assert page.host in free
                assert page.no == queues[page.host].popleft()
        assert len(frontier) == sum(map(len, queues.values()))
        assert frontier.lowered == lowered
        assert {number: frontier.depth(number) for number in depths} == depths
    assert not any(queues.values())
    loaded = [number for load in shelf.loads for number in load]
    assert set(loaded) == set(depths)


@pytest.mark.covers("M-34", "R0-04", "R1-24", "R4-30", "R4-33")
def test_a_number_that_was_asked_is_not_asked_again():
    shelf = Shelf()
    shelf.frontier.offer([1, 2], 1)
    assert shelf.drain() == [1, 2]

    assert shelf.frontier.offer([1, 2, 3], 1) == [3]
    assert shelf.frontier.offer([1], 0) == [1]

    assert shelf.drain() == [3]
    assert shelf.frontier.lowered == {1}


def test_a_number_that_was_marked_is_not_asked():
    """On resume: its visit is over."""
    shelf = Shelf()
    shelf.frontier.mark(1, 2)
    shelf.frontier.mark_all([(2, 1), (3, 300)])

    assert shelf.frontier.offer([1, 2, 3, 4], 2) == [3, 4], "3 lies nearer than it was asked"
    assert shelf.drain() == [4]
    assert shelf.frontier.lowered == {3}


def test_hosts_take_turns():
    shelf = Shelf(hosts=3)
    shelf.frontier.offer(range(1, 10), 0)

    found = shelf.drain()

    assert sorted(found) == list(range(1, 10))
    assert all(one % 3 != other % 3 for one, other in pairwise(found))


def test_a_full_host_gives_nothing_while_others_go_on():
    shelf = Shelf(hosts=2)
    shelf.frontier.offer([2, 4, 6, 1, 3], 0)

    def free(host: str) -> bool:
        return host == "h1.example"

    assert [shelf.frontier.next(free).no for _ in range(2)] == [1, 3]
    assert shelf.frontier.next(free) is None
    assert len(shelf.frontier) == 3
    assert shelf.drain() == [2, 4, 6]


def test_one_full_host_does_not_hide_a_free_one_far_behind():
    shelf = Shelf(hosts=1_500)
    full = [1_500 * n for n in range(1, 1_500)]  # more than are kept built of one host
    shelf.frontier.grow(max(full))
    shelf.frontier.offer(full, 0)
    shelf.frontier.offer([7], 0)

    assert shelf.frontier.next(lambda host: host != "h0.example").no == 7
    assert shelf.drain() == full


def test_many_pages_of_one_host_leave_in_order_however_they_are_kept():
    """Beyond 200 built pages numbers wait; they must not overtake, nor be overtaken."""
    shelf = Shelf()
    shelf.frontier.grow(3_000)
    shelf.frontier.offer(range(1, 1_001), 1)
    found = [shelf.frontier.next(lambda _: True).no for _ in range(50)]
    assert shelf.frontier.next(lambda _: False) is None
    shelf.frontier.offer(range(1_001, 2_001), 2)

    assert found + shelf.drain() == list(range(1, 2_001))
    assert len(shelf.frontier) == 0


def test_what_is_found_while_others_wait_does_not_overtake_them():
    """A full host has 200 built pages and numbers behind them; then some of it go out."""
    shelf = Shelf(hosts=2)
    shelf.frontier.offer(range(2, 602, 2), 0)
    assert shelf.frontier.next(lambda host: host == "h1.example") is None
    found = [shelf.frontier.next(lambda _: True).no for _ in range(50)]

    shelf.frontier.offer([602, 604, 1], 1)
    assert shelf.frontier.next(lambda host: host == "h1.example").no == 1

    assert found + shelf.drain() == list(range(2, 606, 2))


@pytest.mark.parametrize("single", [True, False])
def test_a_hundred_numbers_are_one_look_up(single: bool):
    shelf = Shelf(single_host=single)
    shelf.frontier.offer(range(1, 251), 0)
    assert shelf.loads == [], "a page is built when its turn comes"

    assert shelf.drain() == list(range(1, 251))

    assert [len(load) for load in shelf.loads] == [100, 100, 50]


def test_a_frontier_of_one_host_looks_no_further_while_that_is_full():
    shelf = Shelf(single_host=True)
    shelf.frontier.offer(range(1, 1_001), 0)

    for _ in range(10):
        assert shelf.frontier.next(lambda _: False) is None

    assert len(shelf.loads) == 1


def test_a_number_without_a_page_is_left_out_and_not_waited_for():
    shelf = Shelf()
    shelf.missing = {2}
    shelf.frontier.offer([1, 2, 3], 0)

    assert shelf.drain() == [1, 3]
    assert len(shelf.frontier) == 0


def test_numbers_need_room():
    frontier = Frontier(lambda _: [])
    frontier.grow(5)
    assert frontier.reached[5] == UNREACHED
    size = len(frontier.reached)

    frontier.grow(5)
    frontier.grow(3)

    assert len(frontier.reached) == size
    frontier.grow(size + 5_000)
    assert len(frontier.reached) > size + 5_000
    assert set(frontier.reached) == {UNREACHED}


# Depth


@pytest.mark.parametrize("depth", [0, 1, 253, 254, 255, 256, 300, 70_000])
def test_any_depth_is_exact(depth: int):
    shelf = Shelf()

    assert shelf.frontier.offer([1], depth) == [1]
    shelf.frontier.mark(2, depth)
    shelf.frontier.mark_all([(3, depth)])

    assert [shelf.frontier.depth(number) for number in (1, 2, 3)] == [depth] * 3


@pytest.mark.covers("M-24")
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (5, 4),
        (1, 0),
        (254, 253),
        (300, 7),
        (300, 260),
        (255, 254),
    ],
)
def test_the_smallest_depth_counts_and_a_lower_one_is_noted(first: int, second: int):
    shelf = Shelf()
    shelf.frontier.offer([1], first)

    assert shelf.frontier.offer([1], first) == []
    assert shelf.frontier.offer([1], first + 1) == []
    assert shelf.frontier.lowered == set()
    assert shelf.frontier.offer([1], second) == [1]

    assert shelf.frontier.depth(1) == second
    assert shelf.frontier.lowered == {1}
    assert shelf.drain() == [1], "once"


# Queues


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(1, 3_000), st.integers(-3_000, -1)), max_size=30))
def test_a_queue_is_first_in_first_out_whatever_it_compacts(steps):
    """Positive steps put that many numbers, negative ones take them."""
    queue, model, number = FrontierQueue(), deque[int](), 0
    for step in steps:
        for _ in range(step):
            queue.put(number)
            model.append(number)
            number += 1
        if step < 0:
            taken = [model.popleft() for _ in range(min(-step, len(model)))]
            assert list(queue.take(-step)) == taken
        assert len(queue) == len(model)
    assert list(queue.take(10**6)) == list(model)


def test_a_queue_gives_back_the_room_of_what_was_taken():
    queue = FrontierQueue()
    for number in range(20_000):
        queue.put(number)

    queue.take(15_000)

    assert len(queue._numbers) < 10_000
    assert list(queue.take(2)) == [15_000, 15_001]


def test_a_ranked_queue_gives_the_smallest_rank_and_then_what_came_first():
    asked: list[list[int]] = []
    ranks = {1: 50, 2: 10, 4: 10, 5: 70}

    def rank(numbers: Sequence[int]) -> dict[int, int]:
        asked.append(list(numbers))
        return {number: ranks[number] for number in numbers if number in ranks}

    queue = RankedFrontierQueue(rank)
    for number in (1, 2, 3, 4):
        queue.put(number)
    assert len(queue) == 4

    assert list(queue.take(2)) == [3, 2], "never visited: rank 0"
    queue.put(5)
    queue.put(6)
    assert len(queue) == 4
    assert list(queue.take(9)) == [6, 4, 1, 5]
    assert list(queue.take(1)) == []
    assert asked == [[1, 2, 3, 4], [5, 6]]


def test_a_ranked_frontier_asks_the_oldest_visit_first():
    """The next run begins with the pages that a limited run did not reach."""
    shelf = Shelf(rank=lambda numbers: {number: 100 - number for number in numbers if number < 50})
    shelf.frontier.offer(range(1, 61), 0)

    found = shelf.drain()

    assert found == [*range(50, 61), *range(49, 0, -1)]


def test_what_is_found_meanwhile_may_be_more_urgent():
    shelf = Shelf(rank=lambda numbers: {number: number for number in numbers if number > 5})
    shelf.frontier.offer(range(100, 200), 0)
    shelf.frontier.next(lambda _: True)

    shelf.frontier.offer([1], 1)
    found = shelf.drain()

    assert found.index(1) < 10


@pytest.mark.covers("U-16")
def test_who_skips_page_after_page_lets_others_have_the_loop():
    """A due crawl may skip a million pages before it finds one to ask."""
    loaded: list[int] = []

    def load(numbers: Sequence[int]) -> list[Page]:
        loaded.extend(numbers)
        return [Page(no, f"http://a.example/{no}", "a.example", 0) for no in numbers if no == 4_999]

    frontier = Frontier(load)
    frontier.grow(5_000)
    frontier.offer(range(5_000), 0)
    turns = 0
    while (page := frontier.next(lambda _: True)) is None:
        assert frontier.resting
        assert len(loaded) <= 2_000 * (turns + 1)
        turns += 1

    assert page.no == 4_999
    assert turns == 2
    assert not frontier.resting
    assert frontier.next(lambda _: True) is None
    assert not frontier.resting
    assert len(frontier) == 0


def test_a_number_may_have_a_second_turn():
    numbers = iter([[], [Page(1, "http://a.example/", "a.example", 0)]])
    frontier = Frontier(lambda _: next(numbers))
    frontier.grow(1)
    frontier.offer([1], 0)
    assert frontier.next(lambda _: True) is None
    assert len(frontier) == 0

    frontier.again(1)
    assert len(frontier) == 1
    assert frontier.next(lambda _: True) is not None


# Priorities


@pytest.mark.covers("R2-35", "R2-42")
def test_pinned_pages_leave_by_their_priority_around_the_other_ones():
    shelf = Shelf()
    shelf.frontier.priorities.update({7: 10, 8: 1, 9: 4, 10: 6, 11: 1})
    shelf.frontier.offer([1, 2], 0)
    shelf.frontier.offer([7, 8, 9, 10, 11], 0)
    shelf.frontier.offer([3], 1)

    assert len(shelf.frontier) == 8
    assert shelf.drain() == [8, 11, 9, 1, 2, 3, 10, 7]
    assert len(shelf.frontier) == 0


@pytest.mark.covers("R2-35")
def test_a_page_of_low_priority_waits_for_all_that_its_host_still_finds():
    shelf = Shelf()
    shelf.frontier.priorities.update(dict.fromkeys(range(100, 120), 10))
    shelf.frontier.offer([1, *range(100, 120)], 0)
    found = [shelf.frontier.next(lambda _: True).no for _ in range(2)]
    shelf.frontier.offer([2, 3], 1)
    found += shelf.drain()

    assert found[:2] == [1, 100], "nothing else waits when the first page was taken"
    assert found.index(3) <= 10, "pages found meanwhile come before those that are not built yet"
    assert found[-1] == 119
    assert len(found) == len(set(found)) == 23


@pytest.mark.covers("R2-35")
def test_priorities_count_within_a_host_and_stop_no_other_one():
    """Host h0 has only pages of low priority, h1 is busy."""
    shelf = Shelf(hosts=2)
    shelf.frontier.priorities.update({2: 10, 4: 9, 3: 1})
    shelf.frontier.offer([1, 2, 3, 4, 5], 0)
    first = [shelf.frontier.next(lambda host: host == "h0.example") for _ in range(3)]

    assert [page and page.no for page in first] == [4, 2, None]
    assert len(shelf.frontier) == 3
    assert shelf.drain() == [3, 1, 5]


@pytest.mark.covers("R2-35", "R2-42")
def test_in_a_limited_run_a_step_of_priority_is_worth_a_million_seconds():
    visits = {1: 3_000_000, 2: 2_500_000, 3: 9_000_000, 4: 1}
    shelf = Shelf(rank=lambda numbers: {n: visits[n] for n in numbers if n in visits})
    shelf.frontier.priorities.update({1: 4, 3: 1, 4: 10, 5: 6})
    shelf.frontier.offer([1, 2, 3, 4, 5], 0)

    assert shelf.drain() == [5, 1, 2, 3, 4]


@settings(deadline=None, max_examples=examples(200))
@given(
    st.integers(1, 3),
    st.dictionaries(st.integers(1, 60), st.integers(1, 10)),
    st.lists(STEPS, max_size=40),
)
@pytest.mark.covers("R2-35")
def test_every_number_leaves_once_whatever_the_priorities_are(hosts, priorities, steps):
    shelf = Shelf(hosts)
    shelf.frontier.priorities.update({n: p for n, p in priorities.items() if p != 5})
    offered: set[int] = set()
    left: list[int] = []
    for step in steps:
        if step[0] == "offer":
            shelf.frontier.offer(step[1], step[2])
            offered.update(step[1])
        else:
            free = {f"h{place}.example" for place in step[1]}
            for _ in range(step[2]):
                page = shelf.frontier.next(free.__contains__)
                if page is None:
                    assert not any(shelf.host(n) in free for n in offered.difference(left))
                    break
                left.append(page.no)
        assert len(shelf.frontier) == len(offered) - len(left)
    left += shelf.drain()
    assert sorted(left) == sorted(offered)
