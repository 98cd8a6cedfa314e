"""Spellings and ids of addresses (ADR 7, 135)."""

import json
from pathlib import Path

import can_ada
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smartcrawl.model.urls import (
    MAX_URL_LENGTH,
    Trackers,
    display_url,
    is_same_url_place,
    join_url,
    normalize_url,
    request_url,
    url_digest,
    url_digest_text,
    url_hash,
    url_host_key,
    url_item_id,
)
from tests.tiers import examples

DATA = Path(__file__).parents[1] / "data"
WPT = [
    case
    for case in json.loads((DATA / "wpt-urltestdata.json").read_text(encoding="utf-8"))
    if isinstance(case, dict)
]

covers = pytest.mark.covers

VECTORS = [
    ("HTTP://Example.COM:80/a/b/", "http://example.com/a/b"),
    ("https://example.com", "https://example.com/"),
    ("https://example.com/%7Efoo#x", "https://example.com/~foo"),
    ("https://example.com/a%2fb", "https://example.com/a%2Fb"),
    ("https://example.com/a b+c", "https://example.com/a%20b+c"),
    (
        "https://example.com/?b=2&a=1&utm_source=x&GCLID=y&a=0",
        "https://example.com/?a=0&a=1&b=2",
    ),
    (  # ADR 135: ref and source are kept
        "https://example.com/p?ref=n&source=m&sourceId=7",
        "https://example.com/p?ref=n&source=m&sourceId=7",
    ),
    ("https://example.com/p?utm_campaign=z", "https://example.com/p"),
    ("https://user:pw@example.com:443/x", "https://example.com/x"),
    ("https://example.com:8443/x", "https://example.com:8443/x"),
    ("https://bücher.example/straße", "https://xn--bcher-kva.example/stra%C3%9Fe"),
    ("https://example.com/a/../b", "https://example.com/b"),
    (r"C:\Docs\Sub\\Report.PDF", "file:///c:/docs/sub/report.pdf"),
    (
        "https://acct.blob.core.windows.net/container/path/file.pdf?sv=1&sig=2",
        "https://acct.blob.core.windows.net/container/path/file.pdf",
    ),
]


@covers("R0-12", "R0-13", "R0-14", "R0-15", "R0-16", "R0-19", "R0-20", "R0-21", "R0-22", "R0-23")
@covers("R2-61", "R2-62", "R2-63", "R2-64", "R2-65", "R2-66", "R2-67", "R2-68", "M-18", "R0-85")
@pytest.mark.parametrize(("url", "normal"), VECTORS, ids=[url for url, _ in VECTORS])
def test_vector_has_its_normalized_source(url, normal):
    assert normalize_url(url) == normal
    assert normalize_url(normal) == normal


