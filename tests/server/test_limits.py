"""Limits of requests a minute: counted for each client, reported by every answer (R2-06…08)."""

from pathlib import Path

import pytest
from fastapi import APIRouter

from smartcrawl.server.app import VERSIONS, Version, create_app
from smartcrawl.server.bodies import LIMIT
from smartcrawl.server.context import Context
from smartcrawl.server.limits import RateClass, RequestCounts, api_rate_class
from tests import servers
from tests.choices import options
from tests.server.api_client import application, ask, ask_all, error_of, server_options

NOW = 1_640_000_030.5  #: within a minute
RESET = 1_640_000_040  #: its end; 1,640,000,040 is a multiple of 60


def add_routes(_: Context, router: APIRouter) -> None:
    @router.get("/broken")
    def broken() -> None:
        raise ZeroDivisionError

    @router.post("/orders")
    def order() -> None:
        pass


WITH_FAULTS = (*VERSIONS, Version("/api/v1", (add_routes,)))


def limits_of(answer) -> tuple[int, int, int]:
    names = ("Limit", "Remaining", "Reset")
    return tuple(int(answer.headers[f"X-RateLimit-{name}"]) for name in names)


@pytest.mark.covers("R2-06")
@pytest.mark.parametrize(
    ("method", "path", "given", "status"),
    [
        ("GET", "/health", {}, 200),
        ("POST", "/api/v1/orders", {"content": b"{"}, 400),
        ("GET", "/health", {"headers": {"X-API-Key": "sc_wrong"}}, 401),
        ("GET", "/health", {"headers": {"Host": "a.example"}}, 403),
        ("GET", "/nothing", {}, 404),
        ("DELETE", "/health", {}, 405),
        ("POST", "/api/v1/orders", {"content": b" " * (LIMIT + 1)}, 413),
        ("GET", "/api/v1/broken", {}, 500),
    ],
)
def test_every_answer_reports_the_limit(
    tmp_path: Path, method: str, path: str, given: dict, status: int
):
    app = application(tmp_path, versions=WITH_FAULTS, clock=lambda: NOW)

    answer = ask(app, method, path, **given)

    assert answer.status_code == status
    limit = 500 if method == "GET" else 100
    assert limits_of(answer) == (limit, limit - 1, RESET)
    assert all(len(answer.headers.get_list(f"X-RateLimit-{n}")) == 1 for n in ("Limit", "Reset"))


@pytest.mark.covers("R2-06")
def test_an_answer_without_registry_reports_the_limit_too(tmp_path: Path):
    (tmp_path / "registry.db").write_bytes(b"no registry at all, but some text" * 100)

    answer = ask(application(tmp_path), "GET", "/ready")

    assert answer.status_code == 503
    assert error_of(answer)["code"] == "SERVICE_UNAVAILABLE"
    assert limits_of(answer)[:2] == (500, 499)


@pytest.mark.covers("R2-07")
def test_each_class_has_its_limit(tmp_path: Path):
    server = server_options()
    shipped = (server.jobs_limit, server.data_limit, server.monitoring_limit)

    assert shipped == (100, 1000, 500)
    calls = [("POST", "/api/v1/jobs"), ("GET", "/api/v1/documents"), ("GET", "/api/v1/jobs")]
    answers = ask_all(application(tmp_path), calls)
    assert [limits_of(answer)[0] for answer in answers] == [100, 1000, 500]


@pytest.mark.covers("R2-07", "G-10")
@pytest.mark.parametrize(
    ("kind", "calls"),
    [
        (
            RateClass.JOBS,
            [
                ("POST", "/api/v1/jobs"),
                ("PUT", "/api/v1/jobs/job_1"),
                ("DELETE", "/api/v1/jobs/job_1"),
                ("POST", "/api/v1/jobs/job_1/control"),
                ("POST", "/api/v1/jobs/job_1/pause"),
                ("POST", "/api/v1/frontier/urls"),
                ("POST", "/api/AddUrlDocument"),
                ("POST", "/api/RebuildIndex"),
                ("POST", "/api/ReindexItem"),
                ("GET", "/v2/crawler/crawl"),
                ("GET", "/v2/crawler/cleanup_metadata"),
            ],
        ),
        (
            RateClass.DATA,
            [
                ("GET", "/api/v1/documents"),
                ("GET", f"/api/v1/documents/{'a' * 64}"),
                ("GET", "/api/Search"),
            ],
        ),
        (
            RateClass.MONITORING,
            [
                ("GET", "/api/v1/jobs"),
                ("GET", "/api/v1/jobs/job_1"),
                ("GET", "/api/v1/frontier/stats"),
                ("GET", "/api/v1/robots/a.example"),
                ("GET", "/api/SearchStatus"),
            ],
        ),
    ],
)
def test_the_endpoints_of_the_inventory_are_in_their_classes(kind, calls):
    assert {api_rate_class(method, path) for method, path in calls} == {kind}


