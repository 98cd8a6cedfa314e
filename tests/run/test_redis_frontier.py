"""The shared frontier: what is handed out to whom, in which order, and when."""

import time
from collections import Counter
from itertools import pairwise

import pytest

from smartcrawl.model.exceptions import FrontierError, FrontierLostError
from smartcrawl.run.shared.connection import connect_redis
from smartcrawl.run.shared.redis_frontier import ClaimHeartbeat
from smartcrawl.run.shared.scripts import FrontierNumber, redis_run_prefix
from tests.crawls.commands import wait_until
from tests.run.stepped import Stepped
from tests.servers import redis_server

A, B = "a.example", "b.example"


@pytest.fixture
def client(redis_url):
    with connect_redis(redis_url) as connected:
        yield connected


@pytest.fixture
def worker(client):
    """Makes workers of a run."""

    def make(source="docs", run=7, *, per_host=100, begin=True, **options):
        made = Stepped(client, source, run, per_host=per_host, **options)
        if begin:
            made.begin()
        return made

    return make


def some(numbers, host=A, depth=0, **more):
    return [FrontierNumber(number, host, depth, **more) for number in numbers]


def numbers(claims):
    return [claim.no for claim in claims]


def expire(client, *claims, run="docs:7:"):
    """Let the leases of claims be over."""
    for claim in claims:
        client.zadd(f"{run}leases", {f"{claim.no:010d}": 1}, xx=True)
        client.zadd(f"domain:flying:{claim.host}", {f"{run}{claim.no:010d}": 1}, xx=True)


# Offering and claiming


def test_redis_hands_each_number_out_once_to_all_workers(worker):
    one, two = worker(), worker()
    one.offer(some(range(1, 21)))

    claims = [*one.claim(8), *two.claim(8), *one.claim(8)]

    assert sorted(numbers(claims)) == list(range(1, 21))
    assert one.claim(5) == two.claim(5) == []
    assert len({claim.token for claim in claims}) == 20


def test_redis_offers_a_number_once_a_run(worker):
    one, two = worker(), worker()

    assert one.offer(some([1, 2])) == ([1, 2], [])
    assert two.offer(some([2, 3], depth=1)) == ([3], [])
    one.ack(one.claim(9))
    assert two.offer(some([1, 2, 3, 4], depth=2)) == ([4], [])


@pytest.mark.parametrize(
    ("before", "after"), [(3, 1), (253, 252), (254, 253), (300, 254), (300, 280), (900, 0)]
)
def test_redis_keeps_the_smallest_depth_and_says_what_is_shallower(worker, before, after):
    frontier = worker()
    frontier.offer(some([5], depth=before))

    assert frontier.offer(some([5], depth=before)) == ([], [])
    assert frontier.offer(some([5], depth=before + 1)) == ([], [])
    assert frontier.offer(some([5], depth=after)) == ([], [5])
    assert frontier.claim(1)[0].depth == after
    assert frontier.offer(some([5], depth=after)) == ([], [])


def test_redis_is_breadth_first_within_a_host(worker):
    frontier = worker()
    frontier.offer(some([30, 10, 20]))
    frontier.offer(some([5, 1], depth=1))
    frontier.offer(some([99], depth=2))

    assert [numbers(frontier.claim(1)) for _ in range(6)] == [[30], [10], [20], [5], [1], [99]]


@pytest.mark.covers("R2-42", "M-36")
def test_redis_scores_are_priority_times_a_million_plus_the_time_of_discovery(client, worker):
    frontier = worker()
    before = time.time()
    frontier.offer(
        [
            FrontierNumber(1, A, 0),
            FrontierNumber(2, A, 0, priority=1),
            FrontierNumber(3, A, 0, since=86_400),
        ]
    )
    after = time.time()

    scores = dict(client.zrange("docs:7:frontier:a.example", 0, -1, withscores=True))

    assert 5_000_000 + before - 1 <= scores["0000000001"] <= 5_000_000 + after + 1
    assert 1_000_000 + before - 1 <= scores["0000000002"] <= 1_000_000 + after + 1
    assert scores["0000000003"] == 5_086_400
    assert numbers(frontier.claim(3)) == [3, 2, 1]


