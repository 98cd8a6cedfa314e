"""Every link of the manual and of the site that is made of it leads somewhere."""

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
#: Hosts of package indexes, to which no page links.
INDEXES = tuple(
    ".".join(parts)
    for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "com"), ("rubygems", "org"))
)

_FENCE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.M | re.S)
_INLINE = re.compile(r"!?\[[^\]]*\]\(\s*<?([^()\s>]+)>?[^()]*\)")
_DEFINED = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.M)
_HTML = re.compile(r"<(?:a|img)\b[^>]*\b(?:href|src)=\"([^\"]+)\"", re.I)


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def links(page: Path) -> list[str]:
    """Return the links of a page, of whatever form."""
    text = _FENCE.sub("`code`", page.read_text(encoding="utf-8"))
    return [link for form in (_INLINE, _DEFINED, _HTML) for link in form.findall(text)]


@cache
def anchors(page: Path) -> set[str]:
    """Return the fragments of a page's headings, numbered where two are the same."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: dict[str, int] = {}
    result = set()
    for heading in re.findall(r"^#+ (.+?)\s*$", text, re.M):
        plain = slug(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        count = found.get(plain, 0)
        found[plain] = count + 1
        result.add(f"{plain}-{count}" if count else plain)
    return result


def slug(heading: str) -> str:
    """Return the fragment of a heading.

    >>> slug("`smartcrawl audit`, and why")
    'smartcrawl-audit-and-why'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def is_broken(page: Path, link: str) -> bool:
    """Whether a link within the project leads nowhere."""
    parts = urlsplit(link)
    if parts.scheme:
        return False
    target = (page.parent / parts.path).resolve() if parts.path else page
    inside = target.is_relative_to(ROOT) and target.exists()
    return not inside or bool(parts.fragment and parts.fragment not in anchors(target))


def is_refused(link: str) -> bool:
    """Whether a link leads to others without TLS, or to a package index."""
    parts = urlsplit(link)
    plain = parts.scheme not in ("", "https")
    return plain or bool(parts.scheme and (parts.hostname or "").endswith(INDEXES))


def test_relative_links_resolve():
    linked = [(page, link) for page in PAGES for link in links(page)]
    broken = [f"{name(page)}: {link}" for page, link in linked if is_broken(page, link)]

    assert not broken, "\n".join(broken)


def test_links_to_others_are_https_and_no_package_index():
    linked = [(page, link) for page in PAGES for link in links(page)]
    refused = [f"{name(page)}: {link}" for page, link in linked if is_refused(link)]

    assert not refused, "\n".join(refused)


def test_a_link_that_leads_nowhere_or_to_an_index_is_found():
    page = ROOT / "README.md"
    whole = ["LICENSE", "docs/cli.md#scripts", "https://example.com/none"]
    broken = ["../x", "docs/none.md", "docs/cli.md#none", "#none"]
    refused = ["http://example.com/", f"https://{INDEXES[0]}/x", f"https://www.{INDEXES[1]}"]

    assert [link for link in whole + broken if is_broken(page, link)] == broken
    assert [link for link in whole + broken + refused if is_refused(link)] == refused


