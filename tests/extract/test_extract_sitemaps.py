"""Which addresses a sitemap or a feed names, and that nothing in it can break or stall us."""

import gc
import gzip
import random
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from smartcrawl.extract import sitemaps
from smartcrawl.extract.sitemaps import (
    MAX_DEPTH,
    MAX_ELEMENTS,
    MAX_ENTRIES,
    MAX_LASTMOD,
    MAX_MEMBERS,
    MAX_SITEMAP,
    MAX_TAG,
    MAX_TEXT,
    Entry,
    Sitemap,
    SitemapError,
    SitemapFault,
    SitemapKind,
    escaped_ampersands,
    looks_like_sitemap,
    read_sitemap,
)
from smartcrawl.model.exceptions import SmartcrawlError
from smartcrawl.model.urls import MAX_URL_LENGTH, request_url

DATA = Path(__file__).resolve().parents[1] / "data" / "sitemaps"
HERE = "http://site.example/maps/sitemap.xml"
XML_DATA = sorted(path.name for path in DATA.iterdir() if path.suffix in (".xml", ".rss"))


def read(body, *, content_type="application/xml", url=HERE):
    body = body if isinstance(body, bytes) else body.encode()
    return read_sitemap(body, content_type=content_type, url=url)


def urls(body, **options):
    return [entry.url for entry in read(body, **options).entries]


def refused(body, **options):
    with pytest.raises(SitemapError) as caught:
        read(body, **options)
    return caught.value


def urlset(inner, root=""):
    return f"<urlset{root}>{inner}</urlset>"


def page(inner):
    return urlset(f"<url>{inner}</url>")


def rss(inner):
    return f"<rss version='2.0'><channel>{inner}</channel></rss>"


def atom(inner, root=""):
    return f"<feed xmlns='http://www.w3.org/2005/Atom'{root}>{inner}</feed>"


@pytest.mark.parametrize(
    ("name", "kind", "entries", "dropped"),
    [
        (
            "atom.xml",
            SitemapKind.ATOM,
            [("http://example.org/2003/12/13/atom03", "2003-12-13T18:30:02Z")],
            0,
        ),
        (
            "feed.rss",
            SitemapKind.RSS,
            [
                ("https://www.example.com/blog/post/1", "Sun, 06 Sep 2009 16:20:00 +0000"),
                ("https://www.example.com/foo?q=a&l=en", ""),
                ("https://www.example.com/foo?q=a&l=fr", ""),
            ],
            1,
        ),
        (
            "pagemaps-sitemap.xml",
            SitemapKind.URLSET,
            [("http://www.example.com/foo", ""), ("http://www.example.com/bar", "")],
            0,
        ),
        (
            "shinpaideshou-news-sitemap.xml",
            SitemapKind.URLSET,
            [
                (f"https://shinpaideshou.wordpress.com/2017/04/{path}/", "")
                for path in (
                    "25/job-opening-reischauer-policy-research-fellow",
                    "24/call-for-papers-nation-gender-and-history-asian-cinemas-in-perspective-2",
                    "24/job-opening-lecturer-in-japanese-studies-university-of-leeds",
                )
            ],
            0,
        ),
        (
            "sitemap-images.xml",
            SitemapKind.URLSET,
            [("http://www.example.com/images/some_image_landing_page.html", "")],
            0,
        ),
        (
            "sitemap-links.xml",
            SitemapKind.URLSET,
            [
                ("http://www.example.com/english/", ""),
                ("http://www.example.com/deutsch/", ""),
                ("http://www.example.com/schweiz-deutsch/", ""),
            ],
            0,
        ),
        (
            "sitemap-mobile.xml",
            SitemapKind.URLSET,
            [
                ("http://www.example.com/mobile-friendly-1/", ""),
                ("http://www.example.com/mobile-friendly-2/", ""),
                ("http://www.example.com/no-mobile/", ""),
            ],
            0,
        ),
        (
            "sitemap-news.xml",
            SitemapKind.URLSET,
            [
                ("http://www.example.org/business/article55.html", ""),
                ("http://www.example.org/empty_news_name.html", ""),
            ],
            0,
        ),
        (
            "sitemap-videos-tvshow.xml",
            SitemapKind.URLSET,
            [("https://example.org/my-tv-show/23/13/", "")],
            0,
        ),
        (
            "sitemap-videos.xml",
            SitemapKind.URLSET,
            [
                (f"http://www.example.com/videos/some_video_landing_page{n}.html", "")
                for n in ("", "-2", "-3")
            ],
            0,
        ),
        (
            "sitemap-with-bom.txt",
            SitemapKind.TEXT,
            [("http://www.domain.com/page1.html", ""), ("http://www.domain.com/page2.html", "")],
            0,
        ),
        (
            "sitemap.badns.xml",
            SitemapKind.URLSET,
            [("http://www.example.com/1", ""), ("http://www.example.com/2", "")],
            0,
        ),
        ("sitemap.index.xml", SitemapKind.INDEX, [], 15),  # addresses without <loc>
        (
            "sitemap.ns.xml",
            SitemapKind.URLSET,
            [("http://www.example.com/1", ""), ("http://www.example.com/2", "")],
            0,
        ),
        (
            "sitemap.txt",
            SitemapKind.TEXT,
            [("http://www.domain.com/page1.html", ""), ("http://www.domain.com/page2.html", "")],
            0,
        ),
        (
            "sitemap.txt.gz",
            SitemapKind.TEXT,
            [
                ("http://www.example.com/", ""),
                ("http://www.example.com/catalog?item=12&desc=vacation_hawaii", ""),
                ("http://www.example.com/catalog?item=73&desc=vacation_new_zealand", ""),
                ("http://www.example.com/catalog?item=74&desc=vacation_newfoundland", ""),
                ("http://www.example.com/catalog?item=83&desc=vacation_usa", ""),
            ],
            0,
        ),
        (
            "xmlRss_pubDate.xml",
            SitemapKind.RSS,
            [
                ("http://www.example.com/article_1", "Thu, 05 Jan 2017 13:34:51 +0100"),
                ("http://www.example.com/article_2", "Thu, 05 Jan 17 13:34:52 +0100"),
                ("http://www.example.com/article_3", "05 Jan 2017 13:34:53 +0100"),
                ("http://www.example.com/article_4", "05 Jan 17 13:34:54 +0100"),
                ("http://www.example.com/article_5", "05 Jan 17 13:34:55"),
                ("http://www.example.com/article_6", ""),
                ("http://www.example.com/article_7", ""),
            ],
            0,
        ),
        (
            "xmlSitemap.gz",
            SitemapKind.URLSET,
            [
                ("http://www.example.com/", "2005-01-01"),
                ("http://www.example.com/catalog?item=12&desc=vacation_hawaii", ""),
                (
                    "http://www.example.com/catalog?item=73&desc=vacation_new_zealand",
                    "2004-12-23",
                ),
                (
                    "http://www.example.com/catalog?item=74&desc=vacation_newfoundland",
                    "2004-12-23T18:00:15+00:00",
                ),
                ("http://www.example.com/catalog?item=83&desc=vacation_usa", "2004-11-23"),
            ],
            0,
        ),
    ],
)
def test_public_examples_name_their_addresses(name, kind, entries, dropped):
    expected = Sitemap(kind, tuple(Entry(*entry) for entry in entries), False, dropped)

    assert read((DATA / name).read_bytes(), content_type="") == expected


