"""The list of commands, for ``smartcrawl --help``, which imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

#: Each command with the line that it describes itself by.
COMMANDS: Final[Mapping[str, str]] = {
    "crawl": "Crawl a site, or refresh it",
    "search": "Search the crawled pages",
    "status": "Show how each source is doing",
    "due": "Crawl only the pages that are due",
    "why": "Show the record and history of one address, and what would remove it",
    "plan": "Show which pages the next run would request, skip and remove",
    "changes": "List the pages that changed, how much, and below which headings",
    "diff": "Show what changed in the text of a page",
    "runs": "List the runs, newest first",
    "notify": "List the notices to webhooks and mails; test a target, or send again",
    "registry": "List the record of every page",
    "hosts": "List the hosts; block or unblock one",
    "reindex": "Fetch pages whole and index them again at the next crawl",
    "orphans": "List orphans and withheld removals; remove or approve them",
    "deltamerge": "List lost pages, or remove them with -D",
    "forget": "Remove an address or a source, and unpin it",
    "undo": "Restore the pages that a run, or a command after it, removed",
    "embed": "Make the vectors that are missing, without a request to any source",
    "audit": "Compare the registry with index and libraries, and repair differences",
    "backup": "Copy the registry into a file, also while it is written to",
    "restore": "Put a backup in the place of the registry",
    "library": "Download, process, embed or check the document libraries of a domain",
    "export": "Write the stored pages as Markdown, JSON lines or llms.txt",
    "push": "Make an OpenAI vector store equal to the stored pages of a source",
    "serve": "Serve the HTTP API, or manage its keys",
    "mcp": "Serve the crawled pages to language models, by MCP",
    "config": "Show the settings, and where each comes from",
    "demo": "Show a crawl, a refresh, a removal and its undo on a small site",
    "completion": "Print a script that completes commands in bash, zsh or fish",
}
