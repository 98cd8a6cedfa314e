"""Plausible mistakes: a command line each, with the status and the words of its message.

In a line, `{site}`, `{port}`, `{source}`, `{closed}`, `{tls}` and `{here}` stand for the address,
port and source of a web site, a port without a server, the port of a site over TLS with a
certificate of its own, and the folder of the project.
"""

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from smartcrawl.registry.database.databases import registry_database

ROOT = Path(__file__).resolve().parents[2]
SECRET = "hunter2hunter2"  #: in every URL with a password; no message may repeat it


@dataclass(slots=True)
class Place:
    """A project of its own, with its folder for temporary files."""

    folder: Path
    crawled: Path  #: a DATA_DIR after one crawl, to be copied
    source: str  #: the source in there
    environment: dict[str, str] = field(default_factory=dict)
    ends: list[Callable[[], None]] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / ".smartcrawl"

    def write(self, name: str, text: str | bytes) -> None:
        data = text if isinstance(text, bytes) else text.encode()
        (self.folder / name).write_bytes(data)


Arrange = Callable[[Place], None]


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake; `says` are words of the message, `remedy` those of what to do."""

    name: str
    line: str
    status: int
    says: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    given: Arrange | None = None
    leaves: bool = False  #: whether it may change the folder: it asked a server that is there
    lines: int = 1  #: of the message, at most
    lacks: str = "\0"  #: text that must not be in the output


def crawled(place: Place) -> None:
    shutil.copytree(place.crawled, place.data)


def sources(text: str | bytes) -> Arrange:
    return lambda place: place.write("sources.toml", text)


def declared(place: Place) -> None:
    sources('[sources.docs]\nseeds = ["http://127.0.0.1:9/"]\n')(place)


def data_is_a_file(place: Place) -> None:
    place.data.write_text("I was here first")


def no_rights(place: Place) -> None:
    place.folder.chmod(0o555)
    place.ends.append(lambda: place.folder.chmod(0o755))


def no_rights_to_read(place: Place) -> None:
    crawled(place)
    (place.data / "registry.db").chmod(0)
    place.ends.append(lambda: (place.data / "registry.db").chmod(0o600))


def not_a_database(place: Place) -> None:
    place.data.mkdir()
    (place.data / "registry.db").write_text("Dear diary, today I crawled nothing. " * 200)


def of_a_newer_version(place: Place) -> None:
    crawled(place)
    with sqlite3.connect(place.data / "registry.db") as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()


def held(place: Place) -> None:
    """Let this process crawl the source."""
    crawled(place)
    lease = registry_database(place.data / "registry.db").take(place.source, "2026-11-23")
    place.ends.append(lease.release)


def checkout(place: Place) -> None:
    """Make a checkout that is set up, with this Python."""
    folder = place.folder / "checkout"
    (folder / "script").mkdir(parents=True)
    shutil.copy(ROOT / "scrapy.cfg", folder)
    shutil.copy(ROOT / "script" / "crawl", folder / "script")
    (folder / "script" / "setup").write_text("#!/bin/sh\n")
    (folder / "script" / "setup").chmod(0o755)
    (folder / ".venv").symlink_to(sys.prefix)


def setting(name: str, value: str) -> Arrange:
    return lambda place: place.environment.update({name: value})


CRAWL = "scrapy crawl site -a url="
#: A shell in which the rights of files bind root, too.
BOUND = "setpriv --bounding-set=-dac_override,-dac_read_search " if os.getuid() == 0 else ""


def full(kib: int) -> str:
    """A crawl whose DATA_DIR is a file system of some KiB, in a name space of its own."""
    return (
        "mkdir .smartcrawl; unshare -rm bash -c 'mount -t tmpfs -o size="
        f"{kib}k none .smartcrawl && {CRAWL}{{site}}'; status=$?; rmdir .smartcrawl; exit $status"
    )


ADDRESSES = (
    Mistake(
        "no scheme",
        f"{CRAWL}docs.example.com",
        1,
        ("without its scheme",),
        ("https://docs.example.com/",),
    ),
    Mistake(
        "no scheme, this machine",
        f"{CRAWL}localhost:8000/x",
        1,
        ("without its scheme",),
        ("http://localhost:8000/x",),
    ),
    Mistake(
        "typo in the scheme",
        f"{CRAWL}htps://docs.example.com/",
        1,
        ("'htps://docs.example.com/'",),
        ("did you mean https://docs.example.com/",),
    ),
    Mistake(
        "no colon",
        f"{CRAWL}http//docs.example.com/",
        1,
        ("'http//docs.example.com/'",),
        ("did you mean http://docs.example.com/",),
    ),
    Mistake(
        "one slash, which is understood",
        f"{CRAWL}http:/127.0.0.1:{{port}}/",
        0,
        ("3  new",),
        (),
        leaves=True,
    ),
    Mistake(
        "a comma for a dot",
        f"{CRAWL}https://docs,example,com/",
        1,
        ("docs,example,com",),
        ("Check the spelling",),
    ),
    Mistake(
        "spaces", f"{CRAWL}'https://docs example.com/'", 1, ("docs example.com",), ("https://",)
    ),
    Mistake(
        "a quote at the end",
        f"{CRAWL}'https://docs.example.com/\"'",
        1,
        ("quotation mark",),
        ("write https://docs.example.com/",),
    ),
    Mistake(
        "single quotes",
        f"{CRAWL}\"'https://docs.example.com/'\"",
        1,
        ("quotation mark",),
        ("write https://docs.example.com/",),
    ),
    Mistake(
        "single quotes without a scheme",
        f"{CRAWL}\"'docs.example.com'\"",
        1,
        ("quotation mark",),
        ("write https://docs.example.com/",),
    ),
    Mistake(
        "single quotes around a word",
        "scrapy crawl site \"'https://docs.example.com/'\"",
        2,
        ("-a url=",),
        ("scrapy crawl site -a url=https://docs.example.com/",),
    ),
    Mistake(
        "ftp",
        f"{CRAWL}ftp://docs.example.com/",
        1,
        ("ftp://docs.example.com/",),
        ("http or https",),
    ),
    Mistake("a file", f"{CRAWL}./index.html", 1, ("./index.html",), ("http.server",)),
    Mistake("a folder", f"{CRAWL}/var/www/html", 1, ("/var/www/html",), ("http.server",)),
    Mistake("mailto", f"{CRAWL}mailto:me@example.com", 1, ("-a url is",), ("http or https",)),
    Mistake(
        "IPv6 without brackets",
        f"{CRAWL}http://::1:8000/",
        1,
        ("http://::1:8000/",),
        ("http://[::1]:8000/",),
    ),
    Mistake("a port that is none", f"{CRAWL}http://127.0.0.1:80800/", 1, ("80800",), ("65535",)),
    Mistake("nothing", f"{CRAWL}", 1, ("''",), ("https://",)),
    Mistake(
        "an unknown host",
        f"{CRAWL}https://docs.exmaple.invalid/",
        1,
        ("docs.exmaple.invalid",),
        ("Check the spelling",),
    ),
    Mistake(
        "an address with a password",
        f"{CRAWL}https://me:{SECRET}@docs.invalid/",
        1,
        ("docs.invalid",),
        ("write https://docs.invalid/", 'kind = "basic"'),
    ),
    Mistake(
        "an unknown host of a sitemap",
        "scrapy crawl site -a sitemap=https://docs.invalid/sitemap.xml",
        1,
        ("docs.invalid",),
        ("Check the spelling",),
    ),
    Mistake(
        "the address without -a url=",
        "scrapy crawl https://docs.example.com/",
        2,
        (),
        ("-a url=https://docs.example.com/",),
    ),
    Mistake(
        "a site without -a url=", "scrapy crawl site https://docs.example.com/", 2, (), ("-a url=",)
    ),
)

SERVERS = (
    Mistake(
        "a closed port", f"{CRAWL}http://127.0.0.1:{{closed}}/", 3, ("refused",), (), leaves=True
    ),
    Mistake(
        "TLS on a plain port",
        f"{CRAWL}https://127.0.0.1:{{port}}/",
        3,
        (),
        ("http://",),
        leaves=True,
    ),
    Mistake("plain on a TLS port", f"{CRAWL}http://127.0.0.1:{{tls}}/", 3, (), (), leaves=True),
    Mistake(
        "a self-signed certificate",
        f"{CRAWL}https://127.0.0.1:{{tls}}/",
        3,
        ("certificate",),
        ("CA_FILE",),
        leaves=True,
    ),
    Mistake("a seed that is missing", f"{CRAWL}{{site}}nothing", 3, ("404",), (), leaves=True),
    Mistake("a seed behind a login", f"{CRAWL}{{site}}login", 3, ("401",), (), leaves=True),
    Mistake(
        "a seed that fails", f"{CRAWL}{{site}}broken -s RETRY_TIMES=0", 3, ("500",), (), leaves=True
    ),
    Mistake("a seed that moved away", f"{CRAWL}{{site}}elsewhere", 3, (), (), leaves=True),
    Mistake(
        "a seed that robots.txt forbids",
        f"{CRAWL}{{site}}private/",
        3,
        ("robots.txt",),
        (),
        leaves=True,
    ),
    Mistake("an empty page", f"{CRAWL}{{site}}empty", 0, (), (), leaves=True),
)

OPTIONS = (
    Mistake(
        "mistyped option of search",
        "scrapy search --limt 3 lamp",
        2,
        ("--limt",),
        ("--limit",),
        crawled,
    ),
    Mistake(
        "mistyped option with =",
        "scrapy search --limt=3 lamp",
        2,
        ("--limt",),
        ("--limit",),
        crawled,
    ),
    Mistake("one dash", "scrapy search -limit 3 lamp", 2, ("-limit",), ("--limit",), crawled),
    Mistake(
        "mistyped option of status",
        "scrapy status --fromat json",
        2,
        ("--fromat",),
        ("--format",),
        crawled,
    ),
    Mistake(
        "mistyped option of crawl",
        f"{CRAWL}{{site}} --progres-bar",
        2,
        ("--progres-bar",),
        ("--progress",),
    ),
    Mistake("unknown option", "scrapy runs --colour", 2, ("--colour",), ("--help",), crawled),
    Mistake(
        "mistyped option of due", "scrapy due --sorce docs", 2, ("--sorce",), ("--source",), crawled
    ),
    Mistake("mistyped format", "scrapy search --format jsn lamp", 2, ("jsn",), ("json",), crawled),
    Mistake(
        "limit that is a word",
        "scrapy search --limit ten lamp",
        2,
        ("'ten'",),
        ("1 to 1000",),
        crawled,
    ),
    Mistake("empty query", "scrapy search ''", 2, ("search for",), ("'two words'",), crawled),
    Mistake("blank query", "scrapy search ' '", 2, ("search for",), ("'two words'",), crawled),
    Mistake("negative limit", "scrapy search --limit -3 lamp", 2, ("-3",), ("1 to 1000",), crawled),
    Mistake(
        "limit without its value",
        "scrapy search lamp --limit",
        2,
        ("--limit",),
        ("expected one argument",),
        crawled,
    ),
    Mistake(
        "mistyped argument",
        "scrapy crawl site -a sorce=docs",
        1,
        ("'sorce'",),
        ("did you mean source",),
        declared,
    ),
    Mistake(
        "argument without a value", "scrapy crawl site -a docs", 2, (), ("NAME=VALUE",), declared
    ),
    Mistake(
        "argument that is no number",
        f"{CRAWL}{{site}} -a max_pages=many",
        1,
        ("'many'",),
        ("whole number",),
    ),
    Mistake(
        "mistyped setting",
        f"{CRAWL}{{site}} -s DOWNLOAD_DELY=1",
        2,
        ("DOWNLOAD_DELY",),
        ("DOWNLOAD_DELAY",),
    ),
    Mistake(
        "mistyped setting of search",
        "scrapy search -s DATA_DIRR=x lamp",
        2,
        ("DATA_DIRR",),
        ("DATA_DIR",),
        crawled,
    ),
    Mistake(
        "setting in lower case", f"{CRAWL}{{site}} -s data_dir=x", 2, ("data_dir",), ("DATA_DIR",)
    ),
    Mistake(
        "setting without a value", f"{CRAWL}{{site}} -s DOWNLOAD_DELAY", 2, (), ("NAME=VALUE",)
    ),
    Mistake(
        "setting of a wrong type",
        f"{CRAWL}{{site}} -s DOWNLOAD_DELAY=soon",
        1,
        ("DOWNLOAD_DELAY", "'soon'"),
        ("number",),
    ),
    Mistake("log level of a wrong word", f"{CRAWL}{{site}} -L LOUD", 1, ("LOUD",), ("WARNING",)),
    Mistake(
        "log file in a missing folder",
        f"{CRAWL}{{site}} --logfile none/crawl.log",
        1,
        ("none/crawl.log",),
        ("make it, or name another file",),
    ),
    Mistake(
        "mistyped command",
        "scrapy serch lamp",
        2,
        ("serch",),
        ("available commands",),
        crawled,
        lines=4,
    ),
    Mistake(
        "pid file in a missing folder",
        "scrapy status --pidfile none/pid",
        2,
        ("none/pid",),
        ("make it, or name another file",),
        crawled,
    ),
    Mistake(
        "unknown setting",
        "scrapy status -s MOOD=bright",
        0,
        ("MOOD",),
        ("your own code",),
        crawled,
    ),
    Mistake(
        "a word with a dash",
        "scrapy search -- --limt",
        0,
        ("nothing found for '--limt'",),
        (),
        crawled,
    ),
    Mistake(
        "mistyped spider", "scrapy crawl sit -a url={site}", 2, ("'sit'",), ("did you mean site?",)
    ),
)

SOURCES = (
    Mistake(
        "mistyped source",
        "scrapy crawl site -a source=dosc",
        1,
        ("'dosc'",),
        ("did you mean docs",),
        declared,
    ),
    Mistake("no sources", "scrapy crawl site", 1, ("nothing to crawl",), ("-a url=",)),
    Mistake(
        "mistyped source of search",
        "scrapy search --source 127.0.0.l lamp",
        1,
        ("'127.0.0.l'",),
        ("known: {source}",),
        crawled,
    ),
    Mistake(
        "mistyped source of due",
        "scrapy due --source dosc",
        1,
        ("'dosc'",),
        ("docs",),
        declared,
        lines=2,  # the first one says what a due crawl is
    ),
    Mistake(
        "TOML with an error",
        "scrapy crawl site",
        1,
        ("sources.toml", "line 1"),
        ("quotes",),
        sources("[sources.docs\n"),
    ),
    Mistake(
        "mistyped key",
        "scrapy crawl site",
        1,
        ("seds",),
        ("seeds",),
        sources('[sources.docs]\nseds = ["http://a.example/"]\n'),
        lines=3,
    ),
    Mistake(
        "wrong pattern",
        "scrapy crawl site",
        1,
        ("'('",),
        ("backslash",),
        sources("[sources.docs]\nseeds = ['http://a.example/']\nexcluded_patterns = ['(']\n"),
        lines=2,
    ),
    Mistake(
        "one source twice",
        "scrapy crawl site",
        1,
        ("sources.toml", "docs"),
        (),
        sources(
            "[sources.docs]\nseeds = ['http://a.example/']\n[sources.docs]\nseeds = ['http://b.example/']\n"
        ),
    ),
    Mistake(
        "all hosts of a source unknown",
        "scrapy crawl site",
        1,
        ("a.invalid, b.invalid",),
        ("Check the spelling",),
        sources("[sources.docs]\nseeds = ['http://a.invalid/', 'http://b.invalid/']\n"),
    ),
    Mistake(
        "sources.toml is not UTF-8",
        "scrapy crawl site",
        1,
        ("sources.toml",),
        ("save it as UTF-8",),
        sources("[sources.docs] # Bücher\n".encode("latin-1")),
    ),
    Mistake(
        "sources.toml is a folder",
        "scrapy crawl site",
        1,
        ("sources.toml",),
        (),
        lambda place: (place.folder / "sources.toml").mkdir(),
    ),
    Mistake(
        "sources.toml elsewhere",
        "scrapy crawl site -s SOURCES_FILE=none.toml",
        1,
        ("none.toml",),
        ("-a url=",),
    ),
)

STATE = (
    Mistake(
        "DATA_DIR is a file", f"{CRAWL}{{site}}", 1, (".smartcrawl",), ("DATA_DIR",), data_is_a_file
    ),
    Mistake(
        "DATA_DIR of search is a file",
        "scrapy search lamp",
        1,
        (".smartcrawl",),
        ("DATA_DIR",),
        data_is_a_file,
    ),
    Mistake(
        "no right to write",
        f"{BOUND}{CRAWL}{{site}}",
        1,
        (".smartcrawl",),
        ("DATA_DIR", "may write"),
        no_rights,
    ),
    Mistake(
        "no right to read",
        f"{BOUND}scrapy search lamp",
        1,
        ("registry.db",),
        ("this user may",),
        no_rights_to_read,
    ),
    Mistake(
        "not a database", "scrapy search lamp", 1, ("registry.db",), ("DATA_DIR",), not_a_database
    ),
    Mistake(
        "a registry of a newer version",
        "scrapy status",
        1,
        ("999",),
        ("upgrade",),
        of_a_newer_version,
    ),
    Mistake(
        "search before a crawl",
        "scrapy search lamp",
        1,
        ("no registry",),
        ("scrapy crawl site -a url=",),
    ),
    Mistake(
        "due before a crawl",
        "scrapy due",
        1,
        ("nothing was crawled",),
        ("scrapy crawl site -a url=",),
        lines=2,
    ),
    Mistake(
        "disk full at the start", full(64), 1, (".smartcrawl", "no space left"), ("free some",)
    ),
    Mistake("disk full later", full(400), 1, (".smartcrawl", "no space left"), ("free some",)),
    Mistake(
        "outside of a project",
        "cd /; scrapy crawl site -a url={site}",
        2,
        ("crawl",),
        ("project",),
        lines=9,
    ),
    Mistake(
        "script/crawl outside of the project",
        "cd /; '{here}/checkout/script/crawl' htps://x.example/",
        1,
        ("'htps://x.example/'",),
        ("did you mean https://x.example/?",),
        checkout,
    ),
)

SERVICES = (
    Mistake(
        "registry with a wrong scheme",
        "scrapy status",
        1,
        ("REGISTRY_URL", "mysql"),
        ("postgresql://",),
        setting("REGISTRY_URL", f"mysql://me:{SECRET}@127.0.0.1/db"),
    ),
    Mistake(
        "registry with a closed port",
        "scrapy status",
        1,
        ("127.0.0.1", "{closed}"),
        ("REGISTRY_URL are right",),
        setting("REGISTRY_URL", f"postgresql://me:{SECRET}@127.0.0.1:{{closed}}/db"),
    ),
    Mistake(
        "registry of an unknown host",
        "scrapy status",
        1,
        ("db.invalid",),
        ("REGISTRY_URL are right",),
        setting("REGISTRY_URL", f"postgresql://me:{SECRET}@db.invalid/db"),
    ),
    Mistake(
        "crawl into a registry with a closed port",
        f"{CRAWL}{{site}}",
        1,
        ("127.0.0.1", "{closed}"),
        ("REGISTRY_URL are right",),
        setting("REGISTRY_URL", f"postgresql://me:{SECRET}@127.0.0.1:{{closed}}/db"),
    ),
    Mistake(
        "Elasticsearch with a wrong scheme",
        f"{CRAWL}{{site}}",
        1,
        ("ELASTICSEARCH_URL",),
        ("http",),
        setting("ELASTICSEARCH_URL", f"elastic://me:{SECRET}@127.0.0.1:9200"),
    ),
    Mistake(
        "Elasticsearch with a closed port",
        f"{CRAWL}{{site}} -s SINK_WAIT_SECONDS=0",
        1,
        ("127.0.0.1:{closed}",),
        ("correct ELASTICSEARCH_URL",),
        setting("ELASTICSEARCH_URL", f"http://me:{SECRET}@127.0.0.1:{{closed}}"),
    ),
    Mistake(
        "Redis with a wrong scheme",
        f"{CRAWL}{{site}}",
        1,
        ("REDIS_URL",),
        ("redis://",),
        setting("REDIS_URL", f"http://me:{SECRET}@127.0.0.1:6379"),
    ),
    Mistake(
        "Redis with a registry in SQLite",
        f"{CRAWL}{{site}}",
        1,
        ("REDIS_URL",),
        ("REGISTRY_URL",),
        setting("REDIS_URL", f"redis://me:{SECRET}@127.0.0.1:{{closed}}/0"),
    ),
)

ASKING = (
    Mistake("no words", "scrapy search", 2, (), ("scrapy search 'two words'",), crawled),
    Mistake(
        "no letters",
        "scrapy search '?!…'",
        0,
        ("nothing found", "'?!…'"),
        ("scrapy search 'two words'",),
        crawled,
    ),
    *(
        Mistake(
            f"nothing but {part}",
            f"scrapy search -- {part}",
            0,
            (f"nothing found for '{part}'", "it only limits the search"),
            ("scrapy search 'two words'",),
            crawled,
        )
        for part in ("site:127.0.0.1", "in:127.0.0.1", "-lamp", "-site:a.example")
    ),
    Mistake(
        "a path as a site",
        "scrapy search -- lamp -site:/srv/notes",
        1,
        ("site:'/srv/notes' is a path",),
        ("write site:file:///srv/notes",),
        crawled,
    ),
    Mistake(
        "many excluded words",
        f"scrapy search -- lamp {' '.join(f'-absent{n}' for n in range(1_500))}",
        0,
        ("1. ",),
        (),
        crawled,
    ),
    Mistake(
        "a word that no page has",
        "scrapy search zzyzx",
        0,
        ("nothing found for 'zzyzx'",),
        (),
        crawled,
    ),
    Mistake("a query that is not UTF-8", "scrapy search $'lamp\\xff'", 0, ("1. ",), (), crawled),
    Mistake(
        "a query without a hit that is not UTF-8",
        "scrapy search $'zzyzx\\xff'",
        0,
        ("zzyzx", "nothing found"),
        (),
        crawled,
    ),
    Mistake(
        "JSON for a query that is not UTF-8",
        "scrapy search --format json $'zzyzx\\xff'",
        0,
        ("[]",),
        (),
        crawled,
    ),
    Mistake(
        "an address that is not UTF-8",
        "scrapy why $'http://127.0.0.1/\\xff'",
        1,
        ("http://127.0.0.1/",),
        ("https://",),
        crawled,
    ),
    Mistake(
        "an address whose host is no host",
        "scrapy why 'http://['",
        1,
        ("http://[",),
        ("https://",),
        crawled,
    ),
    Mistake(
        "why without the scheme",
        "scrapy why docs.example.com/page",
        1,
        ("without its scheme",),
        ("https://docs.example.com/page",),
        crawled,
    ),
    Mistake(
        "why of an unknown address",
        "scrapy why https://docs.example.com/",
        0,
        ("not known",),
        (),
        crawled,
        lines=50,
    ),
    Mistake("why of no address", "scrapy why lamp", 1, ("lamp",), ("https://",), crawled),
    Mistake("why without an address", "scrapy why", 2, (), ("scrapy why https://",), crawled),
    Mistake(
        "undo of a run without removals", "scrapy undo 1", 1, ("nothing was removed",), (), crawled
    ),
    Mistake(
        "undo of a run that is none", "scrapy undo 99", 1, ("there is no run 99",), (), crawled
    ),
    Mistake("undo of a word", "scrapy undo last", 2, ("'last'",), ("scrapy runs",), crawled),
    Mistake("undo without a run", "scrapy undo", 2, (), ("scrapy undo 7",), crawled),
    Mistake(
        "forget an unknown source",
        "scrapy forget --source dosc",
        1,
        ("'dosc'",),
        ("known: {source}",),
        crawled,
    ),
    Mistake("forget nothing", "scrapy forget", 2, (), ("--source",), crawled),
    Mistake(
        "reindex an invalid pattern",
        "scrapy reindex --pattern '('",
        1,
        ("'('",),
        ("backslash",),
        crawled,
    ),
    Mistake(
        "registry with an unknown status",
        "scrapy registry --status Good",
        1,
        ("'Good'",),
        ("Indexed",),
        crawled,
    ),
    Mistake(
        "registry with an unknown outcome",
        "scrapy registry --outcome losst",
        1,
        ("'losst'",),
        ("did you mean lost",),
        crawled,
    ),
    Mistake(
        "output into a missing folder",
        "scrapy registry --output none/out.csv",
        1,
        ("none/out.csv",),
        ("may write",),
        crawled,
    ),
    Mistake(
        "block no host",
        "scrapy hosts --block 'not a host'",
        1,
        ("not a host",),
        ("example.com",),
        crawled,
    ),
    Mistake(
        "config of an unknown setting",
        "scrapy config DEPHT_LIMIT",
        1,
        ("DEPHT_LIMIT",),
        ("DEPTH_LIMIT",),
    ),
    Mistake(
        "two crawls at once",
        f"{CRAWL}{{site}}",
        4,
        ("{source} is being crawled",),
        ("kill -INT",),
        held,
    ),
)

TERMINALS = (
    Mistake(
        "head",
        "scrapy registry --format jsonl | head -1; exit ${{PIPESTATUS[0]}}",
        0,
        ("url",),
        (),
        crawled,
    ),
    Mistake(
        "head of search",
        "scrapy search lamp | head -1; exit ${{PIPESTATUS[0]}}",
        0,
        ("1. ",),
        (),
        crawled,
    ),
    Mistake(
        "head of a pipe that is gone",
        "scrapy registry --format jsonl | true; exit ${{PIPESTATUS[0]}}",
        0,
        (),
        (),
        crawled,
    ),
    Mistake(
        "crawl into a pipe that is gone",
        f"{CRAWL}{{site}} | true; exit ${{{{PIPESTATUS[0]}}}}",
        0,
        (),
        (),
        leaves=True,
    ),
    Mistake(
        "progress into a pipe that is gone",
        f"{CRAWL}{{site}} --progress json | true; exit ${{{{PIPESTATUS[0]}}}}",
        0,
        (),
        (),
        leaves=True,
    ),
    Mistake(
        "crawl with stdout full",
        f"{CRAWL}{{site}} >/dev/full",
        1,
        ("No space left",),
        ("redirect it",),
        leaves=True,
    ),
    Mistake("config into a pipe that is gone", "scrapy config | true; exit ${{PIPESTATUS[0]}}", 0),
    Mistake("config with stdout full", "scrapy config >/dev/full", 1, ("No space left",)),
    Mistake("stdout closed", "scrapy search lamp >&-", 0, (), (), crawled),
    Mistake("stdout of status closed", "scrapy status >&-", 0, (), (), crawled),
    Mistake("stderr closed", "scrapy search zzyzx 2>&-", 0, (), (), crawled),
    Mistake("stdin closed", "scrapy search lamp <&-", 0, ("1. ",), (), crawled, lines=20),
    Mistake("crawl with stdout closed", f"{CRAWL}{{site}} >&-", 0, (), (), leaves=True),
    Mistake(
        "stdout full",
        "scrapy registry --format jsonl >/dev/full",
        1,
        ("No space left",),
        ("redirect it",),
        crawled,
    ),
    Mistake(
        "search with stdout full",
        "scrapy search lamp >/dev/full",
        1,
        ("No space left",),
        ("redirect it",),
        crawled,
    ),
    Mistake(
        "no terminal", "setsid scrapy status </dev/null", 0, ("{source}",), (), crawled, lines=50
    ),
    Mistake(
        "dumb terminal",
        "TERM=dumb script -qec 'scrapy search lamp' /dev/null",
        0,
        ("1. ",),
        (),
        crawled,
        lines=50,
        lacks="\x1b",
    ),
    Mistake(
        "no colour",
        "NO_COLOR=1 script -qec 'scrapy search lamp' /dev/null",
        0,
        ("1. ",),
        (),
        crawled,
        lines=50,
        lacks="\x1b[3",
    ),
    Mistake(
        "ASCII terminal",
        "PYTHONIOENCODING=ascii scrapy search Bücher",
        0,
        ("1. B?cher",),
        (),
        crawled,
        lines=50,
    ),
    Mistake(
        "C locale",
        "LC_ALL=POSIX PYTHONCOERCECLOCALE=0 PYTHONUTF8=0 scrapy registry",
        0,
        ("{site}",),
        (),
        crawled,
        lines=50,
    ),
)

OURS = (
    Mistake(
        "mistyped command of smartcrawl",
        "smartcrawl serch lamp",
        2,
        ("'serch'",),
        ("did you mean search?",),
        crawled,
    ),
    Mistake(
        "smartcrawl before a crawl, in any folder",
        "cd /; smartcrawl search lamp",
        1,
        ("no registry",),
        ("smartcrawl crawl https://…",),
    ),
    Mistake(
        "smartcrawl: typo in the scheme",
        "smartcrawl crawl htps://docs.example.com/",
        1,
        ("'htps://docs.example.com/'",),
        ("did you mean https://docs.example.com/",),
    ),
    Mistake(
        "smartcrawl: an unknown host",
        "smartcrawl crawl https://docs.exmaple.invalid/",
        1,
        ("docs.exmaple.invalid",),
        ("Check the spelling",),
    ),
    Mistake(
        "smartcrawl: mistyped setting",
        "smartcrawl crawl {site} -s DOWNLOAD_DELY=1",
        2,
        ("DOWNLOAD_DELY",),
        ("DOWNLOAD_DELAY",),
    ),
)


def by_smartcrawl(mistake: Mistake) -> Mistake | None:
    """The same mistake with smartcrawl; None for what it does not have, and for long ones."""
    if mistake.given is not crawled or mistake.name in ("mistyped command", *SCRAPYS):
        return None
    if "scrapy crawl" in mistake.line:
        return None
    words = (mistake.says, mistake.remedy)
    says, remedy = (tuple(word.replace("scrapy ", "smartcrawl ") for word in of) for of in words)
    line = mistake.line.replace("scrapy ", "smartcrawl ")
    return replace(mistake, name=f"smartcrawl: {mistake.name}", line=line, says=says, remedy=remedy)


SCRAPYS = ("pid file in a missing folder",)  #: mistakes that only scrapy knows
SCRAPY = (*ADDRESSES, *SERVERS, *OPTIONS, *SOURCES, *STATE, *SERVICES, *ASKING, *TERMINALS)
MISTAKES = (*SCRAPY, *OURS, *filter(None, map(by_smartcrawl, SCRAPY)))
