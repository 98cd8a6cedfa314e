"""One page, rendered: its requests answered by the caller, its text read when it has settled."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from smartcrawl.extract.browser.dom import TooLargeError, markup_of_snapshot
from smartcrawl.extract.browser.launch import Browser
from smartcrawl.extract.browser.pipe import BrowserError, CommandError
from smartcrawl.rules.data_requests import answer_digest, json_leaves
from smartcrawl.rules.rendering import (
    DATA,
    DOCUMENT,
    EMPTY,
    FIRST_STEP,
    MOST_BYTES,
    OTHER_KIND,
    STREAMS,
    TOO_MANY,
    WORKER,
    WRONG_METHOD,
    PageRequestRules,
    RequestCaps,
    Settling,
    named_script_hosts,
)

MAX_ELEMENTS: Final = 200_000
_MOST_DIALOGS: Final = 20
_MOST_EVENTS: Final = 5_000  #: requests of all kinds, refused ones included
_MOST_MOVES: Final = 12  #: times that scripts may try to lead to another page
_READ_SECONDS: Final = 10.0
_LATE_SECONDS: Final = 3.0  #: the same for a page that has not settled
_CLOSE_SECONDS: Final = 5.0
_TICK: Final = 0.1  #: seconds
_FRAME_SECONDS: Final = 3.0  #: limit for two frames on the screen
_PREFLIGHT: Final = "Access-Control-Request-Method"
_ENDED: Final = "the browser has ended"
_GIF: Final = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
_NOT_PASSED: Final = frozenset(
    {"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive"}
)
#: Runs before the scripts of a page: chance that repeats, and no means beside requests.
_BEFORE: Final = """(()=>{
let s=0x2545f491;const next=()=>{s^=s<<13;s^=s>>>17;s^=s<<5;return s>>>0};
Math.random=()=>next()/4294967296;
const fill=a=>{const b=new Uint8Array(a.buffer,a.byteOffset,a.byteLength);
for(let i=0;i<b.length;i++)b[i]=next()&255;return a};
try{Crypto.prototype.getRandomValues=fill;Crypto.prototype.randomUUID=()=>{
const h=[...fill(new Uint8Array(16))].map((b,i)=>(i===6?b&15|64:i===8?b&63|128:b)
.toString(16).padStart(2,'0')).join('');
return [h.slice(0,8),h.slice(8,12),h.slice(12,16),h.slice(16,20),h.slice(20)].join('-')}}catch(e){}
try{delete Navigator.prototype.serviceWorker}catch(e){}
for(const k of ['RTCPeerConnection','webkitRTCPeerConnection','WebTransport','SharedWorker'])
try{delete window[k]}catch(e){}
window.print=()=>{};window.open=()=>null})()"""
_TWO_FRAMES: Final = "new Promise(f=>requestAnimationFrame(()=>requestAnimationFrame(()=>f(1))))"
_TO_THE_END: Final = (
    "(()=>{const e=document.scrollingElement;if(!e)return 0;scrollTo(0,e.scrollHeight);"
    "return e.scrollHeight})()"
)
_HEIGHT: Final = "document.scrollingElement?.scrollHeight ?? 0"
_ELEMENTS: Final = "document.getElementsByTagName('*').length"


@dataclass(frozen=True, slots=True)
class BrowserRequest:
    """A request that a page wants to make."""

    method: str
    url: str
    headers: Mapping[str, str]
    kind: str  #: Document, Script, XHR or Fetch
    body: str = ""


@dataclass(frozen=True, slots=True)
class BrowserAnswer:
    """The answer to a request, its body without a content coding."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes


@dataclass(frozen=True, slots=True)
class BrowserRefusal:
    """Why a request has no answer."""

    reason: str


Answering = Callable[[BrowserRequest], Awaitable[BrowserAnswer | BrowserRefusal]]


@dataclass(slots=True)
class MadeRequest:
    """A request for text or data that a page made, and what came of it."""

    method: str
    url: str
    kind: str
    headers: Mapping[str, str]
    body: str = ""
    status: int | None = None  #: None: it had no answer
    etag: str = ""
    last_modified: str = ""
    digest: bytes = b""  #: of the answer (rules.data_requests)
    leaves: Mapping[str, bytes] = field(default_factory=dict)  #: of a JSON text, likewise
    refused: str = ""  #: why


