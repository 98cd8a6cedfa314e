"""`why` lists every modification of a page, newest first, and not only the last."""

import json
from typing import Any

from smartcrawl.reports.story_text import story_modification_lines
from tests.lab.lab import Lab, page


def _story(lab: Lab, path: str) -> dict[str, Any]:
    report = json.loads(lab.crawl.run("why", lab.site.url(path), "--format", "json").out)
    found: dict[str, Any] = report["records"][0]
    return found


def test_every_modification_is_listed_newest_first(lab: Lab):
    for words in ("one two three four", "one two three five", "one two three five", "six seven"):
        lab.pages["/"] = page("Home", text=words)
        lab.run()
    found = _story(lab, "/")["modifications"]
    assert found["count"] == 2
    assert [one["run"] for one in found["shown"]] == [4, 2]
    assert [one["wordsAdded"] for one in found["shown"]] == [2, 1]
    lines = lab.crawl.run("why", lab.site.url("/")).out.splitlines()
    (place,) = [at for at, line in enumerate(lines) if line.startswith("  modified")]
    assert "run 4: " in lines[place]
    assert lines[place].endswith("+2 -4 words")
    assert "run 2: " in lines[place + 1]
    assert lines[place + 2].startswith("  history")


def test_a_page_that_never_changed_has_no_such_line(lab: Lab):
    lab.pages["/"] = page("Home", text="words")
    lab.run()
    assert _story(lab, "/")["modifications"] == {"count": 0, "shown": []}
    assert "modified" not in lab.crawl.run("why", lab.site.url("/")).out


def test_a_long_list_is_bounded_and_says_how_many_are_left_out():
    one = {"at": "2026-11-30T00:00:00Z", "share": None, "wordsAdded": None, "wordsRemoved": None}
    shown = [one | {"run": run} for run in range(300, 200, -1)]
    lines = story_modification_lines({"count": 1_299, "shown": shown})
    assert lines[0] == "2026-11-30T00:00:00Z  run 300"
    assert lines[20:] == ["1,279 more before"]
