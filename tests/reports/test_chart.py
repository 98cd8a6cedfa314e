"""Pictures of labelled dots and of lines, read as XML."""

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.reports.chart import (
    FRAME,
    HEIGHT,
    WIDTH,
    ChartBox,
    Dot,
    chart_label_boxes,
    chart_ticks,
    scatter_chart,
)
from smartcrawl.reports.page_chart import (
    MOST_LINES,
    ChartLine,
    bar_chart,
    line_chart,
    row_ticks,
    time_ticks,
)

SVG = "{http://www.w3.org/2000/svg}"
TEXTS = {"title": "t", "description": "d", "x_axis": "x", "y_axis": "y"}
DOTS = [
    Dot("every run", 0, 12), Dot("as set", 84.7, 72.5, current=True), Dot("never back off", 0, 12),
    Dot("half the base interval", 78.6, 40.5), Dot("twice the base interval", 87.6, 89.6),
    Dot("back off after 1", 90, 119.4), Dot("back off after 5", 79, 46.1),
]  # fmt: skip
NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False) | st.integers(-200, 200)
MANY = st.lists(st.builds(Dot, name=st.text(), x=NUMBERS, y=NUMBERS), max_size=8)


def drawn(dots, **texts):
    return ElementTree.fromstring(scatter_chart(dots, **(TEXTS | texts)))


def groups(svg):
    return svg.findall(f"{SVG}g")


def circles(svg):
    """The places of the dots, in their order."""
    found = [group.find(f"{SVG}circle") for group in groups(svg)]
    return [(float(circle.get("cx")), float(circle.get("cy"))) for circle in found]


def labels(svg):
    return [group.find(f"{SVG}text") for group in groups(svg)]


def box_of(label):
    """Where a label stands, by what its font needs."""
    x, base = float(label.get("x")), float(label.get("y"))
    width = 7 * len(label.text)
    left = x - width * {"start": 0, "middle": 0.5, "end": 1}[label.get("text-anchor")]
    return ChartBox(left, base - 10, left + width, base + 3)


def test_it_stands_for_itself_and_says_what_it_shows():
    svg = drawn(DOTS, title="Saved & late", description="one dot a setting")
    text = scatter_chart(DOTS, **TEXTS)

    assert svg.get("viewBox") == f"0 0 {WIDTH} {HEIGHT}"
    assert svg.get("role") == "img"
    named = {svg.find(f"{SVG}{tag}").get("id") for tag in ("title", "desc")}
    assert set(svg.get("aria-labelledby").split()) == named
    assert svg.find(f"{SVG}title").text == "Saved & late"
    assert svg.find(f"{SVG}desc").text == "one dot a setting"
    assert "Saved & late" in [node.text for node in svg.findall(f"{SVG}text")]
    assert not re.search(r"<script|<image|href|url\(|@import| on\w+=", text)
    assert set(re.findall(r"https?://[^\"]+", text)) == {"http://www.w3.org/2000/svg"}


def test_each_dot_has_its_name_beside_it_and_the_current_one_is_marked():
    svg = drawn(DOTS)

    assert [label.text for label in labels(svg)] == [dot.name for dot in DOTS]
    marks = [group.get("class") for group in groups(svg)]
    assert marks == ["current" if dot.current else "other" for dot in DOTS]
    style = svg.find(f"{SVG}style").text
    assert ".current .dot" in style
    assert ".current text" in style


def test_axes_are_named_and_have_round_values():
    svg = drawn(DOTS, x_axis="requests saved, %", y_axis="staleness, hours")
    texts = [node.text for node in svg.findall(f"{SVG}text")]

    assert {"requests saved, %", "staleness, hours"} <= set(texts)
    assert [text for text in texts if re.fullmatch(r"\d+", text)] == [
        *("0", "20", "40", "60", "80", "100"),
        *("0", "50", "100", "150"),
    ]


