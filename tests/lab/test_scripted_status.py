"""A site that scripts write, without a browser, is not well in the status."""

import pytest

from tests.lab.lab import Lab
from tests.lab.lab_browser import LabBrowser
from tests.site_server import Page

_SHELL = Page('<!doctype html><title>App</title><div id="root"></div><script src="/a.js"></script>')
_MANUAL = "see docs/howto/javascript.md"


def _verdict(lab: Lab) -> str:
    out = lab.crawl.run("status").out
    (line,) = (one for one in out.splitlines() if one.startswith("  verdict"))
    return " ".join(line.split())


def test_a_page_without_text_is_not_healthy_where_nothing_is_rendered(lab: Lab):
    lab.pages["/"] = _SHELL
    lab.settings["RENDER"] = "no"
    lab.run()
    assert _verdict(lab) == (
        "verdict fresh; complete; not healthy: 1 of 1 page without text, perhaps written by"
        f" scripts: {_MANUAL}"
    )
    assert "1 without text" in lab.crawl.run("status", "--check", expect=1).out


def test_without_a_browser_the_verdict_says_why(lab: Lab, monkeypatch: pytest.MonkeyPatch):
    lab.pages["/"] = _SHELL
    lab.settings |= {"RENDER": "auto", "RENDER_BROWSER": "/no/such/browser"}
    monkeypatch.setattr(LabBrowser, "missing", "RENDER_BROWSER names no program")
    lab.run(expect=3)
    assert f"not complete: scripts write its pages, and no browser showed them: {_MANUAL}" in (
        _verdict(lab)
    )
    assert "render: no browser" in lab.crawl.run("status", "--check", expect=1).out
