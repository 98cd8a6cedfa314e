"""Reading of domain.json: fields, messages, and the sources that it declares."""

import json

import pytest

from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.library import SourceType
from smartcrawl.sources.declared import load_declared_sources
from smartcrawl.sources.sharepoint.domains import (
    load_library_source,
    load_sharepoint_domain,
    sharepoint_domain_ids,
)

SITE = "https://contoso.sharepoint.com/sites/MyProject"
FILES = {
    "source_id": "source01",
    "site_url": SITE,
    "sharepoint_url_part": "/Shared Documents",
    "filter": "",
}
LIST = {"source_id": "tasks", "site_url": SITE, "list_name": "Tasks", "filter": "Status eq 'A'"}
PAGES = {"source_id": "pages", "site_url": SITE, "sharepoint_url_part": "/SitePages", "filter": ""}
WHOLE = {
    "name": "Project",
    "description": "All about it",
    "vector_store_name": "store",
    "vector_store_id": "vs_abc123",
    "file_sources": [FILES],
    "list_sources": [LIST],
    "sitepage_sources": [PAGES],
}


@pytest.fixture
def storage(tmp_path):
    return tmp_path / "library"


def write(storage, content, domain_id="DOMAIN01"):
    folder = storage / "domains" / domain_id
    folder.mkdir(parents=True)
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / "domain.json").write_bytes(data)
    return folder / "domain.json"


def problems(storage, content):
    """Return the lines of the refusal of a domain.json, without those of its head."""
    path = write(storage, content)
    with pytest.raises(SourceError) as caught:
        load_sharepoint_domain(storage, "DOMAIN01")
    head, *lines = str(caught.value).splitlines()
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    assert head == f"{path} has {count}:"
    start = f"  {path}: "
    assert all(line.startswith(start) for line in lines)
    return [line.removeprefix(start) for line in lines]


@pytest.mark.covers("R3-06", "R3-07", "R3-08", "R3-09", "R3-10")
def test_a_domain_has_its_fields_and_sources(storage):
    path = write(storage, WHOLE)

    domain = load_sharepoint_domain(storage, "DOMAIN01")

    assert (domain.domain_id, domain.path) == ("DOMAIN01", path)
    assert (domain.name, domain.description) == ("Project", "All about it")
    assert (domain.vector_store_name, domain.vector_store_id) == ("store", "vs_abc123")
    files, tasks, pages = domain.every_source
    assert (files.name, files.kind, files.domain) == ("DOMAIN01.source01", "sharepoint", "DOMAIN01")
    assert (files.source_id, files.source_type) == ("source01", SourceType.FILES)
    assert (files.site_url, files.url_part, files.list_name) == (SITE, "/Shared Documents", "")
    assert files.library_path == "/sites/MyProject/Shared Documents"
    assert files.folder == storage / "crawler/DOMAIN01/01_files/source01"
    assert (tasks.source_type, tasks.list_name, tasks.filter, tasks.url_part) == (
        SourceType.LISTS, "Tasks", "Status eq 'A'", "",
    )  # fmt: skip
    assert tasks.library_path == "/sites/MyProject"
    assert tasks.folder == storage / "crawler/DOMAIN01/02_lists/tasks"
    assert (pages.source_type, pages.url_part) == (SourceType.SITEPAGES, "/SitePages")
    assert pages.folder == storage / "crawler/DOMAIN01/03_sitepages/pages"


def test_unknown_keys_stay_and_missing_texts_are_empty(storage):
    path = write(storage, {"owner": {"a": [1]}, "file_sources": [{**FILES, "color": "red"}]})
    before = path.read_bytes()

    domain = load_sharepoint_domain(storage, "DOMAIN01")

    assert (domain.name, domain.vector_store_id) == ("", "")
    assert [source.source_id for source in domain.every_source] == ["source01"]
    assert path.read_bytes() == before


@pytest.mark.covers("R3-18", "R3-67")
def test_sources_by_scope_and_id(storage):
    write(storage, WHOLE)
    domain = load_sharepoint_domain(storage, "DOMAIN01")

    def ids(*words):
        return [source.source_id for source in domain.sources(*words)]

    assert ids() == ids("all") == ["source01", "tasks", "pages"]
    assert (ids("files"), ids("lists"), ids("sitepages")) == (["source01"], ["tasks"], ["pages"])
    assert ids("all", "tasks") == ids("lists", "tasks") == ["tasks"]
    with pytest.raises(SourceError, match="which the scope files leaves out: choose the scope all"):
        domain.sources("files", "tasks")
    with pytest.raises(SourceError, match=r"'file', did you mean files.: expected all, files"):
        domain.sources("file")
    with pytest.raises(
        SourceError, match=r"no source 'task', did you mean tasks.: it has source01"
    ):
        domain.sources("all", "task")
    assert domain.source("DOMAIN01.tasks") is domain.source("tasks")
    assert load_library_source(storage, "DOMAIN01.tasks") == domain.source("tasks")
    for name in ("DOMAIN01", "DOMAIN01."):
        with pytest.raises(SourceError, match=r"expected DOMAIN\.SOURCE"):
            load_library_source(storage, name)


