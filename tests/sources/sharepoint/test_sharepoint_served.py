"""Listings by REST and by Graph from a real server: the same items, and no fault unseen."""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.library import LibraryItem, SourceType
from smartcrawl.sources.sharepoint.access import LibraryError, LibraryRefusedError
from smartcrawl.sources.sharepoint.graph import GraphApi
from smartcrawl.sources.sharepoint.rest import RestApi
from tests.servers.sharepoint import SharepointServer, Site, Text
from tests.sources.sharepoint.canned import Place
from tests.sources.sharepoint.kept_drive import KeptDrive
from tests.sources.sharepoint.loopback import LoopbackFetch, options_of

covers = pytest.mark.covers
APIS = ["rest", "graph"]


class Pass(NamedTuple):
    """One listing, read to its end."""

    listing: Any
    api: Any
    items: dict[str, LibraryItem]  #: by server relative URL
    fetch: LoopbackFetch

    @property
    def by_id(self) -> dict[str, LibraryItem]:
        return {item.unique_id: item for item in self.items.values()}

    @property
    def paths(self) -> set[str]:
        return {path.partition("/Shared Documents/")[2] for path in self.items}


@pytest.fixture
def site(sharepoint: SharepointServer) -> Site:
    return sharepoint.tenant.site("/sites/demo")


@pytest.fixture
def begin(sharepoint: SharepointServer, site: Site, tmp_path: Any) -> Callable[..., Pass]:
    """Return a function that lists a place by an API."""

    def listed(
        api: str,
        place: Any = None,
        known: KeptDrive | None = None,
        path: str = "",
        **more: Any,
    ):
        settings = sharepoint.settings if api == "rest" else sharepoint.graph_settings
        options = options_of(settings, tmp_path, **more)
        fetch = LoopbackFetch(sharepoint)
        place = (place or Place())._replace(
            site_url=sharepoint.origin("rest") + (path or site.path)
        )
        if api == "rest":
            found: Any = RestApi(place, options, fetch)
        else:
            found = GraphApi(place, options, fetch, known=known)
        listing = found.listing()
        items = {one.server_relative_url: one for page in listing.pages() for one in page}
        return Pass(listing, found, items, fetch)

    return listed


@pytest.fixture
def library(site: Site) -> Any:
    library = site.library()
    library.add("Plan.docx", b"plan", modified=1_700_000_000)
    library.add("Reports/2024/Q1.docx", b"first quarter")
    library.add("Reports/50% & #1 ünï.txt", b"")
    library.add("Other/O'Neil.pdf", b"pdf")
    return library


@covers("R3-50", "R3-36", "R3-31")
def test_both_apis_list_the_same_items(begin, library):
    rest, graph = begin("rest"), begin("graph")

    assert rest.listing.problems == graph.listing.problems == []
    assert rest.items == graph.items
    assert rest.paths == {
        "Plan.docx", "Reports/2024/Q1.docx", "Reports/50% & #1 ünï.txt", "Other/O'Neil.pdf"
    }  # fmt: skip
    assert rest.items["/sites/demo/Shared Documents/Plan.docx"].file_size == 4
    assert rest.listing.root == graph.listing.root == "/sites/demo/Shared Documents"


@pytest.mark.parametrize("api", APIS)
def test_the_bytes_of_a_file_are_had_by_its_id(sharepoint, begin, library, api):
    found = begin(api)
    item = next(one for one in found.items.values() if one.filename == "Q1.docx")
    library.rename("Reports/2024/Q1.docx", "Q2.docx")

    request = found.api.content_request(item)
    answer = found.fetch(request)
    if api == "graph":
        assert answer.status == 302
        request = found.api.followed(request, answer.headers["location"])
        assert "Authorization" not in request.headers
        answer = found.fetch(request)

    assert (answer.status, answer.body) == (200, b"first quarter")
    sharepoint.issuer.revoke()
    request = found.api.content_request(item)
    assert found.fetch(request).status == 401
    assert found.fetch(found.api.renewed(request)).status in (200, 302)


