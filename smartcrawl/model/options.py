"""The settings of a run, read and validated once, before the first request."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

from smartcrawl.model.documents import ChunkSize
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.notify_targets import NotifyTarget
from smartcrawl.model.openai_server import path_beside_project, project_folder, whole_path
from smartcrawl.model.option_groups import (
    ElasticsearchTarget,
    EmbedderOptions,
    GithubTarget,
    RerankOptions,
    ServerOptions,
    SharepointOptions,
    VectorStoreOptions,
)
from smartcrawl.model.redaction import redacted_text
from smartcrawl.model.setting_values import is_given_option
from smartcrawl.model.settings_file import load_notify_targets, settings_file_of
from smartcrawl.model.settings_table import SETTINGS
from smartcrawl.model.urls import Trackers
from smartcrawl.rules.absence import Policy
from smartcrawl.rules.alarms import Limits
from smartcrawl.rules.http import RedirectLimit, http_redirect_limit
from smartcrawl.rules.schedule import Schedule

_PROJECT = 20  #: priority of a settings module, as Scrapy counts
#: The fields of Options that are settings as they stand.
_FIELDS: Final[Mapping[str, str]] = {
    "concurrent": "CONCURRENT_REQUESTS",
    "per_host": "CONCURRENT_REQUESTS_PER_DOMAIN",
    "download_delay": "DOWNLOAD_DELAY",
    "registry_table": "REGISTRY_TABLE_NAME",
    "sink_wait": "SINK_WAIT_SECONDS",
    "partition": "REGISTRY_PARTITION_STRATEGY",
    "depth_limit": "DEPTH_LIMIT",
    "content_hash_basis": "CONTENT_HASH_BASIS",
    "read_processes": "READ_PROCESSES",
    "extract_processes": "EXTRACT_PROCESSES",
    "extract_memory": "EXTRACT_MEMORY_MB",
    "extract_cpu_seconds": "EXTRACT_CPU_SECONDS",
    "extract_seconds_per_host": "EXTRACT_SECONDS_PER_HOST",
    "leave_out_repeated": "LEAVE_OUT_REPEATED",
    "force_on_canonical": "FORCE_REINDEX_ON_CANONICAL_CHANGE",
    "allow_networks": "ALLOW_NETWORKS",
    "allow_ports": "ALLOW_PORTS",
    "verify_certificates": "VERIFY_CERTIFICATES",
    "ca_file": "CA_FILE",
    "out_of_scope_policy": "OUT_OF_SCOPE_POLICY",
    "sweep_max_ratio": "SWEEP_MAX_RATIO",
    "sweep_min_count": "SWEEP_MIN_COUNT",
    "trust_sample_ratio": "TRUST_SAMPLE_RATIO",
    "max_unverified_days": "MAX_UNVERIFIED_DAYS",
    "soft_404": "SOFT_404_DETECTION",
    "file_validator": "FILE_VALIDATOR",
    "head_policy": "HEAD_POLICY",
    "head_min_bytes": "HEAD_MIN_BYTES",
    "robots_obeyed": "ROBOTSTXT_OBEY",
    "robots_ttl": "ROBOTS_TTL_SECONDS",
    "retry_after_max_wait": "RETRY_AFTER_MAX_WAIT",
    "host_url_budget": "HOST_URL_BUDGET",
    "max_hosts": "MAX_HOSTS",
    "host_failures_to_park": "HOST_FAILURES_TO_PARK",
    "host_failure_seconds": "HOST_FAILURE_SECONDS",
    "host_park_seconds": "HOST_PARK_SECONDS",
    "host_probes": "HOST_PROBES",
    "undo_ttl": "UNDO_TTL_SECONDS",
    "gone_ttl": "GONE_TTL_SECONDS",
    "re_extract_per_run": "RE_EXTRACT_PER_RUN",
    "render": "RENDER",
    "render_browser": "RENDER_BROWSER",
    "render_memory_mb": "RENDER_MEMORY_MB",
    "render_per_run": "RENDER_PER_RUN",
    "render_sandbox": "RENDER_SANDBOX",
    "sitemaps_from_robots": "SITEMAPS_FROM_ROBOTS",
    "llms_txt": "LLMS_TXT",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of the operator. The manual is docs/settings.md.

    No field has a default: defaults are in the table of settings.
    """

    data_dir: Path
    registry: Path | str  #: file of the SQLite registry, or URL of a PostgreSQL database
    sources_file: Path
    settings_file: Path | None  #: smartcrawl.toml; None: there is none
    redis: str | None  #: URL of the frontier that workers share; None: there is one worker
    concurrent: int  #: requests in flight
    per_host: int  #: requests in flight, each host
    download_delay: float  #: seconds between requests to a host, at least
    host_delays: Mapping[str, float]  #: the same of hosts that ask for another delay
    registry_table: str  #: name of the view for other programs
    elasticsearch: ElasticsearchTarget | None  #: None: content is stored in the registry's database
    embedder: EmbedderOptions | None  #: None: chunks get no vectors
    rerank: RerankOptions | None  #: None: the order of the index stays
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
    read_processes: int | None  #: that read pages; None: by the cores of the machine
    extract_processes: int
    extract_memory: int  #: MiB
    extract_cpu_seconds: int
    extract_seconds_per_host: int  #: wall time of all documents of a host in a run; 0: no limit
    leave_out_repeated: bool  #: leave out lines that repeat on many pages of a host
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
    notify: tuple[NotifyTarget, ...]  #: targets of notices
    limits: Limits  #: of sources that do not say their own, for alarms
    undo_ttl: int  #: seconds
    gone_ttl: int  #: seconds that the record of a removed page is kept; 0: for ever
    snapshot_store: str | None  #: URL; None: bodies are not kept
    snapshot_retention: int  #: seconds; of bodies that no page refers to any more
    re_extract_per_run: int  #: pages fetched whole for another configuration; 0: all
    render: str  #: whether a browser shows pages of sources that do not say so: RenderMode
    render_browser: str  #: path or name of a Chromium; empty: on the PATH
    render_memory_mb: int  #: MiB of the process of one page
    render_sandbox: str  #: "on" or "off": whether the browser confines the processes of pages
    render_per_run: int  #: pages rendered for shared data that changed; 0: all
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
        values = {name: setting.read(settings[name]) for name, setting in SETTINGS.items()}
        ServerOptions.of(settings)
        data_dir = _folder(values["DATA_DIR"])
        sources_file = path_beside_project(values["SOURCES_FILE"], "sources.toml")
        settings_file = settings_file_of(sources_file, data_dir)
        return cls(
            **{field: values[name] for field, name in _FIELDS.items()},
            host_delays=host_delays_option(settings),
            data_dir=data_dir,
            registry=_registry(values["REGISTRY_URL"], data_dir),
            sources_file=sources_file,
            settings_file=settings_file,
            redis=_redis(values["REDIS_URL"]),
            elasticsearch=ElasticsearchTarget.of(settings),
            embedder=EmbedderOptions.of(settings),
            question_embedder=EmbedderOptions.of_questions(settings),
            rerank=RerankOptions.of(settings),
            vector_store=VectorStoreOptions.of(settings),
            store_server=VectorStoreOptions.server_of(settings),
            github=GithubTarget.of(settings),
            sharepoint=SharepointOptions.of(settings, data_dir),
            redirects=_redirects(settings, values["REDIRECT_MAX_TIMES"]),
            depth_limit_is_order=is_given_option(settings, "DEPTH_LIMIT"),
            due_only=values["RECRAWL_POLICY"] == "due",
            chunks=_chunk_size(settings, values["CHUNK_SIZE"]),
            trackers=Trackers(
                prefixes=values["TRACKING_PARAM_PREFIXES"],
                names=frozenset(values["TRACKING_PARAM_NAMES"]),
            ),
            policy=_policy(values),
            schedule=_schedule(values),
            notify=load_notify_targets(settings_file),
            limits=Limits(values["MAX_AGE_SECONDS"], values["MAX_FAILED_RATIO"]),
            snapshot_store=_snapshots(values["SNAPSHOT_STORE"], data_dir),
            snapshot_retention=values["SNAPSHOT_RETENTION_DAYS"] * 86_400,
            revalidation_lane=values["REVALIDATION_LANE"] == "auto",
        )

    @property
    def source_files(self) -> tuple[Path, ...]:
        """The files that may declare sources: sources.toml, then smartcrawl.toml if it is there."""
        files = (self.sources_file, self.settings_file)
        return tuple(dict.fromkeys(file for file in files if file is not None))


