"""TLS certificates are verified on every road, and a wrong one takes nothing away.

Source: RD-20; ADR 38.
"""

import os
import socket
import ssl
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from scrapy.settings import Settings

from smartcrawl.engine.download.network import lane_tls_context
from smartcrawl.sources.trust import CertificateTrust
from tests.certificates import certificate, made, written
from tests.crawls.commands import Crawl, Record
from tests.crawls.secure_site import HOSTS, Secure
from tests.site_server import Site, html

pytestmark = pytest.mark.long(but=5)

_PAGES = 4
_ROADS = pytest.mark.parametrize("road", ["auto", "off"], ids=["lane", "engine"])
_STACKS = pytest.mark.parametrize("stack", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
def secure(site: Site, tmp_path: Path) -> Secure:
    """A site over TLS, certified by an authority that the system does not know."""
    links = [f"/{number}" for number in range(_PAGES)]
    site.pages["/"] = html("Home", *links)
    for link in links:
        site.pages[link] = html(f"Walrus {link}")
    return Secure(site, tmp_path)


def expired(secure: Secure) -> None:
    ends = timedelta(days=-2)
    secure.show(made("site", hosts=HOSTS, issuer=secure.authority, ends_in=ends))


def too_early(secure: Secure) -> None:
    begins, ends = timedelta(days=1), timedelta(days=2)
    secure.show(made("site", hosts=HOSTS, issuer=secure.authority, begins_in=begins, ends_in=ends))


def wrong_name(secure: Secure) -> None:
    hosts = ("a.example", "127.0.0.2", "*.localhost")
    secure.show(made("127.0.0.1", hosts=hosts, issuer=secure.authority))


def nameless(secure: Secure) -> None:
    """The common name counts for nothing (RFC 9110 section 4.3.4)."""
    secure.show(made("127.0.0.1", issuer=secure.authority))


def unknown_issuer(secure: Secure) -> None:
    secure.show(made("site", hosts=HOSTS, issuer=made("Stranger", authority=True)))


def unknown_root(secure: Secure) -> None:
    stranger = made("Stranger", authority=True)
    secure.show(made("site", hosts=HOSTS, issuer=stranger), stranger)


def self_signed(secure: Secure) -> None:
    secure.show(made("site", hosts=HOSTS))


def expired_authority(secure: Secure) -> None:
    between = made("Between", authority=True, issuer=secure.authority, ends_in=timedelta(days=-2))
    secure.show(made("site", hosts=HOSTS, issuer=between), between)


_FIX, _CA, _OFF = "correct the certificate", "ca_file", "verify_certificates = false"
#: What a server may show, with the words for it, and the remedies that help.
_WRONG: list[tuple[Callable[[Secure], None], str, tuple[str, ...]]] = [
    (expired, "expired on", (_FIX, _OFF)),
    (too_early, "not valid before", (_FIX, _OFF)),
    (wrong_name, "wrong name, it is for a.example, 127.0.0.2, *.localhost", (_FIX, _OFF)),
    (nameless, "wrong name, it names no host", (_FIX, _OFF)),
    (unknown_issuer, "issuer is unknown (CN=Stranger)", (_CA, "whole chain", _OFF)),
    (unknown_root, "issuer is unknown, a self-signed authority (CN=Stranger)", (_CA, _OFF)),
    (self_signed, "self-signed (CN=site)", (_CA, _OFF)),
    (expired_authority, "its authority (CN=Between) expired on", (_FIX, _OFF)),
]
_EACH = pytest.mark.parametrize(
    ("spoil", "words", "remedies"), _WRONG, ids=[spoil.__name__ for spoil, *_ in _WRONG]
)


def refused(record: Record, words: str, remedies: tuple[str, ...]) -> None:
    """Assert that a record says why no secure connection came about, and what helps."""
    assert (record["lastOutcome"], record["httpStatusCode"]) == ("failed", 1105)
    for word in (words, *remedies):
        assert word in record["errorMessage"]


def test_a_server_that_the_system_does_not_know_is_refused(secure: Secure, crawl: Crawl):
    crawl(secure.url(), expect=3)

    [record] = crawl.records()
    refused(record, "issuer is unknown (CN=Trial authority)", (_CA, _OFF))
    assert not secure.site.log  # no request was sent


@_ROADS
@pytest.mark.parametrize("host", HOSTS)
def test_an_authority_that_is_named_is_trusted(secure: Secure, crawl: Crawl, road: str, host: str):
    settings = {"CA_FILE": secure.ca_file, "REVALIDATION_LANE": road, "STATS_DUMP": "1"}

    first = crawl(secure.url(host=host), settings=settings)
    again = crawl(secure.url(host=host), settings=settings)

    assert [run["complete"] for run in crawl.runs()] == [True, True]
    assert set(crawl.outcomes().values()) == {"unchanged"}
    assert "certificate" not in first.err + again.err
    assert ("'lane/not_modified': 4" in again.err) is (road == "auto")
    assert "lane/fallbacks" not in again.err


@pytest.mark.long(but=8)
@_STACKS
@_ROADS
@_EACH
def test_a_wrong_certificate_is_said_and_removes_nothing(
    secure: Secure, crawl: Crawl, road: str, spoil, words: str, remedies: tuple[str, ...]
):
    settings = {"CA_FILE": secure.ca_file, "REVALIDATION_LANE": road, "LOST_THRESHOLD": 1}
    crawl(secure.url(), settings=settings)
    secure.site.clear()

    spoil(secure)
    for _ in range(2):
        crawl(secure.url(), settings=settings, expect=3)

    for record in crawl.records():
        refused(record, words, remedies)
    assert not crawl.runs()[0]["complete"]
    assert len(crawl.hits("walrus")) == _PAGES
    assert not secure.site.log


@pytest.mark.long(but=4)
@_EACH
def test_the_lane_refuses_what_the_engine_refuses(
    secure: Secure, spoil, words: str, remedies: tuple[str, ...]
):
    """Without a word: the engine asks again, and finds the reason."""
    context = lane_tls_context(Settings({"DOWNLOAD_VERIFY_CERTIFICATES": 0}), secure.trust)
    handshake(secure, context)

    spoil(secure)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(secure, context)

    handshake(secure, lane_tls_context(Settings(), CertificateTrust(verify=False)))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(secure, lane_tls_context(Settings(), CertificateTrust()))


@pytest.mark.parametrize("hosts", [(), ("127.0.0.2",)], ids=["nameless", "for an address"])
def test_the_lane_does_not_look_at_the_common_name(secure: Secure, hosts: tuple[str, ...]):
    """Python's default does, where a certificate is for no host name (RFC 9110 section 4.3.4)."""
    context = lane_tls_context(Settings(), secure.trust)
    handshake(secure, context, "localhost")

    secure.show(made("localhost", hosts=hosts, issuer=secure.authority))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(secure, context, "localhost")


def handshake(secure: Secure, context: ssl.SSLContext, host: str = "127.0.0.1") -> None:
    """Open a connection as asyncio does, and close it."""
    port = int(secure.url("").rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=host),
    ):
        pass