@pytest.mark.parametrize("name", XML_DATA)
def test_public_examples_look_like_what_they_are(name):
    assert looks_like_sitemap((DATA / name).read_bytes())


def test_kinds_that_are_feeds_are_rss_and_atom():
    assert {kind for kind in SitemapKind if kind.is_feed} == {SitemapKind.RSS, SitemapKind.ATOM}


def test_an_index_names_its_sitemaps():
    sitemap = read(
        "<sitemapindex><sitemap><loc>a.xml</loc><lastmod>2026-01-02</lastmod></sitemap>"
        "<sitemap><loc>/b.xml.gz</loc></sitemap><url><loc>/page</loc></url></sitemapindex>"
    )

    assert sitemap == Sitemap(
        SitemapKind.INDEX,
        (
            Entry("http://site.example/maps/a.xml", "2026-01-02"),
            Entry("http://site.example/b.xml.gz", ""),
        ),
        False,
        0,
    )


@pytest.mark.parametrize(
    ("loc", "url"),
    [
        ("page", "http://site.example/maps/page"),
        ("//other.example", "http://other.example/"),
        (" \n\thttp://other.example/a\n ", "http://other.example/a"),
        ("HTTP://Other.Example:80/ü?q=a&amp;b#part", "http://other.example/%C3%BC?q=a&b"),
        ("http://me:secret@other.example/a", "http://other.example/a"),
        ("http://me@other.example/a", "http://other.example/a"),
        ("<![CDATA[/a?b&c]]>", "http://site.example/a?b&c"),
        ("/a?b=1&c=2&amp;d&e=&&#38;f", "http://site.example/a?b=1&c=2&d&e=&&f"),
        ("<![CDATA[/a?b&c]]>&d<!-- & --><![CDATA[&e]]>", "http://site.example/a?b&c&d&e"),
        ("/a<![CDATA[?b&c]]>&#38;d", "http://site.example/a?b&c&d"),
        ("/a<!-- b -->c<?d e?>", "http://site.example/ac"),
    ],
)
def test_addresses_are_those_to_request(loc, url):
    assert urls(page(f"<loc>{loc}</loc>")) == [url]


@pytest.mark.parametrize(
    "loc",
    [
        "",
        " \n",
        "javascript:alert(1)",
        "ftp://site.example/",
        "file:///etc/passwd",
        "data:text/html,x",
        "http://a b/",
        "http://site.example:99999/",
        "/" + "x" * MAX_URL_LENGTH,
        "/" + "x" * 1_000_000,
        " " * MAX_TEXT + "/x",
    ],
    ids=lambda loc: loc[:30],
)
def test_what_is_no_address_is_dropped_and_counted(loc):
    sitemap = read(urlset(f"<url><loc>/a</loc></url><url><loc>{loc}</loc></url>"))

    assert [entry.url for entry in sitemap.entries] == ["http://site.example/a"]
    assert sitemap.dropped == 1


def test_the_longest_address_and_the_longest_text_are_taken():
    origin = "http://site.example/"
    longest = origin + "x" * (MAX_URL_LENGTH - len(origin))

    assert urls(page(f"<loc>{longest}</loc>")) == [longest]
    assert read(page(f"<loc>{longest}x</loc>")).dropped == 1
    assert urls(page(f"<loc>{' ' * (MAX_TEXT - 2)}/x</loc>")) == [f"{origin}x"]
    assert read(page(f"<loc>{' ' * (MAX_TEXT - 1)}/x</loc>")).dropped == 1
    assert read(page(f"<loc>/x<x/>{' ' * MAX_TEXT}</loc>")).dropped == 1


def test_entries_without_an_address_are_counted():
    sitemap = read(urlset("<url/><url><lastmod>2026</lastmod></url><url>/a</url>"))

    assert sitemap == Sitemap(SitemapKind.URLSET, (), False, 3)


def test_an_empty_sitemap_is_a_sitemap():
    assert read(urlset("")) == Sitemap(SitemapKind.URLSET, (), False, 0)


@pytest.mark.parametrize(
    "inner",
    [
        "<image:image><image:loc>/no</image:loc></image:image>",
        "<image:image><loc>/no</loc></image:image>",
        "<image:loc>/no</image:loc>",
        "<video:video><video:player_loc>/no</video:player_loc></video:video>",
        "<news:news><loc>/no</loc></news:news>",
        "<url><loc>/no</loc></url>",
        "<loc2>/no</loc2>",
        "<Loc>/no</Loc>",
        "<link>/no</link>",
        "<news:lastmod>2020</news:lastmod>",
        "<news:news><lastmod>2020</lastmod></news:news>",
    ],
)
@pytest.mark.parametrize("order", [1, -1])
def test_only_its_own_children_say_what_a_page_is(inner, order):
    parts = ["<loc>/yes</loc><lastmod>2026</lastmod>", inner][::order]

    assert read(page("".join(parts))).entries == (Entry("http://site.example/yes", "2026"),)


@pytest.mark.parametrize(
    "body",
    [
        urlset("<loc>/no</loc>"),
        urlset("<sitemap><loc>/no</loc></sitemap>"),
        urlset("<list><url><loc>/no</loc></url></list>"),
        "<sitemapindex><url><loc>/no</loc></url></sitemapindex>",
        "<rss><item><link>/no</link></item></rss>",
        "<feed><list><entry><link href='/no'/></entry></list></feed>",
    ],
)
def test_entries_elsewhere_are_none(body):
    sitemap = read(body)

    assert not sitemap.entries
    assert not sitemap.dropped


