"""Equal content is indexed once, under an original that no order of arrival decides (M-23)."""

from array import array
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.model.batches import Batch
from smartcrawl.rules.clones import KEPT, NONE, OWN
from smartcrawl.rules.model import Outcome
from tests.registry.build import LATER, LONG, NOW, Desk, closing

HOST = "http://a.example/"
A, B, C = HOST + "a", HOST + "bb", HOST + "ccc"  #: best first


def fresh() -> Desk:
    desk = Desk()
    desk.open()
    return desk


def next_run(desk: Desk, *urls: str) -> None:
    desk.seal()
    desk.open()
    if urls:
        desk.reach(*urls)


# What makes a clone


@pytest.mark.covers("R2-52", "R4-13", "R4-15", "G-21")
@pytest.mark.parametrize(
    ("text", "bodies", "clone"),
    [
        pytest.param("x" * 200, ("1", "2"), True, id="200-characters"),
        pytest.param("x" * 199, ("1", "2"), False, id="199-characters"),
        pytest.param("short", ("1", "2"), False, id="short"),
        pytest.param("short", ("1", "1"), True, id="short-and-equal-bodies"),
        pytest.param(
            "",
            ("1", "2"),
            False,
            id="empty",
        ),
        pytest.param(
            "",
            ("1", "1"),
            False,
            id="empty-and-equal-bodies",
        ),
    ],
)
def test_short_texts_are_clones_only_of_equal_bytes_and_empty_ones_never(
    text: str, bodies: tuple[str, str], clone: bool
):
    desk = fresh()

    desk.index(A, text, body=bodies[0])
    desk.index(B, text, body=bodies[1])

    expected = {A: None, B: A if clone else None}
    assert desk.originals() == expected
    desk.seal()
    assert desk.originals() == expected


def test_two_hundred_characters_are_counted_as_characters_not_bytes():
    desk = fresh()
    text = "ü" * 199

    desk.index(A, text, body="1")
    desk.index(B, text, body="2")

    assert desk.originals() == {A: None, B: None}


def test_equal_text_under_another_title_is_another_content():
    desk = fresh()

    desk.index(A, LONG, title="One")
    desk.index(B, LONG, title="Two")

    assert desk.originals() == {A: None, B: None}


def test_a_short_text_has_one_original_for_each_body():
    desk = fresh()
    d = HOST + "dddd"
    for url, body in ((A, "1"), (B, "2"), (C, "1"), (d, "2")):
        desk.index(url, "short", body=body)

    desk.seal()

    assert desk.originals() == {A: None, B: None, C: A, d: B}


def test_short_pages_whose_bodies_come_to_differ_are_clones_no_more():
    """A comment or a script changed: the content is the same, the bytes are not."""
    desk = fresh()
    desk.index(A, "short", body="1")
    desk.index(B, "short", body="1")
    next_run(desk, A, B)

    desk.write(desk.visit(B, "short", body="2", outcome=Outcome.SAME))
    desk.write(touched=[desk.number(A)])
    desk.seal()

    assert desk.originals() == {A: None, B: None}


# Who is the original


@pytest.mark.covers("R4-16", "M-23")
def test_while_a_run_goes_on_the_standing_original_stays():
    """Search must never see two, and nothing is promoted twice."""
    desk = fresh()
    desk.add(HOST + "deep/and/long", depth=5)

    desk.index(HOST + "deep/and/long", LONG)
    desk.add(A, depth=1)
    desk.index(A, LONG)

    assert desk.originals() == {HOST + "deep/and/long": None, A: HOST + "deep/and/long"}
    desk.seal()
    assert desk.originals() == {HOST + "deep/and/long": A, A: None}


@pytest.mark.covers("R4-15")
def test_at_the_end_of_a_later_run_the_standing_original_still_stays():
    desk = fresh()
    desk.add(HOST + "deep/and/long", depth=5)
    desk.index(HOST + "deep/and/long", LONG)
    next_run(desk, HOST + "deep/and/long")
    desk.write(touched=[1])

    desk.index(A, LONG)
    desk.seal()

    assert desk.originals() == {HOST + "deep/and/long": None, A: HOST + "deep/and/long"}


