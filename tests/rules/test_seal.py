"""When a run is complete (docs/decisions.md)."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.model import Fault, Outcome
from smartcrawl.rules.run_orders import ORDER_REASONS
from smartcrawl.rules.seal import (
    MAX_UNREACHABLE_SHARE,
    Evidence,
    counts_as_unanswered,
    depth_reason_kind,
    is_unanswered_status,
    only_by_order,
    only_not_due,
    ordered_depth,
    page_limit_reason,
    reasons_against_seal,
    seed_led_to,
)
from smartcrawl.rules.traps import Trap
from tests.rules.manual import numbers, section, table

WHOLE = {"seeds_failed": (), "cut_by": (), "visits": 100, "unreachable": 0, "pending": 0}
STATUSES = [*range(100, 600), None]

#: What makes each reason of the manual, and how it reads then.
GAPS = {
    "sitemap_failed: URL (why)": (
        {"sitemaps_failed": ("http://a.example/map (503)",)},
        "sitemap_failed: http://a.example/map (503)",
    ),
    "seed_failed: URL (why)": (
        {"seeds_failed": ("http://a.example/ (404)",)},
        "seed_failed: http://a.example/ (404)",
    ),
    "pin_failed: URL (why)": (
        {"pins_failed": ("http://a.example/ (disallowed)",)},
        "pin_failed: http://a.example/ (disallowed)",
    ),
    "wall: URL": ({"walls": ("/a", "/b", "/c")}, "wall: /a and 2 more"),
    "unreachable: N of M visits": ({"unreachable": 11}, "unreachable: 11 of 100 visits"),
    "pending: N": ({"pending": 1}, "pending: 1"),
    "not_due: N": ({"skipped": 7, "not_due": 1}, "not_due: 1"),
    "no_pages": ({"visits": 0}, "no_pages"),
}
#: What others notice while a run goes on.
CUTS = [
    "max_pages",
    "max_pages: N, by order",
    "depth_limit: N, by order: M addresses",
    "redirects_left: URL",
    "code_failed: CLASS at FILE:LINE",
    "interrupted",
    *ORDER_REASONS.values(),
    "robots_unknown: HOST",
    "host_down: HOST",
    "too_many_links: URL",
    "too_many_urls: URL",
    "sitemap_nesting: URL",
    "listing: PLACE (why)",
    "login: why",
    "render: no browser",
    "render: N pages wait",
    "data: robots.txt of HOST forbids N requests",
    "data: N requests to HOST: WHY",
    *(f"{trap}: N addresses" for trap in Trap),
]


@pytest.mark.covers("RD-07")
@pytest.mark.parametrize(
    ("failed", "said"),
    [
        ("http://a.example/", "http://a.example/ (the login failed)"),
        (
            "http://a.example/ (redirected to http://a.example/b)",
            "http://a.example/ (redirected to http://a.example/b: the login failed)",
        ),
        ("http://a.example/ (HTTP status 503)", "http://a.example/ (HTTP status 503)"),
        ("http://a.example/ (out of scope)", "http://a.example/ (out of scope)"),
    ],
)
def test_a_login_that_failed_is_why_a_seed_was_not_read(failed: str, said: str):
    evidence = Evidence(**WHOLE | {"seeds_failed": (failed,)})
    assert reasons_against_seal(evidence) == (f"seed_failed: {failed}",)
    lost = replace(evidence, cut_by=("interrupted", "login: refused (HTTP 401)"))
    assert reasons_against_seal(lost)[2:] == (f"seed_failed: {said}",)


@pytest.mark.parametrize("reason", [row[0].strip("`") for row in table("When a run is complete")])
def test_every_gap_of_the_manual_is_a_reason(reason):
    told, found = GAPS.get(reason, ({"cut_by": (reason,)}, reason))

    assert reasons_against_seal(Evidence(**(WHOLE | told))) == (found,)


def test_every_reason_of_the_rules_is_in_the_manual():
    told = [row[0] for row in table("When a run is complete")]

    assert sorted(told) == sorted(f"`{reason}`" for reason in [*GAPS, *CUTS])


@pytest.mark.covers("RD-07")
def test_several_gaps_are_told_in_the_order_in_which_they_cut_deepest():
    evidence = Evidence(
        ("http://a.example/", "http://b.example/"), ("max_pages", "interrupted"), 0, 1, 7
    )

    assert reasons_against_seal(evidence) == (
        "max_pages",
        "interrupted",
        "seed_failed: http://a.example/",
        "seed_failed: http://b.example/",
        "unreachable: 1 of 0 visits",
        "pending: 7",
        "no_pages",
    )


@pytest.mark.covers("RD-07")
def test_a_run_without_a_gap_is_complete():
    assert reasons_against_seal(Evidence(**WHOLE)) == ()
    assert reasons_against_seal(Evidence(**(WHOLE | {"visits": 1}))) == ()
    # A library that has no items any more was listed to its end.
    assert reasons_against_seal(Evidence(**(WHOLE | {"visits": 0, "is_empty": True}))) == ()


@pytest.mark.covers("RD-07")
@pytest.mark.parametrize("visits", [1, 9, 10, 30, 99, 100, 1000])
def test_a_tenth_of_the_visits_may_bring_no_answer(visits):
    (share,) = re.findall(r"more than (\d+) % of the visits", section("When a run is complete"))
    most = visits * int(share) // 100

    assert int(share) / 100 == MAX_UNREACHABLE_SHARE
    assert reasons_against_seal(Evidence((), (), visits, most, 0)) == ()
    assert len(reasons_against_seal(Evidence((), (), visits, most + 1, 0))) == 1


@pytest.mark.covers("U-16", "M-11")
def test_what_was_not_due_counts_as_seen_once_it_was_asked_since_the_last_complete_run():
    skipped = WHOLE | {"visits": 0, "skipped": 10}

    assert reasons_against_seal(Evidence(**skipped)) == ()
    assert reasons_against_seal(Evidence(**skipped | {"not_due": 3})) == ("not_due: 3",)
    assert reasons_against_seal(Evidence(**skipped | {"visits": 1, "unreachable": 1})) == ()
    assert reasons_against_seal(Evidence(**skipped | {"visits": 2, "unreachable": 2})) == (
        "unreachable: 2 of 2 visits",
    )


@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_counts_as_unreachable_is_the_manuals(outcome):
    rows = table("What counts as unreachable")
    own = [row[1:] for row in rows if row[0] in (outcome, "any other")]
    for status in STATUSES:
        told = next(
            counts
            for statuses, counts in own
            if statuses in ("any", "any other, or none") or status in numbers(statuses)
        )

        assert counts_as_unanswered(outcome, status) == (told == "yes"), status


@pytest.mark.covers("RD-07")
@given(
    st.builds(
        Evidence,
        st.lists(st.text(), max_size=2).map(tuple),
        st.lists(st.text(), max_size=2).map(tuple),
        st.integers(0, 50),
        st.integers(0, 50),
        st.integers(0, 3),
    )
)
def test_only_a_run_without_any_gap_is_complete(evidence):
    gaps = (
        evidence.seeds_failed,
        evidence.cut_by,
        evidence.pending,
        not evidence.visits,
        10 * evidence.unreachable > evidence.visits,
    )

    assert bool(reasons_against_seal(evidence)) == any(gaps)


def test_of_our_own_statuses_these_are_answers():
    answers = {Fault.TOO_MANY_REDIRECTS, Fault.LOGIN, Fault.EXTRACTION_BUDGET}
    answers |= {Fault.NO_BROWSER, *range(Fault.NOT_A_SITEMAP, Fault.OUT_OF_MEMORY + 1)}
    for fault in Fault:
        assert counts_as_unanswered(fault.outcome, fault) is (fault not in answers), fault


@pytest.mark.covers("U-16", "RD-07")
@pytest.mark.parametrize(
    ("unreachable", "silent", "told"),
    [
        (0, 10, ()),
        (5, 5, ()),
        (0, 11, ("not_due: 11",)),
        (5, 6, ("not_due: 6",)),
        (11, 1, ("unreachable: 11 of 50 visits", "not_due: 1")),
    ],
)
def test_what_was_asked_in_vain_before_may_be_a_tenth_of_all(unreachable, silent, told):
    found = Evidence((), (), 50, unreachable, 0, skipped=50, silent=silent)

    assert reasons_against_seal(found) == told
    if told:  # on top of what was not asked at all
        more = replace(found, not_due=3)
        assert reasons_against_seal(more)[-1] == f"not_due: {silent + 3}"


def test_nothing_is_silent_unless_it_is_said():
    assert Evidence((), (), 1, 0, 0).silent == 0


@pytest.mark.parametrize(
    ("status", "unanswered"),
    [
        (None, False),
        (404, False),
        (403, False),
        (429, True),
        (500, True),
        (503, True),
        (1002, True),
        (1004, False),
        (1103, True),
        (1204, False),
        (1217, False),
    ],
)
def test_a_stored_status_says_whether_its_visit_had_no_answer(status, unanswered):
    assert is_unanswered_status(status) is unanswered


@pytest.mark.parametrize(
    ("reasons", "only"),
    [
        ([], False),
        (["not_due: 3"], True),
        (["not_due: 3", "not_due: 4"], True),
        (["not_due: 3", "max_pages"], False),
        (["max_pages"], False),
    ],
)
def test_a_run_left_out_only_pages_that_were_not_due(reasons, only):
    assert only_not_due(reasons) is only


@pytest.mark.parametrize(
    ("reasons", "only"),
    [
        ([], False),
        (["depth_limit: 2, by order: 1 address, http://a.example/"], True),
        (["max_pages: 1,000, by order", "pending: 3"], True),
        (["max_pages: 5, by order", "depth_limit: 2, by order: 1 address, x"], True),
        (["depth_limit: 2, by order: 1 address, x", "pending: 3"], False),
        (["max_pages: 5, by order", "unreachable: 3 of 4 visits"], False),
        (["max_pages: 5, by order", "seed_failed: http://a.example/"], False),
        (["max_pages", "pending: 3"], False),
        (["pending: 3"], False),
        (["not_due: 3"], False),
    ],
)
def test_a_run_saw_a_part_by_order_alone(reasons, only):
    assert only_by_order(reasons) is only


def test_a_limit_of_one_run_is_said_with_its_number():
    assert [page_limit_reason(most) for most in (0, 1, 1000)] == [
        "max_pages", "max_pages: 1, by order", "max_pages: 1,000, by order",
    ]  # fmt: skip
    assert depth_reason_kind(3) == "depth_limit: 3, by order"
    found = ("pending: 4", f"{depth_reason_kind(12)}: 2 addresses, such as http://a.example/")
    assert ordered_depth(found) == 12
    assert ordered_depth(["max_pages: 4, by order"]) is None


@pytest.mark.parametrize(
    ("reason", "led"),
    [
        (
            "seed_failed: http://a.example/ (redirected to https://b.example/x)",
            "https://b.example/x",
        ),
        ("seed_failed: http://a.example/ (redirected to https://b.example/: 404)", None),
        ("seed_failed: http://a.example/ (redirected to ftp://b.example/)", None),
        ("seed_failed: http://a.example/ (HTTP status 404)", None),
        ("pin_failed: http://a.example/ (redirected to https://b.example/)", None),
        ("seed_failed: http://a.example/ (redirected to https://b.example/) x", None),
    ],
)
def test_where_a_failed_seed_led_to_is_told(reason, led):
    assert seed_led_to(reason) == led


def test_the_first_wall_is_named_and_the_others_are_counted():
    one, two, three = (
        reasons_against_seal(Evidence(**WHOLE, walls=("/a", "/b", "/c")[:count]))
        for count in (1, 2, 3)
    )

    assert (one, two, three) == (("wall: /a",), ("wall: /a and 1 more",), ("wall: /a and 2 more",))