def test_an_element_within_an_address_is_none_of_it():
    assert urls(page("<loc>/a<image:loc>/no<x>/no</x></image:loc>b</loc>")) == [
        "http://site.example/ab"
    ]
    assert read(page("<loc><image:loc>/no</image:loc></loc>")).dropped == 1


@pytest.mark.parametrize(
    "body",
    [
        "<urlset xmlns='http://www.google.com/schemas/sitemap/0.84'><url><loc>/a</loc></url></urlset>",
        "<x:urlset xmlns:x='y'><x:url><x:loc>/a</x:loc></x:url></x:urlset>",
        "<x:urlset><x:url><x:loc>/a</x:loc></x:url></x:urlset>",
        "<x:urlset><x:url><loc>/a</loc></x:url></x:urlset>",
        "<urlset><x:url><x:loc>/a</x:loc></x:url></urlset>",
    ],
)
def test_namespaces_are_not_insisted_on(body):
    assert urls(body) == ["http://site.example/a"]


def test_the_first_of_several_addresses_and_dates_counts_unless_it_is_empty():
    inner = (
        "<loc> </loc><loc>/a</loc><loc>/b</loc><lastmod/><lastmod>1</lastmod><lastmod>2</lastmod>"
    )

    assert read(page(inner)).entries == (Entry("http://site.example/a", "1"),)


def test_addresses_are_distinct_in_document_order_with_the_first_date():
    sitemap = read(
        urlset(
            "<url><loc>/b</loc></url><url><loc>/a</loc><lastmod>1</lastmod></url>"
            "<url><loc>/b#x</loc><lastmod>2</lastmod></url>"
            "<url><loc>/a</loc><lastmod>3</lastmod></url><url><loc>/b</loc></url>"
        )
    )

    assert sitemap.entries == (
        Entry("http://site.example/b", "2"),
        Entry("http://site.example/a", "1"),
    )
    assert not sitemap.dropped


@pytest.mark.parametrize(
    ("text", "lastmod"),
    [
        (" \n2026-01-01 ", "2026-01-01"),
        ("last Tuesday", "last Tuesday"),
        ("x" * MAX_LASTMOD, "x" * MAX_LASTMOD),
        ("x" * MAX_LASTMOD + "y", "x" * MAX_LASTMOD),
        ("x" * 1_000_000, ""),
        ("", ""),
    ],
    ids=lambda text: text[:20],
)
def test_dates_are_as_written_and_short(text, lastmod):
    body = page(f"<loc>/a</loc><lastmod>{text}</lastmod>")

    assert read(body).entries == (Entry("http://site.example/a", lastmod),)


def test_alternates_of_a_page_are_entries_without_a_date():
    sitemap = read(
        page(
            "<xhtml:link rel='alternate' hreflang='de' href='/de'/>"
            "<loc>/en</loc><lastmod>2026</lastmod>"
            "<xhtml:link rel='nofollow Alternate' hreflang='fr' href='/fr'/>"
            "<xhtml:link rel='alternate' hreflang='en' href='/en'/>"
            "<xhtml:link rel='canonical' href='/no'/><xhtml:link href='/no'/>"
            "<x><xhtml:link rel='alternate' href='/no'/></x>"
            "<xhtml:link rel='alternate' href='android-app://com.example/'/>"
            "<xhtml:link rel='alternate'/>"
        )
    )

    assert sitemap.entries == (
        Entry("http://site.example/en", "2026"),
        Entry("http://site.example/de", ""),
        Entry("http://site.example/fr", ""),
    )
    assert sitemap.dropped == 2


def test_alternates_of_a_page_without_an_address_are_taken():
    sitemap = read(page("<link rel='alternate' href='/de'/>"))

    assert sitemap.entries == (Entry("http://site.example/de", ""),)
    assert sitemap.dropped == 1


def test_alternates_in_an_index_are_no_sitemaps():
    body = "<sitemapindex><sitemap><link rel='alternate' href='/de'/></sitemap></sitemapindex>"

    assert not read(body).entries


def test_credentials_of_the_sitemap_are_in_no_address_and_in_no_message():
    secret = "http://me:secret@site.example/maps/"

    assert urls(page("<loc>a</loc>"), url=secret) == ["http://site.example/maps/a"]
    assert urls("http://me:secret@site.example/a", url=secret) == ["http://site.example/a"]
    for body in ("", "<urlset>", "<html>", b"\xff", b"\x1f\x8b", page("<!DOCTYPE a>")):
        assert "secret" not in str(refused(body, url=secret))


def test_the_address_of_the_sitemap_must_be_absolute():
    with pytest.raises(ValueError, match="could not be parsed"):
        read(urlset(""), url="/sitemap.xml")


@pytest.mark.parametrize(
    ("item", "entry"),
    [
        ("<link>/a</link><guid>http://x.example/</guid>", ("http://site.example/a", "")),
        ("<guid>http://x.example/</guid><link>/a</link>", ("http://site.example/a", "")),
        ("<link/><guid> http://x.example/ </guid>", ("http://x.example/", "")),
        ("<guid isPermaLink='true'>HTTPS://x.example/</guid>", ("https://x.example/", "")),
        ("<guid isPermaLink='false'>http://x.example/</guid>", None),
        ("<guid isPermaLink=' False '>http://x.example/</guid>", None),
        ("<guid>4711</guid>", None),
        ("<guid>/a</guid>", None),
        ("<guid>urn:uuid:1</guid>", None),
        ("<atom:link href='/no'/><atom:link>/no</atom:link>", None),
        ("<source><link>/no</link></source>", None),
        ("<enclosure url='/no'/><comments>/no</comments>", None),
        ("<link>javascript:void(0)</link><guid>http://x.example/</guid>", None),
        ("<link>/a</link><pubDate>1</pubDate><dc:date>2</dc:date>", ("http://site.example/a", "1")),
        ("<dc:date>2</dc:date><link>/a</link><pubDate>1</pubDate>", ("http://site.example/a", "1")),
        ("<dc:date>2</dc:date><link>/a</link>", ("http://site.example/a", "2")),
        ("<link>/a</link><lastmod>1</lastmod>", ("http://site.example/a", "")),
        ("<link><![CDATA[/a?b&c]]></link>", ("http://site.example/a?b&c", "")),
    ],
)
def test_items_of_rss_are_their_links(item, entry):
    sitemap = read(
        rss(
            f"<link>/no</link><image><link>/no</link></image><pubDate>0</pubDate><item>{item}</item>"
        )
    )

    assert sitemap.kind is SitemapKind.RSS
    assert sitemap.entries == ((Entry(*entry),) if entry else ())
    assert sitemap.dropped == (0 if entry else 1)


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


