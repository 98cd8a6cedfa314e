"""The lane requests a known page only where its host has room for one more request."""

from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.core.downloader import Slot

from smartcrawl.engine.lane import lane as lanes
from smartcrawl.model.pages import Page


@pytest.mark.parametrize(("in_flight", "taken"), [(2, True), (3, False), (4, False)])
def test_a_host_with_all_its_requests_in_flight_gets_no_more(
    monkeypatch: pytest.MonkeyPatch, in_flight: int, taken: bool
):
    run: Any = SimpleNamespace(trust=SimpleNamespace(asks_head=lambda page: False), session=None)
    slot = Slot(3, 0, 0)
    slot.transferring.update(Request(f"http://a.example/{n}") for n in range(in_flight))
    crawler: Any = SimpleNamespace()
    lane: Any = lanes.RevalidationLane(crawler, run)
    begun: list[Any] = []
    lane._engine = SimpleNamespace(_slot=SimpleNamespace(add_request=begun.append))
    lane._downloader = SimpleNamespace(slots={"a.example": slot}, active=set())
    for name, answer in (("_usable_origin", object()), ("_allows", True), ("_start", None)):
        monkeypatch.setattr(lane, name, lambda *_, answer=answer: answer, raising=False)
    headers = {"If-None-Match": '"1"'}
    monkeypatch.setattr(lanes, "conditional_page_headers", lambda *_: headers)
    page = Page(1, "http://a.example/page", "a.example", 0)

    assert lane.take(page) is taken
    assert len(begun) == taken
    assert len(slot.transferring) == in_flight + taken