def test_values_map_to_places_in_their_order():
    low, high = drawn([Dot("low", 0, 0), Dot("high", 100, 50)]), drawn(DOTS)

    assert circles(low) == [(FRAME.left, FRAME.bottom), (FRAME.right, FRAME.top)]
    places = circles(high)
    for (one, (x, y)), (other, (u, v)) in combinations(zip(DOTS, places, strict=True), 2):
        assert (one.x < other.x) == (x < u)
        assert (one.y < other.y) == (y > v)


@given(MANY)
def test_any_dots_stay_in_the_frame_in_their_order(dots):
    svg = drawn(dots)
    places = circles(svg)

    assert all(
        FRAME.left - 0.1 <= x <= FRAME.right + 0.1 and FRAME.top - 0.1 <= y <= FRAME.bottom + 0.1
        for x, y in places
    )
    by_x = sorted(zip((dot.x for dot in dots), (x for x, _ in places), strict=True))
    by_y = sorted(zip((dot.y for dot in dots), (y for _, y in places), strict=True))
    assert all(first[1] <= second[1] for first, second in pairwise(by_x))
    assert all(first[1] >= second[1] for first, second in pairwise(by_y) if first[0] < second[0])


@given(MANY)
def test_labels_never_leave_the_frame(dots):
    assert all(FRAME.holds(box_of(label)) for label in labels(drawn(dots)) if label.text)


def test_labels_meet_neither_each_other_nor_a_dot():
    svg = drawn(DOTS)
    found = [box_of(label) for label in labels(svg)]

    assert not any(one.meets(other) for one, other in combinations(found, 2))
    assert not any(box.meets(ChartBox(x, y, x, y)) for box in found for x, y in circles(svg))


def test_names_of_one_place_stand_one_below_the_other_with_a_line_to_their_dot():
    names = [f"setting {n}" for n in range(7)]
    svg = drawn([*(Dot(name, 100, 100) for name in names), Dot("far away", 200, 200)])
    found = [box_of(label) for label in labels(svg)]
    lines = [group.find(f"{SVG}path") for group in groups(svg)[:7]]

    assert not any(one.meets(other) for one, other in combinations(found, 2))
    assert lines[:2] == [None, None]  # right and left of it
    assert [line.get("class") for line in lines[2:]] == ["leader"] * 5


def test_names_without_room_stand_in_the_frame_all_the_same():
    found = chart_label_boxes(["a name that is rather long"] * 200, [(300, 200)] * 200)

    assert all(FRAME.holds(box) for box in found)


@pytest.mark.parametrize("name", ["<script>&\"'", "a\x00b\x1bc\ufffe", "日本", "\ud800", ""])
def test_names_are_text(name):
    svg = drawn([Dot(name, 1, 1)], title=name, description=name, x_axis=name, y_axis=name)
    shown = re.sub("[\x00\x1b\ufffe\ud800]", "\ufffd", name)

    assert (labels(svg)[0].text or "") == shown
    assert (svg.find(f"{SVG}title").text or "") == shown
    assert svg.find(f".//{SVG}script") is None


def test_long_names_are_cut():
    svg = drawn([Dot("n" * 500, 1, 1)], title="t" * 500)

    assert labels(svg)[0].text.endswith("n…")
    assert svg.find(f"{SVG}title").text == "t" * 500
    assert [len(node.text) for node in svg.findall(f"{SVG}text") if "t…" in node.text] == [80]


def test_the_same_dots_give_the_same_picture():
    assert scatter_chart(DOTS, **TEXTS) == scatter_chart(DOTS, **TEXTS)


# Round values


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (0, 1)), ([0], (0, 1)), ([1], (0, 0.2, 0.4, 0.6, 0.8, 1)),
        ([72.5, 119.4], (0, 50, 100, 150)), ([84.7], (0, 20, 40, 60, 80, 100)),
        ([-30, 60], (-40, -20, 0, 20, 40, 60)), ([-5], (-5, -4, -3, -2, -1, 0)),
        ([0.3], (0, 0.1, 0.2, 0.3)), ([12_000], (0, 5_000, 10_000, 15_000)),
    ],
)  # fmt: skip
def test_round_values_span_what_is_shown(values, expected):
    assert chart_ticks(values) == expected


