"""Which answers the spider of a user gets."""

from types import SimpleNamespace

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.extensions.corestats import CoreStats
from scrapy.http import HtmlResponse, Request, Response
from scrapy.settings import Settings

from smartcrawl.engine.own_spiders import brings_page
from smartcrawl.engine.project_settings import leave_out_unused_components
from smartcrawl.model.pages import Page, VisitAttempt
from smartcrawl.spiders.base import LISTING
from smartcrawl.spiders.files import FilesSpider
from smartcrawl.spiders.site import SiteSpider

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


class Mine:
    """A component of the user's own."""


def test_components_that_are_switched_off_leave_the_tables():
    """Scrapy would import them all the same."""
    cookies = "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"
    settings = Settings()
    settings.setmodule("smartcrawl.settings", priority="project")
    before = settings.get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES")

    leave_out_unused_components(settings)

    after = settings.get_component_priority_dict_with_base("DOWNLOADER_MIDDLEWARES")
    assert dict(after) == dict(before)
    assert None not in settings["DOWNLOADER_MIDDLEWARES"].values()
    assert cookies not in settings["DOWNLOADER_MIDDLEWARES_BASE"]


def test_a_component_that_is_switched_off_by_its_class_stays_so():
    settings = Settings({"EXTENSIONS_BASE": {"scrapy.extensions.corestats.CoreStats": 0}})
    settings.set("EXTENSIONS", {CoreStats: None, Mine: 3}, priority="project")

    leave_out_unused_components(settings)

    found = settings.get_component_priority_dict_with_base("EXTENSIONS")
    assert dict(found) == {Mine: 3}


@pytest.mark.parametrize(("spider", "is_listed"), [(SiteSpider, False), (FilesSpider, True)])
def test_only_a_spider_of_listed_files_has_the_listing(spider: type[Spider], is_listed: bool):
    settings = Settings()
    settings.setmodule("smartcrawl.settings", priority="project")

    crawler = Crawler(spider, settings)
    crawler.settings.update(settings)  # as Scrapy does for a crawler that it is given

    assert (LISTING in crawler.settings["EXTENSIONS"]) is is_listed