@dataclass(frozen=True, slots=True)
class RenderOrder:
    """A page that is to be rendered, and how."""

    url: str
    rules: PageRequestRules
    now: float  #: seconds since 1970, where the page's clock begins
    seconds: float = 10.0  #: without the time that its requests take
    wait_for: str = ""  #: selector of an element to wait for
    scroll: int = 0  #: times that the page is scrolled to its end
    user_agent: str = ""


@dataclass(slots=True)
class Rendering:
    """What a page showed, and the requests that it made."""

    url: str  #: at its end: scripts may change it
    html: str = ""
    requests: list[MadeRequest] = field(default_factory=list)
    moved_to: str = ""  #: where a script of it wanted to lead
    streams: bool = False  #: whether it wanted WebSockets, event streams, or a POST
    problem: str = ""  #: why it has not settled, or has no markup

    @property
    def settled(self) -> bool:
        """Whether all is there: another rendering of the same answers gives the same text."""
        return not self.problem

    def refused_hosts(self) -> dict[tuple[str, str], int]:
        """Count the refused requests by host and reason."""
        found: dict[tuple[str, str], int] = {}
        for made in self.requests:
            if made.refused:
                key = (urlsplit(made.url).netloc, made.refused)
                found[key] = found.get(key, 0) + 1
        return found


async def render_page(browser: Browser, order: RenderOrder, answering: Answering) -> Rendering:
    """Render a page in a context of its own.

    Raises:
        BrowserError: the browser has ended.
    """
    page = _Page(browser, order, answering)
    try:
        return await page.render()
    except CommandError as error:
        page.rendering.problem = page.rendering.problem or f"the browser says: {error}"
        return page.rendering
    finally:
        await page.close()


class _UnsettledError(Exception):
    """The page cannot settle."""


