"""Every setting: its default, its unit and one comment. The manual is docs/settings.md.

``scrapy config`` prints the groups and the comments.
Precedence: ``-a`` > ``-s`` > environment variable of the same name > the default here.
``smartcrawl.model.options.Options`` reads and validates them once, before the first request.
"""

import os

from smartcrawl import __version__

defaults: dict[str, object] = {}  # by name, without the environment


def _env(name: str, default: object) -> object:
    defaults[name] = default
    return os.environ.get(name, default)


BOT_NAME = "smartcrawl"
SPIDER_MODULES = ["smartcrawl.spiders"]
NEWSPIDER_MODULE = "smartcrawl.spiders"
COMMANDS_MODULE = "smartcrawl.commands"

# State
DATA_DIR = _env("DATA_DIR", ".smartcrawl")  # folder of all state, read by every command
REGISTRY_URL = _env("REGISTRY_URL", "")  # sqlite:///PATH; empty: registry.db in DATA_DIR
REDIS_URL = _env("REDIS_URL", "")  # redis://HOST:PORT/DB that workers share; empty: one worker
REGISTRY_TABLE_NAME = _env("REGISTRY_TABLE_NAME", "IngestItems")  # table for other programs
REGISTRY_PARTITION_STRATEGY = _env(
    "REGISTRY_PARTITION_STRATEGY", "host"
)  # host or scheme: value of PartitionKey in that table
SOURCES_FILE = _env("SOURCES_FILE", "sources.toml")  # where sources are declared

# Elasticsearch
ELASTICSEARCH_URL = _env("ELASTICSEARCH_URL", "")  # server for the content; empty: the registry
ELASTICSEARCH_INDEX_PREFIX = _env(
    "ELASTICSEARCH_INDEX_PREFIX", "smartcrawl"
)  # name of the searched alias, prefix of all others
ELASTICSEARCH_API_KEY = _env("ELASTICSEARCH_API_KEY", "")  # instead of user and password
ELASTICSEARCH_USERNAME = _env("ELASTICSEARCH_USERNAME", "")  # or in the URL
ELASTICSEARCH_PASSWORD = _env("ELASTICSEARCH_PASSWORD", "")  # or in the URL
ELASTICSEARCH_CA_CERTS = _env("ELASTICSEARCH_CA_CERTS", "")  # PEM file that verifies the server
SINK_WAIT_SECONDS = _env(
    "SINK_WAIT_SECONDS", 3_600
)  # how long to wait for an unreachable index, before the run ends

# Vectors
EMBEDDER = _env("EMBEDDER", "")  # local, onnx, openai; empty: chunks have no vectors
EMBEDDING_FOLDER = _env("EMBEDDING_FOLDER", "")  # of the files of onnx
EMBEDDING_URL = _env("EMBEDDING_URL", "https://api.openai.com/v1")  # server of openai
EMBEDDING_MODEL = _env("EMBEDDING_MODEL", "text-embedding-3-small")  # model of that server
EMBEDDING_DIMENSION = _env("EMBEDDING_DIMENSION", 1_536)  # numbers of a vector of that model
EMBEDDING_BATCH_TEXTS = _env("EMBEDDING_BATCH_TEXTS", 128)  # texts of a request, at most
EMBEDDING_BATCH_TOKENS = _env("EMBEDDING_BATCH_TOKENS", 100_000)  # their tokens, estimated
EMBEDDING_TIMEOUT_SECONDS = _env("EMBEDDING_TIMEOUT_SECONDS", 60)  # for one answer
EMBEDDING_WAIT_SECONDS = _env(
    "EMBEDDING_WAIT_SECONDS", 60
)  # how long to wait for that server, before texts wait for a later run

# Vector store
VECTOR_STORE_URL = _env("VECTOR_STORE_URL", "https://api.openai.com/v1")  # base of its API
VECTOR_STORE_ID = _env("VECTOR_STORE_ID", "")  # the store; with it each swept run pushes
VECTOR_STORE_CONCURRENCY = _env("VECTOR_STORE_CONCURRENCY", 4)  # files given at the same time
VECTOR_STORE_WAIT_SECONDS = _env(
    "VECTOR_STORE_WAIT_SECONDS", 600
)  # to wait until the store has embedded what it was given

