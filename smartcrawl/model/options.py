"""The settings of a run, read and validated once, before the first request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from smartcrawl.model.documents import ChunkSize
from smartcrawl.model.elasticsearch_target import ElasticsearchTarget
from smartcrawl.model.embedder_options import EmbedderOptions
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.github_target import GithubTarget
from smartcrawl.model.given_numbers import MOST_DAYS, MOST_NUMBER, given_number
from smartcrawl.model.redaction import log_format_option, redacted_text
from smartcrawl.model.robots_options import robots_parser_option
from smartcrawl.model.server_options import ServerOptions
from smartcrawl.model.setting_values import (
    authorities_option,
    choice_option,
    is_given_option,
    log_level_option,
    network_list_option,
    number_option,
    port_list_option,
    statuses_option,
    switch_option,
    table_name_option,
    whole_number_option,
    word_list_option,
)
from smartcrawl.model.sharepoint_options import SharepointOptions
from smartcrawl.model.urls import Trackers
from smartcrawl.model.vector_store_options import VectorStoreOptions
from smartcrawl.model.whole_path import whole_path
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.http import MOST_REDIRECTS, RedirectLimit, http_redirect_limit
from smartcrawl.rules.schedule import Schedule

_PROJECT = 20  #: priority of a settings module, as Scrapy counts
#: Scrapy's own numbers that are checked here, with their lowest value.
SCRAPY_LIMITS = {
    "CONCURRENT_REQUESTS": 1,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 0.001,
    "DOWNLOAD_MAXSIZE": 0,
    "RETRY_TIMES": 0,
    "AUTOTHROTTLE_START_DELAY": 0,
    "AUTOTHROTTLE_MAX_DELAY": 0,
    "AUTOTHROTTLE_TARGET_CONCURRENCY": 0.001,
}
#: The numbers of SCRAPY_LIMITS that Scrapy takes as whole numbers.
SCRAPY_WHOLE = (
    "CONCURRENT_REQUESTS",
    "CONCURRENT_REQUESTS_PER_DOMAIN",
    "DOWNLOAD_MAXSIZE",
    "RETRY_TIMES",
)
SWITCHES = (
    "ROBOTSTXT_OBEY",
    "AUTOTHROTTLE_ENABLED",
    "HTTPPROXY_ENABLED",
    "SITEMAPS_FROM_ROBOTS",
    "LLMS_TXT",
    "VERIFY_CERTIFICATES",
    "FORCE_REINDEX_ON_CANONICAL_CHANGE",
    "SOFT_404_DETECTION",
)
SWITCH = ("1", "0", "True", "False", "true", "false")  #: values that Scrapy accepts for a switch


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the operator. The manual is docs/settings.md.

    No field has a default: defaults are in ``settings.py`` only.
    """

    data_dir: Path
    registry: Path | str  #: file of the SQLite registry, or URL of a PostgreSQL database
    sources_file: Path
    redis: str | None  #: URL of the frontier that workers share; None: there is one worker
    concurrent: int  #: requests in flight
    per_host: int  #: requests in flight, each host
    download_delay: float  #: seconds between requests to a host, at least
    registry_table: str  #: name of the view for other programs
    elasticsearch: ElasticsearchTarget | None  #: None: content is stored in the registry's database
    embedder: EmbedderOptions | None  #: None: chunks get no vectors
    question_embedder: EmbedderOptions  #: for questions; the registry names what settings do not
    vector_store: VectorStoreOptions | None  #: None: pages are pushed nowhere
    store_server: VectorStoreOptions  #: without a store: each domain of libraries names its own
    sink_wait: int  #: seconds without an answer of the sink after which a run ends
    partition: str  #: contents of PartitionKey: host or scheme
    github: GithubTarget
    sharepoint: SharepointOptions
    depth_limit: int
    redirects: RedirectLimit  #: in a row; 0: redirects are not followed
    depth_limit_is_order: bool  #: whether the command line of this run gave it
    due_only: bool  #: request only pages that are due
    content_hash_basis: str
    chunks: ChunkSize
    extract_processes: int
    extract_memory: int  #: MiB
    extract_cpu_seconds: int
    extract_seconds_per_host: int  #: wall time of all documents of a host in a run; 0: no limit
    force_on_canonical: bool  #: index anew when only the canonical URL changed
    allow_networks: tuple[IPv4Network | IPv6Network, ...]
    allow_ports: tuple[int, ...]  #: beside 80 and 443
    verify_certificates: bool
    ca_file: Path | None  #: authorities that are trusted beside those of the system
    trackers: Trackers
    out_of_scope_policy: str
    sweep_max_ratio: float
    sweep_min_count: int
    trust_sample_ratio: float
    max_unverified_days: int  #: 0: a 304 counts for ever
    soft_404: bool  #: request an address that cannot exist from each host
    file_validator: str  #: how changed files are found: mtime, ctime or hash
    head_policy: str
    head_min_bytes: int
    revalidation_lane: bool  #: revalidate stored pages beside the engine where possible
    robots_obeyed: bool  #: whether robots.txt is fetched and obeyed
    robots_ttl: int  #: seconds
    retry_after_max_wait: int  #: seconds
    host_failures_to_park: int  #: visits in a row
    host_failure_seconds: int
    host_park_seconds: int
    host_probes: int
    policy: Policy
    schedule: Schedule
    undo_ttl: int  #: seconds
    gone_ttl: int  #: seconds that the record of a removed page is kept; 0: for ever
    snapshot_store: str | None  #: URL; None: bodies are not kept
    snapshot_retention: int  #: seconds; of bodies that no page refers to any more
    re_extract_per_run: int  #: pages fetched whole for another configuration; 0: all
    sitemaps_from_robots: bool
    llms_txt: bool
    host_url_budget: int  #: addresses of one host; 0: no limit
    max_hosts: int  #: hosts of one source; 0: no limit

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options; a wrong value fails before the first request.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        data_dir = _folder(_checked(settings))
        return cls(
            data_dir=data_dir,
            registry=_registry(settings, data_dir),
            sources_file=_beside_project(str(settings["SOURCES_FILE"]), "sources.toml"),
            redis=_redis(settings),
            concurrent=int(settings["CONCURRENT_REQUESTS"]),
            per_host=int(settings["CONCURRENT_REQUESTS_PER_DOMAIN"]),
            download_delay=float(settings["DOWNLOAD_DELAY"]),
            registry_table=table_name_option(settings, "REGISTRY_TABLE_NAME"),
            elasticsearch=ElasticsearchTarget.of(settings),
            **_vectors(settings),
            sink_wait=whole_number_option(settings, "SINK_WAIT_SECONDS"),
            partition=choice_option(settings, "REGISTRY_PARTITION_STRATEGY", "host", "scheme"),
            github=GithubTarget.of(settings),
            sharepoint=SharepointOptions.of(settings, data_dir),
            depth_limit=whole_number_option(settings, "DEPTH_LIMIT"),
            redirects=_redirects(settings),
            depth_limit_is_order=is_given_option(settings, "DEPTH_LIMIT"),
            due_only=choice_option(settings, "RECRAWL_POLICY", "always", "due") == "due",
            **_extract_limits(settings),
            content_hash_basis=_hash_basis(settings),
            chunks=_chunk_size(settings),
            force_on_canonical=switch_option(settings, "FORCE_REINDEX_ON_CANONICAL_CHANGE"),
            allow_networks=network_list_option(settings, "ALLOW_NETWORKS"),
            allow_ports=port_list_option(settings, "ALLOW_PORTS"),
            verify_certificates=switch_option(settings, "VERIFY_CERTIFICATES"),
            ca_file=authorities_option(settings, "CA_FILE"),
            trackers=_trackers(settings),
            out_of_scope_policy=choice_option(settings, "OUT_OF_SCOPE_POLICY", "orphan", "remove"),
            policy=_policy(settings),
            schedule=_schedule(settings),
            undo_ttl=whole_number_option(settings, "UNDO_TTL_SECONDS"),
            gone_ttl=whole_number_option(settings, "GONE_TTL_SECONDS"),
            snapshot_store=_snapshots(settings, data_dir),
            snapshot_retention=_days(settings, "SNAPSHOT_RETENTION_DAYS") * 86_400,
            re_extract_per_run=whole_number_option(settings, "RE_EXTRACT_PER_RUN"),
            sweep_max_ratio=number_option(settings, "SWEEP_MAX_RATIO", least=0, most=1),
            sweep_min_count=whole_number_option(settings, "SWEEP_MIN_COUNT"),
            trust_sample_ratio=number_option(settings, "TRUST_SAMPLE_RATIO", least=0, most=1),
            max_unverified_days=_days(settings, "MAX_UNVERIFIED_DAYS"),
            soft_404=switch_option(settings, "SOFT_404_DETECTION"),
            file_validator=choice_option(settings, "FILE_VALIDATOR", "mtime", "ctime", "hash"),
            head_policy=choice_option(settings, "HEAD_POLICY", "never", "auto", "always"),
            head_min_bytes=whole_number_option(settings, "HEAD_MIN_BYTES"),
            revalidation_lane=_lane(settings),
            robots_obeyed=switch_option(settings, "ROBOTSTXT_OBEY"),
            robots_ttl=whole_number_option(settings, "ROBOTS_TTL_SECONDS"),
            retry_after_max_wait=whole_number_option(settings, "RETRY_AFTER_MAX_WAIT"),
            **_host_limits(settings),
            sitemaps_from_robots=switch_option(settings, "SITEMAPS_FROM_ROBOTS"),
            llms_txt=switch_option(settings, "LLMS_TXT"),
        )


