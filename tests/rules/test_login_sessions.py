"""What a crawl that logs in may believe (docs/decisions.md, ADR 146)."""

import pytest

from smartcrawl.rules.cookies import (
    cookies_after_answer,
    joined_cookies,
    session_cookie_header,
)
from smartcrawl.rules.login import (
    KINDS_OF_LOGIN,
    MOST_ENDS,
    DigestChallenge,
    Proof,
    cookies_of_file,
    digest_authorization,
    digest_challenge,
    first_user_field,
    is_logout_address,
    judge_proof,
    lacks_proof,
    login_wait,
    says_log_out,
    waits_for_proof,
)
from smartcrawl.rules.model import Outcome
from tests.rules.manual import fits, numbers, table

SHOWS = {"yes": True, "no": False, "the login has none": None}
LOGOUTS = (
    "logout", "logoff", "signout", "signoff", "userlogout", "endsession", "logmeout",
    "abmelden", "abmeldung", "ausloggen", "deconnexion", "cerrarsesion", "uitloggen",
    "afmelden", "loggaut", "wyloguj", "odhlasit",
)  # fmt: skip
WORDS = (
    "log out", "logout", "log-out", "log off", "logoff", "sign out", "signout", "sign-out",
    "sign off", "abmelden", "ausloggen", "uitloggen", "afmelden", "logga ut", "log ud",
    "logg ut", "déconnexion", "se déconnecter", "me déconnecter", "cerrar sesión",
    "cerrar la sesión", "terminar sessão", "encerrar sessão", "sair", "esci", "disconnetti",
    "kirjaudu ulos", "kijelentkezés", "çıkış yap", "oturumu kapat", "đăng xuất", "wyloguj",
    "wyloguj się", "odhlásit", "odhlásit se", "odhlásiť", "deconectare", "выйти", "выход",
    "вийти", "تسجيل الخروج", "התנתקות", "退出登录", "登出", "注销", "ログアウト", "サインアウト",
    "로그아웃",
)  # fmt: skip


@pytest.mark.parametrize("outcome", Outcome)
def test_what_a_lost_session_can_forge_waits(outcome):
    (told,) = [row[1] for row in table("Behind a login") if fits(row[0], outcome)][:1]
    assert waits_for_proof(outcome, shows=False) is (told == "yes")
    assert not waits_for_proof(outcome, shows=True)


@pytest.mark.parametrize(("answer", "shown", "told"), table("Behind a login", 1))
def test_only_the_proof_page_says_what_became_of_a_session(answer, shown, told):
    statuses = {None} if answer == "none" else numbers(answer)
    found = {judge_proof(status, shows=SHOWS[shown]) for status in statuses}
    assert found == {Proof(told)}


@pytest.mark.parametrize("status", [199, 300])
def test_no_other_status_holds_a_session(status):
    assert judge_proof(status, shows=None) is Proof.ENDED


@pytest.mark.parametrize(("refusals", "hours"), table("Behind a login", 2))
def test_a_refused_login_waits_longer_each_time(refusals, hours):
    assert login_wait(int(refusals)) == 3600 * int(hours)


def test_a_session_may_end_once():
    assert MOST_ENDS == 2
    assert KINDS_OF_LOGIN == (
        "form", "cookie", "basic", "bearer", "header", "digest", "client_certificate",
        "oauth2_client",
    )  # fmt: skip
    assert list(Proof) == ["held", "ended", "unknown"]


@pytest.mark.parametrize(
    ("outcome", "is_page", "shows", "fails"),
    [
        (Outcome.CHANGED, True, False, True),
        (Outcome.CHANGED, True, True, False),
        (Outcome.CHANGED, True, None, False),
        (Outcome.CHANGED, False, False, False),
        (Outcome.NOT_FOUND, True, False, False),
    ],
)
def test_a_page_without_the_proof_fails_alone(outcome, is_page, shows, fails):
    assert lacks_proof(outcome, is_page=is_page, shows=shows) is fails


