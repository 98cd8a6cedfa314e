"""A site that changes, and a model of what may become of it: pure Python, from docs/decisions.md.

`World` answers like a web server. `Model` is told which answers were committed, in which run, and
says what a true registry holds after that; it knows no SQL, no batches and no clones.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import count

HOST = "http://a.example/"
OUTSIDE = "http://elsewhere.example/"
LONG = "These words are here to make the text long enough to be believed as equal content. " * 3
#: Texts by content: three long enough for clones, one short, one of no words at all.
WORDS = ("alpha", "bravo", "charlie", "delta", "")
TEXTS = (f"alpha {LONG}", f"bravo {LONG}", f"charlie {LONG}", "delta is short", "")

NOTHING, LINKS, HELD = 0, 1, 2  #: what the registry holds of a page
TEMPORARY = frozenset({302, 303, 307})
PASSING = frozenset({408, 425, 429, *range(500, 600)})
SPOKEN = frozenset({200, 304, 301, 302, 303, 307, 308, 404, 410})
ANSWERING = frozenset({200, 304}) | TEMPORARY  #: what says that an orphan lacks only its links
SMALL = 3  #: pages with content; a larger site may not lose half of them
HOPS = 5
DOUBTFUL = 1214  #: status of a page whose new text waits: other pages got it in the same run


def url_of(page: int) -> str:
    """The address of a page of the world; -1 lies outside of the source."""
    return OUTSIDE if page < 0 else f"{HOST}p{page}"


@dataclass(frozen=True)
class Answer:
    """What one address answers: a page, a status, a redirect, nothing, or robots.txt forbids it."""

    kind: str = "page"  #: page, status, redirect, silent, robots
    content: int = 0
    links: tuple[int, ...] = ()
    noindex: str = ""  #: meta, header; 406 is said with the status
    canonical: int | None = None
    etag: bool = True
    status: int = 200
    target: int = -1

    def __repr__(self) -> str:
        """The shortest spelling that can be pasted into a test."""
        default = Answer()
        told = {
            name: value for name, value in vars(self).items() if value != getattr(default, name)
        }
        return f"Answer({', '.join(f'{name}={value!r}' for name, value in told.items())})"

    @property
    def leads(self) -> tuple[int, ...]:
        """Where the body leads."""
        return self.links if self.canonical is None else (*self.links, self.canonical)

    @property
    def body(self) -> bytes:
        """The page as HTML; its links have no words, so equal texts are equal contents."""
        head = '<meta name="robots" content="noindex">' if self.noindex == "meta" else ""
        if self.canonical is not None:
            head += f'<link rel="canonical" href="{url_of(self.canonical)}">'
        anchors = "".join(f'<a href="{url_of(link)}"></a>' for link in self.links)
        title, text = WORDS[self.content].title(), TEXTS[self.content]
        return (
            f'<html lang="en"><head><title>{title}</title>{head}</head>'
            f"<body><p>{text}</p>{anchors}</body></html>"
        ).encode()

    @property
    def validator(self) -> str | None:
        """The ETag of that body."""
        if not self.etag or self.status == 406:
            return None
        meta = self.noindex == "meta"
        return f'"{self.content}-{self.links}-{self.canonical}-{meta}"'.replace(" ", "")

    @property
    def indexable(self) -> bool:
        """Whether it is a page that may be found by a search."""
        return self.kind == "page" and self.status == 200 and not self.noindex


@dataclass
class Choices:
    """What the operator chose."""

    lost_threshold: int = 2
    orphan_threshold: int = 2
    max_ratio: float = 1.0
    min_count: int = 10
    remove_excluded: bool = False


@dataclass
class Known:
    """What the model knows of one address."""

    standing: int = NOTHING
    content: int | None = None
    links: tuple[int, ...] = ()  #: that it vouches for
    canonical: int | None = None
    named: int | None = None  #: what its body names as canonical, in scope or not
    etag: str | None = None
    lost: int = 0
    gone: int = 0
    seen: int = 0  #: last run that reached it and was allowed to ask
    visited: int = 0
    said: str = ""  #: ok, noindex, redirect, robots, doubtful or another, in that run
    status: int | None = None  #: of that answer
    target: int = -1
    moved_to: int | None = None  #: where it redirected to, in the scope of that visit
    new: int = 0  #: run in which it came
    met: int = 0  #: run that met its address
    tomb: bool = False
    held_ever: bool = False
    pinned: bool = False


@dataclass(frozen=True)
class Effect:
    """A visit that is decided, and not committed yet."""

    page: int
    answer: Answer
    status: int | None
    said: str
    targets: tuple[int, ...]
    aside: bool


def chain(start: int, leads: dict[int, int]) -> list[int] | None:
    """Where the steps from a page lead, in order; None for a circle, -1 for the outside."""
    passed: list[int] = []
    here = start
    while here in leads:
        here = leads[here]
        if here == start or here in passed:
            return None
        passed.append(here)
    return passed


def stand_in(no: int, leads: dict[int, int], indexed: Callable[[int], bool]) -> int | None:
    """The page that another stands aside for: the last indexed one on the way, never itself."""
    passed: list[int] = []
    here = no
    while here in leads:
        here = leads[here]
        if here == no:
            return None
        if here in passed:
            del passed[passed.index(here) + 1 :]
            break
        passed.append(here)
    if len(passed) > HOPS:
        return None
    return next((other for other in reversed(passed) if indexed(other)), None)


@dataclass
class Model:
    """What a registry must hold, given what was committed."""

    choices: Choices
    pages: dict[int, Known] = field(default_factory=dict)
    run: int = 0
    complete_runs: list[int] = field(default_factory=list)
    asked_seeds: set[int] = field(default_factory=set)
    asked_pins: set[int] = field(default_factory=set)
    shut: frozenset[int] = frozenset()  #: addresses that the scope leaves out
    reached: set[int] = field(default_factory=set)
    visits: int = 0
    silent: int = 0
    probes: dict[int, int | None] = field(default_factory=dict)
    proposed: dict[int, str] = field(default_factory=dict)
    #: What the guard withheld before: why, and the run that proposed it first.
    withheld: dict[int, tuple[str, int]] = field(default_factory=dict)
    removed: dict[int, dict[int, tuple[str, Known]]] = field(default_factory=dict)
    history: list[str] = field(default_factory=list)

    def in_scope(self, page: int) -> bool:
        """Whether an address belongs to the source."""
        return page >= 0 and page not in self.shut

    # A run begins

    def open(self, run: int) -> None:
        """A run is there: the one before, or a new one."""
        if run != self.run:
            self.run = run
            self.visits = self.silent = 0
            self.reached, self.probes = set(), {}
            self.asked_seeds, self.asked_pins = set(), set()

    def reach(self, pages: Iterable[int]) -> None:
        """Seeds or links lead to pages; those in scope are to be visited."""
        for page in pages:
            if self.in_scope(page):
                self.pages.setdefault(page, Known(met=self.run))
                self.reached.add(page)

    def hand_on(self, among: Container[int] | None = None) -> None:
        """A resumed run follows the links of what it visited, as far as today's scope goes."""
        for page in list(self.pages.values()):
            if page.visited == self.run and page.said != "robots":
                self.reach(no for no in page.links if among is None or no in among)

    # One visit

    def judge(self, no: int, answer: Answer, status: int | None) -> Effect:
        """Say what an answer means, and for which links the page vouches now."""
        page = self.pages.get(no, Known())
        own = page.links if page.standing else ()
        aside = False
        if answer.kind == "robots":
            said, targets = "robots", ()
        elif answer.kind == "silent":
            said, targets = "silent", page.links
        elif answer.kind == "redirect" and answer.target == no:
            said, targets = "loop", page.links
        elif answer.kind == "redirect":
            said, targets = "redirect", (*own, answer.target)
        elif answer.kind == "status" and status in PASSING:
            said, targets = "passing", page.links
        elif answer.kind == "status":
            said, targets = ("missing" if status in (404, 410) else "error"), own
        elif status == 304:
            assert page.standing, f"a 304 about {no}, of which nothing is held"
            assert page.etag == answer.validator, f"a 304 confirmed another body of {no}"
            hidden = answer.noindex == "header" and page.standing == HELD
            said, targets = ("noindex" if hidden else "ok"), page.links
        elif not answer.indexable:
            said, targets = "noindex", (*answer.leads, *(own if page.standing == HELD else ()))
        else:
            said, targets = "ok", answer.leads
            named = answer.canonical
            aside = (
                page.standing == LINKS
                and named is not None
                and named == page.canonical
                and self.in_scope(named)
                and self.leads_to_indexed(named, no)
            )
        return Effect(no, answer, status, said, tuple(t for t in targets if t != no), aside)

    def doubt(self, effect: Effect) -> Effect:
        """Say what becomes of an answer that waits until the queue of its run is empty.

        Its page keeps what it had. Its old links count when it is withheld at last (``hand_on``).
        """
        assert self.pages[effect.page].standing == HELD, f"{effect.page} has no text to keep"
        assert effect.said == "ok", f"{effect.page} waits with the answer {effect.said}"
        return replace(effect, status=DOUBTFUL, said="doubtful", targets=(), aside=False)

    def leads_to_indexed(self, named: int, origin: int) -> bool:
        """Whether what a page names leads to one that is held and not lost."""
        leads = {}
        for no, page in self.pages.items():
            leads[no] = page.canonical if page.standing else page.moved_to
        leads = {no: target for no, target in leads.items() if target is not None}
        found = stand_in(origin, leads | {origin: named}, self._is_indexed)
        return found is not None

    def _is_indexed(self, no: int) -> bool:
        page = self.pages.get(no)
        return page is not None and page.standing == HELD and not page.lost

    def commit(self, effect: Effect) -> None:
        """A visit is in the registry."""
        page, answer = self.pages[effect.page], effect.answer
        self.history.append(f"run {self.run}: {effect.page} {effect.status} {answer!r}")
        if page.visited == self.run:  # the answer that waited is taken as an edit
            assert page.said == "doubtful", f"{effect.page} was visited twice in run {self.run}"
            assert effect.said != "doubtful", f"{effect.page} waits for ever in run {self.run}"
            self.visits -= 1
            self.silent -= 1
        self.visits += 1
        self.silent += effect.said in ("silent", "loop", "doubtful") or (
            effect.said == "passing" and (effect.status == 429 or effect.status >= 500)
        )
        page.visited, page.said = self.run, effect.said
        if effect.said != "robots":
            page.seen = self.run
        if effect.status is not None:
            page.status = effect.status
        page.target = answer.target if effect.said == "redirect" else -1
        if effect.said not in ("silent", "robots", "passing", "doubtful"):
            page.moved_to = page.target if self.in_scope(page.target) else None
        self.reach(effect.targets)
        held = page.standing == HELD
        if held and effect.said != "robots" and (effect.said != "ok" or effect.status == 304):
            named = page.named  # its links are filtered by today's scope, and so is this one
            page.canonical = named if named is not None and self.in_scope(named) else None
        match effect.said:
            case "missing":
                page.lost += held
                page.gone += 1
                if not page.standing:
                    page.links = ()
                    page.tomb = page.tomb or page.gone >= self.choices.lost_threshold
            case "loop":
                page.lost += held
            case "error":
                page.lost += held
                if not page.standing:
                    page.links = ()
            case "redirect" if not page.standing:
                page.lost = page.gone = 0
                page.links, page.tomb = (answer.target,), False
            case "noindex":
                page.lost = page.gone = 0
                if not held and effect.status != 304:
                    page.standing, page.content, page.canonical = LINKS, None, None
                    page.links, page.tomb = answer.leads, False
                    page.etag = None if answer.noindex == "header" else answer.validator
            case "ok":
                page.lost = page.gone = 0
                page.tomb = False
                if effect.status == 304:
                    return
                page.etag, page.links = answer.validator, answer.leads
                if not effect.aside:
                    if not held:
                        page.new = self.run
                    page.standing, page.content, page.held_ever = HELD, answer.content, True
                    page.named = None if answer.canonical == effect.page else answer.canonical
                    page.canonical = page.named
                    if page.named is not None and not self.in_scope(page.named):
                        page.canonical = None

    # A run ends

    @property
    def complete(self) -> bool:
        """Whether the run saw everything."""
        return (
            bool(self.visits)
            and all(self._seed_answered(seed) for seed in self.asked_seeds)
            and all(self._spoke(pin) for pin in self.asked_pins)
            and self.silent <= 0.1 * self.visits
            and all(self.pages[no].visited == self.run for no in self.reached)
        )

    def _spoke(self, no: int) -> bool:
        page = self.pages[no]
        return page.visited == self.run and page.said not in ("silent", "loop", "doubtful")

    def _seed_answered(self, no: int | None) -> bool:
        for _ in range(HOPS + 1):
            page = self.pages.get(no)
            if page is None or page.visited != self.run:
                return False
            if page.said != "redirect":
                return page.said in ("ok", "noindex") and page.status in (200, 304)
            no = page.moved_to
        return False

    def seal(self) -> bool:
        """The run is over; propose what it did not reach. Returns whether it is complete."""
        self.proposed = {}
        if not self.complete:
            return False
        for no, page in self.pages.items():
            if not page.standing or page.seen == self.run:
                continue
            age = sum(run > page.seen for run in self.complete_runs) + 1
            absent = age >= max(1, self.choices.orphan_threshold - page.gone)
            forbidden = no in self.probes and self.probes[no] is None
            if forbidden or page.visited == self.run or not self.in_scope(no):
                if absent:
                    self._propose(no, "excluded")
            elif (absent and self.probes.get(no) in SPOKEN) or self._lost_and_absent(no, age):
                self._propose(no, "orphan")
        self.complete_runs.append(self.run)
        return True

    def _lost_and_absent(self, no: int, age: int) -> bool:
        """Whether a page was lost, then absent, is lost still, and its host answers otherwise."""
        page, answer, choices = self.pages[no], self.probes.get(no), self.choices
        redirects = SPOKEN - {200, 304, 404, 410}
        errors = (404, 410, 403, 1002)  # 1002: a redirect to the page itself
        lost = answer in errors or (answer in redirects and page.status in redirects)
        alive = any(
            other.visited == self.run and other.said in ("ok", "noindex") and other.status != 406
            for other in self.pages.values()
        )
        if page.lost:
            enough = age >= max(1, choices.orphan_threshold - page.lost)
        else:
            enough = age >= choices.orphan_threshold + choices.lost_threshold
        return bool(lost and alive and enough)

    def _propose(self, no: int, rule: str) -> None:
        if not self.pages[no].pinned or rule in ("gone", "not acceptable"):
            self.proposed.setdefault(no, rule)

    def _answered(self, no: int) -> bool:
        """Whether a page answered 200 or 304 in this run, and is indexed."""
        page = self.pages.get(no)
        return (
            page is not None
            and page.visited == self.run
            and page.said == "ok"
            and page.standing == HELD
            and page.lost == 0
        )

    def settle(self) -> None:
        """Judge the redirects and propose everything else that may be removed."""
        choices = self.choices
        here = {no: page for no, page in self.pages.items() if page.visited == self.run}
        moves = {no: page for no, page in here.items() if page.said == "redirect"}
        hops = {no: page.moved_to for no, page in moves.items() if page.moved_to is not None}
        aside = {
            no: page.canonical
            for no, page in here.items()
            if page.said == "ok" and page.standing == LINKS and page.canonical is not None
        }
        temporary = {no for no, page in moves.items() if page.status in TEMPORARY}
        doors = set()  # what a page with content is asked to enter by, for the moment
        for no, page in moves.items():
            if page.standing == HELD:
                doors.update(temporary.intersection((no, *self._way(no, hops | aside))))
        crowds = Counter(moves[no].target for no in doors)
        walled = {no for no in temporary if crowds[moves[no].target] > 1}
        if choices.max_ratio >= 1:
            walled = set()
        moved, away = [], set()
        for no, page in moves.items():
            passed = chain(no, hops | aside)
            held = page.standing == HELD
            if passed is None or len(passed) > HOPS:
                page.lost += held
                page.status = 1002 if passed is None else 1004
            elif passed and self._answered(passed[-1]) and walled.isdisjoint((no, *passed)):
                moved.append(no)
                page.lost = page.gone = 0
            elif self._is_missing(no, passed, moves):
                if page.standing:
                    page.lost += held
                    page.gone += 1
                    page.status = self.pages[passed[-1]].status
                    away.add(no)
            elif page.status in TEMPORARY:
                page.lost += held
            elif page.standing and self._left(no, passed, moves, temporary):
                page.lost += held
                page.gone += 1
                away.add(no)
            elif page.standing:
                page.lost = page.gone = 0
        for no, page in here.items():
            gone = page.said == "missing" or no in away
            if gone and page.standing and page.gone >= choices.lost_threshold:
                self._propose(no, "gone")
            if page.said == "noindex" and page.standing == HELD:
                self._propose(no, "not acceptable")
            if page.said == "robots" and page.standing and choices.remove_excluded:
                self._propose(no, "excluded")
        if choices.remove_excluded:
            for no in self.shut:
                if no in self.pages and self.pages[no].standing and no not in here:
                    self._propose(no, "excluded")
        for no in moved:
            if self.pages[no].standing:
                self._propose(no, "redirect")
        self._canonicals({no: hops[no] for no in moved})
        self._guard()

    def _left(
        self, no: int, passed: list[int], moves: dict[int, Known], temporary: set[int]
    ) -> bool:
        """Whether permanent redirects alone lead out of the source, or to what is excluded."""
        way = (no, *passed)
        if not temporary.isdisjoint(way) or any(hop not in moves for hop in way[:-1]):
            return False
        end = self.pages[way[-1]]
        if way[-1] in moves:
            return not self.in_scope(end.target)
        return end.visited == self.run and end.said == "robots"

    def _is_missing(self, no: int, passed: list[int], moves: dict[int, Known]) -> bool:
        """Whether redirects of any kind lead to what answered 404 or 410."""
        if not passed or any(hop not in moves for hop in (no, *passed[:-1])):
            return False
        end = self.pages[passed[-1]]
        return passed[-1] not in moves and end.visited == self.run and end.said == "missing"

    def _way(self, no: int, leads: dict[int, int]) -> list[int]:
        """Where the steps from a page lead, in a circle, too."""
        passed: list[int] = []
        while no in leads and leads[no] not in passed:
            no = leads[no]
            passed.append(no)
        return passed

    def _canonicals(self, hops: dict[int, int]) -> None:
        names = {
            no: page.canonical
            for no, page in self.pages.items()
            if page.standing and page.canonical is not None
        }
        pages = sum(page.standing > 0 for page in self.pages.values())
        most = max(self.choices.min_count, 0.2 * pages)
        flooded = {no for no, times in Counter(names.values()).items() if times > most}
        leads = hops | {no: target for no, target in names.items() if target not in flooded}
        for no, target in names.items():
            page = self.pages[no]
            if page.standing == LINKS and not self.leads_to_indexed(target, no):
                page.etag = None  # it is asked anew, to be indexed itself
            if page.visited != self.run or page.said != "ok" or page.standing != HELD:
                continue
            if target not in flooded and stand_in(no, leads, self._answered) is not None:
                self._propose(no, "canonical")

    def _guard(self) -> None:
        def came_now(no: int) -> bool:
            return self.pages[no].new == self.run and self.pages[no].visited == self.run

        choices = self.choices
        if choices.max_ratio >= 1:
            return
        waiting = [
            run for no, (rule, run) in self.withheld.items() if self.proposed.get(no) == rule
        ]
        orphans = {no for no, rule in self.proposed.items() if rule == "orphan"}
        # All addresses, then those from before: what came since does not release the others.
        ends = {self.run + 1, *(self.pages[no].seen + 1 for no in orphans)}
        ends |= {min(waiting)} if waiting else set()
        for end in ends:
            known = {
                no
                for no, page in self.pages.items()
                if page.standing and page.met < end and not came_now(no)
            }
            content = {no for no in known if self.pages[no].standing == HELD}
            answering = {no for no in content & orphans if self.probes.get(no) in ANSWERING}
            going = known & self.proposed.keys()
            answers = len(content) > 1 and 2 * len(answering) >= len(content)
            half = len(content) > SMALL and 2 * len(content & going) >= len(content)
            if going and (
                answers or half or self._loses_too_many(content) or self._loses_too_many(known)
            ):
                self.proposed = {}
                return

    def _loses_too_many(self, pages: set[int]) -> bool:
        """Whether a sweep takes all of two or more pages, or more than both limits allow."""
        removals, choices = len(pages & self.proposed.keys()), self.choices
        return (removals > 1 and removals >= len(pages)) or (
            removals > choices.min_count and removals > choices.max_ratio * len(pages)
        )

    def remove(self, no: int) -> None:
        """The sweep removed a page."""
        rule, page = self.proposed[no], self.pages[no]
        self.history.append(f"run {self.run}: {no} removed ({rule})")
        self.removed.setdefault(self.run, {})[no] = rule, copy(page)
        page.content, page.lost, page.gone = None, 0, 0
        page.etag = page.etag if rule == "canonical" else None
        if rule in ("not acceptable", "canonical"):
            page.standing = LINKS
            page.canonical = page.canonical if rule == "canonical" else None
        else:
            page.standing, page.canonical = NOTHING, None
            page.links = (page.target,) if rule == "redirect" else ()
            page.tomb = rule == "gone"

    def undo(self, run: int, *, pin: bool) -> set[int]:
        """The removals of a run are undone; return what is held again."""
        restored = set()
        for no, (_, was) in self.removed.pop(run, {}).items():
            page = self.pages[no]
            if page.standing == HELD:
                continue
            page.standing, page.content, page.links = was.standing, was.content, was.links
            page.canonical, page.etag, page.tomb = was.canonical, was.etag, False
            page.named = was.named
            page.moved_to = was.moved_to
            page.lost = page.gone = 0
            page.seen = self.run
            page.pinned = page.pinned or pin
            restored.add(no)
        self.history.append(f"undo of run {run}: {sorted(restored)}")
        return restored


