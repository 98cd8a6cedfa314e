"""Queries as they are parsed, and the ranking of pages that an index proposes."""

from collections.abc import Collection, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.index.queries import (
    MOST,
    Query,
    Term,
    parsed_search_query,
    search_query_place,
    search_query_sources,
)
from smartcrawl.index.ranking import (
    POOL,
    NearPage,
    ProposedPage,
    RankedPart,
    joined_index_rankings,
    rank_searched_pages,
    search_term_weight,
)
from smartcrawl.index.searching import (
    MOST_PROPOSED,
    SpellingFound,
    corrected_search_query,
    existing_search_terms,
    search_pool,
)
from smartcrawl.model.exceptions import SearchQueryError


def page(name: str, *texts: str, title: str = "", headings: str = "") -> ProposedPage:
    parts = [RankedPart(n, headings, text) for n, text in enumerate(texts)]
    return ProposedPage(name, f"http://a.example/{name}", title, parts, frozenset())


def ranked(query: str, *pages: ProposedPage, weights: tuple[float, ...] | None = None) -> str:
    """The names of the pages that answer a query, best first."""
    terms = parsed_search_query(query).terms
    found = rank_searched_pages(terms, weights or [1.0] * len(terms), pages)
    return " ".join(one.page.key for one in found)


def test_a_word_with_signs_is_found_ahead_of_its_letter_however_many_pages_have_that():
    letters = [page(f"{n:03}", "C is a language", title="C") for n in range(80)]
    signed = page("signed", "what the compiler makes of C++17 here")
    others = [page(name, f"this is {name} here") for name in ("misc++", "gtk-c++", "c+++", "C#")]

    assert ranked("C++", *letters, *others, signed).split()[:2] == ["gtk-c++", "signed"]
    assert ranked("C#", *letters, *others, signed).split()[0] == "C#"
    assert ranked("C", *letters, *others, signed).split()[0] == "000"
    assert ranked("C++ language", *letters, *others, signed).split()[0] == "gtk-c++"


@pytest.mark.parametrize("query", ["C++ C++17", 'C++ "C++17 news"'])
def test_a_word_with_signs_leaves_the_words_that_go_on_behind_it_to_be_found(query: str):
    older = page("older", "C++ news are C++98 news of C++")
    asked = page("asked", "here is what one hears of it: C++17 news")

    assert ranked(query, older, asked).split()[0] == "asked"


def test_words_with_signs_are_looked_for_among_all_that_an_index_may_propose():
    plain, signed = parsed_search_query("c lamp"), parsed_search_query("c# lamp")

    assert [search_pool(10, 0, query) for query in (plain, signed)] == [POOL, MOST_PROPOSED]
    assert [search_pool(10, 10, query) for query in (plain, signed)] == [MOST_PROPOSED] * 2


# Queries


@pytest.mark.parametrize(
    ("query", "terms"),
    [
        ("How do I put away my changes?", ["put", "away", "changes?"]),
        ("to be or not", ["to", "be", "or", "not"]),
        ('the "to be" scene', ["to be", "scene"]),
        ("Wie kann ich die Änderungen sichern", ["Änderungen", "sichern"]),
        ("die hard", ["die", "hard"]),
        ("don't panic", ["panic"]),
        ("how do I learn C++ or C#, or is c++ old?", ["learn", "C++", "C#,", "old?"]),
        ("lamp Lamps lamp", ["lamp"]),
        ("/usr/share/doc", ["/usr/share/doc"]),
        ('"unclosed quote', ["unclosed", "quote"]),
        ("- ?! *", []),
        ("東京 タワー", ["東京", "タワ", "ワー"]),
    ],
)
def test_terms_of_a_query(query: str, terms: list[str]):
    assert [term.text for term in parsed_search_query(query).terms] == terms


def test_filters_of_a_query():
    found = parsed_search_query(
        'lamp -draft -"old lamp" site:https://A.example/docs in:one in:two e-mail'
    )

    assert found.excluded == ("draft", "old lamp")
    assert (found.sites, found.sources) == (("A.example/docs",), ("one", "two"))
    assert [term.text for term in found.terms] == ["lamp", "e-mail"]


