"""The answers of the routes of jobs, as the OpenAPI describes them; tests compare both."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import ConfigDict, Field

from smartcrawl.rules.run_orders import JobAction, JobStatus
from smartcrawl.server.answers import Answer, Time
from smartcrawl.server.jobs.store import RunStage

EXAMPLE_JOB: Final = "job_0b5d9a6c1e2f3a48"
_IN_FILE: Final = "Null for a declared source: sources.toml has it"


class JobHead(Answer):
    """A job without its progress."""

    job_id: str = Field(examples=[EXAMPLE_JOB])
    type: Literal["crawl", "library"] = Field(
        description="A crawl of a job or declared source, or a step at document libraries"
    )
    name: str = Field(
        description="Of a job of a library, its domain and step", examples=["daily-news-crawl"]
    )
    status: JobStatus
    declared: bool = Field(description="Whether sources.toml has its definition")
    created_at: Time | None = Field(
        description="Null for a declared source that was neither scheduled nor ordered",
        examples=["2024-01-20T10:00:00Z"],
    )
    next_run: Time | None = Field(
        description="Null for a job that runs once", examples=["2024-01-21T00:00:00Z"]
    )
    version: int = Field(description="Grows with each PUT", examples=[1])
    complete: bool | None = Field(
        description="Whether its last run saw everything; null before its end, or if its process"
        " failed"
    )
    visibility: Literal["public", "private"] = Field(
        description="Whether every key reads its source, or those alone that name it"
    )


class JobSettings(Answer):
    """The configuration of the runs of a job."""

    max_depth: int = Field(examples=[5])
    max_pages: int = Field(examples=[100_000])
    crawl_delay_ms: int = Field(examples=[1_000])
    respect_robots_txt: bool
    follow_redirects: bool
    max_redirects: int = Field(examples=[5])
    timeout_seconds: int = Field(examples=[30])
    user_agent: str = Field(examples=["SearchBot/1.0"])


class JobRules(Answer):
    """The rules for the addresses of a job."""

    allowed_domains: list[str] = Field(examples=[["cnn.com"]])
    url_patterns: list[str]
    excluded_patterns: list[str]


class JobTimes(Answer):
    """The times of a job."""

    type: Literal["one_time", "recurring"]
    cron: str | None = Field(description="Null for a job that runs once", examples=["0 0 * * *"])


class Progress(Answer):
    """Counts of the last run."""

    pages_crawled: int = Field(examples=[45_230])
    pages_queued: int = Field(examples=[12_450])
    pages_failed: int = Field(examples=[234])
    bytes_downloaded: int = Field(examples=[4_523_000_000])
    domains_visited: int = Field(examples=[3])


class Timing(Answer):
    """Times of the last run."""

    started_at: Time | None = Field(examples=["2024-01-20T00:00:00Z"])
    elapsed_seconds: int = Field(examples=[3_600])
    estimated_completion: Time | None = Field(
        description="Null unless it runs and visits pages", examples=["2024-01-20T02:30:00Z"]
    )


class Rate(Answer):
    """Means of the last minute; of a younger run, since it began."""

    pages_per_second: float = Field(examples=[12.5])
    bytes_per_second: float = Field(examples=[1_250_000])


class RunHead(Answer):
    """A time at which a job was due."""

    job_id: str = Field(examples=["jb_5d0c1f6a2b3e4d7c"])
    status: RunStage
    due_at: Time = Field(examples=["2024-01-21T00:00:00Z"])


class Ordered(Answer):
    """A job, or one of its runs, after an order."""

    job_id: str = Field(examples=[EXAMPLE_JOB])
    status: JobStatus | RunStage = Field(description="That of a run, if job_id is a jb_ id")
    requested: JobAction | None = Field(description="The order, while it is under way")


class JobDetail(JobHead):
    """A job with its definition and the progress of its last run; secrets are ``…``."""

    seed_urls: list[str] | None = Field(description=_IN_FILE, examples=[["https://cnn.com/"]])
    config: JobSettings | None = Field(description=_IN_FILE)
    filters: JobRules | None = Field(description=_IN_FILE)
    schedule: JobTimes
    declared_in: str | None = Field(
        description="The file that has its definition; null unless it is declared",
        examples=["sources.toml"],
    )
    requested: JobAction | None = Field(description="An order that is under way")
    progress: Progress
    timing: Timing
    rate: Rate
    reasons: list[str] = Field(description="Why not, or why it failed", examples=[["pages_left"]])
    runs: list[RunHead] = Field(description="Its last ten due times, newest first")


class RunDetail(RunHead):
    """A due time with its run, once that is open; other keys are those of ``smartcrawl runs``."""

    model_config = ConfigDict(extra="allow")

    job: str = Field(description="Id of its job", examples=[EXAMPLE_JOB])
    requested: JobAction | None = Field(description="An order that is under way")
    reasons: list[str]
    run: int | None = Field(description="Number of the run, null until it is open", examples=[17])


class LibraryJobDetail(Answer):
    """A job of a document library; results have the keys of ``library --format json``."""

    job_id: str = Field(examples=["jb_5d0c1f6a2b3e4d7c"])
    type: Literal["library"]
    domain: str = Field(examples=["DOMAIN01"])
    action: str = Field(examples=["crawl"])
    mode: str = Field(examples=["incremental"])
    scope: str = Field(examples=["all"])
    source: str | None = Field(description="The source_id, if it is for one source")
    dry_run: bool
    status: RunStage
    requested: JobAction | None = Field(description="An order that is under way")
    created_at: Time = Field(examples=["2024-01-20T10:00:00Z"])
    ended_at: Time | None = Field(description="Null before its end")
    exit_status: int | None = Field(description="Of its process; null before its end")
    reasons: list[str] = Field(description="Why it failed")
    result: dict[str, Any] | None = Field(description="Null before its end, and if it failed")


class Fires(Answer):
    """The next times of a schedule."""

    cron: str = Field(description="With single spaces", examples=["0 3 * * 1"])
    fires: list[Time] = Field(examples=[["2024-01-22T03:00:00Z"]])


class JobPagination(Answer):
    """The place of a page in its list."""

    total: int = Field(examples=[2])
    offset: int = Field(examples=[0])
    limit: int = Field(examples=[100])


class Jobs(Answer):
    """A page of jobs: those of clients, the declared sources, then those of libraries."""

    jobs: list[JobHead]
    pagination: JobPagination
