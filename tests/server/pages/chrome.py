"""A Chromium that shows pages of a server, driven over its pipe."""

import asyncio
import gzip
import json
import os
import signal
import subprocess
import tempfile
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from smartcrawl.extract.browser.pipe import BrowserPipe, CommandError

AXE = Path(__file__).resolve().parents[2] / "data" / "axe-core-4.14.1.min.js.gz"
_KEYS = {"ArrowDown": 40, "ArrowUp": 38, "Enter": 13, "Tab": 9, "/": 191}
_SECONDS = 90.0
_MOST_TABS = 200  #: to an element of a page
_RULES = "{rules: {'target-size': {enabled: true}}}"  #: of WCAG 2.2, beside the usual ones
SEEN = "'seen' in window"  #: in a page at which axe has looked
_NAMED = "[...document.querySelectorAll('a, button')]"
#: The clock of a page, so many times as fast.
_CLOCK = """(() => {{
  const times = {times}, begun = performance.now(), now = performance.now.bind(performance);
  for (const name of ["setTimeout", "setInterval"]) {{
    const real = window[name];
    window[name] = (work, delay = 0, ...given) => real(work, delay / times, ...given);
  }}
  performance.now = () => begun + (now() - begun) * times;
}})()"""
#: Kept once the page has done what its scripts began, but for what comes later by itself.
_TURN = "new Promise(done => setTimeout(() => setTimeout(done)))"


