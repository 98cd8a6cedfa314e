"""What would remove a page and when, told before it happens; compared with the rules that do it."""

from dataclasses import replace

import pytest

from smartcrawl.rules.absence import Counts, Policy, is_abandoned, is_gone
from smartcrawl.rules.forecast import (
    Facts,
    Finding,
    ForecastWay,
    forecast_finding,
    forecast_outcome,
    forecast_ways,
    outcome_as_last_time,
    reason_without_validators,
)
from smartcrawl.rules.model import Extraction, Fault, Outcome, RemovalRule, Standing, Status, Word
from smartcrawl.rules.reindex import DECISIONS, status_after

NOW = 1_000_000
POLICY = Policy()
HELD = Facts(Standing.HELD, Finding.FINE)


def current(facts: Facts, policy: Policy = POLICY, **told: bool) -> ForecastWay | None:
    """The way that is under way."""
    first = forecast_ways(facts, policy, **told)[0]
    return first if first.current else None


def texts(facts: Facts, policy: Policy = POLICY, **told: bool) -> list[str]:
    return [str(way) for way in forecast_ways(facts, policy, **told)]


# What was found


@pytest.mark.parametrize(
    ("status", "word", "http_status", "reached", "found"),
    [
        (Status.INDEXED, Word.UNCHANGED, 304, True, Finding.FINE),
        (Status.INDEXED, Word.NEW, 200, True, Finding.FINE),
        (Status.CRAWLED, Word.REDIRECTED, 200, True, Finding.FINE),  # an alias
        (Status.INDEXED, Word.REDIRECTED, 301, True, Finding.MOVED),
        (Status.INDEXED, Word.EXCLUDED, 406, True, Finding.NOT_ACCEPTABLE),
        (Status.OUT_OF_SCOPE, Word.EXCLUDED, None, True, Finding.EXCLUDED),
        (Status.OUT_OF_SCOPE, Word.ORPHANED, 200, False, Finding.EXCLUDED),
        (Status.INDEXED, Word.ORPHANED, 200, False, Finding.ABSENT),
        (Status.ERROR, Word.LOST, 404, False, Finding.ABSENT),
        (Status.ERROR, Word.LOST, 404, True, Finding.GONE),
        (Status.ERROR, Word.FAILED, 410, True, Finding.GONE),
        (Status.GONE, Word.GONE, 410, True, Finding.GONE),
        (Status.ERROR, Word.LOST, 403, True, Finding.TROUBLE),
        (Status.ERROR, Word.FAILED, 503, True, Finding.TROUBLE),
        (Status.ERROR, Word.FAILED, 1103, True, Finding.TROUBLE),
    ],
)
def test_what_a_record_tells_of_its_last_visit(status, word, http_status, reached, found):
    assert forecast_finding(status, word, http_status, POLICY, reached=reached) is found


def test_a_sound_page_that_stands_aside_is_told_by_its_canonical_page():
    told = (Status.INDEXED, Word.UNCHANGED, 304, POLICY)

    assert forecast_finding(*told, reached=True, aside=True) is Finding.CANONICAL
    assert forecast_finding(*told, reached=False, aside=True) is Finding.ABSENT


def test_which_statuses_count_is_the_operators_choice():
    every = Policy(purge_statuses=None)

    assert forecast_finding(Status.ERROR, Word.LOST, 403, every, reached=True) is Finding.GONE
    assert forecast_finding(Status.ERROR, Word.FAILED, 503, every, reached=True) is Finding.TROUBLE


# What would remove it


def test_nothing_removes_what_is_not_held():
    assert forecast_ways(Facts(Standing.BARE, Finding.GONE, 404, gone_count=9), POLICY) == ()


@pytest.mark.parametrize(
    ("gone", "text"),
    [
        (0, "3 more runs get 404"),
        (1, "2 more runs get 404"),
        (2, "1 more run gets 404"),
        (9, "1 more run gets 404"),
    ],
)
def test_a_page_that_is_gone_goes_after_the_runs_that_are_missing(gone, text):
    facts = replace(HELD, finding=Finding.GONE, http_status=404, gone_count=gone)

    assert texts(facts)[0] == text