@pytest.mark.parametrize("api", APIS)
def test_a_library_with_signs_of_urls_in_its_path_is_found(begin, site, api):
    site.library("Odd", "50% #1 & more").add("a.txt", b"a")

    found = begin(api, Place(url_part="/50% #1 & more"))

    assert found.listing.problems == []
    assert list(found.items) == ["/sites/demo/50% #1 & more/a.txt"]


@pytest.mark.parametrize("api", APIS)
def test_a_filter_lists_a_part(begin, library, api):
    library.column("Status", "Choice", choices=("Active", "Done"), indexed=True)
    library.add("active.txt", b"a", Status="Active")
    library.add("done.txt", b"d", Status="Done")
    name = "Status" if api == "rest" else "fields/Status"

    found = begin(api, Place(filter=f"{name} eq 'Active'"))

    assert (found.listing.problems, found.paths) == ([], {"active.txt"})


@covers("R3-57")
def test_both_apis_give_the_same_content_of_lists(begin, site):
    tasks = site.list("Open tasks", "Tasks")
    tasks.column("Owner", "User")
    tasks.column("Details", "Note", rich=True)
    tasks.column("Hours", "Number")
    tasks.column("Link", "URL", title="Web page")
    tasks.add(Title="Sort", Owner=1, Details="<b>all</b>", Hours=2.5)
    tasks.add(Title="Größe")
    place = Place(SourceType.LISTS, url_part="", list_name="Open tasks")

    rest, graph = begin("rest", place), begin("graph", place)

    assert rest.listing.problems == graph.listing.problems == []
    assert list(rest.items) == ["/sites/demo/Lists/Tasks/1.md", "/sites/demo/Lists/Tasks/2.md"]
    content = rest.items["/sites/demo/Lists/Tasks/1.md"].content
    assert '"Owner":"Ada Lovelace","Details":"<b>all</b>","Hours":2.5,"ID":1}' in content
    assert '["Details","Details","html"],["Hours","Hours","Number"],' in content
    assert '["Link","Web page","URL"]' in content
    assert graph.items == rest.items


@covers("R3-58")
@pytest.mark.parametrize("api", APIS)
def test_site_pages_come_with_their_text(begin, site, api):
    site.pages().page("Home.aspx", "Welcome", [[Text("<p>Hello</p>")]])

    found = begin(api, Place(SourceType.SITEPAGES, url_part="/SitePages"))

    (item,) = found.items.values()
    assert found.listing.problems == []
    assert item.server_relative_url == "/sites/demo/SitePages/Home.aspx"
    assert item.content.startswith('{"title":"Welcome","canvas":"<div>')
    assert "<p>Hello</p>" in item.content


# Changes


def again(begin, *passes: Pass, **more: Any) -> Pass:
    """List the changes since some passes, the first of which listed all."""
    known = None
    for one in passes:
        known = KeptDrive(one.listing.update, known)
    return begin("graph", known=known, **more)


def names(found: Pass) -> tuple[set[str], int]:
    """The names of the files that a pass stores, and how many ids it drops."""
    return {file.name for file in found.listing.update.files}, len(found.listing.update.gone)


def test_a_delta_without_changes_lists_all_by_few_requests(begin, library):
    first = begin("graph")

    second = again(begin, first)

    assert (second.listing.problems, second.items) == ([], first.items)
    assert len(second.fetch.requests) == 4
    assert (first.listing.update.is_whole, second.listing.update.is_whole) == (True, False)
    assert names(second) == (set(), 0)
    assert second.listing.root == "/sites/demo/Shared Documents"


@covers("R3-102", "R3-103")
def test_a_renamed_folder_changes_the_items_below_it(begin, library):
    first = begin("graph")
    library.rename("Reports", "Berichte")

    second = again(begin, first)

    assert second.listing.problems == []
    assert {"Berichte/2024/Q1.docx", "Berichte/50% & #1 ünï.txt"} < second.paths
    assert second.items == begin("rest").items
    assert names(second) == (set(), 0)


