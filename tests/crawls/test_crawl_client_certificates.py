"""Sources that log in by a client certificate, in engine and lane, against nginx (ADR 146)."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.certificates import Signer, made, written
from tests.crawls.commands import Crawl
from tests.servers import nginx
from tests.servers.processes import free_port
from tests.site_server import html

#: {verify}: "on" has nginx answer 400 without a certificate; "optional" leaves it to the location.
_SERVERS = """
log_format shown '$request_uri $ssl_client_verify $connection';
server {{
    listen 127.0.0.1:{port} ssl; root html; index index.html; access_log {folder}/shown.log shown;
    ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.pem;
    ssl_client_certificate {folder}/readers.pem; ssl_verify_client {verify};
    location / {{ if ($ssl_client_verify != SUCCESS) {{ return 403; }} }}
    location = /robots.txt {{ return 404; }}
    location = /away.html {{ return 302 https://127.0.0.1:{other}/elsewhere.html; }}
}}
server {{
    listen 127.0.0.1:{other} ssl; root html; access_log {folder}/other.log shown;
    ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.pem;
    ssl_client_certificate {folder}/readers.pem; ssl_verify_client optional;
}}
"""


@dataclass
class Docs:
    """nginx that shows pages to those with a certificate of ``readers``."""

    folder: Path
    port: int
    other: int
    readers: Signer

    def give(self, signer: Signer) -> None:
        """Have the crawl show this certificate from now on."""
        written(self.folder, "bot.pem", signer, key=False)
        key = self.folder / "bot.key"
        key.write_bytes(signer.key_pem)
        key.chmod(0o600)

    def shown(self, name: str = "shown") -> list[list[str]]:
        """Path, certificate and connection of each request; empties the log."""
        log = self.folder / f"{name}.log"
        lines = [line.split() for line in log.read_text().splitlines()]
        log.write_text("")
        return lines


@pytest.fixture(params=["on", "optional"])
def docs(request: pytest.FixtureRequest, crawl: Crawl, tmp_path: Path) -> Iterator[Docs]:
    root = tmp_path / "root"
    root.mkdir()
    (root / "index.html").write_text(html("Home", "/a.html", "/b.html", "/away.html"))
    for name in "ab":
        (root / f"{name}.html").write_text(html(f"Page {name}", text=f"treasure {name} " * 20))
    (root / "elsewhere.html").write_text(html("Elsewhere", text="Public words"))
    authority = made("Trial authority", authority=True)
    server = made("site", hosts=("127.0.0.1",), issuer=authority)
    docs = Docs(tmp_path, free_port(), free_port(), made("Readers", authority=True))
    written(tmp_path, "server.pem", server)
    written(tmp_path, "authority.pem", authority, key=False)
    written(tmp_path, "readers.pem", docs.readers, key=False)
    docs.give(made("bot", issuer=docs.readers))
    hosts = json.dumps([f"127.0.0.1:{docs.port}", f"127.0.0.1:{docs.other}"])
    crawl.declare(
        f'[sources.docs]\nseeds = ["https://127.0.0.1:{docs.port}/"]\nallowed_domains = {hosts}\n'
        f'ca_file = "{tmp_path}/authority.pem"\n[sources.docs.auth]\nkind = "client_certificate"\n'
        f'certificate = "file:{tmp_path}/bot.pem"\nkey = "file:{tmp_path}/bot.key"\n'
    )
    place = {"folder": tmp_path, "port": docs.port, "other": docs.other}
    with nginx(root, beside=_SERVERS.format(verify=request.param, **place)):
        yield docs


def test_nginx_takes_a_client_certificate(crawl: Crawl, docs: Docs):
    settings = {"ALLOW_NETWORKS": "127.0.0.0/8", "RETRY_TIMES": 0}
    for found in ("new", "unchanged"):
        crawl(source="docs", settings=settings)
        assert {crawl.outcomes()[path] for path in ("/", "/a.html", "/b.html")} == {found}
        asked = docs.shown()
        robots = [line for line in asked if line[0] == "/robots.txt"]
        pages = [line for line in asked if line[0] != "/robots.txt"]
        assert {verified for _, verified, _ in robots} == {"NONE"}
        assert {verified for _, verified, _ in pages} == {"SUCCESS"}
        assert {at for *_, at in robots}.isdisjoint(at for *_, at in pages)
        elsewhere = docs.shown("other")
        assert {verified for _, verified, _ in elsewhere} == {"NONE"}, "another origin"
        assert [path for path, *_ in elsewhere if "elsewhere" in path] != []
    assert crawl.runs()[0]["notModified"] >= 3

    docs.give(made("bot", issuer=made("Stranger", authority=True)))
    result = crawl(source="docs", settings=settings, expect=3)
    assert "login: refused (HTTP 40" in result.out
    assert len(crawl.hits("treasure")) == 2
    assert crawl.records(status="Gone") == []

    docs.give(made("bot", issuer=docs.readers))
    crawl(source="docs", settings=settings)
    assert crawl.outcomes()["/a.html"] == "unchanged"
    key = (docs.folder / "bot.key").read_text().splitlines()[1]
    assert [name for name, content in crawl.written() if key.encode() in content] == ["bot.key"]


def test_a_key_that_does_not_belong_is_an_error_before_any_request(crawl: Crawl, docs: Docs):
    (docs.folder / "bot.key").write_bytes(made("another").key_pem)
    result = crawl(source="docs", expect=1)
    assert "certificate and key: the key does not belong to the certificate" in result.err
    (docs.folder / "bot.key").chmod(0o644)
    assert "chmod 600" in crawl(source="docs", expect=1).err
    assert docs.shown() == []
