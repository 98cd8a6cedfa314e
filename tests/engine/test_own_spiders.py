"""Which answers the spider of a user gets."""

from types import SimpleNamespace

import pytest
from scrapy.http import HtmlResponse, Request, Response
from scrapy.settings import Settings

from smartcrawl.engine.own_spiders import brings_page
from smartcrawl.model.pages import Page, VisitAttempt

URL = "http://site.example/x"


@pytest.mark.parametrize(
    ("headers", "markup", "brings"),
    [
        ({}, "<p>text", True),
        ({}, "<meta http-equiv=refresh content='0; url=/y'>", False),
        ({}, "<META HTTP-EQUIV='Refresh' CONTENT='1; URL=/y'>", False),
        ({}, "<meta http-equiv=refresh content='5; url=/y'>", True),
        ({}, "<meta http-equiv=refresh content='0; url=/x'>", True),
        ({}, "<noscript><meta http-equiv=refresh content='0; url=/y'></noscript>", True),
        ({"Refresh": "0; url=/y"}, "<p>text", False),
        ({"Refresh": "5; url=/y"}, "<p>text", True),
        ({"Refresh": "0; url=/x"}, "<p>text", True),
        ({"Refresh": "0"}, "<p>text", True),
    ],
)
def test_a_page_that_leads_on_at_once_is_none_that_parse_gets(headers, markup, brings):
    for made in (HtmlResponse, Response):
        spider = SimpleNamespace(settings=Settings())
        own, attempt = Request(URL), VisitAttempt(Page(1, URL, "site.example", 0))
        response = made(URL, headers=headers, body=markup.encode(), request=own)
        assert brings_page(spider, response), "a request of the user's own"
        response.meta["attempt"] = attempt
        assert brings_page(spider, response) is (brings or (made is Response and not headers))
        spider.handle_httpstatus_list = [200]
        assert brings_page(spider, response)