# What a healthy site comes to, whatever happened before


def healed(answers: dict[int, Answer], shut: Container[int] = ()) -> dict[int, Answer]:
    """The world with an end to all trouble: what would keep old content for ever answers again."""
    found = dict(answers)
    if not found[0].indexable:
        found[0] = Answer(links=tuple(no for no in found if no))  # a seed must answer
    for no, answer in found.items():
        if answer.kind == "silent" or (answer.kind == "status" and answer.status not in (404, 410)):
            found[no] = Answer(content=no % 3)
        elif answer.status == 406:  # it holds the removal of an orphan for ever
            found[no] = replace(answer, status=200, noindex="meta")
    for _ in found:
        hops = {no: a.target for no, a in found.items() if a.kind == "redirect"}
        names = {
            no: a.canonical
            for no, a in found.items()
            if a.indexable and a.canonical not in (None, no, *shut)
        }
        for no in hops:
            passed = chain(no, hops)
            end = found.get(passed[-1]) if passed and len(passed) <= HOPS else None
            far = len(chain(no, hops | names) or ()) > HOPS
            barred = any(hop in shut for hop in passed or ())  # what is excluded leads nowhere
            if end is None or far or not end.indexable or barred:
                found[no] = Answer(content=no % 3)
                break
    return found


def healthy(
    answers: dict[int, Answer], seeds: Iterable[int], shut: Container[int] = ()
) -> dict[int, int | None]:
    """What a settled registry holds of a healed world: content by page, None for links only."""
    reached, waiting = set(), list(seeds)
    while waiting:
        no = waiting.pop()
        if no < 0 or no in shut or no in reached or no not in answers:
            continue
        reached.add(no)
        answer = answers[no]
        if answer.kind == "page":
            waiting += answer.leads
        elif answer.kind == "redirect":
            waiting.append(answer.target)
    seen = {no: answers[no] for no in reached}
    leads = {no: a.target for no, a in seen.items() if a.kind == "redirect"}
    leads |= {
        no: a.canonical
        for no, a in seen.items()
        if a.indexable and a.canonical not in (None, no) and a.canonical in reached
    }
    held: dict[int, int | None] = {}
    for no, answer in seen.items():
        if answer.kind != "page":
            continue
        aside = stand_in(no, leads, lambda other: seen[other].indexable) is not None
        held[no] = answer.content if answer.indexable and not aside else None
    return held


# Histories, decoded from small numbers so that they shrink to nothing


def answer_of(code: int, pages: int) -> Answer:
    """Decode an answer; 0 is a page without links."""
    digits = (code // 7**place % 7 for place in count())
    kind, content, shape = next(digits), next(digits), next(digits)
    links = tuple(dict.fromkeys(next(digits) % pages for _ in range(shape % 4)))
    other = next(digits) * 7 + next(digits)
    target = other % pages
    content = (0, 1, 0, 2, 3, 0, 4)[content]
    match kind:
        case 0 | 1 | 2:
            return Answer(content=content, links=links, etag=other % 5 != 4)
        case 3:
            extra = ({"noindex": "meta"}, {"noindex": "header"}, {"status": 406})
            special = {"canonical": target} if shape < 4 else extra[shape - 4]
            return Answer(content=content, links=links, **special)
        case 4:
            status = (301, 302, 301, 308, 307, 301, 301)[content + shape % 3]
            return Answer("redirect", status=status, target=-1 if other == 48 else target)
        case 5:
            return Answer("status", status=(404, 410, 404, 404, 503, 403, 404)[shape])
        case _:
            return Answer(("silent", "robots", "status")[shape % 3], status=(404, 503)[other % 2])