def _vectors(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "embedder": EmbedderOptions.of(settings),
        "question_embedder": EmbedderOptions.of_questions(settings),
        "vector_store": VectorStoreOptions.of(settings),
        "store_server": VectorStoreOptions.server_of(settings),
    }


def _extract_limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of the processes that read documents."""
    return {
        "extract_processes": whole_number_option(settings, "EXTRACT_PROCESSES", least=1),
        "extract_memory": whole_number_option(settings, "EXTRACT_MEMORY_MB", least=256),
        "extract_cpu_seconds": whole_number_option(settings, "EXTRACT_CPU_SECONDS", least=1),
        "extract_seconds_per_host": whole_number_option(settings, "EXTRACT_SECONDS_PER_HOST"),
    }


def _host_limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the limits of hosts: how many, with how many addresses, and when one is given up."""
    return {
        "host_url_budget": whole_number_option(settings, "HOST_URL_BUDGET"),
        "max_hosts": whole_number_option(settings, "MAX_HOSTS"),
        "host_failures_to_park": whole_number_option(settings, "HOST_FAILURES_TO_PARK", least=1),
        "host_failure_seconds": whole_number_option(settings, "HOST_FAILURE_SECONDS"),
        "host_park_seconds": whole_number_option(settings, "HOST_PARK_SECONDS"),
        "host_probes": whole_number_option(settings, "HOST_PROBES", least=1),
    }


