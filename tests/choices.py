"""The choices of an operator for runs that tests open by themselves."""

from dataclasses import replace
from pathlib import Path

from smartcrawl import settings
from smartcrawl.model.options import Options


def options(folder: Path, **changed: object) -> Options:
    """The shipped choices with state in `folder`, but that a run asks only for what it reaches.

    Nothing is sampled, no address is made up, and bodies are not kept. `changed` are fields.
    """
    quiet = {
        "DATA_DIR": str(folder),
        "SOURCES_FILE": str(folder / "sources.toml"),
        "MAX_UNVERIFIED_DAYS": 0,
        "REVALIDATION_LANE": "off",
        "SNAPSHOT_STORE": "off",
        "SOFT_404_DETECTION": False,
        "TRUST_SAMPLE_RATIO": 0,
    }
    return replace(Options.of(settings.defaults | quiet), **changed)
