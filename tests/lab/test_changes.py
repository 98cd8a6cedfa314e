"""What changed on pages: how much, below which headings, and what changed on many at once."""

from smartcrawl.registry.commit.changes import unpack_stored_change
from tests.lab.lab import Lab, page

CHANGES = """
SELECT r.url, c.words, c.added, c.removed, c.line_count, c.lines, c.detail, c.is_shared, c.body
  FROM change c JOIN record r ON r.no = c.record WHERE c.run = {run} ORDER BY r.url
"""


def changes(lab: Lab, run: int) -> dict[str, tuple]:
    """The changes of a run by path: the change, whether it is shared, the former body."""
    return {
        url.rsplit("/", 1)[1]: (
            unpack_stored_change(columns),
            bool(shared),
            body,
        )
        for url, *columns, shared, body in lab.rows(CHANGES.format(run=run))
    }


def lines_of(text: str, year: int) -> str:
    return f"<h1>Lamps</h1><p>{text}</p><h2>Notice</h2><p>Copyright {year} by Lamp Works</p>"


def site_of(lab: Lab, year: int, *texts: str) -> None:
    lab.pages["/"] = page("Home", *(f"/{at}" for at in range(len(texts))))
    for at, text in enumerate(texts):
        lab.pages[f"/{at}"] = f"<title>Lamp {at}</title>" + lines_of(text, year)


def test_a_modified_page_stores_what_changed(lab: Lab):
    site_of(lab, 2025, "the red lamp glows")
    lab.run()
    (body,) = lab.rows("SELECT hex(body_hash) FROM record WHERE url LIKE '%/0'")[0]
    site_of(lab, 2025, "the blue lamp glows brightly")
    lab.run()

    (change, shared, former), *others = changes(lab, 2).values()

    assert others == []
    assert (change.text.added, change.text.removed) == (2, 1)
    assert [(h.heading, h.added, h.removed) for h in change.text.headings] == [("Lamps", 2, 1)]
    assert [(line.is_added, line.text) for line in change.text.lines] == [
        (False, "the red lamp glows"),
        (True, "the blue lamp glows brightly"),
    ]
    assert (change.former_title, shared) == (None, False)
    assert bytes(former).hex().upper() == body


def test_a_year_that_changed_on_every_page_is_stored_once(lab: Lab):
    site_of(lab, 2025, "one", "two", "three", "four")
    lab.run()
    site_of(lab, 2026, "one", "two", "three and a half", "four")
    lab.run()

    found = changes(lab, 2)
    shared = lab.rows("SELECT pages, is_added, text FROM shared_change ORDER BY is_added")

    assert {path: is_shared for path, (_, is_shared, _) in found.items()} == {
        "0": True,
        "1": True,
        "2": False,
        "3": True,
    }
    assert [(pages, bool(is_added), text) for pages, is_added, text in shared] == [
        (4, False, "Copyright 2025 by Lamp Works"),
        (4, True, "Copyright 2026 by Lamp Works"),
    ]


def test_a_new_title_is_a_change_without_words(lab: Lab):
    lab.pages["/"] = "<title>Old</title><h1>Lamps</h1><p>glow</p>"
    lab.run()
    lab.pages["/"] = "<title>New</title><h1>Lamps</h1><p>glow</p>"
    lab.run()

    ((change, shared, _),) = changes(lab, 2).values()

    assert (change.former_title, change.text.is_nothing, shared) == ("Old", True, False)


def test_unchanged_pages_store_nothing(lab: Lab):
    site_of(lab, 2025, "one", "two")
    lab.run()
    lab.run()
    lab.run(force=1)

    assert lab.rows("SELECT count(*) FROM change") == [(0,)]