def test_excluded_sites_and_sources_of_a_query():
    found = parsed_search_query('lamp -site:http://a.example/x -in:"my pages" -on:x e-site:y')

    assert (found.excluded_sites, found.excluded_sources) == (("a.example/x",), ("my pages",))
    assert (found.sites, found.sources, found.excluded) == ((), (), ("on:x",))
    assert [term.text for term in found.terms] == ["lamp", "e-site:y"]


@pytest.mark.parametrize("part", ["site:", "in:", "-site:", 'site:""', "in:https://"])
def test_a_filter_without_a_value_is_left_out(part: str):
    assert parsed_search_query(f"lamp {part} oil") == parsed_search_query("lamp oil")


@pytest.mark.parametrize(
    ("site", "why"),
    [
        ("/srv/notes", "is a path: write site:file:///srv/notes"),
        ("~/notes", "is a path: write a host, or such as site:file:///home/me"),
        ("./notes", "is a path: write a host, or such as site:file:///home/me"),
        ("..", "is a path: write a host, or such as site:file:///home/me"),
        (r"C:\notes", "is a path: write site:file:///c:/notes"),
        ("9://notes", "is not an address: write a host, or such as site:file:///home/me"),
        ("file://a b/c", "is not an address: write a host, or such as site:file:///home/me"),
    ],
)
def test_a_site_that_is_no_address_is_refused(site: str, why: str):
    with pytest.raises(SearchQueryError) as refused:
        search_query_place(site)

    assert str(refused.value) == f"site:{site!r} {why}"


@pytest.mark.parametrize("site", ["a.example", ".example", "a.example/~me", "%", "c:d"])
def test_a_host_is_no_place_of_files(site: str):
    assert search_query_place(site) is None


def test_the_first_32_parts_of_each_kind_count():
    found = parsed_search_query(
        "lamp -x -x " + " ".join(f"-w{n} site:s{n} in:i{n}" for n in range(99))
    )

    assert found.excluded == ("x", *(f"w{n}" for n in range(31)))
    assert found.sites == tuple(f"s{n}" for n in range(32))


def test_all_sources_of_a_query_count():
    """A host stands for all of its ports."""
    found = parsed_search_query("lamp " + " ".join(f"in:i{n} -in:x{n} in:i{n}" for n in range(99)))

    assert found.sources == tuple(f"i{n}" for n in range(99))
    assert found.excluded_sources == tuple(f"x{n}" for n in range(99))


@given(st.text(max_size=60))
def test_every_text_is_a_query(text: str):
    assert isinstance(parsed_search_query(text), Query)


def test_a_query_is_relaxed_until_nothing_is_required():
    query = parsed_search_query('"a lamp" "no such" fuse')
    once = query.relaxed([3, 0, 1])
    assert once is not None
    twice = once.relaxed([3, 0, 1])
    assert twice is not None

    assert (query.required, once.required, twice.required) == (
        ("a lamp", "no such"),
        ("a lamp",),
        (),
    )
    assert twice.relaxed([3, 0, 1]) is None


def test_sources_of_a_query_and_of_an_option():
    assert search_query_sources([], []) == []
    assert search_query_sources(["a", "b"], ["b", "c"]) == ["b"]
    assert search_query_sources(["a"], ["b"]) is None


# Ranking


def test_title_headings_and_text_count_in_this_order():
    text = page("text", "a lamp for " + "many words " * 20)
    heading = page("heading", "many words " * 20, headings="A lamp")
    title = page("title", "many words " * 20, title="Lamp")

    assert ranked("lamp", text, heading, title) == "title heading text"


def test_words_of_the_address_count():
    assert ranked("lamp", page("other", "a lamp"), page("lamp", "a lamp")) == "lamp other"


def test_a_rare_word_outweighs_a_common_one():
    pages = page("common", "lamp oil"), page("rare", "lamp fuse")

    assert ranked("lamp oil fuse", *pages, weights=(0.1, 0.2, 3.0)) == "rare common"


