"""The commands of ``smartcrawl``; ``scrapy`` finds a class for each here, too (COMMANDS_MODULE).

Scrapy takes the subclasses of its ScrapyCommand, by the names of their modules.
"""

import sys

if "scrapy.commands" in sys.modules:
    from smartcrawl.commands.handed_on import hand_commands_on

    hand_commands_on()
