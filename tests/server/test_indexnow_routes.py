"""Notices of IndexNow: the key file of the host decides, and visits come forward (R1-53)."""

import asyncio
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from smartcrawl.registry.connection import transaction
from smartcrawl.server import indexnow
from smartcrawl.server.indexnow import KeyFileDownload
from smartcrawl.server.keys import Scope, make_api_key
from smartcrawl.sources.web_client import WebError
from tests.connect_proxy import ConnectProxy
from tests.index.meanings import desk_at
from tests.registry.build import Desk
from tests.registry.spare import Spare
from tests.server.api_client import application, ask, ask_all, error_of
from tests.server.data.origins import Origin, plain

NOW = 1_750_000_000
KEY, OTHER = "0123-4567", "89ab-cdef"
PAGE, SECOND = "https://docs.example/guide", "https://docs.example/second"
SECRET = "https://docs.example/secret"  #: of a private source, at the host of a public one
WIKI = "https://wiki.example/page"  #: at a host of a private source alone
PATH = "/indexnow"


class Net:
    """Key files by address, in place of the web; and the addresses that were asked."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {f"https://docs.example/{KEY}.txt": KEY.encode()}
        self.asked: list[str] = []
        self.pause = 0.0  #: seconds before each answer

    async def body(self, url: str) -> bytes:
        self.asked.append(url)
        await asyncio.sleep(self.pause)
        if url not in self.files:
            raise WebError("status 404")
        return self.files[url]


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Net:
    net = Net()

    async def body(self: KeyFileDownload, url: str) -> bytes:
        return await net.body(url)

    monkeypatch.setattr(KeyFileDownload, "body", body)
    return net


class Served:
    """A registry with a public and a private source, and what serves it."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.place: Path | str = url or folder / "registry.db"
        self.desk = desk_at(url) if url else Desk(folder / "registry.db")
        self.now = float(NOW)
        for source, pages in (("docs", [PAGE, SECOND]), ("wiki", [SECRET, WIKI])):
            self.desk.source = source
            self.desk.open(now=NOW)
            for page in pages:
                self.desk.index(page, f"a text of {page}")
            self.desk.seal(now=NOW)
        with transaction(self.desk.connection):
            for statement in (
                "UPDATE source SET visibility = 'private' WHERE name = 'wiki'",
                f"UPDATE state SET next_visit = {NOW + 900}",
            ):
                self.desk.connection.execute(statement).fetchall()

    def app(self, **changed: object) -> ASGIApp:
        run = {"registry": self.place, **changed.pop("run", {})}  # type: ignore[dict-item]
        given = {"takes_indexnow": True} | changed
        return application(self.folder, clock=lambda: self.now, run=run, **given)

    def visits(self) -> dict[str, int]:
        """When each page is due, as seconds after NOW."""
        rows = self.desk.rows("SELECT url, next_visit FROM record JOIN state USING (no)")
        return {url.rpartition("/")[2]: at - NOW for url, at in rows}