def test_a_short_page_outranks_a_long_one():
    assert (
        ranked("lamp", page("long", "lamp " + "word " * 900), page("short", "lamp")) == "short long"
    )


def test_words_that_are_near_outrank_words_that_are_apart():
    apart = page("a", "red " + "word " * 20 + "lamp")
    near = page("b", "red lamp " + "word " * 20)

    assert ranked("red lamp", apart, near) == "b a"


def test_a_word_among_the_first_80_of_a_page_outranks_one_behind_them():
    behind = page("a", "word " * 80 + "lamp " + "word " * 19)
    among = page("b", "word " * 79 + "lamp " + "word " * 20)

    assert ranked("lamp", behind, among) == "b a"


def test_pages_with_more_of_the_words_come_first_and_those_with_none_are_left_out():
    pages = page("all", "red oil lamp"), page("two", "red lamp"), page("one", "red")

    assert ranked("red oil lamp", *pages).split() == ["all", "two", "one"]
    assert ranked("red oil lamp", *pages[1:]).split() == ["two", "one"]
    assert ranked("red lamp", page("all", "red lamp"), page("one", "a red one")) == "all one"
    assert ranked("red lamp", page("all", "red lamp"), page("none", "nothing of it")) == "all"


def test_no_further_word_hides_what_fewer_words_find():
    pages = [
        page("both", "Tabelle transponieren " + "und mehr " * 300),
        page("right", "transponieren"),
    ]

    assert ranked("transponieren", *pages).split() == ["right", "both"]
    assert set(ranked("Tabelle transponieren", *pages).split()) == {"right", "both"}


def test_a_page_about_one_word_comes_before_one_that_mentions_both():
    pages = [
        page("both", "Tabelle " + "und mehr " * 300 + "transponieren"),
        page("right", "transponieren", title="Transponieren"),
    ]

    assert ranked("Tabelle transponieren", *pages).split() == ["right", "both"]


@pytest.mark.parametrize(
    ("query", "first"), [("walrus operator", "one"), ("new walrus operator", "all")]
)
def test_of_three_words_and_more_a_page_loses_by_those_that_it_lacks(query: str, first: str):
    pages = [
        page("one", "operator", title="Operator"),
        page("all", *["with many others " * 40] * 3, "new walrus operator", title="News"),
    ]
    terms = parsed_search_query(query).terms

    found = rank_searched_pages(terms, [1.0] * len(terms), pages)

    assert found[0].page.key == first


def test_a_word_that_only_the_index_finds_counts_as_present():
    known = page("known", "das alte Gebäude")._replace(matched=frozenset({0}))
    pages = page("other", "Haus"), known, page("none", "das alte Gebäude")

    assert ranked("Haus", *pages).split() == ["other", "known"]


def test_joined_words_count_where_they_follow_one_another():
    assert ranked(
        "state-of-the-art", page("a", "art of the state"), page("b", "state of the art")
    ) == ("b")


def test_the_best_part_is_shown():
    (found,) = rank_searched_pages(
        parsed_search_query("red lamp").terms, [1.0, 1.0], [page("a", "red", "a red lamp", "lamp")]
    )

    assert found.part is not None
    assert found.part.key == 1


@pytest.mark.covers("M-47")
def test_the_page_with_most_words_in_one_part_counts_beside_the_page_with_most_words():
    filler = "word " * 20
    scattered = page("a", "red", "lamp")
    gathered = page("b", f"red {filler} lamp", *["word " * 400] * 5)
    found = rank_searched_pages(
        parsed_search_query("red lamp").terms, [1.0] * 2, [gathered, scattered]
    )
    pages = {"a": scattered, "b": gathered}
    nearest = [NearPage("b", 0.5, 0), NearPage("a", 0.6, 0)]

    joined = joined_index_rankings(found, pages, nearest, fused=True, is_question=False)

    assert [one.page.key for one in found] == ["a", "b"]
    assert found[0].densest < found[1].densest
    assert [one.page.key for one in joined] == ["b", "a"]


