"""Seeds over the API are not given by hand: only ALLOW_NETWORKS opens private addresses."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.crawls.commands import Crawl
from tests.crawls.test_attacks_addresses import _ELSEWHERE, _HERE
from tests.crawls.test_crawl_jobs import create, start
from tests.server.api_client import application, ask, error_of
from tests.server.jobs.conftest import JOBS, body
from tests.site_server import Site

#: Names are looked up when the crawl connects.
NAMES = {"localhost", "LOCALHOST"}
HOSTS = sorted({host for host, _ in (*_HERE.values(), *_ELSEWHERE.values())} - NAMES)


@pytest.mark.long(but=8)
@pytest.mark.parametrize("method", ["POST", "PUT"])
@pytest.mark.parametrize("host", HOSTS)
def test_no_spelling_of_a_private_address_is_a_seed(tmp_path: Path, host: str, method: str):
    app = application(tmp_path)
    path = JOBS
    if method == "PUT":
        path += f"/{ask(app, 'POST', JOBS, json=body()).json()['job_id']}"

    answer = ask(app, method, path, json=body(seed_urls=[f"http://{host}/secret"]))

    error = error_of(answer)
    assert (answer.status_code, error["code"]) == (400, "INVALID_URL")
    assert error["details"]["field"] == "seed_urls"
    assert "secret" not in answer.text


@pytest.mark.parametrize(("network", "status"), [("127.0.0.0/8", 201), ("10.0.0.0/8", 400)])
def test_allow_networks_opens_them(tmp_path: Path, network: str, status: int):
    app = application(tmp_path, run={"allow_networks": (ip_network(network),)})

    answer = ask(app, "POST", JOBS, json=body(seed_urls=["http://127.0.0.1/", "http://0x7f.1/"]))

    assert answer.status_code == status


@pytest.mark.parametrize("allowed", [False, True])
def test_a_name_is_judged_by_what_it_resolves_to(crawl: Crawl, site: Site, allowed: bool):
    create(crawl, site, host="localhost")
    if allowed:
        crawl.environment |= {"ALLOW_NETWORKS": "127.0.0.0/8,::1"}

    start(crawl, expect=0 if allowed else 3)

    assert bool(site.log) is allowed


def test_no_later_crawl_takes_the_seeds_of_a_job_for_given_by_hand(crawl: Crawl, site: Site):
    """`due` refreshes sources that began with an address by hand; a job is none of them."""
    create(crawl, site, host="localhost")
    start(crawl, expect=3)

    for command in (["due"], ["due", "--source", "docs"]):
        crawl.run(*command, expect=None)

    assert site.log == []
