"""What gives access in an address is asked for and never kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.model.urls import (
    Trackers,
    is_signed_url,
    normalize_url,
    sessionless_url,
    unsigned_url,
)

S3 = "X-Amz-Algorithm=a&X-Amz-Credential=c&X-Amz-Date=d&X-Amz-Expires=9&X-Amz-SignedHeaders=h"
CASES = [
    (
        "https://a.blob.core.windows.net/c/f?sv=1&se=2&sr=b&sp=r&sig=x",
        "https://a.blob.core.windows.net/c/f",
    ),
    ("https://files.example/c/f?sv=1&si=2&sig=x&page=3", "https://files.example/c/f?page=3"),
    ("https://a.blob.core.windows.net/c/f?sig=x", "https://a.blob.core.windows.net/c/f"),
    (f"https://b.example/k?{S3}&X-Amz-Signature=x", "https://b.example/k"),
    (f"https://b.example/k?v=1&{S3}&X-Amz-Signature=x&w=2", "https://b.example/k?v=1&w=2"),
    ("https://g.example/k?X-Goog-Date=1&x-goog-signature=x", "https://g.example/k"),
    ("https://c.example/k?Expires=1&Signature=x&Key-Pair-Id=y", "https://c.example/k"),
    ("https://c.example/k?AWSAccessKeyId=1&Expires=2&Signature=x", "https://c.example/k"),
    ("https://a.example/?access_token=x", "https://a.example/"),
    ("https://a.example/?a=1&API_KEY=x#b", "https://a.example/?a=1#b"),
    ("https://a.example/?api%5Fkey=x", "https://a.example/"),
    ("https://a.example/?a=1;password=x;b", "https://a.example/?a=1;b"),
]


@pytest.mark.covers("R0-22", "R0-77", "RD-20")
@pytest.mark.parametrize(("url", "bare"), CASES)
def test_signatures_go_with_all_that_belongs_to_them(url, bare):
    assert unsigned_url(url) == bare
    assert normalize_url(url) == normalize_url(bare)


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/",
        "https://a.example/?sig=1&sv=2",
        "https://a.example/?signature=art&expires=never",
        "https://a.example/?X-Amz-Date=1",
        "https://a.example/password=x",
        "https://a.example/?q=how+to+get+an+api_key",
        "https://a.example/?q=password%3D1",
        "https://a.example/?a&&b=&=c;",
    ],
)
def test_what_signs_nothing_stays_byte_for_byte(url):
    assert unsigned_url(url) == url


@pytest.mark.covers("RD-20")
@given(
    st.lists(
        st.sampled_from(
            ["a=1", "b", "sig=S", "sv=1", "se=2", "api_key=S", "X-Amz-Signature=S", "x-amz-date=3"]
        )
    )
)
def test_no_secret_survives_wherever_it_stands(pairs):
    bare = unsigned_url(f"https://a.example/?{'&'.join(pairs)}")

    assert unsigned_url(bare) == bare
    if not {"sig=S"} & set(pairs) or {"sv=1", "se=2"} <= set(pairs):
        assert "S" not in bare.replace("X-Amz-Signature", "")
    assert ("a=1" in bare) is ("a=1" in pairs)


# Session ids

SESSIONS = [
    ("https://a.example/area;jsessionid=0A1B.node-2!-33", "https://a.example/area"),
    ("https://a.example/area;JSESSIONID=0A/b;v=1?c=2#d", "https://a.example/area/b;v=1?c=2#d"),
    ("https://a.example/;jsessionid=1;jsessionid=2", "https://a.example/"),
    ("https://a.example/a?PHPSESSID=0cc175b9", "https://a.example/a"),
    ("https://a.example/a?PHPSESSID=0cc1&b=1", "https://a.example/a?b=1"),
    ("https://a.example/a?b=1&sessid=2&c=3", "https://a.example/a?b=1&c=3"),
    ("https://a.example/a?b=1;phpsessid=2;c", "https://a.example/a?b=1;c"),
    ("https://a.example/a.cfm?CFID=1&CFTOKEN=2a-3", "https://a.example/a.cfm"),
    ("https://a.example/a?b&ASPSESSIONIDQCRT=AB", "https://a.example/a?b"),
    ("https://a.example/a?zenid=1&osCsid=2&", "https://a.example/a"),
    ("https://a.example/a?b=1&zenid=1&osCsid=2#c", "https://a.example/a?b=1#c"),
    ("https://a.example/in?next=/a;jsessionid=1&b=2", "https://a.example/in?next=/a&b=2"),
    ("https://a.example/in?next=/a?sessid=1", "https://a.example/in?next=/a"),
    ("https://a.example/a;jsessionid=1?PHPSESSID=2&api_key=8", "https://a.example/a?api_key=8"),
]


@pytest.mark.covers("R0-15")
@pytest.mark.parametrize(("url", "bare"), SESSIONS)
def test_what_only_session_ids_are_called_is_no_part_of_an_address(url, bare):
    assert sessionless_url(url) == bare
    assert sessionless_url(bare) == bare
    assert unsigned_url(url) == unsigned_url(bare)
    assert normalize_url(url) == normalize_url(bare)
    assert is_signed_url(url) is ("api_key" in url)


@pytest.mark.parametrize(
    "url",
    [
        "https://a.example/a?sid=12&session=3&session_id=4&s=5",
        "https://a.example/a;sid=0cc175b9c0f1b6a831c399e269772661",
        "https://a.example/jsessionid=1/cfid=2",
        "https://a.example/a?q=phpsessid&b=my_sessid=1",
        "https://a.example/a?zenidx=1&xcfid=2&cftokens=3&aspsessionid9=4",
        "https://a.example/?next=%2Fa%3Bsid%3D1&id=2",
        "https://a.example/#;jsessionid=1",
    ],
)
def test_names_that_other_ids_have_too_stay_byte_for_byte(url):
    assert sessionless_url(url) == url


@pytest.mark.covers("R0-15")
@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("https://a.example/a;sid=1", "https://a.example/a"),
        ("https://a.example/a;SID=1;v=2/b;sid/c", "https://a.example/a;v=2/b/c"),
        ("https://a.example/a;utm_source=x?sid=1&b=2", "https://a.example/a?b=2"),
        ("https://a.example/a;sidx=1?sidx=2", "https://a.example/a;sidx=1?sidx=2"),
    ],
)
def test_trackers_are_known_in_path_and_query(url, bare):
    assert normalize_url(url, Trackers(names=frozenset({"Sid"}))) == bare


@given(
    st.lists(st.sampled_from([";jsessionid=S", ";v=1", "/", "a", "?", "&", "cfid=S", "sid=1", "#"]))
)
def test_taking_session_ids_out_twice_is_taking_them_out_once(parts):
    url = "https://a.example/" + "".join(parts)

    assert sessionless_url(sessionless_url(url)) == sessionless_url(url)
    assert normalize_url(normalize_url(url)) == normalize_url(url)