@pytest.mark.parametrize(
    ("site", "part", "known", "path"),
    [
        ("https://Contoso.sharepoint.com:443/", "/Docs", "https://contoso.sharepoint.com", "/Docs"),
        ("http://127.0.0.1:8080/s", "/D/", "http://127.0.0.1:8080/s", "/s/D"),
        ("http://[::1]:8080/s", "/D", "http://[::1]:8080/s", "/s/D"),
        ("http://localhost/s", "/D", "http://localhost/s", "/s/D"),
        (f"{SITE}%20A/", "/100% #1", f"{SITE}%20A", "/sites/MyProject A/100% #1"),
        ("https://a.example/ü", "/b", "https://a.example/%C3%BC", "/ü/b"),
    ],
)
def test_addresses_of_sites(storage, site, part, known, path):
    table = {**FILES, "site_url": site, "sharepoint_url_part": part}
    write(storage, {"file_sources": [table]})

    (source,) = load_sharepoint_domain(storage, "DOMAIN01").every_source

    assert (source.site_url, source.library_path) == (known, path)


WRONG = [
    ("source_id", "", "is '': expected 1 to 64 letters, digits, '_' and '-'"),
    ("source_id", "a.b", "is 'a.b': expected 1 to 64 letters"),
    ("source_id", "a" * 65, "expected 1 to 64 letters"),
    ("source_id", "a\n", "expected 1 to 64 letters"),
    ("source_id", "ü", "expected 1 to 64 letters"),
    ("source_id", 5, "is a number: expected a text in quotes"),
    ("source_id", None, "is null: expected a text in quotes"),
    ("site_url", "", "expected the address of the site, as in"),
    ("site_url", "contoso.sharepoint.com", "expected the address of the site"),
    ("site_url", "ftp://a.example/", "expected the address of the site"),
    ("site_url", f"{SITE}?x=1", "without ? and #"),
    ("site_url", f"{SITE}#x", "without ? and #"),
    ("site_url", "http://contoso.sharepoint.com/", "not encrypted: write https"),
    ("site_url", "http://128.0.0.1/", "not encrypted: write https"),
    ("site_url", "https://me:secret@a.example/", "it has a user name or password: remove it"),
    ("site_url", "https://a.example/sites/../x", "a part of its path is '..'"),
    ("site_url", "https://a.example/sites/%2e%2e/x", "a part of its path is '..'"),
    ("site_url", "https://a.example//x", "a part of its path is empty"),
    ("site_url", True, "is true or false: expected a text"),
    ("sharepoint_url_part", "", "which begins with a slash"),
    ("sharepoint_url_part", "/", "which begins with a slash"),
    ("sharepoint_url_part", "Docs", "is 'Docs': expected the path of the library in its address"),
    ("sharepoint_url_part", "https://a.example/Docs", "which begins with a slash"),
    ("sharepoint_url_part", "/Docs?web=1", "it has a query: give the path alone"),
    ("sharepoint_url_part", "/a/../b", "a part of its path is '..'"),
    ("sharepoint_url_part", "/..", "a part of its path is '..'"),
    ("sharepoint_url_part", "/a//b", "a part of its path is empty"),
    ("sharepoint_url_part", "/a\\b", "its path has a backslash"),
    ("sharepoint_url_part", "/a\nb", "it has a control character"),
    ("sharepoint_url_part", "/\ud800", "has half of a surrogate pair"),
    ("sharepoint_url_part", ["/a"], "is a list: expected a text in quotes"),
    ("filter", None, "is null: expected a text in quotes"),
    ("filter", "a eq\n1", "it has a control character: write the expression on one line"),
]


@pytest.mark.parametrize(("key", "value", "reason"), WRONG)
def test_a_wrong_field_has_one_message(storage, key, value, reason):
    (line,) = problems(storage, {"file_sources": [{**FILES, key: value}]})

    assert line.startswith(f"file_sources[0].{key} ")
    assert reason in line
    assert "secret" not in line


