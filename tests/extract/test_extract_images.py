"""The images of a page: which count, under which address, and what is said of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.extract.hashes import document_content_hash
from smartcrawl.extract.html import parse_html
from smartcrawl.extract.images import MAX_ALT, MAX_CONTEXT, MAX_IMAGES, MAX_SIDE
from smartcrawl.model.documents import Image
from smartcrawl.model.urls import MAX_URL_LENGTH

PAGE = "http://site.example/dir/page.html"


def images(markup: str, url: str = PAGE) -> list[Image]:
    return list(
        parse_html(markup.encode(), content_type="text/html; charset=utf-8", url=url).images
    )


def sources(markup: str) -> list[str]:
    return [image.src for image in images(markup)]


def contexts(markup: str) -> dict[str, str]:
    return {image.src: image.context for image in images(markup)}


@pytest.mark.covers("R0-59", "G-02")
def test_an_image_has_address_text_size_and_context():
    markup = "<h1>Lamps</h1><img src='l.png' alt=' A  lamp ' width=640 height='480'>"

    assert images(markup) == [Image("l.png", "A lamp", 640, 480, "Lamps")]


# Which address


@pytest.mark.parametrize(
    ("markup", "src"),
    [
        ("<img src=' a.png#top '>", "a.png"),
        ("<img src=a.png data-src=b.png srcset='c.png 2x'>", "a.png"),
        ("<img src='data:image/gif;base64,R0' data-src=b.png data-original=c.png>", "b.png"),
        ("<img src=' DATA:x' data-original=c.png data-lazy-src=d.png>", "c.png"),
        ("<img src='' data-lazy-src=d.png srcset=e.png>", "d.png"),
        ("<img data-src='data:,' srcset=e.png>", "e.png"),
        ("<img srcset='' data-srcset=f.png>", "f.png"),
        ("<img srcset='data:,x 2x' data-srcset=f.png>", "f.png"),
        ("<img src='HTTPS://other.example/a.png'>", "HTTPS://other.example/a.png"),
        ("<img src='//other.example/a.png'>", "//other.example/a.png"),
    ],
)
def test_the_address_is_as_written_or_what_a_script_would_load(markup, src):
    assert sources(markup) == [src]


@pytest.mark.parametrize(
    ("srcset", "src"),
    [
        ("s.png 480w, l.png 1200w, m.png 800w", "l.png"),
        ("s.png 1x,l.png 2.5x", "l.png"),
        ("s.png,l.png 2.5x", "s.png,l.png"),
        ("a.png, b.png", "a.png"),
        ("a.png 0.5x, b.png", "b.png"),
        ("a.png 2x, b.png 2x", "a.png"),
        (" ,, a,b.png 2x ,\n c.png 3x,", "c.png"),
        ("a,b.png", "a,b.png"),
        ("data:image/png;base64,AA 9x, a.png 1x", "a.png"),
        ("a.png 100w 50h, b.png nonsense", "a.png"),
        ("a.png infx, b.png nanw, c.png 2x", "c.png"),
    ],
)
def test_of_a_set_the_largest_counts_and_the_first_of_equals(srcset, src):
    assert sources(f'<img srcset="{srcset}">') == [src]


@pytest.mark.parametrize(
    ("inside", "src"),
    [
        ("<source srcset='a.avif 1x, b.avif 2x'><source srcset=c.webp><img src=d.jpg>", "d.jpg"),
        ("<source srcset='a.avif 1x, b.avif 2x'><source srcset=c.webp><img>", "b.avif"),
        ("<source type=x><source data-srcset=c.webp></source><img src='data:,'>", "c.webp"),
        ("<source srcset=a.avif><img srcset=e.png>", "e.png"),
    ],
)
def test_the_sources_of_a_picture_serve_an_image_without_address(inside, src):
    assert sources(f"<picture>{inside}</picture><img>") == [src]


@pytest.mark.parametrize(
    "markup",
    [
        "<img>",
        "<img src=''>",
        "<img src='#x'>",
        "<img src=data:image/gif;base64,R0>",
        "<img src=' blob:x'>",
        "<img src=cid:1><img src='javascript:x'><img src='file:///a.png'>",
        f"<img src='{'x' * (MAX_URL_LENGTH + 1)}'>",
        "<img src=a.png width=1 height=1>",
        "<img src=a.png width=0 height='1px'>",
        "<template><img src=a.png></template>",
        "<picture><source srcset=a.png></picture>",
        "<video><source srcset=a.png src=b.mp4><img></video>",
        "<svg><image href=a.png /></svg>",
        "<input type=image src=a.png>",
        "<script>'<img src=a.png>'</script>",
        "<!-- <img src=a.png> -->",
        "<meta property=og:image content='data:,'><meta property=og:image:alt content=x>",
    ],
)
def test_what_is_no_image_of_a_page(markup):
    assert sources(markup) == []


@pytest.mark.parametrize("attributes", ["width=1", "height=1", "width=1 height=2", "width=1%"])
def test_what_may_be_larger_than_a_pixel_counts(attributes):
    assert sources(f"<img src=a.png {attributes} >") == ["a.png"]


def test_what_a_reader_without_scripts_sees_counts():
    assert sources("<noscript><img src=a.png></noscript><nav><img src=b.png></nav>") == [
        "a.png",
        "b.png",
    ]


def test_an_address_counts_once_and_a_later_text_fills_an_empty_one():
    assert images(
        "<img src=a.png width=5 height=6><img src=b.png alt=B>"
        "<img src=a.png#x alt='  '><img src=a.png alt=A title=T width=7 height=8>"
        "<img src=a.png alt=Z><img src=b.png alt=Z>"
    ) == [Image("a.png", "A", 5, 6), Image("b.png", "B")]


# Size


@pytest.mark.parametrize(
    ("written", "pixels"),
    [
        ("640", 640),
        (" 640px ", 640),
        ("12.75", 12),
        ("007", 7),
        (str(MAX_SIDE), MAX_SIDE),
        (str(MAX_SIDE + 1), None),
        ("9" * 5000, None),
        ("0", None),
        ("-5", None),
        ("50%", None),
        ("50.5%", None),
        ("auto", None),
        ("", None),
        ("٥", None),
    ],
)
def test_sizes_are_css_pixels(written, pixels):
    (image,) = images(f"<img src=a.png width='{written}' height=9>")

    assert (image.width, image.height) == (pixels, 9)


# Context


def test_the_context_is_caption_or_title_or_heading():
    figure = "<figure><img src=a.png title=T><figcaption>The <b>caption</b></figcaption></figure>"

    assert contexts("<h1>H</h1>" + figure) == {"a.png": "The caption"}
    assert contexts("<h1>H</h1><img src=a.png title=' A  title '>") == {"a.png": "A title"}
    assert contexts("<h1>H</h1><p>x<img src=a.png title='  '>") == {"a.png": "H"}
    assert contexts("<img src=a.png><h1>H</h1>") == {"a.png": ""}


def test_the_heading_is_the_nearest_one_with_text_at_or_before_the_image():
    assert contexts(
        "<img src=0><h1>One <a href='#one'>¶</a></h1><img src=1><h2><img src=2> Two</h2><img src=3>"
        "<h3></h3><h2> <img src=4> </h2><img src=5><h1>Six</h1><p><img src=6>"
    ) == {"0": "", "1": "One", "2": "Two", "3": "Two", "4": "Two", "5": "Two", "6": "Six"}


def test_a_heading_counts_for_images_behind_one_with_a_title():
    assert contexts("<h1>A</h1><h1>B</h1><img src=1 title=T><img src=2>") == {"1": "T", "2": "B"}


@pytest.mark.parametrize(
    ("markup", "caption"),
    [
        ("<figcaption>C</figcaption><img src=a>", "C"),
        ("<div><p><img src=a></p></div><figcaption><p>C</p><p>D</p></figcaption>", "C D"),
        ("<img src=a><figcaption>C</figcaption><figcaption>D</figcaption>", "C"),
        ("<img src=a><figcaption> </figcaption><figcaption>D</figcaption>", "D"),
        ("<figure><img src=a></figure><figcaption>C</figcaption>", "C"),
        ("<figure><img src=a><figcaption>B</figcaption></figure><figcaption>C</figcaption>", "B"),
        ("<figcaption>C<figure><img src=a><figcaption>B</figcaption></figure>D</figcaption>", "B"),
        ("<img src=a>", ""),
        ("<figcaption>C<svg><text>x</text></svg><img src=a></figcaption>", "C"),
    ],
)
def test_the_caption_is_that_of_the_figure_or_of_the_one_around_it(markup, caption):
    assert contexts(f"<figure>{markup}</figure>") == {"a": caption}


def test_a_caption_without_figure_is_text():
    assert contexts("<figcaption>C<img src=a></figcaption></figure>") == {"a": ""}


def test_figures_do_not_change_the_text():
    markup = "<p>before<figure>x<figcaption>y</figcaption></figure>after"
    document = parse_html(markup.encode(), content_type="text/html", url=PAGE)

    assert document.text == "before\nx\ny\nafter"


@pytest.mark.parametrize(
    "markup",
    [
        "<figure><img src=a><figcaption>{}</figcaption></figure>",
        "<img src=a title='{}'>",
        "<h1>{}</h1><img src=a>",
    ],
)
def test_contexts_and_texts_are_cut(markup):
    (image,) = images(markup.format("word " * 1000) + f"<img src=a alt='{'x' * 2000}'>")

    assert image.context == ("word " * 60).strip()
    assert len(image.context) <= MAX_CONTEXT
    assert image.alt == "x" * MAX_ALT


# Open Graph


@pytest.mark.covers("G-02")
def test_what_is_announced_to_other_sites_is_an_image_of_the_page():
    assert images(
        "<meta property=og:image:alt content=early>"
        "<meta property=og:image content=' http://cdn.example/a.png '>"
        "<meta property=og:image:url content='http://cdn.example/a.png'>"
        "<meta property=og:image:width content=1200><meta property=OG:image:height content=630>"
        "<meta property=og:image:alt content=' A  lamp '><meta property=og:image:type content=x>"
        "<meta property=og:image content=/b.png><h1>H</h1><img src=c.png>"
    ) == [
        Image("http://cdn.example/a.png", "A lamp", 1200, 630),
        Image("/b.png", ""),
        Image("c.png", "", context="H"),
    ]


def test_the_occurrence_on_the_page_counts_more_than_the_announcement():
    announced = (
        "<meta property=og:image content=/a.png><meta property=og:image:alt content=Graph>"
        "<meta property=og:image:width content=7><meta property=og:image:height content=8>"
    )
    on_page = "<img src=0.png><h1>H</h1>"

    assert images(f"{announced}{on_page}<img src=/a.png>") == [
        Image("0.png", ""),
        Image("/a.png", "Graph", 7, 8, "H"),
    ]
    assert images(f"{announced}{on_page}<img src=/a.png alt=A width=5 title=T>")[1] == (
        Image("/a.png", "A", 5, 8, "T")
    )
    assert images(f"<img src=/a.png>{announced}") == [Image("/a.png", "")]


# Base


def test_a_base_makes_addresses_absolute_and_nonsense_does_not():
    two = "<img src=a.png alt=''><img src='/b/./a.png' alt=A>"

    assert images(f"<base href='http://cdn.example/b/'>{two}") == [
        Image("http://cdn.example/b/a.png", "A")
    ]
    assert images(f"{two}<base href=/b/>") == [Image("http://site.example/b/a.png", "A")]
    for nonsense in ("", "javascript:x", "http://[", PAGE):
        assert images(f"<base href='{nonsense}'><img src=a.png>") == [Image("a.png", "")]


def test_equal_bodies_at_different_addresses_have_equal_hashes():
    body = b"<h1>H</h1><img src=a.png alt=A><img src=/dir/a.png><img src='http://x.example/'>"
    base = b"<base href='http://cdn.example/'>"
    for markup in (body, base + body):
        one, other = (
            parse_html(markup, content_type="text/html", url=url)
            for url in (PAGE, "https://other.example/")
        )
        assert document_content_hash(one) == document_content_hash(other)


# Hostile pages


@pytest.mark.long(but=3)
@pytest.mark.parametrize(
    "markup",
    [
        "<figure><figcaption>" * 200 + "<p>words" * 300_000,
        "<figure><img src=a><figcaption>" * 100_000,
        "<figcaption></figure>" * 200_000,
        "<h1>" + "<b>x</b>" * 300_000 + "<img src=a.png>" * 1_000,
        "<h1></h1>" * 50_000 + "".join(f"<img src={n}>" for n in range(20_000)),
        f"<img srcset='{'a ' * 2_000_000}'>",
        f"<img srcset='{',' * 4_000_000}'>",
        f"<img srcset='{'a' + ',' * 4_000_000}'>",
        f"<img srcset='{'a' + ' ' * 4_000_000}'>",
        f"<img src='{' ' * 4_000_000}' width='{'9' * 4_000_000}'>",
        f"<img src='data:{'x' * 4_000_000}' data-src='{'a:' * 2_000_000}'>",
        "".join(f"<meta property=og:image content={n}>" for n in range(100_000)),
        "<picture><source srcset=a>" * 50_000 + "<img>",
    ],
    ids=range(13),
)
def test_no_page_has_more_or_longer_images_than_are_kept(markup):
    found = images(markup)

    assert len(found) <= MAX_IMAGES
    assert all(len(image.src) <= MAX_URL_LENGTH for image in found)
    assert all(len(image.context) <= MAX_CONTEXT for image in found)


# fmt: off
PIECES = [
    "<h1>", "</h1>", "<figure>", "</figure>", "<figcaption>", "</figcaption>", "<picture>",
    "</picture>", "<source srcset='s 2x'>", "<img src=a>", "<img src=b alt=B title=T>", "<img>",
    "<img data-src=c width=1 height=1>", "<template>", "</template>", "<svg>", "</svg>", "<p>",
    "<noscript>", "</noscript>", "<meta property=og:image content=a>", "text", "&#0;", "&#1;", "\0",
    "<meta property=og:image:alt content=x>", "<base href=http://b.example/x/>", "<pre>", "</pre>",
]
# fmt: on


@given(st.lists(st.sampled_from(PIECES)).map(" ".join))
def test_no_markup_makes_it_fail_and_every_image_is_fit_to_store(markup):
    found = images(markup)

    assert len({image.src for image in found}) == len(found)
    for image in found:
        assert image.src
        for text in (image.src, image.alt, image.context):
            assert text == " ".join(text.replace("\0", "  ").split())
        assert {type(image.width), type(image.height)} <= {int, type(None)}
