"""Declared and ad-hoc sources, and what is said about wrong ones (docs/sources.md; M-28)."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from smartcrawl.model.exceptions import RunHeldError, SmartcrawlError, SourceError
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import (
    ad_hoc_site_source,
    load_declared_sources,
    select_declared_source,
)
from smartcrawl.sources.files import FilesSource

EXAMPLE = Path(__file__).parents[2] / "sources.example.toml"

covers = pytest.mark.covers


@pytest.fixture
def declare(tmp_path):
    """Write sources.toml and load it."""

    def declare(text: str, encoding: str = "utf-8") -> dict[str, Source]:
        path = tmp_path / "sources.toml"
        path.write_text(text, encoding=encoding)
        return load_declared_sources(path)

    return declare


@covers("M-28")
def test_declared_source_has_all_its_keys(declare):
    sources = declare(
        """
        [sources.docs]
        kind = "site"
        seeds = ["HTTPS://Docs.Example.com/a/../#x", "https://docs.example.com/"]
        allowed_domains = [
            "Docs.Example.com", "Bücher.example", "127.0.0.1:8801", "h.example:443", "i.example:80"
        ]
        url_patterns = ['/$']
        excluded_patterns = ['/genindex', '\\?print=']
        max_depth = 3
        max_pages = 10
        [sources.b-2_x]
        seeds = ["http://127.0.0.1:8801/x", "https://b.example:443/"]
        """
    )

    docs, other = sources.values()
    assert list(sources) == [docs.name, other.name] == ["docs", "b-2_x"]
    assert docs.kind == other.kind == "site"
    assert docs.seeds == ("https://docs.example.com/",)
    assert docs.scope.domains == {"docs.example.com", "xn--bcher-kva.example"}
    assert docs.scope.hosts == {"127.0.0.1:8801", "h.example", "i.example"}
    assert docs.scope.url_patterns == ("/$",)
    assert docs.scope.excluded_patterns == ("/genindex", r"\?print=")
    assert (docs.max_depth, docs.scope.max_depth, docs.max_pages) == (3, 3, 10)
    assert (other.max_depth, other.max_pages, other.release) == (0, 0, None)
    assert not docs.ad_hoc


@covers("M-28")
def test_without_allowed_domains_the_hosts_of_the_seeds_are_the_scope(declare):
    source = declare('[sources.b]\nseeds = ["http://127.0.0.1:8801/x", "https://b.example:443/"]')[
        "b"
    ]

    assert source.scope.hosts == {"127.0.0.1:8801", "b.example"}
    assert not source.scope.domains
    assert source.scope.allows("http://b.example/any")
    assert not source.scope.allows("https://www.b.example/")


def test_release_makes_a_source_of_its_own(declare):
    sources = declare('[sources.docs]\nseeds = ["https://a.example/"]\nrelease = "2.1"')

    assert [(name, source.name) for name, source in sources.items()] == [("docs@2.1", "docs@2.1")]


def test_missing_file_declares_nothing(tmp_path):
    assert load_declared_sources(tmp_path / "sources.toml") == {}


def test_empty_file_declares_nothing(declare):
    assert declare("") == {}


def test_source_cannot_be_changed(declare):
    source = declare('[sources.a]\nseeds = ["https://a.example/"]')["a"]

    with pytest.raises(ValidationError):
        source.seeds = ()


def test_shipped_example_is_accepted():
    sources = load_declared_sources(EXAMPLE)

    assert list(sources) == ["docs", "handbook", "manual@2.1", "notes", "project"]
    assert [kind.name for kind in sources["project"].kinds] == ["github", "site"]
    notes = sources["notes"]
    assert isinstance(notes, FilesSource)
    assert notes.folder == str(EXAMPLE.parent / "notes")
    assert notes.scope.allows(f"{notes.root}/a/b.md")
    assert not notes.scope.allows(f"{notes.root}/drafts/b.md")
    assert sources["handbook"].scope.domains == {"example.com"}
    assert sources["handbook"].max_pages == 5000


SEEDS = 'seeds = ["https://a.example/"]\n'

BAD = {
    "unknown key": (
        SEEDS + 'max_dept = 3\nexcluded = ["a"]',
        ["[sources.a] max_dept: unknown key, did you mean max_depth?", "excluded: unknown key"],
    ),
    "root without kind": ('root = "/srv/docs"', ["[sources.a] root", 'add kind = "files"']),
    "root beside seeds": (SEEDS + 'root = "/srv/docs"', ["[sources.a] root: unknown key"]),
    "seeds missing": (
        "max_depth = 1",
        ["[sources.a] seeds is empty", "https://docs.", "a sitemap"],
    ),
    "seeds empty": ("seeds = []", ["[sources.a] seeds is empty", "give at least one address"]),
    "seeds a text": (
        'seeds = "https://a.example/"',
        ["[sources.a] seeds is 'https://a.example/'", "a list of texts"],
    ),
    "seed of another type": (
        'seeds = ["https://a.example/", 3]',
        ["[sources.a] seeds[1] is 3", "a text in quotes"],
    ),
    "seed of another scheme": (
        'seeds = ["ftp://a.example/"]',
        ["[sources.a] seeds[0] is 'ftp://a.example/'", "http or https address"],
    ),
    "seed without scheme": (
        'seeds = ["a.example/x"]',
        ["[sources.a] seeds[0] is 'a.example/x'", "write https://a.example/x"],
    ),
    "seed too long": (
        f'seeds = ["https://a.example/{"x" * 2083}"]',
        ["[sources.a] seeds[0] is longer than 2083 characters", "shorten"],
    ),
    "seed outside allowed_domains": (
        SEEDS + 'allowed_domains = ["b.example"]',
        ["[sources.a] seeds", "https://a.example/ (its host is not in allowed_domains)"],
    ),
    "seed that no pattern matches": (
        SEEDS + "url_patterns = ['/docs/']",
        ["[sources.a] seeds", "https://a.example/ (none of url_patterns matches it)"],
    ),
    "seed that is excluded": (
        SEEDS + "excluded_patterns = ['a']",
        ["[sources.a] seeds", "https://a.example/ (one of excluded_patterns matches it)"],
    ),
    "bad regular expression": (
        SEEDS + "url_patterns = ['a', '(']\nexcluded_patterns = ['*']",
        [
            "[sources.a] url_patterns[1] is '('",
            "missing )",
            "[sources.a] excluded_patterns[0] is '*'",
            "no argument for repetition operator",
            "put a backslash",
        ],
    ),
    "domain as a URL": (
        SEEDS + 'allowed_domains = ["https://a.example/"]',
        ["[sources.a] allowed_domains[0] is 'https://a.example/'", "write a.example,"],
    ),
    "domain with a star": (
        SEEDS + 'allowed_domains = ["*.a.example"]',
        ["[sources.a] allowed_domains[0]", "write a.example, which includes its subdomains"],
    ),
    "domain with a path": (
        SEEDS + 'allowed_domains = ["a.example/docs"]',
        ["[sources.a] allowed_domains[0] is 'a.example/docs'", "a domain such as"],
    ),
    "domain empty": (SEEDS + 'allowed_domains = [""]', ["[sources.a] allowed_domains[0] is ''"]),
    "limit in quotes": (
        SEEDS + 'max_depth = "3"',
        ["[sources.a] max_depth is '3'", "a whole number, 0 for no limit"],
    ),
    "limit a switch": (SEEDS + "max_pages = true", ["[sources.a] max_pages is True"]),
    "limit a fraction": (SEEDS + "max_pages = 1.5", ["[sources.a] max_pages is 1.5"]),
    "limit beyond 64 bits": (
        SEEDS + f"max_pages = {2**63}",
        [f"[sources.a] max_pages is {2**63}: expected a whole number up to 100000000000, 0 for"],
    ),
    "limit below zero": (SEEDS + "max_pages = -1", ["[sources.a] max_pages is -1"]),
    "release": (
        SEEDS + 'release = "2 1"',
        ["[sources.a] release is '2 1'", "letters, digits"],
    ),
    "release a number": (SEEDS + "release = 2.1", ["[sources.a] release is 2.1", "text in quotes"]),
    "other kind": (
        'kind = "mail"\nroot = "/x"',
        ["[sources.a] kind is 'mail'", 'expected "site"'],
    ),
    "root on another machine": (
        'kind = "files"\nroot = "file://nas/share"',
        ["[sources.a] root is 'file://nas/share'", "give the path of its mount"],
    ),
    "root of another scheme": (
        'kind = "files"\nroot = "gopher://a.example/x"',
        ["[sources.a] root is of the kind gopher://", "a folder's path, or s3://"],
    ),
    "root empty": ('kind = "files"\nroot = ""', ["[sources.a] root is empty", "/srv/docs"]),
    "name given as a key": (SEEDS + 'name = "b"\nad_hoc = true', ["a] name: un", "a] ad_hoc: un"]),
}


@covers("M-28")
@pytest.mark.parametrize("case", BAD)
def test_wrong_declaration_is_told_with_file_key_reason_and_remedy(declare, tmp_path, case):
    table, told = BAD[case]

    with pytest.raises(SourceError) as caught:
        declare(f"[sources.a]\n{table}\n").check()

    message = str(caught.value)
    assert message.startswith(str(tmp_path / "sources.toml"))
    for part in told:
        assert part in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[sources.a]\nseeds = [\n  'x'\nmax = 1\n", "line 4"),
        ('[sources.a]\nurl_patterns = ["\\?"]\n', "single quotes"),
        ("[sources.a]\n[sources.a]\n", "line 2"),
        ("[sources.a]\nseeds = ['x\n", "line 2"),
        ("[sources.a]\na = 1\na = 2", "line 3, the end of the file"),
        ("[source.a]\n", "source: unknown key, did you mean sources?"),
        ("sources = 1\n", "expected tables, each headed [sources.NAME]"),
        ("[sources]\ndocs = 1\n", "[sources.docs]: expected a table"),
        ('[sources."my docs"]\n', "[sources.'my docs']: a name takes letters"),
        ('[sources.""]\n', "[sources.'']: a name takes letters"),
        ('[sources."docs@2"]\n', "[sources.'docs@2']: a name takes letters"),
    ],
)
def test_wrong_file_is_told_with_its_place(declare, tmp_path, text, told):
    with pytest.raises(SourceError) as caught:
        declare(text).check()

    assert str(caught.value).startswith(str(tmp_path / "sources.toml"))
    assert told in str(caught.value)


def test_all_problems_of_a_file_are_told_at_once(declare):
    with pytest.raises(SourceError) as caught:
        declare(
            """
            top = 1
            [sources.a]
            seeds = ["ftp://a/", "docs"]
            max_depth = -1
            seed = []
            [sources.b]
            kind = "gitlab"
            [sources.c]
            seeds = ["https://c.example/"]
            [sources.d]
            """
        )

    head, *problems = str(caught.value).splitlines()
    assert head.endswith("has 7 problems:")
    assert [problem.split(":")[0].split(" is ")[0].strip() for problem in problems] == [
        "top",
        "[sources.a] seed",
        "[sources.a] seeds[0]",
        "[sources.a] seeds[1]",
        "[sources.a] max_depth",
        "[sources.b] kind",
        "[sources.d] seeds",
    ]


def test_a_wrong_table_leaves_out_its_own_source_alone(declare):
    sources = declare(
        """
        [sources."my docs"]
        seeds = ["https://a.example/"]
        [sources.b]
        seeds = ["https://b.example/"]
        [sources.c]
        kind = "files"
        release = "2"
        [sources.d]
        kind = "gitlab"
        """
    )

    assert list(sources) == ["b"]
    found = {name: table.spider for name, table in sources.wrong.items()}
    assert found == {"my docs": "site", "c@2": "files", "d": None}
    assert [sources.declares(name) for name in ("b", "my docs", "e")] == [True, True, False]
    sources.check(["b", "e"])
    assert select_declared_source("b", sources) is sources["b"]
    for name in sources.wrong:
        with pytest.raises(SourceError, match=r"sources\.toml has 1 problem:\n"):
            select_declared_source(name, sources)
    with pytest.raises(SourceError, match=r"sources\.toml has 3 problems:\n"):
        sources.check()
    with pytest.raises(SourceError, match="has 2 problems:"):
        sources.check(["my docs", "d"])


def test_an_address_does_not_take_the_name_of_a_wrong_table(declare):
    sources = declare('[sources."a.example"]\nseeds = []\n')

    with pytest.raises(SourceError, match=r"\[sources\.a\.example\] seeds"):
        ad_hoc_site_source("https://a.example/", sources)
    assert ad_hoc_site_source("https://b.example/", sources).name == "b.example"


def test_file_that_is_not_utf_8_is_told(declare):
    with pytest.raises(SourceError, match=r"not UTF-8.*save it as UTF-8"):
        declare("# Bücher", encoding="latin-1")


def test_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(SourceError, match=r"cannot be read .*SOURCES_FILE"):
        load_declared_sources(tmp_path)


@covers("RD-20")
@pytest.mark.parametrize(
    "seed", ["ftp://me:secret@a/", "me:secret@a.example/", "http://me:secret@/"]
)
def test_message_holds_no_password(declare, seed):
    with pytest.raises(SourceError) as caught:
        declare(f'[sources.a]\nseeds = ["{seed}"]\nallowed_domains = ["{seed}"]').check()
    with pytest.raises(SourceError) as caught_ad_hoc:
        ad_hoc_site_source(seed, {})

    assert "secret" not in f"{caught.value}{caught_ad_hoc.value}"
    assert "seeds[0] is" in str(caught.value)


@covers("RD-20")
@pytest.mark.parametrize("user", ["me:secret", "secret"])
def test_seed_with_a_password_is_refused_with_the_remedy(declare, user):
    seed = f"https://{user}@a.example/"
    for refused in (
        lambda: declare(f'[sources.a]\nseeds = ["{seed}"]').check(),
        lambda: ad_hoc_site_source(seed, {}),
    ):
        with pytest.raises(SourceError, match=r"write https://a\.example/.*NAME\.auth") as caught:
            refused()
        assert "secret" not in str(caught.value)


@covers("R0-08", "RD-20")
@pytest.mark.parametrize(
    ("url", "name", "seed"),
    [
        ("https://docs.example.com/a?b#c", "docs.example.com", "https://docs.example.com/a?b"),
        ("http://H.example:443/", "h.example", "http://h.example:443/"),
        ("http://127.0.0.1:8801", "127.0.0.1:8801", "http://127.0.0.1:8801/"),
        ("http://[::1]:8801/x/", "[::1]:8801", "http://[::1]:8801/x/"),
        ("https://bücher.example", "xn--bcher-kva.example", "https://xn--bcher-kva.example/"),
    ],
)
def test_ad_hoc_source_is_named_by_its_host(url, name, seed):
    source = ad_hoc_site_source(url, {})

    assert (source.name, source.seeds, source.ad_hoc, source.kind) == (name, (seed,), True, "site")
    assert source.scope.hosts == {name}


def test_ad_hoc_source_holds_its_host_and_port_only():
    scope = ad_hoc_site_source("https://a.example/deep/page", {}).scope

    for inside in ("https://a.example/", "http://a.example/x", "http://a.example:443/"):
        assert scope.allows(inside)
    for outside in ("https://www.a.example/", "https://a.example:8443/", "https://b.example/"):
        assert not scope.allows(outside)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("example.com/docs", "write https://example.com/docs"),
        (" example.com ", "write https://example.com/"),
        ("//example.com/docs", "write https://example.com/docs"),
        ("example.com:8443/x?y", "write https://example.com:8443/x?y"),
        ("localhost:8000", "write http://localhost:8000/"),
        ("//localhost/", "write http://localhost/"),
        ("127.0.0.1:8801/x", "write http://127.0.0.1:8801/x"),
        ("htp://example.com/", "did you mean http://example.com/?"),
        ("htps://example.com/", "did you mean https://example.com/?"),
        ("ftp://example.com/", "expected an http or https address"),
        ("/etc/passwd.d", "expected an http or https address"),
        ("C:\\docs.txt", "expected an http or https address"),
        ("", "expected an http or https address"),
        ("https://a.example/x.zip", "files of type .zip are skipped"),
    ],
)
def test_address_that_cannot_be_crawled_is_told_with_what_was_meant(url, told):
    with pytest.raises(SourceError) as caught:
        ad_hoc_site_source(url, {})

    assert told in str(caught.value)
    assert str(caught.value).startswith("-a url ")


def test_ad_hoc_source_does_not_take_a_declared_name(declare):
    declared = declare('[sources."a.example"]\nseeds = ["https://a.example/"]')

    with pytest.raises(SourceError, match=r"write -a source=a\.example"):
        ad_hoc_site_source("https://a.example/x", declared)
    with pytest.raises(SourceError, match=r"write -a source=a\.example"):
        ad_hoc_site_source("a.example", declared)
    assert ad_hoc_site_source("https://www.a.example/", declared).name == "www.a.example"


def test_select_finds_a_source_by_name(declare):
    declared = declare(f"[sources.a]\n{SEEDS}[sources.b]\n{SEEDS}release = '1'")

    assert select_declared_source("a", declared) is declared["a"]
    assert select_declared_source("b@1", declared) is declared["b@1"]


def test_unknown_source_is_told_with_the_known_ones(declare):
    declared = declare(f"[sources.docs]\n{SEEDS}[sources.handbook]\n{SEEDS}")

    with pytest.raises(SourceError) as caught:
        select_declared_source("dosc", declared)

    assert "no source 'dosc', did you mean docs?" in str(caught.value)
    assert "docs, handbook" in str(caught.value)


def test_unknown_source_is_told_when_none_is_declared():
    with pytest.raises(SourceError, match=r"\[sources\.docs\].*sources\.example\.toml"):
        select_declared_source("docs", {})


def test_held_run_names_its_holder_and_the_remedy():
    error = RunHeldError("docs", pid=4711, host="crawler-1", since="2026-01-02T03:04:05+00:00")

    assert isinstance(error, SmartcrawlError)
    assert (error.source, error.pid, error.host) == ("docs", 4711, "crawler-1")
    for part in ("docs", "process 4711", "crawler-1", "2026-01-02T03:04:05", "kill -INT 4711"):
        assert part in str(error)
