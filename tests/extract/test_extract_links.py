"""Which links a page has, and how they are spelled."""

from html import escape

import can_ada
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract.html import MAX_LINKS, parse_html
from smartcrawl.extract.links import refresh_target_at_once
from smartcrawl.model.documents import Link

PAGE = "http://site.example/dir/page.html?q=1"


def read(markup, url=PAGE):
    return parse_html(markup.encode(), content_type="text/html; charset=utf-8", url=url)


def urls(markup, url=PAGE):
    return [link.url for link in read(markup, url).links]


@pytest.mark.covers("R0-17", "R1-25")
@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("a.html", "http://site.example/dir/a.html"),
        ("/a", "http://site.example/a"),
        ("../a?b=c&amp;d", "http://site.example/a?b=c&d"),
        ("//other.example", "http://other.example/"),
        ("HTTPS://Other.Example:443/ü", "https://other.example/%C3%BC"),
        ("?page=2", "http://site.example/dir/page.html?page=2"),
        (" a\n\tb ", "http://site.example/dir/ab"),
        ("a b", "http://site.example/dir/a%20b"),
        ("a.html#part", "http://site.example/dir/a.html"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://bücher.example", "http://xn--bcher-kva.example/"),
        ("http://me:secret@other.example/a@b", "http://other.example/a@b"),
        ("http://me@other.example/", "http://other.example/"),
        ("page.html", "http://site.example/dir/page.html"),
    ],
)
def test_links_are_absolute_without_fragment_and_credentials(href, url):
    assert urls(f"<a href='{href}'>x</a>") == [url]


@pytest.mark.covers("RD-15")
@pytest.mark.parametrize(
    "href",
    [
        "mailto:me@site.example",
        "JavaScript:void(0)",
        "java\nscript:x",
        "tel:123",
        "data:text/html,x",
        "ftp://site.example/",
        "file:///etc/passwd",
        "about:blank",
        "http://a b/",
        "http://site.example:99999/",
        "#part",
        "",
        " ",
        "page.html?q=1",
        "?q=1#part",
        PAGE,
    ],
)
def test_other_schemes_nonsense_and_the_page_itself_are_no_links(href):
    assert urls(f"<a href='{href}'>x</a><a href=y>y</a>") == ["http://site.example/dir/y"]


def test_credentials_of_the_page_are_in_no_link():
    assert urls("<a href=/x>x</a><a href=>", "http://me:secret@site.example/") == [
        "http://site.example/x"
    ]


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("/b/", "http://site.example/b/x"),
        ("http://other.example/c/d", "http://other.example/c/x"),
        ("http://me:secret@other.example/", "http://other.example/x"),
        ("mailto:me", "http://site.example/dir/x"),
        ("http://a b/", "http://site.example/dir/x"),
        ("", "http://site.example/dir/x"),
    ],
)
def test_base_is_respected_wherever_it_stands(base, url):
    assert urls(f"<a href=x>x</a><base href='{base}'>") == [url]


def test_first_base_with_an_address_counts():
    assert urls("<base target=t><base href=/1/><base href=/2/><a href=x>") == [
        "http://site.example/1/x"
    ]


@pytest.mark.parametrize(
    ("markup", "kind", "anchor"),
    [
        ("<a href=x>The  <b>an</b>chor</a>", "hyperlink", "The anchor"),
        ("<a href=x><div>two</div>lines</a>", "hyperlink", "two lines"),
        ("<a href=x><img src=i alt=' A  picture '></a>", "hyperlink", "A picture"),
        ("<a href=x><img src=i alt=no>text</a>", "hyperlink", "text"),
        ("<a href=x><svg><title>no</title></svg></a>", "hyperlink", ""),
        ("<svg viewBox='0 0 9 9'><a xlink:href=x><text>y</text></a></svg>", "hyperlink", "y"),
        ("<svg viewBox='0 0 9 9'><a href=x><text>y</text></a></svg>", "hyperlink", "y"),
        ("<map><area href=x alt=Region></map>", "hyperlink", "Region"),
        ("<link rel='NEXT' href=x title=Chapter>", "next", "Chapter"),
        ("<link rel=prev href=x>", "prev", ""),
        ("<link rel=alternate hreflang=de href=x>", "alternate", ""),
        ("<link rel=canonical href=x>", "canonical", ""),
        ("<frameset><frame src=x></frameset>", "frame", ""),
        ("<iframe src=x>fallback</iframe>", "frame", ""),
        ("<meta http-equiv=Refresh content='5; URL=x'>", "refresh", ""),
        ("<meta http-equiv=refresh content='0;url=\"x\"'>", "refresh", ""),
        ("<meta http-equiv=refresh content='0.5 , x '>", "refresh", ""),
        ("<noscript><a href=x>plain</a></noscript>", "hyperlink", "plain"),
        ("<template shadowrootmode=open><a href=x>y</a></template>", "hyperlink", "y"),
    ],
)
def test_type_and_anchor(markup, kind, anchor):
    assert read(markup).links == (Link("http://site.example/dir/x", anchor, kind, False),)