@pytest.mark.parametrize(
    "space", ["http://purl.org/rss/1.0/", "http://my.netscape.com/rdf/simple/0.9/"]
)
def test_items_of_rss_in_rdf_are_their_links_or_what_they_are_about(space):
    body = (
        f"<rdf:RDF xmlns:rdf='{RDF}' xmlns='{space}'><channel rdf:about='/no'><link>/no</link>"
        "<items><rdf:Seq><rdf:li resource='/no'/></rdf:Seq></items></channel>"
        "<item rdf:about='/about'><link>/a</link><dc:date>2026</dc:date></item>"
        "<item rdf:about=' /b '><title>b</title></item>"
        "<item><link>/c</link></item><item/></rdf:RDF>"
    )

    assert looks_like_sitemap(body.encode())
    assert read(body) == Sitemap(
        SitemapKind.RSS,
        (
            Entry("http://site.example/a", "2026"),
            Entry("http://site.example/b", ""),
            Entry("http://site.example/c", ""),
        ),
        False,
        1,
    )


def test_other_rdf_is_no_feed():
    body = f"<rdf:RDF xmlns:rdf='{RDF}' xmlns='http://xmlns.com/foaf/0.1/'><item/></rdf:RDF>"

    assert not looks_like_sitemap(body.encode())
    assert refused(body).kind is SitemapFault.BROKEN


def test_an_rss_item_has_no_about():
    assert not read(rss("<item about='/no'/>")).entries


@pytest.mark.parametrize(
    ("inner", "entry"),
    [
        ("<link href='/a'/>", ("http://site.example/a", "")),
        ("<link href=' /a '/>", ("http://site.example/a", "")),
        ("<link rel='alternate' href='/a'/><link href='/b'/>", ("http://site.example/a", "")),
        ("<link rel='edit' href='/no'/><link href='/b'/>", ("http://site.example/b", "")),
        ("<link rel='enclosure' href='/no'/>", None),
        ("<link rel='alternate'/>", None),
        ("<link/><link href=''/><link href='/a'/>", ("http://site.example/a", "")),
        ("<link>/no</link>", None),
        ("<href>/no</href>", None),
        ("<x:link href='/no'/>", None),
        ("<source><link href='/no'/></source>", None),
        ("<link href='mailto:me@site.example'/>", None),
        (
            "<published>1</published><link href='/a'/><updated>2</updated>",
            ("http://site.example/a", "2"),
        ),
        ("<link href='/a'/><published>1</published>", ("http://site.example/a", "1")),
        (
            "<link href='/a'/><source><updated>1</updated></source><x:updated>1</x:updated>",
            ("http://site.example/a", ""),
        ),
    ],
)
def test_entries_of_atom_are_their_first_alternate(inner, entry):
    sitemap = read(atom(f"<link href='/no'/><updated>0</updated><entry>{inner}</entry>"))

    assert sitemap.kind is SitemapKind.ATOM
    assert sitemap.entries == ((Entry(*entry),) if entry else ())
    assert sitemap.dropped == (0 if entry else 1)


def test_atom_may_have_a_prefix():
    assert urls("<a:feed><a:entry><a:link href='/a'/></a:entry></a:feed>") == [
        "http://site.example/a"
    ]


def test_links_are_joined_with_the_base_of_their_entry():
    body = atom(
        "<entry><link href='a'/></entry>"
        "<entry xml:base='deep/'><link href='b'/></entry>"
        "<entry xml:base='//other.example'><link href='c'/></entry>"
        "<entry xml:base='javascript:x'><link href='d'/></entry>"
        "<entry><link href='e'/></entry>",
        root=" xml:base='/feeds/'",
    )

    assert urls(body) == [
        "http://site.example/feeds/a",
        "http://site.example/feeds/deep/b",
        "http://other.example/c",
        "http://site.example/feeds/d",
        "http://site.example/feeds/e",
    ]


def test_a_text_sitemap_is_one_address_a_line():
    sitemap = read(
        b"\xef\xbb\xbf\n# pages\r\n  HTTP://site.example/a  \r\nhttps://b.example/\xc3\xbc#x\n\n"
        b"http://me:secret@site.example/c\nhttp://site.example/a\n#http://site.example/no",
        content_type="text/plain; charset=latin-1",
    )

    assert sitemap == Sitemap(
        SitemapKind.TEXT,
        (
            Entry("http://site.example/a", ""),
            Entry("https://b.example/%C3%BC", ""),
            Entry("http://site.example/c", ""),
        ),
        False,
        0,
    )


@pytest.mark.parametrize("codec", ["utf-16", "utf-8-sig"])
def test_a_text_sitemap_may_begin_with_a_bom(codec):
    assert urls("http://site.example/ü\n".encode(codec)) == ["http://site.example/%C3%BC"]


@pytest.mark.parametrize(
    "body",
    [
        "http://site.example/a\n/b",
        "http://site.example/a\nftp://site.example/b",
        "http://site.example/a is the address",
        "http://",
        "site.example/a",
        "Sitemap: http://site.example/sitemap.xml",
        "# only a comment",
        "",
        " \n\t\n",
        b"\xef\xbb\xbf",
        '{"urls": ["http://site.example/"]}',
        '["http://site.example/"]',
        "User-agent: *\nDisallow: /",
        "arbitrary text",
        b"http://site.example/\xff",
        b"http://site.example/\xc3",
        b"%PDF-1.7\n",
        b"PK\x03\x04",
        b"\x00\x01\x02",
    ],
)
def test_other_text_and_bytes_are_no_sitemap(body):
    assert refused(body).kind is SitemapFault.NOT_A_SITEMAP


def test_the_line_that_is_no_address_is_named():
    assert "line 3 " in str(refused("http://site.example/a\n\nb"))


def test_white_space_around_a_line_is_none_of_it_however_long():
    assert urls(f"{' ' * 70_000}http://site.example/a{' ' * 70_000}\nhttp://site.example/b") == [
        "http://site.example/a",
        "http://site.example/b",
    ]