@pytest.fixture(params=["sqlite", "postgres"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Served]:
    url, spare = "", None
    if request.param == "postgres":
        spare = request.getfixturevalue("spare_registries")
        url = spare.take()
    made = Served(tmp_path, url)
    yield made
    made.desk.close()
    if isinstance(spare, Spare):
        spare.put_back(url)


def notice(url: str = PAGE, key: str = KEY, **more: str) -> tuple[str, str, dict[str, Any]]:
    return "GET", PATH, {"params": {"url": url, "key": key, **more}}


def listed(urls: list[str], **more: str) -> tuple[str, str, dict[str, Any]]:
    body = {"host": "docs.example", "key": KEY, "urlList": urls} | more
    return "POST", PATH, {"json": body}


@pytest.mark.covers("R1-53")
def test_a_notice_brings_the_visit_of_a_known_page_forward(served: Served, net: Net):
    (answer,) = ask_all(served.app(), [notice()])

    said = {"verified": True, "due": 1, "offered": 0, "ignored": []}
    assert (answer.status_code, answer.json()) == (200, said)
    assert served.visits() == {"guide": 0, "second": 900, "secret": 900, "page": 900}
    served.now += 100
    assert ask(served.app(), *notice()[:2], **notice()[2]).json()["due"] == 1
    assert served.visits()["guide"] == 0, "a visit is never put off"


def test_a_list_of_ten_thousand_names_each_address_that_does_not_count(served: Served, net: Net):
    new = [f"https://docs.example/new/{number}" for number in range(9_997)]
    sent = [PAGE, SECOND, *new, "https://www.docs.example/"]

    (answer,) = ask_all(served.app(), [listed(sent)])

    assert answer.status_code == 200
    found = answer.json()
    assert found["due"] == 2
    assert found["ignored"][0] == {"url": "https://www.docs.example/", "reason": "other_host"}
    assert found["ignored"][1] == {"url": new[0], "reason": "unknown"}
    assert len(found["ignored"]) == 9_998
    assert served.visits()["second"] == 0
    (refused,) = ask_all(served.app(), [listed([*sent, PAGE])])
    assert (refused.status_code, error_of(refused)["details"]["field"]) == (400, "urlList")


#: Each with its status and the field of its error; that with a key that the host lacks is last.
REFUSED = [
    (notice(key="short"), 422, "key"),
    (notice("/relative"), 400, "url"),
    (notice("https://else.example/"), 422, "url"),
    (notice(WIKI), 422, "url"),  # of a private source
    (notice(keyLocation="https://else.example/k.txt"), 422, "keyLocation"),
    (notice(keyLocation=f"https://docs.example/sub/{KEY}.txt"), 422, "url"),
    (("GET", PATH, {"params": {"url": PAGE}}), 400, "key"),
    (("GET", PATH, {"params": {"url": PAGE, "key": KEY, "more": "1"}}), 400, "more"),
    (listed([]), 400, "urlList"),
    (listed(["https://else.example/"]), 422, "urlList"),
    (listed([WIKI], host="wiki.example"), 422, "host"),
    (listed([PAGE], host="else.example"), 422, "urlList"),
    (notice(key=OTHER), 403, "key"),
]


def test_other_notices_are_refused_and_change_nothing(served: Served, net: Net):
    """ATT-72."""
    answers = ask_all(served.app(), [call for call, _, _ in REFUSED])

    found = [(one.status_code, error_of(one)["details"]["field"]) for one in answers]
    assert found == [(status, field) for _, status, field in REFUSED]
    assert set(served.visits().values()) == {900}
    assert net.asked == [f"https://docs.example/{OTHER}.txt"]


def test_a_host_is_asked_for_one_key_file_in_ten_minutes(served: Served, net: Net):
    app = served.app()
    answers = ask_all(app, [notice(), notice(SECOND), notice(key=OTHER), notice(key=OTHER)])

    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    assert answers[2].headers["Retry-After"] == "601"
    assert len(net.asked) == 1
    served.now += 600
    assert [one.status_code for one in ask_all(app, [notice(key=OTHER), notice()])] == [403, 200]
    assert len(net.asked) == 2


def test_a_notice_is_answered_before_a_slow_host_is_and_counts_afterwards(
    served: Served, net: Net, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(indexnow, "ANSWER_SECONDS", 0.01)
    net.pause = 1.0

    async def send() -> list[int]:
        transport = httpx.ASGITransport(served.app(), client=("127.0.0.1", 5))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            answers = [
                await http.request(method, path, **given)
                for method, path, given in (notice(), notice(SECOND), notice(key=OTHER))
            ]
            said = {"verified": False, "due": 0, "offered": 0, "ignored": []}
            assert answers[0].json() == said
            for _ in range(200):
                if served.visits()["guide"] == served.visits()["second"] == 0:
                    break
                await asyncio.sleep(0.02)
            return [answer.status_code for answer in answers]

    assert asyncio.run(send()) == [202, 202, 429]
    assert (served.visits()["guide"], served.visits()["second"]) == (0, 0)
    assert len(net.asked) == 1


def test_what_private_sources_have_is_unknown_and_not_due(served: Served, net: Net):
    net.files[f"https://wiki.example/{KEY}.txt"] = KEY.encode()
    (answer,) = ask_all(served.app(), [listed([SECRET, PAGE])])

    assert answer.json()["ignored"] == [{"url": SECRET, "reason": "unknown"}]
    assert served.visits()["secret"] == 900
    with transaction(served.desk.connection):
        text, _ = make_api_key(
            served.desk.connection, "w", Scope.OPERATE, NOW, sources=["docs", "wiki"]
        )
    keyed = {"headers": {"Authorization": f"Bearer {text}"}}
    calls = [(method, path, given | keyed) for method, path, given in (notice(SECRET),
             notice(WIKI))]  # fmt: skip
    assert [answer.json()["due"] for answer in ask_all(served.app(), calls)] == [1, 1]
    assert (served.visits()["secret"], served.visits()["page"]) == (0, 0)


DECLARED = """
[sources.docs]
seeds = ["https://docs.example/"]
excluded_patterns = ["/old/"]

[sources.wiki]
seeds = ["https://wiki.example/", "https://docs.example/secret"]
"""
NEW = "https://docs.example/new"


def waiting(served: Served) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in served.desk.rows(
        "SELECT source, url, pinned FROM pending_pin ORDER BY source, url"
    )]  # fmt: skip


def declared(served: Served, **changed: object) -> ASGIApp:
    path = served.folder / "sources.toml"
    path.write_text(DECLARED)
    return served.app(run={"sources_file": path}, **changed)


def test_new_addresses_in_scope_are_offered_to_the_next_run(served: Served, net: Net):
    """They are no seeds, and what no source takes is unknown."""
    app = declared(served)
    out = [
        "https://docs.example/old/x",  # the source leaves it out
        f"{NEW}/3?access_token=8c1f",  # a secret is not stored
    ]

    answers = ask_all(app, [listed([PAGE, NEW, *out]), listed([NEW, f"{NEW}/2"]), notice(NEW)])

    first, second, third = (answer.json() for answer in answers)
    assert (first["due"], first["offered"]) == (1, 1)
    assert [one["reason"] for one in first["ignored"]] == ["unknown"] * len(out)
    assert (second["offered"], second["ignored"]) == (2, [])  # one of them waits already
    assert (third["due"], third["offered"]) == (0, 1)
    assert waiting(served) == [("docs", NEW, 0), ("docs", f"{NEW}/2", 0)]
    assert served.visits() == {"guide": 0, "second": 900, "secret": 900, "page": 900}


def test_the_new_addresses_that_wait_for_a_source_are_bounded(
    served: Served, net: Net, monkeypatch: pytest.MonkeyPatch
):
    """ATT-72."""
    monkeypatch.setattr(indexnow, "MOST_OFFERED", 2)

    answers = ask_all(declared(served), [listed([f"{NEW}/{n}" for n in range(3)]), notice(PAGE)])

    first = answers[0].json()
    assert first["offered"] == 2
    assert first["ignored"] == [{"url": f"{NEW}/2", "reason": "full"}]
    assert answers[1].json()["due"] == 1
    assert len(waiting(served)) == 2


def test_nothing_is_offered_to_a_source_that_the_caller_does_not_read(served: Served, net: Net):
    """ATT-72: the address is in the scope of a private source, too."""
    app = declared(served)
    new = "https://docs.example/secret/new"

    (answer,) = ask_all(app, [notice(new)])
    assert answer.json()["offered"] == 1
    assert [source for source, _, _ in waiting(served)] == ["docs"]
    (refused,) = ask_all(declared(served), [listed([f"{NEW}/of-a-stranger"], key=OTHER)])
    assert (refused.status_code, len(waiting(served))) == (403, 1)


def test_it_is_off_unless_it_was_switched_on(served: Served, net: Net):
    app = served.app(takes_indexnow=False)
    answers = ask_all(app, [notice(), listed([PAGE]), ("POST", PATH, {"json": {}})])

    assert [answer.status_code for answer in answers] == [404] * 3
    assert error_of(answers[0])["details"]["reason"].endswith("set API_INDEXNOW to take them")
    keyed = served.app(takes_indexnow=False, host="0.0.0.0")
    assert ask(keyed, "GET", PATH).status_code == 401
    assert net.asked == []


def test_it_takes_no_api_key_and_no_page_of_another_site_can_send_it(served: Served, net: Net):
    of_proxy = {"X-Forwarded-For": "192.0.2.1", "Host": "crawl.example.com", "X-Smartcrawl": ""}
    others = [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
    method, path, given = notice()
    for host in ("127.0.0.1", "0.0.0.0"):
        app = served.app(host=host)
        calls = [(method, path, given | {"headers": one}) for one in ({}, of_proxy, *others)]
        elsewhere = ("GET", "/api/v1/sources", {"headers": of_proxy})

        answers = ask_all(app, [*calls, elsewhere])

        assert [one.status_code for one in answers] == [200, 200, 403, 403, 401], host


def test_its_requests_are_counted_by_address_and_its_body_is_bounded(served: Served, net: Net):
    app = served.app(jobs_limit=2)
    long = [f"{PAGE}?{'x' * 1_000}{number}" for number in range(2_000)]
    assert ask_all(app, [listed(long)])[0].status_code == 200
    assert ask_all(app, [listed(long * 3)])[0].status_code == 413
    assert error_of(ask_all(app, [notice()])[0])["code"] == "RATE_LIMITED"


def test_the_key_file_is_asked_by_the_guard_and_no_redirect_leads_inwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(indexnow, "ANSWER_SECONDS", 60.0)  # else a busy machine has 202
    loopback = {"allow_networks": (ip_network("127.0.0.1/32"),)}
    with Origin() as site, Origin() as inside:
        inside.answers["/key.txt"] = plain(KEY.encode())
        served = Served(tmp_path, "")
        page = f"http://{site.host}/page"
        served.desk.source = "loopback"
        served.desk.open(now=NOW)
        served.desk.index(page, "a text")
        served.desk.seal(now=NOW)
        ports = {"allow_ports": frozenset({80, 443, site.port, inside.port})}
        call = notice(page)
        (refused,) = ask_all(served.app(run=ports), [call])
        assert (refused.status_code, site.asked) == (403, [])

        leads = f"Location: http://{inside.host}/key.txt"
        site.answers[f"/{KEY}.txt"] = plain(b"", leads, status="302 Found")
        (refused,) = ask_all(served.app(run=loopback | ports), [call])
        assert "a redirect leads elsewhere" in error_of(refused)["details"]["reason"]
        assert inside.asked == []

        site.answers[f"/{KEY}.txt"] = plain(KEY.encode())
        (taken,) = ask_all(served.app(run=loopback | ports), [call])
        assert (taken.status_code, taken.json()["due"]) == (200, 1)
        assert site.asked == [f"GET /{KEY}.txt HTTP/1.1"] * 2
        served.desk.close()


@pytest.mark.parametrize("given", ["address", "variable", "no variable"])
def test_the_key_file_is_asked_by_the_proxy_of_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
):
    """The host is known to the proxy alone."""
    monkeypatch.setattr(indexnow, "ANSWER_SECONDS", 60.0)  # else a busy machine has 202
    with Origin() as site, ConnectProxy({"inside.example": site.port}, "secret") as proxy:
        served = Served(tmp_path, "")
        page = "http://inside.example/page"
        served.desk.source = "inside"
        served.desk.open(now=NOW)
        served.desk.index(page, "a text")
        served.desk.seal(now=NOW)
        monkeypatch.setenv("INSIDE_PROXY", proxy.url if given != "no variable" else "")
        place = f"http://{proxy.place}" if given == "address" else "INSIDE_PROXY"
        if given == "address":
            proxy.password = None
        (tmp_path / "sources.toml").write_text(
            f'[sources.inside]\nseeds = ["http://inside.example/"]\nproxy = "{place}"\n'
        )
        site.answers[f"/{KEY}.txt"] = plain(KEY.encode())
        run = {"allow_networks": (ip_network("127.0.0.0/8"),)}

        (answer,) = ask_all(served.app(run=run), [notice(page)])

        served.desk.close()
        if given == "no variable":
            reason = error_of(answer)["details"]["reason"]
            assert (answer.status_code, site.asked) == (403, [])
            assert "the proxy of its source cannot be had" in reason
            assert "INSIDE_PROXY" not in reason
            return
        assert (answer.status_code, answer.json()["due"]) == (200, 1)
        assert [one.status for one in proxy.log] == [200]