@pytest.mark.parametrize(
    "markup",
    [
        "<link rel=stylesheet href=x>",
        "<link rel='alternate stylesheet' href=x>",
        "<link rel=icon href=x>",
        "<a name=x>x</a>",
        "<a xlink:href=x>x</a>",
        "<meta http-equiv=refresh content=300>",
        "<meta http-equiv=refresh content='300;'>",
        "<template><a href=x>{{y}}</a></template>",
        "<script>document.write('<a href=x>')</script>",
        "<!-- <a href=x> -->",
    ],
)
def test_what_is_no_link(markup):
    assert urls(markup) == []


@pytest.mark.covers("R0-59")
def test_canonical_is_absolute_and_the_first_counts():
    document = read("<link rel=canonical href='/c#x'><link rel=canonical href=/d>")

    assert document.canonical == "http://site.example/c"
    assert read("<link rel=canonical href='page.html?q=1'>").canonical == PAGE
    assert read("<link rel=canonical href='mailto:x'>").canonical is None
    assert read("<link rel=next href=x><link rel=canonical>").canonical is None


def test_links_are_distinct_in_document_order_and_the_first_counts():
    document = read("<a href=b>1</a><a href=a>2</a><a href=/dir/b#x>3</a><a href=a>4</a>")

    assert [(link.url[-1], link.anchor) for link in document.links] == [("b", "1"), ("a", "2")]


@pytest.mark.parametrize(
    ("rels", "nofollow"),
    [
        (["nofollow"], True),
        (["external NoFollow"], True),
        (["external"], False),
        (["nofollowing"], False),
        (["nofollow", ""], False),
        (["", "nofollow"], False),
        (["nofollow", "nofollow ugc"], True),
    ],
)
def test_link_is_nofollow_only_if_all_its_occurrences_are(rels, nofollow):
    same = ["x", "/dir/x"]
    for hrefs in (["x", "x"], same):
        markup = "".join(
            f"<a href={h} rel='{rel}'>x</a>" for h, rel in zip(hrefs, rels, strict=False)
        )
        assert [link.nofollow for link in read(markup).links] == [nofollow]


def test_anchor_has_at_most_200_characters():
    (link,) = read(f"<a href=x>{'word ' * 100}</a>").links

    assert link.anchor == ("word " * 40).rstrip()


def test_anchor_that_is_not_closed_ends_at_the_next():
    for between in ("", "<div>"):
        links = read(f"<a href=x>one{between}<a href=y>two</a>").links
        assert [link.anchor for link in links] == ["one", "two"]


def test_first_text_of_several_images_is_the_anchor():
    assert (
        read("<a href=x><img src=1><img src=2 alt=b><img src=3 alt=c></a>").links[0].anchor == "b"
    )


def test_known_links_stay_when_the_page_has_too_many_spellings():
    """Spellings are limited too, or a page of 20 MB would cost a gigabyte."""
    document = read(
        "<a href=a>" + "".join(f"<a href=mailto:{n}>" for n in range(2 * MAX_LINKS)) + "<a href=b>"
    )

    assert [link.url for link in document.links] == ["http://site.example/dir/a"]
    assert document.links_cut


def test_links_of_a_page_are_limited_and_the_page_says_so():
    document = read("".join(f"<a href={n}>" for n in range(MAX_LINKS + 1)))

    assert len(document.links) == MAX_LINKS
    assert document.links[-1].url == f"http://site.example/dir/{MAX_LINKS - 1}"
    assert document.links_cut


def test_the_limit_counts_addresses_not_fragments():
    fragments = "".join(f"<a href=0#{n}>" for n in range(2 * MAX_LINKS + 1))
    document = read(fragments + "".join(f"<a href={n}>" for n in range(MAX_LINKS)))

    assert len(document.links) == MAX_LINKS
    assert not document.links_cut


HREFS = st.text() | st.from_regex(
    r"(https?:|HTTP:)?//([a-zü]{1,5}(:[a-z]{0,3})?@)?(\[::1\]|[a-zß.]{1,9}|1\.2)(:\d{1,5})?/\S*",
    fullmatch=True,
)