@pytest.mark.parametrize("length", [MAX_URL_LENGTH, MAX_TEXT, 200_000])
def test_lines_that_are_too_long_are_dropped_and_counted(length):
    sitemap = read(f"http://site.example/{'x' * length}\nhttp://site.example/a\nhttp://a:99999/")

    assert [entry.url for entry in sitemap.entries] == ["http://site.example/a"]
    assert sitemap.dropped == 2


@pytest.mark.parametrize(
    "codec", ["utf-16", "utf-8-sig", "utf-16-le", "utf-16-be"], ids=lambda codec: codec
)
@pytest.mark.parametrize("declaration", ["", "<?xml version='1.0' encoding='utf-16'?>"])
def test_a_bom_decides_the_charset(codec, declaration):
    bom = "\ufeff" if codec[-2:] in ("le", "be") else ""
    body = (bom + declaration + page("<loc>/ü€</loc>")).encode(codec)

    assert looks_like_sitemap(body)
    assert urls(body, content_type="text/xml; charset=latin-1") == [
        "http://site.example/%C3%BC%E2%82%AC"
    ]


@pytest.mark.parametrize(
    ("name", "codec", "text"),
    [
        ("iso-8859-1", "latin-1", "ü"),
        ("Windows-1252", "cp1252", "€"),
        ("ISO-8859-15", "iso8859-15", "€"),
        ("iso-8859-2", "iso8859-2", "ł"),
        ("windows-1251", "cp1251", "ж"),
        ("koi8-r", "koi8-r", "ж"),
        ("Shift_JIS", "shift_jis", "表"),
        ("EUC-JP", "euc_jp", "日"),
        ("ISO-2022-JP", "iso2022_jp", "日"),
        ("GB18030", "gb18030", "中"),
        ("gb2312", "gb2312", "中"),
        ("Big5", "big5", "中"),
        ("euc-kr", "euc_kr", "한"),
        ("UTF-8", "utf-8", "中"),
        ("utf-16", "utf-8", "中"),  # wrong, and common
        ("no-such-charset", "utf-8", "中"),
        ("rot13", "utf-8", "中"),
        ("unicode_escape", "utf-8", "中"),
        ("utf-7", "utf-8", "中"),
    ],
)
def test_a_declaration_decides_the_charset(name, codec, text):
    body = f'<?xml version="1.0" encoding="{name}"?>\n' + page(f"<loc>/{text}</loc>")
    expected = [request_url(f"http://site.example/{text}")]

    assert urls(body.encode(codec), content_type="text/xml; charset=iso-8859-5") == expected
    assert urls(body.replace('"', "'").encode(codec)) == expected


def test_the_header_decides_the_charset_of_what_names_none():
    body = ("<?xml version='1.0'?>" + page("<loc>/ü</loc>")).encode("latin-1")

    assert urls(body, content_type="text/xml; charset=ISO-8859-1") == ["http://site.example/%C3%BC"]
    for header in ("", "text/xml", "text/xml; charset=utf-8", "text/xml; charset=rot13"):
        assert refused(body, content_type=header).kind is SitemapFault.BROKEN


def test_characters_may_lie_across_portions():
    body = urlset("".join(f"<url><loc>/{'ü€' * 20}{n}</loc></url>" for n in range(5_000)))

    assert len(urls(body)) == 5_000
    assert len(urls(body.encode("utf-16"))) == 5_000


@pytest.mark.parametrize(
    "body",
    [
        urlset("<url><loc>/a</loc></url>")[:-1],
        urlset("<url><loc>/a</loc></url>")[:-9],
        "<urlset><url><loc>/a</loc></url>",
        "<urlset><url><loc>/a</loc></urlset>",
        urlset("<url><loc>/a</loc></url>") + "x",
        urlset("<url><loc>/a</loc></url>") + urlset(""),
        urlset("<url><loc>/a</loc></url>") + "\0",
        urlset("<url><loc>/a?b&c<</loc></url>"),
        urlset("<url><loc>/a&nbsp;</loc></url>"),
        urlset("<url><loc>/a</loc></url>").encode() + b"<!-- \xff -->",
        urlset("<url><loc>/a</loc></url>", root=" a='1' a='2'"),
        urlset("<url><loc>/a</loc></url>").encode() + b"\n\xc3",
        "<?xml version='1.0'?><?xml version='1.0'?>" + urlset(""),
        "<?xml version='1.0'?>",
        "<!-- only a comment -->",
        "<",
        "<svg/>",
        "<x><urlset/></x>",
        "<URLSET/>",
        "<urlset2/>",
        "<opml><body/></opml>",
    ],
)
def test_what_is_cut_or_not_well_formed_or_has_another_root_names_nothing(body):
    assert refused(body).kind is SitemapFault.BROKEN


@given(st.data())
def test_a_sitemap_cut_anywhere_is_never_read(data):
    whole = (DATA / "sitemap-links.xml").read_bytes().rstrip()
    body = whole[: data.draw(st.integers(1, len(whole) - 1))]

    assert refused(body).kind is SitemapFault.BROKEN
    assert refused(gzip.compress(body)).kind is SitemapFault.BROKEN


def test_white_space_and_comments_around_the_root_are_forgiven():
    body = "\n \t\r\n<?xml version='1.0' encoding='iso-8859-1'?>\n" + page("<loc>/ü</loc>")
    around = " \n<!-- end --><?end?>\n"

    assert urls((body + around).encode("latin-1")) == ["http://site.example/%C3%BC"]
    assert urls("\ufeff" + page("<loc>/a</loc>")) == ["http://site.example/a"]
    assert urls(("\ufeff \n<?xml version='1.0'?>" + page("<loc>/a</loc>")).encode("utf-16-le")) == [
        "http://site.example/a"
    ]
    assert urls(" " * 9_000 + page("<loc>/a</loc>") + " " * 2 * MAX_TAG) == [
        "http://site.example/a"
    ]


def test_the_message_names_address_line_and_column_and_says_what_to_do():
    error = refused("\n<?xml version='1.0'?>\n<urlset>\n  <url></loc>\n</urlset>")

    assert isinstance(error, SmartcrawlError)
    assert str(error) == (
        f"{HERE}, line 4, column 10: it is not well-formed XML (mismatched tag). Nothing was read"
        " from it: have it written again, and published when it is complete"
    )


