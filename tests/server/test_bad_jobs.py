"""Jobs that would harm: private seeds in any spelling, schedules, fields and headers."""

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import httpx
import pytest

from tests.server.api_client import Call, ask_all, error_of
from tests.server.jobs.conftest import JOBS, body
from tests.server.stocked import Stocked, stocked

LOOPBACK, METADATA = (127, 0, 0, 1), (169, 254, 169, 254)


@pytest.fixture(params=["sqlite", "postgres"])
def stock(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stocked]:
    with stocked(request, tmp_path) as made:
        yield made


def spellings(octets: tuple[int, int, int, int]) -> list[str]:
    """Return the hosts that a browser takes for an address of IPv4, and those that carry it."""
    a, b, c, d = octets
    forms = ("{}", "0{:o}", "0x{:x}", "0X{:X}", "0x0000{:x}", "000{:o}")
    found = {
        ".".join(form.format(part) for form, part in zip(mixed, octets, strict=True))
        for mixed in product(forms[:3], repeat=4)
    }
    for form in forms:
        found |= {
            form.format((a << 24) + (b << 16) + (c << 8) + d),
            f"{a}.{form.format((b << 16) + (c << 8) + d)}",
            f"{a}.{b}.{form.format((c << 8) + d)}",
        }
    plain = ".".join(map(str, octets))
    wide = plain.translate({ord(digit): ord(digit) + 0xFEE0 for digit in "0123456789"})
    circled = plain.translate({ord("0"): "⓪"} | {ord("1") + n: chr(0x2460 + n) for n in range(9)})
    found |= {f"{plain}.", wide, circled, plain.replace(".", "。"), plain.replace(".", "．")}
    found |= {plain.replace(".", "%2e"), "".join(f"%{ord(sign):x}" for sign in plain)}
    high, low = f"{(a << 8) + b:x}", f"{(c << 8) + d:x}"
    found |= {
        f"[::ffff:{plain}]", f"[::ffff:{high}:{low}]", f"[0:0:0:0:0:FFFF:{high}:{low}]",
        f"[::{plain}]", f"[64:ff9b::{high}:{low}]", f"[64:ff9b::{plain}]", f"[2002:{high}:{low}::]",
    }  # fmt: skip
    return sorted(found)


def refusal(answer: httpx.Response) -> tuple[int, str, str]:
    """Return status, code and field of an answer."""
    if answer.status_code != 400:
        return answer.status_code, "", ""
    error = error_of(answer)
    return 400, error["code"], error["details"].get("field", "")


def posted(stock: Stocked, bodies: list[dict]) -> list:
    calls: list[Call] = [("POST", JOBS, {"json": one}) for one in bodies]
    return ask_all(stock.app, calls)


@pytest.mark.covers("R2-25")
@pytest.mark.parametrize("octets", [LOOPBACK, METADATA], ids=["loopback", "metadata"])
def test_no_spelling_of_a_private_address_is_a_seed(stock: Stocked, octets):
    """Also at another port, in capitals, and among other seeds."""
    hosts = spellings(octets)
    assert len(hosts) > 100
    forms = (
        ["http://{}/private-path"],
        ["HTTPS://{}:8443/private-path"],
        ["https://docs.example.com/", "http:\\\\{}\\private-path"],
    )
    seeds = [
        [seed.format(host) for seed in forms[place % len(forms)]]
        for place, host in enumerate(hosts)
    ]
    calls: list[Call] = []
    for place, one in enumerate(seeds):
        sent = {"json": body("private", seed_urls=one)}
        replaced = ("PUT", f"{JOBS}/{stock.other_job}", sent)
        calls.append(("POST", JOBS, sent) if place % 4 else replaced)

    answers = ask_all(stock.app, calls)

    taken = [
        (one, answer.status_code, answer.text)
        for one, answer in zip(seeds, answers, strict=True)
        if refusal(answer)[:2] != (400, "INVALID_URL") or "private-path" in answer.text
    ]
    assert taken == []


SCHEDULES = (
    "* * * * *", "* * * * * *", "*/4 * * * *", "*/0 * * * *", "0 0 31 2 *", "0 0 30 2 *",
    "0 0 31 4,6,9,11 *", "@reboot", "@daily", "@every 1s", "", " ", "0", "0 0 * *",
    "0 0 * * * 2024", "60 * * * *", "0 24 * * *", "0 0 32 * *", "0 0 0 * *", "0 0 * 13 *",
    "0 0 * * 8", "-1 * * * *", "0 0 * * MOO", "1-0 * * * *", "0\n0 * * *", "0 0 * * *\n",
    "0 0 * * *;reboot", "$(id) 0 * * *", "٠ 0 * * *", "0 0 * * " + ",".join(["1"] * 10_000),
    "0," * 10_000 + "0 0 * * *", "0/1 * * * *", "0 0 L-99 * *",
    "0,1 0 * * *", "58 23,0 * * *,", "59,0 * * * *",
)  # fmt: skip


