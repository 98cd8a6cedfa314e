"""Pages that hang, grow or disturb: the browser takes the next page, whatever the last one did."""

import json
import time

import pytest

from smartcrawl.extract.browser.page import MAX_ELEMENTS
from smartcrawl.model.processes import descendants_of
from tests.extract.browser.shown import HOST, Shown, Site, html, shown_browser, text


def goes_on(shown: Shown) -> None:
    assert text(shown.shows("<p>next</p>").html) == "T next"


@pytest.mark.long(but=3)
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("<script>for (;;);</script>", "it has not settled in 2 seconds"),
        ("<script>for (;;) alert(1)</script>", "it opens dialogs on and on"),
        ("<p>x</p><script>for (let i = 0; i < 30; i++) print()</script>", ""),
        (
            "<p>x</p><script>setInterval(() => location = '/?' + Date.now(), 1)</script>",
            "it leads on and on",
        ),
        ("<p>x</p><script>location.reload()</script>", ""),
        (
            "<p>x</p><script>onbeforeunload = e => { e.preventDefault(); return 'stay' };"
            "location = '/else'</script>",
            "",
        ),
    ],
)
def test_a_page_that_does_not_end_is_left(shown: Shown, body: str, problem: str) -> None:
    assert shown.shows(body, seconds=2).problem == problem
    goes_on(shown)


def test_the_text_of_a_page_that_leads_on_stays(shown: Shown) -> None:
    found = shown.shows("<p>x</p><script>location.reload()</script>")
    assert (text(found.html), found.moved_to) == ("T x", f"http://{HOST}/")


def test_dialogs_are_dismissed(shown: Shown) -> None:
    body = "<p id=p></p><script>p.textContent = [alert(1), confirm(2), prompt(3)].join()</script>"
    assert text(shown.shows(body).html) == "T ,false,"


@pytest.mark.long
def test_a_page_of_many_elements_is_refused(shown: Shown) -> None:
    body = "<script>for (let i = 0; i < 300000; i++) document.body.append("
    # On a busy machine the elements take longer than the seconds of a page.
    found = shown.shows(f"{body}document.createElement('i'))</script>", seconds=50)
    assert (found.problem, found.html) == (f"it has more than {MAX_ELEMENTS:,} elements", "")
    goes_on(shown)


@pytest.mark.long
def test_a_page_of_long_text_is_refused(shown: Shown) -> None:
    body = "<p id=p></p><script>p.textContent = 'x'.repeat(9e6)</script>"
    found = shown.shows(body, seconds=50)
    assert (found.problem, found.html) == ("its markup is too long", "")
    goes_on(shown)


@pytest.mark.long
@pytest.mark.parametrize("part", ["new Array(1e6).fill(a.length)", "new Uint8Array(3e7).fill(1)"])
def test_a_page_that_takes_all_memory_is_ended(program: str, part: str) -> None:
    with shown_browser(program, memory=256) as small:
        found = small.shows(f"<script>const a = []; for (;;) a.push({part})</script>", seconds=30)
        assert found.problem in ("it takes too much memory", "its process crashed")
        goes_on(small)


@pytest.mark.long
def test_ten_megabytes_of_json_are_read(shown: Shown) -> None:
    body = "<p id=p></p><script>fetch('/big.json').then(r => r.json()).then(j => "
    site = Site({"/": html(f"{body}p.textContent = j.length)</script>")})
    site.pages["/big.json"] = json.dumps(["x" * 96] * 100_000)
    assert text(shown.renders(site).html) == "T 100000"


def test_a_page_leaves_no_process_that_works_on(shown: Shown) -> None:
    goes_on(shown)
    before = len(descendants_of(shown.browser.pid))
    shown.shows("<script>for (;;);</script>", seconds=0.3)
    until = time.monotonic() + 20
    while len(descendants_of(shown.browser.pid)) > before and time.monotonic() < until:
        time.sleep(0.05)
    assert len(descendants_of(shown.browser.pid)) <= before
