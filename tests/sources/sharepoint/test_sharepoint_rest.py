"""Listings and downloads by SharePoint's REST API, with canned answers."""

import json
import re
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.sources.sharepoint.access import (
    LibraryAnswer,
    LibraryRefusedError,
    LibraryRequest,
    LibraryUnreachableError,
)
from smartcrawl.sources.sharepoint.payloads import (
    GraphColumn,
    GraphDriveItem,
    GraphListItem,
    PayloadError,
    RestField,
    RestItem,
    library_page,
    rest_list_fields,
    sharepoint_error_words,
    sharepoint_json,
    sharepoint_payload,
)
from smartcrawl.sources.sharepoint.rest import RestApi, RestListing
from tests.sources.sharepoint.canned import (
    LIBRARY,
    LIST_ID,
    SECRET,
    SITE,
    Canned,
    Library,
    Place,
    answer,
    guid,
    options,
    rest_file,
    rest_folder,
)

covers = pytest.mark.covers
FIVE = [rest_file(1), rest_folder(2, "Reports"), rest_file(3), rest_file(4), rest_file(5)]


FILES = Place()


def read(library: Any, place: Place = FILES) -> tuple[RestListing, list[LibraryItem], Canned]:
    fetch = Canned(library)
    listing = RestApi(place, options(), fetch).listing()
    items = [item for page in listing.pages() for item in page]
    return listing, items, fetch


@covers("R3-36", "R3-50")
def test_a_library_is_listed_by_its_path_and_folders_are_dropped():
    listing, items, fetch = read(Library(FIVE))

    assert [item.listitem_id for item in items] == [1, 3, 4, 5]
    assert items[0] == LibraryItem(
        listitem_id=1,
        unique_id=guid(1),
        filename="1.txt",
        server_relative_url=f"{LIBRARY}/1.txt",
        file_size=10,
        last_modified=1_705_314_600_000_000,
        url="https://contoso.example/sites/demo/Shared%20Documents/1.txt",
    )
    assert (listing.problems, listing.notes, listing.shortfall) == ([], [], 0)
    assert listing.root == LIBRARY
    assert len(fetch.asked) == 1 + 3
    assert len(fetch.requests) == 2 + 1 + 3  # the sign-in has two
    first = urlsplit(fetch.asked[1].url)
    assert first.path == "/sites/demo/_api/web/GetList('/sites/demo/Shared%20Documents')/items"
    query = {name: values[0] for name, values in parse_qs(first.query).items()}
    assert query == {
        "$select": "Id,UniqueId,FileLeafRef,FileRef,FSObjType,Modified,File/Length",
        "$expand": "File",
        "$top": "5000",
    }


def test_a_filter_is_sent_as_written_and_nothing_is_counted():
    """ATT-27."""
    place = Place(filter="Status eq 'A & B' and Größe gt 1")
    listing, items, fetch = read(Library(FIVE, count=90), place)

    assert parse_qs(urlsplit(fetch.asked[1].url).query)["$filter"] == [place.filter]
    assert (len(items), listing.problems, listing.shortfall) == (4, [], None)


@pytest.mark.parametrize(("before", "after", "shortfall"), [(7, 7, 2), (7, 6, 1), (7, 3, 0)])
def test_a_shortfall_is_counted_against_the_smaller_count(before: int, after: int, shortfall: int):
    library = Library(FIVE, count=before)

    def changing(path: str, query: dict[str, str]) -> LibraryAnswer:
        if query.get("$select") == "ItemCount":
            return answer({"ItemCount": after})
        return library(path, query)

    listing, _, _ = read(changing)

    assert (listing.shortfall, listing.problems) == (shortfall, [])


def test_the_next_link_may_name_the_list_by_its_id():
    library = Library(FIVE)
    by_id = f"{SITE}/_api/Web/Lists(guid'{LIST_ID.upper()}')/items?$skiptoken=2"
    library.faults[1] = lambda body: answer(body | {"odata.nextLink": by_id})

    listing, items, _ = read(library)

    assert (listing.problems, len(items)) == ([], 4)


# Faults: an error is never an empty list


def cut(body: dict[str, Any]) -> LibraryAnswer:
    return answer(json.dumps(body).encode()[:-20])


def raising(error: Exception) -> Any:
    def fault(body: dict[str, Any]) -> LibraryAnswer:
        raise error

    return fault


