"""Open the run that the arguments of a spider ask for."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from smartcrawl.index.embedded.vectors import index_embedder_number, prepare_index_for_vectors
from smartcrawl.index.embedding.choice import open_embedder
from smartcrawl.index.embedding.ports import Embedder
from smartcrawl.model.choice_arguments import CHOICE_ARGUMENTS
from smartcrawl.model.exceptions import SourceError, meant_word
from smartcrawl.model.options import Options
from smartcrawl.model.program import program_argument, program_argument_label, program_name
from smartcrawl.model.setting_values import MOST_NUMBER, given_number, given_number_bounds
from smartcrawl.model.urls import display_url, request_url, url_endpoint
from smartcrawl.registry.chunks import owe_refused_chunks
from smartcrawl.registry.connection import transaction
from smartcrawl.registry.database.databases import registry_database
from smartcrawl.registry.jobs import load_sources_with_stored_jobs, load_stored_jobs
from smartcrawl.registry.naming import root_of_ad_hoc_source
from smartcrawl.registry.runs.run_orders import PREFIX
from smartcrawl.run.login import prepare_run_login, source_secrets
from smartcrawl.run.orders import MOST_RETRY_BATCHES, RETRY_BATCHES, Orders
from smartcrawl.run.pushing import run_push_key
from smartcrawl.run.run import Run
from smartcrawl.run.site_starts import (
    listed_source_of_start,
    site_of_address,
    wanted_part_of_run_arguments,
)
from smartcrawl.sources.base import Source
from smartcrawl.sources.declared import (
    DeclaredSources,
    ad_hoc_site_source,
    load_declared_sources,
    select_declared_source,
    source_with_sitemaps,
)
from smartcrawl.sources.files import FilesSource, ad_hoc_files_source
from smartcrawl.sources.github.api import github_token
from smartcrawl.sources.github.source import GithubSource, ad_hoc_repository_source
from smartcrawl.sources.kinds import FILES, GITHUB, SHAREPOINT, SITE, Kind
from smartcrawl.sources.proxies import proxy_of_source
from smartcrawl.sources.sharepoint.domains import load_library_source
from smartcrawl.sources.sharepoint.source import SharepointSource

logger = logging.getLogger(__name__)

_OF_RUNS = ("force", "resume", "max_pages", "lost_threshold", "allow_private", "job")
_OF_FILES = ("yes", "include", "exclude")
#: Of the spider site.
ARGUMENTS = ("url", "scope", "yes", *CHOICE_ARGUMENTS, "sitemap", "source", *_OF_RUNS)
FILES_ARGUMENTS = ("root", *_OF_FILES, "source", *_OF_RUNS)  #: of the spider files
GITHUB_ARGUMENTS = ("url", *_OF_FILES, "source", *_OF_RUNS)  #: of the spider github
LIBRARY_ARGUMENTS = ("source", "retry_batches", *_OF_RUNS)  #: of the spider sharepoint
_FROM_SCRAPYD = ("_job", "_version")  #: ``_job`` also comes from the server of the HTTP API


def open_run(source: Source, options: Options, orders: Orders, now: int) -> Run:
    """Open a run of ``source``, join the one of other workers, or resume the last one.

    Its embedder is that of ``run.batches``, open until ``close_embedder_at_crawler_end``.

    Raises:
        RunHeldError: another process crawls this source alone.
        SmartcrawlError: the run cannot be opened; the message names the remedy.
    """
    _check_allowed_names(source, orders)
    secrets = source_secrets(source)
    proxy_of_source(source.name, source.request.proxy)  # a variable without an address is no run
    with ExitStack() as failed:
        embedder = open_embedder(options)  # first: a wrong setting is no run
        if embedder is not None:
            failed.callback(embedder.close)
            prepare_index_for_vectors(registry_database(options.registry))
        if options.vector_store is not None:
            run_push_key(options.vector_store)
        run = _open(source, options, orders, now)
        failed.callback(run.close)
        prepare_run_login(run, secrets)
        if embedder is not None:
            run.batches.embed_with(embedder)
            if run.opened.forced:
                _ask_refused_texts_again(run, embedder)
        failed.pop_all()
    return run


def _ask_refused_texts_again(run: Run, embedder: Embedder) -> None:
    """Make the texts of a source that were refused debts, which a forced run pays."""
    database = run.registry.database
    with (
        database.translated("write"),
        closing(database.connect()) as connection,
        transaction(connection),
    ):
        if (number := index_embedder_number(connection, embedder)) is not None:
            owe_refused_chunks(connection, number, [run.source.name])


def _open(source: Source, options: Options, orders: Orders, now: int) -> Run:
    if not source.traits.is_shareable:
        return _open_alone(source, options, orders, now)
    if options.redis is None:
        return Run.open(source, options, orders, now)
    if options.due_only and not orders.force:
        logger.info("%s: only this process requests the pages that are due", source.name)
        return Run.open(source, options, orders, now)
    # Imported only here: one worker alone does not need these 6 MiB.
    shared: Any = import_module("smartcrawl.run.shared.workers")
    run: Run = shared.join_shared_run(source, options, orders, now)
    return run


def _check_allowed_names(source: Source, orders: Orders) -> None:
    """Refuse to permit a name that is no seed's.

    Raises:
        SourceError: the source has no seed or sitemap on the host of a name.
    """
    hosts = {url_endpoint(url)[0] for url in (*source.seeds, *source.sitemaps)}
    for name in orders.allow_private:
        said = f"{program_argument('allow_private', name)}:"
        if source.of_job:
            raise SourceError(
                f"{said} {source.name} is a job; permit its private networks with ALLOW_NETWORKS"
            )
        if name not in hosts:
            known = ", ".join(sorted(hosts)) or "on no host"
            raise SourceError(
                f"{said} {source.name} has no seed of that name; its seeds are {known}."
                f" To crawl one source alone: {program_argument('source', 'NAME')}"
            )


def _open_alone(source: Source, options: Options, orders: Orders, now: int) -> Run:
    """Open a run of a source that one process lists.

    Raises:
        SourceError: its run was to be shared with other workers.
    """
    if orders.job is not None:
        raise SourceError(
            f"{program_argument('job', orders.job)}: runs of {source.name} cannot be "
            "shared, because one process lists it; leave the argument out"
        )
    if options.redis is not None:
        logger.info("%s: only this process lists it; REDIS_URL is not used", source.name)
    return Run.open(source, options, orders, now)


def source_of_run_arguments(options: Options, arguments: dict[str, Any]) -> Source:
    """Return the source that ``url``, ``source`` or sources.toml names, of the spider ``site``.

    Raises:
        SourceError: no source or several sources fit, or an argument is unknown.
    """
    _refuse_unknown(arguments, SITE, ARGUMENTS)
    url, name = arguments.get("url"), arguments.get("source")
    sitemaps = str(arguments.get("sitemap", "")).split()
    declared = load_declared_sources(*options.source_files)
    if url is not None and name is not None:
        raise _both_given("url")
    wanted = wanted_part_of_run_arguments(arguments)
    if url is not None:
        source = ad_hoc_site_source(url, declared, sitemaps=sitemaps)
        return site_of_address(options, source, wanted)
    if name is not None or not sitemaps:
        _refuse_choices(options, arguments, SITE)
    if name is not None:
        return source_with_sitemaps(_named(options, declared, name, SITE), sitemaps)
    if sitemaps:
        return site_of_address(
            options, ad_hoc_site_source(None, declared, sitemaps=sitemaps), wanted
        )
    if (only := _only(declared, SITE)) is not None:
        return only
    raise SourceError(
        f"nothing to crawl: give {program_argument('url', 'https://…')} or"
        f" {program_argument('sitemap', 'https://…')}, or declare sources in {options.sources_file}"
    )


def files_source_of_run_arguments(options: Options, arguments: dict[str, Any]) -> FilesSource:
    """Return the source that ``root``, ``source`` or sources.toml names, of the spider ``files``.

    Raises:
        SourceError: no source or several sources fit, or an argument is unknown.
    """
    _refuse_unknown(arguments, FILES, FILES_ARGUMENTS)
    found = _listed_source(options, arguments, FILES, "root", ad_hoc_files_source)
    if found is None:
        raise SourceError(
            f"nothing to crawl: give {program_argument('root', 'FOLDER')}, or declare a "
            f"source of kind files in {options.sources_file}"
        )
    assert isinstance(found, FilesSource), "its kind was checked"
    return found


def github_source_of_run_arguments(options: Options, arguments: dict[str, Any]) -> GithubSource:
    """Return the source that ``url``, ``source`` or sources.toml names, of the spider ``github``.

    Raises:
        SourceError: no source or several sources fit, an argument is unknown, or the repository is
            not on the server of the settings.
        SettingError: GITHUB_TOKEN cannot be a token.
    """
    _refuse_unknown(arguments, GITHUB, GITHUB_ARGUMENTS)
    found = _listed_source(options, arguments, GITHUB, "url", ad_hoc_repository_source)
    if found is None:
        raise SourceError(
            "nothing to crawl: give "
            f"{program_argument('url', 'https://github.com/OWNER/REPO')}, or declare a "
            f"source of kind github in {options.sources_file}"
        )
    assert isinstance(found, GithubSource), "its kind was checked"
    if found.address.web != options.github.web:
        raise SourceError(
            f"{found.url} is not on {options.github.web}: for a repository of another server, set"
            " GITHUB_WEB_URL, GITHUB_API_URL and GITHUB_RAW_URL to its own"
        )
    github_token()  # a wrong one is no run
    return found


def library_source_of_run_arguments(
    options: Options, arguments: dict[str, Any]
) -> SharepointSource:
    """Return the source that ``source`` names, ``DOMAIN.SOURCE``, of the spider ``sharepoint``.

    Raises:
        SourceError: there is none, or an argument is unknown.
        SettingError: the credentials of the settings do not suffice.
    """
    _refuse_unknown(arguments, SHAREPOINT, LIBRARY_ARGUMENTS)
    name = arguments.get("source")
    if name is None:
        raise SourceError(
            f"nothing to crawl: give {program_argument('source', 'DOMAIN.SOURCE')}, a domain and a"
            f" source_id of its domain.json below {options.sharepoint.storage}"
        )
    source = load_library_source(options.sharepoint.storage, str(name))
    options.sharepoint.required()
    return source.model_copy(update={"ca_file": options.sharepoint.ca_file})


def _listed_source(
    options: Options,
    arguments: dict[str, Any],
    kind: Kind,
    start: str,
    ad_hoc_source: Callable[[str], Source],
) -> Source | None:
    """Return the source that the argument ``start``, ``source`` or sources.toml names, or None.

    Raises:
        SourceError: several sources fit, or none has the name or the start.
    """
    given, name = arguments.get(start), arguments.get("source")
    declared = load_declared_sources(*options.source_files)
    if given is not None and name is not None:
        raise _both_given(start)
    if given is not None:
        try:
            source = ad_hoc_source(given)
        except ValueError as error:
            raise SourceError(f"{program_argument_label(start)} {error}") from error
        wanted = wanted_part_of_run_arguments(arguments, kind.name)
        names = {*declared, *declared.wrong, *load_stored_jobs(options)}
        return listed_source_of_start(options, source, wanted, names)
    _refuse_choices(options, arguments, kind)
    if name is not None:
        return _named(options, declared, name, kind)
    if (only := _only(declared, kind)) is not None:
        _check_no_folder_has_name(options, only)
    return only


def _refuse_choices(options: Options, arguments: Mapping[str, Any], kind: Kind) -> None:
    """Refuse arguments that choose keys of a source, where that is declared.

    Raises:
        SourceError: with the key that does the same.
    """
    for name in ("scope", *CHOICE_ARGUMENTS):
        if name not in arguments:
            continue
        choice = CHOICE_ARGUMENTS.get(name)
        key = name
        if choice is not None:
            key = (choice.site if kind is SITE else choice.listed) or name
        raise SourceError(
            f"{program_argument_label(name)} is about an address or a folder that is not declared:"
            f" for a declared source, write its key {key} into its table in {options.sources_file}"
        )


def _both_given(start: str) -> SourceError:
    one, other = program_argument(start, start.upper()), program_argument("source", "NAME")
    return SourceError(f"give either {one} or {other}, not both")


def _refuse_unknown(arguments: dict[str, Any], kind: Kind, known: tuple[str, ...]) -> None:
    unknown = [name for name in arguments if name not in (*known, *_FROM_SCRAPYD)]
    if unknown:
        raise SourceError(
            f"unknown argument {unknown[0]!r}: the spider {kind.spider} takes {', '.join(known)}"
            f"{meant_word(unknown[0], known)}"
        )


def _named(options: Options, declared: DeclaredSources, name: str, kind: Kind) -> Source:
    """Return the source of a name.

    Raises:
        SourceError: there is none, or another spider crawls it.
    """
    source = run_source_named(options, declared, name)
    if source.traits.spider != kind.spider:
        raise SourceError(
            f"{program_argument('source', name)}: this source is of kind {source.kind}; "
            f"use the spider {source.traits.spider}, not {kind.spider}"
        )
    return source


def run_source_named(options: Options, declared: DeclaredSources, name: str) -> Source:
    """Return the source of a name, which may be that of a job of the HTTP API.

    Raises:
        SourceError: there is none.
    """
    source = select_declared_source(
        name, declared if declared.declares(name) else load_sources_with_stored_jobs(options)
    )
    _check_no_folder_has_name(options, source)
    return source


def _check_no_folder_has_name(options: Options, source: Source) -> None:
    """Refuse to take over the files of another folder, which a command named by its root.

    Raises:
        SourceError: with the remedy.
    """
    database = registry_database(options.registry)
    if not database.exists():
        return
    with database.translated("read"), closing(database.connect(readonly=True)) as connection:
        root = root_of_ad_hoc_source(connection, source.name)
    if root is not None and root.startswith("file:") and root not in source.starts:
        raise SourceError(
            f"{source.name} is the name of the folder {display_url(root)}, which was crawled"
            " without a declaration: give the table another name, or remove the folder:"
            f" {program_name()} forget --source {shlex.quote(source.name)}"
        )


def _only(declared: Mapping[str, Source], kind: Kind) -> Source | None:
    """Return the only declared source that a spider crawls; None: there is none.

    Raises:
        SourceError: there are several.
    """
    names = [name for name, source in declared.items() if source.traits.spider == kind.spider]
    if len(names) > 1:
        listed = ", ".join(names)
        raise SourceError(
            f"several sources are declared: give {program_argument('source', 'NAME')}, one of"
            f" {listed}"
        )
    return declared[names[0]] if names else None


def orders_of_run_arguments(arguments: dict[str, Any]) -> Orders:
    """Return the orders in the spider's arguments.

    Raises:
        SourceError: a number is not a whole number, or a switch is neither on nor off.
    """
    pages = str(arguments.get("max_pages", "0"))
    most_pages = given_number(pages)
    if most_pages is None or most_pages > MOST_NUMBER:
        bounds = "" if most_pages is None else f" up to {MOST_NUMBER}"
        raise SourceError(
            f"max_pages is {pages!r}: expected a whole number{bounds}, 0 for no limit"
        )
    threshold = arguments.get("lost_threshold")
    losses = given_number(str(threshold))
    if threshold is not None and not (losses is not None and 1 <= losses <= MOST_NUMBER):
        bounds = given_number_bounds(1, beyond=bool(losses))
        raise SourceError(
            f"lost_threshold is {threshold!r}: expected a whole number {bounds}, the runs"
            " that must find a page gone before it may be removed"
        )
    batches = str(arguments.get("retry_batches", RETRY_BATCHES))
    rounds = given_number(batches)
    if rounds is None or not 1 <= rounds <= MOST_RETRY_BATCHES:
        raise SourceError(f"retry_batches is {batches!r}: expected 1 to {MOST_RETRY_BATCHES}")
    return Orders(
        force=_switch(arguments, "force"),
        resume=_switch(arguments, "resume"),
        max_pages=most_pages,
        retry_batches=1 if most_pages else rounds,  # a limit counts each request of an item
        lost_threshold=losses,
        allow_private=_seed_names(arguments),
        job=str(arguments["job"]) if arguments.get("job") else None,
        job_run=_job_run(arguments),
    )


def _seed_names(arguments: dict[str, Any]) -> tuple[str, ...]:
    """Return the names of seeds that ``allow_private`` has, as addresses have them.

    Raises:
        SourceError: a word is no host name.
    """
    found = []
    for word in str(arguments.get("allow_private", "")).replace(",", " ").split():
        url = request_url(f"http://{word}/")
        if url is None or urlsplit(url).netloc != urlsplit(url).hostname or "/" in word:
            raise SourceError(
                f"allow_private is {word!r}: expected names of hosts such as docs.example.com"
            )
        found.append(url_endpoint(url)[0])
    return tuple(found)


def _job_run(arguments: dict[str, Any]) -> str | None:
    """Return the id of a job's run; the ids that scrapyd makes are others."""
    id_ = str(arguments.get("_job", ""))
    return id_ if id_.startswith(PREFIX) else None


def _switch(arguments: dict[str, Any], name: str) -> bool:
    value = str(arguments.get(name, "0")).lower()
    if value not in ("1", "true", "yes", "0", "false", "no", ""):
        raise SourceError(f"{name} is {value!r}: expected 1 or 0")
    return value in ("1", "true", "yes")
