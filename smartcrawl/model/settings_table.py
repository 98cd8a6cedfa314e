"""The table of all settings: type, name, default, unit, meaning, and bounds.

Everything else about settings comes from it: the names of ``smartcrawl.settings``, what ``Options``
reads and refuses, ``smartcrawl config``, ``smartcrawl.toml`` and the tables of docs/settings.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from smartcrawl import __version__
from smartcrawl.model.setting_values import (
    MOST_DAYS,
    Address,
    Authorities,
    AutoWhole,
    Base,
    Choice,
    Folder,
    Level,
    Networks,
    Number,
    Origins,
    Parser,
    PathText,
    Ports,
    Secret,
    Setting,
    Statuses,
    Steps,
    Switch,
    Whole,
    Words,
)
from smartcrawl.rules.http import MOST_REDIRECTS

_ADDRESS: Final = "an http or https address"
_OPENAI: Final = (
    "without credentials and query, such as https://api.openai.com/v1; the key belongs in"
    " OPENAI_API_KEY"
)
_GITHUB: Final = f"{_ADDRESS} without credentials and query, such as https://ghe.example.com"

ROBOTS_PARSER: Final = Parser(
    "ROBOTSTXT_PARSER",
    "smartcrawl.extract.robots_txt.Rfc9309RobotParser",
    "class",
    "class that reads robots.txt",
    takes="a class of Scrapy's RobotParser interface such as"
    " smartcrawl.extract.robots_txt.Rfc9309RobotParser or"
    " smartcrawl.extract.robots_txt.AllowFirstRobotParser",
)

# fmt: off
#: The settings by the headings of docs/settings.md, in its order. A row is a line or two.
TABLE: Final[Mapping[str, tuple[Setting, ...]]] = {
    "State": (
        PathText("DATA_DIR", ".smartcrawl", "folder", "folder of all state, read by every command"),
        Setting("REGISTRY_URL", "", "URL", "sqlite:///PATH; empty: registry.db in DATA_DIR"),
        Setting("REDIS_URL", "", "URL",
            "redis://HOST:PORT/DB that workers share; empty: one worker"),
        Setting("REGISTRY_TABLE_NAME", "IngestItems", "word", "table for other programs",
            form=r"(?!(?i:sqlite_))[A-Za-z_][A-Za-z0-9_]{0,62}",
            takes="a word of up to 63 letters, digits and _ that begins with neither a digit nor"
            " sqlite_, such as IngestItems"),
        Choice("REGISTRY_PARTITION_STRATEGY", "host", "host, scheme",
            "host or scheme: value of PartitionKey in that table"),
        PathText("SOURCES_FILE", "sources.toml", "file", "where sources are declared"),
    ),
    "Elasticsearch": (
        Setting("ELASTICSEARCH_URL", "", "URL", "server for the content; empty: the registry"),
        Setting("ELASTICSEARCH_INDEX_PREFIX", "smartcrawl", "name",
            "name of the searched alias, prefix of all others", form=r"[a-z0-9][a-z0-9_.-]{0,99}",
            takes="up to 100 lower-case letters, digits, _ . and -, which begin with a letter or a"
            " digit"),
        Secret("ELASTICSEARCH_API_KEY", "", "key", "instead of user and password"),
        Setting("ELASTICSEARCH_USERNAME", "", "text", "or in the URL"),
        Secret("ELASTICSEARCH_PASSWORD", "", "text", "or in the URL"),
        PathText("ELASTICSEARCH_CA_CERTS", "", "file", "PEM file that verifies the server"),
        Whole("SINK_WAIT_SECONDS", 3_600, "seconds",
            "how long to wait for an unreachable index, before the run ends"),
    ),
    "Vectors": (
        Choice("EMBEDDER", "", "local, onnx, openai",
            "local, onnx, openai; empty: chunks have no vectors",
            takes="one of local, onnx, openai, or nothing for no vectors"),
        Folder("EMBEDDING_FOLDER", "", "path", "of the files of onnx"),
        Base("EMBEDDING_URL", "https://api.openai.com/v1", "URL", "server of openai",
            takes=f"{_ADDRESS}, {_OPENAI}"),
        Setting("EMBEDDING_MODEL", "text-embedding-3-small", "name", "model of that server",
            form=r"[\x21-\x7e]{1,200}",
            takes="the name of a model of the server, such as text-embedding-3-small"),
        Whole("EMBEDDING_DIMENSION", 1_536, "numbers", "numbers of a vector of that model", least=1,
            most=4_000),
        Whole("EMBEDDING_BATCH_TEXTS", 128, "texts", "texts of a request, at most", least=1,
            most=2_048),
        Whole("EMBEDDING_BATCH_TOKENS", 100_000, "tokens", "their tokens, estimated", least=1),
        Whole("EMBEDDING_TIMEOUT_SECONDS", 60, "seconds", "for one answer", least=1),
        Whole("EMBEDDING_WAIT_SECONDS", 60, "seconds",
            "how long to wait for that server, before texts wait for a later run"),
        Folder("RERANK_FOLDER", "", "path", "of a cross-encoder for the first hits; empty: none"),
        Number("RERANK_SECONDS", 2.0, "seconds", "for the first hits of a search", least=0.01,
            most=60),
    ),
    "Vector store": (
        Base("VECTOR_STORE_URL", "https://api.openai.com/v1", "URL", "base of its API",
            form=r".*/v1", takes=f"{_ADDRESS} that ends in /v1, {_OPENAI}"),
        Setting("VECTOR_STORE_ID", "", "id", "the store; with it each swept run pushes",
            form=r"[A-Za-z0-9_:][A-Za-z0-9_:.-]{0,199}",
            takes="the id of a vector store, such as vs_67fd0c12"),
        Whole("VECTOR_STORE_CONCURRENCY", 4, "files", "files given at the same time", least=1,
            most=16),
        Whole("VECTOR_STORE_WAIT_SECONDS", 600, "seconds",
            "to wait until the store has embedded what it was given"),
    ),
    "What is crawled and held": (
        Whole("DEPTH_LIMIT", 0, "links", "links from a seed to a page; 0: no limit"),
        Choice("CONTENT_HASH_BASIS", "auto", "auto, text, bytes",
            'auto, text or bytes: what "modified" means'),
        Whole("CHUNK_SIZE", 1_500, "characters", "characters of a chunk of text, at most",
            least=200, most=20_000),
        Whole("CHUNK_OVERLAP", 0, "characters",
            "characters that a chunk repeats of the one before it"),
        Switch("LEAVE_OUT_REPEATED", True, "switch",
            "leave out lines that stand at one place on many pages of a host"),
        Switch("FORCE_REINDEX_ON_CANONICAL_CHANGE", True, "switch",
            "index a page anew when it names another canonical address"),
        Networks("ALLOW_NETWORKS", "", "networks",
            "private networks to connect to: 10.20.0.0/16,…"),
        Ports("ALLOW_PORTS", "", "ports", "ports of public hosts in addition to 80 and 443"),
        Switch("VERIFY_CERTIFICATES", True, "switch", "refuse servers without a valid one"),
        Authorities("CA_FILE", "", "file", "PEM file of authorities in addition to the system's"),
        Switch("SITEMAPS_FROM_ROBOTS", True, "switch", "read the sitemaps that robots.txt names"),
        Switch("LLMS_TXT", False, "switch", "read the /llms.txt of each site as a sitemap"),
        Whole("HOST_URL_BUDGET", 1_000_000, "addresses", "addresses of one host; 0: no limit"),
        Whole("MAX_HOSTS", 1_000, "hosts", "hosts of one source; 0: no limit"),
        Words("TRACKING_PARAM_PREFIXES", "utm_, gclid, fbclid, msclkid", "beginnings of names",
            "query parameters left out of ids, by prefix"),
        Words("TRACKING_PARAM_NAMES", "", "names",
            "query parameters left out of ids, by whole name"),
    ),
    "What may be removed, and when": (
        Whole("LOST_THRESHOLD", 3, "runs", "runs that must find 404 or 410", least=1),
        Whole("LOST_MIN_AGE", 0, "seconds", "seconds since the first run that found it gone"),
        Statuses("LOST_PURGE_STATUSES", "404,410", "HTTP statuses", "statuses that count; *: any"),
        Whole("ORPHAN_THRESHOLD", 3, "complete runs", "complete runs that must not reach a page",
            least=1),
        Whole("ORPHAN_MIN_AGE", 0, "seconds", "seconds since the first run that missed it"),
        Choice("LOST_ORPHAN_RULE", "age", "age, threshold",
            "age: runs lost and orphaned are added; or threshold"),
        Choice("OUT_OF_SCOPE_POLICY", "orphan", "orphan, remove", "excluded pages; or: remove"),
        Number("SWEEP_MAX_RATIO", 0.1, "share", "share of a source one sweep may remove; 1.0: off",
            most=1),
        Whole("SWEEP_MIN_COUNT", 10, "pages", "pages that a sweep may always remove"),
        Whole("UNDO_TTL_SECONDS", 2_592_000, "seconds", "how long a removal can be undone"),
        Whole("GONE_TTL_SECONDS", 7_776_000, "seconds", "record of a removed page; 0: for ever"),
    ),
    "What servers are believed": (
        Number("TRUST_SAMPLE_RATIO", 0.005, "share", "share of pages downloaded whole; 0: none",
            most=1),
        Whole("MAX_UNVERIFIED_DAYS", 90, "days",
            "days without a whole download after which no 304 counts; 0: never", most=MOST_DAYS),
        Choice("FILE_VALIDATOR", "mtime", "mtime, ctime, hash",
            "how changed files of folders are found: mtime, ctime, or hash (each file is read)"),
        Choice("HEAD_POLICY", "auto", "never, auto, always",
            "never, auto or always: a HEAD before a download"),
        Choice("REVALIDATION_LANE", "auto", "auto, off",
            "auto: stored pages are checked beside the engine; off"),
        Whole("HEAD_MIN_BYTES", 1_048_576, "bytes", "least size for which auto sends a HEAD"),
        Switch("SOFT_404_DETECTION", True, "switch", "request one missing address from each host"),
    ),
    "Snapshots, and pages that are read again": (
        Setting("SNAPSHOT_STORE", "", "URL",
            "URL of fsspec; empty: in DATA_DIR; off: none are kept"),
        Whole("SNAPSHOT_RETENTION_DAYS", 30, "days", "of bodies that no page has any more",
            most=MOST_DAYS),
        Whole("RE_EXTRACT_PER_RUN", 10_000, "pages",
            "pages fetched whole because the configuration changed; 0: all"),
        AutoWhole("READ_PROCESSES", "0", "processes",
            "processes that read pages; auto: cores - 1, at most 8", most=64),
        Whole("EXTRACT_PROCESSES", 2, "processes",
            "processes for PDF, Office and the like, at most", least=1),
        Whole("EXTRACT_MEMORY_MB", 512, "MiB", "MiB of each process", least=256),
        Whole("EXTRACT_CPU_SECONDS", 30, "seconds", "of one document; twice that by the clock",
            least=1),
        Whole("EXTRACT_SECONDS_PER_HOST", 30, "seconds", "of all documents in a run; 0: any"),
    ),
    "Pages that a browser shows": (
        Choice("RENDER", "auto", "auto, no, always",
            "auto: pages that need a browser, by samples; no, or always; a source may differ"),
        Setting("RENDER_BROWSER", "", "program", "path or name of a Chromium; empty: on the PATH"),
        Whole("RENDER_PAGES", 2, "pages", "pages rendered at the same time, at most", least=1,
            most=32),
        Whole("RENDER_PER_RUN", 10_000, "pages",
            "pages rendered because data changed that several share; 0: all"),
        Whole("RENDER_MEMORY_MB", 1_024, "MiB", "MiB of the process of a page", least=256),
        Choice("RENDER_SANDBOX", "on", "on, off",
            "on: Chromium confines the processes of pages itself; off"),
    ),
    "When pages are due again": (
        Whole("CRAWL_BASE_INTERVAL_SECONDS", 86_400, "seconds", "interval after a change", least=1),
        Whole("CRAWL_MAX_INTERVAL_SECONDS", 1_209_600, "seconds", "longest interval", least=1),
        Steps("CRAWL_INTERVAL_STEPS", "1, 3, 7, 14", "times the base", "intervals, times the base"),
        Whole("UNCHANGED_CHECKS_BEFORE_BACKOFF", 3, "visits", "visits for each step", least=1),
        Whole("CRAWL_ERROR_BACKOFF_BASE", 600, "seconds", "seconds; doubles with each error",
            least=1),
        Number("CRAWL_JITTER", 0.1, "share", "share of an interval by which visits are spread",
            most=0.5),
        Choice("RECRAWL_POLICY", "always", "always, due", "always, or due: request only due pages"),
    ),
    "Alarms": (
        Whole("MAX_AGE_SECONDS", 1_209_600, "seconds",
            "seconds without a complete run after which a source is stale; 0: never"),
        Number("MAX_FAILED_RATIO", 0.1, "share",
            "share of a source's pages whose last visit may fail", most=1),
    ),
    "Politeness and limits": (
        Switch("ROBOTSTXT_OBEY", True, "switch", "request robots.txt, and obey it"),
        Whole("ROBOTS_TTL_SECONDS", 86_400, "seconds",
            "age of rules within a run; 0: fetched once"),
        Whole("ROBOTS_MAX_STALE_SECONDS", 2_592_000, "seconds",
            "age of stored rules that count while robots.txt fails"),
        ROBOTS_PARSER,
        Setting("USER_AGENT", f"smartcrawl/{__version__} (incremental crawler)", "text",
            "header of each request; add how to reach you"),
        Whole("CONCURRENT_REQUESTS", 16, "requests", "in flight, all hosts", least=1),
        Whole("CONCURRENT_REQUESTS_PER_DOMAIN", 3, "requests", "in flight, each host", least=1),
        Number("DOWNLOAD_DELAY", 0, "seconds", "seconds between requests to a host, at least"),
        Switch("AUTOTHROTTLE_ENABLED", True, "switch", "one request at a time to a slowing host"),
        Number("AUTOTHROTTLE_START_DELAY", 0.1, "seconds", "seconds, before the first answer"),
        Number("AUTOTHROTTLE_MAX_DELAY", 60, "seconds", "seconds, however slow the server"),
        Number("AUTOTHROTTLE_TARGET_CONCURRENCY", 0, "requests",
            "requests at a time on average; 0: as each host bears"),
        Switch("HTTPPROXY_ENABLED", False, "switch", "use http_proxy, https_proxy, no_proxy"),
        Number("DOWNLOAD_TIMEOUT", 30, "seconds", "seconds for a whole answer", least=0.001),
        Whole("MIN_DOWNLOAD_RATE", 1_024, "bytes a second", "bytes a second of a body; 0: any"),
        Whole("DOWNLOAD_MAXSIZE", 8 * 1024 * 1024, "bytes", "bytes of one body"),
        Whole("MAX_FILE_SIZE", 64 * 1024 * 1024, "bytes", "bytes of a file of a listed source"),
        Whole("RETRY_TIMES", 2, "requests", "more tries after a passing failure"),
        Whole("REDIRECT_MAX_TIMES", 5, "redirects", "redirects in a row; 0: follow none",
            most=MOST_REDIRECTS),
        Whole("RETRY_AFTER_MAX_WAIT", 60, "seconds", "longest Retry-After to obey, in seconds"),
        Whole("HOST_FAILURES_TO_PARK", 20, "visits", "visits in a row without an answer", least=1),
        Whole("HOST_FAILURE_SECONDS", 30, "seconds", "seconds of failures before a host is parked"),
        Whole("HOST_PARK_SECONDS", 60, "seconds", "pause of a host before each probe"),
        Whole("HOST_PROBES", 3, "requests", "failed probes after which a host is down", least=1),
    ),
    "Repositories of GitHub": (
        Base("GITHUB_API_URL", "https://api.github.com", "URL", "commits and trees",
            takes=f"{_GITHUB}/api/v3"),
        Base("GITHUB_RAW_URL", "https://raw.githubusercontent.com", "URL", "contents of files",
            takes=f"{_GITHUB}/raw"),
        Base("GITHUB_WEB_URL", "https://github.com", "URL", "addresses of repositories and pages",
            takes=_GITHUB),
    ),
    "Document libraries of SharePoint": (
        Choice("SHAREPOINT_API", "rest", "rest, graph",
            "rest, which takes certificates only; or graph"),
        Setting("SHAREPOINT_TENANT", "", "id or domain", "id or domain of the directory",
            form=r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}",
            takes="the id or the domain of a directory, such as contoso.onmicrosoft.com"),
        Setting("SHAREPOINT_CLIENT_ID", "", "id", "id of the app registration",
            form=r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
            takes="the application (client) id of the app registration, such as"
            " 6731de76-14a6-49ae-97bc-6eba6914391e"),
        PathText("SHAREPOINT_CERTIFICATE", "", "file",
            "PEM or PFX file with the app's certificate and its private key"),
        Secret("SHAREPOINT_CERTIFICATE_PASSWORD", "", "text", "of that file"),
        Secret("SHAREPOINT_CLIENT_SECRET", "", "text", "instead of one, for graph only"),
        Base("SHAREPOINT_LOGIN_URL", "https://login.microsoftonline.com", "URL",
            "where tokens come from", form="https://[^/]+",
            takes="an https address without credentials, path and query, such as"
            " https://login.microsoftonline.com"),
        Base("GRAPH_URL", "https://graph.microsoft.com/v1.0", "URL", "base of Microsoft Graph",
            takes="an https address without credentials and query, such as"
            " https://graph.microsoft.com/v1.0"),
        Authorities("SHAREPOINT_CA_FILE", "", "file",
            "PEM file of authorities in addition to the system's, for these servers"),
        Whole("SHAREPOINT_PAGE_SIZE", 5_000, "items", "items of an answer of a listing", least=1,
            most=5_000),
        Folder("PERSISTENT_STORAGE_PATH", "", "folder",
            "folder of domains and of their files; empty: library in DATA_DIR"),
        Whole("LIBRARY_REPORTS_KEEP", 0, "archives", "archives of crawls a domain; 0: all"),
    ),
    "Logs and progress": (
        Level("LOG_LEVEL", "INFO", "level", "DEBUG, INFO, WARNING, ERROR or CRITICAL"),
        Choice("LOG_FORMAT", "text", "text, json", "text, or json: one object for each line"),
        Choice("PROGRESS_FORMAT", "line", "line, json, none",
            "line; json: one object a page; none"),
    ),
    "The HTTP API": (
        Address("API_HOST", "127.0.0.1", "IP address",
            "address to listen at; keys are needed at any but loopback",
            takes="an IP address of this machine such as 127.0.0.1 or ::1, or 0.0.0.0 for all of"
            " them"),
        Whole("API_PORT", 8_080, "port", "port to listen at; 0: a free one", most=65_535,
            takes="a port from 1 to 65535, or 0 for a free one"),
        Networks("API_TRUSTED_PROXIES", "", "networks",
            "networks of proxies whose X-Forwarded-For counts; with one, keys are needed"),
        Whole("API_JOBS_PER_MINUTE", 100, "requests a minute",
            "requests of a client that change something", least=1),
        Whole("API_DATA_PER_MINUTE", 1_000, "requests a minute",
            "requests for documents and searches", least=1),
        Whole("API_MONITORING_PER_MINUTE", 500, "requests a minute",
            "requests for states and counts", least=1),
        Whole("API_PAGES_PER_MINUTE", 600, "requests a minute",
            "requests for pages in a browser, of each session", least=1),
        Origins("API_ORIGINS", "", "origins",
            "web sites whose pages may search here from a browser"),
        Switch("API_REQUIRE_IDEMPOTENCY_KEY", False, "switch",
            "refuse to create or replace a job without an Idempotency-Key"),
        Switch("API_INDEXNOW", False, "switch",
            "take notices of IndexNow at /indexnow, without an API key"),
        Whole("MAX_RUNNING_JOBS", 2, "crawls", "crawls of jobs at once; others wait in order",
            least=1),
        Setting("SCRAPYD_URL", "", "URL",
            "of a scrapyd that crawls for jobs; empty: processes here"),
        Setting("SCRAPYD_PROJECT", "smartcrawl", "name", "the project of the egg in that scrapyd",
            form=r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}",
            takes="the name of the project in scrapyd, such as smartcrawl"),
    ),
}
# fmt: on
SETTINGS: Final[Mapping[str, Setting]] = {
    setting.name: setting for group in TABLE.values() for setting in group
}


def setting_value(settings: Mapping[str, Any], name: str) -> Any:
    """Return the value of one setting as the program uses it.

    Raises:
        SettingError: naming the setting, its value, and what it takes.
    """
    return SETTINGS[name].read(settings[name])