def throttled(body: dict[str, Any]) -> LibraryAnswer:
    code = "-2147024860, Microsoft.SharePoint.SPQueryThrottledException"
    text = {"lang": "en-US", "value": "The attempted operation is prohibited."}
    return answer({"odata.error": {"code": code, "message": text}}, 500)


def linked(link: Any) -> Any:
    return lambda body: answer(body | {"odata.nextLink": link})


HERE = "https://contoso.example/sites/demo/_api/web/GetList('/sites/demo/Shared%20Documents')/items"
FAULTS: dict[str, tuple[Any, str]] = {
    "403": (lambda body: answer({}, 403), "lacks the right to read it: grant it Sites.Selected"),
    "404": (lambda body: answer({}, 404), "correct site_url, sharepoint_url_part or list_name"),
    "500": (lambda body: answer(b"oops", 500), "HTTP status 500; .*crawl again later"),
    "503": (lambda body: answer(b"", 503), "crawl again later"),
    "429": (lambda body: answer({}, 429), "crawl again later"),
    "302": (lambda body: answer(b"", 302, location="https://login.other/x"), "login.other"),
    "401": (lambda body: answer({}, 401), "the token was refused: check SHAREPOINT_TENANT"),
    "400": (lambda body: answer({}, 400), "check filter"),
    "threshold": (throttled, "SPQueryThrottledException.*index the column"),
    "html": (lambda body: answer(b"<!DOCTYPE html><p>Sign in"), "HTML instead of JSON"),
    "cut": (cut, "not complete JSON"),
    "empty": (lambda body: answer(b""), "not complete JSON"),
    "204": (lambda body: answer(b"", 204), "HTTP status 204"),
    "no list": (lambda body: answer({"values": []}), "no list named value"),
    "array": (lambda body: answer([]), "not a JSON object"),
    "unreachable": (raising(LibraryUnreachableError("no answer: later")), "no answer: later"),
    "foreign link": (linked("https://evil.example/x?y=1"), "leads to https://evil.example"),
    "http link": (linked(HERE.replace("https", "http")), "leads to http://contoso.example"),
    "other list": (linked(f"{SITE}/_api/web/GetList('/b')/items?a"), "leads to another list"),
    "no text": (linked(7), "link to the next page is not a text"),
    "no item": (
        lambda body: answer(body | {"value": [{"Id": 77, "FileRef": f"{LIBRARY}/x.txt"}]}),
        r"item 1 of page \d \(/sites/demo/Shared Documents/x.txt\) cannot be read",
    ),
    "odd item": (lambda body: answer(body | {"value": [None]}), "cannot be read"),
    "no length": (
        lambda body: answer(body | {"value": [rest_file(77, File=None)]}),
        "File: a file has no length",
    ),
    "elsewhere": (
        lambda body: answer(body | {"value": [rest_file(77, folder="/sites/other")]}),
        "FileRef: it is not below",
    ),
}


@covers("R3-68")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("page", [1, 2, 3])
def test_each_fault_of_each_page_is_a_problem_and_loses_no_other_page(fault: str, page: int):
    library = Library(FIVE)
    library.faults[page], words = FAULTS[fault]

    listing, items, fetch = read(library)

    assert len(listing.problems) == 1
    assert listing.problems[0].startswith(f"{SITE}/Shared Documents (")
    assert re.search(words, listing.problems[0])
    before = {1: [], 2: [1], 3: [1, 3, 4]}[page]
    assert [item.listitem_id for item in items][: len(before)] == before
    assert not any("evil" in one.url for one in fetch.requests)


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_library_that_cannot_be_read_is_a_problem(status: int):
    listing, items, _ = read(lambda path, query: answer({}, status))

    assert (len(listing.problems), items) == (1, [])


def test_a_link_in_a_circle_is_a_problem():
    library = Library(FIVE)
    library.faults[2] = linked(f"{HERE}?$skiptoken=2")

    listing, _, fetch = read(library)

    assert "leads to a page that was read" in listing.problems[0]
    assert len(fetch.asked) == 3


def test_links_without_end_come_to_an_end():
    def endless(path: str, query: dict[str, str]) -> LibraryAnswer:
        if not path.endswith("/items"):
            return Library([])(path, query)
        link = f"{HERE}?$skiptoken={int(query.get('$skiptoken', '1')) + 1}"
        return answer({"value": [], "odata.nextLink": link})

    listing, _, fetch = read(endless)

    assert "has more than 1,000 pages" in listing.problems[0]
    assert len(fetch.asked) == 1_001