RANKS = [  # each but the last is before the next by one rank alone; (depth, url, first run)
    (0, HOST + "long/address", 2),
    (1, HOST + "bb", 2),
    (1, HOST + "bbb", 1),
    (1, HOST + "bbc", 2),
    (1, HOST + "cccc", 2),
]


@pytest.mark.parametrize(("first", "second"), list(pairwise(RANKS)))
@pytest.mark.parametrize("turned", [False, True], ids=["best-first", "best-last"])
def test_newcomers_are_ranked_by_depth_length_and_first_run(first, second, turned):
    desk = fresh()
    members = [second, first] if turned else [first, second]
    for depth, url, run in members:
        if run == 1:
            desk.add(url, depth=depth)
    desk.seal()
    desk.open()
    for depth, url, run in members:
        if run == 2:
            desk.add(url, depth=depth)
        else:
            desk.reach(url, depth=depth)
    for _, url, _ in members:
        desk.index(url, LONG)

    desk.seal()

    assert desk.originals() == {first[1]: None, second[1]: first[1]}


@pytest.mark.parametrize("turned", [False, True])
def test_where_all_else_is_equal_the_id_decides(turned):
    desk = fresh()
    urls = [HOST + "a", HOST + "b"]
    for url in reversed(urls) if turned else urls:
        desk.index(url, LONG)

    desk.seal()

    first, second = (url for (url,) in desk.rows("SELECT url FROM record ORDER BY id"))
    assert desk.originals() == {first: None, second: first}


MEMBERS = {HOST + "p/long": 1, HOST + "q": 2, HOST + "r": 2, HOST + "s/even/longer": 1}


@settings(deadline=None, max_examples=25)
@given(
    order=st.permutations(sorted(MEMBERS)),
    cuts=st.sets(st.integers(1, 3)),
    leaver=st.booleans(),
    leaves_at=st.integers(0, 4),
)
def test_no_order_of_arrival_decides(order, cuts, leaver, leaves_at):
    """Nor the borders of batches, nor when a page that had the content before leaves it."""
    desk = fresh()
    old = HOST + "the/old/original"
    if leaver:
        desk.index(old, LONG)
        desk.seal()
        desk.open()
        desk.reach(old)
    for url, depth in MEMBERS.items():
        desk.add(url, depth=depth)
    visits = [desk.visit(url, LONG) for url in order]
    if leaver:
        visits.insert(leaves_at, desk.visit(old, "another text"))
    borders = [0, *sorted(cuts), len(visits)]
    for start, end in pairwise(borders):
        desk.write(*visits[start:end])

    desk.seal()

    originals = desk.originals()
    if leaver:
        assert originals.pop(old) is None
    best = HOST + "p/long"
    assert originals == {url: None if url == best else best for url in MEMBERS}
    desk.close()


# Leaving


@pytest.mark.covers("R4-14", "RD-10")
def test_when_the_original_leaves_a_clone_takes_over_without_a_gap():
    desk = fresh()
    for url in (C, A, B):
        desk.index(url, LONG)
    next_run(desk, A, B, C)

    desk.write(desk.visit(A, "another text"))

    assert desk.originals() == {A: None, B: None, C: B}
    assert desk.rows("SELECT count(*) FROM content") == [(2,)]
    desk.seal()
    assert desk.originals() == {A: None, B: None, C: B}


def entries(desk: Desk) -> dict[str, int]:
    """What each page has in the index."""
    return dict(desk.rows("SELECT url, entry FROM record"))


def group(*urls: str) -> Desk:
    """Pages of equal content after their first run."""
    desk = fresh()
    for url in urls:
        desk.index(url, LONG)
    desk.seal()
    return desk


def answers(desk: Desk, url: str, outcome: Outcome, status: int | None) -> None:
    """A new run in which this page answers so, and every other one of the group 304."""
    others = [known for (known,) in desk.rows("SELECT url FROM record") if known != url]
    desk.open()
    desk.reach(url, *others)
    desk.write(desk.visit(url, outcome=outcome, status=status))
    desk.write(*(desk.visit(o, outcome=Outcome.NOT_MODIFIED, status=304) for o in others))