@pytest.mark.long(but=4)
@_EACH
def test_of_a_new_host_the_reason_is_said_too(
    secure: Secure, crawl: Crawl, spoil, words: str, remedies: tuple[str, ...]
):
    """Although it is robots.txt that is asked first; the rules are unknown, not absent."""
    spoil(secure)

    crawl(secure.url(), settings={"CA_FILE": secure.ca_file}, expect=3)

    [record] = crawl.records()
    refused(record, words, remedies)
    assert any(reason.startswith("robots_unknown") for reason in crawl.runs()[0]["reasons"])


def test_a_host_of_the_wrong_name_is_refused_where_the_address_is_right(
    secure: Secure, crawl: Crawl
):
    """A name is looked for among names only, an address among addresses only."""
    settings = {"CA_FILE": secure.ca_file}
    secure.show(made("site", hosts=("localhost",), issuer=secure.authority))
    crawl(secure.url(host="localhost"), settings=settings)

    secure.show(made("site", hosts=("127.0.0.1",), issuer=secure.authority))
    crawl(secure.url(host="localhost"), settings=settings, expect=3)

    for record in crawl.records():
        refused(record, "wrong name, it is for 127.0.0.1", (_FIX,))


def test_verification_may_be_switched_off(secure: Secure, crawl: Crawl):
    self_signed(secure)
    for _ in range(2):
        crawl(secure.url(), settings={"VERIFY_CERTIFICATES": 0})

    assert set(crawl.outcomes().values()) == {"unchanged"}