@covers("R2-62", "R2-63", "R2-64", "R2-67", "R2-68", "M-18")
@pytest.mark.parametrize(
    ("url", "normal"),
    [
        ("https://example.com:80/", "https://example.com:80/"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("http://[0:0::1]:80/a/", "http://[::1]/a"),
        ("https://faß.de/", "https://xn--fa-hia.de/"),  # another site than fass.de
        ("https://example.com/?", "https://example.com/"),
        ("https://example.com/?&&", "https://example.com/"),
        ("https://example.com/a/?", "https://example.com/a"),
        ("https://example.com/a//", "https://example.com/a"),
        ("https://example.com//", "https://example.com/"),
        ("https://example.com/a//b", "https://example.com/a//b"),
        ("https://example.com/a/%2E%2e/b", "https://example.com/b"),
        ("https://example.com/100%", "https://example.com/100%25"),
        ("https://example.com/%4%31", "https://example.com/%2541"),
        ("https://example.com/a|b", "https://example.com/a%7Cb"),
        ("https://example.com/a%7cb", "https://example.com/a%7Cb"),
        ("https://example.com/a;v=1,2", "https://example.com/a;v=1,2"),
        ("https://example.com/?b&a", "https://example.com/?a=&b="),
        ("https://example.com/?a=1=2", "https://example.com/?a=1=2"),
        ("https://example.com/?a=%3d%26", "https://example.com/?a=%3D%26"),
        ("https://example.com/?a=%7e&a=b c&a=b+c", "https://example.com/?a=b%20c&a=b+c&a=~"),
        ("https://example.com/?a[]=1", "https://example.com/?a%5B%5D=1"),
        ("https://example.com/?a/b?c=/", "https://example.com/?a/b?c=/"),
        ("https://example.com/a/?b=/", "https://example.com/a?b=/"),
    ],
)
def test_percent_encoding_and_structure_follow_rfc_3986(url, normal):
    assert normalize_url(url) == normal


@covers("M-18")
@pytest.mark.parametrize("byte", range(256))
def test_only_unreserved_characters_are_unescaped(byte):
    """RFC 3986, sections 2.3 and 6.2.2."""
    char = chr(byte)
    spelled = char if char.isascii() and (char.isalnum() or char in "-._~") else f"%{byte:02X}"

    assert normalize_url(f"https://example.com/x%{byte:02x}y") == f"https://example.com/x{spelled}y"
    assert (
        normalize_url(f"https://example.com/?q=%{byte:02X}") == f"https://example.com/?q={spelled}"
    )


@covers("R0-20", "R0-21", "R0-23")
@pytest.mark.parametrize(
    ("path", "normal"),
    [
        ("c:/docs/a.txt", "file:///c:/docs/a.txt"),
        ("C:\\", "file:///c:/"),
        (r"D:\a\..\B\\", "file:///d:/b"),
        (r"C:\100%\a#b.pdf", "file:///c:/100%25/a%23b.pdf"),
        (r"C:\a%41.pdf", "file:///c:/a%2541.pdf"),
        (r"C:\Ä b.PDF", "file:///c:/%C3%A4%20b.pdf"),
        ("file:///C:/%c3%84%20B.pdf", "file:///c:/%C3%A4%20b.pdf"),
        ("file:///C:/A%2FB%ff", "file:///c:/a%2Fb%FF"),
        ("file:////C:/x", "file:///c:/x"),
        ("file:///home/Me//Docs/", "file:///home/Me/Docs"),
        ("file://localhost/x#f", "file:///x"),
        ("file:///", "file:///"),
    ],
)
def test_file_path_has_one_canonical_uri(path, normal):
    assert normalize_url(path) == normal
    assert normalize_url(normal) == normal


@covers("R0-22", "RD-20")
@pytest.mark.parametrize(
    ("url", "normal"),
    [
        (
            "https://a.blob.core.windows.net/c/f?SIG=s&snapshot=2&sp=r&versionid=3",
            "https://a.blob.core.windows.net/c/f?snapshot=2&versionid=3",
        ),
        (
            "https://a.file.core.windows.net:8443/c/f?sv=1&s%69g=secret&se=2&skoid=k&sr=b",
            "https://a.file.core.windows.net:8443/c/f",
        ),
        ("https://a.blob.core.windows.net./c?sig=1", "https://a.blob.core.windows.net./c"),
        (  # without a signature these are names like any other
            "https://a.blob.core.windows.net/c/f?sp=1&sv=2",
            "https://a.blob.core.windows.net/c/f?sp=1&sv=2",
        ),
        ("https://example.com/f?sig=1&sv=2", "https://example.com/f?sig=1&sv=2"),
        (
            "https://a.core.windows.net.example.com/f?sig=1",
            "https://a.core.windows.net.example.com/f?sig=1",
        ),
    ],
)
def test_signature_of_a_blob_is_not_in_its_source(url, normal):
    assert normalize_url(url) == normal


@covers("R2-69", "M-54")
@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "not a URL",
        "//example.com/",
        "http://",
        "http://[::1",
        "http://a b/",
        "http://a:99999/",
        "http://\ud800/",
        "mailto:Me@Example.com",
        "\x00",
        "ä" * 5000,
    ],
)
def test_text_that_is_no_web_address_is_returned_unchanged(text):
    assert normalize_url(text) == text
    assert request_url(text) is None


@covers("M-19", "R0-15", "R2-66", "R0-85")
def test_trackers_are_a_setting_and_ignore_case():
    url = "https://example.com/?Ref=1&refer=2&UTM_x=3&XY_z=4&%72ef=5"

    assert normalize_url(url) == "https://example.com/?Ref=1&XY_z=4&ref=5&refer=2"
    chosen = Trackers(prefixes=("xy_",), names=frozenset({"REF"}))
    assert normalize_url(url, chosen) == "https://example.com/?UTM_x=3&refer=2"
    assert normalize_url(url, Trackers(prefixes=())).count("=") == 5


@covers("R0-85")
def test_default_trackers_are_those_of_the_specification():
    assert Trackers().prefixes == ("utm_", "gclid", "fbclid", "msclkid")
    assert Trackers().names == frozenset()


@covers("R0-16", "R2-63")
def test_request_keeps_what_only_the_id_drops():
    """Trailing slash and trackers change the id, never the URL requested (ADR 135)."""
    assert request_url("https://example.com/a/?utm_id=1&b") == "https://example.com/a/?utm_id=1&b"