@pytest.mark.parametrize("word", LOGOUTS)
def test_these_addresses_log_out(word):
    for url in (f"http://a.example/{word}", f"http://a.example/x/{word.upper()}.php?a=b"):
        assert is_logout_address(url)
    for query in (f"action={word}", word, f"a=1&do={word}&b", f"{word}=1"):
        assert is_logout_address(f"http://a.example/x?{query}")
    assert not is_logout_address(f"http://a.example/x{word}")


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://a.example/users/sign_out", True),
        ("http://a.example/log-out/", True),
        ("http://a.example/wiki/Special:UserLogout", True),
        ("http://a.example/x;logout", True),
        ("http://a.example/x?do=log%6Fut", True),
        ("http://a.example/x?do=%6C%6F%67%6F%75%74", True),
        ("http://logout.example/x", False),
        ("http://a.example/docs/how-to-log-out", False),
        ("http://a.example/x?q=how+to+log+out", False),
        ("http://a.example/out", False),
    ],
)
def test_addresses_that_only_speak_of_it_do_not(url, found):
    assert is_logout_address(url) is found


@pytest.mark.parametrize("word", WORDS)
def test_these_words_log_out(word):
    assert says_log_out(word)
    assert says_log_out(f"\n {word.upper() if word.isascii() else word}  ")
    assert not says_log_out(f"{word}x")


@pytest.mark.parametrize("sign", ["»", "›", "→"])
def test_a_sign_beside_the_words_does_not_count(sign):
    assert says_log_out(f"Log  out{sign}")


@pytest.mark.parametrize("name", ["pass", "pwd", "secret", "token", "pin", "otp", "code", "key"])
def test_the_user_is_the_first_field_without_a_secret(name):
    assert first_user_field({name: "A", "b": "B", "c": "C"}) == "b"
    assert first_user_field({"a": f"MY_{name.upper()}", "b": "B"}) == "b"
    assert first_user_field({name: "A"}) is None


def test_a_field_that_begins_like_a_pin_is_none():
    assert first_user_field({"pinboard": "A"}) == "pinboard"


TXT = "# Netscape HTTP Cookie File\n#HttpOnly_{}\tTRUE\t/\tTRUE\t0\ts\t8c\n"


@pytest.mark.parametrize(
    ("domain", "host", "header"),
    [
        ("a.example", "a.example", "s=8c"),
        ("a.example", "b.a.example", ""),
        (".a.example", "a.example", "s=8c"),
        (".A.example", "b.a.example", "s=8c"),
        (".a.example", "ba.example", ""),
    ],
)
def test_a_file_of_cookies_gives_those_of_the_host(domain, host, header):
    assert cookies_of_file(TXT.format(domain), host) == header


def test_several_cookies_of_a_file_are_one_header():
    rows = "a.example\tTRUE\t/\tTRUE\t0\ts\t8c \na.example\tTRUE\t/\tTRUE\t0\tt\t9\n"
    assert cookies_of_file(f"# x\ty\tz\t1\t2\t3\t4\n{rows}\n", "a.example") == "s=8c; t=9"
    assert cookies_of_file(" a=1; b=2 \n\nc=3\n", "a.example") == "a=1; b=2; c=3"


def test_later_cookies_take_the_place_of_those_before():
    assert joined_cookies("a=1; b=2", " b=3 ; c=4;") == "a=1; b=3; c=4"
    assert joined_cookies("", "") == ""


@pytest.mark.parametrize(
    ("url", "header"),
    [
        ("https://in.a.example/x", "b=2; a=1"),
        ("https://docs.a.example/", "a=1"),
        ("https://a.example/", "a=1"),
        ("http://docs.a.example/", ""),
        ("https://b.example/", ""),
    ],
)
def test_a_session_shares_the_cookies_of_its_domain(url, header):
    lines = ["a=1; Domain=a.example; Path=/", "b=2; Path=/x"]
    kept = cookies_after_answer((), lines, "https://in.a.example/x/y", 0)
    assert session_cookie_header(kept, url) == header


_NONCE = "7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v"
_OPAQUE = "FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS"
_OURS = 1, "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ"
_ASKED = "GET", "http://www.example.org/dir/index.html"


@pytest.mark.parametrize(
    ("algorithm", "response"),
    [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ],
)
def test_a_digest_is_that_of_the_standard(algorithm, response):
    """The example of RFC 7616, section 3.9.1."""
    challenge = DigestChallenge("http-auth@example.org", _NONCE, algorithm, _OPAQUE, True)
    header = digest_authorization(challenge, "Mufasa", "Circle of Life", _ASKED, _OURS)
    assert header == (
        f'Digest username="Mufasa", realm="http-auth@example.org", nonce="{_NONCE}",'
        f' uri="/dir/index.html", response="{response}", opaque="{_OPAQUE}",'
        f' cnonce="{_OURS[1]}", algorithm={algorithm}, qop=auth, nc=00000001'
    )