def _days(settings: Mapping[str, Any], name: str) -> int:
    return whole_number_option(settings, name, most=MOST_DAYS)


def _lane(settings: Mapping[str, Any]) -> bool:
    return choice_option(settings, "REVALIDATION_LANE", "auto", "off") == "auto"


def _redirects(settings: Mapping[str, Any]) -> RedirectLimit:
    """Return the limit of redirects; a job and the command line outrank a project's settings."""
    most = whole_number_option(settings, "REDIRECT_MAX_TIMES", most=MOST_REDIRECTS)
    priority = getattr(settings, "getpriority", lambda name: None)("REDIRECT_MAX_TIMES")
    return http_redirect_limit(most, chosen=(priority or 0) > _PROJECT)


def _hash_basis(settings: Mapping[str, Any]) -> str:
    return choice_option(settings, "CONTENT_HASH_BASIS", "auto", "text", "bytes")


def _chunk_size(settings: Mapping[str, Any]) -> ChunkSize:
    most = whole_number_option(settings, "CHUNK_SIZE", least=200, most=20_000)
    return ChunkSize(most, whole_number_option(settings, "CHUNK_OVERLAP", most=most // 2))


def _checked(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings; check those that are no options: of Scrapy, the log and the progress."""
    for name, least in SCRAPY_LIMITS.items():
        number_option(settings, name, least=least)
    for name in SCRAPY_WHOLE:
        whole_number_option(settings, name, least=int(SCRAPY_LIMITS[name]))
    ServerOptions.of(settings)
    whole_number_option(settings, "MIN_DOWNLOAD_RATE")
    whole_number_option(settings, "ROBOTS_MAX_STALE_SECONDS")
    for name in SWITCHES:
        if str(settings[name]) not in SWITCH:
            raise SettingError(f"{name} is {settings[name]!r}: it takes 1 or 0")
    log_level_option(settings)
    log_format_option(settings)
    choice_option(settings, "PROGRESS_FORMAT", "line", "json", "none")
    robots_parser_option(settings)
    return settings


def _project() -> Path | None:
    """Return the folder of scrapy.cfg: this one or the next above that has it."""
    here = whole_path(".")
    folders = (here, *here.parents)
    return next((folder for folder in folders if (folder / "scrapy.cfg").exists()), None)


def _beside_project(value: str, default: str) -> Path:
    """Return a path; the default is beside scrapy.cfg, any other path is taken as given."""
    project = _project() if value == default else None
    return project / default if project else whole_path(value)


def _folder(settings: Mapping[str, Any]) -> Path:
    """Return DATA_DIR; its default is refused outside of a project, as in scrapyd.

    The current folder of such a process may be deleted before the next start, and the registry with
    it.
    """
    value = str(settings["DATA_DIR"]).strip()
    if not value:
        raise SettingError("DATA_DIR is empty: name a folder that this user may write to")
    if value == ".smartcrawl" and _project() is None:
        raise SettingError(
            f"DATA_DIR is {value!r}, which is beside scrapy.cfg, and there is no scrapy.cfg in"
            f" {Path.cwd()} or above it: name a folder that stays, such as"
            " DATA_DIR=/var/lib/smartcrawl"
        )
    return _beside_project(value, ".smartcrawl")


def _registry(settings: Mapping[str, Any], data_dir: Path) -> Path | str:
    """Return the file of the registry, or the URL of a PostgreSQL database."""
    url = str(settings["REGISTRY_URL"] or "").strip()
    if not url:
        return data_dir / "registry.db"
    scheme, _, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and rest:
        return url
    if not url.startswith("sqlite:///") or url == "sqlite:///":
        raise SettingError(
            f"REGISTRY_URL is '{url.partition(':')[0]}:…': it takes sqlite:///PATH (four slashes"
            " for an absolute path) or postgresql://USER:PASSWORD@HOST/DATABASE; empty stands for"
            " registry.db in DATA_DIR"
        )
    return whole_path(url.removeprefix("sqlite:///"))


def _redis(settings: Mapping[str, Any]) -> str | None:
    """Return the URL of Redis; None without a shared frontier. Messages hide its password."""
    url = str(settings["REDIS_URL"] or "").strip()
    if not url:
        return None
    wrong = "is no URL of a Redis"
    with suppress(ValueError):  # an invalid port or IPv6 address
        parts = urlsplit(url)
        network = parts.scheme in ("redis", "rediss")
        options = [name for name, _ in parse_qsl(parts.query) if not name.startswith("ssl_")]
        if parts.scheme not in ("redis", "rediss", "unix"):
            wrong = "is no URL of a Redis"
        elif parts.fragment or (not parts.hostname if network else not parts.path):
            wrong = "names no host" if network else "names no socket"
        elif network and not re.fullmatch(r"(/\d*)?", parts.path):
            wrong = "names a database that is no number"
        elif options and (network or options != ["db"]):
            wrong = f"has the option {options[0]}, and only those that begin with ssl_ are taken"
        elif parts.port != 0:
            return url
    raise SettingError(
        f"REDIS_URL is {redacted_text(url)!r}, which {wrong}: it takes redis://HOST:PORT/DB, or"
        " rediss:// for TLS, with USER:PASSWORD@ before the host where it asks for them, or"
        " unix:///PATH?db=DB; characters such as / and # in a password are percent-encoded"
    )


def _snapshots(settings: Mapping[str, Any], data_dir: Path) -> str | None:
    """Return the store of snapshots; None where bodies are not stored."""
    value = str(settings["SNAPSHOT_STORE"] or "").strip()
    if value.lower() == "off":
        return None
    return value or str(data_dir / "snapshots")


def _trackers(settings: Mapping[str, Any]) -> Trackers:
    """Return the query parameters that are dropped from addresses."""
    return Trackers(
        prefixes=word_list_option(settings, "TRACKING_PARAM_PREFIXES"),
        names=frozenset(word_list_option(settings, "TRACKING_PARAM_NAMES")),
    )


def _policy(settings: Mapping[str, Any]) -> Policy:
    """Return the thresholds and ages after which a page may be removed."""
    return Policy(
        lost_threshold=whole_number_option(settings, "LOST_THRESHOLD", least=1),
        lost_min_age=whole_number_option(settings, "LOST_MIN_AGE"),
        purge_statuses=statuses_option(settings, "LOST_PURGE_STATUSES"),
        orphan_threshold=whole_number_option(settings, "ORPHAN_THRESHOLD", least=1),
        orphan_min_age=whole_number_option(settings, "ORPHAN_MIN_AGE"),
        sum_of_thresholds=choice_option(settings, "LOST_ORPHAN_RULE", "age", "threshold")
        == "threshold",
    )


def _schedule(settings: Mapping[str, Any]) -> Schedule:
    """Return the intervals between two visits of a page."""
    base = whole_number_option(settings, "CRAWL_BASE_INTERVAL_SECONDS", least=1)
    longest = whole_number_option(settings, "CRAWL_MAX_INTERVAL_SECONDS", least=1)
    if base > longest:
        raise SettingError(
            f"CRAWL_MAX_INTERVAL_SECONDS is {longest}: it takes at least the"
            f" {base} of CRAWL_BASE_INTERVAL_SECONDS"
        )
    words = word_list_option(settings, "CRAWL_INTERVAL_STEPS")
    steps = tuple(step for word in words if (step := given_number(word)) is not None)
    rises = bool(steps) and len(steps) == len(words) and list(steps) == sorted(steps)
    if not rises or not 1 <= steps[0] <= steps[-1] <= MOST_NUMBER:
        raise SettingError(
            f"CRAWL_INTERVAL_STEPS is {settings['CRAWL_INTERVAL_STEPS']!r}: it takes rising"
            " whole numbers such as 1, 3, 7, 14"
        )
    return Schedule(
        base=base,
        longest=longest,
        steps=steps,
        patience=whole_number_option(settings, "UNCHANGED_CHECKS_BEFORE_BACKOFF", least=1),
        error_base=whole_number_option(settings, "CRAWL_ERROR_BACKOFF_BASE", least=1),
        jitter=round(1000 * number_option(settings, "CRAWL_JITTER", least=0, most=0.5)),
    )
