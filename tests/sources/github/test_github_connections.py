"""The client of the API over TLS, through proxies, and with servers that stall."""

import base64
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware
from scrapy.settings import Settings

from smartcrawl import settings as defaults
from smartcrawl.engine.download.github import downloader_request_of_raw_file
from smartcrawl.engine.download.network import (
    EnvironmentProxies,
    lane_tls_context,
)
from smartcrawl.model.exceptions import SettingError
from smartcrawl.rules.connections import ConnectionGuard
from smartcrawl.sources.github.api import ApiError, GithubApi
from smartcrawl.sources.proxies import Proxy
from smartcrawl.sources.trust import CertificateTrust
from tests.certificates import Signer, made
from tests.connect_proxy import ConnectProxy
from tests.github_peer import GithubPeer
from tests.github_tls import SecurePeer

PATH = "/repos/octo/docs/commits/HEAD"
NAME = "ghe.example"  #: a host that this machine does not know
SECRET = "s3cr-et"


@pytest.fixture
def peer(tmp_path) -> Iterator[GithubPeer]:
    with GithubPeer(tmp_path) as peer:
        docs = peer.repository("octo/docs")
        docs.write("a.md", "a")
        docs.commit()
        yield peer


@pytest.fixture
def secure(peer, tmp_path) -> SecurePeer:
    return SecurePeer(peer, tmp_path)


def api(url: str, **more: Any) -> GithubApi:
    guard = more.pop("guard", ConnectionGuard([ip_network("127.0.0.0/8")]))
    more = {"timeout": 5, "retries": 0, "wait": lambda seconds: False} | more
    return GithubApi(url, guard=guard, **more)


def trusting(ca_file: Path | None, *, verify: bool = True) -> ssl.SSLContext:
    return lane_tls_context(Settings(), CertificateTrust(verify, ca_file))


def read(client: GithubApi) -> int:
    return client.get(PATH, most=10**6).status


def refusal(client: GithubApi) -> str:
    with pytest.raises(ApiError) as error:
        read(client)
    return str(error.value)


# TLS


def test_a_certificate_of_a_named_authority_is_accepted(peer, secure):
    assert read(api(peer.api, tls=trusting(secure.ca_file), token="geheim")) == 401
    assert [asked.status for asked in peer.log] == [401]


def wrong_name(secure: SecurePeer) -> Signer:
    return made("github", hosts=("127.0.0.2",), issuer=secure.authority)


def expired(secure: SecurePeer) -> Signer:
    ends = timedelta(days=-2)
    return made("github", hosts=("127.0.0.1",), issuer=secure.authority, ends_in=ends)


def stranger(secure: SecurePeer) -> Signer:
    return made("github", hosts=("127.0.0.1",), issuer=made("Stranger", authority=True))


def self_signed(secure: SecurePeer) -> Signer:
    return made("github", hosts=("127.0.0.1",))


_NAME_IT = "give the certificate of its authority with ca_file (CA_FILE)"
_RENEW_IT = "renew or correct the certificate at the server, or accept any certificate with"


@pytest.mark.parametrize(
    ("spoil", "why", "remedy"),
    [
        (wrong_name, "IP address mismatch", _RENEW_IT),
        (expired, "certificate has expired", _RENEW_IT),
        (stranger, "unable to get local issuer certificate", _NAME_IT),
        (self_signed, "self-signed certificate", _NAME_IT),
    ],
)
def test_a_wrong_certificate_is_refused_with_the_remedy_that_fits(peer, secure, spoil, why, remedy):
    secure.show(spoil(secure))
    said = refusal(api(peer.api, tls=trusting(secure.ca_file), token=SECRET))
    assert said.startswith("the certificate of 127.0.0.1 was refused (")
    assert why in said
    assert remedy in said
    assert peer.log == []
    assert read(api(peer.api, tls=trusting(None, verify=False))) == 200


def test_an_authority_that_is_not_named_is_unknown(peer, secure):
    assert _NAME_IT in refusal(api(peer.api, tls=trusting(None)))


def test_a_server_without_tls_is_not_spoken_to_without_it(peer):
    url = peer.api.replace("http://", "https://")
    said = refusal(api(url, tls=trusting(None), token=SECRET))
    assert said.startswith("no answer of the API at 127.0.0.1 (no connection ([SSL")
    assert peer.log == []


# Proxies


@pytest.fixture
def proxy(peer) -> Iterator[ConnectProxy]:
    port = int(peer.origin.rpartition(":")[2])
    with ConnectProxy({NAME: port, "127.0.0.1": port}, password=SECRET) as proxy:
        yield proxy


