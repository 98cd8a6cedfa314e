"""The source of a folder has the folder's name, as long as no other source has it."""

from pathlib import Path

import pytest

from smartcrawl.commands.running import PlainSettings
from smartcrawl.model.exceptions import SourceError
from smartcrawl.model.options import Options
from smartcrawl.run.opening import files_source_of_run_arguments
from tests.lab.lab import page
from tests.lab.lab_crawl import LabCrawl
from tests.lab.lab_site import LabSite

pytestmark = pytest.mark.sqlite


def folder(root: Path, *parts: str) -> Path:
    made = root.joinpath(*parts)
    made.mkdir(parents=True)
    (made / "a.md").write_text("# Lamp\n\nWords of a lamp.")
    return made


def names(crawl: LabCrawl) -> list[str]:
    return [name for (name,) in crawl.rows("SELECT name FROM source ORDER BY no")]


@pytest.mark.parametrize("stack", ["sqlite"])
def test_a_second_folder_of_a_name_gets_a_suffix_and_each_keeps_its_own(
    crawl: LabCrawl, tmp_path: Path
):
    first, second = folder(tmp_path, "x", "docs"), folder(tmp_path, "y", "docs")
    crawl(spider="files", root=first)
    crawl(spider="files", root=second)
    assert names(crawl)[0] == "docs"
    assert names(crawl)[1].startswith("docs-")
    crawl.rows("UPDATE source SET name = 'docs-before' WHERE name = 'docs'")
    crawl(spider="files", root=first)
    crawl(spider="files", root=second)
    assert names(crawl)[0] == "docs-before", "a source that exists keeps its name"
    assert len(names(crawl)) == 2
    out = crawl.run("plan", "--source", "docs-before").out
    assert "docs-before" in out


@pytest.mark.parametrize("stack", ["sqlite"])
@pytest.mark.parametrize("name", ["my.docs", "documents", "guide"])
def test_a_name_that_another_source_may_have_gets_a_suffix(
    crawl: LabCrawl, tmp_path: Path, name: str
):
    crawl.declare("[sources.guide]\nseeds = ['http://guide.example/']\n")
    crawl(spider="files", root=folder(tmp_path, name))
    assert names(crawl)[0].startswith(f"{name}-")


@pytest.mark.parametrize("stack", ["sqlite"])
def test_a_table_does_not_take_over_the_files_of_another_folder(crawl: LabCrawl, tmp_path: Path):
    docs, other = folder(tmp_path, "x", "docs"), folder(tmp_path, "z")
    crawl(spider="files", root=docs)
    crawl.declare(f"[sources.docs]\nkind = 'files'\nroot = '{other}'\n")
    err = " ".join(crawl.run("crawl", "files", "-a", "source=docs", expect=1).err.split())
    assert "docs is the name of the folder" in err
    assert "forget --source docs" in err
    options = Options.of(
        PlainSettings() | {"DATA_DIR": str(crawl.data_dir), "SOURCES_FILE": str(crawl.sources_file)}
    )
    with pytest.raises(SourceError, match="docs is the name of the folder"):
        files_source_of_run_arguments(options, {})  # the only one of its kind
    crawl.declare(f"[sources.docs]\nkind = 'files'\nroot = '{docs}'\n")
    crawl.run("crawl", "files", "-a", "source=docs")
    assert names(crawl) == ["docs"]


@pytest.mark.parametrize("stack", ["sqlite"])
def test_a_host_of_the_name_of_a_folder_is_another_source(crawl: LabCrawl, tmp_path: Path):
    crawl(spider="files", root=folder(tmp_path, "intranet"))
    site = LabSite("intranet")
    site.pages["/"] = page("Home", text="words of a host")
    crawl.web.sites.append(site)
    crawl(site.url("/"))
    assert names(crawl)[0] == "intranet"
    assert names(crawl)[1].startswith("intranet-")
