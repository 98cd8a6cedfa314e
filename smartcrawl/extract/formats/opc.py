"""Common parts of DOCX, PPTX and XLSX: relations between parts, properties."""

from __future__ import annotations

import posixpath
from typing import Final, NamedTuple

from smartcrawl.extract.formats.archive import ZipArchive, document_part_name
from smartcrawl.extract.formats.markup import Attributes, markup_attribute, walk_markup

#: Element whose content is not visible, or is a copy.
FALLBACK: Final = "Fallback"
_PROPERTIES: Final = frozenset({"title", "language"})
_MAX_PROPERTY: Final = 1_000  #: characters


class Relation(NamedTuple):
    """Relation of a part: to the name of another part, or to an address outside."""

    kind: str  #: last segment of its type: ``slide``, ``hyperlink``
    target: str
    external: bool


class _Relations:
    def __init__(self, source: str) -> None:
        self._source = source
        self.found: dict[str, Relation] = {}

    def start(self, name: str, attributes: Attributes) -> None:
        if name != "Relationship":
            return
        kind = attributes.get("Type", "").rpartition("/")[2]
        target = attributes.get("Target", "")
        external = attributes.get("TargetMode", "").lower() == "external"
        if not external:
            target = document_part_name(self._source, target)
        self.found[attributes.get("Id", "")] = Relation(kind, target, external)

    def end(self, name: str) -> None:
        pass

    def text(self, text: str) -> None:
        pass


def opc_relations(archive: ZipArchive, part: str) -> dict[str, Relation]:
    """Return the relations of ``part`` by their id; those of the package itself for ``""``."""
    folder, name = posixpath.split(part)
    path = posixpath.join(folder, "_rels", f"{name}.rels")
    seen = _Relations(part)
    if path in archive:
        walk_markup(seen, archive.portions(path), part=path)
    return seen.found


def opc_main_part(archive: ZipArchive, usual: str) -> str:
    """Return the main part of a document; ``usual`` if the package names none."""
    kinds = {found.kind: found.target for found in opc_relations(archive, "").values()}
    return kinds.get("officeDocument", usual)


class OpcProperties:
    """Title and language, as a person entered or a program wrote them."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._open = ""

    def start(self, name: str, attributes: Attributes) -> None:
        """Begin to read a property."""
        self._open = name if name in _PROPERTIES and name not in self.found else ""

    def end(self, name: str) -> None:
        """End the open property."""
        self._open = ""

    def text(self, text: str) -> None:
        """Add to the open property."""
        if self._open:
            self.found[self._open] = (self.found.get(self._open, "") + text)[:_MAX_PROPERTY]


def opc_properties(archive: ZipArchive, part: str = "") -> dict[str, str]:
    """Return ``title`` and ``language`` of a package, from its part ``part`` if that is given."""
    if not part:
        kinds = {found.kind: found.target for found in opc_relations(archive, "").values()}
        part = kinds.get("core-properties", "docProps/core.xml")
    seen = OpcProperties()
    if part in archive:
        walk_markup(seen, archive.portions(part), part=part)
    return seen.found


def is_ooxml_switch_on(attributes: Attributes) -> bool:
    """Return whether a switch of OOXML is on; without a value it is."""
    return markup_attribute(attributes, "val").lower() not in ("0", "false", "off")