@given(HREFS)
def test_whatever_is_written_links_are_http_and_tell_no_secret(href):
    quoted = href.replace("&", "&amp;").replace("'", "&#39;").encode("utf-8", "replace").decode()
    for link in read(f"<a href='{quoted}'>x</a>").links:
        authority = link.url.split("/")[2]
        assert link.url.startswith(("http://", "https://"))
        assert "@" not in authority
        assert "#" not in link.url


# Links of files


@pytest.mark.covers("R0-17", "R1-28")
@pytest.mark.parametrize(
    ("page", "href", "url"),
    [
        ("file:///srv/docs/a%20b.html", "c(1).html", "file:///srv/docs/c(1).html"),
        ("file:///srv/docs/a.html", "../é ü.html?x=1#part", "file:///srv/%C3%A9%20%C3%BC.html"),
        ("file:///srv/docs/a.html", "/img/", "file:///img"),
        ("file://nas/share/a.html", "b.html", "file://nas/share/b.html"),
        ("s3://bucket/a//b.html", "c.html", "s3://bucket/a//c.html"),
        ("s3://bucket/a/b.html", "s3://bucket/B", "s3://bucket/B"),
        ("abfs://box@account/a/b.html", "c", "abfs://box@account/a/c"),
        ("file:///srv/a.html", "https://me:secret@site.example/a#b", "https://site.example/a"),
        (
            "https://site.example/blob/main/a.html",
            "b.html",
            "https://site.example/blob/main/b.html",
        ),
    ],
)
def test_a_file_links_to_the_web_and_to_files_of_its_place(page, href, url):
    assert urls(f"<a href='{href}'>x</a>", page) == [url]


@pytest.mark.parametrize(
    ("page", "href"),
    [
        ("file:///srv/docs/a.html", "//nas/share/b.html"),
        ("file:///srv/docs/a.html", "s3://bucket/b.html"),
        ("file:///srv/docs/a.html", "mailto:me@site.example"),
        ("file:///srv/docs/a.html", "#part"),
        ("file:///srv/docs/a.html", "a.html?x"),
        ("s3://bucket/a.html", "s3://other/a.html"),
        ("s3://bucket/a.html", "file:///etc/passwd"),
        ("abfs://box@account/a.html", "abfs://other@account/a.html"),
    ],
)
def test_a_file_links_to_no_other_place_and_not_to_itself(page, href):
    assert urls(f"<a href='{href}'>x</a>", page) == []


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0; url=x", "x"),
        ("0;URL='x'", "x"),
        ('1 , "x"', "x"),
        ("0 x", "x"),
        (".9;x", "x"),
        ("1.99; url = x#part", "x"),
        ("0001; url=x", "x"),
        ("2; url=x", None),
        ("10000000000000000000; url=x", None),
        ("0" * 5000 + "20; url=x", None),
        ("; url=x", None),
        ("url=x", None),
        ("-1; url=x", None),
        ("0", "page"),
        ("1", "page"),
        ("2", None),
        ("0; url=", "page"),
        ("0; url=#part", "page"),
        ("0; url=page", "page"),
        ("0; url=javascript:x", None),
        ("0; url=http://[", None),
    ],
)
def test_where_a_refresh_leads_at_once(content, target):
    page = can_ada.parse("http://site.example/dir/page")
    found = refresh_target_at_once(content, page, page)

    assert found == (target and f"http://site.example/dir/{target}")
    markup = f'<meta http-equiv=refresh content="{escape(content)}">'
    read = parse_html(markup.encode(), content_type="text/html", url=str(page), links=False)
    assert read.refresh == found


@pytest.mark.parametrize(
    ("markup", "target"),
    [
        ("{}", "http://site.example/dir/x"),
        ("<base href=/other/>{}", "http://site.example/other/x"),
        ("<p>text</p>{}", "http://site.example/dir/x"),
        ("<meta http-equiv=refresh content=30>{}", None),
        ("<noscript>{}</noscript>", None),
        ("<noscript><div>text</div>{}</noscript>", None),
        ("<template>{}</template>", None),
        ("<!--[if lt IE 9]>{}<![endif]-->", None),
        ("<script>{}</script>", None),
        ("<div>" * 600 + "{}", None),
    ],
)
def test_which_refresh_of_a_page_counts(markup, target):
    markup = markup.format("<meta http-equiv=refresh content='0; url=x'>")
    url = "http://site.example/dir/page"

    assert parse_html(markup.encode(), content_type="text/html", url=url).refresh == target