# What is crawled and held
DEPTH_LIMIT = _env("DEPTH_LIMIT", 0)  # links from a seed to a page; 0: no limit
CONTENT_HASH_BASIS = _env(
    "CONTENT_HASH_BASIS", "auto"
)  # auto, text or bytes: what "modified" means
CHUNK_SIZE = _env("CHUNK_SIZE", 1_500)  # characters of a chunk of text, at most
CHUNK_OVERLAP = _env("CHUNK_OVERLAP", 0)  # characters that a chunk repeats of the one before it
FORCE_REINDEX_ON_CANONICAL_CHANGE = _env(
    "FORCE_REINDEX_ON_CANONICAL_CHANGE", True
)  # index a page anew when it names another canonical address
ALLOW_NETWORKS = _env("ALLOW_NETWORKS", "")  # private networks to connect to: 10.20.0.0/16,…
ALLOW_PORTS = _env("ALLOW_PORTS", "")  # ports of public hosts in addition to 80 and 443
VERIFY_CERTIFICATES = _env("VERIFY_CERTIFICATES", True)  # refuse servers without a valid one
CA_FILE = _env("CA_FILE", "")  # PEM file of authorities in addition to the system's
SITEMAPS_FROM_ROBOTS = _env("SITEMAPS_FROM_ROBOTS", True)  # read the sitemaps that robots.txt names
LLMS_TXT = _env("LLMS_TXT", False)  # read the /llms.txt of each site as a sitemap
HOST_URL_BUDGET = _env("HOST_URL_BUDGET", 1_000_000)  # addresses of one host; 0: no limit
MAX_HOSTS = _env("MAX_HOSTS", 1_000)  # hosts of one source; 0: no limit
TRACKING_PARAM_PREFIXES = _env(
    "TRACKING_PARAM_PREFIXES", "utm_, gclid, fbclid, msclkid"
)  # query parameters left out of ids, by prefix
TRACKING_PARAM_NAMES = _env(
    "TRACKING_PARAM_NAMES", ""
)  # query parameters left out of ids, by whole name

# What may be removed, and when
LOST_THRESHOLD = _env("LOST_THRESHOLD", 3)  # runs that must find 404 or 410
LOST_MIN_AGE = _env("LOST_MIN_AGE", 0)  # seconds since the first run that found it gone
LOST_PURGE_STATUSES = _env("LOST_PURGE_STATUSES", "404,410")  # statuses that count; *: any
ORPHAN_THRESHOLD = _env("ORPHAN_THRESHOLD", 3)  # complete runs that must not reach a page
ORPHAN_MIN_AGE = _env("ORPHAN_MIN_AGE", 0)  # seconds since the first run that missed it
LOST_ORPHAN_RULE = _env(
    "LOST_ORPHAN_RULE", "age"
)  # age: runs lost and orphaned are added; or threshold
OUT_OF_SCOPE_POLICY = _env("OUT_OF_SCOPE_POLICY", "orphan")  # excluded pages; or: remove
SWEEP_MAX_RATIO = _env("SWEEP_MAX_RATIO", 0.1)  # share of a source one sweep may remove; 1.0: off
SWEEP_MIN_COUNT = _env("SWEEP_MIN_COUNT", 10)  # pages that a sweep may always remove
UNDO_TTL_SECONDS = _env("UNDO_TTL_SECONDS", 2_592_000)  # how long a removal can be undone
GONE_TTL_SECONDS = _env("GONE_TTL_SECONDS", 7_776_000)  # record of a removed page; 0: for ever

# What servers are believed
TRUST_SAMPLE_RATIO = _env("TRUST_SAMPLE_RATIO", 0.005)  # share of pages downloaded whole; 0: none
MAX_UNVERIFIED_DAYS = _env(
    "MAX_UNVERIFIED_DAYS", 90
)  # days without a whole download after which no 304 counts; 0: never
FILE_VALIDATOR = _env(
    "FILE_VALIDATOR", "mtime"
)  # how changed files of folders are found: mtime, ctime, or hash (each file is read)
HEAD_POLICY = _env("HEAD_POLICY", "auto")  # never, auto or always: a HEAD before a download
REVALIDATION_LANE = _env(
    "REVALIDATION_LANE", "auto"
)  # auto: stored pages are checked beside the engine; off
HEAD_MIN_BYTES = _env("HEAD_MIN_BYTES", 1_048_576)  # least size for which auto sends a HEAD
SOFT_404_DETECTION = _env("SOFT_404_DETECTION", True)  # request one missing address from each host

