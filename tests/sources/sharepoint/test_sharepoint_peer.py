"""The server of the tests answers as SharePoint, Graph and their sign-in do."""

import re
import socket
from datetime import timedelta
from functools import partial
from typing import Any

import msal
import pytest
import requests
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from msal.oauth2cli.assertion import JwtAssertionCreator as AssertionCreator

from tests.servers.sharepoint import Library, SharepointServer, Site, Text, WebPart

ITEMS = "?$select=Id,UniqueId,FileLeafRef,FileRef,File/Length,Modified&$expand=File&$top="
ODD = ("it's 100% #1 + & ü.md", "ملف 😀.txt", "a b/c's #2%20.txt")


@pytest.fixture
def site(sharepoint: SharepointServer) -> Site:
    return sharepoint.tenant.site()


@pytest.fixture
def library(site: Site) -> Library:
    library = site.library()
    for path in ("a.txt", "Reports/Q1.docx", "Reports/Q2.docx", *ODD):
        library.add(path, path)
    return library


def session(sharepoint: SharepointServer) -> requests.Session:
    made = requests.Session()
    made.trust_env, made.verify = False, str(sharepoint.ca_file)
    made.request = partial(made.request, timeout=30)  # msal and requests wait for ever
    return made


def app(sharepoint: SharepointServer, credential: Any, tenant: str = "") -> Any:
    return msal.ConfidentialClientApplication(
        sharepoint.issuer.client_id,
        authority=f"{sharepoint.login_url}/{tenant or sharepoint.tenant.id}",
        instance_discovery=False,
        client_credential=credential,
        http_client=session(sharepoint),
    )


def of_certificate(file: Any) -> dict[str, str]:
    text = file.read_text()
    return {"private_key": text, "public_certificate": text}


def signed_in(sharepoint: SharepointServer, place: str = "rest", secret: str = "") -> str:
    """Return a token as msal gets it; by certificate unless there is a secret."""
    assert sharepoint.settings  # it registers the certificate
    credential = secret or of_certificate(sharepoint.certificate)
    resource = "https://graph.microsoft.com" if place == "graph" else sharepoint.origin("rest")
    return app(sharepoint, credential).acquire_token_for_client([f"{resource}/.default"])[
        "access_token"
    ]


class Reader:
    """Asks with one token."""

    def __init__(self, sharepoint: SharepointServer, place: str = "rest", secret: str = "") -> None:
        self.session = session(sharepoint)
        token = signed_in(sharepoint, place, secret)
        self.headers = {"Authorization": f"Bearer {token}"}
        self.headers["Accept"] = "application/json;odata=nometadata"
        self.base = sharepoint.graph_url

    def get(self, url: str, **headers: str) -> requests.Response:
        whole = url if "://" in url else self.base + url
        return self.session.get(whole, headers=self.headers | headers, allow_redirects=False)

    def json(self, url: str, status: int = 200, **headers: str) -> Any:
        answer = self.get(url, **headers)
        assert answer.status_code == status, answer.text
        return answer.json()


@pytest.fixture
def rest(sharepoint: SharepointServer, site: Site) -> Reader:
    reader = Reader(sharepoint)
    reader.base = sharepoint.site_url(site) + "/_api/web/"
    return reader


@pytest.fixture
def graph(sharepoint: SharepointServer, site: Site) -> Reader:
    return Reader(sharepoint, "graph", "right-secret")


def everything(rest: Reader, most: int = 2, link: str = "odata.nextLink") -> list[Any]:
    url, rows = f"GetList('/sites/demo/Shared Documents')/items{ITEMS}{most}", []
    while url:
        page = rest.json(url)
        rows += page["value"]
        url = page.get(link, "")
    return rows


# Sign-in


def test_a_client_that_says_nothing_keeps_no_other_waiting(sharepoint):
    port = int(sharepoint.origin("signin").rpartition(":")[2])

    with socket.create_connection(("127.0.0.1", port)):
        assert signed_in(sharepoint)


