"""Every name of the storage of document libraries (R3-42 to R3-46); no other module has one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class HardcodedConfig:
    """Names of folders and files below ``PERSISTENT_STORAGE_PATH``, and two fixed numbers.

    Source: R3-44 to R3-46, G-06, G-07.
    """

    PERSISTENT_STORAGE_PATH_DOMAINS_SUBFOLDER: str = "domains"
    PERSISTENT_STORAGE_PATH_CRAWLER_SUBFOLDER: str = "crawler"
    PERSISTENT_STORAGE_PATH_DOCUMENTS_FOLDER: str = "01_files"
    PERSISTENT_STORAGE_PATH_LISTS_FOLDER: str = "02_lists"
    PERSISTENT_STORAGE_PATH_SITEPAGES_FOLDER: str = "03_sitepages"
    PERSISTENT_STORAGE_PATH_ORIGINALS_SUBFOLDER: str = "01_originals"
    PERSISTENT_STORAGE_PATH_EMBEDDED_SUBFOLDER: str = "02_embedded"
    PERSISTENT_STORAGE_PATH_FAILED_SUBFOLDER: str = "03_failed"
    #: Downloads that are not in place yet, beside the tree that they go into.
    PERSISTENT_STORAGE_PATH_INCOMING_SUBFOLDER: str = ".incoming"

    #: Archives of crawls; the last name is the first part of a report's id (R3-20, R3-21).
    PERSISTENT_STORAGE_PATH_CRAWL_REPORTS_SUBFOLDER: str = "reports/crawls"

    DOMAIN_JSON: str = "domain.json"
    FILES_METADATA_JSON: str = "files_metadata.json"
    SHAREPOINT_MAP_CSV: str = "sharepoint_map.csv"
    FILE_MAP_CSV: str = "files_map.csv"
    VECTOR_STORE_MAP_CSV: str = "vectorstore_map.csv"
    REPORT_JSON: str = "report.json"
    #: Ending of the names of all maps.
    MAPS_CSV: str = "_map.csv"

    #: Rows of a map that wait in memory until they are written (G-06). The map is renamed into
    #: place when it is whole, so a small number costs only writes into the page cache.
    APPEND_TO_MAP_FILES_EVERY_X_LINES: int = 10
    #: Extensions, lower case, of the files that OpenAI's file search takes (G-07); compared with
    #: the name that is embedded, so a list item is ``md`` and a site page ``html``.
    DEFAULT_FILETYPES_ACCEPTED_BY_VECTOR_STORES: tuple[str, ...] = (
        "c", "cpp", "cs", "css", "doc", "docx", "go", "html", "java", "js", "json", "md", "pdf",
        "php", "pptx", "py", "rb", "sh", "tex", "ts", "txt",
    )  # fmt: skip


CRAWLER_HARDCODED_CONFIG: Final = HardcodedConfig()