@pytest.mark.covers("R4-07")
@pytest.mark.parametrize(
    ("age", "gone", "text"),
    [
        (1, 0, "2 more complete runs find no link to it"),
        (2, 0, "1 more complete run finds no link to it"),
        (1, 1, "1 more complete run finds no link to it"),
        (9, 0, "1 more complete run finds no link to it"),
    ],
)
def test_an_orphan_goes_after_the_complete_runs_that_are_missing(age, gone, text):
    facts = replace(HELD, finding=Finding.ABSENT, age=age, gone_count=gone)
    way = current(facts)

    assert (str(way), way.rule, way.complete) == (text, RemovalRule.ORPHAN, True)


@pytest.mark.covers("R4-07", "M-05")
@pytest.mark.parametrize(
    ("status", "lost", "gone", "age", "runs"),
    [
        (403, 2, 0, 0, 1),
        (403, 1, 0, 1, 1),
        (403, 1, 0, 0, 2),
        (403, 2, 0, 1, 1),
        (404, 1, 1, 0, 2),
        (503, 2, 0, 0, 3),  # the look would find the server in trouble
        (200, 2, 0, 1, 2),
        (None, 2, 0, 0, 3),
        (403, 0, 0, 0, 3),
    ],
)
def test_the_runs_in_which_an_orphan_was_lost_count(status, lost, gone, age, runs):
    facts = replace(
        HELD, finding=Finding.ABSENT, http_status=status, lost_count=lost, gone_count=gone, age=age
    )

    assert current(facts).runs == runs
    excluded = replace(facts, finding=Finding.EXCLUDED)
    assert current(excluded).runs == max(1, 3 - gone - age)


def test_by_the_second_reading_a_loss_takes_nothing_longer_than_no_loss():
    lost = replace(HELD, finding=Finding.ABSENT, http_status=403, lost_count=1)

    assert current(lost, replace(POLICY, sum_of_thresholds=True)).runs == POLICY.orphan_threshold


def test_by_the_second_reading_a_page_that_was_gone_and_never_lost_waits_for_the_sum():
    """It keeps links only, so it cannot be lost."""
    gone = replace(HELD, finding=Finding.ABSENT, http_status=404, gone_count=1)

    assert current(gone, replace(POLICY, sum_of_thresholds=True)).runs == 5


@pytest.mark.covers("M-21")
def test_a_page_that_moved_away_goes_whatever_statuses_count():
    moved = replace(HELD, finding=Finding.GONE, http_status=301, gone_count=2)

    way = current(moved, replace(POLICY, purge_statuses=frozenset()))

    assert (way.rule, str(way)) == (RemovalRule.GONE, "1 more run gets 301")


def test_an_excluded_page_ages_like_an_orphan_unless_it_goes_at_once():
    facts = replace(HELD, finding=Finding.EXCLUDED, age=1)
    later, at_once = current(facts), current(facts, remove_excluded=True)

    assert (later.rule, str(later)) == (
        RemovalRule.EXCLUDED,
        "2 more complete runs leave it out",
    )
    assert (at_once.rule, str(at_once)) == (RemovalRule.EXCLUDED, "1 more run leaves it out")
    aged = current(facts, Policy(orphan_min_age=60), remove_excluded=True)
    assert (aged.min_age, aged.due(NOW)) == (0, True)
    absent = current(replace(facts, finding=Finding.ABSENT), remove_excluded=True)
    assert absent.runs == 2  # the choice is about excluded pages only


@pytest.mark.parametrize(
    ("found", "rule", "text"),
    [
        (
            Finding.MOVED,
            RemovalRule.REDIRECT,
            "1 more run finds that it redirects to an indexed page",
        ),
        (
            Finding.NOT_ACCEPTABLE,
            RemovalRule.NOT_ACCEPTABLE,
            "1 more run finds that it must not be indexed",
        ),
        (
            Finding.CANONICAL,
            RemovalRule.CANONICAL,
            "1 more run finds its canonical page indexed",
        ),
    ],
)
def test_what_the_answer_itself_says_goes_with_the_next_run(found, rule, text):
    way = current(replace(HELD, finding=found))

    assert (way.rule, str(way), way.complete) == (rule, text, False)