@pytest.mark.covers("G-13", "R2-25")
def test_a_schedule_that_never_or_always_fires_is_refused_at_once(stock: Stocked):
    """ATT-52: no search for the next time goes on and on."""
    bodies = [body("often", schedule={"type": "recurring", "cron": cron}) for cron in SCHEDULES]
    begun = time.process_time()

    answers = posted(stock, bodies)

    spent = time.process_time() - begun
    wrong = [
        (cron[:40], answer.status_code, answer.text)
        for cron, answer in zip(SCHEDULES, answers, strict=True)
        if refusal(answer) != (400, "INVALID_CONFIG", "cron")
    ]
    assert wrong == []
    assert spent < 5


OF_THE_SERVER = (
    "status", "tenant", "fence", "job_id", "id", "no", "created_at", "deleted_at", "due_at",
    "next_run", "owner", "declared", "complete", "settings", "_settings", "__class__", "Config",
    "version",
)  # fmt: skip
SETTINGS = (
    "DOWNLOAD_HANDLERS", "ITEM_PIPELINES", "FEEDS", "JOBDIR", "EXTENSIONS", "SPIDER_MODULES",
    "LOG_FILE", "DATA_DIR", "REGISTRY_URL", "REDIS_URL", "ALLOW_NETWORKS", "HTTPCACHE_ENABLED",
    "ROBOTSTXT_OBEY", "DOWNLOAD_DELAY", "settings", "proxy", "headers", "cookies", "Max_Depth",
)  # fmt: skip


@pytest.mark.covers("R2-21", "R2-25")
def test_nothing_of_the_server_can_be_set(stock: Stocked):
    """ATT-53: a known key only, and no settings of Scrapy."""
    harm: list[object] = ["file:///tmp/x", {"http": "os.system"}, 1, None]
    parts = ("config", "filters", "schedule")
    before = stock.connection.execute("SELECT count(*) FROM job").get
    bodies = [body("mine") | {name: harm[len(name) % 4]} for name in OF_THE_SERVER]
    bodies += [
        body("mine", **{part: {name: harm[place % 4]}})
        for place, (part, name) in enumerate(product(parts, SETTINGS))
    ]

    answers = posted(stock, bodies)

    wrong = [
        (one, answer.text)
        for one, answer in zip(bodies, answers, strict=True)
        if refusal(answer)[0] != 400
    ]
    assert wrong == []
    assert stock.connection.execute("SELECT count(*) FROM job").get == before


@pytest.mark.parametrize("part", ["", "config", "filters"])
def test_what_could_steal_a_secret_or_a_page_stands_in_files_only(stock: Stocked, part: str):
    keys = ("auth", "headers", "proxy", "obey_robots", "data_hosts", "data_posts", "visibility")
    bodies = [body("mine", **({part: {key: {}}} if part else {key: {}})) for key in keys]

    answers = posted(stock, bodies)

    told = [answer.json()["error"]["details"]["reason"] for answer in answers]
    assert told == [
        f"{key} stands in files only: declare the source in sources.toml" for key in keys
    ]


AGENTS = (
    "a\r\nX-Injected: 1", "a\nX-Injected: 1", "a\rX: 1", "a\x0bb", "a\x0cb", "a\x85b", "a\u2028b",
    "a\u2029b", "a\tb", "a\x7f", "\x1b[2J", " a", "a ", "", " ", "é", "a\u200bb", "a" * 257,
)  # fmt: skip


@pytest.mark.covers("R2-21", "R2-25")
def test_no_user_agent_adds_a_header(stock: Stocked):
    """ATT-19: it becomes a header of each request of a crawl."""
    answers = posted(stock, [body("agent", config={"user_agent": agent}) for agent in AGENTS])

    wrong = [
        (agent, answer.text)
        for agent, answer in zip(AGENTS, answers, strict=True)
        if refusal(answer) != (400, "INVALID_CONFIG", "user_agent")
    ]
    assert wrong == []
    assert all("X-Injected" not in answer.headers for answer in answers)