def test_a_digest_of_an_old_server_has_no_count():
    """The example of RFC 2617, section 3.5, as RFC 2069 would have it."""
    challenge = DigestChallenge(
        "testrealm@host.com", "dcd98b7102dd2f0e8b11d0f600bfb0c093", "MD5", None, False
    )
    asked = "GET", "http://www.nowhere.org/dir/index.html"
    header = digest_authorization(challenge, "Mufasa", "Circle Of Life", asked, (1, "x"))
    assert 'response="670fd8c2df070c60b045671b8b24ff02"' in header
    assert header.endswith("algorithm=MD5")
    assert "opaque" not in header


@pytest.mark.parametrize(
    ("url", "uri"),
    [
        ("http://a.example", "/"),
        ("http://a.example?y=1", "/?y=1"),
        ("http://a.example/x?y=1", "/x?y=1"),
    ],
)
def test_a_digest_covers_path_and_query(url, uri):
    challenge = DigestChallenge('a"b', "n", "MD5", None, True)
    header = digest_authorization(challenge, "me", "x", ("GET", url), (17, "c"))
    assert f'uri="{uri}"' in header
    assert 'realm="a\\"b"' in header
    assert "nc=00000011" in header


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (['Basic realm="x"'], None),
        (['Digest realm="x"'], None),
        (['Digest nonce="n", qop="auth-int"'], None),
        (['Digest nonce="n", algorithm=SHA-512-256'], None),
        (['digest nonce=n'], DigestChallenge("", "n", "MD5", None, False)),
        (['Digest realm="a, b", nonce="n", qop="auth-int, auth", opaque="o"'],
         DigestChallenge("a, b", "n", "MD5", "o", True)),
        (['Digest nonce="m", algorithm=MD5', 'Digest nonce="s", algorithm=sha-256'],
         DigestChallenge("", "s", "sha-256", None, False)),
    ],
)  # fmt: skip
def test_the_best_challenge_is_met(lines, found):
    assert digest_challenge(lines) == found


def test_an_escaped_quote_of_a_realm_is_sent_back_as_it_came():
    challenge = digest_challenge(['Digest realm="the \\"docs\\"", nonce="8c"'])

    assert challenge is not None
    assert challenge.realm == 'the \\"docs\\"'
    header = digest_authorization(challenge, "bot", "geheim", ("GET", "http://a.example/"), (1, ""))
    assert 'realm="the \\"docs\\""' in header


@pytest.mark.parametrize(
    ("row", "cookie"),
    [
        ("a.example\tTRUE\t/\tTRUE\t0\tkey\t#8c", "key=#8c"),
        ("a.example\t#\t/\tTRUE\t0\tkey\t8c", "key=8c"),
        ("#HttpOnly_a.example\tTRUE\t/\tTRUE\t0\tkey\t8c", "key=8c"),
    ],
)
def test_only_a_line_that_begins_with_a_hash_is_a_remark(row: str, cookie: str):
    remark = "#.a.example\tTRUE\t/\tTRUE\t0\told\t1"

    assert cookies_of_file(f"{remark}\n{row}\n", "a.example") == cookie
    assert cookies_of_file(f"#\tTRUE\t/\tTRUE\t0\told\t1\n{row}\n", "#") == ""


def test_the_path_of_a_bare_host_is_a_slash():
    challenge = digest_challenge(['Digest realm="docs", nonce="8c"'])

    assert challenge is not None
    header = digest_authorization(challenge, "bot", "geheim", ("GET", "http://a.example"), (1, ""))
    assert 'uri="/"' in header


def test_a_challenge_without_the_value_of_its_nonce_is_none():
    assert digest_challenge(['Digest realm="docs", nonce=']) is None


def test_a_499_is_an_answer_of_the_proof_page():
    assert judge_proof(499, shows=None) is Proof.ENDED


def test_a_question_is_no_link_that_logs_out():
    assert says_log_out("Log out »")
    assert not says_log_out("Log out?")


def test_a_field_that_begins_as_a_key_may_be_the_user():
    assert first_user_field({"kennung": "A_KENNUNG"}) == "kennung"