def test_redis_takes_the_oldest_visit_first_and_of_equal_ones_the_smaller_number(worker):
    frontier = worker()
    frontier.offer(
        [FrontierNumber(no, A, 0, since=at) for no, at in [(7, 50), (100, 0), (20, 0), (3, 9)]]
    )

    assert [numbers(frontier.claim(1)) for _ in range(4)] == [[20], [100], [3], [7]]


def test_redis_offers_more_than_one_call_may_hold(worker):
    frontier = worker(per_host=5_000)

    result = frontier.exchange(3, found=some(range(1, 2_501)))

    assert result.news == list(range(1, 2_501))
    assert numbers(result.claims) == [1, 2, 3]
    assert frontier.census()[:2] == (2_497, 3)


def test_redis_tells_runs_and_sources_apart(worker):
    """The dupefilter of scrapy-redis does not: overlapping runs filter each other's addresses."""
    runs = [worker(), worker(run=8), worker("docs@2.1"), worker("docs:7:x"), worker("doc*")]
    runs += [worker(registry="8c1f"), worker(registry="09aa")]
    for frontier in runs:
        assert frontier.offer(some([1, 2])) == ([1, 2], [])

    assert [numbers(frontier.claim(9)) for frontier in runs] == [[1, 2]] * 7


@pytest.mark.covers("R2-44")
def test_redis_keys_carry_source_and_run_and_those_of_hosts_do_not(client, worker):
    frontier = worker("docs", 7, per_host=1, delay=9)
    frontier.offer([*some([1, 2]), *some([3], B), *some([4], "c.example")])
    frontier.claim(2)

    keys = set(client.scan_iter())
    asked = client.hkeys("domain:last_crawl")

    assert len(asked) == 2
    assert client.smembers("docs:7:ready_domains") == {A, B, "c.example"} - set(asked)
    shared = {key for key in keys if not key.startswith("docs:7:")}
    assert shared == {"domain:last_crawl", *(f"domain:flying:{host}" for host in asked)}


def test_redis_keys_hold_no_hash_tag():
    assert "{" not in redis_run_prefix("{a}[b]*", 1)


# Politeness


@pytest.mark.covers("R2-43", "R2-46")
def test_redis_keeps_the_delay_of_a_host_over_all_workers_and_sources(client, worker):
    one, two, other = worker(delay=0.3), worker(delay=0.3), worker("blog", delay=0.3)
    for frontier in (one, other):
        frontier.offer(some(range(1, 9)))
    asked = []
    deadline = time.monotonic() + 60
    while len(asked) < 4 and time.monotonic() < deadline:
        for frontier in (one, two, other):
            for _ in frontier.claim(5):
                asked.append(float(client.hget("domain:last_crawl", A)))
        time.sleep(0.01)

    gaps = [after - before for before, after in pairwise(asked)]
    assert len(gaps) == 3
    assert all(gap >= 0.3 for gap in gaps)


def test_redis_says_when_it_is_worth_asking_again(worker):
    frontier = worker(delay=2)

    assert frontier.exchange(1).wait is None
    frontier.offer(some([1, 2]))
    assert frontier.exchange().wait == 0
    assert frontier.claim(1)
    assert 1 < frontier.exchange(1).wait <= 2


def test_redis_keeps_the_delay_of_a_single_host(worker):
    frontier = worker(delay=0.05, delays={A: 2.5})
    frontier.offer(some([1, 2]))
    frontier.claim(1)
    frontier.hosts.robots_read(A, 0.1)

    assert 2 < frontier.exchange(1).wait <= 2.5
    assert worker("blog", delay=0.05, delays={"other.example": 9}).exchange(1).wait is None


@pytest.mark.parametrize(("pace", "crawl_delay"), [(0, 2.5), (2.5, 0.1), (2.5, 2.5), (0.1, 2.5)])
def test_redis_uses_the_longest_of_all_delays(worker, pace, crawl_delay):
    frontier = worker(delay=0.05)
    frontier.offer(some([1, 2]))
    frontier.claim(1)
    frontier.hosts.set_delay(A, pace)
    frontier.hosts.robots_read(A, crawl_delay)

    assert 2 < frontier.exchange(1).wait <= 2.5