@pytest.mark.covers("R4-14")
@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.NOT_FOUND, 404),
        (Outcome.SOFT_404, 200),
        (Outcome.HTTP_ERROR, 403),
        (Outcome.BAD_HEADER, 1003),
    ],
)
def test_a_living_clone_takes_over_from_a_lost_original_which_keeps_its_entry(
    outcome: Outcome, status: int
):
    desk = group(A, B, C)

    answers(desk, A, outcome, status)
    assert desk.originals() == {A: None, B: A, C: A}, "search sees no two while the run goes on"
    desk.seal()

    assert desk.originals() == {A: None, B: None, C: B}
    assert entries(desk) == {A: KEPT, B: OWN, C: NONE}


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.TRANSIENT, 503),
        (Outcome.UNREACHABLE, 1103),
        (Outcome.UNPROCESSABLE, 1200),
        (Outcome.EXCLUDED, None),
    ],
)
def test_an_original_that_says_nothing_of_itself_stays_the_original(
    outcome: Outcome, status: int | None
):
    """A bad night re-elects nobody: only what is lost stands behind the living."""
    desk = group(A, B)

    answers(desk, A, outcome, status)
    desk.seal()

    assert desk.originals() == {A: None, B: A}


def without_link_to_a(desk: Desk, status: int | None = 304) -> None:
    """A new run in which no link leads to A, and B answers so; None: B is not visited."""
    desk.closing = closing(orphan_threshold=1)
    desk.open()
    if status is not None:
        desk.reach(B)
        outcome = Outcome.NOT_MODIFIED if status == 304 else Outcome.TRANSIENT
        desk.write(desk.visit(B, outcome=outcome, status=status))


@pytest.mark.covers("R4-14", "M-23")
@pytest.mark.parametrize("status", [1102, 1103, 1109, 503, 429, 403, 1212])
def test_an_orphan_whose_look_fails_hands_over_and_stays_as_a_clone(status: int):
    desk = group(A, B)
    without_link_to_a(desk)

    assert desk.verify({A: status}) == [A]
    assert desk.originals() == {A: None, B: A}
    desk.seal(look=False)

    assert desk.originals() == {A: B, B: None}
    assert entries(desk) == {A: NONE, B: OWN}
    assert desk.removed == []
    answers(desk, A, Outcome.NOT_MODIFIED, 304)
    desk.seal()
    assert desk.originals() == {A: B, B: None}, "the standing original stays"


@pytest.mark.covers("M-23")
@pytest.mark.parametrize("status", [200, 304, 302])
def test_an_orphan_that_answers_its_look_stays_the_original_while_it_is_withheld(status: int):
    desk = group(A, B)
    without_link_to_a(desk)

    desk.verify({A: status})
    desk.seal(look=False)

    assert desk.rows("SELECT withheld FROM candidate") == [(1,)]
    assert desk.originals() == {A: None, B: A}


@pytest.mark.covers("M-23")
def test_an_orphan_hands_over_to_no_page_that_fails():
    desk = group(A, B)
    without_link_to_a(desk, status=503)

    desk.verify({A: 1102})
    desk.seal(look=False)
    assert desk.originals() == {A: None, B: A}

    without_link_to_a(desk)
    desk.verify({A: 1102})
    desk.seal(look=False)
    assert desk.originals() == {A: B, B: None}


@pytest.mark.covers("M-23")
@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.REDIRECT, 302),
        (Outcome.NOT_ACCEPTABLE, 200),
        (Outcome.TRANSIENT, 503),
    ],
)
def test_an_orphan_hands_over_to_no_other_orphan_and_to_no_page_without_its_content(
    outcome: Outcome, status: int
):
    """Where B is to be removed, the guard withholds it."""
    desk = group(A, B, C)
    without_link_to_a(desk, status=None)
    desk.closing = closing(orphan_threshold=1, min_count=0)
    desk.reach(B)
    desk.write(desk.visit(B, outcome=outcome, status=status))

    desk.verify({A: 1102, C: 1102})
    desk.seal(look=False)

    assert desk.removed == []
    assert desk.originals() == {A: None, B: A, C: A}