def decisions() -> dict[int, str]:
    """Return the section of each decision, by its number: page and fragment."""
    found: dict[int, str] = {}
    for page in sorted((ROOT / "docs" / "adr").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        for heading, numbers in re.findall(r"^## (.+ \(ADR (\d+(?:, \d+)*)\))$", text, re.M):
            for number in map(int, numbers.split(", ")):
                assert number not in found, f"two sections have the number {number}"
                found[number] = f"{page.name}#{slug(heading)}"
    return found


def test_the_table_of_decisions_leads_from_each_number_to_its_section():
    text = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| \[.+\]\((\S+)\) \|$", text, re.M)

    assert len(rows) > 100
    assert [(int(number), place) for number, place in rows] == sorted(decisions().items())


def test_each_decision_that_is_named_anywhere_has_a_section():
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    named = {
        (int(number), name)
        for name in listed.stdout.split("\0")
        if Path(name).suffix in {".py", ".md", ".sql", ".lua", ".mjs", ".txt", ".toml"}
        for numbers in re.findall(
            r"\bADRs? (\d+(?:(?:, | and |, and )\d+\b)*)",
            (ROOT / name).read_text(encoding="utf-8", errors="replace"),
        )
        for number in re.findall(r"\d+", numbers)
    }

    assert len(named) > 200
    assert not sorted((number, name) for number, name in named if number not in decisions())


def test_each_page_of_decisions_has_its_questions_and_what_would_change_our_mind():
    for page in sorted((ROOT / "docs" / "adr").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        first, *sections = re.split(r"^## ", text, flags=re.M)
        if page.name == "README.md":
            continue

        assert "?\n" in first, page.name
        assert sections[-1].startswith("What would change our mind\n"), page.name
        assert all(re.match(r".+ \(ADR [\d, ]+\)\n", part) for part in sections[:-1]), page.name


def test_each_cell_of_the_comparison_has_its_source():
    text = (ROOT / "docs" / "compared.md").read_text(encoding="utf-8")
    head, _, *rows = [line.strip("|").split(" | ") for line in text.splitlines() if line[:1] == "|"]

    assert len(rows) >= 6
    assert {len(row) for row in rows} == {len(head)} == {8}
    for row in rows:
        for product, cell in zip(head[1:], row[1:], strict=True):
            (link,) = _INLINE.findall(cell)
            assert bool(urlsplit(link).scheme) == (product.strip() != "smartcrawl"), cell


#: Chapters that docs/operations.md had, to which others link, and the page of each today.
MOVED = {
    "a-timer": "nightly.md",
    "many-sources": "many-sources.md",
    "the-http-api": "server.md",
    "keys": "server.md#keys",
    "behind-a-proxy": "proxy.md",
    "several-servers": "proxy.md#several-servers",
    "scrapyd": "scrapyd.md",
    "jobs-in-scrapyd": "scrapyd.md#jobs-in-scrapyd",
    "document-libraries": "libraries.md",
    "in-a-scrapy-project-of-your-own": "project.md",
    "items-of-your-own": "project.md#items-of-your-own",
    "in-scrapyd-with-its-own-smartcrawl": "project.md#in-scrapyd-with-its-own-smartcrawl",
    "backups": "backup.md",
    "a-new-version": "upgrade.md",
    "a-damaged-registry": "damaged.md",
    "beyond-one-machine": "several-machines.md",
    "workers-that-share-a-run": "workers.md",
    "joining-a-run": "workers.md#joining-a-run",
    "leaving-and-ending-it": "workers.md#leaving-and-ending-it",
    "what-may-die": "losses.md",
    "clocks": "losses.md#clocks",
    "politeness": "losses.md#politeness",
    "what-workers-cannot-share": "losses.md#what-workers-cannot-share",
    "a-unit": "workers.md#a-unit",
    "containers": "containers.md",
    "kubernetes": "kubernetes.md",
}


def test_the_old_chapters_of_operations_lead_on():
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    led = dict(re.findall(r"^### (.+)\n\n\[.+\]\(operations/(\S+)\)$", text, re.M))

    assert {slug(heading): place for heading, place in led.items()} == MOVED


def test_each_page_of_operations_begins_with_the_shortest_way_and_is_short():
    """Two screens of 50 lines, a paragraph of 110 characters a line."""
    pages = sorted((ROOT / "docs" / "operations").glob("*.md"))

    assert len(pages) > 10
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert text.split("\n\n")[1].startswith("For "), page.name
        assert sum(1 + len(line) // 110 for line in text.splitlines()) <= 100, page.name


MAP = ROOT / "docs" / "README.md"
ADRS = ROOT / "docs" / "adr"


def test_the_map_of_the_manual_has_every_page_once():
    found = Counter(
        name((MAP.parent / link.partition("#")[0]).resolve())
        for link in links(MAP)
        if not urlsplit(link).scheme
    )
    pages = [page for page in PAGES if page.is_relative_to(MAP.parent) and page != MAP]

    mapped = {name(page) for page in pages if page.parent != ADRS} | {name(ADRS / "README.md")}
    assert {page: found[page] for page in mapped} == dict.fromkeys(mapped, 1)
    adrs = {page.name for page in pages if page.parent == ADRS} - {"README.md"}
    assert adrs <= {link.partition("#")[0] for link in links(ADRS / "README.md")}


def test_the_map_has_the_parts_of_the_manual_in_their_order():
    text = MAP.read_text(encoding="utf-8")

    assert re.findall(r"^## (.+)$", text, re.M) == [
        "Start", "Use", "Run it", "Look it up", "Change it",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script that builds the site, as a module."""
    loader = SourceFileLoader("docs_script", str(ROOT / "script" / "docs"))
    spec = spec_from_loader("docs_script", loader)
    assert spec is not None
    module = module_from_spec(spec)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


@pytest.mark.long
def test_the_site_builds_without_a_warning_and_no_link_of_it_is_broken():
    prepared = subprocess.run(
        [ROOT / "script" / "docs", "--prepare"], capture_output=True, text=True, check=False
    )
    if prepared.returncode:
        message = f"the generator of the site cannot be had: {prepared.stderr[-500:]}"
        if os.environ.get("SMARTCRAWL_REQUIRE_SERVERS"):
            pytest.fail(message)
        pytest.skip(message)
    built = subprocess.run(
        [ROOT / "script" / "docs", "--check"], capture_output=True, text=True, check=False
    )

    assert built.returncode == 0, built.stderr
    pages = re.fullmatch(r"(\d+) pages, no warning, no broken link\n", built.stdout)
    assert pages is not None
    assert int(pages[1]) >= len(PAGES)
    assert not built.stderr


@pytest.mark.parametrize(
    ("link", "lost"),
    [
        ("b.html", False),
        ("b.html#here", False),
        ("#top", False),
        ("a%20picture.svg", False),
        ("https://docs.example.com/none", False),
        ("c.html", True),
        ("b.html#there", True),
        ("#none", True),
        ("picture.svg", True),
    ],
)
def test_a_broken_link_of_the_site_is_found(
    script: ModuleType, tmp_path: Path, link: str, lost: bool
):
    (tmp_path / "a.html").write_text(f'<h1 id="top">A</h1><a href="{link}">b</a>')
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    (tmp_path / "a picture.svg").write_text("<svg/>")

    assert bool(script.broken(tmp_path)) is lost


def test_every_page_of_the_manual_is_in_the_site(script: ModuleType, tmp_path: Path):
    script.collect(tmp_path)

    assert {name(page) for page in PAGES} <= {
        path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.md")
    }