@given(st.lists(NUMBERS, max_size=5))
def test_round_values_are_few_and_in_equal_steps(values):
    found = chart_ticks(values)
    low, high = min([0, *values]), max([0, *values])
    slack = 1e-6 * max(high - low, 1)

    assert 2 <= len(found) <= 6
    assert found[0] <= low + slack
    assert found[-1] >= high - slack
    assert 0 in found
    steps = [later - earlier for earlier, later in pairwise(found)]
    assert all(step == pytest.approx(steps[0]) for step in steps)


# Lines for a page

LINES = [ChartLine("requests", [1, 4, None, 2]), ChartLine("304", [0, 0.5, 1, 2])]
AXES = {"name": "n", "title": "t", "description": "d", "x_axis": "x", "y_axis": "y"}
MANY_LINES = st.integers(0, 40).flatmap(
    lambda size: st.lists(
        st.builds(
            ChartLine,
            name=st.text(),
            values=st.lists(st.none() | st.floats(0, 1e12), min_size=size, max_size=size),
        ),
        max_size=MOST_LINES,
    ).map(lambda lines: (size, lines))
)


def lined(places, lines, **changed):
    given = {"ticks": row_ticks([str(place) for place in places])} | AXES | changed
    return ElementTree.fromstring(line_chart(places, lines, **given))


def paths(group):
    return [node.get("d") for node in group.findall(f"{SVG}path")]