def way(proxy: ConnectProxy, password: str | None = None) -> Proxy:
    """Return the proxy as the environment of a crawl has it."""
    right = proxy.password
    proxy.password = password or right
    chosen = chosen_for(f"https://{NAME}/api/v3", https_proxy=proxy.url)
    proxy.password = right
    assert chosen is not None
    return chosen


def chosen_for(url: str, *, enabled: bool = True, **environment: str) -> Proxy | None:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
            patch.delenv(name, raising=False)
            patch.delenv(name.upper(), raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        settings = Settings({"HTTPPROXY_ENABLED": enabled})
        return EnvironmentProxies(settings).proxy_of(url)


def test_a_tunnel_leads_to_a_host_that_only_the_proxy_knows(peer, proxy, tmp_path):
    secure = SecurePeer(peer, tmp_path, NAME)
    client = api(peer.api, tls=trusting(secure.ca_file), proxy=way(proxy), token=SECRET + "2")
    assert read(client) == 401
    assert [(asked.method, asked.target, asked.status) for asked in proxy.log] == [
        ("CONNECT", f"{NAME}:443", 200)
    ]
    assert "authorization" not in proxy.log[0].headers
    assert [asked.headers["host"] for asked in peer.log] == [NAME]
    assert "proxy-authorization" not in peer.log[0].headers

    secure.show(made("github", hosts=("other.example",), issuer=secure.authority))
    assert "Hostname mismatch" in refusal(client)
    assert len(peer.log) == 1


def test_a_proxy_is_asked_for_http_by_the_whole_address(peer, proxy):
    client = api(f"http://{NAME}/api/v3", proxy=way(proxy))
    assert read(client) == 200
    [asked] = proxy.log
    assert (asked.method, asked.target) == ("GET", f"http://{NAME}/api/v3{PATH}")
    assert "proxy-authorization" not in peer.log[0].headers


def test_a_host_that_is_an_address_of_ipv6_is_reached_through_the_proxy(peer, tmp_path):
    port = int(peer.origin.rpartition(":")[2])
    guard = ConnectionGuard([ip_network("::1/128")])
    with ConnectProxy({"::1": port, "[::1]": port}) as proxy:
        assert read(api("http://[::1]/api/v3", proxy=way(proxy), guard=guard)) == 200
        secure = SecurePeer(peer, tmp_path, "::1")
        secure.name("[::1]")
        tls = trusting(secure.ca_file)
        assert read(api(peer.api, tls=tls, proxy=way(proxy), guard=guard)) == 200
        secure.show(made("github", hosts=("::2",), issuer=secure.authority))
        said = refusal(api(peer.api, tls=tls, proxy=way(proxy), guard=guard))
    assert "the certificate of ::1 was refused (IP address mismatch" in said
    plain, *tunnels = [(asked.method, asked.target, asked.headers["host"]) for asked in proxy.log]
    assert plain == ("GET", f"http://[::1]/api/v3{PATH}", "[::1]")
    assert tunnels == [("CONNECT", "[::1]:443", "[::1]:443")] * 2
    assert [asked.headers["host"] for asked in peer.log] == ["[::1]", "[::1]"]


def test_a_proxy_that_refuses_is_named_without_its_password(peer, proxy, tmp_path):
    secure = SecurePeer(peer, tmp_path, NAME)
    client = api(peer.api, tls=trusting(secure.ca_file), proxy=way(proxy, "wrong-one"))
    said = refusal(client)
    assert f"no answer of the API at {NAME} through the proxy {proxy.place} (" in said
    assert "407" in said
    assert "wrong-one" not in said + repr(way(proxy, "wrong-one"))
    proxy.names.clear()
    client = api(peer.api, tls=trusting(secure.ca_file), proxy=way(proxy))
    assert "502" in refusal(client)
    assert peer.log == []


def test_a_proxy_is_no_way_around_the_guard(peer, proxy):
    client = api(peer.api, proxy=way(proxy), guard=ConnectionGuard())
    said = refusal(client)
    assert said.startswith("127.0.0.1: address not allowed: loopback (127.0.0.1): permit its ")
    assert proxy.log == []


def test_a_name_that_is_not_found_leads_to_the_place_that_has_it(peer):
    assert refusal(api("http://nothing.invalid/api")).endswith(": check GITHUB_API_URL")
    away = Proxy("nothing.invalid", 3128)
    said = refusal(api(peer.api, proxy=away))
    assert said.startswith("nothing.invalid cannot be resolved (")
    assert said.endswith(": check the proxy of the environment")


def test_the_proxy_is_that_of_pages_of_the_web():
    api_url, name = "https://api.example/v3", "http://user:p%40ss@proxy.example:3128"
    assert chosen_for(api_url) is None
    assert chosen_for(api_url, enabled=False, https_proxy=name) is None
    assert chosen_for(api_url, http_proxy=name) is None
    assert chosen_for(api_url, https_proxy=name, no_proxy="example.com,api.example") is None
    assert chosen_for(api_url, https_proxy=name, no_proxy="other.example") == Proxy(
        "proxy.example", 3128, "Basic dXNlcjpwQHNz"
    )
    assert chosen_for("http://api.example/v3", HTTP_PROXY="proxy.example:80") == Proxy(
        "proxy.example", 80
    )
    with pytest.raises(SettingError, match=r"https_proxy .* write http://") as error:
        chosen_for(api_url, https_proxy="https://user:p%40ss@proxy.example")
    assert "ss@" not in str(error.value)


def test_proxies_are_off_by_default():
    assert defaults.HTTPPROXY_ENABLED is False


def raw_file(url: str, **environment: str) -> Request:
    """Return a request for a raw file, after the middleware chose a proxy for its page."""
    names = ("http_proxy", "https_proxy", "no_proxy")
    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.delenv(name.upper(), raising=False)
            patch.setenv(name, environment.get(name, ""))
        page = Request("https://github.com/o/r/blob/HEAD/a.md", headers={"Cookie": "no"})
        if "own" in environment:
            page.meta["proxy"] = environment["own"]
        HttpProxyMiddleware().process_request(page)
        asked = downloader_request_of_raw_file(page, url, "geheim")
        EnvironmentProxies(Settings({"HTTPPROXY_ENABLED": True})).choose(asked)
    return asked


def test_a_raw_file_has_the_proxy_of_its_own_address_and_not_of_its_page():
    one, other = "http://user:a@one.example:1", "http://user:b@other.example:2"
    url = "https://raw.example/f"
    assert "Authorization" in raw_file(url).headers
    assert "Cookie" not in raw_file(url).headers
    for given, proxy, password in (
        ({}, None, None),
        ({"https_proxy": one}, "http://one.example:1", b"user:a"),
        ({"https_proxy": one, "no_proxy": "github.com"}, "http://one.example:1", b"user:a"),
        ({"https_proxy": one, "no_proxy": "raw.example"}, None, None),
        ({"own": other}, "http://other.example:2", b"user:b"),
        ({"own": other, "https_proxy": one}, "http://other.example:2", b"user:b"),
    ):
        asked = raw_file(url, **given)
        assert asked.meta.get("proxy") == proxy
        right = None if password is None else b"Basic " + base64.b64encode(password)
        assert asked.headers.get("Proxy-Authorization") == right
    plain = raw_file("http://raw.example/f", https_proxy=one, http_proxy=other)
    assert plain.meta["proxy"] == "http://other.example:2"


# Servers that stall


@contextmanager
def dripping(*pieces: bytes) -> Iterator[str]:
    """Answer each request with a first piece, then with a second one every 50 ms, 100 times."""
    ended = threading.Event()
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with server:
            while not ended.is_set():
                try:
                    opened, _ = server.accept()
                except OSError:
                    return
                with opened:
                    drip(opened)

    def drip(opened: socket.socket) -> None:
        opened.recv(65_536)
        try:
            opened.sendall(pieces[0])
            for _ in range(100):
                if ended.wait(0.05):
                    return
                opened.sendall(pieces[1])
        except OSError:
            return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    ended.set()
    server.close()
    thread.join(5)


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (b"HTTP/1.0 200 OK\r\n\r\n", b"x"),
        (b"HTTP/1.1 200 OK\r\n", b"x"),
    ],
    ids=["length", "chunked", "until the end", "headers"],
)
def test_an_answer_that_drips_ends_with_the_timeout(first, drop):
    began = time.monotonic()
    with dripping(first, drop) as url:
        said = refusal(api(url, timeout=0.4))
    assert time.monotonic() - began < 3
    assert "DOWNLOAD_TIMEOUT" in said


def test_an_answer_without_end_is_given_up_at_its_limit():
    began = time.monotonic()
    endless = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    with dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", endless * 100) as url:
        said = refusal(api(url))
    assert "has more than 1,000,000 bytes" in said
    assert time.monotonic() - began < 4
