"""What a notice of IndexNow is about."""

import pytest

from smartcrawl.sources.indexnow import (
    MOST_ADDRESSES,
    Ignored,
    NoticeError,
    NoticeFault,
    indexnow_notice,
)

KEY = "0123-4567"
PAGE = "https://docs.example/guide"


def test_an_address_names_its_host_and_the_place_of_the_key():
    notice = indexnow_notice(None, KEY, None, ["HTTP://Docs.Example:80/a/../b?c#d"])

    assert (notice.host, notice.key_url) == ("docs.example", f"http://docs.example/{KEY}.txt")
    assert (notice.urls, notice.ignored) == (("http://docs.example/b?c",), ())


def test_a_list_counts_each_address_once_and_names_what_does_not_count():
    sent = [PAGE, f"{PAGE}#top", "/relative", "https://www.docs.example/", "http://docs.example/a"]

    notice = indexnow_notice("docs.example", KEY, None, sent)

    assert notice.urls == (PAGE, "http://docs.example/a")
    assert notice.ignored == (
        ("/relative", Ignored.INVALID),
        ("https://www.docs.example/", Ignored.OTHER_HOST),
    )


def test_a_key_file_in_a_folder_speaks_for_that_folder_alone():
    sent = ["https://docs.example/a/x", "https://docs.example/ab", "https://docs.example/a"]

    notice = indexnow_notice("docs.example", KEY, "https://docs.example/a/b/../key.txt", sent)

    assert notice.key_url == "https://docs.example/a/key.txt"
    assert notice.urls == ("https://docs.example/a/x",)
    assert {why for _, why in notice.ignored} == {Ignored.OUTSIDE_FOLDER}


def test_ten_thousand_addresses_are_taken_and_no_more():
    sent = [f"{PAGE}/{number}" for number in range(MOST_ADDRESSES)]
    assert len(indexnow_notice("docs.example", KEY, None, sent).urls) == MOST_ADDRESSES

    with pytest.raises(NoticeError, match="1 to 10,000 addresses") as refused:
        indexnow_notice("docs.example", KEY, None, [*sent, PAGE])
    assert refused.value.fault is NoticeFault.MALFORMED


@pytest.mark.parametrize(
    ("host", "key", "place", "sent", "fault", "field"),
    [
        ("docs.example", "short", None, [PAGE], NoticeFault.FOREIGN, "key"),
        ("docs.example", KEY, None, [], NoticeFault.MALFORMED, "urlList"),
        ("docs.example/a", KEY, None, [PAGE], NoticeFault.MALFORMED, "host"),
        ("me@docs.example", KEY, None, [PAGE], NoticeFault.MALFORMED, "host"),
        (None, KEY, None, ["ftp://docs.example/"], NoticeFault.MALFORMED, "url"),
        ("docs.example", KEY, "/key.txt", [PAGE], NoticeFault.MALFORMED, "keyLocation"),
        # a page may repeat its query, and so would have any key
        ("docs.example", KEY, f"https://docs.example/e?t={KEY}", [PAGE], NoticeFault.MALFORMED,
         "keyLocation"),
        ("docs.example", KEY, "https://evil.example/k", [PAGE], NoticeFault.FOREIGN, "keyLocation"),
        ("docs.example", KEY, "https://docs.example:8/k", [PAGE], NoticeFault.FOREIGN,
         "keyLocation"),
        ("docs.example", KEY, None, ["/a", "b"], NoticeFault.MALFORMED, "urlList"),
        ("docs.example", KEY, None, ["/a", "https://a.example/"], NoticeFault.FOREIGN, "urlList"),
        (None, KEY, "https://docs.example/b/k", [PAGE], NoticeFault.FOREIGN, "url"),
    ],
)  # fmt: skip
def test_a_notice_about_nothing_is_refused_by_the_field_that_is_wrong(
    host: str | None, key: str, place: str | None, sent: list[str], fault: NoticeFault, field: str
):
    with pytest.raises(NoticeError) as refused:
        indexnow_notice(host, key, place, sent)

    assert (refused.value.fault, refused.value.field) == (fault, field)