# Snapshots, and pages that are read again
SNAPSHOT_STORE = _env("SNAPSHOT_STORE", "")  # URL of fsspec; empty: in DATA_DIR; off: none are kept
SNAPSHOT_RETENTION_DAYS = _env("SNAPSHOT_RETENTION_DAYS", 30)  # of bodies that no page has any more
RE_EXTRACT_PER_RUN = _env(
    "RE_EXTRACT_PER_RUN", 10_000
)  # pages fetched whole because the configuration changed; 0: all
EXTRACT_PROCESSES = _env("EXTRACT_PROCESSES", 2)  # processes for PDF, Office and the like, at most
EXTRACT_MEMORY_MB = _env("EXTRACT_MEMORY_MB", 512)  # MiB of each process
EXTRACT_CPU_SECONDS = _env("EXTRACT_CPU_SECONDS", 30)  # of one document; twice that by the clock
EXTRACT_SECONDS_PER_HOST = _env("EXTRACT_SECONDS_PER_HOST", 30)  # of all documents in a run; 0: any

# When pages are due again
CRAWL_BASE_INTERVAL_SECONDS = _env("CRAWL_BASE_INTERVAL_SECONDS", 86_400)  # interval after a change
CRAWL_MAX_INTERVAL_SECONDS = _env("CRAWL_MAX_INTERVAL_SECONDS", 1_209_600)  # longest interval
CRAWL_INTERVAL_STEPS = _env("CRAWL_INTERVAL_STEPS", "1, 3, 7, 14")  # intervals, times the base
UNCHANGED_CHECKS_BEFORE_BACKOFF = _env("UNCHANGED_CHECKS_BEFORE_BACKOFF", 3)  # visits for each step
CRAWL_ERROR_BACKOFF_BASE = _env("CRAWL_ERROR_BACKOFF_BASE", 600)  # seconds; doubles with each error
CRAWL_JITTER = _env("CRAWL_JITTER", 0.1)  # share of an interval by which visits are spread
RECRAWL_POLICY = _env("RECRAWL_POLICY", "always")  # always, or due: request only due pages

