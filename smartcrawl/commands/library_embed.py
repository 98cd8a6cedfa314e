"""The step embed of ``scrapy library``: one source after another into the store of their domain."""

from __future__ import annotations

import logging
import os

from smartcrawl.commands.library_order import LibraryOrder
from smartcrawl.model.exceptions import RunHeldError, SmartcrawlError
from smartcrawl.model.openai_server import KEY_VARIABLE
from smartcrawl.model.vector_store_options import VectorStoreOptions
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.run.domain_store import run_domain_store, run_domain_store_of_name
from smartcrawl.run.library_embed import LibraryEmbed
from smartcrawl.run.library_report import LibraryReport
from smartcrawl.sources.sharepoint.domains import Domain
from smartcrawl.sources.sharepoint.source import SharepointSource

logger = logging.getLogger(__name__)


def embed_command_has_store(domain: Domain) -> bool:
    """Whether a vector store was made for a domain, is named in it, or has a key."""
    return bool(domain.vector_store_id or domain.vector_store_name or os.environ.get(KEY_VARIABLE))


def embed_command_sources(order: LibraryOrder, report: LibraryReport) -> None:
    """Embed each source; without a store all are skipped, and the crawl goes on (R3-116)."""
    if not order.sources:
        return
    if order.is_dry and order.action != "embed":
        return  # what a download would bring is not there
    if not registry_database(order.options.registry).exists():
        for source in order.sources:
            report.skip(source, f"{source.name} was never downloaded: download it first")
        return
    try:
        if order.is_dry:
            store = run_domain_store_of_name(order.domain, order.options.store_server)
        else:
            store = run_domain_store(order.domain, order.options)
    except SmartcrawlError as error:
        logger.error("embedding is skipped: %s", error)
        for source in order.sources:
            report.skip(source, str(error), is_held=isinstance(error, RunHeldError))
        return
    for source in order.sources:
        if order.is_ending():
            report.is_stopped = True
            return
        _embed_source(source, store, order, report)


def _embed_source(
    source: SharepointSource, store: VectorStoreOptions, order: LibraryOrder, report: LibraryReport
) -> None:
    is_dry = order.is_dry
    embedding = LibraryEmbed(source, order.options, order.domain, store, is_dry=is_dry)
    step = embedding.preview if is_dry else embedding.embed
    try:
        result = step(is_full=order.is_full, is_ending=order.is_ending)
    except RunHeldError as error:
        report.skip(source, str(error), is_held=True)
    except SmartcrawlError as error:
        report.skip(source, str(error))
    else:
        report.add_embedded(source, result)
        report.is_stopped |= order.is_ending() and not result.is_whole