def test_links_alone_have_nothing_to_lose_but_by_a_redirect():
    links = replace(HELD, standing=Standing.LINKS)

    for found in (Finding.NOT_ACCEPTABLE, Finding.CANONICAL):
        assert current(replace(links, finding=found)) is None
    assert current(replace(links, finding=Finding.MOVED)).rule is RemovalRule.REDIRECT


@pytest.mark.parametrize("found", [Finding.FINE, Finding.TROUBLE])
def test_nothing_is_under_way_for_a_page_that_answers_or_fails_otherwise(found):
    facts = replace(HELD, finding=found)

    assert current(facts) is None
    assert texts(facts) == [
        "3 runs in a row get 404 or 410",
        "3 complete runs in a row find no link to it",
    ]


@pytest.mark.parametrize(
    ("found", "runs"),
    [
        (Finding.TROUBLE, 1),
        (Finding.EXCLUDED, 1),
        (Finding.ABSENT, 1),
        (Finding.FINE, 3),
        (Finding.MOVED, 3),
        (Finding.NOT_ACCEPTABLE, 3),
        (Finding.CANONICAL, 3),
    ],
)
def test_an_error_that_does_not_count_keeps_what_was_counted_and_an_answer_clears_it(found, runs):
    """M-08: 404, 503, 404 is twice gone; 404, 200, 404 is once."""
    facts = replace(HELD, finding=found, gone_count=2, gone_since=NOW)
    gone = next(
        way for way in forecast_ways(facts, Policy(lost_min_age=60)) if way.rule is RemovalRule.GONE
    )

    assert gone.runs == runs
    assert gone.earliest == (NOW + 60 if runs == 1 else None)


@pytest.mark.parametrize("found", list(Finding))
def test_a_pinned_page_goes_only_for_what_it_answers(found):
    rules = {way.rule for way in forecast_ways(replace(HELD, finding=found, pinned=True), POLICY)}

    assert rules <= {RemovalRule.GONE, RemovalRule.NOT_ACCEPTABLE}
    assert (RemovalRule.NOT_ACCEPTABLE in rules) is (found is Finding.NOT_ACCEPTABLE)


@pytest.mark.covers("M-07")
@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("found", sorted(set(Finding) - {Finding.EXCLUDED}))
def test_a_page_of_a_listing_goes_with_the_complete_run_that_does_not_list_it(found, pinned):
    listed = replace(HELD, finding=found, pinned=pinned, is_listed=True, age=9, absent_since=NOW)
    policy = Policy(orphan_threshold=9, orphan_min_age=99)
    [way] = [w for w in forecast_ways(listed, policy) if w.rule is RemovalRule.ABSENT]
    more = "more " if found is Finding.ABSENT else ""

    assert str(way) == f"1 {more}complete run does not list it"
    assert (way.current, way.complete, way.min_age) == (found is Finding.ABSENT, True, 0)
    assert way.due(NOW) is (found is Finding.ABSENT)
    rules = {w.rule for w in forecast_ways(listed, policy)}
    assert not rules & {RemovalRule.ORPHAN, RemovalRule.EXCLUDED}


@pytest.mark.covers("M-07")
def test_a_listed_page_has_the_listing_first_and_its_answers_after_it():
    listed = replace(HELD, is_listed=True)

    assert texts(listed) == [
        "1 complete run does not list it",
        "3 runs in a row get 404 or 410 although it is listed",
    ]
    gone = replace(listed, finding=Finding.GONE, http_status=404, gone_count=2)
    assert texts(gone)[0] == "1 more run gets 404 although it is listed"
    assert texts(replace(gone, pinned=True))[0] == "1 more run gets 404"