# Politeness and limits
ROBOTSTXT_OBEY = _env("ROBOTSTXT_OBEY", True)  # request robots.txt, and obey it
ROBOTS_TTL_SECONDS = _env(
    "ROBOTS_TTL_SECONDS", 86_400
)  # age of rules within a run; 0: fetched once
ROBOTS_MAX_STALE_SECONDS = _env(
    "ROBOTS_MAX_STALE_SECONDS", 2_592_000
)  # age of stored rules that count while robots.txt fails
ROBOTSTXT_PARSER = _env(
    "ROBOTSTXT_PARSER", "smartcrawl.extract.robots_txt.Rfc9309RobotParser"
)  # class that reads robots.txt
USER_AGENT = _env(
    "USER_AGENT", f"smartcrawl/{__version__} (incremental crawler)"
)  # header of each request; add how to reach you
CONCURRENT_REQUESTS = _env("CONCURRENT_REQUESTS", 16)  # in flight, all hosts
CONCURRENT_REQUESTS_PER_DOMAIN = _env("CONCURRENT_REQUESTS_PER_DOMAIN", 3)  # in flight, each host
DOWNLOAD_DELAY = _env("DOWNLOAD_DELAY", 0)  # seconds between requests to a host, at least
DOWNLOAD_DELAY_JITTER = 0  # Scrapy's 0.5 would let a delay be half of it
AUTOTHROTTLE_ENABLED = _env("AUTOTHROTTLE_ENABLED", True)  # adapt the delay to the server's latency
AUTOTHROTTLE_START_DELAY = _env("AUTOTHROTTLE_START_DELAY", 0.1)  # seconds, before the first answer
AUTOTHROTTLE_MAX_DELAY = _env("AUTOTHROTTLE_MAX_DELAY", 60)  # seconds, however slow the server
AUTOTHROTTLE_TARGET_CONCURRENCY = _env("AUTOTHROTTLE_TARGET_CONCURRENCY", 1.0)  # requests at a time
HTTPPROXY_ENABLED = _env("HTTPPROXY_ENABLED", False)  # use http_proxy, https_proxy, no_proxy
DOWNLOAD_TIMEOUT = _env("DOWNLOAD_TIMEOUT", 30)  # seconds for a whole answer
MIN_DOWNLOAD_RATE = _env("MIN_DOWNLOAD_RATE", 1_024)  # bytes a second of a body; 0: any
DOWNLOAD_MAXSIZE = _env("DOWNLOAD_MAXSIZE", 8 * 1024 * 1024)  # bytes of one body
TWISTED_DNS_RESOLVER = "smartcrawl.engine.download.network.GuardedResolver"  # see ALLOW_NETWORKS
DOWNLOAD_VERIFY_CERTIFICATES = True  # of a handler of your own; ours reads VERIFY_CERTIFICATES
DOWNLOAD_WARNSIZE = 0  # a body over the limit is an outcome of its own
RETRY_TIMES = _env("RETRY_TIMES", 2)  # more tries after a passing failure
REDIRECT_MAX_TIMES = _env("REDIRECT_MAX_TIMES", 5)  # redirects in a row; 0: follow none
RETRY_AFTER_MAX_WAIT = _env("RETRY_AFTER_MAX_WAIT", 60)  # longest Retry-After to obey, in seconds
HOST_FAILURES_TO_PARK = _env("HOST_FAILURES_TO_PARK", 20)  # visits in a row without an answer
HOST_FAILURE_SECONDS = _env(
    "HOST_FAILURE_SECONDS", 30
)  # seconds of failures before a host is parked
HOST_PARK_SECONDS = _env("HOST_PARK_SECONDS", 60)  # pause of a host before each probe
HOST_PROBES = _env("HOST_PROBES", 3)  # failed probes after which a host is down

# Repositories of GitHub
GITHUB_API_URL = _env("GITHUB_API_URL", "https://api.github.com")  # commits and trees
GITHUB_RAW_URL = _env("GITHUB_RAW_URL", "https://raw.githubusercontent.com")  # contents of files
GITHUB_WEB_URL = _env("GITHUB_WEB_URL", "https://github.com")  # addresses of repositories and pages

# Document libraries of SharePoint
SHAREPOINT_API = _env("SHAREPOINT_API", "rest")  # rest, which takes certificates only; or graph
SHAREPOINT_TENANT = _env("SHAREPOINT_TENANT", "")  # id or domain of the directory
SHAREPOINT_CLIENT_ID = _env("SHAREPOINT_CLIENT_ID", "")  # id of the app registration
SHAREPOINT_CERTIFICATE = _env(
    "SHAREPOINT_CERTIFICATE", ""
)  # PEM or PFX file with the app's certificate and its private key
SHAREPOINT_CERTIFICATE_PASSWORD = _env("SHAREPOINT_CERTIFICATE_PASSWORD", "")  # of that file
SHAREPOINT_CLIENT_SECRET = _env("SHAREPOINT_CLIENT_SECRET", "")  # instead of one, for graph only
SHAREPOINT_LOGIN_URL = _env(
    "SHAREPOINT_LOGIN_URL", "https://login.microsoftonline.com"
)  # where tokens come from
GRAPH_URL = _env("GRAPH_URL", "https://graph.microsoft.com/v1.0")  # base of Microsoft Graph
SHAREPOINT_CA_FILE = _env(
    "SHAREPOINT_CA_FILE", ""
)  # PEM file of authorities in addition to the system's, for these servers
SHAREPOINT_PAGE_SIZE = _env("SHAREPOINT_PAGE_SIZE", 5_000)  # items of an answer of a listing
PERSISTENT_STORAGE_PATH = _env(
    "PERSISTENT_STORAGE_PATH", ""
)  # folder of domains and of their files; empty: library in DATA_DIR
LIBRARY_REPORTS_KEEP = _env("LIBRARY_REPORTS_KEEP", 0)  # archives of crawls a domain; 0: all

