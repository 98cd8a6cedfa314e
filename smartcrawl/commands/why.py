"""``smartcrawl why``: the whole story of one address."""

from __future__ import annotations

from argparse import Namespace
from typing import Any, ClassVar

from smartcrawl.extract.robots_txt import robots_txt_answers
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.option_groups import RobotsOptions
from smartcrawl.model.program import program_name
from smartcrawl.model.settings_table import setting_value
from smartcrawl.model.urls import normalize_url
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources, stored_jobs_of_sources
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.story_text import (
    story_event_text,
    story_facts,
    story_link_text,
    story_modification_lines,
    unlisted_story_text,
)
from smartcrawl.reports.why import Stories
from smartcrawl.sources.fields import declared_web_address
from smartcrawl.terminal.command import RegistryCommand, print_json, single_terminal_argument
from smartcrawl.terminal.markup import escape
from smartcrawl.terminal.output import Output
from smartcrawl.terminal.sources import address_argument, print_wrong_tables

_BEFORE = 13  #: columns of a label


def print_why_command(story: dict[str, Any]) -> None:
    """Print the answer of ``why``, whose keys the manual lists (docs/cli.md), for people."""
    output = Output()
    if not story["records"] and story["posted"]:
        output.say(f"[bold]{escape(story['url'])}[/] was not visited yet.")
    elif not story["records"]:
        output.say(f"[bold]{escape(story['url'])}[/] is not known (looked for {story['id']}).")
        refused = {one["source"] for one in story["refusedBy"]}
        asking = [name for name in story["inScopeOf"] if name not in refused]
        where = ", ".join(asking or story["inScopeOf"])
        if story["listedBy"]:
            output.say(
                f"It is in the scope of {escape(where)}; a run reads it once the listing "
                "contains it."
            )
        elif where:
            then = "; a run requests it once a page links to it" if asking else ""
            output.say(f"It is in the scope of {escape(where)}{then}.")
        else:
            output.say("No source has it in its scope.")
        for one in story["refusedBy"]:
            output.say(f"{escape(one['source'])} leaves it out: {escape(one['why'])}.")
        for url in story["nearMisses"]:
            output.say(f"Did you mean {escape(url)}?")
    for one in story["posted"]:
        output.say(
            f"Posted at {one['at']} with priority {one['priority']}: the next run of "
            f"{escape(one['source'])} requests it."
        )
    for one in story["unlisted"]:
        output.say(
            f"The listing of {escape(one['source'])} was not complete in run {one['run']}:"
            f" {escape(unlisted_story_text(one))}."
        )
    for place, one in enumerate(story["records"]):
        if place:
            output.say()
        _print_record(output, one)


def _print_record(output: Output, one: dict[str, Any]) -> None:
    record = one["record"]
    output.say(f"[bold]{escape(record['url'])}[/] in {escape(record['source'])}")
    for label, text in story_facts(one):
        _line(output, label, text)
    _links(output, "links in", one["linksIn"]["count"], one["linksIn"]["shown"])
    shown = [f"{link['url']}{story_link_text(link)}" for link in one["linksOut"]["shown"]]
    _links(output, "links out", one["linksOut"]["count"], shown)
    for place, text in enumerate(story_modification_lines(one["modifications"])):
        _line(output, "" if place else "modified", text)
    for place, event in enumerate(one["history"]):
        _line(output, "" if place else "history", story_event_text(event))


def _line(output: Output, name: str, text: str | None) -> None:
    if text:
        output.say(escape(text), label=f"  [bold]{name:<11}[/]", indent=_BEFORE)


def _links(output: Output, name: str, count: int, shown: list[str]) -> None:
    _line(output, name, str(count) if count <= len(shown) else f"{count}; the first ones:")
    for text in shown:
        _line(output, "", f"  {text}")


class Command(RegistryCommand):
    """Print the story of one address."""

    takes_words: ClassVar = True
    formats: ClassVar = ("text", "json")

    def syntax(self) -> str:
        """Return its usage."""
        return "[options] URL | PATH"

    def long_desc(self) -> str:
        """Return its help text."""
        return (
            "Show the story of one address or file, in every source that has it: its record, the"
            " rule that decided last, its validators, its history, links in and out, clones, what"
            " would remove it and when, and its next visit. Of an unknown address: in which"
            " sources it would be. Exit status: 0 done, 1 not carried out."
        )

    def work(
        self, connection: Connection, sources: list[str], args: list[str], opts: Namespace
    ) -> None:
        """Print the story."""
        word = single_terminal_argument(
            args, "URL", f"{program_name()} why https://docs.example.com/page"
        )
        url = address_argument(word, connection, self.options)
        settings = self.settings
        known = load_stored_jobs_and_sources(self.options, connection)
        robots = RobotsOfSources(
            connection,
            robots_txt_answers,
            RobotsOptions.of(settings),
            obeyed=setting_value(settings, "ROBOTSTXT_OBEY"),
            jobs=stored_jobs_of_sources(connection, known),
            sources=known,
        )
        stories = Stories(connection, self.options, known, robots, again=self.again)
        answer = stories.about(url, sources)
        holders = [story["record"]["source"] for story in answer["records"]]
        if holders:
            print_wrong_tables(self.name, known, holders)
        if not answer["records"] and url_item_kind(normalize_url(url)) == "url":
            _check_address(url)
        if opts.format == "json":
            print_json(answer)
        else:
            print_why_command(answer)


def _check_address(url: str) -> None:
    """Refuse a word that is no web address.

    Raises:
        RegistryError: with the probable address, if it can be guessed.
    """
    try:
        declared_web_address(url, with_user=True)
    except ValueError as error:
        raise RegistryError(f"the address {error}") from error