@_ROADS
def test_a_source_has_its_own_trust(secure: Secure, crawl: Crawl, road: str):
    """What its table says counts before the settings."""
    crawl.environment["REVALIDATION_LANE"] = road
    table = f'[sources.docs]\nseeds = ["{secure.url()}"]\n'
    wrong = certificate(crawl.folder)

    for line, settings, status in (
        ("", {"CA_FILE": secure.ca_file}, 0),
        ("", {"VERIFY_CERTIFICATES": "0"}, 0),
        ("", {}, 3),
        ("verify_certificates = false", {}, 0),
        ("verify_certificates = true", {"VERIFY_CERTIFICATES": "0"}, 3),
        ('ca_file = "authority.pem"', {}, 0),  # beside sources.toml
        (f'ca_file = "{secure.ca_file}"', {"CA_FILE": wrong}, 0),
        (f'ca_file = "{wrong}"', {"CA_FILE": secure.ca_file}, 3),
    ):
        crawl.declare(f"{table}{line}\n")
        crawl(source="docs", settings=settings, expect=status)


def test_the_authorities_of_the_system_are_those_of_ssl_cert_file(secure: Secure, crawl: Crawl):
    """And a CA_FILE adds to them."""
    other = written(crawl.folder, "other.pem", made("Other", authority=True), key=False)
    crawl.environment["SSL_CERT_FILE"] = str(secure.ca_file)

    for _ in range(2):
        result = crawl(secure.url(), settings={"CA_FILE": other, "STATS_DUMP": "1"})

    assert "'lane/not_modified': 4" in result.err


def test_a_context_factory_of_your_own_keeps_the_lane_closed(secure: Secure, crawl: Crawl):
    """What it accepts is not known; the engine asks all pages by its rules."""
    factory = "scrapy.core.downloader.contextfactory.ScrapyClientContextFactory"
    settings = {"DOWNLOADER_CLIENTCONTEXTFACTORY": factory, "DOWNLOAD_VERIFY_CERTIFICATES": 0}
    for _ in range(2):
        result = crawl(secure.url(), settings={**settings, "STATS_DUMP": "1"})

    assert "DOWNLOADER_CLIENTCONTEXTFACTORY is set" in result.err
    assert "lane/not_modified" not in result.err
    assert set(crawl.outcomes().values()) == {"unchanged"}


@_STACKS
def test_sitemaps_are_verified_too(secure: Secure, crawl: Crawl):
    """Its pages stay reached through the links that are stored."""
    pages = "".join(f"<url><loc>{secure.url(f'/{n}')}</loc></url>" for n in range(_PAGES))
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    secure.site.pages["/map.xml"] = f'<urlset xmlns="{space}">{pages}</urlset>'
    settings = {"CA_FILE": secure.ca_file, "ORPHAN_THRESHOLD": 1}
    crawl(sitemap=secure.url("/map.xml"), settings=settings)

    expired(secure)
    for _ in range(2):
        crawl(sitemap=secure.url("/map.xml"), settings=settings, expect=3)

    assert len(crawl.records()) == _PAGES + 1
    for record in crawl.records():
        refused(record, "expired on", (_FIX, _OFF))
    assert len(crawl.hits("walrus")) == _PAGES


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no such file"),
        (b"", "contains no certificate in PEM form"),
        (os.urandom(200), "contains no certificate in PEM form"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "contains no certificate",
        ),
    ],
    ids=["missing", "empty", "binary", "broken"],
)
def test_a_ca_file_that_is_none_ends_the_command_before_the_first_request(
    secure: Secure, crawl: Crawl, content: bytes | None, words: str
):
    file = crawl.folder / "ca.pem"
    if content is not None:
        file.write_bytes(content)
    crawl.declare(f'[sources.docs]\nseeds = ["{secure.url()}"]\nca_file = "ca.pem"\n')

    by_setting = crawl(secure.url(), settings={"CA_FILE": file}, expect=1)
    by_source = crawl(source="docs", expect=1)

    for result, name in ((by_setting, "CA_FILE is"), (by_source, "[sources.docs] ca_file is")):
        assert name in result.err
        assert str(file) in result.err
        assert words in result.err
        assert "name a PEM file" in result.err
    assert not secure.site.log
