"""Traps are told by spelling and by number; ordinary sites lose nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smartcrawl.rules.traps import (
    MAX_COUNTED,
    MAX_PARAMETERS,
    MAX_PLACES,
    MAX_REPEATS,
    MAX_SEGMENTS,
    Trap,
    TrapBudget,
    trap_of,
)

YEAR = 2025
SITE = "https://example.com"
PAST = ["agenda", "cal", "calendar", "calendario", "calendrier", "kalender"]
RANDOM = "4f1c0a9b7d2e8365"

REAL = [
    "/",
    # MediaWiki
    "/wiki/Special:RecentChanges?hidebots=1&limit=50&days=7&urlversion=2",
    "/w/index.php?title=Main_Page&oldid=1130021&diff=prev",
    "/wiki/1985/Archive_3",
    "/w/index.php?title=Special:UserLogin&returnto=Main+Page&returntoquery=a%3D1%26b%3D%252F",
    # Discourse, phpBB, PHP-Nuke
    "/t/how-to-import-calendar-events/2616/12",
    "/t/topic/3000/12?u=somebody",
    "/viewtopic.php?f=2&t=123&sid=0cc175b9c0f1b6a831c399e269772661",
    "/modules.php?name=News&file=article&sid=2031",
    # WordPress
    "/2024/05/",
    "/2027/12/31/a-day-in-the-life/",
    "/2024/01/01/01/",
    "/1985/03/12/this-week-in-history.html",
    "/archives/1985/03",
    "/?p=2031&preview=true",
    "/?s=calendar+2031",
    "/wp-login.php?redirect_to=https%3A%2F%2Fexample.com%2Fwp-admin%2F%3Fpage%3D2&reauth=1",
    # repositories
    "/apache/spark/tree/master/core/src/main/java/org/apache/spark/api/java",
    "/o/r/blob/main/src/main/java/org/main/src/Main.java",
    "/group/project/-/tree/main/src",
    # documentation and mirrors
    "/javase/8/docs/api/java/util/concurrent/ConcurrentHashMap.html?is-external=true",
    "/en/latest/api/api.html",
    "/debian/pool/main/l/linux/",
    "/debian/dists/bookworm/main/binary-amd64/",
    "/rfc/2616/",
    "/rfc/rfc2616?p=1&p=2",
    "/isbn/978/0/13/110362/7",
    # shops and boards
    "/c/shoes?color[]=red&color[]=blue&color[]=green&color[]=black&size=42&page=3",
    "/product/2099",
    "/item/3000/12",
    "/s/a~1/b~1?price=0-100&year=2031",
    "/jobs/all/12/0/0/0/0",
    "/search/-/-/-/-/-",
    "/cars?year_from=1985&year_to=2099&date=any",
    "/films?year=1985",
    "/films/1985/12",
    "/issues?year=1985&month=3",
    "/flights?date=2027-12-31",
    # what happened and what will
    "/events/1944/06/06",
    "/schedules/radio/1964-02-03",
    "/events?date=1969-07-20",
    "/events/2027/12",
    "/event/3000/12",
    "/calendar/2027-12-31",
    "/calendar/1990/01",
    "/calendar?year=1990&month=1",
    "/calendar/2031",
    "/calendar/2031/13",
    "/calendar/2031/00/1",
    "/calendar/1899/12",
    "/calendar/2200/01",
    "/calendar/20311/05",
    "/calendar/42031/05",
    "/2031/05/calendar",
    "/calendar?sku=12031-05",
    "/calendar?date_to=2099-12-31",
    "/calendar?q=what?is?this?for?you?and?me",
    "/meeting-room-calendar-of-events/2031/05",
    "/caldav/2031/05",
    # a number that is no date, and a date that is near
    "/calendar/2027/12?id=2031",
    "/calendar/1990/01?id=2031",
    "/calendar/1899/12?id=2031",
    "/calendar/2200/01?id=2031",
    "/calendar/x2031/05?id=2031",
    "/calendar?date=2027-12&id=2031",
    "/?redirect=%2Fevents%2F2031%2F05",
]


@pytest.mark.parametrize("path", REAL)
def test_ordinary_addresses_are_no_traps(path):
    assert trap_of(SITE + path, YEAR) is None
    assert trap_of("http://localhost:8080" + path, YEAR) is None
    assert TrapBudget(year=YEAR, per_host=1, hosts=1).refuse(SITE + path, "example.com") is None


def test_a_host_alone_is_no_trap():
    assert trap_of("http://a/", YEAR) is None
    assert trap_of("http://calendar.2031.05.example/2031/05/", YEAR) is None


# Paths


@pytest.mark.parametrize(
    ("path", "segment"),
    [
        ("/a/a/a/a", "a"),
        ("/a/a/a/a/", "a"),
        ("/x/a/y/a/z/a/q/a/w", "a"),
        ("/page/1/page/2/page/3/page/4", "page"),
        ("/index.php/index.php/index.php/index.php?a=1", "index.php"),
        ("/012/012/012/012", "012"),
        ("/1a/1a/1a/1a", "1a"),
        ("/A/a/A/a/A/a/A", "A"),
        ("/%C3%A9/%C3%A9/%C3%A9/%C3%A9", "%C3%A9"),
    ],
)
def test_a_segment_may_stand_three_times_in_a_path(path, segment):
    assert trap_of(SITE + path, YEAR) is Trap.PATH_REPEAT
    assert trap_of(SITE + path.replace(f"/{segment}", "/other", 1), YEAR) is None
    assert trap_of(f"{SITE}/?path={path}", YEAR) is None


def test_a_sequence_that_repeats_is_one_of_segments_that_do():
    assert trap_of(f"{SITE}/a/b/a/b/a/b", YEAR) is None
    assert trap_of(f"{SITE}/a/b/a/b/a/b/a/b", YEAR) is Trap.PATH_REPEAT


@pytest.mark.parametrize("place", ["1", "0", "12", "-", "_~"])
def test_what_keeps_a_place_may_stand_eight_times(place):
    assert trap_of(f"{SITE}/a" + MAX_PLACES * f"/{place}", YEAR) is None
    assert trap_of(f"{SITE}/a" + (MAX_PLACES + 1) * f"/{place}", YEAR) is Trap.PATH_REPEAT
    assert MAX_PLACES == 8


def test_empty_segments_do_not_repeat_but_make_a_path_deep():
    assert trap_of(f"{SITE}//a//b//c//d//e", YEAR) is None
    assert trap_of(SITE + "/" * 40, YEAR) is Trap.PATH_TOO_DEEP


def test_a_path_may_have_32_segments():
    deep = "".join(f"/x{n}" for n in range(MAX_SEGMENTS))

    assert MAX_SEGMENTS == 32
    for tail in ("", "/", "?a=/b/c"):
        assert trap_of(SITE + deep + tail, YEAR) is None
        assert trap_of(f"{SITE}/more{deep}{tail}", YEAR) is Trap.PATH_TOO_DEEP
    assert trap_of(f"{SITE}{deep}/x1/x1/x1", YEAR) is Trap.PATH_REPEAT


# Queries


@pytest.mark.parametrize(
    ("part", "others"),
    [("a=1", ""), ("a=", "&b=1"), ("tag[]=x", "&tag[]=y&tag[]=z"), ("a", "&b&b&b")],
)
def test_a_parameter_with_its_value_may_stand_three_times(part, others):
    assert trap_of(f"{SITE}/?{'&'.join([part] * MAX_REPEATS)}{others}", YEAR) is None
    assert trap_of(f"{SITE}/?{'&'.join([part] * 4)}{others}", YEAR) is Trap.QUERY_REPEAT
    assert trap_of(f"{SITE}/?{part}{others}&{'&'.join([part] * 3)}", YEAR) is Trap.QUERY_REPEAT
    assert MAX_REPEATS == 3


def test_values_of_one_parameter_may_differ_as_often_as_there_may_be_parameters():
    many = "&".join(f"tag={n}" for n in range(MAX_PARAMETERS))

    assert MAX_PARAMETERS == 32
    assert trap_of(f"{SITE}/?{many}", YEAR) is None
    assert trap_of(f"{SITE}/?&&&&{many}&&", YEAR) is None
    assert trap_of(f"{SITE}/?{many}&more", YEAR) is Trap.QUERY_REPEAT
    assert trap_of(f"{SITE}/?a=1&a=1&b=2&b=2&c=3&c=3&c=3", YEAR) is None


def nested(times: int, *, escaped: bool) -> str:
    """Return an address that names itself in its query so many times, one in the other."""
    url = "home"
    for _ in range(times + 1):
        inner = url
        if escaped:
            for char, code in (("%", "%25"), ("/", "%2F"), ("?", "%3F"), ("=", "%3D")):
                inner = inner.replace(char, code)
        url = f"/login?return={inner}"
    return SITE + url


@pytest.mark.parametrize("escaped", [True, False])
def test_an_address_may_stand_three_times_in_its_own_query(escaped):
    for times in range(4):
        assert trap_of(nested(times, escaped=escaped), YEAR) is None
    for times in range(4, 9):
        assert trap_of(nested(times, escaped=escaped), YEAR) is Trap.QUERY_REPEAT


@pytest.mark.parametrize(
    ("head", "again"),
    [
        ("return=", "%2Fx%3Freturn%3D"),  # escaped once as a whole
        ("return=", "%2fx%3freturn%3d"),
        ("a=1&return=", "/x?a=1%26return="),
        ("r=", "/x%253Fr%253D"),
        ("r=", "/x%25253Fr%25253D"),
        ("go", "?go=1"),
    ],
)
def test_an_address_in_itself_is_found_however_it_is_escaped(head, again):
    assert trap_of(f"{SITE}/x?{head}{again * 3}y", YEAR) is None
    assert trap_of(f"{SITE}/x?{head}{again * 4}y", YEAR) is Trap.QUERY_REPEAT


@pytest.mark.parametrize("ampersand", ["amp;", "amp%3B"])
def test_an_ampersand_may_be_escaped_three_times(ampersand):
    assert trap_of(f"{SITE}/?a=1&{ampersand * 3}b=2", YEAR) is None
    assert trap_of(f"{SITE}/?a=1&{ampersand * 4}b=2", YEAR) is Trap.QUERY_REPEAT
    assert trap_of(f"{SITE}/?{'&'.join(f'{ampersand}{n}=1' for n in range(9))}", YEAR) is None


def test_escapes_of_escapes_are_refused_from_the_fourth_level_on():
    assert trap_of(f"{SITE}/?a=%25252F", YEAR) is None
    assert trap_of(f"{SITE}/?a=%2525252F", YEAR) is Trap.QUERY_REPEAT
    assert trap_of(f"{SITE}/?a=1&b=c%2525252F", YEAR) is Trap.QUERY_REPEAT
    assert trap_of(f"{SITE}/%2525252F", YEAR) is None


def test_question_marks_alone_are_no_nesting():
    assert trap_of(f"{SITE}/?a=1?b=2?c=3?d=4?e=5?f=6", YEAR) is None
    assert trap_of(f"{SITE}/?a=1?a?a?a?a?a?a", YEAR) is None


# Calendars


@pytest.mark.parametrize(
    "path",
    [
        "/calendar/2028/01",
        "/calendar/2031/5/",
        "/calendar/2031/12/31",
        "/calendar/2199/09/07/list",
        "/calendar/2031-05",
        "/calendar/2031-05-01/",
        "/calendar/1989/12",
        "/calendar/1900/01",
        "/en/calendars/room-2/2031/10/10",
        "/a/b/c/d/e/calendar/2031/10/10",
        "/events/calendar.php/2031/05",
        "/eventCalendar/2031/05",
        "/CALENDAR/2031/05",
        "/events/2031-05-01/?view=day",
        "/our-events-list/2031/05",
        "/2024/05/events/2031/05",
        "/calendar.php?date=2031-05-01",
        "/calendar.php?start=1&date=2031/5/1",
        "/calendar?year=2031&month=5",
        "/calendar?y=2150&m=1",
        "/calendar?yr=2150",
        "/calendar?date=2031",
        "/calendar?v=1&year=1989",
        "/rooms?date=2031-05-01",
        "/rooms?eventDate=2031-05-01",
        "/rooms?tribe-bar-date=2031-05",
        "/rooms?year=2031&month=5",
        "/rooms?month=5&year=2031&week=2",
        "/rooms?a=1&cal_year=2031&cal_month=5",
        "/rooms?cal=1989-12-31",
        "/calendar/?x=2031-05",
    ],
)
def test_a_calendar_is_not_walked_beyond_what_is_in_it(path):
    assert trap_of(SITE + path, YEAR) is Trap.CALENDAR


@pytest.mark.parametrize(
    "word",
    [
        *PAST,
        *["archive", "date", "day", "event", "month", "schedule", "termine", "veranstaltungen"],
        *["week", "year"],
    ],
)
def test_words_that_say_what_has_dates(word):
    for name in (word, word + "s", word.capitalize()):
        for year, refused in ((2027, False), (2028, True), (1990, False), (1989, word in PAST)):
            trap = Trap.CALENDAR if refused else None
            assert trap_of(f"{SITE}/{name}/{year}/12", YEAR) is trap, (name, year)
            assert trap_of(f"{SITE}/x?{name}={year}-12-31", YEAR) is trap, (name, year)
            assert trap_of(f"{SITE}/{name}?year={year}", YEAR) is trap, (name, year)
            assert trap_of(f"{SITE}/x?{name}=1&y={year}", YEAR) is trap, (name, year)
    assert trap_of(f"{SITE}/{word}?{word}=2031", YEAR) is Trap.CALENDAR


@pytest.mark.parametrize(
    "bound", ["after", "before", "end", "from", "max", "min", "start", "till", "to", "until"]
)
def test_limits_of_a_filter_are_no_dates_of_a_walk(bound):
    for name in (f"date_{bound}", f"{bound}Date", f"{bound}-year"):
        for value in ("2099-12-31", "2099"):
            assert trap_of(f"{SITE}/calendar?{name}={value}", YEAR) is None
    assert trap_of(f"{SITE}/rooms?year=2031&{bound}_month=5", YEAR) is None
    assert trap_of(f"{SITE}/rooms?{bound}_month=5&year=2031&day=1", YEAR) is Trap.CALENDAR


@pytest.mark.parametrize(
    "path",
    [
        "/rooms/2031/05",
        "/rooms?year=2031",
        "/rooms?year=2031&page=5",
        "/rooms?id=2031-05-01",
        "/calendar?id=2031",
        "/calendar?date=2031-5-32",
        "/calendar?date=2031-13",
        "/calendar?date=2031-05-01T10",
        "/calendar?date=12031-05",
        "/calendar?date=20315",
        "/a-calendar-of-all/2031/05",
        "/calendar/2031/32x/",
        "/calendar/x2031/05",
        "/calendar/2031-05-99",
    ],
)
def test_numbers_that_are_no_dates_or_that_no_word_calls_so(path):
    assert trap_of(SITE + path, YEAR) is None


@pytest.mark.parametrize("month", [f"{n}" for n in range(1, 13)] + [f"0{n}" for n in range(1, 10)])
def test_every_month_is_one(month):
    assert trap_of(f"{SITE}/calendar/2031/{month}", YEAR) is Trap.CALENDAR
    assert trap_of(f"{SITE}/calendar?date=2031-{month}", YEAR) is Trap.CALENDAR


@pytest.mark.parametrize("day", [f"{n}" for n in range(1, 32)] + [f"0{n}" for n in range(1, 10)])
def test_every_day_is_one(day):
    assert trap_of(f"{SITE}/calendar/2031-12-{day}", YEAR) is Trap.CALENDAR
    assert trap_of(f"{SITE}/calendar?date=2031-12-{day}", YEAR) is Trap.CALENDAR


@given(st.integers(1, 9999), st.integers(1995, 2150))
def test_years_of_a_calendar_are_those_around_the_present_one(found, year):
    near = 1990 <= found <= year + 2
    date = 1900 <= found < 2200
    trap = Trap.CALENDAR if date and not near else None

    assert trap_of(f"{SITE}/calendar/{found:04}/05", year) is trap
    assert trap_of(f"{SITE}/calendar?date={found:04}-05", year) is trap
    assert trap_of(f"{SITE}/calendar?year={found:04}", year) is trap


@given(st.text(st.sampled_from("a1/?&=%;-2031.5dayS"), max_size=80))
def test_any_spelling_is_judged(rest):
    url = f"{SITE}/{rest}"

    trap = trap_of(url, YEAR)

    assert trap is None or trap in Trap
    assert trap_of(url, YEAR) is trap


# Numbers of a run


def asked(budget: TrapBudget, host: str, count: int, path: str = "/{}") -> list[Trap | None]:
    return [budget.refuse(f"https://{host}{path.format(n)}", host) for n in range(count)]


def test_a_host_may_have_so_many_addresses_known_and_new():
    budget = TrapBudget(year=YEAR, per_host=5, hosts=0)
    budget.known("a.example", 1)
    budget.known("a.example", 2)
    budget.known("b.example", 5)
    budget.known("c.example", 9)

    assert asked(budget, "a.example", 4) == [None, None, *[Trap.HOST_BUDGET] * 2]
    assert asked(budget, "b.example", 1) == [Trap.HOST_BUDGET]
    assert asked(budget, "c.example", 1) == [Trap.HOST_BUDGET]
    assert asked(budget, "d.example", 6) == [*[None] * 5, Trap.HOST_BUDGET]


def test_there_may_be_so_many_hosts_known_and_new():
    budget = TrapBudget(year=YEAR, per_host=0, hosts=3)
    budget.known("a.example", 0)
    budget.known("b.example", 9)

    assert asked(budget, "c.example", 2) == [None, None]
    assert asked(budget, "d.example", 2) == [Trap.TOO_MANY_HOSTS] * 2
    assert asked(budget, "a.example", 1) == asked(budget, "b.example", 1) == [None]
    assert asked(budget, "c.example", 1) == [None]


def test_more_hosts_may_be_known_than_are_allowed():
    budget = TrapBudget(year=YEAR, per_host=2, hosts=1)
    for host in ("a.example", "b.example"):
        budget.known(host, 1)

    assert asked(budget, "c.example", 1) == [Trap.TOO_MANY_HOSTS]
    assert asked(budget, "b.example", 2) == [None, Trap.HOST_BUDGET]


def test_zero_is_no_limit():
    budget = TrapBudget(year=YEAR, per_host=0, hosts=0, per_session=0)

    assert asked(budget, "a.example", 500) == [None] * 500
    assert asked(budget, "a.example", 500, f"/x?sid={RANDOM}{{}}") == [None] * 500
    assert [asked(budget, f"{n}.example", 1) for n in range(50)] == [[None]] * 50


def test_what_is_refused_is_not_counted():
    budget = TrapBudget(year=YEAR, per_host=2, hosts=2, per_session=1)

    assert asked(budget, "a.example", 1, "/calendar/2031/05") == [Trap.CALENDAR]
    assert asked(budget, "a.example", 2, f"/x?sid={RANDOM}{{}}") == [None, Trap.SESSION_ID]
    assert asked(budget, "b.example", 1, "/a/a/a/a") == [Trap.PATH_REPEAT]
    assert asked(budget, "c.example", 1) == [None]
    assert asked(budget, "d.example", 1) == [Trap.TOO_MANY_HOSTS]
    assert asked(budget, "a.example", 2) == [None, Trap.HOST_BUDGET]
    assert asked(budget, "a.example", 1, f"/y?sid={RANDOM}{{}}") == [Trap.HOST_BUDGET]


# Session ids


@pytest.mark.parametrize(
    "path",
    [
        f"/a;sid={RANDOM}{{}}",
        f"/a;s={RANDOM}{{}}/b",
        f"/a?b=1;session={RANDOM}{{}}",
        f"/a?s={RANDOM}{{}}",
        f"/a?b=1&s={RANDOM}{{}}&c=2",
        f"/a?sid={RANDOM.upper()}{{}}",
        f"/a?session={RANDOM}{{}}",
        f"/a?sessionid={RANDOM}{{}}",
        f"/a?session_id={RANDOM}{{}}",
        f"/a?b=1&amp;s={RANDOM}{{}}",
        "/a?sid=0000000000000{:03}abc",
        "/a?sid=abc0000000000000{:03}",
        "/a?sid=550e8400-e29b-41d4-a716-446655440{:03}",
        "/a?s=550E8400-E29B-41D4-A716-446655440{:03}",
        "/a?s=aaaaaaaa-bbbb-cccc-dddd-eeeeeeeee{:03}",
    ],
)
def test_a_page_may_be_met_under_so_many_session_ids(path):
    budget = TrapBudget(year=YEAR, per_host=0, hosts=0)

    assert asked(budget, "a.example", 25, path) == [*[None] * 20, *[Trap.SESSION_ID] * 5]
    assert asked(budget, "a.example", 2, f"/other{path}") == [None] * 2
    assert asked(budget, "b.example", 2, path) == [None] * 2


@pytest.mark.parametrize(
    "path",
    [
        "/a?page={}",
        "/a?id={}",
        "/story?sid={}",
        "/talks?session={}",
        "/talks?session_id=keynote-{}",
        "/?s=words{}",
        "/?s=to+what+is+looked+for+{}",
        "/?s=how-to-fix-windows-{}",
        "/a?sid=1234567890123{:03}",
        "/a?sid=abcdefghijklmn{:01}",
        f"/a?x_s={RANDOM}{{}}",
        f"/a?sids={RANDOM}{{}}",
        f"/a?sid={RANDOM}{{}}.html",
        f"/a?sid={RANDOM}-{{}}",
        "/a?sid=550e8400-e29b-41d4-a716-44665544{:03}",
        "/a?sid=12345678-1234-1234-1234-123456789{:03}",
        "/sid={}",
        f"/a?mysid={RANDOM}{{}}",
        # no part of the address (model.signatures), whatever it is here
        f"/a;jsessionid={RANDOM}{{}}",
        f"/a?PHPSESSID={RANDOM}{{}}",
    ],
)
def test_other_parameters_are_no_session_ids(path):
    budget = TrapBudget(year=YEAR, per_host=0, hosts=0, per_session=5)

    assert asked(budget, "a.example", 10, path) == [None] * 10


def test_letters_alone_are_no_session_id():
    budget = TrapBudget(year=YEAR, per_host=0, hosts=0, per_session=1)
    values = ["abcdefghijklmnop", "bcdefghijklmnopqrs", "cdefghijklmnopqrstuvw"]

    assert [budget.refuse(f"{SITE}/?s={value}", "example.com") for value in values] == [None] * 3


def test_addresses_that_differ_in_more_than_their_session_id_are_others():
    budget = TrapBudget(year=YEAR, per_host=0, hosts=0, per_session=1)

    for n in range(50):
        assert budget.refuse(f"{SITE}/{n}?sid={RANDOM}{n}", "example.com") is None
        assert budget.refuse(f"{SITE}/?page={n}&sid={RANDOM}{n}", "example.com") is None
        assert budget.refuse(f"{SITE}/a;sid={RANDOM}{n}?page={n}", "example.com") is None
        assert budget.refuse(f"{SITE}/b;sid={RANDOM}{n}/{n}", "example.com") is None
        assert budget.refuse(f"{SITE}/c;sid={RANDOM}{n};v={n}", "example.com") is None
    for sign in "&;?":
        assert budget.refuse(f"{SITE}/?a=1{sign}id=2", "example.com") is None
    assert budget.refuse(f"{SITE}/7?sid={RANDOM}", "example.com") is Trap.SESSION_ID


def test_known_addresses_with_session_ids_count_when_this_run_linked_them():
    """Those of earlier runs, removed long ago, do not; nor does what is no session id."""
    offered = {3, 4}
    budget = TrapBudget(
        year=YEAR, per_host=0, hosts=0, per_session=3, is_linked=offered.__contains__
    )
    budget.seen((n, f"{SITE}/a?sid={RANDOM}{n}") for n in range(1, 1000))
    budget.seen([(4, f"{SITE}/b?sid={RANDOM}"), (3, f"{SITE}/b?sid=3")])

    def refuse(path: str, known: tuple[int, ...] = ()) -> Trap | None:
        return budget.refuse(f"{SITE}{path}", "example.com", known)

    assert refuse(f"/a?sid={RANDOM}x0") is None
    assert refuse(f"/a?sid={RANDOM}x1") is Trap.SESSION_ID
    assert [refuse(f"/b?sid={RANDOM}x{n}") for n in range(3)] == [None, None, Trap.SESSION_ID]
    budget = TrapBudget(year=YEAR, per_host=0, hosts=0, per_session=3)
    budget.seen((n, f"{SITE}/a?sid={RANDOM}{n}") for n in range(1, 10))
    assert refuse(f"/a?sid={RANDOM}x0", (1, 2, 99)) is None
    assert refuse(f"/a?sid={RANDOM}x1", (1, 2, 99)) is Trap.SESSION_ID
    assert refuse(f"/a?sid={RANDOM}x1") is None  # another page, which links none of them


def test_known_addresses_alone_may_be_too_many():
    budget = TrapBudget(
        year=YEAR, per_host=0, hosts=0, per_session=3, is_linked={1, 2, 3}.__contains__
    )
    budget.seen((n, f"{SITE}/a?sid={RANDOM}{n}") for n in (1, 2, 3))

    assert budget.refuse(f"{SITE}/a?sid={RANDOM}x", "example.com", ()) is Trap.SESSION_ID


def test_the_first_addresses_with_session_ids_are_forgotten_when_there_are_too_many():
    assert MAX_COUNTED == 65_536
    budget = TrapBudget(year=YEAR, per_host=0, hosts=0, per_session=1)
    for n in range(MAX_COUNTED):
        budget.refuse(f"http://a/{n};sid={RANDOM}1", "a")

    assert budget.refuse(f"http://a/0;sid={RANDOM}2", "a") is Trap.SESSION_ID
    assert budget.refuse(f"http://a/new;sid={RANDOM}1", "a") is None  # and the first is forgotten
    assert budget.refuse(f"http://a/1;sid={RANDOM}2", "a") is Trap.SESSION_ID
    assert budget.refuse(f"http://a/0;sid={RANDOM}2", "a") is None


# Words


@pytest.mark.parametrize(
    ("trap", "name", "words"),
    [
        (
            Trap.PATH_REPEAT,
            "path_repeat",
            "the same path segment more than 3 times;"
            " to leave such addresses out for good, add a pattern to excluded_patterns",
        ),
        (
            Trap.PATH_TOO_DEEP,
            "path_too_deep",
            "more than 32 path segments;"
            " to leave such addresses out for good, add a pattern to excluded_patterns",
        ),
        (
            Trap.QUERY_REPEAT,
            "query_repeat",
            "the same parameter, or the address in itself, more than 3 times, or more than 32"
            " parameters;"
            " to leave such addresses out for good, add a pattern to excluded_patterns",
        ),
        (
            Trap.CALENDAR,
            "calendar",
            "a calendar day before 1990 or more than 2 years ahead; to leave such "
            "addresses out for good, add a pattern to excluded_patterns",
        ),
        (
            Trap.SESSION_ID,
            "session_id",
            "the same page under many session ids; add their parameter to "
            "TRACKING_PARAM_NAMES, or a pattern to excluded_patterns",
        ),
        (
            Trap.HOST_BUDGET,
            "host_budget",
            "more addresses of this host than HOST_URL_BUDGET allows; raise it, or leave "
            "parts of the site out with excluded_patterns",
        ),
        (
            Trap.TOO_MANY_HOSTS,
            "too_many_hosts",
            "more hosts than MAX_HOSTS allows; raise it, or list the hosts of the source "
            "in allowed_domains",
        ),
        (
            Trap.URL_TOO_LONG,
            "url_too_long",
            "longer than 2,083 characters, which few servers accept",
        ),
    ],
)
def test_each_trap_is_told_with_what_may_be_done(trap, name, words):
    assert (str(trap), trap.words) == (name, words)


def test_there_are_no_other_traps():
    assert len(Trap) == 8