def drawn_lines(svg):
    """The groups of lines without those of the legend."""
    named = svg.findall(f"{SVG}g")
    return named[len(named) // 2 :]


def test_lines_differ_by_strokes_and_markers_and_not_by_colours_alone():
    lines = [ChartLine(f"line {n}", [n, n + 1]) for n in range(MOST_LINES)]
    svg = lined([0, 1], lines)
    strokes, shapes = set(), set()
    for group in drawn_lines(svg):
        line, *markers = group.findall(f"{SVG}path")
        strokes.add(line.get("stroke-dasharray"))
        shapes.add(re.sub(r"^M[\d.]+ [\d.]+", "", markers[0].get("d")))

    assert (len(strokes), len(shapes)) == (MOST_LINES, MOST_LINES)
    assert [group.get("class") for group in drawn_lines(svg)] == [
        f"line s{n}" for n in range(1, MOST_LINES + 1)
    ]
    assert {f"line {n}" for n in range(MOST_LINES)} <= {t.text for t in svg.iter(f"{SVG}text")}


def test_a_line_breaks_where_a_value_is_not_known():
    first, second = drawn_lines(lined([0, 1, 2, 3], LINES))

    assert (paths(first)[0].count("M"), len(paths(first)) - 1) == (2, 3)
    assert (paths(second)[0].count("M"), len(paths(second)) - 1) == (1, 4)


def test_values_of_lines_map_to_places_in_their_order():
    (group,) = drawn_lines(lined([0, 1, 3], [ChartLine("a", [0, 10, 5])]))
    points = [
        tuple(map(float, one.split())) for one in re.findall(r"[\d.]+ [\d.]+", paths(group)[0])
    ]

    (x0, y0), (x1, y1), (x2, y2) = points
    assert x2 - x1 == pytest.approx(2 * (x1 - x0), abs=0.2)
    assert y0 - y1 == pytest.approx(2 * (y0 - y2), abs=0.2)


@given(MANY_LINES)
def test_any_lines_stay_in_the_picture(given_lines):
    size, lines = given_lines
    svg = lined(list(range(size)), lines)
    _, _, width, height = map(float, svg.get("viewBox").split())

    for group in drawn_lines(svg):
        for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", " ".join(paths(group))):
            assert 0 <= float(x) <= width
            assert 0 <= float(y) <= height


def test_a_picture_of_many_values_has_few_markers():
    (group,) = drawn_lines(lined(range(360), [ChartLine("a", list(range(360)))]))

    assert len(paths(group)) - 1 == 12


def test_a_picture_needs_no_style_and_its_ids_begin_with_its_name():
    text = line_chart([0, 1, 2, 3], LINES, ticks=[], **AXES | {"name": "requests"})

    assert not re.search(r"style|<script|href|url\(| on\w+=", text)
    assert set(re.findall(r' id="([^"]+)"', text)) == {"requests-title", "requests-text"}


@pytest.mark.parametrize("name", ["<script>&\"'</svg>", "a\x00b\x1bc\ufffe", "\ud800", ""])
def test_names_of_lines_are_text(name):
    given = {"title": name, "description": name, "x_axis": name, "y_axis": name}
    svg = lined([0, 1], [ChartLine(name, [1, 2])], ticks=[(0, name)], **given)
    shown = re.sub("[\x00\x1b\ufffe\ud800]", "\ufffd", name)

    texts = [node.text or "" for node in svg.iter(f"{SVG}text")]
    assert texts.count(shown) == 4
    assert (svg.find(f"{SVG}title").text or "") == shown
    assert svg.find(f".//{SVG}script") is None


def test_too_many_lines_or_values_are_refused():
    with pytest.raises(ValueError, match="at most 6 lines"):
        lined([0], [ChartLine(str(n), [1]) for n in range(MOST_LINES + 1)])
    with pytest.raises(ValueError, match="a value for each place"):
        lined([0, 1], [ChartLine("a", [1])])


@pytest.mark.parametrize(
    ("span", "texts"),
    [
        (0, ["15:06:40"]),
        (60, ["15:06:45", "15:07:00", "15:07:15", "15:07:30"]),
        (3_600, ["15:15", "15:30", "15:45", "16:00"]),
        (86_400, ["06-16 00:00", "06-16 12:00"]),
        (3 * 86_400, ["2025-06-16", "2025-06-17", "2025-06-18"]),
    ],
)
def test_times_on_an_axis_are_round(span: int, texts: list[str]):
    assert [text for _, text in time_ticks(1_750_000_000, 1_750_000_000 + span)] == texts


@given(st.integers(0, 2_000_000_000), st.integers(0, 400_000_000))
def test_times_on_an_axis_are_few_and_within_it(first: int, span: int):
    found = [place for place, _ in time_ticks(first, first + span)]

    assert 1 <= len(found) <= 6
    assert all(first <= place <= first + span for place in found)


def test_names_of_many_runs_are_some_of_them():
    assert [text for _, text in row_ticks([str(n) for n in range(50)])] == [
        str(n) for n in range(0, 50, 5)
    ]
    assert row_ticks([]) == ()


def bars_of(values: list[int], **changed: str) -> ElementTree.Element:
    names = [f"day {place}" for place in range(len(values))]
    given = {"name": "due", **TEXTS} | changed
    return ElementTree.fromstring(bar_chart(list(zip(names, values, strict=True)), **given))


def test_bars_are_as_high_as_their_values_and_have_names_and_numbers():
    picture = bars_of([0, 50, 100])

    _, first, second = picture.iter(f"{SVG}rect")
    assert float(second.get("height", 0)) == pytest.approx(2 * float(first.get("height", 0)))
    assert float(second.get("x", 0)) > float(first.get("x", 0)) + float(first.get("width", 0))
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert {"day 0", "day 1", "day 2", "x", "y"} <= set(texts)
    assert texts.count("50") == 1, "its value; the axis has steps of 20"
    assert texts.count("100") == 2, "its value, and a tick"


def test_names_of_many_bars_stand_apart():
    picture = bars_of([1] * 16)

    named = [text for text in picture.iter(f"{SVG}text") if str(text.text).startswith("day")]
    places = [float(text.get("x", 0)) for text in named]
    assert (named[0].text, named[-1].text) == ("day 0", "day 15")
    assert all(two - one >= 6 * 8 for one, two in pairwise(places))


@given(st.lists(st.integers(0, 10**9), max_size=20), st.text())
def test_any_bars_are_xml_within_the_picture(values: list[int], text: str):
    picture = bars_of(values, title=text, description=text)

    width, height = map(float, picture.get("viewBox", "").split()[2:])
    for bar in picture.iter(f"{SVG}rect"):
        x, y, across, up = (float(bar.get(name, 0)) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + across <= width
        assert 0 <= y <= y + up <= height