@pytest.mark.parametrize("digest", ["sha1", "sha256"])
def test_a_certificate_signs_in_by_each_thumbprint(sharepoint, digest):
    assert sharepoint.settings
    credential = of_certificate(sharepoint.certificate)
    if digest == "sha1":
        credential.pop("public_certificate")
        credential["thumbprint"] = sharepoint.issuer.certificates[0].fingerprint(SHA1()).hex()
    sharepoint.issuer.lifetime = 77

    found = app(sharepoint, credential).acquire_token_for_client(
        [f"{sharepoint.origin('rest')}/.default"]
    )

    assert found["expires_in"] == 77
    assert sharepoint.issuer.tokens[0].by_certificate
    assert [asked.status for asked in sharepoint.asked("signin")] == [200, 200]


def thumbprint(sharepoint: SharepointServer) -> str:
    return sharepoint.issuer.certificates[0].fingerprint(SHA256()).hex()


@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("wrong secret", 7000215),
        ("expired secret", 7000222),
        ("unknown certificate", 700027),
        ("foreign key", 700027),
        ("expired certificate", 700027),
        ("wrong scope", 1002012),
        ("unknown resource", 500011),
        ("unknown app", 700016),
        ("other audience", 700023),
    ],
)
def test_sign_in_is_refused(sharepoint, case, code):
    secret, scope = "right-secret", f"{sharepoint.origin('rest')}/.default"
    issuer = sharepoint.issuer
    credential: Any = secret
    match case:
        case "wrong secret":
            credential = "wrong"
        case "expired secret":
            issuer.secrets[secret] = False
        case "unknown certificate":
            credential = of_certificate(sharepoint.certificate)
        case "other audience":
            assert sharepoint.settings
            credential = of_certificate(sharepoint.certificate)
        case "foreign key":
            assert sharepoint.settings
            other = sharepoint.new_certificate("other.pem").read_text()
            known = sharepoint.certificate.read_text()
            credential = {"private_key": other, "public_certificate": known}
        case "expired certificate":
            old = sharepoint.new_certificate("old.pem", timedelta(seconds=-60))
            sharepoint.register(old)
            credential = of_certificate(old)
        case "wrong scope":
            scope = "Files.Read"
        case "unknown resource":
            scope = "https://other.example/.default"
    client = app(sharepoint, credential)
    if case == "other audience":
        made = AssertionCreator(
            credential.pop("private_key"), "PS256", sha256_thumbprint=thumbprint(sharepoint)
        )
        word = made.create_normal_assertion("https://other.example/token", issuer.client_id)
        client = app(sharepoint, {"client_assertion": word.decode})
    if case == "unknown app":
        issuer.client_id = "another"

    found = client.acquire_token_for_client([scope])

    assert found["error_codes"] == [code]
    assert found["error_description"].startswith(f"AADSTS{code}: ")
    assert issuer.tokens == []


def test_a_tenant_that_is_not_there_is_refused(sharepoint):
    with pytest.raises(ValueError, match="Unable to get authority configuration"):
        app(sharepoint, "right-secret", "nowhere")

    assert [asked.status for asked in sharepoint.asked("signin")] == [400]
    assert app(sharepoint, "right-secret", "contoso.onmicrosoft.com")


def test_rest_takes_no_token_of_a_secret_nor_of_graph_nor_an_old_one(sharepoint, site, rest):
    by_secret = Reader(sharepoint, secret="right-secret")
    of_graph = Reader(sharepoint, "graph")

    refused = by_secret.get(rest.base)
    assert refused.status_code == 401
    assert refused.json() == {"error_description": "Unsupported app only token."}
    assert of_graph.get(rest.base).status_code == 401
    assert rest.get(rest.base).status_code == 200
    assert rest.get(rest.base, Authorization="Bearer nothing").status_code == 401
    sharepoint.issuer.revoke()
    assert "expired" in rest.json("", 401)["error_description"]
    words = [asked.token for asked in sharepoint.asked("rest")]
    assert words == ["#2", "#3", "#1", "wrong", "#1"]
    assert "nothing" not in repr(sharepoint.log)
    assert sharepoint.issuer.tokens[0].text not in repr(sharepoint.log)


