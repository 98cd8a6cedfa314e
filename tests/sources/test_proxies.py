"""The proxy of a source: by its address, or by the variable that has it."""

import base64

import pytest

from smartcrawl.model.exceptions import SettingError
from smartcrawl.sources.proxies import Proxy, proxy_of_source


@pytest.mark.parametrize(
    ("text", "proxy", "url"),
    [
        ("http://p.example:3128", Proxy("p.example", 3128), "http://p.example:3128"),
        ("HTTP://P.example/", Proxy("p.example", 80), "http://p.example:80"),
        ("http://[::1]:8080", Proxy("::1", 8080), "http://[::1]:8080"),
    ],
)
def test_an_address_is_host_and_port(text: str, proxy: Proxy, url: str):
    assert Proxy.of_address(text) == proxy
    assert proxy.url == url
    assert proxy.headers == {}
    assert proxy_of_source("docs", text) == proxy


def test_user_and_password_are_for_the_proxy_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCS_PROXY", "http://me:h%C3%BC%40sh@p.example:3128")

    proxy = proxy_of_source("docs", "DOCS_PROXY")

    assert proxy is not None
    assert proxy.url == "http://p.example:3128"
    kind, _, given = proxy.headers["Proxy-Authorization"].partition(" ")
    assert (kind, base64.b64decode(given).decode()) == ("Basic", "me:hü@sh")
    assert given not in repr(proxy)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, "as the environment variable DOCS_PROXY is not set: set it where"),
        (" ", "as the environment variable DOCS_PROXY is empty"),
        ("hush", "DOCS_PROXY has no address such as http://USER:PASSWORD@proxy.example.com:3128"),
        ("http://me:hu@sh@p.example", "with each special character of user and password"),
        ("http://me:hush@p.example:0", "has no address such as"),
        ("socks5://me:hush@p.example", "has no address such as"),
    ],
)
def test_a_variable_without_an_address_is_told_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, value: str | None, told: str
):
    monkeypatch.delenv("DOCS_PROXY", raising=False)
    if value is not None:
        monkeypatch.setenv("DOCS_PROXY", value)

    with pytest.raises(SettingError) as caught:
        proxy_of_source("docs", "DOCS_PROXY")

    assert str(caught.value).startswith("[sources.docs] proxy cannot be had, as the environment")
    assert told in str(caught.value)
    assert "sh@" not in str(caught.value)
    assert "hush" not in str(caught.value)


def test_no_proxy_is_none():
    assert proxy_of_source("docs", None) is None
