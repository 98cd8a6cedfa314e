"""The answers of the routes that explain, as the OpenAPI describes them; tests compare both."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from smartcrawl.server.answers import EXAMPLE_HASH, Answer, Time

#: Pages whose links are read to find those that lead to a record.
MOST_LINKS_READ: Final = 200_000
#: Characters of a text that is shown.
MOST_TEXT: Final = 100_000


class LinksIn(Answer):
    """The pages that lead to a record."""

    count: int = Field(examples=[3])
    shown: list[dict[str, Any]] = Field(
        description="The first 20, each with `no` and `url`",
        examples=[[{"no": 3, "url": "https://docs.example.com/"}]],
    )
    whole: bool = Field(description=f"Whether all pages were read: at most {MOST_LINKS_READ:,} are")


class RecordStory(Answer):
    """The story of a record; other keys are those of a record of ``why --format json``."""

    model_config = ConfigDict(extra="allow")

    no: int = Field(description="Its number, which never changes", examples=[17])
    sentence: str = Field(
        examples=["Stored; last visit 2 h ago answered 304; next visit in the next run."]
    )
    record: dict[str, Any] = Field(description="As of `smartcrawl registry --format json`")
    standing: Literal["bare", "links", "held"] = Field(
        description="What is stored: nothing, its links, or its content"
    )
    decision: dict[str, Any] = Field(description="The rule that decided last, in words")
    history: list[dict[str, Any]] = Field(description="Its events, oldest first")
    removal: list[dict[str, Any]] = Field(description="What would remove it, and when")
    linksIn: LinksIn | None = Field(  # noqa: N815  # as the keys of why
        description="Null unless `links_in=true`"
    )
    text: str | None = Field(
        description="Its text as it is indexed, in Markdown, of at most"
        f" {MOST_TEXT:,} characters; null unless `text=true`, and where nothing is stored"
    )


class RecordHead(Answer):
    """A record of an address."""

    no: int = Field(examples=[17])
    source: str = Field(examples=["docs"])
    url: str = Field(examples=["https://docs.example.com/guide"])
    sentence: str


class NearMiss(Answer):
    """A record whose address differs in scheme, slash, query or www. only."""

    no: int = Field(examples=[17])
    source: str = Field(examples=["docs"])
    url: str = Field(examples=["https://docs.example.com/guide/"])


class RefusedAddress(Answer):
    """A source that leaves an address out."""

    source: str = Field(examples=["docs"])
    why: str = Field(examples=["excluded_patterns has /private/"])


class WaitingAddress(Answer):
    """A source whose next run requests an address."""

    source: str = Field(examples=["docs"])
    at: Time = Field(description="When it was posted")
    priority: int = Field(examples=[5])


class AddressStory(Answer):
    """All that is known of an address."""

    url: str = Field(examples=["https://docs.example.com/guide"])
    id: str = Field(examples=["url_k7gxn3"])
    sentence: str = Field(examples=["Not known. No source has it in its scope."])
    records: list[RecordHead] = Field(description="One for each source that has it")
    posted: list[WaitingAddress]
    inScopeOf: list[str] = Field(  # noqa: N815  # likewise
        description="Of an unknown address: the sources whose scope has it"
    )
    listedBy: list[str] = Field(  # noqa: N815  # likewise
        description="Those of them that find it by a listing only"
    )
    refusedBy: list[RefusedAddress] = Field(  # noqa: N815  # likewise
        description="Of an unknown address: the sources that would leave it out"
    )
    nearMisses: list[NearMiss] = Field(  # noqa: N815  # likewise
        description="Of an unknown address: records that may be meant"
    )


class LoginDecision(Answer):
    """What the login of a source does with an address."""

    isSent: bool = Field(description="Whether it gets the credentials")  # noqa: N815  # likewise
    logsOut: bool = Field(  # noqa: N815  # likewise
        description="Whether a request would end the session, so that it is left out"
    )


class SourceDecision(Answer):
    """What a source would do with an address."""

    source: str = Field(examples=["docs"])
    isTaken: bool  # noqa: N815  # likewise
    text: str = Field(
        description="The decision in words",
        examples=["left out: disallowed by robots.txt, line 2: '/private/'"],
    )
    scope: dict[str, Any] = Field(
        description="`allowed` by scope and patterns, else `why` not",
        examples=[{"allowed": True, "why": None}],
    )
    robots: dict[str, Any] | None = Field(
        description="What the stored robots.txt says, as in `why`; null: there is no copy yet"
    )
    robotsText: str | None = Field(description="The same in words")  # noqa: N815  # likewise
    login: LoginDecision | None = Field(description="Null: the source has no login")
    mode: Literal["index", "links_only", "none"] = Field(
        description="How its page is indexed, by the patterns of the source"
    )


class KnownAs(Answer):
    """A record of an address."""

    no: int = Field(examples=[17])
    source: str = Field(examples=["docs"])


class AddressDecision(Answer):
    """What becomes of an address that is tried."""

    url: str = Field(description="As it is requested", examples=["https://docs.example.com/guide"])
    isAddress: bool = Field(  # noqa: N815  # likewise
        description="Whether it can be crawled at all; else `sentence` says why not"
    )
    sentence: str = Field(examples=["Taken by docs."])
    records: list[KnownAs] = Field(description="Those that it has")
    sources: list[SourceDecision] = Field(description="Those that have its host in scope")


class Decisions(Answer):
    """What becomes of addresses that are tried, each once."""

    decisions: list[AddressDecision]


class PreviewHeading(Answer):
    """A heading of a page."""

    level: int = Field(examples=[1])
    text: str = Field(examples=["Guide"])


class PreviewLink(Answer):
    """A link of a page."""

    url: str = Field(examples=["https://docs.example.com/next"])
    text: str = Field(examples=["Next"])
    inScope: bool | None = Field(  # noqa: N815  # likewise
        description="Whether the source has it in its scope; null without a source"
    )


class PreviewLinks(Answer):
    """The links of a page."""

    count: int
    shown: list[PreviewLink] = Field(description="The first 200")


class PreviewDropped(Answer):
    """The lines of a page that are left out."""

    count: int
    shown: list[str] = Field(
        description="The first 300: menus, footers, remarks, and what repeats on its host",
        examples=[["Home", "Log in"]],
    )


class PreviewDocument(Answer):
    """What is read of a page."""

    title: str = Field(examples=["Guide"])
    language: str | None = Field(description="ISO 639-1", examples=["en"])
    description: str
    headings: list[PreviewHeading]
    text: str = Field(description=f"As Markdown, at most {MOST_TEXT:,} characters")
    links: PreviewLinks
    dropped: PreviewDropped


class Preview(Answer):
    """A page as it would be indexed."""

    url: str = Field(description="As it is requested", examples=["https://docs.example.com/guide"])
    source: str | None = Field(examples=["docs"])
    isFetched: bool = Field(description="Whether an answer came")  # noqa: N815  # likewise
    isIndexed: bool = Field(  # noqa: N815  # likewise
        description="Whether its text would be indexed"
    )
    sentence: str = Field(
        description="What came of it, or why it was not requested",
        examples=["It is indexed like this."],
    )
    withLogin: bool = Field(  # noqa: N815  # likewise
        description="Whether it gets the credentials of the source"
    )
    withBrowser: bool = Field(  # noqa: N815  # likewise
        description="Whether its text is that which a browser shows"
    )
    status: int | None = Field(examples=[200])
    contentType: str | None = Field(examples=["text/html"])  # noqa: N815  # likewise
    bytes: int | None = Field(description="Of its body", examples=[45_678])
    redirect: str | None = Field(description="Where it leads, which is not requested")
    document: PreviewDocument | None = Field(description="Null where nothing is read of it")


EXAMPLE_ORDER: Final = "ro_5d0c1f6a2b3e4d7c"


class OrderedRemoval(Answer):
    """An approval of withheld removals, an undo of removals, or a page that is forgotten."""

    order_id: str = Field(examples=[EXAMPLE_ORDER])
    source: str = Field(examples=["docs"])
    action: Literal["approve", "undo", "forget", "lost", "orphans"] = Field(
        description="`lost` and `orphans` remove such pages"
    )
    run: int = Field(
        description="Number of the run of the removals; of a forgotten page, of the run whose undo"
        " brings it back",
        examples=[17],
    )
    max: int | None = Field(description="Pages that are removed at most", examples=[10])
    pin: bool = Field(description="Whether an undo keeps the pages, even if no page links there")
    url: str | None = Field(
        description="The page that is forgotten", examples=["https://docs.example.com/old"]
    )
    by: str = Field(
        description="Name and id of the API key, `without a key`, or `command line`",
        examples=["Anna (0b5d9a6c1e2f)"],
    )
    status: Literal["waiting", "running", "ended"]
    created_at: Time
    ended_at: Time | None = Field(description="Null before its end")
    result: dict[str, Any] | None = Field(
        description="Null before its end, and if it was not carried out. Numbers of pages, and in"
        " `urls` what became of the first 100 of each kind",
        examples=[{"removed": 10, "left": 3, "stay": 0, "undoRun": 17, "urls": []}],
    )
    reasons: list[str] = Field(
        description="Why it was not carried out", examples=[["docs is being crawled"]]
    )


class RemovalRuleCount(Answer):
    """The pages that one rule removes."""

    rule: str = Field(examples=["gone"])
    text: str = Field(examples=["the server answers that the page is gone"])
    count: int = Field(examples=[12])


class RemovablePage(Answer):
    """A page that may be removed; keys are those of `smartcrawl orphans --format json`."""

    no: int = Field(description="Its record", examples=[17])
    url: str = Field(examples=["https://docs.example.com/old"])
    source: str = Field(examples=["docs"])
    status: str = Field(examples=["Indexed"])
    rule: str = Field(examples=["orphan"])
    text: str = Field(description="The rule in words", examples=["no page links to it any more"])
    why: str | None = Field(description="The evidence", examples=["no link leads to it"])
    orphanAge: int = Field(  # noqa: N815  # as the keys of orphans
        description="Complete runs in a row without it", examples=[3]
    )
    lastOutcome: str | None = Field(examples=["orphaned"])  # noqa: N815  # likewise
    httpStatusCode: int | None = Field(examples=[404])  # noqa: N815  # likewise
    reachedRun: int | None = Field(examples=[12])  # noqa: N815  # likewise
    lastChecked: Time | None  # noqa: N815  # likewise
    withheldRun: int | None = Field(examples=[17])  # noqa: N815  # likewise
    removable: bool = Field(description="Whether an approval removes it")
    stays: str | None = Field(
        description="Why it stays", examples=["it was reached or answered since"]
    )


class RemovablePages(Answer):
    """Pages of one source that may be removed."""

    count: int = Field(examples=[37])
    removable: int = Field(description="Those that the command removes", examples=[35])
    rules: list[RemovalRuleCount]
    sample: list[RemovablePage] = Field(description="From `offset` on, `limit` of them")


class SourceRemovals(Answer):
    """The pages of one source that wait for an approval, are lost, or are orphaned."""

    source: str = Field(examples=["docs"])
    stored: int = Field(description="Its stored pages", examples=[120])
    run: int | None = Field(
        description="The run to approve; null: nothing can be approved", examples=[17]
    )
    why: str | None = Field(
        description="Why the removals wait, in words",
        examples=["one run removes at most 10% of a source's pages and 10 of them"],
    )
    waiting: RemovablePages = Field(description="Removals that wait for approval")
    lost: RemovablePages = Field(
        description="Stored pages that now return an error, and do not wait; `removable` are those"
        " that `smartcrawl deltamerge -D` removes"
    )
    orphans: RemovablePages = Field(description="Stored pages without a link, that do not wait")


class RemovedPages(Answer):
    """The pages that were removed under the number of one run."""

    run: int = Field(examples=[17])
    source: str = Field(examples=["docs"])
    removed: int = Field(examples=[12])
    undone: int = Field(description="Those that were restored", examples=[0])
    restorable: int = Field(description="Those that an undo restores", examples=[12])
    removed_at: Time = Field(description="When the last of them was removed")
    until_at: Time = Field(description="When its undo expires")


class RemovalsPagination(Answer):
    """The place of each sample in its list."""

    offset: int = Field(examples=[0])
    limit: int = Field(examples=[10])


class AllRemovals(Answer):
    """Removals that wait, removals that can be undone, and who ordered what."""

    sources: list[SourceRemovals]
    removed: list[RemovedPages] = Field(description="Newest run first, at most 100")
    orders: list[OrderedRemoval] = Field(description="The last 20, newest first")
    pagination: RemovalsPagination


class RunRow(Answer):
    """A run; other keys are those of `smartcrawl runs --format json`."""

    model_config = ConfigDict(extra="allow")

    run: int = Field(examples=[17])
    source: str = Field(examples=["docs"])
    state: str = Field(examples=["swept"])
    complete: bool
    reasons: list[str] = Field(description="Why it was not complete", examples=[["max_pages"]])
    notes: list[str] = Field(description="What it left out or did not believe")


class RunsPagination(Answer):
    """The place of a page in its list."""

    total: int = Field(examples=[17])
    offset: int = Field(examples=[0])
    limit: int = Field(examples=[20])


class Runs(Answer):
    """A page of runs, newest first."""

    runs: list[RunRow]
    pagination: RunsPagination


class RunReason(Answer):
    """A reason why a run was not complete."""

    reason: str = Field(examples=["max_pages"])
    text: str = Field(
        description="With the setting or command that helps",
        examples=["max_pages (raise or leave out max_pages to crawl everything)"],
    )


class RunNote(Answer):
    """A note of a run."""

    note: str = Field(examples=["login: https://docs.example.com/a"])
    text: str = Field(
        description="Its meaning",
        examples=["a login form came instead of the page; the stored content stays"],
    )


class RunProgress(Answer):
    """The progress of a run, as committed."""

    visited: int = Field(examples=[120])
    waiting: int = Field(description="Reached, and not visited; 0 once it is over", examples=[30])
    words: dict[str, int] = Field(examples=[{"new": 3, "unchanged": 117}])
    share304: float | None = Field(description="Of the conditional requests", examples=[0.97])
    bytesDownloaded: int = Field(examples=[45_678])  # noqa: N815  # as the keys of runs
    hosts: int = Field(examples=[1])
    seconds: int = Field(description="Since it began; to its end", examples=[60])
    pagesPerSecond: float | None = Field(  # noqa: N815  # likewise
        description="Mean of the last minute; null once it is over", examples=[2.5]
    )
    estimatedEnd: Time | None = Field(  # noqa: N815  # likewise
        description="If no further page is found; null once it is over"
    )
    likelyEnd: Time | None = Field(  # noqa: N815  # likewise
        description="If as many pages are found as in the last ten minutes; null: not known, pages"
        " are found as fast as they are done, or it is over"
    )
    endText: str | None = Field(  # noqa: N815  # likewise
        description="The same in words; null once it is over", examples=["in about 5 min"]
    )
    hostsNow: list[dict[str, Any]] = Field(  # noqa: N815  # likewise
        description="The first 100 hosts of an open run: `delayMs`, `inFlight`, `parkedUntil`,"
        " `pausedUntil`, `down`, `retryAfter`"
    )


class RunStory(RunRow):
    """A run with its progress, reasons, and the runs around it."""

    isRunning: bool = Field(  # noqa: N815  # likewise
        description="Whether a process is at work on it: an open run without one has died"
    )
    why: list[RunReason]
    meanings: list[RunNote]
    progress: RunProgress
    before: RunRow | None = Field(description="The run of its source before it")
    after: int | None = Field(description="The number of the next run of its source")
    log: str | None = Field(
        description="The `jb_` id under which the log is; null: no job ran it",
        examples=["jb_5d0c1f6a2b3e4d7c"],
    )
    orders: list[OrderedRemoval] = Field(description="Its approvals and undos, newest first")


class RunSample(Answer):
    """The counts of a run since it began, as of a commit."""

    at: Time
    seconds: int = Field(description="Since the run began", examples=[10])
    visited: int = Field(description="Pages done", examples=[120])
    waiting: int = Field(description="Pages reached, and not visited", examples=[30])
    requests: int = Field(examples=[125])
    notModified: int = Field(description="As in runs", examples=[117])  # noqa: N815  # as the keys of runs
    failed: int = Field(description="Pages", examples=[1])
    bytesDownloaded: int = Field(examples=[45_678])  # noqa: N815  # likewise


class RunSamples(Answer):
    """Samples of the progress of a run, from its begin to its end."""

    run: int = Field(examples=[17])
    startedAt: Time  # noqa: N815  # as the keys of runs
    finishedAt: Time | None = Field(description="Null while it is open")  # noqa: N815  # likewise
    isRunning: bool = Field(description="As in runs")  # noqa: N815  # likewise
    everySeconds: int = Field(  # noqa: N815  # as the keys of runs
        description="From one sample to the next; twice as many each time that they are thinned",
        examples=[10],
    )
    samples: list[RunSample] = Field(description="At most 360, oldest first")


class RunLogEnd(Answer):
    """The end of the log of a run."""

    run: int = Field(examples=[17])
    isRunning: bool = Field(description="As in runs")  # noqa: N815  # as the keys of runs
    level: Literal["INFO", "WARNING", "ERROR"] | None = Field(
        description="The lowest level of its lines; null: all of them", examples=["WARNING"]
    )
    isHere: bool = Field(description="Whether this machine has it")  # noqa: N815  # likewise
    sentence: str | None = Field(description="Why it is not here; null: it is")
    lines: list[str] = Field(
        description="Oldest first; lines without a level belong to the one before them",
        examples=[["2024-01-20 10:00:00,000 [smartcrawl] WARNING: 3 pages failed"]],
    )


class RunPage(Answer):
    """A page of a list of a run."""

    no: int = Field(description="Its record", examples=[17])
    url: str = Field(examples=["https://docs.example.com/guide"])
    at: Time | None = Field(description="When it was found, changed, lost or removed, or failed")
    why: str | None = Field(
        description="What the server answered, the rule of a removal, or why it failed",
        examples=["answered 404"],
    )


class RunPagesPagination(Answer):
    """The place of a page in its list."""

    offset: int = Field(examples=[0])
    limit: int = Field(examples=[100])
    more: bool = Field(description="Whether more follow")


class RunPages(Answer):
    """Pages of a run."""

    pages: list[RunPage]
    pagination: RunPagesPagination


class LookAt(Answer):
    """A fact that deserves a look."""

    text: str = Field(examples=["12 withheld: removals waiting for approval"])
    command: str | None = Field(
        description="The command that lists or resolves it",
        examples=["smartcrawl orphans --source docs"],
    )


class RunCounts(Answer):
    """Changes that a run found."""

    run: int = Field(examples=[17])
    new: int = Field(examples=[3])
    modified: int = Field(examples=[5])
    lost: int = Field(examples=[0])
    removed: int = Field(examples=[0])


class Figure(Answer):
    """A figure, or several, in words."""

    label: str = Field(examples=["stored"])
    text: str = Field(examples=["120, of them 1 lost"])


class StatusFigures(Answer):
    """Figures; other keys are those of `smartcrawl status --format json`."""

    model_config = ConfigDict(extra="allow")

    pages: int = Field(examples=[130])
    held: int = Field(description="Stored pages", examples=[120])
    figures: list[Figure] = Field(description="All of them, in the words of `smartcrawl status`")


class SourceFacts(StatusFigures):
    """A source, and what deserves a look."""

    source: str = Field(examples=["docs"])
    verdict: str = Field(examples=["fresh; complete; healthy"])
    isWell: bool = Field(description="Whether it is all three")  # noqa: N815  # as those of status
    isRunning: bool = Field(description="Whether a crawl is at work")  # noqa: N815  # likewise
    freshness: dict[str, Any] | None = Field(
        description="What its budget buys, under the keys of `smartcrawl status`; null: it has none"
    )
    look: list[LookAt]
    runs: list[RunCounts] = Field(description="Its last ten runs that ended, oldest first")


class Sources(Answer):
    """The sources that were crawled."""

    at: Time = Field(description="The time of these figures")
    sources: list[SourceFacts]
    total: StatusFigures


class HostRow(Answer):
    """A host; other keys are those of `smartcrawl hosts --format json`."""

    model_config = ConfigDict(extra="allow")

    host: str = Field(examples=["docs.example.com"])
    pages: int = Field(examples=[120])
    errorRate: float = Field(examples=[0.01])  # noqa: N815  # as the keys of hosts
    blocked: bool


class Hosts(Answer):
    """A page of the hosts, by name."""

    hosts: list[HostRow]
    pagination: RunsPagination


class ChangedHeadingWords(Answer):
    """A heading below which lines changed."""

    heading: str = Field(
        description="With those above it; empty: before the first", examples=["Install > Linux"]
    )
    wordsAdded: int = Field(examples=[30])  # noqa: N815  # as the keys of changes, here and below
    wordsRemoved: int = Field(examples=[4])  # noqa: N815


class ChangedTextLine(Answer):
    """A line that came or went."""

    sign: Literal["+", "-"]
    text: str = Field(description="At most 120 characters", examples=["© 2026 Lamp Works"])
    pages: int = Field(description="Pages on which it changed", examples=[1])


class PageChange(Answer):
    """A change of a page, or one that many pages share."""

    source: str = Field(examples=["docs"])
    run: int = Field(examples=[17])
    at: Time = Field(examples=["2024-01-20T10:30:00Z"])
    kind: Literal["shared", "new", "modified", "moved", "lost", "removed", "came back"]
    no: int | None = Field(description="The number of its record", examples=[17])
    urlHash: str | None = Field(examples=[EXAMPLE_HASH])  # noqa: N815
    url: str | None = Field(
        description="Null of what many pages share", examples=["https://docs.example.com/guide"]
    )
    title: str | None = Field(examples=["Guide"])
    formerUrl: str | None = Field(  # noqa: N815
        description="Of a moved page", examples=["https://docs.example.com/old"]
    )
    why: str | None = Field(examples=["answered 404"])
    pages: int = Field(examples=[1])
    share: float | None = Field(
        description="Words that came and went, of those of both texts; null: not known",
        examples=[0.12],
    )
    wordsAdded: int | None = Field(examples=[30])  # noqa: N815
    wordsRemoved: int | None = Field(examples=[4])  # noqa: N815
    headings: list[ChangedHeadingWords]
    moreHeadings: int = Field(examples=[0])  # noqa: N815
    lines: list[ChangedTextLine] = Field(description="The first and last changed lines")
    moreLines: int = Field(examples=[0])  # noqa: N815
    formerTitle: str | None = Field(  # noqa: N815
        description="The former title, if it changed", examples=["Guide (draft)"]
    )


class ChangesPagination(Answer):
    """The place in a list of changes."""

    limit: int = Field(examples=[100])
    next_cursor: str | None = Field(description="Null on the last page")


class Changes(Answer):
    """A page of changes, newest run first."""

    changes: list[PageChange]
    pagination: ChangesPagination


class PageVersionFacts(Answer):
    """A version of a page."""

    run: int = Field(description="The run that stored it", examples=[17])
    at: Time = Field(examples=["2024-01-20T10:30:00Z"])


class DiffPartText(Answer):
    """A part of a line."""

    text: str = Field(examples=["red"])
    changed: bool


class DiffLineParts(Answer):
    """A line of a difference."""

    sign: Literal["+", "-", " "]
    parts: list[DiffPartText]


class DiffHunkLines(Answer):
    """Changed lines, with three lines around them."""

    heading: str = Field(examples=["Install > Linux"])
    oldLine: int = Field(examples=[12])  # noqa: N815
    oldLines: int = Field(examples=[7])  # noqa: N815
    newLine: int = Field(examples=[12])  # noqa: N815
    newLines: int = Field(examples=[7])  # noqa: N815
    lines: list[DiffLineParts]


class PageDiff(Answer):
    """What changed in the text of a page."""

    source: str = Field(examples=["docs"])
    no: int = Field(examples=[17])
    urlHash: str = Field(examples=[EXAMPLE_HASH])  # noqa: N815
    url: str = Field(examples=["https://docs.example.com/guide"])
    title: str | None = Field(examples=["Guide"])
    before: PageVersionFacts
    after: PageVersionFacts
    share: float = Field(examples=[0.12])
    wordsAdded: int = Field(examples=[30])  # noqa: N815
    wordsRemoved: int = Field(examples=[4])  # noqa: N815
    hunks: list[DiffHunkLines]
    moreLines: int = Field(description="Changed lines left out", examples=[0])  # noqa: N815
    coarse: bool = Field(description="Whether long parts are shown as replaced")
    cut: bool = Field(description="Whether the end of a text is left out")


class LibraryStatus(Answer):
    """The status of a library; the keys are those of a source."""

    held: int = Field(description="Stored items", examples=[120])
    verdict: str = Field(examples=["fresh; complete; healthy"])
    isWell: bool  # noqa: N815  # as those of a source
    look: list[LookAt]
    lastRun: dict[str, Any] | None  # noqa: N815  # likewise


class LibrarySteps(Answer):
    """Numbers of items that a step still has to do, or could not."""

    download: int = Field(description="Items without a file", examples=[0])
    process: int = Field(description="Files that could not be converted", examples=[1])
    embed: int = Field(description="Files that no vector store has", examples=[3])


class LibrarySource(Answer):
    """A library, a list, or the pages of a site."""

    source: str = Field(examples=["DOMAIN01.source01"])
    sourceId: str = Field(examples=["source01"])  # noqa: N815  # as results of libraries
    sourceType: Literal["file_sources", "list_sources", "sitepage_sources"]  # noqa: N815  # likewise
    siteUrl: str = Field(examples=["https://contoso.sharepoint.com/sites/a"])  # noqa: N815  # likewise
    status: LibraryStatus | None = Field(description="Null before its first crawl")
    items: int = Field(examples=[120])
    files: int = Field(description="On the disk", examples=[120])
    owed: LibrarySteps
    embedFailed: int = Field(  # noqa: N815  # likewise
        description="Files that a vector store refused", examples=[0]
    )


class LibraryReportFile(Answer):
    """The archive of a crawl of a domain."""

    reportId: str = Field(  # noqa: N815  # likewise
        examples=["crawls/2026-05-04_03-00-12_DOMAIN01_all_incremental"]
    )
    scope: str = Field(examples=["all"])
    mode: str = Field(examples=["incremental"])
    endedAt: Time  # noqa: N815  # likewise
    bytes: int = Field(examples=[12_345])


class LibraryDomain(Answer):
    """A domain of document libraries."""

    domainId: str = Field(examples=["DOMAIN01"])  # noqa: N815  # likewise
    name: str = Field(examples=["Demo"])
    description: str
    vectorStore: str | None = Field(description="Its name", examples=["demo"])  # noqa: N815  # likewise
    problem: str | None = Field(description="Why its domain.json cannot be read; else null")
    sources: list[LibrarySource] = Field(description="Those that the key reads")
    reports: list[LibraryReportFile] = Field(
        description="The last five; empty for a key that reads some sources only"
    )


class Libraries(Answer):
    """The domains of document libraries."""

    at: Time = Field(description="The time of these figures")
    domains: list[LibraryDomain]
