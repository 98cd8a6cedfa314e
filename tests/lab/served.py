"""What a server answers about the sources of a lab, by the functions behind its endpoints."""

from types import SimpleNamespace
from typing import Any

from smartcrawl.commands.running import PlainSettings
from smartcrawl.model.options import Options
from smartcrawl.registry.database.databases import registry_database
from tests.lab.lab import Lab


def served_context(lab: Lab) -> Any:
    """The context of a server on the registry of a lab."""
    options = Options.of(
        PlainSettings()
        | {
            "DATA_DIR": str(lab.crawl.data_dir),
            "SOURCES_FILE": str(lab.crawl.sources_file),
            "REGISTRY_URL": lab.crawl.environment.get("REGISTRY_URL", ""),
        }
    )
    stores = SimpleNamespace(database=registry_database(options.registry))
    return SimpleNamespace(options=options, visibilities=dict, stores=stores)
