"""What a host says of an address that cannot exist, and of which pages it says just that."""

import json
import random
import re
from dataclasses import replace
from hashlib import blake2b
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.soft404 import (
    MAX_APART,
    MAX_DISTANCE,
    MAX_LENGTH_SHARE,
    MAX_TITLE,
    MIN_WORDS,
    SHORT,
    Soft404Profile,
    is_soft404_page,
    is_soft404_text,
    soft404_distance,
    soft404_profile,
    soft404_random_path,
    soft404_simhash,
)

PATH = soft404_random_path("k3v9q1zz")
TITLE = "Page not found - Harbour Books"
BRIEF = "Sorry! We looked everywhere, but this page is not on our shelves any more."
LONG = (
    BRIEF + " Try the search, or begin again at the front door. Harbour Books has sold used and"
    " rare books at the old pier since the lighthouse keeper retired. Opening hours: Tuesday to"
    " Saturday, ten to six. Novels, Atlases, Poetry, Children, Maps, Prints, Letters. Shipping to"
    " most countries; ask us about the others. Gift vouchers are sent by mail or kept at the till."
)
ARTICLE = (
    "The pier was built in three summers by masons from the other side of the bay. Their marks can"
    " be read at low tide on the stones below the café, each one a letter and a small fish. When"
    " the fourth summer came there was no money left, and so the pier ends where it ends. What was"
    " meant to carry trains has carried anglers, lovers and one circus, whose elephant refused."
)
WORDS = st.lists(st.text(st.sampled_from("abcdefgh"), min_size=3, max_size=8), max_size=90)


def known(title=TITLE, text=LONG, path=PATH):
    answer = soft404_profile(title, text, path)
    assert answer is not None
    return answer


def numbered(words):
    """Return a text of so many words without digits, none of them twice."""
    letters = str.maketrans("0123456789", "abcdefghij")
    return " ".join(f"word{n}".translate(letters) for n in range(words))


# The path that is asked


def test_the_path_says_what_it_is_and_is_another_with_each_token():
    assert soft404_random_path("a1") == "/smartcrawl-does-this-exist-a1"
    assert soft404_random_path("b2") == "/smartcrawl-does-this-exist-b2"


# Fingerprints


def words_of(text):
    """Return the words that count: in one case, without punctuation and without digits."""
    return [word for word in re.findall(r"[^\W_]+", text.casefold()) if not re.search(r"\d", word)]


def fingerprint(text):
    return soft404_simhash(words_of(text))


def reference(text):
    """Return a simhash as its inventor tells it: a sum for each bit, up for 1 and down for 0."""
    words = words_of(text)
    if not words:
        return 0
    sums = [0] * 64
    for n in range(max(1, len(words) - 2)):
        digest = blake2b(" ".join(words[n : n + 3]).encode(), digest_size=8).digest()
        for bit in range(64):
            sums[bit] += 1 if int.from_bytes(digest, "big") >> bit & 1 else -1
    return sum(1 << bit for bit in range(64) if sums[bit] > 0)


@given(st.text(st.sampled_from("abc de.Fé1_ \n"), max_size=120))
def test_a_fingerprint_is_a_simhash_of_three_word_phrases(text):
    assert fingerprint(text) == reference(text)


@given(WORDS.filter(lambda words: len(words) >= MIN_WORDS))
def test_case_punctuation_and_words_with_digits_move_no_fingerprint(words):
    plain, dressed = known(text=" ".join(words)), known(text=", ".join(words).upper() + " 12:30 #7")

    assert plain.fingerprint == dressed.fingerprint == reference(" ".join(words))


def test_fingerprints_of_texts():
    assert fingerprint("") == fingerprint("12:30, #4711 …") == 0
    assert fingerprint(LONG) == reference(LONG)
    assert fingerprint("one two three four") == reference("one two three four")
    assert 0 < fingerprint("one") < 1 << 64
    assert fingerprint("one two three") != fingerprint("one three two")


def test_the_less_texts_share_the_farther_apart_their_fingerprints_are():
    words = numbered(300).split()
    apart = []
    for changed in (1, 10, 60, 150, 300):
        text = " ".join(["other" + word for word in words[:changed]] + words[changed:])
        apart.append(soft404_distance(fingerprint(text), fingerprint(" ".join(words))))

    assert apart == sorted(apart)
    assert apart[0] <= 6
    assert apart[2] > 4 * MAX_DISTANCE


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_distance_is_the_number_of_bits_that_differ(one, other):
    assert (
        soft404_distance(one, other)
        == soft404_distance(other, one)
        == f"{one ^ other:b}".count("1")
    )
    assert soft404_distance(one, one) == 0
    assert soft404_distance(one, ~one & 2**64 - 1) == 64