# Logs and progress
LOG_LEVEL = _env("LOG_LEVEL", "INFO")  # DEBUG, INFO, WARNING, ERROR or CRITICAL
LOG_FORMAT = _env("LOG_FORMAT", "text")  # text, or json: one object for each line
PROGRESS_FORMAT = _env("PROGRESS_FORMAT", "line")  # line; json: one object a page; none

# The HTTP API
API_HOST = _env(
    "API_HOST", "127.0.0.1"
)  # address to listen at; keys are needed at any but loopback
API_PORT = _env("API_PORT", 8_080)  # port to listen at; 0: a free one
API_TRUSTED_PROXIES = _env(
    "API_TRUSTED_PROXIES", ""
)  # networks of proxies whose X-Forwarded-For counts; with one, keys are needed
API_JOBS_PER_MINUTE = _env("API_JOBS_PER_MINUTE", 100)  # requests of a client that change something
API_DATA_PER_MINUTE = _env("API_DATA_PER_MINUTE", 1_000)  # requests for documents and searches
API_MONITORING_PER_MINUTE = _env("API_MONITORING_PER_MINUTE", 500)  # requests for states and counts
API_REQUIRE_IDEMPOTENCY_KEY = _env(
    "API_REQUIRE_IDEMPOTENCY_KEY", False
)  # refuse to create or replace a job without an Idempotency-Key
MAX_RUNNING_JOBS = _env("MAX_RUNNING_JOBS", 2)  # crawls of jobs at once; others wait in order
SCRAPYD_URL = _env("SCRAPYD_URL", "")  # of a scrapyd that crawls for jobs; empty: processes here
SCRAPYD_PROJECT = _env("SCRAPYD_PROJECT", "smartcrawl")  # the project of the egg in that scrapyd