def test_problems_are_named_up_to_a_hundred_and_then_counted():
    listing, items, _ = read(Library([{"Id": n} for n in range(150)], size=150))

    assert (len(listing.problems), items) == (101, [])
    assert "(50 more problems like these)" in listing.problems[-1]


def test_two_items_with_one_id_are_a_problem():
    listing, items, _ = read(Library([rest_file(1), rest_file(2, UniqueId=guid(1).upper())]))

    assert "UniqueId: item 1 has it, too" in listing.problems[0]
    assert len(items) == 1


# Lists and pages

FIELDS = [
    ("Title", "Title", "Text", False),
    ("Status", "State", "Choice", False),
    ("Owner", "Owner_x0020_Name", "User", False),
    ("Team", "Team", "UserMulti", False),
    ("Topic", "Topic", "Lookup", False),
    ("Hours", "Hours", "Number", False),
    ("Web page", "WebPage", "URL", False),
    ("Secret", "Secret", "Text", True),
    ("Edit", "Edit", "Computed", False),
]


def fields_of_rest(fields: Any = FIELDS) -> list[dict[str, Any]]:
    return [
        {
            "InternalName": key,
            "EntityPropertyName": key,
            "Title": name,
            "TypeAsString": kind,
            "Hidden": hidden,
            "ReadOnlyField": kind == "Computed",
        }
        | ({"LookupField": "Title"} if kind == "Lookup" else {})
        for name, key, kind, hidden in fields
    ]


@covers("R3-57")
def test_an_item_of_a_list_has_its_visible_fields_with_people_by_name():
    root = "/sites/demo/Lists/Tasks"
    library = Library([
        rest_file(3, "3_.000", root, File=None)
        | {
            "Title": "Größe",
            "State": "Active",
            "Owner_x0020_Name": {"Title": "Ann", "odata.id": "x"},
            "Team": [{"Title": "Ann"}, {"Title": "Bob"}],
            "Topic": None,
            "Hours": 2.0,
            "WebPage": {"Description": "d", "Url": "https://a.example/", "odata.type": "u"},
        }
    ])  # fmt: skip
    library.root, library.fields = root, fields_of_rest()
    place = Place(SourceType.LISTS, url_part="", list_name="Ann's tasks")

    listing, (item,), fetch = read(library, place)

    assert listing.problems == []
    assert fetch.asked[0].url.startswith(f"{SITE}/_api/web/Lists/GetByTitle('Ann''s%20tasks')?")
    query = parse_qs(urlsplit(fetch.asked[2].url).query)
    assert query["$select"][0].endswith(
        "Modified,Title,State,Owner_x0020_Name/Title,Team/Title,Topic/Title,Hours,WebPage"
    )
    assert query["$expand"] == ["Owner_x0020_Name,Team,Topic"]
    link = "https://contoso.example/sites/demo/Lists/Tasks/DispForm.aspx?ID=3"
    assert (item.filename, item.server_relative_url, item.url) == ("3.md", f"{root}/3.md", link)
    assert item.content is not None
    assert item.file_size == len(item.content.encode())
    assert '"Hours":2,' in item.content
    assert json.loads(item.content) == {
        "list": "Ann's tasks",
        "columns": [
            ["Title", "Title", "Text"],
            ["State", "Status", "Choice"],
            ["Owner_x0020_Name", "Owner", "User"],
            ["Team", "Team", "UserMulti"],
            ["Topic", "Topic", "Lookup"],
            ["Hours", "Hours", "Number"],
            ["WebPage", "Web page", "URL"],
        ],
        "fields": {
            "ID": 3,
            "Title": "Größe",
            "State": "Active",
            "Owner_x0020_Name": "Ann",
            "Team": ["Ann", "Bob"],
            "Hours": 2,
            "WebPage": {"Description": "d", "Url": "https://a.example/"},
        },
    }


def test_people_beyond_the_limit_of_a_query_are_left_out_with_a_note():
    library = Library([])
    library.fields = fields_of_rest([(f"P{n}", f"P{n}", "User", False) for n in range(14)])
    listing, _, fetch = read(library, Place(SourceType.LISTS, url_part="", list_name="Tasks"))

    assert parse_qs(urlsplit(fetch.asked[2].url).query)["$expand"][0].count(",") == 11
    assert listing.notes[0].endswith("left out: P12, P13")