class _Page:
    def __init__(self, browser: Browser, order: RenderOrder, answering: Answering) -> None:
        self._browser = browser
        self._pipe = browser.pipe
        self._order = order
        self._answering = answering
        self.rendering = Rendering(order.url)
        self._context = self._target = self._session = ""
        self._tasks: set[asyncio.Task[None]] = set()
        self._sessions: set[str] = set()
        self._caps = RequestCaps(1 + order.scroll)
        self._named: frozenset[str] = frozenset()  #: hosts of scripts that the page names
        self._in_flight = 0  #: requests that the caller answers
        self._asked = 0  #: requests that were answered
        self._events = self._dialogs = self._moves = self._bytes = 0
        self._overfull = browser.overfull
        self._has_document = self._is_shown = False
        self._expired = asyncio.Event()  #: the page's clock has reached the end of its step
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def render(self) -> Rendering:
        found = self.rendering
        await self._open()
        self._begin(self._navigate())
        self._begin(self._limit())
        settling = asyncio.ensure_future(self._settle())
        try:
            waited: set[asyncio.Future[Any]] = {settling, self._failed, self._pipe.ended}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            if self._pipe.ended.done():
                found.problem = _ENDED
            elif self._failed.done():
                found.problem = self._failed.result()
            else:
                await settling
        except _UnsettledError as problem:
            found.problem = str(problem)
        finally:
            settling.cancel()
            with suppress(asyncio.CancelledError, _UnsettledError, CommandError, BrowserError):
                await settling
        if self._is_shown and self._browser.alive:
            await self._read()
        return found

    # The life of a page

    async def _open(self) -> None:
        send = self._pipe.send
        self._context = (
            await send("Target.createBrowserContext", disposeOnDetach=True)
        )["browserContextId"]  # fmt: skip
        own = {"browserContextId": self._context}
        await send("Browser.setDownloadBehavior", behavior="deny", **own)
        made = await send("Target.createTarget", url="about:blank", **own)
        self._target = made["targetId"]
        attached = await send("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        self._listen(self._session)
        commands = self._commands(self._session)
        commands.append(send("Inspector.enable", self._session))
        clock = {"policy": "pause", "initialVirtualTime": self._order.now}
        commands.append(send("Emulation.setVirtualTimePolicy", self._session, **clock))
        if self._order.user_agent:
            agent = {"userAgent": self._order.user_agent}
            commands.append(send("Emulation.setUserAgentOverride", self._session, **agent))
        await asyncio.gather(*commands)

    def _commands(self, session: str) -> list[Coroutine[Any, Any, dict[str, Any]]]:
        """Return the commands that each page and frame needs before its first script."""
        send = self._pipe.send
        return [
            send("Fetch.enable", session, patterns=[{"urlPattern": "*"}]),
            self._attach_to_all(session),
            send("Page.enable", session),
            send("Network.enable", session, maxTotalBufferSize=0, maxResourceBufferSize=0),
            send("Network.setBypassServiceWorker", session, bypass=True),
            send("Page.addScriptToEvaluateOnNewDocument", session, source=_BEFORE),
        ]  # fmt: skip

    async def _attach_to_all(self, session: str) -> dict[str, Any]:
        """Have what a page, frame or worker opens wait until it is admitted or ended."""
        return await self._pipe.send(
            "Target.setAutoAttach", session, autoAttach=True, waitForDebuggerOnStart=True,
            flatten=True,
        )  # fmt: skip

    async def _navigate(self) -> None:
        answer = await self._pipe.send("Page.navigate", self._session, url=self._order.url)
        if error := answer.get("errorText"):
            self._fail(f"the page is not shown ({error})")

    async def _limit(self) -> None:
        """Give the page its seconds; those in which its requests are answered do not count."""
        left = self._order.seconds
        while left > 0:
            await asyncio.sleep(_TICK)
            if not self._in_flight:
                left -= _TICK
        self._fail(f"it has not settled in {self._order.seconds:g} seconds")

    async def _settle(self) -> None:
        settling = Settling(int(self._order.seconds * 1000))
        await self._expires()
        settling.step(0)
        await self._rest(settling)
        for _ in range(self._order.scroll):
            height = await self._evaluate(_TO_THE_END)
            settling.again()
            await self._rest(settling)
            if await self._evaluate(_HEIGHT) == height:
                break
        while self._order.wait_for and not await self._has_element():
            step = settling.further()
            if not step:
                raise _UnsettledError(f"no element matches {self._order.wait_for}")
            await self._advance(step)

    async def _rest(self, settling: Settling) -> None:
        """Let the page's clock go on until it asks nothing more."""
        while step := settling.step(self._asked):
            await self._advance(step)
        if settling.is_over:
            raise _UnsettledError("it asks on and on")

    async def _advance(self, milliseconds: int) -> None:
        """Show two frames, let the clock of the page go on, and wait for its requests."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FRAME_SECONDS):
                await self._evaluate(_TWO_FRAMES, awaitPromise=True)
        self._expired.clear()
        self._let_clock_go(milliseconds)
        await self._expires()

    def _let_clock_go(self, milliseconds: int) -> None:
        self._pipe.notify(
            "Emulation.setVirtualTimePolicy",
            self._session,
            policy="pauseIfNetworkFetchesPending",
            budget=milliseconds,
            maxVirtualTimeTaskStarvationCount=100_000,
        )

    async def _expires(self) -> None:
        await self._expired.wait()
        while self._in_flight:
            await asyncio.sleep(0.01)

    async def _has_element(self) -> bool:
        script = f"!!document.querySelector({json.dumps(self._order.wait_for)})"
        return bool(await self._evaluate(script))

    async def _evaluate(self, script: str, **more: Any) -> Any:
        answer = await self._pipe.send(
            "Runtime.evaluate", self._session, expression=script, returnByValue=True, **more
        )
        return answer["result"].get("value")

    async def _read(self) -> None:
        """Read what the page shows."""
        found = self.rendering
        self._pipe.notify("Emulation.setVirtualTimePolicy", self._session, policy="pause")
        try:
            async with asyncio.timeout(_LATE_SECONDS if found.problem else _READ_SECONDS):
                world = await self._pipe.send(
                    "Page.createIsolatedWorld", self._session, frameId=self._target
                )
                context = world["executionContextId"]
                count = await self._evaluate(_ELEMENTS, contextId=context)
                if not isinstance(count, int) or count > MAX_ELEMENTS:
                    found.problem = f"it has more than {MAX_ELEMENTS:,} elements"
                    return
                snapshot = await self._pipe.send(
                    "DOMSnapshot.captureSnapshot", self._session, computedStyles=[]
                )
                found.html = markup_of_snapshot(snapshot, self._order.url)
        except TimeoutError:
            found.problem = found.problem or "it does not answer"
        except TooLargeError:
            found.problem = "its markup is too long"

    async def close(self) -> None:
        """End the page with all that it began."""
        for task in self._tasks:
            task.cancel()
        for session in self._sessions:
            self._pipe.leave(session)
        if not self._context or not self._browser.alive:
            return
        with suppress(TimeoutError, CommandError, BrowserError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._pipe.send(
                    "Target.disposeBrowserContext", browserContextId=self._context
                )

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or task.exception() is None:
            return
        if isinstance(task.exception(), BrowserError):
            self._fail(_ENDED)
        elif not isinstance(task.exception(), CommandError):
            self._fail(f"its requests cannot be answered: {task.exception()}")

    def _fail(self, problem: str) -> None:
        if not self._failed.done():
            self._failed.set_result(problem)

    # Events

    def _listen(self, session: str) -> None:
        self._sessions.add(session)
        self._pipe.listen(session, self._event)

    def _event(self, method: str, event: Mapping[str, Any], session: str) -> None:
        match method:
            case "Fetch.requestPaused":
                self._begin(self._answer(event, session))
            case "Target.attachedToTarget":
                self._attached(event)
            case "Page.javascriptDialogOpening":
                self._dismiss(event, session)
            case "Emulation.virtualTimeBudgetExpired":
                self._expired.set()
            case "Inspector.targetCrashed" if session == self._session:
                overfull = self._browser.overfull > self._overfull
                self._fail("it takes too much memory" if overfull else "its process crashed")
            case "Page.frameNavigated" if session == self._session:
                if not event["frame"].get("parentId"):
                    self.rendering.url = event["frame"]["url"] + event["frame"].get(
                        "urlFragment", ""
                    )
                    if not self._is_shown:
                        self._is_shown = True
                        self._let_clock_go(FIRST_STEP)
            case "Page.navigatedWithinDocument" if session == self._session:
                if event["frameId"] == self._target:
                    self.rendering.url = event["url"]
            case "Network.webSocketCreated":
                self.rendering.streams = True

    def _attached(self, event: Mapping[str, Any]) -> None:
        """Let frames and workers begin; end whatever else a page opens before it has begun."""
        target, session = event["targetInfo"], event["sessionId"]
        if target["type"] not in ("iframe", "worker"):
            self._pipe.notify("Target.closeTarget", targetId=target["targetId"])
            return
        self._listen(session)
        self._begin(self._admit(target["type"], session))

    async def _admit(self, kind: str, session: str) -> None:
        commands = (
            self._commands(session)
            if kind == "iframe"
            else [self._pipe.send("Network.enable", session), self._attach_to_all(session)]
        )
        await asyncio.gather(*commands, return_exceptions=True)
        self._pipe.notify("Runtime.runIfWaitingForDebugger", session)

    def _dismiss(self, event: Mapping[str, Any], session: str) -> None:
        self._dialogs += 1
        if self._dialogs > _MOST_DIALOGS:
            self._fail("it opens dialogs on and on")
        leaves = event["type"] == "beforeunload"
        self._pipe.notify("Page.handleJavaScriptDialog", session, accept=leaves)

    # Requests

    async def _answer(self, event: Mapping[str, Any], session: str) -> None:
        """Answer one request of the page, or refuse it."""
        asked, headers = event["request"], event["request"]["headers"]
        kind = _kind(event["resourceType"], headers)
        self._events += 1
        if self._events > _MOST_EVENTS:
            self._fail("it asks on and on")
            return
        is_page = kind == DOCUMENT and event.get("frameId") == self._target
        if is_page and self._leads_away(event):
            self._refuse(event, session, "Aborted")
            return
        if kind in EMPTY:
            await self._fulfil(event, session, _empty(kind, headers))
            return
        wanted = headers.get(_PREFLIGHT, "") if asked["method"] == "OPTIONS" else ""
        made = MadeRequest(
            wanted or asked["method"], asked["url"], kind, headers, asked.get("postData", "")
        )
        if wanted and not self._order.rules.refusal(made.method, made.url, kind):
            await self._fulfil(event, session, _permission(headers))
            return
        made.refused = self._refusal(made)
        if made.refused != OTHER_KIND:
            self.rendering.requests.append(made)
        if made.refused:
            self._refuse(event, session, "BlockedByClient")
            return
        answer = await self._answered(made)
        if isinstance(answer, BrowserRefusal):
            made.refused = answer.reason
            self._refuse(event, session, "AddressUnreachable")
            return
        if is_page:
            self._named |= named_script_hosts(answer.body.decode("utf-8", "replace"))
        await self._fulfil(event, session, answer)

    def _leads_away(self, event: Mapping[str, Any]) -> bool:
        """Whether a request is a script's, for another page in place of this one."""
        is_first = not self._has_document
        self._has_document = True
        if is_first or event.get("redirectedRequestId"):
            return False
        self.rendering.moved_to = self.rendering.moved_to or event["request"]["url"]
        self._moves += 1
        if self._moves > _MOST_MOVES:
            self._fail("it leads on and on")
        return True

    def _refusal(self, made: MadeRequest) -> str:
        if made.kind in STREAMS:
            self.rendering.streams = True
        rules = self._order.rules
        refused = rules.refusal(made.method, made.url, made.kind, self._named)
        if refused == WRONG_METHOD and made.kind in DATA:
            self.rendering.streams = True
        refused = refused or self._caps.refusal(made.url, made.body)
        if not refused and self._bytes > MOST_BYTES:
            refused = TOO_MANY
        return refused

    async def _answered(self, made: MadeRequest) -> BrowserAnswer | BrowserRefusal:
        self._in_flight += 1
        try:
            request = BrowserRequest(made.method, made.url, made.headers, made.kind, made.body)
            answer = await self._answering(request)
        finally:
            self._in_flight -= 1
        self._asked += 1
        if isinstance(answer, BrowserAnswer):
            self._bytes += len(answer.body)
            headers = {name.lower(): value for name, value in answer.headers}
            made.status = answer.status
            made.etag = headers.get("etag", "")
            made.last_modified = headers.get("last-modified", "")
            made.digest = answer_digest(answer.status, headers.get("location", ""), answer.body)
            if made.kind in DATA:
                made.leaves = json_leaves(answer.body)
        return answer

    def _refuse(self, event: Mapping[str, Any], session: str, reason: str) -> None:
        self._pipe.notify(
            "Fetch.failRequest", session, requestId=event["requestId"], errorReason=reason
        )

    async def _fulfil(self, event: Mapping[str, Any], session: str, answer: BrowserAnswer) -> None:
        headers = [
            {"name": name, "value": value}
            for name, value in answer.headers
            if name.lower() not in _NOT_PASSED and value.isascii() and value.isprintable()
        ]
        await self._pipe.send(
            "Fetch.fulfillRequest",
            session,
            requestId=event["requestId"],
            responseCode=answer.status,
            responseHeaders=headers,
            body=base64.b64encode(answer.body).decode(),
        )


def _kind(kind: str, headers: Mapping[str, str]) -> str:
    """Return the kind of a request; the protocol calls scripts of workers and streams otherwise."""
    if headers.get("Accept") == "text/event-stream":
        return "EventSource"
    return WORKER if kind == "Other" else kind


def _permission(headers: Mapping[str, str]) -> BrowserAnswer:
    """Return the permission for a request to another origin; what that answers still counts."""
    about = [
        *_for_its_origin(headers),
        ("Access-Control-Allow-Methods", headers[_PREFLIGHT]),
        ("Access-Control-Allow-Headers", headers.get("Access-Control-Request-Headers", "")),
    ]
    return BrowserAnswer(204, about, b"")


def _empty(kind: str, headers: Mapping[str, str]) -> BrowserAnswer:
    """Return an answer that changes no text, as a page of any origin may read it."""
    about = _for_its_origin(headers)
    if kind == "Image":
        return BrowserAnswer(200, [("Content-Type", "image/gif"), *about], _GIF)
    return BrowserAnswer(200, [("Content-Type", "text/css"), *about], b"")


def _for_its_origin(headers: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the headers by which the origin of a request may read its answer."""
    return [
        ("Access-Control-Allow-Origin", headers.get("Origin", "*")),
        ("Access-Control-Allow-Credentials", "true"),
    ]