def skip(desk: Desk, url: str) -> None:
    """The run reaches a page that is not due."""
    desk.reach(url)
    desk.committed(Batch(skipped=array("q", [desk.number(url)])), None, NOW)


@pytest.mark.covers("M-23")
@pytest.mark.parametrize("answer", [304, 503])
def test_an_orphan_hands_over_to_a_page_that_is_not_due_by_its_last_answer(answer: int):
    desk = group(A, B)
    without_link_to_a(desk, status=answer)
    desk.seal(look=False)
    without_link_to_a(desk, status=None)
    skip(desk, B)

    desk.verify({A: 1102})
    desk.seal(look=False)

    assert desk.originals() == ({A: B, B: None} if answer == 304 else {A: None, B: A})


@pytest.mark.covers("M-23")
@pytest.mark.parametrize("asked", [False, True])
def test_an_orphan_hands_over_to_no_page_that_a_cut_run_left_pending(asked: bool):
    desk = group(A, B)
    without_link_to_a(desk, status=None)
    desk.verify({A: 1102})  # B answers its look, and its removal is withheld
    desk.seal(look=False)
    without_link_to_a(desk, status=304 if asked else None)

    desk.reach(B)
    desk.seal("max_pages")

    assert desk.removed == []
    assert desk.originals() == ({A: B, B: None} if asked else {A: None, B: A})


@pytest.mark.covers("M-23")
def test_a_run_that_is_cut_while_it_looks_moves_no_original():
    desk = group(A, B)
    without_link_to_a(desk)

    desk.verify({A: 1102})
    desk.seal("cancelled")

    assert desk.originals() == {A: None, B: A}


@pytest.mark.covers("M-23")
@pytest.mark.parametrize("linked", [False, True])
def test_a_look_counts_until_a_link_leads_to_the_page_again(linked: bool):
    """The next run sees only a part of the source, and in it a page with the same content."""
    desk = group(A)
    without_link_to_a(desk, status=None)
    desk.verify({A: 1102})
    desk.seal(look=False)
    desk.open()
    if linked:
        desk.reach(A)

    desk.index(B, LONG)
    assert desk.originals() == {A: None, B: A}, "search sees no two while the run goes on"
    desk.seal("max_pages")

    assert desk.originals() == ({A: None, B: A} if linked else {A: B, B: None})


@pytest.mark.covers("M-23")
def test_what_took_over_stays_the_original_in_the_sweep_of_its_run():
    """Its content is new in this run, and another page of the group is removed."""
    desk = group(A, C)
    desk.closing = closing(orphan_threshold=1, lost_threshold=1)
    desk.open()
    desk.reach(C)
    desk.write(desk.visit(C, outcome=Outcome.NOT_FOUND, status=404))
    desk.index(B, LONG)

    desk.verify({A: 1102})
    desk.seal(look=False)

    assert [page.url for page in desk.removed] == [C]
    assert desk.originals() == {A: B, B: None, C: None}


def test_a_lost_clone_is_none_and_gets_no_entry():
    desk = group(A, B)

    answers(desk, B, Outcome.NOT_FOUND, 404)
    desk.seal()

    assert desk.originals() == {A: None, B: None}
    assert entries(desk) == {A: OWN, B: NONE}
    answers(desk, B, Outcome.NOT_MODIFIED, 304)
    desk.seal()
    assert desk.originals() == {A: None, B: A}


def test_a_lost_page_is_the_original_only_when_nobody_living_is():
    desk = group(A, B)
    answers(desk, A, Outcome.NOT_FOUND, 404)
    desk.seal()
    assert desk.originals() == {A: None, B: None}
    assert entries(desk) == {A: KEPT, B: OWN}

    desk.open()
    desk.reach(A, B)
    for url in (A, B):
        desk.write(desk.visit(url, outcome=Outcome.NOT_FOUND, status=404))
    desk.seal()

    assert desk.originals() == {A: None, B: None}
    assert entries(desk) == {A: KEPT, B: OWN}, "nobody living: who was it stays it"