@covers("R3-58")
def test_a_page_has_its_text_and_comes_in_small_answers():
    root = "/sites/demo/SitePages"
    more = {"Title": "Home", "CanvasContent1": "<div>Hi</div>"}
    library = Library([rest_file(7, "Home.aspx", root, File=None) | more])
    library.root = root
    names = [*more, "WikiField", "Other"]
    library.fields = fields_of_rest([(name, name, "Note", True) for name in names])

    listing, (item,), fetch = read(library, Place(SourceType.SITEPAGES, url_part="/SitePages"))

    assert listing.problems == []
    query = parse_qs(urlsplit(fetch.asked[2].url).query)
    assert query["$top"] == ["200"]
    assert query["$select"][0].partition("Modified,")[2] == ",".join([*more, "WikiField"])
    assert item.content is not None
    page = {"title": "Home", "canvas": "<div>Hi</div>", "layout": None}
    assert json.loads(item.content) == page
    assert (item.filename, item.file_type) == ("Home.aspx", "aspx")
    assert item.file_size == len(item.content.encode())


# Content


def test_content_is_asked_for_by_id_and_a_refused_token_is_renewed():
    fetch = Canned(Library(FIVE))
    api = RestApi(Place(), options(), fetch)
    (item, *_), *_ = api.listing().pages()

    request = api.content_request(item)
    renewed = api.renewed(request)

    assert request.url == f"{SITE}/_api/web/GetFileById('{guid(1)}')/$value"
    assert request.headers["Authorization"] == "Bearer token-1"
    assert renewed.headers["Authorization"] == "Bearer token-2"
    assert renewed.url == request.url
    with pytest.raises(LibraryRefusedError, match=r"redirects to https://evil\.example: check"):
        api.followed(request, "https://evil.example/a?secret=1")


# Parsing

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from([
    "Id", "UniqueId", "FileLeafRef", "FileRef", "FSObjType", "Modified", "File", "id", "name",
    "value", "error", "odata.error", "message", "@odata.nextLink", "sharepointIds", "fields",
    "lastModifiedDateTime", "deleted", "InternalName", "Title", "Hidden", "hidden",
])  # fmt: skip
OBJECTS = st.dictionaries(KEYS, JSON | st.sampled_from([guid(1), "2024-01-15T10:30:00Z", "/a", 1]))
MODELS = [RestItem, RestField, GraphDriveItem, GraphListItem, GraphColumn]


@given(st.sampled_from(MODELS), OBJECTS | JSON)
def test_arbitrary_json_is_parsed_or_refused(model: Any, value: object):
    with suppress(PayloadError):
        assert isinstance(sharepoint_payload(model, value), model)


@given(st.binary() | OBJECTS.map(lambda value: json.dumps(value).encode()))
def test_an_arbitrary_body_is_parsed_or_refused(body: bytes):
    code, message = sharepoint_error_words(body)
    assert isinstance(code, str)
    assert isinstance(message, str)
    for parse in (sharepoint_json, library_page):
        with suppress(PayloadError):
            assert parse(body) is not None


@settings(max_examples=40)
@given(st.lists(OBJECTS | JSON, max_size=3))
def test_a_listing_of_arbitrary_items_names_each_that_it_cannot_read(items: list[Any]):
    def sent(path: str, query: dict[str, str]) -> LibraryAnswer:
        if path.endswith("/items"):
            return answer(json.dumps({"value": items}).encode())
        return Library([])(path, query)

    listing, found, _ = read(sent)

    assert len(found) + len(listing.problems) >= min(1, len(items))


def test_requests_and_options_show_no_secret():
    request = LibraryRequest(f"{SITE}/a?tempauth=t0ken", {"Authorization": "Bearer x"}, body=b"y")

    shown = repr(request) + repr(options(certificate_password="pw1")) + repr(answer({"a": "tok"}))
    assert f"<GET {SITE}/a>" in shown
    assert not any(word in shown for word in ("t0ken", "Bearer", SECRET, "pw1", 'tok"'))


@pytest.mark.parametrize(
    ("kind", "lookup", "shown"),
    [
        ("User", None, "Title"),
        ("UserMulti", "ImnName", "Title"),
        ("Lookup", "Code", "Code"),
        ("LookupMulti", None, "Id"),
        ("Lookup", "", "Id"),
        ("Text", "Code", ""),
    ],
)
def test_a_lookup_shows_the_field_that_it_names_and_else_the_number(
    kind: str, lookup: str | None, shown: str
):
    field = RestField.model_validate({
        "InternalName": "A", "EntityPropertyName": "A", "Title": "A", "TypeAsString": kind,
        "Hidden": False, "ReadOnlyField": False, "LookupField": lookup,
    })  # fmt: skip

    assert [one.inner for one in rest_list_fields([field])] == [shown]