LAUGHS = "".join(f"<!ENTITY lol{n} '{f'&lol{n - 1};' * 10 if n else 'lol'}'>" for n in range(10))


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE urlset>",
        "<!DOCTYPE urlset []>",
        "<!DOCTYPE urlset SYSTEM 'http://127.0.0.1:9/sitemap.dtd'>",
        "<!DOCTYPE rss PUBLIC '-//Netscape Communications//DTD RSS 0.91//EN' 'rss-0.91.dtd'>",
        f"<!DOCTYPE urlset [{LAUGHS}]>",
        f"<!DOCTYPE urlset [<!ENTITY lol9 '{'x' * 100_000}'>]>",
        "<!DOCTYPE urlset [<!ENTITY lol9 SYSTEM 'file:///etc/passwd'>]>",
        "<!DOCTYPE urlset [<!ENTITY lol9 SYSTEM 'http://127.0.0.1:9/x'>]>",
        "<!DOCTYPE urlset [<!ENTITY % a SYSTEM 'http://127.0.0.1:9/x'> %a;]>",
        "<!DOCTYPE urlset [<!ENTITY % a '<!ENTITY lol9 \"x\">'> %a;]>",
        "<!DOCTYPE urlset [<!ATTLIST loc a CDATA 'b'>]>",
        "<!DOCTYPE urlset [<!ENTITY lol9 'this never ends",
    ],
    ids=lambda doctype: doctype[:60],
)
@pytest.mark.parametrize("before", ["", "<?xml version='1.0'?>\n<!-- a -->"])
@pytest.mark.parametrize("root", ["urlset", "html"])
def test_a_document_type_declaration_is_refused_before_anything_is_expanded(doctype, before, root):
    body = before + doctype + f"<{root}><url><loc>/{'&lol9;' * 1_000}</loc></url></{root}>"
    error = refused(body.encode("utf-16"))

    assert error.kind is SitemapFault.XML_FORBIDDEN
    assert "<!DOCTYPE" in str(error)
    assert refused(body).kind is SitemapFault.XML_FORBIDDEN


@pytest.mark.parametrize(
    "body",
    [
        "<!DOCTYPE html><html><body>http://site.example/</body></html>",
        "<!doctype HTML>\n<title>x</title>",
        "<html><body><p>x</html>",
        "<!-- x -->\n<HTML>",
        "<br />\n<b>Warning</b>: no database in <b>sitemap.php</b><?xml version='1.0'?><urlset/>",
        "<?xml version='1.0'?><!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x'><html/>",
        "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'/>",
        "<x:html/>",
        b"\xef\xbb\xbf<!DOCTYPE html>",
        "<!DOCTYPE html>".encode("utf-16"),
    ],
)
@pytest.mark.parametrize("content_type", ["text/html", "application/xml"])
def test_an_html_page_is_no_sitemap(body, content_type):
    assert refused(body, content_type=content_type).kind is SitemapFault.NOT_A_SITEMAP


def nested(depth):
    """A sitemap with so many open elements around a comment."""
    return urlset("<x>" * (depth - 1) + "<!-- -->" + "</x>" * (depth - 1))


def test_elements_are_nested_so_deep_and_no_deeper():
    assert read(nested(MAX_DEPTH)).kind is SitemapKind.URLSET
    assert refused(nested(MAX_DEPTH + 1)).kind is SitemapFault.BROKEN
    assert refused("<urlset><url><loc>" + "<x>" * 1_000_000).kind is SitemapFault.BROKEN