@covers("RD-15", "RD-20", "R0-13", "R0-17")
@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("HTTPS://Me:secret@Example.COM:443/a/../b c#f", "https://example.com/b%20c"),
        ("https://example.com/x #f", "https://example.com/x%20"),
        ("https://example.com/@me", "https://example.com/@me"),
        ("https://:@example.com/", "https://example.com/"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("javascript:alert(1)", None),
        ("tel:+431", None),
        ("data:text/html,x", None),
        ("ftp://example.com/", None),
        ("file:///etc/passwd", None),
        ("/a", None),
    ],
)
def test_request_url_is_absolute_http_without_fragment_and_credentials(text, url):
    assert request_url(text) == url


@covers("RD-15", "R0-17")
@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("c", "https://example.com/a/c"),
        ("../c/", "https://example.com/c/"),
        ("//other.example/c", "https://other.example/c"),
        ("?q", "https://example.com/a/b?q"),
        ("#f", "https://example.com/a/b"),
        ("", "https://example.com/a/b"),
        ("http://me:pw@c.example/", "http://c.example/"),
        ("mailto:me@example.com", None),
        ("javascript:void(0)", None),
        ("http://[", None),
        ("\ud800", None),
    ],
)
def test_join_resolves_a_reference(href, url):
    assert join_url(can_ada.parse("https://u:p@example.com/a/b#top"), href) == url


@covers("RD-15")
def test_url_over_the_length_limit_is_not_requested():
    start = "https://example.com/"
    longest = start + "a" * (MAX_URL_LENGTH - len(start))

    assert request_url(longest) == longest
    assert request_url(longest + "a") is None
    assert request_url(longest[:-1] + "ä") is None
    assert request_url(longest + "#fragments-do-not-count") == longest
    assert join_url(can_ada.parse(start), longest + "a") is None


IDS = [
    (
        "https://contoso.com/blog/post-1",
        "262d41e646dd2485a1cc80851323c5f2951a12bbd7cf96f2ae65195ee0660fd9",
        "eywudzsg3usiliomqccrgi6f6k",
    ),
    (
        "https://example.com/",
        "0f115db062b7c0dd030b16878c99dea5c354b49dc37b38eb8846179c7783e9d7",
        "b4iv3mdcw7an2aylc2dyzgo6ux",
    ),
]


@covers("R0-10", "R0-24", "R0-25", "R0-27", "M-17", "G-20")
@pytest.mark.parametrize(("normal", "hexadecimal", "short"), IDS)
def test_every_id_is_made_of_one_digest(normal, hexadecimal, short):
    d = url_digest(normal)

    assert d.hex() == url_hash(normal) == hexadecimal
    assert url_digest_text(d) == short
    assert url_item_id("url", d) == f"url_{short}"
    assert url_item_id("file", d) == f"file_{short}"


@covers("R0-25")
def test_id_has_no_third_type():
    with pytest.raises(ValueError, match="'page'"):
        url_item_id("page", url_digest("x"))


@covers("R0-08", "R0-27")
@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("https://Contoso.com/x", "contoso.com"),
        ("http://contoso.com:80/", "contoso.com"),
        ("http://contoso.com:443/", "contoso.com"),
        ("https://contoso.com:80/", "contoso.com"),
        ("https://contoso.com:8443/", "contoso.com:8443"),
        ("http://contoso.com:8080/", "contoso.com:8080"),
        ("http://[::1]/", "[::1]"),
        ("http://[::80]/", "[::80]"),
        ("http://[::1]:8801/", "[::1]:8801"),
        ("https://me:80@bücher.example/", "xn--bcher-kva.example"),
    ],
)
def test_host_key_has_the_port_beside_80_and_443(url, key):
    assert url_host_key(url) == key


@covers("R0-19")
@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://xn--bcher-kva.example:8443/a?b", "https://bücher.example:8443/a?b"),
        ("https://xn--fa-hia.de/", "https://faß.de/"),
        ("https://example.com/xn--bcher-kva", "https://example.com/xn--bcher-kva"),
        ("http://xn--/", "http://xn--/"),
        ("http://[::1]:81/", "http://[::1]:81/"),
        ("no URL", "no URL"),
    ],
)
def test_display_decodes_the_host_for_people(url, shown):
    assert display_url(url) == shown


# Generated addresses