@pytest.mark.covers("R3-71", "M-07")
def test_only_its_listing_removes_an_item_of_a_library():
    item = replace(HELD, is_listed=True, is_answered=False)

    assert texts(item) == ["1 complete run does not list it"]
    assert texts(replace(item, finding=Finding.ABSENT)) == ["1 more complete run does not list it"]
    rules = {way.rule for way in forecast_ways(replace(item, finding=Finding.GONE), POLICY)}
    assert rules == {RemovalRule.GONE, RemovalRule.ABSENT}  # a pinned one, which no listing has


def test_a_page_of_a_listing_that_is_left_out_ages_as_any_other():
    listed = replace(HELD, finding=Finding.EXCLUDED, is_listed=True, age=1)

    assert (current(listed).rule, current(listed).runs) == (RemovalRule.EXCLUDED, 2)
    assert current(replace(listed, pinned=True)) is None


def test_without_statuses_that_count_nothing_goes_for_being_lost():
    rules = {way.rule for way in forecast_ways(HELD, Policy(purge_statuses=frozenset()))}

    assert rules == {RemovalRule.ORPHAN}


# When


def test_ages_are_told_as_the_earliest_time():
    policy = Policy(lost_min_age=60, orphan_min_age=90)
    gone = replace(HELD, finding=Finding.GONE, http_status=404, gone_count=2, gone_since=NOW)
    absent = replace(HELD, finding=Finding.ABSENT, age=2, absent_since=NOW)

    assert current(gone, policy).earliest == NOW + 60
    assert current(absent, policy).earliest == NOW + 90
    assert current(gone).earliest is None
    assert current(absent).earliest is None
    assert [way.earliest for way in forecast_ways(HELD, policy)] == [None, None]
    assert [way.min_age for way in forecast_ways(HELD, policy)] == [60, 90]


@pytest.mark.parametrize("age", [0, 1, 59, 60])
@pytest.mark.parametrize("gone", [0, 1, 2, 3])
def test_a_gone_page_is_due_exactly_when_the_next_run_removes_it(gone, age):
    policy = Policy(lost_min_age=60)
    since = NOW - age if gone else None
    facts = replace(HELD, finding=Finding.GONE, http_status=404, gone_count=gone, gone_since=since)
    counts = Counts(gone + 1, gone + 1, since, NOW if since is None else since)

    removed = is_gone(counts, Outcome.NOT_FOUND, 404, policy, NOW)

    assert current(facts, policy).due(NOW) is removed


@pytest.mark.parametrize("by_sum", [False, True])
@pytest.mark.parametrize("waited", [0, 60])
@pytest.mark.parametrize("age", [0, 1, 2, 3])
@pytest.mark.parametrize("gone", [0, 1, 2])
def test_an_orphan_is_due_exactly_when_the_next_run_removes_it(gone, age, waited, by_sum):
    policy = Policy(orphan_min_age=60, sum_of_thresholds=by_sum)
    since = NOW - waited if age else None
    facts = replace(HELD, finding=Finding.ABSENT, age=age, gone_count=gone, absent_since=since)

    removed = is_abandoned(gone, age + 1, NOW if since is None else since, policy, NOW)

    assert current(facts, policy).due(NOW) is removed


def test_what_is_not_under_way_is_never_due():
    assert not any(
        way.due(NOW) for way in forecast_ways(HELD, Policy(lost_threshold=1, orphan_threshold=1))
    )


# What the last visit was


