"""Redirects within one visit: to another spelling, and to where a cookie is set and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, Visit, VisitAttempt, VisitCookies
from smartcrawl.model.urls import normalize_url
from smartcrawl.rules.absence import TEMPORARY
from smartcrawl.rules.cookies import cookies_after_answer, is_same_origin, merged_cookie_header
from smartcrawl.rules.http import MAX_REDIRECTS
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.rules.moves import login_wall
from smartcrawl.run.seeds import Seeds

MOST_IN_VAIN: Final = 5  #: detours in a row that did not lead back, to one place in one run


class Redirect(NamedTuple):
    """One answer with a redirect, within a visit."""

    asked: str  #: the address that answered
    target: str  #: absolute
    set_cookies: tuple[str, ...] = ()  #: Set-Cookie, one for each header line
    sent: str = ""  #: the Cookie of the request
    reloads: bool = False  #: whether it is a refresh of a page, which counts if it stays the same


class Detours:
    """Chooses the next request of a visit after a redirect, and the answer that counts.

    A visit goes on where the target is another spelling of the same address, or that address
    itself after a cookie was set. It also goes on over other addresses of the same origin, in
    scope, after a temporary redirect that set a cookie: these may lead back. Each address is asked
    at most once more, and only with another Cookie. Cookies go back to their origin alone, and end
    with the visit.

    Source: RFC 6265; docs/adr/0106.
    """

    def __init__(
        self,
        options: Options,
        seeds: Seeds,
        *,
        forces: Callable[[Page], bool],
        may_follow: Callable[[int, int], bool],
    ) -> None:
        """``forces``: whether a page is to be indexed anew.

        ``may_follow`` says of a page, and the redirects of its visit, whether one more is followed.
        """
        self._may_follow = may_follow
        self._options = options
        self._seeds = seeds
        self._forces = forces
        self._in_vain: Counter[str] = Counter()  #: by target without its query

    def next_cookies(self, visit: Visit, redirect: Redirect, now: int) -> str | None:
        """Return the Cookie to ask the target with ("": none), as the next request of the visit.

        None: the redirect is the outcome of the answer, or a fault that is noted on ``visit``.
        ``now`` is Unix seconds.
        """
        attempt, target = visit.attempt, redirect.target
        assert attempt is not None
        trail, (most, is_exact) = attempt.trail, self._options.redirects
        cookies = self._received(attempt, redirect, now)
        own = self._is_same(target, trail[0])
        visit.answer.location = target
        if not own and not self._may_lead_back(visit, target, cookies):
            return None
        header = redirect.sent
        if cookies is not None:
            header = merged_cookie_header(cookies.given, cookies.received, target)
        is_circle = len(trail) > most or self._repeats(attempt, target, header)
        stops = is_exact and not self._may_follow(visit.page.no, visit.redirects)
        if is_circle and (most >= MAX_REDIRECTS or not stops):
            if not redirect.reloads and (own or (cookies is not None and cookies.led_back)):
                self._fail(visit, target, with_cookies=bool(cookies and cookies.received))
            return None
        if stops:  # as the operator wants it
            return None
        if cookies is not None:
            self._go_on(visit, cookies, own=own)
            cookies.sent[target] = header
        if trail[-1] == target:
            trail.append(target)
        if own:
            visit.answer.location = None
        return header

    def counting(self, visit: Visit) -> Visit:
        """Return the visit that counts: that of the redirect, if a detour did not lead back.

        A page with stored content is not judged by a redirect whose target did not answer.
        """
        attempt = visit.attempt
        first = attempt.away if attempt is not None else None
        if attempt is None or first is None or visit.http_status == Fault.REDIRECT_LOOP:
            return visit
        attempt.away = None
        if attempt.cookies is not None:
            del attempt.trail[attempt.cookies.left_at :]  # it ends where the redirect began
        self._in_vain[login_wall(first.answer.location or "")] += 1
        held = visit.page.state.standing is Standing.HELD
        if held and visit.outcome in (Outcome.TRANSIENT, Outcome.UNREACHABLE):
            visit.error = visit.error or f"HTTP status {visit.http_status}"
            visit.error = f"redirected to {first.answer.location}: {visit.error}"[:1024]
            return visit
        return first

    def _received(self, attempt: VisitAttempt, redirect: Redirect, now: int) -> VisitCookies | None:
        """Return the cookies of the visit after an answer; None: no server set any."""
        if attempt.cookies is None:
            if not redirect.set_cookies:
                return None
            attempt.cookies = VisitCookies(given=redirect.sent)
        cookies = attempt.cookies
        cookies.received = cookies_after_answer(
            cookies.received, redirect.set_cookies, redirect.asked, now
        )
        return cookies

    def _may_lead_back(self, visit: Visit, target: str, cookies: VisitCookies | None) -> bool:
        """Whether a redirect to another address may be one to set or to check a cookie.

        One that a run found to be a plain redirect is not tried again, so that refreshes need no
        more requests.
        """
        attempt, page = visit.attempt, visit.page
        assert attempt is not None
        if cookies is None or not cookies.received:
            return False
        if not (is_same_origin(attempt.trail[0], target) and self._seeds.scope.allows(target)):
            return False
        if attempt.away is not None:
            return True
        plain = (
            page.record.moved
            and page.state.standing is not Standing.HELD
            and page.state.http_status != Fault.REDIRECT_LOOP
            and not self._forces(page)
        )
        in_vain = self._in_vain[login_wall(target)] >= MOST_IN_VAIN
        return visit.http_status in TEMPORARY and not (plain or in_vain)

    def _repeats(self, attempt: VisitAttempt, target: str, header: str) -> bool:
        """Whether the visit asked an address before, and has no other Cookie for it."""
        asked, cookies = attempt.trail.count(target), attempt.cookies
        if asked != 1 or cookies is None:
            return asked > 0
        return header == cookies.sent.get(target, cookies.given)

    def _go_on(self, visit: Visit, cookies: VisitCookies, *, own: bool) -> None:
        attempt = visit.attempt
        assert attempt is not None
        if not own and attempt.away is None:
            attempt.away, cookies.left_at = visit, len(attempt.trail)
        elif not own:
            return
        elif attempt.away is not None:
            cookies.led_back = True
            self._in_vain.pop(login_wall(attempt.away.answer.location or ""), None)
            attempt.away = None

    def _is_same(self, url: str, other: str) -> bool:
        trackers = self._options.trackers
        return normalize_url(url, trackers) == normalize_url(other, trackers)

    @staticmethod
    def _fail(visit: Visit, target: str, *, with_cookies: bool) -> None:
        visit.answer.location = None
        tried = ", although the cookies that it set were sent back" if with_cookies else ""
        visit.fail(Fault.REDIRECT_LOOP, f"redirected to itself in a circle{tried}: {target}")