@pytest.mark.parametrize("name", ["", "  ", "a\tb"])
def test_a_list_has_a_title(storage, name):
    (line,) = problems(storage, {"list_sources": [{**LIST, "list_name": name}]})

    assert line.startswith("list_sources[0].list_name is ")


def test_all_problems_are_in_one_message(storage):
    found = problems(
        storage,
        {
            "name": 5,
            "vector_store_id": None,
            "file_sources": [{}, FILES, "x"],
            "list_sources": {"source_id": "a"},
            "sitepage_sources": [{**PAGES, "source_id": "source01", "site_url": "x"}],
        },
    )

    assert [line.split(" ")[0] for line in found] == [
        "name", "vector_store_id",
        "file_sources[0].source_id", "file_sources[0].site_url",
        "file_sources[0].sharepoint_url_part", "file_sources[2]",
        "list_sources",
        "sitepage_sources[0].site_url", "sitepage_sources[0].source_id",
    ]  # fmt: skip
    assert found[2] == (
        "file_sources[0].source_id is missing: give 1 to 64 letters, digits, '_' and '-', as in"
        ' "source01"'
    )
    assert found[5] == "file_sources[2] is a text: expected an object with source_id and site_url"
    assert found[6] == "list_sources is an object: expected a list of objects"


@pytest.mark.covers("R3-10")
@pytest.mark.parametrize("kind", ["file_sources", "list_sources", "sitepage_sources"])
def test_an_id_is_used_once_in_all_kinds(storage, kind):
    content = {"file_sources": [FILES], "list_sources": [], "sitepage_sources": []}
    content[kind] = [*content[kind], {**(LIST if kind == "list_sources" else FILES)}]
    content[kind][-1]["source_id"] = "source01"

    (line,) = problems(storage, content)

    place = f"{kind}[{len(content[kind]) - 1}].source_id"
    assert line.startswith(f"{place} is 'source01', as that of file_sources[0]: rename one")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xef\xbb\xbf{}", "begins with a byte order mark, which JSON does not have: save it as"),
        ('{"name": "ü"}'.encode("latin-1"), "is not UTF-8"),
        (b"", "is not valid JSON"),
        (b'{"name": ', "is not valid JSON"),
        (b"[]", "has a list at its top: expected an object"),
        (b"null", "has null at its top: expected an object"),
        (b"[" * 200_000, "is nested too deep"),
        (b'{"name": "a", "name": "b"}', "has the key 'name' twice: remove one of them"),
        (b'{"file_sources": [{"source_id": "a", "source_id": "b"}]}', "'source_id' twice"),
    ],
)
def test_a_file_that_is_no_object(storage, data, reason):
    path = write(storage, data)

    with pytest.raises(SourceError) as caught:
        load_sharepoint_domain(storage, "DOMAIN01")

    assert str(caught.value).startswith(f"{path} ")
    assert reason in str(caught.value)


@pytest.mark.covers("R3-67")
def test_an_unknown_domain(storage):
    with pytest.raises(
        SourceError, match=r"no domain 'A', and no other in .*domains: write .*json"
    ):
        load_sharepoint_domain(storage, "A")
    assert sharepoint_domain_ids(storage) == []
    write(storage, {}, "DOMAIN01")
    write(storage, {}, "DOMAIN02")
    write(storage, {}, "no domain")
    (storage / "domains" / "EMPTY").mkdir()
    assert sharepoint_domain_ids(storage) == ["DOMAIN01", "DOMAIN02"]
    with pytest.raises(SourceError) as caught:
        load_sharepoint_domain(storage, "DOMAN01")
    assert str(caught.value) == (
        "there is no domain 'DOMAN01', did you mean DOMAIN01?;"
        f" {storage / 'domains'} has DOMAIN01, DOMAIN02"
    )
    with pytest.raises(SourceError, match=r"EMPTY/domain\.json is missing: write it there"):
        load_sharepoint_domain(storage, "EMPTY")
    for name in ("../DOMAIN01", "", "a" * 65, "no domain"):
        with pytest.raises(SourceError, match="its id takes 1 to 64 letters"):
            load_sharepoint_domain(storage, name)


def test_sources_toml_has_no_libraries(tmp_path):
    path = tmp_path / "sources.toml"
    path.write_text('[sources.docs]\nkind = "sharepoint"\nsite_url = "x"\n')

    with pytest.raises(SourceError) as caught:
        load_declared_sources(path).check()

    assert str(caught.value).splitlines()[1:] == [
        "  [sources.docs] kind is 'sharepoint': a library is declared in the domain.json of its"
        " domain; move it there"
    ]
