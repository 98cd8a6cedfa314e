"""A frontier whose exchanges are made step by step, as tests want them."""

from collections.abc import Iterable

from smartcrawl.run.shared.redis_frontier import RedisFrontier
from smartcrawl.run.shared.scripts import FrontierClaim, FrontierNumber


class Stepped(RedisFrontier):
    """`exchange` in parts, and questions that only tests have; a worker has no use for them."""

    def claim(self, want: int) -> list[FrontierClaim]:
        """Claim up to `want` numbers."""
        return self.exchange(want).claims

    def ack(self, claims: Iterable[FrontierClaim]) -> list[FrontierClaim]:
        """Report outcomes as committed; return the claims that this worker had lost."""
        return self.exchange(done=claims).stale

    def land(self, claims: Iterable[FrontierClaim]) -> list[FrontierClaim]:
        """Report requests as over; return the claims that this worker had lost."""
        return self.exchange(landed=claims).stale

    def release(self, claims: Iterable[FrontierClaim]) -> list[FrontierClaim]:
        """Give claims back unvisited; return those that this worker had lost."""
        return self.exchange(released=claims).stale

    def offer(self, found: Iterable[FrontierNumber]) -> tuple[list[int], list[int]]:
        """Offer numbers; return those that are new, and those that are shallower now."""
        result = self.exchange(found=found)
        return result.news, result.shallower

    def reap(self) -> int:
        """Let the numbers of dead workers wait again; return how many those were."""
        return self.exchange().reaped

    def pending(self) -> int:
        """Count the numbers whose visit is not over."""
        census = self.census()
        return census.waiting + census.claimed

    def idle(self) -> bool:
        """Whether nothing waits and nothing is claimed."""
        return not self.pending()