HOSTS = st.sampled_from(
    [
        "example.com",
        "a.b.example.co.uk",
        "bücher.example",
        "例え.jp",
        "xn--bcher-kva.example",
        "faß.de",
        "localhost",
        "127.0.0.1",
        "[::1]",
        "[2001:db8::ff]",
        "acct.blob.core.windows.net",
        "a_b.example",
    ]
)
# fmt: off
ODD = st.sampled_from([
    "%", "%%", "%4", "%zz", "%41", "%2f", "%2F", "%7e", "%25", "%2e%2E", "%C3%a4", "%ff", "+", " ",
    "ä", "日", "/", "//", "..", ".", "a", "B", "0", "~", "'", '"', "|", "[", "\\", "&", "=", ";",
    "?", ":", "@", "\t", "\n", "^", "{", "\x7f", "sig=1", "sv=1", "utm_x=1", "&a=1", "&a",
])
# fmt: on
TAIL = st.lists(ODD, max_size=8).map("".join)
#: Addresses with odd parts, most of them valid.
ADDRESSES = st.builds(
    lambda scheme, user, host, port, path, query: f"{scheme}://{user}{host}{port}/{path}{query}",
    st.sampled_from(["http", "https", "HTTP", "file", "ftp"]),
    st.sampled_from(["", "", "", "me@", "me:p%40w@", ":@"]),
    HOSTS | st.just(""),
    st.sampled_from(["", "", ":80", ":443", ":8443", ":0", ":x"]),
    TAIL,
    st.just("") | TAIL.map("?{}".format) | TAIL.map("#{}".format),
)
PATHS = st.builds("{}:{}{}".format, st.sampled_from("cZ"), st.sampled_from("\\/"), TAIL)
TEXTS = ADDRESSES | PATHS | st.text(st.characters(codec=None), max_size=30)


@covers("M-17", "M-18", "R2-69", "R0-23")
@settings(max_examples=examples(1000), deadline=None)
@given(TEXTS)
@example("http://h/%4%31")
@example("file:////C:/..")
@example("http://example.com/#/?utm_source=x")
@example("http://example.com/#/?%=")
@example("http://example.com/#!?utm_source=x")
@example("C:\\\u0130")
def test_normalize_never_raises_and_is_idempotent(text):
    normal = normalize_url(text)

    assert normalize_url(normal) == normal


@covers("M-54", "RD-20")
@settings(max_examples=examples(1000), deadline=None)
@given(TEXTS)
@example("http://example.com/#/%")
@example("http://example.com#!a#b")
def test_request_url_never_raises_and_is_idempotent(text):
    url, routed = request_url(text), request_url(text, routes=True)

    if url is not None:
        assert request_url(url) == url
        assert url.startswith(("http://", "https://"))
        assert "#" not in url
        assert "@" not in url.split("/")[2]
        assert display_url(url)
    if routed is not None:
        assert request_url(routed, routes=True) == routed
        assert request_url(routed) == url
        assert normalize_url(routed) == normalize_url(text)


@covers("R0-19")
@settings(max_examples=examples(300), deadline=None)
@given(st.text(st.characters(codec="utf-8", categories=["L", "N"]), min_size=1, max_size=12))
@example("xn--zzzzz")
@example("xn--bcher-kva")
def test_what_is_displayed_leads_back(label):
    url = request_url(f"https://{label}.example/")

    if url is not None:
        assert request_url(display_url(url)) == url


@st.composite
def two_spellings(draw):
    """One URL spelled twice: case, port, credentials, fragment, order, trackers, escapes."""
    host = draw(HOSTS)
    path = draw(
        st.lists(st.sampled_from(["a", "B~c", "ä ö", "x%2Fy", "1+1", "", "日"]), max_size=4)
    )
    params = draw(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("01~")), max_size=4))
    secure = draw(st.booleans())

    def spelling():
        scheme = draw(st.sampled_from(["https", "HTTPS", "hTTps"]))
        port = draw(st.sampled_from(["", ":443", ":0443"]))
        if not secure:
            scheme, port = scheme[:-1].replace("hTTp", "Http"), port.replace("443", "80")
        user = draw(st.sampled_from(["", "me@", "me:pw@"]))
        name = (
            host
            if host.startswith("xn")
            else "".join(draw(st.sampled_from([c, c.upper() if c.isascii() else c])) for c in host)
        )
        segments = "/".join(_escaped_anyhow(draw, segment) for segment in path)
        # The key of a blob ends with all its slashes (ADR 62).
        slash = draw(st.sampled_from([""] if ".blob." in host else ["", "/", "/./", "/x/../"]))
        parts = [
            f"{_escaped_anyhow(draw, key)}={_escaped_anyhow(draw, value)}" for key, value in params
        ]
        noise = draw(st.lists(st.sampled_from(["", "utm_a=1", "GCLID=x", "fbclid", "Msclkid="])))
        query = "&".join(draw(st.permutations(parts + noise)))
        question = draw(st.sampled_from(["", "?"])) if not query else "?"
        fragment = draw(st.sampled_from(["", "#", "#a?b&utm_c=1"]))
        return f"{scheme}://{user}{name}{port}/{segments}{slash}{question}{query}{fragment}"

    return spelling(), spelling()