def test_redis_gives_a_host_that_slows_down_one_request_over_all_workers_and_sources(worker):
    one, other = worker(per_host=3), worker("blog", per_host=3)
    one.offer([*some(range(1, 9)), *some([11], B)])
    other.offer(some(range(1, 9)))
    one.hosts.set_single(A, 60)
    one.hosts.set_single(A, 0.01)  # a longer time in force stays

    claims = one.exchange(9).claims
    assert [claim.host for claim in claims].count(A) == 1
    assert not other.exchange(9).claims
    assert len(one.exchange(9, landed=claims).claims) == 1, "one after another"


def test_redis_gives_a_host_all_requests_when_its_time_with_one_is_over(worker):
    frontier = worker(per_host=3)
    frontier.offer(some(range(1, 9)))
    frontier.hosts.set_single(A, 0)

    assert len(frontier.exchange(9).claims) == 3


@pytest.mark.parametrize("said_first", ["single", "pause"])
def test_redis_counts_the_time_with_one_request_from_the_end_of_a_pause(worker, client, said_first):
    """A longer Retry-After would cover it, and three requests would follow at once."""
    hosts = worker(per_host=3).hosts
    steps = [lambda: hosts.set_single(A, 60), lambda: hosts.pause(A, 600)]
    for step in steps[:: 1 if said_first == "single" else -1]:
        step()

    assert times_of(client) == pytest.approx((600, 660), abs=5)
    hosts.pause(A, 600)  # of the other requests that were in flight
    hosts.set_single(A, 60)
    assert times_of(client) == pytest.approx((600, 660), abs=5), "nothing is added up"
    hosts.pause(A, 700)
    assert times_of(client) == pytest.approx((700, 760), abs=5)


def test_redis_makes_no_time_with_one_request_of_a_pause(worker, client):
    hosts = worker(per_host=3).hosts
    hosts.set_single(A, 0)
    hosts.pause(A, 600)

    assert times_of(client)[1] < 5


def times_of(client) -> tuple[float, float]:
    """The seconds until the pause of a host ends, and its time with one request."""
    kept = client.hgetall("domain:meta:a.example")
    now = time.time()
    return float(kept["paused_until"]) - now, float(kept["single_until"]) - now


@pytest.mark.covers("R2-45")
def test_redis_keeps_what_robots_txt_wants_of_a_host(client, worker):
    worker().hosts.robots_read(A, 1)

    kept = client.hgetall("domain:meta:a.example")
    assert kept.keys() == {"crawl_delay", "last_robots_fetch"}
    assert kept["crawl_delay"] == "1000"
    assert abs(int(kept["last_robots_fetch"]) - time.time()) < 5


def test_redis_lets_so_many_requests_fly_at_a_host_over_all_workers_and_sources(worker):
    one, two, other = worker(per_host=3), worker(per_host=3), worker("blog", per_host=3)
    one.offer([*some(range(1, 9)), *some([11], B)])
    other.offer(some(range(1, 9)))

    first, second = one.claim(3), two.claim(9)

    assert sorted(claim.host for claim in [*first, *second]) == [A] * 3 + [B]
    assert other.claim(9) == []
    landed = next(claim for claim in [*first, *second] if claim.host == A)
    (one if landed in first else two).land([landed])
    time.sleep(0.3)
    assert len(other.claim(9)) == 1
    assert one.claim(9) == two.claim(9) == []
    assert one.census()[:2] == (5, 4)


def test_redis_lets_a_full_host_go_on_as_soon_as_a_request_is_over(worker):
    frontier = worker(per_host=2)
    frontier.offer(some(range(1, 9)))
    first = frontier.claim(5)

    assert 0 < frontier.exchange(5).wait <= 0.25
    result = frontier.exchange(5, landed=first[:1])

    assert (numbers(first), numbers(result.claims)) == ([1, 2], [3])


def test_redis_serves_other_hosts_while_one_is_full_or_paused(worker):
    frontier = worker(per_host=1)
    frontier.offer([*some(range(1, 50)), *some([60], B), *some([70], "c.example")])
    frontier.hosts.pause("c.example", 60)

    assert sorted(claim.host for claim in frontier.claim(10)) == [A, B]


