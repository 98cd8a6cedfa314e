"""The settings of a run, read and validated once, before the first request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from smartcrawl.model.authorities import authority_file
from smartcrawl.model.elasticsearch_target import Target
from smartcrawl.model.exceptions import SettingError
from smartcrawl.model.redaction import log_format, redacted
from smartcrawl.model.urls import Trackers
from smartcrawl.rules.absence import PASSING, Policy
from smartcrawl.rules.schedule import Schedule

#: Scrapy's own numbers that are checked here, with their least value.
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
#: Those of them that Scrapy takes as whole numbers.
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
    "VERIFY_CERTIFICATES",
    "FORCE_REINDEX_ON_CANONICAL_CHANGE",
    "SOFT_404_DETECTION",
)
SWITCH = ("1", "0", "True", "False", "true", "false")  #: what Scrapy reads as a switch
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices that the operator has. The manual is docs/settings.md.

    No field has a default: ``settings.py`` is the one place for those.
    """

    data_dir: Path
    registry: Path | str  #: file of the SQLite registry, or URL of a PostgreSQL database
    sources_file: Path
    redis: str | None  #: URL of the frontier that workers share; None: there is one worker
    concurrent: int  #: requests in flight
    per_host: int  #: requests in flight, each host
    download_delay: float  #: seconds between requests to a host, at least
    registry_table: str  #: its name for other programs
    elasticsearch: Target | None  #: None: content lies in the registry's file
    sink_wait: int  #: seconds without an answer of the sink after which a run ends
    partition: str  #: what its PartitionKey holds: host or scheme
    depth_limit: int
    due_only: bool  #: ask only what is due
    content_hash_basis: str
    extract_processes: int
    extract_memory: int  #: MiB
    extract_cpu_seconds: int
    extract_seconds_per_host: int  #: by the clock, of all documents of a host in a run; 0: any
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
    soft_404: bool  #: ask each host for an address that cannot exist
    head_policy: str
    head_min_bytes: int
    revalidation_lane: bool  #: ask known pages beside the engine where that is the same
    robots_obeyed: bool  #: and asked
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
    snapshot_retention: int  #: seconds; of bodies that no page holds any more
    re_extract_per_run: int  #: pages fetched whole for another configuration; 0: all
    sitemaps_from_robots: bool
    host_url_budget: int  #: addresses of one host; 0: no limit
    max_hosts: int  #: hosts of one source; 0: no limit

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Read the options; a wrong value fails before the first request.

        Raises:
            SettingError: naming the setting, its value, and what it takes.
        """
        _check_others(settings)
        data_dir = _folder(settings)
        return cls(
            data_dir=data_dir,
            registry=_registry(settings, data_dir),
            sources_file=_beside_project(str(settings["SOURCES_FILE"]), "sources.toml"),
            redis=_redis(settings),
            concurrent=int(settings["CONCURRENT_REQUESTS"]),
            per_host=int(settings["CONCURRENT_REQUESTS_PER_DOMAIN"]),
            download_delay=float(settings["DOWNLOAD_DELAY"]),
            registry_table=_table(settings, "REGISTRY_TABLE_NAME"),
            elasticsearch=Target.of(settings),
            sink_wait=_whole(settings, "SINK_WAIT_SECONDS"),
            partition=_one_of(settings, "REGISTRY_PARTITION_STRATEGY", "host", "scheme"),
            depth_limit=_whole(settings, "DEPTH_LIMIT"),
            due_only=_one_of(settings, "RECRAWL_POLICY", "always", "due") == "due",
            extract_processes=_whole(settings, "EXTRACT_PROCESSES", least=1),
            extract_memory=_whole(settings, "EXTRACT_MEMORY_MB", least=256),
            extract_cpu_seconds=_whole(settings, "EXTRACT_CPU_SECONDS", least=1),
            extract_seconds_per_host=_whole(settings, "EXTRACT_SECONDS_PER_HOST"),
            content_hash_basis=_one_of(settings, "CONTENT_HASH_BASIS", "auto", "text", "bytes"),
            force_on_canonical=_switch(settings, "FORCE_REINDEX_ON_CANONICAL_CHANGE"),
            allow_networks=_networks(settings, "ALLOW_NETWORKS"),
            allow_ports=_ports(settings, "ALLOW_PORTS"),
            verify_certificates=_switch(settings, "VERIFY_CERTIFICATES"),
            ca_file=_authorities(settings, "CA_FILE"),
            trackers=Trackers(
                prefixes=_words(settings, "TRACKING_PARAM_PREFIXES"),
                names=frozenset(_words(settings, "TRACKING_PARAM_NAMES")),
            ),
            out_of_scope_policy=_one_of(settings, "OUT_OF_SCOPE_POLICY", "orphan", "remove"),
            policy=Policy(
                lost_threshold=_whole(settings, "LOST_THRESHOLD", least=1),
                lost_min_age=_whole(settings, "LOST_MIN_AGE"),
                purge_statuses=_statuses(settings, "LOST_PURGE_STATUSES"),
                orphan_threshold=_whole(settings, "ORPHAN_THRESHOLD", least=1),
                orphan_min_age=_whole(settings, "ORPHAN_MIN_AGE"),
                sum_of_thresholds=_one_of(settings, "LOST_ORPHAN_RULE", "age", "threshold")
                == "threshold",
            ),
            schedule=_schedule(settings),
            undo_ttl=_whole(settings, "UNDO_TTL_SECONDS"),
            gone_ttl=_whole(settings, "GONE_TTL_SECONDS"),
            snapshot_store=_snapshots(settings, data_dir),
            snapshot_retention=_whole(settings, "SNAPSHOT_RETENTION_DAYS") * 86_400,
            re_extract_per_run=_whole(settings, "RE_EXTRACT_PER_RUN"),
            sweep_max_ratio=_number(settings, "SWEEP_MAX_RATIO", least=0, most=1),
            sweep_min_count=_whole(settings, "SWEEP_MIN_COUNT"),
            trust_sample_ratio=_number(settings, "TRUST_SAMPLE_RATIO", least=0, most=1),
            max_unverified_days=_whole(settings, "MAX_UNVERIFIED_DAYS"),
            soft_404=_switch(settings, "SOFT_404_DETECTION"),
            head_policy=_one_of(settings, "HEAD_POLICY", "never", "auto", "always"),
            head_min_bytes=_whole(settings, "HEAD_MIN_BYTES"),
            revalidation_lane=_one_of(settings, "REVALIDATION_LANE", "auto", "off") == "auto",
            robots_obeyed=_switch(settings, "ROBOTSTXT_OBEY"),
            robots_ttl=_whole(settings, "ROBOTS_TTL_SECONDS"),
            retry_after_max_wait=_whole(settings, "RETRY_AFTER_MAX_WAIT"),
            host_failures_to_park=_whole(settings, "HOST_FAILURES_TO_PARK", least=1),
            host_failure_seconds=_whole(settings, "HOST_FAILURE_SECONDS"),
            host_park_seconds=_whole(settings, "HOST_PARK_SECONDS"),
            host_probes=_whole(settings, "HOST_PROBES", least=1),
            sitemaps_from_robots=_switch(settings, "SITEMAPS_FROM_ROBOTS"),
            host_url_budget=_whole(settings, "HOST_URL_BUDGET"),
            max_hosts=_whole(settings, "MAX_HOSTS"),
        )


def robots_parser(settings: Mapping[str, Any]) -> type[Any]:
    """Return the class of Scrapy's RobotParser interface that reads robots.txt.

    Raises:
        SettingError: ROBOTSTXT_PARSER names none.
    """
    value = settings["ROBOTSTXT_PARSER"]
    module, _, name = str(value).rpartition(".")
    found: Any = None
    with suppress(ImportError, AttributeError, ValueError):
        found = value if isinstance(value, type) else getattr(import_module(module), name)
    methods = ("from_crawler", "allowed", "crawl_delay")
    if not (isinstance(found, type) and all(hasattr(found, method) for method in methods)):
        raise SettingError(
            f"ROBOTSTXT_PARSER is {value!r}: it takes a class of Scrapy's RobotParser interface"
            " such as smartcrawl.extract.robots_txt.Rfc9309RobotParser or"
            " smartcrawl.extract.robots_txt.AllowFirstRobotParser"
        )
    return found


def _check_others(settings: Mapping[str, Any]) -> None:
    """Check what others than the options below read: Scrapy, the log, the progress."""
    for name, least in SCRAPY_LIMITS.items():
        _number(settings, name, least=least)
    for name in SCRAPY_WHOLE:
        _whole(settings, name, least=int(SCRAPY_LIMITS[name]))
    _whole(settings, "MIN_DOWNLOAD_RATE")
    _whole(settings, "ROBOTS_MAX_STALE_SECONDS")
    for name in SWITCHES:
        if str(settings[name]) not in SWITCH:
            raise SettingError(f"{name} is {settings[name]!r}: it takes 1 or 0")
    if settings["LOG_LEVEL"] not in LEVELS:
        raise SettingError(
            f"LOG_LEVEL is {settings['LOG_LEVEL']!r}: it takes one of {', '.join(LEVELS)}"
        )
    log_format(settings)
    _one_of(settings, "PROGRESS_FORMAT", "line", "json")
    robots_parser(settings)


def _project() -> Path | None:
    """Return the folder of scrapy.cfg: this one or the next above that has it."""
    here = Path.cwd()
    folders = (here, *here.parents)
    return next((folder for folder in folders if (folder / "scrapy.cfg").exists()), None)


def _beside_project(value: str, default: str) -> Path:
    """Return a path; the default lies beside scrapy.cfg, anything else is taken as given."""
    project = _project() if value == default else None
    return project / default if project else Path(value).expanduser().absolute()


def _folder(settings: Mapping[str, Any]) -> Path:
    """Return DATA_DIR; its default is refused where no project is, as in scrapyd.

    The folder that such a process happens to stand in may be gone with the next start, and all
    that is known with it.
    """
    value = str(settings["DATA_DIR"]).strip()
    if not value:
        raise SettingError("DATA_DIR is empty: name a folder that this user may write to")
    if value == ".smartcrawl" and _project() is None:
        raise SettingError(
            f"DATA_DIR is {value!r}, which lies beside scrapy.cfg, and there is no scrapy.cfg in"
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
    return Path(url.removeprefix("sqlite:///")).expanduser().absolute()


def _redis(settings: Mapping[str, Any]) -> str | None:
    """Return the URL of Redis; None where workers share no frontier. Messages hide its password."""
    url = str(settings["REDIS_URL"] or "").strip()
    if not url:
        return None
    wrong = "is no URL of a Redis"
    with suppress(ValueError):  # a port or an IPv6 address that is none
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
        f"REDIS_URL is {redacted(url)!r}, which {wrong}: it takes redis://HOST:PORT/DB, or"
        " rediss:// for TLS, with USER:PASSWORD@ before the host where it asks for them, or"
        " unix:///PATH?db=DB; characters such as / and # in a password are percent-encoded"
    )


def _snapshots(settings: Mapping[str, Any], data_dir: Path) -> str | None:
    """Return where bodies are kept; None where they are not."""
    value = str(settings["SNAPSHOT_STORE"] or "").strip()
    if value.lower() == "off":
        return None
    return value or str(data_dir / "snapshots")


def _number(
    settings: Mapping[str, Any], name: str, *, least: float, most: float | None = None
) -> float:
    value = settings[name]
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not least <= number <= (float("inf") if most is None else most):
        bounds = f"from {least:g} to {most:g}" if most is not None else f"of at least {least:g}"
        raise SettingError(f"{name} is {value!r}: it takes a number {bounds}")
    return number


def _whole(settings: Mapping[str, Any], name: str, *, least: int = 0) -> int:
    value = settings[name]
    try:
        number = int(value) if isinstance(value, str | int) else least - 1
    except ValueError:
        number = least - 1
    if number < least:
        raise SettingError(f"{name} is {value!r}: it takes a whole number of at least {least}")
    return number


def _one_of(settings: Mapping[str, Any], name: str, *choices: str) -> str:
    value = str(settings[name]).strip().lower()
    if value not in choices:
        raise SettingError(f"{name} is {settings[name]!r}: it takes one of {', '.join(choices)}")
    return value


def _switch(settings: Mapping[str, Any], name: str) -> bool:
    """Return one of SWITCHES, which were checked before."""
    return str(settings[name]).lower() in ("1", "true")


def _table(settings: Mapping[str, Any], name: str) -> str:
    value = str(settings[name]).strip()
    if not _TABLE.fullmatch(value) or value.lower().startswith("sqlite_"):
        raise SettingError(
            f"{name} is {settings[name]!r}: it takes a word of up to 63 letters, digits and _ that"
            " begins with neither a digit nor sqlite_, such as IngestItems"
        )
    return value


def _words(settings: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = settings[name]
    parts = value.split(",") if isinstance(value, str) else [str(part) for part in value]
    return tuple(part.strip().lower() for part in parts if part.strip())


def _ports(settings: Mapping[str, Any], name: str) -> tuple[int, ...]:
    words = _words(settings, name)
    ports = tuple(int(word) for word in words if word.isascii() and word.isdecimal())
    if len(ports) != len(words) or not all(0 < port < 65_536 for port in ports):
        raise SettingError(
            f"{name} is {settings[name]!r}: it takes ports such as 8080,8443, from 1 to 65535"
        )
    return ports


def _statuses(settings: Mapping[str, Any], name: str) -> frozenset[int] | None:
    words = _words(settings, name)
    if words == ("*",):
        return None
    try:
        statuses = frozenset(int(word) for word in words)
    except ValueError:
        statuses = frozenset({0})
    if not all(400 <= status <= 499 and status not in PASSING for status in statuses):
        raise SettingError(
            f"{name} is {settings[name]!r}: it takes HTTP statuses from 400 to 499 such as 404,410,"
            " or *; 408, 425, 429 and 5xx say nothing about a page and never lead to its removal"
        )
    return statuses


def _schedule(settings: Mapping[str, Any]) -> Schedule:
    base = _whole(settings, "CRAWL_BASE_INTERVAL_SECONDS", least=1)
    longest = _whole(settings, "CRAWL_MAX_INTERVAL_SECONDS", least=1)
    if base > longest:
        raise SettingError(
            f"CRAWL_MAX_INTERVAL_SECONDS is {longest}: it takes at least the"
            f" {base} of CRAWL_BASE_INTERVAL_SECONDS"
        )
    words = _words(settings, "CRAWL_INTERVAL_STEPS")
    steps = tuple(int(word) for word in words if word.isdecimal())
    if not steps or len(steps) != len(words) or 0 in steps or list(steps) != sorted(steps):
        raise SettingError(
            f"CRAWL_INTERVAL_STEPS is {settings['CRAWL_INTERVAL_STEPS']!r}: it takes rising"
            " whole numbers such as 1, 3, 7, 14"
        )
    return Schedule(
        base=base,
        longest=longest,
        steps=steps,
        patience=_whole(settings, "UNCHANGED_CHECKS_BEFORE_BACKOFF", least=1),
        error_base=_whole(settings, "CRAWL_ERROR_BACKOFF_BASE", least=1),
        jitter=round(1000 * _number(settings, "CRAWL_JITTER", least=0, most=0.5)),
    )


def _authorities(settings: Mapping[str, Any], name: str) -> Path | None:
    value = str(settings[name] or "").strip()
    if not value:
        return None
    try:
        return authority_file(value)
    except ValueError as error:
        raise SettingError(f"{name} is {value!r}: {error}") from error


def _networks(settings: Mapping[str, Any], name: str) -> tuple[IPv4Network | IPv6Network, ...]:
    try:
        return tuple(ip_network(word) for word in _words(settings, name))
    except ValueError as error:
        raise SettingError(
            f"{name} is {settings[name]!r}: {error};"
            " it takes networks such as 10.0.0.0/8, fd00::/8, separated by commas"
        ) from error
