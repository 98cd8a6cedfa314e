"""``smartcrawl why``: the whole story of one address."""

from __future__ import annotations

from argparse import Namespace
from typing import ClassVar

from smartcrawl.commands.story_text import print_why_command
from smartcrawl.extract.robots_txt import robots_txt_answers
from smartcrawl.model.exceptions import RegistryError
from smartcrawl.model.file_urls import url_item_kind
from smartcrawl.model.program import program_name
from smartcrawl.model.robots_options import RobotsOptions
from smartcrawl.model.settings_table import setting_value
from smartcrawl.model.urls import normalize_url
from smartcrawl.registry.connection import Connection
from smartcrawl.registry.jobs import load_stored_jobs_and_sources, stored_jobs_of_sources
from smartcrawl.reports.stored_robots import RobotsOfSources
from smartcrawl.reports.why import Stories
from smartcrawl.sources.fields import declared_web_address
from smartcrawl.terminal.command import RegistryCommand, print_json, single_terminal_argument
from smartcrawl.terminal.sources import address_argument, print_wrong_tables


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
        declared_web_address(url)
    except ValueError as error:
        raise RegistryError(f"the address {error}") from error
