"""Whether the key of a notice counts: what its file has, and what is remembered of its host."""

import pytest

from smartcrawl.rules.incoming import (
    FETCH_SECONDS,
    VERIFIED_SECONDS,
    HostFetches,
    KeyFetch,
    KeyVerdict,
    has_indexnow_key,
    is_indexnow_key,
    is_notice_token,
    is_signed_notice,
    judge_indexnow_key,
)

NOW = 1_750_000_000.0
KEY, URL = "0123-4567", "https://a.example/0123-4567.txt"
OTHER, OTHER_URL = "89ab-cdef", "https://a.example/89ab-cdef.txt"
GOOD, BAD = KeyFetch(NOW, KEY, URL), KeyFetch(NOW, KEY, URL, "status 404")
SECRET, BODY = "It's a Secret to Everybody", b"Hello, World!"
SIGNATURE = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
OF_OTHER = KeyFetch(NOW + 700, OTHER, OTHER_URL, "status 404")


@pytest.mark.parametrize(
    ("key", "is_one"),
    [
        ("a" * 7, False),
        ("a" * 8, True),
        ("a" * 128, True),
        ("a" * 129, False),
        ("aZ09-aZ09", True),
        ("aaaa_aaaa", False),
        ("aaaaaaaä", False),
        ("aaaaaaaa\n", False),
    ],
)
def test_a_key_has_8_to_128_characters(key: str, is_one: bool):
    assert bool(is_indexnow_key(key)) is is_one


@pytest.mark.parametrize(
    ("body", "has"),
    [
        (KEY.encode(), True),
        (b"\xef\xbb\xbf" + KEY.encode() + b"\r\n", True),
        (f"{OTHER}\n{KEY}".encode(), True),
        (OTHER.encode(), False),
        (KEY.encode() + b"0", False),
        (f"not found: {KEY}".encode(), False),
        (f"<pre>\n{KEY}\n</pre>".encode(), False),
        (b"", False),
        (b"\xff" + KEY.encode(), False),
    ],
)
def test_a_file_has_a_key_as_a_line_beside_other_keys_alone(body: bytes, has: bool):
    assert has_indexnow_key(body, KEY) is has


@pytest.mark.parametrize(
    ("fetches", "key", "url", "after", "verdict"),
    [
        ([], KEY, URL, 0, KeyVerdict.FETCH),
        ([GOOD], KEY, URL, 0, KeyVerdict.ACCEPT),
        ([GOOD], KEY, URL, FETCH_SECONDS - 1, KeyVerdict.ACCEPT),
        ([GOOD], KEY, URL, FETCH_SECONDS, KeyVerdict.FETCH),
        ([GOOD], KEY, URL, -1, KeyVerdict.FETCH),  # the clock was put back
        ([GOOD], OTHER, OTHER_URL, 1, KeyVerdict.WAIT),
        ([GOOD], OTHER, URL, 1, KeyVerdict.WAIT),
        ([GOOD], KEY, "https://a.example/x/0123-4567.txt", 1, KeyVerdict.WAIT),
        ([BAD], KEY, URL, 1, KeyVerdict.REFUSE),
        ([BAD], KEY, URL, FETCH_SECONDS, KeyVerdict.FETCH),
        ([BAD], OTHER, OTHER_URL, 1, KeyVerdict.WAIT),
        # a stranger's key keeps the host from being asked, and not its own key from counting
        ([GOOD, OF_OTHER], KEY, URL, 701, KeyVerdict.ACCEPT),
        ([GOOD, OF_OTHER], OTHER, OTHER_URL, 701, KeyVerdict.REFUSE),
        # a key that was taken away counts no more once the host was asked
        ([GOOD, BAD], KEY, URL, 1, KeyVerdict.REFUSE),
    ],
)
def test_a_host_is_asked_once_in_ten_minutes(
    fetches: list[KeyFetch], key: str, url: str, after: float, verdict: KeyVerdict
):
    known = HostFetches()
    for fetch in fetches:
        known = known.after(fetch)

    assert judge_indexnow_key(known, key, url, NOW + after) is verdict


def test_a_verified_key_counts_for_a_day_while_its_host_is_not_asked():
    late = NOW + VERIFIED_SECONDS
    known = HostFetches().after(GOOD).after(KeyFetch(late - 300, OTHER, OTHER_URL, "status 404"))

    assert judge_indexnow_key(known, KEY, URL, late - 1) is KeyVerdict.ACCEPT
    assert judge_indexnow_key(known, KEY, URL, late) is KeyVerdict.WAIT


def test_the_figures_of_the_manual():
    """docs/api.md names the ten minutes."""
    assert (FETCH_SECONDS, VERIFIED_SECONDS) == (600, 24 * 3_600)


@pytest.mark.parametrize(
    ("secret", "body", "signature", "is_signed"),
    [
        (SECRET, BODY, SIGNATURE, True),
        (SECRET + ".", BODY, SIGNATURE, False),
        (SECRET, BODY + b".", SIGNATURE, False),
        (SECRET, BODY, SIGNATURE.removeprefix("sha256="), False),
        (SECRET, BODY, "\ud800", False),  # no text that can be sent
    ],
)
def test_a_body_is_signed_by_its_secret(secret: str, body: bytes, signature: str, is_signed: bool):
    assert is_signed_notice(secret, body, signature) is is_signed


@pytest.mark.parametrize(
    ("token", "is_one"), [(SECRET, True), (SECRET + ".", False), ("", False), ("\ud800", False)]
)
def test_a_token_is_the_secret(token: str, is_one: bool):
    assert is_notice_token(SECRET, token) is is_one