@pytest.mark.covers("M-47")
@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("red lamp", "words"),
        ("the red lamp", "words"),
        ("how do I get a red lamp", "near"),
        ("wie bekomme ich die red lamp", "near"),
    ],
)
def test_in_a_whole_question_meaning_counts_as_much_as_both_lists_of_words(query: str, first: str):
    """Key words name what they are about; a question may describe it in other words."""
    parsed = parsed_search_query(query)
    lamps = [page(name, "red lamp " * count) for name, count in (("words", 9), ("near", 1))]
    by_words = rank_searched_pages(parsed.terms, [1.0] * len(parsed.terms), lamps)
    pages = {one.key: one for one in lamps} | {"other": page("other", "a light")}
    nearest = [NearPage("near", 0.2, 0), NearPage("other", 0.3, 0), NearPage("words", 0.9, 0)]

    joined = joined_index_rankings(
        by_words, pages, nearest, fused=True, is_question=parsed.is_question
    )

    assert [one.page.key for one in by_words] == ["words", "near"]
    assert joined[0].page.key == first


def test_quoted_words_make_no_question():
    assert not parsed_search_query('"how do I" get "a red lamp"').is_question
    assert parsed_search_query("how do I get that").is_question  # there are no others


def test_nearness_says_nothing_about_how_many_words_a_part_has():
    terms = parsed_search_query("red lamp").terms
    pages = [
        page("near", "red lamp " + "word " * 20),
        page("apart", "red " + "word " * 20 + "lamp"),
    ]

    near, apart = rank_searched_pages(terms, [1.0] * 2, pages)

    assert near.page.key == "near"
    assert near.densest == apart.densest > 0


def test_weights_fall_with_the_number_of_pages():
    assert (
        search_term_weight(1, 100) > search_term_weight(50, 100) > search_term_weight(100, 100) > 0
    )


# Words that were meant


def test_only_unknown_words_of_enough_letters_are_replaced():
    asked = []

    def nearest(word: str, far: bool) -> SpellingFound:
        asked.append((word, far))
        return SpellingFound(
            frozenset({"lantern"}), ["the lantern, a Lantern"] if word == "lantren" else []
        )

    query = 'red lantren abc 12345 "quoted"'
    terms, meant = corrected_search_query(
        query, parsed_search_query(query).terms, [1, 0, 0, 0, 0], nearest
    )

    assert meant == 'red lantern abc 12345 "quoted"'
    assert [term.text for term in terms] == ["red", "lantern", "abc", "12345", "quoted"]
    assert asked == [("lantren", False)]


@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ('(Lantren("red" "oil")', '(lantern("red" "oil")'),
        ("-lantren site:lantren lantren", "-lantren site:lantren lantern"),
        ('"a lantren" lantren?', '"a lantren" lantern?'),
        ("_lantrén\\", "_lantern\\"),
        ("lantre\u0301n, oil", "lantern, oil"),
    ],
)
def test_signs_around_a_word_stay_when_it_is_replaced(query: str, meant: str):
    def nearest(word: str, far: bool) -> SpellingFound:
        return SpellingFound(frozenset({"lantern"}), ["the lantern"])

    terms = parsed_search_query(query).terms
    pages = [int("ntr" not in term.stems[0]) for term in terms]

    assert corrected_search_query(query, terms, pages, nearest)[1] == meant


def test_two_errors_are_looked_for_in_long_words_only():
    asked = []

    def nearest(word: str, far: bool) -> SpellingFound:
        asked.append((word, far))
        return SpellingFound(frozenset(), [])

    query = "lampx lanternxx"
    terms, meant = corrected_search_query(query, parsed_search_query(query).terms, [0, 0], nearest)

    assert (meant, [term.text for term in terms]) == ("", ["lampx", "lanternxx"])
    assert asked == [("lampx", False), ("lanternxx", False), ("lanternxx", True)]


