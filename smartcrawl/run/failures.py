"""Requests without a whole answer: their messages, and the Visits that end with them."""

from __future__ import annotations

import logging
from typing import Final

from smartcrawl.model.exceptions import HostBlockedError, HostDownError
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.model.program import program_name
from smartcrawl.model.signatures import unsigned_url
from smartcrawl.model.urls import url_host_key
from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.run.hosts.gate import HostGate, Turn
from smartcrawl.run.run import Run

logger = logging.getLogger(__name__)

#: Faults that a retry in the same run may not meet again (M-32).
PASSING_FAULTS: Final = frozenset(
    {Fault.NETWORK, Fault.DNS, Fault.REFUSED, Fault.TIME_OUT, Fault.RESET, Fault.TRUNCATED}
)
#: Messages, with the remedy where there is one.
MESSAGES: Final = {
    Fault.BAD_RESPONSE: "the answer is not HTTP: does the port belong to a web server?",
    Fault.HEADERS_TOO_LARGE: "the headers of the answer are larger than 64 KiB",
    Fault.TOO_SLOW: "the body came more slowly than MIN_DOWNLOAD_RATE",
    Fault.DNS: "its host name cannot be resolved: check the spelling and the name server",
    Fault.REFUSED: "connection refused: is the server running, and is the port right?",
    Fault.TIME_OUT: "no whole answer within DOWNLOAD_TIMEOUT",
    Fault.TRUNCATED: "the body ended before its announced length",
    Fault.TOO_LARGE: "the body is larger than DOWNLOAD_MAXSIZE",
    Fault.TLS: "no secure connection: does the port speak TLS, or should the address begin with http://?",
    Fault.RESET: "the connection broke before a whole answer came",
}
_PLAIN: Final = frozenset({Fault.BAD_RESPONSE, Fault.HEADERS_TOO_LARGE, Fault.TOO_SLOW})


def failure_message(fault: Fault, detail: str) -> str:
    """Return the message of a fault; ``detail``: what the error says of it."""
    message = MESSAGES.get(fault)
    if message is None or fault in _PLAIN:
        return (message or detail)[:1024]
    return f"{message} ({detail})"[:1024]


def failed_visit(run: Run | None, attempt: VisitAttempt, url: str, why: tuple[Fault, str]) -> Visit:
    """Return the Visit of a page whose last request, for ``url``, got no whole answer.

    ``why``: the fault and its message. ``run`` is None for a spider without one.
    """
    visit = attempt.visit(unsigned_url(url))
    visit.fail(*why)
    return visit if run is None else run.detours.counting(visit)


def excluded_visit(run: Run | None, attempt: VisitAttempt, url: str, why: str) -> Visit:
    """Return the Visit of a page that may not be asked, with the reason."""
    visit = attempt.visit(unsigned_url(url))
    visit.outcome, visit.error = Outcome.EXCLUDED, why
    return visit if run is None else run.detours.counting(visit)


def host_refusal(
    run: Run, gate: HostGate, url: str, slot: str
) -> HostBlockedError | HostDownError | None:
    """Return why a host is not asked, as the operator blocked it or it is down; None: it is asked.

    ``slot``: its host without a port.
    """
    blocked = run.blocked_hosts
    if blocked and (host := url_host_key(url)) in blocked:
        again = f"{program_name()} hosts --unblock {host}"
        return HostBlockedError(f"{host} is blocked; to ask it again: {again}")
    if gate.down and gate.is_down(slot):
        return HostDownError(f"not asked: {slot} does not answer, it was given up for this run")
    return None


def note_host_failure(
    run: Run, slot: str, why: tuple[Fault, str], now: float, *, ends: bool
) -> None:
    """Notify the gate of a page request without a whole answer, and log the consequence.

    ``why``: the fault and its message. ``ends``: whether the visit ends with it. ``now`` is
    monotonic seconds.
    """
    fault, message = why
    turn = run.gate.failed(slot, fault, now, ends=ends)
    if turn is Turn.PARKED:
        seconds = run.options.host_park_seconds
        logger.warning("%s does not answer: left alone for %d s (%s)", slot, seconds, message)
    elif turn is Turn.DOWN:
        run.incomplete(f"host_down: {slot}")
        logger.warning("%s does not answer: given up for this run (%s)", slot, message)
