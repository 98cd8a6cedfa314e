"""What a rendered page shows, what it asked, and when it has settled."""

import json
import time

import pytest

from smartcrawl.extract.browser.page import BrowserAnswer, BrowserRefusal
from smartcrawl.rules.rendering import (
    OTHER_SITE,
    POLLING,
    TOO_MANY,
    WRONG_METHOD,
    PageRequestRules,
)
from tests.extract.browser.shown import HOST, Shown, Site, html, text

ITEMS = """<ul id=list></ul><script>
fetch('/items.json').then(r => r.json()).then(items => {
  for (const item of items) {
    const a = document.createElement('a');
    Object.assign(a, {href: '/item/' + item, textContent: item});
    list.appendChild(document.createElement('li')).append(a);
  }
});
</script>"""


def test_a_page_shows_what_its_scripts_write(shown: Shown) -> None:
    site = Site({"/": html(ITEMS), "/items.json": json.dumps(["one", "two"])})
    found = shown.renders(site)
    assert found.settled
    assert found.url == f"http://{HOST}/"
    assert '<li><a href="/item/one">one</a></li>' in found.html
    assert "<script" not in found.html
    assert [(made.method, made.url, made.status) for made in found.requests] == [
        ("GET", f"http://{HOST}/", 200),
        ("GET", f"http://{HOST}/items.json", 200),
    ]


def test_a_request_is_recorded_with_validators_and_digest(shown: Shown) -> None:
    tagged = [("ETag", '"1"'), ("Last-Modified", "Sun, 29 Nov 2026 00:00:00 GMT")]
    answer = BrowserAnswer(200, [("Content-Type", "application/json"), *tagged], b"[1]")
    made = shown.renders({"/": html(ITEMS), "/items.json": answer}).requests[1]
    assert (made.etag, made.last_modified) == ('"1"', "Sun, 29 Nov 2026 00:00:00 GMT")
    assert made.digest.hex().startswith("080a9ed428559ef602668b4c00f114f1")


TIMER = "<p id=p></p><script>setTimeout(() => p.textContent = 'late', %d)</script>"
VISIBLE = """<div id=d></div><script>
new IntersectionObserver(([e]) => e.isIntersecting && fetch('/more').then(r => r.text())
  .then(t => d.innerHTML = t)).observe(d)
</script>"""
CHAIN = """<p id=p></p><script>
let n = 0;
const next = () => fetch('/more?' + 'x'.repeat(++n)).then(r => r.text())
  .then(t => { p.textContent += t; if (n < 9) setTimeout(next, 50) });
setTimeout(next, 2990);
</script>"""


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (TIMER % 1_500, "late"),
        (TIMER % 2_900, "late"),
        (TIMER % 9_000, ""),
        (VISIBLE, "seen"),
        (CHAIN, "seen" * 9),
    ],
)
def test_a_page_settles_by_its_own_clock(shown: Shown, body: str, words: str) -> None:
    found = shown.renders({"/": html(body), "/more": "seen"})
    assert found.settled
    assert text(found.html) == f"T {words}".strip()


def test_the_clock_stands_still_while_a_request_is_answered(shown: Shown) -> None:
    site = Site({"/": html(ITEMS), "/items.json": '["slow"]'})
    site.seconds = 0.7
    assert text(shown.renders(site, seconds=1).html) == "T slow"


def test_the_time_of_requests_is_not_the_time_of_the_page(shown: Shown) -> None:
    began = time.monotonic()
    found = shown.shows("<script>for(;;);</script>", seconds=0.5)
    assert found.problem == "it has not settled in 0.5 seconds"
    assert time.monotonic() - began < 20
    assert shown.shows("<p>next").settled


CHANCE = """<p id=p></p><script>
const a = crypto.getRandomValues(new Uint8Array(4));
p.textContent = [Math.random(), Math.random(), ...a, crypto.randomUUID()].join(' ');
</script>"""


def test_chance_repeats_itself(shown: Shown) -> None:
    one, two = shown.shows(CHANCE).html, shown.shows(CHANCE).html
    assert one == two
    assert len(set(text(one).split())) > 6


def test_the_clock_begins_at_the_given_time(shown: Shown) -> None:
    body = "<p id=p></p><script>p.textContent = Math.floor(Date.now() / 100000)</script>"
    assert text(shown.shows(body, now=1_700_000_000).html) == "T 17000000"


@pytest.mark.long
def test_a_page_may_wait_for_an_element(shown: Shown) -> None:
    body = TIMER.replace("p.textContent = 'late'", "p.innerHTML = '<b class=x>late</b>'") % 6_000
    assert text(shown.shows(body, wait_for="b.x").html) == "T late"
    found = shown.shows(body, wait_for="b.y", seconds=7)
    assert found.problem == "no element matches b.y"
    assert "late" in found.html


