"""Every spelling of an address that no crawl may connect to, at each endpoint that takes one."""

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.server.api_client import Call, application, ask_all, error_of
from tests.server.items.test_item_orders import ADD
from tests.server.stocked import UNLIMITED, Stocked, stocked
from tests.server.test_bad_jobs import LOOPBACK, METADATA, spellings

URLS = "/api/v1/frontier/urls"
ROBOTS = "/api/v1/robots"
#: A network around the service of metadata does not open it.
EVERYWHERE = tuple(map(ip_network, ("0.0.0.0/0", "::/0", "169.254.169.254/32")))
HOSTS = [host for octets in (LOOPBACK, METADATA) for host in spellings(octets)]
SEEDS = (
    "127.0.0.1", "[::ffff:7f00:1]", "[::7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
    "169.254.169.254", "[::ffff:a9fe:a9fe]", "[::a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]",
    "[2002:a9fe:a9fe::]",
)  # fmt: skip


@pytest.fixture(params=["sqlite"])
def stock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stocked]:
    """With a source whose scope has all of them."""
    seeds = ", ".join(f'"http://{host}/"' for host in SEEDS)
    (tmp_path / "sources.toml").write_text(f"[sources.inside]\nseeds = [{seeds}]\n")
    with stocked(request, tmp_path) as made:
        yield made


def posts(path: str, template: str) -> list[Call]:
    """Return one request for each spelling; ``template`` has the place of the host."""
    urls = [template.format(host) for host in HOSTS]
    bodies = [{"url": url} if path == ADD else {"urls": [{"url": url}]} for url in urls]
    return [("POST", path, {"json": body}) for body in bodies]


@pytest.mark.sqlite
@pytest.mark.covers("R2-34")
def test_no_spelling_of_a_private_address_is_posted(stock: Stocked, tmp_path: Path):
    calls = posts(URLS, "http://{}/x")

    refused = ask_all(stock.app, calls)
    waiting = stock.connection.execute("SELECT count(*) FROM pending_pin").get
    opened = {"registry": stock.place, "allow_networks": EVERYWHERE}
    taken = ask_all(application(tmp_path, run=opened, **UNLIMITED), calls)

    counts = ("added", "duplicates", "blocked")
    wrong = [
        (host, answer.text)
        for host, answer in zip(HOSTS, refused, strict=True)
        if answer.status_code != 400 and tuple(map(answer.json().get, counts)) != (0, 0, 1)
    ]
    assert wrong == []
    assert waiting == 0
    fit = [answer for answer in taken if answer.status_code == 200]
    assert len(fit) > 200  # only ALLOW_NETWORKS has kept them out
    assert [answer.text for answer in fit if answer.json()["blocked"]] == []


@pytest.mark.sqlite
@pytest.mark.covers("E-13")
def test_no_spelling_of_a_private_address_is_added(stock: Stocked):
    answers = ask_all(stock.app, posts(ADD, "http://{}/private-path"))

    wrong = [
        (host, answer.text)
        for host, answer in zip(HOSTS, answers, strict=True)
        if answer.status_code != 400
        or error_of(answer)["code"] != "INVALID_URL"
        or "private-path" in answer.text
    ]
    assert wrong == []


@pytest.mark.sqlite
@pytest.mark.covers("E-12")
def test_no_spelling_of_a_private_address_is_asked_for_its_robots_txt(stock: Stocked):
    answers = ask_all(stock.app, [("GET", f"{ROBOTS}/{quote(host)}") for host in HOSTS])

    wrong = [
        (host, answer.text)
        for host, answer in zip(HOSTS, answers, strict=True)
        if answer.status_code != 400
        and not error_of(answer)["details"]["reason"].startswith("address not allowed: ")
    ]
    assert wrong == []