# The road (docs/architecture.md): the places of our components in Scrapy
SCHEDULER = "smartcrawl.engine.scheduler.NumberScheduler"
DOWNLOAD_HANDLERS = {
    "http": "smartcrawl.engine.download.headers.BoundedHttpHandler",
    "https": "smartcrawl.engine.download.headers.BoundedHttpHandler",
    # No page of the web uses these; a redirect could.
    "data": None,
    "file": None,
    "ftp": None,
    "s3": None,
}
DOWNLOADER_MIDDLEWARES = {
    "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
    "smartcrawl.engine.lane.lane.InHandMiddleware": 10,  # first: it returns answers of the lane
    "smartcrawl.middlewares.AddressMiddleware": 80,  # before any request, robots.txt too
    "smartcrawl.middlewares.HostMiddleware": 90,  # before robots.txt: it refuses that, too
    "smartcrawl.middlewares.RobotsMiddleware": 100,
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "smartcrawl.middlewares.PassingRetryMiddleware": 550,
    "smartcrawl.middlewares.RevalidationMiddleware": 595,  # before decoding: it counts wire bytes
    "scrapy.downloadermiddlewares.httpcompression.HttpCompressionMiddleware": None,
    "smartcrawl.engine.download.decoding.DecodingMiddleware": 590,
    "smartcrawl.engine.download.stored.StoredBodyMiddleware": 580,  # for spiders of your own
    # Off, because public crawls do not need them; each can be switched on again.
    "scrapy.downloadermiddlewares.redirect.RedirectMiddleware": None,
    "scrapy.downloadermiddlewares.redirect.MetaRefreshMiddleware": None,
    "scrapy.downloadermiddlewares.cookies.CookiesMiddleware": None,
    # Its files are pickles, which can run code when loaded, and it would hide every change.
    "scrapy.downloadermiddlewares.httpcache.HttpCacheMiddleware": None,
    # Active only where needed: allowed_domains, a login.
    "scrapy.downloadermiddlewares.offsite.OffsiteMiddleware": None,
    "smartcrawl.engine.own_spiders.Offsite": 50,
    "scrapy.downloadermiddlewares.httpauth.HttpAuthMiddleware": None,
    "smartcrawl.engine.own_spiders.HttpAuth": 300,
}
SPIDER_MIDDLEWARES = {
    "smartcrawl.middlewares.ScopeMiddleware": 500,
    "scrapy.spidermiddlewares.depth.DepthMiddleware": None,  # depth is the frontier's
    "scrapy.spidermiddlewares.referer.RefererMiddleware": None,
    "scrapy.spidermiddlewares.urllength.UrlLengthMiddleware": None,  # smartcrawl.model.urls
    "scrapy.spidermiddlewares.httperror.HttpErrorMiddleware": None,  # HTTPERROR_ALLOW_ALL
    "scrapy.spidermiddlewares.metacopy.MetaCopyDetectionMiddleware": None,  # for writing spiders
}
ITEM_PIPELINES = {
    "smartcrawl.pipelines.ExtractPipeline": 300,
    "smartcrawl.pipelines.DecidePipeline": 500,
    "smartcrawl.pipelines.CommitPipeline": 900,  # last: it must never claim undone work
}
ITEM_PROCESSOR = "smartcrawl.engine.items.VisitsFirst"  # before pipelines of your own
#: Scrapy's table without its remote control: that imports aiohttp, a tenth of the start of a crawl,
#: also where EXTENSIONS turns it off.
EXTENSIONS_BASE = {
    "scrapy.extensions.corestats.CoreStats": 0,
    "scrapy.extensions.logcount.LogCount": 0,
    "scrapy.extensions.telnet.TelnetConsole": 0,
    "scrapy.extensions.memusage.MemoryUsage": 0,
    "scrapy.extensions.memdebug.MemoryDebugger": 0,
    "scrapy.extensions.closespider.CloseSpider": 0,
    "scrapy.extensions.feedexport.FeedExporter": 0,
    "scrapy.extensions.logstats.LogStats": 0,
    "scrapy.extensions.spiderstate.SpiderState": 0,
    "scrapy.extensions.throttle.AutoThrottle": 0,
}
EXTENSIONS = {
    "smartcrawl.engine.control.RunControl": 0,  # before the run ends: it stops looking for orders
    "smartcrawl.engine.reextraction.ReExtraction": 0,  # before the run ends
    "smartcrawl.engine.own_code.OwnCodeErrors": 0,  # likewise
    "smartcrawl.engine.lifecycle.RunLifecycle": 1,
    "smartcrawl.engine.listing.ListingFeed": 1,
    "smartcrawl.engine.lane.lane.RevalidationLane": 2,
    "smartcrawl.engine.delays.DelayControl": 0,
    "smartcrawl.engine.download.decoding.SlowBodies": 0,
    "smartcrawl.engine.progress.Progress": 0,
    "smartcrawl.engine.progress.JsonProgress": 0,
    "scrapy.extensions.throttle.AutoThrottle": None,  # never lowers a delay on a 304
    "scrapy.extensions.logstats.LogStats": None,
    "scrapy.extensions.corestats.CoreStats": 0,
    "scrapy.extensions.spiderstate.SpiderState": None,  # a pickle in JOBDIR, which is not used
}
HTTPERROR_ALLOW_ALL = True  # every answer reaches parse(); errback means no answer
REDIRECT_ENABLED = False  # a redirect is an outcome of its own, not a detour
COOKIES_ENABLED = False
WARN_ON_GENERATOR_RETURN_VALUE = False  # it parses the spider's source again and again
CONCURRENT_ITEMS = 1  # Scrapy starts one task per slot and response, and a page is one item
SCRAPER_SLOT_MAX_ACTIVE_SIZE = 5_000_000  # bytes
TELNETCONSOLE_ENABLED = False
REMOTE_CONTROL_ENABLED = False  # it would run any Python sent to it
STATS_DUMP = False  # the closing table replaces it
LOG_FORMATTER = "smartcrawl.engine.progress.QuietLog"
LOG_INSTALL_ROOT_HANDLER = False  # Scrapy's would take LOG_FORMAT for a %-format
ADDONS = {"smartcrawl.engine.logs.Logs": 0}  # installs our handlers
