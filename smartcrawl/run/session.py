"""The login of a run: its credentials, the answers that wait for its proof, and its end.

A session that ended can forge any answer that does not show the proof: 304, 403, 404, redirects,
teasers. Such answers wait until the proof page, asked after them, still shows it (ADR 146).
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from secrets import token_hex
from typing import Final
from urllib.parse import urlencode, urljoin, urlsplit

import re2

from smartcrawl.extract.login_pages import (
    LoginForm,
    find_login_form,
    is_login_page_body,
    shows_login_proof,
)
from smartcrawl.model.exceptions import RenderingError, RunHaltedError
from smartcrawl.model.pages import Visit, VisitAttempt
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.secrets import Secret
from smartcrawl.model.urls import request_url, url_origin
from smartcrawl.registry.runs.logins import LoginRows, RefusedLogin
from smartcrawl.rules.cookies import Cookie, cookies_after_answer, session_cookie_header
from smartcrawl.rules.http import MAX_REDIRECTS, REDIRECTS
from smartcrawl.rules.login import (
    MOST_ENDS,
    DigestChallenge,
    Proof,
    cookies_of_file,
    digest_authorization,
    digest_challenge,
    is_logout_address,
    judge_proof,
    lacks_proof,
    says_log_out,
    waits_for_proof,
)
from smartcrawl.rules.model import Fault
from smartcrawl.rules.oauth import (
    GrantedToken,
    client_authorization,
    client_grant_body,
    granted_token,
    token_refusal,
)
from smartcrawl.run.login_ports import LoginRequest, Settled
from smartcrawl.run.received import Answer, AnswerHeaders
from smartcrawl.sources.client_certificates import ClientCertificate
from smartcrawl.sources.site import SiteSource

logger = logging.getLogger(__name__)

MOST_WAITING: Final = 2_000  #: answers; then the proof page is asked
MOST_BYTES: Final = 16 * 1024 * 1024  #: bytes of their bodies; likewise
LONGEST_WAIT: Final = 10.0  #: seconds after which the proof page is asked anyway
#: As many, and four times as many bytes, with which no page is asked before the proof is there.
_FULL: Final = 2 * MOST_WAITING
_FULL_BYTES: Final = 4 * MOST_BYTES
_TRIES: Final = 3  #: requests for the proof page without an answer that says anything
_BETWEEN: Final = 2.0  #: seconds between them
_FORGOTTEN: Final = 3_600  #: seconds after which the end of a session does not count any more
_LOOK: Final = 0.5  #: seconds between two looks at the attempt of another worker
_FORM: Final = "application/x-www-form-urlencoded"
_BOUND: Final = frozenset({"ntlm", "negotiate"})
_RENEWABLE: Final = frozenset({"form", "oauth2_client"})  #: kinds that can log in once more
_EXPIRED: Final = -1  #: the number of no login: its answer came after the end of its token


#: Sends a request of the login, without retries; any error means that there is no answer.
AskForLogin = Callable[[LoginRequest], Awaitable[Answer]]


class _RefusedError(Exception):
    """A login does not count, for the reason in its text."""


class _UnknownError(Exception):
    """No answer says whether a login counts, for the reason in its text."""


class LoginSession:
    """The login of one process in a run; what it has is in memory alone."""

    def __init__(
        self,
        source: SiteSource,
        secrets: Mapping[str, Secret],
        rows: LoginRows,
    ) -> None:
        assert source.auth is not None, "it has a login"
        self._auth, self._secrets, self._rows = source.auth, secrets, rows
        self._origins = frozenset(source.login_origins)
        self._beginnings = tuple(f"{origin}/" for origin in self._origins)  #: of most addresses
        self._seeds = [seed for seed in source.seeds if url_origin(seed) in self._origins]
        self._name = source.name
        self._logouts = [re2.compile(pattern) for pattern in self._auth.logout_patterns]
        self._static = self._static_credentials()
        self._cookies: dict[str, str] = {}  #: of the operator's file, by host
        self._jar: tuple[Cookie, ...] = ()
        self._challenge: DigestChallenge | None = None  #: None: the server asked for no digest yet
        self._count = 0  #: of requests that met it
        self._token: GrantedToken | None = None  #: of OAuth
        self._is_fruitful = True  #: whether an answer counted since the last new challenge
        self._proof_page: str | None = None
        self._waiting: list[Visit] = []
        self._bytes = 0
        self._ended: list[float] = []  #: times of ends that count
        self._lock = asyncio.Lock()
        self._ask: AskForLogin | None = None
        self._show: Callable[[Answer], Awaitable[Answer]] | None = None
        self._hurried = False  #: whether the answers that wait are to be settled at once
        self._unshown = ""  #: why no browser showed the proof page
        self.is_proof_scripted = False  #: whether it shows its proof in a browser alone
        self.number = 0  #: of the login; 0: there was none yet
        self.over: str | None = None  #: why nothing more is asked
        self.pause: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.when_over: Callable[[str], None] = lambda reason: None
        self.when_waiting: Callable[[], None] = lambda: None

    # Requests

    def ask_with(self, ask: AskForLogin) -> None:
        """Send the requests of the login itself by ``ask``."""
        self._ask = ask

    def show_with(self, show: Callable[[Answer], Awaitable[Answer]]) -> None:
        """Look for the proof in what ``show`` makes of a page: what a browser shows of it."""
        self._show = show

    def concerns(self, url: str) -> bool:
        """Whether an address gets the credentials."""
        return url.startswith(self._beginnings) or url_origin(url) in self._origins

    def logs_out(self, url: str) -> bool:
        """Whether a request for an address would end the session."""
        patterns = self._logouts
        if not is_logout_address(url) and not (patterns and any(p.search(url) for p in patterns)):
            return False  # as nearly all are
        return self.concerns(url)

    def is_logout(self, url: str, anchor: str) -> bool:
        """Whether a link is not to be followed, because it logs out; ``anchor``: its text."""
        return self.logs_out(url) or (self.concerns(url) and says_log_out(anchor))

    def dress(self, attempt: VisitAttempt, url: str, method: str = "GET") -> Mapping[str, str]:
        """Return the credentials for a request of a visit; none for other origins.

        They are judged anew for each request, so that no redirect carries them elsewhere. All
        answers of a visit count under the oldest login that one of its requests was sent with.
        """
        if not self.concerns(url):
            return {}
        attempt.login = min(attempt.login or self.number, self.number)
        attempt.shows_login = None
        if self._token is not None:
            attempt.login_until = min(attempt.login_until, self._token.until)
        return self._credentials(url, method) if self._static is None else self._static

    def credentials(self, url: str, method: str = "GET") -> Mapping[str, str]:
        """Return the headers that log a request in; none for other origins."""
        if not self.concerns(url):
            return {}
        return self._credentials(url, method) if self._static is None else self._static

    def _credentials(self, url: str, method: str) -> Mapping[str, str]:
        """Return those of one request, which are other ones for each."""
        if self._auth.kind == "cookie":
            return {"Cookie": self._cookie_of_file(url)}
        if self._auth.kind == "digest":
            return self._digest(url, method)
        if self._auth.kind == "oauth2_client":
            return {"Authorization": f"Bearer {self._token.value}"} if self._token else {}
        header = session_cookie_header(self._jar, url)
        return {"Cookie": header} if header else {}

    def _static_credentials(self) -> Mapping[str, str] | None:
        """Return the credentials of all requests; None: each has its own.

        With a client certificate there are none: connections show it.
        """
        auth, secrets = self._auth, self._secrets
        if auth.kind in ("form", "digest", "oauth2_client") or "cookie_file" in secrets:
            return None
        if auth.kind == "cookie":
            return {"Cookie": secrets["cookie"].reveal().removeprefix("Cookie:").strip()}
        if auth.kind == "basic":
            pair = f"{secrets['user'].reveal()}:{secrets['password'].reveal()}"
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}
        if auth.kind == "bearer":
            return {"Authorization": f"Bearer {secrets['token'].reveal().strip()}"}
        values = {name: secrets[f"headers.{name}"] for name in auth.headers}
        return {name: value.reveal().strip() for name, value in values.items()}

    @property
    def certificate(self) -> ClientCertificate | None:
        """The certificate that connections to the origins of the login show; None: no one."""
        return self._auth.client_certificate

    def _digest(self, url: str, method: str) -> Mapping[str, str]:
        if self._challenge is None:
            return {}
        self._count += 1
        user, password = (self._secrets[key].reveal() for key in ("user", "password"))
        ours = self._count, token_hex(8)
        header = digest_authorization(self._challenge, user, password, (method, url), ours)
        return {"Authorization": header}

    def _cookie_of_file(self, url: str) -> str:
        host = urlsplit(url).hostname or ""
        if host not in self._cookies:
            text = self._secrets["cookie_file"].reveal()
            self._cookies[host] = cookies_of_file(text, host)
        return self._cookies[host]

    # Answers

    def judge(self, attempt: VisitAttempt, answer: Answer) -> None:
        """Note whether an answer to a request of a visit shows the proof."""
        is_said = attempt.login and not attempt.met_wall
        attempt.shows_login = self.shows(answer) if is_said else None
        if attempt.login and time.time() >= attempt.login_until:
            attempt.login = _EXPIRED

    def shows(self, answer: Answer) -> bool | None:
        """Whether an answer shows the proof; None: it cannot, or the login has none."""
        selector = self._auth.logged_in
        if selector is None or not answer.body:
            return None
        kind = AnswerHeaders(answer.headers).get(b"content-type") or ""
        if not is_login_page_body(answer.body, kind, answer.url):
            return None
        return shows_login_proof(answer.body, kind, selector)

    def admits(self, visit: Visit) -> bool:
        """Whether a visit counts; otherwise it waits here for the proof, or it has no end at all.

        A session that is over stores nothing more.
        """
        attempt, waiting = visit.attempt, self._waiting
        if attempt is None or not attempt.login:
            return True
        shows = attempt.shows_login is True
        if not waits_for_proof(visit.outcome, shows=shows) and (shows or self.over is None):
            attempt.login = 0
            self._is_fruitful = True
            return True
        waiting.append(visit)
        if visit.answer.body:
            self._bytes += len(visit.answer.body)
        if len(waiting) >= MOST_WAITING or self._bytes >= MOST_BYTES:
            self._hurried = True
        if self._hurried or len(waiting) == 1:
            self.when_waiting()
        return False

    @property
    def waits(self) -> bool:
        """Whether answers wait for the proof."""
        return bool(self._waiting)

    @property
    def hurries(self) -> bool:
        """Whether so many answers wait that the proof page is to be asked at once."""
        return self._hurried

    @property
    def is_full(self) -> bool:
        """Whether no page is to be asked before the answers that wait are settled."""
        return len(self._waiting) >= _FULL or self._bytes >= _FULL_BYTES

    # The login and its proof

    @property
    def is_ready(self) -> bool:
        """Whether pages may be asked with the credentials that are at hand."""
        has_login = self.number > 0 and self.over is None
        return has_login and (self._token is None or not self._is_token_due)

    @property
    def _is_token_due(self) -> bool:
        return self._token is not None and time.time() >= self._token.renewed_at

    async def ready(self) -> bool:
        """Log in before the first request, and renew what ends; False: nothing is to be asked."""
        if not self.is_ready and self.over is None:
            async with self._lock:
                if not self.is_ready and self.over is None:
                    await self._log_in(renews=self.number > 0)
        return self.over is None

    async def lasted(self, number: int) -> bool:
        """Whether the session of this number lasts: asks the proof page, after what is in doubt."""
        async with self._lock:
            if self.over is not None or self.number != number:
                return False
            proof, _ = await self._proof_in_words()
            return proof is Proof.HELD

    async def settle(self) -> Settled:
        """Ask the proof page, and decide about the answers that waited before."""
        async with self._lock:
            waiting, self._waiting, self._bytes, self._hurried = self._waiting, [], 0, False
            if self.over is not None or not waiting:
                return Settled([], [], waiting)
            current, older = self._by_login(waiting)
            before = self._challenge
            if self._is_token_due:
                await self._log_in(renews=True)
                if self.over is not None:
                    return Settled([], [], waiting)
            proof, why = await self._proof_in_words() if current else (Proof.HELD, "")
            if proof is Proof.HELD and self._challenge is not before:
                # The server had forgotten the challenge of before; what met it counts.
                older += [v for v in current if v.http_status == 401]
                current = [v for v in current if v.http_status != 401]
                self.number += 1
                if not current and not self._is_fruitful:
                    self._end("its Digest challenges do not last for two requests")
                self._is_fruitful = False
            if proof is Proof.ENDED:
                older, current = waiting, []
                await self._begin_again(why)
            elif proof is Proof.UNKNOWN:
                self._end(why)
            if self.over is not None:
                return Settled([], [], waiting)
            for visit in current:
                self._accept(visit)
            return Settled(current, older, [])

    def _by_login(self, waiting: list[Visit]) -> tuple[list[Visit], list[Visit]]:
        """Return the answers that this login brought, and those that another one did."""
        number = self.number
        current: list[Visit] = []
        older: list[Visit] = []
        for visit in waiting:
            is_current = visit.attempt is not None and visit.attempt.login == number
            (current if is_current else older).append(visit)
        return current, older

    def _accept(self, visit: Visit) -> None:
        """Let an answer count, under whose session the proof page was seen after it."""
        attempt, answer = visit.attempt, visit.answer
        assert attempt is not None, "it was requested"
        attempt.login = 0
        is_page = attempt.shows_login is not None
        if lacks_proof(visit.outcome, is_page=is_page, shows=attempt.shows_login):
            answer.body = None
            visit.fail(
                Fault.NOT_LOGGED_IN,
                f"the page does not show {self._auth.logged_in}, while {self._proof_page} does",
            )

    async def _begin_again(self, why: str) -> None:
        """Log in once more after the end of a session."""
        now = time.time()
        self._ended = [*(at for at in self._ended if now - at < _FORGOTTEN), now]
        if len(self._ended) >= MOST_ENDS:
            self._end("ended twice")
        elif self._auth.kind in _RENEWABLE:
            logger.info("%s: the session ended (%s); logging in again", self._name, why)
            await self._log_in()
        else:
            self._end(why)

    async def _log_in(self, *, renews: bool = False) -> None:
        """Log in, unless the login was refused lately or by another worker of the run.

        ``renews``: whether the session goes on, with another token.
        """
        while True:
            refusal = self._rows.refusal(self._configuration, int(time.time()))
            if refusal is not None:
                self._end(_refusal_in_words(refusal, was_tried=False))
                return
            if self._rows.begin(int(time.time())):
                break
            await self.pause(_LOOK)
        try:
            await self._attempt()
        except _RefusedError as error:
            refusal = self._rows.refused(str(error), self._configuration, int(time.time()))
            self._end(_refusal_in_words(refusal, was_tried=True))
        except _UnknownError as error:
            self._rows.undecided()
            self._end(str(error))
        except BaseException:
            self._rows.undecided()
            raise
        else:
            self._rows.held()
            if renews:
                logger.debug("%s: the token was renewed", self._name)
                return
            self.number += 1
            logger.info("%s: logged in; %s shows it", self._name, self._proof_page)

    async def _attempt(self) -> None:
        """Log in once.

        Raises:
            _RefusedError: the login does not count.
            _UnknownError: no answer says whether it does.
        """
        self._jar, landed = (), None
        if self._auth.kind == "form":
            landed = await self._send_form()
        if self._auth.kind == "oauth2_client":
            self._token = await self._granted()
        why = ""
        known = [] if self._proof_page is None else [self._proof_page]
        for page in dict.fromkeys([*known, *self._seeds]):
            proof, said = await self._proof_in_words(page)
            why = why or said
            if proof is Proof.HELD:
                return
            if proof is Proof.UNKNOWN:
                raise _UnknownError(said)
        if landed is not None and self.shows(await self._shown(landed)) is True:
            self._proof_page = landed.url
            return
        raise _RefusedError(why)

    async def _send_form(self) -> Answer:
        """Send the login form, and return the answer at the end of its redirects."""
        auth = self._auth
        assert auth.login is not None, "its kind needs it"
        page = await self._follow(LoginRequest(auth.login))
        if page.status >= 400:
            raise self._failed(page)
        kind = AnswerHeaders(page.headers).get(b"content-type") or ""
        form = find_login_form(page.body, kind, page.url, tuple(auth.fields))
        if form is None:
            raise _RefusedError(f"no form on {page.url}")
        answer = await self._follow(self._filled_in(form))
        if answer.status >= 400:
            raise self._failed(answer)
        return answer

    async def _granted(self) -> GrantedToken:
        """Ask for a token; a failing server is asked again.

        Raises:
            _RefusedError: there is none.
            _UnknownError: there is no answer.
        """
        auth, secrets = self._auth, self._secrets
        assert auth.token_url is not None, "its kind needs it"
        own = client_authorization(secrets["client_id"].reveal(), secrets["client_secret"].reveal())
        headers = {"Authorization": own, "Content-Type": _FORM, "Accept": "application/json"}
        body = client_grant_body(auth.scope)
        for left in range(_TRIES - 1, -1, -1):
            asked_at = time.time()
            answer = await self._asked(LoginRequest(auth.token_url, "POST", body, headers))
            if judge_proof(answer.status, shows=None) is not Proof.UNKNOWN:
                break
            if not left:
                raise _UnknownError(f"no answer: HTTP {answer.status} on {auth.token_url}")
            await self.pause(_BETWEEN)
        if answer.status in REDIRECTS:
            raise _RefusedError(f"{auth.token_url} redirects, where the secret is not sent")
        if answer.status >= 300:
            why = token_refusal(answer.body)
            raise _RefusedError(f"refused (HTTP {answer.status}{why}) by {auth.token_url}")
        try:
            return granted_token(answer.body, asked_at)
        except ValueError as error:
            raise _RefusedError(f"no token from {auth.token_url}, as {error}") from None

    def _filled_in(self, form: LoginForm) -> LoginRequest:
        own = [(name, self._secrets[f"fields.{name}"].reveal()) for name in self._auth.fields]
        url = request_url(form.url)
        if url is None or not self.concerns(url):
            raise _RefusedError(f"its form is sent to {form.url}, which is none of its origins")
        if form.method != "POST":
            raise _RefusedError(
                f"its form on {self._auth.login} is sent with {form.method}, not POST"
            )
        body = urlencode([*form.values, *own]).encode()
        return LoginRequest(url, "POST", body, {"Content-Type": _FORM, "Origin": url_origin(url)})

    async def _proof_in_words(self, page: str | None = None) -> tuple[Proof, str]:
        """Ask the proof page; return what it says, and why the login does not count."""
        url, why = page or self._proof_page or self._seeds[0], ""
        for left in range(_TRIES - 1, -1, -1):
            try:
                answer = await self._shown(await self._follow(LoginRequest(url)))
            except _UnknownError as error:
                proof, why = Proof.UNKNOWN, str(error)
            except _RefusedError as error:
                return Proof.ENDED, str(error)
            else:
                shows = self.shows(answer)
                has_proof = self._auth.logged_in is not None
                proof = judge_proof(answer.status, shows=bool(shows) if has_proof else None)
                why = self._why(answer)
            if proof is Proof.HELD:
                self._proof_page = answer.url
                return proof, ""
            if proof is Proof.ENDED:
                return proof, why
            if left:
                await self.pause(_BETWEEN)
        return Proof.UNKNOWN, why

    async def _shown(self, answer: Answer) -> Answer:
        """Return a page as its readers see it; without a browser as its server sends it.

        Raises:
            _UnknownError: it cannot be shown.
        """
        if self._show is None or self.shows(answer) is not False:
            return answer
        self._unshown = ""
        try:
            shown = await self._show(answer)
        except (RunHaltedError, asyncio.CancelledError):
            raise
        except Exception as error:
            if isinstance(error, RenderingError) and error.fault is Fault.NO_BROWSER:
                self._unshown = str(error)
                return answer  # a refusal counts: no timer tries a wrong password for ever
            raise _UnknownError(f"no answer from {answer.url} ({str(error)[:200]})") from error
        self.is_proof_scripted = self.is_proof_scripted or self.shows(shown) is True
        return shown

    def _why(self, answer: Answer) -> str:
        if 200 <= answer.status < 400:
            return f"no proof on {answer.url}" + (f"; {self._unshown}" if self._unshown else "")
        names = AnswerHeaders(answer.headers).lines(b"www-authenticate")
        offered = {line.split()[0].lower() for line in names if line.strip()}
        if answer.status == 401 and offered and offered <= _BOUND:
            return (
                "refused (HTTP 401): the server takes NTLM or Negotiate alone; crawl through a"
                " local proxy that logs in, such as cntlm or px"
            )
        return f"refused (HTTP {answer.status})"

    def _failed(self, answer: Answer) -> Exception:
        if judge_proof(answer.status, shows=None) is Proof.UNKNOWN and answer.status != 429:
            return _UnknownError(f"no answer: HTTP {answer.status} on {answer.url}")
        return _RefusedError(f"refused (HTTP {answer.status})")

    async def _follow(self, request: LoginRequest) -> Answer:
        """Send a request with the credentials, and follow redirects within the origins.

        Raises:
            _RefusedError: a redirect leads elsewhere.
            _UnknownError: there is no answer.
        """
        for _ in range(MAX_REDIRECTS + 1):
            answer = await self._sent(request)
            location = AnswerHeaders(answer.headers).get(b"location")
            if answer.status not in REDIRECTS or not location:
                return answer
            target = request_url(urljoin(request.url, location))
            if target is None or not self.concerns(target):
                place = url_origin(target) if target else location
                raise _RefusedError(f"{request.url} redirects to {place}, none of its origins")
            keeps = answer.status in (307, 308)
            request = request._replace(url=target) if keeps else LoginRequest(target)
        raise _RefusedError(f"redirects in a circle on {request.url}")

    async def _sent(self, request: LoginRequest, *, is_again: bool = False) -> Answer:
        headers = {**request.headers, **self.credentials(request.url, request.method)}
        answer = await self._asked(request._replace(headers=headers))
        found = None
        if self._auth.kind == "digest" and answer.status == 401:
            found = digest_challenge(AnswerHeaders(answer.headers).lines(b"www-authenticate"))
        if found is not None and not is_again and found != self._challenge:
            self._challenge, self._count = found, 0
            return await self._sent(request, is_again=True)
        if self._auth.kind == "form":
            lines = AnswerHeaders(answer.headers).lines(b"set-cookie")
            self._jar = cookies_after_answer(self._jar, lines, request.url, int(time.time()))
        return answer._replace(url=request.url)

    async def _asked(self, request: LoginRequest) -> Answer:
        assert self._ask is not None, "the crawl has begun"
        try:
            return await self._ask(request)
        except (RunHaltedError, asyncio.CancelledError):
            raise
        except Exception as error:  # whatever failed, there is no answer
            said = redacted_text(str(error)) or type(error).__name__
            raise _UnknownError(f"no answer from {request.url} ({said[:200]})") from error

    def _end(self, why: str) -> None:
        """Ask nothing more, and say why."""
        self.over = f"login: {why}"
        logger.error("%s: %s; no page is asked any more", self._name, self.over)
        self.when_over(self.over)

    @property
    def _configuration(self) -> bytes:
        """The configuration with its secrets; the registry gets two bytes of a digest of it."""
        values = {key: secret.reveal() for key, secret in self._secrets.items()}
        parts = [self._auth.model_dump(mode="json"), sorted(self._origins), values]
        return json.dumps(parts, sort_keys=True).encode()


def _refusal_in_words(refusal: RefusedLogin, *, was_tried: bool) -> str:
    until = datetime.fromtimestamp(refusal.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if was_tried:
        return refusal.why
    return f"{refusal.why}; not tried again before {until}, or until its configuration changes"