SCROLLED = """<div id=list></div><script>
let n = 0;
const load = () => fetch('/more?page=' + ++n).then(r => r.text()).then(t => {
  list.insertAdjacentHTML('beforeend', '<p style="height: 3000px">' + t + n + '</p>') });
load();
addEventListener('scroll', () => {
  if (n < 6 && scrollY + innerHeight > document.documentElement.scrollHeight - 600) load() });
</script>"""


def test_a_page_may_be_scrolled_to_its_end(shown: Shown) -> None:
    site = Site({"/": html(SCROLLED), "/more": "part"})
    assert text(shown.renders(site).html) == "T part1"
    assert text(shown.renders(site, scroll=3).html) == "T part1 part2 part3 part4"
    assert text(shown.renders(site, scroll=20).html).split()[-1] == "part6"


def test_a_hash_route_is_a_page(shown: Shown) -> None:
    body = "<p id=p></p><script>p.textContent = location.hash.slice(2)</script>"
    found = shown.renders({"/": html(body)}, "/#/guide/intro")
    assert text(found.html) == "T guide/intro"
    assert found.url == f"http://{HOST}/#/guide/intro"


def test_an_address_that_scripts_write_is_the_last_one(shown: Shown) -> None:
    body = "<a href=x>x</a><script>history.pushState({}, '', '/a/b')</script>"
    found = shown.shows(body)
    assert found.url == f"http://{HOST}/a/b"
    assert f'<base href="http://{HOST}/a/b">' in found.html


SHADOWS = """<x-open><b slot=name>named</b>plain</x-open><x-closed></x-closed><script>
class Open extends HTMLElement { connectedCallback() {
  this.attachShadow({mode: 'open'}).innerHTML =
    '<p>[<slot name="name"></slot>]<slot></slot><slot name="none">else</slot></p>' } }
class Closed extends HTMLElement { connectedCallback() {
  this.attachShadow({mode: 'closed'}).innerHTML = '<a href="/inside">closed</a>' } }
customElements.define('x-open', Open); customElements.define('x-closed', Closed);
</script><details><summary>sum</summary>more</details>"""


def test_shadow_trees_are_read_open_and_closed(shown: Shown) -> None:
    found = shown.shows(SHADOWS)
    assert text(found.html) == "T [ named ] plain else closed sum more"
    assert '<a href="/inside">closed</a>' in found.html


def test_frames_of_the_same_site_are_read(shown: Shown) -> None:
    frames = ("/in/frame", "http://docs.site.example/frame", "http://other.test/frame")
    body = "".join(f'<iframe src="{address}"></iframe>' for address in frames)
    body += "<iframe srcdoc='<p>inline'></iframe><script>0</script>"
    site = Site(
        {
            "/": html(body),
            "/in/frame": html("<a href=page>framed</a>"),
            "http://docs.site.example/frame": html("<p>beside"),
            "http://other.test/frame": html("<p>foreign"),
        }
    )
    found = shown.renders(site)
    assert text(found.html) == "T framed beside inline"
    assert f'<a href="http://{HOST}/in/page">framed</a>' in found.html
    assert found.refused_hosts() == {("other.test", OTHER_SITE): 1}


def test_a_page_of_another_is_not_read_in_its_place(shown: Shown) -> None:
    body = "<p>here</p><script>location.href = '/else'</script>"
    site = Site({"/": html(body), "/else": html("<p>there")})
    found = shown.renders(site)
    assert text(found.html) == "T here"
    assert found.moved_to == f"http://{HOST}/else"
    assert [asked.url for asked in site.asked] == [f"http://{HOST}/"]


def test_redirects_of_the_page_are_followed_on_its_site(shown: Shown) -> None:
    moved = BrowserAnswer(302, [("Location", "/new")], b"")
    found = shown.renders({"/": moved, "/new": html("<p>new")})
    assert (text(found.html), found.url) == ("T new", f"http://{HOST}/new")


def test_an_api_of_another_host_is_declared(shown: Shown) -> None:
    body = "<p id=p></p><script>fetch('http://api.test/x').then(r => r.text())"
    body += ".then(t => p.textContent = t, e => p.textContent = 'refused')</script>"
    pages = {"/": html(body), "http://api.test/x": "data"}
    found = shown.renders(pages)
    assert text(found.html) == "T refused"
    assert found.refused_hosts() == {("api.test", OTHER_SITE): 1}
    declared = PageRequestRules(HOST, data_hosts=("api.test",))
    assert text(shown.renders(pages, rules=declared).html) == "T data"


def test_the_caller_may_refuse_a_request(shown: Shown) -> None:
    why = BrowserRefusal("robots.txt forbids it")
    found = shown.renders({"/": html(ITEMS + "<p>shell"), "/items.json": why})
    assert (text(found.html), found.settled) == ("T shell", True)
    assert found.refused_hosts() == {(HOST, "robots.txt forbids it"): 1}


def test_scripts_come_from_the_hosts_that_the_page_names(shown: Shown) -> None:
    body = "<p id=p></p><script src='http://cdn.test/a.js'></script>"
    site = Site({"/": html(body), "http://cdn.test/a.js": "p.textContent = 'by a CDN'"})
    assert text(shown.renders(site).html) == "T by a CDN"


