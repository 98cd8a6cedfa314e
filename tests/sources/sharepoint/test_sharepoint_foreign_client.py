"""Office365-REST-Python-Client, a foreign client, reads libraries of the server of the tests."""

from urllib.parse import unquote

import pytest
from office365.runtime.client_request_exception import ClientRequestException
from office365.sharepoint.client_context import ClientContext

from tests.servers.sharepoint import SharepointServer, Site
from tests.sources.sharepoint.test_sharepoint_peer import ODD, signed_in


@pytest.fixture
def site(sharepoint: SharepointServer) -> Site:
    return sharepoint.tenant.site()


@pytest.fixture
def context(sharepoint: SharepointServer, site: Site) -> ClientContext:
    token = signed_in(sharepoint)
    answer = {"token_type": "Bearer", "access_token": token}
    return ClientContext(sharepoint.site_url(site)).with_access_token(lambda: answer)


def test_it_pages_through_the_items_of_a_library(sharepoint, site, context):
    library = site.library()
    for path in ("a.txt", "Reports/Q1.docx", *ODD):
        library.add(path, path)

    found = context.web.get_list("/sites/demo/Shared Documents")
    items = found.items.select(["Id", "FileRef", "UniqueId", "File/Length"]).expand(["File"])
    rows = items.get_all(page_size=2).execute_query()
    context.load(found).execute_query()

    assert [row.properties["Id"] for row in rows] == list(library.entries)
    assert {row.properties["FileRef"] for row in rows} == {
        entry.url for entry in library.entries.values()
    }
    assert found.properties["ItemCount"] == len(rows)
    assert len(sharepoint.asked("rest", "/items")) == 4
    assert {asked.token for asked in sharepoint.asked("rest")} == {"#1"}


@pytest.mark.parametrize("path", ODD)
def test_it_reads_files_by_path_and_by_id(site, context, path):
    library = site.library()
    entry = library.add(path, path)

    file = context.web.get_file_by_server_relative_path(entry.url)
    by_path = file.get_content().execute_query().value
    by_id = context.web.get_file_by_id(entry.unique_id).get_content().execute_query().value
    context.load(file).execute_query()

    assert by_path == by_id == path.encode()
    assert file.properties["Name"] == entry.name
    assert int(file.properties["Length"]) == len(by_id)
    assert file.properties["UniqueId"] == entry.unique_id


def test_it_reads_lists_by_title(site, context):
    tasks = site.list("Open Tasks", "Tasks")
    tasks.column("Owner", "User")
    tasks.column("Kinds", "MultiChoice")
    tasks.add(Title="O'Hara & ü", Owner=1, Kinds=["a", "b"])
    tasks.add(Title="Other", Owner=1, Kinds=[])

    found = context.web.lists.get_by_title("Open Tasks")
    rows = (
        found.items.filter("Title eq 'O''Hara %26 ü'")
        .select(["Title", "Owner/Title", "Kinds"])
        .expand(["Owner"])
        .get()
        .execute_query()
    )
    fields = found.fields.get().execute_query()

    assert [row.properties["Title"] for row in rows] == ["O'Hara & ü"]
    assert rows[0].properties["Owner"]["Title"] == "Ada Lovelace"
    assert {field.properties["InternalName"] for field in fields} >= {"Owner", "Kinds", "Title"}


def test_it_understands_refusals(sharepoint, site, context):
    site.library()
    sharepoint.tenant.threshold = -1

    for work, status in (
        (lambda: context.web.get_list("/sites/demo/Nowhere").get(), 404),
        (lambda: context.web.lists.get_by_title("Nowhere").get(), 404),
        (lambda: context.web.get_file_by_id("00000000-0000-0000-0000-000000000000").get(), 404),
        (
            lambda: context.web.get_list("Shared Documents").items.filter("FSObjType eq 0").get(),
            500,
        ),
    ):
        with pytest.raises(ClientRequestException) as caught:
            work().execute_query()
        assert caught.value.response.status_code == status
        assert caught.value.code.startswith("-")
        assert unquote(caught.value.message)