# REST


@pytest.mark.parametrize("by_guid", [False, True])
def test_items_come_in_pages_in_the_order_of_their_ids(sharepoint, library, rest, by_guid):
    sharepoint.tenant.next_by_guid = by_guid

    rows = everything(rest)

    assert [row["Id"] for row in rows] == list(range(1, 9))
    asked = [asked.target for asked in sharepoint.asked("rest", "/items")]
    assert [f"Lists(guid'{library.guid}')/items" in target for target in asked[1:]] == [by_guid] * 3
    files = {row["FileRef"]: row["File"]["Length"] for row in rows if "File" in row}
    names = ("a.txt", "Reports/Q1.docx", "Reports/Q2.docx", *ODD)
    assert files == {f"{library.path}/{path}": str(len(path.encode())) for path in names}
    assert {row["UniqueId"] for row in rows} == library.by_guid.keys()
    facts = rest.json("GetList('/sites/demo/Shared Documents')?$select=ItemCount,Id")
    assert facts == {"ItemCount": 8, "Id": library.guid}
    assert len(sharepoint.asked("rest", "/items")) == 4


@pytest.mark.parametrize("form", ["minimalmetadata", "verbose"])
def test_forms_differ_in_what_is_around_the_items(library, rest, form):
    found = rest.json(
        f"GetList('/sites/demo/Shared Documents')/items{ITEMS}1",
        Accept=f"application/json;odata={form}",
    )

    if form == "verbose":
        assert found["d"]["__next"].startswith("http://127.0.0.1")
        assert found["d"]["results"][0]["__metadata"]["type"] == "SP.ListItem"
    else:
        assert found["value"][0]["odata.type"] == "SP.ListItem"
        assert found["odata.metadata"]
        assert found["odata.nextLink"]


def test_a_path_with_percent_or_hash_needs_the_decoded_way(site, rest):
    library = site.library("Odd", "50% #1's")
    library.add("x.txt", "x")

    quoted = "/sites/demo/50%25%20%231''s"
    assert rest.json(f"GetList('{quoted}')", 404)
    for words in (f"(DecodedUrl='{quoted}')", f"(DecodedUrl=@p)?@p='{quoted}'"):
        assert rest.json(f"GetListUsingPath{words}")["ItemCount"] == 1
    assert rest.json("lists/getbytitle('odd')")["Id"] == library.guid
    assert rest.json(f"lists(guid'{library.guid}')/ItemCount") == {"value": 1}


def test_bytes_come_by_id_whatever_the_name_is(library, rest):
    entry = library.find(ODD[0])
    library.relocate(ODD[0], "elsewhere/x.md")

    assert rest.get(f"GetFileById('{entry.unique_id}')/$value").content == ODD[0].encode()
    library.delete("elsewhere/x.md")
    gone = rest.json(f"GetFileById('{entry.unique_id}')/$value", 404)
    assert "FileNotFoundException" in gone["odata.error"]["code"]
    library.restore("elsewhere/x.md").locked = True
    busy = rest.json(f"GetFileById('{entry.unique_id}')/$value", 423)
    assert "SPFileLockException" in busy["odata.error"]["code"]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("$filter=Id gt 3", 200),
        ("$filter=Status eq 'Active' and Id gt 0", 200),
        ("$filter=FSObjType eq 0", 500),
        ("$filter=Size eq 4", 500),
        ("$orderby=Modified", 500),
        ("$orderby=ID desc", 200),
        ("", 200),
    ],
)
def test_the_threshold_refuses_what_is_not_indexed(sharepoint, library, rest, query, status):
    library.column("Status", "Choice", indexed=True)
    library.column("Size", "Number")
    url = f"GetList('/sites/demo/Shared Documents')/items?$select=Id&{query}"
    assert rest.get(url).status_code == 200

    sharepoint.tenant.threshold = 7

    found = rest.json(url, status)
    if status == 500:
        code = "-2147024860, Microsoft.SharePoint.SPQueryThrottledException"
        assert found["odata.error"]["code"] == code