def test_few_words_are_looked_for_and_two_errors_in_none_of_many_letters():
    asked = []

    def nearest(word: str, far: bool) -> SpellingFound:
        asked.append((word, far))
        return SpellingFound(frozenset(), [])

    query = "lanternslanterx lanternslantex lamx oilx fusex"
    corrected_search_query(query, parsed_search_query(query).terms, [0, 0, 0, 0, 0], nearest)

    assert asked == [
        ("lanternslanterx", False),
        ("lanternslantex", False),
        ("lanternslantex", True),
        ("lamx", False),
    ]


def test_the_form_that_texts_have_most_often_is_meant():
    def nearest(word: str, far: bool) -> SpellingFound:
        return SpellingFound(frozenset({"lamp", "lump"}), ["lump lamp", "lamp"])

    assert (
        corrected_search_query("lomp", parsed_search_query("lomp").terms, [0], nearest)[1] == "lamp"
    )


def test_no_function_word_of_the_language_of_a_text_is_meant():
    """A word for inches is not in the texts, and none of them is about "pour" or words like it."""

    def meant(query: str, forms: set[str], text: str, language: str) -> str:
        def nearest(word: str, far: bool) -> SpellingFound:
            return SpellingFound(frozenset(forms), [text], [language])

        return corrected_search_query(query, parsed_search_query(query).terms, [0], nearest)[1]

    assert meant("pouce", {"pour", "douce"}, "pour la lampe, pour deux, douce", "fr") == "douce"
    assert meant("poures", {"pourer"}, "pour la lampe", "fr") == "", "a form with its stem"
    assert meant("poure", {"pour"}, "pour the oil", "en") == "pour"


@pytest.mark.parametrize(
    ("many", "existing", "found", "counts"),
    [
        pytest.param(MOST, [], range(MOST), 0, id="a-short-query-is-not-counted"),
        pytest.param(2 * MOST, [MOST + 1, 3], [3, MOST + 1], 2, id="those-of-the-index-in-order"),
        pytest.param(9 * MOST, range(9 * MOST), range(MOST), 1, id="no-more-than-are-asked"),
        pytest.param(2 * MOST, [], range(MOST), 2, id="the-first-where-the-index-has-none"),
    ],
)
def test_a_long_query_keeps_the_first_words_that_the_index_has(
    many: int, existing: Collection[int], found: Sequence[int], counts: int
):
    terms = [Term(f"word{n}", (f"word{n}",)) for n in range(many)]
    calls = []

    def counted(some: Sequence[Term]) -> list[int]:
        calls.append(len(some))
        return [int(terms.index(term) in existing) for term in some]

    assert existing_search_terms(terms, counted) == [terms[n] for n in found]
    assert calls == [MOST] * counts


def test_a_word_as_it_is_written_comes_before_its_other_forms():
    accented, plain = page("accented", "ein café im Ort"), page("plain", "ein cafe im Ort")

    assert ranked("café", plain, accented) == "accented plain"
    assert ranked("cafe", accented, plain) == "plain accented"


def test_scores_fall_from_first_to_last():
    terms = parsed_search_query("red oil lamp").terms
    pages = [page("all", "word " * 900 + "red oil lamp"), page("one", "red", title="Red")]
    first, second = rank_searched_pages(terms, [1.0] * 3, pages)

    assert first.score >= second.score


def test_a_title_that_has_little_but_the_words_comes_first():
    pages = [
        page("more", "row red lamp oil", title="Clean the red lamp every day with oil"),
        page("right", "row", title="Red lamp"),
    ]

    assert ranked("red lamp", *pages).split() == ["right", "more"]


def test_the_name_of_a_site_in_all_titles_makes_none_of_them_longer():
    name = " — The long manual of all the things that there are in this house"
    titles = ["Red lamp", "Oil", "Rows", "Cells", "Doors"]
    named = [page(title, title, title=title + name) for title in titles]
    bare = [page(title, title, title=title) for title in titles]
    terms = parsed_search_query("red lamp").terms

    (with_name,) = rank_searched_pages(terms, [1.0] * 2, named)
    (without,) = rank_searched_pages(terms, [1.0] * 2, bare)

    assert with_name.score == without.score