# What a host is known by


def test_a_profile_is_title_length_and_fingerprints_without_path_and_numbers():
    said = f"No page {PATH} here, request 5f3a9: please look elsewhere"
    rest = "no page here request please look elsewhere at once"

    answer = known(f"404: {PATH}", said + " at once", PATH)

    assert answer == Soft404Profile(
        title="",
        words=9,
        text_length=len(rest),
        fingerprint=fingerprint(rest),
        exact=int.from_bytes(blake2b(rest.encode(), digest_size=8).digest(), "big"),
    )


def test_fewer_than_eight_words_say_nothing():
    assert MIN_WORDS == 8
    assert soft404_profile(TITLE, numbered(8), PATH) is not None
    assert soft404_profile(TITLE, numbered(7), PATH) is None
    assert soft404_profile(TITLE, "", PATH) is None
    assert soft404_profile(TITLE, f"{numbered(7)} {PATH} 404", PATH) is None
    assert soft404_profile(numbered(20), numbered(7), PATH) is None


def test_a_shell_that_asks_for_javascript_says_nothing():
    assert SHORT == 50
    assert soft404_profile("App", "You need to enable JavaScript to run this app.", PATH) is None
    assert soft404_profile("App", f"JavaScript {numbered(48)}", PATH) is None
    assert soft404_profile("App", f"JavaScript {numbered(49)}", PATH) is not None
    assert soft404_profile("App", numbered(49), PATH) is not None


@pytest.mark.parametrize(
    "sentence",
    [
        "お探しのページは見つかりません",
        "ไม่พบหน้าที่คุณต้องการ",
        "您访问的页面不存在",
        "រកមិនឃើញទំព័រនេះទេ",
        "စာမျက်နှာကို ရှာမတွေ့ပါ",
        "抱歉豈更車賈滑串",
    ],
)
def test_where_no_spaces_are_written_each_sign_is_a_word(sentence):
    answer = known("x", sentence)

    assert answer.words == len(sentence.replace(" ", ""))
    assert is_soft404_text(answer, title="x", text=sentence, path="/a")
    assert not is_soft404_text(answer, title="x", text=sentence[:-1], path="/a")


def test_words_are_letters_of_any_case_between_anything_else():
    answer = known("x", "ÉTÉ, été? Straße_STRASSE (l'eau) один-два")

    assert answer.text_length == len("été été strasse strasse l eau один два")
    assert answer.words == 8


@pytest.mark.parametrize("text", [BRIEF, LONG, ARTICLE])
def test_a_profile_is_a_short_json_string_in_the_registry(text):
    answer = known("Ça n'existe pas", text)

    packed = answer.pack()

    assert Soft404Profile.unpack(packed) == answer
    assert packed == (
        f'{{"title":"ça n existe pas","words":{answer.words},"text_length":{answer.text_length},'
        f'"fingerprint":{answer.fingerprint},"exact":{answer.exact}}}'
    )
    assert json.loads(packed)["exact"] == answer.exact


def test_a_packed_profile_has_less_than_400_characters():
    answer = known("word " * 500, LONG)

    longest = replace(answer, words=10**7, text_length=10**8, fingerprint=2**64 - 1, exact=2**64)
    assert len(longest.pack()) < 400


# The same answer


@pytest.mark.parametrize("text", [BRIEF, LONG])
@pytest.mark.parametrize(
    ("echo", "path"),
    [
        ("", "/old/news"),
        ("{}", "/old/news.html"),
        ("Nothing at {} today", "/old/news.html"),
        ("Nothing at {} today", "/old/news/"),
        ("You asked for {}.", "/a/b?page=2&sort=up"),
        ("You asked for {}.", "/stra%C3%9Fe/caf%C3%A9"),
        ("{0}, again: {0}{0}", "/one/one"),
    ],
)
def test_texts_that_differ_in_the_echoed_path_are_the_same(text, echo, path):
    answer = known(text=f"{text} {echo.format(PATH)}")

    assert is_soft404_page(answer, title=TITLE, text=f"{text} {echo.format(path)}", path=path)