def test_folders_that_move_together_are_followed_once_each(begin, library):
    first = begin("graph")
    library.move("Reports/2024", "Other")
    library.rename("Other", "Else")
    library.rename("Else/2024", "2025")
    library.rename("Else/2025/Q1.docx", "Q2.docx")

    second = again(begin, first)

    assert second.listing.problems == []
    assert second.items == begin("rest").items
    assert names(second) == ({"Q2.docx"}, 0)


@pytest.mark.parametrize("names_children", [False, True])
def test_a_deleted_folder_removes_the_items_below_it(sharepoint, begin, library, names_children):
    sharepoint.tenant.delta_names_deleted_children = names_children
    first = begin("graph")
    library.delete("Reports")
    library.add("new.txt", b"n")

    second = again(begin, first)
    third = again(begin, first, second)

    assert (second.listing.problems, second.paths) == (
        [], {"Plan.docx", "Other/O'Neil.pdf", "new.txt"},
    )  # fmt: skip
    assert names(second)[0] == {"new.txt"}
    assert len(set(second.listing.update.gone)) == 4, "two folders and two files"
    assert (third.listing.problems, third.items) == ([], second.items)


@pytest.mark.parametrize("names_children", [False, True])
def test_a_restored_folder_has_its_items_again(sharepoint, begin, library, names_children):
    sharepoint.tenant.delta_names_deleted_children = names_children
    first = begin("graph")
    gone = library.delete("Reports/2024")
    second = again(begin, first)
    library.restore_entry(gone)

    third = again(begin, first, second)

    assert third.listing.problems == []
    assert third.items == begin("rest").items


def test_an_item_that_comes_twice_counts_as_it_came_last(sharepoint, begin, library):
    sharepoint.tenant.delta_twice = True
    first, listed = begin("graph"), begin("rest")
    library.rename("Plan.docx", "Scheme.docx")

    second = again(begin, first)

    assert len(first.by_id) == 4
    assert set(first.by_id.values()) == set(listed.items.values())
    assert "Scheme.docx" in second.paths
    assert "Plan.docx" not in second.paths
    assert names(second) == ({"Scheme.docx"}, 0)


@pytest.mark.parametrize("status", ["400", "404", "410"])
def test_a_forgotten_delta_is_a_whole_listing(sharepoint, begin, library, status):
    first = begin("graph")
    library.delete("Plan.docx")
    if status == "410":
        library.generation += 1
    else:
        sharepoint.fail(status, "delta")

    second = again(begin, first)

    assert second.listing.problems == []
    assert second.listing.update.is_whole
    assert second.items == begin("rest").items
    assert "has forgotten the last listing" in second.listing.notes[0]


def test_a_token_is_forgotten_on_a_later_page(sharepoint, begin, library):
    first = begin("graph")
    for number in range(5):
        library.add(f"more{number}.txt", b"m")
    sharepoint.tenant.delta_page = 2
    again_of = KeptDrive(first.listing.update)
    link = again_of.token.delta.replace("$top=5000", "$top=2")
    again_of.token = again_of.token._replace(delta=link)
    fault = sharepoint.fail("410", "delta", nth=2)

    second = begin("graph", known=again_of)

    assert fault.hit == 1
    assert second.listing.problems == []
    assert second.listing.update.is_whole
    assert second.items == begin("rest").items


def _without_new(payload: dict[str, Any]) -> None:
    payload["value"] = [one for one in payload["value"] if one.get("name") != "New"]


@pytest.mark.parametrize("is_folder", [False, True])
def test_an_unknown_folder_among_changes_is_a_whole_listing(sharepoint, begin, library, is_folder):
    first = begin("graph")
    if is_folder:  # else the items below it would look removed
        library.relocate("Reports/2024", "New/2024")
    else:
        library.add("New/new.txt", b"n")
    sharepoint.fail("edit", "delta", edit=_without_new)

    second = again(begin, first)

    assert second.listing.problems == []
    assert second.listing.update.is_whole
    assert second.items == begin("rest").items
    assert "a folder of its changes is unknown" in second.listing.notes[0]