@pytest.mark.covers("R2-08")
def test_above_the_limit_comes_429_until_the_minute_ends(tmp_path: Path):
    """ATT-49."""
    now = NOW
    app = application(tmp_path, clock=lambda: now, monitoring_limit=3)

    answers = ask_all(app, [("GET", "/health")] * 5)

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert [limits_of(answer)[1] for answer in answers] == [2, 1, 0, 0, 0]
    assert error_of(answers[3])["code"] == "RATE_LIMITED"
    assert answers[3].headers["Retry-After"] == "10"
    now = RESET - 0.001
    assert ask(app, "GET", "/health").status_code == 429
    now = RESET
    after = ask(app, "GET", "/health")
    assert (after.status_code, limits_of(after)) == (200, (3, 2, RESET + 60))


@pytest.mark.covers("G-10")
def test_each_address_counts_for_itself_and_a_network_of_ipv6_as_one(tmp_path: Path):
    """ATT-49."""
    app = application(tmp_path, monitoring_limit=1, clock=lambda: NOW)

    def status(client: str) -> int:
        return ask(app, "GET", "/health", client=client).status_code

    assert [status("10.0.0.1"), status("10.0.0.2"), status("10.0.0.1")] == [200, 200, 429]
    assert [status("2001:db8::1"), status("2001:db8::2"), status("2001:db8:0:1::1")] == [
        200,
        429,
        200,
    ]
    assert status("::ffff:10.0.0.2") == 429  # the same client by another name


@pytest.mark.covers("R2-07")
def test_what_is_no_request_counts_with_the_requests_of_its_address(tmp_path: Path):
    server = server_options(monitoring_limit=2)
    counts = RequestCounts(server, clock=lambda: NOW)
    app = create_app(options(tmp_path), server, counts=counts)

    def remaining(address: str) -> bytes:
        return dict(counts.unread((address, 4_711)))[b"x-ratelimit-remaining"]

    assert [remaining("127.0.0.1"), remaining("10.0.0.2")] == [b"1", b"1"]
    assert limits_of(ask(app, "GET", "/health"))[:2] == (2, 0)
    assert remaining("127.0.0.1") == b"0"
    assert ask(app, "GET", "/health").status_code == 429
    assert ask(app, "GET", "/api/Search?query=a").status_code != 429  # of another class


@pytest.mark.covers("R2-07")
def test_servers_with_one_redis_count_together(tmp_path: Path, redis_url: str):
    def one():
        clocked = options(tmp_path, redis=redis_url)
        return create_app(clocked, server_options(monitoring_limit=3), clock=lambda: NOW)

    statuses = [ask(one(), "GET", "/health").status_code for _ in range(5)]

    assert statuses == [200, 200, 200, 429, 429]


def test_redis_is_asked_again_after_the_clock_was_put_back(
    tmp_path: Path, redis: servers.Redis, redis_url: str
):
    now = NOW
    app = create_app(
        options(tmp_path, redis=redis_url), server_options(), versions=WITH_FAULTS,
        clock=lambda: now,
    )  # fmt: skip
    redis.kill()
    try:
        assert ask(app, "POST", "/api/v1/orders").status_code == 503
    finally:
        redis.start()
    assert ask(app, "POST", "/api/v1/orders").status_code == 503  # it is not asked again at once

    now = NOW - 3_600

    assert ask(app, "POST", "/api/v1/orders").status_code == 200


def test_without_redis_reads_go_on_and_changes_wait(
    tmp_path: Path, redis: servers.Redis, redis_url: str
):
    versions = WITH_FAULTS
    chosen = options(tmp_path, redis=redis_url)

    def statuses() -> list[int]:
        app = create_app(chosen, server_options(), versions=versions)
        calls = [("GET", "/health"), ("POST", "/api/v1/orders"), ("GET", "/health")]
        return [answer.status_code for answer in ask_all(app, calls)]

    assert statuses() == [200, 200, 200]
    redis.kill()
    try:
        assert statuses() == [200, 503, 200]
        app = create_app(chosen, server_options(), versions=versions)
        away = ask(app, "POST", "/api/v1/orders")
        assert error_of(away)["code"] == "SERVICE_UNAVAILABLE"
        assert away.headers["Retry-After"]
        assert limits_of(away)[:2] == (100, 99)
    finally:
        redis.start()
    assert statuses() == [200, 200, 200]