@pytest.mark.parametrize(
    ("path", "echo"),
    [
        ("/shop/old-hats.html?a=1", "/shop/old-hats.html?a=1"),
        ("/shop/old-hats.html?a=1", "/shop/old-hats.html"),
        ("/shop/old-hats.html?a=1", "old-hats.html"),
        ("/shop/old-hats.html?a=1", "Old Hats"),
        ("/shop/old-hats/", "old hats"),
        ("/shop/old_hats/", "“OLD_HATS”"),
        ("/shop/old.hats.html", "old.hats"),
        ("/shop/h%C3%BCte", "/shop/Hüte"),
        ("/shop/h%C3%BCte", "h%C3%BCte"),
        ("/shop/h%C3%BCte", "Hüte"),
        ("/shop/old%20hats", "old hats"),
        ("/shop/hat-4711", "hat-4711"),
    ],
)
def test_a_path_is_echoed_whole_or_by_its_end_decoded_or_not(path, echo):
    last = PATH.lstrip("/")
    for said, asked in ((f"{BRIEF} ({{}}) Goodbye then.", path), ("{} " + LONG, path)):
        answer = known(f"{last} | Books", said.format(last))

        assert is_soft404_page(answer, title=f"{echo} | Books", text=said.format(echo), path=asked)
        other = path.replace("h", "z")  # names neither the one nor the other
        assert not is_soft404_page(
            answer, title=f"{echo} | Books", text=said.format(echo), path=other
        )


def test_what_is_echoed_are_whole_words_side_by_side():
    answer = known(text=f"{BRIEF} It was not {PATH} that stood there")

    for text, path in (
        (f"{BRIEF} It was not hatsold that stood there", "/hats-old"),
        (f"{BRIEF} It was not hats so old that stood there", "/hats-old"),
        (f"{BRIEF} It was not hat that stood there", "/hats"),
        (f"{BRIEF} It was not what that stood there", "/hat"),
    ):
        assert not is_soft404_page(answer, title=TITLE, text=text, path=path)


def test_a_page_that_is_named_in_every_menu_may_not_exist():
    menu = f"{BRIEF} Home, Search, Contact"

    assert is_soft404_page(known(text=menu), title=TITLE, text=menu, path="/contact")
    assert is_soft404_page(known("Contact us"), title="Contact us", text=LONG, path="/contact")


def test_numbers_times_and_ids_do_not_count():
    said = "{} Request {} at {}"
    answer = known("Error 1 (2024)", said.format(BRIEF, "18.2d351ab8", "10:22:33"))

    text = said.format(BRIEF, "7f-9.c0ffee1", "2031-01-02 1:02")
    assert is_soft404_page(answer, title="Error 77", text=text, path="/a")


def test_a_root_is_never_not_found():
    answer = known()

    for path in ("/", "", "//"):
        assert not is_soft404_page(answer, title=TITLE, text=LONG, path=path)
        assert is_soft404_text(answer, title=TITLE, text=LONG, path=path)
    assert is_soft404_page(answer, title=TITLE, text=LONG, path="/?p=12")


def test_titles_have_to_be_equal():
    for text in (BRIEF, LONG):
        answer = known(text=text)
        assert is_soft404_page(answer, title=TITLE.upper(), text=text, path="/a")
        assert not is_soft404_page(answer, title="Atlases - Harbour Books", text=text, path="/a")
        assert not is_soft404_page(answer, title="", text=text, path="/a")

    long = known("word " * 50)
    assert MAX_TITLE == len(long.title) == 200
    assert is_soft404_page(long, title="word " * 40 + "more", text=LONG, path="/a")
    assert not is_soft404_page(long, title="word " * 39 + "more", text=LONG, path="/a")


@pytest.mark.parametrize("word", ["shelves", "not", "Sorry", "more"])
def test_short_texts_have_to_be_equal_word_by_word(word):
    answer = known(text=BRIEF)

    assert is_soft404_page(answer, title=TITLE, text=BRIEF.lower() + "!", path="/a")
    for other in (word + " indeed", "", word[::-1]):
        text = BRIEF.replace(word, other)
        assert not is_soft404_page(answer, title=TITLE, text=text, path="/a")


def test_texts_are_short_up_to_49_words():
    for words, same in ((49, False), (50, True)):
        text = numbered(words)
        answer = replace(known(text=text), exact=0)
        assert is_soft404_text(answer, title=TITLE, text=text, path="/a") is same

    text = numbered(49)
    answer = known(text=text)
    for words in (48, 49, 50):
        assert is_soft404_text(replace(answer, words=words), title=TITLE, text=text, path="/a")
        answer_of_another = replace(answer, words=words, exact=0)
        assert not is_soft404_text(answer_of_another, title=TITLE, text=text, path="/a")
    fifty = replace(known(text=numbered(50)), words=49, exact=0)
    assert not is_soft404_text(fifty, title=TITLE, text=numbered(50), path="/a")