def test_a_list_has_typed_fields_and_filters(sharepoint, site, rest):
    ada = sharepoint.tenant.person("Ada & Co", "ada@c.example")
    regions = site.list("Regions")
    north = regions.add(Title="North")
    tasks = site.list("Open Tasks", "Tasks")
    for name, type_ in (("Status", "Choice"), ("Size", "Number"), ("Owner", "User")):
        tasks.column(name, type_)
    tasks.column("Notes", "Note", rich=True)
    tasks.column("Region", "Lookup", other="Regions")
    tasks.column("Team", "UserMulti")
    task = tasks.add(
        Title="O'Hara", Status="Active", Size=2.5, Owner=ada.id, Notes="<p>x</p>",
        Region=north.id, Team=[1, ada.id],
    )  # fmt: skip
    tasks.add(Title="Other", Status="Done", Size=1)
    base = "lists/getbytitle('Open Tasks')/items"
    more = "&$select=Id,Title,OwnerId,Owner/Title,Region/Title,Team/Title,Notes"

    def ids(text: str) -> list[int]:
        return [row["Id"] for row in rest.json(f"{base}?$select=Id&$filter={text}")["value"]]

    rows = rest.json(f"{base}?$expand=Owner,Region,Team{more}")["value"]
    assert rows[0] == {
        "Id": task.id, "Title": "O'Hara", "OwnerId": ada.id, "Owner": {"Title": "Ada & Co"},
        "Region": {"Title": "North"}, "Notes": "<p>x</p>",
        "Team": [{"Title": "Ada Lovelace"}, {"Title": "Ada & Co"}],
    }  # fmt: skip
    assert ids("Status eq 'active'") == [1]
    assert ids("Title eq 'O''Hara' and (Size gt 2 or Size lt 1)") == [1]
    assert ids("Status eq 'Active' and Size lt 2") == []
    assert ids("not (Status eq 'Active')") == [2]
    assert ids("startswith(Title,'Oth')") == [2]
    assert ids("Owner/Title eq 'Ada %26 Co'") == [1]
    assert ids("Modified ge datetime'2026-01-02T03:04:07Z'") == [1, 2]
    for wrong in ("Nothing eq 1", "Status eq", "Status eq 'x", "(Size gt 1"):
        assert rest.json(f"{base}?$filter={wrong}", 400)
    for wrong in ("Owner/Title", "Nothing"):
        assert rest.json(f"{base}?$select={wrong}", 400)
    text = rest.json(f"{base}(1)/FieldValuesAsText")
    assert (text["Owner"], text["Team"]) == ("Ada & Co", "Ada Lovelace; Ada & Co")
    fields = {
        f["InternalName"]: f for f in rest.json("lists/getbytitle('Open Tasks')/fields")["value"]
    }
    assert (fields["Notes"]["TypeAsString"], fields["Notes"]["RichText"]) == ("Note", True)
    assert rest.json("lists/getbytitle('None')", 404)["odata.error"]["code"].startswith("-1, ")


def test_rights_trim_answers_and_not_the_count(library, rest):
    library.find("Reports").trimmed = True
    library.never_checked_in("draft.docx", "x")

    assert len(everything(rest)) == 5
    assert rest.json("GetList('/sites/demo/Shared Documents')")["ItemCount"] == 9
    library.site.tenant.shows_never_checked_in = True
    assert len(everything(rest)) == 6
    library.site.allowed = False
    assert rest.json("", 403)["odata.error"]["code"].startswith("-2147024891, ")


