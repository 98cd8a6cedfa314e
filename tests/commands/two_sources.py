"""A registry of two sources, and commands over it, as a person would type them."""

import json
from pathlib import Path
from typing import Any

from tests.crawls.commands import Result, Scrapy
from tests.index.meanings import desk_at
from tests.openai_server import KEY
from tests.registry.build import Desk


class TwoSources:
    """The sources docs and shop with a few pages. No command shows a traceback or the key."""

    def __init__(self, folder: Path, ask: Scrapy, texts: list[str], url: str = "") -> None:
        """``texts``: of the pages of docs; ``url``: of the registry, else a file in the folder."""
        (folder / "data").mkdir()
        self.folder = folder
        self.desk = desk_at(url) if url else Desk(folder / "data" / "registry.db")
        for source, pages in (("docs", texts), ("shop", ["an apple"])):
            self.desk.source = source
            self.desk.open()
            for n, text in enumerate(pages):
                self.desk.index(f"http://{source}.example/{n}", text)
            self.desk.seal()
        self._ask = ask
        self.environment = {
            "DATA_DIR": str(folder / "data"), "SOURCES_FILE": str(folder / "sources.toml"),
            "REGISTRY_URL": url,
        }  # fmt: skip

    def run(self, *args: str, expect: int = 0, **changed: str) -> Result:
        result = self._ask.run(list(args), self.environment | changed)
        assert result.status == expect, f"{args}: {result}"
        assert "Traceback" not in result.err
        assert KEY not in result.out + result.err
        return result

    def json(self, *args: str, expect: int = 0) -> Any:
        return json.loads(self.run(*args, "--format", "json", expect=expect).out)

    def check_files_have_no_key(self) -> None:
        files = [file.read_bytes() for file in self.folder.rglob("*") if file.is_file()]
        assert files
        assert not any(KEY.encode() in text for text in files)