def test_redis_pauses_a_host_for_every_worker_and_the_longer_pause_stays(worker):
    one, two = worker(), worker("blog")
    for frontier in (one, two):
        frontier.offer(some([1, 2]))
    one.hosts.pause(A, 3)
    two.hosts.pause(A, 0.5)

    assert one.claim(1) == two.claim(1) == []
    assert 0.5 < one.exchange(1).wait <= 3
    time.sleep(3.1)
    assert numbers(one.claim(1)) == numbers(two.claim(1)) == [1]


def test_redis_probes_a_parked_host_with_one_request_at_a_time(worker):
    one, two = worker(), worker()
    one.offer(some(range(1, 9)))
    assert one.hosts.park(A, 2) == 1
    assert two.hosts.park(A, 60) == 1  # what fails while it is parked was asked before
    assert one.claim(3) == []
    time.sleep(2.1)

    probe = one.claim(3)
    assert [(claim.no, claim.parked) for claim in probe] == [(1, True)]
    assert two.claim(3) == []
    assert two.hosts.park(A, 0.05) == 2
    one.ack(probe)
    time.sleep(0.1)
    assert numbers(two.claim(3)) == [2]
    two.hosts.unpark(A)
    assert [(claim.no, claim.parked) for claim in one.claim(2)] == [(3, False), (4, False)]
    assert one.hosts.park(A, 60) == 1


def test_redis_hands_out_what_waits_for_a_host_that_is_down_without_limits(client, worker):
    frontier, other = worker(per_host=1, delay=60), worker("blog", per_host=1, delay=60)
    for each in (frontier, other):
        each.offer(some(range(1, 6)))
    frontier.claim(1)
    frontier.hosts.give_up(A)
    asked = client.hget("domain:last_crawl", A)

    claims = frontier.claim(9)

    assert [(claim.no, claim.down) for claim in claims] == [(no, True) for no in (2, 3, 4, 5)]
    assert other.claim(9) == []
    assert client.hget("domain:last_crawl", A) == asked


# robots.txt: under whose claim it is read, and what may be asked before


@pytest.fixture
def readers(worker):
    """Two workers of a run that reads robots.txt, with eight numbers of two hosts."""
    one, two = worker(robots=True), worker(robots=True)
    one.offer([*some(range(1, 6)), *some(range(11, 14), B)])
    return one, two


def numbered(claims):
    return [(claim.no, claim.first) for claim in claims]


@pytest.mark.covers("R2-43", "R2-45")
def test_redis_hands_out_one_number_of_a_host_until_its_robots_txt_is_read(readers):
    one, two = readers
    assert sorted(numbered(one.claim(9))) == [(1, True), (11, True)]
    assert two.claim(9) == []

    one.hosts.robots_read(A, 0)
    assert numbered(two.claim(9)) == [(2, False), (3, False), (4, False), (5, False)]


def test_redis_asks_a_host_for_pages_when_the_delay_after_robots_txt_is_over(readers):
    one, two = readers
    first = next(claim for claim in one.claim(9) if claim.host == A)
    one.hosts.robots_read(B, 60)
    time.sleep(0.2)
    one.hosts.robots_read(A, 2)
    one.release([first])

    assert two.claim(9) == []
    assert 0.2 < two.exchange(9).wait <= 2, "robots.txt was a request"
    time.sleep(2.1)
    assert numbered(two.claim(9)) == [(1, False)]


def test_redis_is_told_a_delay_by_who_knew_it_without_a_request(client, readers):
    one, two = readers
    one.claim(9)
    asked = client.hget("domain:last_crawl", A)
    one.hosts.robots_read(A, 0, asked=False)

    assert client.hget("domain:last_crawl", A) == asked
    assert len(two.claim(2)) == 2


@pytest.mark.parametrize("how", ["landed", "done", "released", "expired"])
def test_redis_waits_for_nobody_who_will_not_read_robots_txt(client, readers, how):
    """Only where a page was asked without it, further ones need not wait for another first one."""
    one, two = readers
    first = [claim for claim in one.claim(9) if claim.host == A]
    if how == "expired":
        expire(client, *first)
        two.reap()
    else:
        one.exchange(**{how: first})

    firsts = {"landed": [(2, False), (3, False)], "done": [(2, True)]}
    assert numbered(two.claim(2)) == firsts.get(how, [(1, True)])