def test_a_token_of_another_library_is_not_used(begin, site, library):
    first = begin("graph")
    other = site.library("Other", "Other Documents")
    other.add("else.txt", b"e")

    second = again(begin, first, place=Place(url_part="/Other Documents"))

    assert second.listing.problems == []
    assert list(second.items) == ["/sites/demo/Other Documents/else.txt"]
    assert second.listing.update.is_whole
    assert not [one for one in second.fetch.requests if "token=" in one.url]


def test_a_token_of_another_app_is_not_used(begin, library):
    first = begin("graph")
    known = KeptDrive(first.listing.update)
    known.token = known.token._replace(place=known.token.place.replace("demo", "other"))

    second = begin("graph", known=known)

    assert (second.items, second.listing.update.is_whole) == (first.items, True)


def test_a_library_that_was_made_anew_is_listed_whole(begin, site, library):
    first = begin("graph")
    site.lists.remove(library)
    site.library().add("fresh.txt", b"f")

    second = again(begin, first)

    assert second.listing.problems == []
    assert second.paths == {"fresh.txt"}
    assert second.listing.update.is_whole


def test_an_incomplete_delta_stores_nothing(sharepoint, begin, library):
    first = begin("graph")
    library.update("Plan.docx", b"other")
    sharepoint.fail("broken", "delta")

    second = again(begin, first)

    assert second.listing.problems
    assert second.listing.update is None


# Faults

FAULTS = ["403", "404", "500", "503", "429", "html", "cut", "half", "empty", "closed", "foreign",
          "circle", "broken", "redirect"]  # fmt: skip


@pytest.mark.long(but=4)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", APIS)
def test_every_page_with_every_fault_is_a_problem(sharepoint, begin, library, api, fault):
    """A fault on the last page that concerns a next link cannot strike: there is none."""
    pattern = "/items" if api == "rest" else "/delta"
    whole = begin(api, SHAREPOINT_PAGE_SIZE="3")
    pages = len(sharepoint.asked(api, pattern))
    assert pages >= 3
    for page in range(1, pages + 1 - (fault in ("foreign", "circle"))):
        scripted = sharepoint.fail(fault, pattern, nth=page, place=api)

        found = begin(api, SHAREPOINT_PAGE_SIZE="3")

        assert scripted.hit == 1
        assert found.listing.problems, (page, fault)
        assert found.items.items() <= whole.items.items()
        assert found.listing.update is None
        sharepoint.faults.clear()


@pytest.mark.parametrize("api", APIS)
def test_an_expired_token_is_renewed_once(sharepoint, begin, library, api):
    sharepoint.fail("expired", "/items" if api == "rest" else "/delta")

    found = begin(api)

    assert (found.listing.problems, len(found.items)) == ([], 4)
    assert len(sharepoint.issuer.tokens) == 2


@pytest.mark.parametrize("api", APIS)
def test_a_token_that_stays_refused_is_a_problem(sharepoint, begin, library, api):
    sharepoint.fail("expired", times=None, place=api)

    found = begin(api)

    assert "the token was refused" in found.listing.problems[0]
    assert len(sharepoint.asked(api)) == 2


def test_hidden_items_are_a_shortfall(begin, library):
    library.count_offset = 3

    assert begin("rest").listing.shortfall == 3


def test_the_list_view_threshold_has_its_remedy(sharepoint, begin, library):
    library.column("Status")
    sharepoint.tenant.threshold = 1

    found = begin("rest", Place(filter="Status eq 'Active'"))

    assert "index the column that the filter names" in found.listing.problems[0]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("site", "correct site_url, sharepoint_url_part or list_name"),
        ("library", "sharepoint_url_part"),
        ("right", "Sites.Selected"),
    ],
)
def test_what_cannot_be_read_has_its_remedy(begin, site, library, api, change, words):
    url = begin(api).listing.problems == [] and site.path
    match change:
        case "site":
            site.path = "/sites/elsewhere"
        case "library":
            library.url_name = "Elsewhere"
        case "right":
            site.allowed = False

    found = begin(api, path=url)

    assert words in found.listing.problems[0]
    assert found.items == {}