@pytest.mark.parametrize(
    ("outcome", "http_status"),
    [
        (Outcome.NOT_MODIFIED, 304),
        (Outcome.SAME, 200),
        (Outcome.CHANGED, 200),
        (Outcome.NOT_ACCEPTABLE, 406),
        (Outcome.ALIAS, 200),
        (Outcome.REDIRECT, 301),
        (Outcome.NOT_FOUND, 404),
        (Outcome.SOFT_404, 200),
        (Outcome.HTTP_ERROR, 403),
        (Outcome.TRANSIENT, 503),
        (Outcome.BAD_HEADER, 1001),
        (Outcome.UNREACHABLE, 1103),
        (Outcome.UNPROCESSABLE, 1200),
        (Outcome.EXCLUDED, None),
    ],
)
@pytest.mark.parametrize("standing", list(Standing))
def test_a_record_tells_what_its_last_visit_found(standing, outcome, http_status):
    verdict = DECISIONS[outcome][standing]
    before = {Standing.HELD: Status.INDEXED, Standing.LINKS: Status.CRAWLED}
    status = status_after(verdict.action, outcome, before.get(standing, Status.PENDING), standing)
    found = forecast_outcome(status, verdict.word, http_status)

    if outcome is Outcome.NOT_MODIFIED and standing is Standing.BARE:
        assert found is Outcome.BAD_HEADER  # nobody asks so for what is not held
    elif outcome in (Outcome.SAME, Outcome.ALIAS) and verdict.word in (Word.NEW, Word.MODIFIED):
        assert found is Outcome.CHANGED  # to a record they are the same
    else:
        assert found is outcome


@pytest.mark.parametrize(
    ("standing", "status", "word", "http_status", "outcome"),
    [
        (Standing.HELD, Status.INDEXED, Word.MODIFIED, 200, Outcome.NOT_MODIFIED),
        (Standing.HELD, Status.INDEXED, Word.UNCHANGED, 304, Outcome.NOT_MODIFIED),
        (Standing.HELD, Status.INDEXED, Word.UNCHANGED, 200, Outcome.NOT_MODIFIED),
        (Standing.LINKS, Status.CRAWLED, Word.EXCLUDED, 406, Outcome.NOT_MODIFIED),
        (Standing.HELD, Status.INDEXED, Word.EXCLUDED, 406, Outcome.NOT_ACCEPTABLE),
        (Standing.LINKS, Status.CRAWLED, Word.REDIRECTED, 200, Outcome.NOT_MODIFIED),
        (Standing.HELD, Status.INDEXED, Word.REDIRECTED, 301, Outcome.REDIRECT),
        (Standing.HELD, Status.ERROR, Word.LOST, 200, Outcome.SOFT_404),
        (Standing.HELD, Status.ERROR, Word.FAILED, 503, Outcome.TRANSIENT),
        (Standing.HELD, Status.ERROR, Word.FAILED, 1103, Outcome.UNREACHABLE),
        (Standing.HELD, Status.OUT_OF_SCOPE, Word.EXCLUDED, None, Outcome.NOT_MODIFIED),
        (Standing.HELD, Status.OUT_OF_SCOPE, Word.EXCLUDED, 404, Outcome.NOT_FOUND),
        (Standing.HELD, Status.ERROR, Word.LOST, int(Fault.OTHER_VERSION), Outcome.NOT_MODIFIED),
        # The end of a run replaced the word of the visit.
        (Standing.HELD, Status.INDEXED, Word.ORPHANED, 200, Outcome.NOT_MODIFIED),
        (Standing.HELD, Status.INDEXED, Word.SKIPPED, 304, Outcome.NOT_MODIFIED),
        (Standing.HELD, Status.ERROR, Word.ORPHANED, 404, Outcome.NOT_FOUND),
        (Standing.HELD, Status.INDEXED, Word.SKIPPED, 302, Outcome.REDIRECT),
        (Standing.BARE, Status.GONE, Word.GONE, 404, Outcome.NOT_FOUND),
        # Nothing is known of what they bring.
        (Standing.BARE, Status.PENDING, None, None, None),
        (Standing.BARE, Status.GONE, Word.DELETED, 200, None),
        (Standing.BARE, Status.CRAWLED, Word.EXCLUDED, 406, None),
        (Standing.BARE, Status.OUT_OF_SCOPE, Word.EXCLUDED, None, None),
    ],
)
def test_what_a_page_answers_that_answers_as_last_time(
    standing: Standing,
    status: Status,
    word: Word | None,
    http_status: int | None,
    outcome: Outcome | None,
):
    assert outcome_as_last_time(standing, status, word, http_status) is outcome


@pytest.mark.parametrize("word", [None, Word.ORPHANED, Word.SKIPPED, Word.DELETED])
def test_a_record_that_was_not_visited_tells_no_outcome(word):
    assert forecast_outcome(Status.INDEXED, word, 200) is None