def test_redis_lets_each_run_read_robots_txt_for_itself(worker, readers):
    one, _ = readers
    one.claim(9)
    other = worker("blog", robots=True)
    other.offer(some([1, 2]))

    assert numbered(other.claim(9)) == [(1, True)]


def test_redis_keeps_the_longest_delay_of_several_ports_in_one_run(client, worker):
    one, later = worker(robots=True), worker(run=8, robots=True)
    for delay in (2, 0.5):
        one.hosts.robots_read(A, delay)
    assert client.hget("domain:meta:a.example", "crawl_delay") == "2000"

    later.hosts.robots_read(A, 0.5)
    assert client.hget("domain:meta:a.example", "crawl_delay") == "500"


def test_redis_that_lost_who_read_robots_txt_is_told_again(client, readers):
    one, two = readers
    one.claim(9)
    one.hosts.robots_read(A, 0)
    client.flushdb()
    assert one.recover(settle=0.0)
    one.refill(some([2, 3]))

    assert numbered(two.claim(9) if two.recover() is False else []) == [(2, True)]


def test_redis_whose_clock_was_set_back_does_not_stop_a_host(client, worker):
    """A request with a time in the future counts as one of just now."""
    frontier = worker(delay=2)
    frontier.offer(some([1]))
    client.hset("domain:last_crawl", A, time.time() + 3_600)

    assert frontier.claim(1) == []
    assert frontier.exchange(1).wait <= 2
    time.sleep(2.1)
    assert numbers(frontier.claim(1)) == [1]


# Ending a claim


def test_redis_is_idle_when_nothing_waits_and_nothing_is_held(worker):
    frontier = worker()
    assert frontier.idle()
    frontier.offer(some([1, 2]))
    assert (frontier.idle(), frontier.pending()) == (False, 2)
    claims = frontier.claim(2)
    assert (frontier.idle(), frontier.pending()) == (False, 2)
    frontier.land(claims)
    assert (frontier.idle(), frontier.pending()) == (False, 2)

    assert frontier.ack(claims) == []

    assert (frontier.idle(), frontier.pending()) == (True, 0)


def test_redis_gives_a_released_number_its_old_place_back(worker):
    one, two = worker(), worker()
    one.offer(some([1, 2, 3]))
    claims = one.claim(2)

    assert one.release(claims) == []
    assert one.ack(claims) == claims
    assert numbers(two.claim(3)) == [1, 2, 3]


def test_redis_gives_back_what_the_dead_held_once(client, worker):
    dead, one, two = worker(), worker(), worker()
    dead.offer(some(range(1, 6)))
    expire(client, *dead.claim(3))

    assert numbers([*one.claim(2), *two.claim(9)]) == [1, 2, 3, 4, 5]
    assert one.reap() == two.reap() == 0


def test_redis_reaps_by_itself_and_on_demand(client, worker):
    dead, alive = worker(), worker()
    dead.offer(some([1, 2, 3]))
    one, two, three = dead.claim(3)
    expire(client, one)
    assert alive.reap() == 1
    expire(client, two)
    assert alive.exchange().reaped == 1
    expire(client, three)
    assert alive.census()[:3] == (3, 0, 2)


def test_redis_reports_a_late_ack_as_stale_and_changes_nothing(client, worker):
    late, other = worker(), worker()
    late.offer(some([1]))
    claims = late.claim(1)
    expire(client, *claims)
    [again] = other.claim(1)

    assert late.ack(claims) == claims
    assert late.land(claims) == claims
    assert late.release(claims) == claims
    assert other.census()[:2] == (0, 1)
    assert other.ack([again]) == []


def test_redis_tells_two_claims_of_one_worker_apart(client, worker):
    frontier = worker()
    frontier.offer(some([1]))
    first = frontier.claim(1)
    expire(client, *first)
    second = frontier.claim(1)

    assert frontier.ack(first) == first
    assert frontier.ack(second) == []