def host_delays_option(settings: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the seconds between two requests to single hosts, of Scrapy's DOWNLOAD_SLOTS."""
    slots = settings.get("DOWNLOAD_SLOTS") or {}
    if isinstance(slots, str):
        slots = json.loads(slots)
    return {host: float(given["delay"]) for host, given in slots.items() if "delay" in given}


def _redirects(settings: Mapping[str, Any], most: int) -> RedirectLimit:
    """Return the limit of redirects; a job and the command line outrank a project's settings."""
    priority = getattr(settings, "getpriority", lambda name: None)("REDIRECT_MAX_TIMES")
    return http_redirect_limit(most, chosen=(priority or 0) > _PROJECT)


def _chunk_size(settings: Mapping[str, Any], most: int) -> ChunkSize:
    """Return the size of chunks; they overlap by half of it at most."""
    overlap = replace(SETTINGS["CHUNK_OVERLAP"], most=most // 2)
    return ChunkSize(most, overlap.read(settings["CHUNK_OVERLAP"]))


def _folder(value: str) -> Path:
    """Return DATA_DIR; its default is refused outside of a project, as in scrapyd.

    The current folder of such a process may be deleted before the next start, and the registry with
    it.
    """
    if not value:
        raise SettingError("DATA_DIR is empty: name a folder that this user may write to")
    if value == ".smartcrawl" and project_folder() is None:
        raise SettingError(
            f"DATA_DIR is {value!r}, which is beside scrapy.cfg, and there is no scrapy.cfg in"
            f" {Path.cwd()} or above it: name a folder that stays, such as"
            " DATA_DIR=/var/lib/smartcrawl"
        )
    return path_beside_project(value, ".smartcrawl")


def _registry(url: str, data_dir: Path) -> Path | str:
    """Return the file of the registry, or the URL of a PostgreSQL database."""
    if not url:
        return data_dir / "registry.db"
    scheme, _, rest = url.partition("://")
    if scheme in ("postgresql", "postgres") and rest:
        return url
    if not url.startswith("sqlite:///") or url == "sqlite:///":
        raise SettingError(
            f"REGISTRY_URL is '{url.partition(':')[0]}:…': expected sqlite:///PATH (four slashes"
            " for an absolute path) or postgresql://USER:PASSWORD@HOST/DATABASE; empty stands for"
            " registry.db in DATA_DIR"
        )
    return whole_path(url.removeprefix("sqlite:///"))


def _redis(url: str) -> str | None:
    """Return the URL of Redis; None without a shared frontier. Messages hide its password."""
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
        f"REDIS_URL is {redacted_text(url)!r}, which {wrong}: expected redis://HOST:PORT/DB, or"
        " rediss:// for TLS, with USER:PASSWORD@ before the host where it asks for them, or"
        " unix:///PATH?db=DB; characters such as / and # in a password are percent-encoded"
    )


def _snapshots(value: str, data_dir: Path) -> str | None:
    """Return the store of snapshots; None where bodies are not stored."""
    if value.lower() == "off":
        return None
    return value or str(data_dir / "snapshots")


def _policy(values: Mapping[str, Any]) -> Policy:
    """Return the thresholds and ages after which a page may be removed."""
    return Policy(
        lost_threshold=values["LOST_THRESHOLD"],
        lost_min_age=values["LOST_MIN_AGE"],
        purge_statuses=values["LOST_PURGE_STATUSES"],
        orphan_threshold=values["ORPHAN_THRESHOLD"],
        orphan_min_age=values["ORPHAN_MIN_AGE"],
        sum_of_thresholds=values["LOST_ORPHAN_RULE"] == "threshold",
    )


def _schedule(values: Mapping[str, Any]) -> Schedule:
    """Return the intervals between two visits of a page."""
    base, longest = values["CRAWL_BASE_INTERVAL_SECONDS"], values["CRAWL_MAX_INTERVAL_SECONDS"]
    if base > longest:
        raise SettingError(
            f"CRAWL_MAX_INTERVAL_SECONDS is {longest}: expected at least the"
            f" {base} of CRAWL_BASE_INTERVAL_SECONDS"
        )
    return Schedule(
        base=base,
        longest=longest,
        steps=values["CRAWL_INTERVAL_STEPS"],
        patience=values["UNCHANGED_CHECKS_BEFORE_BACKOFF"],
        error_base=values["CRAWL_ERROR_BACKOFF_BASE"],
        jitter=round(1000 * values["CRAWL_JITTER"]),
    )
