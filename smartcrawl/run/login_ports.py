"""What the parts of a run know of its login; ``session.py`` has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.sources.client_certificates import ClientCertificate


class LoginRequest(NamedTuple):
    """A request of the login itself."""

    url: str
    method: str = "GET"
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Settled(NamedTuple):
    """What became of the answers that waited."""

    taken: list[Visit]  #: they count
    again: list[Visit]  #: their pages are asked again
    dropped: list[Visit]  #: their pages stay pending


class RunLogin(Protocol):
    """The login of one process in a run."""

    number: int  #: of the login; 0: there was none yet
    over: str | None  #: why nothing more is asked
    when_over: Callable[[str], None]
    #: Called with the first answer that waits, and with each one once the proof hurries.
    when_waiting: Callable[[], None]
    pause: Callable[[float], Awaitable[None]]
    is_proof_scripted: bool  #: whether the proof page shows its proof in a browser alone

    @property
    def certificate(self) -> ClientCertificate | None:
        """The certificate that connections to the origins of the login show; None: no one."""

    def ask_with(self, ask: Callable[[LoginRequest], Awaitable[Any]]) -> None:
        """Send the requests of the login itself by ``ask``, which returns an Answer."""

    def show_with(self, show: Callable[[Any], Awaitable[Any]]) -> None:
        """Look for the proof in the Answer that ``show`` makes of a page's Answer."""

    def concerns(self, url: str) -> bool:
        """Whether an address gets the credentials."""

    def logs_out(self, url: str) -> bool:
        """Whether a request for an address would end the session."""

    def is_logout(self, url: str, anchor: str) -> bool:
        """Whether a link is not to be followed, because it logs out."""

    def dress(self, attempt: VisitAttempt, url: str, method: str = "GET") -> Mapping[str, str]:
        """Return the credentials for a request of a visit; none for other origins."""

    def credentials(self, url: str, method: str = "GET") -> Mapping[str, str]:
        """Return the headers that log a request in; none for other origins."""

    def judge(self, attempt: VisitAttempt, answer: Any) -> None:
        """Note whether an Answer to a request of a visit shows the proof."""

    def shows(self, answer: Any) -> bool | None:
        """Whether an Answer shows the proof; None: it cannot, or the login has none."""

    def admits(self, visit: Visit) -> bool:
        """Whether a visit counts; otherwise it waits for the proof."""

    @property
    def is_ready(self) -> bool:
        """Whether pages may be asked with the credentials that are at hand."""

    @property
    def waits(self) -> bool:
        """Whether answers wait for the proof."""

    @property
    def hurries(self) -> bool:
        """Whether so many answers wait that the proof page is to be asked at once."""

    @property
    def is_full(self) -> bool:
        """Whether no page is to be asked before the answers that wait are settled."""

    async def ready(self) -> bool:
        """Log in before the first request, and renew what ends; False: nothing is to be asked."""

    async def lasted(self, number: int) -> bool:
        """Whether what came since a login, by its number, is none of a lost session's."""

    async def settle(self) -> Settled:
        """Ask the proof page, and decide about the answers that waited before."""
