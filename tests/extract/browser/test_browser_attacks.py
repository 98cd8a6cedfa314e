"""Nothing that a page does reaches the network: ports that record what comes get nothing."""

import contextlib
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Thread

import pytest

from smartcrawl.extract.browser.page import BrowserAnswer
from tests.extract.browser.shown import HOST, Given, Shown, Site, html, text

ROOT = Path(__file__).resolve().parents[3]


class Recording:
    """A port of TCP and the same of UDP on loopback that keep what comes."""

    def __init__(self, host: str) -> None:
        self.tcp = socket.create_server((host, 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((host, self.port))
        self.got: list[str] = []
        self._ends, self._end = socket.socketpair()
        self._thread = Thread(target=self._record)
        self._thread.start()

    def _record(self) -> None:
        with selectors.DefaultSelector() as selector:
            for each in (self.tcp, self.udp, self._ends):
                selector.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj is self._ends:
                        return
                    if key.fileobj is self.tcp:
                        self.tcp.accept()[0].close()
                    else:
                        self.udp.recvfrom(2048)
                    self.got.append("TCP" if key.fileobj is self.tcp else "UDP")

    def close(self) -> None:
        self._end.close()
        self._thread.join()
        for each in (self.tcp, self.udp, self._ends):
            each.close()


@contextlib.contextmanager
def recording(host: str = "127.0.0.1") -> Iterator[Recording]:
    with contextlib.closing(Recording(host)) as ports:
        socket.create_connection((host, ports.port)).close()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(b"x", (host, ports.port))
        while len(ports.got) < 2:
            pass
        ports.got.clear()  # they notice what comes
        yield ports


#: Scripts that try to reach ``there``, ``host:port``, without leaving the page.
STAYING = {
    "fetch": "fetch('http://%s/fetch').catch(() => 0); fetch('http://%s/', {mode: 'no-cors'})",
    "xhr": "const x = new XMLHttpRequest; x.open('GET', 'http://%s/xhr'); x.send()",
    "beacon": "navigator.sendBeacon('http://%s/beacon', 'x')",
    "keepalive": "fetch('http://%s/k', {method: 'POST', keepalive: true, body: 'x'})",
    "websocket": "new WebSocket('ws://%s/ws')",
    "eventsource": "new EventSource('http://%s/es')",
    "worker": "new Worker(URL.createObjectURL(new Blob([\"fetch('http://%s/w');"
    "new WebSocket('ws://%s/w');importScripts('http://%s/i.js')\"])))",
    "shared worker": "new SharedWorker('/worker.js')",
    "service worker": "navigator.serviceWorker.register('/worker.js')",
    "image": "new Image().src = 'http://%s/i.png'",
    "audio": "new Audio('http://%s/a.mp3').play()",
    "script": "document.body.append(Object.assign(document.createElement('script'),"
    " {src: 'http://%s/s.js'}))",
    "style": "document.body.append(Object.assign(document.createElement('link'),"
    " {rel: 'stylesheet', href: 'http://%s/s.css'}))",
    "font": "new FontFace('f', 'url(http://%s/f.woff)').load()",
    "iframe": "document.body.append(Object.assign(document.createElement('iframe'),"
    " {src: 'http://%s/frame'}))",
    "popup": "open('http://%s/popup'); const a = Object.assign(document.createElement('a'),"
    " {href: 'http://%s/blank', target: '_blank'}); document.body.append(a); a.click()",
    "webrtc": "new RTCPeerConnection({iceServers: [{urls: 'stun:%s'}]}).createDataChannel('d')",
    "webtransport": "new WebTransport('https://%s/wt')",
    "download": "const a = Object.assign(document.createElement('a'), {href: 'http://%s/d',"
    " download: 'd'}); document.body.append(a); a.click()",
    "ping": "const a = Object.assign(document.createElement('a'), {href: '#x',"
    " ping: 'http://%s/ping'}); document.body.append(a); a.click()",
    "report": "document.head.append(Object.assign(document.createElement('meta'), {httpEquiv:"
    " 'Content-Security-Policy', content: \"img-src 'none'; report-uri http://%s/csp\"}))",
}  # fmt: skip
PREPARED = ("prefetch", "dns-prefetch", "preconnect", "prerender", "preload", "manifest", "icon")
HINTS = "".join(
    f'<link rel="{rel}" href="http://%s/{rel}">'
    for rel in PREPARED
) + (
    '<script type="speculationrules">{"prerender": [{"urls": ["http://%s/p"]}],'
    ' "prefetch": [{"urls": ["http://%s/q"]}]}</script>'
)  # fmt: skip
#: Pages that try to lead elsewhere, or to send something there.
LEAVING: dict[str, Given] = {
    "redirect": BrowserAnswer(302, [("Location", "http://%s/redirect")], b""),
    "refresh": html('<meta http-equiv="refresh" content="0; url=http://%s/refresh">'),
    "navigation": html("<script>location = 'http://%s/away'</script>"),
    "form": html('<form action="http://%s/form" method=post><input name=a></form>'
                 "<script>document.forms[0].submit()</script>"),
    "frame": html("<iframe src='/in'></iframe>"),
    "top": html("<iframe srcdoc=\"<script>top.location = 'http://%s/top'</script>\"></iframe>"),
}  # fmt: skip


def filled(given: Given, there: str) -> Given:
    if isinstance(given, BrowserAnswer):
        headers = [(name, value.replace("%s", there)) for name, value in given.headers]
        return BrowserAnswer(given.status, headers, given.body)
    assert isinstance(given, str)
    return given.replace("%s", there)


def attacked(shown: Shown, pages: Mapping[str, Given]) -> None:
    """Render a page that attacks, and demand that nothing came of it."""
    with recording() as ports:
        there = f"127.0.0.1:{ports.port}"
        site = Site({path: filled(page, there) for path, page in pages.items()})
        shown.renders(site)
        assert ports.got == []
        assert {asked.url.split("/")[2] for asked in site.asked} == {HOST}


def staying(scripts: Mapping[str, str]) -> dict[str, Given]:
    worker = "fetch('http://%s/worker'); new WebSocket('ws://%s/worker')"
    scoped = "".join(f"<script>(() => {{ {script} }})()</script>" for script in scripts.values())
    return {"/": html(f"<p>here</p>{scoped}"), "/worker.js": worker}


def test_no_script_of_a_page_reaches_the_network(shown: Shown) -> None:
    attacked(shown, staying(STAYING))


def test_no_hint_of_a_page_reaches_the_network(shown: Shown) -> None:
    attacked(shown, {"/": html(HINTS)})


@pytest.mark.long(but=1)
@pytest.mark.parametrize("name", LEAVING)
def test_no_page_leads_to_the_network(shown: Shown, name: str) -> None:
    attacked(shown, {"/": LEAVING[name], "/in": LEAVING["redirect"]})


@pytest.mark.long
@pytest.mark.parametrize("name", STAYING)
def test_no_script_alone_reaches_the_network(shown: Shown, name: str) -> None:
    attacked(shown, staying({name: STAYING[name]}))


def test_a_form_is_not_posted(shown: Shown) -> None:
    form = "<p>here</p><form action='/save' method=post></form>"
    site = Site({"/": html(f"{form}<script>document.forms[0].submit()</script>")})
    assert text(shown.renders(site).html) == "T here"
    assert [asked.method for asked in site.asked] == ["GET"]


#: Runs in mount name spaces of its own, where names are looked up at a server of the test and at a
#: socket in the place of systemd-resolved.
NAMES = """
import os, socket, sys, threading
from tests.extract.browser.shown import html, shown_browser
from tests.servers import chromium

got = []
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.bind(("127.0.0.1", 53))
local = socket.socket(socket.AF_UNIX)
os.makedirs("/run/systemd/resolve", exist_ok=True)
local.bind("/run/systemd/resolve/io.systemd.Resolve")
os.chmod("/run/systemd/resolve/io.systemd.Resolve", 0o777)
local.listen()

def record_dns():
    while True:
        got.append(dns.recvfrom(2048)[0])

def record_local():
    while True:
        got.append(local.accept())

for record in (record_dns, record_local):
    threading.Thread(target=record, daemon=True).start()
threading.Thread(
    target=lambda: socket.getaddrinfo("control.example", 80), daemon=True
).start()
while not any(isinstance(each, bytes) for each in got):
    pass
socket.socket(socket.AF_UNIX).connect("/run/systemd/resolve/io.systemd.Resolve")
while not any(isinstance(each, tuple) for each in got):
    pass
body = '<link rel=dns-prefetch href="//hint.example"><script>new WebSocket("ws://socket.example/");'
body += 'fetch("http://fetched.example/");new Image().src="http://image.example/"</script>'
got.clear()
with chromium() as program, shown_browser(program) as shown:
    print(shown.shows(body).problem or "settled")
print([name for name in got if not (isinstance(name, bytes) and b"control" in name)])
"""


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can put a server of names in place")
def test_no_name_is_looked_up(tmp_path: Path, program: str) -> None:
    names = tmp_path / "resolv.conf"
    names.write_text("nameserver 127.0.0.1\noptions attempts:1 timeout:1\n")
    script = (
        f'mount --bind {names} /etc/resolv.conf && mount -t tmpfs tmpfs /run && exec "$0" -c "$1"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, sys.executable, NAMES],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == ["settled", "[]"], done.stderr