def test_pages_of_a_site_have_their_web_parts(sharepoint, site, rest, graph):
    parts = [[Text("<h2>Hello</h2>"), WebPart("News", html='<a href="/x">x</a>')], [Text("two")]]
    page = site.pages().page("Home.aspx", "Home", parts)

    rows = rest.json("GetList('/sites/demo/SitePages')/items?$select=Title,CanvasContent1")["value"]
    assert rows[0]["Title"] == "Home"
    assert '<div data-sp-rte=""><h2>Hello</h2></div>' in rows[0]["CanvasContent1"]
    assert '<a href="/x">x</a>' in rows[0]["CanvasContent1"]
    id_ = graph.json("/sites/127.0.0.1:/sites/demo")["id"]
    front = f"/sites/{id_}/pages"
    found = graph.json(f"{front}/{page.unique_id}/microsoft.graph.sitePage?$expand=canvasLayout")
    columns = found["canvasLayout"]["horizontalSections"][0]["columns"]
    assert columns[0]["webparts"][0]["innerHtml"] == "<h2>Hello</h2>"
    assert [row["name"] for row in graph.json(f"{front}/microsoft.graph.sitePage")["value"]] == [
        "Home.aspx"
    ]


# Graph


class Delta:
    """Reads deltas of the first library."""

    def __init__(self, graph: Reader) -> None:
        self.graph = graph
        id_ = graph.json("/sites/127.0.0.1:/sites/demo")["id"]
        self.drives = graph.json(f"/sites/{id_}/drives")["value"]
        self.front = f"/drives/{self.drives[0]['id']}"
        names = "id,name,file,folder,root,deleted,sharepointIds,parentReference,size"
        self.link = f"{self.front}/root/delta?$top=3&$select={names}"

    def read(self) -> list[Any]:
        rows: list[Any] = []
        while True:
            page = self.graph.json(self.link)
            rows += page["value"]
            self.link = page.get("@odata.nextLink") or page["@odata.deltaLink"]
            if "@odata.deltaLink" in page:
                return rows

    def changes(self) -> list[Any]:
        """Read on; without the folders above what has changed."""
        named = [row for row in self.read() if "root" not in row]
        return [row.get("name", "deleted") for row in named]


@pytest.fixture
def delta(library: Library, graph: Reader) -> Delta:
    return Delta(graph)


def test_a_delta_names_each_item_without_its_path(sharepoint, site, library, graph, delta):
    site.list("Tasks")
    site.pages()
    rows = delta.read()

    assert [drive["name"] for drive in Delta(graph).drives] == ["Documents"]

    assert delta.drives[0]["webUrl"] == f"{sharepoint.origin('rest')}/sites/demo/Shared%20Documents"
    assert "root" in rows[0]
    assert [int(row["sharepointIds"]["listItemId"]) for row in rows[1:]] == list(range(1, 9))
    found = {row["sharepointIds"]["listItemUniqueId"]: row["name"] for row in rows[1:]}
    assert found == {guid: entry.name for guid, entry in library.by_guid.items()}
    assert all("path" not in row["parentReference"] for row in rows)
    assert rows[2]["parentReference"]["id"] == rows[0]["id"]
    assert len(sharepoint.asked("graph", "root/delta")) == 3
    assert delta.changes() == []


def test_a_delta_has_only_what_has_changed(library, delta):
    ids = {row.get("name"): row["id"] for row in delta.read()}

    library.rename("Reports", "Texts")
    assert delta.changes() == ["Texts"]
    library.update("Texts/Q1.docx", "new")
    assert delta.changes() == ["Texts", "Q1.docx"]  # the folder above it comes, too
    library.delete("a.txt")
    row = delta.read()[-1]
    assert row["id"] == ids["a.txt"]
    assert row["deleted"] == {"state": "deleted"}
    assert "name" not in row
    library.restore("a.txt")
    assert delta.read()[-1]["id"] == ids["a.txt"]
    library.delete("Texts")
    assert delta.changes() == ["deleted"]
    library.restore("Texts")
    assert delta.changes() == ["Texts", "Q1.docx", "Q2.docx"]
    library.rename("a.txt", "b.txt")
    library.rename("b.txt", "c.txt")
    library.site.tenant.delta_twice = True
    assert delta.changes() == ["b.txt", "c.txt"]


