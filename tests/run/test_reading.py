"""Reading without Scrapy: damage, errors of this program, a seed that moves, the soft-404 probe."""

import asyncio
from types import SimpleNamespace

import pytest

from smartcrawl.extract.chunks import document_chunks
from smartcrawl.extract.documents import DocumentLimits, DocumentReader
from smartcrawl.model.documents import Document, Section
from smartcrawl.model.exceptions import GivenUpError, RegistryError
from smartcrawl.model.pages import Page, PageAnswer, PageState, Visit
from smartcrawl.rules.model import Fault, Outcome, Standing
from smartcrawl.run import reading
from smartcrawl.run.orders import Halt
from smartcrawl.run.reading import Reading
from smartcrawl.sources.base import SourceExtractionConfig
from smartcrawl.sources.files import FilesSource
from smartcrawl.sources.github.source import GithubSource
from smartcrawl.sources.site import SiteSource
from tests.choices import options

URL = "http://a.example/"
DAMAGE = RegistryError("the registry is damaged")


class Parts:
    """A run whose parts record their calls; ``error`` is raised by every redirect."""

    def __init__(self, tmp_path, error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self.error = error
        self.halt = Halt()
        self.session = self.choice = None
        self.opened, self.due_pages = SimpleNamespace(due=False), None
        self.options = options(tmp_path)
        self.source = SiteSource(name="a", seeds=(URL,))
        self.configuration = SourceExtractionConfig.of(self.source, self.options)
        self.scope = SimpleNamespace(hosts={"b.example"}, holds=lambda url: True)
        self.registry = SimpleNamespace(database=self)
        self.stored_pages = SimpleNamespace(
            unreadable=None, is_read_alike=lambda visit: False, language=lambda page: None
        )
        self.trust = self.links = self.seeds = self.turns = self
        self.site_lists = SimpleNamespace(
            marked=lambda *_: "", chunks=lambda document, _: document_chunks(document)
        )
        self.spellings = SimpleNamespace(is_open=lambda visit: False)

    def damage(self, error: Exception) -> RegistryError | None:
        return DAMAGE if isinstance(error, OSError) else None

    def landed(self, page: Page) -> None:
        self.calls.append("landed")

    def learn(self, visit: Visit) -> None:
        self.calls.append("learn")

    def is_seed(self, number: int) -> bool:
        return True

    def forces(self, page: Page) -> bool:
        return False

    def replay(self, page: Page) -> None:
        self.calls.append("replay")

    def decide_scope(self, visit: Visit) -> None:
        """Nothing: the scope is decided."""

    def follow(self, visit: Visit, links, **_: object) -> None:
        self.calls.append("follow")

    def move(self, number: int, target: str) -> bool:
        if self.error is not None:
            raise self.error
        return True

    def may_follow(self, number: int, within: int = 0) -> bool:
        return True

    def follow_redirect(self, visit: Visit, target: str) -> bool:
        self.calls.append("follow_redirect")
        return True


@pytest.mark.parametrize(
    ("source", "seconds"),
    [
        (SiteSource(name="a", seeds=(URL,)), 7),
        (FilesSource(name="a", root="/srv/docs"), 0),
        (GithubSource(name="a", url="https://github.com/octo/docs"), 0),
    ],
)
def test_only_hosts_have_a_budget_for_reading_documents(tmp_path, monkeypatch, source, seconds):
    limits: list[DocumentLimits] = []

    class Reader(DocumentReader):
        def __init__(self, configuration, given, **more):
            limits.append(given)
            super().__init__(configuration, given, **more)

    monkeypatch.setattr(reading, "DocumentReader", Reader)
    run = Parts(tmp_path)
    run.options = options(tmp_path, extract_seconds_per_host=7)
    run.source = source
    Reading(run, is_soft_404=None, scope_moved=None, is_stopping=lambda: False)
    assert [given.seconds_per_host for given in limits] == [seconds]


def read(run: Parts, visit: Visit, *, soft_404: bool = False) -> RegistryError | None:
    async def is_soft_404(visit: Visit, document: object) -> bool:
        run.calls.append("probe")
        return soft_404

    async def take() -> RegistryError | None:
        reading = Reading(
            run,
            is_soft_404=is_soft_404,
            scope_moved=lambda: run.calls.append("scope_moved"),
            is_stopping=lambda: False,
        )
        try:
            return await reading.take(visit)
        finally:
            await reading.close()

    return asyncio.run(take())


def redirect() -> Visit:
    page = Page(1, URL, "a.example", 0)
    return Visit(page, Outcome.REDIRECT, url=URL, answer=PageAnswer(location="http://b.example/"))


def html_page() -> Visit:
    page = Page(1, URL, "a.example", 0)
    body = b"<title>Missing</title><p>There is no such page. <a href=/x>x</a>"
    return Visit(
        page, Outcome.CHANGED, url=URL, answer=PageAnswer(body=body, content_type="text/html")
    )


def test_a_seed_that_moves_is_announced_before_its_target_is_offered(tmp_path):
    run = Parts(tmp_path)

    assert read(run, redirect()) is None
    assert run.calls == ["landed", "scope_moved", "follow_redirect", "learn"]


def test_damage_of_the_registry_is_returned_and_nothing_else_is_done(tmp_path):
    run, visit = Parts(tmp_path, OSError("malformed")), redirect()

    assert read(run, visit) is DAMAGE
    assert run.calls == ["landed"]
    assert visit.outcome is Outcome.REDIRECT


def test_a_registry_that_cannot_be_written_is_no_fault_of_the_page(tmp_path):
    away = RegistryError("cannot write the registry")
    run, visit = Parts(tmp_path, away), redirect()

    assert read(run, visit) is away
    assert run.calls == ["landed"]
    assert visit.outcome is Outcome.REDIRECT


def test_an_error_of_this_program_is_an_outcome_that_keeps_the_stored_links(tmp_path):
    run, visit = Parts(tmp_path, ValueError("what")), redirect()

    assert read(run, visit) is None
    assert visit.http_status == Fault.PROCESSING
    assert visit.error == "processing failed: ValueError: what"
    assert run.calls == ["landed", "learn", "replay"]


def test_a_document_that_the_end_of_the_crawl_cut_off_is_no_outcome(tmp_path):
    run, visit = Parts(tmp_path, GivenUpError("the crawl ended")), redirect()

    with pytest.raises(GivenUpError):
        read(run, visit)
    assert run.calls == ["landed"]


@pytest.mark.parametrize("soft_404", [True, False])
def test_the_probe_decides_whether_a_page_is_a_soft_404(tmp_path, soft_404: bool):
    run, visit = Parts(tmp_path), html_page()
    run.stands_aside = lambda visit: False

    assert read(run, visit, soft_404=soft_404) is None
    assert visit.outcome is (Outcome.SOFT_404 if soft_404 else Outcome.CHANGED)
    assert bool(visit.parsed.chunks)
    assert "probe" in run.calls
    assert "follow" in run.calls


@pytest.mark.parametrize(
    ("before", "runs", "looks"), [(60, 1, 1), (60, 2, 0), (9_000, 1, 0), (9_000, 2, 0)]
)
def test_a_text_is_looked_for_among_the_last_changes_only_where_it_decides(
    tmp_path, before: int, runs: int, looks: int
):
    """Not of a page that has collapsed anyway, nor of one that is accepted by now."""
    run, visit = Parts(tmp_path), html_page()
    visit.page.state = PageState(
        standing=Standing.HELD, http_status=Fault.COLLAPSED, error_count=runs
    )
    run.stands_aside = lambda visit: False
    run.collapses = SimpleNamespace(undecided=False)

    def content_hash(page: Page) -> bytes:
        page.text_hash = b"former text"
        return b"former"

    run.stored_pages = SimpleNamespace(
        **vars(run.stored_pages),
        content_hash=content_hash,
        text_length=lambda page: before,
        document=lambda page: document_of("another text"),
        had_text=lambda number, text: False,
        last_changes=lambda: run.calls.append("look") or [(9, visit.parsed.text_hash, True)],
        last_documents=lambda longest: [],
    )

    assert read(run, visit) is None
    assert run.calls.count("look") == looks
    assert visit.outcome is (Outcome.UNPROCESSABLE if runs == 1 else Outcome.CHANGED)


def document_of(text: str, heading: str = "") -> Document:
    return Document(sections=(Section(1, heading, text),))


def replacing(known: reading.Replacements, number: int, document: Document, **given) -> bool:
    """Give a page, which had another text, a document."""
    page = Page(number, f"{URL}{number}", "a.example", 0)
    page.text_hash = b"former %d" % number
    visit = Visit(page, Outcome.CHANGED)
    visit.parsed.text_hash = document.text.encode()
    return known.is_repeated(visit, document, **({"withheld": False} | given))


def test_of_many_new_texts_those_that_still_come_are_kept_in_memory(monkeypatch):
    monkeypatch.setattr(reading, "_TEXTS", 2)
    pages = SimpleNamespace(document=lambda page: document_of(f"former {page.no}"))
    known = reading.Replacements(pages, due=False)
    found = [
        replacing(known, number, document_of(f"{text} We value your privacy. " * 20))
        for number, text in enumerate(("wall", "a", "wall", "b", "wall", "c", "wall"))
    ]

    assert found == [False, False, True, False, True, False, True]
    assert len(known._known) == 2, "memory is bounded"


@pytest.mark.parametrize(("length", "reads"), [(5_000, 1), (5_001, 0)])
def test_the_stored_document_is_not_read_for_a_long_new_text(length: int, reads: int):
    read: list[int] = []
    pages = SimpleNamespace(document=lambda page: read.append(page.no) or document_of("former"))

    assert not replacing(reading.Replacements(pages, due=False), 1, document_of("x" * length))
    assert len(read) == reads


def test_a_page_that_holds_the_text_below_another_heading_speaks_against_it():
    """In the run after the one that withheld the page; the page itself does not count."""
    wall = "We value your privacy. " * 20
    held: list[tuple[int, Document]] = [(1, document_of(wall, "Pears"))]
    pages = SimpleNamespace(
        document=lambda page: document_of(f"former {page.no}"),
        last_changes=list,
        last_documents=lambda longest: held if longest == 10_000 else [],
    )
    plums = document_of(wall, "Plums")

    assert replacing(reading.Replacements(pages, due=False), 2, plums, withheld=True)
    assert not replacing(reading.Replacements(pages, due=False), 2, plums)
    assert not replacing(reading.Replacements(pages, due=False), 1, plums, withheld=True)


def test_a_page_whose_headings_change_gets_no_text_and_is_kept_from_none():
    wall = "We value your privacy. " * 20
    former = {1: document_of(wall, "Pears"), 2: document_of("former")}
    pages = SimpleNamespace(document=lambda page: former[page.no])
    for order in ((1, 2), (2, 1)):
        known = reading.Replacements(pages, due=False)
        assert not any(replacing(known, number, document_of(wall, "Plums")) for number in order)
