"""The commands of ``smartcrawl``, which ``scrapy`` finds here, too (COMMANDS_MODULE).

Scrapy takes subclasses of its ScrapyCommand. Ours have its interface without its imports, and are
registered as such wherever Scrapy asks: it has imported its own commands before.
"""

import sys

if "scrapy.commands" in sys.modules:
    from scrapy.commands import ScrapyCommand

    from smartcrawl.terminal.base_command import BaseCommand

    ScrapyCommand.register(BaseCommand)  # type: ignore[type-abstract]  # it is a base