def test_longer_texts_may_differ_in_three_bits():
    answer = known()

    assert MAX_DISTANCE == 3
    for bits, same in ((0b1, True), (0b111, True), (0b1111, False), (2**64 - 1, False)):
        other = replace(answer, fingerprint=answer.fingerprint ^ bits, exact=0)
        assert is_soft404_text(other, title=TITLE, text=LONG, path="/a") is same


def test_longer_texts_may_differ_by_five_words():
    answer = known(text=numbered(100))

    assert MAX_APART == 5
    for words, same in ((94, False), (95, True), (105, True), (106, False)):
        other = replace(answer, words=words)
        assert is_soft404_text(other, title=TITLE, text=numbered(100), path="/a") is same


def test_longer_texts_may_differ_by_a_tenth_of_their_characters():
    text = " ".join(["abcde"] * 59 + ["abcdef"])
    answer = known(text=text)

    assert MAX_LENGTH_SHARE == 0.1
    assert answer.text_length == 360
    for length, same in ((323, False), (324, True), (400, True), (401, False)):
        other = replace(answer, text_length=length)
        assert is_soft404_text(other, title=TITLE, text=text, path="/a") is same


def test_a_changing_line_in_a_long_answer_does_not_matter():
    said = f"{LONG} {ARTICLE} {ARTICLE.upper()[:200]} Reader of the day: {{}}."
    answer = known(text=said.format("Ada"))

    assert is_soft404_page(answer, title=TITLE, text=said.format("Grace"), path="/a")


def test_pages_are_not_taken_for_the_answer():
    for answer in (known(), known(text=BRIEF)):
        for text in (ARTICLE, f"{LONG} {ARTICLE}", f"{BRIEF} {ARTICLE}", "", "Page not found"):
            assert not is_soft404_page(answer, title=TITLE, text=text, path="/pier")


@given(WORDS, WORDS, st.integers(0, 2**32))
def test_two_answers_are_the_same_both_ways_or_neither(shared, own, seed):
    chance = random.Random(seed)
    mixed = [*shared, *own[: chance.choice((0, 0, 1, 5, 90))]]
    paths = ("/zzyx", "/zzxy")
    texts = (" ".join(shared), " ".join(mixed))
    answers = [soft404_profile("t", text, path) for text, path in zip(texts, paths, strict=True)]
    if None in answers:
        return

    found = is_soft404_page(answers[0], title="t", text=texts[1], path=paths[1])

    assert found is is_soft404_page(answers[1], title="t", text=texts[0], path=paths[0])
    assert answers[0] == soft404_profile("T!", texts[0], paths[0])
    if shared == mixed:
        assert found


@given(
    st.lists(st.text(st.sampled_from("abcdefgh"), min_size=1, max_size=8), min_size=8, max_size=90),
    st.lists(
        st.text(st.sampled_from("uvwxyzé ä漢"), min_size=2, max_size=9), min_size=1, max_size=3
    ),
    st.integers(0, 90),
    st.sampled_from(["{}", "/{}", "{}.", "“{}”", "https://example.com/{}"]),
)
def test_whatever_path_is_echoed_wherever_the_answer_is_the_same(words, segments, place, echo):
    path = "/" + "/".join(quote(segment) for segment in segments)
    last = segments[-1]
    for asked, said in ((path, path.lstrip("/")), (path, last), (path, quote(last))):
        template = " ".join([*words[:place], "{}", *words[place:]])
        answer = known("t", template.format(echo.format(PATH.lstrip("/"))), PATH)
        text = template.format(echo.format(said))
        assert is_soft404_page(answer, title="t", text=text, path=asked)


@given(
    st.lists(st.text(st.sampled_from("abcdefgh"), min_size=3, max_size=8), min_size=8, max_size=90),
    st.lists(st.text(st.sampled_from("mnopqrst"), min_size=3, max_size=8), min_size=8, max_size=90),
    st.integers(0, 60),
)
def test_texts_that_share_less_than_half_are_never_the_same(answered, said, shared):
    answer = known("t", " ".join(answered))
    page = [*answered[: min(shared, len(said) - 1)], *said]

    assert not is_soft404_page(answer, title="t", text=" ".join(page), path="/page")