@pytest.mark.parametrize(
    ("standing", "validators", "extraction", "ordered", "why"),
    [
        (Standing.HELD, True, Extraction.STANDS, False, None),
        (Standing.HELD, True, Extraction.AGAIN, False, None),
        (Standing.HELD, True, Extraction.REFUSED, False, None),
        (Standing.LINKS, True, Extraction.STANDS, False, None),
        (Standing.BARE, True, Extraction.STANDS, True, "no copy is stored"),
        (
            Standing.HELD,
            False,
            Extraction.STANDS,
            False,
            "no reliable validator is stored",
        ),
        (Standing.HELD, True, Extraction.WHOLE, False, "extracted with other settings"),
        (Standing.HELD, True, Extraction.WHOLE, True, "reindexing was ordered"),
    ],
)
def test_why_a_page_is_asked_without_validators(standing, validators, extraction, ordered, why):
    told = reason_without_validators(
        standing=standing, validators=validators, extraction=extraction, ordered=ordered,
        believed=True, unconfirmed=False,
    )  # fmt: skip

    assert told == why


def test_validators_that_are_not_believed_are_not_sent():
    facts = {
        "standing": Standing.HELD, "extraction": Extraction.STANDS, "ordered": False,
        "unconfirmed": False,
    }  # fmt: skip

    why = "the validators of its server are unreliable"
    assert reason_without_validators(**facts, validators=True, believed=False) == why
    assert "is stored" in reason_without_validators(**facts, validators=False, believed=False)


def test_a_file_without_a_validator_lacks_that_of_its_listing():
    facts = {
        "standing": Standing.HELD, "extraction": Extraction.STANDS, "ordered": False,
        "believed": True, "unconfirmed": False, "is_listed": True,
    }  # fmt: skip

    why = "no reliable validator in the listing"
    assert reason_without_validators(**facts, validators=False) == why
    assert reason_without_validators(**facts, validators=True) is None


def test_a_304_that_named_another_version_is_followed_by_a_request_without_validators():
    facts = {
        "standing": Standing.HELD, "extraction": Extraction.STANDS, "ordered": False,
        "validators": True, "unconfirmed": True,
    }  # fmt: skip

    assert (
        reason_without_validators(**facts, believed=True)
        == "its last 304 response named another version"
    )
    assert "unreliable" in reason_without_validators(**facts, believed=False)


def test_a_way_without_a_least_age_is_due_at_once():
    assert ForecastWay(RemovalRule.GONE, 1, "find 404", complete=False, current=True).due(NOW)
    assert not ForecastWay(
        RemovalRule.GONE, 1, "find 404", complete=False, current=True, min_age=1
    ).due(NOW)
    assert ForecastWay(RemovalRule.GONE, 1, "find 404", complete=False, current=True).min_age == 0


@pytest.mark.parametrize(
    ("status", "word", "http_status", "outcome"),
    [
        (Status.GONE, Word.GONE, 410, Outcome.NOT_FOUND),
        (Status.ERROR, Word.FAILED, 1199, Outcome.UNREACHABLE),
        (Status.ERROR, Word.LOST, 1000, Outcome.BAD_HEADER),
        (Status.ERROR, Word.LOST, 999, Outcome.HTTP_ERROR),
        (Status.INDEXED, Word.MOVED, 200, Outcome.CHANGED),
        (Status.CRAWLED, Word.MOVED, 200, Outcome.NOT_ACCEPTABLE),
    ],
)
def test_what_a_record_keeps_of_an_error_tells_its_outcome(status, word, http_status, outcome):
    assert forecast_outcome(status, word, http_status) is outcome


def test_any_status_that_counts_is_named_so():
    policy = Policy(purge_statuses=None)

    assert "3 runs in a row get an error that counts towards removal" in texts(HELD, policy)


def test_a_page_counts_as_never_lost_unless_its_record_says_so():
    assert Facts(Standing.HELD, Finding.ABSENT).lost_count == 0