class Tab:
    """One tab; what it requested, and what its pages complained about."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: BrowserPipe) -> None:
        self._loop = loop
        self._pipe = pipe
        self.requested: list[str] = []
        self._under_way: set[str] = set()  #: requests, by their ids
        self.complaints: list[str] = []
        self.has_scripts = True
        self.width = 0  #: as it was resized
        self._context = self._send("Target.createBrowserContext")["browserContextId"]
        made = {"url": "about:blank", "browserContextId": self._context}
        target = self._send("Target.createTarget", **made)["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        pipe.listen(self._session, self._note)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._send(f"{domain}.enable")
        self._send("Emulation.setFocusEmulationEnabled", enabled=True)  # beside other tabs

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        session = getattr(self, "_session", "")
        sent = self._pipe.send(method, session, **parameters)
        return self._loop.run_until_complete(asyncio.wait_for(sent, _SECONDS))

    def _note(self, method: str, given: Mapping[str, Any], _: str) -> None:
        match method:
            case "Network.requestWillBeSent":
                self.requested.append(given["request"]["url"])
                self._under_way.add(given["requestId"])
            case "Network.loadingFinished" | "Network.loadingFailed":
                self._under_way.discard(given["requestId"])
            case "Log.entryAdded" if given["entry"]["level"] == "error":
                self.complaints.append(given["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(given["exceptionDetails"]))
            case "Page.javascriptDialogOpening":
                self.complaints.append(f"dialog: {given['message']}")
                self._pipe.notify("Page.handleJavaScriptDialog", self._session, accept=True)

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Be a screen of this size, and of this scheme of colours."""
        self.width = width
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self._send("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", features=[scheme])

    def close(self) -> None:
        """Close it, and forget its cookies."""
        del self._session
        self._send("Target.disposeBrowserContext", browserContextId=self._context)

    def stop_scripts(self) -> None:
        """Run no script of a page from now on; what tests ask is still answered."""
        self._send("Emulation.setScriptExecutionDisabled", value=True)
        self.has_scripts = False

    def ignore_policies(self) -> None:
        """Ignore Content-Security-Policy from now on."""
        self._send("Page.setBypassCSP", enabled=True)

    def hurry(self, times: int) -> None:
        """Let the clock of each further page run so many times as fast: its polls, its pauses."""
        self._send("Page.addScriptToEvaluateOnNewDocument", source=_CLOCK.format(times=times))

    def settle(self) -> None:
        """Wait until the page has done, and asked for, what its scripts began."""
        until = time.monotonic() + _SECONDS
        self.ask(_TURN)
        while self._under_way:
            assert time.monotonic() < until, f"requests have no end: {self._under_way}"
            self.ask(_TURN)

    def lose(self, *, connection: bool) -> None:
        """Lose the connection to all servers, or have it again."""
        given = {"offline": connection, "latency": 0, "downloadThroughput": -1}
        self._send("Network.emulateNetworkConditions", **given, uploadThroughput=-1)

    def go(self, url: str) -> None:
        """Open an address, and wait for its scripts."""
        self._under_way.clear()
        self._send("Page.navigate", url=url)
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'")

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page; of a promise when it is kept."""
        given = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        found = self._send("Runtime.evaluate", **given)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """Wait until an expression is true, and return it; pages may come and go meanwhile."""
        until = time.monotonic() + _SECONDS
        while not (found := self._tried(expression)):
            assert time.monotonic() < until, f"it never came true: {expression}"
            self._loop.run_until_complete(asyncio.sleep(0.02))
        return found

    def _tried(self, expression: str) -> Any:
        tried = f"(() => {{ try {{ return {expression} }} catch {{ return null }} }})()"
        try:
            return self.ask(tried)
        except (CommandError, AssertionError):  # the page was left in between
            return None

    def type(self, text: str) -> None:
        """Type a text where the focus is."""
        for letter in text:
            self._send("Input.dispatchKeyEvent", type="char", text=letter)

    def press(self, key: str) -> None:
        """Press a key."""
        code = {"key": key, "windowsVirtualKeyCode": _KEYS[key]}
        more = {"text": {"Enter": "\r", "/": "/"}[key]} if key in ("Enter", "/") else {}
        self._send("Input.dispatchKeyEvent", type="keyDown", **code, **more)
        self._send("Input.dispatchKeyEvent", type="keyUp", **code)

    def picture(self) -> bytes:
        """What is seen, as WebP."""
        found = self._send("Page.captureScreenshot", format="webp", quality=80)
        return b64decode(found["data"])

    def follow(self, text: str) -> None:
        """Go to a link or button by its text, as a keyboard does: Tab until there, then Enter."""
        self.wait(f"{_NAMED}.some(one => one.innerText.trim() === {json.dumps(text)})")
        self._open_menu(text)
        for _ in range(_MOST_TABS):
            if self.ask(f"document.activeElement.innerText?.trim() === {json.dumps(text)}"):
                break
            self.press("Tab")
        else:
            raise AssertionError(f"no Tab leads to {text}")
        self.enter()

    def _open_menu(self, text: str) -> None:
        """Open the navigation of a phone by its button, where only it has a link."""
        named = f"{_NAMED}.filter(one => one.innerText.trim() === {json.dumps(text)})"
        if self.ask(f"{named}.some(one => one.checkVisibility())"):
            return
        self.reach(".menu")
        self.press("Enter")
        self.wait(f"{named}.some(one => one.checkVisibility())")

    def enter(self) -> None:
        """Press Enter, and wait for the page to which it leads."""
        self.ask("window.leaving = true")
        self.press("Enter")
        self.wait("!window.leaving && document.readyState === 'complete'")

    def reach(self, selector: str) -> None:
        """Press Tab until a field has the focus."""
        for _ in range(_MOST_TABS):
            if self.ask(f"document.activeElement.matches({json.dumps(selector)})"):
                return
            self.press("Tab")
        raise AssertionError(f"no Tab leads to {selector}")

    def defects(self) -> list[str]:
        """What axe finds in the page."""
        self.look()
        self.wait(SEEN)
        return self.seen()

    def look(self) -> None:
        """Let axe look at the page, which goes on meanwhile."""
        if not self.ask("'axe' in window"):
            script = gzip.decompress(AXE.read_bytes()).decode()
            self._send("Runtime.evaluate", expression=script)
        self.ask(f"void axe.run({_RULES}).then(found => window.seen = found.violations)")

    def seen(self) -> list[str]:
        """What axe found, once SEEN is true."""
        found = json.loads(self.ask("JSON.stringify(window.seen)"))
        self.ask("delete window.seen")
        return [
            f"{one['id']}: {node['html']} {node['failureSummary']}"
            for one in found
            for node in one["nodes"]
        ]


class Browser:
    """A running Chromium."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pipe: BrowserPipe) -> None:
        self._loop = loop
        self._pipe = pipe

    @contextmanager
    def tab(self) -> Iterator[Tab]:
        """Open a tab with cookies of its own."""
        tab = Tab(self._loop, self._pipe)
        try:
            yield tab
        finally:
            tab.close()


@contextmanager
def browsing(program: str) -> Iterator[Browser]:
    """Start a browser."""
    loop = asyncio.new_event_loop()
    read, to_us = os.pipe()
    from_us, write = os.pipe()
    with tempfile.TemporaryDirectory(prefix="tab-", ignore_cleanup_errors=True) as folder:
        command = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={folder}",
                 "--disable-background-networking", "about:blank"]  # fmt: skip
        with subprocess.Popen(
            ["bash", "-c", command, program, *flags], pass_fds=(from_us, to_us),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:  # fmt: skip
            os.close(from_us)
            os.close(to_us)
            pipe = loop.run_until_complete(_opened(read, write))
            try:
                yield Browser(loop, pipe)
            finally:
                pipe.close()
                os.killpg(process.pid, signal.SIGKILL)
                loop.run_until_complete(asyncio.sleep(0))
                loop.close()


async def _opened(read: int, write: int) -> BrowserPipe:
    pipe = BrowserPipe()
    await pipe.open(read, write)
    return pipe
