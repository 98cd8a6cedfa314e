"""What workers of one run must agree on, each by the name that people know."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from smartcrawl import settings
from smartcrawl.model.options import Options
from smartcrawl.registry.runs.membership import differing_rules
from smartcrawl.rules.model import Mode
from smartcrawl.run.orders import Orders
from smartcrawl.run.shared import workers
from smartcrawl.run.shared.workers import shared_run_rules
from smartcrawl.sources.base import ModeRule
from smartcrawl.sources.request_keys import SourceRequest
from smartcrawl.sources.site import SiteSource

OPTIONS = Options.of(vars(settings) | {"DATA_DIR": "nowhere"})
ROOT = Path(__file__).resolve().parents[2]
SOURCE = SiteSource(
    name="docs",
    seeds=("https://a.example/", "https://b.example/"),
    url_patterns=("example", "two"),
    max_depth=3,
)


def digests(**changes: Any) -> dict[str, str]:
    """The digests of a worker whose source differs in these keys."""
    return shared_run_rules(SOURCE.model_copy(update=changes), OPTIONS, Orders())


@pytest.mark.parametrize(
    "changes",
    [
        {"seeds": ("https://a.example/",)},
        {"sitemaps": ("https://a.example/sitemap.xml",)},
        {"allowed_domains": ("a.example",)},
        {"url_patterns": ("example", "three")},
        {"excluded_patterns": ("private",)},
        {"keep_selectors": ("main",)},
        {"drop_selectors": ("nav",)},
        {"max_depth": 0},
        {"max_pages": 7},
        {"index_modes": (ModeRule(pattern="x", mode=Mode.LINKS_ONLY),)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_key_of_the_source_that_differs_is_named(changes: dict[str, Any]):
    assert differing_rules(digests(**changes), digests()) == list(changes)


def test_headers_that_differ_are_named_and_other_keys_of_requests_are_not():
    request = SourceRequest(delay=3, user_agent="docs/1", headers=(("X-Team", "docs"),))
    assert differing_rules(digests(request=request), digests()) == ["headers"]


def test_order_and_machine_make_no_difference():
    same = digests(
        seeds=SOURCE.seeds[::-1],
        url_patterns=("two", "example"),
        ca_file=Path("/etc/other.pem"),
        verify_certificates=True,
        ad_hoc=True,
    )
    assert same == digests()


def test_order_of_index_modes_counts_since_the_first_that_matches_does():
    modes = tuple(ModeRule(pattern=one, mode=Mode.LINKS_ONLY) for one in "ab")
    one, other = digests(index_modes=modes), digests(index_modes=modes[::-1])
    assert differing_rules(one, other) == ["index_modes"]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"depth_limit": 9}, "DEPTH_LIMIT"),
        ({"robots_obeyed": None}, "ROBOTSTXT_OBEY"),
        ({"host_url_budget": 9}, "HOST_URL_BUDGET"),
        ({"sweep_min_count": 9}, "SWEEP_MIN_COUNT"),
    ],
)
def test_a_setting_that_differs_is_named(change: dict[str, Any], name: str):
    if change == {"robots_obeyed": None}:
        change = {"robots_obeyed": not OPTIONS.robots_obeyed}
    found = shared_run_rules(SOURCE, replace(OPTIONS, **change), Orders())
    assert differing_rules(found, digests()) == [name]


def test_arguments_that_differ_are_named_as_what_they_stand_for():
    orders = Orders(max_pages=20, lost_threshold=9)
    found = shared_run_rules(SOURCE, OPTIONS, orders)
    assert differing_rules(found, digests()) == ["max_pages", "LOST_THRESHOLD"]
    assert shared_run_rules(SOURCE, OPTIONS, Orders(resume=True, force=True)) == digests()


def test_each_name_is_that_of_a_setting():
    page = (ROOT / "docs/settings.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `([A-Z_0-9]+)`", page, re.MULTILINE))
    names = {name for name in digests() if name.isupper()}
    assert names >= {*workers._SETTINGS, *workers._POLICY}
    assert names <= documented


def test_no_value_can_be_read_out_of_a_digest():
    assert {len(digest) for digest in digests().values()} == {16}