@pytest.mark.parametrize(
    "code", ["resyncChangesApplyDifferences", "resyncChangesUploadDifferences"]
)
def test_an_old_token_leads_to_a_fresh_delta(sharepoint, library, delta, code):
    delta.read()
    sharepoint.tenant.forget_delta_tokens(code)

    gone = delta.graph.get(delta.link)

    assert gone.status_code == 410
    assert gone.json()["error"]["code"] == code
    delta.link = gone.headers["Location"]
    assert len(delta.read()) == 9
    assert delta.read() == []


def test_bytes_come_from_an_address_without_a_token(sharepoint, library, delta, graph):
    sharepoint.tenant.delta_twice = True
    rows = delta.read()
    assert [row["name"] for row in rows].count(f"before {ODD[2].rpartition('/')[2]}") == 1
    item = next(row for row in rows if row["name"] == "a.txt")

    moved = graph.get(f"{delta.front}/items/{item['id']}/content")

    assert moved.status_code == 302
    place = moved.headers["Location"]
    assert not place.startswith(sharepoint.origin("graph"))
    assert graph.get(place).status_code == 401
    assert requests.get(place, timeout=9).content == b"a.txt"
    assert [asked.token for asked in sharepoint.asked("content")] == ["#1", ""]
    library.find("a.txt").locked = True
    assert graph.json(f"{delta.front}/items/{item['id']}/content", 423)


def test_list_items_come_with_fields_and_filters(sharepoint, site, graph):
    tasks = site.list("Tasks")
    tasks.column("Status", "Choice", indexed=True)
    tasks.column("Size", "Number")
    tasks.column("Owner", "User")
    for number in range(5):
        tasks.add(Title=f"T{number}", Status="Active" if number else "Done", Size=number, Owner=1)
    id_ = graph.json("/sites/127.0.0.1:/sites/demo")["id"]
    base = f"/sites/{id_}/lists/Tasks/items?expand=fields"

    page = graph.json(f"{base}&$top=2&$filter=fields/Status eq 'Active'")
    rest = graph.json(page["@odata.nextLink"])

    rows = [row["fields"] for row in page["value"] + rest["value"]]
    assert [row["Title"] for row in rows] == ["T1", "T2", "T3", "T4"]
    assert "@odata.nextLink" not in rest
    assert (rows[0]["OwnerLookupId"], "Owner" in rows[0]) == ("1", False)
    chosen = graph.json(f"{base}($select=Title,Owner)")["value"][0]["fields"]
    assert (chosen["Title"], chosen["Owner"], "Size" in chosen) == ("T0", "Ada Lovelace", False)
    by_size = f"{base}&$filter=fields/Size gt 3"
    assert "not indexed" in graph.json(by_size, 400)["error"]["message"]
    prefer = "HonorNonIndexedQueriesWarningMayFailRandomly"
    assert len(graph.json(by_size, Prefer=prefer)["value"]) == 1
    sharepoint.tenant.threshold = 4
    assert graph.json(by_size, 400, Prefer=prefer)
    columns = graph.json(f"/sites/{id_}/lists/Tasks/columns")["value"]
    assert {"Status", "Size", "Owner"} <= {column["name"] for column in columns}
    sharepoint.issuer.revoke()
    assert graph.json(base, 401)["error"]["code"] == "InvalidAuthenticationToken"


# Changes that people make


def test_ids_outlive_all_but_a_new_file(library):
    guid, id_ = library.find("a.txt").unique_id, library.find("a.txt").id

    library.update("a.txt", "longer")
    library.rename("a.txt", "b.txt")
    library.move("b.txt", "deep/er")
    library.rename("deep", "up")
    entry = library.find("up/er/b.txt")
    assert (entry.unique_id, entry.id, entry.content) == (guid, id_, b"longer")
    library.delete("up")
    assert guid not in library.by_guid
    library.restore("up")
    assert library.find("up/er/b.txt") is entry
    assert library.copy("up/er/b.txt", "copy.txt").unique_id != guid
    assert library.replace("up/er/b.txt", "other").unique_id != guid
    library.swap("copy.txt", "up/er/b.txt")
    assert library.find("copy.txt").content == b"other"
    with pytest.raises(KeyError):
        library.rename("copy.txt", ODD[0])