def test_redis_keeps_the_claims_of_a_worker_that_is_heard_of(client, worker):
    frontier, other = worker(lease=3, per_host=2), worker(lease=3, per_host=2)
    frontier.offer(some([1, 2, 3]))
    claims = frontier.claim(2)
    for _ in range(3):
        time.sleep(1.3)
        assert frontier.renew() == []
        assert other.claim(1) == []
    time.sleep(3.1)

    assert numbers(other.claim(3)) == [1, 2]
    assert sorted(numbers(frontier.renew())) == [1, 2] == numbers(claims)
    assert frontier.renew() == []


def test_redis_frees_the_places_of_the_dead_of_other_runs(worker):
    dead, alive = worker(lease=2, per_host=1), worker("blog", per_host=1)
    for frontier in (dead, alive):
        frontier.offer(some([1]))
    assert dead.claim(1)
    assert alive.claim(1) == []
    time.sleep(2.1)

    assert numbers(alive.claim(1)) == [1]


def test_redis_counts_the_workers_that_were_heard_of_within_the_lease(worker):
    one, two = worker(lease=2), worker(lease=2)
    assert one.census().workers == 2
    time.sleep(2.1)
    assert one.census().workers == 0
    two.renew()
    assert one.census().workers == 1
    one.exchange()
    assert one.census().workers == 2


def test_redis_worker_is_heard_of_by_its_heartbeat_until_that_stops(client, worker):
    frontier, other = worker(lease=3), worker()
    frontier.offer(some([1]))
    claims, gone = frontier.claim(1), []
    heartbeat = ClaimHeartbeat(frontier, gone.extend, 0.1)
    heartbeat.start()
    time.sleep(3.5)
    assert other.claim(1) == []

    def is_told():
        expire(client, *claims)  # again, where a beat came before the other worker looked
        other.reap()
        return gone

    wait_until(is_told, "the heartbeat reports the claim")
    heartbeat.stop()
    assert gone == claims

    last = frontier.claim(1)
    time.sleep(3.1)
    assert numbers(other.claim(1)) == numbers(last) == [1]


class Beats:
    """A frontier whose heartbeats are counted by how they ended."""

    def __init__(self, frontier):
        self.frontier = frontier
        self.counts = Counter()

    def renew(self):
        try:
            gone = self.frontier.renew()
        except FrontierError:
            self.counts["failed"] += 1
            raise
        self.counts["done"] += 1
        return gone

    def more_of(self, word):
        """Wait until three more have ended so."""
        wanted = self.counts[word] + 3
        wait_until(lambda: self.counts[word] >= wanted, f"three heartbeats are {word}")


def test_redis_that_is_away_is_told_once_by_the_heartbeat(caplog):
    with redis_server() as server, connect_redis(server.url) as client:
        frontier = Stepped(client, "docs", 7, per_host=1, lease=60)
        frontier.begin()
        frontier.offer(some([1]))
        [claim] = frontier.claim(1)
        beats = Beats(frontier)
        heartbeat = ClaimHeartbeat(beats, lambda gone: None, 0.05)
        heartbeat.start()
        for _ in range(2):
            server.kill()
            beats.more_of("failed")
            server.start()
            frontier.recover(settle=0)
            frontier.refill(some([1]))
            beats.more_of("done")
        heartbeat.stop()

        assert [record.levelname for record in caplog.records] == ["WARNING"] * 2
        assert "start it, or correct REDIS_URL; until then, other workers" in caplog.text
        assert frontier.ack([claim]) == []


# Tidying up


def test_redis_removes_a_run_and_nothing_else(client, worker):
    old, this, other = worker(run=6), worker(run=7), worker("docs@2.1", run=6)
    for frontier in (old, this, other):
        frontier.offer(some([1]))
    client.set("docs:of-another-program", "kept")
    this.remove_older()

    with pytest.raises(FrontierLostError):
        old.claim(1)
    assert this.census()[:2] == other.census()[:2] == (1, 0)
    this.retire()
    assert not [*client.scan_iter("docs:7:*")]
    assert client.get("docs:of-another-program") == "kept"
    assert numbers(other.claim(1)) == [1]