def _escaped_anyhow(draw, text):
    """Spell each character plainly or as an escape, in either case of hexadecimal digits."""
    shown, rest = "", text
    while rest:
        if rest.startswith("%"):
            shown, rest = shown + draw(st.sampled_from([rest[:3], rest[:3].lower()])), rest[3:]
            continue
        escape = "".join(f"%{byte:02X}" for byte in rest[0].encode())
        plain = [rest[0], escape, escape.lower()] if rest[0] != "+" else ["+"]
        shown, rest = shown + draw(st.sampled_from(plain)), rest[1:]
    return shown


@covers("R0-02", "R0-12", "R0-13", "R0-14", "R0-15", "R0-16", "M-17", "M-18")
@settings(max_examples=examples(150), deadline=None)
@given(two_spellings())
def test_spellings_of_one_url_have_one_id(spellings):
    assert_one_id(spellings)


@pytest.mark.long
@settings(max_examples=2_000, deadline=None)
@given(two_spellings())
def test_spellings_of_one_url_have_one_id_in_many_more_examples(spellings):
    assert_one_id(spellings)


def assert_one_id(spellings):
    one, other = (url_item_id("url", url_digest(normalize_url(url))) for url in spellings)

    assert one == other


@covers("M-17", "M-18")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("https://example.com/a", "http://example.com/a"),
        ("https://example.com/a", "https://example.com/A"),
        ("https://example.com/a/b", "https://example.com/a%2Fb"),
        ("https://example.com/a+b", "https://example.com/a%20b"),
        ("https://example.com/a", "https://example.com:8443/a"),
        ("https://example.com/a", "https://www.example.com/a"),
        ("https://example.com/?a=1", "https://example.com/?a=2"),
        ("https://example.com/?a=1&a=2", "https://example.com/?a=1"),
        ("https://example.com/?a=1%262", "https://example.com/?a=1&2"),
        ("https://faß.de/", "https://fass.de/"),
    ],
)
def test_different_resources_have_different_ids(one, other):
    assert url_hash(normalize_url(one)) != url_hash(normalize_url(other))


# Web platform tests

#: Punycode that cannot be decoded: the newest standard lets it stand, can_ada refuses it.
_BROKEN_PUNYCODE = ("xn--pokxncvks", "//xn--/")


def _expected(case):
    """Return the URL to request that the standard's own result gives."""
    href = case.get("href", "").partition("#")[0]
    if not href.startswith(("http://", "https://")):
        return None
    if any(broken in href for broken in _BROKEN_PUNYCODE):
        return None
    scheme, _, host, *rest = href.split("/")
    return "/".join([scheme, "", host.rpartition("@")[2], *rest])


@covers("R0-17", "RD-15")
def test_web_platform_tests_agree():
    """All 888 cases of the URL Standard's own data, seen through what a crawler may request."""
    wrong = []
    for case in WPT:
        base = case["base"]
        try:
            found = (
                request_url(case["input"])
                if base is None
                else join_url(can_ada.parse(base), case["input"])
            )
        except ValueError:
            found = None  # the base itself is none
        if found != _expected(case):
            wrong.append((case["input"], base, found))

    assert len(WPT) == 888
    assert wrong == []


@covers("R2-69", "M-54")
def test_web_platform_tests_break_nothing():
    """Every input, also the failing ones, has one normal form, and reaches no error."""
    base = can_ada.parse("https://user:pw@example.com/a/b?c#d")
    changed = []
    for text in {case[key] for case in WPT for key in ("input", "base") if case[key]}:
        for form in (text, request_url(text), join_url(base, text)):
            if form is not None:
                normal = normalize_url(form)
                if normalize_url(normal) != normal or len(url_hash(normal)) != 64:
                    changed.append(form)

    assert changed == []


@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("https://github.com/octo/docs", True),
        ("https://GitHub.com/Octo/Docs/", True),
        ("https://github.com/octo/docs?tab=readme#top", True),
        ("https://github.com/octo/docs#a?b", True),
        ("https://github.com/octo/docs/wiki", False),
        ("http://github.com/octo/docs", False),
        ("https://github.com/octo", False),
    ],
)
def test_one_place_has_many_spellings_where_case_does_not_count(other: str, same: bool):
    assert is_same_url_place("https://github.com/octo/docs", other) is same
    assert is_same_url_place(other, "https://github.com/octo/docs") is same