POST = """<p id=p></p><script>
fetch('/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{"q":1}'})
  .then(r => r.text()).then(t => p.textContent = t, e => p.textContent = 'refused')
</script>"""


def test_only_a_declared_post_is_sent(shown: Shown) -> None:
    site = Site({"/": html(POST), "/graphql": "answer"})
    found = shown.renders(site)
    assert text(found.html) == "T refused"
    assert found.streams
    assert found.refused_hosts() == {(HOST, WRONG_METHOD): 1}
    reads = PageRequestRules(HOST, reads_by_post=lambda url: url.endswith("/graphql"))
    found = shown.renders(site, rules=reads)
    assert (text(found.html), found.streams) == ("T answer", False)
    assert site.asked[-1].body == '{"q":1}'


@pytest.mark.parametrize("script", ["new WebSocket('ws://site.example/')", "new EventSource('/s')"])
def test_a_stream_is_noted(shown: Shown, script: str) -> None:
    assert shown.shows(f"<p>x</p><script>{script}</script>").streams


def test_styles_and_images_are_empty(shown: Shown) -> None:
    body = """<p id=p></p><link rel=stylesheet href=/s.css onload="p.append('style ')">
    <img src=http://other.test/i.png onload="p.append('image ')" onerror="p.append('broken')">"""
    site = Site({"/": html(body)})
    found = shown.renders(site)
    assert sorted(text(found.html).split()) == ["T", "image", "style"]
    assert len(site.asked) == len(found.requests) == 1


def test_a_poll_is_answered_twelve_times_and_ends_nothing(shown: Shown) -> None:
    body = "<p id=p></p><script>setInterval(() => fetch('/poll?t=' + Date.now()).then("
    body += "r => p.textContent += '.'), 200)</script>"
    site = Site({"/": html(body), "/poll": "x"})
    found = shown.renders(site)
    assert found.settled
    assert text(found.html) == "T " + "." * 12
    refused = found.refused_hosts()
    assert refused.keys() == {(HOST, POLLING)}
    assert refused[HOST, POLLING] in {3, 4}  # a busy machine ends between two polls


WORKER = """<p id=p></p><script>
new Worker('/worker.js').onmessage = e => p.textContent = e.data
</script>"""


def test_a_page_gets_no_more_bytes_than_a_page_may(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smartcrawl.extract.browser.page.MOST_BYTES", 10_000)
    script = "(async () => { for (const name of 'abc') await fetch('/' + name).then(r => r.text())"
    script += ".then(t => p.textContent += t[0], e => p.textContent += '-') })()"
    body = html(f"<p id=p></p><script>{script}</script>")
    found = shown.renders({"/": body} | {f"/{name}": name * 6_000 for name in "abc"})
    assert text(found.html) == "T ab-"
    assert found.refused_hosts() == {(HOST, TOO_MANY): 1}


def test_a_worker_works_and_its_requests_are_answered(shown: Shown) -> None:
    script = "fetch('/data').then(r => r.text()).then(t => postMessage(t))"
    site = Site({"/": html(WORKER), "/worker.js": script, "/data": "worked"})
    assert text(shown.renders(site).html) == "T worked"


def test_a_page_knows_nothing_of_the_one_before(shown: Shown) -> None:
    body = """<p id=p></p><script>p.textContent = [document.cookie, localStorage.x].join();
    document.cookie = 'c=1'; localStorage.x = 1</script>"""
    assert shown.shows(body).html == shown.shows(body).html


def test_a_page_that_is_refused_has_no_markup(shown: Shown) -> None:
    found = shown.renders({"/": BrowserRefusal("no")})
    assert (found.html, found.settled) == ("", False)
    assert "net::ERR_" in found.problem


@pytest.mark.long
def test_three_hundred_renderings_give_one_text_and_do_not_grow(shown: Shown) -> None:
    site = Site(
        {"/": html(ITEMS + VISIBLE), "/items.json": json.dumps(list("abcdef")), "/more": "m"}
    )
    assert len({shown.renders(site).html for _ in range(300)}) == 1


CUSTOM = """<p id=p></p><script>fetch('http://api.test/x', {headers: {'X-A': '1'}})
.then(r => r.text()).then(t => p.textContent = t, e => p.textContent = 'refused')</script>"""


def test_permission_for_a_declared_host_is_not_asked(shown: Shown) -> None:
    site = Site({"/": html(CUSTOM), "http://api.test/x": "data"})
    declared = PageRequestRules(HOST, data_hosts=("api.test",))
    assert text(shown.renders(site, rules=declared).html) == "T data"
    assert [asked.method for asked in site.asked] == ["GET", "GET"]
    found = shown.renders(site)
    assert text(found.html) == "T refused"
    assert found.refused_hosts() == {("api.test", OTHER_SITE): 1}