def test_an_original_that_is_found_again_comes_after_the_one_that_took_over():
    desk = group(A, B)
    answers(desk, A, Outcome.NOT_FOUND, 404)
    desk.seal()

    answers(desk, A, Outcome.NOT_MODIFIED, 304)
    desk.seal()

    assert desk.originals() == {A: B, B: None}
    assert entries(desk) == {A: NONE, B: OWN}


@pytest.mark.covers("RD-10")
def test_a_clone_takes_over_the_content_of_an_original_that_is_removed():
    """Without a request, and in the transaction that removes it."""
    desk = group(A, B, C)
    desk.closing = closing(lost_threshold=1)
    answers(desk, A, Outcome.NOT_FOUND, 404)

    desk.seal()

    assert [page.url for page in desk.removed] == [A]
    assert desk.originals() == {A: None, B: None, C: B}
    assert entries(desk) == {A: NONE, B: OWN, C: NONE}
    assert desk.rows("SELECT count(*) FROM content") == [(1,)]
    assert desk.rows("SELECT url FROM record WHERE content IS NULL") == [(A,)]


@pytest.mark.parametrize("leaver", [A, B])
def test_the_last_that_remains_is_an_original(leaver: str):
    desk = fresh()
    desk.index(A, LONG)
    desk.index(B, LONG)
    next_run(desk, A, B)

    desk.write(desk.visit(leaver, "another text"), now=LATER)

    assert desk.originals() == {A: None, B: None}


def test_pages_that_change_together_stay_one_group():
    desk = fresh()
    desk.index(A, LONG)
    desk.index(B, LONG)
    next_run(desk, A, B)

    desk.write(desk.visit(B, LONG + "new"), desk.visit(A, LONG + "new"))
    desk.seal()

    assert desk.originals() == {A: None, B: A}
    assert desk.rows("SELECT count(*) FROM content") == [(1,)]


def test_members_that_had_the_content_before_come_before_newcomers():
    """The original left; what search knew already takes over, however deep it lies."""
    desk = fresh()
    deep = HOST + "deep/and/long"
    desk.add(deep, depth=7)
    desk.index(A, LONG)
    desk.index(deep, LONG)
    next_run(desk, A, deep)
    desk.write(touched=[desk.number(deep)])
    desk.index(B, LONG)

    desk.write(desk.visit(A, "another text"))
    desk.seal()

    assert desk.originals() == {A: None, deep: None, B: deep}


def test_a_run_without_newcomers_settles_nothing_anew():
    desk = fresh()
    desk.add(HOST + "deep/and/long", depth=5)
    desk.index(HOST + "deep/and/long", LONG)
    next_run(desk, HOST + "deep/and/long")
    desk.index(A, LONG)
    before = desk.seal() and desk.originals()

    desk.open()
    desk.reach(A, HOST + "deep/and/long")
    desk.write(touched=[1, 2])
    desk.seal()

    assert desk.originals() == before


def test_nobody_is_the_clone_of_a_clone_or_of_other_content():
    desk = fresh()
    texts = [LONG, LONG + "b", "short"]
    for run in range(4):
        for page in range(6):
            url = f"{HOST}{page}"
            desk.page(url)
            desk.reach(url)
            desk.write(desk.visit(url, texts[(page * run + run) % 3], body=str(page % 2)))
        desk.seal()
        desk.open()

        wrong = """
        SELECT count(*) FROM record r JOIN record o ON o.no = r.duplicate_of
         WHERE o.duplicate_of IS NOT NULL OR o.content IS DISTINCT FROM r.content OR o.no = r.no
            OR r.entry <> 0 OR o.entry <> 1
        """
        without = """
        SELECT count(*) FROM record WHERE content IS NOT NULL GROUP BY content
        HAVING count(*) FILTER (WHERE duplicate_of IS NULL AND entry = 1) = 0
        """
        assert desk.rows(wrong) == [(0,)]
        assert desk.rows(without) == []