@pytest.mark.parametrize(
    ("start", "end"),
    [("<!--", "-->"), ("<?x ", "?>"), ("<x a='", "'/>")],
    ids=["comment", "pi", "tag"],
)
def test_one_tag_or_comment_is_bounded_because_the_parser_reads_it_again_and_again(start, end):
    body = urlset(start + "x" * (MAX_TAG // 2) + end)

    assert read(body).kind is SitemapKind.URLSET
    error = refused(body.replace("x" * 1_000, "x" * 3_000))
    assert error.kind is SitemapFault.BROKEN
    assert "more than 1 MiB" in str(error)


@pytest.fixture
def most(monkeypatch) -> int:
    """Elements or lines of a sitemap: 2,000 instead of 2,000,000, which take two seconds."""
    assert MAX_ELEMENTS == 2_000_000
    monkeypatch.setattr(sitemaps, "MAX_ELEMENTS", 2_000)
    return sitemaps.MAX_ELEMENTS


def test_elements_are_counted_and_bounded(most):
    body = b"<urlset>" + b"<a/>" * (most - 1) + b"</urlset>"

    assert read(body).kind is SitemapKind.URLSET
    assert refused(body.replace(b"</u", b"<a/></u")).kind is SitemapFault.TOO_LARGE


def test_lines_are_counted_and_bounded(most):
    body = b"http://site.example/" + b"\n" * (most - 1)

    assert read(body).kind is SitemapKind.TEXT
    assert refused(body + b"\n").kind is SitemapFault.TOO_LARGE


def test_nothing_waits_for_the_garbage_collector():
    """A parser refers to its handlers; every sitemap would stay in memory for a while."""
    gc.freeze()  # what other tests left is not looked at
    gc.disable()
    try:
        read(urlset(pages(10)))
        with suppress(SitemapError):
            read(urlset(pages(10)) + "x")
        with suppress(SitemapError):
            read("<!DOCTYPE x>")
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_sitemap_has_so_many_bytes_and_no_more():
    body = urlset("").encode()
    body += b" " * (MAX_SITEMAP - len(body))

    assert read(body).kind is SitemapKind.URLSET
    assert read(gzip.compress(body, 1)).kind is SitemapKind.URLSET
    assert refused(body + b" ").kind is SitemapFault.TOO_LARGE
    assert refused(gzip.compress(body + b" ", 1)).kind is SitemapFault.TOO_LARGE


def pages(count):
    return "".join(f"<url><loc>/{n}</loc></url>" for n in range(count))


@pytest.mark.parametrize("count", [MAX_ENTRIES, MAX_ENTRIES + 1])
def test_so_many_addresses_are_taken_and_no_more(count):
    sitemap = read(urlset(pages(count) + "<url><loc>/1</loc><lastmod>1</lastmod></url>"))

    assert len(sitemap.entries) == MAX_ENTRIES
    assert sitemap.entries[1] == Entry("http://site.example/1", "1")
    assert sitemap.entries[-1].url == f"http://site.example/{MAX_ENTRIES - 1}"
    assert sitemap.cut is (count > MAX_ENTRIES)
    assert not sitemap.dropped


def test_what_follows_the_last_address_must_be_well_formed_too():
    assert refused(f"<urlset>{pages(MAX_ENTRIES + 1)}").kind is SitemapFault.BROKEN


@pytest.mark.parametrize("count", [MAX_ENTRIES, MAX_ENTRIES + 1])
def test_alternates_of_one_page_are_bounded_too(count):
    links = "".join(f"<link rel='alternate' href='/{n}'/>" for n in range(count))
    sitemap = read(page("<loc>/0</loc>" + links))

    assert len(sitemap.entries) == MAX_ENTRIES
    assert sitemap.cut is (count > MAX_ENTRIES)


def test_addresses_of_a_text_sitemap_are_bounded_too():
    body = "\n".join(f"http://site.example/{n}" for n in range(MAX_ENTRIES + 1))
    sitemap = read(body)

    assert len(sitemap.entries) == MAX_ENTRIES
    assert sitemap.cut


# gzip


@pytest.mark.parametrize("content_type", ["application/xml", "application/gzip", "text/html", ""])
def test_gzip_is_known_by_its_first_bytes(content_type):
    packed = gzip.compress(page("<loc>/a</loc>").encode())

    assert urls(packed, content_type=content_type) == ["http://site.example/a"]
    assert urls(gzip.compress(b"http://site.example/a"), content_type=content_type) == [
        "http://site.example/a"
    ]
    with pytest.raises(SitemapError):
        read(b"\x78\x9c" + packed[2:], content_type="application/gzip")


def test_gzip_may_have_several_members():
    body = urlset(pages(3_000)).encode()
    parts = [body[start : start + 1_000] for start in range(0, len(body), 1_000)]

    assert len(urls(b"".join(map(gzip.compress, [b"", *parts, b""])))) == 3_000


def test_members_of_gzip_are_bounded():
    member = gzip.compress(b"")
    packed = gzip.compress(urlset("").encode()) + member * (MAX_MEMBERS - 1)

    assert read(packed).kind is SitemapKind.URLSET
    assert refused(packed + member).kind is SitemapFault.BROKEN


@pytest.mark.parametrize("cut", [1, 4, 8, 9, 100])
def test_gzip_that_is_cut_names_nothing(cut):
    packed = gzip.compress(urlset(pages(100)).encode())

    assert refused(packed[:-cut]).kind is SitemapFault.BROKEN
    assert refused(packed + packed[:-cut]).kind is SitemapFault.BROKEN
    assert refused(packed[:cut] if cut > 1 else b"\x1f\x8b").kind is SitemapFault.BROKEN


def test_gzip_that_is_corrupt_names_nothing():
    packed = bytearray(gzip.compress(page("<loc>/a</loc>").encode()))
    packed[-5] ^= 1  # the checksum

    assert refused(bytes(packed)).kind is SitemapFault.BROKEN
    assert refused(gzip.compress(urlset("").encode()) + b"rest").kind is SitemapFault.BROKEN
    assert refused(b"\x1f\x8bno gzip").kind is SitemapFault.BROKEN


def test_gzip_within_gzip_is_not_unpacked():
    packed = gzip.compress(gzip.compress(page("<loc>/a</loc>").encode()))

    assert refused(packed).kind is SitemapFault.NOT_A_SITEMAP
    assert "gzip within gzip" in str(refused(packed))


@pytest.mark.parametrize(
    "body",
    [
        "http://site.example/" + "x" * 20_000_000,
        page(f"<loc>/{'x' * 20_000_000}</loc>"),
        page("".join(f"<link rel='alternate' href='/{n}'/>" for n in range(3 * MAX_ENTRIES))),
    ],
    ids=["line", "text", "alternates"],
)
def test_what_is_too_much_is_not_even_held(body):
    packed = body.encode()

    assert peak_memory(lambda: read(packed)) < 16 * 1024 * 1024


def peak_memory(act):
    """Bytes that were allocated at once."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("filler", [b"\0", b"<url><loc>/a</loc></url>"], ids=["zeros", "entries"])
def test_a_gzip_bomb_is_stopped_at_the_bound(filler):
    """ATT-28: memory stays below twice the bound, whatever would come out."""
    unpacked = b"<urlset>" + filler * (64 * 1024 * 1024 // len(filler))
    packed = gzip.compress(unpacked, 1) * 4
    del unpacked

    assert refused(packed).kind is SitemapFault.TOO_LARGE
    assert peak_memory(lambda: refused(packed)) < 2 * MAX_SITEMAP


# looks_like


@pytest.mark.parametrize(
    "body",
    [
        b"<urlset/>",
        b"<urlset>",
        b"<urlset\n",
        b"<sitemapindex xmlns='x'>",
        b"<rss version='2.0'>",
        b"<feed xmlns='http://www.w3.org/2005/Atom'>",
        b"<ns:urlset>",
        b"<sm_1.0-x:sitemapindex>",
        b"\xef\xbb\xbf <?xml version='1.0'?><urlset>",
        b"\n\t\r <?xml version='1.0' encoding='x'?>\n<urlset>",
        b"<!-- a --><!-- <html> --><?xml-stylesheet href='x'?><!----><urlset>",
        b" " * 2_000 + b"<rss>",
        b"<r:RDF xmlns:r='x' xmlns='http://purl.org/rss/1.0/'>",
        b"<RDF xmlns='http://my.netscape.com/rdf/simple/0.9/'>",
    ],
)
def test_sitemaps_and_feeds_are_known_by_their_root(body):
    assert looks_like_sitemap(body)
    assert looks_like_sitemap(body + b"\xff" * 5_000)
    if body.isascii():
        assert looks_like_sitemap(("\ufeff" + body.decode()).encode("utf-16-le"))
        assert looks_like_sitemap(("\ufeff" + body.decode()).encode("utf-16-be"))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" \n",
        b"urlset",
        b"http://site.example/",
        b"<!DOCTYPE html><html>",
        b"<html><urlset/></html>",
        b"<html xmlns='http://www.w3.org/1999/xhtml'>",
        b"<?xml version='1.0'?><!DOCTYPE html><html>",
        b"<!DOCTYPE urlset><urlset/>",
        b"<svg xmlns='http://www.w3.org/2000/svg'>",
        b"<?xml version='1.0'?><note/>",
        b"<urlsets>",
        b"<urlset:a>",
        b"<URLSET>",
        b"<feedback>",
        b"<rss-list>",
        b"<a b:urlset>",
        b"</urlset>",
        b"< urlset>",
        b"x<urlset>",
        b"<!-- <urlset>",
        b"<!-- --> x <urlset>",
        b"<rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'>",
        b"<rdf:RDF xmlns:rdf='r'><x xmlns='http://purl.org/rss/1.0/'/>",
        b" " * 4_096 + b"<rss>",
        b"\x1f\x8b\x08\x00<urlset>",
        gzip.compress(b"<urlset/>", mtime=0),
        "<urlset>".encode("utf-16-le"),
    ],
    ids=lambda body: repr(body[:40]),
)
def test_other_bodies_do_not_look_like_sitemaps(body):
    assert not looks_like_sitemap(body)
    if body.isascii():
        assert not looks_like_sitemap(body.decode().encode("utf-16"))


@pytest.mark.parametrize("part", [b"<!---->", b"<?a?>", b" <!---->", b"<!-- a -->\n", b"<!"])
def test_a_long_prolog_is_read_once(part):
    """A comment that may end at any later one would take the age of the universe."""
    assert not looks_like_sitemap(part * 4_096)
    assert refused(part * 4_096).kind is SitemapFault.BROKEN


PIECES = st.sampled_from(
    [
        "<urlset>", "</urlset>", "<sitemapindex>", "</sitemapindex>", "<url>", "</url>",
        "<loc>", "</loc>", "<sitemap>", "</sitemap>", "<rss>", "</rss>", "<channel>", "</channel>",
        "<item>", "</item>", "<link>", "</link>", "<link href='/a'/>", "<guid>", "</guid>",
        "<feed>", "</feed>", "<entry xml:base='a'>", "<entry>", "</entry>", "<updated>",
        "</updated>", "http://a/", "http://[", "/ü", "&amp;", "&x;", "<![CDATA[", "]]>", "<!--",
        "-->", "<?xml version='1.0' encoding='", "'?>", "utf-8", "shift_jis", "<!DOCTYPE a [",
        "<!ENTITY a 'b'>", "]>", "\n", " ", "\ufeff", "\x00", "\u2028", "😀",
    ]
)  # fmt: skip
MARKUP = st.lists(PIECES, max_size=30).map("".join)
CODECS = st.sampled_from(["utf-8", "utf-16", "utf-16-be", "utf-8-sig", "utf-32", "gb18030"])
BODIES = st.one_of(
    st.binary(),
    st.builds(str.encode, MARKUP, CODECS),
    st.builds(lambda start, rest: start + rest, st.builds(str.encode, MARKUP), st.binary()),
    st.builds(lambda rest: b"\x1f\x8b\x08" + rest, st.binary()),
)
TYPES = st.one_of(
    st.text(),
    st.builds("text/xml; charset={}".format, st.text()),
    st.sampled_from(["text/xml; charset=utf-16", "text/xml; charset=utf-7"]),
)


def read_or_refusal(body, content_type):
    try:
        return read_sitemap(body, content_type=content_type, url=HERE)
    except SitemapError as error:
        return error


@given(st.one_of(BODIES, BODIES.map(gzip.compress)), TYPES)
@example(b"\xff\xfe\x00\xd8", "")
@example(b"<?xml version='1.0' encoding='utf-7'?><urlset>+2AA-</urlset>", "")
@example(b"<urlset/>", "text/xml; charset=\x00")
def test_every_body_is_a_sitemap_or_refused_with_a_message(body, content_type):
    assert looks_like_sitemap(body) in (True, False)
    sitemap = read_or_refusal(body, content_type)
    if isinstance(sitemap, SitemapError):
        assert sitemap.kind in SitemapFault
        assert HERE in str(sitemap)
        return
    found = [entry.url for entry in sitemap.entries]
    assert len(set(found)) == len(found)
    assert all(request_url(url) == url for url in found)
    assert all(len(entry.lastmod) <= MAX_LASTMOD for entry in sitemap.entries)


@given(st.lists(st.tuples(st.text("abü/?&<>'\"] ", max_size=9), st.text("0-T: ", max_size=9))))
def test_what_is_written_is_read_in_every_packing(pairs):
    written = [(f"http://site.example/{path.strip()}", date) for path, date in pairs]
    body = urlset(
        "".join(
            f"<url><loc>{escape(url)}</loc><lastmod>{date}</lastmod></url>" for url, date in written
        )
    )
    expected = {}
    for url, date in written:
        known = request_url(url)
        expected[known] = expected.get(known) or date.strip()

    for codec in ("utf-8", "utf-16"):
        plain = body.encode(codec)
        for packed in (plain, gzip.compress(plain)):
            assert dict(read(packed).entries) == expected


@pytest.mark.parametrize("seed", range(3))
def test_gzip_is_unpacked_whole_wherever_its_portions_end(seed):
    rng = random.Random(seed)
    runs = [" " * rng.choice([1, 258, 65_536, 65_537, 300_000]) for _ in range(20)]
    body = urlset("".join(f"<url><loc>/{n}</loc>{run}</url>" for n, run in enumerate(runs)))

    for level in (0, 1, 9):
        packer = zlib.compressobj(level, wbits=31)
        packed = packer.compress(body.encode()) + packer.flush()
        assert len(urls(packed)) == len(runs)


@pytest.mark.parametrize("size", [1, 2, 7, 64])
def test_a_bare_ampersand_is_one_in_whatever_portions_it_comes(size: int):
    """Only what begins no reference is escaped, and nothing within CDATA."""
    text = "<a>&b &amp;&lt;&#x26;&#38 &<![CDATA[&c &amp;]] ]>&]]>&d&long" + "g" * 50 + ";&e"
    right = (
        "<a>&amp;b &amp;&lt;&#x26;&amp;#38 &amp;<![CDATA[&c &amp;]] ]>&]]>&amp;d&amp;long"
        + "g" * 50
        + ";&amp;e"
    )
    portions = [text[at : at + size] for at in range(0, len(text), size)]

    assert "".join(escaped_ampersands(portions)) == right


def test_a_link_in_another_language_may_have_a_bare_ampersand():
    link = '<xhtml:link rel="alternate" hreflang="de" href="/a?b=1&c=2"/>'
    body = urlset(f"<url><loc>/a</loc>{link}</url>")

    assert [entry.url for entry in read(body).entries] == [
        "http://site.example/a",
        "http://site.example/a?b=1&c=2",
    ]
