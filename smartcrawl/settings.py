"""The settings module of Scrapy. The settings of people are in smartcrawl/model/settings_table.py.

That table has their names, defaults, units and bounds; the manual is docs/settings.md.
Precedence: ``-a`` > ``-s`` > environment variable of the same name > the default in the table.
``smartcrawl.model.options.Options`` reads and validates them once, before the first request.
"""

import os

from smartcrawl.model import settings_table as _table

#: By name, without the environment.
defaults: dict[str, object] = {name: setting.default for name, setting in _table.SETTINGS.items()}
globals().update({name: os.environ.get(name, default) for name, default in defaults.items()})

BOT_NAME = "smartcrawl"
SPIDER_MODULES = ["smartcrawl.spiders"]
NEWSPIDER_MODULE = "smartcrawl.spiders"
COMMANDS_MODULE = "smartcrawl.commands"
DOWNLOAD_DELAY_JITTER = 0  # Scrapy's 0.5 would let a delay be half of it
TWISTED_DNS_RESOLVER = "smartcrawl.engine.download.network.GuardedResolver"  # see ALLOW_NETWORKS
DOWNLOAD_VERIFY_CERTIFICATES = True  # of a handler of your own; ours reads VERIFY_CERTIFICATES
DOWNLOAD_WARNSIZE = 0  # a body over the limit is an outcome of its own

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
    "smartcrawl.middlewares.SourceProxyMiddleware": 70,  # before addresses: a proxy counts there
    "smartcrawl.middlewares.AddressMiddleware": 80,  # before any request, robots.txt too
    "smartcrawl.middlewares.HostMiddleware": 90,  # before robots.txt: it refuses that, too
    "smartcrawl.middlewares.RobotsMiddleware": 100,
    "smartcrawl.engine.auth.middleware.AuthMiddleware": 110,  # of pages that may be asked
    "smartcrawl.middlewares.SourceHeadersMiddleware": 350,  # before the headers of the settings
    "scrapy.downloadermiddlewares.retry.RetryMiddleware": None,
    "smartcrawl.middlewares.RenderMiddleware": 500,  # after retries: of the answer that counts
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
    "smartcrawl.engine.run_log.RunLog": 0,  # before the run says that it begins
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