# Sign-in


def sign_in(sharepoint, library, tmp_path, api: str = "graph", **more: str) -> str:
    """Return the problem of a listing."""
    settings = sharepoint.graph_settings if api == "graph" else sharepoint.settings
    options = options_of(settings | more, tmp_path)
    place = Place(site_url=sharepoint.site_url(library.site))
    kind: Any = GraphApi if api == "graph" else RestApi
    listing = kind(place, options, LoopbackFetch(sharepoint)).listing()
    items = [item for page in listing.pages() for item in page]
    assert items == []
    (problem,) = listing.problems
    return problem


def test_each_wrong_credential_has_its_remedy(sharepoint, library, tmp_path):
    sharepoint.issuer.secrets["old-secret"] = False
    other = sharepoint.new_certificate("other.pem")
    cases = [
        ({"SHAREPOINT_TENANT": "other.example"}, "check SHAREPOINT_TENANT"),
        ({"SHAREPOINT_CLIENT_ID": "00000000-2222-3333-4444-555555555555"}, "CLIENT_ID"),
        ({"SHAREPOINT_CLIENT_SECRET": "wrong"}, "the secret is wrong"),
        ({"SHAREPOINT_CLIENT_SECRET": "old-secret"}, "the secret has expired: make a new one"),
        (
            {"SHAREPOINT_CLIENT_SECRET": "", "SHAREPOINT_CERTIFICATE": str(other)},
            "the certificate is unknown or has expired",
        ),
    ]
    for more, words in cases:
        problem = sign_in(sharepoint, library, tmp_path, **more)
        assert words in problem, problem


def test_a_secret_with_rest_has_its_remedy(sharepoint, library, tmp_path):
    secret = sharepoint.graph_settings["SHAREPOINT_CLIENT_SECRET"]
    more = {"SHAREPOINT_CERTIFICATE": "", "SHAREPOINT_CLIENT_SECRET": secret}

    problem = sign_in(sharepoint, library, tmp_path, "rest", **more)

    assert "Unsupported app only token" in problem or "HTTP status 401" in problem
    assert "set SHAREPOINT_CERTIFICATE, or SHAREPOINT_API=graph for a secret" in problem
    assert len(sharepoint.issuer.tokens) == 1


@pytest.mark.parametrize("fault", ["503", "429", "html", "closed", "empty", "redirect", "404"])
def test_a_sign_in_that_fails_is_a_problem(sharepoint, library, tmp_path, fault):
    for pattern in ("openid-configuration", "/token"):
        sharepoint.fail(fault, pattern, times=None, place="signin")
        assert sign_in(sharepoint, library, tmp_path)
        sharepoint.faults.clear()


def test_no_secret_is_logged_or_sent_elsewhere(sharepoint, begin, library, caplog):
    caplog.set_level(logging.DEBUG)
    for api in APIS:
        found = begin(api)
        assert found.listing.problems == []
        for request in found.fetch.requests:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            assert bool(token) is not request.url.startswith(sharepoint.login_url)
    secrets = [token.text for token in sharepoint.issuer.tokens]
    secrets.append(sharepoint.graph_settings["SHAREPOINT_CLIENT_SECRET"])
    assert len(secrets) == 3
    assert not [secret for secret in secrets if secret in caplog.text]


def test_the_token_goes_to_no_other_origin(sharepoint, begin, library):
    found = begin("rest")
    with pytest.raises(LibraryRefusedError, match="gets no token"):
        found.api._client.answer("https://evil.example/x")
    assert not issubclass(SettingError, LibraryError)
