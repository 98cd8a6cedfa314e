"""Redirects within one visit: to another spelling, and to where a cookie is set and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from smartcrawl.model.options import Options
from smartcrawl.model.pages import Page, Visit, VisitAttempt, VisitCookies
from smartcrawl.model.urls import normalize_url
from smartcrawl.rules.absence import TEMPORARY
from smartcrawl.rules.cookies import (
    cookies_after_answer,
    is_same_origin,
    merged_cookie_header,
    names_way_back,
)
from smartcrawl.rules.http import MAX_REDIRECTS
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.rules.moves import login_wall
from smartcrawl.rules.trust import LED_BACK
from smartcrawl.run.seeds import Seeds

#: Detours in a row that did not lead back, to one place in one run; without a cookie, of one host.
MOST_IN_VAIN: Final = 5
MOST_BARE: Final = 2  #: other addresses of a way that are asked before one sets a cookie


class Redirect(NamedTuple):
    """One answer with a redirect, within a visit."""

    asked: str  #: the address that answered
    target: str  #: absolute
    status: int  #: HTTP status; that of a refresh is REFRESHED
    set_cookies: tuple[str, ...] = ()  #: Set-Cookie, one for each header line
    sent: str = ""  #: the Cookie of the request
    reloads: bool = False  #: whether it is a refresh of a page, which counts if it stays the same


class Detours:
    """Chooses the next request of a visit after a redirect, and the answer that counts.

    A visit goes on where the target is another spelling of the same address, or that address
    itself after a cookie was set. It also goes on over other addresses of the same origin, in
    scope, after a temporary redirect: these may set a cookie and lead back. Each address is asked
    at most once more, and only with another Cookie. Cookies go back to their origin alone, and end
    with the visit.

    Source: RFC 6265; ADR 106.
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
        self._bare_in_vain: Counter[str] = Counter()  #: those that began without a cookie, by host

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
        if not own and not self._may_lead_back(visit, redirect, cookies):
            return None
        header = redirect.sent
        if cookies.received:
            header = merged_cookie_header(cookies.given, cookies.received, target)
        is_circle = len(trail) > most or self._repeats(attempt, target, header)
        stops = is_exact and not self._may_follow(visit.page.no, visit.redirects)
        if is_circle and (most >= MAX_REDIRECTS or not stops):
            # The settlement judges a circle of other addresses without cookies.
            may_fail = own and (attempt.away is None or cookies.received)
            if not redirect.reloads and (may_fail or cookies.led_back):
                self._fail(visit, target, with_cookies=bool(cookies.received))
            return None
        if stops:  # as the operator wants it
            return None
        self._go_on(visit, cookies, own=own)
        cookies.sent[target] = header
        if trail[-1] == target:
            trail.append(target)
        if own:
            visit.answer.location = None
        return header

    def counting(self, visit: Visit) -> Visit:
        """Return the visit that counts: that of the redirect, if a detour did not lead back.

        A page with stored content is not judged by a redirect whose target did not answer, if that
        came with a cookie.
        """
        attempt = visit.attempt
        first = attempt.away if attempt is not None else None
        if attempt is None or first is None or visit.http_status == Fault.REDIRECT_LOOP:
            return visit
        attempt.away, cookies = None, attempt.cookies
        assert cookies is not None, "the visit went on with them"
        del attempt.trail[cookies.left_at :]  # it ends where the redirect began
        self._in_vain[login_wall(first.answer.location or "")] += 1
        self._bare_in_vain[visit.page.host] += cookies.left_bare
        held = visit.page.state.standing is Standing.HELD
        if (
            held
            and not cookies.left_bare
            and visit.outcome in (Outcome.TRANSIENT, Outcome.UNREACHABLE)
        ):
            visit.error = visit.error or f"HTTP status {visit.http_status}"
            visit.error = f"redirected to {first.answer.location}: {visit.error}"[:1024]
            return visit
        first.respelled, first.postponed = None, False
        return first

    @staticmethod
    def _received(attempt: VisitAttempt, redirect: Redirect, now: int) -> VisitCookies:
        """Return the cookies of the visit after an answer."""
        if attempt.cookies is None:
            attempt.cookies = VisitCookies(given=redirect.sent)
        cookies = attempt.cookies
        if redirect.set_cookies:
            cookies.received = cookies_after_answer(
                cookies.received, redirect.set_cookies, redirect.asked, now
            )
        return cookies

    def _may_lead_back(self, visit: Visit, redirect: Redirect, cookies: VisitCookies) -> bool:
        """Whether a redirect to another address may be one to set or to check a cookie.

        One that a run found to be a plain redirect is not tried again, so that refreshes need no
        more requests. Without a cookie there must be a sign that the way leads back: it names the
        page, led back at the last visit, or ended in a circle.
        """
        attempt, page, target = visit.attempt, visit.page, redirect.target
        assert attempt is not None
        if not (is_same_origin(attempt.trail[0], target) and self._seeds.scope.allows(target)):
            return False
        if attempt.away is not None:
            return bool(cookies.received) or len(attempt.trail) - cookies.left_at < MOST_BARE
        is_bare, is_held = not cookies.received, page.state.standing is Standing.HELD
        plain = (
            page.record.moved
            and (is_bare or not is_held)
            and page.state.http_status != Fault.REDIRECT_LOOP
            and not self._forces(page)
        )
        in_vain = self._in_vain[login_wall(target)] >= MOST_IN_VAIN
        if redirect.status not in TEMPORARY or plain or in_vain:
            return False
        if not is_bare:
            return True
        if page.kind or self._bare_in_vain[page.host] >= MOST_IN_VAIN:
            return False
        led_back = page.state.etag_marks & LED_BACK > 0
        circled = page.state.http_status == Fault.REDIRECT_LOOP
        return led_back or circled or names_way_back(target, attempt.trail[0])

    @staticmethod
    def _repeats(attempt: VisitAttempt, target: str, header: str) -> bool:
        """Whether the visit asked an address before, and has no other Cookie for it."""
        asked, cookies = attempt.trail.count(target), attempt.cookies
        if asked != 1 or cookies is None or not cookies.received:
            return asked > 0
        return header == cookies.sent.get(target, cookies.given)

    def _go_on(self, visit: Visit, cookies: VisitCookies, *, own: bool) -> None:
        attempt = visit.attempt
        assert attempt is not None
        if not own and attempt.away is None:
            attempt.away, cookies.left_at = visit, len(attempt.trail)
            cookies.left_bare = not cookies.received
        elif own and attempt.away is not None:
            cookies.led_back = True
            self._in_vain.pop(login_wall(attempt.away.answer.location or ""), None)
            self._bare_in_vain.pop(visit.page.host, None)
            attempt.away = None

    def _is_same(self, url: str, other: str) -> bool:
        trackers = self._options.trackers
        return normalize_url(url, trackers) == normalize_url(other, trackers)

    @staticmethod
    def _fail(visit: Visit, target: str, *, with_cookies: bool) -> None:
        visit.answer.location = None
        tried = ", although its cookies were sent back" if with_cookies else ""
        visit.fail(Fault.REDIRECT_LOOP, f"redirects in a circle{tried}: {target}")