def test_times_go_on_with_the_bytes_only(library):
    entry = library.find("a.txt")
    at = entry.modified

    library.rename("a.txt", "b.txt")
    library.check_out("b.txt")
    assert entry.modified == at
    library.update("b.txt", "new")
    assert entry.modified > at
    library.roll_back("b.txt")
    assert (entry.modified, entry.content) == (at, b"a.txt")
    library.check_in("b.txt")
    assert entry.modified > at
    library.site.tenant.rename_touches = True
    before = entry.modified
    library.rename("b.txt", "c.txt")
    assert entry.modified > before


# Faults


@pytest.mark.long(but=10)
@pytest.mark.parametrize(
    ("kind", "facts"),
    [
        ("429", {"retry_after": 7}),
        ("503", {}),
        ("expired", {}),
        ("html", {}),
        ("half", {}),
        ("empty", {}),
        ("cut", {}),
        ("closed", {}),
        ("foreign", {}),
        ("circle", {}),
        ("drop", {}),
        ("broken", {}),
        ("redirect", {}),
        ("edit", {"edit": lambda page: page.clear()}),
        ("slow", {"seconds": 0.05}),
    ],
)
@pytest.mark.parametrize("place", ["rest", "graph"])
def test_a_fault_strikes_the_request_that_is_named(
    sharepoint, library, rest, delta, kind, facts, place
):
    reader = rest if place == "rest" else delta.graph
    url = (
        f"GetList('/sites/demo/Shared Documents')/items{ITEMS}2" if place == "rest" else delta.link
    )
    right = reader.get(url)
    fault = sharepoint.fail(kind, r"/items\?|/delta", nth=2, place=place, **facts)

    assert reader.get(url).json() == right.json()
    assert fault.hit == 0
    try:
        wrong: Any = reader.get(url)
    except requests.exceptions.RequestException as error:
        wrong = error
    assert fault.hit == 1
    assert reader.get(url).json() == right.json()
    match kind:
        case "429":
            assert (wrong.status_code, wrong.headers["Retry-After"]) == (429, "7")
        case "503" | "expired" | "redirect":
            assert wrong.status_code == {"503": 503, "expired": 401, "redirect": 302}[kind]
            assert "Retry-After" not in wrong.headers
        case "html":
            assert (wrong.status_code, wrong.text[:9]) == (200, "<!DOCTYPE")
        case "half":
            assert wrong.content == right.content[: len(right.content) // 2]
        case "empty":
            assert wrong.content == b""
        case "cut" | "closed":
            assert isinstance(wrong, requests.exceptions.RequestException)
        case "foreign" | "circle":
            link = next(text for name, text in wrong.json().items() if name.endswith("nextLink"))
            assert re.match(r"http://evil\.example\.com/" if kind == "foreign" else ".", link)
            assert kind == "foreign" or reader.get(link).json() == right.json()
        case "drop":
            assert wrong.json()["value"] == right.json()["value"][1:]
        case "broken":
            assert not {"Id", "id", "UniqueId"} & wrong.json()["value"][0].keys()
        case "edit":
            assert wrong.json() == {}
        case "slow":
            assert wrong.elapsed > timedelta(seconds=0.05)


def test_a_test_may_change_the_library_between_two_pages(sharepoint, library, rest):
    def change(request: Any) -> None:
        if "p_ID=2" in request.target:
            library.add("late.txt", "x")
            sharepoint.before = lambda request: None

    sharepoint.before = change

    assert [row["Id"] for row in everything(rest)] == list(range(1, 10))


def test_a_size_may_disagree(library, rest):
    library.find("a.txt").claimed_size = 99

    assert everything(rest)[0]["File"]["Length"] == "99"
